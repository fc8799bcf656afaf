"""What the screens say, computed from a `ViewState`: pure functions from state to rows and sentences.

Nothing here knows Textual, files or clocks (`ViewState.now` is handed in).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from labtui.domain.events import LabState, RunState, SubmissionState
from labtui.domain.model import Program, RunPhase, SubmissionStatus
from labtui.tui import format as words
from labtui.tui.format import NO_LINE, job_sentences, submission_sentences

if TYPE_CHECKING:
    from labtui.lab.checks import TaskCheck
    from labtui.lab.edition import Edition, Task
    from labtui.results.charts import ChartSpec
    from labtui.results.rows import ResultRow, Results

LIVE_ORDER = ("", "waiting", "queued", "running")
LIVE_WORDS = {
    RunPhase.WAITING: "waiting",
    RunPhase.QUEUED: "queued",
    RunPhase.STARTING: "running",
    RunPhase.RUNNING: "running",
}
ENDED_BADLY = frozenset({RunPhase.FAILED, RunPhase.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewState:
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
    deck: str = ""  # the exported deck in the lab folder
    marked: frozenset[int] = frozenset()  # runs that the next action is for, all of them
    hide_failed: bool = False  # the runs table leaves out those that failed or were cancelled

    @property
    def task(self) -> Task | None:
        return self.edition.task(self.task_id) if self.edition is not None else None

    @property
    def rows_by_run(self) -> dict[int, ResultRow]:
        """The numbers of each run, by itself."""
        from labtui.results.compute import own_rows

        rows = own_rows(self.results) if self.results is not None else ()
        return {run.run_id: row for run, row in rows if run.run_id is not None}

    @property
    def runs(self) -> tuple[RunState, ...]:
        """The runs of the task on the screen, in the order of their numbers."""
        return tuple(run for _, run in sorted(self.state.runs.items()) if run.task_id == self.task_id)

    @property
    def shown_runs(self) -> tuple[RunState, ...]:
        """The runs of the task that the table has."""
        return tuple(run for run in self.runs if not (self.hide_failed and run.phase in ENDED_BADLY))

    @property
    def meant(self) -> tuple[RunState, ...]:
        """The runs that an action is for: those that are marked, else the selected one."""
        marked = tuple(run for run in self.runs if run.run_id in self.marked)
        return marked or ((self.run,) if self.run is not None else ())

    @property
    def run(self) -> RunState | None:
        return self.state.runs.get(self.run_id) if self.run_id is not None else None

    def submission_of(self, run: RunState) -> SubmissionState | None:
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


def task_rows(view_state: ViewState) -> tuple[TaskRow, ...]:
    """The tasks in the edition's order; without an edition, those that have runs."""
    live: dict[str, str] = {}
    for run in view_state.state.runs.values():
        if word := LIVE_WORDS.get(run.phase):
            live[run.task_id] = max(word, live.get(run.task_id, ""), key=LIVE_ORDER.index)
    if view_state.edition is None:
        names = dict.fromkeys(run.task_id for run in view_state.state.runs.values())
        return tuple(TaskRow(name, "", "open", live.get(name, "")) for name in names)
    return tuple(
        TaskRow(task.id, task.title, _status(view_state, task.id), live.get(task.id, ""))
        for task in view_state.edition.tasks
    )


def _status(view_state: ViewState, task_id: str) -> str:
    check = view_state.checks.get(task_id)
    return check.status if check is not None else "open"


def progress(view_state: ViewState) -> tuple[int, int] | None:
    """Tasks done, and tasks there are; None while the tasks have not been checked."""
    if not view_state.checks:
        return None
    rows = task_rows(view_state)
    return sum(1 for row in rows if row.status == "done"), len(rows)


def first_task(view_state: ViewState) -> str:
    """Where to begin: the task of a live run, of the newest run, else the first that is not done."""
    rows = task_rows(view_state)
    newest = max(view_state.state.runs.values(), key=lambda run: run.run_id, default=None)
    for wanted in (
        [row for row in rows if row.live == "running"],
        [row for row in rows if newest is not None and row.task_id == newest.task_id],
        [row for row in rows if row.status != "done"],
        rows[:1],
    ):
        if wanted:
            return wanted[0].task_id
    return ""


# ------------------------------------------------------------------ progress


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a running run is: epochs done and planned, seconds left in the cluster's time (None: not known)."""

    run_id: int
    name: str
    done: int
    epochs: int
    seconds_left: float | None

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.done / self.epochs if self.epochs else 0.0


def live_progress(view_state: ViewState) -> tuple[RunProgress, ...]:
    """The runs of the task that train now."""
    from labtui.results.pace import remaining_seconds

    rows = view_state.rows_by_run
    shown = []
    for run in view_state.runs:
        if run.phase is RunPhase.RUNNING and not words.ended_unread(run, view_state.submission_of(run)):
            left = remaining_seconds(run.spec.epochs, len(run.epochs), rows.get(run.run_id))
            name = _short(run.spec.model, run.spec.n_gpus)
            if run.spec.program is not None:
                name = f"{run.spec.model} {run.spec.program.counted(run.spec.processes)}"
            seconds = left.value if left is not None else None
            shown.append(RunProgress(run.run_id, name, len(run.epochs), run.spec.epochs, seconds))
    return tuple(shown)


def task_progress(view_state: ViewState) -> tuple[float, float]:
    """Epochs trained and epochs there are to train, over the task's planned runs and those under way."""
    task = view_state.task
    wanted: dict[tuple[str, int, int, str], int] = {}
    for plan in task.runs if task is not None else ():
        gpus = 0 if plan.device == "cpu" else plan.gpus
        wanted[plan.model, gpus, plan.processes, plan.size] = plan.epochs
    done: dict[tuple[str, int, int, str], int] = {}
    for run in view_state.runs:
        key = (run.spec.model, run.spec.n_gpus, run.spec.processes, run.spec.size)
        if run.phase in LIVE_WORDS or run.phase is RunPhase.DONE:
            wanted[key] = run.spec.epochs
            done[key] = max(done.get(key, 0), len(run.epochs))
    return float(sum(min(done.get(key, 0), epochs) for key, epochs in wanted.items())), float(
        sum(wanted.values())
    )


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


def run_rows(view_state: ViewState, runs: tuple[RunState, ...] | None = None) -> tuple[RunRow, ...]:
    """The runs of the task, with the numbers of their configuration where they have a part in them."""
    by_run = {
        run_id: row
        for run_id, row in view_state.rows_by_run.items()
        if row.epoch_seconds is None or any(origin.run_id == run_id for origin in row.origins)
    }
    return tuple(
        _run_row(view_state, run, by_run.get(run.run_id))
        for run in (view_state.shown_runs if runs is None else runs)
    )


def _program_row(view_state: ViewState, run: RunState, program: Program) -> RunRow:
    """A program's run: its time in the program's unit, and the ratios of its kind of scaling."""
    timed = view_state.results.programs if view_state.results is not None else ()
    row = next((each for each in timed if run.run_id in each.run_ids), None)
    share = None if row is None else row.weak_efficiency or row.efficiency
    return RunRow(
        run.run_id,
        run.phase,
        str(run.run_id),
        program.name,
        str(run.spec.processes),
        run.spec.size,
        "",
        ("* " if run.run_id in view_state.marked else "") + _mark(view_state, run) + _state(view_state, run),
        words.NOTHING if row is None else f"{row.shown.value:,.2f} {program.shown_in}",
        "",
        words.ratio(row.speedup if row else None),
        words.percent(share),
    )


def _run_row(view_state: ViewState, run: RunState, row: ResultRow | None) -> RunRow:
    spec = run.spec
    if spec.program is not None:
        return _program_row(view_state, run, spec.program)
    return RunRow(
        run.run_id,
        run.phase,
        str(run.run_id),
        spec.model,
        str(spec.n_gpus) if spec.device == "gpu" else "CPU",
        f"{spec.batch_size}",
        f"{spec.per_gpu_batch}" if spec.device == "gpu" else words.NOTHING,
        ("* " if run.run_id in view_state.marked else "") + _mark(view_state, run) + _state(view_state, run),
        words.epoch_time(row),
        words.whole(row.throughput if row else None),
        words.ratio(row.speedup if row else None),
        words.percent(row.efficiency if row else None),
    )


def glance_chart(view_state: ViewState) -> ChartSpec | None:
    """What the runs show by now: scaling, else CPU against GPU where the task is about one GPU, else epoch times."""
    several = any(run.spec.n_gpus > 1 for run in view_state.runs)
    timed = ("speedup", "program-speedup", "weak-efficiency", "program-time")
    kinds = (*timed, "epoch-time") if several else (*timed, "cpu-gpu", "epoch-time")
    found = (chart for kind in kinds for chart in view_state.charts if chart.family == kind)
    return next((chart for chart in found if not chart.empty), None)


def timed_only(view_state: ViewState) -> bool:
    """Whether all runs of the task are a program's, which have a time and no epochs."""
    return bool(view_state.runs) and all(run.spec.program is not None for run in view_state.runs)


def last_line(view_state: ViewState, run: RunState | None) -> int | None:
    """The 1-based line at which a run ended, where a later run of its job wrote below it; else None."""
    if run is None or run.outcome is None or not run.epochs:
        return None
    later = (
        other.run_id > run.run_id and other.token == run.token and other.started
        for other in view_state.state.runs.values()
    )
    return run.epochs[-1].line if any(later) else None


def _state(view_state: ViewState, run: RunState) -> str:
    """The run's state; while the connection is lost nobody knows it, so it says what was seen last."""
    if connection_lost(view_state) and run.phase in LIVE_WORDS and run.phase is not RunPhase.WAITING:
        seen = f"epoch {len(run.epochs)}" if run.epochs else LIVE_WORDS[run.phase]
        return f"? last: {seen}"
    return words.run_label(run, view_state.submission_of(run))


def _mark(view_state: ViewState, run: RunState) -> str:
    """A rehearsed run in a real lab's folder, or the other way round, says so; first, where no column cuts it."""
    submission = view_state.submission_of(run)
    if submission is None or submission.practice is view_state.practice:
        return ""
    return "practice " if submission.practice else "real "


def run_detail(view_state: ViewState, run: RunState) -> list[str]:
    """Sentences about the selected run: where its job stands and why, what its log explains."""
    submission = view_state.submission_of(run)
    lines: list[str] = []
    if submission is not None:
        lines += (
            submission_sentences(submission, view_state.state)
            if submission.job is None
            else job_sentences(submission, submission.job, view_state)
        )
    lines.append(_beyond_one_gpu(view_state.rows_by_run.get(run.run_id)))
    for found in run.diagnosis:
        advice = _limit_advice(view_state, run) if found.kind == "time-limit" else found.advice
        stream = "standard error" if found.stream == "err" else "the output"
        lines.append(f"{advice} (line {found.line} of {stream})")
    return [line for line in lines if line]


def _beyond_one_gpu(row: ResultRow | None) -> str:
    """What more GPUs cost in each step; "" where that is not known, or nothing."""
    share = row.step_share_beyond_one_gpu if row is not None else None
    if share is None or share.value <= 0:
        return ""
    low, high = (f"{100 * bound:.0f}" for bound in (share.lo, share.hi))
    bounds = f" ({low} to {high} %)" if low != high else ""
    much = f"{words.percent(share)} of a step{bounds}"
    return f"{much} is time that one GPU does not need (communication, waiting)."


def _limit_advice(view_state: ViewState, run: RunState) -> str:
    """How much time a run lacked, where its pace is known, and the key that gives it more."""
    from labtui.results.pace import remaining_seconds

    again = "R plans it again with twice the time."
    rest = remaining_seconds(run.spec.epochs, len(run.epochs), view_state.rows_by_run.get(run.run_id))
    if rest is None or "epochs" in run.spec.unknown:
        return f"The time limit was too short. {again}"
    return (
        f"The {run.spec.epochs - len(run.epochs)} missing epochs need {words.duration(rest.hi)} more. {again}"
    )


def connection_lost(view_state: ViewState) -> bool:
    """Whether what is shown is older than the connection's end."""
    connection = view_state.state.connection
    return connection.status in NO_LINE and bool(connection.sentence or connection.status == "needs-login")


def lost_sentence(view_state: ViewState) -> str:
    """The banner while the connection is lost and something is under way, or a login was refused; "" otherwise."""
    connection = view_state.state.connection
    if connection.status == "needs-login":
        return f"{connection.sentence or 'Not logged in.'} Press u to be asked again."
    live = any(run.phase in LIVE_WORDS for run in view_state.state.runs.values())
    if not live or not connection_lost(view_state):
        return ""
    at = view_state.state.refreshed_at
    seen = f": what you see is {words.duration(view_state.now - at)} old" if at is not None else ""
    return f"Not connected{seen}. Jobs continue without labtui. Press u to connect."


def tab_badges(view_state: ViewState) -> dict[str, str]:
    """What stands beside the names of the tabs: how many runs are under way, how many questions have no answer."""
    badges: dict[str, str] = {}
    live = sum(run.phase in LIVE_WORDS for run in view_state.runs)
    if live:
        badges["runs"] = f"▶{live}"
    check = view_state.checks.get(view_state.task_id)
    unanswered = sum(item.kind == "answers" and not item.met for item in check.items) if check else 0
    if unanswered:
        badges["answers"] = f"○{unanswered}"
    return badges


def queued_here(view_state: ViewState) -> str:
    """What waits in labtui's own line and why; empty when nothing does."""
    waiting = [
        each for each in view_state.state.submissions.values() if each.status is SubmissionStatus.WAITING
    ]
    if not waiting or view_state.loading:
        return ""
    from labtui.slurm.job_evidence import live

    first = waiting[0]
    names = []
    for each in waiting:
        specs = [
            view_state.state.runs[run_id].spec for run_id in each.run_ids if run_id in view_state.state.runs
        ]
        names.append(" + ".join(_short(spec.model, spec.n_gpus) for spec in specs) or each.job_name)
    if view_state.state.connection.status in NO_LINE:
        why = "no connection"
    elif first.sentence:
        why = first.sentence
    else:
        taken = any(each.qos == first.qos for each in live(view_state.state))
        why = f"{first.qos} is busy" if taken else "waiting for a free slot"
    return f"submission queue: {', '.join(names)} ({why.rstrip('.')})"


def _short(model: str, n_gpus: int) -> str:
    return f"{model} {n_gpus} GPU{'s' if n_gpus != 1 else ''}" if n_gpus else f"{model} CPU"


# ------------------------------------------------------------------ what it cost


def spent_words(view_state: ViewState) -> str:
    """What the jobs of the task on the screen have cost so far, as `labtui queue` says it; "" when nothing ran."""
    mine = any(
        each.job and each.task_id == view_state.task_id for each in view_state.state.submissions.values()
    )
    if not mine:
        return ""
    from labtui.results.cost import lab_cost

    cost = lab_cost(view_state.state, practice=view_state.practice).tasks.get(view_state.task_id)
    if cost is None or not (cost.allocated or cost.core_hours):
        return ""
    hours = f"{cost.allocated:.2f} GPU-hours allocated, {cost.used:.2f} trained"
    if not cost.allocated:
        hours = f"{cost.core_hours:.2f} core-hours allocated, no GPU"
    return f"Used by this task{' (practice)' if view_state.practice else ''}: {hours}"


# ------------------------------------------------------------------ numbers beside charts and answers


def number_rows(view_state: ViewState, models: frozenset[str] | None = None) -> list[tuple[str, ...]]:
    """Configuration, epoch time, throughput, speedup, efficiency: one line per measured configuration."""
    shown = [
        row
        for row in (view_state.results.rows if view_state.results is not None else ())
        if row.epoch_seconds is not None
        and (models is None or row.model in models)
        and row.practice is view_state.practice  # rehearsed and real numbers never stand in one table
    ]
    names = Counter(_row_name(row) for row in shown)
    rows: list[tuple[str, ...]] = []
    for timed in view_state.results.programs if view_state.results is not None else ():
        if timed.practice is view_state.practice and (models is None or timed.program.name in models):
            time = f"{timed.shown.value:,.2f} {timed.program.shown_in}"
            share = words.percent(timed.weak_efficiency or timed.efficiency)
            name = f"{timed.series} {timed.program.counted(timed.processes)}"
            rows.append((name, time, words.NOTHING, words.ratio(timed.speedup), share))
    for row in shown:
        name = _row_name(row)
        batch = f", batch {row.batch_size:,}" if names[name] > 1 and row.batch_size else ""
        mark = " ▶" if row.live else ""
        rows.append(
            (
                f"{name}{batch}{mark}",
                words.epoch_time(row),
                words.whole(row.throughput),
                words.speedup(row, shown),
                words.percent(row.efficiency),
            )
        )
    return rows


def _row_name(row: ResultRow) -> str:
    if row.device != "cpu" and row.n_gpus is None:
        return row.model
    return _short(row.model, row.n_gpus or 0)


NUMBER_COLUMNS = ("run", "epoch s", "img/s", "speedup", "eff.")
