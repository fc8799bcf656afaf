"""What differs between two runs, and which run would tell what made one slower."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import NamedTuple

from labtui.results.grouping import devices
from labtui.results.numbers import ABSENT, clean, count_text
from labtui.results.rows import ResultRow

Facts = Mapping[str, str]
"""What a lab folder knows of a run beside its log, in words: ``{"node": "as01r1b01"}``."""


class Difference(NamedTuple):
    """A thing that two runs do not share, as each has it."""

    what: str
    first: str
    second: str


def differences(first: ResultRow, second: ResultRow, facts: tuple[Facts, Facts]) -> tuple[Difference, ...]:
    """What two runs do not share, the number of GPUs first; what neither log tells is in none."""
    mine, other = ({**_words(row), **known} for row, known in zip((first, second), facts, strict=True))
    names = list(dict.fromkeys([*mine, *other]))
    pairs = (Difference(name, mine.get(name) or ABSENT, other.get(name) or ABSENT) for name in names)
    return tuple(pair for pair in pairs if pair.first != pair.second)


def _words(row: ResultRow) -> dict[str, str]:
    one = row.configuration
    per_gpu = one.per_gpu_batch
    return {
        "GPUs": devices(row.n_gpus),
        "model": clean(row.model),
        "framework": clean(one.framework),
        "batch per GPU": "" if per_gpu is None else f"{per_gpu:,.0f}",
        "options": clean(", ".join(one.tuning)),
        "data set": clean(one.data_set),
        "images an epoch": "" if one.images is None else count_text(one.images),
        "validation": "inside the epoch" if one.validated else "not in the epoch",
        "GPU": clean(one.gpu_kind),
    }


def changed_files(first: Mapping[str, bytes], second: Mapping[str, bytes]) -> tuple[Facts, Facts]:
    """The files that differ between two submissions, with how many lines of each are not in the other's."""
    mine: dict[str, str] = {}
    other: dict[str, str] = {}
    for name in sorted(first.keys() | second.keys()):
        before, after = (
            files.get(name, b"").decode("utf-8", "replace").splitlines() for files in (first, second)
        )
        if before == after:
            continue
        marks = [line[0] for line in difflib.ndiff(before, after) if line[0] in "+-"]
        mine[name] = "not sent" if name not in first else f"{marks.count('-')} lines of its own"
        other[name] = "not sent" if name not in second else f"{marks.count('+')} lines of its own"
    return mine, other


def next_run(found: tuple[Difference, ...], first: str, second: str) -> str:
    """The run that would tell which difference counts; `first` and `second` name the runs: ``run 3``."""
    if any(each.what == "model" for each in found):
        return "These are trainings of two models: only runs of one model tell what a difference costs."
    causes = [each for each in found if each.what != "GPUs"]
    if not causes and not found:
        return "Nothing differs that labtui knows of: run one of them again to see how much repeats differ."
    if not causes:
        return "Only the number of GPUs differs: `labtui why` splits what is lost."
    what = causes[0].what
    if len(found) == 1:
        return (
            f"Only {what} differs: it makes the difference in time, as far as it is more than repeats differ."
        )
    return f"{len(found)} things differ. Make {second} again with {what} as in {first}: that tells what {what} costs."
