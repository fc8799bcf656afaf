"""A `ChartSpec` as a native PowerPoint chart, which stays editable; all colours are from the theme.

What python-pptx lacks is written as XML here: error bars, logarithmic axes, moved labels.
"""

import copy
import itertools
import math
from typing import Any

from pptx.chart.data import CategoryChartData, XyChartData
from pptx.enum import chart as xl
from pptx.enum.dml import MSO_LINE_DASH_STYLE
from pptx.enum.dml import MSO_THEME_COLOR as THEME
from pptx.oxml import parse_xml
from pptx.oxml.ns import nsdecls, qn
from pptx.util import Inches, Pt

from labtui.export import drawing
from labtui.export.tables import spreadsheet_cell
from labtui.results import charts as specs
from labtui.results.charts import ChartSpec, Look, Series, has_bar, looks, spread, value_text
from labtui.results.numbers import clean, tick_texts

ACCENTS = [getattr(THEME, f"ACCENT_{at}") for at in (1, 2, 3, 4, 6)] + [THEME.FOLLOWED_HYPERLINK]
QUIET, GRID = THEME.TEXT_2, THEME.BACKGROUND_2
_PARTS = (
    (QUIET, 0.0), (THEME.ACCENT_5, 0.0), (QUIET, 0.4), (THEME.ACCENT_6, 0.0), (THEME.ACCENT_5, 0.5), (GRID, -0.1),
)  # fmt: skip
_MARKS = [xl.XL_MARKER_STYLE[name] for name in ("CIRCLE", "DIAMOND", "TRIANGLE", "SQUARE", "X", "PLUS")]
_DASHES = {"amdahl": MSO_LINE_DASH_STYLE.ROUND_DOT, "gustafson": MSO_LINE_DASH_STYLE.DASH_DOT}
_C = nsdecls("c")
Box = tuple[float, float, float, float]


def add_chart(slide: Any, spec: ChartSpec, box: Box, *, named: bool = True, head: float = 0.0) -> Any:
    """Add a chart to a slide, `box` in inches; panels leave `head` inches for their headings."""
    bars, panel = spec.kind != "lines", drawing.is_panel(spec)
    kind, data = _bar_data(spec) if bars else _line_data(spec)
    chart = slide.shapes.add_chart(kind, *map(Inches, box), data).chart
    _set_font(chart.font, THEME.TEXT_1)
    chart.has_legend, chart.has_title = False, True
    title = clean(spec.heading if panel else spec.y_title)
    size = drawing.TEXT_SIZE if panel else 17
    _set_font(_set_text(chart.chart_title.text_frame, title), THEME.TEXT_1, bold=True, size=size)
    _move(chart._chartSpace.chart.find(qn("c:title")), "c:tx", 0.01, 0.1 * (not panel) / box[3], edge=True)
    if bars:
        _style_bars(chart, spec, box, named=named)
    else:
        _style_lines(chart, spec, box, named=named, head=head)
    return chart


def _set_font(font: Any, colour: Any, *, bold: bool = False, size: int = drawing.TEXT_SIZE) -> None:
    font.size, font.bold, font.color.theme_color = Pt(size), bold, colour


def _set_text(frame: Any, text: str) -> Any:
    """Put a text into a frame; return its font."""
    frame.text = text
    return frame.paragraphs[0].runs[0].font


def _move(element: Any, after: str, x: float, y: float, *size: float, edge: bool = False) -> None:
    """Place a title or the plot (`edge`), or move a label, by fractions of the chart's width and height."""
    for old in element.findall(qn("c:layout")):
        element.remove(old)
    mode = '<c:layoutTarget val="inner"/>' if size else ""
    mode += '<c:xMode val="edge"/><c:yMode val="edge"/>' if edge else ""
    place = "".join(f'<c:{tag} val="{at:.4f}"/>' for tag, at in zip("xywh", (x, y, *size), strict=False))
    layout = parse_xml(f"<c:layout {_C}><c:manualLayout>{mode}{place}</c:manualLayout></c:layout>")
    element.insert(element.index(element.find(qn(after))) + 1 if after else 0, layout)


def _add_label(native: Any, at: int, text: str, colour: Any, side: Any, *, bold: bool = False) -> Any:
    """Label a mark; return the label's XML element."""
    label = native.points[at].data_label
    _set_font(_set_text(label.text_frame, text), colour, bold=bold)
    label.text_frame._txBody.bodyPr.set("wrap", "none")
    label.position = side
    label._dLbl.getparent().find(qn("c:showLeaderLines")).set("val", "0")
    return label._dLbl


def _add_error_bars(native: Any, spec: ChartSpec, series: Series, xs: list[float]) -> None:
    """Add the bounds of the points of a series whose rows are at `xs`."""
    if not any(has_bar(spec, p) for p in series.points):
        return
    parts, ends = "", [(xs.index(point.x), drawing.bounds(point)) for point in series.points]
    for side, tag in ((1, "plus"), (0, "minus")):
        rows = "".join(f'<c:pt idx="{at}"><c:v>{end[side]!r}</c:v></c:pt>' for at, end in ends)
        parts += f'<c:{tag}><c:numLit><c:ptCount val="{len(xs)}"/>{rows}</c:numLit></c:{tag}>'
    kind = '<c:errBarType val="both"/><c:errValType val="cust"/><c:noEndCap val="0"/>'
    before = next(each for each in map(native._element.find, (qn("c:xVal"), qn("c:cat"))) if each is not None)
    before.addprevious(parse_xml(f'<c:errBars {_C}><c:errDir val="y"/>{kind}{parts}</c:errBars>'))


def _style_axes(chart: Any, title: str) -> tuple[Any, Any]:
    """Style both axes without grid and tick marks, in the quiet colour, with the title of x if there is one."""
    across, up = chart.category_axis, chart.value_axis
    for axis in (across, up):
        axis.has_major_gridlines = False
        axis.major_tick_mark = xl.XL_TICK_MARK.NONE
        _set_font(axis.tick_labels.font, QUIET)
        axis._element.txPr.bodyPr.set("rot", "0")  # never rotated
    if title:
        _set_font(_set_text(across.axis_title.text_frame, title), QUIET)
        across.axis_title.text_frame._txBody.bodyPr.set("rot", "0")
    across.format.line.color.theme_color = QUIET
    up.format.line.fill.background()
    return across, up


# --------------------------------------------------------------------------- lines


def _drawn_series(spec: ChartSpec) -> list[Series]:
    """The lines from the bottom to the top, in the order of the other drawer."""
    return [s for s in spec.series if s.role != "measured" and s.points] + drawing.layers(spec)


def _x_values(spec: ChartSpec, series: Series) -> list[float]:
    """The x values of a line: those of its marks and steps, and of the sizes it skips, which become gaps."""
    pieces = specs.line_pieces(spec, series)
    return sorted({point.x for piece in pieces for point in piece}.union(specs.skipped_sizes(spec, series)))


def _line_data(spec: ChartSpec) -> tuple[Any, Any]:
    data: Any = XyChartData(number_format="General")  # type: ignore[no-untyped-call]
    drawn = _drawn_series(spec)
    rows = max(len(_x_values(spec, series)) for series in drawn)
    for series in drawn:
        line = data.add_series(spreadsheet_cell(series.short or series.name))
        values = {point.x: point.y for piece in specs.line_pieces(spec, series) for point in piece}
        xs = _x_values(spec, series)
        # LibreOffice does not draw a first line that has fewer rows than a later one
        for x in xs + xs[-1:] * (rows - len(xs)):
            line.add_data_point(x, values.pop(x, None))
    return xl.XL_CHART_TYPE.XY_SCATTER_LINES, data


def _style_lines(chart: Any, spec: ChartSpec, box: Box, *, named: bool, head: float) -> None:
    """Set style, error bars and labels of all lines; labels at line ends do not touch."""
    drawn, height = _drawn_series(spec), box[3] * 72
    seen, texts = looks(spec.measured), drawing.end_texts(spec, named=named)
    ends: list[tuple[Any, Series, str, Any]] = []
    for native, series in zip(chart.plots[0].series, drawn, strict=True):
        native.smooth = False
        line, colour = native.format.line, QUIET
        native.marker.style = xl.XL_MARKER_STYLE.NONE
        if series.role == "other":
            line.color.theme_color, line.color.brightness, line.width = GRID, -0.1, Pt(1)
            continue
        if series.role != "measured":
            line.color.theme_color, line.width = QUIET, Pt(1.5)
            line.dash_style = _DASHES[series.law.law] if series.law else MSO_LINE_DASH_STYLE.DASH
        else:
            look = seen[series.name]
            wide, size = drawing.line_sizes(series)
            colour, line.width = ACCENTS[look.hue], Pt(wide)
            _set_shade(line.color, look)
            _mark_points(native, spec, series, look, size)
            for point, text, x, y in drawing.mark_numbers(spec, series):
                side = (xl.XL_LABEL_POSITION.RIGHT, xl.XL_LABEL_POSITION.LEFT)[x < 0]
                label = _add_label(native, _x_values(spec, series).index(point.x), text, colour, side)
                _move(label, "c:idx", 0, -y * 10 / height)
        ends += [(native, series, texts[series.name], colour)] if series.name in texts else []
    # PowerPoint draws them by their numbers, LibreOffice the first one over the others
    plot = chart.plots[0]._element
    for each in plot.sers:
        plot.insert(2, each)
    right = min(0.3 + max((drawing.inches(text, 16) for text in texts.values()), default=0), box[2] / 2)
    low, high, left = _axes(chart, spec, box[2] - right - 0.8)
    left, right = (0.22 * box[2], 0.27 * box[2]) if head else (left, right)  # all panels alike
    wide, tall = _place_plot(chart, box, left, head or 0.6, right)
    scale, place = (math.log if log else float for log in (spec.y_log, spec.x_log))
    share = tall * 72 / (scale(high) - scale(low))
    across = chart.category_axis
    inch = wide / (place(across.maximum_scale) - place(across.minimum_scale))
    farthest = max((place(series.points[-1].x) for _, series, *_ in ends), default=0.0)
    gaps = {series.name: inch * (farthest - place(series.points[-1].x)) for _, series, *_ in ends}
    for early in (False, True):  # where its name fits, a line that ends early has it there, crossed by others
        mine = [end for end in ends if end[2] and (gaps[end[1].name] > drawing.inches(end[2]) + 0.3) is early]
        heights = [share * (scale(series.points[-1].y) - scale(low)) for _, series, *_ in mine]
        wanted = [y + 14 * early * drawing.free_side(end[1]) for y, end in zip(heights, mine, strict=True)]
        moves = zip(mine, heights, spread(wanted, 18, 10), strict=True)
        for (native, series, text, colour), at, moved in moves:
            last, bold = len(_x_values(spec, series)) - 1, series.role == "measured"
            label = _add_label(native, last, text, colour, xl.XL_LABEL_POSITION.RIGHT, bold=bold)
            _move(label, "c:idx", (8 / 72 + gaps[series.name] * (not early)) / box[2], (at - moved) / height)


def _place_plot(chart: Any, box: Box, left: float, top: float, right: float) -> tuple[float, float]:
    """Leave so many inches around the plot, so that the axes of charts side by side stand on one line; its size."""
    wide, tall = box[2] - left - right, box[3] - top - 0.65
    places = (left / box[2], top / box[3], wide / box[2], tall / box[3])
    _move(chart._chartSpace.chart.plotArea, "", *places, edge=True)
    return wide, tall


def _set_shade(colour: Any, look: Look) -> None:
    colour.theme_color = ACCENTS[look.hue]
    # as in the other drawers, a tone is a mixture with the page; brightness would keep the saturation
    alpha = f'<a:alpha {nsdecls("a")} val="{100_000 * (1 - drawing.TONES[look.tone]):.0f}"/>'
    colour._color._xClr.append(parse_xml(alpha))


def _mark_points(native: Any, spec: ChartSpec, series: Series, look: Look, size: int) -> None:
    _add_error_bars(native, spec, series, _x_values(spec, series))
    places = {x: at for at, x in enumerate(_x_values(spec, series))}
    hollow = [p.x for p in series.points if p.hollow or (p.live and not spec.over_time)]
    for x in places.keys() - {point.x for point in series.points}:
        native.points[places[x]].marker.style = xl.XL_MARKER_STYLE.NONE
    every = (native.marker,) if len(series.points) <= drawing.MAX_MARKED else ()
    for marker in (*every, *(native.points[places[x]].marker for x in hollow)):
        marker.style, marker.size = _MARKS[look.mark % len(_MARKS)], size
        marker.format.fill.solid()
        inside, edge = marker.format.fill.fore_color, marker.format.line.color
        _set_shade(inside if marker is native.marker else edge, look)
        if look.mark % len(_MARKS) < 4:
            (edge if marker is native.marker else inside).theme_color = THEME.BACKGROUND_1
        else:  # a cross has only edges
            _set_shade(edge, look)


def _axes(chart: Any, spec: ChartSpec, room: float) -> tuple[float, float, float]:
    """Set scales and tick labels of both axes, x in about `room` inches; return y's limits and its labels' width."""
    xs, panel = [p.x for s in spec.series if s.role != "fit" for p in s.points], drawing.is_panel(spec)
    across, up = _style_axes(chart, clean(spec.x_title))
    first, last = min(xs), max(xs)
    across.maximum_scale = last * 1.03**spec.x_log  # LibreOffice cuts a mark at the end of a logarithmic axis
    if spec.x_log:
        doublings = range(math.ceil(math.log2(last / first)) + 1)
        wide = sum(drawing.inches(f" {first * 2**each:,.0f} ", 16) for each in doublings)
        _set_log(across, 4 if panel or wide > room else 2)  # LibreOffice turns labels that would touch
        across.minimum_scale = first / (1 if panel else 2)
        _set_format(across, f'[<{first * 0.99}]"";#,##0')
    else:
        span, ticks = last - first or 1.0, [x for x, _ in drawing.x_ticks(spec, xs)]
        least = min((b - a for a, b in itertools.pairwise(ticks[spec.over_time :])), default=1.0)
        step = max(round(least), math.ceil(span / drawing.MAX_TICKS))
        across.minimum_scale = 0 if spec.over_time or first <= step else first - step
        across.major_unit = float(step)
        # a format hides one kind of numbers: of several that nobody ran, all stand on the axis
        missing = [x for x in range(step, int(last), step) if x not in ticks and not spec.over_time]
        hidden = missing[0] if len(missing) == 1 else 0 if first <= step else f"{first - step:g}"
        _set_format(across, f'[={hidden}]"";#,###')
    (low, high), steps = drawing.y_limits(spec), drawing.y_steps(spec)
    if spec.y_log:
        _set_log(up, drawing.log_ticks(spec)[1] / low)
    else:
        up.major_unit = steps[1] - steps[0]
    up.minimum_scale, up.maximum_scale = low, high
    if drawing.has_numbers(spec) and not spec.percent:
        up.tick_label_position = xl.XL_TICK_LABEL_POSITION.NONE
        return low, high, 0.1
    up.has_major_gridlines = True
    up.major_gridlines.format.line.color.theme_color = GRID
    texts = tick_texts(steps, percent=spec.percent)
    places = max((len(text.partition(".")[2]) for text in texts if not spec.y_log), default=0)
    digits = f"0.{'0' * places}".rstrip(".") if spec.percent else "#,##0.###" if high < 10 else "#,##0"
    digits = "[<0.000009]0E+0;[<0.0009]0.0000#;General" if spec.y_log and low < 1 else digits
    _set_format(up, digits + (unit := drawing.UNITS.get(spec.unit, "")).replace("×", '"×"'))
    return low, high, 0.2 + max(drawing.inches(text + unit) for text in texts)


def _set_format(axis: Any, form: str) -> None:
    axis.tick_labels.number_format, axis.tick_labels.number_format_is_linked = form, False


def _set_log(axis: Any, base: float) -> None:
    axis._element.find(qn("c:scaling")).insert(0, parse_xml(f'<c:logBase {_C} val="{base:g}"/>'))
    axis.major_unit = float(base)


# --------------------------------------------------------------------------- bars


def _categories(spec: ChartSpec) -> list[tuple[float, str]]:
    """The categories; in reverse for rows, which PowerPoint draws from the bottom."""
    return drawing.row_names(spec)[:: -1 if spec.x_axis == "names" else 1]


def _bar_series(spec: ChartSpec) -> list[Series]:
    """The series drawn as bars: the lost parts without the kept one, which rows name; else measured and ideal."""
    ideal = [each for each in spec.series if each.role == "ideal" and each.points]
    return [*(each for each in spec.measured if each.part != "kept"), *ideal]


def _bar_data(spec: ChartSpec) -> tuple[Any, Any]:
    data: Any = CategoryChartData(number_format="General")  # type: ignore[no-untyped-call]
    lost, rows = spec.kind == "stacked", _categories(spec)
    data.categories = [spreadsheet_cell(name) for _, name in rows]
    for series in _bar_series(spec):
        values = {point.x: point.y * (100 if lost else 1) for point in series.points}
        data.add_series(spreadsheet_cell(series.short or series.name), [values.get(x) for x, _ in rows])
    if lost:
        return xl.XL_CHART_TYPE.BAR_STACKED, data
    return xl.XL_CHART_TYPE[f"{'BAR' if spec.x_axis == 'names' else 'COLUMN'}_CLUSTERED"], data


def _draw_as_line(series: Any) -> None:
    """Draw a series of bars as a line over the others."""
    bars, unmarked = series.getparent(), parse_xml(f'<c:marker {_C}><c:symbol val="none"/></c:marker>')
    series.find(qn("c:spPr")).addnext(unmarked)
    series.append(parse_xml(f'<c:smooth {_C} val="0"/>'))
    line = parse_xml(f'<c:lineChart {_C}><c:grouping val="standard"/><c:marker val="1"/></c:lineChart>')
    line.insert(1, series)
    line.extend(map(copy.copy, bars.findall(qn("c:axId"))))
    bars.addnext(line)


def _style_bars(chart: Any, spec: ChartSpec, box: Box, *, named: bool) -> None:
    lost, flat, shown = spec.kind == "stacked", spec.x_axis == "names", _bar_series(spec)
    plot, inside = chart.plots[0], any(series.role == "ideal" for series in shown)
    ends = {} if flat else drawing.bar_ends(spec, named=named)
    plot.gap_width, plot.overlap = 60, 100 if lost else -4
    top = 1.15 * max(p.y + drawing.bounds(p)[1] for s in shown for p in s.points)
    chart.has_legend = lost or (named and len(spec.measured) > 1 and not ends)
    if chart.has_legend:
        chart.legend.position, chart.legend.include_in_layout = xl.XL_LEGEND_POSITION.TOP, False
        chart.legend.font.size = Pt(drawing.TEXT_SIZE)
    _, up = _style_axes(chart, "" if flat else clean(spec.x_label))
    if lost:  # the only bars with an axis in the PDF, too
        _set_format(up, "0")
    else:
        up.tick_label_position = xl.XL_TICK_LABEL_POSITION.NONE
        up.minimum_scale, up.maximum_scale = 0, top
    wide, tall = box[2:]
    if not flat:
        right = 0.3 + max(drawing.inches(text, 16) for text in (*ends.values(), "ideal " * inside))
        wide, tall = _place_plot(chart, box, 0.1, 0.6 + 0.3 * chart.has_legend, right)
    bar = wide / len(spec.x_ticks) / (0.56 + 1.04 * len(spec.measured))
    for native, series in zip(plot.series, shown, strict=True):
        if series.role == "ideal":
            _draw_ideal(native, len(series.points), 1.1 * len(spec.measured) * bar, box[2])
        else:
            _fill_bars(native, spec, series, inside=inside, top=top)
    if ends:
        _name_bars(plot, spec, ends, bar, share=tall * 72 / top, box=box)


def _draw_ideal(native: Any, count: int, wide: float, whole: float) -> None:
    """Draw the ideal as dashes over each of `count` groups of bars, `wide` inches: a line would cross the bars."""
    native.format.line.fill.background()
    dashes = ("– " * math.ceil(wide / drawing.inches("– "))).strip()
    for at in range(count):
        text = dashes + (" ideal" if at == count - 1 else "")
        label = _add_label(native, at, text, QUIET, xl.XL_LABEL_POSITION.CENTER)
    _move(label, "c:idx", drawing.inches(" ideal") / 2 / whole, 0)
    _draw_as_line(native._element)


def _name_bars(
    plot: Any, spec: ChartSpec, texts: dict[str, str], bar: float, *, share: float, box: Box
) -> None:
    """Put these texts right of the last bars, which are `bar` inches wide; a 1 is `share` points high."""
    lines, seen = spec.measured, looks(spec.measured)
    most = max((s.points[-1].y for s in spec.series if s.role == "ideal"), default=math.inf)
    heights = [share * series.points[-1].y for series in lines]
    places = spread([min(y, share * most - 22) for y in heights], 18, 10)
    for at, (series, y, place) in enumerate(zip(lines, heights, places, strict=True)):
        text, colour = texts[series.name], ACCENTS[seen[series.name].hue]
        where = len(spec.x_ticks) - 1, text, colour, xl.XL_LABEL_POSITION.CENTER
        label = _add_label(plot.series[at], *where, bold=True)
        x = (1.04 * (len(lines) - at) - 0.54) * bar + 0.1 + drawing.inches(text, 16) / 2
        _move(label, "c:idx", x / box[2], (y / 2 - place) / 72 / box[3])


def _fill_bars(native: Any, spec: ChartSpec, series: Series, *, inside: bool, top: float) -> None:
    """Fill the bars of a series and put their numbers at them, `inside` where an ideal may be above."""
    lost, flat, look = spec.kind == "stacked", spec.x_axis == "names", looks(spec.measured)[series.name]
    side = getattr(xl.XL_LABEL_POSITION, "CENTER" if lost else "INSIDE_END" if inside else "OUTSIDE_END")
    _add_error_bars(native, spec, series, [x for x, _ in _categories(spec)])
    native.format.fill.solid()
    fill, best = native.format.fill.fore_color, drawing.best_bar(spec)
    if lost:
        fill.theme_color, fill.brightness = _PARTS[series.colour]
    else:
        _set_shade(fill, look)
    dark = inside or (lost and series.colour in drawing.DARK_PARTS)
    points = {point.x: point for point in series.points}
    for at, (x, _) in enumerate(_categories(spec)):
        if (point := points.get(x)) is not None and not (lost and not drawing.part_text(point)):
            text = drawing.part_text(point) if lost else value_text(spec, point).removesuffix("×")
            pale = point.hollow or point.live or (flat and not lost and point is not best)
            text += ", so far" * (flat and point.live and not lost)
            ink = THEME.BACKGROUND_1 if dark and not pale else THEME.TEXT_1
            label = _add_label(native, at, text, ink, side, bold=inside or lost)
            if has_bar(spec, point):  # its number stands beyond its error bar
                below, above = drawing.bounds(point)
                up = (min(below, point.y / 2) if inside else -above) * 0.68 / top
                _move(label, "c:idx", *((-1.2 * up, 0) if flat else (0, up)))
            if pale:
                other = native.points[at].format.fill
                other.solid()
                other.fore_color.theme_color, other.fore_color.brightness = GRID, -0.1
