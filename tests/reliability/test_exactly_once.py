"""More than a hundred killed lives in every run of the tests; the seed is printed. See `tests.reliability.campaign`."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.real_cluster import Cluster, Student
from tests.reliability.campaign import campaign

SEEDS = (20261133, 20261134, 2026112211, 2026113128)
"""Seeds of campaigns that ever failed (docs/reliability.md tells why), kept as regression tests, if shorter ones."""

ROUNDS = int(os.environ.get("LABTUI_FAULT_ROUNDS", "60"))
ROUNDS_OF_A_KEPT_SEED = 16

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.xdist_group("campaign"),
]


def test_exactly_one_job_and_equal_logs_whatever_is_cut_or_killed(
    cluster: Cluster, student: Student, tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    tally = campaign(cluster, tmp_path, (seed,), ROUNDS, lanes=6)
    print(tally)
    assert tally.jobs == tally.intents > 0
    assert tally.killed == tally.rounds >= ROUNDS


def test_what_once_failed_holds(cluster: Cluster, student: Student, tmp_path: Path) -> None:
    """With the login node and slurmctld in trouble, too, as in the campaigns that these seeds come from."""
    tally = campaign(cluster, tmp_path, SEEDS, ROUNDS_OF_A_KEPT_SEED, lanes=4, cluster_faults=True)
    print(tally)
    assert tally.jobs == tally.intents > 0
    assert tally.killed == tally.rounds >= ROUNDS_OF_A_KEPT_SEED * len(SEEDS)
