"""The commands on the practice cluster: finding a batch that fits, commands by hand, what was spent."""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labtui.commands import cli, screens
from labtui.practice.cluster import PracticeCluster
from labtui.session.folder import LabFolder
from labtui.session.labs import LABS, load_edition
from tests.commands.conftest import answer_of
from tests.conftest import TextTerminal
from tests.lab import walk
from tests.openssh import openssh
from tests.real_cluster.cluster import wait_until

NASTY = '/a b/it\'s $(touch PWNED) `touch PWNED` "q" ;&|<>*/é'
"""Below it every lab of these tests lies: hostile to a shell that reads it unquoted."""
LONG = ("--qos", "acc_training", "--time", "1200")
"""Twenty hours of the cluster's clock are minutes here: time enough for three trainings to start on a busy machine."""


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PracticeCluster]:
    factor = getattr(request, "param", 400)
    with PracticeCluster(tmp_path_factory.mktemp("practice") / "a cluster's", factor=factor) as running:
        yield running


@pytest.fixture
def folder(cluster: PracticeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabFolder:
    """Lab 5 on the practice cluster, with a ResNet152 of the student's own; it is the current directory."""
    settings = {**cluster.settings(), "root": f"{cluster.layout.scratch}/{tmp_path.name}{NASTY}"}
    made = walk.folder_of(tmp_path / "lab", "cc-mei-2025-lab5", **settings)
    text = (made.scripts / "ResNet50.py").read_text().replace("resnet_v2.ResNet50V2", "resnet_v2.ResNet152V2")
    (made.scripts / "ResNet152.py").write_text(text)
    monkeypatch.chdir(made.path)
    return made


def batches(rows: Any) -> list[tuple[int, int, str]]:
    return [(row["n_gpus"], row["batch_size"], row["outcome"]) for row in rows["runs"]]


def test_out_of_memory_halves_the_batch_on_all_sizes_once_a_terminal_said_yes(
    folder, capsys, command, monkeypatch
):
    assert cli.main(["submit", "7", "--batch-size", "2048", "--wait", *LONG]) == 0
    captured = command(["watch"], 1)
    assert captured.out.count("Halve the batch size") == 3, "each run says its advice once"
    told_of_runs = [line for line in captured.out.splitlines() if line.startswith("run ")]
    assert told_of_runs and all("(practice)" in line for line in told_of_runs)
    listed = command(["queue", "--offline"]).out
    rows = [(line.split()[5], line.split().count("practice")) for line in listed.splitlines()[1:]]
    assert "labtui retry 1" in listed and rows == [("2,048", 1)] * 3
    assert all(row["practice"] for row in answer_of(capsys, "queue", "--offline")["runs"])
    (log,) = answer_of(capsys, "parse", *map(str, folder.path.glob("logs/*.1.out")))["files"]
    assert log["runs"] and all(run["practice"] for run in log["runs"])
    monkeypatch.setattr(sys, "stdin", TextTerminal("n\n"))
    assert "Submit this?" in command(["retry", "2"], 1).err
    assert len(answer_of(capsys, "queue", "--offline")["runs"]) == 3
    monkeypatch.setattr(sys, "stdin", TextTerminal("y\n"))
    captured = command(["retry", "2", "--wait", *LONG[2:]])
    assert "a batch of 1,024 per GPU" in captured.err and "GPU-hours" in captured.err
    assert cli.main(["watch"]) == 0
    rows = answer_of(capsys, "queue", "--offline")
    assert batches(rows) == [
        *((n, 2048 * n, "oom") for n in (1, 2, 4)), *((n, 1024 * n, "completed") for n in (1, 2, 4)),
    ]  # fmt: skip
    bill = rows["spent"]
    assert bill["practice"] and bill["tasks"]["7"]["jobs"] == 2
    assert bill["tasks"]["7"]["allocated"] > bill["tasks"]["7"]["used"] > 0
    assert [row["gpu_hours_trained"] > 0 for row in rows["runs"]] == [False] * 3 + [True] * 3
    assert answer_of(capsys, "check", "7", code=1)["spent"]["total"]["jobs"] == 2


def test_a_submission_that_a_full_disk_keeps_back_says_where_to_look(cluster, folder, command):
    cluster.controller.full_until = cluster.clock.now() + 1e9
    said = command(["submit", "7", "--gpus", "1", *LONG])
    cluster.controller.full_until = 0.0
    assert "waiting  The cluster could not write" in said.out
    assert "hint: `labtui doctor` shows the quota" in said.err


def by_hand(folder: Path, text: str) -> str:
    """Run the printed commands in the lab folder (logging in left out); what they said.

    ssh and scp know no host but those they meet, and read no configuration of the person at this computer.
    """
    commands = [line for line in text.splitlines() if re.match(r"(ssh|scp) .*(bash -lc|:)", line)]
    assert commands, text
    programs = folder.parent / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("ssh", "scp"):
        (programs / name).write_text(
            f"#!/bin/sh\nexec {openssh(name)} -F none -o UserKnownHostsFile={folder.parent / 'known_hosts'} "
            '-o StrictHostKeyChecking=accept-new -o LogLevel=ERROR "$@"\n'
        )
        (programs / name).chmod(0o755)
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(commands)], stdin=subprocess.DEVNULL, text=True,
        capture_output=True, cwd=folder, env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"},
        timeout=480, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("cluster", [20], indirect=True)  # whose job lives until it is cancelled
def test_submit_and_cancel_show_commands_that_do_the_same_by_hand(folder, cluster, capsys, command):
    one = ["submit", "7", "--gpus", "1", "--epochs", "200", "--batch-size", "512"]
    shown = command([*one, "--show-commands"]).out
    number = re.search(r"^\d+$", by_hand(folder.path, shown), re.MULTILINE)
    assert "ResNet152-1gpu" in shown and number
    cluster.controller.cancel(int(number[0]), cluster.clock.now())  # the queue takes one job of a user
    assert answer_of(capsys, "queue", "--offline")["runs"] == [], "by hand is by hand"
    (row,) = answer_of(capsys, *one, "--show-commands")["by_hand"]
    assert [item["action"] for item in row["commands"]] == ["push", "test", "submit"]
    command([*one, "--yes", "--wait"])
    command(["submit", "7", "--gpus", "2", "--epochs", "5", "--batch-size", "512", "--yes"])
    assert "no job to cancel" in command(["cancel", "2", "--show-commands"]).err
    by_hand(folder.path, command(["cancel", "1", "--after", "60", "--show-commands"]).out)
    by_hand(folder.path, command(["cancel", "1", "--show-commands"]).out)
    assert not [*folder.path.parent.rglob("PWNED"), *cluster.layout.root.rglob("PWNED")]
    wait_until(
        lambda: answer_of(capsys, "queue")["runs"][0]["job"]["phase"] == "finished",
        what="the job's end", deadline_s=480,
    )  # fmt: skip


def test_an_own_job_by_hand_has_the_files_and_log_folders_of_a_submission(folder, cluster, command):
    (folder.path / "src").mkdir()
    (folder.path / "src" / "train.py").write_text("print('mine')\n")
    head = "#!/bin/bash\n#SBATCH -q acc_training -c 20 --gres=gpu:1 -t 10 -o logs/%x.%j.out\n"
    (folder.path / "job.slurm").write_text(f"{head}cd src && python3 train.py --epochs 2\n")
    by_hand(folder.path, command(["submit", "job.slurm", "--show-commands"]).out)
    command(["submit", "job.slurm", "--yes", "--wait"])
    root = Path(folder.settings().root)
    found = ({path.name for path in each.parent.rglob("*.*")} for each in root.rglob("own-job.slurm"))
    one, other = ({name for name in names if not name.endswith(("out", "labtui"))} for names in found)
    assert one == other >= {"train.py", "job.slurm", ".keep", "ResNet50.py"}


def refused(capsys: pytest.CaptureFixture[str], place: Path) -> str:
    capsys.readouterr()
    assert cli.main(["practice", "--serve", "--keep", str(place)]) == 2
    return capsys.readouterr().err


def test_a_session_is_not_kept_among_other_files(tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("mine")
    text = refused(capsys, tmp_path)
    assert "is not empty, and no practice session was kept there" in text
    assert f"labtui practice --keep {tmp_path}/practice" in text
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"], "nothing is touched"
    assert "thesis.tex: Not a directory." in refused(capsys, tmp_path / "thesis.tex")
    (programs := tmp_path / "cluster" / "bin").mkdir(parents=True)
    (programs / "sbatch").write_text("")
    walk.folder_of(tmp_path / "lab", "hpc4ai-ch10", profile="mn5", host="alogin1.bsc.es", user="nct01000")
    assert "no practice session was kept there" in refused(capsys, tmp_path), (
        "a real lab beside a kept cluster"
    )


def test_a_kept_session_goes_on_with_its_own_lab(cluster, tmp_path):
    asked = [argparse.Namespace(keep=str(tmp_path), lab=lab) for lab in ("sa-miri-2025-pi", screens.LAB)]
    first, again = (screens._prepare_lab_folder(each, cluster) for each in asked)
    settings = LabFolder.open(again).settings()
    assert (first, settings.edition) == (again, "sa-miri-2025-pi")
    assert settings.data_dir == str(cluster.layout.data_sets)


def test_an_edition_named_from_here_is_found_in_the_practice_folder(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_bytes((LABS / f"{screens.LAB}.toml").read_bytes())
    asked = argparse.Namespace(keep=str(tmp_path / "kept"), lab="mine.toml")
    folder = LabFolder.open(screens._prepare_lab_folder(asked, cluster))
    assert load_edition(folder.settings().edition, folder).id == screens.LAB
