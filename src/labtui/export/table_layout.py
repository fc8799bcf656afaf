"""Column widths of a table: as wide as its texts where they fit, with broken cells where they do not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from labtui.export import measure
from labtui.export.deck_model import Run, Table

SIZES = (12.0, 11.0, 10.0, 9.0)
LEADING = 1.32
PAD_X, PAD_Y = 7.0, 4.0
_NARROWEST = 34.0
_STRETCH = 1.35


@dataclass(frozen=True, slots=True)
class LaidTable:
    """A table's columns and rows in points; row 0 holds the headings."""

    widths: tuple[float, ...]
    heights: tuple[float, ...]
    cells: tuple[tuple[tuple[str, ...], ...], ...]
    numeric: tuple[bool, ...]
    size: float


_HEADING_LINES = 6
"""Headings that need more are no headings: they become the first row."""


def lay_table(
    table: Table, room: float, *, scale: float = 1.0, most: float = 99.0, tallest: float = 1e6
) -> LaidTable:
    """Choose the largest size at which the columns fit without broken cells; else the smallest, and break.

    `most` is the size of other tables on the same slide, which it may not exceed; a row higher than `tallest`
    goes on in further rows.
    """
    columns = max(1, len(table.headings))
    grid = [_filled(row, columns) for row in (table.headings, *table.rows)]
    numeric = tuple(_flag(table.numeric, at) for at in range(columns))
    for size in (min(most, each * min(scale, 1.15)) for each in SIZES):
        natural = [_natural(grid, at, size) for at in range(columns)]
        if sum(natural) <= room:
            break
    widths = _stretched(natural, room) if sum(natural) <= room else _squeezed(natural, room)
    cells = tuple(
        tuple(_cell(text, size, widths[at] - 2 * PAD_X, bold=number == 0) for at, text in enumerate(row))
        for number, row in enumerate(grid)
    )
    if len(max(cells[0], key=len)) > _HEADING_LINES:
        cells = (tuple(("",) for _ in cells[0]), *cells)
    lines = max(1, int((tallest - 2 * PAD_Y) / (size * LEADING)))
    cells = (cells[0], *(part for row in cells[1:] for part in _parted(row, lines)))
    heights = tuple(max(len(cell) for cell in row) * size * LEADING + 2 * PAD_Y for row in cells)
    return LaidTable(tuple(widths), heights, cells, numeric, size)


def _parted(row: Sequence[tuple[str, ...]], lines: int) -> Iterable[tuple[tuple[str, ...], ...]]:
    """A row in as many rows as it needs at so many lines each."""
    for start in range(0, max(len(cell) for cell in row), lines):
        yield tuple(cell[start : start + lines] or ("",) for cell in row)


def _filled(row: Sequence[str], columns: int) -> tuple[str, ...]:
    return (*row[:columns], *[""] * (columns - len(row)))


def _flag(flags: Sequence[bool], at: int) -> bool:
    return flags[at] if at < len(flags) else False


def _natural(grid: Sequence[Sequence[str]], at: int, size: float) -> float:
    widest = max(measure.width(row[at], size, bold=number == 0) for number, row in enumerate(grid))
    return max(_NARROWEST, widest + 2 * PAD_X + 1)


def _stretched(natural: Sequence[float], room: float) -> list[float]:
    factor = min(room / sum(natural), _STRETCH)
    return [width * factor for width in natural]


def _squeezed(natural: Sequence[float], room: float) -> list[float]:
    """Narrow columns keep their width; the wide ones share what is left."""
    order = sorted(range(len(natural)), key=lambda at: natural[at])
    widths, left = [0.0] * len(natural), room
    for place, at in enumerate(order):
        widths[at] = min(natural[at], left / (len(natural) - place))
        left -= widths[at]
    return widths


def _cell(text: str, size: float, room: float, *, bold: bool) -> tuple[str, ...]:
    lines = measure.wrap((Run(text, bold=bold),), size, max(room, 8.0))
    return tuple("".join(run.text for run in line) for line in lines) or ("",)
