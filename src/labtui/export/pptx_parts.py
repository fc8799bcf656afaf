"""Small parts of PowerPoint slides: rectangles, runs of text, paragraphs with bullets, native tables."""

from __future__ import annotations

import re
from typing import Any

from labtui.export import style
from labtui.export.layout import Box, LaidParagraph, Line, TableItem
from labtui.export.paint import TONES
from labtui.export.pptx_theme import EMU, MONO, put
from labtui.export.table_layout import PAD_X, PAD_Y

_A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_HEADING = "#e8eef3"


def rectangle(slide: Any, box: Box, *, fill: str, line: str = "", dashed: bool = False) -> Any:
    """A flat rectangle without shadow."""
    from pptx.enum.dml import MSO_LINE
    from pptx.enum.shapes import MSO_SHAPE
    from pptx.util import Pt

    shape = slide.shapes.add_shape(MSO_SHAPE.RECTANGLE, 0, 0, 1, 1)
    put(shape, box)
    if (look := shape._element.find(f"{_P}style")) is not None:  # the theme's shadow and text colour
        shape._element.remove(look)
    fill_of(shape.fill, fill)
    if line:
        shape.line.color.rgb = rgb(line)
        shape.line.width = Pt(1)
        if dashed:
            shape.line.dash_style = MSO_LINE.DASH
    else:
        shape.line.fill.background()
    return shape


def fill_of(fill: Any, colour: str) -> None:
    """A solid fill."""
    fill.solid()
    fill.fore_color.rgb = rgb(colour)


def rgb(colour: str) -> Any:
    """PowerPoint's colour of ``#rrggbb``."""
    from pptx.dml.color import RGBColor

    return RGBColor.from_string(colour.lstrip("#").upper())


def write_line(paragraph: Any, line: Line, size: float, *, ours: bool) -> None:
    """The runs of a line. In a template (`ours` false) plain text keeps the template's own colour."""
    from pptx.util import Pt

    for run in line:
        part = paragraph.add_run()
        part.text = run.text.replace("\t", " ").replace("\n", " ")
        font = part.font
        font.size = Pt(round(size, 1))
        font.bold, font.italic = run.bold or None, run.italic or None
        if run.mono:
            font.name = MONO
        if ours or run.tone != "ink":
            font.color.rgb = rgb(TONES[run.tone])
        if run.strike:
            part._r.get_or_add_rPr().set("strike", "sngStrike")


def set_paragraph(paragraph: Any, laid: LaidParagraph) -> None:
    """Line spacing, space before, indent and bullet, as they were measured."""
    from pptx.oxml import parse_xml
    from pptx.util import Pt

    paragraph.line_spacing = Pt(round(laid.leading, 1))
    paragraph.space_before = Pt(round(laid.before, 1))
    look = paragraph._p.get_or_add_pPr()
    indent = round(laid.indent * EMU)
    hang = round(min(laid.indent, 20.0 if not laid.bullet[:1].isdigit() else laid.indent) * EMU)
    look.set("marL", str(indent))
    look.set("indent", str(-hang if laid.bullet else 0))
    number = re.fullmatch(r"(\d{1,4})\.", laid.bullet)
    if number and 1 <= int(number[1]) <= 32767:
        look.append(parse_xml(f'<a:buFont {_A} typeface="+mj-lt"/>'))
        look.append(parse_xml(f'<a:buAutoNum {_A} type="arabicPeriod" startAt="{int(number[1])}"/>'))
    elif laid.bullet:
        look.append(parse_xml(f'<a:buFont {_A} typeface="Arial"/>'))
        look.append(
            parse_xml(f'<a:buChar {_A} char="{"•" if laid.bullet[0].isdigit() else laid.bullet[0]}"/>')
        )
    else:
        look.append(parse_xml(f"<a:buNone {_A}/>"))


# --------------------------------------------------------------------------- tables


def add_table(slide: Any, item: TableItem, *, ours: bool) -> None:
    """A native table with the measured widths and heights; a template's own table style stays."""
    from pptx.util import Pt

    rows, columns = len(item.heights), len(item.widths)
    box = item.box
    frame = slide.shapes.add_table(
        rows, columns, round(box.x * EMU), round(box.y * EMU), round(box.w * EMU), round(box.h * EMU)
    )
    frame.name = "table"
    table = frame.table
    table.horz_banding = False
    for at, width in enumerate(item.widths):
        table.columns[at].width = round(width * EMU)
    for at, height in enumerate(item.heights):
        table.rows[at].height = round(height * EMU)
    for row in range(rows):
        for column in range(columns):
            cell = table.cell(row, column)
            cell.margin_left = cell.margin_right = Pt(PAD_X)
            cell.margin_top = cell.margin_bottom = Pt(PAD_Y - 1)
            _cell(cell, item, row, column, ours=ours)


def _cell(cell: Any, item: TableItem, row: int, column: int, *, ours: bool) -> None:
    from pptx.enum.text import MSO_ANCHOR, PP_ALIGN
    from pptx.util import Pt

    frame = cell.text_frame
    frame.word_wrap = True
    cell.vertical_anchor = MSO_ANCHOR.MIDDLE if len(item.cells[row][column]) == 1 else MSO_ANCHOR.TOP
    paragraph = frame.paragraphs[0]
    paragraph.alignment = PP_ALIGN.RIGHT if item.numeric[column] else PP_ALIGN.LEFT
    paragraph.line_spacing = Pt(round(item.leading, 1))
    text = paragraph.add_run()
    text.text = "".join(item.cells[row][column])
    text.font.size = Pt(round(item.size, 1))
    text.font.bold = row == 0
    if ours:
        text.font.color.rgb = rgb(style.INK)
        if row == 0:
            fill_of(cell.fill, _HEADING)
        else:
            cell.fill.background()
        _rule_below(cell)


def _rule_below(cell: Any) -> None:
    """A thin line under a cell, none at its other sides."""
    from pptx.oxml import parse_xml

    look = cell._tc.get_or_add_tcPr()
    shade = style.RULE.lstrip("#").upper()
    lines = [f'<a:{side} {_A} w="0"><a:noFill/></a:{side}>' for side in ("lnL", "lnR", "lnT")]
    lines.append(f'<a:lnB {_A} w="9525"><a:solidFill><a:srgbClr val="{shade}"/></a:solidFill></a:lnB>')
    for place, xml in enumerate(lines):
        look.insert(place, parse_xml(xml))
