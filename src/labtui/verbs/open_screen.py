"""`labtui` without a verb: open the lab folder here (or the one named), or make one with the student first."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labtui.errors import UsageError

if TYPE_CHECKING:
    from labtui.core.state import LabState
    from labtui.engine.session import Session

LOOK_S = 2.0


def open_folder(named: str | None) -> int:
    """Open the screens over the folder named, or the one here.

    Raises:
        UsageError: there is no terminal, or the folder named is no lab folder.
    """
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):  # Textual draws on stderr
        raise UsageError(
            "The screens need a terminal, and this is none.",
            "The verbs work without one: `labtui --help` lists them (submit, watch, results ...).",
        )
    refuse_dumb_terminal()
    path = _folder(named)
    if path is None:
        path = _make_one(Path(named) if named else None)
    return 0 if path is None else show(path)


def refuse_dumb_terminal() -> None:
    """Screens need a cursor that moves; where there is none Textual would draw the same picture for ever.

    Raises:
        UsageError: the terminal says that it is a dumb one.
    """
    if os.environ.get("TERM") == "dumb":
        raise UsageError(
            "This terminal cannot show screens (TERM is dumb).",
            "Open a terminal window, or use the verbs: `labtui --help` lists them.",
        )


def _folder(named: str | None) -> Path | None:
    """The lab folder meant, or None when it has to be made."""
    from labtui.engine.folder import SETTINGS_FILE, find_folder

    if named is None:
        try:
            return find_folder()
        except UsageError:
            return None
    path = Path(named).expanduser()
    if (path / SETTINGS_FILE).is_file():
        return path
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(
            f"{named} is neither a verb of labtui nor a lab folder.", "`labtui --help` lists the verbs."
        )
    if not path.exists() and "/" not in named and "\\" not in named and not named.startswith("~"):
        raise UsageError(
            f"{named} is neither a verb of labtui nor a folder.",
            "`labtui --help` lists the verbs; `labtui ./NAME` makes a new lab folder.",
        )
    return None


def _make_one(place: Path | None) -> Path | None:
    """The wizard; None when the student left it."""
    from labtui.tui.screens.wizard import WizardApp

    return WizardApp((place or Path.cwd() / "lab").expanduser()).run()


def show(
    folder: Path,
    *,
    practice_notes: Sequence[tuple[str, str]] = (),
    practice_factor: float | None = None,
    kept: bool = True,
) -> int:
    """The screens over a lab folder until the student leaves; the exit code.

    `practice_notes` is a list another thread appends (title, text) to: what a rehearsal teaches, shown as it comes.
    `practice_factor` is how much faster than real a rehearsal's clock goes; then its jobs end with the screens, and
    its folder as well unless it is `kept`.
    """
    gc.disable()  # nothing of what is imported now will be freed; the app switches it on again
    from labtui.engine.session import Session
    from labtui.tui.app import LabApp
    from labtui.tui.bridge import ScreenPrompter

    prompter = ScreenPrompter()
    session = Session.open(folder, prompter=prompter, start=False)
    threading.Thread(target=_leave_with_the_terminal, args=(session,), daemon=True).start()
    try:
        app = LabApp(session, prompter=prompter, lessons=practice_notes, factor=practice_factor, kept=kept)
        code = app.run()
    finally:
        prompter.close()
        session.close()
        gc.enable()
    if sys.stdout.isatty() and practice_factor is None:
        _say_what_goes_on(session.state)
    elif sys.stdout.isatty() and not kept and session.state.runs:
        print("The practice evening is over. `labtui practice --keep DIR` keeps the next one.")
    return code or 0


def _leave_with_the_terminal(session: Session) -> None:
    """End the program when its window is gone without a hang-up (as under nohup).

    Textual's own threads would read the end of input for ever, and wait for ever to write.
    """
    while _terminal_there():
        time.sleep(LOOK_S)
    session.close()
    os._exit(129)  # as a hang-up would have ended it


def _terminal_there() -> bool:
    try:
        return sys.__stdin__ is not None and sys.__stdin__.isatty()
    except (OSError, ValueError):
        return False


def _say_what_goes_on(state: LabState) -> None:
    """After the screens are gone: what runs on without them."""
    from labtui.core.model import RunPhase

    running = [
        run
        for run in state.runs.values()
        if run.phase in {RunPhase.QUEUED, RunPhase.STARTING, RunPhase.RUNNING}
    ]
    waiting = [run for run in state.runs.values() if run.phase is RunPhase.WAITING]
    if running:
        goes = "1 run goes" if len(running) == 1 else f"{len(running)} runs go"
        print(f"{goes} on at the cluster; open labtui again to catch up.")
    if waiting:
        stays = "1 run stays" if len(waiting) == 1 else f"{len(waiting)} runs stay"
        print(f"{stays} in the waiting line, to be sent while labtui or `labtui watch` is open.")
