"""The cluster profiles that come with labtui are what the course's documents say."""

from __future__ import annotations

import re

import pytest

from labtui.domain.errors import DataError
from labtui.domain.model import RunSpec
from labtui.session.settings import list_profiles, load_profile, parse_profile


def test_the_profiles_that_come_with_labtui() -> None:
    assert set(list_profiles()) >= {"mn5", "slurm", "cte-power"}


@pytest.mark.parametrize("name", list_profiles())
def test_every_profile_is_complete(name: str) -> None:
    profile = load_profile(name)
    assert profile.id == name and profile.title
    known = {queue.name for queue in profile.queues}
    assert {profile.gpu_queue, profile.cpu_queue} - {""} <= known
    assert profile.cpus_per_gpu * profile.gpus_per_node <= profile.cpus_per_node
    assert not re.findall(r"\bnct_\d+", " ".join((profile.root, profile.data_dir, profile.container)))


def test_marenostrum_5() -> None:
    profile = load_profile("mn5")
    debug = profile.queue("acc_debug")
    assert debug is not None and (debug.max_submit_per_user, debug.max_minutes) == (1, 120)
    assert profile.cpus_per_gpu == 20 and profile.gpus_per_node == 4
    assert "--mem" in profile.forbidden
    assert "{account}" in profile.root and "{user}" in profile.root
    assert re.fullmatch(profile.account_pattern, "nct_345") and not re.fullmatch(
        profile.account_pattern, "bsc99"
    )
    spec = RunSpec(model="ResNet50", device="gpu", n_gpus=4, batch_size=8192, epochs=5, script="ResNet50.py")
    assert spec.n_gpus * profile.cpus_per_gpu == profile.cpus_per_node


def test_history_is_marked_as_such() -> None:
    assert load_profile("cte-power").status == "historical"


def test_a_profile_that_an_earlier_version_wrote_is_read() -> None:
    text = 'id = "old"\ntitle = "Old"\nlogin_hosts = ["login1"]\n'
    assert parse_profile(f"{text}memory_gb_per_node = 512\n", "old") == parse_profile(text, "old")
    with pytest.raises(DataError, match="memory"):
        parse_profile(f"{text}memory = 512\n", "old")
