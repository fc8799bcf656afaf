"""PyTorch 2 as far as its behaviour matters: devices, loaders, the store, sizes of layers, and the optimizer's step.

One process stands for all ranks: in the store, the values of the other ranks are those of rank 0. Time passes in the
optimizer's step and in validation, as much as `labtui.practice.pace` says.
"""

from __future__ import annotations

import math
import os
import pickle
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from labtui.domain.tuning import named_options, tuning_of
from labtui.practice import pace, stand_in
from labtui.practice.pace import Pace, torch_memory_gib
from labtui.practice.stand_in import FrameworkBase, Recorded, sized

_VALIDATION_SPEED = 2.5
"""How many times faster an image is in validation than in training."""
_LEARNING_EPOCHS, _LEARNING_BATCH = 2.0, 128
"""Epochs in which a training with this global batch reaches 63 % of its final accuracy."""
_BATCH_EXPONENT = 1 / 8
"""The exponent with which these epochs grow with the batch: a larger batch has fewer updates."""
_ACCURACY_STD = 0.002
"""Standard deviation of the final accuracies of equal trainings."""
_VALIDATION_SHARE = 0.95
"""Validation accuracy relative to that in training."""


@dataclass
class State:
    """The progress of the training: `epoch` from 1, `step` of the epoch, `seen` images of rank 0 in this loop."""

    options: dict[str, str]
    world: int
    batch: int
    steps: int = 0
    epoch: int = 0
    step: int = 0
    seen: int = 0
    training: bool = True
    noise: float = 1.0
    """The time of this epoch, relative to the usual one."""

    @property
    def counts_tokens(self) -> bool:
        """Whether the script counts tokens."""
        return "per_device_train_batch_size" in self.options

    @cached_property
    def pace(self) -> Pace:
        """The published pace of this training."""
        model = self.options.get("model" if self.counts_tokens else "model_name", "").lower()
        tuning = frozenset(tuning_of(self.options))
        return Pace(model, Path(self.options.get("dataset", "")).name, tuning, self.world, self.batch)

    @property
    def memory_gib(self) -> float:
        """GiB of GPU memory of one process."""
        if not self.counts_tokens:
            return torch_memory_gib(self.options, self.batch)
        eager, liger = self.options.get("attn") == "eager", "use_liger_kernel" in self.options
        each = 7.1 if eager else 1.3 if liger else 3.09  # GiB per 1,024 tokens, from two published rows each
        return self.pace.memory_gib(each * int(self.options.get("sequence_length", "8192")) / 1024)

    @cached_property
    def step_s(self) -> float:
        """Seconds per step, without noise."""
        each = int(self.options.get("sequence_length", "8192")) if self.counts_tokens else 1
        return each * self.batch * self.world / self.pace.rate()

    def next_s(self) -> float:
        """Seconds of the next step, with the noise of a real node."""
        seconds = self.step_s * self.noise * math.exp(_RANDOM.gauss(0.0, pace.NOISE) / 4)
        first = not self.counts_tokens and self.epoch == 1 and self.seen == self.batch
        return seconds + (self.pace.first_s() if first else 0.0)

    @cached_property
    def final_accuracy(self) -> float:
        """The training accuracy that this run would reach: the published one, with the scatter of equal trainings."""
        return (self.pace.accuracy() + _RANDOM.gauss(0.0, _ACCURACY_STD)) / _VALIDATION_SHARE

    def progress(self) -> tuple[float, float]:
        """Training accuracy and loss by now."""
        epochs = max(1, self.epoch) - 1 + max(1, self.step) / max(1, self.steps)
        needed = _LEARNING_EPOCHS * (self.batch * self.world / _LEARNING_BATCH) ** _BATCH_EXPONENT
        reached = self.final_accuracy * (1 - math.exp(-epochs / needed))
        return reached, max(0.05, 5.3 * (1 - reached))

    def sums(self) -> list[float]:
        """What a rank adds up: images, correct ones, those correct within the top five, loss x images."""
        accuracy, loss = self.progress()
        count, right = float(max(1, self.seen)), accuracy * (1.0 if self.training else _VALIDATION_SHARE)
        return [count, count * right, count * (1 - (1 - right) ** 2), count * loss]


def _initial_state() -> State:
    options = named_options(sys.argv[1:])
    batch = options.get("batch_size") or options.get("per_device_train_batch_size") or "64"
    return State(options, int(os.environ.get("WORLD_SIZE", "1")), int(batch) if batch.isdecimal() else 64)


STATE = _initial_state()
_RANDOM = stand_in.job_random()


def _backward(_loss: object) -> None:
    """Raise PyTorch's out-of-memory error if the batch is too large for the GPU."""
    needed, total = STATE.memory_gib, pace.GPU_MEMORY_GIB
    if needed <= total or STATE.options.get("device") == "cpu":
        return
    missing = max(0.5, (needed - total) / 4)
    raise stand_in.resolve("torch.cuda.OutOfMemoryError")(
        f"CUDA out of memory. Tried to allocate {missing:.2f} GiB. GPU 0 has a total capacity of {total:.2f} GiB of "
        f"which {max(0.05, missing / 3):.2f} GiB is free."
    )


def _step(optimizer: Recorded, *_scaled: object) -> None:
    """The `step()` of an optimizer or scaler, which takes the time of a training step, or of a schedule: no time."""
    if "lr_scheduler" not in optimizer._name and ("optim." in optimizer._name or "Scaler" in optimizer._name):
        STATE.step += 1
        if STATE.step == 1 or STATE.seen == STATE.batch:
            stand_in.show_load(stand_in.visible_gpus(), 96.0, STATE.memory_gib)
        time.sleep(STATE.next_s())


RESULT_METHODS: dict[str, Callable[..., Any]] = {
    "backward": _backward,
    "item": lambda _loss: STATE.progress()[1],
    "numel": len,
    "step": _step,
    "tolist": lambda _sums: STATE.sums(),
}


class Device:
    def __init__(self, kind: str, index: int = 0) -> None:
        self.type, self.index = kind, index

    def __str__(self) -> str:
        return self.type if self.type == "cpu" else f"{self.type}:{self.index}"

    __repr__ = __str__


# ------------------------------------------------------------------------------------ networks' sizes


class Module(FrameworkBase):
    """A layer or a network, which knows the number of its parameters and computes nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._given = [list(each) if isinstance(each, Iterator) else each for each in args], kwargs

    def __call__(self, *inputs: Any, **_options: Any) -> Recorded:
        return sized("output", len(inputs[0]) if inputs else 1)

    def _same(self, *_args: object, **_options: object) -> Module:
        return self

    to = cuda = half = float = bfloat16 = train = eval = apply = requires_grad_ = compile = _same

    def modules(self) -> Iterator[Module]:
        return iter(())

    def parameters(self, *_args: object) -> Iterator[Recorded]:
        yield sized("parameters", _weights(self))


class Layer(Module):
    """The base of the layers of `torch.nn`, whose class names are keys of `_WEIGHTS`."""


_WEIGHTS: dict[str, Callable[..., int]] = {
    "Linear": lambda inputs, outputs, bias=True, **_: inputs * outputs + outputs * bias,
    "Conv2d": lambda channels, out, size, *_, bias=True, **__: channels * out * size * size + out * bias,
    "BatchNorm2d": lambda channels, **_: 2 * channels,
    "LayerNorm": lambda width, **_: 2 * width,
    "Embedding": lambda words, width, **_: words * width,
    "Parameter": lambda tensor, **_: math.prod(n for n in tensor._calls[0].args if isinstance(n, int)),
}


def _weights(part: Any) -> int:
    """The number of trained parameters of a part of a network."""
    if isinstance(part, Layer) and type(part).__name__ in _WEIGHTS:
        return _WEIGHTS[type(part).__name__](*part._given[0], **part._given[1])
    parts = list(vars(part).values()) if isinstance(part, Module) else part
    return sum(map(_weights, parts if isinstance(parts, (list, tuple)) else ()))


# --------------------------------------------------------------------------------------- data, ranks


def _sampler(
    dataset: Sized, world: int = 1, _rank: int = 0, *, drop_last: bool = False, **_options: object
) -> Recorded:
    return sized("DistributedSampler", len(dataset) // world if drop_last else -(-len(dataset) // world))


class DataLoader(FrameworkBase):
    """A data loader: with `drop_last` the training's, with whole batches only, else the validation's."""

    def __init__(
        self, dataset: Any, batch_size: int = 1, *, sampler: Any = None, drop_last: bool = False, **_: object
    ) -> None:
        self.dataset, self.batch, self.drop_last = dataset, batch_size, drop_last
        self.count = len(dataset if sampler is None else sampler)

    def __len__(self) -> int:
        return self.count // self.batch if self.drop_last else -(-self.count // self.batch)

    def __iter__(self) -> Iterator[tuple[Recorded, Recorded]]:
        STATE.training, STATE.seen = self.drop_last, 0
        if self.drop_last:
            STATE.epoch, STATE.step, STATE.steps = STATE.epoch + 1, 0, len(self)
            STATE.noise = math.exp(_RANDOM.gauss(0.0, pace.NOISE))
        for place in range(len(self)):
            count = min(self.batch, self.count - place * self.batch)
            STATE.seen += count
            if not self.drop_last:
                time.sleep(STATE.step_s / STATE.batch * count / _VALIDATION_SPEED)
            yield sized("images", count), sized("labels", count)


class Store:
    """The store by which ranks exchange values; another rank's value is that of rank 0."""

    def __init__(self, *_args: object, **_options: object) -> None:
        self.values: dict[str, bytes] = {}

    def _key(self, key: str) -> str:
        return key if key in self.values else re.sub(r"/\d+\Z", "/0", key)

    def set(self, key: str, value: Any) -> None:
        self.values[key] = value.encode() if isinstance(value, str) else bytes(value)

    def get(self, key: str) -> bytes:
        return self.values[self._key(key)]

    def add(self, key: str, number: int) -> int:
        total = int(self.values.get(key, b"0")) + number
        self.values[key] = str(total).encode()
        return total

    def check(self, keys: Iterable[str]) -> bool:
        return all(self._key(key) in self.values for key in keys)

    def wait(self, keys: Iterable[str], *_timeout: object) -> None:
        if not self.check(keys):
            raise RuntimeError("wait timeout")


def _save(state: Any, file: str) -> None:
    with open(file, "wb") as stream:
        pickle.dump({name: value for name, value in state.items() if isinstance(value, (int, str))}, stream)


def _load(file: str, **_options: object) -> dict[str, Any]:
    with open(file, "rb") as stream:
        return {"model": {}, "optimizer": {}, "scaler": {}, **pickle.load(stream)}


def _reserved(*_device: object) -> int:
    return int(STATE.memory_gib * 2**30)


def _identity(thing: Any, *_args: object, **_options: object) -> Any:
    return thing


NAMES: dict[str, Any] = {
    "torch.__version__": "2.4.0",
    "torch.compile": _identity,
    "torch.device": Device,
    "torch.save": _save,
    "torch.load": _load,
    "torch.cuda.device_count": stand_in.visible_gpus,
    "torch.cuda.is_available": lambda: stand_in.visible_gpus() > 0,
    "torch.cuda.get_device_name": lambda *_which: "NVIDIA H100",
    "torch.cuda.memory_reserved": _reserved,
    "torch.cuda.max_memory_reserved": _reserved,
    "torch.cuda.max_memory_allocated": _reserved,
    "torch.distributed.HashStore": Store,
    "torch.distributed.TCPStore": Store,
    "torch.distributed.PrefixStore": lambda _prefix, store: store,
    "torch.nn.*": stand_in.class_factory("torch.nn", Layer),
    "torch.nn.Module": Module,
    "torch.nn.parallel.DistributedDataParallel": _identity,
    "torch.utils.data.DataLoader": DataLoader,
    "torch.utils.data.DistributedSampler": _sampler,
    "torch.utils.data.distributed.DistributedSampler": _sampler,
    "torch.utils.data.Subset": lambda _dataset, indices: sized("Subset", len(indices)),
}
