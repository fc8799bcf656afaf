"""Expands the variables and loops in the commands of a job script, as far as its text determines them.

This is not a shell: what only the running job knows (``$SLURM_JOB_ID``, the output of a program) stays as written. A
loop over given words becomes one command for each word. Rank variables that the batch shell would expand are marked,
because there they have the values of the batch step, not of the task. Never raises, and makes at most `MAX_COMMANDS`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from posixpath import normpath

import msgspec

MAX_COMMANDS = 400
MAX_LENGTH = 8_000
_MAX_WORDS = 64
RANK_MARK = "\ue000"
"""Marks a rank variable that the batch shell expands, with the number of its line: ``\\ue000NAME:7\\ue001``."""
_RANK_END = "\ue001"
RANK = re.compile(f"{RANK_MARK}(\\w+):([0-9]+){_RANK_END}")
_RANKS = frozenset({"SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID"})

_ASSIGN = re.compile(r"\s*(?:(?:export|local|readonly|declare(?:\s+-\w+)*)\s+)?([A-Za-z_]\w*)=(.*)\Z", re.S)
_FOR = re.compile(r"\s*for\s+([A-Za-z_]\w*)\s+in\s+(.*)\Z", re.S)
_KEYWORD = re.compile(
    r"\A\s*(?:(?:do|then|else|if|elif|while|until|!|\{|time|case\s.*?\sin|[^\s()]+\))(?:\s+|\Z))+"
    r"|\A\s*(?:done|fi|esac|\})\s*\Z"
)
"""What may stand before a command, the patterns of ``case`` among them; or all of a statement that ends others."""
_SUM = re.compile(r"\s*([0-9]{1,9})\s*(?:([*+/-])\s*([0-9]{1,9})\s*)?\Z")
_VALUES = (
    r"\$\(\((?P<sum>[^()]{1,80})\)\)"
    r"|\$(?:\{(?P<braced>[A-Za-z_]\w*)(?P<all>\[[@*]\])?(?::?-(?P<default>[^{}]*))?\}|(?P<plain>[A-Za-z_]\w*))"
)
_INSIDE = re.compile(rf"\\(?P<escaped>[$\"\\`\n])|{_VALUES}|[^\\$]+|.", re.S)
"""The pieces of a text in double quotes."""
_OUTSIDE = re.compile(
    rf"\\(?P<escaped>.)|'(?P<literal>[^']*)'?|\"(?P<quoted>(?:\\.|[^\"\\])*)\"?|{_VALUES}|[^\\$'\"]+|.", re.S
)
"""Characters that may join several blank-separated pieces into one shell word."""


class Command(msgspec.Struct, frozen=True):
    """A command in the physical lines `line` to `end`. `maybe`: it follows ``&&`` or ``||``."""

    line: int
    end: int
    text: str
    maybe: bool = False


class _Shell(msgspec.Struct):
    variables: dict[str, str | tuple[str, ...]] = {}
    made: list[Command] = []
    before_if: list[dict[str, str | tuple[str, ...]]] = []

    def assign(self, name: str, value: str | tuple[str, ...], *, maybe: bool) -> None:
        """Set a variable. If it may keep another value it is unknown, which its own name as its value says."""
        self.variables[name] = value if not maybe or self.variables.get(name) == value else f"${name}"


def filled_commands(statements: Sequence[Command], known: Mapping[str, str]) -> tuple[Command, ...]:
    """The commands that the statements run, with loops over known words unrolled. `known`: variables set by Slurm."""
    shell = _Shell(variables=dict(known))
    _run_all(shell, statements)
    return tuple(_placed(shell.made))


MOVE = re.compile(r"\s*cd\s+([\w.][\w./+-]*)\s*")
"""A move into a folder below (or above) where the job starts."""
_FILE = re.compile(
    r"(?<=[\s=])(?![/-])(\.\./[\w./+-]+|[\w./+-]+\.(?:py|json|ya?ml|toml|cfg|[ct]sv|txt|np[yz]|h5|pkl))\b"
)


def _placed(commands: Iterable[Command]) -> Iterator[Command]:
    """The commands with the relative names of their files from where the job starts: ``src/a.py`` after ``cd src``."""
    folder = ""
    for command in commands:
        if re.match(r"\s*cd\b", command.text):
            move = MOVE.fullmatch(command.text)
            folder = f"{folder}{move[1]}/" if move else ""
        pieces = _FILE.split(command.text) if folder else [command.text]
        pieces[1::2] = [normpath(folder + name) for name in pieces[1::2]]
        yield Command(command.line, command.end, "".join(pieces))


def _run_all(shell: _Shell, statements: Sequence[Command]) -> None:
    at = 0
    while at < len(statements) and len(shell.made) < MAX_COMMANDS:
        statement = statements[at]
        loop = _FOR.match(statement.text)
        at += 1
        if re.match(r"\s*(?:while|until)\b", statement.text):  # what its body changes has many values
            body = statements[at : _end_of_loop(statements, at)]
            assigned = (_ASSIGN.match(_KEYWORD.sub("", each.text)) for each in body)
            shell.variables |= {each[1]: f"${each[1]}" for each in assigned if each}
        if loop is None:
            _run_statement(shell, statement)
            continue
        end = _end_of_loop(statements, at)
        for word in _loop_words(shell, loop[2], statement.line):
            if word is None:
                shell.variables.pop(loop[1], None)
            else:
                shell.variables[loop[1]] = word
            _run_all(shell, statements[at:end])
        at = end + 1


def _end_of_loop(statements: Sequence[Command], start: int) -> int:
    depth = 1
    for at in range(start, len(statements)):
        text = statements[at].text.strip()
        depth += bool(re.match(r"(?:do\s+)?(?:for|while|until)\b", text))
        depth -= bool(re.match(r"done\b", text))
        if not depth:
            return at
    return len(statements)


def _loop_words(shell: _Shell, text: str, line: int) -> list[str | None]:
    """The words of a ``for`` loop; None for a word, or for all of them, if not known."""
    words: list[str | None] = []
    for word in split_words(text):
        match = _OUTSIDE.fullmatch(word.strip("\"'"))
        value = shell.variables.get(match["braced"] or match["plain"] or "") if match else None
        if match and match["all"] and isinstance(value, tuple):
            words.extend(value)
        elif isinstance(value, str) and not word.startswith('"'):
            words.extend(value.split())
        else:
            filled = _expand(shell, word, line)
            words.append(None if "$" in filled or "`" in filled else filled)
    return words[:_MAX_WORDS] or [None]


def _run_statement(shell: _Shell, statement: Command) -> None:
    line, text = statement.line, _KEYWORD.sub("", statement.text)
    _follow_branches(shell, statement.text.removesuffix(text).split())
    assigned = _ASSIGN.match(text)
    value = assigned[2].strip() if assigned else ""
    if assigned and value.startswith("(") and value.endswith(")"):
        words = tuple(_expand(shell, word, line) for word in split_words(value[1:-1])[:_MAX_WORDS])
        shell.assign(assigned[1], words, maybe=statement.maybe)
    elif assigned and (value.startswith("(") or len(split_words(value)) <= 1):
        shell.assign(assigned[1], _expand(shell, value, line), maybe=statement.maybe)
    elif filled := _expand(shell, text, line).strip():
        shell.made.append(Command(line, statement.end, filled))


def _follow_branches(shell: _Shell, keywords: Iterable[str]) -> None:
    """At the end of a branch of ``if`` or ``case`` what it assigned is no longer known: another one may have run."""
    for word in keywords:
        if word in ("if", "case"):
            shell.before_if.append({**shell.variables})
        elif (word in ("elif", "else", "fi", "esac") or word.endswith(")")) and shell.before_if:
            known = shell.before_if.pop() if word in ("fi", "esac") else shell.before_if[-1]
            for name, value in shell.variables.items():
                shell.variables[name] = value if known.get(name) == value else f"${name}"


def quoting(text: str) -> Iterator[tuple[str, bool, bool]]:
    """Each character of shell code, whether it is outside quotes, and whether the shell interprets it.

    Quotes, quoted and escaped characters do not count as interpreted.
    """
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
    """Whether a quote is still open at the end of this shell code."""
    return bool(re.search(r"[\\'\"]", text)) and not [outside for _, outside, _ in quoting(f"{text} ")][-1]


def split_words(text: str) -> list[str]:
    """The words of shell code with their quotes; ``$(...)`` does not end a word."""
    if not re.search(r"[\\'\"(]", text):
        return text.split()
    words, depth = [""], 0
    for at, (char, _, sign) in enumerate(quoting(text)):
        if sign and char in "()" and (depth or (char == "(" and text[at - 1 : at] == "$")):
            depth += 1 if char == "(" else -1
        if sign and char.isspace() and not depth:
            words.append("")
        else:
            words[-1] += char
    return [word for word in words if word]


def _expand(shell: _Shell, text: str, line: int, pieces: re.Pattern[str] = _OUTSIDE) -> str:
    """The text after one round of shell expansion: without quotes, with the known variables filled in."""
    made, size = [], 0
    for match in pieces.finditer(text):
        made.append(_expand_piece(shell, match, line))
        size += len(made[-1])
        if size > MAX_LENGTH:
            break
    return "".join(made)[:MAX_LENGTH]


def _expand_piece(shell: _Shell, match: re.Match[str], line: int) -> str:
    found = {name: words for name, words in match.groupdict().items() if words is not None}
    if "quoted" in found:
        return _expand(shell, found["quoted"], line, _INSIDE)
    if "sum" in found:
        named = re.sub(r"(?<![\w$])([A-Za-z_]\w*)", r"$\1", found["sum"])
        return _add_up(_expand(shell, named, line), match[0])
    if (name := found.get("braced") or found.get("plain")) is None:
        return found.get("escaped", found.get("literal", match[0]))
    if name in _RANKS:
        return f"{RANK_MARK}{name}:{line}{_RANK_END}"
    default = found.get("default", "$")
    value = shell.variables.get(name, match[0] if "$" in default else default)
    return value if isinstance(value, str) else " ".join(value)


def _add_up(text: str, otherwise: str) -> str:
    if (match := _SUM.match(text)) is None:
        return otherwise
    left, right = int(match[1]), int(match[3] or 0)
    if match[2] == "/":
        return str(left // right if right else 0)
    return str({"*": left * right, "+": left + right, "-": left - right}.get(match[2], left))


def statements_of(command: Command) -> Iterator[Command]:
    """A logical line split at ``;``, ``&&``, ``||``, ``|`` and a single ``&`` outside quotes and substitutions."""
    text, start, depth, maybe = command.text, 0, 0, False
    for at, (char, _, sign) in enumerate(quoting(text) if re.search(r"[;&|]", text) else ()):
        if not sign or at < start:
            continue
        if char == "(":
            depth += 1
        elif char == ")" and depth:
            depth -= 1
        elif not depth and (width := _separator(text, at)):
            if text[start:at].strip():
                yield Command(command.line, command.end, text[start:at], maybe)
            start, maybe = at + width, text[at : at + width] in ("&&", "||")
    if text[start:].strip():
        yield Command(command.line, command.end, text[start:], maybe)


def _separator(text: str, at: int) -> int:
    if text[at : at + 2] in ("&&", "||", ";;"):
        return 2
    if text[at] == "&" and (text[at - 1 : at] == ">" or text[at + 1 : at + 2] in ("1", "2", ">")):
        return 0  # 2>&1, &>
    return 1 if text[at] in ";|&" else 0
