"""How long a run will take, when it will be over, and which time limit to ask Slurm for.

Pure arithmetic on measured times; the present comes in as an argument where it is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from labtui.core.interval import Interval
from labtui.core.model import JobPhase, RunPhase, RunSpec
from labtui.core.results.rows import ResultRow, Results
from labtui.core.state import RunState, SubmissionState

START_UP_SECONDS = 60.0
"""Allowance for what comes before the first epoch line: modules, the container, reading the data."""
DEFAULT_MARGIN = 0.25


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
    wanted = (spec.model, spec.device, spec.n_gpus, spec.batch_size, practice)
    return next(
        (
            row
            for row in results.measured
            if (row.model, row.device, row.n_gpus, row.batch_size, row.practice) == wanted
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
    submission: SubmissionState, runs: Mapping[int, RunState], row: ResultRow | None, now: float
) -> str:
    """A sentence when the job's time limit will, or may, come before the run in progress ends; else empty.

    `row` holds the pace of that run (see `Results`), `now` is in UNIX seconds. Runs that follow in the same job are
    not counted: their pace is another one.
    """
    job, run = submission.job, running_run(submission, runs)
    if job is None or job.phase is not JobPhase.RUNNING or not job.time_limit_s:
        return ""
    if run is None or row is None or row.epoch_seconds is None:
        return ""
    rest = remaining_seconds(run.spec.epochs, len(run.epochs), row)
    left = job.time_limit_s - (job.elapsed_s or 0.0) - max(0.0, now - job.seen_at)
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
