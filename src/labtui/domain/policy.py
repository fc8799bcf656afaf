"""When to ask, when to try again, what to send next: pure functions of what is known.

Times are seconds of a clock that never jumps. Figures and where they come from: a login node's firewall drops
clients that open connections quickly, so attempts lie at least 20 s apart after the first; a controller should
see at most ten requests a minute from somebody who watches two running jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from labtui.domain.events import LabState, SubmissionState
from labtui.domain.model import JobPhase, SubmissionStatus
from labtui.domain.profile import Profile

# --------------------------------------------------------------------------- polling the queue

POLLS_PER_MINUTE = 5
"""Hard limit of polls in any 60 s, key presses included. `squeue --local` costs two requests (partitions and jobs,
measured with sdiag), so this is ten a minute at most."""

OVER_LATELY_S = 3600.0
"""For so long after its end a job is looked for in the queue now and then: an administrator may put it back."""

_OVER_LATELY_PERIOD_S = 300.0
_JUST_CHANGED_S = 8.0
_CHANGED_LATELY_S = 60.0


@dataclass(frozen=True, slots=True)
class Situation:
    """What a poll would watch: how many jobs in which phase, how long since anything changed, failed asks in a row.

    `over_lately`: a job ended within the last `OVER_LATELY_S`. `others`: jobs live that this folder did not send.
    """

    queued: int = 0
    running: int = 0
    settling: int = 0
    since_change_s: float = 0.0
    failures: int = 0
    last_took_s: float = 0.0
    over_lately: bool = False
    others: bool = False


_OTHERS_PERIOD_S = 60.0


def poll_delay(situation: Situation) -> float | None:
    """Seconds from one poll to the next; None when there is nothing to watch."""
    if situation.queued + situation.running + situation.settling == 0:
        if situation.others:
            return _OTHERS_PERIOD_S
        return _OVER_LATELY_PERIOD_S if situation.over_lately else None
    if situation.failures:
        return min(60.0, 10.0 * 2.0 ** min(situation.failures - 1, 4))
    patient = max(1.0, 3.0 * situation.last_took_s)  # a slow controller is not to be hurried
    if situation.since_change_s < _JUST_CHANGED_S:
        return max(5.0, patient)
    if situation.settling:
        return max(10.0 if situation.since_change_s < _CHANGED_LATELY_S else 30.0, patient)
    return max(15.0 if situation.running else 30.0, patient)


def next_poll_at(polls: Sequence[float], delay: float, *, pressed: bool = False) -> float:
    """When the next poll may be, given the times of the last ones; a key press (`pressed`) shortens the wait to 2 s.

    Never more than `POLLS_PER_MINUTE` polls within any 60 s.
    """
    if not polls:
        return float("-inf")
    due = polls[-1] + (min(delay, 2.0) if pressed else delay)
    if len(polls) >= POLLS_PER_MINUTE:
        due = max(due, polls[-POLLS_PER_MINUTE] + 60.0)
    return due


# --------------------------------------------------------------------------- connecting again

_BACK_OFF_S = (5.0, 30.0, 60.0, 120.0)
_JITTER = 0.2
MIN_BETWEEN_ATTEMPTS_S = 20.0


def reconnect_delay(failures: int, luck: float) -> float:
    """Seconds to wait after the `failures`-th loss or failed attempt in a row (1, 2, ...), with +-20 % by `luck`.

    `luck` is a random number in [0, 1): sixty laptops in one room must not come back in step.
    """
    base = _BACK_OFF_S[min(max(failures, 1), len(_BACK_OFF_S)) - 1]
    return base * (1 - _JITTER + 2 * _JITTER * luck)


def key_press_retry_at(now: float, attempts: Sequence[float]) -> float:
    """When a key press may connect: at once, but later attempts stay 20 s apart.

    `attempts` are the times of the failed attempts since the connection was last up.
    """
    if len(attempts) < 2:
        return now
    return max(now, attempts[-1] + MIN_BETWEEN_ATTEMPTS_S)


# --------------------------------------------------------------------------- the submission queue

_WAIT_AGAIN_S = (15.0, 30.0, 60.0)


def wait_again(refusals: int) -> float:
    """Seconds until a queue that said "wait" is asked again, by refusals in a row."""
    return _WAIT_AGAIN_S[min(max(refusals, 1), len(_WAIT_AGAIN_S)) - 1]


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
        if submission.qos in shut:
            continue
        if _has_room(state, profile, submission.qos):
            return submission
        shut.add(submission.qos)
    return None


def _has_room(state: LabState, profile: Profile, queue_name: str) -> bool:
    queue = profile.queue(queue_name)
    if queue is None or queue.max_submit_per_user is None:
        return True
    ours = sum(1 for item in state.submissions.values() if item.qos == queue_name and holds_slot(item))
    return ours < queue.max_submit_per_user


def waiting_reason(state: LabState, profile: Profile, submission: SubmissionState) -> str:
    """Why a submission still waits, as a sentence."""
    if submission.held:
        return "You hold it; release it to send it."
    if submission.sentence:
        return submission.sentence
    queue = profile.queue(submission.qos)
    if queue is not None and queue.max_submit_per_user is not None:
        number = queue.max_submit_per_user
        jobs = "one job" if number == 1 else f"{number} jobs"
        return f"{submission.qos} takes {jobs} per user; this one is sent when the slot is free."
    return "It is sent as soon as the cluster can be reached."
