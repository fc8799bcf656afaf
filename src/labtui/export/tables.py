"""results.csv with full precision, and the tables for Markdown and LaTeX. pandas is imported when a frame is wanted."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from labtui.export.measurements import stamp_of
from labtui.results.measured import cite
from labtui.results.numbers import AS_PRINTED, PRECISE, Table, clean, note_lines, program_columns, table_of
from labtui.results.rows import ResultRow, Results
from labtui.results.serialize import program_json, row_json

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = """model device n_gpus batch_size per_gpu_batch_size runs epochs practice live images steps epoch_seconds±
    throughput± per_gpu_throughput± speedup± efficiency± step_factor± karp_flatt± acceleration± first_epoch_seconds±
    batch_factor scatter_seconds printed_epoch_seconds printed_throughput printed_speedup printed_efficiency sources
    notes data_set tuning unit total_seconds gpu_memory_gib processes size scaling program_seconds± weak_efficiency"""
"""``name±`` is three columns: the value, and its bounds in ``name_lo`` and ``name_hi``."""
COLUMNS = re.sub(r"(\w+)±", r"\1 \1_lo \1_hi", _COLUMNS).split()
_TEXTS = {
    "model", "device", "runs", "practice", "live", "sources", "notes", "data_set", "tuning", "unit", "size", "scaling",
}  # fmt: skip
_WHOLE = dict.fromkeys(("n_gpus", "batch_size", "epochs", "images", "steps", "processes"), "Int64")
_FLOATS = dict.fromkeys((name for name in COLUMNS if name not in _WHOLE and name not in _TEXTS), "float64")
_RENAMED = {"warmup_seconds": "first_epoch_seconds", "seconds": "program_seconds", "program": "model"}
"""Fields of the JSON that are called otherwise here."""


def frame(results: Results) -> pd.DataFrame:
    """One line per configuration, programs without epochs last, from the fields of the JSON.

    Units: seconds, images per second, ratios, fractions of 1. Missing numbers are NaN.
    """
    import pandas as pd

    records = [_record(row, row_json(row)) for row in results.rows]
    for timed in results.programs:
        gpus = timed.processes if timed.device == "gpu" else 0
        machine = {"device": timed.device, "n_gpus": gpus, "live": False}
        records.append(_record(timed, program_json(timed) | machine))
    table = pd.DataFrame(records, columns=COLUMNS)
    table["export"] = stamp_of(results)
    return table.astype(_WHOLE | _FLOATS)


def _record(row: ResultRow, fields: dict[str, Any]) -> dict[str, Any]:
    """The JSON's fields as columns: an interval as three, the reading as printed as ``printed_...``."""
    record: dict[str, Any] = {
        f"printed_{name}": value for name, value in fields.get("as_printed", {}).items()
    }
    for field, value in fields.items():
        name = _RENAMED.get(field, field)
        is_interval = isinstance(value, dict) and "value" in value
        record[name] = value["value"] if is_interval else value
        if is_interval:
            record |= {f"{name}_lo": value["lo"], f"{name}_hi": value["hi"]}
    for name in ("model", "data_set", "size"):
        record[name] = spreadsheet(record.get(name) or "")
    record["tuning"] = ", ".join(fields.get("tuning", ()))
    record["sources"] = spreadsheet(cite(row.origins, most=20))
    record["notes"] = " ".join(row.notes)
    return record


def csv_text(results: Results) -> str:
    """The frame as CSV with full precision (17 significant digits where needed), lines ended as on Linux."""
    text: str = frame(results).to_csv(index=False, lineterminator="\n")
    return text


# --------------------------------------------------------------------------- text from outside, in each format

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_MARKDOWN = str.maketrans(
    {mark: f"\\{mark}" for mark in "\\`*_{}[]()#|~$!"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)
_LATEX = str.maketrans(
    {mark: f"\\{mark}" for mark in "&%$#_{}"}
    | {mark: f"${mark}$" for mark in "<>|"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "–": "--", '"': r"\textquotedbl{}"}
)


def spreadsheet(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    shown = clean(text)
    return f"'{shown}" if shown.startswith(_FORMULA_STARTS) else shown


def markdown(text: str) -> str:
    """One line without marks, tags or links; in a notebook too."""
    return clean(text).translate(_MARKDOWN)


def latex(text: str) -> str:
    return text.translate(_LATEX)


# --------------------------------------------------------------------------- Markdown and LaTeX


def _tables(results: Results) -> list[tuple[str, Table]]:
    """Every table with its title."""
    tables = (
        ("Precise", results.rows, PRECISE),
        ("As printed (whole seconds of epoch 2)", results.measured, AS_PRINTED),
        ("Programs timed without epochs", results.programs, program_columns(results.programs)),
    )
    return [(title, table_of(rows, columns)) for title, rows, columns in tables if rows]


def markdown_text(results: Results) -> str:
    """Both readings as Markdown tables, and the notes as a list."""
    parts = []
    for title, table in _tables(results):
        rule = ["---:" if number else ":---" for number in table.numeric]
        grid = [table.headings, rule, *([markdown(cell) for cell in line] for line in table.rows)]
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
    for _, table in _tables(results):
        layout = "".join("r" if number else "l" for number in table.numeric)
        body = [" & ".join(map(latex, line)) + r" \\" for line in (table.headings, *table.rows)]
        tables.append("\n".join([
            rf"\begin{{tabular}}{{{layout}}}", r"\hline", body[0], r"\hline", *body[1:], r"\hline", r"\end{tabular}",
        ]))  # fmt: skip
    return f"% export: {stamp_of(results)}\n" + "\n\n".join(tables) + "\n"


FORMS: dict[str, Callable[[Results], str]] = {"csv": csv_text, "md": markdown_text, "tex": latex_text}
