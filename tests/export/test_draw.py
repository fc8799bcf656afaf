"""Pictures of charts: stable, marked, with the intervals drawn and colours that are not the only sign."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import LineCollection

from labtui.export import style
from labtui.export.chart_geometry import y_limits
from labtui.export.figures import FORMATS, make_figure, pictures
from labtui.results.catalogue import lab_charts
from labtui.results.charts import ChartSpec, Point, Series, doubling_axes, stacked, with_kind
from labtui.results.compute import compute_results
from labtui.results.course_charts import epoch_chart
from tests.export.helpers import has
from tests.results.helpers import results_of, run

BOOK = results_of(
    "ResNet50.31337.out", "ResNet152.31338.out", "ResNet50_seq_CPU.31335.out", "ResNet50_seq_GPU.31336.out"
)
CHARTS = {chart.key: chart for chart in (*lab_charts(BOOK), epoch_chart(BOOK, model="ResNet152"))}

ROOT = Path(__file__).resolve().parents[2]
SAME = """
import hashlib, sys
from labtui.export.figures import pictures
from tests.export.test_draw import CHARTS
for name, data in pictures(CHARTS["speedup"], ("png", "svg", "pdf")).items():
    print(name, hashlib.sha256(data).hexdigest())
"""


def test_the_same_data_give_the_same_bytes_in_another_process():
    runs = [
        subprocess.run([sys.executable, "-c", SAME], capture_output=True, text=True, check=True, cwd=ROOT)
        for _ in range(2)
    ]
    assert runs[0].stdout == runs[1].stdout and len(runs[0].stdout.split()) == 6


def test_no_file_holds_a_date():
    for name, data in pictures(CHARTS["efficiency"], FORMATS).items():
        for mark in (b"CreationDate", b"dc:date", b"ModDate", b"Software"):
            assert mark not in data, name


@pytest.mark.parametrize(("size", "width", "height"), [("wide", 9.6, 5.4), ("half", 5.8, 4.7)])
def test_png_has_300_dots_per_inch_and_its_size(size, width, height):
    import io

    from PIL import Image

    picture = Image.open(io.BytesIO(pictures(CHARTS["speedup"], ("png",), size=size)["png"]))
    assert picture.size == (round(width * 300), round(height * 300))
    assert picture.info["dpi"] == pytest.approx((300, 300), rel=0.001)
    if size == "wide":
        assert picture.width * 9 == picture.height * 16


@pytest.mark.skipif(not has("pdffonts"), reason="poppler looks into the PDF")
def test_pdf_embeds_its_typeface(tmp_path):
    path = tmp_path / "chart.pdf"
    path.write_bytes(pictures(CHARTS["speedup"], ("pdf",))["pdf"])
    fonts = subprocess.run(
        ["pdffonts", str(path)], capture_output=True, text=True, check=True
    ).stdout.splitlines()[2:]
    assert fonts and all("DejaVu" in line and " yes " in line for line in fonts)


COUNTS = (1, 2, 4, 8, 16, 32)
WIDE_RANGE = doubling_axes(
    ChartSpec(
        key="throughput",
        title="t",
        x_label="GPUs",
        y_label="images per second",
        kind="lines",
        series=(Series(name="vit", points=tuple(Point(x=n, y=240.0 * n) for n in COUNTS)),),
        x_ticks=tuple((float(n), str(n)) for n in COUNTS),
    )
)
"""So many GPU counts that each doubling takes the same room."""


def same_steps(places: list[float], within: float = 0.01) -> bool:
    return all(b - a == pytest.approx(places[1] - places[0], abs=within) for a, b in pairwise(places))


def test_an_svg_with_a_logarithmic_axis_has_each_gpu_count_below_its_mark():
    text = pictures(WIDE_RANGE, ("svg",))["svg"].decode()
    ticks = re.findall(r'id="xtick_\d+">.*?<!-- (\d+) -->.*?translate\(([\d.]+)', text, re.DOTALL)
    marks = [float(x) for x in re.findall(r'<use [^>]*x="([\d.]+)" y="[\d.]+" style="fill: #e69f00', text)]
    assert [name for name, _ in ticks] == [str(n) for n in COUNTS]
    assert len(marks) == len(COUNTS) and same_steps(marks) and marks[1] - marks[0] > 50
    for (name, left), mark in zip(ticks, marks, strict=True):
        assert float(left) < mark < float(left) + 8 * len(name), name
    assert "<!-- GPUs (logarithmic) -->" in text


def groups(columns: np.ndarray) -> list[float]:
    """The middle of each run of columns; digits of one number are less than 60 columns apart."""
    runs = np.split(columns, np.flatnonzero(np.diff(columns) > 60) + 1)
    return [float(run[0] + run[-1]) / 2 for run in runs]


@pytest.mark.parametrize("kind", ["lines", "bars"])
def test_a_png_with_a_logarithmic_axis_has_its_counts_in_equal_steps_below_their_marks(kind):
    import io

    from PIL import Image

    data = pictures(replace(WIDE_RANGE, kind=kind), ("png",))["png"]
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
    written = abs(pixels - (0x5B, 0x68, 0x73)).sum(axis=2) < 60
    left = 300  # the numbers of the other axis are left of it
    below_axis = written[1467:1525, left:].any(axis=0)
    counts = [left + place for place in groups(np.flatnonzero(below_axis))]
    assert len(counts) == len(COUNTS) and same_steps(counts, within=6)
    drawn = (abs(pixels - (0xE6, 0x9F, 0x00)).sum(axis=2) < 10).any(axis=0)
    assert all(drawn[round(count)] for count in counts)
    if kind == "bars":
        assert groups(np.flatnonzero(drawn)) == pytest.approx(counts, abs=4)


def test_svg_needs_no_typeface():
    assert b"<text" not in pictures(CHARTS["speedup"], ("svg",))["svg"]


def axes_of(chart: ChartSpec):
    return make_figure(chart, style.CANVASES["wide"]).axes[0]


@pytest.mark.parametrize("key", ["epoch-time", "throughput", "speedup", "efficiency"])
@pytest.mark.parametrize("kind", ["bars", "lines"])
def test_intervals_are_drawn_as_error_bars(key, kind):
    chart = with_kind(CHARTS[key], kind)
    wanted = sorted(
        (round(p.lo, 9), round(p.hi, 9))
        for s in chart.series
        for p in s.points
        if p.lo is not None and p.lo < p.hi
    )
    drawn = []
    for collection in axes_of(chart).collections:
        for path in collection.get_paths():
            ends = path.vertices
            if len(ends) == 2 and ends[0][0] == ends[1][0] and ends[0][1] < ends[1][1]:
                drawn.append((round(path.vertices[0][1], 9), round(path.vertices[1][1], 9)))
    assert sorted(set(drawn)) == sorted(set(wanted))


def test_the_ideal_is_a_tick_over_each_bar_and_a_straight_line_on_numbers():
    bars = axes_of(replace(CHARTS["speedup"], kind="bars"))
    drawn = [each for each in bars.collections if isinstance(each, LineCollection)]
    ticks = [each for one in drawn for each in one.get_segments() if each[0][1] == each[1][1]]
    assert sorted(float(start[1]) for start, _ in ticks) == [1, 1, 2, 2, 4, 4]
    assert all(0 < end[0] - start[0] < 0.5 for start, end in ticks)
    lines = axes_of(CHARTS["speedup"])
    dashed = [line for line in lines.lines if line.get_linestyle() == "--"]
    assert (
        [list(line.get_ydata()) for line in dashed]
        == [[1.0, 2.0, 4.0]]
        == [list(line.get_xdata()) for line in dashed]
    )
    assert all("ideal" in [text.get_text() for text in axes.texts] for axes in (bars, lines))
    assert [text.get_text() for text in lines.get_xticklabels()] == ["1", "2", "4"]


@pytest.mark.parametrize("size", ["wide", "half"])
@pytest.mark.parametrize("names", [("ResNet50",), ("ResNet50", "ResNet152")])
def test_a_value_never_stands_over_the_tick_of_an_ideal_that_its_bar_does_not_reach(size, names):
    series = tuple(each for each in CHARTS["speedup"].series if each.name in (*names, "ideal"))
    figure = make_figure(replace(CHARTS["speedup"], kind="bars", series=series), style.CANVASES[size])
    figure.canvas.draw()
    (axes,) = figure.axes
    box = {
        text.get_text(): text.get_window_extent().transformed(axes.transData.inverted())
        for text in axes.texts
    }
    for value, ideal in (("1.68", 2), ("2.53", 4), *((("1.82", 2), ("3.26", 4)) if len(names) > 1 else ())):
        assert box[value].y1 < ideal, value
    (inside,) = [text for text in axes.texts if text.get_text() == "1.68"]
    assert box["1.68"].y1 < 1.68 and inside.get_color() == style.PAPER
    assert box["1.00"].y0 > 1  # the ideal itself


def test_a_text_on_a_colour_is_the_one_that_can_be_read():
    assert style.text_on(style.PAPER) == style.INK == style.text_on("#e69f00")
    assert style.text_on(style.INK) == style.PAPER == style.text_on("#0072b2")


def test_warm_up_is_hollow_and_live_is_hatched():
    points = (
        Point(x=1, y=3, label="3"),
        Point(x=2, y=2, label="2", hollow=True),
        Point(x=4, y=1, label="1", live=True),
    )
    chart = ChartSpec(
        key="epoch-time", title="t", x_label="GPUs", y_label="s", series=(Series(name="a", points=points),)
    )
    bars = axes_of(replace(chart, kind="bars")).patches
    assert [bar.get_facecolor()[:3] == (1, 1, 1) for bar in bars] == [False, True, True]
    assert [bar.get_hatch() for bar in bars] == [None, None, "////"]
    axes = axes_of(chart)
    marks = [line for line in axes.lines if line.get_marker() == "o"]
    assert [mark.get_markerfacecolor() == style.PAPER for mark in marks] == [False, True, True]
    assert any("live" in text.get_text() for text in axes.texts)


@pytest.mark.parametrize("practice", [True, False])
def test_practice_says_so_on_every_chart(practice):
    results = compute_results([run(n, [30, 12 / n], practice=practice) for n in (1, 2, 4)])
    for chart in lab_charts(results):
        output = " ".join(text.get_text() for text in make_figure(chart, style.CANVASES["half"]).texts)
        assert ("practice" in output.lower()) is practice


def test_labels_stand_at_their_marks():
    texts = [text.get_text() for text in axes_of(CHARTS["speedup"]).texts]
    for label in ("2.53", "3.26", "ResNet50", "ResNet152"):
        assert label in texts


def test_lost_efficiency_is_stacked_to_one():
    chart = CHARTS["efficiency-loss-resnet50"]
    assert stacked(chart)
    for x in (1, 2, 4):
        tops = [bar.get_y() + bar.get_height() for bar in axes_of(chart).patches if bar.get_height() > 0]
        assert max(tops) == pytest.approx(1.0)
        assert sum(
            point.y for series in chart.series for point in series.points if point.x == x
        ) == pytest.approx(1.0)


def test_texts_do_not_overlap_in_the_charts_of_the_book():
    """Titles, values, names, ticks: no two of them on top of each other."""
    for key in ("epoch-time", "throughput", "efficiency", "cpu-gpu-resnet50", "efficiency-loss-resnet152"):
        for size in ("wide", "half"):
            figure = make_figure(CHARTS[key], style.CANVASES[size])
            figure.canvas.draw()
            renderer = figure.canvas.get_renderer()
            axes = figure.axes[0]
            texts = [*figure.texts, *axes.texts, *axes.get_xticklabels(), axes.xaxis.label]
            boxes = [(t.get_text(), t.get_window_extent(renderer)) for t in texts if t.get_text()]
            for at, (one, a) in enumerate(boxes):
                for other, b in boxes[at + 1 :]:
                    wide = min(a.x1, b.x1) - max(a.x0, b.x0)
                    high = min(a.y1, b.y1) - max(a.y0, b.y0)
                    assert not (wide > 2 and high > 2), (key, size, one, other)
            edge = figure.bbox
            assert all(
                b.x0 >= -1 and b.x1 <= edge.x1 + 1 and b.y0 >= -1 and b.y1 <= edge.y1 + 1 for _, b in boxes
            )


def test_a_name_is_text_whatever_it_holds():
    strange = compute_results([run(n, [9, 6 / n], model="$\\alpha_{x} <b> & 日本") for n in (1, 2)])
    for chart in lab_charts(strange):
        assert pictures(chart, ("svg",))["svg"].startswith(b"<?xml")


NUMBERS = st.floats(-1e9, 1e9).map(lambda number: round(number, 6))
POINTS = st.builds(
    lambda x, y, low, high, **looks: Point(x=x, y=y, lo=y - low, hi=y + high, **looks),
    x=st.integers(0, 40).map(float), y=NUMBERS, low=st.floats(0, 1e6), high=st.floats(0, 1e6),
    hollow=st.booleans(), live=st.booleans(), label=st.text(max_size=8),
)  # fmt: skip
SERIES = st.builds(
    Series, name=st.text(max_size=30), points=st.lists(POINTS, min_size=1, max_size=6).map(tuple),
    role=st.sampled_from(["measured", "ideal", "fit", "band", "reference"]),
)  # fmt: skip
SPECS = st.builds(
    ChartSpec, key=st.sampled_from(["speedup", "efficiency-loss-x", "epochs"]), title=st.text(max_size=120),
    x_label=st.text(max_size=9), y_label=st.text(max_size=9),
    series=st.lists(SERIES, min_size=1, max_size=8).map(tuple),
    kind=st.sampled_from(["bars", "lines"]), percent=st.booleans(), practice=st.booleans(),
    notes=st.lists(st.text(max_size=300), max_size=4).map(tuple),
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(SPECS)
def test_any_chart_can_be_drawn_and_its_limits_hold_its_data(chart):
    low, high = y_limits(chart)
    for series in chart.series:
        for point in series.points:
            assert low <= point.lo <= point.y <= point.hi <= high
    assert pictures(chart, ("svg",), size="half")["svg"]
