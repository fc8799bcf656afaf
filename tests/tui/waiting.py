"""Helpers that wait for a condition, never for a fixed time, while the app handles its messages."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual import coordinate, widgets
from textual._context import visible_screen_stack
from textual.pilot import Pilot

from labtui.tui.app import LabApp
from labtui.tui.screens.modals import Ask
from labtui.tui.screens.plan import PlanScreen, PlanTable
from tests.tui.fed_session import FedSession

LIMIT_S = 240.0
CLUSTER_LIMIT_S = 600.0


async def until(pilot: Pilot[Any], condition: Callable[[], Any], what: str = "") -> None:
    """Let the app work until the condition holds. Raises AssertionError if it never does."""
    begun = time.monotonic()
    while (waited := time.monotonic() - begun) < LIMIT_S:
        await pilot.pause()
        if (pilot.app._exit or not pilot.app._batch_count) and condition():  # else a frame is yet to come
            return
        # A thread of the app may have to finish first, and checking the condition competes with it for the processor.
        await asyncio.sleep(min(0.005 + waited / 8, 0.2))
    raise AssertionError(f"it never came to: {what or condition}\n{text_of(pilot.app)}")


async def press(pilot: Pilot[Any], *keys: str, then: Callable[[], Any], what: str = "") -> None:
    """Press keys, then let the app work until the condition holds."""
    await pilot.press(*keys)
    await until(pilot, then, what)


@asynccontextmanager
async def screens(
    session: FedSession, pane: str = "", *, size: tuple[int, int] = (120, 40), **how: Any
) -> AsyncIterator[tuple[Any, Pilot[Any]]]:
    """An app for a session at a fixed time, once it shows everything that is stored, and its pilot."""
    app = LabApp(session, pane=pane, **how)
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: app.view_model.loaded)
        yield app, pilot


async def come_to(pilot: Pilot[Any], condition: Callable[[], Any], what: str) -> None:
    """Wait for something that a cluster does, with pauses that grow: to check often would keep half a core busy."""
    begun = time.monotonic()
    while (waited := time.monotonic() - begun) < CLUSTER_LIMIT_S:
        await pilot.pause(min(0.2 + waited / 10, 1.0))
        if (pilot.app._exit or not pilot.app._batch_count) and condition():  # else a frame is yet to come
            return
    raise AssertionError(f"it never came to: {what}\n{text_of(pilot.app)}")


def text_of(app: Any) -> str:
    """The screen as lines of text, then each notification on one line, since toasts wrap it."""
    visible_screen_stack.set(app._background_screens)  # the screens visible behind a modal
    lines = [row.text.rstrip() for row in app.screen._compositor.render_strips()[: app.size.height]]
    return "\n".join([*lines, *(" ".join(each.message.split()) for each in app._notifications)])


async def open_plan(app: Any, pilot: Pilot[Any], task: str = "10.5", *, again: bool = False) -> Any:
    """Open the plan of a task and wait until it is checked; with `again`, the runs that are done are included."""
    await until(pilot, lambda: app.view_model.loaded)
    app.go_to_task(task)
    if again:
        await app.show_plan(task, app.session.drafts(task), "Again.")
    else:
        await pilot.press("s")
    await until(pilot, lambda: ready(app.screen), f"the plan of {task}")
    return app.screen


def focus_at(screen: Any, row: int, column: str) -> None:
    """Move the cursor of a plan's table to a cell."""
    table = screen.query_one(PlanTable)
    table.cursor_coordinate = coordinate.Coordinate(row, table.get_column_index(column))


def ready(screen: Any) -> bool:
    """Whether the screen is a plan with all its previews."""
    return (
        isinstance(screen, PlanScreen) and bool(screen.query_one(PlanTable).columns) and screen.plan.checked
    )


def types(app: Any) -> bool:
    """Whether the screen is a dialog with an input."""
    return isinstance(app.screen, Ask) and bool(app.screen.query(widgets.Input))


def chooses(app: Any) -> bool:
    """Whether the screen is a dialog with choices only."""
    return isinstance(app.screen, Ask) and not app.screen.query(widgets.Input)


async def submit(pilot: Pilot[Any]) -> None:
    """Submit the plan on the screen, and confirm if it asks."""
    app = pilot.app
    await until(pilot, lambda: ready(app.screen), "a plan that is checked")
    await press(pilot, "s", then=lambda: not ready(app.screen), what="the plan is sent, or a question")
    if chooses(app):
        await pilot.press("y")
