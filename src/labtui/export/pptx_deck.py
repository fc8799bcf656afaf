"""The deck as PowerPoint: titles in placeholders, text in text boxes, native tables and charts, all editable."""

from __future__ import annotations

import copy
import io
from collections.abc import Sequence
from datetime import datetime, time
from typing import Any

from labtui.export import measure, style
from labtui.export.charts import Progress, quiet
from labtui.export.deck_model import Run
from labtui.export.layout import (
    Box,
    ChartItem,
    CodeItem,
    LaidDeck,
    LaidParagraph,
    Line,
    Page,
    PanelItem,
    TableItem,
    TextItem,
)
from labtui.export.paint import PANELS, practice_top, shortened
from labtui.export.pptx_charts import chart_data, dress_chart
from labtui.export.pptx_parts import add_table, rectangle, set_paragraph, write_line
from labtui.export.pptx_theme import EMU, Look, put

_FOOTER = 9.5


def pptx_bytes(
    laid: LaidDeck, look: Look, *, today: datetime | None = None, progress: Progress = quiet
) -> bytes:
    """Fill the presentation with the pages."""
    _front(laid, look)
    for at, page in enumerate(laid.pages):
        progress(f"deck.pptx: {page.slide.title}", at / len(laid.pages))
        _page(page, laid, look)
    core = look.presentation.core_properties
    core.title, core.author, core.subject = laid.deck.title, laid.deck.lines[0], laid.deck.subtitle
    moment = today or datetime.combine(datetime.now().date(), time())
    core.created = core.modified = moment
    stream = io.BytesIO()
    look.presentation.save(stream)
    return stream.getvalue()


def _front(laid: LaidDeck, look: Look) -> None:
    from pptx.util import Pt

    slide = look.presentation.slides.add_slide(look.front)
    deck, front = laid.deck, laid.front
    title = slide.shapes.title
    title.text_frame.text = deck.title
    if look.ours:
        title.text_frame.paragraphs[0].runs[0].font.size = Pt(front.title_size)
    others = [
        each for each in slide.placeholders if each.placeholder_format.idx != title.placeholder_format.idx
    ]
    lines = [deck.subtitle, *deck.lines]
    if others:
        frame = others[0].text_frame
        frame.text = lines[0]
        for text in lines[1:]:
            frame.add_paragraph().text = text
        for at, paragraph in enumerate(frame.paragraphs):
            paragraph.runs[0].font.size = Pt(17 if at == 0 else 14)
            paragraph.space_before = Pt(26 if at == 1 else 4)
        for rest in others[1:]:
            rest._element.getparent().remove(rest._element)
    if deck.practice:
        g = laid.geometry
        _practice(slide, Box(g.width * 0.09 if look.ours else g.body.x, g.height * 0.9, 272, 19))


def _page(page: Page, laid: LaidDeck, look: Look) -> None:
    from pptx.util import Pt

    slide = look.presentation.slides.add_slide(look.content)
    for holder in list(slide.placeholders):
        if holder.placeholder_format.type.name not in ("TITLE", "CENTER_TITLE"):
            holder._element.getparent().remove(holder._element)
    title = slide.shapes.title
    title.text_frame.text = page.slide.title
    title.text_frame.paragraphs[0].runs[0].font.size = Pt(page.title_size)
    if page.kicker:
        kicker = Run(page.kicker, bold=True, tone="accent")
        text_box(slide, laid.geometry.kicker, [((kicker,), 11.0)], ours=look.ours, name="kicker")
    if page.slide.practice:
        box = laid.geometry.body
        _practice(slide, Box(box.right - 272, practice_top(laid.geometry), 272, 19))
    _footers(slide, look, laid.deck.footer)
    for item in page.items:
        _item(slide, item, look)


def _practice(slide: Any, box: Box) -> None:

    shape = rectangle(slide, box, fill=style.PRACTICE_PAPER, line=style.PRACTICE)
    shape.name = "practice mark"
    frame = shape.text_frame
    frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
    write_line(frame.paragraphs[0], (Run(style.PRACTICE_MARK, bold=True, tone="warn"),), 9.5, ours=True)
    from pptx.enum.text import MSO_ANCHOR, PP_ALIGN

    frame.vertical_anchor = MSO_ANCHOR.MIDDLE
    frame.paragraphs[0].alignment = PP_ALIGN.CENTER


def _footers(slide: Any, look: Look, text: str) -> None:
    """Footer and slide number as the layout has them."""
    for holder in look.content.placeholders:
        kind = holder.placeholder_format.type.name
        if kind not in ("FOOTER", "SLIDE_NUMBER"):
            continue
        element = copy.deepcopy(holder._element)
        slide.shapes._spTree.append(element)
        if kind == "FOOTER":
            _footer_text(slide.shapes[-1], text, (holder.width or 0) / EMU - 16)


def _footer_text(shape: Any, text: str, room: float) -> None:
    """The footer's words in its placeholder, shortened to one line; the title page has them all."""
    from pptx.util import Pt

    shown = shortened(text, 110)
    while len(shown) > 12 and measure.width(shown, _FOOTER) > room:
        shown = f"{shown[:-2].rstrip()}…"
    shape.text_frame.text = shown
    font = shape.text_frame.paragraphs[0].runs[0].font
    font.size, font.name = Pt(_FOOTER), "+mn-lt"


# --------------------------------------------------------------------------- items


def _item(slide: Any, item: Any, look: Look) -> None:
    if isinstance(item, PanelItem):
        _panel(slide, item)
    elif isinstance(item, TextItem):
        _text(slide, item, look)
    elif isinstance(item, CodeItem):
        _code(slide, item)
    elif isinstance(item, TableItem):
        add_table(slide, item, ours=look.ours)
    elif isinstance(item, ChartItem):
        _chart(slide, item, look)


def _panel(slide: Any, item: PanelItem) -> None:
    fill, edge = PANELS[item.kind]
    box = rectangle(
        slide, item.box, fill=fill, line=edge if item.kind == "empty" else "", dashed=item.kind == "empty"
    )
    box.name = f"{item.kind} panel"
    if edge and item.kind != "empty":
        rectangle(slide, Box(item.box.x, item.box.y, 3.5, item.box.h), fill=edge).name = "edge"


def _text(slide: Any, item: TextItem, look: Look) -> None:
    shape = slide.shapes.add_textbox(0, 0, 1, 1)
    put(shape, item.box)
    shape.name = "text"
    frame = _bare_frame(shape, wrap=True)
    for at, laid in enumerate(item.paragraphs):
        paragraph = frame.paragraphs[0] if at == 0 else frame.add_paragraph()
        _paragraph(paragraph, laid, look)


def _paragraph(paragraph: Any, laid: LaidParagraph, look: Look) -> None:
    runs = tuple(run for line in laid.lines for run in line)
    write_line(paragraph, runs, laid.size, ours=look.ours)
    set_paragraph(paragraph, laid)


def text_box(
    slide: Any, box: Box, lines: Sequence[tuple[Line, float]], *, ours: bool, name: str = "text"
) -> Any:
    """A text box with a paragraph per line, each in its size."""
    shape = slide.shapes.add_textbox(0, 0, 1, 1)
    put(shape, box)
    shape.name = name
    frame = _bare_frame(shape, wrap=True)
    for at, (line, size) in enumerate(lines):
        write_line(frame.paragraphs[0] if at == 0 else frame.add_paragraph(), line, size, ours=ours)
    return shape


def _bare_frame(shape: Any, *, wrap: bool) -> Any:
    from pptx.enum.text import MSO_AUTO_SIZE

    frame = shape.text_frame
    frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
    frame.word_wrap = wrap
    frame.auto_size = MSO_AUTO_SIZE.NONE
    return frame


def _code(slide: Any, item: CodeItem) -> None:
    """Code in one text box, its line numbers in another beside it, changed lines on a tinted ground."""
    from pptx.enum.text import PP_ALIGN

    for at, line in enumerate(item.lines):
        tint = {"+": style.ADDED_PAPER, "-": style.REMOVED_PAPER}.get(line.change)
        if tint:
            box = Box(item.box.x - 4, item.box.y + at * item.leading, item.box.w + 8, item.leading)
            rectangle(slide, box, fill=tint).name = "changed line"

    if item.gutter:
        box = Box(item.box.x, item.box.y, item.gutter - 6, item.box.h)
        numbers = [
            (
                Run(
                    f"{line.number} {line.change if line.change in ('+', '-') else ' '}",
                    mono=True,
                    tone="quiet",
                ),
            )
            for line in item.lines
        ]
        for paragraph in _code_box(slide, box, numbers, item, "line numbers"):
            paragraph.alignment = PP_ALIGN.RIGHT
    box = Box(item.box.x + item.gutter, item.box.y, item.box.w - item.gutter + 8, item.box.h)
    _code_box(slide, box, [line.runs for line in item.lines], item, "code")


def _code_box(slide: Any, box: Box, lines: Sequence[Line], item: CodeItem, name: str) -> Any:
    from pptx.util import Pt

    shape = slide.shapes.add_textbox(0, 0, 1, 1)
    put(shape, box)
    shape.name = name
    frame = _bare_frame(shape, wrap=False)
    for at, line in enumerate(lines):
        paragraph = frame.paragraphs[0] if at == 0 else frame.add_paragraph()
        paragraph.line_spacing = Pt(round(item.leading, 1))
        write_line(paragraph, line, item.size, ours=True)
    return frame.paragraphs


def _chart(slide: Any, item: ChartItem, look: Look) -> None:
    _text(slide, item.title, look)
    kind, data = chart_data(item.spec)
    box = item.box
    frame = slide.shapes.add_chart(
        kind, round(box.x * EMU), round(box.y * EMU), round(box.w * EMU), round(box.h * EMU), data
    )
    frame.name = f"chart {item.spec.key}"
    frame._element.nvGraphicFramePr.cNvPr.set(
        "descr", f"{item.spec.title}. {' '.join(item.spec.notes)}".strip()
    )
    dress_chart(frame.chart, item.spec, width=box.w, height=box.h)
    if item.notes is not None:
        _text(slide, item.notes, look)
