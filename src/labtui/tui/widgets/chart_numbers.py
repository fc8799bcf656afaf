"""The numbers of one chart as a table beside it. Pure: columns and rows of text.

Positions go down, series across; where there are many positions, the series go down with their lowest, highest and
last (or mean) value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from labtui.core.charts import ChartSpec, Point, Series
from labtui.core.results.gallery import family
from labtui.tui.widgets.plot_look import EXPECTED_MARK, LIVE_SIGN, number_text, plain, short_names

MOST_POSITIONS = 8
_WIDEST = 15
_COURSES = {"epochs", "accuracy", "gpu-utilization"}
"""Charts over time, whose series can be told in a line each."""
_SHORT = {
    "lost to the short last batch": "batch",
    "lost to slower steps": "steps",
    "first epoch": "first",
    "steady epoch": "steady",
}
Table = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]


def chart_table(spec: ChartSpec, width: int) -> Table:
    """Titles and rows that fit into so many cells; columns that do not fit are left out, the first ones stay."""
    shown = [each for each in spec.series if each.points and each.role == "measured"]
    positions = {point.x for series in shown for point in series.points}
    if len(positions) <= MOST_POSITIONS:
        whole = _by_position(spec, shown)
        fitting = _fitting(*whole, width)
        if fitting == whole or family(spec.key) not in _COURSES:
            return fitting
    return _fitting(*_summary(spec, shown), width)


def _by_position(spec: ChartSpec, shown: Sequence[Series]) -> Table:
    expected = [each for each in spec.series if each.role == "reference" and len(each.points) == 1]
    positions = sorted({point.x for series in (*shown, *expected) for point in series.points})
    bounds = len(shown) == 1
    fits = [series for series in spec.series if series.role == "fit"]
    names = dict(spec.x_ticks)
    titles = [spec.x_label, *(_short(name) for name in short_names([series.name for series in shown]))]
    titles += [series.name for series in fits]
    rows = []
    for x in positions:
        live = any(point.live for series in shown for point in series.points if point.x == x)
        cells = [plain(names.get(x, f"{x:g}")) + (f" {LIVE_SIGN}" if live else "")]
        for series in shown:
            point = next((each for each in series.points if each.x == x), None)
            cells.append(_cell(spec, point, bounds=bounds) if point is not None else "")
        guess = next((each.points[0] for each in expected if each.points[0].x == x), None)
        if guess is not None and cells[1] == "":
            cells[1] = f"{_number(spec, guess.y)} {EXPECTED_MARK}"
        cells += [_on_curve(spec, series, x) for series in fits]
        rows.append(tuple(cells))
    return tuple(titles), tuple(rows)


def _summary(spec: ChartSpec, shown: Sequence[Series]) -> Table:
    over_time = family(spec.key) == "gpu-utilization"
    titles = ("", "lowest", "highest", "mean" if over_time else "last")
    rows = []
    for name, series in zip(short_names([each.name for each in shown]), shown, strict=True):
        values = [point.y for point in series.points]
        last = math.fsum(values) / len(values) if over_time else max(series.points, key=lambda each: each.x).y
        live = f" {LIVE_SIGN}" if any(point.live for point in series.points) else ""
        numbers = (_number(spec, value) for value in (min(values), max(values), last))
        rows.append((plain(name) + live, *numbers))
    return titles, tuple(rows)


def _cell(spec: ChartSpec, point: Point, *, bounds: bool) -> str:
    text = _number(spec, point.y)
    if bounds and point.lo is not None and point.hi is not None:
        half = (point.hi - point.lo) / 2 * (100 if spec.percent else 1)
        said = f"{half:.1f}" if spec.percent or half >= 10 else f"{half:.2f}"
        text += f" ±{said}" if float(said) else ""
    return text


def _number(spec: ChartSpec, value: float) -> str:
    return f"{value * 100:.1f} %" if spec.percent else number_text(value, percent=False, exact=True)


def _on_curve(spec: ChartSpec, curve: Series, x: float) -> str:
    """The value of a fitted curve at a position it was computed for."""
    near = min(curve.points, key=lambda point: abs(point.x - x), default=None)
    return _number(spec, near.y) if near is not None and math.isclose(near.x, x, abs_tol=1e-6) else ""


def _short(name: str) -> str:
    for long, short in _SHORT.items():
        name = name.replace(long, short)
    name = plain(name).replace(", ", " ")
    return name if len(name) <= _WIDEST else f"{name[: _WIDEST - 1]}…"


def _fitting(titles: tuple[str, ...], rows: tuple[tuple[str, ...], ...], width: int) -> Table:
    widths = [max(len(row[at]) for row in (titles, *rows)) + (2 if at else 0) for at in range(len(titles))]
    count = next((n for n in range(len(titles), 1, -1) if sum(widths[:n]) <= width), min(2, len(titles)))
    return titles[:count], tuple(row[:count] for row in rows)
