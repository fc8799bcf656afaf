"""The proof of an edition: each box is open without evidence, and ticked once every planned run went as published.

The evidence is made from the published numbers (the times), the plan and the checks (everything else).
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from labtui.domain.model import EpochSample, Interval, JobPhase, JobView, RunPhase, RunSpec, SubmissionStatus
from labtui.domain.state import LabState, RunState, SubmissionState
from labtui.lab.checks import check_task
from labtui.lab.edition import ChartsCheck, EditedCheck, Edition, HandInCheck, MetricCheck, Task
from labtui.lab.edition_rules import references
from labtui.lab.evidence import Evidence, ExportFact, FileFact
from labtui.lab.plan import expected_learning_rate, planned_specs
from labtui.lab.runs import PublishedRow, RunPlan
from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_state

_UNKNOWN_SECONDS = 10.0
"""The time of an epoch if nothing is published."""
_ACCURACY = 0.3


class Proof(NamedTuple):
    """Whether a box is open without evidence and ticked by all planned runs; `sentence` says what is wrong."""

    task: str
    open_on_empty_folder: bool
    ticked_when_all_is_done: bool
    sentence: str

    @property
    def holds(self) -> bool:
        return self.open_on_empty_folder and self.ticked_when_all_is_done


def prove(edition: Edition) -> Iterator[Proof]:
    """Check every task of an edition without evidence and with that of all planned runs."""
    evidence = published_evidence(edition)
    for task in edition.tasks:
        empty, full = check_task(edition, task, Evidence()), check_task(edition, task, evidence)
        sentence = "" if full.done else f"The task is not done when all its runs are: {full.missing}"
        if empty.done:
            sentence = "The task counts as done in an empty folder."
        yield Proof(task.id, not empty.done, full.done, sentence)


def published_evidence(edition: Edition) -> Evidence:
    """The evidence of a finished lab: all planned runs with the published numbers, every question answered."""
    scripts, checks = _scripts(edition), [check for task in edition.tasks for check in task.checks]
    runs, submissions = {}, {}
    for task in edition.tasks:
        for plan, spec in zip(task.runs, planned_specs(task), strict=True):
            run = runs[len(runs) + 1] = _run(edition, task, plan, spec, len(runs) + 1)
            submissions[run.token] = _submission(plan, run, scripts)
    state = LabState(submissions=MappingProxyType(submissions), runs=MappingProxyType(runs))
    return Evidence(
        state=state,
        results=compute_results(measured_from_state(state), images=edition.images),
        scripts=scripts,
        originals={path: fact for path, fact in scripts.items() if path not in edition.student_scripts},
        exports=tuple(
            ExportFact(path=f"plots/{chart}.png", chart=chart, models=check.models)
            for check in checks
            if isinstance(check, ChartsCheck)
            for chart in check.charts
        ),
        answers={task.id: ("answered",) * len(task.questions) for task in edition.tasks},
        files=frozenset(check.files[0] for check in checks if isinstance(check, HandInCheck)),
    )


def published_rows(edition: Edition) -> list[PublishedRow]:
    return [row for table in edition.published for row in table.complete_rows()]


def published_row(edition: Edition, task: Task, plan: RunPlan) -> PublishedRow | None:
    """The published row for a planned run: one of this task, else one that names no task, else one of another task."""
    fitting = [row for row in published_rows(edition) if row.matches(plan.spec) and _has_numbers(row)]
    fitting.sort(key=lambda row: (row.task != task.id, bool(row.task), row.tuning is None))
    return fitting[0] if fitting else None


def _has_numbers(row: PublishedRow) -> bool:
    return bool(row.epoch_seconds or row.seconds or row.throughput) or row.outcome != "completed"


def _run(edition: Edition, task: Task, plan: RunPlan, spec: RunSpec, run_id: int) -> RunState:
    """A planned run as it would have gone, with as many epochs as its published outcome allows."""
    own = task.own_runs_check
    row = published_row(edition, task, plan) or PublishedRow(outcome=own.outcomes[0])
    count = spec.epochs if row.throughput is None else 0
    if row.outcome != "completed":  # ended in its last epoch, or at the start if no times are published
        count = spec.epochs - 1 if row.epoch_seconds else own.min_epochs
    return RunState(
        run_id=run_id, token=f"published-{run_id}", task_id=task.id, spec=spec,
        phase=RunPhase.DONE if row.outcome == "completed" else RunPhase.FAILED,
        epochs=tuple(_epoch(task, row, number, count) for number in range(1, count + 1)),
        outcome=row.outcome,
        learning_rate=None if spec.program is not None else expected_learning_rate(edition, spec),
    )  # fmt: skip


def _submission(plan: RunPlan, run: RunState, scripts: Mapping[str, FileFact]) -> SubmissionState:
    job_id = str(30_000 + run.run_id)
    name = f"{run.spec.model}-{run.spec.n_gpus}"
    return SubmissionState(
        token=run.token, task_id=run.task_id, form=plan.form, job_name=name, run_ids=(run.run_id,),
        planned_at=0.0, status=SubmissionStatus.ACCEPTED, gpus=run.spec.n_gpus,
        remote_logs={"out": f"{name}.%j.out"},
        script_hashes={path: fact.sha256 for path, fact in scripts.items()},
        job=JobView(job_id=job_id, phase=JobPhase.FINISHED, slurm_state="COMPLETED", evidence="sacct"),
    )  # fmt: skip


def _epoch(task: Task, row: PublishedRow, number: int, count: int) -> EpochSample:
    """One of `count` epochs; for a program, its run time."""
    seconds = row.seconds or row.epoch_seconds or _UNKNOWN_SECONDS
    if number == 1 and row.seconds is None:
        seconds = row.first_epoch_seconds or 2 * seconds
    metrics = {"accuracy": row.accuracy or _ACCURACY}
    for check in task.checks:
        if isinstance(check, MetricCheck) and row.accuracy is None:
            metrics[check.metric] = check.at_least
    metrics = {name: value * number / count for name, value in metrics.items()}
    return EpochSample(epoch=number, seconds=Interval.exact(seconds), metrics=metrics, line=2 * number)


def own_script_texts(edition: Edition) -> dict[str, str]:
    """The texts of the scripts that the student makes, with the names that the checks look for."""
    checks = [check for task in edition.tasks for check in task.checks if isinstance(check, EditedCheck)]
    texts: dict[str, str] = {}
    for check in checks:
        code = "".join(f"model = {name}\n" for name in check.names)
        texts[check.script] = texts.get(check.script, f"# from {check.original}\n") + code
    return texts


def _scripts(edition: Edition) -> dict[str, FileFact]:
    """Every script the edition names: the student's own, and any other one as a line with its name."""
    named = {name for _, kind, name in references(edition) if kind == "script"}
    texts = {name: f"# {name}\n" for name in named} | own_script_texts(edition)
    return {path: FileFact(path, text.encode()) for path, text in texts.items()}
