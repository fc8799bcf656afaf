"""What differs between two runs, and which further run would show what made one slower."""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from labtui.domain.errors import UsageError
from labtui.domain.model import plural
from labtui.domain.tuning import tuning_words
from labtui.preflight.findings import imported_files
from labtui.results.compute import own_rows
from labtui.results.grouping import devices, same_images
from labtui.results.numbers import ABSENT, clean, count_text, three_digits
from labtui.results.rows import ResultRow
from labtui.results.scaling import lost_efficiency
from labtui.session.folder import SCRIPT_NAME
from labtui.session.planning import run_of
from labtui.session.session import Session
from labtui.training_logs.gpu_sampler import clocks, read_samples


class Difference(NamedTuple):
    """A property in which two runs differ, and its value in each."""

    what: str
    first: str
    second: str


class Comparison(NamedTuple):
    """Two runs side by side; `sentences` give the epoch times and the run to make next."""

    names: tuple[str, str]
    differences: tuple[Difference, ...]
    sentences: tuple[str, ...]


def compare_runs(session: Session, numbers: Sequence[int]) -> Comparison:
    """Compare two runs of a lab folder. Raises UsageError if one of them has no epochs."""
    for number in numbers:
        run_of(session.state, number)
    rows = {run.run_id: row for run, row in own_rows(session.results())}
    if missing := [number for number in numbers if number not in rows]:
        raise UsageError(f"Run {missing[0]} has no epochs to compare.", "`labtui queue` lists the runs.")
    first, second = (rows[number] for number in numbers)
    sent = [dict(session.files_of(session.state.runs[number].token)) for number in numbers]
    mine, other = (
        _facts(session, number, rows[number], files.pop(SCRIPT_NAME, b""))
        for number, files in zip(numbers, sent, strict=True)
    )
    for name in sorted(_used(sent[0], mine["script"]) & _used(sent[1], other["script"])):
        mine[name], other[name] = _own_lines(*(files[name] for files in sent))
    if same_images(first.configuration.data_bound, second.configuration.data_bound):  # up to the last batch
        mine["images an epoch"] = other["images an epoch"]
    pairs = (
        Difference(clean(what), clean(mine.get(what, "")) or ABSENT, clean(other.get(what, "")) or ABSENT)
        for what in dict.fromkeys([*mine, *other])
    )
    found = tuple(pair for pair in pairs if pair.first != pair.second)
    names = (f"run {numbers[0]}", f"run {numbers[1]}")
    times = [three_digits(row.epoch_seconds.value) for row in (first, second) if row.epoch_seconds]
    took = f"An epoch takes {times[0]} s in {names[0]} and {times[1]} s in {names[1]}." if times[1:] else ""
    return Comparison(names, found, tuple(filter(None, (took, next_run(found, *names)))))


CLOCK, SLOWED_BY, LOST = "GPU clock", "GPUs slowed by", "lost to "
GIVEN = ("GPUs", CLOCK, LOST, "node")
"""Differences that are measured, not chosen, so not a cause; and the number of GPUs, which `labtui why` explains."""


def _facts(session: Session, number: int, row: ResultRow, job_script: bytes) -> dict[str, str]:
    """What is known of a run, in words, from its log, job, job script and GPU samples."""
    run = session.state.runs[number]
    job, text = session.state.submissions[run.token].job, job_script.decode("utf-8", "replace")
    container = re.search(r"(?:singularity|apptainer) exec (?:-\S+ )*(\S+)", text)
    data = re.search(r"^export CIFAR10_DATA=(\S+)", text, re.MULTILINE)
    path = session.log_path(run.token, "gpu")
    samples = session.folder.read(path) if path is not None else b""
    clock, slowed = clocks(read_samples(samples), run.epochs, n_gpus=run.spec.n_gpus)
    one = row.configuration
    return {
        "GPUs": devices(row.n_gpus),
        "model": row.model,
        "framework": one.framework,
        "batch per GPU": "" if one.per_gpu_batch is None else f"{one.per_gpu_batch:,.0f}",
        "options": ", ".join(tuning_words(tuple(each for each in one.tuning if each[0] != "script"))),
        "data set": one.data_set,
        "images an epoch": "" if one.images is None else count_text(one.images),
        "validation": "inside the epoch" if one.validated else "not in the epoch",
        "GPU": one.gpu_kind,
        "script": run.spec.script,
        "node": job.node if job is not None else "",
        "container": container[1] if container else "",
        "data path": data[1] if data else "",
        CLOCK: f"{clock:,.0f} MHz" if clock is not None else "",
        SLOWED_BY: ", ".join(
            f"{name} in {100 * share:.0f} % of the samples" for name, share in slowed.items()
        ),
        **{LOST + part.name: f"{part.points} points" for part in lost_efficiency(row) if float(part.points)},
    }


def _used(files: Mapping[str, bytes], script: str) -> set[str]:
    """The names of a run's script and of what it imports; those of all `files` if the script is not among them."""
    texts = {name: data.decode("utf-8", "replace") for name, data in files.items()}
    return set(imported_files([script], texts) if script in files else files)


def _own_lines(first: bytes, second: bytes) -> tuple[str, str]:
    """The number of lines that only one of two versions of a file has, in words; "" for both if they are equal."""
    before, after = (text.decode("utf-8", "replace").splitlines() for text in (first, second))
    marks = [line[0] for line in difflib.ndiff(before, after) if before != after]
    counts = [marks.count(mark) for mark in "-+"]
    own = [plural(count, "line") + " of its own" if marks else "" for count in counts]
    return own[0], own[1]


def next_run(found: tuple[Difference, ...], first: str, second: str) -> str:
    """A sentence on the run that would show which difference matters; `first` and `second` name the runs: ``run 3``."""
    if any(each.what == "model" for each in found):
        return "These are trainings of two models: only runs of one model tell what a difference costs."
    causes = [each for each in found if not each.what.startswith(GIVEN)]
    scaled = any(each.what == "GPUs" for each in found)
    if not causes and not scaled:
        return "Nothing differs that changes the time of an epoch. Repeat one of them to see how much repeats differ."
    if not causes:
        return "Only the number of GPUs differs: `labtui why` splits what is lost."
    what = causes[0].what
    if len(causes) == 1 and not scaled:
        return (
            f"Only {what} differs: it makes the difference in time, as far as it is more than repeats differ."
        )
    number = len(causes) + scaled
    return f"{number} things differ. Repeat {second} with the {what} of {first} to see what that costs."
