"""The session as the screens use it: one `View` per repaint, with results computed only when something changed."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labtui.cluster.local_files import files_inside, reader_inside, stat_inside
from labtui.domain.model import RunPhase
from labtui.domain.state import OPEN, TRAINING, LabState, RunState
from labtui.tui.guidance import sizes_of, unit_of
from labtui.tui.view import ENDED_BADLY, TaskLine, View, planned_sizes, runs_of

if TYPE_CHECKING:
    from labtui.lab.checks import TaskCheck
    from labtui.lab.edition import Edition, Task
    from labtui.results.charts import ChartSpec
    from labtui.session.session import Session


SHOWN = ("state", "edition", "checks", "unchecked_from", "task_id", "factor", "deck", "deck_old", "exporting")
"""The fields of a view that the model has, too."""
MAX_WATCHED = 8
"""The most logs to read several times a second; with more, none could be."""

ABOUT_VIEWS = {
    "Time": "how long an epoch takes, by the number of GPUs",
    "Throughput": "images or tokens per second, by the number of GPUs",
    "Speedup": "times one GPU; o draws Amdahl's and Gustafson's law",
    "Efficiency": "per GPU; again: why it falls (labtui why)",
    "Training": "loss and accuracy by epoch",
}
VIEWS = {title.lower(): title for title in ABOUT_VIEWS}
"""The views of the charts pane, by name, and their titles."""


def first_task(view: View) -> str:
    """The task to begin with: that of a run that trains or is unknown, of the newest run, or the first not done."""
    newest = max(view.state.runs.values(), key=lambda run: run.run_id, default=None)

    def rank(row: TaskLine) -> tuple[bool, bool, bool]:
        of_newest = newest is not None and row.task_id == newest.task_id
        return row.live not in (*TRAINING, RunPhase.UNKNOWN), not of_newest, row.status == "done"

    return min(view.tasks, key=rank).task_id if view.tasks else ""


class ViewModel:
    """Holds the session, the selected task and run, and the last computed results."""

    def __init__(self, session: Session, *, factor: float | None = None) -> None:
        self.session = session
        self.factor = factor
        self.state: LabState = session.state
        self.edition: Edition | None = None
        self.loaded = False
        self.deck, self.deck_old, self.unchecked_from = "", False, math.inf
        self.own_jobs = False  # whether the student has a job file of their own
        self.exporting = ""  # the progress of the export under way
        self.checks: Mapping[str, TaskCheck] = {}
        self._cached: tuple[object, dict[str, Any]] = (None, {})
        self._evidence: tuple[object, ...] = ()  # of the last checks
        self.chosen: int | None = None  # the run that the student chose
        self._last: RunState | None = None  # the run shown last, as it was
        self.reading: int | None = None  # the run whose log is open: it stays, whichever run trains next
        self._begun: int | None = None  # the last run of its job that had begun
        self.follows = True  # whether the end of that log is shown
        last = self.state.choices  # the task chosen last, unless a run was submitted since
        kept = last.get("task") if last.get("run") == str(max(self.state.runs, default=0)) else None
        self.task_id = first_task(View.of(session)) if kept is None else kept

    def load_edition(self) -> None:
        """Read the edition; after the first paint, since what is stored can be shown without it. Raises LabError."""
        self.loaded = True
        self.edition = self.session.edition
        if self.edition.task(self.task_id) is None:
            self.choose_task(first_task(View.of(self.session, edition=self.edition)))

    def choose_task(self, task_id: str) -> None:
        """Select another task, and whichever of its runs trains."""
        self.task_id, self.chosen, self.reading, self._last = task_id, None, None, None
        self.session.keep_choice(task=task_id, run=str(max(self.state.runs, default=0)))

    def view(self) -> View:
        """Everything one repaint needs, as of now. A run that fails while it is shown stays selected, or ends as last.

        A log whose end is followed goes on to the next run that begins in its job, whose lines come.
        """
        runs, last = self.state.runs, self._last
        read = runs.get(self.reading or 0)
        same = (run for run in runs.values() if read is not None and run.token == read.token)
        begun = max((run.run_id for run in same if run.started), default=None)
        if self.follows or self.reading != self._begun:
            self.reading, self._begun = begun if self.reading == self._begun else self.reading, begun
        if last is not None and self.chosen is None and last.phase not in ENDED_BADLY:
            now = runs.get(last.run_id, last)
            rest = runs_of(self.state, self.edition, self.task_id) if now.phase != last.phase else ()
            stays = now.phase is RunPhase.FAILED or (rest and not any(run.phase in OPEN for run in rest))
            self.chosen = last.run_id if stays else None
        # The results come with the second view: the first paint need not wait for their modules.
        view = View.of(
            self.session,
            loading=not self.loaded,
            chosen=self.reading if self.chosen is None else self.chosen,
            **{name: getattr(self, name) for name in SHOWN},
            **self._numbers(),
        )
        self._last = runs.get(view.run_id or 0)
        return view

    def _numbers(self) -> dict[str, Any]:
        """The results and charts of the task's runs and of those they are compared with, cached until a run changes.

        Each is pooled with its repeats in other tasks, as in `labtui results` and on the slides.

        Empty until a run of the task has been measured.
        """
        mine = runs_of(self.state, self.edition, self.task_id)
        if not self.loaded or not any(run.epochs or run.throughput for run in mine):
            return {}
        from labtui.slurm.states import told_outcome

        # a job's end that Slurm told ends its runs before their logs are read
        ends = [told_outcome(each.job) for each in self.state.submissions.values()]
        key = self.task_id, tuple(self.state.runs.values()), ends
        if self._cached[0] != key:
            from labtui.lab.run_choice import rows_with_runs
            from labtui.results.catalogue import by_line, catalogue
            from labtui.results.charts import with_sizes
            from labtui.results.rows import rename_models
            from labtui.session.labs import lab_results

            names = self.edition.names if self.edition is not None else {}
            results = rename_models(rows_with_runs(lab_results(self.state, self.edition), mine), names)
            task = self.edition.task(self.task_id) if self.edition is not None else None
            sizes = planned_sizes(task)
            marked = self.session.practice
            charts = (with_sizes(c, sizes) for c in catalogue(results) if bool(c.mark) is marked)
            alone = by_line(results, marked=marked, sizes=sizes)
            self._cached = key, {"results": results, "charts": tuple(in_turn(task, charts)), "by_line": alone}
        return self._cached[1]

    def gpu_use(self, run: RunState) -> tuple[float, ...]:
        """The utilization of a run's GPUs at the last moments of its training, as fractions of 1; () while unknown."""
        path, moment = self.session.log_path(run.token, "gpu"), int(time.monotonic() / SAMPLES_EVERY_S)
        ends = [epoch.ended_at for epoch in run.epochs[:: max(1, len(run.epochs) - 1)]]
        if path is None or not ends or ends[0] is None or ends[-1] is None:
            return ()
        began = ends[0] - run.epochs[0].seconds.value, ends[-1]
        return gpu_load(self.session.folder.path, path, run.spec.n_gpus, began, moment)

    def watch_logs(self, view: View) -> None:
        """Have the logs of the task's active runs read often, the selected run's output most often.

        The runs table and the charts show all runs of the task, so the epochs of all should arrive promptly.
        """
        shown = [line.run.token for line in (view.line,) if line is not None]
        runs = [view.state.runs[line.run_id] for line in view.lines]  # with phases as in their logs
        living = [run.token for run in runs if run.phase in OPEN]
        self.session.watch_logs({*living[:MAX_WATCHED], *shown}, (shown[0], "out") if shown else None)

    def check_tasks(self, state: LabState) -> bool:
        """In a thread: check all tasks if a run, a job, a remote path or a file has changed; return whether one had."""
        from labtui.lab.edition import DECKS
        from labtui.session import labs, own_jobs

        folder, edition = self.session.folder, self.edition
        state = View.of(self.session, state=state, edition=edition).shown_state
        # a log that only grows is not evidence
        jobs = [(each.status, each.job) for each in state.submissions.values()]
        names = {path.name for path in folder.path.glob("[!.]*") if ".db" not in path.name}
        report = edition is not None and edition.hand_in.form == "report"
        # one is enough; slides do for a report, too
        files = (["report.pdf"] if report else []) + sorted(DECKS.values())
        deck = next((name for name in files if name in names), "")
        made = stat_inside(folder.path, deck) if deck else None
        over = (run.token for run in state.runs.values() if run.outcome is not None)
        logs = (path for token in over if (path := self.session.log_path(token, "out")) is not None)
        paths = (*files_inside(folder.path, folder.answers), *logs)
        times = [each.st_mtime for path in paths if (each := stat_inside(folder.path, path)) is not None]
        old = made is not None and max(times, default=0.0) > made.st_mtime
        evidence = (edition, state.runs, jobs, state.paths, names, old, labs.files_stamp(folder))
        if edition is None or evidence == self._evidence:
            return False
        self._evidence, self.deck, self.deck_old = evidence, deck, old
        self.own_jobs = bool(own_jobs.job_files(folder))
        self.checks = {check.task_id: check for check in labs.check_folder(folder, edition, state)}
        self.unchecked_from = 1 + max(state.runs, default=0)
        return True


SAMPLES_EVERY_S = 5.0
"""Seconds between two reads of a file of GPU samples."""
TAIL_BYTES = 8192


@lru_cache(maxsize=1)
def gpu_load(
    root: Path, path: Path, n_gpus: int, began: tuple[float, float], moment: int
) -> tuple[float, ...]:
    """The mean utilization of the first `n_gpus` GPUs (0: all) at each of the last moments of a file of GPU samples.

    `began` is when the training and its current epoch began (UNIX seconds): moments before the first are left out, and
    () is returned if none is of the current epoch. `moment` only keys the cache: a value reads the file once.
    """
    from labtui.training_logs.gpu_sampler import read_samples

    try:
        with reader_inside(root, path) as file:
            head = file.readline()
            file.seek(max(len(head), file.seek(0, 2) - TAIL_BYTES))
            samples = read_samples(head + file.read())
    except OSError:
        return ()
    moments: dict[float, list[float]] = {}
    for sample in samples:
        if sample.at >= began[0] and sample.utilization is not None and (not n_gpus or sample.index < n_gpus):
            moments.setdefault(sample.at, []).append(sample.utilization)
    if max(moments, default=0.0) < began[1]:
        return ()
    return tuple(sum(each) / len(each) for _, each in sorted(moments.items()))


def first_view(view: View, charts: Sequence[ChartSpec]) -> str:
    """The view to show first: what the task asks for, best the speedup; if no run is pending, one that has data."""
    from labtui.results.charts import FAMILIES

    usual = "speedup" if len(sizes_of(view)) > 1 else "time" if unit_of(view) == "images" else "throughput"
    asked = {str(FAMILIES[family].view) for family in asked_families(view.task)} or {usual}
    order = sorted(VIEWS, key=lambda name: (name not in asked, name != "speedup"))
    shown = {chart.view for chart in charts if chart.measured}
    return order[0] if view.pending or not shown else min(shown, key=order.index)


def can_fill(view: View, name: str) -> bool:
    """Whether the task's runs, or further own jobs, may have points in a view: those on the CPU have only times."""
    return name in ("time", "training") or len(sizes_of(view)) > (view.task is not None)


def first_chart(view: View, charts: Sequence[ChartSpec]) -> ChartSpec | None:
    """The chart to show first; None while it has no data."""
    return next((each for each in in_turn(view.task, charts) if each.view == first_view(view, charts)), None)


def asked_families(task: Task | None) -> set[str]:
    """The families of charts that a task's checks ask for, else that of its first question about a chart."""
    checks, questions = (task.checks, task.questions) if task is not None else ((), ())
    asked = {family for each in checks for family in getattr(each, "charts", ())}
    return asked or {*[each.chart for each in questions if each.chart][:1]}


def in_turn(task: Task | None, charts: Iterable[ChartSpec]) -> list[ChartSpec]:
    """The charts that have data, those that a task asks for first."""
    return sorted((c for c in charts if c.measured), key=lambda c: c.family not in asked_families(task))
