"""Charts against a number of GPUs or processes: one builder and one table of quantities, of trainings and programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from labtui.domain.model import Interval, Program
from labtui.results import messages
from labtui.results.charts import (
    FAMILIES,
    MODEL_HUES,
    ChartSpec,
    Point,
    Series,
    distinct,
    doubling_axes,
    interval_point,
    make_chart,
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
from labtui.results.programs import baseline_text
from labtui.results.rows import ResultRow
from labtui.results.scaling import ScalingLine

Reading = Literal["precise", "as-printed"]


class Quantity(NamedTuple):
    """A number against a count, in the charts of a family. `printed` gives the textbooks' reading of it."""

    family: str
    value: Callable[[ResultRow], Interval | None]
    text: Callable[[Interval | None], str]
    printed: Callable[[AsPrinted], float | None] = lambda plain: None

    @property
    def is_ratio(self) -> bool:
        """Whether it compares with a baseline."""
        return FAMILIES[self.family].unit in ("×", "%")


def _digits(value: Interval | None) -> str:
    return ABSENT if value is None else three_digits(value.value)


EPOCH_TIME = Quantity("epoch-time", lambda row: row.epoch_seconds, _digits, lambda plain: plain.epoch_seconds)
THROUGHPUT = Quantity("throughput", lambda row: row.throughput, rate_text, lambda plain: plain.throughput)
SPEEDUP = Quantity("speedup", lambda row: row.speedup, ratio_text, lambda plain: plain.speedup)
EFFICIENCY = Quantity("efficiency", lambda row: row.efficiency, percent_text, lambda plain: plain.efficiency)
QUANTITIES = (EPOCH_TIME, THROUGHPUT, SPEEDUP, EFFICIENCY)
PROGRAM_QUANTITIES = {
    "strong": (
        Quantity("program-time", lambda row: row.shown, _digits),
        Quantity("program-speedup", lambda row: row.speedup, ratio_text),
        Quantity("program-efficiency", lambda row: row.efficiency, percent_text),
    ),
    "weak": (
        Quantity("weak-time", lambda row: row.shown, _digits),
        Quantity("weak-efficiency", lambda row: row.weak_efficiency, percent_text),
    ),
}
"""Strong and weak scaling are never in one chart."""


def quantity_chart(
    quantity: Quantity, lines: Sequence[ScalingLine], *, reading: Reading = "precise"
) -> ChartSpec:
    """One quantity against the count for some lines; a speedup gets its ideal, shares have 100 % on them.

    Sizes that were tried and have no mark are on the axis, too: no line is drawn across them.
    """
    shorts = distinct([line.name for line in lines])
    series = [
        Series(name=line.name, short=short, points=points, hue=MODEL_HUES.get(line.model))
        for line, short in zip(lines, shorts, strict=True)
        if (points := tuple(points_of(quantity, line.rows, reading)))
    ]
    if quantity.is_ratio:  # a baseline alone compares nothing
        series = [each for each in series if len(each.points) > 1] or series
    rows = [row for line in lines for row in line.rows]
    models = {row.model for row in rows}
    program = rows[0].program if rows else None
    marks = [point for each in series for point in each.points]
    xs = {point.x for point in marks}
    counts = sorted(xs | {n for row in rows if (n := row.n_gpus or 0) and xs and min(xs) < n < max(xs)})
    fields: dict[str, Any] = {"notes": tuple(_notes(quantity, rows, marks, reading))}
    if program is not None:
        fields = _of_program(program, quantity.family) | {"model": program.name}
    chart = make_chart(
        quantity.family,
        series,
        of=rows[0].model if len(models) == 1 else "",
        counted=lines[0].unit if lines else "images",
        message=messages.scaling_message(lines, {quantity.family}) if reading == "precise" else "",
        switchable=True,
        x_ticks=count_ticks(counts),
        practice=any(row.practice for row in rows),
        **fields,
    )
    if chart.unit == "×" and series:
        ideal = Series(name="ideal", role="ideal", points=tuple(Point(x=n, y=float(n)) for n in counts))
        chart = replace(chart, series=(*series, ideal))
    if chart.percent:
        tops = [point.y if point.hi is None else point.hi for point in marks]
        chart = replace(chart, y_max=max([1.0, *tops]) * 1.05)
    return doubling_axes(chart)


def _of_program(program: Program, family: str) -> dict[str, Any]:
    """What its charts say: what is counted, the unit of its times, what they compare with."""
    form, one = FAMILIES[family], baseline_text(program)
    unit = program.shown_in if form.unit == "s" else form.unit
    y_label = form.y_label.replace("processes", program.counts).replace("one process", one)
    note = (
        f"Weak scaling: n {program.counts} do n times the work. E = T1/Tn; T1 is the time of {one}."
        if program.scaling == "weak"
        else f"Strong scaling: the same work on n {program.counts}. T1 is the time of {one}."
    )
    return {
        "heading": form.title if unit == "×" else f"{form.title}, {unit}",
        "x_label": program.counts,
        "y_label": "milliseconds" if unit == "ms" else y_label,
        "unit": unit,
        "notes": (note,),
    }


def count_ticks(counts: Iterable[float]) -> tuple[tuple[float, str], ...]:
    return tuple((n, f"{n:g}") for n in counts)


def points_of(quantity: Quantity, rows: Sequence[ResultRow], reading: Reading) -> Iterable[Point]:
    for row in rows:
        if row.n_gpus is None:
            continue
        if reading == "as-printed" and row.program is None:
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
    quantity: Quantity, rows: Sequence[ResultRow], marks: Sequence[Point], reading: Reading
) -> Iterable[str]:
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
