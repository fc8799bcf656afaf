"""Charts across configurations: acceleration, first epoch, tuning, lost efficiency, laws."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from labtui.results import messages
from labtui.results.charts import (
    ChartSpec,
    Point,
    Series,
    interval_point,
    model_hue,
    slug,
)
from labtui.results.laws import law_speedup
from labtui.results.numbers import (
    percent_text,
    rate_text,
    ratio_text,
)
from labtui.results.quantity_charts import (
    EPOCH_TIME,
    GPUS,
    SPEEDUP,
    Reading,
    count_ticks,
    digits_text,
    points_of,
    uncertain_point,
)
from labtui.results.rows import LawFit, ResultRow, Results, distinguishing_words
from labtui.results.scaling import ScalingLine, lost_efficiency, outlooks, scaling_lines
from labtui.slurm.values import number


def acceleration_chart(rows: Sequence[ResultRow], model: str, *, reading: Reading = "precise") -> ChartSpec:
    """Epoch time of one network on the CPU and on one GPU with the same batch: acceleration, not scaling."""
    gpu = next((row for row in rows if row.model == model and row.acceleration is not None), None)
    cpus = (row for row in rows if row.model == model and row.device == "cpu" and row.epoch_seconds)
    cpu = next((row for row in cpus if gpu is None or row.batch_size == gpu.batch_size), None)
    pair = [(x, name, row) for x, name, row in ((0.0, "CPU", cpu), (1.0, "1 GPU", gpu)) if row is not None]
    points = [mark for x, _, row in pair for mark in points_of(EPOCH_TIME, [row], reading)]
    points = [replace(mark, x=x) for mark, (x, _, _) in zip(points, pair, strict=False)]
    note: tuple[str, ...] = ()
    if gpu is not None and gpu.acceleration is not None:
        factor = gpu.printed_acceleration if reading == "as-printed" else gpu.acceleration
        note = (f"Acceleration {ratio_text(factor)} times; it says nothing about scaling.",) if factor else ()
    return ChartSpec(
        key="cpu-gpu",
        title=f"Epoch time on the CPU and on one GPU, {model}",
        heading="Epoch time, s",
        message=messages.acceleration_message(gpu),
        x_label="device",
        y_label="seconds per epoch",
        unit="s",
        series=(Series(name=model, points=tuple(points), hue=model_hue(model)),),
        kind="repeats",
        x_axis="names",
        x_ticks=tuple((x, name) for x, name, _ in pair),
        model=model,
        notes=note,
        practice=any(row.practice for _, _, row in pair),
    )


def first_epoch_chart(lines: Sequence[ScalingLine]) -> ChartSpec:
    """The first epoch (hollow) beside the steady one, against the GPU count."""
    series = []
    several = len(lines) > 1
    for line in lines:
        firsts = tuple(
            interval_point(row.n_gpus or 0, time, label=digits_text(time), live=row.live, hollow=True)
            for row in line.rows
            if (time := row.warmup_seconds) is not None
        )
        steady = tuple(points_of(EPOCH_TIME, [row for row in line.rows if row.epoch_seconds], "precise"))
        prefix = f"{line.name}, " if several else ""
        if firsts:
            series.append(Series(name=f"{prefix}first epoch", points=firsts, hue=model_hue(line.model)))
            series.append(Series(name=f"{prefix}steady epoch", points=steady, hue=model_hue(line.model)))
    counts = sorted({point.x for each in series for point in each.points})
    return ChartSpec(
        key="first-epoch",
        title="First epoch against steady epoch" + ("" if several or not lines else f", {lines[0].name}"),
        heading="First and steady epoch, s",
        x_label=GPUS,
        y_label="seconds per epoch",
        unit="s",
        series=tuple(each for each in series if each.points),
        kind="lines" if several else "bars",
        switchable=True,
        x_ticks=count_ticks(counts),
        notes=("The first epoch also builds the graph, fills the data cache and sets up communication.",),
        practice=any(row.practice for line in lines for row in line.rows),
    )


_MIN_TUNED = 3
"""So many batches on one number of GPUs are a study of the batch; two may belong to two tasks."""
_MAX_LABEL = 32
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
        if (len({row.configuration.tuning for row in found}) > 1 or len(found) >= _MIN_TUNED)
        and (len(found) <= _MIN_TUNED or max(map(len, tuning_labels(found))) <= _MAX_LABEL)
    ]
    data_sets = {found[0].configuration.data_set for found in tuned}
    counts = {found[0].n_gpus for found in tuned}
    charts = []
    for found in tuned:
        data = found[0].configuration.data_set
        end = f"-{slug(data)}" if len(data_sets) > 1 and data else ""
        charts.append(_tuning_chart(found, f"tuning{end}{f'-{found[0].n_gpus}' * (len(counts) > 1)}"))
    return tuple(charts)


def _tuning_chart(rows: Sequence[ResultRow], key: str) -> ChartSpec:
    labels = tuning_labels(rows)
    order = sorted(range(len(rows)), key=lambda place: (_natural(labels[place]), labels[place]))
    points = []
    for x, place in enumerate(order):
        if (rate := rows[place].throughput) is not None:
            points.append(uncertain_point(float(x), rows[place], rate, label=rate_text(rate)))
    first = rows[0].configuration
    axis, shown = _shared_labels(labels)
    where = f"{rows[0].n_gpus} GPU{'s' * (rows[0].n_gpus != 1)}"
    data = f" ({first.data_set})" if first.data_set else ""
    return ChartSpec(
        key=key,
        family="tuning",
        view="throughput",
        title=f"Throughput as tuned, {first.model}{data} on {where}",
        heading=f"{first.unit.capitalize()} per second",
        message=messages.tuning_message(rows, labels),
        x_label=axis,
        y_label=f"{first.unit} per second",
        series=(Series(name=first.model, points=tuple(points), hue=model_hue(first.model)),),
        kind="bars",
        x_axis="names",
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
        found = [match for label in labels if (match := re.fullmatch(form, label)) is not None]
        words = {match["word"] for match in found}
        if len(found) == len(labels) and len(words) == 1:
            word = words.pop()
            return "batch per GPU" if word == "batch" else f"{word}s", [match["number"] for match in found]
    return "as tuned", list(labels)


def _natural(label: str) -> list[int]:
    """The numbers of a label, so that 8 workers stand before 10."""
    return [number(word.replace(",", "")) or 0 for word in re.findall(r"\b\d[\d,]*", label)]


# --------------------------------------------------------------------------- lost efficiency, laws


def loss_chart(lines: Sequence[ScalingLine]) -> ChartSpec:
    """Where 100 % went: kept, and the parts of what was lost, for each line on each number of GPUs."""
    rows = [
        (line, row, lost_efficiency(row))
        for line in lines
        for row in line.rows
        if (row.n_gpus or 0) > 1 and lost_efficiency(row)
    ]
    several = len({line.name for line, _, _ in rows}) > 1
    parts: dict[str, list[Point]] = {}
    for x, (_, row, lost) in enumerate(rows):
        shares = [("efficiency", row.efficiency), *((part.name, part.share) for part in lost)]
        for name, share in shares:
            if share is not None:
                point = interval_point(float(x), share, label=percent_text(share), live=row.live)
                parts.setdefault(name, []).append(point)
    least = min([0.0, *(point.lo or 0.0 for points in parts.values() for point in points)])
    positive = all(point.y >= -1e-9 for points in parts.values() for point in points)
    return ChartSpec(
        key="efficiency-loss",
        view="efficiency",
        title="Where the efficiency goes" + (f", {rows[0][0].name}" if rows and not several else ""),
        heading="Points of efficiency lost",
        message=messages.loss_message([row for _, row, _ in rows]),
        x_label=GPUS,
        y_label="share of ideal",
        unit="%",
        series=tuple(
            Series(
                name=name if name == "efficiency" else f"lost: {name}",
                short=name,
                points=tuple(points),
                part="kept" if name == "efficiency" else "lost",
                hue=model_hue(rows[0][0].model) if name == "efficiency" and not several else None,
            )
            for name, points in parts.items()
        ),
        kind="stacked" if positive else "bars",
        x_axis="names",
        x_ticks=tuple(
            (float(x), f"{line.name} on {row.n_gpus} GPUs" if several else f"{row.n_gpus}")
            for x, (line, row, _) in enumerate(rows)
        ),
        y_min=least,
        percent=True,
        notes=("The last batch of an epoch is smaller but costs a whole step.",),
        practice=any(row.practice for _, row, _ in rows),
    )


_LAWS = {"amdahl": "Amdahl", "gustafson": "Gustafson"}


def law_chart(results: Results, model: str) -> ChartSpec:
    """Measured speedup of one network with both fitted laws, and the outlook to twice the GPUs."""
    lines = [line for line in scaling_lines(results.rows) if line.model == model]
    series: list[Series] = []
    counts: set[int] = set()
    for line in lines:
        base = line.baseline
        fits = [fit for fit in results.fits if base is not None and fit.baseline == base.configuration]
        if base is None or not fits:
            continue
        rows = (base, *line.beyond)
        counts |= {row.n_gpus or 0 for row in rows}
        points = tuple(points_of(SPEEDUP, rows, "precise"))
        series.append(Series(name=line.name, short="measured", points=points, hue=model_hue(model)))
        series += law_curves(fits)
        series += outlook_series(rows)
    mine = [fit for fit in results.fits if fit.model == model]
    counts |= {int(point.x) for each in series if each.role == "reference" for point in each.points}
    if counts:
        ends = tuple(Point(x=n, y=n) for n in (min(counts), max(counts)))
        series.append(Series(name="ideal", points=ends, role="ideal"))
    return ChartSpec(
        key="laws",
        view="speedup",
        title=f"Speedup and the two laws, {model}",
        heading="Speedup",
        message=messages.laws_message(results, (model,)),
        x_label=GPUS,
        y_label="times one GPU",
        unit="×",
        series=tuple(series),
        x_ticks=count_ticks(sorted(counts)),
        model=model,
        notes=tuple(
            dict.fromkeys(
                [
                    *(
                        f"Serial fraction by {_LAWS[fit.law]}'s law: {percent_text(fit.serial_fraction)}, from "
                        f"{fit.points} sizes."
                        for fit in mine
                    ),
                    *(remark for fit in mine for remark in fit.remarks),
                ]
            )
        ),
        practice=any(fit.practice for fit in mine),
    )


def law_curves(fits: Sequence[LawFit]) -> tuple[Series, ...]:
    """Each law's curve over the sizes it was fitted to, with the band of its fraction."""
    return tuple(each for fit in fits for each in _curve(fit))


def _curve(fit: LawFit) -> Iterable[Series]:
    last = fit.n_gpus[-1]
    steps = max(1, min((last - 1) * 4, 120))
    fraction = fit.serial_fraction
    curve, band = [], []
    for n in (1 + step * (last - 1) / steps for step in range(steps + 1)):
        # a larger fraction means a smaller speedup, so the bounds change places
        value, low, high = (
            law_speedup(fit.law, each, n) for each in (fraction.value, fraction.hi, fraction.lo)
        )
        if value is not None:
            curve.append(Point(x=n, y=value))
        if value is not None and low is not None and high is not None:
            band.append(Point(x=n, y=value, lo=min(low, value), hi=max(high, value)))
    yield Series(name=f"{_LAWS[fit.law]}'s law", short=_LAWS[fit.law], points=tuple(curve), role="fit")
    yield Series(name=f"band of {_LAWS[fit.law]}'s law", points=tuple(band), role="band")


def outlook_series(rows: Sequence[ResultRow]) -> tuple[Series, ...]:
    """Dashed from the largest measured size to twice the GPUs: the step stays as it is, or grows as it did."""
    found: list[Series] = []
    for each in outlooks(rows):
        last = each.line.beyond[-1].speedup
        if last is None:
            continue
        names = (
            (f"step as on {each.measured} GPUs", each.same),
            (f"step grows as from {each.measured // 2} to {each.measured}", each.grows),
        )
        for name, speedup in names:
            ends = (
                Point(x=each.measured, y=last.value),
                Point(x=each.n_gpus, y=speedup, label=ratio_text(speedup)),
            )
            found.append(Series(name=name, points=ends, role="reference"))
    return tuple(found)
