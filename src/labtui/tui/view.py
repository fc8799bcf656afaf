"""What the screens say, computed from a `Picture`: pure functions from state to rows and sentences.

Nothing here knows Textual, files or clocks (`Picture.now` is handed in).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from labtui.core.model import JobPhase, JobView, RunPhase, SubmissionStatus
from labtui.core.state import LabState, RunState, SubmissionState
from labtui.tui import format as words

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
    """The runs of the task, with the numbers of their configuration."""
    by_run = _rows_by_run(picture)
    return tuple(
        _run_row(picture, run, by_run.get(run.run_id)) for run in (picture.runs if runs is None else runs)
    )


def _rows_by_run(picture: Picture) -> dict[int, ResultRow]:
    if picture.results is None:
        return {}
    return {
        member.run_id: row
        for row in picture.results.rows
        for member in row.members
        if member.run_id is not None
    }


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
            _submission_sentences(submission)
            if submission.job is None
            else _job_sentences(submission, picture)
        )
    for found in run.diagnosis:
        lines.append(f"{found.advice} ({found.kind}, line {found.line} of the {found.stream})")
    return [line for line in lines if line]


def _submission_sentences(submission: SubmissionState) -> list[str]:
    text = " ".join(part for part in (submission.sentence, submission.hint) if part)
    if text:
        return [text]
    plain = {
        SubmissionStatus.WAITING: "In labtui's waiting line; it is sent as soon as the queue takes it.",
        SubmissionStatus.SENDING: "Being sent to Slurm.",
        SubmissionStatus.UNKNOWN: "Sent, but no answer came. labtui looks for the job and never sends twice.",
        SubmissionStatus.REFUSED: "Slurm refused it.",
        SubmissionStatus.WITHDRAWN: "Taken back before it was sent.",
    }
    return [plain[submission.status]] if submission.status in plain else []


def _job_sentences(submission: SubmissionState, picture: Picture) -> list[str]:
    job = submission.job
    if job is None:
        return []
    head = f"Job {job.job_id}"
    if job.phase is JobPhase.QUEUED:
        return _queued_words(submission, job, picture)
    if job.phase is JobPhase.RUNNING:
        return [_running_words(submission, _cluster_now(picture, job)), *_limit_words(picture, submission)]
    if job.phase is JobPhase.UNKNOWN:
        since = f" since {words.duration(picture.now - job.unknown_since)}" if job.unknown_since else ""
        return [f"{head}: unknown{since}. The cluster has not said what became of it."]
    if job.phase is JobPhase.SETTLING:
        return [f"{head} has left the queue; accounting has not spoken yet."]
    took = f" after {words.duration(job.elapsed_s)}" if job.elapsed_s else ""
    return [
        f"{head}: {job.slurm_state or 'ended'}{took}"
        + (f", exit code {job.exit_code}" if job.exit_code not in ("", "0:0") else "")
        + "."
        + _end_words(job.slurm_state)
    ]


def _end_words(state: str) -> str:
    """What a bad end means; a good one needs no words."""
    from labtui.core.slurm.states import FINISHED, plain_state

    word = plain_state(state)
    return f" It {FINISHED[word]}." if word in FINISHED and word != "COMPLETED" else ""


def _queued_words(submission: SubmissionState, job: JobView, picture: Picture) -> list[str]:
    runs = [picture.state.runs[number] for number in submission.run_ids if number in picture.state.runs]
    if runs and all(run.phase is RunPhase.DONE for run in runs):
        return [f"Job {job.job_id} is over: its log says so. The queue is asked again soon."]
    if any(run.epochs or run.phase in {RunPhase.STARTING, RunPhase.RUNNING} for run in runs):
        return [f"Job {job.job_id} runs: its log says so. The queue is asked again soon."]
    return [
        f"Job {job.job_id} is pending: {pending_reason(job.reason)}",
        _start_words(job.start_estimate, picture.now),
    ]


def pending_reason(reason: str) -> str:
    """Slurm's pending reason as a sentence, with its own word behind."""
    if not reason or reason == "None":
        return "Slurm has not said why yet."
    from labtui.core.slurm.reasons import explain_reason

    return f"{explain_reason(reason).rstrip('.')} ({reason})."


def _start_words(estimate: float | None, now: float) -> str:
    if estimate is None:
        return ""
    return (
        f"Slurm expects it to start in about {words.duration(estimate - now)}."
        if estimate > now
        else "It should start now."
    )


def _cluster_now(picture: Picture, job: JobView) -> float:
    """The present for a job that was last looked at a while ago: a rehearsal's clock goes faster than ours."""
    return job.seen_at + max(0.0, picture.now - job.seen_at) * (picture.factor or 1.0)


def _running_words(submission: SubmissionState, now: float) -> str:
    job = submission.job
    if job is None:
        return ""
    text = f"Job {job.job_id} runs" + (f" on {job.node}" if job.node else "")
    elapsed = job.elapsed_s
    if job.start_time is not None:
        elapsed = (
            max(elapsed or 0.0, now - job.start_time)
            if job.seen_at == 0
            else (elapsed or 0.0) + now - job.seen_at
        )
    if elapsed is not None:
        text += f" since {words.duration(elapsed)}"
        if job.time_limit_s:
            text += f" of at most {words.duration(job.time_limit_s)}"
            if submission.early_end_minutes * 60 == job.time_limit_s:
                text += " (your own limit)"
    return text + "."


def _limit_words(picture: Picture, submission: SubmissionState) -> list[str]:
    """Whether the time limit will come before the end, as far as the epochs so far can tell."""
    from labtui.core.forecast import limit_warning, running_run

    run = running_run(submission, picture.state.runs)
    row = _rows_by_run(picture).get(run.run_id) if run is not None else None
    if submission.job is None:
        return []
    warning = limit_warning(submission, picture.state.runs, row, _cluster_now(picture, submission.job))
    return [warning] if warning else []


def waiting_line(picture: Picture) -> str:
    """What waits in labtui's own line and why; empty when nothing does."""
    waiting = [each for each in picture.state.submissions.values() if each.status is SubmissionStatus.WAITING]
    if not waiting:
        return ""
    first = waiting[0]
    names = []
    for each in waiting:
        specs = [picture.state.runs[run_id].spec for run_id in each.run_ids if run_id in picture.state.runs]
        names.append(" + ".join(_short(spec.model, spec.n_gpus) for spec in specs) or each.job_name)
    why = first.sentence or (f"{first.qos} is busy" if first.qos else "waiting for its turn")
    return f"waiting line: {', '.join(names)} ({why.rstrip('.')})"


def _short(model: str, n_gpus: int) -> str:
    return f"{model} {n_gpus} GPU{'s' if n_gpus != 1 else ''}" if n_gpus else f"{model} CPU"


# ------------------------------------------------------------------ numbers beside charts and answers


def number_rows(picture: Picture, models: frozenset[str] | None = None) -> list[tuple[str, ...]]:
    """Configuration, epoch time, throughput, speedup, efficiency: one line per measured configuration."""
    rows: list[tuple[str, ...]] = []
    for row in picture.results.rows if picture.results is not None else ():
        if row.epoch_seconds is None or (models is not None and row.model not in models):
            continue
        if row.practice is not picture.practice:
            continue  # rehearsed and real numbers never stand in one table
        device = "CPU" if row.device == "cpu" else f"{row.n_gpus} GPU"
        mark = " ▶" if row.live else ""
        rows.append(
            (
                f"{row.model} {device}{mark}",
                words.with_bounds(row.epoch_seconds),
                words.whole(row.throughput),
                words.with_bounds(row.speedup),
                words.percent(row.efficiency),
            )
        )
    return rows


NUMBER_COLUMNS = ("run", "epoch s", "img/s", "speedup", "eff.")
