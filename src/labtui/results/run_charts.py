"""Charts of single runs over time: epoch by epoch, accuracy, learning rate, and what the GPUs did."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from labtui.domain.model import EpochSample
from labtui.results import messages
from labtui.results.accuracy import AccuracyCurve, accuracy_curves, best_curve
from labtui.results.charts import (
    ChartSpec,
    Point,
    Series,
    count_hue,
    distinct,
    doubling_axes,
    interval_point,
    model_hue,
    slug,
)
from labtui.results.measured import MeasuredRun, warmup_epochs
from labtui.results.numbers import percent_text
from labtui.results.rows import Results
from labtui.training_logs.gpu_sampler import GpuSample

_TOO_SLOW = 3
"""Epochs on the CPU longer than so many times the longest on GPUs would flatten a chart of both."""
MAX_POINTS = 240
"""Longer series are averaged down to so many marks."""


def _runs_of(results: Results, model: str | None) -> list[MeasuredRun]:
    rows = [row for row in results.rows if model in (None, row.model)]
    return [run for row in rows for run in row.members if run.run.epochs]


def _names(runs: Sequence[MeasuredRun]) -> list[str]:
    """The configuration of each run, and its number (or log) where that was repeated."""
    names = [_configuration(run) for run in runs]
    repeats = Counter(names)
    return [
        name
        if repeats[name] == 1
        else f"{name}, {f'run {run.run_id}' if run.run_id else run.source or 'run'}"
        for name, run in zip(names, runs, strict=True)
    ]


def _configuration(run: MeasuredRun) -> str:
    model, n_gpus = run.run.model or "unknown", run.run.n_gpus
    if run.run.device == "cpu" or n_gpus == 0:
        return f"{model} · CPU"
    return model if n_gpus is None else f"{model} · {n_gpus} GPU{'s' * (n_gpus != 1)}"


def _hue_of(run: MeasuredRun, runs: Sequence[MeasuredRun]) -> int:
    """The colour of a network where there are several, else that of the GPU count."""
    if len({each.run.model for each in runs}) > 1 and run.run.model:
        return model_hue(run.run.model)
    return count_hue(0 if run.run.device == "cpu" else run.run.n_gpus)


def epoch_chart(results: Results, model: str | None = None) -> ChartSpec:
    """Time of every epoch of every run, the warm-up hollow; without a CPU that would flatten the rest."""
    runs = _runs_of(results, model)
    fast = [run for run in runs if run.run.device != "cpu"]
    left_out = bool(fast) and len(fast) < len(runs) and _longest(runs) >= _TOO_SLOW * _longest(fast)
    runs = fast if left_out else runs
    series = [
        Series(
            name=name,
            points=tuple(
                interval_point(s.epoch, s.seconds, live=run.live, hollow=s.epoch in warmup_epochs(run))
                for s in run.run.epochs
            ),
            hue=_hue_of(run, runs),
        )
        for name, run in zip(_names(runs), runs, strict=True)
    ]
    slow = ("Epochs on the CPU take many times as long and are not drawn here.",) if left_out else ()
    return _over_epochs(
        "epochs", "Time of each epoch", series, model, runs, view="time", heading="Time of each epoch, s",
        y_label="seconds", unit="s", notes=("Hollow: warm-up, not counted.", *slow),
    )  # fmt: skip


def _longest(runs: Sequence[MeasuredRun]) -> float:
    return max((sample.seconds.value for run in runs for sample in run.run.epochs), default=0.0)


def accuracy_chart(results: Results, model: str | None = None, *, target: float | None = None) -> ChartSpec:
    """Accuracy after each epoch, training and validation apart; with a `target` the best run alone beside it."""
    runs = _runs_of(results, model)
    curves = [
        (name, curve)
        for name, run in zip(_names(runs), runs, strict=True)
        for curve in accuracy_curves(run)
        if target is None or curve == best_curve(results)
    ]
    series = [_accuracy_series(curve, name, runs) for name, curve in curves]
    if target is not None and series:
        xs = [point.x for each in series for point in each.points]
        ends = tuple(Point(x=x, y=target) for x in (min(xs), max(xs)))
        series.append(Series(name=f"{100 * target:g} %", points=ends, role="ideal"))
    return _over_epochs(
        "accuracy", "Accuracy", series, model, runs, heading="Accuracy, %", y_label="accuracy", unit="%",
        percent=True, y_max=1.0 if target else None,
        message=messages.accuracy_message(results, target) if len(curves) == 1 or target else "",
    )  # fmt: skip


def _accuracy_series(curve: AccuracyCurve, name: str, runs: Sequence[MeasuredRun]) -> Series:
    points = tuple(
        Point(x=point.epoch, y=point.accuracy, live=curve.run.live, label=percent_text(point.accuracy))
        for point in curve.points
    )
    name = f"{name}, validation" if curve.validation else name
    return Series(name=name, points=points, hue=_hue_of(curve.run, runs))


# --------------------------------------------------------------------------- a study of learning rates


def study_charts(results: Results, model: str | None = None) -> Iterator[ChartSpec]:
    """Learning rate and error over epochs, and accuracy over the batch, by policy; none where no run had one."""
    runs = _runs_of(results, model)
    tuned = [run for run in runs if policy(run)]
    if not tuned:
        return
    rates = [
        each
        for each in _series_of_study(runs, lambda sample: sample.metrics.get("learning_rate"))
        if len({point.y for point in each.points}) > 1
    ]
    errors = _series_of_study(
        tuned, lambda s: 1 - s.metrics["val_top1"] / 100 if "val_top1" in s.metrics else None
    )
    best = messages.study_message(results, policy)
    made = (
        _over_epochs(
            "learning-rate", "Learning rate", _named_shortly(rates), model, runs,
            heading="Learning rate", y_label="learning rate",
        ),
        _over_epochs(
            "error", "Error in validation", _named_shortly(errors), model, runs,
            heading="Top-1 error in validation, %", y_label="top-1 error", unit="%", percent=True,
        ),
        _batch_accuracy_chart(tuned, model),
    )  # fmt: skip
    yield from (replace(chart, message=best, model=model or "") for chart in made if not chart.empty)


def policy(run: MeasuredRun) -> str:
    """How a run's learning rate went: ``gradual, warm-up of 5 epochs``; "" for a constant one."""
    return next((word.replace(" rate", "", 1) for word in run.run.tuning if " rate" in word), "")


def _study_name(run: MeasuredRun) -> str:
    """Policy, GPUs and global batch of a run: ``naive, 2 GPUs, batch 256``."""
    n_gpus, batch = run.run.n_gpus, run.run.batch_size
    where = "" if not n_gpus else f", {n_gpus} GPU{'s' * (n_gpus != 1)}"
    return f"{policy(run) or 'constant'}{where}" + (f", batch {batch:,}" if batch else "")


def _named_shortly(series: Sequence[Series]) -> tuple[Series, ...]:
    shorts = distinct([each.name for each in series])
    one_group = len({each.group for each in series}) == 1
    return tuple(
        replace(each, short=short, group="")
        if one_group
        else replace(each, short=short.removeprefix(f"{each.group}, "))
        for each, short in zip(series, shorts, strict=True)
    )


def _series_of_study(
    runs: Sequence[MeasuredRun], value: Callable[[EpochSample], float | None]
) -> list[Series]:
    series = []
    for run in runs:
        points = tuple(
            Point(x=sample.epoch, y=number, live=run.live)
            for sample in run.run.epochs
            if (number := value(sample)) is not None and math.isfinite(number)
        )
        if len(points) > 1:
            hue, group = count_hue(run.run.n_gpus), policy(run) or "constant"
            series.append(Series(name=_study_name(run), points=points, hue=hue, group=group))
    return series


def _batch_accuracy_chart(runs: Sequence[MeasuredRun], model: str | None) -> ChartSpec:
    """Best validation accuracy over the global batch, a line for each policy."""
    best: dict[str, dict[int, float]] = {}
    for run in runs:
        found = [
            sample.metrics["val_top1"] / 100 for sample in run.run.epochs if "val_top1" in sample.metrics
        ]
        if found and (batch := run.run.batch_size):
            line = best.setdefault(policy(run), {})
            line[batch] = max([line.get(batch, 0.0), *found])
    chart = ChartSpec(
        key="batch-accuracy",
        view="training",
        title=f"Accuracy over the global batch{f', {model}' if model else ''}",
        heading="Best top-1 accuracy, %",
        x_label="images per step, all GPUs",
        y_label="best top-1 accuracy in validation",
        unit="%",
        series=tuple(
            Series(
                name=name,
                points=tuple(
                    Point(x=batch, y=share, label=percent_text(share))
                    for batch, share in sorted(line.items())
                ),
            )
            for name, line in best.items()
        ),
        x_axis="batch",
        x_ticks=tuple((float(x), f"{x:,}") for x in sorted({x for line in best.values() for x in line})),
        y_min=None,
        percent=True,
        practice=any(run.practice for run in runs),
    )
    return doubling_axes(chart)


def _over_epochs(
    key: str,
    title: str,
    series: Sequence[Series],
    model: str | None,
    runs: Sequence[MeasuredRun],
    **fields: Any,
) -> ChartSpec:
    epochs = sorted({point.x for each in series for point in each.points})
    return ChartSpec(
        key=key,
        title=f"{title}, {model}" if model else title,
        x_label="epoch",
        series=tuple(series),
        x_axis="epochs",
        x_ticks=tuple((x, f"{x:g}") for x in _thinned(epochs, 12)),
        practice=any(run.practice for run in runs),
        **{"view": "training", **fields},
    )


def _thinned(values: Sequence[float], most: int) -> Sequence[float]:
    """At most so many epochs: all, every second, or the first and then the multiples of 5, 10, 20, 50 ..."""
    if len(values) <= 2 * most:
        return values[:: 1 if len(values) <= most else 2]
    steps = (factor * 10**power for power in itertools.count() for factor in (5, 10, 20))
    for step in steps:
        multiples = [value for value in values if value % step == 0 and value != values[0]]
        if len(multiples) < most:
            return [values[0], *multiples]
    return values


# --------------------------------------------------------------------------- what the GPUs did


def job_gpu_chart(
    samples: Sequence[GpuSample], job_id: str = "", *, log: str = "", practice: bool = False
) -> ChartSpec | None:
    """Utilisation of each GPU over the time of a job (named after its `log` without an id); None for one moment."""
    origin = min((sample.at for sample in samples), default=0.0)
    series = []
    for index, name in sorted({sample.index: sample.name for sample in samples}.items()):
        mine = [each for each in samples if each.index == index]
        pairs = [(each.at - origin, each.utilization) for each in mine if each.utilization is not None]
        if pairs:
            series.append(Series(name=name, points=_averaged(pairs)))
    if not any(len(each.points) > 1 for each in series):
        return None
    return ChartSpec(
        key=f"gpu-utilization-{slug(job_id or log.rpartition('.')[0] or log)}",
        family="gpu-utilization",
        view="training",
        title=f"GPU utilisation, {f'job {job_id}' if job_id else log}",
        heading="GPU utilisation, %",
        x_label="seconds since the first sample",
        y_label="utilisation",
        unit="%",
        series=tuple(series),
        x_axis="seconds",
        y_max=1.05,
        percent=True,
        practice=practice,
    )


def _averaged(pairs: Sequence[tuple[float, float]]) -> tuple[Point, ...]:
    """The pairs as marks; long series as means of equal pieces with their range as bounds."""
    size = -(-len(pairs) // MAX_POINTS)
    if size == 1:
        return tuple(Point(x=x, y=y) for x, y in pairs)
    marks = []
    for start in range(0, len(pairs), size):
        xs, ys = zip(*pairs[start : start + size], strict=True)
        marks.append(Point(x=statistics.fmean(xs), y=statistics.fmean(ys), lo=min(ys), hi=max(ys)))
    return tuple(marks)
