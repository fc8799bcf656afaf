"""Which runs stand for the runs a task planned.

Any run of the folder may count, whichever task it was submitted for: evidence is evidence. The best one is
taken: finished before unfinished, fresh before stale, real before practice, the task's own before others,
late before early.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labtui.core.lab.edition import Edition, RunsCheck, Task
from labtui.core.lab.evidence import Evidence
from labtui.core.lab.plan import planned_specs
from labtui.core.model import DEEDS, RunSpec
from labtui.core.results.trace import Origin, cite
from labtui.core.state import RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A planned run and the run that stands for it, if any; `why_not` says what it lacks ("": it counts)."""

    task_id: str
    spec: RunSpec
    run: RunState | None = None
    why_not: str = ""
    changed: tuple[str, ...] = ()
    practice: bool = False

    @property
    def met(self) -> bool:
        """Whether the planned run was made as the check wants it."""
        return self.run is not None and not self.why_not


def tasks_of(edition: Edition, task: Task, names: Sequence[str]) -> tuple[Task, ...]:
    """The tasks a check speaks of: those it names, else its own."""
    if not names:
        return (task,)
    return tuple(found for name in names if (found := edition.task(name)) is not None)


def match_runs(edition: Edition, task: Task, check: RunsCheck, evidence: Evidence) -> tuple[Match, ...]:
    """A match for every run planned in the tasks the check names."""
    matches: list[Match] = []
    for source in tasks_of(edition, task, check.tasks):
        specs = planned_specs(edition, source, evidence.overrides)
        batch = _common_batch(specs, check, evidence) if check.batch == "any" else None
        matches.extend(_match(source, spec, check, evidence, batch) for spec in specs)
    return tuple(matches)


def match_planned(
    edition: Edition, task: Task, names: Sequence[str], evidence: Evidence
) -> tuple[Match, ...]:
    """The matches other checks build on: as the runs check of each task named defines them."""
    matches: list[Match] = []
    for source in tasks_of(edition, task, names):
        own = next((c for c in source.checks if isinstance(c, RunsCheck) and not c.tasks), RunsCheck())
        matches.extend(match_runs(edition, source, own, evidence))
    return tuple(matches)


def cite_run(run: RunState, evidence: Evidence) -> str:
    """Where a run can be read: ``run 3, job 31337, ResNet50.31337.out, lines 5, 7``."""
    submission = evidence.submission(run)
    job_id = submission.job.job_id if submission and submission.job else ""
    source = ""
    if submission is not None:
        remote = submission.remote_logs.get("out", "").replace("%j", job_id)
        source = remote.rpartition("/")[2]
    lines = [Origin(source=source, job_id=job_id, line=sample.line) for sample in run.epochs]
    where = cite(lines or [Origin(source=source, job_id=job_id)])
    return f"run {run.run_id}, {where}" if where else f"run {run.run_id}"


def _same_device(run: RunState, spec: RunSpec) -> bool:
    return (run.spec.model, run.spec.device, run.spec.n_gpus) == (spec.model, spec.device, spec.n_gpus)


def _common_batch(specs: Sequence[RunSpec], check: RunsCheck, evidence: Evidence) -> int | None:
    """The per-GPU batch with which most of the planned runs were made; the larger one when there are two."""
    counts: dict[int, set[int]] = {}
    for run in evidence.state.runs.values():
        for index, spec in enumerate(specs):
            if evidence.sent(run) and _same_device(run, spec) and not _why_not(run, spec, check, None):
                counts.setdefault(run.spec.per_gpu_batch, set()).add(index)
    return max(counts, key=lambda batch: (len(counts[batch]), batch), default=None)


def _match(task: Task, spec: RunSpec, check: RunsCheck, evidence: Evidence, batch: int | None) -> Match:
    wanted = spec.batch_size if check.batch == "exact" else None
    found: list[tuple[tuple[bool, ...], int, Match]] = []
    for run in evidence.state.runs.values():
        if not evidence.sent(run) or not _same_device(run, spec):
            continue
        match = Match(
            task_id=task.id,
            spec=spec,
            run=run,
            why_not=_why_not(run, spec, check, wanted),
            changed=evidence.changed_since(run),
            practice=evidence.practice(run),
        )
        rank = (
            match.met,
            batch is None or run.spec.per_gpu_batch == batch,
            not match.practice,
            not match.changed,
            run.task_id == task.id,
        )
        found.append((rank, run.run_id, match))
    return max(found, key=lambda item: item[:2])[2] if found else Match(task_id=task.id, spec=spec)


def _why_not(run: RunState, spec: RunSpec, check: RunsCheck, batch: int | None) -> str:
    """In words, why a run of the right model and devices does not count; "" when it does."""
    if batch is not None and run.spec.batch_size != batch:
        return f"it used a global batch of {run.spec.batch_size:,} where {batch:,} is planned"
    if run.outcome is None:
        read = len(run.epochs)
        return (
            f"it is {run.phase.value}, {read} of {run.spec.epochs} epochs read"
            if read
            else f"it is {run.phase.value}"
        )
    if run.outcome not in check.outcomes:
        wanted = " or ".join(DEEDS[outcome] for outcome in check.outcomes)
        return f"it {DEEDS[run.outcome]}; the task wants a run that {wanted}"
    if len(run.epochs) < check.min_epochs:
        one = len(run.epochs) == 1
        return (
            f"its log shows {len(run.epochs)} epoch{'' if one else 's'} and {check.min_epochs} are needed"
            f"{' (the first one is warm-up)' if one else ''}"
        )
    return ""


def plan_words(spec: RunSpec) -> str:
    """A planned run in words, both batches said apart."""
    batch = f"batch {spec.batch_size:,}"
    if spec.n_gpus > 1:
        batch = f"global batch {spec.batch_size:,}, {spec.per_gpu_batch:,} per GPU"
    return f"{spec.label} ({batch})"


__all__ = [
    "Match",
    "cite_run",
    "match_planned",
    "match_runs",
    "plan_words",
    "tasks_of",
]
