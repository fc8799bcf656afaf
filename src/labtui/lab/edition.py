"""An edition of the lab as data: its tasks, their questions, what ticks their boxes, what is handed in.

The structs are the schema of the TOML files in `labtui/labs/` (the author's guide is `docs/editions.md`); what tables
say of each other is checked in `proof`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from labtui.domain.model import Outcome, Program
from labtui.lab import fields
from labtui.lab.fields import Table
from labtui.lab.runs import Band, Measure, Published, PublishedRow, RunPlan, Sweep, TimedProgram, bands_of


class Fact(Table, frozen=True, kw_only=True):
    """A statement that bears on a question, with where it comes from; shown beside the student's own text."""

    id: str
    text: str
    source: str


class Question(Table, frozen=True, kw_only=True):
    """A question the student answers; `facts` are ids of the facts that bear on it, `chart` the one to look at."""

    text: str
    facts: tuple[str, ...] = ()
    chart: fields.PageChart | None = None


class _Check(Table, frozen=True, kw_only=True, tag_field="kind"):
    """A condition of a box. `tasks` names other tasks whose runs count (empty: the task's own)."""

    tasks: tuple[str, ...] = ()


class RunsCheck(_Check, frozen=True, kw_only=True, tag="runs"):
    """Every planned run was made: same model, device and GPUs, enough epochs, a wanted outcome.

    `min_epochs` counts epochs read from the log; `batch` is ``exact`` (the planned global batch) or ``any``
    (whatever fitted the memory).
    """

    min_epochs: Annotated[int, Meta(ge=0, le=fields.MAX_NUMBER)] = 2
    batch: Literal["exact", "any"] = "exact"
    outcomes: Annotated[tuple[Outcome, ...], Meta(min_length=1)] = ("completed",)


class BatchCheck(_Check, frozen=True, kw_only=True, tag="constant-batch"):
    """For each model, all GPU counts used the same per-GPU batch."""


class LearningRateCheck(_Check, frozen=True, kw_only=True, tag="learning-rate"):
    """Each run's learning rate is the edition's base times its GPUs."""


class MetricCheck(_Check, frozen=True, kw_only=True, tag="metric"):
    """Some run of the task reached a metric: `metric` (Keras's name) is `at_least` in one of its epochs."""

    metric: fields.Identifier
    at_least: fields.Positive


class ChartsCheck(_Check, frozen=True, kw_only=True, tag="charts"):
    """These charts were exported, and they show these models."""

    charts: Annotated[tuple[fields.ChartKey, ...], Meta(min_length=1)]
    models: tuple[str, ...] = ()


class AnswersCheck(_Check, frozen=True, kw_only=True, tag="answers"):
    """Every question of the task has an answer."""


class EditedCheck(_Check, frozen=True, kw_only=True, tag="edited"):
    """The student's `script` differs from `original` and its code names all of `names`."""

    script: fields.ScriptPath
    original: fields.ScriptPath
    names: Annotated[tuple[fields.Identifier, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        if self.script == self.original:
            raise ValueError("`script` needs another name than its original.")


class FilesCheck(_Check, frozen=True, kw_only=True, tag="files"):
    """These scripts are in the lab folder."""

    files: Annotated[tuple[fields.ScriptPath, ...], Meta(min_length=1)]


class DataCheck(_Check, frozen=True, kw_only=True, tag="data-read"):
    """The data set and the software were reached: seen on the cluster, or a run read them and trained."""


class FitCheck(_Check, frozen=True, kw_only=True, tag="fit"):
    """There are enough measured GPU counts of `model` for these laws to be fitted."""

    model: str
    laws: Annotated[tuple[fields.Law, ...], Meta(min_length=1)]


class HandInCheck(_Check, frozen=True, kw_only=True, tag="hand-in"):
    """One of these files stands in the lab folder (the deck, a report)."""

    files: Annotated[tuple[fields.LabFile, ...], Meta(min_length=1)]


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


class Task(Table, frozen=True, kw_only=True, dict=True):
    """One item of the assignment. `id` is its number there; `weight` its share of the mark in percent.

    `files` are the scripts it concerns (in `scripts/`), `handed_in` is false for preparation only. It plans either
    `sweeps` or `measures` of programs: its `runs`, which its edition fills in.
    """

    runs: ClassVar[tuple[RunPlan, ...]] = ()

    id: fields.TaskId
    title: str
    what: str
    why: str
    checks: Annotated[tuple[Check, ...], Meta(min_length=1)]
    weight: Annotated[float, Meta(ge=0, le=100)] | None = None
    handed_in: bool = True
    hints: tuple[str, ...] = ()
    files: tuple[fields.ScriptPath, ...] = ()
    sweeps: tuple[Sweep, ...] = ()
    measures: tuple[Measure, ...] = ()
    questions: tuple[Question, ...] = ()
    deliverables: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.sweeps and self.measures:
            raise ValueError(f"`measures`: task {self.id} plans either `sweeps` or `measures`.")

    def planned(self, programs: Mapping[str, Program]) -> Iterator[RunPlan]:
        """The runs of its sweeps, or of its measures of `programs`."""
        for sweep in self.sweeps:
            yield from sweep.runs()
        for measure in self.measures:
            if measure.program in programs:
                yield from measure.runs_of(programs[measure.program])

    @property
    def copies_to_start(self) -> tuple[tuple[str, str], ...]:
        """(original, new script) pairs that the student is asked to make."""
        return tuple((each.original, each.script) for each in self.checks if isinstance(each, EditedCheck))

    @property
    def own_runs_check(self) -> RunsCheck:
        """What its box wants of its own runs; as usual where it has no such check."""
        checks = (check for check in self.checks if isinstance(check, RunsCheck) and not check.tasks)
        return next(checks, RunsCheck())


class Excerpt(Table, frozen=True, kw_only=True):
    """Lines to show on a page: of a script in `scripts/`, or of a job of the page's task.

    `source` is a script's name, ``job`` (the job script without labtui's header), ``out``, ``err`` (its logs) or
    ``changes`` (what differs in the script the task edits). `lines` are regular expressions: the lines they find
    are shown, without any the whole text. With `parts` the whole text is shown, and each part's name stands at
    the first line that the expression of the same place finds.
    """

    source: str
    lines: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.parts and len(self.parts) != len(self.lines):
            raise ValueError("`parts` need one expression each in `lines`.")
        for pattern in self.lines:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"`lines`: {pattern!r} is not a regular expression: {error}.") from None


class HandInPage(Table, frozen=True, kw_only=True):
    """One page of what is handed in (a section, where the hand-in is a report).

    `answers` are the numbers of the task's questions, from 1: the first of them gives the title (none: all of
    them). `heading` is the title where there is neither an answer nor a number for one. `models` narrows the
    charts; `target` is the accuracy the accuracy chart is drawn against; with `bars` epoch time and speedup are bars.
    """

    kind: fields.PageKind = "task"
    task: str = ""
    heading: str = ""
    answers: tuple[fields.Count, ...] = ()
    charts: tuple[fields.PageChart, ...] = ()
    table: fields.PageTable | None = None
    models: tuple[str, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    target: Annotated[float, Meta(gt=0, lt=1)] | None = None
    bars: bool = False

    def __post_init__(self) -> None:
        if self.kind == "task" and not self.task:
            raise ValueError("`task` is missing: a page of the kind 'task' needs one.")


class HandIn(Table, frozen=True, kw_only=True):
    """What is delivered in the end, where, and how it is judged; `pages` in their order, as slides or a report."""

    what: str
    where: str
    note: str = ""
    form: Literal["slides", "report"] = "slides"
    pages: tuple[HandInPage, ...] = ()


FRAMEWORK_FOLDERS = ("pytorch/", "tensorflow/")
"""Folders of `remote/` with the scripts of one framework for several nodes."""
PROGRAM_FOLDERS = ("pi/", "jacobi/")
"""Folders of `remote/` with the sources of a program that is timed."""
TRAINING_SCRIPTS = (
    *(f"ResNet{depth}{end}.py" for depth in (50, 101, 152) for end in ("", "_seq")),
    *("resnet_lab.py", "run_log.py", "mllog.py", "cifar-utils/"),
)
"""What a lab of programs alone starts without."""


class Edition(Table, frozen=True, kw_only=True, dict=True):
    """A whole assignment. `source` is the document it follows, `profiles` the clusters it was written for.

    `programs` are those that tasks measure, `scripts` those of the course that labtui does not bring. `extends` is the
    id of the edition that its file changes; what the file leaves out is that edition's. `published_in` is the id of one
    whose published numbers are this one's, too. `images` is the training set's
    size per epoch, `base_learning_rate` the rate on one GPU, `startup_seconds` how long a run takes before its first
    epoch (container, imports, data): mostly, and at most. `names`: what people read for the models that logs name
    shorter.
    """

    format: Literal[1]
    id: fields.Id
    title: str
    course: str
    term: str
    source: str
    about: str
    tasks: Annotated[tuple[Task, ...], Meta(min_length=1)]
    extends: str = ""
    published_in: str = ""
    programs: tuple[TimedProgram, ...] = ()
    scripts: tuple[fields.ScriptPath, ...] = ()
    profiles: tuple[str, ...] = ()
    images: fields.Count = 50_000
    base_learning_rate: fields.Positive = 0.01
    startup_seconds: tuple[Annotated[float, Meta(ge=0)], fields.Positive] = (20.0, 90.0)
    hand_in: HandIn | None = None
    names: dict[str, str] = msgspec.field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    published: tuple[Published, ...] = ()

    def __post_init__(self) -> None:
        if self.startup_seconds[0] > self.startup_seconds[1]:
            raise ValueError("`startup_seconds` is a range: the smaller number first.")
        programs = {program.name: program.program for program in self.programs}
        for task in self.tasks:
            task.__dict__["runs"] = tuple(task.planned(programs))

    @cached_property
    def published_rows(self) -> tuple[PublishedRow, ...]:
        """What documents say, each configuration by itself."""
        return tuple(row for table in self.published for row in table.whole_rows())

    @cached_property
    def bands(self) -> tuple[Band, ...]:
        """The ranges of the published numbers."""
        return bands_of(self.published_rows)

    def task(self, task_id: str) -> Task | None:
        return next((task for task in self.tasks if task.id == task_id), None)

    def tasks_of(self, task: Task, names: Sequence[str]) -> tuple[Task, ...]:
        """The tasks a check speaks of: those it names, else its own."""
        found = (self.task(name) for name in names)
        return tuple(each for each in found if each is not None) if names else (task,)

    def facts_of(self, task: Task) -> tuple[Fact, ...]:
        """The facts of a task and of its questions, each once, in the order they are named."""
        names = dict.fromkeys([*task.facts, *(name for q in task.questions for name in q.facts)])
        facts = {fact.id: fact for fact in self.facts}
        return tuple(facts[name] for name in names if name in facts)

    @property
    def own_scripts(self) -> frozenset[str]:
        """The scripts that a student makes as a changed copy of another."""
        return frozenset(script for task in self.tasks for _, script in task.copies_to_start)

    @property
    def framework_scripts(self) -> tuple[str, ...]:
        """The scripts of `FRAMEWORK_FOLDERS` that its runs start."""
        started = (plan.spec.script for task in self.tasks for plan in task.runs)
        return tuple(dict.fromkeys(name for name in started if name.startswith(FRAMEWORK_FOLDERS)))

    @property
    def withheld_scripts(self) -> frozenset[str]:
        """What a lab folder starts without: scripts the student is to make, and whole folders no run of the lab needs.

        A folder ends with ``/``. Every script in the lab folder travels with each job.
        """
        sources = (name for program in self.programs for name in program.sources)
        started = {*self.framework_scripts, *sources}
        folders = (*FRAMEWORK_FOLDERS, *PROGRAM_FOLDERS)
        unused = {each for each in folders if not any(name.startswith(each) for name in started)}
        trained = not self.programs or any(plan.form != "mpi" for task in self.tasks for plan in task.runs)
        return frozenset(self.own_scripts | unused | (set() if trained else {*TRAINING_SCRIPTS}))
