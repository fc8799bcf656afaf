"""The finished files: PowerPoint read back with python-pptx, PDF with poppler, reports built and run."""

from __future__ import annotations

import html
import io
import itertools
import json
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.export import export_lab, maths
from labtui.export.hand_in import CodeLine, Formula, Listing, Page, Paragraph, Picture, Run, Table, block_text
from labtui.export.markdown import blocks_of
from labtui.export.measurements import stamp_of
from labtui.export.pages import hand_in
from labtui.export.pptx_charts import chart_data, number_format
from labtui.export.pptx_theme import EMU, own_look, template_look
from labtui.export.pptx_writer import pptx_bytes
from labtui.export.slide_layout import BODY, lay_out
from labtui.export.typst_writer import SLIDE_SIZES, Typesetter
from labtui.results.charts import ChartSpec, Point, Series, doubling_axes
from labtui.results.compute import compute_results
from tests.export.helpers import ANSWERS, DAY, EDITIONS, has, make_lab, pdf_words
from tests.results.helpers import run as measured_run


@pytest.fixture(scope="module")
def typesetter():
    with Typesetter() as made:
        yield made


def presentation_of(lab, typesetter, look=None):
    from pptx import Presentation

    deck = hand_in(lab.contents())
    laid = lay_out(deck, typesetter.heights)
    data = pptx_bytes(deck, laid, look or own_look())
    return laid.slides, data, Presentation(io.BytesIO(data))


def parts_of(data: bytes, pattern: str) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        return {
            name: package.read(name).decode() for name in package.namelist() if re.fullmatch(pattern, name)
        }


# --------------------------------------------------------------------------- PowerPoint


@pytest.mark.parametrize("kind", ["short", "maths", "everything"])
def test_powerpoint_is_editable_legible_and_has_its_words_in_placeholders(tmp_path, kind, typesetter):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10", answer=ANSWERS[kind])
    slides, data, presentation = presentation_of(lab, typesetter)
    assert len(presentation.slides) == len(slides)
    width, height = presentation.slide_width, presentation.slide_height
    for slide, drawn in zip(slides, presentation.slides, strict=True):
        assert drawn.shapes.title.text_frame.text == slide.title
        if any(zone.words and isinstance(zone.blocks[0], Paragraph) for zone in slide.zones):
            bodies = [s for s in drawn.placeholders if s.placeholder_format.type.name in ("BODY", "OBJECT")]
            assert bodies and bodies[0].text_frame.text.strip(), slide.title
        if slide.notes:
            assert drawn.notes_slide.notes_text_frame.text == slide.notes
        for shape in drawn.shapes:
            if shape.left is not None and not shape.is_placeholder:
                assert shape.left >= -EMU and shape.top >= -EMU and shape.left + shape.width <= width + EMU
                assert shape.top + shape.height <= height + EMU, (slide.title, shape.name)
            if shape.has_chart or shape.has_table or shape.shape_type == 13:
                assert shape._element.xpath(".//p:cNvPr")[0].get("descr"), (slide.title, shape.name)
    xml = parts_of(data, r"ppt/slides/slide\d+\.xml")
    for name, text in xml.items():
        ids = re.findall(r'<p:cNvPr id="(\d+)"', text)
        assert len(ids) == len(set(ids)), name
        assert {int(size) for size in re.findall(r'\bsz="(\d+)"', text)} <= {
            round(size * 100) for size in (*SLIDE_SIZES.values(), SLIDE_SIZES["body"] * 0.92)
        }, name


def test_every_colour_is_the_themes_so_that_a_dark_template_works(tmp_path, typesetter):
    lab = make_lab(tmp_path / "lab", "sa-miri-2025-pg", answer=ANSWERS["everything"])
    look = template_look(dark_template(tmp_path))
    _, data, _ = presentation_of(lab, typesetter, look)
    for name, text in parts_of(data, r"ppt/(slides/slide|charts/chart)\d+\.xml").items():
        assert "srgbClr" not in text and "prstClr" not in text, name
        assert not re.search(r'<a:solidFill><a:schemeClr val="(dk|lt)\d', text), name


def dark_template(tmp_path):
    """A university's template: dark paper, its own accents, its own size, sample slides."""
    from pptx import Presentation

    presentation = Presentation()
    for relation in presentation.slide_master.part.rels.values():
        if relation.reltype.endswith("/theme"):
            text = relation.target_part.blob.decode()
            text = text.replace('<a:sysClr val="window" lastClr="FFFFFF"/>', '<a:srgbClr val="102030"/>')
            text = text.replace('<a:sysClr val="windowText" lastClr="000000"/>', '<a:srgbClr val="F0F0F0"/>')
            relation.target_part._blob = text.encode()
    presentation.slides.add_slide(presentation.slide_layouts[0]).shapes.title.text = "Sample"
    path = tmp_path / "dark.pptx"
    presentation.save(str(path))
    return path


def test_a_template_keeps_its_layouts_and_loses_its_samples(tmp_path, typesetter):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10", answer="Short.")
    slides, _, presentation = presentation_of(lab, typesetter, template_look(dark_template(tmp_path)))
    assert presentation.slide_width == 9_144_000
    assert [s.shapes.title.text_frame.text for s in presentation.slides] == [slide.title for slide in slides]
    assert {s.slide_layout.name for s in list(presentation.slides)[1:]} == {"Title and Content"}


def test_powerpoint_is_the_same_for_the_same_state(tmp_path, typesetter):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10", answer=ANSWERS["maths"])
    one, other = (presentation_of(lab, typesetter)[1] for _ in range(2))
    assert one == other


def test_native_charts_hold_the_numbers_and_the_bars_of_the_chart(tmp_path, typesetter):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10")
    slides, _, presentation = presentation_of(lab, typesetter)
    seen = 0
    for slide, drawn in zip(slides, presentation.slides, strict=True):
        specs = {b.spec.key: b.spec for zone in slide.zones for b in zone.blocks if hasattr(b, "spec")}
        for shape in drawn.shapes:
            if not shape.has_chart:
                continue
            spec = specs[shape.name.removeprefix("chart ")]
            native = {
                series.name: list(series.values) for plot in shape.chart.plots for series in plot.series
            }
            for series in spec.series:
                points = sorted(series.points, key=lambda point: point.x)
                assert [v for v in native[series.name] if v is not None] == [point.y for point in points]
                seen += 1
            upper = [
                float(v.text) for bars in shape.chart._chartSpace.iter("{*}plus") for v in bars.iter("{*}v")
            ]
            wanted = [p.hi - p.y for s in spec.series[:1] for p in s.points if p.hi is not None]
            assert not any(wanted) or set(wanted) <= set(upper)
    assert seen >= 20


def test_powerpoint_ticks_are_the_measured_counts_and_lines_carry_their_names():
    points = tuple(Point(x=n, y=n, label=str(n)) for n in (1, 2, 4))
    series = tuple(Series(name=name, points=points) for name in ("a", "b"))
    ticks = tuple((float(n), str(n)) for n in (1, 2, 4))
    spec = ChartSpec(key="speedup", title="t", x_label="GPUs", y_label="", series=series, x_ticks=ticks)
    assert [each.name for each in chart_data(spec)[1]][-1] == " "
    from pptx import Presentation

    from labtui.export.pptx_charts import add_chart

    slide = Presentation().slides.add_slide(Presentation().slide_layouts[6])
    chart = add_chart(slide, spec, (0, 0, 4_000_000, 3_000_000), 400).chart
    assert not chart.has_legend
    text = chart._chartSpace.xml
    assert text.count('<c:showSerName val="1"/>') == 2
    ticks_typed = re.findall(r"<c:tx>\s*<c:rich>.*?<a:t>([^<]*)</a:t>", text, re.DOTALL)
    assert [tick for tick in ticks_typed if tick in "124"] == ["1", "2", "4"]
    moved = [
        float(y)
        for y in re.findall(r'<c:dLbl>\s*<c:idx val="2"/>\s*<c:layout>.*?<c:y val="([^"]+)"', text, re.DOTALL)
    ]
    low, high = sorted(moved)  # both lines end at 4: their names are moved apart
    assert (high - low) * 300 >= 16  # points of a chart 400 wide and 300 high


def test_what_stands_on_a_slide_of_powerpoint_covers_nothing_else(tmp_path, typesetter):
    """Words, tables and code have the heights Typst measured: none begins before the one above it ends."""
    code = Listing(
        tuple(CodeLine((Run("x = " + "f(1), " * n),), str(n), "+" if n % 2 else "-") for n in range(9))
    )
    table = Table(
        ("network", "efficiency at 4"), (("ResNet50V2", "0.63"), ("ResNet152V2", "0.81")), (False, True)
    )
    words = Paragraph(
        (Run("The larger network scales better because its gradients grow less than its work. " * 2),)
    )
    deck = hand_in(make_lab(tmp_path / "lab", "hpc4ai-ch10", full=False).contents())
    page = Page(title="All kinds", words=(words, table, words, code, words), flows=True)
    laid = lay_out(replace(deck, pages=(page,)), typesetter.heights)
    from pptx import Presentation

    seen = 0
    for slide in list(Presentation(io.BytesIO(pptx_bytes(deck, laid, own_look()))).slides)[1:]:
        body = [shape for shape in slide.shapes if 118 * EMU <= shape.top < 500 * EMU]
        for above, below in itertools.pairwise(sorted(body, key=lambda shape: shape.top)):
            assert above.top + above.height <= below.top + EMU
            seen += 1
        for shape in body:
            assert shape.top + shape.height <= 497 * EMU
            if shape.has_table:
                assert all(row.height >= 14 * EMU for row in shape.table.rows)
    assert seen >= 3


def test_columns_of_powerpoint_are_narrower_only_where_the_table_is_wide():
    """Typst measured the rows with columns of its own: a narrow one is not wrapped for the sake of a wide one."""
    from labtui.export.pptx_writer import _column_widths
    from labtui.export.style import text_width

    short, name, word = (
        "4 (2), 6 (3), 8 (4)",
        "vit (micro-224; compiled, a script of my own) on 1 GPU",
        "x" * 60,
    )
    widths = _column_widths(Table(("training", "lines"), ((name, short), ("vit", short)), ()), 300, 12)
    assert sum(widths) <= 300 < text_width(name, 12) + widths[1]
    assert widths[1] >= text_width(short, 12)
    assert _column_widths(Table(("a", "lines"), (("b", short),), ()), 800, 12)[1] < 200
    parted = _column_widths(Table(("a", "b"), ((name, word), (name, "b")), ()), 560, 12)
    assert parted[1] >= text_width(word, 12) and sum(parted) <= 560
    both = _column_widths(Table(("a", "b"), ((word, word),), ()), 300, 12)
    assert both == pytest.approx([150, 150], abs=1)


@pytest.mark.parametrize("kind", ["lines", "bars"])
def test_an_axis_of_doublings_says_the_gpus_in_powerpoint(kind):
    """Marks stand at the binary logarithm; what is written below them are numbers of GPUs."""
    from pptx import Presentation

    from labtui.export.pptx_charts import add_chart

    counts = (1, 2, 4, 8, 16, 32)
    points = tuple(Point(x=n, y=240.0 * n, label=f"{240 * n}") for n in counts)
    spec = doubling_axes(
        ChartSpec(
            key="throughput", title="t", x_label="GPUs", y_label="images per second", kind=kind,
            series=(Series(name="vit", points=points),), x_ticks=tuple((float(n), str(n)) for n in counts),
        )
    )  # fmt: skip
    slide = Presentation().slides.add_slide(Presentation().slide_layouts[6])
    chart = add_chart(slide, spec, (0, 0, 4_000_000, 3_000_000), 400).chart
    if kind == "bars":
        assert list(chart.plots[0].categories) == [str(n) for n in counts]
        return
    line, ticks = chart.plots[0].series
    assert list(line.iter_values()) == [240.0 * n for n in counts]
    xs = [float(v.text) for v in ticks._element.iter("{*}v") if v.text.strip()][: len(counts)]
    assert xs == [0, 1, 2, 3, 4, 5]
    written = [
        text.text for text in ticks._element.iter("{http://schemas.openxmlformats.org/drawingml/2006/main}t")
    ]
    assert written == [str(n) for n in counts]
    assert chart.category_axis.axis_title.text_frame.text == "GPUs (logarithmic)"


def test_ticks_of_the_ideal_over_bars_are_named_in_powerpoint():
    from pptx import Presentation

    from labtui.export.pptx_charts import add_chart

    bars = tuple(
        Series(name=name, points=tuple(Point(x=n, y=0.9 * n, label=f"{0.9 * n}") for n in (1, 2, 4)))
        for name in ("a", "b")
    )
    ideal = Series(name="ideal", role="ideal", points=tuple(Point(x=n, y=n) for n in (1, 2, 4)))
    spec = ChartSpec(
        key="speedup", title="t", x_label="GPUs", y_label="times", kind="bars", series=(*bars, ideal),
        x_ticks=tuple((float(n), str(n)) for n in (1, 2, 4)),
    )  # fmt: skip
    slide = Presentation().slides.add_slide(Presentation().slide_layouts[6])
    chart = add_chart(slide, spec, (0, 0, 4_000_000, 3_000_000), 400).chart
    (ticks,) = chart.plots[1].series
    assert ticks.name == "ideal"
    (label,) = ticks._element.iter("{*}dLbl")
    assert label.find("{*}idx").get("val") == "2" and label.find("{*}showSerName").get("val") == "1"


@pytest.mark.parametrize(
    ("label", "form"),
    [("84.0 %", "0.0\\ %"), ("6,174", "#,##0"), ("8.099", "#,##0.000"), ("1.68", "#,##0.00")],
)
def test_labels_in_powerpoint_have_the_digits_of_ours(label, form):
    assert number_format(label) == form


@pytest.mark.slow
@pytest.mark.skipif(not has("soffice"), reason="LibreOffice opens the PowerPoint file, for looking only")
def test_another_office_opens_the_deck(tmp_path, typesetter):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10", answer=ANSWERS["everything"])
    slides, data, _ = presentation_of(lab, typesetter)
    (tmp_path / "deck.pptx").write_bytes(data)
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
    subprocess.run(command, check=True, capture_output=True, timeout=900)
    assert len(pdf_words(tmp_path / "deck.pdf")) == len(slides)


@pytest.mark.parametrize("words", [(), (Paragraph((Run("What changed."),)),)])
def test_a_listing_higher_than_its_slide_leaves_none_empty(tmp_path, words, typesetter):
    lines = tuple(CodeLine((Run(f"print({n})"),), str(n)) for n in range(1, 60))
    deck = hand_in(make_lab(tmp_path / "lab", "hpc4ai-ch10", full=False).contents())
    page = Page(title="What differs", visuals=(Listing(lines),), words=words)
    slides = lay_out(replace(deck, pages=(page,)), typesetter.heights).slides
    assert len(slides) >= 3 and slides[0].front
    assert all(any(zone.blocks for zone in slide.zones) for slide in slides[1:])


def test_a_table_of_hundreds_of_rows_goes_on_over_slides(tmp_path, typesetter):
    """The sources of a lab of 400 runs: every row is on a slide, and no slide is fuller than its body."""
    rows = tuple((f"ResNet50 · {n} GPUs", str(n)) for n in range(400))
    deck = hand_in(make_lab(tmp_path / "lab", "hpc4ai-ch10", full=False).contents())
    page = Page(title="Where from", visuals=(Table(("training", "job"), rows, (False, True)),), flows=True)
    laid = lay_out(replace(deck, pages=(page,)), typesetter.heights)
    tables = [
        block
        for slide in laid.slides
        for zone in slide.zones
        for block in zone.blocks
        if isinstance(block, Table)
    ]
    assert tuple(row for table in tables for row in table.rows) == rows
    heights = typesetter.heights([(table, BODY.w) for table in tables])
    assert all(found["height"] <= BODY.h for found in heights)
    from pptx import Presentation

    shown = Presentation(io.BytesIO(pptx_bytes(deck, laid, own_look())))
    cells = [
        [cell.text for cell in row.cells]
        for slide in shown.slides
        for shape in slide.shapes
        if shape.has_table
        for row in shape.table.rows
    ]
    assert [tuple(each) for each in cells if each[0].startswith("ResNet50 ·")] == list(rows)


# --------------------------------------------------------------------------- PDF


@pytest.mark.skipif(not has("pdftotext"), reason="poppler reads the PDF back")
@pytest.mark.parametrize("edition", EDITIONS)
def test_pdf_has_a_page_per_slide_and_no_word_leaves_it(tmp_path, edition, typesetter):
    lab = make_lab(
        tmp_path / "lab", edition, answer=ANSWERS["everything"] if "ch10" in edition else ANSWERS["maths"]
    )
    deck = hand_in(lab.contents())
    slides = lay_out(deck, typesetter.heights).slides
    (tmp_path / "deck.pdf").write_bytes(typesetter.slides(deck, slides))
    pages = pdf_words(tmp_path / "deck.pdf")
    assert len(pages) == len(slides)
    for slide, (width, height, words) in zip(slides, pages, strict=True):
        assert (width, height) == (960, 540)
        for x0, y0, x1, y1, word in words:
            assert x0 >= 0 and x1 <= 962 and y0 >= 0 and y1 <= 540, (slide.title, word)
        text = "".join(word for *_, word in words)
        assert "".join(slide.title.split())[:20] in html.unescape(text)


def test_pdf_is_the_same_for_the_same_state(tmp_path, typesetter):
    deck = hand_in(make_lab(tmp_path / "lab", "sa-miri-2021-ex12", answer="Short.").contents())
    assert typesetter.report(deck) == typesetter.report(deck)


# --------------------------------------------------------------------------- formulas


def test_formulas_are_right_or_raw(typesetter):
    apart, together = (maths.typst_tree(tex) for tex in (r"\frac{a+b}{c}d", r"\frac{a+b}{cd}"))
    assert apart != together
    assert maths.omml(r"\frac{a+b}{c}d") != maths.omml(r"\frac{a+b}{cd}")
    product = maths.omml(r"2\frac{n-1}{n}M")
    assert re.sub(r"<[^>]+>", "|", product).replace("|", "") == "2n−1nM"
    assert product.index("<m:f>") < product.index('<m:t xml:space="preserve">n')
    for raw in (r"\unknown{x}", r"x^{2", "}", "", r"\frac{a}", "\\"):
        assert maths.mathml(raw) is None and maths.omml(raw) is None and maths.line_spans(raw) is None
    assert maths.line_spans(r"S_n = 2") == [
        ("S", True, 0),
        ("n", True, -25000),
        (" = ", False, 0),
        ("2", False, 0),
    ]
    assert maths.line_spans(r"\frac{1}{2}") is None


def test_what_cannot_be_converted_is_shown_as_typed(tmp_path, typesetter):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10", answer=r"It is $\unknown{x}$ and $\frac{a+b}{c}d$.")
    deck = hand_in(lab.contents())
    slides = lay_out(deck, typesetter.heights).slides
    assert typesetter.slides(deck, slides).startswith(b"%PDF")
    _, data, _ = presentation_of(lab, typesetter)
    text = "".join(parts_of(data, r"ppt/slides/slide\d+\.xml").values())
    assert r"\unknown{x}" in text and r"\frac{a+b}{c}d" in text and "Consolas" in text


def test_a_formula_on_its_own_line_is_offices_maths_with_its_tex_beside_it(tmp_path, typesetter):
    lab = make_lab(tmp_path / "lab", "cc-mei-2025-lab5", answer="It is\n\n$$S = \\frac{T_1}{T_n}$$")
    _, data, _ = presentation_of(lab, typesetter)
    text = "".join(parts_of(data, r"ppt/slides/slide\d+\.xml").values())
    assert "<m:oMathPara" in text and "mc:Fallback" in text


@given(st.text(alphabet="ab12+-=_^{}\\ frcqst.()", max_size=24))
def test_any_formula_is_a_tree_or_nothing(tex):
    tree = maths.typst_tree(tex)
    assert tree is None or json.dumps(tree)
    found = maths.omml(tex)
    assert found is None or ET.fromstring(found) is not None
    assert maths.mathml_text(tex)


# --------------------------------------------------------------------------- Markdown


def test_markdown_keeps_pictures_footnotes_boxes_tables_code_and_formulas():
    text = (
        "Text[^1] and ![a chart](chart.png).\n\n- [x] done\n- [ ] open\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n"
        "```python\nx = 1\n```\n\n$$a^2$$\n\n[^1]: The note.\n"
    )
    blocks = blocks_of(text, {"chart.png": b"\x89PNG\r\n\x1a\n"}.get)
    kinds = [type(block) for block in blocks]
    assert Picture in kinds and Table in kinds and Formula in kinds
    assert [b.bullet for b in blocks if isinstance(b, Paragraph) and b.level == 1][:2] == ["☑", "☐"]
    words = " ".join(block_text(block) for block in blocks)
    assert "Text[1] and" in words and "The note." in words and "x = 1" in words
    assert "[picture: a chart]" in " ".join(block_text(b) for b in blocks_of(text))


# --------------------------------------------------------------------------- reports


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    lab = make_lab(
        tmp_path_factory.mktemp("reports") / "lab", "cc-mei-2025-lab5", answer=ANSWERS["everything"]
    )
    export_lab(lab.folder.path, state=lab.state, today=DAY, plots=False)
    return lab.folder.path


def test_the_notebook_runs_from_top_to_bottom(reports):
    book = json.loads((reports / "analysis.ipynb").read_text("utf-8"))
    assert book["nbformat"] == 4 and len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    code = "\n".join("".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code")
    done = subprocess.run(
        [sys.executable, "-c", "import matplotlib\nmatplotlib.use('Agg')\n" + code + "\nprint(len(scaling))"],
        cwd=reports, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 6


def test_the_time_of_a_practice_export_is_called_the_practice_clock_s() -> None:
    """That clock runs ahead: as a plain time it would lie in the future."""
    for practice in (True, False):
        measured = measured_run(1, [30.0, 13.6], practice=practice)
        ended = tuple(replace(sample, ended_at=1_700_000_000.0) for sample in measured.run.epochs)
        results = compute_results([replace(measured, run=replace(measured.run, epochs=ended))])
        assert stamp_of(results).startswith("2023-11-14 22:13 UTC")
        assert ("practice clock" in stamp_of(results)) is practice
