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
from collections.abc import Sequence
from functools import partial

import msgspec

from labtui.domain.errors import ConnectionLost, RemoteFailure, SubmitRefused
from labtui.domain.model import JobView
from labtui.slurm import queue
from labtui.slurm.job_control import SbatchAnswer, classify
from labtui.slurm.probe import ASSOCIATION_FIELDS, parse_associations
from labtui.slurm.queue import ACCOUNTING_FIELDS, QUEUE_CODES, Rows, answer_problem
from labtui.slurm.remote_command import PROGRAM_LIMIT_S, TIMED_OUT, UNSET, Call, CommandResult, shell_file
from labtui.slurm.values import job_id, number

CONTROL_DIR = ".labtui"
SBATCH_LIMIT_S = 240
"""sbatch retries by itself for about two minutes when the controller is busy."""

TWIN_STATUS = 76
"""How a job ends that finds another one of its submission begun before it (`sh/started-guard.sh`)."""

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


def submit(
    remote_dir: str, script_name: str, token: str, job_name: str, options: Sequence[str] = (), *, attempt: int
) -> Call[str]:
    """Submit `script_name` in `remote_dir`: the job id. A job of this token that is there already is adopted.

    `attempt` is how many earlier tries are known to have made no job (`Lookup.attempts`, or one more after each
    refusal); with another number than there were tries nothing is sent. Whatever happens, this runs sbatch at most
    once. Reading raises SubmitRefused (Slurm said no, there is no job; `wait` tells whether later may help),
    RemoteFailure (Slurm said yes, and no number that can be read), or ConnectionLost (it is not known whether there is
    a job: use `lookup`).
    """
    words = [
        "sbatch",
        "--parsable",
        "--no-requeue",
        f"--comment={comment_of(token)}",
        f"--job-name={job_name}",
        *options,
        script_name,
    ]
    limits = (f"{PROGRAM_LIMIT_S}", f"{SBATCH_LIMIT_S}")
    fields = ",".join(ASSOCIATION_FIELDS)
    return Call(
        name="submit",
        script=shell_file("submit"),
        arguments=(remote_dir, f"{attempt:d}", comment_of(token), *limits, fields, *words),
        limit_s=SBATCH_LIMIT_S + 2 * PROGRAM_LIMIT_S + 15,
        read=_read_submitted,
        begin=UNSET,  # a job inherits the environment it was submitted from
    )


def _read_submitted(result: CommandResult) -> str:
    if result.status == 0:
        found = parse_submit(result.out)
        if found is None:
            raise RemoteFailure(accepted_unread(result.out), "labtui looks the job up by its token.")
        return found
    if result.status == TAKEN_AWAY or broken_off(result.status):
        raise ConnectionLost(
            "Slurm's answer to the submission did not arrive.",
            "labtui looks the job up by its token; nothing is sent twice.",
        )
    refusal = classify(result.err)
    if result.status == NO_DIRECTORY and refusal.key != "quota":
        raise SubmitRefused("The directory of this submission is not on the cluster.", "Push again.")
    if result.status == NOT_ASKED and refusal.key != "no-sbatch":
        raise SubmitRefused(
            "Slurm's controller does not answer. Nothing was sent.",
            "labtui sends it when the controller answers again.",
            wait=True,
        )
    if refusal.unclear:
        raise ConnectionLost(refusal.sentence, refusal.hint)
    hint = f"{refusal.hint} {_open_to_user(refusal.key, result.out)}".strip()
    raise SubmitRefused(refusal.sentence, hint, wait=refusal.wait)


def _open_to_user(key: str, out: str) -> str:
    """After a refused account or QoS: those that Slurm has for this user; "" where it does not say."""
    found = parse_associations(out)
    names = {
        "account": [item.account for item in found],
        "qos": [name for item in found for name in item.qos],
    }
    mine = ", ".join(dict.fromkeys(names.get(key, ())))
    return f"Open to you: {mine}." if mine else ""


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


SETTLE_S = SBATCH_LIMIT_S + PROGRAM_LIMIT_S + 35
"""After this many seconds (cluster's clock) an sbatch that left no receipt has ended."""

NO_JOB_ANSWERS = 3
NO_JOB_S = 310.0
"""For so long no complete answer may hold a job: a request lives no longer than its munge credential, 300 s."""

_COMMENT_TOKEN = re.compile(r"lt[0-9a-f]{20}")
"""A submission's remote directory is called by its token."""


class Attempt(msgspec.Struct, frozen=True):
    """One try to submit, as its directory tells. Times are UNIX seconds of the cluster.

    `ended_at` is the latest it can be where sbatch has not ended, or its shell was killed with it. `unread` has Slurm's
    words where it accepted the job and labtui cannot read the number in them; `refusal` is None when sbatch did not end
    by itself.
    """

    ended_at: float
    closed: bool
    job_id: str | None
    unread: str | None
    refusal: SbatchAnswer | None

    @property
    def clear(self) -> bool:
        """True when this try certainly made no job: taken away before it began, or plainly refused."""
        return self.closed or (self.refusal is not None and not self.refusal.unclear)


class Lookup(msgspec.Struct, frozen=True):
    """What one look found.

    `job_id` when there is a job; `started_id` when one of the submission has begun, by its own word. Otherwise
    `certain`: there is none and none can come; or `problem`: no complete answer; or `no_job_at`: when (UNIX seconds of
    the cluster) a complete answer held none after every try had ended, to be judged by `NoJobPeriod`. `attempts` counts
    the tries so far, `refusal` is the answer to the last. `accepted`: sbatch succeeded without a number that can be
    read: there was a job, whatever the queue shows, and nothing may be sent again.
    """

    job_id: str | None = None
    certain: bool = False
    problem: str = ""
    attempts: int = 0
    refusal: SbatchAnswer | None = None
    no_job_at: float | None = None
    started_id: str | None = None
    accepted: bool = False


class NoJobPeriod(msgspec.Struct, frozen=True):
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


def lookup(remote_dir: str, token: str, job_name: str) -> Call[Lookup]:
    """Close the next attempt, then say what the job itself, the receipts, the queue and accounting know.

    A submit command that is still on its way can no longer act afterwards. Raises ValueError for a token that is none.
    """
    control = f"{remote_dir.rstrip('/')}/{CONTROL_DIR}"
    comment_of(token)
    return Call(
        name="find",
        script=shell_file("queue", "lookup"),
        arguments=(control, f"{PROGRAM_LIMIT_S}", QUEUE_CODES, ",".join(ACCOUNTING_FIELDS)),
        limit_s=3 * PROGRAM_LIMIT_S + 15,
        read=partial(_read_lookup, token=token, job_name=job_name),
        silence=("The search for the job gave no answer.", "labtui asks again."),
    )


def _read_lookup(result: CommandResult, *, token: str, job_name: str) -> Lookup:
    comment = comment_of(token)
    out = result.sections
    attempts = _attempts(out)
    queue_problem = answer_problem("squeue", result)
    accounting_problem = answer_problem("sacct", result)
    by_name = token[-4:] in job_name  # as the names that labtui gives do
    queued = Rows(()) if queue_problem else queue.parse_queue(out["squeue"], result.nonce)
    accounting = Rows(()) if accounting_problem else queue.parse_accounting(out["sacct"], result.nonce)
    if any(token in text for text in (*queued.unread, *accounting.unread)):
        queue_problem = queue_problem or "Slurm's row of this job cannot be read."
    rows = (*queued.rows, *accounting.rows)
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
        asked_at = None if queue_problem or accounting_problem else number(out.get("asked", ""))
        said = f"{accepted_unread(accepted_as)}. It is not sent again."
        return Lookup(problem=said, attempts=len(attempts), accepted=True, no_job_at=asked_at)
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


def _another_submissions(row: JobView, token: str) -> bool:
    """Whether a job of the same name bears another submission's whole token: a name has only the end of one.

    The name alone counts where a site keeps no comments, or writes its own.
    """
    tokens = {row.comment.removeprefix(COMMENT_PREFIX)} if row.comment.startswith(COMMENT_PREFIX) else set()
    directory = row.work_dir.removesuffix("/.").rstrip("/").rpartition("/")[2]
    if _COMMENT_TOKEN.fullmatch(directory):
        tokens.add(directory)
    return bool(tokens - {token})


def _attempts(out: dict[str, str]) -> list[Attempt]:
    found: list[Attempt] = []
    while (times := out.get(f"attempt-{len(found)}")) is not None:
        began, ended, status = ([*times.split("\n"), "", "", ""])[:3]
        answer, stderr = (out.get(f"{name}-{len(found)}", "") for name in ("out", "err"))
        code, closed = number(status), status == "closed"
        latest = (number(began) or 0.0) + SETTLE_S
        made = parse_submit(answer) if code == 0 else None
        found.append(
            Attempt(
                ended_at=latest if code is None else number(ended) or latest,
                closed=closed,
                job_id=made,
                unread=f"{answer} {stderr}" if code == 0 and made is None else None,
                refusal=None if closed or code == 0 or broken_off(code) else classify(stderr),
            )
        )
    return found
