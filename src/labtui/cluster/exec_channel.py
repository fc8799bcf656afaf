"""One command on one SSH exec channel, drained to the end marker of its frame.

Both streams are read in one loop (a full window on the one that is not read would block the other), with a deadline and
a cap on bytes. The end is our marker, not the end of the streams: a background program that a start-up file left behind
can hold those open for ever.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from typing import TYPE_CHECKING

from labtui.cluster.keys import within
from labtui.slurm.remote_command import CommandResult, cut_frame, frame

if TYPE_CHECKING:
    import paramiko

CHUNK = 65536
BEGIN_LIMIT_S = 15.0
WAIT_S = 0.05
"""How long one look at standard output waits before standard error is looked at."""


def execute(transport: paramiko.Transport, script: str, *, timeout_s: float, limit: int) -> CommandResult:
    """Run `script`; the result's status is None when it is not known how it ended.

    Raises:
        TimeoutError, paramiko.SSHException, EOFError, OSError: the channel could not be had, or broke.
    """
    began = time.monotonic()
    marker = secrets.token_hex(16)
    begin_s = min(timeout_s, BEGIN_LIMIT_S)

    def begin() -> paramiko.Channel:
        channel = transport.open_session(timeout=begin_s)
        channel.exec_command(frame(script, marker))
        return channel

    with contextlib.closing(within(begin_s, begin)) as channel:
        out, err, timed_out = _drain(channel, marker, limit, began + timeout_s)
    truncated = len(out) + len(err) > limit
    content, remarks = cut_frame(bytes(out), marker), cut_frame(bytes(err), marker)
    return CommandResult(
        stdout=content.content,
        stderr=remarks.content if remarks.began else b"",
        status=None if truncated else content.status,
        seconds=time.monotonic() - began,
        began=content.began,
        noise=content.noise + remarks.noise,
        truncated=truncated,
        timed_out=timed_out,
    )


def close_quietly(channel: paramiko.Channel) -> None:
    """Close a channel, also of a dead connection: saying goodbye over it raises then, which tells nobody anything."""
    import paramiko

    with contextlib.suppress(EOFError, OSError, paramiko.SSHException):
        channel.close()


def _drain(
    channel: paramiko.Channel, marker: str, limit: int, deadline: float
) -> tuple[bytearray, bytearray, bool]:
    """Both streams up to their end markers or the cap, and whether the deadline passed first."""
    streams, seen = (bytearray(), bytearray()), [False, False]
    end = re.compile(rb"\n" + marker.encode() + rb"> [0-9]{1,3}\n")

    def take(which: int, data: bytes) -> None:
        start = max(0, len(streams[which]) - 64)
        streams[which].extend(data)
        seen[which] = seen[which] or end.search(streams[which], start) is not None

    channel.settimeout(WAIT_S)
    over = False
    while not (all(seen) or over or sum(map(len, streams)) > limit):
        if time.monotonic() >= deadline:
            return *streams, True
        with contextlib.suppress(TimeoutError):
            data = channel.recv(CHUNK)
            over = not data
            take(0, data)
        # At the end of standard output, standard error may have more; without its end marker the status is unknown.
        with contextlib.suppress(TimeoutError):
            while not seen[1] and (over or channel.recv_stderr_ready()):
                data = channel.recv_stderr(CHUNK)
                take(1, data)
                if not data:
                    break
    return *streams, False
