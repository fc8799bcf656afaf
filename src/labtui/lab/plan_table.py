"""The plan of a task as an editable table. Pure.

A row is one run. Changing the GPUs keeps the batch per GPU and scales an explicit learning rate; the global batch and
the batch per GPU always agree.
"""

import re
import shlex
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from labtui.domain.errors import UsageError, failure
from labtui.domain.model import JobForm, Program, RunSpec, SubmissionDraft
from labtui.lab.plan import PlanRow, control_run
from labtui.slurm.values import number
from labtui.training_logs.runs import PROGRAM, plain_number

WORDS = {
    "gpus": "number of GPUs",
    "batch": "global batch, the samples in one step of all GPUs",
    "per_gpu": "batch per GPU, the samples in one step of each GPU",
    "rate": "learning rate (empty: the script's own)",
    "epochs": "number of epochs",
    "limit": "time limit, in minutes (empty: as planned)",
    "options": "further options of the training script, as on a command line",
}


def rows_of(drafts: Sequence[SubmissionDraft]) -> tuple[PlanRow, ...]:
    """A row for each run of the drafts, in order."""
    return tuple(PlanRow(spec, origin) for origin, draft in enumerate(drafts) for spec in draft.runs)


def control_rows(rows: Sequence[PlanRow], controls: Iterable[str], *, practice: bool) -> list[PlanRow]:
    """The control runs of the included rows, as rows; `controls` are keys of `CONTROLS`.

    Raises:
        UsageError: none of the rows has one, or the cluster is the practice cluster.
    """
    if practice:
        raise failure("practice-controls")
    chosen = [row for row in rows if row.included]
    found = ((row, control_run(row.spec, control)) for control in controls for row in chosen)
    made = [replace(row, spec=spec, limit=None) for row, spec in found if spec is not None]
    if not made:
        raise failure("no-controls")
    return made


def forms_of(drafts: Sequence[SubmissionDraft]) -> tuple[JobForm, ...]:
    """The forms the student can choose from, the planned one first; () if there is no choice (CPU).

    PyTorch's scripts are started by torchrun or by srun itself; torchrun's trainings on one GPU can share a job.
    """
    shared: tuple[JobForm, ...] = ("one-job", "job-per-size")
    started: tuple[JobForm, ...] = ("torchrun", "task-per-gpu")
    for forms in (shared, started):
        planned = next((draft.form for draft in drafts if draft.form in forms), None)
        if planned is not None:
            others = tuple(each for each in forms if each != planned)
            in_turn = all(each.form == "torchrun" and each.total_gpus == 1 for each in drafts)
            return (planned, *others, *(shared[:1] if in_turn and len(drafts) > 1 else ()))
    return ()


def cell(row: PlanRow, column: str) -> str:
    """A cell's text before it is edited, in the form in which it is typed."""
    spec = row.spec
    if spec.program is not None and column in {"gpus", "batch"}:
        return str(spec.processes) if column == "gpus" else spec.size
    values = {
        "gpus": str(spec.n_gpus),
        "batch": str(spec.batch_size),
        "per_gpu": str(spec.per_gpu_batch),
        "rate": "" if spec.learning_rate is None else f"{spec.learning_rate:g}",
        "epochs": str(spec.epochs),
        "limit": "" if row.limit is None else str(row.limit),
        "options": shlex.join(spec.extra_args),
    }
    return values[column]


def change_cell(row: PlanRow, column: str, text: str) -> PlanRow:
    """The row with one cell changed.

    Raises:
        UsageError: the text is not a valid value there.
    """
    if column == "limit":
        return replace(row, limit=_whole_number(text, "time limit", 1, 100_000) if text.strip() else None)
    spec, program = row.spec, row.spec.program
    if column == "options":
        spec = replace(spec, extra_args=split_options(text))
    elif program is not None:
        spec = _timed(spec, program, column, text)
    elif column == "rate":
        spec = replace(spec, learning_rate=_rate(text) if text.strip() else None)
    elif column == "epochs":
        spec = replace(spec, epochs=_whole_number(text, "number of epochs", 1, 10_000))
    elif column == "batch":
        batch = _whole_number(text, "global batch", spec.replicas, 10_000_000)
        if batch % spec.replicas:
            raise UsageError(f"The global batch is a multiple of {spec.replicas}, so that all have the same.")
        spec = replace(spec, batch_size=batch)
    elif column == "per_gpu":
        each = _whole_number(text, "batch per GPU", 1, 10_000_000)
        spec = replace(spec, batch_size=each * spec.replicas)
    else:
        spec = _with_gpus(spec, text)
    return replace(row, spec=spec)


def _timed(spec: RunSpec, program: Program, column: str, text: str) -> RunSpec:
    """A program's run with another number of processes, or another size."""
    what = f"number of {program.counts}"
    count = _whole_number(text, what, 1, 100_000) if column == "gpus" else spec.processes
    size = text.strip() if column == "batch" else spec.size
    if not re.fullmatch(PROGRAM["size"], size):
        raise failure("no-size", text=text)
    gpus = count if spec.n_gpus else 0
    return replace(spec, processes=count, size=size, n_gpus=gpus, arguments=program.argv(count, size))


def _with_gpus(spec: RunSpec, text: str) -> RunSpec:
    count, rate = _whole_number(text, "number of GPUs", 1, 1024), spec.learning_rate
    if rate is not None and spec.launcher == "python":  # as in its script; others keep theirs
        rate = round(rate / spec.n_gpus * count, 10)
    return replace(spec, n_gpus=count, batch_size=spec.per_gpu_batch * count, learning_rate=rate)


def split_options(text: str) -> tuple[str, ...]:
    """The words of options typed as on a command line. Raises UsageError."""
    try:
        return tuple(shlex.split(text))
    except ValueError:
        raise failure("open-quote") from None


def _whole_number(text: str, what: str, low: int, high: int) -> int:
    if (found := number(text.replace(",", ""))) is None:
        raise UsageError(f"The {what} is a whole number, not {text.strip()!r}.")
    if not low <= found <= high:
        raise UsageError(f"The {what} is between {low:,} and {high:,}.")
    return found


def _rate(text: str) -> float:
    rate = plain_number(text.strip())
    if rate is None or not 0 < rate < 1000:
        raise UsageError(f"The learning rate is a number above 0 like 0.02, not {text.strip()!r}.")
    return rate
