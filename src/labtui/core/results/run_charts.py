"""Charts of single runs over time: epoch by epoch, accuracy, and what the GPUs did."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from labtui.core.charts import ChartSpec, Point, Series
from labtui.core.results.accuracy import AccuracyCurve, accuracy_curves
from labtui.core.results.charts import interval_point
from labtui.core.results.measured import MeasuredRun
from labtui.core.results.numbers import percent_text
from labtui.core.results.rows import Results
from labtui.core.results.steady import is_warmup
from labtui.core.sampler import EpochUtilization, GpuSample

_TOO_SLOW = 3
"""Epochs on the CPU longer than so many times the longest on GPUs would flatten a chart of both."""
MOST_POINTS = 240
"""More marks than a screen has columns only cost time; longer series are averaged down to this."""


def _run_name(run: MeasuredRun, runs: Sequence[MeasuredRun]) -> str:
    """The configuration, and the run's number (or log) where it was repeated."""
    name = _short_name(run)
    if sum(_short_name(other) == name for other in runs) == 1:
        return name
    return f"{name}, {f'run {run.run_id}' if run.run_id is not None else run.source or 'run'}"


def _short_name(run: MeasuredRun) -> str:
    model, n_gpus = run.run.model or "unknown", run.run.n_gpus
    if run.run.device == "cpu" or n_gpus == 0:
        return f"{model} · CPU"
    return model if n_gpus is None else f"{model} · {n_gpus} GPU{'s' if n_gpus != 1 else ''}"


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
    series = tuple(
        Series(
            name=_run_name(run, runs),
            points=tuple(
                interval_point(s.epoch, s.seconds, live=run.live, hollow=is_warmup(run, s))
                for s in run.run.epochs
            ),
        )
        for run in runs
    )
    chart = _over_epochs(series, model, practice)
    hollow = ("Hollow: warm-up, not counted.",)
    return replace(
        chart, key="epochs", title=f"Time of each epoch{_of(model)}", y_label="seconds", notes=hollow
    )


def readable_epoch_chart(results: Results, *, model: str | None = None, practice: bool = False) -> ChartSpec:
    """The epochs; those of a much slower CPU are left out, or one could not tell the others apart."""
    rows = [row for row in results.rows if model is None or row.model == model]
    rows = [row for row in rows if row.practice is practice]
    whole = epoch_chart(results, model=model, practice=practice)
    fast = tuple(row for row in rows if row.device != "cpu")
    bare = epoch_chart(replace(results, rows=fast), model=model, practice=practice)
    if len(fast) == len(rows) or bare.empty or _longest(whole) < _TOO_SLOW * _longest(bare):
        return whole
    note = "Epochs on the CPU take many times as long and are not drawn here."
    return replace(bare, notes=(*bare.notes, note))


def _longest(chart: ChartSpec) -> float:
    return max((point.y for series in chart.series for point in series.points), default=0.0)


def accuracy_chart(results: Results, *, model: str | None = None, practice: bool = False) -> ChartSpec:
    """Accuracy after each epoch; training and validation are series of their own."""
    runs = _runs_of(results, model, practice)
    series = tuple(
        _accuracy_series(curve, _run_name(run, runs)) for run in runs for curve in accuracy_curves(run)
    )
    chart = _over_epochs(series, model, practice)
    return replace(chart, key="accuracy", title=f"Accuracy{_of(model)}", y_label="accuracy", percent=True)


def _accuracy_series(curve: AccuracyCurve, run_name: str) -> Series:
    name = f"{run_name}, validation" if curve.validation else run_name
    points = tuple(
        Point(x=point.epoch, y=point.accuracy, live=curve.run.live, label=percent_text(point.accuracy))
        for point in curve.points
    )
    return Series(name=name, points=points)


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
    for index in sorted({sample.index for sample in samples}):
        pairs = [
            (sample.at - origin, value)
            for sample in samples
            if sample.index == index and (value := _measure(sample, measure)) is not None
        ]
        if pairs:
            series.append(Series(name=f"GPU {index}", points=_averaged(pairs)))
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
    mean = min(max(statistics.fmean(values), low), high)
    bounds = (low, high) if len(piece) > 1 else (None, None)
    return Point(x=statistics.fmean(x for x, _ in piece), y=mean, lo=bounds[0], hi=bounds[1])


def _utilization_note(epoch: EpochUtilization) -> str:
    shares = ", ".join(f"GPU {index} {share:.0%}" for index, share in epoch.per_gpu.items())
    return f"Epoch {epoch.epoch}{' (warm-up)' if epoch.warmup else ''}: {shares}."
