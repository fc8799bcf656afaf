"""Further fields of `labtui results --json`: accuracy, GPU use, GPU-hours, targets. Plain JSON values."""

from __future__ import annotations

from typing import Any

from labtui.core.cost import CostTotal, LabCost
from labtui.core.results.accuracy import AccuracyCurve, accuracy_curves
from labtui.core.results.rows import Results
from labtui.core.results.serialize import interval_json
from labtui.core.results.spending import forms_of_sizes, run_spending, runs_of
from labtui.core.results.targets import TargetPlan
from labtui.core.results.utilization import RunUtilization

Json = dict[str, Any]


def accuracy_json(results: Results) -> list[Json]:
    """Every accuracy curve: fractions of 1 by epoch, and the best."""
    return [
        _curve(curve) | {"best": {"epoch": curve.best.epoch, "accuracy": curve.best.accuracy}}
        for row in results.rows
        for run in row.members
        for curve in accuracy_curves(run)
    ]


def _curve(curve: AccuracyCurve) -> Json:
    run = curve.run
    return {
        "model": run.run.model,
        "n_gpus": run.run.n_gpus,
        "batch_size": run.run.batch_size,
        "run": run.run_id,
        "path": run.source,
        "metric": curve.metric,
        "validation": curve.validation,
        "points": [
            {"epoch": point.epoch, "accuracy": point.accuracy, "line": point.origin.line}
            for point in curve.points
        ],
    }


def target_json(plan: TargetPlan) -> Json:
    """Epochs for a target and the time limit in minutes."""
    return {
        "model": plan.row.model,
        "n_gpus": plan.row.n_gpus,
        "metric": plan.curve.metric,
        "target": plan.needed.target,
        "epochs": interval_json(plan.needed.epochs),
        "reached": plan.needed.reached,
        "open_ended": plan.needed.open_ended,
        "time_limit_minutes": plan.limit.minutes if plan.limit else None,
        "generous_time_limit_minutes": plan.generous.minutes if plan.generous else None,
        "note": plan.needed.note,
    }


def utilization_json(use: RunUtilization) -> Json:
    """GPU use of one run, fractions of 1."""
    return {
        "model": use.run.run.model,
        "n_gpus": use.run.run.n_gpus,
        "run": use.run.run_id,
        "job_id": use.run.job_id or None,
        "steady": use.steady,
        "standing_by": use.standing_by,
        "epochs": [
            {
                "epoch": epoch.epoch,
                "warmup": epoch.warmup,
                "mean": epoch.mean,
                "per_gpu": {str(index): share for index, share in epoch.per_gpu.items()},
                "samples": epoch.samples,
            }
            for epoch in use.epochs
        ],
    }


def forms_json(results: Results) -> list[Json]:
    """One job for all sizes against one job per size, in GPU-hours of training time."""
    return [
        {
            "task": each.task_id or None,
            "model": each.model,
            "n_gpus": list(each.n_gpus),
            "practice": each.practice,
            "one_job": interval_json(each.forms.one_job),
            "job_per_size": interval_json(each.forms.job_per_size),
            "wasted_gpu_hours": each.forms.wasted,
            "wasted_share": each.forms.wasted_share,
        }
        for each in forms_of_sizes(runs_of(results))
    ]


def cost_json(cost: LabCost, results: Results) -> Json:
    """GPU-hours allocated and used: the lab, its tasks, its jobs, its runs."""
    return {
        "total": _total(cost.total),
        "tasks": {task: _total(total) for task, total in cost.tasks.items()},
        "jobs": [
            {
                "job_id": job.job_id,
                "task": job.task_id,
                "gpus": job.gpus,
                "wall_seconds": job.wall_seconds,
                "gpu_hours_allocated": job.allocated,
                "gpu_hours_used": job.used,
                "running": job.running,
            }
            for job in cost.jobs
        ],
        "runs": [
            {
                "run": spent.run.run_id,
                "job_id": spent.run.job_id,
                "task": spent.run.task_id,
                "model": spent.run.run.model,
                "n_gpus": spent.run.run.n_gpus,
                "gpu_hours_allocated": interval_json(spent.allocated),
                "gpu_hours_used": interval_json(spent.used),
            }
            for spent in run_spending(runs_of(results), cost.jobs)
        ],
    }


def _total(total: CostTotal) -> Json:
    return {
        "jobs": total.jobs,
        "gpu_hours_allocated": total.allocated,
        "gpu_hours_used": total.used,
        "core_hours": total.core_hours,
    }
