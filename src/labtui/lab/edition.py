"""An edition of the lab as data: its tasks, the runs they plan, their questions and what ticks their boxes.

The structs are the schema of the TOML files in `labtui/labs/` (the author's guide is `docs/editions.md`).
Unknown fields are refused, so that a typing mistake is found and not ignored. No behaviour of the lab may
enter here.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from labtui.domain.model import (
    BatchOption,
    Device,
    Outcome,
    Program,
    Scaling,
    TemplateForm,
    named_options,
    tuning_of,
)

Quantity = Literal[
    "epoch-seconds",
    "first-epoch-seconds",
    "throughput",
    "speedup",
    "efficiency",
    "acceleration",
    "program-seconds",
]
"""Seconds, seconds, images per second, ratio, fraction of 1, CPU time over GPU time, seconds of a program's run."""

ProgramChart = Literal[
    "program-time", "program-speedup", "program-efficiency", "weak-time", "weak-efficiency"
]
"""Charts of programs that are timed without epochs: the first three of strong scaling."""

ChartKey = Literal[
    "epoch-time",
    "throughput",
    "speedup",
    "efficiency",
    "tuning",
    "learning-rate",
    "error",
    "batch-accuracy",
    ProgramChart,
]
Law = Literal["amdahl", "gustafson"]


class _Data(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all parts of an edition share."""


class Fact(_Data, frozen=True, kw_only=True):
    """A statement that bears on a question, with where it comes from; shown beside the student's own text."""

    id: str
    text: str
    source: str


class Band(_Data, frozen=True, kw_only=True):
    """A range in which a result would surprise nobody: `low <= value <= high` in the quantity's unit.

    `first_epoch` bands hold the warm-up epoch. `advice` is a question worth asking when a result lies
    outside; `data_set` and `tuning` (words as labtui says them) narrow it to one. A band of
    `program-seconds` says `processes` and `size` instead of GPUs and batch, `model` being the program. A band never
    decides whether a box ticks.
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


class RunPlan(_Data, frozen=True, kw_only=True):
    """A run a task plans. `batch_size` is the global batch, `per_gpu_batch` what one GPU gets of it.

    `gpus` is 0 on a CPU. `learning_rate` is given only where it differs from base x GPUs; `cpus` and
    `time_limit_minutes` only where the edition prescribes them. `options` are further ones of the script;
    `arguments` stand in the place of all that labtui would give a script that torchrun starts (a batch, epochs).
    `batch_option` says what the script's own batch option means. `data_set` and `images` per epoch are given where a
    lab has several. `variant` is a word for what the student's own copy of a script does differently.
    `processes` and `size` are those of a program's run (form ``mpi``), which a task's `measures` make.
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


class TimedProgram(_Data, frozen=True, kw_only=True):
    """A program that is timed without epochs; `labtui.domain.model.Program` says what its fields are."""

    name: str
    sources: tuple[str, ...]
    command: tuple[str, ...]
    lines: tuple[str, ...]
    scaling: Scaling = "strong"
    counts: Literal["processes", "GPUs"] = "processes"
    launcher: Literal["srun", "mpirun"] = "srun"
    build: tuple[str, ...] = ()
    sequential: tuple[str, ...] = ()
    shown_in: Literal["s", "ms"] = "s"
    toolchain: str = ""

    @property
    def program(self) -> Program:
        return Program(**{name: getattr(self, name) for name in self.__struct_fields__})


class Measure(_Data, frozen=True, kw_only=True):
    """A program to be timed on these numbers of processes, in one job.

    `size` is that of the problem; for weak scaling that of one process, and n processes get n times as much.
    """

    program: str
    processes: tuple[int, ...]
    size: str
    time_limit_minutes: int | None = None

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
                script=program.sources[0] if program.sources else "",
                time_limit_minutes=self.time_limit_minutes,
                processes=count,
                size=str(int(self.size) * count) if weak else self.size,
            )
            for count in self.processes
        )


class Question(_Data, frozen=True, kw_only=True):
    """A question the student answers; `facts` are ids of the facts that bear on it."""

    text: str
    facts: tuple[str, ...] = ()


class _Check(_Data, frozen=True, kw_only=True, tag_field="kind"):
    """A condition of a box. `tasks` names other tasks whose runs count (empty: the task's own)."""

    tasks: tuple[str, ...] = ()


class RunsCheck(_Check, frozen=True, kw_only=True, tag="runs"):
    """Every planned run was made: same model, device and GPUs, enough epochs, a wanted outcome.

    `min_epochs` counts epochs read from the log; `batch` is ``exact`` (the planned global batch) or ``any``
    (whatever fitted the memory).
    """

    min_epochs: int = 2
    batch: Literal["exact", "any"] = "exact"
    outcomes: tuple[Outcome, ...] = ("completed",)


class BatchCheck(_Check, frozen=True, kw_only=True, tag="constant-batch"):
    """For each model, all GPU counts used the same per-GPU batch."""


class LearningRateCheck(_Check, frozen=True, kw_only=True, tag="learning-rate"):
    """Each run's learning rate is the edition's base times its GPUs."""


class MetricCheck(_Check, frozen=True, kw_only=True, tag="metric"):
    """Some run of the task reached a metric: `metric` (Keras's name) is `at_least` in one of its epochs."""

    metric: str
    at_least: float


class ChartsCheck(_Check, frozen=True, kw_only=True, tag="charts"):
    """These charts were exported, and they show these models."""

    charts: tuple[ChartKey, ...]
    models: tuple[str, ...] = ()


class AnswersCheck(_Check, frozen=True, kw_only=True, tag="answers"):
    """Every question of the task has an answer."""


class EditedCheck(_Check, frozen=True, kw_only=True, tag="edited"):
    """The student's `script` differs from `original` and its code names all of `names`."""

    script: str
    original: str
    names: tuple[str, ...]


class FilesCheck(_Check, frozen=True, kw_only=True, tag="files"):
    """These scripts are in the lab folder."""

    files: tuple[str, ...]


class DataCheck(_Check, frozen=True, kw_only=True, tag="data-read"):
    """The data set and the software were reached: seen on the cluster, or a run read them and trained."""


class FitCheck(_Check, frozen=True, kw_only=True, tag="fit"):
    """There are enough measured GPU counts of `model` for these laws to be fitted."""

    model: str
    laws: tuple[Law, ...]


class HandInCheck(_Check, frozen=True, kw_only=True, tag="hand-in"):
    """One of these files stands in the lab folder (the deck, a report)."""

    files: tuple[str, ...]


Check = (
    RunsCheck
    | BatchCheck
    | LearningRateCheck
    | MetricCheck
    | ChartsCheck
    | AnswersCheck
    | EditedCheck
    | FilesCheck
    | DataCheck
    | FitCheck
    | HandInCheck
)


class Task(_Data, frozen=True, kw_only=True):
    """One item of the assignment. `id` is its number there; `weight` its share of the mark in percent.

    `measures` of programs become its `runs` when the edition is read.

    `files` are the scripts it concerns (in `scripts/`), `handed_in` is false for preparation only.
    """

    id: str
    title: str
    what: str
    why: str
    checks: tuple[Check, ...]
    weight: float | None = None
    handed_in: bool = True
    hints: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    runs: tuple[RunPlan, ...] = ()
    measures: tuple[Measure, ...] = ()
    questions: tuple[Question, ...] = ()
    deliverables: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()


PageKind = Literal["title", "overview", "task", "conclusions", "sources"]
PageChart = Literal[ChartKey, "cpu-gpu", "efficiency-loss", "laws", "accuracy", "epochs"]
PageTable = Literal["results", "fractions", "acceleration"]


class Excerpt(_Data, frozen=True, kw_only=True):
    """Lines to show on a page: of a script in `scripts/`, or of a job of the page's task.

    `source` is a script's name, ``job`` (the job script without labtui's header), ``out``, ``err`` (its logs) or
    ``changes`` (what differs in the script the task edits). `lines` are regular expressions: the lines they find
    are shown, without any the whole text. With `parts` the whole text is shown, and each part's name stands at
    the first line that the expression of the same place finds.
    """

    source: str
    lines: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


class HandInPage(_Data, frozen=True, kw_only=True):
    """One page of what is handed in (a section, where the hand-in is a report).

    `answers` are the numbers of the task's questions, from 1: the first of them gives the title (none: all of
    them). `heading` is the title where there is neither an answer nor a number for one. `models` narrows the
    charts; `target` is the accuracy the accuracy chart is drawn against.
    """

    kind: PageKind = "task"
    task: str = ""
    heading: str = ""
    answers: tuple[int, ...] = ()
    charts: tuple[PageChart, ...] = ()
    table: PageTable | None = None
    models: tuple[str, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    target: float | None = None


class HandIn(_Data, frozen=True, kw_only=True):
    """What is delivered in the end, where, and how it is judged; `pages` in their order, as slides or a report."""

    what: str
    where: str
    note: str = ""
    form: Literal["slides", "report"] = "slides"
    pages: tuple[HandInPage, ...] = ()


class ReferenceRun(_Data, frozen=True, kw_only=True):
    """A configuration's times in the reference evidence, in seconds; `accuracy` is the last epoch's.

    `batch_size` and `tuning` narrow it to one of several runs of a model on these GPUs. `tokens_per_gpu` (a second)
    is for a run that is counted in tokens and has no epochs, `gpu_memory` in GiB.
    """

    model: str
    gpus: int
    first_epoch_seconds: float = 1.0
    epoch_seconds: float = 1.0
    accuracy: float = 0.3
    epochs_read: int | None = None
    outcome: Outcome = "completed"
    task: str = ""
    batch_size: int | None = None
    tuning: tuple[str, ...] | None = None
    tokens_per_gpu: float | None = None
    gpu_memory: float | None = None


class ReferenceTimes(_Data, frozen=True, kw_only=True):
    """A program's times in the reference evidence, in seconds, by number of processes; `size` as a `Measure`'s."""

    program: str
    size: str
    processes: tuple[int, ...]
    seconds: tuple[float, ...]


def size_of(edition: Edition, times: ReferenceTimes, processes: int) -> str:
    """The size of the problem that a reference time is about."""
    program = edition.program(times.program)
    weak = program is not None and program.scaling == "weak" and times.size.isdecimal()
    return str(int(times.size) * processes) if weak else times.size


class ReferenceScript(_Data, frozen=True, kw_only=True):
    """A script of the student as the reference evidence has it; `original` is what it was copied from."""

    path: str
    text: str


class Reference(_Data, frozen=True, kw_only=True):
    """Evidence on which every box must tick: planned runs with these times, these scripts, all answers."""

    runs: tuple[ReferenceRun, ...] = ()
    times: tuple[ReferenceTimes, ...] = ()
    scripts: tuple[ReferenceScript, ...] = ()
    files: tuple[str, ...] = ()


class Edition(_Data, frozen=True, kw_only=True):
    """A whole assignment. `source` is the document it follows, `profiles` the clusters it was written for.

    `programs` are those that tasks measure. `extends` is the id of the edition that its file changes; what the file
    leaves out is that edition's.
    `images` is the training set's size per epoch, `base_learning_rate` the rate on one GPU,
    `startup_seconds` how long a run takes before its first epoch (container, imports, data): from ... to ...
    """

    format: Literal[1]
    id: str
    title: str
    course: str
    term: str
    source: str
    about: str
    tasks: tuple[Task, ...]
    reference: Reference
    extends: str = ""
    programs: tuple[TimedProgram, ...] = ()
    profiles: tuple[str, ...] = ()
    images: int = 50_000
    base_learning_rate: float = 0.01
    startup_seconds: tuple[float, float] = (20.0, 90.0)
    hand_in: HandIn | None = None
    facts: tuple[Fact, ...] = ()
    bands: tuple[Band, ...] = ()

    def __post_init__(self) -> None:
        known = {program.name: program for program in self.programs}
        tasks = tuple(
            msgspec.structs.replace(
                task,
                runs=tuple(
                    run
                    for measure in task.measures
                    if (program := known.get(measure.program)) is not None
                    for run in measure.runs_of(program)
                ),
            )
            if task.measures and not task.runs
            else task
            for task in self.tasks
        )
        msgspec.structs.force_setattr(self, "tasks", tasks)

    def program(self, name: str) -> Program | None:
        return next((found.program for found in self.programs if found.name == name), None)

    def task(self, task_id: str) -> Task | None:
        return next((task for task in self.tasks if task.id == task_id), None)

    def fact(self, fact_id: str) -> Fact | None:
        return next((fact for fact in self.facts if fact.id == fact_id), None)

    def facts_of(self, task: Task) -> tuple[Fact, ...]:
        """The facts of a task and of its questions, each once, in the order they are named."""
        names = dict.fromkeys([*task.facts, *(name for q in task.questions for name in q.facts)])
        return tuple(fact for name in names if (fact := self.fact(name)) is not None)
