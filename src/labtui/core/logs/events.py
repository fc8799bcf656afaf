"""What a log reader tells: immutable events and the report of a whole log."""

from __future__ import annotations

from dataclasses import dataclass

from labtui.core.model import Diagnosis, EpochSample, Outcome, ParsedRun


@dataclass(frozen=True, slots=True)
class RunBegan:
    """A run began; `run` holds what the log has told so far. `index` counts the runs of this log from 0."""

    index: int
    run: ParsedRun


@dataclass(frozen=True, slots=True)
class EpochRead:
    """An epoch is over. Each epoch of a run is told once."""

    index: int
    sample: EpochSample


@dataclass(frozen=True, slots=True)
class RunClosed:
    """Nothing more will come for this run: another one began, it said so, or the log is complete."""

    index: int
    run: ParsedRun


@dataclass(frozen=True, slots=True)
class DiagnosisFound:
    """A line that explains a failure or a surprise."""

    diagnosis: Diagnosis


LogEvent = RunBegan | EpochRead | RunClosed | DiagnosisFound


GRAVITY: dict[Outcome, int] = {
    "unfinished": -1,
    "completed": -1,
    "failed": 0,
    "oom": 1,
    "cancelled": 2,
    "time-limit": 3,
}
"""Which of two failures of one run names its outcome."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A process that ended badly, in the order of the log: what a run's outcome is drawn from.

    `job_level` is true when Slurm or the kernel ended the whole job: it can only concern the last run.
    """

    outcome: Outcome
    line: int
    job_level: bool = False


@dataclass(frozen=True, slots=True)
class LogReport:
    """All that one log (or a pair of .out and .err) tells.

    `cpu_warnings` counts the trainings that said they found no GPU for their strategy; `binary` is true for
    what is no text.
    """

    runs: tuple[ParsedRun, ...] = ()
    diagnosis: tuple[Diagnosis, ...] = ()
    failures: tuple[Failure, ...] = ()
    cpu_warnings: int = 0
    lines: int = 0
    size: int = 0
    binary: bool = False
