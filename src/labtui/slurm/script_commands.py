"""The commands of a job script with the variables and loops that its own text decides filled in.

No shell: what only the running job knows (``$SLURM_JOB_ID``, the output of a program) stays as it is written. A loop
over given words becomes one command for each word. Rank variables that the batch shell would fill in are marked, for
they are those of the batch step and not of the task. Never raises, and never grows beyond `MAX_COMMANDS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

MAX_COMMANDS = 400
MAX_LENGTH = 8_000
_MAX_WORDS = 64
RANK_MARK = "\ue000"
"""Stands before a rank variable that the batch shell fills in, and behind the line number: ``\\ue000NAME:7\\ue001``."""
_RANK_END = "\ue001"
RANK = re.compile(f"{RANK_MARK}(\\w+):([0-9]+){_RANK_END}")
_RANKS = frozenset({"SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID"})

_ASSIGN = re.compile(
    r"\s*(?:(?:export|local|readonly|declare(?:\s+-\w+)*)\s+)?([A-Za-z_]\w*)(\+?=)(.*)\Z", re.S
)
_FOR = re.compile(r"\s*for\s+([A-Za-z_]\w*)\s+in\s+(.*)\Z", re.S)
_COUNTED = re.compile(
    r"\s*for\s*\(\(\s*(\w+)\s*=\s*([0-9]{1,6})\s*;\s*\1\s*(<=?)\s*([0-9]{1,6})\s*;\s*\1\s*(\+\+|\+=|\*=)\s*([0-9]{1,4})?\s*\)\)\s*\Z"
)
_VARIABLE = re.compile(
    r"\$(?:\{(?P<braced>[A-Za-z_]\w*)(?P<all>\[[@*]\])?(?P<default>:?-[^{}]*)?\}|(?P<plain>[A-Za-z_]\w*))"
)
_ARITHMETIC = re.compile(r"\$\(\(([^()]{1,80})\)\)")
_SEQUENCE = re.compile(
    r"\$\(\s*seq\s+([0-9]{1,6})(?:\s+([0-9]{1,6}))?(?:\s+([0-9]{1,6}))?\s*\)|`seq\s+([0-9]{1,6})\s+([0-9]{1,6})`"
)
_BRACES = re.compile(r"\{([0-9]{1,6})\.\.([0-9]{1,6})\}")
_KEYWORD = re.compile(
    r"\A\s*(?:(?:do|then|else|if|elif|while|until|!|\{|time)(?:\s+|\Z))+|\A\s*(?:done|fi|\})\s*\Z"
)
_QUOTING = re.compile(r"[\\'\"]")
_SPANNING = re.compile(r"[\\'\"(]")
"""What may make more than one blank-separated piece one word of shell code."""
_SUM = re.compile(r"\s*([0-9]{1,9})\s*(?:([*+/-])\s*([0-9]{1,9})\s*)?\Z")


@dataclass(frozen=True, slots=True)
class Statement:
    """A piece of shell code between separators, from physical line `line` to `end`."""

    line: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class FilledCommand(Statement):
    """A command with what the script's text decides filled in. `repeated` tells which round of a loop it is, from 0."""

    repeated: int = 0

    @property
    def unknown(self) -> bool:
        """Whether a variable is left that the text does not decide."""
        return "$" in self.text or "`" in self.text


@dataclass(slots=True)
class _Shell:
    variables: dict[str, str | tuple[str, ...]] = field(default_factory=dict)
    made: list[FilledCommand] = field(default_factory=list)


def filled_commands(
    statements: Sequence[Statement], known: Mapping[str, str] | None = None
) -> tuple[FilledCommand, ...]:
    """What the statements run, in order; each loop over known words unrolled. `known` are variables that Slurm sets."""
    shell = _Shell(variables=dict(known or {}))
    _run(shell, list(statements), 0)
    return tuple(shell.made)


def _run(shell: _Shell, statements: list[Statement], repeated: int) -> None:
    at = 0
    while at < len(statements) and len(shell.made) < MAX_COMMANDS:
        statement = statements[at]
        rounds = _loop_words(shell, statement)
        if rounds is None:
            _single(shell, statement, repeated)
            at += 1
            continue
        end = _end_of_loop(statements, at)
        name, words = rounds
        body = statements[at + 1 : end]
        for number, word in enumerate(words):
            if word is not None:
                shell.variables[name] = word
            else:
                shell.variables.pop(name, None)
            _run(shell, body, number if len(words) > 1 else repeated)
        at = end + 1


def _without_keyword(statement: Statement) -> Statement:
    return Statement(statement.line, statement.end, _KEYWORD.sub("", statement.text))


def _end_of_loop(statements: list[Statement], start: int) -> int:
    depth = 0
    for at in range(start, len(statements)):
        text = statements[at].text.strip()
        if re.match(r"(?:do\s+)?(?:for|while|until)\b", text):
            depth += 1
        if re.match(r"done\b", text):
            depth -= 1
            if depth == 0:
                return at
    return len(statements)


def _loop_words(shell: _Shell, statement: Statement) -> tuple[str, list[str | None]] | None:
    """The variable of a ``for`` and its words; one unknown round where the text does not tell them."""
    counted = _COUNTED.match(statement.text)
    if counted:
        return counted[1], list(_counted(counted)) or [None]
    match = _FOR.match(statement.text)
    if match is None:
        return None
    text = _SEQUENCE.sub(_sequence, match[2])
    words: list[str | None] = []
    for word in split_words(text):
        array = _VARIABLE.fullmatch(word.strip("\"'"))
        value = shell.variables.get(array["braced"] or array["plain"]) if array else None
        if array and array["all"] and isinstance(value, tuple):
            words.extend(value)
        elif isinstance(value, str) and not word.startswith('"'):
            words.extend(value.split())
        elif braces := _BRACES.fullmatch(word):
            words.extend(
                map(str, range(int(braces[1]), min(int(braces[2]), int(braces[1]) + _MAX_WORDS) + 1))
            )
        else:
            filled = _fill(shell, word, statement.line)
            words.append(None if "$" in filled or "`" in filled else filled)
    return match[1], words[:_MAX_WORDS] or [None]


def _counted(match: re.Match[str]) -> Iterator[str]:
    value, last, step = int(match[2]), int(match[4]), int(match[6] or 1)
    if match[3] == "<":
        last -= 1
    for _ in range(_MAX_WORDS):
        if value > last:
            return
        yield str(value)
        following = value * step if match[5] == "*=" else value + step
        if following <= value:
            return
        value = following


def _sequence(match: re.Match[str]) -> str:
    numbers = [int(text) for text in match.groups() if text is not None]
    first, step, last = (1, 1, numbers[0]) if len(numbers) == 1 else (numbers[0], 1, numbers[-1])
    if len(numbers) == 3:
        step = max(1, numbers[1])
    return " ".join(map(str, list(range(first, last + 1, step))[:_MAX_WORDS]))


def _single(shell: _Shell, statement: Statement, repeated: int) -> None:
    statement = _without_keyword(statement)
    assigned = _ASSIGN.match(statement.text)
    if assigned and _one_word(assigned[3]):
        _assign(shell, assigned, statement.line)
        return
    text = _fill(shell, statement.text, statement.line)
    if text.strip():
        shell.made.append(FilledCommand(statement.line, statement.end, text.strip(), repeated))


def _assign(shell: _Shell, match: re.Match[str], line: int) -> None:
    name, how, value = match[1], match[2], match[3].strip()
    if value.startswith("(") and value.endswith(")"):
        shell.variables[name] = tuple(
            _fill(shell, word, line) for word in split_words(value[1:-1])[:_MAX_WORDS]
        )
        return
    filled = _fill(shell, value, line)
    before = shell.variables.get(name, "")
    if how == "+=" and isinstance(before, str):
        filled = before + filled
    shell.variables[name] = filled[:MAX_LENGTH]


def _one_word(value: str) -> bool:
    value = value.strip()
    return value.startswith("(") or len(split_words(value)) <= 1


def quoting(text: str) -> Iterator[tuple[str, bool, bool]]:
    """Each character of shell code, whether it stands outside straight quotes, and whether it is a sign to the shell.

    No sign is what quotes, what is quoted, and what is escaped.
    """
    if not _QUOTING.search(text):
        for char in text:
            yield char, True, True
        return
    quote, escaped = "", False
    for char in text:
        yield char, not quote, not quote and not escaped and char not in "\\'\""
        if escaped:
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char


def open_quote(text: str) -> bool:
    """Whether a quote that is opened in this shell code is still open at its end."""
    return not [outside for _, outside, _ in quoting(f"{text} ")][-1]


def split_words(text: str) -> list[str]:
    """The words of shell code, quotes kept; what stands in ``$(...)`` is no word of its own."""
    if not _SPANNING.search(text):
        return text.split()
    words, word, depth = [], "", 0
    for at, (char, _, sign) in enumerate(quoting(text)):
        if sign and char == "(" and text[at - 1 : at] == "$":
            depth += 1
        elif sign and char in "()" and depth:
            depth += 1 if char == "(" else -1
        elif sign and char.isspace() and not depth:
            if word:
                words.append(word)
            word = ""
            continue
        word += char
    return [*words, word] if word else words


def _fill(shell: _Shell, text: str, line: int) -> str:
    """The text with quotes taken off and the variables that are known filled in, as the shell does it once."""
    made: list[str] = []
    quote, at, size = "", 0, 0
    while at < len(text) and size < MAX_LENGTH:
        char = text[at]
        if char == "\\" and quote != "'" and at + 1 < len(text):
            kept = "" if not quote or text[at + 1] in '$"\\`\n' else "\\"
            made.append(kept + text[at + 1])
            at += 2
            continue
        if char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote = char
        elif char == "$" and quote != "'":
            piece, at = _expanded(shell, text, at, line)
            made.append(piece)
            size += len(piece)
            continue
        else:
            made.append(char)
        at += 1
    return "".join(made)[:MAX_LENGTH]


def _expanded(shell: _Shell, text: str, at: int, line: int) -> tuple[str, int]:
    """What the ``$`` at this place becomes, and where the text goes on."""
    arithmetic = _ARITHMETIC.match(text, at)
    if arithmetic:
        return _sum(_fill(shell, _with_dollars(arithmetic[1]), line), arithmetic[0]), arithmetic.end()
    match = _VARIABLE.match(text, at)
    if match is None:
        return text[at], at + 1
    name = match["braced"] or match["plain"]
    if name in _RANKS:
        return f"{RANK_MARK}{name}:{line}{_RANK_END}", match.end()
    value = shell.variables.get(name)
    if value is None:
        default = (match["default"] or "").lstrip(":")
        return (default[1:] if default and "$" not in default else match[0]), match.end()
    return " ".join(value) if isinstance(value, tuple) else value, match.end()


def _with_dollars(text: str) -> str:
    return re.sub(r"(?<![\w$])([A-Za-z_]\w*)", r"$\1", text)


def _sum(text: str, otherwise: str) -> str:
    match = _SUM.match(text)
    if match is None:
        return otherwise
    left, right = int(match[1]), int(match[3] or 0)
    operations: dict[str | None, Callable[[], int]] = {
        None: lambda: left,
        "*": lambda: left * right,
        "+": lambda: left + right,
        "-": lambda: left - right,
        "/": lambda: left // right if right else 0,
    }
    return str(operations[match[2]]())


def statements_of(line: int, end: int, text: str) -> Iterator[Statement]:
    """A logical line cut at ``;``, ``&&``, ``||``, ``|`` and a lone ``&`` outside quotes and substitutions.

    A counted ``for ((...; ...))`` stays whole.
    """
    start, depth = 0, 0
    for at, (char, _, sign) in enumerate(quoting(text)):
        if not sign or at < start:
            continue
        if char == "(":
            depth += 1
        elif char == ")" and depth:
            depth -= 1
        elif not depth and (width := _separator(text, at)):
            if text[start:at].strip():
                yield Statement(line, end, text[start:at])
            start = at + width
    if text[start:].strip():
        yield Statement(line, end, text[start:])


def _separator(text: str, at: int) -> int:
    if text[at : at + 2] in ("&&", "||", ";;"):
        return 2
    if text[at] == "&" and (text[at - 1 : at] == ">" or text[at + 1 : at + 2] in ("1", "2", ">")):
        return 0  # 2>&1, &>
    return 1 if text[at] in ";|&" else 0
