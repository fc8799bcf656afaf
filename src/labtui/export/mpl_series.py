"""Bars, lines, bands and direct labels on matplotlib axes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labtui.export import chart_geometry, style
from labtui.export.chart_geometry import Rect
from labtui.results.charts import ChartSpec, Point, Series
from labtui.results.numbers import clean

_MOST_NAMED_AT_END = 5
_AT_END = "name"
_GROUND = {"boxstyle": "round,pad=0.08", "fc": style.PAPER, "ec": "none", "alpha": 0.75}
_LEAST_INSIDE = 0.7
"""How much smaller than other text a value inside a bar may be."""
_ERROR = {"ecolor": style.INK, "elinewidth": 0.9, "capsize": 2.5, "capthick": 0.9}


# --------------------------------------------------------------------------- bars


def draw_bars(axes: Any, spec: ChartSpec, canvas: style.Canvas) -> None:
    """Grouped bars (stacked for parts of a whole), the ideal as a tick over each of them."""
    groups = chart_geometry.categories(spec)
    places = {x: float(at) for at, (x, _) in enumerate(groups)}
    series = chart_geometry.bar_series(spec)
    if spec.kind == "stacked":
        _stack(axes, spec, places, canvas)
    else:
        _groups(axes, spec, series, places, canvas)
    slot = axes.get_position().width * canvas.width * 72 / (len(places) + 0.2)
    names = [clean(name) for _, name in groups]
    if max((style.text_width(name, canvas.small) for name in names), default=0.0) > slot:
        names = [name.replace(", ", ",\n") for name in names]
        box, more = axes.get_position(), 1.3 * canvas.small / 72 / canvas.height
        lines = max(name.count("\n") for name in names)
        axes.set_position([box.x0, box.y0 + lines * more, box.width, box.height - lines * more])
    axes.set_xticks(list(places.values()), names)
    axes.set_xlim(-0.6, max(len(groups) - 0.4, 0.6))
    if spec.kind == "stacked":
        axes.set_ylim(*chart_geometry.y_limits(spec))
    if len(series) > 1:
        _legend(axes, canvas, columns=chart_geometry.legend_columns(spec, canvas.width * 72, canvas.small))


def _groups(
    axes: Any, spec: ChartSpec, series: Sequence[Series], places: dict[float, float], canvas: Any
) -> None:
    width = 0.52 if len(series) <= 1 else 0.78 / len(series)
    labels = chart_geometry.label_mode(spec) == "all"
    ideal = chart_geometry.ideal_at(spec)
    slot = axes.get_position().width * canvas.width * 72 / (len(places) + 0.2) * width
    upright = chart_geometry.upright_values(spec, slot, canvas.small)
    height = axes.get_position().height * canvas.height * 72
    room = chart_geometry.upright_headroom(spec, canvas.small, height) if upright else 0.14
    axes.set_ylim(*chart_geometry.y_limits(spec, headroom=room))
    for at, (each, shade) in enumerate(zip(series, chart_geometry.colours(spec), strict=True)):
        shift = (at - (len(series) - 1) / 2) * width
        for points in _alike(each.points):
            sizes = [chart_geometry.error_sizes(point) for point in points]
            axes.bar(
                [places[point.x] + shift for point in points],
                [point.y for point in points],
                width * 0.94,
                yerr=tuple(zip(*sizes, strict=True)) if any(sizes[0]) else None,
                error_kw=_ERROR,
                label=clean(each.name) if points[0] is each.points[0] else None,
                **_bar_look(shade, points[0]),
            )
        wide = width * 0.47
        under = [(places[point.x] + shift, ideal[point.x]) for point in each.points if point.x in ideal]
        if under:
            axes.hlines(
                [y for _, y in under],
                [x - wide for x, _ in under],
                [x + wide for x, _ in under],
                color=style.INK,
                linewidth=1.6,
                capstyle="projecting",
                zorder=5,
            )
        for point in each.points if labels else ():
            if point.label:
                shown = (chart_geometry.value_text(spec, point), ideal.get(point.x))
                bar = _Bar(0.94 * slot, shade, upright)
                _value_of_bar(axes, places[point.x] + shift, point, canvas, shown, bar=bar)
    if ideal and series:
        _name_of_ticks(axes, ideal, places, canvas, width * len(series) / 2)


@dataclass(frozen=True, slots=True)
class _Bar:
    """How wide the bars of a series are in points, their colour, and whether their values stand upright."""

    width: float
    shade: str
    upright: bool


def _alike(points: Sequence[Point]) -> list[list[Point]]:
    """The points of a series by how their bars look, so that each look is drawn at once."""
    found: dict[tuple[bool, ...], list[Point]] = {}
    for point in points:
        look = (point.hollow, point.live, any(chart_geometry.error_sizes(point)))
        found.setdefault(look, []).append(point)
    return list(found.values())


def _bar_look(shade: str, point: Point) -> dict[str, Any]:
    look: dict[str, Any] = {"facecolor": shade, "edgecolor": shade, "linewidth": 1.0}
    if point.hollow:
        look |= {"facecolor": style.PAPER, "linestyle": (0, (4, 2)), "linewidth": 1.4}
    if point.live:
        look |= {"hatch": "////", "facecolor": style.PAPER}
    return look


def _value_of_bar(
    axes: Any, x: float, point: Point, canvas: style.Canvas, shown: tuple[str, float | None], *, bar: _Bar
) -> None:
    """A value over its bar, clear of the error bar; inside it where the tick of the ideal stands over the bar."""
    text, ideal = shown
    low, high = chart_geometry.error_sizes(point)
    bottom, top = axes.get_ylim()
    per_point = (top - bottom) / (axes.get_position().height * canvas.height * 72)
    at, gap, size = point.y + high, 0.4 * canvas.text, canvas.small
    look: dict[str, Any] = {"va": "bottom", "color": style.INK, "bbox": _GROUND}
    length = style.text_width(text, size) if bar.upright else 1.2 * size
    if ideal is not None and at - 2 * per_point <= ideal <= at + (gap + length + 3) * per_point:
        inside = point.y - low - gap * per_point
        fitting = bar.width / (1.1 * style.text_width(text, size)) if not bar.upright else 1.0
        small = size * min(1.0, fitting)
        if ideal > at + 2 * per_point and fitting >= _LEAST_INSIDE and inside - length * per_point >= bottom:
            on = style.PAPER if point.hollow or point.live else bar.shade
            at, gap, size = point.y - low, -gap, small
            look = {"va": "top", "color": style.text_on(on), "bbox": None}
        else:
            at = max(at, ideal)
    axes.annotate(
        text,
        (x, at),
        xytext=(0, gap),
        textcoords="offset points",
        ha="center",
        rotation=90 if bar.upright else 0,
        size=size,
        zorder=6,
        **look,
    )


def _name_of_ticks(
    axes: Any, ideal: dict[float, float], places: dict[float, float], canvas: style.Canvas, half: float
) -> None:
    """The word for the ticks, left of the highest one."""
    x = max((each for each in ideal if each in places), default=None)
    if x is not None:
        axes.annotate(
            "ideal",
            (places[x] - half, ideal[x]),
            xytext=(-4, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            size=canvas.small,
            color=style.QUIET,
        )


def _stack(axes: Any, spec: ChartSpec, places: dict[float, float], canvas: style.Canvas) -> None:
    floor = dict.fromkeys(places, 0.0)
    top = chart_geometry.y_limits(spec)[1]
    for at, (each, shade) in enumerate(
        zip(chart_geometry.bar_series(spec), chart_geometry.colours(spec), strict=True)
    ):
        for point in each.points:
            error = chart_geometry.error_sizes(point) if at == 0 else (0.0, 0.0)
            axes.bar(
                places[point.x],
                point.y,
                0.52,
                bottom=floor[point.x],
                yerr=[[error[0]], [error[1]]] if max(error) > 0 else None,
                error_kw=_ERROR,
                label=clean(each.name) if point is each.points[0] else None,
                **_bar_look(shade, point),
            )
            middle = floor[point.x] + point.y / 2
            floor[point.x] += point.y
            if point.y * axes.get_position().height * canvas.height * 72 / top >= 1.1 * canvas.small:
                axes.text(
                    places[point.x],
                    middle,
                    chart_geometry.value_text(spec, point),
                    ha="center",
                    va="center",
                    size=canvas.small,
                    color=style.text_on(style.PAPER if point.hollow or point.live else shade),
                    weight="bold",
                )


# --------------------------------------------------------------------------- lines


def draw_lines(axes: Any, spec: ChartSpec, canvas: style.Canvas) -> None:
    """Lines with marks and error bars; names stand at the end of their line while there are few."""
    series = chart_geometry.bar_series(spec)
    for band in chart_geometry.band_series(spec):
        xs = [point.x for point in band.points]
        lows = [point.lo if point.lo is not None else point.y for point in band.points]
        highs = [point.hi if point.hi is not None else point.y for point in band.points]
        axes.fill_between(xs, lows, highs, color=style.FAINT, alpha=0.3, linewidth=0)
    for at, (each, shade) in enumerate(zip(series, chart_geometry.colours(spec), strict=True)):
        _line(axes, each, at, shade, small=max(len(one.points) for one in series) > 30)
    for curve in chart_geometry.curve_series(spec):
        dashed = curve.role == "ideal"
        axes.plot(
            [point.x for point in curve.points],
            [point.y for point in curve.points],
            color=chart_geometry.curve_colour(curve),
            linestyle=(0, (4, 2.5)) if dashed else (0, (1.5, 1.5)) if "ustafson" in curve.name else "solid",
            linewidth=1.3 if dashed else 1.6,
            zorder=2,
        )
    _line_limits(axes, spec, canvas)
    _names(axes, spec, series, canvas)
    _values(axes, spec, canvas)


def _values(axes: Any, spec: ChartSpec, canvas: style.Canvas) -> None:
    """Values beside their marks, where no line and no other text is."""
    frame, (left, right), (low, high) = axes.get_position(), axes.get_xlim(), axes.get_ylim()
    width, height = frame.width * canvas.width * 72, frame.height * canvas.height * 72
    view = chart_geometry.View(left, low, width / (right - left), height / (high - low), width, height)
    names = [text for text in axes.texts if text.get_gid() == _AT_END]
    taken = [_name_box(text, view, canvas.small) for text in names]
    for point, spot in chart_geometry.value_spots(
        spec, view, canvas.text, canvas.small / canvas.text, taken=taken
    ):
        axes.annotate(
            chart_geometry.value_text(spec, point),
            (point.x, point.y),
            xytext=(spot.dx, spot.dy),
            textcoords="offset points",
            ha="center",
            va="center",
            size=canvas.small,
            color=chart_geometry.value_colour(spec, point),
            zorder=6,
            bbox=_GROUND,
        )


def _name_box(text: Any, view: chart_geometry.View, size: float) -> Rect:
    """What a name beside a line covers, in points."""
    x, y = view.at(*text.xy)
    x, y = x + text.xyann[0], y + text.xyann[1]
    return Rect(x, y - 0.6 * size, x + style.text_width(text.get_text(), size, bold=True), y + 0.6 * size)


def _line(axes: Any, series: Series, at: int, shade: str, *, small: bool) -> None:
    mark = style.MARKS[at % len(style.MARKS)]
    points = sorted(series.points, key=lambda point: point.x)
    xs, ys = [point.x for point in points], [point.y for point in points]
    dash = style.DASHES[(at // len(style.SERIES)) % len(style.DASHES)]
    first = 1 if len(points) > 1 and points[0].hollow and not points[1].hollow else 0
    if first:  # the way from the first epoch is no measurement of the others
        axes.plot(xs[:2], ys[:2], color=shade, linestyle=(0, (4, 2)), linewidth=1.2, zorder=3)
    if len(points) - first > 1:
        look: dict[str, Any] = {"linestyle": dash, "linewidth": 1.2 if small else 1.8}
        axes.plot(xs[first:], ys[first:], color=shade, zorder=3, **look)
    if chart_geometry.has_errors(points) and not small:
        errors = [chart_geometry.error_sizes(point) for point in points]
        look = {**_ERROR, "ecolor": shade}
        axes.errorbar(xs, ys, yerr=list(zip(*errors, strict=True)), fmt="none", zorder=4, **look)
    elif chart_geometry.has_errors(points):
        lows, highs = zip(*(chart_geometry.error_sizes(point) for point in points), strict=True)
        axes.fill_between(
            xs,
            [y - low for y, low in zip(ys, lows, strict=True)],
            [y + high for y, high in zip(ys, highs, strict=True)],
            color=shade,
            alpha=0.15,
            linewidth=0,
        )
    for point in [each for each in points if each.hollow or each.live] if small else points:
        face = style.PAPER if point.hollow or point.live else shade
        size = 5.0 if small else 6.5
        look = {"marker": mark, "markersize": size, "mfc": face, "mec": shade, "mew": 1.6, "zorder": 5}
        axes.plot([point.x], [point.y], linestyle="none", **look)
        if point.live:
            axes.plot([point.x], [point.y], linestyle="none", marker=".", color=shade, markersize=4, zorder=6)


def _line_limits(axes: Any, spec: ChartSpec, canvas: style.Canvas) -> None:
    xs = [point.x for series in spec.series for point in series.points]
    left, right = min(xs), max(xs)
    span = (right - left) or 1.0
    axes.set_xlim(left - 0.07 * span, right + 0.07 * span)
    axes.set_ylim(*chart_geometry.y_limits(spec))
    if spec.x_ticks:
        ticks = _readable(spec.x_ticks, axes.get_position().width * canvas.width * 72 / canvas.text)
        axes.set_xticks([x for x, _ in ticks], [clean(name) for _, name in ticks])


def _readable(ticks: Sequence[tuple[float, str]], room: float) -> Sequence[tuple[float, str]]:
    """As many ticks as can stand beside each other in so many widths of a letter."""
    widest = max(len(name) for _, name in ticks) * 0.7 + 1.5
    step = max(1, -(-len(ticks) // max(1, int(room / widest))))
    return ticks[::step]


def _names(axes: Any, spec: ChartSpec, series: Sequence[Series], canvas: style.Canvas) -> None:
    """Names at the line ends, moved apart; a legend over the chart when there are many."""
    named = list(zip(series, chart_geometry.colours(spec), strict=True))
    curves = [
        (each, chart_geometry.curve_colour(each)) for each in chart_geometry.curve_series(spec) if each.points
    ]
    if len(named) + len(curves) <= 1:
        return
    right = max(point.x for each in spec.series for point in each.points)
    short = [(each, shade) for each, shade in named if _end(each).x < right]
    if len(named) > _MOST_NAMED_AT_END or len(short) > 1 or (short and not curves):
        _key(axes, named, canvas)
        return
    _make_room(axes, canvas, max(len(clean(each.name)) for each, _ in (*named, *curves)))
    for each, shade in short:
        _name(axes, each, shade, (_end(each).x, _end(each).y), canvas=canvas, shift=(0.6, -1.5))
    ends = [(each, shade) for each, shade in (*named, *curves) if (each, shade) not in short]
    ends.sort(key=lambda item: _end(item[0]).y)
    height = axes.get_position().height * canvas.height * 72
    low, high = axes.get_ylim()
    wanted = [(_end(each).y - low) / (high - low) * height for each, _ in ends]
    for (each, shade), at in zip(ends, chart_geometry.apart(wanted, canvas.text * 1.2, height), strict=True):
        _name(axes, each, shade, (right, low + at / height * (high - low)), canvas=canvas, shift=(0.9, 0.0))


def _make_room(axes: Any, canvas: style.Canvas, longest: int) -> None:
    """Narrow the axes so that names fit beside them."""
    room = 0.62 * canvas.text * min(24, longest) / 72
    box = axes.get_position()
    axes.set_position([box.x0, box.y0, box.width - room / canvas.width, box.height])


def _name(
    axes: Any,
    series: Series,
    shade: str,
    at: tuple[float, float],
    *,
    canvas: style.Canvas,
    shift: tuple[float, float],
) -> None:
    axes.annotate(
        _shortened(clean(series.name), 24),
        at,
        xytext=(canvas.text * shift[0], canvas.text * shift[1]),
        textcoords="offset points",
        va="center",
        size=canvas.small,
        color=shade,
        weight="bold" if series.role == "measured" else "normal",
        annotation_clip=False,
        gid=_AT_END,
    )


def _end(series: Series) -> Point:
    return max(series.points, key=lambda point: point.x)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _key(axes: Any, named: Sequence[tuple[Series, str]], canvas: style.Canvas) -> None:
    """A legend over the chart for many series, in as many columns as it is wide; it covers no data."""
    from matplotlib.lines import Line2D

    line: Any = Line2D
    handles = [
        line(
            [],
            [],
            color=shade,
            marker=style.MARKS[at % len(style.MARKS)],
            markersize=4.5,
            linestyle=style.DASHES[(at // len(style.SERIES)) % len(style.DASHES)],
            label=_shortened(clean(each.name), 34),
        )
        for at, (each, shade) in enumerate(named)
    ]
    box = axes.get_position()
    size = canvas.text * (0.85 if len(handles) <= 14 else 0.7)
    widest = max(style.text_width(handle.get_label(), size) for handle in handles) + 3.6 * size
    columns = max(1, min(len(handles), 4, int(box.width * canvas.width * 72 / widest)))
    room = -(-len(handles) // columns) * 1.45 * size / (canvas.height * 72)
    axes.set_position([box.x0, box.y0, box.width, max(box.height - room, box.height / 3)])
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=columns,
        frameon=False,
        fontsize=size,
        borderaxespad=0.2,
        borderpad=0.0,
        handlelength=1.8,
        columnspacing=1.2,
        labelspacing=0.3,
    )


def _legend(axes: Any, canvas: style.Canvas, *, columns: int) -> None:
    """A legend above the bars, outside the data."""
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=columns,
        frameon=False,
        fontsize=canvas.small,
        borderaxespad=0.2,
        handlelength=1.2,
        columnspacing=1.2,
    )


# --------------------------------------------------------------------------- strips


def draw_heat(axes: Any, spec: ChartSpec, canvas: style.Canvas) -> None:
    """A strip per GPU, dark where it was busy, with a scale beside it."""
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("busy", [style.PANEL, style.SERIES[0]])
    series = [each for each in spec.series if each.points]
    for at, each in enumerate(series):
        edges = _edges([point.x for point in each.points])
        values = [[point.y for point in each.points]]
        drawn = axes.pcolormesh(edges, [at - 0.42, at + 0.42], values, cmap=shades, vmin=0.0, vmax=1.0)
        drawn.set_edgecolor("face")
    axes.set_yticks(range(len(series)), [clean(each.name) for each in series])
    axes.set_ylim(len(series) - 0.5, -0.5)
    bar = axes.figure.colorbar(drawn, ax=axes, fraction=0.035, pad=0.02, ticks=[0, 0.5, 1])
    bar.ax.set_yticklabels(["0 %", "50 %", "100 %"], size=canvas.small)
    bar.outline.set_visible(False)


def _edges(xs: Sequence[float]) -> list[float]:
    """Where the cell of each moment begins and ends."""
    inner = [(one + other) / 2 for one, other in itertools.pairwise(xs)]
    first = xs[0] - (inner[0] - xs[0] if inner else 0.5)
    last = xs[-1] + (xs[-1] - inner[-1] if inner else 0.5)
    return [first, *inner, last]
