"""Records from plain values and from JSON, made by msgspec in one thread at a time.

msgspec 0.22 reads the fields of a class when it first makes a value of it, and crashes the interpreter where another
thread makes one meanwhile.
"""

import threading
from typing import TypeVar

import msgspec

_T = TypeVar("_T")
_ONE_THREAD = threading.RLock()


def convert(value: object, kind: type[_T], *, strict: bool = True) -> _T:
    """`msgspec.convert`. Raises `msgspec.ValidationError` for a value that does not fit."""
    with _ONE_THREAD:
        return msgspec.convert(value, kind, strict=strict)


def from_json(data: bytes | str, kind: type[_T]) -> _T:
    """`msgspec.json.decode`. Raises `msgspec.DecodeError` for what is no such value."""
    with _ONE_THREAD:
        return msgspec.json.decode(data, type=kind)
