"""Axes, legend and the place of the plot in PowerPoint's native charts, and small helpers for their XML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labtui.core.charts import ChartSpec, Series
from labtui.core.results.numbers import clean
from labtui.export import shape, style

TEXT = 10
_MARGINS = (54.0, 8.0, 10.0, 70.0)
"""Points left of, over, right of and under a chart's plot: for numbers, names of axes and a legend of two lines."""
_THIRD_LINE = 18.0
_MOST_TICKS = 12

NS = (
    'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
)


def dress_axes(chart: Any, spec: ChartSpec, bands: Sequence[int], width: float, height: float) -> None:
    """Axes, legend and the plot's place in a chart of this size; `bands` are the series that are edges of a band."""
    _legend(chart, spec, bands)
    _axes(chart, spec)
    _plot_place(chart, width, height, legend=len(_named(spec)))


def tag(name: str) -> str:
    """The full name of an element such as ``c:legend``."""
    from pptx.oxml.ns import qn

    return str(qn(name))


def _legend(chart: Any, spec: ChartSpec, bands: Sequence[int]) -> None:
    """A legend under the chart, without the edges of a band: the curve between them is named."""
    from pptx.enum.chart import XL_LEGEND_POSITION
    from pptx.oxml import parse_xml
    from pptx.util import Pt

    shown = _named(spec)
    chart.has_legend = len(shown) > 1
    if not chart.has_legend:
        return
    chart.legend.position = XL_LEGEND_POSITION.BOTTOM
    chart.legend.include_in_layout = False
    chart.legend.font.size = Pt(TEXT if len(shown) <= 4 else TEXT - 1 if len(shown) <= 8 else 8)
    if spec.kind == "lines":
        entries = chart.legend._element.find(tag("c:legendPos"))
        for at in reversed(bands):
            entries.addnext(
                parse_xml(f'<c:legendEntry {NS}><c:idx val="{at}"/><c:delete val="1"/></c:legendEntry>')
            )


def _named(spec: ChartSpec) -> list[Series]:
    return [each for each in spec.series if each.points and each.role != "band"]


def _plot_place(chart: Any, width: float, height: float, *, legend: int) -> None:
    """The plot at one place in every chart of a size, so that charts beside each other stand level."""
    from pptx.oxml import parse_xml

    left, top, right, bottom = _MARGINS
    bottom += _THIRD_LINE if legend > 4 else 0.0
    place = {
        "x": left / width,
        "y": top / height,
        "w": max(0.3, 1 - (left + right) / width),
        "h": max(0.3, 1 - (top + bottom) / height),
    }
    edges = '<c:layoutTarget val="inner"/><c:xMode val="edge"/><c:yMode val="edge"/>'
    sizes = "".join(f'<c:{name} val="{value:.5f}"/>' for name, value in place.items())
    plot = chart._chartSpace.chart.plotArea
    for old in plot.findall(tag("c:layout")):
        plot.remove(old)
    plot.insert(0, parse_xml(f"<c:layout {NS}><c:manualLayout>{edges}{sizes}</c:manualLayout></c:layout>"))


def _axes(chart: Any, spec: ChartSpec) -> None:
    from pptx.enum.chart import XL_TICK_MARK
    from pptx.util import Pt

    across, up = chart.category_axis, chart.value_axis
    _axis_title(up, f"{clean(spec.y_label)}")
    _axis_title(across, clean(spec.x_label))
    for axis in (across, up):
        axis.major_tick_mark = XL_TICK_MARK.NONE
        axis.minor_tick_mark = XL_TICK_MARK.NONE
        axis.tick_labels.font.size = Pt(TEXT)
        axis.tick_labels.font.color.rgb = rgb(style.QUIET)
    across.has_major_gridlines = False
    up.has_major_gridlines = True
    up.major_gridlines.format.line.color.rgb = rgb(style.RULE)
    up.major_gridlines.format.line.width = Pt(0.75)
    up.format.line.fill.background()
    across.format.line.color.rgb = rgb(style.FAINT)
    up.tick_labels.number_format_is_linked = False
    low, high = shape.y_limits(spec, headroom=0.0)
    up.tick_labels.number_format = "0%" if spec.percent else "#,##0" if high >= 10 else "General"
    if low >= 0:
        up.minimum_scale = 0
    if spec.percent and low >= 0 and 0.9 <= high <= 1.06:
        up.maximum_scale, up.major_unit = 1.1, 0.2
    if spec.kind == "lines":
        _x_scale(across, spec)


def _x_scale(axis: Any, spec: ChartSpec) -> None:
    """One tick per GPU or epoch where they are few; the room before the first and after the last has no number."""
    xs = [point.x for series in spec.series for point in series.points]
    axis.tick_labels.number_format_is_linked = False
    axis.tick_labels.number_format = "General"
    whole = all(x == round(x) for x, _ in spec.x_ticks) and bool(spec.x_ticks)
    if whole and max(xs) - min(xs) <= _MOST_TICKS:
        axis.minimum_scale, axis.maximum_scale = x_range(spec)
        axis.major_unit = 1
        axis.tick_labels.number_format = f'[<{min(xs):g}]"";[>{max(xs):g}]"";General'


def x_range(spec: ChartSpec) -> tuple[float, float]:
    """Where the axis across begins and ends: one unit of room at either side where the marks are few."""
    xs = [point.x for series in spec.series for point in series.points]
    first, last = min(xs), max(xs)
    return (max(0.0, first - 1), last + 1) if last - first <= _MOST_TICKS else (0.0, last)


def _axis_title(axis: Any, text: str) -> None:
    from pptx.util import Pt

    axis.has_title = bool(text)
    if text:
        frame = axis.axis_title.text_frame
        frame.text = text
        font = frame.paragraphs[0].runs[0].font
        font.size, font.bold = Pt(TEXT), False
        font.color.rgb = rgb(style.QUIET)


def rgb(colour: str) -> Any:
    """PowerPoint's colour of ``#rrggbb``."""
    from pptx.dml.color import RGBColor

    return RGBColor.from_string(colour.lstrip("#").upper())
