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
    parts = [
        text_table(rows, [*columns[:NAMING], *part])
        for part in _parts(rows, columns[NAMING:], columns, width)
    ]
    if all(_width(part) <= width for part in parts):
        return "\n\n".join(parts)
    return "\n".join(_record(row, columns, width) for row in rows)


def _width(table: str) -> int:
    return max((len(line) for line in table.splitlines()), default=0)


def _parts(
    rows: Sequence[ResultRow], numbers: Sequence[Column], columns: Sequence[Column], width: int
) -> list[list[Column]]:
    """The columns of numbers, as many in each part as fit beside those that name the run."""
    naming = _width(text_table(rows, columns[:NAMING]))
    parts: list[list[Column]] = []
    room = 0
    for column in numbers:
        needed = _GAP + max(len(column.heading), *(len(column.cell(row)) for row in rows))
        if not parts or needed > room:
            parts.append([])
            room = width - naming
        parts[-1].append(column)
        room -= needed
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
