"""How a data-parallel training fails: one sentence from one rank, and the odd exit code is that of the cause."""

import os
import signal
import socket

import pytest

from labtui.training_logs.reader import parse_log
from tests.real_cluster.dataset import write_cifar
from tests.remote.torch_ranks import SMALL, TRAIN, Ranks, errors, run_script

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.xdist_group("torch")]
HOST = os.uname().nodename
LIMIT = 1_500_000
"""KiB of data, as PyTorch for CUDA maps gigabytes of libraries: it takes half of this, the training twice as much."""
LONG = [*SMALL, "--num_epochs", "100000"]


def test_a_rendezvous_that_never_comes(tmp_path):
    ranks = Ranks(tmp_path, 4, *SMALL, "--rendezvous_timeout", "16", fewer=2)
    ended = ranks.ended()
    assert errors(ended) == [
        f"error: 2 of 4 processes did not join within 16 s: rank 2-3. Joined: rank 0-1 on {HOST}."
    ]
    assert [one.code for one in ended] == [6, 1]


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ({"RANK": "1", "MASTER_PORT": "9"}, (f"Rank 1 on {HOST} found no rank 0 at 127.0.0.1:9 within 2 s",)),
        ({"RANK": "0", "MASTER_PORT": "a port of another job"}, ("cannot listen on port",)),
        (
            {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_TASKS": "2"},
            ("MASTER_ADDR is not set", "scontrol show hostnames"),
        ),
    ],
    ids=["rank 0 is not there", "a port of another job", "srun without an address"],
)
def test_a_training_that_cannot_begin(job, said, tmp_path):
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        if "RANK" in job:
            job = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"} | job
        if " " in job.get("MASTER_PORT", ""):
            job["MASTER_PORT"] = str(other.getsockname()[1])
        ended = run_script(tmp_path, TRAIN, *SMALL, "--rendezvous_timeout", "2", **job)
    assert ended.code == 6 and len(ended.errors) == 1, ended.err
    assert all(words in ended.errors[0] for words in said)


def test_wrong_world_size(tmp_path):
    ended = Ranks(tmp_path, 2, *SMALL, "--expect_world_size", "8", "--rendezvous_timeout", "1").ended()
    (sentence,) = errors(ended)
    assert "--expect_world_size is 8, but the launcher started 2 processes" in sentence
    assert ended[0].code == 4 and ended[1].code != 0


def test_data_missing_on_one_rank(tmp_path, data):
    words = [*SMALL, "--dataset", "cifar10", "--images", "40"]
    here, nowhere = {"CIFAR10_DATA": str(data)}, {"CIFAR10_DATA": "/nowhere/cifar"}
    ranks = Ranks(tmp_path, 3, *words, everywhere=here, rank_1=nowhere)
    ended = ranks.ended()
    assert errors(ended) == [f"error: Rank 1 on {HOST}: The data folder /nowhere/cifar does not exist."]
    assert [one.code for one in ended] == [1, 3, 1]


def test_other_data_on_one_rank(tmp_path):
    """More images on one node than on the others would leave the ranks with unequal numbers of steps."""
    for name, per_file in (("large", 9), ("small", 8)):
        write_cifar(tmp_path / name, per_file=per_file)
    words = [*SMALL, "--dataset", "cifar10"]
    words[words.index("--images") : words.index("--images") + 2] = []
    small, large = ({"CIFAR10_DATA": str(tmp_path / name)} for name in ("small", "large"))
    ranks = Ranks(tmp_path, 2, *words, everywhere=small, rank_1=large)
    (sentence,) = errors(ranks.ended())
    assert "45 training images" in sentence and "40 training images" in sentence and "Rank 1" in sentence


def test_out_of_memory_on_one_rank(tmp_path):
    words = [*SMALL, "--images", "64", "--batch_size", "32", "--resolution", "1024"]
    ranks = Ranks(tmp_path, 2, *words, limit=LIMIT)
    ended = ranks.ended()
    (sentence,) = errors(ended)
    assert sentence.startswith(f"error: Rank 1 on {HOST}: out of memory.")
    assert "give a smaller --batch_size." in sentence and "PyTorch says: " in sentence
    assert ended[1].code == 5 and ended[0].code != 0
    assert parse_log(ended[1].err.encode(), stream="err").diagnosis[0].kind == "oom"


def test_a_killed_rank_is_named_by_a_survivor(tmp_path):
    ranks = Ranks(tmp_path, 3, *LONG)
    ranks.wait_for("[EPOCH: 2]")
    ranks.processes[2].kill()
    ended = ranks.ended()
    (sentence,) = errors(ended)
    assert sentence.startswith(
        f"error: Rank 2 on {HOST} exited without an error message (killed, or its node failed)"
    )
    assert ended[2].code == -signal.SIGKILL and sorted(one.code for one in ended[:2]) == [1, 7]
    (run_,) = parse_log(ended[0].out.encode()).runs
    assert run_.outcome == "failed" and run_.epochs


def test_a_cancelled_training_says_so_once(tmp_path):
    ranks = Ranks(tmp_path, 2, *LONG)
    ranks.wait_for("[EPOCH: 2]")
    for process in ranks.processes:
        process.terminate()
    ended = ranks.ended()
    assert errors(ended) == ["error: The training was terminated from outside (cancelled, or out of time)."]
    assert [one.code for one in ended] == [143, 143]
    assert parse_log(ended[0].out.encode()).runs[0].outcome == "cancelled"
