"""Decode records from plain values and from JSON, in one thread at a time; TOML from anybody; JSON for other programs.

msgspec 0.22 reads the fields of a class when it first decodes one, and crashes the interpreter when another thread
decodes at that moment.
"""

import json
import threading
import tomllib
from typing import Any, TypeVar

import msgspec

_T = TypeVar("_T")
_LOCK = threading.RLock()
MAX_DOTS = 200
"""In a key of a TOML file: reading one takes time and memory that grow with the square of its parts."""


def convert(value: object, kind: type[_T], *, strict: bool = True) -> _T:
    """`msgspec.convert`. Raises `msgspec.ValidationError` for a value that does not fit."""
    with _LOCK:
        return msgspec.convert(value, kind, strict=strict)


def from_json(data: bytes | str, kind: type[_T]) -> _T:
    """`msgspec.json.decode`. Raises `msgspec.DecodeError` for data that does not fit."""
    with _LOCK:
        return msgspec.json.decode(data, type=kind)


def json_text(value: object) -> str:
    """The value as JSON with line breaks, for other programs; it has neither nan nor inf, which become null."""
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=1).decode()
    except UnicodeEncodeError:  # a file name that is not UTF-8
        return json.dumps(msgspec.to_builtins(value), indent=1, ensure_ascii=False)


def from_toml(text: str) -> dict[str, Any]:
    """`tomllib.loads`. Raises ValueError (`tomllib.TOMLDecodeError` is one), also for a key of very many parts."""
    if any(part.count(".") > MAX_DOTS for line in text.splitlines() for part in line.split("=")):
        raise ValueError("a key has too many parts")
    return tomllib.loads(text)
