"""The runs of a lab folder or of some logs with what belongs to them, and their tables in files.

The one place where `labtui results`, `plot` and `export` get their input, so that they cannot disagree. Reads the
lab folder beside whoever has it open; never changes it. Tables are results.csv with full precision, Markdown, LaTeX and
the pandas frame behind the CSV; pandas is imported when a frame is wanted and not before.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labtui.domain.errors import LabError
from labtui.domain.events import LabState
from labtui.domain.model import Interval
from labtui.results.measured import cite
from labtui.results.numbers import (
    AS_PRINTED,
    PRECISE,
    clean,
    columns_of,
    latex,
    latex_table,
    markdown_table,
    note_lines,
)
from labtui.results.programs import ProgramRow
from labtui.results.report import program_table
from labtui.results.rows import ResultRow, Results
from labtui.results.serialize import results_json

if TYPE_CHECKING:
    import pandas as pd

    from labtui.results.cost import LabCost, RunUtilization
    from labtui.results.measured import MeasuredRun
    from labtui.results.rows import Results
    from labtui.session.folder import LabFolder
    from labtui.training_logs.gpu_sampler import GpuSample


_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


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
    when = f"{datetime.fromtimestamp(max(ended), UTC):%Y-%m-%d %H:%M} UTC" if ended else "no time"
    if ended and any(run.practice for row in results.rows for run in row.members):
        when += " by the practice clock"
    text = json.dumps(results_json(results), sort_keys=True)
    return f"{when}, state {hashlib.sha256(text.encode()).hexdigest()[:8]}"


def frame(results: Results) -> pd.DataFrame:
    """One line per configuration, programs without epochs last; intervals in three columns (value, ``_lo``, ``_hi``).

    Units: seconds, images per second, ratios, fractions of 1. Missing numbers are NaN.
    """
    import pandas as pd

    records = [*map(_record, results.rows), *map(_program_record, results.programs)]
    table = pd.DataFrame(records, columns=list(_record_columns()))
    whole = dict.fromkeys(("n_gpus", "batch_size", "epochs", "images", "steps", "processes"), "Int64")
    table["export"] = stamp_of(results)
    return table.astype(whole | dict.fromkeys(_float_columns(), "float64"))


def csv_text(results: Results) -> str:
    """The frame as CSV with full precision (17 significant digits where needed), lines ended as on Linux."""
    text: str = frame(results).to_csv(index=False, lineterminator="\n")
    return text


def markdown_text(results: Results) -> str:
    """Both readings as Markdown tables, and the notes as a list."""
    parts = [
        "**Precise**",
        markdown_table(results.rows, columns_of(results.rows, PRECISE)),
        "**As printed** (whole seconds of epoch 2)",
        markdown_table(results.measured, columns_of(results.measured, AS_PRINTED)),
    ]
    if results.programs:
        headings, lines = program_table(results.programs)
        grid = [headings, [":---"] * 2 + ["---:"] * (len(headings) - 2), *lines]
        text = "\n".join(f"| {' | '.join(line)} |" for line in grid)
        parts = [*(parts if results.rows else ()), "**Programs timed without epochs**", text]
    if notes := note_lines(results):
        parts.append("\n".join(f"- {note}" for note in notes))
    parts.append(f"Export: {stamp_of(results)}")
    return "\n\n".join(part for part in parts if part) + "\n"


def latex_text(results: Results) -> str:
    """Both readings as LaTeX tabulars."""
    tables = [
        latex_table(rows, columns_of(rows, columns))
        for rows, columns in ((results.rows, PRECISE), (results.measured, AS_PRINTED))
    ]
    if results.programs:
        headings, lines = program_table(results.programs)
        body = [[latex(cell) for cell in line] for line in (headings, *lines)]
        rows_of = [" & ".join(line) + r" \\" for line in body]
        begin = rf"\begin{{tabular}}{{ll{'r' * (len(headings) - 2)}}}"
        tables.append("\n".join([begin, rows_of[0], r"\hline", *rows_of[1:], r"\end{tabular}"]))
    return f"% export: {stamp_of(results)}\n" + "\n\n".join(table for table in tables if table) + "\n"


def _text(value: str) -> str:
    """Text from a log as a cell that no spreadsheet takes for a formula."""
    text = clean(value)
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _intervals(row: ResultRow) -> dict[str, Interval | None]:
    return {
        "epoch_seconds": row.epoch_seconds,
        "throughput": row.throughput,
        "per_gpu_throughput": row.per_gpu_throughput,
        "speedup": row.speedup,
        "efficiency": row.efficiency,
        "step_factor": row.step_factor,
        "karp_flatt": row.karp_flatt,
        "acceleration": row.acceleration,
        "first_epoch_seconds": row.warmup_seconds,
    }


_INTERVALS = (
    "epoch_seconds", "throughput", "per_gpu_throughput", "speedup", "efficiency", "step_factor", "karp_flatt",
    "acceleration", "first_epoch_seconds",
)  # fmt: skip
_BEFORE = (
    "model", "device", "n_gpus", "batch_size", "per_gpu_batch_size", "runs", "epochs", "practice", "live",
    "images", "steps",
)  # fmt: skip
_AFTER = (
    "batch_factor", "scatter_seconds", "printed_epoch_seconds", "printed_throughput", "printed_speedup",
    "printed_efficiency", "sources", "notes", "data_set", "tuning", "unit", "total_seconds", "gpu_memory_gib",
    "processes", "size", "scaling", "program_seconds", "program_seconds_lo", "program_seconds_hi", "weak_efficiency",
)  # fmt: skip


def _triples() -> tuple[str, ...]:
    return tuple(name + end for name in _INTERVALS for end in ("", "_lo", "_hi"))


def _record_columns() -> tuple[str, ...]:
    return (*_BEFORE, *_triples(), *_AFTER)


def _float_columns() -> tuple[str, ...]:
    starts = ("printed_", "per_gpu", "scatter", "batch_factor", "total_", "gpu_memory", "program_", "weak_")
    return (*_triples(), *(name for name in (*_BEFORE, *_AFTER) if name.startswith(starts)))


def _record(row: ResultRow) -> dict[str, object]:
    record: dict[str, object] = {
        "model": _text(row.model),
        "device": row.device,
        "n_gpus": row.n_gpus,
        "batch_size": row.batch_size,
        "per_gpu_batch_size": row.configuration.per_gpu_batch,
        "runs": row.runs,
        "epochs": row.epochs,
        "practice": row.practice,
        "live": row.live,
        "images": row.configuration.images,
        "steps": row.steps,
    }
    for name, interval in _intervals(row).items():
        record[name] = interval.value if interval else None
        record[f"{name}_lo"] = interval.lo if interval else None
        record[f"{name}_hi"] = interval.hi if interval else None
    return record | {
        "batch_factor": row.batch_factor,
        "scatter_seconds": row.scatter.deviation if row.scatter else None,
        "printed_epoch_seconds": row.as_printed.epoch_seconds,
        "printed_throughput": row.as_printed.throughput,
        "printed_speedup": row.as_printed.speedup,
        "printed_efficiency": row.as_printed.efficiency,
        "sources": _text(cite(row.origins, most=20)),
        "notes": " ".join(row.notes),
        "data_set": _text(row.configuration.data_set),
        "tuning": ", ".join(row.configuration.tuning),
        "unit": row.configuration.unit,
        "total_seconds": row.total_seconds.value if row.total_seconds else None,
        "gpu_memory_gib": row.gpu_memory.value if row.gpu_memory else None,
    }


def _program_record(row: ProgramRow) -> dict[str, object]:
    """A program's line: what has no meaning for it is left out."""
    record: dict[str, object] = {
        "model": _text(row.program.name),
        "device": "gpu" if row.program.counts == "GPUs" else "cpu",
        "n_gpus": row.processes if row.program.counts == "GPUs" else 0,
        "runs": row.runs,
        "practice": row.practice,
        "live": False,
        "sources": _text(cite(row.origins, most=20)),
        "notes": " ".join(row.notes),
        "processes": row.processes,
        "size": _text(row.size),
        "scaling": row.program.scaling,
        "weak_efficiency": row.weak_efficiency.value if row.weak_efficiency else None,
    }
    found = {"program_seconds": row.seconds, "speedup": row.speedup, "efficiency": row.efficiency}
    for name, interval in found.items():
        record[name] = interval.value if interval else None
        record[f"{name}_lo"] = interval.lo if interval else None
        record[f"{name}_hi"] = interval.hi if interval else None
    return record


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
        from labtui.results.compute import compute_results

        return compute_results(self.runs, images=images or self.images, insist=images is not None)

    @functools.cached_property
    def uses(self) -> tuple[RunUtilization, ...]:
        """What the GPUs did in each run whose job had a sampler."""
        from labtui.results.cost import run_utilization

        found = (run_utilization(one, self.samples.get(one.source, ())) for one in self.runs)
        return tuple(use for use in found if use is not None)

    def json(self, results: Results) -> dict[str, Any]:
        """Everything `labtui results --json` says."""
        from labtui.results import serialize
        from labtui.results.serialize import results_json

        document = results_json(results)

        document["export"] = stamp_of(results)
        document["accuracy"] = serialize.accuracy_json(results)
        document["gpu_use"] = [serialize.utilization_json(use) for use in self.uses]
        if self.cost is not None:
            document["cost"] = serialize.cost_json(self.cost, results)
        return document

    def json_text(self, results: Results) -> str:
        return json.dumps(self.json(results), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def beside(log: str) -> Path | None:
    """The GPU sampler's file of a job, which lies beside its log."""
    return Path(log.removesuffix(".out") + SAMPLER_END) if log.endswith(".out") else None


def samples_in(path: Path | None) -> tuple[GpuSample, ...]:
    """What the sampler wrote; nothing when there is no such file: GPU use is an addition, not the answer."""
    from labtui.training_logs.gpu_sampler import read_samples

    try:
        return read_samples(path.read_bytes()).samples if path is not None else ()
    except OSError:
        return ()


def measurements_of(folder: LabFolder, state: LabState | None = None) -> Measurements:
    """The runs of a lab folder; `state` when the caller has it, else as stored.

    Raises:
        StoreError: when the database cannot be read.
    """
    from labtui.results.cost import lab_cost
    from labtui.results.measured import measured_from_state

    if state is None:
        state = stored_state(folder)
    runs = measured_from_state(state)
    sources = {one.source for one in runs if one.source}
    return Measurements(
        runs=runs,
        samples={source: samples_in(_own(folder, beside(source))) for source in sources},
        cost=lab_cost(state),
        images=_images_of(folder),
    )


def _own(folder: LabFolder, path: Path | None) -> Path | None:
    return folder.path / path if path is not None and folder.has(path) else None


def stored_state(folder: LabFolder) -> LabState:
    """The state as the lab folder's database has it; empty without one."""
    from labtui.domain.reduce import reduce_all
    from labtui.session.store import Store, copied_store
    from labtui.session.trust import check_trust

    if not folder.database_path.exists():
        return LabState()
    store = copied_store(folder) if check_trust(folder.path) else Store(folder.database_path, read_only=True)
    try:
        return reduce_all(LabState(), store.events())
    finally:
        store.close()


def _images_of(folder: LabFolder) -> int | None:
    """Images per epoch of the folder's edition; None when it cannot be read (other commands say why)."""
    from labtui.session.labs import load_edition

    try:
        return load_edition(folder.settings().edition, folder).images
    except LabError:
        return None
