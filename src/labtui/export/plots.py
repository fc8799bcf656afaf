"""Draws a `ChartSpec` with Matplotlib: the pictures in plots/, on the slides and in the report.

Matplotlib's constrained layout makes room for every text; only labels at line ends are moved apart here. A figure holds
one to four charts. Too many lines become panels of one scale; each shows all other lines in grey.
"""

from __future__ import annotations

import functools
import io
import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec.structs import replace

from labtui.domain.terminal_text import joined
from labtui.export import drawing
from labtui.export.drawing import DASHES, bounds
from labtui.results import charts
from labtui.results.charts import ChartSpec, Point, Series, has_bar, line_pieces, looks, spread, value_text
from labtui.results.numbers import clean, tick_texts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Format = Literal["png", "svg", "pdf"]
WIDTH, HEIGHT, TITLE = 13.333, 7.5, 26.0
"""The size of a plot in inches, and of its title in points."""


def pictures(spec: ChartSpec, formats: Iterable[Format] = ("png",), stamp: str = "") -> dict[Format, bytes]:
    """A plot with the message as its title, in each format; the same data gives the same bytes."""
    with drawing.chart_style():
        # a title that only says what is drawn stands there once
        shown = spec if spec.message else replace(spec, heading=spec.y_label[:1].upper() + spec.y_label[1:])
        figure = figure_of([charts.without_repeats(drawing.with_start(shown))], WIDTH, HEIGHT)
        place: Any = {"x": 0.015, "ha": "left"}
        title = _wrap(clean(spec.message or spec.title), WIDTH, TITLE, 2)
        figure.suptitle(title, size=TITLE, weight="bold", **place)
        note, room = "", WIDTH - (3.2 if spec.mark else 0)
        for each in dict.fromkeys(map(clean, spec.captions)):  # only whole notes
            longer = _wrap(f"{note} {each}".strip(), room, 14, 6)
            note = longer if longer.count("\n") < 5 else note
        figure.supxlabel(note or " ", size=14, color=drawing.AXIS, **place)
        mark = drawing.PRACTICE_LINE if spec.mark else ""
        figure.text(0.985, 0.012, mark, ha="right", color=drawing.PRACTICE, size=14)
        return _saved(figure, formats, spec.key, stamp)


def _wrap(text: str, width: float, size: float, lines: int) -> str:
    return "\n".join(textwrap.wrap(joined(text), int((width - 0.4) * 72 / size / 0.47))[:lines])


@functools.lru_cache(maxsize=32)
def chart_picture(specs: Sequence[ChartSpec], width: float, height: float) -> bytes:
    """The charts as an SVG for a page, sizes in inches; its text stays text.

    Slides and report show most charts in one size.
    """
    with drawing.chart_style(outlines=False):
        return _saved(figure_of(specs, width, height), ("svg",))["svg"]


def _saved(figure: Any, formats: Iterable[Format], key: str = "", stamp: str = "") -> dict[Format, bytes]:
    """The picture in each format, with the chart's key and the stamp in its metadata.

    It is drawn as an SVG, by the renderer that has measured its texts for the layout.
    """
    from matplotlib.backends.backend_svg import RendererSVG

    about = {name: text for name, text in {"Title": key, "Description": stamp}.items() if text}
    stream, copy, draw = io.StringIO(), io.BytesIO(), cast("Any", RendererSVG)
    renderer = draw(*figure.bbox.size, stream, metadata={"Date": None, "Creator": "labtui", **about})
    figure.canvas.get_renderer = lambda: renderer
    place_labels(figure)
    figure.draw(renderer)
    renderer.finalize()
    made: dict[Format, bytes] = {"svg": stream.getvalue().encode()}
    if "png" in formats:
        made["png"] = drawing.png(stream.getvalue(), about)
    if "pdf" in formats:
        figure.savefig(copy, format="pdf", metadata={"CreationDate": None, "Title": key, "Subject": stamp})
        made["pdf"] = copy.getvalue()
    return {name: made[name] for name in formats}


def place_labels(figure: Any) -> None:
    """Lay the figure out once, then move the labels at line ends apart."""
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine(None)  # else saving would lay it out again
    for axes in figure.axes:
        drawing.thin_ticks(axes)
        spread_names(axes)


def figure_of(specs: Sequence[ChartSpec], width: float, height: float) -> Any:
    """A figure of one chart, or of several side by side; sizes in inches."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(width, height), dpi=72, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.08, wspace=0.03)
    ratios = drawing.widths(specs) if len(specs) > 1 else [1.0]
    places = figure.subfigures(1, len(specs), squeeze=False, width_ratios=ratios)
    for spec, place in zip(specs, places.flat, strict=True):
        if len(parts := drawing.split_lines(spec)) > 1:
            _draw_panels(place, spec, parts)
        else:
            _draw(place.subplots(), spec, named=drawing.shows_names(spec, specs[0]))
    return figure


def _draw_panels(part: Any, spec: ChartSpec, parts: Sequence[ChartSpec]) -> None:
    """Draw the panels of a chart, all on one scale."""
    rows = drawing.rows_of(parts)
    columns = math.ceil(len(parts) / rows)
    grid = part.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    part.suptitle(clean(spec.y_title), x=0.012, ha="left", weight="bold")
    for axes in grid.flat[len(parts) :]:
        axes.set_axis_off()
    for axes, each in zip(grid.flat, parts, strict=False):
        # an option and its value stay on one line
        heading = re.sub(r"(?<=[^\W\d]) (?=\d)", "\u00a0", joined(clean(each.heading)))
        name = "\n".join(textwrap.wrap(heading, 75 // columns + 6)[:4])
        axes.set_title(name, size=drawing.TEXT_SIZE, pad=22)  # a number may stand above the first mark
        draw_lines(axes, each, named=drawing.names_panel(each, parts))
        axes.grid(visible=True, axis="y")
    style_axes(grid[0][0], parts[0])
    grid[0][0].set_xlabel("")
    grid[-1][0].set_xlabel(clean(spec.x_title))


def _draw(axes: Axes, spec: ChartSpec, *, named: bool) -> None:
    axes.set_title(clean(spec.y_title))
    if spec.kind == "stacked":
        draw_lost(axes, spec)
    elif spec.kind == "repeats":
        draw_repeats(axes, spec)
    elif spec.kind == "bars" and spec.x_axis == "names":
        draw_rows(axes, spec)
    elif spec.kind == "bars":
        draw_bars(axes, spec, named=named)
    else:
        draw_lines(axes, spec, named=named)
        style_axes(axes, spec)


# --------------------------------------------------------------------------- lines


def draw_lines(axes: Axes, spec: ChartSpec, *, named: bool) -> None:
    """Draw lines, and their names and numbers where these have room."""
    lines = spec.measured
    seen, grey = looks(lines), {"color": drawing.AXIS, "lw": 1.7, "zorder": 2}
    ends = drawing.end_texts(spec, named=named)
    for series in spec.series:
        if not series.is_run and series.points:
            law = series.law.law if series.law else ""
            look: Any = {**grey, "ls": DASHES.get(law, "dashed"), "gid": law, "label": series.short}
            axes.plot(*_path(series.points), **look)
            name_line(axes, series, ends.get(series.name, ""), drawing.AXIS, bold=False)
    others = (piece for each in spec.series if each.role == "other" for piece in line_pieces(spec, each))
    axes.plot(*_path(*others), color=drawing.OTHER, lw=1.2, zorder=1)
    tall = any(has_bar(spec, point) for each in lines for point in each.points)
    widest = tall * (len(lines) - 1) * 0.03  # texts stand beyond the error bars
    for at, series in enumerate(drawing.layers(spec)):
        look, text = seen[series.name], ends.get(series.name, "")
        _draw_line(axes, spec, series, look, at * 0.06 - widest)
        *before, last = series.points
        beyond = replace(series, points=(*before, replace(last, x=_shifted(spec, last.x, widest))))
        name_line(axes, beyond, text, drawing.SERIES[look.hue], bold=named)
        for point, number, x, y in drawing.mark_numbers(spec, series):
            beside = _shifted(spec, point.x, x * widest)
            axes.annotate(
                number, (beside, point.y), (9 * x, 6 * y), textcoords="offset points", zorder=6,
                color=drawing.SERIES[look.hue], path_effects=_halo(),
                ha="right" if x < 0 else "left", va=("center", "bottom", "top")[y],
            )  # fmt: skip


def _halo() -> list[Any]:
    """A white halo that keeps a text legible in front of lines."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=4, foreground="white")]


def _path(*pieces: Sequence[Point]) -> tuple[list[float], list[float]]:
    """The coordinates of several lines as one line broken by NaN, which is drawn faster."""
    gap = (math.nan, math.nan)
    places = [place for piece in pieces for place in (*((p.x, p.y) for p in piece), gap)]
    return [x for x, _ in places], [y for _, y in places]


def _shifted(spec: ChartSpec, x: float, shift: float) -> float:
    """Where the error bar of a line stands that is `shift` beside others."""
    return x * 2 ** (shift / 2) if spec.x_log else x + shift


def _draw_line(axes: Axes, spec: ChartSpec, series: Series, look: charts.Look, shift: float) -> None:
    colour, marked = drawing.shade(look), len(series.points) <= drawing.MAX_MARKED
    sign = drawing.MARKS[look.mark % len(drawing.MARKS)]
    wide, size = drawing.line_sizes(series)
    mark: Any = {"marker": sign if marked else None, "mec": "white", "mew": 1.2, "ms": size}
    path, name = _path(*line_pieces(spec, series)), clean(series.short or series.name)
    axes.plot(*path, color=colour, zorder=4, lw=wide, label=name, clip_on=spec.family == "error", **mark)
    hollow = [p for p in series.points if p.hollow or (p.live and not spec.over_time)]
    axes.plot(*_path(hollow), sign, mfc="white", mec=colour, mew=2, ms=size, zorder=4, clip_on=False)
    for point in series.points:
        if has_bar(spec, point):
            x, ends = _shifted(spec, point.x, shift), [[each] for each in bounds(point)]
            axes.errorbar(x, point.y, ends, color=colour, capsize=4, lw=1.8, zorder=3)


def name_line(axes: Axes, series: Series, text: str, colour: str, *, bold: bool) -> None:
    """Put a label at the line's end, a little below if the line rises, else above; `spread_names` moves it."""
    last, aside = series.points[-1], (10, 12 * drawing.free_side(series))
    if text:
        axes.annotate(
            text, (last.x, last.y), aside, textcoords="offset points", zorder=6, gid="name", path_effects=_halo(),
            color=colour, va="center", weight="bold" if bold else "normal", annotation_clip=False,
        )  # fmt: skip


def spread_names(axes: Any) -> None:
    """Move names apart that would touch, with thin leader lines where they move far."""
    names: list[Any] = [text for text in axes.texts if text.get_gid() == "name"]
    if not names:
        return
    scale = axes.figure.dpi / 72
    points = [axes.transData.transform(name.xy) / scale for name in names]
    boxes = [name.get_window_extent() for name in names]
    farthest, height = max(x for x, _ in points), max(box.height for box in boxes) / scale
    lowest = axes.get_window_extent().y0 / scale + height / 2
    # a line that ends well before the others has its name at its own end if it fits there
    pairs = zip(points, boxes, strict=True)
    ends = [x if farthest - x > box.width / scale + 20 else farthest for (x, _), box in pairs]
    aims = zip(points, names, ends, strict=True)
    beside = [y + name.get_position()[1] * (end < farthest) for (_, y), name, end in aims]
    for end in set(ends):
        mine = [at for at, each in enumerate(ends) if each == end]
        for at, place in zip(mine, spread([beside[at] for at in mine], height * 1.04, lowest), strict=True):
            _move_name(axes, names[at], 10 + end - points[at][0], place - points[at][1], height)


def _move_name(axes: Any, name: Any, x: float, y: float, height: float) -> None:
    """Put a name at this offset (in points) from its mark, off all laws, with a leader line if it is far away."""
    laws = [each.get_path().transformed(axes.transData) for each in axes.lines if each.get_gid() in DASHES]
    name.set_position((x, y))
    while any(law.intersects_bbox(name.get_window_extent(), filled=False) for law in laws):
        y += math.copysign(2, y)
        name.set_position((x, y))
    if abs(y) > height:
        axes.annotate(
            "", name.xy, (x - 1, y), textcoords="offset points", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": name.get_color(), "lw": 0.8, "shrinkA": 0, "shrinkB": 5},
        )  # fmt: skip


def style_axes(axes: Axes, spec: ChartSpec) -> None:
    """Set limits, scales and ticks of the axes of lines; no y axis where every mark has its number and y begins at 0.

    Panels share their axes, so one call sets those of all.
    """
    from matplotlib.ticker import NullLocator

    xs = [p.x for s in spec.series if s.role != "fit" for p in s.points]
    axes.set(xscale="log" if spec.x_log else "linear", yscale="log" if spec.y_log else "linear")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    ticks = drawing.x_ticks(spec, xs)
    axes.set_xticks([x for x, _ in ticks], [label for _, label in ticks])
    axes.set_xlabel(clean(spec.x_title))
    axes.set_ylim(*drawing.y_limits(spec))
    if spec.x_log:
        axes.set_xlim(min(xs) * 0.84, max(xs) * 1.12)
    else:
        margin = (max(xs) - min(xs)) * (0.02 if spec.over_time else 0.12) or 0.5
        axes.set_xlim(min(xs) - margin, max(xs) + margin * 0.6)
    if drawing.has_numbers(spec) and not spec.percent:
        axes.yaxis.set_major_locator(NullLocator())
        return
    steps = drawing.y_steps(spec)
    texts = tick_texts(steps, percent=spec.percent)
    axes.set_yticks(steps, [text + drawing.UNITS.get(spec.unit, "") for text in texts])
    axes.grid(visible=True, axis="y")


# --------------------------------------------------------------------------- bars

_ERROR: dict[str, Any] = {"color": drawing.TEXT, "capsize": 4, "lw": 1.4}


def draw_bars(axes: Axes, spec: ChartSpec, *, named: bool) -> None:
    """Draw bars side by side with their values on top, and the ideal as a dashed step over each group."""
    lines, seen = spec.measured, looks(spec.measured)
    counts = {x: at for at, (x, _) in enumerate(spec.x_ticks)}
    ideal = [each for each in spec.series if each.role == "ideal" and each.points]
    width, crowded = 0.8 / max(1, len(lines)), len(counts) * len(lines) > 9
    ends, edge = drawing.bar_ends(spec, named=named), len(counts) - 0.56
    for at, series in enumerate(lines):
        points, colour = series.points, drawing.shade(seen[series.name])
        xs = [counts[p.x] + (at - (len(lines) - 1) / 2) * width for p in points]
        bars = axes.bar(xs, [p.y for p in points], width * 0.94, color=colour)
        bars.set_label(clean(series.short or series.name))
        # Where there is an ideal, its dashes are at or above the bars, so the numbers go inside the bars.
        place: Any = {"padding": -19, "color": "white", "weight": "bold"}
        if not ideal:
            place = {"padding": 3, "color": drawing.TEXT, "path_effects": _halo()}
        labels = [value_text(spec, p).removesuffix("×") for p in points]
        if series.name in ends:
            labels[-1] = ""
            end = replace(series, points=(replace(points[-1], x=edge),))
            name_line(axes, end, ends[series.name], drawing.SERIES[seen[series.name].hue], bold=True)
        numbers = axes.bar_label(bars, labels, zorder=6, size=14 if crowded else None, **place)
        for x, bar, number, point in zip(xs, bars, numbers, points, strict=True):
            if point.hollow or point.live:
                bar.set(facecolor="white", edgecolor=colour, hatch="//" if point.live else None)
                number.set_color(drawing.TEXT)
            if has_bar(spec, point):  # its number stands beyond the end of its error bar
                low, high = bounds(point)
                axes.errorbar(x, point.y, [[low], [high]], **_ERROR)
                number.xy = (number.xy[0], max(point.y - low, point.y / 2) if ideal else point.y + high)
    for series in ideal:
        xs, ys = [counts[p.x] for p in series.points], [p.y for p in series.points]
        axes.hlines(ys, [x - 0.44 for x in xs], [x + 0.44 for x in xs], drawing.AXIS, "--", lw=1.7, zorder=5)
        end = replace(series, points=(Point(x=edge, y=ys[-1]),))
        name_line(axes, end, "ideal", drawing.AXIS, bold=False)
    axes.set_xticks(range(len(counts)), [clean(label) for _, label in spec.x_ticks])
    axes.set_xlabel(clean(spec.x_label))
    ys = [p.y + bounds(p)[1] for s in spec.series for p in s.points]
    axes.set_ylim(min(0.0, *ys), max(ys) * 1.12)
    axes.set_yticks([])
    if named and len(lines) > 1 and not ends:
        _legend(axes, len(lines))


def _legend(axes: Axes, count: int) -> None:
    """Put a legend above the axes, and the chart's heading above it."""
    close: Any = {"handlelength": 0.8, "handletextpad": 0.4, "columnspacing": 1.0, "borderaxespad": 0.1}
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=count, frameon=False, **close)
    axes.set_title(axes.get_title(loc="left"), pad=36)


def _set_rows(axes: Axes, names: list[str]) -> None:
    """Label the rows with their names, the first at the top."""
    axes.set_yticks(range(len(names)), names, color=drawing.TEXT)
    axes.invert_yaxis()


def draw_rows(axes: Axes, spec: ChartSpec) -> None:
    """Draw named bars as rows: the name at the left, the value at the right, the best bar in colour."""
    best = drawing.best_bar(spec)
    for series in spec.measured:
        points = series.points
        shades = [drawing.SERIES[0] if p is best else drawing.OTHER for p in points]
        axes.barh([p.x for p in points], [p.y for p in points], 0.62, color=shades)
        for point in points:
            end = point.y + bounds(point)[1] * has_bar(spec, point)
            if has_bar(spec, point):
                axes.errorbar(point.y, point.x, xerr=[[each] for each in bounds(point)], **_ERROR)
            text, at = value_text(spec, point) + ", so far" * point.live, (end, point.x)
            axes.annotate(text, at, (7, 0), textcoords="offset points", va="center")
    _set_rows(axes, ["\n".join(textwrap.wrap(joined(clean(label)), 30)[:3]) for _, label in spec.x_ticks])
    reach = [p.y + bounds(p)[1] * has_bar(spec, p) for s in spec.measured for p in s.points]
    axes.set_xlim(0, 1.12 * max(reach))
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)


def draw_repeats(axes: Axes, spec: ChartSpec) -> None:
    """Draw a long bar, and below it as many of the short bar as fit into it, to make the factor visible."""
    long, short = sorted(spec.measured[0].points, key=lambda point: -point.y)[:2]
    whole = int(long.y // short.y)
    bars = axes.barh(0, long.y, 0.56, color=drawing.OTHER)
    axes.bar_label(bars, ["1 epoch"], label_type="center", weight="bold")
    starts = [short.y * number for number in range(whole)]
    bars = axes.barh([1] * whole, short.y, 0.56, starts, color=drawing.SERIES[0], edgecolor="white", lw=2)
    counted = range(1, whole + 1) if whole <= 25 else range(10, whole + 1, 10)  # each where there is room
    labels = [str(number) if number in counted else "" for number in range(1, whole + 1)]
    axes.bar_label(bars, labels, label_type="center", color="white", weight="bold")
    axes.barh(1, long.y - whole * short.y, 0.56, whole * short.y, color=drawing.SERIES[0], alpha=0.55)
    told = [(clean(dict(spec.x_ticks).get(p.x, "")), p.label, ", so far" * p.live) for p in (long, short)]
    _set_rows(axes, [f"{name}: {label} {spec.unit}\nper epoch{live}" for name, label, live in told])
    axes.set_xlim(0, long.y * 1.02)
    axes.set_xlabel("seconds")


def draw_lost(axes: Axes, spec: ChartSpec) -> None:
    """Draw what was lost of 100 %, a row for each number of GPUs: parts with their numbers."""
    parts = [series for series in spec.measured if series.part == "lost"]
    left = dict.fromkeys((x for x, _ in spec.x_ticks), 0.0)
    rows, reach = {x: row for row, x in enumerate(left)}, [0.0, 1.0]  # how far bounds reach
    for order, part in enumerate(parts):
        ink = "white" if part.colour in drawing.DARK_PARTS else drawing.TEXT
        labels = list(map(drawing.part_text, part.points))
        at, starts, wide = zip(*((rows[p.x], left[p.x], 100 * p.y) for p in part.points), strict=True)
        bars = axes.barh(at, wide, 0.55, starts, color=drawing.PARTS[part.colour], edgecolor="white", lw=2)
        bars.set_label(clean(part.name))
        axes.bar_label(bars, labels, label_type="center", weight="bold", color=ink)
        for point in part.points:
            if point.lo is not None and point.hi is not None and point.hi - point.lo > 0.01:
                ends = [left[point.x] + 100 * point.lo, left[point.x] + 100 * point.hi]
                below = [rows[point.x] + 0.33 + 0.04 * order] * 2
                axes.plot(ends, below, "|-", color=drawing.TEXT, lw=1.6, ms=7)
                reach += ends
            left[point.x] += 100 * point.y
    _set_rows(axes, [name for _, name in drawing.row_names(spec)])
    axes.set_xlim(1.02 * min(*reach, *left.values()), 1.02 * max(*reach, *left.values()))
    axes.set_xlabel("points of efficiency" + "; the line below a part: its bounds" * (len(reach) > 2))
    _legend(axes, min(3, len(parts)))
    axes.set_title("")
