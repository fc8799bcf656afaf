"""Reads the GPU sampler's CSV, and finds the samples within a run's epochs.

The job script runs `nvidia-smi` beside the training (see `slurm_templates/`): one line per GPU every two seconds. The
header names the columns, which depend on the driver. Where several nodes write into one file, a first column names the
node, and the GPUs are numbered through all nodes. Times are in UTC, as the templates set it.
"""

import statistics
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from labtui.domain.model import EpochSample
from labtui.training_logs.runs import plain_number, utc_seconds

SLOWED_BY = {0x4: "power cap", 0x8: "hardware slowdown", 0x20: "heat", 0x40: "heat", 0x80: "power brake"}
"""The bits of `clocks_event_reasons.active` that slow a GPU down; the others are for idling and settings."""


class GpuSample(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU at one moment: `at` in seconds since 1970, `utilization` as a fraction of 1, None where unknown.

    `index` counts from 0 through all nodes of the job; `name` is ``GPU 2`` or ``node2 · GPU 0``. `clock_mhz` is that
    of its multiprocessors, `slowed_by` what slows it down (None where the driver does not report it).
    """

    at: float
    index: int
    utilization: float | None = None
    clock_mhz: float | None = None
    slowed_by: frozenset[str] | None = None
    node: str = ""
    name: str = ""


def read_samples(data: bytes) -> tuple[GpuSample, ...]:
    """The samples of a CSV in file order; skips any other line, and never raises."""
    samples = [found for row in _read_rows(data) if (found := _read_sample(row)) is not None]
    nodes = sorted({sample.node for sample in samples if sample.node})
    if len(nodes) < 2:
        return tuple(samples)
    width = 1 + max(sample.index for sample in samples)  # numbers for each node: as many as the largest needs
    first = {node: place * width for place, node in enumerate(nodes)}
    named = ((one, f"{one.node} · GPU {one.index}") for one in samples)
    return tuple(replace(one, index=first.get(one.node, 0) + one.index, name=name) for one, name in named)


def _read_rows(data: bytes) -> Iterator[Mapping[str, str]]:
    """Each complete line as texts by the header's names (without units), with its `node`, "" where none is named."""
    heads: dict[str, Sequence[str]] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        begins = cells[0] == "timestamp" or _parse_time(cells[0]) is not None
        node = "" if begins else cells.pop(0)[:80]
        if cells[:1] == ["timestamp"]:
            heads[node] = [name.partition(" [")[0] for name in cells]
        elif node in heads and len(cells) >= len(heads[node]):
            yield {"node": node, **dict(zip(heads[node], cells, strict=False))}


def _read_sample(row: Mapping[str, str]) -> GpuSample | None:
    at, index = _parse_time(row["timestamp"]), row.get("index", "")
    if at is None or not index.isdecimal() or len(index) > 4:
        return None
    busy = plain_number(row.get("utilization.gpu", "").partition(" ")[0])  # [N/A]: unknown
    return GpuSample(
        at=at,
        index=int(index),
        name=f"GPU {int(index)}",
        utilization=None if busy is None else min(busy, 100.0) / 100,
        clock_mhz=plain_number(row.get("clocks.current.sm", row.get("clocks.sm", "")).partition(" ")[0]),
        slowed_by=_slowed_by(row),
        node=row["node"],
    )


def _slowed_by(row: Mapping[str, str]) -> frozenset[str] | None:
    """What slows a GPU down; older drivers have another name for the column."""
    try:
        bits = int(row.get("clocks_event_reasons.active") or row["clocks_throttle_reasons.active"], 16)
    except (KeyError, ValueError):
        return None
    return frozenset(name for bit, name in SLOWED_BY.items() if bits & bit)


def _parse_time(text: str) -> float | None:
    return utc_seconds(text.partition(".")[0], "%Y/%m/%d %H:%M:%S")


# --------------------------------------------------------------------------- beside the epochs


def samples_in_epochs(samples: Iterable[GpuSample], epochs: Sequence[EpochSample]) -> list[GpuSample]:
    """The samples within a run's epochs after the first.

    Epochs whose log gives no time of their end (`ended_at`) have none.
    """
    times = sorted((one.ended_at, one.seconds.value) for one in epochs[1:] if one.ended_at is not None)
    begins, ends = [end - seconds for end, seconds in times], [end for end, _ in times]
    placed = ((one, bisect_left(ends, one.at)) for one in samples)
    return [one for one, place in placed if place < len(ends) and begins[place] <= one.at]


def clocks(
    samples: Sequence[GpuSample], epochs: Sequence[EpochSample], *, n_gpus: int | None
) -> tuple[float | None, dict[str, float]]:
    """The mean clock (MHz) of a run's GPUs after its first epoch, and the share of samples that each cause slowed.

    A MirroredStrategy over n uses the first n.
    """
    used = (one for one in samples if n_gpus is None or one.index < n_gpus)
    inside = samples_in_epochs(used, epochs)
    known = [one.clock_mhz for one in inside if one.clock_mhz is not None]
    told = [one.slowed_by for one in inside if one.slowed_by is not None]
    shares = {name: sum(name in each for each in told) / len(told) for name in SLOWED_BY.values() if told}
    mean = statistics.fmean(known) if known else None
    return mean, {name: share for name, share in shares.items() if share}
