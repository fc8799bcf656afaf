"""By mouse alone: pages over a screen are opened and left; fixes are in the tests of the plan."""

from typing import Any

from labtui.tui.screens.main import MainScreen
from labtui.tui.screens.modals import TextScreen
from tests import changes
from tests.tui.clicking import choose, click_words
from tests.tui.waiting import screens, text_of, until


async def shown(pilot: Any, kind: type) -> None:
    await until(pilot, lambda: isinstance(pilot.app.screen, kind), kind.__name__)


async def test_every_page_is_opened_and_closed_by_clicks(filled_session):
    async with screens(filled_session, size=(80, 24)) as (app, pilot):
        for words in ("? Help", "My jobs", "! The quota is full."):
            if words.startswith("!"):
                filled_session.feed(changes.problem("x", "The quota is full.", "Remove files."))
            await (choose if words == "My jobs" else click_words)(pilot, words)
            await shown(pilot, TextScreen)
            await click_words(pilot, "esc Close")
            await shown(pilot, MainScreen)
        await pilot.press("ctrl+p")
        await until(pilot, lambda: "Find an action or a task" in text_of(app))
        assert await pilot.click(offset=(40, 0))  # above it
        await shown(pilot, MainScreen)
