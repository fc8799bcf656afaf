"""Checks on the tasks and texts of a lab edition, each with the place of the mistake."""

from __future__ import annotations

import difflib
import math
import re
import shlex
from collections.abc import Iterable, Iterator

from labtui.domain.errors import DataError
from labtui.domain.model import MANY_NODES, PROCESS_PER_GPU
from labtui.lab.edition import (
    ChartsCheck,
    Check,
    EditedCheck,
    Edition,
    Fact,
    FilesCheck,
    FitCheck,
    HandInCheck,
    Measure,
    MetricCheck,
    RunPlan,
    RunsCheck,
    Task,
)
from labtui.lab.toml_positions import Place
from labtui.training_logs.patterns import line_pattern

Problem = tuple[Place, str]
"""Where a mistake stands, and the sentence about it."""

_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_ACTIVE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control characters and invisible ones that reorder or hide text: never needed in a lab sheet."""
_MAY_REPEAT = (("startup_seconds",), ("options",), ("arguments",), ("seconds",))
_MAY_BE_EMPTY = {"advice", "note", "task", "heading", "extends", "variant", "size", "toolchain"}
MAX_TEXT = 8_000
MAX_NUMBER = 1_000_000_000


def values(value: object, place: Place) -> Iterator[Problem]:
    """Text that could act on a terminal, text without end, numbers that are none or beyond any training."""
    if isinstance(value, str):
        if match := _ACTIVE.search(value):
            yield place, f"There is a control or invisible character (U+{ord(match[0]):04X}) in this text."
        if len(value) > MAX_TEXT:
            yield place, f"This text has more than {MAX_TEXT:,} characters."
    elif isinstance(value, float) and not math.isfinite(value):
        yield place, "This must be a finite number."
    elif isinstance(value, int | float) and abs(value) > MAX_NUMBER:
        yield place, f"This number is above {MAX_NUMBER:,}, the maximum."
    for key, item in _items(value):
        yield from values(item, (*place, key))


def blanks_and_echoes(value: object, place: Place) -> Iterator[Problem]:
    """Text that is empty, and items of a list that stand in it twice."""
    if isinstance(value, str) and not value.strip() and place[-1] not in _MAY_BE_EMPTY:
        yield place, f"{_named(place)} is empty."
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if item in value[:index] and place[-1:] not in _MAY_REPEAT:
                shown = repr(item) if isinstance(item, str) else "The same"
                yield (*place, index), f"{shown} appears twice in {_named(place)}."
    for key, item in _items(value):
        yield from blanks_and_echoes(item, (*place, key))


def unique(items: Iterable[tuple[Place, str]], what: str) -> Iterator[Problem]:
    """Ids of which there are two; capital letters make no difference, because they name files."""
    seen: set[str] = set()
    for place, name in items:
        if name.casefold() in seen:
            yield place, f"There are two {what}s with the id {name!r}."
        seen.add(name.casefold())


def path(name: str, place: Place) -> Iterator[Problem]:
    """A file below the lab folder, in letters that every system and shell takes."""
    if not _PATH.fullmatch(name) or ".." in name.split("/"):
        yield place, f"{name!r} is not a plain file name below the lab folder (letters, digits, . _ - and /)."


def _items(value: object) -> Iterator[tuple[str | int, object]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from enumerate(value)


def _named(place: Place) -> str:
    """The field a value stands in, as it is written in the file."""
    return f"`{next((part for part in reversed(place) if isinstance(part, str)), 'this')}`"


_TASK_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,14}[A-Za-z0-9])?")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_SIZE = re.compile(r"\d{1,15}(?:x\d{1,15})?")
_VARIANT = re.compile(r"[a-z][a-z0-9-]{0,30}")
MAX_EPOCHS = 10_000
MAX_GPUS = 100_000
MAX_MINUTES = 30 * 24 * 60


def on(model: str, gpus: int) -> str:
    """A configuration in words: ``ResNet50 on 2 GPUs``."""
    return f"{model} on {gpus} GPU{'s' if gpus != 1 else ''}" if gpus else f"{model} on a CPU"


def task_problems(edition: Edition, task: Task, place: Place) -> Iterator[Problem]:
    """Everything wrong with one task."""
    if not _TASK_ID.fullmatch(task.id):
        yield (*place, "id"), f"A task's id is its number, like 6 or 10.5, not {task.id!r}."
    for name in ("title", "what", "why"):
        if not getattr(task, name).strip():
            yield (*place, name), f"Task {task.id} needs a text for `{name}`."
    if not task.checks:
        yield (*place, "checks"), f"Task {task.id} has no check, so it can never be done."
    for index, name in enumerate(task.files):
        yield from path(name, (*place, "files", index))
    for index, run in enumerate(task.runs):
        yield from _run(edition, run, (*place, "runs", index))
        yield from _same_run(task, index, (*place, "runs", index))
    yield from _known_facts(edition.facts, task.facts, (*place, "facts"))
    for index, question in enumerate(task.questions):
        if not question.text.strip():
            yield (*place, "questions", index), "A question needs a text."
        yield from _known_facts(edition.facts, question.facts, (*place, "questions", index, "facts"))
        if question.text in [other.text for other in task.questions[:index]]:
            yield (*place, "questions", index), "This question is asked twice."
    for index, check in enumerate(task.checks):
        yield from _check(edition, task, check, (*place, "checks", index))


def _known_facts(known: tuple[Fact, ...], names: tuple[str, ...], place: Place) -> Iterator[Problem]:
    ids = {fact.id for fact in known}
    for index, name in enumerate(names):
        if name not in ids:
            yield (*place, index), f"There is no fact with the id {name!r}."


# --------------------------------------------------------------------------- runs


def _run(edition: Edition, run: RunPlan, place: Place) -> Iterator[Problem]:
    yield from path(run.script, (*place, "script"))
    if run.form == "mpi":
        yield from _timing(edition, run, place)
        return
    if not run.script.endswith(".py"):
        yield (*place, "script"), f"A run's script is a Python file ending in .py, not {run.script!r}."
    if not _MODEL.fullmatch(run.model):
        yield (*place, "model"), f"{run.model!r} is not a model name."
    if (run.device == "cpu") != (run.gpus == 0) or run.gpus < 0:
        yield (*place, "gpus"), "A CPU run has `gpus = 0`, a GPU run at least 1."
    if (run.form == "cpu") != (run.device == "cpu"):
        yield (*place, "form"), f"The form {run.form!r} does not fit the device {run.device!r}."
    yield from _launched(run, place)
    yield from _options(run, place)
    if run.form not in PROCESS_PER_GPU and run.arguments:
        yield (
            (*place, "arguments"),
            "`arguments` are for the forms 'torchrun' and 'task-per-gpu'; labtui writes those of the other scripts.",
        )
    if run.variant and (run.form not in PROCESS_PER_GPU or not _VARIANT.fullmatch(run.variant)):
        yield (
            (*place, "variant"),
            f"`variant` is one word in lowercase letters for a script that torchrun starts, not {run.variant!r}.",
        )
    if run.images is not None and run.images < 1:
        yield (*place, "images"), "`images` is at least 1."
    if run.form == "one-gpu" and run.gpus != 1:
        yield (*place, "form"), "The form 'one-gpu' is for exactly one GPU; take one-job or job-per-size."
    if run.learning_rate is not None and run.learning_rate <= 0:
        yield (*place, "learning_rate"), "`learning_rate` must be above 0."
    yield from _counts(run, place)
    if run.cpus is not None and run.device == "gpu":
        yield (*place, "cpus"), "`cpus` is for CPU runs: a GPU brings its share of the node's CPUs."
    yield from _batches(edition, run, place)


def _timing(edition: Edition, run: RunPlan, place: Place) -> Iterator[Problem]:
    """A run of a program."""
    if edition.program(run.model) is None:
        yield (*place, "model"), f"There is no program {run.model!r} under `[[programs]]`."
    if not 1 <= run.processes <= MAX_GPUS:
        yield (*place, "processes"), f"`processes` is from 1 to {MAX_GPUS:,}."
    if not _SIZE.fullmatch(run.size):
        yield (*place, "size"), f"`size` is a number, or several with x between them, not {run.size!r}."


def program_problems(edition: Edition) -> Iterator[Problem]:
    """Everything wrong with the programs, and with what tasks measure of them."""
    for index, program in enumerate(edition.programs):
        place: Place = ("programs", index)
        if not _MODEL.fullmatch(program.name):
            yield (*place, "name"), f"{program.name!r} is not a program's name."
        for number, source in enumerate(program.sources):
            yield from path(source, (*place, "sources", number))
        if not program.sources or not program.command or not program.lines:
            yield place, "A program has at least one of `sources`, `command` and `lines`."
        for number, line in enumerate(program.lines):
            try:
                line_pattern(line)
            except DataError as error:
                yield (*place, "lines", number), error.sentence
        for number, line in enumerate(program.build):
            if not _plain_command(line):
                yield (
                    (*place, "build", number),
                    "A build command is plain words, without shell syntax.",
                )
        if program.toolchain and not _VARIANT.fullmatch(program.toolchain):
            yield (
                (*place, "toolchain"),
                f"`toolchain` is one word in lowercase letters, not {program.toolchain!r}.",
            )
        if program.scaling == "weak" and program.sequential:
            yield (*place, "sequential"), "Weak scaling is compared with one process of the same program."
    names = {program.name for program in edition.programs}
    for i, task in enumerate(edition.tasks):
        for j, measure in enumerate(task.measures):
            yield from _measure(task, measure, names, ("tasks", i, "measures", j))


def _measure(task: Task, measure: Measure, names: set[str], place: Place) -> Iterator[Problem]:
    if measure.program not in names:
        known = _near(measure.program, sorted(names))
        yield (*place, "program"), f"There is no program {measure.program!r} under `[[programs]]`.{known}"
    if list(measure.processes) != sorted(set(measure.processes)) or min(measure.processes, default=0) < 1:
        yield (*place, "processes"), "`processes` are numbers of 1 or more, in increasing order."
    if measure.time_limit_minutes is not None and not 1 <= measure.time_limit_minutes <= MAX_MINUTES:
        yield (*place, "time_limit_minutes"), f"`time_limit_minutes` is from 1 to {MAX_MINUTES:,}."
    if not _SIZE.fullmatch(measure.size):
        yield (*place, "size"), f"`size` is a number, or several with x between them, not {measure.size!r}."
    if any(run.form != "mpi" for run in task.runs):
        yield place, f"Task {task.id} has either `runs` or `measures`."


def _plain_command(line: str) -> bool:
    try:
        return bool(shlex.split(line)) and not set(line) & set(";|&<>$`\n*?~")
    except ValueError:
        return False


def _options(run: RunPlan, place: Place) -> Iterator[Problem]:
    """Options that are given twice, of which one would be meant for nothing."""
    given = [word.partition("=")[0] for word in (*run.arguments, *run.options) if word.startswith("--")]
    for name in ("arguments", "options"):
        for index, word in enumerate(getattr(run, name)):
            option = word.partition("=")[0]
            if given.count(option) > 1:
                yield (*place, name, index), f"The option {option} is given twice."


def _counts(run: RunPlan, place: Place) -> Iterator[Problem]:
    most = {"epochs": MAX_EPOCHS, "gpus": MAX_GPUS, "time_limit_minutes": MAX_MINUTES}
    for name in ("batch_size", "epochs", "cpus", "time_limit_minutes"):
        if (number := getattr(run, name)) is not None and number < 1:
            yield (*place, name), f"`{name}` is at least 1."
    for name, limit in most.items():
        if (number := getattr(run, name)) is not None and number > limit:
            yield (*place, name), f"`{name}` is at most {limit:,}."


def _launched(run: RunPlan, place: Place) -> Iterator[Problem]:
    if run.form not in PROCESS_PER_GPU and run.data_set is not None:
        yield (
            (*place, "data_set"),
            "`data_set` is for 'torchrun' and 'task-per-gpu'; the other scripts do not support it.",
        )
    if run.form not in MANY_NODES and run.batch_option != "global":
        yield (
            (*place, "batch_option"),
            "A batch option that is not the global batch is for 'torchrun', 'task-per-gpu' and 'srun-python'.",
        )


def _batches(edition: Edition, run: RunPlan, place: Place) -> Iterator[Problem]:
    if run.device == "cpu":
        if run.per_gpu_batch is not None:
            yield (*place, "per_gpu_batch"), "A CPU run has no per-GPU batch."
    elif run.per_gpu_batch is None:
        yield place, "A GPU run needs both batch sizes: `batch_size` (global) and `per_gpu_batch`."
    elif run.per_gpu_batch * run.gpus != run.batch_size:
        yield (
            (*place, "batch_size"),
            f"The global batch is {run.batch_size}, but {run.gpus} x {run.per_gpu_batch} per GPU is "
            f"{run.gpus * run.per_gpu_batch}.",
        )
    images = run.images or edition.images
    if run.batch_size > images:
        yield (
            (*place, "batch_size"),
            f"A batch of {run.batch_size:,} is more than all {images:,} images.",
        )


def _same_run(task: Task, index: int, place: Place) -> Iterator[Problem]:
    """One run would stand for both, so the second could never be missing."""
    run = task.runs[index]
    if any(
        (other.model, other.gpus, other.batch_size, other.data_set, other.tuning, other.processes, other.size)
        == (run.model, run.gpus, run.batch_size, run.data_set, run.tuning, run.processes, run.size)
        for other in task.runs[:index]
    ):
        yield place, f"Task {task.id} plans {on(run.model, run.gpus)} with batch {run.batch_size:,} twice."


# --------------------------------------------------------------------------- checks


def _check(edition: Edition, task: Task, check: Check, place: Place) -> Iterator[Problem]:
    for index, name in enumerate(check.tasks):
        if edition.task(name) is None:
            yield (*place, "tasks", index), f"There is no task {name!r}."
    sources = [edition.task(name) for name in check.tasks] if check.tasks else [task]
    planned = [run for source in sources if source is not None for run in source.runs]
    kind = str(check.__struct_config__.tag)
    if kind in {"runs", "constant-batch", "learning-rate", "metric"} and not planned:
        yield place, f"The check {kind!r} looks at runs, but none are planned in the tasks it names."
    if kind == "answers" and not task.questions:
        yield place, f"Task {task.id} asks no question, so there is nothing to answer."
    if isinstance(check, MetricCheck) and not re.fullmatch(r"[A-Za-z_]\w*", check.metric):
        yield (*place, "metric"), f"{check.metric!r} is not the name of a metric, such as accuracy."
    if isinstance(check, MetricCheck) and check.at_least <= 0:
        yield (*place, "at_least"), "`at_least` is above 0; any run would reach this."
    if isinstance(check, RunsCheck):
        yield from _runs_check(check, planned, place)
    elif kind == "constant-batch":
        yield from _one_batch(planned, place)
    elif isinstance(check, ChartsCheck):
        yield from _charts_check(edition, check, place)
    elif isinstance(check, FitCheck):
        yield from _fit_check(edition, check, place)
    elif isinstance(check, EditedCheck):
        yield from _edited_check(edition, check, place)
    elif isinstance(check, FilesCheck | HandInCheck):
        yield from _files_check(check, place)


def _runs_check(check: RunsCheck, planned: list[RunPlan], place: Place) -> Iterator[Problem]:
    if check.min_epochs < 0 or not check.outcomes:
        yield place, "A runs check needs `min_epochs` of 0 or more and at least one outcome."
    for run in planned:
        if run.epochs < check.min_epochs:
            what = f"{on(run.model, run.gpus)} is planned with {run.epochs}"
            yield place, f"The check wants {check.min_epochs} epochs (`min_epochs`), but {what}."


def _one_batch(planned: list[RunPlan], place: Place) -> Iterator[Problem]:
    for model in dict.fromkeys(run.model for run in planned):
        found = sorted({run.per_gpu_batch or run.batch_size for run in planned if run.model == model})
        if len(found) > 1:
            batches = " and ".join(f"{batch:,}" for batch in found)
            yield place, f"The check wants one batch per GPU, but {model} is planned with {batches}."


def _sizes(edition: Edition, model: str) -> bool:
    """Whether a speedup of a model can come out: planned on one GPU and on more, with one per-GPU batch."""
    runs = [run for task in edition.tasks for run in task.runs if run.model == model and run.gpus]
    bases = {run.per_gpu_batch for run in runs if run.gpus == 1}
    return any(run.gpus > 1 and run.per_gpu_batch in bases for run in runs)


def _models(edition: Edition) -> tuple[str, ...]:
    return tuple(dict.fromkeys(run.model for task in edition.tasks for run in task.runs))


def _unplanned(edition: Edition, model: str, place: Place) -> Iterator[Problem]:
    models = _models(edition)
    if model not in models:
        yield place, f"No task plans a run of {model!r}.{_near(model, models)}"


def _charts_check(edition: Edition, check: ChartsCheck, place: Place) -> Iterator[Problem]:
    if not check.charts:
        yield place, "A charts check names at least one chart."
    for index, model in enumerate(check.models):
        yield from _unplanned(edition, model, (*place, "models", index))
    wanted = check.models or _models(edition)
    ratios = [chart for chart in check.charts if chart in {"speedup", "efficiency"}]
    if not wanted or (ratios and not any(_sizes(edition, model) for model in wanted)):
        what = f"the {ratios[0]} chart" if wanted else "the charts"
        yield (
            place,
            f"No planned run fills {what}: that takes runs on one GPU and on more, with one per-GPU batch.",
        )


def _fit_check(edition: Edition, check: FitCheck, place: Place) -> Iterator[Problem]:
    if not check.laws:
        yield place, "A fit check names at least one law."
    yield from _unplanned(edition, check.model, (*place, "model"))
    if not _sizes(edition, check.model):
        yield place, f"No law can be fitted: {check.model} is not planned on one GPU and on more."


def _edited_check(edition: Edition, check: EditedCheck, place: Place) -> Iterator[Problem]:
    yield from path(check.script, (*place, "script"))
    yield from path(check.original, (*place, "original"))
    if check.script == check.original:
        yield (*place, "script"), "An edited script needs another name than its original."
    if not check.names:
        yield place, "An edited check lists the names that the script must use."
    for name in check.names:
        if not re.fullmatch(r"[^\W\d]\w*", name):
            yield (*place, "names"), f"{name!r} is not a name in Python code."
    if check.script not in {script.path for script in edition.reference.scripts}:
        yield (*place, "script"), f"The reference has no text for {check.script} (`[[reference.scripts]]`)."


def _files_check(check: FilesCheck | HandInCheck, place: Place) -> Iterator[Problem]:
    if not check.files:
        yield place, "A files check names at least one file."
    for index, name in enumerate(check.files):
        yield from path(name, (*place, "files", index))
        if isinstance(check, HandInCheck) and "/" in name:
            yield (
                (*place, "files", index),
                f"{name!r} must be in the lab folder itself, not in a folder below it.",
            )


# --------------------------------------------------------------------------- scripts that exist


def script_problems(edition: Edition, shipped: frozenset[str]) -> Iterator[Problem]:
    """Scripts that nobody has: not labtui, not the student who copies one, not the reference."""
    made = {c.script for task in edition.tasks for c in task.checks if isinstance(c, EditedCheck)}
    known = shipped | made | {script.path for script in edition.reference.scripts}
    for place, name in _scripts(edition):
        if name not in known:
            hint = (
                _near(name, sorted(known))
                or " The text of a script of your own goes under [[reference.scripts]]."
            )
            yield place, f"{name!r} does not come with labtui, and no task makes it.{hint}"


def _scripts(edition: Edition) -> Iterator[tuple[Place, str]]:
    for i, task in enumerate(edition.tasks):
        for j, name in enumerate(task.files):
            yield ("tasks", i, "files", j), name
        for j, run in enumerate(task.runs):
            yield ("tasks", i, "runs", j, "script"), run.script
        for j, check in enumerate(task.checks):
            if isinstance(check, EditedCheck):
                yield ("tasks", i, "checks", j, "original"), check.original
            elif isinstance(check, FilesCheck):
                for k, name in enumerate(check.files):
                    yield ("tasks", i, "checks", j, "files", k), name


def _near(name: str, known: tuple[str, ...] | list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
