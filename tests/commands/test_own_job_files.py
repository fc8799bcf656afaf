"""`labtui lint`, and job files of one's own: those that the course prints, and one that is submitted with reasons."""

import os
import re
from pathlib import Path

import pytest

from labtui.commands.cli import main
from labtui.session.folder import LabFolder
from labtui.session.settings import forget_trust, with_changes
from tests.commands.conftest import answer_of
from tests.real_cluster import Student

JOB = """#!/bin/bash
#SBATCH --job-name=mine
#SBATCH --account=nct_000
#SBATCH --qos=acc_debug
#SBATCH --gres=gpu:2
#SBATCH --cpus-per-task=40
#SBATCH --time=00:20:00
#SBATCH --output=mine.%j.out
python train.py --epochs 5 --batch_size 2048 --n_gpus 2
"""
PRINTED = Path(__file__).parent.parent / "fixtures" / "published" / "jobs"
PRINTED_TASKS = {
    "lab5-ResNet50_seq.CPU": "10.3", "lab5-ResNet50_seq.GPU": "10.4", "chapter10-ResNet50": "10.5",
}  # fmt: skip
"""Those that are run: the others of `PRINTED` are the same jobs in another document."""
DASHES = "#!/bin/bash\npython ResNet50.py \u2013epochs 3\n"
BROKEN = JOB.replace("#SBATCH --time", "#SBATCH -- nodes=1\n#SBATCH \u2014time")


@pytest.fixture
def folder(folder: LabFolder) -> LabFolder:
    """An empty lab folder with a script beside its settings."""
    (folder.path / "train.py").write_text("print('training')\n")
    return folder


def found(capsys: pytest.CaptureFixture[str], *arguments: str, code: int) -> list[dict[str, object]]:
    (file,) = answer_of(capsys, "lint", "job.slurm", *arguments, code=code)["files"]
    return file["findings"]


def test_a_good_file_is_a_yes_and_a_broken_one_a_no(folder, capsys, command):
    path = folder.path / "job.slurm"
    path.write_text(JOB)
    assert [each for each in found(capsys, code=0) if each["severity"] == "error"] == []
    path.write_text(JOB.replace("#SBATCH --gres=gpu:2\n", "").replace(" --n_gpus 2", ""))
    for gpus, code in (("0", 0), ("1", 1)):  # the student says more than the job gets
        told = command(["submit", "job.slurm", "--gpus", gpus, "--dry-run", "--offline"], code).out
        assert ("error: The job gets no GPU" in told) is bool(code)
    path.write_text(BROKEN)
    errors = [each for each in found(capsys, code=1) if each["severity"] == "error"]
    assert {(each["rule"], each["line"]) for each in errors} >= {("lone-dashes", 7)}
    shown = command(["lint", "job.slurm"], 1)
    assert "job.slurm:7: error: " in shown.out and "[lone-dashes]" in shown.out and "error" in shown.err


def test_what_cannot_be_checked_is_named(folder, tmp_path, monkeypatch, capsys, command):
    (tmp_path / "job.slurm").write_text(JOB.replace("train.py", "ResNet50.py"))
    monkeypatch.chdir(tmp_path)
    main(["lint", "job.slurm"])
    assert "no site's rules are checked" in capsys.readouterr().err
    main(["lint", "job.slurm", "--folder", str(folder.path)])
    assert "no site's rules are checked" not in capsys.readouterr().err
    assert main(["lint", "job.slurm", "--folder", "nowhere"]) == main(["lint"]) == 2
    assert main(["key", "--identity", "new"]) == 2
    assert re.search("No file is named.*mn5 is used", capsys.readouterr().err, re.DOTALL)
    (tmp_path / "my.toml").write_text('[lab]\nedition = "x"\n')
    assert main(["lint", "my.toml"]) == 1 and capsys.readouterr().out.count("\n") == 1, "it is no job script"
    assert main(["lint", "--rules"]) == 0 and "lone-dashes" in capsys.readouterr().out
    Path("data.slurm").write_bytes(bytes(3_000_000))
    not_read = {"none.slurm": "No such", "data.slurm": "it is larger", os.devnull: "it is not a regular"}
    for name, says in not_read.items():
        assert re.search(rf"cannot be read: {says}.*\n  hint: Check", command(["lint", name], 2).err)
    assert "not allowed with" in command(["lint", "x", "--diff", "--json"], 2).err


def test_what_stands_on_the_command_line_of_sbatch_counts(folder, capsys):
    (folder.path / "job.slurm").write_text(JOB.replace("nct_000", "nct_999"))
    assert any("nct_999" in str(each["effect"]) for each in found(capsys, code=1))
    assert not any("nct_999" in str(each["effect"]) for each in found(capsys, "--account", "nct_000", code=0))
    assert [each["line"] for each in found(capsys, "--account", "nct_998", code=0)] == [0], "no line of it"
    (folder.path / "job.slurm").write_text(JOB.replace("train.py", "ResNet50.py"))
    more = ("--partition", "old", "--dry-run", "--offline", "--force", "a test")
    assert answer_of(capsys, "submit", "job.slurm", *more)["submissions"][0]["partition"] == "old"
    for account, told in (("nosuch", [("account", "warning")]), ("nct_000", [])):
        for what in ("job.slurm", "10.5"):
            (row, *_) = answer_of(capsys, "submit", what, "--account", account, *more[2:4])["submissions"]
            assert [(each["rule"], each["severity"]) for each in row["findings"]] == told


def test_a_file_without_account_and_queue_gets_the_lab_folders_also_in_lint(folder, capsys, command):
    folder.save_settings(with_changes(folder.settings(), qos="acc_training"))
    text = re.sub("#SBATCH --(account|qos).*\n", "", JOB)
    (folder.path / "job.slurm").write_text(text)
    assert "account" not in {each["rule"] for each in found(capsys, code=0)}
    said = command(["submit", "job.slurm", "--dry-run", "--offline"]).out
    assert "[account]" not in said and "1 run, train.py · 2 GPUs, 5 epochs (the log will" in said
    assert "limit 20 min, expected time not known (acc_training, nct_000)\n# sbatch gets --acc" in said
    text = text.replace("--gres", "-p acc --gres").replace("--n_gpus 2", "")
    (folder.path / "job.slurm").write_text(text)
    said = command(["submit", "job.slurm", "--dry-run", "--offline"]).out
    assert "(acc, nct_000)" in said and "GPUs used" in said


def test_a_difference_is_shown_and_only_fix_changes_the_file(folder, capsys, command):
    path = folder.path / "job.slurm"
    path.write_text(JOB.replace("#SBATCH --time", "#SBATCH \u2014time"))
    before = path.read_text()
    main(["lint", "job.slurm", "--diff", "--fix"])
    assert "+#SBATCH --time=00:20:00" in capsys.readouterr().out and path.read_text() == before
    assert "changed" in command(["lint", "job.slurm", "--fix"]).err and path.read_text() == JOB
    path.write_text(JOB.replace("train.py", "none.py"))
    assert (
        "unchanged, as no finding in its own files has a fix"
        in command(["lint", "job.slurm", "--fix"], 1).err
    )
    assert "Nothing was submitted. Correct this, or" in command(["submit", "job.slurm"], 1).err


def test_a_file_of_a_lab_folder_finds_the_folders_scripts_wherever_it_lies(folder, tmp_path, command):
    """Submitted, it is sent beside them."""
    path = folder.path / "mine" / "job.slurm"
    path.parent.mkdir()
    (folder.scripts / "train.py").write_text("print('training')\n")
    path.write_text(JOB.replace("mine.%j.out", "results/%x.%j.out"))
    assert main(["lint", "mine/job.slurm"]) == 0
    path.write_text(path.read_text().replace("python train.py", "python ../scripts/train.py"))
    assert "fix: write train.py" in command(["lint", "mine/job.slurm"], 1).out
    other = LabFolder.create(tmp_path / "other", with_changes(folder.settings(), account="nct_111"))
    (other.scripts / "job.slurm").write_text(JOB.replace("nct_000", "nct_111"))
    (other.scripts / "train.py").write_text("print('training')\n")
    assert "nct_111" not in command(["lint", "../other/scripts/job.slurm"]).out, "its own lab's account"


def test_what_bash_cannot_read_is_named_and_a_folder_that_exists_is_seen(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('training')\n")
    path = tmp_path / "job.slurm"
    path.write_text(JOB.replace("mine.%j.out", "results/%x.%j.out") + "if true; then\n")
    rules = {(each["rule"], each["line"]) for each in found(capsys, code=1)}
    assert rules >= {("bash-syntax", 11), ("output-folder", 8)}
    (tmp_path / "results").mkdir()
    path.write_text(JOB.replace("mine.%j.out", "results/%x.%j.out"))
    assert not {each["rule"] for each in found(capsys, code=0)} & {"bash-syntax", "output-folder"}


@pytest.mark.parametrize("case", ["beside", "link", "received", "elsewhere"])
def test_a_fix_changes_the_file_that_was_checked_or_none(folder, tmp_path, command, case):
    """A script of the lab folder is not the file of its name beside the job file."""
    place = tmp_path if case == "elsewhere" else folder.path
    helper, mine, beside = folder.scripts / "helper.sh", tmp_path / "mine.sh", place / "helper.sh"
    job = place / "job.slurm"
    job.write_text(JOB.replace("python train.py", "bash scripts/helper.sh\npython train.py"))
    helper.write_text(DASHES)
    helper.chmod(0o750)
    mine.write_text("mine\n")
    (beside.symlink_to if case == "link" else beside.hardlink_to)(mine)
    assert command(["lint", str(job)], 1).out.count("scripts/helper.sh:2: error: Word processors") == 1
    if case == "received":
        forget_trust(folder.path)
        assert "is not trusted: it can only be read" in command(["lint", "--fix", str(job)], 2).err
        assert helper.read_text() == DASHES
    said = command(["lint", "--fix", "--trust", str(job)], int(case == "elsewhere")).err
    changed = "scripts/helper.sh: changed" in said, helper.read_text() != DASHES
    assert changed == (case != "elsewhere",) * 2 and helper.stat().st_mode & 0o777 == 0o750
    assert mine.read_text() == "mine\n" and beside.samefile(mine)


def test_no_fix_through_a_link_and_no_profile_outside_a_stranger_s_folder(folder, tmp_path, command):
    real = tmp_path / "real.slurm"
    for path, text in ((real, BROKEN + "bash helper.sh\n"), (tmp_path / "helper.sh", DASHES)):
        path.write_text(text)
    Path("job.slurm").symlink_to(real)
    assert f"Name the file that it points to: {real}" in command(["lint", "--fix", "job.slurm"], 2).err
    assert f"{tmp_path}/helper.sh:2: error" in command(["lint", "job.slurm"], 1).out
    assert (real.read_text(), real.with_name("helper.sh").read_text()) == (
        BROKEN + "bash helper.sh\n",
        DASHES,
    )
    folder.settings_path.write_text(folder.settings_path.read_text().replace('"mn5"', f'"{real}"'))
    forget_trust(folder.path)
    assert "not trusted and names a file outside it" in command(["lint", "train.py"], 2).err


def test_errors_are_overridden_with_a_reason_which_is_kept(folder, capsys, command):
    (folder.path / "job.slurm").write_text(JOB.replace("#SBATCH --time", "#SBATCH -- n=1\n#SBATCH --time"))
    submit = ["submit", "job.slurm", "--task", "10.5", "--yes"]
    shown = command(submit, 1)
    assert "Correct this (`labtui lint --fix FILE`)" in shown.err and "--force REASON" in shown.err
    assert main([*submit, "--force"]) == 2
    main([*submit, "--force", "our [site] \x1bknows it"])
    capsys.readouterr()
    (run,) = answer_of(capsys, "queue", "--offline")["runs"]
    (kept,) = run["submission"]["accepted"]
    assert (kept["rule"], kept["line"], kept["reason"]) == ("lone-dashes", 7, "our [site]  knows it")


@pytest.mark.cluster
def test_what_a_job_sources_and_runs_elsewhere_is_looked_for_on_the_cluster(lab, cluster, student):
    cluster.as_student("mkdir -p ~/there/bin && touch ~/there/bin/activate")
    lines = "source ~/gone/bin/activate\nsource ~/there/bin/activate\ncd /tmp && python nowhere.py\n"
    (lab.folder / "job.slurm").write_text(f"{JOB.partition('python')[0]}{lines}")
    (job,) = lab.json("submit", "job.slurm", "--dry-run")["submissions"]
    told = [each["effect"] for each in job["findings"] if each["rule"] == "path-missing"]
    assert told == [f"{path} is not on the cluster." for path in ("~/gone/bin/activate", "/tmp/nowhere.py")]


@pytest.mark.cluster
def test_the_job_files_of_the_course_run_as_printed_and_are_charted(lab, cluster, student):
    """Only the account is filled in, and what a PDF tears: a path, a command's options. `lint --fix` does both."""
    shared = cluster.outside(f"/gpfs/scratch/{student.account}/{Path(student.container).name}")
    shared.write_bytes(b"SIF_FAKE")  # where Lab 5 has it
    names = [path.name for path in sorted(PRINTED.glob("*.slurm"))]
    for name in names:
        (lab.folder / "slurm" / name).write_bytes((PRINTED / name).read_bytes())
    lab("lint", "--fix", *(f"slurm/{name}" for name in names))
    for name in names:
        assert _words(lab.folder / "slurm" / name) == _words(PRINTED / name, student)
    for name, task in PRINTED_TASKS.items():
        lab("submit", f"slurm/{name}.slurm", "--task", task, "--yes")
    lab("watch")
    queue = lab.json("queue", "--offline")["runs"]
    assert len(queue) == 1 + 1 + 3 and {run["outcome"] for run in queue} == {"completed"}
    rows = lab.json("results")["rows"]
    assert {(row["model"], row["n_gpus"]) for row in rows} == {("ResNet50", size) for size in (0, 1, 2, 4)}
    assert all(row["speedup"]["value"] > 0 for row in rows if row["n_gpus"] in (1, 2, 4))
    lab("plot", "--format", "svg", "--out", str(lab.folder / "plots"))
    assert (lab.folder / "plots" / "speedup-ResNet50.svg").is_file()


def _words(path: Path, student: Student | None = None) -> str:
    """A job file's text without blanks and continuations; with a student, as it reads for their account."""
    text = path.read_text()
    if student is not None:
        text = re.sub(r"\bnct_XXX\b|<account>", student.account, text)
        text = text.replace("/gpfs/<path>", f"/gpfs/projects/{student.account}")
        text = text.replace("--epochs 1 ", "--epochs 2 ")
    return "".join(text.replace("\\\n", "").split())
