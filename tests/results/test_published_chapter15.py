"""The tables of chapter 15 from logs with its lines: tokens per second of one GPU, and what follows from them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from labtui.export.tables import csv_text
from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_reports
from labtui.results.report import report_text
from labtui.results.rows import Results
from labtui.results.scaling_charts import tuning_charts
from labtui.results.serialize import results_json
from labtui.training_logs.reader import parse_log
from tests.results.helpers import task_charts

from .helpers import published

CHAPTER15 = published("chapter15.toml")
SCALING: dict[str, Any] = CHAPTER15["scaling"]
ODD: dict[str, str] = CHAPTER15["contradictions"]
STAMP = "[11/22/2026 01:00:00 PM] INFO - "


def log(gpus: int, batch: int, options: list[str], tokens: str, memory: str) -> bytes:
    """A log as the chapter's benchmark.py prints it under ``torchrun --tee 3``, with the command of its job."""
    nodes = max(1, gpus // 4)
    start = (
        f"torchrun --nnodes={nodes} --nproc_per_node={gpus // nodes} --rdzv_backend=c10d --tee 3 benchmark.py"
    )
    given = f"--per_device_train_batch_size {batch} --sequence_length 1024 --max_steps 450 --model llama-1b"
    lines = [f"+ srun {start} {given} {' '.join(options)}"]
    lines += [f"[default0]:{STAMP}> Training throughput:     {tokens}.00 Tokens/s/GPU"]
    lines += [f"[default0]:{STAMP}> Max reserved GPU Memory: {memory}"]
    return ("\n".join(lines) + "\n").encode()


def results_of(logs: list[bytes]) -> Results:
    return compute_results(
        measured_from_reports((f"{i}.out", parse_log(text)) for i, text in enumerate(logs))
    )


def one_gpu() -> Results:
    return results_of(
        [log(1, run["batch"], run["options"], run["tokens"], run["memory"]) for run in CHAPTER15["runs"]]
    )


def scaling() -> Results:
    options = CHAPTER15["runs"][-1]["options"]
    rows = zip(SCALING["gpus"], SCALING["tokens"], SCALING["memory"], strict=True)
    return results_of([log(gpus, 37, options, tokens, memory) for gpus, tokens, memory in rows])


def test_each_step_on_one_gpu_is_a_row_of_its_own_in_tokens():
    results = one_gpu()
    assert len(results.rows) == len(CHAPTER15["runs"])
    found = {(row.batch_size, row.configuration.tuning): row for row in results.rows}
    assert len(found) == len(results.rows)
    for row in results.rows:
        assert (row.configuration.unit, row.configuration.sequence_length) == ("tokens", 1024)
        assert row.model == "llama-1b"
        assert row.epoch_seconds is None
    printed = {(f"{row.throughput.value:.0f}", f"{row.gpu_memory.value:.2f}") for row in results.rows}
    assert printed == {(run["tokens"], run["memory"]) for run in CHAPTER15["runs"]}
    first, last = (int(CHAPTER15["runs"][place]["tokens"]) for place in (0, -1))
    assert f"{last / first:.2f}" == ODD["first against tuned"]
    assert not tuning_charts(results.rows)  # eight bars that differ in five things: the table says it
    precision = [row for row in results.rows if row.batch_size == 5]
    (chart,) = tuning_charts(precision)
    assert chart.y_label == "tokens per second"
    assert {text for _, text in chart.x_ticks} == {"bf16 weights", "fp32 weights"}


def test_totals_speedups_and_efficiencies_follow_from_the_rates():
    rows = scaling().rows
    assert [row.n_gpus for row in rows] == SCALING["gpus"]
    for place, row in enumerate(rows):
        assert f"{row.throughput.value:.0f}" == SCALING["total"][place]
        assert f"{row.per_gpu_throughput.value:.0f}" == SCALING["tokens"][place]
        assert f"{row.gpu_memory.value:.2f}" == SCALING["memory"][place]
        speedup = ODD.get(f"speedup {row.n_gpus}", SCALING["speedup"][place])
        assert f"{row.speedup.value:.2f}" == f"{row.as_printed.speedup:.2f}" == speedup
        assert f"{100 * row.efficiency.value:.0f}" == SCALING["efficiency"][place]
        # GPUs over tokens per second, against one GPU: the cost of a token
        cost = rows[0].throughput.value * row.n_gpus / row.throughput.value
        assert f"{1 / cost:.2f}" == SCALING["cost_efficiency"][place]
        step = 37 * row.n_gpus * 1024 / row.throughput.value
        assert row.step_seconds.value == pytest.approx(step)
        assert row.batch_factor == 1


def test_tokens_and_images_never_share_a_chart_or_a_baseline():
    from .test_published_chapter12 import CHAPTER12, runs_of

    images = runs_of(CHAPTER12["tables"][0])
    tokens = [run for row in scaling().rows for run in row.members]
    results = compute_results([*images, *tokens])
    charts = {chart.key: chart for chart in task_charts(results)}
    assert charts["throughput"].y_label == "tokens per second"
    assert charts["throughput-images"].y_label == "images per second"
    assert {series.name for series in charts["throughput"].series} == {"llama-1b"}
    for row in results.rows:
        assert row.baseline is not None and row.baseline.unit == row.configuration.unit


def test_every_output_says_tokens():
    results = scaling()
    text = report_text(results)
    assert "tokens/s" in text
    assert "images/s" not in text
    assert "epoch, s" not in text.splitlines()[1]
    assert "tokens" in csv_text(results)
    rows = results_json(results)["rows"]
    assert {row["unit"] for row in rows} == {"tokens"}
    assert rows[0]["gpu_memory_gib"]["value"] == 62.34
    json.dumps(rows, allow_nan=False)
    notes = task_charts(results)[-1].notes
    assert any(note.startswith("Tokens per second against one GPU's") for note in notes)
