"""Tables in files: results.csv with full precision, Markdown, LaTeX, and the pandas frame behind the CSV.

pandas is imported when a frame is asked for and not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from labtui.core.interval import Interval
from labtui.core.results.numbers import clean
from labtui.core.results.rows import ResultRow, Results
from labtui.core.results.tables import AS_PRINTED, PRECISE, latex_table, markdown_table, note_lines
from labtui.core.results.trace import cite

if TYPE_CHECKING:
    import pandas as pd

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def frame(results: Results) -> pd.DataFrame:
    """One line per configuration; every interval as three columns (value, ``_lo``, ``_hi``).

    Units: seconds, images per second, ratios, fractions of 1. Missing numbers are NaN.
    """
    import pandas as pd

    table = pd.DataFrame([_record(row) for row in results.rows], columns=list(_record_columns()))
    whole = dict.fromkeys(("n_gpus", "batch_size", "steps"), "Int64")
    return table.astype(whole | dict.fromkeys(_float_columns(), "float64"))


def csv_text(results: Results) -> str:
    """The frame as CSV with full precision (17 significant digits where needed), lines ended as on Linux."""
    text: str = frame(results).to_csv(index=False, lineterminator="\n")
    return text


def markdown_text(results: Results) -> str:
    """Both readings as Markdown tables, and the notes as a list."""
    parts = [
        "**Precise**",
        markdown_table(results.rows, PRECISE),
        "**As printed** (whole seconds of epoch 2)",
        markdown_table(results.measured, AS_PRINTED),
    ]
    if notes := note_lines(results):
        parts.append("\n".join(f"- {note}" for note in notes))
    return "\n\n".join(part for part in parts if part) + "\n"


def latex_text(results: Results) -> str:
    """Both readings as LaTeX tabulars."""
    tables = (latex_table(results.rows, PRECISE), latex_table(results.measured, AS_PRINTED))
    return "\n\n".join(table for table in tables if table) + "\n"


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
    "printed_efficiency", "sources", "notes",
)  # fmt: skip


def _triples() -> tuple[str, ...]:
    return tuple(name + end for name in _INTERVALS for end in ("", "_lo", "_hi"))


def _record_columns() -> tuple[str, ...]:
    return (*_BEFORE, *_triples(), *_AFTER)


def _float_columns() -> tuple[str, ...]:
    starts = ("printed_", "per_gpu", "scatter", "batch_factor")
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
    }
