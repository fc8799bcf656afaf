"""The values in Slurm's output: numbers, job IDs, times, durations, sizes, names of logs. An unreadable one is None.

Text from a cluster is data: a number is made of a limited number of ASCII digits.
"""

import operator
import re
from datetime import UTC, datetime

from labtui.domain.model import Stream
from labtui.domain.state import LOG_ENDINGS, SubmissionState

MAX_DIGITS = 12

_JOB_ID = re.compile(r"[1-9][0-9]{0,11}")
_DURATION = re.compile(r"(?:([0-9]+)-)?([0-9]+)(?::([0-9]+))?(?::([0-9]+))?(?:\.[0-9]+)?")
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([KMGTP]?)B?", re.IGNORECASE)
_KIB = {"K": 1.0, "M": 1024.0, "G": 1024.0**2, "T": 1024.0**3, "P": 1024.0**4}


def number(text: str) -> int | None:
    """A whole number of at most `MAX_DIGITS` ASCII digits, with optional white space around it."""
    words = text.strip()
    return int(words) if 0 < len(words) <= MAX_DIGITS and words.isascii() and words.isdecimal() else None


def job_id(text: str) -> str | None:
    """A job ID as Slurm writes it: a number without leading zeros."""
    words = text.strip()
    return words if _JOB_ID.fullmatch(words) else None


def epoch_seconds(text: str) -> float | None:
    """UNIX seconds for ``1764000000`` or ``2026-11-21T10:00:00`` (taken as UTC); None for N/A, Unknown and 0."""
    if (seconds := number(text)) is not None:
        return float(seconds) or None
    try:
        return datetime.fromisoformat(text.strip()).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def duration_seconds(text: str) -> float | None:
    """Seconds for ``1-02:03:04``, ``02:03:04``, ``05:00`` or ``2-12``; None for UNLIMITED, NOT_SET, INVALID.

    Without days, two fields are minutes and seconds, and one is minutes; after days come hours, minutes, seconds.
    """
    words = text.strip()
    if (match := _DURATION.fullmatch(words)) is None or len(words) > 2 * MAX_DIGITS:
        return None
    days, *fields = (int(part) if part is not None else None for part in match.groups())
    given = [field for field in fields if field is not None]
    units = (3600, 60, 1) if days is not None or len(given) == 3 else (60, 1)
    return float((days or 0) * 86400 + sum(map(operator.mul, given, units)))


def limit_minutes(text: str) -> int | None:
    """The minutes of ``--time``, rounded up as Slurm does; None for those of `duration_seconds`."""
    seconds = duration_seconds(text)
    return None if seconds is None else -(-int(seconds) // 60)


def duration_text(seconds: float, *, hours: bool = True) -> str:
    """``00:00:06`` or ``2-00:00:00``, which cannot be misread; without `hours` as squeue prints it, ``0:06``."""
    days, rest = divmod(int(seconds), 86400)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    if days:
        return f"{days}-{clock}"
    return clock if hours else re.sub(r"^(00:)?0?(?=\d+:)", "", clock)


def size_kib(text: str) -> float | None:
    """KiB for ``512000M``, ``1.5T`` or ``24 GB``; a number without a letter is in KiB. None for other text."""
    match = _SIZE.fullmatch(text.replace(" ", ""))
    return float(match[1]) * _KIB[(match[2] or "K").upper()] if match else None


def gpus_of(gres: str) -> int:
    """The number of GPUs in a GRES: 4 for ``gpu:h100:4(S:0-1),shard:8``, 2 for ``cpu:4,gres/gpu:2``.

    An entry without a type counts all GPUs, those with one again: 4 for ``gres/gpu=4,gres/gpu:h100=4``.
    """
    parts = re.sub(r"\([^()]*\)|:no_consume\b", "", gres).split(",")
    gpu = re.compile(r"(?:gres[/:])?gpu(:[\w.-]*?)??(?:[:=]([0-9]{1,12}))?")
    found = [match for part in parts if (match := gpu.fullmatch(part.strip()))]
    return max(sum(int(each[2] or 1) for each in found if bool(each[1]) is typed) for typed in (True, False))


def log_path(submission: SubmissionState, stream: Stream) -> str | None:
    """The remote path of a job's log; None if it is not known yet or there is no such stream."""
    job, pattern = submission.job, submission.remote_logs.get(stream)
    if job is None or not job.job_id or not pattern:
        return None
    if re.search(r"%[0-9]*N", pattern) and not job.node:
        return None  # the name is known when the job runs
    return expand_pattern(pattern, job_id=job.job_id, job_name=submission.job_name, nodes=job.node)


def known_logs(submission: SubmissionState) -> list[Stream]:
    """The logs that a submission's job writes and whose paths are known."""
    return [stream for stream in LOG_ENDINGS if log_path(submission, stream) is not None]


def expand_pattern(pattern: str, *, job_id: str, job_name: str, user: str = "", nodes: str = "") -> str:
    """A log name pattern (``%x.%j.out``, ``%J``, ``%5j``) as Slurm expands it for a plain batch job.

    ``%N`` is the first host of `nodes`: of ``as01r1b[01-03,07],gs02``, or ``n[1-3]-ib``.
    """
    if "\\" in pattern:
        return pattern.replace("\\", "")
    node = re.sub(r"\[(\w+)[^\]]*\]", r"\1", nodes).partition(",")[0]
    texts = {"A": job_id, "j": job_id, "J": job_id, "x": job_name, "u": user, "a": "4294967294", "N": node or None,
              "b": "4", "s": "batch", "t": "0", "n": "0"}  # fmt: skip

    def put(code_found: re.Match[str]) -> str:
        width, code = code_found[1], code_found[2]
        if code == "%":
            return "%"
        if (value := texts.get(code)) is None:
            return code_found[0]
        return value.zfill(min(int(width), 10)) if width and number(value) is not None else value

    return re.sub(r"%([0-9]{0,3})([%A-Za-z])", put, pattern)
