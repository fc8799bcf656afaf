"""The words of a Slurm command: options by their long names, and what is left over.

sbatch's options are those of `labtui.slurm.batch_script`; the other commands know what labtui sends and what is usual.
"""

from __future__ import annotations

import getopt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labtui.practice.slurm.written import CommandError
from labtui.slurm import batch_script


@dataclass(frozen=True, slots=True)
class Program:
    """A command's options: for each long name, "=" where it takes a value; and the long name of each letter."""

    name: str
    takes: Mapping[str, str]
    letters: Mapping[str, str]
    anywhere: bool = False
    """Whether options may follow plain words."""

    @classmethod
    def of(cls, name: str, text: str) -> Program:
        """From words like ``h=noheader`` (a flag) and ``o=format=`` (with a value); a dash is no letter."""
        words = [word.split("=", 1) for word in text.split()]
        takes = {long.rstrip("="): "=" * long.endswith("=") for _, long in words}
        letters = {letter: long.rstrip("=") for letter, long in words if letter != "-"}
        return cls(name, takes, letters, anywhere=True)


_OPTIONAL = batch_script.LONG_OPTIONS - batch_script.FLAGS - batch_script.VALUED | {"kill-on-bad-exit"}
"""Options whose value, if any, is glued to them."""
SBATCH = Program(
    "sbatch",
    {name: "=" * (name in batch_script.VALUED) for name in batch_script.LONG_OPTIONS},
    batch_script.SHORT_OPTIONS,
)
_NOT_SRUNS = {"parsable", "requeue", "no-requeue", "test-only", "wrap", "wait", "input"}
_SRUN_TAKES = {
    **{name: takes for name, takes in SBATCH.takes.items() if name not in _NOT_SRUNS},
    **dict.fromkeys(("cpu-bind", "mpi", "wait"), "="),
    **dict.fromkeys(("disable-status", "exact", "kill-on-bad-exit", "label", "overlap", "unbuffered"), ""),
}
_SRUN_LETTERS = {
    **batch_script.SHORT_OPTIONS, "K": "kill-on-bad-exit", "W": "wait", "X": "disable-status", "l": "label",
    "u": "unbuffered",
}  # fmt: skip
SRUN = Program(
    "srun", _SRUN_TAKES, {letter: name for letter, name in _SRUN_LETTERS.items() if name in _SRUN_TAKES}
)


def parse_words(words: Sequence[str], program: Program = SBATCH) -> tuple[dict[str, str], list[str]]:
    """Options by their long names, and the other words: of sbatch and srun a program and its arguments.

    Raises:
        CommandError: there is no such option, or its value is missing.
    """
    options: dict[str, str] = {}
    plain = []
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        glued = word.startswith("--") and bool(equals) and name in _OPTIONAL
        options |= {name: value} if glued else {}
        plain.append(f"--{name}" if glued else word)
    short = "".join(
        letter + ":" * (program.takes.get(name) == "=") for letter, name in program.letters.items()
    )
    try:
        read = getopt.gnu_getopt if program.anywhere else getopt.getopt
        found, rest = read(plain, short, [name + mark for name, mark in program.takes.items()])
    except getopt.GetoptError as problem:
        raise _error(program, problem, words) from None
    for option, value in found:
        written = option[2:] if option.startswith("--") else program.letters[option[1:]]
        name = (written in SBATCH.takes and batch_script.long_name(written)) or written
        if value or name not in options:
            options[name] = value
    return options, rest


_PROBLEMS = {
    "requires argument": "requires an argument",
    "must not have": "doesn't allow an argument",
    "unique prefix": "is ambiguous",
}


def _error(program: Program, problem: getopt.GetoptError, words: Sequence[str]) -> CommandError:
    """In getopt_long's words, which are those of Slurm's commands."""
    what = next((words for part, words in _PROBLEMS.items() if part in problem.msg), "")
    if what:
        text = f"option '--{problem.opt}' {what}"
    elif f"-{problem.opt}" in problem.msg.split():
        text = f"invalid option -- '{problem.opt}'"
    else:
        written = (word for word in words if word.startswith(f"--{problem.opt}"))
        text = f"unrecognized option '{next(written, f'--{problem.opt}')}'"
    help_is = f'Try "{program.name} --help" for more information'
    return CommandError(f"{program.name}: {text}\n{help_is}\n", 1 if program.anywhere else 255)
