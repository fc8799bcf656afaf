"""A command's call and answer; times and node lists as Slurm writes them.

Of the standard library alone: `srun` uses it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


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


def duration(seconds: float, *, hours: bool = True) -> str:
    """``00:00:06`` or ``2-00:00:00``, as sacct and scontrol write it; without `hours` squeue's ``0:06``."""
    days, rest = divmod(int(seconds), 86400)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    if days:
        return f"{days}-{clock}"
    return clock if hours else re.sub(r"^(00:)?0?(?=\d+:)", "", clock)


Answer = tuple[int, str, str]
"""(exit status, standard output, standard error)."""

NO_CONTROLLER = "Unable to contact slurm controller (connect failure)"


class CommandError(Exception):
    """What a command prints on standard error before it ends, and its exit status."""

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.text, self.status = text, status


@dataclass(frozen=True, slots=True)
class Call:
    """One run of a Slurm command on the practice cluster."""

    words: tuple[str, ...]
    folder: str
    environment: Mapping[str, str]
    stdin: bytes = b""


VERSION = "22.05.8"
MIN_JOB_AGE_S = 300
KILL_WAIT_S = 30
MESSAGE_TIMEOUT_S = 10


def compressed(names: Sequence[str]) -> str:
    """Node names in Slurm's short form; names that end in numbers of the same width are ranges."""
    if len(names) < 2:
        return "".join(names)
    stem = names[0].rstrip("0123456789")
    width = len(names[0]) - len(stem)
    return f"{stem}[{ranges([int(name[len(stem) :]) for name in names], width)}]"


def ranges(numbers: Sequence[int], width: int = 1) -> str:
    """``0-1,3``: numbers in Slurm's short form, each with at least `width` digits."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in runs)


def expanded(text: str) -> list[str]:
    """The names of a node list in Slurm's short form."""
    names = []
    for piece in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text):
        stem, bracket, inside = piece.partition("[")
        if not bracket:
            names.append(piece)
            continue
        for part in inside.rstrip("]").split(","):
            first, dash, last = part.partition("-")
            numbers = range(int(first), int(last if dash else first) + 1)
            names += [f"{stem}{number:0{len(first)}d}" for number in numbers]
    return names
