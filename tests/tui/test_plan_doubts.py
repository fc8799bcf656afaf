"""What the plan says beside its table: edited scripts, batches that differ or did not fit, questions of a cell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.widgets import Static

from labtui.lab.plan import PlanOverrides, copies_to_start, task_drafts
from labtui.session.labs import load_edition
from labtui.session.settings import load_profile
from labtui.tui.app import LabApp
from labtui.tui.screens.plan import PlanScreen
from labtui.tui.screens.prompts import Confirm
from tests.tui.fed_session import FedSession, finished_run, online, spec
from tests.tui.waiting import text_of, until

Make = Callable[..., LabApp]
EDIT = "# my own line\n"


async def open_plan(pilot, app: LabApp) -> PlanScreen:
    await until(pilot, lambda: app.view_model.loaded)
    app.go_to_task("10.5")
    await pilot.press("s")
    await until(pilot, lambda: isinstance(app.screen, PlanScreen) and bool(app.screen.previews))
    assert isinstance(app.screen, PlanScreen)
    return app.screen


async def test_an_edited_job_script_is_marked_and_not_lost_without_a_word(
    session: FedSession, app_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path) -> bool:
        path.write_text(path.read_text() + EDIT)
        return True

    app = app_of(session)
    monkeypatch.setattr(app, "open_editor", write)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await open_plan(pilot, app)
        await pilot.press("e")
        await until(pilot, lambda: "edited: it is used, not the table" in text_of(app))
        screen.focus_table_at(0, 6)
        await pilot.press("plus")  # twice the epochs
        await until(pilot, lambda: "without your edits" in " ".join(text_of(app).split()))
        await pilot.press("n")
        await until(pilot, lambda: app.screen is screen)
        assert [row.spec.epochs for row in screen.rows] == [5, 5, 5]
        assert [EDIT in text for text in screen.scripts.values()] == [True]
        await pilot.press("s")
        await until(pilot, lambda: "acc_debug, script edited by" in text_of(app))
        await pilot.press("n")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("plus")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: [row.spec.epochs for row in screen.rows] == [10, 5, 5])
        await until(pilot, lambda: "edited: it is used" not in text_of(app))
    assert not list(session.folder.slurm.glob("*.slurm")), "a draft is no submission"


async def test_esc_goes_back_from_a_view_and_leaves_no_edit_behind_unasked(
    session: FedSession, app_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path) -> bool:
        path.write_text(path.read_text() + EDIT)
        return True

    app = app_of(session)
    monkeypatch.setattr(app, "open_editor", write)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        screen = await open_plan(pilot, app)
        await pilot.press("v", "v")
        await until(pilot, lambda: "Files of job 1" in text_of(app))
        await pilot.press("escape")
        await until(pilot, lambda: "Findings of job 1" in text_of(app))
        assert app.screen is screen
        await pilot.press("e")
        await until(pilot, lambda: bool(screen.scripts))
        await pilot.press("escape")
        await until(pilot, lambda: "Leaving the plan drops" in text_of(app))
        await pilot.press("n")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("escape", "y")
        await until(pilot, lambda: app.screen is app.main)


async def test_the_question_of_a_cell_and_of_the_plan_say_what_is_meant(
    session: FedSession, app_of: Make
) -> None:
    app = app_of(session)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        screen = await open_plan(pilot, app)
        screen.focus_table_at(1, 6)
        await pilot.press("enter")
        await until(pilot, lambda: "Run 2, epochs: enter sets it" in text_of(app))
        await pilot.press("0", "0", "0", "0", "0", "enter")
        await until(pilot, lambda: "between 1 and 10,000" in text_of(app))
        await pilot.press("escape", "s")
        await until(pilot, lambda: "ResNet50 · 2 GPUs, global batch 4,096, 5 epochs" in text_of(app))


async def test_batches_that_differ_or_did_not_fit_are_told(session: FedSession, app_of: Make) -> None:
    session.feed(*finished_run("lt1", "10.5", 1, spec(batch=4096), "9", outcome="oom")[:3], *online())
    failed = finished_run("lt1", "10.5", 1, spec(batch=4096), "9", outcome="oom")
    session.feed(*[event for event in failed[3:] if type(event).__name__ == "RunEnded"])
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await open_plan(pilot, app)
        assert "compare only" not in text_of(app)
        screen.focus_table_at(0, 4)
        await pilot.press("plus")
        await until(pilot, lambda: "2,048 and 4,096 images per GPU" in text_of(app))
        assert "only runs with the same can be compared" in text_of(app)
        assert "4,096 images per GPU do not fit" in " ".join(text_of(app).split())


async def test_keys_of_the_plan_are_offered_at_80_columns(session: FedSession, app_of: Make) -> None:
    app = app_of(session)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        screen = await open_plan(pilot, app)
        screen.focus_table_at(0, 6)
        await pilot.press("minus", "minus", "minus")
        await until(pilot, lambda: "1 warning (O: override)" in text_of(app))
        foot = text_of(app).splitlines()[23]
        for key in ("s Submit", "f Fix", "v View", "esc Back", "? Help"):
            assert key in foot, foot


async def test_a_script_the_task_asks_for_names_the_key_that_begins_it(
    session: FedSession, app_of: Make
) -> None:
    (session.folder.scripts / "ResNet152.py").unlink(missing_ok=True)
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: app.view_model.loaded)
        app.view_model.edition = edition = load_edition("hpc4ai-ch10")
        task = next(
            task for task in edition.tasks if ("ResNet50.py", "ResNet152.py") in copies_to_start(task)
        )
        drafts = task_drafts(
            edition, task.id, load_profile("mn5"), PlanOverrides(account="nct_345", user="u1")
        )
        screen = PlanScreen(session, edition, task.id, drafts)
        await app.push_screen(screen)
        await until(pilot, lambda: "ResNet152.py is not sent with the job" in " ".join(text_of(app).split()))
        shown = " ".join(str(screen.query_one("#plan-finding", Static).render()).split())
        assert shown.endswith("Press esc, then b: it begins as a copy of ResNet50.py.")
        page = screen.query_one("#plan-page", Static).render()
        styles = {str(span.style) for span in page.spans if page.plain[span.start :].startswith("#SBATCH")}
        assert "$foreground" in styles
