"""The student's own limit: a job shall end after some minutes of running, before the limit it was planned with.

Slurm keeps the watch, so the job ends also when the laptop is closed. What Slurm would refuse or do at once is
said here beforehand. No I/O.
"""

from __future__ import annotations

from labtui.core.model import JobPhase, JobView, SubmissionStatus
from labtui.core.state import SubmissionState

MAX_MINUTES = 7 * 24 * 60
"""More than any queue of the lab allows."""


def early_end_refusal(submission: SubmissionState, minutes: int) -> tuple[str, str] | None:
    """Why this limit makes no sense for this submission, and what to do instead; None when it does.

    Minutes count from the start of the job. A job that runs can only be given a shorter limit; one that does not
    run yet can have any up to the planned one.
    """
    job = submission.job
    if submission.status in (SubmissionStatus.REFUSED, SubmissionStatus.WITHDRAWN) or (
        job is not None and job.phase is JobPhase.FINISHED
    ):
        return "It is over: there is nothing left to end.", "`labtui submit` makes a new run."
    if submission.status in (SubmissionStatus.SENDING, SubmissionStatus.UNKNOWN):
        return "It is on its way to Slurm just now.", "Try again in a moment."
    if not 1 <= minutes <= MAX_MINUTES:
        return f"{minutes} min is no useful limit.", f"Give whole minutes from 1 to {MAX_MINUTES:,}."
    if submission.time_limit_minutes and minutes > submission.time_limit_minutes:
        planned = f"Its limit is {submission.time_limit_minutes} min: it ends before that."
        return planned, "Plan it anew with a longer time limit."
    return _of_running(job, minutes) if job is not None and job.phase is JobPhase.RUNNING else None


def _of_running(job: JobView, minutes: int) -> tuple[str, str] | None:
    if job.time_limit_s is not None and minutes * 60 > job.time_limit_s:
        now = f"{job.time_limit_s / 60:g} min"
        return f"It runs with a limit of {now} already.", "A running job's limit can only become shorter."
    if job.elapsed_s is not None and job.elapsed_s >= minutes * 60:
        now = f"{job.elapsed_s / 60:.0f} min"
        return f"It has been running for {now} already.", "To end it now, cancel it; or give more minutes."
    return None


def early_end_options(submission: SubmissionState) -> tuple[str, ...]:
    """What sbatch has to be told for it, when the limit was set before the job was sent."""
    return (f"--time={submission.early_end_minutes:d}",) if submission.early_end_minutes else ()
