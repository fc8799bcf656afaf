"""`View`: what all widgets show at one moment. Phases and causes are decided here and nowhere else.

Pure: no Textual, files or clocks. Header, task list, runs, next step and charts read them from its lines.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from labtui.domain.model import JobPhase, JobView, RunPhase, SubmissionStatus
from labtui.domain.run import MARKS
from labtui.domain.state import LEFT_QUEUE, LIVE, OPEN, PENDING, TRAINING, LabState, ended_by, run_phase
from labtui.tui import format as words

if TYPE_CHECKING:
    from labtui.domain.profile import Profile
    from labtui.domain.state import RunState, SubmissionState
    from labtui.lab.checks import CheckItem, Progress, TaskCheck
    from labtui.lab.edition import Edition, Task
    from labtui.results.charts import ChartSpec
    from labtui.results.rows import ResultRow, Results
    from labtui.session.session import Session

SMALL = MARKS["small"]
"""Why the numbers of a small run of a real cluster do not count."""
FRESH_S = 60.0
"""For how many seconds a state counts as current that another process read, or that a job had before it ended."""
JOB_ENDS = {"FAILED": "its job failed", "TIMEOUT": "its job timed out"}
"""How a job ended whose runs are done."""
WITHOUT_JOB = {RunPhase.FAILED: "refused", RunPhase.CANCELLED: "withdrawn", RunPhase.UNKNOWN: "no answer yet"}
"""Why a run whose submission has no job is in a phase."""
ENDED_BADLY = frozenset({RunPhase.FAILED, RunPhase.CANCELLED})


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """A run as every widget shows it.

    `cause` says why it failed, was cancelled or is unknown; `not_counted` why its numbers do not count, "" if they do.
    `left_s` is the cluster's time to its end, `took_s` the time since it began, or that it took, in seconds; None if
    unknown; `to_limit`: by then its limit ends it. `share` is how much of it is done (0 to 1).
    """

    run: RunState  # with the phase and the outcome as Slurm or the log reports them
    submission: SubmissionState | None
    cause: str = ""
    not_counted: str = ""
    row: ResultRow | None = None
    share: float = 0.0
    left_s: float | None = None
    to_limit: bool = False
    took_s: float | None = None

    @property
    def cancelling(self) -> bool:
        """Whether the student cancelled the run and it has not ended yet."""
        return (self.live or self.ending) and self.submission is not None and self.submission.cancelling

    @property
    def ending(self) -> bool:
        """Whether its job is over, but not yet read how it ended; or it is done, but its job is not over."""
        if self.job is None or self.submission is None:
            return False
        if self.phase is RunPhase.DONE:
            return self.job.phase is JobPhase.RUNNING and self.submission.run_ids[-1] == self.run_id
        return self.job.phase in LEFT_QUEUE and self.phase in TRAINING

    @property
    def run_id(self) -> int:
        return self.run.run_id

    @property
    def phase(self) -> RunPhase:
        return self.run.phase

    @property
    def shown_phase(self) -> RunPhase:
        """The phase whose sign and colour it has: until its job is over, it runs."""
        return RunPhase.RUNNING if self.ending else self.phase

    @property
    def live(self) -> bool:
        return self.phase in LIVE

    @property
    def job(self) -> JobView | None:
        """Its job, which other runs may share; None if Slurm has none."""
        return self.submission.job if self.submission is not None else None

    @property
    def cancellable(self) -> bool:
        """Whether its job may still exist and is not being cancelled; also the job of a last run that is done."""
        lost = self.phase is RunPhase.UNKNOWN and self.submission is not None and not self.submission.over
        return lost or ((self.live or self.ending) and not self.cancelling)

    @property
    def sign(self) -> str:
        return words.PHASE_GLYPHS[self.shown_phase]

    @property
    def word(self) -> str:
        """The state in words: ``running``, ``failed: out of memory``, ``unknown since 14:02``."""
        if self.cancelling or self.ending:
            return "cancelling" if self.cancelling else "ending"
        mark = ":" if self.phase in ENDED_BADLY else "," if self.phase is RunPhase.DONE else ""
        cause = "" if self.cause == self.phase.value else self.cause
        return f"{self.phase.value}{mark} {cause}" if cause else self.phase.value


class TaskLine(msgspec.Struct, frozen=True, kw_only=True):
    """A task in the list. `live` is the latest phase among its runs in progress, or how a run ended badly.

    `status` is "" until the tasks have been checked.
    """

    task_id: str
    title: str
    status: str
    live: RunPhase | None = None
    text: str = ""  # its state where `live` does not say all: ``waiting (held)``, ``runs done``

    @property
    def sign(self) -> str:
        shown = "done" if self.status == "done" else self.live or self.status  # also while one more run goes
        return (words.PHASE_GLYPHS | words.TASK_GLYPHS).get(shown, words.NOTHING)

    @property
    def role(self) -> str:
        return words.PHASE_ROLES.get("done" if self.status == "done" else self.live or self.status, "")

    @property
    def word(self) -> str:
        return self.text or (self.live and self.live.value) or words.TASK_WORDS.get(self.status, self.status)


class Count(msgspec.Struct, frozen=True):
    """`done` of `of` conditions (0: of no number) are met, besides `stale` ones, which a later change made doubtful."""

    done: int
    of: int
    stale: int = 0

    @property
    def full(self) -> bool:
        return 0 < self.of == self.done

    def __str__(self) -> str:
        return f"{self.done}/{self.of}" if self.of else str(self.done or "")


class View(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything one repaint needs. The keys of `checks` are task ids.

    `by_line` has for each line that can be chosen a function that makes its charts; with one line only it is empty.
    """

    state: LabState
    edition: Edition | None = None
    loading: bool = False
    results: Results | None = None  # of the current task's runs
    charts: tuple[ChartSpec, ...] = ()
    by_line: Mapping[str, Callable[[], tuple[ChartSpec, ...]]] = {}
    checks: Mapping[str, TaskCheck] = {}
    unchecked_from: float = math.inf  # runs from this number on came after the checks
    task_id: str = ""
    chosen: int | None = None  # the run that the student chose or reads
    practice: bool = False
    factor: float | None = None  # how many times faster than real time a practice cluster's clock runs
    read_only: bool = False
    profile: Profile | None = None
    now: float = 0.0
    deck: str = ""  # the exported deck in the lab folder
    deck_old: bool = False  # whether an answer, or the log of a run that has ended, is newer than it
    exporting: str = ""  # the progress of the export under way

    @classmethod
    def of(cls, session: Session, **more: Any) -> View:
        """The view of a session's current state; `more` are further fields."""
        known = {name: getattr(session, name) for name in ("state", "practice", "read_only", "profile")}
        return cls(**{"now": session.clock.wall(), **known, **more})

    @cached_property
    def runs(self) -> Mapping[int, RunLine]:
        """All runs of the lab, by number."""
        rows: dict[int | None, ResultRow] = {}
        left_out: dict[int | None, str] = {}
        if self.results is not None:
            from labtui.results.compute import own_rows

            rows = {run.run_id: row for run, row in own_rows(self.results)}
            rows |= {run.run_id: row for row in self.results.programs for run in row.members}
            left_out = {each.run.run_id: each.reason for each in self.results.left_out}
        runs = self.state.runs.items()
        return {at: _line_of(self, run, rows.get(at), left_out.get(at, "")) for at, run in runs}

    @cached_property
    def shown_state(self) -> LabState:
        """The state with its runs as all parts of a screen show them, for checks of the tasks."""
        return replace(self.state, runs={at: line.run for at, line in self.runs.items()})

    @cached_property
    def task(self) -> Task | None:
        return self.edition.task(self.task_id) if self.edition is not None else None

    @cached_property
    def lines(self) -> tuple[RunLine, ...]:
        """The runs of the current task, in the order of their numbers."""
        numbers = sorted(run.run_id for run in runs_of(self.state, self.edition, self.task_id))
        return tuple(self.runs[number] for number in numbers)

    @cached_property
    def charted(self) -> tuple[ResultRow, ...]:
        """The rows for charts and sentences: in a practice lab those with a mark, elsewhere those without."""
        every = (*self.results.rows, *self.results.programs) if self.results is not None else ()
        return tuple(row for row in every if bool(row.mark) is self.practice)

    @cached_property
    def run_id(self) -> int | None:
        """The selected run: the chosen one, else what trains or starts next, else a failed one that is still needed.

        Otherwise it is the first one that is done, if the last one is: the table begins with it. Else it is the last
        one; a failure or what it kept from starting only if the task has no other.
        """
        lines, runs = self.lines, [line.run for line in self.lines]
        began = {run.run_id for run in runs if ended_by(run, runs) is None}
        told = [line.run_id for line in lines if line.run_id == self.chosen]
        for phases in (TRAINING, LIVE):  # as in the state, be they unknown by now
            told = told or [run.run_id for run in runs if self.state.runs[run.run_id].phase in phases]
        needed = self.failures(self.task_id, lines) if self.task_id and self.checks else ()
        failed = [line.run_id for line in needed if line.phase is RunPhase.FAILED]
        if told := told or [number for number in failed if number in began]:
            return min(told)
        full = self.count("runs").full
        told = [run.run_id for run in runs if not (full and run.phase in ENDED_BADLY)]
        last = max(began.intersection(told) or told or [run.run_id for run in runs], default=None)
        done = [run.run_id for run in runs if run.phase is RunPhase.DONE]
        return min(done) if self.task_id and last in done else last

    @property
    def line(self) -> RunLine | None:
        """The selected run."""
        return self.runs.get(self.run_id) if self.run_id is not None else None

    @property
    def run_to_read(self) -> int | None:
        """The run whose log to open: the selected one, or between two runs the last that has begun."""
        begun = [line.run_id for line in self.lines if line.run.started and line.run.task_id == self.task_id]
        waits = self.line is not None and self.line.phase in PENDING
        return max(begun, default=self.run_id) if waits else self.run_id

    @property
    def pending(self) -> tuple[RunLine, ...]:
        """The current task's runs that have not ended, as far as is known."""
        return tuple(line for line in self.lines if line.phase in OPEN)

    @property
    def check(self) -> TaskCheck | None:
        return self.checks.get(self.task_id)

    @property
    def items(self) -> tuple[CheckItem, ...]:
        """The conditions of the current task; () until it has been checked."""
        return self.check.items if self.check is not None else ()

    @cached_property
    def tasks(self) -> tuple[TaskLine, ...]:
        """The task list: the edition's tasks, then own jobs without a task; without an edition, the tasks with runs."""
        mine = defaultdict[str, list[RunLine]](list)
        for line in self.runs.values():
            mine[line.run.task_id].append(line)
        if self.edition is None:
            found = () if self.loading else mine.items()  # before their titles are known, none
            return tuple(self._task_line(name, "", lines) for name, lines in found)
        titles = {task.id: task.title for task in self.edition.tasks} | ({"": "Own jobs"} if mine[""] else {})
        return tuple(self._task_line(task_id, title, mine[task_id]) for task_id, title in titles.items())

    def _task_line(self, task_id: str, title: str, lines: list[RunLine]) -> TaskLine:
        unchecked = self.loading or (self.edition is not None and not self.checks)
        status = self.checks[task_id].status if task_id in self.checks else "" if unchecked else "open"
        task = self.edition.task(task_id) if self.edition is not None else None
        if status == "open" and task is not None and not task.runs and self.count("runs", task_id).done:
            status = "partial"  # some of the runs that it compares are done
        phases = {line.phase for line in lines}
        live = max(phases.intersection(LIVE), key=LIVE.index, default=None)
        mine = [line for line in lines if (line.phase is live if live else line.ending)]
        live = live or (RunPhase.RUNNING if mine else None)
        if live in PENDING and RunPhase.UNKNOWN in phases:
            live = RunPhase.UNKNOWN  # it may run
        last = max(lines, key=lambda line: line.run_id, default=None)
        if live is None and last is not None and last.phase is RunPhase.UNKNOWN:
            live = RunPhase.UNKNOWN
        elif live is None and status != "done":
            needed, asked = self.failures(task_id, lines), self.state.cancelled_as_asked
            bad = {line.phase for line in needed if line is last or not (task is None or asked(line.run))}
            live = RunPhase.FAILED if RunPhase.FAILED in bad else next(iter(bad), None)
        alike = {line.word for line in mine if live in LIVE}
        said = alike.pop() if len(alike) == 1 else ""
        if live is None and status in ("open", "partial"):
            runs = self.count("runs", task_id)
            none = task is not None and task.runs and not lines and not runs.done
            said = f"{runs.done} of {runs.of} runs" if runs.done else "no run yet" if none else ""
            said = "runs done" if runs.full else said
            status = status if task is not None else "done"  # no task asks for more
        return TaskLine(task_id=task_id, title=title, status=status, live=live, text=said)

    @property
    def cannot_run(self) -> str:
        """Why this cluster can run nothing of the current task: it has no GPUs; "" if it can."""
        planned = [run.spec.n_gpus for run in self.task.runs] if self.task is not None else []
        return self.profile.without_gpus if self.profile is not None and planned and all(planned) else ""

    def without_gpus(self, line: RunLine) -> str:
        """Why a run with GPUs cannot go on this cluster; "" if it may."""
        return self.profile.without_gpus if self.profile is not None and line.run.used.n_gpus else ""

    def failures(self, task_id: str, lines: Iterable[RunLine]) -> tuple[RunLine, ...]:
        """For each planned size without a finished run, the last run if it ended badly; () if nothing is needed."""
        task = self.edition.task(task_id) if self.edition is not None else None
        planned = {(each.spec.model, each.spec.n_gpus) for each in task.runs} if task is not None else set()
        mine = [one for one in lines if not planned or (one.run.spec.model, one.run.spec.n_gpus) in planned]

        def key(run: RunState) -> object:
            sent = self.state.submissions.get(run.token)
            return task.key_of(run.spec) if task is not None else (sent and sent.job_file, run.spec.label)

        last = {key(line.run): line for line in mine}
        asked = task.own_runs_check.outcomes if task is not None else ()
        done = {key(line.run) for line in mine if line.run.outcome in asked}
        left = (line for of, line in last.items() if of not in done and not self.state.never_counts(line.run))
        state = self.shown_state
        bad = (line for line in left if line.phase in ENDED_BADLY and not state.made_good_by(line.run))
        return () if self.count("runs", task_id).full else tuple(sorted(bad, key=lambda line: line.run_id))

    @property
    def task_line(self) -> TaskLine | None:
        return next((row for row in self.tasks if row.task_id == self.task_id), None)

    def count(self, kind: str, task_id: str | None = None) -> Count:
        """How many of a task's conditions of a kind ("runs", "charts", "answers") are met."""
        check = self.checks.get(self.task_id if task_id is None else task_id)
        items = [item for item in check.items if item.kind == kind] if check is not None else []
        return Count(sum(i.met and not i.stale for i in items), len(items), sum(i.stale for i in items))

    @property
    def progress(self) -> Progress | None:
        """The progress over all tasks, as in `labtui check`; None until the tasks have been checked."""
        if not self.checks or self.edition is None:
            return None
        from labtui.lab.checks import progress

        return progress(self.edition, tuple(self.checks.values()))


NO_VIEW = View(state=LabState(), loading=True)
"""The view before anything was read."""


def runs_of(state: LabState, edition: Edition | None, task_id: str) -> tuple[RunState, ...]:
    """The runs that a task shows; without an edition, those made for it."""
    task = edition.task(task_id) if edition is not None else None
    if edition is None or task is None:
        return tuple(run for run in state.runs.values() if run.task_id == task_id)
    from labtui.lab import run_choice

    return run_choice.compared_runs(edition, task, state)


def planned_sizes(task: Task | None) -> set[int]:
    """The numbers of GPUs, or of processes, of the runs that a task plans."""
    specs = [run.spec for run in task.runs] if task is not None else []
    return {spec.n_gpus or spec.processes for spec in specs} - {0}


def _with_cause(view: View, run: RunState, submission: SubmissionState | None) -> tuple[RunState, str]:
    """The run with its phase, and the cause: by its log, else by its job's end, else by the last poll if recent."""
    state, job = view.state, submission.job if submission is not None else None
    over = job is not None and job.phase in LEFT_QUEUE
    held = "(held)" if submission is not None and submission.held else ""
    if submission is not None and over and run.outcome is None:
        from labtui.session.run_matcher import with_slurm_outcome

        run = with_slurm_outcome(state, run)
        run = replace(run, phase=run_phase(submission, run, first_open=True))
    if run.outcome is not None:
        mine = [state.runs[number].outcome for number in submission.run_ids] if submission is not None else []
        said = JOB_ENDS.get(job.slurm_state, "") if job is not None and {*mine} == {"completed"} else ""
        return run, run.cause if run.phase in ENDED_BADLY else said
    from labtui.domain.state import UNKNOWN_AFTER_S

    if over and job is not None:  # the end of its log tells how it ended
        late = state.connection.lost or view.now - (job.unknown_since or job.seen_at) >= FRESH_S
        return (replace(run, phase=RunPhase.UNKNOWN), "(log not read)") if late else (run, "")
    if submission is not None and submission.status is SubmissionStatus.SENDING and submission.sentence:
        return run, "(checking)"  # a refusal, which the sentence tells
    if submission is not None and submission.status is not SubmissionStatus.ACCEPTED:
        return run, WITHOUT_JOB.get(run.phase, held)
    seen_at = max(job.seen_at if job is not None else 0.0, state.refreshed_at or 0.0)
    recent = view.now - FRESH_S
    known_from = recent if view.read_only else min(state.connection.since - UNKNOWN_AFTER_S, recent)
    cut_s = view.now - (state.connection.since or seen_at) if state.connection.lost else 0.0
    # what was known stays until the first answer of a new connection; the header says how old it is
    connects = not state.connection.lost and abs(view.now - state.connection.since) < UNKNOWN_AFTER_S
    heard = connects or (cut_s < UNKNOWN_AFTER_S and (job is None or seen_at >= known_from))
    if run.phase is RunPhase.UNKNOWN or (run.phase in LIVE and not heard):
        since = (job.unknown_since if job is not None else None) or seen_at
        said = f"since {words.clock(since)}" if since else "until connected"
        if heard and job is not None and not job.unknown_since:  # a word of Slurm's that labtui does not know
            said = f"state {job.slurm_state}"
        return replace(run, phase=RunPhase.UNKNOWN), said
    return run, held if run.phase is RunPhase.QUEUED else ""


def _line_of(view: View, run: RunState, row: ResultRow | None, left_out: str) -> RunLine:
    submission = view.state.submissions.get(run.token)
    run, cause = _with_cause(view, run, submission)
    line = RunLine(run=run, submission=submission, cause=cause, row=row)
    left, most, late = words.time_left(line, view)
    took, limited = words.time_taken(line, view), left is not None and most <= left
    left = most if limited else left
    done = run.epochs_read / run.spec.epochs if run.spec.epochs and "epochs" not in run.spec.unknown else 0.0
    if left is not None and took:
        done = (took - late) / (took - late + left)
    left = None if late and not limited else left
    timed = replace(line, left_s=left, to_limit=limited, took_s=took, share=min(1.0, done))
    return replace(timed, not_counted=_not_counted(view, line, left_out))


def _not_counted(view: View, line: RunLine, left_out: str) -> str:
    """Why a run's numbers do not count; "" if they do."""
    submission, row = line.submission, line.row
    if submission is not None and submission.practice is not view.practice:
        return "practice run" if submission.practice else "real run in a practice lab"
    if line.live:
        return "so far" if line.run.epochs else line.phase.value
    if line.phase is not RunPhase.DONE:
        return line.cause or line.phase.value
    if row is not None and bool(row.mark) is not view.practice:
        return SMALL
    return left_out or ("" if row is not None or view.loading else "its log has no epoch that counts")
