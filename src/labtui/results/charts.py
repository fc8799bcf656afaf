"""A chart as pure data (`ChartSpec`), and the charts of a number against the GPU count: the lab's four among them.

plotext draws a `ChartSpec` on the screen, matplotlib in files, PowerPoint in the deck. Only finite numbers enter it,
and its limits contain its data: `Series` and `ChartSpec` refuse others. A number can be drawn in both readings:
"precise" with its intervals, and "as printed" (whole seconds of epoch 2). Real and practice runs never share a chart:
where there are both, the practice charts follow with ``-practice`` behind their key.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from labtui.domain.model import Interval
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
from labtui.results.rows import Configuration, ResultRow, Results

Kind = Literal["bars", "lines"]
SWITCHABLE = ("epoch-time", "throughput", "speedup", "efficiency", "first-epoch")
"""Charts against the GPU count, which can be bars or lines (their keys begin so; lost efficiency stays bars)."""
_PARTS = "efficiency-loss"

MODEL_HUES = {"ResNet50": 0, "ResNet152": 1, "ResNet101": 2}
"""Colour slots of the networks of the lab; slot 3 and a name's hash serve the others."""
CPU_HUE = 4
COUNT_HUES = {1: 5, 2: 6, 4: 7}
"""Colour slots of GPU counts; every other count has `OTHER_COUNT_HUE`."""
OTHER_COUNT_HUE = 8
FREE_HUES = (9, 10, 11, 12)
"""Colour slots of series that are neither a network nor a GPU count: parts of a bar, single GPUs."""
HUES = 13
"""How many colours a palette has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One mark: `x` (GPUs, epoch ...) and `y` with its bounds, in the axis's unit.

    `hollow` marks a warm-up epoch, `live` a run still in progress. `mark` says what the bounds are: ``±`` what the
    printed digits leave open, ``σ`` the scatter between epochs.
    """

    x: float
    y: float
    lo: float | None = None
    hi: float | None = None
    hollow: bool = False
    live: bool = False
    label: str = ""
    mark: str = "±"

    def __post_init__(self) -> None:
        for number in (self.x, self.y, self.lo, self.hi):
            if number is not None and not math.isfinite(number):
                raise ValueError("a chart holds finite numbers only")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Marks of one thing. `role` tells measured data from the ideal line, a fit or a fit's band.

    `hue` is the colour slot of the network or GPU count that the marks belong to; None: that of its place.
    """

    name: str
    points: tuple[Point, ...]
    role: Literal["measured", "ideal", "fit", "band", "reference"] = "measured"
    hue: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSpec:
    """A whole chart. `key` is stable (``speedup``, ``epoch-time`` ...), used for file names and lookups.

    `x_ticks` are the measured positions with their labels. `notes` are sentences shown under the chart.
    `practice` puts the practice mark on it. `percent`: the y values are fractions of 1, shown as percent.
    """

    key: str
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    kind: Kind = "lines"
    x_ticks: tuple[tuple[float, str], ...] = ()
    y_min: float | None = 0.0
    y_max: float | None = None
    percent: bool = False
    notes: tuple[str, ...] = ()
    practice: bool = False

    @property
    def empty(self) -> bool:
        """Whether there is nothing measured to draw."""
        return not any(series.points for series in self.series if series.role == "measured")


def switchable(spec: ChartSpec) -> bool:
    """Whether bars or lines is a matter of taste for this chart."""
    return spec.key.startswith(SWITCHABLE) and not spec.key.startswith(_PARTS)


def with_kind(spec: ChartSpec, kind: Kind | None) -> ChartSpec:
    """The chart as bars or lines, where that is a matter of taste; others stay as they are."""
    return replace(spec, kind=kind) if kind is not None and switchable(spec) else spec


def stacked(spec: ChartSpec) -> bool:
    """Whether the bars are parts of a whole: shares that add up to 1, none of them negative."""
    parts = [each for each in spec.series if each.points and each.role in ("measured", "reference")]
    if not spec.key.startswith(_PARTS) or len(parts) < 2:
        return False
    return all(point.y >= -1e-9 for series in parts for point in series.points)


def model_hue(model: str) -> int:
    """The colour slot of a network, the same in every chart."""
    return MODEL_HUES.get(model, zlib.crc32(model.encode()) % 4)


def count_hue(n_gpus: int | None) -> int:
    """The colour slot of a GPU count (0 is the CPU), the same in every chart."""
    if n_gpus == 0:
        return CPU_HUE
    return COUNT_HUES.get(n_gpus or -1, OTHER_COUNT_HUE)


def series_hues(spec: ChartSpec) -> tuple[int, ...]:
    """The colour slot of each measured series with marks; of two networks with the same one the later takes a free one.

    Runs on the same GPU count share their colour; their marks differ.

    A slot is an index into a palette of `HUES` colours; screen, plots and deck take theirs from here.
    """
    hues: list[int] = []
    taken: list[int] = []
    for series in spec.series:
        if series.role == "measured" and series.points:
            # the first epochs of a network stay in its colour
            hollow = all(point.hollow for point in series.points)
            hues.append(series.hue if hollow and series.hue is not None else _hue(series, taken))
            taken += [] if hollow else hues[-1:]
    return tuple(hues)


def _hue(series: Series, taken: Sequence[int]) -> int:
    if series.hue is not None and (series.hue not in taken or series.hue >= CPU_HUE):
        return series.hue
    rest = [hue for hue in (*FREE_HUES, *range(HUES)) if hue not in taken]
    return rest[0] if rest else len(taken) % HUES


# --------------------------------------------------------------------------- numbers of a row

Reading = Literal["precise", "as-printed"]
GPUS = "GPUs"
_NOT_PLAIN = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number of a row that a chart can show against the GPU count, in both readings."""

    key: str
    title: str
    unit: str
    precise: Callable[[ResultRow], Interval | None]
    printed: Callable[[AsPrinted], float | None]
    text: Callable[[Interval | None], str]
    percent: bool = False


def digits_text(value: Interval | None) -> str:
    """Three significant digits: ``13.6``; a dash for nothing."""
    return ABSENT if value is None else three_digits(value.value)


EPOCH_TIME = Quantity(
    key="epoch-time",
    title="Epoch time",
    unit="seconds per epoch",
    precise=lambda row: row.epoch_seconds,
    printed=lambda plain: plain.epoch_seconds,
    text=digits_text,
)
THROUGHPUT = Quantity(
    key="throughput",
    title="Global throughput",
    unit="images per second",
    precise=lambda row: row.throughput,
    printed=lambda plain: plain.throughput,
    text=rate_text,
)
SPEEDUP = Quantity(
    key="speedup",
    title="Speedup",
    unit="times one GPU",
    precise=lambda row: row.speedup,
    printed=lambda plain: plain.speedup,
    text=ratio_text,
)
EFFICIENCY = Quantity(
    key="efficiency",
    title="Parallel efficiency",
    unit="speedup / GPUs",
    precise=lambda row: row.efficiency,
    printed=lambda plain: plain.efficiency,
    text=percent_text,
    percent=True,
)
TASK_QUANTITIES = (EPOCH_TIME, THROUGHPUT, SPEEDUP, EFFICIENCY)


def task_charts(
    results: Results, *, model: str | None = None, reading: Reading = "precise"
) -> tuple[ChartSpec, ...]:
    """The four charts of a task, for one network (bars) or for all together (lines).

    Charts without a single measured point are left out, so that a screen can show what is there.
    """
    charts = []
    for rows in split_practice(results, model):
        for lines in by_unit(scaling_lines(rows)):
            kind: Literal["bars", "lines"] = "bars" if len(lines) <= 1 else "lines"
            for quantity in TASK_QUANTITIES:
                chart = quantity_chart(quantity, lines, reading=reading)
                if not chart.empty:
                    charts.append(replace(chart, kind=kind))
    return unique_keys(charts)


def by_unit(lines: Sequence[ScalingLine]) -> tuple[tuple[ScalingLine, ...], ...]:
    """The lines of each unit of work: images and tokens never share an axis."""
    units = dict.fromkeys(line.rows[0].configuration.unit for line in lines)
    return tuple(tuple(line for line in lines if line.rows[0].configuration.unit == unit) for unit in units)


def split_practice(results: Results, model: str | None = None) -> tuple[tuple[ResultRow, ...], ...]:
    """The rows of a model (or all), real ones first, then practice; groups without rows are left out."""
    rows = [row for row in results.rows if model is None or row.model == model]
    groups = (tuple(row for row in rows if row.practice is flag) for flag in (False, True))
    return tuple(group for group in groups if group)


def unique_keys(charts: Iterable[ChartSpec]) -> tuple[ChartSpec, ...]:
    """Give a practice chart a key of its own where a real chart already has it, and one of tokens beside images."""
    charts = tuple(charts)
    real = {chart.key for chart in charts if not chart.practice}
    charts = tuple(
        replace(chart, key=f"{chart.key}-practice") if chart.practice and chart.key in real else chart
        for chart in charts
    )
    seen: set[str] = set()
    found = []
    for chart in charts:
        found.append(replace(chart, key=f"{chart.key}-tokens") if chart.key in seen else chart)
        seen.add(chart.key)
    return tuple(found)


def slug(name: str) -> str:
    """A name from a log as a part of a key: small letters, digits and dashes only."""
    return _NOT_PLAIN.sub("-", name.lower()).strip("-")[:60] or "unnamed"


# --------------------------------------------------------------------------- which rows make a line


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingLine:
    """Rows that belong on one line: one model, one baseline, one row per GPU count, in rising order."""

    name: str
    rows: tuple[ResultRow, ...]


def scaling_lines(rows: Sequence[ResultRow]) -> tuple[ScalingLine, ...]:
    """The lines of a scaling chart. CPU runs and runs whose log contradicts itself are not among them.

    A model's rows are gathered by their baseline. Where some of them really vary the GPU count, single
    rows (the sequential run with its small batch) stay off the chart; they belong to the CPU-against-GPU
    comparison. So do single rows that were tuned differently: `comparison_charts.tuning_charts` shows them.
    """
    gathered: dict[tuple[str, str, Configuration | str], list[ResultRow]] = {}
    for row in rows:
        if row.device == "cpu" or row.n_gpus is None or row.contradicted:
            continue
        key = (row.model, row.configuration.framework, row.baseline or "without a baseline")
        gathered.setdefault(key, []).append(row)
    lines = [(model, framework, _one_per_count(found)) for (model, framework, _), found in gathered.items()]
    scaling = {model for model, _, found in lines if len(found) > 1}
    tuned = {model for model, _, found in lines if found[0].apart_by}
    shown = [line for line in lines if len(line[2]) > 1 or line[0] not in scaling | tuned]
    return tuple(
        ScalingLine(name=_line_name(model, framework, found, shown), rows=found)
        for model, framework, found in shown
    )


def _one_per_count(rows: Iterable[ResultRow]) -> tuple[ResultRow, ...]:
    """One row for each GPU count, preferring the baseline's per-GPU batch."""
    chosen: dict[int, ResultRow] = {}
    for row in rows:
        count = row.n_gpus or 0
        same = row.baseline is not None and row.baseline.per_gpu_batch == row.configuration.per_gpu_batch
        if count not in chosen or same:
            chosen[count] = row
    return tuple(chosen[count] for count in sorted(chosen))


def _line_name(
    model: str,
    framework: str,
    rows: tuple[ResultRow, ...],
    shown: Sequence[tuple[str, str, tuple[ResultRow, ...]]],
) -> str:
    """The model, and what tells it apart from another line of the same model."""
    siblings = [line for line in shown if line[0] == model]
    if len(siblings) == 1:
        return model
    marks = []
    if len({line[1] for line in siblings}) > 1:
        marks.append(framework or "Keras")
    if len({line[2][0].configuration.tuning for line in siblings}) > 1:
        marks += rows[0].apart_by
    if (data := rows[0].configuration.data_set) and len(
        {line[2][0].configuration.data_set for line in siblings}
    ) > 1:
        marks.append(data)
    elif (
        rows[0].configuration.whole_batches
        and len({line[2][0].configuration.images for line in siblings}) > 1
    ):
        marks.append(f"{rows[0].configuration.images:,} images an epoch")
    batches = {line[2][0].configuration.per_gpu_batch for line in siblings}
    batch = rows[0].configuration.per_gpu_batch
    if len(batches) > 1 and batch is not None:
        marks.append(f"{batch:,.0f} per GPU")
    return f"{model} ({', '.join(marks)})" if marks else model


# --------------------------------------------------------------------------- charts against the GPU count


def quantity_chart(
    quantity: Quantity, lines: Sequence[ScalingLine], *, reading: Reading = "precise"
) -> ChartSpec:
    """One quantity against the GPU count for some lines; the speedup chart gets its ideal line."""
    series = [
        Series(name=line.name, points=points, hue=model_hue(line.rows[0].model))
        for line in lines
        if (points := tuple(_points(quantity, line.rows, reading)))
    ]
    measured = sorted({point.x for each in series for point in each.points})
    if quantity is SPEEDUP and series:
        ideal = tuple(Point(x=n, y=n) for n in measured)
        series.append(Series(name="ideal", points=ideal, role="ideal"))
    chart = ChartSpec(
        key=quantity.key,
        title=_title(quantity, lines),
        x_label=GPUS,
        y_label=_unit(quantity, lines),
        series=tuple(series),
        x_ticks=tuple((x, f"{x:g}") for x in measured),
        y_max=_ceiling(series, quantity),
        percent=quantity.percent,
        notes=tuple(_notes(quantity, lines, reading)),
        practice=any(row.practice for line in lines for row in line.rows),
    )
    return doubling_axis(chart)


WIDE = 8
"""From so many times the smallest GPU count on, each doubling takes the same room on the axis."""


def doubling_axis(chart: ChartSpec) -> ChartSpec:
    """The chart on a logarithmic axis of GPUs where it spans many: marks at the binary logarithm, ticks in GPUs."""
    places = [point.x for series in chart.series for point in series.points]
    if not places or min(places) <= 0 or max(places) < WIDE * min(places):
        return chart
    series = tuple(
        replace(each, points=tuple(replace(point, x=math.log2(point.x)) for point in each.points))
        for each in chart.series
    )
    ticks = tuple((math.log2(x), text) for x, text in chart.x_ticks)
    return replace(chart, series=series, x_ticks=ticks, x_label=f"{chart.x_label} (logarithmic)")


def _points(quantity: Quantity, rows: Sequence[ResultRow], reading: Reading) -> Iterable[Point]:
    for row in rows:
        if row.n_gpus is None:
            continue
        if reading == "as-printed":
            if (plain := quantity.printed(row.as_printed)) is not None:
                label = quantity.text(Interval.exact(plain)) if quantity is not EPOCH_TIME else f"{plain:g}"
                yield Point(x=row.n_gpus, y=plain, live=row.live, label=label)
        elif (value := quantity.precise(row)) is not None:
            base = baseline_of(row, rows) if quantity in (SPEEDUP, EFFICIENCY) else None
            yield uncertain_point(row.n_gpus, row, value, base, label=quantity.text(value))
        elif quantity is EPOCH_TIME and row.warmup_seconds is not None:
            text = quantity.text(row.warmup_seconds)
            yield interval_point(row.n_gpus, row.warmup_seconds, label=text, live=row.live, hollow=True)


def interval_point(
    x: float, value: Interval, *, label: str = "", live: bool = False, hollow: bool = False
) -> Point:
    """A mark with its error bar."""
    return Point(x=x, y=value.value, lo=value.lo, hi=value.hi, label=label, live=live, hollow=hollow)


def uncertain_point(
    x: float, row: ResultRow, value: Interval, baseline: ResultRow | None = None, *, label: str
) -> Point:
    """A number of a row with the uncertainty that is shown; `baseline` for a ratio to that row."""
    found = uncertainty(row, value, baseline)
    return replace(interval_point(x, widened(value, found), label=label, live=row.live), mark=found.mark)


def _ceiling(series: Sequence[Series], quantity: Quantity) -> float | None:
    """An upper limit only for efficiency, where 100 % must be on the chart."""
    if not quantity.percent:
        return None
    tops = [point.hi if point.hi is not None else point.y for each in series for point in each.points]
    return max([1.0, *tops]) * 1.05


def _bars_sentence(quantity: Quantity, lines: Sequence[ScalingLine]) -> str:
    """What the error bars are, and which marks rest on a single epoch."""
    found = [
        (
            row,
            uncertainty(
                row, value, baseline_of(row, line.rows) if quantity in (SPEEDUP, EFFICIENCY) else None
            ),
        )
        for line in lines
        for row in line.rows
        if (value := quantity.precise(row)) is not None
    ]
    kinds = {each.source for _, each in found if each.half_width}
    words = {"scatter": "the scatter between epochs", "reading": "the rounding of the printed digits"}
    words["one epoch"] = words["reading"]
    named = [words[kind] for kind in ("scatter", "reading", "one epoch") if kind in kinds]
    bars = (
        f"Error bars: {' or '.join(dict.fromkeys(named))}, the larger."
        if len(set(named)) > 1
        else (f"Error bars: {named[0]}." if named else "")
    )
    single = (
        "" if all(each.source != "one epoch" for _, each in found) else "Some marks are based on one epoch."
    )
    return " ".join(filter(None, (bars, single)))


def _unit(quantity: Quantity, lines: Sequence[ScalingLine]) -> str:
    """The quantity's unit, in the lines' unit of work."""
    return quantity.unit.replace("images", lines[0].rows[0].configuration.unit) if lines else quantity.unit


def _title(quantity: Quantity, lines: Sequence[ScalingLine]) -> str:
    models = list(dict.fromkeys(line.rows[0].model for line in lines))
    return f"{quantity.title}, {models[0]}" if len(models) == 1 else quantity.title


def _notes(quantity: Quantity, lines: Sequence[ScalingLine], reading: Reading) -> Iterable[str]:
    rows = [row for line in lines for row in line.rows]
    if reading == "as-printed":
        yield "As printed: whole seconds of epoch 2."
    elif any(row.warmup_seconds and row.epoch_seconds for row in rows):
        yield "The first epoch of each run is warm-up and not counted."
    if quantity is EPOCH_TIME and reading == "precise" and any(row.epoch_seconds is None for row in rows):
        yield "Hollow: only the first epoch is done."
    if reading == "precise" and (bars := _bars_sentence(quantity, lines)):
        yield bars
    if any(row.live for row in rows):
        yield "Runs in progress are drawn as live; their marks will move."
    if quantity in (SPEEDUP, EFFICIENCY):
        fixed = [row for row in rows if row.configuration.whole_batches or row.from_rate]
        if any((row.n_gpus or 0) > 1 for row in fixed):
            unit = rows[0].configuration.unit.capitalize()
            yield (
                f"{unit} per second against one GPU's, with the batch per GPU fixed: each step is weak scaling, "
                "an epoch strong scaling."
            )
        yield from dict.fromkeys(note for row in rows for note in row.notes if "one-GPU baseline" in note)
