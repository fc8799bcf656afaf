"""What an edition must hold beyond its schema: numbers that agree, names that exist, text that cannot act.

Each rule yields the place and one sentence; the reader turns the first into an error with its line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from labtui.core.lab.edition import Band, Edition, ReferenceRun, RunsCheck
from labtui.core.lab.places import Place
from labtui.core.lab.rules_tasks import on, script_problems, task_problems
from labtui.core.lab.rules_text import Problem, blanks_and_echoes, path, unique, values

_ID = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What an edition may name without bringing it: scripts that come with labtui, cluster profiles."""

    scripts: frozenset[str] = field(default_factory=frozenset)
    profiles: frozenset[str] = field(default_factory=frozenset)


def problems(edition: Edition, known: Known | None = None) -> Iterator[Problem]:
    """Everything wrong with an edition that decoded, most basic first.

    Without `known`, scripts and cluster profiles are taken as they are named.
    """
    plain = msgspec.to_builtins(edition)
    yield from values(plain, ())
    if not _ID.fullmatch(edition.id):
        yield ("id",), f"`id` is small letters, digits, dots and dashes, not {edition.id!r}."
    if not edition.tasks:
        yield ("tasks",), "An edition needs at least one task."
    yield from _numbers(edition)
    yield from unique(((("tasks", i, "id"), task.id) for i, task in enumerate(edition.tasks)), "task")
    yield from unique(((("facts", i, "id"), fact.id) for i, fact in enumerate(edition.facts)), "fact")
    yield from _bands(edition)
    for index, task in enumerate(edition.tasks):
        yield from task_problems(edition, task, ("tasks", index))
    yield from _weights(edition)
    yield from _reference(edition)
    yield from _facts(edition)
    yield from blanks_and_echoes(plain, ())
    if known is not None:
        yield from _profiles(edition, known.profiles)
        yield from script_problems(edition, known.scripts)


def _numbers(edition: Edition) -> Iterator[Problem]:
    if edition.images < 1:
        yield ("images",), "`images` counts the training images of one epoch and is at least 1."
    if edition.base_learning_rate <= 0:
        yield ("base_learning_rate",), "`base_learning_rate` must be above 0."
    low, high = edition.startup_seconds
    if not 0 <= low <= high:
        yield ("startup_seconds",), "`startup_seconds` is a range: two numbers from 0 on, the smaller first."


def _planned(edition: Edition) -> set[tuple[str, int]]:
    return {(run.model, run.gpus) for task in edition.tasks for run in task.runs}


# --------------------------------------------------------------------------- bands


def _bands(edition: Edition) -> Iterator[Problem]:
    known = _planned(edition) | {(run.model, run.gpus) for run in edition.reference.runs}
    for index, band in enumerate(edition.bands):
        place: Place = ("bands", index)
        yield from _band(band, place)
        if (band.model, band.gpus) not in known:
            models = {model for model, _ in known}
            wrong = "gpus" if band.model in models else "model"
            yield (
                (*place, wrong),
                f"No task plans a run of {on(band.model, band.gpus)}, so this band is idle.",
            )
        most = _largest(edition, band)
        if most is not None and band.batch_size is not None and band.batch_size > most:
            what = f"{on(band.model, band.gpus)} is planned with a global batch of at most {most:,}"
            yield (*place, "batch_size"), f"{what}, so this band is idle."
        same = [_key(other) for other in edition.bands[:index]]
        if _key(band) in same:
            yield place, f"There are two bands of {band.quantity} for {on(band.model, band.gpus)}."


def _key(band: Band) -> tuple[str, str, int, int | None]:
    return band.quantity, band.model, band.gpus, band.batch_size


def _largest(edition: Edition, band: Band) -> int | None:
    """The largest batch planned for what a band is about; None when a task takes whatever batch fits (`any`)."""
    found = []
    for task in edition.tasks:
        plans = [run.batch_size for run in task.runs if (run.model, run.gpus) == (band.model, band.gpus)]
        if plans and any(isinstance(check, RunsCheck) and check.batch == "any" for check in task.checks):
            return None
        found += plans
    return max(found, default=None)


def _band(band: Band, place: Place) -> Iterator[Problem]:
    if not 0 < band.low <= band.high:
        yield place, f"A band goes from low to high, both above 0, not from {band.low} to {band.high}."
    if band.gpus < 0:
        yield (*place, "gpus"), "`gpus` is 0 for a CPU, else the number of GPUs."
    if band.batch_size is not None and band.batch_size < 1:
        yield (*place, "batch_size"), "`batch_size` is at least 1."
    elif band.batch_size is not None and band.batch_size % max(1, band.gpus):
        what = f"A global batch of {band.batch_size:,} cannot be shared evenly by {band.gpus} GPUs."
        yield (*place, "batch_size"), what
    if band.quantity in {"speedup", "efficiency"} and band.gpus < 2:
        yield (*place, "gpus"), f"A band of {band.quantity} is for two GPUs or more; say how many in `gpus`."
    if band.quantity == "acceleration" and band.gpus == 0:
        yield (
            (*place, "gpus"),
            "A band of acceleration is for a GPU run; the CPU is what it is compared with.",
        )
    if band.quantity == "efficiency" and band.high > 2:
        yield (*place, "high"), "An efficiency is a fraction of 1, not a percentage."
    if not band.source.strip():
        yield (*place, "source"), "A band needs its source."


# --------------------------------------------------------------------------- the whole edition


def _weights(edition: Edition) -> Iterator[Problem]:
    weights = [task.weight for task in edition.tasks if task.weight is not None]
    for index, task in enumerate(edition.tasks):
        if task.weight is not None and task.weight < 0:
            yield ("tasks", index, "weight"), "A weight is a share of the mark in percent, from 0 on."
    if weights and abs(sum(weights) - 100) > 1e-6:
        yield ("tasks",), f"The weights of the tasks add up to {sum(weights):g} percent, not to 100."


def _facts(edition: Edition) -> Iterator[Problem]:
    used = {fact.id for task in edition.tasks for fact in edition.facts_of(task)}
    for index, fact in enumerate(edition.facts):
        if fact.id not in used:
            yield ("facts", index), f"No task and no question names the fact {fact.id!r}, so nobody sees it."


def _profiles(edition: Edition, known: frozenset[str]) -> Iterator[Problem]:
    for index, name in enumerate(edition.profiles):
        if name not in known:
            listed = ", ".join(sorted(known))
            yield ("profiles", index), f"There is no cluster profile {name!r}; known are {listed}."


# --------------------------------------------------------------------------- reference


def _reference(edition: Edition) -> Iterator[Problem]:
    seen: Counter[tuple[str, int, str]] = Counter()
    for index, run in enumerate(edition.reference.runs):
        place: Place = ("reference", "runs", index)
        yield from _reference_run(edition, run, place)
        seen[run.model, run.gpus, run.task] += 1
        if seen[run.model, run.gpus, run.task] > 1:
            yield place, f"The reference has two times for {on(run.model, run.gpus)}."
    yield from unique(
        ((("reference", "scripts", i, "path"), s.path) for i, s in enumerate(edition.reference.scripts)),
        "script",
    )
    for index, script in enumerate(edition.reference.scripts):
        yield from path(script.path, ("reference", "scripts", index, "path"))
    for index, name in enumerate(edition.reference.files):
        yield from path(name, ("reference", "files", index))
    known = {(run.model, run.gpus) for run in edition.reference.runs}
    for i, task in enumerate(edition.tasks):
        for j, plan in enumerate(task.runs):
            if (plan.model, plan.gpus) not in known:
                yield ("tasks", i, "runs", j), f"The reference has no time for {on(plan.model, plan.gpus)}."
    planned = _planned(edition)
    for index, run in enumerate(edition.reference.runs):
        if (run.model, run.gpus) not in planned:
            what = f"The reference has a time for {on(run.model, run.gpus)}, which no task plans."
            yield ("reference", "runs", index), what


def _reference_run(edition: Edition, run: ReferenceRun, place: Place) -> Iterator[Problem]:
    if run.first_epoch_seconds <= 0 or run.epoch_seconds <= 0:
        yield place, "Reference times are seconds above 0."
    if not 0 <= run.accuracy <= 1:
        yield (*place, "accuracy"), "An accuracy is a fraction from 0 to 1."
    task = edition.task(run.task)
    if run.task and task is None:
        yield (*place, "task"), f"There is no task {run.task!r}."
    elif task is not None and (run.model, run.gpus) not in {(plan.model, plan.gpus) for plan in task.runs}:
        yield (*place, "task"), f"Task {run.task} plans no run of {on(run.model, run.gpus)}."
    plans = [plan for item in edition.tasks for plan in item.runs if task is None or item is task]
    epochs = [plan.epochs for plan in plans if (plan.model, plan.gpus) == (run.model, run.gpus)]
    if run.epochs_read is not None and not 0 <= run.epochs_read <= max(epochs, default=0):
        yield (
            (*place, "epochs_read"),
            f"`epochs_read` is from 0 to the {max(epochs, default=0)} epochs planned.",
        )
