"""What every drawing of a chart needs to know, whoever draws it: which series are bars, where they stand, limits.

Pure: used by matplotlib's drawings and by PowerPoint's native charts, so that both show the same.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from labtui.core.charts import ChartSpec, Point, Series, stacked
from labtui.core.results.numbers import clean
from labtui.export import measure, style
from labtui.export.labels import Rect, Segment, Spot, Wanted, placed


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


def y_limits(spec: ChartSpec, *, headroom: float = 0.14) -> tuple[float, float]:
    """Limits that contain all marks with their bounds, and leave room for labels above."""
    values = [v for series in spec.series for point in series.points for v in (point.y, point.lo, point.hi)]
    known = [value for value in values if value is not None]
    low = min([*known, spec.y_min if spec.y_min is not None else min(known, default=0.0)])
    high = max([*known, spec.y_max if spec.y_max is not None else low])
    if stacked(spec):
        high = max(high, 1.0)
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


def labels_in_bars(spec: ChartSpec) -> bool:
    """Whether values stand in their bars: the ideal line runs where they would stand over them."""
    return spec.kind == "bars" and bool(curve_series(spec)) and len(bar_series(spec)) == 1


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
                said = clean(point.label) + (" live" if point.live else "")
                wide, side = measure.width(said, text * share), side_of_label(spec, series, at, point)
                shown.append(point)
                wanted.append(Wanted(x, y, wide, 1.2 * text * share, above, below, side))
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


def value_colour(series: Sequence[Series], point: Point) -> str:
    """The colour of a value: that of its line where there are several, so that it is read as that line's."""
    if len(series) < 2:
        return style.INK
    return next(
        style.colour(at) for at, each in enumerate(series) if any(one is point for one in each.points)
    )


def repeated_label(series: Sequence[Series], place: int, point: Point) -> bool:
    """Whether an earlier series says the same at the same place (all speedups are 1.00 on one GPU)."""
    return any(
        other.x == point.x and other.label == point.label and math.isclose(other.y, point.y, rel_tol=1e-3)
        for each in series[:place]
        for other in each.points
    )
