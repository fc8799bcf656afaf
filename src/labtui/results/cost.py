"""What computing time was spent, and how busy it was: GPU-hours of jobs and runs, GPU use in each epoch."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from labtui.domain.model import EpochSample, Interval, JobPhase
from labtui.domain.state import LabState, RunState, SubmissionState
from labtui.results.measured import MeasuredRun
from labtui.results.rows import Results
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


def _run_gpu_hours(gpus: int, run: MeasuredRun) -> Interval:
    total = Interval.exact(0.0)
    for sample in run.run.epochs:
        total = total.plus(sample.seconds)
    return total.scaled(gpus / 3600)


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
