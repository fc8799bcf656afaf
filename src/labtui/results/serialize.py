"""Results as JSON: the shapes that other programs rely on, each as one list of fields."""

import math
from operator import attrgetter
from typing import Any

from labtui.domain.model import Diagnosis, EpochSample, Interval
from labtui.domain.tuning import tuning_words
from labtui.results.cost import LabCost, RunUtilization
from labtui.results.measured import AsPrinted, Origin, accuracy_curves
from labtui.results.messages import loss_sentence
from labtui.results.rows import ResultRow, Results
from labtui.results.scaling import gpu_hours_per_million, lost_efficiency, outlooks, pop_metrics
from labtui.training_logs.runs import ParsedRun

Json = dict[str, Any]
_TIMED_BY_BATCHES = ("pytorch",)
"""Sources whose epoch time is the sum of printed means over batches: the printed mean is the surer step time."""

_IDENTITY = "model device n_gpus batch_size runs epochs"
_SOURCES = "practice=configuration.rehearsed small live notes sources=origins"
_ORIGIN = "path=source job_id run=run_id epoch line"
_AS_PRINTED = "epoch_seconds throughput speedup efficiency"
_ROW = f"""{_IDENTITY} epoch_seconds throughput speedup efficiency as_printed batch_factor step_factor
    karp_flatt doubling_gain data_set=configuration.data_set
    unit=configuration.unit sequence_length=configuration.sequence_length total_seconds gpu_memory_gib=gpu_memory
    per_gpu_batch_size=configuration.per_gpu_batch images=configuration.images images_bound=images steps step_seconds
    per_gpu_throughput warmup_seconds acceleration acceleration_as_printed=printed_acceleration epochs_read
    joules_per_image framework=configuration.framework {_SOURCES}"""
_UNSTEADY = f"{_IDENTITY} epochs_read warmup_seconds {_SOURCES}"
_FIT = """model law serial_fraction points note n_gpus baseline_batch_size=baseline.batch_size
    practice=baseline.rehearsed"""
_OUTLOOK = """model=line.model line=line.name measured n_gpus speedup_same_step=same speedup_growing_step=grows
    practice=line.last.configuration.rehearsed"""
_LEFT_OUT = "path=run.source run=run.run_id model=run.run.model n_gpus=run.run.n_gpus reason"
_PROGRAM = """program=model scaling=program.scaling size counts=program.counts baseline=compared_with
    processes runs seconds=epoch_seconds speedup efficiency weak_efficiency practice notes sources=origins"""
_CURVE = """model=run.run.model n_gpus=run.run.n_gpus batch_size=run.run.batch_size run=run.run_id path=run.source
    metric validation"""
_USE = "model=run.run.model n_gpus=run.run.n_gpus run=run.run_id job_id=run.job_id steady standing_by"
_USE_OF_EPOCH = "epoch warmup mean samples per_gpu"
_TOTAL = "jobs gpu_hours_allocated=allocated gpu_hours_used=used core_hours"
_JOB = "job_id task=task_id gpus wall_seconds gpu_hours_allocated=allocated gpu_hours_used=used running"
_RUN = """model device n_gpus batch_size epochs_planned outcome images learning_rate printed_throughput=printed_rate
    batch_seconds total_seconds gpu_memory_gib=gpu_memory batch_per_gpu contradictions interleaved processes practice
    framework first_line last_line"""
_EPOCH = """epoch count seconds=seconds.value lo=seconds.lo hi=seconds.hi printed_seconds steps ms_per_step source
    starts_process line"""
_DIAGNOSIS = "kind line text advice stream"


def _json(thing: object, fields: str) -> Json:
    """Fields of a thing as plain JSON values; ``name=path`` where the field is called otherwise."""
    pairs = (field.partition("=") for field in fields.split())
    return {name: _plain(attrgetter(path or name)(thing)) for name, _, path in pairs}


def _plain(value: Any) -> Any:
    """An interval is ``{"value", "lo", "hi"}``; units are seconds, images per second, ratios, fractions of 1."""
    if isinstance(value, Interval):
        return {"value": value.value, "lo": value.lo, "hi": value.hi}
    if isinstance(value, AsPrinted):
        return _json(value, _AS_PRINTED)
    if isinstance(value, Origin):
        found = _json(value, _ORIGIN)
        return found | {"job_id": found["job_id"] or None}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def results_json(results: Results) -> Json:
    """The whole results as plain JSON values."""
    return {
        "images": results.images,
        "rows": [row_json(row) for row in results.measured],
        "fits": [_json(fit, _FIT) for fit in results.fits],
        "outlooks": [_json(outlook, _OUTLOOK) for outlook in outlooks(results.rows)],
        "without_steady_time": [_json(row, _UNSTEADY) for row in results.rows if not row.is_measured],
        "left_out": [_json(left, _LEFT_OUT) for left in results.left_out],
        "notes": list(results.notes),
        "programs": [program_json(row) for row in results.programs],
    }


def row_json(row: ResultRow) -> Json:
    return _json(row, _ROW) | {
        "gpu_hours_per_million": _plain(gpu_hours_per_million(row)),
        "scatter_seconds": row.scatter.deviation if row.scatter else None,
        "tuning": list(tuning_words(row.configuration.tuning)),
    }


def program_json(row: ResultRow) -> Json:
    return _json(row, _PROGRAM) | {"size": row.size or None}


def accuracy_json(results: Results) -> list[Json]:
    """Every accuracy curve: fractions of 1 by epoch, and the best."""
    return [
        _json(curve, _CURVE)
        | {
            "points": [_json(point, "epoch accuracy line") for point in curve.points],
            "best": _json(curve.best, "epoch accuracy"),
        }
        for row in results.rows
        for run in row.members
        for curve in accuracy_curves(run)
    ]


def utilization_json(use: RunUtilization) -> Json:
    """GPU use of one run, fractions of 1."""
    epochs = [_json(epoch, _USE_OF_EPOCH) for epoch in use.epochs]
    return _json(use, _USE) | {"job_id": use.run.job_id or None, "epochs": epochs}


def cost_json(cost: LabCost) -> Json:
    """GPU-hours allocated and used: the lab, its tasks, its jobs."""
    return {
        "total": _json(cost.total, _TOTAL),
        "tasks": {task: _json(total, _TOTAL) for task, total in cost.tasks.items()},
        "jobs": [_json(job, _JOB) for job in cost.jobs],
    }


def loss_json(row: ResultRow) -> Json:
    """Where a row's efficiency went: parts as fractions of 1, and the POP project's metrics."""
    return _json(row, "model n_gpus practice=configuration.rehearsed small efficiency") | {
        "sentence": loss_sentence(row),
        "parts": [_json(part, "name share evidence") for part in lost_efficiency(row)],
        "slowest_rank": row.step_times.slowest_rank if row.step_times else None,
        "pop": {name: _plain(value) for name, value in pop_metrics(row).items()},
    }


# --------------------------------------------------------------------------- a log by itself


def run_json(run: ParsedRun, row: ResultRow) -> Json:
    """One run; `throughput` in images per second is that of `labtui results`, lines count from 1.

    `printed_throughput` is the rate as the log prints it, `images_bound` what the log says of the images per epoch.
    """
    return _json(run, _RUN) | {
        "epochs": [_epoch_json(sample) for sample in run.epochs],
        "throughput": _plain(row.throughput),
        "steady_seconds": _plain(row.epoch_seconds),
        "images_bound": _plain(row.images),
        "notes": list(notes_of_run(run, row)),
        "program": None if run.program is None else run.program.name,
        "size": run.size or None,
    }


def _epoch_json(sample: EpochSample) -> Json:
    """One epoch, or the mean of a block of `count` epochs that begins with it.

    JSON knows no nan and no inf: such a metric is null, and `not_finite` says which it was.
    `ms_per_step` is as printed (1000 for Keras's "1s/step"); `step_seconds` is the epoch's time over its steps.
    """
    finite = {name: value if math.isfinite(value) else None for name, value in sample.metrics.items()}
    return _json(sample, _EPOCH) | {
        "step_seconds": _plain(step_seconds(sample)),
        "metrics": finite,
        "not_finite": {name: str(sample.metrics[name]) for name, value in finite.items() if value is None},
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
    return _json(found, _DIAGNOSIS)
