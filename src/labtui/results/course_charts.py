"""Charts of single runs over time: epoch by epoch, accuracy, learning rate, and what the GPUs did."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

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
_SEPARATE = 2
"""Up to so many runs of one kind are lines of their own; more are their mean in the band of all."""


def _runs_of(results: Results, model: str | None) -> list[MeasuredRun]:
    rows = [row for row in results.rows if model in (None, row.model)]
    return [run for row in rows for run in row.members if run.run.epochs]


def _practice(runs: Sequence[MeasuredRun]) -> bool:
    return any(run.practice for run in runs)


def _short_name(run: MeasuredRun) -> str:
    model, n_gpus = run.run.model or "unknown", run.run.n_gpus
    if run.run.device == "cpu" or n_gpus == 0:
        return f"{model} · CPU"
    return model if n_gpus is None else f"{model} · {n_gpus} GPU{'s' if n_gpus != 1 else ''}"


def _run_name(run: MeasuredRun, repeats: Mapping[str, int]) -> str:
    """The configuration, and the run's number (or log) where it was repeated."""
    name = _short_name(run)
    if repeats[name] == 1:
        return name
    return f"{name}, {f'run {run.run_id}' if run.run_id is not None else run.source or 'run'}"


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
    repeats = Counter(map(_short_name, runs))
    series = [
        Series(
            name=_run_name(run, repeats),
            points=tuple(
                interval_point(s.epoch, s.seconds, live=run.live, hollow=s.epoch in warmup_epochs(run))
                for s in run.run.epochs
            ),
            hue=_hue_of(run, runs),
        )
        for run in runs
    ]
    notes = ["Hollow: warm-up, not counted."]
    notes += ["Epochs on the CPU take many times as long and are not drawn here."] if left_out else []
    return _over_epochs(
        "epochs", "Time of each epoch", _repeats_as_bands(series, runs), model, _practice(runs),
        view="time", heading="Time of each epoch, s", y_label="seconds", unit="s", notes=tuple(notes),
    )  # fmt: skip


def _longest(runs: Sequence[MeasuredRun]) -> float:
    return max((sample.seconds.value for run in runs for sample in run.run.epochs), default=0.0)


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
        marks = tuple(
            _mean_of([point for one in found for point in one.points if point.x == x])
            for x in sorted({point.x for one in found for point in one.points})
        )
        means = tuple(replace(mark, lo=None, hi=None) for mark in marks)
        shown.append(Series(name=f"{name}, mean of {len(found)} runs", hue=found[0].hue, points=means))
        shown.append(Series(name=f"{name}, range", points=marks, role="band"))
    return tuple(shown)


def _mean(values: Sequence[float]) -> float:
    """Their mean, of any size: the sum of a log's nonsense may be beyond what a float holds."""
    return 2 * math.fsum(value / (2 * len(values)) for value in values)


def _mean_of(points: Sequence[Point]) -> Point:
    values = [point.y for point in points]
    low, high = min(values), max(values)
    mean = min(max(_mean(values), low), high)
    return replace(points[0], y=mean, lo=low, hi=high, live=any(point.live for point in points), label="")


def accuracy_chart(results: Results, model: str | None = None, *, target: float | None = None) -> ChartSpec:
    """Accuracy after each epoch, training and validation apart; with a `target` the best run alone beside it."""
    runs = _runs_of(results, model)
    repeats = Counter(map(_short_name, runs))
    curves = [curve for run in runs for curve in accuracy_curves(run)]
    best = best_curve(results)
    if target is not None and best is not None:
        curves = [best]
    series = [_accuracy_series(curve, _run_name(curve.run, repeats), runs) for curve in curves]
    shown = _repeats_as_bands(series, [curve.run for curve in curves])
    if target is not None and shown:
        xs = [point.x for each in shown for point in each.points]
        ends = tuple(Point(x=x, y=target) for x in (min(xs), max(xs)))
        shown = (*shown, Series(name=f"{100 * target:g} %", points=ends, role="ideal"))
    return replace(
        _over_epochs(
            "accuracy", "Accuracy", shown, model, _practice(runs),
            heading="Accuracy, %", y_label="accuracy", unit="%", percent=True, y_max=1.0 if target else None,
        ),
        message=messages.accuracy_message(results, target) if len(curves) == 1 or target else "",
    )  # fmt: skip


def _accuracy_series(curve: AccuracyCurve, run_name: str, runs: Sequence[MeasuredRun]) -> Series:
    name = f"{run_name}, validation" if curve.validation else run_name
    points = tuple(
        Point(x=point.epoch, y=point.accuracy, live=curve.run.live, label=percent_text(point.accuracy))
        for point in curve.points
    )
    return Series(name=name, points=points, hue=_hue_of(curve.run, runs))


# --------------------------------------------------------------------------- a study of learning rates

_POLICY = re.compile(r"(\w+) rate(?:, (.*))?")


def study_charts(results: Results, model: str | None = None) -> Iterator[ChartSpec]:
    """Learning rate and error over epochs, and accuracy over the batch, by policy; none where no run had one."""
    runs = _runs_of(results, model)
    if not any(policy(run) for run in runs):
        return
    where = f", {model}" if model else ""
    rates = [
        each
        for each in _series_of_study(runs, lambda sample: sample.metrics.get("learning_rate"))
        if len({point.y for point in each.points}) > 1
    ]
    tuned = [run for run in runs if policy(run)]
    errors = _series_of_study(tuned, lambda sample: _error(sample, "val_top1"))
    best = messages.study_message(results, policy)
    practice = _practice(runs)
    made = (
        _over_epochs(
            "learning-rate", "Learning rate", _named_shortly(rates), model, practice,
            heading="Learning rate", y_label="learning rate",
        ),
        _over_epochs(
            "error", "Error in validation", _named_shortly(errors), model, practice,
            heading="Top-1 error in validation, %", y_label="top-1 error", unit="%", percent=True,
        ),
        _batch_accuracy_chart(runs, where, practice),
    )  # fmt: skip
    yield from (replace(chart, message=best, model=model or "") for chart in made if not chart.empty)


def policy(run: object) -> str:
    """How a run's learning rate went: ``gradual, warm-up of 5 epochs``; "" for a constant one."""
    words = run.run.tuning if isinstance(run, MeasuredRun) else ()
    found = (_POLICY.fullmatch(word) for word in words)
    return next((", ".join(filter(None, match.groups())) for match in found if match), "")


def study_name(run: MeasuredRun) -> str:
    """Policy, GPUs and global batch of a run: ``naive, 2 GPUs, batch 256``."""
    n_gpus, batch = run.run.n_gpus, run.run.batch_size
    where = "" if not n_gpus else f", {n_gpus} GPU{'s' * (n_gpus != 1)}"
    return f"{policy(run) or 'constant'}{where}" + (f", batch {batch:,}" if batch else "")


def _named_shortly(series: Sequence[Series]) -> tuple[Series, ...]:
    shorts = distinct([each.name for each in series])
    groups = len({each.group for each in series})
    named = (replace(each, short=short) for each, short in zip(series, shorts, strict=True))
    if groups == 1:
        return tuple(replace(each, group="") for each in named)
    return tuple(replace(each, short=each.short.removeprefix(f"{each.group}, ")) for each in named)


def _series_of_study(
    runs: Sequence[MeasuredRun], value: Callable[[EpochSample], float | None]
) -> list[Series]:
    series = []
    for run in runs:
        found = [(sample.epoch, value(sample)) for sample in run.run.epochs]
        points = tuple(
            Point(x=epoch, y=number, live=run.live)
            for epoch, number in found
            if number is not None and math.isfinite(number)
        )
        if len(points) > 1:
            group = policy(run) or "constant"
            series.append(
                Series(name=study_name(run), points=points, hue=count_hue(run.run.n_gpus), group=group)
            )
    return series


def _error(sample: EpochSample, metric: str) -> float | None:
    value = sample.metrics.get(metric)
    return None if value is None else 1 - value / 100


def _batch_accuracy_chart(runs: Sequence[MeasuredRun], where: str, practice: bool) -> ChartSpec:
    """Best validation accuracy over the global batch, a line for each policy."""
    best: dict[str, dict[int, float]] = {}
    for run in runs:
        found = [sample.metrics["val_top1"] for sample in run.run.epochs if "val_top1" in sample.metrics]
        batch, name = run.run.batch_size, policy(run)
        if found and batch and name:
            line = best.setdefault(name, {})
            line[batch] = max([line.get(batch, 0.0), *found])
    series = tuple(
        Series(
            name=name,
            points=tuple(
                Point(x=batch, y=line[batch] / 100, label=percent_text(line[batch] / 100))
                for batch in sorted(line)
            ),
        )
        for name, line in best.items()
    )
    batches = sorted({point.x for each in series for point in each.points})
    chart = ChartSpec(
        key="batch-accuracy",
        view="training",
        title=f"Accuracy over the global batch{where}",
        heading="Best top-1 accuracy, %",
        x_label="images per step, all GPUs",
        y_label="best top-1 accuracy in validation",
        unit="%",
        series=series,
        x_axis="batch",
        x_ticks=tuple((x, f"{x:,.0f}") for x in batches),
        y_min=None,
        percent=True,
        practice=practice,
    )
    return doubling_axes(chart)


def _over_epochs(
    key: str, title: str, series: Sequence[Series], model: str | None, practice: bool, **fields: object
) -> ChartSpec:
    epochs = sorted({point.x for each in series for point in each.points})
    made: dict[str, object] = {"view": "training", "y_label": "", **fields}
    return ChartSpec(
        key=key,
        title=f"{title}, {model}" if model else title,
        x_label="epoch",
        series=tuple(series),
        x_axis="epochs",
        x_ticks=tuple((x, f"{x:g}") for x in _thinned(epochs, 12)),
        practice=practice,
        **made,  # type: ignore[arg-type]
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
    marks = []
    for start in range(0, len(pairs), size):
        piece = pairs[start : start + size]
        mark = _mean_of([Point(x=x, y=y) for x, y in piece])
        bounds = {"lo": mark.lo, "hi": mark.hi} if len(piece) > 1 else {"lo": None, "hi": None}
        marks.append(replace(mark, x=statistics.fmean(x for x, _ in piece), **bounds))
    return tuple(marks)
