"""Tables that keep their place, and titles of panels. The first frame has neither: their import comes after it.

`KeyedTable.sync` compares with what is shown, words and colours, and touches only cells that differ, so that cursor and
scroll position survive; equal content costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text
from textual.widgets import DataTable


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column with a stable key and its width in cells, so that nothing moves; `right` aligns numbers."""

    key: str
    title: str
    right: bool = False
    width: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """A row with a stable key and one cell per column; strings are shown as they are, never as markup."""

    key: str
    cells: tuple[str | Text, ...]


class KeyedTable(DataTable[Text]):
    """Rows with keys. Use `sync` only."""

    DEFAULT_CSS = """
    KeyedTable { height: auto; max-height: 100%; }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes, cursor_type="row", zebra_stripes=False)
        self._shown_columns: tuple[TableColumn, ...] = ()
        self._shown: dict[str, tuple[str | Text, ...]] = {}

    def sync(self, columns: Sequence[TableColumn], rows: Sequence[Row]) -> bool:
        """Show these columns and rows; says whether anything changed."""
        columns = tuple(columns)
        wanted = {row.key: row.cells for row in rows}
        if columns == self._shown_columns and list(wanted) == list(self._shown):
            changed = self._update_cells(wanted)
        else:
            self._rebuild(columns, rows)
            changed = True
        self._shown = wanted
        return changed

    @property
    def selected_key(self) -> str | None:
        """The key of the row under the cursor."""
        keys = list(self._shown)
        return keys[self.cursor_row] if 0 <= self.cursor_row < len(keys) else None

    def select_key(self, key: str) -> None:
        """Put the cursor on a row."""
        keys = list(self._shown)
        if key in keys:
            self.move_cursor(row=keys.index(key), animate=False)

    def _update_cells(self, wanted: dict[str, tuple[str | Text, ...]]) -> bool:
        changed = False
        for key, cells in wanted.items():
            for column, old, new in zip(self._shown_columns, self._shown[key], cells, strict=True):
                if _look(old) != _look(new):
                    self.update_cell(key, column.key, _cell(new, column))
                    changed = True
        return changed

    def _rebuild(self, columns: tuple[TableColumn, ...], rows: Sequence[Row]) -> None:
        selected, column, scroll = self.selected_key, self.cursor_column, self.scroll_offset
        fresh = not self._shown
        with self.prevent(DataTable.RowHighlighted, DataTable.CellHighlighted):
            self.clear(columns=columns != self._shown_columns)
            if columns != self._shown_columns:
                self._shown_columns = columns
                for each in columns:
                    title = Text(each.title, justify="right" if each.right else "left")
                    self.add_column(title, key=each.key, width=each.width)
            for row in rows:
                cells = [_cell(cell, each) for cell, each in zip(row.cells, columns, strict=True)]
                self.add_row(*cells, key=row.key)
            keys = [row.key for row in rows]
            if selected in keys:
                self.move_cursor(row=keys.index(selected), column=column, animate=False, scroll=False)
        if not fresh:
            self.scroll_to(scroll.x, scroll.y, animate=False)
        # A layout that comes between these rows and the table's own measuring of them would keep the old height.
        self.call_after_refresh(self.refresh, layout=True)


def _look(cell: str | Text) -> tuple[object, ...]:
    """What makes two cells look alike. Rich calls texts equal that differ in their base style only."""
    return (cell.plain, cell.style, *cell.spans) if isinstance(cell, Text) else (cell, "")


def _cell(cell: str | Text, column: TableColumn) -> Text:
    text = cell.copy() if isinstance(cell, Text) else Text(cell)
    text.justify = "right" if column.right else "left"
    text.no_wrap = True
    if text.cell_len > column.width:
        text.truncate(column.width, overflow="ellipsis")
    return text
