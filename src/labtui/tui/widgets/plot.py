"""A `ChartSpec` as rows of cells. plotext draws the lines; marks, values, names and bars are set cell by cell.

Each line is a plotext figure of its own, of exactly the plotting area: a cell has one colour, so lines in one figure
would mix their dots. plotext 6 draws in a kernel that aborts the process on a number that is not finite, so every
number is checked here again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from rich.cells import cell_len
from rich.text import Text

from labtui.results import charts
from labtui.results.charts import ChartSpec, Point, Series, unbroken

MIN_HEIGHT = 8
"""With fewer rows a chart misleads: different values stand on one row."""
MIN_COLUMNS = 24
LARGEST = 1e12
MARKS = "●◆▲■▼✚"
HOLLOW = "○◇△□▽✛"
ON_CURSOR = {"●": "◉", "◆": "◈"}
FEW = 2
"""Up to so many series each value stands at its mark, and the second series is drawn soft instead of quiet."""
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Look:
    """The styles of a chart: names of colours of the theme in use, "" without colour."""

    accent: str
    text: str
    soft: str
    quiet: str
    axis: str
    line: str
    chip: str


@dataclass(frozen=True, slots=True)
class Cursor:
    """The chosen series, as a place among the measured ones, and the x of the chosen point; None: no point."""

    series: int = 0
    x: float | None = None


@dataclass
class Grid:
    """Cells with a style each; what is set later wins."""

    width: int
    height: int
    cells: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)

    def put(self, column: int, row: int, text: str, style: str, *, over: bool = True) -> bool:
        """A text from a cell on; says whether it stands there. Without `over` it stands only on free cells."""
        if not 0 <= row < self.height or column < 0 or column + cell_len(text) > self.width:
            return False
        if not over and any((column + at, row) in self.cells for at in range(-1, cell_len(text) + 1)):
            return False
        for at, sign in enumerate(text):
            self.cells[column + at, row] = (sign, style)
        return True

    def lines(self) -> list[Text]:
        """The rows as text."""
        rows = []
        for row in range(self.height):
            text = Text(no_wrap=True, end="")
            for column in range(self.width):
                sign, style = self.cells.get((column, row), (" ", ""))
                text.append(sign, style)
            rows.append(text)
        return rows


@dataclass(frozen=True, slots=True)
class RowScale:
    """What the rows of a chart stand for: `low` and `high` are the edges of the lowest and highest row."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def row(self, value: float, rows: int) -> int:
        """The row of a value, from the top."""
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return rows - 1 - min(rows - 1, max(0, math.floor(share * rows)))


def row_scale(low: float, high: float, rows: int, *, above: int = 0) -> RowScale:
    """A scale with round ticks in the middle of rows, a whole number of rows apart; `above` rows stay free on top."""
    span = high - low
    if not span > abs(high) * 1e-9:
        span = abs(high) * 0.1 or 1.0
        high = low + span
    best: tuple[float, RowScale] | None = None
    for step in _round_steps(span / rows, span * 4):
        first = math.floor(low / step + 1e-9) * step
        finest = (high - first) / max(0.5, rows - 0.5 - above)
        apart = min(math.floor(step / finest + 1e-9), rows - 1)
        if apart < 1:
            continue
        each = step / apart
        count = (rows - 1) // apart + 1
        waste = each * rows / span
        cost = waste + 0.15 * max(0, 3 - count) + 0.1 * max(0, count - 6) + (0.2 if apart == 1 else 0.0)
        if best is None or cost < best[0]:
            ticks = tuple(round(first / step + place) * step for place in range(count))
            best = (cost, RowScale(first - each / 2, first + (rows - 0.5) * each, ticks))
    if best is None:  # the numbers leave no room for round ones
        return RowScale(low - span / rows, high + span / rows, (low, high))
    return best[1]


def _round_steps(least: float, most: float) -> Iterable[float]:
    """1, 2 and 5 times each power of ten from `least` to `most`."""
    power = math.floor(math.log10(least)) if least > 0 else 0
    while 10.0**power <= most:
        yield from (step for factor in (1, 2, 5) if least <= (step := float(f"{factor}e{power}")) <= most)
        power += 1


def drawable(spec: ChartSpec) -> bool:
    """Whether every number is finite and of a size that can be drawn."""
    points = [point for series in spec.series for point in series.points]
    numbers = [n for p in points for n in (p.x, p.y, p.lo, p.hi) if n is not None]
    return all(math.isfinite(number) and abs(number) <= LARGEST for number in numbers)


def value_text(spec: ChartSpec, point: Point, y: float | None = None) -> str:
    """A point's value as results write it, with its unit: ``3.26×``, ``13.6 s``, ``63.2 %``; `y`: a bound of it."""
    text = charts.value_text(spec, point, y)
    return f"{text} s" if spec.unit == "s" else text


def mark_of(place: int, *, live: bool = False, hollow: bool = False) -> str:
    """The mark of a series, by its place among the measured ones; the same in every chart."""
    return (HOLLOW if live or hollow else MARKS)[place % len(MARKS)]


def plain(label: str) -> str:
    """A label from outside as one line of at most 40 printable characters."""
    return "".join(character if character.isprintable() else " " for character in label)[:40]


def draw(
    spec: ChartSpec, width: int, height: int, look: Look, cursor: Cursor = Cursor()
) -> list[Text] | None:
    """The chart in exactly `width` by `height` cells; None when there is no room for one."""
    if width < MIN_COLUMNS or height < MIN_HEIGHT or not drawable(spec):
        return None
    return _Drawing(spec, width, height, look, cursor).made()


class _Drawing:
    """One pass over a chart."""

    def __init__(self, spec: ChartSpec, width: int, height: int, look: Look, cursor: Cursor) -> None:
        self.spec, self.look, self.cursor = spec, look, cursor
        self.bars = spec.kind != "lines"
        self.measured = spec.measured
        self.few = len(self.measured) <= FEW
        self.grid = Grid(width, height)
        self.rows = height - (3 if height > 11 else 2)
        self.scale = self._scale()
        self.y_labels = [self._tick(tick) for tick in self.scale.ticks]
        self.left = max(map(len, self.y_labels), default=1) + 1
        names = [plain(f"{name}  {value}") for name, value in map(self._end, self.measured)]
        room = max(map(cell_len, names), default=0) + 4 if names else 4
        self.right = 2 if spec.over_time and len(self.measured) == 1 else min(room, width // 3)
        self.columns = max(8, width - self.left - 1 - self.right)
        self.x_low, self.x_high = self._x_range()

    # ------------------------------------------------------------------ scales

    def _fx(self, x: float) -> float:
        return math.log2(x) if self.spec.x_log and x > 0 else x

    def _fy(self, y: float) -> float:
        return math.log2(max(y, 1e-9)) if self.spec.y_log else y

    def _scale(self) -> RowScale:
        values = [
            n for each in self.spec.series for p in each.points for n in (p.y, p.lo, p.hi) if n is not None
        ]
        if not values:
            return row_scale(0.0, 1.0, self.rows)
        low, high = min(values), max(values)
        if self.spec.y_log:
            bottom = math.floor(self._fy(low))
            span = max(1, math.ceil(self._fy(high) - 1e-9) - bottom)  # doublings
            each = (
                1 / max(1, (self.rows - 1) // span) if span < self.rows else math.ceil(span / (self.rows - 1))
            )
            ticks = range(bottom, bottom + span + 1, max(1, round(each)))
            return RowScale(bottom - each / 2, bottom + (self.rows - 0.5) * each, tuple(ticks))
        if self.spec.y_min is not None and not (self.spec.unit == "×" and not self.bars):
            low = min(low, self.spec.y_min)
        if self.spec.y_max is not None:
            high = max(high, self.spec.y_max)
        return row_scale(min(low, 0.0) if self.bars else low, high, self.rows, above=1 if self.bars else 0)

    def _tick(self, tick: float) -> str:
        value = 2.0**tick if self.spec.y_log else tick
        if self.spec.percent:
            return f"{value * 100:.3g} %"
        text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}"
        return (
            f"{text}{'' if self.spec.unit == '×' else ' '}{self.spec.unit}"
            if self.spec.unit in ("×", "s")
            else text
        )

    def _x_range(self) -> tuple[float, float]:
        xs = [self._fx(x) for x, _ in self.spec.x_ticks]
        xs += [self._fx(point.x) for each in self.spec.series for point in each.points]
        low, high = (min(xs), max(xs)) if xs else (0.0, 1.0)
        if high <= low:
            low, high = low - 1, high + 1
        margin = (high - low) * 2.5 / max(8, self.columns)
        return low - margin, high

    def _column(self, x: float) -> int:
        share = (self._fx(x) - self.x_low) / (self.x_high - self.x_low)
        return self.left + 1 + min(self.columns - 1, max(0, round(share * (self.columns - 1))))

    def _row(self, y: float) -> int:
        return self.scale.row(self._fy(y), self.rows)

    def _style(self, place: int) -> str:
        if place == self.cursor.series:
            return self.look.accent
        return self.look.soft if self.few else self.look.quiet

    # ------------------------------------------------------------------ the parts, from back to front

    def made(self) -> list[Text]:
        """Frame, ideal, other lines, the chosen line, marks, names."""
        self._frame()
        if self.bars:
            self._draw_bars()
        else:
            self._ideal()
            order = [at for at in range(len(self.measured)) if at != self.cursor.series]
            if self.cursor.series < len(self.measured):
                order.append(self.cursor.series)
            for at in order:
                self._line(self.measured[at], at)
            self._cursor_line()
            for at in order:
                self._marks(self.measured[at], at)
            self._names()
            for at in order[-1:]:  # no name covers a mark of the chosen line
                self._marks(self.measured[at], at)
            if self.few and not self.spec.over_time:
                self._values()
            elif not self.few:
                self._corner_table()
        return self.grid.lines()

    def _frame(self) -> None:
        look, grid = self.look, self.grid
        for tick, label in zip(self.scale.ticks, self.y_labels, strict=True):
            row = self.scale.row(tick, self.rows)
            grid.put(self.left + 1, row, "┈" * (grid.width - self.left - 1), look.line)
            grid.put(self.left - 1 - len(label), row, label, look.quiet)
        for row in range(self.rows):
            on_tick = (self.left + 1, row) in grid.cells
            grid.put(self.left, row, "┼" if on_tick else "│", look.axis)
        grid.put(self.left, self.rows, "└" + "─" * (grid.width - self.left - 1), look.axis)
        label = plain(self.spec.x_label)
        low = self.rows + 2 >= grid.height
        if not low:
            grid.put(
                self.left + 1 + max(0, (self.columns - len(label)) // 2), self.rows + 2, label, look.quiet
            )
        self._x_ticks(label if low else "")

    def _x_ticks(self, label: str) -> None:
        names = {x: plain(name) for x, name in self.spec.x_ticks}
        if not names:
            xs = sorted({point.x for each in self.measured for point in each.points})
            every = max(1, math.ceil(len(xs) * 5 / max(1, self.columns)))
            names = {x: f"{x:g}" for x in xs[::every]}
        free = -1
        places = self._bar_places() if self.bars else {x: self._column(x) for x in names}
        for x in sorted(names, key=lambda x: places.get(x, 0)):
            text = names[x] + (f" {label}" if label and x == max(names) else "")
            column = places.get(x, 0)
            start = column - len(names[x]) // 2
            if start > free:
                self.grid.put(column, self.rows, "┬", self.look.axis)
                chosen = self.cursor.x == x
                self.grid.put(
                    start, self.rows + 1, text, f"bold {self.look.accent}" if chosen else self.look.quiet
                )
                free = start + len(text)

    def _ideal(self) -> None:
        """Single dots where all would be if nothing were lost, and a law's line."""
        for series in self.spec.series:
            if series.role == "measured" or not series.points:
                continue
            points = sorted(series.points, key=lambda point: point.x)
            step = 3 if series.role == "ideal" else 2
            for before, after in pairwise(points):
                first, last = self._column(before.x), self._column(after.x)
                for column in range(first, last + 1, step):
                    share = (column - first) / max(1, last - first)
                    y = self._fy(before.y) + share * (self._fy(after.y) - self._fy(before.y))
                    row = self.scale.row(y, self.rows)
                    self.grid.put(column, row, "·", self.look.quiet)

    def _line(self, series: Series, place: int) -> None:
        style = self._style(place)
        chosen = place == self.cursor.series
        for piece in unbroken(self.spec, series):
            for before, after in pairwise(piece):
                self._stretch(before, after, style, thick=chosen, dotted=after.live or before.live)

    def _stretch(self, before: Point, after: Point, style: str, *, thick: bool, dotted: bool) -> None:
        """A line between two points, in braille by plotext; thick lines are drawn twice, a quarter row apart."""
        first, last = self._column(before.x), self._column(after.x)
        ys = [self._fy(before.y), self._fy(after.y)]
        quarter = (self.scale.high - self.scale.low) / self.rows / 4
        lifts = (0.0, quarter) if thick else (0.0,)
        for column, row, sign in braille(
            last - first + 1, self.rows, ys, (self.scale.low, self.scale.high), lifts
        ):
            if not dotted or column % 2 == 0:
                self.grid.put(first + column, row, sign, style)

    def _marks(self, series: Series, place: int) -> None:
        style = self._style(place)
        if self.spec.over_time and len(series.points) > self.columns // 3:
            return
        for point in series.points:
            column, row = self._column(point.x), self._row(point.y)
            self._whisker(point, column, row, style)
            mark = mark_of(place, live=point.live, hollow=point.hollow)
            if place == self.cursor.series and point.x == self.cursor.x:
                mark = ON_CURSOR.get(mark, mark)
            self.grid.put(column, row, mark, f"bold {style}")

    def _whisker(self, point: Point, column: int, row: int, style: str) -> None:
        if point.lo is None or point.hi is None:
            return
        top, bottom = self._row(point.hi), self._row(point.lo)
        if bottom - top < 2:
            return
        for each in range(top, bottom + 1):
            sign = "┬" if each == top else "┴" if each == bottom else "│"
            self.grid.put(column, each, sign, style)

    def _cursor_line(self) -> None:
        x = self.cursor.x
        if x is None or self.cursor.series >= len(self.measured):
            return
        column = self._column(x)
        ys = [point.y for point in self.measured[self.cursor.series].points if point.x == x]
        for row in range(self._row(ys[0]) + 1 if ys else 0, self.rows):
            self.grid.put(column, row, "┊", self.look.accent)

    # ------------------------------------------------------------------ words

    def _end(self, series: Series) -> tuple[str, str]:
        """What stands at the end of a line: the name, and the last value."""
        last = max(series.points, key=lambda point: point.x)
        value = value_text(self.spec, last) + (" so far" if last.live else "")
        name = plain(series.short or series.name) if len(self.measured) > 1 else ""
        return name, value

    def _names(self) -> None:
        taken: set[int] = set()
        order = sorted(range(len(self.measured)), key=lambda at: at != self.cursor.series)
        for at in order:
            series = self.measured[at]
            last = max(series.points, key=lambda point: point.x)
            wanted, column = self._row(last.y), self._column(last.x) + 2
            for row in sorted(range(self.rows), key=lambda row: (abs(row - wanted), row < wanted)):
                if row not in taken:
                    self._name(at, column, row, chip=last.x == self.cursor.x)
                    taken.add(row)
                    break
        for series in self.spec.series:
            if series.role == "ideal" and series.points:
                last = max(series.points, key=lambda point: point.x)
                row = self._row(last.y)
                if row not in taken:
                    text = f"ideal {self._tick(self._fy(last.y)).strip()}"
                    self.grid.put(self._column(last.x) + 2, row, text, self.look.quiet)

    def _name(self, at: int, column: int, row: int, *, chip: bool) -> None:
        name, value = self._end(self.measured[at])
        room = self.grid.width - column
        chosen = at == self.cursor.series
        whole = f"{name} {value}".strip() if chosen or not name else f"{name}  {value}"
        text = whole if cell_len(whole) + 2 <= room and (self.few or chosen or not name) else name or value
        if cell_len(text) + 2 > room:
            text = text.removesuffix(" so far")
        if cell_len(text) + 2 > room:
            text = name[: max(0, room - 2)]  # a name may be cut, a number never
        if chosen and chip:
            self.grid.put(column, row, f" {text} ", self.look.chip)
        else:
            self.grid.put(column + 1, row, text, f"bold {self.look.accent}" if chosen else self.look.soft)

    def _values(self) -> None:
        """The values of all points but the last, beside their marks, where cells are free."""
        for at, series in enumerate(self.measured):
            points = sorted(series.points, key=lambda point: point.x)
            for point in points[1:-1] if self.spec.unit == "×" else points[:-1]:
                text, column, row = value_text(self.spec, point), self._column(point.x), self._row(point.y)
                below = any(
                    self._at(other, point.x) > point.y for other in self.measured if other is not series
                )
                near = (1, 2) if below or len(self.measured) == 1 else (-1, -2)
                starts = (column + 1, column - cell_len(text))
                style = self.look.accent if at == self.cursor.series else self.look.soft
                spots = [(start, row + step) for step in near for start in starts]
                any(
                    self._free(start, line, text) and self.grid.put(start, line, text, style)
                    for start, line in spots
                )

    @staticmethod
    def _at(series: Series, x: float) -> float:
        return next((point.y for point in series.points if point.x == x), float("-inf"))

    def _free(self, column: int, row: int, text: str) -> bool:
        """Whether a text would cover nothing but the grid's dotted lines."""
        if not 0 <= row < self.rows or column <= self.left:
            return False
        there = (
            self.grid.cells.get((column + at, row), (" ", ""))[0] for at in range(-1, cell_len(text) + 1)
        )
        return all(sign in " ┈·│" for sign in there)

    def _corner_table(self) -> None:
        """What each series has at the cursor's size, where there is room: mostly the lower right corner."""
        x = self.cursor.x
        if x is None or self.spec.over_time:
            return
        tick = dict(self.spec.x_ticks).get(x, f"{x:g}")
        rows = [(f"  on {tick} {self.spec.x_label.split(',')[0].split(' (')[0]}", "", self.look.quiet)]
        for at, series in enumerate(self.measured):
            point = next((each for each in series.points if each.x == x), None)
            value = value_text(self.spec, point) if point is not None else "·"
            style = f"bold {self.look.accent}" if at == self.cursor.series else self.look.soft
            rows.append((f"{mark_of(at)} {plain(series.short or series.name)}", value, style))
        wide, values = (
            max(cell_len(name) for name, _, _ in rows),
            max(cell_len(value) for _, value, _ in rows),
        )
        lines = [(f"{name:<{wide}}   {value:>{values}}", style) for name, value, style in rows]
        width, height = wide + 3 + values, len(lines)
        for column in range(self._column(x) - width - 2, self.left + 2, -1):
            for top in range(self.rows - height - 1, 0, -1):
                if all(self._free(column, top + at, text) for at, (text, _) in enumerate(lines)):
                    for at, (text, style) in enumerate(lines):
                        self.grid.put(column, top + at, text, style)
                    return

    # ------------------------------------------------------------------ bars

    def _groups(self) -> list[float]:
        return sorted(
            {x for x, _ in self.spec.x_ticks} | {p.x for each in self.measured for p in each.points}
        )

    def _bar_places(self) -> dict[float, int]:
        groups = self._groups()
        each = self.columns / max(1, len(groups))
        return {x: self.left + 1 + int((at + 0.5) * each) for at, x in enumerate(groups)}

    def _draw_bars(self) -> None:
        places = self._bar_places()
        stack = self.spec.kind == "stacked"
        count = 1 if stack else max(1, len(self.measured))
        group = self.columns / max(1, len(places))
        wide = max(1, min(12, int((group - 2) / count) - 1))
        fills = [self.look.accent, self.look.axis, self.look.soft, self.look.quiet, self.look.line]
        below = dict.fromkeys(places, 0.0)
        for at, series in enumerate(self.measured):
            chosen = at == self.cursor.series
            style = fills[at % len(fills)] if stack else self.look.accent if chosen else self.look.axis
            for point in series.points:
                base = below[point.x] if stack else 0.0
                left = places[point.x] - (count * (wide + 1) - 1) // 2 + (0 if stack else at * (wide + 1))
                self._bar(left, wide, base, base + point.y, style, live=point.live)
                below[point.x] = base + point.y
                if not stack:
                    text = value_text(self.spec, point)
                    top = self._row(point.y) - 1
                    start = left + (wide - cell_len(text)) // 2
                    if cell_len(text) <= wide + 2 or count == 1:
                        self.grid.put(start, top, text, f"bold {style}" if chosen else self.look.soft)
        if len(self.measured) > 1:
            for at, series in enumerate(self.measured):
                style = (
                    fills[at % len(fills)]
                    if stack
                    else self.look.accent
                    if at == self.cursor.series
                    else self.look.soft
                )
                name = f"■ {plain(series.short or series.name)}"[: self.right - 1]
                self.grid.put(self.left + self.columns + 2, self.rows // 2 + at, name, style)

    def _bar(self, left: int, wide: int, low: float, high: float, style: str, *, live: bool) -> None:
        top, bottom = self._row(high), self._row(low)
        share = (self._fy(high) - self.scale.low) / (self.scale.high - self.scale.low) * self.rows
        half = share - math.floor(share) < 0.5
        for row in range(top, bottom + 1):
            sign = "▒" if live else "▄" if row == top and half and bottom > top else "█"
            self.grid.put(left, row, sign * wide, style)


def braille(
    columns: int, rows: int, ys: Sequence[float], limits: tuple[float, float], lifts: Sequence[float]
) -> Iterable[tuple[int, int, str]]:
    """The cells of a straight line over so many columns, as plotext draws it, once for each of `lifts`."""
    import plotext

    plotext.terminal.limit(False, False)
    figure = plotext.figure
    figure.clear()
    figure.plot_size(max(2, columns), rows)
    figure.canvas("default")
    figure.legend(False)
    figure.axes(False)
    figure.ruler("x").lim(0, 1).ticks([])
    figure.ruler("y").lim(*limits).ticks([])
    for lift in lifts:
        lifted = [min(limits[1], y + lift) for y in ys]
        signal = figure.signal([0.0, 1.0], lifted, marker="braille").density("full").lines(True)
        figure.draw(signal)
    text = _ANSI.sub("", str(figure.build().string()))
    for row, line in enumerate(text.splitlines()[:rows]):
        for column, sign in enumerate(line):
            if sign not in (" ", "\u2800"):
                yield column, row, sign


def empty_chart(sizes: Sequence[int], heading: str, unit: str) -> ChartSpec:
    """Axes with the planned sizes, for a task that has no run yet."""
    ticks = tuple((float(size), str(size)) for size in sizes)
    spec = ChartSpec(
        key="empty", title=heading, x_label="GPUs", y_label=unit, series=(), x_ticks=ticks, unit=unit
    )
    return replace(spec, x_log=bool(sizes) and max(sizes) > 8 and min(sizes) > 0)
