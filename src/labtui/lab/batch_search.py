"""Finding the batch that fits a GPU's memory: halve after an out-of-memory error, or search in one job.

Memory needed grows with the per-GPU batch, so what fits and what does not is a boundary between two batches.
Every step is proposed with its cost; nothing is submitted here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from labtui.domain.events import RunState
from labtui.domain.model import Interval, RunSpec, SubmissionDraft
from labtui.domain.profile import Profile
from labtui.lab.edition import Edition
from labtui.lab.plan import expectation, job_name, time_limit
from labtui.results.rows import Results

SEARCH_EPOCHS = 1
"""Whether a batch fits shows in the first step; one epoch is enough, and it is not used for timing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """What is known about per-GPU batches: the largest that trained, the smallest that ran out of memory."""

    fits: int | None = None
    too_large: int | None = None

    @property
    def sentence(self) -> str:
        if self.fits and self.too_large:
            return f"{self.fits:,} images per GPU fit, {self.too_large:,} do not."
        if self.fits:
            return f"{self.fits:,} images per GPU fit; nothing larger has been tried."
        if self.too_large:
            return f"{self.too_large:,} images per GPU do not fit; nothing smaller has been tried."
        return "No batch has been tried yet."


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Drafts to submit in place of some that failed, why, and what they should cost (None: unknown)."""

    drafts: tuple[SubmissionDraft, ...]
    sentence: str
    gpu_hours: Interval | None


def boundary(runs: Iterable[RunState], model: str) -> Boundary:
    """What the runs of a model tell. A run that trained one epoch or more fitted, whatever ended it later."""
    fits: list[int] = []
    failed: list[int] = []
    for run in runs:
        if run.spec.model != model or run.spec.device != "gpu":
            continue
        if run.epochs:
            fits.append(run.spec.per_gpu_batch)
        elif run.gpu_memory_ran_out:
            failed.append(run.spec.per_gpu_batch)
    largest = max(fits, default=None)
    # An out-of-memory below a batch that trained came from something else (a shared GPU); the larger one
    # counts.
    above = [batch for batch in failed if largest is None or batch > largest]
    return Boundary(fits=largest, too_large=min(above, default=None))


def halved(
    drafts: Iterable[SubmissionDraft], edition: Edition, results: Results | None = None
) -> Proposal | None:
    """The same drafts with half the batch per GPU, on every size: the per-GPU batch must stay equal.

    None when a batch of one image cannot be halved.
    """
    changed = []
    for draft in drafts:
        if any(run.per_gpu_batch < 2 for run in draft.runs):
            return None
        runs = tuple(replace(run, batch_size=run.per_gpu_batch // 2 * run.replicas) for run in draft.runs)
        changed.append(replace(draft, runs=runs))
    if not changed:
        return None
    batches = sorted({run.per_gpu_batch for draft in changed for run in draft.runs})
    sentence = (
        f"Out of memory: try {' and '.join(f'{b:,}' for b in batches)} images per GPU, on all sizes, so that "
        "they stay comparable."
    )
    return Proposal(drafts=tuple(changed), sentence=sentence, gpu_hours=_cost(changed, edition, results))


def search(
    draft: SubmissionDraft,
    edition: Edition,
    profile: Profile,
    *,
    smallest: int = 256,
    largest: int = 4096,
    known: Boundary | None = None,
) -> Proposal | None:
    """One job on one GPU that tries doubled batches between what fits and what does not, small ones first.

    None when nothing is left to try in the range. The trainings run in turn; the ones that do not fit fail
    within their first steps, and the job goes on.
    """
    if not draft.runs or draft.runs[0].device != "gpu" or smallest < 1:
        return None
    low, high = (known.fits if known else None) or 0, known.too_large if known else None
    batches = [b for b in _doublings(smallest, largest) if b > low and (high is None or b < high)]
    if not batches and high is not None and low and high - low > max(1, low // 8):
        batches = [(low + high) // 2]
    if not batches:
        return None
    runs = tuple(_trial(draft.runs[0], batch) for batch in batches)
    job = replace(
        draft,
        form="one-job",
        runs=runs,
        gpus=1,
        nodes=1,
        cpus=profile.cpus_per_gpu,
        job_name=f"{job_name(runs[:1])}-batch",
    )
    job = replace(job, time_limit_minutes=time_limit(job, edition, profile))
    sentence = (
        f"One job tries {', '.join(f'{b:,}' for b in batches)} images on one GPU, one epoch each, "
        "and shows the largest that fits."
    )
    return Proposal(drafts=(job,), sentence=sentence, gpu_hours=_cost([job], edition, None))


def _trial(run: RunSpec, batch: int) -> RunSpec:
    return replace(run, n_gpus=1, nodes=1, batch_size=batch, epochs=SEARCH_EPOCHS)


def _doublings(smallest: int, largest: int) -> list[int]:
    batches = []
    batch = smallest
    while batch <= largest:
        batches.append(batch)
        batch *= 2
    return batches


def _cost(drafts: Iterable[SubmissionDraft], edition: Edition, results: Results | None) -> Interval | None:
    costs = [expectation(draft, edition, results)[1] for draft in drafts]
    if any(cost is None for cost in costs):
        return None
    known = [cost for cost in costs if cost is not None]
    return Interval(sum(c.value for c in known), sum(c.lo for c in known), sum(c.hi for c in known))
