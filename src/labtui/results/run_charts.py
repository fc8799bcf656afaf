"""Charts of single runs over time: epoch by epoch, accuracy, and what the GPUs did."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from labtui.domain.model import EpochSample
from labtui.results.accuracy import AccuracyCurve, accuracy_curves
from labtui.results.charts import (
    ChartSpec,
    Point,
    Series,
    count_hue,
    doubling_axis,
    interval_point,
    model_hue,
)
from labtui.results.measured import MeasuredRun, is_warmup
from labtui.results.numbers import percent_text
from labtui.results.rows import Results
from labtui.training_logs.gpu_sampler import EpochUtilization, GpuSample

_TOO_SLOW = 3
"""Epochs on the CPU longer than so many times the longest on GPUs would flatten a chart of both."""
MOST_POINTS = 240
"""More marks than a screen has columns only cost time; longer series are averaged down to this."""


def _run_name(run: MeasuredRun, repeats: Mapping[str, int]) -> str:
    """The configuration, and the run's number (or log) where it was repeated; `repeats` says how often each was."""
    name = _short_name(run)
    if repeats[name] == 1:
        return name
    return f"{name}, {f'run {run.run_id}' if run.run_id is not None else run.source or 'run'}"


def _short_name(run: MeasuredRun) -> str:
    model, n_gpus = run.run.model or "unknown", run.run.n_gpus
    if run.run.device == "cpu" or n_gpus == 0:
        return f"{model} · CPU"
    return model if n_gpus is None else f"{model} · {n_gpus} GPU{'s' if n_gpus != 1 else ''}"


def _count_hue(run: MeasuredRun) -> int:
    return count_hue(0 if run.run.device == "cpu" else run.run.n_gpus)


def _hue_of(run: MeasuredRun, runs: Sequence[MeasuredRun]) -> int:
    """The colour of a network where there are several, else that of the GPU count."""
    several = len({each.run.model for each in runs}) > 1
    return model_hue(run.run.model) if several and run.run.model else _count_hue(run)


def _runs_of(results: Results, model: str | None, practice: bool) -> list[MeasuredRun]:
    return [
        run
        for row in results.rows
        if row.practice is practice and (model is None or row.model == model)
        for run in row.members
        if run.run.epochs
    ]


def epoch_chart(results: Results, *, model: str | None = None, practice: bool = False) -> ChartSpec:
    """Time of every epoch of every run, the warm-up hollow: what the steady time is the mean of."""
    runs = _runs_of(results, model, practice)
    repeats = Counter(map(_short_name, runs))
    series = [
        Series(
            name=_run_name(run, repeats),
            points=tuple(
                interval_point(s.epoch, s.seconds, live=run.live, hollow=is_warmup(run, s))
                for s in run.run.epochs
            ),
            hue=_hue_of(run, runs),
        )
        for run in runs
    ]
    chart = _over_epochs(_repeats_as_bands(series, runs), model, practice)
    hollow = ("Hollow: warm-up, not counted.",)
    return replace(
        chart, key="epochs", title=f"Time of each epoch{_of(model)}", y_label="seconds", notes=hollow
    )


_SEPARATE = 2
"""Up to so many runs of one kind are lines of their own; more are their mean in the band of all."""


def _repeats_as_bands(series: Sequence[Series], runs: Sequence[MeasuredRun]) -> tuple[Series, ...]:
    """Repeats of one configuration as their mean and a band from the lowest to the highest of them."""
    groups: dict[str, list[Series]] = {}
    for each, run in zip(series, runs, strict=True):
        validation = ", validation" if each.name.endswith(", validation") else ""
        groups.setdefault(_short_name(run) + validation, []).append(each)
    shown: list[Series] = []
    for name, found in groups.items():
        if len(found) <= _SEPARATE:
            shown += found
            continue
        marks = [
            _mean_of([point for one in found for point in one.points if point.x == x])
            for x in sorted({point.x for one in found for point in one.points})
        ]
        shown.append(
            Series(
                name=f"{name}, mean of {len(found)} runs",
                hue=found[0].hue,
                points=tuple(replace(mark, lo=None, hi=None) for mark in marks),
            )
        )
        shown.append(Series(name=f"{name}, range", points=tuple(marks), role="band"))
    return tuple(shown)


def _mean(values: Sequence[float]) -> float:
    """Their mean, of any size: the sum of a log's nonsense may be beyond what a float holds."""
    return 2 * math.fsum(value / (2 * len(values)) for value in values)


def _mean_of(points: Sequence[Point]) -> Point:
    values = [point.y for point in points]
    low, high = min(values), max(values)
    mean = min(max(_mean(values), low), high)
    first = points[0]
    return replace(first, y=mean, lo=low, hi=high, live=any(point.live for point in points), label="")


def accuracy_target_chart(results: Results, target: float, *, model: str | None = None) -> ChartSpec:
    """The longest accuracy curve beside the accuracy that is asked for."""
    runs = [run for flag in (False, True) for run in _runs_of(results, model, flag)]
    curves = [curve for run in runs for curve in accuracy_curves(run) if not curve.validation]
    best = max(curves, key=lambda curve: (not curve.run.practice, len(curve.points)), default=None)
    if best is None:
        return _over_epochs((), model, practice=False)
    curve = _accuracy_series(best, "accuracy")
    series = [replace(curve, points=tuple(replace(point, label="") for point in curve.points))]
    last = best.points[-1]
    end = float(last.epoch)
    first = float(best.points[0].epoch)
    line = tuple(Point(x=x, y=target) for x in (first, end))
    series.append(Series(name=f"{100 * target:g} %", points=line, role="ideal"))
    chart = _over_epochs(tuple(series), model, best.run.practice)
    return replace(
        chart,
        key="accuracy",
        title=f"Accuracy{_of(model)}",
        y_label="accuracy",
        percent=True,
        y_max=1.0,
        x_ticks=tuple((x, f"{x:.0f}") for x in sorted({first, end})),
    )


def readable_epoch_chart(results: Results, *, model: str | None = None, practice: bool = False) -> ChartSpec:
    """The epochs; those of a much slower CPU are left out, or one could not tell the others apart."""
    rows = [row for row in results.rows if model is None or row.model == model]
    rows = [row for row in rows if row.practice is practice]
    whole = epoch_chart(results, model=model, practice=practice)
    fast = tuple(row for row in rows if row.device != "cpu")
    without_cpu = epoch_chart(replace(results, rows=fast), model=model, practice=practice)
    if len(fast) == len(rows) or without_cpu.empty or _longest(whole) < _TOO_SLOW * _longest(without_cpu):
        return whole
    note = "Epochs on the CPU take many times as long and are not drawn here."
    return replace(without_cpu, notes=(*without_cpu.notes, note))


def _longest(chart: ChartSpec) -> float:
    return max((point.y for series in chart.series for point in series.points), default=0.0)


def accuracy_chart(results: Results, *, model: str | None = None, practice: bool = False) -> ChartSpec:
    """Accuracy after each epoch; training and validation are series of their own."""
    runs = _runs_of(results, model, practice)
    curves = [curve for run in runs for curve in accuracy_curves(run)]
    repeats = Counter(map(_short_name, runs))
    series = [_accuracy_series(curve, _run_name(curve.run, repeats)) for curve in curves]
    chart = _over_epochs(_repeats_as_bands(series, [curve.run for curve in curves]), model, practice)
    return replace(chart, key="accuracy", title=f"Accuracy{_of(model)}", y_label="accuracy", percent=True)


def _accuracy_series(curve: AccuracyCurve, run_name: str) -> Series:
    name = f"{run_name}, validation" if curve.validation else run_name
    points = tuple(
        Point(x=point.epoch, y=point.accuracy, live=curve.run.live, label=percent_text(point.accuracy))
        for point in curve.points
    )
    return Series(name=name, points=points, hue=_count_hue(curve.run))


# --------------------------------------------------------------------------- a study of learning rates

_POLICY = re.compile(r"(\w+) rate(?:, (.*))?")


def study_charts(
    results: Results, *, model: str | None = None, practice: bool = False
) -> tuple[ChartSpec, ...]:
    """Learning rate and error over epochs, and accuracy over the batch, by policy; none where no run had one."""
    runs = _runs_of(results, model, practice)
    if not any(_policy(run) for run in runs):
        return ()
    makers = (learning_rate_chart, error_chart, batch_accuracy_chart)
    return tuple(chart for make in makers if not (chart := make(runs, model, practice)).empty)


def _policy(run: MeasuredRun) -> str:
    """How a run's learning rate went: ``gradual, warm-up of 5 epochs``; "" for a constant one."""
    found = (_POLICY.fullmatch(word) for word in run.run.tuning)
    return next((", ".join(filter(None, match.groups())) for match in found if match), "")


def study_name(run: MeasuredRun) -> str:
    """Policy, GPUs and global batch of a run: ``naive, 2 GPUs, batch 256``."""
    n_gpus, batch = run.run.n_gpus, run.run.batch_size
    where = "" if not n_gpus else f", {n_gpus} GPU{'s' * (n_gpus != 1)}"
    return f"{_policy(run) or 'constant'}{where}" + (f", batch {batch:,}" if batch else "")


def _series_of_study(
    runs: Sequence[MeasuredRun], value: Callable[[EpochSample], float | None], end: str = ""
) -> Iterator[Series]:
    for run in runs:
        found = [(sample.epoch, value(sample)) for sample in run.run.epochs]
        points = tuple(
            Point(x=epoch, y=number, live=run.live)
            for epoch, number in found
            if number is not None and math.isfinite(number)
        )
        if len(points) > 1:
            yield Series(name=f"{study_name(run)}{end}", points=points, hue=_count_hue(run))


def learning_rate_chart(runs: Sequence[MeasuredRun], model: str | None, practice: bool) -> ChartSpec:
    """The rate of each epoch, as the logs say it; runs whose rate never changed are left out."""
    series = [
        each
        for each in _series_of_study(runs, lambda sample: sample.metrics.get("learning_rate"))
        if len({point.y for point in each.points}) > 1
    ]
    chart = _over_epochs(tuple(series), model, practice)
    return replace(chart, key="learning-rate", title=f"Learning rate{_of(model)}", y_label="learning rate")


def error_chart(runs: Sequence[MeasuredRun], model: str | None, practice: bool) -> ChartSpec:
    """Share of images with a wrong first guess, in training and in validation."""
    tuned = [run for run in runs if _policy(run)]
    training = _series_of_study(tuned, lambda sample: _error(sample, "top1"))
    validation = _series_of_study(tuned, lambda sample: _error(sample, "val_top1"), ", validation")
    chart = _over_epochs((*training, *validation), model, practice)
    return replace(
        chart, key="error", title=f"Error over epochs{_of(model)}", y_label="top-1 error", percent=True
    )


def _error(sample: EpochSample, metric: str) -> float | None:
    value = sample.metrics.get(metric)
    return None if value is None else 1 - value / 100


def batch_accuracy_chart(runs: Sequence[MeasuredRun], model: str | None, practice: bool) -> ChartSpec:
    """Best validation accuracy over the global batch, a line for each policy."""
    best: dict[str, dict[int, float]] = {}
    for run in runs:
        found = [sample.metrics["val_top1"] for sample in run.run.epochs if "val_top1" in sample.metrics]
        batch = run.run.batch_size
        if found and batch and (policy := _policy(run)):
            line = best.setdefault(policy, {})
            line[batch] = max([line.get(batch, 0.0), *found])
    series = tuple(
        Series(
            name=policy,
            points=tuple(
                Point(x=batch, y=line[batch] / 100, label=percent_text(line[batch] / 100))
                for batch in sorted(line)
            ),
        )
        for policy, line in best.items()
    )
    batches = sorted({point.x for each in series for point in each.points})
    chart = ChartSpec(
        key="batch-accuracy",
        title=f"Accuracy over the global batch{_of(model)}",
        x_label="images per step, all GPUs",
        y_label="best top-1 accuracy in validation",
        series=series,
        x_ticks=tuple((x, f"{x:,.0f}") for x in batches),
        percent=True,
        practice=practice,
    )
    return doubling_axis(chart)


def _over_epochs(series: tuple[Series, ...], model: str | None, practice: bool) -> ChartSpec:
    """A chart over epochs that still lacks its key, title and unit."""
    epochs = sorted({point.x for each in series for point in each.points})
    return ChartSpec(
        key="",
        title="",
        x_label="epoch",
        y_label="",
        series=series,
        x_ticks=tuple((x, f"{x:g}") for x in _thinned(epochs, 12)),
        practice=practice,
    )


def _of(model: str | None) -> str:
    return f", {model}" if model else ""


def _thinned(values: Sequence[float], most: int) -> Sequence[float]:
    """At most so many epochs: all, every second, or the first and then the multiples of 5, 10, 20, 50 ..."""
    if len(values) <= 2 * most:
        return values[:: 1 if len(values) <= most else 2]
    step = next(step for step in _steps() if len(_multiples(values, step)) < most)
    return [values[0], *_multiples(values, step)]


def _steps() -> Iterator[int]:
    return (factor * 10**power for power in itertools.count() for factor in (5, 10, 20))


def _multiples(values: Sequence[float], step: int) -> list[float]:
    """The multiples of a step among the values, those that stand too close to the first left out."""
    return [value for value in values if value % step == 0 and value - values[0] > step / 2]


def gpu_chart(
    samples: Sequence[GpuSample],
    epochs: Sequence[EpochUtilization] = (),
    *,
    title: str = "GPU utilisation",
    measure: Literal["utilization", "memory"] = "utilization",
    practice: bool = False,
) -> ChartSpec:
    """Utilisation (or memory in MiB) of each GPU over the job's time; dated epochs are the ticks."""
    origin = min((sample.at for sample in samples), default=0.0)
    series = []
    for index, name in sorted({sample.index: sample.name for sample in samples}.items()):
        pairs = [
            (sample.at - origin, value)
            for sample in samples
            if sample.index == index and (value := _measure(sample, measure)) is not None
        ]
        if pairs:
            series.append(Series(name=name, points=_averaged(pairs)))
    ticks = tuple((epoch.start, f"epoch {epoch.epoch}") for epoch in epochs)
    return ChartSpec(
        key="gpu-memory" if measure == "memory" else "gpu-utilization",
        title=title,
        x_label="seconds since the first sample",
        y_label="MiB in use" if measure == "memory" else "utilisation",
        series=tuple(series),
        x_ticks=ticks,
        y_max=None if measure == "memory" else 1.05,
        percent=measure == "utilization",
        notes=tuple(_utilization_note(epoch) for epoch in epochs if epoch.mean is not None),
        practice=practice,
    )


def _measure(sample: GpuSample, measure: str) -> float | None:
    return sample.memory_mib if measure == "memory" else sample.utilization


def _averaged(pairs: Sequence[tuple[float, float]]) -> tuple[Point, ...]:
    """The pairs as marks; long series as means of equal pieces with their range as bounds."""
    size = -(-len(pairs) // MOST_POINTS)
    pieces = [pairs[start : start + size] for start in range(0, len(pairs), size)]
    return tuple(_mean_mark(piece) for piece in pieces)


def _mean_mark(piece: Sequence[tuple[float, float]]) -> Point:
    values = [value for _, value in piece]
    low, high = min(values), max(values)
    mean = min(max(_mean(values), low), high)
    bounds = (low, high) if len(piece) > 1 else (None, None)
    return Point(x=statistics.fmean(x for x, _ in piece), y=mean, lo=bounds[0], hi=bounds[1])


def _utilization_note(epoch: EpochUtilization) -> str:
    names = {index: f"GPU {index}" for index in epoch.per_gpu} | epoch.names
    shares = ", ".join(f"{names[index]} {share:.0%}" for index, share in epoch.per_gpu.items())
    return f"Epoch {epoch.epoch}{' (warm-up)' if epoch.warmup else ''}: {shares}."
