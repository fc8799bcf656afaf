"""Accuracy curves and the epochs a target needs."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from labtui.results.accuracy import accuracy_curves, epochs_for_target
from labtui.results.measured import MeasuredRun

from .helpers import epoch, read_logs, run


def curve_of(values, name="accuracy"):
    epochs = tuple(
        epoch(number, 5, metrics={name: value, "loss": 1.0}, line=number)
        for number, value in enumerate(values, start=1)
    )
    (curve,) = accuracy_curves(MeasuredRun(run=replace(run(1, [1]).run, epochs=epochs), source="a.out"))
    return curve


def test_published_accuracies_with_their_lines():
    (curve,) = accuracy_curves(read_logs("ResNet50_seq_GPU.31336.out")[0])
    assert [(point.accuracy, point.origin.line) for point in curve.points] == [(0.2561, 2), (0.3712, 4)]
    assert curve.best.epoch == 2 and not curve.validation


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


def test_a_target_that_was_reached_is_a_measurement():
    found = epochs_for_target(curve_of([0.3, 0.6, 0.9, 0.96, 0.97]), 0.95)
    assert found.reached and found.epochs.value == 4 and found.epochs.half_width == 0


@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_exponential_learning_is_found_again(rate):
    values = [1 - 0.9 * math.exp(-rate * number) for number in range(1, 11)]
    found = epochs_for_target(curve_of(values), 0.95)
    truth = math.log(0.9 / 0.05) / rate
    assert found.epochs.value == pytest.approx(truth, rel=1e-9)
    assert found.epochs.lo <= truth * (1 + 1e-9) and found.epochs.hi > truth


def test_power_law_learning_is_found_again():
    values = [1 - 0.8 * number**-0.5 for number in range(1, 11)]
    found = epochs_for_target(curve_of(values), 0.9)
    assert found.epochs.value == pytest.approx(64, rel=1e-6)
    assert found.epochs.lo < 64 <= found.epochs.hi * (1 + 1e-9)


@pytest.mark.parametrize("shape", ["exponential", "power"])
def test_the_band_contains_the_truth_of_noisy_curves(shape):
    rng = random.Random(11)
    held, tries = 0, 300
    for _ in range(tries):
        errors = [0.8 * (math.exp(-0.1 * k) if shape == "exponential" else k**-0.6) for k in range(1, 9)]
        noisy = [1 - error * math.exp(rng.gauss(0, 0.02)) for error in errors]
        truth = math.log(0.8 / 0.2) / 0.1 if shape == "exponential" else (0.8 / 0.2) ** (1 / 0.6)
        found = epochs_for_target(curve_of(noisy), 0.8)
        held += found.epochs is not None and (found.epochs.contains(truth) or found.open_ended)
    assert held >= 0.95 * tries


def test_what_cannot_be_said_is_not_said():
    few = epochs_for_target(curve_of([0.2, 0.3]), 0.95)
    assert few.epochs is None and "too few" in few.note
    falling = epochs_for_target(curve_of([0.4, 0.3, 0.2]), 0.95)
    assert falling.epochs is None and "does not rise" in falling.note
    flat = epochs_for_target(curve_of([0.30000, 0.30001, 0.30002, 0.30003]), 0.95)
    assert flat.epochs is None and "not expected to reach the target" in flat.note
    assert epochs_for_target(curve_of([0.4, 0.5, 0.6]), 1.0).epochs is None
