"""A student's Markdown as blocks of the deck. Raw HTML is text; formulas between dollars become readable text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from labtui.export.code import highlighted
from labtui.export.deck_model import Block, Callout, Code, CodeLine, Paragraph, Run, Table, one_line, safe
from labtui.export.maths import readable

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

_MOST_LEVELS = 4
_MARKS = ("•", "–", "·", "·")


def blocks_of(text: str) -> tuple[Block, ...]:
    """The blocks of a Markdown text (CommonMark with tables, strike-through and ``$``-formulas)."""
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.use(dollarmath_plugin, double_inline=True, allow_space=False)
    tree = SyntaxTreeNode(parser.parse(safe(text)))
    return tuple(block for node in tree.children for block in _blocks(node, 0))


def _blocks(node: SyntaxTreeNode, level: int) -> Iterable[Block]:
    kind = node.type
    if kind == "heading":
        yield Paragraph(_inline(node), "subheading", level)
    elif kind in ("paragraph", "inline"):
        yield from (Paragraph(runs, "body", level) for runs in _lines(_inline(node)))
    elif kind in ("bullet_list", "ordered_list"):
        yield from _list(node, level)
    elif kind in ("fence", "code_block"):
        yield _code(node)
    elif kind == "blockquote":
        yield from _quote(node)
    elif kind == "table":
        yield _table(node)
    elif kind.startswith("math_block"):
        yield Paragraph((Run(readable(node.content), italic=True),), "body", level + 1)
    elif kind not in ("hr",):
        for child in node.children:
            yield from _blocks(child, level)


def _list(node: SyntaxTreeNode, level: int) -> Iterable[Block]:
    start = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else 0
    for at, item in enumerate(node.children):
        mark = f"{start + at}." if node.type == "ordered_list" else _MARKS[min(level, len(_MARKS) - 1)]
        for place, block in enumerate(b for child in item.children for b in _blocks(child, level + 1)):
            if isinstance(block, Paragraph) and place == 0:
                yield replace(block, bullet=mark, level=min(level + 1, _MOST_LEVELS))
            elif isinstance(block, Paragraph):
                yield replace(block, level=min(block.level, _MOST_LEVELS))
            else:
                yield block


def _code(node: SyntaxTreeNode) -> Code:
    language = (node.info or "").split()[:1]
    lines = highlighted(node.content.rstrip("\n"), language[0] if language else "")
    return Code(tuple(CodeLine(runs) for runs in lines))


def _quote(node: SyntaxTreeNode) -> Iterable[Block]:
    inner = [block for child in node.children for block in _blocks(child, 0)]
    paragraphs: list[Paragraph] = []
    for block in inner:
        if isinstance(block, Paragraph):
            paragraphs.append(block)
            continue
        if paragraphs:
            yield Callout(tuple(paragraphs), "quote")
        paragraphs = []
        yield block
    if paragraphs:
        yield Callout(tuple(paragraphs), "quote")


def _table(node: SyntaxTreeNode) -> Table:
    lines = [list(line.children) for part in node.children for line in part.children]
    texts = [tuple("".join(run.text for run in _inline(cell)) for cell in line) for line in lines]
    aligned = [str(cell.attrs.get("style", "")) for cell in lines[0]] if lines else []
    return Table(
        headings=texts[0] if texts else ("",),
        rows=tuple(texts[1:]),
        numeric=tuple("right" in look for look in aligned) or (False,),
    )


# --------------------------------------------------------------------------- text within a line


def _inline(node: SyntaxTreeNode) -> tuple[Run, ...]:
    return tuple(_runs(node.children, {}))


def _runs(nodes: Sequence[SyntaxTreeNode], look: dict[str, Any]) -> Iterable[Run]:
    for node in nodes:
        kind = node.type
        if kind == "text":
            yield Run(node.content, **look)
        elif kind == "softbreak":
            yield Run(" ", **look)
        elif kind == "hardbreak":
            yield Run("\n", **look)
        elif kind == "code_inline":
            yield Run(node.content, **{**look, "mono": True})
        elif kind.startswith("math_inline"):
            yield Run(readable(node.content), **{**look, "italic": True})
        elif kind == "image":
            yield Run(
                f"[picture: {one_line(node.content or str(node.attrs.get('src', '')))}]",
                **{**look, "tone": "quiet"},
            )
        elif kind == "link":
            yield from _link(node, look)
        else:
            yield from _runs(node.children, look | _LOOKS.get(kind, {}))


_LOOKS: dict[str, dict[str, Any]] = {
    "strong": {"bold": True},
    "em": {"italic": True},
    "s": {"strike": True},
}


def _link(node: SyntaxTreeNode, look: dict[str, Any]) -> Iterable[Run]:
    """A link's words, and its address after them unless they are the same: a printed slide cannot be clicked."""
    words = list(_runs(node.children, look | {"tone": "accent"}))
    address = str(node.attrs.get("href", ""))
    yield from words
    if address and address != "".join(run.text for run in words):
        yield Run(f" ({one_line(address)})", **{**look, "tone": "quiet"})


def _lines(runs: tuple[Run, ...]) -> Iterable[tuple[Run, ...]]:
    """The runs parted at hard line breaks."""
    line: list[Run] = []
    for run in runs:
        if run.text == "\n":
            yield tuple(line)
            line = []
        else:
            line.append(run)
    if line:
        yield tuple(line)
