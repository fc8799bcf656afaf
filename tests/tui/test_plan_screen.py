"""Plan and submit on the screen: the ticket, numbers changed, findings, Slurm's word, what is asked, what is sent."""

import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace
from textual import events, widgets

from labtui.domain import errors, model
from labtui.lab.plan import PlanOverrides, task_drafts
from labtui.session import labs, planning, settings
from labtui.session.preview import Preview
from labtui.slurm.job_control import SbatchAnswer
from labtui.tui.app import LabApp
from labtui.tui.guidance import NextStep
from labtui.tui.plan_model import Plan, Verdict
from labtui.tui.plan_words import _slurm_answer, cells, runs_title, step, table_of, ticket
from labtui.tui.screens.modals import palette
from labtui.tui.screens.plan import PlanScreen, PlanTable
from labtui.tui.themes import Roles
from labtui.tui.widgets.frame import TaskList
from tests import changes
from tests.tui.clicking import click_words
from tests.tui.fed_session import NOW, FedSession, finished_run, finished_runs, online, spec
from tests.tui.waiting import chooses, focus_at, open_plan, press, ready, screens, text_of, types, until

WIDE = (120, 40)
EDIT = "#SBATCH --time=01:07:00"


def flat(app: LabApp) -> str:
    return " ".join(text_of(app).split())


def damage(session: FedSession, wrong: str = "#SBATCH \u2014nodes=1") -> None:
    """A job script with an error."""
    template = session.folder.slurm / "templates" / "one-job.slurm"
    template.write_text(template.read_text().replace("#SBATCH --nodes=1", wrong))


def edits(monkeypatch: pytest.MonkeyPatch, app: LabApp) -> None:
    """The student's editor changes the time limit."""

    def write(path: Path) -> bool:
        path.write_text(re.sub("#SBATCH --time=.*", EDIT, path.read_text()))
        return True

    monkeypatch.setattr(app, "open_editor", write)


@pytest.mark.parametrize("size", [(80, 24), WIDE])
async def test_the_ticket_says_runs_time_cost_and_submit(session, size, monkeypatch):
    session.feed(*online())
    async with screens(session, size=size) as (app, pilot):
        screen = await open_plan(app, pilot)
        for word in ("in 1 job", "3:18 to 13:24", "GPU-h", "at most 2.0", "not asked yet", "8,192"):
            assert word in text_of(app), word
        assert all(each in text_of(app) for each in ("Plan  10.5", "Findings  none", "Runs  ResNet50"))
        assert "s  Submit 1 job" in text_of(app), "the next step, and the button where there is room for one"
        assert "! 3 GPUs idle while 1 GPU trains. J makes a job for each size." in text_of(app)
        if size[0] > 80:
            assert [each.value for each in screen.query(widgets.Digits)] == ["3", "4:35", "0.31"]
            assert "i Ask Slurm" in text_of(app).splitlines()[39], "the plan says to press it"
            rows = [cells(screen.plan, at, row)["expected"] for at, row in enumerate(screen.plan.rows)]
            spans = (re.fullmatch(r"(\d+):(\d+) min", each) for each in rows)
            assert sum(60 * int(span[1]) + int(span[2]) for span in spans) == 60 * 4 + 35
            assert str(screen.query_one("#send", widgets.Button).label) == "s  Submit 1 job"
            monkeypatch.setenv("LABTUI_ASCII", "1")
            screen.show()
            await until(pilot, lambda: "4:35 min" in text_of(app), "no digits made of signs")
        else:
            keys = ("esc Back  enter Change", "d Leave out", "J Other jobs", "e Edit", "? Help")
            await until(pilot, lambda: all(key in text_of(app).splitlines()[23] for key in keys))
            figures = "3 runs in 1 job   4:35 min expected, 3:18 to 13:24   0.31 GPU-h,"
            assert figures in text_of(app) and text_of(app).count("30 min") == 1, "one limit for one job"
            screen.show()  # as every second
            line = f"{'▸ Job script  93 lines, yours to edit':<72}v View"
            await until(pilot, lambda: line in text_of(app), "as wide as the window")
        early = events.Key("s", "s")
        early.time = screen.confirms_after - 1.0
        await app.on_event(early)
        await until(pilot, lambda: "The plan was not shown yet. Press s to submit it." in text_of(app))
        await press(pilot, "v", then=lambda: "#!/bin/bash" in text_of(app) and "GPU-h" in text_of(app))
        screen.show()
        await until(pilot, lambda: not screen.query_one("#plan-text").max_scroll_x)  # once laid out
        page = screen.query_one("#plan-page", widgets.Static).render()
        styles = {str(span.style) for span in page.spans if page.plain[span.start :].startswith("#SBATCH")}
        assert "$foreground" in styles, "to Slurm these lines are no comments"
        assert screen.query_one("#plan-page").size.height > len(page.plain.splitlines()), "wrapped, not cut"
        await press(pilot, "escape", then=lambda: "Findings  none" in text_of(app))
        if size[0] == 80:
            await until(pilot, lambda: line in text_of(app), "the script's line as before")
        assert app.screen is screen


def plan_of_vit(session: FedSession, *gpus: int) -> Plan:
    """Task 12.1 on so many GPUs."""
    edition = labs.load_edition("hpc4ai-ch12")
    given = PlanOverrides(gpus=gpus, account="nct_345")
    return Plan(session, edition, "12.1", task_drafts(edition, "12.1", settings.load_profile("mn5"), given))


@pytest.mark.parametrize("width", [72, 86])
def test_the_options_of_a_run_are_cut_where_the_window_ends(session, monkeypatch, width):
    planned = plan_of_vit(session, 1, 8, 32)
    shown = [cells(planned, at, row) for at, row in enumerate(planned.rows)]
    assert [each["gpus"] for each in shown] == ["1", "8 on 2 nodes", "32 on 8 nodes"]
    options = ("--eval_batch_size", "128", "--warmup")
    planned.task_rows = [
        replace(row, spec=replace(row.spec, extra_args=(*options, str(at), "--compile", "--seed", str(at))))
        for at, row in enumerate(planned.task_rows)
    ]
    columns, rows = table_of(planned, width)
    assert [row[-1] for row in rows.values()] == [f"--warmup {at} --seed {at}" for at in range(3)]
    assert "each with --eval_batch_size 128 --compile" in runs_title(planned, Roles(*["white"] * 10)).plain
    assert sum(column.width + 2 for column in columns) <= width
    assert columns[-1].key == "options" and columns[-1].width >= 16
    assert {"gpus", "per_gpu"} <= {column.key for column in columns}
    thesis = labs.load_edition("thesis-2019")
    for task, rate in (("2", "0.1"), ("3", "0.05 (base 0.1)")):
        drafts = task_drafts(thesis, task, settings.load_profile("mn5"), PlanOverrides(account="nct_345"))
        planned = Plan(session, thesis, task, drafts)
        assert cells(planned, 0, planned.rows[0])["rate"] == rate
        shown, line = {column.key for column in table_of(planned, 118)[0]}, ticket(planned)[1].line
        assert {"job", "batch", "expected", "options"} <= shown, "an empty one takes what is typed there"
        assert re.search(r"\d\d:\d\d min expected, \d+:\d\d to \d+:\d\d$", line), line
    monkeypatch.setattr("labtui.tui.plan_words.run_seconds", lambda *_: model.Interval(456.4, 456.4, 556))
    assert ticket(planned)[1].line == "15:12 min expected, up to 18:32", "not from itself on"


async def test_the_first_frame_of_the_plan_says_what_is_expected(session, painting, monkeypatch):
    frames: list[str] = []
    real = LabApp._display

    def display(app: LabApp, screen: Any, renderable: Any) -> None:
        if isinstance(screen, PlanScreen) and screen is app.screen and not app._batch_count:
            frames.append(text_of(app))
        real(app, screen, renderable)

    session.preview = lambda draft, **_: never.wait()  # type: ignore[method-assign]
    never = threading.Event()
    monkeypatch.setattr(LabApp, "_display", display)
    async with screens(session, size=WIDE) as (app, pilot):
        await pilot.press("c")
        app.go_to_task("10.5")
        await press(pilot, "s", then=lambda: bool(frames))
        first = frames[0].splitlines()
        never.set()
    assert any("3:18 to 13:24" in line for line in first) and "at most 2.0" in frames[0]
    assert any(line.endswith("J makes a job for each size.") for line in first)


async def test_a_plan_that_was_not_painted_yet_is_not_submitted(session, monkeypatch):
    async with screens(session, size=(120, 40)) as (app, pilot):
        with ExitStack() as batches, monkeypatch.context() as patch:
            patch.setattr(app, "_settle", lambda _, batch: batches.push(batch))  # as on a busy machine
            await app.show_plan("10.5", session.drafts("10.5"))
            await app.screen.workers.wait_for_complete()
            await pilot.press("s")
            assert not session.requests and "not shown yet" in [*app._notifications][-1].message
            patch.delattr(type(app.screen.plan), "choices")  # which looks for job files
            assert app.screen.why_disabled("override", ()) is None, "nor does each key of each frame"
        await press(pilot, "s", then=lambda: app.screen is app.main)


async def test_data_that_is_not_there_shows_once_the_cluster_has_answered(session):
    data = "/gpfs/projects/nct_345/cifar-10-batches-py"
    session.settings = settings.with_changes(session.settings, data_dir=data)
    questions: list[tuple[Sequence[str], Future[Mapping[str, bool]]]] = []

    def look_at(paths: Sequence[str]) -> Future[Mapping[str, bool]] | None:
        if questions or not paths:
            return None
        questions.append((paths, Future()))
        return questions[0][1]

    session.look_at = look_at  # type: ignore[method-assign]
    async with screens(session) as (app, pilot):
        await open_plan(app, pilot)
        paths, future = questions[0]
        assert data in paths and "Findings  none" in text_of(app)
        answer = {path: "cifar" not in path for path in paths}
        session.feed(lambda state: state.with_paths(answer, NOW))
        future.set_result(answer)
        await until(pilot, lambda: "is not on the cluster" in flat(app) and "Edit lab.toml" in flat(app))
        app.open_editor, app.open_again = Mock(), Mock()
        await press(pilot, "e", then=lambda: app.open_again.called)
        app.open_editor.assert_called_once_with(session.folder.settings_path)


async def test_slurm_s_own_word_stands_below_the_ticket(session):
    async with screens(session) as (app, pilot):
        screen = await open_plan(app, pilot)
        await press(pilot, "i", then=lambda: "Asking Slurm" in text_of(app) and len(session.requests) == 1)
        detail = "sbatch: Job 12 to start at 2025-11-20T21:01:14 using 80 processors"
        session.requests[0][2].set_result(SbatchAnswer(detail=detail))
        accepts = "Slurm accepts this job and would start it at 21:01.  acc_debug"
        await until(pilot, lambda: accepts in text_of(app))
        assert "Slurm accepts it." in text_of(app), "beside the next step"
        session.requests.clear()
        told = "1  In 1 job: at most 2.0 GPU-h (now)", "2  In 3 jobs: at most 1.2 GPU-h  "
        await press(pilot, "J", then=lambda: all(each in text_of(app) for each in told))
        await press(pilot, "2", then=lambda: ready(screen) and "in 3 jobs" in text_of(app))
        assert session.state.choices["jobs"] == "job-per-size", "the next plan begins with it"
        await press(pilot, "i", then=lambda: len(session.requests) == 3)
        session.requests[0][2].set_result(SbatchAnswer())
        session.feed(changes.connection("offline", sentence="The line broke."))
        session.requests[2][2].set_exception(errors.ConnectionLost("The line broke.", "Try again."))
        await until(pilot, lambda: "? Job 3: The line broke.  Try again." in text_of(app))
        refused = SbatchAnswer(key="qos", sentence="No such [QoS].", hint="Ask your teacher.")
        session.requests[1][2].set_result(refused)
        await until(pilot, lambda: "✘ Job 2: Slurm refuses this job: No such [QoS]." in text_of(app))
        assert "e  Edit the job" in text_of(app), "the fix comes first"
        await pilot.press("s")
        await until(pilot, lambda: chooses(app) and "✘ Slurm refuses it: No such [QoS]." in text_of(app))
        session.feed(*online())
        await press(pilot, "n", then=lambda: "○ Slurm was not asked yet. Press i." in text_of(app))
        await pilot.press("J", "1", "escape")
        screen = await open_plan(app, pilot)
        assert accepts in text_of(app), "the answer about the same job"
        await pilot.press("escape")
        session.feed(*finished_runs("10.5", [run for draft in screen.plan.planned for run in draft.runs]))
        app.go_to_task("10.5")
        await press(pilot, "s", then=lambda: flat(app).count("All runs of this task are done.") == 2)
        assert not app.screen.query_one("#ticket").display, "no empty frame"


def test_a_job_that_slurm_takes_later_is_not_refused_and_one_without_a_limit_has_none(session):
    planned = Plan(session, session.edition, "10.5", session.drafts("10.5"))
    verdict = Verdict(SbatchAnswer(key="limit", sentence="The queue is full.", wait=True))
    assert _slurm_answer(planned, [verdict], Roles(*["white"] * 10)).plain == "◌ The queue is full."
    for minutes, shown in ((30, "30 min"), (0, "·")):
        drafts = tuple(replace(each, time_limit_minutes=minutes) for each in session.drafts("10.5"))
        planned = Plan(session, session.edition, "10.5", drafts)
        assert cells(planned, 0, planned.rows[0])["limit"] == shown
    cpu = Plan(session, session.edition, "10.3", session.drafts("10.3"))
    assert cpu.cell_name(0, "batch") == "batch, the samples in one step", "of no GPU"


async def test_numbers_are_changed_in_place_and_without_any_run_left_there_is_nothing_to_send(session):
    async with screens(session) as (app, pilot):
        screen = await open_plan(app, pilot)
        rates = [cells(screen.plan, at, row)["rate"] for at, row in enumerate(screen.plan.rows)]
        assert rates == ["0.01", "0.02", "0.04"]
        focus_at(screen, 2, "limit")
        await press(pilot, "enter", then=lambda: types(app) and "(empty: as planned). Now 30" in text_of(app))
        shown = text_of(app)
        assert "[x]      4         8,192" in shown and "global batch" in shown, "the row stays in sight"
        await pilot.press("escape")
        focus_at(screen, 1, "per_gpu")
        await pilot.press("enter")
        await until(pilot, lambda: types(app) and "ResNet50 · 2 GPUs: batch per GPU" in text_of(app))
        await press(pilot, *"512", "enter", then=lambda: screen.plan.rows[1].spec.batch_size == 1024)
        for batch in ("1536", "512"):
            for key in ("enter", *batch, "enter"):  # typed before the dialog stands
                app.post_message(events.Key(key, key if len(key) == 1 else None))
            await until(pilot, lambda batch=batch: screen.plan.rows[1].spec.batch_size == 2 * int(batch))
        await pilot.press("enter", *"x0", "enter")
        await until(pilot, lambda: "The batch per GPU is a whole number, not 'x0'." in flat(app))
        await pilot.press("escape")
        assert screen.plan.rows[1].spec.batch_size == 1024
        await until(pilot, lambda: "512 and 2,048" in text_of(app))
        await press(pilot, "J", "2", then=lambda: len(screen.plan.drafts) == 3)
        await press(pilot, "d", then=lambda: len(screen.plan.drafts) == 2 and "left out" in text_of(app))
        for row in [at for at, row in enumerate(screen.plan.rows) if row.included]:
            focus_at(screen, row, "in")
            await pilot.press("enter")
        await until(pilot, lambda: not screen.plan.drafts and "d  Add this run" in text_of(app))
        for pressed, said in {"v": "is left out.", "s": "is left out."}.items():
            await pilot.press(pressed)
            await until(pilot, lambda said=said: any(said in each.message for each in app._notifications))
        assert not re.search("Job script|Script|Ask Slurm|e Edit|Other jobs|Leave out", text_of(app))
        assert app.screen is screen and not session.requests
        await press(pilot, "d", then=lambda: ready(screen) and "Submit 1 job" in text_of(app))


async def test_a_batch_that_did_not_fit_is_told(session):
    failed = finished_run("lt1", "10.5", 1, spec(batch=4096), "9", outcome="oom")
    session.feed(*failed[:3], *online(), changes.ended(1, "oom"))
    async with screens(session) as (app, pilot):
        screen = await open_plan(app, pilot)
        assert "do not fit" not in text_of(app)
        focus_at(screen, 0, "per_gpu")
        await pilot.press("enter", *"4096", "enter")
        await until(pilot, lambda: "a batch of 4,096 per GPU does not fit" in flat(app))
        assert "only runs with the same can be compared" in flat(app)
        await pilot.press("enter", *"65536", "enter")
        many = "A batch of 65,536 images is more than the 50,000 of the data set."
        await until(pilot, lambda: many in flat(app) and ready(app.screen))
        await pilot.press("s")
        await until(pilot, lambda: app.screen is not screen and many in flat(app), "asks before it sends")


async def test_an_edited_job_script_is_sent_and_not_lost_without_a_word(session, monkeypatch):
    async with screens(session) as (app, pilot):
        edits(monkeypatch, app)
        screen = await open_plan(app, pilot)
        await pilot.press("e")
        await until(pilot, lambda: "67 min" in text_of(app) and "edited: it replaces" in text_of(app))
        focus_at(screen, 0, "epochs")
        await press(pilot, "enter", *"10", "enter", then=lambda: "without the edits" in flat(app))
        await until(pilot, lambda: ready(app.screen))
        assert screen.plan.rows[0].spec.epochs == 10 and not screen.plan.edited_jobs
        await pilot.press("enter", *"5", "enter")
        await until(pilot, lambda: "edited: it replaces the table" in text_of(app), "they are back")
        await press(pilot, "c", then=lambda: "Leaving the plan drops" in flat(app))
        await press(pilot, "n", then=lambda: ready(app.screen))
        await press(pilot, "s", then=lambda: chooses(app) and "script edited" in text_of(app))
        await press(pilot, "y", then=lambda: bool(session.requests))
        assert EDIT in session.requests[0][1][1]


async def test_a_fix_is_shown_before_it_is_made_by_keys_or_clicks_and_submit_offers_it_first(session):
    damage(session)
    async with screens(session) as (app, pilot):
        screen = await open_plan(app, pilot)
        await until(pilot, lambda: "Findings  1 error" in text_of(app))
        assert "+#SBATCH --nodes=1" in text_of(app)
        assert "s  Fix the error" in text_of(app), "the next step"
        for words, size in (("f Fix", (80, 24)), ("s  Fix", WIDE)):
            await click_words(pilot, words)
            await until(pilot, lambda: chooses(app) and "y  Make this change" in text_of(app))
            await pilot.resize_terminal(*size)
            assert app.focused.id == "choice-y", "the fix first"
            await click_words(pilot, "esc  Back")
            await until(pilot, lambda: app.screen is screen and " limit  expected" in text_of(app))
            assert not screen.plan.scripts and not session.requests
        found, screen.plan.previews = screen.plan.errors[0], (old := screen.plan.previews) and []
        screen.plan.make_fix(found)  # while files are checked again
        screen.plan.previews = old
        await press(pilot, "s", "y", then=lambda: ready(app.screen) and "Findings  none" in text_of(app))
        assert "#SBATCH --nodes=1" in next(iter(screen.plan.scripts.values()))
        await click_words(pilot, "esc Back")
        await click_words(pilot, "Leave the plan")  # the change would be lost
        await until(pilot, lambda: app.screen is app.main)


@pytest.mark.parametrize("rule", ["lone-dashes", "gpu-count"])
async def test_an_error_is_overridden_with_a_reason(session, rule):
    without = rule == "gpu-count"  # no change of the plan helps
    if not without:
        damage(session, "#SBATCH -- nodes=1")
    session.profile = replace(session.profile, status="current", gpus_per_node=0 if without else 4)
    async with screens(session) as (app, pilot):
        screen = await open_plan(app, pilot)
        keys = ("o Override", "esc Back", "? Help")
        await until(pilot, lambda: all(each in text_of(app).splitlines()[-1] for each in keys))
        seen = ["cannot run" in flat(app), "idle" not in flat(app), screen.step.label == "Back"]
        assert [*seen, not ticket(screen.plan)] == [without] * 4
        await press(pilot, *"so"[without:], then=lambda: types(app))
        await press(pilot, "enter", then=lambda: "Write a reason." in text_of(app))
        await pilot.press(*"our", "space", *"site", "enter")
        await until(pilot, lambda: app.screen is screen and "Overridden: our site" in text_of(app))
        await pilot.press("s")
        await until(pilot, lambda: chooses(app) and "1 finding overridden: our site" in text_of(app))
        await press(pilot, "y", then=lambda: bool(session.overridden))
        (found,) = session.overridden[0]
        assert (found.rule, found.reason) == (rule, "our site")


async def test_a_script_the_task_asks_for_is_begun_from_the_plan(session, monkeypatch):
    (session.folder.scripts / "ResNet152.py").unlink(missing_ok=True)
    async with screens(session) as (app, pilot):
        app.view_model.edition = edition = labs.load_edition("hpc4ai-ch10")
        task = next(each for each in edition.tasks if ("ResNet50.py", "ResNet152.py") in each.copies_to_start)
        given = PlanOverrides(account="nct_345", user="u1")
        drafts = task_drafts(edition, task.id, settings.load_profile("mn5"), given)
        screen = PlanScreen(Plan(session, edition, task.id, drafts))
        await app.push_screen(screen)
        await until(pilot, lambda: "ResNet152.py is not sent with the job" in flat(app))
        assert "It begins as a copy of ResNet50.py." in flat(app)
        await press(pilot, "s", then=lambda: chooses(app) and "o  Override with a reason" in text_of(app))
        edited: list[Path] = []
        monkeypatch.setattr(app, "open_editor", edited.append)
        button = screen.query_one("#send")
        assert str(button.label) == "b  Make the copy" and not button.has_class("-quiet")
        await pilot.press("b")
        made = "ResNet152.py is a copy of ResNet50.py. Press e to edit it."
        await until(pilot, lambda: made in text_of(app))
        await until(pilot, lambda: not any("not sent" in each.finding.effect for each in screen.plan.errors))
        assert not edited
        await press(pilot, "s", then=lambda: chooses(app) and "e  Edit the file" in text_of(app))
        await press(pilot, "e", then=lambda: edited == [session.folder.scripts / "ResNet152.py"])


async def test_submit_sends_every_job_once_it_is_checked(session):
    async with screens(session) as (app, pilot):
        screen, checked, real = await open_plan(app, pilot), threading.Event(), session.preview

        def preview(draft: model.SubmissionDraft, *, script: str | None = None) -> Preview:
            assert checked.wait(60)
            return real(draft, script=script)

        session.preview = preview  # type: ignore[method-assign]
        await pilot.press("J", "2", "s", "d", "d")
        assert not screen.sending, "a changed plan waits for another s"
        await press(pilot, "s", then=lambda: screen.sending and "Checking the files ..." in text_of(app))
        assert not session.requests, "what was not seen is not sent"
        checked.set()
        await until(pilot, lambda: len(session.requests) == 3 and app.main is app.screen)
        screen.plan._read, sent = (), [(name, what[0].gpus) for name, what, _ in session.requests]
        assert sent == [("submit", 1), ("submit", 2), ("submit", 4)]
        assert not screen._read_again(), "its own runs do not make it again"


async def test_another_task_leaves_the_plan_and_what_is_answered_later_is_not_for_it(session):
    async with screens(session) as (app, pilot):
        app.main.action_step_task(1)  # a plan is of the task chosen just before
        await app.main.action_plan()
        assert app.view.task_id == app.screen.plan.task_id
        app.pop_screen()
        screen = await open_plan(app, pilot)
        await press(pilot, "i", then=lambda: bool(session.requests))
        screen.query_one(TaskList).highlighted = 2
        await until(pilot, lambda: app.screen is app.main and app.view_model.task_id == "10.3")
        opens = {"l": "log", "3": "charts", "a": "answers", "escape": "answers", "t": "task"}
        for key, pane in opens.items():
            await open_plan(app, pilot)
            await press(pilot, key, then=lambda pane=pane: app.screen is app.main and app.main.pane == pane)
            assert key != "3" or app.main.query_one("#pane-charts").shown.name == "speedup"
        screen = await open_plan(app, pilot)
        await screen.query_one(PlanTable).remove()  # as while it is closed
        screen._previewed(screen.plan.previews, screen.plan.previews)
        screen._slurm_said((screen.plan.drafts[0], None), SbatchAnswer(), None)
        next(each for each in palette(screen) if "Task 10.6" in each.title).callback()
        await until(pilot, lambda: app.view_model.task_id == "10.6" and not screen.is_attached)
        screen._preview(app, screen.plan.previews, ask=False)
        await app.workers.wait_for_complete()


async def test_an_unexpected_error_while_checking_is_said_and_ends_the_check(session, monkeypatch):
    def broken(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("a secret of the insides")

    monkeypatch.setattr(session, "preview", broken)
    async with screens(session) as (app, pilot):
        await open_plan(app, pilot)
        await until(pilot, lambda: "The files could not be checked." in text_of(app))
        said = f"▎ Internal error: see {session.folder.problem_log.name}."
        assert text_of(app).splitlines()[1].endswith(said), "all of it, below the header"
        assert "ZeroDivisionError" in session.folder.problem_log.read_text()
        await pilot.press("s", "s")
        assert isinstance(app.screen, PlanScreen) and not session.requests


async def test_control_runs_are_added_and_removed(filled_session):
    async with screens(filled_session) as (app, pilot):
        screen = await open_plan(app, pilot, again=True)
        plain = list(screen.plan.rows)
        await pilot.press("C")
        await until(pilot, lambda: ready(screen) and len(screen.plan.rows) > len(plain), "the control runs")
        added = [row.spec for row in screen.plan.rows[len(plain) :]]
        assert [each.n_gpus for each in added] == [2, 4, 1, 2, 4]
        assert [each.extra_args[-1] for each in added] == ["independent"] * 2 + ["one-batch"] * 3
        assert "5 control runs" in text_of(app)
        assert [run for draft in screen.plan.drafts for run in draft.runs][-1].is_control
        await pilot.press("C")
        await until(pilot, lambda: screen.plan.rows == plain and ready(screen), "the plan as it was")


def test_a_copy_that_is_not_changed_yet_stops_its_own_task_and_is_not_called_changed(session):
    scripts = session.folder.scripts
    (scripts / "ResNet152.py").write_bytes((scripts / "ResNet50.py").read_bytes())
    first, copied = (session.preview(session.drafts(task)[0]) for task in ("10.5", "10.6"))
    assert not first.findings
    assert [(each.rule, each.severity) for each in copied.findings] == [("unchanged-copy", "error")]
    assert not any(each.changed for each in copied.files if each.used)
    (scripts / "ResNet152.py").write_text((scripts / "ResNet50.py").read_text().replace("Net50V2", "Net15V2"))
    (found,) = session.preview(session.drafts("10.6")[0]).findings
    said = "ResNet152.py does not use ResNet152V2 in its code yet."
    assert (found.severity, found.effect) == ("warning", said) and "ResNet15V2" in found.text


def test_an_unknown_option_is_removed_from_the_runs_that_have_it(session):
    planned = Plan(session, session.edition, "10.5", session.drafts("10.5"))
    planned.task_rows = planned.with_cell(1, "options", "--foo bar baz --image_size 64")
    planned.remake()
    planned.previews = [session.preview(draft) for draft in planned.drafts]
    (found,) = planned.errors
    assert "has no option --foo" in found.finding.effect
    planned.make_fix(found)
    assert [row.spec.extra_args for row in planned.rows] == [(), ("--image_size", "64"), ()]
    assert not planned.scripts, "the job script follows from the rows"
    planned.task_rows = planned.with_cell(0, "per_gpu", "4096")
    planned.remake()
    assert planned.warnings[-1] == "ResNet50: 4,096 images per GPU may not fit; the task plans 2,048."


def test_runs_that_are_done_are_left_out_but_of_a_plan_to_repeat_them(session):
    first, *others = (run for draft in session.drafts("10.5") for run in draft.runs)
    session.feed(*finished_run("lt1", "10.5", 1, first, "31330"))
    planned = Plan(session, session.edition, "10.5", session.drafts("10.5"))
    assert [row.included for row in planned.rows] == [False, *[True] * len(others)]
    assert [run for draft in planned.drafts for run in draft.runs] == others
    told = cells(planned, 0, planned.rows[0])
    assert (told["in"], told["expected"]) == ("done", "·") and not planned.warnings
    planned.remake()
    assert not planned.outdated
    session.feed(*finished_runs("10.5", (first, *others)))
    assert planned.outdated, "another terminal submitted them"
    planned.remake()
    assert not planned.drafts and not planned.outdated
    again = Plan(session, session.edition, "10.5", session.drafts("10.5"))
    assert not any(row.included for row in again.rows) and not again.drafts
    said = "All runs of this task are done. Press d to run the selected one again."
    assert step(again) == NextStep("Back", said, "back", "esc") and not ticket(again)
    going_on = {run.run_id: replace(run, phase=model.RunPhase.RUNNING) for run in again.known.values()}
    session.feed(lambda state: replace(state, runs={**state.runs, **going_on}))
    assert cells(again, 0, again.rows[0])["in"] == "running" and not again.warnings
    small = replace(session.state.runs[1], practice=True)  # its log has that mark
    session.feed(lambda state: replace(state, runs={**state.runs, 1: small}))
    said = planning.warnings_of(session, session.drafts("10.5"))  # `labtui submit` says it, too
    assert said == ["Under way as a small run, which does not count: run 1."]
    again.forms = ("torchrun", "task-per-gpu")
    again.remake()
    assert len(again.choices) < 2, "nothing on the screen would change"
    told = Plan(session, session.edition, "10.5", session.drafts("10.5"), "The same settings again.")
    assert all(row.included for row in told.rows)
    older = {"ResNet50.py": "older"}
    sent = {token: replace(each, script_hashes=older) for token, each in session.state.submissions.items()}
    session.feed(lambda state: replace(state, submissions=sent))
    assert not Plan(session, session.edition, "10.5", session.drafts("10.5")).known, "of another script"


def test_the_limit_to_try_after_a_time_out_is_that_of_every_form_of_the_job(session):
    planned = Plan(session, session.edition, "10.5", drafts := session.drafts("10.5"), "Time: try 30 min.")
    for planned.form, jobs in (("one-job", 1), ("job-per-size", 3)):
        planned.remake()
        assert [each.time_limit_minutes for each in (*drafts, *planned.drafts)] == [30] * (jobs + 1)


def test_after_an_out_of_memory_only_what_was_not_made_with_the_smaller_batch_is_planned(session):
    one, two, four = (run for draft in session.drafts("10.5") for run in draft.runs)
    large = replace(one, batch_size=4 * one.batch_size)
    session.feed(*finished_run("lt1", "10.5", 1, large, "7", outcome="oom"))
    assert [run for each in planning.retry_after(session, 1).drafts for run in each.runs] == [one, two, four]
    session.feed(*finished_run("lt2", "10.5", 2, two, "8"))
    proposal = planning.retry_after(session, 1)
    assert [run for each in proposal.drafts for run in each.runs] == [one, four]
    assert "as the runs that are done have" in proposal.sentence
    session.feed(*finished_run("lt3", "10.5", 3, one, "9"), *finished_run("lt4", "10.5", 4, four, "10"))
    (draft,) = planning.retry_after(session, 1).drafts
    assert draft.runs == (one,) and draft.gpus == 1
    assert Plan(session, session.edition, "10.5", (draft,), "Out of memory.").drafts == (draft,)
