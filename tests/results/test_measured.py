"""Runs of bare logs: what the file's name tells, and which run found no GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labtui.domain.model import Diagnosis
from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_reports
from labtui.training_logs.runs import LogReport, ParsedRun

from .helpers import epoch, run

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
