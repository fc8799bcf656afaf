"""Text as an attacker would write it, and a way to see whether it reached the terminal."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from labtui.domain.errors import LabError

ROOT = Path(__file__).resolve().parents[2]
PYTHON_PATH = f"{ROOT / 'src'}{os.pathsep}{ROOT}"

EVIL = (
    "evil\x1b]52;c;UFdORUQ=\x07\x1b]0;PWNED\x07\x1b]8;;http://pwned.test\x1b\\\x1b[31;77mE\x1b[2J\x1b[999;999H"
    "\x1bP+q544e\x1b\\\x1b_Gpwned\x1b\\\x1bc\x9b31;77m\x9d0;PWNED\x9c\x90pwned\x9c\u202epwned\u2066\x07\x08\x0e\x7f"
    "[bold red]markup[/][@click=app.bell]x[/]"
)
"""OSC 52 (clipboard), titles, links, colours, clearing, moving, DCS, APC, reset, C1 forms, bidi, markup."""

SHELL = "x'; touch /tmp/labtui-pwned; echo $(touch /tmp/labtui-pwned) `touch /tmp/labtui-pwned` \"| & ;\n<>\\"
"""A word with commands that a shell would run."""

_ACTS = re.compile(
    rb"\x1b\](?!10;\?|11;\?|22;)[^\x07\x1b]{0,80}"  # any OSC but Textual's: what colours, which pointer
    rb"|\x1b\[31;77m|\x1b\[999;999H|\x1bP\+q544e|\x1b_G|\x1bc"
    rb"|\xc2[\x80-\x9f]|\xe2\x80\xae|\xe2\x81\xa6|\x0e"
)


def acts(output: bytes) -> list[bytes]:
    """The sequences of `EVIL` that reached the terminal unchanged; labtui itself writes none of them."""
    return _ACTS.findall(output)


def explains(error: LabError, *words: str) -> None:
    """Assert that an error has a sentence and a hint, with these words in one of them."""
    assert error.sentence.endswith((".", ")", "?")) or ":" in error.sentence, error.sentence
    assert error.hint
    for word in words:
        assert word in f"{error.sentence} {error.hint}", (word, error.sentence, error.hint)


@dataclass
class Terminal:
    """A program under a pseudo-terminal; its raw output is kept."""

    command: Sequence[str | bytes]
    size: tuple[int, int] = (120, 40)
    env: dict[str, str] = field(default_factory=dict)
    output: bytes = b""

    def __enter__(self) -> Terminal:
        self.master, slave = pty.openpty()
        self.resize(*self.size)
        environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": PYTHON_PATH, **self.env}
        self.process = subprocess.Popen(
            self.command, stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, env=environment,
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: str | bytes) -> None:
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)

    def read(self, seconds: float) -> bytes:
        """What the program writes within `seconds`, or until it ends."""
        deadline, start = time.monotonic() + seconds, len(self.output)
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self.master], [], [], left)[0]:
                break
            try:
                data = os.read(self.master, 65536)
            except OSError as error:
                if error.errno == errno.EIO:
                    break
                raise
            if not data:
                break
            self.output += data
            deadline = min(deadline, time.monotonic() + 0.25)
        return self.output[start:]

    def until(self, condition: Callable[[bytes], bool], *, seconds: float = 240.0, what: str = "") -> None:
        deadline = time.monotonic() + seconds
        while not condition(self.output):
            if time.monotonic() > deadline or (self.process.poll() is not None and not self.read(0.2)):
                tail = self.output[-3000:].decode("utf-8", "replace")
                raise AssertionError(f"waited for {what or condition}; the end of the screen: {tail!r}")
            self.read(0.1)

    def read_some(self) -> bytes:
        """What the program writes first, and what follows closely."""
        first = self.read(0.5)
        return first + self.read(0.08)

    def end(self, seconds: float = 240.0) -> int:
        deadline = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read(0.1)
        self.read(0.2)
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(0.5)
        raise AssertionError(f"it does not end: {self.output[-500:]!r}")
