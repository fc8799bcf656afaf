"""`labtui doctor`: on the real cluster by the command line, and its judgements one by one."""

import json
import re
import string
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from labtui.cluster.target import Overrides
from labtui.commands import terminal
from labtui.commands.cli import main
from labtui.commands.lab_folders import _ask_student
from labtui.doctor import checks
from labtui.doctor.checks import Check, Requirements, Status, check_qos
from labtui.doctor.examine import _check_paths, _check_trials, _profile_for_advice, resolve_hosts
from labtui.doctor.setup import set_up_site
from labtui.domain.errors import CannotConnect
from labtui.domain.profile import DATA_FOLDER, Profile, Queue
from labtui.session.settings import load_profile, parse_profile
from labtui.slurm.job_control import SbatchAnswer
from labtui.slurm.probe import CIFAR10, Association, PathFacts, PathsProbe, QosLimits, SlurmProbe, parse_quota
from labtui.slurm.remote_command import CommandResult
from labtui.slurm.site_probe import SitePartition, SiteProbe
from labtui.slurm.site_profile import Choices, site_profile
from labtui.slurm.states import sentences
from tests.real_cluster import Cluster, Student
from tests.session.small_job import make_lab
from tests.slurm.recorded import PROBE

PROFILE = Profile(
    id="p", title="p", login_hosts=("h",), gpu_queue="acc_debug", cpu_queue="acc_debug",
    queues=(Queue(name="acc_debug", devices="gpu", max_submit_per_user=1, max_minutes=120),),
)  # fmt: skip


OURS = replace(
    PROBE, associations=(Association(account="nct_000", qos=("acc_debug",)),),
    qos=(QosLimits(name="acc_debug", max_submit_per_user=1, max_wall_s=7200.0),),
)  # fmt: skip


def probe(**values: Any) -> SlurmProbe:
    return replace(OURS, **values)


def statuses(checks: Iterable[Check]) -> dict[str, str]:
    return {check.key: check.status for check in checks}


def test_every_finding_has_a_status_and_what_is_wrong_a_fix():
    for key, table in checks._check_texts().items():
        assert table["title"], key
        for seen, (status, sentence, *fix) in ((name, row) for name, row in table.items() if name != "title"):
            where, begins = (key, seen), ("{", *string.ascii_letters)
            assert status in get_args(Status) and sentence.startswith(begins), where
            assert bool(fix) or status not in ("warning", "problem"), where


def test_clocks_and_slurm_itself():
    assert checks.check_clock(1000.0, 1003.0).status == "ok"
    assert "behind" in checks.check_clock(2000.0, 1000.0).sentence
    assert checks.check_clock(None, 1000.0).status == "skipped"
    assert "fast on purpose" in checks.check_clock(1251.0, 1000.0, practice=True).sentence
    assert checks.worst_status(list(checks.check_slurm(probe()))) == "ok"
    assert statuses(checks.check_slurm(probe(version=None)))["slurm-version"] == "warning"
    bad = probe(missing=("x",), version=(17, 2), queue_problem="timed out", accounting_problem="refused")
    assert [*statuses(checks.check_slurm(bad)).values()] == ["problem", "warning", "problem", "warning"]


@pytest.mark.parametrize(("associations", "wanted", "status"), [
    *(((Association(account="a"),), "", "ok"), ((Association(account="a"),), "a", "ok")),
    ((Association(account="a"),), "nct_325", "problem"),
    *(((Association(account="a"), Association(account="b")), "", "warning"), ((), "a", "problem")),
    (None, "a", "skipped"),
])  # fmt: skip
def test_accounts(associations, wanted, status):
    assert checks.check_account(probe(associations=associations), wanted).status == status


def test_qos():
    closed = next(check_qos(probe(), Requirements(qos="acc_ehpc"), PROFILE))
    assert (closed.key, closed.status) == ("qos-acc_ehpc", "problem") and "acc_debug" in closed.sentence
    assert "1 per user in the queue, 120 min" in next(check_qos(probe(), Requirements(), PROFILE)).sentence
    assert statuses(check_qos(probe(associations=None), Requirements(), PROFILE)) == {"qos": "skipped"}
    other = replace(PROFILE, cpu_queue="gp_debug")  # which a lab without CPU runs does not name
    assert statuses(check_qos(probe(qos=None), Requirements(), other)) == {"qos-acc_debug": "ok"}
    unlisted = check_qos(probe(), Requirements(), replace(PROFILE, queues=()))
    assert [(check.status, "[[queues]]" in check.fix) for check in unlisted] == [("warning", True)]


IMAGE = PathFacts(path="/c", kind="file", readable=True)


def data(path: str = "/d", batches: Iterable[str] = CIFAR10, **sizes: int) -> PathFacts:
    """A data folder, whose files have the published size where nothing else is said."""
    return PathFacts(path=path, kind="dir", readable=True, sizes=dict.fromkeys(batches, 31_035_700) | sizes)


def checked(*facts: PathFacts, data_dir: str = "/d", container: str = "/c", account: str = "") -> list[Check]:
    """The checks of the places; without any facts the root cannot be written either."""
    paths = {fact.path: fact for fact in facts}
    found = PathsProbe(paths=paths, root_parent="/gpfs", root_writable=bool(facts), free_kib=10**7)
    others = {"/d": "/d2", "/c": "/c2"}
    wanted = Requirements(root="r", data_dir=data_dir, container=container, account=account)
    return list(checks.check_paths(found, wanted, others))


def test_places_and_quota():
    assert set(statuses(checked(data(), IMAGE)).values()) == {"ok"}
    for facts in (IMAGE, data(batches=CIFAR10[:3])):
        assert statuses(checked(facts))["data"] == "problem"
    closed = (PathFacts(path="/d", kind="dir"), PathFacts(path="/c", kind="file"))
    assert [each.status for each in checked(*closed)] == ["ok", "problem", "problem", "ok"]
    assert "/d2" in checked(data("/d2"), container="")[1].fix
    for folder, named in (("/d", False), ("/projects/nct_345/d", True)):
        root, missing, *_ = checked(data_dir=folder, container="", account="nct_345")
        assert root.sentence[:10] == "~/r cannot" and ("the account nct_345 in it" in missing.fix) is named
    for size, status in ((31_035_320, "ok"), (30_000_000, "problem"), (0, "problem")):
        assert statuses(checked(data(data_batch_3=size)))["data"] == status
    assert statuses(checked(data(**dict.fromkeys(CIFAR10, 31_034_999))))["data"] == "warning"
    text = (
        "\x1b[1mgroup nct_000\x1b[0m\n  filesystem type usage quota limit\n"
        "gpfs_projects GRP  980.5 GB  1 TB  1.1 TB  0 KB\ngpfs_scratch GRP 10 MB 0 KB 0 KB 0\nnonsense\n"
    )
    assert parse_quota(text) == {"gpfs_projects": pytest.approx(980.5 / 1024)}
    found = PathsProbe(root_writable=True, quota=text)
    assert statuses(checks.check_paths(found, Requirements(root="/r"), {}))["quota"] == "warning"


def test_what_was_not_looked_at_is_neither_fine_nor_missing():
    me = SimpleNamespace(user="me")
    line = SimpleNamespace(ask=lambda call: call.read(CommandResult(b"", b"", None)), endpoint=me)
    seen: dict[str, bool | str] = {}
    wanted = Requirements(data_dir="/d", container="/c", root="/r")
    found = list(_check_paths(line, PROFILE, wanted, probe(), seen.update))  # type: ignore[arg-type]
    assert statuses(found) == {"places": "skipped"} and seen == {}
    trials = list(_check_trials(line, PROFILE, wanted, probe(missing=("sbatch",))))  # type: ignore[arg-type]
    assert statuses(trials) == {"gpu-job": "skipped"}
    (none,) = _check_trials(line, replace(PROFILE, gpus_per_node=0), wanted, probe())  # type: ignore[arg-type]
    assert none.status == "skipped" and "no GPU in the queue acc_debug" in none.sentence
    line.ask = lambda call: call.read(CommandResult(b"PartitionName=acc", b"invalid partition", 1))
    (found,) = _check_trials(line, replace(PROFILE, gpus_per_node=0), wanted, probe())  # type: ignore[arg-type]
    assert "does not exist" in found.sentence and "here: acc. It is gpu_queue in the cluster" in found.fix
    line.ask = lambda call: call.read(CommandResult(b"", b"sbatch: error: I/O error writing script", 1))
    (found, _) = _check_trials(line, PROFILE, replace(wanted, cpu_runs=True), probe())  # type: ignore[arg-type]
    assert "often a full quota" in found.sentence
    assert (found.status, found.fix[:17]) == ("warning", "See Quota above. ")
    told = PathsProbe(paths={path: PathFacts(path=path) for path in (DATA_FOLDER, "/c")})
    line.ask, wanted = lambda _: told, replace(wanted, data_dir=DATA_FOLDER)
    _, data, *_ = _check_paths(line, PROFILE, wanted, probe(), seen.update)  # type: ignore[arg-type]
    assert "(data_dir in cluster.toml)" in data.fix, "where `init` says so, too"
    for each in sentences()["refusals"]:  # the doctor sends nobody to itself
        assert "`labtui doctor`" not in each["hint"].replace("in `labtui doctor`", "above")


@pytest.mark.parametrize(("answer", "status", "words"), [
    ((0, "3.11.4 2.15.0"), "ok", "has tensorflow (3.11.4 2.15.0)"),
    ((127, "bash: python9: command not found"), "problem", "no program python9"),
    ((1, "ModuleNotFoundError: No module named 'tensorflow'"), "problem", "has no tensorflow"),
    ((124, ""), "skipped", "no answer within"),
    ((1, "Programs are not run on login nodes"), "skipped", "Programs are not run"),
    (None, "skipped", "no answer"),
])  # fmt: skip
def test_the_python_of_the_job_scripts(answer, status, words):
    found = checks.check_python("python9", "tensorflow", answer)
    assert found.status == status and words in found.sentence


def test_another_host_gets_no_advice_of_the_site():
    """And no name server is no network that blocks."""
    site = load_profile("mn5")
    assert _profile_for_advice(resolve_hosts(site, Overrides()), site) is site
    other = _profile_for_advice(resolve_hosts(site, Overrides(host="login.example.org")), site)
    assert not (other.password_host or other.support or other.host_keys or other.data_hosts)
    for reason in ("name", "no-network"):
        error = CannotConnect("No name server answers.", "Go online.", reason=reason)
        found = checks.check_refusal(error, site, "me", {"dt1": False})
        assert "blocks" not in found.fix and found.fix == "Go online."


def test_what_is_no_answer_to_init_is_asked_again_and_every_open_queue_is_written(monkeypatch, capsys):
    two = probe(associations=(Association(account="a", qos=("q",)), Association(account="b")))
    found = (SitePartition(name="batch", default=True), SitePartition(name="gpu", max_seconds=28800.0))
    told = {"probe-slurm": two, "probe-site": SiteProbe(partitions=found)}
    told["test-only"] = SbatchAnswer(key="qos")
    typed = iter(["c", "a", "gpuu", "2", "nosuch", "q"])
    monkeypatch.setattr(terminal, "at_terminal", lambda: True)
    monkeypatch.setattr(terminal, "read_line", lambda _question: next(typed))
    line = SimpleNamespace(ask=lambda call: told[call.name])
    made = set_up_site(line, "h", Choices(framework="", data=""), _ask_student)  # type: ignore[arg-type]
    assert (made.profile.default_account, made.profile.gpu_queue, made.qos) == ("a", "gpu", "q")
    assert [each.max_minutes for each in map(made.profile.queue, ("gpu", "batch")) if each] == [480, None]
    assert capsys.readouterr().err.count("That is not valid: ") == 3


def doctor_checks(
    capsys: pytest.CaptureFixture[str], student: Student, *more: str, port: int = 0
) -> tuple[int, dict[str, dict[str, str]]]:
    """The doctor's exit status, and its checks by key."""
    options = [*student.options, f"--port={port or student.port}", "--json", *more]
    status = main(["doctor", "--cluster", "mn5", *options])
    return status, {check["key"]: check for check in json.loads(capsys.readouterr().out)["checks"]}


@pytest.mark.cluster
def test_nothing_is_wrong_and_nothing_is_changed_there(student, cluster, capsys):
    listing = "find . -printf '%p %s %T@\\n' | sort; squeue -h | wc -l"
    before = cluster.as_student(listing).out
    doctor_checks(capsys, student, "--root", "new folder/of mine")
    status, checks = doctor_checks(capsys, student)
    assert cluster.as_student(listing).out == before and status == 0, checks
    expected = "ssh-config key known-hosts login sftp login-shell clock slurm-commands slurm-version squeue"
    more = {"sacct", "gpu-job", "account", "qos-acc_debug", "root", "data", "container"}
    assert {*expected.split(), *more} <= set(checks)
    assert student.account in checks["account"]["sentence"]


@pytest.mark.cluster
@pytest.mark.parametrize(("more", "wrong"), [
    (["--account", "nct_325"], {"account", "root", "data", "container", "gpu-job"}),
    (["--qos", "acc_bsccase"], {"qos-acc_bsccase", "gpu-job"}),
    *((["--root", "/root/lab"], {"root"}), (["--user", "nobody-here"], {"login"})),
    *((["--identity", "/gone"], {"key", "login"}), (["--host-key", f"SHA256:{'A' * 43}"], {"host-key"})),
    *((["--port", "1"], {"network"}), (["--host", "bad host"], {"ssh-config"})),
])  # fmt: skip
def test_what_is_wrong_is_found(student, capsys, more, wrong):
    status, checks = doctor_checks(capsys, student, *more)
    assert status == 1
    assert {key for key, check in checks.items() if check["status"] == "problem"} == wrong
    assert all(checks[key]["fix"] and "`labtui doctor`" not in checks[key]["fix"] for key in wrong)


TROUBLES: dict[str, tuple[Callable[[Cluster], None], int, str, str, str]] = {
    # name: (what is done, the exit status, the check that finds it, its status, a word of its sentence or fix)
    "no accounting": (lambda cluster: cluster.daemon("slurmdbd", "stop"), 0, "sacct", "warning", ""),
    "a chatty .bashrc": (lambda cluster: cluster.set_bashrc("echo hello\n"), 1, "sftp", "problem", ".bashrc"),
    "a shell that exits": (lambda cluster: cluster.set_login_noise("echo come back later; exit 1\n"), 1, "login-shell",
                           "problem", "come back later"),
}  # fmt: skip


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("name", TROUBLES)
def test_trouble_of_the_cluster_is_found(student, cluster, capsys, name):
    act, status, key, found, word = TROUBLES[name]
    act(cluster)
    seen, checks = doctor_checks(capsys, student, "--account", student.account)
    assert (seen, checks[key]["status"]) == (status, found), checks
    assert checks[key]["fix"] and word in checks[key]["sentence"] + checks[key]["fix"]
    assert checks.get("account", {}).get("status") != "problem", "what could not be asked is not wrong"


@pytest.mark.cluster
def test_a_lab_folder_says_who_and_where(student, tmp_path, command):
    folder = make_lab(tmp_path / "lab", student, student.port, data_dir="/gone")
    report = command(["doctor", str(folder.path)], 1).out
    first, _, *rows = report.splitlines()
    assert "1 wrong" in first, "the verdict comes first"
    assert any(re.match("✘ Data +problem  The data folder /gone does not exist.", row) for row in rows)
    assert "    fix:" in report


def test_a_profile_takes_a_sites_words_as_data():
    hostile = 'gpu"\n[launch]\nsetup = ["rm -rf ~"]\x1b[2J'
    site = SiteProbe(
        partitions=(SitePartition(name=hostile, cpus=8, gpus=2, nodes_from=hostile),),
        config={"ClusterName": hostile}, modules=(hostile,), python=hostile, framework=True,
        data=(hostile,), refused={hostile: hostile},
    )  # fmt: skip
    accounts = (Association(account=hostile, qos=(hostile, "b")),)
    slurm = probe(version=None, version_text=hostile, associations=accounts, qos=None)
    text, _ = site_profile(hostile, slurm, site, Choices(), "2026-11-22")
    profile = parse_profile(text, "x")
    assert profile.title == profile.queues[0].name == profile.data_dir == profile.default_account == hostile
    assert profile.launch.setup == () and profile.launch.python == "python3"
    assert "\x1b" not in text and hostile in " ".join(profile.notes)
