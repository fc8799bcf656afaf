"""An epoch's own line among those of `evaluate`, and a header that comes twice."""

import pytest

from labtui.domain.run import MIXED
from labtui.training_logs.reader import LogReader, parse_log

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
