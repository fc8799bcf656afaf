"""Remarks on results that would surprise: the band, its source, and a question worth asking.

A remark never fails a check. A result counts as outside only when its whole interval lies outside the band.
"""

from __future__ import annotations

from collections.abc import Iterator

from labtui.core.interval import Interval
from labtui.core.lab.edition import Band, Edition, Task
from labtui.core.lab.evidence import Evidence
from labtui.core.results import ResultRow

_UNITS = {
    "epoch-seconds": ("{} s an epoch", "{} s"),
    "first-epoch-seconds": ("{} s for the first epoch", "{} s"),
    "throughput": ("{} images/s", "{} images/s"),
    "speedup": ("a speedup of {}", "{}"),
    "efficiency": ("an efficiency of {}", "{}"),
    "acceleration": ("{} times as fast as the CPU", "{}"),
}


def notes_for(edition: Edition, task: Task, evidence: Evidence) -> Iterator[str]:
    """Remarks on the measured configurations a task is about."""
    for row in evidence.results.measured:
        if not _concerns(edition, task, row):
            continue
        if row.configuration.images != edition.images:
            yield (
                f"{row.configuration.label} was trained on {row.configuration.images:,} images an epoch, "
                f"not on {edition.images:,}; its times cannot be compared with published ones."
            )
            continue
        for band in edition.bands:
            if note := remark(band, row):
                yield note


def _concerns(edition: Edition, task: Task, row: ResultRow) -> bool:
    named = [other for check in task.checks for other in check.tasks]
    sources = [task, *(found for name in named if (found := edition.task(name)) is not None)]
    return any(
        (plan.model, plan.gpus) == (row.model, row.n_gpus)
        and (
            plan.batch_size == row.batch_size or any(getattr(c, "batch", "") == "any" for c in source.checks)
        )
        for source in sources
        for plan in source.runs
    )


def remark(band: Band, row: ResultRow) -> str:
    """What to say about a row by one band; "" when it is about something else or the row fits."""
    if (band.model, band.gpus) != (row.model, row.n_gpus):
        return ""
    if band.batch_size is not None and band.batch_size != row.batch_size:
        return ""
    measured = _quantity(band, row)
    if measured is None or (measured.hi >= band.low and measured.lo <= band.high):
        return ""
    yours, usual = _UNITS[band.quantity]
    sentence = (
        f"{row.configuration.label}: {yours.format(_short(measured.value))}, where {_short(band.low)} to "
        f"{usual.format(_short(band.high))} is usual ({band.source})."
    )
    return f"{sentence} {' '.join(band.advice.split())}".strip()


def _quantity(band: Band, row: ResultRow) -> Interval | None:
    return {
        "epoch-seconds": row.epoch_seconds,
        "first-epoch-seconds": row.warmup_seconds,
        "throughput": row.throughput,
        "speedup": row.speedup,
        "efficiency": row.efficiency,
        "acceleration": row.acceleration,
    }[band.quantity]


def _short(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
