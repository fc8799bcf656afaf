"""What timing one step in ten costs a PyTorch training: the timer's own work, relative to a training step.

One process on the CPU makes all calls of the timer many times without a training: it asks for batches, reads the clock
and DDP's record, and lets DDP make that record. This is compared with the fastest step of a small training with two
layers, so a real training pays less. On a GPU a timed step also waits for the GPU twice, which is not measured here.
Exit status 1 if the work is above 1 % of that step.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks._budgets import Budget, verdict
from tests.conftest import TORCH_PYTHON

SCRIPTS = Path(__file__).resolve().parent.parent / "remote" / "pytorch"
COST_PERCENT = 1.0
COUNTED = f"""
import os, sys, time
sys.path.insert(0, {str(SCRIPTS)!r})
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
import torch
import torch.distributed as dist
from step_times import StepTimes
from torch.nn.parallel import DistributedDataParallel

STEPS, LOOPS = 2000, 7
torch.set_num_threads(1)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
layers = torch.nn.Linear(3 * 32 * 32, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
net = torch.nn.Sequential(torch.nn.Flatten(), *layers)
ddp = DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
images, labels = torch.rand(8, 3, 32, 32), torch.randint(10, (8,))
times = StepTimes(ddp, torch.device("cpu"))

def train(steps):
    for _ in steps:
        loss = torch.nn.functional.cross_entropy(ddp(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

def best(work, steps=STEPS):
    spent = []
    for _ in range(LOOPS):
        began = time.perf_counter()
        work()
        spent.append((time.perf_counter() - began) / steps)
    return min(spent)

def plain():
    for _ in loader:
        pass

def timed():
    for _ in times.batches(loader):
        pass
    times.steps.clear()

def record():
    for _ in loader:
        ddp.logger.set_runtime_stats_and_log()

train(times.batches([None] * 50))  # DDP has something to tell
loader = [None] * STEPS
asking = best(timed) - best(plain)
kept = best(record)
ddp._set_ddp_runtime_logging_sample_rate(10**9)
recording = kept - best(record)
step = min(best(lambda: train([None]), 1) for _ in range(50))
print(1e6 * asking, 1e6 * recording, 1e6 * step)
dist.destroy_process_group()
"""


def main() -> int:
    """Print the cost; return 1 if it is above the budget."""
    if not TORCH_PYTHON.exists():
        print(f"No PyTorch at {TORCH_PYTHON}: nothing was measured.")
        return 0
    done = subprocess.run([TORCH_PYTHON, "-c", COUNTED], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    asking, recording, step = map(float, done.stdout.split())
    percent = 100 * (asking + recording) / step
    print(
        f"a step: {asking:.2f} µs of the timer, {recording:.2f} µs of DDP's record, {step:.0f} µs of training"
    )
    print(f"step times cost {percent:.3f} % of it")
    return verdict([Budget("step times, % of a step", percent, COST_PERCENT)])


if __name__ == "__main__":
    sys.exit(main())
