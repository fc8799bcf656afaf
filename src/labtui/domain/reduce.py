"""``state = reduce(state, event)``: the one place where events become the picture; and which submission is sent next.

Reducing is total: an event about something unknown changes nothing, so that a store with a gap still opens.
Reducing the stored events in order gives the same state as living through them, the moment's own events
(`TRANSIENT`) aside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

from labtui.domain.events import (
    AnyEvent,
    ConnectionChanged,
    ConnectionState,
    EarlyEndSet,
    EpochSeen,
    ErrorCleared,
    ErrorRaised,
    JobObserved,
    LabState,
    LogGrew,
    LogSegmentStarted,
    LogState,
    OtherJobsSeen,
    PathsSeen,
    PathStatus,
    Problem,
    Refreshed,
    RunEnded,
    RunFound,
    RunStarted,
    RunState,
    SamplesReset,
    SubmissionChanged,
    SubmissionHeld,
    SubmissionPlanned,
    SubmissionState,
    TotalsSeen,
)
from labtui.domain.model import EpochSample, JobPhase, JobView, Outcome, RunPhase, SubmissionStatus
from labtui.domain.profile import Profile

_K = TypeVar("_K")
_V = TypeVar("_V")


def reduce(state: LabState, event: AnyEvent) -> LabState:
    """The state after one more event."""
    return _REDUCERS[type(event)](state, event)


def reduce_all(state: LabState, events: Iterable[AnyEvent]) -> LabState:
    """The state after these events, in order."""
    for event in events:
        state = reduce(state, event)
    return state


def run_phase(submission: SubmissionState, run: RunState, *, first_open: bool) -> RunPhase:
    """What a run's row shows, from the submission, its job and what its log says.

    `first_open` says that no earlier run of its submission is still to end.
    """
    if run.outcome is not None:
        return _PHASE_OF_OUTCOME[run.outcome]
    if submission.status is not SubmissionStatus.ACCEPTED:
        return _PHASE_OF_STATUS[submission.status]
    phase = submission.job.phase if submission.job else JobPhase.QUEUED
    if phase is JobPhase.UNKNOWN:
        return RunPhase.UNKNOWN
    if run.started:
        return RunPhase.RUNNING
    if phase is JobPhase.QUEUED or not first_open:
        return RunPhase.QUEUED
    return RunPhase.STARTING


_PHASE_OF_OUTCOME: dict[Outcome, RunPhase] = {
    "completed": RunPhase.DONE,
    "cancelled": RunPhase.CANCELLED,
    "unfinished": RunPhase.FAILED,
    "oom": RunPhase.FAILED,
    "time-limit": RunPhase.FAILED,
    "failed": RunPhase.FAILED,
}

_PHASE_OF_STATUS: dict[SubmissionStatus, RunPhase] = {
    SubmissionStatus.WAITING: RunPhase.WAITING,
    SubmissionStatus.SENDING: RunPhase.WAITING,
    SubmissionStatus.UNKNOWN: RunPhase.UNKNOWN,
    SubmissionStatus.REFUSED: RunPhase.FAILED,
    SubmissionStatus.WITHDRAWN: RunPhase.CANCELLED,
}


# --------------------------------------------------------------------------- one reducer per event


def _planned(state: LabState, event: SubmissionPlanned) -> LabState:
    submission = SubmissionState(
        token=event.token,
        task_id=event.task_id,
        form=event.form,
        job_name=event.job_name,
        run_ids=tuple(run.run_id for run in event.runs),
        planned_at=event.at,
        account=event.account,
        qos=event.qos,
        gpus=event.gpus,
        cpus=event.cpus,
        time_limit_minutes=event.time_limit_minutes,
        script_file=event.script_file,
        remote_dir=event.remote_dir,
        remote_logs=dict(event.remote_logs),
        script_hashes=dict(event.script_hashes),
        practice=event.practice,
        rebuilt=event.rebuilt,
        options=event.options,
        job_file=event.job_file,
        accepted=event.accepted,
        nodes=event.nodes,
    )
    runs = {
        run.run_id: RunState(
            run_id=run.run_id,
            token=event.token,
            task_id=event.task_id,
            spec=run.spec,
            practice=event.practice,
        )
        for run in event.runs
    }
    return replace(
        state,
        submissions=_with(state.submissions, event.token, submission),
        runs=MappingProxyType({**state.runs, **runs}),
    )


def _changed(state: LabState, event: SubmissionChanged) -> LabState:
    def change(submission: SubmissionState) -> SubmissionState:
        job, logs = submission.job, submission.logs
        if event.job_id and (job is None or job.job_id != event.job_id):
            job, logs = (
                JobView(job_id=event.job_id, phase=JobPhase.QUEUED, evidence="sbatch", seen_at=event.at),
                {},
            )
        return replace(
            submission,
            status=event.status,
            sentence=event.sentence,
            hint=event.hint,
            job=job,
            logs=logs,
            attempt=max(submission.attempt, event.attempt),
        )

    return _on_submission(state, event.token, change)


def _early_end(state: LabState, event: EarlyEndSet) -> LabState:
    return _on_submission(
        state, event.token, lambda submission: replace(submission, early_end_minutes=event.minutes)
    )


def _observed(state: LabState, event: JobObserved) -> LabState:
    def change(submission: SubmissionState) -> SubmissionState:
        logs = submission.logs
        over = submission.job is not None and submission.job.phase is JobPhase.FINISHED
        if over and event.job.phase is not JobPhase.FINISHED:  # put back into the queue after its end
            logs = {stream: replace(log, complete=False) for stream, log in logs.items()}
        return replace(submission, job=event.job, logs=logs)

    return _on_submission(state, event.token, change)


def _segment(state: LabState, event: LogSegmentStarted) -> LabState:
    def change(submission: SubmissionState) -> SubmissionState:
        logs = {**submission.logs, event.stream: LogState(segment=event.segment)}
        return replace(submission, logs=logs)

    return _on_submission(state, event.token, change)


def _grew(state: LabState, event: LogGrew) -> LabState:
    def change(submission: SubmissionState) -> SubmissionState:
        before = submission.logs.get(event.stream)
        was = before is not None and before.complete and before.segment == event.segment
        log = LogState(segment=event.segment, size=event.size, complete=event.complete or was)
        return replace(submission, logs={**submission.logs, event.stream: log})

    return _on_submission(state, event.token, change)


def _run_found(state: LabState, event: RunFound) -> LabState:
    submission = state.submissions.get(event.token)
    if submission is None:
        return state
    known = state.runs.get(event.run_id)
    if known is not None:
        return _on_run(state, event.run_id, lambda run: replace(run, spec=event.spec))
    run = RunState(
        run_id=event.run_id,
        token=event.token,
        task_id=submission.task_id,
        spec=event.spec,
        practice=submission.practice,
    )
    state = replace(state, runs=_with(state.runs, event.run_id, run))
    return _on_submission(
        state, event.token, lambda item: replace(item, run_ids=(*item.run_ids, event.run_id))
    )


def _run_started(state: LabState, event: RunStarted) -> LabState:
    def change(run: RunState) -> RunState:
        return replace(
            run,
            started=True,
            images=run.images if event.images is None else event.images,
            framework=event.framework or run.framework,
            learning_rate=run.learning_rate if event.learning_rate is None else event.learning_rate,
            practice=run.practice or event.practice,
        )

    return _on_run(state, event.run_id, change)


def _epoch(state: LabState, event: EpochSeen) -> LabState:
    def change(run: RunState) -> RunState:
        return replace(run, epochs=_with_sample(run.epochs, event.sample), started=True)

    return _on_run(state, event.run_id, change)


def _totals(state: LabState, event: TotalsSeen) -> LabState:
    return _on_run(state, event.run_id, lambda run: replace(run, totals=event, started=True))


def _run_ended(state: LabState, event: RunEnded) -> LabState:
    def change(run: RunState) -> RunState:
        return replace(run, outcome=event.outcome, diagnosis=event.diagnosis)

    return _on_run(state, event.run_id, change)


def _samples_reset(state: LabState, event: SamplesReset) -> LabState:
    for run_id in event.run_ids:
        state = _on_run(state, run_id, _forget_samples)
    return state


def _forget_samples(run: RunState) -> RunState:
    return replace(run, epochs=(), totals=None, outcome=None, diagnosis=(), started=False)


def _paths_seen(state: LabState, event: PathsSeen) -> LabState:
    seen = {path: PathStatus(there=there, at=event.at) for path, there in event.paths.items()}
    return replace(state, places=MappingProxyType({**state.places, **seen}))


def _connection(state: LabState, event: ConnectionChanged) -> LabState:
    connection = ConnectionState(
        status=event.status,
        sentence=event.sentence,
        hint=event.hint,
        retry_at=event.retry_at,
        host=event.host,
    )
    return replace(state, connection=connection)


def _others(state: LabState, event: OtherJobsSeen) -> LabState:
    return replace(state, other_jobs=event.jobs, more_jobs=event.more)


def _held(state: LabState, event: SubmissionHeld) -> LabState:
    return _on_submission(state, event.token, lambda submission: replace(submission, held=event.held))


def _refreshed(state: LabState, event: Refreshed) -> LabState:
    return replace(state, refreshed_at=event.at, cluster_time=event.cluster_time)


def _error(state: LabState, event: ErrorRaised) -> LabState:
    known = next((problem for problem in state.problems if problem.key == event.key), None)
    since = known.since if known else event.at
    problem = Problem(key=event.key, sentence=event.sentence, hint=event.hint, since=since)
    if known is not None:
        problems = tuple(problem if old.key == event.key else old for old in state.problems)
    else:
        problems = (*state.problems, problem)
    return replace(state, problems=problems)


def _error_over(state: LabState, event: ErrorCleared) -> LabState:
    problems = tuple(problem for problem in state.problems if problem.key != event.key)
    return state if problems == state.problems else replace(state, problems=problems)


_REDUCERS: dict[type[Any], Callable[[LabState, Any], LabState]] = {
    SubmissionPlanned: _planned,
    SubmissionChanged: _changed,
    EarlyEndSet: _early_end,
    JobObserved: _observed,
    LogSegmentStarted: _segment,
    LogGrew: _grew,
    RunFound: _run_found,
    RunStarted: _run_started,
    EpochSeen: _epoch,
    TotalsSeen: _totals,
    RunEnded: _run_ended,
    SamplesReset: _samples_reset,
    PathsSeen: _paths_seen,
    ConnectionChanged: _connection,
    OtherJobsSeen: _others,
    SubmissionHeld: _held,
    Refreshed: _refreshed,
    ErrorRaised: _error,
    ErrorCleared: _error_over,
}


# --------------------------------------------------------------------------- helpers


def _with(mapping: Mapping[_K, _V], key: _K, value: _V) -> Mapping[_K, _V]:
    return MappingProxyType({**mapping, key: value})


def _with_sample(epochs: tuple[EpochSample, ...], sample: EpochSample) -> tuple[EpochSample, ...]:
    """The samples with this one in its place: an epoch counts once, whatever is read twice."""
    if not epochs or sample.epoch > epochs[-1].epoch:
        return (*epochs, sample)
    others = tuple(old for old in epochs if old.epoch != sample.epoch)
    return tuple(sorted((*others, sample), key=lambda item: item.epoch))


def _on_submission(
    state: LabState, token: str, change: Callable[[SubmissionState], SubmissionState]
) -> LabState:
    submission = state.submissions.get(token)
    if submission is None:
        return state
    state = replace(state, submissions=_with(state.submissions, token, change(submission)))
    return _with_phases(state, token)


def _on_run(state: LabState, run_id: int, change: Callable[[RunState], RunState]) -> LabState:
    run = state.runs.get(run_id)
    if run is None:
        return state
    state = replace(state, runs=_with(state.runs, run_id, change(run)))
    return _with_phases(state, run.token)


def _with_phases(state: LabState, token: str) -> LabState:
    """The state with the phases of one submission's runs brought up to date."""
    submission = state.submissions[token]
    runs: dict[int, RunState] = {}
    first_open = True
    for run_id in submission.run_ids:
        run = state.runs[run_id]
        phase = run_phase(submission, run, first_open=first_open)
        if phase is not run.phase:
            runs[run_id] = replace(run, phase=phase)
        first_open = first_open and run.outcome is not None
    if not runs:
        return state
    return replace(state, runs=MappingProxyType({**state.runs, **runs}))


# --------------------------------------------------------------------------- the submission queue


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
