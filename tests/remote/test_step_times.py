"""Where a step's time goes, by real PyTorch on this machine: a planted cause lands in its own part."""

from __future__ import annotations

from pathlib import Path

import pytest

from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_reports
from labtui.results.rows import ResultRow
from labtui.results.scaling import lost_efficiency
from labtui.results.step_times import StepTimes
from labtui.training_logs.reader import parse_log
from tests.remote.torch_ranks import SCRIPTS, SMALL, Ended, Ranks

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.xdist_group("torch")]

PLANTED = f"""
import os, runpy, sys, time
sys.path.insert(0, {str(SCRIPTS)!r})
import datasets, step_times
from torch.nn import functional

loader_s, rank_s = (float(os.environ.get(name, 0)) for name in ("SLOW_LOADER", "SLOW_RANK"))
step_times.EVERY = int(os.environ.get("EVERY", step_times.EVERY))

class Slow:
    def __init__(self, loader):
        self.loader = loader
    def __len__(self):
        return len(self.loader)
    def __iter__(self):
        for batch in self.loader:
            time.sleep(loader_s)
            yield batch

make, loss_of = datasets.make_loaders, functional.cross_entropy

def make_loaders(*given):
    train, sampler, val = make(*given)
    return Slow(train), sampler, val

def cross_entropy(*given):
    loss = loss_of(*given)
    if loss.requires_grad and os.environ["RANK"] == "1":
        loss.register_hook(lambda gradient: time.sleep(rank_s))
    return loss

datasets.make_loaders, functional.cross_entropy = make_loaders, cross_entropy
sys.argv[0] = {str(SCRIPTS / "train_ddp.py")!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
CAUSE_S = 0.06


def trained(folder: Path, ranks: int, *more: str, **planted: object) -> Ended:
    """Rank 0 of a training of four epochs; on two ranks an epoch has 32 steps."""
    folder.mkdir()
    script = folder / "planted.py"
    script.write_text(PLANTED, encoding="utf-8")
    words = [*SMALL, "--images", "512", "--num_epochs", "4", "--epochs_eval", "4", *more]
    everywhere = {name: str(value) for name, value in planted.items()}
    ended = Ranks(folder, ranks, *words, script=str(script), everywhere=everywhere).ended()[0]
    assert ended.code == 0, ended.err
    return ended


def losing(one: Ended, two: Ended) -> ResultRow:
    """The row of two ranks beside the baseline of one."""
    logs = [(name, parse_log(each.out.encode())) for name, each in (("one", one), ("two", two))]
    rows = compute_results(measured_from_reports(logs)).rows
    return next(row for row in rows if row.n_gpus == 2)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return trained(tmp_path_factory.mktemp("one") / "run", 1)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return trained(tmp_path_factory.mktemp("clean") / "run", 2)


def parts(row: ResultRow) -> tuple[dict[str, float], StepTimes]:
    found = {part.name: part.share.value for part in lost_efficiency(row)}
    assert row.efficiency is not None and row.step_times is not None
    assert sum(found.values()) == pytest.approx(1 - row.efficiency.value)
    return found, row.step_times


def test_a_slow_loader_is_waiting_for_data(tmp_path: Path, one: Ended, clean: Ended) -> None:
    found, times = parts(losing(one, trained(tmp_path / "run", 2, SLOW_LOADER=CAUSE_S)))
    assert max(found, key=found.__getitem__) == "waiting for data"
    assert times.data_seconds.lo >= CAUSE_S
    assert times.slowest_rank is None or found.get("waiting for the slowest GPU", 0) < 0.25
    _, without = parts(losing(one, clean))  # the prediction "without it", in a run that has no such loader
    predicted = times.seconds.value - times.data_seconds.value
    assert abs(predicted - without.seconds.value) < CAUSE_S / 2


def test_a_slow_rank_is_named_though_all_ranks_show_the_same_backward(tmp_path: Path, one: Ended) -> None:
    found, times = parts(losing(one, trained(tmp_path / "run", 2, SLOW_RANK=CAUSE_S)))
    assert max(found, key=found.__getitem__) == "waiting for the slowest GPU"
    assert times.imbalance_seconds.hi >= CAUSE_S / 2
    assert times.slowest_rank == 1
    assert found.get("waiting for data", 0) < 0.05


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


def test_control_runs_take_their_cause_away(tmp_path: Path) -> None:
    """A slow rank delays the others only where gradients are exchanged, a slow loader only where there is one."""
    together = trained(tmp_path / "together", 2, SLOW_RANK=CAUSE_S)
    alone = trained(tmp_path / "alone", 2, "--control", "independent", SLOW_RANK=CAUSE_S)
    assert mean_s(together) > 32 * CAUSE_S > 2 * mean_s(alone)
    assert parse_log(alone.out.encode()).runs[0].tuning[-1] == "control: independent"
    batch = trained(tmp_path / "batch", 2, "--control", "one-batch", SLOW_LOADER=CAUSE_S)
    assert mean_s(batch) < 32 * CAUSE_S / 2
