"""`ChartSpec`: a chart as pure data, drawn by plotext on the screen, matplotlib in files, PowerPoint in the deck.

Only finite numbers enter a chart, and its limits contain its data: `Series` and `ChartSpec` refuse others.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["bars", "lines"]

SWITCHABLE = ("epoch-time", "throughput", "speedup", "efficiency", "first-epoch")
"""Charts against the GPU count, which can be bars or lines (their keys begin so; lost efficiency stays bars)."""
_PARTS = "efficiency-loss"


MODEL_HUES = {"ResNet50": 0, "ResNet152": 1, "ResNet101": 2}
"""Colour slots of the networks of the lab; slot 3 and a name's hash serve the others."""
CPU_HUE = 4
COUNT_HUES = {1: 5, 2: 6, 4: 7}
"""Colour slots of GPU counts; every other count has `OTHER_COUNT_HUE`."""
OTHER_COUNT_HUE = 8
FREE_HUES = (9, 10, 11, 12)
"""Colour slots of series that are neither a network nor a GPU count: parts of a bar, single GPUs."""
HUES = 13
"""How many colours a palette has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One mark: `x` (GPUs, epoch ...) and `y` with its bounds, in the axis's unit.

    `hollow` marks a warm-up epoch, `live` a run still in progress. `mark` says what the bounds are: ``±`` what the
    printed digits leave open, ``σ`` the scatter between epochs.
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
    """Marks of one thing. `role` tells measured data from the ideal line, a fit or a fit's band.

    `hue` is the colour slot of the network or GPU count that the marks belong to; None: that of its place.
    """

    name: str
    points: tuple[Point, ...]
    role: Literal["measured", "ideal", "fit", "band", "reference"] = "measured"
    hue: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSpec:
    """A whole chart. `key` is stable (``speedup``, ``epoch-time`` ...), used for file names and lookups.

    `x_ticks` are the measured positions with their labels. `notes` are sentences shown under the chart.
    `practice` puts the practice mark on it. `percent`: the y values are fractions of 1, shown as percent.
    """

    key: str
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    kind: Kind = "lines"
    x_ticks: tuple[tuple[float, str], ...] = ()
    y_min: float | None = 0.0
    y_max: float | None = None
    percent: bool = False
    notes: tuple[str, ...] = ()
    practice: bool = False

    @property
    def empty(self) -> bool:
        """Whether there is nothing measured to draw."""
        return not any(series.points for series in self.series if series.role == "measured")


def switchable(spec: ChartSpec) -> bool:
    """Whether bars or lines is a matter of taste for this chart."""
    return spec.key.startswith(SWITCHABLE) and not spec.key.startswith(_PARTS)


def with_kind(spec: ChartSpec, kind: Kind | None) -> ChartSpec:
    """The chart as bars or lines, where that is a matter of taste; others stay as they are."""
    return replace(spec, kind=kind) if kind is not None and switchable(spec) else spec


def stacked(spec: ChartSpec) -> bool:
    """Whether the bars are parts of a whole: shares that add up to 1, none of them negative."""
    parts = [each for each in spec.series if each.points and each.role in ("measured", "reference")]
    if not spec.key.startswith(_PARTS) or len(parts) < 2:
        return False
    return all(point.y >= -1e-9 for series in parts for point in series.points)


def model_hue(model: str) -> int:
    """The colour slot of a network, the same in every chart."""
    return MODEL_HUES.get(model, zlib.crc32(model.encode()) % 4)


def count_hue(n_gpus: int | None) -> int:
    """The colour slot of a GPU count (0 is the CPU), the same in every chart."""
    if n_gpus == 0:
        return CPU_HUE
    return COUNT_HUES.get(n_gpus or -1, OTHER_COUNT_HUE)


def series_hues(spec: ChartSpec) -> tuple[int, ...]:
    """The colour slot of each measured series with marks; of two networks with the same one the later takes a free one.

    Runs on the same GPU count share their colour; their marks differ.

    A slot is an index into a palette of `HUES` colours; screen, plots and deck take theirs from here.
    """
    hues: list[int] = []
    taken: list[int] = []
    for series in spec.series:
        if series.role == "measured" and series.points:
            hollow = all(
                point.hollow for point in series.points
            )  # the first epochs of a network stay in its colour
            hues.append(series.hue if hollow and series.hue is not None else _hue(series, taken))
            taken += [] if hollow else hues[-1:]
    return tuple(hues)


def _hue(series: Series, taken: Sequence[int]) -> int:
    if series.hue is not None and (series.hue not in taken or series.hue >= CPU_HUE):
        return series.hue
    rest = [hue for hue in (*FREE_HUES, *range(HUES)) if hue not in taken]
    return rest[0] if rest else len(taken) % HUES
