"""The finished slides and reports: PowerPoint read back with python-pptx, PDF with poppler, the notebook run."""

import html
import io
import itertools
import json
import re
import subprocess
import sys
import zipfile

import pytest
from msgspec.structs import replace
from pptx import Presentation

from labtui.export import drawing, export_lab, notebook
from labtui.export.contents import stamp_of
from labtui.export.documents import chart_height, pdf
from labtui.export.drawing import layers, split_lines
from labtui.export.hand_in import Answer, CodeLine, Listing, Page, Paragraph, Picture, plain
from labtui.export.markdown import blocks_of, formula_picture, formula_text
from labtui.export.pages import hand_in
from labtui.export.plots import chart_picture, figure_of, pictures
from labtui.export.powerpoint import pptx
from labtui.export.powerpoint_charts import add_chart
from labtui.export.tables import csv_text, markdown_text
from labtui.results.catalogue import catalogue, epoch_chart, lab_charts
from labtui.results.charts import Point, Series, make_chart
from labtui.results.compute import compute_results
from labtui.results.numbers import PRECISE, Table, text_table
from tests.export.helpers import ANSWERS, EACH_KIND, block_text, make_lab, pdf_words
from tests.results.helpers import run as measured_run

INCH = 914_400


def presentation_of(data):
    return Presentation(io.BytesIO(data))


def texts_of(slide):
    found = [shape.text_frame.text for shape in slide.shapes if shape.has_text_frame]
    for shape in slide.shapes:
        if shape.has_table:
            found += [cell.text for row in shape.table.rows for cell in row.cells]
    return found


def document_of(tmp_path, edition, **how):
    return hand_in(make_lab(tmp_path / "lab", edition, **how).contents())


def test_documents_hold_every_word_within_their_pages(tmp_path):
    document = document_of(tmp_path, "hpc4ai-ch10", answer=EACH_KIND)
    assert len({answer.blocks for page in document.pages for answer in page.answers}) == len(ANSWERS)
    presentation = presentation_of(made := pptx(document))
    with zipfile.ZipFile(io.BytesIO(made)) as package:
        names = [n for n in package.namelist() if re.fullmatch(r"ppt/(slides/slide|charts/chart)\d+\.xml", n)]
        assert len(names) > 20 and not re.search('srgb|Lines val="1', str([*map(package.read, names)]))
    squeezed = "".join("".join("".join(texts_of(slide)).split()) for slide in presentation.slides)
    for page in document.pages:
        for block in (block for answer in page.answers for block in answer.blocks):
            if isinstance(block, Listing):
                assert all("".join(line.text.split()) in squeezed for line in block.lines), "code is whole"
            elif isinstance(block, Paragraph) and not any(run.tex for run in block.runs):
                assert all(word[:60] in squeezed for word in block_text(block).split())
    for slide in presentation.slides:
        body = [s for s in slide.shapes if not s.is_placeholder and 1.6 * INCH <= s.top < 6.9 * INCH]
        for shape in body:
            assert shape.left >= 0 and shape.left + shape.width <= presentation.slide_width + INCH // 10
            assert shape.top + shape.height <= 6.95 * INCH, (slide.shapes.title.text_frame.text, shape.name)
            if shape.has_chart or shape.has_table or shape.shape_type == 13:
                assert shape._element.xpath(".//p:cNvPr")[0].get("descr"), shape.name
            cells = shape.table.iter_cells() if shape.has_table else ()
            assert all(each._tc.xpath(".//a:endParaRPr/@sz") for each in cells), "else empty ones are high"
        for one, other in itertools.combinations(body, 2):
            apart = one.left + one.width <= other.left + 9000 or other.left + other.width <= one.left + 9000
            below = one.top + one.height <= other.top + 9000 or other.top + other.height <= one.top + 9000
            if not (one.has_chart and other.has_chart):
                assert apart or below, (slide.shapes.title.text_frame.text, one.name, other.name)
    for form in ("slides", "report"):
        path = tmp_path / f"{form}.pdf"
        path.write_bytes(pdf(document, form))
        pages = pdf_words(path)
        assert len(pages) >= (len(document.pages) + 1 if form == "slides" else 3)
        for width, height, words in pages:
            for left, top, right, bottom, word in words:
                assert left >= -1 and top >= -1 and right <= width + 1 and bottom <= height + 1, word
        text = html.unescape("".join(word for _, _, words in pages for *_, word in words))
        assert all("".join(page.title.split())[:30] in text for page in document.pages)
    assert chart_picture.cache_info().hits, "slides and report share a chart of one size"


def test_native_charts_hold_the_numbers_and_the_bounds_of_the_chart(tmp_path):
    document = document_of(tmp_path, "hpc4ai-ch10")
    specs = [spec for page in document.pages for spec in page.charts if spec.x_axis == "counts"]
    shapes = (shape for slide in presentation_of(pptx(document)).slides for shape in slide.shapes)
    charts = [(shape.chart, shape.chart._chartSpace.xml) for shape in shapes if shape.has_chart]
    shown = [chart for chart, xml in charts if re.search('scatterChart|barDir val="col"', xml)]
    native = [{each.name: list(each.values) for plot in c.plots for each in plot.series} for c in shown]
    assert all(told in str(charts) for told in (">12.2 ±0.2<", "36.8 lost<")), "as in `why` and in the PDF"
    for spec, drawn in zip(specs, native, strict=True):
        for series in spec.measured:
            values = [each for each in drawn[series.short or series.name] if each is not None]
            assert values == [point.y for point in sorted(series.points, key=lambda point: point.x)]
    assert sum(len(spec.measured) for spec in specs) >= 12


def native(family, inches, **changed):
    results = compute_results(measured_run(n, [13.0 / n + 2] * 3) for n in (1, 2, 4))
    (spec,) = (replace(chart, **changed) for chart in lab_charts(results) if chart.family == family)
    slides = Presentation()
    return add_chart(slides.slides.add_slide(slides.slide_layouts[6]), spec, (0, 0, inches, 4)), spec


def test_both_drawers_draw_lines_in_one_order_and_each_that_others_lie_on_is_seen():
    xs = {"a mark": (32,), "short": (8, 32), "apart": (1, 16), "long": (1, 8, 32)}
    points = {name: [Point(x=x, y=x * (1 + (name == "apart"))) for x in xs[name]] for name in xs}
    lines = tuple(Series(name=name, points=tuple(found), hue=5) for name, found in points.items())
    chart, spec = native("speedup", 8, series=lines, x_log=True)
    drawn = [(each.name, each.marker.size, str(each.marker.style)) for each in chart.plots[0].series]
    order = [name for name, *_ in drawn]
    assert order == ["long", "short", "apart", "a mark"] == [s.name for s in layers(spec)]
    with drawing.chart_style():
        axes = figure_of([spec], 8, 4).axes[0]
    marks = [(each.get_label(), each.get_markersize()) for each in axes.lines if each.get_label() in xs]
    assert marks == [(name, size) for name, size, _ in drawn]
    assert marks == [("long", 14), ("short", 11), ("apart", 8), ("a mark", 8)]
    colour = str(chart.plots[0].series[0].format.line.color.theme_color)
    assert "FOLLOWED_HYPERLINK" in colour, "of its own"


def test_every_line_of_a_chart_of_laws_is_drawn_whole():
    """LibreOffice drops a first line that is shorter than a later one; only a measured line may have gaps."""
    chart, spec = native("laws", 8)
    series = list(chart.plots[0].series)
    counts = [len(list(each.values)) for each in series]
    assert len(set(counts)) == 1 and len(counts) == len(spec.series)
    assert "[=3]" not in chart.category_axis.tick_labels.number_format, "of several not run, all stand"
    (ideal,) = (each for each in series if each.name == "ideal")
    assert [y for y in ideal.values if y is not None] == [1, 2, 4, 8]
    own, *_ = (each for each in series if each.name == spec.measured[0].name)
    (x,), (y,) = (own._element.xpath(f"c:dLbls/c:dLbl[c:idx/@val='2']//c:{at}/@val") for at in "xy")
    assert 0 < float(x) < 0.02 and float(y) > 0, "its number is below its own end, where no line goes on"
    assert {"Amdahl", "Gustafson"} < set(chart._chartSpace.xpath("//a:t/text()")), "at their ends"
    assert native("epochs", 8)[0]._chartSpace.xpath("//c:dPt//c:spPr/a:solidFill/*/@val") == 3 * ["bg1"]


def test_the_ideal_is_named_at_its_bar_and_no_two_ticks_of_percent_have_one_text():
    sizes = (("a", (1, 2, 4)), ("b", (1, 4)))
    runs = (measured_run(n, [9, 13.0 / n + 1, 13.0 / n + 3], model=m) for m, ns in sizes for n in ns)
    results = compute_results(runs)
    (spec,) = (replace(each, kind="bars") for each in catalogue(results) if each.family == "speedup")
    slide = (slides := Presentation()).slides.add_slide(slides.slide_layouts[6])
    chart = add_chart(slide, spec, (0, 0, 8, 4))
    first, *_, last = chart._chartSpace.xpath("//c:ser[c:tx//c:v='ideal']//a:t/text()")
    assert set(first) == {"–", " "} and last == f"{first} ideal", "dashes over each bar"
    assert not chart.has_legend and {"2.86× a", "2.86× b"} < set(chart._chartSpace.xpath("//a:t/text()"))
    assert chart._chartSpace.xpath("//c:lineChart/c:ser/c:tx//c:v/text()") == ["ideal"], "no bar"
    assert not add_chart(slide, spec, (0, 0, 8, 4), named=False).has_legend, "as in the PDF"
    time, plots = catalogue(results)[0], set()
    for each, side in ((spec, 1), (replace(time, kind="bars"), -1), (time, 0)):
        space = add_chart(slide, each, (0, 0, 8, 4))._chartSpace
        plots.add(tuple(space.xpath("//c:plotArea/c:layout//c:y/@val | //c:plotArea/c:layout//c:h/@val")))
        places = space.xpath("//c:ser[c:tx//c:v!='ideal']//c:dLbl[.//c:x/@val='0.0000']//c:y/@val")
        assert places and all(float(y) * side > 0 for y in places if side), "beyond their error bars"
        assert space.xpath("//c:ser[c:tx//c:v='b']//c:plus//c:pt/@idx") == ["0", "2"], "as its marks are"
    rows = add_chart(slide, replace(time, kind="bars", x_axis="names"), (0, 0, 8, 4))._chartSpace
    assert any(float(x) > 0 for x in rows.xpath("//c:ser//c:dLbl//c:x/@val")) and rows.xpath("//c:errBars")
    assert len(plots) == 1, "the axes of bars and lines stand on one line"
    for most, form in ((0.715, "0.0 %"), (0.9, "0 %")):
        points = Point(x=1, y=0.712), Point(x=2, y=most)
        line = make_chart("batch-accuracy", [Series(name="a", points=points)])
        assert add_chart(slide, line, (0, 0, 8, 4)).value_axis.tick_labels.number_format == form
    even = [Series(name=f"{y}", points=(Point(x=0, y=y),)) for y in (0.04, -0.04)]  # a gain evens out a loss
    even = make_chart("efficiency-loss", even, kind="bars", x_axis="names", x_ticks=((0, "2"),))
    assert [[*each.values] for each in add_chart(slide, even, (0, 0, 8, 4)).series] == [[0.04], [-0.04]]


@pytest.mark.parametrize("family", ["epochs", "efficiency", "laws"])
def test_the_axes_of_a_slide_end_with_the_data_at_the_ticks_of_the_plot(family):
    chart, spec = native(family, 8)
    up, steps = chart.value_axis, drawing.y_steps(spec)
    assert (up.minimum_scale, up.maximum_scale) == (steps[0], steps[-1]) == drawing.y_limits(spec)
    assert up.major_unit == pytest.approx(steps[1] - steps[0])
    assert chart.category_axis.maximum_scale == max(p.x for each in spec.series for p in each.points)


@pytest.mark.parametrize(("family", "up"), [("efficiency", True), ("speedup", False)])
def test_a_number_stands_right_of_its_mark_on_the_side_that_its_line_and_the_ideal_leave_free(family, up):
    (label,) = native(family, 2.8)[0]._chartSpace.xpath("//c:dLbl[c:idx/@val='1']")
    assert label.xpath("c:dLblPos/@val") == ["r"] and (float(label.xpath("c:layout//c:y/@val")[0]) < 0) is up


def test_panels_have_one_place_and_one_scale_and_the_axis_is_named_once(tmp_path):
    names = ("a", "b", "a much longer name than the others")
    runs = (replace(measured_run(n, [13.0 / n + 2] * 3), data_set=name) for n in (1, 1, 2) for name in names)
    spec = epoch_chart(compute_results(runs))
    document = document_of(tmp_path, "hpc4ai-ch10", full=False)
    document = replace(document, pages=(Page(title="", charts=(spec,)),))
    slides = presentation_of(pptx(document)).slides
    spaces = [s.chart._chartSpace for slide in slides for s in slide.shapes if s.has_chart]
    places = {tuple(space.xpath("//c:plotArea/c:layout//@val|//c:valAx[1]//c:max/@val")) for space in spaces}
    assert len(spaces) == len(split_lines(spec)) > 4 and len(places) == 1 and "inner" in min(places)
    tops = ("(//c:ser)[1]", "//c:ser[not(//c:ser/c:order/@val > c:order/@val)]")  # LibreOffice, PowerPoint
    above = [space.xpath(f"{top}/c:spPr//a:schemeClr/@val") for space in spaces for top in tops]
    assert len(above) == 2 * len(spaces) and ["bg2"] not in above, "the chosen line lies over the grey ones"
    assert sum(bool(space.xpath("//c:valAx/c:title")) for space in spaces) == 1


def test_charts_take_the_room_and_short_answers_stand_in_frames_of_their_own(tmp_path):
    document = document_of(tmp_path, "hpc4ai-ch10", answer="Each step waits $t_c$ for all GPUs.")
    pages = tuple(replace(page, warnings=("Not run yet.",)) for page in document.pages)
    cover, *slides = presentation_of(pptx(replace(document, pages=pages))).slides
    end = "\nGroup 7 · MareNostrum 5, account nct_345 · 5\u00a0March\u00a02026"
    assert cover.placeholders[1].text_frame.text == document.subtitle + end, "a date in one piece"
    for slide in slides:
        body = [shape for shape in slide.shapes if not shape.is_placeholder]
        charts = [shape for shape in body if shape.has_chart]
        if any('barDir val="bar"' not in shape.chart._chartSpace.xml for shape in charts):
            assert max(shape.top + shape.height for shape in body) > 6.2 * INCH
        words = [shape.text_frame.text for shape in body if shape.has_text_frame]
        assert len(body) > 1, "no warning alone"
        assert all(text.count("Each step waits tc") <= 1 for text in words)
        assert ("baseline=" in slide.element.xml) is any("Each step" in text for text in words)
    xmls = (s.chart._chartSpace.xml for slide in slides for s in slide.shapes if s.has_chart)
    devices, lost = (xml for xml in xmls if 'barDir val="bar"' in xml)
    assert "<c:dPt>" in devices and "<c:dPt>" not in lost, "of rows one is in colour"
    colours = re.findall(r"</c:tx>\s*<c:spPr>.*?schemeClr val=.(\w+)", lost, re.DOTALL)
    assert colours == ["tx2", "accent5"], "no network has the colour of a lost part"
    assert 'tickLblPos val="none"' not in lost and 'tickLblPos val="none"' in devices, "as in the PDF"


def test_a_logarithmic_chart_has_logarithmic_axes_and_each_decade_of_a_learning_rate_its_number():
    """By the number format: in PowerPoint 0.1, 0.01 and 0.001 were "0" each."""
    points = tuple(Point(x=2.0**n, y=10.0**-n) for n in range(7))
    rates = tuple(Series(name=name, points=points) for name in "ab")
    chart = native("epochs", 8, series=rates, x_log=True, y_log=True, y_base=10.0, unit="")[0]
    space, first = chart._chartSpace, chart.category_axis.minimum_scale
    assert (space.xpath("//c:logBase/@val"), first) == (["2", "10"], 0.5)
    narrow = native("speedup", 1, x_log=True)[0]._chartSpace
    assert narrow.xpath("//c:logBase/@val") == ["4"], "its numbers do not touch"
    assert space.xpath("//c:ser/c:spPr//a:alpha/@val") == ["65000", "100000"], "tones, as in the PDF"
    forms = re.findall(r"(?:\[<(.+?)\])?([^;]+)", chart.value_axis.tick_labels.number_format)
    found = [next(form for limit, form in forms if point.y < float(limit or "inf")) for point in points]
    assert found == [*["General"] * 4, "0.0000#", "0.0000#", "0E+0"]
    assert native("speedup", 8, y_log=True)[0].value_axis.maximum_scale == 8, "room for the ideal's name"


def test_the_name_of_a_line_that_ends_just_before_others_stands_below_theirs():
    ends = {"early": 2, "just before": 24, "last": 32}
    lines = [Series(name=name, points=(Point(x=1, y=9), Point(x=end, y=9))) for name, end in ends.items()]
    chart = native("speedup", 8, series=tuple(lines), x_log=True, unit="")[0]
    places = [[float(each) for each in chart._chartSpace.xpath(f"//c:dLbl//c:{x}/@val")] for x in "xy"]
    (last, before, early), (lower, upper, _) = places
    assert early == last < before and abs(upper - lower) * 4 * 72 == pytest.approx(18, abs=0.1)


@pytest.mark.parametrize(("text", "cut"), [("Line.", 0), ("0.035 GPU-h in all. " * 11, 2), ("No. " * 99, 0)])
def test_every_answer_follows_its_question_which_is_short_where_no_room_is_left(tmp_path, text, cut):
    document = document_of(tmp_path, "hpc4ai-ch10", answer=text)
    frames = [texts_of(slide) for slide in presentation_of(pptx(document)).slides]
    (path := tmp_path / "deck.pdf").write_bytes(pdf(document, "slides"))
    decks = [[" ".join(texts) for texts in frames], [" ".join(w for *_, w in p[2]) for p in pdf_words(path)]]
    for slides in ([" ".join(html.unescape(slide).split()) for slide in deck] for deck in decks):
        short = 0
        assert not re.search(r"0\. 035|GPU- h", str(slides)), "no line ends within a number or its unit"
        for page, answer in ((one, answer) for one in document.pages for answer in one.answers):
            begin = f"{answer.number}. {answer.short[:18]}"
            (slide,) = (one for one in slides if page.title.replace("\u00a0", " ") in one and begin in one)
            short += f" {answer.short} {text[:7]}" in slide and answer.short != answer.question
            assert any(f" {asked} {text[:7]}" in slide for asked in (answer.question, answer.short))
        assert short == cut
    questions = tuple(answer.question for page in document.pages for answer in page.answers)
    assert not any(text.endswith(questions) for texts in frames for text in texts), "it stays with its answer"
    path.write_bytes(pdf(document, "report"))
    pages = [words for _, _, words in pdf_words(path)]
    for above, below in itertools.pairwise(itertools.chain(*pages)):
        assert (above[4], below[4]) != ("Line.", "2.") or below[1] - above[3] > 4, "a space before a question"
    report = [html.unescape("".join(word for *_, word in words)) for words in pages]
    for page in (each for each in document.pages if each.charts and each.answers):
        begins = ["".join(words.split())[:30] for words in (page.title, page.answers[0].question)]
        assert any(all(begin in text for begin in begins) for text in report), "charts and first answer"


def test_long_tables_and_listings_continue_under_the_same_title_and_a_state_has_one_file(tmp_path):
    document = document_of(tmp_path, "hpc4ai-ch10", answer=ANSWERS["maths"], full=False)
    assert pdf(document, "slides") == pdf(document, "slides") and notebook(document) == notebook(document)
    lines = tuple(CodeLine(f"print({n})", str(n)) for n in range(1, 80))
    table = Table(("training", "s"), tuple((f"run {n}", str(n)) for n in range(40)), (False, True))
    page = Page(title="What differs", kicker="7  Code", blocks=(Listing(lines), table))
    slides = list(presentation_of(pptx(replace(document, pages=(page,)))).slides)[1:]
    assert len(slides) >= 5 and {slide.shapes.title.text_frame.text for slide in slides} == {"What differs"}
    words = "\n".join(text for slide in slides for text in texts_of(slide))
    assert "print(79)" in words and "run 39" in words and "7  Code, continued" in words
    tables = [replace(table, rows=table.rows[:count], note="An epoch a line.") for count in range(20, 40)]
    pages = tuple(Page(title="Sources", blocks=(each,), warnings=("None yet.",)) for each in tables)
    slides = list(presentation_of(pptx(replace(document, pages=pages))).slides)[1:]
    wide = replace(table, headings=("epoch time",) * 40, rows=(("1",) * 40,), numeric=(True,) * 40)
    assert pptx(replace(document, pages=(Page(title="Wide", blocks=(wide,)),))), "it comes to an end"
    assert all(max(len(s.table.rows) for s in each.shapes if s.has_table) > 3 for each in slides), "alone"
    (path := tmp_path / "deck.pdf").write_bytes(pdf(replace(document, pages=pages), "slides"))
    assert all("run" in str(words) for *_, words in pdf_words(path)[1:]), "nor a warning"
    more = [shape.text_frame.text for each in slides for shape in each.placeholders]
    assert "continued" in more and "continued" in str(pdf_words(path)) and ", continued" not in more
    told = Answer(1, "Why?", (plain("word " * 100), plain("So:"), replace(table, rows=table.rows[:9])))
    slides = presentation_of(pptx(replace(document, pages=(Page(title="Lead", answers=(told,)),)))).slides
    assert any(shape.has_table for slide in slides if "So:" in texts_of(slide) for shape in slide.shapes)
    looked = Answer(2, "What?", (plain("Look:"), Listing((CodeLine("y" * 200),) * 12)))
    slides = presentation_of(pptx(replace(document, pages=(Page(title="", answers=(told, looked)),)))).slides
    (shown,) = (text for slide in slides if "Look:" in (text := "".join(texts_of(slide))))
    assert "What?" in shown and "y" * 200 in shown, "asked where it is answered"
    code = Listing((CodeLine("import keras", "9", part="1 libraries"), CodeLine("y" * 120)))
    answer = Answer(1, "Why?", (plain("Because of this."), code))
    page = Page(title="Parts", facts=(("2.5×", "speedup"),), blocks=(code,), answers=(answer,))
    slides = presentation_of(pptx(replace(document, pages=(page,)))).slides
    assert re.search(r"1\.\tWhy\?\n+Because of this\.\n", "\n".join(texts_of(slides[1])))
    assert any("import keras   1 libraries" in text for text in texts_of(slides[1]))
    wide = Table(("", *("batch",) * 7), (("8 Nodes", *("14,934 ±1,000",) * 7),), (False, *(True,) * 7))
    counted = " ".join(f"{'n' * at} 32 GPUs" for at in range(30))
    page = replace(page, blocks=(code, wide, plain(f"{counted} {'z' * 200}")))
    (tmp_path / "report.pdf").write_bytes(pdf(replace(document, pages=(page,)), "report"))
    words = [each for *_, found in pdf_words(tmp_path / "report.pdf") for each in found]
    copied = "".join(word for *_, word in words)
    assert "y" * 120 in copied and "z" * 200 in copied, "without a mark that nobody wrote"
    assert "Nodes" in [word for *_, word in words], "else one with the number that lies on it"
    tops = [round(top) for _, top, *_, word in words if word in ("32", "GPUs")]
    assert tops[::2] == tops[1::2] and len(set(tops)) > 3, "a number stays with what it counts"


@pytest.mark.parametrize(
    ("tex", "drawn", "text"), [ (r"S_n = \frac{T_1}{T_n}", True, "S_n = T_1/T_n"),
    *((r"\frac{1}{s + \frac{1-s}{n}}", True, "1/(s + (1−s)/n)"), (r"x^2 \le \infty", True, "x^2 ≤ ∞")),
    *((r"\unknown{x}", False, r"$\unknown{x}$"), (r"\frac{a}{", False, r"$\frac{a}{$")),
    *((r"O(\log n) + \sqrt{n}", True, "O(log n) + √(n)"), (r"\bar{x}_{\max}", True, "x\u0304_(max)")),
    *((f"{'x+' * 999}x", False, f"{'x+' * 999}x"), (r"\hspace{99999}", False, r"$\hspace{99999}$")),
    (r"\input{/etc/passwd}", False, r"$\input{/etc/passwd}$"), ],
)  # fmt: skip
def test_a_formula_is_drawn_or_shown_as_typed(tex, drawn, text):
    assert (formula_picture(tex) is not None) is drawn and formula_text(tex) == text.replace(" ", "\u00a0")


PAYLOADS = (
    '<img src=x onerror="alert(1)">', "](javascript:alert(1))", '=HYPERLINK("http://x")',
    '#read("/etc/passwd") *b* `c`', r"\input{/etc/passwd} $x$ & % _", "\x1b[31m\x07 nul\x00 \u202e end",
    "x" * 400, "| a | b |\n| --- | --- |",
)  # fmt: skip


def test_text_from_outside_is_text_in_every_format(tmp_path):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10", answer="\n\n".join((*PAYLOADS, "x" * 6_000)))
    contents = lab.contents()
    group = "".join(mark for mark in " ".join(PAYLOADS) if mark.isprintable())  # lab.toml takes no other
    document = hand_in(replace(contents, settings=replace(contents.settings, group=group)))
    tuned = {"tuning": (("mixed_precision", "=1+1"),)}
    sizes = [(name, n) for name in PAYLOADS for n in (1, 2, 4)]
    results = compute_results(measured_run(n, [9, 12 / n], model=name, **tuned) for name, n in sizes)
    source = "".join(json.loads(notebook(document))["cells"][0]["source"])
    texts = {"csv": csv_text(results), "md": markdown_text(results, ""), "ipynb": source}
    for name, text in texts.items():
        assert "\x1b" not in text and "\x00" not in text, name
    for name in ("md", "ipynb"):
        assert "<img" not in texts[name] and not re.search(r"(?<!\\)\]\(java", texts[name]), name
    assert not re.search(r'[\n,]"?=', texts["csv"]) and "'=1+1" in texts["csv"]
    assert r"\|" in texts["md"] and r"\(" not in texts["md"]
    assert "\x1b" not in text_table(results.rows, PRECISE)
    assert pdf(document, "slides").startswith(b"%PDF") and pdf(document, "report").startswith(b"%PDF")
    slides = presentation_of(pptx(document)).slides
    assert len(slides) > len(document.pages)
    for spec in lab_charts(results)[:2]:
        drawn = pictures(spec, ("svg",))["svg"]
        assert b"<img" not in drawn and b"\x1b" not in drawn
        named = replace(spec, kind="bars", x_axis="names", x_ticks=tuple((n, "{=1+1}") for n in (1, 2, 4)))
        page = Page(title="", charts=(spec, named))
        slides = presentation_of(pptx(replace(document, pages=(page,)))).slides
        for shape in (shape for slide in slides for shape in slide.shapes if shape.has_chart):
            with zipfile.ZipFile(io.BytesIO(shape.chart.part.chart_workbook.xlsx_part.blob)) as book:
                assert b"<f" not in book.read("xl/worksheets/sheet1.xml")


def test_no_answer_ends_a_document(tmp_path):
    texts = ["x" * 30_000, "17 GPUs, " * 2_000, f"```\n{'z' * 30_000}\n```", f"|a|\n|-|\n|{'y' * 30_000}|"]
    long = [Page(title="Long", answers=(Answer(1, "?", blocks_of(text)),)) for text in texts]
    cut = pictures(lab_charts(compute_results([measured_run(1, [9, 8])]))[0], ["png"])["png"][:-12]
    answers = Answer(1, "?", (Picture(cut, "no end"),)), Answer(2, "?", (plain("A word."),))
    pages = (*long, Page(title="", kicker="10.5  Task", answers=answers))
    document = replace(document_of(tmp_path, "hpc4ai-ch10", full=False), pages=pages)
    for form in ("slides", "report"):
        (tmp_path / "made.pdf").write_bytes(pdf(document, form, (told := []).append))
        assert "".join(told).startswith("Answer 1 of 10.5 is not in the PDF: failed to decode image")
        copied = "".join(word for *_, words in pdf_words(tmp_path / "made.pdf") for *_, word in words)
        assert told[0].replace(" ", "") in copied and "Aword." in copied, "the others are whole"
        assert copied.count("GPUs") == 2_000 and min(map(copied.count, "xyz")) >= 30_000


def test_the_notebook_shows_each_row_and_checks_each_speedup_of_the_csv(tmp_path):
    lab = make_lab(tmp_path / "lab", "cc-mei-2025-lab5")
    export_lab(lab.folder.path, formats=(), reports=("ipynb",), plots=False, state=lab.state)
    book = json.loads((lab.folder.path / "analysis.ipynb").read_text("utf-8"))
    assert len(book["cells"]) == 4 and len({cell["id"] for cell in book["cells"]}) == 4
    code = "\n".join("".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code")
    code = f"import matplotlib\nmatplotlib.use('Agg')\n{code}\nprint(lines['line'].nunique(), len(lines), len(gpus))"
    csv = lab.folder.path / "results.csv"
    sizes, command = ((1, 100), (2, None), (4, None)), [sys.executable, "-c", code]
    each = ((n, {"batch_size": batch, "tuning": (("t", t),)}) for t in "35" for n, batch in sizes)
    text = csv_text(compute_results(measured_run(n, [36 / n] * 3, **more) for n, more in each))
    for lines, told in (("2 6 7", ""), ("2 6 6", text), ("", text.replace(",4.0,", ",3.9,"))):
        csv.write_text(told or csv.read_text())
        done = subprocess.run(command, cwd=csv.parent, capture_output=True, text=True, check=False)
        assert done.stdout.strip() == lines and (done.returncode == 0) is bool(lines), done.stderr


@pytest.mark.parametrize("mark", ["practice", ""])
def test_the_time_of_a_practice_export_is_called_the_practice_clock_s(mark):
    ended = measured_run(1, [30.0, 13.6], mark=mark)
    epochs = tuple(replace(sample, ended_at=1_700_000_000.0) for sample in ended.run.epochs)
    stamp = stamp_of(compute_results([replace(ended, run=replace(ended.run, epochs=epochs))]))
    assert stamp.startswith("last epoch 2023-11-14 22:13 UTC") and ("practice clock" in stamp) is bool(mark)


def test_charts_are_small_only_where_the_answers_stand_below_them():
    (chart, *_) = lab_charts(compute_results([measured_run(1, [29, 13]), measured_run(2, [19, 8])]))
    small = {(100, 200): 2.7, (100, 250): 2.4, (150,) * 5: 4.9, (400,): 2.7, (3000,): 4.9, (): 4.9}
    for letters, inches in small.items():
        answers = tuple(Answer(n, "Why?", (plain("a" * length),)) for n, length in enumerate(letters, 1))
        page = Page(title="", charts=(chart,), answers=answers)
        assert chart_height(page) == pytest.approx(inches, abs=0.1)


def test_a_continued_slide_has_at_least_three_lines(tmp_path):
    answer = "The efficiency falls because the last batch is short and the all-reduce does not shrink. " * 9
    document = document_of(tmp_path, "cc-mei-2025-lab5", answer=answer)
    (path := tmp_path / "deck.pdf").write_bytes(pdf(document, "slides"))
    more = [words for *_, words in pdf_words(path) if any(word[4] == "continued" for word in words)]
    lines = [len({round(word[1]) for word in words}) for words in more]
    assert lines and min(lines) >= 3 + len(("kicker", "title", "foot"))
    code = next(words for *_, words in pdf_words(path) if any(word[4] == "NETWORK" for word in words))
    left = [min(word[0] for word in code if word[4] == name) for name in ("import", "NETWORK")]
    assert max(left) - min(left) < 1, "a line of code begins at its own column, whichever part begins with it"


def test_a_text_is_as_wide_where_no_library_kerns_so_that_pages_break_alike_on_every_machine():
    assert drawing.inches("AV") == pytest.approx(drawing.inches("A") + drawing.inches("V"))
