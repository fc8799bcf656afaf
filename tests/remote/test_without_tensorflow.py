"""Where there is no TensorFlow (a new Python, a laptop that only steers) training tests are skipped, and say so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
HIDDEN = """
import sys
sys.modules["tensorflow"] = None  # what importing finds where it is not installed
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def test_training_tests_are_skipped_aloud():
    words = ["-q", "-p", "no:cacheprovider", "-n", "0", f"--ignore={__file__}", str(HERE)]
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN, *words],
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    told = re.search(r"(\d+) training tests were SKIPPED \(it is not installed for Python", done.stdout)
    ended = re.search(r"(\d+) passed, (\d+) skipped in", done.stdout)
    assert told and ended, done.stdout[-3000:]
    assert told[1] == ended[2]
    assert int(ended[1]) > 0
