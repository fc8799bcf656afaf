"""The GPU sampler's CSV: what each GPU was doing while a run trained, laid beside its epochs.

The job script runs `nvidia-smi` beside the training (see `slurm_templates/`), every two seconds, one line
per GPU. Columns are found by the header line when there is one, in the templates' order otherwise; units
may be printed or not. Where several nodes write into one file, a column before the others names the node: the
GPUs are then numbered through all nodes. The clock is UTC, as the templates ask for.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from labtui.domain.model import EpochSample

COLUMNS = (
    "timestamp",
    "index",
    "utilization.gpu",
    "utilization.memory",
    "memory.used",
    "memory.total",
    "power.draw",
)
_TIME_FORMATS = ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """One GPU at one moment.

    `index` counts from 0 through all nodes of the job, `node` names the node ("" where the file does not), and
    `label` is how the GPU is called: ``GPU 2``, ``node2 GPU 0``.
    `at` in seconds since 1970.
    Utilisations are fractions of 1, memory in MiB, power in watts; None where the driver gives none.
    """

    at: float
    index: int
    utilization: float | None = None
    memory_utilization: float | None = None
    memory_mib: float | None = None
    power_watts: float | None = None
    node: str = ""
    label: str = ""

    @property
    def name(self) -> str:
        return self.label or f"GPU {self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerReading:
    """The samples of a CSV in file order; `skipped` counts other lines (header, cut ones, messages)."""

    samples: tuple[GpuSample, ...]
    skipped: int

    @property
    def gpus(self) -> tuple[int, ...]:
        """The GPU numbers seen, rising."""
        return tuple(sorted({sample.index for sample in self.samples}))


def read_samples(data: bytes) -> SamplerReading:
    """Read a sampler CSV; never raises. Lines that are no sample are counted, a cut last line among them."""
    header: Sequence[str] | None = None
    samples, skipped = [], 0
    for cells in _rows(data.decode("utf-8", "replace").splitlines()):
        if "timestamp" in cells[:2]:
            header = [cell.split(" ")[0] for cell in cells]
            header[: header.index("timestamp")] = ["node"] * header.index("timestamp")
        columns = header or (COLUMNS if len(cells) <= len(COLUMNS) else ("node", *COLUMNS))
        if (sample := _sample(dict(zip(columns, cells, strict=False)))) is not None:
            samples.append(sample)
        else:
            skipped += 1
    return SamplerReading(samples=_numbered(samples), skipped=skipped)


def _numbered(samples: list[GpuSample]) -> tuple[GpuSample, ...]:
    """The GPUs of all nodes numbered through: nodes by name, each as wide as the one with the most GPUs."""
    nodes = sorted({sample.node for sample in samples if sample.node})
    if len(nodes) < 2:
        return tuple(samples)
    width = 1 + max(sample.index for sample in samples)
    places = {node: place * width for place, node in enumerate(nodes)}
    return tuple(
        replace(
            sample,
            index=places.get(sample.node, 0) + sample.index,
            label=f"{sample.node} GPU {sample.index}",
        )
        for sample in samples
    )


def _rows(lines: Iterable[str]) -> Iterable[list[str]]:
    """The cells of each line that has any; a line that is no CSV becomes one cell."""
    for line in lines:
        text = line.replace("\0", "")
        if not text.strip():
            continue
        try:
            cells = next(csv.reader([text], skipinitialspace=True), [])
        except csv.Error:
            cells = [text]
        yield [cell.strip() for cell in cells] or [text]


def _sample(cells: dict[str, str]) -> GpuSample | None:
    at = _moment(cells.get("timestamp", ""))
    index = cells.get("index", "")
    if at is None or not index.isdecimal() or len(index) > 4:
        return None
    return GpuSample(
        at=at,
        index=int(index),
        node=cells.get("node", "")[:80],
        utilization=_fraction(cells.get("utilization.gpu")),
        memory_utilization=_fraction(cells.get("utilization.memory")),
        memory_mib=_number(cells.get("memory.used")),
        power_watts=_number(cells.get("power.draw")),
    )


def _moment(text: str) -> float | None:
    for form in _TIME_FORMATS:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    return None


def _number(text: str | None) -> float | None:
    """The number before a unit; None for ``[N/A]`` and the like."""
    try:
        value = float((text or "").split(" ")[0])
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _fraction(text: str | None) -> float | None:
    number = _number(text)
    return min(number, 100.0) / 100 if number is not None else None


# --------------------------------------------------------------------------- beside the epochs


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochUtilization:
    """What the GPUs did during one epoch.

    `start` and `end` in seconds since the first sample; `per_gpu` mean utilisation (fraction of 1) of each
    GPU number, `samples` how many samples lie in the epoch, `names` what the GPUs of several nodes are called.
    `warmup` as for the time: not representative.
    """

    epoch: int
    start: float
    end: float
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
    dated = [(sample, sample.ended_at) for sample in epochs if sample.ended_at is not None]
    if not samples or not dated:
        return ()
    origin = samples[0].at
    first = min(sample.epoch for sample in epochs)
    used = [sample for sample in samples if n_gpus is None or sample.index < n_gpus]
    return tuple(
        _during(used, sample, moment, origin, warmup=sample.epoch == first and first <= 1)
        for sample, moment in dated
    )


def _during(
    samples: Sequence[GpuSample], epoch: EpochSample, end: float, origin: float, *, warmup: bool
) -> EpochUtilization:
    start = end - epoch.seconds.value
    inside = [
        (sample.index, sample.utilization)
        for sample in samples
        if start <= sample.at <= end and sample.utilization is not None
    ]
    per_gpu = {
        index: statistics.fmean(share for gpu, share in inside if gpu == index)
        for index in sorted({gpu for gpu, _ in inside})
    }
    return EpochUtilization(
        epoch=epoch.epoch,
        start=start - origin,
        end=end - origin,
        per_gpu=per_gpu,
        samples=len(inside),
        warmup=warmup,
        names={sample.index: sample.label for sample in samples if sample.label},
    )
