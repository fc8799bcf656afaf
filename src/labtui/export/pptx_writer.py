"""The slides as PowerPoint: words in placeholders, native tables and charts, notes, theme colours; all editable."""

from __future__ import annotations

import copy
import io
import itertools
import re
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from xml.sax.saxutils import escape

from pptx.enum.text import MSO_AUTO_SIZE
from pptx.oxml import parse_xml
from pptx.oxml.ns import qn

from labtui.export import maths, style
from labtui.export.chart_geometry import heat
from labtui.export.figures import Progress, quiet
from labtui.export.hand_in import (
    Block,
    Chart,
    CodeLine,
    Formula,
    HandInDocument,
    KeyNumbers,
    Listing,
    Paragraph,
    Picture,
    Run,
    Table,
    block_text,
    picture_size,
)
from labtui.export.pptx_charts import add_chart
from labtui.export.pptx_theme import EMU, MONO, A, Look, put, scheme
from labtui.export.slide_layout import Box, Measure, Slide, Slides, Zone
from labtui.export.typst_writer import SLIDE_SIZES

_P = f'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" {A}'
_MC = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
_A14 = "http://schemas.microsoft.com/office/drawing/2010/main"
_A16 = "http://schemas.microsoft.com/office/drawing/2014/main"
_TONES = {
    "quiet": scheme("tx1", alpha=65),
    "accent": scheme("accent1"),
    "warn": scheme("accent2"),
    "keyword": scheme("accent1"),
    "string": scheme("accent3"),
    "comment": scheme("tx1", alpha=60),
    "number": scheme("accent2"),
    "name": scheme("accent4"),
}
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MOMENT = re.compile(rb"(<dcterms:(?:created|modified)[^>]*>)[^<]*")


def pptx_bytes(deck: HandInDocument, laid: Slides, look: Look, progress: Progress = quiet) -> bytes:
    """Fill the presentation with the slides; the same slides give the same bytes."""
    for at, slide in enumerate(laid.slides):
        progress(f"deck.pptx: {slide.title}", at / len(laid.slides))
        _Writer(deck, look, laid.measured).add(slide)
    core = look.presentation.core_properties
    core.title, core.author, core.subject = deck.title, deck.author, deck.subtitle
    core.keywords = f"Export: {deck.stamp}"
    core.created = core.modified = datetime(2000, 1, 1)
    core.last_modified_by = deck.author
    stream = io.BytesIO()
    look.presentation.save(stream)
    return _timeless(stream.getvalue())


def _timeless(data: bytes) -> bytes:
    """A package (and the workbooks in it) without the moment it was written."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith(".xlsx"):
                content = _timeless(content)
            elif name == "docProps/core.xml":
                content = _MOMENT.sub(rb"\g<1>2000-01-01T00:00:00Z", content)
            new.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


class _Writer:
    """One slide."""

    def __init__(self, deck: HandInDocument, look: Look, measured: Measure) -> None:
        self._deck, self._look, self._measured = deck, look, measured
        self._slide: Any = None

    def add(self, slide: Slide) -> None:
        look = self._look
        self._slide = look.presentation.slides.add_slide(look.front if slide.front else look.content)
        title = self._slide.shapes.title
        title.text_frame.text = slide.title
        words = self._placeholders()
        if slide.front:
            self._front(slide, words)
        else:
            self._body(slide, words)
        if slide.practice:
            self._practice()
        if slide.notes:
            self._slide.notes_slide.notes_text_frame.text = slide.notes
        for number, node in enumerate(self._slide.shapes._spTree.iter(qn("p:cNvPr")), 1):
            node.set("id", str(number))

    def _placeholders(self) -> Any:
        """The placeholder for words; others but the title go."""
        title = self._slide.shapes.title.placeholder_format.idx
        words = None
        for holder in list(self._slide.placeholders):
            if holder.placeholder_format.idx == title:
                continue
            if words is None and holder.placeholder_format.type.name in ("BODY", "OBJECT", "SUBTITLE"):
                words = holder
            else:
                holder._element.getparent().remove(holder._element)
        return words

    def _front(self, slide: Slide, words: Any) -> None:
        lines = (slide.kicker, *self._deck.lines, f"Export: {self._deck.stamp}")
        shape = words if words is not None else self._box(Box(64, 254, 832, 120), "title lines")
        shape.text_frame.text = lines[0]
        for text in lines[1:]:
            shape.text_frame.add_paragraph().text = text
        for zone in slide.zones:
            self._zone(zone, None)

    def _body(self, slide: Slide, words: Any) -> None:
        kicker = Paragraph((Run(slide.kicker, bold=True, tone="accent"),), "note")
        if slide.kicker:
            self._text(self._box(self._look.kicker, "kicker"), (kicker,))
        for zone in slide.zones:
            used = words if zone.words else None
            self._zone(zone, used)
            words = None if used is not None else words
        if words is not None:
            words._element.getparent().remove(words._element)
        self._footers()

    def _practice(self) -> None:
        width = 400.0
        box = Box(self._look.width - 40 - width, 10, width, 22)
        shape = self._box(box, "practice mark")
        shape.fill.solid()
        _paint(shape, scheme("accent2", alpha=15), line=scheme("accent2"))
        run = Run(style.PRACTICE_MARK, bold=True, tone="warn")
        self._text(shape, (Paragraph((run,), "note"),), align="ctr")

    def _footers(self) -> None:
        """Footer and slide number as the layout has them."""
        for holder in self._look.content.placeholders:
            kind = holder.placeholder_format.type.name
            if kind not in ("FOOTER", "SLIDE_NUMBER"):
                continue
            self._slide.shapes._spTree.append(copy.deepcopy(holder._element))
            if kind == "FOOTER":
                text = self._deck.footer
                self._slide.shapes[-1].text_frame.text = text if len(text) <= 90 else f"{text[:89]}…"

    # ----------------------------------------------------------------------- zones

    def _zone(self, zone: Zone, words: Any) -> None:
        """One visual; or words and what interrupts them, each as high as Typst found it."""
        place = self._look.placed(zone.box)
        found = [self._measured(block, zone.box.w) for block in zone.blocks]
        if not zone.words:
            self._visual(zone.blocks[0], place, found[0]["parts"])
            return
        befores = [0.0, *(float(each["before"]) for each in found[1:])]
        total = sum(befores) + sum(float(each["height"]) for each in found)
        scale = min(1.0, place.h / max(1.0, total))
        y, top = place.y, place.y
        texts: list[Block] = []
        for block, each, before in zip(zone.blocks, found, befores, strict=True):
            if not texts:
                top = y + before * scale
            y += before * scale
            if isinstance(block, Paragraph):
                texts.append(block)
            else:
                words = self._words(texts, Box(place.x, top, place.w, y - top), words)
                texts = []
                height = max(16.0, float(each["height"]) * scale)
                self._visual(block, Box(place.x, y, place.w, height), each["parts"])
            y += float(each["height"]) * scale
        self._words(texts, Box(place.x, top, place.w, max(16.0, place.bottom - top)), words)

    def _words(self, texts: Sequence[Block], box: Box, words: Any) -> Any:
        """Paragraphs in the placeholder, or in a box of their own when it is taken; gives what is left."""
        if not texts:
            return words
        shape = words if words is not None else self._box(Box(0, 0, 1, 1), "text")
        put(shape, box)
        self._text(shape, texts)
        return None

    def _visual(self, block: Block, box: Box, parts: Sequence[float]) -> None:
        """A block that is not words; `parts` are the heights that Typst gave its lines or rows."""
        if isinstance(block, Chart) and heat(block.spec):
            from labtui.export.figures import slide_picture

            data = slide_picture(block.spec, box.w, box.h, text=SLIDE_SIZES["small"], form="png")
            shape = self._slide.shapes.add_picture(io.BytesIO(data), *_emu(box))
        elif isinstance(block, Chart):
            shape = add_chart(self._slide, block.spec, _emu(box), box.w)
        elif isinstance(block, Table):
            shape = self._table(block, box, parts)
        elif isinstance(block, Listing):
            shape = self._listing(block, box, parts)
        elif isinstance(block, KeyNumbers):
            shape = self._key_numbers(block, box)
        elif isinstance(block, Picture):
            wide, high = picture_size(block.data)
            scale = min(box.w / wide, box.h / high, 1.0)
            place = Box(box.x, box.y, wide * scale, high * scale)
            shape = self._slide.shapes.add_picture(io.BytesIO(block.data), *_emu(place))
        else:
            shape = self._box(box, "text")
            self._text(shape, (block,))
        _name(shape, type(block).__name__.lower(), block_text(block))

    def _key_numbers(self, block: KeyNumbers, box: Box) -> Any:
        shape = self._slide.shapes.add_table(2, max(1, len(block.items)), *_emu(box))
        table = shape.table
        table.first_row = table.horz_banding = False
        for at, (value, label) in enumerate(block.items):
            arrow = "→ " if block.steps and at else ""
            for row, (text, size) in enumerate(
                ((f"{arrow}{value}", SLIDE_SIZES["key"]), (label, SLIDE_SIZES["body"]))
            ):
                cell = table.cell(row, at)
                bold = row == 0
                _fill_frame(
                    cell.text_frame,
                    [Paragraph((Run(text, bold=bold, tone="accent" if bold else "ink"),))],
                    size,
                    "ctr",
                )
                _cell_look(cell, scheme("tx1", alpha=5))
        return shape

    def _table(self, block: Table, box: Box, parts: Sequence[float]) -> Any:
        """`parts` are the heights of the table with no row, one row, two rows."""
        size = SLIDE_SIZES["table"]
        shape = self._slide.shapes.add_table(len(block.rows) + 1, len(block.headings), *_emu(box))
        table = shape.table
        table.horz_banding = False
        for at, width in enumerate(_column_widths(block, box.w, size)):
            table.columns[at].width = round(width * EMU)
        heights = [after - before for before, after in itertools.pairwise((0.0, *parts))]
        if len(heights) != len(block.rows) + 1:
            heights = [box.h / (len(block.rows) + 1)] * (len(block.rows) + 1)
        _row_heights(shape, heights)
        cells = table.iter_cells()
        for number, row in enumerate((block.headings, *block.rows)):
            texts = (*row, *[""] * len(block.headings))[: len(block.headings)]
            for at, text in enumerate(texts):
                cell = next(cells)
                cell.margin_left = cell.margin_right = round(6 * EMU)
                cell.margin_top = cell.margin_bottom = round(1.5 * EMU)
                align = "r" if at < len(block.numeric) and block.numeric[at] else "l"
                words = [Paragraph((Run(text, bold=number == 0),))]
                _fill_frame(cell.text_frame, words, size, align, line=1.15 * size)
        return shape

    def _listing(self, block: Listing, box: Box, parts: Sequence[float]) -> Any:
        """A table, so that a line has a tint of its own and a long one is wrapped beside its number."""
        size = SLIDE_SIZES["code"]
        if block.caption:
            self._text(
                self._box(Box(box.x, box.y, box.w, 20), "caption"),
                (Paragraph((Run(block.caption),), "note"),),
            )
            box = Box(box.x, box.y + 22, box.w, max(20.0, box.h - 22))
        numbers, names = 3.9 * size, 7.4 * size if any(line.part for line in block.lines) else 0.0
        widths = [*([names] if names else []), numbers, box.w - numbers - names]
        shape = self._slide.shapes.add_table(len(block.lines), len(widths), *_emu(box))
        table = shape.table
        table.first_row = table.horz_banding = False
        for at, width in enumerate(widths):
            table.columns[at].width = round(width * EMU)
        _row_heights(
            shape, parts if len(parts) == len(block.lines) else [box.h / len(block.lines)] * len(block.lines)
        )
        cells = table.iter_cells()
        for line in block.lines:
            fill = {"+": scheme("accent3", alpha=18), "-": scheme("accent2", alpha=18)}.get(line.change)
            for runs, align in _code_cells(line, parted=bool(names)):
                cell = next(cells)
                cell.margin_left = cell.margin_right = round(4 * EMU)
                cell.margin_top = cell.margin_bottom = 0
                _fill_frame(cell.text_frame, [Paragraph(runs)], size, align, line=1.04 * size)
                _cell_look(cell, fill or scheme("tx1", alpha=5))
        return shape

    # ----------------------------------------------------------------------- text

    def _box(self, box: Box, name: str) -> Any:
        shape = self._slide.shapes.add_textbox(*_emu(box))
        shape.name = name
        frame = shape.text_frame
        frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
        frame.word_wrap = True
        frame.auto_size = MSO_AUTO_SIZE.NONE
        return shape

    def _text(self, shape: Any, blocks: Sequence[Block], align: str = "l") -> None:
        """Paragraphs (and formulas) in a shape; one with formulas has a second form for programs without them.

        LibreOffice knows the name a14 and draws no formula in it; it does not know a16, which PowerPoint has
        since 2016, and so takes the second form.
        """
        paragraphs = [
            block if isinstance(block, Paragraph) else Paragraph((Run(block.tex, tex=True),))
            for block in blocks
            if isinstance(block, Paragraph | Formula)
        ]
        _fill_frame(shape.text_frame, paragraphs, SLIDE_SIZES["body"], align)
        if len(blocks) != 1 or not isinstance(blocks[0], Formula) or maths.omml(blocks[0].tex) is None:
            return  # within a line only PowerPoint itself shows Office's maths
        element = shape._element
        fallback = copy.deepcopy(element)
        for node in list(element.iter(qn("a:r"))):
            paragraph = f"<m:oMathPara {maths.OMML}>{maths.omml(blocks[0].tex)}</m:oMathPara>"
            node.getparent().replace(node, parse_xml(f'<a14:m xmlns:a14="{_A14}">{paragraph}</a14:m>'))
        both = parse_xml(
            f'<mc:AlternateContent {_MC} {_P}><mc:Choice xmlns:a14="{_A14}" xmlns:a16="{_A16}" '
            'Requires="a14 a16"/><mc:Fallback/></mc:AlternateContent>'
        )
        element.addprevious(both)
        both[0].append(element)
        both[1].append(fallback)


def _row_heights(shape: Any, heights: Sequence[float]) -> None:
    """Heights of a table's rows in points, and so of its shape."""
    # python-pptx counts all rows anew for each `rows[number]`: too slow for some hundred rows.
    for row, height in zip(shape.table._tbl.tr_lst, heights, strict=True):
        row.height = round(height * EMU)
    shape.height = round(sum(heights) * EMU)


def _code_cells(line: CodeLine, *, parted: bool) -> Iterable[tuple[tuple[Run, ...], str]]:
    """The cells of a line of code with their sides: the part that begins here, number and mark, the code."""
    if parted:
        yield (Run(line.part, bold=True, tone="accent"),), "l"
    mark = f" {line.change}" if line.change in ("+", "-") else ""
    yield (Run(f"{line.number}{mark}", mono=True, tone="quiet"),), "r"
    yield tuple(replace(run, mono=True) for run in line.runs), "l"


def _fill_frame(
    frame: Any,
    paragraphs: Sequence[Paragraph],
    size: float,
    align: str,
    *,
    line: float = 0.0,
) -> None:
    """Paragraphs as XML: quicker than python-pptx's objects, and only what differs from the placeholder."""
    body = frame._txBody
    for old in body.findall(qn("a:p")):
        body.remove(old)
    for at, paragraph in enumerate(paragraphs or [Paragraph(())]):
        body.append(parse_xml(_paragraph_xml(paragraph, size, align, first=at == 0, line=line)))


def _paragraph_xml(paragraph: Paragraph, size: float, align: str, *, first: bool, line: float) -> str:
    """`line`: the height of a line in points, where the typeface is not to decide."""
    if paragraph.style == "note":
        size = SLIDE_SIZES["small"]
    heading = paragraph.style in ("heading", "question")
    before = 0 if first else 14 if heading else 8 if not paragraph.bullet else 4
    level = max(0, paragraph.level - (1 if paragraph.bullet else 0))
    left, hang = round(level * 18 * EMU), 0
    bullet = "<a:buNone/>"
    if paragraph.bullet:
        left, hang = left + 20 * EMU, -20 * EMU
        number = re.fullmatch(r"(\d{1,4})\.", paragraph.bullet)
        bullet = (
            f'<a:buFont typeface="+mj-lt"/><a:buAutoNum type="arabicPeriod" startAt="{max(1, int(number[1]))}"/>'
            if number
            else f'<a:buFont typeface="Arial"/><a:buChar char="{escape(paragraph.bullet[:1])}"/>'
        )
    runs = "".join(_run_xml(run, size, heading=heading, style_=paragraph.style) for run in paragraph.runs)
    exact = f'<a:lnSpc><a:spcPts val="{round(line * 100)}"/></a:lnSpc>' if line else ""
    end = f'<a:endParaRPr lang="en-US" sz="{round(size * 100)}"/>'
    return (
        f'<a:p {A}><a:pPr marL="{left}" indent="{hang}" algn="{align}">'
        f'{exact}<a:spcBef><a:spcPts val="{before * 100}"/></a:spcBef>'
        f"{bullet}</a:pPr>{runs}{end}</a:p>"
    )


def _run_xml(run: Run, size: float, *, heading: bool, style_: str) -> str:
    if run.tex and (spans := maths.line_spans(run.text)) is not None:
        return "".join(
            f'<a:r><a:rPr lang="en-US" sz="{round(size * 100)}" i="{int(italic)}" baseline="{baseline}"/>'
            f"<a:t>{escape(text)}</a:t></a:r>"
            for text, italic, baseline in spans
        )
    text = run.text.replace("\t", "    ").replace("\n", " ")
    looks = f' b="{int(run.bold or heading)}" i="{int(run.italic)}"' + (
        ' strike="sngStrike"' if run.strike else ""
    )
    tone = "quiet" if run.tone == "ink" and style_ in ("note", "question") else run.tone
    fill = f"<a:solidFill>{_TONES[tone]}</a:solidFill>" if tone in _TONES else ""
    face = f'<a:latin typeface="{MONO}"/><a:cs typeface="{MONO}"/>' if run.mono or run.tex else ""
    sized = size * 0.92 if run.mono and size > SLIDE_SIZES["code"] else size
    return (
        f'<a:r><a:rPr lang="en-US" sz="{round(sized * 100)}"{looks}>{fill}{face}</a:rPr>'
        f"<a:t>{escape(text)}</a:t></a:r>"
    )


def _column_widths(block: Table, room: float, size: float) -> list[float]:
    """Columns as wide as their texts; where that is too wide the widest are narrower, and no word is parted in vain.

    As Typst does, which measured the rows: a narrow column is not wrapped for the sake of a wide one.
    """
    rows = [(*row, *[""] * (len(block.headings) - len(row))) for row in (block.headings, *block.rows)]

    def widest(texts: Callable[[str], list[str]]) -> list[float]:
        return [
            max(
                style.text_width(text, size, bold=number == 0)
                for number, row in enumerate(rows)
                for text in texts(row[at]) or [""]
            )
            + 14
            for at in range(len(block.headings))
        ]

    natural = [max(54.0, width) for width in widest(lambda text: [text])]
    least = [min(pair) for pair in zip(widest(str.split), natural, strict=True)]
    if sum(least) > room:
        least = [0.0] * len(natural)

    def at_most(width: float) -> list[float]:
        return [min(high, max(low, width)) for low, high in zip(least, natural, strict=True)]

    low, high = 0.0, max(natural, default=0.0)
    if sum(natural) > room:
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if sum(at_most(middle)) > room else (middle, high)
        high = low
    return at_most(high)


def _cell_look(cell: Any, colour: str) -> None:
    look = cell._tc.get_or_add_tcPr()
    for side in ("lnL", "lnR", "lnT", "lnB"):
        look.append(parse_xml(f'<a:{side} {A} w="0"><a:noFill/></a:{side}>'))
    look.append(parse_xml(f"<a:solidFill {A}>{colour}</a:solidFill>"))


def _paint(shape: Any, fill: str, *, line: str = "") -> None:
    """A fill (and an edge) in colours of the theme."""
    look = shape._element.spPr
    for name in ("a:noFill", "a:solidFill", "a:ln"):
        for old in look.findall(qn(name)):
            look.remove(old)
    look.append(parse_xml(f"<a:solidFill {A}>{fill}</a:solidFill>"))
    if line:
        look.append(parse_xml(f'<a:ln {A} w="9525"><a:solidFill>{line}</a:solidFill></a:ln>'))


def _name(shape: Any, name: str, words: str) -> None:
    """A shape's name, and what it shows in words."""
    node = next(iter(shape._element.iter(qn("p:cNvPr"))))
    node.set("name", shape.name if shape.name.startswith("chart ") else name)
    node.set("descr", words[:2000])


def _emu(box: Box) -> tuple[int, int, int, int]:
    return round(box.x * EMU), round(box.y * EMU), max(1, round(box.w * EMU)), max(1, round(box.h * EMU))
