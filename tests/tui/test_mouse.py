"""Everything by mouse: each page and dialog that lies over a screen is opened and left, or answered, by clicks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from labtui.tui.app import LabApp
from labtui.tui.messages import ScreenPrompter
from labtui.tui.screens.main import MainScreen
from labtui.tui.screens.pages import TextScreen
from labtui.tui.screens.plan import PlanScreen
from labtui.tui.screens.prompts import Ask, prompt_screen, yes_or_no
from labtui.tui.screens.wizard import WizardApp
from tests import changes
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
        await shown(pilot, TextScreen)
        await click_words(pilot, "esc Close")
        await shown(pilot, MainScreen)
        await choose(pilot, "Requests")
        await shown(pilot, TextScreen)
        await click_words(pilot, "esc Close")
        await shown(pilot, MainScreen)
        filled_session.feed(changes.problem("x", "The quota is full.", "Remove files.", NOW))
        await click_words(pilot, "! The quota is full.")
        await shown(pilot, TextScreen)
        await click_words(pilot, "esc Close")
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
            await shown(pilot, Ask)
            await click_words(pilot, answer)
            await shown(pilot, MainScreen)
        assert filled_session.requests.pop()[:2] == ("cancel", 4)
        await choose(pilot, "Time limit  T")
        await shown(pilot, Ask)
        await click_words(pilot, "esc  Leave")
        await shown(pilot, MainScreen)
        await choose(pilot, "Time limit  T")
        await shown(pilot, Ask)
        await click_words(pilot, "enter  Set the limit")  # nothing is typed yet
        await until(pilot, lambda: str(app.screen.query_one("#problem").render()))
        await pilot.press("9")
        await click_words(pilot, "enter  Set the limit")
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
        await shown(pilot, Ask)
        await pilot.press(*"hush")
        await click_words(pilot, "enter  Answer")
        await click_words(pilot, "Code: login")  # on words that mean nothing
        await click_words(pilot, "esc  Leave")
        for answer in ("Do not connect", "It is the same: connect"):
            await shown(pilot, Ask)
            await click_words(pilot, answer)
            await until(pilot, lambda: not asking.is_alive() or isinstance(app.screen, Ask))
        asking.join()
    assert answers == ["hush", None, None, "yes"]


@pytest.mark.parametrize("answer", ["n  Leave it", "y  Make this change"])
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
        await until(pilot, lambda: plan.found is not None)
        if place_of(app, "f Fix") is None:  # too narrow for all keys: the palette has them
            await choose(pilot, "Fix  f")
        else:
            await click_words(pilot, "f Fix")
        await shown(pilot, Ask)
        await click_words(pilot, answer)
        await shown(pilot, PlanScreen)
        assert bool(plan.plan.scripts) is answer.startswith("y")
        await click_words(pilot, "esc Back")
        if plan.plan.scripts:  # the change would be lost
            await click_words(pilot, "Leave the plan")
        await shown(pilot, MainScreen)


async def test_a_question_during_the_first_run_is_answered_by_a_click(tmp_path: Path) -> None:
    app = WizardApp(tmp_path)
    answers: list[str | None] = []
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        for words in ("enter  Answer", "esc  Leave"):
            app.push_screen(prompt_screen(Question("password")), answers.append)
            await shown(pilot, Ask)
            await pilot.press(*"hush")
            await click_words(pilot, words)
            await until(pilot, lambda words=words: len(answers) == (1 if words.startswith("enter") else 2))
    assert answers == ["hush", None]


async def test_a_long_question_leaves_room_for_its_answers(filled_session: FedSession, app_of: Make) -> None:
    app = app_of(filled_session)
    answers: list[str | None] = []
    details = Text("\n".join(f"job {number}" for number in range(30)))
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await until(pilot, lambda: app.view_model.loaded)
        app.push_screen(
            Ask("Submit all of them? " * 6, choices=yes_or_no("Submit", "Not yet"), details=details),
            answers.append,
        )
        await shown(pilot, Ask)
        await click_words(pilot, "y  Submit")
        await until(pilot, lambda: answers == ["yes"])
