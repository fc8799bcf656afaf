"""A `ChartSpec` drawn as terminal text with plotext. The only module that imports plotext, and only when drawing.

plotext 6 draws in a C++ kernel that aborts the process on a number that is not finite, and needs memory without
bound when limits are much narrower than the data. So every number is checked again here, and limits always contain
what is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from labtui.core.charts import ChartSpec, Point, Series

Colour = tuple[int, int, int] | int | str
LARGEST = 1e12
MIN_WIDTH, MIN_HEIGHT = 24, 7
MARKS = ("●", "◆", "▲", "■")
HOLLOW_MARKS = ("○", "◇", "△", "□")
BAR_MARK, LIVE_MARK, HOLLOW_BAR = "█", "▒", "░"
IDEAL_MARK = "·"
DASHES = 24
THEME = "labtui"


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of one theme: `series` in turn, `quiet` for axes and ideal line; ``default`` leaves a cell as it is."""

    series: tuple[Colour, ...]
    quiet: Colour = "default"
    text: Colour = "default"  # plotext gives a text without colour one of its own


# Okabe and Ito's colours, told apart by colour-blind readers; the mark differs too.
DARK = Palette(
    ((86, 180, 233), (230, 159, 0), (0, 190, 140), (220, 140, 185)),
    quiet=(128, 136, 146),
    text=(216, 222, 230),
)
LIGHT = Palette(
    ((0, 114, 178), (213, 94, 0), (0, 130, 95), (170, 70, 130)), quiet=(110, 118, 128), text=(31, 40, 48)
)
ANSI = Palette(("blue+", "yellow", "green", "magenta"))
NO_COLOUR = Palette(("default",))


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


def legend(spec: ChartSpec, palette: Palette) -> list[tuple[str, str, Colour]]:
    """Mark, name and colour of each series, for a line of our own under the chart."""
    entries: list[tuple[str, str, Colour]] = []
    place = 0
    for series in spec.series:
        if not series.points:
            continue
        if series.role == "measured":
            mark = BAR_MARK if spec.kind == "bars" else MARKS[place % len(MARKS)]
            entries.append((mark, series.name, palette.series[place % len(palette.series)]))
            place += 1
        elif series.role != "band":
            entries.append((IDEAL_MARK * 2, series.name, palette.quiet))
    points = [point for series in spec.series if series.role == "measured" for point in series.points]
    if any(point.live for point in points) and spec.kind == "bars":
        entries.append((LIVE_MARK, "still running", palette.text))
    if any(point.hollow for point in points):
        entries.append((HOLLOW_MARKS[0] if spec.kind == "lines" else HOLLOW_BAR, "warm-up", palette.text))
    return entries


def draw(spec: ChartSpec, width: int, height: int, palette: Palette) -> str | None:
    """The chart as text with ANSI colours, exactly `width` by `height` cells; None when it cannot be drawn."""
    if width < MIN_WIDTH or height < MIN_HEIGHT or not drawable(spec):
        return None
    import plotext

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


class _Drawing:
    """One pass over a chart; positions on a bar chart are places in a row, on a line chart the true x."""

    def __init__(  # noqa: PLR0917 - one pass, one caller
        self, figure: Any, plotext: Any, spec: ChartSpec, palette: Palette, width: int, height: int
    ) -> None:
        self.figure, self.plotext, self.spec, self.palette = figure, plotext, spec, palette
        self.width = width
        self.rows = height - 3  # what ticks and label leave
        self.measured = [series for series in spec.series if series.role == "measured" and series.points]
        self.others = [series for series in spec.series if series.role != "measured" and series.points]
        self.places = sorted({point.x for series in self.measured for point in series.points})
        self.low, self.high = self._y_limits()

    def _y_limits(self) -> tuple[float, float]:
        numbers = [
            number
            for series in self.spec.series
            for point in series.points
            for number in (point.y, point.lo, point.hi)
            if number is not None
        ]
        low = min([*numbers, *([] if self.spec.y_min is None else [self.spec.y_min])])
        top = max([*numbers, *([] if self.spec.y_max is None else [self.spec.y_max])])
        if self.spec.kind == "bars":
            low = min(low, 0.0)
        span = top - low or abs(top) or 1.0
        room = 1.7 if self.spec.kind == "bars" else 0.7  # cells above the highest mark, for its value
        return low, top + span * room / max(1.0, self.rows - room)

    def frame(self) -> None:
        """Axes, ticks, labels; no background, so that the theme's shows through."""
        figure = self.figure
        figure.axes(False, axis="both", side=1)
        figure.legend(False)
        low, high, ticks, labels = self._x_axis()
        figure.ruler("x").lim(low, high).ticks(ticks, labels)
        y_ticks = _round_ticks(self.low, self.high)
        y_labels = [_number(tick, percent=self.spec.percent) for tick in y_ticks]
        figure.ruler("y").lim(self.low, self.high).ticks(y_ticks, y_labels).alignment("edge")
        figure.label(_plain(self.spec.x_label), "x")

    def _x_axis(self) -> tuple[float, float, list[float], list[str]]:
        names = {position: _plain(label) for position, label in self.spec.x_ticks}
        if self.spec.kind == "bars":
            ticks = [float(index) for index in range(len(self.places))]
            labels = [names.get(place, f"{place:g}") for place in self.places]
            return -0.6, len(self.places) - 0.4, ticks, labels
        xs = [point.x for series in self.spec.series for point in series.points] + list(names)
        low, high = min(xs), max(xs)
        margin = (high - low) * 0.07 or 0.5
        ticks = sorted(names) or self.places
        return low - margin, high + margin, ticks, [names.get(tick, f"{tick:g}") for tick in ticks]

    def _x(self, x: float) -> float:
        if self.spec.kind != "bars":
            return x
        places = self.places
        if x <= places[0] or len(places) == 1:
            return 0.0
        for index in range(1, len(places)):
            if x <= places[index]:
                return index - 1 + (x - places[index - 1]) / (places[index] - places[index - 1])
        return float(len(places) - 1)

    def series(self) -> None:
        """Reference lines first, measured data over them, values last."""
        for series in self.others:
            self._reference(series)
        for index, series in enumerate(self.measured):
            if self.spec.kind == "bars":
                self._bars(series, index)
        for index, series in enumerate(self.measured):
            if self.spec.kind == "lines":
                self._line(series, index)
        if self.spec.kind == "bars":
            for index, series in enumerate(self.measured):
                self._intervals(series, index)
                self._values(series, index)

    def _colour(self, index: int) -> Colour:
        return self.palette.series[index % len(self.palette.series)]

    def _marker(self, symbol: str, colour: Colour) -> Any:
        return self.plotext.marker(symbol, self.plotext.pixel(colour))

    def _offset(self, index: int) -> tuple[float, float]:
        """Where a series' bar stands beside its place, and how wide it is."""
        count = len(self.measured)
        width = 0.72 / count
        return (index - (count - 1) / 2) * width, width

    def _bars(self, series: Series, index: int) -> None:
        offset, width = self._offset(index)
        for point in series.points:
            symbol = "full" if not (point.live or point.hollow) else LIVE_MARK if point.live else HOLLOW_BAR
            if symbol == "full":
                symbol = "hd"
            at = self._x(point.x) + offset
            left, right = at - width * 0.46, at + width * 0.46
            marker = self._marker(symbol, self._colour(index))
            self.figure.draw(self.figure.rectangle((left, right), (0.0, point.y), marker=marker))

    def _line(self, series: Series, index: int) -> None:
        points = sorted(series.points, key=lambda point: point.x)
        colour = self._colour(index)
        xs, ys = [point.x for point in points], [point.y for point in points]
        self.figure.draw(self.figure.signal(xs, ys, marker=self._marker("braille", colour)).lines(True))
        self._intervals(series, index)
        for point in points:
            marks = HOLLOW_MARKS if point.hollow else MARKS
            marker = self._marker(marks[index % len(marks)], colour)
            self.figure.draw(self.figure.signal([point.x], [point.y], marker=marker))

    def _reference(self, series: Series) -> None:
        points = sorted(series.points, key=lambda point: point.x)
        if len(points) < 2:
            return
        marker = self._marker(IDEAL_MARK, self.palette.quiet)
        xs: list[float] = []
        ys: list[float] = []
        for first, second in pairwise(points):
            for step in range(DASHES):
                share = step / DASHES
                xs.append(self._x(first.x + (second.x - first.x) * share))
                ys.append(first.y + (second.y - first.y) * share)
        xs.append(self._x(points[-1].x))
        ys.append(points[-1].y)
        self.figure.draw(self.figure.signal(xs, ys, marker=marker))

    def _intervals(self, series: Series, index: int) -> None:
        offset = self._offset(index)[0] if self.spec.kind == "bars" else 0.0
        colour = self.palette.text if self.spec.kind == "bars" else self._colour(index)
        for point in series.points:
            if point.lo is None or point.hi is None or not self._worth_drawing(point):
                continue
            at = self._x(point.x) + offset
            marker = self._marker("│", colour)
            self.figure.draw(self.figure.signal([at, at], [point.lo, point.hi], marker=marker).lines(True))

    def _worth_drawing(self, point: Point) -> bool:
        """Bounds closer than half a cell would only hide the mark."""
        low, high = point.lo, point.hi
        return low is not None and high is not None and (high - low) > (self.high - self.low) * 0.03

    def _values(self, series: Series, index: int) -> None:
        offset, share = self._offset(index)
        cells = (self.width - 6) / (len(self.places) + 0.2) * share
        for point in series.points:
            top = max(point.y, point.hi if point.hi is not None and self._worth_drawing(point) else point.y)
            y = min(self.high, top + (self.high - self.low) / self.rows)
            label = _number(point.y, percent=self.spec.percent, exact=True)
            if len(label) + 1 > cells:
                continue
            text = self.plotext.colorize(label, self.plotext.pixel(self.palette.text))
            self.figure.draw(self.figure.text(self._x(point.x) + offset, y, text, alignment="center"))


def _plain(label: str) -> str:
    return "".join(character if character.isprintable() else " " for character in label)[:40]


def _number(value: float, *, percent: bool, exact: bool = False) -> str:
    if percent:
        return f"{value * 100:.0f} %"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return (
        f"{value:.3g}"
        if not exact or abs(value) < 0.01
        else f"{value:.1f}"
        if abs(value) >= 100
        else f"{value:.2f}"
    )


def _round_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers within [low, high]: 1, 2 or 5 times a power of ten apart."""
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(index * step, 12) for index in range(first, first + 12) if index * step <= high]
