"""What scripts say of a run before, between and after trainings, however it is laid out."""

from __future__ import annotations

import pytest

from labtui.domain.model import Interval
from labtui.training_logs.diagnosis import join_streams
from labtui.training_logs.reader import parse_log
from labtui.training_logs.runs import ParsedRun


def runs_of(text: str) -> tuple[ParsedRun, ...]:
    return parse_log(text.encode()).runs


def test_the_books_training_under_torchrun_and_how_long_it_took() -> None:
    lines = [
        "### model_name: vit",
        "### batch_size: 32",
        "### epochs: 1",
        "### Total training samples (batches): 12480 (390)",
        "[EPOCH: 1] Starting training loop...",
        "[EPOCH: 1] Training throughput: 344.000 imgs/s",
        "[EPOCH: 1] Accuracy: 0.031 | Validation throughput: 200.1 imgs/s",
        "Training finished!",
        "Complete training Time: 826 s ",
    ]
    clock = ["10:00:00", "10:00:00", "10:00:00", "10:00:00", "10:00:00", "10:00:36"] + ["10:00:40"] * 3
    stamped = (
        f"[default0]:[01/27/2026 {now} AM] INFO - {line}\n" for now, line in zip(clock, lines, strict=True)
    )
    (run,) = runs_of("+ torchrun --nproc_per_node 1 train.py --batch_size 32\n" + "".join(stamped))
    assert (run.model, run.batch_size, run.images, len(run.epochs)) == ("vit", 32, 12480, 1)
    assert run.total_seconds == Interval(826.5, 826.0, 827.0)
    assert runs_of("Epoch 1/1\n 5/5 - 1s - loss: 1.0\nTotal Time: 12.34 (s)\n")[0].total_seconds == Interval(
        12.34, 12.335, 12.345
    )


def test_progress_printed_now_and_then_makes_an_epoch_once_its_end_is_proven() -> None:
    lines = [
        f"Epoch: [{epoch}][{done:2d}/50]\tTime  0.500 ( 0.500)\tData  0.001 ( 0.002)\tLoss 6.9e+00 (6.9e+00)\n"
        for epoch in (0, 1)
        for done in range(0, 50, 10)
    ]
    (run,) = runs_of("".join(lines))
    (sample,) = run.epochs  # the second may have been cut
    assert sample.seconds.lo < 25 < sample.seconds.hi
    assert sample.seconds.value == pytest.approx(25, abs=0.01)


def test_slurms_signal_says_no_more_than_its_time_limit() -> None:
    out = parse_log(b" Model ResNet50 2 GPUs \nEpoch 1/5\n13/13 - 8s - loss: 1.0\n")
    err = parse_log(
        b"[2026-11-21T10:00:00.1] error: *** JOB 5 ON n1 CANCELLED AT 2026-11-21T10:00:00 DUE TO TIME LIMIT ***\n"
        b"slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-11-21T10:00:00 DUE to SIGNAL Terminated ***\n",
        stream="err",
    )
    joined = join_streams(out, err)
    assert [found.kind for found in joined.diagnosis] == ["time-limit"]
    assert joined.runs[0].outcome == "time-limit"
