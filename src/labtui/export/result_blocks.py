"""A lab's numbers as blocks of slides: both readings, what follows from them, and the fitted laws. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from labtui.core.results import LawFit, ResultRow, Results
from labtui.core.results.numbers import clean, percent_text, range_text, ratio_text
from labtui.core.results.tables import AS_PRINTED, PRECISE, Column, cells, note_lines, prediction_sentence
from labtui.export.deck_model import Block, Table, plain


def result_blocks(results: Results) -> Iterable[Block]:
    """Both readings as tables, then what follows from them, in sentences."""
    yield plain("All epochs but the first, with what the printed digits leave open", "subheading")
    yield _table(results.rows, PRECISE)
    printed = [row for row in results.measured if row.as_printed.epoch_seconds is not None]
    if printed:
        yield plain("As printed: whole seconds of epoch 2, as textbooks do", "subheading")
        yield _table(printed, AS_PRINTED)
    for row in results.measured:
        if row.acceleration is not None:
            yield plain(
                f"{clean(row.model)}: one GPU is {ratio_text(row.acceleration)} times as fast as the CPU "
                f"({range_text(row.acceleration)}). That is acceleration; it says nothing about scaling."
            )
    yield from _notes(note_lines(results))


def law_blocks(results: Results) -> Iterable[Block]:
    """The fitted laws as a table, what is to be said of each, and what they let expect on more GPUs."""
    mixed = len({fit.practice for fit in results.fits}) > 1
    yield plain("Serial fractions, with the bounds that the measured times leave open", "subheading")
    yield Table(_LAW_HEADINGS, tuple(_law_row(fit, mixed=mixed) for fit in results.fits), _LAW_NUMERIC)
    remarks: dict[str, list[str]] = {}
    for fit in results.fits:
        for remark in fit.remarks:
            remarks.setdefault(remark, []).append(f"{fit.law.capitalize()}, {clean(fit.model)}")
    shared = [remark for remark, laws in remarks.items() if len(laws) == len(results.fits) > 1]
    yield from _notes(
        [
            f"{'; '.join(dict.fromkeys(laws))}: {remark}"
            for remark, laws in remarks.items()
            if remark not in shared
        ]
    )
    yield from _notes([*shared, *map(prediction_sentence, results.predictions)])
    yield from _notes([each.note for each in results.predictions])


_LAW_HEADINGS = ("law", "model", "images per GPU and step", "serial fraction", "between", "from GPUs")
_LAW_NUMERIC = (False, False, True, True, True, True)


def _law_row(fit: LawFit, *, mixed: bool) -> tuple[str, ...]:
    share = fit.serial_fraction
    return (
        fit.law.capitalize(),
        clean(fit.model) + (" (practice)" if mixed and fit.practice else ""),
        f"{batch:,.0f}" if (batch := fit.baseline.per_gpu_batch) is not None else "–",
        percent_text(share),
        f"{100 * share.lo:.1f} and {100 * share.hi:.1f} %",
        ", ".join(map(str, fit.n_gpus)),
    )


def _notes(sentences: Iterable[str]) -> Iterable[Block]:
    for sentence in dict.fromkeys(each.strip() for each in sentences if each.strip()):
        yield plain(sentence, "note")


def pooled_notes(results: Results, names: set[str]) -> Iterable[Block]:
    """Says where a row of a task rests on runs of other tasks as well."""
    for row in results.measured:
        others = sorted({run.task_id for run in row.members if run.task_id} - names)
        if others and any(run.task_id in names for run in row.members):
            tasks = f"task{'s' if len(others) > 1 else ''} {', '.join(others)}"
            yield plain(f"{clean(row.configuration.label)}: pooled with the equal runs of {tasks}.", "note")


_MODEL = Column("model", lambda row: clean(row.model), number=False)


def _table(rows: Sequence[ResultRow], columns: Sequence[Column]) -> Table:
    """Rows as a table; where all are practice the page says so, and the rows need not."""
    if all(row.practice for row in rows):
        columns = (_MODEL, *columns[1:])
    return Table(
        headings=tuple(column.heading for column in columns),
        rows=tuple(tuple(line) for line in cells(rows, columns)),
        numeric=tuple(column.number for column in columns),
    )
