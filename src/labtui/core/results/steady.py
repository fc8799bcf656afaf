"""From epoch samples to the steady epoch time and its uncertainty.

Two kinds of uncertainty are kept apart. The *interval* says what the printing hides: each epoch's true
time lies in its bounds, so the true mean lies between the mean of the lower and the mean of the upper
bounds - a hard bound, not a probability. The *scatter* (standard deviation) says how much epochs differ
from one another.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from labtui.core.interval import Interval
from labtui.core.model import EpochSample
from labtui.core.results.measured import MeasuredRun

# Two-sided 95 % quantiles of Student's t for 1..30 degrees of freedom; beyond, the asymptotic form below.
_T95 = (
    12.706204736, 4.302652730, 3.182446305, 2.776445105, 2.570581836, 2.446911851, 2.364624252, 2.306004135,
    2.262157163, 2.228138852, 2.200985160, 2.178812830, 2.160368656, 2.144786688, 2.131449546, 2.119905299,
    2.109815578, 2.100922040, 2.093024054, 2.085963447, 2.079613845, 2.073873068, 2.068657610, 2.063898562,
    2.059538553, 2.055529439, 2.051830516, 2.048407142, 2.045229642, 2.042272456,
)  # fmt: skip
_Z95 = 1.959963985

SHORTEST = 1e-9
"""Times (s) and rates (1/s) whose lower bound is below this are zero for us: nothing is divided by them."""


def is_warmup(run: MeasuredRun, sample: EpochSample) -> bool:
    """Whether a sample is its run's first epoch, which pays for start-up and is never counted as steady.

    Trainers count from 0 or from 1; a run that was read from a later epoch on has no warm-up in the log.
    """
    first = min(other.epoch for other in run.run.epochs)
    return sample.epoch == first and first <= 1


def steady_samples(run: MeasuredRun) -> tuple[EpochSample, ...]:
    """The epochs of a run that count: all but the first."""
    return tuple(sample for sample in run.run.epochs if not is_warmup(run, sample))


def warmup_sample(run: MeasuredRun) -> EpochSample | None:
    """The first epoch of a run, if the log has it."""
    return next((sample for sample in run.run.epochs if is_warmup(run, sample)), None)


def mean_interval(intervals: Sequence[Interval]) -> Interval | None:
    """Mean of the values inside the mean of the bounds; None for nothing."""
    if not intervals:
        return None
    count = len(intervals)
    lo = math.fsum(each.lo for each in intervals) / count
    hi = math.fsum(each.hi for each in intervals) / count
    value = math.fsum(each.value for each in intervals) / count
    return Interval(min(max(value, lo), hi), lo, hi)  # the division may round a bound past the value


@dataclass(frozen=True, slots=True)
class Scatter:
    """How much epochs differ: sample standard deviation in seconds over `count` epochs (at least two)."""

    deviation: float
    count: int

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, in seconds."""
        return self.deviation / math.sqrt(self.count)


def scatter_of(values: Sequence[float]) -> Scatter | None:
    """The scatter of two or more values, None for fewer."""
    return Scatter(statistics.stdev(values), len(values)) if len(values) >= 2 else None


def student_t95(degrees: float) -> float:
    """Two-sided 95 % quantile of Student's t.

    Fractional degrees of freedom (Welch-Satterthwaite) are rounded down, which can only widen an interval.
    Above 30 the Cornish-Fisher expansion in 1/degrees is used (error below 1e-4).
    """
    whole = max(1, math.floor(degrees))
    if whole <= len(_T95):
        return _T95[whole - 1]
    z = _Z95
    return (
        z
        + (z**3 + z) / (4 * whole)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * whole**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * whole**3)
    )
