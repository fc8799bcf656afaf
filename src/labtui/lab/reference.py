"""Evidence made from an edition's own reference: on it every box must tick, and on none of it no box may.

The runs are those the tasks plan; their times, scripts and files are declared in the edition. The same
values prove a teacher's edition and are test data for the checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType

from labtui.domain.events import LabState, RunState, SubmissionState, TotalsSeen
from labtui.domain.model import (
    PROCESS_PER_GPU,
    EpochSample,
    Interval,
    JobPhase,
    JobView,
    RunPhase,
    RunSpec,
    SubmissionStatus,
    named_options,
)
from labtui.lab.checks import check_task
from labtui.lab.edition import (
    ChartsCheck,
    EditedCheck,
    Edition,
    FilesCheck,
    HandInCheck,
    ReferenceRun,
    RunPlan,
    Task,
    size_of,
)
from labtui.lab.evidence import AnswerSheet, Evidence, ExportFact, FileFact, file_fact
from labtui.lab.plan import expected_learning_rate, planned_specs
from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_state
from labtui.training_logs.patterns import SOURCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Whether a box behaves: open on nothing, ticked on the reference; `sentence` says what is wrong."""

    task_id: str
    empty_open: bool
    reference_done: bool
    sentence: str = ""

    @property
    def holds(self) -> bool:
        return self.empty_open and self.reference_done


def prove(edition: Edition) -> tuple[Proof, ...]:
    """Check every task of an edition on nothing and on its reference evidence."""
    reference = reference_evidence(edition)
    return tuple(_prove(edition, task, reference) for task in edition.tasks)


def _prove(edition: Edition, task: Task, reference: Evidence) -> Proof:
    empty = check_task(edition, task, Evidence())
    full = check_task(edition, task, reference)
    sentence = ""
    if empty.done:
        sentence = "The task counts as done in an empty folder."
    elif not full.done:
        sentence = f"The task is not done with the reference results: {full.missing}"
    return Proof(task_id=task.id, empty_open=not empty.done, reference_done=full.done, sentence=sentence)


def reference_evidence(edition: Edition) -> Evidence:
    """The evidence an edition declares: planned runs with its times, its scripts, every question answered."""
    scripts = _scripts(edition)
    state = reference_state(edition, scripts)
    results = compute_results(measured_from_state(state), images=edition.images)
    return Evidence(
        state=state,
        results=results,
        scripts=scripts,
        originals={path: fact for path, fact in scripts.items() if path not in _edited(edition)},
        exports=_exports(edition),
        answers={task.id: AnswerSheet(("reference",) * len(task.questions)) for task in edition.tasks},
        files=_files(edition),
    )


def reference_state(edition: Edition, scripts: Mapping[str, FileFact]) -> LabState:
    """The state after all planned runs ended as the reference says: one submission per task and form."""
    submissions: dict[str, SubmissionState] = {}
    runs: dict[int, RunState] = {}
    for task in edition.tasks:
        for plan, spec in zip(task.runs, planned_specs(edition, task), strict=True):
            run_id = len(runs) + 1
            token = f"reference-{run_id}"
            runs[run_id] = _run(edition, task, plan, spec, run_id=run_id)
            submissions[token] = _submission(task, plan, runs[run_id], scripts)
    return LabState(submissions=MappingProxyType(submissions), runs=MappingProxyType(runs))


def _submission(task: Task, plan: RunPlan, run: RunState, scripts: Mapping[str, FileFact]) -> SubmissionState:
    job = JobView(
        job_id=str(30_000 + run.run_id), phase=JobPhase.FINISHED, slurm_state="COMPLETED", evidence="sacct"
    )
    name = f"{plan.model}-{plan.gpus}"
    return SubmissionState(
        token=run.token,
        task_id=task.id,
        form=plan.form,
        job_name=name,
        run_ids=(run.run_id,),
        planned_at=0.0,
        status=SubmissionStatus.ACCEPTED,
        gpus=plan.gpus,
        remote_logs={"out": f"{name}.%j.out"},
        script_hashes={path: fact.sha256 for path, fact in scripts.items()},
        job=job,
    )


def _run(edition: Edition, task: Task, plan: RunPlan, spec: RunSpec, *, run_id: int) -> RunState:
    if plan.form == "mpi":
        return _timed_run(edition, task, plan, spec, run_id=run_id)
    reference = _reference_run(edition, task, plan)
    steps = -(-_trained_images(edition, plan) // plan.batch_size)
    count = plan.epochs if reference.epochs_read is None else reference.epochs_read
    if reference.tokens_per_gpu is not None:
        count = 0
    return RunState(
        run_id=run_id,
        token=f"reference-{run_id}",
        task_id=task.id,
        spec=spec,
        phase=RunPhase.DONE if reference.outcome == "completed" else RunPhase.FAILED,
        epochs=tuple(_epoch(reference, number, count, steps) for number in range(1, count + 1)),
        outcome=reference.outcome,
        images=_trained_images(edition, plan),
        framework="pytorch" if plan.form in PROCESS_PER_GPU else "",
        learning_rate=expected_learning_rate(edition, spec),
        totals=_totals(reference, plan, run_id),
    )


def _timed_run(edition: Edition, task: Task, plan: RunPlan, spec: RunSpec, *, run_id: int) -> RunState:
    """A program's run, with the time of the reference."""
    wanted = (plan.model, plan.processes, plan.size)
    seconds = next(
        value
        for times in edition.reference.times
        for number, value in zip(times.processes, times.seconds, strict=True)
        if (times.program, number, size_of(edition, times, number)) == wanted
    )
    digits = Decimal(repr(seconds)).as_tuple().exponent
    printed = Interval.around(seconds, 0.5 * 10.0 ** int(digits))
    sample = EpochSample(epoch=1, seconds=printed, source=SOURCE, line=run_id)
    return RunState(
        run_id=run_id,
        token=f"reference-{run_id}",
        task_id=task.id,
        spec=spec,
        phase=RunPhase.DONE,
        epochs=(sample,),
        outcome="completed",
    )


def _totals(reference: ReferenceRun, plan: RunPlan, run_id: int) -> TotalsSeen | None:
    rate, memory = reference.tokens_per_gpu, reference.gpu_memory
    if rate is None and memory is None:
        return None
    length = named_options((*plan.arguments, *plan.options)).get("sequence_length", "")
    return TotalsSeen(
        at=0.0,
        run_id=run_id,
        throughput=None if rate is None else Interval.exact(rate * plan.gpus),
        unit="images" if rate is None else "tokens",
        sequence_length=int(length) if rate is not None and length.isdecimal() else None,
        gpu_memory=None if memory is None else Interval.exact(memory),
        line=1,
    )


def _epoch(reference: ReferenceRun, number: int, count: int, steps: int) -> EpochSample:
    top1 = 100 * reference.accuracy * number / count
    studied = any(" rate" in word for word in reference.tuning or ())
    rates = {"top1": top1, "val_top1": 0.95 * top1, "learning_rate": 1.0 / number} if studied else {}
    seconds = reference.first_epoch_seconds if number == 1 else reference.epoch_seconds
    return EpochSample(
        epoch=number,
        seconds=Interval(seconds, max(0.001, seconds - 0.01), seconds + 0.01),
        steps=steps,
        metrics={"accuracy": reference.accuracy * number / count, "loss": 2.3 - number / count, **rates},
        line=2 * number,
    )


def _trained_images(edition: Edition, plan: RunPlan) -> int:
    """Images of an epoch; a process for each GPU has a share of them evenly and leave out a batch that is not whole."""
    images = plan.images or edition.images
    if plan.form not in PROCESS_PER_GPU:
        return images
    each = plan.batch_size // plan.gpus
    return images // plan.gpus // each * each * plan.gpus


def _reference_run(edition: Edition, task: Task, plan: RunPlan) -> ReferenceRun:
    """The reference for a planned run: the task's own entry before one that names no task."""
    fitting = [run for run in edition.reference.runs if (run.model, run.gpus) == (plan.model, plan.gpus)]
    narrow = [run for run in fitting if _fits(run, plan)]
    fitting = sorted(narrow, key=lambda run: (run.batch_size is None) + (run.tuning is None)) or fitting
    own = [run for run in fitting if run.task == task.id]
    general = [run for run in fitting if not run.task]
    return (own or general or fitting)[0]


def _fits(run: ReferenceRun, plan: RunPlan) -> bool:
    return run.batch_size in (None, plan.batch_size) and run.tuning in (None, plan.tuning)


# --------------------------------------------------------------------------- files


def _edited(edition: Edition) -> set[str]:
    return {c.script for task in edition.tasks for c in task.checks if isinstance(c, EditedCheck)}


def _scripts(edition: Edition) -> dict[str, FileFact]:
    """Every script the edition speaks of; declared texts win, others are a line of their own."""
    names: dict[str, None] = {}
    for task in edition.tasks:
        names.update(dict.fromkeys([*task.files, *(plan.script for plan in task.runs)]))
        for check in task.checks:
            if isinstance(check, FilesCheck):
                names.update(dict.fromkeys(check.files))
            elif isinstance(check, EditedCheck):
                names.setdefault(check.original, None)
    texts = {name: f"# {name}\n" for name in names if name not in _edited(edition)}
    texts.update({script.path: script.text for script in edition.reference.scripts})
    return {path: file_fact(path, text.encode()) for path, text in texts.items()}


def _exports(edition: Edition) -> tuple[ExportFact, ...]:
    charts = [c for task in edition.tasks for c in task.checks if isinstance(c, ChartsCheck)]
    return tuple(
        ExportFact(path=f"plots/{chart}.png", chart=chart, models=check.models)
        for check in charts
        for chart in check.charts
    )


def _files(edition: Edition) -> frozenset[str]:
    wanted = [c for task in edition.tasks for c in task.checks if isinstance(c, HandInCheck)]
    return frozenset(check.files[0] for check in wanted) | frozenset(edition.reference.files)
