"""As much of PyTorch 2 as the course's scripts use; the training is rehearsed. Used only inside practice jobs.

One process stands for all ranks: `torchrun` of the practice cluster starts rank 0 alone, and what the others would
say in the store is what it says itself. Tensors know their shape and nothing else. Time passes in the optimizer's step
and in validation, as `_pace` says. What a script asks for beyond this gets an AttributeError that says
so.
"""

from __future__ import annotations

import sys
import types
from typing import Any, NoReturn

from . import _data, _layers, _run
from ._layers import Tensor

__version__ = "2.4.0"
STAMP = "practice: yes (labtui's rehearsal of PyTorch: nothing was trained)"
print(STAMP, flush=True)

SENTENCE = "is not part of the rehearsal of PyTorch."
OutOfMemoryError = _run.OutOfMemoryError
float16, bfloat16, float32, float64 = "float16", "bfloat16", "float32", "float64"
uint8, int64, bool = "uint8", "int64", "bool"


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"torch.{name} {SENTENCE}")


def _module(name: str, **content: Any) -> Any:
    module = types.ModuleType(f"{__name__}.{name}")
    module.__dict__.update(content)

    def missing(attribute: str) -> NoReturn:
        raise AttributeError(f"torch.{name}.{attribute} {SENTENCE}")

    module.__getattr__ = missing  # type: ignore[method-assign]
    sys.modules[module.__name__] = module
    return module


def _nothing(*_arguments: object, **_options: object) -> None:
    return None


class device:
    def __init__(self, kind: str, index: int = 0) -> None:
        self.type, self.index = kind, index

    def __str__(self) -> str:
        return self.type if self.type == "cpu" else f"{self.type}:{self.index}"

    __repr__ = __str__


class Generator:
    def manual_seed(self, _seed: int) -> Generator:
        return self


class no_grad:
    """A context, and a decorator."""

    def __enter__(self) -> no_grad:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def __call__(self, function: Any) -> Any:
        return function


class autocast(no_grad):
    def __init__(self, *_arguments: object, **_options: object) -> None:
        pass


class GradScaler:
    def __init__(self, *_arguments: object, **_options: object) -> None:
        pass

    def scale(self, loss: Any) -> Any:
        return loss

    def step(self, optimizer: _run.Optimizer) -> None:
        optimizer.step()

    update = _nothing

    def state_dict(self) -> dict[str, object]:
        return {}

    load_state_dict = _nothing


def _shaped(*shape: Any, **_options: object) -> Tensor:
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    return Tensor(tuple(size for size in shape if isinstance(size, int)))


zeros = ones = empty = rand = randn = _shaped


def randint(_low: int, _high: Any, size: Any = (), **_options: object) -> Tensor:
    return Tensor(size if isinstance(size, tuple) else _high if isinstance(_high, tuple) else ())


def arange(*_arguments: object, **_options: object) -> Tensor:
    return Tensor(())


def from_numpy(array: Any) -> Tensor:
    return Tensor(getattr(array, "shape", ()))


def stack(tensors: Any, *_arguments: object, **_options: object) -> Tensor:
    return Tensor((len(tensors),))


def cat(tensors: Any, *_arguments: object, **_options: object) -> Tensor:
    return tensors[0] if tensors else Tensor(())


def compile(model: Any, **_options: object) -> Any:
    return model


manual_seed = set_float32_matmul_precision = _nothing
save, load = _run.save, _run.load
cuda = _module(
    "cuda",
    device_count=_run.visible_gpus,
    is_available=lambda: _run.visible_gpus() > 0,
    get_device_name=lambda *_which: "NVIDIA H100",
    set_device=_nothing,
    synchronize=_nothing,
    memory_reserved=lambda *_which: int(_run.memory_gib() * 2**30),
    max_memory_reserved=lambda *_which: int(_run.memory_gib() * 2**30),
    OutOfMemoryError=OutOfMemoryError,
)
amp = _module("amp", GradScaler=GradScaler, autocast=autocast)
backends = _module("backends", cudnn=types.SimpleNamespace(allow_tf32=True, benchmark=False))
optim = _module("optim", SGD=_run.Optimizer, Adam=_run.Optimizer, AdamW=_run.Optimizer)
init = _module(
    "nn.init",
    **dict.fromkeys(
        ("normal_", "trunc_normal_", "zeros_", "ones_", "kaiming_normal_", "xavier_uniform_"), _nothing
    ),
)
functional = _module(
    "nn.functional",
    **dict.fromkeys(
        ("relu", "gelu", "silu", "softmax", "interpolate", "scaled_dot_product_attention", "cross_entropy"),
        lambda *_arguments, **_options: Tensor(()),
    ),
)
parallel = _module("nn.parallel", DistributedDataParallel=_layers.DistributedDataParallel)
nn = _module("nn", init=init, functional=functional, parallel=parallel, **_layers.LAYERS)
data = _module("utils.data", **_data.CLASSES)
utils = _module("utils", data=data)
distributed = _module("distributed", **_data.DISTRIBUTED)
