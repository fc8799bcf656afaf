"""What goes wrong in a rehearsal, seen on the screen: what stands there is true while it lasts, and it heals."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from labtui.domain.model import JobPhase, RunPhase
from labtui.practice.cluster import PracticeCluster
from labtui.practice.incidents import IncidentPlan
from labtui.tui.app import LabApp
from tests.e2e.test_tui_practice import FACTOR, lab_on, open_app, submit_here
from tests.tui.waiting import come_to, text_of

pytestmark = [
    pytest.mark.skipif(os.name == "nt" or shutil.which("bash") is None, reason="needs bash"),
    pytest.mark.timeout(900),
    pytest.mark.slow,
]


@pytest.fixture
def cluster() -> Iterator[PracticeCluster]:
    with PracticeCluster.start(factor=FACTOR) as running:
        yield running


def over(app: LabApp) -> bool:
    """Everything is done, Slurm says so of each job, and nothing is wrong any more."""
    state = app.view_model.state
    return (
        bool(state.runs)
        and all(run.phase is RunPhase.DONE for run in state.runs.values())
        and all(item.job and item.job.phase is JobPhase.FINISHED for item in state.submissions.values())
        and not state.problems
    )


def says(pilot: Pilot[Any], *words: str) -> Callable[[], bool]:
    """These words are on the screen, wherever its lines break."""
    return lambda: all(word in " ".join(text_of(pilot.app).split()) for word in words)


async def session_with(
    cluster: PracticeCluster,
    path: Path,
    name: str,
    *seen: tuple[str, ...],
    known: Callable[[LabApp], bool] = lambda app: True,
    mend: Callable[[], None] = lambda: None,
) -> LabApp:
    """Run 10.5 while this goes wrong: the words of `seen` come one after another, then `known` holds.

    Then all heals (after `mend`).
    """
    lessons: list[str] = []
    plan = IncidentPlan(cluster, [name], lambda lesson: lessons.append(lesson.name))
    app, session = open_app(lab_on(cluster, path))
    async with app.run_test(size=(120, 40)) as pilot:
        await come_to(pilot, lambda: "● online" in text_of(app), "a connection")
        app.go_to_task("10.5")
        await submit_here(pilot, app)
        for words in seen:
            await come_to(pilot, says(pilot, *words), f"{name}: {words}")
        await come_to(pilot, lambda: known(app), f"{name}: what is known")
        mend()
        await come_to(pilot, lambda: over(app), f"healing after {name}")
        await come_to(pilot, lambda: "● online" in text_of(app), "the line again")
        assert "Traceback" not in text_of(app)
        await pilot.press("q")
    plan.close()
    session.close()
    assert lessons == [name]
    assert not session.folder.problem_log.exists(), session.folder.problem_log.read_text()
    return app


async def test_a_cut_line_is_said_and_nothing_is_lost(cluster: PracticeCluster, tmp_path: Path) -> None:
    app = await session_with(cluster, tmp_path / "lab", "drop", ("○ offline",))
    assert [len(run.epochs) for run in app.view_model.state.runs.values()] == [5, 5, 5]


async def test_a_silent_controller_is_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster is slower here and the patience shorter, so that runs are still under way when it is at an end."""
    monkeypatch.setattr("labtui.slurm.job_evidence.UNKNOWN_AFTER_S", 0.0)
    seen = ("Unable to contact slurm controller",), ("unknown since",)
    with PracticeCluster.start(factor=FACTOR / 3) as cluster:

        def mend() -> None:
            cluster.controller.down_until = 0.0

        await session_with(cluster, tmp_path / "lab", "controller", *seen, mend=mend)


async def test_without_accounting_a_job_settles(cluster: PracticeCluster, tmp_path: Path) -> None:
    """Runs are done by their logs. Left alone, accounting is asked so seldom that the test would take minutes."""

    def known(app: LabApp) -> bool:
        state = app.view_model.state
        jobs = [item.job for item in state.submissions.values()]
        return (
            all(run.phase is RunPhase.DONE for run in state.runs.values())
            and all(job and job.phase is JobPhase.SETTLING and "sacct failed" in job.reason for job in jobs)
            and " ".join(text_of(app).split()).count("% done") == 3
        )

    def mend() -> None:
        cluster.controller.accounting_down_until = 0.0

    await session_with(cluster, tmp_path / "lab", "accounting", known=known, mend=mend)


async def test_a_bad_end_is_explained(cluster: PracticeCluster, tmp_path: Path) -> None:
    plan = IncidentPlan(cluster, ["time-limit"])
    app, session = open_app(lab_on(cluster, tmp_path / "lab"))
    async with app.run_test(size=(120, 40)) as pilot:
        await come_to(pilot, lambda: "● online" in text_of(app), "a connection")
        app.go_to_task("10.5")
        await submit_here(pilot, app)
        await come_to(pilot, says(pilot, "failed: time limit", "reached its time limit"), "what it means")
        assert RunPhase.DONE not in [run.phase for run in app.view_model.state.runs.values()][1:]
        await pilot.press("q")
    plan.close()
    session.close()
