"""Every published number of the lab's documents, from the logs printed there."""

import math
import re
import runpy
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from labtui.domain.model import EpochSample, Interval
from labtui.domain.tuning import tuning_of
from labtui.export.contents import Measurements
from labtui.export.tables import csv_text, markdown_text
from labtui.results.catalogue import catalogue
from labtui.results.charts import Point, line_pieces, looks, tell_apart, y_floor
from labtui.results.compute import compute_results
from labtui.results.measured import MeasuredRun, measured_from_reports
from labtui.results.report import report_text, results_json, short_report
from labtui.results.rows import ResultRow, Results
from labtui.session.labs import load_edition
from labtui.training_logs import reader, runs

from .helpers import DERIVATIONS, published, results_of, run

CHAPTER10 = published("chapter10.toml")
THESIS = published("thesis.toml")
IMAGENET_IMAGES = 1_281_167


def row_at(results: Results, n_gpus: int, model: str = "ResNet50") -> ResultRow:
    return next(row for row in results.rows if row.n_gpus == n_gpus and row.model == model)


@pytest.mark.parametrize("table", CHAPTER10["tables"], ids=lambda table: table["id"])
def test_tables_of_chapter_10_as_printed(table):
    results = results_of(table["log"])
    for line in table["rows"]:
        plain = row_at(results, line["gpus"], table["model"]).as_printed
        assert f"{plain.epoch_seconds:g}" == line["seconds"] and plain.speedup == float(line["speedup"])
        assert f"{100 * plain.efficiency:.1f}" == line["efficiency"]
        assert plain.throughput == pytest.approx(50_000 / float(line["seconds"]), rel=1e-12)


@pytest.mark.parametrize("chapter", [11, 12, 15])
def test_the_contradictions_of_a_chapter_are_on_the_page_of_numbers(chapter):
    for found in published(f"chapter{chapter}.toml")["contradictions"].values():
        assert found in DERIVATIONS, found


@pytest.mark.parametrize("model", ["ResNet50", "ResNet152"])
def test_the_precise_reading_beside_it(model):
    results = results_of("ResNet50.31337.out", "ResNet152.31338.out")
    for line in CHAPTER10["precise"][model]:
        row = row_at(results, line["gpus"], model)
        assert f"{row.speedup.value:.2f}" == line["speedup"]
        assert f"{100 * row.efficiency.value:.1f}" == line["efficiency"]
        if "batch_factor" in line:
            assert f"{row.batch_factor:.3f}" == line["batch_factor"]


def test_cpu_and_gpu_run_alone():
    table = CHAPTER10["sequential"]
    results = results_of(table["cpu_log"], table["gpu_log"])
    cpu, gpu = row_at(results, 0), row_at(results, 1)
    assert [row.configuration.device for row in (cpu, gpu)] == ["cpu", "gpu"]
    assert f"{cpu.as_printed.epoch_seconds:g}" == table["cpu_second"]
    assert f"{gpu.as_printed.epoch_seconds:g}" == table["gpu_second"]
    firsts = [member.run.epochs[0].printed_seconds for row in (cpu, gpu) for member in row.members]
    assert [str(first) for first in firsts] == [table["cpu_first"], table["gpu_first"]]
    # "Nearly a 10x" is the quotient of the first epochs, warm-up and all; the steady ones differ by 15.4.
    assert 9 < firsts[0] / firsts[1] < 10 and gpu.printed_acceleration == 15.36
    assert gpu.acceleration.contains(215 / 14.3)
    assert cpu.speedup is None and cpu.efficiency is None and cpu.acceleration is None
    assert gpu.speedup == Interval.exact(1.0)
    other = compute_results([run(0, [220, 215], batch=256), run(1, [24, 14], batch=2048)]).rows[1]
    assert other.acceleration is None, "of another batch"


def truncated(number: float) -> str:
    """Two decimals, the rest cut off: how the thesis prints the rates it computed."""
    return f"{math.floor(number * 100 + 1e-9) / 100:.2f}"


def batch_time_ms(printed: str, images: int) -> int:
    """The one batch time, in the log's whole milliseconds, that gives a printed rate."""
    around = round(1000 * images / float(printed))
    fitting = [ms for ms in range(around - 5, around + 6) if truncated(1000 * images / ms) == printed]
    assert len(fitting) == 1, (printed, fitting)
    return fitting[0]


def benchmark_log(gpus: int, per_gpu_batch: int, printed: str) -> bytes:
    return (
        f"mpirun -np {gpus} python tf_cnn_benchmarks.py --model resnet50 --batch_size {per_gpu_batch}\n"
        f"TensorFlow:  1.12\nModel:       resnet50\nBatch size:  {gpus * per_gpu_batch} global\n"
        f"Step\tImg/sec\ttotal_loss\n1\timages/sec: {printed} +/- 0.0 (jitter = 0.0)\t8.169\n"
        f"{'-' * 64}\ntotal images/sec: {printed}\n{'-' * 64}\n"
    ).encode()


def pytorch_log(gpus: int, per_gpu_batch: int, ms: int) -> bytes:
    batches = math.ceil(IMAGENET_IMAGES / (gpus * per_gpu_batch))
    lines = [f"python main.py -a resnet50 -b {gpus * per_gpu_batch} --gpus {gpus} /data\n"]
    told = f"\tTime {ms / 1000:.3f} ({ms / 1000:.3f})\tData 0.273 (0.283)\n"
    return "".join([*lines, *(f"Epoch: [0][{index}/{batches}]{told}" for index in (198, 199))]).encode()


@pytest.mark.parametrize(
    "table", THESIS["tables"], ids=lambda table: f"tables-{table['ids']}-{table['per_gpu_batch']}"
)
def test_tables_1_to_9_and_the_speedups_of_the_thesis(table):
    logs = []
    for gpus, printed in table["throughput"].items():
        count, batch = int(gpus), table["per_gpu_batch"]
        if table["software"] == "pytorch":
            log = pytorch_log(count, batch, batch_time_ms(printed, count * batch))
        else:
            log = benchmark_log(count, batch, printed)
        logs.append((f"{gpus}.out", reader.parse_log(log)))
    results = compute_results(measured_from_reports(logs), images=IMAGENET_IMAGES)
    for gpus, printed in table["throughput"].items():
        row = row_at(results, int(gpus))
        assert truncated(row.as_printed.throughput) == printed
        assert row.from_rate and row.throughput.contains(row.as_printed.throughput)
    last = row_at(results, 32)
    assert f"{last.as_printed.speedup:.1f}" == table["speedup_at_32"]
    assert last.speedup.contains(float(table["throughput"]["32"]) / float(table["throughput"]["1"]))
    assert last.efficiency.value == pytest.approx(last.speedup.value / 32)


TABLES = published("chapters4_6.toml")
STRONG, JACOBI = TABLES["strong"], TABLES["jacobi"]


def program_results(lab: str, *lines: str):
    programs = tuple(each.program for each in load_edition(lab).programs)
    report = reader.parse_log("".join(f"{line}\n" for line in lines).encode(), programs=programs)
    return compute_results(measured_from_reports([("lab.out", report)]))


@pytest.fixture(scope="module")
def pi():
    parallel = zip(STRONG["processes"], STRONG["ms"], strict=True)
    return program_results(
        "hpc4ai-ch4", f"Sequential execution time: {STRONG['sequential_ms']:.2f} ms",
        *(f"Parallel execution time with {n} processes: {ms:.2f} ms" for n, ms in parallel),
    )  # fmt: skip


@pytest.fixture(scope="module")
def jacobi():
    """The lines that the program prints, with the one-GPU times of table 6.1."""
    lines = []
    for side, times in JACOBI["seconds"].items():
        for n, seconds in zip(JACOBI["gpus"], times, strict=True):
            told = f"1 GPU: {times[0]:8.4f}s, {n} GPUs: {seconds:8.4f}s, speedup: 0.00, efficiency: 0.00"
            lines.append(f"{side}x{side}: {told}")
    return program_results("hpc4ai-ch6", *[line.replace("jacobi-default", "jacobi") for line in lines])


def test_table_4_2_and_every_speedup_and_efficiency_from_it(pi):
    assert [row.processes for row in pi.programs] == [1, *STRONG["processes"]] and pi.rows == ()
    base = Interval.around(STRONG["sequential_ms"], 0.005)
    for row, ms in zip(pi.programs[1:], STRONG["ms"], strict=True):
        assert (row.shown.value, row.shown.half_width) == (pytest.approx(ms), pytest.approx(0.005))
        wanted = base.over(Interval.around(ms, 0.005))
        assert (row.speedup.lo, row.speedup.hi) == pytest.approx((wanted.lo, wanted.hi))
        assert row.efficiency.value == pytest.approx(wanted.value / row.processes)
    best = max(pi.programs, key=lambda row: row.speedup.value)
    # 27.58 is 27.584 cut or rounded; 20.49 is 20.485 rounded
    assert (best.processes, round(best.speedup.value, 2)) == (32, STRONG["best_speedup"])
    assert round(pi.programs[-1].speedup.value, 2) == STRONG["last_speedup"]


def test_table_4_3_is_flat_and_weak_scaling_has_no_speedup(pi):
    """The chapter has no time on one process, so no efficiency follows from its table; with one it is T1/Tn."""
    least, most = TABLES["weak"]["least_ms"], TABLES["weak"]["most_ms"]
    assert most / least - 1 == pytest.approx(0.0015, abs=5e-5)
    # The programs differ by 5 % where both have one process's work.
    assert most < STRONG["sequential_ms"] < 1.06 * least
    line = "Parallel execution time with {} processes and n = {}: {:.2f} ms"
    times = {1: least, 2: least, 64: most}
    other = line.format(1, 2**31, least / 2)  # the one of another size is no baseline
    found = program_results("hpc4ai-ch4", other, *(line.format(n, n * 2**32, t) for n, t in times.items()))
    assert [row.efficiency.value for row in found.programs] == pytest.approx([1, 1, 1, least / most])
    assert all(row.is_weak and row.speedup is None for row in found.programs)
    (alone,) = program_results("hpc4ai-ch4", line.format(2, 2 * 2**32, least)).programs
    assert alone.efficiency is None and "1 process" in alone.notes[0]
    found = program_results("hpc4ai-ch4", line.format(1, 2**32, least), line.format(2, 2**32, least / 2))
    assert found.programs[1].efficiency is None and "not weak scaling" in found.programs[1].notes[0]
    (one,) = pi.programs[1].members
    results = compute_results([replace(one, run=replace(one.run, epochs=(), outcome="oom"))])
    assert [left.reason for left in results.left_out] == ["its log has no time: it ran out of memory"]


def test_tables_6_2_and_6_3_follow_from_6_1(jacobi):
    rows = {(row.size, row.processes): row for row in jacobi.programs}
    assert len(rows) == 18
    for side, times in JACOBI["seconds"].items():
        for n, seconds in zip(JACOBI["gpus"], times, strict=True):
            row = rows[f"{side}x{side}", n]
            assert row.speedup.value == pytest.approx(times[0] / seconds)
            assert row.efficiency.value == pytest.approx(times[0] / seconds / n)
    for side in ("32768", "8192"):
        last = rows[f"{side}x{side}", 32]
        assert round(last.speedup.value, 1) == JACOBI["speedup"][side]
        assert 100 * last.efficiency.value == pytest.approx(JACOBI["efficiency"][side], abs=0.3)
    # "30 %" is 30.27 %, cut; 9.7 is 9.687 rounded
    assert 100 * rows["8192x8192", 32].efficiency.value == pytest.approx(30.27, abs=0.01)
    # without a run on one GPU, a line is compared with its own baseline
    line = "16384x16384: 1 GPU: 648.9119s, 4 GPUs: 165.7268s, speedup: 3.92, efficiency: 97.89"
    (row,) = program_results("hpc4ai-ch6", line).programs
    assert (round(row.speedup.value, 2), round(100 * row.efficiency.value, 2)) == (3.92, 97.89)
    assert "in its own line" in row.notes[0]


def test_charts_say_processes_and_milliseconds_and_never_mix_the_two_scalings(pi, jacobi):
    charts = {chart.key: chart for chart in catalogue(pi)}
    assert list(charts) == ["program-time", "program-speedup", "program-efficiency"]
    time = charts["program-time"]
    assert (time.x_label, time.y_label) == ("processes", "milliseconds") and time.x_log
    assert [text for _, text in time.x_ticks] == ["1", "2", "4", "8", "16", "32", "64"]
    assert [series.role for series in charts["program-speedup"].series] == ["measured", "ideal"]
    assert all("Strong scaling" in chart.notes[0] for chart in charts.values())
    speedup = next(chart for chart in catalogue(jacobi) if chart.key == "program-speedup")
    assert (speedup.series[3].name, speedup.x_title) == ("ideal", "GPUs (log scale)")
    assert speedup.message.startswith("32 GPUs run jacobi on 32768x32768 26.")


def test_results_json_gains_programs_and_changes_nothing_else(pi):
    assert max(map(len, report_text(pi, width=50).splitlines())) <= 50
    found = results_json(pi)
    row = found["programs"][-1]
    told = (found["rows"], row["program"], row["scaling"], row["counts"], row["processes"], row["baseline"])
    assert told == ([], "pi", "strong", "processes", 64, "the sequential program")
    assert row["seconds"]["lo"] < 0.21627 < row["seconds"]["hi"]
    assert Measurements().json_of(pi)["programs"] == found["programs"]


ROOT = Path(__file__).parents[2]
STUDY = published("thesis-study.toml")
RUNS: list[dict[str, Any]] = STUDY["runs"]
schedules = SimpleNamespace(**runpy.run_path(str(ROOT / "remote" / "pytorch" / "schedules.py")))


def rate_of(table: dict[str, Any], row: dict[str, Any], epoch: int) -> float:
    """The rate of an epoch (from 0) as the course's script computes it."""
    told = (STUDY["base_rate"], table["per_gpu"], row["gpus"], table.get("warmup", 0))
    return float(schedules.learning_rate(table["policy"], epoch, 90, *told))


def run_of(table: dict[str, Any], row: dict[str, Any]) -> MeasuredRun:
    """A run with the policy of a table: its last epoch has the printed accuracy in validation."""
    epochs = [0, 4, 29, 30, 60, 80, 89]
    samples = []
    for epoch in epochs:
        top, val = 80 * (epoch + 1) / 90, float(row["top1"]) * (epoch + 1) / 90
        told = {"learning_rate": rate_of(table, row, epoch), "top1": top, "val_top1": val}
        samples.append(EpochSample(epoch=epoch + 1, seconds=Interval.exact(100.0), line=epoch, metrics=told))
    tuning = tuning_of({"lr_policy": table["policy"], "warmup_epochs": str(table.get("warmup", 0))})
    return MeasuredRun(
        run=runs.ParsedRun(
            model="ResNet50", device="gpu", n_gpus=row["gpus"], batch_size=row["batch"], epochs=tuple(samples),
            tuning=tuning, framework="pytorch", images=STUDY["images"],
        )
    )  # fmt: skip


def study_results() -> Results:
    tables = [table for table in RUNS if "software" not in table]
    return compute_results([run_of(table, row) for table in tables for row in table["rows"]])


def test_a_policy_looks_the_same_in_every_chart_even_where_one_has_no_line():
    rows = RUNS[0]["rows"]
    scaled = [("naive", 0), ("linear", 0), ("constant", 0), *(("stepping", n) for n in (1, 2, 3))]
    tables = [RUNS[0] | {"policy": name, "warmup": epochs} for name, epochs in scaled]
    early = run_of(RUNS[0] | {"policy": "gradual", "warmup": 2}, rows[0])
    charts = catalogue(compute_results([early, *(run_of(table, row) for table in tables for row in rows)]))
    time, over = (chart.measured for chart in charts if chart.family in ("batch-accuracy", "epoch-time"))
    seen = looks(over)
    shown = {each.short: look for each, look in zip(time, looks(time).values(), strict=True)}
    assert len({look.mark for look in seen.values()}) == 6 and {*seen} - {*shown} == {"gradual, warm-up 2"}
    assert all(look == seen.get(name, look) for name, look in shown.items())
    by_epoch = (each for chart in charts if chart.over_time for each in chart.measured)
    hues = {(each.group, each.hue) for each in by_epoch if each.group != "constant rate"}
    assert hues == {(name, look.hue) for name, look in seen.items()}
    laws = [line for chart in charts if chart.family == "laws" for line in chart.measured]
    assert laws and all(line.hue == shown[line.name[10:-1]].hue for line in laws)


def test_the_three_charts_of_a_study():
    charts = {chart.key: chart for chart in catalogue(study_results(), model="ResNet50")}
    batch = charts["batch-accuracy"]
    assert [text for _, text in batch.x_ticks] == ["128", "256", "1,024", "2,048", "3,072", "4,096"]
    assert y_floor(batch, 0.6564) == 0.656 == y_floor(batch, 0.657) and y_floor(charts["error"], 0.656) == 0.6
    assert batch.x_log and not batch.y_log and batch.message.endswith(", on 32 GPUs")
    shown = {series.name: {f"{100 * point.y:.3f}" for point in series.points} for series in batch.series}
    assert [shown["naive"]] == [{row["top1"] for row in t["rows"]} for t in RUNS if t["policy"] == "naive"]
    assert "74.674" in shown["stepping, warm-up 5"], "at 1,024, with 128 on each GPU as the others have"
    names = ("gradual, warm-up 10", "gradual, warm-up 5", "linear", "naive", "stepping, warm-up 5")
    drawn = [{s.short or s.name: s.hue for s in spec.series} for spec in (batch, charts["epoch-time"])]
    assert drawn == [dict(zip(names, range(5), strict=True))] * 2, "one colour for a policy"
    assert {(p.metric, p.line) for series in batch.series for p in series.points} == {("val_top1", 89)}
    rates = charts["learning-rate"]
    (line,) = (each for each in rates.series if each.name == "ResNet50 · linear · 32 GPUs")
    assert [p.y for p in line.points] == pytest.approx([1.6, 1.6, 1.6, 0.16, 0.016, 0.0016, 0.0016])
    assert rates.y_log and len([*chain(*line_pieces(rates, line))]) == len(line.points) + 3, "it jumps thrice"
    falls = replace(line, points=tuple(Point(x=at, y=1 / at) for at in (1, 2, 3)))
    assert len([*chain(*line_pieces(rates, falls))]) == 5, "as one that stays for some epochs"
    short = short_report(study_results())
    assert "accuracy" not in charts and "epochs, GPU-h" in short
    assert short.endswith(" notes with --details.\n")
    assert "rises over so many epochs" in report_text(study_results())
    (last,) = (each.points[-1] for each in charts["error"].series if each.name == "ResNet50 · naive · 1 GPU")
    assert (last.y, last.line) == (pytest.approx(1 - 0.73286), 89)
    (hours,) = re.findall(r",0\.73286(?:0000\d+)?,([\d.]+),", csv_text(study_results()))
    assert f"| {float(hours):.3f} |\n" in markdown_text(study_results(), ""), "GPU-hours are the last column"
    assert len({label[:27] for label in tell_apart(names)}) == len(names), "cut, they still differ"
    two = [run_of(each, each["rows"][0]) for each in RUNS if each["rows"][0]["batch"] == 1024]
    steady = run_of(RUNS[0] | {"policy": "constant"}, RUNS[0]["rows"][0])  # no policy
    _, rates, over = (c for c in catalogue(compute_results([*two, steady])) if c.view == "training")
    assert rates.notes == ("Trainings with a constant rate are not shown.",)
    assert over.x_label == "GPUs" and over.message.endswith("1,024: 74.7 % on eight GPUs, 74.8 % on 32 GPUs")
    assert [(point.x, point.label) for point in over.series[0].points] == [(8, "74.7 %"), (32, "74.8 %")]
    assert not {"learning-rate", "error"}.intersection(c.key for c in catalogue(compute_results([steady])))
    row, kinds = RUNS[0]["rows"][0], enumerate(("naive", "linear", "gradual"), 9)
    told = [replace(run_of(RUNS[0] | {"policy": name}, row), run_id=n) for n, name in kinds]
    assert [each.first_run for each in compute_results(told).rows] == [9, 10, 11], "as they were run"
    twice = [replace(run_of(RUNS[0], row | {"top1": 88 - n}), run_id=n, task_id="8") for n in (8, 25)]
    twice[0].run.epochs[0].metrics["learning_rate"] = 0.0  # has no place on a logarithmic axis
    error, rates, batch = (each for each in catalogue(compute_results(twice)) if each.view == "training")
    assert tell_apart([series.name for series in error.series]) == ["run 8", "run 25"]
    assert tell_apart(["net (CPUs 2), batch 64", "net"]) == ["CPUs 2, batch 64", "net"], "no bracket is left"
    assert sum(len(each.points) for each in rates.series) == 13
    assert batch.notes[0].endswith("at the usual batch per GPU: run 25.")
    assert batch.message == "Top-1 accuracy in validation: 63.0 % at a global batch of 128"
