"""Parse the options of Slurm's commands; format times and node lists as Slurm does.

sbatch takes the options of `labtui.slurm.batch_script`; the other commands take those that labtui sends and common
ones. Imports little, because `srun` uses it.
"""

from __future__ import annotations

import getopt
import re
import time
from collections.abc import Mapping, Sequence

import msgspec

from labtui.slurm import batch_script, values


def format_time(seconds: float | None, environment: Mapping[str, str], unknown: str) -> str:
    """A time as text, by ``SLURM_TIME_FORMAT`` and ``TZ`` of the caller's environment; `unknown` for None."""
    if seconds is None:
        return unknown
    form = environment.get("SLURM_TIME_FORMAT", "%Y-%m-%dT%H:%M:%S")
    if form == "%s":
        return str(int(seconds))
    zone = environment.get("TZ", "")
    moment = time.gmtime(seconds) if zone in ("UTC", "UTC0", "GMT") else time.localtime(seconds)
    return time.strftime(form, moment)


def select_environment(text: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a job or step gets by ``--export``: all, or besides the cluster's own only those named."""
    pieces = [piece.partition("=") for piece in (text or "ALL").split(",")]
    names = {name for name, _, _ in pieces}
    whole, own = "ALL" in map(str.upper, names), ("SLURM_", "CUDA_", "LABTUI_PRACTICE")
    found = environment.items()
    kept = {name: value for name, value in found if whole or name in {*names, "PATH"} or name.startswith(own)}
    return kept | {name: value for name, equals, value in pieces if equals}


Answer = tuple[int, str, str]
"""(exit status, standard output, standard error)."""

NO_CONTROLLER = "Unable to contact slurm controller (connect failure)"


class CommandError(Exception):
    """Ends a command: the text for standard error, and the exit status."""

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.text, self.status = text, status


class Invocation(msgspec.Struct, frozen=True):
    """One call of a Slurm command on the practice cluster."""

    argv: tuple[str, ...]
    folder: str
    environment: Mapping[str, str]
    stdin: bytes = b""


VERSION = "22.05.8"
MIN_JOB_AGE_S = 300
KILL_WAIT_S = 30


def compress_nodes(names: Sequence[str]) -> str:
    """Node names in Slurm's short form (``as01r1b[01-02]``); all must share a stem and the width of their numbers."""
    if len(names) < 2:
        return "".join(names)
    stem = names[0].rstrip("0123456789")
    width = len(names[0]) - len(stem)
    return f"{stem}[{compress_numbers([int(name[len(stem) :]) for name in names], width)}]"


def compress_numbers(numbers: Sequence[int], width: int = 1) -> str:
    """``0-1,3``: numbers in Slurm's short form, each with at least `width` digits."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in runs)


def expand_nodes(text: str) -> list[str]:
    """The node names of a list in Slurm's short form."""
    names: list[str] = []
    for stem, inside in re.findall(r"([^,\[]+)(?:\[([^\]]*)\])?", text):
        for part in inside.split(","):
            first, _, last = part.partition("-")
            numbers = range(int(first), int(last or first) + 1) if first else ()
            names += [f"{stem}{number:0{len(first)}d}" for number in numbers] or [stem]
    return names


# --------------------------------------------------------------------------- options


class CommandOptions(msgspec.Struct, frozen=True):
    """A command's options: by long name, "=" if it takes a value, else ""; and the long name of each letter.

    A letter whose option is not in `takes` is rejected.
    """

    name: str
    takes: Mapping[str, str]
    letters: Mapping[str, str]
    options_anywhere: bool = False
    """Whether options may follow the other arguments."""

    @classmethod
    def of(cls, name: str, text: str) -> CommandOptions:
        """Parse words like ``h=noheader`` (a flag) and ``o=format=`` (takes a value); ``-`` stands for no letter."""
        words = [word.split("=", 1) for word in text.split()]
        takes = {long.rstrip("="): ("=" if long.endswith("=") else "") for _, long in words}
        letters = {letter: long.rstrip("=") for letter, long in words if letter != "-"}
        return cls(name, takes, letters, options_anywhere=True)


_SBATCH_TAKES = {name: ("=" if name in batch_script.VALUED else "") for name in batch_script.LONG_OPTIONS}
SBATCH = CommandOptions("sbatch", _SBATCH_TAKES, batch_script.SHORT_OPTIONS)
# sbatch's ``--wait`` is a flag; srun's takes seconds.
_NOT_SRUNS = {"parsable", "requeue", "no-requeue", "test-only", "wrap", "wait", "input"}
_SRUN_TAKES = {
    **{name: takes for name, takes in _SBATCH_TAKES.items() if name not in _NOT_SRUNS},
    **dict.fromkeys(("cpu-bind", "mpi", "wait"), "="),
    **dict.fromkeys(("disable-status", "exact", "kill-on-bad-exit", "label", "overlap", "unbuffered"), ""),
}
_SRUN_LETTERS = {
    **batch_script.SHORT_OPTIONS, "K": "kill-on-bad-exit", "W": "wait", "X": "disable-status", "l": "label",
    "u": "unbuffered",
}  # fmt: skip
SRUN = CommandOptions("srun", _SRUN_TAKES, _SRUN_LETTERS)


def parse_argv(argv: Sequence[str], command: CommandOptions = SBATCH) -> tuple[dict[str, str], list[str]]:
    """Return the options by long name, and the other words (for sbatch and srun a program and its arguments).

    Raises:
        CommandError: an option is unknown, or its value is missing.
    """
    options: dict[str, str] = {}
    plain = []
    for word in argv:  # getopt knows no optional values: ``--kill-on-bad-exit=1`` is taken apart before
        name, equals, value = word.removeprefix("--").partition("=")
        is_optional = name in batch_script.OPTIONAL or name == "kill-on-bad-exit"
        if takes_apart := word.startswith("--") and bool(equals) and is_optional:
            options[name] = value
        plain.append(f"--{name}" if takes_apart else word)
    letters = ((letter, command.takes.get(name)) for letter, name in command.letters.items())
    short = "".join(letter + takes.replace("=", ":") for letter, takes in letters if takes is not None)
    try:
        read = getopt.gnu_getopt if command.options_anywhere else getopt.getopt
        found, rest = read(plain, short, [name + mark for name, mark in command.takes.items()])
    except getopt.GetoptError as problem:
        raise _error(command, problem) from None
    for option, value in found:
        written = option[2:] if option.startswith("--") else command.letters[option[1:]]
        name = batch_script.SYNONYMS.get(written, written)
        if value or name not in options:  # a value that was taken apart stays
            options[name] = value
        if command is SBATCH and name in ("array", "begin", "dependency", "wait", "wrap"):
            raise CommandError(f"sbatch: error: practice cluster: --{name} is not supported\n")
    return options, rest


def positive_number(text: str, name: str, command: CommandOptions) -> int:
    """The value of an option that is a number from 1. Raises CommandError."""
    if not (found := values.number(text)):
        message = f'{command.name}: error: Invalid numeric value "{text}" for --{name}.\n'
        raise CommandError(message, 255 if command is SBATCH else 1)
    return found


def _error(command: CommandOptions, problem: getopt.GetoptError) -> CommandError:
    """The error in getopt_long's words, as Slurm's commands print it."""
    text = problem.msg.replace("requires argument", "requires an argument")
    text = text.replace("must not have", "doesn't allow")
    if (unknown := text.removesuffix(" not recognized")) != text:
        text = f"unrecognized option '{unknown.removeprefix('option ')}'"
    text = f'{command.name}: {text}\nTry "{command.name} --help" for more information\n'
    return CommandError(text, 1 if command.options_anywhere else 255)
