"""Any module, any attribute, any call: a student's script runs as it is, and what it asked for can be read back.

`KNOWN` says what a name of a framework really is where that matters: `tensorflow.py` and `torch.py` fill it.
"""

from __future__ import annotations

import functools
import inspect
import os
import random
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, NamedTuple

FRAMEWORKS = ("tensorflow", "keras", "tf_keras", "torch", "numpy", "PIL", "liger_kernel")
KNOWN: dict[str, Any] = {}
"""By full name; ``torch.optim.*`` stands for each name of a module and is called with it, once."""
OF_RESULTS: dict[str, Callable[..., Any]] = {}
"""By name: methods of whatever a call gave."""


class Call(NamedTuple):
    """One call: the last part of its name, and what it was given."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def known(name: str) -> Any:
    """What a full name stands for."""
    name = name.replace("tf_keras", "keras", 1)
    name = f"tensorflow.{name}" if name.partition(".")[0] == "keras" else name
    if name not in KNOWN:
        module, _, last = name.rpartition(".")
        if last.endswith(("Error", "Exception")):
            KNOWN[name] = type(last, (Exception,), {"__module__": module})
        elif f"{module}.*" in KNOWN:
            KNOWN[name] = KNOWN[f"{module}.*"](last)
        else:
            return Recorded(name)
    return KNOWN[name]


def size_of(value: Any) -> int | None:
    """How many items an argument holds, where that is known: of several data sets beside each other the first's."""
    if isinstance(value, Recorded):
        return value._size
    if isinstance(value, bytes) and value.startswith(b"rehearsal:"):
        return int(value[len(b"rehearsal:") :].split(b"x")[0])
    if isinstance(value, tuple) and value and isinstance(value[0], (Recorded, list)):
        return size_of(value[0])
    if isinstance(value, (list, tuple)):
        return len(value)
    return None


class Recorded:
    """A name of a framework, or what a call of it gave: the calls that led here, and how many items it holds."""

    def __init__(self, name: str, calls: Sequence[Call] = (), size: int | None = None) -> None:
        self._name, self._calls, self._size = name, tuple(calls), size

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            if f"{self._name}.{name}" in KNOWN:
                return KNOWN[f"{self._name}.{name}"]
            raise AttributeError(name)
        if not self._calls:
            return known(f"{self._name}.{name}")
        if name in OF_RESULTS:
            return functools.partial(OF_RESULTS[name], self)
        return Recorded(f"{self._name}.{name}", self._calls, self._size)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        last = self._name.rpartition(".")[2]
        if self._calls and self._calls[-1].name == last and args and inspect.isfunction(args[0]):
            return args[0]  # what was called gave a decorator
        size = self._size if self._size is not None else size_of(args[0]) if args else None
        return Recorded(self._name, (*self._calls, Call(last, args, kwargs)), size)

    def __mro_entries__(self, _bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (Base,)

    def __instancecheck__(self, _thing: object) -> bool:
        return False

    def __len__(self) -> int:
        return 1 if self._size is None else self._size

    def __iter__(self) -> Iterator[Recorded]:
        return iter((self, self, self))

    def __getitem__(self, key: Any) -> Recorded:
        size = (
            len(range(self._size)[key]) if isinstance(key, slice) and self._size is not None else self._size
        )
        return Recorded(self._name, self._calls or (Call("item", (), {}),), size)

    def __setitem__(self, _key: object, _value: object) -> None:
        return None

    def __float__(self) -> float:
        return float("nan")

    def __enter__(self) -> Recorded:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def __repr__(self) -> str:
        return f"<{self._name}, recorded>"

    def _same(self, *_other: object) -> Recorded:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _same
    __matmul__ = __rmatmul__ = __pow__ = __rpow__ = __neg__ = __lt__ = __gt__ = __le__ = __ge__ = _same
    __eq__ = _same  # type: ignore[assignment]
    __hash__ = object.__hash__


def classes(module: str, base: type) -> Callable[[str], Any]:
    """For `KNOWN`: every class of a module extends `base`; what has a small name is a function or a module."""
    return lambda name: Recorded(f"{module}.{name}") if name.islower() else type(name, (base,), {})


def chance(*more: str) -> random.Random:
    """What scatters a job's numbers: a repeat is another job, a session replayed is not."""
    seed = [os.environ.get(name, "0") for name in ("LABTUI_PRACTICE_SEED", "SLURM_JOB_ID")]
    return random.Random("-".join((*seed, *more)))


def _joined(parts: Sequence[Any], **_options: object) -> Recorded:
    """NumPy's arrays after one another."""
    return Recorded("numpy.concatenate", [Call("concatenate", (), {})], sum(map(len, parts)))


class Base:
    """What a class of a framework is to the student's class that extends it."""

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Recorded(f"{type(self).__name__}.{name}", (Call(name, (), {}),))


class _Module(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        full = f"{self.__name__}.{name}"
        if name.startswith("__") and full not in KNOWN:
            raise AttributeError(name)
        return known(full)


class _Finder:
    """Imports a framework, and whatever module of it, as a recording one."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        found = name.partition(".")[0] in FRAMEWORKS
        return ModuleSpec(name, self, is_package=True) if found else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        title = {"tensorflow": "TensorFlow", "torch": "PyTorch"}.get(module.__name__)
        if title:
            # A log with this line counts as practice.
            print(f"practice: yes (labtui's rehearsal of {title}: nothing was trained)", flush=True)


def install() -> None:
    """From now on the frameworks are recorded in this process."""
    from labtui.practice.stand_in import tensorflow, torch

    KNOWN.update({"numpy.concatenate": _joined, "numpy.vstack": _joined})
    KNOWN.update(tensorflow.NAMES)
    KNOWN.update(torch.NAMES)
    OF_RESULTS.update(torch.OF_RESULTS)
    sys.meta_path.insert(0, _Finder())


# ------------------------------------------------------------------------------------------ the job's GPUs


def visible_gpus() -> int:
    """How many GPUs this process can use: none without --nv, else those Slurm gave to the job."""
    return sum(part.strip().isdigit() for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(","))


def show_load(gpus: int, percent: float, gib: float) -> None:
    """Write the load of each node's GPUs for the job's nvidia-smi; the first process of a step does."""
    folder = os.environ.get("LABTUI_PRACTICE_JOB")
    if not folder or os.environ.get("SLURM_PROCID", "0") != "0":
        return
    beside = Path(folder) / "gpu-load.new"
    beside.write_text(f"{gpus} {percent} {gib}", encoding="ascii")
    beside.replace(Path(folder) / "gpu-load")
