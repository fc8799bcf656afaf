"""The entry point: `labtui`, the table of its commands, sanitized output, and `labtui completion`.

Only the module of the given command is imported; `labtui --version` and `--help` load neither Textual nor pandas nor
paramiko. Exit codes: 0 done, 1 the answer is "no", 2 wrong use or impossible, 130 interrupted.

All that a command prints (file names, log lines, answers of servers) loses its control characters, in a pipe or a file
too, which may end on a terminal: no escape sequence gets there unless it is written to `raw_stream`. Pipes and files
get UTF-8. A character that the encoding lacks is written as an escape.
"""

import argparse
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, NoReturn, TextIO

from labtui import __version__
from labtui.domain.errors import LabError, UsageError, failure, suggest
from labtui.domain.terminal_text import ascii_text, ascii_wanted, sanitize


class SanitizedStream:
    """A text stream that sanitizes what is written; all else is delegated to the stream `below`."""

    def __init__(self, below: TextIO) -> None:
        self.below = below

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)

    def write(self, text: str) -> int:
        """Write a text without its control characters; on a terminal in ASCII if that is wanted."""
        plain = ascii_wanted(os.environ) and self.below.isatty()
        return self.below.write(ascii_text(sanitize(text)) if plain else sanitize(text))

    def writelines(self, lines: Any) -> None:
        self.write("".join(lines))


def raw_stream(stream: TextIO) -> TextIO:
    """The stream without the sanitizing, for labtui's own colours; callers sanitize other text themselves."""
    return stream.below if isinstance(stream, SanitizedStream) else stream


@contextmanager
def guard_streams() -> Iterator[None]:
    """Sanitize ``sys.stdout`` and ``sys.stderr`` while a command runs."""
    with redirect_stdout(_guard_stream(sys.stdout)), redirect_stderr(_guard_stream(sys.stderr)):
        yield


def _guard_stream(stream: TextIO | None) -> Any:
    if stream is None:  # started without a console, or with a closed stream
        return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 (pathlib is not needed to start)
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        # UTF-8 in a pipe, whatever the locale: other programs read JSON.
        reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")
    return SanitizedStream(stream)


_CHOICE = re.compile(r"invalid choice: '(?P<given>.*)' \(choose from (?P<known>.*)\)")
_UNKNOWN = re.compile(r"unrecognized arguments: (?P<option>--[^\s=]+)")
"""What argparse says of a value that is no choice, and of an option that a command does not have."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are a sentence and a hint, like all errors of labtui."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError; `main` prints it and returns 2."""
        message = re.sub("invalid (float|int) value: (.*)", r"\2 is not a number", message)
        message = re.sub("the following arguments are required: (.*)", r"\1 is missing", message)
        sentence = message[:1].upper() + message[1:]
        sentence, near = sentence if sentence.endswith(".") else f"{sentence}.", ""
        if match := _CHOICE.search(message):
            known = re.findall(r"[^', ]+", match["known"])
            sentence = sentence.replace(match[0], f"{match['given']!r} is not one of {', '.join(known)}")
            near = suggest(match["given"], known)
        elif match := _UNKNOWN.search(message):
            no = match["option"][:4] == "--no"  # the opposite of what is wanted is no suggestion
            known = [each for each in self._option_string_actions if (each[:4] == "--no") is no]
            near = suggest(match["option"], known, "`{}`")
        raise UsageError(sentence + near, f"`{self.prog} --help` shows the usage.")


def main_parser() -> argparse.ArgumentParser:
    """The parser for `labtui` without a command; its help lists the commands."""
    wide = max(map(len, COMMANDS)) + 2
    lines = "\n".join(f"  {name:<{wide}}{text}" for name, (_, text, _) in COMMANDS.items())
    parser = Parser(
        prog="labtui",
        description="Run the parallel-training lab on a Slurm cluster from one terminal window.",
        epilog=f"commands:\n{lines}\n\nWithout a command, labtui opens the lab folder here (or helps you make one).\n"
        "`labtui COMMAND --help` shows its options.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-V", "--version", action="version", version=f"labtui {__version__}")
    text = "a command below, or a lab folder to open"
    parser.add_argument("folder", nargs="?", default=argparse.SUPPRESS, metavar="COMMAND | FOLDER", help=text)
    parser.add_argument("--folder", metavar="DIR", help="the lab folder to open")
    parser.add_argument("--trust", action="store_true", help="trust the lab folder from now on")
    return parser


COMMANDS = {
    "practice": ("screens", "open labtui on the practice cluster inside this program", "trust"),
    "init": ("lab_folders", "make a lab folder", "connection"),
    "labs": ("lab_folders", "list and check lab editions", "json"),
    "doctor": (
        "doctor",
        "check the connection, the account, the paths and a small job",
        "lab connection json",
    ),
    "key": ("doctor", "set up the login by SSH key: make a key, install it, test it", "lab connection"),
    "submit": ("submit", "submit the runs of a task, or a job file of your own", "sbatch folder sending"),
    "lint": ("job_files", "check job files and training scripts for mistakes", "sbatch folder"),
    "watch": ("follow", "follow the runs until they end", "folder json"),
    "queue": ("jobs", "show the jobs and the submission queue", "folder json"),
    "log": ("follow", "show a run's output", "run folder"),
    "cancel": ("jobs", "cancel runs, or any job of yours", "folder show_commands"),
    "retry": (
        "jobs",
        "submit a run again: the same, with more time, or a smaller batch",
        "run folder sending",
    ),
    "hold": ("jobs", "hold waiting runs until they are released", "runs folder"),
    "release": ("jobs", "release held runs", "runs folder"),
    "check": ("lab_folders", "show which tasks are done, based on evidence", "folder json"),
    "parse": ("parse", "read training logs and print what they contain", "json pattern"),
    "results": ("results", "epoch time, throughput, speedup, efficiency; how exact they are", "input json"),
    "why": ("results", "where the efficiency went", "input json"),
    "plot": ("results", "draw the charts into files", "input"),
    "export": ("results", "write tables, plots and the slide deck", "folder json"),
    "completion": ("cli", "print a completion script for bash, zsh or fish", ""),
    "repair": ("doctor", "rebuild the database from job scripts and copies of the logs", "folder"),
}
"""The module of each command, what the command does, and the options that it shares with others (`options.add_*`).

Its functions in the module are `run_NAME` and, for arguments of its own, `NAME_arguments`.
"""

_WORDS_FOR = {
    "status": "queue",
    "jobs": "queue",
    "run": "submit",
    "stop": "cancel",
    "kill": "cancel",
    "tasks": "check",
}
"""What users of other programs type, and the command for it."""


def add_arguments(parser: argparse.ArgumentParser, name: str) -> Callable[..., int]:
    """Add a command's arguments to a parser and return the function that runs it; imports the command's module."""
    from labtui.commands import options

    place, _, shared = COMMANDS[name]
    module = importlib.import_module(f"labtui.commands.{place}")
    if own := getattr(module, f"{name}_arguments", None):
        own(parser)
    for option in shared.split():
        getattr(options, f"add_{option}")(parser)
    run: Callable[..., int] = getattr(module, f"run_{name}")
    return run


def _dispatch(arguments: Sequence[str]) -> int:
    at = 0  # of the command: options may stand before it
    while at < len(arguments) and re.match("--(trust|folder|folder=.*)$", arguments[at]):
        at += 1 + (arguments[at] == "--folder")
    if at < len(arguments) and (name := arguments[at]) in COMMANDS:
        words = [*arguments[:at], *arguments[at + 1 :]]
        about = f"{COMMANDS[name][1]}."
        about = about[:1].upper() + about[1:]
        parser = Parser(prog=f"labtui {name}", description=about, allow_abbrev=False)
        run = add_arguments(parser, name)
        return run(parser.parse_intermixed_args(words))
    first = arguments[0] if arguments else ""
    if first and not first.startswith("-") and not os.path.exists(first):  # noqa: PTH110 (pathlib is not needed to start)
        import difflib

        near = difflib.get_close_matches(first, [*COMMANDS, *_WORDS_FOR], n=1, cutoff=0.7)
        if near:
            raise failure("like-a-command", word=first, near=_WORDS_FOR.get(near[0], near[0]))
    named = main_parser().parse_args(arguments)
    from labtui.commands import screens

    return screens.open_folder(named.folder, trust=named.trust)


@guard_streams()
def main(arguments: Sequence[str] | None = None) -> int:
    """Run labtui and return the exit code. Errors become a sentence and a hint on stderr."""
    try:
        return _dispatch(sys.argv[1:] if arguments is None else arguments)
    except LabError as error:
        trouble = error
    except BrokenPipeError:
        # The reader of the pipe has ended (`labtui results | head`), which is not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        trouble = LabError(f"{what}{error.strerror or error}.")
    except Exception as error:
        written = _save_traceback(error)
        hint = f"The details are in {written}; please report them." if written else ""
        trouble = LabError(f"Something went wrong inside labtui ({type(error).__name__}).", hint)
    from labtui.commands.terminal import say_error

    say_error(trouble)
    return 2


def _save_traceback(error: Exception) -> str:
    """Write the traceback of a bug into a file that only the user can read; return its path, "" if that failed."""
    import tempfile
    import traceback

    try:
        handle, path = tempfile.mkstemp(prefix="labtui-problem-", suffix=".log")
        with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:  # noqa: PTH123 (a descriptor)
            traceback.print_exception(error, file=file)
    except OSError:
        return ""
    return path


_HINT = """\
to install it (zsh: with fpath+=~/.zfunc before compinit):
  labtui completion bash > ~/.local/share/bash-completion/completions/labtui
  labtui completion zsh > ~/.zfunc/_labtui
  labtui completion fish > ~/.config/fish/completions/labtui.fish
"""


def completion_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell the script is for")
    parser.epilog = _HINT
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def run_completion(args: argparse.Namespace) -> int:
    """Print the script; options that take a file or folder complete these."""
    import shtab

    whole = Parser(prog="labtui")  # parsing a command does not need it
    whole.add_argument("--version", action="version", version=f"labtui {__version__}")
    commands = whole.add_subparsers(parser_class=Parser)
    kinds = {"DIR": shtab.DIRECTORY, "FILE": shtab.FILE, "TASK|FILE": shtab.FILE}
    for name, (_, sentence, _) in COMMANDS.items():
        parser = commands.add_parser(name, help=sentence)
        add_arguments(parser, name)
        for action in parser._actions:
            if isinstance(action.metavar, str) and action.metavar in kinds:
                action.complete = kinds[action.metavar]  # type: ignore[attr-defined]  # shtab's own attribute
    print(shtab.complete(whole, shell=args.shell))
    return 0
