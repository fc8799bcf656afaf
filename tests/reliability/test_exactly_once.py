"""Some killed lives in every run of the tests; the seed is printed. See `tests.reliability.campaign`."""

import os

import pytest

from tests.conftest import new_seed
from tests.reliability.campaign import campaign

ROUNDS = int(os.environ.get("LABTUI_FAULT_ROUNDS", "16"))

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.xdist_group("campaign")]


def test_exactly_one_job_and_equal_logs_whatever_is_cut_or_killed(cluster, student, tmp_path):
    seed = new_seed()
    tally = campaign(cluster, tmp_path, seed, ROUNDS, lanes=4, longest_freeze_s=20.0)
    print(dict(tally))
    assert tally["jobs"] == tally["intents"] > 0
    assert tally["rounds"] >= ROUNDS
