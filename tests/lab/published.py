"""A lab whose planned runs went as published, with submissions, times as printed and totals, for tests of results."""

from decimal import Decimal
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from labtui.domain.model import PROCESS_PER_GPU, EpochSample, Interval, RunSpec
from labtui.domain.state import RunState
from labtui.domain.tuning import named_options
from labtui.lab.edition import Edition, MetricCheck, Task
from labtui.lab.evidence import Evidence
from labtui.lab.runs import PublishedRow, RunPlan
from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_state
from labtui.training_logs.patterns import SOURCE
from tests.lab.proof import published_evidence, published_row


def published_lab(edition: Edition) -> Evidence:
    """The evidence of the edition's proof, with everything else that a real lab has."""
    evidence = published_evidence(edition)
    plans = [(task, plan) for task in edition.tasks for plan in task.runs]
    bare = zip(plans, evidence.state.runs.values(), strict=True)
    runs = {run.run_id: _detailed(edition, task, plan, run) for (task, plan), run in bare}
    state = replace(evidence.state, runs=MappingProxyType(runs))
    results = compute_results(measured_from_state(state), images=edition.images)
    return replace(evidence, state=state, results=results)


def _detailed(edition: Edition, task: Task, plan: RunPlan, run: RunState) -> RunState:
    row, spec = published_row(edition, task, plan) or PublishedRow(), run.spec
    images = plan.images or edition.images
    if spec.launcher in PROCESS_PER_GPU:  # the processes get equal shares and leave out an incomplete batch
        images = images // spec.n_gpus // spec.per_gpu_batch * spec.per_gpu_batch * spec.n_gpus
    if spec.program is not None:
        epochs: tuple[EpochSample, ...] = (_timing(row, run.run_id),)
    else:
        epochs = tuple(_epoch(task, spec, row, each, images, len(run.epochs)) for each in run.epochs)
    return replace(
        run, epochs=epochs, images=None if spec.program is not None else images,
        framework="pytorch" if spec.launcher in PROCESS_PER_GPU else "", **_totals(row, spec),
    )  # fmt: skip


def _timing(row: PublishedRow, run_id: int) -> EpochSample:
    """A program's time, as precise as its digits."""
    seconds = row.seconds or 10.0
    digits = Decimal(repr(seconds)).as_tuple().exponent
    printed = Interval.around(seconds, 0.5 * 10.0 ** int(digits))
    return EpochSample(epoch=1, seconds=printed, source=SOURCE, line=run_id)


def _totals(row: PublishedRow, spec: RunSpec) -> dict[str, Any]:
    """The totals of a run, as fields of `RunState`."""
    rate, memory = row.throughput, row.gpu_memory
    if rate is None and memory is None:
        return {}
    length = named_options((*spec.arguments, *spec.extra_args)).get("sequence_length", "")
    return {
        "throughput": None if rate is None else Interval.exact(rate),
        "unit": "images" if rate is None else "tokens",
        "sequence_length": int(length) if rate is not None and length.isdecimal() else None,
        "gpu_memory": None if memory is None else Interval.exact(memory), "rate_line": 1,
    }  # fmt: skip


def _epoch(
    task: Task, spec: RunSpec, row: PublishedRow, bare: EpochSample, images: int, count: int
) -> EpochSample:
    number, seconds = bare.epoch, bare.seconds.value
    accuracy = (0.3 if row.accuracy is None else row.accuracy) * number / count
    metrics = {"accuracy": accuracy, "loss": 2.3 - number / count}
    if "lr_policy" in dict(spec.tuning):
        metrics |= {"top1": 100 * accuracy, "val_top1": 95 * accuracy, "learning_rate": 1.0 / number}
    for check in task.checks:
        if isinstance(check, MetricCheck) and check.metric in metrics and row.accuracy is None:
            metrics[check.metric] = check.at_least * number / count
    return replace(
        bare, seconds=Interval(seconds, max(0.001, seconds - 0.01), seconds + 0.01),
        steps=-(-images // spec.batch_size), metrics=metrics,
    )  # fmt: skip
