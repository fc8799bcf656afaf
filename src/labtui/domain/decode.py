"""Decode records from plain values and JSON, in one thread at a time; TOML, labtui's own and anybody's; write JSON.

msgspec 0.22 reads the fields of a class when it first decodes one, and crashes the interpreter when another thread
decodes at that moment.
"""

import json
import re
import threading
import tomllib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from labtui.domain.errors import DataError

T = TypeVar("T")
_LOCK = threading.RLock()
MAX_DOTS, MAX_TOML_CHARACTERS = 50, 200_000
"""In a line of a TOML file, and of the file: the time of `tomllib` grows with the square of the parts of a key."""


def convert(value: object, kind: type[T], *, strict: bool = True) -> T:
    """`msgspec.convert`. Raises `msgspec.ValidationError` for a value that does not fit."""
    with _LOCK:
        return msgspec.convert(value, kind, strict=strict)


def from_json(data: bytes | str, kind: type[T]) -> T:
    """`msgspec.json.decode`. Raises `msgspec.DecodeError` for data that does not fit."""
    with _LOCK:
        return msgspec.json.decode(data, type=kind)


def json_text(value: object, *, indent: int = 1) -> str:
    """The value as JSON for other programs, on one line if `indent` is 0; nan and inf are null.

    Control characters are escapes: JSON itself allows those of C1 and DEL, which act on a terminal.
    """
    try:
        text = msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()
    except UnicodeEncodeError:  # a file name that is not UTF-8
        text = json.dumps(msgspec.to_builtins(value), indent=indent or None, ensure_ascii=False)
    return re.sub(r"[^\n -~]", lambda it: it[0] if it[0].isprintable() else json.dumps(it[0])[1:-1], text)


def own_toml(module: str, name: str) -> dict[str, Any]:
    """A TOML file of labtui's own that lies beside the `module` that reads it (its ``__file__``)."""
    return tomllib.loads(Path(module).with_name(name).read_text("utf-8"))


def from_toml(text: str, name: str = "This") -> dict[str, Any]:
    """`tomllib.loads`. Raises DataError, with the line if it is known; also for a file that would take long."""
    line = None
    try:
        if len(text) > MAX_TOML_CHARACTERS or any(line.count(".") > MAX_DOTS for line in text.split("\n")):
            raise ValueError
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        why = str(error).replace("end of document", "the end: a value, quote or bracket is missing")
        digits = re.search(r"\(at line (\d+)", why)
        line = int(digits[1]) if digits else text.count("\n") + 1
    except (RecursionError, ValueError):
        why = "it is too long or nested too deeply, a key has too many parts, or a number too many digits"
    raise DataError(f"{name} is not valid TOML: {why}.", "Correct that line.", line=line)
