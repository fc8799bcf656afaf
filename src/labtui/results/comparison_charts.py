"""Charts across configurations: laws, throughput per GPU and as tuned, acceleration, first epoch, lost efficiency."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from labtui.domain.model import Interval
from labtui.results.charts import (
    GPUS,
    ChartSpec,
    Point,
    Quantity,
    Reading,
    ScalingLine,
    Series,
    digits_text,
    interval_point,
    model_hue,
    quantity_chart,
    slug,
    split_practice,
    uncertain_point,
    unique_keys,
)
from labtui.results.laws import Family, families, law_speedup
from labtui.results.numbers import baseline_of, percent_text, rate_text, ratio_text
from labtui.results.rows import LawFit, Prediction, ResultRow, Results, distinguishing_words

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


def both_laws_chart(results: Results, models: Sequence[str] = ()) -> ChartSpec:
    """Measured speedup of some networks (or all) with both fitted laws, as far as it was measured."""
    wanted = [fit for fit in results.fits if (not models or fit.model in models)]
    there = {family.baseline.configuration: family for family in families(results.rows)}
    series: list[Series] = []
    for family in (there[key] for key in dict.fromkeys(fit.baseline for fit in wanted)):
        model = family.baseline.model
        series.append(replace(_measured((family.baseline, *family.rows)), name=model))
        for fit in wanted:
            if fit.baseline == family.baseline.configuration:
                curve = next(iter(_curve(fit, fit.n_gpus[-1])))
                name = (
                    f"{_NAMES[fit.law]}, {model}"
                    if len({each.model for each in wanted}) > 1
                    else _NAMES[fit.law]
                )
                series.append(replace(curve, name=name, hue=model_hue(model)))
    counts = sorted({n for fit in wanted for n in fit.n_gpus})
    if counts:
        ends = (Point(x=counts[0], y=counts[0]), Point(x=counts[-1], y=counts[-1]))
        series.append(Series(name="ideal", points=ends, role="ideal"))
    return ChartSpec(
        key="laws",
        title="Speedup and the two laws",
        x_label=GPUS,
        y_label="times one GPU",
        series=tuple(series),
        x_ticks=tuple((float(n), str(n)) for n in counts),
        practice=any(fit.practice for fit in wanted),
    )


def _told_apart(charts: Iterable[ChartSpec]) -> list[ChartSpec]:
    """Number the charts of a network that has several baselines."""
    seen: dict[tuple[str, bool], int] = {}
    numbered = []
    for chart in charts:
        count = seen[chart.key, chart.practice] = seen.get((chart.key, chart.practice), 0) + 1
        numbered.append(chart if count == 1 else replace(chart, key=f"{chart.key}-{count}"))
    return numbered


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
            Series(name=f"expected on {last} GPUs", points=(_expected(prediction),), role="reference")
        )
    notes = [
        f"Serial fraction by {_NAMES[fit.law]}'s law: {percent_text(fit.serial_fraction)}, from {fit.points} sizes."
    ]
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


def _expected(prediction: Prediction) -> Point:
    """The forecast, which rests on step times and on no law."""
    speedup = prediction.speedup
    return interval_point(prediction.n_gpus, speedup, label=ratio_text(speedup), hollow=True)


def _measured(rows: Sequence[ResultRow]) -> Series:
    return Series(
        name="measured",
        hue=model_hue(rows[0].model),
        points=tuple(
            uncertain_point(
                row.n_gpus or 0, row, row.speedup, baseline_of(row, rows), label=ratio_text(row.speedup)
            )
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


PER_GPU_THROUGHPUT = Quantity(
    key="throughput-per-gpu",
    title="Throughput per GPU",
    unit="images per second per GPU",
    precise=lambda row: row.per_gpu_throughput,
    printed=lambda plain: None,
    text=digits_text,
)


def networks_of(rows: Sequence[ResultRow]) -> tuple[str, ...]:
    """The networks of some rows, in their order."""
    return tuple(dict.fromkeys(row.model for row in rows))


def cpu_gpu_charts(results: Results) -> tuple[ChartSpec, ...]:
    return tuple(cpu_gpu_chart(rows, name) for rows in split_practice(results) for name in networks_of(rows))


def per_gpu_chart(lines: Sequence[ScalingLine]) -> ChartSpec:
    """Throughput divided by the GPUs: flat would be perfect scaling."""
    return quantity_chart(PER_GPU_THROUGHPUT, lines)


def cpu_gpu_chart(rows: Sequence[ResultRow], model: str, *, reading: Reading = "precise") -> ChartSpec:
    """Epoch time of one network on the CPU and on one GPU with the same batch: acceleration, not scaling."""
    gpus = [row for row in rows if row.model == model and row.acceleration is not None]
    cpus = [row for row in rows if row.model == model and row.device == "cpu" and row.epoch_seconds]
    gpu = gpus[0] if gpus else None
    cpu = next((row for row in cpus if gpu is None or row.batch_size == gpu.batch_size), None)
    pair = [(0.0, "CPU", cpu), (1.0, "1 GPU", gpu)]
    marks = [(x, name, row) for x, name, row in pair if row is not None]
    points = [mark for x, _, row in marks if (mark := _time_mark(x, row, reading)) is not None]
    notes = []
    if gpu is not None and gpu.acceleration is not None:
        factor = gpu.printed_acceleration if reading == "as-printed" else gpu.acceleration.value
        notes.append(f"Acceleration {factor:.1f} times; it says nothing about scaling." if factor else "")
    return ChartSpec(
        key=f"cpu-gpu-{slug(model)}",
        title=f"Epoch time on the CPU and on one GPU, {model}",
        x_label="device",
        y_label="seconds per epoch",
        series=(Series(name=model, points=tuple(points), hue=model_hue(model)),),
        kind="bars",
        x_ticks=tuple((x, name) for x, name, _ in marks),
        notes=tuple(filter(None, notes)),
        practice=any(row.practice for _, _, row in marks),
    )


def _time_mark(x: float, row: ResultRow, reading: Reading) -> Point | None:
    if reading == "as-printed":
        plain = row.as_printed.epoch_seconds
        return None if plain is None else Point(x=x, y=plain, live=row.live, label=f"{plain:g}")
    if row.epoch_seconds is None:
        return None
    return _time_point(x, row, row.epoch_seconds)


def _time_point(x: float, row: ResultRow, time: Interval) -> Point:
    """An epoch time with the error bar that is shown."""
    return uncertain_point(x, row, time, label=digits_text(time))


def first_epoch_chart(lines: Sequence[ScalingLine]) -> ChartSpec:
    """The first epoch (hollow) beside the steady one, against the GPU count."""
    series = []
    several = len(lines) > 1
    for line in lines:
        firsts = [(row, row.warmup_seconds) for row in line.rows if row.warmup_seconds is not None]
        steady = [(row, row.epoch_seconds) for row in line.rows if row.epoch_seconds is not None]
        if not firsts:
            continue
        prefix = f"{line.name}, " if several else ""
        hue = model_hue(line.rows[0].model)
        series.append(_times(f"{prefix}first epoch", firsts, hollow=True, hue=hue))
        series.append(_times(f"{prefix}steady epoch", steady, hollow=False, hue=hue))
    counts = sorted({point.x for each in series for point in each.points})
    name = "" if several or not lines else f", {lines[0].name}"
    return ChartSpec(
        key="first-epoch",
        title=f"First epoch against steady epoch{name}",
        x_label=GPUS,
        y_label="seconds per epoch",
        series=tuple(each for each in series if each.points),
        kind="lines" if several else "bars",
        x_ticks=tuple((x, f"{x:g}") for x in counts),
        notes=("The first epoch also builds the graph, fills the data cache and sets up communication.",),
        practice=any(row.practice for line in lines for row in line.rows),
    )


def _times(
    name: str, times: Sequence[tuple[ResultRow, Interval]], *, hollow: bool, hue: int | None
) -> Series:
    return Series(
        name=name,
        hue=hue,
        points=tuple(
            interval_point(row.n_gpus or 0, time, label=digits_text(time), live=row.live, hollow=True)
            if hollow
            else _time_point(row.n_gpus or 0, row, time)
            for row, time in times
        ),
    )


_TUNED_AT_LEAST = 3
"""So many batches on one number of GPUs are a study of the batch; two may belong to two tasks."""
_READABLE = 32
"""Letters below a bar; where more bars than a few differ in more than that, a table says it."""


def tuning_charts(rows: Sequence[ResultRow]) -> tuple[ChartSpec, ...]:
    """Throughput of runs of one network on the same GPUs and data that differ in tuning or batch, as bars."""
    groups: dict[tuple[object, ...], list[ResultRow]] = {}
    for row in rows:
        if row.throughput is not None and row.n_gpus and not row.contradicted:
            work = (row.model, row.configuration.framework, row.configuration.data_set, row.n_gpus)
            groups.setdefault(work, []).append(row)
    tuned = [
        found
        for found in groups.values()
        if (len({row.configuration.tuning for row in found}) > 1 or len(found) >= _TUNED_AT_LEAST)
        and (len(found) <= _TUNED_AT_LEAST or max(map(len, tuning_labels(found))) <= _READABLE)
    ]
    several = len({found[0].configuration.data_set for found in tuned}) > 1
    charts = []
    for found in tuned:
        data = found[0].configuration.data_set
        counted = len({each[0].n_gpus for each in tuned}) > 1
        end = (f"-{slug(data)}" if several and data else "") + (f"-{found[0].n_gpus}" if counted else "")
        charts.append(_tuning_chart(found, f"tuning{end}"))
    return tuple(charts)


def _tuning_chart(rows: Sequence[ResultRow], key: str) -> ChartSpec:
    labels = tuning_labels(rows)
    order = sorted(range(len(rows)), key=lambda place: (_natural(labels[place]), labels[place]))
    points = []
    for x, place in enumerate(order):
        row, rate = rows[place], rows[place].throughput
        if rate is not None:
            points.append(uncertain_point(float(x), row, rate, label=rate_text(rate)))
    first = rows[0]
    axis, shown = _shared_labels(labels)
    where = f"{first.n_gpus} GPU{'s' * (first.n_gpus != 1)}"
    data = f" ({first.configuration.data_set})" if first.configuration.data_set else ""
    return ChartSpec(
        key=key,
        title=f"Throughput as tuned, {first.model}{data} on {where}",
        x_label=axis,
        y_label=f"{first.configuration.unit} per second",
        series=(Series(name=first.model, points=tuple(points), hue=model_hue(first.model)),),
        kind="bars",
        x_ticks=tuple((float(x), shown[place]) for x, place in enumerate(order)),
        notes=("The same network, data and GPUs; the bars differ in what is named below them.",),
        practice=any(row.practice for row in rows),
    )


def tuning_labels(rows: Sequence[ResultRow]) -> list[str]:
    """What tells rows of one network apart: their batch per GPU and their tuning, as far as they differ."""
    words = distinguishing_words([row.configuration.tuning for row in rows])
    batches = [row.configuration.per_gpu_batch for row in rows]
    named = [f"batch {batch:,.0f}" if batch is not None else "" for batch in batches]
    several = len(set(batches)) > 1
    return [
        ", ".join(filter(None, (batch if several else "", *mine))) or batch or "as planned"
        for batch, mine in zip(named, words, strict=True)
    ]


def _shared_labels(labels: Sequence[str]) -> tuple[str, list[str]]:
    """What stands below an axis and at its ticks: the word that all labels share, then only their numbers."""
    for form in (r"(?P<number>[\d,]+) (?P<word>[a-z]+?)s?", r"(?P<word>[a-z]+) (?P<number>[\d,]+)"):
        found = [re.fullmatch(form, label) for label in labels]
        words = {match["word"] for match in found if match is not None}
        if None not in found and len(words) == 1:
            word = words.pop()
            name = "batch per GPU" if word == "batch" else f"{word}s"
            return name, [match["number"] for match in found if match is not None]
    return "as tuned", list(labels)


def _natural(label: str) -> list[int]:
    """The numbers of a label, so that 8 workers stand before 10."""
    return [int(number.replace(",", "")) for number in re.findall(r"\b\d[\d,]*", label)]


def loss_chart(line: ScalingLine) -> ChartSpec:
    """Where 100 % went on each GPU count: kept, lost to the short last batch, lost to slower steps.

    With efficiency E = b x t, the batch costs 1 - b and slower steps cost b - E; the three add up to 1.
    """
    rows = [row for row in line.rows if row.efficiency is not None and row.batch_factor is not None]
    kept = [(row, row.efficiency) for row in rows if row.efficiency is not None]
    batch = [(row, Interval.exact(1 - row.batch_factor)) for row in rows if row.batch_factor is not None]
    steps = [
        (row, _difference(row.batch_factor, row.efficiency))
        for row in rows
        if row.batch_factor is not None and row.efficiency is not None
    ]
    parts = (("efficiency", kept), ("lost: short last batch", batch), ("lost: slower steps", steps))
    return ChartSpec(
        key=f"efficiency-loss-{slug(line.name)}",
        title=f"Where the efficiency goes, {line.name}",
        x_label=GPUS,
        y_label="share of ideal",
        series=tuple(
            Series(
                name=name,
                points=_shares(values),
                hue=model_hue(line.rows[0].model) if values is kept else None,
            )
            for name, values in parts
            if values
        ),
        kind="bars",
        x_ticks=tuple((row.n_gpus or 0, f"{row.n_gpus}") for row in rows),
        y_min=min([0.0, *(share.lo for _, share in (*batch, *steps))]),
        percent=True,
        notes=("The last batch of an epoch is smaller but costs a step; the GPUs are not to blame.",),
        practice=any(row.practice for row in rows),
    )


def _difference(exact: float, interval: Interval) -> Interval:
    return Interval(exact - interval.value, exact - interval.hi, exact - interval.lo)


def _shares(values: Sequence[tuple[ResultRow, Interval]]) -> tuple[Point, ...]:
    return tuple(
        interval_point(row.n_gpus or 0, share, label=percent_text(share), live=row.live)
        for row, share in values
    )
