"""`sbatch` exactly once, and the look-up of a submission whose answer was lost: commands and their readers.

Each submission has a directory of its own. In it, every try to submit first makes the directory
``.labtui/attempt-N``; making a directory is atomic, so one N runs sbatch at most once. N is the number of tries that
the sender knows the end of, so whoever does not know of a try cannot send beside it; and a look-up takes the next N
away from a try that is still on its way. Behind the same directory a job that is there already is adopted. sbatch's
answer goes into the directory before it goes over the connection: a receipt that survives a cut.

"There is no job" is certain at once when every try was taken away or refused. After a try that ended otherwise its
request may still lie with the controller: then complete answers in a row have to hold no job (`NoJobPeriod`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from labtui.slurm.queue import (
    AccountingRow,
    JobRow,
    Rows,
    answer_problem,
    my_accounting_command,
    parse_accounting,
    parse_queue,
    queue_command,
)
from labtui.slurm.remote_command import (
    PINNED,
    PROGRAM_LIMIT_S,
    TIMED_OUT,
    UNSET,
    CommandResult,
    RemoteCommand,
    cut_sections,
    shell_script,
)
from labtui.slurm.sbatch_answers import Refusal, classify
from labtui.slurm.values import job_id, number

CONTROL_DIR = ".labtui"
SBATCH_LIMIT_S = 240
"""sbatch retries by itself for about two minutes when the controller is busy."""

STARTED = f"{CONTROL_DIR}/started"
"""Made by the first job of a submission that runs; the link ``job`` in it points to that job's id."""

TWIN_STATUS = 76
"""How a job ends that finds another one of its submission begun before it."""

NO_DIRECTORY = 74
NOT_ASKED = 75
"""The controller did not answer the question before `sbatch`, which was not run then."""
TAKEN_AWAY = 76

_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{3,79}")
_LAST_SIGNAL = 128 + 64
_JOB_ID = re.compile(r"(?:Submitted batch job )?([0-9]+)(?:;\S*| on cluster \S+)?")
"""sbatch's answers: with ``--parsable``, and the sentence that a wrapper of the site may print all the same."""


COMMENT_PREFIX = "labtui:"


def comment_of(token: str) -> str:
    """The text that marks a job as ours in ``--comment``. Raises ValueError for a token that is none."""
    if not _TOKEN.fullmatch(token):
        raise ValueError("a token is 4 to 80 letters, digits, dots, dashes")
    return f"{COMMENT_PREFIX}{token}"


def names_token(job_name: str, token: str) -> bool:
    """True when the job name carries the end of the token (four characters or more), as ours do."""
    return len(token) >= 4 and token[-4:] in job_name


def submit_command(
    remote_dir: str,
    script_name: str,
    token: str,
    job_name: str,
    options: Sequence[str],
    *,
    attempt: int,
) -> RemoteCommand:
    """Submit `script_name` in `remote_dir`; `attempt` is how many earlier tries are known to have made no job."""
    words = [
        "sbatch",
        "--parsable",
        "--no-requeue",
        f"--comment={comment_of(token)}",
        f"--job-name={job_name}",
        *options,
        script_name,
    ]
    limits = (str(PROGRAM_LIMIT_S), str(SBATCH_LIMIT_S))
    arguments = (remote_dir, f"{attempt:d}", comment_of(token), *limits, *words)
    script = shell_script("submit", *arguments, begin=UNSET)
    return RemoteCommand("submit", script)


def parse_submit(stdout: str) -> str | None:
    """The job id in the last line that has one: sites print banners around it."""
    for line in reversed(stdout.splitlines()):
        match = _JOB_ID.fullmatch(line.strip())
        if match and (found := job_id(match[1])):
            return found
    return None


def accepted_unread(words: str) -> str:
    """The sentence for an sbatch that succeeded and printed no job number that can be read."""
    said = " ".join(words.split())[:200]
    return f"Slurm accepted the job but named no job number: {said or 'it printed nothing'}"


def broken_off(status: int | None) -> bool:
    """Whether a program did not end by itself: no status, a time limit, a signal. Slurm's own ends are 1 and 255."""
    return status is None or status in (TIMED_OUT, TIMED_OUT + 1) or 128 <= status <= _LAST_SIGNAL


def cancel_command(job_id: str, *, only_pending: bool = False) -> RemoteCommand:
    """Cancel one job; with `only_pending` not when it has started meanwhile."""
    words = ["scancel", *(["--state=PENDING"] if only_pending else []), "--", job_id]
    return RemoteCommand("cancel", f"{UNSET}\n{shlex.join(words)}")


def early_end_command(job_id: str, minutes: int) -> RemoteCommand:
    """Give one job a time limit of so many minutes, counted from its start: Slurm then ends it, labtui or not."""
    words = ["scontrol", "update", f"JobId={job_id}", f"TimeLimit={minutes:d}"]
    return RemoteCommand("early-end", f"{UNSET}\n{shlex.join(words)}")


def already_over(stderr: str) -> bool:
    """True when scancel says that there is nothing (left) to cancel."""
    return bool(re.search(r"invalid job id|already completing or completed|not found", stderr, re.IGNORECASE))


SETTLE_S = SBATCH_LIMIT_S + PROGRAM_LIMIT_S + 35
"""After this many seconds (cluster's clock) an sbatch that left no receipt has ended."""

NO_JOB_ANSWERS = 3
NO_JOB_S = 310.0
"""For so long no complete answer may hold a job: a request lives no longer than its munge credential, 300 s."""

_COMMENT_TOKEN = re.compile(r"lt[0-9a-f]{20}")
"""A submission's remote directory is called by its token."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to submit, as its directory tells. Times are UNIX seconds of the cluster.

    `status` None: sbatch has not ended, or its shell was killed with it; `ended_at` is then the latest it can be.
    `answer` is what sbatch printed.
    """

    ended_at: float
    status: int | None
    closed: bool
    answer: str
    stderr: str

    @property
    def job_id(self) -> str | None:
        return parse_submit(self.answer) if self.status == 0 else None

    @property
    def unread(self) -> str | None:
        """Slurm's words where it accepted the job and labtui cannot read the number in them."""
        return f"{self.answer} {self.stderr}" if self.status == 0 and self.job_id is None else None

    @property
    def refusal(self) -> Refusal | None:
        """What Slurm answered; None when sbatch did not end by itself."""
        if self.closed or self.status == 0 or broken_off(self.status):
            return None
        return classify(self.stderr)

    @property
    def clear(self) -> bool:
        """True when this try certainly made no job: taken away before it began, or plainly refused."""
        refusal = self.refusal
        return self.closed or (refusal is not None and not refusal.unclear)


@dataclass(frozen=True, slots=True)
class Lookup:
    """What one look found.

    `job_id` when there is a job; `started_id` when one of the submission has begun, by its own word. Otherwise
    `certain`: there is none and none can come; or `problem`: no complete answer; or `no_job_at`: when (UNIX seconds of
    the cluster) a complete answer held none after every try had ended, to be judged by `NoJobPeriod`. `attempts` counts
    the tries so far, `refusal` is the answer to the last. `accepted_as` has Slurm's words where sbatch succeeded
    without a number that can be read: there is a job, whatever the queue shows, and nothing may be sent again.
    """

    job_id: str | None = None
    certain: bool = False
    problem: str = ""
    attempts: int = 0
    refusal: Refusal | None = None
    no_job_at: float | None = None
    started_id: str | None = None
    accepted_as: str | None = None


@dataclass(frozen=True, slots=True)
class NoJobPeriod:
    """Complete answers in a row that held no job of a submission, by the cluster's clock; a failed one begins anew."""

    answers: int = 0
    first_at: float = 0.0
    last_at: float = 0.0

    def after(self, look: Lookup) -> NoJobPeriod:
        if look.no_job_at is None:
            return NoJobPeriod()
        return NoJobPeriod(
            self.answers + 1, self.first_at if self.answers else look.no_job_at, look.no_job_at
        )

    @property
    def certain(self) -> bool:
        """Whether no request can be under way any more."""
        return self.answers >= NO_JOB_ANSWERS and self.last_at - self.first_at >= NO_JOB_S


class _LookupRow(NamedTuple):
    job_id: str
    comment: str
    name: str
    work_dir: str


def lookup_command(remote_dir: str, token: str, job_name: str, nonce: str) -> RemoteCommand:
    """Close the next attempt, then say what the receipts, the queue and accounting know."""
    control = f"{remote_dir.rstrip('/')}/{CONTROL_DIR}"
    script = "\n".join(
        (
            shell_script("lookup", control, begin=PINNED, nonce=nonce),
            f"mark squeue; limit {PROGRAM_LIMIT_S} {queue_command(nonce)}",
            'mark "squeue-status $?"',
            f"mark sacct; limit {PROGRAM_LIMIT_S} {my_accounting_command(nonce)}",
            'mark "sacct-status $?"',
        )
    )
    return RemoteCommand("find", script)


def parse_lookup(result: CommandResult, nonce: str, token: str, job_name: str) -> Lookup:
    """Read the answer of `lookup_command`. Raises ValueError for a token that is none."""
    comment = comment_of(token)
    out, err = cut_sections(result.out, nonce), cut_sections(result.err, nonce)
    attempts = _attempts(out)
    queue_problem = answer_problem("squeue", out, err, result)
    accounting_problem = answer_problem("sacct", out, err, result)
    by_name = names_token(job_name, token)
    queue = Rows(()) if queue_problem else parse_queue(out["squeue"], nonce)
    accounting = Rows(()) if accounting_problem else parse_accounting(out["sacct"], nonce)
    if any(token in text for text in (*queue.unread, *accounting.unread)):
        queue_problem = queue_problem or "Slurm's row of this job cannot be read."
    rows = [*_rows_of_queue(queue.rows), *_rows_of_accounting(accounting.rows)]
    # Accounting may learn a job's comment only at its end: what the queue says of the same job counts for both.
    others = {row.job_id for row in rows if _another_submissions(row, token)}
    found = [
        int(row.job_id)
        for row in rows
        if row.comment == comment or (by_name and row.name == job_name and row.job_id not in others)
    ]
    started = parse_submit(out.get("started", ""))
    receipt = next((attempt.job_id for attempt in attempts if attempt.job_id), None)
    accepted_as = next((attempt.unread for attempt in attempts if attempt.unread is not None), None)
    # Slurm keeps a record of some refused submissions; the latest one is the one that counts.
    job_id = started or receipt or (str(max(found)) if found else None)
    if job_id is not None:
        return Lookup(job_id, certain=True, attempts=len(attempts), started_id=started)
    if accepted_as is not None:
        return Lookup(attempts=len(attempts), accepted_as=accepted_as)
    if not out.get("close", "").strip().startswith("closed"):
        return Lookup(
            problem="The submission's directory on the cluster cannot be written to, so nothing is certain yet."
        )
    tried = [attempt for attempt in attempts if not attempt.closed]
    refusal = tried[-1].refusal if tried else None
    unclear = [attempt for attempt in tried if not attempt.clear]
    problem = (queue_problem or accounting_problem) if unclear else ""
    return Lookup(
        certain=not unclear,
        problem=problem,
        attempts=len(attempts),
        refusal=refusal,
        no_job_at=_no_job_at(out, unclear) if unclear and not problem else None,
    )


def _no_job_at(out: dict[str, str], unclear: list[Attempt]) -> float | None:
    asked_at = number(out.get("asked", ""))
    if asked_at is None or asked_at < max(attempt.ended_at for attempt in unclear):
        return None
    return float(asked_at)


def _another_submissions(row: _LookupRow, token: str) -> bool:
    """Whether a job of the same name bears another submission's whole token: a name has only the end of one.

    The name alone counts where a site keeps no comments, or writes its own.
    """
    tokens = {row.comment.removeprefix(COMMENT_PREFIX)} if row.comment.startswith(COMMENT_PREFIX) else set()
    directory = row.work_dir.removesuffix("/.").rstrip("/").rpartition("/")[2]
    if _COMMENT_TOKEN.fullmatch(directory):
        tokens.add(directory)
    return bool(tokens - {token})


def _rows_of_queue(rows: Sequence[JobRow]) -> list[_LookupRow]:
    return [_LookupRow(row.job_id, row.comment, row.name, row.work_dir) for row in rows]


def _rows_of_accounting(rows: Sequence[AccountingRow]) -> list[_LookupRow]:
    return [_LookupRow(row.job_id, row.comment, row.name, "") for row in rows]


def _attempts(out: dict[str, str]) -> list[Attempt]:
    found: list[Attempt] = []
    while (times := out.get(f"attempt-{len(found)}")) is not None:
        began, ended, status = ([*times.split("\n"), "", "", ""])[:3]
        code = number(status)
        latest = (number(began) or 0.0) + SETTLE_S
        found.append(
            Attempt(
                ended_at=latest if code is None else number(ended) or latest,
                status=code,
                closed=status == "closed",
                answer=out.get(f"out-{len(found)}", ""),
                stderr=out.get(f"err-{len(found)}", ""),
            )
        )
    return found
