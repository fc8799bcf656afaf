"""GPU-hours of runs, and one job for all sizes against one job per size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labtui.results.compute import compute_results
from labtui.results.cost import forms_of_sizes
from labtui.results.measured import MeasuredRun
from labtui.results.report import report_text
from labtui.results.serialize import forms_json
from tests.results.helpers import results_of, run


def sizes(**changes: object) -> list[MeasuredRun]:
    return [replace(run(n, [20.0, seconds]), **changes) for n, seconds in ((1, 16.0), (2, 10.0), (4, 6.0))]


def test_one_job_holds_the_largest_size_all_the_time() -> None:
    (found,) = forms_of_sizes(sizes())
    assert found.n_gpus == (1, 2, 4)
    assert found.forms.one_job.value == pytest.approx(4 * (36 + 30 + 26) / 3600)
    assert found.forms.job_per_size.value == pytest.approx((36 + 2 * 30 + 4 * 26) / 3600)


def test_tasks_models_and_rehearsals_are_compared_apart() -> None:
    runs = [*sizes(task_id="10.5"), *sizes(task_id="10.6"), *sizes(task_id="10.5", practice=True)]
    assert [(each.task_id, each.practice) for each in forms_of_sizes(runs)] == [
        ("10.5", False),
        ("10.6", False),
        ("10.5", True),
    ]


def test_one_size_and_runs_still_going_are_no_comparison() -> None:
    assert forms_of_sizes(sizes()[:1]) == ()
    assert forms_of_sizes(sizes(live=True)) == ()


def test_the_last_run_of_a_size_counts() -> None:
    again = replace(run(4, [30.0, 30.0]), run_id=9)
    (found,) = forms_of_sizes([again, *sizes()])
    assert found.forms.job_per_size.value == pytest.approx((36 + 2 * 30 + 4 * 60) / 3600)


def test_the_answer_says_it() -> None:
    results = compute_results(sizes(task_id="10.5"))
    (report,) = forms_json(results)
    assert (report["task"], report["n_gpus"]) == ("10.5", [1, 2, 4])
    assert report["wasted_gpu_hours"] == pytest.approx((368 - 200) / 3600)
    assert report["wasted_share"] == pytest.approx(168 / 368)
    assert "in task 10.5 on 1, 2, 4 GPUs: 0.102 GPU-hours of training" in report_text(results)


# --------------------------------------------------------------------------- logs that name no model


def nameless(*counts: int, source: str = "a.out") -> list[MeasuredRun]:
    made = [run(n, [20.0, 16.0 / n]) for n in counts]
    return [replace(each, run=replace(each.run, model=None), source=source) for each in made]


def test_the_sizes_of_one_nameless_log_are_compared() -> None:
    results = compute_results(nameless(1, 2, 4))
    assert [row.speedup.value for row in results.measured if row.speedup] == [1.0, 2.0, 4.0]
    assert ["names no model" in " ".join(row.notes) for row in results.measured] == [False, True, True]
    assert [fit.model for fit in results.fits] == ["unknown", "unknown"]


def test_sizes_that_repeat_may_be_several_models() -> None:
    results = compute_results(nameless(1, 2, 1, 2))
    assert [row.speedup for row in results.measured if row.n_gpus == 2] == [None] * 2


def test_nameless_logs_are_not_compared_with_each_other() -> None:
    results = compute_results([*nameless(1), *nameless(2, source="b.out")])
    assert [row.speedup and row.speedup.value for row in results.measured] == [1.0, None]


def test_the_order_of_files_changes_no_row() -> None:
    logs = ["a.out", "b.out", "c.out"]
    runs = {log: nameless(1, 2, 1, 4, source=log) for log in logs}
    forth = compute_results([each for log in logs for each in runs[log]])
    back = compute_results([each for log in reversed(logs) for each in runs[log]])
    assert [row.configuration for row in forth.rows] == [row.configuration for row in back.rows]


def test_published_logs_in_any_order() -> None:
    names = ["ResNet50.31337.out", "ResNet152.31338.out", "ResNet50_seq_CPU.31335.out"]
    assert results_of(*names).measured == results_of(*reversed(names)).measured
