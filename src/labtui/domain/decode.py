"""Decode records from plain values and from JSON, in one thread at a time.

msgspec 0.22 reads the fields of a class when it first decodes one, and crashes the interpreter when another thread
decodes at that moment.
"""

import threading
from typing import TypeVar

import msgspec

_T = TypeVar("_T")
_LOCK = threading.RLock()


def convert(value: object, kind: type[_T], *, strict: bool = True) -> _T:
    """`msgspec.convert`. Raises `msgspec.ValidationError` for a value that does not fit."""
    with _LOCK:
        return msgspec.convert(value, kind, strict=strict)


def from_json(data: bytes | str, kind: type[_T]) -> _T:
    """`msgspec.json.decode`. Raises `msgspec.DecodeError` for data that does not fit."""
    with _LOCK:
        return msgspec.json.decode(data, type=kind)
