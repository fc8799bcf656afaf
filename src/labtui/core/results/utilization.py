"""What the GPUs did in each epoch of a run, from the sampler's CSV of its job."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from labtui.core.results.measured import MeasuredRun
from labtui.core.sampler import EpochUtilization, GpuSample, align


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUtilization:
    """The GPUs a run used, epoch by epoch; `gpus_seen` are all GPUs of its job."""

    run: MeasuredRun
    epochs: tuple[EpochUtilization, ...]
    gpus_seen: tuple[int, ...]

    @property
    def steady(self) -> float | None:
        """Mean utilisation (fraction of 1) over the epochs after the first; None without samples in them."""
        means = [epoch.mean for epoch in self.epochs if not epoch.warmup and epoch.mean is not None]
        return statistics.fmean(means) if means else None

    @property
    def standing_by(self) -> int:
        """How many GPUs of the job this run did not use."""
        return max(0, len(self.gpus_seen) - (self.run.run.n_gpus or 0))


def run_utilization(run: MeasuredRun, samples: Sequence[GpuSample]) -> RunUtilization | None:
    """Lay a job's samples beside one of its runs; None when the log has no clock or the run used no GPU."""
    if not run.run.n_gpus:
        return None
    epochs = align(samples, run.run.epochs, n_gpus=run.run.n_gpus)
    if not epochs:
        return None
    return RunUtilization(run=run, epochs=epochs, gpus_seen=tuple(sorted({s.index for s in samples})))
