"""What is handed in as data: pages of blocks, before anybody decides how they look. All text is plain text.

Slides, report and notebook are made from the same `Document`, so they cannot differ in content.
"""

import re
from typing import Literal

import msgspec

from labtui.domain.run import mark_words
from labtui.results.charts import ChartSpec
from labtui.results.numbers import Table

Tone = Literal["ink", "quiet", "accent", "warn"]
ParagraphStyle = Literal["body", "heading", "note", "formula"]
Change = Literal["", "+", "-", "@"]


class Run(msgspec.Struct, frozen=True):
    """A piece of text in one look. `mono`: in the typeface for code; `tex`: a formula, `text` being its TeX."""

    text: str
    bold: bool = False
    italic: bool = False
    mono: bool = False
    strike: bool = False
    tone: Tone = "ink"
    tex: bool = False


class Paragraph(msgspec.Struct, frozen=True):
    """Text that is wrapped. `level` indents it; `bullet` ("•", "2.", "☐") stands before its first line.

    In the style `formula` its one run is a formula on a line of its own.
    """

    runs: tuple[Run, ...]
    style: ParagraphStyle = "body"
    level: int = 0
    bullet: str = ""


class CodeLine(msgspec.Struct, frozen=True):
    """A line of code; `change` says that a difference added or removed it, `part` names what begins here."""

    text: str
    number: str = ""
    change: Change = ""
    part: str = ""


class Listing(msgspec.Struct, frozen=True):
    """Lines of a program or a log in a `language` that Typst knows, and where they are from."""

    lines: tuple[CodeLine, ...]
    caption: str = ""
    language: str = ""


class Picture(msgspec.Struct, frozen=True):
    """A picture of the student's: the bytes of a PNG or JPEG file."""

    data: bytes
    alt: str


Block = Paragraph | Listing | Table | Picture


class Answer(msgspec.Struct, frozen=True):
    """A student's answer to a question; no blocks where there is none yet."""

    number: int
    question: str
    blocks: tuple[Block, ...]

    @property
    def letters(self) -> int:
        """How long it is; a table, code or a picture counts as much text."""
        return sum(
            sum(len(run.text) for run in each.runs) if isinstance(each, Paragraph) else 900
            for each in self.blocks
        )


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One page: a message, what shows it (`charts`, `facts`, `blocks`), the answers below, and what a speaker says.

    `kicker` is the task. `facts` are large numbers with what they are. `note` stands under the charts, `warnings` say
    what is missing, `numbers` where the page's numbers were read.
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
        """Whether there is something on it besides what is missing."""
        return bool(self.charts or self.facts or self.blocks or any(each.blocks for each in self.answers))


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is handed in: the title page, then the pages.

    `stamp` says which state it shows, `mark` that there are numbers in it that are not the lab's.
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
        """What stands at the foot of every page."""
        return f"{self.author} · {self.title}" if self.author else self.title


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
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "�", text)


def chart_text(spec: ChartSpec) -> str:
    """A chart in words: its title and the values it shows."""
    ticks = dict(spec.x_ticks)
    parts = []
    for series in spec.measured:
        if len(series.points) <= 12:
            values = [f"{ticks.get(p.x, f'{p.x:g}')}: {p.label or f'{p.y:.3g}'}" for p in series.points]
            parts.append(f"{series.name} ({spec.x_label}) {', '.join(values)}")
    return ". ".join([spec.title + mark_words(spec.mark), *parts])[:1000]
