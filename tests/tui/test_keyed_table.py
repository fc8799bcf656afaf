"""A table that is refreshed keeps its cursor, its place and its text as text."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rich.text import Text
from textual.app import App

from labtui.tui.widgets.selected_run import KeyedTable, Rows, TableColumn, layout
from tests.tui.waiting import text_of, until

COLUMNS = (TableColumn("name", "name", width=9), TableColumn("value", "value", right=True, width=13))


@asynccontextmanager
async def bench(height: int = 12) -> AsyncIterator[tuple[Any, KeyedTable, Any]]:
    """An app with nothing but a table, the table, and the pilot."""
    app, table = App[None](), KeyedTable(cursor_type="row")
    async with app.run_test(size=(30, height), notifications=True) as pilot:
        await app.mount(table)
        yield app, table, pilot


def rows(names: str, value: str = "1") -> Rows:
    return {name: (name, value) for name in names}


async def test_the_cursor_stays_on_its_row_and_that_in_sight_when_rows_come_and_go():
    async with bench(20) as (app, table, pilot):
        table.sync(COLUMNS, rows("abc"))
        table.select_key("b")
        await until(pilot, lambda: table.selected_key == "b")
        table.sync(COLUMNS, rows("xabcd"))
        await until(pilot, lambda: "x" in text_of(app))
        assert table.selected_key == "b"
        table.sync(COLUMNS, rows("xac"))
        await until(pilot, lambda: "d" not in text_of(app))
        table.sync(COLUMNS, rows("abcdefghijklmnop"))
        table.select_key("p")
        await until(pilot, lambda: " p " in text_of(app))
        await pilot.resize_terminal(30, 5)
        await until(pilot, lambda: " p " in text_of(app) and " c " not in text_of(app))
        table.sync(COLUMNS, rows("0abcdefghijklmnop", "2"))
        await until(pilot, lambda: re.search(r" p +2", text_of(app)))


def colour_of(app: App[None], words: str) -> str:
    """The colour in which some words are on the screen, as ``#rrggbb``."""
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            if words in segment.text and segment.style is not None and segment.style.color is not None:
                return segment.style.color.get_truecolor().hex
    return ""


async def test_a_change_of_words_or_of_colour_alone_is_shown_and_markup_is_text():
    async with bench() as (app, table, pilot):
        table.sync(COLUMNS, {"x": ("node[a1]", "[/foo]"), "a": ("run", Text("done", style="#3fbf8f"))})
        await until(pilot, lambda: colour_of(app, "done") == "#3fbf8f" and "[/foo]" in text_of(app))
        new = {"x": ("node[a1]", "[red]12345678"), "a": ("run", Text("done", style="#00784f"))}
        table.sync(COLUMNS, new)
        await until(pilot, lambda: colour_of(app, "done") == "#00784f", "the colour of the other theme")
        assert "node[a1]" in text_of(app) and "[red]12345678" in text_of(app)
        table.sync(COLUMNS, new | {"a": ("run", Text.assemble(("do", "#b3261e"), "ne"))})
        await until(pilot, lambda: colour_of(app, "do") == "#b3261e")


def test_a_column_gives_way_before_one_that_is_worth_more():
    titles = {"run": ("run", 3), "rate": ("images/s", 8), "cost": ("GPU-h", 5), "state": ("", 18)}
    for width, keys in (34, ["run", "state"]), (35, ["run", "rate", "state"]):
        assert [each.key for each in layout(titles, ("state",), ("cost", "rate"), width)] == keys
