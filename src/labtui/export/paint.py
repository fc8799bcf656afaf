"""Laid pages as marks to draw: lines of text, rectangles, pictures. What the PDF is made of, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from labtui.export import style
from labtui.export.deck_model import Run
from labtui.export.layout import (
    BULLET_GAP,
    Box,
    ChartItem,
    CodeItem,
    Geometry,
    Item,
    LaidDeck,
    LaidParagraph,
    Line,
    Page,
    PanelItem,
    TableItem,
    TextItem,
)
from labtui.export.table_layout import PAD_X, PAD_Y

Mark = dict[str, Any]
ASCENT = 1.164
"""Height of a line box in units of its size: what DejaVu's ascender and descender take."""

TONES = {
    "ink": style.INK,
    "quiet": style.QUIET,
    "accent": style.ACCENT,
    "warn": style.PRACTICE,
    "keyword": "#0b5a8f",
    "string": "#1b7048",
    "comment": "#6b7780",
    "number": "#9a3f00",
    "name": "#7a3e72",
}
PANELS = {
    "missing": ("#fdf6e7", style.SERIES[4]),
    "empty": (style.PANEL, style.FAINT),
    "quote": (style.PANEL, style.RULE),
    "code": (style.PANEL, ""),
}


def front_marks(laid: LaidDeck) -> Iterable[Mark]:
    """The title page."""
    geometry, front = laid.geometry, laid.front
    x, y = geometry.width * 0.09, geometry.height * 0.3
    yield rect(Box(0, 0, geometry.width * 0.018, geometry.height), fill=style.ACCENT)
    for line in front.title_lines:
        yield text_line(
            line, x, y, geometry.width - x - 20, front.title_size, heading=line is front.title_lines[0]
        )
        y += front.title_size * 1.2
    y += 12
    for line in front.subtitle:
        yield text_line(line, x, y, geometry.width - x - 20, 17)
        y += 23
    y += 26
    for line in front.lines:
        yield text_line(line, x, y, geometry.width - x - 20, 14)
        y += 21
    if laid.deck.practice:
        yield from practice_mark(x, y + 18, left=True)


def page_marks(page: Page, laid: LaidDeck, pictures: dict[int, str]) -> Iterable[Mark]:
    """Everything on a page; `pictures` names the file of each chart item by its identity."""
    geometry = laid.geometry
    kicker = (Run(page.kicker, bold=True, tone="accent"),)
    yield text_line(kicker, geometry.kicker.x, geometry.kicker.y, geometry.kicker.w, 11)
    y = geometry.title.y
    for at, line in enumerate(page.title_lines):
        yield text_line(
            line,
            geometry.title.x,
            y,
            geometry.title.w + 20,
            page.title_size,
            heading=at == 0 and page.part == 1,
        )
        y += page.title_size * 1.25
    if page.slide.practice:
        yield from practice_mark(geometry.body.right, practice_top(geometry))
    yield from _footer(page, laid)
    for item in page.items:
        yield from item_marks(item, pictures)


def practice_top(geometry: Geometry) -> float:
    """Where the practice mark begins on a page: clear of a title that runs below it."""
    return max(1.0, geometry.kicker.y - 10)


def practice_mark(right: float, y: float, *, left: bool = False) -> Iterable[Mark]:
    """The practice mark: words in a box, ending at `right` (or beginning there)."""
    width = 272.0
    x = right if left else right - width
    yield rect(Box(x, y, width, 19), fill=style.PRACTICE_PAPER, stroke=style.PRACTICE, radius=3)
    yield text_line(
        (Run(style.PRACTICE_MARK, bold=True, tone="warn"),), x, y + 4.2, width, 9.5, align="center"
    )


def _footer(page: Page, laid: LaidDeck) -> Iterable[Mark]:
    box = laid.geometry.footer
    yield rect(Box(box.x, box.y - 7, box.w, 0.8), fill=style.RULE)
    yield text_line((Run(shortened(laid.deck.footer, 110), tone="quiet"),), box.x, box.y, box.w - 60, 9.5)
    yield text_line((Run(str(page.number), tone="quiet"),), box.right - 60, box.y, 60, 9.5, align="right")


def shortened(text: str, most: int) -> str:
    """A text of at most so many characters; a footer says it all on the title page."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


# --------------------------------------------------------------------------- items


def item_marks(item: Item, pictures: dict[int, str]) -> Iterable[Mark]:
    """One item."""
    if isinstance(item, PanelItem):
        yield from _panel(item)
    elif isinstance(item, TextItem):
        yield from _text(item)
    elif isinstance(item, CodeItem):
        yield from _code(item)
    elif isinstance(item, TableItem):
        yield from _table(item)
    else:
        yield from _chart(item, pictures)


def _panel(item: PanelItem) -> Iterable[Mark]:
    fill, edge = PANELS[item.kind]
    if item.kind == "empty":
        yield rect(item.box, fill=fill, stroke=edge, dashed=True, radius=4)
        return
    yield rect(item.box, fill=fill, radius=3)
    if edge:
        yield rect(Box(item.box.x, item.box.y, 3.5, item.box.h), fill=edge)


def _text(item: TextItem) -> Iterable[Mark]:
    y = item.box.y
    for paragraph in item.paragraphs:
        y += paragraph.before
        if paragraph.bullet:
            yield _bullet(item, paragraph, y)
        for line in paragraph.lines:
            x = item.box.x + paragraph.indent
            yield text_line(
                line,
                x,
                y + _drop(paragraph.size, paragraph.leading),
                item.box.w - paragraph.indent,
                paragraph.size,
            )
            y += paragraph.leading


def _bullet(item: TextItem, paragraph: LaidParagraph, y: float) -> Mark:
    bold = paragraph.source.style == "question"
    run = Run(paragraph.bullet, bold=bold, tone="ink" if bold else "quiet")
    drop = _drop(paragraph.size, paragraph.leading)
    room = paragraph.indent - BULLET_GAP * paragraph.size
    return text_line((run,), item.box.x, y + drop, room, paragraph.size, align="right")


def _drop(size: float, leading: float) -> float:
    """How far below a line's top its letters' box begins."""
    return max(0.0, (leading - size * ASCENT) / 2)


def _code(item: CodeItem) -> Iterable[Mark]:
    for at, line in enumerate(item.lines):
        y = item.box.y + at * item.leading
        tint = {"+": style.ADDED_PAPER, "-": style.REMOVED_PAPER}.get(line.change)
        if tint:
            yield rect(Box(item.box.x - 4, y, item.box.w + 8, item.leading), fill=tint)
        drop = y + _drop(item.size, item.leading)
        if item.gutter:
            sign = line.change if line.change in ("+", "-") else ""
            number = f"{line.number} {sign or ' '}"
            yield text_line(
                (Run(number, mono=True, tone="quiet"),),
                item.box.x,
                drop,
                item.gutter - 6,
                item.size,
                align="right",
            )
        if line.runs:
            yield text_line(
                line.runs, item.box.x + item.gutter, drop, item.box.w - item.gutter + 8, item.size
            )


def _table(item: TableItem) -> Iterable[Mark]:
    y = item.box.y
    for number, (row, height) in enumerate(zip(item.cells, item.heights, strict=True)):
        if number == 0:
            yield rect(Box(item.box.x, y, item.box.w, height), fill="#e8eef3")
        x = item.box.x
        for at, (cell, width) in enumerate(zip(row, item.widths, strict=True)):
            for place, line in enumerate(cell):
                run = Run(line, bold=number == 0)
                top = y + PAD_Y + place * item.leading + _drop(item.size, item.leading)
                look = "right" if item.numeric[at] else "left"
                yield text_line((run,), x + PAD_X, top, width - 2 * PAD_X, item.size, align=look)
            x += width
        y += height
        yield rect(Box(item.box.x, y - 0.4, item.box.w, 0.8), fill=style.RULE)


def _chart(item: ChartItem, pictures: dict[int, str]) -> Iterable[Mark]:
    yield from _text(item.title)
    yield {
        "kind": "picture",
        "file": pictures[id(item)],
        "alt": item.spec.title,
        "x": item.box.x,
        "y": item.box.y,
        "w": item.box.w,
        "h": item.box.h,
    }
    if item.notes is not None:
        yield from _text(item.notes)


# --------------------------------------------------------------------------- marks


def text_line(
    line: Line, x: float, y: float, w: float, size: float, *, align: str = "left", heading: bool = False
) -> Mark:
    """A line of text whose top left corner is at (x, y)."""
    runs = [
        {
            "text": run.text.replace("\t", " "),
            "bold": run.bold,
            "italic": run.italic,
            "mono": run.mono,
            "strike": run.strike,
            "colour": TONES[run.tone],
        }
        for run in line
    ]
    mark: Mark = {"kind": "line", "x": x, "y": y, "w": w, "size": size, "align": align, "runs": runs}
    return mark | {"heading": True} if heading else mark


def rect(box: Box, *, fill: str = "", stroke: str = "", dashed: bool = False, radius: float = 0.0) -> Mark:
    """A rectangle."""
    return {
        "kind": "rect",
        "x": box.x,
        "y": box.y,
        "w": box.w,
        "h": box.h,
        "fill": fill or None,
        "stroke": stroke or None,
        "dashed": dashed,
        "radius": radius,
    }
