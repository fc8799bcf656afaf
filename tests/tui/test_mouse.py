"""Everything by mouse: each page and dialog that lies over a screen is opened and left, or answered, by clicks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from labtui.domain.events import ErrorRaised
from labtui.tui.app import LabApp
from labtui.tui.messages import ScreenPrompter
from labtui.tui.screens.main import MainScreen
from labtui.tui.screens.pages import RemoteCommands, TextScreen
from labtui.tui.screens.palette import HelpScreen
from labtui.tui.screens.plan import PlanScreen
from labtui.tui.screens.prompts import AskHostKey, AskMinutes, AskSecret, Confirm, prompt_screen
from labtui.tui.screens.wizard import WizardApp
from tests.tui.clicking import choose, click_words, place_of
from tests.tui.fed_session import NOW, FedSession
from tests.tui.waiting import text_of, until

Make = Callable[..., LabApp]
SMALL = (80, 24)


async def shown(pilot: Any, kind: type) -> None:
    await until(pilot, lambda: isinstance(pilot.app.screen, kind), kind.__name__)


async def test_every_page_is_opened_and_closed_by_clicks(filled_session: FedSession, app_of: Make) -> None:
    app = app_of(filled_session)
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await until(pilot, lambda: app.view_model.loaded)
        await click_words(pilot, "? Help")
        await shown(pilot, HelpScreen)
        await click_words(pilot, "esc closes")
        await shown(pilot, MainScreen)
        await choose(pilot, "Requests")
        await shown(pilot, RemoteCommands)
        await click_words(pilot, "esc closes")
        await shown(pilot, MainScreen)
        await choose(pilot, "By hand")
        await shown(pilot, TextScreen)
        await click_words(pilot, "c copies")
        await until(pilot, lambda: "scancel 31337" in app.clipboard)
        await click_words(pilot, "esc closes")
        await shown(pilot, MainScreen)
        filled_session.feed(ErrorRaised(at=NOW, key="x", sentence="The quota is full.", hint="Remove files."))
        await click_words(pilot, "! The quota is full.")
        await shown(pilot, TextScreen)
        await click_words(pilot, "esc closes")
        await shown(pilot, MainScreen)
        await pilot.press("ctrl+p")
        await until(pilot, lambda: "Search for commands" in text_of(app))
        assert await pilot.click(offset=(40, 0))  # above it
        await shown(pilot, MainScreen)


async def test_every_question_is_answered_by_clicks(filled_session: FedSession, app_of: Make) -> None:
    app = app_of(filled_session)
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await until(pilot, lambda: app.view_model.loaded)
        for answer in ("n  Keep", "y  Cancel"):
            assert not filled_session.requests
            await choose(pilot, "Cancel run  ^k")
            await shown(pilot, Confirm)
            await click_words(pilot, answer)
            await shown(pilot, MainScreen)
        assert filled_session.requests.pop()[:2] == ("cancel", 4)
        await choose(pilot, "Time limit  T")
        await shown(pilot, AskMinutes)
        await click_words(pilot, "esc leaves")
        await shown(pilot, MainScreen)
        await choose(pilot, "Time limit  T")
        await shown(pilot, AskMinutes)
        await click_words(pilot, "enter sets the limit")  # nothing is typed yet
        await until(pilot, lambda: str(app.screen.query_one("#minutes-problem").render()))
        await pilot.press("9")
        await click_words(pilot, "enter sets the limit")
        await shown(pilot, MainScreen)
        assert filled_session.requests.pop()[:2] == ("end-after", (4, 9))


@dataclass(frozen=True)
class Question:
    kind: str
    text: str = "What is it?"
    host: str = "login.rehearsal.test"
    echo: bool = False
    fingerprint: str = "SHA256:abc"


async def test_questions_of_a_login_are_answered_by_clicks(filled_session: FedSession) -> None:
    prompter = ScreenPrompter()
    app = LabApp(filled_session, prompter=prompter, clock=lambda: NOW)
    kinds = ("password", "code", "host-key", "host-key")
    answers: list[str | None] = []
    asking = threading.Thread(target=lambda: answers.extend(prompter.ask(Question(kind)) for kind in kinds))
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        asking.start()
        await shown(pilot, AskSecret)
        await pilot.press(*"hush")
        await click_words(pilot, "enter answers")
        await click_words(pilot, "Code: login")  # on words that mean nothing
        await click_words(pilot, "esc cancels")
        for answer in ("Do not connect", "It is the same: connect"):
            await shown(pilot, AskHostKey)
            await click_words(pilot, answer)
            await until(pilot, lambda: not asking.is_alive() or isinstance(app.screen, AskHostKey))
        asking.join()
    assert answers == ["hush", None, None, "yes"]


@pytest.mark.parametrize("answer", ["n leaves it as it is", "y makes this change"])
async def test_a_fix_is_taken_or_left_by_a_click(session: FedSession, app_of: Make, answer: str) -> None:
    template = session.folder.slurm / "templates" / "one-job.slurm"
    template.write_text(template.read_text().replace("#SBATCH --nodes=1", "#SBATCH \u2014nodes=1"))
    app = app_of(session)
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await until(pilot, lambda: app.view_model.loaded)
        app.go_to_task("10.5")
        await click_words(pilot, "s Submit")
        await shown(pilot, PlanScreen)
        plan: Any = app.screen
        await until(pilot, lambda: plan.finding is not None and plan.finding.fix is not None)
        if place_of(app, "f Fix") is None:  # too narrow for all keys: the palette has them
            await choose(pilot, "Fix  f")
        else:
            await click_words(pilot, "f Fix")
        await shown(pilot, TextScreen)
        await click_words(pilot, answer)
        await shown(pilot, PlanScreen)
        assert bool(plan.scripts) is answer.startswith("y")
        await click_words(pilot, "esc Back")
        if plan.scripts:  # the change would be lost
            await click_words(pilot, "Leave the plan")
        await shown(pilot, MainScreen)


async def test_a_question_during_the_first_run_is_answered_by_a_click(tmp_path: Path) -> None:
    app = WizardApp(tmp_path)
    answers: list[str | None] = []
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        for words in ("enter answers", "esc cancels"):
            app.push_screen(prompt_screen(Question("password")), answers.append)
            await shown(pilot, AskSecret)
            await pilot.press(*"hush")
            await click_words(pilot, words)
            await until(pilot, lambda words=words: len(answers) == (1 if words.startswith("enter") else 2))
    assert answers == ["hush", None]


async def test_a_long_question_leaves_room_for_its_answers(filled_session: FedSession, app_of: Make) -> None:
    app = app_of(filled_session)
    answers: list[bool | None] = []
    details = Text("\n".join(f"job {number}" for number in range(30)))
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await until(pilot, lambda: app.view_model.loaded)
        app.push_screen(Confirm("Submit all of them? " * 6, yes="Submit", details=details), answers.append)
        await shown(pilot, Confirm)
        await click_words(pilot, "y  Submit")
        await until(pilot, lambda: answers == [True])
