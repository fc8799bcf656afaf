# ruff: noqa: E501 (lines of logs)
"""Lines of PyTorch ImageNet, tf_cnn_benchmarks, Horovod and the book's chapters 11 and 12."""

from __future__ import annotations

from pathlib import Path

import pytest

from labtui.training_logs.reader import parse_log
from labtui.training_logs.runs import ParsedRun
from tests.training_logs import samples

LOGS = Path(__file__).parents[1] / "fixtures" / "logs"


def only_run(text: str) -> ParsedRun:
    report = parse_log(text.encode())
    assert len(report.runs) == 1, report.runs
    return report.runs[0]


def new_pytorch(epoch: int, steps: int, first: int = 0, every: int = 1) -> str:
    return "".join(
        f"Epoch: [{epoch}][{index:5d}/{steps}]\tTime  0.581 ( 0.500)\tData  0.273 ( 0.283)\tLoss 6.9e+00 (6.8e+00)\t"
        f"Acc@1   0.00 (  0.12)\tAcc@5   0.78 (  0.61)\n"
        for index in range(first, steps + first, every)
    )


def test_pytorch_old() -> None:
    run = only_run("+ python main.py -a resnet50 --batch-size 128 --epochs 1 /data\n" + samples.PYTORCH_OLD)
    (sample,) = run.epochs
    assert (sample.epoch, sample.steps, sample.ms_per_step) == (1, 20, 633)
    assert sample.seconds.value == pytest.approx(12.66)
    assert sample.seconds.half_width == pytest.approx(0.01)
    assert run.throughput is not None and run.throughput.value == pytest.approx(128 / 0.633)
    assert sample.metrics == {"Loss": 6.9, "Prec@1": 0.1}
    assert run.outcome == "completed"


@pytest.mark.parametrize("first", [0, 1])
def test_pytorch_new_with_validation(first: int) -> None:
    text = new_pytorch(0, 20, first) + " * Acc@1 10.130 Acc@5 30.862\n" + new_pytorch(1, 20, first)
    run = only_run(text)
    assert [sample.epoch for sample in run.epochs] == [1, 2]
    assert [sample.seconds.value for sample in run.epochs] == pytest.approx([10.0, 10.0])
    assert run.epochs[0].metrics["val_acc1"] == 10.13
    assert all(sample.seconds.contains(10.0) for sample in run.epochs)


def test_pytorch_print_frequency_leaves_a_wider_interval() -> None:
    run = only_run(new_pytorch(0, 1005, every=10) + " * Acc@1 10.130 Acc@5 30.862\n")
    (sample,) = run.epochs
    assert sample.seconds.contains(502.5) and sample.seconds.half_width > 1


def test_tf_cnn_benchmarks() -> None:
    run = only_run(
        "mpirun -np 2 python3.6 scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py --model resnet50 --batch_size 32 --num_batches=200\n"
        "TensorFlow:  1.12\nModel:       resnet50\nBatch size:  64 global\n             32.0 per device\n"
        "Step\tImg/sec\ttotal_loss\n1\timages/sec: 249.3 +/- 0.0 (jitter = 0.0)\t8.169\n"
        "10\timages/sec: 249.0 +/- 0.3 (jitter = 1.0)\t8.1\n"
        + "-" * 64
        + "\ntotal images/sec: 375.41\n"
        + "-" * 64
        + "\n"
    )
    assert run.throughput is not None
    assert (run.throughput.value, run.n_gpus, run.batch_size, run.outcome) == (375.41, 2, 64, "completed")
    assert run.throughput.half_width == pytest.approx(0.005)


def test_horovod_synthetic() -> None:
    run = only_run(
        "Model: resnet50\nBatch size: 32\nNumber of GPUs: 4\nRunning warmup...\nRunning benchmark...\n"
        "Iter #0: 330.1 img/sec per GPU\nIter #1: 330.2 img/sec per GPU\nImg/sec per GPU: 330.1 +-2.0\n"
        "Total img/sec on 4 GPU(s): 1320.4 +-8.0\n"
    )
    assert run.throughput is not None
    assert (run.throughput.value, run.throughput.lo, run.throughput.hi) == (1320.4, 1312.4, 1328.4)
    assert (run.n_gpus, run.device, run.outcome) == (4, "gpu", "completed")
    assert run.batch_size == 128  # it prints one worker's


BOOK = "[11/21/2026 10:00:00 AM] INFO - "


def test_torchrun_prefixes() -> None:
    text = f"{BOOK}[EPOCH: 1] Starting training loop...\n{BOOK}Training throughput:    344 imgs/s\n"
    run = only_run("".join("[default0]:" + line for line in text.splitlines(keepends=True)))
    assert run.throughput is not None and run.printed_rate == 344
