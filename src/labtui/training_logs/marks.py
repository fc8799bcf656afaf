"""What stands before a line: the rank, worker or pod that wrote it, a time stamp, a logger's level."""

from __future__ import annotations

import re

from labtui.training_logs.lines import RANK

_RANK = re.compile(RANK.pattern.decode())
_PREFIX = re.compile(
    RANK.pattern.decode() + r"|\s*\((?:[\w.:]{1,80} )?pid=(?P<ray>\d{1,9})(?:, ip=[\w.:]{1,60})?\) "  # Ray
    r"|\[(?P<kube>pod/[\w./-]{1,200})\] "  # kubectl logs --prefix
    r"|(?P<pod>[a-z0-9][\w.-]{0,100}-\d{1,5})(?: +\| ?| [a-z][\w-]{0,60} (?=\d{4}-|Epoch |:::ML))"  # compose, stern
    r"|(?P<zulu>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?):? "
    r"|\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]?(?: ?[-|:,] ?| )"  # Python's logging
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}(?: |(?=\[))"
    r"|[IW]\d{4} \d\d:\d\d:\d\d\.\d{1,6} +\d{1,9} [\w.]{1,80}:\d{1,6}\] "  # absl
    r"|(?:\[?[\w.]{1,80}\]? ?[-|:] ?)?\[?(?:INFO|DEBUG|WARNING)\]?(?::[\w.]{1,80}:| ?[-|:] ?| +)"
)
_FIRST = " [0123456789"
"""How a rank's mark begins."""
MAX_PREFIXES = 4
"""Prefixes of one line: ``3: [default0]:2026-11-21 10:00:00,123 - INFO - ``."""

Writer = tuple[tuple[int, str], ...]
"""Who wrote a line: number and name at each level (node, process), empty for one that bears no mark."""


def split_rank(text: str) -> tuple[str, Writer]:
    """The line without a rank's mark, and the rank."""
    match = _RANK.match(text) if text[0] in _FIRST else None
    return (text, ()) if match is None else (text[match.end() :], _writer(match))


def split_prefix(text: str) -> tuple[str, Writer, bool] | None:
    """The line without its first prefix, who wrote it by that, and whether a launcher put it there; None without."""
    match = _PREFIX.match(text)
    if match is None:
        return None
    writer = _writer(match)
    return text[match.end() :], writer, bool(writer) or match["zulu"] is not None


def _writer(match: re.Match[str]) -> Writer:
    """Who wrote the line, by this prefix; nothing for a time stamp."""
    groups = match.groupdict()
    for name in ("torch", "srun", "mpi", "ray"):
        if groups.get(name) is not None:
            return ((int(groups[name]), name),)
    pod = groups.get("kube") or groups.get("pod")
    if pod is None:
        return ()
    number = re.search(r"(\d+)\D*\Z", pod)
    first = re.search(r"master|chief|launcher|leader", pod) is not None
    return ((-1 if first else int(number[1]) if number else 0, pod),)
