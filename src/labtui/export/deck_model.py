"""The deck as data: what its slides say, before anybody decides how they look.

PowerPoint and PDF are made from the same `Deck`, so they cannot differ in content. Nothing here knows a file format;
all text is plain text, whatever it contains.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from labtui.core.charts import ChartSpec

Tone = Literal["ink", "quiet", "accent", "warn", "keyword", "string", "comment", "number", "name"]
ParagraphStyle = Literal["body", "question", "heading", "subheading", "note"]
Change = Literal["", "+", "-", "@"]


@dataclass(frozen=True, slots=True)
class Run:
    """A piece of text in one look. `mono` is set in the typeface for code."""

    text: str
    bold: bool = False
    italic: bool = False
    mono: bool = False
    strike: bool = False
    tone: Tone = "ink"


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Text that is wrapped. `level` indents it; `bullet` ("•", "2.") stands before its first line."""

    runs: tuple[Run, ...]
    style: ParagraphStyle = "body"
    level: int = 0
    bullet: str = ""

    @property
    def text(self) -> str:
        """The words alone."""
        return "".join(run.text for run in self.runs)


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of code; `number` is its line number as text, `change` says that a difference added or removed it."""

    runs: tuple[Run, ...]
    number: str = ""
    change: Change = ""


@dataclass(frozen=True, slots=True)
class Code:
    """Lines of code, broken only where they do not fit."""

    lines: tuple[CodeLine, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts; `numeric` says which columns stand to the right. Its first line is repeated on every slide."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Callout:
    """Paragraphs in a box: ``missing`` (something is to be done), ``empty`` (nothing yet), ``quote``."""

    paragraphs: tuple[Paragraph, ...]
    kind: Literal["missing", "empty", "quote"] = "missing"


Block = Paragraph | Code | Table | Callout


@dataclass(frozen=True, slots=True, kw_only=True)
class Slide:
    """One or more pages under one title. Blocks flow over to further pages; charts stand two by two.

    `kicker` is the small line over the title (the task). `practice` puts the practice mark on every page.
    `empty` marks the slide of a task with nothing yet. `joins`: the blocks stand below those of the slide before,
    under its title, where one page holds both.
    """

    title: str
    kicker: str = ""
    blocks: tuple[Block, ...] = ()
    charts: tuple[ChartSpec, ...] = ()
    practice: bool = False
    empty: bool = False
    joins: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Deck:
    """The whole deck: a title page and slides. `lines` stand on the title page; `footer` on all others.

    `notes` are for whoever exports: what could not be shown as it should.
    """

    title: str
    subtitle: str
    lines: tuple[str, ...]
    footer: str
    slides: tuple[Slide, ...]
    practice: bool = False
    language: str = "en"
    notes: tuple[str, ...] = field(default=())


def plain(
    text: str, style: ParagraphStyle = "body", *, bullet: str = "", level: int = 0, tone: Tone = "ink"
) -> Paragraph:
    """A paragraph of one look; line breaks and control characters become blanks."""
    return Paragraph((Run(one_line(text), tone=tone),), style, level, bullet)


def one_line(text: str) -> str:
    """Text without line breaks, doubled blanks and control characters."""
    return " ".join(safe(text).split())


def safe(text: str) -> str:
    """Text without characters that XML or a typesetter cannot carry; tabs and line breaks stay."""
    return "".join(mark if mark in "\t\n" or _carried(mark) else "�" for mark in text)


def _carried(mark: str) -> bool:
    code = ord(mark)
    return code >= 0x20 and not (0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000 or code in (0xFFFE, 0xFFFF))
