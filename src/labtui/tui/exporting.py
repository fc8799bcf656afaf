"""The export key: `labtui export` in a process of its own, so that its heavy libraries never slow the screens down.

What it says and answers goes into files, not pipes: when the screens are left meanwhile, the export still comes to its
end, and nothing here can wait for a full pipe.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path

from labtui.errors import ExportError
from labtui.tui.logtext import display_text

TIMEOUT_S = 600.0
LOOK_EVERY_S = 0.25
_STEP = re.compile(r"\s*(\d{1,3})% (\S.*)")


def export_all(folder: Path, step: Callable[[str], None] = lambda text: None) -> Future[str]:
    """Start the export of a lab folder; the future gives what it said, or raises `ExportError`.

    `step` is told, from a thread, what is being made and how much is behind.
    """
    future: Future[str] = Future()

    def work() -> None:
        try:
            future.set_result(_run(folder, step))
        except Exception as error:  # whatever it is, the screen hears of it
            future.set_exception(error)

    threading.Thread(target=work, name="labtui-export", daemon=True).start()
    return future


def _run(folder: Path, step: Callable[[str], None]) -> str:
    # -P: nothing in the student's folder is taken for a module of the program
    command = [sys.executable, "-P", "-m", "labtui", "export", "--json", "--progress"]
    step("starting")
    try:
        with tempfile.TemporaryDirectory(prefix="labtui-", ignore_cleanup_errors=True) as name:
            answer, said = Path(name, "answer"), Path(name, "said")
            with answer.open("wb") as out, said.open("wb") as err:
                code = _follow(
                    subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err),
                    said,
                    step,
                )
            if code != 0:
                raise _refusal(code, said.read_bytes())
            return _summary(answer.read_bytes())
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ExportError(
            "The export did not come to an end.", "Run `labtui export` in the lab folder."
        ) from error


def _follow(child: subprocess.Popen[bytes], said: Path, step: Callable[[str], None]) -> int:
    """Wait for the child's end and pass on the newest step it tells of; one that takes too long is ended."""
    until = time.monotonic() + TIMEOUT_S
    told, rest = "", b""
    with said.open("rb") as lines:
        while True:
            try:
                return child.wait(LOOK_EVERY_S)
            except subprocess.TimeoutExpired:
                if time.monotonic() > until:
                    child.kill()
                    child.wait()
                    raise
            *whole, rest = (rest + lines.read()).split(b"\n")
            newest = progress_in(whole)
            if newest and newest != told:
                told = newest
                step(told)


def progress_in(lines: Iterable[bytes]) -> str:
    """The newest step among lines of the child as a sentence; "" when none of them is one."""
    for line in reversed(list(lines)):
        if found := _STEP.fullmatch(display_text(line.rstrip())):
            return f"{found[1]} %, {found[2].strip()}"
    return ""


def _refusal(code: int, said: bytes) -> ExportError:
    """Why the child ended without success: its own sentence and hint where it had some."""
    lines = [display_text(line).strip() for line in said.splitlines()]
    sentences = [line.removeprefix("labtui: ") for line in lines if line.startswith("labtui: ")]
    hints = [line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")]
    if code == 2 and sentences:
        return ExportError(
            sentences[-1], hints[-1] if hints else "`labtui export` in the lab folder says more."
        )
    return ExportError("The export failed.", "`labtui export` in the lab folder says more.")


def _summary(answer: bytes) -> str:
    """What was written, in words, and what the export has to remark."""
    try:
        told = json.loads(answer)
        paths = [Path(path) for path in told["files"]]
        notes = [display_text(str(note).encode()) for note in told["notes"]]
    except (ValueError, KeyError, TypeError):
        return "Exported."
    plots = sum(1 for path in paths if path.parent.name == "plots")
    names = [path.name for path in paths if path.parent.name != "plots"]
    parts = [", ".join(names), f"{plots} files in plots/" if plots else ""]
    place = os.path.commonpath([path.parent for path in paths]) if paths else ""
    where = f" in {place}" if place else ""
    return "\n".join([f"Written{where}: {'; '.join(part for part in parts if part)}.", *notes])
