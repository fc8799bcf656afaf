"""Speedup with Amdahl's and Gustafson's laws: measured marks, the fitted curve, its band, the prediction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from labtui.core.charts import ChartSpec, Point, Series
from labtui.core.interval import Interval
from labtui.core.results.charts import GPUS, interval_point, slug, unique_keys
from labtui.core.results.numbers import percent_text, ratio_text
from labtui.core.results.rows import LawFit, Prediction, ResultRow, Results
from labtui.core.results.scaling import Family, families, law_speedup

_STEPS_PER_GPU = 4
_MOST_STEPS = 200
_NAMES = {"amdahl": "Amdahl", "gustafson": "Gustafson"}


def law_charts(results: Results, *, model: str | None = None) -> tuple[ChartSpec, ...]:
    """One chart for each fitted law of each network (or of one)."""
    by_baseline = {family.baseline.configuration: family for family in families(results.rows)}
    charts = [
        _law_chart(fit, by_baseline[fit.baseline], _prediction_for(fit, results))
        for fit in results.fits
        if model is None or fit.model == model
    ]
    return unique_keys(_told_apart(charts))


def _told_apart(charts: Iterable[ChartSpec]) -> list[ChartSpec]:
    """Number the charts of a network that has several baselines."""
    seen: dict[tuple[str, bool], int] = {}
    told = []
    for chart in charts:
        count = seen[chart.key, chart.practice] = seen.get((chart.key, chart.practice), 0) + 1
        told.append(chart if count == 1 else replace(chart, key=f"{chart.key}-{count}"))
    return told


def _prediction_for(fit: LawFit, results: Results) -> Prediction | None:
    return next((each for each in results.predictions if each.baseline == fit.baseline), None)


def _law_chart(fit: LawFit, family: Family, prediction: Prediction | None) -> ChartSpec:
    rows = (family.baseline, *family.rows)
    last = prediction.n_gpus if prediction else fit.n_gpus[-1]
    name = _NAMES[fit.law]
    series = [_measured(rows), *_curve(fit, last)]
    series.append(Series(name="ideal", points=(Point(x=1, y=1), Point(x=last, y=last)), role="ideal"))
    if prediction is not None:
        series.append(
            Series(name=f"expected on {last} GPUs", points=(_expected(fit, prediction),), role="reference")
        )
    notes = [f"Serial fraction {percent_text(fit.serial_fraction)} from {fit.points} sizes."]
    notes += [sentence for sentence in (fit.note, prediction.note if prediction else "") if sentence]
    return ChartSpec(
        key=f"{fit.law}-{slug(fit.model)}",
        title=f"{name}'s law, {fit.model}",
        x_label=GPUS,
        y_label="speedup",
        series=tuple(series),
        x_ticks=tuple((float(n), str(n)) for n in (*fit.n_gpus, *((last,) if prediction else ()))),
        notes=tuple(notes),
        practice=fit.practice,
    )


def _expected(fit: LawFit, prediction: Prediction) -> Point:
    """What this law itself expects, with the band of both laws around it."""
    both = prediction.speedup
    own = law_speedup(fit.law, fit.serial_fraction.value, prediction.n_gpus)
    value = both.value if own is None else own
    expected = Interval(value, min(both.lo, value), max(both.hi, value))
    return interval_point(prediction.n_gpus, expected, label=ratio_text(expected), hollow=True)


def _measured(rows: Iterable[ResultRow]) -> Series:
    return Series(
        name="measured",
        points=tuple(
            interval_point(row.n_gpus or 0, row.speedup, label=ratio_text(row.speedup), live=row.live)
            for row in rows
            if row.speedup is not None
        ),
    )


def _curve(fit: LawFit, last: int) -> Iterable[Series]:
    """The law's curve and its band; points where a negative fraction leaves no speedup are not drawn."""
    steps = max(1, min((last - 1) * _STEPS_PER_GPU, _MOST_STEPS))
    counts = [1 + step * (last - 1) / steps for step in range(steps + 1)]
    curve, band = [], []
    fraction = fit.serial_fraction
    for n in counts:
        # A larger fraction means a smaller speedup, so the bounds change places.
        speedups = [law_speedup(fit.law, each, n) for each in (fraction.value, fraction.hi, fraction.lo)]
        value, low, high = speedups
        if value is not None:
            curve.append(Point(x=n, y=value))
        if value is not None and low is not None and high is not None:
            band.append(Point(x=n, y=value, lo=min(low, value), hi=max(high, value)))
    yield Series(name=f"{_NAMES[fit.law]} fit", points=tuple(curve), role="fit")
    yield Series(name="band of the fit", points=tuple(band), role="band")
