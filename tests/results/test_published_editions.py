"""The tables of chapter 11 from logs with its lines: rates, times, memory as printed; what contradicts is listed."""

import json
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from labtui.domain.tuning import tuning_words
from labtui.export.tables import csv_text
from labtui.results import numbers, report
from labtui.results.compute import compute_results
from labtui.results.cost import RunUtilization
from labtui.results.measured import MeasuredRun, measured_from_reports
from labtui.results.messages import fit_sentences
from labtui.results.rows import Results, rename_models
from labtui.results.scaling_charts import law_charts, tuned_charts
from labtui.session.labs import load_edition
from labtui.training_logs.reader import parse_log
from tests.lab.proof import published_rows
from tests.results.helpers import task_charts

from .helpers import course_log, published

CHAPTER11 = published("chapter11.toml")
TABLES: list[dict[str, Any]] = CHAPTER11["tables"]


def images(table: dict[str, Any], place: int) -> int:
    """Images of an epoch: whole batches of one process."""
    batch: int = table["batch"][place]
    return int(CHAPTER11["images"][table["data_set"]]) // batch * batch


@cache
def runs11(name: str) -> tuple[MeasuredRun, ...]:
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


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["id"])
def test_rate_time_and_memory_as_printed_and_as_the_edition_has_them(table):
    edition, name = load_edition("hpc4ai-ch11"), "vit" if table["model"] == "vit" else "custom"
    places = [place for place, rate in enumerate(table["throughput"]) if rate >= 0]
    for run, place in zip(runs11(table["id"]), places, strict=True):
        (row,), rate = compute_results([run]).rows, table["throughput"][place]
        assert row.throughput.value == pytest.approx(rate, rel=1e-5)
        assert (run.run.throughput.lo, run.run.throughput.hi) == (rate, rate + 1)
        assert row.configuration.images == images(table, place)
        assert (row.total_seconds.lo, row.gpu_memory.lo) == (table["seconds"][place], table["memory"][place])
        assert row.total_seconds.hi == row.total_seconds.lo + 1
        if table["seconds"][place]:  # the whole training is no shorter than five epochs at its rate
            epochs = 5 * images(table, place) / (rate + 1)
            assert epochs < table["seconds"][place] + 1, (table["id"], place)
        tuning = row.configuration.tuning
        if "mixed_precision" not in dict(tuning):  # the chapter's fp32 is TF32
            tuning = (("mixed_precision", "tf32"), *tuning)
        key = (name, row.batch_size, tuning)
        (band,) = (each for each in edition.bands if (each.model, each.batch_size, each.run_tuning) == key)
        assert band.low < row.epoch_seconds.value < band.high
        rows = [each for each in published_rows(edition) if each.task in ("", table["id"])]
        (reference,) = (each for each in rows if (each.model, each.batch_size, each.run_tuning) == key)
        assert reference.epoch_seconds == pytest.approx(row.epoch_seconds.value, abs=0.01)


def test_runs_that_were_tuned_differently_are_not_pooled_and_a_table_says_how_and_what_memory_they_held():
    rows = compute_results([*runs11("11.4"), *runs11("11.5")]).rows
    tunings = {tuning_words(row.configuration.tuning) for row in rows}
    assert tunings >= {(), ("1 worker",), ("fp16", "10 workers")}
    pooled = [row for row in rows if row.runs > 1]
    assert [tuning_words(row.configuration.tuning) for row in pooled] == [("10 workers",)]  # of both tables
    assert all(row.is_baseline for row in rows)
    rows = compute_results(runs11("11.5")).rows
    table = numbers.table_of(rows, numbers.PRECISE)
    place = table.headings.index("GPU memory, GiB")
    words = [f"vit (micro-224, {word})" for word in ("fp32", "fp16", "bf16")]
    assert {line[0] for line in table.rows} == set(words)
    assert {row.label for row in rows} == {f"{name} on 1 GPU" for name in words}  # in notes, too
    assert {line[place] for line in table.rows} == {"46", "27", "50"}


def test_the_chart_of_a_table_names_what_differs_in_the_order_of_its_numbers():
    (chart,) = tuned_charts(compute_results(runs11("11.3")).rows)
    workers = [f"{n} worker{'s' * (n != 1)}" for n in (0, 1, 2, 4, 8, 10, 16, 20)]
    assert [text for _, text in chart.x_ticks] == workers
    assert [round(point.y) for point in chart.series[0].points] == TABLES[2]["throughput"]
    (chart,) = tuned_charts(compute_results(runs11("11.1")).rows)
    assert [text for _, text in chart.x_ticks] == ["batch 16", "batch 32", "batch 64"]
    (chart,) = tuned_charts(compute_results(runs11("11.6")).rows)
    assert {text for _, text in chart.x_ticks} == {"not compiled", "compiled"}


CHAPTER12 = published("chapter12.toml")
ODD: dict[str, str] = CHAPTER12["contradictions"]
PER_GPU = CHAPTER12["batch_per_gpu"]


def runs_of(table: dict[str, Any]) -> tuple[MeasuredRun, ...]:
    reports, head = [], f"run-1:     model=vit device=gpu data_set={table['data_set']}\n".encode()
    for place, gpus in enumerate(table["gpus"]):
        start = f"torchrun --nnodes={max(1, gpus // 4)} --nproc_per_node={min(4, gpus)} train_ddp.py"
        text = course_log(
            f"srun {start} --model_name vit", "vit", PER_GPU, table["batches"][place] * PER_GPU,
            table["throughput"][place], (table["total_seconds"][place], 53), "Total number of parameters 631021000",
        )  # fmt: skip
        reports.append((f"{table['data_set']}-{place}.out", parse_log(head + text)))
    return measured_from_reports(reports)


@pytest.mark.parametrize("table", CHAPTER12["tables"], ids=lambda table: table["id"])
def test_what_follows_from_the_rates(table):
    results = compute_results(runs_of(table))
    rows, far = results.rows, {"micro-224": "9.2", "tiny-224": "4.4"}[table["data_set"]]
    assert [row.n_gpus for row in rows] == table["gpus"]
    for place, row in enumerate(rows):
        name = f"{table['data_set']} {{}} {row.n_gpus}"
        assert row.throughput.value == pytest.approx(table["throughput"][place], rel=1e-6)
        assert row.configuration.images == table["batches"][place] * PER_GPU * row.n_gpus
        derived = f"{100 * row.efficiency.value:.1f}".removesuffix(".0")
        assert derived == ODD.get(name.format("efficiency"), table["efficiency"][place])
    assert rows[0].doubling_gain is None
    for before, row, printed in zip(rows, rows[1:], table["gain"], strict=False):
        more = row.throughput.value - before.throughput.value
        assert f"+{more:.0f} ({100 * row.doubling_gain.value:.0f} %)" == printed
        assert row.doubling_gain.lo < row.doubling_gain.value < row.doubling_gain.hi
    told, (chart,) = f", within {far} % of each speedup, fits best", law_charts(results)
    assert f"{told})" in chart.message and f"{told}." in " ".join(fit_sentences(results.fits))


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
    assert any("batch per GPU stays the same" in note for note in charts["efficiency"].notes)
    assert not any("weak scaling" in note for note in charts["throughput"].notes)
    gains = "2 GPUs +93 %, 4 GPUs +92 %, 8 GPUs +87 %, 16 GPUs +84 %, 32 GPUs +69 %."
    said = f"vit (micro-224): images per second gained by doubling the GPUs (100 % is ideal): {gains}"
    assert said in report.report_text(both())


def test_without_names_the_two_data_sets_are_still_not_mixed():
    """Whole batches make 12,416 images on one GPU and 12,288 on 32 of one data set; 99,968 are another."""
    runs = [replace(run, data_set="") for table in CHAPTER12["tables"] for run in runs_of(table)]
    rows = compute_results(runs).rows
    assert len(rows) == 12
    (chart, *_) = task_charts(compute_results(runs))
    assert {s.name for s in chart.series} == {"vit (12,416 images an epoch)", "vit (99,968 images an epoch)"}
    for row in rows:
        assert row.baseline is not None
        assert (row.configuration.images > 90_000) == (row.baseline.configuration.images > 90_000)


CHAPTER15 = published("chapter15.toml")
SCALING: dict[str, Any] = CHAPTER15["scaling"]
ODD15: dict[str, str] = CHAPTER15["contradictions"]
STAMP = "[11/22/2026 01:00:00 PM] INFO - "


def log15(gpus: int, batch: int, options: list[str], tokens: str, memory: str) -> bytes:
    """A log15 as the chapter's benchmark.py prints it under ``torchrun --tee 3``, with the command of its job."""
    nodes = max(1, gpus // 4)
    start = f"torchrun --nnodes={nodes} --nproc_per_node={gpus // nodes} --tee 3 benchmark.py"
    given = f"--per_device_train_batch_size {batch} --sequence_length 1024 --max_steps 450 --model llama-1b"
    lines = [f"+ srun {start} {given} {' '.join(options)}"]
    lines += [f"[default0]:{STAMP}> Training throughput:     {tokens}.00 Tokens/s/GPU"]
    lines += [f"[default0]:{STAMP}> Max reserved GPU Memory: {memory}"]
    return ("\n".join(lines) + "\n").encode()


def tokens_of(logs: list[bytes]) -> Results:
    reports = ((f"{i}.out", parse_log(text)) for i, text in enumerate(logs))
    return compute_results(measured_from_reports(reports))


def scaling() -> Results:
    options = CHAPTER15["runs"][-1]["options"]
    rows = zip(SCALING["gpus"], SCALING["tokens"], SCALING["memory"], strict=True)
    return tokens_of([log15(gpus, 37, options, tokens, memory) for gpus, tokens, memory in rows])


def test_each_step_on_one_gpu_is_a_row_of_its_own_in_tokens():
    runs = CHAPTER15["runs"]
    told = ("batch", "options", "tokens", "memory")
    results = tokens_of([log15(1, *(run[each] for each in told)) for run in runs])
    found = {(row.batch_size, row.configuration.tuning): row for row in results.rows}
    assert len(found) == len(results.rows) == len(runs)
    for row in results.rows:
        assert (row.configuration.unit, row.configuration.sequence_length) == ("tokens", 1024)
        assert (row.model, row.epoch_seconds) == ("llama-1b", None)
    printed = {(f"{row.throughput.value:.0f}", f"{row.gpu_memory.value:.2f}") for row in results.rows}
    assert printed == {(run["tokens"], run["memory"]) for run in CHAPTER15["runs"]}
    (chart,) = tuned_charts(results.rows)
    assert len(chart.x_ticks) == 8 and chart.message.endswith("times the slowest of 8 runs")
    (chart,) = tuned_charts([row for row in results.rows if row.batch_size == 5])
    assert chart.y_label == "tokens per second"
    assert {text for _, text in chart.x_ticks} == {"bf16 weights", "fp32 weights"}


def test_totals_speedups_and_efficiencies_follow_from_the_rates():
    rows = scaling().rows
    assert [row.n_gpus for row in rows] == SCALING["gpus"]
    for place, row in enumerate(rows):
        assert f"{row.throughput.value:.0f}" == SCALING["total"][place]
        assert f"{row.per_gpu_throughput.value:.0f}" == SCALING["tokens"][place]
        assert f"{row.gpu_memory.value:.2f}" == SCALING["memory"][place]
        speedup = ODD15.get(f"speedup {row.n_gpus}", SCALING["speedup"][place])
        assert f"{row.speedup.value:.2f}" == f"{row.as_printed.speedup:.2f}" == speedup
        assert f"{100 * row.efficiency.value:.0f}" == SCALING["efficiency"][place]
        # GPUs over tokens per second, against one GPU: the cost of a token
        cost = rows[0].throughput.value * row.n_gpus / row.throughput.value
        assert f"{1 / cost:.2f}" == SCALING["cost_efficiency"][place]
        assert row.step_seconds.value == pytest.approx(37 * row.n_gpus * 1024 / row.throughput.value)
        assert row.batch_factor == 1


def test_tokens_and_images_never_share_a_chart_or_a_baseline():
    images = runs_of(CHAPTER12["tables"][0])
    tokens = [run for row in scaling().rows for run in row.members]
    results = compute_results([*images, *tokens])
    charts = {chart.key: chart for chart in task_charts(results)}
    assert charts["throughput-tokens"].y_label == "tokens per second"
    assert charts["throughput-images"].y_label == "images per second"
    assert {series.name for series in charts["throughput-tokens"].series} == {"llama-1b"}
    for row in results.rows:
        assert row.baseline is not None and row.baseline.configuration.unit == row.configuration.unit


def test_every_output_says_tokens():
    results = scaling()
    use = RunUtilization(run=results.rows[0].members[0], steady=0.5, standing_by=0)
    text = report.report_text(rename_models(results, {"llama-1b": "Llama 1B"}), uses=[use])
    assert "tokens/s" in text and "images/s" not in text
    assert "  Llama 1B on 1 GPU: 50.0 % busy" in text and "llama-1b" not in text
    assert "epoch, s" not in text.splitlines()[1] and "tokens" in csv_text(results)
    rows = report.results_json(results)["rows"]
    assert {row["unit"] for row in rows} == {"tokens"} and rows[0]["gpu_memory_gib"]["value"] == 62.34
    json.dumps(rows, allow_nan=False)
    notes = task_charts(results)[-1].notes
    assert any(note.startswith("Runs are compared by tokens per second") for note in notes)
