"""The entry point: `labtui`, its commands, what guards their output, and `labtui completion`.

Only the module of the command that was named is imported; `labtui --version` and `--help` load
neither Textual nor pandas nor paramiko. Exit codes: 0 done, 1 the answer is "no", 2 wrong use or
cannot, 130 interrupted.

On a terminal, whatever a command prints (names of files, words from logs, answers of servers) loses its control
characters: no escape sequence reaches the terminal unless it was written through `trusted`. Into a pipe or a file the
text goes as it is, in UTF-8. A character that the encoding lacks is written as an escape.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TextIO

from labtui import __version__
from labtui.domain.errors import LabError, UsageError
from labtui.domain.terminal_text import ascii_text, ascii_wanted, sanitize


class SanitizedStream:
    """A text stream to a terminal; everything but `write` and `writelines` is the stream below."""

    def __init__(self, below: TextIO) -> None:
        self.below = below

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)

    def write(self, text: str) -> int:
        """Write what is left of a text when nothing in it acts."""
        return self.below.write(ascii_text(sanitize(text)) if ascii_wanted(os.environ) else sanitize(text))

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)


def trusted(stream: TextIO) -> TextIO:
    """The stream below the guard, for colours of our own; what else is written there has to be harmless already."""
    return stream.below if isinstance(stream, SanitizedStream) else stream


@contextmanager
def guarded() -> Iterator[None]:
    """Guard ``sys.stdout`` and ``sys.stderr`` for the length of a command."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _guard(sys.stdout), _guard(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _guard(stream: TextIO | None) -> Any:
    if stream is None:  # started without a console
        return stream
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        # In a pipe UTF-8, whatever the locale: other programs read JSON.
        reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")
    return SanitizedStream(stream) if stream.isatty() else stream


class Parser(argparse.ArgumentParser):
    """argparse whose complaint is a sentence and a hint, as every other error of labtui."""

    def error(self, message: str) -> NoReturn:
        """Raise what `main` prints; exit code 2."""
        sentence = message[:1].upper() + message[1:]
        raise UsageError(
            sentence if sentence.endswith(".") else f"{sentence}.", f"`{self.prog} --help` shows the usage."
        )


def overview() -> argparse.ArgumentParser:
    """What `labtui` takes when no command is named; its help lists the commands."""
    wide = max(map(len, COMMANDS)) + 2
    lines = "\n".join(f"  {name:<{wide}}{text}" for name, (_, text) in COMMANDS.items())
    parser = Parser(
        prog="labtui",
        description="Run the parallel-training lab on a Slurm cluster from one terminal window.",
        epilog=f"commands:\n{lines}\n\nWithout a command, labtui opens the lab folder here (or helps you make one).\n"
        "`labtui COMMAND --help` shows its options.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-V", "--version", action="version", version=f"labtui {__version__}")
    words = "a command below, or a lab folder to open"
    parser.add_argument("folder", nargs="?", metavar="COMMAND | FOLDER", help=words)
    parser.add_argument("--trust", action="store_true", help="trust the lab folder from now on")
    return parser


COMMANDS: dict[str, tuple[str, str]] = {
    "practice": ("screens", "open labtui on the practice cluster inside this program"),
    "init": ("lab_folders", "make a lab folder"),
    "labs": ("lab_folders", "list, show and check lab editions"),
    "doctor": ("doctor", "check the connection, the account, the paths and a small job"),
    "key": ("doctor", "set up the login by SSH key: make a key, install it, test it"),
    "submit": ("submit", "submit the runs of a task, or a job file of your own"),
    "lint": ("job_files", "check job files and training scripts for mistakes"),
    "watch": ("follow", "follow the runs until they end"),
    "queue": ("jobs", "show the jobs and the submission queue"),
    "log": ("follow", "show a run's output"),
    "gpus": ("jobs", "show what the GPUs of a running job do"),
    "cancel": ("jobs", "cancel runs, or any job of yours"),
    "retry": ("jobs", "submit a run again: the same, with more time, or a smaller batch"),
    "hold": ("jobs", "hold waiting runs until they are released"),
    "release": ("jobs", "release held runs"),
    "check": ("lab_folders", "show which tasks are done, based on evidence"),
    "parse": ("parse", "read training logs and print what they contain"),
    "results": ("results", "epoch time, throughput, speedup, efficiency; how exact they are"),
    "why": ("results", "where the efficiency went, or what differs between two runs"),
    "plot": ("results", "draw the charts into files"),
    "export": ("results", "write tables, plots and the slide deck"),
    "completion": ("cli", "print a completion script for bash, zsh or fish"),
    "repair": ("doctor", "rebuild the database from job scripts and copies of the logs"),
}
"""The module of each command and what it does. Its functions there: `NAME_arguments` and `run_NAME`."""


def command_functions(name: str) -> tuple[Callable[[argparse.ArgumentParser], None], Callable[..., int]]:
    """What adds a command's arguments to a parser, and what runs it; imports the command's module."""
    module = importlib.import_module(f"labtui.commands.{COMMANDS[name][0]}")
    return getattr(module, f"{name}_arguments"), getattr(module, f"run_{name}")


def whole_parser() -> argparse.ArgumentParser:
    """One parser with every command below it, as a completion script needs it; a command alone is parsed without it."""
    parser = Parser(prog="labtui")
    parser.add_argument("--version", action="version", version=f"labtui {__version__}")
    commands = parser.add_subparsers(parser_class=Parser)
    for name, (_, sentence) in COMMANDS.items():
        command_functions(name)[0](commands.add_parser(name, help=sentence))
    return parser


def _run_command(name: str, arguments: Sequence[str]) -> int:
    add_arguments, run = command_functions(name)
    sentence = COMMANDS[name][1]
    parser = Parser(prog=f"labtui {name}", description=f"{sentence[:1].upper()}{sentence[1:]}.")
    add_arguments(parser)
    return int(run(parser.parse_args(arguments)))


def _dispatch(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] in COMMANDS:
        return _run_command(arguments[0], arguments[1:])
    first = arguments[0] if arguments else ""
    if first and not first.startswith("-") and not os.path.exists(first):  # noqa: PTH110 (pathlib is not needed to start)
        _refuse_misspelt(first)
    named = overview().parse_args(arguments)
    from labtui.commands import screens

    return screens.open_folder(named.folder, trust=named.trust)


def _refuse_misspelt(word: str) -> None:
    """A word that is nearly a command is meant as one."""
    import difflib

    near = difflib.get_close_matches(word, COMMANDS, n=1, cutoff=0.7)
    if near:
        raise UsageError(
            f"labtui has no command {word!r}.",
            f"Did you mean `labtui {near[0]}`? `labtui --help` lists them.",
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run labtui; returns the exit code. Errors become a sentence and a hint on stderr."""
    with guarded():
        return _run(sys.argv[1:] if arguments is None else arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        return _dispatch(arguments)
    except LabError as error:
        from labtui.commands.terminal import say_error

        say_error(error)
        return 2
    except BrokenPipeError:
        # The reader of our pipe went away (`labtui results | head`): that is no error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        print(f"labtui: {what}{error.strerror or error}.", file=sys.stderr)
        return 2
    except Exception as error:
        print(f"labtui: Something went wrong inside labtui ({type(error).__name__}).", file=sys.stderr)
        if written := _keep(error):
            print(f"  hint: the details are in {written}; please report them.", file=sys.stderr)
        return 2


def _keep(error: Exception) -> str:
    """Write the traceback of a bug into a file for its owner alone; its path, empty when that failed, too."""
    import tempfile
    import traceback

    try:
        handle, path = tempfile.mkstemp(prefix="labtui-problem-", suffix=".log")
        with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:  # noqa: PTH123 (a descriptor)
            traceback.print_exception(error, file=file)
    except OSError:
        return ""
    return path


_SHELLS = ("bash", "zsh", "fish")
_HINT = """\
to install it (zsh: with fpath+=~/.zfunc before compinit):
  labtui completion bash > ~/.local/share/bash-completion/completions/labtui
  labtui completion zsh > ~/.zfunc/_labtui
  labtui completion fish > ~/.config/fish/completions/labtui.fish
"""


def completion_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=_SHELLS, help="the shell the script is for")
    parser.epilog = _HINT
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def run_completion(args: argparse.Namespace) -> int:
    """Print the script; files and folders are completed where an option takes one."""
    import shtab

    kinds = {"DIR": shtab.DIRECTORY, "FILE": shtab.FILE, "TASK|FILE": shtab.FILE}
    parser = whole_parser()
    for each in _parsers(parser):
        for action in each._actions:
            if isinstance(action.metavar, str) and action.metavar in kinds:
                action.complete = kinds[action.metavar]  # type: ignore[attr-defined]  # shtab's own attribute
    print(shtab.complete(parser, shell=args.shell))
    return 0


def _parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [inner for each in action.choices.values() for inner in _parsers(each)]
    return found
