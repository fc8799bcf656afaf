"""Charts on slides: two of one size beside each other; a single one with its numbers beside it, or as wide as both."""

from __future__ import annotations

from collections.abc import Sequence

from labtui.core.charts import ChartSpec, Point
from labtui.core.interval import Interval
from labtui.core.results.numbers import clean, percent_text, plain_seconds_text
from labtui.export import measure
from labtui.export.deck_model import Paragraph, Run, Table
from labtui.export.flow import LEADING
from labtui.export.layout import Box, ChartItem, Geometry, Item, LaidParagraph, TableItem, TextItem
from labtui.export.shape import bar_series
from labtui.export.table_layout import lay_table

_GUTTER = 28.0
_TITLES = ((13.0, 1), (12.0, 1), (11.0, 1), (10.0, 2))
"""Sizes of a chart's title, and how many lines it may have in each."""
_TOP = 28.0
_NOTE = 10.0
_MOST_NOTES = 4
_MOST_ROWS = 14


def chart_pages(charts: Sequence[ChartSpec], geometry: Geometry) -> list[tuple[Item, ...]]:
    """The items of the pages that charts need."""
    pages = []
    for at in range(0, len(charts), 2):
        pair = charts[at : at + 2]
        cells = [_cell(geometry.body, place) for place in range(2)]
        numbers = _numbers(pair[0], cells[1]) if len(pair) == 1 else []
        if len(pair) == 1 and not numbers:
            cells = [geometry.body]
        items: list[Item] = [_chart(spec, cell) for spec, cell in zip(pair, cells, strict=False)]
        items += numbers
        pages.append(tuple(items))
    return pages


def _cell(body: Box, place: int) -> Box:
    width = (body.w - _GUTTER) / 2
    return Box(body.x + place * (width + _GUTTER), body.y, width, body.h)


def _chart(spec: ChartSpec, cell: Box) -> ChartItem:
    title = _title(f"{spec.title} – practice" if spec.practice else spec.title, cell.w)
    top = _TOP
    notes = [_text(note, _NOTE, cell.w, most=_MOST_NOTES) for note in spec.notes]
    shown = _fitting(notes)
    foot = _MOST_NOTES * _NOTE * LEADING + 6
    box = Box(cell.x, cell.y + top, cell.w, cell.h - top - foot)
    height = sum(len(each.lines) * each.leading for each in shown)
    at = cell.y + top - len(title.lines) * title.leading - 2
    return ChartItem(
        box=box,
        spec=spec,
        title=TextItem(Box(cell.x, at, cell.w, len(title.lines) * title.leading), (title,)),
        notes=TextItem(Box(cell.x, box.bottom + 6, cell.w, height), shown) if shown else None,
    )


def _title(text: str, room: float) -> LaidParagraph:
    for size, most in _TITLES[:-1]:
        if measure.width(text, size, bold=True) <= room:
            return _text(text, size, room, most=most, bold=True)
    size, most = _TITLES[-1]
    return _text(text, size, room, most=most, bold=True)


def _fitting(notes: Sequence[LaidParagraph]) -> tuple[LaidParagraph, ...]:
    """As many notes as there is room for; all of them stand beside the results table anyway."""
    shown: list[LaidParagraph] = []
    for note in notes:
        if sum(len(each.lines) for each in (*shown, note)) <= _MOST_NOTES:
            shown.append(note)
    return tuple(shown)


def _text(text: str, size: float, room: float, *, most: int, bold: bool = False) -> LaidParagraph:
    runs = (Run(" ".join(text.split()), bold=bold, tone="ink" if bold else "quiet"),)
    lines = measure.wrap(runs, size, room)
    if len(lines) > most:
        last = "".join(run.text for run in lines[most - 1]).rstrip()
        while last and measure.width(last + " …", size, bold=bold) > room:
            last = last[:-1]
        lines = (*lines[: most - 1], (Run(last + " …", bold=bold, tone=runs[0].tone),))
    return LaidParagraph(lines, size, size * LEADING, 0.0, 0.0, "", Paragraph(runs))


def _numbers(spec: ChartSpec, cell: Box) -> list[Item]:
    """The chart's numbers as a table, for a chart that stands alone; nothing when they are too many."""
    rows = [
        (clean(series.name), _tick(spec, point.x), clean(point.label) or _plain(spec, point))
        for series in bar_series(spec)
        for point in series.points
    ]
    if not rows or len(rows) > _MOST_ROWS:
        return []
    laid = lay_table(
        Table(("", clean(spec.x_label), clean(spec.y_label)), tuple(rows), (False, True, True)), cell.w
    )
    top = _TOP
    if sum(laid.heights) > cell.h - top:
        return []
    box = Box(cell.x, cell.y + top, sum(laid.widths), sum(laid.heights))
    return [
        TableItem(box, laid.widths, laid.heights, laid.cells, laid.numeric, laid.size, laid.size * LEADING)
    ]


def _plain(spec: ChartSpec, point: Point) -> str:
    """The value of a mark that carries no label, in the digits its bounds allow."""
    value = Interval(
        point.y,
        min(point.y, point.lo) if point.lo is not None else point.y,
        max(point.y, point.hi) if point.hi is not None else point.y,
    )
    return percent_text(value) if spec.percent else plain_seconds_text(value)


def _tick(spec: ChartSpec, x: float) -> str:
    return clean(dict(spec.x_ticks).get(x, f"{x:g}"))
