"""Scaling laws for one configuration and for several: Karp-Flatt, Amdahl, Gustafson.

Sources: G. Amdahl, AFIPS 1967; J. Gustafson, CACM 31(5), 1988; A. Karp and H. Flatt, CACM 33(5), 1990.

With S the measured speedup on n devices,

    Karp-Flatt   e_n = (1/S - 1/n) / (1 - 1/n)
    Amdahl       1/S = s + (1 - s)/n       so   1/S - 1/n = s (1 - 1/n)
    Gustafson    S = n - s' (n - 1)        so   n - S = s' (n - 1)

Both fits are least squares of the right-hand forms, lines through the origin in one unknown. Nothing is
clipped: a fraction below zero says that the run was faster than n devices should be (superlinear).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from labtui.core.interval import Interval
from labtui.core.results.steady import student_t95

_T = TypeVar("_T")
_OfTimes = Callable[[float, Sequence[float]], _T]
"""A function of T_1 and the times T_n."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
