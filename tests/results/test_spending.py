"""GPU-hours of runs, and one job for all sizes against one job per size."""

from __future__ import annotations

from dataclasses import replace

from labtui.results.compute import compute_results
from labtui.results.measured import MeasuredRun
from tests.results.helpers import run

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
