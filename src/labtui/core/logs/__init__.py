"""Reading logs: from bytes in any chunks to runs, epochs with their uncertainty, outcome and diagnosis.

`lines` cuts and reduces; `keras`, `mllog`, `heads`, `trainers` and `diagnosis` know what lines look like;
`runs` and `mlruns` know which run a line belongs to; `reader` puts them together. What may not enter: files,
and anything that would raise on strange bytes.
"""

from __future__ import annotations

from labtui.core.logs.events import (
    DiagnosisFound,
    EpochRead,
    LogEvent,
    LogReport,
    RunBegan,
    RunClosed,
)
from labtui.core.logs.join import join_streams, with_plan
from labtui.core.logs.reader import LogReader, diagnose, parse_log

__all__ = [
    "DiagnosisFound",
    "EpochRead",
    "LogEvent",
    "LogReader",
    "LogReport",
    "RunBegan",
    "RunClosed",
    "diagnose",
    "join_streams",
    "parse_log",
    "with_plan",
]
