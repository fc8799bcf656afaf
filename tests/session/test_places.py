"""What the cluster says about remote paths, asked once and kept; what a preview says of its files and commands.

`tests.commands.test_practice` runs the commands in real shells.
"""

import shlex
import subprocess

import pytest
from msgspec.structs import replace

from labtui.preflight.findings import apply_fix
from labtui.session.folder import read_remote
from labtui.session.labs import check_folder, gather_evidence, start_copy
from labtui.session.preview import ManualCommands, commands_of_cancel, commands_of_draft, quoted
from labtui.session.session import Session
from labtui.session.settings import with_changes, write_settings
from tests.session.conftest import Bench, accepted, draft, only

DATA = "/gpfs/projects/nct_000/cifar-10-batches-py"
CONTAINER = "/gpfs/projects/nct_000/tensorflow.sif"
PLACES = {"data_dir": DATA, "container": CONTAINER}
SCRIPT = f"""#!/bin/bash
#SBATCH --qos=acc_training
singularity exec --nv {CONTAINER} python ResNet50.py --data {DATA}
"""


def preview_rules(bench: Bench) -> set[str]:
    bench.session.look_at(bench.session.preview(draft(**PLACES), script=SCRIPT).unknown_paths)
    return {found.rule for found in bench.session.preview(draft(**PLACES), script=SCRIPT).findings}


@pytest.mark.parametrize("gone", [DATA, CONTAINER])
def test_the_preview_names_what_is_not_on_the_cluster(bench, gone):
    bench.cluster.missing = {gone}
    assert "path-missing" not in preview_rules(bench), "nobody was asked yet"
    bench.online()
    preview_rules(bench)
    bench.run(5, lambda: bool(bench.session.state.paths))
    assert "path-missing" in preview_rules(bench)
    bench.cluster.missing = set()
    bench.run(60)
    preview_rules(bench)
    bench.run(5, lambda: bench.session.state.paths[gone].there)
    assert "path-missing" not in preview_rules(bench)


def test_the_other_usual_place_is_looked_at_and_offered(bench):
    other = DATA.replace("/gpfs/projects/", "/gpfs/scratch/")
    bench.cluster.missing = {DATA, CONTAINER.replace("/gpfs/projects/", "/gpfs/scratch/")}
    bench.online()
    preview_rules(bench)
    bench.run(5, lambda: bool(bench.session.state.paths))
    findings = bench.session.preview(draft(**PLACES), script=SCRIPT).findings
    (found,) = [each for each in findings if each.rule == "path-missing"]
    assert f"It is at {other}" in found.effect and other in apply_fix(SCRIPT, found.fix)


def test_paths_are_asked_about_together_and_seldom_and_an_old_no_stops_nobody(bench):
    bench.online()
    for _ in range(5):
        preview_rules(bench)
        bench.run(3)
    assert [set(paths) for verb, paths in bench.cluster.calls if verb == "present"] == [
        {place for path in (DATA, CONTAINER) for place in (path, path.replace("/projects/", "/scratch/"))}
    ]
    bench.session.note_paths({DATA: False})
    assert "path-missing" in preview_rules(bench)
    bench.clock.sleep(3600)
    assert "path-missing" not in preview_rules(bench)


def test_what_was_seen_survives_a_restart_and_ticks_the_set_up(open_bench):
    bench = open_bench()
    path = bench.session.folder.settings_path
    write_settings(path, with_changes(bench.session.settings, **PLACES))

    def box() -> dict[str, str]:
        checks = check_folder(bench.session.folder, bench.session.edition, bench.session.state)
        (setup,) = (check for check in checks if check.task_id == "10.1")
        return {item.sentence: item.evidence for item in setup.items if item.met}

    sentence = "the data set and the software on the cluster can be reached"
    assert sentence not in box()
    bench.session.note_paths({DATA: True})
    assert sentence not in box(), "only one of the two was seen"
    bench.session.note_paths({CONTAINER: True})
    assert DATA in box()[sentence] and "2023-11-14" in box()[sentence], "the pretend clock's day"
    bench.session.close()
    bench = open_bench()
    assert sentence in box()
    bench.session.note_paths({DATA: False})
    assert sentence not in box()


def test_a_folder_for_smaller_gpus_plans_and_checks_smaller_batches(open_bench):
    bench = open_bench()
    settings = with_changes(bench.session.settings, max_per_gpu_batch=256)
    write_settings(bench.session.folder.settings_path, settings)
    bench.session.close()
    session = open_bench().session
    specs = [spec for each in session.drafts("10.5") for spec in each.runs]
    assert [(spec.n_gpus, spec.batch_size) for spec in specs] == [(1, 256), (2, 512), (4, 1024)]
    checks = check_folder(session.folder, session.edition, session.state)
    assert any("1,024" in item.sentence for check in checks for item in check.items)
    cpu = [spec for each in session.drafts("10.3") for spec in each.runs]
    assert all(spec.device == "cpu" and spec.batch_size > 0 for spec in cpu)


def test_a_preview_writes_and_sends_nothing(bench):
    accepted(bench)
    (bench.path / "scripts" / "ResNet50.py").write_text("edited\n")
    files = [path for path in bench.path.rglob("*") if path.suffix in {".py", ".slurm"}]
    before, calls = [path.read_bytes() for path in files], len(bench.cluster.calls)
    bench.session.preview(draft())
    assert len(bench.cluster.calls) == calls and before == [path.read_bytes() for path in files]
    assert files == [path for path in bench.path.rglob("*") if path.suffix in {".py", ".slurm"}]
    assert len(bench.session.state.submissions) == 1


def test_a_script_of_an_older_labtui_is_not_changed_by_the_student(bench, monkeypatch):
    """Neither in the preview, nor for a task that wants a script of the student's own."""
    folder = bench.session.folder
    newer = {"ResNet50.py": b"x = 'as a newer labtui brings it'\n"}
    monkeypatch.setattr("labtui.session.folder.read_remote", lambda name: newer.get(name, read_remote(name)))
    (folder.scripts / "ResNet50.py").write_bytes(read_remote("ResNet50.py").replace(b"\n", b"\r\n"))
    assert not any(file.changed for file in bench.session.preview(draft()).files)
    evidence = gather_evidence(folder, bench.session.edition, bench.session.state)
    assert evidence.originals["ResNet50.py"] == evidence.scripts["ResNet50.py"]
    start_copy(folder, "ResNet152.py", "ResNet50.py")  # what the student did not write gives way
    assert [file.path for file in bench.session.preview(draft()).files if file.changed] == ["ResNet50.py"]


def by_action(commands: tuple[ManualCommands, ...]) -> dict[str, tuple[str, ...]]:
    return {item.action: item.commands for item in commands}


@pytest.mark.parametrize("odd", ["it's \\ a\\\\", "it's! `x` $y", "'\"!\\", "\n'\n", "\\$'\\`", "'" * 5, ""])
def test_a_word_stays_one_word_in_a_shell(odd):
    printed = subprocess.run(["bash", "-c", f"printf %s {quoted(odd)}"], capture_output=True, check=True)
    assert printed.stdout.decode() == odd


def test_commands_are_quoted_as_a_person_would_and_options_stay_words(bench):
    (test,) = by_action(commands_of_draft(bench.session, draft(options=("--qos=a b",))))["test"]
    words = shlex.split(shlex.split(shlex.split(test)[-1])[-1])  # this shell, ssh's, and the login shell's
    assert words[-4:-1] == ["sbatch", "--test-only", "--qos=a b"]
    assert not bench.cluster.calls and not bench.session.state.submissions
    accepted(bench)
    item = only(bench)
    own = f"squeue --me --states=all --jobs=100 --format=%k:%Z | grep -q {item.token}"
    cancel = f"ssh -n -- login1 \"bash -lc '{own} && scancel 100'\""
    assert by_action(commands_of_cancel(bench.session, item)) == {"cancel": (cancel,)}
    (limit,) = commands_of_cancel(bench.session, item, 9)
    assert limit.text.startswith("# let Slurm end the job 9 minutes after its start\nssh ")
    assert f"{own} && scontrol update JobId=100 TimeLimit=9" in limit.text
    assert commands_of_cancel(bench.session, replace(item, job=None)) == ()


@pytest.mark.parametrize(("settings", "host"), [
    *(({}, "transfer1.bsc.es"), ({"host": "alogin2.bsc.es"}, "transfer1.bsc.es")),
    ({"host": "my-alias"}, "my-alias"),
    ({"host": "alogin1.bsc.es", "port": 2222}, "alogin1.bsc.es"),
])  # fmt: skip
def test_copies_go_to_the_sites_own_host_only_where_the_site_is_meant(bench, settings, host):
    changes = {"profile": "mn5", "account": "nct_000", "user": "u1", **settings}
    write_settings(bench.session.folder.settings_path, with_changes(bench.session.settings, **changes))
    bench.session.close()
    with Session.open(bench.path, start=False) as opened:
        make, copy = by_action(commands_of_draft(opened, draft()))["push"]
    assert shlex.split(copy)[-1].startswith(f"u1@{host}:") and "transfer1" not in make
