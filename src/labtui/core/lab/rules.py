"""What an edition must hold beyond its schema: numbers that agree, names that exist, text that cannot act.

Each rule yields the place and one sentence; the reader turns the first into an error with its line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

import msgspec

from labtui.core.lab.edition import (
    ChartsCheck,
    Check,
    EditedCheck,
    Edition,
    Fact,
    FilesCheck,
    FitCheck,
    HandInCheck,
    RunPlan,
    RunsCheck,
    Task,
)
from labtui.core.lab.places import Place

Problem = tuple[Place, str]
_ID = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
_TASK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,15}")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""Control characters and invisible ones that reorder or hide text: never needed in a lab sheet."""
MAX_TEXT = 8_000


def problems(edition: Edition) -> Iterator[Problem]:
    """Everything wrong with an edition that decoded, most basic first."""
    yield from _values(msgspec.to_builtins(edition), ())
    if not _ID.fullmatch(edition.id):
        yield ("id",), f"`id` is small letters, digits, dots and dashes, not {edition.id!r}."
    if not edition.tasks:
        yield ("tasks",), "An edition needs at least one task."
    yield from _numbers(edition)
    yield from _unique(((("tasks", i, "id"), task.id) for i, task in enumerate(edition.tasks)), "task")
    yield from _unique(((("facts", i, "id"), fact.id) for i, fact in enumerate(edition.facts)), "fact")
    yield from _bands(edition)
    for index, task in enumerate(edition.tasks):
        yield from _task(edition, task, ("tasks", index))
    yield from _weights(edition)
    yield from _reference(edition)


def _values(value: object, place: Place) -> Iterator[Problem]:
    """Text that could act on a terminal, text without end, numbers that are none."""
    if isinstance(value, str):
        if match := _ACTIVE.search(value):
            yield place, f"There is a control or invisible character (U+{ord(match[0]):04X}) in this text."
        if len(value) > MAX_TEXT:
            yield place, f"This text has more than {MAX_TEXT:,} characters."
    elif isinstance(value, float) and not math.isfinite(value):
        yield place, "This must be a finite number."
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _values(item, (*place, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _values(item, (*place, index))


def _numbers(edition: Edition) -> Iterator[Problem]:
    if edition.images < 1:
        yield ("images",), "`images` counts the training images of one epoch and is at least 1."
    if edition.base_learning_rate <= 0:
        yield ("base_learning_rate",), "`base_learning_rate` must be above 0."
    low, high = edition.startup_seconds
    if not 0 <= low <= high:
        yield ("startup_seconds",), "`startup_seconds` is a range: two numbers from 0 on, the smaller first."


def _unique(items: Iterable[tuple[Place, str]], what: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for place, name in items:
        if name in seen:
            yield place, f"There are two {what}s with the id {name!r}."
        seen.add(name)


def _bands(edition: Edition) -> Iterator[Problem]:
    for index, band in enumerate(edition.bands):
        if not 0 < band.low <= band.high:
            yield (
                ("bands", index),
                f"A band goes from low to high, both above 0, not from {band.low} to {band.high}.",
            )
        if band.gpus < 0:
            yield ("bands", index, "gpus"), "`gpus` is 0 for a CPU, else the number of GPUs."
        if not band.source.strip():
            yield ("bands", index, "source"), "A band needs its source."


def _task(edition: Edition, task: Task, place: Place) -> Iterator[Problem]:
    if not _TASK_ID.fullmatch(task.id):
        yield (*place, "id"), f"A task's id is its number, like 6 or 10.5, not {task.id!r}."
    for name in ("title", "what", "why"):
        if not getattr(task, name).strip():
            yield (*place, name), f"Task {task.id} needs a text for `{name}`."
    if not task.checks:
        yield (*place, "checks"), f"Task {task.id} has no check, so its box could never tick."
    for index, name in enumerate(task.files):
        yield from _path(name, (*place, "files", index))
    for index, run in enumerate(task.runs):
        yield from _run(run, (*place, "runs", index))
    yield from _known_facts(edition.facts, task.facts, (*place, "facts"))
    for index, question in enumerate(task.questions):
        if not question.text.strip():
            yield (*place, "questions", index), "A question needs its text."
        yield from _known_facts(edition.facts, question.facts, (*place, "questions", index, "facts"))
    for index, check in enumerate(task.checks):
        yield from _check(edition, task, check, (*place, "checks", index))


def _path(name: str, place: Place) -> Iterator[Problem]:
    if not _PATH.fullmatch(name) or ".." in name.split("/"):
        yield place, f"{name!r} is not a plain file name below the lab folder (letters, digits, . _ - and /)."


def _run(run: RunPlan, place: Place) -> Iterator[Problem]:
    yield from _path(run.script, (*place, "script"))
    if not _MODEL.fullmatch(run.model):
        yield (*place, "model"), f"{run.model!r} is not a model name."
    if (run.device == "cpu") != (run.gpus == 0) or run.gpus < 0:
        yield (*place, "gpus"), "A CPU run has `gpus = 0`, a GPU run at least 1."
    if (run.form == "cpu") != (run.device == "cpu"):
        yield (*place, "form"), f"The form {run.form!r} does not fit the device {run.device!r}."
    if run.form == "one-gpu" and run.gpus != 1:
        yield (*place, "form"), "The form 'one-gpu' is for exactly one GPU; take one-job or job-per-size."
    for name in ("batch_size", "epochs"):
        if getattr(run, name) < 1:
            yield (*place, name), f"`{name}` is at least 1."
    for name in ("cpus", "time_limit_minutes"):
        if (number := getattr(run, name)) is not None and number < 1:
            yield (*place, name), f"`{name}` is at least 1."
    if run.learning_rate is not None and run.learning_rate <= 0:
        yield (*place, "learning_rate"), "`learning_rate` must be above 0."
    yield from _batches(run, place)


def _batches(run: RunPlan, place: Place) -> Iterator[Problem]:
    if run.device == "cpu":
        if run.per_gpu_batch is not None:
            yield (*place, "per_gpu_batch"), "A CPU run has no per-GPU batch."
    elif run.per_gpu_batch is None:
        yield place, "A GPU run says both batches: `batch_size` (global) and `per_gpu_batch`."
    elif run.per_gpu_batch * run.gpus != run.batch_size:
        yield (
            (*place, "batch_size"),
            f"The global batch is {run.batch_size}, but {run.gpus} x {run.per_gpu_batch} per GPU is "
            f"{run.gpus * run.per_gpu_batch}.",
        )


def _known_facts(known: tuple[Fact, ...], names: tuple[str, ...], place: Place) -> Iterator[Problem]:
    ids = {fact.id for fact in known}
    for index, name in enumerate(names):
        if name not in ids:
            yield (*place, index), f"There is no fact with the id {name!r}."


def _check(edition: Edition, task: Task, check: Check, place: Place) -> Iterator[Problem]:
    for index, name in enumerate(check.tasks):
        if edition.task(name) is None:
            yield (*place, "tasks", index), f"There is no task {name!r}."
    sources = [edition.task(name) for name in check.tasks] if check.tasks else [task]
    planned = [run for source in sources if source is not None for run in source.runs]
    kind = str(check.__struct_config__.tag)
    if kind in {"runs", "constant-batch", "learning-rate", "metric"} and not planned:
        yield place, f"The check {kind!r} looks at runs, but none are planned in the tasks it names."
    if isinstance(check, RunsCheck) and (check.min_epochs < 0 or not check.outcomes):
        yield place, "A runs check needs `min_epochs` from 0 on and at least one outcome."
    if kind == "answers" and not task.questions:
        yield place, f"Task {task.id} asks no question, so there is nothing to answer."
    if isinstance(check, ChartsCheck) and not check.charts:
        yield place, "A charts check names at least one chart."
    if isinstance(check, FitCheck) and not check.laws:
        yield place, "A fit check names at least one law."
    if isinstance(check, EditedCheck):
        yield from _path(check.script, (*place, "script"))
        yield from _path(check.original, (*place, "original"))
        if not check.names:
            yield place, "An edited check says which names the script must hold."
    if isinstance(check, FilesCheck | HandInCheck):
        if not check.files:
            yield place, "A files check names at least one file."
        for index, name in enumerate(check.files):
            yield from _path(name, (*place, "files", index))


def _weights(edition: Edition) -> Iterator[Problem]:
    weights = [task.weight for task in edition.tasks if task.weight is not None]
    if any(weight < 0 for weight in weights):
        yield ("tasks",), "A weight is a share of the mark in percent, from 0 on."
    if weights and abs(sum(weights) - 100) > 1e-6:
        yield ("tasks",), f"The weights of the tasks add up to {sum(weights):g} percent, not to 100."


def _reference(edition: Edition) -> Iterator[Problem]:
    for index, run in enumerate(edition.reference.runs):
        place: Place = ("reference", "runs", index)
        if run.first_epoch_seconds <= 0 or run.epoch_seconds <= 0:
            yield place, "Reference times are seconds above 0."
        if run.task and edition.task(run.task) is None:
            yield (*place, "task"), f"There is no task {run.task!r}."
    for index, script in enumerate(edition.reference.scripts):
        yield from _path(script.path, ("reference", "scripts", index, "path"))
    known = {(run.model, run.gpus) for run in edition.reference.runs}
    for i, task in enumerate(edition.tasks):
        for j, plan in enumerate(task.runs):
            if (plan.model, plan.gpus) not in known:
                what = f"{plan.model} on {plan.gpus} GPUs" if plan.gpus else f"{plan.model} on a CPU"
                yield ("tasks", i, "runs", j), f"The reference has no time for {what}."
