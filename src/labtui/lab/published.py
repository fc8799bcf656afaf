"""The numbers that documents publish, and the ranges around them in which a result surprises nobody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from labtui.domain.model import Outcome
from labtui.lab.fields import Count, Fraction, Gpus, Positive, Quantity, Range, Size, Table
from labtui.lab.planned_runs import RunPlan

TOLERANCE = (0.6, 1.6)
"""Of a published number, where an edition says none."""


class Band(Table, frozen=True, kw_only=True):
    """A range in which a result would surprise nobody: `low <= value <= high` in the quantity's unit.

    `first-epoch-seconds` is the warm-up epoch. `advice` is a question worth asking when a result lies outside;
    `data_set` and `tuning` (words as labtui says them) narrow it to one. A band of `program-seconds` says `processes`
    and `size` instead of GPUs and batch, `model` being the program. A band never decides whether a box ticks.
    """

    quantity: Quantity
    model: str
    low: float
    high: float
    source: str
    gpus: int = 1
    batch_size: int | None = None
    data_set: str | None = None
    tuning: tuple[str, ...] | None = None
    processes: int | None = None
    size: str | None = None
    advice: str = ""

    @property
    def about(self) -> tuple[object, ...]:
        """What it is a band of: there is one band of each."""
        narrowed = (self.batch_size, self.data_set, self.tuning, self.processes, self.size)
        return (self.quantity, self.model, self.gpus, *narrowed)


class PublishedRow(Table, frozen=True, kw_only=True):
    """What a document says of one configuration: its numbers, where they stand, and what to ask of others.

    `gpus`, `batch_size` (the global one), `data_set` and `tuning`, or a program's `processes` and `size`, say which;
    `task`, where two tasks have different numbers for the same. `epoch_seconds`, `seconds` (a program's run) and
    `throughput` (of all GPUs together) times `tolerance` are bands, and `first_epoch_seconds` times `first_tolerance`
    where that is given. `speedup`, `efficiency` and `acceleration` are ranges as they stand. `accuracy` is the last
    epoch's, `gpu_memory` in GiB. A run whose `outcome` is another than ``completed``
    ended in its last epoch, or before any where it has no times.
    """

    model: str = ""
    gpus: Gpus | None = None
    batch_size: Count | None = None
    data_set: str | None = None
    tuning: tuple[str, ...] | None = None
    task: str = ""
    processes: Count | None = None
    size: Size | None = None
    epoch_seconds: Positive | None = None
    first_epoch_seconds: Positive | None = None
    seconds: Positive | None = None
    throughput: Positive | None = None
    speedup: Range | None = None
    efficiency: Range | None = None
    acceleration: Range | None = None
    accuracy: Fraction | None = None
    gpu_memory: Positive | None = None
    outcome: Outcome = "completed"
    tolerance: Range | None = None
    first_tolerance: Range | None = None
    source: str = ""
    advice: str = ""

    def __post_init__(self) -> None:
        for name in ("speedup", "efficiency", "acceleration", "tolerance", "first_tolerance"):
            found = getattr(self, name)
            if found is not None and found[0] > found[1]:
                raise ValueError(f"`{name}` goes from low to high.")
        if self.efficiency is not None and self.efficiency[1] > 2:
            raise ValueError("`efficiency` is a fraction of 1, not a percentage.")
        if self.gpus and self.batch_size is not None and self.batch_size % self.gpus:
            raise ValueError(
                f"`batch_size` {self.batch_size:,} cannot be split evenly across {self.gpus} GPUs."
            )

    def is_about(self, run: RunPlan) -> bool:
        """Whether it has the numbers of a planned run, whatever its task."""
        if run.form == "mpi":
            return (self.model, self.processes, self.size) == (run.model, run.processes, run.size)
        return (
            self.processes is None
            and (self.model, self.gpus) == (run.model, run.gpus)
            and self.batch_size in (None, run.batch_size)
            and self.data_set in (None, run.data_set)
            and self.tuning in (None, run.tuning)
        )

    def bands(self) -> Iterator[Band]:
        """The ranges around its numbers."""
        usual = self.tolerance or TOLERANCE
        ranges: dict[Quantity, Range | None] = {
            "epoch-seconds": _around(self.epoch_seconds, usual),
            "first-epoch-seconds": _around(self.first_epoch_seconds, self.first_tolerance),
            "throughput": _around(self.throughput, usual),
            "program-seconds": _around(self.seconds, usual),
            "speedup": self.speedup,
            "efficiency": self.efficiency,
            "acceleration": self.acceleration,
        }
        for quantity, found in ranges.items():
            if found is not None:
                yield Band(
                    quantity=quantity,
                    model=self.model,
                    low=found[0],
                    high=found[1],
                    source=self.source,
                    gpus=1 if self.gpus is None else self.gpus,
                    batch_size=self.batch_size,
                    data_set=self.data_set,
                    tuning=self.tuning,
                    processes=self.processes,
                    size=self.size,
                    advice="" if quantity == "first-epoch-seconds" else self.advice,
                )


def _around(value: float | None, tolerance: Range | None) -> Range | None:
    """A range around a value, to two digits."""
    if value is None or tolerance is None:
        return None
    low, high = (float(f"{value * factor:.2g}") for factor in tolerance)
    return low, high


class Published(PublishedRow, frozen=True, kw_only=True):
    """A table of a document. Its own fields are those of all `rows`, unless a row says otherwise."""

    rows: Annotated[tuple[PublishedRow, ...], Meta(min_length=1)]

    def whole_rows(self) -> tuple[PublishedRow, ...]:
        """Its rows, each with all of its fields; `gpus` is 1 where neither says a number, 0 for a program."""
        plain = PublishedRow()
        shared = {name: getattr(self, name) for name in plain.__struct_fields__}
        found = []
        for row in self.rows:
            own = {name: value for name in shared if (value := getattr(row, name)) != getattr(plain, name)}
            fields = shared | own
            if fields["gpus"] is None and fields["processes"] is None:
                fields["gpus"] = 1
            found.append(PublishedRow(**fields))
        return tuple(found)


def bands_of(rows: Iterable[PublishedRow]) -> tuple[Band, ...]:
    """One band of each configuration: where documents disagree, from the lowest to the highest."""
    found: dict[tuple[object, ...], Band] = {}
    for band in (band for row in rows for band in row.bands()):
        other = found.get(band.about, band)
        found[band.about] = msgspec.structs.replace(
            other,
            low=min(other.low, band.low),
            high=max(other.high, band.high),
            source="; ".join(dict.fromkeys((other.source, band.source))),
            advice=other.advice or band.advice,
        )
    return tuple(found.values())
