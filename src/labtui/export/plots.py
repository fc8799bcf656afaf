"""A `ChartSpec` drawn with matplotlib: the pictures of plots/, of the slides and of the report.

matplotlib's constrained layout makes the room for every text; only labels at line ends are moved apart here. One to
four charts share a figure; more than `MAX_LINES` lines become panels of one scale, the others of each in grey.
"""

from __future__ import annotations

import io
import itertools
import math
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from labtui.cluster.local_files import write_whole
from labtui.export import style
from labtui.results.charts import ChartSpec, Point, Series, series_hues, spread, unbroken
from labtui.results.numbers import clean, tick_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Format = Literal["png", "svg", "pdf"]
Size = Literal["wide", "half"]
FORMATS: tuple[Format, ...] = ("png", "svg", "pdf")
SIZES: dict[Size, tuple[float, float, float]] = {"wide": (13.333, 7.5, 26.0), "half": (6.667, 4.8, 17.0)}
"""Width and height of a plot in inches, and the size of its title in points."""
DPI = 120
MAX_LINES = 4
TEXT = 15.0
_MARKS_UP_TO = 14
"""Lines of more points than this have no marks."""


@contextmanager
def look(text: float = TEXT, *, outlines: bool = True) -> Iterator[None]:
    """Matplotlib's settings for our pictures; without `outlines` letters of an SVG stay letters."""
    import matplotlib as mpl
    from matplotlib.font_manager import fontManager

    known = {font.name for font in fontManager.ttflist}
    if style.FONT not in known:
        for path in style.font_files():
            fontManager.addfont(str(path))
    settings: dict[str, Any] = {
        "font.family": [style.FONT, "DejaVu Sans"], "font.size": text, "text.parse_math": False,
        "text.color": style.TEXT, "axes.labelcolor": style.AXIS, "axes.edgecolor": style.AXIS,
        "xtick.color": style.AXIS, "ytick.color": style.AXIS, "axes.titlelocation": "left",
        "axes.titlesize": text * 17 / 15, "axes.titleweight": "bold", "axes.titlepad": 14, "axes.axisbelow": True,
        "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False, "grid.color": style.GRID,
        "ytick.major.size": 0, "xtick.major.size": 4, "lines.linewidth": 2.6, "lines.markersize": 8,
        "hatch.color": "white", "svg.hashsalt": "labtui", "svg.fonttype": "path" if outlines else "none",
        "pdf.fonttype": 42,
    }  # fmt: skip
    with mpl.rc_context(cast("Any", settings)), warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # a glyph no typeface has is drawn as a box and said in words elsewhere
        yield


def pictures(
    specs: Sequence[ChartSpec], formats: Iterable[Format] = ("png",), *, size: Size = "wide", stamp: str = ""
) -> dict[Format, bytes]:
    """Plots with the message as their title, by format; the same bytes for the same data."""
    width, height, title_size = SIZES[size]
    with look():
        figure = figure_of(specs, width, height)
        wide = int((width - 0.4) * 72 / title_size / 0.47)
        message = clean(next((spec.message for spec in specs if spec.message), specs[0].title))
        lines = textwrap.wrap(message, wide)[:2]
        figure.suptitle("\n".join(lines), x=0.015, ha="left", size=title_size, weight="bold")
        practice = any(spec.practice for spec in specs)
        room = int((width - 0.4) * 72 / 14 / 0.47) - (34 if practice else 0)
        notes = dict.fromkeys(clean(note) for spec in specs for note in spec.notes)
        figure.supxlabel(
            "\n".join(textwrap.wrap(" ".join(notes), room)[:3]) or " ",
            x=0.015, ha="left", size=14, color=style.AXIS,
        )  # fmt: skip
        if practice:
            figure.text(0.985, 0.012, style.PRACTICE_MARK, ha="right", color=style.PRACTICE, size=14)
        place_labels(figure)
        return {name: _saved(figure, name, stamp) for name in formats}


def slide_picture(
    specs: Sequence[ChartSpec], width: float, height: float, *, text: float = TEXT, form: Format = "svg"
) -> bytes:
    """The charts for a place on a page, `width` x `height` in points at their true size; letters stay letters."""
    with look(text, outlines=False):
        figure = figure_of(specs, width / 72, height / 72)
        place_labels(figure)
        return _saved(figure, form, "")


def _saved(figure: Figure, name: str, stamp: str) -> bytes:
    stream = io.BytesIO()
    plain: dict[str, dict[str, Any]] = {
        "png": {"Software": None, "Description": stamp or None},
        "svg": {"Date": None, "Creator": "labtui", "Description": stamp or None},
        "pdf": {
            "CreationDate": None,
            "ModDate": None,
            "Producer": "labtui",
            "Creator": "labtui",
            "Subject": stamp,
        },
    }
    pillow: dict[str, Any] = {"pil_kwargs": {"compress_level": 4}} if name == "png" else {}
    figure.savefig(stream, format=name, dpi=DPI, metadata=plain[name], **pillow)
    return stream.getvalue()


def place_labels(figure: Figure) -> None:
    """Lay the figure out once, then move the labels at line ends apart."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        _spread_names(axes)


def figure_of(specs: Sequence[ChartSpec], width: float, height: float) -> Any:
    """The figure of one to four charts; sizes in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.08, wspace=0.03)
    panelled = [panels(spec) for spec in specs]
    if len(specs) == 1:
        parts: list[Any] = [figure.subfigures(1, 1)]
    elif any(len(each) > 1 for each in panelled):
        parts = list(figure.subfigures(len(specs), 1))
    else:
        parts = list(figure.subfigures(1, len(specs), width_ratios=[1.35, *[1.0] * (len(specs) - 1)]))
    for place, (spec, part, groups) in enumerate(zip(specs, parts, panelled, strict=True)):
        if len(groups) > 1:
            _draw_panels(part, spec, groups)
        else:
            shared = len(specs) > 1
            draw(
                part.subplots(),
                spec,
                heading=True,
                names=place == 0 or not _alike(spec, specs[0]),
                small=shared,
            )
    return figure


def _alike(one: ChartSpec, other: ChartSpec) -> bool:
    return one.kind == other.kind and [s.name for s in one.measured] == [s.name for s in other.measured]


def panels(spec: ChartSpec) -> list[tuple[str, list[Series]]]:
    """The lines of each panel with its heading; one panel for a chart that can be read as it is."""
    lines = list(spec.measured)
    if spec.kind != "lines" or len(lines) <= MAX_LINES:
        return [("", lines)]
    groups: dict[str, list[Series]] = {}
    for series in lines:
        groups.setdefault(series.group or series.short or series.name, []).append(series)
    return list(groups.items()) if 1 < len(groups) <= 12 else [("", lines)]


def _draw_panels(part: Any, spec: ChartSpec, groups: Sequence[tuple[str, list[Series]]]) -> None:
    """One panel for each group of one shared scale: its lines in colour, all others in grey."""
    columns = len(groups) if len(groups) <= 5 else math.ceil(len(groups) / 2)
    rows = math.ceil(len(groups) / columns)
    grid = part.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    part.suptitle(clean(spec.heading or spec.title), x=0.012, ha="left", weight="bold")
    for at, axes in enumerate(grid.flat):
        if at >= len(groups):
            axes.set_axis_off()
            continue
        name, mine = groups[at]
        for series in spec.measured:
            if series not in mine:
                for piece in unbroken(spec, series):
                    axes.plot([p.x for p in piece], [p.y for p in piece], color=style.OTHER, lw=1.2, zorder=1)
        _ideal(axes, spec, named=False)
        for place, series in enumerate(mine):
            colour = style.SERIES[place % len(style.SERIES)]
            _line(axes, spec, series, colour, style.MARKS[place % len(style.MARKS)])
            label = _value(spec, series.points[-1])
            short = series.short if len(mine) > 1 else ""
            _name(axes, series, f"{label} {short}".strip() if len(mine) < 4 else short or label, colour)
        axes.set_title("\n".join(textwrap.wrap(clean(name), 150 // columns // 2 + 6)[:2]), size=TEXT)
        _axes(axes, spec, labelled=False, shared=at > 0, most=3)
        axes.tick_params(labelleft=at % columns == 0)
        axes.set_xlabel(clean(spec.x_label) if at == (rows - 1) * columns else "")


def draw(axes: Axes, spec: ChartSpec, *, heading: bool, names: bool = True, small: bool = False) -> None:
    """One chart into its axes."""
    if heading:
        axes.set_title(clean(spec.heading or spec.title))
    if spec.kind == "stacked" or any(series.part for series in spec.series):
        _lost(axes, spec)
    elif spec.kind == "repeats":
        _repeats(axes, spec)
    elif spec.kind == "bars":
        (_rows if spec.x_axis == "names" else _bars)(axes, spec, names=names)
    else:
        _lines(axes, spec, names=names, small=small)


def colours(spec: ChartSpec) -> dict[str, tuple[str, str]]:
    """Colour and mark of each measured series, by name: a network's own, others in their order."""
    slots = [hue if hue < len(style.SERIES) else -1 for hue in series_hues(spec)]
    free = iter([slot for slot in range(len(style.SERIES)) if slot not in slots] or [0])
    found = {}
    for series, slot in zip(spec.measured, slots, strict=True):
        at = slot if slot >= 0 else next(free, 0)
        found[series.name] = (style.SERIES[at], style.MARKS[at])
    return found


# --------------------------------------------------------------------------- lines


def _lines(axes: Axes, spec: ChartSpec, *, names: bool, small: bool) -> None:
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
    _ideal(axes, spec, named=names or len(spec.measured) == 1)
    for place, series in enumerate(spec.measured):
        colour, mark = looks[series.name]
        shift = (place - (len(spec.measured) - 1) / 2) * 0.06
        _line(axes, spec, series, colour, mark, shift=0.0 if spec.over_time else shift)
        last = max(series.points, key=lambda point: point.x)
        value = _value(spec, last) if last.label or not spec.over_time or spec.percent else ""
        name = series.short or series.name if names and len(spec.measured) > 1 else ""
        _name(axes, series, " ".join(filter(None, (value, clean(name)))), colour, bold=names)
        if labelled:
            _numbers(axes, spec, series, place, colour)
    for series in spec.series:
        if series.role in ("fit", "reference") and series.points:
            dash = "--" if series.role == "reference" else "-"
            xs, ys = [p.x for p in series.points], [p.y for p in series.points]
            axes.plot(xs, ys, dash, color=style.AXIS, lw=1.6, zorder=2)
            end = f"{series.points[-1].label} " if series.points[-1].label else ""
            _name(axes, series, f"{end}{series.short or series.name}", style.AXIS, bold=False)
    _axes(axes, spec, labelled=labelled)


def _line(axes: Axes, spec: ChartSpec, series: Series, colour: str, mark: str, *, shift: float = 0.0) -> None:
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
        if not spec.over_time and _tall(spec, point) and point.lo is not None and point.hi is not None:
            x = point.x * 2 ** (shift / 2) if spec.x_log else point.x + shift
            low, high = max(0.0, point.y - point.lo), max(0.0, point.hi - point.y)
            axes.errorbar(x, point.y, [[low], [high]], color=colour, capsize=4, lw=1.8, zorder=3)


def _tall(spec: ChartSpec, point: Point) -> bool:
    """Whether an interval is taller than its mark."""
    if point.lo is None or point.hi is None or point.y <= 0:
        return False
    values = [p.y for s in spec.measured for p in s.points]
    span = (max(values) if spec.kind == "bars" else max(values) - min(0.6 * max(values), *values)) or 1.0
    return (point.hi - point.lo) / span > 0.05


def _ideal(axes: Axes, spec: ChartSpec, *, named: bool) -> None:
    for series in spec.series:
        if series.role == "ideal" and series.points:
            xs, ys = [p.x for p in series.points], [p.y for p in series.points]
            axes.plot(xs, ys, "--", color=style.AXIS, lw=1.7, zorder=1)
            if named:
                _name(axes, series, series.name, style.AXIS, bold=False)


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
            _value(spec, point), (point.x, point.y), (dx, dy), textcoords="offset points", color=colour,
            ha="right" if dx < 0 else "left", va="center" if not dy else "bottom" if above else "top", zorder=6,
        )  # fmt: skip


def _value(spec: ChartSpec, point: Point) -> str:
    """A number at its mark: the row's own label, percent without decimals."""
    if spec.percent:
        return f"{tick_text(point.y, percent=True)} %"
    return f"{point.label or tick_text(point.y)}{'×' * (spec.unit == '×')}"


def _name(axes: Axes, series: Series, text: str, colour: str, *, bold: bool = True) -> None:
    """A label right of the axes, at the height of the line's end; `_spread_names` moves it."""
    last = max(series.points, key=lambda point: point.x)
    if text:
        note = axes.annotate(
            text, xy=(last.x, last.y), xytext=(10, 0), textcoords="offset points", color=colour, va="center",
            weight="bold" if bold else "normal", annotation_clip=False, zorder=6,
        )  # fmt: skip
        note.set_gid("name")


def _spread_names(axes: Any) -> None:
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


def _axes(axes: Axes, spec: ChartSpec, *, labelled: bool, shared: bool = False, most: int = 12) -> None:
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
    apart = 0.9 if spec.x_axis == "batch" else 0.35
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
            return found or [low, high]
    return found


# --------------------------------------------------------------------------- bars


def _bars(axes: Axes, spec: ChartSpec, *, names: bool) -> None:
    """Bars from 0 side by side with their values on top; the ideal as a dashed step over each group."""
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
            if _tall(spec, point) and point.lo is not None and point.hi is not None:
                ends = [[max(0.0, point.y - point.lo)], [max(0.0, point.hi - point.y)]]
                axes.errorbar(
                    bar.get_x() + bar.get_width() / 2, point.y, ends, color=style.TEXT, capsize=4, lw=1.4
                )
        labels = [_value(spec, point) for point in points]
        axes.bar_label(
            bars,
            labels,
            padding=3,
            color=style.TEXT,
            size=axes.xaxis.label.get_fontsize() if len(counts) * len(spec.measured) <= 9 else 14,
        )
    for series in spec.series:
        if series.role == "ideal":
            for point in series.points:
                at = counts.index(point.x)
                axes.plot([at - 0.44, at + 0.44], [point.y] * 2, "--", color=style.AXIS, lw=1.7, zorder=5)
            if series.points and names:
                _name(
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


def _rows(axes: Axes, spec: ChartSpec, *, names: bool) -> None:
    """Bars that have names: a row each, the name left, the value right; the longest in colour."""
    labels = [clean(label) for _, label in spec.x_ticks]
    best = max((p.y for s in spec.measured for p in s.points), default=0.0)
    for series in spec.measured:
        points = sorted(series.points, key=lambda point: point.x)
        shades = [style.SERIES[0] if point.y >= best else style.OTHER for point in points]
        axes.barh([point.x for point in points], [point.y for point in points], 0.62, color=shades)
        for point in points:
            end = max(point.y, point.hi or 0.0) if _tall(spec, point) else point.y
            axes.annotate(
                _value(spec, point), (end, point.x), (7, 0), textcoords="offset points", va="center"
            )
        for point in points:
            if point.lo is not None and point.hi is not None and _tall(spec, point):
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


def _repeats(axes: Axes, spec: ChartSpec) -> None:
    """One bar, and below it as many of the shorter ones as fit into its length: a factor as one sees it."""
    points = sorted(spec.measured[0].points, key=lambda point: -point.y)
    if len(points) < 2 or points[1].y <= 0:
        _rows(axes, spec, names=True)
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


def _lost(axes: Axes, spec: ChartSpec) -> None:
    """What was lost of 100 %, a row for each number of GPUs: parts with their numbers, the sum at the end."""
    parts = [series for series in spec.measured if series.part == "lost"]
    kept = {p.x: p.y for s in spec.measured if s.part == "kept" for p in s.points}
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
                    start + share / 2, row, f"{share:.0f}", ha="center", va="center", weight="bold",
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
            f"{total:.0f} points lost",
            (max(total, 0.0), row),
            (8, 0),
            textcoords="offset points",
            va="center",
            color=style.AXIS,
        )
        name = clean(label) if not label.isdecimal() else f"{label} GPUs"
        rows.append(f"{name}\n{100 * kept.get(x, 0):.0f} % efficient")
    axes.set_yticks(range(len(rows)), rows, color=style.TEXT)
    axes.invert_yaxis()
    axes.set_xlim(min(0.0, *left.values()), max([*left.values(), 1.0]) * 1.22)
    axes.set_xlabel("points of efficiency")
    axes.set_title("")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=len(parts), frameon=False)


# --------------------------------------------------------------------------- files


def write_plots(
    specs: Sequence[ChartSpec],
    folder: Path,
    *,
    formats: Sequence[Format] = ("png",),
    size: Size = "wide",
    stamp: str = "",
    root: Path | None = None,
    progress: style.Progress = style.quiet,
) -> tuple[Path, ...]:
    """A file of each chart in each format, named by its key; half-slide ones are named ``...-half``.

    Raises:
        ExportError: when a file cannot be written.
    """
    end = "-half" if size == "half" else ""
    written = []
    for at, spec in enumerate(specs):
        made: Mapping[Format, bytes] = pictures([spec], formats, size=size, stamp=stamp)
        for number, (name, data) in enumerate(made.items()):
            progress(f"chart {spec.key}", (at + number / len(made)) / len(specs))
            path = folder / f"{spec.key}{end}.{name}"
            write_whole(path, data, root)
            written.append(path)
    return tuple(written)
