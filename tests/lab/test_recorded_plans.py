"""The plans and boxes of every edition are those on record; a change shows as a difference of lines.

Where one is meant: `python -m tests.lab.test_recorded_plans > tests/lab/plans.txt`, and read what changed.
"""

import difflib
from collections.abc import Iterator
from pathlib import Path

from labtui.domain.model import SubmissionDraft
from labtui.domain.tuning import tuning_words
from labtui.lab.checks import check_task
from labtui.lab.edition import ChartsCheck, Edition, Task
from labtui.lab.evidence import Evidence
from labtui.lab.plan import PlanOverrides, expected_learning_rate, task_drafts
from labtui.session.labs import list_editions, load_edition
from labtui.session.settings import load_profile

RECORD = Path(__file__).parent / "plans.txt"


def recorded() -> Iterator[str]:
    """A line for each task, and below it one for each of its jobs on MareNostrum 5, with its runs."""
    profile = load_profile("mn5")
    for entry in list_editions():
        edition = load_edition(entry.id)
        yield f"{edition.id} | {edition.images:,} images"
        for task in edition.tasks:
            yield f"  {task.id} | {_task(edition, task)}"
            for draft in task_drafts(edition, task.id, profile, PlanOverrides(account="nct_345", user="u1")):
                yield f"    {_job(draft)} | {_runs(edition, draft)}"


def _task(edition: Edition, task: Task) -> str:
    box = check_task(edition, task, Evidence())
    kinds = [item.kind for item in box.items]
    wanted = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    charts = [check for check in task.checks if isinstance(check, ChartsCheck)]
    shown = [f"{' '.join(check.charts)} of {' '.join(check.models)}" for check in charts]
    asked = " ".join(question.chart or "-" for question in task.questions)
    weight = "" if task.weight is None else f"{task.weight:g} %"
    aside = "" if task.handed_in else "not handed in"
    parts = (wanted, *shown, f"asks {asked}" if asked else "", weight, aside, box.missing)
    return " | ".join(part for part in parts if part)


def _job(draft: SubmissionDraft) -> str:
    size = f"{draft.nodes} x {draft.gpus} GPUs, {draft.cpus} CPUs"
    return f"{draft.form} {draft.job_name} | {size} | {draft.time_limit_minutes} min, {draft.queue}"


def _runs(edition: Edition, draft: SubmissionDraft) -> str:
    if draft.runs[0].program is not None:
        return ", ".join(f"{run.processes}: {run.size}" for run in draft.runs)
    runs = (
        f"{run.n_gpus} GPUs x {run.per_gpu_batch or run.batch_size}, {run.epochs} epochs, "
        f"rate {expected_learning_rate(edition, run):g} {' '.join(tuning_words(run.tuning))}".rstrip()
        for run in draft.runs
    )
    return f"{draft.runs[0].script} {draft.runs[0].data_set} {'; '.join(runs)}"


def test_every_plan_and_box_is_as_recorded():
    found = [line.rstrip() for line in recorded()]
    before = RECORD.read_text(encoding="utf-8").splitlines()
    difference = "\n".join(difflib.unified_diff(before, found, "recorded", "now", "", "", 0))
    assert not difference, difference


if __name__ == "__main__":
    print("\n".join(line.rstrip() for line in recorded()))
