"""The tables of an export: a page's tables and facts, results.csv with full precision, Markdown.

pandas is imported only when the CSV is written.
"""

import itertools
import re
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from msgspec.structs import replace

from labtui.domain.model import Interval
from labtui.domain.run import CAUSES
from labtui.export.contents import stamp_of
from labtui.results import cost, laws, measured, messages, numbers, report, scaling
from labtui.results.measured import Origin, accuracy_curves, best_curve, by_log, cite
from labtui.results.numbers import Table, clean
from labtui.results.rows import LawFit, ResultRow, Results, named_rows, with_rows

PRECISELY = "Precise: all digits of the log"
_MAX_LINES, _MAX_NAME = 6, 45
BigNumbers = tuple[tuple[str, str], ...]
"""(number, what it says) pairs, shown in large type."""


def readings_table(results: Results) -> Table:
    """Each configuration with both readings side by side, networks as headings within the table."""
    shown = [row for row in results.measured if row.epoch_seconds is not None or row.from_rate]
    compared = any(row.speedup is not None and (row.n_gpus or 0) > 1 for row in shown)
    ratios = (numbers.SPEEDUP, numbers.EFFICIENCY) if compared else ()
    costs = cost.cost_columns(shown)
    learned = (numbers.ACCURACY,) if shown and all(row.has_policy for row in shown) else ()
    precise = numbers.columns_of(shown, (*_PRECISE, *learned, *costs, *ratios))
    printed = numbers.columns_of(shown, numbers.PRINTED[: None if compared else 2]) if not costs else ()
    device = numbers.Column("", lambda row: numbers.device_text(row) + ", so far" * row.live, number=False)
    table = numbers.table_of(shown, (device, *precise, *printed))
    titles = ("", PRECISELY, "As printed: whole seconds")
    groups = tuple(zip(titles, (1, len(precise), len(printed)), strict=True))
    return replace(table, rows=tuple(_with_headings(shown, table.rows)), groups=groups if printed else ())


def _with_headings(rows: Sequence[ResultRow], lines: Sequence[tuple[str, ...]]) -> Iterable[tuple[str, ...]]:
    """The lines of the rows, with each network's name as a heading before its lines."""
    pairs = zip(rows, lines, strict=True)
    for name, found in itertools.groupby(pairs, lambda pair: numbers.NAME.cell(pair[0])):
        yield (name,)
        yield from (line for _, line in found)


_PRECISE = (numbers.BATCH, numbers.EPOCH, numbers.RATE, numbers.PER_GPU, numbers.MEMORY, numbers.TOTAL)


def fraction_table(fits: Sequence[LawFit]) -> Table:
    """Both laws of each network: the serial fraction, its bounds, and the highest speedup it allows."""
    rows = []
    for fit in fits:
        share = fit.serial_fraction
        limit = f"{1 / share.value:.1f}×" if fit.law == "amdahl" and share.value > 0 else "none"
        shown, sizes = messages.serial_text(fit), ", ".join(map(str, fit.n_gpus))
        bounds = messages.serial_bounds(fit) or shown if fit.is_serial else numbers.ABSENT
        law = f"{fit.law.capitalize()}{messages.fits_best(fit, fits)}"
        rows.append((clean(fit.baseline.network), law, shown, bounds, limit, sizes))
    headings = ("network", "law", "serial fraction", "between", "limit", "from GPUs")
    return Table(headings, tuple(rows), (False, False, True, True, True, True))


def results_message(results: Results) -> str:
    """A sentence for a table of results: the value of the only training, else what its lines or its rows show."""
    rows, lines = results.measured, scaling.scaling_lines(results.measured)
    if len(rows) == 1 and (rows[0].epoch_seconds or rows[0].throughput):
        return messages.epoch_message(rows[0]) if rows[0].epoch_seconds else messages.rate_message(rows[0])
    said = messages.scaling_message(lines, {"epoch-time"})  # charts give the speedup
    if said or len({row.n_gpus for row in rows}) != 1:
        return said
    return (messages.times_message if len({row.model for row in rows}) > 1 else messages.tuning_message)(rows)


def readings_message(results: Results) -> str:
    """What whole seconds make of a speedup: ``ResNet50 on four GPUs: 2.80× as printed, 2.53× when read precisely``."""
    read = [row for row in results.measured if row.speedup and row.as_printed.speedup and row.processes > 1]
    gaps = [abs((row.as_printed.speedup or 0.0) - messages.value_of(row.speedup)) for row in read]
    if not read:
        return ""
    row = read[gaps.index(max(gaps))]
    whole, exact = f"{numbers.ratio_text(row.as_printed.speedup)}×", _times(row.speedup)
    where = f"{messages.network_of(row)} on {messages.count_words(row.processes)}"
    told = f"{where}: {whole} as printed, {exact} when read precisely"
    return told if whole != exact else f"Both readings agree: {exact}"


# --------------------------------------------------------------------------- where each number was read


def sources_table(results: Results) -> Table:
    """Where every time and rate was read: job, log and lines."""
    read = [(row, line) for row in (*results.rows, *results.programs) for line in source_rows(row)]
    rows: list[tuple[str, ...]] = [line for _, line in read]
    if max((len(line[0]) for line in rows), default=0) > _MAX_NAME:  # the names as headings within the table
        short = [(row.devices + line[0].removeprefix(clean(row.label)), *line[1:]) for row, line in read]
        rows = [*_with_headings([row for row, _ in read], short)]
    timed = all(row.epoch_seconds is not None for row in results.rows) and not results.programs
    place = "lines (epoch)" if results.rows else "line"
    headings = ("training", "epoch" if timed else "value", "job", "log", place)
    return Table(headings, tuple(rows), (False, True, True, False, False))


def source_rows(row: ResultRow) -> Iterable[tuple[str, str, str, str, str]]:
    """Where a row's times were read: training, time or rate, job, log, lines with their epochs and how a run ended."""
    name = clean(row.label) + (f", batch {row.batch_size:,}" if row.batch_size else "")
    unfinished = (run for run in row.members if run.run.outcome != "completed")
    ends = {run.source: CAUSES[run.run.outcome or ""] for run in unfinished}
    learned = [c for run in row.members for c in accuracy_curves(run) if row.has_policy and c.validation]
    for at, ((job, source), origins) in enumerate(by_log(row.origins).items()):
        lines = _lines_text([origin for origin in origins if origin.line is not None], row.program is None)
        last = (curve.points[-1] for curve in reversed(learned) if curve.run.source == source)
        reached = {numbers.percent_text(top.accuracy): f"{top.line} ({top.epoch})" for top in last}
        told = (f"accuracy {share}: {place}" for share, place in reached.items())
        lines = "; ".join(filter(None, (lines or numbers.ABSENT, *told, ends.get(source))))
        yield name, "" if at else numbers.time_text(row), clean(job) or numbers.ABSENT, clean(source), lines


def _lines_text(origins: Sequence[Origin], epochs: bool) -> str:
    """The lines with their epochs; of many only the first, the last and how many (results.json has them all)."""
    shown = [f"{o.line} ({o.epoch})" if epochs and o.epoch is not None else str(o.line) for o in origins]
    return f"{shown[0]} to {shown[-1]}, {len(shown)} lines" if len(shown) > _MAX_LINES else ", ".join(shown)


# --------------------------------------------------------------------------- facts in large type


def _times(ratio: Interval | None) -> str:
    return f"{numbers.ratio_text(ratio)}×"


def title_facts(results: Results, *, accuracy: bool = False) -> BigNumbers:
    """Up to three numbers for the title page: acceleration, speedups, and the accuracy if `accuracy` asks for it.

    Runs that were cancelled or failed give none.
    """
    rows = [r for r in results.measured if {None, "completed"} & {run.run.outcome for run in r.members}]
    results = with_rows(results, rows)
    faster = [row for row in rows if row.acceleration is not None][:1]
    facts = [(_times(r.acceleration), f"as fast on one GPU as on the CPU, {clean(r.title)}") for r in faster]
    learned = [(each.run, row) for row in named_rows(rows) if row.has_policy for each in row.members]
    reached = [(measured.val_accuracy(run) or 0.0, row) for run, row in learned]
    best, row = max(reached, key=itemgetter(0), default=(0.0, None))
    if best and row is not None:
        where = f"{messages.network_of(row)} on {row.devices}"
        facts.append((numbers.percent_text(best), f"accuracy in validation, last epoch, {where}"))
    largest = {row.model: row for row in named_rows(scaling.by_size(rows))}
    for row in filter(None, map(largest.get, dict.fromkeys(row.model for row in rows))):
        many, network = messages.count_words(row.n_gpus or 0), messages.network_of(row)
        facts.append((_times(row.speedup), f"{messages.faster(row)} on {many} as on one, {network}"))
    if accuracy and (curve := best_curve(results)) is not None:
        which, top = "validation" if curve.validation else "training", curve.best
        facts.append((numbers.percent_text(top.accuracy), f"best {which} accuracy, epoch {top.epoch}"))
    timed = [row for row in results.programs if row.speedup is not None and row.processes > 1]
    if timed and not facts:
        fastest = max(timed, key=lambda row: messages.value_of(row.speedup))
        facts.append((_times(fastest.speedup), f"{fastest.devices}, {clean(fastest.model)}"))
    alone = next((row for row in rows if row.n_gpus == 1 and row.epoch_seconds is not None), None)
    if alone is not None and not facts:
        facts.append((numbers.time_text(alone), f"an epoch on one GPU, {clean(alone.title)}"))
    return tuple(facts[:3])


def large_cells(found: Sequence[Table]) -> BigNumbers:
    """The cells of a one-row `readings_table`, to show in large type instead of a table; () otherwise.

    By their place in that table: devices, batch, the precise columns, the printed ones. The batch comes last.
    """
    if len(found) != 1 or len(found[0].rows) != 2 or len(found[0].rows[0]) > 1:
        return ()
    cells = list(zip(found[0].rows[1], found[0].headings, strict=True))
    last = 1 + dict(found[0].groups).get(PRECISELY, len(cells) - 1)
    printed = {name: f" (as printed {cell})" for cell, name in cells[last:]}
    facts = [(cell, name + printed.get(name, "")) for cell, name in cells[:last]]
    return (*facts[2:], facts[1]) if last <= 5 else ()  # the batch last


def epoch_time_numbers(results: Results) -> BigNumbers:
    """The epoch time of a network on the CPU and on each number of GPUs, four at most."""
    mine = [row for row in results.measured if row.epoch_seconds is not None]
    found = {row.n_gpus: row for row in mine if row.n_gpus is not None}
    names = {n: messages.count_words(n, start=True) if n else "CPU" for n in found}
    return tuple((numbers.time_text(row), names[n]) for n, row in sorted(found.items())[:4])


# --------------------------------------------------------------------------- results.csv

_COLUMNS = """model device n_gpus batch_size per_gpu_batch_size runs epochs practice live images steps epoch_seconds±
    throughput± per_gpu_throughput± speedup± efficiency± step_factor± karp_flatt± acceleration± first_epoch_seconds±
    batch_factor scatter_seconds printed_epoch_seconds printed_throughput printed_speedup printed_efficiency sources
    notes data_set tuning unit total_seconds gpu_memory_gib processes size scaling program_seconds± weak_efficiency
    val_accuracy gpu_hours name"""
"""``name±`` stands for three columns: the value, and its bounds in ``name_lo`` and ``name_hi``."""
COLUMNS = re.sub(r"(\w+)±", r"\1 \1_lo \1_hi", _COLUMNS).split()
_RENAMED = {"warmup_seconds": "first_epoch_seconds", "seconds": "program_seconds", "program": "model"}
"""Fields of the JSON that have another name in the CSV."""
_SCATTER_OF_TIME = {"epoch_seconds", "throughput", "per_gpu_throughput"}
_SCATTER_OF_RATIO = {"speedup", "efficiency", "step_factor"}
"""The columns whose bounds hold the scatter, as on the screens: the row's, and for a ratio its baseline's, too."""


def csv_text(results: Results) -> str:
    """One line per configuration, programs without epochs last, from the fields of the JSON; with Unix line ends.

    Units: seconds, images per second, ratios, fractions of 1, all with full precision (17 significant digits where
    needed). A missing number is an empty cell.
    """
    import pandas as pd

    records = [_record(row, report.row_json(row)) for row in results.rows]
    for timed in results.programs:
        device = timed.configuration.device
        machine = {"device": device, "n_gpus": timed.processes if device == "gpu" else 0, "live": False}
        records.append(_record(timed, report.program_json(timed) | machine))
    # As Python objects: pandas would turn the counts of a column with gaps into floats.
    table = pd.DataFrame(records, columns=COLUMNS, dtype=object)
    table["export"] = stamp_of(results)
    return table.to_csv(index=False, lineterminator="\n")


def _record(row: ResultRow, fields: dict[str, Any]) -> dict[str, Any]:
    """The JSON's fields as columns: an interval as three, the "as printed" reading as ``printed_...``."""
    printed = fields.get("as_printed", {})
    record: dict[str, Any] = {f"printed_{name}": value for name, value in printed.items()}
    for field, value in fields.items():
        name = _RENAMED.get(field, field)
        is_interval = isinstance(value, dict) and "value" in value
        record[name] = value["value"] if is_interval else value
        if is_interval:
            bounds = Interval(**value)
            if name in _SCATTER_OF_TIME | _SCATTER_OF_RATIO:
                bounds = numbers.shown_bounds(row, bounds, ratio=name in _SCATTER_OF_RATIO)
            speedup = row.speedup and numbers.shown_bounds(row, row.speedup, ratio=True)
            if name == "karp_flatt" and speedup and speedup.lo > 0:
                bounds = laws.karp_flatt(speedup, row.processes) or bounds
            record |= {f"{name}_lo": bounds.lo, f"{name}_hi": bounds.hi}
    record["tuning"], record["notes"] = ", ".join(fields.get("tuning", ())), " ".join(row.notes)
    newest = measured.newest_validated(row.members)
    record["sources"] = cite(row.origins, most=20)
    record["val_accuracy"] = newest and measured.val_accuracy(newest.run)
    record["gpu_hours"] = row.gpu_hours or None
    for name in ("model", "name", "data_set", "size", "tuning", "sources", "notes"):
        record[name] = spreadsheet_cell(record.get(name) or "")
    return record


# --------------------------------------------------------------------------- text from outside, in each format

_FORMULA_STARTS = ("=", "{=", "+", "-", "@", "\t", "\r")
_MARKDOWN = str.maketrans(
    {mark: f"\\{mark}" for mark in "\\`*_[]#|~$!"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)


def spreadsheet_cell(text: str) -> str:
    """The text as a cell, as long as one may be, that no spreadsheet takes for a formula."""
    shown = clean(text, 32_000)
    return f"'{shown}" if shown.startswith(_FORMULA_STARTS) else shown


def escape_markdown(text: str) -> str:
    """The text on one line with Markdown and HTML escaped, for notebooks as well."""
    return clean(text).translate(_MARKDOWN)


# --------------------------------------------------------------------------- Markdown


def markdown_text(named: Results, stamp: str) -> str:
    """Both readings as Markdown tables, and the notes as a list; the results have the models' names for people."""
    is_printed = any(numbers.as_printed_text(row) != numbers.ABSENT for row in named.measured)
    tables = (
        ("Precise", named.rows, (*numbers.PRECISE, cost.GPU_HOURS)),
        ("As printed (whole seconds of epoch 2)", named.measured if is_printed else (), numbers.AS_PRINTED),
        ("Programs timed without epochs", named.programs, numbers.PROGRAM),
    )
    parts = []
    for title, rows, columns in (each for each in tables if each[1]):
        table = numbers.table_of(rows, columns)
        rule = ["---:" if number else ":---" for number in table.numeric]
        grid = [table.headings, rule, *([escape_markdown(cell) for cell in line] for line in table.rows)]
        parts += [f"**{title}**", "\n".join(f"| {' | '.join(line)} |" for line in grid)]
    notes = "\n".join(f"- {escape_markdown(note)}" for note in messages.note_lines(named))
    return "\n\n".join(filter(None, (*parts, notes, f"Export: {stamp}"))) + "\n"
