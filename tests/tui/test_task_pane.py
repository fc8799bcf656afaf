"""The task in words: what its jobs have cost so far."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from labtui.domain.events import LabState
from labtui.domain.reduce import reduce_all
from labtui.lab.checks import CheckItem, TaskCheck
from labtui.session.labs import load_edition
from labtui.tui import view
from labtui.tui.app import LabApp
from labtui.tui.themes import Roles
from labtui.tui.widgets.tasks import HangingText, task_page
from tests.tui.fed_session import (
    NOW,
    FedSession,
    accepted,
    finished_run,
    lab_session,
    make_folder,
    open_session,
    planned,
    spec,
)
from tests.tui.waiting import text_of, until


def view_state(events: list[Any], task: str = "10.5", **more: Any) -> view.ViewState:
    return view.ViewState(state=reduce_all(LabState(), events), task_id=task, now=NOW, **more)


def test_nothing_is_said_before_something_ran() -> None:
    assert view.spent_words(view_state([])) == ""
    waiting = [planned("lt1", "10.5", 1, spec())]
    assert view.spent_words(view_state(waiting)) == ""
    assert view.spent_words(view_state([*waiting, accepted("lt1", "7")])) == ""
    other = finished_run("lt1", "10.4", 1, spec(), "7")
    assert view.spent_words(view_state(other)) == ""


def test_a_stale_chart_is_not_blamed_on_the_script() -> None:
    late = CheckItem(met=True, sentence="the chart is exported", stale=True)
    why = "The speedup chart is older than run 3: export it again."
    box = TaskCheck(task_id="10.5", status="stale", items=(late,), missing=why)
    shown = view_state([], checks={"10.5": box}, edition=load_edition("hpc4ai-ch10"))
    page = task_page(shown, Roles(*[""] * len(fields(Roles)))).plain.partition("Hints")[0]
    assert why in page
    assert "its script changed" not in page


def test_gpus_cores_and_practice_are_said_apart() -> None:
    two = finished_run("lt1", "10.5", 1, spec(gpus=4), "7")  # 300 s on four GPUs, 68.5 s of them epochs
    assert view.spent_words(view_state(two)) == "Used by this task: 0.33 GPU-hours allocated, 0.08 trained"
    cpu = finished_run("lt2", "10.3", 2, spec(gpus=0), "8")  # 300 s on 20 cores
    assert view.spent_words(view_state([*two, *cpu], "10.3")) == (
        "Used by this task: 1.67 core-hours allocated, no GPU"
    )
    rehearsed = finished_run("lt1", "10.5", 1, spec(gpus=4), "7", practice=True)
    assert view.spent_words(view_state(rehearsed)) == ""
    assert view.spent_words(view_state(rehearsed, practice=True)) == (
        "Used by this task (practice): 0.33 GPU-hours allocated, 0.08 trained"
    )


@pytest.mark.parametrize("practice", [False, True])
async def test_the_task_says_what_the_queue_verb_says(
    tmp_path: Path,
    app_of: Callable[..., LabApp],
    practice: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from labtui.commands.cli import main

    make_folder(tmp_path / "lab", practice=practice)
    session: FedSession = open_session(tmp_path / "lab", start=False)
    session.requests = []
    lab_session(session, practice=practice)
    app = app_of(session, "task")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.view_model.loaded)
        await until(pilot, lambda: "Used by this task" in text_of(app))
        shown = text_of(app)
    session.close()
    assert main(["queue", "--folder", str(tmp_path / "lab"), "--offline", "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)["spent"]["tasks"]["10.5"]
    assert f"{cost['used']:.2f} trained" in shown
    assert ("Used by this task (practice): " in shown) is practice


async def test_what_a_long_line_leaves_over_hangs_below_its_text(session: FedSession, app_of: Any) -> None:
    lab_session(session)
    app = app_of(session, "task")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "✔" in text_of(app))
        page = app.screen.query_one(HangingText)
        for width in (40, 60):
            lines = [line.plain for line in page._lines(width)]
            assert all(len(line) <= width for line in lines)
            bullets = [at for at, line in enumerate(lines) if line.lstrip()[:2] in {"✔ ", "○ ", "• "}]
            below = [lines[at + 1] for at in bullets if at + 1 < len(lines) and at + 1 not in bullets]
            assert sum(line.startswith("    ") for line in below) >= 3
        words = " ".join(" ".join(line.split()) for line in lines).split()
        assert words == page.text.plain.split()
