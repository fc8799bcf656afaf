"""Further charts of the rows: throughput per GPU, CPU against GPU, first epoch, lost efficiency."""

from __future__ import annotations

from collections.abc import Sequence

from labtui.core.charts import ChartSpec, Point, Series
from labtui.core.interval import Interval
from labtui.core.results.charts import (
    GPUS,
    Quantity,
    Reading,
    ScalingLine,
    interval_point,
    quantity_chart,
    scaling_lines,
    slug,
    split_practice,
    task_charts,
    unique_keys,
)
from labtui.core.results.law_charts import law_charts
from labtui.core.results.numbers import percent_text, plain_seconds_text, rate_text
from labtui.core.results.rows import ResultRow, Results

PER_GPU_THROUGHPUT = Quantity(
    key="throughput-per-gpu",
    title="Throughput per GPU",
    unit="images per second and GPU",
    precise=lambda row: row.per_gpu_throughput,
    printed=lambda plain: None,
    text=rate_text,
)


def lab_charts(
    results: Results, *, model: str | None = None, reading: Reading = "precise"
) -> tuple[ChartSpec, ...]:
    """Every chart of the rows that has something to show: the task's four first, then the analysis."""
    charts: list[ChartSpec] = []
    for rows in split_practice(results, model):
        lines = scaling_lines(rows)
        charts += [per_gpu_chart(lines), first_epoch_chart(lines)]
        charts += [cpu_gpu_chart(rows, name, reading=reading) for name in _models(rows)]
        charts += [loss_chart(line) for line in lines]
    shown = [*task_charts(results, model=model, reading=reading), *(c for c in charts if not c.empty)]
    return unique_keys([*shown, *law_charts(results, model=model)])


def _models(rows: Sequence[ResultRow]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.model for row in rows))


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
        series=(Series(name=model, points=tuple(points)),),
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
    return interval_point(x, row.epoch_seconds, label=plain_seconds_text(row.epoch_seconds), live=row.live)


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
        series.append(_times(f"{prefix}first epoch", firsts, hollow=True))
        series.append(_times(f"{prefix}steady epoch", steady, hollow=False))
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


def _times(name: str, times: Sequence[tuple[ResultRow, Interval]], *, hollow: bool) -> Series:
    return Series(
        name=name,
        points=tuple(
            interval_point(
                row.n_gpus or 0, time, label=plain_seconds_text(time), live=row.live, hollow=hollow
            )
            for row, time in times
        ),
    )


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
    parts = (("efficiency", kept), ("lost to the short last batch", batch), ("lost to slower steps", steps))
    return ChartSpec(
        key=f"efficiency-loss-{slug(line.name)}",
        title=f"Where the efficiency goes, {line.name}",
        x_label=GPUS,
        y_label="share of ideal",
        series=tuple(Series(name=name, points=_shares(values)) for name, values in parts if values),
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
