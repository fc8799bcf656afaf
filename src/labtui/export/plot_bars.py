"""Bars of a chart drawn with matplotlib: side by side, in rows, one beside many, parts of what was lost."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from labtui.export import style
from labtui.export.drawing import bounds, is_tall, ordered, slots
from labtui.export.plot_lines import name_line
from labtui.results.charts import ChartSpec, Point, value_text
from labtui.results.numbers import clean, in_digits_of
from labtui.results.scaling import COLOUR_OF_PART

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ERROR: dict[str, Any] = {"color": style.TEXT, "capsize": 4, "lw": 1.4}
_MAX_COUNTED = 25
"""Of more bars that fit into another every tenth has its number."""


def draw_bars(axes: Axes, spec: ChartSpec, *, named: bool) -> None:
    """Bars from 0 side by side with their values on top; the ideal as a dashed step over each group."""
    from matplotlib.patheffects import withStroke

    places, lines = slots(spec), spec.measured
    counts = {x: at for at, (x, _) in enumerate(spec.x_ticks)}
    ideal = [each for each in spec.series if each.role == "ideal" and each.points]
    width, crowded = 0.8 / max(1, len(lines)), len(counts) * len(lines) > 9
    for at, series in enumerate(lines):
        points, colour = ordered(series), style.SERIES[places[series.name]]
        xs = [counts[p.x] + (at - (len(lines) - 1) / 2) * width for p in points]
        shown: Any = {"color": colour, "label": clean(series.short or series.name)}
        bars = axes.bar(xs, [p.y for p in points], width * 0.94, **shown)
        for x, bar, point in zip(xs, bars, points, strict=True):
            if point.hollow or point.live:
                bar.set(facecolor="white", edgecolor=colour, hatch="//" if point.live else None)
            if is_tall(spec, point):
                axes.errorbar(x, point.y, [[each] for each in bounds(point)], **_ERROR)
        # The ideal's dashes lie at or above the bars: numbers stand inside where there is one.
        place: Any = {"padding": -19, "color": "white", "weight": "bold"}
        if not ideal:
            rim = [withStroke(linewidth=4, foreground="white")]
            place = {"padding": 3, "color": style.TEXT, "path_effects": rim}
        labels = [value_text(spec, p).removesuffix("×") for p in points]
        numbers = axes.bar_label(bars, labels, zorder=6, size=14 if crowded else None, **place)
        for number, point in zip(numbers, points, strict=True):
            if point.hollow or point.live:
                number.set_color(style.TEXT)
    for series in ideal:
        xs, ys = [counts[p.x] for p in series.points], [p.y for p in series.points]
        axes.hlines(ys, [x - 0.44 for x in xs], [x + 0.44 for x in xs], style.AXIS, "--", lw=1.7, zorder=5)
        end = replace(series, points=(Point(x=xs[-1] + 0.44, y=ys[-1]),))
        name_line(axes, end, "ideal" if named else "", style.AXIS, bold=False)
    axes.set_xticks(range(len(counts)), [clean(label) for _, label in spec.x_ticks])
    axes.set_xlabel(clean(spec.x_label))
    ys = [p.y + bounds(p)[1] for s in spec.series for p in s.points]
    axes.set_ylim(min(0.0, *ys), max(ys) * 1.12)
    axes.set_yticks([])
    if named and len(lines) > 1:
        _legend(axes, len(lines))


def _legend(axes: Axes, count: int) -> None:
    """The names above the axes, the chart's heading above them."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=count, frameon=False, borderaxespad=0.1)
    axes.set_title(axes.get_title(loc="left"), pad=36)


def _rows(axes: Axes, names: list[str]) -> None:
    """Rows from above with their names and nothing else."""
    axes.set_yticks(range(len(names)), names, color=style.TEXT)
    axes.invert_yaxis()


def draw_rows(axes: Axes, spec: ChartSpec) -> None:
    """Bars that have names: a row each, the name left, the value right; the longest in colour."""
    best = max(p.y for s in spec.measured for p in s.points)
    for series in spec.measured:
        points = ordered(series)
        shades = [style.SERIES[0] if p.y >= best else style.OTHER for p in points]
        bars = axes.barh([p.x for p in points], [p.y for p in points], 0.62, color=shades)
        for point in points:
            if is_tall(spec, point):
                axes.errorbar(point.y, point.x, xerr=[[each] for each in bounds(point)], **_ERROR)
        axes.bar_label(bars, [value_text(spec, p) for p in points], padding=7)
    _rows(axes, ["\n".join(textwrap.wrap(clean(label), 30)[:3]) for _, label in spec.x_ticks])
    axes.set_xlim(0, best * 1.12)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)


def draw_repeats(axes: Axes, spec: ChartSpec) -> None:
    """One bar, and below it as many of the shorter ones as fit into its length: a factor as one sees it."""
    long, short = sorted(spec.measured[0].points, key=lambda point: -point.y)[:2]
    whole = int(long.y // short.y)
    bars = axes.barh(0, long.y, 0.56, color=style.OTHER)
    axes.bar_label(bars, ["1 epoch"], label_type="center", weight="bold")
    starts = [short.y * number for number in range(whole)]
    bars = axes.barh([1] * whole, short.y, 0.56, starts, color=style.SERIES[0], edgecolor="white", lw=2)
    counted = range(1, whole + 1) if whole <= _MAX_COUNTED else range(10, whole + 1, 10)
    labels = [str(number) if number in counted else "" for number in range(1, whole + 1)]
    axes.bar_label(bars, labels, label_type="center", color="white", weight="bold")
    axes.barh(1, long.y - whole * short.y, 0.56, whole * short.y, color=style.SERIES[0], alpha=0.55)
    ticks = dict(spec.x_ticks)
    _rows(axes, [f"{clean(ticks.get(p.x, ''))}: {p.label} {spec.unit}\nper epoch" for p in (long, short)])
    axes.set_xlim(0, long.y * 1.02)
    axes.set_xlabel("seconds" if spec.unit == "s" else clean(spec.y_label))


def draw_lost(axes: Axes, spec: ChartSpec) -> None:
    """What was lost of 100 %, a row for each number of GPUs: parts with their numbers, the sum at the end."""
    parts = [series for series in spec.measured if series.part == "lost"]
    kept = {p.x: p for s in spec.measured if s.part == "kept" for p in s.points}
    left = dict.fromkeys((x for x, _ in spec.x_ticks), 0.0)
    rows = {x: row for row, x in enumerate(left)}
    shades = (style.SERIES[2], style.SERIES[1], style.PART, style.SERIES[3], style.SERIES[0], style.OTHER)
    for order, part in enumerate(parts):
        shade = shades[COLOUR_OF_PART.get(part.short, -1)]
        ink = "white" if shade in (style.SERIES[0], style.SERIES[1], style.SERIES[3]) else style.TEXT
        labels = [p.label.removesuffix(" %") if abs(p.y) >= 0.012 else "" for p in part.points]
        at, starts = [rows[p.x] for p in part.points], [left[p.x] for p in part.points]
        shown: Any = {"color": shade, "edgecolor": "white", "lw": 2, "label": clean(part.short or part.name)}
        bars = axes.barh(at, [100 * p.y for p in part.points], 0.55, starts, **shown)
        axes.bar_label(bars, labels, label_type="center", weight="bold", color=ink)
        for point in part.points:
            if point.lo is not None and point.hi is not None and point.hi - point.lo > 0.002:
                ends = [left[point.x] + 100 * point.lo, left[point.x] + 100 * point.hi]
                axes.plot(
                    ends, [rows[point.x] + 0.33 + 0.04 * order] * 2, "|-", color=style.TEXT, lw=1.6, ms=7
                )
            left[point.x] += 100 * point.y
    for x, total in left.items():
        text = f"{in_digits_of(kept[x].label, total / 100).removesuffix(' %')} points lost"
        place: Any = {"xytext": (8, 0), "textcoords": "offset points", "va": "center", "color": style.AXIS}
        axes.annotate(text, (max(total, 0.0), rows[x]), **place)
    names = [f"{clean(label)}{' GPUs' * label.isdecimal()}" for _, label in spec.x_ticks]
    _rows(axes, [f"{name}\n{kept[x].label} efficient" for name, x in zip(names, left, strict=True)])
    axes.set_xlim(min(0.0, *left.values()), max([*left.values(), 1.0]) * 1.22)
    axes.set_xlabel("points of efficiency")
    _legend(axes, min(3, len(parts)))
    axes.set_title("")
