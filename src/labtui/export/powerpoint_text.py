"""Words and tables of a PowerPoint slide: runs, paragraphs, cells, and how many lines they take."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from PIL import Image, ImageFont, UnidentifiedImageError
from pptx.enum.dml import MSO_THEME_COLOR as THEME
from pptx.enum.text import MSO_ANCHOR, PP_ALIGN
from pptx.oxml import parse_xml
from pptx.oxml.ns import nsdecls
from pptx.util import Emu, Inches, Pt

from labtui.export import style
from labtui.export.formulas import formula_text
from labtui.export.hand_in import (
    Paragraph,
    Run,
    Table,
)

_TONES: dict[str, Any] = {
    "ink": THEME.TEXT_1, "quiet": THEME.TEXT_2, "accent": THEME.ACCENT_1, "warn": THEME.ACCENT_6,
    "keyword": THEME.ACCENT_1,
    "string": THEME.ACCENT_3, "comment": THEME.TEXT_2, "number": THEME.ACCENT_2, "name": THEME.ACCENT_4,
}  # fmt: skip


@functools.lru_cache(maxsize=8)
def _face(size: int) -> Any:
    return ImageFont.truetype(str(style.font_files()[-1]), size)


def line_count(text: str, width: float, size: float) -> int:
    """Lines that a text takes in so many inches, at words."""
    face, room, lines, used = _face(int(size)), width * 72, 1, 0.0
    for word in text.split(" "):
        wide = face.getlength(word + " ")
        if used and used + wide > room:
            lines, used = lines + 1, 0.0
        lines += int(wide // room)
        used += wide % room
    return lines


def picture_inches(data: bytes) -> tuple[float, float]:
    """Size at 96 pixels to the inch; a square for what cannot be read."""
    try:
        with Image.open(io.BytesIO(data)) as picture:
            return max(1, picture.width) / 96, max(1, picture.height) / 96
    except (OSError, UnidentifiedImageError, ValueError):
        return 2.0, 2.0


def plain_words(text: str, tone: Any, *, bold: bool = False) -> Paragraph:
    return Paragraph((Run(text, tone=tone, bold=bold),))


def with_bullet(paragraph: Paragraph, bullet: str) -> Paragraph:
    return Paragraph(paragraph.runs, paragraph.style, max(1, paragraph.level), bullet, paragraph.quoted)


def _shown(run: Run) -> str:
    return formula_text(run.text) if run.tex else run.text


def words_height(paragraph: Paragraph, width: float, size: float) -> float:
    text = "".join(map(_shown, paragraph.runs))
    size = 14 if paragraph.style == "note" else size
    lines = sum(line_count(part, width - 0.3 * paragraph.level, size * 1.02) for part in text.split("\n"))
    return (lines * size * 1.2 + 6) / 72


def pieces(paragraph: Paragraph, width: float, room: float) -> Iterable[Paragraph]:
    """A paragraph higher than a slide in pieces at words."""
    if words_height(paragraph, width, 18) <= room:
        yield paragraph
        return
    words = "".join(map(_shown, paragraph.runs)).split(" ")
    while words:
        count = len(words)
        while count > 1 and words_height(plain_words(" ".join(words[:count]), "ink"), width, 18) > room:
            count = count * 3 // 4
        yield Paragraph((Run(" ".join(words[:count])),), paragraph.style, paragraph.level)
        words = words[count:]


def fitting(
    paragraphs: Sequence[Paragraph], width: float, size: float, room: Callable[[bool], float], whole: float
) -> Iterable[list[Paragraph]]:
    part: list[Paragraph] = []
    used, first = 0.0, True
    for each in (piece for paragraph in paragraphs for piece in pieces(paragraph, width, whole)):
        height = words_height(each, width, size)
        if part and used + height > room(first):
            yield part
            part, used, first = [], 0.0, False
        part.append(each)
        used += height
    if part:
        yield part


def fill(target: Any, paragraph: Paragraph, size: float) -> None:
    target.space_after = Pt(4)
    if paragraph.level or paragraph.quoted:
        indent = int(Inches(0.3)) * max(1, paragraph.level)
        properties = target._p.get_or_add_pPr()
        properties.set("marL", str(indent))
        properties.set("indent", str(-int(Inches(0.3)) if paragraph.bullet else 0))
    if paragraph.bullet:
        add_run(target, Run(f"{paragraph.bullet}\t"), size)
        target._p.get_or_add_pPr().append(_tab_stop(target))
    for run in paragraph.runs:
        tone = "quiet" if paragraph.style == "note" else run.tone
        bold = run.bold or paragraph.style in ("heading", "question")
        add_run(target, Run(_shown(run), bold, run.italic, run.mono, run.strike, tone), size)


def _tab_stop(target: Any) -> Any:
    margin = target._p.get_or_add_pPr().get("marL", str(int(Inches(0.3))))
    return parse_xml(f'<a:tabLst {nsdecls("a")}><a:tab pos="{margin}" algn="l"/></a:tabLst>')


def add_run(paragraph: Any, run: Run, size: float) -> None:
    added = paragraph.add_run()
    added.text = run.text.replace("\n", "\v")
    added.font.size, added.font.bold, added.font.italic = (
        Pt(size * (0.86 if run.mono and size > 12 else 1)),
        run.bold,
        run.italic,
    )
    added.font.color.theme_color = _TONES[run.tone]
    if run.mono:
        added.font.name = "Consolas"
    if run.strike:
        added.font._element.set("strike", "sngStrike")


def row_lines(row: Sequence[str], widths: Sequence[float], size: float) -> float:
    """The height of a table's row, in rows of one line."""
    if len(row) == 1:
        return 1.0
    lines = max(line_count(text, width - 0.16, size) for text, width in zip(row, widths, strict=True))
    return 1.0 if lines == 1 else 0.8 * lines


def set_cell(
    cell: Any, text: str, size: float, *, colour: Any = THEME.TEXT_1, bold: bool = False, right: bool = False
) -> None:
    cell.margin_left = cell.margin_right = Emu(73152)
    cell.margin_top = cell.margin_bottom = Emu(18288)
    cell.vertical_anchor = MSO_ANCHOR.MIDDLE
    paragraph = cell.text_frame.paragraphs[0]
    run = paragraph.add_run()
    run.text, run.font.size, run.font.bold = text, Pt(size), bold
    run.font.color.theme_color = colour
    paragraph.alignment = PP_ALIGN.RIGHT if right else PP_ALIGN.LEFT


def column_widths(block: Table, room: float, size: float) -> list[float]:
    """Each column as wide as its widest cell; wide ones are narrowed where the table is wider than the slide."""
    face = _face(int(size))
    lines = [block.headings, *(row for row in block.rows if len(row) > 1)]
    wanted = [
        max(face.getlength(line[at]) for line in lines) / 72 * 1.04 + 0.2 for at in range(len(block.headings))
    ]
    while sum(wanted) > room + 0.01:
        widest = max(range(len(wanted)), key=lambda at: wanted[at])
        wanted[widest] = max(0.5, wanted[widest] - max(0.05, (sum(wanted) - room) / 4))
    numbers = [at for at, number in enumerate(block.numeric) if number]
    spare = (room - sum(wanted)) / max(1, len(numbers)) if len(wanted) > 3 else 0.0
    return [width + spare * (at in numbers) for at, width in enumerate(wanted)]
