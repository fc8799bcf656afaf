"""Tensors that know their shape, and layers that know how many parameters they have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from . import _run


class Tensor:
    """A shape. Whatever is done with one gives another one; nothing is computed."""

    def __init__(self, shape: Iterable[int] = ()) -> None:
        self.shape = tuple(shape)
        self.dtype, self.device = "float32", None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_arguments, **_options: self

    def __call__(self, *_arguments: object, **_options: object) -> Tensor:
        return self

    def numel(self) -> int:
        return math.prod(self.shape)

    def backward(self) -> None:
        _run.refuse_what_does_not_fit()

    def item(self) -> float:
        return _run.progress()["loss"]

    def tolist(self) -> list[float]:
        """What a rank summed up over an epoch: images, right, among the first five, loss x images."""
        return _run.sums()

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 1

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self, self, self))

    def __getitem__(self, _key: object) -> Tensor:
        return self

    def __setitem__(self, _key: object, _value: object) -> None:
        return None

    def _same(self, *_other: object) -> Tensor:
        return self

    __add__ = __radd__ = __iadd__ = __sub__ = __rsub__ = __isub__ = __mul__ = __rmul__ = __truediv__ = _same
    __rtruediv__ = __matmul__ = __rmatmul__ = __pow__ = __rpow__ = __neg__ = __eq__ = __lt__ = __gt__ = _same  # type: ignore[assignment]
    __hash__ = object.__hash__


class Parameter(Tensor):
    def __init__(self, tensor: Tensor) -> None:
        super().__init__(tensor.shape)


class Module:
    """A layer or a network: its parameters are those of all its parts."""

    def __init__(self, *_arguments: object, **_options: object) -> None:
        pass

    def __call__(self, *_inputs: object, **_options: object) -> Tensor:
        return Tensor((_run.STATE.batch, 10))

    def _parts(self) -> Iterator[Any]:
        yield from self.__dict__.values()

    def modules(self) -> Iterator[Module]:
        yield self
        for part in self._parts():
            if isinstance(part, Module):
                yield from part.modules()

    def parameters(self) -> Iterator[Parameter]:
        for module in self.modules():
            yield from (part for part in module._parts() if isinstance(part, Parameter))

    def to(self, *_where: object, **_options: object) -> Module:
        return self

    def train(self, _mode: bool = True) -> Module:
        return self

    eval = train

    def state_dict(self) -> dict[str, object]:
        return {}

    def load_state_dict(self, _state: object) -> None:
        return None


class ModuleList(Module):
    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self.items = list(modules)

    def _parts(self) -> Iterator[Any]:
        yield from self.items

    def __iter__(self) -> Iterator[Module]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, key: Any) -> Any:
        return self.items[key]


class Sequential(ModuleList):
    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)


class _Weighted(Module):
    def _weigh(self, weight: tuple[int, ...], bias: int) -> None:
        self.weight = Parameter(Tensor(weight))
        self.bias = Parameter(Tensor((bias,))) if bias else None


class Linear(_Weighted):
    def __init__(self, inputs: int, outputs: int, bias: bool = True, **_options: object) -> None:
        self._weigh((outputs, inputs), outputs if bias else 0)


class Conv2d(_Weighted):
    def __init__(
        self, channels: int, out: int, size: int, *_rest: object, bias: bool = True, **_options: object
    ) -> None:
        self._weigh((out, channels, size, size), out if bias else 0)


class BatchNorm2d(_Weighted):
    def __init__(self, channels: int, **_options: object) -> None:
        self._weigh((channels,), channels)


class LayerNorm(BatchNorm2d):
    pass


class Embedding(_Weighted):
    def __init__(self, words: int, width: int, **_options: object) -> None:
        self._weigh((words, width), 0)


class DistributedDataParallel(Module):
    def __init__(self, module: Module, **_options: object) -> None:
        self.module = module


LAYERS: dict[str, Any] = {
    each.__name__: each
    for each in (
        *(Module, ModuleList, Sequential, Linear, Conv2d, BatchNorm2d, LayerNorm, Embedding, Parameter),
    )
} | dict.fromkeys(("Identity", "ReLU", "GELU", "SiLU", "MaxPool2d", "Dropout"), Module)
