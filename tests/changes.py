"""Changes of a lab folder's state for tests: `after(planned(...), observed(...))`."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from labtui.domain.errors import LabError
from labtui.domain.model import Diagnosis, EpochSample, JobPhase, JobView, Outcome, RunSpec, SubmissionStatus
from labtui.domain.state import Change, ConnectionState, LabState, LogState, RunState, SubmissionState


def after(*changes: Change, state: LabState | None = None) -> LabState:
    """The state after these changes."""
    state = state or LabState()
    for change in changes:
        state = change(state)
    return state


def planned(token: str, runs: dict[int, RunSpec], at: float = 0.0, **more: Any) -> Change:
    values = {"task_id": "10.5", "form": "one-gpu", "job_name": "x", **more}
    specs = tuple(runs.values())
    item = SubmissionState(token=token, planned_at=at, run_ids=tuple(runs), runs=specs, **values)
    return lambda state: state.with_planned(item)


def status(token: str, word: SubmissionStatus, sentence: str = "") -> Change:
    return lambda state: state.with_submission(token, status=word, sentence=sentence, hint="")


def accepted(token: str, job_id: str, at: float = 0.0) -> Change:
    return lambda state: state.with_accepted(token, job_id, at)


def observed(token: str, job_id: str, phase: JobPhase, **more: Any) -> Change:
    return lambda state: state.with_job(token, JobView(job_id=job_id, phase=phase, **more))


def seen(views: dict[str, JobView]) -> Change:
    """The change that stores the result of `job_evidence.observe`."""
    return _each(views.items(), lambda state, item: state.with_job(*item))


def started(run_id: int, **more: Any) -> Change:
    return _of_run(run_id, lambda run: replace(run, started=True, **more))


def epoch(run_id: int, sample: EpochSample) -> Change:
    def read(run: RunState) -> RunState:
        others = (old for old in run.epochs if old.epoch != sample.epoch)
        return replace(run, started=True, epochs=(*others, sample))

    return _of_run(run_id, read)


def ended(run_id: int, outcome: Outcome, diagnosis: tuple[Diagnosis, ...] = ()) -> Change:
    return _of_run(run_id, lambda run: replace(run, outcome=outcome, diagnosis=diagnosis))


def grown(token: str, size: int, stream: str = "out") -> Change:
    return lambda state: state.with_log(token, stream, LogState(size=size))  # type: ignore[arg-type]


def connection(status: str, **more: Any) -> Change:
    return lambda state: replace(state, connection=ConnectionState(status=status, **more))


def problem(key: str, sentence: str, hint: str = "") -> Change:
    return lambda state: state.with_problem(key, LabError(sentence, hint))


def refreshed(at: float, cluster_time: float | None = None) -> Change:
    return lambda state: replace(state, refreshed_at=at, cluster_time=cluster_time)


def _of_run(run_id: int, change: Callable[[RunState], RunState]) -> Change:
    return lambda state: state.with_runs([change(state.runs[run_id])])


def _each(items: Iterable[Any], change: Callable[[LabState, Any], LabState]) -> Change:
    def changed(state: LabState) -> LabState:
        for item in items:
            state = change(state, item)
        return state

    return changed
