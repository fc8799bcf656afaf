"""What to expect: of more GPUs, of a run in progress, and which time limit to ask Slurm for.

More GPUs: the number of steps is exact, so only the step time is forecast. With the same batch per GPU it can stay as
it is, or grow as communication does. Each model below is fitted to the measured steps by least squares; one that
misses a measured step by more than steps repeat is refuted. The rest make the band. Where all are refuted there is no
forecast.

Pure arithmetic on measured times; the present comes in as an argument where it is needed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from labtui.domain.events import RunState, SubmissionState
from labtui.domain.model import Interval, JobPhase, RunPhase, RunSpec
from labtui.results.laws import Family, ScalingPoint, families, same_batch
from labtui.results.measured import student_t95
from labtui.results.rows import Prediction, ResultRow, Results

START_UP_SECONDS = 60.0
"""Allowance for what comes before the first epoch line: modules, the container, reading the data."""
DEFAULT_MARGIN = 0.25
FEWEST_GPUS = 8
"""The smallest number of GPUs that is forecast; from there on the next doubling."""
REPEATS_WITHIN = 0.04
"""How much steps of one size differ from run to run, as a share, where their own scatter does not say more."""
_SHARE = f"{100 * REPEATS_WITHIN:.0f} %"


# --------------------------------------------------------------------------- more GPUs


@dataclass(frozen=True, slots=True)
class StepModel:
    """The step time on n GPUs is a + b x `growth(n)`, with b not below zero, from `first` GPUs on."""

    name: str
    growth: Callable[[int], float]
    first: int = 1


STEP_MODELS = (
    StepModel("constant from two GPUs on", lambda n: 0.0, first=2),
    StepModel("bandwidth of a ring all-reduce", lambda n: (n - 1) / n),
    StepModel("logarithmic", math.log2),
    StepModel("linear", lambda n: n - 1.0),
)


@dataclass(frozen=True, slots=True)
class StepForecast:
    """Seconds of a step, and the models behind it."""

    seconds: Interval
    models: tuple[str, ...]


def forecast_step(points: Sequence[ScalingPoint], n: int) -> StepForecast | None:
    """The step time on `n` GPUs from two or more measured sizes; None where every model is refuted."""
    kept = [
        (model.name, fitted(n)) for model in STEP_MODELS if (fitted := _fitted(model, points)) is not None
    ]
    if not kept:
        return None
    spread = max(_tolerance(point) / point.seconds.value for point in points)
    expected = [seconds for _, seconds in kept]
    fastest = min(point.seconds.lo for point in points)
    low = max(min(expected) * (1 - spread), min(fastest, *expected))
    high = max(expected) * (1 + spread)
    return StepForecast(Interval((low + high) / 2, low, high), tuple(name for name, _ in kept))


def _tolerance(point: ScalingPoint) -> float:
    """Seconds by which a model may miss a measured step."""
    scatter = 0.0
    if point.standard_error is not None and point.count > 1:
        scatter = student_t95(point.count - 1) * point.standard_error
    return max(REPEATS_WITHIN * point.seconds.value, point.seconds.half_width + scatter)


def _fitted(model: StepModel, points: Sequence[ScalingPoint]) -> Callable[[int], float] | None:
    """The model through the points by least squares; None when a point refutes it."""
    used = [point for point in points if point.n >= model.first]
    xs = [model.growth(point.n) for point in used]
    ys = [point.seconds.value for point in used]
    x, y = statistics.fmean(xs), statistics.fmean(ys)
    around = math.fsum((each - x) ** 2 for each in xs)
    both = math.fsum((one - x) * (other - y) for one, other in zip(xs, ys, strict=True))
    slope = max(0.0, both / around) if around else 0.0

    def seconds(n: int) -> float:
        return y + slope * (model.growth(n) - x)

    met = all(abs(seconds(point.n) - point.seconds.value) <= _tolerance(point) for point in used)
    return seconds if met else None


def predict(rows: Sequence[ResultRow]) -> tuple[tuple[Prediction, ...], tuple[str, ...]]:
    """A forecast for every family measured on two sizes or more, and why there is none for the others."""
    predictions, reasons = [], []
    for family in families(rows):
        if not family.rows:
            continue
        n = max(FEWEST_GPUS, 2 * (family.rows[-1].n_gpus or 0))
        found = _predict(family, n)
        if isinstance(found, Prediction):
            predictions.append(found)
        else:
            reasons.append(f"{family.baseline.model}: no forecast for {n} GPUs, because {found}.")
    return tuple(predictions), tuple(reasons)


def _predict(family: Family, n: int) -> Prediction | str:
    """The forecast of a family, or why there is none."""
    first = family.baseline
    alike = [row for row in family.rows if same_batch(row, first)]
    if not alike:
        return "no size has the same batch per GPU as one GPU"
    whole = all(row.steps for row in (first, *alike))
    points = [_step_point(row, in_steps=whole) for row in (first, *alike)]
    step = forecast_step(points, n)
    if step is None:
        return f"no model of the step time fits the measured ones within {_SHARE}"
    steps = _steps_on(first, n) if whole else None
    speedup = points[0].seconds.over(step.seconds).scaled(n)
    if steps is not None and first.steps:
        speedup = points[0].seconds.scaled(first.steps).over(_product(step.seconds, steps))
    return Prediction(
        model=first.model,
        n_gpus=n,
        speedup=speedup,
        efficiency=speedup.scaled(1 / n),
        epoch_seconds=first.epoch_seconds.over(speedup) if first.epoch_seconds else None,
        throughput=_product(first.throughput, speedup) if first.throughput else None,
        step_seconds=step.seconds if whole or first.from_rate else None,
        steps=steps,
        models=step.models,
        batch_ceiling=None if steps is None or not first.steps else first.steps / steps.lo / n,
        note=(
            f"A forecast: measured up to {alike[-1].n_gpus} GPUs. The steps are counted. The step time is "
            f"extrapolated by every model that fits the measurements within {_SHARE} ({', '.join(step.models)}); "
            "the range shows how far they differ. "
            "A second node would add its network, which no model includes."
        ),
        baseline=first.configuration,
    )


def _step_point(row: ResultRow, *, in_steps: bool) -> ScalingPoint:
    """The time of a step, or what stands for it: epoch x GPUs where steps are unknown, batch / rate for a rate."""
    n = row.n_gpus or 1
    work = row.work_seconds
    assert work is not None  # noqa: S101 - families hold measured rows
    factor = 1 / row.steps if in_steps and row.steps else float(n)
    if row.from_rate and row.batch_size:
        factor = float(row.batch_size)
    error = row.scatter.standard_error * factor if row.scatter else None
    return ScalingPoint(n, work.scaled(factor), error, row.scatter.count if row.scatter else 1)


def _steps_on(first: ResultRow, n: int) -> Interval | None:
    """Steps per epoch on n GPUs with the batch per GPU of one; bounds where the images have bounds."""
    if first.from_rate or not first.steps:
        return None
    if first.images is not None and first.batch_size:
        low, likely, high = (
            float(math.ceil(images / (first.batch_size * n)))
            for images in (first.images.lo, first.images.value, first.images.hi)
        )
        return Interval(likely, low, high)
    low, high = float((first.steps - 1) // n + 1), float(math.ceil(first.steps / n))
    return Interval(high, low, high)


def _product(one: Interval, other: Interval) -> Interval:
    """Product of two positive intervals."""
    return Interval(one.value * other.value, one.lo * other.lo, one.hi * other.hi)


# --------------------------------------------------------------------------- how long a run takes


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimit:
    """A time limit to ask for: `minutes` whole, `expected_seconds` what it rests on, and how it was made."""

    minutes: int
    expected_seconds: Interval
    note: str


def training_seconds(epochs: int, steady: Interval, warmup: Interval | None) -> Interval:
    """Time of a training: its first epoch (a steady one where unknown), then epochs - 1 steady ones."""
    if epochs <= 0:
        return Interval.exact(0.0)
    first = warmup or steady
    rest = steady.scaled(epochs - 1)
    return Interval(first.value + rest.value, first.lo + rest.lo, first.hi + rest.hi)


def time_limit(
    epochs: int,
    steady: Interval,
    warmup: Interval | None,
    *,
    margin: float = DEFAULT_MARGIN,
    start_up: float = START_UP_SECONDS,
) -> TimeLimit:
    """The time limit for one training: upper end of its time, a margin, start-up; in whole minutes."""
    return time_limit_for([training_seconds(epochs, steady, warmup)], margin=margin, start_up=start_up)


def time_limit_for(
    trainings: Iterable[Interval], *, margin: float = DEFAULT_MARGIN, start_up: float = START_UP_SECONDS
) -> TimeLimit:
    """The time limit of a job that runs these trainings in turn, each with its own start-up."""
    times = list(trainings)
    total = _sum(times)
    minutes = max(1, math.ceil((total.hi * (1 + margin) + start_up * len(times)) / 60))
    note = f"training {total.value:,.0f} s, {margin:.0%} margin, {start_up * len(times):.0f} s to start"
    return TimeLimit(minutes=minutes, expected_seconds=total, note=note)


def expected_seconds(spec: RunSpec, results: Results, *, practice: bool = False) -> Interval | None:
    """What a planned run should take, from measurements of the same configuration; None without any."""
    row = matching_row(spec, results, practice=practice)
    if row is None or row.epoch_seconds is None:
        return None
    return training_seconds(spec.epochs, row.epoch_seconds, row.warmup_seconds)


def matching_row(spec: RunSpec, results: Results, *, practice: bool = False) -> ResultRow | None:
    """The row with this model, device, GPU count and batch."""
    key = (spec.model, spec.device, spec.n_gpus, spec.batch_size, practice)
    return next(
        (
            row
            for row in results.measured
            if (row.model, row.device, row.n_gpus, row.batch_size, row.practice) == key
        ),
        None,
    )


def remaining_seconds(epochs_planned: int | None, epochs_seen: int, row: ResultRow | None) -> Interval | None:
    """Training time left for a run in progress; None when its plan or its pace is unknown.

    Before the first steady epoch the pace is unknown: the first epoch says nothing about the others.
    """
    if epochs_planned is None or row is None or row.epoch_seconds is None:
        return None
    return row.epoch_seconds.scaled(max(0, epochs_planned - epochs_seen))


def limit_warning(
    submission: SubmissionState, runs: Mapping[int, RunState], row: ResultRow | None, now: float | None
) -> str:
    """A sentence when the job's time limit will, or may, come before the run in progress ends; else empty.

    `row` holds the pace of that run (see `Results`), `now` is the cluster's clock. Runs that follow in the same job are
    not counted: their pace is another one.
    """
    job, run = submission.job, running_run(submission, runs)
    if job is None or job.phase is not JobPhase.RUNNING or not job.time_limit_s:
        return ""
    if run is None or row is None or row.epoch_seconds is None:
        return ""
    rest = remaining_seconds(run.spec.epochs, len(run.epochs), row)
    left = job.time_limit_s - job.ran_s(now)
    if rest is None or rest.hi <= left:
        return ""
    killed_in = min(run.spec.epochs, len(run.epochs) + 1 + int(max(0.0, left) // row.epoch_seconds.value))
    sure = "will end it" if rest.lo > left else "may end it"
    return f"At this pace its time limit {sure} in epoch {killed_in} of {run.spec.epochs}."


def running_run(submission: SubmissionState, runs: Mapping[int, RunState]) -> RunState | None:
    """The run of a job that is being trained now."""
    mine = (runs[number] for number in submission.run_ids if number in runs)
    return next((each for each in mine if each.phase is RunPhase.RUNNING), None)


def _sum(intervals: Iterable[Interval]) -> Interval:
    value = lo = hi = 0.0
    for each in intervals:
        value, lo, hi = value + each.value, lo + each.lo, hi + each.hi
    return Interval(min(max(value, lo), hi), lo, hi)
