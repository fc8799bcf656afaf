"""The slides as PowerPoint: native charts and tables, theme colours only, words in text frames.

Whatever has the same place on every slide is in a placeholder of template.pptx. PowerPoint does no layout, so text is
measured here in Carlito, which has the widths of Calibri; what does not fit continues on a slide with the same title.
"""

import io
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from msgspec.structs import replace
from pptx import Presentation
from pptx.enum.dml import MSO_THEME_COLOR as THEME
from pptx.enum.text import MSO_ANCHOR, MSO_AUTO_SIZE, PP_ALIGN
from pptx.oxml import parse_xml
from pptx.oxml.ns import nsdecls, qn
from pptx.util import Emu, Inches, Pt

from labtui.export import documents, drawing
from labtui.export.documents import BOTTOM, GUTTER, LEFT, TOP
from labtui.export.drawing import WIDTH, inches, rows_of
from labtui.export.hand_in import Answer, Block, CodeLine, Document, Listing, Page, Paragraph, Run, plain
from labtui.export.markdown import PNG_DPI, formula_picture, run_text
from labtui.export.powerpoint_charts import Box, add_chart
from labtui.results.charts import ChartSpec
from labtui.results.numbers import Table, clean

_KICKER, _MARK, _FACTS = 10, 11, 20
"""Placeholders of the layouts; the last is that of the first fact."""
_GAP = 0.15
_PLAIN_TABLE = "{2D5ABB26-0587-4C30-8999-92F81FD0307C}"
_RULE = f'<a:lnB {nsdecls("a")} w="9525"><a:solidFill><a:schemeClr val="tx2"/></a:solidFill></a:lnB>'
_TONES: dict[str, Any] = {
    "ink": THEME.TEXT_1, "quiet": THEME.TEXT_2, "accent": THEME.ACCENT_1, "warn": THEME.ACCENT_6,
}  # fmt: skip


def pptx(document: Document) -> bytes:
    """The document as a .pptx file."""
    presentation = Presentation(io.BytesIO(files("labtui.export").joinpath("template.pptx").read_bytes()))
    core = presentation.core_properties
    core.title, core.author, core.keywords = document.title, document.author, document.stamp
    for layout in list(presentation.slide_layouts)[1:]:
        foot: Any = next(each for each in layout.shapes if each.name == "foot")
        foot.text_frame.text = document.footer
    below = "\n".join((document.subtitle, " · ".join(document.lines)))
    words = {0: document.title, 1: below, _MARK: document.mark}
    cover = _add_slide(presentation, "cover", words, document.facts)
    cover.notes_slide.notes_text_frame.text = document.stamp
    for page in document.pages:
        _Slides(presentation, document, page).draw()
    made = io.BytesIO()
    presentation.save(made)
    return made.getvalue()


def _add_slide(
    presentation: Any, layout: str, words: Mapping[int, str], facts: Sequence[tuple[str, str]] = ()
) -> Any:
    """Add a slide with these words in the placeholders of its layout, by their numbers; others are removed."""
    slide = presentation.slides.add_slide(presentation.slide_layouts.get_by_name(layout))
    wanted = {number: (text,) for number, text in words.items() if text} | dict(enumerate(facts, _FACTS))
    for slot in list(slide.placeholders):
        if slot.placeholder_format.idx not in wanted:
            slot._element.getparent().remove(slot._element)
            continue
        slot.text_frame.text, *more = wanted[slot.placeholder_format.idx]
        for text in more:
            below = slot.text_frame.add_paragraph()
            below.text, below.level = text, 1
    return slide


# --------------------------------------------------------------------------- words


def _count_fitting(heights: Sequence[float], room: float) -> int:
    """How many items of these heights fit below each other; at least one."""
    return max(1, sum(total <= room + 0.01 for total in itertools.accumulate(heights)))


def _leads(block: Block) -> bool:
    """Whether a text announces what follows, as a question or ``Fewer, larger steps:``."""
    text = "".join(run.text for run in block.runs) if isinstance(block, Paragraph) else ""
    return text.endswith(":") or (isinstance(block, Paragraph) and block.style == "note")


def _with_question(answer: Answer) -> list[Any]:
    """The blocks of an answer below its question, which has its number."""
    asked = plain(answer.question, "note", bullet=f"{answer.number}.", level=1, tone="quiet")
    inside = (replace(b, level=b.level + 1) if isinstance(b, Paragraph) else b for b in answer.blocks)
    return [asked, *inside]


def _code_line(line: CodeLine) -> Paragraph:
    begin = Run(f"{line.number:>4} {line.change.strip('@') or ' '} ", mono=True, tone="quiet")
    part = Run(f"   {line.part}" if line.part else "", bold=True, tone="accent")
    return Paragraph((begin, Run(line.text, mono=True), part))


def _fill_paragraph(target: Any, paragraph: Paragraph, size: float) -> None:
    target.space_after = Pt(4 * (size > 12))  # code stands close
    size = documents.NOTE_SIZE if paragraph.style == "note" else size
    if paragraph.level or paragraph.bullet:
        indent = int(Inches(0.3))
        properties = target._p.get_or_add_pPr()
        properties.set("marL", str(indent * max(1, paragraph.level)))
        properties.set("indent", str(-indent if paragraph.bullet else 0))
        if paragraph.bullet:
            _add_run(target, replace(paragraph.runs[0], text=f"{paragraph.bullet}\t", tex=False), size)
    for run in paragraph.runs:
        text = run_text(run)
        small = run.tex and not text.startswith("$")
        parts = re.split(r"([_^](?:\w|\([^()]*\)))", text) if small else [text]
        for text in filter(None, parts):
            _add_run(target, replace(run, text=text, bold=run.bold or paragraph.style == "heading"), size)


def _add_run(paragraph: Any, run: Run, size: float) -> None:
    added, small = paragraph.add_run(), {"_": "-25000", "^": "30000"}.get(run.text[:1] if run.tex else "")
    added.text = run.text[1:].strip("()") if small else run.text
    if small:
        added.font._element.set("baseline", small)
    added.font.size, added.font.bold, added.font.italic = Pt(size), run.bold, run.italic
    added.font.color.theme_color = _TONES[run.tone]
    if run.mono:
        added.font.name = "Consolas"
    if run.strike:
        added.font._element.set("strike", "sngStrike")


# --------------------------------------------------------------------------- pages


class _Slides:
    """Fills the slides of one page from top to bottom; `y` is the next free inch, and a full slide gets a successor."""

    def __init__(self, presentation: Any, document: Document, page: Page) -> None:
        self.presentation, self.document, self.page = presentation, document, page
        self.count = 0
        self.new_slide()

    def new_slide(self) -> None:
        page, more = self.page, bool(self.count)
        facts = () if more else page.facts
        kicker = ", ".join(filter(None, (page.kicker, "continued" * more)))
        words = {0: page.title, _KICKER: kicker, _MARK: (self.document.mark if page.practice else "")}
        self.slide = _add_slide(self.presentation, "facts" if facts else "page", words, facts)
        if page.numbers:
            self.slide.notes_slide.notes_text_frame.text = "\n".join(page.numbers)
        self.count += 1
        self.y = TOP

    def ensure_room(self, height: float) -> None:
        """Begin a new slide if less than this height is left."""
        if self.y > TOP and self.y + height > BOTTOM + 0.01:
            self.new_slide()

    def draw(self) -> None:
        page = self.page
        if page.charts:
            self.add_charts()
        elif page.facts:
            self.y += 1.4
        if page.note:
            self.add_words([plain(page.note, tone="quiet")], size=14)
        for block in page.blocks:
            self.add_block(block)
        self.add_answers()
        self.add_words([plain(line, tone="warn") for line in page.warnings], size=14)

    def describe(self, text: str, name: str) -> None:
        shape = self.slide.shapes[-1]
        shape.name = name[:200]
        shape._element.xpath(".//p:cNvPr")[0].set("descr", text[:1000])

    # ----------------------------------------------------------------------- charts

    def add_charts(self) -> None:
        """Charts side by side, where there is room for their numbers and names; one with panels has its own slide."""
        charts, height = self.page.charts, documents.chart_height(self.page)
        if len(parts := drawing.split_lines(charts[0])) > 1:
            self.add_panels(charts[0], parts, height)
            return
        shares, x = drawing.widths(charts), LEFT
        for spec, share in zip(charts, shares, strict=True):
            wide = WIDTH * share / sum(shares)
            self.chart(spec, (x, self.y, wide - 0.1, height), named=drawing.shows_names(spec, charts[0]))
            x += wide
        self.y += height + 0.1

    def chart(self, spec: ChartSpec, box: Box, *, named: bool = True, head: float = 0.0) -> None:
        add_chart(self.slide, spec, box, named=named, head=head)
        self.describe(drawing.chart_text(spec), f"chart {spec.key}")

    def add_panels(self, spec: ChartSpec, parts: Sequence[ChartSpec], height: float) -> None:
        self.add_words([Paragraph((Run(clean(spec.y_title), bold=True),))], size=17)
        top, rows = self.y, rows_of(parts)
        columns = math.ceil(len(parts) / rows)
        wide, high = WIDTH / columns, (height - 0.4) / rows
        head = 0.1 + 0.27 * max(documents.line_count(each.heading, wide, drawing.TEXT_SIZE) for each in parts)
        for at, each in enumerate(parts):
            place = (LEFT + wide * (at % columns), top + high * (at // columns), wide - 0.08, high - 0.08)
            shown = replace(each, x_label=spec.x_label if at == columns * (rows - 1) else "")  # on one panel
            self.chart(shown, place, named=drawing.names_panel(each, parts), head=head)
        self.y += height - 0.4

    # ----------------------------------------------------------------------- words

    def put(self, paragraphs: Sequence[Paragraph], box: Box, size: float = 18, columns: int = 1) -> None:
        """Put paragraphs into a frame without margins; text that is taller than measured shrinks to fit."""
        frame = self.slide.shapes.add_textbox(*map(Inches, box)).text_frame
        frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
        frame.word_wrap, frame.vertical_anchor = True, MSO_ANCHOR.TOP
        frame.auto_size = MSO_AUTO_SIZE.TEXT_TO_FIT_SHAPE
        if columns > 1:
            frame._txBody.bodyPr.attrib.update({"numCol": str(columns), "spcCol": str(int(Inches(GUTTER)))})
        for at, paragraph in enumerate(paragraphs):
            _fill_paragraph(frame.paragraphs[0] if at == 0 else frame.add_paragraph(), paragraph, size)

    def add_words(self, paragraphs: Sequence[Paragraph], *, size: float = 18, columns: int = 1) -> None:
        """Paragraphs over the whole width or in columns; those that do not fit go on the next slides."""
        width, rest = documents.column_width(columns), list(paragraphs)
        while rest:
            heights = [documents.block_height(each, width, size) for each in rest]
            least = 1 + (rest[0].style == "note")  # a question stays with its answer
            self.ensure_room(sum(heights[:least]))
            count = max(least, _count_fitting(heights, (BOTTOM - self.y) * columns))
            count -= least < count < len(rest) and rest[count - 1].style == "note"
            whole = sum(heights[:least])  # in one column
            height = min(BOTTOM - self.y, max(sum(heights[:count]) / columns, whole, *heights[:count]))
            self.put(rest[:count], (LEFT, self.y, WIDTH, height), size, columns)
            self.y += height + (_GAP if columns > 1 else 0.05)
            rest = rest[count:]

    def add_row(self, cells: Sequence[Sequence[Paragraph]], columns: int) -> None:
        """Short answers side by side."""
        width = documents.column_width(columns)
        heights = [sum(documents.block_height(each, width) for each in cell) for cell in cells]
        self.ensure_room(max(heights))
        for at, (cell, height) in enumerate(zip(cells, heights, strict=True)):
            self.put(cell, (LEFT + at * (width + GUTTER), self.y, width, height))
        self.y += max(heights) + _GAP

    def add_answers(self) -> None:
        """Short answers in rows, long ones in two columns; with a table, code or a picture over the whole width."""
        answers = list(map(_with_question, documents.answers_of(self.page)))
        columns = documents.answer_columns(self.page)
        blocks = list(itertools.chain(*answers))
        if any(not isinstance(block, Paragraph) or block.style == "formula" for block in blocks):
            for at, block in enumerate(blocks):
                leading = len(list(itertools.takewhile(_leads, blocks[at:])))  # they stay with what follows
                together = blocks[at : at + leading + 1] if leading else []
                self.ensure_room(sum(map(documents.block_height, together)))
                self.add_block(block)
        elif columns:
            for at in range(0, len(answers), columns):
                self.add_row(answers[at : at + columns], columns)
        else:
            self.add_words(blocks, columns=2)

    def add_block(self, block: Block) -> None:
        if isinstance(block, Listing):
            self.add_listing(block)
        elif isinstance(block, Table):
            self.add_table(block)
        elif not isinstance(block, Paragraph):
            self.add_picture(block.data, documents.picture_size(block.data), block.alt)
        elif block.style == "formula" and (drawn := formula_picture(block.runs[0].text, "png")):
            self.add_picture(drawn.data, documents.picture_size(drawn.data, PNG_DPI), block.runs[0].text)
        else:
            self.add_words([block])

    def add_picture(self, data: bytes, size: tuple[float, float], alt: str) -> None:
        width, height = size
        self.ensure_room(height)
        self.slide.shapes.add_picture(io.BytesIO(data), *map(Inches, (LEFT, self.y, width, height)))
        self.describe(alt, "picture")
        self.y += height + _GAP

    def add_listing(self, block: Listing) -> None:
        if block.caption:
            self.ensure_room(1.2)
            self.add_words([Paragraph((Run(block.caption, bold=True),))], size=14)
        self.add_words(list(map(_code_line, block.lines)), size=11)
        self.y += _GAP

    # ----------------------------------------------------------------------- tables

    def add_table(self, block: Table) -> None:
        """A table, split between rows where it is longer than the slide; a short one stays in one piece."""
        rest = list(block.rows)
        most = 18 if len(rest) <= 8 and len(block.headings) <= 7 else 14 if len(rest) <= 20 else 11
        fits = {size: _column_widths(block, size) for size in (18, 14, 11) if size <= most}
        whole = (at for at, wide in fits.items() if all(_row_lines(r, wide, at) == 1 for r in block.rows))
        size = next(whole, 11 if len(rest) > 12 else most)  # the largest at which no row wraps
        high, widths = size * 1.55 / 72, fits[size]
        heads = high * (1 + bool(block.groups))
        heights = [high * _row_lines(row, widths, size) for row in block.rows]
        # note and warnings stay with the last rows
        warnings = () if self.page.answered else self.page.warnings
        note = (0.3 + _GAP if block.note else 0) + 0.4 * len(warnings)
        self.ensure_room(heads + note + (sum(heights) if len(heights) <= 12 else 3 * high))
        while rest:
            count = _count_fitting(heights, BOTTOM - note - self.y - heads)
            if count < len(rest):
                count = max(1, min(count, len(rest) - 3))  # no row begins the next slide alone
                count -= count > 1 and len(rest[count - 1]) == 1  # a heading stays with its rows
            self._table(block, rest[:count], widths, size)
            self.y += heads + sum(heights[:count]) + _GAP
            rest, heights = rest[count:], heights[count:]
            if rest:
                self.new_slide()
        if block.note:
            self.add_words([plain(block.note, tone="quiet")], size=14)

    def _table(self, block: Table, rows: Sequence[Sequence[str]], widths: Sequence[float], size: int) -> None:
        grouped, count = bool(block.groups), len(block.headings)
        high = size * 1.55 / 72
        # off a title of two lines
        box = (LEFT, self.y + 0.1 * (self.y == TOP), sum(widths), high * (1 + grouped + len(rows)))
        frame = self.slide.shapes.add_table(1 + grouped + len(rows), count, *map(Inches, box))
        self.describe("\n".join("  ".join(row) for row in (block.headings, *rows)), "table")
        frame._element.graphic.graphicData.tbl.tblPr.find(qn("a:tableStyleId")).text = _PLAIN_TABLE
        table = frame.table
        table.first_row, table.horz_banding = True, False
        for cell in table.iter_cells():  # an empty one would be as high as a line of 18 pt
            end = parse_xml(f'<a:endParaRPr {nsdecls("a")} sz="{size * 100}"/>')
            cell.text_frame.paragraphs[0]._p.append(end)
            cell.margin_top = cell.margin_bottom = Emu(18288)
        for at, width in enumerate(widths):
            table.columns[at].width = Inches(width)
        at = 0
        for name, columns in block.groups:
            table.cell(0, at).merge(table.cell(0, at + columns - 1))
            _set_cell(table.cell(0, at), Run(name, bold=True, tone="accent"), size, right=True)
            at += columns
        for line, row in enumerate([block.headings, *rows], int(grouped)):
            table.rows[line].height = Inches(high)
            head, alone = line == grouped, len(row) == 1 < count
            if alone:
                table.cell(line, 0).merge(table.cell(line, count - 1))
            for at, text in enumerate(row):
                run = Run(text, bold=alone, tone="quiet" if head else "ink")
                right = not alone and block.numeric[at : at + 1] == (True,)
                _set_cell(table.cell(line, at), run, min(size, 14) if head else size, right=right)
                if head:
                    table.cell(line, at)._tc.get_or_add_tcPr().append(parse_xml(_RULE))


def _set_cell(cell: Any, run: Run, size: float, *, right: bool) -> None:
    cell.margin_left = cell.margin_right = Emu(73152)
    cell.vertical_anchor = MSO_ANCHOR.MIDDLE
    paragraph = cell.text_frame.paragraphs[0]
    if run.text:
        _add_run(paragraph, run, size)
    paragraph.alignment = PP_ALIGN.RIGHT if right else PP_ALIGN.LEFT


def _row_lines(row: Sequence[str], widths: Sequence[float], size: float) -> float:
    """The height of a table row, in units of a row of one line."""
    if len(row) < len(widths):
        return 1.0
    lines = max(documents.line_count(text, width, size) for text, width in zip(row, widths, strict=True))
    return 1.0 if lines == 1 else 0.8 * lines


def _column_widths(block: Table, size: float) -> list[float]:
    """Widths that fit the widest cells; the widest columns are narrowed where the table is wider than the slide."""
    lines = [block.headings, *(row for row in block.rows if len(row) > 1)]
    wanted = [max(inches(text, size) for text in cells) * 1.04 + 0.25 for cells in zip(*lines, strict=True)]
    while sum(wanted) > WIDTH + 0.01 and max(wanted) > 0.5:
        widest = wanted.index(max(wanted))
        wanted[widest] = max(0.5, wanted[widest] - max(0.05, (sum(wanted) - WIDTH) / 4))
    return wanted if len(wanted) <= 3 else [width * WIDTH / sum(wanted) for width in wanted]
