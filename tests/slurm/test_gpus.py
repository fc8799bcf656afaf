"""The GPUs of a running job: what is asked, and why there may be no answer."""

from __future__ import annotations

import pytest

from labtui.domain.errors import ConnectionLost, RemoteFailure
from labtui.slurm.job_control import gpus
from labtui.slurm.remote_command import CommandResult


def answer(out: str, err: str = "", status: int | None = 0) -> str:
    return gpus("77").answer(CommandResult(out.encode(), err.encode(), status), "ab")


def test_a_sample_is_given_as_it_is():
    text = "node1, timestamp, index\nnode1, 2026/11/25 10:00:00.000, 0\n"
    assert answer(text) == text


@pytest.mark.parametrize(
    ("out", "err", "status", "said"),
    [
        ("", "labtui: not running", 75, "Job 77 is not running."),
        ("", "labtui: no nvidia-smi\nsrun: error: node1: task 0: Exited with exit code 76", 76, "no nvidia-smi"),
        ("node1, No devices were found\n", "srun: error: node1: task 0: Exited with exit code 6", 6, "has no GPU"),
        ("", "srun: unrecognized option '--overlap'", 1, "cannot start a step beside"),
        ("", "slurm_load_jobs error: Invalid job id specified", 1, "Invalid job id specified"),
        ("", "", 1, "no reason given"),
    ],
)  # fmt: skip
def test_why_there_is_none(out, err, status, said):
    with pytest.raises(RemoteFailure) as caught:
        answer(out, err, status)
    assert said in caught.value.sentence


def test_silence_is_no_answer():
    with pytest.raises(ConnectionLost):
        answer("", status=None)
