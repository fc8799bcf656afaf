"""Parses a job script the way Slurm and bash do: directives up to the first command, then commands.

The options are those of Slurm 20.11 to 26.05. sbatch accepts any unambiguous prefix of a long option, and sites can add
options of their own (SPANK). Never raises: what cannot be parsed is left out, and no preflight rule reports it.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cached_property

import msgspec

from labtui.domain import decode
from labtui.slurm.script_commands import Command, filled_commands, open_quote, quoting, statements_of
from labtui.slurm.values import gpus_of, number

_OPTIONS = decode.own_toml(__file__, "options.toml")
FLAGS = frozenset(_OPTIONS["flags"].split())
"""Options without a value."""
VALUED = frozenset(_OPTIONS["valued"].split())
OPTIONAL = frozenset(_OPTIONS["optional"].split())
"""Options with an optional value, which must follow after "="."""
LONG_OPTIONS = FLAGS | VALUED | OPTIONAL
SHORT_OPTIONS: dict[str, str] = _OPTIONS["short"]
SYNONYMS: dict[str, str] = _OPTIONS["same"]


class Directive(msgspec.Struct, frozen=True):
    """One option; `name` is its long form, and `known` is false if sbatch has no such option.

    `line` is the number of its ``#SBATCH`` line; `late`: after the first command, where Slurm ignores it.
    """

    name: str
    value: str
    known: bool = True
    line: int = 0
    late: bool = False


def long_name(written: str) -> str | None:
    """The option that a long name or a prefix of one stands for; None if there is none or several."""
    if written in LONG_OPTIONS:
        return SYNONYMS.get(written, written)
    fitting = {SYNONYMS.get(name, name) for name in LONG_OPTIONS if written and name.startswith(written)}
    return fitting.pop() if len(fitting) == 1 else None


def read_options(text: str, line: int = 0, *, late: bool = False) -> Iterator[Directive]:
    """The options of one directive; `text` is what follows ``#SBATCH``. Stray words are left out."""
    words = _words(text)
    while words:
        word = words.pop(0)
        if word.startswith("--") and len(word) > 2:
            written, equals, value = word[2:].partition("=")
            name = long_name(written)
            takes_next = name is None or name in VALUED
            if takes_next and not equals and words and not words[0].startswith("-"):
                value = words.pop(0)
            yield Directive(name or written, value, name is not None, line, late)
        elif word.startswith("-") and len(word) > 1 and word[1].isalpha():
            name = SHORT_OPTIONS.get(word[1])
            value = word[2:].removeprefix("=")
            if name in VALUED and not value and words:
                value = words.pop(0)
            yield Directive(name or word[1], value, name is not None, line, late)


def directive_words(script: str) -> Iterator[list[str]]:
    """The words of each ``#SBATCH`` line before the first command."""
    for line in script.splitlines():
        if line.startswith("#SBATCH"):
            yield _words(line.removeprefix("#SBATCH"))
        elif line.strip() and not line.lstrip().startswith("#"):
            return


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.partition(" #")[0].split()


_DIRECTIVE = re.compile(r"^#SBATCH\b(?P<rest>.*)$")
_HEREDOC = re.compile(r"(?<!<)<<-?\s*['\"\\]?(?!\d)([\w.-]+)")
_ARRAY = re.compile(r"\s*(?:(?:export|local|readonly|declare(?:\s+-\w+)*)\s+)?[A-Za-z_]\w*\+?=\(")
MAX_LINE = 4_000
"""Longer lines are skipped and longer commands cut: nobody types them, and rules stay fast."""
_MAX_QUOTED = 60
"""The most lines of a quoted text; a quote that does not close within them is taken for a typing error."""
_TRAINING = re.compile(
    r"\b(?:python[0-9.]*|torchrun|horovodrun|accelerate|deepspeed)\b(?!\s*/).*\.py\b", re.S
)
PRINTS = re.compile(r"\s*(?:echo|printf)\b")
"""The beginning of a command that only prints, whose words are no mistake."""


class JobScript(msgspec.Struct, frozen=True, dict=True):
    """A parsed job script. `lines` are the physical lines, with carriage returns; `inert` the numbers of data lines.

    `given` are options on the command line of `sbatch`, by their long names: they override the directives.
    """

    name: str
    text: str
    lines: tuple[str, ...]
    directives: tuple[Directive, ...] = ()
    commands: tuple[Command, ...] = ()
    inert: frozenset[int] = frozenset()
    given: Mapping[str, str] = {}

    @cached_property
    def filled(self) -> tuple[Command, ...]:
        """The commands with known variables filled in and loops unrolled, without those that only print."""
        pieces = [piece for command in self.commands for piece in statements_of(command)]
        nodes = self.value("nodes")
        counts = ("SLURM_NNODES", "SLURM_JOB_NUM_NODES")
        known = dict.fromkeys(counts, nodes) if number(nodes) is not None else {}
        return tuple(c for c in filled_commands(pieces, known) if not PRINTS.match(c.text))

    @cached_property
    def launches(self) -> tuple[Command, ...]:
        """The filled commands that start a training."""
        return tuple(c for c in self.filled if is_training(c.text))

    def source(self, filled: Command) -> Command:
        """The command that a filled command was made from, as written."""
        return next(c for c in self.commands if c.line == filled.line)

    @property
    def code(self) -> Iterator[tuple[int, str]]:
        """Lines with their numbers, without here documents and quoted texts of several lines, which are data."""
        lines = enumerate(self.lines, 1)
        return ((n, line) for n, line in lines if n not in self.inert and len(line) <= MAX_LINE)

    def last(self, name: str) -> Directive | None:
        """The last directive for an option, which is the one that counts; late ones are ignored."""
        return next((d for d in reversed(self.directives) if d.name == name and not d.late), None)

    def value(self, name: str) -> str:
        """An option's effective value: from the command line, else from the last directive; "" if neither has one."""
        if name in self.given:
            return self.given[name]
        found = self.last(name)
        return found.value if found else ""

    @property
    def queues(self) -> tuple[str, str]:
        """The partition and the QoS; "" for one that is not named."""
        return self.value("partition"), self.value("qos")

    def has(self, name: str) -> bool:
        """Whether the option is given at all."""
        return name in self.given or self.last(name) is not None

    def number(self, name: str, default: int = 0) -> int:
        """An option's value as a whole number (the first of a range); `default` if it has none."""
        match = re.match(r"[0-9]{1,9}", self.value(name))
        return int(match[0]) if match else default

    @property
    def nodes(self) -> int:
        """Nodes requested; 1 by default."""
        return self.number("nodes", 1)

    @property
    def tasks_per_node(self) -> int:
        """Tasks on each node, from ``--ntasks-per-node``, else ``--ntasks``; 1 by default."""
        return self.number("ntasks-per-node") or max(1, self.number("ntasks", 1) // max(1, self.nodes))

    @property
    def gpus(self) -> int:
        """GPUs requested per node; 0 if none."""
        for name in ("gres", "gpus", "gpus-per-node", "gpus-per-task", "tres-per-task"):
            value = self.value(name)
            if value and name.startswith("gpus"):  # 2 or a100:2, without the resource's name
                value = "gpu:" + value.replace(",", ",gpu:")
            if count := gpus_of(value):
                count *= self.tasks_per_node if name.endswith("-task") else 1
                return -(-count // max(1, self.nodes)) if name == "gpus" else count  # of the whole job
        return 0

    @property
    def cpus(self) -> int | None:
        """CPUs per task; None if not given as a number."""
        return number(self.value("cpus-per-task"))

    @property
    def node_cpus(self) -> int:
        """CPUs requested on each node; 0 for all of them."""
        return (self.cpus or (0 if self.has("exclusive") else 1)) * self.tasks_per_node


def is_training(text: str) -> bool:
    """Whether a command starts a training: Python or a launcher, followed by a script."""
    return _TRAINING.search(text) is not None


def read_script(name: str, text: str, given: Mapping[str, str] | None = None) -> JobScript:
    """Parse a job script (or any shell text)."""
    lines = tuple(text.split("\n"))
    inert: set[int] = set()
    commands = tuple(_commands(lines, inert))
    first = commands[0].line if commands else len(lines) + 1
    directives = tuple(
        directive
        for number, line in enumerate(lines, 1)
        if number not in inert and (match := _DIRECTIVE.match(line.rstrip("\r")))
        for directive in read_options(match["rest"], number, late=number > first)
    )
    return JobScript(name, text, lines, directives, commands, frozenset(inert), given or {})


def without_comment(line: str) -> str:
    """A shell line without its comment (from a ``#`` outside quotes at the start of a word)."""
    if "#" not in line:
        return line
    for index, (char, _, sign) in enumerate(quoting(line)):
        if sign and char == "#" and (index == 0 or line[index - 1] in " \t;&|("):
            return line[:index]
    return line


def _commands(lines: tuple[str, ...], inert: set[int]) -> Iterator[Command]:
    """The commands; the numbers of lines in here documents are added to `inert`."""
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
        if len(text) <= MAX_LINE and _is_open(text) and (whole := _closed(lines, number, text)):
            end = number + whole.count("\n")
            if open_quote(text):
                inert.update(range(number + 1, end + 1))
            number, text = end, whole
        if text.strip():
            yield Command(start + 1, number, text[:MAX_LINE])
        if "<<" in text and (mark := _here_document(text[:MAX_LINE])):
            while number < len(lines) and lines[number].strip() != mark:
                number += 1
                inert.add(number)
            number += 1
            inert.add(number)


def _here_document(text: str) -> str:
    """The word that ends the here document of a command; "" if it has none (``<<`` may be quoted, or shift bits)."""
    text = re.sub(r"(?s)\(\(.*?\)\)", lambda found: " " * len(found[0]), text)
    signs = [sign for _, _, sign in quoting(text)]
    return next((found[1] for found in _HEREDOC.finditer(text) if signs[found.start()]), "")


def _is_open(text: str) -> bool:
    """Whether a quote or an array is still open at the end of `text`."""
    signs = [char for char, _, sign in quoting(text) if sign] if _ARRAY.match(text) else []
    return open_quote(text) or signs.count("(") > signs.count(")")


def _closed(lines: tuple[str, ...], start: int, text: str) -> str:
    """`text` up to the line that closes its quote or array; "" if none of the next `_MAX_QUOTED` does."""
    for line in lines[start : start + _MAX_QUOTED]:
        text = f"{text}\n{line if open_quote(text) else without_comment(line)}"
        if len(text) <= MAX_LINE and not _is_open(text):
            return text
    return ""
