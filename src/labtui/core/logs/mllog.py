"""MLPerf logging records (``:::MLLOG {json}``), ours or anybody's.

A record carries a clock in whole milliseconds, a key and a value. Our scripts add ``seconds`` (monotonic
clock) and ``steps`` to ``epoch_stop``; other programs' epochs are the difference of two ``time_ms``. What may
not enter: which run a record belongs to.

How sure is an epoch's time? `time_ms` is a truncated clock, so a difference is known to one millisecond.
`seconds` is printed finer than that, but the callback that takes it runs a moment before or after the
framework's own clock; one millisecond either way holds that too.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labtui.core.interval import Interval

MARK = ":::MLLOG"
CLOCK_SECONDS = 0.001
"""Half-width of an epoch's interval, seconds."""

_OLD = re.compile(
    r":::MLPv0\.\d\.\d \S{1,80} (\d{1,12}(?:\.\d{1,9})?) \([^)]{0,300}\) (\w{1,80})(?:: (.*))?\Z"
)
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Record:
    """One record: `key` in lower case, `time_ms` of the writer's clock or None."""

    key: str
    value: Any = None
    time_ms: float | None = None
    event: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def number(self, *names: str) -> float | None:
        """The first finite number among the metadata entries of these names."""
        for name in names:
            found = finite(self.metadata.get(name))
            if found is not None:
                return found
        return None

    def word(self, *names: str) -> str:
        """The first text among the metadata entries of these names."""
        for name in names:
            found = self.metadata.get(name)
            if isinstance(found, str) and found:
                return found
        return ""


def finite(value: object) -> float | None:
    """The value as a float when it is a finite number of sensible size."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int) and abs(value) > 10**18:
        return None
    return float(value) if math.isfinite(value) else None


def read_record(text: str) -> Record | None:
    """The record in a line, wherever it starts; None when there is none that can be read."""
    start = text.find(MARK)
    if start < 0:
        return _read_old(text)
    brace = text.find("{", start + len(MARK))
    if brace < 0:
        return None
    try:
        data, _ = _DECODER.raw_decode(text, brace)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or not isinstance(data.get("key"), str):
        return None
    metadata = data.get("metadata")
    return Record(
        key=data["key"].strip().lower(),
        value=data.get("value"),
        time_ms=finite(data.get("time_ms")),
        event=str(data.get("event_type") or "").upper(),
        metadata=metadata if isinstance(metadata, dict) else {},
    )


def _read_old(text: str) -> Record | None:
    """The form of MLPerf v0.5 and v0.6: ``:::MLPv0.6.0 resnet 1557348823.123 (file.py:12) key: value``."""
    start = text.find(":::MLPv0")
    match = _OLD.match(text, start) if start >= 0 else None
    if match is None:
        return None
    value: Any = match[3]
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(match[3]) if match[3] else None
    metadata = value if isinstance(value, dict) else {}
    if isinstance(metadata.get("metadata"), dict):
        value, metadata = metadata.get("value"), metadata["metadata"]
    return Record(match[2].lower(), value, float(match[1]) * 1000, "", metadata)


def measured(seconds: float) -> Interval:
    """The interval of a time taken by a program's own clock."""
    return Interval(seconds, max(0.0, seconds - CLOCK_SECONDS), seconds + CLOCK_SECONDS)
