"""What a student wrote as blocks: their Markdown, and their programs, job scripts and logs as listings.

Markdown becomes lists, tables, code, formulas, pictures, footnotes and checkboxes; raw HTML stays text. Listings are
highlighted, cut to the lines that matter, or shown as a difference.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from labtui.export.hand_in import (
    Block,
    Change,
    CodeLine,
    Formula,
    Listing,
    Paragraph,
    Picture,
    Run,
    Table,
    Tone,
    one_line,
    safe,
)

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode


_CONTEXT = 1
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
_HEADER = re.compile(r"^# ---- Who this job is.*?^echo \"---- end ----\"\n+", re.MULTILINE | re.DOTALL)
_HELPERS = re.compile(
    r"^# The GPUs of the job, once.*?^fi\n+|^status=0\n|^run\(\) \{.*?^\}\n|^trap [^\n]*\n|^exit [^\n]*\n?"
    r"|^# ---- The trainings\.[^\n]*\n(?:# ----[^\n]*\n)*",
    re.MULTILINE | re.DOTALL,
)
_FIRST, _LAST = 6, 4
"""Of very many alike lines of a log so many are shown from the beginning and from the end."""

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
    return "python" if name.endswith(".py") else "bash" if name.endswith((".slurm", ".sh")) else "text"


def whole(text: str, name: str, caption: str = "") -> Listing:
    """A whole file with line numbers."""
    lines = highlighted(text.rstrip("\n"), language_of(name))
    return Listing(
        tuple(CodeLine(runs, str(number)) for number, runs in enumerate(lines, 1)), caption or name
    )


def own_part(text: str) -> str:
    """A job script without the header and the helpers that labtui writes into every one."""
    return _HELPERS.sub("", _HEADER.sub("", text))


def excerpt(text: str, name: str, patterns: Sequence[str], caption: str = "") -> Listing:
    """The lines that an expression finds, with their numbers; left-out lines between them are marked."""
    wanted = [re.compile(pattern) for pattern in patterns]
    shown = whole(text, name, caption)
    found = [line for line in shown.lines if any(each.search(line.text) for each in wanted)]
    if len(found) > _FIRST + _LAST + 2:
        left = len(found) - _FIRST - _LAST
        found = [*found[:_FIRST], _gap(f"… {left} more lines"), *found[-_LAST:]]
    if language_of(name) == "python":
        found = [line for at, line in enumerate(found) for line in (*_between(found, at), line)]
    return replace(shown, lines=tuple(found))


def _between(found: Sequence[CodeLine], at: int) -> Iterable[CodeLine]:
    if at and found[at - 1].number and int(found[at].number) - int(found[at - 1].number) > 1:
        yield _gap("…")


def _gap(text: str) -> CodeLine:
    return CodeLine((Run(text, mono=True, tone="quiet"),))


def with_parts(text: str, name: str, patterns: Sequence[str], parts: Sequence[str]) -> Listing:
    """A program without its docstring, each part's name at the first line its expression finds."""
    shown = whole(text, name)
    lines = list(shown.lines)
    body = _after_docstring([line.text for line in lines])
    marked: dict[int, str] = {}
    for pattern, part in zip(patterns, parts, strict=True):
        at = next((at for at in range(body, len(lines)) if re.search(pattern, lines[at].text)), None)
        if at is not None:
            marked.setdefault(at, part)
    kept = [replace(line, part=marked.get(at, "")) for at, line in enumerate(lines) if at >= body]
    kept = [line for line in kept if line.text.strip() and not line.text.lstrip().startswith("#")]
    return replace(shown, lines=tuple(kept))


def _after_docstring(lines: Sequence[str]) -> int:
    if not lines or not lines[0].startswith(('"""', "'''")):
        return 0
    mark = lines[0][:3]
    end = next((at for at, line in enumerate(lines) if mark in (line[3:] if at == 0 else line)), 0)
    return next((at for at in range(end + 1, len(lines)) if lines[at].strip()), 0)


def difference(original: str, changed: str, name: str, caption: str = "") -> Listing:
    """What differs from the original, with a line around it; empty when nothing does.

    Line numbers are those of the changed file; removed lines have none.
    """
    before, after = original.splitlines(), changed.splitlines()
    old, new = (highlighted("\n".join(lines), language_of(name)) for lines in (before, after))
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
    return Listing(tuple(lines), caption or name)


def _changed(lines: Sequence[Line], numbers: Iterable[int], change: Change) -> list[CodeLine]:
    return [CodeLine(lines[at], "" if change == "-" else str(at + 1), change) for at in numbers]


_MAX_LEVELS = 4
_MARKS = ("•", "–", "·", "·")
Pictures = Callable[[str], bytes | None]
"""The bytes of a picture that an answer names, or None when there is none."""


def no_pictures(name: str) -> bytes | None:
    """For texts that have no folder to take pictures from."""
    return None


def blocks_of(text: str, pictures: Pictures = no_pictures) -> tuple[Block, ...]:
    """The blocks of a Markdown text (CommonMark with tables, strike-through, footnotes, checkboxes, ``$``-formulas)."""
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode
    from mdit_py_plugins.dollarmath import dollarmath_plugin
    from mdit_py_plugins.footnote import footnote_plugin

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.use(dollarmath_plugin, double_inline=True, allow_space=False).use(footnote_plugin)
    tree = SyntaxTreeNode(parser.parse(safe(text)))
    reader = _Reader(pictures)
    return tuple(block for node in tree.children for block in reader.blocks(node, 0))


class _Reader:
    def __init__(self, pictures: Pictures) -> None:
        self._pictures = pictures

    def blocks(self, node: SyntaxTreeNode, level: int) -> Iterable[Block]:
        kind = node.type
        if kind == "heading":
            yield Paragraph(self._inline(node), "heading", level)
        elif kind in ("paragraph", "inline"):
            yield from self._paragraph(node, level)
        elif kind in ("bullet_list", "ordered_list"):
            yield from self._list(node, level)
        elif kind in ("fence", "code_block"):
            yield _code(node)
        elif kind == "blockquote":
            inner = (block for child in node.children for block in self.blocks(child, 0))
            yield from (replace(each, quoted=True) if isinstance(each, Paragraph) else each for each in inner)
        elif kind == "table":
            yield self._table(node)
        elif kind.startswith("math_block"):
            yield Formula(one_line(node.content))
        elif kind == "footnote":
            yield from self._footnote(node)
        elif kind != "hr":
            for child in node.children:
                yield from self.blocks(child, level)

    def _paragraph(self, node: SyntaxTreeNode, level: int) -> Iterable[Block]:
        """Lines of text; a picture or a displayed formula among them stands between them."""
        line: list[Run] = []
        for piece in self._pieces(node.children, {}):
            if isinstance(piece, Run) and piece.text != "\n":
                line.append(piece)
                continue
            if any(run.text.strip() for run in line):
                yield Paragraph(tuple(line), "body", level)
            line = []
            if not isinstance(piece, Run):
                yield piece
        if any(run.text.strip() for run in line):
            yield Paragraph(tuple(line), "body", level)

    def _list(self, node: SyntaxTreeNode, level: int) -> Iterable[Block]:
        start = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else 0
        for at, item in enumerate(node.children):
            mark = f"{start + at}." if node.type == "ordered_list" else _MARKS[min(level, len(_MARKS) - 1)]
            for place, block in enumerate(
                b for child in item.children for b in self.blocks(child, level + 1)
            ):
                if isinstance(block, Paragraph) and place == 0:
                    yield _checked(replace(block, bullet=mark, level=min(level + 1, _MAX_LEVELS)))
                elif isinstance(block, Paragraph):
                    yield replace(block, level=min(block.level, _MAX_LEVELS))
                else:
                    yield block

    def _footnote(self, node: SyntaxTreeNode) -> Iterable[Block]:
        number = int(node.meta.get("id", 0)) + 1
        inner = [block for child in node.children for block in self.blocks(child, 0)]
        for place, block in enumerate(inner):
            if isinstance(block, Paragraph):
                yield replace(block, style="note", level=1, bullet=f"[{number}]" if place == 0 else "")
            else:
                yield block

    def _table(self, node: SyntaxTreeNode) -> Table:
        lines = [list(line.children) for part in node.children for line in part.children]
        texts = [tuple("".join(run.text for run in self._inline(cell)) for cell in line) for line in lines]
        aligned = [str(cell.attrs.get("style", "")) for cell in lines[0]] if lines else []
        return Table(
            headings=texts[0] if texts else ("",),
            rows=tuple(texts[1:]),
            numeric=tuple("right" in look for look in aligned) or (False,),
        )

    # ----------------------------------------------------------------------- text within a line

    def _inline(self, node: SyntaxTreeNode) -> tuple[Run, ...]:
        return tuple(piece for piece in self._pieces(node.children, {}) if isinstance(piece, Run))

    def _pieces(
        self, nodes: Sequence[SyntaxTreeNode], look: dict[str, Any]
    ) -> Iterable[Run | Picture | Formula]:
        for node in nodes:
            kind = node.type
            if kind == "text":
                yield Run(node.content, **look)
            elif kind in ("softbreak", "hardbreak"):
                yield Run(" " if kind == "softbreak" else "\n", **look)
            elif kind == "code_inline":
                yield Run(node.content, **{**look, "mono": True})
            elif kind == "math_inline":
                yield Run(one_line(node.content), **{**look, "tex": True})
            elif kind.startswith("math_inline"):  # between two dollar signs: on a line of its own
                yield Formula(one_line(node.content))
            elif kind == "image":
                yield from self._picture(node, look)
            elif kind == "footnote_ref":
                yield Run(f"[{int(node.meta.get('id', 0)) + 1}]", **{**look, "tone": "quiet"})
            elif kind == "link":
                yield from self._link(node, look)
            elif kind != "footnote_anchor":
                yield from self._pieces(node.children, look | _LOOKS.get(kind, {}))

    def _picture(self, node: SyntaxTreeNode, look: dict[str, Any]) -> Iterable[Run | Picture]:
        name, alt = str(node.attrs.get("src", "")), one_line(node.content)
        data = self._pictures(name)
        if data is None:
            yield Run(f"[picture: {alt or one_line(name)}]", **{**look, "tone": "quiet"})
        else:
            yield Picture(data, one_line(name), alt)

    def _link(self, node: SyntaxTreeNode, look: dict[str, Any]) -> Iterable[Run | Picture | Formula]:
        """A link's words, and its address after them unless they are the same: a printed page cannot be clicked."""
        words = list(self._pieces(node.children, look | {"tone": "accent"}))
        address = str(node.attrs.get("href", ""))
        yield from words
        if address and address != "".join(run.text for run in words if isinstance(run, Run)):
            yield Run(f" ({one_line(address)})", **{**look, "tone": "quiet"})


_LOOKS: dict[str, dict[str, Any]] = {"strong": {"bold": True}, "em": {"italic": True}, "s": {"strike": True}}
_BOXES = {"[ ] ": "☐", "[x] ": "☑", "[X] ": "☑"}


def _checked(item: Paragraph) -> Paragraph:
    """A list item that begins with ``[ ]`` or ``[x]`` has the box for its bullet."""
    first = item.runs[0] if item.runs else None
    box = _BOXES.get(first.text[:4]) if first is not None else None
    if first is None or box is None:
        return item
    return replace(item, bullet=box, runs=(replace(first, text=first.text[4:]), *item.runs[1:]))


def _code(node: SyntaxTreeNode) -> Listing:
    language = (node.info or "").split()[:1]
    lines = highlighted(node.content.rstrip("\n"), language[0] if language else "")
    return Listing(tuple(CodeLine(runs) for runs in lines))
