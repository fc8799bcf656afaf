"""Fresh Keras logs of the TensorFlow that is installed here: what labtui reads holds the true epoch times."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labtui.training_logs.reader import parse_log
from tests.remote.conftest import ended, started

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow, pytest.mark.xdist_group("tensorflow")]

RECORD = Path(__file__).resolve().parents[1] / "fixtures" / "keras" / "record.py"


def test_intervals_hold_the_truth_of_fresh_logs(tmp_path: Path) -> None:
    done = ended(started(tmp_path, str(RECORD), "--out", str(tmp_path / "recorded")), tmp_path)
    assert done.status == 0, done.err.decode()
    scenes = sorted((tmp_path / "recorded").glob("*.json"))
    assert {json.loads(path.read_text())["verbose"] for path in scenes} == {1, 2}
    epochs = 0
    for path in scenes:
        truth = json.loads(path.read_text())
        (run,) = parse_log(path.with_suffix(".log").read_bytes()).runs
        for sample, true in zip(run.epochs, truth["epochs"], strict=True):
            assert sample.epoch == true["epoch"]
            assert sample.seconds.lo <= true["hi"] and true["lo"] <= sample.seconds.hi, (
                path.stem,
                sample,
                true,
            )
            assert sample.steps == true["steps"]
            epochs += 1
    assert epochs >= 20
