"""Where a value stands in a TOML file: the line of every table, key and array item; and one file laid over another.

`tomllib` gives values without positions, and an author needs the line. This scanner knows just enough of
TOML's grammar (strings, comments, brackets) to note where each statement begins; it never judges and never
raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from labtui.lab.fields import Place

_STRINGS = (
    re.compile(r'"""(?:\\.|[^\\])*?"{3,5}', re.DOTALL),
    re.compile(r"'''.*?'{3,5}", re.DOTALL),
    re.compile(r'"(?:\\.|[^"\\\n])*"'),
    re.compile(r"'[^'\n]*'"),
)
_KEY = re.compile(
    r"""\s*((?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*'))*)\s*="""
)
_HEADER = re.compile(r"\s*(\[{1,2})\s*([^\]\n]+?)\s*\]{1,2}")


@dataclass
class _Scan:
    table: Place = ()
    counts: dict[Place, int] = field(default_factory=dict)
    lines: dict[Place, int] = field(default_factory=dict)


def line_of(text: str, place: Place) -> int | None:
    """The 1-based line where `place`, or its nearest written ancestor, stands; None for the root."""
    lines = _lines(text)
    while place:
        if place in lines:
            return lines[place]
        place = place[:-1]
    return None


def _lines(text: str) -> dict[Place, int]:
    scan = _Scan()
    for line, statement in _statements(text):
        if statement.lstrip().startswith("["):
            _header(scan, statement, line)
        else:
            _assignment(scan, statement, line)
    return scan.lines


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _header(scan: _Scan, statement: str, line: int) -> None:
    match = _HEADER.match(statement)
    if match is None:
        return
    names = _names(match[2])
    place: Place = ()
    for name in names[:-1]:
        place = (*place, name)
        if place in scan.counts:
            place = (*place, scan.counts[place])
    place = (*place, names[-1])
    if match[1] == "[[":
        scan.counts[place] = scan.counts.get(place, -1) + 1
        scan.lines.setdefault(place, line)
        place = (*place, scan.counts[place])
    scan.table = place
    scan.lines.setdefault(place, line)


def _assignment(scan: _Scan, statement: str, line: int) -> None:
    match = _KEY.match(statement)
    if match is None:
        return
    place: Place = (*scan.table, *_names(match[1]))
    leading = len(statement[: match.start(1)].split("\n")) - 1
    scan.lines.setdefault(place, line + leading)
    for index, offset in _items(statement, match.end()):
        scan.lines.setdefault((*place, index), line + statement.count("\n", 0, offset))


def _skip(text: str, at: int) -> int:
    """The end of the string or comment that begins at `at`, or `at` itself."""
    if text[at] == "#":
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    if text[at] in "\"'":
        for pattern in _STRINGS:
            if match := pattern.match(text, at):
                return match.end()
    return at


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Each top-level statement with the line it begins on."""
    at = start = depth = 0
    line = 1
    while at < len(text):
        end = _skip(text, at)
        if end > at:
            at = end
            continue
        if text[at] in "[{":
            depth += 1
        elif text[at] in "]}":
            depth = max(0, depth - 1)
        elif text[at] == "\n" and depth == 0:
            yield line, text[start:at]
            line += text.count("\n", start, at + 1)
            start = at + 1
        at += 1
    if start < len(text):
        yield line, text[start:]


def _items(statement: str, at: int) -> Iterator[tuple[int, int]]:
    """Index and offset of each item of the array that is a statement's value (none for other values)."""
    while at < len(statement) and statement[at] in " \t":
        at += 1
    if at >= len(statement) or statement[at] != "[":
        return
    at, depth, index, fresh = at + 1, 1, 0, True
    while at < len(statement) and depth:
        char = statement[at]
        if fresh and not char.isspace() and char not in "#],":
            yield index, at
            fresh = False
        end = _skip(statement, at)
        if end > at:
            at = end
            continue
        depth += (char in "[{") - (char in "]}")
        if char == "," and depth == 1:
            index, fresh = index + 1, True
        at += 1


# --------------------------------------------------------------------------- an edition laid over another

_ADDED: tuple[Place, ...] = (("published",),)


@dataclass(frozen=True, slots=True)
class Overlay:
    """The data of an edition laid over that of the one it extends; `places` has the own place of what it changes.

    Tables are laid over key by key, lists of tables with an `id` item by item; what is new comes last. The lists in
    `_ADDED` are put behind the base's. Every other list and every value stands in the place of the base's.
    """

    data: dict[str, Any]
    places: dict[Place, Place] = field(default_factory=dict)

    @classmethod
    def of(cls, base: Mapping[str, Any], own: Mapping[str, Any]) -> Overlay:
        found = cls({})
        found.data.update(found._table(base, own, (), ()))
        return found

    def own_place(self, place: Place) -> Place:
        """Where a place of the whole stands in the extending file, or its nearest ancestor that stands there."""
        for length in range(len(place), 0, -1):
            if place[:length] in self.places:
                return (*self.places[place[:length]], *place[length:])
        return ()

    def _table(
        self, base: Mapping[str, Any], own: Mapping[str, Any], place: Place, mine: Place
    ) -> dict[str, Any]:
        merged = dict(base)
        for key, value in own.items():
            at, there = (*place, key), (*mine, key)
            self.places[at] = there
            merged[key] = self._value(base.get(key), value, at, there)
        return merged

    def _value(self, base: Any, own: Any, place: Place, mine: Place) -> Any:
        if isinstance(base, Mapping) and isinstance(own, Mapping):
            return self._table(base, own, place, mine)
        if place in _ADDED and isinstance(base, list) and isinstance(own, list):
            self.places.update({(*place, len(base) + i): (*mine, i) for i in range(len(own))})
            return [*base, *own]
        if not (_named_items(base) and _named_items(own)):
            return own
        merged = list(base)
        ids = [str(item["id"]) for item in base]
        for index, item in enumerate(own):
            again = any(item["id"] == other["id"] for other in own[:index])
            at = ids.index(item["id"]) if item["id"] in ids and not again else len(merged)
            self.places[*place, at] = (*mine, index)
            if at < len(ids):
                merged[at] = self._table(base[at], item, (*place, at), (*mine, index))
            else:
                merged.append(item)
        return merged


def _named_items(value: Any) -> bool:
    """Whether this is a list of tables that each have an id."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, Mapping) and isinstance(item.get("id"), str) for item in value)
    )
