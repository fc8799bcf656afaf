"""Where a step's time goes, by real PyTorch on this machine: a planted cause lands in its own part."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_reports
from labtui.results.rows import ResultRow, StepTimes
from labtui.results.scaling import lost_efficiency
from labtui.training_logs.reader import parse_log
from tests.remote.torch_ranks import SCRIPTS, SMALL, Ended, Ranks

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.xdist_group("torch")]

PLANTED = f"""
import contextlib, ctypes, os, runpy, sys, time
sys.path.insert(0, {str(SCRIPTS)!r})
if "NETWORK" in os.environ:  # before any thread of gloo
    with open(os.environ["NETWORK"]) as namespace:
        assert ctypes.CDLL(None).setns(namespace.fileno(), 0) == 0
if "CORES" in os.environ:
    os.sched_setaffinity(0, map(int, os.environ["CORES"].split(",")))
with contextlib.suppress(OSError):  # where this may be: before whatever else is running here
    os.nice(-15)
import torch
import datasets, step_times
from torch.nn import functional

def given(name):
    return float(os.environ.get(name, 0))

step_times.EVERY = int(os.environ.get("EVERY", 4))
work = torch.rand(256, 256)

class Slow:
    def __init__(self, loader):
        self.loader = loader
    def __len__(self):
        return len(self.loader)
    def __iter__(self):
        for batch in self.loader:
            time.sleep(given("SLOW_LOADER"))
            yield batch

make, loss_of = datasets.make_loaders, functional.cross_entropy

def make_loaders(*words):
    train, sampler, val = make(*words)
    return Slow(train), sampler, val

def cross_entropy(*words):
    loss = loss_of(*words)
    for _ in range(int(given("WORK"))):
        work @ work
    if loss.requires_grad and os.environ["RANK"] == "1":
        loss.register_hook(lambda gradient: time.sleep(given("SLOW_RANK")))
    return loss

backward = torch.Tensor.backward

def timed(*words):
    began = time.perf_counter()
    backward(*words)
    print("backward", time.perf_counter() - began, file=sys.stderr, flush=True)

datasets.make_loaders, functional.cross_entropy, torch.Tensor.backward = make_loaders, cross_entropy, timed
sys.argv[0] = {str(SCRIPTS / "train_ddp.py")!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
CAUSE_S = 0.2
DATA, SLOWEST, LINE, COMPUTING = (
    "waiting for data", "waiting for the slowest GPU", "communication", "slower computing on each GPU",
)  # fmt: skip
LINE_MBIT_S = 10
"""The gradients of the small network, 133 kB from each of two ranks, take some `CAUSE_S` on such a line."""


def ranks(folder: Path, count: int, *more: str, **planted: object) -> list[Ended]:
    """The ranks of a training of four epochs; on two an epoch has 8 steps, every fourth of them timed."""
    folder.mkdir()
    script = folder / "planted.py"
    script.write_text(PLANTED, encoding="utf-8")
    words = [*SMALL, "--num_epochs", "4", "--epochs_eval", "4", *more]
    everywhere = {name: str(value) for name, value in planted.items()}
    ended = Ranks(folder, count, *words, script=str(script), everywhere=everywhere).ended()
    assert not any(each.code for each in ended), ended
    return ended


def trained(folder: Path, count: int, *more: str, **planted: object) -> Ended:
    """Rank 0 of it."""
    return ranks(folder, count, *more, **planted)[0]


def losing(one: Ended, many: Ended) -> ResultRow:
    """The row of several ranks beside the baseline of one."""
    logs = [(name, parse_log(each.out.encode())) for name, each in (("one", one), ("many", many))]
    rows = compute_results(measured_from_reports(logs)).rows
    return next(row for row in rows if row.n_gpus != 1)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return trained(tmp_path_factory.mktemp("one") / "run", 1)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return trained(tmp_path_factory.mktemp("clean") / "run", 2)


@pytest.fixture(scope="module")
def slow_rank(tmp_path_factory: pytest.TempPathFactory) -> list[Ended]:
    return ranks(tmp_path_factory.mktemp("slow") / "run", 2, SLOW_RANK=CAUSE_S)


@pytest.fixture
def slow_line() -> Iterator[str]:
    """A network of its own whose loopback is slow."""
    shape = f"tc qdisc add dev lo root tbf rate {LINE_MBIT_S}mbit burst 128kb latency 5s"
    script = f"ip link set lo up && {shape} && echo up && exec cat"
    try:
        holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    except OSError as error:
        pytest.skip(f"no network namespaces here: {error}")
    with holder:
        assert holder.stdin is not None and holder.stdout is not None
        if holder.stdout.readline() != b"up\n":
            pytest.skip("no line can be shaped here: this needs root and tc")
        yield f"/proc/{holder.pid}/ns/net"
        holder.stdin.close()


def step_of(row: ResultRow) -> StepTimes:
    assert row.step_times is not None
    return row.step_times


def landed(row: ResultRow, cause: str, seconds: float | None = None) -> None:
    """The cause has its own part, as large as it was made; the others are small; all add up."""
    assert row.efficiency is not None and row.batch_factor is not None
    found = {part.name: part.share for part in lost_efficiency(row)}
    assert sum(share.value for share in found.values()) == pytest.approx(1 - row.efficiency.value)
    mine = found.pop(cause)
    if seconds is not None:
        planted = row.batch_factor * seconds / step_of(row).seconds.value
        assert mine.lo - 0.1 < planted < mine.hi + 0.1, (planted, mine, found)
    assert mine.lo > 0 and max(share.value for share in found.values()) < mine.value / 2, (mine, found)


def test_a_slow_loader_is_waiting_for_data(tmp_path: Path, one: Ended, clean: Ended) -> None:
    row = losing(one, trained(tmp_path / "run", 2, SLOW_LOADER=CAUSE_S))
    landed(row, DATA, CAUSE_S)
    predicted = step_of(row).seconds.value - step_of(row).data_seconds.value
    assert abs(predicted - step_of(losing(one, clean)).seconds.value) < CAUSE_S / 2


def test_a_slow_rank_is_named_though_all_ranks_show_the_same_backward(
    one: Ended, clean: Ended, slow_rank: list[Ended]
) -> None:
    backward = [statistics.median(map(float, re.findall(r"backward (\S+)", each.err))) for each in slow_rank]
    assert min(backward) >= CAUSE_S and max(backward) < 1.5 * min(backward)
    row = losing(one, slow_rank[0])
    assert step_of(row).slowest_rank == 1
    landed(row, SLOWEST, CAUSE_S)
    predicted = step_of(row).seconds.value - step_of(row).imbalance_seconds.value
    assert abs(predicted - step_of(losing(one, clean)).seconds.value) < CAUSE_S / 2


def test_a_slow_line_is_communication(tmp_path: Path, one: Ended, clean: Ended, slow_line: str) -> None:
    row = losing(one, trained(tmp_path / "run", 2, NETWORK=slow_line, GLOO_SOCKET_IFNAME="lo"))
    without = step_of(losing(one, clean)).seconds.value
    landed(row, LINE, step_of(row).seconds.value - without)
    predicted = step_of(row).seconds.value - step_of(row).allreduce_seconds.value
    assert abs(predicted - without) < CAUSE_S / 2


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no process can be kept to a core here")
def test_cores_withheld_are_slower_computing(tmp_path: Path) -> None:
    """Each rank has fixed work, and all four have one core."""
    planted = {"CORES": min(os.sched_getaffinity(0)), "WORK": 50, "EVERY": 2}
    landed(losing(*(trained(tmp_path / f"{count}", count, **planted) for count in (1, 4))), COMPUTING)


def test_timing_changes_no_loss(tmp_path: Path, clean: Ended) -> None:
    untimed = trained(tmp_path / "run", 2, EVERY=10**9)
    (with_times,), (without) = parse_log(clean.out.encode()).runs, parse_log(untimed.out.encode()).runs
    losses = [[epoch.metrics["loss"] for epoch in run.epochs] for run in (with_times, *without)]
    assert losses[0] == losses[1] and len(losses[0]) == 4
    assert "step_seconds" in with_times.epochs[1].metrics
    assert "step_seconds" not in without[0].epochs[1].metrics


def mean_s(ended: Ended) -> float:
    """The mean of the steady epochs."""
    (run,) = parse_log(ended.out.encode()).runs
    return sum(epoch.seconds.value for epoch in run.epochs[1:]) / len(run.epochs[1:])


def test_control_runs_take_their_cause_away(tmp_path: Path, slow_rank: list[Ended]) -> None:
    """A slow rank delays the others only where gradients are exchanged, a slow loader only where there is one."""
    alone = trained(tmp_path / "alone", 2, "--control", "independent", SLOW_RANK=CAUSE_S)
    assert mean_s(slow_rank[0]) > 8 * CAUSE_S > 2 * mean_s(alone)
    assert parse_log(alone.out.encode()).runs[0].tuning[-1] == ("control", "independent")
    batch = trained(tmp_path / "batch", 2, "--control", "one-batch", SLOW_LOADER=CAUSE_S)
    assert mean_s(batch) < 8 * CAUSE_S / 2
