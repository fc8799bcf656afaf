"""What timing one step in ten costs a PyTorch training: epochs of one training with it and without it, in turn.

Two gloo processes train a small network on the CPU. Epochs with and without step times alternate (ABBA, so that a
drift of the machine falls on both), and each pair gives a ratio. Prints the median cost in percent of an epoch with two
standard errors. Exit status 1 when the cost is above 1 % by more than the noise.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks._budgets import Budget, verdict

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "remote" / "pytorch"
PYTHON = os.environ.get("LABTUI_TORCH_PYTHON") or str(ROOT / ".venv-torch" / "bin" / "python")
ALTERNATING = f"""
import contextlib, os, sys
with contextlib.suppress(OSError):  # where this may be: before whatever else is running here
    os.nice(-15)
sys.path.insert(0, {str(SCRIPTS)!r})
import step_times, train_ddp

class Alternating(step_times.StepTimes):
    epochs = 0
    def batches(self, loader):
        step_times.EVERY = 10 if self.epochs % 4 in (0, 3) else 10**9
        self.epochs += 1
        self.ddp._set_ddp_runtime_logging_sample_rate(step_times.EVERY)
        return super().batches(loader)

train_ddp.StepTimes = Alternating
train_ddp.main()
"""
WORDS = [
    *("--model_name", "custom", "--intermidiate_dimensions", "512", "--dataset", "synthetic", "--resolution", "32"),
    *("--images", "1280", "--batch_size", "8", "--device", "cpu", "--epochs_eval", "1000"),
]  # fmt: skip
"""80 steps an epoch, of which 8 are timed."""
COST_PERCENT = 1.0


def epoch_seconds(epochs: int) -> list[float]:
    """Each epoch of a training by two processes, in seconds; the first is with step times."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ranks = []
    for rank in ("0", "1"):
        env = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        env = {**os.environ, **env, "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
        words = [PYTHON, "-c", ALTERNATING, *WORDS, "--num_epochs", str(epochs)]
        ranks.append(subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True))
    out, _ = (rank.communicate()[0] for rank in ranks)
    if any(rank.returncode for rank in ranks):
        raise SystemExit("The training failed; what it said stands above.")
    records = [
        json.loads(line[len(":::MLLOG ") :]) for line in out.splitlines() if line.startswith(":::MLLOG ")
    ]
    return [each["metadata"]["seconds"] for each in records if each["key"] == "epoch_stop"]


def cost(seconds: list[float]) -> tuple[float, float]:
    """The median cost of step times in percent and two standard errors, from the pairs after the first four epochs.

    The error is that of a median, from the middle half of the pairs: other programs slow single epochs down.
    """
    logs = []
    for at in range(4, len(seconds) - 1, 2):
        first, second = seconds[at : at + 2]
        timed, plain = (first, second) if at % 4 == 0 else (second, first)
        logs.append(math.log(timed / plain))
    low, middle, high = statistics.quantiles(logs, n=4)
    return 100 * middle, 200 * 1.253 * (high - low) / 1.349 / math.sqrt(len(logs))


def main() -> int:
    """Print the cost; exit status 1 when it is above the budget by more than the noise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=124)
    options = parser.parse_args()
    if not Path(PYTHON).exists():
        print(f"No PyTorch at {PYTHON}: nothing was measured.")
        return 0
    percent, noise = cost(epoch_seconds(options.epochs))
    print(f"step times cost {percent:+.2f} % of an epoch, ±{noise:.2f} % (two standard errors)")
    return verdict([Budget("step times, % of an epoch beyond the noise", percent - noise, COST_PERCENT)])


if __name__ == "__main__":
    sys.exit(main())
