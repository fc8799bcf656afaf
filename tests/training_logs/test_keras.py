# ruff: noqa: E501 (lines of logs)
"""Keras's lines of every generation, their rounding, and what only looks like an epoch."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.domain.model import EpochSample
from labtui.domain.run import MIXED
from labtui.training_logs.keras import CLOCK_SECONDS as CLOCK
from labtui.training_logs.keras import Summary, epoch_interval, read_summary
from labtui.training_logs.reader import LogReader, parse_log
from tests.training_logs import samples
from tests.training_logs.samples import keras, only_run


def only_epoch(line: str) -> EpochSample:
    run = only_run(line + "\n")
    assert len(run.epochs) == 1
    return run.epochs[0]


GENERATIONS = {
    "standalone 2.3": (" - 41s - loss: 2.0176 - accuracy: 0.2584", None, None, (40.5, 41.5)),
    "standalone to 2.2": (" - 41s - loss: 2.0176 - acc: 0.2584", None, None, (40.5, 42.0)),
    "to 2.6": ("196/196 - 41s - loss: 2.0176 - accuracy: 0.2584", 196, None, (40.5, 41.5)),
    "2.7 to 2.15": ("196/196 - 24s - loss: 2.0176 - accuracy: 0.2584 - 24s/epoch - 121ms/step", 196, 121, (23.618, 23.814)),
    "2.x validation": ("10/10 - 0s - loss: 1.2259 - accuracy: 0.3 - val_loss: 1.2 - val_accuracy: 0.3 - 223ms/epoch - 22ms/step", 10, 22, (0.2225, 0.2235)),
    "3.x": ("10/10 - 0s - 41ms/step - accuracy: 0.3641 - loss: 1.1179", 10, 41, (0.405, 0.415)),
    "3.x validation": ("10/10 - 0s - 39ms/step - accuracy: 0.3328 - loss: 1.2904 - val_accuracy: 0.3328 - val_loss: 1.2794", 10, 39, (0.385, 0.395)),
    "bar 2.x": ("10/10 [==============================] - 1s 74ms/step - loss: 1.2259", 10, 74, (0.6615, 1.5)),
    "bar 3.x": ("\x1b[1m10/10\x1b[0m \x1b[32m" + "\u2501" * 20 + "\x1b[0m\x1b[37m\x1b[0m \x1b[1m2s\x1b[0m 222ms/step - loss: 1.2259", 10, 222, (1.9935, 2.5)),
    "samples": ("60000/60000 [==============================] - 3s 50us/sample - loss: 0.3", None, None, (2.97, 3.03)),
    "hours": ("196/196 - 4000s - loss: 2.0 - 4000s/epoch - 20s/step", 196, 20000, (3999.5, 4000.5)),
    "sub-second": ("7/7 - 0s - loss: 2.0 - 5ms/epoch - 714us/step", 7, 0.714, (0.0049945, 0.0050015)),
    "bound by the unit": ("25/25 - 29s - loss: 2.2484 - 29s/epoch - 1s/step", 25, 1000, (28.5, 29.5)),
    "a second a step": ("2/2 - 2s - loss: 1.0 - 2s/epoch - 1s/step", 2, 1000, (2.0, 2.5)),
}  # fmt: skip


@pytest.mark.parametrize("name", GENERATIONS)
def test_every_generation(name):
    line, steps, per_step, (low, high) = GENERATIONS[name]
    sample = only_epoch(line)
    assert sample.steps == steps
    assert sample.ms_per_step == (None if per_step is None else pytest.approx(per_step))
    assert (sample.seconds.lo, sample.seconds.hi) == pytest.approx((max(0, low - CLOCK), high + CLOCK))
    assert low - 1e-9 <= sample.seconds.value <= high + 1e-9


@pytest.mark.parametrize(
    "text", ["Epoch 1/5 of it", "Epoch: 1/5", "My Epoch 1/5", "Epoch 1", "Epoch 1/Unknown"]
)
def test_what_is_no_header(text):
    lines = f"{keras(1, 1, 3)}{text}\n{keras(2, 3, 3)}"
    assert [sample.epoch for sample in only_run(lines).epochs] == [1, 2, 3]


@pytest.mark.parametrize("text", [
    "24/25 [===========================>..] - ETA: 1s - loss: 2.0",
    "24/25 [===========================>..] - ETA: 1:05:03 - loss: 2.0",
    "      1/Unknown - 0s 428ms/step - loss: 2.0",
    "24/25 - 14s - loss: 2.0 - 14s/epoch - 544ms/step",
    f"25/25 - 4{chr(0xFF17)}s - loss: 2.0",  # a digit of another script is none of Keras's
    f"25/25 {chr(0x2501) * 20} 0s 200ms/step - loss: 2.0",  # Keras 3 says "time left" there, without a word
])  # fmt: skip
def test_bars_on_their_way_are_no_epochs(text):
    assert isinstance(read_summary(text), bool)
    run = parse_log(f"Epoch 1/2\n{text}\n".encode()).runs[0]
    assert (run.epochs, run.last_begun) == ((), 1)


def test_strange_metrics():
    sample = only_epoch(
        "10/10 - 1s - loss: nan - val_loss: inf - neg: -1.2000e-01 - top_5_accuracy: 9.9e-04 - my head/acc: 1.0000"
        " - precision_1: -inf - 1s/epoch - 100ms/step"
    )
    odd = {"loss": math.nan, "val_loss": math.inf, "neg": -0.12, "top_5_accuracy": 9.9e-4}
    odd |= {"precision_1": -math.inf, "my head/acc": 1.0}
    assert sample.metrics == pytest.approx(odd, nan_ok=True)


def test_old_keras_counts_samples_and_contradicting_fields_fall_back_to_the_seconds():
    text = "Train on 50000 samples, validate on 10000 samples\nEpoch 1/1\n50000/50000 - 41s - loss: 2.0\n"
    run = only_run(text)
    assert (run.images, run.epochs[0].steps) == (50000, None)
    sample = only_epoch("50000/50000 - 41s - loss: 2.0 - 121ms/step")
    assert (sample.seconds.lo, sample.seconds.hi) == (40.5 - CLOCK, 41.5 + CLOCK)


def test_a_bar_written_on_after_a_print_is_one_epoch():
    """A callback that prints at the end of an epoch cuts Keras 3's bar in two; the second half has the time."""
    cut = samples.new_bar(5, 5, "0s", "20ms/step - loss: 2.0")
    final = "\b" * 50 + "\r" + samples.new_bar(5, 5, "3s", "20ms/step - loss: 2.0 - val_loss: 3.0")
    (sample,) = only_run(f"Epoch 1/1\n{cut}\nsaved the model\n{final}\n").epochs
    assert (sample.printed_seconds, sample.metrics) == (3, {"loss": 2.0, "val_loss": 3.0})


def unit(value: float, name: str = "step") -> str:
    if value >= 1 or value == 0:
        return f"{value:.0f}s/{name}"
    return f"{value * 1e3:.0f}ms/{name}" if value >= 1e-3 else f"{value * 1e6:.0f}us/{name}"


def keras_line(seconds: float, steps: int, generation: int) -> str:
    """What Keras prints at verbose=2, by its own formatting."""
    step = unit(seconds / steps, "step")
    if generation == 3:
        return f"{steps}/{steps} - {seconds:.0f}s - {step} - loss: 2.0000"
    if generation == 2:
        return f"{steps}/{steps} - {seconds:.0f}s - loss: 2.0000 - {unit(seconds, 'epoch')} - {step}"
    return f"{steps}/{steps} - {seconds:.0f}s - loss: 2.0000"


@given(st.floats(1e-6, 1e5), st.integers(1, 10_000), st.sampled_from([1, 2, 3]))
def test_the_true_time_always_lies_within_the_bounds(seconds, steps, generation):
    summary = read_summary(keras_line(seconds, steps, generation))
    assert isinstance(summary, Summary)
    interval = epoch_interval(summary)
    slack = 1e-9 * max(1.0, seconds)  # rounding of our own multiplications
    assert interval.lo - slack <= seconds <= interval.hi + slack


# An epoch's own line among those of `evaluate`, and a header that comes twice.
BAR = "[==============================]"


def log(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def own(seconds: int, ms: int, steps: int = 25, extra: str = "") -> str:
    return f"{steps}/{steps} - {seconds}s - loss: 1.2 - accuracy: 0.3{extra} - {seconds}s/epoch - {ms}ms/step"


def evaluated(steps: int = 79) -> str:
    return f"{steps}/{steps} - 1s - loss: 1.3 - accuracy: 0.2 - 1s/epoch - 13ms/step"


OWN, LONG, OLD = own(14, 544), own(30, 75, 400), "25/25 - 14s - loss: 1.2 - accuracy: 0.3"
VALIDATED = own(14, 544, extra=" - val_loss: 1.1")
INNER_BAR = f"\r 1/79 [>...] - ETA: 1s\b\b\r79/79 {BAR} - 1s 13ms/step - loss: 1.3"
OWN_BAR = f"\b\b\r25/25 {BAR} - 14s 544ms/step - loss: 1.2"

AMONG_OTHERS = {
    "a callback's line is before": [evaluated(), OWN], "the place tells": [evaluated(25), OWN],
    "shorter after it": [OWN, evaluated(), evaluated(25)], "before 2.7 it is first": [OLD, "79/79 - 1s - loss: 1.3"],
    "validation metrics tell": [VALIDATED, evaluated(25)], "bars of a callback, own bar": [INNER_BAR, OWN_BAR],
    "bars of a callback, own line": [INNER_BAR, OWN],
    "bars line by line": [OWN_BAR.lstrip("\b\r"), f"313/313 {BAR} - 1s 3ms/step - loss: 1.9"],
}  # fmt: skip


@pytest.mark.parametrize("lines", AMONG_OTHERS.values(), ids=AMONG_OTHERS)
def test_an_epochs_own_line_among_others(lines):
    (run,) = parse_log(log(*(line for n in (1, 2, 3) for line in (f"Epoch {n}/3", *lines)))).runs
    assert [(sample.steps, sample.printed_seconds) for sample in run.epochs] == [(25, 14)] * 3


NO_EPOCHS = {
    "now and then": (["Epoch 1/3", OWN, "Epoch 2/3", OWN, "Epoch 3/3", evaluated(), OWN], [25, 25, 25]),
    "no last epoch, before 2.7": (["Epoch 1/2", OWN, "Epoch 2/2", evaluated()], [25]),
    "as many steps": (["Epoch 1/2", evaluated(25), OWN, "Epoch 2/2", OWN, evaluated()], [25, 25]),
    "known from before": ([LONG, "Epoch 1/2", OWN, LONG, "Epoch 2/2", OWN], [25, 25]),
    "no last epoch": (["Epoch 1/3", evaluated(), OWN, "Epoch 2/3", evaluated()], [25]),
    "after the fit": (["Epoch 1/2", OWN, "Epoch 2/2", OWN, evaluated(), evaluated(25)], [25, 25]),
    "one epoch, validated": ([evaluated(), VALIDATED, evaluated()], [25]),
    "before a training that died": ([evaluated(), "Epoch 1/2"], []),
}


@pytest.mark.parametrize(("lines", "steps"), NO_EPOCHS.values(), ids=NO_EPOCHS)
def test_an_evaluation_is_no_epoch(lines, steps):
    assert [[sample.steps for sample in run.epochs] for run in parse_log(log(*lines)).runs] == [steps]


def test_a_first_epoch_is_corrected_by_what_follows():
    (reader := LogReader()).feed(log("Epoch 1/2", evaluated()))
    assert [sample.steps for sample in reader.runs[0].epochs] == [79]
    reader.feed(log(own(14, 544), "Epoch 2/2"))
    assert [(run.epochs[0].steps, "took longer" in str(run.notes)) for run in reader.runs] == [(25, True)]


@pytest.mark.parametrize("epochs", [2, 3, 5])
def test_processes_out_of_step_are_not_told_apart(epochs):
    lines = [each for n in range(1, epochs + 1) for each in (f"Epoch {n}/{epochs}", own(25, 998 + n))]
    report = parse_log(log(f"Epoch 1/{epochs}", *lines))
    assert [(run.epochs, run.interleaved, run.notes) for run in report.runs] == [((), True, (MIXED,))]
    assert [found.kind for found in report.diagnosis] == ["mixed-trainings"]
