"""What a designer and a professor see: values on no line, pages that are full, charts that stand level."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from itertools import combinations, pairwise

import pytest

from labtui.core.charts import ChartSpec, Point, Series
from labtui.core.results.law_charts import law_charts
from labtui.core.results.more_charts import lab_charts
from labtui.core.results.run_charts import epoch_chart
from labtui.export import export_lab, style
from labtui.export.charts import all_charts
from labtui.export.deck_build import build_deck
from labtui.export.deck_model import Deck, Paragraph, Run, Slide, Table
from labtui.export.draw import make_figure
from labtui.export.labels import Rect, Wanted, length_inside, placed
from labtui.export.layout import BULLET_GAP, ChartItem, Geometry, TableItem, TextItem, lay_out
from labtui.export.markdown import blocks_of
from labtui.export.paint import page_marks
from tests.export.helpers import DAY, EDITIONS, make_lab
from tests.export.test_deck import text_of
from tests.export.test_formats import presentation_of
from tests.results.helpers import results_of

BOOK = results_of("ResNet50.31337.out", "ResNet152.31338.out")
SLIDE = style.Canvas(418 / 72, 299 / 72, 10.0)


# --------------------------------------------------------------------------- values beside their marks


def value_boxes(chart: ChartSpec, canvas: style.Canvas):
    """The axes, and each value with its box in pixels, as drawn."""
    figure = make_figure(chart, canvas, bare=canvas is SLIDE)
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    axes = figure.axes[0]
    said = {point.label for series in chart.series for point in series.points if point.label}
    return axes, [(t, t.get_window_extent(renderer)) for t in axes.texts if t.get_text() in said]


def crossed(axes, box) -> float:
    """How much of the lines between marks runs through a box, in widths of the box."""
    rect = Rect(box.x0, box.y0, box.x1, box.y1)
    total = 0.0
    for line in axes.lines:
        places = axes.transData.transform(list(zip(line.get_xdata(), line.get_ydata(), strict=True)))
        for one, other in pairwise(places):
            total += length_inside((*one, *other), rect)
    return total / box.width


def all_specs() -> list[ChartSpec]:
    return [*lab_charts(BOOK), *law_charts(BOOK)]


@pytest.mark.parametrize("canvas", [*style.CANVASES.values(), SLIDE], ids=["wide", "half", "slide"])
def test_values_stand_on_no_line_and_on_no_other_value(canvas):
    for chart in all_specs():
        axes, boxes = value_boxes(chart, canvas)
        for (one, a), (other, b) in combinations(boxes, 2):
            wide, high = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
            assert not (wide > 2 and high > 2), (chart.key, one.get_text(), other.get_text())
        # Between the ideal line and a line close to it there is no free place.
        most = 0.25 if chart.key.startswith("speedup") else 0.15
        assert sum(crossed(axes, box) for _, box in boxes) <= most * len(boxes), chart.key


def test_a_value_is_nearest_to_its_own_mark():
    """Three networks whose efficiencies nearly agree: no value may be read as that of another."""
    marks = [(100.0, 84.0), (100.0, 89.5), (100.0, 91.2)]
    wanted = [Wanted(x, 2 * y, 34.0, 10.0) for x, y in marks]
    room = Rect(0, 0, 300, 250)
    for one, spot in zip(wanted, placed(wanted, [], room=room, text=10.0), strict=True):
        own = (spot.dx**2 + spot.dy**2) ** 0.5
        others = [
            ((o.x - one.x - spot.dx) ** 2 + (o.y - one.y - spot.dy) ** 2) ** 0.5
            for o in wanted
            if o is not one
        ]
        assert own <= min(others) + 0.01


def test_a_value_has_the_colour_of_its_line_where_there_are_several():
    _, boxes = value_boxes(next(c for c in lab_charts(BOOK) if c.key == "throughput"), SLIDE)
    colours = {text.get_text(): text.get_color() for text, _ in boxes}
    assert colours["9,301"] == style.colour(0) and colours["4,976"] == style.colour(1)


def test_in_bars_with_an_ideal_line_values_stand_in_the_bars():
    chart = next(c for c in lab_charts(BOOK, model="ResNet50") if c.key == "speedup")
    axes, boxes = value_boxes(replace(chart, kind="bars"), SLIDE)
    assert len(boxes) == 3
    bars = sorted((bar.get_window_extent() for bar in axes.patches), key=lambda box: box.x0)
    for (_, box), bar in zip(sorted(boxes, key=lambda each: each[1].x0), bars, strict=True):
        assert box.y1 <= bar.y1 and box.x0 >= bar.x0 and box.x1 <= bar.x1


def test_each_law_expects_what_its_own_curve_says():
    for chart in law_charts(BOOK):
        roles = {series.role: series for series in chart.series}
        (mark,) = roles["reference"].points
        assert mark.y == pytest.approx(roles["fit"].points[-1].y)
        assert mark.lo <= mark.y <= mark.hi
    bands = {(chart.series[-1].points[0].lo, chart.series[-1].points[0].hi) for chart in law_charts(BOOK)[:2]}
    assert len({round(low, 2) for low, _ in bands}) == 1  # both laws show the same band


# --------------------------------------------------------------------------- long courses


def test_many_epochs_have_ticks_apart_and_a_hollow_first_epoch(tmp_path):
    contents = make_lab(tmp_path / "lab", "sa-miri-2021-ex12").contents()
    chart = epoch_chart(contents.results, model="ResNet50")
    ticks = [x for x, _ in chart.x_ticks]
    assert ticks[:3] == [1, 5, 10] and ticks[-1] == 40
    axes = make_figure(chart, SLIDE).axes[0]
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == style.PAPER]
    assert [list(line.get_xdata()) for line in hollow] == [[1], [1]]


def test_a_slow_cpu_does_not_flatten_the_epochs_of_the_gpus(tmp_path):
    contents = make_lab(tmp_path / "lab", "hpc4ai-ch10").contents()
    charts = {chart.stem: chart.spec for chart in all_charts(contents.measurements, contents.results)}
    chart = charts["epochs-ResNet50"]
    assert all("CPU" not in series.name for series in chart.series)
    assert any("CPU" in note for note in chart.notes)
    assert any("CPU" in series.name for series in charts["accuracy-ResNet50"].series)


def test_a_legend_is_as_large_as_other_text_and_takes_no_width():
    points = tuple(Point(x=x, y=x) for x in (1, 2, 3))
    series = tuple(Series(name=f"ResNet152, steady epoch {n}", points=points) for n in range(6))
    chart = ChartSpec(key="epochs", title="t", x_label="epoch", y_label="s", series=series)
    one = replace(chart, series=series[:1])
    axes, alone = (make_figure(each, SLIDE).axes[0] for each in (chart, one))
    assert axes.get_position().width == pytest.approx(alone.get_position().width)
    assert min(text.get_size() for text in axes.get_legend().get_texts()) >= 8


# --------------------------------------------------------------------------- which charts and pages


def test_three_networks_stand_in_one_chart_where_the_task_asks_for_it(tmp_path):
    deck = build_deck(make_lab(tmp_path / "lab", "sa-miri-2025-pg").contents())
    charts = next(s.charts for s in deck.slides if s.kicker == "Task 10.9" and s.charts)
    names = [[s.name for s in chart.series if s.role == "measured"] for chart in charts]
    assert names == [["ResNet101"]] * 4 + [["ResNet50", "ResNet101", "ResNet152"]] * 4


def test_both_laws_of_a_network_stand_beside_each_other(tmp_path):
    deck = build_deck(make_lab(tmp_path / "lab", "sa-miri-2025-pg").contents())
    charts = next(s.charts for s in deck.slides if s.kicker == "Task 10.10" and s.charts)
    assert [chart.key for chart in charts] == [
        "amdahl-resnet50", "gustafson-resnet50", "amdahl-resnet152", "gustafson-resnet152",
        "efficiency-loss-resnet50", "efficiency-loss-resnet152",
    ]  # fmt: skip


def test_serial_fractions_are_a_table_and_each_remark_names_its_law(tmp_path):
    deck = build_deck(make_lab(tmp_path / "lab", "sa-miri-2025-pg").contents())
    slide = next(s for s in deck.slides if s.title.endswith("serial fractions"))
    table = next(block for block in slide.blocks if isinstance(block, Table))
    assert [row[:3] for row in table.rows] == [
        ("Amdahl", "ResNet50", "2,048"), ("Gustafson", "ResNet50", "2,048"),
        ("Amdahl", "ResNet152", "1,024"), ("Gustafson", "ResNet152", "1,024"),
    ]  # fmt: skip
    said = text_of(slide).splitlines()
    assert all(line.startswith(("Amdahl", "Gustafson")) for line in said if "misses the measured" in line)


def test_accuracy_is_shown_where_it_is_asked_for_and_two_networks_where_they_are_compared(tmp_path):
    deck = build_deck(make_lab(tmp_path / "lab", "sa-miri-2021-ex12").contents())
    charts = {s.kicker: s.charts for s in deck.slides if s.charts and s.kicker.startswith("Task")}
    assert [chart.key for chart in charts["Task 5"]] == ["accuracy", "epochs"]
    assert len(charts["Task 4"][0].series) == 1  # the run of that task alone
    names = {series.name.split(" ")[0] for series in charts["Task 7"][0].series}
    assert names == {"ResNet50", "ResNet152"}
    said = "\n".join(text_of(s) for s in deck.slides if s.kicker == "Task 4")
    assert "pooled with the equal runs of task 6" in said


def test_a_task_without_runs_and_questions_shows_what_was_checked(tmp_path):
    deck = build_deck(make_lab(tmp_path / "lab", "hpc4ai-ch10").contents())
    said = next(text_of(s) for s in deck.slides if s.kicker == "Task 10.1")
    assert "What was checked" in said and "ResNet50_seq.py is in scripts/" in said
    assert "The data set and the software on the cluster can be reached (run 1" in said


def test_the_report_has_no_slide_that_asks_for_the_report(tmp_path):
    from labtui.export.contents import read_contents

    lab = make_lab(tmp_path / "lab", "sa-miri-2021-ex12")
    made = read_contents(lab.folder, state=lab.state, today=DAY, made=["deck.pdf"])
    assert not any(s.kicker == "Task 8" for s in build_deck(made).slides)
    assert any(s.kicker == "Task 8" for s in build_deck(lab.contents()).slides)


@pytest.mark.parametrize("edition", EDITIONS)
def test_no_chart_stands_alone_in_half_a_page(tmp_path, edition):
    laid = lay_out(build_deck(make_lab(tmp_path / "lab", edition).contents()))
    for page in laid.pages:
        charts = [item for item in page.items if isinstance(item, ChartItem)]
        if len(charts) == 1:
            tables = any(isinstance(item, TableItem) for item in page.items)
            assert tables or charts[0].box.w > 0.9 * laid.geometry.body.w


def test_a_small_table_of_results_joins_the_task(tmp_path):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10", answer="Short.")
    submissions = {t: replace(s, script_hashes={}) for t, s in lab.state.submissions.items()}
    contents = replace(lab, state=replace(lab.state, submissions=submissions)).contents()
    pages = [page for page in lay_out(build_deck(contents)).pages if page.kicker == "Task 10.3"]
    assert "The CPU baseline: results" not in [page.slide.title for page in pages]
    assert sum(isinstance(item, TableItem) for item in pages[0].items) == 2


def test_answers_are_parted_at_a_question_where_that_can_be():
    blocks = []
    for n in range(1, 6):
        blocks.append(Paragraph((Run(f"{n}. Why?"),), "question"))
        blocks += blocks_of("Words that fill a line, and then some more of them. " * 4 + "\n\n- one\n- two\n")
    laid = lay_out(
        Deck(title="t", subtitle="", lines=(), footer="", slides=(Slide(title="T", blocks=tuple(blocks)),))
    )
    assert len(laid.pages) == 2
    for page in laid.pages:
        first = page.items[0]
        assert isinstance(first, TextItem) and first.paragraphs[0].source.style == "question"


def test_a_number_stands_clear_of_its_text():
    blocks = tuple(Paragraph((Run("How is it done?"),), "body", 1, f"{n}.") for n in (1, 2))
    laid = lay_out(
        Deck(title="t", subtitle="", lines=(), footer="", slides=(Slide(title="T", blocks=blocks),))
    )
    marks = [mark for mark in page_marks(laid.pages[0], laid, {}) if mark["kind"] == "line"]
    number = next(mark for mark in marks if mark["runs"][0]["text"] == "1.")
    text = next(mark for mark in marks if mark["runs"][0]["text"].startswith("How"))
    gap = text["x"] - (number["x"] + number["w"])
    assert gap == pytest.approx(BULLET_GAP * number["size"]) and gap > 0.5 * number["size"]


def test_the_practice_mark_stands_clear_of_a_long_title():
    slide = Slide(title="Five epochs on the CPU, in five minutes: answers", practice=True)
    laid = lay_out(Deck(title="t", subtitle="", lines=(), footer="", slides=(slide,)))
    mark = next(m for m in page_marks(laid.pages[0], laid, {}) if m["kind"] == "rect" and m["stroke"])
    assert mark["y"] >= 0 and mark["y"] + mark["h"] <= Geometry().title.y - 6


# --------------------------------------------------------------------------- PowerPoint


def test_powerpoint_charts_stand_level_and_name_no_edges_of_bands(tmp_path):
    from pptx.oxml.ns import qn

    _, presentation = presentation_of(make_lab(tmp_path / "lab", "sa-miri-2025-pg"))
    for slide in presentation.slides:
        charts = [shape.chart for shape in slide.shapes if shape.has_chart]
        tops = {next(c._chartSpace.iter(qn("c:manualLayout"))).find(qn("c:y")).get("val") for c in charts}
        assert len(tops) <= 1
        for chart in charts:
            space = chart._chartSpace
            gone = {int(e.find(qn("c:idx")).get("val")) for e in space.iter(qn("c:legendEntry"))}
            names = [series.name for plot in chart.plots for series in plot.series]
            assert {names[at] for at in gone} == {name for name in names if name.startswith("band")}


def test_powerpoint_has_no_number_where_no_gpu_is(tmp_path):
    laid, presentation = presentation_of(make_lab(tmp_path / "lab", "sa-miri-2025-pg"))
    specs = [item.spec for page in laid.pages for item in page.items if isinstance(item, ChartItem)]
    charts = [shape.chart for slide in presentation.slides for shape in slide.shapes if shape.has_chart]
    seen = 0
    for spec, chart in zip(specs, charts, strict=True):
        if spec.kind == "lines" and spec.key == "speedup":
            assert chart.category_axis.tick_labels.number_format == '[<1]"";[>4]"";General'
            seen += 1
    assert seen == 2


@pytest.mark.parametrize("edition", EDITIONS)
def test_the_charts_of_the_written_deck_hold_the_numbers_of_the_written_csv(tmp_path, edition):
    from pptx import Presentation

    lab = make_lab(tmp_path / "lab", edition)
    export_lab(tmp_path / "lab", state=lab.state, formats=("pptx",), plots=False, today=DAY)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "lab" / "results.csv").read_text("utf-8"))))
    columns = {name: [float(row[name]) for row in rows if row[name]] for name in (
        "epoch_seconds", "throughput", "speedup", "efficiency")}  # fmt: skip
    wanted = {
        "epoch-time": "epoch_seconds", "throughput": "throughput", "speedup": "speedup",
        "efficiency": "efficiency", "cpu-gpu": "epoch_seconds",
    }  # fmt: skip
    seen = 0
    for slide in Presentation(str(tmp_path / "lab" / "deck.pptx")).slides:
        for shape in slide.shapes:
            key = shape.name.removeprefix("chart ")
            name = next((column for start, column in wanted.items() if key.startswith(start)), None)
            if not shape.has_chart or name is None or key.startswith(("throughput-per", "efficiency-loss")):
                continue
            for plot in shape.chart.plots:
                for series in plot.series:
                    if series.name != "ideal":
                        assert all(value in columns[name] for value in series.values), (key, series.name)
                        seen += 1
    assert seen or edition == "sa-miri-2021-ex12"  # which has no charts against GPUs
