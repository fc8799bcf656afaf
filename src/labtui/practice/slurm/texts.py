"""Times and durations the way Slurm's commands write them, and the way they read them."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping


def stamp(seconds: float | None, environment: Mapping[str, str], unknown: str) -> str:
    """A moment as text: ``SLURM_TIME_FORMAT`` and ``TZ`` of the caller's environment count."""
    if seconds is None:
        return unknown
    form = environment.get("SLURM_TIME_FORMAT", "%Y-%m-%dT%H:%M:%S")
    if form == "%s":
        return str(int(seconds))
    if form in ("standard", ""):
        form = "%Y-%m-%dT%H:%M:%S"
    zone = environment.get("TZ", "")
    moment = time.gmtime(seconds) if zone in ("UTC", "UTC0", "GMT") else time.localtime(seconds)
    return time.strftime(form, moment)


def short_duration(seconds: int) -> str:
    """Squeue's form: ``0:06``, ``10:00``, ``1:05:00``, ``2-00:00:00``."""
    days, rest = divmod(int(seconds), 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02d}:{minutes:02d}:{rest:02d}"
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def long_duration(seconds: int) -> str:
    """Sacct's and scontrol's form: ``00:00:06``, ``2-00:00:00``."""
    days, rest = divmod(int(seconds), 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    return (f"{days}-" if days else "") + f"{hours:02d}:{minutes:02d}:{rest:02d}"


def time_limit(text: str) -> int | None:
    """Seconds of ``--time``, rounded up to whole minutes as Slurm does; None when it is no time.

    Minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds.
    """
    told = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text.strip())
    if not told:
        return None
    days, first, second, third = (int(part) if part else 0 for part in told.groups())
    parts = sum(part is not None for part in told.groups()[1:])
    if told[1] is not None:
        seconds = days * 86400 + first * 3600 + second * 60 + third
    elif parts == 1:
        seconds = first * 60
    elif parts == 2:
        seconds = first * 60 + second
    else:
        seconds = first * 3600 + second * 60 + third
    return -(-seconds // 60) * 60


def expand_log_name(pattern: str, job_id: int, name: str, user: str) -> str:
    """``%x.%j.out`` and the like, for a plain batch job."""
    if "\\" in pattern:
        return pattern.replace("\\", "")
    values = {
        "A": job_id,
        "j": job_id,
        "J": job_id,
        "x": name,
        "u": user,
        "a": 4294967294,
        "N": "",
        "n": 0,
        "t": 0,
        "s": "batch",
    }

    def put(told: re.Match[str]) -> str:
        if told[2] == "%":
            return "%"
        value = values.get(told[2])
        if value is None:
            return told[0]
        return str(value).zfill(min(int(told[1]), 10)) if told[1] and isinstance(value, int) else str(value)

    return re.sub(r"%(\d*)([%A-Za-z])", put, pattern)
