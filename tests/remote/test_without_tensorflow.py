"""Without TensorFlow (a new Python, a plain laptop) training tests are skipped and counted in the summary."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
HIDDEN = """
import json, sys
sys.modules["tensorflow"] = None  # what importing finds where it is not installed
import pytest

class Recorder:
    outcomes = {}
    def pytest_runtest_logreport(self, report):
        if report.when == "setup" or report.outcome != "passed":
            training = "tensorflow" in report.keywords
            self.outcomes[report.nodeid] = [training, report.outcome, str(report.longrepr or "")]

status = pytest.main(sys.argv[2:], plugins=[recorder := Recorder()])
with open(sys.argv[1], "w", encoding="utf-8") as out:
    json.dump(recorder.outcomes, out)
sys.exit(status)
"""


def test_training_tests_are_skipped_and_counted(tmp_path: Path) -> None:
    record = tmp_path / "outcomes.json"
    words = ["-q", "-p", "no:cacheprovider", "-n", "0", "-m", "not torch", f"--ignore={__file__}", str(HERE)]
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN, str(record), *words],
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    outcomes = json.loads(record.read_text("utf-8")).values()
    training = [(outcome, reason) for is_training, outcome, reason in outcomes if is_training]
    assert training
    assert all(outcome == "skipped" and "no TensorFlow here" in reason for outcome, reason in training)
    # Whatever else this machine lacks (a Python 3.8) is skipped for its own reason and not counted as training.
    others = [(outcome, reason) for is_training, outcome, reason in outcomes if not is_training]
    assert any(outcome == "passed" for outcome, _ in others)
    assert not any("no TensorFlow here" in reason for _, reason in others)
    counted = re.search(r"(\d+) training tests were SKIPPED \(it is not installed for Python", done.stdout)
    assert counted and int(counted[1]) == len(training), done.stdout[-3000:]
