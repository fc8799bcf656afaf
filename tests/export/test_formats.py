"""The finished files: PowerPoint read back with python-pptx, PDF with poppler; nothing is cut off or overlaps."""

from __future__ import annotations

import io
import itertools
import subprocess

import pytest

from labtui.export import measure
from labtui.export.deck_build import build_deck
from labtui.export.deck_model import Run
from labtui.export.layout import ChartItem, lay_out
from labtui.export.pdf import pdf_bytes
from labtui.export.pptx_charts import chart_data, number_format
from labtui.export.pptx_deck import pptx_bytes
from labtui.export.pptx_theme import EMU, own_look, template_look
from tests.export.helpers import ANSWERS, EDITIONS, has, make_lab, page_texts, pdf_words

LEGIBLE = 8.0
"""No text on a slide is smaller than this, in points."""


def presentation_of(lab, look=None):
    from pptx import Presentation

    look = look or own_look()
    laid = lay_out(build_deck(lab.contents()), look.geometry)
    return laid, Presentation(io.BytesIO(pptx_bytes(laid, look)))


def box_of(shape) -> tuple[float, float, float, float]:
    x, y = shape.left / EMU, shape.top / EMU
    return x, y, x + shape.width / EMU, y + shape.height / EMU


def needed_height(frame, width: float, size: float = 10.0) -> float:
    """Height in points of a text frame's paragraphs, wrapped at this width; a frame without wrapping needs no width."""
    total = 0.0
    for at, paragraph in enumerate(frame.paragraphs):
        look = paragraph._p.pPr
        indent = int(look.get("marL", 0)) / EMU if look is not None else 0.0
        sizes = [run.font.size.pt for run in paragraph.runs if run.font.size] or [size]
        assert min(sizes) >= LEGIBLE
        runs = tuple(
            Run(run.text, bold=bool(run.font.bold), mono=run.font.name is not None) for run in paragraph.runs
        )
        lines = len(measure.wrap(runs, max(sizes), width - indent + 0.5)) if frame.word_wrap else 1
        leading = paragraph.line_spacing.pt if paragraph.line_spacing else max(sizes) * 1.2
        before = paragraph.space_before.pt if paragraph.space_before and at else 0.0
        total += lines * leading + before
    return total


def assert_slides_tidy(presentation) -> None:
    """Shapes lie on the slide, texts in their shapes, and no text, table or chart on another."""
    width, height = presentation.slide_width / EMU, presentation.slide_height / EMU
    for slide in list(presentation.slides)[1:]:
        solid = []
        for shape in slide.shapes:
            if shape.is_placeholder and shape.left is None:
                continue
            x0, y0, x1, y1 = box_of(shape)
            assert x0 >= -0.5 and y0 >= -0.5 and x1 <= width + 0.5 and y1 <= height + 0.5, shape.name
            if shape.has_text_frame and shape.text_frame.text.strip() and not shape.is_placeholder:
                assert needed_height(shape.text_frame, x1 - x0) <= y1 - y0 + 1.5, (
                    slide.shapes.title.text,
                    shape.name,
                )
            if shape.has_table:
                assert_table_fits(shape)
            if shape.name in ("text", "code", "table", "kicker") or shape.has_chart:
                solid.append((shape.name, (x0, y0, x1, y1)))
        for (one, a), (other, b) in itertools.combinations(solid, 2):
            wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
            assert not (wide > 0.6 and high > 0.6), (slide.shapes.title.text, one, other)


def assert_table_fits(shape) -> None:
    table = shape.table
    for row in table.rows:
        for at, cell in enumerate(row.cells):
            room = table.columns[at].width / EMU - 14
            assert needed_height(cell.text_frame, room + 1.0) <= row.height / EMU


@pytest.mark.parametrize("kind", ANSWERS)
def test_powerpoint_has_no_overflow_and_no_overlap(tmp_path, kind):
    laid, presentation = presentation_of(make_lab(tmp_path / "lab", "hpc4ai-ch10", answer=ANSWERS[kind]))
    assert len(presentation.slides) == len(laid.pages) + 1
    assert_slides_tidy(presentation)


@pytest.mark.parametrize("edition", EDITIONS)
def test_powerpoint_of_every_edition(tmp_path, edition):
    laid, presentation = presentation_of(make_lab(tmp_path / "lab", edition, answer="Short."))
    assert_slides_tidy(presentation)
    titles = [slide.shapes.title.text for slide in presentation.slides]
    assert titles[0] == laid.deck.title and titles[1:] == [page.slide.title for page in laid.pages]


@pytest.mark.parametrize("kind", ANSWERS)
def test_powerpoint_holds_every_word(tmp_path, kind):
    laid, presentation = presentation_of(make_lab(tmp_path / "lab", "cc-mei-2025-lab5", answer=ANSWERS[kind]))
    for page, slide, words in zip(laid.pages, list(presentation.slides)[1:], page_texts(laid), strict=True):
        if any(isinstance(item, ChartItem) for item in page.items):
            continue
        said = []
        for shape in slide.shapes:
            if shape.name in ("text", "code") and shape.has_text_frame:
                said.append(shape.text_frame.text)
            elif shape.has_table:
                said += [cell.text_frame.text for row in shape.table.rows for cell in row.cells]
        assert "".join("".join(said).split()) == words, page.slide.title


@pytest.mark.parametrize("edition", EDITIONS)
def test_native_charts_carry_the_charts_numbers(tmp_path, edition):
    laid, presentation = presentation_of(make_lab(tmp_path / "lab", edition))
    specs = [item.spec for page in laid.pages for item in page.items if isinstance(item, ChartItem)]
    charts = [shape.chart for slide in presentation.slides for shape in slide.shapes if shape.has_chart]
    assert len(charts) == len(specs) > 0
    for spec, chart in zip(specs, charts, strict=True):
        drawn = {
            series.name: [v for v in series.values if v is not None]
            for plot in chart.plots
            for series in plot.series
        }
        for series in spec.series:
            if series.role != "band" and series.points:
                by_x = sorted(series.points, key=lambda point: point.x)
                assert drawn[series.name] == [point.y for point in by_x]
        wanted = [
            [p.hi - p.y for p in sorted(series.points, key=lambda p: p.x)]
            for series in spec.series
            if series.role in ("measured", "reference") and series.points and len(series.points) <= 30
            if any(p.lo is not None and p.hi - p.lo > 0 for p in series.points)
            and not (spec.key.startswith("efficiency-loss") and series is not spec.series[0])
        ]
        assert sorted(error_bars(chart)) == sorted(wanted)


def error_bars(chart) -> list[list[float]]:
    """Upper lengths of each series' error bars, as the file has them."""
    from pptx.oxml.ns import qn

    bars = []
    for found in chart._chartSpace.iter(qn("c:errBars")):
        values = [float(v.text) for v in found.find(qn("c:plus")).iter(qn("c:v"))]
        bars.append(values)
    return bars


@pytest.mark.parametrize(
    ("label", "form"),
    [("84.0 %", "0.0\\ %"), ("6,174", "#,##0"), ("8.099", "#,##0.000"), ("1.68", "#,##0.00")],
)
def test_labels_in_powerpoint_have_the_digits_of_ours(label, form):
    assert number_format(label) == form


def test_no_line_comes_before_a_longer_one():
    """LibreOffice would leave it out of the chart."""
    from labtui.core.charts import ChartSpec, Point, Series

    series = tuple(
        Series(name=name, points=tuple(Point(x=x, y=x) for x in range(n))) for name, n in (("a", 2), ("b", 5))
    )
    spec = ChartSpec(key="accuracy", title="t", x_label="", y_label="", series=series)
    assert [each.name for each in chart_data(spec)[1]] == ["b", "a"]


def test_two_series_named_alike_stay_two(tmp_path):
    from labtui.core.charts import ChartSpec, Point, Series

    series = tuple(Series(name="a", points=(Point(x=1, y=y),)) for y in (1.0, 2.0))
    spec = ChartSpec(key="epoch-time", title="t", x_label="", y_label="", series=series, kind="bars")
    assert [list(each.values) for each in chart_data(spec)[1]] == [[1.0], [2.0]]


# --------------------------------------------------------------------------- a teacher's template


def template_file(tmp_path, *, wide: bool):
    """A template as a teacher would have it: the standard layouts, sample slides, its own size."""
    from pptx import Presentation

    presentation = Presentation()
    if wide:
        presentation.slide_width, presentation.slide_height = 12_192_000, 6_858_000
    for at in (0, 1):
        slide = presentation.slides.add_slide(presentation.slide_layouts[at])
        slide.shapes.title.text = "Sample"
    path = tmp_path / "teacher.pptx"
    presentation.save(str(path))
    return path


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", ["long", "everything"])
def test_a_teachers_template_is_used(tmp_path, kind, wide):
    look = template_look(template_file(tmp_path, wide=wide))
    laid, presentation = presentation_of(
        make_lab(tmp_path / "lab", "hpc4ai-ch10", answer=ANSWERS[kind]), look
    )
    assert presentation.slide_width == (12_192_000 if wide else 9_144_000)
    assert len(presentation.slides) == len(laid.pages) + 1
    assert "Sample" not in [slide.shapes.title.text for slide in presentation.slides]
    assert {slide.slide_layout.name for slide in list(presentation.slides)[1:]} == {"Title Only"}
    feet = [
        s
        for slide in presentation.slides
        for s in slide.placeholders
        if s.placeholder_format.type.name == "FOOTER"
    ]
    assert feet and all(measure.width(foot.text_frame.text, 9.5) <= foot.width / EMU for foot in feet)
    assert_slides_tidy(presentation)


# --------------------------------------------------------------------------- PDF


@pytest.mark.skipif(not has("pdftotext"), reason="poppler reads the PDF back")
@pytest.mark.parametrize("kind", ANSWERS)
def test_pdf_holds_every_page_and_no_word_leaves_or_covers_another(tmp_path, kind):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10", answer=ANSWERS[kind])
    laid = lay_out(build_deck(lab.contents()))
    path = tmp_path / "deck.pdf"
    path.write_bytes(pdf_bytes(laid))
    pages = pdf_words(path)
    assert len(pages) == len(laid.pages) + 1
    for page, (width, height, words) in zip(laid.pages, pages[1:], strict=True):
        assert (width, height) == (960, 540)
        for x0, y0, x1, y1, word in words:
            assert x0 >= 40 and x1 <= 960 - 40 and y0 >= 20 and y1 <= 530, (page.slide.title, word)
        if any(isinstance(item, ChartItem) for item in page.items):
            continue
        for (ax0, ay0, ax1, ay1, one), (bx0, by0, bx1, by1, other) in itertools.combinations(words, 2):
            wide, high = min(ax1, bx1) - max(ax0, bx0), min(ay1, by1) - max(ay0, by0)
            assert not (wide > 1.5 and high > 0.35 * min(ay1 - ay0, by1 - by0)), (
                page.slide.title,
                one,
                other,
            )


@pytest.mark.skipif(not has("pdftotext"), reason="poppler reads the PDF back")
def test_pdf_says_what_the_pages_say(tmp_path):
    laid = lay_out(build_deck(make_lab(tmp_path / "lab", "hpc4ai-ch10", answer=ANSWERS["maths"]).contents()))
    path = tmp_path / "deck.pdf"
    path.write_bytes(pdf_bytes(laid))
    text = subprocess.run(
        ["pdftotext", "-raw", str(path), "-"], capture_output=True, check=True
    ).stdout.decode()
    seen = [sorted("".join(page.split())) for page in text.split("\f")]
    for page, words, marks in zip(laid.pages, page_texts(laid), seen[1:], strict=False):
        left = list(marks)
        for mark in words:
            assert mark in left, (page.slide.title, mark)
            left.remove(mark)


def test_pdf_is_the_same_for_the_same_deck(tmp_path):
    laid = lay_out(build_deck(make_lab(tmp_path / "lab", "sa-miri-2021-ex12").contents()))
    assert pdf_bytes(laid) == pdf_bytes(laid)


@pytest.mark.slow
@pytest.mark.skipif(not has("soffice"), reason="LibreOffice opens the PowerPoint file, for looking only")
def test_another_office_opens_the_deck(tmp_path):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10", answer=ANSWERS["everything"])
    look = own_look()
    laid = lay_out(build_deck(lab.contents()), look.geometry)
    (tmp_path / "deck.pptx").write_bytes(pptx_bytes(laid, look))
    home = f"-env:UserInstallation=file://{tmp_path / 'office'}"
    command = [
        "soffice",
        home,
        "--headless",
        "--convert-to",
        "pdf",
        "--outdir",
        str(tmp_path),
        str(tmp_path / "deck.pptx"),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=240)
    assert len(pdf_words(tmp_path / "deck.pdf")) == len(laid.pages) + 1
