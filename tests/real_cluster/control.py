"""Requests to a running cluster's supervisor."""

import base64
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class ControlFailed(Exception):
    """The supervisor could not do it; the message is its traceback."""


@dataclass(frozen=True)
class Done:
    """The result of a program inside the cluster: exit status and both streams."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        return self.stdout.decode(errors="replace").strip()

    @property
    def err(self) -> str:
        return self.stderr.decode(errors="replace").strip()


def ask(folder: Path, op: str, *, deadline_s: float = 480.0, **request: Any) -> Any:
    """Send one request to ``folder/control.sock`` and return the answer's value."""
    # Socket names are limited to about 100 characters; /proc/self/fd/N is short for any folder.
    descriptor = os.open(folder, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(deadline_s)
            client.connect(f"/proc/self/fd/{descriptor}/control.sock")
            stream = client.makefile("rwb")
            stream.write(json.dumps({"op": op, **request}).encode() + b"\n")
            stream.flush()
            line = stream.readline()
    finally:
        os.close(descriptor)
    answer = json.loads(line)
    if not answer["ok"]:
        raise ControlFailed(answer["error"])
    return answer["value"]


def execute(
    folder: Path, argv: list[str], *, user: str, stdin: bytes = b"", timeout_s: float = 240.0, cwd: str = "/"
) -> Done:
    value = ask(
        folder, "exec", argv=argv, user=user, stdin=base64.b64encode(stdin).decode(), timeout=timeout_s,
        cwd=cwd, deadline_s=timeout_s + 10,
    )  # fmt: skip
    return Done(value["status"], base64.b64decode(value["stdout"]), base64.b64decode(value["stderr"]))
