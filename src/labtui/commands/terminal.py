"""What commands share: an open session, questions, text and JSON on stdout, messages and progress on stderr."""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from labtui.domain.errors import ConnectionLost, LabError, LoginRefused, NotWritable, UsageError
from labtui.domain.state import ConnectionState, LabState, RunState
from labtui.domain.terminal_text import fitted_lines

if TYPE_CHECKING:
    from labtui.cluster.target import LoginQuestion
    from labtui.session.folder import LabFolder
    from labtui.session.preview import ManualCommands
    from labtui.session.session import Session
    from labtui.session.settings import NotTrusted


def window_width(stream: TextIO | None = None) -> int | None:
    """The cells of a line (of stdout); None for a pipe or a file, which get everything in full lines."""
    return shutil.get_terminal_size().columns if (stream or sys.stdout).isatty() else None


MAX_WIDTH = 100
"""Cells of a sentence's line in a wide window."""


def print_wrapped(text: str, *, stream: TextIO | None = None, hang: int = 2) -> None:
    """Print sentences (on stdout), in a window broken between words; what follows is `hang` cells further in."""
    stream = stream or sys.stdout
    width = window_width(stream)
    lines = fitted_lines(text.split("\n"), None if width is None else min(width, MAX_WIDTH), hang)
    print("\n".join(lines), file=stream, flush=True)


_NO_TERMINAL_HINT = (
    "Use a key (an agent, or --identity at `labtui init`), or run this in a terminal. "
    "For a host key: `labtui init --host-key SHA256:...`."
)


def plain(text: str) -> str:
    """A text from outside, harmless on a terminal: control characters become blanks."""
    return "".join(char if char.isprintable() else " " for char in text)


def print_line(text: str) -> None:
    """A line of the answer, on stdout."""
    print(plain(text).rstrip(), flush=True)


def print_json(answer: object) -> None:
    print(json.dumps(msgspec.to_builtins(answer), indent=1, ensure_ascii=False), flush=True)


def say(text: str) -> None:
    """A line of progress or explanation, on stderr."""
    print_wrapped(plain(text), stream=sys.stderr)


def say_error(error: LabError) -> None:
    """An error's sentence and hint, on stderr."""
    text = f"labtui: {error.sentence}" + (f"\n  hint: {error.hint}" if error.hint else "")
    print_wrapped("\n".join(map(plain, text.split("\n"))), stream=sys.stderr)


class TerminalPrompter:
    """Asks on the terminal, if stdin is one; passwords are not echoed and never kept."""

    def __init__(self) -> None:
        self.unasked: str = ""

    def ask(self, question: LoginQuestion) -> str | None:
        """The answer, or None."""
        if not at_terminal():
            self.unasked = plain(question.text)
            return None
        import getpass

        text = plain(question.text).strip()
        try:
            if question.kind == "host-key":
                return "yes" if typed(f"{text} Type yes: ").lower() == "yes" else None
            return typed(f"{text} ") if question.echo else getpass.getpass(f"{text} ", stream=sys.stderr)
        except (EOFError, KeyboardInterrupt):
            return None


def at_terminal() -> bool:
    """Whether questions can be asked: stdin is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def typed(question: str) -> str:
    """What is typed after a question, which goes to stderr, since stdout may be a pipe. Raises EOFError."""
    print(plain(question), end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()


def agreed(question: str) -> bool:
    """Ask yes or no on a terminal. Without one nothing is asked: the command line was the answer."""
    if not at_terminal():
        return True
    try:
        return typed(f"{question} [y/N] ").lower() in ("y", "yes")
    except EOFError:
        return False


def ask_trust(folder: Path, *, given: bool) -> NotTrusted | None:
    """Ask whether to trust a lab folder that this user has neither made nor trusted; why it is not trusted after that.

    `given` is ``--trust``. Without it nothing is asked where there is no terminal.
    """
    from labtui.cluster.local_files import named_path
    from labtui.session.opening import effects_of_trust
    from labtui.session.settings import check_trust, trust

    folder = named_path(folder).resolve()
    why = check_trust(folder)
    if why is None:
        return None
    if not given:
        if not at_terminal():
            return why
        for line in (why.sentence, *effects_of_trust(folder)):
            say(line)
        if not agreed("Trust this folder?"):
            return why
    trust(folder)
    return None


def require_trust(folder: Path, args: argparse.Namespace) -> None:
    """As `ask_trust`, for what cannot be done without. Raises NotTrusted."""
    if (why := ask_trust(folder, given=args.trust)) is not None:
        raise why


def folder_here(named: str | None, start: Path = Path()) -> LabFolder | None:
    """The lab folder that is named, else the one at `start` or above. Raises UsageError when the named one is none."""
    from labtui.session.folder import LabFolder, find_folder

    try:
        return LabFolder.open(find_folder(named or start))
    except UsageError:
        if named:
            raise
        return None


class Open:
    """A session for the length of a command."""

    def __init__(self, args: argparse.Namespace, *, start: bool = True, looks: bool = False) -> None:
        """Open the lab folder of `args.folder`. `start` False: connect to nothing yet.

        A folder that is not trusted ends the command, unless it only `looks` at what is stored.
        """
        from labtui.session.folder import find_folder
        from labtui.session.session import Session

        folder = find_folder(args.folder)
        if args.trust or not looks:
            require_trust(folder, args)

        self._prompter = TerminalPrompter()
        self.session: Session = Session.open(folder, prompter=self._prompter, start=False)
        if looks:
            self.tell_not_writable()
        self._told = self.session.state  # the state that goes with the last of the updates
        if start:
            self.session.start()

    def tell_not_writable(self) -> None:
        """Say that the folder is on a disk that takes nothing, for commands that work all the same."""
        if isinstance(why := self.session.why_read_only, NotWritable):
            say_error(why)

    def __enter__(self) -> Open:
        return self

    def __exit__(self, *exc: object) -> None:
        self.session.close()

    @property
    def state(self) -> LabState:
        return self.session.state

    def updates(
        self, done: Callable[[LabState], bool], *, limit_s: float | None = None
    ) -> Iterator[LabState]:
        """States as they come, until `done` says so or the time is over; those before `done` are all given."""
        end = math.inf if limit_s is None else time.monotonic() + limit_s
        while True:
            before, left = self._told, min(0.5, end - time.monotonic())
            self._told = self.session.next_state(before, 0.0 if done(self.state) else max(0.0, left))
            if self._told is not before:
                yield self._told
            elif done(self._told) or left <= 0:
                return

    def wait(self, done: Callable[[LabState], bool], *, limit_s: float | None = None) -> bool:
        """Wait until `done`; says whether it came to pass."""
        for _ in self.updates(done, limit_s=limit_s):
            pass
        return done(self.state)

    def online(self, *, limit_s: float = 120.0) -> None:
        """Wait for the connection.

        Raises:
            LabError: why there is none (also when a question could not be asked).
        """
        if self.session.read_only:
            return
        self.wait(lambda state: _settled(state.connection), limit_s=limit_s)
        self.check_line()

    def refresh(self, *, limit_s: float = 60.0) -> None:
        """Read the queue once; where the process that has the folder reads it, nothing is waited for."""
        self.session.refresh()
        if not self.session.elsewhere:
            self.wait(lambda state: state.refreshed_at is not None or bool(state.problems), limit_s=limit_s)

    def check_line(self, *, patient: bool = False) -> None:
        """Raise why there is no connection; `patient` accepts one that will be tried again."""
        connection = self.state.connection
        if connection.status == "needs-login":
            raise LoginRefused(connection.sentence, self._hint(connection.hint))
        if connection.status == "offline" and connection.sentence and not patient:
            raise ConnectionLost(connection.sentence, connection.hint)

    def _hint(self, hint: str) -> str:
        return _NO_TERMINAL_HINT if self._prompter.unasked else hint


def _settled(connection: ConnectionState) -> bool:
    """Whether an attempt ended; before the first one a session is offline without a reason."""
    return connection.status in ("online", "stale", "needs-login") or (
        connection.status == "offline" and bool(connection.sentence)
    )


def run_row(state: LabState, run: RunState) -> dict[str, Any]:
    """What the rows of `queue --json` and `watch --json` have in common."""
    mark = state.mark_of(run)
    return {
        "run": run.run_id,
        "task": run.task_id,
        "model": run.spec.model,
        "n_gpus": run.spec.n_gpus,
        "practice": mark == "practice",
        "small": mark == "small",
        "phase": run.phase.value,
        "outcome": run.outcome,
    }


def show_by_hand(groups: Sequence[tuple[str, Sequence[ManualCommands]]], *, as_json: bool = False) -> int:
    """Print commands under what they are about, each with its sentence as a comment: they run as they are printed."""
    if as_json:
        rows = [{"about": about, "commands": actions} for about, actions in groups]
        print_json({"by_hand": rows})
        return 0
    if any(actions for _, actions in groups):
        say("Run this in the lab folder.")
    for about, actions in groups:
        if actions:
            print(plain(f"# {about}, by hand:"))
        for item in actions:
            print(f"{item.text}\n")
    return 0
