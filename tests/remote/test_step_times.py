"""Step times of real PyTorch processes: what is counted, printed and named. `benchmarks/planted_causes.py` measures."""

import json
import re
from pathlib import Path

import pytest

from labtui.commands.cli import main
from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_reports
from labtui.results.scaling import lost_efficiency
from labtui.training_logs.reader import parse_log
from labtui.training_logs.runs import ParsedRun
from tests.remote.torch_ranks import SCRIPTS, SMALL, Ended, Ranks, run_code

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.xdist_group("torch")]

WATCHED = f"""
import os, sys, time
sys.path.insert(0, {str(SCRIPTS)!r})
import datasets, step_times, train_ddp

step_times.EVERY = int(os.environ.get("EVERY", 2))
made = datasets.make_loaders
read = 0

class Counted:
    def __init__(self, loader):
        self.loader = loader
    def __len__(self):
        return len(self.loader)
    def __iter__(self):
        global read
        for batch in self.loader:
            read += 1
            yield batch

class Watched(train_ddp.Training):
    def train_epoch(self, epoch):
        done = super().train_epoch(epoch)
        weights = sum(each.double().sum().item() for each in self.net.parameters())
        print("read", read, "weights", weights.hex(), file=sys.stderr, flush=True)
        return done

def make_loaders(*words):
    train, sampler, val = made(*words)
    return Counted(train), sampler, val

class Delaying(step_times.StepTimes):
    def batches(self, loader):
        for batch in super().batches(loader):
            if self.number % step_times.EVERY == 0 and os.environ["RANK"] == os.environ.get("SLOW_RANK"):
                # All steps of a rank follow one another: this is before its gradients are ready.
                handle = next(self.ddp.parameters()).register_hook(pause)
                yield batch
                handle.remove()
            else:
                yield batch

def pause(gradient):
    time.sleep(0.5)

datasets.make_loaders, train_ddp.Training, train_ddp.StepTimes = make_loaders, Watched, Delaying
train_ddp.main()
"""
STEPS, EPOCHS = 8, 3
"""Steps of an epoch on two ranks, every second of them timed."""
PARTS = ("data", "compute", "imbalance", "allreduce")
KEYS = {"step_seconds", *(f"step_{part}_seconds" for part in PARTS), "last_rank", "last_rank_share"}


def ranks(folder: Path, count: int, *more: str, **planted: object) -> list[Ended]:
    folder.mkdir()
    script = folder / "watched.py"
    script.write_text(WATCHED, encoding="utf-8")
    words = [*SMALL, "--num_epochs", str(EPOCHS), "--epochs_eval", str(EPOCHS), *more]
    everywhere = {name: str(value) for name, value in planted.items()}
    ended = Ranks(folder, count, *words, script=str(script), everywhere=everywhere).ended()
    assert not any(each.code for each in ended), ended
    return ended


def told(ended: Ended) -> ParsedRun:
    (run,) = parse_log(ended.out.encode()).runs
    return run


def timed(run: ParsedRun) -> list[set[str]]:
    """The step times that each epoch tells."""
    return [KEYS & epoch.metrics.keys() for epoch in run.epochs]


def losses(run: ParsedRun) -> list[float]:
    return [epoch.metrics["loss"] for epoch in run.epochs]


def batches_read(ended: Ended) -> list[int]:
    """How many batches its loader has given by the end of each epoch."""
    return [int(found) for found in re.findall(r"read (\d+)", ended.err)]


def weights(ended: list[Ended]) -> list[list[str]]:
    """A sum of each rank's weights after each epoch."""
    return [re.findall(r"weights (\S+)", each.err) for each in ended]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a training on one rank."""
    folder = tmp_path_factory.mktemp("one") / "run"
    ranks(folder, 1)
    return folder / "0.out"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[Ended]:
    return ranks(tmp_path_factory.mktemp("two") / "run", 2)


def test_the_parts_that_are_printed_add_up_to_what_is_lost(one, two):
    logs = [("one", parse_log(one.read_bytes())), ("two", parse_log(two[0].out.encode()))]
    (row,) = (each for each in compute_results(measured_from_reports(logs)).rows if each.n_gpus == 2)
    assert row.efficiency is not None and row.step_times is not None
    parts = lost_efficiency(row)
    assert sum(part.share.value for part in parts) == pytest.approx(1 - row.efficiency.value)
    assert parts[-1].name == "unexplained", "the logs say where the time of a step goes"
    for run in (logs[0][1].runs[0], told(two[0])):
        assert timed(run) == [KEYS] * EPOCHS
        for parts in (epoch.metrics for epoch in run.epochs):
            assert sum(parts[f"step_{part}_seconds"] for part in PARTS) == pytest.approx(
                parts["step_seconds"]
            )


def test_timing_changes_no_loss(tmp_path, two):
    untimed = told(ranks(tmp_path / "run", 2, EVERY=10**9)[0])
    assert timed(untimed) == [set()] * EPOCHS
    assert losses(untimed) == losses(told(two[0])) and len(losses(untimed)) == EPOCHS


def test_the_slow_rank_is_named(tmp_path, one, capsys):
    """Half a second in its backward pass, where all ranks show the same; `labtui why` reads it from the logs."""
    for epoch in told(ranks(tmp_path / "run", 2, SLOW_RANK=1)[0]).epochs:
        assert epoch.metrics["last_rank"] == 1 and epoch.metrics["last_rank_share"] >= 2 / 3, epoch
    assert main(["why", "--json", str(one), str(tmp_path / "run" / "0.out")]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["slowest_rank"] == 1, row


def test_the_last_rank_is_the_one_that_waits_least(tmp_path):
    """Of two timed steps with 0.1 s of waiting for data: rank 1 computes 0.5 s, rank 0 0.2 s and waits for it."""
    ranks_steps = [[(0.65, 0.1, 0.35)] * 2, [(0.65, 0.1, 0.05)] * 2]
    code = f"import json, sys; sys.path.insert(0, {str(SCRIPTS)!r}); from step_times import summary; "
    found = json.loads(run_code(tmp_path, f"{code}print(json.dumps(summary({ranks_steps})))").out)
    assert [found[f"step_{part}_seconds"] for part in PARTS] == pytest.approx([0.1, 0.2, 0.3, 0.05])
    assert (found["step_seconds"], found["last_rank"], found["last_rank_share"]) == (0.65, 1, 1.0)


def test_control_runs_take_their_cause_away(tmp_path, two):
    """Independent trainings exchange no gradients; one batch again and again asks the loader once."""
    assert batches_read(two[0]) == [STEPS, 2 * STEPS, 3 * STEPS]
    mine, other = weights(two)
    assert mine == other and len(set(mine)) == EPOCHS
    alone = ranks(tmp_path / "alone", 2, "--control", "independent")
    mine, other = weights(alone)
    run = told(alone[0])
    assert not set(mine) & set(other) and timed(run) == [set()] * EPOCHS
    assert run.tuning[-1] == ("control", "independent")
    batch = ranks(tmp_path / "batch", 2, "--control", "one-batch")
    assert [batches_read(each) for each in batch] == [[1] * EPOCHS] * 2
    run = told(batch[0])
    assert run.tuning[-1] == ("control", "one-batch")
    assert [each.steps for each in run.epochs] == [STEPS] * EPOCHS
