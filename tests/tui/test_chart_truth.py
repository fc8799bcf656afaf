"""Charts never mislead: what a reader takes from the drawn text is what the numbers say. The text is read back."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.text import Text

from labtui.results.charts import ChartSpec, Point, Series, doubling_axes, series_hues
from labtui.tui.widgets import plot_text, plot_values
from labtui.tui.widgets.plot_values import IDEAL_CAP, LIVE_MARK, MARKS, number_text

COUNTS = (1, 2, 4, 8)
FULL, HALF = "█▌▐", "▄▖▗"


def chart(kind: str, *lines: list[float], ideal: bool = False, percent: bool = False) -> ChartSpec:
    series = [
        Series(name=f"S{place}", points=tuple(Point(x=x, y=y) for x, y in zip(COUNTS, ys, strict=False)))
        for place, ys in enumerate(lines)
    ]
    if ideal:
        counts = COUNTS[: max(len(ys) for ys in lines)]
        series.append(Series(name="ideal", role="ideal", points=tuple(Point(x=n, y=n) for n in counts)))
    return ChartSpec(
        key="speedup", title="S", x_label="GPUs", y_label="", kind=kind, series=tuple(series), percent=percent,
        x_ticks=tuple((x, f"{x:g}") for x in COUNTS[: max(len(ys) for ys in lines)]),
    )  # type: ignore[arg-type]  # fmt: skip


class Reading:
    """A drawn chart as a reader sees it: ticks by row, and what stands in each cell."""

    def __init__(self, spec: ChartSpec, width: int, height: int) -> None:
        drawn = plot_text.draw(spec, width, height, plot_values.NO_COLOUR)
        assert drawn is not None
        lines = Text.from_ansi(drawn).plain.split("\n")
        self.left = max(line.find("│") for line in lines) + 1 or lines[0].index("┤") + 1
        self.rows = [line[self.left :] for line in lines[: height - 3]]
        named = [(row, line) for row, line in enumerate(lines[: height - 3]) if "┤" in line[: self.left]]
        self.ticks = {row: self._number(line.split("┤")[0]) for row, line in named}
        axis, names = lines[height - 3], lines[height - 2]
        self.columns = [at - self.left for at, sign in enumerate(axis) if sign == "┬"]
        assert names.split() == [f"{x:g}" for x in COUNTS[: len(self.columns)]]

    def _number(self, text: str) -> float:
        plain = text.strip().replace(",", "")
        return float(plain.removesuffix("%")) / 100 if plain.endswith("%") else float(plain)

    def row_of(self, value: float) -> float:
        """Where a value belongs, in rows from the top, by the two outermost ticks."""
        (high, top), (low, bottom) = min(self.ticks.items()), max(self.ticks.items())
        return high + (top - value) / (top - bottom) * (low - high)


values = st.floats(min_value=0.01, max_value=9000, allow_nan=False).map(lambda number: float(f"{number:.4g}"))
lines = st.lists(values, min_size=2, max_size=4)
sizes = st.tuples(st.integers(40, 90), st.integers(11, 40))


@given(low=st.floats(0, 1e6), span=st.floats(1e-3, 1e6), rows=st.integers(8, 60), above=st.integers(0, 2))
def test_ticks_are_round_and_stand_on_rows_at_even_distances(
    low: float, span: float, rows: int, above: int
) -> None:
    scale = plot_text.row_scale(low, low + span, rows, above=above)
    each = (scale.high - scale.low) / rows
    places = [(tick - scale.low) / each - 0.5 for tick in scale.ticks]
    assert all(abs(place - round(place)) < 1e-3 for place in places)
    assert len({round(after - before) for before, after in pairwise(places)}) == 1
    assert scale.low <= low + each / 2
    assert low + span <= scale.high - above * each + each * 1e-6


@given(ys=st.lists(lines, min_size=1, max_size=3), size=sizes)
@example(ys=[[1.0, 1.68, 2.53]], size=(46, 11))
def test_every_mark_of_a_line_stands_within_half_a_row_of_its_value(
    ys: list[list[float]], size: tuple[int, int]
) -> None:
    read = Reading(chart("lines", *ys), *size)
    for place, numbers in enumerate(ys):
        for at, value in enumerate(numbers):
            row = read.row_of(value)
            found = [
                number
                for number, line in enumerate(read.rows)
                if any(line[c : c + 1] in MARKS for c in range(read.columns[at] - 1, read.columns[at] + 2))
                and abs(number - row) <= 0.501
            ]
            assert found, f"series {place}: no mark within half a row of {value}"


@given(ys=lines, size=sizes, live=st.booleans())
@example(ys=[1.0, 1.68, 2.53], size=(46, 11), live=False)
def test_every_bar_ends_within_half_a_row_of_its_value(
    ys: list[float], size: tuple[int, int], live: bool
) -> None:
    spec = chart("bars", ys)
    if live:
        points = tuple(Point(x=p.x, y=p.y, live=True) for p in spec.series[0].points)
        spec = chart("bars", ys).__class__(
            **{name: getattr(spec, name) for name in spec.__slots__} | {"series": (Series(name="S", points=points),)}
        )  # fmt: skip
    read = Reading(spec, *size)
    for column, value in zip(read.columns, ys, strict=True):
        edges = []
        for number, line in enumerate(read.rows):
            sign = line[column]
            if sign in FULL or sign == LIVE_MARK:
                edges.append(number if sign == LIVE_MARK else number - 0.5)
            elif sign in HALF:
                edges.append(float(number))
        assert edges, f"no bar for {value}"
        assert abs(min(edges) - read.row_of(value)) <= 0.501


@given(ys=st.lists(lines, min_size=1, max_size=2), size=sizes, kind=st.sampled_from(["bars", "lines"]))
@example(ys=[[29.0, 13.58, 8.16]], size=(40, 11), kind="lines")
def test_written_values_keep_the_order_of_the_values(
    ys: list[list[float]], size: tuple[int, int], kind: str
) -> None:
    read = Reading(chart(kind, *ys), *size)
    wanted = {number_text(value, percent=False, exact=True) for numbers in ys for value in numbers}
    found = sorted(
        (row, float(word.replace(",", "")))
        for row, line in enumerate(read.rows)
        for word in re.findall(r"[\d.,]*\d", line)
        if word in wanted
    )
    for (above, larger), (below, smaller) in pairwise(found):
        assert above == below or larger >= smaller


def test_over_lines_the_ideal_is_straight_and_over_bars_a_cap_on_each_place() -> None:
    read = Reading(chart("bars", [1.0, 1.7, 2.5, 3.1], ideal=True), 60, 20)
    for column, count in zip(read.columns, COUNTS, strict=True):
        caps = [
            row for row, line in enumerate(read.rows) if IDEAL_CAP in line[max(0, column - 6) : column + 7]
        ]
        assert any(abs(row - read.row_of(count)) <= 0.5 for row in caps)
    straight = Reading(chart("lines", [0.1, 0.1, 0.1, 0.1], ideal=True), 80, 30)
    first, last = straight.columns[0], straight.columns[-1]
    for column in range(first + 2, last - 1):
        dots = [row for row, line in enumerate(straight.rows) if "⠁" <= line[column] <= "⣿"]
        value = 1 + (column - first) / (last - first) * 7
        assert any(abs(row - straight.row_of(value)) <= 1.01 for row in dots), column


@pytest.mark.parametrize("height", range(12, 30))
def test_an_ideal_that_is_reached_stands_beside_the_bar_s_top_not_above_it(height: int) -> None:
    read = Reading(chart("bars", [1.0, 1.7, 2.5], ideal=True), 46, height)
    column = read.columns[0]
    top = next(row for row, line in enumerate(read.rows) if line[column] in FULL + HALF)
    caps = [row for row, line in enumerate(read.rows) if IDEAL_CAP in line[max(0, column - 6) : column + 7]]
    assert caps == [top]


@pytest.mark.parametrize("height", range(12, 30))
def test_a_value_does_not_stand_over_the_cap_of_an_ideal_that_its_bar_does_not_reach(height: int) -> None:
    read = Reading(chart("bars", [1.0, 1.68, 2.53], ideal=True), 46, height)
    for column, value in zip(read.columns, ("1.00", "1.68", "2.53"), strict=True):
        near = [line[max(0, column - 6) : column + 7] for line in read.rows]
        top = next(row for row, line in enumerate(near) if line[min(column, 6)] in FULL + HALF)
        (cap,) = [row for row, line in enumerate(near) if IDEAL_CAP in line]
        (shown,) = [row for row, line in enumerate(near) if value in line]
        assert shown > cap or cap == top


@pytest.mark.parametrize("kind", ["lines", "bars"])
def test_on_an_axis_of_doublings_each_takes_the_same_room_and_is_named_in_gpus(kind: str) -> None:
    counts = (1, 2, 4, 8, 16, 32)
    points = tuple(Point(x=n, y=240.0 * n) for n in counts)
    spec = ChartSpec(
        key="throughput", title="t", x_label="GPUs", y_label="", kind=kind, series=(Series(name="vit", points=points),),
        x_ticks=tuple((float(n), str(n)) for n in counts),
    )  # type: ignore[arg-type]  # fmt: skip
    drawn = plot_text.draw(doubling_axes(spec), 80, 20, plot_values.NO_COLOUR)
    assert drawn is not None
    axis, names, label = Text.from_ansi(drawn).plain.split("\n")[17:20]
    assert names.split() == [str(n) for n in counts]
    ticks = [at for at, sign in enumerate(axis) if sign == "┬"]
    rooms = {after - before for before, after in pairwise(ticks)}
    assert len(ticks) == 6 and max(rooms) - min(rooms) <= 1
    assert "GPUs (logarithmic)" in label
    assert doubling_axes(replace(spec, series=(Series(name="vit", points=points[:3]),))).x_label == "GPUs"


def test_a_chart_below_eight_rows_is_not_drawn() -> None:
    spec = chart("bars", [1.0, 1.68, 2.53])
    assert plot_text.draw(spec, 60, plot_text.LEAST_ROWS + 2, plot_values.DARK) is None
    assert plot_text.draw(spec, 60, plot_text.LEAST_ROWS + 3, plot_values.DARK) is not None


def _named(*names: tuple[str, int | None]) -> ChartSpec:
    series = tuple(Series(name=name, hue=hue, points=(Point(x=1, y=1.0),)) for name, hue in names)
    return ChartSpec(key="k", title="", x_label="", y_label="", series=series)


@pytest.mark.parametrize("palette", [plot_values.DARK, plot_values.LIGHT])
def test_a_colour_belongs_to_a_network_or_a_gpu_count(palette: plot_values.Palette) -> None:
    alone = palette.colours(_named(("ResNet152", 1)))
    beside = palette.colours(_named(("ResNet50", 0), ("ResNet152", 1)))
    assert alone[0] == beside[1]
    assert len(set(palette.series)) == len(palette.series)
    assert series_hues(_named(("a", 3), ("b", 3)))[0] != series_hues(_named(("a", 3), ("b", 3)))[1]
