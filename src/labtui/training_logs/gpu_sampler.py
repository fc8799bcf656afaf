"""The GPU sampler's CSV: how busy each GPU was while a run trained, laid beside its epochs.

The job script runs `nvidia-smi` beside the training (see `slurm_templates/`), every two seconds, one line
per GPU. Where several nodes write into one file, a column before the others names the node: the GPUs are then
numbered through all nodes. The clock is UTC, as the templates ask for.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from labtui.domain.model import EpochSample


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """One GPU at one moment, in seconds since 1970; `utilization` as a fraction of 1, None where there is none.

    `index` counts from 0 through all nodes of the job, `name` is how the GPU is called: ``GPU 2``, ``node2 GPU 0``.
    """

    at: float
    index: int
    utilization: float | None = None
    node: str = ""
    label: str = ""

    @property
    def name(self) -> str:
        return self.label or f"GPU {self.index}"


def read_samples(data: bytes) -> tuple[GpuSample, ...]:
    """The samples of a CSV in file order; never raises, and leaves out a line that is none."""
    lines = data.decode("utf-8", "replace").splitlines()
    samples = [found for line in lines if (found := _sample(line.split(","))) is not None]
    nodes = sorted({sample.node for sample in samples if sample.node})
    if len(nodes) < 2:
        return tuple(samples)
    width = 1 + max(sample.index for sample in samples)  # each node as wide as the one with the most GPUs
    return tuple(
        replace(
            one,
            index=(nodes.index(one.node) * width if one.node else 0) + one.index,
            label=f"{one.node} GPU {one.index}",
        )
        for one in samples
    )


def _sample(cells: Sequence[str]) -> GpuSample | None:
    """A line ``2026/11/21 09:40:00.250, 0, 97 %, ...``, perhaps behind a node's name."""
    cells = [cell.strip() for cell in cells]
    at = _moment(cells[0])
    if at is None and len(cells) > 1:
        at, node, cells = _moment(cells[1]), cells[0], cells[1:]
    else:
        node = ""
    if at is None or len(cells) < 3 or not cells[1].isdecimal() or len(cells[1]) > 4:
        return None
    return GpuSample(at=at, index=int(cells[1]), utilization=_fraction(cells[2]), node=node[:80])


def _moment(text: str) -> float | None:
    try:
        return datetime.strptime(text.partition(".")[0], "%Y/%m/%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _fraction(text: str) -> float | None:
    """A printed percentage; None for ``[N/A]`` and the like."""
    try:
        value = float(text.split(" ", maxsplit=1)[0])
    except ValueError:
        return None
    return min(value, 100.0) / 100 if math.isfinite(value) and value >= 0 else None


# --------------------------------------------------------------------------- beside the epochs


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochUtilization:
    """What the GPUs did during one epoch.

    `per_gpu` is the mean utilisation (fraction of 1) of each GPU number, `samples` how many samples lie in the epoch,
    `names` what the GPUs of several nodes are called. `warmup` as for the time: not representative.
    """

    epoch: int
    per_gpu: dict[int, float]
    samples: int
    warmup: bool
    names: dict[int, str] = field(default_factory=dict)

    @property
    def mean(self) -> float | None:
        """Mean over the GPUs; None without samples."""
        return statistics.fmean(self.per_gpu.values()) if self.per_gpu else None


def align(
    samples: Sequence[GpuSample], epochs: Sequence[EpochSample], *, n_gpus: int | None = None
) -> tuple[EpochUtilization, ...]:
    """Mean utilisation of each epoch whose end the log dates (`ended_at`); nothing for logs without a clock.

    `n_gpus` keeps the GPUs the run used: a MirroredStrategy over n takes the first n.
    """
    used = [sample for sample in samples if n_gpus is None or sample.index < n_gpus]
    first = min((sample.epoch for sample in epochs), default=0)
    return tuple(
        _during(used, epoch, epoch.ended_at, warmup=epoch.epoch == first and first <= 1)
        for epoch in epochs
        if epoch.ended_at is not None and samples
    )


def _during(
    samples: Sequence[GpuSample], epoch: EpochSample, end: float, *, warmup: bool
) -> EpochUtilization:
    inside: dict[int, list[float]] = {}
    for sample in samples:
        if end - epoch.seconds.value <= sample.at <= end and sample.utilization is not None:
            inside.setdefault(sample.index, []).append(sample.utilization)
    return EpochUtilization(
        epoch=epoch.epoch,
        per_gpu={index: statistics.fmean(inside[index]) for index in sorted(inside)},
        samples=sum(map(len, inside.values())),
        warmup=warmup,
        names={sample.index: sample.label for sample in samples if sample.label},
    )
