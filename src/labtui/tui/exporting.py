"""The export key: `labtui export` in a process of its own, so that its heavy libraries never slow the screens down."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path

from labtui.errors import ExportError
from labtui.tui.logtext import display_text

TIMEOUT_S = 300


def export_all(folder: Path) -> Future[str]:
    """Start the export of a lab folder; the future gives what it said, or raises `ExportError`."""
    future: Future[str] = Future()

    def work() -> None:
        try:
            future.set_result(_run(folder))
        except ExportError as error:
            future.set_exception(error)

    threading.Thread(target=work, name="labtui-export", daemon=True).start()
    return future


def _run(folder: Path) -> str:
    command = [sys.executable, "-m", "labtui", "export"]
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ExportError(
            "The export did not come to an end.", "Run `labtui export` in the lab folder."
        ) from error
    said = [display_text(line) for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    if done.returncode != 0:
        sentence = said[0].removeprefix("labtui: ") if done.returncode == 2 and said else "The export failed."
        raise ExportError(sentence, "`labtui export` in the lab folder says more.")
    return "\n".join(said[-6:]) or "Exported."
