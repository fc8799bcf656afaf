"""Amdahl's and Gustafson's laws: fits with intervals, Karp-Flatt, and the inputs of each fit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from labtui.domain.model import Interval
from labtui.results.rows import Law, LawFit, ResultRow
from labtui.results.scaling import same_batch, scaling_lines


@dataclass(frozen=True, slots=True)
class ScalingPoint:
    """Mean epoch time on `n` devices, and how well it is known.

    `seconds` holds what printing hides. `standard_error` is the scatter of the mean over `count` epochs, None
    when a single epoch leaves it unknown.
    """

    n: int
    seconds: Interval
    standard_error: float | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class FittedFraction:
    """A law's fraction and whether its interval covers the scatter of epochs (95 %)."""

    fraction: Interval
    scatter_known: bool


def karp_flatt(speedup: Interval, n: int) -> Interval | None:
    """The experimentally determined serial fraction; None for one device, where it has no meaning."""
    if n < 2:
        return None
    # A larger speedup means a smaller fraction, so the bounds change places.
    return _ordered(*((1 / each - 1 / n) / (1 - 1 / n) for each in (speedup.value, speedup.hi, speedup.lo)))


def law_speedup(law: Law, fraction: float, n: float) -> float | None:
    """Speedup by a law on n GPUs; None where a negative fraction leaves Amdahl's law without a time."""
    if law == "gustafson":
        return n - fraction * (n - 1)
    remaining = fraction + (1 - fraction) / n
    return 1 / remaining if remaining > 0 else None


def _fraction(law: Law, sizes: Sequence[int], first: float, times: Sequence[float]) -> float:
    """The fraction of a law that is linear in it, by least squares through its value on one GPU."""
    if law == "amdahl":  # T_n / T_1 - 1/n = s (1 - 1/n)
        pairs = [(1 - 1 / n, time / first - 1 / n) for n, time in zip(sizes, times, strict=True)]
    else:  # n - S_n = s' (n - 1)
        pairs = [(n - 1, n - first / time) for n, time in zip(sizes, times, strict=True)]
    return math.fsum(x * y for x, y in pairs) / math.fsum(x**2 for x, _ in pairs)


_STEP = 1e-6


def fit(law: Law, baseline: ScalingPoint, points: Sequence[ScalingPoint]) -> FittedFraction:
    """The fraction with its interval, from one or more points beyond the baseline.

    Both fractions grow with every T_n and shrink with T_1, so the hard bounds are reached at the corners
    of the time intervals. When every mean rests on two or more epochs, the bounds are widened by the 95 %
    interval of the scatter (first-order propagation, Welch-Satterthwaite degrees of freedom, Student's t).
    """
    sizes = [point.n for point in points]
    means = [point.seconds.value for point in (baseline, *points)]

    def at(times: Sequence[float]) -> float:
        return _fraction(law, sizes, times[0], times[1:])

    variance, denominator, known = 0.0, 0.0, True
    for place, point in enumerate((baseline, *points)):
        known = known and point.standard_error is not None
        up, down = ([t * (1 + step * (i == place)) for i, t in enumerate(means)] for step in (_STEP, -_STEP))
        slope = (at(up) - at(down)) / (2 * _STEP * means[place])
        part = (slope * (point.standard_error or 0.0)) ** 2
        variance += part
        denominator += part**2 / max(1, point.count - 1)
    margin = student_t95(variance**2 / denominator) * math.sqrt(variance) if known and denominator else 0.0
    lo = at([baseline.seconds.hi, *(point.seconds.lo for point in points)])
    hi = at([baseline.seconds.lo, *(point.seconds.hi for point in points)])
    return FittedFraction(_ordered(at(means), lo - margin, hi + margin), scatter_known=known)


# Two-sided 95 % quantiles of Student's t for 1..30 degrees of freedom.
_T95 = (
    12.706204736, 4.302652730, 3.182446305, 2.776445105, 2.570581836, 2.446911851, 2.364624252, 2.306004135,
    2.262157163, 2.228138852, 2.200985160, 2.178812830, 2.160368656, 2.144786688, 2.131449546, 2.119905299,
    2.109815578, 2.100922040, 2.093024054, 2.085963447, 2.079613845, 2.073873068, 2.068657610, 2.063898562,
    2.059538553, 2.055529439, 2.051830516, 2.048407142, 2.045229642, 2.042272456,
)  # fmt: skip


def student_t95(degrees: float) -> float:
    """Two-sided 95 % quantile of Student's t; rounded down to a whole degree, which can only widen an interval."""
    return _T95[min(max(1, math.floor(degrees)), len(_T95)) - 1]


def _ordered(value: float, lo: float, hi: float) -> Interval:
    """An interval whose bounds were computed apart from its value, safe against the last rounding."""
    return Interval(value, min(lo, value), max(hi, value))


_GAIN = 1.02
"""A speedup that grows by less than this is no gain worth the GPUs."""
_SAME = 1e-9
"""Fractions closer than this differ by rounding only."""

FEWEST_SIZES = 3
"""Sizes that a law is fitted to, one GPU among them; through two any law goes."""


def fit_laws(rows: Sequence[ResultRow]) -> tuple[LawFit, ...]:
    """Amdahl and Gustafson for every line that was measured on three sizes or more."""
    return tuple(
        _fit_line(law, base, line.beyond)
        for line in scaling_lines(rows)
        if (base := line.baseline) is not None and len(line.beyond) + 1 >= FEWEST_SIZES
        for law in ("amdahl", "gustafson")
    )


def _fit_line(law: Law, base: ResultRow, rows: Sequence[ResultRow]) -> LawFit:
    fitted = fit(law, _point(base), [_point(row) for row in rows])
    counts = (1, *(row.n_gpus or 0 for row in rows))
    return LawFit(
        law=law,
        serial_fraction=fitted.fraction,
        points=len(counts),
        n_gpus=counts,
        remarks=_remarks(law, fitted, base, rows),
        baseline=base.configuration,
    )


def _point(row: ResultRow) -> ScalingPoint:
    seconds = row.work_seconds
    assert row.n_gpus is not None and seconds is not None  # noqa: S101 - families hold measured rows
    return ScalingPoint(
        n=row.n_gpus,
        seconds=seconds,
        standard_error=row.scatter.standard_error if row.scatter else None,
        count=row.scatter.count if row.scatter else 1,
    )


def _remarks(law: Law, fitted: FittedFraction, base: ResultRow, rows: Sequence[ResultRow]) -> tuple[str, ...]:
    """What the points cannot show, and where the law does not hold."""
    below = fitted.fraction.hi < 0
    rates = all(row.from_rate for row in rows)
    remarks = {
        f"{len(rows) + 1} sizes are too few to determine a law: the fraction is a summary, not a forecast.": (
            len(rows) <= 3
        ),
        "The fraction is negative: faster than that many GPUs should be (superlinear).": below,
        "The interval reaches below zero: a serial part cannot be distinguished from the uncertainty.": (
            fitted.fraction.lo < 0 and not below
        ),
        "The interval covers the rounding of the printed times, not the scatter between epochs: one "
        "size has a single epoch.": not fitted.scatter_known,
        _bend_sentence(base, rows): True,
        _gain_sentence((base, *rows)): True,
        "Computed from throughput: the epoch keeps its size here, and only the global batch grows with the GPUs.": (
            law == "gustafson" and not rates
        ),
        "The per-GPU batch is not the same at every size.": not all(same_batch(row, base) for row in rows),
    }
    return tuple(text for text, holds in remarks.items() if text and holds)


def _bend_sentence(base: ResultRow, rows: Sequence[ResultRow]) -> str:
    """Whether the Karp-Flatt fraction moves with the GPU count by more than printing and scatter explain."""
    first, last = (fit("amdahl", _point(base), [_point(row)]).fraction for row in (rows[0], rows[-1]))
    if last.lo > first.hi + _SAME:
        return "The Karp-Flatt fraction rises with the GPUs: there is a cost that grows with them."
    if last.hi < first.lo - _SAME:
        return "The Karp-Flatt fraction falls with the GPUs: the loss is not one constant serial part."
    return ""


def _gain_sentence(rows: Sequence[ResultRow]) -> str:
    """Whether a step to more GPUs brought nothing."""
    for fewer, more in itertools.pairwise(rows):
        if fewer.speedup and more.speedup and more.speedup.value < fewer.speedup.value * _GAIN:
            return (
                f"Going from {fewer.n_gpus} to {more.n_gpus} GPUs gained nothing: "
                "the work is too small to be split across so many."
            )
    return ""
