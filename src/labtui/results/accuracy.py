"""Accuracy per epoch, the best of it, and how many epochs a target may need.

Accuracy never enters a performance number. The extrapolation is a teaching aid: training curves flatten,
and nobody knows where, so the answer is a band between two shapes of flattening, or none.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from labtui.domain.model import Interval
from labtui.results.forecast import TimeLimit, time_limit
from labtui.results.measured import MeasuredRun, Origin, student_t95
from labtui.results.rows import ResultRow, Results

_NAMES = ("accuracy", "acc", "sparse_categorical_accuracy", "categorical_accuracy", "binary_accuracy")
_PERCENT_NAMES = ("acc@1", "prec@1", "acc1", "top1")
FEWEST_EPOCHS = 3
FARTHEST_EPOCH = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyPoint:
    """Accuracy (fraction of 1) after an epoch, and the line that says so."""

    epoch: int
    accuracy: float
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyCurve:
    """One accuracy metric of one run; `validation` tells the test set's from the training set's."""

    run: MeasuredRun
    metric: str
    validation: bool
    points: tuple[AccuracyPoint, ...]

    @property
    def best(self) -> AccuracyPoint:
        """The highest accuracy, the earliest of equals."""
        return max(self.points, key=lambda point: (point.accuracy, -point.epoch))


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochsForTarget:
    """How many epochs a target accuracy needs.

    `epochs` is the best guess with its band; None when nothing can be said. `open_ended` means that the
    slower shape never gets there within reason, so the band's upper end is no end. `reached` means that it
    was measured.
    """

    target: float
    epochs: Interval | None
    reached: bool
    open_ended: bool
    note: str


def is_accuracy(metric: str) -> bool:
    """Whether a metric is an accuracy, of the training or of the validation set."""
    return metric.removeprefix("val_").casefold() in (*_NAMES, *_PERCENT_NAMES)


def accuracy_curves(run: MeasuredRun) -> tuple[AccuracyCurve, ...]:
    """Training and validation accuracy of a run, for every metric that is one; finite values only."""
    names = dict.fromkeys(name for sample in run.run.epochs for name in sample.metrics)
    curves = []
    for name in names:
        if not is_accuracy(name):
            continue
        scale = 100.0 if name.removeprefix("val_").casefold() in _PERCENT_NAMES else 1.0
        points = tuple(
            AccuracyPoint(epoch=sample.epoch, accuracy=value / scale, origin=run.origin(sample))
            for sample in run.run.epochs
            if math.isfinite(value := sample.metrics.get(name, math.nan))
        )
        if points:
            curves.append(
                AccuracyCurve(run=run, metric=name, validation=name.startswith("val_"), points=points)
            )
    return tuple(curves)


def epochs_for_target(curve: AccuracyCurve, target: float) -> EpochsForTarget:
    """When the curve reaches a target (fraction of 1), measured or extrapolated.

    The remaining error 1 - accuracy is fitted twice by least squares of its logarithm: as exponential
    decay (error falls by a constant factor each epoch: optimistic) and as a power of the epoch
    (pessimistic). The band runs from the earliest to the latest of both with their 95 % slopes; the guess
    is the one that fits better.
    """
    reached = next((point for point in curve.points if point.accuracy >= target), None)
    if reached is not None:
        when = Interval.exact(float(reached.epoch))
        note = f"{100 * target:g} % was reached in epoch {reached.epoch}."
        return EpochsForTarget(target=target, epochs=when, reached=True, open_ended=False, note=note)
    points = [point for point in curve.points if point.epoch >= 1 and point.accuracy < 1]
    if target >= 1:
        return _no_answer(target, "100 % is approached but not reached by either shape of curve.")
    if len(points) < FEWEST_EPOCHS:
        note = f"{len(points)} epochs are too few to extrapolate; run {FEWEST_EPOCHS} or more."
        return _no_answer(target, note)
    return _extrapolate(points, target)


def _no_answer(target: float, note: str) -> EpochsForTarget:
    return EpochsForTarget(target=target, epochs=None, reached=False, open_ended=False, note=note)


@dataclass(frozen=True, slots=True)
class _LinearFit:
    """y = mean_y + slope (x - mean_x), least squares; `margin` is the slope's 95 % half-width."""

    mean_x: float
    mean_y: float
    slope: float
    margin: float
    residual: float

    def meetings(self, y: float) -> list[float]:
        """Where the line meets y: with its slope, then turned about its centre by the margin either way.

        Infinity where it never does, because that slope does not fall.
        """
        slopes = (self.slope, self.slope - self.margin, self.slope + self.margin)
        return [self.mean_x + (y - self.mean_y) / slope if slope < 0 else math.inf for slope in slopes]


def _fit_line(xs: Sequence[float], ys: Sequence[float]) -> _LinearFit:
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    spread = math.fsum((x - mean_x) ** 2 for x in xs)
    slope = math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
    residual = math.fsum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in zip(xs, ys, strict=True))
    degrees = len(xs) - 2
    margin = student_t95(degrees) * math.sqrt(residual / degrees / spread)
    return _LinearFit(mean_x, mean_y, slope, margin, residual)


def _extrapolate(points: Sequence[AccuracyPoint], target: float) -> EpochsForTarget:
    errors = [math.log(1 - point.accuracy) for point in points]
    epochs = [float(point.epoch) for point in points]
    goal = math.log(1 - target)
    decay = _fit_line(epochs, errors)
    power = _fit_line([math.log(epoch) for epoch in epochs], errors)
    if decay.slope >= 0:
        return _no_answer(
            target, "The accuracy does not rise over these epochs: the number of epochs cannot be estimated."
        )
    last = epochs[-1]
    by_decay = decay.meetings(goal)
    by_power = [_exp(log_epoch) for log_epoch in power.meetings(goal)]
    times = [max(last + 1, time) for time in (*by_decay, *by_power)]
    guess = max(last + 1, (by_decay if decay.residual <= power.residual else by_power)[0])
    open_ended = max(times) > FARTHEST_EPOCH
    if guess > FARTHEST_EPOCH:
        return _no_answer(
            target, "The curve flattens too early: this training is not expected to reach the target."
        )
    band = Interval(guess, min(times), min(max(times), FARTHEST_EPOCH))
    note = f"Extrapolated from {len(points)} epochs between exponential and power-law flattening."
    if open_ended:
        note += " The slower shape may never reach it."
    return EpochsForTarget(target=target, epochs=band, reached=False, open_ended=open_ended, note=note)


def _exp(x: float) -> float:
    return math.exp(x) if x < math.log(FARTHEST_EPOCH) + 1 else math.inf


# --------------------------------------------------------------------------- the time limit of a target


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPlan:
    """One accuracy curve, the epochs a target needs, and the time limits to ask for.

    `limit` is for the best guess, `generous` for the band's upper end. They are None without a steady epoch
    time or without an answer; `generous` also when the band is open.
    """

    row: ResultRow
    curve: AccuracyCurve
    needed: EpochsForTarget
    limit: TimeLimit | None
    generous: TimeLimit | None


def target_plans(results: Results, target: float) -> tuple[TargetPlan, ...]:
    """A plan for every accuracy curve of every run; `target` as a fraction of 1."""
    return tuple(
        _plan(row, curve, target)
        for row in results.rows
        for run in row.members
        for curve in accuracy_curves(run)
    )


def _plan(row: ResultRow, curve: AccuracyCurve, target: float) -> TargetPlan:
    needed = epochs_for_target(curve, target)
    limit = generous = None
    if needed.epochs is not None and row.epoch_seconds is not None:
        limit = time_limit(math.ceil(needed.epochs.value), row.epoch_seconds, row.warmup_seconds)
        if not needed.open_ended:
            generous = time_limit(math.ceil(needed.epochs.hi), row.epoch_seconds, row.warmup_seconds)
    return TargetPlan(row=row, curve=curve, needed=needed, limit=limit, generous=generous)
