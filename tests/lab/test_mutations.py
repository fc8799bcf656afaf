"""Every field of every edition spoiled in every way a hand can spoil it: refused, with file, line and sentence."""

import copy
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labtui.domain.errors import DataError
from labtui.lab.fields import Place
from labtui.session.labs import LABS, read_edition_file
from tests.lab.proof import prove
from tests.lab.test_editions import IDS

NAMES = {
    "id", "script", "scripts", "model", "facts", "files", "tasks", "original", "form", "kind",
    "outcome", "outcomes", "charts", "chart", "laws", "models", "task", "metric", "names", "extends", "published_in",
}  # fmt: skip
"""Fields that name something: another name is a mistake."""
FREE = {"advice", "note"}
"""Texts that may be left out, so they may be empty."""
OWN = {
    ("unknown", "tasks.id"), ("unknown", "tasks.checks.names"), ("unknown", "tasks.checks.files"),
    ("blank", "hand_in.pages.heading"),
}  # fmt: skip
"""A task may have any number that nothing else names, a deck or report any name; a page makes its own heading."""


def walk(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every value of an edition with its place."""
    yield place, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from walk(item, (*place, key))


def spoiled(place: Place, value: Any) -> Iterator[tuple[str, Any]]:
    """A value made wrong, with a word for how."""
    name = field(place)
    if isinstance(value, str):
        yield "type", 5
        yield "control character", value + "\x07"
        if name not in FREE:
            yield "blank", " \n "
        if name in NAMES:
            yield "unknown", "Nowhere"
    elif isinstance(value, int | float):
        yield "type", "five"
        yield "negative", -7
        yield "beyond", 10**12
        yield "no number", float("nan")
    elif isinstance(value, list):
        yield "type", "one"
    elif isinstance(value, dict):
        yield "unknown field", {**value, "colour": 1}
        if place:
            yield "type", "one"


def field(place: Place) -> str:
    return next((part for part in reversed(place) if isinstance(part, str)), "")


def shape(place: Place) -> str:
    return ".".join(part for part in place if isinstance(part, str))


def put(data: dict[str, Any], place: Place, new: Any) -> dict[str, Any]:
    """The edition with another value at a place."""
    if not place:
        return new
    changed = copy.deepcopy(data)
    part: Any = changed
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = new
    return changed


def written(value: Any) -> str:
    """A value as TOML; an item of an edition's lists to a line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(f"\n{written(item)}" for item in value) + "]"
    return json.dumps(value, ensure_ascii=False).replace("NaN", "nan")


def write(path: Path, data: dict[str, Any]) -> None:
    lines = [f"{key} = {written(item)}\n" for key, item in data.items()]
    path.write_text("".join(lines), encoding="utf-8")


def mistakes(data: dict[str, Any], seen: set[Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each kind of mistake in each field once: where the field stands first."""
    for place, value in walk(data):
        for how, new in spoiled(place, value):
            kind = str(value) if field(place) == "kind" else ""
            if (how, shape(place), kind) not in seen:
                seen.add((how, shape(place), kind))
                yield how, shape(place), put(data, place, new)


def spoiling(path: Path, data: dict[str, Any], seen: set[Any]) -> list[tuple[str, str]]:
    """The mistakes in an edition that pass."""
    passed = []
    for how, where, changed in mistakes(data, seen):
        write(path, changed)
        try:
            proven = all(proof.holds for proof in prove(read_edition_file(path)))
        except DataError as error:
            proven = False
            assert error.sentence.startswith(f"{path}, line "), (how, where, error.sentence)
        if proven and (how, where) not in OWN:
            passed.append((how, where))
    return passed


def test_no_mistake_in_any_field_passes(tmp_path):
    """Each mistake once, in the shortest edition that has the field."""
    path, seen = tmp_path / "mine.toml", set()
    files = sorted((LABS / f"{name}.toml" for name in IDS), key=lambda file: file.stat().st_size)
    for file in files:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        write(path, data)
        assert all(proof.holds for proof in prove(read_edition_file(path)))
        assert spoiling(path, data, seen) == [], file.stem
