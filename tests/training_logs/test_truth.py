"""Real fits whose true epoch times were recorded beside their logs: the truth lies in the interval, always.

A callback in front of Keras's own progress bar and one behind it noted a monotonic clock where the bar starts and reads
its own: its duration lies between `lo` (end in front - begin behind) and `hi` (end behind - begin in front).
"""

import json
from pathlib import Path

import pytest

from labtui.training_logs import keras, reader

RECORDED = Path(__file__).parents[1] / "fixtures" / "keras"
TRUTHS = sorted(RECORDED.glob("*/*.json"))


@pytest.mark.parametrize("path", TRUTHS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_truth_lies_within_every_interval(path):
    truth = json.loads(path.read_text())
    report = reader.parse_log(path.with_suffix(".log").read_bytes())
    assert len(report.runs) == 1
    run = report.runs[0]
    assert run.outcome == "completed"
    assert [sample.epoch for sample in run.epochs] == [entry["epoch"] for entry in truth["epochs"]]
    assert not report.diagnosis
    for sample, entry in zip(run.epochs, truth["epochs"], strict=True):
        assert sample.seconds.lo <= entry["hi"], (sample, entry)
        assert sample.seconds.hi >= entry["lo"], (sample, entry)
        assert sample.steps == entry["steps"]
        assert sample.seconds.hi - sample.seconds.lo <= 1.0 + 2 * keras.CLOCK_SECONDS + 1e-9
        assert sample.metrics.keys() == entry["metrics"].keys()
        for name, value in sample.metrics.items():
            assert value == pytest.approx(entry["metrics"][name], abs=5.1e-5, rel=1e-4)
        if path.parent.name != "2.6.5" and path.stem.startswith("verbose2") and "slow" not in path.stem:
            # from 2.7 on milliseconds: the bounds are those of the rounded step x the steps
            unit = 1e-6 if sample.ms_per_step < 1 else 1e-3
            assert sample.seconds.half_width <= 0.5 * unit * sample.steps * 1.001 + keras.CLOCK_SECONDS
