"""The batch that fits a GPU: what to submit after an out-of-memory, or to find the largest one, with its cost.

Proposals only: whoever asked shows sentence and GPU-hours, and submits the drafts when the student agrees.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from labtui.engine.planning import run_of
from labtui.errors import UsageError

if TYPE_CHECKING:
    from labtui.core.lab.batch_search import Boundary, Proposal
    from labtui.core.lab.plan import PlanOverrides
    from labtui.core.model import SubmissionDraft
    from labtui.engine.session import Session


def halve_after(session: Session, run_id: int, overrides: PlanOverrides | None = None) -> Proposal:
    """The plan of a run's task again, for its model on all sizes, with half the batch per GPU that did not fit.

    Raises:
        UsageError: no such run, it did not run out of memory, or there is nothing left to halve.
    """
    from labtui.core.lab.batch_search import halved
    from labtui.core.lab.plan import PlanOverrides

    run = run_of(session.state, run_id)
    if run.outcome != "oom":
        raise UsageError(
            f"Run {run_id} did not run out of memory.",
            "`labtui queue` shows how runs ended; --batch-size sets any batch you like.",
        )
    if not run.gpu_memory_ran_out:
        raise UsageError(
            f"Run {run_id} ran out of the node's main memory, not of GPU memory: a smaller batch hardly helps.",
            "Ask Slurm for more CPUs (main memory comes with them), or read fewer images (--images).",
        )
    failed = replace(overrides or PlanOverrides(), per_gpu_batch=run.spec.per_gpu_batch)
    drafts = [
        kept for draft in session.drafts(run.task_id, failed) if (kept := _of_model(draft, run.spec.model))
    ]
    proposal = halved(drafts, session.edition, session.results())
    if proposal is None:
        raise UsageError(
            f"There is no smaller batch to try for run {run_id}.", "A model this large needs another GPU."
        )
    return proposal


def _of_model(draft: SubmissionDraft, model: str) -> SubmissionDraft | None:
    runs = tuple(run for run in draft.runs if run.model == model and run.device == "gpu")
    return replace(draft, runs=runs, gpus=max(run.n_gpus for run in runs)) if runs else None


def search_largest(
    session: Session,
    task_id: str,
    overrides: PlanOverrides | None = None,
    *,
    smallest: int = 256,
    largest: int = 4096,
) -> Proposal:
    """One job on one GPU that tries doubled batches for the task's model, between what is known to fit and what not.

    Raises:
        UsageError: the task trains nothing on a GPU, or the boundary is known closely enough already.
    """
    from labtui.core.lab.batch_search import search

    draft = _first_on_gpu(session, task_id, overrides)
    model = draft.runs[0].model
    known = known_boundary(session, model)
    proposal = search(
        draft, session.edition, session.profile, smallest=smallest, largest=largest, known=known
    )
    if proposal is None:
        raise UsageError(
            f"Nothing is left to try for {model} between {smallest:,} and {largest:,}: {known.sentence}",
            "--search-batch SMALLEST-LARGEST searches another range.",
        )
    return proposal


def known_boundary(session: Session, model: str) -> Boundary:
    """What this folder's runs of a model tell about the batch that fits."""
    from labtui.core.lab.batch_search import boundary

    return boundary(session.state.runs.values(), model)


def _first_on_gpu(session: Session, task_id: str, overrides: PlanOverrides | None) -> SubmissionDraft:
    for draft in session.drafts(task_id, overrides):
        for run in draft.runs:
            if run.device == "gpu":
                return replace(draft, runs=(run,))
    raise UsageError(f"Task {task_id} trains nothing on a GPU.", "`labtui labs show` says what each plans.")
