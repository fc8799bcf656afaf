"""The tables of the results in a window too narrow for them: several tables side by side become some below each other.

Nothing is left out and no cell is ever broken: each part repeats which run a line is about. Where not even one number
fits beside that, each run becomes a heading with its numbers below it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from labtui.core.results.rows import ResultRow
from labtui.core.results.tables import Column, cells, text_table

NAMING = 3
"""The first columns say which run it is: model, device, global batch."""
_GAP = 2


def fitted_table(rows: Sequence[ResultRow], columns: Sequence[Column], width: int | None) -> str:
    """The table in lines of at most `width` cells; None: as wide as it is."""
    table = text_table(rows, columns)
    if width is None or _width(table) <= width:
        return table
    grid = [[column.heading for column in columns], *cells(rows, columns)]
    parts = [
        text_table(rows, [columns[place] for place in places]) for places in column_parts(grid, NAMING, width)
    ]
    if all(_width(part) <= width for part in parts):
        return "\n\n".join(parts)
    return "\n".join(_record(row, columns, width) for row in rows)


def _width(table: str) -> int:
    return max((len(line) for line in table.splitlines()), default=0)


def column_parts(grid: Sequence[Sequence[str]], naming: int, width: int) -> list[list[int]]:
    """The places of the columns in each part: the first `naming` ones, then as many others as fit into `width` cells.

    `grid` holds headings and cells; each column takes its widest cell and the gap before it.
    """
    needed = [_GAP + max(len(line[place]) for line in grid) for place in range(len(grid[0]))]
    names = list(range(naming))
    room = before = width + _GAP - sum(needed[:naming])
    parts = [names[:]]
    for place in range(naming, len(needed)):
        if needed[place] > room and len(parts[-1]) > naming:
            parts.append(names[:])
            room = before
        parts[-1].append(place)
        room -= needed[place]
    return parts


def _record(row: ResultRow, columns: Sequence[Column], width: int) -> str:
    (line,) = cells([row], columns)
    model, device, batch = line[:NAMING]
    name = f"{model}, {device}, {columns[NAMING - 1].heading} {batch}"
    indent = max(len(column.heading) for column in columns[NAMING:]) + _GAP
    numbers = [
        f"  {column.heading.ljust(indent)}{cell}"
        for column, cell in zip(columns[NAMING:], line[NAMING:], strict=True)
    ]
    return "\n".join([*fitted_lines([name], width), *numbers])


def fitted_lines(lines: Sequence[str], width: int | None) -> list[str]:
    """Sentences broken between words, what follows two cells further in; None: as they are."""
    if width is None:
        return list(lines)
    return [part for line in lines for part in _broken(line, max(20, width))]


def _broken(line: str, width: int) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(
        line.strip(),
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]
