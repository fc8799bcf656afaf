"""Laws and predictions for the rows that share a baseline, with what a few points can and cannot say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from labtui.core.interval import Interval
from labtui.core.results import laws
from labtui.core.results.laws import FittedFraction, ScalingPoint
from labtui.core.results.rows import Configuration, Law, LawFit, Prediction, ResultRow

_GAIN = 1.02
"""A speedup that grows by less than this is no gain worth the GPUs."""
_SAME = 1e-9
"""Fractions closer than this differ by rounding only."""
_FITTERS: dict[Law, Callable[[ScalingPoint, Sequence[ScalingPoint]], FittedFraction]] = {
    "amdahl": laws.fit_amdahl,
    "gustafson": laws.fit_gustafson,
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
            if row.n_gpus > 1 and (row.n_gpus not in by_count or _same_batch(row, baseline)):
                by_count[row.n_gpus] = row
        found.append(Family(baseline, tuple(by_count[n] for n in sorted(by_count))))
    return tuple(found)


def _same_batch(row: ResultRow, baseline: ResultRow) -> bool:
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
    assert row.n_gpus is not None and row.epoch_seconds is not None  # noqa: S101 - families hold measured rows
    return ScalingPoint(
        n=row.n_gpus,
        seconds=row.epoch_seconds,
        standard_error=row.scatter.standard_error if row.scatter else None,
        count=row.scatter.count if row.scatter else 1,
    )


def law_speedup(law: Law, fraction: float, n: float) -> float | None:
    """Speedup by a law on n GPUs; None where a negative fraction leaves Amdahl's law without a time."""
    return laws.amdahl_speedup(fraction, n) if law == "amdahl" else laws.gustafson_speedup(fraction, n)


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
        sentences.append("The interval reaches below zero: no serial part can be told from the uncertainty.")
    if not fitted.scatter_known:
        sentences.append(
            "The interval covers what printing hides, not how epochs scatter: a size has one epoch only."
        )
    sentences.append(_bend_sentence(family))
    sentences.append(_gain_sentence(family))
    if missed >= 0.05:
        sentences.append(f"The law misses the measured speedup by up to {missed:.2f}.")
    if law == "gustafson" and not all(row.from_rate for row in family.rows):
        sentences.append(
            "Read from throughput: the epoch keeps its size here, only the global batch grows with the GPUs."
        )
    if not all(_same_batch(row, family.baseline) for row in family.rows):
        sentences.append("The per-GPU batch is not the same at every size.")
    return tuple(filter(None, sentences))


def _points_sentence(rows: Sequence[ResultRow]) -> str:
    """What so few points can say; nothing from five sizes on."""
    if len(rows) == 1:
        return (
            "One size beyond the baseline gives a fraction by arithmetic; it cannot show that the law holds."
        )
    if len(rows) <= 3:
        return f"{len(rows) + 1} sizes are too few to pin a law: the fraction is a summary, no forecast."
    return ""


def _bend_sentence(family: Family) -> str:
    """Whether the Karp-Flatt fraction moves with the GPU count by more than printing and scatter explain."""
    if len(family.rows) < 2:
        return ""
    first, last = (
        laws.fit_amdahl(_point(family.baseline), [_point(row)]).fraction
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
                "the work is too small to be shared among so many."
            )
    return ""


# --------------------------------------------------------------------------- what more GPUs would bring


def predict(rows: Sequence[ResultRow], fits: Sequence[LawFit], *, n_gpus: int) -> tuple[Prediction, ...]:
    """A band for `n_gpus` from both laws, for every family that does not already have a measurement there."""
    predictions = []
    for family in families(rows):
        if not family.rows or n_gpus <= (family.rows[-1].n_gpus or 0):
            continue
        mine = {fit.law: fit for fit in fits if fit.baseline == family.baseline.configuration}
        if prediction := _predict(family, mine["amdahl"], mine["gustafson"], n_gpus):
            predictions.append(prediction)
    return tuple(predictions)


def _predict(family: Family, amdahl: LawFit, gustafson: LawFit, n: int) -> Prediction | None:
    expected = laws.amdahl_speedup(amdahl.serial_fraction.value, n)
    ends = [
        laws.amdahl_speedup(amdahl.serial_fraction.lo, n),
        laws.amdahl_speedup(amdahl.serial_fraction.hi, n),
        laws.gustafson_speedup(gustafson.serial_fraction.lo, n),
        laws.gustafson_speedup(gustafson.serial_fraction.hi, n),
    ]
    known = [end for end in ends if end is not None and math.isfinite(end)]
    if expected is None or len(known) < len(ends) or min(known) <= 0:
        return None  # a strongly negative fraction: the law gives no time at all there
    speedup = Interval(expected, min(expected, *known), max(expected, *known))
    first = family.baseline
    return Prediction(
        model=first.model,
        n_gpus=n,
        speedup=speedup,
        efficiency=speedup.scaled(1 / n),
        epoch_seconds=first.epoch_seconds.over(speedup) if first.epoch_seconds else None,
        throughput=_times(first.throughput, speedup) if first.throughput else None,
        batch_ceiling=batch_ceiling(first.configuration, n),
        note=(
            f"Beyond what was measured ({family.rows[-1].n_gpus} GPUs): a band from Amdahl's low end to "
            "Gustafson's high end. A second node would add its network, which neither law knows."
        ),
        baseline=first.configuration,
    )


def _times(one: Interval, other: Interval) -> Interval:
    """Product of two positive intervals."""
    return Interval(one.value * other.value, one.lo * other.lo, one.hi * other.hi)


def batch_ceiling(baseline: Configuration, n: int) -> float | None:
    """The efficiency that the whole number of steps allows on n GPUs with the baseline's per-GPU batch."""
    if not baseline.batch_size:
        return None
    steps = math.ceil(baseline.images / baseline.batch_size)
    steps_n = math.ceil(baseline.images / (baseline.batch_size * n))
    return steps / steps_n / n
