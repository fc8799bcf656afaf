"""Blocks that flow over pages: paragraphs by lines, code by lines, tables by rows. Nothing is cut off.

A heading stays with what follows it; a table's first line is repeated; short paragraphs are not torn apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from labtui.export import measure
from labtui.export.deck_model import Block, Callout, Code, CodeLine, Paragraph, Run, Table
from labtui.export.layout import (
    BULLET_GAP,
    Box,
    CodeItem,
    Geometry,
    Item,
    LaidCodeLine,
    LaidParagraph,
    Line,
    PanelItem,
    PanelKind,
    TableItem,
    TextItem,
)
from labtui.export.table_layout import LaidTable, lay_table

SIZES = {"body": 14.0, "question": 14.0, "heading": 15.0, "subheading": 14.0, "note": 11.0}
LEADING = 1.32
CODE_SIZE, CODE_LEADING = 9.2, 1.3
_SCALES = (1.28, 1.14, 1.0, 0.94, 0.88)
_MOST_CODE = 1.09
_BEFORE = {"body": 6.0, "question": 8.0, "heading": 12.0, "subheading": 9.0, "note": 6.0}
_INDENT = 20.0
_SHARES = tuple(at / 20 for at in range(8, 20))
"""Shares of a page's height at which pages are parted to see whether they come out better."""
_MOST_BALANCED = 400
_PAD = 10.0
_GAP = 10.0
_TORN = 3
"""Paragraphs of up to so many lines stay whole."""


@dataclass(slots=True)
class Unit:
    """The smallest piece that is never torn: a line of text, of code, or a row of a table.

    `before` is dropped at the top of a page. `keep`: not the last one on a page. `owner` numbers its block.
    """

    kind: Literal["text", "code", "table"]
    height: float
    before: float
    owner: int
    keep: bool = False
    panel: PanelKind | None = None
    text: LaidParagraph | None = None
    code: LaidCodeLine | None = None
    table: LaidTable | None = None
    row: int = 0


@dataclass(frozen=True, slots=True)
class _Fit:
    """How large things are set: a factor for all, and the size no table may exceed."""

    geometry: Geometry
    scale: float
    table: float


def flow_pages(blocks: Sequence[Block], geometry: Geometry) -> list[tuple[Item, ...]]:
    """The items of each page the blocks need.

    What fits one page is set as large as it fits; what does not is set a little smaller where that saves a page.
    """
    best: list[list[Unit]] | None = None
    chosen: list[Unit] = []
    for scale in _SCALES:
        units = _all_units(blocks, geometry, scale)
        pages = _paged(units, geometry.body.h)
        if len(pages) <= 1:
            best, chosen = pages, units
            break
        if scale <= 1.0 and (best is None or len(pages) < len(best)):
            best, chosen = pages, units
    pages = _balanced(chosen, geometry.body.h, best or [])
    return [tuple(_place(page, geometry)) for page in pages]


def fit_one_page(blocks: Sequence[Block], geometry: Geometry) -> bool:
    """Whether the blocks stand on one page in their full size."""
    return len(_paged(_all_units(blocks, geometry, 1.0), geometry.body.h)) <= 1


# --------------------------------------------------------------------------- units


def _all_units(blocks: Sequence[Block], geometry: Geometry, scale: float) -> list[Unit]:
    tables = [block for block in blocks if isinstance(block, Table)]
    most = min((lay_table(each, geometry.body.w, scale=scale).size for each in tables), default=99.0)
    fit = _Fit(geometry, scale, most)
    return [unit for owner, block in enumerate(blocks) for unit in _units(block, owner, fit)]


def _units(block: Block, owner: int, fit: _Fit) -> list[Unit]:
    body = fit.geometry.body
    room = min(fit.geometry.text_width, body.w)
    if isinstance(block, Paragraph):
        return _paragraph(block, owner, room, fit.scale)
    if isinstance(block, Code):
        return _code(block, owner, body.w - 2 * _PAD, CODE_SIZE * min(fit.scale, _MOST_CODE))
    if isinstance(block, Table):
        return _table(block, owner, fit)
    return _callout(block, owner, room, fit.scale)


def _paragraph(paragraph: Paragraph, owner: int, room: float, scale: float) -> list[Unit]:
    size = SIZES[paragraph.style] * scale
    runs = paragraph.runs
    if paragraph.style in ("heading", "subheading", "question"):
        runs = tuple(replace(run, bold=True) for run in runs)
    if paragraph.style == "note":
        runs = tuple(replace(run, tone="quiet") if run.tone == "ink" else run for run in runs)
    indent = _INDENT * paragraph.level
    if paragraph.bullet:
        hang = measure.width(paragraph.bullet, size, bold=True) + BULLET_GAP * size + 5
        indent = max(indent, hang + _INDENT * max(paragraph.level - 1, 0))
    lines = measure.wrap(runs, size, max(room - indent, 80.0))
    leading = size * LEADING
    before = _BEFORE[paragraph.style] if not (paragraph.level and paragraph.style == "body") else 3.0
    keeps = len(lines) if paragraph.style in ("heading", "subheading", "question") else 0
    units = []
    for at, line in enumerate(lines):
        laid = LaidParagraph(
            lines=(line,),
            size=size,
            leading=leading,
            before=before if at == 0 else 0.0,
            indent=indent,
            bullet=paragraph.bullet if at == 0 else "",
            source=paragraph,
        )
        together = at < len(lines) - 1 and (len(lines) <= _TORN or at == 0 or at == len(lines) - 2)
        units.append(Unit("text", leading, laid.before, owner, keep=at < keeps or together, text=laid))
    return units


def _callout(callout: Callout, owner: int, room: float, scale: float) -> list[Unit]:
    units = [
        unit
        for paragraph in callout.paragraphs
        for unit in _paragraph(paragraph, owner, room - 2 * _PAD - 6, scale)
    ]
    for unit in units:
        unit.panel = callout.kind
    return units


def _code(code: Code, owner: int, room: float, size: float) -> list[Unit]:
    mark = measure.width("0", size, mono=True)
    digits = max((len(line.number) for line in code.lines), default=0)
    gutter = (digits + 3) * mark if digits or any(line.change for line in code.lines) else 0.0
    units = []
    for line in code.lines:
        for at, runs in enumerate(_broken(line, room - gutter, size)):
            laid = LaidCodeLine(runs, line.number if at == 0 else "", line.change, size)
            units.append(
                Unit(
                    "code", size * CODE_LEADING, 0.0, owner, keep=line.change == "@", panel="code", code=laid
                )
            )
    if units:
        units[0].before = 2.0
    return units


def _broken(line: CodeLine, room: float, size: float) -> tuple[Line, ...]:
    """A code line in as many lines as it needs; the later ones begin with an arrow."""
    lines = measure.wrap(line.runs, size, room) or ((),)
    if len(lines) == 1:
        return lines
    arrow = Run("↪ ", mono=True, tone="quiet")
    first, *rest = measure.wrap(line.runs, size, room - measure.run_width(arrow, size))
    return (first, *((arrow, *more) for more in rest))


def _table(table: Table, owner: int, fit: _Fit) -> list[Unit]:
    body = fit.geometry.body
    laid = lay_table(table, body.w, scale=fit.scale, most=fit.table, tallest=body.h * 0.6)
    units = [
        Unit("table", height, 4.0 if at == 0 else 0.0, owner, keep=at == 0, table=laid, row=at)
        for at, height in enumerate(laid.heights)
    ]
    return units if len(units) > 1 else []


# --------------------------------------------------------------------------- pages


def _paged(units: Sequence[Unit], room: float) -> list[list[Unit]]:
    """Fill pages from the top; what must stay with its follower goes along to the next page."""
    pages: list[list[Unit]] = []
    page: list[Unit] = []
    for unit in units:
        if page and _height([*page, unit]) > room:
            carried: list[Unit] = []
            while len(page) > len(carried) and page[len(page) - 1 - len(carried)].keep:
                carried.insert(0, page[len(page) - 1 - len(carried)])
            if len(carried) == len(page):
                carried = []
            pages.append(page[: len(page) - len(carried)])
            page = carried
            if unit.table is not None and unit.row > 0 and not any(u.owner == unit.owner for u in page):
                page = [*page, Unit("table", unit.table.heights[0], 4.0, unit.owner, table=unit.table)]
        page = [*page, unit]
    return [*pages, page] if page else pages


def _balanced(units: Sequence[Unit], room: float, pages: list[list[Unit]]) -> list[list[Unit]]:
    """As many pages, better parted: at questions and headings where that can be, then as equally full as can be."""
    best, score = pages, _parting(pages)
    for share in _SHARES if len(pages) > 1 and len(units) <= _MOST_BALANCED else ():
        other = _paged(units, room * share)
        fits = len(other) == len(pages) and all(_height(page) <= room for page in other)
        if fits and (found := _parting(other)) < score:
            best, score = other, found
    return best


def _parting(pages: Sequence[Sequence[Unit]]) -> tuple[int, int, float]:
    """How badly pages are parted: blocks torn apart, pages that begin with no heading, height of the fullest."""
    breaks = list(itertools.pairwise(pages))
    torn = sum(one[-1].owner == other[0].owner for one, other in breaks)
    plain = sum(not _begins(other[0]) for _, other in breaks)
    return torn, plain, max(map(_height, pages), default=0.0)


def _begins(unit: Unit) -> bool:
    return unit.text is not None and unit.text.source.style in ("question", "heading", "subheading")


def _height(units: Sequence[Unit]) -> float:
    """The height of a page's content, with the room panels and neighbours need."""
    total = 0.0
    last: Sequence[Unit] = ()
    for part in _parts(units):
        total += sum(unit.height for unit in part) + sum(unit.before for unit in part[1:])
        total += (2 * _PAD if part[0].panel else 0.0) + _gap(last, part)
        last = part
    return total


def _gap(last: Sequence[Unit], part: Sequence[Unit]) -> float:
    """The room between two neighbours; none at the top of a page."""
    if not last:
        return 0.0
    return max(part[0].before, _GAP if _apart(part) or _apart(last) else 0.0)


def _apart(part: Sequence[Unit]) -> bool:
    return part[0].kind != "text" or part[0].panel is not None


def _parts(units: Sequence[Unit]) -> list[list[Unit]]:
    """Neighbours that become one item: text with text, the lines of one code block, the rows of one table."""
    key = lambda unit: (unit.kind, unit.panel, unit.owner if unit.kind != "text" or unit.panel else -1)  # noqa: E731
    return [list(group) for _, group in groupby(units, key)]


def _place(units: Sequence[Unit], geometry: Geometry) -> Iterable[Item]:
    body = geometry.body
    y = body.y
    last: Sequence[Unit] = ()
    for part in _parts(units):
        y += _gap(last, part)
        last = part
        height = sum(unit.height for unit in part) + sum(unit.before for unit in part[1:])
        pad = _PAD if part[0].panel else 0.0
        width = min(geometry.text_width, body.w) if part[0].kind == "text" else body.w
        if part[0].panel:
            yield PanelItem(Box(body.x, y, width, height + 2 * pad), part[0].panel)
        edge = 6 if pad and part[0].kind == "text" else 0
        yield _item(part, Box(body.x + pad + edge, y + pad, width - 2 * pad - edge, height))
        y += height + 2 * pad


def _item(part: Sequence[Unit], box: Box) -> Item:
    if part[0].kind == "table":
        return _table_item(part, box)
    if part[0].kind == "code":
        lines = tuple(unit.code for unit in part if unit.code is not None)
        digits = max(len(line.number) for line in lines)
        marked = digits or any(line.change for line in lines)
        size = lines[0].size
        gutter = (digits + 3) * measure.width("0", size, mono=True) if marked else 0.0
        return CodeItem(box, lines, size, size * CODE_LEADING, gutter)
    return TextItem(box, tuple(_merged(unit.text for unit in part if unit.text is not None)))


def _merged(parts: Iterable[LaidParagraph]) -> Iterable[LaidParagraph]:
    """The lines of one paragraph as one again."""
    last: LaidParagraph | None = None
    first = True
    for part in parts:
        if last is not None and part.source is last.source and not part.bullet and part.before == 0.0:
            last = replace(last, lines=(*last.lines, *part.lines))
            continue
        if last is not None:
            yield last
        last = replace(part, before=0.0) if first else part
        first = False
    if last is not None:
        yield last


def _table_item(part: Sequence[Unit], box: Box) -> TableItem:
    table = part[0].table
    assert table is not None  # noqa: S101 - a table's units carry it
    rows = [unit.row for unit in part]
    return TableItem(
        box=Box(box.x, box.y, sum(table.widths), box.h),
        widths=table.widths,
        heights=tuple(table.heights[row] for row in rows),
        cells=tuple(table.cells[row] for row in rows),
        numeric=table.numeric,
        size=table.size,
        leading=table.size * LEADING,
    )
