"""Loaders that count images, and the store where the ranks meet: one process answers for all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from . import _pace, _run
from ._layers import Tensor

_OF_A_RANK = re.compile(r"(.*)/\d+\Z")
_VALIDATION = 2.5
"""Validation takes so many times fewer seconds for an image than training."""


class Dataset:
    pass


class Subset(Dataset):
    def __init__(self, dataset: Any, indices: Any) -> None:
        self.dataset, self.indices = dataset, indices

    def __len__(self) -> int:
        return len(self.indices)


class DistributedSampler:
    def __init__(
        self, dataset: Any, world: int, rank: int, *, drop_last: bool = False, **_options: object
    ) -> None:
        self.count = len(dataset) // world if drop_last else -(-len(dataset) // world)

    def __len__(self) -> int:
        return self.count

    def set_epoch(self, _epoch: int) -> None:
        return None


class DataLoader:
    """Whole batches with a sampler (training), else all images (validation)."""

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        *,
        sampler: Any = None,
        drop_last: bool = False,
        **_options: object,
    ) -> None:
        self.dataset, self.batch, self.drop_last = dataset, batch_size, drop_last
        self.count = len(sampler) if sampler is not None else len(dataset)

    def __len__(self) -> int:
        return self.count // self.batch if self.drop_last else -(-self.count // self.batch)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        state, size = _run.STATE, int(_run.STATE.options.get("resolution", "224"))
        state.training, state.seen = self.drop_last, 0
        if self.drop_last:
            state.epoch, state.step = state.epoch + 1, 0
            state.images, state.steps = len(self.dataset), len(self)
        for place in range(len(self)):
            count = min(self.batch, self.count - place * self.batch)
            state.seen += count
            if not self.drop_last:
                step = _pace.torch_step_seconds(state.options, state.world, state.batch, state.images)
                _run.pass_time(step / state.batch * count / _VALIDATION)
            yield Tensor((count, 3, size, size)), Tensor((count,))


CLASSES: dict[str, Any] = {
    "Dataset": Dataset, "Subset": Subset, "DataLoader": DataLoader, "DistributedSampler": DistributedSampler,
}  # fmt: skip


class Store:
    """What the ranks tell each other. Of another rank it holds what rank 0 has said of the same thing."""

    def __init__(self, *_arguments: object, **_options: object) -> None:
        self.values: dict[str, bytes] = {}

    def _key(self, key: str) -> str:
        match = _OF_A_RANK.match(key)
        return f"{match[1]}/0" if match and key not in self.values else key

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


def PrefixStore(_prefix: str, store: Store) -> Store:
    return store


def _nothing(*_arguments: object, **_options: object) -> None:
    return None


DISTRIBUTED: dict[str, Any] = {
    "HashStore": Store, "TCPStore": Store, "PrefixStore": PrefixStore, "init_process_group": _nothing,
    "destroy_process_group": _nothing, "all_reduce": _nothing, "barrier": _nothing, "is_initialized": lambda: True,
}  # fmt: skip
