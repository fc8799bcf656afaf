"""Programs that are timed without epochs (MPI, a stencil): one row for each size and number of processes.

Strong and weak scaling are never mixed: a program says which of the two its sizes are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from labtui.domain.model import Interval, Program
from labtui.results.measured import MeasuredRun, Origin
from labtui.slurm.values import number
from labtui.training_logs.patterns import BASELINE

_SCALES = {"s": 1.0, "ms": 1e3}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRow:
    """The time of a program on so many processes, in seconds; repetitions are pooled.

    `size` is that of the problem, "" where nothing tells it. `speedup` and `efficiency` are strong scaling's,
    `weak_efficiency` is weak scaling's; None where there is no time to compare with. `baseline` is the time of one
    process that the run's own line repeats: compared with where there is no run of one process.
    """

    program: Program
    size: str
    processes: int
    practice: bool
    seconds: Interval
    runs: int
    run_ids: tuple[int, ...] = ()
    tasks: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()
    speedup: Interval | None = None
    efficiency: Interval | None = None
    weak_efficiency: Interval | None = None
    notes: tuple[str, ...] = ()
    baseline: Interval | None = None

    @property
    def series(self) -> str:
        """What its marks are called: the program, and the size of strong scaling's problem."""
        weak = self.program.scaling == "weak" or not self.size
        return self.program.name if weak else f"{self.program.name} ({self.size})"

    @property
    def shown(self) -> Interval:
        """The time in the program's own unit."""
        return self.seconds.scaled(_SCALES[self.program.shown_in])


def baseline_text(program: Program) -> str:
    """What the others are compared with: ``the sequential program``, ``1 process``, ``1 GPU``."""
    return "the sequential program" if program.sequential else program.counted(1)


def program_rows(runs: Iterable[MeasuredRun]) -> tuple[ProgramRow, ...]:
    """The rows of the runs that are a program's, by program, size and processes; others are left out."""
    groups: dict[tuple[bool, str, int, int, str], list[MeasuredRun]] = {}
    for run in runs:
        parsed = run.run
        if parsed.program is not None and parsed.processes and parsed.epochs:
            work = work_of(parsed.size) or 0
            practice = run.practice or parsed.practice
            key = (practice, parsed.program.name, work, parsed.processes, parsed.size)
            groups.setdefault(key, []).append(run)
    rows = [row for _, members in sorted(groups.items()) if (row := _timed_row(members)) is not None]
    return tuple(_program_compared(row, rows) for row in rows)


def _timed_row(members: Sequence[MeasuredRun]) -> ProgramRow | None:
    first = members[0]
    samples = [(run, sample) for run in members for sample in run.run.epochs]
    seconds = Interval.mean([sample.seconds for _, sample in samples])
    if seconds is None or first.run.program is None or seconds.lo <= 0:
        return None
    repeated = [
        Interval(*(sample.metrics[name] for name in BASELINE))
        for _, sample in samples
        if sample.metrics.keys() >= set(BASELINE)
    ]
    return ProgramRow(
        program=first.run.program,
        size=first.run.size,
        processes=first.run.processes or 1,
        practice=first.practice or first.run.practice,
        seconds=seconds,
        runs=len(members),
        run_ids=tuple(run.run_id for run in members if run.run_id is not None),
        tasks=tuple(dict.fromkeys(run.task_id for run in members if run.task_id)),
        origins=tuple(run.origin(sample) for run, sample in samples),
        baseline=Interval.mean(repeated),
    )


def work_of(size: str) -> int | None:
    """The work that a size stands for: its numbers multiplied; None where it tells none."""
    numbers = [found for word in size.split("x") if (found := number(word)) is not None]
    return math.prod(numbers) if len(numbers) == size.count("x") + 1 else None


def _program_compared(row: ProgramRow, rows: Sequence[ProgramRow]) -> ProgramRow:
    """The row with its ratios to the time of one process."""
    weak, base = row.program.scaling == "weak", baseline_text(row.program)
    first = next(
        (
            one
            for one in rows
            if (one.program.name, one.practice, one.processes) == (row.program.name, row.practice, 1)
            and (weak or one.size == row.size)
        ),
        None,
    )
    own = row.baseline if first is None and not weak and row.baseline and row.baseline.lo > 0 else None
    one_process = first.seconds if first is not None else own
    notes = row.notes
    if one_process is None:
        return replace(row, notes=(*notes, f"There is no time of {base} to compare with."))
    if own is not None:
        notes = (*notes, f"Compared with the time of {base} in its own line.")
    ratio = Interval.exact(1.0) if first is row else one_process.over(row.seconds)
    if not weak:
        return replace(row, speedup=ratio, efficiency=ratio.scaled(1 / row.processes), notes=notes)
    one, mine = work_of(first.size) if first is not None else None, work_of(row.size)
    if one is not None and mine is not None and mine != one * row.processes:
        grown = f"Its size is not {row.processes:,} times that of one process: this is not weak scaling."
        return replace(row, notes=(*notes, grown))
    return replace(row, weak_efficiency=ratio)
