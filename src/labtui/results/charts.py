"""A chart as pure data: `ChartSpec`, drawn by plotext on the screen, matplotlib in files and PowerPoint in slides.

Drawers depend on the fields of a chart, never on its key. All numbers are finite. `results/catalogue.py` lists them.
"""

import itertools
import math
import re
import statistics
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from labtui.domain.model import Interval
from labtui.domain.run import Mark, join_names
from labtui.results.measured import grouped
from labtui.results.numbers import clean, percent_text, three_digits, tick_text
from labtui.results.rows import LawFit, law_speedup
from labtui.results.scaling import HUES

View = Literal["time", "throughput", "speedup", "efficiency", "training"]
XAxis = Literal["counts", "batch", "names", "epochs", "seconds"]
"""What x is: a number of GPUs or processes, a global batch, the position of a name, an epoch, or seconds."""
Role = Literal["measured", "other", "ideal", "fit", "reference"]
"""``other``: measured, but in grey beside the lines that its panel is about."""

TONES, MARKS = 4, 6
"""How many tones of each colour and marks every drawer has."""
MAX_LINES, MAX_IN_PANEL = 4, 6
"""Charts of more lines have panels; the heading of a panel with more lines than the second counts them."""
WHOLE_TRAINING = {"whole-training": "total_seconds", "gpu-hours": "whole_gpu_hours"}
"""The families of whole trainings, whose numbers come from no single epoch, with the field of a row for each."""
MIN_LOG_SPAN = 8
"""Axes are logarithmic where the largest count is at least this many times the smallest."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A mark. `lo` and `hi` bound `y`.

    `hollow` is set for a warm-up epoch, `live` for a run in progress. `run` is the number of the last run measured,
    `line` that of the log line that one epoch comes from, `metric` the name of what was read there.
    """

    x: float
    y: float
    lo: float | None = None
    hi: float | None = None
    hollow: bool = False
    live: bool = False
    label: str = ""
    run: int | None = None
    line: int | None = None
    metric: str = ""

    def __post_init__(self) -> None:
        for number in (self.x, self.y, self.lo, self.hi):
            if number is not None and not math.isfinite(number):
                raise ValueError("a chart holds finite numbers only")


class Look(msgspec.Struct, frozen=True):
    """How a series looks: the indexes of its colour, of that colour's tone, and of its mark."""

    hue: int
    tone: int
    mark: int


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """A line or a set of bars: marks sorted by x. `short` is its name without what the other names share.

    `hue` is the index of its network's colour; `look` is the whole look of a line that is shown alone; `part` says
    which share of a whole the bars of a stacked chart are, `colour` is the index of a lost part's colour.
    Series of one `group` share a panel where a chart has too many lines. A `law` is drawn by `with_curves`.
    `first_run` is the number of its first run, `mark` the index of the mark of its size (-1: of no size): see `looks`.
    `depth` is how many lines lie on it: see `drawing.layers`.
    """

    name: str
    points: tuple[Point, ...]
    role: Role = "measured"
    hue: int = 0
    look: Look | None = None
    short: str = ""
    group: str = ""
    part: Literal["", "kept", "lost"] = ""
    colour: int = -1
    first_run: int = 0
    mark: int = -1
    depth: int = 0
    law: LawFit | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "points", tuple(sorted(self.points, key=lambda point: point.x)))

    @property
    def is_run(self) -> bool:
        return self.role in ("measured", "other")


class ChartSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A chart. `key` is unique among the charts shown together and names its file; `family` is the kind of chart.

    `title` says what is drawn, `heading` the same in a few words with the unit, `message` what the numbers show ("" for
    nothing). `unit` follows each number: ``s``, ``×``, or ``%``, whose values are fractions of 1. `view` is the
    screen's tab. `kind`: ``stacked`` bars are parts of a whole; ``repeats`` is a long bar, and as many of the short
    bar as fit into it. `compares`: a single mark makes no chart. `x_log`, `y_log`: the axis is logarithmic, with ticks
    at the powers of `y_base`. `y_from`: y begins there at the latest. `x_ticks`: with labels. `model`: "" for several.
    """

    key: str
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...] = ()
    family: str = ""
    view: View = "time"
    message: str = ""
    heading: str = ""
    unit: str = ""
    kind: Literal["bars", "lines", "stacked", "repeats"] = "lines"
    compares: bool = False
    x_axis: XAxis = "counts"
    x_log: bool = False
    y_log: bool = False
    y_base: float = 2.0
    x_ticks: tuple[tuple[float, str], ...] = ()
    y_from: float = math.inf
    model: str = ""
    notes: tuple[str, ...] = ()
    mark: Mark = ""

    @property
    def percent(self) -> bool:
        return self.unit == "%"

    @property
    def names(self) -> list[str]:
        """The names to put beside the measured lines: what tells each from the others."""
        return [clean(name) for name in tell_apart([each.short or each.name for each in self.measured])]

    @property
    def measured(self) -> tuple[Series, ...]:
        """The measured series that have marks."""
        return tuple(each for each in self.series if each.role == "measured" and each.points)

    @property
    def x_title(self) -> str:
        """The title of x, which says where it is logarithmic; bars stand side by side on any."""
        return self.x_label and self.x_label + (_LOG if self.x_log and self.kind == "lines" else "")

    @property
    def y_title(self) -> str:
        """The heading, which names what y is, and says where it is logarithmic."""
        return (self.heading or self.title) + (_LOG if self.y_log else "")

    @property
    def captions(self) -> tuple[str, ...]:
        """The notes, and an explanation of the error bars where any is drawn."""
        bars = any(has_bar(self, point) for each in self.measured for point in each.points)
        return (*self.notes, _ERROR_BARS) if bars else self.notes

    @property
    def over_time(self) -> bool:
        """Whether x is time, in epochs or seconds: such a chart has no numbers at its marks."""
        return self.x_axis in ("epochs", "seconds")


_LOG = " (log scale)"
_ERROR_BARS = "Error bars: rounding of the printed digits or, if more, scatter of epochs or of pooled runs."


def has_bar(spec: ChartSpec, point: Point) -> bool:
    """Whether a point has an error bar: its interval is visibly taller than its mark, or over 5 % of its bar."""
    if point.lo is None or point.hi is None or point.y <= 0 or spec.over_time:
        return False
    values = [p.y for s in spec.series if s.is_run for p in s.points]
    span = point.y if spec.kind == "bars" else max(values) - min(0.6 * max(values), *values) or 1.0
    return spec.kind in ("bars", "lines") and (point.hi - point.lo) / span > 0.05


def _family(key: str, view: View, title: str, x_label: str, y_label: str, **more: Any) -> ChartSpec:
    heading = title + {"s": ", s", "%": ", %"}.get(more.get("unit", ""), "")
    fields: dict[str, Any] = {"heading": heading, "x_label": x_label, "y_label": y_label, **more}
    return ChartSpec(key=key, family=key, view=view, title=title, **fields)


FAMILIES = {family.key: family for family in (
    _family("epoch-time", "time", "Epoch time", "GPUs", "seconds per epoch", unit="s"),
    _family("throughput", "throughput", "Throughput", "GPUs", "images per second", heading="Images per second"),
    _family("speedup", "speedup", "Speedup", "GPUs", "times one GPU", unit="×", compares=True),
    _family("efficiency", "efficiency", "Efficiency", "GPUs", "speedup / GPUs", unit="%", compares=True),
    _family("whole-training", "time", "Whole training", "GPUs", "seconds", unit="s", compares=True),
    _family("gpu-hours", "time", "GPU-hours of all epochs", "GPUs", "GPU-hours", unit="GPU-h", compares=True),
    _family("program-time", "time", "Time", "processes", "seconds", unit="s", compares=True),
    _family("program-speedup", "speedup", "Speedup", "processes", "times one process", unit="×", compares=True),
    _family("program-efficiency", "efficiency", "Efficiency", "processes", "speedup / processes", unit="%",
            compares=True),
    _family("weak-time", "time", "Weak scaling: time", "processes", "seconds", unit="s", compares=True),
    _family("weak-efficiency", "efficiency", "Weak efficiency", "processes", "T1 / Tn", unit="%", compares=True),
    _family("cpu-gpu", "time", "Epoch time on the CPU and on one GPU", "device", "seconds per epoch", unit="s",
            heading="Epoch time, s", kind="repeats", x_axis="names", compares=True),
    _family("cpu-gpu-throughput", "throughput", "Throughput on the CPU and on one GPU", "device", "images per second",
            heading="Images per second", kind="bars", x_axis="names", compares=True),
    _family("tuning", "throughput", "Throughput as tuned", "as tuned", "images per second",
            heading="Images per second", kind="bars", x_axis="names"),
    _family("efficiency-loss", "efficiency", "Where the efficiency goes", "GPUs", "share of ideal", unit="%",
            heading="Points of efficiency lost", kind="stacked", x_axis="names"),
    _family("laws", "speedup", "Speedup and the two laws", "GPUs", "times one GPU", unit="×", heading="Speedup"),
    _family("epochs", "time", "Time of each epoch", "epoch", "seconds", unit="s", x_axis="epochs"),
    _family("accuracy", "training", "Accuracy", "epoch", "accuracy", unit="%", x_axis="epochs"),
    _family("loss", "training", "Loss", "epoch", "loss", x_axis="epochs"),
    _family("learning-rate", "training", "Learning rate", "epoch", "learning rate", y_base=10, x_axis="epochs"),
    _family("error", "training", "Error in validation", "epoch", "top-1 error", unit="%",
            heading="Top-1 error in validation, %", x_axis="epochs"),
    _family("batch-accuracy", "training", "Accuracy over the global batch", "images per step, all GPUs",
            "best top-1 accuracy in validation", unit="%",
            heading="Best top-1 accuracy in validation, %", x_axis="batch"),
    _family("gpu-utilisation", "training", "GPU utilisation", "seconds since the first sample", "utilisation", unit="%",
            x_axis="seconds", y_from=0),
)}  # fmt: skip
"""Every kind of chart, by family: the fields that all charts of the family share."""


def make_chart(
    family: str, series: Iterable[Series], *, of: str = "", counted: str = "images", **fields: Any
) -> ChartSpec:
    """A chart of a family; its title ends with `of`, and `counted` (images, tokens) is what its rates count."""
    form = FAMILIES[family]
    fields.setdefault("title", f"{form.title}, {of}" if of else form.title)
    fields.setdefault("heading", form.heading.replace("Images", counted.capitalize()))
    fields.setdefault("y_label", form.y_label.replace("images", counted))
    return replace(form, series=tuple(series), **fields)


def value_text(spec: ChartSpec, point: Point, *, seconds: bool = False) -> str:
    """A mark's number as the tables show it: ``3.26×``, ``13.6`` (or ``13.6 s``), ``63.2 %``."""
    told = percent_text if spec.percent else three_digits if spec.unit == "s" else tick_text
    units = {"×": "×", "s": " s" * seconds, "GPU-h": " GPU-h" * seconds}
    return (point.label or told(point.y)) + units.get(spec.unit, "")


def with_log_axes(spec: ChartSpec) -> ChartSpec:
    """The chart with logarithmic axes where its sizes double often enough; y is linear for percentages and bars."""
    places = [x for x, _ in spec.x_ticks]
    if not places or min(places) <= 0 or max(places) < MIN_LOG_SPAN * min(places):
        return spec
    values = [y for each in spec.series for p in each.points for y in (p.y, p.lo) if y is not None]
    wide = bool(values) and max(values) >= MIN_LOG_SPAN * min(values) > 0
    y_log = spec.kind == "lines" and not spec.percent and wide
    return replace(spec, x_log=True, y_log=y_log)


def y_floor(spec: ChartSpec, low: float) -> float:
    """The lower end of y, in every drawer: 0, or `low` below it; lines of shares begin at a step below their least one.

    A step is ten percent, five for efficiencies from 75 % on, and a tenth of one for the best accuracies over the
    batch, which are close. The least efficiency stands at a third of the height or higher; below 40 % y begins at 0.
    """
    close = spec.x_axis == "batch"
    cut = min(1.5 * low - 0.5, 0.9) if spec.compares else low - (0.0001 if close else 0.025)
    steps = 1000 if close else 20 if spec.compares and cut >= 0.75 else 10
    cut *= spec.percent and spec.kind == "lines"
    return min(math.floor(steps * cut + 1e-9), steps - 1) / steps if cut >= 0.1 else min(low, 0.0)


def with_sizes(spec: ChartSpec, sizes: Iterable[float]) -> ChartSpec:
    """The chart with these sizes added to its x axis; unchanged where x is not a count."""
    if spec.x_axis != "counts":
        return spec
    places = sorted({x for x, _ in spec.x_ticks}.union(map(float, sizes)))
    return with_log_axes(with_curves(replace(spec, x_ticks=tuple((x, f"{x:g}") for x in places))))


def with_curves(spec: ChartSpec) -> ChartSpec:
    """The chart with its ideal and its laws, which are formulas, over all of its sizes."""
    sizes = [x for x, _ in spec.x_ticks]

    def drawn(each: Series) -> Series:
        if each.role == "ideal":
            return replace(each, points=tuple(Point(x=n, y=n) for n in sizes))
        return replace(each, points=tuple(_curve(each.law, sizes[-1]))) if each.law and sizes else each

    return replace(spec, series=tuple(map(drawn, spec.series)))


def _curve(fit: LawFit, last: float) -> Iterable[Point]:
    steps = max(1, min(int(last - 1) * 4, 120))
    for n in (1 + step * (last - 1) / steps for step in range(steps + 1)):
        if (speedup := law_speedup(fit.law, fit.serial_fraction.value, n)) is not None:
            yield Point(x=n, y=speedup)


def looks(lines: Sequence[Series]) -> dict[str, Look]:
    """The look of each of the lines, by name: the lines of one network differ by tone and mark.

    Where all are sizes of one network or policy, each has a colour, as tones of lines that touch look the same.
    A line of a size has the mark of that size, any other one the mark of its network or the next; the older one of two
    has it first. So no line changes when newer runs come.
    """
    found: dict[str, Look] = {}
    sizes = len({line.hue for line in lines}) == 1 and all(line.mark >= 0 for line in lines)
    for line in sorted(lines, key=lambda each: each.first_run):
        tone = min(TONES - 1, sum(look.hue == line.hue for look in found.values())) * (not sizes)
        free = sorted(set(range(MARKS)).difference(look.mark for look in found.values())) or [len(found)]
        wanted = line.mark if line.mark >= 0 else line.hue
        # the first marks are those of small sizes
        mark = wanted if wanted in free else free[-1 if line.mark >= 0 else 0]
        hue = (line.hue + len(found) * sizes) % HUES
        found[line.name] = line.look or Look(hue, tone, mark)
    return {line.name: found[line.name] for line in lines}


def toned(line: Series, paler: int) -> Series:
    """The line in a tone of its colour that is so much paler, if it has a look of its own."""
    look = line.look and replace(line.look, tone=min(TONES - 1, line.look.tone + paler))
    return replace(line, look=look)


def group_of(line: Series) -> str:
    """The name of the panel of a line."""
    return line.group or line.short or line.name


def split_lines(spec: ChartSpec, most: int = 12) -> list[ChartSpec]:
    """A chart of too many lines as a panel for each group, with all other lines in grey.

    A chart of few lines, or of more than `most` groups, is its only panel.
    """
    groups = grouped(spec.measured, group_of)
    few = len(spec.measured) <= MAX_LINES or spec.x_axis == "batch" or spec.family in WHOLE_TRAINING
    if spec.kind != "lines" or few or not 1 < len(groups) <= most:
        return [spec]
    found = []
    for name, mine in zip(tell_apart(list(groups)), groups.values(), strict=True):
        rest = (each for each in spec.series if each not in mine)
        grey = (replace(each, role="other") if each.role == "measured" else each for each in rest)
        heading = name + (f", {len(mine)} runs" if len(mine) > MAX_IN_PANEL else "")
        least = min(each.look.tone if each.look else 0 for each in mine)
        found.append(replace(spec, heading=heading, series=(*grey, *(toned(each, -least) for each in mine))))
    return found


def without_repeats(spec: ChartSpec) -> ChartSpec:
    """The chart with one line where all are the same; its heading says which ones these are."""
    lines = spec.measured
    if len(lines) < 2 or len({tuple((p.x, p.y) for p in each.points) for each in lines}) > 1:
        return spec
    sizes = list(dict.fromkeys(each.group or each.name for each in lines))
    told = tell_apart(sizes if len(sizes) > 1 else [each.name for each in lines])
    rest = (each for each in spec.series if each not in lines)
    return replace(spec, series=(*rest, lines[0]), heading=f"{spec.heading}, the same for {join_names(told)}")


def is_crowded(spec: ChartSpec) -> bool:
    """Whether a chart over epochs has more lines than marks: the chosen one is in colour among grey ones."""
    return spec.over_time and len(spec.measured) > MARKS


def line_of(spec: ChartSpec | None, *, name: str = "", run: int | None = None) -> int:
    """The index of the line with this name, else of the one with this run, else of the first that goes farthest."""
    lines = spec.measured if spec is not None else ()
    ranks = [(s.name == name, run in {p.run for p in s.points if p.run}, s.points[-1].x) for s in lines]
    return ranks.index(max(ranks)) if ranks else 0


def screen_panels(spec: ChartSpec) -> list[ChartSpec]:
    """The panels of a chart of many lines over time, else the chart alone; lines that are the same are one."""
    parts = split_lines(spec, most=len(spec.measured)) if is_crowded(spec) else [spec]
    return list(map(without_repeats, parts)) if spec.over_time else parts


def panel_of(spec: ChartSpec, *, name: str = "", run: int | None = None) -> ChartSpec:
    """The panel with the line with this name or this run."""
    group = group_of(spec.measured[line_of(spec, name=name, run=run)]) if spec.measured else ""
    parts = screen_panels(spec)
    return next((each for each in parts if group in map(group_of, each.measured)), parts[0])


def order_of(spec: ChartSpec) -> list[int]:
    """The measured lines from the top to the bottom of their names: by last value, else as they come."""
    places = range(len(spec.measured))
    if spec.kind != "lines" or is_crowded(spec):
        return list(places)[:: -1 if spec.kind == "stacked" else 1]  # as the parts of a bar stand
    return sorted(places, key=lambda at: -round(spec.measured[at].points[-1].y, 9))


def skipped_sizes(spec: ChartSpec, series: Series) -> list[float]:
    """The sizes that a measured line skips: other lines have them, or they continue its doubling."""
    own = [point.x for point in series.points]
    if spec.x_axis not in ("counts", "batch") or not series.is_run or not own:
        return []
    sizes = {x for x, _ in spec.x_ticks}
    sizes |= {2 * before for before, after in itertools.pairwise(own) if after > 2 * before}
    return sorted(x for x in sizes.difference(own) if own[0] < x < own[-1])


def line_pieces(spec: ChartSpec, series: Series) -> list[list[Point]]:
    """The series in pieces to draw as lines: none crosses a size that was not run or joins a hollow mark."""
    gaps = skipped_sizes(spec, series)
    pieces = [list(series.points[:1])]
    for before, after in itertools.pairwise(series.points):
        warming = not spec.over_time and (before.hollow or after.hollow)
        if warming or any(before.x < x < after.x for x in gaps):
            pieces.append([])
        falls = spec.family == "learning-rate" and after.y < before.y  # at the end of its epoch, not before
        corner = [replace(before, x=after.x - 1e-6)] if falls else []
        pieces[-1] += [*corner, after]
    return pieces


def spread(wanted: Sequence[float], size: float, lowest: float = -math.inf) -> list[float]:
    """Positions for labels of one `size` that do not overlap, each as near to its `wanted` one as possible.

    None lies below `lowest`, the axis. Labels that would touch are a group around the mean of their wanted positions.
    """
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    groups: list[list[float]] = []
    for place, at in enumerate(order):
        groups.append([wanted[at] - size * place])
        while len(groups) > 1 and statistics.fmean(groups[-2]) > statistics.fmean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    starts = [max(lowest, statistics.fmean(group)) for group in groups for _ in group]
    placed = {at: start + size * place for place, (at, start) in enumerate(zip(order, starts, strict=True))}
    return [placed[at] for at in range(len(wanted))]


def slug(name: str) -> str:
    """A name from a log as part of a key and a file name: letters, digits, underscores and dashes only."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:60] or "unnamed"


def interval_point(x: float, value: Interval, **look: Any) -> Point:
    """A mark with the value and the bounds of an interval."""
    return Point(x=x, y=value.value, lo=value.lo, hi=value.hi, **look)


def tell_apart(names: Sequence[str]) -> list[str]:
    """The names, each without the words that all of them share."""
    parts = [re.split(r"\)?, | · | \(", name.removesuffix(")")) for name in names]
    shared = set(parts[0]).intersection(*parts) if len(names) > 1 else set()
    kept = [[word for word in words if word not in shared] for words in parts]
    return [", ".join(mine) or name for mine, name in zip(kept, names, strict=True)]
