"""From what Slurm answered (or did not) to what we may say about our jobs.

A failed or empty answer is never "finished". A job that is missing from a good answer is *settling* until
accounting, the controller or the job's own log speaks. What was last known is kept beside "unknown since".
"""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from labtui.domain.model import JobPhase, JobView, SubmissionStatus
from labtui.domain.profile import Profile
from labtui.domain.state import LabState, SubmissionState
from labtui.slurm.queue import Tick
from labtui.slurm.submit import COMMENT_PREFIX, TWIN_STATUS

UNKNOWN_AFTER_S = 20.0
"""How long asking may fail before a job's phase reads "unknown"; `unknown_since` tells from the first failure on."""

FORGOTTEN_AFTER_S = 600.0
"""How long a job may be unknown to queue and accounting before its phase reads "unknown"."""

SLACK_S = 90.0
"""Estimates and counters that moved by less are not news worth storing."""


def live(state: LabState) -> tuple[tuple[SubmissionState, JobView], ...]:
    """The submissions that Slurm accepted and of whose end there is no evidence yet, with their jobs."""
    accepted = (item for item in state.submissions.values() if item.status is SubmissionStatus.ACCEPTED)
    return tuple((one, one.job) for one in accepted if one.job and one.job.phase is not JobPhase.FINISHED)


def unread(state: LabState) -> tuple[SubmissionState, ...]:
    """The submissions whose job is over and whose log does not yet say how every run ended."""
    return tuple(
        item
        for item in state.submissions.values()
        if item.job and item.over and any(state.runs[number].outcome is None for number in item.run_ids)
    )


def vanished(state: LabState) -> tuple[str, ...]:
    """The job ids to ask accounting about: those that a good answer of the queue did not hold."""
    return tuple(job.job_id for _, job in live(state) if job.evidence == "gone")


def observe(state: LabState, tick: Tick, at: float) -> dict[str, JobView]:
    """What a tick tells about our living jobs, by token: those whose view changed. `at` is our clock, UNIX seconds."""
    views = {}
    rows = {row.job_id: row for row in tick.jobs or ()}
    accounts = {row.job_id: row for row in tick.accounting or ()}
    for submission, old in live(state):
        if tick.jobs is None:
            view = unanswered(old, at)
        elif old.job_id in rows:
            view = _by_our_clock(_seen(old, replace(rows[old.job_id], seen_at=at)), tick, at)
        else:
            view = _missing(old, accounts.get(old.job_id), tick, at)
        if differs(old, view):
            views[submission.token] = view
    return views


def ended_as_duplicate(state: LabState, submission: SubmissionState) -> bool:
    """Whether a job may have ended because another one of its submission had begun before it."""
    job = submission.job
    if job is None or job.phase is not JobPhase.FINISHED or job.slurm_state != "FAILED":
        return False
    if job.exit_code:
        return job.exit_code == f"{TWIN_STATUS}:0"
    return not any(state.runs[run_id].started for run_id in submission.run_ids)


def _seen(old: JobView, new: JobView) -> JobView:
    ran = old.phase is JobPhase.RUNNING or (old.phase is not JobPhase.QUEUED and old.start_time is not None)
    started_over = ran and new.phase is JobPhase.QUEUED
    return replace(
        new,
        restarts=old.restarts + (1 if started_over else 0),
        start_estimate=new.start_estimate if new.phase is JobPhase.QUEUED else None,
        submit_time=new.submit_time or old.submit_time,
        start_time=new.start_time or (None if started_over else old.start_time),
        node=new.node or ("" if new.phase is JobPhase.QUEUED else old.node),
    )


def _by_our_clock(view: JobView, tick: Tick, at: float) -> JobView:
    """The start that Slurm expects as far ahead as it is on the cluster's clock, which need not go with ours."""
    if view.start_estimate is None or tick.server_time is None:
        return view
    return replace(view, start_estimate=view.start_estimate - tick.server_time + at)


def _missing(old: JobView, account: JobView | None, tick: Tick, at: float) -> JobView:
    """A job that a good answer of the queue did not hold."""
    if account is not None and account.phase is JobPhase.FINISHED:
        return replace(account, seen_at=at, restarts=old.restarts, node=account.node or old.node)
    since = old.unknown_since if old.evidence == "gone" and old.unknown_since is not None else at
    forgotten = at - since >= FORGOTTEN_AFTER_S
    return replace(
        old,
        phase=JobPhase.UNKNOWN if forgotten else JobPhase.SETTLING,
        evidence="gone",
        unknown_since=since,
        start_estimate=None,
        reason=tick.accounting_problem if tick.accounting is None else "",
    )


def unanswered(old: JobView, at: float) -> JobView:
    """The same job after a question that got no answer: what was known stays, with "unknown since" beside it."""
    since = old.unknown_since if old.unknown_since is not None else at
    phase = old.phase
    if phase in (JobPhase.QUEUED, JobPhase.RUNNING) and at - since >= UNKNOWN_AFTER_S:
        phase = JobPhase.UNKNOWN
    return replace(old, phase=phase, unknown_since=since)


def differs(old: JobView, new: JobView) -> bool:
    """Whether a new view says anything that the old one does not (the moment of seeing and slow counters aside)."""
    quiet = replace(
        new,
        seen_at=old.seen_at,
        elapsed_s=old.elapsed_s,
        start_estimate=_settled(old.start_estimate, new.start_estimate),
    )
    return quiet != old


def _settled(old: float | None, new: float | None) -> float | None:
    """The old estimate while the new one says nearly the same."""
    if old is not None and new is not None and abs(new - old) < SLACK_S:
        return old
    return new


# --------------------------------------------------------------------------- all of the student's jobs
def other_jobs(state: LabState, rows: Iterable[JobView]) -> tuple[JobView, ...]:
    """The living jobs in the queue that this folder's submissions did not become, in the queue's order."""
    ours = {item.job.job_id for item in state.submissions.values() if item.job is not None}
    return tuple(
        row
        for row in rows
        if row.phase in (JobPhase.QUEUED, JobPhase.RUNNING)
        and row.job_id not in ours
        and row.comment.removeprefix(COMMENT_PREFIX) not in state.submissions
    )


class MyJob(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the list of all the student's jobs; `token` and `run_ids` are empty for one of another program.

    `since` is when it started, or was submitted, by the cluster's clock (UNIX seconds). `lasted_s` is how long it had
    run, or waited, when the queue was read; None when that is not known. `holds_slot` says that its queue takes no
    further job of the student while it lives.
    """

    job_id: str
    name: str
    phase: JobPhase
    slurm_state: str
    reason: str
    queue: str
    node: str
    since: float | None
    lasted_s: float | None
    time_limit_s: float | None
    token: str
    run_ids: tuple[int, ...]
    held: bool
    holds_slot: bool


def my_jobs(state: LabState, profile: Profile) -> tuple[MyJob, ...]:
    """Every living job of the student: this folder's first, then the others."""
    pairs = (*live(state), *((None, job) for job in state.other_jobs))
    return tuple(_my_job(job, item, profile, state.cluster_time) for item, job in pairs)


def _my_job(
    job: JobView, item: SubmissionState | None, profile: Profile, cluster_time: float | None
) -> MyJob:
    queue = job.qos if profile.queue(job.qos) is not None else job.partition or job.qos
    if item is not None:
        queue = item.queue or job.partition
    limits = profile.queue(queue)
    since = job.since
    return MyJob(
        job_id=job.job_id,
        name=item.job_name if item else job.name,
        phase=job.phase,
        slurm_state=job.slurm_state,
        reason=job.reason,
        queue=queue,
        node=job.node,
        since=since,
        lasted_s=None if since is None or cluster_time is None else max(0.0, cluster_time - since),
        time_limit_s=job.time_limit_s,
        token=item.token if item else "",
        run_ids=item.run_ids if item else (),
        held=item.held if item else "JobHeld" in job.reason,
        holds_slot=limits is not None and limits.max_submit_per_user == 1,
    )
