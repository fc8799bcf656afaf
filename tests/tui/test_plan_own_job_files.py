"""The student's own job files in the plan: chosen with a key, checked, completed, overridden, sent once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from labtui.preflight import Finding
from labtui.session.preview import Preview
from labtui.tui.app import LabApp
from labtui.tui.screens.plan import COLUMNS, PlanScreen
from labtui.tui.screens.prompts import AskReason, Confirm
from labtui.tui.widgets.tables import KeyedTable
from tests.tui.fed_session import FedSession
from tests.tui.waiting import text_of, until

Make = Callable[..., LabApp]
TOLD = """#!/bin/bash
#SBATCH --job-name=mine
#SBATCH --account=nct_345
#SBATCH --qos=acc_debug
#SBATCH --gres=gpu:2
#SBATCH --cpus-per-task=40
#SBATCH --time=00:20:00
#SBATCH --output=mine.%j.out
#SBATCH --error=mine.%j.err
python ResNet50.py --epochs 5 --batch_size 2048 --n_gpus 2
"""
UNTOLD = TOLD.replace("python ResNet50.py --epochs 5 --batch_size 2048 --n_gpus 2", "python own.py")
TWO_ERRORS = "#SBATCH -- nodes=1\n#SBATCH \u2014ntasks=1"


def write(session: FedSession, text: str, name: str = "mine.slurm") -> Path:
    path = session.folder.slurm / name
    path.write_text(text)
    (session.folder.slurm / "own.py").write_text("print('[bold]training[/]')\n")
    return path


async def open_plan(app: LabApp, pilot: object) -> PlanScreen:
    await until(pilot, lambda: app.view_model.loaded)  # type: ignore[arg-type]
    app.go_to_task("10.5")
    await pilot.press("s")  # type: ignore[attr-defined]
    await until(pilot, lambda: isinstance(app.screen, PlanScreen) and checked(app.screen))  # type: ignore[arg-type]
    assert isinstance(app.screen, PlanScreen)
    return app.screen


def checked(screen: object) -> bool:
    return isinstance(screen, PlanScreen) and screen._checked == screen._ticket > 0


def column(key: str) -> int:
    return [each.key for each in COLUMNS].index(key)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_an_own_job_file_is_the_next_job_form_and_is_sent_as_it_is(
    session: FedSession, app_of: Make, size: tuple[int, int]
) -> None:
    write(session, TOLD)
    app = app_of(session)
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = await open_plan(app, pilot)
        rendered = screen.drafts
        await pilot.press("J", "J")
        await until(pilot, lambda: "Runs of slurm/mine.slurm" in text_of(app) and checked(screen))
        assert "your own job file, as it is" in text_of(app)
        (draft,) = screen.drafts
        assert (draft.form, draft.job_file, draft.task_id) == ("own", "mine.slurm", "10.5")
        assert screen.previews[0].script == TOLD  # type: ignore[union-attr]
        await pilot.press("enter")  # the file says what it trains on: it is changed there
        assert screen._editing is None
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.pause()
        assert text_of(app).count("your own job file, as it is") == 1, (
            "a dialog is not covered by what was said before it"
        )
        app.notify("news")
        await until(pilot, lambda: "news" in text_of(app))
        await pilot.press("y")
        await until(pilot, lambda: len(session.requests) == 1)
        assert session.requests[0][1] == (draft, None)
        assert rendered != screen.drafts


async def test_a_file_changed_under_the_plan_is_read_again_before_it_is_sent(
    session: FedSession, app_of: Make
) -> None:
    path = write(session, TOLD)
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await open_plan(app, pilot)
        await pilot.press("J", "J")
        await until(pilot, lambda: "Runs of slurm/mine.slurm" in text_of(app) and checked(screen))
        changed = TOLD.replace("--epochs 5", "--epochs 3")
        assert changed != TOLD
        path.write_text(changed)
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert screen.previews[0].script == changed  # type: ignore[union-attr]
        path.write_text(TOLD)
        await pilot.press("y")
        await until(pilot, lambda: isinstance(app.screen, Confirm) and screen.previews[0].script == TOLD)  # type: ignore[union-attr]
        assert not session.requests
        script = session.folder.scripts / "ResNet50.py"
        script.write_text(script.read_text() + "# mine\n")
        await until(pilot, lambda: "The files have changed" in text_of(app))


async def test_the_forms_of_the_task_come_back(session: FedSession, app_of: Make) -> None:
    write(session, TOLD)
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await open_plan(app, pilot)
        screen.focus_table_at(0, column("in"))
        await pilot.press("d")
        rows, drafts = screen.rows, screen.drafts
        await pilot.press("J", "J")
        assert screen.job_file is not None
        await pilot.press("d", "plus", "J")
        assert screen.job_file is None and screen.rows == rows and screen.drafts == drafts


async def test_what_the_file_does_not_say_is_a_question_mark_and_can_be_told(
    session: FedSession, app_of: Make
) -> None:
    write(session, UNTOLD)
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await open_plan(app, pilot)
        await pilot.press("J", "J")
        await until(pilot, lambda: "does not set model, GPUs, batch, epochs" in text_of(app))
        screen.focus_table_at(0, column("gpus"))
        await pilot.press("enter", *"x", "enter")  # no number: asked again
        await pilot.press("backspace", "2", "enter")
        screen.focus_table_at(0, column("per_gpu"))
        await pilot.press("enter", *"512", "enter")
        screen.focus_table_at(0, column("model"))
        await pilot.press("enter", *"MyNet", "enter")
        screen.focus_table_at(0, column("limit"))
        await pilot.press("enter", *"7", "enter")
        (run,) = screen.drafts[0].runs
        assert (run.model, run.n_gpus, run.batch_size, run.unknown) == ("MyNet", 2, 1024, ("epochs",))
        assert screen.drafts[0].time_limit_minutes == 7 and "--time=7" in screen.drafts[0].options
        await until(pilot, lambda: "MyNet" in text_of(app) and "7 min" in text_of(app))


async def test_an_error_in_an_own_file_is_fixed_in_the_file_or_overridden(
    session: FedSession, app_of: Make
) -> None:
    path = write(session, TOLD.replace("--job-name", "—job-name"))
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await open_plan(app, pilot)
        await pilot.press("J", "J")
        await until(pilot, lambda: checked(screen) and screen.finding is not None)
        await pilot.press("s", "s")
        await until(pilot, lambda: isinstance(app.screen, AskReason))
        await pilot.press(*"why", "enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("n")
        await pilot.press("f")
        await until(pilot, lambda: "+#SBATCH --job-name" in text_of(app))
        await pilot.press("y")
        await until(
            pilot, lambda: app.screen is screen and checked(screen) and "overridden" not in text_of(app)
        )
        assert path.read_text() == TOLD, "the student's file is what a fix changes"
        assert not session.requests


async def test_a_reason_counts_for_the_errors_it_was_given_for(session: FedSession, app_of: Make) -> None:
    write(session, TOLD.replace("#SBATCH --qos=acc_debug", TWO_ERRORS))
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await open_plan(app, pilot)
        await pilot.press("J", "J")
        await until(pilot, lambda: checked(screen) and screen.finding is not None)
        await pilot.press("s", "s")
        await until(pilot, lambda: isinstance(app.screen, AskReason))
        assert "Submit again to override" not in text_of(app)
        await pilot.press(*"ours", "enter")
        await until(
            pilot, lambda: isinstance(app.screen, Confirm) and "2 findings overridden: ours" in text_of(app)
        )
        await pilot.press("y")
        await until(pilot, lambda: bool(session.overridden))
        assert {(each.file, each.reason) for each in session.overridden[0]} == {("mine.slurm", "ours")}


async def test_a_job_file_that_cannot_be_read_gives_the_rendered_plan_back(
    session: FedSession, app_of: Make
) -> None:
    path = write(session, TOLD)
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await open_plan(app, pilot)
        drafts = screen.drafts
        await pilot.press("J", "J")
        path.unlink()
        screen.recompute()
        await until(pilot, lambda: "cannot be read" in text_of(app))
        assert screen.job_file is None and screen.drafts == drafts


# ------------------------------------------------------------------ previews


async def test_an_unexpected_error_while_checking_is_said_and_ends_the_check(
    session: FedSession, app_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("a secret of the insides")

    monkeypatch.setattr(session, "preview", broken)
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await open_plan(app, pilot)
        await until(pilot, lambda: "The files could not be checked." in text_of(app))
        assert "Something unexpected happened; labtui continues." in text_of(app)
        assert "Checking the files" not in text_of(app)
        assert "ZeroDivisionError" in session.folder.problem_log.read_text()
        await pilot.press("s", "s")
        assert isinstance(app.screen, PlanScreen) and not session.requests


async def test_previews_of_an_old_plan_are_left_unfinished(session: FedSession, app_of: Make) -> None:
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await open_plan(app, pilot)
        made: list[object] = []
        real = session.preview

        def preview(draft: object, *, script: str | None = None) -> object:
            made.append(draft)
            screen._ticket += 1  # the plan changes while it is being checked
            return real(draft, script=script)  # type: ignore[arg-type]

        session.preview = preview  # type: ignore[method-assign,assignment]
        drafts = screen.drafts * 3
        assert len(screen._show_previews(screen._ticket, drafts, {})) == len(made) == 1


async def test_each_finding_has_a_reason_of_its_own(session: FedSession, app_of: Make) -> None:
    text = TOLD.replace("#SBATCH --qos=acc_debug", TWO_ERRORS)
    write(session, text.replace("#SBATCH --gres=gpu:2", "#SBATCH --gres=gpu:2\n#SBATCH --qos=acc_debug"))
    app = app_of(session)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await open_plan(app, pilot)
        await pilot.press("J", "J")
        await until(
            pilot, lambda: checked(screen) and screen.job_file is not None and len(errors(screen)) == 2
        )
        table = screen.query_one("#plan-findings", KeyedTable)
        table.focus()
        for row, reason in enumerate(("ours", "theirs")):
            table.move_cursor(row=row)
            await until(pilot, lambda row=row: screen.finding is errors(screen)[row])
            await pilot.press("O")
            await until(pilot, lambda: isinstance(app.screen, AskReason))
            await pilot.press(*reason, "enter")
            await until(pilot, lambda reason=reason: f"Overridden: {reason}" in text_of(app))
        await pilot.press("O")
        await until(pilot, lambda: "Overridden: theirs" not in text_of(app))
        await pilot.press("s")
        await until(pilot, lambda: "has 1 error to fix first" in text_of(app))
        assert not session.requests
        await pilot.press("O")
        await until(pilot, lambda: isinstance(app.screen, AskReason))
        await pilot.press(*"mine", "enter")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("s")
        await until(
            pilot, lambda: isinstance(app.screen, Confirm) and "1 finding overridden: ours" in text_of(app)
        )
        await pilot.press("y")
        await until(pilot, lambda: bool(session.overridden))
        assert [each.reason for each in session.overridden[0]] == ["ours", "mine"]


def errors(screen: PlanScreen) -> list[Finding]:
    (preview,) = screen.previews
    assert isinstance(preview, Preview)
    return [found for found in preview.findings if found.severity == "error"]


async def test_a_task_without_runs_plans_the_own_job_file(session: FedSession, app_of: Make) -> None:
    app = app_of(session)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: app.view_model.loaded)
        app.go_to_task("10.1")
        await pilot.press("s")
        await until(pilot, lambda: "This task needs no run." in text_of(app))
        path = write(session, TOLD)
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, PlanScreen) and checked(app.screen))
        screen = app.screen
        assert isinstance(screen, PlanScreen)
        assert screen.job_file == path and "Runs of slurm/mine.slurm" in text_of(app)
        (draft,) = screen.drafts
        assert (draft.form, draft.task_id, draft.gpus) == ("own", "10.1", 2)
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: [name for name, _, _ in session.requests] == ["submit"])
        assert session.requests[0][1][0] == draft


async def test_an_own_file_with_two_runs_stays_one_job_when_it_goes_again(
    session: FedSession, app_of: Make
) -> None:
    write(session, TOLD + "python ResNet50.py --epochs 5 --batch_size 1024 --n_gpus 1\n")
    draft = session.own_draft(session.folder.slurm / "mine.slurm", task_id="10.5")
    assert len(draft.runs) == 2
    app = app_of(session)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: app.view_model.loaded)
        await app.show_plan("10.5", (draft,))
        await until(pilot, lambda: isinstance(app.screen, PlanScreen) and checked(app.screen))
        assert app.screen.drafts == (draft,)  # type: ignore[attr-defined]
