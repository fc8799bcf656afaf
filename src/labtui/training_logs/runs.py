"""Records of what was read from a log: runs, failures, numbers of GPUs, the report; and bounds of printed numbers."""

import functools
import math
import re
import statistics
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal

import msgspec
from msgspec.structs import replace

from labtui.domain import decode
from labtui.domain.model import Diagnosis, Interval, Outcome
from labtui.domain.run import NO_FACTS, GpuCount, GpuSource, RunFacts, RunRecord

__all__ = ["NO_FACTS", "GpuCount", "GpuSource", "RunFacts", "RunRecord"]


class ParsedRun(RunRecord, frozen=True, kw_only=True):
    """A run as read from a log; unfinished unless the log says how it ended."""

    outcome: Outcome = "unfinished"


_FILE = decode.own_toml(__file__, "expressions.toml")
_SET = re.compile(r"(?<!\\)\[(?:\\.|[^]\\])*\]")


def compiled(text: str) -> re.Pattern[str]:
    """An expression of `expressions.toml` or `forms.toml`, with the parts that it names. Its digits are ASCII."""
    for name, part in _FILE["parts"].items():
        text = text.replace(f"<{name}>", part)
    text = _SET.sub(lambda found: found[0].replace(r"\d", "0-9"), text)
    return re.compile(text.replace(r"\d", "[0-9]"))


OPTIONS: dict[str, list[str]] = _FILE["options"]
RECORDS: dict[str, list[str]] = _FILE["records"]
PROGRAM: dict[str, str] = _FILE["program"]
_LINES = ((name, [one] if isinstance(one, str) else one) for name, one in _FILE["lines"].items())
EXPRESSIONS = {name: compiled("|".join(parts)) for name, parts in _LINES}
_GRAVITY = ("unfinished", "completed", "failed", "oom", "cancelled", "time-limit")


def is_worse(outcome: Outcome, than: Outcome) -> bool:
    """Whether the first of two failures of a run is the graver one, which names the run's outcome."""
    return _GRAVITY.index(outcome) > max(1, _GRAVITY.index(than))


class Failure(msgspec.Struct, frozen=True):
    """A process that failed; `job_level`: Slurm or the kernel ended the whole job, and so its last run."""

    outcome: Outcome
    job_level: bool = False


_GPU_RANK: tuple[GpuSource, ...] = ("devices", "replicas", "job", "banner")
"""Where a log gives the number of GPUs of a run, the most reliable first."""


def most_reliable(found: Iterable[GpuCount]) -> tuple[GpuCount, GpuCount | None]:
    """The most reliable of these counts (at least one), and the next one that contradicts it, if any."""
    best, *others = sorted(found, key=lambda one: _GPU_RANK.index(one.source))
    other = next((one for one in others if (one.count, one.device) != (best.count, best.device)), None)
    return best, None if best.device == "cpu" else other


def count_gpus(run: ParsedRun) -> ParsedRun:
    """The run with its most reliable number of GPUs, and the lines that contradict each other.

    A CPU also counts as one replica, and CPU devices may stand in for GPUs on purpose: such runs are unchanged.
    """
    if not run.gpu_lines or run.mark or run.device == "cpu":
        return run
    best, other = most_reliable(run.gpu_lines)
    texts = () if other is None else (f"{other}; {best}",)
    if best.source == "banner" or best.device == "cpu":
        return replace(run, contradictions=texts)
    sure = best.count > 1 or best.source == "devices"
    return replace(run, contradictions=texts, n_gpus=best.count, device="gpu" if sure else run.device)


class LogReport(msgspec.Struct, frozen=True):
    """Everything read from one log (or from a pair of .out and .err).

    `cpu_warnings` counts the trainings that found no GPU for their strategy. `strategies` are the lines with
    TensorFlow's GPUs, in the order of the log, whether of a run or not. `mention` is the unread line (number and text)
    that most likely has an epoch or a rate. `binary`: the log is not text.
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


@functools.lru_cache(4096)
def rounded(text: str) -> Interval:
    """A printed number, perhaps with an exponent (``4.19e+04``), give or take half a unit of its last digit."""
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    half = Decimal(10) ** (exponent if isinstance(exponent, int) else 0) / 2
    return Interval(float(number), float(max(Decimal(0), number - half)), float(number + half))


def utc_seconds(text: str, form: str) -> float | None:
    """A time in UTC of this form (`strptime`'s) in seconds since 1970; None for any other text."""
    try:
        return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def whole_number(text: str | None) -> int | None:
    """The number in a text of one to nine digits; None for any other text."""
    return int(text) if text and text.isdecimal() and len(text) < 10 else None


_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")


def plain_number(text: str) -> float | None:
    """The number in a text; None for any other text, and for a negative or an infinite number."""
    value = float(text) if _NUMBER.fullmatch(text) else math.inf
    return value if value < math.inf else None


def cut_off(text: str) -> Interval:
    """A number truncated by `int(x)`: 344 is anything from 344 to 345. One with decimals is taken as rounded."""
    return Interval.between(float(text), float(text) + 1) if text.isdigit() else rounded(text)


def clock_interval(seconds: float | None, slack: float = 0.001) -> Interval | None:
    """A time by a program's own clock, accurate to a millisecond; None for no time, or a negative one."""
    if seconds is None or seconds < 0:
        return None
    return Interval(seconds, max(0.0, seconds - slack), seconds + slack)


def median(values: Iterable[tuple[Interval | None, int]]) -> tuple[Interval | None, int | None]:
    """The median of repeated values, with bounds that include all but the first, which is warm-up; and its line."""
    known = [(value.value, line, value) for value, line in values if value is not None]
    known = known[1:] or known
    if not known:
        return None, None
    middle, line, _ = statistics.median_low(known)
    return Interval(middle, min(each.lo for *_, each in known), max(each.hi for *_, each in known)), line
