"""The result types: one row per configuration, laws, and everything that was left out, as plain frozen values.

`compute` makes them; charts, tables and screens read them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from labtui.domain.model import EpochSample, Interval, Program
from labtui.domain.run import Mark
from labtui.domain.tuning import distinguishing_words
from labtui.results.grouping import CIFAR10_IMAGES, Configuration, LeftOut, devices
from labtui.results.measured import AsPrinted, MeasuredRun, Origin, grouped, longest, representative

# Two-sided 95 % quantiles of Student's t for 1..30 degrees of freedom.
_T95 = (
    12.706204736, 4.302652730, 3.182446305, 2.776445105, 2.570581836, 2.446911851, 2.364624252, 2.306004135,
    2.262157163, 2.228138852, 2.200985160, 2.178812830, 2.160368656, 2.144786688, 2.131449546, 2.119905299,
    2.109815578, 2.100922040, 2.093024054, 2.085963447, 2.079613845, 2.073873068, 2.068657610, 2.063898562,
    2.059538553, 2.055529439, 2.051830516, 2.048407142, 2.045229642, 2.042272456,
)  # fmt: skip


def student_t95(degrees: float) -> float:
    """Two-sided 95 % quantile of Student's t; `degrees` are rounded down, which can only widen an interval."""
    return _T95[min(max(1, math.floor(degrees)), len(_T95)) - 1]


class Scatter(msgspec.Struct, frozen=True):
    """How much epochs differ: sample standard deviation in seconds over `count` epochs (at least two)."""

    deviation: float
    count: int

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, in seconds."""
        return self.deviation / math.sqrt(self.count)

    @property
    def margin(self) -> float:
        """Seconds on either side of the mean, at 95 %: wide for few epochs."""
        return student_t95(self.count - 1) * self.standard_error


# --------------------------------------------------------------------------- where the time of a step goes

STEP = "step_"
"""Prefix of the metrics that hold seconds of a step, as `remote/pytorch/step_times.py` prints them."""
LAST_RANK, LAST_RANK_SHARE = "last_rank", "last_rank_share"
MIN_EPOCHS = 2
"""The fewest steady epochs for bounds: one epoch does not show how much a part varies."""


class StepTimes(NamedTuple):
    """Seconds of a step and of its parts: means of the steady epochs with 95 % bounds.

    On the rank that finishes its backward pass last, a step is data + compute + imbalance + all-reduce; the other ranks
    wait for it. The imbalance is how much longer the last rank computes than the fastest one, on average.
    `slowest_rank` is the rank that the others waited for in at least two thirds of the timed steps, if any.
    """

    seconds: Interval
    data_seconds: Interval
    compute_seconds: Interval
    imbalance_seconds: Interval
    allreduce_seconds: Interval
    slowest_rank: int | None = None


def is_step_time(metric: str) -> bool:
    """Whether a metric of an epoch belongs to the step times."""
    return metric.startswith((STEP, LAST_RANK))


def _mean_time(seconds: Sequence[float]) -> Interval:
    mean, margin = statistics.fmean(seconds), Scatter(statistics.stdev(seconds), len(seconds)).margin
    return Interval(mean, min(mean, max(0.0, mean - margin)), mean + margin)


def step_times_of(samples: Iterable[EpochSample]) -> StepTimes | None:
    """The step times of some steady epochs; None where too few of them have step times."""
    told = [sample.metrics for sample in samples if f"{STEP}seconds" in sample.metrics]
    names = (STEP + field for field in StepTimes._fields if field != "slowest_rank")
    columns = [[metrics.get(name, math.nan) for metrics in told] for name in names]
    if len(told) < MIN_EPOCHS or not all(math.isfinite(value) for column in columns for value in column):
        return None
    ranks = {m.get(LAST_RANK) if m.get(LAST_RANK_SHARE, 0.0) >= 2 / 3 else None for m in told}
    slowest = ranks.pop() if len(ranks) == 1 else None
    times = StepTimes._make((*map(_mean_time, columns), None if slowest is None else int(slowest)))
    return times if times.seconds.value > 0 else None


# --------------------------------------------------------------------------- rows

Law = Literal["amdahl", "gustafson"]
NoteKind = Literal["", "no throughput", "no speedup", "baseline", "end", "live", "pooled"]
"""What a note on a row is about, where anything asks for it."""
ENOUGH_SIZES = 5
"""A law fitted to fewer sizes is a summary, not a forecast."""


class ResultRow(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one configuration. None means not measured or not meaningful, never zero.

    `epoch_seconds` is the steady epoch time in seconds, `warmup_seconds` that of the first epoch. `throughput` is the
    configuration's unit (images, tokens) per second. `speedup`, `step_factor`, `karp_flatt`, `acceleration` are ratios,
    `efficiency` and `batch_factor` fractions of 1; efficiency = batch_factor x step_factor exactly. `epochs` counts the
    steady epochs behind the time, `epochs_read` all. `steps` are per epoch; `step_seconds` is one step's time.
    `baseline` is the one-GPU row it is compared with, without that row's own ratios. `acceleration` is the epoch
    time of `cpu`, the row of the same work and batch on the CPU, over this row's.
    `doubling_gain` is how much faster it is than on half as many GPUs (0.9: 90 % more). `images` are per epoch, with
    the bounds that the log leaves. `from_rate`: the log prints no epochs; where the images are known, its rate gives T.
    `total_seconds` of a whole training and `gpu_memory` (GiB on rank 0) are as the script prints them; `step_times` are
    the parts of a step's time in the log, `controls` the steps of its control runs by their kind.
    `drawn` are those of its `members` that charts over epochs draw: of a task its own.
    `called` are the names of its own job files' jobs, "" where its model names it (see `called_rows`); `apart_by` is
    the part of the tuning that tells it from other rows of this name, `hue` the index of its colour.
    A program without epochs has its time in `epoch_seconds`; with weak scaling no `speedup`: its `efficiency` is T1/Tn.
    """

    configuration: Configuration
    members: tuple[MeasuredRun, ...]
    drawn: tuple[MeasuredRun, ...] = ()
    runs: int
    epochs: int
    epoch_seconds: Interval | None
    epochs_read: int = 0
    live: bool = False
    steps: int | None = None
    throughput: Interval | None = None
    images: Interval | None = None
    warmup_seconds: Interval | None = None
    scatter: Scatter | None = None
    step_seconds: Interval | None = None
    speedup: Interval | None = None
    efficiency: Interval | None = None
    batch_factor: float | None = None
    step_factor: Interval | None = None
    karp_flatt: Interval | None = None
    acceleration: Interval | None = None
    as_printed: AsPrinted = AsPrinted()
    printed_acceleration: float | None = None
    doubling_gain: Interval | None = None
    baseline: ResultRow | None = None
    cpu: ResultRow | None = None
    step_times: StepTimes | None = None
    controls: Mapping[str, Interval] = {}
    from_rate: bool = False
    total_seconds: Interval | None = None
    gpu_memory: Interval | None = None
    joules_per_image: Interval | None = None
    apart_by: tuple[str, ...] = ()
    called: str = ""
    hue: int = 0
    remarks: tuple[tuple[str, NoteKind], ...] = ()
    origins: tuple[Origin, ...] = ()

    def with_notes(self, *notes: str, about: NoteKind = "") -> ResultRow:
        """The row with these notes added, all of one kind."""
        return replace(self, remarks=(*self.remarks, *((note, about) for note in notes)))

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences of its notes."""
        return tuple(note for note, _ in self.remarks)

    def notes_about(self, *kinds: NoteKind) -> list[str]:
        """The sentences of its notes of these kinds."""
        return [note for note, about in self.remarks if about in kinds]

    @property
    def model(self) -> str:
        """The lab's short name of the model, or ``unknown``."""
        return self.configuration.model

    @property
    def title(self) -> str:
        """What tables and charts call it: the jobs of own job files, else the model."""
        return self.called or self.model

    @property
    def name(self) -> str:
        """The title, with its data set and its tuning where there are several: ``vit (tiny-224, bf16)``."""
        data = "" if self.is_weak else self.configuration.data_set
        marks = ", ".join(filter(None, (data, *self.apart_by)))
        return f"{self.title} ({marks})" if marks else self.title

    @property
    def label(self) -> str:
        """For sentences: ``ResNet50 on 2 GPUs``, ``pi on 4 processes``, the name alone if the device is unknown."""
        known = self.program is not None or self.n_gpus is not None
        return f"{self.name} on {self.devices}" if known else self.name

    @property
    def n_gpus(self) -> int | None:
        """0 on a CPU, None when unknown."""
        return self.configuration.n_gpus

    @property
    def batch_size(self) -> int | None:
        return self.configuration.batch_size

    @property
    def mark(self) -> Mark:
        return self.configuration.mark

    @property
    def pooled(self) -> tuple[MeasuredRun, ...]:
        """The runs whose mean its numbers are: not one that is in progress beside one that ended."""
        read = {(each.source, each.run_id) for each in self.origins}
        return tuple(run for run in self.members if (run.source, run.run_id) in read) or self.members

    @property
    def printed_run(self) -> MeasuredRun | None:
        """The run that it is "as printed": of its repeats the newest."""
        return representative(run for run in self.pooled if run.printed(rate=self.from_rate) is not None)

    @property
    def printed(self) -> float | None:
        """The seconds of epoch 2, or the rate, as the log of that run prints it."""
        return None if self.printed_run is None else self.printed_run.printed(rate=self.from_rate)

    @property
    def first_run(self) -> int:
        """The number of the oldest run whose mean it is, drawn or not; 0 for runs of files."""
        return min((each.run_id or 0 for each in self.origins), default=0)

    @property
    def has_policy(self) -> bool:
        """Whether it has a learning-rate policy; then its result is what it learned, not how fast it was."""
        return "lr_policy" in dict(self.configuration.tuning)

    @property
    def program(self) -> Program | None:
        """The program that was timed without epochs; None for a training."""
        return self.members[0].run.program

    @property
    def is_weak(self) -> bool:
        return self.program is not None and self.program.scaling == "weak"

    @property
    def size(self) -> str:
        """The problem size of a program, "" when unknown."""
        return self.configuration.data_set

    @property
    def processes(self) -> int:
        return self.n_gpus or 1

    @property
    def compared_with(self) -> str:
        """What the times of its program are compared with: ``the sequential program``, ``1 process``, ``1 GPU``."""
        if self.program is None:
            return ""
        return "the sequential program" if self.program.sequential else self.program.count_label(1)

    @property
    def devices(self) -> str:
        """The devices or processes in words: ``4 processes``, ``2 GPUs``, ``the CPU``."""
        return devices(self.n_gpus) if self.program is None else self.program.count_label(self.processes)

    @property
    def shown(self) -> Interval | None:
        """The time in the program's own unit."""
        in_ms = self.program is not None and self.program.shown_in == "ms"
        return self.epoch_seconds and self.epoch_seconds.scaled(1e3 if in_ms else 1.0)

    @property
    def is_measured(self) -> bool:
        """Whether there is a steady time or a rate."""
        return self.epoch_seconds is not None or (self.from_rate and self.throughput is not None)

    @property
    def is_baseline(self) -> bool:
        """Whether the row is its own baseline."""
        return self.baseline is not None and self.baseline.configuration == self.configuration

    @property
    def by_rate(self) -> bool:
        """Whether its speedup is one of rates, not of epoch times."""
        return self.baseline is not None and compare_rates(self, self.baseline)

    @property
    def contradicted(self) -> bool:
        """Whether a log of this row contradicts itself; such a row is not compared."""
        return any(run.run.contradictions for run in self.members)

    def batch_factor_on(self, n: int, steps: int | None = None) -> float | None:
        """What a short last batch leaves of 1 on n GPUs, in `steps` an epoch, else in those its baseline's images need.

        1 where rates are compared: such runs leave out a short batch, or their logs do not say. None without steps.
        """
        theirs = self.baseline.steps if self.baseline else None
        if self.by_rate or not theirs:
            return 1.0 if self.by_rate else None
        return theirs / (steps or -(-theirs // n)) / n

    @property
    def gpu_hours(self) -> float:
        """The GPU-hours of the epochs of one training, the mean of several; 0 where none is known."""
        return statistics.fmean(run.run.gpu_hours(self.n_gpus or 0) for run in longest(self.members))

    @property
    def whole_gpu_hours(self) -> Interval | None:
        """`gpu_hours` of trainings that ended, which charts compare; None for others and on a CPU."""
        return Interval.exact(self.gpu_hours) if self.total_seconds and self.n_gpus else None

    @property
    def per_gpu_throughput(self) -> Interval | None:
        """Images per second per GPU; None on a CPU."""
        return self.throughput.scaled(1 / self.n_gpus) if self.throughput and self.n_gpus else None


def compare_rates(row: ResultRow, baseline: ResultRow) -> bool:
    """Whether rates are compared: logs give no epochs, or epochs have whole batches only and so differ in images."""
    mine, theirs = row.configuration, baseline.configuration
    return (row.from_rate and baseline.from_rate) or (mine.whole_batches and theirs.whole_batches)


def law_speedup(law: Law, fraction: float, n: float) -> float | None:
    """The speedup that a law gives on n GPUs; None where a negative fraction makes Amdahl's time zero or negative."""
    if law == "gustafson":
        return n - fraction * (n - 1)
    remaining = fraction + (1 - fraction) / n
    return 1 / remaining if remaining > 0 else None


class LawFit(msgspec.Struct, frozen=True, kw_only=True):
    """One law fitted to the rows that share a baseline.

    `serial_fraction` is the law's own fraction (Amdahl's s, Gustafson's s'); below zero means superlinear.
    `n_gpus` are the numbers of GPUs that it was fitted to, the baseline's among them.
    `remarks` say what the points cannot show and where the law does not hold. `batch_words` are "" where not all rows
    are known to have the baseline's batch per GPU. `misfit` is the largest deviation of the law from a measured
    speedup, as a fraction of it.
    """

    law: Law
    serial_fraction: Interval
    n_gpus: tuple[int, ...]
    remarks: tuple[str, ...]
    baseline: Configuration
    batch_words: str
    misfit: float

    @property
    def is_serial(self) -> bool:
        """Whether a serial part was measured: its fraction is not below zero."""
        return self.serial_fraction.value >= 0


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """All numbers of a lab folder or of some logs.

    `images` per epoch are those of the command line or the edition, else the lab's; each row has its own. `programs`
    are timed without epochs and are in none of the other fields.
    """

    images: int = CIFAR10_IMAGES
    rows: tuple[ResultRow, ...] = ()
    fits: tuple[LawFit, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    programs: tuple[ResultRow, ...] = ()

    @property
    def measured(self) -> tuple[ResultRow, ...]:
        """The rows that have a steady epoch time or a rate."""
        return tuple(row for row in self.rows if row.is_measured)

    @property
    def counted(self) -> dict[int | None, str]:
        """The runs that have ended and count, each with its epochs: ``{3: "3:10"}``."""
        runs = (run for row in (*self.measured, *self.programs) for run in row.pooled if not run.live)
        return {run.run_id: f"{run.run_id}:{run.run.epochs_read}" for run in runs}

    @property
    def mark(self) -> Mark:
        """Practice if any row is; small runs are in no chart."""
        return "practice" if any(row.mark == "practice" for row in (*self.rows, *self.programs)) else ""


def rename_models(results: Results, names: Mapping[str, str]) -> Results:
    """The results with the models renamed as in `names`."""

    def named(one: Configuration) -> Configuration:
        return replace(one, model=names.get(one.model, one.model))

    def named_row(row: ResultRow) -> ResultRow:
        baseline = row.baseline and named_row(row.baseline)
        return replace(row, configuration=named(row.configuration), baseline=baseline)

    fits = [replace(fit, baseline=named(fit.baseline)) for fit in results.fits]
    return replace(results, rows=tuple(map(named_row, results.rows)), fits=tuple(fits))


def called_rows(rows: Sequence[ResultRow]) -> tuple[ResultRow, ...]:
    """The rows with their names set; `called`: of own job files' runs the jobs, ``a/b`` if they have two names.

    Sizes of one training whose jobs have different names are one line of a chart: it and they have the model's name.
    """
    called: dict[Configuration, str] = {}
    for found in grouped(rows, lambda row: (row.model, row.configuration.tuning)).values():
        jobs = {row.configuration: tuple(dict.fromkeys(run.called for run in row.members)) for row in found}
        if len({row.n_gpus for row in found}) == 1 or len(set(jobs.values())) == 1:
            called |= {of: "/".join(names) for of, names in jobs.items() if "" not in names}
    return named_rows([replace(row, called=called.get(row.configuration, "")) for row in rows])


def named_rows(rows: Sequence[ResultRow]) -> tuple[ResultRow, ...]:
    """The rows with `apart_by` set: what tells each from other rows of its title."""
    marks: dict[Configuration, tuple[str, ...]] = {}
    for found in grouped(rows, lambda row: row.title).values():
        words = distinguishing_words([(("network", row.model), *row.configuration.tuning) for row in found])
        several = len({row.configuration.apart for row in found}) > 1
        for row, mine in zip(found, words, strict=True):
            is_apart = several and row.configuration.apart  # compared with none: its run or its log tells it
            marks[row.configuration] = (*mine, row.members[0].label) if is_apart else mine
    return tuple(replace(row, apart_by=marks[row.configuration]) for row in rows)


def tell_rows_apart(rows: Sequence[ResultRow], names: Sequence[str]) -> list[str]:
    """The names of rows; those that several have, each with its global batch or else its run: ``net, batch 64``."""
    ends = (f", batch {row.batch_size:,}" if row.batch_size else f", {row.members[-1].label}" for row in rows)
    return [name + end * (names.count(name) > 1) for name, end in zip(names, ends, strict=True)]


def with_rows(results: Results, rows: Sequence[ResultRow]) -> Results:
    """The results with these rows only, and the laws fitted to them."""
    there = {row.configuration for row in rows}
    fits = tuple(fit for fit in results.fits if fit.baseline in there)
    return replace(results, rows=named_rows(rows), fits=fits)


def without_small(results: Results) -> Results:
    """The results without small runs: those that charts, slides and report show."""
    rows, programs = ([r for r in rows if r.mark != "small"] for rows in (results.rows, results.programs))
    return replace(with_rows(results, rows), programs=tuple(programs))
