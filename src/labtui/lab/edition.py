"""An edition of the lab as data: its tasks, their questions and checks, and what is handed in.

The structs are the schema of the TOML files in `labtui/labs/` (the author's guide is `docs/editions.md`). Rules that
involve several tables are checked in `proof`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from labtui.domain.model import Outcome, Program, RunSpec
from labtui.lab import fields
from labtui.lab.fields import Table
from labtui.lab.runs import Band, Measure, Publication, RunPlan, Sweep, TimedProgram, bands_of
from labtui.results.rows import Law


class Fact(Table, frozen=True, kw_only=True):
    """A statement that helps with a question, with its source; shown beside the student's own text."""

    id: str
    text: str
    source: str


class Question(Table, frozen=True, kw_only=True):
    """A question the student answers; `facts` are the ids of facts that help, `chart` is the chart to look at.

    With `gains`, the screen first shows how much each doubling of GPUs gained in the student's own runs.
    """

    text: str
    facts: tuple[str, ...] = ()
    chart: str = ""
    gains: bool = False


class _Check(Table, frozen=True, kw_only=True, tag_field="kind"):
    """A condition of a task's box. `tasks` names other tasks whose runs count (empty: the task's own)."""

    tasks: tuple[str, ...] = ()


class RunsCheck(_Check, frozen=True, kw_only=True, tag="runs"):
    """Every planned run was made: same model, device and GPUs, enough epochs, a wanted outcome.

    `min_epochs` is the number of epochs that the log must show; `batch` is ``exact`` (the planned global batch) or
    ``any`` (whatever fitted into memory).
    """

    min_epochs: Annotated[int, Meta(ge=0, le=fields.MAX_NUMBER)] = 2
    batch: Literal["exact", "any"] = "exact"
    outcomes: Annotated[tuple[Outcome, ...], Meta(min_length=1)] = ("completed",)


class BatchCheck(_Check, frozen=True, kw_only=True, tag="constant-batch"):
    """For each model, all GPU counts used the same per-GPU batch."""


class LearningRateCheck(_Check, frozen=True, kw_only=True, tag="learning-rate"):
    """Each run's learning rate is the edition's base times its GPUs."""


class MetricCheck(_Check, frozen=True, kw_only=True, tag="metric"):
    """In some epoch of any run of a model that the task plans, `metric` (by Keras's name) was `at_least` this value."""

    metric: fields.Identifier
    at_least: fields.Positive


class ChartsCheck(_Check, frozen=True, kw_only=True, tag="charts"):
    """These charts were exported, and they show these models."""

    charts: Annotated[tuple[str, ...], Meta(min_length=1)]
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
            raise ValueError("`script` and `original` must differ.")


class FilesCheck(_Check, frozen=True, kw_only=True, tag="files"):
    """These scripts are in the lab folder."""

    files: Annotated[tuple[fields.ScriptPath, ...], Meta(min_length=1)]


class DataCheck(_Check, frozen=True, kw_only=True, tag="data-read"):
    """The data set and the software are on the cluster: labtui saw them there, or a run trained with them."""


class FitCheck(_Check, frozen=True, kw_only=True, tag="fit"):
    """`model` was measured on enough GPU counts to fit these laws."""

    model: str
    laws: Annotated[tuple[Law, ...], Meta(min_length=1)]


class HandInCheck(_Check, frozen=True, kw_only=True, tag="hand-in"):
    """One of these files is in the lab folder (the deck, a report)."""

    files: Annotated[tuple[fields.LabFile, ...], Meta(min_length=1)]


_RunBasedCheck = RunsCheck | BatchCheck | LearningRateCheck | MetricCheck | DataCheck | FitCheck
Check = _RunBasedCheck | ChartsCheck | AnswersCheck | EditedCheck | FilesCheck | HandInCheck


class Task(Table, frozen=True, kw_only=True, dict=True):
    """One item of the assignment. `id` is its number there; `weight` is its share of the mark in percent.

    `files` are the scripts it concerns (in `scripts/`); `handed_in` is false for mere preparation. A task plans either
    `sweeps` or `measures` of programs; the edition computes its `runs` from them.
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
            raise ValueError(f"`measures`: task {self.id} has both `sweeps` and `measures`; use one.")

    def planned(self, programs: Mapping[str, Program]) -> Iterator[RunPlan]:
        """The runs of the sweeps, or of the measures of `programs`."""
        for sweep in self.sweeps:
            yield from sweep.runs()
        for measure in self.measures:
            if measure.program in programs:
                yield from measure.runs_of(programs[measure.program])

    def key_of(self, spec: RunSpec) -> tuple[object, ...]:
        """Runs with the same key stand for one planned run: a batch counts only where the task plans several."""
        mine = spec.label, spec.tuning
        batches = {each.spec.batch_size for each in self.runs if (each.spec.label, each.spec.tuning) == mine}
        return (*mine, spec.batch_size) if len(batches) > 1 else mine

    @property
    def copies_to_start(self) -> tuple[tuple[str, str], ...]:
        """(original, new script) pairs that the student is asked to make."""
        return tuple((each.original, each.script) for each in self.checks if isinstance(each, EditedCheck))

    @property
    def own_runs_check(self) -> RunsCheck:
        """The check of the task's own runs; one with the default conditions if it has none."""
        checks = (check for check in self.checks if isinstance(check, RunsCheck) and not check.tasks)
        return next(checks, RunsCheck())


class Excerpt(Table, frozen=True, kw_only=True):
    """Lines to show on a page: of a script in `scripts/`, or of a job of the page's task.

    `source` is a script's name, ``job`` (the job script without labtui's header), ``out`` or ``err`` (its logs), or
    ``changes`` (the student's changes to the script the task edits). `lines` are regular expressions: only matching
    lines are shown; without any, the whole text. With `parts`, the whole text is shown, and each name in `parts`
    labels the first line that the expression at the same position matches.
    """

    source: str
    lines: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.parts and len(self.parts) != len(self.lines):
            raise ValueError("`parts` and `lines` must have the same length.")
        for pattern in self.lines:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"`lines`: {pattern!r} is not a regular expression: {error}.") from None


class HandInPage(Table, frozen=True, kw_only=True):
    """One page of what is handed in (one section if it is a report).

    `answers` are numbers of the task's questions, from 1 (empty: all); the first answer gives the title. `heading` is
    the title if there is neither an answer nor a number to make one from. `models` limits the charts to these models;
    `target` is the accuracy marked in the accuracy chart; with `bars`, epoch time and speedup are bar charts.
    """

    kind: Literal["overview", "task", "conclusions", "sources"] = "task"
    task: str = ""
    heading: str = ""
    answers: tuple[fields.Count, ...] = ()
    charts: tuple[str, ...] = ()
    table: Literal["results", "readings", "fractions"] | None = None
    models: tuple[str, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    target: Annotated[float, Meta(gt=0, lt=1)] | None = None
    bars: bool = False

    def __post_init__(self) -> None:
        if self.kind == "task" and not self.task:
            raise ValueError("`task` is missing: a page of the kind 'task' needs one.")


class HandIn(Table, frozen=True, kw_only=True):
    """What is handed in, where, and how it is graded; `pages` are in order, slides or the sections of a report."""

    what: str
    where: str
    note: str = ""
    form: Literal["slides", "report"] = "slides"
    pages: tuple[HandInPage, ...] = ()


DECKS = {"pptx": "deck.pptx", "pdf": "deck.pdf"}
"""The file of each format of slides."""


class Edition(Table, frozen=True, kw_only=True, dict=True):
    """A whole assignment. `source` is the document it follows.

    `programs` are those that tasks measure; `scripts` are the course's own, which do not come with labtui. `extends` is
    the id of an edition that this one changes: what its file leaves out is taken from there. `published_in` is the id
    of an edition whose published numbers apply here, too. `images` is the number of images per epoch,
    `base_learning_rate` the rate on one GPU, `startup_seconds` the usual and the longest time before a run's first
    epoch (container, imports, data). `names` maps the model names in logs to those that people read.
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
    images: fields.Count = 50_000
    base_learning_rate: fields.Positive = 0.01
    startup_seconds: tuple[Annotated[float, Meta(ge=0)], fields.Positive] = (20.0, 90.0)
    hand_in: HandIn = HandIn(what="", where="")
    names: dict[str, str] = msgspec.field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    published: tuple[Publication, ...] = ()

    def __post_init__(self) -> None:
        if self.startup_seconds[0] > self.startup_seconds[1]:
            raise ValueError("`startup_seconds` is a range: the smaller number first.")
        if self.extends and self.published_in:
            raise ValueError("`published_in` is of no use beside `extends`, which takes those numbers, too.")
        programs = {program.name: program.program for program in self.programs}
        for task in self.tasks:
            # No field of the TOML, as other tables decide it: kept in the struct's dict.
            task.__dict__["runs"] = tuple(task.planned(programs))

    @cached_property
    def bands(self) -> tuple[Band, ...]:
        return bands_of([row for table in self.published for row in table.complete_rows()])

    def task(self, task_id: str) -> Task | None:
        return next((task for task in self.tasks if task.id == task_id), None)

    def tasks_of(self, task: Task, names: Sequence[str]) -> tuple[Task, ...]:
        """The tasks whose runs a check of `task` considers: those in `names`, or `task` itself if there are none."""
        found = (self.task(name) for name in names)
        return tuple(each for each in found if each is not None) if names else (task,)

    def facts_of(self, task: Task) -> tuple[Fact, ...]:
        """The facts of a task and of its questions, without duplicates, in the order they are named."""
        names = dict.fromkeys([*task.facts, *(name for q in task.questions for name in q.facts)])
        facts = {fact.id: fact for fact in self.facts}
        return tuple(facts[name] for name in names if name in facts)

    @property
    def student_scripts(self) -> frozenset[str]:
        """The scripts that a student makes by changing a copy of another script."""
        return frozenset(script for task in self.tasks for _, script in task.copies_to_start)

    @property
    def run_scripts(self) -> tuple[str, ...]:
        """The scripts that its runs start."""
        return tuple(dict.fromkeys(plan.spec.script for task in self.tasks for plan in task.runs))

    @property
    def framework_scripts(self) -> tuple[str, ...]:
        """The scripts for several nodes that its runs start: each framework has a folder of them."""
        return tuple(name for name in self.run_scripts if name.startswith(("pytorch/", "tensorflow/")))

    def needs(self, name: str) -> bool:
        """Whether a new lab folder gets a script that comes with labtui: only what is needed, as each job gets all.

        It gets none that the student is to make, no folder of which nothing is started, and for programs no training.
        """
        folder = name[: name.find("/") + 1]
        if folder in ("", "cifar-utils/"):
            wanted = not self.programs or any(plan.form != "mpi" for task in self.tasks for plan in task.runs)
        else:
            sources = (source for program in self.programs for source in program.sources)
            wanted = any(each.startswith(folder) for each in (*self.run_scripts, *sources))
        return wanted and name not in self.student_scripts


def images_of(edition: Edition, data_set: str, task: Task | None) -> int:
    """The planned images per epoch of a run of a task: those of its data set, else those of the edition."""
    plans = [plan for each in (task, *edition.tasks) if each is not None for plan in each.runs]
    own = (plan.images for plan in plans if plan.spec.data_set == data_set and plan.images)
    return next(own, edition.images)
