"""The session as the screens use it: one `View` per repaint, computed only where something changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from labtui.domain.errors import LabError
from labtui.domain.model import RunPhase, Stream
from labtui.domain.state import LabState
from labtui.tui.view import ENDED_BADLY, TRAINING, View, first_task, make_view, scope_of

if TYPE_CHECKING:
    from labtui.domain.state import RunState, SubmissionState
    from labtui.lab.checks import TaskCheck
    from labtui.lab.edition import Edition
    from labtui.results.charts import ChartSpec
    from labtui.results.rows import Results
    from labtui.session.session import Session


STREAMS: tuple[Stream, ...] = ("out", "err")
DECKS = ("deck.pdf", "deck.pptx")
MAX_WATCHED = 8
"""Logs read several times a second at most; with more of them none would be."""
CHECKS_REST = 4
"""How many times as long as a look at the boxes the thread rests before the next one."""
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
        self._results: tuple[tuple[object, ...], Results | None] = ((), None)
        self._charts: tuple[object, tuple[ChartSpec, ...]] = (None, ())
        self._checking = threading.Lock()
        self._check_again = False
        self._checked_files: frozenset[tuple[str, int, int]] = frozenset()
        self.marked: frozenset[int] = frozenset()
        self.hide_failed = False
        self._by_hand = False  # whether the student chose the run: else the one that trains is shown
        self.task_id = first_task(self._decided())
        self.run_id = self._newest_run()

    def _decided(self) -> View:
        return make_view(View(state=self.state, edition=self.edition, now=self.clock()))

    def load_edition(self) -> None:
        """Read the lab's text. Done after the first paint: what is stored can be shown without it."""
        try:
            self.edition = self.session.edition
        except LabError as error:
            self.edition_problem = error
        self.loaded = True
        if self.edition is not None and self.edition.task(self.task_id) is None:
            self.choose_task(first_task(self._decided()))

    # ------------------------------------------------------------------ selecting

    def choose_task(self, task_id: str) -> None:
        """Another task; its newest run is selected."""
        self.task_id = task_id
        self._by_hand = False
        self.run_id = self._newest_run()
        self.marked = frozenset()

    def choose_run(self, run_id: int | None) -> None:
        self.run_id, self._by_hand = run_id, True

    def mark_run(self) -> None:
        """Mark the selected run for the next action, or take its mark away."""
        if self.run_id is not None:
            self.marked ^= {self.run_id}

    def toggle_failed(self) -> int:
        """Leave runs that failed or were cancelled out of the table, or show them again; how many there are."""
        failed = {run.run_id for run in self._mine() if run.phase in ENDED_BADLY}
        self.hide_failed = not self.hide_failed
        if self.hide_failed:
            self.marked -= failed
            if self.run_id in failed:
                self.run_id = self._newest_run()
        return len(failed)

    def _mine(self) -> list[RunState]:
        """The runs of the task on the screen."""
        task = self.edition.task(self.task_id) if self.edition is not None else None
        scope = scope_of(task, self.task_id)
        return [run for run in self.state.runs.values() if run.task_id in scope]

    def _newest_run(self) -> int | None:
        """The run that trains now, else the next to start, else the last one."""
        runs = self._mine()
        if self.hide_failed:
            runs = [run for run in runs if run.phase not in ENDED_BADLY] or runs
        if live := [run.run_id for run in runs if run.phase in TRAINING]:
            return max(live)
        if coming := [run.run_id for run in runs if run.phase in {RunPhase.QUEUED, RunPhase.WAITING}]:
            return min(coming)
        return max((run.run_id for run in runs), default=None)

    def arrived(self, state: LabState) -> None:
        self.state = state
        if not self._by_hand or self.run_id not in {run.run_id for run in self._mine()}:
            self.run_id = self._newest_run()

    # ------------------------------------------------------------------ the view

    def view(self) -> View:
        """Everything one repaint needs, as of now."""
        # Numbers come with the second view: what computes them need not be there for the first paint.
        return make_view(
            View(
                state=self.state,
                edition=self.edition,
                loading=not self.loaded,
                results=self.task_results(),
                charts=self._charts_now(),
                checks=self.checks,
                task_id=self.task_id,
                run_id=self.run_id,
                practice=self.practice,
                factor=self.factor,
                read_only=self.session.read_only,
                gpu_hours=self._gpu_hours() if self.loaded else None,
                now=self.clock(),
                deck=self.deck,
                marked=self.marked,
                hide_failed=self.hide_failed,
            )
        )

    @property
    def practice(self) -> bool:
        """Whether this lab folder belongs to a rehearsal."""
        return bool(self.session.settings.practice or self.session.profile.status == "practice")

    def task_results(self) -> Results | None:
        """The numbers of the task's own runs; the same object until something changes."""
        if not self.loaded:
            return None
        mine = tuple(self._mine())
        if self._results[0] != mine:
            results = None
            if any(run.epochs or run.totals for run in mine):
                from labtui.results.compute import compute_results
                from labtui.results.measured import measured_from_state

                images = self.edition.images if self.edition is not None else 50_000
                state = replace(self.state, runs={run.run_id: run for run in mine})
                results = compute_results(measured_from_state(state), images=images)
            self._results = (mine, results)
        return self._results[1]

    def _charts_now(self) -> tuple[ChartSpec, ...]:
        results = self.task_results()
        if results is None:
            return ()
        if self._charts[0] is not results:
            from labtui.results.catalogue import catalogue

            charts = tuple(chart for chart in catalogue(results) if chart.practice is self.practice)
            self._charts = (results, charts)
        return self._charts[1]

    def _gpu_hours(self) -> float | None:
        """What the lab has used; None where no job of it has a GPU."""
        if not any(each.job and each.gpus for each in self.state.submissions.values()):
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
        for each in self._mine():
            if each.phase not in _OVER and len(tokens) < MAX_WATCHED:
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
                self.session.faults.write(error)
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


LOOK_EVERY_S = 5.0
"""Seconds between two looks at the samplers' files."""


class GpuUse:
    """How busy the GPUs of a job were, as its sampler wrote down; `changed` is called in a thread on news."""

    def __init__(self, session: Session, changed: Callable[[], None]) -> None:
        self._session, self._changed = session, changed
        self._known: dict[str, tuple[tuple[int, int], tuple[float, ...]]] = {}
        self._reading = threading.Lock()
        self._looked = float("-inf")

    def of(self, token: str) -> tuple[float, ...]:
        """Fractions of 1, averaged over the GPUs, moment by moment; empty while nothing is known."""
        due = time.monotonic() - self._looked >= LOOK_EVERY_S
        if due and self._reading.acquire(blocking=False):
            self._looked = time.monotonic()
            threading.Thread(target=self._look, args=(token,), name="labtui-gpu-samples", daemon=True).start()
        return self._known.get(token, ((0, 0), ()))[1]

    def _look(self, token: str) -> None:
        try:
            if self._read(token):
                self._changed()
        except Exception as error:  # a sampler's file must never take the screen down
            self._session.faults.write(error)
        finally:
            self._reading.release()

    def _read(self, token: str) -> bool:
        from labtui.training_logs.gpu_sampler import read_samples

        path = self._session.log_path(token, "gpu")
        try:
            known = self._session.folder.status(path) if path is not None else None
            if path is None or known is None:
                return False
            version = (known.st_size, known.st_mtime_ns)
            if self._known.get(token, ((0, 0), ()))[0] == version:
                return False
            samples = read_samples(self._session.folder.read(path)).samples
        except OSError:
            return False
        moments: dict[float, list[float]] = {}
        for sample in samples:
            if sample.utilization is not None:
                moments.setdefault(sample.at, []).append(sample.utilization)
        self._known[token] = version, tuple(sum(each) / len(each) for _, each in sorted(moments.items()))
        return True
