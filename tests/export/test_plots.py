"""Charts as pictures: every chart of every edition is drawn, no two labels meet, the same data give the same bytes."""

from __future__ import annotations

import itertools

import pytest

from labtui.export.drawing import panels, y_ticks
from labtui.export.plots import figure_of, look, pictures, place_labels
from labtui.lab.proof import published_evidence
from labtui.results.catalogue import lab_charts
from labtui.results.charts import ChartSpec, Point, Series, doubling_axes, spread, unbroken
from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_state
from labtui.session.labs import load_edition
from tests.export.test_hand_in import EDITIONS


def charts_of(edition):
    loaded = load_edition(edition)
    runs = measured_from_state(published_evidence(loaded).state)
    return lab_charts(compute_results(runs, images=loaded.images))


@pytest.mark.parametrize("edition", EDITIONS)
def test_every_chart_of_an_edition_is_drawn_and_no_labels_meet(edition):
    seen = {}
    for spec in charts_of(edition):
        seen.setdefault(spec.family, spec)
    assert seen
    for spec in seen.values():
        with look():
            figure = figure_of([spec], 13.333, 7.5)
            place_labels(figure)
            for axes in figure.axes:
                names = [text for text in axes.texts if text.get_gid() == "name"]
                boxes = [name.get_window_extent() for name in names]
                for one, other in itertools.combinations(boxes, 2):
                    assert not one.shrunk(1, 0.8).overlaps(other.shrunk(1, 0.8)), (spec.key, names)
                for box in boxes:
                    assert box.x1 <= figure.bbox.width + 2, (spec.key, names)


def spec_of(*lines, **more):
    series = tuple(
        Series(name=f"line {n}", points=tuple(Point(x=x, y=y, label=f"{y:g}") for x, y in line.items()))
        for n, line in enumerate(lines)
    )
    counts = sorted({x for line in lines for x in line})
    made = {"x_ticks": tuple((float(x), f"{x}") for x in counts), "x_label": "GPUs", "y_label": "s", **more}
    return ChartSpec(key="k", title="t", series=series, **made)


def test_a_picture_is_the_same_each_time_and_says_practice():
    spec = spec_of({1: 4.0, 2: 2.0, 4: 1.5}, practice=True, notes=("A note.",))
    one, other = (pictures(spec, ("png", "svg", "pdf"), stamp="state 1") for _ in range(2))
    assert one == other and set(one) == {"png", "svg", "pdf"}
    assert b"<!-- Practice cluster, not measured -->" in one["svg"]
    assert b"<!-- Practice" not in pictures(spec_of({1: 4.0}), ("svg",))["svg"]


def test_no_line_crosses_a_size_that_others_have():
    spec = spec_of({1: 1.0, 4: 3.0}, {1: 1.0, 2: 1.9, 4: 3.5})
    assert [len(piece) for piece in unbroken(spec, spec.series[0])] == [1, 1]
    assert [len(piece) for piece in unbroken(spec, spec.series[1])] == [3]


def test_more_than_four_lines_become_panels():
    lines = [{1: 1.0 + n, 2: 2.0 + n} for n in range(6)]
    assert len(panels(spec_of(*lines))) == 6 and len(panels(spec_of(*lines[:4]))) == 1


def test_axes_are_logarithmic_where_sizes_double_often_and_shares_are_not():
    wide = {n: float(n) for n in (1, 2, 4, 8, 16)}
    assert (doubling_axes(spec_of(wide)).x_log, doubling_axes(spec_of(wide)).y_log) == (True, True)
    assert not doubling_axes(spec_of(wide, unit="%")).y_log
    assert not doubling_axes(spec_of({1: 1.0, 4: 2.0})).x_log
    assert len(y_ticks(2.3, 413, log=True)) <= 7 and y_ticks(0, 4.2, log=False) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("wanted", "placed"),
    [([0.0, 100.0], [0.0, 100.0]), ([10.0, 10.0], [0.0, 20.0]), ([0.0, 5.0, 50.0], [-7.5, 12.5, 50.0])],
)
def test_labels_are_moved_no_further_than_they_must(wanted, placed):
    assert sorted(spread(wanted, 20)) == pytest.approx(placed)
    found = sorted(spread([3.0, 3.1, 3.2, 3.3, 60.0, 61.0], 20))
    assert all(b - a >= 20 - 1e-6 for a, b in itertools.pairwise(found))
    assert spread([2.0, 2.0, 5.0], 20, 10.0) == [10.0, 30.0, 50.0], "no label stands on the axis"
