"""Unexpected exceptions go to a file that the screen names; the session lives on. Secrets never get there.

Only the exception's type and text and the places in the code are written: no local variables, no arguments.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import traceback
from pathlib import Path

_MAX_BYTES = 1_000_000


class FaultLog:
    """Appends to one file, owner-only, that does not grow without bound."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, error: BaseException) -> None:
        """Note an exception. Never raises: where it cannot be written there is nothing better to do."""
        text = "".join(traceback.format_exception(error))
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        with contextlib.suppress(OSError):
            if self.path.exists() and self.path.stat().st_size > _MAX_BYTES:
                self.path.replace(self.path.with_suffix(".log.1"))
            handle = os.open(self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
            with os.fdopen(handle, "a", encoding="utf-8") as file:
                file.write(f"--- {now}\n{text}\n")
