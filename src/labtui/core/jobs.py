"""From what Slurm answered (or did not) to what we may say about our jobs.

A failed or empty answer is never "finished". A job that is missing from a good answer is *settling* until
accounting, the controller or the job's own log speaks. What was last known is kept beside "unknown since".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from labtui.core.events import JobObserved
from labtui.core.model import JobPhase, JobView, SubmissionStatus
from labtui.core.slurm.accounting import AccountingRow
from labtui.core.slurm.queue import JobRow
from labtui.core.slurm.tick import Tick
from labtui.core.state import LabState, SubmissionState

UNKNOWN_AFTER_S = 20.0
"""How long asking may fail before a job's phase reads "unknown"; `unknown_since` tells from the first failure on."""

FORGOTTEN_AFTER_S = 600.0
"""How long a job may be unknown to queue and accounting before its phase reads "unknown"."""

SLACK_S = 90.0
"""Estimates and counters that moved by less are not news worth storing."""


def live(state: LabState) -> tuple[SubmissionState, ...]:
    """The submissions that Slurm accepted and of whose end there is no evidence yet."""
    return tuple(
        item
        for item in state.submissions.values()
        if item.status is SubmissionStatus.ACCEPTED
        and item.job is not None
        and item.job.phase is not JobPhase.FINISHED
    )


def unread(state: LabState) -> tuple[SubmissionState, ...]:
    """The submissions whose job is over and whose log does not yet say how every run ended."""
    return tuple(
        item
        for item in state.submissions.values()
        if item.job is not None
        and item.job.phase is JobPhase.FINISHED
        and any(state.runs[run_id].outcome is None for run_id in item.run_ids)
    )


def vanished(state: LabState) -> tuple[str, ...]:
    """The job ids to ask accounting about: those that a good answer of the queue did not hold."""
    return tuple(
        item.job.job_id
        for item in live(state)
        if item.job is not None and (item.job.phase is JobPhase.SETTLING or item.job.evidence == "gone")
    )


def observe(state: LabState, tick: Tick, at: float) -> tuple[JobObserved, ...]:
    """What a tick tells about our jobs; one event for each whose view changed. `at` is our clock, UNIX seconds."""
    events = []
    rows = _newest(tick.jobs or ())
    accounts = _newest(tick.accounting or ())
    for submission in live(state):
        old = submission.job
        if old is None:
            continue
        if tick.jobs is None:
            view = could_not_ask(old, at)
        elif old.job_id in rows:
            view = _seen(old, rows[old.job_id].view(at))
        else:
            view = _missing(old, accounts.get(old.job_id), tick, at)
        if differs(old, view):
            events.append(JobObserved(at=at, token=submission.token, job=view))
    return tuple(events)


def _newest(rows: Iterable[JobRow] | Iterable[AccountingRow]) -> dict[str, JobRow | AccountingRow]:
    """By job id; of several records (a requeued job) the last one counts."""
    return {row.job_id: row for row in rows}


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


def _missing(old: JobView, account: JobRow | AccountingRow | None, tick: Tick, at: float) -> JobView:
    """A job that a good answer of the queue did not hold."""
    if account is not None and account.phase is JobPhase.FINISHED:
        return replace(account.view(at), restarts=old.restarts, node=account.nodes or old.node)
    since = old.unknown_since if old.evidence == "gone" and old.unknown_since is not None else at
    forgotten = at - since >= FORGOTTEN_AFTER_S
    return replace(
        old,
        phase=JobPhase.UNKNOWN if forgotten else JobPhase.SETTLING,
        evidence="gone",
        seen_at=old.seen_at,
        unknown_since=since,
        start_estimate=None,
        reason=tick.accounting_problem if tick.accounting is None else "",
    )


def could_not_ask(old: JobView, at: float) -> JobView:
    """The same job after a question that got no answer: what was known stays, with "unknown since" beside it."""
    since = old.unknown_since if old.unknown_since is not None else at
    phase = old.phase
    if phase in (JobPhase.QUEUED, JobPhase.RUNNING) and at - since >= UNKNOWN_AFTER_S:
        phase = JobPhase.UNKNOWN
    return replace(old, phase=phase, unknown_since=since)


def by_log(old: JobView, at: float) -> JobView:
    """A settling job whose own log shows that its script came to its end: the last witness there is."""
    return replace(
        old,
        phase=JobPhase.FINISHED,
        evidence="log",
        seen_at=at,
        unknown_since=None,
        slurm_state=old.slurm_state,
    )


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


def phase_counts(submissions: Sequence[SubmissionState]) -> tuple[int, int, int]:
    """How many of these are queued, running and settling; a job whose state is unknown counts as settling."""
    phases = [item.job.phase for item in submissions if item.job is not None]
    queued, running = phases.count(JobPhase.QUEUED), phases.count(JobPhase.RUNNING)
    return queued, running, len(phases) - queued - running
