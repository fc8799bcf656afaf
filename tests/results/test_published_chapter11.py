"""The tables of chapter 11 from logs with its lines: rates, times, memory as printed; what contradicts is listed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from labtui.results.compute import compute_results
from labtui.results.measured import MeasuredRun, measured_from_reports
from labtui.results.numbers import PRECISE, cells, columns_of
from labtui.results.rows import ResultRow
from labtui.results.scaling_charts import tuning_charts
from labtui.session.labs import load_edition
from labtui.training_logs.reader import parse_log

from .helpers import published

CHAPTER11 = published("chapter11.toml")
TABLES: list[dict[str, Any]] = CHAPTER11["tables"]


def images(table: dict[str, Any], place: int) -> int:
    """Images of an epoch: whole batches of one process."""
    batch: int = table["batch"][place]
    return int(CHAPTER11["images"][table["data_set"]]) // batch * batch


def log(table: dict[str, Any], place: int) -> str:
    """A log as the chapter's train.py prints it; one that ran out of memory ends after its head."""
    batch, rate = table["batch"][place], table["throughput"][place]
    trained = images(table, place)
    head = [f"### model_name: {table['model']}", f"### batch_size: {batch}"]
    head += [f"### {option}" for option in table["options"][place]]
    head += ["### num_epochs: 5", "### Device: cuda:0"]
    head += [f"### Total training samples (batches): {trained} ({trained // batch})"]
    if rate < 0:
        return "\n".join([*head, "[EPOCH: 1] Starting training loop...", ""])
    for epoch in range(1, 6):
        head += [f"[EPOCH: {epoch}] Starting training loop..."]
        head += [f"[EPOCH: {epoch}] Training throughput: {rate / 2 if epoch == 1 else rate:.3f} imgs/s"]
    head += ["Training finished!", f"Complete training Time: {table['seconds'][place]} s "]
    head += [f"Training throughput:    {rate} imgs/s", f"GPU memory reserved:    {table['memory'][place]} GB"]
    command = f"+ torchrun --standalone --nproc_per_node=1 train.py --num_epochs 5 --batch_size {batch}"
    return "\n".join([command, *head, ""])


@cache
def runs_of(name: str) -> tuple[MeasuredRun, ...]:
    table = next(each for each in TABLES if each["id"] == name)
    places = [place for place, rate in enumerate(table["throughput"]) if rate >= 0]
    reports = [(f"{name}-{place}.out", parse_log(log(table, place).encode())) for place in places]
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


def test_the_listed_contradictions_are_real_and_on_the_page_of_numbers():
    page = (Path(__file__).parents[2] / "docs" / "derivations.md").read_text(encoding="utf-8")
    for found in CHAPTER11["contradictions"].values():
        assert found in page, found
    plain, compiled = TABLES[5]["throughput"]
    assert f"{compiled / plain:.2f}" == "1.54"
    assert f"{TABLES[4]['throughput'][5]} and {plain}" == "196 and 172"
    for table, place in ((TABLES[1], 0), (TABLES[2], 0)):
        left = table["seconds"][place] - 5 * images(table, place) / table["throughput"][place]
        assert left == pytest.approx(880, abs=1.5)


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
