"""sbatch's command line and ``#SBATCH`` lines, as Slurm reads them.

The order of precedence is Slurm's: the command line over ``SBATCH_*`` variables over the script's lines.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# name: (short form, takes a value: yes / no / optional)
KNOWN: dict[str, tuple[str, str]] = {
    "account": ("A", "yes"),
    "begin": ("b", "yes"),
    "chdir": ("D", "yes"),
    "comment": ("", "yes"),
    "constraint": ("C", "yes"),
    "cpus-per-gpu": ("", "yes"),
    "cpus-per-task": ("c", "yes"),
    "dependency": ("d", "yes"),
    "error": ("e", "yes"),
    "exclude": ("x", "yes"),
    "exclusive": ("", "optional"),
    "export": ("", "yes"),
    "gpus": ("G", "yes"),
    "gpus-per-node": ("", "yes"),
    "gres": ("", "yes"),
    "hold": ("H", "no"),
    "input": ("i", "yes"),
    "job-name": ("J", "yes"),
    "mail-type": ("", "yes"),
    "mail-user": ("", "yes"),
    "mem": ("", "yes"),
    "mem-per-cpu": ("", "yes"),
    "no-requeue": ("", "no"),
    "nodelist": ("w", "yes"),
    "nodes": ("N", "yes"),
    "ntasks": ("n", "yes"),
    "ntasks-per-node": ("", "yes"),
    "open-mode": ("", "yes"),
    "output": ("o", "yes"),
    "parsable": ("", "no"),
    "partition": ("p", "yes"),
    "qos": ("q", "yes"),
    "quiet": ("Q", "no"),
    "requeue": ("", "no"),
    "reservation": ("", "yes"),
    "signal": ("", "yes"),
    "tasks-per-node": ("", "yes"),
    "test-only": ("", "no"),
    "time": ("t", "yes"),
    "verbose": ("v", "no"),
    "version": ("V", "no"),
    "wait": ("W", "no"),
    "workdir": ("", "yes"),
    "wrap": ("", "yes"),
}
_SAME = {"tasks-per-node": "ntasks-per-node"}
"""Other spellings of an option."""
_FROM_ENVIRONMENT = (
    "account",
    "partition",
    "qos",
    "comment",
    "job-name",
    "error",
    "output",
    "open-mode",
    "reservation",
)
_FROM_ENVIRONMENT_TIME = "SBATCH_TIMELIMIT"


class OptionProblem(Exception):
    """What sbatch prints on stderr before it exits with 255."""


@dataclass(slots=True)
class Parsed:
    """Options by their long names, and what was left over."""

    options: dict[str, str] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)


def parse_words(
    words: Sequence[str], program: str = "sbatch", known: Mapping[str, tuple[str, str]] = KNOWN
) -> Parsed:
    """Read options up to the first plain word; the rest is the script and its arguments. Raises OptionProblem."""
    parsed = Parsed()
    letters = {letter: name for name, (letter, _) in known.items() if letter}
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word == "--":
            parsed.rest = list(words[position:])
            break
        if word.startswith("--"):
            position = _long(word[2:], words, position, parsed, known, program)
        elif word.startswith("-") and len(word) > 1:
            position = _short(word[1:], words, position, parsed, known, letters, program)
        else:
            parsed.rest = [word, *words[position:]]
            break
    return parsed


def _long(
    text: str,
    words: Sequence[str],
    position: int,
    parsed: Parsed,
    known: Mapping[str, tuple[str, str]],
    program: str,
) -> int:
    name, equals, value = text.partition("=")
    matches = [name] if name in known else sorted(full for full in known if full.startswith(name))
    advice = f'\nTry "{program} --help" for more information'
    if len(matches) > 1:
        them = " ".join(f"'--{full}'" for full in matches)
        raise OptionProblem(f"{program}: option '--{text}' is ambiguous; possibilities: {them}{advice}")
    if not matches:
        raise OptionProblem(f"{program}: unrecognized option '--{text}'{advice}")
    name = matches[0]
    takes = known[name][1]
    if takes == "no" and equals:
        raise OptionProblem(f"{program}: option '--{name}' doesn't allow an argument{advice}")
    if takes == "yes" and not equals:
        if position >= len(words):
            raise OptionProblem(f"{program}: option '--{name}' requires an argument{advice}")
        value = words[position]
        position += 1
    parsed.options[_SAME.get(name, name)] = value
    return position


def _short(
    text: str,
    words: Sequence[str],
    position: int,
    parsed: Parsed,
    known: Mapping[str, tuple[str, str]],
    letters: Mapping[str, str],
    program: str,
) -> int:
    while text:
        letter, text = text[0], text[1:]
        name = letters.get(letter)
        if name is None:
            raise OptionProblem(
                f"{program}: invalid option -- '{letter}'\nTry \"{program} --help\" for more information"
            )
        if known[name][1] == "optional":
            parsed.options[name] = text  # only what is glued to the letter is its value
            return position
        if known[name][1] == "no":
            parsed.options[name] = ""
            continue
        value = text
        if not value:
            if position >= len(words):
                raise OptionProblem(
                    f"{program}: option requires an argument -- '{letter}'\nTry \"{program} "
                    f'--help" for more information'
                )
            value = words[position]
            position += 1
        parsed.options[name] = value
        return position
    return position


def parse_script(text: str) -> dict[str, str]:
    """The options of the ``#SBATCH`` lines before the first command. Raises OptionProblem for a stray word."""
    options: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("#SBATCH"):
            try:
                words = shlex.split(line[len("#SBATCH") :], comments=True)
            except ValueError:
                words = line[len("#SBATCH") :].split()
            parsed = parse_words(words)
            if parsed.rest:
                raise OptionProblem(
                    f"sbatch: error: Invalid directive found in batch script: {parsed.rest[0]}"
                )
            options.update(parsed.options)
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return options


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What ``SBATCH_*`` variables say."""
    options = {}
    for name in _FROM_ENVIRONMENT:
        value = environment.get("SBATCH_" + name.upper().replace("-", "_"))
        if value:
            options[name] = value
    if environment.get(_FROM_ENVIRONMENT_TIME):
        options["time"] = environment[_FROM_ENVIRONMENT_TIME]
    return options
