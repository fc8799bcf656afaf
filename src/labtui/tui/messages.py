"""What the screens exchange with other threads and processes: the worker's questions, the editor, the export.

`labtui export` runs in a process of its own, so that its heavy libraries never slow the screens down. It finishes even
if labtui is closed meanwhile; only its messages are lost then.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from textual.app import App

from labtui.domain import model, terminal_text
from labtui.domain.errors import ExportError, LabError

if TYPE_CHECKING:
    from labtui.tui.app import LabApp


class ScreenPrompter:
    """Answers the worker's questions (password, passphrase, code, host key) with a modal of the app."""

    def __init__(self) -> None:
        self.app: App[Any] | None = None  # questions are shown in it
        self._closed = threading.Event()

    def close(self) -> None:
        """Stop answering: pending questions and later ones get None."""
        self._closed.set()

    def __call__(self, question: Any) -> str | None:
        """Return the answer, or None if the student refused or the app is closing. Called in the worker thread."""
        reply: Future[str | None] = Future()
        app = None if self._closed.is_set() else self.app
        if app is None or not app.call_later(self.show, app, question, reply.set_result):
            return None
        while not self._closed.is_set():
            with suppress(TimeoutError):
                return reply.result(timeout=0.2)
        return None

    def show(self, app: App[Any], question: Any, answered: Callable[[str | None], None]) -> None:
        """Push the modal for a question once no text is typed, and pass its answer to `answered`.

        The tour of the first start gives way to it, and begins again afterwards.
        """
        from labtui.tui.screens.modals import prompt_screen, show_tour

        def begin_again(answer: str | None) -> None:
            answered(answer)
            show_tour(cast("LabApp", app))

        if app.focused is not None and app.focused.check_consume_key("a", "a"):  # a letter typed now is text
            app.notify(f"{question.host} asks a question: leave the text to answer it.")
            app.set_timer(1.0, partial(self.show, app, question, answered))
        elif app.screen.has_class("-tour"):
            app.screen.dismiss(None)
            app.push_screen(prompt_screen(question), begin_again)
        else:
            app.push_screen(prompt_screen(question), answered)


SET_EDITOR = "Set EDITOR to your editor's command."


def editor_command() -> list[str]:
    """The student's editor as an argument list, else one of the system's; empty if there is none."""
    for name in ("VISUAL", "EDITOR"):
        text = os.environ.get(name, "")  # on Windows often a path with spaces, or a script such as code.cmd
        if words := [text] if Path(text).is_file() else shlex.split(text, posix=sys.platform != "win32"):
            program, *options = (word.strip('"') for word in words)
            return [shutil.which(program) or program, *options]
    names = ("notepad",) if sys.platform == "win32" else ("nano", "vim", "vi")
    return [found for found in map(shutil.which, names) if found][:1]


def editor_hint(command: list[str], path: Path) -> str:
    """Which editor opens and how to leave it; "" if the student chose the editor."""
    if os.environ.get("VISUAL") or os.environ.get("EDITOR"):
        return ""
    name = Path(command[0]).stem
    keys = {"nano": "ctrl+x leaves it", "vi": "esc, then :wq, leaves it"}
    leave = keys.get(name.removesuffix("m"), "close it to come back")
    return f"{path.name} opens in {name}: {leave}. Set EDITOR to choose another editor."


def edit(path: Path, *, explain: bool) -> LabError | None:
    """Run the student's editor on a file; return why it could not be run. With `explain`, first say which one opens."""
    command = editor_command()
    if not command:
        return LabError("No editor was found.", SET_EDITOR)
    # ctrl+c would otherwise reach asyncio's handler, which ends labtui after the editor
    interrupted = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if explain and (hint := editor_hint(command, path)):
            hint = textwrap.fill(hint, shutil.get_terminal_size().columns - 1)
            # on the alternate screen, so that nothing printed meanwhile is left when labtui ends; on Windows, Textual
            # has given the console back, which may then print escape sequences as they are
            begin, end = ("", b"") if sys.platform == "win32" else ("\x1b[?1049h\x1b[H", b"\x1b[?1049l")
            try:
                input(f"{begin}{hint}\nPress enter to open it, ctrl+c to go back. ")
            finally:
                os.write(1, end)
        signal.signal(signal.SIGINT, lambda *_: None)  # ctrl+c is meant for the editor
        subprocess.run([*command, str(path)], check=False)
    except (KeyboardInterrupt, EOFError):
        return None
    except OSError as error:
        return LabError(f"{command[0]} could not be started: {error.strerror}.", SET_EDITOR)
    finally:
        signal.signal(signal.SIGINT, interrupted)
    return None


TIMEOUT_S = 600.0
POLL_S = 0.1


def export_all(folder: Path, told: Callable[[str], object], remarked: Callable[..., None]) -> Future[str]:
    """Start the export of a lab folder; the future gives a summary, or raises `ExportError`.

    In another thread, `told` is called with the file that is being made, as ``3 of 11: deck.pptx``, and at the end
    `remarked` with the list of the export's remarks.
    """
    future: Future[str] = Future()

    def work() -> None:
        try:
            said, remarks = _run(folder, told)
            remarked(remarks)
            future.set_result(said)
        except Exception as error:  # any error is shown on the screen
            future.set_exception(error)

    threading.Thread(target=work, name="labtui-export", daemon=True).start()
    return future


def _run(folder: Path, told: Callable[[str], object]) -> tuple[str, list[str]]:
    # -P: no file in the student's folder is imported as a module; a group of its own: ctrl+c does not end it
    command = [sys.executable, "-P", "-m", "labtui", "export", "--json"]
    said, end = list[str](), time.monotonic() + TIMEOUT_S
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        out, err = Path(place, "out"), Path(place, "err")
        with out.open("wb") as answer, err.open("wb") as steps:  # not pipes: they break when labtui is closed
            child = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=answer, stderr=steps, process_group=0
            )
        running = True
        while running:
            running = child.poll() is None
            if running and time.monotonic() > end:
                child.kill()
            for line in err.read_bytes().split(b"\n")[len(said) : -1]:
                said.append(terminal_text.display_text(line.rstrip()))
                if re.match(r"\d+ of \d+: ", said[-1]):
                    told(said[-1])
            time.sleep(POLL_S * running)
        if child.returncode:
            raise _refusal("\n".join([*said, ""]))
        return _summary(out.read_bytes(), folder.resolve())


def _refusal(said: str) -> ExportError:
    """The error of a child process that failed: its own sentence and hint, if these lines have them."""
    found = re.findall(r"^labtui: (.*)\n(?:  hint: (.*))?", said, re.MULTILINE)
    sentence, hint = found[-1] if found else ("The export did not finish.", "")
    return ExportError(sentence, hint or "Run `labtui export` in the lab folder for details.")


def _summary(answer: bytes, folder: Path) -> tuple[str, list[str]]:
    """What was written, and where as seen from the working directory, in one sentence; the export's remarks."""
    import json

    report = json.loads(answer)
    paths = [Path(path) for path in report["files"]]
    notes = [terminal_text.display_text(str(note).encode()) for note in report["notes"]]
    decks = [path.name for path in paths if path.name.startswith(("deck", "report"))]
    parts = [*decks, f"{len(paths) - len(decks)} more"]
    said = f" {model.plural(len(notes), 'remark')}: press !" if notes else ""
    where = "here" if folder == Path.cwd() else f"to {folder}"
    return f"Written {where}: {', '.join(parts)}.{said}", notes
