"""Numbers and tables as text for people: no more digits than the interval supports, with unit and uncertainty.

Screens, tables, charts and slides all use this module and its columns, so that a number looks the same everywhere.
Files with full precision are made in `export/tables.py`.

The uncertainty is the larger of reading and scatter. *Reading* is what the printed digits leave open (the hard bounds
of every number, which also hold the mean of each pooled run). *Scatter* is the standard deviation of the steady epochs.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_DOWN, ROUND_HALF_UP, Context, Decimal

import msgspec
from rich.cells import cell_len

from labtui.domain.model import Interval, plural
from labtui.domain.run import mark_words, run_numbers
from labtui.results import grouping, measured
from labtui.results.rows import ResultRow, is_step_time

ABSENT = "–"
"""Shown where there is no number, instead of a zero."""


def decimals(half_width: float, most: int) -> int:
    """How many decimals are worth showing: down to the first one that the half-width affects, `most` at most.

    Below zero: that many whole digits are not.
    """
    return most if half_width <= 0 else min(most, math.ceil(-math.log10(half_width * 1.0000001)))


def rate_text(rate: Interval | float | None) -> str:
    """Images or tokens per second: three digits, and more whole ones where its bounds support them: ``3,676``.

    Two decimals below ten.
    """
    if rate is None:
        return ABSENT
    value, half = (rate.value, rate.half_width) if isinstance(rate, Interval) else (rate, 0.0)
    return fixed(value, 2 if value < 10 else max(3 - len(f"{value:.0f}"), decimals(half, most=0)))


def _supported_text(value: Interval | float, most: int) -> str:
    """A number with as many decimals as its interval supports, `most` at most."""
    if not isinstance(value, Interval):
        return fixed(value, most)
    return fixed(value.value, max(0, decimals(value.half_width, most)))


def ratio_text(ratio: Interval | float | None) -> str:
    """A ratio: ``1.68``; ``1.7`` where it is known to a tenth. From ten on a measured one has one decimal: ``15.0``."""
    if ratio is None:
        return ABSENT
    return _supported_text(ratio, 1 if isinstance(ratio, Interval) and ratio.value >= 10 else 2)


def percent_text(fraction: Interval | float | None) -> str:
    """A fraction of 1 as percent with at most one decimal: ``84.0 %``; ``84 %`` where it is known to a percent."""
    if fraction is None:
        return ABSENT
    percent = fraction.scaled(100) if isinstance(fraction, Interval) else 100 * fraction
    return f"{_supported_text(percent, 1)} %"


def lost_text(efficiency: Interval | None) -> str:
    """The percentage points that are missing from 100 %: ``36.8``."""
    lost = None if efficiency is None else Interval.exact(1.0).minus(efficiency)
    return percent_text(lost).removesuffix(" %")


def in_digits_of(shown: str, value: float, rounding: str = ROUND_HALF_UP) -> str:
    """A part of a number, or a bound of it, with the decimals and the unit (%, points) of the number as `shown`."""
    number, blank, unit = shown.partition(" ")
    return fixed(value * (100 if unit else 1), len(number.partition(".")[2]), rounding) + blank + unit


def bounds_text(interval: Interval, shown: str) -> str:
    """The bounds, rounded outwards, with the decimals of the value as `shown`: ``1.68 to 1.72``.

    "" where they are within half of the last decimal, which the digits say already.
    """
    nearest = in_digits_of(shown, interval.lo), in_digits_of(shown, interval.hi, ROUND_HALF_DOWN)
    low, high = in_digits_of(shown, interval.lo, ROUND_FLOOR), in_digits_of(shown, interval.hi, ROUND_CEILING)
    return "" if set(nearest) == {shown} else f"{low.partition(' ')[0]} to {high}"


def metrics_text(metrics: Mapping[str, float]) -> str:
    """An epoch's metrics: ``loss 1.13  val_accuracy 63.3 %``; accuracies in percent, equal ones once."""
    told: dict[tuple[bool, str], str] = {}
    for name, value in metrics.items():
        share = measured.fraction_of(name, value)
        text = f"{value:.4g}" if share is None else percent_text(share)
        if not is_step_time(name):
            said = f"{name.replace('_per_second', '/s')} {text}"
            told.setdefault((name.startswith("val_"), name if share is None else text), said)
    return "  ".join(told.values())


def clean(text: str, most: int = 200) -> str:
    """Text from a log made safe to print: no control characters or line breaks, `most` characters at most."""
    return "".join(mark if mark.isprintable() else "�" for mark in text[:most])


def unique(names: Sequence[str], end: str) -> list[str]:
    """The names; later ones of several that differ by case at most have their number at the `end`."""
    alike = [name.casefold() for name in names]
    counts = [alike[: at + 1].count(name) for at, name in enumerate(alike)]
    return [name + end.format(count) * (count > 1) for name, count in zip(names, counts, strict=True)]


def shown_bounds(row: ResultRow, value: Interval, *, ratio: bool = False) -> Interval:
    """A number that follows from a row's epoch time, with the bounds that are shown: reading or scatter.

    A `ratio` to the row's baseline has the scatter of both rows. A rate has scatter where its time has.
    """
    both = (row, row.baseline) if ratio and row.baseline is not None else (row,)
    share = math.hypot(*(_scatter_share(each) for each in both))
    time = value if ratio or row.epoch_seconds is None else row.epoch_seconds
    if share * time.value <= time.half_width or (ratio and row.is_baseline):
        return value
    low, high = max(0.0, value.value * (1 - share)), value.value * (1 + share)
    return Interval(value.value, min(value.lo, low), max(value.hi, high))


def bounds_source(row: ResultRow) -> str:
    """Where the bounds of a row come from, and what would narrow them: the log's digits, or epochs that differ."""
    time, scatter = row.epoch_seconds, row.scatter
    if scatter is not None and time is not None and scatter.deviation > (time.hi - time.lo) / 2:
        return f"scatter of {scatter.count} epochs"
    return "more digits narrow it"


def _scatter_share(row: ResultRow) -> float:
    known = row.scatter is not None and row.epoch_seconds is not None and row.epoch_seconds.value > 0
    return row.scatter.deviation / row.epoch_seconds.value if known else 0.0  # type: ignore[union-attr]


def three_digits(value: float) -> str:
    """A number with three significant digits: ``215``, ``13.6``, ``0.633``, ``3,680``; never with an exponent."""
    if abs(value) < 1e-12 or not math.isfinite(value):
        return "0"
    rounded = _THREE_DIGITS.plus(_decimal(value))
    return f"{rounded:,.{max(0, 2 - rounded.adjusted())}f}"


_THREE_DIGITS = Context(prec=3, rounding=ROUND_HALF_UP)


def seconds_text(time: Interval | None) -> str:
    return ABSENT if time is None else three_digits(time.value)


def whole_text(time: Interval | None) -> str:
    """The time of a whole training in seconds; cut off where a log has only the whole seconds of its script."""
    return f"{int(time.lo):,}" if time is not None and time.half_width >= 0.5 else rate_text(time)


def tick_text(value: float, *, percent: bool = False) -> str:
    """A number on an axis: in percent, or with thousands separators and no more digits than needed."""
    if percent:
        return f"{100 * value:.0f}" if abs(100 * value) >= 1 or value == 0 else f"{100 * value:.2g}"
    return f"{value:,.0f}" if abs(value) >= 100 or value == round(value) else f"{Decimal(f'{value:.3g}'):f}"


def round_epochs(epochs: Sequence[float], most: int) -> list[float]:
    """About so many epochs at most: all of them, or the first and the multiples of 5, 10, 20, 50 ..."""
    steps = (factor * 10**power for power in itertools.count() for factor in (1, 2, 5))
    step = next(each for each in steps if each != 2 and len(epochs) <= most * each)
    return [x for x in epochs if x == epochs[0] or x % step == 0]


def tick_texts(values: Sequence[float], *, percent: bool = False) -> list[str]:
    """The numbers on an axis, with as many decimals as tell them apart."""
    texts = [tick_text(value, percent=percent) for value in values]
    for places in range(1, 6 * (len(set(texts)) < len(texts))):
        texts = [fixed(value * (100 if percent else 1), places) for value in values]
        if len(set(texts)) == len(texts):
            break
    return texts


def fixed(value: float, places: int, rounding: str = ROUND_HALF_UP) -> str:
    """`value` with `places` decimals, halves up as in spreadsheets and PowerPoint's charts: 17.95 is ``18.0``.

    What is rounded up or down is taken as a printable number up to a twentieth of the last place beyond it: by the
    noise of floats, or by what two clocks differ.
    """
    if not math.isfinite(value):
        return f"{value}"
    noise = {ROUND_CEILING: -0.05, ROUND_FLOOR: 0.05}.get(rounding, 0.0)
    rounded = _decimal(value + noise / 10**places).scaleb(places).to_integral_value(rounding).scaleb(-places)
    return f"{rounded + 0:,.{max(0, places)}f}"  # no "-0.0"


def _decimal(value: float) -> Decimal:
    """The decimal number that a float stands for: 100 x 0.2355 is 23.55, not 23.549999999999997."""
    return Decimal(f"{value:.12g}")


def plus_minus(half_width: float, places: int) -> str:
    """`` ±0.1``: rounded up, as bounds are rounded outwards; "" up to half of the last place, which it implies."""
    counts = fixed(half_width, places, ROUND_HALF_DOWN).strip("0.")
    return f" ±{fixed(half_width, places, ROUND_CEILING)}" if counts else ""


def interval_text(value: Interval) -> str:
    """``17.9 ±0.1``: three digits, and the half-width at the last of them.

    Where the two sides differ, its bounds: ``4.99 (3.82 to 14.66)``.
    """
    text = three_digits(value.value)
    whole, _, decimal = text.replace(",", "").partition(".")
    places = len(decimal) or min(0, 3 - len(whole))
    below, above = value.value - value.lo, value.hi - value.value
    if abs(above - below) > 10.0**-places:
        return f"{text} ({bounds_text(value, text)})"
    return text + plus_minus(max(below, above), places)


def with_uncertainty(row: ResultRow, value: Interval | None) -> str:
    """A row's number in three digits with its uncertainty: ``14.0 ±0.5``. A dash for no number."""
    return ABSENT if value is None else interval_text(shown_bounds(row, value))


class Column(msgspec.Struct, frozen=True):
    """A column: its heading, the text of a row's cell, and whether it holds numbers (right-aligned).

    A table leaves out an `optional` column in which no row has anything.
    """

    heading: str
    cell: Callable[[ResultRow], str]
    number: bool = True
    optional: bool = False


class Table(msgspec.Struct, frozen=True):
    """A table of texts; `numeric` columns are right-aligned.

    `groups` are headings over several columns, each with its number of columns. A row of one cell is a heading within
    the table.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    groups: tuple[tuple[str, int], ...] = ()
    note: str = ""


def device_text(row: ResultRow) -> str:
    """``CPU``, ``2 GPUs`` or ``unknown``."""
    return grouping.devices(row.n_gpus, cpu="CPU", unknown="unknown")


def epochs_text(row: ResultRow) -> str:
    """What a row is measured from: ``8 epochs of runs 3, 4``, with ``, live`` while a run is in progress."""
    known = sorted({origin.run_id for origin in row.origins if origin.run_id is not None})
    runs = run_numbers(known).lower() if len(known) == row.runs else plural(row.runs, "run")
    if row.from_rate:
        text = f"rate of {runs}"
    elif row.epoch_seconds is None:
        text = "warm-up only" if row.epochs_read else "no epoch"
    else:
        text = f"{plural(row.epochs, 'epoch')} of {runs}"
    return f"{text}, live" if row.live else text


_WHAT = (
    Column("model", lambda row: clean(row.name) + mark_words(row.mark), number=False),
    Column("device", device_text, number=False),
    Column("global batch", lambda row: ABSENT if row.batch_size is None else f"{row.batch_size:,}"),
)

NAME, _, BATCH = _WHAT
EPOCH = Column("epoch, s", lambda row: with_uncertainty(row, row.epoch_seconds), optional=True)
RATE = Column("images/s", lambda row: rate_text(row.throughput))
PER_GPU = Column(
    "images/s per GPU",
    lambda row: rate_text(row.per_gpu_throughput if row.configuration.unit == "tokens" else None),
    optional=True,
)
MEMORY = Column("GPU memory, GiB", lambda row: memory_text(row.gpu_memory), optional=True)
TOTAL = Column("whole training, s", lambda row: whole_text(row.total_seconds), optional=True)
SPEEDUP = Column("speedup", lambda row: ratio_text(row.speedup))
EFFICIENCY = Column("efficiency", lambda row: percent_text(row.efficiency))
PRINTED = (
    Column("epoch, s", lambda row: _seconds_printed(row) or ABSENT, optional=True),
    Column("images/s", lambda row: rate_text(row.as_printed.throughput), optional=True),
    Column("speedup", lambda row: ratio_text(row.as_printed.speedup)),
    Column("efficiency", lambda row: percent_text(row.as_printed.efficiency)),
)
_EPOCHS = Column("epochs", epochs_text, number=False)


def _accuracy_text(row: ResultRow) -> str:
    """The accuracy in validation of the newest run, with its number where several are pooled: ``4.8 % (run 13)``."""
    newest = measured.newest_validated(row.members)
    return percent_text(measured.val_accuracy(newest.run) if newest else None) + _which(newest, row)


def _which(run: measured.MeasuredRun | None, row: ResultRow) -> str:
    """The run of a row's number that is no mean, where several are pooled."""
    return f" ({run.label})" if run and run.run_id and len(row.members) > 1 else ""


ACCURACY = Column("val. accuracy", _accuracy_text, optional=True)
PRECISE = (*_WHAT, ACCURACY, EPOCH, RATE, PER_GPU, MEMORY, TOTAL, SPEEDUP, EFFICIENCY, _EPOCHS)
"""The precise reading: all digits of the log, with the uncertainty."""

AS_PRINTED = (*_WHAT, *PRINTED)
"""The textbooks' reading: whole printed seconds of epoch 2."""


def _seconds_printed(row: ResultRow, unit: str = "") -> str:
    seconds = row.as_printed.epoch_seconds
    return "" if seconds is None else f"{seconds:g}{unit}{_which(row.printed_run, row)}"


def as_printed_text(row: ResultRow) -> str:
    """The textbooks' reading: seconds of epoch 2 or the printed rate, speedup, efficiency: ``14 s, 2.80, 70.0 %``."""
    printed = row.as_printed
    rate = "" if printed.throughput is None else f"{rate_text(printed.throughput)}/s"
    first = _seconds_printed(row, " s") or rate
    if not first or printed.speedup is None:
        return first or ABSENT
    return f"{first}, {ratio_text(printed.speedup)}, {percent_text(printed.efficiency)}"


ANSWER = (*PRECISE, Column("as printed", as_printed_text, number=False, optional=True))
"""The precise reading, and the textbooks' reading in one column."""


def time_text(row: ResultRow) -> str:
    """A program's time in its unit: ``648.91 s``; a training's seconds per epoch, else its rate."""
    if row.program is None and row.epoch_seconds is None:
        return ABSENT if row.throughput is None else f"{rate_text(row.throughput)} {row.configuration.unit}/s"
    if row.program is None:
        return f"{seconds_text(row.epoch_seconds)} s"
    return ABSENT if row.shown is None else f"{fixed(row.shown.value, 2)} {row.program.shown_in}"


def _half_width(time: Interval | None) -> str:
    half = 0.0 if time is None else time.half_width
    return fixed(half, max(0, decimals(half or 1.0, most=3)), ROUND_CEILING)


PROGRAM = (
    Column("program", lambda row: clean(row.model) + mark_words(row.mark), number=False),
    Column("size", lambda row: clean(row.size) or ABSENT, number=False),
    Column("on", lambda row: row.devices),
    Column("time", time_text),
    Column("±", lambda row: _half_width(row.shown)),
    msgspec.structs.replace(SPEEDUP, optional=True),
    Column("efficiency", lambda row: percent_text(None if row.is_weak else row.efficiency), optional=True),
    Column(
        "weak efficiency", lambda row: percent_text(row.efficiency if row.is_weak else None), optional=True
    ),
)
"""The columns of programs that are timed without epochs."""


def memory_text(memory: Interval | None) -> str:
    """GiB used on rank 0: ``53`` for a number that the script truncated, ``61.89`` for one it rounded."""
    if memory is None:
        return ABSENT
    return fixed(memory.lo, 0) if memory.half_width >= 0.4 else fixed(memory.value, 2)


def unit_of(rows: Sequence[ResultRow]) -> str:
    """What the rates of these rows count: ``images``, ``tokens``, or ``units`` where both occur."""
    units = {row.configuration.unit for row in rows}
    return units.pop() if len(units) == 1 else "units" if units else "images"


def columns_of(rows: Sequence[ResultRow], columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns that any of these rows has, with the unit of their rates in the headings."""
    told = [each for each in columns if not each.optional or any(each.cell(row) != ABSENT for row in rows)]
    name = "name" if any(row.called for row in rows) else "model"  # of own jobs
    heads = (each.heading.replace("images", unit_of(rows)).replace("model", name) for each in told)
    return tuple(msgspec.structs.replace(each, heading=head) for each, head in zip(told, heads, strict=True))


def table_of(rows: Sequence[ResultRow], columns: Sequence[Column]) -> Table:
    """The table of some rows, for a terminal, a file or a page."""
    columns = columns_of(rows, columns)
    cells = tuple(tuple(column.cell(row) for column in columns) for row in rows)
    return Table(tuple(each.heading for each in columns), cells, tuple(each.number for each in columns))


NAMING = 3
"""The number of leading columns that name the run: model, device, global batch."""
_GAP = 2


def text_table(rows: Sequence[ResultRow], columns: Sequence[Column], width: int | None = None) -> str:
    """An aligned table for a terminal; "" without rows.

    Where it is wider than `width` cells, it is split, with the models as headings of their rows.
    """
    if not rows:
        return ""
    table = table_of(rows, columns)
    grid, names = [table.headings, *table.rows], ["", *(line[0] for line in table.rows)]
    whole = grid_text(grid, table.numeric)
    if width is None or max(map(cell_len, whole.split("\n"))) <= width:
        return whole
    heads = [f"{name}\n" if name != before else "" for before, name in zip(["", *names], names, strict=False)]
    split = grid_text([line[1:] for line in grid], table.numeric[1:], naming=NAMING - 1, width=width)
    return "\n\n".join("\n".join(map(str.__add__, heads, part.split("\n"))) for part in split.split("\n\n"))


def grid_text(
    grid: Sequence[Sequence[str]], numbers: Sequence[bool], *, naming: int = 0, width: int | None = None
) -> str:
    """The grid as aligned lines of text; `numbers` says which columns are right-aligned.

    Columns that do not fit into `width` cells go into further tables below, each with the first `naming` columns again.
    """
    widths = [max(map(cell_len, column)) for column in zip(*grid, strict=True)]
    parts = [[*range(naming)]]
    for place in range(naming, len(widths)):
        needed = sum(widths[at] + _GAP for at in (*parts[-1], place)) - _GAP
        if width is not None and needed > width and len(parts[-1]) > naming:
            parts.append([*range(naming)])
        parts[-1].append(place)

    def padded(line: Sequence[str], at: int) -> str:
        blank = " " * (widths[at] - cell_len(line[at]))
        return blank + line[at] if numbers[at] else line[at] + blank

    gap = " " * _GAP
    tables = ([gap.join(padded(line, at) for at in places).rstrip() for line in grid] for places in parts)
    return "\n\n".join(map("\n".join, tables))
