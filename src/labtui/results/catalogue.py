"""The one place that decides which charts there are, for whom, and in which order.

Real and practice runs never share a chart, nor do images and tokens. Charts by epoch and by second are made in
`course_charts`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from labtui.domain.model import Interval
from labtui.results import course_charts, messages
from labtui.results.charts import (
    ChartSpec,
    Point,
    Series,
    View,
    distinct,
    doubling_axes,
    interval_point,
    model_hue,
    slug,
)
from labtui.results.laws import law_speedup
from labtui.results.measured import AsPrinted
from labtui.results.numbers import (
    ABSENT,
    baseline_of,
    percent_text,
    rate_text,
    ratio_text,
    three_digits,
    uncertainty,
    widened,
)
from labtui.results.programs import ProgramRow, baseline_text
from labtui.results.rows import LawFit, ResultRow, Results, distinguishing_words, of_rows
from labtui.results.scaling import ScalingLine, lost_efficiency, outlooks, scaling_lines, split_practice

Reading = Literal["precise", "as-printed"]
GPUS = "GPUs"
MAX_LINES = 6
"""Runs of several networks are drawn over each other by epoch up to so many lines."""


def networks(results: Results) -> tuple[str, ...]:
    """The networks of the rows, in their order, then the programs."""
    timed = (row.program.name for row in results.programs)
    return tuple(dict.fromkeys([*(row.model for row in results.rows), *timed]))


def catalogue(
    results: Results, *, model: str | None = None, reading: Reading = "precise"
) -> tuple[ChartSpec, ...]:
    """The charts of one network; without `model` those of all together (all there are, if there is one only)."""
    there = networks(results)
    return told_apart(_charts(results, there[0] if model is None and len(there) == 1 else model, reading))


_TOGETHER = ("throughput-per-gpu", "first-epoch", "efficiency-loss")
"""Charts that show all networks at once as well as one alone."""


def lab_charts(results: Results, *, reading: Reading = "precise") -> tuple[ChartSpec, ...]:
    """Every chart of a lab, once: those of each network, with its name in their keys, then those of all together."""
    there = networks(results)
    several = len(there) > 1
    charts = [chart for name in there for chart in _charts(results, name, reading)]
    named = [
        replace(chart, key=f"{chart.key}-{slug(chart.model)}")
        for chart in charts
        if not (several and chart.family in _TOGETHER)
    ]
    together = [chart for chart in _charts(results, None, reading) if not chart.model] if several else []
    return told_apart([*named, *together])


def _charts(results: Results, model: str | None, reading: Reading) -> list[ChartSpec]:
    """The charts of one network or of all together; real and practice ones may have one key."""
    charts: list[ChartSpec] = []
    for rehearsed in (False, True):
        timed = [
            row for row in results.programs if row.practice is rehearsed and model in (None, row.program.name)
        ]
        for name in dict.fromkeys(row.program.name for row in timed):
            charts += program_charts([row for row in timed if row.program.name == name])
    for rows in split_practice(row for row in results.rows if model in (None, row.model)):
        charts += _charts_of(of_rows(results, rows), model, reading)
    return [replace(chart, model=model or chart.model) for chart in charts if _has_content(chart)]


def _charts_of(results: Results, model: str | None, reading: Reading) -> Iterable[ChartSpec]:
    """The charts of rows that are all real or all practice; of one network where `model` names it."""
    lines = scaling_lines(results.rows)
    units = tuple(dict.fromkeys(line.unit for line in lines))
    for quantity in (*TASK_QUANTITIES, PER_GPU_THROUGHPUT):
        for unit in units:
            chart = quantity_chart(quantity, [line for line in lines if line.unit == unit], reading=reading)
            yield chart if unit == units[0] else replace(chart, key=f"{chart.key}-{unit}")
    yield first_epoch_chart(lines)
    yield loss_chart(lines)
    if model is not None:
        yield acceleration_chart(results.rows, model, reading=reading)
        yield law_chart(results, model)
        yield from tuning_charts(results.rows)
    yield from course_charts.study_charts(results, model)
    for chart in (course_charts.epoch_chart(results, model), course_charts.accuracy_chart(results, model)):
        if model is not None or len(chart.measured) <= MAX_LINES:
            yield chart


_COMPARES = {"cpu-gpu", "speedup", "efficiency"}


def _has_content(chart: ChartSpec) -> bool:
    """Whether a chart has what it compares: one mark alone is no speedup, no efficiency and no acceleration."""
    if chart.family in _COMPARES:
        return any(len(series.points) > 1 for series in chart.measured)
    return not chart.empty


def told_apart(charts: Iterable[ChartSpec]) -> tuple[ChartSpec, ...]:
    """Charts with distinct keys: a practice chart beside a real one says so."""
    charts = tuple(charts)
    real = {chart.key.casefold() for chart in charts if not chart.practice}
    seen: dict[str, int] = {}
    found = []
    for chart in charts:
        key = chart.key
        if chart.practice and key.casefold() in real:
            key = f"{key}-practice"
        count = seen[key.casefold()] = seen.get(key.casefold(), 0) + 1
        found.append(replace(chart, key=key if count == 1 else f"{key}-{count}"))
    return tuple(found)


# --------------------------------------------------------------------------- numbers of a row by GPU count


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number of a row that a chart can show against the GPU count, in both readings."""

    key: str
    view: View
    title: str
    heading: str
    y_label: str
    precise: Callable[[ResultRow], Interval | None]
    printed: Callable[[AsPrinted], float | None]
    text: Callable[[Interval | None], str]
    unit: str = ""
    percent: bool = False
    ratio: bool = False


def digits_text(value: Interval | None) -> str:
    """Three significant digits: ``13.6``; a dash for nothing."""
    return ABSENT if value is None else three_digits(value.value)


EPOCH_TIME = Quantity(
    key="epoch-time", view="time", title="Epoch time", heading="Epoch time, s", y_label="seconds per epoch", unit="s",
    precise=lambda row: row.epoch_seconds, printed=lambda plain: plain.epoch_seconds, text=digits_text,
)  # fmt: skip
THROUGHPUT = Quantity(
    key="throughput", view="throughput", title="Throughput", heading="Images per second", y_label="images per second",
    precise=lambda row: row.throughput, printed=lambda plain: plain.throughput, text=rate_text,
)  # fmt: skip
SPEEDUP = Quantity(
    key="speedup", view="speedup", title="Speedup", heading="Speedup", y_label="times one GPU", unit="×", ratio=True,
    precise=lambda row: row.speedup, printed=lambda plain: plain.speedup, text=ratio_text,
)  # fmt: skip
EFFICIENCY = Quantity(
    key="efficiency", view="efficiency", title="Efficiency", heading="Efficiency, %", y_label="speedup / GPUs",
    unit="%", ratio=True, percent=True,
    precise=lambda row: row.efficiency, printed=lambda plain: plain.efficiency, text=percent_text,
)  # fmt: skip
PER_GPU_THROUGHPUT = Quantity(
    key="throughput-per-gpu", view="throughput", title="Throughput per GPU", heading="Images per second and GPU",
    y_label="images per second per GPU",
    precise=lambda row: row.per_gpu_throughput, printed=lambda plain: None, text=digits_text,
)  # fmt: skip
TASK_QUANTITIES = (EPOCH_TIME, THROUGHPUT, SPEEDUP, EFFICIENCY)


def quantity_chart(
    quantity: Quantity, lines: Sequence[ScalingLine], *, reading: Reading = "precise"
) -> ChartSpec:
    """One quantity against the GPU count for some lines; the speedup chart gets its ideal line."""
    shorts = distinct([line.name for line in lines])
    series = [
        Series(name=line.name, short=short, points=points, hue=model_hue(line.model))
        for line, short in zip(lines, shorts, strict=True)
        if (points := tuple(_points(quantity, line.rows, reading)))
    ]
    counts = sorted({point.x for each in series for point in each.points})
    if quantity is SPEEDUP and series:
        series.append(Series(name="ideal", role="ideal", points=tuple(Point(x=n, y=n) for n in counts)))
    models = tuple(dict.fromkeys(line.model for line in lines))
    unit = lines[0].unit if lines else "images"
    rows = [row for line in lines for row in line.rows]
    chart = ChartSpec(
        key=quantity.key,
        family=quantity.key,
        view=quantity.view,
        title=f"{quantity.title}, {models[0]}" if len(models) == 1 else quantity.title,
        heading=quantity.heading.replace("Images", unit.capitalize()),
        message=messages.scaling_message(lines, {quantity.key}) if reading == "precise" else "",
        x_label=GPUS,
        y_label=quantity.y_label.replace("images", unit),
        unit=quantity.unit,
        series=tuple(series),
        kind="lines",
        switchable=True,
        x_ticks=_count_ticks(counts),
        y_max=_ceiling(series) if quantity.percent else None,
        percent=quantity.percent,
        notes=tuple(_notes(quantity, lines, reading)),
        practice=any(row.practice for row in rows),
    )
    return doubling_axes(chart)


def _count_ticks(counts: Iterable[float]) -> tuple[tuple[float, str], ...]:
    return tuple((n, f"{n:g}") for n in counts)


def _points(quantity: Quantity, rows: Sequence[ResultRow], reading: Reading) -> Iterable[Point]:
    for row in rows:
        if row.n_gpus is None:
            continue
        if reading == "as-printed":
            if (plain := quantity.printed(row.as_printed)) is not None:
                label = f"{plain:g}" if quantity is EPOCH_TIME else quantity.text(Interval.exact(plain))
                yield Point(x=row.n_gpus, y=plain, live=row.live, label=label)
        elif (value := quantity.precise(row)) is not None:
            base = baseline_of(row, rows) if quantity.ratio else None
            yield uncertain_point(row.n_gpus, row, value, base, label=quantity.text(value))
        elif quantity is EPOCH_TIME and row.warmup_seconds is not None:
            text = quantity.text(row.warmup_seconds)
            yield interval_point(row.n_gpus, row.warmup_seconds, label=text, live=row.live, hollow=True)


def uncertain_point(
    x: float, row: ResultRow, value: Interval, baseline: ResultRow | None = None, *, label: str
) -> Point:
    """A number of a row with the uncertainty that is shown; `baseline` for a ratio to that row."""
    found = uncertainty(row, value, baseline)
    return interval_point(x, widened(value, found), label=label, live=row.live, mark=found.mark)


def _ceiling(series: Sequence[Series]) -> float:
    """The upper limit of shares, where 100 % must be on the chart."""
    tops = [point.y if point.hi is None else point.hi for each in series for point in each.points]
    return max([1.0, *tops]) * 1.05


def _notes(quantity: Quantity, lines: Sequence[ScalingLine], reading: Reading) -> Iterable[str]:
    rows = [row for line in lines for row in line.rows]
    if reading == "as-printed":
        yield "As printed: whole seconds of epoch 2."
    elif any(row.warmup_seconds and row.epoch_seconds for row in rows):
        yield "The first epoch of each run is warm-up and not counted."
    if quantity is EPOCH_TIME and reading == "precise" and any(row.epoch_seconds is None for row in rows):
        yield "Hollow: only the first epoch is done."
    if reading == "precise":
        yield from _bars_sentences(quantity, lines)
    if any(row.live for row in rows):
        yield "Runs in progress are drawn as live; their marks will move."
    if quantity.ratio:
        fixed = [row for row in rows if row.configuration.whole_batches or row.from_rate]
        if any((row.n_gpus or 0) > 1 for row in fixed):
            yield (
                f"{rows[0].configuration.unit.capitalize()} per second against one GPU's, with the batch per GPU "
                "fixed: each step is weak scaling, an epoch strong scaling."
            )
        yield from dict.fromkeys(note for row in rows for note in row.notes if "one-GPU baseline" in note)


def _bars_sentences(quantity: Quantity, lines: Sequence[ScalingLine]) -> Iterable[str]:
    """What the error bars are, and which marks rest on a single epoch."""
    found = [
        uncertainty(row, value, baseline_of(row, line.rows) if quantity.ratio else None)
        for line in lines
        for row in line.rows
        if (value := quantity.precise(row)) is not None
    ]
    drawn = {each.source for each in found if each.half_width}
    words = ["the scatter between epochs"] if "scatter" in drawn else []
    words += ["the rounding of the printed digits"] if drawn & {"reading", "one epoch"} else []
    if words:
        yield f"Error bars: {' or '.join(words)}{', the larger' * (len(words) > 1)}."
    if any(each.source == "one epoch" for each in found):
        yield "Some marks are based on one epoch."


# --------------------------------------------------------------------------- CPU, first epoch, tuning


def acceleration_chart(rows: Sequence[ResultRow], model: str, *, reading: Reading = "precise") -> ChartSpec:
    """Epoch time of one network on the CPU and on one GPU with the same batch: acceleration, not scaling."""
    gpu = next((row for row in rows if row.model == model and row.acceleration is not None), None)
    cpus = (row for row in rows if row.model == model and row.device == "cpu" and row.epoch_seconds)
    cpu = next((row for row in cpus if gpu is None or row.batch_size == gpu.batch_size), None)
    pair = [(x, name, row) for x, name, row in ((0.0, "CPU", cpu), (1.0, "1 GPU", gpu)) if row is not None]
    points = [mark for x, _, row in pair for mark in _points(EPOCH_TIME, [row], reading)]
    points = [replace(mark, x=x) for mark, (x, _, _) in zip(points, pair, strict=False)]
    note: tuple[str, ...] = ()
    if gpu is not None and gpu.acceleration is not None:
        factor = gpu.printed_acceleration if reading == "as-printed" else gpu.acceleration.value
        note = (f"Acceleration {factor:.1f} times; it says nothing about scaling.",) if factor else ()
    return ChartSpec(
        key="cpu-gpu",
        family="cpu-gpu",
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
        steady = tuple(_points(EPOCH_TIME, [row for row in line.rows if row.epoch_seconds], "precise"))
        prefix = f"{line.name}, " if several else ""
        if firsts:
            series.append(Series(name=f"{prefix}first epoch", points=firsts, hue=model_hue(line.model)))
            series.append(Series(name=f"{prefix}steady epoch", points=steady, hue=model_hue(line.model)))
    counts = sorted({point.x for each in series for point in each.points})
    return ChartSpec(
        key="first-epoch",
        family="first-epoch",
        title="First epoch against steady epoch" + ("" if several or not lines else f", {lines[0].name}"),
        heading="First and steady epoch, s",
        x_label=GPUS,
        y_label="seconds per epoch",
        unit="s",
        series=tuple(each for each in series if each.points),
        kind="lines" if several else "bars",
        switchable=True,
        x_ticks=_count_ticks(counts),
        notes=("The first epoch also builds the graph, fills the data cache and sets up communication.",),
        practice=any(row.practice for line in lines for row in line.rows),
    )


_TUNED_AT_LEAST = 3
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
        if (len({row.configuration.tuning for row in found}) > 1 or len(found) >= _TUNED_AT_LEAST)
        and (len(found) <= _TUNED_AT_LEAST or max(map(len, tuning_labels(found))) <= _MAX_LABEL)
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
    return [int(number.replace(",", "")) for number in re.findall(r"\b\d[\d,]*", label)]


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
        family="efficiency-loss",
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
        notes=("The last batch of an epoch is smaller but costs a step; the GPUs are not to blame.",),
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
        points = tuple(_points(SPEEDUP, rows, "precise"))
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
        family="laws",
        view="speedup",
        title=f"Speedup and the two laws, {model}",
        heading="Speedup",
        message=messages.laws_message(results, (model,)),
        x_label=GPUS,
        y_label="times one GPU",
        unit="×",
        series=tuple(series),
        x_ticks=_count_ticks(sorted(counts)),
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
                Point(x=each.n_gpus, y=speedup, label=f"{speedup:.2f}"),
            )
            found.append(Series(name=name, points=ends, role="reference"))
    return tuple(found)


# --------------------------------------------------------------------------- programs that are timed without epochs

_UNITS = {"s": "seconds", "ms": "milliseconds"}


def program_charts(rows: Sequence[ProgramRow]) -> tuple[ChartSpec, ...]:
    """Time, speedup and efficiency of one program's strong scaling; time and efficiency of its weak scaling."""
    if not rows:
        return ()
    program = rows[0].program
    times = {row: (row.shown, three_digits(row.shown.value)) for row in rows}
    against = f"T1 is the time of {baseline_text(program)}."
    seconds = _UNITS[program.shown_in]
    if program.scaling == "weak":
        note = f"Weak scaling: n {program.counts} do n times the work. E = T1/Tn; {against}"
        shares = {row: (e, percent_text(e)) for row in rows if (e := row.weak_efficiency) is not None}
        made = [
            _program_chart(
                "weak-time", ("time", "Weak scaling: time", seconds, program.shown_in), times, note
            ),
            _program_chart(
                "weak-efficiency", ("efficiency", "Weak efficiency", "T1 / Tn", "%"), shares, note
            ),
        ]
    else:
        note = f"Strong scaling: the same work on n {program.counts}. {against}"
        ratios = {row: (s, ratio_text(s)) for row in rows if (s := row.speedup) is not None}
        shares = {row: (e, percent_text(e)) for row in rows if (e := row.efficiency) is not None}
        against_one, per_count = f"times {baseline_text(program)}", f"speedup / {program.counts}"
        made = [
            _program_chart("program-time", ("time", "Time", seconds, program.shown_in), times, note),
            _program_chart("program-speedup", ("speedup", "Speedup", against_one, "×"), ratios, note),
            _program_chart("program-efficiency", ("efficiency", "Efficiency", per_count, "%"), shares, note),
        ]
    return tuple(chart for chart in made if any(len(each.points) > 1 for each in chart.measured))


def _program_chart(
    key: str, titles: tuple[View, str, str, str], values: dict[ProgramRow, tuple[Interval, str]], note: str
) -> ChartSpec:
    view, title, y_label, unit = titles
    names = tuple(dict.fromkeys(row.series for row in values))
    series = [
        Series(
            name=name,
            short=short,
            points=tuple(
                interval_point(row.processes, value, label=text)
                for row, (value, text) in values.items()
                if row.series == name
            ),
        )
        for name, short in zip(names, distinct(names), strict=True)
    ]
    counts = sorted({row.processes for row in values})
    if unit == "×":
        ideal = tuple(Point(x=count, y=float(count)) for count in counts)
        series.append(Series(name="ideal", points=ideal, role="ideal"))
    program = next(iter(values)).program if values else None
    chart = ChartSpec(
        key=key,
        family=key,
        view=view,
        title=f"{title}, {program.name}" if program else title,
        heading=f"{title}, {unit}" if unit != "×" else title,
        message=messages.program_message(list(values)),
        x_label=program.counts if program else "processes",
        y_label=y_label,
        unit=unit,
        series=tuple(series),
        kind="lines",
        switchable=True,
        x_ticks=_count_ticks(counts),
        y_max=_ceiling(series) if unit == "%" else None,
        percent=unit == "%",
        model=program.name if program else "",
        notes=(note,),
        practice=any(row.practice for row in values),
    )
    return doubling_axes(chart)
