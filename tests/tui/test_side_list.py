"""The list of tasks beside the panes: it grows with the window, and leaves a small one to the panes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from labtui.tui.app import LabApp
from tests.tui.fed_session import FedSession
from tests.tui.waiting import text_of, until

Make = Callable[..., LabApp]


@pytest.mark.parametrize("width", [120, 200])
async def test_titles_are_whole_where_there_is_room(
    filled_session: FedSession, app_of: Make, width: int
) -> None:
    app = app_of(filled_session)
    async with app.run_test(size=(width, 40)) as pilot:
        await until(pilot, lambda: "10.4 One GPU: CPU against GPU" in text_of(app))
        assert "10.2 Read the sequential program" in text_of(app)
        side = app.screen.query_one("#side").outer_size.width
        assert side <= 46
        assert width - side >= 80, "the panes keep what they need"


@pytest.mark.parametrize("width", [40, 80, 107, 108, 120])
async def test_the_panes_come_first(filled_session: FedSession, app_of: Make, width: int) -> None:
    app = app_of(filled_session)
    async with app.run_test(size=(width, 30)) as pilot:
        await until(pilot, lambda: "Runs" in text_of(app))
        main = app.screen.query_one("#main").region
        assert main.right <= width, "nothing of them lies outside the window"
        assert main.width >= min(width, 80)


async def test_on_a_narrow_window_the_open_list_has_all_of_it(
    filled_session: FedSession, app_of: Make
) -> None:
    app = app_of(filled_session)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "of 7 done" in text_of(app))
        assert not app.screen.query_one("#side").display
        await pilot.press("g")
        await until(pilot, lambda: app.screen.query_one("#side").outer_size.width == 80)
