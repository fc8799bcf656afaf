"""Half a minute of jobs coming and going, the screens open; `benchmarks/soak.py` does it for as long as one likes."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import pytest

from benchmarks import soak

pytestmark = [
    pytest.mark.skipif(
        not sys.platform.startswith("linux") or shutil.which("bash") is None, reason="reads /proc; needs bash"
    ),
    pytest.mark.slow,
]


def test_threads_and_descriptors_stay_flat(tmp_path: Path) -> None:
    with soak.practice(tmp_path / "kept", 100.0) as (cluster, lab):
        found = soak.flat(asyncio.run(soak.soak(lab, cluster.pid, 30.0)))
    assert found["finished_ended"] > found["finished_began"] >= 0
    for budget in soak.budgets(found):
        if "threads" in budget.name or "descriptors" in budget.name:
            assert budget.kept, budget
