"""Commands for the far side as data, and the frame that keeps shell noise out of their output.

A command is a small shell script with a name and arguments. Its first line says both in a form a program can
read back, so that a rehearsal cluster can answer it without being a shell, and a person reading a process
list or a log sees who asked for what. The frame runs the script in a login shell between random markers:
what start-up files print before, and what background programs print after, can never be taken for output.

What may not enter: anything that sends.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_HEADER = "# labtui/1 "


@dataclass(frozen=True, slots=True)
class RemoteCommand:
    """A named script for a POSIX login node (run by bash); `arguments` are JSON values, never secrets."""

    name: str
    script: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The script with its self-describing first line."""
        told = json.dumps(dict(self.arguments), ensure_ascii=True, sort_keys=True)
        return f"{_HEADER}{self.name} {told}\n{self.script}"


def read_header(text: str) -> tuple[str, dict[str, Any]] | None:
    """Name and arguments of a `RemoteCommand.text`; None for any other script."""
    first = text.partition("\n")[0]
    if not first.startswith(_HEADER):
        return None
    name, _, told = first.removeprefix(_HEADER).partition(" ")
    try:
        arguments = json.loads(told)
    except ValueError:
        return None
    return (name, arguments) if isinstance(arguments, dict) else None


@dataclass(frozen=True, slots=True)
class CommandRecord:
    """One remote command, for the panel that shows what labtui asked the cluster.

    `at` is UNIX seconds of our clock; `status` is None when no answer came.
    """

    at: float
    name: str
    command: str
    seconds: float
    status: int | None


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command printed between our markers. `status` None = unknown: neither success nor failure.

    `began` tells whether the script was started at all, `noise` what the shell printed before it,
    `truncated` that the byte cap was reached, `timed_out` that the deadline passed.
    """

    stdout: bytes
    stderr: bytes
    status: int | None
    seconds: float = 0.0
    began: bool = True
    noise: bytes = b""
    truncated: bool = False
    timed_out: bool = False

    @property
    def out(self) -> str:
        """Standard output as text; undecodable bytes are replaced."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def err(self) -> str:
        """Standard error as text; undecodable bytes are replaced."""
        return self.stderr.decode("utf-8", "replace")


# --------------------------------------------------------------------------- the frame

_COMMAND = re.compile(r"""bash -lc 'eval "\$\(printf %s ([A-Za-z0-9+/=]+) \| base64 -d\)"'""")
_FRAME = re.compile(r"printf '\\n%s\\n' '(?P<marker>[0-9a-f]+)<';.*?\n\(\n(?P<script>.*)\n\) && ", re.DOTALL)


def frame(script: str, marker: str) -> str:
    """The exec request that runs `script` in a login shell between markers.

    `marker` is random lower-case hex. The script travels as base64, so that whatever shell the account has
    (csh and fish quote differently) and whatever the script contains, nothing is interpreted on the way.
    """
    body = (
        f"printf '\\n%s\\n' '{marker}<'; printf '\\n%s\\n' '{marker}<' >&2; set +eu\n"
        f"(\n{script}\n) && labtui_status=0 || labtui_status=$?\n"
        f"printf '\\n%s %s\\n' '{marker}>' \"$labtui_status\" >&2\n"
        f"printf '\\n%s %s\\n' '{marker}>' \"$labtui_status\"\n"
    )
    encoded = base64.b64encode(body.encode()).decode()
    return f"""bash -lc 'eval "$(printf %s {encoded} | base64 -d)"'"""


def unframe(command: str) -> tuple[str, str] | None:
    """The other way: (script, marker) of a framed exec request, None when it is not one of ours."""
    told = _COMMAND.fullmatch(command.strip())
    if told is None:
        return None
    try:
        body = base64.b64decode(told[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    inner = _FRAME.match(body)
    return (inner["script"], inner["marker"]) if inner else None


@dataclass(frozen=True, slots=True)
class Framed:
    """One stream, cut at the markers. `status` is None while the end marker is missing."""

    content: bytes
    status: int | None
    began: bool
    noise: bytes

    @property
    def ended(self) -> bool:
        """True when the end marker is here."""
        return self.status is not None


def cut_frame(data: bytes, marker: str) -> Framed:
    """Cut one stream (all bytes so far) at its markers."""
    before, began, rest = data.partition(b"\n" + marker.encode() + b"<\n")
    if not began:
        return Framed(b"", None, False, data)
    noise = before.removeprefix(b"\n")
    end = re.search(rb"\n" + marker.encode() + rb"> (\d+)\n", rest)
    if end is None:
        return Framed(rest, None, True, noise)
    return Framed(rest[: end.start()], int(end[1]), True, noise)


def frame_answer(marker: str, content: bytes, status: int) -> bytes:
    """What a framed command writes on one stream: for servers that answer without a shell."""
    name = marker.encode()
    return b"\n" + name + b"<\n" + content + b"\n" + name + b"> %d\n" % status
