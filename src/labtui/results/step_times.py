"""Where the time of a step goes, as `remote/pytorch/step_times.py` prints it among an epoch's metrics.

On the rank that is last to finish its backward pass a step is data + computing + imbalance + all-reduce; the others
wait for that rank. `imbalance` is how much longer the last rank computes than the fastest one does on average.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import NamedTuple

from labtui.domain.model import EpochSample, Interval

PREFIX = "step_"
"""How the metrics' names begin that hold seconds of a step; no chart and no table of metrics shows these."""
LAST_RANK, LAST_RANK_SHARE = "last_rank", "last_rank_share"
MIN_EPOCHS = 2
"""Steady epochs that give a part its bounds: those of one say nothing of how much it differs."""


class StepTimes(NamedTuple):
    """Seconds of a step and of its parts: the median of the steady epochs, between the least and the most of them.

    `slowest_rank` is the rank that the others waited for in at least two thirds of the timed steps, if one was.
    """

    seconds: Interval
    data_seconds: Interval
    compute_seconds: Interval
    imbalance_seconds: Interval
    allreduce_seconds: Interval
    slowest_rank: int | None = None


def is_step_time(metric: str) -> bool:
    """Whether a metric of an epoch is one of these."""
    return metric.startswith((PREFIX, LAST_RANK))


def step_times_of(samples: Iterable[EpochSample]) -> StepTimes | None:
    """The step times of some steady epochs; None where too few of them have any."""
    told = [sample.metrics for sample in samples if f"{PREFIX}seconds" in sample.metrics]
    names = (PREFIX + field for field in StepTimes._fields if field != "slowest_rank")
    columns = [[metrics.get(name, math.nan) for metrics in told] for name in names]
    if len(told) < MIN_EPOCHS or not all(math.isfinite(value) for column in columns for value in column):
        return None
    means = [Interval(statistics.median(column), min(column), max(column)) for column in columns]
    if means[0].lo <= 0:
        return None
    ranks = {metrics.get(LAST_RANK) for metrics in told if metrics.get(LAST_RANK_SHARE, 0.0) >= 2 / 3}
    every = all(metrics.get(LAST_RANK_SHARE, 0.0) >= 2 / 3 for metrics in told)
    slowest = ranks.pop() if every and len(ranks) == 1 else None
    seconds, data, compute, imbalance, allreduce = means
    rank = None if slowest is None else int(slowest)
    return StepTimes(seconds, data, compute, imbalance, allreduce, rank)
