"""The lab without an account, on the screens: nothing of it looks real."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from labtui.domain.model import RunPhase
from labtui.lab.plan import withheld_scripts
from labtui.practice.cluster import PracticeCluster
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
]

FACTOR = 25
"""Slow enough that an epoch of a running job is seen on a busy machine, too."""


@pytest.fixture
def cluster() -> Iterator[PracticeCluster]:
    with PracticeCluster.start(factor=FACTOR) as running:
        yield running


def lab_on(cluster: PracticeCluster, path: Path, edition: str = "hpc4ai-ch10") -> LabFolder:
    """A fresh lab folder on the practice cluster, as `labtui practice` makes it."""
    settings = Settings(edition=edition, **cluster.login.settings)
    return LabFolder.create(path, settings, withheld=withheld_scripts(load_edition(edition)))


def open_app(lab: LabFolder) -> tuple[LabApp, Session]:
    prompter = ScreenPrompter()
    session = Session.open(lab.path, prompter=prompter, start=False)
    return LabApp(session, prompter=prompter, factor=FACTOR), session


async def submit_here(pilot: Pilot[Any], app: LabApp) -> None:
    """Submit the plan of the task on the screen, as it is."""
    await pilot.press("s")
    await come_to(pilot, lambda: isinstance(app.screen, PlanScreen), "the plan")
    screen = app.screen
    assert isinstance(screen, PlanScreen)
    await come_to(pilot, lambda: len(screen.plan.previews) == len(screen.plan.drafts), "what it would cost")
    assert "practice" in text_of(app).splitlines()[0]
    await submit(pilot)


async def test_practice_and_real_runs_of_one_folder_are_never_in_one_chart_or_table(
    cluster: PracticeCluster, tmp_path: Path
) -> None:
    lab = lab_on(cluster, tmp_path / "lab")
    app, session = open_app(lab)
    async with app.run_test(size=(120, 40)) as pilot:
        await come_to(pilot, lambda: "● online" in text_of(app), "a connection")
        app.go_to_task("10.5")
        await submit_here(pilot, app)
        await come_to(
            pilot,
            lambda: (
                len(app.view_model.state.runs) == 3
                and all(run.phase is RunPhase.DONE for run in app.view_model.state.runs.values())
            ),
            "three runs done",
        )
    session.close()

    from labtui.session.settings import changed

    lab.save_settings(changed(lab.settings(), practice=False, profile="mn5"))
    from tests.tui.fed_session import finished_run, open_session, spec

    mixed = open_session(lab.path, start=False)
    mixed.requests = []
    mixed.feed(*finished_run("lt00000000000000real", "10.5", 11, spec(gpus=1), "91"))
    mixed.feed(*finished_run("lt00000000000000rea2", "10.5", 12, spec(gpus=2), "92"))
    app = LabApp(mixed, pane="charts")
    async with app.run_test(size=(120, 40)) as pilot:
        await come_to(pilot, lambda: bool(app.view_model.view().charts), "the real charts")
        assert not any(chart.practice for chart in app.view_model.view().charts)
        (speedup,) = (chart for chart in app.view_model.view().charts if chart.family == "speedup")
        assert [point.x for point in speedup.series[0].points] == [1, 2]
        await pilot.press("r")
        await come_to(pilot, lambda: text_of(app).count("practice run") == 3, "marked rehearsals")
    results = mixed.results()
    assert {row.practice for row in results.rows} == {True, False}
    for row in results.rows:
        sources = {
            mixed.state.submissions[mixed.state.runs[each.run_id].token].practice for each in row.members
        }
        assert sources == {row.practice}
    from tests.results.helpers import task_charts

    for chart in task_charts(results):
        assert chart.practice is ("practice" in chart.key)
    mixed.close()
