"""The uncertainty a reader is shown: the larger of reading and scatter, three digits, no bar for a single epoch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.domain.model import Interval
from labtui.export.result_tables import readings_table
from labtui.export.tables import latex_text
from labtui.results.compute import compute_results
from labtui.results.numbers import (
    ABSENT,
    PRECISE,
    fixed,
    text_table,
    three_digits,
    uncertainty,
    with_half_width,
    with_uncertainty,
)
from tests.results.helpers import run, task_charts


def row_of(times: list[float]):
    (row,) = compute_results([run(1, times)]).rows
    return row


def test_scatter_is_shown_where_it_is_larger_than_what_printing_hides():
    row = row_of([30.0, 17.8, 18.0, 17.9, 18.1])
    found = uncertainty(row, row.epoch_seconds)
    assert found.mark == "σ" and found.half_width == pytest.approx(row.scatter.deviation)
    assert with_uncertainty(row, row.epoch_seconds) == "18.0 σ 0.1"


def test_a_single_epoch_says_so_and_has_no_bar():
    row = row_of([30.0, 17.916])
    found = uncertainty(row, Interval.around(17.916, 0.001))
    assert found == (0.0, "±")
    assert with_uncertainty(row, Interval.around(17.916, 0.001)) == "17.9"
    wide = uncertainty(
        row, Interval.around(5.0, 0.5)
    )  # whole printed seconds: the reading itself can be seen
    assert wide == (0.5, "±")
    assert with_uncertainty(row, Interval.around(5.0, 0.5)) == "5.00 ±0.50"
    assert with_uncertainty(row, None) == ABSENT


def test_a_ratio_has_the_scatter_of_both_its_times():
    results = compute_results([run(1, [30, 10.0, 10.4, 9.6, 10.0]), run(2, [30, 5.0, 5.2, 4.8, 5.0])])
    one, two = results.rows
    found = uncertainty(two, two.speedup, one)
    shares = [row.scatter.deviation / row.epoch_seconds.value for row in (one, two)]
    assert found.half_width == pytest.approx(two.speedup.value * (shares[0] ** 2 + shares[1] ** 2) ** 0.5)
    assert uncertainty(one, one.speedup, one) == (0.0, "±")
    speedup = next(chart for chart in task_charts(results) if chart.key == "speedup")
    assert "Error bars: the scatter between epochs" in " ".join(speedup.notes)


@pytest.mark.parametrize(
    ("times", "half_width", "text"),
    [
        ([70.0, 58.8, 60.9, 59.8], 0.05, "59.8 σ 1.1"),
        ([30.0, 14.0, 14.0, 14.0], 0.5, "14.0 ±0.5"),
        ([29.0, 13.6, 13.6, 13.6], 0.0125, "13.6"),
    ],
)
def test_tables_screens_and_pages_show_the_same_text(times, half_width, text):
    results = compute_results([run(1, times, half_width=half_width)])
    (row,) = results.rows
    assert with_uncertainty(row, row.epoch_seconds) == text
    assert f"  {text}  " in text_table(results.rows, PRECISE)
    assert with_uncertainty(row, row.epoch_seconds) == readings_table(results).rows[1][2] == text
    assert text.replace("σ", r"$\sigma$").replace("±", r"$\pm$") in latex_text(results)


@pytest.mark.parametrize(
    ("half", "text"), [(0.4, "215"), (0.5, "215"), (0.51, "215 ±1"), (1.5, "215 ±1"), (2.6, "215 ±3")]
)
def test_a_half_width_is_never_shown_as_nothing(half: float, text: str):
    assert with_half_width(215.0, half, "±") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (17.95, "18.0"),
        (10.05, "10.1"),
        (9.995, "10.0"),
        (99.95, "100"),
        (3675.0, "3,680"),
        (0.63321, "0.633"),
        (0, "0"),
    ],
)
def test_a_half_goes_up_as_in_the_native_charts_of_a_deck(value: float, text: str):
    """Charts in PowerPoint round the stored number by its decimals; a page's text beside it must not differ."""
    assert three_digits(value) == text


@given(st.floats(0.01, 1e6), st.integers(0, 3))
def test_fixed_digits_are_the_nearest(value: float, places: int):
    text = fixed(value, places)
    assert len(text.partition(".")[2]) == places
    assert abs(float(text.replace(",", "")) - value) <= 0.5 * 10**-places * (1 + 1e-9) + 1e-9
