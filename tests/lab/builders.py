"""Evidence for tests: the reference evidence of an edition, with runs removed, changed or made stale."""

from collections.abc import Callable
from types import MappingProxyType

from msgspec.structs import replace

from labtui.domain.state import LabState, RunState
from labtui.lab.checks import TaskCheck, check_task
from labtui.lab.edition import Edition
from labtui.lab.evidence import Evidence
from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_state
from labtui.session.labs import load_edition
from tests.lab.published import published_lab

EDITION = load_edition("hpc4ai-ch10")


def full(edition: Edition = EDITION) -> Evidence:
    """The reference evidence."""
    return published_lab(edition)


def with_runs(evidence: Evidence, change: Callable[[RunState], RunState | None]) -> Evidence:
    """The evidence with each run changed (None: removed), and the results computed again."""
    runs = {i: new for i, run in evidence.state.runs.items() if (new := change(run)) is not None}
    state = LabState(submissions=evidence.state.submissions, runs=MappingProxyType(runs))
    return replace(evidence, state=state, results=compute_results(measured_from_state(state)))


def with_submissions(evidence: Evidence, *tokens: str, **changes: object) -> Evidence:
    """The evidence with these submissions changed; without `tokens`, all of them."""
    sent = evidence.state.submissions
    submissions = {t: replace(s, **changes) if t in (tokens or sent) else s for t, s in sent.items()}
    state = LabState(submissions=MappingProxyType(submissions), runs=evidence.state.runs)
    return replace(evidence, state=state, results=compute_results(measured_from_state(state)))


def is_run(run: RunState, model: str, gpus: int, task: str = "") -> bool:
    """Whether a run is of this model on `gpus` GPUs (and of this task)."""
    return (run.spec.model, run.spec.n_gpus) == (model, gpus) and task in {"", run.task_id}


def check(task_id: str, evidence: Evidence, edition: Edition = EDITION) -> TaskCheck:
    """The check of one task."""
    task = edition.task(task_id)
    assert task is not None
    return check_task(edition, task, evidence)
