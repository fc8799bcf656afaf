"""MLPerf logging records: ours, the reference library's, other programs'."""

import io
import logging

import pytest

from labtui.training_logs.reader import parse_log
from tests.training_logs import samples
from tests.training_logs.samples import mllog, only_run


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
