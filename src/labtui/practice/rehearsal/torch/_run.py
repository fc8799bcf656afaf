"""Where a rehearsed training stands: its options, its clock, its epoch, and what it would have measured."""

from __future__ import annotations

import json
import math
import os
import pickle
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from labtui.domain.model import named_options
from labtui.practice import rehearse

from . import _pace


class OutOfMemoryError(RuntimeError):
    pass


@dataclass(slots=True)
class State:
    """`epoch` from 1 and `step` of the training loop; `seen` are the images that rank 0 has had in the loop."""

    options: dict[str, str]
    world: int
    batch: int
    images: int = 0
    steps: int = 0
    epoch: int = 0
    step: int = 0
    seen: int = 0
    training: bool = True


def _begin() -> State:
    options = named_options(sys.argv[1:])
    batch = options.get("batch_size") or options.get("per_device_train_batch_size") or "64"
    return State(options, int(os.environ.get("WORLD_SIZE", "1")), int(batch) if batch.isdecimal() else 64)


STATE = _begin()
_CHANCE = random.Random(
    f"{os.environ.get('LABTUI_PRACTICE_SEED', '0')}-{os.environ.get('SLURM_JOB_ID', '0')}"
)
_PERFECT = 0.92
"""Accuracy that these trainings would reach in the end; in five epochs they are far from it."""


def tokens() -> bool:
    """Whether the script counts tokens."""
    return "per_device_train_batch_size" in STATE.options


def visible_gpus() -> int:
    return sum(part.strip().isdigit() for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(","))


def memory_gib() -> float:
    if tokens():
        return _pace.tokens_memory_gib(STATE.options)
    return _pace.torch_memory_gib(STATE.options, STATE.batch)


def refuse_what_does_not_fit() -> None:
    """PyTorch's error where the batch is too large for the GPU."""
    needed = memory_gib()
    if needed <= rehearse.GPU_MEMORY_GIB or STATE.options.get("device") == "cpu":
        return
    missing, total = max(0.5, (needed - rehearse.GPU_MEMORY_GIB) / 4), rehearse.GPU_MEMORY_GIB
    raise OutOfMemoryError(
        f"CUDA out of memory. Tried to allocate {missing:.2f} GiB. GPU 0 has a total capacity of {total:.2f} GiB of "
        f"which {max(0.05, missing / 3):.2f} GiB is free."
    )


class Optimizer:
    """Its step is where a training step's time passes."""

    def __init__(self, _parameters: object, lr: float = 0.001, **_options: object) -> None:
        self.param_groups = [{"lr": lr}]

    def zero_grad(self, **_options: object) -> None:
        return None

    def state_dict(self) -> dict[str, object]:
        return {}

    def load_state_dict(self, _state: object) -> None:
        return None

    def step(self) -> None:
        STATE.step += 1
        if STATE.step == 1 or STATE.seen == STATE.batch:
            show_gpus()
        pass_time(_step_seconds())


def _step_seconds() -> float:
    options, noise = STATE.options, math.exp(_CHANCE.gauss(0.0, rehearse.NOISE) / 4)
    if tokens():
        return _pace.tokens_step_seconds(options, STATE.world) * noise
    seconds = _pace.torch_step_seconds(options, STATE.world, STATE.batch, STATE.images) * noise
    if STATE.seen == STATE.batch:  # the first of an epoch
        seconds += _pace.torch_epoch_seconds(options, STATE.world, STATE.images)
        seconds += _pace.torch_first_seconds(options) if STATE.epoch == 1 else 0.0
    return seconds


def pass_time(seconds: float) -> None:
    if rehearse.CLOCK is not None:
        rehearse.CLOCK.advance(seconds)


def show_gpus() -> None:
    """Write the load that the job's nvidia-smi shows."""
    folder = os.environ.get("LABTUI_PRACTICE_JOB")
    if folder:
        load = {
            "gpus": visible_gpus(),
            "percent": 96.0,
            "gib": memory_gib(),
        }
        beside = Path(folder) / "gpu.json.new"
        beside.write_text(json.dumps(load), encoding="ascii")
        beside.replace(Path(folder) / "gpu.json")


def progress() -> dict[str, float]:
    """Loss and accuracy by now: learning slows with the number of updates."""
    updates = max(1, (max(1, STATE.epoch) - 1) * max(1, STATE.steps) + STATE.step)
    reached = _PERFECT * (1 - math.exp(-((updates / 20000) ** 0.6)))
    return {"accuracy": reached, "loss": max(0.05, 5.3 * (1 - reached))}


def sums() -> list[float]:
    """As a rank adds them up: images, right ones, those right among the first five, loss x images."""
    found = progress()
    count = float(max(1, STATE.seen))
    right = found["accuracy"] * (1.0 if STATE.training else 0.95)
    return [count, count * right, count * min(1.0, 1.6 * right), count * found["loss"]]


def save(state: Any, file: str) -> None:
    with open(file, "wb") as stream:  # noqa: PTH123  as torch.save opens it
        pickle.dump({name: value for name, value in state.items() if isinstance(value, (int, str))}, stream)


def load(file: str, **_options: object) -> dict[str, Any]:
    with open(file, "rb") as stream:  # noqa: PTH123  as torch.load opens it
        state: dict[str, Any] = pickle.load(stream)
    return {"model": {}, "optimizer": {}, "scaler": {}, **state}


def missing(name: str) -> NoReturn:
    raise AttributeError(f"torch.{name} is not part of the rehearsal of PyTorch.")
