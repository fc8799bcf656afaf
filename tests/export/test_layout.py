"""Pages: everything that was written stands on some page, inside its box, over nothing else."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labtui.export import measure
from labtui.export.code import difference, whole
from labtui.export.deck_build import build_deck
from labtui.export.deck_model import Callout, Code, CodeLine, Deck, Paragraph, Run, Slide, Table
from labtui.export.layout import (
    Box,
    ChartItem,
    CodeItem,
    Geometry,
    Item,
    LaidDeck,
    PanelItem,
    TableItem,
    TextItem,
    lay_out,
)
from labtui.export.markdown import blocks_of
from labtui.export.maths import readable
from tests.export.helpers import ANSWERS, EDITIONS, make_lab, page_texts

SMALL = Geometry(
    width=720, height=540, title=Box(36, 30, 648, 60), kicker=Box(36, 12, 300, 14),
    body=Box(36, 110, 648, 360), footer=Box(36, 500, 648, 14), text_width=648,
)  # fmt: skip


def boxes(item: Item) -> list[Box]:
    """What an item covers: each line of text as wide as it is, the rest as placed."""
    if isinstance(item, TextItem):
        y, found = item.box.y, []
        for laid in item.paragraphs:
            y += laid.before
            for line in laid.lines:
                wide = sum(measure.run_width(run, laid.size) for run in trimmed(line))
                found.append(Box(item.box.x + laid.indent, y, wide, laid.leading))
                y += laid.leading
        return found
    if isinstance(item, CodeItem):
        return [
            Box(item.box.x + item.gutter, item.box.y + at * item.leading,
                sum(measure.run_width(run, item.size) for run in trimmed(line.runs)), item.leading)
            for at, line in enumerate(item.lines)
        ]  # fmt: skip
    if isinstance(item, ChartItem):
        return [item.box, *boxes(item.title), *(boxes(item.notes) if item.notes else [])]
    return [item.box]


def trimmed(line):
    runs = list(line)
    while runs and not runs[-1].text.strip():
        runs.pop()
    if runs:
        last = runs[-1]
        runs[-1] = Run(last.text.rstrip(), last.bold, last.italic, last.mono)
    return runs


def inside(one: Box, other: Box, slack: float = 0.6) -> bool:
    return (
        one.x >= other.x - slack
        and one.y >= other.y - slack
        and one.right <= other.right + slack
        and one.bottom <= other.bottom + slack
    )


def overlap(one: Box, other: Box) -> bool:
    return (
        min(one.right, other.right) - max(one.x, other.x) > 0.6
        and min(one.bottom, other.bottom) - max(one.y, other.y) > 0.6
    )


def assert_tidy(laid: LaidDeck) -> None:
    """Nothing leaves the body, nothing lies on anything else, no table cell is wider than its column."""
    for page in laid.pages:
        items = [item for item in page.items if not isinstance(item, PanelItem)]
        for item in page.items:
            for box in boxes(item):
                assert inside(box, laid.geometry.body), (page.slide.title, page.part, item)
        for one, other in itertools.combinations(items, 2):
            for a, b in itertools.product(boxes(one), boxes(other)):
                assert not overlap(a, b), (page.slide.title, page.part, one, other)
        panels = [item.box for item in page.items if isinstance(item, PanelItem)]
        for one, other in itertools.combinations(panels, 2):
            assert not overlap(one, other)
        for item in items:
            if isinstance(item, TableItem):
                assert_cells(item)
        title = laid.geometry.title
        assert len(page.title_lines) * page.title_size * 1.25 <= title.h + 0.6
        assert all(
            sum(measure.run_width(run, page.title_size) for run in trimmed(line)) <= title.w + 12
            for line in page.title_lines
        )


def assert_cells(item: TableItem) -> None:
    for number, (row, height) in enumerate(zip(item.cells, item.heights, strict=True)):
        for cell, width in zip(row, item.widths, strict=True):
            assert len(cell) * item.leading <= height
            for line in cell:
                assert measure.width(line.rstrip(), item.size, bold=number == 0) <= width - 13


def words_of(laid: LaidDeck) -> str:
    return "".join(page_texts(laid))


@pytest.mark.parametrize("geometry", [Geometry(), SMALL], ids=["16:9", "4:3"])
@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("edition", EDITIONS)
def test_no_page_of_any_edition_overflows(tmp_path, edition, kind, geometry):
    lab = make_lab(tmp_path / "lab", edition, answer=ANSWERS[kind])
    laid = lay_out(build_deck(lab.contents()), geometry)
    assert_tidy(laid)
    assert len(laid.pages) > len(lab.edition.tasks)


@pytest.mark.parametrize("kind", ANSWERS)
def test_every_word_of_an_answer_is_on_a_slide(tmp_path, kind):
    lab = make_lab(tmp_path / "lab", "hpc4ai-ch10", answer=ANSWERS[kind])
    deck = build_deck(lab.contents())
    answers = [slide for slide in deck.slides if "answer" in slide.title]
    laid = lay_out(Deck(title="", subtitle="", lines=(), footer="", slides=tuple(answers)))
    shown = words_of(laid).replace("↪", "")
    for block in blocks_of(ANSWERS[kind]):
        for text in texts_in(block):
            assert "".join(text.split()) in shown


def texts_in(block) -> list[str]:
    if isinstance(block, Paragraph):
        return [block.text]
    if isinstance(block, Code):
        return ["".join(run.text for run in line.runs) for line in block.lines]
    if isinstance(block, Table):
        return [cell for row in (block.headings, *block.rows) for cell in row]
    return [paragraph.text for paragraph in block.paragraphs]


def test_long_text_flows_over_and_says_so():
    slide = Slide(title="T", kicker="Task 1", blocks=blocks_of(ANSWERS["long"]))
    laid = lay_out(Deck(title="t", subtitle="", lines=(), footer="", slides=(slide,)))
    parts = [page.part for page in laid.pages]
    assert parts == list(range(1, len(parts) + 1)) and len(parts) > 1
    assert [page.kicker for page in laid.pages] == [f"Task 1 · {n} of {len(parts)}" for n in parts]


def test_a_table_that_goes_on_repeats_its_headings():
    rows = tuple((f"row {n}", str(n)) for n in range(60))
    slide = Slide(title="T", blocks=(Table(("name", "number"), rows, (False, True)),))
    laid = lay_out(Deck(title="t", subtitle="", lines=(), footer="", slides=(slide,)))
    tables = [item for page in laid.pages for item in page.items if isinstance(item, TableItem)]
    assert len(tables) > 1
    assert all(table.cells[0] == (("name",), ("number",)) for table in tables)
    assert [row[0][0] for table in tables for row in table.cells[1:]] == [row[0] for row in rows]


def test_a_heading_is_never_the_last_thing_on_a_page():
    blocks = []
    for n in range(40):
        blocks += [
            Paragraph((Run(f"Heading {n}"),), "heading"),
            Paragraph((Run("word " * (n * 7 % 50 + 3)),)),
        ]
    laid = lay_out(
        Deck(title="t", subtitle="", lines=(), footer="", slides=(Slide(title="T", blocks=tuple(blocks)),))
    )
    assert len(laid.pages) > 2
    for page in laid.pages:
        last = page.items[-1]
        assert isinstance(last, TextItem) and last.paragraphs[-1].source.style == "body"


SCRIPTS = "abc XYZ 0123 ñçü ΑΒγ Жук 日本語 العربية שלום ½∑√ 🙂\t"
TEXTS = st.text(alphabet=SCRIPTS, max_size=400)
PARAGRAPHS = st.builds(
    Paragraph,
    st.lists(st.builds(Run, TEXTS, bold=st.booleans(), mono=st.booleans()), max_size=4).map(tuple),
    st.sampled_from(["body", "question", "heading", "subheading", "note"]),
    st.integers(0, 4),
    st.sampled_from(["", "•", "12."]),
)
CODES = st.lists(TEXTS, min_size=1, max_size=40).map(
    lambda lines: Code(tuple(CodeLine((Run(line, mono=True),), str(n)) for n, line in enumerate(lines, 1)))
)
TABLES = st.integers(1, 9).flatmap(
    lambda n: st.lists(st.tuples(*[TEXTS] * n), min_size=1, max_size=12).map(
        lambda rows: Table(rows[0], tuple(rows[1:]) or (rows[0],), (False,) * n)
    )
)
CALLOUTS = st.builds(
    Callout,
    st.lists(PARAGRAPHS, min_size=1, max_size=5).map(tuple),
    st.sampled_from(["missing", "empty", "quote"]),
)
BLOCKS = st.lists(st.one_of(PARAGRAPHS, CODES, TABLES, CALLOUTS), max_size=8)


@settings(max_examples=60, deadline=None)
@given(BLOCKS, st.text(alphabet=SCRIPTS, max_size=200))
def test_any_blocks_fit_their_pages_and_lose_nothing(blocks, title):
    slide = Slide(title=title, blocks=tuple(blocks))
    laid = lay_out(Deck(title=title, subtitle=title, lines=(title,), footer=title, slides=(slide,)))
    assert_tidy(laid)
    shown = words_of(laid)
    for block in blocks:
        for text in texts_in(block) if not isinstance(block, Code) else []:
            if not isinstance(block, Table):
                assert "".join(text.split()) in shown


@given(st.text(alphabet=SCRIPTS, max_size=300), st.floats(30, 500), st.floats(6, 30))
@example("0\t½日\t0", 30.0, 7.0)
def test_wrapped_lines_are_the_text_and_fit(text, room, size):
    lines = measure.wrap((Run(text),), size, room)
    assert "".join(run.text for line in lines for run in line) == text
    for line in lines:
        marks = "".join(run.text for run in line).rstrip()
        assert measure.width(marks, size) <= room + 1e-6 or len(marks) == 1


def test_measured_widths_are_not_smaller_than_the_typefaces():
    from PIL import ImageFont

    from labtui.export import style

    for name, looks in (
        ("DejaVuSans.ttf", {}),
        ("DejaVuSans-Bold.ttf", {"bold": True}),
        ("DejaVuSansMono.ttf", {"mono": True}),
    ):
        font = ImageFont.truetype(str(style.font_folder() / name), 100)
        for text in ("Efficiency of 4 GPUs: 63.2 %", "WAVE Toy ÀÉ ñ", "αβγ Жук ∑ √"):
            real = font.getlength(text)
            assert real <= measure.width(text, 100, **looks) <= real * 1.08


# --------------------------------------------------------------------------- code and formulas


def test_a_difference_shows_what_changed_and_where():
    before = "import a\n" + "".join(f"x{n} = {n}\n" for n in range(20)) + "NET = 50\n"
    after = before.replace("NET = 50", "NET = 152").replace("x3 = 3\n", "")
    code = difference(before, after, "net.py")
    changes = [(line.change, "".join(run.text for run in line.runs), line.number) for line in code.lines]
    assert ("-", "x3 = 3", "") in changes
    assert ("-", "NET = 50", "") in changes and ("+", "NET = 152", "21") in changes
    assert sum(change in "+-" and change != "" for change, _, _ in changes) == 3
    assert difference(before, before, "net.py").lines == ()


def test_highlighting_changes_no_character():
    text = 'def f(x):\n    """Doc\n    string"""\n    return "ü" + \'%d\' % x  # why\n\nclass A: pass'
    code = whole(text, "a.py")
    assert "\n".join("".join(run.text for run in line.runs) for line in code.lines) == text
    assert {run.tone for line in code.lines for run in line.runs} >= {"keyword", "string", "comment", "name"}


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (r"S_n = \frac{T_1}{T_n}", "Sₙ = T₁/Tₙ"),
        (r"\frac{1}{s + \frac{1-s}{n}}", "1/(s + (1-s)/n)"),
        (r"10^{-3} \times \alpha", "10⁻³ × α"),
        (r"\text{images} \le 50\,000", "images ≤ 50 000"),
        (r"T_{epoch}", "T_epoch"),
    ],
)
def test_formulas_become_readable(formula, text):
    assert readable(formula) == text


@given(st.text(max_size=80))
def test_any_formula_becomes_some_line(formula):
    assert "\n" not in readable(formula)
