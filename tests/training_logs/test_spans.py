"""Epochs that span several lines: MLPerf logging records, and the course book's train.py and train_ddp.py.

Records: ours, the reference library's, other programs'. The scripts print images of one process, the rate of all.
"""

import io
import logging
from datetime import datetime, timedelta

import pytest

from labtui.domain.model import Interval
from labtui.training_logs.reader import parse_log
from tests.training_logs import samples
from tests.training_logs.samples import mllog, only_run

COMMAND = "+ torchrun --nproc_per_node 1 train.py --batch_size 32\n"
REHEARSED = (samples.LOGS / "hpc4ai-ch12-rehearsed.out").read_text(encoding="utf-8")


def test_records_give_the_time_and_keras_what_it_prints():
    run = only_run(samples.MIXED)
    assert [sample.seconds.value for sample in run.epochs] == [31.0004, 8.0991]
    assert all(sample.seconds.half_width == pytest.approx(0.001) for sample in run.epochs)
    printed = [(sample.printed_seconds, sample.ms_per_step, sample.steps) for sample in run.epochs]
    assert printed == [(31, 2000, 13), (8, 623, 13)]
    told = {name: (value, run.epochs[0].line_of(name)) for name, value in run.epochs[0].metrics.items()}
    last = run.epochs[0].line or 0
    assert told == {"loss": (2.2603, last), "accuracy": (0.14936, last + 2)}, "all digits of the same number"
    assert run.epochs[1].metrics == {"loss": 2.1533, "accuracy": 0.2064, "eval_accuracy": 0.2}
    assert {sample.source for sample in run.epochs} == {"mllog"}
    assert (run.images, run.batch_size, run.outcome) == (50000, 4096, "completed")
    lines = ["", *samples.MIXED.splitlines()]
    assert [lines[sample.line or 0].split(" - ")[1] for sample in run.epochs] == ["31s", "8s"]
    assert all('"epoch_stop"' in lines[sample.line_of("seconds") or 0] for sample in run.epochs)


def test_an_accuracy_belongs_to_the_epoch_that_ended_where_they_count_from_0():
    text = ""
    for n in (0, 1):
        text += mllog("epoch_start", ms=9 * n, epoch_num=n) + mllog("epoch_stop", ms=9 * n + 5, epoch_num=n)
        text += mllog("eval_accuracy", n / 4, epoch_num=n)
    assert [epoch.metrics["eval_accuracy"] for epoch in only_run(text).epochs] == [0, 0.25]


@pytest.mark.parametrize("between", ["", "13/13 - 8s ", ':::MLLOG {"key": "epoch_st', ":::MLLOG "])
def test_records_of_one_line_are_all_read(between):
    """A signal or a second process came between a record and its line end."""
    first = mllog("epoch_stop", epoch_num=1, seconds=6.5).rstrip("\n")
    last = mllog("run_stop", status="aborted", reason="terminated")
    run = only_run(mllog("run_start") + mllog("epoch_start", epoch_num=1) + first + between + last)
    assert [sample.seconds.value for sample in run.epochs] == [6.5]
    assert run.outcome == "cancelled"


@pytest.mark.parametrize("text", [
    *(":::MLLOG", ":::MLLOG {", ':::MLLOG {"key": 3}', ":::MLLOG [1]", ":::MLLOG " + "[" * 100_000),
    ':::MLLOG {"key": "epoch_stop", "metadata": {"epoch_num": 1e400, "seconds": NaN}}',
    ':::MLLOG {"key": "epoch_stop", "metadata": {"epoch_num": -5, "seconds": -1}}',
    ':::MLLOG {"key": "epoch_start", "time_ms": "soon", "metadata": [1]}',
    ':::MLLOG {"key": "global_batch_size", "value": ' + "9" * 4000 + "}",
    ':::MLLOG {"key": "global_batch_size", "value": 128.5}',
    ':::MLLOG {"key": "block_stop", "metadata": {"epoch_count": 1e11}}',
])  # fmt: skip
def test_broken_records_mean_nothing(text):
    report = parse_log((text + "\n").encode())
    assert all(run.epochs == () and run.batch_size is None for run in report.runs)


def test_records_of_the_reference_library(monkeypatch):
    mllog_library = pytest.importorskip("mlperf_logging.mllog")
    constants = pytest.importorskip("mlperf_logging.mllog.constants")
    stream = io.StringIO()
    logger = mllog_library.get_mllogger()
    monkeypatch.setattr(logger.logger, "handlers", [logging.StreamHandler(stream)])
    logger.event(key=constants.GLOBAL_BATCH_SIZE, value=512)
    logger.start(key=constants.RUN_START)
    logger.start(key=constants.EPOCH_START, metadata={constants.EPOCH_NUM: 1})
    logger.end(key=constants.EPOCH_STOP, metadata={constants.EPOCH_NUM: 1})
    logger.end(key=constants.RUN_STOP, metadata={"status": "success"})
    run = only_run(stream.getvalue())
    assert (run.batch_size, len(run.epochs), run.outcome) == (512, 1, "completed")


class Script:
    """Prints what the script prints, with its clock."""

    def __init__(self, *, samples: int, steps: int, batch: int, epochs: int, device: str = "cuda:0") -> None:
        self.now = datetime(2026, 11, 21, 11, 59, 50)
        self.lines: list[str] = []
        self.say("############# Config #############")
        self.say(f"### batch_size: {batch}")
        self.say(f"### num_epochs: {epochs}")
        self.say(f"### Device: {device}")
        self.say(f"### Total training samples (batches): {samples} ({steps})")

    def say(self, text: str, after: float = 0.0) -> None:
        self.now += timedelta(seconds=after)
        self.lines.append(f"[{self.now:%m/%d/%Y %I:%M:%S %p}] INFO - {text}\n")

    def epoch(self, number: int, images: int, seconds: float, *, start: float = 0.0) -> None:
        self.say(f"[EPOCH: {number}] Starting training loop...")
        self.say(f"[EPOCH: {number}] Loss at iteration 1: 5.321", after=start + seconds / 2)
        self.say(f"[EPOCH: {number}] Training throughput: {images / seconds:.3f} imgs/s", after=seconds / 2)
        self.say(f"[EPOCH: {number}] Starting validation loop...")
        self.say(f"[EPOCH: {number}] Accuracy: 0.031 | Validation throughput: 500.0 imgs/s", after=3)

    def end(self, rate: float) -> str:
        self.say("Training finished!")
        self.say(f"Complete training Time: {300} s ")
        self.say(f"Training throughput:    {int(rate)} imgs/s")
        return "".join(self.lines)


def test_one_process():
    script = Script(samples=12480, steps=390, batch=32, epochs=2)
    script.epoch(1, 12480, 159.7)
    script.epoch(2, 12480, 36.3, start=2.4)  # its loaders started first
    run = only_run(COMMAND + script.end(12480 / 36.3))
    assert (run.batch_size, run.batch_per_gpu, run.epochs_planned, run.images) == (32, 32, 2, 12480)
    assert (run.outcome, run.n_gpus, run.notes) == ("completed", 1, ())
    assert [sample.seconds.value for sample in run.epochs] == pytest.approx([159.7, 36.3], abs=1e-3)
    assert all(sample.seconds.half_width < 0.01 for sample in run.epochs)
    assert [sample.starts_process for sample in run.epochs] == [True, False]
    assert run.epochs[1].metrics == {"val_accuracy": 0.031} and run.throughput is not None


def test_eight_processes_are_not_read_eight_times_too_fast():
    command = "+ torchrun --nnodes 2 --nproc_per_node 4 train_ddp.py --batch_size 128\n"
    script = Script(samples=12416, steps=97, batch=128, epochs=2)
    script.epoch(1, 8 * 12416, 61.2)
    script.epoch(2, 8 * 12416, 54.6)
    run = only_run(command + script.end(8 * 12416 / 54.6))
    assert [sample.seconds.value for sample in run.epochs] == pytest.approx([61.2, 54.6], abs=1e-3)
    assert (run.n_gpus, run.batch_per_gpu, run.batch_size, run.images) == (8, 128, 1024, 8 * 12416)
    assert [sample.steps for sample in run.epochs] == [97, 97] and not run.contradictions


def test_without_the_command_times_are_the_clocks():
    script = Script(samples=384, steps=3, batch=128, epochs=3)
    for number in (1, 2, 3):
        script.epoch(number, 32 * 384, 2.36)
    run = only_run(script.end(5205))
    assert (run.n_gpus, run.batch_size, run.images) == (None, None, None)
    assert all(sample.seconds.contains(2.36) for sample in run.epochs)
    assert all(sample.seconds.half_width >= 0.9 for sample in run.epochs)
    assert any("number of processes" in note for note in run.notes)


def test_without_clock_and_command_there_is_no_time_and_the_clock_may_refute_a_command():
    script = Script(samples=12480, steps=390, batch=32, epochs=1)
    script.epoch(1, 12480, 40.0)
    run = only_run("".join(line.split(" - ", 1)[1] for line in script.lines))
    assert run.epochs == () and any("times are unknown" in note for note in run.notes)
    run = only_run("+ torchrun --nproc_per_node 4 train.py --batch_size 32\n" + script.end(312))
    assert (run.n_gpus, run.batch_size, run.images) == (None, None, None)
    assert run.epochs[0].seconds.contains(40.0)


def test_a_sweep_of_batch_sizes():
    text = ""
    for size in (16, 32):
        script = Script(samples=12480, steps=12480 // size, batch=size, epochs=1)
        script.epoch(1, 12480, 52.0)
        text += f">>>>... Running with batch size {size}\n" + script.end(240)
    report = parse_log(text.encode())
    assert [(run.batch_per_gpu, run.outcome) for run in report.runs] == [(16, "completed"), (32, "completed")]
    assert all(run.throughput is not None and run.throughput.contains(240) for run in report.runs)


def test_integers_of_the_script_are_cut_off_not_rounded():
    """`int(344.9)` prints 344: the truth lies in [344, 345), and the printed digits stay the printed reading's."""
    script = Script(samples=1280, steps=10, batch=128, epochs=2)
    script.epoch(1, 1280, 40.0)
    script.epoch(2, 1280, 3.7)
    run = only_run(script.end(344))
    assert run.throughput == Interval(344.5, 344.0, 345.0) and run.printed_rate == 344.0
    assert run.total_seconds == Interval(300.0, 300.0, 301.0)


def test_records_between_the_lines_tell_how_many_processes():
    """Three batches an epoch leave it open by the clock; the records of our own script settle it."""
    assert only_run(REHEARSED).small, "as earlier scripts call it"
    run = only_run(REHEARSED.replace('"practice": true', '"small": true'))
    (epoch,) = run.epochs
    assert (run.n_gpus, run.batch_size, run.batch_per_gpu, run.images) == (32, 4096, 128, 12288)
    assert (run.outcome, run.practice, run.small, run.device) == ("completed", False, True, None)
    assert epoch.seconds.contains(12288 / 5205) and epoch.seconds.half_width < 0.002
    assert epoch.metrics == {"top1": 2.5, "val_top1": 3.125, "val_accuracy": 0.031}
    assert not run.interleaved and run.notes == ()
    assert run.gpu_memory == Interval(53.0, 53.0, 54.0), "cut off, as the rate"
    # `torchrun --tee 3` under `srun -l`, and a second node that repeats what it must not
    marked = "".join(f"0: [default0]:{line}" for line in REHEARSED.splitlines(keepends=True))
    run = only_run(marked + "1: [default0]:[11/22/2026 01:00:12 PM] INFO - Training finished!\n")
    assert (run.n_gpus, run.images, len(run.epochs)) == (32, 12288, 1)


def test_a_resumed_training_is_one_run():
    """Its first epoch is the third: the script's line and the record beside it speak of the same."""
    text = REHEARSED.replace("[EPOCH: 1]", "[EPOCH: 3]").replace('"epoch_num": 1', '"epoch_num": 3')
    run = only_run(text.replace("num_epochs: 1", "num_epochs: 3"))
    assert [(one.epoch, one.starts_process) for one in run.epochs] == [(3, True)]
    assert (run.model, run.outcome) == ("vit", "completed")
