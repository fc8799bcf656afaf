"""Amdahl's and Gustafson's laws: fits with intervals, Karp-Flatt, and the inputs of each fit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from labtui.domain.model import Interval
from labtui.results.measured import student_t95
from labtui.results.numbers import ratio_text
from labtui.results.rows import Law, LawFit, ResultRow
from labtui.results.scaling import same_batch, scaling_lines

_T = TypeVar("_T")
_OfTimes = Callable[[float, Sequence[float]], _T]
"""A function of T_1 and the times T_n."""


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
    return _ordered(*(_karp_flatt(each, n) for each in (speedup.value, speedup.hi, speedup.lo)))


def _karp_flatt(speedup: float, n: int) -> float:
    return (1 / speedup - 1 / n) / (1 - 1 / n)


def amdahl_speedup(fraction: float, n: float) -> float | None:
    """Speedup on n devices with serial fraction s; None where a negative fraction leaves no time at all."""
    remaining = fraction + (1 - fraction) / n
    return 1 / remaining if remaining > 0 else None


def gustafson_speedup(fraction: float, n: float) -> float:
    """Scaled speedup on n devices with serial fraction s'."""
    return n - fraction * (n - 1)


def fit_amdahl(baseline: ScalingPoint, points: Sequence[ScalingPoint]) -> FittedFraction:
    """Amdahl's s from one or more points beyond the baseline; see `_fit`."""
    weights = [1 - 1 / point.n for point in points]
    offsets = [1 / point.n for point in points]
    norm = math.fsum(weight**2 for weight in weights)

    def fraction(first: float, times: Sequence[float]) -> float:
        terms = (
            weight * (time / first - offset)
            for weight, offset, time in zip(weights, offsets, times, strict=True)
        )
        return math.fsum(terms) / norm

    def slopes(first: float, times: Sequence[float]) -> list[float]:
        by_time = [weight / (first * norm) for weight in weights]
        by_first = -math.fsum(w * t for w, t in zip(weights, times, strict=True)) / (first**2 * norm)
        return [by_first, *by_time]

    return _fit(baseline, points, fraction, slopes)


def fit_gustafson(baseline: ScalingPoint, points: Sequence[ScalingPoint]) -> FittedFraction:
    """Gustafson's s' from one or more points beyond the baseline; see `_fit`."""
    weights = [float(point.n - 1) for point in points]
    sizes = [point.n for point in points]
    norm = math.fsum(weight**2 for weight in weights)

    def fraction(first: float, times: Sequence[float]) -> float:
        terms = (
            weight * (size - first / time) for weight, size, time in zip(weights, sizes, times, strict=True)
        )
        return math.fsum(terms) / norm

    def slopes(first: float, times: Sequence[float]) -> list[float]:
        by_first = -math.fsum(w / t for w, t in zip(weights, times, strict=True)) / norm
        by_time = [w * first / (t**2 * norm) for w, t in zip(weights, times, strict=True)]
        return [by_first, *by_time]

    return _fit(baseline, points, fraction, slopes)


def _fit(
    baseline: ScalingPoint,
    points: Sequence[ScalingPoint],
    fraction: _OfTimes[float],
    slopes: _OfTimes[list[float]],
) -> FittedFraction:
    """The fraction with its interval.

    Both fractions grow with every T_n and shrink with T_1, so the hard bounds are reached at the corners
    of the time intervals. When every mean rests on two or more epochs, the bounds are widened by the 95 %
    interval of the scatter (first-order propagation, Welch-Satterthwaite degrees of freedom, Student's t).
    """
    value = fraction(baseline.seconds.value, [point.seconds.value for point in points])
    lo = fraction(baseline.seconds.hi, [point.seconds.lo for point in points])
    hi = fraction(baseline.seconds.lo, [point.seconds.hi for point in points])
    margin = _scatter_margin(
        [baseline, *points], slopes(baseline.seconds.value, [p.seconds.value for p in points])
    )
    widened = _ordered(value, lo - (margin or 0.0), hi + (margin or 0.0))
    return FittedFraction(widened, scatter_known=margin is not None)


def _scatter_margin(points: Sequence[ScalingPoint], slopes: Sequence[float]) -> float | None:
    """Half-width of the 95 % interval from the scatter of epochs; None when a mean's scatter is unknown."""
    variance, denominator = 0.0, 0.0
    for point, slope in zip(points, slopes, strict=True):
        if point.standard_error is None:
            return None
        part = (slope * point.standard_error) ** 2
        variance += part
        denominator += part**2 / (point.count - 1)
    if denominator == 0:
        return 0.0
    return student_t95(variance**2 / denominator) * math.sqrt(variance)


def _ordered(value: float, lo: float, hi: float) -> Interval:
    """An interval whose bounds were computed apart from its value, safe against the last rounding."""
    return Interval(value, min(lo, value), max(hi, value))


_GAIN = 1.02
"""A speedup that grows by less than this is no gain worth the GPUs."""
_SAME = 1e-9
"""Fractions closer than this differ by rounding only."""
_FITTERS: dict[Law, Callable[[ScalingPoint, Sequence[ScalingPoint]], FittedFraction]] = {
    "amdahl": fit_amdahl,
    "gustafson": fit_gustafson,
}


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
    fitted = _FITTERS[law](_point(base), [_point(row) for row in rows])
    missed = _disagreement(law, fitted.fraction.value, rows)
    counts = (1, *(row.n_gpus or 0 for row in rows))
    return LawFit(
        model=base.model,
        law=law,
        serial_fraction=fitted.fraction,
        points=len(counts),
        n_gpus=counts,
        remarks=_remarks(law, fitted, base, rows, missed),
        baseline=base.configuration,
        disagreement=missed,
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


def law_speedup(law: Law, fraction: float, n: float) -> float | None:
    """Speedup by a law on n GPUs; None where a negative fraction leaves Amdahl's law without a time."""
    return amdahl_speedup(fraction, n) if law == "amdahl" else gustafson_speedup(fraction, n)


def _disagreement(law: Law, fraction: float, rows: Sequence[ResultRow]) -> float:
    distances = [
        abs(row.speedup.value - expected)
        for row in rows
        if row.speedup and row.n_gpus and (expected := law_speedup(law, fraction, row.n_gpus)) is not None
    ]
    return max(distances, default=0.0)


def _remarks(
    law: Law, fitted: FittedFraction, base: ResultRow, rows: Sequence[ResultRow], missed: float
) -> tuple[str, ...]:
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
        f"The law misses the measured speedup by up to {ratio_text(missed)}.": missed >= 0.05,
        "Computed from throughput: the epoch keeps its size here, and only the global batch grows with the GPUs.": (
            law == "gustafson" and not rates
        ),
        "The per-GPU batch is not the same at every size.": not all(same_batch(row, base) for row in rows),
    }
    return tuple(text for text, holds in remarks.items() if text and holds)


def _bend_sentence(base: ResultRow, rows: Sequence[ResultRow]) -> str:
    """Whether the Karp-Flatt fraction moves with the GPU count by more than printing and scatter explain."""
    first, last = (fit_amdahl(_point(base), [_point(row)]).fraction for row in (rows[0], rows[-1]))
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
