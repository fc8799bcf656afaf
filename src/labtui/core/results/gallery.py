"""Every chart that some rows can fill: of one network, or of several together. What a screen pages through.

A chart that would say nothing is not among them: one bar without its counterpart, a course of one moment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from labtui.core.charts import ChartSpec
from labtui.core.results.more_charts import lab_charts
from labtui.core.results.rows import Results, of_rows
from labtui.core.results.run_charts import accuracy_chart, gpu_chart, readable_epoch_chart
from labtui.core.sampler import GpuSample

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
    "cpu-gpu",
    "amdahl",
    "gustafson",
    "epochs",
    "accuracy",
    "gpu-utilization",
)
"""The kinds of charts there are; a key is one of these, or begins with one (longer ones stand first)."""
_TOGETHER = ("epoch-time", "throughput", "speedup", "efficiency", "throughput-per-gpu", "first-epoch")


def family(key: str) -> str:
    """Which kind of chart a key belongs to, whatever the network: ``amdahl`` for ``amdahl-resnet50``."""
    return next((each for each in FAMILIES if key == each or key.startswith(f"{each}-")), key)


def networks(results: Results) -> tuple[str, ...]:
    """The networks of the rows, in their order."""
    return tuple(dict.fromkeys(row.model for row in results.rows))


def gallery(results: Results, *, model: str | None = None) -> tuple[ChartSpec, ...]:
    """The charts of one network; without `model` those of all together (all there are, if there is one only)."""
    there = networks(results)
    if model is None and len(there) == 1:
        model = there[0]
    if model is not None:
        results = of_rows(results, [row for row in results.rows if row.model == model])
    charts = [*lab_charts(results), *_courses(results, model)]
    if model is None:
        charts = [chart for chart in charts if family(chart.key) in _TOGETHER or _few_lines(chart)]
    return tuple(chart for chart in charts if _says_something(chart))


def _courses(results: Results, model: str | None) -> list[ChartSpec]:
    """Epoch by epoch; real runs before practice ones, which never share a chart."""
    charts = []
    for practice in sorted({row.practice for row in results.rows}):
        for make in (readable_epoch_chart, accuracy_chart):
            chart = make(results, model=model, practice=practice)
            mixed = practice and any(not row.practice for row in results.rows)
            charts.append(replace(chart, key=f"{chart.key}-practice") if mixed else chart)
    return charts


def _few_lines(chart: ChartSpec) -> bool:
    return family(chart.key) in {"epochs", "accuracy"} and len(chart.series) <= MOST_LINES


def _says_something(chart: ChartSpec) -> bool:
    if chart.empty:
        return False
    if family(chart.key) in {"cpu-gpu", "efficiency-loss"}:
        return any(len(series.points) > 1 for series in chart.series)
    return True


def job_gpu_chart(samples: Sequence[GpuSample], job_id: str, *, practice: bool = False) -> ChartSpec | None:
    """GPU utilisation over the time of a job; None when the sampler saw only one moment or none."""
    chart = gpu_chart(samples, title=f"GPU utilisation, job {job_id}", practice=practice)
    if not any(len(series.points) > 1 for series in chart.series):
        return None
    return replace(chart, key=f"gpu-utilization-{re.sub(r'[^A-Za-z0-9_]+', '-', job_id)}")
