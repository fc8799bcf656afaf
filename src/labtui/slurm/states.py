"""Slurm's job states and pending reasons: the phase of each state, and plain sentences for them.

The phase of a state that is in no list is unknown: only a known final state of Slurm means "finished".
"""

import re
from collections.abc import Container
from functools import cache
from typing import Any

from labtui.domain import decode
from labtui.domain.errors import LabError, failure
from labtui.domain.model import JobPhase, JobView, Outcome, SubmissionStatus, first_sentence
from labtui.domain.profile import Profile
from labtui.domain.state import LEFT_QUEUE, UNANSWERED, LabState, SubmissionState, submission_queue

MAX_MINUTES = 7 * 24 * 60
"""The most that a student may enter; no queue of the lab allows more."""


def early_end_refusal(submission: SubmissionState, minutes: int, now: float | None) -> LabError | None:
    """Why this limit is not possible for this submission; None if it is.

    Minutes count from the start of the job; `now` is the time by the cluster's clock, if known. The limit of a running
    job can only be shortened; whether a job that waits may have a longer one, Slurm decides.
    """
    job = submission.job
    if submission.over:
        return failure("limit-over")
    if submission.status in UNANSWERED:
        return failure("limit-sending")
    if not 1 <= minutes <= MAX_MINUTES:
        return failure("limit-odd", minutes=minutes, most=MAX_MINUTES)
    if job is None or job.phase is not JobPhase.RUNNING:
        return None
    if (ran := job.ran_s(now)) >= minutes * 60:
        return failure("limit-past", minutes=ran / 60)
    limit = submission.limit_minutes
    return failure("limit-later", minutes=limit) if limit and minutes > limit else None


@cache
def sentences() -> dict[str, Any]:
    """Slurm's own words and labtui's sentences for them, from `sentences.toml`."""
    return decode.own_toml(__file__, "sentences.toml")


_STATES = sentences()["states"]
FINISHED: dict[str, str] = _STATES["finished"]
"""The states after which a job never runs again, with plain words for each."""
OUTCOMES: dict[str, Outcome] = _STATES["outcomes"]
"""The outcome of a run by its job's final state, if its log does not tell it."""
SHORT: dict[str, str] = _STATES["short"]
ENDED_BY = tuple(_STATES["ended_by"])
"""How Slurm's reasons begin that say why a job ended; all others say why it waits."""


def plain_state(text: str) -> str:
    """Slurm's long name of a state: ``CANCELLED by 1234`` -> ``CANCELLED``, ``COMPLETED+`` -> ``COMPLETED``."""
    word = text.strip().rstrip("+*").upper().partition(" BY ")[0]
    return SHORT.get(word, word)


def told_outcome(job: JobView | None) -> Outcome | None:
    """How all runs of a job ended that has left the queue; None if Slurm's state does not tell it."""
    over = job is not None and job.phase in LEFT_QUEUE
    return OUTCOMES.get(job.slurm_state) if job and over and job.slurm_state != "FAILED" else None


def phase_of(state: str) -> JobPhase:
    """The phase of a state; unknown where labtui does not know its word."""
    if (word := plain_state(state)) in FINISHED:
        return JobPhase.FINISHED
    phases = (JobPhase.QUEUED, JobPhase.RUNNING)
    return next((phase for phase in phases if word in _STATES[phase.value]), JobPhase.UNKNOWN)


def reason_words(phase: str | None, reason: str) -> str:
    """Slurm's reason, explained if the job waits or was ended; `phase` is a JobPhase or its word."""
    if reason and phase == JobPhase.QUEUED:
        return f"{reason}: {explain_reason(reason)}"
    return first_sentence(explain_reason(reason)) if reason.startswith(ENDED_BY) else reason


def end_reason(job: JobView | None) -> str:
    """Why Slurm ended a job, in one sentence; "" if it is not over, or Slurm does not say."""
    over = job is not None and job.phase is JobPhase.FINISHED
    return first_sentence(explain_reason(job.reason)) if job and over else ""  # others are for jobs that wait


def explain_reason(reason: str) -> str:
    """A sentence that explains a pending reason and says what to do; "" for no reason."""
    if not (words := reason.strip().strip("()").strip()):
        return ""
    known: dict[str, str] = sentences()["reasons"]
    name = re.split(r"[,:\s(]", words, maxsplit=1)[0]
    if found := known.get(words.lower()) or known.get(name) or known.get(name.removesuffix("Limit")):
        return found
    limits = sentences()["limits"]
    for rule in limits["rules"]:
        if match := re.fullmatch(rule["pattern"], name):
            what = match["what"].lower()
            thing = next((words for key, words in limits["things"].items() if key in what), "resources")
            return str(rule["sentence"].format(owner=limits["owners"].get(match["owner"]), thing=thing))
    return f"Slurm names the reason {words}. `squeue --help` and the site's pages may say more."


# --------------------------------------------------------------------------- which submission a queue takes next


def sendable(state: LabState, profile: Profile, closed: Container[str] = ()) -> SubmissionState | None:
    """The submission to send next: the oldest whose queue may take it. None when all have to wait.

    Queues at their limit of jobs per user are skipped, and so are those in `closed`, which refused a job lately. Within
    a queue the order is kept.
    """
    open_to = (item for item in submission_queue(state) if item.queue not in closed)
    return next((item for item in open_to if _has_room(state, profile, item.queue)), None)


def _has_room(state: LabState, profile: Profile, queue_name: str, ahead: int = 0) -> bool:
    """Whether a queue takes another job beside those sent and the `ahead` that are sent before it."""
    queue = profile.queue(queue_name)
    if queue is None or queue.max_submit_per_user is None:
        return True
    return len(_sent_to(state, queue_name)) + ahead < queue.max_submit_per_user


def _sent_to(state: LabState, queue_name: str) -> list[SubmissionState]:
    """The submissions to a queue that were sent and are not over, in the order in which they were planned."""
    ours = (item for item in state.submissions.values() if item.queue == queue_name and not item.over)
    return [item for item in ours if item.status is not SubmissionStatus.WAITING]


def waiting_reason(
    state: LabState, profile: Profile | None, submission: SubmissionState, *, served: bool = True
) -> str:
    """Why a submission has no job yet, or how it ended: the sentence for screens and commands.

    `served` is false where no process stays connected, so that nothing is sent.
    """
    if submission.status is not SubmissionStatus.WAITING:
        sending = f"The job of run {submission.run_ids[0]} is being sent to Slurm."
        is_sending = submission.status is SubmissionStatus.SENDING and not submission.sentence
        return sending if is_sending else f"{submission.sentence} {submission.hint}".strip()
    if submission.held:
        return "Held until you release it."
    if state.connection.lost or not served:
        later = "Sent when the cluster can be reached."
        return later if served else "Not sent yet: `labtui watch` or `labtui` sends it."
    if submission.sentence:
        return submission.sentence
    queue = profile.queue(submission.queue) if profile is not None else None
    waiting = [item for item in submission_queue(state) if item.queue == submission.queue]
    before = waiting[: [item.token for item in waiting].index(submission.token)]
    if profile and queue and not _has_room(state, profile, submission.queue, len(before)):
        last = [*_sent_to(state, submission.queue), *before][-1].run_ids[-1]
        ended = state.runs[last].outcome is not None
        end = f"the job of run {last} has left the queue" if ended else f"run {last} ends"
        one = queue.max_submit_per_user == 1
        jobs, end = ("one job", end) if one else (f"{queue.max_submit_per_user} jobs", "one ends")
        return f"{submission.queue} takes {jobs} per user; sent when {end}."
    return f"Sent after run {before[-1].run_ids[-1]}." if before else "Sent next."
