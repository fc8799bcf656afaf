"""A `ChartSpec` drawn with matplotlib: PNG, SVG and PDF, the same bytes for the same data.

matplotlib is imported when something is drawn and not before. What may not enter: reading files, choosing charts.
"""

from __future__ import annotations

import contextlib
import io
import textwrap
import warnings
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from labtui.core.charts import ChartSpec
from labtui.core.results.numbers import clean
from labtui.export import style
from labtui.export.marks import draw_bars, draw_lines
from labtui.export.shape import bar_series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")

_RC: dict[str, Any] = {
    "font.family": [style.FONT],
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "svg.hashsalt": "labtui",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "axes.unicode_minus": True,
    "axes.edgecolor": style.FAINT,
    "xtick.color": style.QUIET,
    "ytick.color": style.QUIET,
    "text.color": style.INK,
    "hatch.linewidth": 0.8,
    "path.simplify": False,
}
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": "labtui"},
    "pdf": {"CreationDate": None, "ModDate": None, "Producer": "labtui", "Creator": "labtui"},
}


def pictures(
    spec: ChartSpec, formats: tuple[str, ...] = ("png",), *, size: style.Size = "wide"
) -> dict[str, bytes]:
    """The chart as files, by format. PNG has 300 dots per inch; fonts are embedded or drawn as outlines."""
    with _drawing(size):
        figure = make_figure(spec, style.CANVASES[size])
        return {name: _saved(figure, name) for name in formats}


def slide_svg(spec: ChartSpec, width: float, height: float, *, text: float) -> bytes:
    """The chart for a slide, `width` x `height` in points, text left as text, without title and notes."""
    canvas = style.Canvas(width / 72, height / 72, text)
    with _drawing("half"):
        import matplotlib as mpl

        with mpl.rc_context({"svg.fonttype": "none"}):
            return _saved(make_figure(spec, canvas, bare=True), "svg")


@contextlib.contextmanager
def _drawing(size: style.Size) -> Iterator[None]:
    import matplotlib as mpl

    text = style.CANVASES[size].text
    with mpl.rc_context({**_RC, "font.size": text}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a glyph the typeface lacks: said once, in the report
        yield


def _saved(figure: Figure, name: str) -> bytes:
    stream = io.BytesIO()
    # Runs of equal pixels are what a chart is made of: this way packs as well as the usual one, in half the time.
    more = {"pil_kwargs": {"compress_type": zlib.Z_RLE}} if name == "png" else {}
    look = {"metadata": _METADATA[name], "facecolor": style.PAPER, **more}
    figure.savefig(stream, format=name, dpi=style.PNG_DPI, **look)
    return stream.getvalue()


def make_figure(spec: ChartSpec, canvas: style.Canvas, *, bare: bool = False) -> Figure:
    """The figure of a chart; `bare` leaves out what a slide says itself (title, practice mark, notes)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(canvas.width, canvas.height))
    FigureCanvasAgg(figure)
    notes = [] if bare else _note_lines(spec, canvas)
    line = canvas.text * 1.35 / 72
    legend = spec.kind == "bars" and len(bar_series(spec)) > 1
    top = 1 - line * ((1.7 if bare else 2.9) + (1.1 if legend else 0.0)) / canvas.height
    bottom = (line * (2.6 + 0.85 * len(notes))) / canvas.height
    left, right = 0.72 * canvas.text / 10 / canvas.width, 1 - 0.22 / canvas.width
    axes = figure.add_axes((left, bottom, right - left, top - bottom))
    if bare:
        place = {"x": 0.0, "y": 1 - 0.2 * line / canvas.height, "va": "top"}
        figure.text(s=_unit(spec), size=canvas.text * 0.9, color=style.QUIET, **place)
    else:
        _texts(figure, spec, canvas, notes)
    (draw_bars if spec.kind == "bars" else draw_lines)(axes, spec, canvas)
    _axes_style(axes, spec, canvas)
    return figure


def _texts(figure: Any, spec: ChartSpec, canvas: style.Canvas, notes: list[str]) -> None:
    """Title, unit, practice mark, notes."""
    line = canvas.text * 1.35 / 72 / canvas.height
    x = 0.16 / canvas.width
    room = canvas.width * 72 / canvas.text - (7 if spec.practice else 0)
    title = textwrap.shorten(clean(spec.title), width=int(room / 0.74), placeholder=" …")
    figure.text(x, 1 - 0.45 * line, title, size=canvas.text * 1.12, weight="bold", va="top")
    figure.text(x, 1 - 1.75 * line, _unit(spec), size=canvas.text * 0.9, color=style.QUIET, va="top")
    if spec.practice:
        figure.text(
            1 - 0.16 / canvas.width,
            1 - 0.5 * line,
            "practice",
            size=canvas.text * 0.8,
            color=style.PRACTICE,
            weight="bold",
            ha="right",
            va="top",
            bbox={"boxstyle": "round,pad=0.25", "fc": style.PRACTICE_PAPER, "ec": style.PRACTICE, "lw": 0.6},
        )
    for place, text in enumerate(reversed(notes)):
        figure.text(x, (0.35 + 0.85 * place) * line, text, size=canvas.text * 0.75, color=style.QUIET)


def _unit(spec: ChartSpec) -> str:
    label = clean(spec.y_label)
    return f"{label}, %" if spec.percent else label


def _note_lines(spec: ChartSpec, canvas: style.Canvas) -> list[str]:
    """The notes, wrapped; at most five lines, since more belong into the table's notes."""
    notes = list(spec.notes)
    if any(point.live for series in spec.series for point in series.points) and not any(
        "live" in note for note in notes
    ):
        notes.append("Hatched: still running.")
    if spec.practice:
        notes.insert(0, "Practice cluster: no real hardware was measured.")
    width = int(canvas.width * 72 / (canvas.text * 0.75) / 0.56)
    lines = [clean(line) for note in notes for line in textwrap.wrap(note, width)]
    return lines if len(lines) <= 5 else [*lines[:4], lines[4][: width - 2] + " …"]


def _axes_style(axes: Any, spec: ChartSpec, canvas: style.Canvas) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color=style.RULE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(axis="both", length=0, labelsize=canvas.text * 0.9, pad=4)
    axes.set_xlabel(clean(spec.x_label), size=canvas.text * 0.9, color=style.QUIET, labelpad=4)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6 if canvas.height > 4 else 5, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value, spec.percent)))


def tick_text(value: float, percent: bool) -> str:
    """A tick's number: percent, or with thousands marked and no more digits than needed."""
    if percent:
        return f"{100 * value:.0f}"
    return f"{value:,.0f}" if abs(value) >= 10 or value == round(value) else f"{value:g}"
