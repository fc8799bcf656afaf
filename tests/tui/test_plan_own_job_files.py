"""The student's own job files in the plan: chosen with a key, checked, completed, overridden, sent once."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from labtui.domain import errors, model
from labtui.session.own_jobs import own_draft
from labtui.tui.app import LabApp
from labtui.tui.plan_model import Plan
from labtui.tui.widgets.selected_run import KeyedTable
from tests import changes
from tests.tui.fed_session import FedSession, accepted, epoch, observed, online, planned, spec
from tests.tui.waiting import chooses, open_plan, press, ready, screens, text_of, types, until

UNKNOWN = ("model", "n_gpus", "batch_size", "epochs")
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


def write(session: FedSession, text: str, name: str = "mine.slurm") -> Path:
    path = session.folder.slurm / name
    path.write_text(text)
    (session.folder.slurm / "own.py").write_text("print('[bold]training[/]')\n")
    return path


async def test_an_own_job_file_is_the_next_job_form_and_is_sent_as_it_is(session):
    path = write(session, UNTOLD)
    async with screens(session, size=(80, 24)) as (app, pilot):
        screen = await open_plan(app, pilot)
        await pilot.press("J", "3")
        await until(pilot, lambda: "its log will tell what ? stands for" in text_of(app) and ready(screen))
        assert set(screen.plan.drafts[0].runs[0].unknown) == {"model", "n_gpus", "batch_size", "epochs"}
        path.write_text(TOLD)
        await until(pilot, lambda: "stands for" not in text_of(app) and ready(screen))
        assert "your own job file, unchanged" in text_of(app) and "lines, slurm/mine.slurm" in text_of(app)
        (draft,) = screen.plan.drafts
        assert (draft.form, draft.job_file, draft.task_id) == ("own", "mine.slurm", "10.5")
        assert screen.plan.previews[0].script == TOLD
        await pilot.press("right", "enter")  # the file says what it trains on: it is changed there
        await until(pilot, lambda: "It comes from your job file: e edits it." in text_of(app))
        assert app.screen is screen and "--model" not in text_of(app)
        await press(pilot, "s", then=lambda: len(session.requests) == 1)
        assert session.requests[0][1] == (draft, None)


async def test_an_error_is_fixed_in_the_file_and_a_file_that_changed_is_read_again_before_it_is_sent(session):
    wrong = TOLD.replace("--job-name", "\u2014job-name")
    path = write(session, wrong)
    async with screens(session) as (app, pilot):
        screen = await open_plan(app, pilot)
        await press(pilot, "J", "3", then=lambda: ready(screen) and screen.finding is not None)
        await press(pilot, "f", then=lambda: chooses(app) and "+#SBATCH --job-name" in text_of(app))
        await press(pilot, "y", then=lambda: ready(app.screen) and "Findings  none" in text_of(app))
        assert path.read_text() == TOLD and not session.requests, "the student's file is what a fix changes"
        path.write_text(wrong)
        await until(pilot, lambda: ready(screen) and screen.finding is not None)
        await press(pilot, "s", then=lambda: chooses(app) and "o  Override" in text_of(app))
        await press(pilot, "o", then=lambda: types(app))
        await pilot.press(*"why", "enter", "s")
        await until(pilot, lambda: chooses(app) and "overridden: why" in text_of(app))
        path.write_text(TOLD)  # while the question stands there
        await pilot.press("y")
        await until(pilot, lambda: len(session.requests) == 1, "what is sent is what was read again")
        assert screen.plan.previews[0].script == TOLD


async def test_a_changed_script_is_checked_again_and_a_job_file_that_is_gone_gives_the_plan_back(session):
    path = write(session, TOLD)
    async with screens(session) as (app, pilot):
        screen = await open_plan(app, pilot)
        before = screen.plan.previews
        for name in ("ResNet50_seq.py", "ResNet50.py"):
            script = session.folder.scripts / name
            script.write_text(script.read_text() + "# mine\n")
        await until(pilot, lambda: screen.plan.previews is not before and ready(screen))
        assert "Files or runs have changed" in text_of(app) and not session.requests
        assert "   ResNet50.py changed by you" in text_of(app), "of those that the task uses"
        session.feed(planned("lt000000000000000ff1", screen.plan.task_id, 9, spec(gpus=2)))
        await until(pilot, lambda: "Submitted after this plan was opened: run 9." in text_of(app))
        drafts = screen.plan.drafts
        await press(pilot, "J", then=lambda: chooses(app) and app.screen.is_active)
        await press(pilot, "3", then=lambda: screen.plan.job_file is not None)
        path.unlink()
        screen.recompute()
        await until(pilot, lambda: "cannot be read" in text_of(app))
        assert screen.plan.job_file is None and screen.plan.drafts == drafts


def _offered(app: LabApp) -> set[str]:
    """The actions in the footer."""
    bindings = app.screen.active_bindings.values()
    return {each.binding.action for each in bindings if each.binding.show and each.enabled}


async def test_a_task_without_runs_plans_the_own_job_file(session):
    async with screens(session, size=(80, 24)) as (app, pilot):
        app.view_model.loaded = False  # the key comes before the lab's text is read
        app.go_to_task("10.1")
        await pilot.press("s")
        app.view_model.load_edition()
        app.repaint()
        await until(pilot, lambda: "This task needs no run." in text_of(app))
        path = write(session, TOLD)
        await until(pilot, lambda: app.view_model.own_jobs)
        await press(pilot, "s", then=lambda: ready(app.screen))
        screen = app.screen
        assert screen.plan.job_file == path and "lines, slurm/mine.slurm" in text_of(app)
        (draft,) = screen.plan.drafts
        assert (draft.form, draft.task_id, draft.gpus) == ("own", "10.1", 2)
        await press(pilot, "s", then=lambda: [name for name, _, _ in session.requests] == ["submit"])
        assert session.requests[0][1][0] == draft
        write(session, TOLD, "other.slurm")
        await pilot.press("s")
        await until(pilot, lambda: chooses(app) and "2  other.slurm" in text_of(app), "a list of all")
        await pilot.press("2")
        await until(pilot, lambda: "1 run in other.slurm" in text_of(app) and "  name " in text_of(app))


def test_an_own_file_with_two_runs_stays_one_job_when_it_goes_again(session):
    write(session, TOLD + "python ResNet50.py --epochs 5 --batch_size 1024 --n_gpus 1\n")
    draft = own_draft(session, session.folder.slurm / "mine.slurm", task_id="10.5")
    plan = Plan(session, session.edition, "10.5", (draft,))
    assert len(draft.runs) == 2 and plan.drafts == (draft,) and plan.called(plan.rows[0]).model == "mine"
    assert not any(row.included for row in plan.with_row_toggled(1)), "its file starts both"
    with pytest.raises(errors.UsageError, match="such a control run"):
        plan.with_controls()


async def test_own_jobs_of_no_task_and_no_model_are_listed_by_name_and_charted(session):
    log_only = replace(spec(), model="", n_gpus=0, batch_size=0, epochs=0, script="own.py", unknown=UNKNOWN)
    own = {"form": "own", "job_name": "mine", "job_file": "mine.slurm", "gpus": 1}
    other = {"job_name": "other", "job_file": "gone.slurm"}
    session.feed(
        *online(), planned("lt0000000000000two", "", 2, log_only, **own | other),
        changes.status("lt0000000000000two", model.SubmissionStatus.REFUSED, "No."),
        planned("lt0000000000000000own", "", 1, log_only, **own), accepted("lt0000000000000000own", "77"),
        changes.started(1, framework="Keras"), *(epoch(1, number, 14.0) for number in range(1, 4)),
        observed("lt0000000000000000own", "77", model.JobPhase.RUNNING, slurm_state="RUNNING"),
    )  # fmt: skip
    async with screens(session) as (app, pilot):
        await until(pilot, lambda: "Own jobs" in text_of(app) and app.view_model.task_id == "")
        await press(pilot, "a", then=lambda: "There are no questions here." in text_of(app))
        app.go_to_task("10.5")
        await pilot.press("enter", *"mine")
        app.go_to_task("")
        await until(pilot, lambda: "There are no questions here." in text_of(app))
        await pilot.press("enter", *"yy", "escape")
        assert "\nmine\n" in (session.folder.answers / "10.5.md").read_text(), "not the task before"
        await pilot.press("r")
        await until(pilot, lambda: "epoch 4" in text_of(app) and "Time of each epoch" in text_of(app))
        await pilot.press("c")
        await until(pilot, lambda: ", epoch 3 " in str(app.screen.query_one("#chart-strip").render()))
        await press(pilot, "r", then=lambda: app.screen.query_one("#runs-table").has_focus)
        names = [f"{job}" for job in app.screen.query_one(KeyedTable).get_column("model")]
        assert names == ["mine", "other"], "rows of own jobs are told apart"
        assert not {"start_copy", "edit"} & _offered(app), "there is no file of it to edit, no copy to begin"
        write(session, TOLD)
        app.screen.refresh_bindings()
        await until(pilot, lambda: "edit" in _offered(app), "its job file can be edited")
        await press(pilot, "[", then=lambda: app.view_model.task_id == app.view.tasks[-2].task_id)
        await press(pilot, "]", then=lambda: app.view_model.task_id == "")
