"""Looking for a submission whose answer was lost: receipt, then queue, then accounting.

Before it asks, the look-up takes the next attempt away (see `submit`), so that a submit command that is
still on its way can no longer run sbatch. "Certainly not there" is said only when every try is accounted for.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import NamedTuple

from labtui.core.remote import CommandResult, RemoteCommand
from labtui.core.slurm.accounting import my_accounting_command, parse_accounting
from labtui.core.slurm.queue import parse_queue, queue_command
from labtui.core.slurm.refusals import classify
from labtui.core.slurm.shell import LIMIT, PINNED, TIMED_OUT, cut_sections, mark_function
from labtui.core.slurm.submit import (
    COMMENT_PREFIX,
    CONTROL_DIR,
    SBATCH_LIMIT_S,
    comment_of,
    names_token,
    parse_submit,
)
from labtui.core.slurm.tick import PROGRAM_LIMIT_S, answer_problem

SETTLE_S = SBATCH_LIMIT_S + 60
"""After this many seconds (cluster's clock) an sbatch that left no receipt has ended."""


_TOKEN = re.compile(r"lt[0-9a-f]{20}")
"""A submission's remote directory is called by its token."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to submit, as its directory tells. `status` None: sbatch has not ended, or was killed."""

    number: int
    age_s: float
    status: int | None
    closed: bool
    job_id: str | None
    stderr: str

    @property
    def clear(self) -> bool:
        """True when this try certainly made no job: taken away before it began, or plainly refused."""
        if self.closed:
            return True
        if self.status in (None, 0, TIMED_OUT):
            return False
        return not classify(self.stderr).unclear


@dataclass(frozen=True, slots=True)
class Lookup:
    """`job_id` when found. Otherwise `certain`: there is no job; or else `problem` says what is unclear."""

    job_id: str | None
    certain: bool
    problem: str = ""


class _Row(NamedTuple):
    job_id: str
    comment: str
    name: str
    work_dir: str


def lookup_command(remote_dir: str, token: str, job_name: str, nonce: str) -> RemoteCommand:
    """Close the next attempt, then say what the receipts, the queue and accounting know."""
    control = f"{remote_dir.rstrip('/')}/{CONTROL_DIR}"
    script = "\n".join(
        (
            PINNED,
            LIMIT,
            mark_function(nonce),
            "mark close",
            f"mkdir -p -m 700 -- {shlex.quote(control)} || exit 74",
            f"cd -- {shlex.quote(control)} >/dev/null || exit 74",
            "next=0; while [ -d attempt-$next ]; do next=$((next + 1)); done",
            "mkdir attempt-$next && echo closed >attempt-$next/status && echo closed $next",
            "now=$(date +%s); unclear=",
            "n=0; while [ -d attempt-$n ]; do",
            "  status=$(cat attempt-$n/status 2>/dev/null) || status=-",
            "  case $status in closed|0) ;; *) unclear=yes;; esac",
            "  mark attempt-$n",
            "  echo $((now - $(stat -c %Y attempt-$n))); echo $status",
            "  echo $(tail -n 1 attempt-$n/out 2>/dev/null); head -c 4000 attempt-$n/err 2>/dev/null",
            "  n=$((n + 1))",
            "done",
            # A controller that was frozen answers the old request and this one at the same time: look twice.
            f'[ -z "$unclear" ] || {{ limit {PROGRAM_LIMIT_S} squeue --me -h >/dev/null 2>&1; sleep 3; }}',
            f"mark squeue; limit {PROGRAM_LIMIT_S} {queue_command(nonce)}",
            'mark "squeue-status $?"',
            f"mark sacct; limit {PROGRAM_LIMIT_S} {my_accounting_command(nonce)}",
            'mark "sacct-status $?"',
        )
    )
    told = {"dir": remote_dir, "token": token, "job_name": job_name, "nonce": nonce}
    return RemoteCommand("find", script, told)


def parse_lookup(result: CommandResult, nonce: str, token: str, job_name: str) -> Lookup:
    """Read the answer of `lookup_command`. Raises ValueError for a token that is none."""
    comment = comment_of(token)
    out, err = cut_sections(result.out, nonce), cut_sections(result.err, nonce)
    attempts = _attempts(out)
    for attempt in attempts:
        if attempt.job_id:
            return Lookup(attempt.job_id, True)
    queue_problem = answer_problem("squeue", out, err, result)
    accounting_problem = answer_problem("sacct", out, err, result)
    by_name = names_token(job_name, token)
    rows = [*_rows_of_queue(out, nonce, queue_problem), *_rows_of_accounting(out, nonce, accounting_problem)]
    # Accounting may learn a job's comment only at its end: what the queue says of the same job counts for both.
    others = {row.job_id for row in rows if _another_submissions(row, token)}
    found = [
        int(row.job_id)
        for row in rows
        if row.comment == comment or (by_name and row.name == job_name and row.job_id not in others)
    ]
    if found:
        # Slurm keeps a record of some refused submissions; the latest one is the one that counts.
        return Lookup(str(max(found)), True)
    problem = _doubt(out, attempts, queue_problem, accounting_problem)
    return Lookup(None, not problem, problem)


def _another_submissions(row: _Row, token: str) -> bool:
    """Whether a job of the same name bears another submission's whole token: a name has only the end of one.

    The name alone counts where a site keeps no comments, or writes its own.
    """
    tokens = {row.comment.removeprefix(COMMENT_PREFIX)} if row.comment.startswith(COMMENT_PREFIX) else set()
    directory = row.work_dir.removesuffix("/.").rstrip("/").rpartition("/")[2]
    if _TOKEN.fullmatch(directory):
        tokens.add(directory)
    return bool(tokens - {token})


def _rows_of_queue(out: dict[str, str], nonce: str, problem: str) -> list[_Row]:
    rows = () if problem else parse_queue(out["squeue"], nonce)
    return [_Row(row.job_id, row.comment, row.name, row.work_dir) for row in rows]


def _rows_of_accounting(out: dict[str, str], nonce: str, problem: str) -> list[_Row]:
    rows = () if problem else parse_accounting(out["sacct"], nonce)
    return [_Row(row.job_id, row.comment, row.name, "") for row in rows]


def _doubt(out: dict[str, str], attempts: list[Attempt], queue: str, accounting: str) -> str:
    """Why it is not certain that there is no job; empty when it is."""
    if not out.get("close", "").strip().startswith("closed"):
        return "The submission's directory on the cluster cannot be written to, so nothing is certain yet."
    unclear = [attempt for attempt in attempts if not attempt.clear]
    if not unclear:
        return ""
    if any(attempt.status is None and attempt.age_s < SETTLE_S for attempt in unclear):
        return "sbatch may still be at work on the cluster."
    return queue or accounting


def _attempts(out: dict[str, str]) -> list[Attempt]:
    found = []
    for name, content in out.items():
        number = name.removeprefix("attempt-")
        if name.startswith("attempt-") and number.isdecimal():
            found.append(_attempt(int(number), content))
    return found


def _attempt(number: int, content: str) -> Attempt:
    age, status, receipt, stderr = ([*content.split("\n", 3), "", "", ""])[:4]
    ended = int(status) if status.isdecimal() else None
    return Attempt(
        number=number,
        age_s=float(age) if age.lstrip("-").isdecimal() else 0.0,
        status=ended,
        closed=status == "closed",
        job_id=parse_submit(receipt) if ended == 0 else None,
        stderr=stderr,
    )
