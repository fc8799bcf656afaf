"""A job script, read the way Slurm and bash read it: directives up to the first command, then commands.

Never raises: what cannot be understood is left out, and the rules say nothing about it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

SHORT = {
    "A": "account",
    "D": "chdir",
    "G": "gpus",
    "J": "job-name",
    "N": "nodes",
    "c": "cpus-per-task",
    "e": "error",
    "n": "ntasks",
    "o": "output",
    "p": "partition",
    "q": "qos",
    "t": "time",
}
_DIRECTIVE = re.compile(r"^#SBATCH\b(?P<rest>.*)$")
_GRES = re.compile(r"\bgpu(?::[A-Za-z]\w*)?:\s*(\d+)|\bgpu(?!\S)")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
MAX_LINE = 4_000
"""Longer lines are not looked at (longer commands only so far): nobody types them, and rules stay quick."""
_FLAGS = {"exclusive", "requeue", "no-requeue", "parsable", "hold", "wait"}


@dataclass(frozen=True, slots=True)
class Directive:
    """One option of a ``#SBATCH`` line; `late`: after the first command, where Slurm ignores it."""

    line: int
    text: str
    name: str
    value: str
    late: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A command, continuation lines joined and comments gone, from physical line `line` to `end`."""

    line: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class JobScript:
    """A parsed job script. `lines` are the physical lines, carriage returns included."""

    name: str
    text: str
    lines: tuple[str, ...]
    directives: tuple[Directive, ...] = ()
    commands: tuple[Command, ...] = ()
    trainings: tuple[Command, ...] = ()
    inert: frozenset[int] = frozenset()

    @property
    def code(self) -> Iterator[tuple[int, str]]:
        """Lines with their numbers, here documents left out: what they hold is data."""
        lines = enumerate(self.lines, 1)
        return ((n, line) for n, line in lines if n not in self.inert and len(line) <= MAX_LINE)

    def last(self, name: str) -> Directive | None:
        """The directive that counts: the last one that Slurm reads."""
        return next((d for d in reversed(self.directives) if d.name == name and not d.late), None)

    def value(self, name: str) -> str:
        """Its value, "" when it is not given."""
        found = self.last(name)
        return found.value if found else ""

    @property
    def gpus(self) -> int:
        """GPUs asked for per node; 0 when none."""
        for name in ("gres", "gpus", "gpus-per-node", "gpus-per-task"):
            value = self.value(name)
            if not value:
                continue
            if name == "gres":
                match = _GRES.search(value)
                count = int((match[1] or "1")[:6]) if match else 0
            else:
                digits = re.findall(r"\d+", value.rpartition(":")[2])
                count = int(digits[0][:6]) if digits else 0
            if count:
                return count
        return 0

    @property
    def gres_line(self) -> Directive | None:
        """The directive that asks for GPUs."""
        return next((d for n in ("gres", "gpus", "gpus-per-node") if (d := self.last(n)) is not None), None)

    @property
    def cpus(self) -> int | None:
        """CPUs per task; None when it is not said as a number."""
        value = self.value("cpus-per-task")
        return int(value[:9]) if value.isdigit() else None


def read_script(name: str, text: str) -> JobScript:
    """Parse a job script (or any shell text)."""
    lines = tuple(text.split("\n"))
    inert: set[int] = set()
    commands = tuple(_commands(lines, inert))
    first = commands[0].line if commands else len(lines) + 1
    directives = tuple(
        d
        for number, line in enumerate(lines, 1)
        if number not in inert
        for d in _directives(number, line, first)
    )
    trainings = tuple(
        c for c in commands if re.search(r"\b(?:python[\d.]*|torchrun)\b(?!\s*/).*\.py\b", c.text)
    )
    return JobScript(name, text, lines, directives, commands, trainings, frozenset(inert))


def _directives(number: int, line: str, first: int) -> Iterator[Directive]:
    match = _DIRECTIVE.match(line.rstrip("\r"))
    if match is None:
        return
    words = _words(match["rest"])
    while words:
        word = words.pop(0)
        name, value = "", ""
        if word.startswith("--") and len(word) > 2:
            name, sep, value = word[2:].partition("=")
            if not sep and words and not words[0].startswith("-") and name not in _FLAGS:
                value = words.pop(0)
        elif word.startswith("-") and len(word) > 1 and word[1] in SHORT:
            name, value = SHORT[word[1]], word[2:].lstrip("=")
            if not value and words:
                value = words.pop(0)
        if name:
            if name == "gres" and value.endswith(":") and words:
                value = f"{value} {words.pop(0)}"
            yield Directive(number, line, name, value, late=number > first)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.partition(" #")[0].split()


def without_comment(line: str) -> str:
    """A shell line up to its comment (a ``#`` outside quotes at the start of a word)."""
    quote = ""
    escaped = False
    for index, char in enumerate(line):
        if escaped:
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "#" and (index == 0 or line[index - 1] in " \t;&|("):
            return line[:index]
    return line


def _commands(lines: tuple[str, ...], inert: set[int]) -> Iterator[Command]:
    """The commands; the lines of here documents are added to `inert`."""
    number = 0
    while number < len(lines):
        start = number
        text = piece = without_comment(lines[number].rstrip("\r"))
        while piece.rstrip().endswith("\\") and number + 1 < len(lines):
            number += 1
            piece = without_comment(lines[number].rstrip("\r"))
            if len(text) <= MAX_LINE:
                text = text.rstrip()[:-1] + " " + piece.strip()
        number += 1
        if text.strip():
            yield Command(start + 1, number, text[:MAX_LINE])
        here = _HEREDOC.search(text)
        if here and "<<<" not in text:
            while number < len(lines) and lines[number].strip() != here[2]:
                number += 1
                inert.add(number)
            number += 1
            inert.add(number)


def outside_quotes(line: str) -> list[bool]:
    """For every character of a shell line: whether it stands outside straight quotes."""
    outside, quote, escaped = [], "", False
    for char in line:
        outside.append(not quote)
        if escaped:
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
    return outside
