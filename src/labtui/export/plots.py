"""A `ChartSpec` drawn with matplotlib: the pictures of plots/, of the slides and of the report.

matplotlib's constrained layout makes the room for every text; only labels at line ends are moved apart here. One to
four charts share a figure; more than `MAX_LINES` lines become panels of one scale, the others of each in grey.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, cast

from labtui.export import drawing
from labtui.export.drawing import panels
from labtui.export.plot_series import (
    draw_bars,
    draw_lines,
    draw_lost,
    draw_repeats,
    draw_rows,
    dress_axes,
    spread_names,
)
from labtui.results.charts import ChartSpec, Series
from labtui.results.numbers import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Format = Literal["png", "svg", "pdf"]
WIDTH, HEIGHT, TITLE = 13.333, 7.5, 26.0
"""A plot in inches, and the size of its title in points."""
DPI = 120
TEXT = 15.0


@contextmanager
def look(*, outlines: bool = True) -> Iterator[None]:
    """Matplotlib's settings for our pictures; without `outlines` letters of an SVG stay letters."""
    import matplotlib as mpl
    from matplotlib.font_manager import fontManager

    if drawing.FONT not in {font.name for font in fontManager.ttflist}:
        for path in drawing.font_files():
            fontManager.addfont(str(path))
    settings: dict[str, Any] = {
        "font.family": [drawing.FONT, "DejaVu Sans"], "font.size": TEXT, "text.parse_math": False,
        "text.color": drawing.TEXT, "axes.labelcolor": drawing.AXIS, "axes.edgecolor": drawing.AXIS,
        "xtick.color": drawing.AXIS, "ytick.color": drawing.AXIS, "axes.titlelocation": "left", "axes.titlesize": 17,
        "axes.titleweight": "bold", "axes.titlepad": 14, "axes.axisbelow": True,
        "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False, "grid.color": drawing.GRID,
        "ytick.major.size": 0, "xtick.major.size": 4, "lines.linewidth": 2.6, "lines.markersize": 8,
        "hatch.color": "white", "svg.hashsalt": "labtui", "svg.fonttype": "path" if outlines else "none",
        "pdf.fonttype": 42,
    }  # fmt: skip
    with mpl.rc_context(cast("Any", settings)), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a glyph no typeface has is drawn as a box
        yield


def pictures(
    spec: ChartSpec, formats: Iterable[Format] = ("png",), *, stamp: str = ""
) -> dict[Format, bytes]:
    """A plot with the message as its title, by format; the same bytes for the same data."""
    with look():
        figure = figure_of([spec], WIDTH, HEIGHT)
        place: Any = {"x": 0.015, "ha": "left"}
        title = _wrapped(clean(spec.message or spec.title), WIDTH, TITLE, 2)
        figure.suptitle(title, size=TITLE, weight="bold", **place)
        note = " ".join(dict.fromkeys(map(clean, spec.captions)))
        room = WIDTH - 3.2 * spec.practice
        figure.supxlabel(_wrapped(note, room, 14, 5) or " ", size=14, color=drawing.AXIS, **place)
        if spec.practice:
            mark = drawing.SMALL_MARK if spec.small else drawing.PRACTICE_MARK
            figure.text(0.985, 0.012, mark, ha="right", color=drawing.PRACTICE, size=14)
        place_labels(figure)
        drawn = {name: _saved(figure, name, stamp) for name in formats}
        figure.canvas.renderer = None  # its pixels would stay until the next collection of garbage
        return drawn


def _wrapped(text: str, width: float, size: float, lines: int) -> str:
    return "\n".join(textwrap.wrap(text, int((width - 0.4) * 72 / size / 0.47))[:lines])


def chart_picture(specs: Sequence[ChartSpec], width: float, height: float) -> bytes:
    """The charts as an SVG for a place on a page, sizes in inches; letters stay letters."""
    with look(outlines=False):
        figure = figure_of(specs, width, height)
        place_labels(figure)
        return _saved(figure, "svg", "")


def _saved(figure: Any, name: Format, stamp: str) -> bytes:
    """The picture's bytes, with the stamp among its data."""
    stream, stamped = io.BytesIO(), stamp or None
    metadata = {
        "png": {"Software": None, "Description": stamped},
        "svg": {"Date": None, "Creator": "labtui", "Description": stamped},
        "pdf": {"CreationDate": None, "Subject": stamped},
    }
    figure.savefig(stream, format=name, dpi=DPI, metadata=metadata[name])
    return stream.getvalue()


def place_labels(figure: Figure) -> None:
    """Lay the figure out once, then move the labels at line ends apart."""
    engine: Any = figure.get_layout_engine()
    engine.execute(figure)
    figure.set_layout_engine(None)  # else saving would lay it out again
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
    if any(len(groups) > 1 for groups in panelled):
        parts = figure.subfigures(len(specs), 1, squeeze=False)
    else:
        shares = [1.35 if len(specs) > 1 else 1.0, *[1.0] * (len(specs) - 1)]
        parts = figure.subfigures(1, len(specs), squeeze=False, width_ratios=shares)
    for place, (spec, part, groups) in enumerate(zip(specs, parts.flat, panelled, strict=True)):
        if len(groups) > 1:
            _draw_panels(part, spec, groups)
        else:
            _draw(part.subplots(), spec, named=place == 0 or not names_alike(spec, specs[0]))
    return figure


def names_alike(one: ChartSpec, other: ChartSpec) -> bool:
    """Whether the names beside one chart are those of the other, so that they need not stand twice."""
    return one.kind == other.kind and [s.name for s in one.measured] == [s.name for s in other.measured]


def _draw_panels(part: Any, spec: ChartSpec, groups: Sequence[tuple[str, list[Series]]]) -> None:
    """One panel for each group of one shared scale: its lines in colour, all others in grey."""
    rows = drawing.rows_of(groups)
    columns = math.ceil(len(groups) / rows)
    grid = part.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    part.suptitle(clean(spec.heading or spec.title), x=0.012, ha="left", weight="bold")
    for axes in grid.flat[len(groups) :]:
        axes.set_axis_off()
    for axes, (name, mine) in zip(grid.flat, groups, strict=False):
        axes.set_title("\n".join(textwrap.wrap(clean(name), 75 // columns + 6)[:2]), size=TEXT)
        draw_lines(axes, spec, mine, named=True, panel=True)
        axes.grid(visible=True, axis="y")
    dress_axes(grid[0][0], spec, panel=True)
    grid[0][0].set_xlabel("")
    grid[-1][0].set_xlabel(clean(spec.x_label))


def _draw(axes: Axes, spec: ChartSpec, *, named: bool) -> None:
    axes.set_title(clean(spec.heading or spec.title))
    if any(series.part for series in spec.series):
        draw_lost(axes, spec)
    elif spec.kind == "repeats":
        draw_repeats(axes, spec)
    elif spec.kind == "bars" and spec.x_axis == "names":
        draw_rows(axes, spec)
    elif spec.kind == "bars":
        draw_bars(axes, spec, named=named)
    else:
        draw_lines(axes, spec, spec.measured, named=named, panel=False)
        dress_axes(axes, spec, panel=False)
