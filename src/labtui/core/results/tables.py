"""The results as a table of cells: one list of columns for the terminal, Markdown, LaTeX, screens and slides.

Cells are texts with the digits the intervals support. Files with full precision are made in
`export/tables.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labtui.core.results.numbers import (
    ABSENT,
    bounds_text,
    clean,
    count_text,
    percent_text,
    range_text,
    rate_text,
    ratio_text,
    seconds_text,
)
from labtui.core.results.rows import LawFit, Prediction, ResultRow, Results


@dataclass(frozen=True, slots=True)
class Column:
    """A column: heading, the cell of a row, and whether it holds numbers (set to the right)."""

    heading: str
    cell: Callable[[ResultRow], str]
    number: bool = True


def _plain(number: float | None, form: str) -> str:
    return ABSENT if number is None else format(number, form)


def device_text(row: ResultRow) -> str:
    """``CPU``, ``2 GPUs``, or that it is not known."""
    if row.device == "cpu":
        return "CPU"
    if row.n_gpus is None:
        return "unknown"
    return f"{row.n_gpus} GPU{'s' if row.n_gpus != 1 else ''}"


def epochs_text(row: ResultRow) -> str:
    """What a number rests on: ``4 epochs of 1 run``, and whether runs are still going."""
    if row.from_rate:
        text = f"rate of {_plural(row.runs, 'run')}"
    elif row.epoch_seconds is None:
        text = "first epoch only"
    else:
        text = f"{_plural(row.epochs, 'epoch')} of {_plural(row.runs, 'run')}"
    return f"{text}, live" if row.live else text


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count != 1 else ''}"


_WHAT = (
    Column("model", lambda row: clean(row.model) + (" (practice)" if row.practice else ""), number=False),
    Column("device", device_text, number=False),
    Column("global batch", lambda row: count_text(row.batch_size)),
)

PLAIN_MODEL = Column("model", lambda row: clean(row.model), number=False)
"""The model alone, for a table whose title says that all its rows are practice."""

PRECISE = (
    *_WHAT,
    Column("epoch s", lambda row: seconds_text(row.epoch_seconds)),
    Column("images/s", lambda row: rate_text(row.throughput)),
    Column("speedup", lambda row: ratio_text(row.speedup)),
    Column("efficiency", lambda row: percent_text(row.efficiency)),
    Column("batch factor", lambda row: percent_text(row.batch_factor)),
    Column("step factor", lambda row: percent_text(row.step_factor)),
    Column("epochs", epochs_text, number=False),
)
"""Exact reading: with what the printed digits leave open."""

AS_PRINTED = (
    *_WHAT,
    Column("epoch s", lambda row: _plain(row.as_printed.epoch_seconds, "g")),
    Column("images/s", lambda row: _plain(row.as_printed.throughput, ",.0f")),
    Column("speedup", lambda row: _plain(row.as_printed.speedup, ".2f")),
    Column("efficiency", lambda row: percent_text(row.as_printed.efficiency)),
)
"""Reading of whole printed seconds of epoch 2, as textbooks do."""


def cells(rows: Sequence[ResultRow], columns: Sequence[Column]) -> list[list[str]]:
    """The cells of each row in the order of the columns."""
    return [[column.cell(row) for column in columns] for row in rows]


def text_table(rows: Sequence[ResultRow], columns: Sequence[Column]) -> str:
    """An aligned table for a terminal; "" without rows."""
    if not rows:
        return ""
    body = cells(rows, columns)
    grid = [[column.heading for column in columns], *body]
    widths = [max(len(line[place]) for line in grid) for place in range(len(columns))]
    return "\n".join(_text_line(line, columns, widths) for line in grid)


def _text_line(line: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = (
        cell.rjust(width) if column.number else cell.ljust(width)
        for cell, column, width in zip(line, columns, widths, strict=True)
    )
    return "  ".join(padded).rstrip()


def markdown_table(rows: Sequence[ResultRow], columns: Sequence[Column]) -> str:
    """A Markdown (pipe) table; "" without rows."""
    if not rows:
        return ""
    marks = ["---:" if column.number else ":---" for column in columns]
    grid = [[column.heading for column in columns], marks, *_escaped(cells(rows, columns))]
    return "\n".join(f"| {' | '.join(line)} |" for line in grid)


def _escaped(body: list[list[str]]) -> list[list[str]]:
    """Cells without Markdown's marks; only the first column holds text from a log."""
    special = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_{}[]<>()#|~$"})
    return [
        [cell.translate(special) if place == 0 else cell for place, cell in enumerate(row)] for row in body
    ]


def latex_table(rows: Sequence[ResultRow], columns: Sequence[Column]) -> str:
    """A LaTeX tabular with rules of the standard classes; "" without rows."""
    if not rows:
        return ""
    layout = "".join("r" if column.number else "l" for column in columns)
    lines = [rf"\begin{{tabular}}{{{layout}}}", r"\hline"]
    lines += [" & ".join(latex(column.heading) for column in columns) + r" \\", r"\hline"]
    lines += [" & ".join(map(latex, line)) + r" \\" for line in cells(rows, columns)]
    return "\n".join([*lines, r"\hline", r"\end{tabular}"])


_LATEX = str.maketrans(
    {mark: f"\\{mark}" for mark in "&%$#_{}"}
    | {mark: f"${mark}$" for mark in "<>|"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "–": "--", '"': r"\textquotedbl{}"}
)


def latex(text: str) -> str:
    """Text with LaTeX's special characters escaped."""
    return text.translate(_LATEX)


# --------------------------------------------------------------------------- laws and predictions in
# sentences


def fit_sentence(fit: LawFit) -> str:
    """One law in words: law, network, fraction with its bounds, and the sizes it rests on."""
    share = fit.serial_fraction
    sizes = ", ".join(map(str, fit.n_gpus))
    bounds = bounds_text(share, places=1, percent=True)
    bounds = f" ({bounds})" if bounds else ""
    practice = ", practice" if fit.practice else ""
    batch = fit.baseline.per_gpu_batch
    per_gpu = f", {batch:,.0f} images per GPU and step" if batch is not None else ""
    what = f"{fit.law.capitalize()}, {clean(fit.model)}{per_gpu}{practice}"
    return f"{what}: serial fraction {percent_text(share)}{bounds}, from {sizes} GPUs."


def law_lines(fits: Sequence[LawFit]) -> list[str]:
    """Each fit with its own remarks under it, then the remarks that all fits share."""
    counts = Counter(remark for fit in fits for remark in fit.remarks)
    shared = [remark for remark, count in counts.items() if count == len(fits) > 1]
    lines = []
    for fit in fits:
        lines.append(fit_sentence(fit))
        lines += [f"  {remark}" for remark in fit.remarks if remark not in shared]
    return [*lines, *shared]


def prediction_sentence(prediction: Prediction) -> str:
    """What to expect on more GPUs, as a band."""
    speedup, share = prediction.speedup, prediction.efficiency
    sentence = (
        f"{clean(prediction.model)} on {prediction.n_gpus} GPUs: speedup between {speedup.lo:.1f} and "
        f"{speedup.hi:.1f} (efficiency {range_text(share, places=0, percent=True)})"
    )
    if prediction.batch_ceiling is not None and prediction.batch_ceiling < 1:
        sentence += (
            f"; the short last batch alone allows no more than {percent_text(prediction.batch_ceiling, 0)}"
        )
    return sentence + "."


def note_lines(results: Results) -> list[str]:
    """The notes of all rows, equal ones gathered, each with the configurations it concerns."""
    concerned: dict[str, list[str]] = {}
    for row in results.rows:
        for note in row.notes:
            concerned.setdefault(note, []).append(clean(row.configuration.label))
    lines = [f"{', '.join(dict.fromkeys(labels))}: {note}" for note, labels in concerned.items()]
    lines += [
        f"{clean(left.run.source) or 'A run'}: not counted, {left.reason}." for left in results.left_out
    ]
    return list(dict.fromkeys([*lines, *results.notes]))
