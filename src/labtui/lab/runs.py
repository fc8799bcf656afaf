"""The runs that a task plans, and the numbers that documents publish for them."""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Annotated, cast

import msgspec
from msgspec import Meta

from labtui.domain import model
from labtui.domain.model import MANY_NODES, BatchOption, Outcome, Program, RunSpec, TemplateForm
from labtui.domain.tuning import Tuning, is_tuning, tuning_of
from labtui.lab import fields
from labtui.lab.fields import Table
from labtui.results.rows import ResultRow


class RunPlan(Table, frozen=True, kw_only=True):
    """A planned run, the form of its job, and the resources an edition prescribes; `images` is per epoch."""

    spec: RunSpec
    form: TemplateForm
    cpus: int | None = None
    time_limit_minutes: int | None = None
    images: int | None = None


_FORMS_OF_FIELD: dict[str, tuple[str, ...]] = {
    "cpus": ("cpu",),
    "batch_option": MANY_NODES,
    **dict.fromkeys(("arguments", "data_set", "variant"), model.PROCESS_PER_GPU),
}
"""The forms that allow each of these fields of a sweep."""


class Sweep(Table, frozen=True, kw_only=True):
    """Runs that differ in their GPUs, batches or options: one for each combination, GPUs changing fastest.

    `gpus` is 0 on a CPU; `batch` is the batch of each GPU (or the CPU). `vary` is a list of further options for each
    run. `learning_rate` is set only if it differs from base x GPUs, `cpus` and `time_limit_minutes` only if the
    edition prescribes them. `arguments` replace all arguments that labtui would give to a script that torchrun or
    srun starts. `batch_option` says what the script's own batch option means. `data_set` and `images` (per epoch) are
    set if a lab has several data sets. `variant` is a word for what the student changed in their copy of a script.
    """

    form: TemplateForm
    model: fields.Name
    batch: fields.Count | tuple[fields.Count, ...]
    epochs: fields.Epochs
    script: fields.PythonPath
    gpus: fields.Gpus | tuple[fields.Gpus, ...] = 1
    learning_rate: fields.Positive | None = None
    cpus: fields.Count | None = None
    time_limit_minutes: fields.Minutes | None = None
    options: tuple[str, ...] = ()
    vary: tuple[tuple[str, ...], ...] = ()
    batch_option: BatchOption = "global"
    data_set: str | None = None
    images: fields.Count | None = None
    arguments: tuple[str, ...] = ()
    variant: fields.Word | None = None

    def __post_init__(self) -> None:
        gpus = _as_tuple(self.gpus)
        if self.form == "mpi":
            raise ValueError("`form` 'mpi' is for programs: say in `measures` what they are timed on.")
        if (self.form == "cpu") != (set(gpus) == {0}) or (len(gpus) > 1 and 0 in gpus):
            raise ValueError("`gpus` is 0 with the form 'cpu', at least 1 with the others.")
        if self.form == "one-gpu" and set(gpus) != {1}:
            raise ValueError("`form` 'one-gpu' is for exactly one GPU; take one-job or job-per-size.")
        for name, forms in _FORMS_OF_FIELD.items():
            if self.form not in forms and getattr(self, name) not in (None, (), "global"):
                raise ValueError(f"`{name}` is for the form {' or '.join(map(repr, forms))}.")

    def runs(self) -> tuple[RunPlan, ...]:
        combinations = product(self.vary or ((),), _as_tuple(self.batch), _as_tuple(self.gpus))
        names = ("model", "epochs", "script", "learning_rate", "batch_option", "arguments")
        of_run = {name: getattr(self, name) for name in names}
        of_plan = {name: getattr(self, name) for name in ("form", "cpus", "time_limit_minutes", "images")}
        return tuple(
            RunPlan(
                spec=RunSpec(
                    device="gpu" if gpus else "cpu",
                    n_gpus=gpus,
                    batch_size=batch * max(1, gpus),
                    extra_args=(*self.options, *words),
                    launcher=cast("model.Launcher", self.form) if self.form in MANY_NODES else "python",
                    data_set=self.data_set or "",
                    variant=self.variant or "",
                    **of_run,
                ),
                **of_plan,
            )
            for words, batch, gpus in combinations
        )


def _as_tuple(value: int | tuple[int, ...]) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,)


class TimedProgram(Program, frozen=True, kw_only=True):
    """A program that is timed without epochs, with the constraints of an edition's file."""

    name: fields.Name
    sources: Annotated[tuple[fields.ScriptPath, ...], Meta(min_length=1)]
    command: Annotated[tuple[str, ...], Meta(min_length=1)]
    lines: Annotated[tuple[str, ...], Meta(min_length=1)]
    toolchain: fields.Word = ""

    def __post_init__(self) -> None:
        if not all(line.split() and not set(line) & set(";|&<>$`\n*?~'\"\\") for line in self.build):
            raise ValueError("`build` commands are plain words, without shell syntax.")
        if self.scaling == "weak" and self.sequential:
            raise ValueError("`sequential` is not for weak scaling, which compares with one process.")

    @property
    def program(self) -> Program:
        return Program(**msgspec.structs.asdict(self))


class Measure(Table, frozen=True, kw_only=True):
    """A program to be timed on these numbers of processes, in one job.

    `size` is the size of the problem; for weak scaling, the size for one process, and n processes get n times that.
    """

    program: str
    processes: Annotated[tuple[fields.Count, ...], Meta(min_length=1)]
    size: fields.Size
    time_limit_minutes: fields.Minutes | None = None

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
                    arguments=program.argv(count, size),
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
"""The default factors from a published number to the bounds of its band."""
QUANTITIES = {
    "epoch_seconds": ("epoch_seconds", "{} s an epoch", "{} s"),
    "first_epoch_seconds": ("warmup_seconds", "{} s for the first epoch", "{} s"),
    "throughput": ("throughput", "{} images/s", "{} images/s"),
    "seconds": ("epoch_seconds", "{} s", "{} s"),
    "speedup": ("speedup", "a speedup of {}", "{}"),
    "efficiency": ("efficiency", "an efficiency of {}", "{}"),
    "acceleration": ("acceleration", "{} times as fast as the CPU", "{}"),
}
"""The quantities with bands, by the published row's field: times and rates get a tolerance, ratios are ranges already.

Each value: the field of a `ResultRow`, a measured value in words, and the usual values with their unit.
"""


class RunSelector(Table, frozen=True, kw_only=True):
    """The runs that numbers are about. A program has `model`, `processes` and `size`, a training all but the last two.

    None matches any value; for `gpus` it means that none is given. `tuning` holds script options with their values.
    """

    model: str = ""
    gpus: fields.Gpus | None = None
    batch_size: fields.Count | None = None
    data_set: str | None = None
    tuning: dict[str, str | int] | None = None
    processes: fields.Count | None = None
    size: fields.Size | None = None

    def __post_init__(self) -> None:
        for name in self.tuning or ():
            if not is_tuning(name):
                raise ValueError(f"`tuning` has no option `{name}`.")

    @property
    def run_tuning(self) -> Tuning | None:
        """`tuning` in the form that runs have it; None matches any."""
        return None if self.tuning is None else tuning_of(self.tuning, str(self.tuning.get("variant", "")))

    def matches(self, run: RunSpec | ResultRow) -> bool:
        """Whether a planned or measured run is one of these."""
        spec = run.configuration if isinstance(run, ResultRow) else run
        if run.program is not None:
            same = (self.model, self.processes) == (run.model, run.processes)
            return same and self.size in (None, run.size)
        same = (self.processes, self.model, self.gpus) == (None, run.model, run.n_gpus)
        mine = (self.batch_size, self.data_set, self.run_tuning)
        its = (run.batch_size, spec.data_set, spec.tuning)
        return same and all(one in (None, other) for one, other in zip(mine, its, strict=True))


class Band(RunSelector, frozen=True, kw_only=True):
    """The range of usual results, `low <= result <= high`, for a `quantity`: a key of `QUANTITIES`.

    `value` is the published number, or the middle of a published range. `advice` is a question to ask about a result
    outside the band. A band never decides whether a box is ticked.
    """

    quantity: str
    low: float
    value: float
    high: float
    source: str
    advice: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """The quantity and the runs: the key by which bands are merged."""
        names = ("run_tuning" if name == "tuning" else name for name in RunSelector.__struct_fields__)
        return (self.quantity, *(getattr(self, name) for name in names))


class PublishedRow(RunSelector, frozen=True, kw_only=True):
    """What a document says about one configuration: its numbers, their source, and advice for results outside them.

    `task` is set if two tasks have different numbers for the same configuration. The bands are `epoch_seconds`,
    `seconds` (of a program's run) and `throughput` (of all GPUs together) times `tolerance`, and `first_epoch_seconds`
    times `first_tolerance` if that is given; `speedup`, `efficiency` and `acceleration` are ranges already. `accuracy`
    is that of the last epoch, `gpu_memory` is in GiB. A run with an `outcome` other than ``completed`` ended in its
    last epoch, or before the first if no times are given.
    """

    task: str = ""
    epoch_seconds: fields.Positive | None = None
    first_epoch_seconds: fields.Positive | None = None
    seconds: fields.Positive | None = None
    throughput: fields.Positive | None = None
    speedup: fields.Range | None = None
    efficiency: fields.Range | None = None
    acceleration: fields.Range | None = None
    accuracy: fields.Fraction | None = None
    gpu_memory: fields.Positive | None = None
    outcome: Outcome = "completed"
    tolerance: fields.Range | None = None
    first_tolerance: fields.Range | None = None
    source: str = ""
    advice: str = ""

    def __post_init__(self) -> None:
        RunSelector.__post_init__(self)
        for name in ("speedup", "efficiency", "acceleration", "tolerance", "first_tolerance"):
            if (found := getattr(self, name)) is not None and found[0] > found[1]:
                raise ValueError(f"`{name}` goes from low to high.")
        if self.efficiency is not None and self.efficiency[1] > 2:
            raise ValueError("`efficiency` is a fraction of 1, not a percentage.")

    def bands(self) -> Iterator[Band]:
        """The bands of the row's numbers."""
        selector = {name: getattr(self, name) for name in RunSelector.__struct_fields__}
        for name in QUANTITIES:
            warm_up = name == "first_epoch_seconds"
            tolerance = self.first_tolerance if warm_up else self.tolerance or TOLERANCE
            published = getattr(self, name)
            if isinstance(published, tuple):
                low, high = published
                value = (low + high) / 2
            elif published and tolerance:
                # The bounds have two significant digits.
                bounds = (float(f"{published * factor:.2g}") for factor in tolerance)
                low, value, high = sorted((published, *bounds))
            else:
                continue
            found = {"quantity": name, "low": low, "value": value, "high": high, "source": self.source}
            yield Band(**found, advice="" if warm_up else self.advice, **selector)


class Publication(PublishedRow, frozen=True, kw_only=True):
    """A table of a document. Its own fields apply to all `rows` that do not set them."""

    rows: Annotated[tuple[PublishedRow, ...], Meta(min_length=1)]

    def complete_rows(self) -> Iterator[PublishedRow]:
        """The rows with the table's fields filled in; without `gpus` on either, it is 1 for a training."""
        unset = PublishedRow()
        shared = {name: getattr(self, name) for name in unset.__struct_fields__}
        for row in self.rows:
            own = {name: value for name in shared if (value := getattr(row, name)) != getattr(unset, name)}
            values = shared | own
            if values["gpus"] is None and values["processes"] is None:
                values["gpus"] = 1
            yield PublishedRow(**values)


def bands_of(rows: Iterable[PublishedRow]) -> tuple[Band, ...]:
    """Merge the rows' bands into one per quantity and configuration, which covers the numbers of all documents."""
    merged: dict[tuple[object, ...], Band] = {}
    for band in (band for row in rows for band in row.bands()):
        other = merged.get(band.key, band)
        merged[band.key] = msgspec.structs.replace(
            other,
            low=min(other.low, band.low),
            high=max(other.high, band.high),
            source="; ".join(dict.fromkeys((other.source, band.source))),
            advice=other.advice or band.advice,
        )
    return tuple(merged.values())
