"""What is handed in as data: pages of blocks, before anybody decides how they look.

Slides, report, LaTeX, notebook and summary are made from the same `HandInDocument`, so they cannot differ in content.
Nothing here knows a file format; all text is plain text, whatever it contains.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from labtui.results.charts import ChartSpec

Tone = Literal["ink", "quiet", "accent", "warn", "keyword", "string", "comment", "number", "name"]
ParagraphStyle = Literal["body", "question", "heading", "note"]
Change = Literal["", "+", "-", "@"]


@dataclass(frozen=True, slots=True)
class Run:
    """A piece of text in one look. `mono`: in the typeface for code; `tex`: a formula, `text` being its TeX."""

    text: str
    bold: bool = False
    italic: bool = False
    mono: bool = False
    strike: bool = False
    tone: Tone = "ink"
    tex: bool = False


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Text that is wrapped. `level` indents it; `bullet` ("•", "2.", "☐") stands before its first line."""

    runs: tuple[Run, ...]
    style: ParagraphStyle = "body"
    level: int = 0
    bullet: str = ""
    quoted: bool = False

    @property
    def text(self) -> str:
        """The words alone."""
        return "".join(run.text for run in self.runs)


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of code; `change` says that a difference added or removed it, `part` names what begins here."""

    runs: tuple[Run, ...]
    number: str = ""
    change: Change = ""
    part: str = ""

    @property
    def text(self) -> str:
        """The characters alone."""
        return "".join(run.text for run in self.runs)


@dataclass(frozen=True, slots=True)
class Listing:
    """Lines of a program or a log, and where they are from."""

    lines: tuple[CodeLine, ...]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts; `numeric` says which columns stand to the right."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula on a line of its own, in TeX."""

    tex: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of the student's: the bytes of a PNG or JPEG file."""

    data: bytes
    name: str
    alt: str


@dataclass(frozen=True, slots=True)
class KeyNumbers:
    """Large numbers with what they are; `steps` puts arrows between them."""

    items: tuple[tuple[str, str], ...]
    steps: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with the sentences its reader needs."""

    spec: ChartSpec


Block = Paragraph | Listing | Table | Formula | Picture | KeyNumbers | Chart


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page: a message, what shows it (`visuals`), the words, and what a speaker says.

    `kicker` is the small line over the message (the task). `questions` are those the words answer. `practice` puts the
    practice mark on it. `flows`: all of it is shown, on as many pages as it takes; otherwise what does not
    fit stands in full behind the divider, if anything is `answered`. `numbers` says where the page's numbers were read.
    """

    title: str
    kicker: str = ""
    visuals: tuple[Block, ...] = ()
    words: tuple[Block, ...] = ()
    questions: tuple[str, ...] = ()
    answer: tuple[Block, ...] = ()
    numbers: tuple[str, ...] = ()
    practice: bool = False
    flows: bool = False
    answered: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HandInDocument:
    """Everything that is handed in: the title page, then the pages. `stamp` says which state it shows."""

    title: str
    subtitle: str
    author: str
    lines: tuple[str, ...]
    stamp: str
    pages: tuple[Page, ...]
    key_numbers: KeyNumbers = KeyNumbers(())
    practice: bool = False
    language: str = "en"
    notes: tuple[str, ...] = field(default=())

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
    return "".join(mark if mark in "\t\n" or _carried(mark) else "�" for mark in text)


def _carried(mark: str) -> bool:
    code = ord(mark)
    return code >= 0x20 and not (0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000 or code in (0xFFFE, 0xFFFF))


def block_text(block: Block) -> str:  # noqa: PLR0911 - one case for each kind
    """The words of a block, for notes, searches and alternative texts."""
    if isinstance(block, Paragraph):
        return f"{block.bullet} {block.text}".strip()
    if isinstance(block, Listing):
        return "\n".join(line.text for line in block.lines)
    if isinstance(block, Table):
        return "\n".join("  ".join(row) for row in (block.headings, *block.rows))
    if isinstance(block, Formula):
        return block.tex
    if isinstance(block, Picture):
        return f"[{block.alt or block.name}]"
    if isinstance(block, KeyNumbers):
        return "; ".join(f"{value}: {label}" for value, label in block.items)
    return chart_text(block.spec)


def chart_text(spec: ChartSpec) -> str:
    """A chart in words: its title and the values it shows."""
    ticks = dict(spec.x_ticks)
    parts = []
    for series in spec.series:
        if series.role in ("measured", "reference") and 0 < len(series.points) <= 12:
            values = [
                f"{ticks.get(point.x, f'{point.x:g}')}: {point.label or f'{point.y:.3g}'}"
                for point in series.points
            ]
            parts.append(f"{series.name} ({spec.x_label}) {', '.join(values)}")
    return ". ".join([f"{spec.title}{' (practice)' if spec.practice else ''}", *parts, *spec.notes])


def picture_size(data: bytes) -> tuple[float, float]:
    """Width and height of a PNG or JPEG in points, at 96 pixels to the inch; a square for what cannot be read."""
    from io import BytesIO

    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(BytesIO(data)) as picture:
            return max(1.0, picture.width * 0.75), max(1.0, picture.height * 0.75)
    except (OSError, UnidentifiedImageError, ValueError):
        return 200.0, 200.0


LONGEST = 100
"""Characters of the longest title that two lines of a slide hold."""
SHORTEST = 4
"""Words of the shortest sentence that is a message."""
_SENTENCE = re.compile(r"(.+?[.!?…])(?=\s+[^a-z\s]|\s*\Z)", re.DOTALL)


def first_sentence(blocks: Sequence[Block]) -> str:
    """The first sentence of an answer, when its first block is text and the sentence has the length of a title.

    "No." and "Yes, it is." answer a question that the page does not show: no message.
    """
    first = blocks[0] if blocks else None
    if not isinstance(first, Paragraph) or first.bullet or first.quoted:
        return ""
    text = "".join(run.text for run in itertools.takewhile(lambda run: not run.tex, first.runs))
    found = _SENTENCE.match(text)
    if found is None and text != first.text:
        return ""  # the first sentence has a formula in it
    sentence = one_line(found[1] if found else text)
    return (
        sentence.removesuffix(".") if len(sentence.split()) >= SHORTEST and len(sentence) <= LONGEST else ""
    )


def without_first_sentence(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """The answer without the sentence that became the title."""
    first = blocks[0]
    assert isinstance(first, Paragraph)  # noqa: S101 - `first_sentence` found it
    found = _SENTENCE.match(
        "".join(run.text for run in itertools.takewhile(lambda run: not run.tex, first.runs))
    )
    left = found.end(1) if found else len(first.text)
    runs: list[Run] = []
    for run in first.runs:
        kept, left = run.text[max(0, left) :], left - len(run.text)
        if kept:
            runs.append(replace(run, text=kept if runs else kept.lstrip()))
    rest = (replace(first, runs=tuple(runs)),) if any(run.text.strip() for run in runs) else ()
    return (*rest, *blocks[1:])
