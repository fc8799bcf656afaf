"""From a deck to pages: every piece of text measured, broken into lines and given its place, in points.

Both formats draw these pages, so neither can cut off or overlap what the other shows. Geometry only; no file format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from labtui.core.charts import ChartSpec
from labtui.export import measure
from labtui.export.deck_model import Change, Deck, Paragraph, Run, Slide

BULLET_GAP = 0.6
"""Room between a bullet or a number and its text, in sizes of the text."""

Line = tuple[Run, ...]
PanelKind = Literal["missing", "empty", "quote", "code"]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in points; `y` grows downwards."""

    x: float
    y: float
    w: float
    h: float

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.y + self.h

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.x + self.w


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Where things stand on a page, in points. `text_width` is the longest comfortable line."""

    width: float = 960
    height: float = 540
    title: Box = Box(48, 46, 864, 46)
    kicker: Box = Box(48, 27, 600, 17)
    body: Box = Box(48, 104, 864, 386)
    footer: Box = Box(48, 507, 864, 16)
    text_width: float = 790


# --------------------------------------------------------------------------- what stands on a page


@dataclass(frozen=True, slots=True)
class LaidParagraph:
    """A paragraph, or a part of it: its lines, sizes in points, and whether its bullet stands here."""

    lines: tuple[Line, ...]
    size: float
    leading: float
    before: float
    indent: float
    bullet: str
    source: Paragraph


@dataclass(frozen=True, slots=True)
class TextItem:
    """Paragraphs in a box."""

    box: Box
    paragraphs: tuple[LaidParagraph, ...]


@dataclass(frozen=True, slots=True)
class LaidCodeLine:
    """A line of code as it is drawn; a line that was broken has no number from its second part on."""

    runs: Line
    number: str
    change: Change
    size: float


@dataclass(frozen=True, slots=True)
class CodeItem:
    """Lines of code in a box; `gutter` is the width left for line numbers."""

    box: Box
    lines: tuple[LaidCodeLine, ...]
    size: float
    leading: float
    gutter: float


@dataclass(frozen=True, slots=True)
class TableItem:
    """A table: widths of columns, heights of rows, each cell's lines; the first row holds the headings."""

    box: Box
    widths: tuple[float, ...]
    heights: tuple[float, ...]
    cells: tuple[tuple[tuple[str, ...], ...], ...]
    numeric: tuple[bool, ...]
    size: float
    leading: float


@dataclass(frozen=True, slots=True)
class ChartItem:
    """A chart in its box, its title over it and its notes under it."""

    box: Box
    spec: ChartSpec
    title: TextItem
    notes: TextItem | None


@dataclass(frozen=True, slots=True)
class PanelItem:
    """A coloured ground behind what follows."""

    box: Box
    kind: PanelKind


Item = TextItem | CodeItem | TableItem | ChartItem | PanelItem


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page: title, the small line over it, and what stands below. `part` of `parts` pages of its slide."""

    slide: Slide
    title: Line
    title_lines: tuple[Line, ...]
    title_size: float
    kicker: str
    items: tuple[Item, ...]
    number: int
    part: int = 1
    parts: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TitlePage:
    """The first page."""

    title_lines: tuple[Line, ...]
    title_size: float
    subtitle: tuple[Line, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidDeck:
    """All pages of a deck."""

    deck: Deck
    geometry: Geometry
    front: TitlePage
    pages: tuple[Page, ...]


# --------------------------------------------------------------------------- pages


def lay_out(deck: Deck, geometry: Geometry | None = None) -> LaidDeck:
    """Give everything its place."""
    geometry = geometry or Geometry()
    pages: list[Page] = []
    for slide in _joined(deck.slides, geometry):
        bodies = _bodies(slide, geometry)
        title = (Run(slide.title, bold=True),)
        lines, size = _title(title, geometry.title)
        for part, items in enumerate(bodies, 1):
            pages.append(
                Page(
                    slide=slide,
                    title=title,
                    title_lines=lines,
                    title_size=size,
                    kicker=_kicker(slide, part, len(bodies)),
                    items=items,
                    number=len(pages) + 2,
                    part=part,
                    parts=len(bodies),
                )
            )
    return LaidDeck(deck=deck, geometry=geometry, front=_front(deck, geometry), pages=tuple(pages))


def _joined(slides: Sequence[Slide], geometry: Geometry) -> list[Slide]:
    """The slides, with those that join the one before put there where one page holds both at full size."""
    from labtui.export.flow import fit_one_page

    joined: list[Slide] = []
    for slide in slides:
        last = joined[-1] if joined else None
        if slide.joins and last is not None and last.kicker == slide.kicker and not last.charts:
            blocks = (*last.blocks, *slide.blocks)
            if fit_one_page(blocks, geometry):
                joined[-1] = replace(last, blocks=blocks, practice=last.practice or slide.practice)
                continue
        joined.append(slide)
    return joined


def _kicker(slide: Slide, part: int, parts: int) -> str:
    where = f"{part} of {parts}" if parts > 1 else ""
    return " · ".join(filter(None, (slide.kicker, where)))


def _bodies(slide: Slide, geometry: Geometry) -> list[tuple[Item, ...]]:
    from labtui.export.chart_layout import chart_pages
    from labtui.export.flow import flow_pages

    bodies = flow_pages(slide.blocks, geometry) if slide.blocks else []
    bodies += chart_pages(slide.charts, geometry)
    return bodies or [()]


def _title(title: Line, box: Box) -> tuple[tuple[Line, ...], float]:
    """The title's lines and size: one line where it can be, two smaller ones at most."""
    for size, most in ((26.0, 1), (23.0, 1), (20.0, 1), (17.0, 2), (14.0, 2), (11.0, 3)):
        lines = measure.wrap(title, size, box.w)
        if len(lines) <= most and len(lines) * size * 1.25 <= box.h:
            return lines, size
    size = 11.0
    kept = measure.wrap(title, size, box.w)[:3]
    return (*kept[:-1], (*kept[-1], Run(" …", bold=True))), size


def _front(deck: Deck, geometry: Geometry) -> TitlePage:
    room = geometry.width * 0.78
    title = (Run(deck.title, bold=True),)
    for size in (38.0, 32.0, 27.0, 23.0, 19.0):
        lines = measure.wrap(title, size, room)
        if len(lines) * size * 1.2 <= geometry.height * 0.27:
            break
    return TitlePage(
        title_lines=lines,
        title_size=size,
        subtitle=measure.wrap((Run(deck.subtitle, tone="quiet"),), 17, room),
        lines=tuple(line for text in deck.lines for line in measure.wrap((Run(text),), 14, room)),
    )
