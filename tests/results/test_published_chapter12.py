"""The tables of chapter 12 from logs with its lines: what follows is derived, what does not is listed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from labtui.results.compute import compute_results
from labtui.results.measured import MeasuredRun, measured_from_reports
from labtui.results.report import report_text
from labtui.results.rows import ResultRow, Results
from labtui.results.scaling import gpu_hours_per_million
from labtui.training_logs.reader import parse_log
from tests.results.helpers import task_charts

from .helpers import course_log, published

CHAPTER12 = published("chapter12.toml")
ODD: dict[str, str] = CHAPTER12["contradictions"]
PER_GPU = CHAPTER12["batch_per_gpu"]


def runs_of(table: dict[str, Any]) -> tuple[MeasuredRun, ...]:
    reports = []
    for place, gpus in enumerate(table["gpus"]):
        start = f"torchrun --nnodes={max(1, gpus // 4)} --nproc_per_node={min(4, gpus)} train_ddp.py"
        text = course_log(
            f"srun {start} --model_name vit", "vit", PER_GPU, table["batches"][place] * PER_GPU,
            table["throughput"][place], (table["total_seconds"][place], 53), "Total number of parameters 631021000",
        )  # fmt: skip
        reports.append((f"{table['data_set']}-{place}.out", parse_log(text)))
    return tuple(replace(run, data_set=table["data_set"]) for run in measured_from_reports(reports))


def rows_of(table: dict[str, Any]) -> tuple[ResultRow, ...]:
    rows = compute_results(runs_of(table)).rows
    assert [row.n_gpus for row in rows] == table["gpus"]
    return rows


@pytest.mark.parametrize("table", CHAPTER12["tables"], ids=lambda table: table["id"])
def test_what_follows_from_the_rates(table):
    rows = rows_of(table)
    one = rows[0].throughput.value
    for place, row in enumerate(rows):
        name = f"{table['data_set']} {{}} {row.n_gpus}"
        assert row.throughput.value == pytest.approx(table["throughput"][place], rel=1e-6)
        assert row.configuration.images == table["batches"][place] * PER_GPU * row.n_gpus
        derived = f"{100 * row.efficiency.value:.1f}".removesuffix(".0")
        assert derived == ODD.get(name.format("efficiency"), table["efficiency"][place])
        if "ideal" in table:
            ideal = f"{one * row.n_gpus:.0f}"
            assert ideal == ODD.get(name.format("ideal"), table["ideal"][place])


@pytest.mark.parametrize("table", CHAPTER12["tables"], ids=lambda table: table["id"])
def test_the_gain_of_each_doubling_as_printed(table):
    rows = rows_of(table)
    assert rows[0].doubling_gain is None
    for before, row, printed in zip(rows, rows[1:], table["gain"], strict=False):
        more = row.throughput.value - before.throughput.value
        assert f"+{more:.0f} ({100 * row.doubling_gain.value:.0f} %)" == printed
        assert row.doubling_gain.lo < row.doubling_gain.value < row.doubling_gain.hi


def both() -> Results:
    return compute_results([run for table in CHAPTER12["tables"] for run in runs_of(table)])


def test_two_data_sets_of_one_network_are_two_lines_on_an_axis_of_doublings():
    charts = {chart.key: chart for chart in task_charts(both())}
    for chart in charts.values():
        measured = [series for series in chart.series if series.role == "measured"]
        assert {series.name for series in measured} == {"vit (micro-224)", "vit (tiny-224)"}
        assert [text for _, text in chart.x_ticks] == ["1", "2", "4", "8", "16", "32"]
        assert chart.x_log and chart.y_log is (chart.family != "efficiency")
        assert [series.short for series in measured] == ["micro-224", "tiny-224"]
        assert all([p.x for p in series.points] == [1, 2, 4, 8, 16, 32] for series in measured)
    (ideal,) = (series for series in charts["speedup"].series if series.role == "ideal")
    assert [point.y for point in ideal.points] == [1, 2, 4, 8, 16, 32]
    assert any("weak scaling" in note for note in charts["efficiency"].notes)
    assert not any("weak scaling" in note for note in charts["throughput"].notes)


def test_the_report_says_what_each_doubling_gained():
    text = report_text(both())
    assert (
        "vit (micro-224): images per second gained by doubling the GPUs (100 % is ideal): "
        "2 GPUs +93 %, 4 GPUs +92 %, 8 GPUs +87 %, 16 GPUs +84 %, 32 GPUs +69 %."
    ) in text
    results = compute_results(runs_of(CHAPTER12["tables"][0]))
    assert gpu_hours_per_million(results.rows[0]).value == pytest.approx(1e6 / 240 / 3600, rel=1e-5)


def test_without_names_the_two_data_sets_are_still_not_mixed():
    """Whole batches make 12,416 images on one GPU and 12,288 on 32 of one data set; 99,968 are another."""
    runs = [replace(run, data_set="") for table in CHAPTER12["tables"] for run in runs_of(table)]
    rows = compute_results(runs).rows
    assert len(rows) == 12
    (chart, *_) = task_charts(compute_results(runs))
    assert {s.name for s in chart.series} == {"vit (12,416 images an epoch)", "vit (99,968 images an epoch)"}
    for row in rows:
        assert row.baseline is not None
        assert (row.configuration.images > 90_000) == (row.baseline.images > 90_000)
