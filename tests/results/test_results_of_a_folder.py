"""`labtui results` in a lab folder: what is stored there, beside whoever has it open."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from labtui.commands.cli import main
from labtui.domain.model import JobPhase
from labtui.domain.state import LabState
from labtui.session.folder import LabFolder
from labtui.session.opening import FolderLock
from labtui.session.settings import Settings
from labtui.session.store import Store
from tests import changes
from tests.changes import accepted, after, ended, observed, planned

from .helpers import epoch, spec

START = 1_763_718_000.0


def job(token: str, job_id: str, runs: list[tuple[int, int, float]], *, practice: bool = False) -> list:
    """A job whose runs (id, GPUs, steady seconds) each had a first epoch of 20 s and two steady ones."""
    plan = {run_id: spec(n) for run_id, n, _ in runs}
    over = {"start_time": START, "end_time": START + 180}
    steps = [
        planned(token, plan, START, form="one-job", job_name="ResNet50", gpus=4, cpus=80, practice=practice),
        accepted(token, job_id),
        observed(token, job_id, JobPhase.FINISHED, **over),
    ]
    clock = START
    for run_id, _, seconds in runs:
        for number, time in enumerate((20.0, seconds, seconds), start=1):
            clock += time
            sample = epoch(number, time, half_width=0.001, line=10 * run_id + number, ended_at=clock)
            steps.append(changes.epoch(run_id, sample))
        steps.append(ended(run_id, "completed"))
    return steps


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A lab folder with a job of 1 and 4 GPUs and a practice job of 2."""
    made = LabFolder.create(tmp_path / "lab", Settings(edition="hpc4ai-ch10", profile="mn5"))
    state = after(
        *job("aaa", "41", [(1, 1, 14.0), (2, 4, 5.0)]), *job("bbb", "42", [(3, 2, 1.0)], practice=True)
    )
    with contextlib.closing(Store(made.database_path)) as store:
        store.write(LabState(), state)
        store.write_readings(state, {"aaa": "41", "bbb": "42"})
    monkeypatch.chdir(made.path)
    return made.path


def report_of(capsys, *arguments):
    assert main(["results", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_rows_of_a_folder_name_their_logs(folder, capsys):
    rows = report_of(capsys)["rows"]
    assert [(row["n_gpus"], row["practice"]) for row in rows] == [(1, False), (4, False), (2, True)]
    assert rows[1]["speedup"]["value"] == pytest.approx(2.8)
    assert rows[1]["sources"][0] == {
        "path": "logs/ResNet50.41.out",
        "job_id": "41",
        "run": 2,
        "epoch": 2,
        "line": 22,
    }
    assert rows[2]["speedup"] is None, "a practice run has no real baseline"


def test_gpu_hours_of_the_folder(folder, capsys):
    cost = report_of(capsys)["cost"]
    assert cost["total"]["gpu_hours_allocated"] == pytest.approx(4 * 180 / 3600)
    assert cost["total"]["gpu_hours_used"] == pytest.approx((1 * 48 + 4 * 30) / 3600)
    assert [job["job_id"] for job in cost["jobs"]] == ["41"]
    assert main(["results", "--details"]) == 0
    assert "task 10.5: 0.20 allocated, 0.05 used" in capsys.readouterr().out


def test_the_samplers_file_lies_beside_the_epochs(folder, capsys):
    lines = [
        f"2025/11/21 09:{40 + second // 60:02d}:{second % 60:02d}.000, {gpu}, {busy}, 1, 1, 1, 1\n"
        for second in range(0, 80, 2)
        for gpu in range(4)
        for busy in [100 if gpu == 0 or second > 48 else 0]
    ]
    (folder / "logs" / "ResNet50.41.gpu.csv").write_text("".join(lines))
    use = report_of(capsys)["gpu_use"]
    assert [(each["n_gpus"], each["standing_by"], each["steady"]) for each in use] == [
        (1, 3, 1.0),
        (4, 0, 1.0),
    ]
    assert [each["epoch"] for each in use[0]["epochs"]] == [1, 2, 3]
    assert main(["results", "--details"]) == 0
    assert "3 of the job's GPUs were idle" in capsys.readouterr().out


def test_a_folder_that_is_open_elsewhere_is_read_all_the_same(folder, capsys):
    lock = FolderLock(LabFolder.open(folder).lock_path)
    assert lock.acquire()
    try:
        assert len(report_of(capsys)["rows"]) == 3
    finally:
        lock.release()


def test_an_empty_folder_has_no_rows_and_says_why(tmp_path, monkeypatch, capsys):
    made = LabFolder.create(tmp_path / "new", Settings(edition="hpc4ai-ch10", profile="mn5"))
    monkeypatch.chdir(made.path)
    assert main(["results"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and "a run needs two epochs" in captured.err


def test_a_folder_is_named_by_option_or_in_place_of_logs(folder, tmp_path, monkeypatch, capsys):
    here = report_of(capsys)["rows"]
    monkeypatch.chdir(tmp_path)
    for words in (["--folder", str(folder)], [str(folder)]):
        assert main(["results", *words, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["rows"] == here
        assert main(["plot", *words, "--list"]) == 0
        assert "epoch-time" in capsys.readouterr().out
    assert main(["results", "--folder", str(folder), "job.out"]) == 2
    assert "--folder" in capsys.readouterr().err
