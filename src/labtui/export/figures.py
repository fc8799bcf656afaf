"""A `ChartSpec` drawn with matplotlib, and a lab's charts as files: PNG, SVG and PDF, the same bytes for the same data.

matplotlib is imported when something is drawn and not before. `results/catalogue.py` decides which charts there
are; here they get their file names. A chart of one network carries the network's name (``speedup-ResNet50.png``), a
combined one does not (``speedup.png``).
"""

from __future__ import annotations

import contextlib
import io
import struct
import textwrap
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labtui.cluster.local_files import write_whole
from labtui.domain.errors import UsageError
from labtui.export import chart_geometry, style
from labtui.export.measurements import Measurements
from labtui.export.mpl_series import draw_bars, draw_heat, draw_lines
from labtui.results.catalogue import Reading, lab_charts
from labtui.results.charts import ChartSpec, Kind, on_even_steps, with_kind
from labtui.results.course_charts import job_gpu_chart
from labtui.results.numbers import clean
from labtui.results.rows import Results
from labtui.session.folder import file_name

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
_NARROW = 330.0
"""Points: bars with their values in a narrower chart need no axis of numbers."""


def pictures(
    spec: ChartSpec, formats: tuple[str, ...] = ("png",), *, size: style.Size = "wide", stamp: str = ""
) -> dict[str, bytes]:
    """The chart as files, by format. PNG has 300 dots per inch; fonts are embedded or drawn as outlines."""
    canvas = style.CANVASES[size]
    wanted = dict.fromkeys("svg" if name == "png" else name for name in formats)
    with _drawing(canvas.text):
        figure = make_figure(spec, canvas)
        drawn = {name: _saved(figure, name, stamp) for name in wanted}
    if "png" in formats:
        drawn["png"] = png_of(drawn["svg"], canvas.width, canvas.height, stamp)
    return {name: drawn[name] for name in formats}


def png_of(svg: bytes, width: float, height: float, stamp: str = "") -> bytes:
    """A chart's SVG (its letters as outlines) as PNG of 300 dots per inch; its size in inches."""
    import tempfile

    import typst

    with tempfile.TemporaryDirectory(prefix="labtui-plot-") as name:
        folder = Path(name)
        (folder / "chart.svg").write_bytes(svg)
        page = f'#set page(width: {width}in, height: {height}in, margin: 0pt)\n#image("chart.svg", width: 100%)\n'
        (folder / "chart.typ").write_text(page, encoding="utf-8")
        look: Any = {"format": "png", "ppi": style.PNG_DPI, "font_paths": _no_fonts()}
        made = typst.compile(folder / "chart.typ", root=folder, **look)
    forget_pages()
    return _described(made if isinstance(made, bytes) else made[0], stamp)


def forget_pages() -> None:
    """Let Typst drop what it keeps of pages it has drawn, 18 MB for each chart.

    Typst keeps what it computed until it has drawn ten other pages (`comemo::evict(10)` in its Python binding).
    """
    import typst

    for _ in range(10):
        typst.compile(b"", format="svg", font_paths=_no_fonts())


@cache
def _no_fonts() -> Any:
    """For pages without letters: Typst looks for no typefaces, which takes longer than such a page."""
    import typst

    return typst.Fonts(include_system_fonts=False, include_embedded_fonts=False)


def _described(png: bytes, stamp: str) -> bytes:
    """The PNG with its resolution, and the stamp of its export as its description."""
    per_metre = round(style.PNG_DPI / 0.0254)
    chunks = [(b"pHYs", struct.pack(">IIB", per_metre, per_metre, 1))]
    if stamp:
        chunks.append((b"tEXt", b"Description\0" + stamp.encode("latin-1", "replace")))
    more = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    head = 33  # signature and IHDR
    return png[:head] + more + png[head:]


def slide_picture(spec: ChartSpec, width: float, height: float, *, text: float, form: str = "svg") -> bytes:
    """The chart for a page, `width` x `height` in points, text left as text, without practice mark and notes."""
    import matplotlib as mpl

    canvas = style.Canvas(width / 72, height / 72, text, slide=True)
    with _drawing(text), mpl.rc_context({"svg.fonttype": "none"}):
        return _saved(make_figure(spec, canvas), form, "")


@contextlib.contextmanager
def _drawing(text: float) -> Iterator[None]:
    import matplotlib as mpl

    look: Any = {**_RC, "font.size": text}
    with mpl.rc_context(look), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a glyph the typeface lacks: said once, in the report
        yield


def _saved(figure: Figure, name: str, stamp: str) -> bytes:
    stream = io.BytesIO()
    figure.savefig(
        stream, format=name, dpi=style.PNG_DPI, metadata=_metadata(name, stamp), facecolor=style.PAPER
    )
    return stream.getvalue()


def _metadata(name: str, stamp: str) -> dict[str, Any]:
    if name == "png":
        return {"Software": None, **({"Description": stamp} if stamp else {})}
    if name == "svg":
        return {"Date": None, "Creator": "labtui", **({"Description": stamp} if stamp else {})}
    plain: dict[str, Any] = {"CreationDate": None, "ModDate": None, "Producer": "labtui", "Creator": "labtui"}
    return plain | ({"Subject": stamp} if stamp else {})


def make_figure(spec: ChartSpec, canvas: style.Canvas) -> Figure:
    """The figure of a chart; on a slide without what the page says itself (practice mark, notes)."""
    spec = on_even_steps(spec)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(canvas.width, canvas.height))
    FigureCanvasAgg(figure)
    notes = [] if canvas.slide else _note_lines(spec, canvas)
    line = canvas.text * 1.35 / 72
    bars = spec.kind != "lines" and not chart_geometry.heat(spec)
    legend = chart_geometry.legend_rows(spec, canvas.width * 72, canvas.small) if bars else 0
    bare_axis = bars and canvas.width * 72 < _NARROW and chart_geometry.label_mode(spec) == "all"
    rows = 2.5 if canvas.slide else 2.9
    top = 1 - line * (rows + 1.15 * legend) / canvas.height
    bottom = (line * (2.5 + 0.85 * len(notes))) / canvas.height
    left = (0.1 if bare_axis else 0.72 * canvas.text / 10) / canvas.width
    axes = figure.add_axes((left, bottom, 1 - 0.12 / canvas.width - left, top - bottom))
    _texts(figure, spec, canvas, notes)
    (draw_heat if chart_geometry.heat(spec) else draw_bars if bars else draw_lines)(axes, spec, canvas)
    _axes_style(axes, spec, canvas, bare=bare_axis)
    return figure


def _texts(figure: Any, spec: ChartSpec, canvas: style.Canvas, notes: list[str]) -> None:
    """Title, unit, practice mark, notes."""
    line = canvas.text * 1.35 / 72 / canvas.height
    x = (0.04 if canvas.slide else 0.16) / canvas.width
    size = canvas.text if canvas.slide else canvas.text * 1.12
    room = canvas.width * 72 - (7 * canvas.text if spec.practice and not canvas.slide else 0.1 * 72)
    title = clean(spec.title)
    if style.text_width(title, size, bold=True) > room:
        title = _fitting(title.partition(", ")[0], size, room)
    figure.text(x, 1 - (0.1 if canvas.slide else 0.45) * line, title, size=size, weight="bold", va="top")
    unit = _fitting(_unit(spec), canvas.small, canvas.width * 72, bold=False)
    figure.text(
        x, 1 - (1.15 if canvas.slide else 1.75) * line, unit, size=canvas.small, color=style.QUIET, va="top"
    )
    if spec.practice and not canvas.slide:
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


def _fitting(text: str, size: float, room: float, *, bold: bool = True) -> str:
    """A text of one line, shortened where it is too long; a title's network goes last."""
    while len(text) > 4 and style.text_width(text, size, bold=bold) > room:
        text = f"{text[:-2].rstrip(' ,…')}…"
    return text


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


def _axes_style(axes: Any, spec: ChartSpec, canvas: style.Canvas, *, bare: bool) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="both", length=0, labelsize=canvas.small, pad=4)
    axes.set_xlabel(clean(spec.x_label), size=canvas.small, color=style.QUIET, labelpad=4)
    if chart_geometry.heat(spec):
        return
    axes.set_axisbelow(True)
    if bare:
        axes.set_yticks([])
        return
    axes.grid(axis="y", color=style.RULE, linewidth=0.7)
    bins = 6 if canvas.height > 4 else 5 if canvas.height > 2.6 else 3
    axes.yaxis.set_major_locator(MaxNLocator(nbins=bins, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value, spec.percent)))


def tick_text(value: float, percent: bool) -> str:
    """A tick's number: percent, or with thousands marked and no more digits than needed."""
    if percent:
        return f"{100 * value:.0f}"
    return f"{value:,.0f}" if abs(value) >= 10 or value == round(value) else f"{value:g}"


Progress = Callable[[str, float], None]
"""Told what is being done and which fraction (0 to 1) is behind."""


def quiet(what: str, share: float) -> None:
    """Progress nobody watches."""


@dataclass(frozen=True, slots=True)
class NamedChart:
    """A chart and its file name without ending. `model` is "" for a chart of several networks."""

    stem: str
    spec: ChartSpec
    model: str = ""


def all_charts(
    measurements: Measurements, results: Results, *, reading: Reading = "precise"
) -> tuple[NamedChart, ...]:
    """Every chart with something measured in it: per network, all together, then single runs and GPUs."""
    charts = (*lab_charts(results, reading=reading), *gpu_charts(measurements))
    return tuple(NamedChart(file_name(spec.key), spec, spec.model) for spec in charts)


def gpu_charts(measurements: Measurements, *, tasks: Sequence[str] = ()) -> tuple[ChartSpec, ...]:
    """GPU utilisation over the time of each job with a sampler; of some tasks, when they are named."""
    charts, seen = [], set()
    for use in measurements.uses:
        run = use.run
        if run.source in seen or (tasks and run.task_id not in tasks):
            continue
        seen.add(run.source)
        samples = measurements.samples[run.source]
        spec = job_gpu_chart(samples, run.job_id, log=Path(run.source).name, practice=run.practice)
        if spec is not None:
            charts.append(spec)
    return tuple(charts)


def chosen(charts: Sequence[NamedChart], wanted: Sequence[str]) -> tuple[NamedChart, ...]:
    """The charts of these keys or file names; all of them when none is named.

    Raises:
        UsageError: when there is no such chart; the hint names those there are.
    """
    if not wanted:
        return tuple(charts)
    found = []
    for name in wanted:
        hits = [each for each in charts if name in (each.spec.family, each.stem)]
        if not hits:
            there = ", ".join(dict.fromkeys(each.spec.family for each in charts))
            raise UsageError(f"There is no chart {name!r} of these runs.", f"Charts: {there}.")
        found += [hit for hit in hits if hit not in found]
    return tuple(found)


def write_charts(
    charts: Sequence[NamedChart],
    folder: Path,
    *,
    root: Path | None = None,
    formats: tuple[str, ...] = ("png",),
    size: style.Size = "wide",
    kind: Kind | None = None,
    stamp: str = "",
    progress: Progress = quiet,
) -> tuple[Path, ...]:
    """Draw the charts into files; the half-slide ones are named ``...-half``.

    PNG is made from SVG by another thread, while the next chart is drawn. `root` is the lab folder they go to.

    Raises:
        ExportError: when a file cannot be written.
    """
    from concurrent.futures import Future, ThreadPoolExecutor

    end = "-half" if size == "half" else ""
    canvas = style.CANVASES[size]
    drawn = tuple(dict.fromkeys("svg" if name == "png" else name for name in formats))
    written: list[Path] = []
    waiting: list[tuple[Path, Future[bytes]]] = []

    def write(most: int) -> None:
        while len(waiting) > most:
            path, made = waiting.pop(0)
            write_whole(path, made.result(), root)

    with ThreadPoolExecutor(1) as pool:
        for at, chart in enumerate(charts):
            progress(f"chart {chart.stem}", at / max(1, len(charts)))
            files = pictures(with_kind(chart.spec, kind), drawn, size=size, stamp=stamp)
            for name in formats:
                path = folder / f"{chart.stem}{end}.{name}"
                written.append(path)
                if name == "png":
                    waiting.append(
                        (path, pool.submit(png_of, files["svg"], canvas.width, canvas.height, stamp))
                    )
                else:
                    write_whole(path, files[name], root)
            write(2)
        write(0)
    return tuple(written)
