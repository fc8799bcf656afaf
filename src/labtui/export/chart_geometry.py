"""The geometry of a chart, whoever draws it: which series are bars, where they stand, limits, where values go.

Pure: used by matplotlib's drawings and by PowerPoint's native charts, so that both show the same. Values stand beside
their marks, over no line, no mark and no other value; lengths are in points.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from labtui.export import style
from labtui.results.charts import ChartSpec, Point, Series, series_hues
from labtui.results.numbers import clean

Segment = tuple[float, float, float, float]
"""From (x0, y0) to (x1, y1); y grows upwards."""
_MARK = 3.4
_CROSSED, _ON_MARK, _ON_TEXT, _OUTSIDE, _ASTRAY = 1.0, 1.5, 3.0, 20.0, 14.0
_ROUNDS = 3
_ROOM_FOR_A_LABEL = 0.14
"""Room over the highest mark for a value beside it, as a share of the range."""


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle; `y` grows upwards."""

    x0: float
    y0: float
    x1: float
    y1: float

    def shared(self, other: Rect) -> float:
        """The diagonal of what two rectangles share; 0 when they do not touch."""
        wide = min(self.x1, other.x1) - max(self.x0, other.x0)
        high = min(self.y1, other.y1) - max(self.y0, other.y0)
        return math.hypot(wide, high) if wide > 0 and high > 0 else 0.0


@dataclass(frozen=True, slots=True)
class WantedLabel:
    """A text for a mark at (x, y); `above` and `below` are the lengths of its error bar. `side` is preferred."""

    x: float
    y: float
    w: float
    h: float
    above: float = 0.0
    below: float = 0.0
    side: int = 1

    @property
    def mark(self) -> Rect:
        return Rect(self.x - _MARK, self.y - _MARK, self.x + _MARK, self.y + _MARK)


@dataclass(frozen=True, slots=True)
class Spot:
    """A place beside a mark: the text's centre from the mark's, how little it is liked, its name in PowerPoint."""

    name: str
    dx: float
    dy: float
    dislike: float


def spots(wanted: WantedLabel, text: float, names: str = "") -> list[Spot]:
    """Every place beside a mark, the best liked first; `names` narrows them (``tblr``)."""
    up = wanted.above + 0.45 * text + wanted.h / 2
    down = -(wanted.below + 0.45 * text + wanted.h / 2)
    aside = wanted.w / 2 + 0.55 * text
    near = 0.12 * text + wanted.h / 2
    far = wanted.w / 2 + 0.22 * text
    likes = {"t": 0.0 if wanted.side > 0 else 5.0, "b": 5.0 if wanted.side > 0 else 0.0, "r": 8.0, "l": 8.0}
    # At the far end of a long error bar a value would be read as the bar's end.
    found = [
        Spot("t", 0.0, up, likes["t"] + 0.6 * wanted.above),
        Spot("b", 0.0, down, likes["b"] + 0.6 * wanted.below),
        Spot("r", aside, 0.0, likes["r"]),
        Spot("l", -aside, 0.0, likes["l"]),
        Spot("tl", -far, near, likes["t"] + 2.5),
        Spot("tr", far, near, likes["t"] + 2.5),
        Spot("br", far, -near, likes["b"] + 2.5),
        Spot("bl", -far, -near, likes["b"] + 2.5),
        Spot("ttl", -far, near + 0.8 * text, likes["t"] + 12.0),
        Spot("bbr", far, -near - 0.8 * text, likes["b"] + 12.0),
    ]
    return [spot for spot in found if not names or (len(spot.name) == 1 and spot.name in names)]


def placed(
    wanted: Sequence[WantedLabel],
    lines: Sequence[Segment],
    *,
    room: Rect,
    text: float,
    taken: Sequence[Rect] = (),
    names: str = "",
) -> list[Spot]:
    """A spot for each text, chosen one after the other, then again in view of all others."""
    choices = [spots(each, text, names) for each in wanted]
    chosen: list[Spot | None] = [None] * len(wanted)
    marks = [each.mark for each in wanted]
    for _ in range(_ROUNDS):
        before = list(chosen)
        for at, each in enumerate(wanted):
            others = [_box(wanted[i], spot) for i, spot in enumerate(chosen) if spot is not None and i != at]
            chosen[at] = min(
                choices[at],
                key=lambda spot, each=each, others=others: (  # type: ignore[misc]
                    spot.dislike
                    + _cost(_box(each, spot), lines, marks, [*taken, *others], room)
                    + _astray(each, spot, wanted)
                ),
            )
        if chosen == before:
            break
    return [spot for spot in chosen if spot is not None]


def _box(wanted: WantedLabel, spot: Spot) -> Rect:
    x, y = wanted.x + spot.dx, wanted.y + spot.dy
    return Rect(x - wanted.w / 2, y - wanted.h / 2, x + wanted.w / 2, y + wanted.h / 2)


def _astray(one: WantedLabel, spot: Spot, wanted: Sequence[WantedLabel]) -> float:
    """What it costs to stand nearer to another mark than to one's own: it would be read as that one's."""
    x, y = one.x + spot.dx, one.y + spot.dy
    own = math.hypot(spot.dx, spot.dy)
    near = [math.hypot(other.x - x, other.y - y) for other in wanted if other is not one]
    return _ASTRAY if near and min(near) < own - 0.01 else 0.0


def _cost(
    box: Rect, lines: Sequence[Segment], marks: Sequence[Rect], texts: Sequence[Rect], room: Rect
) -> float:
    cost = sum(_CROSSED * length_inside(line, box) for line in lines)
    cost += sum(_ON_MARK * box.shared(mark) for mark in marks)
    cost += sum(_ON_TEXT * box.shared(other) for other in texts)
    outside = max(room.x0 - box.x0, 0) + max(box.x1 - room.x1, 0)
    return cost + _OUTSIDE * (outside + max(room.y0 - box.y0, 0) + max(box.y1 - room.y1, 0))


def length_inside(line: Segment, box: Rect) -> float:
    """How much of a line lies in a rectangle (Liang and Barsky)."""
    x0, y0, x1, y1 = line
    dx, dy = x1 - x0, y1 - y0
    start, end = 0.0, 1.0
    for step, room in ((-dx, x0 - box.x0), (dx, box.x1 - x0), (-dy, y0 - box.y0), (dy, box.y1 - y0)):
        if step == 0:
            if room < 0:
                return 0.0
        elif step < 0:
            start = max(start, room / step)
        else:
            end = min(end, room / step)
    return max(0.0, end - start) * math.hypot(dx, dy)


def bar_series(spec: ChartSpec) -> tuple[Series, ...]:
    """The series that are marks of their own: measured ones and references."""
    return tuple(each for each in spec.series if each.points and each.role in ("measured", "reference"))


def curve_series(spec: ChartSpec) -> tuple[Series, ...]:
    """The ideal line and fitted curves."""
    return tuple(each for each in spec.series if each.points and each.role in ("ideal", "fit"))


def band_series(spec: ChartSpec) -> tuple[Series, ...]:
    """Bands around fitted curves."""
    return tuple(each for each in spec.series if each.points and each.role == "band")


def categories(spec: ChartSpec) -> tuple[tuple[float, str], ...]:
    """Where bars stand: the ticks, and any mark without one."""
    ticks = dict(spec.x_ticks)
    for series in bar_series(spec):
        for point in series.points:
            ticks.setdefault(point.x, f"{point.x:g}")
    return tuple(sorted(ticks.items()))


def points_at(series: Series) -> dict[float, Point]:
    """The marks of a series by their position."""
    return {point.x: point for point in series.points}


def error_sizes(point: Point) -> tuple[float, float]:
    """Length of the error bar below and above a mark."""
    low = point.y - point.lo if point.lo is not None else 0.0
    high = point.hi - point.y if point.hi is not None else 0.0
    return max(0.0, low), max(0.0, high)


def has_errors(points: Iterable[Point]) -> bool:
    """Whether any mark has a bound that differs from it."""
    return any(max(error_sizes(point)) > 0 for point in points)


def y_limits(spec: ChartSpec, *, headroom: float = _ROOM_FOR_A_LABEL) -> tuple[float, float]:
    """Limits that contain all marks with their bounds, and leave room for labels above."""
    values = [v for series in spec.series for point in series.points for v in (point.y, point.lo, point.hi)]
    known = [value for value in values if value is not None]
    low = min([*known, spec.y_min if spec.y_min is not None else min(known, default=0.0)])
    high = max([*known, spec.y_max if spec.y_max is not None else low])
    if spec.kind == "stacked":
        high = max(high, 1.0)
    if spec.kind == "stacked" and headroom <= _ROOM_FOR_A_LABEL:
        headroom = 0.06  # values stand inside
    span = (high - low) or max(abs(high), 1.0)
    top = high + headroom * span
    return (low if low >= 0 else low - headroom * span), top


def label_mode(spec: ChartSpec) -> Literal["all", "none"]:
    """Whether marks carry their values: only where they can be read."""
    labelled = sum(bool(point.label) for series in bar_series(spec) for point in series.points)
    positions = len({point.x for series in bar_series(spec) for point in series.points})
    if spec.kind == "lines" and len(bar_series(spec)) > 2 and positions > 4:
        return "none"
    return "all" if 0 < labelled <= 24 and positions <= 8 and len(bar_series(spec)) <= 3 else "none"


def ideal_at(spec: ChartSpec) -> dict[float, float]:
    """The ideal value at each position of a bar chart."""
    return {point.x: point.y for each in curve_series(spec) for point in each.points}


def value_text(spec: ChartSpec, point: Point) -> str:
    """A mark's value as it stands beside it: the axis says the percent sign."""
    label = clean(point.label)
    if spec.percent:
        label = "100" if point.y >= 0.9995 and label.startswith("100") else label.removesuffix(" %")
    return f"{label} live" if point.live else label


def upright_values(spec: ChartSpec, slot: float, size: float) -> bool:
    """Whether values over bars of so many points have to stand upright, or they would cover each other."""
    points = (point for series in bar_series(spec) for point in series.points if point.label)
    texts = [value_text(spec, replace(point, live=False)) for point in points]
    return max((style.text_width(text, size) for text in texts), default=0.0) > 1.1 * slot * _gap(spec)


def _gap(spec: ChartSpec) -> float:
    """How much wider than its own slot a value may be: over single bars also into the gap beside it."""
    return 1.0 if len(bar_series(spec)) > 1 else 1.4


def upright_headroom(spec: ChartSpec, size: float, height: float) -> float:
    """Room over bars for values that stand upright, as a share of the bars' own height in a plot so high."""
    texts = (value_text(spec, point) for series in bar_series(spec) for point in series.points if point.label)
    longest = max((style.text_width(text, size) for text in texts), default=0.0) + 0.8 * size
    return min(2.0, longest / max(height - longest, 0.5 * longest))


def apart(wanted: Sequence[float], gap: float, height: float) -> list[float]:
    """Rising positions at least `gap` apart and inside the height, close to where they want to be."""
    placed: list[float] = []
    for want in wanted:
        placed.append(max(want, placed[-1] + gap) if placed else want)
    over = placed[-1] - height if placed else 0.0
    for at in range(len(placed) - 1, -1, -1):
        if over <= 0:
            break
        placed[at] -= over
        over = placed[at - 1] + gap - placed[at] if at else 0.0
    return placed


def legend_rows(spec: ChartSpec, room: float, size: float) -> int:
    """Lines of the legend over a bar chart; 0 where one series needs no name."""
    series = bar_series(spec)
    if len(series) < 2:
        return 0
    return -(-len(series) // legend_columns(spec, room, size))


def legend_columns(spec: ChartSpec, room: float, size: float) -> int:
    """How many names of series stand beside each other in so many points."""
    widest = max(style.text_width(clean(each.name), size) for each in bar_series(spec)) + 3.2 * size
    return max(1, min(len(bar_series(spec)), int(room / widest)))


def heat(spec: ChartSpec) -> bool:
    """Whether a chart is a strip per GPU whose shade is the value: many moments, nothing to compare as heights."""
    return spec.family == "gpu-utilization"


@dataclass(frozen=True, slots=True)
class View:
    """Where a chart's numbers stand on a drawing of so many points: its corner, points per unit, and its size."""

    left: float
    low: float
    across: float
    up: float
    width: float
    height: float

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The place of a mark, in points from the lower left corner."""
        return (x - self.left) * self.across, (y - self.low) * self.up


def value_spots(
    spec: ChartSpec,
    view: View,
    text: float,
    share: float,
    *,
    taken: Sequence[Rect] = (),
    names: str = "",
) -> list[tuple[Point, Spot]]:
    """Each mark of a line chart that carries its value, and where the value stands beside it."""
    if label_mode(spec) == "none":
        return []
    series = bar_series(spec)
    shown, wanted = [], []
    for at, each in enumerate(series):
        for point in each.points:
            if point.label and not repeated_label(series, at, point):
                x, y = view.at(point.x, point.y)
                # PowerPoint puts a value close to its mark, whatever the length of the error bar.
                sizes = (0.0, 0.0) if names else error_sizes(point)
                below, above = (size * view.up for size in sizes)
                label = value_text(spec, point)
                wide, side = style.text_width(label, text * share), side_of_label(spec, series, at, point)
                shown.append(point)
                wanted.append(WantedLabel(x, y, wide, 1.2 * text * share, above, below, side))
    lines = [line for each in (*series, *curve_series(spec)) for line in _segments(each, view)]
    lines += [line for each in series for point in each.points for line in _error_line(point, view)]
    room = Rect(-0.1 * view.width, 1.0, 1.05 * view.width, view.height + 0.5 * text)
    return list(
        zip(shown, placed(wanted, lines, room=room, text=text, taken=taken, names=names), strict=True)
    )


def _segments(series: Series, view: View) -> Iterable[Segment]:
    places = [view.at(point.x, point.y) for point in sorted(series.points, key=lambda point: point.x)]
    return ((*one, *other) for one, other in itertools.pairwise(places))


def _error_line(point: Point, view: View) -> Iterable[Segment]:
    below, above = error_sizes(point)
    if below or above:
        yield (*view.at(point.x, point.y - below), *view.at(point.x, point.y + above))


def side_of_label(spec: ChartSpec, series: Sequence[Series], place: int, point: Point) -> int:
    """1: the value stands above its mark, -1: below. The lowest of several marks at one position has it below."""
    others = [
        other.y
        for at, each in enumerate(series)
        if at != place
        for other in each.points
        if other.x == point.x
    ]
    return -1 if others and point.y < min(others) else 1


def colours(spec: ChartSpec) -> tuple[str, ...]:
    """The colour of each of the series that are marks of their own."""
    return tuple(style.SERIES[slot] for slot in slots(spec))


def slots(spec: ChartSpec) -> tuple[int, ...]:
    """The colour slot of each of the series that are marks of their own; a reference has a free one."""
    hues = iter(series_hues(spec))
    return tuple(next(hues) if each.role == "measured" else 10 for each in bar_series(spec))


def curve_colour(series: Series) -> str:
    """The colour of a curve: that of its network, else grey for the ideal and blue for a fit."""
    if series.hue is not None:
        return style.SERIES[series.hue]
    return style.QUIET if series.role == "ideal" else style.SERIES[10]


def value_colour(spec: ChartSpec, point: Point) -> str:
    """The colour of a value: that of its line where there are several, so that it is read as that line's."""
    series = bar_series(spec)
    if len(series) < 2:
        return style.INK
    return next(
        shade
        for each, shade in zip(series, colours(spec), strict=True)
        if any(one is point for one in each.points)
    )


def repeated_label(series: Sequence[Series], place: int, point: Point) -> bool:
    """Whether an earlier series says the same at the same place (all speedups are 1.00 on one GPU)."""
    return any(
        other.x == point.x and other.label == point.label and math.isclose(other.y, point.y, rel_tol=1e-3)
        for each in series[:place]
        for other in each.points
    )
