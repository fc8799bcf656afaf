"""`ChartSpec`: a chart as pure data, drawn by plotext on the screen, matplotlib in files, PowerPoint in the deck.

Only finite numbers enter a chart, and its limits contain its data: `Series` and `ChartSpec` refuse others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Kind = Literal["bars", "lines"]


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
