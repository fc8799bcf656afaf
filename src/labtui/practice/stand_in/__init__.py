"""Stand-ins for the frameworks: any import, attribute and call works and is recorded, so that scripts run unchanged.

`KNOWN` has the names whose behaviour matters; `tensorflow.py` and `torch.py` fill it.
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
from opcode import opmap
from pathlib import Path
from typing import Any, NamedTuple

FRAMEWORKS = ("tensorflow", "keras", "tf_keras", "torch", "numpy", "PIL", "liger_kernel")
KNOWN: dict[str, Any] = {}
"""Objects by full name; ``torch.optim.*`` is a function that is called once for each other name of the module."""
RESULT_METHODS: dict[str, Callable[..., Any]] = {}
"""Methods that the result of any call has, by name; each gets that result as its first argument."""


class Call(NamedTuple):
    """A recorded call: the last part of the function's name, and the arguments."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def resolve(name: str) -> Any:
    """The object that a full name stands for; an unknown one is a `Recorded`."""
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
    """How many items an argument holds, None if unknown; for a tuple of data sets, that of the first."""
    if isinstance(value, Recorded):
        return value._size
    if isinstance(value, bytes) and value.startswith(b"rehearsal:"):
        return int(value[len(b"rehearsal:") :].split(b"x")[0])
    if isinstance(value, tuple) and value and isinstance(value[0], (Recorded, list)):
        return size_of(value[0])
    return len(value) if isinstance(value, (list, tuple)) else None


class Recorded:
    """A name of a framework or the result of a call, with the calls that led to it and the number of its items."""

    def __init__(self, name: str, calls: Sequence[Call] = (), size: int | None = None) -> None:
        self._name, self._calls, self._size = name, tuple(calls), size

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            if f"{self._name}.{name}" in KNOWN:
                return KNOWN[f"{self._name}.{name}"]
            raise AttributeError(name)
        if not self._calls:
            return resolve(f"{self._name}.{name}")
        if name in RESULT_METHODS:
            return functools.partial(RESULT_METHODS[name], self)
        return Recorded(f"{self._name}.{name}", self._calls, self._size)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        last = self._name.rpartition(".")[2]
        if self._calls and self._calls[-1].name == last and args and inspect.isfunction(args[0]):
            return args[0]  # the result of the first call is used as a decorator
        size = size_of(args[0]) if self._size is None and args else self._size
        return Recorded(self._name, (*self._calls, Call(last, args, kwargs)), size)

    def __mro_entries__(self, _bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (FrameworkBase,)

    def __instancecheck__(self, _instance: object) -> bool:
        return False

    def __len__(self) -> int:
        return 1 if self._size is None else self._size

    def __iter__(self) -> Iterator[Recorded]:
        """As many items as the script unpacks (``n, c = x.shape``), else three."""
        frame = sys._getframe(1)
        unpacks = frame.f_code.co_code[frame.f_lasti] == opmap["UNPACK_SEQUENCE"]
        return iter((self,) * (frame.f_code.co_code[frame.f_lasti + 1] if unpacks else 3))

    def __getitem__(self, key: Any) -> Recorded:
        size = self._size
        if size is not None and isinstance(key, slice):
            size = len(range(size)[key])
        return Recorded(self._name, self._calls or (Call("item", (), {}),), size)

    def __setitem__(self, _key: object, _value: object) -> None:
        return None

    def __float__(self) -> float:
        return float("nan")

    def __index__(self) -> int:
        return len(self)

    def __format__(self, form: str) -> str:
        return format(len(self) if form.endswith("d") else float(self), form) if form else str(self)

    def __enter__(self) -> Recorded:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def __repr__(self) -> str:
        return f"<{self._name}, recorded>"

    # Arithmetic and comparisons give the object itself: no value is known, and a script must not fail for that.
    def _itself(self, *_other: object) -> Recorded:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _itself
    __matmul__ = __rmatmul__ = __pow__ = __rpow__ = __neg__ = __lt__ = __gt__ = __le__ = __ge__ = _itself
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __abs__ = __round__ = _itself
    __and__ = __rand__ = __or__ = __ror__ = __invert__ = _itself
    __eq__ = __ne__ = _itself  # type: ignore[assignment]
    __hash__ = object.__hash__


def class_factory(module: str, base: type) -> Callable[[str], Any]:
    """For `KNOWN`: makes each capitalized name of a module a class that extends `base`, and any other a `Recorded`."""
    return lambda name: Recorded(f"{module}.{name}") if name.islower() else type(name, (base,), {})


def job_random(*more: str) -> random.Random:
    """A random generator seeded by the job's id, so that runs differ but a repeated session gives the same numbers."""
    return random.Random("-".join(("0", os.environ.get("SLURM_JOB_ID", "0"), *more)))


def sized(name: str, count: int) -> Recorded:
    """The result of a call, which holds `count` items."""
    return Recorded(name, [Call(name, (), {})], count)


class FrameworkBase:
    """The base of a student's class that extends a class of a framework."""

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
        return resolve(full)


class _Finder:
    """Imports the frameworks and any of their modules as recording ones."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        # a network that Keras does not have is no module either
        found = name.partition(".")[0] in FRAMEWORKS and ".ResNet" not in name
        return ModuleSpec(name, self, is_package=True) if found else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        if title := {"tensorflow": "TensorFlow", "torch": "PyTorch"}.get(module.__name__):
            # A log with this line counts as practice.
            print(f"practice: yes (labtui's rehearsal of {title}: nothing was trained)", flush=True)


def install() -> None:
    """Replace the frameworks in this process."""
    from labtui.practice.stand_in import tensorflow, torch

    for name in ("numpy.concatenate", "numpy.vstack"):
        KNOWN[name] = lambda parts, **_options: sized("concatenate", sum(map(len, parts)))
    KNOWN.update(tensorflow.NAMES | torch.NAMES)
    RESULT_METHODS.update(torch.RESULT_METHODS)
    sys.meta_path.insert(0, _Finder())


# ------------------------------------------------------------------------------------------ the job's GPUs


def visible_gpus() -> int:
    """How many GPUs this process can use: none in a container without --nv, else those of the job."""
    return sum(part.strip().isdigit() for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(","))


def show_load(gpus: int, percent: float, gib: float) -> None:
    """Write the load of each node's GPUs for the job's nvidia-smi, in the first process of a step only."""
    folder = os.environ.get("LABTUI_PRACTICE_JOB")
    if not folder or os.environ.get("SLURM_PROCID", "0") != "0":
        return
    temporary = Path(folder) / "gpu-load.new"
    temporary.write_text(f"{gpus} {percent} {gib}", encoding="ascii")
    temporary.replace(Path(folder) / "gpu-load")
