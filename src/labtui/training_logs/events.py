"""What a log reader tells: immutable events and the report of a whole log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from labtui.domain.model import Device, Diagnosis, EpochSample, Outcome, ParsedRun, Stream


@dataclass(frozen=True, slots=True)
class RunBegan:
    """A run began; `run` holds what the log has given so far. `index` counts the runs of this log from 0."""

    index: int
    run: ParsedRun


@dataclass(frozen=True, slots=True)
class EpochRead:
    """An epoch is over. An epoch that comes again is a correction."""

    index: int
    sample: EpochSample


@dataclass(frozen=True, slots=True)
class RunClosed:
    """Nothing more will come for this run: another one began, it ended, or the log is complete."""

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


GpuSource = Literal["devices", "replicas", "job", "banner"]
_GPU_RANK: tuple[GpuSource, ...] = ("devices", "replicas", "job", "banner")
"""Where a log tells the number of GPUs of a run, the surest first: the devices that TensorFlow used, the replicas
of its strategy, and what the script or its command intended."""


@dataclass(frozen=True, slots=True)
class GpuCount:
    """A number of GPUs as one line of the log gives it; `device` is cpu where the line names no GPU.

    `stream` is the log the line stands in.
    """

    source: GpuSource
    count: int
    line: int
    text: str
    device: Device = "gpu"
    stream: Stream = "out"

    def __str__(self) -> str:
        place = f"line {self.line}{' of the .err' if self.stream == 'err' else ''}"
        return f'{place}: "{self.text.strip()[:120]}"'


def surest(found: Iterable[GpuCount]) -> tuple[GpuCount, GpuCount | None]:
    """The surest of these counts, and the next surest that cannot be true beside it; at least one is given."""
    best, *others = sorted(found, key=lambda one: _GPU_RANK.index(one.source))
    other = next((one for one in others if (one.count, one.device) != (best.count, best.device)), None)
    return best, None if best.device == "cpu" else other


def contradiction(other: GpuCount, best: GpuCount) -> tuple[str, str]:
    """Two lines that cannot both be true, as the text of a finding and its advice."""
    of_whom = "the job has" if best.source == "job" else "TensorFlow reports"
    count = f"{best.count} GPU{'s' if best.count != 1 else ''}"
    advice = (
        f"These two lines cannot both be true. labtui counts {count}, the number that {of_whom}, and "
        "leaves this run out of speedups: check the GPUs the job asked for and the script's strategy."
    )
    return f"{other}; {best}", advice


@dataclass(frozen=True, slots=True)
class LogReport:
    """All that one log (or a pair of .out and .err) tells.

    `cpu_warnings` counts the trainings that found no GPU for their strategy, `groups_done` those whose
    launcher reported that all processes ended well. `gpus` are the lines that tell each run's GPUs (as many as
    runs), `strategies` those of TensorFlow, in the order of the log, whether of a run or not. `mention` is the first
    line (number and text) that looks like an epoch or a rate and was not read; `binary` is true for what is no text.
    """

    runs: tuple[ParsedRun, ...] = ()
    diagnosis: tuple[Diagnosis, ...] = ()
    failures: tuple[Failure, ...] = ()
    cpu_warnings: int = 0
    groups_done: int = 0
    gpus: tuple[tuple[GpuCount, ...], ...] = ()
    strategies: tuple[GpuCount, ...] = ()
    mention: tuple[int, str] | None = None
    lines: int = 0
    size: int = 0
    binary: bool = False
