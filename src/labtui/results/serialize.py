"""Results as JSON: the shapes that other programs rely on."""

from __future__ import annotations

import math
from typing import Any

from labtui.domain.model import Diagnosis, EpochSample, Interval
from labtui.results.accuracy import AccuracyCurve, accuracy_curves
from labtui.results.cost import (
    CostTotal,
    LabCost,
    RunUtilization,
    run_spending,
    runs_of,
)
from labtui.results.measured import Origin
from labtui.results.programs import ProgramRow, baseline_text
from labtui.results.rows import LawFit, LeftOut, ResultRow, Results
from labtui.results.scaling import Outlook, SweetSpots, gpu_hours_per_million, outlooks, sweet_spots
from labtui.training_logs.runs import ParsedRun

Json = dict[str, Any]
_TIMED_BY_BATCHES = ("pytorch",)
"""Sources whose epoch time is the sum of printed means over batches: the printed mean is the surer step time."""


def interval_json(interval: Interval | None) -> Json | None:
    """``{"value", "lo", "hi"}`` or None."""
    if interval is None:
        return None
    return {"value": interval.value, "lo": interval.lo, "hi": interval.hi}


def results_json(results: Results) -> Json:
    """The whole results as plain JSON values: seconds, images per second, ratios, fractions of 1."""
    return {
        "images": results.images,
        "rows": [row_json(row) for row in results.measured],
        "fits": [_fit(fit) for fit in results.fits],
        "outlooks": [_outlook(outlook) for outlook in outlooks(results.rows)],
        "sweet_spots": [_sweet_spot(spot) for spot in sweet_spots(results)],
        "without_steady_time": [_unsteady(row) for row in results.rows if not row.is_measured],
        "left_out": [_left_out(left) for left in results.left_out],
        "notes": list(results.notes),
        "programs": [program_json(row) for row in results.programs],
    }


def _identity(row: ResultRow) -> Json:
    return {
        "model": row.model,
        "device": row.device,
        "n_gpus": row.n_gpus,
        "batch_size": row.batch_size,
        "runs": row.runs,
        "epochs": row.epochs,
    }


def row_json(row: ResultRow) -> Json:
    as_printed = row.as_printed
    return {
        **_identity(row),
        "epoch_seconds": interval_json(row.epoch_seconds),
        "throughput": interval_json(row.throughput),
        "speedup": interval_json(row.speedup),
        "efficiency": interval_json(row.efficiency),
        "as_printed": {
            "epoch_seconds": as_printed.epoch_seconds,
            "throughput": as_printed.throughput,
            "speedup": as_printed.speedup,
            "efficiency": as_printed.efficiency,
        },
        "batch_factor": row.batch_factor,
        "step_factor": interval_json(row.step_factor),
        "step_share_beyond_one_gpu": interval_json(row.step_share_beyond_one_gpu),
        "karp_flatt": interval_json(row.karp_flatt),
        "doubling_gain": interval_json(row.doubling_gain),
        "data_set": row.configuration.data_set,
        "tuning": list(row.configuration.tuning),
        "unit": row.configuration.unit,
        "sequence_length": row.configuration.sequence_length,
        "total_seconds": interval_json(row.total_seconds),
        "gpu_memory_gib": interval_json(row.gpu_memory),
        "per_gpu_batch_size": row.configuration.per_gpu_batch,
        "images": row.configuration.images,
        "images_bound": interval_json(row.images),
        "steps": row.steps,
        "step_seconds": interval_json(row.step_seconds),
        "per_gpu_throughput": interval_json(row.per_gpu_throughput),
        "gpu_hours_per_million": interval_json(gpu_hours_per_million(row)),
        "warmup_seconds": interval_json(row.warmup_seconds),
        "scatter_seconds": row.scatter.deviation if row.scatter else None,
        "acceleration": interval_json(row.acceleration),
        "acceleration_as_printed": row.printed_acceleration,
        "epochs_read": row.epochs_read,
        "framework": row.configuration.framework,
        "practice": row.practice,
        "live": row.live,
        "notes": list(row.notes),
        "sources": [_origin(origin) for origin in row.origins],
    }


def _unsteady(row: ResultRow) -> Json:
    return {
        **_identity(row),
        "epochs_read": row.epochs_read,
        "warmup_seconds": interval_json(row.warmup_seconds),
        "practice": row.practice,
        "live": row.live,
        "notes": list(row.notes),
        "sources": [_origin(origin) for origin in row.origins],
    }


def _origin(origin: Origin) -> Json:
    return {
        "path": origin.source,
        "job_id": origin.job_id or None,
        "run": origin.run_id,
        "epoch": origin.epoch,
        "line": origin.line,
    }


def _sweet_spot(spot: SweetSpots) -> Json:
    return {
        "model": spot.baseline.model,
        "data_set": spot.baseline.data_set,
        "tuning": list(spot.baseline.tuning),
        "n_gpus": list(spot.n_gpus),
        "times": "whole training" if spot.whole else "same work",
        "least_time": spot.least_time,
        "least_gpu_hours": spot.least_gpu_hours,
        "least_gpu_hours_x_time": spot.least_cost_time,
        "most_above_efficiency": spot.efficient,
        "efficiency": spot.floor,
        "time_speedup": spot.speedup,
        "practice": spot.baseline.practice,
    }


def _fit(fit: LawFit) -> Json:
    return {
        "model": fit.model,
        "law": fit.law,
        "serial_fraction": interval_json(fit.serial_fraction),
        "points": fit.points,
        "note": fit.note,
        "n_gpus": list(fit.n_gpus),
        "baseline_batch_size": fit.baseline.batch_size,
        "disagreement": fit.disagreement,
        "practice": fit.practice,
    }


def _outlook(outlook: Outlook) -> Json:
    """Speedups beyond what was measured, if the step stays as it is and if it grows as before."""
    return {
        "model": outlook.line.model,
        "line": outlook.line.name,
        "measured": outlook.measured,
        "n_gpus": outlook.n_gpus,
        "speedup_same_step": outlook.same,
        "speedup_growing_step": outlook.grows,
        "practice": outlook.line.rows[0].practice,
    }


def _left_out(left: LeftOut) -> Json:
    return {
        "path": left.run.source,
        "run": left.run.run_id,
        "model": left.run.run.model,
        "n_gpus": left.run.run.n_gpus,
        "reason": left.reason,
    }


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
                "per_gpu": {
                    epoch.names.get(index, str(index)): share for index, share in epoch.per_gpu.items()
                },
                "samples": epoch.samples,
            }
            for epoch in use.epochs
        ],
    }


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


# --------------------------------------------------------------------------- a log by itself


def run_json(run: ParsedRun, row: ResultRow) -> Json:
    """One run; `throughput` in images per second is that of `labtui results`, lines count from 1.

    `printed_throughput` is the rate as the log prints it, `images_bound` what the log says of the images per epoch.
    """
    return {
        "model": run.model,
        "device": run.device,
        "n_gpus": run.n_gpus,
        "batch_size": run.batch_size,
        "epochs_planned": run.epochs_planned,
        "outcome": run.outcome,
        "epochs": [_epoch_json(sample) for sample in run.epochs],
        "images": run.images,
        "learning_rate": run.learning_rate,
        "throughput": interval_json(row.throughput),
        "printed_throughput": run.printed_rate,
        "steady_seconds": interval_json(row.epoch_seconds),
        "images_bound": interval_json(row.images),
        "batch_seconds": interval_json(run.batch_seconds),
        "total_seconds": interval_json(run.total_seconds),
        "gpu_memory_gib": interval_json(run.gpu_memory),
        "batch_per_gpu": run.batch_per_gpu,
        "contradictions": list(run.contradictions),
        "notes": list(notes_of_run(run, row)),
        "interleaved": run.interleaved,
        "program": None if run.program is None else run.program.name,
        "processes": run.processes,
        "size": run.size or None,
        "practice": run.practice,
        "framework": run.framework,
        "first_line": run.first_line,
        "last_line": run.last_line,
    }


def _epoch_json(sample: EpochSample) -> Json:
    """One epoch, or the mean of a block of `count` epochs that begins with it.

    JSON knows no nan and no inf: such a metric is null, and `not_finite` says which it was.
    `ms_per_step` is as printed (1000 for Keras's "1s/step"); `step_seconds` is the epoch's time over its steps.
    """
    return {
        "epoch": sample.epoch,
        "count": sample.count,
        "seconds": sample.seconds.value,
        "lo": sample.seconds.lo,
        "hi": sample.seconds.hi,
        "printed_seconds": sample.printed_seconds,
        "steps": sample.steps,
        "ms_per_step": sample.ms_per_step,
        "step_seconds": interval_json(step_seconds(sample)),
        "metrics": {name: value if math.isfinite(value) else None for name, value in sample.metrics.items()},
        "not_finite": {
            name: str(value) for name, value in sample.metrics.items() if not math.isfinite(value)
        },
        "source": sample.source,
        "starts_process": sample.starts_process,
        "line": sample.line,
    }


def step_seconds(sample: EpochSample) -> Interval | None:
    """Seconds of a step, between what the printing of the whole epoch leaves open; None where no epoch was timed.

    Never less precise than Keras's own step time: the epoch's interval holds that, too.
    """
    if not sample.steps or sample.source in _TIMED_BY_BATCHES:
        return None
    return sample.seconds.scaled(1 / sample.steps)


def notes_of_run(run: ParsedRun, row: ResultRow) -> tuple[str, ...]:
    """The reader's notes; those of the numbers only where there are numbers."""
    if run.program is not None or (not run.epochs and run.throughput is None):
        return run.notes
    return tuple(
        note for note in row.notes if " of these runs " not in note
    )  # its outcome stands in the title


def diagnosis_json(found: Diagnosis) -> Json:
    return {
        "kind": found.kind,
        "line": found.line,
        "text": found.text,
        "advice": found.advice,
        "stream": found.stream,
    }


def program_json(row: ProgramRow) -> dict[str, Any]:
    """A row as plain JSON values: seconds, a ratio, fractions of 1."""
    return {
        "program": row.program.name,
        "scaling": row.program.scaling,
        "size": row.size or None,
        "counts": row.program.counts,
        "processes": row.processes,
        "runs": row.runs,
        "seconds": interval_json(row.seconds),
        "baseline": baseline_text(row.program),
        "speedup": interval_json(row.speedup),
        "efficiency": interval_json(row.efficiency),
        "weak_efficiency": interval_json(row.weak_efficiency),
        "practice": row.practice,
        "notes": list(row.notes),
        "sources": [
            {"path": each.source, "job_id": each.job_id or None, "run": each.run_id, "line": each.line}
            for each in row.origins
        ],
    }
