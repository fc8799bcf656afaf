"""Figures 10.4 to 10.15 of the book, from the logs printed there: the same data in every format."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labtui.export import chart_geometry, style
from labtui.export.figures import make_figure
from labtui.export.pptx_charts import chart_data, dress_chart
from labtui.results.charts import ChartSpec, with_kind
from tests.export.helpers import Nearly
from tests.results.helpers import published, results_of, task_charts

CHAPTER10 = published("chapter10.toml")
TABLES = {table["id"]: table for table in CHAPTER10["tables"]}
KEYS = ("epoch-time", "throughput", "speedup", "efficiency")
FIGURES = [
    (figure_id, key, [TABLES[name] for name in figure["tables"]], figure.get("model"))
    for figure in CHAPTER10["figures"]
    for figure_id, key in zip(figure["ids"], KEYS, strict=True)
]


def printed(table: dict, key: str) -> dict[int, float]:
    """What the book's table says, by GPU count; throughput is images over seconds."""
    rows = {row["gpus"]: row for row in table["rows"]}
    take = {
        "epoch-time": lambda row: float(row["seconds"]),
        "throughput": lambda row: CHAPTER10["images"] / float(row["seconds"]),
        "speedup": lambda row: float(row["speedup"]),
        "efficiency": lambda row: float(row["efficiency"]) / 100,
    }
    return {gpus: take[key](row) for gpus, row in rows.items()}


def chart_of(key: str, tables: list[dict], model: str | None) -> ChartSpec:
    results = results_of(*(table["log"] for table in TABLES.values()))
    charts = task_charts(results, model=model, reading="as-printed")
    return next(chart for chart in charts if chart.key == key)


@pytest.mark.parametrize(
    ("figure_id", "key", "tables", "model"), FIGURES, ids=[figure[0] for figure in FIGURES]
)
def test_the_books_figures(figure_id, key, tables, model):
    chart = chart_of(key, tables, model)
    measured = {series.name: series for series in chart.series if series.role == "measured"}
    assert set(measured) == {table["model"] for table in tables}
    for table in tables:
        shown = {int(point.x): point.y for point in measured[table["model"]].points}
        assert shown == pytest.approx(printed(table, key), rel=1e-12)
    ideal = [series for series in chart.series if series.role == "ideal"]
    assert bool(ideal) == (key == "speedup")
    if ideal:
        assert [(point.x, point.y) for point in ideal[0].points] == [(1, 1), (2, 2), (4, 4)]


@pytest.mark.parametrize("kind", ["bars", "lines"])
@pytest.mark.parametrize(
    ("figure_id", "key", "tables", "model"), FIGURES, ids=[figure[0] for figure in FIGURES]
)
def test_matplotlib_and_powerpoint_draw_those_numbers(figure_id, key, tables, model, kind):
    chart = with_kind(chart_of(key, tables, model), kind)
    assert chart.kind == kind
    wanted = {table["model"]: list(printed(table, key).values()) for table in tables}
    assert drawn_by_matplotlib(chart) == Nearly(wanted)
    assert drawn_by_powerpoint(chart) == Nearly(wanted)


def drawn_by_matplotlib(chart: ChartSpec) -> dict[str, list[float]]:
    """Heights of bars, or of line marks, read from the artists by colour."""
    axes = make_figure(chart, style.CANVASES["wide"]).axes[0]
    names = [series.name for series in chart.series if series.role == "measured"]
    drawn = {}
    for name, colour in zip(names, chart_geometry.colours(chart), strict=True):
        if chart.kind == "bars":
            bars = [bar for bar in axes.patches if hex_of(bar.get_edgecolor()) == colour]
            drawn[name] = [bar.get_height() for bar in sorted(bars, key=lambda bar: bar.get_x())]
        else:
            lines = [line for line in axes.lines if hex_of(line.get_color()) == colour]
            drawn[name] = list(max(lines, key=lambda line: len(line.get_ydata())).get_ydata())
    return drawn


def hex_of(colour: object) -> str:
    from matplotlib.colors import to_hex

    return to_hex(colour)


def drawn_by_powerpoint(chart: ChartSpec) -> dict[str, list[float]]:
    """Values of the native chart."""
    from pptx import Presentation

    kind, data = chart_data(chart)
    slide = Presentation().slides.add_slide(Presentation().slide_layouts[6])
    native = slide.shapes.add_chart(kind, 0, 0, 4_000_000, 3_000_000, data).chart
    dress_chart(native, chart)
    names = {series.name for series in chart.series if series.role == "measured"}
    return {s.name: list(s.values) for plot in native.plots for s in plot.series if s.name in names}


def test_a_rehearsal_says_so_before_any_other_note():
    _, key, tables, model = FIGURES[0]
    chart = replace(chart_of(key, tables, model), practice=True, notes=("a long note " * 200,))
    texts = [text.get_text() for text in make_figure(chart, style.CANVASES["wide"]).texts]
    assert any("no real hardware was measured" in text for text in texts)
