"""Computing time spent and left: GPU-hours of jobs and runs, GPU use."""

import statistics
from collections.abc import Mapping, Sequence

import msgspec

from labtui.domain.model import Interval, JobPhase, JobView
from labtui.domain.state import LabState, SubmissionState
from labtui.results.measured import MeasuredRun, grouped
from labtui.results.numbers import ABSENT, Column, fixed, three_digits
from labtui.results.rows import ResultRow
from labtui.training_logs.gpu_sampler import GpuSample, samples_in_epochs

_HOUR = 3600.0


class CostTotal(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over jobs: GPU-hours allocated and used, CPU core-hours, and how many jobs."""

    jobs: int = 1
    allocated: float
    used: float
    core_hours: float


class JobCost(CostTotal, frozen=True, kw_only=True):
    """What one job cost; a CPU job has zero GPUs. `running`: the numbers still grow."""

    task_id: str
    job_id: str
    gpus: int
    wall_seconds: float
    running: bool


class LabCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of each job, of each task and of the lab; `practice`: of the rehearsed jobs, which cost nothing."""

    practice: bool
    jobs: tuple[JobCost, ...]
    tasks: Mapping[str, CostTotal]
    total: CostTotal


def lab_cost(state: LabState) -> LabCost:
    """GPU-hours of all real jobs; a running job counts up to the last reading of the queue, or of its log's epochs.

    A job that asks Slurm for no GPU has none allocated, and may have trained on those that the student told of.
    Where the whole lab is rehearsed, those of the rehearsed jobs.
    """
    practice = state.rehearsed
    sent = [each for each in state.submissions.values() if each.practice is practice]
    jobs = tuple(_job_cost(each, each.job, state) for each in sent if each.job is not None)
    tasks = {name: _total(found) for name, found in grouped(jobs, lambda job: job.task_id).items()}
    return LabCost(practice=practice, jobs=jobs, tasks=tasks, total=_total(jobs))


def _total(jobs: Sequence[JobCost]) -> CostTotal:
    names = CostTotal.__struct_fields__
    return CostTotal(**{name: sum(getattr(job, name) for job in jobs) for name in names})


def _job_cost(submission: SubmissionState, job: JobView, state: LabState) -> JobCost:
    runs = [state.runs[run] for run in submission.run_ids if run in state.runs]
    wall, gpus = job.ran_s(state.cluster_time), submission.gpus * submission.nodes
    trained = sum(run.gpu_hours(run.used.n_gpus) for run in runs)
    if job.end_time is None:  # its log may be newer than the queue's answer
        wall = max(wall, sum(run.trained_s for run in runs))
    allocated = gpus * wall / _HOUR
    return JobCost(
        task_id=submission.task_id,
        job_id=job.job_id,
        gpus=gpus,
        wall_seconds=wall,
        allocated=allocated,
        used=min(allocated, trained) if gpus else trained,
        core_hours=submission.cpus * submission.nodes * wall / _HOUR,
        running=job.phase is JobPhase.RUNNING,
    )


def training_hours_text(hours: Interval | float) -> str:
    """The GPU-hours of a training: ``0.023``, ``0.310``, ``12.5``; absent where none is known."""
    hours = hours.value if isinstance(hours, Interval) else hours
    return ABSENT if not hours else three_digits(hours) if hours >= 0.1 else fixed(hours, 3)


GPU_HOURS = Column("epochs, GPU-h", lambda row: training_hours_text(row.gpu_hours), optional=True)
"""Named apart from `numbers.TOTAL`, which has start-up and validation, too."""


def cost_columns(rows: Sequence[ResultRow]) -> tuple[Column, ...]:
    """The column of GPU-hours; none beside two readings, which leave it no room."""
    return () if any(row.as_printed.epoch_seconds is not None for row in rows) else (GPU_HOURS,)


def hours_text(hours: float) -> str:
    """GPU-hours: ``0.31``, ``2.0``, ``42``."""
    return fixed(hours, 2 if hours < 1 else 1 if hours < 10 else 0)


class RunUtilization(msgspec.Struct, frozen=True, kw_only=True):
    """A run's mean GPU use (fraction of 1) after its first epoch, None with too few samples of its GPUs.

    `standing_by`: the job's other GPUs, where all their samples after its first epoch say that they were idle.
    """

    run: MeasuredRun
    steady: float | None
    standing_by: int


MIN_SAMPLES = 10
"""The fewest samples of each GPU for a mean: the sampler takes one every two seconds."""


def run_utilization(run: MeasuredRun, samples: Sequence[GpuSample]) -> RunUtilization | None:
    """The GPU use of one of a job's runs; None without samples, or where its log does not give its epochs' ends."""
    n_gpus, stands_in = run.run.n_gpus or 0, ("device", "cpu") in run.run.tuning  # a CPU device for each GPU
    if stands_in or not n_gpus or not samples or all(each.ended_at is None for each in run.run.epochs[1:]):
        return None
    inside = samples_in_epochs(samples, run.run.epochs)
    load = [(sample.index, sample.utilization) for sample in inside if sample.utilization is not None]
    busy = [share for index, share in load if index < n_gpus]
    steady = statistics.fmean(busy) if len(busy) >= MIN_SAMPLES * n_gpus else None
    standing_by = {index for index, _ in load if index >= n_gpus} - {index for index, share in load if share}
    return RunUtilization(run=run, steady=steady, standing_by=len(standing_by))
