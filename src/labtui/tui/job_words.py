"""Where a submission and its job stand, in sentences. Pure: from a `Picture` to text; its time is handed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labtui.core.model import JobPhase, JobView, RunPhase, SubmissionStatus
from labtui.core.state import LabState, SubmissionState
from labtui.tui import format as words

if TYPE_CHECKING:
    from labtui.tui.view import Picture

NO_LINE = ("offline", "needs-login")
"""States of the connection in which nothing can be sent."""


def submission_sentences(submission: SubmissionState, state: LabState) -> list[str]:
    """A submission that has no job yet: why it waits, or what became of it."""
    if submission.status is SubmissionStatus.WAITING and state.connection.status in NO_LINE:
        return ["In labtui's waiting line; it is sent when the cluster can be reached."]
    text = " ".join(part for part in (submission.sentence, submission.hint) if part)
    if text:
        return [text]
    plain = {
        SubmissionStatus.WAITING: "In labtui's waiting line; it is sent as soon as the queue takes it.",
        SubmissionStatus.SENDING: "Being sent to Slurm.",
        SubmissionStatus.UNKNOWN: "Sent, but no answer came. labtui looks for the job and never sends twice.",
        SubmissionStatus.REFUSED: "Slurm refused it.",
        SubmissionStatus.WITHDRAWN: "Taken back before it was sent.",
    }
    return [plain[submission.status]] if submission.status in plain else []


def job_sentences(submission: SubmissionState, job: JobView, picture: Picture) -> list[str]:
    """A submission's job: pending and why, running since when, or how it ended."""
    head = f"Job {job.job_id}"
    if job.phase in {JobPhase.QUEUED, JobPhase.RUNNING} and _over_by_its_log(submission, picture):
        return [f"{head} is over: its log says so. The queue is asked again soon."]
    if job.phase is JobPhase.QUEUED:
        return _queued_words(submission, job, picture)
    if job.phase is JobPhase.RUNNING:
        return [_running_words(submission, _cluster_now(picture, job)), *_limit_words(picture, submission)]
    if job.phase is JobPhase.UNKNOWN:
        since = f" for {words.duration(picture.now - job.unknown_since)}" if job.unknown_since else ""
        return [f"{head}: unknown{since}. The cluster has not said what became of it."]
    if job.phase is JobPhase.SETTLING:
        return [f"{head} has left the queue; accounting has not spoken yet."]
    took = f" after {words.duration(job.elapsed_s)}" if job.elapsed_s else ""
    return [
        f"{head}: {job.slurm_state or 'ended'}{took}"
        + (f", exit code {job.exit_code}" if job.exit_code not in ("", "0:0") else "")
        + "."
        + _end_words(job.slurm_state)
    ]


def _end_words(state: str) -> str:
    """What a bad end means; a good one needs no words."""
    from labtui.core.slurm.states import FINISHED, plain_state

    word = plain_state(state)
    return f" It {FINISHED[word]}." if word in FINISHED and word != "COMPLETED" else ""


def _queued_words(submission: SubmissionState, job: JobView, picture: Picture) -> list[str]:
    runs = [picture.state.runs[number] for number in submission.run_ids if number in picture.state.runs]
    if any(run.epochs or run.phase in {RunPhase.STARTING, RunPhase.RUNNING} for run in runs):
        return [f"Job {job.job_id} runs: its log says so. The queue is asked again soon."]
    return [
        f"Job {job.job_id} is pending: {pending_reason(job.reason)}",
        _start_words(job.start_estimate, picture.now),
    ]


def _over_by_its_log(submission: SubmissionState, picture: Picture) -> bool:
    runs = [picture.state.runs[number] for number in submission.run_ids if number in picture.state.runs]
    return bool(runs) and all(run.phase is RunPhase.DONE for run in runs)


def pending_reason(reason: str) -> str:
    """Slurm's pending reason as a sentence, with its own word behind."""
    if not reason or reason == "None":
        return "Slurm has not said why yet."
    from labtui.core.slurm.reasons import explain_reason

    return f"{explain_reason(reason).rstrip('.')} ({reason})."


def _start_words(estimate: float | None, now: float) -> str:
    if estimate is None:
        return ""
    return (
        f"Slurm expects it to start in about {words.duration(estimate - now)}."
        if estimate > now
        else "It should start now."
    )


def _cluster_now(picture: Picture, job: JobView) -> float:
    """The present for a job that was last looked at a while ago: a rehearsal's clock goes faster than ours."""
    return job.seen_at + max(0.0, picture.now - job.seen_at) * (picture.factor or 1.0)


def _running_words(submission: SubmissionState, now: float) -> str:
    job = submission.job
    if job is None:
        return ""
    where = f" on {job.node}" if job.node else ""
    elapsed = job.elapsed_s
    if job.start_time is not None:
        elapsed = (
            max(elapsed or 0.0, now - job.start_time)
            if job.seen_at == 0
            else (elapsed or 0.0) + now - job.seen_at
        )
    if elapsed is None:
        return f"Job {job.job_id} runs{where}."
    text = f"Job {job.job_id} has run{where} for {words.duration(elapsed)}"
    if job.time_limit_s:
        text += f", of at most {words.duration(job.time_limit_s)}"
        if submission.early_end_minutes * 60 == job.time_limit_s:
            text += " (your own limit)"
    return text + "."


def _limit_words(picture: Picture, submission: SubmissionState) -> list[str]:
    """Whether the time limit will come before the end, as far as the epochs so far can tell."""
    from labtui.core.forecast import limit_warning, running_run

    run = running_run(submission, picture.state.runs)
    row = picture.rows_by_run.get(run.run_id) if run is not None else None
    if submission.job is None:
        return []
    warning = limit_warning(submission, picture.state.runs, row, _cluster_now(picture, submission.job))
    return [warning] if warning else []
