"""A `ChartSpec` drawn with matplotlib: the pictures of plots/, of the slides and of the report.

matplotlib's constrained layout makes the room for every text; only labels at line ends are moved apart here. One to
four charts share a figure; more than `MAX_LINES` lines become panels of one scale, the others of each in grey.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from labtui.cluster.local_files import write_whole
from labtui.export import style
from labtui.results.charts import ChartSpec, Series, unbroken, value_text
from labtui.results.numbers import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

from labtui.export.plot_bars import draw_bars, draw_lost, draw_repeats, draw_rows
from labtui.export.plot_lines import (
    draw_ideal,
    draw_line,
    draw_lines,
    dress_axes,
    name_line,
    spread_names,
)

Format = Literal["png", "svg", "pdf"]
Size = Literal["wide", "half"]
SIZES: dict[Size, tuple[float, float, float]] = {"wide": (13.333, 7.5, 26.0), "half": (6.667, 4.8, 17.0)}
"""Width and height of a plot in inches, and the size of its title in points."""
DPI = 120
MAX_LINES = 4
TEXT = 15.0


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
            small = all(spec.small for spec in specs if spec.practice)
            mark = style.SMALL_MARK if small else style.PRACTICE_MARK
            figure.text(0.985, 0.012, mark, ha="right", color=style.PRACTICE, size=14)
        place_labels(figure)
        drawn = {name: _saved(figure, name, stamp) for name in formats}
        figure.canvas.renderer = None  # its pixels would stay until the next collection of garbage
        return drawn


def slide_picture(
    specs: Sequence[ChartSpec], width: float, height: float, *, text: float = TEXT, form: Format = "svg"
) -> bytes:
    """The charts for a place on a page, `width` x `height` in points at their true size; letters stay letters."""
    with look(text, outlines=False):
        figure = figure_of(specs, width / 72, height / 72)
        place_labels(figure)
        return _saved(figure, form, "")


def _saved(figure: Figure, name: str, stamp: str) -> bytes:
    """The picture's bytes; not by `savefig`, which draws everything twice."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.backends.backend_svg import FigureCanvasSVG

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
    canvas: Any = {"png": FigureCanvasAgg, "svg": FigureCanvasSVG, "pdf": FigureCanvasPdf}[name](figure)
    figure.dpi = DPI
    if name == "png":
        canvas.print_png(stream, metadata=plain[name], pil_kwargs={"compress_level": 4})
    else:
        getattr(canvas, f"print_{name}")(stream, metadata=plain[name])
    return stream.getvalue()


def place_labels(figure: Figure) -> None:
    """Lay the figure out once, then move the labels at line ends apart."""
    engine: Any = figure.get_layout_engine()
    engine.execute(figure)
    figure.set_layout_engine("none")
    for axes in figure.axes:
        spread_names(axes)


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
        draw_ideal(axes, spec, named=False)
        for place, series in enumerate(mine):
            colour = style.SERIES[place % len(style.SERIES)]
            draw_line(axes, spec, series, colour, style.MARKS[place % len(style.MARKS)])
            value = value_text(spec, series.points[-1])
            name_line(axes, series, clean(series.short) if len(mine) > 1 else value, colour)
        axes.set_title("\n".join(textwrap.wrap(clean(name), 150 // columns // 2 + 6)[:2]), size=TEXT)
        dress_axes(axes, spec, labelled=False, shared=at > 0, most=3)
        axes.tick_params(labelleft=at % columns == 0)
        axes.set_xlabel(clean(spec.x_label) if at == (rows - 1) * columns else "")


def draw(axes: Axes, spec: ChartSpec, *, heading: bool, names: bool = True, small: bool = False) -> None:
    """One chart into its axes."""
    if heading:
        axes.set_title(clean(spec.heading or spec.title))
    if spec.kind == "stacked" or any(series.part for series in spec.series):
        draw_lost(axes, spec)
    elif spec.kind == "repeats":
        draw_repeats(axes, spec)
    elif spec.kind == "bars":
        (draw_rows if spec.x_axis == "names" else draw_bars)(axes, spec, names=names)
    else:
        draw_lines(axes, spec, names=names, small=small)


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
