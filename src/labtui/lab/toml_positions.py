"""Where a value stands in a TOML file: the line of every table, key and array item; and one file laid over another.

`tomllib` gives values without positions, and an author needs the line. The scan knows just enough of TOML's grammar
(strings, comments, brackets) to note where each statement begins; it never judges and never raises.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labtui.lab.fields import Place

_NAME = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_TOKEN = re.compile(
    rf"""
    (?P<key> {_NAME} (?: \s*\.\s* {_NAME} )* ) \s*=
    | ^[ \t]* (?P<table> \[\[? ) (?P<names> [^\[\]\n]+ ) \]{{1,2}} [ \t]* (?= \# | $ )
    | \"{{3}} (?: \\. | [^\\] )*? \"{{3,5}}  |  '{{3}} .*? '{{3,5}}
    | "(?: \\. | [^"\\\n] )*"  |  '[^'\n]*'
    | (?P<comment> \#[^\n]* )
    | [\[\]{{}},]
    | [^\s\[\]{{}},\#]+
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)


def line_of(text: str, place: Place) -> int | None:
    """The 1-based line where `place`, or its nearest written ancestor, stands; None for the root."""
    lines = _lines(text)
    return next((lines[place[:n]] for n in range(len(place), 0, -1) if place[:n] in lines), None)


def _lines(text: str) -> dict[Place, int]:
    """The line of each table and key, and of each item of an array that is a key's value."""
    found: dict[Place, int] = {}
    items: dict[Place, int] = {}  # the last number of each array of tables
    table: Place = ()
    place: Place = ()
    depth = index = 0
    for token in _TOKEN.finditer(text):
        line = text.count("\n", 0, token.start()) + 1
        if depth == 0 and token["table"]:
            table = _table(items, _names(token["names"]), token["table"] == "[[")
            found.setdefault(table, line)
            if isinstance(table[-1], int):
                found.setdefault(table[:-1], line)
        elif depth == 0 and token["key"]:
            place, index = (*table, *_names(token["key"])), 0
            found.setdefault(place, line)
        elif token[0] in {"]", "}"}:
            depth -= 1
        elif token[0] == ",":
            index += depth == 1
        elif not token["comment"]:
            if depth:
                found.setdefault((*place, index), line)
            depth += token[0] in {"[", "{"}
    return found


def _table(items: dict[Place, int], names: tuple[str, ...], is_item: bool) -> Place:
    place: Place = ()
    for name in names[:-1]:
        place = (*place, name)
        if place in items:
            place = (*place, items[place])
    place = (*place, names[-1])
    if is_item:
        items[place] = items.get(place, -1) + 1
        place = (*place, items[place])
    return place


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(name.strip("\"'") for name in re.findall(_NAME, dotted))


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
