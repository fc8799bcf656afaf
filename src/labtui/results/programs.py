"""Programs that are timed without epochs (MPI, a stencil): one row for each size and number of processes.

Strong and weak scaling are never mixed: a program says which of the two its sizes are.
"""

import math
from collections.abc import Sequence

from msgspec.structs import replace

from labtui.domain.model import Interval
from labtui.results.rows import ResultRow
from labtui.slurm.values import number
from labtui.training_logs.patterns import BASELINE


def program_rows(measured: Sequence[ResultRow]) -> tuple[ResultRow, ...]:
    """The rows of programs among those that are measured, compared with the time of one process."""
    rows = [row for row in measured if row.program and row.epoch_seconds and row.epoch_seconds.lo > 0]
    return tuple(_compared(row, rows) for row in rows)


def work_of(size: str) -> int | None:
    """The work that a size stands for: its numbers multiplied; None where it tells none."""
    numbers = [found for word in size.split("x") if (found := number(word)) is not None]
    return math.prod(numbers) if len(numbers) == size.count("x") + 1 else None


def _own_baseline(row: ResultRow) -> Interval | None:
    """The time of one process that the lines of a row's runs repeat."""
    found = (sample.metrics for run in row.members for sample in run.run.epochs)
    return Interval.mean([
        Interval(*(metrics[name] for name in BASELINE))
        for metrics in found
        if metrics.keys() >= set(BASELINE) and metrics[BASELINE[1]] > 0
    ])  # fmt: skip


def _compared(row: ResultRow, rows: Sequence[ResultRow]) -> ResultRow:
    """The row with its ratios to the time of one process."""
    if row.program is None:
        return row
    base, one_process = row.program.baseline, None
    first = next((one for one in rows if one.processes == 1 and _alike(one, row)), None)
    if first is not None:
        one_process = first.epoch_seconds
    elif not row.is_weak and (one_process := _own_baseline(row)) is not None:
        row = row.noted(f"Compared with the time of {base} in its own line.")
    if one_process is None or row.epoch_seconds is None:
        return row.noted(f"There is no time of {base} to compare with.")
    ratio = Interval.exact(1.0) if first is row else one_process.over(row.epoch_seconds)
    row = replace(row, baseline=first)
    if not row.is_weak:
        return replace(row, speedup=ratio, efficiency=ratio.scaled(1 / row.processes))
    one, mine = work_of(first.size) if first is not None else None, work_of(row.size)
    if one is not None and mine is not None and mine != one * row.processes:
        return row.noted(
            f"Its size is not {row.processes:,} times that of one process: this is not weak scaling."
        )
    return replace(row, weak_efficiency=ratio)


def _alike(one: ResultRow, row: ResultRow) -> bool:
    same = (one.model, one.practice) == (row.model, row.practice)
    return same and (row.is_weak or one.size == row.size)
