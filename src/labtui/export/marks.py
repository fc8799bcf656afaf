"""Bars, lines, bands and direct labels on matplotlib axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labtui.core.charts import ChartSpec, Point, Series, stacked
from labtui.core.results.numbers import clean
from labtui.export import measure, shape, style
from labtui.export.labels import Rect

_MOST_NAMED_AT_END = 5
_AT_END = "name"
_VALUE = 0.88
"""Size of a value in sizes of the text."""
_GROUND = {"boxstyle": "round,pad=0.08", "fc": style.PAPER, "ec": "none", "alpha": 0.75}
_ERROR = {"ecolor": style.INK, "elinewidth": 0.9, "capsize": 2.5, "capthick": 0.9}


# --------------------------------------------------------------------------- bars


def draw_bars(axes: Any, spec: ChartSpec, canvas: style.Canvas) -> None:
    """Grouped bars (stacked for parts of a whole), the ideal as a dashed line over them."""
    groups = shape.categories(spec)
    places = {x: float(at) for at, (x, _) in enumerate(groups)}
    series = shape.bar_series(spec)
    if stacked(spec):
        _stack(axes, series, places, canvas)
    else:
        _groups(axes, spec, series, places, canvas)
    for curve in shape.curve_series(spec):
        marks = [(places[point.x], point.y) for point in curve.points if point.x in places]
        _ideal_over_bars(axes, curve, marks, canvas)
    axes.set_xticks(list(places.values()), [clean(name) for _, name in groups])
    axes.set_xlim(-0.6, max(len(groups) - 0.4, 0.6))
    axes.set_ylim(*shape.y_limits(spec))
    if len(series) > 1:
        _legend(axes, canvas, columns=min(3, len(series)))


def _groups(
    axes: Any, spec: ChartSpec, series: Sequence[Series], places: dict[float, float], canvas: Any
) -> None:
    width = 0.52 if len(series) <= 1 else 0.78 / len(series)
    labels = shape.label_mode(spec) == "all"
    inside = shape.labels_in_bars(spec)
    axes.set_ylim(*shape.y_limits(spec))
    for at, each in enumerate(series):
        shift = (at - (len(series) - 1) / 2) * width
        for point in each.points:
            low, high = shape.error_sizes(point)
            axes.bar(
                places[point.x] + shift,
                point.y,
                width * 0.94,
                yerr=[[low], [high]] if low or high else None,
                error_kw=_ERROR,
                label=clean(each.name) if point is each.points[0] else None,
                **_bar_look(at, point),
            )
            if labels and point.label:
                _value_of_bar(axes, places[point.x] + shift, point, canvas, inside=inside)


def _bar_look(at: int, point: Point) -> dict[str, Any]:
    look: dict[str, Any] = {"facecolor": style.colour(at), "edgecolor": style.colour(at), "linewidth": 1.0}
    if point.hollow:
        look["facecolor"] = style.PAPER
    if point.live:
        look |= {"hatch": "////", "facecolor": style.PAPER}
    return look


def _value_of_bar(axes: Any, x: float, point: Point, canvas: style.Canvas, *, inside: bool) -> None:
    """A value over its bar, clear of the error bar; in the bar where a line would cross it."""
    low, high = shape.error_sizes(point)
    bottom, top = axes.get_ylim()
    height = axes.get_position().height * canvas.height * 72
    inside = inside and (point.y - low - bottom) / (top - bottom) * height > 2.0 * canvas.text
    light = inside and not point.hollow and not point.live
    axes.annotate(
        _said(point),
        (x, point.y - low if inside else point.y + high),
        xytext=(0, (-0.35 if inside else 0.45) * canvas.text),
        textcoords="offset points",
        ha="center",
        va="top" if inside else "bottom",
        size=canvas.text * _VALUE,
        color=style.PAPER if light else style.INK,
        weight="bold" if light else "normal",
        zorder=6,
        bbox=None if light else _GROUND,
    )


def _said(point: Point) -> str:
    return f"{clean(point.label)}{' live' if point.live else ''}"


def _stack(axes: Any, series: Sequence[Series], places: dict[float, float], canvas: style.Canvas) -> None:
    floor = dict.fromkeys(places, 0.0)
    for at, each in enumerate(series):
        for point in each.points:
            error = shape.error_sizes(point) if at == 0 else (0.0, 0.0)
            axes.bar(
                places[point.x],
                point.y,
                0.52,
                bottom=floor[point.x],
                yerr=[[error[0]], [error[1]]] if max(error) > 0 else None,
                error_kw=_ERROR,
                label=clean(each.name) if point is each.points[0] else None,
                **_bar_look(at, point),
            )
            middle = floor[point.x] + point.y / 2
            floor[point.x] += point.y
            if point.y >= 0.045:
                axes.text(
                    places[point.x],
                    middle,
                    clean(point.label),
                    ha="center",
                    va="center",
                    size=canvas.text * 0.85,
                    color=style.INK if point.hollow or point.live else style.PAPER,
                    weight="bold",
                )


def _ideal_over_bars(
    axes: Any, curve: Series, marks: list[tuple[float, float]], canvas: style.Canvas
) -> None:
    if not marks:
        return
    xs, ys = zip(*marks, strict=True)
    axes.plot(xs, ys, color=style.QUIET, linestyle=(0, (4, 2.5)), linewidth=1.3, zorder=4)
    axes.annotate(
        clean(curve.name),
        (xs[-1], ys[-1]),
        xytext=(-canvas.text * 0.4, canvas.text * 0.2),
        textcoords="offset points",
        ha="right",
        va="bottom",
        size=canvas.text * 0.88,
        color=style.QUIET,
    )


# --------------------------------------------------------------------------- lines


def draw_lines(axes: Any, spec: ChartSpec, canvas: style.Canvas) -> None:
    """Lines with marks and error bars; names stand at the end of their line while there are few."""
    series = shape.bar_series(spec)
    for band in shape.band_series(spec):
        xs = [point.x for point in band.points]
        lows = [point.lo if point.lo is not None else point.y for point in band.points]
        highs = [point.hi if point.hi is not None else point.y for point in band.points]
        axes.fill_between(xs, lows, highs, color=style.SERIES[5], alpha=0.28, linewidth=0)
    for at, each in enumerate(series):
        _line(axes, each, at, small=max(len(one.points) for one in series) > 30)
    for curve in shape.curve_series(spec):
        dashed = curve.role == "ideal"
        axes.plot(
            [point.x for point in curve.points],
            [point.y for point in curve.points],
            color=style.QUIET if dashed else style.SERIES[5],
            linestyle=(0, (4, 2.5)) if dashed else "solid",
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
    view = shape.View(left, low, width / (right - left), height / (high - low), width, height)
    names = [text for text in axes.texts if text.get_gid() == _AT_END]
    taken = [_name_box(text, view, canvas.text * _VALUE) for text in names]
    for point, spot in shape.value_spots(spec, view, canvas.text, _VALUE, taken=taken):
        axes.annotate(
            _said(point),
            (point.x, point.y),
            xytext=(spot.dx, spot.dy),
            textcoords="offset points",
            ha="center",
            va="center",
            size=canvas.text * _VALUE,
            color=shape.value_colour(shape.bar_series(spec), point),
            zorder=6,
            bbox=_GROUND,
        )


def _name_box(text: Any, view: shape.View, size: float) -> Rect:
    """What a name beside a line covers, in points."""
    x, y = view.at(*text.xy)
    x, y = x + text.xyann[0], y + text.xyann[1]
    return Rect(x, y - 0.6 * size, x + measure.width(text.get_text(), size, bold=True), y + 0.6 * size)


def _line(axes: Any, series: Series, at: int, *, small: bool) -> None:
    shade, mark = style.colour(at), style.MARKS[at % len(style.MARKS)]
    points = sorted(series.points, key=lambda point: point.x)
    xs, ys = [point.x for point in points], [point.y for point in points]
    dash = style.DASHES[(at // len(style.SERIES)) % len(style.DASHES)]
    if len(points) > 1:
        axes.plot(xs, ys, color=shade, linestyle=dash, linewidth=1.2 if small else 1.8, zorder=3)
    if shape.has_errors(points) and not small:
        errors = [shape.error_sizes(point) for point in points]
        look = {**_ERROR, "ecolor": shade}
        axes.errorbar(xs, ys, yerr=list(zip(*errors, strict=True)), fmt="none", zorder=4, **look)
    elif shape.has_errors(points):
        lows, highs = zip(*(shape.error_sizes(point) for point in points), strict=True)
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
    axes.set_ylim(*shape.y_limits(spec))
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
    named = [(each, style.colour(at)) for at, each in enumerate(series)]
    curves = [
        (each, style.QUIET if each.role == "ideal" else "#2b7fb8")
        for each in shape.curve_series(spec)
        if each.points
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
    for (each, shade), at in zip(ends, _apart(wanted, canvas.text * 1.2, height), strict=True):
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
        size=canvas.text * 0.88,
        color=shade,
        weight="bold" if series.role == "measured" else "normal",
        annotation_clip=False,
        gid=_AT_END,
    )


def _end(series: Series) -> Point:
    return max(series.points, key=lambda point: point.x)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _apart(wanted: Sequence[float], gap: float, height: float) -> list[float]:
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


def _key(axes: Any, named: Sequence[tuple[Series, str]], canvas: style.Canvas) -> None:
    """A legend over the chart for many series, in as many columns as it is wide; it covers no data."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
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
    widest = max(measure.width(handle.get_label(), size) for handle in handles) + 3.6 * size
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
        fontsize=canvas.text * 0.85,
        borderaxespad=0.2,
        handlelength=1.2,
        columnspacing=1.2,
    )
