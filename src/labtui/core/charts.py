"""`ChartSpec`: a chart as pure data, drawn by plotext on the screen, matplotlib in files, PowerPoint in the deck.

Only finite numbers enter a chart, and its limits contain its data: `Series` and `ChartSpec` refuse others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["bars", "lines"]

SWITCHABLE = ("epoch-time", "throughput", "speedup", "efficiency", "first-epoch")
"""Charts against the GPU count, which can be bars or lines (their keys begin so; lost efficiency stays bars)."""
_PARTS = "efficiency-loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One mark: `x` (GPUs, epoch ...) and `y` with its bounds, in the axis's unit.

    `hollow` marks a warm-up epoch, `live` a run still in progress.
    """

    x: float
    y: float
    lo: float | None = None
    hi: float | None = None
    hollow: bool = False
    live: bool = False
    label: str = ""

    def __post_init__(self) -> None:
        for number in (self.x, self.y, self.lo, self.hi):
            if number is not None and not math.isfinite(number):
                raise ValueError("a chart holds finite numbers only")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Marks of one thing. `role` tells measured data from the ideal line, a fit or a fit's band."""

    name: str
    points: tuple[Point, ...]
    role: Literal["measured", "ideal", "fit", "band", "reference"] = "measured"


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
