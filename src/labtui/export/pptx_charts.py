"""Native, editable PowerPoint charts from a `ChartSpec`: columns or XY lines, error bars, labels bound to values.

Colours are those of the theme, so that a dark or a university's template works.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from pptx.chart.data import CategoryChartData, XyChartData
from pptx.enum.chart import XL_CHART_TYPE as KIND
from pptx.enum.chart import XL_LEGEND_POSITION, XL_TICK_LABEL_POSITION, XL_TICK_MARK
from pptx.oxml import parse_xml
from pptx.oxml.ns import qn
from pptx.util import Pt

from labtui.export import chart_geometry, style
from labtui.export.pptx_theme import (
    CHART_NS,
    CHART_TEXT,
    LABEL_PARTS,
    insert_before,
    label_xml,
    literal_numbers,
    marker_element,
    marker_xml,
    plain_line,
    scheme,
    set_line,
    set_look,
    set_point,
)
from labtui.results.charts import ChartSpec, Point, Series, on_even_steps
from labtui.results.numbers import clean

_THIN = 0.07
"""A part of a whole smaller than this has no room for its value."""
_DENSE = 30
"""Series with more points than this are lines without marks."""
_FEW = 4
"""More bars than this have whole percents."""
_MOST_NAMED = 7
_NARROW = 330.0
_MARKS = ("circle", "square", "triangle", "diamond")
_SLOTS = (
    *(scheme("accent1"), scheme("accent2"), scheme("accent3"), scheme("accent4")),
    scheme("tx1", alpha=60),
    *(scheme("accent4", darker=75), scheme("accent2", darker=75), scheme("accent5", darker=75)),
    scheme("accent3", darker=75),
    *(scheme("accent5"), scheme("accent6"), scheme("accent3", darker=60), scheme("accent1", darker=60)),
)
"""The theme's colours by the colour slots of `results.charts`."""
_INK, _QUIET, _PAPER = scheme("tx1"), scheme("tx1", alpha=65), scheme("bg1")


def add_chart(slide: Any, spec: ChartSpec, box: tuple[int, int, int, int], width: float) -> Any:
    """Put a chart on a slide; its numbers are the chart's, unrounded. Gives the shape."""
    spec = on_even_steps(spec)
    kind, data = chart_data(spec)
    frame = slide.shapes.add_chart(kind, *box, data)
    frame.name = f"chart {spec.key}"
    dress_chart(frame.chart, spec, width=width, height=width * box[3] / box[2])
    return frame


def chart_data(spec: ChartSpec) -> tuple[Any, Any]:
    """PowerPoint's chart type and data for a chart."""
    if spec.kind != "lines":
        groups = chart_geometry.categories(spec)
        data: Any = CategoryChartData(number_format="General")  # type: ignore[no-untyped-call]
        data.categories = [clean(name) for _, name in groups]
        for series in (*chart_geometry.bar_series(spec), *chart_geometry.curve_series(spec)):
            marks = chart_geometry.points_at(series)
            data.add_series(clean(series.name), [marks[x].y if x in marks else None for x, _ in groups])
        return (KIND.COLUMN_STACKED if spec.kind == "stacked" else KIND.COLUMN_CLUSTERED), data
    data = XyChartData(number_format="General")  # type: ignore[no-untyped-call]
    for _, (name, points) in _xy_series(spec):
        line = data.add_series(name)
        for x, y in points:
            line.add_data_point(x, y)
    if _labelled_ticks(spec):
        line = data.add_series(" ")
        for x, _ in spec.x_ticks:
            line.add_data_point(x, _lowest(spec))
    return KIND.XY_SCATTER_LINES, data


def _lowest(spec: ChartSpec) -> float:
    return min(0.0, chart_geometry.y_limits(spec, headroom=0.0)[0])


def _xy_series(spec: ChartSpec) -> Iterable[tuple[Series, tuple[str, list[tuple[float, float]]]]]:
    """Each line of a chart with its name and points, the longest first.

    LibreOffice leaves out a line with fewer points than a later one; PowerPoint does not mind the order.
    """
    lines: list[tuple[Series, tuple[str, list[tuple[float, float]]]]] = []
    for series in (*chart_geometry.bar_series(spec), *chart_geometry.curve_series(spec)):
        lines.append((series, (clean(series.name), [(p.x, p.y) for p in _sorted(series)])))
    for band in chart_geometry.band_series(spec):
        points = _sorted(band)
        lows = [(p.x, p.lo if p.lo is not None else p.y) for p in points]
        highs = [(p.x, p.hi if p.hi is not None else p.y) for p in points]
        lines += [(band, (f"{clean(band.name)}, low", lows)), (band, (f"{clean(band.name)}, high", highs))]
    return sorted(lines, key=lambda line: -len(line[1][1]))


def _sorted(series: Series) -> list[Point]:
    return sorted(series.points, key=lambda point: point.x)


def _labelled_ticks(spec: ChartSpec) -> bool:
    """Whether the ticks are labels of an invisible series: 1, 2, 4 and nothing between has no other form.

    Nor has an axis of doublings, whose marks stand at other numbers than are written there.
    """
    xs = [x for x, _ in spec.x_ticks]
    steps = {round(after - before, 6) for before, after in itertools.pairwise(xs)}
    renamed = any(name != f"{x:g}" for x, name in spec.x_ticks)
    return spec.kind == "lines" and 1 < len(xs) <= (12 if renamed else 8) and (len(steps) > 1 or renamed)


# --------------------------------------------------------------------------- looks


def dress_chart(chart: Any, spec: ChartSpec, *, width: float = 418.0, height: float = 299.0) -> None:
    """Colours, labels, error bars and axes of a chart that PowerPoint's data are in; its size in points."""
    chart.font.size = Pt(CHART_TEXT)
    _title(chart, spec, width)
    rows = _legend(chart, spec, width)
    _axes(chart, spec, width)
    plot_width, plot_height = _plot_place(chart, spec, width, height, rows)
    if spec.kind != "lines":
        _dress_bars(chart, spec, plot_width, plot_height)
    else:
        _dress_lines(chart, spec, plot_height / height, plot_height)


def _dress_bars(chart: Any, spec: ChartSpec, width: float, height: float) -> None:
    """`width` and `height` are those of the plot, in points."""
    plot = chart.plots[0]
    bars = chart_geometry.bar_series(spec)
    plot.gap_width = 60 if len(bars) > 1 else 90
    plot.overlap = 100 if spec.kind == "stacked" else -5
    groups = chart_geometry.categories(spec)
    drawn = list(plot.series)
    room = width / max(1, len(groups)) / (len(bars) + 0.6)
    inside = bool(chart_geometry.curve_series(spec))  # a value in its bar is no wider than the bar
    upright = spec.kind != "stacked" and chart_geometry.upright_values(
        spec, room / (1.5 if inside else 1.0), CHART_TEXT
    )
    if upright:
        headroom = chart_geometry.upright_headroom(spec, CHART_TEXT, height)
        chart.value_axis.maximum_scale = chart_geometry.y_limits(spec, headroom=headroom)[1]
    least = 2 * _THIN if not upright else 4.5 * CHART_TEXT / height
    for at, (series, slot) in enumerate(zip(bars, chart_geometry.slots(spec), strict=True)):
        points = [chart_geometry.points_at(series).get(x) for x, _ in groups]
        _fill_bars(drawn[at], _SLOTS[slot], points)
        _labels(drawn[at], spec, points, sides=_bar_sides(spec, points, least), upright=upright)
        if spec.kind != "stacked" or at == 0:
            _error_bars(drawn[at], points)
    for curve in drawn[len(bars) :]:
        _as_ticks(plot, curve, max(7, min(22, round(width / max(1, len(groups)) * 0.5))))


def _fill_bars(drawn: Any, colour: str, points: Sequence[Point | None]) -> None:
    set_look(drawn._element, f"<a:solidFill>{colour}</a:solidFill>")
    drawn.invert_if_negative = False
    for place, point in enumerate(points):
        if point is None or not (point.hollow or point.live):
            continue
        dashed = '<a:prstDash val="dash"/>' if point.hollow else ""
        fill = f"<a:solidFill>{_PAPER}</a:solidFill>"
        if point.live:
            fill = f'<a:pattFill prst="wdUpDiag"><a:fgClr>{colour}</a:fgClr><a:bgClr>{_PAPER}</a:bgClr></a:pattFill>'
        edge = f'<a:ln w="15875"><a:solidFill>{colour}</a:solidFill>{dashed}</a:ln>'
        set_point(drawn._element, place, f'<c:invertIfNegative val="0"/><c:spPr>{fill}{edge}</c:spPr>')


def _bar_sides(spec: ChartSpec, points: Sequence[Point | None], least: float) -> dict[int, str]:
    """Where the value of each bar stands: in it, where it is a part of a whole or at `least` so high, or over it."""
    if chart_geometry.label_mode(spec) == "none":
        return {}
    known = [point for point in points if point is not None]
    if spec.kind == "stacked":
        return {id(point): "ctr" for point in known if point.y >= _THIN}
    high = chart_geometry.y_limits(spec, headroom=0.0)[1] or 1.0
    inside = bool(chart_geometry.curve_series(spec))  # over the bars stand the ticks of the ideal
    return {id(point): "inEnd" if inside and point.y / high > least else "outEnd" for point in known}


def _dress_lines(chart: Any, spec: ChartSpec, share: float, height: float) -> None:
    """`height` is that of the plot in points, `share` the same as a share of the chart's."""
    slots = dict(zip(map(id, chart_geometry.bar_series(spec)), chart_geometry.slots(spec), strict=True))
    sides = _line_sides(spec)
    named = _end_names(spec, share, height) if _named_at_end(spec) else {}
    drawn = list(chart.plots[0].series)
    for line, (series, _) in zip(drawn, _xy_series(spec), strict=False):
        line.smooth = False
        if series.role == "band":
            plain_line(line, _QUIET, dash="", width=9525)
        elif series.role in ("ideal", "fit"):
            dash = "dash" if series.role == "ideal" else "sysDot" if "ustafson" in series.name else ""
            colour = _QUIET if series.hue is None else _SLOTS[series.hue]
            plain_line(line, colour, dash=dash, width=19050)
            _labels(line, spec, _sorted(series), sides={}, colour=colour, name=named.get(id(series)))
        else:
            place = list(slots).index(id(series))
            look = (place, _SLOTS[slots[id(series)]])
            _measured_line(line, spec, _sorted(series), look, sides, name=named.get(id(series)))
    if _labelled_ticks(spec):
        plain_line(drawn[-1], _PAPER, dash="", width=0)
        marks = [Point(x=x, y=0.0, label=name) for x, name in spec.x_ticks]
        _labels(drawn[-1], spec, marks, sides={id(mark): "b" for mark in marks}, typed=True)


def _end_names(spec: ChartSpec, share: float, height: float) -> dict[int, tuple[str, float]]:
    """The name at each line's end, and how far it is moved up from there so that no name covers another.

    By the identity of the series; the way is a share of the chart's height, as PowerPoint wants it.
    """
    low, high = _line_limits(spec)
    lines = [*chart_geometry.bar_series(spec), *chart_geometry.curve_series(spec)]
    ends = sorted(((_sorted(each)[-1].y, each) for each in lines if each.points), key=lambda end: end[0])
    wanted = [(y - low) / ((high - low) or 1.0) * height for y, _ in ends]
    placed = chart_geometry.apart(wanted, 1.2 * CHART_TEXT, height)
    return {
        id(each): (clean(each.name), (at - want) / height * share)
        for (_, each), want, at in zip(ends, wanted, placed, strict=True)
    }


def _line_limits(spec: ChartSpec) -> tuple[float, float]:
    """Where the axis upwards of a line chart begins and ends."""
    low, high = chart_geometry.y_limits(spec, headroom=0.05)
    return min(0.0, low), high


def _line_sides(spec: ChartSpec) -> dict[int, str]:
    """Where the value of each mark stands, as our own drawings find it, among the places PowerPoint knows."""
    first, last = x_range(spec)
    high = chart_geometry.y_limits(spec, headroom=0.05)[1]
    low = min(0.0, chart_geometry.y_limits(spec, headroom=0.05)[0])
    width, height = 360.0, 220.0
    view = chart_geometry.View(
        first, low, width / ((last - first) or 1.0), height / ((high - low) or 1.0), width, height
    )
    spots = chart_geometry.value_spots(spec, view, CHART_TEXT, 1.0, names="tblr")
    return {id(point): spot.name for point, spot in spots}


def _measured_line(
    line: Any,
    spec: ChartSpec,
    points: Sequence[Point],
    look: tuple[int, str],
    sides: Mapping[int, str],
    *,
    name: tuple[str, float] | None,
) -> None:
    """A line with marks, labels and error bars in the colour of its slot; the way from a first epoch is dashed."""
    place, colour = look
    dense = len(points) > _DENSE
    set_look(
        line._element, f'<a:ln w="{15875 if dense else 25400}"><a:solidFill>{colour}</a:solidFill></a:ln>'
    )
    symbol = _MARKS[place % len(_MARKS)]
    line._element.find(qn("c:spPr")).addnext(marker_element("none" if dense else symbol, 8, colour, colour))
    for at, point in enumerate(points):
        second = at == 1 and points[0].hollow
        if point.hollow or point.live or second:
            face = _PAPER if point.hollow or point.live else colour
            marker = marker_xml(symbol, 6 if dense else 9, face, colour)
            dash = '<a:prstDash val="dash"/>' if second else ""
            edge = f'<c:spPr><a:ln w="15875"><a:solidFill>{colour}</a:solidFill>{dash}</a:ln></c:spPr>'
            set_point(line._element, at, marker + (edge if second else ""))
    _labels(line, spec, points, sides=sides, colour=colour, name=name)
    if not dense:
        _error_bars(line, points)


# --------------------------------------------------------------------------- labels, errors, ideal


def _labels(
    drawn: Any,
    spec: ChartSpec,
    points: Sequence[Point | None],
    *,
    sides: Mapping[int, str],
    colour: str = "",
    name: tuple[str, float] | None = None,
    typed: bool = False,
    upright: bool = False,
) -> None:
    """A label per point, bound to its value, in the digits the chart's own label has; `sides` by a point's identity.

    `name`: the last point carries this name right of it, moved up by a share of the chart's height.
    `typed`: the labels are texts of their own, not bound to a value.
    """
    several_bars = len(chart_geometry.bar_series(spec)) > 1
    several = several_bars and spec.kind == "lines"
    marks = []
    for at, point in enumerate(points):
        side = sides.get(id(point)) if point is not None else None
        last = name is not None and at == len(points) - 1
        if point is None or (not last and (not point.label or side is None)):
            continue
        light = side in ("ctr", "inEnd") and not point.hollow and not point.live
        look = _PAPER if light else colour if colour and (several or last) else _INK
        what = {"showVal"} if point.label and side is not None else set()
        form = (
            "0%"
            if spec.percent and spec.kind != "stacked" and (several_bars or len(points) > _FEW)
            else number_format(point.label)
        )
        moved, words = 0.0, clean(point.label) if typed else ""
        if last and name is not None:
            what, moved = what | {"showSerName"}, name[1]
        marks.append(
            label_xml(at, form, "r" if last or side is None else side, look, what, moved=moved, words=words)
        )
    if not marks:
        return
    hidden = "".join(f'<c:{name} val="0"/>' for name in LABEL_PARTS)
    text = "".join(marks)
    if upright:
        text = text.replace('<a:bodyPr wrap="none"/>', '<a:bodyPr rot="-5400000" vert="horz" wrap="none"/>')
    labels = parse_xml(f"<c:dLbls {CHART_NS}>{text}{hidden}</c:dLbls>")
    insert_before(drawn._element, labels, ("c:trendline", "c:errBars", "c:cat", "c:val", "c:xVal"))


def number_format(label: str) -> str:
    """Excel's format that shows a value as this label does: ``84.0 %``, ``6,170``, ``8.10``."""
    found = re.search(r"[\d,]*(?:\.(\d+))?", label.lstrip("-+ "))
    digits = len(found[1]) if found and found[1] else 0
    places = f".{'0' * digits}" if digits else ""
    return f"0{places}\\ %" if "%" in label else f"#,##0{places}"


def _error_bars(drawn: Any, points: Sequence[Point | None]) -> None:
    """Custom error bars that hold the interval of each point."""
    known = [point for point in points if point is not None]
    if not chart_geometry.has_errors(known):
        return
    scatter = drawn._element.find(qn("c:xVal")) is not None
    sizes = [chart_geometry.error_sizes(point) if point is not None else (0.0, 0.0) for point in points]
    low, high = (literal_numbers([size[side] for size in sizes]) for side in (0, 1))
    line = f'<c:spPr><a:ln w="9525"><a:solidFill>{_INK}</a:solidFill></a:ln></c:spPr>'
    direction = '<c:errDir val="y"/>' if scatter else ""
    bars = parse_xml(
        f"<c:errBars {CHART_NS}>{direction}"
        '<c:errBarType val="both"/><c:errValType val="cust"/><c:noEndCap val="0"/>'
        f"<c:plus>{high}</c:plus><c:minus>{low}</c:minus>{line}</c:errBars>"
    )
    insert_before(drawn._element, bars, ("c:cat", "c:val", "c:xVal"))


def _as_ticks(plot: Any, drawn: Any, size: int) -> None:
    """Move a series of a column chart into a line chart on the same axes: a tick over each group, without a line.

    Over the last one stands the name of the series: the legend shows a line's mark, and these have none.
    """
    series = drawn._element
    bars = plot._element
    axes = [axis.get("val") for axis in bars.findall(qn("c:axId"))]
    bars.remove(series)
    for found in series.findall(qn("c:invertIfNegative")):
        series.remove(found)
    set_look(series, "<a:ln><a:noFill/></a:ln>")
    series.find(qn("c:spPr")).addnext(marker_element("dash", size, _INK, _INK))
    series.append(parse_xml(f'<c:smooth {CHART_NS} val="0"/>'))
    last = max(int(point.get("idx")) for point in series.find(qn("c:val")).iter(qn("c:pt")))
    name = label_xml(last, "General", "t", _INK, {"showSerName"})
    hidden = "".join(f'<c:{each} val="0"/>' for each in LABEL_PARTS)
    insert_before(series, parse_xml(f"<c:dLbls {CHART_NS}>{name}{hidden}</c:dLbls>"), ("c:cat", "c:val"))
    line = parse_xml(
        f'<c:lineChart {CHART_NS}><c:grouping val="standard"/><c:varyColors val="0"/><c:marker val="1"/>'
        f'<c:axId val="{axes[0]}"/><c:axId val="{axes[1]}"/></c:lineChart>'
    )
    line.insert(2, series)
    bars.addnext(line)


# --------------------------------------------------------------------------- title, legend, axes


def _title(chart: Any, spec: ChartSpec, width: float) -> None:
    """Title and unit at the upper left, in the chart itself so that they move with it."""
    title = clean(spec.title)
    if style.text_width(title, CHART_TEXT, bold=True) > width * 0.94:
        title = title.partition(", ")[0]
    unit = f"{clean(spec.y_label)}{', %' if spec.percent else ''}"
    lines = "".join(
        f'<a:p><a:pPr algn="l"><a:defRPr sz="{CHART_TEXT * 100}" b="{bold}"/></a:pPr>'
        f'<a:r><a:rPr lang="en-US" sz="{CHART_TEXT * 100}" b="{bold}">'
        f"<a:solidFill>{colour}</a:solidFill></a:rPr><a:t>{escape(text)}</a:t></a:r></a:p>"
        for text, bold, colour in ((title, 1, _INK), (unit, 0, _QUIET))
    )
    xml = parse_xml(
        f"<c:title {CHART_NS}><c:tx><c:rich><a:bodyPr/><a:lstStyle/>{lines}</c:rich></c:tx><c:layout><c:manualLayout>"
        '<c:xMode val="edge"/><c:yMode val="edge"/><c:x val="0"/><c:y val="0"/></c:manualLayout></c:layout>'
        '<c:overlay val="1"/></c:title>'
    )
    inner = chart._chartSpace.chart
    for name in ("c:title", "c:autoTitleDeleted"):
        for old in inner.findall(qn(name)):
            inner.remove(old)
    inner.insert(0, xml)
    xml.addnext(parse_xml(f'<c:autoTitleDeleted {CHART_NS} val="0"/>'))


def _named_at_end(spec: ChartSpec) -> bool:
    """Whether lines carry their names at their ends, as in the PDF, and no legend is needed."""
    lines = [*chart_geometry.bar_series(spec), *chart_geometry.curve_series(spec)]
    return spec.kind == "lines" and 1 < len(lines) <= _MOST_NAMED


def _legend(chart: Any, spec: ChartSpec, width: float) -> int:
    """A legend under the title of bars, under many lines; gives its rows over the plot."""
    several = len(chart_geometry.bar_series(spec)) > 1
    chart.has_legend = several and not _named_at_end(spec)
    if not chart.has_legend:
        return 0
    bars = spec.kind != "lines"
    chart.legend.position = XL_LEGEND_POSITION.TOP if bars else XL_LEGEND_POSITION.BOTTOM
    chart.legend.include_in_layout = False
    place = chart.legend._element.find(qn("c:legendPos"))
    hidden = (
        [at for at, (series, _) in enumerate(_xy_series(spec)) if series.role == "band"] if not bars else []
    )
    hidden += [len(list(_xy_series(spec)))] if _labelled_ticks(spec) else []
    if bars and chart_geometry.curve_series(spec):
        hidden = [len(chart_geometry.bar_series(spec))]
    for at in reversed(hidden):
        place.addnext(
            parse_xml(f'<c:legendEntry {CHART_NS}><c:idx val="{at}"/><c:delete val="1"/></c:legendEntry>')
        )
    return chart_geometry.legend_rows(spec, width, CHART_TEXT) if bars else 0


def _plot_place(chart: Any, spec: ChartSpec, width: float, height: float, rows: int) -> tuple[float, float]:
    """The plot at one place in every chart of a size, so that charts beside each other stand level.

    Gives the plot's width and height in points.
    """
    names = (
        [*chart_geometry.bar_series(spec), *chart_geometry.curve_series(spec)] if _named_at_end(spec) else []
    )
    right = 8.0 + max((style.text_width(clean(each.name), CHART_TEXT) + 50 for each in names), default=0.0)
    left = 8.0 if _bare(spec, width) else 58.0
    top, bottom = 50.0 + 28.0 * rows, 46.0 if spec.kind != "lines" or not chart.has_legend else 96.0
    if spec.kind != "lines":
        labels = [clean(label) for _, label in chart_geometry.categories(spec)]
        slot = max(1.0, (width - left - 8) / max(1, len(labels)))
        widest = max((style.text_width(label, CHART_TEXT) for label in labels), default=0.0)
        bottom += 1.2 * CHART_TEXT * min(2, int(widest / slot))  # names that are wrapped
    place = {
        "x": left / width,
        "y": top / height,
        "w": max(0.3, 1 - (left + min(right, width * 0.45)) / width),
        "h": max(0.25, 1 - (top + bottom) / height),
    }
    edges = '<c:layoutTarget val="inner"/><c:xMode val="edge"/><c:yMode val="edge"/>'
    sizes = "".join(f'<c:{name} val="{value:.5f}"/>' for name, value in place.items())
    plot = chart._chartSpace.chart.plotArea
    for old in plot.findall(qn("c:layout")):
        plot.remove(old)
    plot.insert(
        0, parse_xml(f"<c:layout {CHART_NS}><c:manualLayout>{edges}{sizes}</c:manualLayout></c:layout>")
    )
    return place["w"] * width, place["h"] * height


def _bare(spec: ChartSpec, width: float) -> bool:
    """Whether bars in a narrow chart need no axis of numbers, because each carries its value."""
    return spec.kind != "lines" and width < _NARROW and chart_geometry.label_mode(spec) == "all"


def _axes(chart: Any, spec: ChartSpec, width: float) -> None:
    across, up = chart.category_axis, chart.value_axis
    bare = _bare(spec, width)
    for axis in (across, up):
        axis.major_tick_mark = axis.minor_tick_mark = XL_TICK_MARK.NONE
    _axis_title(across, clean(spec.x_label))
    up.has_title = False
    across.has_major_gridlines = False
    up.has_major_gridlines = not bare
    up.visible = not bare
    if not bare:
        set_line(up._element.find(qn("c:majorGridlines")), scheme("tx1", alpha=15))
        up.format.line.fill.background()
    up.tick_labels.number_format_is_linked = False
    low, high = chart_geometry.y_limits(spec, headroom=0.0)
    up.tick_labels.number_format = '[<1.001]0%;""' if spec.percent else "#,##0" if high >= 10 else "General"
    up.minimum_scale = min(0.0, low)
    if spec.percent and low >= 0 and 0.9 <= high <= 1.06:
        up.maximum_scale, up.major_unit = 1.1, 0.2
    elif spec.y_max is not None:
        up.maximum_scale = spec.y_max * 1.14
    if spec.kind == "lines":
        up.minimum_scale, up.maximum_scale = _line_limits(spec)
        _x_scale(across, spec)
        if _labelled_ticks(spec):
            across.tick_label_position = XL_TICK_LABEL_POSITION.NONE


def _x_scale(axis: Any, spec: ChartSpec) -> None:
    """The range of the marks; a tick for each where they are few and evenly spaced."""
    axis.minimum_scale, axis.maximum_scale = x_range(spec)
    axis.tick_labels.number_format_is_linked = False
    axis.tick_labels.number_format = "General"
    xs = [x for x, _ in spec.x_ticks]
    if len(xs) > 1 and not _labelled_ticks(spec) and xs[-1] - xs[0] <= 12:
        axis.major_unit = max(1.0, xs[1] - xs[0])
        axis.tick_labels.number_format = f'[<{xs[0]:g}]"";[>{xs[-1]:g}]"";General'


def x_range(spec: ChartSpec) -> tuple[float, float]:
    """Where the axis across begins and ends: a little room at either side."""
    xs = [point.x for series in spec.series for point in series.points]
    first, last = min(xs), max(xs)
    if last - first > 12:
        return max(0.0, first - 1), last
    step = (
        1.0
        if all(x == round(x) for x in xs) and not _labelled_ticks(spec)
        else 0.15 * ((last - first) or 1.0)
    )
    return first - step, last + step


def _axis_title(axis: Any, text: str) -> None:
    axis.has_title = bool(text)
    if text:
        frame = axis.axis_title.text_frame
        frame.text = text
        font = frame.paragraphs[0].runs[0].font
        font.size, font.bold = Pt(CHART_TEXT), False
