"""Charts against a number of GPUs or processes: one table of quantities, of trainings and of programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
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
from labtui.results.programs import ProgramRow, baseline_text
from labtui.results.rows import ResultRow
from labtui.results.scaling import ScalingLine

Reading = Literal["precise", "as-printed"]
GPUS = "GPUs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number that a chart can show against a count. `printed` gives the textbooks' reading of it."""

    key: str
    view: View
    title: str
    y_label: str
    value: Callable[[Any], Interval | None]
    text: Callable[[Interval | None], str]
    unit: str = ""
    heading: str = ""
    printed: Callable[[AsPrinted], float | None] = lambda plain: None

    @property
    def is_ratio(self) -> bool:
        """Whether it compares with a baseline."""
        return self.unit in ("×", "%")


def digits_text(value: Interval | None) -> str:
    """Three significant digits: ``13.6``; a dash for nothing."""
    return ABSENT if value is None else three_digits(value.value)


EPOCH_TIME = Quantity(
    key="epoch-time", view="time", title="Epoch time", heading="Epoch time, s", y_label="seconds per epoch", unit="s",
    value=lambda row: row.epoch_seconds, printed=lambda plain: plain.epoch_seconds, text=digits_text,
)  # fmt: skip
THROUGHPUT = Quantity(
    key="throughput", view="throughput", title="Throughput", heading="Images per second", y_label="images per second",
    value=lambda row: row.throughput, printed=lambda plain: plain.throughput, text=rate_text,
)  # fmt: skip
SPEEDUP = Quantity(
    key="speedup", view="speedup", title="Speedup", heading="Speedup", y_label="times one GPU", unit="×",
    value=lambda row: row.speedup, printed=lambda plain: plain.speedup, text=ratio_text,
)  # fmt: skip
EFFICIENCY = Quantity(
    key="efficiency", view="efficiency", title="Efficiency", heading="Efficiency, %", y_label="speedup / GPUs",
    unit="%", value=lambda row: row.efficiency, printed=lambda plain: plain.efficiency, text=percent_text,
)  # fmt: skip
QUANTITIES = (EPOCH_TIME, THROUGHPUT, SPEEDUP, EFFICIENCY)


def quantity_chart(
    quantity: Quantity, lines: Sequence[ScalingLine], *, reading: Reading = "precise"
) -> ChartSpec:
    """One quantity against the GPU count for some lines."""
    shorts = distinct([line.name for line in lines])
    series = [
        Series(name=line.name, short=short, points=points, hue=model_hue(line.model))
        for line, short in zip(lines, shorts, strict=True)
        if (points := tuple(points_of(quantity, line.rows, reading)))
    ]
    if quantity.is_ratio:  # a baseline alone compares nothing
        series = [each for each in series if len(each.points) > 1] or series
    models = tuple(dict.fromkeys(line.model for line in lines))
    rows = [row for line in lines for row in line.rows]
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
        sizes=[row.n_gpus or 0 for row in rows],
        notes=tuple(_notes(quantity, rows, series, reading)),
        practice=any(row.practice for row in rows),
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
        elif (value := quantity.value(row)) is not None:
            base = baseline_of(row, rows) if quantity.is_ratio else None
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


_BARS = {"σ": "the scatter between epochs", "±": "the rounding of the printed digits"}


def _notes(
    quantity: Quantity, rows: Sequence[ResultRow], series: Sequence[Series], reading: Reading
) -> Iterable[str]:
    marks = [point for each in series for point in each.points]
    if reading == "as-printed":
        yield "As printed: whole seconds of epoch 2."
    elif any(row.warmup_seconds and row.epoch_seconds for row in rows):
        yield "The first epoch of each run is warm-up and not counted."
    if any(point.hollow for point in marks):
        yield "Hollow: only the first epoch is done."
    drawn = {point.mark for point in marks if point.lo != point.hi}
    if words := [words for mark, words in _BARS.items() if mark in drawn]:
        yield f"Error bars: {' or '.join(words)}{', the larger' * (len(words) > 1)}."
    if any(row.live for row in rows):
        yield "Runs in progress are drawn as live; their marks will move."
    if quantity.is_ratio:
        if any((row.n_gpus or 0) > 1 and (row.configuration.whole_batches or row.from_rate) for row in rows):
            yield (
                f"{rows[0].configuration.unit.capitalize()} per second against one GPU's, with the batch per GPU "
                "fixed: each step is weak scaling, an epoch strong scaling."
            )
        yield from dict.fromkeys(note for row in rows for note in row.notes if "one-GPU baseline" in note)


# --------------------------------------------------------------------------- programs timed without epochs

_TIME = replace(EPOCH_TIME, title="Time", y_label="{unit}", value=lambda row: row.shown)
PROGRAM_QUANTITIES = {
    "strong": (
        replace(_TIME, key="program-time"),
        replace(SPEEDUP, key="program-speedup", y_label="times {one}"),
        replace(EFFICIENCY, key="program-efficiency", y_label="speedup / {counts}"),
    ),
    "weak": (
        replace(_TIME, key="weak-time", title="Weak scaling: time"),
        replace(
            EFFICIENCY, key="weak-efficiency", title="Weak efficiency", y_label="T1 / Tn",
            value=lambda row: row.weak_efficiency,
        ),
    ),
}  # fmt: skip
"""Strong and weak scaling are never in one chart."""
_NOTES = {
    "strong": "Strong scaling: the same work on n {counts}. T1 is the time of {one}.",
    "weak": "Weak scaling: n {counts} do n times the work. E = T1/Tn; T1 is the time of {one}.",
}


def program_charts(rows: Sequence[ProgramRow]) -> tuple[ChartSpec, ...]:
    """The charts of one program with at least two marks on a line."""
    made = (
        [_program_chart(each, rows) for each in PROGRAM_QUANTITIES[rows[0].program.scaling]] if rows else []
    )
    return tuple(chart for chart in made if any(len(each.points) > 1 for each in chart.measured))


def _program_chart(quantity: Quantity, rows: Sequence[ProgramRow]) -> ChartSpec:
    shown = [(row, value) for row in rows if (value := quantity.value(row)) is not None]
    names = tuple(dict.fromkeys(row.series for row, _ in shown))
    program = rows[0].program
    unit = program.shown_in if quantity.unit == "s" else quantity.unit
    words = {
        "unit": {"s": "seconds", "ms": "milliseconds"}[program.shown_in],
        "one": baseline_text(program),
        "counts": program.counts,
    }
    return counts_chart(
        quantity.key,
        [
            Series(
                name=name,
                short=short,
                points=tuple(
                    interval_point(row.processes, value, label=quantity.text(value))
                    for row, value in shown
                    if row.series == name
                ),
            )
            for name, short in zip(names, distinct(names) if names else (), strict=True)
        ],
        view=quantity.view,
        title=f"{quantity.title}, {program.name}",
        heading=quantity.title if unit == "×" else f"{quantity.title}, {unit}",
        message=messages.program_message([row for row, _ in shown]),
        x_label=program.counts,
        y_label=quantity.y_label.format(**words),
        unit=unit,
        model=program.name,
        notes=(_NOTES[program.scaling].format(**words),),
        practice=any(row.practice for row, _ in shown),
    )
