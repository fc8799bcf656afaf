"""Whatever a log says, the numbers, charts and texts come out, or are absent: nothing raises, nothing is infinite."""

import json

from hypothesis import given
from hypothesis import strategies as st

from labtui.domain.model import EpochSample, Interval
from labtui.export.tables import csv_text, markdown_text
from labtui.results import catalogue, compute, report
from labtui.results.measured import MeasuredRun
from labtui.training_logs.runs import ParsedRun

seconds = st.one_of(st.floats(0, 1e15), st.floats(0, 1e-300), st.sampled_from([0.0, 5e-324, 1e-9, 0.5, 14.0]))


@st.composite
def intervals(draw):
    lo, value, hi = sorted(draw(st.tuples(seconds, seconds, seconds)))
    return Interval(value, lo, hi)


epochs = st.builds(
    EpochSample, epoch=st.integers(0, 5), seconds=intervals(),
    printed_seconds=st.none() | st.integers(0, 10**9), steps=st.none() | st.integers(0, 10**9),
    metrics=st.dictionaries(st.sampled_from(["accuracy", "val_accuracy", "loss"]), st.floats(), max_size=3),
)  # fmt: skip
parsed = st.builds(
    ParsedRun, model=st.sampled_from([None, "ResNet50", "ResNet152", "", "\x1b[2J"]),
    device=st.sampled_from([None, "cpu", "gpu"]), n_gpus=st.sampled_from([None, 0, 1, 2, 4, 10**6]),
    batch_size=st.sampled_from([None, 1, 2048, 10**12]),
    outcome=st.sampled_from(["completed", "unfinished", "oom"]),
    epochs=st.lists(epochs, max_size=4, unique_by=lambda sample: sample.epoch).map(tuple),
    images=st.sampled_from([None, 1, 50_000, 10**12]), throughput=st.none() | intervals(),
    framework=st.sampled_from(["", "pytorch"]), tuning=st.sampled_from([(), (("script", "a.py"),)]),
)  # fmt: skip
of_a_family = st.builds(
    lambda n, times, live: MeasuredRun(
    run=ParsedRun(model="ResNet50", device="gpu", n_gpus=n, batch_size=256 * n, epochs=tuple(times)),
    live=live, ), n=st.sampled_from([1, 2, 4, 8]),
    times=st.lists(epochs, min_size=2, max_size=4, unique_by=lambda sample: sample.epoch),
    live=st.booleans(),
)  # fmt: skip
named = {"called": st.sampled_from(["", "a", "ResNet50"]), "data_set": st.sampled_from(["", "tiny"])}
marks = st.sampled_from(["", "practice", "small"])
runs = st.builds(MeasuredRun, run=parsed, mark=marks, live=st.booleans(), **named)


@given(st.lists(runs, max_size=6) | st.lists(of_a_family, min_size=2, max_size=6))
def test_anything_can_be_computed_shown_and_written(measured):
    results = compute.compute_results(measured)
    json.dumps(report.results_json(results), allow_nan=False)
    json.dumps(report.accuracy_json(results), allow_nan=False)
    charts = catalogue.lab_charts(results)
    assert len({chart.key for chart in charts}) == len(charts)
    names = [[series.name for series in chart.series] for chart in (*charts, *catalogue.catalogue(results))]
    assert all(len(set(each)) == len(each) for each in names), (
        "drawers and the cursor find a line by its name"
    )
    assert "\x1b" not in report.report_text(results, sources=True) + markdown_text(results, "")
    csv_text(results)
