"""The slides as PowerPoint: native charts and tables, every colour the theme's, words in text frames.

PowerPoint lays nothing out by itself, so what stands below each other is counted in lines of Carlito, which is as wide
as Calibri. What does not fit goes on under the same title.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from pptx import Presentation
from pptx.enum.dml import MSO_THEME_COLOR as THEME
from pptx.enum.text import MSO_ANCHOR, PP_ALIGN
from pptx.exc import PackageNotFoundError
from pptx.oxml.ns import qn
from pptx.util import Inches, Pt

from labtui.domain.errors import ExportError
from labtui.export import style
from labtui.export.documents import chart_height, shortened
from labtui.export.formulas import formula_picture
from labtui.export.hand_in import (
    Block,
    Formula,
    HandInDocument,
    Listing,
    Page,
    Paragraph,
    Picture,
    Run,
    Table,
    chart_text,
)
from labtui.export.plots import panels
from labtui.export.powerpoint_charts import add_chart
from labtui.export.powerpoint_text import (
    add_run,
    column_widths,
    fill,
    fitting,
    picture_inches,
    pieces,
    plain_words,
    row_lines,
    set_cell,
    with_bullet,
    words_height,
)
from labtui.results.charts import ChartSpec

LEFT, RIGHT, TOP, BOTTOM = 0.6, 12.733, 1.65, 6.8
"""Inches: the margins of what stands between title and foot."""
_GAP = 0.15
_WHOLE_TABLE = 12
"""A table of so many rows is never parted; longer ones go on under their headings."""
_PLAIN_TABLE = "{2D5ABB26-0587-4C30-8999-92F81FD0307C}"


def pptx(
    document: HandInDocument, template: Path | None = None, progress: style.Progress = style.quiet
) -> bytes:
    """The document as a .pptx; with `template` in the theme of that file.

    Raises:
        ExportError: when the template cannot be read.
    """
    with files("labtui.export").joinpath("template.pptx").open("rb") as stream:
        presentation = Presentation(io.BytesIO(stream.read()))
    if template is not None:
        _take_theme(presentation, template)
    core = presentation.core_properties
    core.title, core.author, core.keywords = document.title, document.author, document.stamp
    _cover(presentation, document)
    for at, page in enumerate(document.pages):
        progress(f"slide {page.title}", at / max(1, len(document.pages)))
        _Slides(presentation, document, page).draw()
    stream_out = io.BytesIO()
    presentation.save(stream_out)
    return stream_out.getvalue()


def _take_theme(presentation: Any, template: Path) -> None:
    try:
        other = Presentation(str(template))
    except (OSError, KeyError, ValueError, BadZipFile, PackageNotFoundError) as error:
        raise ExportError(
            f"{template} is no PowerPoint file that can be read.", "Save it as .pptx and name that file."
        ) from error
    theirs, ours = (_theme_part(each) for each in (other, presentation))
    if theirs is not None and ours is not None:
        ours._blob = theirs.blob


def _theme_part(presentation: Any) -> Any:
    relations = presentation.slide_master.part.rels.values()
    return next((each.target_part for each in relations if each.reltype.endswith("/theme")), None)


def _cover(presentation: Any, document: HandInDocument) -> None:
    slide = presentation.slides.add_slide(presentation.slide_layouts[0])
    slide.shapes.title.text_frame.text = document.title
    slide.placeholders[1].text_frame.text = " · ".join((document.subtitle, *document.lines))
    for at, (value, label) in enumerate(document.facts):
        _fact(slide, (LEFT + 4.1 * at, 5.4, 3.9), value, label, 54)
    if document.practice:
        _mark(slide, document.mark)
    slide.notes_slide.notes_text_frame.text = document.stamp


def _mark(slide: Any, mark: str) -> None:
    _text(slide, (8.4, 0.36, 4.33, 0.3), mark, 14, THEME.ACCENT_6, right=True)


def _text(
    slide: Any, box: tuple[float, float, float, float], text: str, size: float, colour: Any = THEME.TEXT_1,
    *, bold: bool = False, right: bool = False,
) -> Any:  # fmt: skip
    frame = slide.shapes.add_textbox(*map(Inches, box)).text_frame
    frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
    frame.word_wrap = True
    run = frame.paragraphs[0].add_run()
    run.text, run.font.size, run.font.bold = text, Pt(size), bold
    run.font.color.theme_color = colour
    if right:
        frame.paragraphs[0].alignment = PP_ALIGN.RIGHT
    return frame


def _fact(slide: Any, place: tuple[float, float, float], value: str, label: str, size: float) -> None:
    x, y, width = place
    _text(slide, (x, y, width, size / 60), value, size, THEME.ACCENT_1, bold=True)
    _text(slide, (x, y + size / 58, width, 0.6), label, 16)


class _Slides:
    """The slides of one page: a cursor goes down, and what does not fit begins another slide."""

    def __init__(self, presentation: Any, document: HandInDocument, page: Page) -> None:
        self.presentation, self.document, self.page = presentation, document, page
        self.count = 0
        self.y = TOP
        self.slide: Any = None
        self.new_slide()

    def new_slide(self) -> None:
        layout = self.presentation.slide_layouts[1]
        self.slide = self.presentation.slides.add_slide(layout)
        self.slide.shapes.title.text_frame.text = self.page.title
        self.count += 1
        kicker = self.page.kicker + (", continued" if self.count > 1 and self.page.kicker else "")
        if kicker:
            _text(self.slide, (LEFT, 0.36, 7.6, 0.3), kicker, 14, THEME.ACCENT_1, bold=True)
        if self.page.practice:
            _mark(self.slide, self.document.mark)
        _text(self.slide, (LEFT, 6.95, 10.5, 0.3), self.document.footer, 14, THEME.TEXT_2)
        number = str(len(self.presentation.slides))
        _text(self.slide, (11.7, 6.95, 1.033, 0.3), number, 14, THEME.TEXT_2, right=True)
        self.y = TOP

    def draw(self) -> None:
        page = self.page
        if page.charts:
            self.charts()
        elif page.facts:
            width = (RIGHT - LEFT) / len(page.facts)
            for at, (value, label) in enumerate(page.facts):
                _fact(self.slide, (LEFT + at * width, self.y, width - 0.2), value, label, 34)
            self.y += 1.4
        if page.note:
            self.words([plain_words(shortened(page.note), "quiet")], size=14)
        for block in page.blocks:
            self.block(block)
        self.answers()
        if page.warnings:
            self.words([plain_words(line, "warn") for line in page.warnings], size=14)
        if page.numbers:
            first = self.presentation.slides[len(self.presentation.slides) - self.count]
            first.notes_slide.notes_text_frame.text = "\n".join(page.numbers)

    # ----------------------------------------------------------------------- charts

    def charts(self) -> None:
        page = self.page
        height = max(3.1, chart_height(page) / 72)
        width = 8.9 if page.facts else RIGHT - LEFT
        groups = [panels(spec) for spec in page.charts]
        if any(len(each) > 1 for each in groups):
            for at, (spec, parts) in enumerate(zip(page.charts, groups, strict=True)):
                if at:
                    self.new_slide()
                self.panelled(spec, parts, width, 4.9)
            self.y += 4.9 + _GAP
            return
        shares = [1.35, *[1.0] * (len(page.charts) - 1)] if len(page.charts) > 1 else [1.0]
        x = LEFT
        for at, (spec, share) in enumerate(zip(page.charts, shares, strict=True)):
            each = width * share / sum(shares)
            names = [series.name for series in spec.measured]
            first = at == 0 or names != [series.name for series in page.charts[0].measured]
            self.chart(spec, (x, self.y, each - 0.1, height), named=first)
            x += each
        for at, (value, label) in enumerate(page.facts[: int(height / 1.15)]):
            _fact(
                self.slide,
                (LEFT + width + 0.2, self.y + 0.1 + 1.2 * at, RIGHT - LEFT - width - 0.2),
                value,
                label,
                34,
            )
        self.y += height + 0.1

    def chart(self, spec: ChartSpec, box: tuple[float, float, float, float], **how: Any) -> None:
        add_chart(self.slide, spec, tuple(int(Inches(each)) for each in box), **how)  # type: ignore[arg-type]
        self._describe(chart_text(spec), f"chart {spec.key}")

    def panelled(self, spec: ChartSpec, parts: Sequence[Any], width: float, height: float) -> None:
        columns = len(parts) if len(parts) <= 5 else -(-len(parts) // 2)
        rows = -(-len(parts) // columns)
        for at, (name, mine) in enumerate(parts):
            box = (
                LEFT + width / columns * (at % columns), self.y + height / rows * (at // columns),
                width / columns - 0.08, height / rows - 0.08,
            )  # fmt: skip
            self.chart(spec, box, chosen=mine, heading=name)

    def _describe(self, text: str, name: str) -> None:
        shape = self.slide.shapes[-1]
        shape.name = name[:200]
        shape._element.xpath(".//p:cNvPr")[0].set("descr", text[:1000])

    # ----------------------------------------------------------------------- words

    def words(self, paragraphs: Sequence[Paragraph], *, size: float = 18) -> None:
        """Paragraphs over the whole width."""
        for part in fitting(paragraphs, RIGHT - LEFT, size, self.room, BOTTOM - TOP):
            height = sum(words_height(each, RIGHT - LEFT, size) for each in part)
            if height > self.room(True) + 0.05 and self.y > TOP:
                self.new_slide()
            self.frame((LEFT, self.y, RIGHT - LEFT, height), part, size)
            self.y += height + 0.05

    def room(self, first: bool) -> float:
        return BOTTOM - self.y if first else BOTTOM - TOP

    def answers(self) -> None:
        """Answers in two columns; one that holds a table, code or a picture goes on over the whole width."""
        given = [answer for answer in self.page.answers if answer.blocks]
        column = (RIGHT - LEFT - 0.55) / 2
        left: list[Paragraph] = []
        for answer in given:
            for at, block in enumerate(answer.blocks):
                if isinstance(block, Paragraph):
                    number = f"{answer.number}." if at == 0 else ""
                    plain = number and not block.bullet
                    left.append(with_bullet(block, number) if plain else block)
                    if number and not plain:
                        left.insert(len(left) - 1, plain_words(number, "ink"))
                else:
                    self.columns(left, column)
                    left = []
                    self.block(block)
        self.columns(left, column)

    def columns(self, paragraphs: Sequence[Paragraph], width: float) -> None:
        rest = [piece for each in paragraphs for piece in pieces(each, width, BOTTOM - TOP)]
        while rest:
            if BOTTOM - self.y < 0.7:
                self.new_slide()
            room, used = BOTTOM - self.y, 0.0
            for x in (LEFT, LEFT + width + 0.55):
                taken: list[Paragraph] = []
                height = 0.0
                while rest and height + words_height(rest[0], width, 18) <= room:
                    height += words_height(rest[0], width, 18)
                    taken.append(rest.pop(0))
                if taken:
                    self.frame((x, self.y, width, height), taken, 18)
                used = max(used, height)
            if not used:
                self.new_slide()
                continue
            self.y += used + _GAP
            if rest:
                self.new_slide()

    def frame(
        self, box: tuple[float, float, float, float], paragraphs: Sequence[Paragraph], size: float
    ) -> None:
        frame = self.slide.shapes.add_textbox(*map(Inches, box)).text_frame
        frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
        frame.word_wrap, frame.vertical_anchor = True, MSO_ANCHOR.TOP
        for at, paragraph in enumerate(paragraphs):
            target = frame.paragraphs[0] if at == 0 else frame.add_paragraph()
            fill(target, paragraph, 14 if paragraph.style == "note" else size)

    # ----------------------------------------------------------------------- other blocks

    def block(self, block: Block) -> None:
        if isinstance(block, Paragraph):
            self.words([block])
        elif isinstance(block, Listing):
            self.listing(block)
        elif isinstance(block, Table):
            self.table(block)
        else:
            self.picture(block)

    def listing(self, block: Listing) -> None:
        lines = list(block.lines)
        caption = [plain_words(block.caption, "ink", bold=True)] if block.caption else []
        while lines:
            if BOTTOM - self.y < 1.2:
                self.new_slide()
            if caption:
                self.words(caption, size=14)
                caption = []
            count = max(1, int((BOTTOM - self.y) / 0.205))
            part, lines = lines[:count], lines[count:]
            frame = _text(self.slide, (LEFT, self.y, RIGHT - LEFT, 0.205 * len(part)), "", 11)
            frame.word_wrap = False
            for at, line in enumerate(part):
                paragraph = frame.paragraphs[0] if at == 0 else frame.add_paragraph()
                head = f"{line.number:>4} {line.change if line.change in ('+', '-') else ' '} "
                part_name = (Run(f"{line.part}  ", bold=True, tone="accent"),) if line.part else ()
                runs = (Run(head, mono=True, tone="quiet"), *part_name, *line.runs)
                for run in runs:
                    add_run(
                        paragraph, Run(run.text[:130], run.bold, run.italic, True, run.strike, run.tone), 11
                    )
            self.y += 0.205 * len(part) + _GAP
            if lines:
                self.new_slide()

    def table(self, block: Table) -> None:
        rows = list(block.rows)
        size = 18 if len(rows) <= 8 and len(block.headings) <= 6 else 14 if len(block.headings) <= 9 else 11
        height = size * 1.55 / 72
        heads = 1 + bool(block.groups)
        while rows:
            if BOTTOM - self.y < height * (heads + 2):
                self.new_slide()
            widths = column_widths(block, RIGHT - LEFT, size)
            fitting, used = 0, height * heads
            while fitting < len(rows):
                high = row_lines(rows[fitting], widths, size) * height
                if used + high > BOTTOM - self.y and fitting:
                    break
                used += high
                fitting += 1
            if fitting < len(rows) and fitting > 1 and len(rows[fitting - 1]) == 1:
                fitting -= 1  # a heading within the table stays with its rows
            if fitting < len(rows) <= _WHOLE_TABLE and self.y > TOP:
                self.new_slide()
                continue
            part, rows = rows[:fitting], rows[fitting:]
            self._table(block, part, widths, size)
            self.y += used + _GAP
            if rows:
                self.new_slide()
        if block.note:
            self.words([plain_words(block.note, "quiet")], size=14)

    def _table(self, block: Table, rows: Sequence[Sequence[str]], widths: Sequence[float], size: int) -> None:
        heads = 1 + bool(block.groups)
        count = len(block.headings)
        height = size * 1.55 / 72
        box = (LEFT, self.y, sum(widths), height * (heads + len(rows)))
        frame = self.slide.shapes.add_table(heads + len(rows), count, *map(Inches, box))
        self._describe("\n".join("  ".join(row) for row in (block.headings, *rows)), "table")
        table = frame.table
        frame._element.graphic.graphicData.tbl.tblPr.find(qn("a:tableStyleId")).text = _PLAIN_TABLE
        table.first_row, table.horz_banding = True, False
        for at, width in enumerate(widths):
            table.columns[at].width = Inches(width)
        at = 0
        for name, columns in block.groups:
            table.cell(0, at).merge(table.cell(0, at + columns - 1))
            set_cell(table.cell(0, at), name, size, colour=THEME.ACCENT_1, bold=True, right=True)
            at += columns
        for at, name in enumerate(block.headings):
            set_cell(
                table.cell(heads - 1, at),
                name,
                min(size, 14),
                colour=THEME.TEXT_2,
                right=block.numeric[at : at + 1] == (True,),
            )
        for line, row in enumerate(rows, heads):
            table.rows[line].height = Inches(height)
            if len(row) == 1:
                table.cell(line, 0).merge(table.cell(line, count - 1))
                set_cell(table.cell(line, 0), row[0], size, bold=True)
                continue
            for at, text in enumerate(row):
                set_cell(table.cell(line, at), text, size, right=block.numeric[at : at + 1] == (True,))

    def picture(self, block: Picture | Formula) -> None:
        if isinstance(block, Formula):
            drawn = formula_picture(block.tex, "png")
            if drawn is None:
                self.words([Paragraph((Run(f"$${block.tex}$$", mono=True),))])
                return
            data, width, height, alt = drawn.data, drawn.width * 20 / 72, drawn.height * 20 / 72, block.tex
        else:
            data, alt = block.data, block.alt or block.name
            width, height = picture_inches(data)
        room = min(3.6, BOTTOM - TOP)
        factor = min(1.0, room / height, (RIGHT - LEFT) / width)
        width, height = width * factor, height * factor
        if self.y + height > BOTTOM:
            self.new_slide()
        self.slide.shapes.add_picture(
            io.BytesIO(data), Inches(LEFT), Inches(self.y), Inches(width), Inches(height)
        )
        self._describe(alt, "picture")
        self.y += height + _GAP
