"""The runs that a task plans: the sweeps and measures of its file, and each run by itself."""

from __future__ import annotations

import shlex
from itertools import product
from typing import Annotated, Literal

from msgspec import Meta

from labtui.domain.model import (
    MANY_NODES,
    PROCESS_PER_GPU,
    BatchOption,
    Device,
    Program,
    Scaling,
    TemplateForm,
    named_options,
    tuning_of,
)
from labtui.lab.fields import (
    Count,
    Epochs,
    Gpus,
    Minutes,
    Name,
    Positive,
    PythonPath,
    ScriptPath,
    Size,
    Table,
    Word,
)


class RunPlan(Table, frozen=True, kw_only=True):
    """A run a task plans. `batch_size` is the global batch, `per_gpu_batch` what one GPU gets of it.

    `gpus` is 0 on a CPU. The other fields are those of the `Sweep` it comes from; `processes` and `size` are those of
    a program's run (form ``mpi``), which a task's `measures` make.
    """

    form: TemplateForm
    model: str
    device: Device
    gpus: int
    batch_size: int
    epochs: int
    script: str
    per_gpu_batch: int | None = None
    learning_rate: float | None = None
    cpus: int | None = None
    time_limit_minutes: int | None = None
    options: tuple[str, ...] = ()
    batch_option: BatchOption = "global"
    data_set: str | None = None
    images: int | None = None
    arguments: tuple[str, ...] = ()
    variant: str = ""
    processes: int = 0
    size: str = ""

    @property
    def tuning(self) -> tuple[str, ...]:
        """What its options, and the variant of its script, change of its speed, in words."""
        return tuning_of(named_options((*self.arguments, *self.options)), self.variant)


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
                form=self.form,
                model=self.model,
                device="gpu" if gpus else "cpu",
                gpus=gpus,
                batch_size=batch * max(1, gpus),
                per_gpu_batch=batch if gpus else None,
                epochs=self.epochs,
                script=self.script,
                learning_rate=self.learning_rate,
                cpus=self.cpus,
                time_limit_minutes=self.time_limit_minutes,
                options=(*self.options, *words),
                batch_option=self.batch_option,
                data_set=self.data_set,
                images=self.images,
                arguments=self.arguments,
                variant=self.variant or "",
            )
            for words, batch, gpus in every
        )


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
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return Program(**fields | {"toolchain": self.toolchain or ""})


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

    def runs_of(self, program: TimedProgram) -> tuple[RunPlan, ...]:
        gpus = program.counts == "GPUs"
        weak = program.scaling == "weak" and self.size.isdecimal()
        return tuple(
            RunPlan(
                form="mpi",
                model=program.name,
                device="gpu" if gpus else "cpu",
                gpus=count if gpus else 0,
                batch_size=1,
                epochs=1,
                script=program.sources[0],
                time_limit_minutes=self.time_limit_minutes,
                processes=count,
                size=str(int(self.size) * count) if weak else self.size,
            )
            for count in self.processes
        )
