"""Native, editable PowerPoint charts from a `ChartSpec`: columns or XY lines, error bars, labels bound to values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from labtui.core.charts import ChartSpec, Point, Series, stacked
from labtui.core.results.numbers import clean
from labtui.export import shape, style
from labtui.export.pptx_axes import NS, TEXT, dress_axes, rgb, tag, x_range

_THIN = 0.045
"""A part of a whole smaller than this has no room for its value."""
_DENSE = 30
"""Series with more points than this are lines without marks."""


def chart_data(spec: ChartSpec) -> tuple[Any, Any]:
    """PowerPoint's chart type and data for a chart; the numbers are the chart's, unrounded."""
    from pptx.chart.data import CategoryChartData, XyChartData
    from pptx.enum.chart import XL_CHART_TYPE as KIND

    if spec.kind == "bars":
        groups = shape.categories(spec)
        data = CategoryChartData(number_format="General")
        data.categories = [clean(name) for _, name in groups]
        for series in (*shape.bar_series(spec), *shape.curve_series(spec)):
            points = shape.points_at(series)
            data.add_series(clean(series.name), [points[x].y if x in points else None for x, _ in groups])
        return (KIND.COLUMN_STACKED if stacked(spec) else KIND.COLUMN_CLUSTERED), data
    data = XyChartData(number_format="General")
    for _, (name, points) in _xy_series(spec):
        line = data.add_series(name)
        for x, y in points:
            line.add_data_point(x, y)
    return KIND.XY_SCATTER_LINES, data


def _xy_series(spec: ChartSpec) -> Iterable[tuple[Series, tuple[str, list[tuple[float, float]]]]]:
    """Each line of a chart with its name and points, the longest first.

    LibreOffice leaves out a line with fewer points than a later one; PowerPoint does not mind the order.
    """
    lines: list[tuple[Series, tuple[str, list[tuple[float, float]]]]] = []
    for series in (*shape.bar_series(spec), *shape.curve_series(spec)):
        lines.append((series, (clean(series.name), [(p.x, p.y) for p in _sorted(series)])))
    for band in shape.band_series(spec):
        points = _sorted(band)
        lows = [(p.x, p.lo if p.lo is not None else p.y) for p in points]
        highs = [(p.x, p.hi if p.hi is not None else p.y) for p in points]
        lines += [(band, (f"{clean(band.name)}, low", lows)), (band, (f"{clean(band.name)}, high", highs))]
    return sorted(lines, key=lambda line: -len(line[1][1]))


def _sorted(series: Series) -> list[Point]:
    return sorted(series.points, key=lambda point: point.x)


# --------------------------------------------------------------------------- looks


def dress_chart(chart: Any, spec: ChartSpec, *, width: float = 418.0, height: float = 299.0) -> None:
    """Colours, labels, error bars and axes of a chart that PowerPoint's data are in; its size in points."""
    from pptx.util import Pt

    chart.has_title = False
    chart.font.size = Pt(TEXT)
    chart.font.color.rgb = rgb(style.INK)
    if spec.kind == "bars":
        _dress_bars(chart, spec)
    else:
        _dress_lines(chart, spec)
    bands = [at for at, (series, _) in enumerate(_xy_series(spec)) if series.role == "band"]
    dress_axes(chart, spec, bands if spec.kind == "lines" else (), width, height)


def _dress_bars(chart: Any, spec: ChartSpec) -> None:
    plot = chart.plots[0]
    several = len(shape.bar_series(spec)) > 1
    plot.gap_width = 60 if several else 90
    plot.overlap = 100 if stacked(spec) else -5
    groups = shape.categories(spec)
    drawn = list(plot.series)
    bars = shape.bar_series(spec)
    for at, series in enumerate(bars):
        points = [shape.points_at(series).get(x) for x, _ in groups]
        _fill_bars(drawn[at], at, points)
        _labels(drawn[at], points, sides=_bar_sides(spec, points))
        if not stacked(spec) or at == 0:
            _error_bars(drawn[at], points)
    for curve in drawn[len(bars) :]:
        _as_line(plot, curve)


def _fill_bars(drawn: Any, at: int, points: Sequence[Point | None]) -> None:
    shade = rgb(style.colour(at))
    drawn.format.fill.solid()
    drawn.format.fill.fore_color.rgb = shade
    drawn.invert_if_negative = False
    for place, point in enumerate(points):
        if point is None or not (point.hollow or point.live):
            continue
        look = drawn.points[place].format
        if point.live:
            from pptx.enum.dml import MSO_PATTERN

            look.fill.patterned()
            look.fill.pattern = MSO_PATTERN.WIDE_UPWARD_DIAGONAL
            look.fill.fore_color.rgb = shade
            look.fill.back_color.rgb = rgb(style.PAPER)
        else:
            look.fill.solid()
            look.fill.fore_color.rgb = rgb(style.PAPER)
        look.line.color.rgb = shade


def _bar_sides(spec: ChartSpec, points: Sequence[Point | None]) -> dict[int, str]:
    """Where the value of each bar stands: in a part of a whole, at the top within a bar, or over it."""
    if shape.label_mode(spec) == "none":
        return {}
    known = [point for point in points if point is not None]
    if stacked(spec):
        return {id(point): "ctr" for point in known if point.y >= _THIN}
    high = shape.y_limits(spec, headroom=0.0)[1] or 1.0
    inside = shape.labels_in_bars(spec)
    return {id(point): "inEnd" if inside and point.y / high > 2 * _THIN else "outEnd" for point in known}


def _dress_lines(chart: Any, spec: ChartSpec) -> None:
    measured = shape.bar_series(spec)
    sides = _line_sides(spec)
    for line, (series, _) in zip(chart.plots[0].series, _xy_series(spec), strict=True):
        if series.role == "band":
            _plain_line(line, style.SERIES[5], dashed=False, width=0.75)
        elif series.role in ("ideal", "fit"):
            ideal = series.role == "ideal"
            _plain_line(line, style.QUIET if ideal else style.SERIES[5], dashed=ideal)
        else:
            at = next(place for place, each in enumerate(measured) if each is series)
            _measured_line(line, _sorted(series), at, sides, several=len(measured) > 1)


def _line_sides(spec: ChartSpec) -> dict[int, str]:
    """Where the value of each mark stands, as our own drawings find it, among the places PowerPoint knows."""
    first, last = x_range(spec)
    high = shape.y_limits(spec, headroom=0.05)[1]
    low = min(0.0, shape.y_limits(spec, headroom=0.05)[0])
    width, height = 360.0, 220.0
    view = shape.View(
        first, low, width / ((last - first) or 1.0), height / ((high - low) or 1.0), width, height
    )
    spots = shape.value_spots(spec, view, TEXT, 1.0, names="tblr")
    return {id(point): spot.name for point, spot in spots}


def _measured_line(
    line: Any, points: Sequence[Point], at: int, sides: Mapping[int, str], *, several: bool
) -> None:
    """A line with marks, labels and error bars in the colour of its place."""
    from pptx.util import Pt

    line.smooth = False
    line.format.line.color.rgb = rgb(style.colour(at))
    line.format.line.width = Pt(1.25 if len(points) > _DENSE else 2)
    _marks(line, at, points)
    _labels(line, points, sides=sides, shade=style.colour(at) if several else style.INK)
    if len(points) <= _DENSE:
        _error_bars(line, points)


def _marks(line: Any, at: int, points: Sequence[Point]) -> None:
    from pptx.enum.chart import XL_MARKER_STYLE as MARK

    marks = (MARK.CIRCLE, MARK.SQUARE, MARK.TRIANGLE, MARK.DIAMOND)
    shade = rgb(style.colour(at))
    dense = len(points) > _DENSE
    if dense:
        line.marker.style = MARK.NONE
    else:
        line.marker.style, line.marker.size = marks[at % len(marks)], 8
        line.marker.format.fill.solid()
        line.marker.format.fill.fore_color.rgb = shade
        line.marker.format.line.color.rgb = shade
    for place, point in enumerate(points):
        if point.hollow or point.live:
            mark = line.points[place].marker
            mark.style, mark.size = marks[at % len(marks)], 6 if dense else 9
            mark.format.fill.solid()
            mark.format.fill.fore_color.rgb = rgb(style.PAPER)
            mark.format.line.color.rgb = shade


def _plain_line(line: Any, shade: str, *, dashed: bool, width: float = 1.5) -> None:
    from pptx.enum.chart import XL_MARKER_STYLE
    from pptx.enum.dml import MSO_LINE
    from pptx.util import Pt

    line.marker.style = XL_MARKER_STYLE.NONE
    line.smooth = False
    line.format.line.color.rgb = rgb(shade)
    line.format.line.width = Pt(width)
    if dashed:
        line.format.line.dash_style = MSO_LINE.DASH


# --------------------------------------------------------------------------- labels, errors, ideal line


def _labels(
    drawn: Any, points: Sequence[Point | None], *, sides: Mapping[int, str], shade: str = style.INK
) -> None:
    """A label per point, bound to its value, in the digits the chart's own label has; `sides` by a point's identity."""
    from pptx.oxml import parse_xml

    marks = []
    for at, point in enumerate(points):
        if point is None or not point.label or (side := sides.get(id(point))) is None:
            continue
        light = side in ("ctr", "inEnd") and not point.hollow and not point.live
        marks.append(_label_xml(at, number_format(point.label), side, style.PAPER if light else shade))
    if not marks:
        return
    hidden = "".join(f'<c:{name} val="0"/>' for name in _SHOWN)
    labels = parse_xml(f"<c:dLbls {NS}>{''.join(marks)}{hidden}</c:dLbls>")
    _insert(drawn._element, labels, ("c:trendline", "c:errBars", "c:cat", "c:val", "c:xVal"))


_SHOWN = ("showLegendKey", "showVal", "showCatName", "showSerName", "showPercent", "showBubbleSize")


def _label_xml(at: int, form: str, position: str, colour: str) -> str:
    shade = colour.lstrip("#").upper()
    shown = "".join(f'<c:{name} val="{int(name == "showVal")}"/>' for name in _SHOWN)
    return (
        f'<c:dLbl><c:idx val="{at}"/><c:numFmt formatCode="{form}" sourceLinked="0"/><c:spPr/>'
        f'<c:txPr><a:bodyPr/><a:lstStyle/><a:p><a:pPr><a:defRPr sz="{TEXT * 100}" b="0"><a:solidFill>'
        f'<a:srgbClr val="{shade}"/></a:solidFill></a:defRPr></a:pPr><a:endParaRPr lang="en-US"/></a:p></c:txPr>'
        f'<c:dLblPos val="{position}"/>{shown}</c:dLbl>'
    )


def number_format(label: str) -> str:
    """Excel's format that shows a value as this label does: ``84.0 %``, ``6,174``, ``8.099``."""
    found = re.search(r"[\d,]*(?:\.(\d+))?", label.lstrip("-+ "))
    digits = len(found[1]) if found and found[1] else 0
    places = f".{'0' * digits}" if digits else ""
    return f"0{places}\\ %" if "%" in label else f"#,##0{places}"


def _error_bars(drawn: Any, points: Sequence[Point | None]) -> None:
    """Custom error bars that hold the interval of each point."""
    from pptx.oxml import parse_xml

    known = [point for point in points if point is not None]
    if not shape.has_errors(known):
        return
    scatter = drawn._element.find(tag("c:xVal")) is not None
    sizes = [shape.error_sizes(point) if point is not None else (0.0, 0.0) for point in points]
    low, high = (_literal([size[side] for size in sizes]) for side in (0, 1))
    line = '<c:spPr><a:ln w="9525"><a:solidFill><a:srgbClr val="1F2A33"/></a:solidFill></a:ln></c:spPr>'
    direction = '<c:errDir val="y"/>' if scatter else ""
    bars = parse_xml(
        f"<c:errBars {NS}>{direction}"
        '<c:errBarType val="both"/><c:errValType val="cust"/><c:noEndCap val="0"/>'
        f"<c:plus>{high}</c:plus><c:minus>{low}</c:minus>{line}</c:errBars>"
    )
    _insert(drawn._element, bars, ("c:cat", "c:val", "c:xVal"))


def _literal(values: Sequence[float]) -> str:
    points = "".join(f'<c:pt idx="{at}"><c:v>{value!r}</c:v></c:pt>' for at, value in enumerate(values))
    return (
        f'<c:numLit><c:formatCode>General</c:formatCode><c:ptCount val="{len(values)}"/>{points}</c:numLit>'
    )


def _as_line(plot: Any, drawn: Any) -> None:
    """Move a series of a column chart into a line chart on the same axes: the dashed ideal."""
    from pptx.oxml import parse_xml

    series = drawn._element
    bars = plot._element
    axes = [axis.get("val") for axis in bars.findall(tag("c:axId"))]
    bars.remove(series)
    for name in ("c:invertIfNegative", "c:spPr"):
        for found in series.findall(tag(name)):
            series.remove(found)
    looks = parse_xml(
        f'<c:spPr {NS}><a:ln w="19050"><a:solidFill><a:srgbClr val="{style.QUIET.lstrip("#").upper()}"/></a:solidFill>'
        '<a:prstDash val="dash"/></a:ln></c:spPr>'
    )
    series.find(tag("c:tx")).addnext(looks)
    looks.addnext(parse_xml(f'<c:marker {NS}><c:symbol val="none"/></c:marker>'))
    series.append(parse_xml(f'<c:smooth {NS} val="0"/>'))
    line = parse_xml(
        f'<c:lineChart {NS}><c:grouping val="standard"/><c:varyColors val="0"/><c:marker val="1"/>'
        f'<c:axId val="{axes[0]}"/><c:axId val="{axes[1]}"/></c:lineChart>'
    )
    line.insert(2, series)
    bars.addnext(line)


def _insert(parent: Any, child: Any, before: Sequence[str]) -> None:
    """Put a child where the schema wants it: before the first of these elements."""
    tags = {tag(name) for name in before}
    for place, found in enumerate(parent):
        if found.tag in tags:
            parent.insert(place, child)
            return
    parent.append(child)
