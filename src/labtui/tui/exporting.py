"""The export key: `labtui export` in a process of its own, so that its heavy libraries never slow the screens down."""

from __future__ import annotations

import json
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
        except Exception as error:  # whatever it is, the screen hears of it
            future.set_exception(error)

    threading.Thread(target=work, name="labtui-export", daemon=True).start()
    return future


def _run(folder: Path) -> str:
    command = [sys.executable, "-m", "labtui", "export", "--json"]
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ExportError(
            "The export did not come to an end.", "Run `labtui export` in the lab folder."
        ) from error
    if done.returncode != 0:
        said = [display_text(line) for line in done.stderr.splitlines() if line.startswith(b"labtui: ")]
        sentence = (
            said[-1].removeprefix("labtui: ") if done.returncode == 2 and said else "The export failed."
        )
        raise ExportError(sentence, "`labtui export` in the lab folder says more.")
    return _summary(done.stdout)


def _summary(answer: bytes) -> str:
    """What was written, in words, and what the export has to remark."""
    try:
        told = json.loads(answer)
        names = [Path(path).name for path in told["files"]]
        notes = [display_text(str(note).encode()) for note in told["notes"]]
    except (ValueError, KeyError, TypeError):
        return "Exported."
    decks = [name for name in names if name.startswith("deck.")]
    return "\n".join([f"{len(names)} files written, among them {' and '.join(decks) or 'no deck'}.", *notes])
