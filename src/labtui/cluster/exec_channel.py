"""One command on one SSH exec channel, drained to the end marker of its frame.

Both streams are read in one loop (a full window on the one that is not read would block the other), with a deadline and
a cap on bytes. The end is our marker, not the end of the streams: a background program that a start-up file left behind
can hold those open for ever.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from labtui.slurm.remote_command import CommandResult, cut_frame, frame

if TYPE_CHECKING:
    import paramiko

CHUNK = 65536
WAIT_S = 0.05
"""How long one look at standard output waits before standard error is looked at."""


def execute(transport: paramiko.Transport, script: str, *, timeout_s: float, limit: int) -> CommandResult:
    """Run `script`; the result's status is None when it is not known how it ended.

    Raises:
        TimeoutError, paramiko.SSHException, EOFError, OSError: the channel could not be had, or broke.
    """
    began = time.monotonic()
    marker = secrets.token_hex(16)
    channel = transport.open_session(timeout=min(timeout_s, 15.0))
    with contextlib.closing(channel), closed_after(channel, timeout_s):
        channel.exec_command(frame(script, marker))
        drain = _Drain(channel, marker, limit)
        timed_out = drain.run(began + timeout_s)
    return drain.result(time.monotonic() - began, timed_out)


@contextlib.contextmanager
def closed_after(channel: paramiko.Channel, seconds: float) -> Iterator[None]:
    """Close `channel` when the block takes longer: some of paramiko's waits have no limit of their own."""
    timer = threading.Timer(seconds + 1.0, close_quietly, [channel])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def close_quietly(channel: paramiko.Channel) -> None:
    """Close a channel, also of a dead connection: saying goodbye over it raises then, which tells nobody anything."""
    import paramiko

    with contextlib.suppress(EOFError, OSError, paramiko.SSHException):
        channel.close()


class _Drain:
    """Reads both streams of one channel until both end markers are here."""

    def __init__(self, channel: paramiko.Channel, marker: str, limit: int) -> None:
        self.channel = channel
        self.marker = marker
        self.limit = limit
        self.out = bytearray()
        self.err = bytearray()
        self.truncated = False
        self._end = re.compile(rb"\n" + marker.encode() + rb"> [0-9]{1,3}\n")
        self._seen = [False, False]

    def run(self, deadline: float) -> bool:
        """Drain; True when the deadline passed first."""
        self.channel.settimeout(WAIT_S)
        while not all(self._seen):
            if time.monotonic() >= deadline:
                return True
            over = self._read_out()
            self._read_err()
            if len(self.out) + len(self.err) > self.limit:
                self.truncated = True
                return False
            if over:
                return False
        return False

    def _read_out(self) -> bool:
        """Take what standard output has, waiting a little; True when the channel has ended."""
        if self.channel.closed and not self.channel.recv_ready():
            return not self.channel.recv_stderr_ready()
        try:
            data = self.channel.recv(CHUNK)
        except TimeoutError:
            return False
        if not data:
            # The stream's end. Standard error may have more; without its end marker the status stays unknown.
            self._drain_err()
            return True
        self._take(self.out, data, 0)
        return False

    def _read_err(self) -> None:
        while self.channel.recv_stderr_ready():
            self._take(self.err, self.channel.recv_stderr(CHUNK), 1)

    def _drain_err(self) -> None:
        with contextlib.suppress(TimeoutError):
            while not self._seen[1] and (data := self.channel.recv_stderr(CHUNK)):
                self._take(self.err, data, 1)

    def _take(self, stream: bytearray, data: bytes, which: int) -> None:
        start = max(0, len(stream) - 64)
        stream += data
        if not self._seen[which] and self._end.search(stream, start):
            self._seen[which] = True

    def result(self, seconds: float, timed_out: bool) -> CommandResult:
        """What was read, cut at the markers."""
        out, err = cut_frame(bytes(self.out), self.marker), cut_frame(bytes(self.err), self.marker)
        return CommandResult(
            stdout=out.content,
            stderr=err.content if err.began else b"",
            status=None if self.truncated else out.status,
            seconds=seconds,
            began=out.began,
            noise=out.noise + err.noise,
            truncated=self.truncated,
            timed_out=timed_out,
        )
