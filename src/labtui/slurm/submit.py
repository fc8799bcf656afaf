"""Runs `sbatch` exactly once, and looks up a submission whose answer was lost: commands and their readers.

Each submission has a directory of its own. Every attempt to submit first creates ``.labtui/attempt-N`` in it. That is
atomic, so each N runs sbatch at most once. N is the number of attempts whose end the sender knows, so a sender that
does not know about an attempt cannot run a second one beside it. A look-up creates the next directory itself, which
blocks an attempt that is still on its way. An attempt that finds a job of its submission adopts it instead of running
sbatch. sbatch's answer is written into the directory before it is sent back: a receipt that survives a lost connection.

"There is no job" is certain at once if every attempt was blocked, or was refused and the queue shows none. After any
other end the request may still be with the controller: then several complete answers in a row must show no job
(`empty_answers`).
"""

import itertools
import math
import re
from collections.abc import Container, Iterator, Sequence
from functools import partial

import msgspec

from labtui.domain.errors import RemoteFailure, SubmitRefused, failure
from labtui.domain.model import JobView
from labtui.slurm import queue
from labtui.slurm.job_control import SbatchAnswer, classify
from labtui.slurm.probe import ASSOCIATION_FIELDS
from labtui.slurm.remote_command import PROGRAM_LIMIT_S, TIMED_OUT, UNSET, Call, CommandResult, shell_file
from labtui.slurm.values import job_id, number

CONTROL_DIR = ".labtui"
SBATCH_LIMIT_S = 240
"""sbatch itself retries for about two minutes if the controller is busy."""

DUPLICATE_STATUS = 76
"""The exit status of a job that finds another job of its submission already started (`sh/started-guard.sh`)."""

NO_DIRECTORY = 74
NOT_ASKED = 75
"""The controller did not answer `squeue`, so `sbatch` was not run."""
BLOCKED = 76

_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{3,79}")
_LAST_SIGNAL = 128 + 64
_JOB_ID = re.compile(r"(?:Submitted batch job )?([0-9]+)(?:;\S*| on cluster \S+)?")
"""sbatch's output with ``--parsable``, and the sentence that a site's wrapper may print nevertheless."""


COMMENT_PREFIX = "labtui:"


def comment_of(token: str) -> str:
    """The ``--comment`` that marks a job as labtui's. Raises ValueError for an invalid token."""
    if not _TOKEN.fullmatch(token):
        raise ValueError("a token is 4 to 80 letters, digits, dots, dashes")
    return f"{COMMENT_PREFIX}{token}"


def submit(
    remote_dir: str, script_name: str, token: str, job_name: str, options: Sequence[str] = (), *, attempt: int
) -> Call[str]:
    """Submit `script_name` in `remote_dir`; the answer is the job ID. An existing job with this token is adopted.

    `attempt` is the number of earlier attempts known to have made no job (`Lookup.attempts`, or one more after each
    refusal); if that is not the number of attempts made, nothing is sent. This runs sbatch at most once. Reading
    raises SubmitRefused (there is no job; `wait`: trying later may help), RemoteFailure (Slurm accepted the job without
    a readable job ID, or said what may be no refusal), or ConnectionLost (no answer); after the last two use `lookup`.
    """
    names = (f"--comment={comment_of(token)}", f"--job-name={job_name}")
    words = ("sbatch", "--parsable", "--no-requeue", *names, *options, script_name)
    limits = (f"{PROGRAM_LIMIT_S}", f"{SBATCH_LIMIT_S}")
    fields = ",".join(ASSOCIATION_FIELDS)
    return Call(
        name="submit",
        script=shell_file("refused", "submit"),
        arguments=(remote_dir, f"{attempt:d}", comment_of(token), *limits, fields, *words),
        limit_s=SBATCH_LIMIT_S + 2 * PROGRAM_LIMIT_S + 15,
        read=_read_submitted,
        begin=UNSET,  # a job inherits the environment it was submitted from
    )


def _read_submitted(result: CommandResult) -> str:
    if result.status == 0:
        if (found := parse_submit(result.out)) is None:
            raise accepted_unread(result.out)
        return found
    if result.status == BLOCKED or was_cut_off(result.status):
        raise failure("submission-unanswered")
    refusal = classify(result.err, result.out)
    if result.status == NO_DIRECTORY and refusal.key != "quota":
        raise failure("no-directory")
    if result.status == NOT_ASKED and refusal.key != "no-sbatch":
        raise failure("not-asked-slurm", wait=True)
    if refusal.unclear:
        raise RemoteFailure(refusal.sentence, refusal.hint)
    raise SubmitRefused(refusal.sentence, refusal.hint, wait=refusal.wait)


def parse_submit(stdout: str, taken: Container[str] = ()) -> str | None:
    """The only job ID that is not `taken`, on a line of its own; None if there are several: banners have numbers."""
    matches = (_JOB_ID.fullmatch(line.strip()) for line in stdout.splitlines())
    found = {number for match in matches if match and (number := job_id(match[1])) and number not in taken}
    return found.pop() if len(found) == 1 else None


def accepted_unread(words: str) -> RemoteFailure:
    """The error for an sbatch that succeeded without printing one new job ID."""
    said = " ".join(words.split())[:200]
    sentence = f"Slurm accepted the job but named no single new job number: {said or 'it printed nothing'}"
    return RemoteFailure(sentence, "labtui looks the job up by its token.")


def was_cut_off(status: int | None) -> bool:
    """Whether a program was cut off: no exit status, a time limit or a signal. Slurm's own failures are 1 and 255."""
    return status is None or status in (TIMED_OUT, TIMED_OUT + 1) or 128 <= status <= _LAST_SIGNAL


SETTLE_S = SBATCH_LIMIT_S + PROGRAM_LIMIT_S + 35
"""After this many seconds (by the cluster's clock) an sbatch that left no receipt has ended."""

QUEUE_MEMORY_S = 240.0
"""The queue shows a job for at least this long after its end (Slurm's MinJobAge, 300 s unless a site changes it)."""
NO_JOB_ANSWERS = 3
NO_JOB_S = 310.0
"""How long complete answers must show no job: a request is valid as long as its munge credential, 300 s."""

_DIRECTORY = re.compile(r"lt[0-9a-f]{20}")
"""A submission's remote directory is named by its token."""


class Attempt(msgspec.Struct, frozen=True):
    """One attempt to submit, read from its directory. Times are UNIX seconds by the cluster's clock.

    `closed`: a look-up blocked it. `ended_at` is the latest possible time if there is no receipt. `accepted_as` is
    Slurm's output if it accepted the job. `refusal` is None if sbatch succeeded or was cut off.
    """

    ended_at: float
    closed: bool
    job_id: str | None
    accepted_as: str | None
    refusal: SbatchAnswer | None


class Lookup(msgspec.Struct, frozen=True):
    """The result of one look-up.

    `job_id`: there is a job; `started_id`: the one that started first, from the link it left. Otherwise `certain`:
    there is no job and none can come; or `problem`: no complete answer; or `no_job_at`: when (UNIX seconds by the
    cluster's clock) a complete answer showed no job after every attempt had ended, for `empty_answers`. `attempts` is
    their number so far, `refusal` the answer to the last one. `accepted`: sbatch succeeded without a new job ID,
    so there was a job, whatever the queue shows, and nothing may be sent again.
    """

    job_id: str | None = None
    certain: bool = False
    problem: str = ""
    attempts: int = 0
    refusal: SbatchAnswer | None = None
    no_job_at: float | None = None
    started_id: str | None = None
    accepted: bool = False


def empty_answers(before: tuple[float, ...], look: Lookup) -> tuple[float, ...]:
    """When complete answers in a row showed no job of a submission, by the cluster's clock; a failed one resets it."""
    return () if look.no_job_at is None else (*before, look.no_job_at)


def no_job(times: Sequence[float]) -> bool:
    """Whether no request can still be on its way, by the times of `empty_answers`."""
    return len(times) >= NO_JOB_ANSWERS and times[-1] - times[0] >= NO_JOB_S


def lookup(
    remote_dir: str, token: str, job_name: str, taken: Container[str] = (), first: int = 0
) -> Call[Lookup]:
    """Block the next attempt, then collect what the job itself, the receipts, the queue and accounting know.

    A submit command that is still on its way has no effect afterwards. `taken` are the job IDs of other submissions,
    which no receipt may name. The attempts before the `first` are known to have made no job; a queue that is full for
    a night leaves thousands. Raises ValueError for an invalid token.
    """
    control = f"{remote_dir.rstrip('/')}/{CONTROL_DIR}"
    comment_of(token)
    return Call(
        name="find",
        script=shell_file("queue", "lookup"),
        arguments=(control, *queue.QUESTION, f"{first:d}"),
        limit_s=3 * PROGRAM_LIMIT_S + 15,
        read=partial(_read_lookup, token=token, job_name=job_name, taken=taken, first=first),
        silence=("The search for the job gave no answer.", "labtui asks again."),
    )


def _read_lookup(
    result: CommandResult, *, token: str, job_name: str, taken: Container[str], first: int
) -> Lookup:
    out = result.sections
    attempts = list(_attempts(out, taken, first))
    made = first + len(attempts)
    tried = [attempt for attempt in attempts if not attempt.closed]
    queue_problem = queue.answer_problem("squeue", result)
    accounting_problem = queue.answer_problem("sacct", result)
    by_name = token[-4:] in job_name  # true for names that labtui gives
    queued = queue.Rows(()) if queue_problem else queue.parse_queue(out["squeue"], result.nonce)
    accounting = queue.Rows(()) if accounting_problem else queue.parse_accounting(out["sacct"], result.nonce)
    if any(token in text for text in (*queued.unread, *accounting.unread)):
        queue_problem = queue_problem or "Slurm's row of this job cannot be read."
    rows = (*queued.rows, *accounting.rows)
    # Accounting may learn a job's comment only at its end, so the queue's row of the same job decides for both.
    others = {row.job_id for row in rows if is_of_another(row, token, job_name)}
    named = {row.job_id for row in rows if by_name and row.name == job_name} - others
    found = [int(row.job_id) for row in rows if token_of(row) == token or row.job_id in named]
    started = parse_submit(out.get("started", ""))
    receipts = (attempt.job_id for attempt in tried if attempt.job_id not in {None, *others})
    # Slurm keeps records of some refused submissions, too; the latest record counts.
    job_id = started or next(receipts, None) or (str(max(found)) if found else None)
    if job_id is not None:
        return Lookup(job_id, certain=True, attempts=made, started_id=started)
    asked_at, incomplete = number(out.get("asked", "")), queue_problem or accounting_problem
    accepted_as = next((attempt.accepted_as for attempt in tried if attempt.accepted_as is not None), None)
    if accepted_as is not None:
        said = f"{accepted_unread(accepted_as).sentence}. It is not sent again."
        no_job_at = None if incomplete else asked_at
        return Lookup(problem=said, attempts=made, accepted=True, no_job_at=no_job_at)
    if not out.get("close", "").strip().startswith("closed"):
        said = "The submission's directory on the cluster cannot be written to, so nothing is certain yet."
        return Lookup(problem=said)
    unclear = any(attempt.refusal is None or attempt.refusal.unclear for attempt in tried)
    since_s = (asked_at or 0.0) - max((attempt.ended_at for attempt in tried), default=math.inf)
    if not unclear and since_s <= QUEUE_MEMORY_S:
        incomplete = queue_problem if tried else ""
    return Lookup(
        certain=not unclear and not incomplete,
        problem=incomplete,
        attempts=made,
        refusal=tried[-1].refusal if tried else None,
        no_job_at=asked_at if unclear and not incomplete and since_s >= 0 else None,
    )


def token_of(row: JobView) -> str:
    """The token of a job's submission: in the comment, or where a site drops or replaces it, the directory's name."""
    if row.comment.startswith(COMMENT_PREFIX):
        return row.comment.removeprefix(COMMENT_PREFIX)
    directory = row.work_dir.removesuffix("/.").rstrip("/").rpartition("/")[2]
    return directory if _DIRECTORY.fullmatch(directory) else ""


def is_of_another(row: JobView, token: str, job_name: str = "") -> bool:
    """Whether a job has another submission's token, or neither a token nor our name.

    A name has only the end of a token. Accounting tells no directory, and a job may rename itself.
    """
    strange = bool(job_name and row.work_dir) and row.name not in ("", job_name)
    return token_of(row) != token if token_of(row) else strange


def _attempts(out: dict[str, str], taken: Container[str], first: int) -> Iterator[Attempt]:
    for attempt in itertools.count(first):
        if (times := out.get(f"attempt-{attempt}")) is None:
            return
        began, ended, status = ([*times.split("\n"), "", "", ""])[:3]
        answer, stderr = (out.get(f"{name}-{attempt}", "") for name in ("out", "err"))
        code, closed = number(status), status == "closed"
        latest = (number(began) or 0.0) + SETTLE_S
        yield Attempt(
            ended_at=latest if code is None else number(ended) or latest,
            closed=closed,
            job_id=parse_submit(answer, taken) if code == 0 else None,
            accepted_as=f"{answer} {stderr}" if code == 0 else None,
            refusal=None if closed or code == 0 or was_cut_off(code) else classify(stderr),
        )
