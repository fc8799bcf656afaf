"""The result types: one row per configuration, laws, predictions, and everything that was left out.

Plain frozen values; `compute` makes them, charts, tables and screens read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from labtui.core.interval import Interval
from labtui.core.results.measured import MeasuredRun
from labtui.core.results.printed import AsPrinted
from labtui.core.results.steady import Scatter
from labtui.core.results.trace import Origin

Law = Literal["amdahl", "gustafson"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What makes two runs repetitions of each other: only runs equal in all of this are pooled.

    `device` is ``cpu``, ``gpu`` or ``unknown``; `n_gpus` 0 on a CPU, None when the log does not tell.
    `batch_size` is the global batch. `images` per epoch. `steps` tells runs without a known batch apart.
    `apart` is not "" for a run of unknown configuration: it is pooled and compared with nothing, save that the runs
    of one log that names no model share it when they can be taken for one model.
    """

    practice: bool
    model: str
    framework: str
    device: str
    n_gpus: int | None
    batch_size: int | None
    images: int
    steps: int | None = None
    apart: str = ""

    @property
    def per_gpu_batch(self) -> float | None:
        """The global batch divided over the devices that share a step."""
        if self.batch_size is None or self.n_gpus is None:
            return None
        return self.batch_size / max(1, self.n_gpus)

    @property
    def label(self) -> str:
        """For sentences: ``ResNet50 on 2 GPUs``."""
        if self.device == "cpu":
            return f"{self.model} on the CPU"
        if self.n_gpus is None:
            return f"{self.model} on an unknown device"
        return f"{self.model} on {self.n_gpus} GPU{'s' if self.n_gpus != 1 else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """The numbers of one configuration. None means: not measured, or without meaning here - never zero.

    `epoch_seconds` is the steady epoch time in seconds, `warmup_seconds` the first epoch's. `throughput`
    in images per second. `speedup`, `step_factor`, `karp_flatt`, `acceleration` are ratios, `efficiency`
    and `batch_factor` fractions of 1; efficiency = batch_factor x step_factor exactly. `epochs` counts the
    steady epochs behind the time, `epochs_read` all. `steps` per epoch; `step_seconds` of one step.
    `baseline` is the one-GPU configuration compared with. `acceleration` is the CPU's epoch time over this
    one's, with the same batch where there is one. `from_rate` is true when the log gave a rate and the
    epoch time is derived from it.
    """

    configuration: Configuration
    members: tuple[MeasuredRun, ...]
    runs: int
    epochs: int
    epochs_read: int
    live: bool
    steps: int | None
    epoch_seconds: Interval | None
    throughput: Interval | None
    warmup_seconds: Interval | None = None
    scatter: Scatter | None = None
    step_seconds: Interval | None = None
    speedup: Interval | None = None
    efficiency: Interval | None = None
    batch_factor: float | None = None
    step_factor: Interval | None = None
    karp_flatt: Interval | None = None
    acceleration: Interval | None = None
    as_printed: AsPrinted = field(default_factory=AsPrinted)
    printed_acceleration: float | None = None
    baseline: Configuration | None = None
    from_rate: bool = False
    notes: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()

    @property
    def model(self) -> str:
        """The lab's short name, or ``unknown``."""
        return self.configuration.model

    @property
    def device(self) -> str:
        """``cpu``, ``gpu`` or ``unknown``."""
        return self.configuration.device

    @property
    def n_gpus(self) -> int | None:
        """0 on a CPU, None when unknown."""
        return self.configuration.n_gpus

    @property
    def batch_size(self) -> int | None:
        """The global batch."""
        return self.configuration.batch_size

    @property
    def practice(self) -> bool:
        """Whether these are rehearsal runs."""
        return self.configuration.practice

    @property
    def per_gpu_throughput(self) -> Interval | None:
        """Images per second and GPU; None on a CPU."""
        if self.throughput is None or not self.n_gpus:
            return None
        return self.throughput.scaled(1 / self.n_gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class LawFit:
    """One law fitted to the rows that share a baseline.

    `serial_fraction` is the law's own fraction (Amdahl's s, Gustafson's s'); below zero means superlinear.
    `points` counts distinct GPU counts, the baseline among them; `n_gpus` names them.
    `scatter_known` says whether the interval also covers how epochs scatter (95 %), or only what printing
    hides. `disagreement` is the largest distance between measured and fitted speedup. `remarks` say what the
    points cannot show and where the law does not hold.
    """

    model: str
    law: Law
    serial_fraction: Interval
    points: int
    n_gpus: tuple[int, ...]
    remarks: tuple[str, ...]
    baseline: Configuration
    scatter_known: bool
    disagreement: float

    @property
    def note(self) -> str | None:
        """The remarks as one text; None without any."""
        return " ".join(self.remarks) or None

    @property
    def practice(self) -> bool:
        """Whether it rests on rehearsal runs."""
        return self.baseline.practice


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the laws let expect at `n_gpus`, as a band from Amdahl's low end to Gustafson's high end.

    `batch_ceiling` is the efficiency that the short last batch alone allows there, when the batch is known.
    """

    model: str
    n_gpus: int
    speedup: Interval
    efficiency: Interval
    epoch_seconds: Interval | None
    throughput: Interval | None
    batch_ceiling: float | None
    note: str
    baseline: Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A run that is in no row, and why."""

    run: MeasuredRun
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """All numbers of a lab folder or of some logs. `images` per epoch unless a log says otherwise."""

    images: int
    rows: tuple[ResultRow, ...] = ()
    fits: tuple[LawFit, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def measured(self) -> tuple[ResultRow, ...]:
        """The rows that have a steady epoch time."""
        return tuple(row for row in self.rows if row.epoch_seconds is not None)

    def row_of(self, configuration: Configuration | None) -> ResultRow | None:
        """The row of a configuration."""
        return next((row for row in self.rows if row.configuration == configuration), None)


def of_rows(results: Results, rows: Sequence[ResultRow]) -> Results:
    """The results with these rows alone, and the laws and predictions that rest on them."""
    there = {row.configuration for row in rows}
    return replace(
        results,
        rows=tuple(rows),
        fits=tuple(fit for fit in results.fits if fit.baseline in there),
        predictions=tuple(each for each in results.predictions if each.baseline in there),
    )
