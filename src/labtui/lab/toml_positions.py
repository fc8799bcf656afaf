"""Where a value stands in a TOML file, for messages about it; and an edition laid over the one it extends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from labtui.lab.fields import Place

_LONG_STRING = re.compile(r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'', re.DOTALL)
_TABLE = re.compile(r"\s*(\[\[?)\s*([A-Za-z_][\w.\"' -]*?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([\w-]+(?:\s*\.\s*[\w-]+)*)\s*=")
_ITEM = re.compile(r"\s*[{\[\"'\d-]")


def line_of(text: str, place: Place) -> int | None:
    """The 1-based line where `place`, or its nearest written ancestor, stands; None for the root.

    Tables, keys, and the items of a list that begin a line of their own.
    """
    found: dict[Place, int] = {}
    last: dict[Place, int] = {}
    table: Place = ()
    key: Place = ()
    item = 0
    # The text of long strings is no statement; their lines still count.
    plain = _LONG_STRING.sub(lambda match: "\n" * match[0].count("\n"), text)
    for number, line in enumerate(plain.split("\n"), 1):
        if match := _TABLE.match(line):
            table, key = _table(last, match[2], match[1] == "[["), ()
            found.setdefault(table, number)
        elif match := _KEY.match(line):
            key, item = (*table, *re.split(r"\s*\.\s*", match[1])), 0
            found.setdefault(key, number)
        elif key and _ITEM.match(line):
            found.setdefault((*key, item), number)
            item += 1
    return next((found[place[:n]] for n in range(len(place), 0, -1) if place[:n] in found), None)


def _table(last: dict[Place, int], dotted: str, is_item: bool) -> Place:
    """The place of a table's header; `last` has the number of the last item of each array of tables."""
    place: Place = ()
    *parents, name = (part.strip(" \"'") for part in dotted.split("."))
    for part in parents:
        place = (*place, part)
        place = (*place, last[place]) if place in last else place
    place = (*place, name)
    if not is_item:
        return place
    last[place] = last.get(place, -1) + 1
    return (*place, last[place])


# --------------------------------------------------------------------------- an edition laid over another


_BY_ID = ("tasks", "facts")


def merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """An edition over the one it extends: tasks and facts by their ids, tables key by key, all else as a whole.

    What is new comes last; published numbers stand behind those of the base.
    """
    whole = {**base, **own}
    for key in base.keys() & own.keys():
        theirs, mine = base[key], own[key]
        if isinstance(theirs, Mapping) and isinstance(mine, Mapping):
            whole[key] = {**theirs, **mine}
        elif isinstance(mine, list) and key == "published":
            whole[key] = [*theirs, *mine]
        elif isinstance(mine, list) and key in _BY_ID:
            whole[key], ids = list(theirs), [_id(item) for item in theirs]
            for item in mine:
                if _id(item) in ids:
                    at = ids.index(_id(item))
                    whole[key][at], ids[at] = {**theirs[at], **item}, ""  # a second one of this id is new
                else:
                    whole[key].append(item)
    return whole


def _id(item: object) -> object:
    return item.get("id") if isinstance(item, Mapping) else None


def own_place(base: Mapping[str, Any], own: Mapping[str, Any], place: Place) -> Place:
    """Where a place of the whole stands in the extending file; () where only the base has it."""
    key, index, *rest = (*place, "", "")[: max(2, len(place))]
    if not isinstance(index, int) or key not in base:
        return place
    if key == "published":
        index -= len(base[key])
    elif key in _BY_ID and key in own:
        name = _id(merged(base, own)[key][index])
        index = max((at for at, item in enumerate(own[key]) if _id(item) == name), default=-1)
    return (key, index, *rest) if key in own and index >= 0 else ()
