"""What computing time was spent, and how busy it was: GPU-hours of jobs and runs, GPU use in each epoch, sweet spots.

Hours are allocated, used, and what a job for all sizes holds in vain; use is read from the sampler's CSV of a job.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from labtui.domain.events import LabState, RunState, SubmissionState
from labtui.domain.model import EpochSample, Interval, JobPhase
from labtui.results.measured import SHORTEST, MeasuredRun
from labtui.results.rows import Configuration, ResultRow, Results
from labtui.training_logs.gpu_sampler import EpochUtilization, GpuSample, align

_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCost:
    """GPU-hours of one job; a CPU job has zero GPUs and core-hours only. `running`: it still grows."""

    token: str
    task_id: str
    job_id: str
    practice: bool
    gpus: int
    cpus: int
    wall_seconds: float
    allocated: float
    used: float
    running: bool

    @property
    def core_hours(self) -> float:
        """CPU core-hours allocated."""
        return self.cpus * self.wall_seconds / _HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTotal:
    """Sums over jobs: GPU-hours allocated and used, core-hours, and how many jobs."""

    jobs: int
    allocated: float
    used: float
    core_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LabCost:
    """The lab's bill: each job, each task, and the whole. Practice jobs cost nothing and are not in it."""

    jobs: tuple[JobCost, ...]
    tasks: Mapping[str, CostTotal]
    total: CostTotal


def lab_cost(state: LabState, *, practice: bool = False) -> LabCost:
    """GPU-hours of all real jobs; what still runs counts up to the cluster's clock when the queue was last read.

    With `practice` those of the rehearsed jobs instead: nobody pays for them.
    """
    jobs = tuple(
        _job_cost(
            submission,
            [state.runs[run] for run in submission.run_ids if run in state.runs],
            state.cluster_time,
        )
        for submission in state.submissions.values()
        if submission.job is not None and submission.practice is practice
    )
    tasks = {
        task: _total([job for job in jobs if job.task_id == task])
        for task in dict.fromkeys(job.task_id for job in jobs)
    }
    return LabCost(jobs=jobs, tasks=tasks, total=_total(jobs))


def _total(jobs: Sequence[JobCost]) -> CostTotal:
    return CostTotal(
        jobs=len(jobs),
        allocated=sum(job.allocated for job in jobs),
        used=sum(job.used for job in jobs),
        core_hours=sum(job.core_hours for job in jobs),
    )


def _job_cost(submission: SubmissionState, runs: Iterable[RunState], cluster_time: float | None) -> JobCost:
    job = submission.job
    assert job is not None  # noqa: S101 - the caller looked
    wall = job.ran_s(cluster_time)
    return JobCost(
        token=submission.token,
        task_id=submission.task_id,
        job_id=job.job_id,
        practice=submission.practice,
        gpus=submission.gpus * submission.nodes,
        cpus=submission.cpus * submission.nodes,
        wall_seconds=wall,
        allocated=submission.gpus * submission.nodes * wall / _HOUR,
        used=sum(training_gpu_hours(run.spec.n_gpus, run.epochs) for run in runs),
        running=job.phase is JobPhase.RUNNING,
    )


def training_gpu_hours(n_gpus: int, epochs: Iterable[EpochSample]) -> float:
    """GPU-hours that trained: GPUs x time of all epochs, the first one too."""
    return n_gpus * sum(sample.seconds.value for sample in epochs) / _HOUR


# --------------------------------------------------------------------------- what a form wastes


def gpu_hours_of_limit(gpus: int, minutes: int) -> float:
    """The most a job can cost: its GPUs for its whole time limit."""
    return gpus * minutes / 60


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpending:
    """GPU-hours of one run while it trained: `used` on its own GPUs, `allocated` on all GPUs its job held."""

    run: MeasuredRun
    used: Interval
    allocated: Interval


def runs_of(results: Results) -> tuple[MeasuredRun, ...]:
    """All runs behind the rows."""
    return tuple(run for row in results.rows for run in row.members)


def run_spending(runs: Iterable[MeasuredRun], jobs: Sequence[JobCost]) -> tuple[RunSpending, ...]:
    """GPU-hours of the runs of these jobs, in the order of the runs' numbers."""
    held = {job.job_id: job.gpus for job in jobs}
    mine = [run for run in runs if run.job_id in held and run.run.epochs and not run.practice]
    return tuple(
        RunSpending(
            run=run,
            used=_run_gpu_hours(run.run.n_gpus or 0, run),
            allocated=_run_gpu_hours(held[run.job_id], run),
        )
        for run in sorted(mine, key=lambda run: run.run_id or 0)
    )


def _training_seconds(run: MeasuredRun) -> Interval:
    times = [sample.seconds for sample in run.run.epochs]
    value, lo, hi = (sum(getattr(each, name) for each in times) for name in ("value", "lo", "hi"))
    return Interval(min(max(value, lo), hi), lo, hi)


def _run_gpu_hours(gpus: int, run: MeasuredRun) -> Interval:
    return _training_seconds(run).scaled(gpus / 3600)


FLOOR = 0.8
"""The efficiency that a sweet spot keeps, unless another is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweetSpots:
    """The numbers of GPUs of one network that are best for a purpose, and what was compared.

    `whole` says that the times are those of whole trainings as their scripts say them (time to solution: strong
    scaling); else they are those of the same amount of work at the measured rates. `efficient` is the largest number
    with an efficiency of at least `floor`, by rates: with a fixed batch per GPU that is weak scaling. None: not even
    one GPU is known to keep it.
    """

    baseline: Configuration
    n_gpus: tuple[int, ...]
    whole: bool
    least_time: int
    least_gpu_hours: int
    least_cost_time: int
    efficient: int | None
    floor: float
    speedup: float

    @property
    def largest(self) -> int:
        return self.n_gpus[-1]


def sweet_spots(results: Results, floor: float = FLOOR) -> tuple[SweetSpots, ...]:
    """One for each network (data set, tuning, batch per GPU) that was measured on several numbers of GPUs."""
    lines: dict[Configuration, list[ResultRow]] = {}
    for row in results.measured:
        base = row.baseline
        if (
            base is not None
            and base.per_gpu_batch == row.configuration.per_gpu_batch
            and not row.contradicted
        ):
            lines.setdefault(base, []).append(row)
    found = (_sweet_spots(base, rows, floor) for base, rows in lines.items() if len(rows) > 1)
    return tuple(each for each in found if each is not None)


def _sweet_spots(base: Configuration, rows: Sequence[ResultRow], floor: float) -> SweetSpots | None:
    whole = all(row.total_seconds is not None for row in rows)
    times = {
        row.n_gpus: (row.total_seconds if whole else row.work_seconds)
        for row in rows
        if row.n_gpus is not None
    }
    seconds = {n: time.value for n, time in sorted(times.items()) if time is not None and time.lo >= SHORTEST}
    if len(seconds) < 2 or 1 not in seconds:
        return None
    kept = [row.n_gpus for row in rows if row.efficiency is not None and row.efficiency.value >= floor]
    return SweetSpots(
        baseline=base,
        n_gpus=tuple(seconds),
        whole=whole,
        least_time=min(seconds, key=lambda n: seconds[n]),
        least_gpu_hours=min(seconds, key=lambda n: n * seconds[n]),
        least_cost_time=min(seconds, key=lambda n: n * seconds[n] ** 2),
        efficient=max((n for n in kept if n), default=None),
        floor=floor,
        speedup=seconds[1] / seconds[max(seconds)],
    )


def gpu_hours_per_million(row: ResultRow) -> Interval | None:
    """GPU-hours that a million images or tokens cost at the row's rate; None without a GPU or a rate."""
    rate = row.per_gpu_throughput
    return None if rate is None or rate.lo < SHORTEST else Interval.exact(1e6 / _HOUR).over(rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUtilization:
    """The GPUs a run used, epoch by epoch; `gpus_seen` are all GPUs of its job."""

    run: MeasuredRun
    epochs: tuple[EpochUtilization, ...]
    gpus_seen: tuple[int, ...]

    @property
    def steady(self) -> float | None:
        """Mean utilisation (fraction of 1) over the epochs after the first; None without samples in them."""
        means = [epoch.mean for epoch in self.epochs if not epoch.warmup and epoch.mean is not None]
        return statistics.fmean(means) if means else None

    @property
    def standing_by(self) -> int:
        """How many GPUs of the job this run did not use."""
        return max(0, len(self.gpus_seen) - (self.run.run.n_gpus or 0))


def run_utilization(run: MeasuredRun, samples: Sequence[GpuSample]) -> RunUtilization | None:
    """Lay a job's samples beside one of its runs; None when the log has no clock or the run used no GPU."""
    if not run.run.n_gpus:
        return None
    epochs = align(samples, run.run.epochs, n_gpus=run.run.n_gpus)
    if not epochs:
        return None
    return RunUtilization(run=run, epochs=epochs, gpus_seen=tuple(sorted({s.index for s in samples})))
