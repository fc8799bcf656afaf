"""What a log tells: its runs, the failures and GPUs its lines give, and the report made of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Any, Literal

from labtui.domain.model import Device, Diagnosis, EpochSample, Interval, Outcome, Program, Stream, WorkUnit
from labtui.domain.tuning import Tuning


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What a banner, a command, a header line or a record tells about a run; what it does not tell is None."""

    model: str | None = None
    device: Device | None = None
    n_gpus: int | None = None
    batch_size: int | None = None
    """The global batch."""
    batch_per_gpu: int | None = None
    """The batch of one process, for logs that print it (torchrun scripts)."""
    batch_shares: int | None = None
    """How many times the script's own batch option makes the global batch, where the job's header says so."""
    epochs_planned: int | None = None
    images: int | None = None
    learning_rate: float | None = None
    framework: str | None = None
    practice: bool | None = None
    """Whether the practice cluster's own mark stands in its log."""
    small: bool | None = None
    """A small run, or one on CPU devices that stand in for GPUs."""
    tuning: Tuning | None = None
    """What its options change of its speed."""
    sequence_length: int | None = None
    """Tokens of a sequence, where the work is counted in tokens; a batch counts sequences."""
    program: Program | None = None
    """The program whose time this is: it has one sample, and no epochs."""
    processes: int | None = None
    size: str | None = None
    """The size of a program's problem as its line prints it."""
    gpu_kind: str | None = None
    """The GPU's name, without its maker's."""
    tokens_per_step: int | None = None
    process_samples: int | None = None
    """Samples an epoch of one process, where the log gives those; `process_steps` its batches."""
    process_steps: int | None = None
    total_seconds: Interval | None = None
    """Seconds of the whole training as the script itself printed them: set-up and first epoch are in it."""
    gpu_memory: Interval | None = None
    """GiB of GPU memory that rank 0 held at the end, as the script itself printed it."""

    @property
    def stand_in(self) -> bool:
        """Whether no GPU is expected though one may be named."""
        return bool(self.practice or self.small)

    def given(self) -> dict[str, Any]:
        """The fields that are known."""
        return {name: value for name in _FACTS if (value := getattr(self, name)) is not None}

    def with_others(self, other: RunFacts, *, sure: bool = True) -> RunFacts:
        """These facts with another line's; an unsure line fills gaps only. A rehearsal stays one."""
        new = other.given()
        if not sure:
            new = {name: value for name, value in new.items() if getattr(self, name) is None}
        for name in ("practice", "small"):
            if getattr(self, name) or getattr(other, name):
                new[name] = True
        return replace(self, **new) if new else self


_FACTS = tuple(one.name for one in fields(RunFacts))
NO_FACTS = RunFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRun(RunFacts):
    """One run as read from a log."""

    practice: bool = False
    small: bool = False
    framework: str = ""
    size: str = ""
    tuning: Tuning = ()
    outcome: Outcome = "unfinished"
    epochs: tuple[EpochSample, ...] = ()
    throughput: Interval | None = None
    """Units of work per second as the trainer itself printed it, for logs that give a rate and no epoch times."""
    throughput_printed: float | None = None
    """The digits of that rate, where they are not the middle of what they may mean (344 for [344, 345))."""
    batch_seconds: Interval | None = None
    """Seconds a batch, as the trainer last printed it (PyTorch ImageNet and its like)."""
    unit: WorkUnit = "images"
    """What its rate counts, in the log's own word."""
    totals_line: int | None = None
    """The 1-based line of the figures about the whole run."""
    contradictions: tuple[str, ...] = ()
    """Lines of the log that cannot both be true of this run; each names both. Such a run proves no scaling."""
    notes: tuple[str, ...] = ()
    """Why a figure of this run is absent or wider than one would expect; sentences."""
    interleaved: bool = False
    first_line: int = 1
    last_line: int = 1
    gpu_lines: tuple[GpuCount, ...] = ()
    """The lines that tell its GPUs."""

    @property
    def printed_rate(self) -> float | None:
        """Units of work per second as the log prints them."""
        if self.throughput_printed is not None or self.throughput is None:
            return self.throughput_printed
        return self.throughput.value


_GRAVITY = ("unfinished", "completed", "failed", "oom", "cancelled", "time-limit")


def is_worse(outcome: Outcome, than: Outcome) -> bool:
    """Whether the first of two failures of one run names its outcome."""
    return _GRAVITY.index(outcome) > max(1, _GRAVITY.index(than))


@dataclass(frozen=True, slots=True)
class Failure:
    """A process that ended badly; `job_level` when Slurm or the kernel ended the whole job, so its last run."""

    outcome: Outcome
    line: int
    job_level: bool = False


GpuSource = Literal["devices", "replicas", "job", "banner"]
_GPU_RANK: tuple[GpuSource, ...] = ("devices", "replicas", "job", "banner")
"""Where a log tells the number of GPUs of a run, the surest first."""


@dataclass(frozen=True, slots=True)
class GpuCount:
    """A number of GPUs as one line of the log gives it; `device` is cpu where the line names no GPU."""

    source: GpuSource
    count: int
    line: int
    text: str
    device: Device = "gpu"
    stream: Stream = "out"

    def __str__(self) -> str:
        place = f"line {self.line}{' of the .err' if self.stream == 'err' else ''}"
        return f'{place}: "{self.text.strip()[:120]}"'


def most_reliable(found: Iterable[GpuCount]) -> tuple[GpuCount, GpuCount | None]:
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

    `cpu_warnings` counts the trainings that found no GPU for their strategy. `strategies` are the lines that tell
    TensorFlow's GPUs, in the order of the log, whether of a run or not. `mention` is the line (number and text) that
    most likely holds an epoch or a rate and was not read; `binary` is true for what is no text.
    """

    runs: tuple[ParsedRun, ...] = ()
    diagnosis: tuple[Diagnosis, ...] = ()
    failures: tuple[Failure, ...] = ()
    cpu_warnings: int = 0
    strategies: tuple[GpuCount, ...] = ()
    gpu_kind: str | None = None
    mention: tuple[int, str] | None = None
    lines: int = 0
    size: int = 0
    binary: bool = False


NUMBER = r"\d{1,12}(?:\.\d{1,12})?(?:[eE][-+]?\d{1,3})?"


def rounded(text: str) -> Interval:
    """A printed number, perhaps with an exponent (``4.19e+04``), with half a unit of its last place either way."""
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    half = Decimal(10) ** (exponent if isinstance(exponent, int) else 0) / 2
    return Interval(float(number), float(max(Decimal(0), number - half)), float(number + half))


def whole_number(text: str | None) -> int | None:
    """The number that these digits are; None for anything else, and for more than nine of them."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def cut_off(text: str) -> Interval:
    """A number printed by `int(x)`: 344 is anything from 344 to 345. One with decimals is rounded."""
    return Interval.between(float(text), float(text) + 1) if text.isdigit() else rounded(text)


def measured(seconds: float) -> Interval:
    """The interval of a time by a program's own clock: right to a millisecond."""
    return Interval(seconds, max(0.0, seconds - 0.001), seconds + 0.001)
