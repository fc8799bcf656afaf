"""The main job through the screens: a real sshd, a real Slurm, a real training, seen growing and after a restart."""

import re
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from labtui.domain.model import JobPhase, RunPhase
from labtui.session.folder import LabFolder
from labtui.session.session import Session
from labtui.session.settings import with_changes
from labtui.tui.app import LabApp
from labtui.tui.messages import ScreenPrompter
from labtui.tui.screens.modals import Ask
from labtui.tui.screens.plan import PlanScreen
from tests.commands.test_headless import check_mirrors
from tests.real_cluster import Student
from tests.remote.small_network import use_small_network
from tests.session.small_job import make_lab
from tests.tui.waiting import come_to, focus_at, ready, submit, text_of, types, until

pytestmark = pytest.mark.cluster

SMALL = "--device cpu --images 64 --image-size 32"


@pytest.fixture
def lab(tmp_path: Path, student: Student) -> LabFolder:
    """A lab folder on the real cluster, with nothing about the host key in it."""
    folder = make_lab(tmp_path / "lab", student, student.port)
    folder.save_settings(
        with_changes(folder.settings(), host_key="", root=f"{student.scratch}/{tmp_path.name}")
    )
    return folder


async def sees(pilot: Pilot[Any], words: str) -> None:
    await come_to(pilot, lambda: words in text_of(pilot.app), words)


def open_app(lab: LabFolder) -> tuple[LabApp, Session]:
    prompter = ScreenPrompter()
    session = Session.open(lab.path, prompter=prompter, start=False)
    return LabApp(session, prompter=prompter), session


def wait_to_be_seen(script: Path, seen: str) -> None:
    """Let a training that is over wait for a file `seen` with its job's number: then its epochs were seen before."""
    text, fit = script.read_text(), "    model.fit("
    head, _, rest = text.partition(fit)
    call, _, end = rest.partition("\n")
    wait = f"    while not os.path.exists({seen!r} + os.environ['SLURM_JOB_ID']):\n        time.sleep(0.1)\n"
    script.write_text(f"{head}    import os, time\n{fit}{call}\n{wait}{end}")


async def put(pilot: Pilot[Any], screen: PlanScreen, row: int, column: str, text: str) -> None:
    """Type a value into a cell of the plan."""
    focus_at(screen, row, column)
    await pilot.press("enter")
    await until(pilot, lambda: types(pilot.app), "the line to type into")
    await pilot.press(*[{" ": "space", "-": "minus"}.get(letter, letter) for letter in text], "enter")
    await until(pilot, lambda: pilot.app.screen is screen, "the table again")


def picture_of(app: LabApp) -> list[str]:
    """The rows of the runs pane, which must be the same after a restart."""
    return re.findall(r"✔ +\d+ +\d+ .*[\d.]+ s .*", text_of(app))


async def submit_two_replicas(pilot: Pilot[Any], app: LabApp) -> None:
    """The second size of 10.5, small."""
    app.go_to_task("10.5")
    await pilot.press("s")
    await come_to(pilot, lambda: ready(app.screen), "the plan")
    screen = app.screen
    assert isinstance(screen, PlanScreen)
    await put(pilot, screen, 1, "per_gpu", "8")
    await put(pilot, screen, 1, "options", SMALL)
    for row in (2, 0):
        focus_at(screen, row, "gpus")
        await pilot.press("d")
        await pilot.pause()
    await come_to(pilot, lambda: len(screen.plan.previews) == 1, "one job in the plan")
    await pilot.press("i")
    await sees(pilot, "✔ Slurm accepts this job")
    await submit(pilot)
    await come_to(pilot, lambda: app.view_model.state.runs, "a run in the state")


@pytest.mark.tensorflow
@pytest.mark.slow
async def test_the_lab_on_the_screens(lab, cluster, student, tmp_path, monkeypatch):
    home = tmp_path / "home"  # where an accepted host key is remembered
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    use_small_network(lab.path / "scripts")
    seen = f"{student.scratch}/{tmp_path.name}-seen-"
    wait_to_be_seen(lab.path / "scripts" / "ResNet50.py", seen)
    app, session = open_app(lab)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await come_to(
            pilot, lambda: isinstance(app.screen, Ask) and "SHA256:" in text_of(app),
            "the question about the host key",
        )  # fmt: skip
        await pilot.press(*"yes", "enter")
        await sees(pilot, "● online")
        await submit_two_replicas(pilot, app)
        await sees(pilot, "▶ running")
        await come_to(pilot, lambda: session.state.runs[1].epochs, "an epoch")
        (item,) = session.state.submissions.values()
        assert item.job is not None and item.job.phase is not JobPhase.FINISHED, "seen while it trains"
        cluster.outside(f"{seen}{item.job.job_id}").touch()
        await come_to(pilot, lambda: app.view_model.state.runs[1].phase is RunPhase.DONE, "the run's end")
        logs = lambda: session.state.submissions[item.token].logs.values()  # noqa: E731
        await come_to(pilot, lambda: all(log.complete for log in logs()), "whole logs")
        rows = (
            app.view_model.view().results.rows
        )  # without a GPU it is a small run: measured, and in no chart
        assert [(row.mark, row.n_gpus) for row in rows] == [("small", 2)]
        assert not app.view_model.view().charts
        assert {line.not_counted for line in app.view_model.view().lines} == {"small run"}
        await come_to(pilot, lambda: len(picture_of(app)) == 1, "a finished row")
        before = picture_of(app)
        await pilot.press("q")
    session.close()
    assert check_mirrors(cluster, lab.path) > 1000

    again, second = open_app(lab)
    async with again.run_test(size=(120, 40), notifications=True) as pilot:
        await come_to(pilot, lambda: picture_of(again) == before, f"the same view as before:\n{before}")
        (row,) = again.view_model.view().results.rows
        assert (row.epoch_seconds, row.throughput) == (rows[0].epoch_seconds, rows[0].throughput)
    second.close()


async def test_a_code_is_asked_on_the_screen_and_a_wrong_one_says_so(lab, student, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    lab.save_settings(with_changes(lab.settings(), port=student.code_port, host_key=student.host_key))
    app, session = open_app(lab)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await come_to(
            pilot, lambda: isinstance(app.screen, Ask) and app.focused, "the question about the code"
        )
        await pilot.press(*"000", "enter")
        await sees(pilot, "not logged in")
        assert "Traceback" not in text_of(app)
        await pilot.press("u")  # never tried again without the student
        await come_to(pilot, lambda: isinstance(app.screen, Ask) and app.focused, "the question again")
        await pilot.press(*student.code, "enter")
        await sees(pilot, "● online")
    session.close()
    for path in lab.path.rglob("*"):
        assert not path.is_file() or student.code.encode() not in path.read_bytes(), path
