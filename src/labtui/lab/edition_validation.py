"""From TOML text to an `Edition`, or to one sentence that says what is wrong and on which line.

Three nets: TOML's grammar, the schema (unknown, missing and mistyped fields), and what a schema cannot say: numbers
that agree, names that exist, text that cannot act on a terminal or a shell. Each of these rules yields the place and
one sentence; the first becomes an error with its line.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, get_args

import msgspec

from labtui.domain.errors import DataError
from labtui.domain.model import Device, Outcome, TemplateForm
from labtui.lab import edition as schema
from labtui.lab.edition import Band, Edition, HandInCheck, HandInPage, ReferenceRun, RunsCheck, size_of
from labtui.lab.edition_task_validation import (
    Problem,
    blanks_and_echoes,
    on,
    path,
    program_problems,
    script_problems,
    task_problems,
    unique,
    values,
)
from labtui.lab.toml_positions import Overlay, Place, line_of

EDITION_ID = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?")


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
    if not EDITION_ID.fullmatch(edition.id):
        yield ("id",), f"`id` takes lowercase letters, digits, dots and dashes, not {edition.id!r}."
    if not edition.tasks:
        yield ("tasks",), "An edition needs at least one task."
    yield from _numbers(edition)
    yield from unique(((("tasks", i, "id"), task.id) for i, task in enumerate(edition.tasks)), "task")
    yield from unique(((("facts", i, "id"), fact.id) for i, fact in enumerate(edition.facts)), "fact")
    yield from unique(
        ((("programs", i, "name"), one.name) for i, one in enumerate(edition.programs)), "program"
    )
    yield from program_problems(edition)
    yield from _bands(edition)
    for index, task in enumerate(edition.tasks):
        yield from task_problems(edition, task, ("tasks", index))
    yield from _weights(edition)
    yield from _pages(edition)
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
        yield (
            ("startup_seconds",),
            "`startup_seconds` is a range: two numbers of 0 or more, the smaller first.",
        )


def _planned(edition: Edition) -> set[tuple[str, int]]:
    return {(run.model, run.gpus) for task in edition.tasks for run in task.runs}


def _plans(task: schema.Task, wanted: Band | ReferenceRun) -> list[schema.RunPlan]:
    """The runs of a task that a band or a reference time may be about."""
    return [run for run in task.runs if (run.model, run.gpus) == (wanted.model, wanted.gpus)]


# --------------------------------------------------------------------------- bands


def _bands(edition: Edition) -> Iterator[Problem]:
    known = _planned(edition) | {(run.model, run.gpus) for run in edition.reference.runs}
    for index, band in enumerate(edition.bands):
        place: Place = ("bands", index)
        yield from _band(band, place)
        if band.quantity == "program-seconds":
            yield from _program_band(edition, band, place)
            continue
        if (band.model, band.gpus) not in known:
            models = {model for model, _ in known}
            wrong = "gpus" if band.model in models else "model"
            what = f"No task plans a run of {on(band.model, band.gpus)}, so this band is never used."
            yield (*place, wrong), what
        most = _largest(edition, band)
        if most is not None and band.batch_size is not None and band.batch_size > most:
            what = f"{on(band.model, band.gpus)} is planned with a global batch of at most {most:,}"
            yield (*place, "batch_size"), f"{what}, so this band is never used."
        tunings = [run.tuning for task in edition.tasks for run in _plans(task, band)]
        if band.tuning is not None and tunings and band.tuning not in tunings:
            tunings_text = ", ".join(dict.fromkeys(", ".join(words) or "none" for words in tunings))
            what = f"{on(band.model, band.gpus)} is planned with other tuning: {tunings_text}."
            yield (*place, "tuning"), what
        same = [_key(other) for other in edition.bands[:index]]
        if _key(band) in same:
            yield place, f"There are two bands of {band.quantity} for {on(band.model, band.gpus)}."


def _program_band(edition: Edition, band: Band, place: Place) -> Iterator[Problem]:
    timed = {
        (run.model, run.processes, size)
        for task in edition.tasks
        for run in task.runs
        if run.form == "mpi"
        for size in (None, run.size)
    }
    if (band.model, band.processes, band.size) not in timed:
        yield (
            place,
            f"No task times {band.model} on {band.processes} with this size, so this band is never used.",
        )
    if sum(_key(other) == _key(band) for other in edition.bands) > 1:
        yield place, f"There are two bands of {band.model} on {band.processes}."


def _key(band: Band) -> tuple[object, ...]:
    kind = (band.quantity, band.model, band.gpus, band.batch_size, band.data_set, band.tuning)
    return (*kind, band.processes, band.size)


def _largest(edition: Edition, band: Band) -> int | None:
    """The largest batch planned for what a band is about; None when a task takes whatever batch fits (`any`)."""
    found = []
    for task in edition.tasks:
        plans = [run.batch_size for run in _plans(task, band)]
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
        what = f"A global batch of {band.batch_size:,} cannot be split evenly across {band.gpus} GPUs."
        yield (*place, "batch_size"), what
    if band.quantity in {"speedup", "efficiency"} and band.gpus < 2:
        yield (
            (*place, "gpus"),
            f"A band of {band.quantity} is for two GPUs or more; give the number in `gpus`.",
        )
    if band.quantity == "acceleration" and band.gpus == 0:
        what = "A band of acceleration is for a GPU run, which is compared with the CPU."
        yield (*place, "gpus"), what
    if band.quantity == "efficiency" and band.high > 2:
        yield (*place, "high"), "An efficiency is a fraction of 1, not a percentage."
    if not band.source.strip():
        yield (*place, "source"), "A band needs its source."


# --------------------------------------------------------------------------- the whole edition


def _weights(edition: Edition) -> Iterator[Problem]:
    weights = [task.weight for task in edition.tasks if task.weight is not None]
    for index, task in enumerate(edition.tasks):
        if task.weight is not None and task.weight < 0:
            yield ("tasks", index, "weight"), "A weight is a share of the mark in percent, 0 or more."
    if weights and abs(sum(weights) - 100) > 1e-6:
        yield ("tasks",), f"The weights of the tasks add up to {sum(weights):g} percent, not to 100."


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
    if page.kind == "task" and not page.task:
        yield place, "A page of the kind 'task' needs a `task`."
    questions = len(task.questions) if task is not None else 0
    for number in page.answers:
        if not 1 <= number <= questions:
            what = f"Task {page.task} has {questions} questions, so there is no answer {number}."
            yield (*place, "answers"), what
    models = {model for model, _ in _planned(edition)}
    for model in page.models:
        if model not in models:
            yield (*place, "models"), f"No task plans a run of {model}."
    if page.target is not None and not 0 < page.target < 1:
        yield (*place, "target"), "A target accuracy is a fraction between 0 and 1."
    known = {name for each in edition.tasks for name in each.files} | {
        run.script for each in edition.tasks for run in each.runs
    }
    for number, excerpt in enumerate(page.excerpts):
        where = (*place, "excerpts", number)
        if excerpt.source not in _SOURCES | known:
            what = f"{excerpt.source!r} is neither a script of a task nor job, out, err or changes."
            yield (*where, "source"), what
        if excerpt.parts and len(excerpt.parts) != len(excerpt.lines):
            yield where, "Each of the `parts` needs one expression in `lines`."
        for pattern in excerpt.lines:
            try:
                re.compile(pattern)
            except re.error as error:
                yield (*where, "lines"), f"{pattern!r} is not a valid regular expression: {error}."


def _facts(edition: Edition) -> Iterator[Problem]:
    used = {fact.id for task in edition.tasks for fact in edition.facts_of(task)}
    for index, fact in enumerate(edition.facts):
        if fact.id not in used:
            yield (
                ("facts", index),
                f"No task and no question names the fact {fact.id!r}, so it is never shown.",
            )


def _profiles(edition: Edition, known: frozenset[str]) -> Iterator[Problem]:
    for index, name in enumerate(edition.profiles):
        if name not in known:
            listed = ", ".join(sorted(known))
            yield ("profiles", index), f"There is no cluster profile {name!r}; known are {listed}."


# --------------------------------------------------------------------------- reference


def _reference(edition: Edition) -> Iterator[Problem]:
    seen: Counter[tuple[object, ...]] = Counter()
    for index, run in enumerate(edition.reference.runs):
        place: Place = ("reference", "runs", index)
        yield from _reference_run(edition, run, place)
        key = (run.model, run.gpus, run.task, run.batch_size, run.tuning)
        seen[key] += 1
        if seen[key] > 1:
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
    yield from _reference_times(edition)
    for i, task in enumerate(edition.tasks):
        for j, plan in enumerate(task.runs):
            if plan.form != "mpi" and (plan.model, plan.gpus) not in known:
                yield ("tasks", i, "runs", j), f"The reference has no time for {on(plan.model, plan.gpus)}."
    planned = _planned(edition)
    for index, run in enumerate(edition.reference.runs):
        if (run.model, run.gpus) not in planned:
            what = f"The reference has a time for {on(run.model, run.gpus)}, which no task plans."
            yield ("reference", "runs", index), what


def _reference_times(edition: Edition) -> Iterator[Problem]:
    """A time for each of a program's runs, and no others."""
    plans = [plan for task in edition.tasks for plan in task.runs if plan.form == "mpi"]
    wanted = {(plan.model, plan.processes, plan.size) for plan in plans}
    found: set[tuple[str, int, str]] = set()
    for index, times in enumerate(edition.reference.times):
        place: Place = ("reference", "times", index)
        if len(times.processes) != len(times.seconds) or any(second <= 0 for second in times.seconds):
            yield place, "`processes` and `seconds` go together, one time above 0 for each number."
        for number in times.processes:
            key = (times.program, number, size_of(edition, times, number))
            if key not in wanted:
                yield place, f"No task times {times.program} on {number} with this size."
            if key in found:
                yield place, f"The reference has two times for {times.program} on {number}."
            found.add(key)
    for i, task in enumerate(edition.tasks):
        for plan in task.runs:
            if plan.form == "mpi" and (plan.model, plan.processes, plan.size) not in found:
                yield ("tasks", i), f"The reference has no time for {plan.model} on {plan.processes}."


def _reference_run(edition: Edition, run: ReferenceRun, place: Place) -> Iterator[Problem]:
    if run.first_epoch_seconds <= 0 or run.epoch_seconds <= 0:
        yield place, "Reference times are seconds above 0."
    for name in ("tokens_per_gpu", "gpu_memory", "batch_size"):
        if (number := getattr(run, name)) is not None and number <= 0:
            yield (*place, name), f"`{name}` is above 0."
    mine = [plan for item in edition.tasks if run.task in ("", item.id) for plan in _plans(item, run)]
    if mine and run.batch_size is not None and run.batch_size not in [plan.batch_size for plan in mine]:
        yield (*place, "batch_size"), f"No such run of {on(run.model, run.gpus)} is planned with this batch."
    if mine and run.tuning is not None and run.tuning not in [plan.tuning for plan in mine]:
        yield (*place, "tuning"), f"No such run of {on(run.model, run.gpus)} is planned with this tuning."
    if not 0 <= run.accuracy <= 1:
        yield (*place, "accuracy"), "An accuracy is a fraction from 0 to 1."
    task = edition.task(run.task)
    if run.task and task is None:
        yield (*place, "task"), f"There is no task {run.task!r}."
    elif run.task and not mine:
        yield (*place, "task"), f"Task {run.task} plans no run of {on(run.model, run.gpus)}."
    most = max((plan.epochs for plan in mine), default=0)
    if run.epochs_read is not None and not 0 <= run.epochs_read <= most:
        yield (*place, "epochs_read"), f"`epochs_read` is from 0 to the {most} epochs planned."


MAX_CHARACTERS = 1_000_000
_GUIDE = "docs/editions.md lists every field."
_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `(?P<where>[^`]*)`)?$", re.DOTALL)
_TOML_AT = re.compile(r"\s*\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)")
_WORDS: dict[str, tuple[str, ...]] = {
    "quantity": get_args(schema.Quantity),
    "form": get_args(TemplateForm),
    "device": get_args(Device),
    "outcomes": get_args(Outcome),
    "outcome": get_args(Outcome),
    "charts": get_args(schema.ChartKey),
    "laws": get_args(schema.Law),
    "batch": ("exact", "any"),
    "scaling": ("strong", "weak"),
    "counts": ("processes", "GPUs"),
    "launcher": ("srun", "mpirun"),
    "shown_in": ("s", "ms"),
    "kind": tuple(str(kind.__struct_config__.tag) for kind in get_args(schema.Check)),
}
_TYPES = {
    "`int`": "a whole number",
    "`float`": "a number",
    "`str`": "text in quotes",
    "`array`": "a list in square brackets",
    "`object`": "a table",
    "`bool`": "true or false",
    "`null`": "nothing",
}


def _fields() -> tuple[str, ...]:
    found: dict[str, None] = {}
    for value in vars(schema).values():
        if isinstance(value, type) and issubclass(value, msgspec.Struct):
            found.update(dict.fromkeys(value.__struct_fields__))
    return tuple(found)


def extended_by(text: str) -> str:
    """The id of the edition that this one extends; "" for one that stands alone, or whose text is no TOML."""
    try:
        found = _loads(text).get("extends", "") if len(text) <= MAX_CHARACTERS else ""
    except (ValueError, RecursionError):
        return ""
    return found if isinstance(found, str) else ""


def parse_edition(
    text: str, path: str = "", known: Known | None = None, base: str | None = None
) -> schema.Edition:
    """Read and prove an edition; with `known`, the scripts and cluster profiles it names have to be there.

    `base` is the text of the edition that it extends; a mistake in what it leaves as it is has no line here.

    Raises:
        DataError: with the path, the line when it is known, and one sentence.
    """
    data = _toml(text, path)
    overlay = Overlay.of({} if base is None else _toml(base, path), data)
    if "extends" in data and base is None:
        known_as = "it is the id of one that comes with labtui."
        what = f"There is no edition {data['extends']!r} to extend; {known_as}"
        raise _error(path, line_of(text, ("extends",)), what)
    try:
        found = msgspec.convert(overlay.data, schema.Edition)
    except msgspec.ValidationError as error:
        raise _schema_error(path, text, overlay, str(error)) from None
    for place, sentence in problems(found, known):
        raise _error(path, line_of(text, overlay.own_place(place)), sentence)
    return found


def own_line(text: str, base: str | None, place: Place) -> int | None:
    """The line in an edition's own file where a place of the whole stands, if it stands there at all."""
    overlay = Overlay.of({} if base is None else _loads(base), _loads(text))
    return line_of(text, overlay.own_place(place))


@lru_cache(maxsize=4)
def _loads(text: str) -> Mapping[str, Any]:
    """Kept, as reading one edition needs it several times: what it extends, its data, and the lines of mistakes."""
    return tomllib.loads(text)


def _toml(text: str, path: str) -> Mapping[str, Any]:
    if len(text) > MAX_CHARACTERS:
        raise _error(
            path, None, f"The file has more than {MAX_CHARACTERS:,} characters, the maximum of an edition."
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise _error(path, line, "The file has a character that is not valid Unicode.") from None
    try:
        return _loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _toml_error(path, text, str(error)) from None
    except RecursionError:
        raise _error(path, None, "The file is nested too deeply to be read.") from None
    except ValueError:
        raise _error(path, _endless_number(text), "A number in this file has too many digits.") from None


def _error(path: str, line: int | None, sentence: str) -> DataError:
    where = ", ".join(part for part in (path, f"line {line}" if line else "") if part)
    return DataError(f"{where}: {sentence}" if where else sentence, _GUIDE, path=path, line=line)


def _endless_number(text: str) -> int | None:
    """The line of the first number that is longer than any number needs to be."""
    match = re.search(r"\d[\d_]{1000}", text)
    return text.count("\n", 0, match.start()) + 1 if match else None


def _toml_error(path: str, text: str, message: str) -> DataError:
    match = _TOML_AT.search(message)
    line = int(match["line"]) if match and match["line"] else text.count("\n") + 1
    what = _TOML_AT.sub("", message).strip() or "something is missing"
    return _error(path, line, f"This is not valid TOML: {what[0].lower()}{what[1:]}.")


def _schema_error(path: str, text: str, overlay: Overlay, message: str) -> DataError:
    match = _PLACE.match(message)
    what, where = (match["what"], match["where"] or "$") if match else (message, "$")
    place = _place(where)
    sentence, place = _sentence(what, place)
    return _error(path, line_of(text, overlay.own_place(place)), sentence)


def _place(where: str) -> Place:
    place: list[str | int] = []
    for name, index in re.findall(r"\.([A-Za-z0-9_-]+)|\[(\d+)\]", where):
        place.append(int(index) if index else name)
    return tuple(place)


def _called(place: Place) -> str:
    """A place in words: ``task 3, check 1``."""
    words: list[str] = []
    for part in place:
        if isinstance(part, int):
            words[-1] = f"{words[-1].removesuffix('s')} {part + 1}"
        else:
            words.append(part)
    return ", ".join(words) or "the edition"


def _sentence(what: str, place: Place) -> tuple[str, Place]:
    name = (re.findall(r"`([^`]*)`", what) or [""])[-1]
    if what.startswith("Object missing required field"):
        return f"`{name}` is missing in {_called(place)}.", place
    if what.startswith("Object contains unknown field"):
        near = difflib.get_close_matches(name, _fields(), n=1)
        hint = f" Did you mean `{near[0]}`?" if near else ""
        return f"`{name}` is not a field of {_called(place)}.{hint}", (*place, name)
    if what.startswith("Expected"):
        wanted, _, got = what.removeprefix("Expected ").partition(", got ")
        for code, words in _TYPES.items():
            wanted, got = wanted.replace(code, words), got.replace(code, words)
        return f"{_called(place)} should be {wanted.replace(' | ', ' or ')}, not {got}.", place
    if what.startswith("Invalid"):
        return _invalid(what, place)
    return f"{_called(place)}: {what}.", place


def _invalid(what: str, place: Place) -> tuple[str, Place]:
    key = next((part for part in reversed(place) if isinstance(part, str)), "")
    words = _WORDS.get(key, ())
    value = what.rpartition("value ")[2]
    if not words:
        return f"{_called(place)} cannot be {value}.", place
    return f"{_called(place)} cannot be {value}; it is one of {', '.join(words)}.", place
