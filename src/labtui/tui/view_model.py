"""The session as the screens use it: one view state per repaint, computed only where something changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from labtui.domain.errors import LabError
from labtui.domain.events import LabState
from labtui.domain.model import RunPhase, Stream
from labtui.tui.view import ENDED_BADLY, ViewState, first_task

if TYPE_CHECKING:
    from labtui.domain.events import RunState, SubmissionState
    from labtui.lab.checks import TaskCheck
    from labtui.lab.edition import Edition
    from labtui.results.charts import ChartSpec
    from labtui.results.rows import Results
    from labtui.session.session import Session


STREAMS: tuple[Stream, ...] = ("out", "err")
DECKS = ("deck.pdf", "deck.pptx")
MOST_WATCHED = 8
"""Logs read several times a second at most; with more of them none would be."""
CHECKS_REST = 4
"""How many times as long as a look at the boxes the thread rests before the next one."""
OF_TASK = {
    "epoch-time", "throughput", "speedup", "efficiency", "cpu-gpu",
    "program-time", "program-speedup", "program-efficiency", "weak-time", "weak-efficiency",
}  # fmt: skip
"""The charts that stand beside a task and its questions."""
_OVER = {RunPhase.DONE, RunPhase.FAILED, RunPhase.CANCELLED}


class ViewModel:
    """Holds the session, what is selected, and what was computed last."""

    def __init__(
        self, session: Session, *, clock: Callable[[], float] = time.time, factor: float | None = None
    ) -> None:
        self.session = session
        self.clock = clock
        self.factor = factor
        self.state: LabState = session.state
        self.edition: Edition | None = None
        self.edition_problem: LabError | None = None
        self.loaded = False
        self.deck = ""
        self.checks: Mapping[str, TaskCheck] = {}
        self._results: tuple[object, Results | None] = (None, None)
        self._narrowed: tuple[object, str, Results | None] = (None, "", None)
        self._charts: tuple[object, tuple[ChartSpec, ...]] = (None, ())
        self._checking = threading.Lock()
        self._check_again = False
        self._checked_files: frozenset[tuple[str, int, int]] = frozenset()
        self.task_id = first_task(ViewState(state=self.state))
        self.hide_failed = False
        self.run_id = self._newest_run()
        self.marked: frozenset[int] = frozenset()

    def load_edition(self) -> None:
        """Read the lab's text. Done after the first paint: what is stored can be shown without it."""
        try:
            self.edition = self.session.edition
        except LabError as error:
            self.edition_problem = error
        self.loaded = True
        self._narrowed = (None, "", None)
        if self.edition is not None and self.edition.task(self.task_id) is None:
            self.choose_task(first_task(ViewState(state=self.state, edition=self.edition)))

    # ------------------------------------------------------------------ selecting

    def choose_task(self, task_id: str) -> None:
        """Another task; its newest run is selected."""
        self.task_id = task_id
        self.run_id = self._newest_run()
        self.marked = frozenset()

    def choose_run(self, run_id: int | None) -> None:
        """Another run of the task."""
        self.run_id = run_id

    def mark_run(self) -> None:
        """Mark the selected run for the next action, or take its mark away."""
        if self.run_id is not None:
            self.marked ^= {self.run_id}

    def toggle_failed(self) -> int:
        """Leave runs that failed or were cancelled out of the table, or show them again; how many there are."""
        failed = {
            run.run_id
            for run in self.state.runs.values()
            if run.task_id == self.task_id and run.phase in ENDED_BADLY
        }
        self.hide_failed = not self.hide_failed
        if self.hide_failed:
            self.marked -= failed
            if self.run_id in failed:
                self.run_id = self._newest_run()
        return len(failed)

    def _newest_run(self) -> int | None:
        """The run that trains now, else the next to start, else the last one."""
        runs = [run for run in self.state.runs.values() if run.task_id == self.task_id]
        if self.hide_failed:
            runs = [run for run in runs if run.phase not in ENDED_BADLY] or runs
        if live := [run.run_id for run in runs if run.phase in {RunPhase.RUNNING, RunPhase.STARTING}]:
            return max(live)
        if coming := [run.run_id for run in runs if run.phase in {RunPhase.QUEUED, RunPhase.WAITING}]:
            return min(coming)
        return max((run.run_id for run in runs), default=None)

    def arrived(self, state: LabState) -> None:
        self.state = state
        run = state.runs.get(self.run_id) if self.run_id is not None else None
        if run is None or run.task_id != self.task_id:
            self.run_id = self._newest_run()

    # ------------------------------------------------------------------ the view state

    def view_state(self) -> ViewState:
        """Everything one repaint needs, as of now."""
        settings, profile = self.session.settings, self.session.profile
        return ViewState(
            state=self.state,
            edition=self.edition,
            loading=not self.loaded,
            # Numbers come with the second view_state: what computes them need not be there for the first paint.
            results=self._results_now() if self.loaded else None,
            charts=self._charts_now() if self.loaded else (),
            checks=self.checks,
            task_id=self.task_id,
            run_id=self.run_id,
            cluster=profile.id,
            account=settings.account or profile.default_account,
            qos=settings.qos or profile.gpu_queue,
            practice=self.practice,
            factor=self.factor,
            read_only=self.session.read_only,
            gpu_hours=self._gpu_hours() if self.loaded else None,
            now=self.clock(),
            deck=self.deck,
            marked=self.marked,
            hide_failed=self.hide_failed,
        )

    @property
    def practice(self) -> bool:
        """Whether this lab folder belongs to a rehearsal."""
        return bool(self.session.settings.practice or self.session.profile.status == "practice")

    def _results_now(self) -> Results | None:
        if self._results[0] is not self.state.runs:
            results = None
            if any(run.epochs for run in self.state.runs.values()):
                from labtui.results.compute import compute_results
                from labtui.results.measured import measured_from_state

                images = self.edition.images if self.edition is not None else 50_000
                results = compute_results(measured_from_state(self.state), images=images)
            self._results = (self.state.runs, results)
        return self._results[1]

    def _charts_now(self) -> tuple[ChartSpec, ...]:
        results = self.task_results()
        if results is None:
            return ()
        if self._charts[0] is not results:
            from labtui.results.catalogue import catalogue

            self._charts = (results, tuple(chart for chart in catalogue(results) if chart.family in OF_TASK))
        return self._charts[1]

    def task_results(self) -> Results | None:
        """The results narrowed to the networks of the task on the screen; the same object until something changes."""
        results = self._results_now() if self.loaded else None
        if results is None:
            return None
        if self._narrowed[0] is not results or self._narrowed[1] != self.task_id:
            from labtui.results.rows import of_rows

            models = self.models()
            mine = tuple(row for row in results.rows if not models or row.model in models)
            # Small runs of a real lab are rehearsals too (marked so); they are drawn until there are real ones.
            rows = tuple(row for row in mine if row.practice is self.practice) or mine
            timed = tuple(row for row in results.programs if not models or row.program.name in models)
            timed = tuple(row for row in timed if row.practice is self.practice) or timed
            self._narrowed = (results, self.task_id, replace(of_rows(results, rows), programs=timed))
        return self._narrowed[2]

    def models(self) -> frozenset[str]:
        """The networks this task is about, by its plan and by its runs; empty means all."""
        task = self.edition.task(self.task_id) if self.edition is not None else None
        planned = {run.model for run in task.runs} if task is not None else set()
        made = {run.spec.model for run in self.state.runs.values() if run.task_id == self.task_id}
        return frozenset(planned | made)

    def _gpu_hours(self) -> float | None:
        if not any(submission.job for submission in self.state.submissions.values()):
            return None
        from labtui.results.cost import lab_cost

        return lab_cost(self.state, practice=self.practice).total.allocated

    def log_paths(self) -> dict[Stream, Path | None]:
        """The mirrors of the selected run's job."""
        run = self.state.runs.get(self.run_id) if self.run_id is not None else None
        if run is None:
            return dict.fromkeys(STREAMS)
        return {stream: self.session.log_path(run.token, stream) for stream in STREAMS}

    def tokens_on_screen(self) -> set[str]:
        """The submissions whose logs are worth reading often: the selected run's, and those of this task that live.

        The runs table and the charts show all runs of the task, so all their epochs should come promptly.
        """
        run = self.state.runs.get(self.run_id) if self.run_id is not None else None
        tokens = {run.token} if run is not None else set()
        tokens |= {self.state.runs[number].token for number in self.marked if number in self.state.runs}
        for each in self.state.runs.values():
            if each.task_id == self.task_id and each.phase not in _OVER and len(tokens) < MOST_WATCHED:
                tokens.add(each.token)
        return tokens

    def visible_log(self) -> tuple[str, Stream] | None:
        """The log that is read most often: the selected run's output."""
        run = self.state.runs.get(self.run_id) if self.run_id is not None else None
        return (run.token, "out") if run is not None else None

    # ------------------------------------------------------------------ checks, in a thread

    def check_later(self, done: Callable[[], None]) -> None:
        """Look at all tasks by evidence in a thread; `done` is called there when there is something new."""
        if self.edition is None:
            return
        if not self._checking.acquire(blocking=False):
            self._check_again = True
            return

        def look() -> None:
            try:
                while True:
                    self._check_again = False
                    began = time.perf_counter()
                    self._check_now()
                    done()
                    if not self._check_again:
                        return
                    # A log that streams asks again at once: most of the time is the screens'.
                    time.sleep(CHECKS_REST * (time.perf_counter() - began))
            except Exception as error:  # a check must never take the screen down
                _note_fault(self.session, error)
            finally:
                self._checking.release()

        threading.Thread(target=look, name="labtui-checks", daemon=True).start()

    def files_changed(self) -> bool:
        """Whether a script, an answer or a chart changed since the last checks, by whatever program."""
        from labtui.session.labs import files_stamp

        return bool(self.checks) and files_stamp(self.session.folder) != self._checked_files

    def _check_now(self) -> None:
        from labtui.session.labs import check_folder, files_stamp

        if self.edition is None:
            return
        self._checked_files = files_stamp(self.session.folder)
        self.deck = next((name for name in DECKS if (self.session.folder.path / name).is_file()), "")
        checks = check_folder(self.session.folder, self.edition, self.state)
        self.checks = {check.task_id: check for check in checks}


def checks_may_differ(old: LabState, new: LabState) -> bool:
    """Whether the boxes have to be looked at again; that a log grew is no reason, its epochs are."""
    if old.runs is not new.runs or len(old.submissions) != len(new.submissions):
        return True
    return old.submissions is not new.submissions and any(
        submission is not (before := old.submissions.get(token))
        and (before is None or _without_sizes(before) != _without_sizes(submission))
        for token, submission in new.submissions.items()
    )


def _without_sizes(submission: SubmissionState) -> SubmissionState:
    logs = {stream: replace(log, size=0) for stream, log in submission.logs.items()}
    return replace(submission, logs=logs)


def _note_fault(session: Session, error: Exception) -> None:
    session.faults.write(error)


LOOK_EVERY = 5.0
"""Seconds between two looks at the samplers' files."""


@dataclass(frozen=True, slots=True)
class _Job:
    token: str
    job_id: str
    models: frozenset[str]
    practice: bool


class Gallery:
    """The charts of a `ViewModel`; `changed` is called in a thread when a sampler's file brought something new."""

    def __init__(self, view_model: ViewModel, changed: Callable[[], None]) -> None:
        self._view_model = view_model
        self._changed = changed
        self._made: dict[str | None, tuple[ChartSpec, ...]] = {}
        self._made_of: Results | None = None
        self._sampled: dict[str, tuple[tuple[int, int], ChartSpec | None]] = {}
        self._reading = threading.Lock()
        self._looked = float("-inf")

    def networks(self) -> tuple[str, ...]:
        """The networks measured here, in the order of their runs."""
        from labtui.results.catalogue import networks

        results = self._results()
        return networks(results) if results is not None else ()

    def charts(self, network: str | None = None) -> tuple[ChartSpec, ...]:
        """The charts with something in them: of one network, or of all together, then those of the GPUs."""
        results = self._results()
        if results is None:
            return ()
        if network not in self._made:
            from labtui.results.catalogue import catalogue

            self._made[network] = catalogue(results, model=network)
        return (*self._made[network], *self._gpu_charts(network))

    def _results(self) -> Results | None:
        results = self._view_model.task_results()
        if self._made_of is not results:
            self._made_of, self._made = results, {}
        return results

    # ------------------------------------------------------------------ what the GPUs did

    def _jobs(self) -> list[_Job]:
        """The jobs of the task on the screen that have a GPU."""
        runs: dict[str, list[RunState]] = {}
        state = self._view_model.state
        for run in state.runs.values():
            if run.task_id == self._view_model.task_id and run.spec.n_gpus:
                runs.setdefault(run.token, []).append(run)
        jobs = []
        for token, members in runs.items():
            submission = state.submissions.get(token)
            if submission is not None and submission.job is not None:
                models = frozenset(run.spec.model for run in members)
                practice = any(run.practice for run in members) or submission.practice
                jobs.append(_Job(token, submission.job.job_id, models, practice))
        return jobs

    def _gpu_charts(self, network: str | None) -> list[ChartSpec]:
        jobs = self._jobs()
        self._look_later(jobs)
        shown = [job for job in jobs if network is None or network in job.models]
        found = (self._sampled.get(job.token, ((0, 0), None))[1] for job in shown)
        return [chart for chart in found if chart is not None]

    def _look_later(self, jobs: list[_Job]) -> None:
        if not jobs or time.monotonic() - self._looked < LOOK_EVERY:
            return
        if not self._reading.acquire(blocking=False):
            return
        self._looked = time.monotonic()

        def look() -> None:
            try:
                news = [self._read(self._view_model.session, job) for job in jobs]
                if any(news):
                    self._changed()
            except Exception as error:  # a sampler's file must never take the screen down
                self._view_model.session.faults.write(error)
            finally:
                self._reading.release()

        threading.Thread(target=look, name="labtui-gpu-samples", daemon=True).start()

    def _read(self, session: Session, job: _Job) -> bool:
        """Read a sampler's file if it grew; says whether there is a new chart."""
        from labtui.results.course_charts import job_gpu_chart
        from labtui.training_logs.gpu_sampler import read_samples

        path = session.log_path(job.token, "gpu")
        if path is None:
            return False
        try:
            known = path.stat()
            version = (known.st_size, known.st_mtime_ns)
            if self._sampled.get(job.token, (None, None))[0] == version:
                return False
            chart = job_gpu_chart(read_samples(path.read_bytes()).samples, job.job_id, practice=job.practice)
        except OSError:
            return False
        self._sampled[job.token] = (version, chart)
        return chart is not None
