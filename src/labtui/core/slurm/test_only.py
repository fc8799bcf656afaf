"""`sbatch --test-only`: would Slurm take the job, and when would it start? Nothing is submitted.

The answer is a sentence on standard error that changed between releases, so fields are read, never the
sentence.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from labtui.core.remote import CommandResult, RemoteCommand
from labtui.core.slurm.refusals import classify
from labtui.core.slurm.shell import LIMIT, PINNED
from labtui.core.slurm.times import epoch_seconds

_LINE = re.compile(r"\bJob (?P<id>\d+) to start at (?P<start>\S+)")
_PROCESSORS = re.compile(r"\busing (\d+) processors?\b")
_NODES = re.compile(r"\bon nodes? (\S+)")
_PARTITION = re.compile(r"\bin partition (\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TestOnly:
    """Slurm's own word on a job script. `start_at` is an estimate in UNIX seconds of the cluster's clock."""

    __test__ = False  # the name is Slurm's; this is no pytest class

    ok: bool
    start_at: float | None = None
    sentence: str = ""
    hint: str = ""
    processors: int | None = None
    nodes: str = ""
    partition: str = ""
    wait: bool = False
    detail: str = ""


def test_only_command(remote_dir: str, script_name: str, options: Sequence[str]) -> RemoteCommand:
    """Ask about `script_name` in `remote_dir` with the options that would be used."""
    words = ["sbatch", "--test-only", *options, script_name]
    script = (
        f"{PINNED}\n{LIMIT}\ncd -- {shlex.quote(remote_dir)} >/dev/null || exit 74\n"
        f"limit 60 {shlex.join(words)} </dev/null"
    )
    return RemoteCommand(
        "test-only", script, {"dir": remote_dir, "script": script_name, "options": list(options)}
    )


test_only_command.__test__ = False  # type: ignore[attr-defined]


def parse_test_only(result: CommandResult) -> TestOnly:
    """Read the answer; a status we do not know is "not ok" with a sentence that says so."""
    text = f"{result.err}\n{result.out}"
    line = _LINE.search(text)
    if result.status == 0 and line:
        rest = text[line.end() :].partition("\n")[0]
        processors = _PROCESSORS.search(rest)
        nodes, partition = _NODES.search(rest), _PARTITION.search(rest)
        return TestOnly(
            ok=True,
            start_at=epoch_seconds(line["start"]),
            sentence="Slurm would take this job.",
            processors=int(processors[1]) if processors else None,
            nodes=nodes[1] if nodes else "",
            partition=partition[1] if partition else "",
            detail=result.err.strip(),
        )
    if result.status is None:
        return TestOnly(
            ok=False,
            sentence="Slurm gave no answer about this job script.",
            hint="Ask again in a moment.",
            wait=True,
        )
    if result.status == 0:
        return TestOnly(ok=True, sentence="Slurm raised no objection.", detail=text.strip())
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
        wait=refusal.wait or refusal.unclear,
        detail=refusal.detail,
    )
