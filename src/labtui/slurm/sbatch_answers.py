"""What `sbatch` answers: refusals sorted into *wait* and *never*, and the answer of `sbatch --test-only`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from labtui.slurm.remote_command import Call, CommandResult
from labtui.slurm.states import sentences


@dataclass(frozen=True, slots=True)
class Refusal:
    """`wait`: the same submission may be accepted later. `unclear`: it may have been accepted: look it up.

    `key` is a stable word for the kind, `detail` Slurm's own words.
    """

    key: str
    sentence: str
    hint: str
    wait: bool = False
    unclear: bool = False
    detail: str = ""


NO_ANSWER = "no-answer"
"""The key of an answer that is none: the connection, the authentication or sbatch itself broke."""


@cache
def _refusals() -> tuple[tuple[re.Pattern[str], Refusal], ...]:
    """What sbatch answers: the first pattern that is found counts."""
    return tuple(
        (re.compile(words.pop("pattern"), re.IGNORECASE), Refusal(**words))
        for words in map(dict, sentences()["refusals"])
    )


_PREFIX = re.compile(r"^(sbatch|srun|salloc|allocation failure): ?(error: )?", re.MULTILINE)


def classify(stderr: str) -> Refusal:
    """The refusal in sbatch's standard error, with Slurm's own words as `detail`; `unclear` for unknown words."""
    words = _PREFIX.sub("", stderr).strip()
    # Site plugins put the useful sentence on a "Reason:" line.
    reason = re.search(r"^\s*Reason:\s*(.+)$", words, re.MULTILINE)
    for text in ([reason[1]] if reason else []) + [words]:
        for pattern, refusal in _refusals():
            if pattern.search(text):
                return replace(refusal, detail=words)
    lines = words.splitlines()
    if (
        len(lines) == 1 and "unspecified error" in words.lower()
    ):  # below a plugin's reason it means nothing more
        return replace(_refusals()[0][1], detail=words)  # the silent controller
    last = reason[1] if reason else lines[-1] if lines else ""
    return Refusal(
        "other",
        f"Slurm refused the job: {last}" if last else "Slurm refused the job and gave no reason.",
        "Press m in labtui to see the full answer.",
        unclear=True,
        detail=words,
    )


_WOULD_START = re.compile(r"\bJob [0-9]+ to start at \S")


@dataclass(frozen=True, slots=True, kw_only=True)
class TestOnly:
    """Slurm's own word on a job script. `kind` is the `Refusal.key` of a job that would be refused."""

    __test__ = False  # the name is Slurm's; this is no pytest class

    ok: bool
    sentence: str = ""
    hint: str = ""
    wait: bool = False
    detail: str = ""
    kind: str = ""


def check_script(remote_dir: str, script_name: str, options: Sequence[str] = ()) -> Call[TestOnly]:
    """What ``sbatch --test-only`` says of `script_name` in `remote_dir`; nothing is submitted."""
    return Call(
        name="test-only",
        script='cd -- "$1" >/dev/null || exit 74\nshift\nlimit 60 sbatch --test-only "$@" </dev/null',
        arguments=(remote_dir, *options, script_name),
        limit_s=75,
        read=_read_test_only,
    )


def check_options(options: Sequence[str]) -> Call[TestOnly]:
    """The same of a job that does nothing, with these options; no file is needed."""
    return Call(
        name="try",
        script="printf '#!/bin/bash\\ntrue\\n' | limit 60 sbatch --test-only \"$@\"",
        arguments=tuple(options),
        limit_s=75,
        read=_read_test_only,
    )


def _read_test_only(result: CommandResult) -> TestOnly:
    """A status we do not know is "not ok" with a sentence that says so."""
    text = f"{result.err}\n{result.out}"
    if result.status == 0 and _WOULD_START.search(text):
        return TestOnly(ok=True, sentence="Slurm would accept this job.", detail=result.err.strip())
    if result.status is None:
        return TestOnly(
            ok=False,
            sentence="Slurm gave no answer about this job script.",
            hint="Ask again in a moment.",
            wait=True,
        )
    if result.status == 0:
        return TestOnly(ok=True, sentence="Slurm reported no problem.", detail=text.strip())
    if result.status == 74:
        return TestOnly(
            ok=False,
            sentence="The directory of this submission is not on the cluster.",
            hint="Push the files first.",
            detail=text.strip(),
        )
    refusal = classify(text)
    return TestOnly(
        ok=False,
        sentence=refusal.sentence,
        hint=refusal.hint,
        wait=refusal.wait or refusal.key == NO_ANSWER,
        detail=refusal.detail,
        kind=refusal.key,
    )
