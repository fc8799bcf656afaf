"""Which submission is sent next, and why the others wait."""

from __future__ import annotations

from collections.abc import Iterable

from labtui.domain.model import JobPhase, SubmissionStatus
from labtui.domain.profile import Profile
from labtui.domain.state import LabState, SubmissionState


def holds_slot(submission: SubmissionState) -> bool:
    """Whether a submission occupies (or may occupy) a place in its queue."""
    if submission.status in (SubmissionStatus.SENDING, SubmissionStatus.UNKNOWN):
        return True
    if submission.status is not SubmissionStatus.ACCEPTED:
        return False
    return submission.job is None or submission.job.phase is not JobPhase.FINISHED


def submission_queue(state: LabState) -> tuple[SubmissionState, ...]:
    """The submissions that wait to be sent, first come first; those the student holds are left out."""
    waiting = (
        item
        for item in state.submissions.values()
        if item.status is SubmissionStatus.WAITING and not item.held
    )
    return tuple(sorted(waiting, key=lambda item: (item.planned_at, item.run_ids)))


def sendable(state: LabState, profile: Profile, closed: Iterable[str] = ()) -> SubmissionState | None:
    """The submission to send next: the oldest whose queue may take it. None when all have to wait.

    A queue that takes one job per user is not even asked while one of ours is in it. `closed` names queues that
    refused lately; within a queue nobody overtakes.
    """
    shut = set(closed)
    for submission in submission_queue(state):
        if submission.queue in shut:
            continue
        if _has_room(state, profile, submission.queue):
            return submission
        shut.add(submission.queue)
    return None


def _has_room(state: LabState, profile: Profile, queue_name: str) -> bool:
    queue = profile.queue(queue_name)
    if queue is None or queue.max_submit_per_user is None:
        return True
    ours = sum(1 for item in state.submissions.values() if item.queue == queue_name and holds_slot(item))
    return ours < queue.max_submit_per_user


def waiting_reason(state: LabState, profile: Profile, submission: SubmissionState) -> str:
    """Why a submission still waits, as a sentence."""
    if submission.held:
        return "You hold it; release it to send it."
    if submission.sentence:
        return submission.sentence
    queue = profile.queue(submission.queue)
    if queue is not None and queue.max_submit_per_user is not None:
        number = queue.max_submit_per_user
        jobs = "one job" if number == 1 else f"{number} jobs"
        return f"{submission.queue} takes {jobs} per user; this one is sent when the slot is free."
    return "It is sent as soon as the cluster can be reached."
