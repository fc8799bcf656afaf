"""Some hundreds of killed lives in every run of the tests; the seed is printed. See `tests.reliability.campaign`."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.cluster import Cluster, Student
from tests.reliability.campaign import campaign

SEEDS: tuple[int, ...] = ()
"""Seeds of campaigns that ever failed, kept as regression tests."""

ROUNDS = int(os.environ.get("LABTUI_FAULT_ROUNDS", "200"))

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.xdist_group("reliability"),
]


@pytest.mark.parametrize("seed", [None, *SEEDS])
def test_exactly_one_job_and_equal_logs_whatever_is_cut_or_killed(
    cluster: Cluster, student: Student, tmp_path: Path, seed: int | None
) -> None:
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    print(f"seed {seed}")
    tally = campaign(cluster, tmp_path, seed, ROUNDS, lanes=4)
    print(tally)
    assert tally.jobs == tally.intents > 0
    assert tally.killed == tally.rounds >= ROUNDS
