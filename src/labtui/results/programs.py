"""Programs that are timed without epochs (MPI, a stencil): one row for each size and number of processes.

Strong and weak scaling are never mixed: a program says which of the two its sizes are.
"""

import math
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from labtui.domain.model import Interval, Program
from labtui.results.grouping import Configuration
from labtui.results.measured import MeasuredRun
from labtui.results.rows import ResultRow
from labtui.slurm.values import number
from labtui.training_logs.patterns import BASELINE


def baseline_text(program: Program) -> str:
    """What the others are compared with: ``the sequential program``, ``1 process``, ``1 GPU``."""
    return "the sequential program" if program.sequential else program.counted(1)


def program_rows(runs: Iterable[MeasuredRun]) -> tuple[ResultRow, ...]:
    """The rows of the runs that are a program's, by program, size and processes; others are left out.

    `n_gpus` is the number of processes, `data_set` the size; repetitions are pooled.
    """
    groups: dict[Configuration, list[MeasuredRun]] = {}
    for run in runs:
        parsed = run.run
        if parsed.program is not None and parsed.processes and parsed.epochs:
            made = Configuration(
                practice=run.practice or parsed.practice,
                model=parsed.program.name,
                framework="",
                device="gpu" if parsed.program.counts == "GPUs" else "cpu",
                n_gpus=parsed.processes,
                batch_size=None,
                images=None,
                data_set=parsed.size,
            )
            groups.setdefault(made, []).append(run)
    ordered = sorted(groups.items(), key=lambda each: _order(each[0]))
    rows = [row for made, members in ordered if (row := _timed_row(made, members)) is not None]
    return tuple(_compared(row, rows) for row in rows)


def _order(one: Configuration) -> tuple[object, ...]:
    return one.practice, one.model, work_of(one.data_set) or 0, one.n_gpus, one.data_set


def _timed_row(configuration: Configuration, members: Sequence[MeasuredRun]) -> ResultRow | None:
    samples = [(run, sample) for run in members for sample in run.run.epochs]
    seconds = Interval.mean([sample.seconds for _, sample in samples])
    if seconds is None or seconds.lo <= 0:
        return None
    return ResultRow(
        configuration=configuration,
        members=tuple(members),
        runs=len(members),
        epochs=0,
        epoch_seconds=seconds,
        origins=tuple(run.origin(sample) for run, sample in samples),
    )


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
    base, one_process = baseline_text(row.program), None
    first = next((one for one in rows if one.processes == 1 and _alike(one, row)), None)
    if first is not None:
        one_process = first.epoch_seconds
    elif not row.is_weak and (one_process := _own_baseline(row)) is not None:
        row = replace(row, notes=(f"Compared with the time of {base} in its own line.",))
    if one_process is None or row.epoch_seconds is None:
        return replace(row, notes=(f"There is no time of {base} to compare with.",))
    ratio = Interval.exact(1.0) if first is row else one_process.over(row.epoch_seconds)
    row = replace(row, baseline=first)
    if not row.is_weak:
        return replace(row, speedup=ratio, efficiency=ratio.scaled(1 / row.processes))
    one, mine = work_of(first.size) if first is not None else None, work_of(row.size)
    if one is not None and mine is not None and mine != one * row.processes:
        grown = f"Its size is not {row.processes:,} times that of one process: this is not weak scaling."
        return replace(row, notes=(grown,))
    return replace(row, weak_efficiency=ratio)


def _alike(one: ResultRow, row: ResultRow) -> bool:
    same = (one.model, one.practice) == (row.model, row.practice)
    return same and (row.is_weak or one.size == row.size)
