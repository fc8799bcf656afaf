"""Control runs: a training made again with one cause of waiting taken away, as `--control` of the scripts does.

`independent`: all GPUs train at once, each by itself, with the batch and the images that it has in the training: what a
node shares is still shared, no gradients are exchanged. `one-batch`: the first batch again and again, without a loader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from labtui.domain.model import Interval
from labtui.results.grouping import Configuration
from labtui.results.rows import ResultRow

INDEPENDENT, ONE_BATCH = "control: independent", "control: one-batch"


def with_controls(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """The rows with the step times of their control runs on the same GPUs, in seconds."""
    found: dict[tuple[Configuration, str], Interval] = {}
    for row in rows:
        steps = steady_step(row)
        if row.configuration.control and steps is not None:
            plain = replace(row.configuration, tuning=row.configuration.own_tuning)
            found[plain, row.configuration.control] = steps
    return [
        row
        if row.configuration.control
        else replace(
            row,
            independent_step=found.get((row.configuration, INDEPENDENT)),
            one_batch_step=found.get((row.configuration, ONE_BATCH)),
        )
        for row in rows
    ]


def steady_step(row: ResultRow) -> Interval | None:
    """The time of a step between the bounds of its clock, or as much as its epochs scatter where that is more."""
    step = row.step_seconds
    if step is None or row.scatter is None or not row.steps:
        return None
    deviation = row.scatter.deviation / row.steps
    return Interval(step.value, min(step.lo, step.value - deviation), max(step.hi, step.value + deviation))


def data_seconds(row: ResultRow) -> Interval | None:
    """What waiting for data costs a step: as it is, less a step with one batch again and again."""
    step = steady_step(row)
    return None if step is None or row.one_batch_step is None else step.minus(row.one_batch_step)
