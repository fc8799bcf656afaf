"""Accuracy per epoch, and the best of it. It never enters a performance number."""

from __future__ import annotations

import math
from dataclasses import dataclass

from labtui.results.measured import MeasuredRun, Origin
from labtui.results.rows import Results

_NAMES = ("accuracy", "acc", "sparse_categorical_accuracy", "categorical_accuracy", "binary_accuracy")
_PERCENT_NAMES = ("acc@1", "prec@1", "acc1", "top1")


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


def is_accuracy(metric: str) -> bool:
    """Whether a metric is an accuracy, of the training or of the validation set."""
    return metric.removeprefix("val_").casefold() in (*_NAMES, *_PERCENT_NAMES)


def accuracy_curves(run: MeasuredRun) -> tuple[AccuracyCurve, ...]:
    """Training and validation accuracy of a run, for every metric that is one; finite values only."""
    curves = []
    for name in dict.fromkeys(
        name for sample in run.run.epochs for name in sample.metrics if is_accuracy(name)
    ):
        whole = 100.0 if name.removeprefix("val_").casefold() in _PERCENT_NAMES else 1.0
        points = tuple(
            AccuracyPoint(epoch=sample.epoch, accuracy=value / whole, origin=run.origin(sample))
            for sample in run.run.epochs
            if math.isfinite(value := sample.metrics.get(name, math.nan))
        )
        curves.append(AccuracyCurve(run=run, metric=name, validation=name.startswith("val_"), points=points))
    return tuple(curve for curve in curves if curve.points)


def best_curve(results: Results) -> AccuracyCurve | None:
    """The accuracy metric of one run that came highest."""
    curves = (curve for row in results.rows for run in row.members for curve in accuracy_curves(run))
    return max(curves, key=lambda curve: curve.best.accuracy, default=None)
