"""Amdahl's and Gustafson's laws: fits with intervals, Karp-Flatt, predictions, and the inputs of each fit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from labtui.domain.model import Interval
from labtui.results.measured import student_t95
from labtui.results.rows import Law, LawFit, ResultRow

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


class Family(NamedTuple):
    """A baseline and the rows measured against it, one per GPU count above 1, in rising order."""

    baseline: ResultRow
    rows: tuple[ResultRow, ...]


def families(rows: Sequence[ResultRow]) -> tuple[Family, ...]:
    """Rows grouped by their baseline; of several with one GPU count, the one with the baseline's batch."""
    found = []
    for baseline in rows:
        if baseline.baseline != baseline.configuration or baseline.speedup is None:
            continue
        by_count: dict[int, ResultRow] = {}
        for row in rows:
            if row.baseline != baseline.configuration or row.speedup is None or not row.n_gpus:
                continue
            if row.from_rate != baseline.from_rate:
                continue
            if row.n_gpus > 1 and (row.n_gpus not in by_count or same_batch(row, baseline)):
                by_count[row.n_gpus] = row
        found.append(Family(baseline, tuple(by_count[n] for n in sorted(by_count))))
    return tuple(found)


def same_batch(row: ResultRow, baseline: ResultRow) -> bool:
    return row.configuration.per_gpu_batch == baseline.configuration.per_gpu_batch


def fit_laws(rows: Sequence[ResultRow]) -> tuple[LawFit, ...]:
    """Amdahl and Gustafson for every family with more than one GPU count; one count alone has no law."""
    return tuple(
        _fit_family(law, family)
        for family in families(rows)
        if family.rows
        for law in ("amdahl", "gustafson")
    )


def _fit_family(law: Law, family: Family) -> LawFit:
    fitted = _FITTERS[law](_point(family.baseline), [_point(row) for row in family.rows])
    missed = _disagreement(law, fitted.fraction.value, family.rows)
    counts = (1, *(row.n_gpus or 0 for row in family.rows))
    return LawFit(
        model=family.baseline.model,
        law=law,
        serial_fraction=fitted.fraction,
        points=len(counts),
        n_gpus=counts,
        remarks=_remarks(law, fitted, family, missed),
        baseline=family.baseline.configuration,
        scatter_known=fitted.scatter_known,
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


def _remarks(law: Law, fitted: FittedFraction, family: Family, missed: float) -> tuple[str, ...]:
    sentences = [_points_sentence(family.rows)]
    if fitted.fraction.hi < 0:
        sentences.append("The fraction is negative: faster than that many GPUs should be (superlinear).")
    elif fitted.fraction.lo < 0:
        sentences.append(
            "The interval reaches below zero: a serial part cannot be distinguished from the uncertainty."
        )
    if not fitted.scatter_known:
        sentences.append(
            "The interval covers the rounding of the printed times, not the scatter between epochs: one "
            "size has a single epoch."
        )
    sentences.append(_bend_sentence(family))
    sentences.append(_gain_sentence(family))
    if missed >= 0.05:
        sentences.append(f"The law misses the measured speedup by up to {missed:.2f}.")
    if law == "gustafson" and not all(row.from_rate for row in family.rows):
        sentences.append(
            "Computed from throughput: the epoch keeps its size here, and only the global batch grows with the GPUs."
        )
    if not all(same_batch(row, family.baseline) for row in family.rows):
        sentences.append("The per-GPU batch is not the same at every size.")
    return tuple(filter(None, sentences))


def _points_sentence(rows: Sequence[ResultRow]) -> str:
    """What so few points can say; nothing from five sizes on."""
    if len(rows) == 1:
        return (
            "One size beyond the baseline gives a fraction by arithmetic; it cannot show that the law holds."
        )
    if len(rows) <= 3:
        return f"{len(rows) + 1} sizes are too few to determine a law: the fraction is a summary, not a forecast."
    return ""


def _bend_sentence(family: Family) -> str:
    """Whether the Karp-Flatt fraction moves with the GPU count by more than printing and scatter explain."""
    if len(family.rows) < 2:
        return ""
    first, last = (
        fit_amdahl(_point(family.baseline), [_point(row)]).fraction
        for row in (family.rows[0], family.rows[-1])
    )
    if last.lo > first.hi + _SAME:
        return "The Karp-Flatt fraction rises with the GPUs: there is a cost that grows with them."
    if last.hi < first.lo - _SAME:
        return "The Karp-Flatt fraction falls with the GPUs: the loss is not one constant serial part."
    return ""


def _gain_sentence(family: Family) -> str:
    """Whether a step to more GPUs brought nothing: the work is too small to be shared further."""
    for fewer, more in itertools.pairwise((family.baseline, *family.rows)):
        if fewer.speedup and more.speedup and more.speedup.value < fewer.speedup.value * _GAIN:
            return (
                f"Going from {fewer.n_gpus} to {more.n_gpus} GPUs gained nothing: "
                "the work is too small to be split across so many."
            )
    return ""
