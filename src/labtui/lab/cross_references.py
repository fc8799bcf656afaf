"""What tables of an edition say of each other: names that exist, numbers that agree.

What a single table may say is a constraint of its struct. Each rule yields the place and one sentence.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence

from labtui.domain.errors import DataError
from labtui.domain.model import RunSpec
from labtui.lab.edition import (
    ChartsCheck,
    Check,
    EditedCheck,
    Edition,
    FilesCheck,
    FitCheck,
    HandInCheck,
    HandInPage,
    Task,
)
from labtui.lab.fields import Place, Problem
from labtui.lab.runs import PublishedRow
from labtui.training_logs.patterns import line_pattern


def on(model: str, gpus: int) -> str:
    """A configuration in words: ``ResNet50 on 2 GPUs``."""
    return f"{model} on {gpus} GPU{'s' if gpus != 1 else ''}" if gpus else f"{model} on a CPU"


def cross_references(edition: Edition) -> Iterator[Problem]:
    """Everything that does not fit together in an edition, most basic first."""
    yield from _unique(edition)
    yield from _programs(edition)
    for index, task in enumerate(edition.tasks):
        yield from _task(edition, task, ("tasks", index))
    for index, table in enumerate(edition.published):
        for number, row in enumerate(table.whole_rows()):
            yield from _published(edition, row, ("published", index, "rows", number))
    weights = [task.weight for task in edition.tasks if task.weight is not None]
    if weights and abs(sum(weights) - 100) > 1e-6:
        yield ("tasks",), f"The weights of the tasks add up to {sum(weights):g} percent, not to 100."
    yield from _pages(edition)
    used = {fact.id for task in edition.tasks for fact in edition.facts_of(task)}
    for index, fact in enumerate(edition.facts):
        if fact.id not in used:
            what = f"No task and no question names the fact {fact.id!r}, so it is never shown."
            yield ("facts", index), what


def _unique(edition: Edition) -> Iterator[Problem]:
    """Ids of which there are two; capital letters make no difference, because they name files."""
    named: dict[str, tuple[str, Sequence[str]]] = {
        "tasks": ("id", [task.id for task in edition.tasks]),
        "facts": ("id", [fact.id for fact in edition.facts]),
        "programs": ("name", [program.name for program in edition.programs]),
    }
    for table, (key, names) in named.items():
        seen = [name.casefold() for name in names]
        for index, name in enumerate(names):
            if seen[index] in seen[:index]:
                yield (table, index, key), f"There are two {table} with the {key} {name!r}."


def _programs(edition: Edition) -> Iterator[Problem]:
    for index, program in enumerate(edition.programs):
        for number, line in enumerate(program.lines):
            try:
                line_pattern(line)
            except DataError as error:
                yield ("programs", index, "lines", number), error.sentence
    names = [program.name for program in edition.programs]
    for i, task in enumerate(edition.tasks):
        for j, measure in enumerate(task.measures):
            if measure.program not in names:
                what = f"There is no program {measure.program!r} under `[[programs]]`."
                yield ("tasks", i, "measures", j, "program"), f"{what}{_near(measure.program, names)}"


def _near(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


# --------------------------------------------------------------------------- published numbers


def _published(edition: Edition, row: PublishedRow, place: Place) -> Iterator[Problem]:
    """A row is about a planned run and says where it stands."""
    what = f"{row.model} on {row.processes}" if row.processes else on(row.model, row.gpus or 0)
    if not row.source and row.outcome == "completed":
        yield place, f"The published numbers of {what} need a `source`."
    if ((row.speedup or row.efficiency) and (row.gpus or 0) < 2) or (row.acceleration and not row.gpus):
        yield (
            (*place, "gpus"),
            "A speedup and an efficiency are of two GPUs or more, an acceleration of a GPU.",
        )
    ratio = row.speedup or row.efficiency or row.acceleration
    plans = [run.spec for task in edition.tasks for run in task.runs if row.task in ("", task.id)]
    if row.task and edition.task(row.task) is None:
        yield (*place, "task"), f"There is no task {row.task!r}."
    elif not any(row.is_about_run(run) or (ratio and _sized(row, run)) for run in plans):
        models = dict.fromkeys(run.model for run in plans)
        near = "" if row.model in models else _near(row.model, models)
        yield place, f"No task plans such a run of {what}, so these numbers are never used.{near}"


def _sized(row: PublishedRow, run: RunSpec) -> bool:
    return (row.model, row.gpus) == (run.model, run.n_gpus)


# --------------------------------------------------------------------------- tasks


def _task(edition: Edition, task: Task, place: Place) -> Iterator[Problem]:
    yield from _runs(edition, task, place)
    ids = {fact.id for fact in edition.facts}
    named = [((*place, "facts", i), name) for i, name in enumerate(task.facts)]
    for index, question in enumerate(task.questions):
        where = (*place, "questions", index, "facts")
        named += [((*where, i), name) for i, name in enumerate(question.facts)]
        if question.text in [other.text for other in task.questions[:index]]:
            yield (*place, "questions", index), "This question is asked twice."
    for at, name in named:
        if name not in ids:
            yield at, f"There is no fact with the id {name!r}."
    for index, check in enumerate(task.checks):
        yield from _check(edition, task, check, (*place, "checks", index))


def _runs(edition: Edition, task: Task, place: Place) -> Iterator[Problem]:
    """No run twice, since one would stand for both, and no batch that is larger than the data."""
    sweeps = [(i, run) for i, sweep in enumerate(task.sweeps) for run in sweep.runs()]
    seen: set[tuple[object, ...]] = set()
    for index, run in sweeps:
        spec, images = run.spec, run.images or edition.images
        key = (spec.model, spec.n_gpus, spec.batch_size, spec.data_set, spec.tuning)
        where = f"{on(spec.model, spec.n_gpus)} with batch {spec.batch_size:,}"
        if key in seen:
            yield (*place, "sweeps", index), f"Task {task.id} plans {where} twice."
        seen.add(key)
        if spec.batch_size > images:
            what = f"A batch of {spec.batch_size:,} is more than all {images:,} images."
            yield (*place, "sweeps", index, "batch"), what


def _check(edition: Edition, task: Task, check: Check, place: Place) -> Iterator[Problem]:
    for index, name in enumerate(check.tasks):
        if edition.task(name) is None:
            yield (*place, "tasks", index), f"There is no task {name!r}."
    sources = [edition.task(name) for name in check.tasks] if check.tasks else [task]
    planned = [run.spec for source in sources if source is not None for run in source.runs]
    kind = str(check.__struct_config__.tag)
    if kind in {"runs", "constant-batch", "learning-rate", "metric"} and not planned:
        yield place, f"The check {kind!r} looks at runs, but none are planned in the tasks it names."
    if kind == "answers" and not task.questions:
        yield place, f"Task {task.id} asks no question, so there is nothing to answer."
    models = {"models": check.models} if isinstance(check, ChartsCheck) else {}
    models |= {"model": (check.model,)} if isinstance(check, FitCheck) else {}
    for key, names in models.items():
        for model in names:
            yield from _planned_model(edition, model, (*place, key))


def _planned_model(edition: Edition, model: str, place: Place) -> Iterator[Problem]:
    models = {run.spec.model for task in edition.tasks for run in task.runs}
    if model not in models:
        yield place, f"No task plans a run of {model!r}.{_near(model, models)}"


# --------------------------------------------------------------------------- pages

_SOURCES = {"job", "out", "err", "changes"}


def _pages(edition: Edition) -> Iterator[Problem]:
    """The pages that are handed in: they name what there is, and every task that is handed in has one."""
    pages = edition.hand_in.pages if edition.hand_in is not None else ()
    for index, page in enumerate(pages):
        yield from _page(edition, page, ("hand_in", "pages", index))
    for index, task in enumerate(edition.tasks):
        paper = all(isinstance(check, HandInCheck) for check in task.checks)
        if pages and task.handed_in and not paper and all(page.task != task.id for page in pages):
            yield ("tasks", index), f"Task {task.id} is handed in, but no page under `hand_in` shows it."


def _page(edition: Edition, page: HandInPage, place: Place) -> Iterator[Problem]:
    task = edition.task(page.task)
    if page.task and task is None:
        yield (*place, "task"), f"There is no task {page.task!r}."
    questions = len(task.questions) if task is not None else 0
    for number in page.answers:
        if number > questions:
            what = f"Task {page.task} has {questions} questions, so there is no answer {number}."
            yield (*place, "answers"), what
    for model in page.models:
        yield from _planned_model(edition, model, (*place, "models"))
    known = {name for each in edition.tasks for name in each.files}
    known |= {run.spec.script for each in edition.tasks for run in each.runs}
    for number, excerpt in enumerate(page.excerpts):
        if excerpt.source not in _SOURCES | known:
            what = f"{excerpt.source!r} is neither a script of a task nor job, out, err or changes."
            yield (*place, "excerpts", number, "source"), what


# --------------------------------------------------------------------------- scripts that exist


def script_references(edition: Edition, shipped: frozenset[str]) -> Iterator[Problem]:
    """Scripts that nobody has: not labtui, not the student who copies one, not the course."""
    known = shipped | edition.own_scripts | set(edition.scripts)
    for place, name in named_scripts(edition):
        if name not in known:
            hint = _near(name, sorted(known)) or " A script of the course goes into `scripts`."
            yield place, f"{name!r} does not come with labtui, and no task makes it.{hint}"


def named_scripts(edition: Edition) -> Iterator[tuple[Place, str]]:
    """Every script that an edition names, and where; not those the student makes."""
    for i, task in enumerate(edition.tasks):
        for j, name in enumerate(task.files):
            yield ("tasks", i, "files", j), name
        for j, sweep in enumerate(task.sweeps):
            yield ("tasks", i, "sweeps", j, "script"), sweep.script
        for j, check in enumerate(task.checks):
            if isinstance(check, EditedCheck):
                yield ("tasks", i, "checks", j, "original"), check.original
            elif isinstance(check, FilesCheck):
                for k, name in enumerate(check.files):
                    yield ("tasks", i, "checks", j, "files", k), name
    for i, program in enumerate(edition.programs):
        for j, name in enumerate(program.sources):
            yield ("programs", i, "sources", j), name
