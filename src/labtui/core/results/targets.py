"""How long to train for a target accuracy: epochs by extrapolation, and the time limit to ask for.

Answers exercise 12's "modify the time limit and the epochs so that the accuracy exceeds 95 %".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from labtui.core.forecast import TimeLimit, time_limit
from labtui.core.results.accuracy import AccuracyCurve, EpochsForTarget, accuracy_curves, epochs_for_target
from labtui.core.results.rows import ResultRow, Results


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPlan:
    """One accuracy curve, the epochs a target needs, and the time limits to ask for.

    `limit` is for the best guess, `generous` for the band's upper end. They are None without a steady epoch
    time or without an answer; `generous` also when the band is open.
    """

    row: ResultRow
    curve: AccuracyCurve
    needed: EpochsForTarget
    limit: TimeLimit | None
    generous: TimeLimit | None


def target_plans(results: Results, target: float) -> tuple[TargetPlan, ...]:
    """A plan for every accuracy curve of every run; `target` as a fraction of 1."""
    return tuple(
        _plan(row, curve, target)
        for row in results.rows
        for run in row.members
        for curve in accuracy_curves(run)
    )


def _plan(row: ResultRow, curve: AccuracyCurve, target: float) -> TargetPlan:
    needed = epochs_for_target(curve, target)
    limit = generous = None
    if needed.epochs is not None and row.epoch_seconds is not None:
        limit = time_limit(math.ceil(needed.epochs.value), row.epoch_seconds, row.warmup_seconds)
        if not needed.open_ended:
            generous = time_limit(math.ceil(needed.epochs.hi), row.epoch_seconds, row.warmup_seconds)
    return TargetPlan(row=row, curve=curve, needed=needed, limit=limit, generous=generous)
