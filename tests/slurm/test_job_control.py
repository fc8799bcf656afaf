"""`sacct` as `seff` reads it: CPU and memory used of what was held; what is not recorded is absent."""

from __future__ import annotations

from labtui.slurm.job_control import control_problem, parse_efficiency

RECORD = """\
100|COMPLETED|20|1|600|01:40:00|0n||billing=20,cpu=20,gres/gpu:hopper=1,gres/gpu=1,mem=125G,node=1|
100.batch|COMPLETED|20|1|600|01:39:00|||cpu=20,mem=125G,node=1|1
100.0|COMPLETED|20|1|600|00:01:00||2048M|cpu=20,mem=125G,node=1|4
1001|RUNNING|1|1|5||||cpu=1|
"""


def test_what_a_job_used() -> None:
    found = parse_efficiency(RECORD, "100")
    assert found is not None
    assert (found.cores, found.wall_seconds, found.cpu_seconds, found.gpus) == (20, 600.0, 6000.0, 1)
    assert found.cpu == 6000 / (20 * 600)
    assert found.memory_bytes == 4 * 2 * 2**30 and found.memory_held_bytes == 125 * 2**30
    assert found.memory is not None and abs(found.memory - 8 / 125) < 1e-9


def test_what_is_not_recorded_is_absent() -> None:
    text = RECORD.replace("01:40:00", "00:00:00").replace("2048M", "").replace(",mem=125G", "")
    found = parse_efficiency(text, "100")
    assert found is not None
    assert (found.cpu, found.memory, found.memory_bytes, found.memory_held_bytes) == (
        None,
        None,
        None,
        0 or None,
    )


def test_older_records_ask_for_memory_by_the_core() -> None:
    text = RECORD.replace(",mem=125G", "").replace("|0n|", "|6400Mc|")
    found = parse_efficiency(text, "100")
    assert found is not None and found.memory_held_bytes == 20 * 6400 * 2**20


def test_no_record() -> None:
    assert parse_efficiency("", "100") is None
    assert parse_efficiency("sacct: error: nothing\n", "100") is None
    assert parse_efficiency(RECORD, "10") is None


def test_a_refused_hold_says_why() -> None:
    sentence, _ = control_problem("hold", "7", "Job is no longer pending execution for job 7")
    assert "is no longer waiting" in sentence
    assert "was not released" in control_problem("release", "7", "Access/permission denied for job 7")[0]
