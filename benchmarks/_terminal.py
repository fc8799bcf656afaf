"""Run a program in a pseudo-terminal and measure the time until it shows some words."""

from __future__ import annotations

import os
import pty
import select
import signal
import struct
import termios
import time
from fcntl import ioctl
from pathlib import Path
from typing import NamedTuple


class Shown(NamedTuple):
    """What it took to show the last words: wall time, peak memory, processor time."""

    seconds: float
    peak_mb: float
    processor_s: float


def until_shown(command: list[str], stages: list[tuple[bytes, bytes]]) -> Shown:
    """Run a program until it shows the last stage's words. When a stage's words are shown, its keys are sent."""
    started = time.perf_counter()
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
        os.environ.pop(
            "PYTHONDONTWRITEBYTECODE", None
        )  # else only our own modules are compiled at every start
        os.execv(command[0], command)
    try:
        ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        for words, keys in stages:
            seen = b""
            while words not in seen:
                if time.perf_counter() - started > 120:
                    raise SystemExit(f"{command}: no {words!r}; last output {seen[-400:]!r}")
                if select.select([terminal], [], [], 0.05)[0]:
                    seen = (seen + os.read(terminal, 1 << 16))[-(1 << 18) :]
            if keys:
                os.write(terminal, keys)
        seconds = time.perf_counter() - started
        status = Path(f"/proc/{child}/status")
        peak = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        ticks = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:13]
        return Shown(seconds, int(peak[0]) / 1024, sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)
