"""The style of exported charts, and what both drawers share: colours, limits, ticks, texts at marks."""

import io
import logging
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace
from PIL import ImageFont
from PIL.PngImagePlugin import PngInfo, putchunk

from labtui.domain.run import mark_words
from labtui.results import charts, numbers
from labtui.results.charts import MAX_IN_PANEL, ChartSpec, Look, Point, Series, value_text
from labtui.results.measured import grouped

FONT = "Carlito"
"""Shipped with its licence (SIL Open Font Licence); it has the widths of Calibri, which PowerPoint uses."""
FONTS = Path(str(files("labtui.export").joinpath("fonts")))
FONT_FILES = sorted(FONTS.glob("*.ttf"))
_FACE = ImageFont.truetype(FONT_FILES[-1], 100, layout_engine=ImageFont.Layout.BASIC)  # kerns on no machine
SERIES = ("#12406B", "#C2500A", "#26A282", "#8E5AA8", "#8A5A00", "#4C93CE")
"""By the hues of `results.charts`, networks first; distinct in grey and for colour-blind readers, too."""
TONES = (0.0, 0.35, 0.5, 0.6)
"""How far each tone of a colour is from it to white, darker than `OTHER`; names beside lines have the full colour."""
MARKS = ("o", "D", "^", "s", "X", "P")
TEXT_SIZE = 15
"""The text size of a chart in points."""
TEXT = "#1B2733"
AXIS = "#5B6773"
OTHER = "#C5CCD3"
GRID = "#E1E6EA"
PARTS = ("#5B6773", "#E0A458", "#9DA4AB", "#8A5A00", "#F0D2AC", OTHER)
"""The colours of lost parts, none of them that of one of the first four networks; in PowerPoint `_PARTS`."""
DARK_PARTS = (0, 3)
PRACTICE = "#8A5A00"
PRACTICE_LINE = "Practice cluster, not measured"
DPI = 120
"""The pixels of a plot in an inch."""
MAX_MARKED = 14
"""Lines with more points than this are drawn without marks."""
MAX_NAMED = 20
"""The names of more lines than this do not fit beside a chart."""
MAX_TICKS = 12
WIDTH = 12.133
"""The width of a slide between its margins in inches."""


DASHES = {"amdahl": "dotted", "gustafson": "dashdot"}
"""The dashes of the laws; other lines that were not measured are dashed."""
UNITS = {"%": " %", "×": "×"}
"""What follows the numbers on a y axis, by the unit of a chart."""


def shade(look: Look) -> tuple[float, ...]:
    """The colour of a line or bar as red, green and blue from 0 to 1."""
    colour, tone = SERIES[look.hue], TONES[look.tone]
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return tuple(part + (1 - part) * tone for part in parts)


def line_sizes(series: Series) -> tuple[float, int]:
    """The width of a line and the size of its marks in points: a line that others lie on is seen around them."""
    return 2.6 + 1.5 * series.depth, 8 + 3 * series.depth


@contextmanager
def chart_style(*, outlines: bool = True) -> Iterator[None]:
    """Apply labtui's Matplotlib settings; without `outlines` the text of an SVG stays text."""
    import matplotlib as mpl

    logging.getLogger("fontTools").setLevel(logging.ERROR)  # it warns of the date of a font in a PDF
    from matplotlib.font_manager import fontManager

    if FONT not in {font.name for font in fontManager.ttflist}:
        for path in FONT_FILES:
            fontManager.addfont(str(path))
    settings: dict[str, Any] = {
        "font.family": [FONT, "DejaVu Sans"], "font.size": TEXT_SIZE, "text.parse_math": False,
        "text.color": TEXT, "axes.labelcolor": AXIS, "axes.edgecolor": AXIS,
        "xtick.color": AXIS, "ytick.color": AXIS, "axes.titlelocation": "left", "axes.titlesize": 17,
        "axes.titleweight": "bold", "axes.titlepad": 14, "axes.axisbelow": True,
        "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False, "grid.color": GRID,
        "ytick.major.size": 0, "xtick.major.size": 4, "lines.linewidth": 2.6, "lines.markersize": 8,
        "hatch.color": "white", "svg.hashsalt": "labtui", "svg.fonttype": "path" if outlines else "none",
        "pdf.fonttype": 42,
    }  # fmt: skip
    with mpl.rc_context(cast("Any", settings)), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a character that no font has is drawn as a box
        yield


def png(svg: str, about: Mapping[str, str]) -> bytes:
    """The pixels of a drawing with texts about it; Typst makes them in less than half of Matplotlib's time."""
    import typst

    page = typst.Compiler(str(files("labtui.export") / "picture.typ"), ignore_system_fonts=True)
    made: Any = page.compile(format="png", ppi=DPI, sys_inputs={"svg": svg})
    for _ in range(4):  # Typst remembers what it computed for the last pages: 8 MB for each picture
        page.compile(format="svg", sys_inputs=None)
    info, chunks = PngInfo(), io.BytesIO()
    info.add(b"pHYs", 2 * round(DPI / 0.0254).to_bytes(4) + b"\1")  # pixels per metre
    for name, text in about.items():
        info.add_text(name, text)
    for kind, data, *_ in info.chunks:
        putchunk(chunks, kind, data)
    return bytes(made[:33] + chunks.getvalue() + made[33:])  # after signature and header


def chart_text(spec: ChartSpec) -> str:
    """A chart in words: its title and the values it shows."""
    ticks = dict(spec.x_ticks)
    parts = []
    for series in spec.measured:
        if len(series.points) <= 12:
            values = [f"{ticks.get(p.x, f'{p.x:g}')}: {p.label or f'{p.y:.3g}'}" for p in series.points]
            parts.append(f"{series.name} ({spec.x_label}) {', '.join(values)}")
    return numbers.clean(". ".join([spec.title + mark_words(spec.mark), *parts]), 1000)


def layers(spec: ChartSpec) -> list[Series]:
    """The measured lines from the bottom to the top, each with its `depth`.

    Single marks are on top; over epochs a line lies on another all along. A line with others on it is drawn thicker, so
    that each is seen.
    """

    def lies_on(a: Series, b: Series) -> bool:
        at = {p.x: p.y for p in a.points if p.y != 1 or not spec.compares}  # baselines are alike
        apart = [abs(height(at[p.x]) - height(p.y)) / span for p in b.points if p.x in at]
        return bool(apart) and (max(apart) < 0.005 if spec.over_time else min(apart) < 0.02)

    height = math.log if spec.y_log else float
    lines = sorted(spec.measured, key=lambda each: -len(each.points))
    heights = [height(point.y) for each in lines for point in each.points]
    span = max(heights, default=1.0) - min(heights, default=0.0) or 1.0
    depths = [sum(lies_on(each, top) for top in lines[at + 1 :]) for at, each in enumerate(lines)]
    return [replace(each, depth=depth) for each, depth in zip(lines, depths, strict=True)]


def split_lines(spec: ChartSpec) -> list[ChartSpec]:
    """The panels of a chart; in each, lines that are the same are one."""
    return list(map(charts.without_repeats, charts.split_lines(spec)))


def is_panel(spec: ChartSpec) -> bool:
    """Whether a chart is one of several panels."""
    return any(each.role == "other" for each in spec.series)


def names_panel(spec: ChartSpec, parts: Sequence[ChartSpec]) -> bool:
    """Whether a panel shows its names: not those of the first one, which would squeeze the others."""
    return spec is parts[0] or spec.names != parts[0].names


def rows_of(parts: Sequence[ChartSpec]) -> int:
    """The number of rows of panels: one for up to five panels of one line, or three whose lines need room for names."""
    return 1 if len(parts) <= (5 if all(len(each.measured) == 1 for each in parts) else 3) else 2


def inches(text: str, size: float = TEXT_SIZE) -> float:
    """The width in inches of a text on one line; `size` in points."""
    return _FACE.getlength(text) * size / 7200


def shows_names(spec: ChartSpec, first: ChartSpec) -> bool:
    """Whether a chart shows its names: not those of the first beside it where colours tell the lines apart."""
    lines = spec.measured
    alike = spec.kind == first.kind and [s.name for s in lines] == [s.name for s in first.measured]
    return spec is first or not alike or (spec.kind == "lines" and len({s.hue for s in lines}) < len(lines))


def widths(specs: Sequence[ChartSpec]) -> list[float]:
    """The inches that charts side by side need for numbers, names and headings; one with panels stands alone."""
    found = []
    for spec in specs:
        count = sum(len(each.points) if each.is_run else 2 for each in spec.series)
        least, plot = (2.4, 0.6 + 0.45 * count) if spec.kind == "bars" else (3.1, 2.4)
        names = map(inches, spec.names if spec.measured[1:] and shows_names(spec, specs[0]) else [""])
        heading = 0.4 + 1.1 * inches(numbers.clean(spec.y_title), 17)  # of a plot it stands right of the axis
        alone = len(split_lines(spec)) > 1
        found.append(math.inf if alone else max(least, plot + max(names), heading))
    return found


def chart_rows(specs: tuple[ChartSpec, ...]) -> list[tuple[ChartSpec, ...]]:
    """The charts in as few rows of a slide's width as they need, about as many in each."""
    for count in (-(-len(specs) // rows) for rows in range(1, len(specs))):
        found = [specs[at : at + count] for at in range(0, len(specs), count)]
        if all(sum(widths(row)) <= WIDTH for row in found):
            return found
    return [(spec,) for spec in specs]


def best_bar(spec: ChartSpec) -> Point | None:
    """The bar in colour among the others: the longest, or the short one of repeats; None where others may equal it."""
    way = -1 if spec.kind == "repeats" else 1
    *others, best = sorted((p for s in spec.measured for p in s.points), key=lambda point: way * point.y)
    below, above = bounds(best)
    return None if any(abs(best.y - p.y) <= max(below, above) + max(bounds(p)) for p in others) else best


def row_names(spec: ChartSpec) -> list[tuple[float, str]]:
    """Where the bars of a chart are, and their names; those of lost efficiency say how much was kept, and the sum."""
    kept = {p.x: f", {p.label} efficient" for s in spec.measured if s.part == "kept" for p in s.points}
    ticks = [(x, f"{label} GPUs" if kept and label.isdecimal() else label) for x, label in spec.x_ticks]
    lost = [p for s in spec.measured if s.part == "lost" for p in s.points]
    for x, parts in grouped(lost, lambda p: p.x).items():
        total = numbers.in_digits_of(parts[0].label, sum(p.y for p in parts)).split()[0]
        kept[x] = kept.get(x, "") + f", {total} lost" * (len(parts) > 1)
    return [(x, numbers.clean(label) + kept.get(x, "")) for x, label in ticks]


def part_text(point: Point) -> str:
    """The points of a lost part, with their bounds where its bar has room for them; "" at a thin one."""
    text = point.label.removesuffix(" points") if abs(point.y) >= 0.012 else ""
    rest = numbers.plus_minus(100 * max(bounds(point)), len(text.partition(".")[2]))
    return text + rest * (abs(point.y) > 0.05)


def bounds(point: Point) -> tuple[float, float]:
    """How far the interval reaches below and above the mark."""
    low, high = (point.y if each is None else each for each in (point.lo, point.hi))
    return max(0.0, point.y - low), max(0.0, high - point.y)


def end_texts(spec: ChartSpec, *, named: bool) -> dict[str, str]:
    """The texts at the ends of lines by their names: of few measured lines the last value, if `named` with a name.

    Of other lines their names, but in panels; that of the ideal is not repeated beside a chart that has it.
    """
    lines, panel = spec.measured, is_panel(spec)
    several, found = len(lines) > 1, {}
    for series, name in zip(lines, spec.names, strict=True):
        last = series.points[-1]
        # the last value of GPU utilisation says nothing about the job
        shown = last.label or not spec.over_time or (spec.percent and spec.x_axis == "epochs")
        told = (value_text(spec, last) if shown else "", name if named and several else "")
        if len(lines) <= (MAX_IN_PANEL if panel else MAX_NAMED):
            live = "so far" if spec.over_time and last.live else ""
            found[series.name] = ", ".join(filter(None, (" ".join(filter(None, told)), live)))
    for each in (each for each in spec.series if each.points and not (each.is_run or panel)):
        value = value_text(spec, each.points[-1]) if each.points[-1].label else ""
        if each.role != "ideal" or named or not several:
            found[each.name] = numbers.clean(f"{value} {each.short or each.name}".strip())
    return found


def bar_ends(spec: ChartSpec, *, named: bool) -> dict[str, str]:
    """The texts right of the last bars: of two or three networks that all have one there; others have a legend."""
    lines, last = spec.measured, spec.x_ticks[-1][0]
    whole = all(series.points[-1].x == last for series in lines)
    return end_texts(spec, named=True) if named and whole and 1 < len(lines) <= 3 else {}


def free_side(series: Series) -> int:
    """The side of a line's end where its name crosses nothing: -1 (below) if the line rises, else 1 (above)."""
    return -1 if series.points[-1].y > series.points[-2:][0].y else 1


def has_numbers(spec: ChartSpec) -> bool:
    """Whether each mark has room for its number; the y axis is then left out unless it is cut (shares)."""
    curves = any(series.role in ("fit", "reference") for series in spec.series)
    crowded = spec.over_time or curves or is_panel(spec)
    return not crowded and len(spec.x_ticks) <= 4 and len(spec.measured) <= 2


def mark_numbers(spec: ChartSpec, series: Series) -> Iterable[tuple[Point, str, int, int]]:
    """The numbers of the marks before the last, and their places: -1 left or below, 1 right or above, 0 beside.

    A rising line has room at its upper left; the lower of two marks, the ideal's included, is labelled on the other
    side. The baseline's 1.00 has no number. In a panel of one line only the first mark has one, off the line; over the
    batch only the best of all.
    """
    points, every = series.points, has_numbers(spec)
    if spec.x_axis == "batch" and not every:
        best = max(point.y for each in spec.measured for point in each.points)
        yield from ((point, value_text(spec, point), 1, 1) for point in points[:-1] if point.y == best)
    for at, point in enumerate(points[:-1] if every else points[: len(points) > 1]):
        if not every and (spec.over_time or not is_panel(spec) or len(spec.measured) > 1):
            return
        if at == 0 and spec.unit in ("×", "%") and abs(point.y - 1) < 1e-9:
            continue
        if not every:
            yield point, value_text(spec, point), 1, -1 if points[1].y > point.y else 1
            continue
        rivals = [p.y for each in spec.series for p in each.points if p.x == point.x]
        upper = point.y > min(rivals) or len(rivals) == 1
        left = at == 0 or upper == (points[at + 1].y > point.y)
        yield point, value_text(spec, point), -1 if left else 1, 0 if at == 0 else 1 if upper else -1


def x_ticks(spec: ChartSpec, xs: Sequence[float]) -> list[tuple[float, str]]:
    """Where x has ticks, and their labels: the sizes that were run, else round numbers."""
    ticks = spec.x_ticks or [(x, numbers.tick_text(x)) for x in y_ticks(min(xs), max(xs))]
    return [(x, numbers.clean(label)) for x, label in ticks]


def y_steps(spec: ChartSpec) -> list[float]:
    """Where y has ticks: in a panel of many every other one."""
    steps = log_ticks(spec) if spec.y_log else y_ticks(*_y_ends(spec))
    return steps[:: 2 if is_panel(spec) and len(steps) > 4 else 1]


def thin_ticks(axes: Any) -> None:
    """Leave out labels of x that would touch; the first and the last stay."""
    labels = [label for label in axes.get_xticklabels() if label.get_text()]
    boxes = [label.get_window_extent().padded(2) for label in labels]
    for at in range(len(labels) - 2, 0, -1):
        if boxes[at].x1 > boxes[at + 1].x0 or boxes[at].x0 < boxes[0].x1:
            labels[at].set_visible(False)
            boxes[at] = boxes[at + 1]


def _y_ends(spec: ChartSpec) -> tuple[float, float]:
    """What y shows, from `y_floor` on; of errors, which differ by little, from just below the least one."""
    points = [point for series in spec.series if series.role != "fit" for point in series.points]
    low = min(p.y if p.lo is None else min(p.y, p.lo) for p in points)
    high = max(p.y if p.hi is None else p.hi for p in points)
    least = min(spec.y_from, charts.y_floor(spec, low))
    if spec.family == "error":  # of its first epochs only the fall
        late = 2 / 3 * max(p.x for p in points)
        high = max(p.y for s in spec.series for p in s.points if p.x > late or p is s.points[-1])
        least = max(least, low - max(0.005, 0.05 * (high - low)))
    top = high + 0.06 * (high - max(least, 0.0)) if high > 0 else 1.0
    return least, min(top, 1.0) if spec.percent and high <= 1 else top


def y_limits(spec: ChartSpec) -> tuple[float, float]:
    """The limits of y: an axis with numbers begins and ends at a tick."""
    if spec.y_log:
        return (ticks := log_ticks(spec))[0], ticks[-1]
    least, top = _y_ends(spec)
    if spec.percent or not has_numbers(spec):
        least, *_, top = y_ticks(least, top)
    return least * (1.1 if least < 0 else 1.0), top


def with_start(spec: ChartSpec) -> ChartSpec:
    """The chart with the start of its y axis in its heading where that is not 0, and its end where that cuts lines.

    ``Efficiency, % (from 50)``, ``Top-1 error in validation, % (20 to 35)``
    """
    low, high = y_limits(spec) if spec.kind == "lines" and not spec.y_log else (0.0, math.inf)
    start, end = (numbers.tick_text(each, percent=spec.percent) for each in (low, min(high, 1.0)))
    cut = any(point.y > high for each in spec.series for point in each.points)
    said = f"{spec.heading} ({f'{start} to {end}' if cut else f'from {start}'})"
    return replace(spec, heading=said) if low > 0 or cut else spec


def log_ticks(spec: ChartSpec) -> list[float]:
    """The ticks of a logarithmic y axis: up to nine powers of one number, from below the least value on."""
    ys = [p.y for s in spec.series if s.role != "fit" for p in s.points]
    base = spec.y_base ** (1 + math.log(max(ys) / min(ys), spec.y_base) // 7)
    # LibreOffice counts its ticks from both ends, and draws no name above the axis, as that of the ideal
    top = max(ys) * (1.12 if spec.unit == "×" else 1)
    # a line that stays at a power of ten does not lie on the axis
    edge = -1e-9 if spec.family == "learning-rate" else 1e-9
    least = math.floor(math.log(min(ys), base) + edge)
    most = max(least + 1, math.ceil(math.log(top, base) - edge))
    return [base**power for power in range(least, most + 1)]


def y_ticks(low: float, high: float) -> list[float]:
    """Three to seven round numbers, the first at most `low`, the last at least `high`."""
    from matplotlib.ticker import MaxNLocator

    return [float(y) for y in MaxNLocator(nbins=5, steps=[1, 2, 5, 10]).tick_values(low, high)]
