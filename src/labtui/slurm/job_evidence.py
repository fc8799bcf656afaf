"""What may be said about labtui's jobs, given Slurm's answers or their absence.

A failed or empty answer is never "finished". A job that is missing from a good answer is *settling* until accounting,
the controller or the job's own log tells its end. What was last known is kept beside "unknown since".
"""

from collections.abc import Iterable

from msgspec.structs import asdict, replace

from labtui.domain.model import JobPhase, JobView, SubmissionStatus
from labtui.domain.profile import Profile
from labtui.domain.state import UNKNOWN_AFTER_S, LabState, SubmissionState
from labtui.slurm.queue import QueueAnswer
from labtui.slurm.submit import DUPLICATE_STATUS, is_of_another, token_of

FORGOTTEN_AFTER_S = 600.0
"""How long a job may be missing from queue and accounting before its phase is "unknown"."""

SLACK_S = 90.0
"""Estimates that changed by less are not stored."""


def live_jobs(state: LabState) -> tuple[tuple[SubmissionState, JobView], ...]:
    """The accepted submissions without evidence that their job ended, with these jobs."""
    accepted = state.in_status(SubmissionStatus.ACCEPTED)
    return tuple((one, one.job) for one in accepted if one.job and one.job.phase is not JobPhase.FINISHED)


def without_outcome(state: LabState) -> tuple[SubmissionState, ...]:
    """The submissions whose job is over but some of whose runs have no outcome yet: their logs are still being read."""
    over = (item for item in state.submissions.values() if item.job and item.over)
    return tuple(item for item in over if any(state.runs[number].outcome is None for number in item.run_ids))


def observe(state: LabState, answer: QueueAnswer, at: float) -> dict[str, JobView]:
    """The live jobs that a poll changed, by token. `at` is UNIX seconds by this computer's clock.

    A row with the ID of our job and another submission's token is not our job: a cluster that loses its state counts
    its IDs from the start again.
    """
    views, queued = {}, {row.job_id for row in answer.jobs or ()}
    for submission, job in live_jobs(state):
        row, account = (_row_of(rows, submission) for rows in (answer.jobs, answer.accounting))
        if row is None and job.job_id in queued and account is not None and not token_of(account):
            account = None  # that of the other job
        # the time it ran stays when Slurm no longer says it
        old = replace(job, elapsed_s=job.ran_s(state.cluster_time) or None)
        if answer.jobs is None:
            view = view_if_unanswered(old, at)
        elif row is not None:
            view = _merge(old, replace(row, seen_at=at))
        else:
            view = _view_if_missing(old, account, answer, at)
        if differs(old, view):
            views[submission.token] = view
    return views


def _row_of(rows: Iterable[JobView] | None, submission: SubmissionState) -> JobView | None:
    """The last row of a submission's job, rather one with its token or name than another with its ID."""
    named = [row for row in rows or () if submission.job and row.job_id == submission.job.job_id]
    token, name = submission.token, submission.job_name
    mine = [row for row in named if not is_of_another(row, token, name)]
    mine.sort(key=lambda row: (token_of(row) == token, row.name == name))
    return mine[-1] if mine else None


def misread(state: LabState, answer: QueueAnswer) -> tuple[SubmissionState, ...]:
    """The submissions whose job, which no answer showed before, is another's: sbatch's output was misread."""
    rows = {row.job_id: row for row in answer.jobs or ()}
    new = ((item, rows.get(job.job_id)) for item, job in live_jobs(state) if job.evidence == "sbatch")
    return tuple(item for item, row in new if row and is_of_another(row, item.token, item.job_name))


def ended_as_duplicate(state: LabState, submission: SubmissionState) -> bool:
    """Whether a job may have ended because another job of its submission had started before it."""
    job = submission.job
    if job is None or job.phase is not JobPhase.FINISHED or job.slurm_state != "FAILED":
        return False
    if job.exit_code:
        return job.exit_code == f"{DUPLICATE_STATUS}:0"
    return not any(state.runs[run_id].started for run_id in submission.run_ids)


def _merge(old: JobView, new: JobView) -> JobView:
    return replace(
        new,
        submit_time=new.submit_time or old.submit_time,
        start_time=new.start_time or old.start_time,
        node=new.node or ("" if new.phase is JobPhase.QUEUED else old.node),
    )


def _view_if_missing(old: JobView, account: JobView | None, answer: QueueAnswer, at: float) -> JobView:
    """The view of a job that is missing from a good answer of the queue."""
    if account is not None and account.phase is JobPhase.FINISHED:
        return replace(account, seen_at=at, node=account.node or old.node)
    since = old.unknown_since if old.evidence == "gone" and old.unknown_since is not None else at
    if account is not None:  # it goes on, by accounting: the queue's answer was not whole
        return replace(view_if_unanswered(replace(old, phase=account.phase), at), evidence="gone")
    return replace(
        old,
        phase=JobPhase.UNKNOWN if at - since >= FORGOTTEN_AFTER_S else JobPhase.SETTLING,
        evidence="gone",
        unknown_since=since,
        start_estimate=None,
        reason=answer.accounting_problem if answer.accounting is None else "",
    )


def view_if_unanswered(old: JobView, at: float) -> JobView:
    """The view of a job after a poll without answer: what was known stays, with "unknown since" beside it."""
    since = min(old.unknown_since or at, at)  # the clock may have been set back
    lost = old.phase in (JobPhase.QUEUED, JobPhase.RUNNING) and at - since >= UNKNOWN_AFTER_S
    return replace(old, phase=JobPhase.UNKNOWN if lost else old.phase, unknown_since=since)


def differs(old: JobView, new: JobView) -> bool:
    """Whether two views differ in more than the time seen, the elapsed time or a similar estimate."""
    was, estimate = old.start_estimate, new.start_estimate
    if was is not None and estimate is not None and abs(estimate - was) < SLACK_S:
        estimate = was
    return replace(new, seen_at=old.seen_at, elapsed_s=old.elapsed_s, start_estimate=estimate) != old


# --------------------------------------------------------------------------- all of the student's jobs
def other_jobs(state: LabState, rows: Iterable[JobView]) -> tuple[JobView, ...]:
    """The jobs without an end that are not this folder's, in the queue's order."""
    live = (
        row for row in rows if row.phase is not JobPhase.FINISHED and token_of(row) not in state.submissions
    )
    return tuple(row for row in live if not any(_row_of([row], item) for item, _ in live_jobs(state)))


class MyJob(JobView, frozen=True, kw_only=True):
    """A job in the list of all the student's jobs; `token` and `run_ids` are empty for jobs of other programs.

    `lasted_s` is how long it had run, or waited, when the queue was read; None if unknown. `holds_slot`: its queue
    takes no other job of the student until it ends.
    """

    queue: str
    since: float | None
    lasted_s: float | None
    token: str
    run_ids: tuple[int, ...]
    held: bool
    holds_slot: bool


def my_jobs(state: LabState, profile: Profile) -> tuple[MyJob, ...]:
    """All of the student's live jobs: this folder's first, then the others."""
    pairs = (*live_jobs(state), *((None, job) for job in state.other_jobs))
    return tuple(_my_job(job, item, profile, state.cluster_time) for item, job in pairs)


def _my_job(
    job: JobView, item: SubmissionState | None, profile: Profile, cluster_time: float | None
) -> MyJob:
    queue = job.qos if profile.queue(job.qos) is not None else job.partition or job.qos
    if item is not None:
        queue = item.queue or job.partition
    limits = profile.queue(queue)
    return MyJob(
        **asdict(job if item is None else replace(job, name=item.job_name)),
        queue=queue,
        since=job.since,
        lasted_s=None if job.since is None or cluster_time is None else max(0.0, cluster_time - job.since),
        token=item.token if item else "",
        run_ids=item.run_ids if item else (),
        held=item.held if item else "JobHeld" in job.reason,
        holds_slot=limits is not None and limits.max_submit_per_user == 1,
    )
