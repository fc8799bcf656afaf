"""The title over the log: where the search stands, in words, and the keys that go on."""

from __future__ import annotations

from collections.abc import Callable

from labtui.tui.app import LabApp
from tests.tui.replay import ReplayedSession, write_log
from tests.tui.waiting import text_of, until

Make = Callable[..., LabApp]
LIVE = "lt000000000000000ddd"


def title(app: LabApp) -> str:
    return next(line for line in text_of(app).splitlines() if line.startswith(" #"))


async def test_the_title_says_where_the_search_stands_and_how_it_goes_on(
    evening_session: ReplayedSession, app_of: Make
) -> None:
    write_log(evening_session, LIVE, "".join(f"filler {n}\n" for n in range(60)) + "the mark\n")
    write_log(evening_session, LIVE, "".join(f"filler {n}\n" for n in range(60)) + "the mark\n")
    app = app_of(evening_session, "log")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "following" in text_of(app))
        await pilot.press("slash", *"the mark", "enter")
        await until(pilot, lambda: "(n next, N before)" in title(app))
        assert "end follows" in title(app)
        assert "+0" not in title(app), "nothing is below"
        await pilot.press("n")
        await until(pilot, lambda: "none below, N goes up" in title(app))
        assert "not found" not in title(app)
        await pilot.press("N")
        await until(pilot, lambda: "(n next, N before)" in title(app) and " below, end follows" in title(app))
        await pilot.press("N")
        await until(pilot, lambda: "none above, n goes down" in title(app))


async def test_not_found_is_not_said_of_another_run(evening_session: ReplayedSession, app_of: Make) -> None:
    app = app_of(evening_session, "log")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "following" in text_of(app))
        await pilot.press("slash", *"no such words", "enter")
        await until(pilot, lambda: "not found" in title(app))
        app.desk.choose_run(3)
        app.repaint()
        await until(pilot, lambda: "#3" in title(app))
        assert "not found" not in title(app)
        assert "/no such words (n, N)" in title(app)
