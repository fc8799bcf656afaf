"""A `ChartSpec` drawn as terminal text with plotext. The only module that imports plotext, and only when drawing.

plotext 6 draws in a C++ kernel that aborts the process on a number that is not finite, and needs memory without
bound when limits are much narrower than the data. So every number is checked again here, and limits always contain
what is drawn.

Ticks lie in the middle of rows, a whole number of rows apart, so each mark stands on the row nearest to its value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from labtui.results.charts import ChartSpec, Point, Series, on_even_steps
from labtui.tui.widgets import plot_values as look
from labtui.tui.widgets.plot_values import (
    Colour,
    Occupied,
    Palette,
    Plane,
    number_text,
    part_rows,
    plain,
    stands_below,
    tick_texts,
    valued_points,
)

LARGEST = 1e12
LEAST_ROWS = 8
"""With fewer rows a chart misleads: different values stand on one row. Then the numbers stand there as a list."""
FRAME_ROWS = 3
"""Axis, ticks and label below the plot."""
MIN_WIDTH, MIN_HEIGHT = 24, LEAST_ROWS + FRAME_ROWS
THEME = "labtui"
_MOST_MARKS = 40
"""A series with more points is drawn as a line with a mark here and there."""
_MARKS_ON_LONG = 6


def available() -> bool:
    """Whether plotext can be imported here (it has no built kernel on some systems)."""
    try:
        import plotext  # noqa: F401
    except Exception:
        return False
    return True


def drawable(spec: ChartSpec) -> bool:
    """Whether every number is finite and of a size that can be drawn."""
    return not spec.empty and all(abs(number) <= LARGEST for number in _numbers(spec))


def _numbers(spec: ChartSpec) -> Iterable[float]:
    for series in spec.series:
        for point in series.points:
            for number in (point.x, point.y, point.lo, point.hi):
                if number is not None:
                    yield number if math.isfinite(number) else math.inf
    for limit in (spec.y_min, spec.y_max, *(position for position, _ in spec.x_ticks)):
        if limit is not None:
            yield limit if math.isfinite(limit) else math.inf


def draw(spec: ChartSpec, width: int, height: int, palette: Palette) -> str | None:
    """The chart as text with ANSI colours, exactly `width` by `height` cells; None when it cannot be drawn."""
    if width < MIN_WIDTH or height < MIN_HEIGHT or not drawable(spec):
        return None
    import plotext

    spec = on_even_steps(spec)
    plotext.terminal.limit(False, False)
    figure = plotext.figure
    figure.clear()
    figure.plot_size(width, height)
    # A theme of our own, because every pixel set by hand gets a white ground.
    plotext.add_theme(THEME, text=plotext.pixel(palette.quiet))
    figure.theme(THEME)
    drawing = _Drawing(figure, plotext, spec, palette, width, height)
    drawing.frame()
    drawing.series()
    return str(figure.build().string()).rstrip("\n")


@dataclass(frozen=True, slots=True)
class RowScale:
    """What the rows of a chart stand for: `low` and `high` are the edges of the lowest and highest row."""

    low: float
    high: float
    ticks: tuple[float, ...]


def row_scale(low: float, high: float, rows: int, *, above: int = 0) -> RowScale:
    """A scale with round ticks in the middle of rows, a whole number of rows apart; `above` rows stay free on top.

    `low` lies on the lowest row or above it, `high` on a row below the free ones.
    """
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
        for factor in (1, 2, 5):
            step = float(f"{factor}e{power}")
            if least <= step <= most:
                yield step
        power += 1


class _Drawing:
    """One pass over a chart; positions on a bar chart are places in a row, on a line chart the true x."""

    def __init__(  # noqa: PLR0917 - one pass, one caller
        self, figure: Any, plotext: Any, spec: ChartSpec, palette: Palette, width: int, height: int
    ) -> None:
        self.figure, self.plotext, self.spec, self.palette = figure, plotext, spec, palette
        self.rows = height - FRAME_ROWS
        self.bars = spec.kind != "lines"
        self.stacked = spec.kind == "stacked"
        self.measured = look.measured_series(spec)
        self.marks = look.marks_of(spec)
        self.colours = palette.colours(spec)
        self.others = [series for series in spec.series if series.role != "measured" and series.points]
        self.places = sorted({point.x for series in self.measured for point in series.points})
        scale = row_scale(*self._y_range(), self.rows, above=1 if self.bars and not self.stacked else 0)
        self.y_ticks = scale.ticks
        self.y_labels = tick_texts(scale.ticks, percent=spec.percent)
        columns = max(1, width - max((len(label) for label in self.y_labels), default=0) - 1)
        x_low, x_high = self._x_limits()
        self.plane = Plane(columns, self.rows, x_low, x_high, scale.low, scale.high)
        self.taken = Occupied(self.plane)

    # ------------------------------------------------------------------ axes

    def _y_range(self) -> tuple[float, float]:
        """The lowest and the highest value that must be on the chart."""
        numbers = [
            number
            for series in self.spec.series
            for point in series.points
            for number in (point.y, point.lo, point.hi)
            if number is not None
        ]
        low = min([*numbers, *([] if self.spec.y_min is None else [self.spec.y_min])])
        top = max([*numbers, *([] if self.spec.y_max is None else [self.spec.y_max])])
        if self.bars:
            low = min(low, 0.0)
        return low, max(1.0, top) if self.stacked else top

    def _x_limits(self) -> tuple[float, float]:
        if self.bars:
            return -0.6, len(self.places) - 0.4
        xs = [point.x for series in self.spec.series for point in series.points]
        xs += [position for position, _ in self.spec.x_ticks]
        low, high = min(xs), max(xs)
        margin = (high - low) * 0.07 or 0.5
        return low - margin, high + margin

    def frame(self) -> None:
        """Axes, ticks, labels; no background, so that the theme's shows through."""
        figure, plane = self.figure, self.plane
        figure.axes(False, axis="both", side=1)
        figure.legend(False)
        ticks = self._x_ticks()
        figure.ruler("x").lim(plane.x_low, plane.x_high).ticks(
            [place for place, _ in ticks], [name for _, name in ticks]
        )
        figure.ruler("y").lim(plane.y_low, plane.y_high).ticks(list(self.y_ticks), self.y_labels).alignment(
            "edge"
        )
        figure.label(plain(self.spec.x_label), "x")

    def _x_ticks(self) -> list[tuple[float, str]]:
        """The measured positions with their names, as many as do not touch each other."""
        names = {position: plain(label) for position, label in self.spec.x_ticks}
        if self.bars:
            ticks = [(float(at), names.get(x, f"{x:g}")) for at, x in enumerate(self.places)]
        elif names or len(self.places) == 1:
            ticks = [(x, names.get(x, number_text(x, percent=False))) for x in sorted(names) or self.places]
        else:
            rounded = _round_ticks(self.plane.x_low, self.plane.x_high, max(3, self.plane.columns // 10))
            first = min(0.0, self.places[0])
            ticks = [(x, number_text(x, percent=False)) for x in rounded if x >= first]
        if self.stacked:
            live = {self._x(point.x) for each in self.measured for point in each.points if point.live}
            ticks = [(x, f"{name} {look.LIVE_SIGN}" if x in live else name) for x, name in ticks]
        kept: list[tuple[float, str]] = []
        free = -1
        for x, name in ticks:
            start = self.plane.cell(x, self.plane.y_low)[0] - len(name) // 2
            if not kept or start > free:
                kept.append((x, name))
                free = start + len(name)
        return kept

    def _x(self, x: float) -> float:
        if not self.bars:
            return x
        places = self.places
        if x <= places[0] or len(places) == 1:
            return 0.0
        for index in range(1, len(places)):
            if x <= places[index]:
                return index - 1 + (x - places[index - 1]) / (places[index] - places[index - 1])
        return float(len(places) - 1)

    # ------------------------------------------------------------------ data

    def series(self) -> None:
        """Bands at the back, lines to compare with, measured data over them, values last."""
        for series in self.others:
            if series.role == "band":
                self._band(series)
        for series in self.others:
            if series.role == "ideal" or (series.role == "reference" and len(series.points) > 1):
                self._dotted(series)
        for index, series in enumerate(self.measured):
            if self.bars and not self.stacked:
                self._bars(series, index)
        if self.stacked:
            self._parts()
        fits = [series for series in self.others if series.role == "fit"]
        for series in fits:
            points = sorted(series.points, key=lambda point: point.x)
            places = [(self._x(point.x), point.y) for point in points]
            self._curve(places, self.palette.text, faint=True)
        if not self.bars:
            for index, series in enumerate(self.measured):
                self._line(series, index, joined=not fits)
            for index, series in enumerate(self.measured):
                self._signs(series, index)
        self._errors_and_values()

    def _errors_and_values(self) -> None:
        if self.stacked:
            return
        if self.bars:
            for index, series in enumerate(self.measured):
                self._intervals(series, index)
        for series in self.others:
            if series.role == "reference" and len(series.points) == 1:
                self._expected(series.points[0])
        self._values()

    def _marker(self, symbol: str, colour: Colour) -> Any:
        return self.plotext.marker(symbol, self.plotext.pixel(colour))

    def _dots(self, places: Sequence[tuple[float, float]], symbol: str, colour: Colour) -> None:
        """A sign in the middle of the cell of each place, so that plotext's rounding cannot move it."""
        if places:
            marker = self._marker(symbol, colour)
            cells = [self.plane.centre(*self.plane.cell(x, y)) for x, y in places]
            self.figure.draw(self.figure.signal([x for x, _ in cells], [y for _, y in cells], marker=marker))

    def _offset(self, index: int) -> tuple[float, float]:
        """Where a series' bar stands beside its place, and how wide it is."""
        count = len(self.measured)
        width = 0.72 / count
        return (index - (count - 1) / 2) * width, width

    def _bars(self, series: Series, index: int) -> None:
        for point in series.points:
            self._bar(point, index)

    def _bar(self, point: Point, index: int) -> None:
        offset, width = self._offset(index)
        symbol = self.marks[index]
        if point.live or point.hollow:
            symbol = look.LIVE_MARK if point.live else look.HOLLOW_BAR
        at = self._x(point.x) + offset
        left, right = at - width * 0.46, at + width * 0.46
        bottom, top = (self.plane.cell(0, y)[1] for y in (min(0.0, point.y), max(0.0, point.y)))
        low, high = 2 * (self.rows - 1 - bottom), 2 * (self.rows - 1 - top)
        if symbol == look.BAR_MARK and point.y > 0:  # half cells, where the filling has them
            high = max(low, self._level(point.y))
        half = self.plane.row_height / 2
        foot, head = (self.plane.y_low + (level + 0.5) * half for level in (low, high))
        marker = self._marker("hd" if symbol == look.BAR_MARK else symbol, self.colours[index])
        self.figure.draw(self.figure.rectangle((left, right), (foot, head), marker=marker))
        first, last = (self.plane.cell(side, 0.0)[0] for side in (left, right))
        self.taken.block(range(first, last + 1), range(self.rows - 1 - high // 2, self.rows - low // 2))

    def _level(self, y: float) -> int:
        """The half row, counted from below, whose upper edge is nearest to a value; the middle of a row is even."""
        halves = (y - self.plane.y_low) / (self.plane.row_height / 2)
        return min(2 * self.rows - 1, max(0, round(halves - 1e-9) - 1))

    def _parts(self) -> None:
        """Stacked bars in whole cells; each share is written into its part where there is room."""
        for x in self.places:
            shares = [max(0.0, next((p.y for p in each.points if p.x == x), 0.0)) for each in self.measured]
            whole = self.rows - self.plane.cell(0, sum(shares))[1]
            below = 0
            for index, rows in enumerate(part_rows(shares, whole)):
                if rows:
                    self._part(x, index, shares[index], self.rows - below - rows, self.rows - below - 1)
                below += rows

    def _part(self, x: float, index: int, share: float, top: int, bottom: int) -> None:
        at, half = self._x(x), 0.33
        marker = self._marker(self.marks[index], self.colours[index])
        high, low = (self.plane.centre(0, row)[1] for row in (top, bottom))
        self.figure.draw(self.figure.rectangle((at - half, at + half), (low, high), marker=marker))
        label = f" {number_text(share, percent=self.spec.percent, exact=True)} "
        if len(label) <= 2 * half * self.plane.columns / (len(self.places) + 0.2):
            middle = self.plane.centre(0, (top + bottom) // 2)[1]
            self._text(at, middle, label, self.palette.text)

    def _line(self, series: Series, index: int, *, joined: bool) -> None:
        points = sorted(series.points, key=lambda point: point.x)
        places = [(point.x, point.y) for point in points]
        if len(points) > _MOST_MARKS:
            self._curve(self._thinned(places), self.colours[index], faint=False)
            return
        if joined:
            self._curve(places, self.colours[index], faint=False)
        self._intervals(series, index)

    def _signs(self, series: Series, index: int) -> None:
        """The marks of a series, after all lines: no line covers a mark."""
        points, colour = sorted(series.points, key=lambda point: point.x), self.colours[index]
        if len(points) > _MOST_MARKS:
            places = self._thinned([(point.x, point.y) for point in points])
            step = max(1, len(places) // _MARKS_ON_LONG)
            self._dots(places[index * step // 4 :: step], self.marks[index], colour)
            return
        place = look.MARKS.index(self.marks[index]) if self.marks[index] in look.MARKS else index
        for point in points:
            marks = look.HOLLOW_MARKS if point.hollow else look.MARKS
            self._dots([(point.x, point.y)], marks[place % len(marks)], colour)
            self.taken.mark(point.x, point.y)

    def _thinned(self, places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        return _means(places, max(4, self.plane.columns // 2))

    def _curve(self, places: Sequence[tuple[float, float]], colour: Colour, *, faint: bool) -> None:
        xs, ys = [x for x, _ in places], [y for _, y in places]
        self.figure.draw(self.figure.signal(xs, ys, marker=self._marker("braille", colour)).lines(True))
        self.taken.line(places, faint=faint)

    def _dotted(self, series: Series) -> None:
        points = sorted(series.points, key=lambda point: point.x)
        if self.bars:
            self._caps(points)
            return
        if len(points) < 2:
            return
        places = []
        for first, second in pairwise(points):
            steps = max(2, abs(self.plane.cell(second.x, 0)[0] - self.plane.cell(first.x, 0)[0]))
            for step in range(steps):
                share = step / steps
                places.append(
                    (first.x + (second.x - first.x) * share, first.y + (second.y - first.y) * share)
                )
        places.append((points[-1].x, points[-1].y))
        marker = self._marker("braille", self.palette.quiet)
        xs, ys = [x for x, _ in places], [y for _, y in places]
        self.figure.draw(self.figure.signal(xs, ys, marker=marker))  # one dot in each column
        self.taken.line(places, faint=True)

    def _caps(self, points: Sequence[Point]) -> None:
        """Over bars an ideal has no line, which would bend: it is a cap over each place."""
        for point in points:
            if point.x in self.places:
                at, row = self._x(point.x), self._cap_row(point)
                first, last = (self.plane.cell(at + side * 0.42, point.y)[0] for side in (-1, 1))
                cells = [(column, row) for column in range(first, last + 1)]
                free = [cell for cell in cells if cell not in self.taken.costs]
                self._dots([self.plane.centre(*cell) for cell in free], look.IDEAL_CAP, self.palette.quiet)
                self.taken.block(range(first, last + 1), (row,), cost=1)

    def _cap_row(self, point: Point) -> int:
        """The row of an ideal; that of the bar's own top where it is reached exactly, never one above it."""
        reached = any(
            each.x == point.x and each.y == point.y and not (each.live or each.hollow)
            for series in self.measured
            for each in series.points
        )
        return self.rows - 1 - self._level(point.y) // 2 if reached else self.plane.cell(0, point.y)[1]

    def _band(self, series: Series) -> None:
        """A shade from the lower to the upper bound in every column."""
        points = sorted(series.points, key=lambda point: point.x)
        shade = []
        for first, second in pairwise(points):
            left, right = (self.plane.cell(self._x(point.x), first.y)[0] for point in (first, second))
            for column in range(left, right + 1):
                share = (column - left) / ((right - left) or 1)
                low = _low(first) + (_low(second) - _low(first)) * share
                high = _high(first) + (_high(second) - _high(first)) * share
                top, bottom = self.plane.cell(0, high)[1], self.plane.cell(0, low)[1]
                shade += [self.plane.centre(column, row) for row in range(top, bottom + 1)]
        self._dots(list(dict.fromkeys(shade)), look.BAND_MARK, self.palette.faint)

    def _expected(self, point: Point) -> None:
        """One mark that was not measured."""
        at = self._x(point.x)
        self._interval(at, point, self.palette.text)
        self._dots([(at, point.y)], look.EXPECTED_MARK, self.palette.text)
        self.taken.mark(at, point.y)
        self._value(at, point, point.y, self.palette.text)

    def _intervals(self, series: Series, index: int) -> None:
        offset = self._offset(index)[0] if self.bars else 0.0
        colour = self.palette.text if self.bars else self.colours[index]
        for point in series.points:
            self._interval(self._x(point.x) + offset, point, colour)

    def _interval(self, at: float, point: Point, colour: Colour) -> None:
        if point.lo is None or point.hi is None or not self._worth_drawing(point):
            return
        marker = self._marker("│", colour)
        self.figure.draw(self.figure.signal([at, at], [point.lo, point.hi], marker=marker).lines(True))
        self.taken.line([(at, point.lo), (at, point.hi)])

    def _worth_drawing(self, point: Point) -> bool:
        """Bounds closer than half a cell would only hide the mark."""
        height = self.plane.y_high - self.plane.y_low
        return point.lo is not None and point.hi is not None and point.hi - point.lo > height * 0.03

    # ------------------------------------------------------------------ values

    def _values(self) -> None:
        if not self.bars and not self.spec.x_ticks:
            return  # a course over time has no positions of its own
        for place, point in valued_points(self.spec, self.measured):
            colour = self.colours[place] if len(self.measured) > 1 else self.palette.text
            at = self._x(point.x) + (self._offset(place)[0] if self.bars else 0.0)
            top = point.y
            if self.bars and point.hi is not None and self._worth_drawing(point):
                top = max(top, point.hi)
            self._value(at, point, top, colour, below=stands_below(self.measured, place, point))

    def _value(self, at: float, point: Point, top: float, colour: Colour, *, below: bool = False) -> None:
        label = number_text(point.y, percent=self.spec.percent, exact=True)
        found = self._inside(at, point, len(label)) if self.bars and top == point.y else None
        if found is None:
            found = self.taken.put(at, top, len(label), value=point.y, below=below, bars=self.bars)
        if found is not None:
            x, y = self.plane.centre(*found)
            self._text(x, y, label, colour, "left")

    def _inside(self, at: float, point: Point, width: int) -> tuple[int, int] | None:
        """The first cell of a value inside its bar, where the cap of the ideal lies right over the bar."""
        cell, foot = (self.plane.cell(at, y)[1] for y in (point.y, 0.0))
        top = max(cell, self.rows - 1 - self._level(point.y) // 2)
        caps = {
            self._cap_row(each)
            for series in self.others
            if series.role == "ideal"
            for each in series.points
            if each.x == point.x and each.y > point.y
        }
        room = self.plane.columns * self._offset(0)[1] * 0.92 / (self.plane.x_high - self.plane.x_low)
        row = top + 1 if self.taken.in_order(point.y, top + 1) else top
        if not caps & {top - 1, cell - 1} or row >= foot or width + 2 > room:
            return None
        return self.plane.cell(at, point.y)[0] - width // 2, row

    def _text(self, x: float, y: float, label: str, colour: Colour, alignment: str = "center") -> None:
        text = self.plotext.colorize(label, self.plotext.pixel(colour))
        self.figure.draw(self.figure.text(x, y, text, alignment=alignment))


def _means(places: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """At most so many points: the means of pieces of equal length."""
    size = -(-len(places) // most)
    pieces = [places[start : start + size] for start in range(0, len(places), size)]
    return [
        (math.fsum(x for x, _ in piece) / len(piece), math.fsum(y for _, y in piece) / len(piece))
        for piece in pieces
    ]


def _low(point: Point) -> float:
    return point.y if point.lo is None else point.lo


def _high(point: Point) -> float:
    return point.y if point.hi is None else point.hi


def _round_ticks(low: float, high: float, wanted: int) -> list[float]:
    """Round numbers within [low, high]: 1, 2 or 5 times a power of ten apart."""
    rough = (high - low) / wanted
    step = next(iter(_round_steps(rough * 0.999, rough * 10)))
    first = math.ceil(low / step - 1e-9)
    return [round(index * step, 12) for index in range(first, first + 12) if index * step <= high]
