"""Shared by the commands: an open session, questions, answers and JSON on stdout, progress and errors on stderr."""

from __future__ import annotations

import argparse
import itertools
import math
import shutil
import sys
import time
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec
from msgspec.structs import replace

from labtui.cluster.local_files import expand_home
from labtui.domain import decode, model
from labtui.domain.errors import ConnectionLost, LabError, LoginRefused, NotWritable, UsageError, failure
from labtui.domain.state import QUEUE_KEY, LabState, Problem, RunState
from labtui.domain.terminal_text import fitted_lines, printable
from labtui.session.folder import LabFolder, find_folder
from labtui.session.settings import check_trust, known_record, load_named, trust

if TYPE_CHECKING:
    from concurrent.futures import Future

    from labtui.cluster.target import LoginQuestion
    from labtui.session.preview import ManualCommands
    from labtui.session.session import Session
    from labtui.tui.view import View


def window_width(stream: TextIO | None = None) -> int | None:
    """The width of the terminal in cells (default: of stdout); None for a pipe or a file, where nothing is wrapped."""
    return shutil.get_terminal_size().columns if (stream or sys.stdout).isatty() else None


MAX_WIDTH = 100
"""Sentences are wrapped at this width in wider windows, in cells."""


def print_wrapped(text: str, *, stream: TextIO | None = None, hang: int = 2, end: str = "\n") -> None:
    """Print sentences (default: on stdout); on a terminal wrapped, with continuation lines `hang` cells further in."""
    stream = stream or sys.stdout
    width = window_width(stream)
    lines = fitted_lines(text.split("\n"), None if width is None else min(width, MAX_WIDTH), hang)
    print("\n".join(lines), end=end, file=stream, flush=True)


def print_line(text: str) -> None:
    """Print a line of the answer on stdout."""
    print(printable(text).rstrip(), flush=True)


def print_table(grid: Sequence[Sequence[str]], right: Container[str] = (), below: Sequence[str] = ()) -> None:
    """Print a table on stdout, wrapped at the edge of a terminal; `below` has a remark on each line.

    The columns that `right` names in the first line are right-aligned.
    """
    from labtui.results.numbers import grid_text

    rows = [list(map(printable, row)) for row in grid]
    lines = grid_text(rows, [name in right for name in grid[0]]).splitlines()
    for line, remark in itertools.zip_longest(lines, below):
        for text in filter(None, (line, remark and f"     {remark}")):
            hang = max(0, 5 - (len(text) - len(text.lstrip())))  # the same place for all that is continued
            print("\n".join(fitted_lines([text.rstrip()], window_width(), hang)), flush=True)


def print_json(answer: object) -> None:
    print(decode.json_text(answer), flush=True)


def say(text: str) -> None:
    """Print progress or an explanation on stderr."""
    print_wrapped(printable(text), stream=sys.stderr)


def error_lines(error: LabError | Problem) -> tuple[str, ...]:
    """An error's sentence and hint, as commands print them."""
    return (f"labtui: {error.sentence}", *([f"  hint: {error.hint}"] if error.hint else []))


def say_error(error: LabError | Problem) -> None:
    """Print an error's sentence and hint on stderr."""
    for line in error_lines(error):
        say(line)


def checked(lab: OpenLab, view: View) -> View:
    """The view with the tasks of its edition checked.

    Raises:
        FolderError: when scripts or answers cannot be read.
    """
    from labtui.session.labs import check_folder

    checks = check_folder(lab.session.folder, lab.session.edition, view.shown_state)
    return replace(view, checks={check.task_id: check for check in checks})


class TerminalPrompter:
    """Asks login questions on the terminal, if stdin is one; passwords are neither echoed nor kept.

    `unasked` is the question that could not be asked, if any.
    """

    unasked = ""

    def __call__(self, question: LoginQuestion) -> str | None:
        """The answer, or None if there is none."""
        if not at_terminal():
            self.unasked = printable(question.text)
            return None
        import getpass

        text = printable(question.text).strip()
        try:
            if question.kind == "host-key":
                ask = " (yes/no/fingerprint)"
                while not (question.accepts(answer := read_line(text + ask)) or answer.lower() == "no"):
                    text = "Please answer"
                return answer
            return read_line(text) if question.echo else getpass.getpass(f"{text} ", stream=sys.stderr)
        except (EOFError, KeyboardInterrupt):
            return None


SLURM_ANSWER_S = 300.0
"""How long a command waits for Slurm's answer to a request."""


def wait_for(request: Future[Any]) -> Any:
    """The result of a request to the cluster. Raises LabError if it fails or is not answered in time."""
    try:
        return request.result(SLURM_ANSWER_S)
    except TimeoutError:
        raise failure("answer-late") from None


def at_terminal() -> bool:
    """Whether questions can be asked: stdin is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def read_line(question: str) -> str:
    """Ask on stderr, since stdout may be a pipe, and read a line from stdin. Raises EOFError."""
    print_wrapped(printable(question), stream=sys.stderr, end=" ")
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()


def confirm(question: str) -> bool:
    """Ask yes or no. Without a terminal the answer is yes, as the command line asked for it."""
    if not at_terminal():
        return True
    try:
        return read_line(f"{question} [y/N]").lower() in ("y", "yes")
    except EOFError:
        return False


def ask_trust(folder: Path, *, given: bool) -> LabError | None:
    """Ask whether to trust a lab folder that this user neither made nor trusted before; return why it is not trusted.

    `given` is ``--trust``, the answer yes. Without it and without a terminal the folder stays untrusted. Raises
    LabError if its settings or profile cannot be read.
    """
    from labtui.session.opening import effects_of_trust, forget_readings

    folder = expand_home(folder).resolve()
    why = check_trust(folder)
    if why is None:
        return None
    if given or known_record(folder):
        load_named(folder, trusting=True)  # settings that cannot be read are no change of the host
    if not given:
        if not at_terminal():
            return why
        for line in (why.sentence, *effects_of_trust(folder)):
            say(line)
        if not confirm("Trust this folder?"):
            return why
    trust(folder)
    forget_readings(folder)
    return None


def require_trust(folder: Path, args: argparse.Namespace) -> None:
    """Ask as `ask_trust` does, and raise NotTrusted unless the folder is trusted."""
    if (why := ask_trust(folder, given=args.trust)) is not None:
        raise why


def lab_folder(named: str | Path | None, args: argparse.Namespace, *, writes: bool) -> LabFolder:
    """The lab folder `named`, or the one here; a folder below it will do. One that a command `writes` must be trusted.

    Raises UsageError if there is none, NotTrusted if the user does not trust it.
    """
    folder = LabFolder.open(find_folder(named or "."))
    if writes or args.trust:
        require_trust(folder.path, args)
    return folder


def folder_here(named: str | None, start: Path = Path()) -> LabFolder | None:
    """The lab folder `named`, else the one at `start` or above it, or None. Raises UsageError if `named` is not one."""
    try:
        return LabFolder.open(find_folder(named or start))
    except UsageError:
        if named:
            raise
        return None


class OpenLab:
    """A session that is open while a command runs."""

    def __init__(self, args: argparse.Namespace, *, view_only: bool = False, follows: str = "") -> None:
        """Open the lab folder of `args.folder`; `session.start` connects.

        Raises NotTrusted for an untrusted folder, unless the command is `view_only`: it shows what is stored, sends
        nothing, and says if the folder cannot be written. `follows` is the name of a command that stays connected: it
        sends what waits, and hands the folder over to screens that open.
        """
        from labtui.session.session import Session

        folder = lab_folder(args.folder, args, writes=not view_only)
        self._prompter = prompter = TerminalPrompter()
        sends = bool(follows) or not view_only
        self._open = partial(
            Session.open, folder.path, prompter=prompter, start=False, sends=sends, follows=follows
        )
        self.session: Session = self._open()
        if view_only and isinstance(why := self.session.why_read_only, NotWritable):
            say_error(why)
        self._last_state = LabState()  # the last one that `updates` has given; the first is the stored one

    def __enter__(self) -> OpenLab:
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        """Close the session, but not before Slurm has answered what this process has begun to send."""
        if kind is None and not self.session.open_elsewhere:
            online = ("online", "stale")
            sending = model.SubmissionStatus.SENDING
            self.wait(lambda state: state.connection.status not in online or not state.in_status(sending))
        self.session.close()

    @property
    def state(self) -> LabState:
        return self.session.state

    def updates(self, done: Callable[[LabState], bool], *, limit_s: float = math.inf) -> Iterator[LabState]:
        """Yield each new state until `done` or for `limit_s` seconds; no state before `done` is left out."""
        end = time.monotonic() + limit_s
        while True:
            if self.session.is_wanted and not self.state.in_status(model.SubmissionStatus.SENDING):
                self._open_again("The screens that were opened connect now; this one follows them.")
            before, left = self._last_state, min(0.5, end - time.monotonic())
            self._last_state = self.session.next_state(before, 0.0 if done(self.state) else max(0.0, left))
            if self._last_state is not before:
                yield self._last_state
            elif done(self._last_state) or left <= 0:
                return

    def wait(self, done: Callable[[LabState], bool], *, limit_s: float = math.inf) -> None:
        """Wait until `done`, for at most `limit_s` seconds."""
        for _ in self.updates(done, limit_s=limit_s):
            pass

    def wait_online(self) -> None:
        """Wait for the connection.

        Raises:
            LabError: there is none, e.g. because a login question could not be asked.
        """
        if self.session.read_only:
            return
        self.wait(lambda state: state.connection.tried, limit_s=120.0)
        self.check_connection()

    def refresh(self) -> None:
        """Have the queue read once, by the process that has the folder, and wait for it."""
        before = self.state.refreshed_at if self.session.open_elsewhere else self.state.connection.since
        self.session.refresh()

        def done(state: LabState) -> bool:
            over = QUEUE_KEY in {each.key for each in state.problems} or state.connection.status != "online"
            return over or (state.refreshed_at or 0.0) > (before or 0.0)

        self.wait(done, limit_s=60.0)

    def check_connection(self, *, patient: bool = False) -> None:
        """Raise LabError if there is no connection; with `patient`, only if labtui will not try again.

        Beside a process that was closed meanwhile, this one takes its place.
        """
        connection = self.state.connection
        if self.session.other_closed:
            self._open_again(f"{connection.sentence} This one connects now.")
        elif connection.status == "needs-login":
            if self._prompter.unasked:
                raise failure("not-asked", said=connection.sentence)
            raise LoginRefused(connection.sentence, connection.hint)
        elif connection.status == "offline" and connection.tried and not patient:
            raise ConnectionLost(connection.sentence, connection.hint)

    def _open_again(self, sentence: str) -> None:
        """Open the folder again: read-only beside screens that asked for it, else to connect."""
        from labtui.session.opening import wait_for_writer

        say(sentence)
        self.session.close()
        if self.session.is_wanted:
            wait_for_writer(self.session.folder)
        self.session = self._open()
        self.session.start()


def fields_of(record: msgspec.Struct, names: str) -> dict[str, Any]:
    """Some fields of a record, which JSON has under their own names; `names` have blanks between them."""
    return {name: getattr(record, name) for name in names.split()}


def run_row(state: LabState, run: RunState) -> dict[str, Any]:
    """The fields that the rows of `queue --json` and `watch --json` share."""
    mark = state.mark_of(run)
    return {
        "run": run.run_id,
        "task": run.task_id,
        "model": run.spec.model,
        "n_gpus": run.used.n_gpus,
        "practice": mark == "practice",
        "small": mark == "small",
        "phase": run.phase.value,
        "outcome": run.outcome,
    }


def print_commands(groups: Sequence[tuple[str, Sequence[ManualCommands]]], *, as_json: bool = False) -> int:
    """Print groups of shell commands; headings and explanations are comments, so that all of it can be pasted."""
    if as_json:
        print_json({"by_hand": [{"about": about, "commands": actions} for about, actions in groups]})
        return 0
    if any(actions for _, actions in groups):
        say("Run this in the lab folder.")
    for about, actions in groups:
        if actions:
            print(printable(f"# {about}, by hand:"))
        for item in actions:
            print(f"{item.text}\n")
    return 0
