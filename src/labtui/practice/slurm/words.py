"""The words of a Slurm command: options by their long names, and what is left over.

sbatch's options are those of `labtui.slurm.batch_script`; the other commands know what labtui sends and what is usual.
"""

from __future__ import annotations

import getopt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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


SBATCH = Program(
    "sbatch",
    {**dict.fromkeys(batch_script.FLAGS, ""), **dict.fromkeys(batch_script.VALUED, "=")},
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
_OPTIONAL = ("exclusive", "kill-on-bad-exit", "nice", "no-kill")
"""Options whose value, if any, is glued to them."""
_SAME = {"tasks-per-node": "ntasks-per-node", "workdir": "chdir"}


@dataclass(slots=True)
class Parsed:
    """Options by their long names, and what was left over."""

    options: dict[str, str] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)


def parse_words(words: Sequence[str], program: Program = SBATCH) -> Parsed:
    """The options; of sbatch and srun what follows them is the program and its arguments. Raises CommandError."""
    parsed = Parsed()
    plain = []
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and equals and name in _OPTIONAL:
            parsed.options[name] = value
            plain.append(f"--{name}")
        else:
            plain.append(word)
    takes = {**program.takes, **{name: "" for name in _OPTIONAL if name in program.takes}}
    short = "".join(letter + ":" * (takes.get(name) == "=") for letter, name in program.letters.items())
    try:
        read = getopt.gnu_getopt if program.anywhere else getopt.getopt
        found, parsed.rest = read(plain, short, [name + mark for name, mark in takes.items()])
    except getopt.GetoptError as problem:
        raise _error(program, problem, words) from None
    for option, value in found:
        name = option[2:] if option.startswith("--") else program.letters[option[1:]]
        parsed.options.setdefault(_SAME.get(name, name), value)
        if name not in _OPTIONAL:
            parsed.options[_SAME.get(name, name)] = value
    return parsed


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
