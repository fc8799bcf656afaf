"""What goes wrong in a rehearsal, seen on the screen: what stands there is true while it lasts, and it heals."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from labtui.domain.model import JobPhase, RunPhase
from labtui.lab.plan import withheld_scripts
from labtui.practice.cluster import PracticeCluster
from labtui.practice.incidents import IncidentPlan
from labtui.session.folder import LabFolder
from labtui.session.labs import load_edition
from labtui.session.session import Session
from labtui.session.settings import Settings
from labtui.tui.app import LabApp
from labtui.tui.messages import ScreenPrompter
from labtui.tui.screens.plan import PlanScreen
from tests.tui.waiting import come_to, submit, text_of

pytestmark = [
    pytest.mark.skipif(os.name == "nt" or shutil.which("bash") is None, reason="needs bash"),
    pytest.mark.timeout(900),
    pytest.mark.slow,
]


def over(app: LabApp) -> bool:
    """Everything is done, Slurm says so of each job, and nothing is wrong any more."""
    state = app.view_model.state
    return (
        bool(state.runs)
        and all(run.phase is RunPhase.DONE for run in state.runs.values())
        and all(item.job and item.job.phase is JobPhase.FINISHED for item in state.submissions.values())
        and not state.problems
    )


def says(pilot: Pilot[Any], words: str) -> Callable[[], bool]:
    """These words are on the screen, wherever its lines break."""
    return lambda: words in " ".join(text_of(pilot.app).split())


async def submit_here(pilot: Pilot[Any], app: LabApp) -> None:
    """Submit the plan of the task on the screen, as it is."""
    await pilot.press("s")
    await come_to(pilot, lambda: isinstance(app.screen, PlanScreen), "the plan")
    screen = app.screen
    assert isinstance(screen, PlanScreen)
    await come_to(pilot, lambda: len(screen.plan.previews) == len(screen.plan.drafts), "what it would cost")
    assert "practice" in text_of(app).splitlines()[0]
    await submit(pilot)


@pytest.mark.parametrize(
    ("name", "factor", "seen"),
    [
        ("drop", 25.0, ("○ offline",)),
        ("controller", 8.0, ("Unable to contact slurm controller", "unknown since")),
    ],
)
async def test_trouble_is_said_and_nothing_is_lost(
    name: str, factor: float, seen: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow enough that runs are still under way when it is said; the patience with a controller is shorter."""
    monkeypatch.setattr("labtui.slurm.job_evidence.UNKNOWN_AFTER_S", 0.0)
    edition, lessons = load_edition("hpc4ai-ch10"), []
    with PracticeCluster(factor=factor) as cluster:
        settings = Settings(edition=edition.id, **cluster.login.settings())
        lab = LabFolder.create(tmp_path / "lab", settings, withheld=withheld_scripts(edition))
        plan = IncidentPlan(cluster, [name], lambda lesson: lessons.append(lesson.name))
        prompter = ScreenPrompter()
        session = Session.open(lab.path, prompter=prompter, start=False)
        app = LabApp(session, prompter=prompter, factor=factor)
        async with app.run_test(size=(120, 40)) as pilot:
            await come_to(pilot, lambda: "● online" in text_of(app), "a connection")
            app.go_to_task("10.5")
            await submit_here(pilot, app)
            for words in seen:
                await come_to(pilot, says(pilot, words), f"{name}: {words}")
            cluster.controller.down_until = 0.0
            await come_to(pilot, lambda: over(app), f"healing after {name}")
            await come_to(pilot, lambda: "● online" in text_of(app), "the line again")
            assert "Traceback" not in text_of(app)
            await pilot.press("q")
        plan.close()
        session.close()
    assert lessons == [name]
    assert not session.folder.problem_log.exists(), session.folder.problem_log.read_text()
    assert [len(run.epochs) for run in app.view_model.state.runs.values()] == [5, 5, 5]
