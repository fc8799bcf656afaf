"""Lines of a chart drawn with matplotlib: marks, intervals, labels at the ends, axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from labtui.export import drawing, style
from labtui.results.charts import ChartSpec, Series, spread, unbroken
from labtui.results.numbers import clean, tick_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHES = {"ideal": "--", "reference": "--", "fit": "-"}


def draw_lines(axes: Axes, spec: ChartSpec, lines: Sequence[Series], *, named: bool, panel: bool) -> None:
    """`lines` in colour, the other measured ones in grey; those of a panel take the colours from the first on."""
    places = (
        {series.name: at % len(style.SERIES) for at, series in enumerate(lines)}
        if panel
        else drawing.slots(spec)
    )
    labelled = drawing.has_numbers(spec) and not panel
    for series in spec.series:
        if not series.points:
            continue
        xs, ys = [p.x for p in series.points], [p.y for p in series.points]
        if series.role in _DASHES:
            axes.plot(xs, ys, _DASHES[series.role], color=style.AXIS, lw=1.7, zorder=2)
            if not panel and (series.role != "ideal" or named or len(lines) == 1):
                name_line(axes, series, drawing.end_text(spec, series, named=True), style.AXIS, bold=False)
        elif series not in lines:
            for piece in unbroken(spec, series):
                axes.plot([p.x for p in piece], [p.y for p in piece], color=style.OTHER, lw=1.2, zorder=1)
    for at, series in enumerate(lines):
        place = places[series.name]
        shift = 0.0 if spec.over_time else (at - (len(lines) - 1) / 2) * 0.06
        _draw_line(axes, spec, series, place, shift)
        text = drawing.end_text(spec, series, named=named and len(lines) > 1)
        short = panel and len(lines) > 1
        name_line(axes, series, clean(series.short) if short else text, style.SERIES[place], bold=named)
        for point, number, x, y in drawing.numbers(spec, series) if labelled else ():
            axes.annotate(
                number, (point.x, point.y), (9 * x, 6 * y), textcoords="offset points", zorder=6,
                color=style.SERIES[place],
                ha="right" if x < 0 else "left", va=("center", "bottom", "top")[y],
            )  # fmt: skip
    _dress_axes(axes, spec, labelled=labelled, panel=panel)


def _draw_line(axes: Axes, spec: ChartSpec, series: Series, place: int, shift: float) -> None:
    colour, marked = style.SERIES[place], len(series.points) <= drawing.MAX_MARKED
    mark: Any = {"marker": style.MARKS[place], "mec": "white", "mew": 1.2} if marked else {}
    for piece in unbroken(spec, series):
        axes.plot([p.x for p in piece], [p.y for p in piece], color=colour, zorder=4, **mark)
    hollow = [p for p in series.points if p.hollow and marked]
    axes.plot(
        [p.x for p in hollow],
        [p.y for p in hollow],
        style.MARKS[place],
        mfc="white",
        mec=colour,
        mew=2,
        zorder=5,
    )
    for point in series.points:
        if drawing.is_tall(spec, point) and not spec.over_time:
            low, high = drawing.bounds(point)
            x = point.x * (2 ** (shift / 2) if spec.x_log else 1) + (0 if spec.x_log else shift)
            axes.errorbar(x, point.y, [[low], [high]], color=colour, capsize=4, lw=1.8, zorder=3)


def name_line(axes: Axes, series: Series, text: str, colour: str, *, bold: bool) -> None:
    """A label right of the axes, at the height of the line's end; `spread_names` moves it."""
    last = drawing.ordered(series)[-1]
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
    lowest = axes.get_window_extent().y0 / scale + height / 2
    places = spread([y for _, y in points], height * 1.04, lowest)
    for name, (x, y), place in zip(names, points, places, strict=True):
        name.set_position((10 + right - x, place - y))
        if abs(place - y) > height / 2:
            axes.annotate(
                "", name.xy, (9 + right - x, place - y), textcoords="offset points", annotation_clip=False,
                arrowprops={"arrowstyle": "-", "color": name.get_color(), "lw": 0.8, "shrinkA": 0, "shrinkB": 5},
            )  # fmt: skip


def _dress_axes(axes: Axes, spec: ChartSpec, *, labelled: bool, panel: bool) -> None:
    """Limits, scales and ticks; where every mark has its number there is no y axis."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    xs = [p.x for s in spec.series if s.role != "fit" for p in s.points]
    if spec.x_log:
        axes.set_xscale("log", base=2)
    if spec.y_log:
        axes.set_yscale("log", base=2)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_locator(NullLocator())
    ticks = drawing.x_ticks(spec, xs, 2 if spec.x_log else 3) if panel else drawing.x_ticks(spec, xs)
    axes.set_xticks([x for x, _ in ticks], [label for _, label in ticks])
    axes.set_xlabel(clean(spec.x_label))
    axes.set_ylim(*drawing.y_limits(spec))
    if spec.x_log:
        axes.set_xlim(min(xs) * 0.84, max(xs) * 1.12)
    else:
        margin = (max(xs) - min(xs)) * (0.02 if spec.over_time else 0.12) or 0.5
        axes.set_xlim(min(xs) - margin, max(xs) + margin * 0.6)
    if labelled:
        axes.yaxis.set_major_locator(NullLocator())
        return
    unit = " %" if spec.percent else "×" if spec.unit == "×" else ""
    axes.yaxis.set_major_locator(FixedLocator(drawing.y_ticks(*drawing.y_limits(spec), log=spec.y_log)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: tick_text(y, percent=spec.percent) + unit))
    axes.grid(axis="y")
