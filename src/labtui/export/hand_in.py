"""The hand-in as data: pages of blocks, without any layout. All text is plain text.

Slides, report and notebook are made from the same `Document`, so they cannot differ in content.
"""

import re
import textwrap
from typing import Literal

import msgspec

from labtui.lab.evidence import one_line
from labtui.results.charts import ChartSpec
from labtui.results.numbers import Table

Tone = Literal["ink", "quiet", "accent", "warn"]
ParagraphStyle = Literal["body", "heading", "note", "formula"]


class Run(msgspec.Struct, frozen=True):
    """A piece of text in one style. `mono`: in the font for code; `tex`: a formula, with its TeX in `text`."""

    text: str
    bold: bool = False
    italic: bool = False
    mono: bool = False
    strike: bool = False
    tone: Tone = "ink"
    tex: bool = False


class Paragraph(msgspec.Struct, frozen=True):
    """Wrapped text. `level` indents it; `bullet` ("•", "2.", "☐") is put before its first line.

    With the style `formula` its only run is a formula on a line of its own.
    """

    runs: tuple[Run, ...]
    style: ParagraphStyle = "body"
    level: int = 0
    bullet: str = ""


class CodeLine(msgspec.Struct, frozen=True):
    """A line of code; `change` is its mark in a diff, `part` names the part of the program that begins here."""

    text: str
    number: str = ""
    change: Literal["", "+", "-", "@"] = ""
    part: str = ""


class Listing(msgspec.Struct, frozen=True):
    """Lines of a program or a log; `language` is one that Typst knows, `caption` says where they are from."""

    lines: tuple[CodeLine, ...]
    caption: str = ""
    language: str = ""


class Picture(msgspec.Struct, frozen=True):
    """A student's picture: the bytes of a PNG or JPEG file."""

    data: bytes
    alt: str


Block = Paragraph | Listing | Table | Picture


class Answer(msgspec.Struct, frozen=True):
    """A student's answer to a question; without blocks where it is not answered yet."""

    number: int
    question: str
    blocks: tuple[Block, ...]

    @property
    def short(self) -> str:
        """The question, cut after a word where it is long."""
        return textwrap.shorten(self.question, 60, placeholder=" …")

    @property
    def letters(self) -> int:
        """Its length in characters; a table, code or a picture counts as 900."""
        return sum(sum(len(r.text) for r in b.runs) if isinstance(b, Paragraph) else 900 for b in self.blocks)


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One page: a title with a message, what supports it (`charts`, `facts`, `blocks`), and the answers below.

    `kicker` is the task. `facts` are numbers in large type, each with its meaning. `note` is put under the charts;
    `warnings` say what is missing; `numbers`, the speaker's notes, where the page's numbers were read.
    """

    title: str
    kicker: str = ""
    charts: tuple[ChartSpec, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    blocks: tuple[Block, ...] = ()
    answers: tuple[Answer, ...] = ()
    note: str = ""
    warnings: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    practice: bool = False

    @property
    def shows(self) -> bool:
        """Whether the page has any content besides its warnings."""
        return bool(self.charts or self.facts or self.blocks or self.answered)

    @property
    def answered(self) -> list[Answer]:
        """The answers that are there."""
        return [each for each in self.answers if each.blocks]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is handed in: the title page, then the pages.

    `stamp` names the state it shows; `mark` warns of numbers that are not the lab's.
    """

    title: str
    subtitle: str
    author: str
    lines: tuple[str, ...]
    stamp: str
    pages: tuple[Page, ...]
    facts: tuple[tuple[str, str], ...] = ()
    mark: str = ""
    notes: tuple[str, ...] = msgspec.field(default=())

    @property
    def footer(self) -> str:
        """The text at the foot of every page."""
        return f"{self.author} · {self.title}" if self.author else self.title


def plain(
    text: str, style: ParagraphStyle = "body", *, bullet: str = "", level: int = 0, tone: Tone = "ink"
) -> Paragraph:
    """A paragraph in one style; line breaks become blanks, control characters are replaced."""
    return Paragraph((Run(one_line(safe(text)), tone=tone),), style, level, bullet)


def safe(text: str) -> str:
    """The text with characters replaced that XML or Typst cannot hold; tabs and line breaks stay."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "�", text)
