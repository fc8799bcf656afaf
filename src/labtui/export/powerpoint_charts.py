"""A `ChartSpec` as PowerPoint's own chart, which stays editable; all colours are the theme's.

What python-pptx does not have is XML here: error bars, logarithmic axes, moved labels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from pptx.chart.data import CategoryChartData, XyChartData
from pptx.dml.color import ColorFormat
from pptx.enum.chart import (
    XL_CHART_TYPE,
    XL_LABEL_POSITION,
    XL_LEGEND_POSITION,
    XL_MARKER_STYLE,
    XL_TICK_LABEL_POSITION,
    XL_TICK_MARK,
)
from pptx.enum.dml import MSO_LINE_DASH_STYLE, MSO_THEME_COLOR
from pptx.oxml import parse_xml
from pptx.oxml.ns import nsdecls, qn
from pptx.util import Emu, Pt

from labtui.export.plot_lines import slots, thinned, y_limits, y_ticks
from labtui.results.charts import ChartSpec, Series, spread, value_text
from labtui.results.numbers import clean

ACCENTS = (
    MSO_THEME_COLOR.ACCENT_1, MSO_THEME_COLOR.ACCENT_2, MSO_THEME_COLOR.ACCENT_3, MSO_THEME_COLOR.ACCENT_4,
)  # fmt: skip
QUIET, GRID, OTHER = MSO_THEME_COLOR.TEXT_2, MSO_THEME_COLOR.BACKGROUND_2, MSO_THEME_COLOR.BACKGROUND_2
_MARKS = (
    XL_MARKER_STYLE.CIRCLE, XL_MARKER_STYLE.DIAMOND, XL_MARKER_STYLE.TRIANGLE, XL_MARKER_STYLE.SQUARE,
)  # fmt: skip
TEXT = 15


def add_chart(
    slide: Any,
    spec: ChartSpec,
    box: tuple[int, int, int, int],
    *,
    chosen: Sequence[Series] = (),
    heading: str = "",
    named: bool = True,
) -> Any:
    """Put a chart on a slide, `box` in EMU; with `chosen` these lines in colour and the others in grey."""
    bars = spec.kind != "lines"
    kind, data = (_bar_data if bars else _line_data)(spec)
    chart = slide.shapes.add_chart(kind, *(Emu(each) for each in box), data).chart
    chart.font.size = Pt(TEXT)
    chart.font.color.theme_color = MSO_THEME_COLOR.TEXT_1
    chart.has_legend = False
    chart.has_title = True
    title = chart.chart_title.text_frame
    title.text = heading or clean(spec.heading or spec.title)
    title.paragraphs[0].runs[0].font.size, title.paragraphs[0].runs[0].font.bold = Pt(17), True
    _move(chart._chartSpace.chart.find(qn("c:title")), 0.01, 0.0)
    if bars:
        _dress_bars(chart, spec)
    else:
        _dress_lines(chart, spec, box, chosen, named=named)
    return chart


def _colour(colour: ColorFormat, theme: Any, brightness: float = 0.0) -> None:
    colour.theme_color = theme
    if brightness:
        colour.brightness = brightness


# --------------------------------------------------------------------------- lines


def _line_data(spec: ChartSpec) -> tuple[Any, Any]:
    data: Any = XyChartData(number_format="General")  # type: ignore[no-untyped-call]
    for series in _drawn(spec):
        line = data.add_series(clean(series.short or series.name))
        own = {point.x for point in series.points}
        points = sorted(series.points, key=lambda point: point.x)
        gaps = [
            x
            for x, _ in spec.x_ticks
            if spec.x_axis in ("counts", "batch") and points[0].x < x < points[-1].x
        ]
        for x in sorted(own | set(gaps)):
            point = next((each for each in points if each.x == x), None)
            line.add_data_point(x, point.y if point is not None else None)
    return XL_CHART_TYPE.XY_SCATTER_LINES, data


def _drawn(spec: ChartSpec) -> list[Series]:
    """Measured lines first, then ideal, laws and outlook; bands are left to the pictures."""
    others = [each for each in spec.series if each.role in ("ideal", "fit", "reference") and each.points]
    return [*spec.measured, *others]


def _dress_lines(
    chart: Any, spec: ChartSpec, box: tuple[int, int, int, int], chosen: Sequence[Series], *, named: bool
) -> None:
    places = slots(spec)
    drawn = _drawn(spec)
    measured = [each for each in drawn if each.role == "measured"]
    labelled = not spec.over_time and len(measured) <= 2 and len(spec.x_ticks) <= 4 and not chosen
    ends: list[tuple[Any, Series, float, str, Any]] = []
    for native, series in zip(chart.plots[0].series, drawn, strict=True):
        native.smooth = False
        place = chosen.index(series) % len(ACCENTS) if series in chosen else places.get(series.name, 0)
        if series.role != "measured":
            _quiet_line(native, dashed=series.role != "fit")
            colour: Any = QUIET
        elif chosen and series not in chosen:
            native.marker.style = XL_MARKER_STYLE.NONE
            _colour(native.format.line.color, OTHER, -0.1)
            native.format.line.width = Pt(1)
            continue
        else:
            colour = ACCENTS[place]
            _colour_line(native, colour, _MARKS[place], marked=len(series.points) <= 14)
            if not spec.over_time:
                _error_bars(native, series)
            if labelled:
                _numbers(native, spec, series, colour)
        text = _end_text(spec, series, named=named and len(chosen or measured) > 1)
        ends.append((native, series, max(series.points, key=lambda p: p.x).y, text, colour))
    low, high = _axes(chart, spec, labelled=labelled)
    height = box[3] / 12700 * 0.68
    where = [
        math.log(y / low) / math.log(high / low) if spec.y_log else (y - low) / (high - low)
        for _, _, y, _, _ in ends
    ]
    placed = spread([share * height for share in where], 18)
    for (native, series, _, text, colour), share, moved in zip(ends, where, placed, strict=True):
        if text:
            shift = (share * height - moved) / (box[3] / 12700)
            _label(
                native,
                len(list(native.values)) - 1,
                text,
                colour,
                XL_LABEL_POSITION.RIGHT,
                shift=shift,
                bold=series.role == "measured",
            )


def _quiet_line(native: Any, *, dashed: bool) -> None:
    native.marker.style = XL_MARKER_STYLE.NONE
    _colour(native.format.line.color, QUIET)
    native.format.line.width = Pt(1.5)
    if dashed:
        native.format.line.dash_style = MSO_LINE_DASH_STYLE.DASH


def _colour_line(native: Any, colour: Any, mark: Any, *, marked: bool) -> None:
    _colour(native.format.line.color, colour)
    native.format.line.width = Pt(2.5)
    native.marker.style = mark if marked else XL_MARKER_STYLE.NONE
    if marked:
        native.marker.size = 8
        native.marker.format.fill.solid()
        _colour(native.marker.format.fill.fore_color, colour)
        _colour(native.marker.format.line.color, MSO_THEME_COLOR.BACKGROUND_1)


def _end_text(spec: ChartSpec, series: Series, *, named: bool) -> str:
    last = max(series.points, key=lambda point: point.x)
    if series.role != "measured":
        return " ".join(filter(None, (last.label, clean(series.short or series.name))))
    value = value_text(spec, last) if last.label or spec.percent else ""
    return " ".join(filter(None, (value, clean(series.short or series.name) if named else "")))


def _numbers(native: Any, spec: ChartSpec, series: Series, colour: Any) -> None:
    """The value at each mark but the last, on the side that the line leaves free."""
    points = sorted(series.points, key=lambda point: point.x)
    places = [x for x, _ in spec.x_ticks if points[0].x <= x <= points[-1].x] or [p.x for p in points]
    for at, point in enumerate(points[:-1]):
        if spec.unit in ("×", "%") and at == 0 and abs(point.y - 1) < 1e-9:
            continue
        rivals = [p.y for each in spec.measured if each is not series for p in each.points if p.x == point.x]
        falls = points[at + 1].y < point.y
        above = all(y <= point.y for y in rivals) if rivals else True
        side = XL_LABEL_POSITION.RIGHT if at and above == falls else XL_LABEL_POSITION.LEFT
        _label(native, places.index(point.x), value_text(spec, point), colour, side)


def _label(
    native: Any, at: int, text: str, colour: Any, side: Any, *, shift: float = 0.0, bold: bool = False
) -> None:
    label = native.points[at].data_label
    frame = label.text_frame
    frame.text = text
    frame._txBody.bodyPr.set("wrap", "none")
    run = frame.paragraphs[0].runs[0]
    run.font.size, run.font.bold = Pt(TEXT), bold
    run.font.color.theme_color = colour
    label.position = side
    if abs(shift) > 0.004:
        _move(label._dLbl, 0.0, shift, after="c:idx")


def _move(element: Any, x: float, y: float, after: str = "") -> None:
    """Where a title stands, or by how much a label is moved: shares of the chart."""
    for old in element.findall(qn("c:layout")):
        element.remove(old)
    mode = "" if after else '<c:xMode val="edge"/><c:yMode val="edge"/>'
    layout = parse_xml(
        f"<c:layout {nsdecls('c')}><c:manualLayout>"
        f'{mode}<c:x val="{x:.4f}"/><c:y val="{y:.4f}"/></c:manualLayout></c:layout>'
    )
    before = element.find(qn(after or "c:tx"))
    before.addnext(layout)


def _error_bars(native: Any, series: Series) -> None:
    points = sorted(series.points, key=lambda point: point.x)
    if not any(p.lo is not None and p.hi is not None and p.hi - p.lo > 0.05 * abs(p.y) for p in points):
        return
    up = [max(0.0, (p.hi if p.hi is not None else p.y) - p.y) for p in points]
    down = [max(0.0, p.y - (p.lo if p.lo is not None else p.y)) for p in points]

    def values(tag: str, numbers: Sequence[float]) -> str:
        rows = "".join(f'<c:pt idx="{at}"><c:v>{number!r}</c:v></c:pt>' for at, number in enumerate(numbers))
        return f'<c:{tag}><c:numLit><c:ptCount val="{len(numbers)}"/>{rows}</c:numLit></c:{tag}>'

    bars = parse_xml(
        f'<c:errBars {nsdecls("c")}><c:errDir val="y"/>'
        f'<c:errBarType val="both"/><c:errValType val="cust"/><c:noEndCap val="0"/>{values("plus", up)}'
        f"{values('minus', down)}</c:errBars>"
    )
    at = native._element.find(qn("c:xVal"))
    (native._element.find(qn("c:cat")) if at is None else at).addprevious(bars)


def _quiet_axes(chart: Any, title: str) -> tuple[Any, Any]:
    """Both axes without grid and marks, in the quiet colour; a title below, where there is one."""
    across, up = chart.category_axis, chart.value_axis
    for axis in (across, up):
        axis.has_major_gridlines = False
        axis.major_tick_mark = XL_TICK_MARK.NONE
        axis.tick_labels.font.size = Pt(TEXT)
        axis.tick_labels.font.color.theme_color = QUIET
    if title:
        across.axis_title.text_frame.text = title
        run = across.axis_title.text_frame.paragraphs[0].runs[0]
        run.font.size, run.font.bold = Pt(TEXT), False
        run.font.color.theme_color = QUIET
    _colour(across.format.line.color, QUIET)
    up.format.line.fill.background()
    return across, up


def _axes(chart: Any, spec: ChartSpec, *, labelled: bool) -> tuple[float, float]:
    points = [p for s in _drawn(spec) if s.role != "fit" for p in s.points]
    low, high = y_limits(spec, [p.y for p in points])
    xs = [p.x for p in points]
    across, up = _quiet_axes(chart, clean(spec.x_label))
    if spec.x_log:
        _log(across, 2)
        across.minimum_scale, across.maximum_scale = min(xs) / 2, max(xs) * 2.8
        across.tick_labels.number_format, across.tick_labels.number_format_is_linked = (
            f'[>{max(xs):g}]"";[<1]"";#,##0',
            False,
        )
    else:
        span = max(xs) - min(xs) or 1.0
        names = [x for x, _ in thinned(spec, xs)]
        step = min((b - a for a, b in itertools.pairwise(names)), default=1.0)
        across.minimum_scale = 0 if spec.over_time or min(xs) <= 1 else min(xs) - span * 0.1
        across.maximum_scale = max(xs) + span * (0.22 if spec.over_time else 0.45)
        across.major_unit = (
            max(1.0, float(round(step))) if not spec.over_time else max(1.0, float(round(span / 6)))
        )
        wanted = {x for x, _ in spec.x_ticks}
        hidden = [x for x in range(1, int(max(xs))) if x not in wanted] if not spec.over_time else []
        skip = "".join(f'[={x}]"";' for x in hidden[:1])
        across.tick_labels.number_format = f'[>{max(xs):g}]"";{skip}#'
        across.tick_labels.number_format_is_linked = False
    if spec.y_log:
        _log(up, 10)
        low, high = 10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high))
    up.minimum_scale, up.maximum_scale = low, high
    if labelled:
        up.tick_label_position = XL_TICK_LABEL_POSITION.NONE
        return low, high
    up.has_major_gridlines = True
    _colour(up.major_gridlines.format.line.color, GRID)
    up.tick_labels.number_format = "0 %" if spec.percent else "#,##0.###" if high < 10 else "#,##0"
    up.tick_labels.number_format_is_linked = False
    if not spec.y_log and len(ticks := y_ticks(low, high, log=False)) > 1:
        up.major_unit = ticks[1] - ticks[0]
    return low, high


def _log(axis: Any, base: int) -> None:
    axis._element.find(qn("c:scaling")).insert(0, parse_xml(f'<c:logBase {nsdecls("c")} val="{base}"/>'))
    axis.major_unit = float(base)


# --------------------------------------------------------------------------- bars


def _bar_data(spec: ChartSpec) -> tuple[Any, Any]:
    data: Any = CategoryChartData(number_format="General")  # type: ignore[no-untyped-call]
    flat = spec.x_axis == "names"
    ticks = list(spec.x_ticks)[::-1] if flat else list(spec.x_ticks)
    lost = any(series.part for series in spec.series)
    data.categories = [_category(spec, x, label) for x, label in ticks]
    for series in _barred(spec):
        values = {point.x: point.y for point in series.points}
        factor = 100.0 if lost else 1.0
        data.add_series(
            clean(series.short or series.name),
            [None if (y := values.get(x)) is None else factor * y for x, _ in ticks],
        )
    if lost:
        return XL_CHART_TYPE.BAR_STACKED, data
    return (XL_CHART_TYPE.BAR_CLUSTERED if flat else XL_CHART_TYPE.COLUMN_CLUSTERED), data


def _barred(spec: ChartSpec) -> list[Series]:
    """The series that are bars: what was kept is in the names of the rows, the ideal stands beside the measured."""
    ideal = [each for each in spec.series if each.role == "ideal" and each.points]
    return [*(each for each in spec.measured if each.part != "kept"), *ideal]


def _category(spec: ChartSpec, x: float, label: str) -> str:
    kept = {p.x: p.label for s in spec.measured if s.part == "kept" for p in s.points}
    name = clean(label) if not (spec.kind == "stacked" and label.isdecimal()) else f"{label} GPUs"
    return f"{name}, {kept[x]} efficient" if x in kept else name


def _dress_bars(chart: Any, spec: ChartSpec) -> None:
    places = slots(spec)
    lost = any(series.part for series in spec.series)
    plot = chart.plots[0]
    plot.gap_width = 60
    plot.overlap = 100 if lost else -4
    shown = _barred(spec)
    flat = spec.x_axis == "names"
    order = [x for x, _ in (list(spec.x_ticks)[::-1] if flat else spec.x_ticks)]
    for place, (native, series) in enumerate(zip(plot.series, shown, strict=True)):
        if series.role == "ideal":
            native.format.fill.background()
            _colour(native.format.line.color, QUIET)
            native.format.line.dash_style = MSO_LINE_DASH_STYLE.DASH
            continue
        if not flat:
            _error_bars(native, series)
        native.format.fill.solid()
        parts = (ACCENTS[2], ACCENTS[1], MSO_THEME_COLOR.ACCENT_5, ACCENTS[3])
        colour = parts[place % 4] if lost else ACCENTS[places.get(series.name, 0)]
        hollow = all(point.hollow for point in series.points)
        _colour(native.format.fill.fore_color, colour, 0.6 if hollow else 0.0)
        for at, x in enumerate(order):
            point = next((each for each in series.points if each.x == x), None)
            if point is None:
                continue
            text = point.label.removesuffix(" %") if lost else value_text(spec, point)
            if lost and abs(point.y) < 0.012:
                continue
            label = native.points[at].data_label
            label.text_frame.text = text
            label.text_frame.paragraphs[0].runs[0].font.size = Pt(TEXT)
            label.position = XL_LABEL_POSITION.CENTER if lost else XL_LABEL_POSITION.OUTSIDE_END
    if len(shown) > 1:
        chart.has_legend = True
        chart.legend.position, chart.legend.include_in_layout = XL_LEGEND_POSITION.TOP, False
        chart.legend.font.size = Pt(TEXT)
    _, up = _quiet_axes(chart, "" if flat else clean(spec.x_label))
    up.tick_label_position = XL_TICK_LABEL_POSITION.NONE
    up.minimum_scale = 0
