"""Tables: the digits shown, the text of logs made harmless, full precision in files."""

import csv
import io
import re

import pytest

from labtui.domain.model import Interval
from labtui.export.tables import csv_text, markdown_text, readings_table
from labtui.results import measured, messages, numbers, report
from labtui.results.compute import compute_results
from labtui.results.numbers import PRECISE, bounds_text, percent_text, rate_text, ratio_text, tick_texts

from .helpers import results_of, run, task_charts

BOTH = ("ResNet50.31337.out", "ResNet152.31338.out")


@pytest.mark.parametrize(("interval", "ratio", "bounds", "percent", "percents"), [
    (Interval(0.84, 0.8381, 0.8411), "0.84", "", "84.0 %", "83.8 to 84.2 %"),
    (Interval(3.2, 1.2, 5.2), "3", "1 to 6", "320 %", "120 to 520 %"),
    (Interval.exact(1.0), "1.00", "", "100.0 %", ""),
    (Interval(5.0, 4.995, 5.005), "5.00", "", "500.0 %", "499.5 to 500.5 %"),
    (Interval(4600, 4599.96, 5000.04), "4,600", "4,600 to 5,000", "460,000 %", "459,996 to 500,004 %"),
    (Interval(15.004, 15.0, 15.01), "15.0", "", "1,500.4 %", "1,500.0 to 1,501.0 %"),
])  # fmt: skip
def test_a_number_and_its_bounds_have_the_digits_of_the_interval(interval, ratio, bounds, percent, percents):
    assert ratio_text(interval) == ratio and percent_text(interval) == percent
    assert bounds_text(interval, ratio) == bounds and bounds_text(interval, percent) == percents


def test_the_text_tables_of_the_published_runs():
    lines = numbers.text_table((results := results_of(*BOTH)).rows, PRECISE).splitlines()
    assert "2.53" in lines[3] and "63.2 %" in lines[3] and "  5.38  " in lines[3]
    printed = numbers.text_table(results.rows, numbers.AS_PRINTED).splitlines()
    assert printed[3].split() == ["ResNet50", "4", "GPUs", "8,192", "5", "10,000", "2.80", "70.0", "%"]
    assert numbers.grid_text([["模型", "1"], ["a", "2"]], [False, True]) == "模型  1\na     2"
    assert "As printed" not in markdown_text(compute_results([run(1, [29.0])]), "")
    assert "| ResNet152 | 2 GPUs | 2,048 | 18 | 2,778 | 1.83 | 91.5 % |" in markdown_text(results, "")
    sequential = results_of("ResNet50_seq_CPU.31335.out", "ResNet50_seq_GPU.31336.out")
    text = report.report_text(results) + report.report_text(sequential)
    assert re.search(r"\d%", text) is None and "84.0 %" in text, "a share has one form"
    assert "one GPU is 15.0 times as fast as the CPU (14.8 to 15.2; as printed 15.36)" in text


def test_csv_has_every_digit_and_no_invented_ones():
    results = results_of(*BOTH)
    for line, row in zip(csv.DictReader(io.StringIO(csv_text(results))), results.rows, strict=True):
        mean, ratio, printed = row.epoch_seconds.value, row.speedup, row.as_printed.speedup
        told = [line[each] for each in ("epoch_seconds", "speedup_lo", "speedup_hi", "printed_speedup")]
        assert [*map(float, told)] == pytest.approx([mean, ratio.lo, ratio.hi, printed], rel=1e-15)
        assert line["n_gpus"] == str(row.n_gpus) and line["batch_size"] == str(row.batch_size)
        assert line["sources"] == measured.cite(row.origins)
    assert report.results_json(results)["rows"][4]["epoch_seconds"]["value"] == 17.95, "without noise"
    alone = next(csv.DictReader(io.StringIO(csv_text(compute_results([run(1, [29.0])])))))
    assert alone["epoch_seconds"] == "" and alone["speedup"] == "" and alone["first_epoch_seconds"] == "29.0"


def test_notes_titles_and_citations_name_what_they_are_about():
    results = compute_results([run(4, [9, 5]), run(1, [], outcome="oom", source="a.out", model="ResNet152")])
    told = messages.note_lines(results)
    assert "ResNet50 on 4 GPUs: There is no one-GPU run of this" in "\n".join(told)
    assert "Not counted: a.out, no epoch was finished: it ran out of memory." in told
    lines = [measured.Origin(source="a.out", job_id="7", line=line, epoch=1) for line in (5, 7, 7)]
    assert measured.cite(lines) == "job 7, a.out, lines 5, 7"
    many = [measured.Origin(source=f"{name}.out") for name in "abcdef"]
    assert measured.cite(many) == "a.out; b.out; c.out; d.out; and 2 more"


def test_a_mean_has_one_interval_in_text_table_and_chart_and_a_ratio_the_scatter_of_both_its_times():
    (row,) = (results := compute_results([run(1, [30.0, 17.8, 18.0, 17.9, 18.1])])).rows
    assert numbers.shown_bounds(row, row.epoch_seconds).half_width == pytest.approx(row.scatter.deviation)
    shown = numbers.with_uncertainty(row, row.epoch_seconds)
    assert shown == readings_table(results).rows[1][2] == "18.0 ±0.2", "more than printing hides"
    slow, fast = [30, 14.6, 14.7, 14.7], [30, *[4.0] * 30]
    (row,) = (results := compute_results([run(1, slow), run(1, fast)], images=4000)).rows
    assert numbers.with_uncertainty(row, row.epoch_seconds) == "4.97 (4.00 to 14.67)"
    (line,) = csv.DictReader(io.StringIO(csv_text(results)))
    marks = {chart.key: chart.series[0].points[0] for chart in task_charts(results)}
    for key, name in (("epoch-time", "epoch_seconds"), ("throughput", "throughput")):
        value, ends = getattr(row, name), [float(line[f"{name}_{end}"]) for end in ("lo", "hi")]
        assert ends == [value.lo, value.hi] == [marks[key].lo, marks[key].hi], "as in JSON"
    (row,) = compute_results([run(1, [30, 4, 4, 4, 4, 40])]).rows  # no time is below zero
    assert numbers.with_uncertainty(row, row.epoch_seconds) == "11.2 (0.0 to 27.3)"
    runs = [run(1, [30, 10.0, 10.4, 9.6, 10.0]), run(2, [30, 5.0, 5.2, 4.8, 5.0])]
    one, two = (results := compute_results(runs, images=50_000)).rows
    found = numbers.shown_bounds(two, two.speedup, ratio=True).half_width
    shares = [row.scatter.deviation / row.epoch_seconds.value for row in (one, two)]
    assert found == pytest.approx(two.speedup.value * (shares[0] ** 2 + shares[1] ** 2) ** 0.5)
    assert numbers.shown_bounds(one, one.speedup, ratio=True) == Interval.exact(1.0)
    line = list(csv.DictReader(io.StringIO(csv_text(results))))[1]
    assert float(line["speedup_hi"]) - two.speedup.value == pytest.approx(found), "as the screens have it"
    factor = float(line["efficiency_hi"]) / float(line["batch_factor"])
    assert float(line["step_factor_hi"]) == pytest.approx(factor), "what is made from them is as uncertain"
    assert float(line["karp_flatt_lo"]) == pytest.approx(2 / float(line["speedup_hi"]) - 1)
    assert any("scatter of epochs" in note for each in task_charts(results) for note in each.captions)
    steady = task_charts(compute_results([run(1, [30, 10.0, 10.01]), run(2, [30, 5.0, 5.01])]))
    assert not any("Error bars" in note for chart in steady for note in chart.captions), "none can be seen"


def test_a_half_goes_up_as_in_the_native_charts_of_a_deck_and_a_half_width_is_never_shown_as_nothing():
    told = {(215.0, 0.5): "215", (215.0, 0.51): "215 ±1", (215.0, 1.3): "215 ±2", (3684.0, 12.0): "3,680 ±20"}
    told |= {(5.3648, 0.01284): "5.36 ±0.02", (9.995, 0.02): "10.0", (9.995, 0.3): "10.0 ±0.3"}
    assert {pair: numbers.interval_text(Interval.around(*pair)) for pair in told} == told
    texts = {17.95: "18.0", 10.05: "10.1", 9.995: "10.0", 3675.0: "3,680", 0.63321: "0.633", 0: "0"}
    assert {value: numbers.three_digits(value) for value in texts} == texts
    texts = {0.2355: "23.6 %", 0.3395: "34.0 %", 1 - 0.7645: "23.6 %", -2e-16: "0.0 %"}
    assert {value: percent_text(value) for value in texts} == texts
    rates = {(3676.47, 0): "3,676", (3676.47, 12): "3,680", (13128, 4600): "13,100", (2.5, 0): "2.50"}
    assert {pair: rate_text(Interval.around(*pair)) for pair in rates} == rates
    assert [numbers.whole_text(Interval.around(s, 0.1)) for s in (2336.4, 43.31)] == ["2,336", "43.3"]
    absent = {told(None) for told in (rate_text, ratio_text, percent_text, numbers.lost_text)}
    assert absent == {numbers.ABSENT}
    assert tick_texts([0.74, 0.745, 0.75], percent=True) == ["74.0", "74.5", "75.0"], "none is there twice"
    assert tick_texts([1000, 1000.25]) == ["1,000.0", "1,000.3"] and tick_texts([0, 0.5]) == ["0", "0.5"]


@pytest.mark.parametrize("width", [120, 80, 60])
def test_no_line_is_wider_than_the_window_and_no_cell_is_broken_or_lost(width):
    results = results_of(*BOTH)
    text = report.report_text(results, width=width)
    assert max(map(len, text.splitlines())) <= width
    words = text.replace(", ", "  ")
    for cell in {cell for line in numbers.table_of(results.rows, PRECISE).rows for cell in line}:
        assert re.search(rf"(?<!\S){re.escape(cell)}(?!\S)", words), cell
    for part in numbers.text_table(results.rows, PRECISE, width).split("\n\n"):
        names = re.findall(r"^ResNet\d+", part, re.MULTILINE)
        assert names == ["ResNet50", "ResNet152"] or width > 100, "as headings where a row is too long"
