"""The main screen against a fed session: what it shows and what survives a refresh."""

import gc
import os
from concurrent.futures import Future
from typing import Any

import pytest
from msgspec.structs import replace
from textual.widget import Widget
from textual.widgets._footer import FooterKey
from textual.widgets._toast import ToastRack

from labtui.domain.model import Diagnosis, JobPhase, RunPhase
from labtui.tui.app import LabApp
from labtui.tui.guidance import instead_of_chart
from labtui.tui.screens.modals import palette
from labtui.tui.themes import roles
from labtui.tui.view_model import ViewModel
from labtui.tui.widgets import answers_pane, frame, selected_run, tail_view
from tests import changes
from tests.tui import fed_session as fed
from tests.tui.clicking import click_words
from tests.tui.fed_session import NOW, finished_run, live_run, online, open_session, planned, spec, write_log
from tests.tui.waiting import open_plan, press, screens, submit, text_of, until


def flat(app: LabApp) -> str:
    """The pane of the run's facts, its lines joined."""
    parts = app.screen.query("#result-line, #run-facts, #next")
    return " ".join(" ".join(str(each.render()) for each in parts).split())


async def test_the_name_of_the_lab_in_the_header_gives_way_only_as_needed(filled_session):
    title = "Chapter 10: parallel training of neural networks"
    async with screens(filled_session, factor=20.0) as (app, pilot):
        await until(pilot, lambda: "GPU-h" in text_of(app).splitlines()[0])
        app.view_model.session.profile = replace(filled_session.profile, status="practice")
        app.repaint()
        for width, shown in (140, title), (120, f"{title[:32]} …"), (80, f"{title[:20]} …"):
            await pilot.resize_terminal(width, 40)
            told = f" {shown}  ", "practice 20×"
            await until(pilot, lambda told=told: all(s in text_of(app).splitlines()[0] for s in told))
        await pilot.press("question_mark", "end")
        await until(pilot, lambda: "inside this program; its clock" in text_of(app))
        checks, first = app.view.checks, app.view.checks["10.1"]
        open_yet = replace(first, status="open", items=first.items[:-1])
        app.main.view = replace(app.view, checks=checks | {"10.1": open_yet})
        app.repaint()
        await until(pilot, lambda: "Task 10.1 is done." in text_of(app))


async def test_every_pane_stands_at_every_size(filled_session):
    async with screens(filled_session, size=(20, 5)) as (app, pilot):
        for size in ((20, 5), (40, 10), (200, 60)):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda size=size: app.screen.size == size)
            for pane in ("task", "runs", "log", "charts", "answers"):
                await press(pilot, pane[0], then=lambda pane=pane: app.main.pane == pane)
        await until(pilot, lambda: len(app.screen.query(FooterKey)) > 10, "more keys where there is room")


async def test_keys_and_clicks_go_to_the_panes_without_colour_too(filled_session, monkeypatch):
    for name in ("NO_COLOR", "LABTUI_ASCII"):
        monkeypatch.setenv(name, "1")
    wanted = {
        "t": "Run ResNet50.py on 1, 2 and 4 GPUs", "l": "7/7 - 5s - loss: 2.0500", "c": ">Charts",
        "a": "How close is the speedup", "r": "2.53× as fast with 4 GPUs",
    }  # fmt: skip
    async with screens(filled_session) as (app, pilot):
        for key, words in wanted.items():
            await press(pilot, key, then=lambda words=words: words in text_of(app), what=words)
        for keys, turn in ("r1", "1/2"), ("r1", "1/2"), ("1", "2/2"):  # from another pane it only opens
            await press(pilot, *keys, then=lambda turn=turn: f">1 Time {turn}" in text_of(app), what=turn)
        await pilot.click("#task")
        await until(pilot, lambda: app.main.pane == "task")
        await click_words(pilot, "s Plan")
        await until(pilot, lambda: "esc Back" in text_of(app) and "GPU-h" in text_of(app))
        for words in ("esc Back", "? Help", "esc Close"):
            await click_words(pilot, words)
        await until(pilot, lambda: app.screen is app.main)


async def test_before_its_first_run_all_panes_of_a_task_say_the_same(session):
    session.feed(*finished_run("lt1", "10.3", 1, spec(gpus=0), "9"), *online())
    said = {"10.4": ("○ 1 of 2 runs", "1 of 2 runs done (in 10.3). Press s to")}  # the CPU's counts
    said |= {"10.5": ("○ no run yet", "No run yet. Press s to plan")}
    said |= {"10.6": ("○ no run yet", "No run yet. Make the copy first.")}
    (session.folder.scripts / "ResNet152.py").unlink()
    async with screens(session, "task") as (app, pilot):
        for task, (title, words) in said.items():
            app.go_to_task(task)
            for pane in "trlca":
                told = words.partition(" Press ")[0] if pane == "a" else words  # s is a letter there
                await press(pilot, pane, then=lambda told=told: told in text_of(app), what=pane)
                assert pane != "a" or "Press s" not in text_of(app)
                assert title in text_of(app) and "images/s" not in text_of(app), pane
                rows = [each.title for each in palette(app.screen)]
                assert max(map(len, rows)) <= 74, "whole in 80 columns"
                assert any(row.endswith(title[2:]) for row in rows if f"Task {task} " in row), "as in header"
        await press(pilot, "t", then=lambda: "scripts/ResNet152.py, not made yet" in text_of(app))


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_task_list_is_a_page_with_counts(filled_session, size):
    async with screens(filled_session, size=size) as (app, pilot):
        await until(pilot, lambda: bool(app.view_model.checks))
        await pilot.press("g")
        said = "10.7 Two models compared", "Exported  Answers", "4 GPUs: run 4 is running", "esc Back"
        await until(pilot, lambda: all(each in text_of(app) for each in said))
        names = ("#tasks", "#about", "#rail-title")
        tasks, about, heads = (app.screen.query_one(each).region for each in names)
        assert ("…" in str(app.screen.query_one("#about").render())) is (size[0] == 80), "it is cut"
        assert about.y - tasks.y < 10 and heads.right == tasks.right - 2, "heads over the counts"
        await press(pilot, "down", "enter", then=lambda: "Exported  Answers" not in text_of(app))
        await pilot.press("left_square_bracket", "left_square_bracket")
        await until(pilot, lambda: app.view_model.task_id == "10.4")
        await open_plan(app, pilot)
        app.main.query_one(frame.TaskList).highlighted = 0  # chosen before the plan was there
        await until(pilot, lambda: app.screen is app.main and app.view_model.task_id == "10.1")
        assert ViewModel(filled_session).task_id == "10.1", "the next start opens it again"
        filled_session.feed(planned("lt99", "10.5", 99, spec()))
        assert ViewModel(filled_session).task_id == "10.5", "but not before the task of a newer run"


async def test_a_failed_run_moves_no_row_of_the_table_and_the_chart_stays(session):
    session.feed(*fed.finished_runs("10.5", [spec(gpus=2), spec(gpus=4)]), *online())
    oom = Diagnosis(kind="oom", line=8, text="OOM when allocating a tensor", advice="Use less.")
    session.feed(*finished_run("lt9", "10.5", 9, spec(), "9")[:3], changes.ended(9, "oom", (oom,)))
    async with screens(session, "runs", size=(200, 55)) as (app, pilot):
        chart, table = (app.screen.query_one(name) for name in ("#glance-chart", "#runs-table"))

        await until(pilot, lambda: oom.text in text_of(app) and chart.region.width > 80)
        await press(pilot, "c", "3", then=lambda: "The one-GPU run failed: out of memory." in text_of(app))
        await pilot.press("r")
        for size, word in ((120, 40), oom.text), ((80, 24), oom.text), ((80, 24), "needs no"):
            await pilot.resize_terminal(*size)
            places = set()
            for run, told in (1, "epochs   5"), (9, word):
                app.choose_run(run)
                await until(pilot, lambda run=run, told=told: app.view.run_id == run and told in text_of(app))
                places.add(table.region)
            assert size[0] == 120 or text_of(app).count("R  Run again") == (word == oom.text), "on its card"
            assert len(places) == 1 and (chart.region.width > 30) is (size[0] == 120 or word != oom.text)
            session.feed(*finished_run("lt10", "10.5", 10, spec(), "10") if size[0] == 80 else ())


async def test_what_is_stored_is_painted_before_the_network_is_asked(filled_session, monkeypatch):
    app = LabApp(filled_session)
    painted: list[str] = []
    monkeypatch.setattr(filled_session, "start", lambda: painted.append(text_of(app)))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: bool(painted))
    assert "13.6 s" in painted[0] and "0:11 left" in painted[0]


async def test_a_folder_without_runs_begins_with_the_first_task_and_the_next_offers_its_plan(session):
    async with screens(session) as (app, pilot):
        await until(pilot, lambda: "Set up the files" in text_of(app))
        for key, task in (("left", "10.7"), ("right", "10.1")):  # from one end to the other
            await press(pilot, f"{key}_square_bracket", then=lambda task=task: app.view_model.task_id == task)
        await until(pilot, lambda: "not looked for yet" in " ".join(text_of(app).split()))
        assert "`" not in text_of(app), "what a terminal needs stands in labtui check"
        assert app.main.pane == "task" and "○ connecting" in text_of(app)
        await press(pilot, "H", then=lambda: "There is no run here." in text_of(app))
        await press(pilot, "r", then=lambda: "needs no run" in text_of(app))
        await until(pilot, lambda: app.view_model.checks and "s Plan" not in text_of(app))
        assert "More:" not in text_of(app)
        assert "Runs\nThis task needs no run." in answers_pane.text_beside(app.view, 0, roles(app), 60).plain
        rail = app.main.query_one(frame.TaskList)
        await until(pilot, lambda: rail.option_count == 7)
        shown = " ".join(" ".join(str(option.prompt).split()) for option in rail.options)
        assert all(row.title in shown for row in app.view.tasks[1:] if len(row.task_id) < 5)
        app.go_to_task("10.5")
        await until(pilot, lambda: "Press s to plan 3 runs." in text_of(app))
        offered = {each.binding.action for each in app.screen.active_bindings.values() if each.enabled}
        assert not {"cancel_run", "end_after", "hold_run", "screen.retry_run"} & offered
        await press(pilot, "full_stop", then=lambda: "esc Back" in text_of(app) and "GPU-h" in text_of(app))


async def test_where_the_keys_go_is_seen_and_the_runs_have_them_again(filled_session):
    async with screens(filled_session, "runs") as (app, pilot):
        table, tasks = app.screen.query_one(selected_run.KeyedTable), app.screen.query_one(frame.TaskList)
        await until(pilot, lambda: table.has_focus)

        def looks() -> list[Any]:
            parts = (table, "datatable--cursor"), (tasks, "option-list--option-highlighted")
            return [each.get_component_styles(part).background for each, part in parts]

        before = looks()
        await press(pilot, "g", then=lambda: tasks.has_focus)
        await until(pilot, lambda: all(one != other for one, other in zip(looks(), before, strict=True)))
        await press(pilot, "g", then=lambda: table.has_focus, what="the list is closed by its key, too")
        await pilot.press("g", "r")  # the pane's own letter, too
        await until(pilot, lambda: table.has_focus)
        app.go_to_task("10.1")
        await pilot.press("b")
        await until(pilot, lambda: "needs no run" in text_of(app) and "asks for no copy" in text_of(app))
        app.go_to_task("10.5")
        await until(pilot, lambda: table.has_focus)


async def test_at_80_columns_six_rows_stand_and_more_scroll_above_the_chart_with_what_trains(session):
    runs = [spec(gpus=gpus) for gpus in (1, 2, 4, 1, 2, 4)]
    session.feed(*fed.finished_runs("10.5", runs), *online())
    write_log(session, "lt1", fed.log_text(runs[0], 5))
    async with screens(session, "runs", size=(80, 24)) as (app, pilot):
        await until(pilot, lambda: bool(app.screen.query("#run-facts")) and "Run 1" in text_of(app))
        chart = app.screen.query_one("#glance-chart")
        told = ("loss", "25/25 - 14s", "✔    6     4 ", "\n The one-GPU baseline is the mean of runs 1, 4.")
        await until(pilot, lambda: all(each in text_of(app) for each in told) and chart.size.height >= 9)
        assert all(each in text_of(app) for each in ("c Charts", "g Tasks", "  . Next step", "? Help"))
        for at in range(7, 13):
            session.feed(*finished_run(f"lt{at}", "10.5", at, runs[0], str(31330 + at)))
        await until(pilot, lambda: "More: 7 below." in text_of(app) and chart.size.height >= 9)
        session.feed(*finished_run("lt13", "10.5", 13, runs[0], "9", outcome="failed"))
        session.feed(*live_run("lt14", "10.5", 14, runs[1], "10", 2))
        await until(pilot, lambda: " ▶   14 " in text_of(app) and "More: 6 above, 3 below." in text_of(app))


async def test_practice_and_read_only_are_said(tmp_path):
    fed.make_folder(tmp_path / "lab", practice=True)
    first, second = open_session(tmp_path / "lab"), open_session(tmp_path / "lab")
    fed.lab_session(first, practice=True)
    second.requests = []
    async with screens(second) as (app, pilot):
        await until(pilot, lambda: "practice   read-only" in text_of(app) and app.view.checks)
        app.go_to_task("10.6")
        keys = {each.binding.action: each.enabled for each in app.screen.active_bindings.values()}
        assert keys["pane('runs')"] and not keys["plan"] and not keys["export"] and not keys["do_next"]
        assert app.main.step.label and not app.main.step.action, "a step that would be refused has no key"
        assert "Do it there." in text_of(app)
        await pilot.press("x")
        await until(pilot, lambda: "Do it there." not in text_of(app) and len(app._notifications) == 1)
        app.view_model.edition = None  # as if it could not be read
        app.repaint()
        await pilot.press("ctrl+n")
    second.close()
    first.close()


async def test_a_new_epoch_moves_row_and_charts_and_nothing_else(filled_session):
    async with screens(filled_session) as (app, pilot):
        table = app.main.query_one("#runs-table", selected_run.KeyedTable)
        filled_session.feed(planned("lt000000000000000ff1", "10.5", 6, spec(gpus=2)))
        await until(pilot, lambda: 6 in app.view.runs and "2.53×" in text_of(app))
        app.choose_run(6)
        await until(pilot, lambda: "Runs 5, 6 wait." in text_of(app))
        assert "2.53× as fast" not in text_of(app), "the digits say it, once"
        app.choose_run(4)
        table.focus()
        for key in ("up", "up", "H"):  # together, as a slow connection delivers them
            app.simulate_key(key)
        await until(pilot, lambda: app.view.run_id == 3 and "Cancel run" not in text_of(app))
        assert "Run 3 is not waiting" in text_of(app), "the key is for the run that is marked"
        offered = list(app.screen.query("FooterKey"))
        filled_session.feed(fed.epoch(4, 4, 5.4, 0.004, steps=7))
        await until(pilot, lambda: "0:05 left" in text_of(app))
        assert offered and list(app.screen.query("FooterKey")) == offered, "the same keys are not made anew"
        assert table.has_focus and table.selected_key == "3"
        await press(pilot, "c", then=lambda: "so far" in text_of(app) and "○" in text_of(app))


async def test_the_run_that_trains_is_selected_until_the_student_chooses_one(filled_session, monkeypatch):
    def send(draft: Any, **_: Any) -> Future[str]:
        number = max(filled_session.state.runs) + 1
        filled_session.feed(planned(f"lt{number}", "10.5", number, draft.runs[0]))
        return Future()

    async with screens(filled_session) as (app, pilot):
        assert app.view.run_id == 4, "at first the run that trains"
        filled_session.feed(*live_run("lt000000000000000ff1", "10.5", 6, spec(gpus=1), "31339", 2))
        await until(pilot, lambda: 6 in app.view_model.state.runs and 6 in app.view.runs)
        assert app.view.run_id == 4, "it still trains"
        counts: list[tuple[bool, int]] = []
        app.watch(app, "view", lambda view: counts.append((view.runs[4].live, view.count("runs").done)))
        await pilot.press("l")
        filled_session.feed(changes.ended(4, "completed"))
        await until(pilot, lambda: not app.view.runs[4].live)
        assert app.view.run_id == 4, "a log that is read stays"
        await press(pilot, "r", then=lambda: app.view.run_id == 6)
        assert {*counts} == {(True, 2), (False, 3)}, "the tab's count changes with the row"
        filled_session.feed(changes.ended(6, "failed"))
        await until(pilot, lambda: app.view.runs[6].phase is RunPhase.FAILED and app.view.count("runs").full)
        assert app.view.run_id == 6, "though its task needs no other run"
        app.choose_run(3)
        filled_session.feed(changes.ended(6, "completed"))
        await until(pilot, lambda: app.view.runs[6].phase is RunPhase.DONE)
        assert app.view.run_id == 3
        monkeypatch.setattr(filled_session, "submit", send)
        await open_plan(app, pilot, again=True)
        await submit(pilot)
        await until(pilot, lambda: 7 in app.view.runs and app.view.run_id == 7 and app.screen is app.main)
        await pilot.press("l")
        await until(pilot, lambda: app.view.run_id == 6)  # the last that has a log, not the one that waits
        assert "jobs" not in filled_session.state.choices, "a run made again chooses no form"


async def test_what_did_not_change_is_not_painted_again(filled_session, monkeypatch):
    monkeypatch.setattr(LabApp, "_tick", lambda app: None)
    async with screens(filled_session, "runs") as (app, pilot):
        await until(pilot, lambda: "2.53×" in text_of(app) and bool(app.view_model.checks))
        await until(pilot, lambda: app.view_model.state is filled_session.state and app.main.view.checks)
        app.repaint()  # the first step may have taken a line from the list
        await pilot.pause()
        painted: list[Widget] = []
        monkeypatch.setattr(Widget, "refresh", lambda widget, *_, **__: painted.append(widget))
        app.repaint()
        assert not painted


async def test_keys_that_left_the_foot_are_freed(filled_session):
    async with screens(filled_session) as (app, pilot):
        for pane in "tlca":
            await pilot.press(pane)
            await pilot.pause()
        gc.collect()
        alive = sum(isinstance(each, FooterKey) for each in gc.get_objects())
        assert alive <= 2 * len(app.screen.query(FooterKey))


async def test_what_another_program_writes_is_seen_by_the_checks(filled_session):
    copy = filled_session.folder.scripts / "ResNet152.py"
    copy.write_bytes((filled_session.folder.scripts / "ResNet50.py").read_bytes())
    async with screens(filled_session, size=(80, 24)) as (app, pilot):
        model = app.view_model
        for text, met in (("", False), ("from tensorflow.keras.applications import ResNet152V2\n", True)):
            copy.write_text(text or copy.read_text())
            await until(pilot, lambda met=met: model.checks and model.checks["10.6"].items[0].met is met)
        (filled_session.folder.path / "deck.pdf").write_bytes(b"")
        await until(pilot, lambda: model.deck and not model.deck_old)
        items = [replace(each, stale=each.kind == "charts") for each in app.view.items]
        app.main.show(replace(app.view, checks={"10.5": replace(app.view.check, items=tuple(items))}))
        assert "Charts · 4 outdated" in text_of(app), "not 0/4 outdated, as if none were"
        os.utime(write_log(filled_session, app.view.runs[4].run.token, "Epoch 3/5\n"), (2**31, 2**31))
        model.check_tasks(model.session.state)
        assert not model.deck_old, "the run still trains"
        filled_session.feed(changes.connection("offline", sentence="It is cut.", since=NOW - 999))
        await until(pilot, lambda: "run 4 has no known end yet" in model.checks["10.5"].missing, "as its row")
        filled_session.feed(changes.ended(4, "completed"))
        await until(pilot, lambda: model.deck_old)
        model.deck, hand_in = "", replace(model.edition.hand_in, form="report")
        model.edition = replace(model.edition, hand_in=hand_in)
        await until(pilot, lambda: model.deck == "deck.pdf", "slides do for a report, too")


async def test_a_pane_opens_with_what_is_there(filled_session, monkeypatch):
    """The end of a log waits neither for numbers that are computed anew nor for a second paint."""
    async with screens(filled_session, "task", size=(80, 24)) as (app, pilot):
        await until(pilot, lambda: app.view_model.loaded and app.view_model.checks)
        await until(pilot, lambda: app.view_model.state is filled_session.state and app.main.view.checks)
        monkeypatch.setattr(app, "repaint", lambda: None)
        await app.main.show_pane("log")
        await until(pilot, lambda: app.main.query_one("#log-view", tail_view.TailView).file.rows() > 0)
        monkeypatch.undo()
        await until(pilot, lambda: "following" in text_of(app))


async def test_waiting_and_pending_are_explained(session):
    session.feed(planned("lt0", "10.5", 2, spec(), held=True), planned("lt1", "10.5", 1, spec()), *online())
    async with screens(session, "runs") as (app, pilot):
        said = {"sentence": "The disk is full.", "hint": "See Quota in `labtui doctor`."}
        session.feed(lambda state: state.with_submission("lt1", **said))
        app.choose_run(1)
        await until(pilot, lambda: "The disk is full. See Quota in `labtui doctor`." in flat(app))
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "D  Check the cluster  Run 1 waits. The disk is full." in text_of(app))
        await pilot.resize_terminal(120, 40)
        session.feed(lambda state: state.with_submission("lt1", sentence="", hint=""))
        await until(pilot, lambda: "Run 1 waits. Sent next." in text_of(app))
        why = {"slurm_state": "PENDING", "reason": "Resources", "start_estimate": 9_600}
        session.feed(changes.refreshed(NOW, 9_000.0))  # its clock is far from ours
        session.feed(changes.accepted("lt1", "77", NOW), fed.observed("lt1", "77", JobPhase.QUEUED, **why))
        await until(pilot, lambda: "Run 1 is queued. Slurm expects it to start in about 10:00." in flat(app))
        assert "Job 77 is queued. Resources: " in flat(app) and "GPU-h" not in flat(app)
        assert instead_of_chart(app.view).startswith("Run 1 is queued. Slurm expects it to start in about")
        await pilot.press("l")
        await until(pilot, lambda: app.main.pane == "log" and "Job 77 is queued. Resources: " in flat(app))


async def test_beside_runs_that_wait_the_next_step_is_the_task_that_trains(session):
    waiting = [planned(f"lt{gpus}", "10.5", gpus, spec(gpus=gpus)) for gpus in (1, 2, 4)]
    session.feed(*live_run("lt9", "10.6", 9, spec("ResNet152"), "9", 1), *waiting, *online())
    async with screens(session, "runs") as (app, pilot):
        app.go_to_task("10.5")
        await until(pilot, lambda: "Go to 10.6" in text_of(app) and "Run 9 trains there." in flat(app))
        await press(pilot, "full_stop", then=lambda: app.view.task_id == "10.6")
        session.feed(*finished_run("lt7", "", 7, spec(), "7"), *live_run("lt8", "", 8, spec(), "8", 1))
        await until(pilot, lambda: 8 in app.view.runs)
        app.go_to_task("")
        await app.action_open_log_of(7)  # `l` opens the log of the chosen run
        await until(pilot, lambda: " .  Watch the log" in text_of(app) and "Run 7" in text_of(app))
        await press(pilot, "full_stop", then=lambda: app.main.pane == "log" and app.view.run_id == 8)
        await until(pilot, lambda: not app.main.step.action)  # it is being done


async def test_an_error_is_said_once_until_it_is_over_and_the_line_is_a_word_and_a_glyph(filled_session):
    async with screens(filled_session) as (app, pilot):
        raised = changes.problem("quota", "The quota is [full].", "Remove [old] files.")
        filled_session.feed(raised)
        await until(pilot, lambda: "! The quota is [full]. Remove [old] files." in text_of(app))
        filled_session.feed(raised, *online())
        await until(pilot, lambda: len(filled_session.state.problems) == 1)
        assert not app._notifications and text_of(app).count("The quota is [full].") == 1
        await press(pilot, "exclamation_mark", then=lambda: "Problems" in text_of(app))
        await pilot.press("escape")
        filled_session.feed(lambda state: state.with_problem("quota", None))
        await until(pilot, lambda: "! The quota" not in text_of(app))
        said = {"stale": "○ no answer", "needs-login": "! not logged in", "connecting": "○ connecting"}
        for status, shown in (said | {"offline": "○ offline"}).items():
            filled_session.feed(changes.connection(status, sentence="So it is."))
            await until(pilot, lambda shown=shown: shown in text_of(app), shown)
            assert status != "needs-login" or "So it is. Press u to log in." in text_of(app)
        for _ in range(2):
            app.notify("The connection was cut.", severity="warning")
        await pilot.press("R")
        await until(pilot, lambda: len(app._notifications) == 2, "the message, once, and why R does nothing")
        await pilot.press("question_mark")
        await until(pilot, lambda: len(app.screen_stack) == 2 and len(app._notifications) == 1)
        racks = [rack.display for screen in app.screen_stack for rack in screen.query(ToastRack)]
        assert racks == [False, True], "not also behind the page"
        await pilot.press("escape")
        filled_session.feed(*online())
        await until(pilot, lambda: "● online" in text_of(app) and not app._notifications, "it is over")
        await pilot.press("u")
        assert [name for name, _, _ in filled_session.requests] == ["refresh"]


async def test_the_page_of_problems_does_not_speak_for_the_runs(session):
    session.feed(*online(), *finished_run("lt1", "10.5", 1, spec(), "77", outcome="failed"))
    session.feed(changes.planned("own", {9: spec("own")}, job_file="a.sh"), changes.ended(9, "cancelled"))
    session.feed(*live_run("lt2", "10.5", 2, spec(gpus=2), "78", 1))
    async with screens(session) as (app, pilot):
        await until(pilot, lambda: app.view.checks and app.view.run_id == 2, "what trains")
        await pilot.press("up")
        await until(pilot, lambda: "Run 1 failed" in text_of(app) and "Open the log" in text_of(app))
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: "! Run 1 failed. Run 9 was cancelled." in text_of(app))
        told = "press r and choose the run to see why, R to run them again."
        assert told in text_of(app), "no run of its size has ended well"
        how = {"spec": spec(gpus=2), "outcome": "unfinished", "started": False}
        never = replace(session.state.runs[1], run_id=2, **how)
        session.feed(lambda state: replace(state, runs={**state.runs, 2: never}))
        both = "! Run 1 failed. Run 2 failed: never started."
        await until(pilot, lambda: both in text_of(app) and "R to run them again." in text_of(app))
        over = replace(never, outcome="cancelled", phase=RunPhase.CANCELLED, epochs=())
        session.feed(lambda state: replace(state, runs={**state.runs, 1: replace(over, run_id=1), 2: over}))
        await until(pilot, lambda: "! Runs 2, 9 were cancelled." in text_of(app))
        assert ": press R to run them again." in text_of(app), "there is nothing to see"
        session.feed(lambda state: state.with_submission(never.token, cancelling=True))  # as was asked
        await until(pilot, lambda: "! Run 9 was cancelled." in text_of(app))
        assert instead_of_chart(app.view) == "No run has a time that counts yet."
