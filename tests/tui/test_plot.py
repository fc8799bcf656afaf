"""Charts drawn in cells, read back: marks stand on their rows, names are whole, nothing crosses a missing size."""

import itertools
import math
import re
import statistics
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len
from rich.text import Text

from labtui.results.charts import ChartSpec, Point, Series, order_of, panel_of, with_log_axes
from labtui.results.rows import LawFit
from labtui.tui.format import all_shortened, place_text, plain, shortened
from labtui.tui.themes import Roles
from labtui.tui.widgets.grid import BITS, row_scale
from labtui.tui.widgets.plot import Cursor, _Drawing, draw

COLOURS = tuple((each, *(f"{tone} {each}" for tone in "234")) for each in ("blue", "red", "green", "magenta"))
LOOK = Roles(*["white"] * 4, "quiet", *["white"] * 5, COLOURS)
SIZES = (1, 2, 4, 8, 16, 24, 32)


def chart(*lines: dict[float, float], live: bool = False, kind: Any = "lines", **more: Any) -> ChartSpec:
    def points(line: dict[float, float]) -> tuple[Point, ...]:
        places = sorted(line.items())
        return tuple(Point(x=x, y=y, label=f"{y:.2f}", live=live and x == max(line)) for x, y in places)

    series = tuple(
        Series(name=f"network {at}", short=f"net{at}", points=points(line), hue=at % 4)
        for at, line in enumerate(lines)
    )
    ticks = tuple((float(x), f"{x:g}") for x in sorted({x for line in lines for x in line}))
    spec = ChartSpec(
        key="speedup", title="Speedup", x_label="GPUs", y_label="times one GPU", series=series, unit="×", kind=kind,
        x_ticks=ticks, view="speedup", **more,
    )  # fmt: skip
    return with_log_axes(spec)


Cells = dict[tuple[int, ...], tuple[str, str]]


def cells_of(spec: ChartSpec, *how: Any) -> Cells:
    """The sign and the style of each cell that holds one, by column and row."""
    return {
        (at, row): (line.plain[at], str(span.style))
        for row, line in enumerate(drawn(spec, *how))
        for span in line.spans
        for at in range(span.start, span.end)
    }


def drawn(spec: ChartSpec, width: int = 86, height: int = 25, cursor: Cursor | None = None) -> list[Text]:
    lines = draw(spec, width, height, LOOK, cursor or Cursor())
    assert lines is not None
    return lines


def marks_of(spec: ChartSpec, width: int = 86, height: int = 25, cursor: Cursor | None = None) -> Cells:
    """The sign and the style of the middle of each mark that is seen, by column and row, under its series."""
    drawing = _Drawing(spec, width, height, LOOK, cursor or Cursor())
    drawing.draw()
    return {(*place, at): drawing.grid.cells[place] for place, at in drawing.marked.items()}


def dots_of(cells: Cells, style: str) -> list[float]:
    """The height of each braille dot of a style, in rows from the top."""
    own = ((row, sign) for (_, row), (sign, colour) in cells.items() if colour == style and sign > "\u2800")
    dots = ((row, sign, y, bit) for row, sign in own for y in range(4) for bit in BITS[y])
    return [row + (y + 0.5) / 4 for row, sign, y, bit in dots if ord(sign) - 0x2800 & bit]


def rows_of(spec: ChartSpec, *how: Any) -> list[str]:
    return [line.plain for line in drawn(spec, *how)]


LINE = st.dictionaries(st.sampled_from(SIZES), st.floats(0.5, 40), min_size=1, max_size=7)
LINES = st.lists(LINE, min_size=1, max_size=15)


@settings(max_examples=100, deadline=None)
@given(LINES, st.integers(24, 170), st.integers(8, 40), st.integers(0, 14))
@example([{2: 1.0, 4: 31.0}, {1: 1.0}], 24, 8, 0)
def test_many_series_stand_where_their_values_are(lines, width, height, chosen):
    spec, chosen = chart(*lines), chosen % len(lines)
    rows = rows_of(spec, width, height, Cursor(chosen, max(lines[chosen])))
    assert {len(row) for row in rows} == {width} and len(rows) == height
    marks = marks_of(spec, width, height, Cursor(chosen, None))
    mine = sorted((place for place in marks if place[2] == chosen), key=lambda place: place[1])
    points = sorted(lines[chosen].items(), key=lambda point: point[1])
    assert mine and {marks[place][1] for place in mine} == {COLOURS[chosen % 4][chosen // 4]}
    assert points[-1][1] <= 30 * points[0][1] or mine[0][1] < mine[-1][1]


@pytest.mark.parametrize(
    ("value", "low", "high", "rows"),
    [(2, 1, 4, 22), (0.5, 0, 1, 9), (10, 0, 13.6, 24), (0.7, 0.5, 1, 15), (0, 0, 4980, 15), (0, 0, 9311, 30)],
)
def test_ticks_lie_in_the_middle_of_rows(value, low, high, rows):
    scale = row_scale(low, high, rows)
    for tick in scale.ticks:
        assert math.isclose(math.modf((tick - scale.low) / scale.each)[0], 0.5, abs_tol=1e-6)
    assert scale.low <= low + 1e-9 and high <= scale.low + rows * scale.each
    assert rows < 15 or scale.ticks[-1] > high - 1e-9, "with room the largest value is between two ticks"
    assert 0 <= scale.height(value) < rows and len(scale.ticks) > 2, "two tell little"
    assert row_scale(0.2, 0.81, 21).ticks[-1] < 0.9, "no tick far above the values for a little more than one"
    assert row_scale(-2.4, 0.2, rows, log=True).ticks == (-2, -1, 0), "no power of ten far above the values"


def test_no_line_crosses_a_size_without_a_run():
    """The naive way has 1, 2 and 16 GPUs, others 4 and 8: between 2 and 16 there is nothing of it, even if alone."""
    naive = {1: 1.0, 2: 1.9, 16: 13.0}
    spec = chart({1: 1.0, 2: 2.0, 4: 3.9, 8: 7.6, 16: 15.0}, naive)
    for alone in (replace(spec, series=spec.series[1:]), replace(chart(naive), x_axis="batch")):
        rows = rows_of(alone, 100, 25)
        ticks = next(row for row in rows if " 1 " in row and "16" in row)
        left, right = ticks.index("2"), ticks.index("16")
        between = {row[column] for row in rows[:22] for column in range(left + 3, right - 3)}
        assert not any("\u2800" <= sign <= "\u28ff" for sign in between)


@pytest.mark.parametrize("height", range(9, 40))
def test_more_than_eight_gpus_have_logarithmic_axes_and_no_tick_stands_far_above_the_values(height):
    rows = rows_of(chart({x: float(x) for x in SIZES}), 100, height)
    labels = [row.split("┼")[0].strip() for row in rows if "┼" in row]
    assert height < 16 or labels[-4:] == ["8×", "4×", "2×", "1×"]
    steps = {b - a for a, b in itertools.pairwise(at for at, row in enumerate(rows) if "┼" in row)}
    assert len(steps) == 1 and min(steps) > 1, "whole rows, and one between two ticks"
    assert labels[-1] == "1×" and labels[0] in {"16×", "32×", "64×"}, "those between which values lie"
    rows = rows_of(replace(chart({1: 0.742, 2: 0.749}), unit="%", x_axis="batch"), 100, height)
    labels = [row.split("┼")[0].strip() for row in rows if "┼" in row]
    assert len(set(labels)) == len(labels) > 1 and labels[-1] in {"74.0 %", "74 %"}, "at least a point"


def test_a_number_at_the_end_of_a_line_is_never_cut():
    for width in range(26, 60):
        text = "\n".join(rows_of(chart({1: 1.0, 2: 1.68, 4: 2.53}, live=True), width, 20))
        assert re.search(r"(?m) (\(2.53×\)|\(2.53×\) so far)\s*$", text), width
    spec, two = (chart({1: 1.0, 2: 1.68, 4: 2.53}, *more) for more in ((), ({1: 1.0, 2: 1.82, 4: 3.9},)))
    ideal = Series(name="ideal", role="ideal", points=tuple(Point(x=n, y=n) for n in (1.0, 2.0, 4.0)))
    text = "\n".join(rows_of(replace(spec, series=(*spec.series, ideal)), 50))
    assert re.search(r" ideal *\n(.|\n)*GPUs; y does not begin at 0", text)
    for height in range(8, 24):
        pair = "\n".join(rows_of(replace(two, series=(*two.series, ideal)), 80, height))
        one_cell = len([*marks_of(two, 80, height)]) < 5  # of the five that are apart
        assert not one_cell or ("1.82×" in pair) == ("1.68×" in pair), "both or none"
        ends = {at: row for _, row, at in sorted(marks_of(two, 80, height))}
        assert all(f" net{at} " in pair.split("\n")[row] for at, row in ends.items()), "each beside its mark"
    wide = replace(two, series=tuple(replace(s, short=f"加速比🙂 {s.name} " * 3) for s in two.series))
    assert {cell_len(row) - width for width in (30, 50, 90) for row in rows_of(wide, width, 16)} == {0}


def test_names_are_in_the_order_of_the_last_values_with_their_marks_say_what_differs_and_are_cut_to_the_room():
    ends = (5.0, 5.1, 4.9, 20.0, 5.05, 5.02, 1.0)
    spec = chart(*({1: 1.0, 2: end} for end in ends))
    several = replace(spec, series=tuple(replace(s, short=f"{s.short} {'long ' * 9}") for s in spec.series))
    text = "\n".join(rows_of(several, 86, 20, Cursor(2, None)))
    assert re.findall(r"net(\d)", text) == [*map(str, order_of(several))] == [*"3145026"]
    assert re.search("▲ net2 long.*… +4.90×", text) and "d  d net3 long" in text and "◆" not in text
    assert "  1 more: ↑ ↓" in "\n".join(rows_of(spec, 86, 8)), "as many as there are rows"
    fits = tuple(replace(each, short=f"{each.short} {'long ' * 5}".strip()) for each in spec.series)
    assert f"▲ net2{' long' * 5}" in "\n".join(rows_of(replace(spec, series=fits), 86, 20, Cursor(2, None)))
    for names in (fits[:2], fits[:3]):  # rather than values
        assert "net1 long… " in "".join(rows_of(replace(several, series=names), 34, 12))
    three = replace(spec, series=several.series[:3])
    assert min(_Drawing(three, wide, 16, LOOK, Cursor()).columns / wide for wide in (50, 80)) >= 0.48, "half"
    spec = chart({1: 1.0, 2: 1.9}, {1: 1.0, 2: 1.8})
    alike = [f"global batch {batch}, 32 GPUs" for batch in ("4,096", "1,024")]
    assert all_shortened([*alike, "8 GPUs"], 14) == ["global… 4,096", "global… 1,024", "8 GPUs"]
    assert [shortened("gradual, warm-up 1", room) for room in (10, 16)] == ["gradual… 1", "gradual, warm… 1"]
    words = [shortened(f"resnet_batch_{n}", 10) for n in (128, 1024, 65536)]
    assert words == ["resne…_128", "resne…1024", "resnet_ba…"], "one word keeps its number, if there is room"
    runs = all_shortened(["run 15, 8 GPUs", "run 27, 8 GPUs", "torch_small, run 28"], 10)
    assert runs == ["run 15", "run 27", "torch_sma…"], "no number is cut"
    nets = all_shortened(["mini, XLA, 16 GPUs", "mini, XLA, 8 GPUs", "maxi, XLA, 16 GPUs", "maxi"], 13)
    assert nets == ["mini, 16 GPUs", "mini, 8 GPUs", "maxi, 16 GPUs", "maxi"], "what tells them apart stays"
    bars = replace(spec, x_axis="names", x_ticks=((0, "20"), (1, "1")), x_label="workers")
    assert [place_text(bars, x) for x in (0, 1)] == ["20 workers", "1 worker"]
    assert plain(f"{'x' * 58}, 8 GPUs") == "x" * 58
    assert "0.00005 ┼" in "\n".join(rows_of(replace(chart({1: 0.0, 2: 1e-4}), unit=""), 60, 13))


def test_what_still_runs_is_hollow_and_so_far_and_the_cursor_has_a_mark_and_a_line(monkeypatch):
    epochs = replace(chart({1: 1.0, 2: 2.0}), unit="s", x_axis="epochs")
    assert "reverse" not in str(cells_of(epochs, 86, 25, Cursor(0, 2.0))), "there is no value to stand out"
    dots = [dots_of(cells_of(chart({1: 5.0}, live=each), 86, 25), "blue") for each in (False, True)]
    tops = [replace(chart({1: y}, {2: 9.0}), unit="s") for y in range(250, 280, 4)]
    assert {len(dots_of(cells_of(each, 60, 8), "blue")) for each in tops} == {12}, "in the top row"
    assert list(map(len, dots)) == [12, 8] and len(set(map(statistics.fmean, dots))) == 1, "a ring"
    first = Series(name="net", points=(Point(x=1, y=663.0, hollow=True, live=True),))
    alone = "".join(rows_of(replace(chart({1: 1.0}), unit="s", series=(first,))))
    assert re.search(r"[⠁-⣿] \(663 s\) warm-up", alone), "no result, beside its mark"
    spec = chart({1: 1.0, 32: 29.4}, {1: 1.0, 32: 27.5}, {1: 1.0, 32: 22.7})
    squeezed = re.sub(" +", " ", "\n".join(rows_of(spec, 86, 26, Cursor(0, 32.0))))
    styles = {style for _, style in marks_of(spec, 86, 26, Cursor(0, 32.0)).values()}
    assert ("none" in styles) == ("┊" in squeezed)
    assert "● net0 29.40×" in squeezed and "▲ net2 22.70×" in squeezed and squeezed.count("net0") == 1
    three = rows_of(chart(*[{1: 1.0, 2: 1.9}] * 2, {1: 1.0}), 86, 26, Cursor(0, 2.0))
    assert re.search("▲ net2 +· ", "\n".join(three))
    near = chart({1: 1.0, 4: 1.9}, {1: 1.0, 3.95: 1.91}, {1: 1.0, 4: 1.2})
    assert "net0" in "".join(rows_of(near, 50, 10, Cursor(1))), "although the other's name lies in its row"
    two = replace(chart({1: 5.0, 2: 6.0}, {1: 4.0, 2: 4.5}, live=True), unit="s", x_axis="epochs")
    two = replace(two, series=(two.series[0], replace(two.series[1], short="a much longer name")))
    assert "○ net0  so far " in "".join(rows_of(two)), "no hole as wide as the longer name"
    for (x, y), lines in itertools.product({1: 1.0, 2: 1.68, 4: 2.53}.items(), (1, 2, 3)):
        several = ({1: share, 2: 1.68 * share, 4: 2.53 * share} for share in (1, 0.8, 0.6)[:lines])
        cells = sorted(cells_of(chart(*several), 86, 25, Cursor(0, x)).items())
        told = "".join(sign for _, (sign, style) in cells if "reverse" in style)
        assert told.split()[-1] == f"{y:.2f}×", "the value at the cursor has a ground"
    monkeypatch.setenv("LABTUI_ASCII", "1")
    assert "".join(rows_of(chart(TINY))).count("●") == len(TINY), "characters, no dots"


@pytest.mark.parametrize(("width", "height"), [(52, 15), (76, 36), (92, 24)])
def test_near_lines_over_epochs_have_two_thirds_of_the_chart_and_no_marks_that_touch(width, height):
    near = (dict.fromkeys(range(1, 21), 0.9 + at / 20) for at in range(4))
    lines = [replace(s, short=f"{s.short} {'long ' * 9}") for s in chart(*near, live=True).series]
    four = replace(chart({1: 0.9, 20: 0.9}), series=tuple(lines), unit="s", x_axis="epochs")
    marks = sorted(marks_of(four, width, height), key=lambda mark: mark[1])
    assert [at for *_, at in marks] == [3, 2, 1, 0], "the last ones"
    assert marks[-1][1] - marks[0][1] > height / 2 and "y does not begin at 0" in rows_of(four)[-1]
    assert _Drawing(four, width, height, LOOK, Cursor()).right <= width / 3
    few = replace(chart({1: 0.9, 2: 0.9}, {1: 0.93, 2: 0.93}, {1: 1.5, 2: 1.5}), unit="s", x_axis="epochs")
    assert Counter(at for *_, at in marks_of(few, 92, 24)) == {0: 1, 1: 1, 2: 2}


@pytest.mark.parametrize("height", [9, 12, 14, 20])
def test_the_name_of_a_line_that_ended_before_the_others_stands_on_no_line_of_the_grid(height):
    lines = chart({1: 2.3, 2: 2.25}, *({at: 2.3 - at / end for at in range(1, 6)} for end in (20, 15)))
    rows = "".join(rows_of(replace(lines, unit="", x_axis="epochs"), 60, height))
    assert "┈ ●" not in rows and "net0" in rows
    first = Point(x=1, y=47.0, hollow=True)
    for y in range(3, 30):
        line = replace(lines.series[0], points=(first, Point(x=2, y=y / 4), Point(x=5, y=y)))
        alone = rows_of(replace(lines, series=(line,), unit="s", x_axis="epochs"), 60, height)
        assert not any("┈" in row for row in alone if "warm-up" in row)


@pytest.mark.parametrize(("kind", "told"), [("lines", "↑  (47.00 s) warm-up"), ("bars", "↑(47.00 s)")])
@pytest.mark.parametrize("height", [8, 12, 30])
def test_counted_epochs_decide_the_axis_and_a_warm_up_beyond_it_has_an_arrow(kind, told, height):
    spec = replace(chart({1: 13.6, 2: 8.12, 4: 47.0}, kind=kind), unit="s")
    *counted, last = spec.series[0].points
    points = (*counted, replace(last, hollow=True, live=True))
    rows = rows_of(replace(spec, series=(replace(spec.series[0], points=points),)), 60, height)
    assert rows[0].rstrip().endswith(told) and rows[0].count("↑") == 1
    assert max(int(row.split(" s")[0]) for row in rows if "┼" in row) <= 15
    points = (*counted, replace(last, y=20.0, hollow=True))
    text = "".join(rows_of(replace(spec, series=(replace(spec.series[0], points=points),)), 60, height))
    assert "↑" not in text, "a shorter one has its height in a chart of any size"


@pytest.mark.parametrize("kind", ["bars", "stacked"])
def test_bars_are_as_high_as_their_values(kind):
    rows = rows_of(chart({1: 15.0, 2: 8.1, 4: 0.3}, kind=kind), 86, 25)
    columns = [rows[23].index(size) - 5 for size in "124"]  # the left of a bar: a part has its number inside
    filled = ([row[at] for row in rows[:23] if row[at] in "▁▂▃▄▅▆▇█▀"] for at in columns)
    eighths = [sum(4 if sign == "▀" else " ▁▂▃▄▅▆▇█".find(sign) for sign in signs) for signs in filled]
    assert eighths == [8 * 18, round(8.1 / 15 * 8 * 18), 4], "from the middle of row 0, half a row at least"
    ticks = [row for row in rows if "┼" in row]
    assert [row[columns[0]] for row in (ticks[0], ticks[-1])] == ["▄", "▀"], "as high as line and tick"
    assert kind == "stacked" or all(value in "\n".join(rows) for value in ("15.00×", "8.10×", "0.30×"))


def test_bars_end_within_a_cell_and_have_sizes_and_names_below_and_the_chosen_one_a_mark():
    below = cells_of(chart({1: 2.0, 2: -1.15}, kind="bars"), 86, 25).values()
    stack = cells_of(chart({1: 1.4}, {1: 1.0}, {1: 1.2}, kind="stacked"), 60, 12).values()
    assert [*{sign for sign, style in below if "reverse" in style}] == ["▅"]
    assert [sign for sign, style in stack if " on " in style] == ["▁"] * 12
    rows = rows_of(chart({1: 7.0, 2: 9.9}, {1: 3.0, 2: 0.1}, kind="stacked"), 60, 16, Cursor(0, 2.0))
    assert re.search(r"  2 GPUs *\n.*■ net1  0.10×.*\n.*■ net0  9.90×", "\n".join(rows)), "the cursor's"
    assert all(number in "".join(rows) for number in ("█7.00×█", "█3.00×█", "█9.90×█"))
    spec = chart(*[dict.fromkeys(range(10), 5.0)] * 2, kind="stacked")
    names = [f"net ({name}) on {n} GPUs" for name in ("A-long-name", "B") for n in (1, 2, 4, 8, 16)]
    rows = rows_of(replace(spec, x_label="GPUs", x_ticks=tuple(enumerate(names))), 99, 16, Cursor(0, 9.0))
    assert [*map(str.split, rows[14:])] == [["GPUs", *["1", "2", "4", "8", "16"] * 2], ["A-long-name", "B"]]
    assert abs(rows[15].index("B") - rows[14].rindex(" 4 ")) < 3 and names[9] in "".join(rows), "not cut"
    jobs = ["keras_mlp", "torch_mlp, nap 0.5", "torch_mlp, CPUs 30, batch 64", "badacct", "torch_mlp, nap 2"]
    own = dict(enumerate(jobs))
    five = replace(chart(dict.fromkeys(own, 5.0), kind="bars"), x_axis="names", x_ticks=tuple(own.items()))
    for width in range(50, 130, 5):
        text = "\n".join(rows_of(five, width, 16, Cursor(0, 1))[12:])
        assert ({*text.split()} >= {*" ".join(jobs).split()}) is (width > 65), "each below its bar"
        assert width > 65 or jobs[1] in text, "else the one at the cursor"
    spec = chart({1: 1.0, 2: 1.68, 4: 2.53}, {1: 1.0, 2: 1.8, 4: 3.26}, kind="bars")
    chosen = [style for sign, style in cells_of(spec, 80, 16, Cursor(1, 2.0)).values() if sign == "━"]
    assert chosen and set(chosen) == {"bold red"} and any("1.80×" in row for row in rows_of(spec, 80, 16))
    for width, most in ((46, 2), (57, 0), (86, 0)):
        text = "\n".join(rows_of(chart(MICRO, {**TINY, 32: 28.6}, kind="bars"), width, 24))
        assert sum(f"{y:.2f}" not in text for y in (*MICRO.values(), *TINY.values())) <= most, (
            "each has its number"
        )


def test_a_task_without_runs_has_its_sizes_and_what_cannot_be_drawn_is_refused():
    ticks = tuple((float(size), str(size)) for size in (1, 2, 4))
    empty = replace(chart(), x_ticks=ticks, unit="%")
    for width, height in itertools.product(range(24, 90, 3), range(8, 26)):
        *_, axis, label = rows_of(empty, width, height)
        assert re.findall(r"\d|GPUs", f"{axis} {label}") == ["1", "2", "4", "GPUs"], (width, height)
    for size, fits in {(80, 24): True, (20, 25): False, (80, 7): False, (80, 8): True}.items():
        assert bool(draw(chart({1: 1e13}), *size, LOOK, Cursor())) == fits


MICRO = {1: 1.0, 2: 1.93, 4: 3.72, 8: 6.95, 16: 12.8, 32: 21.7}
TINY = {1: 1.0, 2: 1.96, 4: 3.86, 8: 7.51}


@pytest.mark.parametrize("height", [9, 16, 24])
@pytest.mark.parametrize("chosen", [0, 1])
def test_each_of_two_lines_has_a_colour_a_mark_and_its_own_name(height, chosen):
    how = (chart(MICRO, TINY), 86, height, Cursor(chosen, None))
    cells = cells_of(*how)
    assert {style for sign, style in cells.values() if sign > "\u2840"} == {"blue", "red"}
    marks = sorted(at for at, _, series in marks_of(*how) if series == chosen)
    line = {at for (at, _), (_, style) in cells.items() if style == COLOURS[chosen][0]}
    seen = "".join(" x"[at in line] for at in range(marks[0], marks[-1]))
    assert " " * 4 not in seen, "no name or value, longer than a turn, lies on the chosen line"


def test_of_five_lines_of_one_network_each_has_its_colour_and_of_seven_over_epochs_only_the_chosen_one():
    lines = chart(*[{1: 1.0, 2: 2.0 + at} for at in range(7)])
    same = cells_of(chart(*[{1: 1.0, 2: 9.0}] * 3), 86, 25, Cursor(1, None))
    seen = Counter(style for (at, row), (sign, style) in same.items() if 12 < at < 50 and sign > "\u2800")
    assert len(seen) == 3 and min(seen.values()) > 6, "lines on the same cells take turns"
    sizes = tuple(replace(each, hue=0, mark=at % 6) for at, each in enumerate(lines.series))
    curves = replace(lines, series=sizes, x_axis="epochs")
    for five in (replace(curves, series=curves.series[:5], x_axis=axis) for axis in ("counts", "epochs")):
        assert {style for _, style in marks_of(five).values()} == {*(each[0] for each in COLOURS), "2 blue"}
    cells = cells_of(curves, 86, 25, Cursor(3, None)).values()
    assert {style for sign, style in cells if sign > "\u2840"} == {COLOURS[3][0], "quiet"}
    alone = (replace(curves.series[0], hue=2), replace(curves.series[1], role="other"))
    marks = marks_of(replace(curves, series=alone)).values()  # in a policy's colour, and not that of its size
    assert {style for _, style in marks} == {COLOURS[2][0]}


def test_marks_stand_at_their_sizes_the_chosen_one_on_top_and_take_turns_over_epochs():
    assert Counter(at for *_, at in marks_of(chart(MICRO, TINY)))[0] == len(MICRO), "on top"
    shares = replace(chart({n: s / n for n, s in TINY.items()}), unit="%", y_log=False, compares=True)
    assert "GPUs (log scale); y does not begin at 0" in rows_of(shares)[-1]
    assert len({row for _, row, _ in marks_of(shares)}) == len(TINY), "98 % and 96.5 % stand on two rows"
    near, how = chart({1: 5.0, 2: 5.0}, {1: 4.7, 2: 4.7}, {1: 1.0}), (60, 14, Cursor(2, None))
    cells = {place: each for place, each in cells_of(near, *how).items() if place[0] < 8}
    assert len(dots_of(cells, "blue")) >= 6 and len(dots_of(cells, "red")) >= 8, "both are seen"
    bound = tuple(replace(each, lo=each.y - 2, hi=each.y + 2) for each in near.series[0].points)
    tall = dots_of(cells_of(replace(near, series=(replace(near.series[0], points=bound),)), *how), "blue")
    assert max(tall) - min(tall) > 4 and abs(min(tall) + max(tall) - 2 * statistics.median(tall)) < 0.6
    curves = replace(chart(*[{x: x + 6.0 * k for x in range(1, 13)} for k in range(3)]), x_axis="epochs")
    ticked = replace(curves, x_ticks=tuple((x, f"{x}") for x in range(1, 13)))
    assert rows_of(ticked, 44, 30)[-2].split() == ["1", "5", "10"], "round numbers"
    early = (*curves.series[:2], replace(curves.series[2], points=curves.series[2].points[:1]))
    assert "13.00× in epoch 1" in "".join(rows_of(replace(curves, series=early), 86, 30, Cursor(0, 12.0)))
    for at in range(3):  # whichever is chosen
        count = Counter(at for *_, at in marks_of(curves, 86, 30, Cursor(at, None)))
        assert list(count.values()) == [12, 12, 12], "one for each epoch"
    same = tuple(replace(each, points=curves.series[0].points) for each in curves.series)
    assert Counter(at for *_, at in marks_of(replace(curves, series=same))) == {0: 4, 1: 4, 2: 4}, "all seen"
    eight = chart(*[{x: x + 3.0 * k for x in range(1, 13)} for k in range(8)]).series
    warm = replace(eight[7], points=(replace(eight[7].points[0], hollow=True), *eight[7].points[1:]))
    late = replace(eight[0], points=eight[0].points[11:], hue=4)
    crowded = replace(curves, series=(*eight[1:7], warm, late))
    many = [rows_of(crowded, 86, 25, Cursor(at, 3.0)) for at in range(8)]
    values = {f"{k}": f"{3 + 3 * k}.00×" for k in range(1, 8)} | {"0": "·"}
    told = re.findall(r"net(\d) +(\S+)", "\n".join(many[6]))
    assert told == list(values.items()) and many[6][0].endswith(" epoch 3 "), "at the cursor"
    assert re.findall("(\\S) +net", "\n".join(many[0])) == ["◆", *"·" * 7], "grey lines have no mark"
    groups = tuple(replace(each, group=f"of {at // 3}") for at, each in enumerate(crowded.series))
    panel = panel_of(replace(crowded, series=groups), name="network 5")
    names = re.findall(r"(\S) net(\d)", "\n".join(rows_of(panel)))
    assert panel.heading == "of 1" and names == [("▲", "6"), ("◆", "5"), ("●", "4")]
    assert len(dots_of(cells_of(panel), "white")) > 99, "other panels' lines are grey, without names"
    assert re.search(r"net7 +\(22.00×\)", "\n".join(rows_of(crowded, 86, 25, Cursor(0, 1.0)))), "it is longer"
    assert len({rows[22] for rows in many}) == 1 and order_of(crowded) == [*range(8)], "nothing moves"
    assert len(re.findall(r"net\d", "\n".join(rows_of(crowded, 86, 9, Cursor(7, 3.0))))) == 6
    slow = replace(chart(*[{1: 30.0, 2: 2.0, 3: 2.0}] * 3, {1: 60.0, 2: 1.0, 3: 1.0}), x_axis="epochs")
    warm = (replace(s, points=(replace(s.points[0], hollow=True), *s.points[1:])) for s in slow.series)
    told = "\n".join(rows_of(replace(slow, series=tuple(warm))))
    assert "↑ up to 60.00×, warm-up" in told and "▲ net2" in told, "each line keeps its mark"
    assert not re.search("1.9|3.[78]|6.95|12", "".join(rows_of(chart(MICRO, TINY), 86, 16))), "all or none"
    for view in ("speedup", "time"):
        spec = replace(chart({1: 1.0, 2: 2.0}, {1: 1.0, 2: 1.99}, {1: 1.0}), view=view)
        blue, red = (len(dots_of(cells_of(spec, 86, 9, Cursor(2, None)), style)) for style in ("blue", "red"))
        assert (blue > red) is (view == "speedup"), "the best line, if none of them is chosen, is on top"


@pytest.mark.parametrize("height", range(8, 26))
@pytest.mark.parametrize("width", [30, 40, 70])
@pytest.mark.parametrize(
    "line", [MICRO, {1: 1.0, 2: 0.986, 4: 0.972, 8: 0.933, 16: 0.946, 24: 0.944, 32: 0.9}]
)
def test_a_mark_stands_at_its_value_and_no_value_reads_as_another_mark_s(width, height, line):
    share = {"unit": "%", "y_log": False, "compares": True} if line is not MICRO else {}
    rows, found = (how(replace(chart(line), **share), width, height) for how in (rows_of, marks_of))
    marks = sorted((column, row) for column, row, _ in found)
    for own, value in zip(marks, [*line.values()][:-1], strict=False):
        pattern = rf"(?<=[ ┈]){value:.2f}(?=[× ])"
        for text, at in ((each, at) for at, row in enumerate(rows) for each in re.finditer(pattern, row)):
            far = {(x, y): max(text.start() - x, 0, x - text.end()) + 2 * abs(y - at) for x, y in marks}
            assert far.pop(own) + 1 < min(far.values()), value
    if share:
        return
    ticks = {at: int(row.split("×")[0]) for at, row in enumerate(rows) if "┼" in row}
    (top, high), *_, (bottom, low) = ticks.items()
    for (_, row), value in zip(marks, MICRO.values(), strict=True):
        at = bottom - math.log2(value / low) / math.log2(high / low) * (bottom - top)
        assert abs(row - at) <= 0.51, "on the nearest row, where its line is"


@pytest.mark.parametrize("value", [1.0 + 0.1 * step for step in range(30)])
def test_a_line_is_drawn_at_its_values_to_a_quarter_of_a_row(value):
    spec = chart({1: value, 2: value, 4: 5.0}, {3: 1.0})
    ticks = [(float(row.split("×")[0]), at) for at, row in enumerate(rows_of(spec, 80, 20)) if "┼" in row]
    (high, top), (low, bottom) = ticks[0], ticks[-1]
    first, second, *_ = sorted(at for at, _, series in marks_of(spec, 80, 20) if series == 0)
    cells = cells_of(spec, 80, 20)
    between = {place: each for place, each in cells.items() if first + 1 < place[0] < second - 1}
    at_mark = {place: each for place, each in cells.items() if first - 2 < place[0] < first}
    wanted = bottom - (value - low) / (high - low) * (bottom - top) + 0.5
    assert abs(statistics.fmean(dots_of(between, "blue")) - wanted) < 0.3
    assert abs(statistics.fmean(dots_of(at_mark, "blue")) - wanted) < 0.13, "and so is its mark"


@pytest.mark.parametrize("height", range(9, 26))
def test_laws_are_curves_in_the_tones_of_text_and_what_was_measured_lies_on_them(height):
    shares, places = {"Amdahl": 0.5, "Gustafson": 0.6, "ideal": 1.0}, [at / 8 for at in range(25)]
    others = [
        Series(name=f"{name}, within 1 %", short=name, role="fit" if share < 1 else "ideal",
               law=LawFit(**dict.fromkeys(LawFit.__struct_fields__, share)) if share < 1 else None,
               points=tuple(Point(x=1 + at, y=1 + at * share) for at in places))
        for name, share in shares.items()
    ]  # fmt: skip
    fitted = replace(spec := chart({1: 1.0, 2: 1.68, 4: 2.53}), series=(*spec.series, *others))
    cells, rows = cells_of(fitted, 86, height), rows_of(fitted, 86, height)
    best, rest, ideal, line = (dots_of(cells, style) for style in ("none", "white", "quiet", "blue"))
    assert min(map(len, (rest, best, ideal))) > 10, "all are seen, even where they meet"
    columns = {at for (at, _), (sign, style) in cells.items() if style == "blue" and sign > "\u2800"}
    assert len(line) > 100 and max(b - a for a, b in itertools.pairwise(sorted(columns))) <= 4, "on the laws"
    ends = re.findall(r"(?:(?:⠄|⠤.⠤) [A-Zi]|2\.)\w[^\n]*\S", "\n".join(rows))
    assert ends == ["⠄ ideal", "⠤ ⠤ Gustafson", "2.53×", "⠤⠤⠤ Amdahl"]
    even = replace(spec, series=[*chart({1: 1, 2: 1.97, 4: 3.9}).series, others[-1]])
    assert len(dots_of(cells_of(even, 86, height), "quiet")) > 7, "the ideal below what was measured"
    there = spec.series[0].points
    high = replace(fitted, series=[*spec.series, *(replace(each, points=there) for each in others)])
    columns = [row.find(name) for row in rows_of(high, 86, height) for name in shares if name in row]
    assert len(columns) == 3 and len({*columns}) == 1, "beside the plot, though they meet at its top"
