"""What the screens say, computed from a `Picture`: pure functions from state to rows and sentences.

Nothing here knows Textual, files or clocks (`Picture.now` is handed in).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from labtui.core.model import RunPhase, SubmissionStatus
from labtui.core.state import LabState, RunState, SubmissionState
from labtui.tui import format as words
from labtui.tui.job_words import NO_LINE, job_sentences, submission_sentences

if TYPE_CHECKING:
    from labtui.core.charts import ChartSpec
    from labtui.core.lab.checks import TaskCheck
    from labtui.core.lab.edition import Edition, Task
    from labtui.core.results import ResultRow, Results

LIVE_ORDER = ("", "waiting", "queued", "running")
LIVE_WORDS = {
    RunPhase.WAITING: "waiting",
    RunPhase.QUEUED: "queued",
    RunPhase.STARTING: "running",
    RunPhase.RUNNING: "running",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Everything one repaint needs. `checks` are by task id; `gpu_hours` what this lab has used so far."""

    state: LabState
    edition: Edition | None = None
    loading: bool = False
    results: Results | None = None
    charts: tuple[ChartSpec, ...] = ()
    checks: Mapping[str, TaskCheck] = field(default_factory=dict)
    task_id: str = ""
    run_id: int | None = None
    cluster: str = ""
    account: str = ""
    qos: str = ""
    practice: bool = False
    factor: float | None = None  # how many times faster than real a rehearsal's clock goes
    read_only: bool = False
    gpu_hours: float | None = None
    now: float = 0.0

    @property
    def task(self) -> Task | None:
        """The task on the screen."""
        return self.edition.task(self.task_id) if self.edition is not None else None

    @property
    def rows_by_run(self) -> dict[int, ResultRow]:
        """The numbers that each run belongs to."""
        rows = self.results.rows if self.results is not None else ()
        return {member.run_id: row for row in rows for member in row.members if member.run_id is not None}

    @property
    def runs(self) -> tuple[RunState, ...]:
        """The runs of the task on the screen, in the order of their numbers."""
        return tuple(run for _, run in sorted(self.state.runs.items()) if run.task_id == self.task_id)

    @property
    def run(self) -> RunState | None:
        """The selected run."""
        return self.state.runs.get(self.run_id) if self.run_id is not None else None

    def submission_of(self, run: RunState) -> SubmissionState | None:
        """The submission that carries a run."""
        return self.state.submissions.get(run.token)


# ------------------------------------------------------------------ tasks


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A line of the task list."""

    task_id: str
    title: str
    status: str
    live: str = ""  # "running", "queued" or "waiting" while a run of it is under way

    @property
    def glyph(self) -> str:
        """The sign of the task's box."""
        return words.TASK_GLYPHS.get(self.status, "○")

    @property
    def word(self) -> str:
        """What is under way, else the box as a word."""
        return self.live or words.TASK_WORDS.get(self.status, self.status)


def task_rows(picture: Picture) -> tuple[TaskRow, ...]:
    """The tasks in the edition's order; without an edition, those that have runs."""
    live: dict[str, str] = {}
    for run in picture.state.runs.values():
        if word := LIVE_WORDS.get(run.phase):
            live[run.task_id] = max(word, live.get(run.task_id, ""), key=LIVE_ORDER.index)
    if picture.edition is None:
        names = dict.fromkeys(run.task_id for run in picture.state.runs.values())
        return tuple(TaskRow(name, "", "open", live.get(name, "")) for name in names)
    return tuple(
        TaskRow(task.id, task.title, _status(picture, task.id), live.get(task.id, ""))
        for task in picture.edition.tasks
    )


def _status(picture: Picture, task_id: str) -> str:
    check = picture.checks.get(task_id)
    return check.status if check is not None else "open"


def progress(picture: Picture) -> tuple[int, int]:
    """Tasks done, and tasks there are."""
    rows = task_rows(picture)
    return sum(1 for row in rows if row.status == "done"), len(rows)


def next_step(picture: Picture) -> str:
    """One sentence: what is missing in this task, or which task comes next."""
    check = picture.checks.get(picture.task_id)
    if check is not None and check.status != "done" and check.missing:
        return check.missing
    for row in task_rows(picture):
        if row.status != "done" and row.task_id != picture.task_id:
            return f"Next: {row.task_id} {row.title}"
    return "All tasks are done." if picture.checks else ""


def first_task(picture: Picture) -> str:
    """Where to begin: the task of a live run, of the newest run, else the first that is not done."""
    rows = task_rows(picture)
    newest = max(picture.state.runs.values(), key=lambda run: run.run_id, default=None)
    for wanted in (
        [row for row in rows if row.live == "running"],
        [row for row in rows if newest is not None and row.task_id == newest.task_id],
        [row for row in rows if row.status != "done"],
        rows[:1],
    ):
        if wanted:
            return wanted[0].task_id
    return ""


# ------------------------------------------------------------------ runs


@dataclass(frozen=True, slots=True)
class RunRow:
    """One line of the runs table, as text. `phase` gives the colour."""

    run_id: int
    phase: RunPhase
    number: str
    model: str
    gpus: str
    batch: str
    per_gpu: str
    state: str
    epoch: str
    rate: str
    speedup: str
    efficiency: str


def run_rows(picture: Picture, runs: tuple[RunState, ...] | None = None) -> tuple[RunRow, ...]:
    """The runs of the task, with the numbers of their configuration where they have a part in them."""
    by_run = {
        run_id: row
        for run_id, row in picture.rows_by_run.items()
        if row.epoch_seconds is None or any(origin.run_id == run_id for origin in row.origins)
    }
    return tuple(
        _run_row(picture, run, by_run.get(run.run_id)) for run in (picture.runs if runs is None else runs)
    )


def _run_row(picture: Picture, run: RunState, row: ResultRow | None) -> RunRow:
    spec = run.spec
    return RunRow(
        run.run_id,
        run.phase,
        str(run.run_id),
        spec.model,
        str(spec.n_gpus) if spec.device == "gpu" else "CPU",
        f"{spec.batch_size}",
        f"{spec.per_gpu_batch}" if spec.device == "gpu" else words.NOTHING,
        words.run_label(run, picture.submission_of(run)) + _mark(picture, run),
        words.with_bounds(row.epoch_seconds if row else None),
        words.whole(row.throughput if row else None),
        words.ratio(row.speedup if row else None),
        words.percent(row.efficiency if row else None),
    )


def _mark(picture: Picture, run: RunState) -> str:
    """A rehearsed run in a real lab's folder, or the other way round, says so."""
    submission = picture.submission_of(run)
    if submission is None or submission.practice is picture.practice:
        return ""
    return " (practice)" if submission.practice else " (real)"


def run_detail(picture: Picture, run: RunState) -> list[str]:
    """Sentences about the selected run: where its job stands and why, what its log explains."""
    submission = picture.submission_of(run)
    lines: list[str] = []
    if submission is not None:
        lines += (
            submission_sentences(submission, picture.state)
            if submission.job is None
            else job_sentences(submission, submission.job, picture)
        )
    for found in run.diagnosis:
        lines.append(f"{found.advice} ({found.kind}, line {found.line} of the {found.stream})")
    return [line for line in lines if line]


def waiting_line(picture: Picture) -> str:
    """What waits in labtui's own line and why; empty when nothing does."""
    from labtui.core.jobs import live

    waiting = [each for each in picture.state.submissions.values() if each.status is SubmissionStatus.WAITING]
    if not waiting:
        return ""
    first = waiting[0]
    names = []
    for each in waiting:
        specs = [picture.state.runs[run_id].spec for run_id in each.run_ids if run_id in picture.state.runs]
        names.append(" + ".join(_short(spec.model, spec.n_gpus) for spec in specs) or each.job_name)
    if picture.state.connection.status in NO_LINE:
        why = "no connection"
    elif first.sentence:
        why = first.sentence
    else:
        taken = any(each.qos == first.qos for each in live(picture.state))
        why = f"{first.qos} is busy" if taken else "waiting for its turn"
    return f"waiting line: {', '.join(names)} ({why.rstrip('.')})"


def _short(model: str, n_gpus: int) -> str:
    return f"{model} {n_gpus} GPU{'s' if n_gpus != 1 else ''}" if n_gpus else f"{model} CPU"


# ------------------------------------------------------------------ what it cost


def spent_words(picture: Picture) -> str:
    """What the jobs of the task on the screen have cost so far, as `labtui queue` says it; "" when nothing ran."""
    mine = any(each.job and each.task_id == picture.task_id for each in picture.state.submissions.values())
    if not mine:
        return ""
    from labtui.core.cost import lab_cost

    cost = lab_cost(picture.state, now=picture.now, practice=picture.practice).tasks.get(picture.task_id)
    if cost is None or not (cost.allocated or cost.core_hours):
        return ""
    told = f"{cost.allocated:.2f} GPU-hours allocated, {cost.used:.2f} trained"
    if not cost.allocated:
        told = f"{cost.core_hours:.2f} core-hours allocated, no GPU"
    return f"spent on this task{' (practice)' if picture.practice else ''}: {told}"


# ------------------------------------------------------------------ numbers beside charts and answers


def number_rows(picture: Picture, models: frozenset[str] | None = None) -> list[tuple[str, ...]]:
    """Configuration, epoch time, throughput, speedup, efficiency: one line per measured configuration."""
    shown = [
        row
        for row in (picture.results.rows if picture.results is not None else ())
        if row.epoch_seconds is not None
        and (models is None or row.model in models)
        and row.practice is picture.practice  # rehearsed and real numbers never stand in one table
    ]
    names = Counter(_row_name(row) for row in shown)
    rows: list[tuple[str, ...]] = []
    for row in shown:
        name = _row_name(row)
        batch = f", batch {row.batch_size:,}" if names[name] > 1 and row.batch_size else ""
        mark = " ▶" if row.live else ""
        rows.append(
            (
                f"{name}{batch}{mark}",
                words.with_bounds(row.epoch_seconds),
                words.whole(row.throughput),
                words.with_bounds(row.speedup),
                words.percent(row.efficiency),
            )
        )
    return rows


def _row_name(row: ResultRow) -> str:
    if row.device != "cpu" and row.n_gpus is None:
        return row.model
    return _short(row.model, row.n_gpus or 0)


NUMBER_COLUMNS = ("run", "epoch s", "img/s", "speedup", "eff.")
