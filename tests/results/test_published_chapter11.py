"""The tables of chapter 11 from logs with its lines: rates, times, memory as printed; what contradicts is listed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from labtui.results.compute import compute_results
from labtui.results.measured import MeasuredRun, measured_from_reports
from labtui.results.numbers import PRECISE, cells, columns_of
from labtui.results.rows import ResultRow
from labtui.results.scaling_charts import tuning_charts
from labtui.session.labs import load_edition
from labtui.training_logs.reader import parse_log

from .helpers import course_log, published

CHAPTER11 = published("chapter11.toml")
TABLES: list[dict[str, Any]] = CHAPTER11["tables"]


def images(table: dict[str, Any], place: int) -> int:
    """Images of an epoch: whole batches of one process."""
    batch: int = table["batch"][place]
    return int(CHAPTER11["images"][table["data_set"]]) // batch * batch


@cache
def runs_of(name: str) -> tuple[MeasuredRun, ...]:
    table = next(each for each in TABLES if each["id"] == name)
    places = [place for place, rate in enumerate(table["throughput"]) if rate >= 0]
    start = "torchrun --standalone --nproc_per_node=1 train.py"
    logs = (
        course_log(
            start, table["model"], table["batch"][place], images(table, place), table["throughput"][place],
            (table["seconds"][place], table["memory"][place]), *table["options"][place],
        )
        for place in places
    )  # fmt: skip
    reports = [(f"{name}-{place}.out", parse_log(text)) for place, text in enumerate(logs)]
    return tuple(replace(run, data_set=table["data_set"]) for run in measured_from_reports(reports))


def row_of(run: MeasuredRun) -> ResultRow:
    (row,) = compute_results([run]).rows
    return row


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["id"])
def test_rate_time_and_memory_as_printed(table):
    places = [place for place, rate in enumerate(table["throughput"]) if rate >= 0]
    for run, place in zip(runs_of(table["id"]), places, strict=True):
        row, rate = row_of(run), table["throughput"][place]
        assert row.throughput.value == pytest.approx(rate, rel=1e-5)
        assert (run.run.throughput.lo, run.run.throughput.hi) == (rate, rate + 1)
        assert row.configuration.images == images(table, place)
        assert (row.total_seconds.lo, row.gpu_memory.lo) == (table["seconds"][place], table["memory"][place])
        assert row.total_seconds.hi == row.total_seconds.lo + 1
        if table["seconds"][place]:  # the whole training is no shorter than five epochs at its rate
            epochs = 5 * images(table, place) / (rate + 1)
            assert epochs < table["seconds"][place] + 1, (table["id"], place)


def test_runs_that_were_tuned_differently_are_neither_pooled_nor_compared():
    rows = compute_results([*runs_of("11.4"), *runs_of("11.5")]).rows
    assert {row.configuration.tuning for row in rows} >= {(), ("1 worker",), ("fp16", "10 workers")}
    pooled = [row for row in rows if row.runs > 1]
    assert [row.configuration.tuning for row in pooled] == [("10 workers",)]  # of both tables
    assert all(row.baseline == row.configuration for row in rows)


def test_the_chart_of_a_table_names_what_differs_in_the_order_of_its_numbers():
    (chart,) = tuning_charts(compute_results(runs_of("11.3")).rows)
    assert chart.x_label == "workers"
    assert [text for _, text in chart.x_ticks] == ["0", "1", "2", "4", "8", "10", "16", "20"]
    assert [round(point.y) for point in chart.series[0].points] == TABLES[2]["throughput"]
    (chart,) = tuning_charts(compute_results(runs_of("11.1")).rows)
    assert [text for _, text in chart.x_ticks] == ["16", "32", "64"]
    assert chart.x_label == "batch per GPU"
    (chart,) = tuning_charts(compute_results(runs_of("11.6")).rows)
    assert {text for _, text in chart.x_ticks} == {"not compiled", "compiled"}


def test_a_table_of_rows_says_how_each_was_tuned_and_what_memory_it_held():
    rows = compute_results(runs_of("11.5")).rows
    columns = columns_of(rows, PRECISE)
    assert [column.heading for column in columns].count("GPU memory, GB") == 1
    names = {line[0] for line in cells(rows, columns)}
    assert names == {f"vit (micro-224, {word})" for word in ("fp32", "fp16", "bf16")}
    place = [column.heading for column in columns].index("GPU memory, GB")
    assert {line[place] for line in cells(rows, columns)} == {"46", "27", "50"}


def test_the_editions_bands_and_reference_hold_the_tables():
    edition = load_edition("hpc4ai-ch11")
    precision = {"11.1": "tf32", "11.2": "tf32", "11.3": "tf32", "11.4": "tf32"}
    for table in TABLES:
        for run in runs_of(table["id"]):
            row = row_of(run)
            tuning = row.configuration.tuning
            if not {"fp16", "bf16"} & set(tuning):  # the chapter's fp32 is TF32
                tuning = (precision.get(table["id"], "tf32"), *tuning)
            key = ("vit" if table["model"] == "vit" else "custom", row.batch_size, tuning)
            (band,) = (b for b in edition.bands if (b.model, b.batch_size, b.tuning) == key)
            assert band.low < row.epoch_seconds.value < band.high
            found = [
                each
                for each in edition.published_rows
                if each.task in ("", table["id"]) and (each.model, each.batch_size, each.tuning) == key
            ]
            assert [each.epoch_seconds for each in found] == [
                pytest.approx(row.epoch_seconds.value, abs=0.01)
            ]
