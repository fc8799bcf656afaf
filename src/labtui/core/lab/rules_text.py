"""What every value of an edition has to be, whatever it says: shown safely, not empty, finite, said once.

These rules walk over the whole edition and know nothing of tasks and runs; `rules` and `rules_tasks` do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from labtui.core.lab.places import Place

Problem = tuple[Place, str]
"""Where a mistake stands, and the sentence about it."""

_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_ACTIVE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control characters and invisible ones that reorder or hide text: never needed in a lab sheet."""
_MAY_BE_EMPTY = {"advice", "note", "task"}
MAX_TEXT = 8_000
MAX_NUMBER = 1_000_000_000


def values(value: object, place: Place) -> Iterator[Problem]:
    """Text that could act on a terminal, text without end, numbers that are none or beyond any training."""
    if isinstance(value, str):
        if match := _ACTIVE.search(value):
            yield place, f"There is a control or invisible character (U+{ord(match[0]):04X}) in this text."
        if len(value) > MAX_TEXT:
            yield place, f"This text has more than {MAX_TEXT:,} characters."
    elif isinstance(value, float) and not math.isfinite(value):
        yield place, "This must be a finite number."
    elif isinstance(value, int | float) and abs(value) > MAX_NUMBER:
        yield place, f"This number is beyond {MAX_NUMBER:,}; no training has one like it."
    for key, item in _items(value):
        yield from values(item, (*place, key))


def blanks_and_echoes(value: object, place: Place) -> Iterator[Problem]:
    """Text that is empty, and items of a list that stand in it twice."""
    if isinstance(value, str) and not value.strip() and place[-1] not in _MAY_BE_EMPTY:
        yield place, f"{_named(place)} is empty."
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if item in value[:index] and place != ("startup_seconds",):
                shown = repr(item) if isinstance(item, str) else "The same"
                yield (*place, index), f"{shown} stands twice in {_named(place)}."
    for key, item in _items(value):
        yield from blanks_and_echoes(item, (*place, key))


def unique(items: Iterable[tuple[Place, str]], what: str) -> Iterator[Problem]:
    """Ids of which there are two; capital letters make no difference, because they name files."""
    seen: set[str] = set()
    for place, name in items:
        if name.casefold() in seen:
            yield place, f"There are two {what}s with the id {name!r}."
        seen.add(name.casefold())


def path(name: str, place: Place) -> Iterator[Problem]:
    """A file below the lab folder, in letters that every system and shell takes."""
    if not _PATH.fullmatch(name) or ".." in name.split("/"):
        yield place, f"{name!r} is not a plain file name below the lab folder (letters, digits, . _ - and /)."


def _items(value: object) -> Iterator[tuple[str | int, object]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from enumerate(value)


def _named(place: Place) -> str:
    """The field a value stands in, as it is written in the file."""
    return f"`{next((part for part in reversed(place) if isinstance(part, str)), 'this')}`"
