"""Slurm's ways to write times and durations, read into seconds. Unreadable means None, never an exception."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_DURATION = re.compile(r"(?:(?P<days>\d+)-)?(?P<fields>\d+(?::\d+){0,2})(?:\.\d+)?")


def epoch_seconds(text: str) -> float | None:
    """UNIX seconds of ``1764000000`` or ``2026-11-21T10:00:00`` (read as UTC); None for N/A, Unknown."""
    words = text.strip()
    if words.isdecimal() and words.isascii():
        return float(words) if 0 < len(words) <= 12 and int(words) > 0 else None
    try:
        told = datetime.fromisoformat(words)
    except ValueError:
        return None
    return told.replace(tzinfo=told.tzinfo or UTC).timestamp()


def duration_seconds(text: str) -> float | None:
    """Seconds of ``1-02:03:04``, ``02:03:04``, ``05:00`` or ``2-12``; None for UNLIMITED, NOT_SET, INVALID.

    Without days, two fields are minutes and seconds and one is minutes; with days they are hours, minutes,
    seconds.
    """
    told = _DURATION.fullmatch(text.strip())
    if told is None or not text.isascii():
        return None
    fields = [int(part) for part in told["fields"].split(":")]
    if told["days"] is not None:
        hours, minutes, seconds = [*fields, 0, 0][:3]
        return float(int(told["days"]) * 86400 + hours * 3600 + minutes * 60 + seconds)
    if len(fields) == 1:
        return fields[0] * 60.0
    total = 0
    for value in fields:
        total = total * 60 + value
    return float(total)
