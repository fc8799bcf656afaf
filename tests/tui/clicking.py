"""Mouse actions for tests: find words on the screen and click on them, as a student does."""

from typing import Any

from textual.pilot import Pilot
from textual.widgets import OptionList

from tests.tui.waiting import text_of, until


def place_of(app: Any, words: str) -> tuple[int, int] | None:
    """Column and row of the last occurrence of some words on the screen; None if they are not there."""
    for row, line in reversed(list(enumerate(text_of(app).split("\n")))):
        if words in line:
            return line.index(words), row
    return None


async def click_words(pilot: Pilot[Any], words: str) -> None:
    """Wait for the words, then click in the middle of them."""
    await until(pilot, lambda: place_of(pilot.app, words) is not None, words)
    place = place_of(pilot.app, words)
    assert place is not None
    assert await pilot.click(offset=(place[0] + len(words) // 2, place[1]))


async def choose(pilot: Pilot[Any], words: str) -> None:
    """Open the palette, scroll to an action and click on it."""
    await pilot.press("ctrl+p")
    app = pilot.app
    await until(pilot, lambda: "Find an action or a task" in text_of(app) and app.screen.query(OptionList))
    found = app.screen.query_one(OptionList)
    await until(pilot, lambda: found.option_count > 5)
    for _ in range(found.option_count):
        if place_of(app, words) is not None:
            break
        found.scroll_relative(y=2, animate=False)
        await pilot.pause()
    await click_words(pilot, words)
