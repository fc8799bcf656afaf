"""What a benchmark measures is for its reader; that it says which promise it missed, and fails, is tested here."""

import importlib
import os

import pytest

from benchmarks._budgets import Budget, verdict


def test_a_missed_budget_is_named_and_is_an_exit_status(capsys):
    assert verdict([Budget("first paint", 1.5, 1.5)]) == 0
    assert capsys.readouterr().err == ""
    assert verdict([Budget("first paint", 1.2, 1.5), Budget("requests a minute", 12, 10.0)]) == 1
    assert capsys.readouterr().err == "budget missed: requests a minute: 12.00, promised at most 10\n"
    assert verdict([Budget("nothing measured", float("nan"), 1.0)]) == 1


SMALL = dict.fromkeys(
    (
        "open_s",
        "results_s",
        "export_s",
        "everything_s",
        "screens_peak_mb",
        "first_frame_s",
        "key_p95_ms",
    ),
    1.0,
)
STEADY = {
    f"{name}_{when}": value
    for when in ("began", "ended")
    for name, value in {
        "memory_mb": 70.0,
        "jobs": 10.0,
        "finished": 9.0,
        "threads": 5.0,
        "descriptors": 15.0,
        "cluster_threads": 8.0,
        "cluster_descriptors": 8.0,
    }.items()
}
GROWN = {f"{name}_ended": 99.0 for name in ("memory_mb", "threads", "descriptors")} | {
    "jobs_ended": 40.0,
    "cluster_threads_ended": 13.0,
    "cluster_descriptors_ended": 13.0,
}
PROMISES = {
    # benchmark: (figures that keep every promise of the design, figures that break every one)
    "first_paint": (({"ratio": 1.5}, {"p95_ms": 50.0}), ({"ratio": 1.51}, {"p95_ms": 51.0})),
    "cluster_talk": ((0.25, 10.0, 1.25, 1.25), (0.26, 11.0, 1.26, 1.26)),
    "open_big_log": ((0.69, 199.0), (0.71, 201.0)),
    "large_lab": (
        (SMALL, dict.fromkeys(SMALL, 10.0) | {"first_frame_s": 1.4}, 10.0),
        (SMALL, dict.fromkeys(SMALL, 51.0) | {"first_frame_s": 1.6}, 50.0),
    ),
    "soak": ((STEADY,), (STEADY | GROWN,)),
    "practice_start": ((0.8, 1.8, 0.5), (0.8, 1.9, 1.5)),
}


@pytest.mark.skipif(os.name == "nt", reason="the benchmarks need a pseudo-terminal")
@pytest.mark.parametrize("name", PROMISES)
def test_each_benchmark_knows_its_promises(name):
    module = importlib.import_module(f"benchmarks.{name}")
    kept, broken = PROMISES[name]
    assert verdict(module.budgets(*kept)) == 0
    assert not any(budget.kept for budget in module.budgets(*broken))
