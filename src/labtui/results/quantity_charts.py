"""Numbers of a row against the GPU count: epoch time, throughput, speedup, efficiency, in both readings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from labtui.domain.model import Interval
from labtui.results import messages
from labtui.results.charts import (
    ChartSpec,
    Point,
    Series,
    View,
    distinct,
    doubling_axes,
    interval_point,
    model_hue,
)
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
from labtui.results.rows import ResultRow
from labtui.results.scaling import ScalingLine

Reading = Literal["precise", "as-printed"]
GPUS = "GPUs"


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
    unit="%", ratio=True,
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
        if (points := tuple(points_of(quantity, line.rows, reading)))
    ]
    if quantity.ratio:  # a baseline alone compares nothing
        series = [each for each in series if len(each.points) > 1] or series
    models = tuple(dict.fromkeys(line.model for line in lines))
    unit = lines[0].unit if lines else "images"
    return counts_chart(
        quantity.key,
        series,
        view=quantity.view,
        title=f"{quantity.title}, {models[0]}" if len(models) == 1 else quantity.title,
        heading=quantity.heading.replace("Images", unit.capitalize()),
        message=messages.scaling_message(lines, {quantity.key}) if reading == "precise" else "",
        x_label=GPUS,
        y_label=quantity.y_label.replace("images", unit),
        unit=quantity.unit,
        sizes=[row.n_gpus or 0 for line in lines for row in line.rows],
        notes=tuple(_notes(quantity, lines, reading)),
        practice=any(row.practice for line in lines for row in line.rows),
    )


def counts_chart(
    key: str, series: Sequence[Series], *, unit: str, sizes: Iterable[float] = (), **fields: Any
) -> ChartSpec:
    """A chart against a number of GPUs or processes; a speedup gets its ideal line, shares have 100 % on them.

    `sizes` that were tried and have no mark are on the axis, too: no line is drawn across them.
    """
    marked = {point.x for each in series for point in each.points}
    counts = sorted(marked | {n for n in sizes if marked and min(marked) < n < max(marked)})
    percent = unit == "%"
    ideal = Series(name="ideal", role="ideal", points=tuple(Point(x=n, y=float(n)) for n in counts))
    tops = [point.y if point.hi is None else point.hi for each in series for point in each.points]
    chart = ChartSpec(
        key=key,
        series=(*series, ideal) if unit == "×" and series else tuple(series),
        unit=unit,
        switchable=True,
        x_ticks=count_ticks(counts),
        y_max=max([1.0, *tops]) * 1.05 if percent else None,
        percent=percent,
        **fields,
    )
    return doubling_axes(chart)


def count_ticks(counts: Iterable[float]) -> tuple[tuple[float, str], ...]:
    return tuple((n, f"{n:g}") for n in counts)


def points_of(quantity: Quantity, rows: Sequence[ResultRow], reading: Reading) -> Iterable[Point]:
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
