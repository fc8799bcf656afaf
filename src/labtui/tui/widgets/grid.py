"""A grid of coloured cells, the scale of its rows, and plotext's lines for it.

Each line is a plotext figure of its own, because a cell has one colour and lines in one figure would mix their dots.
plotext 6 draws in a kernel that aborts the process on a number that is not finite.
"""

import itertools
import math
import re
from collections.abc import Container, Iterable, Sequence

import msgspec
from rich.cells import cell_len
from rich.text import Text

from labtui.results import charts as specs

EIGHTHS = " ▁▂▃▄▅▆▇█"
BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of a braille character: of its four rows with two dots each."""
SHAPES = {
    "●": (" ## ", "####", "####", " ## "),
    "◆": ("  ##  ", "######", "######", "  ##  "),
    "▲": ("  ##  ", " #### ", " #### ", "######"),
    "■": ("####", "####", "####", "####"),
    "▼": ("######", " #### ", " #### ", "  ##  "),
    "✚": (" ## ", " ## ", "####", "####", " ## ", " ## "),
}
"""The dots of each mark."""
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


class Grid:
    """A grid of cells, each with a character and a style; later writes overwrite earlier ones."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.cells: dict[tuple[int, int], tuple[str, str]] = {}

    def put(self, column: int, row: int, text: str, style: str) -> None:
        """Write a text from a cell on; nothing if it does not fit."""
        if 0 <= row < self.height and column >= 0 and column + cell_len(text) <= self.width:
            for sign in text:
                self.cells[column, row], size = (sign, style), cell_len(sign)
                self.cells |= {(column + at, row): ("", style) for at in range(1, size)}
                column += size

    def free(self, column: int, row: int, width: int, around: int = 1) -> bool:
        """Whether `width` cells, and `around` more on each side, are blank or grid lines."""
        places = range(column - around, column + width + around)
        return all(self.cells.get((at, row), " ")[0] in (" ", "┈") for at in places)

    def dot(self, dots: Iterable[tuple[int, int]], style: str) -> None:
        """Add braille dots, two a column and four a row; what another style has in their cells goes."""
        for x, y in dots:
            cell = (x // 2, y // 4)
            sign, there = self.cells.get(cell, (" ", ""))
            before = ord(sign) if there == style and "\u2800" < sign <= "\u28ff" else 0x2800
            self.cells[cell] = chr(before | BITS[y % 4][x % 2]), style

    def mark(
        self, column: int, down: float, rows: Container[int], sign: str, style: str, *, hollow: bool
    ) -> None:
        """Draw a mark `down` rows from the top, to a quarter of a row, in these `rows`; a hollow one is its edge."""
        shape = SHAPES.get(sign, SHAPES["●"])
        left, top = 2 * column + 1 - len(shape[0]) // 2, max(0, round(4 * down - len(shape) / 2))
        dots = {(left + x, top + y) for y, row in enumerate(shape) for x, dot in enumerate(row) if dot == "#"}
        if hollow:
            for x, y in dots:
                self.put(x // 2, y // 4, " ", "")
            dots = {(x, y) for x, y in dots if not {(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)} <= dots}
        self.dot([(x, y) for x, y in dots if y // 4 in rows], style)

    def bar(self, left: int, axis: int, wide: int, eighths: Sequence[int], style: str, *, live: bool) -> None:
        """Fill the cells between two heights above the row `axis`, in eighths of a row, over a longer bar's if any."""
        bottom, top = eighths
        for place in range(bottom // 8, math.ceil(top / 8) if top > bottom else 0):
            row, sign, tone = axis - 1 - place, EIGHTHS[min(8, top - place * 8)], style
            there, colour = self.cells.get((left, row), (" ", ""))
            if place * 8 < bottom:
                half = bottom - place * 8 == 4
                sign, tone = ("▀", style) if half else (EIGHTHS[bottom - place * 8], f"reverse {style}")
            elif there == "█" != sign:
                tone = f"{style} on {colour}"
            self.put(left, row, ("▒" if live and place * 8 >= bottom else sign) * wide, tone)

    def lines(self) -> list[Text]:
        cells = self.cells
        rows = ([cells.get((column, row), " ") for column in range(self.width)] for row in range(self.height))
        return [Text.assemble(*row, no_wrap=True, end="") for row in rows]


class RowScale(msgspec.Struct, frozen=True):
    """The values of a chart's rows: `low` is the lower edge of the lowest one, `each` the height of a row."""

    low: float
    each: float
    rows: int
    ticks: tuple[float, ...]

    def height(self, value: float) -> float:
        """The height of a value above the lower edge, in rows: 0 <= height < `rows`."""
        return min(self.rows - 1e-9, max(0.0, (value - self.low) / self.each))


def row_scale(low: float, high: float, rows: int, *, above: int = 0, log: bool = False) -> RowScale:
    """A scale with round ticks in the middle of rows, some rows apart.

    `above` rows stay free on top; `log`: the values are logarithms, whose ticks are whole numbers.
    """
    if log and high - low < 1:
        low, high = math.floor(low), math.floor(high) + 1  # between two ticks
    span = high - low
    if not span > abs(high) * 1e-9:
        span = abs(high) * 0.1 or 1.0
        high = low + span
    power = math.floor(math.log10(span / rows))
    steps = [float(f"{factor}e{power + more}") for more in range(4) for factor in (1, 2, 5)]
    best, found = math.inf, RowScale(low, span / rows, rows, ())
    for step, apart in itertools.product(range(1, 2 + int(span)) if log else steps, range(2, rows)):
        each, first = step / apart, math.ceil(low / step - 1e-9)
        start = first * step
        below, over = (math.ceil(part / each - 0.5 - 1e-9) for part in (start - low, high - start))
        free = rows - 1 - above - max(0, below) - over
        below = max(0, below) + log * max(0, min(free // 2, apart - 1 - below))  # no tick more
        last = min(first + (rows - 1 - below) // apart, math.ceil(high / step - 1e-9))
        cost = each * rows / span + 0.6 * (step - 1) * log + 0.15 * max(0, 3 + first - last)
        cost += 0.5 * (last < first + 2) + 0.15 * max(0, last - first - max(5, rows // 5))
        # a little more than the last tick needs none above it
        cost += min(0.5, max(0.0, high / step - last - 1e-9)) * (not (above or log))
        if free >= 0 and cost < best:
            edge = start - (below + 0.5) * each
            ticks = tuple(step * at for at in range(first, last + 1))
            best, found = cost, RowScale(edge, each, rows, ticks)
    return found


def axis_value(spec: specs.ChartSpec, y: float) -> float:
    """A value as its axis has it: its logarithm on a logarithmic one."""
    return math.log(max(y, 1e-9), spec.y_base) if spec.y_log else y


def longest_drawn(spec: specs.ChartSpec) -> float:
    """A warm-up half as long again as all that count is not drawn at its height, in a chart of any size."""
    runs = (each for each in spec.series if each.is_run)
    counted = (point.y for each in runs for point in each.points if not point.hollow)
    return 1.5 * max(counted, default=math.inf)


def scale_of(spec: specs.ChartSpec, rows: int) -> RowScale:
    """The scale of a chart's rows; logarithms where its axis is logarithmic. A warm-up epoch may lie beyond it."""
    top, points = longest_drawn(spec), [point for each in spec.series for point in each.points]
    values = [n for p in points if not p.hollow or p.y <= top for n in (p.y, p.lo, p.hi) if n is not None]
    if not values:
        return RowScale(0.0, 1.0 / rows, rows, ())
    low, high, bars = min(values), max(values), spec.kind != "lines"
    if spec.y_log:
        return row_scale(axis_value(spec, low), axis_value(spec, high), rows, log=True)
    compared = spec.over_time and spec.unit == "s" and sum(each.is_run for each in spec.series) > 1
    near = compared and high < 3 * low  # lines that would share a few rows above 0
    # closer values would look far apart
    spare = max(0.0, (0.01 if spec.x_axis == "batch" else 0.1 * high * near) - (high - low)) / 2
    low, high = low - spare, high + spare
    low = specs.y_floor(spec, low) if bars or not (near or spec.unit == "×") else low
    high = max(high, 1.0) if spec.percent and spec.compares else high
    return row_scale(low, high, rows, above=int(bars))


def braille(columns: int, rows: int, heights: Sequence[float]) -> Iterable[tuple[int, int, str]]:
    """The column, row and sign of each braille cell of a straight line between two `heights` (rows)."""
    import plotext

    plotext.terminal.limit(False, False)
    figure = plotext.figure
    figure.clear()
    figure.plot_size(max(2, columns), rows)
    figure.canvas("default")
    figure.legend(False)
    figure.axes(False)
    figure.ruler("x").lim(0, 1).ticks([])
    low, high = 5 / 8, rows - 5 / 8  # plotext's limits are dots near the middle of the outer rows
    figure.ruler("y").lim(low, high).ticks([])
    inside = [min(high, max(low, each)) for each in heights]
    figure.draw(figure.signal([0.0, 1.0], inside, marker="braille").density("full").lines(True))
    text = _ANSI.sub("", str(figure.build().string()))
    for row, line in enumerate(text.splitlines()[:rows]):
        yield from ((column, row, sign) for column, sign in enumerate(line) if sign not in " \u2800")
