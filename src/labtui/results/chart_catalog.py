"""Which charts exist for given results, in order; the one place that decides it.

The makers lie in `charts` (the task's four), `comparison_charts` (the analysis) and `run_charts`
(epoch by epoch). Those of programs that are timed without epochs lie here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from labtui.domain.model import Interval
from labtui.results.charts import (
    WIDE,
    ChartSpec,
    Point,
    Reading,
    Series,
    by_unit,
    scaling_lines,
    split_practice,
    task_charts,
    unique_keys,
)
from labtui.results.comparison_charts import (
    cpu_gpu_chart,
    first_epoch_chart,
    law_charts,
    loss_chart,
    networks_of,
    per_gpu_chart,
    tuning_charts,
)
from labtui.results.numbers import percent_text, ratio_text, three_digits
from labtui.results.programs import ProgramRow, baseline_text
from labtui.results.rows import Results, of_rows
from labtui.results.run_charts import accuracy_chart, gpu_chart, readable_epoch_chart, study_charts
from labtui.training_logs.gpu_sampler import GpuSample

MOST_LINES = 6
"""More lines than this cannot be told apart, so runs of several networks are not drawn over each other."""
FAMILIES = (
    "program-time",
    "program-speedup",
    "program-efficiency",
    "weak-time",
    "weak-efficiency",
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
    """The networks of the rows, in their order, then the programs."""
    return (*networks_of(results.rows), *dict.fromkeys(row.program.name for row in results.programs))


def gallery(results: Results, *, model: str | None = None) -> tuple[ChartSpec, ...]:
    """The charts of one network; without `model` those of all together (all there are, if there is one only)."""
    there, programs = networks(results), results.programs
    if model is None and len(there) == 1:
        model = there[0]
    if model is not None:
        results = of_rows(results, [row for row in results.rows if row.model == model])
    charts = [*lab_charts(results), *courses(results, model)]
    if model is None:
        charts = [chart for chart in charts if family(chart.key) in _TOGETHER or _few_lines(chart)]
    timed = program_charts([row for row in programs if model in (None, row.program.name)])
    return unique_keys([*timed, *(chart for chart in charts if has_content(chart))])


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


def has_content(chart: ChartSpec) -> bool:
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


# --------------------------------------------------------------------------- programs that are timed without epochs

_UNITS = {"s": "seconds", "ms": "milliseconds"}


def program_charts(rows: Sequence[ProgramRow]) -> tuple[ChartSpec, ...]:
    """Time, speedup and efficiency of strong scaling; time and efficiency of weak scaling. Each says which it is.

    Real and practice times, programs, and units never share a chart.
    """
    charts: list[ChartSpec] = []
    for practice in (False, True):
        mine = [row for row in rows if row.practice is practice]
        for name in dict.fromkeys(row.program.name for row in mine):
            charts += _charts_of_program([row for row in mine if row.program.name == name])
    real = {(chart.key, chart.title) for chart in charts if not chart.practice}
    both = [chart for chart in charts if chart.practice and (chart.key, chart.title) in real]
    return tuple(replace(each, key=f"{each.key}-practice") if each in both else each for each in charts)


def _charts_of_program(rows: Sequence[ProgramRow]) -> list[ChartSpec]:
    program = rows[0].program
    against = f"T1 is the time of {baseline_text(program)}."
    times = {row: (row.shown, three_digits(row.shown.value)) for row in rows}
    if program.scaling == "weak":
        note = f"Weak scaling: n {program.counts} do n times the work. E = T1/Tn; {against}"
        each = {row: (e, percent_text(e)) for row in rows if (e := row.weak_efficiency) is not None}
        made = [
            _program_chart(
                "weak-time", f"Weak scaling: time, {program.name}", _UNITS[program.shown_in], times, note
            ),
            _program_chart("weak-efficiency", f"Weak efficiency, {program.name}", "T1 / Tn", each, note),
        ]
    else:
        note = f"Strong scaling: the same work on n {program.counts}. {against}"
        speedups = {row: (s, ratio_text(s)) for row in rows if (s := row.speedup) is not None}
        shares = {row: (e, percent_text(e)) for row in rows if (e := row.efficiency) is not None}
        times_one = f"times {baseline_text(program)}"
        made = [
            _program_chart("program-time", f"Time, {program.name}", _UNITS[program.shown_in], times, note),
            _program_chart("program-speedup", f"Speedup, {program.name}", times_one, speedups, note),
            _program_chart(
                "program-efficiency",
                f"Efficiency, {program.name}",
                f"speedup / {program.counts}",
                shares,
                note,
            ),
        ]
    return [chart for chart in made if any(len(series.points) > 1 for series in chart.series)]


def _program_chart(
    key: str, title: str, unit: str, values: dict[ProgramRow, tuple[Interval, str]], note: str
) -> ChartSpec:
    counts = sorted({row.processes for row in values})
    wide = bool(counts) and counts[-1] >= WIDE * counts[0]
    place = math.log2 if wide else float
    percent = key.endswith("efficiency")
    names = dict.fromkeys(row.series for row in values)
    series = [
        Series(
            name=name,
            points=tuple(
                Point(x=place(row.processes), y=value.value, lo=value.lo, hi=value.hi, label=text)
                for row, (value, text) in values.items()
                if row.series == name
            ),
        )
        for name in names
    ]
    if key.endswith("speedup") and series:
        ideal = tuple(Point(x=place(count), y=float(count)) for count in counts)
        series.append(Series(name="ideal", points=ideal, role="ideal"))
    highest = max((value.hi for value, _ in values.values()), default=1.0)
    axis = next((row.program.counts for row in values), "processes")
    return ChartSpec(
        key=key,
        title=title,
        x_label=f"{axis} (logarithmic)" if wide else axis,
        y_label=unit,
        series=tuple(series),
        kind="bars" if len(names) == 1 else "lines",
        x_ticks=tuple((place(count), str(count)) for count in counts),
        y_max=max(1.0, highest) * 1.05 if percent else None,
        percent=percent,
        notes=(note,),
        practice=any(row.practice for row in values),
    )
