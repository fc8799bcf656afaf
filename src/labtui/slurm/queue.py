"""Polls: the remote command with `squeue` and `sacct`, the readers of its answers, and when the next poll is due.

Accounting is asked only about jobs that left the queue, and only for fields that every release from 20.11 to 26.05
has: one unknown field fails the whole query. A failed, cut off or unreadable answer of the queue gives `jobs` None,
"could not ask", which never means "finished".
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from labtui.domain.model import JobPhase, JobView
from labtui.slurm import remote_command
from labtui.slurm.remote_command import PROGRAM_LIMIT_S, Call, CommandResult, shell_file
from labtui.slurm.states import ENDED_BY, phase_of, plain_state
from labtui.slurm.values import duration_seconds, epoch_seconds, job_id, number

_ACCOUNTING = (
    ("job_id", "JobIDRaw"), ("state", "State"), ("exit_code", "ExitCode"), ("submit", "Submit"), ("start", "Start"),
    ("end", "End"), ("elapsed", "ElapsedRaw"), ("minutes", "TimelimitRaw"), ("node", "NodeList"),
    ("partition", "Partition"), ("qos", "QOS"), ("comment", "Comment"), ("name", "JobName"),
)  # fmt: skip
ACCOUNTING_FIELDS = ",".join(field for _, field in _ACCOUNTING)


class Rows(NamedTuple):
    """The rows of an answer, one for each job, and the texts that could not be read as a row."""

    rows: tuple[JobView, ...]
    unread: tuple[str, ...] = ()


def parse_accounting(text: str, nonce: str) -> Rows:
    """Rows in sacct's order; of several records of a requeued job the last one counts."""
    values, width = text.split(separators(nonce)[1])[:-1], len(_ACCOUNTING)
    records = (values[start : start + width] for start in range(0, len(values), width))
    return _rows(([first.rpartition("\n")[2], *others] for first, *others in records), _ACCOUNTING, "sacct")


FIELDS = (
    ("job_id", "%A"), ("state", "%T"), ("reason", "%r"), ("start", "%S"), ("submit", "%V"), ("end", "%e"),
    ("limit", "%l"), ("used", "%M"), ("partition", "%P"), ("qos", "%q"), ("node", "%N"), ("work_dir", "%Z"),
    ("comment", "%k"), ("name", "%j"),
)  # fmt: skip
"""The fields requested, in order, with squeue's format codes (20.02 to 26.05)."""


def separators(nonce: str) -> tuple[str, str]:
    """The marks before each row and between fields: control characters followed by the call's nonce."""
    return f"\x1e{nonce}", f"\x1f{nonce}"


QUESTION = (f"{PROGRAM_LIMIT_S}", " ".join(code for _, code in FIELDS), ACCOUNTING_FIELDS)
"""The arguments of the functions in `sh/queue.sh`: seconds, squeue's format codes, sacct's fields."""


def parse_queue(text: str, nonce: str) -> Rows:
    """Rows in squeue's order; of several rows of one job the last one counts."""
    row_mark, between = separators(nonce)
    pieces = (piece.removesuffix("\n").removesuffix("\r") for piece in text.split(row_mark)[1:])
    return _rows((piece.split(between) for piece in pieces), FIELDS, "squeue")


def _rows(records: Iterable[list[str]], columns: Sequence[tuple[str, str]], evidence: str) -> Rows:
    """The rows of records whose values are in the order of `columns`; the first one is the job ID."""
    rows, unread = {}, []
    for values in records:
        if (known := job_id(values[0])) is None or len(values) != len(columns):
            unread.append(" ".join(values))
        else:
            fields = dict(zip((name for name, _ in columns), values, strict=True))
            rows[known, fields["comment"]] = job_row(fields | {"job_id": known}, evidence=evidence)
    return Rows(tuple(rows.values()), tuple(unread))


_TEXTS = ("partition", "qos", "node", "work_dir", "comment")
_EMPTY = {"N/A", "(null)", "n/a", "None assigned"}
"""What Slurm prints for an empty one of these texts; an empty reason is "None"."""


def job_row(fields: Mapping[str, str], *, evidence: str = "squeue") -> JobView:
    """A job from the fields of squeue or sacct (`evidence`).

    squeue's start time is an estimate while the job waits, the actual start afterwards.
    """
    minutes, elapsed = number(fields.get("minutes", "")), number(fields.get("elapsed", ""))
    state, start = plain_state(fields["state"]), epoch_seconds(fields.get("start", ""))
    phase, reason = phase_of(state), fields.get("reason", "").strip()
    past = phase is not JobPhase.QUEUED and not reason.startswith(ENDED_BY)  # why it waited before it ran
    estimated = evidence == "squeue" and phase is JobPhase.QUEUED
    given = {name: fields.get(name, "") for name in _TEXTS}
    texts: dict[str, Any] = {name: "" if text.strip() in _EMPTY else text for name, text in given.items()}
    return JobView(
        job_id=fields["job_id"],
        phase=phase,
        slurm_state=state,
        reason="" if reason in _EMPTY | {"None"} or past else reason,
        submit_time=epoch_seconds(fields.get("submit", "")),
        start_estimate=start if estimated and not reason.startswith("JobHeld") else None,
        start_time=None if estimated else start,
        end_time=epoch_seconds(fields.get("end", "")) if phase is JobPhase.FINISHED else None,
        time_limit_s=duration_seconds(fields.get("limit", "")) if minutes is None else minutes * 60.0,
        elapsed_s=duration_seconds(fields.get("used", "")) if elapsed is None else float(elapsed),
        exit_code=fields.get("exit_code", "").strip() or None,
        evidence=evidence,
        name=fields.get("name", ""),
        **texts,
    )


class QueueAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one poll.

    `jobs` None: the queue could not be asked, `problem` says why. `accounting` None: accounting was asked but did not
    answer (`accounting_problem`); empty if there was nothing to ask or it knows nothing yet. `server_time` is the
    cluster's clock in UNIX seconds, None if unknown. Rows that cannot be read are left out.
    """

    jobs: tuple[JobView, ...] | None
    accounting: tuple[JobView, ...] | None = ()
    server_time: float | None = None
    problem: str = ""
    accounting_problem: str = ""


def poll_queue(vanished: Sequence[str] = ()) -> Call[QueueAnswer]:
    """Ask the queue, and accounting about the job IDs in `vanished`; texts that are not job IDs are ignored.

    A failure of Slurm does not raise; it is in `QueueAnswer.problem`.
    """
    gone = ",".join(text for text in vanished if job_id(text) == text)
    return Call(
        name="tick",
        script=shell_file("queue", "tick"),
        arguments=(*QUESTION, gone),
        limit_s=PROGRAM_LIMIT_S * (2 if gone else 1) + 15,
        read=partial(_read_answer, asked_accounting=bool(gone)),
    )


def _read_answer(result: CommandResult, *, asked_accounting: bool) -> QueueAnswer:
    out = result.sections
    server_time = epoch_seconds(out.get("now", ""))
    if problem := answer_problem("squeue", result):
        return QueueAnswer(jobs=None, accounting=None, server_time=server_time, problem=problem)
    answer = QueueAnswer(jobs=parse_queue(out["squeue"], result.nonce).rows, server_time=server_time)
    if not asked_accounting:
        return answer
    problem = answer_problem("sacct", result)
    accounting = None if problem else parse_accounting(out["sacct"], result.nonce).rows
    return replace(answer, accounting=accounting, accounting_problem=problem)


def answer_problem(program: str, result: CommandResult) -> str:
    """Why the section of `program` is not a valid answer, as a sentence; "" if it is one."""
    out = result.sections
    status = result.section_status(program)
    text = out.get(program, "").strip()
    words = "" if result.nonce in text else text.partition("\n")[0]  # without a row: no queue without jobs
    remark = (remote_command.trouble(result.remarks.get(program, "")) or words).rstrip(". ")
    if program not in out or status is None:
        return f"{program} gave no complete answer."
    if status == remote_command.TIMED_OUT:
        return f"{program} did not answer within {PROGRAM_LIMIT_S} s: Slurm's controller is busy or down."
    if status != 0:
        return f"{program} failed: {remark or f'exit status {status}'}."
    return f"{program} printed: {remark}." if remark else ""


# --------------------------------------------------------------------------- when to poll
# Times are monotonic seconds.

POLLS_PER_MINUTE = 5
"""Limit of polls, key presses included; with `SPARE_POLLS` never more than 6 in any minute. `squeue --local` costs two
requests (partitions and jobs, measured with sdiag)."""
SPARE_POLLS = 1
"""So many more polls are free at once after a quiet time; then the limit spaces them evenly, without a long gap."""
AFTER_FAILURE_S = 2.0
"""The first failure in a job's log is followed by one more poll, whatever the limit: its end is told in seconds."""
POLLS_IN_PRACTICE = 20
"""The limit on a practice cluster, which nobody else uses: a job's end is seen in time for the next one."""

_JUST_CHANGED_S = 8.0
_CHANGED_LATELY_S = 60.0


_OTHERS_PERIOD_S = 60.0


def poll_delay(
    phases: Collection[JobPhase] = (), *, since_change_s: float = 0.0, failures: int = 0, last_took_s: float = 0.0,
    has_others: bool = False,
) -> float | None:  # fmt: skip
    """Seconds from one poll to the next; None if there is nothing to watch.

    Depends on the phases of live jobs, the time since the last change, and failed polls in a row. `has_others`: there
    are live jobs that this folder did not send.
    """
    if not phases:
        return _OTHERS_PERIOD_S if has_others else None
    if failures and since_change_s >= _JUST_CHANGED_S:
        return min(60.0, 10.0 * 2.0 ** min(failures - 1, 4))
    period = 20.0 if JobPhase.RUNNING in phases else 30.0
    if not set(phases) <= {JobPhase.QUEUED, JobPhase.RUNNING}:  # some job is settling or unknown
        period = 10.0 if since_change_s < _CHANGED_LATELY_S else 30.0
    if since_change_s < _JUST_CHANGED_S:
        period = 5.0
    return max(period, 1.0, 3.0 * last_took_s)  # spare a slow controller


def next_poll_at(last: float, spent: float, delay: float, *, requested: bool = False, limit: int) -> float:
    """When the next poll is due after the `last` one; a poll that is `requested` waits for 2 s at most.

    `spent` is the time up to which the polls so far use the `limit` of polls a minute (see `spent_until`).
    """
    return max(last + (min(delay, 2.0) if requested else delay), spent - SPARE_POLLS * 60.0 / limit)


def spent_until(spent: float, now: float, limit: int) -> float:
    """`spent` of `next_poll_at` after a poll at `now`."""
    return max(spent, now) + 60.0 / limit
