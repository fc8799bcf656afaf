"""The main screen against a fed session: requests, questions, answers, colours."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from textual import events, widgets
from textual.command import CommandPalette
from textual.content import Content

from labtui.cluster.target import LoginQuestion
from labtui.doctor.checks import Check, make
from labtui.domain.errors import ExportError, UsageError
from labtui.domain.model import Diagnosis, JobPhase, RunPhase
from labtui.tui import messages, themes, view
from labtui.tui.app import LabApp
from labtui.tui.screens.modals import Actions, problems_text, show_tour
from labtui.tui.screens.plan import PlanScreen
from tests import changes
from tests.tui.fed_session import HOST, NOW, finished_run, online, planned, spec, write_log
from tests.tui.test_keyed_table import colour_of
from tests.tui.waiting import chooses, press, ready, screens, text_of, types, until


def test_a_notice_has_time_left_until_it_has_expired():
    late = themes.Notice("It is over.", raised_at=time.time() - 9)
    assert late.time_left > 0 and late.has_expired, "a timer of an interval below 0 never returns"


async def test_cancelling_asks_first_and_a_failure_is_a_sentence(filled_session):
    async with screens(filled_session, size=(80, 24)) as (app, pilot):
        await pilot.press("ctrl+k")
        await until(pilot, lambda: chooses(app) and app.screen.query_one(".dialog").region.width == 80)
        await until(pilot, lambda: "^k" not in text_of(app) and "c Charts" not in text_of(app))
        assert "Cancel run 4? Its epochs so far stay in the means." in text_of(app)
        await pilot.press("enter")  # the cursor is on no
        await until(pilot, lambda: app.screen is app.main)
        assert not filled_session.requests
        await press(pilot, "ctrl+k", then=lambda: chooses(app))
        await press(pilot, "y", then=lambda: bool(filled_session.requests))
        assert filled_session.requests[0][:2] == ("cancel", app.view_model.chosen) == ("cancel", 4)
        (token,) = (run.token for run in filled_session.state.runs.values() if run.run_id == 4)
        filled_session.feed(lambda state: state.with_submission(token, cancelling=True))
        await until(pilot, lambda: "cancelling" in text_of(app))  # until Slurm answers
        assert "^k" not in text_of(app)
        filled_session.feed(lambda state: state.with_submission(token, cancelling=False))
        filled_session.requests[0][2].set_exception(UsageError("Slurm does not answer."))
        await until(pilot, lambda: "Slurm does not answer." in text_of(app) and "^k" in text_of(app))
        assert "cancelling" not in text_of(app)
        await until(pilot, lambda: [each.region.y for each in app.screen.query("Toast")] == [1], "on row 1")
        await press(pilot, "ctrl+k", then=lambda: chooses(app))
        await press(pilot, "y", then=lambda: len(filled_session.requests) == 2)
        filled_session.requests[1][2].set_exception(ZeroDivisionError("secret detail"))
        await until(pilot, lambda: "Internal error: see" in text_of(app))
        assert "secret detail" not in text_of(app)
        filled_session.feed(lambda state: state.with_submission(token, run_ids=(3, 4)))
        await press(pilot, "ctrl+k", then=lambda: chooses(app))
        assert "would end, too" not in text_of(app), "run 3 is done"
        last, first = (filled_session.state.runs[number] for number in (4, 3))
        job, done = filled_session.state.submissions[token].job, replace(last, outcome="completed")
        over = replace(job, phase=JobPhase.FINISHED)
        filled_session.feed(lambda state: state.with_runs([done]).with_job(token, over))
        await until(pilot, lambda: "Run 4 has ended." in text_of(app), "while the question was open")
        await press(pilot, "y", "x", "enter", then=lambda: app.screen is app.main, what="only enter acts")
        goes_on = replace(first, outcome=None, phase=RunPhase.QUEUED)
        filled_session.feed(lambda state: state.with_runs([goes_on, last]).with_job(token, job))
        await until(pilot, lambda: app.view.runs[4].live)
        await press(pilot, "T", then=lambda: "Minutes from its start" in text_of(app))
        filled_session.feed(lambda state: state.with_runs([done]))
        await until(pilot, lambda: not app.view.runs[4].live)
        assert "Minutes from its start" in text_of(app), "its job goes on"
        filled_session.feed(lambda state: state.with_runs([first]).with_job(token, over))
        await until(pilot, lambda: "The job of run 4 has ended." in text_of(app))
        await press(pilot, "x", "enter", then=lambda: app.screen is app.main)
        assert len(filled_session.requests) == 2
        assert "ZeroDivisionError" in filled_session.folder.problem_log.read_text()


async def test_an_own_limit_is_checked_and_a_waiting_run_is_held(filled_session, monkeypatch):
    asked: list[tuple[int, bool]] = []
    monkeypatch.setattr(filled_session, "hold", lambda at, held: asked.append((at, held)) or Future())
    async with screens(filled_session, "runs", size=(80, 24)) as (app, pilot):
        for key in ("T", *"9999", "enter"):  # typed before the dialog stands
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await until(pilot, lambda: "it ends before that" in text_of(app))
        token, job = app.view.runs[4].run.token, app.view.runs[4].job
        filled_session.feed(lambda state: state.with_submission(token, job=replace(job, elapsed_s=600.0)))
        await until(pilot, lambda: app.view.runs[4].job.elapsed_s == 600)
        await pilot.press("backspace", "backspace", "backspace", "enter")
        await until(pilot, lambda: "10 min" in text_of(app), "what it has run by now")
        await pilot.press("x", "enter")
        await until(pilot, lambda: "Enter a whole number" in text_of(app), "'10x' is not 0 minutes")
        await pilot.press("backspace", "backspace", "1", "5", "enter")
        await until(pilot, lambda: bool(filled_session.requests))
        assert filled_session.requests[0][:2] == ("end-after", (4, 15))
        filled_session.feed(planned("lt000000000000000ff1", "10.5", 6, spec(gpus=2)))
        await until(pilot, lambda: 6 in app.view_model.state.runs)
        done = "is done. To run it again: "
        for run_id, said in (4, "is running."), (2, f"{done}s, then d if it is left out."):
            app.choose_run(run_id)
            assert app.main.why_disabled("retry_run", ()) == f"Run {run_id} {said}"
        app.choose_run(6)
        await press(pilot, "H", then=lambda: asked == [(6, True)] and "Hold" in text_of(app))
        full = {"sentence": "No file.", "hint": "See `labtui doctor`."}
        filled_session.feed(lambda state: state.with_submission("lt000000000000000ff1", **full))
        await until(pilot, lambda: "! No file.\n  Press D: See `labtui doctor`." in problems_text(app).plain)
        filled_session.feed(lambda state: state.with_submission("lt000000000000000ff1", held=True))
        await until(pilot, lambda: "Release" in text_of(app) and "waiting (held)" in text_of(app))
        await press(pilot, "H", then=lambda: asked[1:] == [(6, False)])
        filled_session.feed(planned("lt7", "10.5", 7, spec(gpus=2)), changes.ended(6, "time-limit"))
        await until(pilot, lambda: 7 in app.view.runs)
        assert app.main.why_disabled("retry_run", ()) is None, "not in the footer, as nothing misses it"
        await pilot.press("R")
        await until(pilot, lambda: "out of time" in text_of(app) and "Run 7 is the same" in text_of(app))
        filled_session.feed(*finished_run("lt8", "", 8, spec(gpus=1), "8"))
        await until(pilot, lambda: 8 in app.view.runs)
        app.go_to_task("")
        assert app.main.why_disabled("retry_run", ()) == f"Run 8 {done}`labtui retry 8 --again`."


async def test_questions_of_the_login_are_answered_from_another_thread(filled_session, monkeypatch):
    prompter = messages.ScreenPrompter()
    app = LabApp(filled_session, prompter=prompter, pane="answers")
    answers: list[str | None] = []

    def ask() -> None:
        for kind, text, more in (
            ("password", "[bold]Password[/]: ", {}), ("code", "Code: ", {"echo": True}),
            ("host-key", "Never seen before.", {"fingerprint": "SHA256:abc"}), ("password", "again", {}),
        ):  # fmt: skip
            answers.append(prompter(LoginQuestion(kind=kind, text=text, host=HOST, **more)))

    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        thread = threading.Thread(target=ask)
        await until(pilot, lambda: "No answer yet" in text_of(app))
        await pilot.press("enter")
        thread.start()
        await until(pilot, lambda: f"{HOST} asks a question: leave the text" in text_of(app))
        await pilot.press(*"mine", "escape")
        await until(pilot, lambda: types(app) and "[bold]Password[/]:" in text_of(app))
        monkeypatch.setattr(view.View, "progress", SimpleNamespace(done=1, total=1))
        app._unfinished = True
        app.repaint()  # no card over the dialog: it would take the keys
        assert "[bold]Password[/]:" in text_of(app)
        await press(pilot, *"hush", "enter", then=lambda: types(app) and "Code:" in text_of(app))
        assert "hush" not in text_of(app)
        await press(pilot, *"123", "enter", then=lambda: "SHA256:abc" in text_of(app))
        await pilot.press(*"my words", "enter")  # meant for the text below
        await until(pilot, lambda: "Type yes if it is the same" in text_of(app))
        assert len(answers) == 2
        await pilot.press(*["backspace"] * 8, *"abc", "enter")  # of the fingerprint
        await until(pilot, lambda: types(app) and "again" in text_of(app))
        await press(pilot, "escape", then=lambda: len(answers) == 4)
        thread.join()
    assert answers == ["hush", "123", "abc", None]
    assert "\nmine\n" in (filled_session.folder.answers / "10.5.md").read_text()
    assert prompter(LoginQuestion(kind="password", text="too late", host=HOST)) is None


async def test_help_and_palette(filled_session, monkeypatch):
    monkeypatch.setattr(CommandPalette, "_NO_MATCHES_COUNTDOWN", 3600.0)  # Textual's own wait
    async with screens(filled_session, size=(120, 60)) as (app, pilot):
        await press(pilot, "question_mark", then=lambda: text_of(app).count("a ring: still running") == 1)
        assert "or the sign of" in text_of(app) and "ending, cancelling: with the sign" in text_of(app)
        places = [text_of(app).index(each) for each in ("  Here", "^k", "On this screen", "Everywhere")]
        assert places == sorted(places), "in groups"
        await press(pilot, "escape", "t", "colon", then=lambda: "Find an action or a task" in text_of(app))
        lines = [" ".join(line.split()) for line in text_of(app).splitlines()]
        plan, charts = ([said in line for line in lines].index(True) for said in ("Plan s", "Charts c"))
        assert plan < charts and "the views 1 to 5" in lines[charts], "not by the alphabet"
        assert "not now: This key acts on a run" in " ".join(lines), "where no pane has it"
        found = {"expo": "Export Tasks", "theme": "Theme", "quit": "Quit", "retry": "Run", "cancel": "Cancel"}
        found |= {"gustaf": "Speedup", "amdahl": "Speedup", "why": "Efficiency"}
        for typed, named in found.items():
            hits = [each async for each in Actions(app.main).search(typed)]
            assert [each.text.split()[0] for each in sorted(hits, reverse=True)] == named.split(), "by name"
        await press(pilot, *"qq", then=lambda: "No matches found" in text_of(app))
        await press(pilot, *["backspace"] * 2, *"speedup", "enter", then=lambda: app.main.pane == "charts")
        entries = [(f"{'Task 1':40}[/bold]", "", app.exit, True)]  # a title is no markup
        monkeypatch.setattr("labtui.tui.screens.modals.palette", lambda *_: entries)
        actions = Actions(app.main)
        hits = [each async for each in actions.discover()] + [each async for each in actions.search("ask")]
        assert [Content.from_markup(hit.prompt).plain[40:] for hit in hits] == ["[/bold]"] * 2


async def test_answers_are_stored_and_never_written_over(filled_session):
    path = filled_session.folder.answers / "10.5.md"
    async with screens(filled_session, "answers") as (app, pilot):
        await until(pilot, lambda: "How close is the speedup" in text_of(app))
        await pilot.press("enter")
        assert not path.exists()
        editor = app.main.query_one("#answer-text", widgets.TextArea)
        await press(pilot, *"Ours", then=lambda: "not stored yet" in text_of(app))
        await press(pilot, "escape", then=lambda: path.exists() and "Ours" in path.read_text())
        path.write_text(path.read_text().replace("Ours", "from another editor"))
        app.repaint()
        await until(pilot, lambda: "from another editor" in text_of(app))
        await press(pilot, "enter", then=lambda: editor.text == "from another editor")
        await pilot.press(*"mine ")
        path.write_text("from a friend\n")
        await pilot.press("escape")
        beside = filled_session.folder.answers / "10.5.yours.md"
        await until(pilot, beside.exists)
        assert path.read_text() == "from a friend\n" and "mine" in beside.read_text()
        app.repaint()
        await until(pilot, lambda: "answers/10.5.md, line 1: text" in text_of(app))


async def test_no_file_without_questions_and_what_is_typed_after_the_key_is_text(filled_session):
    """All keys are there before the first is looked at: `s` must not mean submit."""
    async with screens(filled_session, "answers") as (app, pilot):
        app.go_to_task("10.1")
        await until(pilot, lambda: "There are no questions here." in text_of(app))
        assert not app.main.check_action("edit", ())
        assert not (filled_session.folder.answers / "10.1.md").exists()
        app.go_to_task("10.5")
        await press(pilot, "r", then=lambda: "^n  Answer question 1" in text_of(app))
        path, written = filled_session.folder.answers / "10.5.md", list[str]()
        for keys in ("full_stop", "s", "s", "ctrl+n", "n", ".", "ctrl+n", "y"), ("enter", "s"):
            for key in keys:
                pressed = events.Key(key, key if len(key) == 1 else None)
                pressed.set_sender(app)
                app._driver.send_message(pressed)  # type: ignore[union-attr]
            typed = "y" + "s" * bool(written)
            await until(pilot, lambda typed=typed: app.main.query_one(widgets.TextArea).text == typed)
            await pilot.press("escape")
            written = [part.split()[-1] for part in path.read_text().split("## ")[1:4]]
            assert written == ["ss", "n.", typed], "each in its own answer"
        await pilot.press("enter", *"q")
        app.action_leave()
    assert "ysq" in path.read_text() and not filled_session.requests, "leaving stores what was typed"


def colours(app: LabApp) -> set[str]:
    """The colours of the text on the screen."""
    parts = (part.style for row in app.screen._compositor.render_strips() for part in row)
    return {style.color.name.lower() for style in parts if style is not None and style.color is not None}


async def test_the_other_theme_is_one_step_away_recolours_every_pane_and_is_kept(filled_session):
    dark, light = ({*map(str, each.variables.values()), each.success} for each in (themes.DARK, themes.LIGHT))
    async with screens(filled_session, size=(80, 24)) as (app, pilot):
        for key in "tcas":
            await press(pilot, key, then=lambda key=key: key != "s" or ready(app.screen))
            app.theme = themes.LIGHT.name
            await until(pilot, lambda: not colours(app) & (dark - light))
            app.theme = themes.DARK.name
        await pilot.press("escape", "r")
        for ours in (themes.LIGHT, themes.DARK):
            await pilot.press("colon", *"theme")
            await until(pilot, lambda: "light colours, or dark ones again" in text_of(app))
            await press(pilot, "enter", then=lambda ours=ours: colour_of(app, "done") == ours.success)
            assert app.screen is app.main and app.theme == themes.preferred_theme() == ours.name


async def test_a_failed_run_says_what_to_do_and_where_standard_error_says_why(session):
    session.feed(*finished_run("lt1", "10.5", 1, spec(batch=8192), "9")[:-2], *online())
    found = Diagnosis(kind="oom", stream="err", line=3, text="OOM", advice="Halve the batch per GPU.")
    session.feed(changes.ended(1, "oom", (found,)))
    async with screens(session, size=(80, 24)) as (app, pilot):
        await until(pilot, lambda: "line 3 of standard error" in text_of(app))
        write_log(session, "lt1", "".join(f"text {number}\n" for number in range(1, 99)), "err")
        await pilot.press("l")
        await until(pilot, lambda: "The error is in" not in text_of(app) and " 3 text 3" in text_of(app))
        assert "standard error" in text_of(app).splitlines()[4], "which of the two it is"
        await press(pilot, "o", then=lambda: "The error is in standard error: press o." in text_of(app))
        session.feed(changes.ended(1, "cancelled", (found,)))  # nobody asks why
        await until(pilot, lambda: "The error is in" not in text_of(app))
        found = Diagnosis(kind="oom", line=31, text="OOM when allocating", advice="Halve the batch per GPU.")
        session.feed(changes.ended(1, "oom", (found,)))
        await press(pilot, "r", then=lambda: "OOM when allocating" in text_of(app))
        first = [row for row in text_of(app).splitlines()[7:] if row.strip()]  # below the table
        assert "OOM when allocating" in first[0] and "line 31 of the log, run 1 on 1 GPU" in first[1]
        assert "Run 1 ran out of memory with a batch of 8,192 per GPU." in first[2]
        assert text_of(app).count("ran out of memory") == 1, "said once"
        app.theme = themes.LIGHT.name
        key = "R  Run again"
        await until(pilot, lambda: colour_of(app, key) == themes.LIGHT.variables["on-accent"])
        await press(pilot, "t", then=lambda: "R  Run again  Run 1 ran out of memory." in text_of(app))
        app.go_to_task("10.7")  # it compares the runs of 10.5
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app.screen, PlanScreen) and "10.5  1, 2 and" in text_of(app))
        assert [row.spec.per_gpu_batch for row in app.screen.plan.rows] == [2048] * 3  # type: ignore[attr-defined]
        await press(pilot, "escape", then=lambda: app.screen is app.main and app.view.task_id == "10.7")


async def test_the_export_says_that_it_goes_on_and_what_it_wrote(filled_session, monkeypatch):
    started, hear = list[Future[str]](), list[tuple[Callable[[Any], None], ...]]()

    def export_all(folder: Any, told: Callable[[str], None], noted: Any) -> Future[str]:
        assert folder == filled_session.folder.path
        started.append(Future())
        hear.append((told, noted))
        return started[-1]

    monkeypatch.setattr("labtui.tui.messages.export_all", export_all)
    async with screens(filled_session, size=(80, 24)) as (app, pilot):
        await press(pilot, "x", "x", then=lambda: "still under way" in text_of(app))
        await pilot.press("c")  # the screens go on meanwhile
        await until(pilot, lambda: app.main.pane == "charts" and "Exporting" in text_of(app))
        hear[0][0]("3 of 11: deck.pptx")
        await until(pilot, lambda: "Exporting 3 of 11: deck.pptx" in text_of(app))
        started[0].set_result("Written: deck.pptx.")
        await until(pilot, lambda: "Written: deck.pptx." in text_of(app) and "Exporting" not in text_of(app))
        hear[0][1](["no author", "no answer"])
    async with screens(filled_session, size=(80, 24)) as (app, pilot):  # the next day
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: "The last export with x" in text_of(app) and "  no author" in text_of(app))
        await pilot.press("escape", "x", "exclamation_mark")
        await until(pilot, lambda: len(started) == 2 and "Nothing is wrong" in text_of(app))
        assert "no author" not in text_of(app), "of an older export"
        started[1].set_exception(ExportError("The disk is [full].", "Remove something."))
        await until(pilot, lambda: "[full]. Remove" in text_of(app) and "Exporting" not in text_of(app))
        hear[1][1](["no author"])
        app.incidents = [SimpleNamespace(title="The job was killed", text="")]
        assert "killed" in problems_text(app).plain.partition("The last export")[0], "what matters first"


async def test_my_jobs_have_every_column_at_80_and_are_those_of_the_last_look(filled_session):
    async with screens(filled_session, factor=20.0, size=(80, 24)) as (app, pilot):
        filled_session.feed(changes.refreshed(NOW - 3, NOW - 5))
        await press(pilot, "Q", then=lambda: "Your jobs" in text_of(app) and "31337" in text_of(app))
        heads = next(line for line in text_of(app).splitlines() if " state " in line)
        assert all(word in heads for word in ("job", "name", "state", "queue", "node", "run"))
        await until(pilot, lambda: "As of " in text_of(app) and "running  1:30" in text_of(app))


async def test_the_doctor_shows_what_it_finds_and_closes(filled_session, monkeypatch):
    def examine(*_: object) -> Iterator[Check]:
        yield make("login", "fine", user="me", host="h", methods="publickey")
        yield make("data", "missing", path="[bold]cifar[/]", account="", file="lab.toml")
        raise RuntimeError("broken off")

    monkeypatch.setattr("labtui.doctor.examine.examine", examine)
    async with screens(filled_session, size=(80, 24)) as (app, pilot):
        await press(pilot, "D", then=lambda: "2 wrong" in text_of(app))
        assert app.screen.query_one(".page").size.width == 76 and "Doctor: The check was cut" in text_of(app)
        shown = text_of(app)
        assert shown.index("[bold]cifar[/] does not") < shown.index("✔ Login: me on h by publickey.")
        assert "\n│   lab.toml)." in shown, "below the text, not below the sign"
        for title in ("Keys here", "Doctor"):
            await pilot.press("question_mark")
            await until(pilot, lambda title=title: str(app.screen.title).split(":")[0] == title)
        await press(pilot, "escape", then=lambda: app.screen is app.main)


async def test_a_missing_editor_is_said_and_text_typed_in_one_is_no_command(filled_session, monkeypatch):
    script, came_back = filled_session.folder.path / "scripts" / "ResNet50.py", []

    @contextlib.contextmanager
    def suspend() -> Iterator[None]:
        yield
        came_back.append(True)  # as in Textual: not when something was raised

    monkeypatch.setenv("VISUAL", "no-such-editor-here")
    async with screens(filled_session, "runs", size=(80, 24)) as (app, pilot):
        assert not app.open_editor(script)  # a terminal of tests cannot be left
        await until(pilot, lambda: "An editor cannot be opened here" in text_of(app))
        monkeypatch.setattr(app, "suspend", suspend)
        assert not app.open_editor(script) and came_back == [True]
        await until(pilot, lambda: "No such file or directory. Set EDITOR to your" in text_of(app))

        def typed(path, *, explain):
            app.post_message(events.Key("c", "c"))

        monkeypatch.setattr("labtui.tui.messages.edit", typed)
        assert app.open_editor(script)
        await press(pilot, "t", then=lambda: app.main.pane == "task")
        assert not app.main.query("#pane-charts")


def test_an_editor_on_windows_may_have_spaces_in_its_path_or_be_a_script(tmp_path, monkeypatch):
    (program := tmp_path / "a b.exe").touch()
    monkeypatch.setattr("shutil.which", {"code": "bin/code.cmd"}.get)
    monkeypatch.setattr("sys.platform", "win32")
    quoted = {f'"{program}" -x': [str(program), "-x"], str(program): [str(program)]}
    for text, words in {**quoted, "code -w": ["bin/code.cmd", "-w"]}.items():
        monkeypatch.setenv("VISUAL", text)
        assert messages.editor_command() == words


async def test_the_next_step_edits_the_script_from_the_answers_too(session, monkeypatch):
    copy, edited = session.folder.scripts / "ResNet152.py", list[Path]()
    copy.write_bytes((session.folder.scripts / "ResNet50.py").read_bytes())
    session.feed(*online())
    async with screens(session, "answers") as (app, pilot):
        monkeypatch.setattr(app, "open_editor", edited.append)
        app.go_to_task("10.6")
        await until(pilot, lambda: " .  Edit the script" in text_of(app))
        await pilot.press("full_stop")
        await until(pilot, lambda: edited == [copy] and " e  Edit the script" in text_of(app))


@pytest.mark.parametrize(("size", "first"), [((80, 24), "#bottom"), ((120, 40), "#rail")])
async def test_each_step_of_the_tour_stands_beside_its_part_and_escape_skips(filled_session, size, first):
    app, answers = LabApp(filled_session), []
    app.with_tour = True
    async with app.run_test(size=size) as pilot:
        for step, name in enumerate((first, "Tabs", "#bottom"), 1):
            await until(pilot, lambda step=step: f"Step {step} of 3" in text_of(app))
            part, ask = app.main.query_one(name), app.screen.query_one(".dialog").region
            assert [*app.main.query(".-told")] == [part] and not ask.overlaps(part.region)
            assert ask.overlaps(part.region.grow((1, 1, 1, 1))), "beside it"
            assert "? Help" in text_of(app) and "━" in text_of(app), "nothing hides it"
            if first == "#rail" and step == 1:  # a question stands alone, and the tour begins again after it
                asked = SimpleNamespace(kind="host-key", text="Is it it?", host=HOST, fingerprint="SHA256:0")
                messages.ScreenPrompter().show(app, asked, answers.append)
                await until(pilot, lambda: "Is it it?" in text_of(app) and "Step" not in text_of(app))
                await press(pilot, "escape", then=lambda: answers == [None] and "Step 1" in text_of(app))
            await pilot.press("enter" if step < 3 else "escape")
        await until(pilot, lambda: app.screen is app.main and not app.main.query(".-told"))
        await press(pilot, "question_mark", then=lambda: app.screen is not app.main)
        show_tour(app)  # once this page is closed
        await press(pilot, "escape", then=lambda: "Step 1 of 3" in text_of(app))


def test_an_editor_that_the_student_did_not_choose_is_named_and_ctrl_c_goes_back(tmp_path, monkeypatch):
    path = tmp_path / "answer.md"
    named = messages.editor_hint(["/usr/bin/nano"], path)
    assert named == "answer.md opens in nano: ctrl+x leaves it. Set EDITOR to choose another editor."
    assert ":wq" in messages.editor_hint(["vi"], path)
    monkeypatch.setenv("EDITOR", "vi")
    assert messages.editor_hint(["vi"], path) == ""
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setattr(messages, "editor_command", lambda: ["touch"])
    handler = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("builtins.input", lambda _: os.kill(os.getpid(), signal.SIGINT))
    assert messages.edit(path, explain=True) is None and not path.exists()
    said: list[str] = []
    monkeypatch.setattr("builtins.input", said.append)
    monkeypatch.setenv("COLUMNS", "30")
    assert messages.edit(path, explain=True) is None and path.exists()
    assert "another\neditor.\n" in said[0], "lines end at words"
    assert signal.getsignal(signal.SIGINT) is handler
    assert said[0].startswith("\x1b[?1049h"), "nothing stays on the terminal"
    monkeypatch.setattr("sys.platform", "win32")
    assert messages.edit(path, explain=True) is None and said[1].startswith("answer.md"), "no escape sequence"
