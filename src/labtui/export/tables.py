"""results.csv with full precision, and the tables for Markdown and LaTeX. pandas is imported when a frame is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from labtui.export.measurements import stamp_of
from labtui.results.escape import latex, markdown, spreadsheet
from labtui.results.measured import cite
from labtui.results.numbers import AS_PRINTED, PRECISE, Column, cells, columns_of, note_lines
from labtui.results.report import program_table
from labtui.results.rows import ResultRow, Results
from labtui.results.serialize import program_json, row_json

if TYPE_CHECKING:
    import pandas as pd

INTERVALS = {
    "epoch_seconds": "epoch_seconds", "throughput": "throughput", "per_gpu_throughput": "per_gpu_throughput",
    "speedup": "speedup", "efficiency": "efficiency", "step_factor": "step_factor", "karp_flatt": "karp_flatt",
    "acceleration": "acceleration", "first_epoch_seconds": "warmup_seconds",
}  # fmt: skip
"""Columns of three (value, ``_lo``, ``_hi``), and the JSON field each is."""
_BEFORE = (
    "model", "device", "n_gpus", "batch_size", "per_gpu_batch_size", "runs", "epochs", "practice", "live", "images",
    "steps",
)  # fmt: skip
_PRINTED = ("epoch_seconds", "throughput", "speedup", "efficiency")
_AFTER = (
    "batch_factor", "scatter_seconds", *(f"printed_{name}" for name in _PRINTED), "sources", "notes", "data_set",
    "tuning", "unit", "total_seconds", "gpu_memory_gib", "processes", "size", "scaling", "program_seconds",
    "program_seconds_lo", "program_seconds_hi", "weak_efficiency",
)  # fmt: skip
_TRIPLES = tuple(name + end for name in INTERVALS for end in ("", "_lo", "_hi"))
COLUMNS = (*_BEFORE, *_TRIPLES, *_AFTER)
_WHOLE = dict.fromkeys(("n_gpus", "batch_size", "epochs", "images", "steps", "processes"), "Int64")
_TEXTS = {
    "model",
    "device",
    "practice",
    "live",
    "sources",
    "notes",
    "data_set",
    "tuning",
    "unit",
    "size",
    "scaling",
}
_FLOATS = dict.fromkeys(
    (c for c in COLUMNS if c not in _WHOLE and c not in _TEXTS and c != "runs"), "float64"
)


def frame(results: Results) -> pd.DataFrame:
    """One line per configuration, programs without epochs last, from the fields of the JSON.

    Units: seconds, images per second, ratios, fractions of 1. Missing numbers are NaN.
    """
    import pandas as pd

    records = [*map(_record, results.rows), *map(_program_record, results.programs)]
    table = pd.DataFrame(records, columns=list(COLUMNS))
    table["export"] = stamp_of(results)
    return table.astype(_WHOLE | _FLOATS)


def _record(row: ResultRow) -> dict[str, object]:
    fields = row_json(row)
    record: dict[str, object] = {name: fields.get(name) for name in (*_BEFORE, *_AFTER)}
    for column, name in INTERVALS.items():
        record |= _triple(column, fields[name])
    record |= {f"printed_{name}": fields["as_printed"][name] for name in _PRINTED}
    for name in ("total_seconds", "gpu_memory_gib"):
        record[name] = fields[name]["value"] if fields[name] else None
    return record | {
        "model": spreadsheet(row.model),
        "data_set": spreadsheet(row.configuration.data_set),
        "tuning": ", ".join(fields["tuning"]),
        "sources": spreadsheet(cite(row.origins, most=20)),
        "notes": " ".join(row.notes),
    }


def _program_record(row: Any) -> dict[str, object]:
    """A program's line: what has no meaning for it is left out."""
    fields = program_json(row)
    gpus = row.program.counts == "GPUs"
    record: dict[str, object] = {
        name: fields.get(name) for name in ("runs", "practice", "processes", "scaling")
    }
    for column, name in (
        ("program_seconds", "seconds"),
        ("speedup", "speedup"),
        ("efficiency", "efficiency"),
    ):
        record |= _triple(column, fields[name])
    return record | {
        "model": spreadsheet(row.program.name),
        "device": "gpu" if gpus else "cpu",
        "n_gpus": row.processes if gpus else 0,
        "live": False,
        "size": spreadsheet(row.size),
        "sources": spreadsheet(cite(row.origins, most=20)),
        "notes": " ".join(row.notes),
        "weak_efficiency": fields["weak_efficiency"]["value"] if fields["weak_efficiency"] else None,
    }


def _triple(column: str, interval: dict[str, float] | None) -> dict[str, float | None]:
    ends = {"": "value", "_lo": "lo", "_hi": "hi"}
    return {column + end: interval[name] if interval else None for end, name in ends.items()}


def csv_text(results: Results) -> str:
    """The frame as CSV with full precision (17 significant digits where needed), lines ended as on Linux."""
    text: str = frame(results).to_csv(index=False, lineterminator="\n")
    return text


# --------------------------------------------------------------------------- Markdown and LaTeX

Grid = tuple[Sequence[str], list[Sequence[str]], Sequence[bool]]


def _grids(results: Results) -> list[tuple[str, Grid]]:
    """Title, headings, lines, and which columns hold numbers, of every table."""
    found: list[tuple[str, Grid]] = []
    for title, rows, columns in (
        ("Precise", results.rows, PRECISE),
        ("As printed (whole seconds of epoch 2)", results.measured, AS_PRINTED),
    ):
        if rows:
            shown: tuple[Column, ...] = columns_of(rows, columns)
            numbers = [column.number for column in shown]
            found.append((title, ([c.heading for c in shown], list(cells(rows, shown)), numbers)))
    if results.programs:
        headings, lines = program_table(results.programs)
        found.append(
            (
                "Programs timed without epochs",
                (headings, list(lines), [at > 1 for at in range(len(headings))]),
            )
        )
    return found


def markdown_text(results: Results) -> str:
    """Both readings as Markdown tables, and the notes as a list."""
    parts = []
    for title, (headings, lines, numbers) in _grids(results):
        rule = ["---:" if number else ":---" for number in numbers]
        grid = [headings, rule, *([markdown(cell) for cell in line] for line in lines)]
        parts += [f"**{title}**", "\n".join(f"| {' | '.join(line)} |" for line in grid)]
    parts += [
        "\n".join(f"- {markdown_line(note)}" for note in note_lines(results)),
        f"Export: {stamp_of(results)}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


_IN_SENTENCES = str.maketrans({"<": "&lt;", ">": "&gt;"} | {mark: f"\\{mark}" for mark in "|[]!"})


def markdown_line(text: str) -> str:
    """A sentence of ours with names from logs in it: tags, links and tables cannot begin."""
    return text.translate(_IN_SENTENCES)


def latex_text(results: Results) -> str:
    """Both readings as LaTeX tabulars with the rules of the standard classes."""
    tables = []
    for _, (headings, lines, numbers) in _grids(results):
        layout = "".join("r" if number else "l" for number in numbers)
        body = [" & ".join(map(latex, line)) + r" \\" for line in (headings, *lines)]
        tables.append("\n".join([
            rf"\begin{{tabular}}{{{layout}}}", r"\hline", body[0], r"\hline", *body[1:], r"\hline", r"\end{tabular}",
        ]))  # fmt: skip
    return f"% export: {stamp_of(results)}\n" + "\n\n".join(tables) + "\n"


FORMS: dict[str, Callable[[Results], str]] = {"csv": csv_text, "md": markdown_text, "tex": latex_text}
