"""GPU-hours of each run, and what one job for all sizes holds in vain against one job per size.

Training time only: what jobs pay for start-up is in the bill of the jobs (`labtui.core.cost`), not here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from labtui.core.cost import FormComparison, JobCost, compare_forms
from labtui.core.interval import Interval
from labtui.core.results.measured import MeasuredRun
from labtui.core.results.rows import Results


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpending:
    """GPU-hours of one run while it trained: `used` on its own GPUs, `allocated` on all GPUs its job held."""

    run: MeasuredRun
    used: Interval
    allocated: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class FormsOfSizes:
    """The two forms compared for the sizes of one model in one task. `n_gpus` are the sizes, rising."""

    task_id: str
    model: str
    n_gpus: tuple[int, ...]
    practice: bool
    forms: FormComparison


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
            used=_gpu_hours(run.run.n_gpus or 0, run),
            allocated=_gpu_hours(held[run.job_id], run),
        )
        for run in sorted(mine, key=lambda run: run.run_id or 0)
    )


def forms_of_sizes(runs: Iterable[MeasuredRun]) -> tuple[FormsOfSizes, ...]:
    """One comparison for each model of each task that was trained on several numbers of GPUs.

    Of several runs of one size the last counts.
    """
    sizes: dict[tuple[bool, str, str], dict[int, MeasuredRun]] = {}
    for run in sorted(runs, key=lambda run: run.run_id or 0):
        parsed = run.run
        if (
            parsed.model is None
            or parsed.device != "gpu"
            or not parsed.n_gpus
            or not parsed.epochs
            or run.live
        ):
            continue
        practice = run.practice or parsed.practice
        sizes.setdefault((practice, run.task_id, parsed.model), {})[parsed.n_gpus] = run
    return tuple(
        FormsOfSizes(
            task_id=task,
            model=model,
            n_gpus=tuple(sorted(by_size)),
            practice=practice,
            forms=compare_forms([(n, _seconds(by_size[n])) for n in sorted(by_size)]),
        )
        for (practice, task, model), by_size in sizes.items()
        if len(by_size) > 1
    )


def _seconds(run: MeasuredRun) -> Interval:
    times = [sample.seconds for sample in run.run.epochs]
    value, lo, hi = (sum(getattr(each, name) for each in times) for name in ("value", "lo", "hi"))
    return Interval(min(max(value, lo), hi), lo, hi)


def _gpu_hours(gpus: int, run: MeasuredRun) -> Interval:
    return _seconds(run).scaled(gpus / 3600)
