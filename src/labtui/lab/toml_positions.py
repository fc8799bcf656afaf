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


@dataclass(frozen=True, slots=True)
class Overlay:
    """The data of an edition laid over that of the one it extends; `places` has the own place of what it changes.

    Tables are laid over key by key, lists of tables with an `id` item by item; what is new comes last. `published` is
    put behind the base's. Every other list and every value stands in the place of the base's.
    """

    data: dict[str, Any]
    places: dict[Place, Place] = field(default_factory=dict)

    @classmethod
    def of(cls, base: Mapping[str, Any], own: Mapping[str, Any]) -> Overlay:
        found = cls({})
        found.data.update(found._laid(base, own, (), ()))
        return found

    def own_place(self, place: Place) -> Place:
        """Where a place of the whole stands in the extending file, or its nearest ancestor that stands there."""
        known = (n for n in range(len(place), 0, -1) if place[:n] in self.places)
        return next(((*self.places[place[:n]], *place[n:]) for n in known), ())

    def _laid(self, base: Any, own: Any, place: Place, mine: Place) -> Any:
        if place:
            self.places[place] = mine
        if isinstance(base, Mapping) and isinstance(own, Mapping):
            laid = {key: self._laid(base.get(key), own[key], (*place, key), (*mine, key)) for key in own}
            return {**base, **laid}
        if not (isinstance(base, list) and isinstance(own, list)):
            return own
        ids = _ids(base)
        if not (place == ("published",) or (ids and _ids(own))):
            return own
        merged = list(base)
        for index, item in enumerate(own):
            name = item.get("id") if ids else None
            at = ids.index(name) if name in ids else len(merged)
            if at == len(merged):
                merged.append(None)
            else:
                ids[at] = None  # a second one of this id is new
            merged[at] = self._laid(base[at] if at < len(base) else None, item, (*place, at), (*mine, index))
        return merged


def _ids(items: list[Any]) -> list[str | None]:
    """The ids of a list of tables; none where an item has none."""
    found = [item.get("id") if isinstance(item, Mapping) else None for item in items]
    return found if all(isinstance(name, str) for name in found) else []
