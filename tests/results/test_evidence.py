"""What a log shows of its processes and devices decides what its times count as."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from labtui.domain.model import Diagnosis
from labtui.results.compute import compute_results
from labtui.results.measured import MeasuredRun, accuracy_curves, measured_from_reports
from labtui.training_logs.reader import parse_log
from labtui.training_logs.runs import LogReport, ParsedRun
from tests.results.helpers import task_charts

from .helpers import epoch, run


def results_of_text(*texts: str):
    reports = [(f"{place}.out", parse_log(text.encode())) for place, text in enumerate(texts)]
    return compute_results(measured_from_reports(reports))


def keras(first: int, last: int, planned: int, times: list[float], *, steps: int = 25) -> str:
    lines = []
    for number, seconds in zip(range(first, last + 1), times, strict=True):
        step = round(1000 * seconds / steps)
        lines += [
            f"Epoch {number}/{planned}",
            f"{steps}/{steps} - {seconds:.0f}s - loss: 1.0 - {seconds:.0f}s/epoch - {step}ms/step",
        ]
    return "\n".join(lines) + "\n"


def test_the_first_epoch_of_a_resumed_training_is_warm_up():
    log = "Model ResNet50 1 GPU\n" + keras(3, 5, 5, [30.0, 10.0, 10.0])
    (row,) = results_of_text(log).rows
    assert row.epoch_seconds.contains(10.0) and row.epoch_seconds.hi < 11
    assert row.warmup_seconds.contains(30.0) and row.epochs == 2
    assert "The log has 3 epochs of 5." in row.notes


def test_missing_epochs_are_said_however_many_were_planned():
    log = "Model ResNet50 1 GPU\n" + keras(1, 3, 999_999_999, [30.0, 10.0, 10.0])
    (row,) = results_of_text(log).rows
    assert "The log has 3 epochs of 999,999,999." in row.notes
    one = "Model ResNet50 1 GPU\n" + keras(1, 1, 5, [30.0])
    assert "The log has 1 epoch of 5." in results_of_text(one).rows[0].notes
    whole = "Model ResNet50 1 GPU\n" + keras(1, 3, 3, [30.0, 10.0, 10.0])
    assert not any("The log has" in note for note in results_of_text(whole).rows[0].notes)


def test_each_process_of_one_training_has_its_own_warm_up():
    samples = [
        replace(epoch(n, s), starts_process=n in (1, 4)) for n, s in enumerate([30, 10, 10, 28, 10, 10], 1)
    ]
    one = replace(run(1, [1]).run, epochs=tuple(samples), epochs_planned=6)
    (row,) = compute_results([MeasuredRun(run=one)]).rows
    assert row.epoch_seconds.value == 10 and row.epochs == 4


def contradictory(n: int, times: list[float]) -> MeasuredRun:
    one = run(n, times).run
    lines = (f'line 1 "Model ResNet50 {n} GPU", line 2 "Num_replicas: 1"',)
    return MeasuredRun(run=replace(one, contradictions=lines), source="a.out")


def test_a_run_whose_log_contradicts_itself_is_not_compared_fitted_or_charted():
    clean = [run(1, [29, 14.0]), run(2, [29, 8.0])]
    results = compute_results([*clean, contradictory(4, [29, 14.0])])
    row = next(row for row in results.rows if row.n_gpus == 4)
    assert row.epoch_seconds.value == 14 and row.speedup is None and row.efficiency is None
    assert any("Num_replicas: 1" in note for note in row.notes)
    assert any("contradicts itself" in note for note in row.notes)
    assert all(fit.n_gpus == (1, 2) for fit in results.fits)
    for chart in task_charts(results):
        assert all(point.x != 4 for series in chart.series for point in series.points), chart.key
    alone = compute_results([contradictory(4, [29, 14.0])])
    assert alone.rows and not task_charts(alone)


def test_a_contradictory_run_is_no_baseline_and_not_pooled():
    results = compute_results([contradictory(1, [29, 14.0]), run(1, [29, 20.0]), run(2, [29, 10.0])])
    assert [row.runs for row in results.rows if row.n_gpus == 1] == [1, 1]
    assert next(row for row in results.rows if row.n_gpus == 2).speedup.value == 2


# --------------------------------------------------------------------------- accuracy


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


# --------------------------------------------------------------------------- what a file's name and its GPUs tell

EPOCHS = (epoch(1, 29), epoch(2, 14))


def report(*runs: ParsedRun, lines: tuple[tuple[int, str], ...] = ()) -> LogReport:
    diagnosis = tuple(
        Diagnosis(kind="no-gpu", line=line, text="no GPU", advice="--nv", stream=stream)
        for line, stream in lines
    )
    return LogReport(runs=runs, diagnosis=diagnosis)


@pytest.mark.parametrize(
    ("name", "model", "device", "n_gpus", "job_id"),
    [
        ("logs/ResNet50_seq_CPU.31337.out", "ResNet50", "cpu", 0, "31337"),
        ("ResNet152_seq_GPU.7.out", "ResNet152", "gpu", 1, "7"),
        ("resnet-101.out", "ResNet101", None, None, ""),
        ("slurm-31337.out", None, None, None, ""),
        ("gpucluster.1.out", None, None, None, "1"),
        ("8xVM.GPU.H100.8", None, None, None, ""),
    ],
)
def test_what_a_file_name_tells(name, model, device, n_gpus, job_id):
    (one,) = measured_from_reports([(name, report(ParsedRun(epochs=EPOCHS)))])
    assert (one.run.model, one.run.device, one.run.n_gpus, one.job_id) == (model, device, n_gpus, job_id)
    (row,) = compute_results([one]).rows
    for word, known in (("model", model), ("device", device)):
        assert (f"The {word} was read from the file's name; the log does not say." in row.notes) == bool(
            known
        )


def test_what_the_log_says_goes_before_its_name():
    other = run(2, [29, 14], model="ResNet152").run
    (one,) = measured_from_reports([("ResNet50_seq_CPU.1.out", report(other))])
    assert (one.run.model, one.run.n_gpus, one.doubts) == ("ResNet152", 2, ())


def test_the_only_run_of_a_log_without_gpus_is_no_gpu_run():
    (one,) = measured_from_reports([("a.out", report(run(1, [29, 14]).run, lines=((3, "err"),)))])
    assert one.no_gpu and not compute_results([one]).rows


def test_of_several_runs_the_one_around_the_line_is_meant():
    first = replace(run(1, [29, 14]).run, first_line=1, last_line=10)
    second = replace(run(2, [29, 8]).run, first_line=11, last_line=20)
    runs = measured_from_reports([("a.out", report(first, second, lines=((15, "out"),)))])
    assert [one.no_gpu for one in runs] == [False, True]
    assert not runs[0].doubts


def test_where_it_cannot_be_told_the_runs_count_with_a_doubt():
    runs = measured_from_reports(
        [("a.out", report(run(1, [29, 14]).run, run(2, [29, 8]).run, lines=((3, "err"),)))]
    )
    rows = compute_results(runs).rows
    assert len(rows) == 2 and all(any("found no GPU" in note for note in row.notes) for row in rows)
