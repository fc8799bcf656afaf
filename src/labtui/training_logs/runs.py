"""What a log tells: its runs, the failures and GPUs its lines give, and the report made of them."""

from collections.abc import Iterable
from decimal import Decimal

import msgspec
from msgspec.structs import replace

from labtui.domain.model import Diagnosis, Interval, Outcome, plural
from labtui.domain.run import NO_FACTS, GpuCount, GpuSource, RunFacts, RunRecord

__all__ = ["NO_FACTS", "GpuCount", "GpuSource", "RunFacts", "RunRecord"]


class ParsedRun(RunRecord, frozen=True, kw_only=True):
    """A run as read from a log that goes no further."""

    outcome: Outcome = "unfinished"


_GRAVITY = ("unfinished", "completed", "failed", "oom", "cancelled", "time-limit")


def is_worse(outcome: Outcome, than: Outcome) -> bool:
    """Whether the first of two failures of one run names its outcome."""
    return _GRAVITY.index(outcome) > max(1, _GRAVITY.index(than))


class Failure(msgspec.Struct, frozen=True):
    """A process that ended badly; `job_level` when Slurm or the kernel ended the whole job, so its last run."""

    outcome: Outcome
    line: int
    job_level: bool = False


_GPU_RANK: tuple[GpuSource, ...] = ("devices", "replicas", "job", "banner")
"""Where a log tells the number of GPUs of a run, the surest first."""


def most_reliable(found: Iterable[GpuCount]) -> tuple[GpuCount, GpuCount | None]:
    """The surest of these counts, and the next surest that cannot be true beside it; at least one is given."""
    best, *others = sorted(found, key=lambda one: _GPU_RANK.index(one.source))
    other = next((one for one in others if (one.count, one.device) != (best.count, best.device)), None)
    return best, None if best.device == "cpu" else other


def count_gpus(run: ParsedRun) -> ParsedRun:
    """The run with its surest number of GPUs, and the lines that contradict each other.

    A CPU is one replica, too, and CPU devices that stand in for GPUs are meant: neither counts.
    """
    if not run.gpu_lines or run.mark or run.device == "cpu":
        return run
    best, other = most_reliable(run.gpu_lines)
    texts = () if other is None else (f"{other}; {best}",)
    if best.source == "banner" or best.device == "cpu":
        return replace(run, contradictions=texts)
    sure = best.count > 1 or best.source == "devices"
    return replace(run, contradictions=texts, n_gpus=best.count, device="gpu" if sure else run.device)


def conflict(run: ParsedRun) -> Diagnosis | None:
    """The two lines about a run's GPUs that cannot both be true, as a finding."""
    if not (run.contradictions and run.gpu_lines):
        return None
    best, _ = most_reliable(run.gpu_lines)
    of_whom = "the job has" if best.source == "job" else "TensorFlow reports"
    count = plural(best.count, "GPU")
    advice = (
        f"These two lines cannot both be true. labtui counts {count}, the number that {of_whom}, and "
        "leaves this run out of speedups: check the GPUs the job asked for and the script's strategy."
    )
    text = run.contradictions[-1]
    return Diagnosis(kind="contradiction", line=best.line, text=text, advice=advice, stream=best.stream)


class LogReport(msgspec.Struct, frozen=True):
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
