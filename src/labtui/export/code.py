"""Code for slides: highlighted lines, and the difference between a student's script and the original."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from labtui.export.deck_model import Change, Code, CodeLine, Run, Tone, safe

_CONTEXT = 3
_TONES: tuple[tuple[str, Tone], ...] = (
    ("Token.Comment", "comment"),
    ("Token.Literal.String.Doc", "comment"),
    ("Token.Literal.String", "string"),
    ("Token.Literal.Number", "number"),
    ("Token.Keyword", "keyword"),
    ("Token.Operator.Word", "keyword"),
    ("Token.Name.Function", "name"),
    ("Token.Name.Class", "name"),
    ("Token.Name.Builtin", "name"),
    ("Token.Name.Variable", "name"),
)

Line = tuple[Run, ...]


def highlighted(text: str, language: str) -> tuple[Line, ...]:
    """The lines of a text with the tones of its language; plain when the language is not known."""
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    text = safe(text.replace("\r\n", "\n").replace("\r", "\n")).expandtabs(4)
    try:
        lexer = get_lexer_by_name(language or "text", stripnl=False, ensurenl=False)
    except ClassNotFound:
        lexer = get_lexer_by_name("text", stripnl=False, ensurenl=False)
    lines: list[list[Run]] = [[]]
    for kind, value in lexer.get_tokens(text):
        tone = _tone(str(kind))
        for at, piece in enumerate(value.split("\n")):
            if at:
                lines.append([])
            if piece:
                lines[-1].append(
                    Run(piece, mono=True, tone=tone, bold=tone == "keyword", italic=tone == "comment")
                )
    return tuple(tuple(line) for line in lines)


def _tone(kind: str) -> Tone:
    return next((tone for start, tone in _TONES if kind.startswith(start)), "ink")


def language_of(name: str) -> str:
    """The language of a file by its name."""
    return "python" if name.endswith(".py") else "bash" if name.endswith((".slurm", ".sh")) else "text"


def whole(text: str, name: str) -> Code:
    """A whole file with line numbers."""
    lines = highlighted(text.rstrip("\n"), language_of(name))
    return Code(tuple(CodeLine(runs, str(number)) for number, runs in enumerate(lines, 1)))


def difference(original: str, changed: str, name: str) -> Code:
    """What differs from the original, with some lines around it; empty when nothing does.

    Line numbers are those of the changed file; removed lines have none.
    """
    before, after = original.splitlines(), changed.splitlines()
    old, new = (
        highlighted("\n".join(before), language_of(name)),
        highlighted("\n".join(after), language_of(name)),
    )
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    lines: list[CodeLine] = []
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        first, last = group[0], group[-1]
        where = f"lines {first[3] + 1} to {max(first[3] + 1, last[4])}"
        lines.append(CodeLine((Run(where, mono=True, tone="quiet", italic=True),), "", "@"))
        for code, old_from, old_to, new_from, new_to in group:
            if code in ("replace", "delete"):
                lines += _changed(old, range(old_from, old_to), "-")
            if code != "delete":
                lines += _changed(new, range(new_from, new_to), "" if code == "equal" else "+")
    return Code(tuple(lines))


def _changed(lines: Sequence[Line], numbers: Iterable[int], change: Change) -> list[CodeLine]:
    return [CodeLine(lines[at], "" if change == "-" else str(at + 1), change) for at in numbers]
