"""The lab without an account: keyboard only, from a fresh folder to a ticked box, and nothing of it looks real."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
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
from labtui.tui.screens.prompts import AskReason, Confirm
from labtui.tui.widgets.chart import ChartView
from tests.tui.waiting import text_of

pytestmark = [
    pytest.mark.skipif(os.name == "nt" or shutil.which("bash") is None, reason="needs bash"),
    pytest.mark.timeout(900),
]

DEADLINE_S = 480.0
FACTOR = 25
"""Slow enough that an epoch of a running job is seen on a busy machine, too."""
CHARTS = ("epoch-time", "throughput", "speedup", "efficiency")


async def come_to(pilot: Pilot[Any], condition: Callable[[], Any], what: str) -> None:
    """Wait for something the practice cluster does."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        await pilot.pause(0.2)
        if condition():
            return
    raise AssertionError(f"it never came to: {what}\n{text_of(pilot.app)}")


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


async def submit_here(pilot: Pilot[Any], app: LabApp, reason: str = "") -> None:
    """The plan of the task on the screen, as it is; with a `reason`, its one finding is overridden."""
    await pilot.press("s")
    await come_to(pilot, lambda: isinstance(app.screen, PlanScreen), "the plan")
    screen = app.screen
    assert isinstance(screen, PlanScreen)
    await come_to(pilot, lambda: len(screen.previews) == len(screen.drafts), "what it would cost")
    if reason:
        await pilot.press("e")
        await come_to(pilot, lambda: "(O: override)" in text_of(app), "a finding")
        await pilot.press("O")
        await come_to(pilot, lambda: isinstance(app.screen, AskReason), "the question for a reason")
        await pilot.press(*reason, "enter")
        await come_to(pilot, lambda: f"Overridden: {reason}" in text_of(app), "the overridden finding")
    assert "practice" in text_of(app).splitlines()[0]
    await pilot.press("s")
    await come_to(pilot, lambda: isinstance(app.screen, Confirm), "the last question")
    await pilot.press("y")


async def answer_all(pilot: Pilot[Any], app: LabApp, questions: int) -> None:
    """Type an answer below every question."""
    await pilot.press("a")
    for number in range(questions):
        await pilot.press("ctrl+n")
        await pilot.press(*f"answer{number}")
    await pilot.press("escape")
    await come_to(
        pilot,
        lambda: (
            f"answer{questions - 1}"
            in (app.session.folder.path / f"answers/{app.view_model.task_id}.md").read_text()
        ),
        "stored answers",
    )


async def test_from_a_fresh_folder_to_a_ticked_box(
    cluster: PracticeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def comment_out(self: LabApp, path: Path) -> bool:
        path.write_text(path.read_text().replace("#SBATCH --nodes=1", "# SBATCH --nodes=1"))
        return True

    monkeypatch.setattr(LabApp, "open_editor", comment_out)
    app, session = open_app(lab_on(cluster, tmp_path / "lab"))
    async with app.run_test(size=(120, 40)) as pilot:
        await come_to(pilot, lambda: "● online" in text_of(app), "a connection")
        await pilot.press("down", "down", "down", "down")
        await come_to(pilot, lambda: app.view_model.task_id == "10.5", "task 10.5")
        await submit_here(pilot, app, reason="one node anyway")
        await come_to(pilot, lambda: "▶ epoch" in text_of(app), "an epoch while the job runs")
        runs = lambda: list(app.view_model.state.runs.values())  # noqa: E731
        await come_to(
            pilot,
            lambda: len(runs()) == 3 and all(run.phase is RunPhase.DONE for run in runs()),
            "three runs done",
        )
        await pilot.press("c")
        views = lambda: [app.screen.query_one(f"#chart-{key}", ChartView) for key in CHARTS]  # noqa: E731
        await come_to(
            pilot,
            lambda: all(view.spec is not None and len(view.spec.series[0].points) == 3 for view in views()),
            "four charts with three points",
        )
        assert all(view.spec.practice for view in views())
        await come_to(pilot, lambda: text_of(app).count("practice") >= 3, "the mark on header and charts")
        assert f"practice {FACTOR}×" in text_of(app) and "GPU-h" in text_of(app)
        await pilot.press("x")
        await come_to(pilot, lambda: (session.folder.path / "deck.pdf").exists(), "the deck")
        task = app.view_model.view_state().task
        assert task is not None
        await answer_all(pilot, app, len(task.questions))
        await pilot.press("t")
        await come_to(
            pilot,
            lambda: (
                app.view_model.checks.get("10.5") is not None
                and app.view_model.checks["10.5"].status == "done"
            ),
            "the ticked box",
        )
        await come_to(pilot, lambda: "✔ 10.5" in text_of(app), "the ticked box on the screen")
        await pilot.press("q")
    session.close()
    everything_is_marked(session, tmp_path / "lab")
    the_last_page_tells_what_was_overridden(tmp_path / "lab", "one node anyway")
    nothing_is_left(cluster)


def everything_is_marked(session: Session, lab: Path) -> None:
    """Database, numbers, tables and the deck's notes all say practice."""
    assert all(submission.practice for submission in session.state.submissions.values())
    results = session.results()
    assert results.rows and all(row.practice for row in results.rows)
    assert "practice" in (lab / "results.csv").read_text()
    from pptx import Presentation

    slides = Presentation(str(lab / "deck.pptx")).slides
    assert len(slides) > 3
    measured = [
        slide for slide in slides if any(shape.has_chart or shape.has_table for shape in slide.shapes)
    ]
    assert len(measured) > 5
    unmarked = [
        [shape.text_frame.text for shape in slide.shapes if shape.has_text_frame]
        for slide in [slides[0], *measured]
        if not any("PRACTICE" in shape.text_frame.text for shape in slide.shapes if shape.has_text_frame)
    ]
    assert not unmarked, unmarked


def the_last_page_tells_what_was_overridden(lab: Path, reason: str) -> None:
    """The reason that was typed, on the exported page."""
    from pptx import Presentation

    last = list(Presentation(str(lab / "deck.pptx")).slides)[-1]
    texts = [shape.text_frame.text for shape in last.shapes if shape.has_text_frame]
    assert any(reason in text and "job.slurm:" in text for text in texts), texts


def nothing_is_left(cluster: PracticeCluster) -> None:
    """After its end: no folder, no port."""
    root, port = cluster.layout.root, cluster.login.port
    cluster.close()
    end = time.monotonic() + 120
    while root.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not root.exists()
    with socket.socket() as door, pytest.raises(OSError):
        door.connect(("127.0.0.1", port))


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
        await come_to(pilot, lambda: len(app.view_model.view_state().charts) == 4, "the real charts")
        assert not any(chart.practice for chart in app.view_model.view_state().charts)
        assert all(len(chart.series[0].points) == 2 for chart in app.view_model.view_state().charts)
        await come_to(pilot, lambda: "ResNet50 2 GPU" in text_of(app), "the real numbers")
        assert "ResNet50 4 GPU" not in text_of(app)
        await pilot.press("r")
        await come_to(pilot, lambda: text_of(app).count("practice ✔ done") == 3, "marked rehearsals")
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


def test_json_results_say_practice(
    cluster: PracticeCluster, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from labtui.commands.cli import main

    lab = lab_on(cluster, tmp_path / "lab")
    session = Session.open(lab.path, start=False)
    from tests.tui.fed_session import finished_run, spec

    session._journal.commit(tuple(finished_run("lt1", "10.5", 1, spec(gpus=1), "1", practice=True)))
    session.close()
    monkeypatch.chdir(lab.path)
    assert main(["results", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["practice"] for row in rows] == [True]
