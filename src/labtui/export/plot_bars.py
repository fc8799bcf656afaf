"""Bars of a chart drawn with matplotlib: side by side, in rows, one beside many, parts of what was lost."""

from __future__ import annotations

import itertools
import math
import textwrap
from typing import TYPE_CHECKING

from labtui.export import style
from labtui.results.charts import ChartSpec, Point, Series, value_text
from labtui.results.numbers import clean, in_digits_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

from labtui.export.plot_lines import colours, is_tall, name_line


def draw_bars(axes: Axes, spec: ChartSpec, *, names: bool) -> None:
    """Bars from 0 side by side with their values on top; the ideal as a dashed step over each group."""
    from matplotlib.patheffects import withStroke

    looks = colours(spec)
    counts = [x for x, _ in spec.x_ticks]
    width = 0.8 / max(1, len(spec.measured))
    for place, series in enumerate(spec.measured):
        colour, _ = looks[series.name]
        offset = (place - (len(spec.measured) - 1) / 2) * width
        points = [point for point in series.points if point.x in counts]
        xs = [counts.index(point.x) + offset for point in points]
        bars = axes.bar(
            xs,
            [point.y for point in points],
            width * 0.94,
            color=colour,
            label=clean(series.short or series.name),
        )
        for bar, point in zip(bars, points, strict=True):
            if point.hollow or point.live:
                bar.set(facecolor="white", edgecolor=colour, hatch="//" if point.live else None)
            if is_tall(spec, point) and point.lo is not None and point.hi is not None:
                ends = [[max(0.0, point.y - point.lo)], [max(0.0, point.hi - point.y)]]
                axes.errorbar(
                    bar.get_x() + bar.get_width() / 2, point.y, ends, color=style.TEXT, capsize=4, lw=1.4
                )
        labels = [value_text(spec, point).removesuffix("×") for point in points]
        axes.bar_label(
            bars,
            labels,
            padding=3,
            color=style.TEXT,
            path_effects=[withStroke(linewidth=4, foreground="white")],
            zorder=6,
            size=axes.xaxis.label.get_fontsize() if len(counts) * len(spec.measured) <= 9 else 14,
        )
    for series in spec.series:
        if series.role == "ideal":
            for point in series.points:
                at = counts.index(point.x)
                axes.plot([at - 0.44, at + 0.44], [point.y] * 2, "--", color=style.AXIS, lw=1.7, zorder=5)
            if series.points and names:
                name_line(
                    axes,
                    Series(name="ideal", points=(Point(x=len(counts) - 0.56, y=series.points[-1].y),)),
                    "ideal",
                    style.AXIS,
                    bold=False,
                )
    axes.set_xticks(range(len(counts)), [clean(label) for _, label in spec.x_ticks])
    axes.set_xlabel(clean(spec.x_label))
    ys = [p.hi if p.hi is not None else p.y for s in spec.series for p in s.points]
    axes.set_ylim(min(0.0, *ys), max(ys) * 1.12)
    axes.set_yticks([])
    if names and len(spec.measured) > 1:
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1.0),
            ncols=len(spec.measured),
            frameon=False,
            borderaxespad=0.1,
        )
        axes.set_title(axes.get_title(loc="left"), pad=36)


def draw_rows(axes: Axes, spec: ChartSpec, *, names: bool) -> None:
    """Bars that have names: a row each, the name left, the value right; the longest in colour."""
    labels = [clean(label) for _, label in spec.x_ticks]
    best = max((p.y for s in spec.measured for p in s.points), default=0.0)
    for series in spec.measured:
        points = sorted(series.points, key=lambda point: point.x)
        shades = [style.SERIES[0] if point.y >= best else style.OTHER for point in points]
        axes.barh([point.x for point in points], [point.y for point in points], 0.62, color=shades)
        for point in points:
            end = max(point.y, point.hi or 0.0) if is_tall(spec, point) else point.y
            axes.annotate(
                value_text(spec, point), (end, point.x), (7, 0), textcoords="offset points", va="center"
            )
        for point in points:
            if point.lo is not None and point.hi is not None and is_tall(spec, point):
                ends = [[max(0.0, point.y - point.lo)], [max(0.0, point.hi - point.y)]]
                axes.errorbar(point.y, point.x, xerr=ends, color=style.TEXT, capsize=4, lw=1.4)
    wrapped = ["\n".join(textwrap.wrap(label, 30)[:3]) for label in labels]
    axes.set_yticks(range(len(labels)), wrapped, color=style.TEXT)
    axes.invert_yaxis()
    axes.set_xlim(0, best * 1.12 or 1)
    axes.set_xticks([])
    axes.set_ylabel("" if spec.x_label in ("as tuned", "device") else clean(spec.x_label))
    axes.spines["bottom"].set_visible(False)


_MAX_COUNTED = 25


def draw_repeats(axes: Axes, spec: ChartSpec) -> None:
    """One bar, and below it as many of the shorter ones as fit into its length: a factor as one sees it."""
    points = sorted(spec.measured[0].points, key=lambda point: -point.y)
    if len(points) < 2 or points[1].y <= 0:
        draw_rows(axes, spec, names=True)
        return
    ticks = dict(spec.x_ticks)
    long, short = points[0], points[1]
    colour = style.SERIES[0]
    axes.barh(0, long.y, 0.56, color=style.OTHER)
    axes.text(long.y / 2, 0, "1 epoch", ha="center", va="center", weight="bold")
    count = long.y / short.y
    edges = [short.y * n for n in range(math.floor(count) + 1)] + ([long.y] if count % 1 > 0.02 else [])
    for number, (start, end) in enumerate(itertools.pairwise(edges), 1):
        whole = end - start >= short.y * 0.98
        axes.barh(
            1,
            end - start,
            0.56,
            left=start,
            color=colour,
            alpha=1.0 if whole else 0.55,
            edgecolor="white",
            lw=2,
        )
        if whole and (count <= _MAX_COUNTED or number % 10 == 0):
            axes.text(
                (start + end) / 2, 1, str(number), ha="center", va="center", color="white", weight="bold"
            )
    names = [f"{clean(ticks.get(p.x, ''))}: {p.label} {spec.unit}\nper epoch" for p in (long, short)]
    axes.set_yticks([0, 1], names, color=style.TEXT)
    axes.invert_yaxis()
    axes.set_xlim(0, long.y * 1.02)
    axes.set_xlabel("seconds" if spec.unit == "s" else clean(spec.y_label))


def draw_lost(axes: Axes, spec: ChartSpec) -> None:
    """What was lost of 100 %, a row for each number of GPUs: parts with their numbers, the sum at the end."""
    parts = [series for series in spec.measured if series.part == "lost"]
    kept = {p.x: p for s in spec.measured if s.part == "kept" for p in s.points}
    shades = (style.SERIES[2], style.SERIES[1], style.PART, style.SERIES[3])
    left: dict[float, float] = {}
    for part, shade in zip(parts, itertools.cycle(shades)):
        for row, point in enumerate(part.points):
            start, share = left.get(point.x, 0.0), 100 * point.y
            axes.barh(row, share, 0.55, left=start, color=shade, edgecolor="white", lw=2)
            left[point.x] = start + share
            if abs(share) >= 1.2:
                dark = shade in (style.SERIES[1], style.SERIES[3])
                axes.text(
                    start + share / 2, row, point.label.removesuffix(" %"), ha="center", va="center", weight="bold",
                    color="white" if dark else style.TEXT,
                )  # fmt: skip
            if point.lo is not None and point.hi is not None and point.hi - point.lo > 0.002:
                ends = [start + 100 * point.lo, start + 100 * point.hi]
                axes.plot(ends, [row + 0.36] * 2, "|-", color=style.TEXT, lw=1.6, ms=7)
    for part, shade in zip(parts, itertools.cycle(shades)):
        axes.barh(0, 0, color=shade, label=clean(part.short or part.name))
    rows = []
    for row, (x, label) in enumerate(spec.x_ticks):
        total = left.get(x, 0.0)
        axes.annotate(
            f"{in_digits_of(kept[x].label, total / 100).removesuffix(' %')} points lost",
            (max(total, 0.0), row),
            (8, 0),
            textcoords="offset points",
            va="center",
            color=style.AXIS,
        )
        name = clean(label) if not label.isdecimal() else f"{label} GPUs"
        rows.append(f"{name}\n{kept[x].label} efficient")
    axes.set_yticks(range(len(rows)), rows, color=style.TEXT)
    axes.invert_yaxis()
    axes.set_xlim(min(0.0, *left.values()), max([*left.values(), 1.0]) * 1.22)
    axes.set_xlabel("points of efficiency")
    axes.set_title("")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=len(parts), frameon=False)
