"""What numbers are made of: the runs of a lab folder or of some logs, and what belongs to them.

The one place where `labtui results`, `plot` and `export` get their input, so that they cannot disagree. Reads the
lab folder beside whoever has it open; never changes it.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labtui.core.state import LabState
from labtui.errors import LabError

if TYPE_CHECKING:
    from labtui.core.cost import LabCost
    from labtui.core.results import MeasuredRun, Results
    from labtui.core.results.targets import TargetPlan
    from labtui.core.results.utilization import RunUtilization
    from labtui.core.sampler import GpuSample
    from labtui.engine.folder import LabFolder

SAMPLER_END = ".gpu.csv"


@dataclass(frozen=True)
class Measurements:
    """What was read: the runs, and what belongs to them.

    `samples` are GPU samples by the log they lie beside; `cost` and the edition's `images` are known in a lab
    folder only. `unread` is true when a file could not be read.
    """

    runs: tuple[MeasuredRun, ...] = ()
    samples: Mapping[str, tuple[GpuSample, ...]] = field(default_factory=dict)
    cost: LabCost | None = None
    images: int | None = None
    unread: bool = False

    def results(self, images: int | None = None) -> Results:
        """The numbers; `images` per epoch go before the edition's, where a log does not say them."""
        from labtui.core.results import CIFAR10_IMAGES, compute_results

        return compute_results(self.runs, images=images or self.images or CIFAR10_IMAGES)

    @functools.cached_property
    def uses(self) -> tuple[RunUtilization, ...]:
        """What the GPUs did in each run whose job had a sampler."""
        from labtui.core.results.utilization import run_utilization

        found = (run_utilization(one, self.samples.get(one.source, ())) for one in self.runs)
        return tuple(use for use in found if use is not None)

    def json(self, results: Results, plans: Sequence[TargetPlan] = ()) -> dict[str, Any]:
        """Everything `labtui results --json` says."""
        from labtui.core.results import extras_json, results_json

        told = results_json(results)
        told["accuracy"] = extras_json.accuracy_json(results)
        told["targets"] = [extras_json.target_json(plan) for plan in plans]
        told["gpu_use"] = [extras_json.utilization_json(use) for use in self.uses]
        told["forms"] = extras_json.forms_json(results)
        if self.cost is not None:
            told["cost"] = extras_json.cost_json(self.cost, results)
        return told

    def json_text(self, results: Results, plans: Sequence[TargetPlan] = ()) -> str:
        """The same as text."""
        return json.dumps(self.json(results, plans), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def beside(log: str) -> Path | None:
    """The GPU sampler's file of a job, which lies beside its log."""
    return Path(log.removesuffix(".out") + SAMPLER_END) if log.endswith(".out") else None


def samples_in(path: Path | None) -> tuple[GpuSample, ...]:
    """What the sampler wrote; nothing when there is no such file: GPU use is an addition, not the answer."""
    from labtui.core.sampler import read_samples

    try:
        return read_samples(path.read_bytes()).samples if path is not None else ()
    except OSError:
        return ()


def measurements_of(folder: LabFolder, state: LabState | None = None) -> Measurements:
    """The runs of a lab folder; `state` when the caller has it, else as stored.

    Raises:
        StoreError: when the database cannot be read.
    """
    from labtui.core.cost import lab_cost
    from labtui.core.results import measured_from_state

    if state is None:
        state = stored_state(folder)
    runs = measured_from_state(state)
    sources = {one.source for one in runs if one.source}
    return Measurements(
        runs=runs,
        samples={source: samples_in(beside(str(folder.path / source))) for source in sources},
        cost=lab_cost(state, now=time.time()),
        images=_images_of(folder),
    )


def stored_state(folder: LabFolder) -> LabState:
    """The state as the lab folder's database has it; empty without one."""
    from labtui.core.reduce import reduce_all
    from labtui.engine.store import Store

    if not folder.database_path.exists():
        return LabState()
    store = Store(folder.database_path, read_only=True)
    try:
        return reduce_all(LabState(), store.events())
    finally:
        store.close()


def _images_of(folder: LabFolder) -> int | None:
    """Images per epoch of the folder's edition; None when it cannot be read (other verbs say why)."""
    from labtui.engine.labs import load_edition

    try:
        return load_edition(folder.settings().edition, folder).images
    except LabError:
        return None
