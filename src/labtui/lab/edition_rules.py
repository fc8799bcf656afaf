"""The rules that involve several tables of an edition; a broken one yields the place and one sentence.

The rules of a single table are constraints of its struct.
"""

from collections.abc import Collection, Iterator, Mapping

import msgspec

from labtui.domain.errors import DataError, suggest
from labtui.lab.edition import Edition, HandInCheck, Task
from labtui.lab.fields import Place, Problem
from labtui.lab.runs import PublishedRow
from labtui.results.charts import FAMILIES
from labtui.results.grouping import devices
from labtui.training_logs.patterns import line_pattern

_SCRIPTS = ("original", "sources", "Sweep.script", "Task.files", "FilesCheck.files")
REFERENCES = {"program": "program", "facts": "fact", "Excerpt.source": "source"}
REFERENCES |= dict.fromkeys(("task", "tasks"), "task") | dict.fromkeys(("models", "FitCheck.model"), "model")
REFERENCES |= dict.fromkeys(_SCRIPTS, "script") | dict.fromkeys(("charts", "Question.chart"), "chart")
"""The kind of thing that each field names; the key has the struct if the field names it only there."""
MISSING = {
    "program": "There is no program {!r} under `[[programs]]`.",
    "chart": "There is no chart {!r}.",
    "fact": "There is no fact with the id {!r}.",
    "task": "There is no task {!r}.",
    "model": "No task plans a run of {!r}.",
    "source": "{!r} is neither a script of a task nor job, out, err or changes.",
    "script": "{!r} does not come with labtui, and no task makes it; a script of the course goes into `scripts`.",
}


def cross_references(edition: Edition, available: Mapping[str, Collection[str]]) -> Iterator[Problem]:
    """Yield what is inconsistent between an edition's tables, the most basic problems first.

    `available` are the existing scripts (``script``); a kind that is not in it is not checked.
    """
    yield from _duplicate_ids(edition)
    known = {**_known_names(edition), **available}
    if "script" in known:
        known["script"] = {*known["script"], *edition.student_scripts, *edition.scripts}
    for place, kind, name in references(edition):
        if kind in known and name not in known[kind]:
            yield place, f"{MISSING[kind].format(name)}{suggest(name, known[kind])}"
    for index, program in enumerate(edition.programs):
        for number, line in enumerate(program.lines):
            try:
                line_pattern(line)
            except DataError as error:
                yield ("programs", index, "lines", number), error.sentence
    for index, task in enumerate(edition.tasks):
        yield from _task_problems(edition, task, ("tasks", index))
    for index, table in enumerate(edition.published):
        for number, row in enumerate(table.complete_rows()):
            yield from _published_problems(edition, row, ("published", index, "rows", number))
    weights = [task.weight for task in edition.tasks if task.weight is not None]
    if weights and abs(sum(weights) - 100) > 1e-6:
        yield ("tasks",), f"The weights of the tasks add up to {sum(weights):g} percent, not to 100."
    yield from _page_problems(edition)


def references(value: object, place: Place = (), kind: str = "") -> Iterator[tuple[Place, str, str]]:
    """Every reference in an edition: its place, the kind of what it names, the name."""
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            named = REFERENCES.get(f"{type(value).__name__}.{field}", REFERENCES.get(field, ""))
            yield from references(getattr(value, field), (*place, field), named)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from references(item, (*place, index), kind)
    elif isinstance(value, str) and value and kind:
        yield place, kind, value


def _known_names(edition: Edition) -> dict[str, Collection[str]]:
    """The names that the edition itself defines, by kind."""
    specs = [run.spec for task in edition.tasks for run in task.runs]
    files = {name for task in edition.tasks for name in task.files}
    return {
        "program": [program.name for program in edition.programs],
        "chart": FAMILIES.keys() - {"gpu-utilisation"},  # which is of one job
        "fact": [fact.id for fact in edition.facts],
        "task": [task.id for task in edition.tasks],
        "model": {spec.model for spec in specs},
        "source": {"job", "out", "err", "changes", *files, *(spec.script for spec in specs)},
    }


def _duplicate_ids(edition: Edition) -> Iterator[Problem]:
    """Duplicate ids, compared without case because ids become file names."""
    for table, key in (("tasks", "id"), ("facts", "id"), ("programs", "name")):
        names = [getattr(item, key) for item in getattr(edition, table)]
        for index, name in enumerate(names):
            if name.casefold() in map(str.casefold, names[:index]):
                yield (table, index, key), f"There are two {table} with the {key} {name!r}."


def _published_problems(edition: Edition, row: PublishedRow, place: Place) -> Iterator[Problem]:
    """A row has a source and is about a planned run."""
    what = f"{row.model} on {row.processes or devices(row.gpus or 0)}"
    if not row.source and row.outcome == "completed":
        yield place, f"The published numbers of {what} need a `source`."
    ratio = row.speedup or row.efficiency or row.acceleration
    plans = [run.spec for task in edition.tasks for run in task.runs if row.task in ("", task.id)]
    sizes = {(run.model, run.n_gpus) for run in plans} if ratio else set()
    if (row.model, row.gpus) not in sizes and not any(map(row.matches, plans)):
        models = dict.fromkeys(run.model for run in plans)
        near = "" if row.model in models else suggest(row.model, models)
        yield place, f"No task plans such a run of {what}, so these numbers are never used.{near}"


def _task_problems(edition: Edition, task: Task, place: Place) -> Iterator[Problem]:
    """No run is planned twice, since one run would count for both, and no batch is larger than the data set."""
    seen: set[tuple[object, ...]] = set()
    for index, run in ((i, run) for i, sweep in enumerate(task.sweeps) for run in sweep.runs()):
        spec, images = run.spec, run.images or edition.images
        key = (spec.model, spec.n_gpus, spec.batch_size, spec.data_set, spec.tuning)
        where = f"{spec.model} on {devices(spec.n_gpus)} with batch {spec.batch_size:,}"
        if key in seen:
            yield (*place, "sweeps", index), f"Task {task.id} plans {where} twice."
        seen.add(key)
        if spec.batch_size > images:
            what = f"A batch of {spec.batch_size:,} is more than all {images:,} images."
            yield (*place, "sweeps", index, "batch"), what


def _page_problems(edition: Edition) -> Iterator[Problem]:
    """Pages show only existing answers, and every task that is handed in has a page."""
    pages = edition.hand_in.pages
    for index, page in enumerate(pages):
        task = edition.task(page.task)
        questions = len(task.questions) if task is not None else 0
        for number in page.answers:
            if number > questions:
                what = f"Task {page.task} has {questions} questions, so there is no answer {number}."
                yield ("hand_in", "pages", index, "answers"), what
    for index, task in enumerate(edition.tasks):
        paper = all(isinstance(check, HandInCheck) for check in task.checks)
        if pages and task.handed_in and not paper and all(page.task != task.id for page in pages):
            yield ("tasks", index), f"Task {task.id} is handed in, but no page under `hand_in` shows it."
