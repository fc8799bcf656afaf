"""All charts of the task on the screen, made when the charts pane is shown and something changed; never before.

GPU utilisation comes from files beside the logs; they are read in a thread, and only when they grew.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labtui.core.charts import ChartSpec
from labtui.core.results.gallery import gallery, job_gpu_chart, networks
from labtui.core.sampler import read_samples

if TYPE_CHECKING:
    from labtui.core.results import Results
    from labtui.tui.desk import Desk

LOOK_EVERY = 5.0
"""Seconds between two looks at the samplers' files."""


@dataclass(frozen=True, slots=True)
class _Job:
    token: str
    job_id: str
    models: frozenset[str]
    practice: bool


class Gallery:
    """The charts of a `Desk`; `changed` is called in a thread when a sampler's file brought something new."""

    def __init__(self, desk: Desk, changed: Callable[[], None]) -> None:
        self._desk = desk
        self._changed = changed
        self._made: dict[str | None, tuple[ChartSpec, ...]] = {}
        self._made_of: Results | None = None
        self._sampled: dict[str, tuple[tuple[int, int], ChartSpec | None]] = {}
        self._reading = threading.Lock()
        self._looked = float("-inf")

    def networks(self) -> tuple[str, ...]:
        """The networks measured here, in the order of their runs."""
        results = self._results()
        return networks(results) if results is not None else ()

    def charts(self, network: str | None = None) -> tuple[ChartSpec, ...]:
        """The charts with something in them: of one network, or of all together, then those of the GPUs."""
        results = self._results()
        if results is None:
            return ()
        if network not in self._made:
            self._made[network] = gallery(results, model=network)
        return (*self._made[network], *self._gpu_charts(network))

    def _results(self) -> Results | None:
        results = self._desk.task_results()
        if self._made_of is not results:
            self._made_of, self._made = results, {}
        return results

    # ------------------------------------------------------------------ what the GPUs did

    def _jobs(self) -> list[_Job]:
        """The jobs of the task on the screen that have a GPU."""
        state, runs = self._desk.state, {}
        for run in state.runs.values():
            if run.task_id == self._desk.task_id and run.spec.n_gpus:
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
                news = [self._read(self._desk.session, job) for job in jobs]
                if any(news):
                    self._changed()
            except Exception as error:  # a sampler's file must never take the screen down
                self._desk.session.faults.write(error)
            finally:
                self._reading.release()

        threading.Thread(target=look, name="labtui-gpu-samples", daemon=True).start()

    def _read(self, session: Any, job: _Job) -> bool:
        """Read a sampler's file if it grew; says whether there is a new chart."""
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
