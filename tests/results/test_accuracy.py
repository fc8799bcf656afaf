"""Accuracy curves and the epochs a target needs."""

from __future__ import annotations

import math
from dataclasses import replace

from labtui.results.accuracy import accuracy_curves
from labtui.results.measured import MeasuredRun

from .helpers import epoch, run


def curve_of(values, name="accuracy"):
    epochs = tuple(
        epoch(number, 5, metrics={name: value, "loss": 1.0}, line=number)
        for number, value in enumerate(values, start=1)
    )
    (curve,) = accuracy_curves(MeasuredRun(run=replace(run(1, [1]).run, epochs=epochs), source="a.out"))
    return curve


def test_validation_is_a_curve_of_its_own_and_percent_is_a_fraction():
    epochs = (
        epoch(1, 5, metrics={"accuracy": 0.5, "val_accuracy": 0.4, "val_acc1": 40.0, "top_5_accuracy": 0.9}),
    )
    curves = accuracy_curves(MeasuredRun(run=replace(run(1, [1]).run, epochs=epochs)))
    assert [(curve.metric, curve.validation, curve.points[0].accuracy) for curve in curves] == [
        ("accuracy", False, 0.5),
        ("val_accuracy", True, 0.4),
        ("val_acc1", True, 0.4),
    ]


def test_values_that_are_no_numbers_are_left_out():
    assert [point.epoch for point in curve_of([0.1, math.nan, 0.3]).points] == [1, 3]
