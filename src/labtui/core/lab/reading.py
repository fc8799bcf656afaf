"""From TOML text to an `Edition`, or to one sentence that says what is wrong and on which line.

Three nets: TOML's grammar, the schema (unknown, missing and mistyped fields), and what a schema cannot say
(numbers that must agree, names that must exist, text that could act on a terminal or a shell).
"""

from __future__ import annotations

import difflib
import re
import tomllib
from typing import get_args

import msgspec

from labtui.core.lab import edition as schema
from labtui.core.lab.places import Place, line_of
from labtui.core.lab.rules import Known, problems
from labtui.core.model import Device, JobForm, Outcome
from labtui.errors import DataError

MAX_CHARACTERS = 1_000_000
_GUIDE = "docs/editions.md lists every field."
_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `(?P<where>[^`]*)`)?$", re.DOTALL)
_TOML_AT = re.compile(r"\s*\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)")
_WORDS: dict[str, tuple[str, ...]] = {
    "quantity": get_args(schema.Quantity),
    "form": get_args(JobForm),
    "device": get_args(Device),
    "outcomes": get_args(Outcome),
    "outcome": get_args(Outcome),
    "charts": get_args(schema.ChartKey),
    "laws": get_args(schema.Law),
    "batch": ("exact", "any"),
    "kind": tuple(str(kind.__struct_config__.tag) for kind in get_args(schema.Check)),
}
_TYPES = {
    "`int`": "a whole number",
    "`float`": "a number",
    "`str`": "text in quotes",
    "`array`": "a list in square brackets",
    "`object`": "a table",
    "`bool`": "true or false",
    "`null`": "nothing",
}


def _fields() -> tuple[str, ...]:
    found: dict[str, None] = {}
    for value in vars(schema).values():
        if isinstance(value, type) and issubclass(value, msgspec.Struct):
            found.update(dict.fromkeys(value.__struct_fields__))
    return tuple(found)


def read_edition(text: str, path: str = "", known: Known | None = None) -> schema.Edition:
    """Read and prove an edition; with `known`, the scripts and cluster profiles it names have to be there.

    Raises:
        DataError: with the path, the line when it is known, and one sentence.
    """
    if len(text) > MAX_CHARACTERS:
        raise _error(
            path, None, f"The file has more than {MAX_CHARACTERS:,} characters; no edition needs that."
        )
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _toml_error(path, text, str(error)) from None
    except RecursionError:
        raise _error(path, None, "The file is nested too deeply to be read.") from None
    except ValueError:
        raise _error(path, _endless_number(text), "There is a number without end in this file.") from None
    try:
        found = msgspec.convert(data, schema.Edition)
    except msgspec.ValidationError as error:
        raise _schema_error(path, text, str(error)) from None
    for place, sentence in problems(found, known):
        raise _error(path, line_of(text, place), sentence)
    return found


def _error(path: str, line: int | None, sentence: str) -> DataError:
    where = ", ".join(part for part in (path, f"line {line}" if line else "") if part)
    return DataError(f"{where}: {sentence}" if where else sentence, _GUIDE, path=path, line=line)


def _endless_number(text: str) -> int | None:
    """The line of the first number that is longer than any number needs to be."""
    match = re.search(r"\d[\d_]{1000}", text)
    return text.count("\n", 0, match.start()) + 1 if match else None


def _toml_error(path: str, text: str, message: str) -> DataError:
    match = _TOML_AT.search(message)
    line = int(match["line"]) if match and match["line"] else text.count("\n") + 1
    what = _TOML_AT.sub("", message).strip() or "something is missing"
    return _error(path, line, f"This is not valid TOML: {what[0].lower()}{what[1:]}.")


def _schema_error(path: str, text: str, message: str) -> DataError:
    match = _PLACE.match(message)
    what, where = (match["what"], match["where"] or "$") if match else (message, "$")
    place = _place(where)
    sentence, place = _sentence(what, place)
    return _error(path, line_of(text, place), sentence)


def _place(where: str) -> Place:
    place: list[str | int] = []
    for name, index in re.findall(r"\.([A-Za-z0-9_-]+)|\[(\d+)\]", where):
        place.append(int(index) if index else name)
    return tuple(place)


def _called(place: Place) -> str:
    """A place in words: ``task 3, check 1``."""
    words: list[str] = []
    for part in place:
        if isinstance(part, int):
            words[-1] = f"{words[-1].removesuffix('s')} {part + 1}"
        else:
            words.append(part)
    return ", ".join(words) or "the edition"


def _sentence(what: str, place: Place) -> tuple[str, Place]:
    name = (re.findall(r"`([^`]*)`", what) or [""])[-1]
    if what.startswith("Object missing required field"):
        return f"`{name}` is missing in {_called(place)}.", place
    if what.startswith("Object contains unknown field"):
        near = difflib.get_close_matches(name, _fields(), n=1)
        hint = f" Did you mean `{near[0]}`?" if near else ""
        return f"`{name}` is not a field of {_called(place)}.{hint}", (*place, name)
    if what.startswith("Expected"):
        wanted, _, got = what.removeprefix("Expected ").partition(", got ")
        for code, words in _TYPES.items():
            wanted, got = wanted.replace(code, words), got.replace(code, words)
        return f"{_called(place)} should be {wanted.replace(' | ', ' or ')}, not {got}.", place
    if what.startswith("Invalid"):
        return _invalid(what, place)
    return f"{_called(place)}: {what}.", place


def _invalid(what: str, place: Place) -> tuple[str, Place]:
    key = next((part for part in reversed(place) if isinstance(part, str)), "")
    words = _WORDS.get(key, ())
    value = what.rpartition("value ")[2]
    if not words:
        return f"{_called(place)} cannot be {value}.", place
    return f"{_called(place)} cannot be {value}; it is one of {', '.join(words)}.", place
