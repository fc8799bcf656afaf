"""Charts across configurations: acceleration, tuning, lost efficiency, laws."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from labtui.results import messages
from labtui.results.charts import MODEL_HUES, ChartSpec, Point, Series, interval_point, make_chart, slug
from labtui.results.grouping import devices
from labtui.results.laws import law_speedup
from labtui.results.numbers import percent_text, rate_text, ratio_text
from labtui.results.rows import LawFit, ResultRow, Results, distinguishing_words
from labtui.results.scaling import SHORT_BATCH, Outlook, ScalingLine, lost_efficiency, outlooks, scaling_lines
from labtui.results.scaling_charts import (
    EPOCH_TIME,
    SPEEDUP,
    Reading,
    count_ticks,
    points_of,
    uncertain_point,
)
from labtui.slurm.values import number


def acceleration_chart(rows: Sequence[ResultRow], model: str, *, reading: Reading = "precise") -> ChartSpec:
    """Epoch time of one network on the CPU and on one GPU with the same batch: acceleration, not scaling."""
    gpu = next((row for row in rows if row.model == model and row.acceleration is not None), None)
    cpus = (row for row in rows if row.model == model and row.device == "cpu" and row.epoch_seconds)
    cpu = next((row for row in cpus if gpu is None or row.batch_size == gpu.batch_size), None)
    pair = [(x, name, row) for x, name, row in ((0.0, "CPU", cpu), (1.0, "1 GPU", gpu)) if row is not None]
    points = tuple(replace(mark, x=x) for x, _, row in pair for mark in points_of(EPOCH_TIME, [row], reading))
    factor = gpu and (gpu.printed_acceleration if reading == "as-printed" else gpu.acceleration)
    return make_chart(
        "cpu-gpu",
        [Series(name=model, points=points, hue=MODEL_HUES.get(model))],
        of=model,
        message=messages.acceleration_message(gpu),
        x_ticks=tuple((x, name) for x, name, _ in pair),
        model=model,
        notes=(f"Acceleration {ratio_text(factor)} times; it says nothing about scaling.",) if factor else (),
        practice=any(row.practice for _, _, row in pair),
    )


_MIN_TUNED = 3
"""So many batches on one number of GPUs are a study of the batch; two may belong to two tasks."""
_MAX_LABEL = 32
"""Letters below a bar; where more bars than a few differ in more than that, a table says it."""


def tuning_charts(rows: Sequence[ResultRow]) -> tuple[ChartSpec, ...]:
    """Throughput of runs of one network on the same GPUs and data that differ in tuning or batch, as bars."""
    groups: dict[tuple[object, ...], list[ResultRow]] = {}
    for row in rows:
        if row.throughput is not None and row.n_gpus and not (row.contradicted or row.configuration.control):
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
    order = sorted(range(len(rows)), key=lambda place: (_numbers(labels[place]), labels[place]))
    points = [
        uncertain_point(float(x), rows[place], rate, label=rate_text(rate))
        for x, place in enumerate(order)
        if (rate := rows[place].throughput) is not None
    ]
    first = rows[0].configuration
    axis, shown = _shared_labels(labels)
    data = f" ({first.data_set})" if first.data_set else ""
    return make_chart(
        "tuning",
        [Series(name=first.model, points=tuple(points), hue=MODEL_HUES.get(first.model))],
        key=key,
        of=f"{first.model}{data} on {devices(first.n_gpus)}",
        counted=first.unit,
        message=messages.tuning_message(rows, labels),
        x_label=axis,
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


_NUMBER = re.compile(r"\b\d[\d,]*")


def _numbers(label: str) -> list[int]:
    """The numbers of a label, so that 8 workers stand before 10."""
    return [number(word.replace(",", "")) or 0 for word in _NUMBER.findall(label)]


def _shared_labels(labels: Sequence[str]) -> tuple[str, list[str]]:
    """What stands below an axis and at its ticks: the word that all labels share, then only their numbers."""
    words = {_NUMBER.sub("", label).strip().removesuffix("s") for label in labels}
    if len(words) > 1 or any(len(_numbers(label)) != 1 for label in labels):
        return "as tuned", list(labels)
    word = words.pop()
    axis = "batch per GPU" if word == "batch" else f"{word}s"
    return axis, [_NUMBER.findall(label)[0] for label in labels]


# --------------------------------------------------------------------------- lost efficiency, laws


def loss_chart(lines: Sequence[ScalingLine]) -> ChartSpec:
    """Where 100 % went: kept, and the parts of what was lost, for each line on each number of GPUs."""
    found = [(line, row, row.efficiency) for line in lines for row in line.rows if lost_efficiency(row)]
    rows = [(line, row, share) for line, row, share in found if (row.n_gpus or 0) > 1 and share is not None]
    several = len({line.name for line, _, _ in rows}) > 1
    shares: dict[str, list[Point]] = {}
    for x, (_, row, kept) in enumerate(rows):
        lost = [(f"lost: {part.name}", part.share) for part in lost_efficiency(row)]
        for name, share in (("efficiency", kept), *lost):
            point = interval_point(float(x), share, label=percent_text(share), live=row.live)
            shares.setdefault(name, []).append(point)
    shares = {name: points for name, points in shares.items() if any(point.y for point in points)}
    lowest = min([0.0, *(point.lo or 0.0 for points in shares.values() for point in points)])
    stacked = all(point.y >= -1e-9 for points in shares.values() for point in points)
    series = [
        Series(
            name=name,
            short=name.removeprefix("lost: "),
            points=tuple(points),
            part="kept" if name == "efficiency" else "lost",
        )
        for name, points in shares.items()
    ]
    return make_chart(
        "efficiency-loss",
        series,
        of=rows[0][0].name if rows and not several else "",
        message=messages.loss_message([row for _, row, _ in rows]),
        kind="stacked" if stacked else "bars",
        x_ticks=tuple(
            (float(x), f"{line.name} on {row.n_gpus} GPUs" if several else f"{row.n_gpus}")
            for x, (line, row, _) in enumerate(rows)
        ),
        y_min=lowest,
        notes=("The last batch of an epoch is smaller but costs a whole step.",)
        * (f"lost: {SHORT_BATCH}" in shares),
        practice=any(row.practice for _, row, _ in rows),
    )


def law_chart(results: Results, model: str) -> ChartSpec:
    """Measured speedup of one network with both fitted laws, and the outlook to twice the GPUs."""
    series: list[Series] = []
    mine = [fit for fit in results.fits if fit.model == model]
    for line in scaling_lines(results.rows):
        base = line.baseline
        fits = [fit for fit in mine if base is not None and fit.baseline == base.configuration]
        if base is None or not fits:
            continue
        rows = (base, *line.beyond)
        points = tuple(points_of(SPEEDUP, rows, "precise"))
        series.append(Series(name=line.name, short="measured", points=points, hue=MODEL_HUES.get(model)))
        series += map(_curve, fits)
        series += [each for outlook in outlooks(rows) for each in _dashed(outlook)]
    counts = sorted({p.x for each in series if each.role in ("measured", "reference") for p in each.points})
    if counts:
        ends = tuple(Point(x=n, y=n) for n in (counts[0], counts[-1]))
        series.append(Series(name="ideal", points=ends, role="ideal"))
    fractions = [
        f"Serial fraction by {fit.law.capitalize()}'s law: {percent_text(fit.serial_fraction)}, from "
        f"{fit.points} sizes."
        for fit in mine
    ]
    return make_chart(
        "laws",
        series,
        of=model,
        message=messages.laws_message(results, (model,)),
        x_ticks=count_ticks(counts),
        model=model,
        notes=tuple(dict.fromkeys([*fractions, *(remark for fit in mine for remark in fit.remarks)])),
        practice=any(fit.practice for fit in mine),
    )


def _curve(fit: LawFit) -> Series:
    """A law's curve over the sizes it was fitted to."""
    last = fit.n_gpus[-1]
    steps = max(1, min((last - 1) * 4, 120))
    counts = (1 + step * (last - 1) / steps for step in range(steps + 1))
    values = ((n, law_speedup(fit.law, fit.serial_fraction.value, n)) for n in counts)
    points = tuple(Point(x=n, y=value) for n, value in values if value is not None)
    name = fit.law.capitalize()
    return Series(name=f"{name}'s law", short=name, points=points, role="fit")


def _dashed(outlook: Outlook) -> Iterable[Series]:
    """From the largest measured size to twice the GPUs: the step stays as it is, or grows as it did."""
    last = outlook.line.beyond[-1].speedup
    n = outlook.measured
    for name, speedup in (
        (f"step as on {n} GPUs", outlook.same),
        (f"step grows as from {n // 2} to {n}", outlook.grows),
    ):
        if last is not None:
            end = Point(x=outlook.n_gpus, y=speedup, label=ratio_text(speedup))
            yield Series(name=name, points=(Point(x=n, y=last.value), end), role="reference")
