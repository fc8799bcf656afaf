"""The learning-rate study of the thesis: what follows from its tables, and its charts from runs with its numbers."""

from __future__ import annotations

import importlib.util
import re
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from labtui.domain.model import EpochSample, Interval
from labtui.domain.tuning import tuning_of
from labtui.results.catalogue import catalogue
from labtui.results.compute import compute_results
from labtui.results.measured import MeasuredRun
from labtui.results.rows import Results
from labtui.training_logs.runs import ParsedRun

from .helpers import DERIVATIONS, published

ROOT = Path(__file__).parents[2]
STUDY = published("thesis-study.toml")
RUNS: list[dict[str, Any]] = STUDY["runs"]
_found = importlib.util.spec_from_file_location("schedules", ROOT / "remote" / "pytorch" / "schedules.py")
schedules = importlib.util.module_from_spec(_found)
_found.loader.exec_module(schedules)


def seconds(wall: str) -> int:
    """Wall time as printed, ``6 d 4 h 16``, in seconds."""
    days, hours, minutes = re.fullmatch(r"(?:(\d+) d )?(\d+) h (\d\d)", wall).groups()
    return 60 * (60 * (24 * int(days or 0) + int(hours)) + int(minutes))


def rate_of(table: dict[str, Any], row: dict[str, Any], epoch: int) -> float:
    """The rate of an epoch (from 0) as the course's script computes it."""
    rate = schedules.learning_rate(
        table["policy"], epoch, 90, STUDY["base_rate"], table["per_gpu"], row["gpus"], table.get("warmup", 0)
    )
    return float(rate)


def run_of(table: dict[str, Any], row: dict[str, Any]) -> MeasuredRun:
    """A run with the policy of a table: its last epoch has the printed accuracy in validation."""
    epochs = [0, 4, 29, 30, 60, 80, 89]
    samples = tuple(
        EpochSample(
            epoch=epoch + 1,
            seconds=Interval.exact(100.0),
            metrics={
                "learning_rate": rate_of(table, row, epoch),
                "top1": 80 * (epoch + 1) / 90,
                "val_top1": float(row["top1"]) * (epoch + 1) / 90,
            },
        )
        for epoch in epochs
    )
    tuning = tuning_of({"lr_policy": table["policy"], "warmup_epochs": str(table.get("warmup", 0))})
    return MeasuredRun(
        run=ParsedRun(
            model="ResNet50", device="gpu", n_gpus=row["gpus"], batch_size=row["batch"], epochs=samples,
            tuning=tuning, framework="pytorch", images=STUDY["images"],
        )
    )  # fmt: skip


def results() -> Results:
    tables = [table for table in RUNS if "software" not in table]
    return compute_results([run_of(table, row) for table in tables for row in table["rows"]])


def test_wall_times_give_the_speedups_that_the_page_of_numbers_names():
    rows = {(table["table"], row["gpus"]): row for table in RUNS for row in table["rows"] if row["wall"]}
    one = seconds(rows[11, 1]["wall"])
    stepping = [row for table in RUNS if table["table"] == 12 for row in table["rows"]]
    found = [f"{one / seconds(row['wall']):.1f}" for row in stepping]
    assert found == ["7.2", "13.2", "18.3", "22.5", "20.3"]
    assert all(speedup in DERIVATIONS for speedup in found)
    rate = STUDY["epochs"] * STUDY["images"] / one
    assert f"{rate:.0f}" == STUDY["contradictions"]["baseline, images a second by its wall time"]
    assert "216 images a second" in DERIVATIONS and "a rate of 1.4 for" in DERIVATIONS


def test_the_three_charts_of_a_study():
    charts = {chart.key: chart for chart in catalogue(results(), model="ResNet50")}
    batch = charts["batch-accuracy"]
    assert [text for _, text in batch.x_ticks] == ["128", "256", "1,024", "2,048", "3,072", "4,096"]
    assert batch.x_log and not batch.y_log
    shown = {series.name: {f"{100 * point.y:.3f}" for point in series.points} for series in batch.series}
    for table in RUNS:
        if table["policy"] == "naive":
            assert shown["naive"] == {row["top1"] for row in table["rows"]}
    assert set(shown) == {
        "naive", "linear", "stepping, warm-up of 5 epochs", "gradual, warm-up of 5 epochs",
        "gradual, warm-up of 10 epochs",
    }  # fmt: skip
    rates = {series.name: [point.y for point in series.points] for series in charts["learning-rate"].series}
    assert rates["linear, 32 GPUs, batch 4,096"] == pytest.approx(
        [1.6, 1.6, 1.6, 0.16, 0.016, 0.0016, 0.0016]
    )
    names = [series.name for series in charts["error"].series]
    last = charts["error"].series[names.index("naive, 1 GPU, batch 128")].points[-1]
    assert last.y == pytest.approx(1 - 0.73286)
    assert all(point.y <= 1 for point in chain.from_iterable(each.points for each in charts["error"].series))


def test_runs_without_a_policy_have_none_of_them():
    table = RUNS[0] | {"policy": "constant"}
    keys = {chart.key for chart in catalogue(compute_results([run_of(table, row) for row in table["rows"]]))}
    assert not keys & {"learning-rate", "error", "batch-accuracy"}
