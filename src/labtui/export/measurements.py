"""The runs of a lab folder or of some logs with what belongs to them.

The one place where `labtui results`, `plot` and `export` get their input, so that they cannot disagree. Reads the
lab folder beside whoever has it open; never changes it.
"""

import contextlib
import functools
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from labtui.domain.errors import LabError, NotWritable
from labtui.domain.state import LabState
from labtui.lab.edition import Edition
from labtui.results.compute import compute_results
from labtui.results.cost import LabCost, RunUtilization, lab_cost, run_utilization
from labtui.results.measured import MeasuredRun, measured_from_state
from labtui.results.numbers import clean
from labtui.results.rows import Results, of_rows, renamed
from labtui.results.serialize import accuracy_json, cost_json, results_json, utilization_json
from labtui.session.folder import LabFolder
from labtui.training_logs.gpu_sampler import GpuSample, read_samples


def stamp_of(results: Results) -> str:
    """Which state an export shows: when its last epoch ended, and a fingerprint of all numbers.

    Every file of one export carries it; the same state gives the same stamp. A practice cluster's clock runs ahead of
    the real one, so the time says whose it is.
    """
    ended = [
        s.ended_at
        for row in results.rows
        for run in row.members
        for s in run.run.epochs
        if s.ended_at is not None
    ]
    when = ""
    with contextlib.suppress(OverflowError, ValueError, OSError):  # a damaged time, or none
        when = f"last epoch {datetime.fromtimestamp(max(ended), UTC):%Y-%m-%d %H:%M} UTC"
    if when and any(run.practice for row in results.rows for run in row.members):
        when += " by the practice clock"
    text = json.dumps(results_json(results), sort_keys=True)
    state = f"state {hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return ", ".join(filter(None, (when, state)))


def without_small(results: Results) -> Results:
    """The results that the lab's charts show: small runs are left out where there are others."""
    rows = [row for row in results.rows if not row.small]
    return of_rows(results, rows) if rows and len(rows) < len(results.rows) else results


def small_notes(results: Results) -> list[str]:
    """Which rows the charts leave out, and why."""
    shown = without_small(results).rows
    left = [clean(row.configuration.label) for row in results.rows if row not in shown]
    return [f"{label} is a small run: not in the charts, not a result of the lab." for label in left]


SAMPLER_END = ".gpu.csv"


class Measurements(msgspec.Struct, frozen=True, dict=True):
    """What was read: the runs, and what belongs to them.

    `samples` are GPU samples by the log they lie beside; `cost` and `edition` are known in a lab folder only.
    `unread` is true when a file could not be read.
    """

    runs: tuple[MeasuredRun, ...] = ()
    samples: Mapping[str, tuple[GpuSample, ...]] = {}
    cost: LabCost | None = None
    edition: Edition | None = None
    unread: bool = False

    def results(self, images: int | None = None) -> Results:
        """The numbers; `images` per epoch go before the edition's, where a log does not say them."""
        usual = self.edition.images if self.edition is not None else None
        return compute_results(self.runs, images=images or usual, insist=images is not None)

    def named(self, results: Results) -> Results:
        """The results with the edition's names of its models, for people; JSON and CSV have the scripts' names."""
        return renamed(results, self.edition.names) if self.edition is not None else results

    @functools.cached_property
    def uses(self) -> tuple[RunUtilization, ...]:
        """What the GPUs did in each run whose job had a sampler."""
        found = (run_utilization(one, self.samples.get(one.source, ())) for one in self.runs)
        return tuple(use for use in found if use is not None)

    def json(self, results: Results) -> dict[str, Any]:
        """Everything `labtui results --json` says."""
        return results_json(results) | {
            "export": stamp_of(results),
            "accuracy": accuracy_json(results),
            "gpu_use": [utilization_json(use) for use in self.uses],
            **({} if self.cost is None else {"cost": cost_json(self.cost)}),
        }

    def json_text(self, results: Results) -> str:
        return json.dumps(self.json(results), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def beside(log: str) -> Path | None:
    """The GPU sampler's file of a job, which lies beside its log."""
    return Path(log.removesuffix(".out") + SAMPLER_END) if log.endswith(".out") else None


def samples_in(path: Path | None) -> tuple[GpuSample, ...]:
    """What the sampler wrote; nothing when there is no such file: GPU use is an addition, not the answer."""
    try:
        return read_samples(path.read_bytes()) if path is not None else ()
    except OSError:
        return ()


def measurements_of(folder: LabFolder, state: LabState | None = None) -> Measurements:
    """The runs of a lab folder; `state` when the caller has it, else as stored.

    Raises:
        StoreError: when the database cannot be read.
    """
    state = stored_state(folder) if state is None else state
    runs = measured_from_state(state)
    sources = {one.source for one in runs if one.source}
    return Measurements(
        runs=runs,
        samples={source: samples_in(_own(folder, beside(source))) for source in sources},
        cost=lab_cost(state),
        edition=_edition_of(folder),
    )


def _own(folder: LabFolder, path: Path | None) -> Path | None:
    return folder.path / path if path is not None and folder.has(path) else None


def stored_state(folder: LabFolder) -> LabState:
    """The state as the lab folder's database has it; empty without one."""
    from labtui.session.mirrors import state_of
    from labtui.session.opening import copied_state
    from labtui.session.settings import check_trust
    from labtui.session.store import Store

    if not folder.database_path.exists() or check_trust(folder.path):
        return copied_state(folder)
    try:
        store = Store(folder.database_path, read_only=True)
    except NotWritable:  # SQLite reads beside a writer only where it can make a file
        return copied_state(folder)
    try:
        return state_of(folder, store)
    finally:
        store.close()


def _edition_of(folder: LabFolder) -> Edition | None:
    """The folder's edition; None when it cannot be read (other commands say why)."""
    from labtui.session.labs import load_edition

    try:
        return load_edition(folder.settings().edition, folder)
    except LabError:
        return None
