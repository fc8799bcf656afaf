"""A few rounds of the campaign in every run of the tests; the seed is printed. `LABTUI_FAULT_ROUNDS` asks for more."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.real_cluster import Cluster, Student
from tests.session.campaign import Campaign

SEEDS: tuple[int, ...] = ()
"""Seeds of campaigns that ever failed, kept as regression tests."""

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.mark.parametrize("seed", [None, *SEEDS])
def test_exactly_one_job_whatever_is_cut_or_killed(
    cluster: Cluster, student: Student, tmp_path: Path, seed: int | None
) -> None:
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    print(f"seed {seed}")
    tally = Campaign(cluster, tmp_path / "lab", random.Random(seed)).run(
        int(os.environ.get("LABTUI_FAULT_ROUNDS", "12"))
    )
    print(tally)
    assert tally.killed + tally.accepted_at_once > 0
