"""As much of NumPy as the lab's scripts use to read CIFAR-10, without the memory: arrays that know only their shape.

The practice cluster's data files hold ``b"rehearsal:ROWSxCOLUMNS"`` where the real ones hold pixels. Used only inside
practice jobs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

uint8 = "uint8"
int32 = "int32"
int64 = "int64"
float32 = "float32"

_IMAGE_BYTES = 3072


class Rows:
    """An array of which only the shape is known."""

    def __init__(self, shape: Iterable[int]) -> None:
        self.shape = tuple(shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: object) -> Rows:
        if not isinstance(key, slice):
            raise NotImplementedError(_SENTENCE)
        return Rows((len(range(*key.indices(self.shape[0]))), *self.shape[1:]))

    def reshape(self, *shape: Any) -> Rows:
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if wanted[0] not in (-1, len(self)):
            raise ValueError(f"cannot reshape array of {len(self)} rows into {wanted[0]}")
        return Rows((len(self), *wanted[1:]))

    def transpose(self, *axes: Any) -> Rows:
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
        return Rows(tuple(self.shape[axis] for axis in order))

    def astype(self, kind: object, **_options: object) -> Rows:
        return self


def asarray(value: Any, dtype: object = None) -> Rows:
    """A shape for what a CIFAR-10 file holds: rehearsal text, raw bytes, a list of labels."""
    if isinstance(value, Rows):
        return value
    if isinstance(value, bytes) and value.startswith(b"rehearsal:"):
        return Rows(int(number) for number in value[len(b"rehearsal:") :].split(b"x"))
    if isinstance(value, bytes):
        return Rows((len(value) // _IMAGE_BYTES, _IMAGE_BYTES))
    return Rows((len(value),))


array = asarray


def concatenate(parts: Iterable[Rows], axis: int = 0) -> Rows:
    """One array of all rows."""
    arrays = list(parts)
    if not arrays:
        raise ValueError("need at least one array to concatenate")
    return Rows((sum(map(len, arrays)), *arrays[0].shape[1:]))


vstack = concatenate

_SENTENCE = (
    "The rehearsal does not compute: it knows only the shape of the data. "
    "With `labtui practice --train` the training is real."
)


def __getattr__(name: str) -> object:
    raise AttributeError(f"numpy.{name} is not part of the rehearsal. {_SENTENCE}")
