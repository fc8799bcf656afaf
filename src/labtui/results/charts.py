"""A chart as pure data: `ChartSpec`, drawn by plotext on the screen, matplotlib in files and PowerPoint in slides.

A drawer reads fields and never a key. Only finite numbers enter a chart. `results/catalogue.py` decides which charts
there are.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from labtui.domain.model import Interval
from labtui.results.numbers import decimals, fixed, percent_text, tick_text

Kind = Literal["bars", "lines", "stacked", "repeats"]
"""`stacked`: parts of a whole; `repeats`: one bar, and as many of the shorter as fit into it."""
View = Literal["time", "throughput", "speedup", "efficiency", "training"]
XAxis = Literal["counts", "batch", "names", "epochs", "seconds"]
"""What x is: a number of GPUs or processes, a global batch, the place of a name, an epoch, or seconds."""
Role = Literal["measured", "ideal", "fit", "band", "reference"]

MODEL_HUES = {"ResNet50": 0, "ResNet152": 1, "ResNet101": 2}
CPU_HUE = 4
COUNT_HUES = {0: CPU_HUE, 1: 5, 2: 6, 4: 7}
OTHER_COUNT_HUE = 8
FREE_HUES = (9, 10, 11, 12)
"""Colour slots of series that are neither a network nor a GPU count."""
HUES = 13
"""Colour slots: 0 to 3 networks, 4 the CPU, 5 to 8 GPU counts, then the free ones."""
WIDE = 8
"""Axes are logarithmic from so many times the smallest count on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A mark. `lo` and `hi` bound `y`; `mark` says what they are: ``±`` rounding of digits, ``σ`` scatter of epochs.

    `hollow` marks a warm-up epoch, `live` a run that is still going.
    """

    x: float
    y: float
    lo: float | None = None
    hi: float | None = None
    hollow: bool = False
    live: bool = False
    label: str = ""
    mark: str = "±"

    def __post_init__(self) -> None:
        for number in (self.x, self.y, self.lo, self.hi):
            if number is not None and not math.isfinite(number):
                raise ValueError("a chart holds finite numbers only")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Marks of one thing. `short` is what tells its name from the names beside it.

    `hue` is the colour slot (see `series_hues`); `part` says which share of a whole the bars of a
    stacked chart are. Series of one `group` share a panel where a chart has too many lines.
    """

    name: str
    points: tuple[Point, ...]
    role: Role = "measured"
    hue: int | None = None
    short: str = ""
    group: str = ""
    part: Literal["", "kept", "lost"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSpec:
    """A chart. `key` names it (and its file) among the charts of one place; `family` says which kind it is.

    `title` says what is drawn, `heading` the same in two words with the unit, `message` what the numbers say ("" for
    nothing). `unit` follows a number of the chart (``s``, ``×``, ``%``). `view` is the screen's tab. `switchable`:
    bars or lines are a matter of taste. `x_log`, `y_log`: each doubling takes the same length. `percent`: values are
    fractions of 1. `x_ticks` are the positions with their labels. `model` is "" for several networks.
    """

    key: str
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    family: str = ""
    view: View = "time"
    message: str = ""
    heading: str = ""
    unit: str = ""
    kind: Kind = "lines"
    switchable: bool = False
    x_axis: XAxis = "counts"
    x_log: bool = False
    y_log: bool = False
    x_ticks: tuple[tuple[float, str], ...] = ()
    y_min: float | None = 0.0
    y_max: float | None = None
    percent: bool = False
    model: str = ""
    notes: tuple[str, ...] = ()
    practice: bool = False
    small: bool = False

    def __post_init__(self) -> None:
        if not self.family:
            object.__setattr__(self, "family", self.key)

    @property
    def measured(self) -> tuple[Series, ...]:
        """The measured series that have marks."""
        return tuple(each for each in self.series if each.role == "measured" and each.points)

    @property
    def empty(self) -> bool:
        return not self.measured

    @property
    def over_time(self) -> bool:
        """Whether x is time: such a series is told in a line, and has no values at its marks."""
        return self.x_axis in ("epochs", "seconds")


class Form(NamedTuple):
    """What is the same in every chart of a family."""

    view: View
    title: str
    heading: str
    x_label: str
    y_label: str
    unit: str = ""
    kind: Kind = "lines"
    x_axis: XAxis = "counts"


_TOP1 = "best top-1 accuracy in validation"
FAMILIES = {
    "epoch-time": Form("time", "Epoch time", "Epoch time, s", "GPUs", "seconds per epoch", "s"),
    "throughput": Form("throughput", "Throughput", "Images per second", "GPUs", "images per second"),
    "speedup": Form("speedup", "Speedup", "Speedup", "GPUs", "times one GPU", "×"),
    "efficiency": Form("efficiency", "Efficiency", "Efficiency, %", "GPUs", "speedup / GPUs", "%"),
    "program-time": Form("time", "Time", "Time, s", "processes", "seconds", "s"),
    "program-speedup": Form("speedup", "Speedup", "Speedup", "processes", "times one process", "×"),
    "program-efficiency": Form("efficiency", "Efficiency", "Efficiency, %", "processes", "speedup / processes", "%"),
    "weak-time": Form("time", "Weak scaling: time", "Weak scaling: time, s", "processes", "seconds", "s"),
    "weak-efficiency": Form("efficiency", "Weak efficiency", "Weak efficiency, %", "processes", "T1 / Tn", "%"),
    "cpu-gpu": Form("time", "Epoch time on the CPU and on one GPU", "Epoch time, s", "device", "seconds per epoch",
                    "s", "repeats", "names"),
    "tuning": Form("throughput", "Throughput as tuned", "Images per second", "as tuned", "images per second", "",
                   "bars", "names"),
    "efficiency-loss": Form("efficiency", "Where the efficiency goes", "Points of efficiency lost", "GPUs",
                            "share of ideal", "%", "stacked", "names"),
    "laws": Form("speedup", "Speedup and the two laws", "Speedup", "GPUs", "times one GPU", "×"),
    "epochs": Form("time", "Time of each epoch", "Time of each epoch, s", "epoch", "seconds", "s", x_axis="epochs"),
    "accuracy": Form("training", "Accuracy", "Accuracy, %", "epoch", "accuracy", "%", x_axis="epochs"),
    "learning-rate": Form("training", "Learning rate", "Learning rate", "epoch", "learning rate", x_axis="epochs"),
    "error": Form("training", "Error in validation", "Top-1 error in validation, %", "epoch", "top-1 error", "%",
                  x_axis="epochs"),
    "batch-accuracy": Form("training", "Accuracy over the global batch", "Best top-1 accuracy, %",
                           "images per step, all GPUs", _TOP1, "%", x_axis="batch"),
    "gpu-utilization": Form("training", "GPU utilisation", "GPU utilisation, %", "seconds since the first sample",
                            "utilisation", "%", x_axis="seconds"),
}  # fmt: skip
"""Every chart there is."""


def make_chart(
    family: str, series: Iterable[Series], *, of: str = "", counted: str = "images", **fields: Any
) -> ChartSpec:
    """A chart of a family about something, `of` which its title tells; `counted` is what its rates count."""
    form = FAMILIES[family]
    made: dict[str, Any] = {
        **form._asdict(),
        "key": family,
        "family": family,
        "title": f"{form.title}, {of}" if of else form.title,
        "heading": form.heading.replace("Images", counted.capitalize()),
        "y_label": form.y_label.replace("images", counted),
        "percent": form.unit == "%",
        **fields,
    }
    return ChartSpec(series=tuple(series), **made)


def value_text(spec: ChartSpec, point: Point, y: float | None = None) -> str:
    """A mark's number as the tables have it: ``3.26×``, ``13.6``, ``63.2 %``.

    `y`: a bound of it instead, in the digits by which its two bounds differ.
    """
    text = point.label or (percent_text(point.y) if spec.percent else tick_text(point.y))
    if y is not None:
        factor = 100 if spec.percent else 1
        width = 0.0 if point.lo is None or point.hi is None else factor * (point.hi - point.lo) / 2
        text = f"{fixed(factor * y, decimals(width, 3))}{' %' * spec.percent}"
    return f"{text}×" if spec.unit == "×" else text


def with_kind(spec: ChartSpec, kind: Kind | None) -> ChartSpec:
    """The chart as bars or lines, where that is a matter of taste; others stay as they are."""
    return replace(spec, kind=kind) if kind is not None and spec.switchable else spec


def doubling_axes(spec: ChartSpec) -> ChartSpec:
    """The chart with logarithmic axes where sizes double often enough; shares of 1 keep an even y."""
    places = [x for x, _ in spec.x_ticks]
    if not places or min(places) <= 0 or max(places) < WIDE * min(places):
        return spec
    values = [y for each in spec.series for p in each.points for y in (p.y, p.lo) if y is not None]
    return replace(spec, x_log=True, y_log=not spec.percent and bool(values) and min(values) > 0)


def unbroken(spec: ChartSpec, series: Series) -> list[list[Point]]:
    """The series in pieces that a line may join: it never crosses a size that others have and this one lacks."""
    points = sorted(series.points, key=lambda point: point.x)
    if spec.x_axis not in ("counts", "batch") or series.role != "measured":
        return [points]
    own = {point.x for point in points}
    gaps = [x for x, _ in spec.x_ticks if x not in own]
    pieces = [points[:1]]
    for before, after in itertools.pairwise(points):
        if any(before.x < x < after.x for x in gaps):
            pieces.append([])
        pieces[-1].append(after)
    return pieces


def spread(wanted: Sequence[float], size: float) -> list[float]:
    """Places for labels of one `size`, none nearer to the next than that and each as near to `wanted` as can be.

    Labels that would touch become a group, which is centred on what its labels wanted.
    """
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    groups: list[list[int]] = []
    starts: list[float] = []
    for at in order:
        groups.append([at])
        starts.append(wanted[at])
        while len(groups) > 1 and starts[-1] < starts[-2] + size * len(groups[-2]) - 1e-9:
            last = groups.pop()
            starts.pop()
            groups[-1] += last
            middle = math.fsum(wanted[each] for each in groups[-1]) / len(groups[-1])
            starts[-1] = middle - size * (len(groups[-1]) - 1) / 2
    placed = [0.0] * len(wanted)
    for group, start in zip(groups, starts, strict=True):
        for place, at in enumerate(group):
            placed[at] = start + size * place
    return placed


# --------------------------------------------------------------------------- colours


def model_hue(model: str) -> int:
    """The colour slot of a network of the lab, the same in every chart; others have the first that is free."""
    return MODEL_HUES.get(model, 0)


def count_hue(n_gpus: int | None) -> int:
    """The colour slot of a GPU count (0 is the CPU), the same in every chart."""
    return COUNT_HUES.get(-1 if n_gpus is None else n_gpus, OTHER_COUNT_HUE)


def series_hues(spec: ChartSpec) -> tuple[int, ...]:
    """The colour slot of each measured series with marks; of two networks with the same one the later takes a free one.

    Runs on the same GPU count share their colour, and the first epochs of a network have that of the network.
    """
    hues: list[int] = []
    taken: list[int] = []
    for series in spec.measured:
        hollow = all(point.hollow for point in series.points)
        hues.append(series.hue if hollow and series.hue is not None else _hue(series, taken))
        taken += [] if hollow else hues[-1:]
    return tuple(hues)


def _hue(series: Series, taken: Sequence[int]) -> int:
    if series.hue is not None and (series.hue not in taken or series.hue >= CPU_HUE):
        return series.hue
    rest = [hue for hue in (*range(CPU_HUE), *FREE_HUES, *range(HUES)) if hue not in taken]
    return rest[0] if rest else len(taken) % HUES


# --------------------------------------------------------------------------- making charts

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_]+")


def slug(name: str) -> str:
    """A name from a log as a part of a key and a file name: letters, digits and dashes only."""
    return _NOT_PLAIN.sub("-", name).strip("-")[:60] or "unnamed"


def interval_point(
    x: float, value: Interval, *, label: str = "", live: bool = False, hollow: bool = False, mark: str = "±"
) -> Point:
    """A mark with its bounds."""
    return Point(
        x=x, y=value.value, lo=value.lo, hi=value.hi, label=label, live=live, hollow=hollow, mark=mark
    )


def distinct(names: Sequence[str]) -> list[str]:
    """What tells names apart: each without the words that all of them share."""
    parts = [re.split(r", | · | \(", name.removesuffix(")")) for name in names]
    shared = set(parts[0]).intersection(*parts) if len(names) > 1 else set()
    kept = [[word for word in words if word not in shared] for words in parts]
    return [", ".join(mine) or name for mine, name in zip(kept, names, strict=True)]
