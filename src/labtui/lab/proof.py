"""Checks an edition: the rules that involve several of its tables, and the proof of each task's box.

The rules of a single table are constraints of its struct; a broken rule here yields the place and one sentence. The
proof: a box is open without evidence, and ticked once every planned run went as published. The evidence for that is
made from the published numbers (the times), the plan and the checks (everything else).
"""

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from labtui.domain.errors import DataError
from labtui.domain.model import EpochSample, Interval, RunPhase, RunSpec, plural
from labtui.domain.state import LabState, RunState
from labtui.lab.checks import check_task
from labtui.lab.edition import ChartsCheck, EditedCheck, Edition, HandInCheck, MetricCheck, Task
from labtui.lab.evidence import AnswerSheet, Evidence, ExportFact, FileFact
from labtui.lab.fields import Place, Problem
from labtui.lab.plan import expected_learning_rate, planned_specs
from labtui.lab.runs import PublishedRow, RunPlan
from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_state
from labtui.training_logs.patterns import line_pattern

REFERENCES = {
    "program": "program",
    "facts": "fact",
    "task": "task",
    "tasks": "task",
    "models": "model",
    "FitCheck.model": "model",
    "Excerpt.source": "source",
    "original": "script",
    "sources": "script",
    "Sweep.script": "script",
    "Task.files": "script",
    "FilesCheck.files": "script",
    "profiles": "profile",
}
"""The kind of thing that each field names; the key has the struct if the field names it only there."""
MISSING = {
    "program": "There is no program {!r} under `[[programs]]`.",
    "fact": "There is no fact with the id {!r}.",
    "task": "There is no task {!r}.",
    "model": "No task plans a run of {!r}.",
    "source": "{!r} is neither a script of a task nor job, out, err or changes.",
    "script": "{!r} does not come with labtui, and no task makes it; a script of the course goes into `scripts`.",
    "profile": "There is no cluster profile {!r}.",
}


def describe(model: str, gpus: int) -> str:
    """Return a configuration in words: ``ResNet50 on 2 GPUs``."""
    return f"{model} on {plural(gpus, 'GPU')}" if gpus else f"{model} on a CPU"


def cross_references(edition: Edition, available: Mapping[str, Collection[str]]) -> Iterator[Problem]:
    """Yield what is inconsistent between an edition's tables, the most basic problems first.

    `available` are the existing scripts (``script``) and cluster profiles (``profile``); a kind that is not in it is
    not checked.
    """
    yield from _duplicate_ids(edition)
    known = {**_known_names(edition), **available}
    if "script" in known:
        known["script"] = {*known["script"], *edition.own_scripts, *edition.scripts}
    for place, kind, name in references(edition):
        if kind in known and name not in known[kind]:
            yield place, f"{MISSING[kind].format(name)}{_suggest(name, known[kind])}"
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
        "fact": [fact.id for fact in edition.facts],
        "task": [task.id for task in edition.tasks],
        "model": {spec.model for spec in specs},
        "source": {"job", "out", "err", "changes", *files, *(spec.script for spec in specs)},
    }


def _suggest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def _duplicate_ids(edition: Edition) -> Iterator[Problem]:
    """Duplicate ids, compared without case because ids become file names."""
    for table, key in (("tasks", "id"), ("facts", "id"), ("programs", "name")):
        seen: set[str] = set()
        for index, item in enumerate(getattr(edition, table)):
            name = getattr(item, key)
            if name.casefold() in seen:
                yield (table, index, key), f"There are two {table} with the {key} {name!r}."
            seen.add(name.casefold())


def _published_problems(edition: Edition, row: PublishedRow, place: Place) -> Iterator[Problem]:
    """A row has a source and is about a planned run."""
    what = f"{row.model} on {row.processes}" if row.processes else describe(row.model, row.gpus or 0)
    if not row.source and row.outcome == "completed":
        yield place, f"The published numbers of {what} need a `source`."
    ratio = row.speedup or row.efficiency or row.acceleration
    plans = [run.spec for task in edition.tasks for run in task.runs if row.task in ("", task.id)]
    if not any(
        row.matches(run) or (ratio and (row.model, row.gpus) == (run.model, run.n_gpus)) for run in plans
    ):
        models = dict.fromkeys(run.model for run in plans)
        near = "" if row.model in models else _suggest(row.model, models)
        yield place, f"No task plans such a run of {what}, so these numbers are never used.{near}"


def _task_problems(edition: Edition, task: Task, place: Place) -> Iterator[Problem]:
    """No run is planned twice, since one run would count for both, and no batch is larger than the data set."""
    seen: set[tuple[object, ...]] = set()
    for index, run in ((i, run) for i, sweep in enumerate(task.sweeps) for run in sweep.runs()):
        spec, images = run.spec, run.images or edition.images
        key = (spec.model, spec.n_gpus, spec.batch_size, spec.data_set, spec.tuning)
        where = f"{describe(spec.model, spec.n_gpus)} with batch {spec.batch_size:,}"
        if key in seen:
            yield (*place, "sweeps", index), f"Task {task.id} plans {where} twice."
        seen.add(key)
        if spec.batch_size > images:
            what = f"A batch of {spec.batch_size:,} is more than all {images:,} images."
            yield (*place, "sweeps", index, "batch"), what


def _page_problems(edition: Edition) -> Iterator[Problem]:
    """Pages show only existing answers, and every task that is handed in has a page."""
    pages = edition.hand_in.pages if edition.hand_in is not None else ()
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


# --------------------------------------------------------------------------- the proof of each box

_UNKNOWN_SECONDS = 10.0
"""The time of an epoch if nothing is published."""
_ACCURACY = 0.3


class Proof(NamedTuple):
    """Whether a box is open without evidence and ticked by all planned runs; `sentence` says what is wrong."""

    task: str
    open_on_empty_folder: bool
    ticked_when_all_is_done: bool
    sentence: str

    @property
    def holds(self) -> bool:
        return self.open_on_empty_folder and self.ticked_when_all_is_done


def prove(edition: Edition) -> Iterator[Proof]:
    """Check every task of an edition without evidence and with that of all planned runs."""
    evidence = published_evidence(edition)
    for task in edition.tasks:
        empty, full = check_task(edition, task, Evidence()), check_task(edition, task, evidence)
        sentence = "" if full.done else f"The task is not done when all its runs are: {full.missing}"
        if empty.done:
            sentence = "The task counts as done in an empty folder."
        yield Proof(task.id, not empty.done, full.done, sentence)


def published_evidence(edition: Edition) -> Evidence:
    """The evidence of a finished lab: all planned runs with the published numbers, every question answered."""
    scripts, checks = _scripts(edition), [check for task in edition.tasks for check in task.checks]
    runs: dict[int, RunState] = {}
    for task in edition.tasks:
        for plan, spec in zip(task.runs, planned_specs(task), strict=True):
            runs[len(runs) + 1] = _run(edition, task, plan, spec, len(runs) + 1)
    state = LabState(runs=MappingProxyType(runs))
    return Evidence(
        state=state,
        results=compute_results(measured_from_state(state), images=edition.images),
        scripts=scripts,
        originals={path: fact for path, fact in scripts.items() if path not in edition.own_scripts},
        exports=tuple(
            ExportFact(path=f"plots/{chart}.png", chart=chart, models=check.models)
            for check in checks
            if isinstance(check, ChartsCheck)
            for chart in check.charts
        ),
        answers={task.id: AnswerSheet(("answered",) * len(task.questions)) for task in edition.tasks},
        files=frozenset(check.files[0] for check in checks if isinstance(check, HandInCheck)),
    )


def published_row(edition: Edition, task: Task, plan: RunPlan) -> PublishedRow | None:
    """The published row for a planned run: one of this task, else one that names no task, else one of another task."""
    fitting = [row for row in edition.published_rows if row.matches(plan.spec) and _has_numbers(row)]
    fitting.sort(key=lambda row: (row.task != task.id, bool(row.task), row.tuning is None))
    return fitting[0] if fitting else None


def _has_numbers(row: PublishedRow) -> bool:
    return bool(row.epoch_seconds or row.seconds or row.throughput) or row.outcome != "completed"


def _run(edition: Edition, task: Task, plan: RunPlan, spec: RunSpec, run_id: int) -> RunState:
    """A planned run as it would have gone, with as many epochs as its published outcome allows."""
    own = task.own_runs_check
    row = published_row(edition, task, plan) or PublishedRow(outcome=own.outcomes[0])
    count = spec.epochs if row.throughput is None else 0
    if row.outcome != "completed":  # ended in its last epoch, or at the start if no times are published
        count = spec.epochs - 1 if row.epoch_seconds else own.min_epochs
    return RunState(
        run_id=run_id,
        token=f"published-{run_id}",
        task_id=task.id,
        spec=spec,
        phase=RunPhase.DONE if row.outcome == "completed" else RunPhase.FAILED,
        epochs=tuple(_epoch(task, row, number, count) for number in range(1, count + 1)),
        outcome=row.outcome,
        learning_rate=None if spec.program is not None else expected_learning_rate(edition, spec),
    )


def _epoch(task: Task, row: PublishedRow, number: int, count: int) -> EpochSample:
    """One of `count` epochs; for a program, its run time."""
    seconds = row.seconds or row.epoch_seconds or _UNKNOWN_SECONDS
    if number == 1 and row.seconds is None:
        seconds = row.first_epoch_seconds or 2 * seconds
    metrics = {"accuracy": row.accuracy or _ACCURACY}
    for check in task.checks:
        if isinstance(check, MetricCheck) and row.accuracy is None:
            metrics[check.metric] = check.at_least
    metrics = {name: value * number / count for name, value in metrics.items()}
    return EpochSample(epoch=number, seconds=Interval.exact(seconds), metrics=metrics, line=2 * number)


# --------------------------------------------------------------------------- files


def own_script_texts(edition: Edition) -> dict[str, str]:
    """The texts of the scripts that the student makes, with the names that the checks look for."""
    checks = [check for task in edition.tasks for check in task.checks if isinstance(check, EditedCheck)]
    texts: dict[str, str] = {}
    for check in checks:
        code = "".join(f"model = {name}\n" for name in check.names)
        texts[check.script] = texts.get(check.script, f"# from {check.original}\n") + code
    return texts


def _scripts(edition: Edition) -> dict[str, FileFact]:
    """Every script the edition names: the student's own, and any other one as a line with its name."""
    named = {name for _, kind, name in references(edition) if kind == "script"}
    texts = {name: f"# {name}\n" for name in named} | own_script_texts(edition)
    return {path: FileFact(path, text.encode()) for path, text in texts.items()}
