"""Mouse actions for tests: find words on the screen and click on them, as a student does."""

from typing import Any

from textual.pilot import Pilot

from tests.tui.waiting import text_of, until


def place_of(app: Any, words: str) -> tuple[int, int] | None:
    """Column and row of the last occurrence of some words on the screen; None if they are not there."""
    rows = reversed(list(enumerate(text_of(app).split("\n"))))
    return next(((line.index(words), row) for row, line in rows if words in line), None)


async def click_words(pilot: Pilot[Any], words: str) -> None:
    """Wait for the words, then click in the middle of them."""
    await until(pilot, lambda: place_of(pilot.app, words) is not None, words)
    place = place_of(pilot.app, words)
    assert place is not None
    assert await pilot.click(offset=(place[0] + len(words) // 2, place[1]))
