"""Lines of a chart drawn with matplotlib: marks, intervals, labels at the ends, axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from labtui.export import style
from labtui.results.charts import ChartSpec, Point, Series, series_hues, spread, unbroken, value_text
from labtui.results.numbers import clean, tick_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKS_UP_TO = 14
"""Lines of more points than this have no marks."""


def slots(spec: ChartSpec) -> dict[str, int]:
    """The place of each measured series among the four colours, by name: a network's own, others in their order."""
    hues = [hue if hue < len(style.SERIES) else -1 for hue in series_hues(spec)]
    free = iter([slot for slot in range(len(style.SERIES)) if slot not in hues])
    names = [series.name for series in spec.measured]
    return {name: hue if hue >= 0 else next(free, 0) for name, hue in zip(names, hues, strict=True)}


def colours(spec: ChartSpec) -> dict[str, tuple[str, str]]:
    """Colour and mark of each measured series, by name."""
    return {name: (style.SERIES[at], style.MARKS[at]) for name, at in slots(spec).items()}


def draw_lines(axes: Axes, spec: ChartSpec, *, names: bool, small: bool) -> None:
    looks = colours(spec)
    labelled = (
        not spec.over_time
        and len(spec.x_ticks) <= (4 if small or len(spec.measured) > 1 else 6)
        and len(spec.measured) <= 2
    )
    for series in spec.series:
        if series.role == "band" and series.points:
            xs = [p.x for p in series.points]
            low, high = ([getattr(p, end) or p.y for p in series.points] for end in ("lo", "hi"))
            axes.fill_between(xs, low, high, color=style.GRID, lw=0, zorder=0)
    draw_ideal(axes, spec, named=names or len(spec.measured) == 1)
    for place, series in enumerate(spec.measured):
        colour, mark = looks[series.name]
        shift = (place - (len(spec.measured) - 1) / 2) * 0.06
        draw_line(axes, spec, series, colour, mark, shift=0.0 if spec.over_time else shift)
        last = max(series.points, key=lambda point: point.x)
        value = value_text(spec, last) if last.label or not spec.over_time or spec.percent else ""
        name = series.short or series.name if names and len(spec.measured) > 1 else ""
        name_line(axes, series, " ".join(filter(None, (value, clean(name)))), colour, bold=names)
        if labelled:
            _numbers(axes, spec, series, place, colour)
    for series in spec.series:
        if series.role in ("fit", "reference") and series.points:
            dash = "--" if series.role == "reference" else "-"
            xs, ys = [p.x for p in series.points], [p.y for p in series.points]
            axes.plot(xs, ys, dash, color=style.AXIS, lw=1.6, zorder=2)
            end = f"{series.points[-1].label} " if series.points[-1].label else ""
            name_line(axes, series, f"{end}{series.short or series.name}", style.AXIS, bold=False)
    dress_axes(axes, spec, labelled=labelled)


def draw_line(
    axes: Axes, spec: ChartSpec, series: Series, colour: str, mark: str, *, shift: float = 0.0
) -> None:
    marked = len(series.points) <= _MARKS_UP_TO
    for piece in unbroken(spec, series):
        xs, ys = [p.x for p in piece], [p.y for p in piece]
        axes.plot(
            xs,
            ys,
            color=colour,
            marker=mark if marked else None,
            markeredgecolor="white",
            markeredgewidth=1.2,
            zorder=4,
        )
        hollow = [p for p in piece if p.hollow]
        if hollow and marked:
            axes.plot(
                [p.x for p in hollow], [p.y for p in hollow], mark, mfc="white", mec=colour, mew=2, zorder=5
            )
    for point in series.points:
        if not spec.over_time and is_tall(spec, point) and point.lo is not None and point.hi is not None:
            x = point.x * 2 ** (shift / 2) if spec.x_log else point.x + shift
            low, high = max(0.0, point.y - point.lo), max(0.0, point.hi - point.y)
            axes.errorbar(x, point.y, [[low], [high]], color=colour, capsize=4, lw=1.8, zorder=3)


def is_tall(spec: ChartSpec, point: Point) -> bool:
    """Whether an interval is taller than its mark."""
    if point.lo is None or point.hi is None or point.y <= 0:
        return False
    values = [p.y for s in spec.measured for p in s.points]
    span = (max(values) if spec.kind == "bars" else max(values) - min(0.6 * max(values), *values)) or 1.0
    return (point.hi - point.lo) / span > 0.05


def draw_ideal(axes: Axes, spec: ChartSpec, *, named: bool) -> None:
    for series in spec.series:
        if series.role == "ideal" and series.points:
            xs, ys = [p.x for p in series.points], [p.y for p in series.points]
            axes.plot(xs, ys, "--", color=style.AXIS, lw=1.7, zorder=1)
            if named:
                name_line(axes, series, series.name, style.AXIS, bold=False)


def _numbers(axes: Axes, spec: ChartSpec, series: Series, place: int, colour: str) -> None:
    """The value at each mark but the last: left of the start, then on the side that the line leaves free."""
    points = sorted(series.points, key=lambda point: point.x)
    for at, point in enumerate(points[:-1]):
        if spec.unit in ("×", "%") and at == 0 and abs(point.y - 1) < 1e-9:
            continue  # 1.00 and 100 % of the baseline say nothing
        upper = all(
            other.y <= point.y for each in spec.measured for other in each.points if other.x == point.x
        )
        first, falls = at == 0, points[at + 1].y < point.y
        above = upper if len(spec.measured) > 1 else falls
        dx = -11 if first else (11 if falls == above else -11)
        dy = 0 if first else (11 if above else -11)
        axes.annotate(
            value_text(spec, point), (point.x, point.y), (dx, dy), textcoords="offset points", color=colour,
            ha="right" if dx < 0 else "left", va="center" if not dy else "bottom" if above else "top", zorder=6,
        )  # fmt: skip


def name_line(axes: Axes, series: Series, text: str, colour: str, *, bold: bool = True) -> None:
    """A label right of the axes, at the height of the line's end; `_spread_names` moves it."""
    last = max(series.points, key=lambda point: point.x)
    if text:
        note = axes.annotate(
            text, xy=(last.x, last.y), xytext=(10, 0), textcoords="offset points", color=colour, va="center",
            weight="bold" if bold else "normal", annotation_clip=False, zorder=6,
        )  # fmt: skip
        note.set_gid("name")


def spread_names(axes: Any) -> None:
    """Names that would touch are spread round their lines, with thin leaders where they had to move far."""
    names: list[Any] = [text for text in axes.texts if text.get_gid() == "name"]
    if not names:
        return
    scale = axes.figure.dpi / 72
    points = [axes.transData.transform(name.xy) / scale for name in names]
    right = max(x for x, _ in points)
    height = max(name.get_window_extent().height for name in names) / scale
    places = spread([y for _, y in points], height * 1.04)
    for name, (x, y), place in zip(names, points, places, strict=True):
        moved = place - y
        name.set_position((10 + right - x, moved))
        if abs(moved) > height / 2:
            ends = axes.transData.inverted().transform(
                [(x * scale + 5, y * scale), ((right + 9) * scale, place * scale)]
            )
            axes.plot(
                ends[:, 0],
                ends[:, 1],
                color=name.get_color(),
                lw=0.8,
                clip_on=False,
                scalex=False,
                scaley=False,
            )


def dress_axes(axes: Axes, spec: ChartSpec, *, labelled: bool, shared: bool = False, most: int = 12) -> None:
    """Limits, scales and ticks; where every mark has its number there is no y axis."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    points = [p for s in spec.series if s.role not in ("band", "fit") for p in s.points]
    xs, ys = [p.x for p in points], [p.y for p in points]
    if not points:
        return
    if spec.x_log:
        axes.set_xscale("log", base=2)
    if spec.y_log:
        axes.set_yscale("log", base=2)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_locator(NullLocator())
    ticks = thinned(spec, xs, most)
    axes.xaxis.set_major_locator(FixedLocator([x for x, _ in ticks]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: dict(ticks).get(x, "")))
    axes.set_xlabel(clean(spec.x_label))
    low, high = y_limits(spec, ys)
    axes.set_ylim(low, high)
    if spec.x_log:
        axes.set_xlim(min(xs) * 0.84, max(xs) * 1.12)
    else:
        margin = (max(xs) - min(xs)) * (0.02 if spec.over_time else 0.12) or 0.5
        axes.set_xlim(min(xs) - margin, max(xs) + margin * 0.6)
    if labelled:
        axes.yaxis.set_major_locator(NullLocator())
    elif not shared:
        values = y_ticks(low, high, log=spec.y_log)
        axes.yaxis.set_major_locator(FixedLocator(values))
        unit = " %" if spec.percent else "×" if spec.unit == "×" else ""
        axes.yaxis.set_major_formatter(
            FuncFormatter(lambda y, _: f"{tick_text(y, percent=spec.percent)}{unit}")
        )
    if not labelled:
        axes.grid(axis="y")


def thinned(spec: ChartSpec, xs: Sequence[float], most: int = 12) -> list[tuple[float, str]]:
    """The ticks of x that do not touch: on logarithmic axes none nearer than half a doubling."""
    if not spec.x_ticks:
        return [(x, tick_text(x)) for x in y_ticks(min(xs), max(xs), log=False)]
    kept: list[tuple[float, str]] = []
    apart = 0.9 if spec.x_axis == "batch" else 0.5
    for x, label in reversed(spec.x_ticks):
        far = not kept or (math.log2(kept[-1][0] / x) >= apart if spec.x_log else True)
        if far:
            kept.append((x, clean(label)))
    step = -(-len(kept) // most)
    return kept[::-1] if step == 1 else [kept[-1], *kept[-1 - step :: -step]]


def y_limits(spec: ChartSpec, ys: Sequence[float]) -> tuple[float, float]:
    """From 0 for bars, speedup and times; shares of lines are cut at the ten below the least."""
    low, high = min(ys), max(ys)
    if spec.y_log:
        return low / 1.12, high * 1.12
    if spec.kind == "bars":
        return min(0.0, low), high * 1.12
    if spec.percent:
        bottom = math.floor(low * 10 - 1e-9) / 10
        span = high - bottom or 0.1
        return bottom if low > 0.1 else min(0.0, bottom), high + 0.06 * span
    return (0.0 if low >= 0 else low * 1.1), high * 1.06 if high > 0 else 1.0


def y_ticks(low: float, high: float, *, log: bool) -> list[float]:
    """Three to six round numbers between two limits."""
    from matplotlib.ticker import MaxNLocator

    if not log:
        steps = MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        return [float(y) for y in steps if low - 1e-9 <= y <= high + 1e-9]
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [factor * 10.0**power for power in powers for factor in factors]
        found = [y for y in found if low <= y <= high]
        if len(found) <= 6:
            break
    return found if len(found) > 1 else y_ticks(low, high, log=False)
