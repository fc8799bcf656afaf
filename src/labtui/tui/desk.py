"""The session as the screens use it: one picture per repaint, computed only where something changed.

Numbers and charts are computed again when epochs or runs changed, checks (which read the student's files) in a thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labtui.core.model import RunPhase, Stream
from labtui.core.state import LabState
from labtui.errors import LabError
from labtui.tui.view import Picture, first_task

if TYPE_CHECKING:
    from labtui.core.charts import ChartSpec
    from labtui.core.lab.checks import TaskCheck
    from labtui.core.lab.edition import Edition
    from labtui.core.results import Results

STREAMS: tuple[Stream, ...] = ("out", "err")
MOST_WATCHED = 8
"""Logs read several times a second at most; with more of them none would be."""

_OVER = {RunPhase.DONE, RunPhase.FAILED, RunPhase.CANCELLED}


class Desk:
    """Holds the session, what is selected, and what was computed last."""

    def __init__(
        self, session: Any, *, clock: Callable[[], float] = time.time, factor: float | None = None
    ) -> None:
        self.session = session
        self.clock = clock
        self.factor = factor
        self.state: LabState = session.state
        self.edition: Edition | None = None
        self.edition_problem: LabError | None = None
        self.loaded = False
        self.checks: Mapping[str, TaskCheck] = {}
        self._results: tuple[object, Results | None] = (None, None)
        self._narrowed: tuple[object, str, Results | None] = (None, "", None)
        self._charts: tuple[object, tuple[ChartSpec, ...]] = (None, ())
        self._checking = threading.Lock()
        self._check_again = False
        self.task_id = first_task(Picture(state=self.state))
        self.run_id = self._newest_run()

    def load_edition(self) -> None:
        """Read the lab's text. Done after the first paint: what is stored can be shown without it."""
        try:
            self.edition = self.session.edition
        except LabError as error:
            self.edition_problem = error
        self.loaded = True
        self._narrowed = (None, "", None)
        if self.edition is not None and self.edition.task(self.task_id) is None:
            self.choose_task(first_task(Picture(state=self.state, edition=self.edition)))

    # ------------------------------------------------------------------ selecting

    def choose_task(self, task_id: str) -> None:
        """Another task; its newest run is selected."""
        self.task_id = task_id
        self.run_id = self._newest_run()

    def choose_run(self, run_id: int | None) -> None:
        """Another run of the task."""
        self.run_id = run_id

    def _newest_run(self) -> int | None:
        """The run that trains now, else the next to start, else the last one."""
        runs = [run for run in self.state.runs.values() if run.task_id == self.task_id]
        if live := [run.run_id for run in runs if run.phase in {RunPhase.RUNNING, RunPhase.STARTING}]:
            return max(live)
        if coming := [run.run_id for run in runs if run.phase in {RunPhase.QUEUED, RunPhase.WAITING}]:
            return min(coming)
        return max((run.run_id for run in runs), default=None)

    def arrived(self, state: LabState) -> None:
        """A newer state."""
        self.state = state
        run = state.runs.get(self.run_id) if self.run_id is not None else None
        if run is None or run.task_id != self.task_id:
            self.run_id = self._newest_run()

    # ------------------------------------------------------------------ the picture

    def picture(self) -> Picture:
        """Everything one repaint needs, as of now."""
        settings, profile = self.session.settings, self.session.profile
        return Picture(
            state=self.state,
            edition=self.edition,
            loading=not self.loaded,
            # Numbers come with the second picture: what computes them need not be there for the first paint.
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
            gpu_hours=self._gpu_hours(),
            now=self.clock(),
        )

    @property
    def practice(self) -> bool:
        """Whether this lab folder belongs to a rehearsal."""
        return bool(self.session.settings.practice or self.session.profile.status == "practice")

    def _results_now(self) -> Results | None:
        if self._results[0] is not self.state.runs:
            results = None
            if any(run.epochs for run in self.state.runs.values()):
                from labtui.core.results import compute_results, measured_from_state

                images = self.edition.images if self.edition is not None else 50_000
                results = compute_results(measured_from_state(self.state), images=images)
            self._results = (self.state.runs, results)
        return self._results[1]

    def _charts_now(self) -> tuple[ChartSpec, ...]:
        results = self.task_results()
        if results is None:
            return ()
        if self._charts[0] is not results:
            from labtui.core.results.charts import task_charts

            self._charts = (results, task_charts(results))
        return self._charts[1]

    def task_results(self) -> Results | None:
        """The results narrowed to the networks of the task on the screen; the same object until something changes."""
        results = self._results_now() if self.loaded else None
        if results is None:
            return None
        if self._narrowed[0] is not results or self._narrowed[1] != self.task_id:
            from labtui.core.results.rows import of_rows

            models = self.models()
            mine = tuple(row for row in results.rows if not models or row.model in models)
            # Small runs of a real lab are rehearsals too (marked so); they are drawn until there are real ones.
            rows = tuple(row for row in mine if row.practice is self.practice) or mine
            self._narrowed = (results, self.task_id, of_rows(results, rows))
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
        from labtui.core.cost import lab_cost

        return lab_cost(self.state, now=self.clock(), practice=self.practice).total.allocated

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
        for each in self.state.runs.values():
            if each.task_id == self.task_id and each.phase not in _OVER and len(tokens) < MOST_WATCHED:
                tokens.add(each.token)
        return tokens

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
                    self._check_now()
                    done()
                    if not self._check_again:
                        return
            except Exception as error:  # a check must never take the screen down
                _note_fault(self.session, error)
            finally:
                self._checking.release()

        threading.Thread(target=look, name="labtui-checks", daemon=True).start()

    def _check_now(self) -> None:
        from labtui.engine.labs import check_folder

        if self.edition is None:
            return
        checks = check_folder(self.session.folder, self.edition, self.state)
        self.checks = {check.task_id: check for check in checks}


def _note_fault(session: Any, error: Exception) -> None:
    session.faults.write(error)
