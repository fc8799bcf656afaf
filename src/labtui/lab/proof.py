"""Does each box behave? It ticks when every planned run went as published, and stays open on nothing.

What documents say (`published`) gives the times, the plan and the checks everything else. The same evidence is test
data elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType

from labtui.domain.model import (
    PROCESS_PER_GPU,
    EpochSample,
    Interval,
    JobPhase,
    JobView,
    RunPhase,
    RunSpec,
    SubmissionStatus,
)
from labtui.domain.state import LabState, RunState, SubmissionState, Totals
from labtui.domain.tuning import named_options
from labtui.lab.checks import check_task
from labtui.lab.cross_references import references
from labtui.lab.edition import (
    ChartsCheck,
    EditedCheck,
    Edition,
    HandInCheck,
    MetricCheck,
    Task,
)
from labtui.lab.evidence import AnswerSheet, Evidence, ExportFact, FileFact
from labtui.lab.plan import expected_learning_rate, planned_specs
from labtui.lab.runs import PublishedRow, RunPlan
from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_state
from labtui.training_logs.patterns import SOURCE

_UNKNOWN_SECONDS = 10.0
"""A time of a run that no document says anything of."""
_ACCURACY = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Whether a box behaves: open on nothing, ticked on all planned runs; `sentence` says what is wrong."""

    task_id: str
    empty_open: bool
    full_done: bool
    sentence: str = ""

    @property
    def holds(self) -> bool:
        return self.empty_open and self.full_done


def prove(edition: Edition) -> tuple[Proof, ...]:
    """Check every task of an edition on nothing and on the runs it plans."""
    full = published_evidence(edition)
    return tuple(_prove(edition, task, full) for task in edition.tasks)


def _prove(edition: Edition, task: Task, evidence: Evidence) -> Proof:
    empty = check_task(edition, task, Evidence())
    full = check_task(edition, task, evidence)
    sentence = ""
    if empty.done:
        sentence = "The task counts as done in an empty folder."
    elif not full.done:
        sentence = f"The task is not done when all its runs are: {full.missing}"
    return Proof(task_id=task.id, empty_open=not empty.done, full_done=full.done, sentence=sentence)


def published_evidence(edition: Edition) -> Evidence:
    """The evidence of a whole lab: planned runs with the published numbers, every question answered."""
    scripts = _scripts(edition)
    state = _state(edition, scripts)
    checks = [check for task in edition.tasks for check in task.checks]
    return Evidence(
        state=state,
        results=compute_results(measured_from_state(state), images=edition.images),
        scripts=scripts,
        originals={path: fact for path, fact in scripts.items() if path not in edition.own_scripts},
        exports=tuple(
            ExportFact(path=f"plots/{chart}.png", chart=chart, models=check.models)
            for check in checks
            if isinstance(check, ChartsCheck)
            for chart in check.charts
        ),
        answers={task.id: AnswerSheet(("answered",) * len(task.questions)) for task in edition.tasks},
        files=frozenset(check.files[0] for check in checks if isinstance(check, HandInCheck)),
    )


def _state(edition: Edition, scripts: Mapping[str, FileFact]) -> LabState:
    """The state after all planned runs ended: one submission for each."""
    submissions: dict[str, SubmissionState] = {}
    runs: dict[int, RunState] = {}
    for task in edition.tasks:
        for plan, spec in zip(task.runs, planned_specs(task), strict=True):
            run = _run(edition, task, plan, spec, run_id=len(runs) + 1)
            runs[run.run_id] = run
            submissions[run.token] = _submission(task, plan, run, scripts)
    return LabState(submissions=MappingProxyType(submissions), runs=MappingProxyType(runs))


def _submission(task: Task, plan: RunPlan, run: RunState, scripts: Mapping[str, FileFact]) -> SubmissionState:
    job_id = str(30_000 + run.run_id)
    name = f"{run.spec.model}-{run.spec.n_gpus}"
    return SubmissionState(
        token=run.token,
        task_id=task.id,
        form=plan.form,
        job_name=name,
        run_ids=(run.run_id,),
        planned_at=0.0,
        status=SubmissionStatus.ACCEPTED,
        gpus=run.spec.n_gpus,
        remote_logs={"out": f"{name}.%j.out"},
        script_hashes={path: fact.sha256 for path, fact in scripts.items()},
        job=JobView(job_id=job_id, phase=JobPhase.FINISHED, slurm_state="COMPLETED", evidence="sacct"),
    )


def published_row(edition: Edition, task: Task, plan: RunPlan) -> PublishedRow | None:
    """What is published of a planned run: the task's own row before one that names no task, before any."""
    fitting = [row for row in edition.published_rows if row.is_about_run(plan.spec) and _has_numbers(row)]
    fitting.sort(key=lambda row: (row.task != task.id, bool(row.task), row.tuning is None))
    return fitting[0] if fitting else None


def _has_numbers(row: PublishedRow) -> bool:
    return bool(row.epoch_seconds or row.seconds or row.throughput) or row.outcome != "completed"


def _run(edition: Edition, task: Task, plan: RunPlan, spec: RunSpec, *, run_id: int) -> RunState:
    found = published_row(edition, task, plan)
    row = found or PublishedRow()
    own = task.own_runs_check
    outcome = own.outcomes[0] if found is None else found.outcome
    images = _trained_images(edition, plan)
    count = spec.epochs
    if outcome != "completed":  # ended in its last epoch, or at once where it has no times
        count = spec.epochs - 1 if row.epoch_seconds else own.min_epochs
    if spec.program is not None:
        epochs: tuple[EpochSample, ...] = (_timing(row, run_id),)
    elif row.throughput is not None:
        epochs = ()
    else:
        steps = -(-images // spec.batch_size)
        numbers = range(1, count + 1)
        epochs = tuple(_epoch(task, spec, row, number=n, count=count, steps=steps) for n in numbers)
    return RunState(
        run_id=run_id,
        token=f"published-{run_id}",
        task_id=task.id,
        spec=spec,
        phase=RunPhase.DONE if outcome == "completed" else RunPhase.FAILED,
        epochs=epochs,
        outcome=outcome,
        images=None if spec.program is not None else images,
        framework="pytorch" if spec.launcher in PROCESS_PER_GPU else "",
        learning_rate=None if spec.program is not None else expected_learning_rate(edition, spec),
        totals=_totals(row, spec),
    )


def _timing(row: PublishedRow, run_id: int) -> EpochSample:
    """A program's time, as precise as its digits."""
    seconds = row.seconds or _UNKNOWN_SECONDS
    digits = Decimal(repr(seconds)).as_tuple().exponent
    printed = Interval.around(seconds, 0.5 * 10.0 ** int(digits))
    return EpochSample(epoch=1, seconds=printed, source=SOURCE, line=run_id)


def _totals(row: PublishedRow, spec: RunSpec) -> Totals | None:
    rate, memory = row.throughput, row.gpu_memory
    if rate is None and memory is None:
        return None
    length = named_options((*spec.arguments, *spec.extra_args)).get("sequence_length", "")
    return Totals(
        throughput=None if rate is None else Interval.exact(rate),
        unit="images" if rate is None else "tokens",
        sequence_length=int(length) if rate is not None and length.isdecimal() else None,
        gpu_memory=None if memory is None else Interval.exact(memory),
        line=1,
    )


def _epoch(
    task: Task, spec: RunSpec, row: PublishedRow, *, number: int, count: int, steps: int
) -> EpochSample:
    steady = row.epoch_seconds or _UNKNOWN_SECONDS
    seconds = (row.first_epoch_seconds or 2 * steady) if number == 1 else steady
    accuracy = (_ACCURACY if row.accuracy is None else row.accuracy) * number / count
    metrics = {"accuracy": accuracy, "loss": 2.3 - number / count}
    if any(" rate" in word for word in spec.tuning):
        metrics |= {"top1": 100 * accuracy, "val_top1": 95 * accuracy, "learning_rate": 1.0 / number}
    for check in task.checks:
        if isinstance(check, MetricCheck) and check.metric in metrics and row.accuracy is None:
            metrics[check.metric] = check.at_least * number / count
    return EpochSample(
        epoch=number,
        seconds=Interval(seconds, max(0.001, seconds - 0.01), seconds + 0.01),
        steps=steps,
        metrics=metrics,
        line=2 * number,
    )


def _trained_images(edition: Edition, plan: RunPlan) -> int:
    """Images of an epoch; processes, one for each GPU, share them evenly and leave out a batch that is not whole."""
    images = plan.images or edition.images
    spec = plan.spec
    if spec.launcher not in PROCESS_PER_GPU:
        return images
    each = spec.per_gpu_batch
    return images // spec.n_gpus // each * each * spec.n_gpus


# --------------------------------------------------------------------------- files


def own_script_texts(edition: Edition) -> dict[str, str]:
    """The scripts that the student makes, with the names their tasks want in them."""
    checks = [check for task in edition.tasks for check in task.checks if isinstance(check, EditedCheck)]
    texts: dict[str, str] = {}
    for check in checks:
        code = "".join(f"model = {name}\n" for name in check.names)
        texts[check.script] = texts.get(check.script, f"# from {check.original}\n") + code
    return texts


def _scripts(edition: Edition) -> dict[str, FileFact]:
    """Every script the edition speaks of: the student's own, and a line of its own for each other one."""
    named = {name for _, kind, name in references(edition) if kind == "script"}
    texts = {name: f"# {name}\n" for name in named} | own_script_texts(edition)
    return {path: FileFact(path, text.encode()) for path, text in texts.items()}
