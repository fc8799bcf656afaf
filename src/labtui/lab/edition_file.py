"""Reads TOML text into an `Edition`, or raises an error with one sentence: what is wrong in which file, line and key.

Three stages: TOML's grammar, the schema with its constraints (`edition`), and the rules that involve several tables
(`proof`). The first mistake becomes an error with its line.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

import msgspec

from labtui.domain import decode
from labtui.domain.errors import DataError, suggest
from labtui.lab.edition import Edition
from labtui.lab.edition_rules import cross_references
from labtui.lab.fields import Place, Problem

MAX_TEXT_CHARACTERS = 8_000
_HINT = "docs/editions.md lists every field."
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control characters, and invisible ones that reorder or hide text; a lab sheet needs none of them."""


def base_id(text: str) -> str:
    """The id of the edition that this one extends or takes published numbers from; "" if there is none."""
    try:
        data = _loads(text)
    except DataError:
        return ""
    found = data.get("extends", data.get("published_in", ""))
    return found if isinstance(found, str) else ""


def parse_edition(
    text: str, path: str = "", available: Mapping[str, Collection[str]] | None = None, base: str | None = None
) -> Edition:
    """Read and check an edition. With `available`, the scripts it names must be among those there.

    `base` is the text of the edition that `base_id` names; a mistake in what only the base says gets no line.

    Raises:
        DataError: with the path, the line if it is known, and one sentence.
    """
    try:
        data = _loads(text)
    except DataError as error:
        raise _error(path, error.line, error.sentence) from None
    unknown = "name one of labtui's that builds on no other."
    named = [key for key in ("extends", "published_in") if key in data and base is None]
    without_base = [((key,), f"`{key}` cannot be {data[key]!r}: {unknown}") for key in named]
    for place, sentence in (*without_base, *_text_problems(data, ())):
        raise _error(path, line_of(text, place), sentence)
    try:
        found = decode.convert(merge(_base_data(data, base), data), Edition)
    except msgspec.ValidationError as error:
        place, sentence = schema_problem(str(error), Edition)
        raise _error(path, own_line(text, base, place), sentence) from None
    for place, sentence in cross_references(found, available or {}):
        raise _error(path, own_line(text, base, place), sentence)
    return found


def own_line(text: str, base: str | None, place: Place) -> int | None:
    """The 1-based line in an edition's own file of a place in the merged edition; None if only the base has it."""
    own = _loads(text)
    whole, (key, index) = _base_data(own, base), (*place, "", "")[:2]
    if isinstance(index, int) and key in whole:
        if key == "published":
            index -= len(whole[key])
        elif key in _BY_ID and key in own:
            name = _id(merge(whole, own)[key][index])
            index = max((n for n, item in enumerate(own[key]) if _id(item) == name), default=-1)
        place = (key, index, *place[2:]) if key in own and index >= 0 else ()
    return line_of(text, place)


def _base_data(data: Mapping[str, Any], base: str | None) -> Mapping[str, Any]:
    """The data an edition is merged into: all of the edition it extends, or only that one's published numbers."""
    found = {} if base is None else _loads(base)
    return found if "extends" in data else {"published": found.get("published", [])}


# --------------------------------------------------------------------------- the text


@lru_cache(maxsize=4)
def _loads(text: str) -> Mapping[str, Any]:
    """Cached, because one edition is parsed several times: for its base, its data, and the lines of mistakes."""
    return decode.from_toml(text)


def _error(path: str, line: int | None, sentence: str) -> DataError:
    where = ", ".join(part for part in (path, f"line {line}" if line else "") if part)
    return DataError(f"{where}: {sentence}" if where else sentence, _HINT, line=line)


def _text_problems(value: object, place: Place) -> Iterator[Problem]:
    """The problems of the texts in a value: they are empty or too long, or have characters that act on a terminal."""
    key = _key(place)
    if isinstance(value, str):
        if match := _INVISIBLE.search(value):
            yield place, f"There is a control or invisible character (U+{ord(match[0]):04X}) in `{key}`."
        if len(value) > MAX_TEXT_CHARACTERS:
            yield place, f"`{key}` has more than {MAX_TEXT_CHARACTERS:,} characters."
        if not value.strip():
            yield place, f"`{key}` is empty."
    elif isinstance(value, dict | list):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _text_problems(item, (*place, name))


# --------------------------------------------------------------------------- msgspec's messages in plain words


@cache
def _structs(kind: type) -> Mapping[str, Mapping[str, Any]]:
    """The JSON schema of every table of a file, by the name of its struct; `kind` is that of the whole file."""
    return msgspec.json.schema_components([kind], ref_template="{name}")[1]


def _schemas(place: Place, kind: type) -> list[Mapping[str, Any]]:
    """The JSON schemas of the values allowed at a place in the file."""
    found = [_structs(kind)[kind.__name__]]
    for part in place:
        below = [
            schema.get("items") if isinstance(part, int) else schema.get("properties", {}).get(part)
            for schema in found
        ]
        found = [variant for schema in below if schema for variant in _variants(schema, kind)]
    return found


def _variants(schema: Mapping[str, Any], kind: type) -> Iterator[Mapping[str, Any]]:
    """The schema with its reference resolved, and the alternatives that it allows."""
    resolved = _structs(kind)[schema["$ref"]] if "$ref" in schema else schema
    yield resolved
    for alternative in resolved.get("anyOf", ()):
        yield from _variants(alternative, kind)


_TYPES = {
    "int": "a whole number", "float": "a number", "str": "text", "bool": "true or false", "array": "a list",
    "object": "a table",
}  # fmt: skip


def schema_problem(message: str, kind: type) -> Problem:
    """The place and the sentence for one of msgspec's messages about a file's data, which should be a `kind`."""
    what, _, where = message.partition(" - at `$")
    steps = re.findall(r"\.([A-Za-z0-9_-]+)|\[(\d+)\]", where)
    place: Place = tuple(int(index) if index else name for name, index in steps)
    field, place_words = re.search(r"`(\w+)`$", what), _place_in_words(place)
    if what.startswith("Object missing required field") and field:
        return place, f"`{field[1]}` is missing in {place_words}."
    if what.startswith("Object contains unknown field") and field:
        fields = {name for schema in _schemas(place, kind) for name in schema.get("properties", ())}
        near = suggest(field[1], fields, "`{}`")
        return (*place, field[1]), f"`{field[1]}` is not a field of {place_words}.{near}"
    if what.startswith("Invalid"):
        words = [str(word) for schema in _schemas(place, kind) for word in schema.get("enum", ())]
        value = what.rpartition("value ")[2]
        listed = f"; it is one of {', '.join(words)}" if words else ""
        return place, f"{place_words} cannot be {value}{listed}."
    if match := re.fullmatch(r"Expected `str` matching regex '(.*)'", what.replace("\\\\", "\\")):
        rules = (each["description"] for each in _schemas(place, kind) if each.get("pattern") == match[1])
        return place, f"`{_key(place)}` is {next(rules, 'written differently')}."
    if what.startswith("Expected"):
        plain = re.sub(r"`(\w+)[^`]*`", lambda found: _TYPES.get(found[1], found[1]), what)
        return place, f"{place_words} must be {plain.removeprefix('Expected ').replace(', got', ', not')}."
    first = re.match(r"`(\w+)`", what)  # a sentence from a `__post_init__`, which begins with the key
    return (*place, first[1]) if first else place, what


def _key(place: Place) -> str:
    return next((part for part in reversed(place) if isinstance(part, str)), "")


def _place_in_words(place: Place) -> str:
    """A place in words: ``task 3, check 1``."""
    words: list[str] = []
    for part in place:
        if isinstance(part, int):
            words[-1] = f"{words[-1].removesuffix('s')} {part + 1}"
        else:
            words.append(part)
    return ", ".join(words) or "the file"


# --------------------------------------------------------------------------- an edition that extends another

_BY_ID = ("tasks", "facts")


def merge(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Merge an edition into its base: tasks and facts by id, tables key by key; any other value replaces the base's.

    New tasks and facts come last, and published numbers follow those of the base.
    """
    merged = {**base, **own}
    for key in base.keys() & own.keys():
        theirs, mine = base[key], own[key]
        if isinstance(theirs, Mapping) and isinstance(mine, Mapping):
            merged[key] = {**theirs, **mine}
        elif isinstance(mine, list) and key == "published":
            merged[key] = [*theirs, *mine]
        elif isinstance(mine, list) and key in _BY_ID:
            items, ids = list(theirs), [_id(item) for item in theirs]
            for item in mine:
                if _id(item) in ids:
                    index = ids.index(_id(item))
                    items[index] = {**theirs[index], **item}
                    ids[index] = ""  # a second item with this id is a new one
                else:
                    items.append(item)
            merged[key] = items
    return merged


def _id(item: object) -> object:
    return item.get("id") if isinstance(item, Mapping) else None


# --------------------------------------------------------------------------- lines

_LONG = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|#[^\n]*|("(?:\\.|[^"\\\n])*"|\'[^\'\n]*\')', re.DOTALL
)
"""Long strings, comments, and as a group short strings, in which neither of those begins."""
_TABLE = re.compile(r"\s*(\[\[?)\s*([A-Za-z_][^\],]*)\]\]?\s*$")
_KEY = re.compile(r"\s*([\w-]+(?:\s*\.\s*[\w-]+)*)\s*=")
_ITEM = re.compile(r"\s*[{\[\"'\d-]")


def line_of(text: str, place: Place) -> int | None:
    """The 1-based line of `place`, or of its nearest ancestor in the text; None for the root.

    Finds tables, keys, and those items of a list that begin a line.
    """
    found: dict[Place, int] = {}
    last: dict[Place, int] = {}
    table: Place = ()
    key: Place = ()
    item = 0
    # What long strings and comments contain is not TOML, but their lines count.
    plain = _LONG.sub(lambda match: match[1] or "\n" * match[0].count("\n"), text)
    for number, line in enumerate(plain.split("\n"), 1):
        if match := _TABLE.match(line):
            table, key = _table_place(last, match[2], match[1] == "[["), ()
            found.setdefault(table, number)
        elif match := _KEY.match(line):
            key, item = (*table, *re.split(r"\s*\.\s*", match[1])), 0
            found.setdefault(key, number)
        elif key and _ITEM.match(line):
            found.setdefault((*key, item), number)
            item += 1
    return next((found[place[:n]] for n in range(len(place), 0, -1) if place[:n] in found), None)


def _table_place(last: dict[Place, int], dotted: str, is_item: bool) -> Place:
    """The place of a table's header; `last` holds the last index used in each array of tables, and is updated."""
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
