"""The runs that a task plans, each by itself, and the numbers that documents publish of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Annotated, Literal, cast

import msgspec
from msgspec import Meta

from labtui.domain.model import (
    MANY_NODES,
    PROCESS_PER_GPU,
    BatchOption,
    Launcher,
    Outcome,
    Program,
    RunSpec,
    Scaling,
    TemplateForm,
)
from labtui.lab.fields import (
    Count,
    Epochs,
    Fraction,
    Gpus,
    Minutes,
    Name,
    Positive,
    PythonPath,
    Quantity,
    Range,
    ScriptPath,
    Size,
    Table,
    Word,
)


class RunPlan(Table, frozen=True, kw_only=True):
    """A run a task plans, the form of its job, and what an edition prescribes of it; `images` are those of an epoch."""

    spec: RunSpec
    form: TemplateForm
    cpus: int | None = None
    time_limit_minutes: int | None = None
    images: int | None = None


class Sweep(Table, frozen=True, kw_only=True):
    """Runs that differ in their GPUs, batches or options: one for each combination, GPUs changing fastest.

    `gpus` is 0 on a CPU; `batch` is what each GPU (or the CPU) gets a step. `vary` holds further options, a list for
    each run. `learning_rate` is given only where it differs from base x GPUs; `cpus` and `time_limit_minutes` only
    where the edition prescribes them. `arguments` stand in the place of all that labtui would give a script that
    torchrun starts. `batch_option` says what the script's own batch option means. `data_set` and `images` per epoch
    are given where a lab has several. `variant` is a word for what the student's own copy of a script does differently.
    """

    form: TemplateForm
    model: Name
    batch: Count | tuple[Count, ...]
    epochs: Epochs
    script: PythonPath
    gpus: Gpus | tuple[Gpus, ...] = 1
    learning_rate: Positive | None = None
    cpus: Count | None = None
    time_limit_minutes: Minutes | None = None
    options: tuple[str, ...] = ()
    vary: tuple[tuple[str, ...], ...] = ()
    batch_option: BatchOption = "global"
    data_set: str | None = None
    images: Count | None = None
    arguments: tuple[str, ...] = ()
    variant: Word | None = None

    def __post_init__(self) -> None:
        gpus = _each(self.gpus)
        if self.form == "mpi":
            raise ValueError("`form` 'mpi' is for programs: say in `measures` what they are timed on.")
        if (self.form == "cpu") != (set(gpus) == {0}) or (len(gpus) > 1 and 0 in gpus):
            raise ValueError("`gpus` is 0 with the form 'cpu', at least 1 with the others.")
        if self.form == "one-gpu" and set(gpus) != {1}:
            raise ValueError("`form` 'one-gpu' is for exactly one GPU; take one-job or job-per-size.")
        if self.form != "cpu" and self.cpus is not None:
            raise ValueError("`cpus` is for CPU runs: a GPU brings its share of the node's CPUs.")
        if self.form not in MANY_NODES and self.batch_option != "global":
            raise ValueError("`batch_option` is for the forms 'torchrun', 'task-per-gpu' and 'srun-python'.")
        if self.form not in PROCESS_PER_GPU:
            for name in ("arguments", "data_set", "variant"):
                if getattr(self, name):
                    raise ValueError(f"`{name}` is for the forms 'torchrun' and 'task-per-gpu'.")
        for words in self.vary or ((),):
            given = [word.partition("=")[0] for word in (*self.arguments, *self.options, *words)]
            for option in given:
                if option.startswith("--") and given.count(option) > 1:
                    raise ValueError(f"`options` give {option} twice.")

    def runs(self) -> tuple[RunPlan, ...]:
        every = product(self.vary or ((),), _each(self.batch), _each(self.gpus))
        return tuple(
            RunPlan(
                spec=RunSpec(
                    model=self.model,
                    device="gpu" if gpus else "cpu",
                    n_gpus=gpus,
                    batch_size=batch * max(1, gpus),
                    epochs=self.epochs,
                    script=self.script,
                    learning_rate=self.learning_rate,
                    extra_args=(*self.options, *words),
                    launcher=launcher_of(self.form),
                    batch_option=self.batch_option,
                    data_set=self.data_set or "",
                    arguments=self.arguments,
                    variant=self.variant or "",
                ),
                form=self.form,
                cpus=self.cpus,
                time_limit_minutes=self.time_limit_minutes,
                images=self.images,
            )
            for words, batch, gpus in every
        )


def launcher_of(form: TemplateForm) -> Launcher:
    """What starts the processes of a training in this form."""
    return cast("Launcher", form) if form in MANY_NODES else "python"


def _each(value: int | tuple[int, ...]) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,)


class TimedProgram(Table, frozen=True, kw_only=True):
    """A program that is timed without epochs; `labtui.domain.model.Program` says what its fields are."""

    name: Name
    sources: Annotated[tuple[ScriptPath, ...], Meta(min_length=1)]
    command: Annotated[tuple[str, ...], Meta(min_length=1)]
    lines: Annotated[tuple[str, ...], Meta(min_length=1)]
    scaling: Scaling = "strong"
    counts: Literal["processes", "GPUs"] = "processes"
    launcher: Literal["srun", "mpirun"] = "srun"
    build: tuple[str, ...] = ()
    sequential: tuple[str, ...] = ()
    shown_in: Literal["s", "ms"] = "s"
    toolchain: Word | None = None

    def __post_init__(self) -> None:
        if not all(_plain_command(line) for line in self.build):
            raise ValueError("`build` commands are plain words, without shell syntax.")
        if self.scaling == "weak" and self.sequential:
            raise ValueError(
                "`sequential` is not for weak scaling: it compares with one process of the program."
            )

    @property
    def program(self) -> Program:
        return Program(**msgspec.structs.asdict(self) | {"toolchain": self.toolchain or ""})


def _plain_command(line: str) -> bool:
    try:
        return bool(shlex.split(line)) and not set(line) & set(";|&<>$`\n*?~")
    except ValueError:
        return False


class Measure(Table, frozen=True, kw_only=True):
    """A program to be timed on these numbers of processes, in one job.

    `size` is that of the problem; for weak scaling that of one process, and n processes get n times as much.
    """

    program: str
    processes: Annotated[tuple[Count, ...], Meta(min_length=1)]
    size: Size
    time_limit_minutes: Minutes | None = None

    def __post_init__(self) -> None:
        if list(self.processes) != sorted(set(self.processes)):
            raise ValueError("`processes` are in increasing order.")

    def runs_of(self, program: Program) -> tuple[RunPlan, ...]:
        weak = program.scaling == "weak" and self.size.isdecimal()
        sizes = [(count, str(int(self.size) * count) if weak else self.size) for count in self.processes]
        return tuple(
            RunPlan(
                spec=RunSpec(
                    model=program.name,
                    device="gpu" if program.counts == "GPUs" else "cpu",
                    n_gpus=count if program.counts == "GPUs" else 0,
                    batch_size=1,
                    epochs=1,
                    script=program.sources[0],
                    launcher=program.launcher,
                    arguments=program.words(count, size),
                    program=program,
                    processes=count,
                    size=size,
                ),
                form="mpi",
                time_limit_minutes=self.time_limit_minutes,
            )
            for count, size in sizes
        )


# --------------------------------------------------------------------------- published numbers

TOLERANCE = (0.6, 1.6)
"""Of a published number, where an edition says none."""


class About(Table, frozen=True, kw_only=True):
    """Which runs numbers are about: trainings by GPUs, global batch, data set and tuning; a program by the last two.

    None is any (of `gpus`: not said). `tuning` are words as labtui says them.
    """

    model: str = ""
    gpus: Gpus | None = None
    batch_size: Count | None = None
    data_set: str | None = None
    tuning: tuple[str, ...] | None = None
    processes: Count | None = None
    size: Size | None = None

    def is_about(
        self,
        model: str,
        number: int | None,
        batch_size: int | None,
        kind: str,
        tuning: tuple[str, ...],
        *,
        timed: bool,
    ) -> bool:
        """Whether it is about such trainings: GPUs and data set; or such runs of a program: processes and size."""
        if timed:
            return (self.model, self.processes) == (model, number) and self.size in (None, kind)
        return (
            self.processes is None
            and (self.model, self.gpus) == (model, number)
            and self.batch_size in (None, batch_size)
            and self.data_set in (None, kind)
            and self.tuning in (None, tuning)
        )

    def is_about_run(self, run: RunSpec) -> bool:
        timed = run.program is not None
        number, kind = (run.processes, run.size) if timed else (run.n_gpus, run.data_set)
        return self.is_about(run.model, number, run.batch_size, kind, run.tuning, timed=timed)


class Band(About, frozen=True, kw_only=True):
    """A range in which a result would surprise nobody: `low <= value <= high` in the quantity's unit.

    `first-epoch-seconds` is the warm-up epoch. `advice` is a question worth asking when a result lies outside. A band
    never decides whether a box ticks.
    """

    quantity: Quantity
    low: float
    high: float
    source: str
    advice: str = ""

    @property
    def about(self) -> tuple[object, ...]:
        """What it is a band of: there is one band of each."""
        return (self.quantity, *(getattr(self, name) for name in About.__struct_fields__))


class PublishedRow(About, frozen=True, kw_only=True):
    """What a document says of one configuration: its numbers, where they stand, and what to ask of others.

    `task` says which, where two tasks have different numbers for the same. `epoch_seconds`, `seconds` (a program's run)
    and `throughput` (of all GPUs together) times `tolerance` are bands, `first_epoch_seconds` times `first_tolerance`
    where that is given. `speedup`, `efficiency` and `acceleration` are ranges as they stand. `accuracy` is the last
    epoch's, `gpu_memory` in GiB. A run whose `outcome` is another than ``completed``
    ended in its last epoch, or before any where it has no times.
    """

    task: str = ""
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
        about = {name: getattr(self, name) for name in About.__struct_fields__}
        about["gpus"] = 1 if self.gpus is None else self.gpus
        for quantity, found in ranges.items():
            if found is not None:
                advice = "" if quantity == "first-epoch-seconds" else self.advice
                low, high = found
                yield Band(quantity=quantity, low=low, high=high, source=self.source, advice=advice, **about)


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
