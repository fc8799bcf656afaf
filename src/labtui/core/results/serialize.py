"""The JSON shape other programs rely on (`labtui results --json`); fields are added, never changed.

`rows` holds the configurations that have a steady epoch time. What has none is in `without_steady_time`,
and runs that measure nothing are in `left_out`: absent numbers are never written as zero.
"""

from __future__ import annotations

from typing import Any

from labtui.core.interval import Interval
from labtui.core.results.rows import LawFit, LeftOut, Prediction, ResultRow, Results
from labtui.core.results.trace import Origin

Json = dict[str, Any]


def interval_json(interval: Interval | None) -> Json | None:
    """``{"value", "lo", "hi"}`` or None."""
    if interval is None:
        return None
    return {"value": interval.value, "lo": interval.lo, "hi": interval.hi}


def results_json(results: Results) -> Json:
    """The whole results as plain JSON values: seconds, images per second, ratios, fractions of 1."""
    return {
        "images": results.images,
        "rows": [_row(row) for row in results.measured],
        "fits": [_fit(fit) for fit in results.fits],
        "predictions": [_prediction(prediction) for prediction in results.predictions],
        "without_steady_time": [_unsteady(row) for row in results.rows if row.epoch_seconds is None],
        "left_out": [_left_out(left) for left in results.left_out],
        "notes": list(results.notes),
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


def _row(row: ResultRow) -> Json:
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
        "karp_flatt": interval_json(row.karp_flatt),
        "per_gpu_batch_size": row.configuration.per_gpu_batch,
        "images": row.configuration.images,
        "steps": row.steps,
        "step_seconds": interval_json(row.step_seconds),
        "per_gpu_throughput": interval_json(row.per_gpu_throughput),
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


def _prediction(prediction: Prediction) -> Json:
    return {
        "model": prediction.model,
        "n_gpus": prediction.n_gpus,
        "speedup": interval_json(prediction.speedup),
        "efficiency": interval_json(prediction.efficiency),
        "epoch_seconds": interval_json(prediction.epoch_seconds),
        "throughput": interval_json(prediction.throughput),
        "batch_ceiling": prediction.batch_ceiling,
        "note": prediction.note,
        "practice": prediction.baseline.practice,
    }


def _left_out(left: LeftOut) -> Json:
    return {
        "path": left.run.source,
        "run": left.run.run_id,
        "model": left.run.run.model,
        "n_gpus": left.run.run.n_gpus,
        "reason": left.reason,
    }
