"""Which charts exist for given results, in order; the one place that decides it.

The makers lie in `charts` (the task's four), `comparison_charts` (the analysis) and `run_charts` (epoch by epoch).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from labtui.results.chart_spec import ChartSpec
from labtui.results.charts import Reading, by_unit, scaling_lines, split_practice, task_charts, unique_keys
from labtui.results.comparison_charts import (
    cpu_gpu_chart,
    first_epoch_chart,
    law_charts,
    loss_chart,
    networks_of,
    per_gpu_chart,
    tuning_charts,
)
from labtui.results.rows import Results, of_rows
from labtui.results.run_charts import accuracy_chart, gpu_chart, readable_epoch_chart, study_charts
from labtui.training_logs.gpu_sampler import GpuSample

MOST_LINES = 6
"""More lines than this cannot be told apart, so runs of several networks are not drawn over each other."""
FAMILIES = (
    "epoch-time",
    "throughput-per-gpu",
    "throughput",
    "speedup",
    "efficiency-loss",
    "efficiency",
    "first-epoch",
    "tuning",
    "cpu-gpu",
    "amdahl",
    "gustafson",
    "epochs",
    "accuracy",
    "learning-rate",
    "error",
    "batch-accuracy",
    "gpu-utilization",
)
"""The kinds of charts there are; a key is one of these, or begins with one (longer ones stand first)."""
_TOGETHER = ("epoch-time", "throughput", "speedup", "efficiency", "throughput-per-gpu", "first-epoch")


def family(key: str) -> str:
    """Which kind of chart a key belongs to, whatever the network: ``amdahl`` for ``amdahl-resnet50``."""
    return next((each for each in FAMILIES if key == each or key.startswith(f"{each}-")), key)


def networks(results: Results) -> tuple[str, ...]:
    """The networks of the rows, in their order."""
    return networks_of(results.rows)


def gallery(results: Results, *, model: str | None = None) -> tuple[ChartSpec, ...]:
    """The charts of one network; without `model` those of all together (all there are, if there is one only)."""
    there = networks(results)
    if model is None and len(there) == 1:
        model = there[0]
    if model is not None:
        results = of_rows(results, [row for row in results.rows if row.model == model])
    charts = [*lab_charts(results), *courses(results, model)]
    if model is None:
        charts = [chart for chart in charts if family(chart.key) in _TOGETHER or _few_lines(chart)]
    return tuple(chart for chart in charts if says_something(chart))


def lab_charts(
    results: Results, *, model: str | None = None, reading: Reading = "precise"
) -> tuple[ChartSpec, ...]:
    """Every chart of the rows that has something to show: the task's four first, then the analysis."""
    charts: list[ChartSpec] = []
    for rows in split_practice(results, model):
        lines = scaling_lines(rows)
        charts += [per_gpu_chart(mine) for mine in by_unit(lines)]
        charts.append(first_epoch_chart(lines))
        charts += [cpu_gpu_chart(rows, name, reading=reading) for name in networks_of(rows)]
        charts += [loss_chart(line) for line in lines]
    shown = [*task_charts(results, model=model, reading=reading), *(c for c in charts if not c.empty)]
    return unique_keys([*shown, *law_charts(results, model=model)])


def courses(results: Results, model: str | None) -> list[ChartSpec]:
    """Rates as tuned, times and accuracy by epoch; real runs before practice ones, which never share a chart."""
    charts = []
    for practice in sorted({row.practice for row in results.rows}):
        rows = [row for row in results.rows if row.practice is practice]
        mine = [row for row in rows if model is None or row.model == model]
        mixed = practice and any(not row.practice for row in results.rows)
        for name in networks_of(mine):
            tuned = tuning_charts([row for row in mine if row.model == name])
            tuned += study_charts(results, model=name, practice=practice)
            charts += [replace(chart, key=f"{chart.key}-practice") if mixed else chart for chart in tuned]
        for make in (readable_epoch_chart, accuracy_chart):
            chart = make(results, model=model, practice=practice)
            charts.append(replace(chart, key=f"{chart.key}-practice") if mixed else chart)
    return charts


def _few_lines(chart: ChartSpec) -> bool:
    return family(chart.key) in {"epochs", "accuracy"} and len(chart.series) <= MOST_LINES


def says_something(chart: ChartSpec) -> bool:
    """Whether a chart has what it compares: one bar alone is no speedup, no efficiency and no acceleration."""
    if chart.empty:
        return False
    if family(chart.key) in {"cpu-gpu", "efficiency-loss", "speedup", "efficiency"}:
        return any(len(series.points) > 1 for series in chart.series)
    return True


def job_gpu_chart(
    samples: Sequence[GpuSample], job_id: str, *, log: str = "", practice: bool = False
) -> ChartSpec | None:
    """GPU utilisation over the time of a job; None when the sampler saw only one moment or none.

    Without a `job_id` the job is named after its `log`, a file name.
    """
    name = f"job {job_id}" if job_id else log
    chart = gpu_chart(samples, title=f"GPU utilisation, {name}", practice=practice)
    if not any(len(series.points) > 1 for series in chart.series):
        return None
    stem = re.sub(r"[^A-Za-z0-9_]+", "-", job_id or log.rpartition(".")[0] or log)
    return replace(chart, key=f"gpu-utilization-{stem}")
