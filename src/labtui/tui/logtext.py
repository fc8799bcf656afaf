"""From a raw log line to harmless text: progress bars collapsed, escapes inert. Pure.

A terminal would show only what a line holds after its carriage returns and backspaces; so do we. Everything
that could steer a terminal (escape sequences, control characters, bidirectional overrides) is removed or made visible.
"""

from __future__ import annotations

import re
import unicodedata

_ESCAPES = re.compile(
    r"""\x1b (?:
        \[ [0-?]* [ -/]* [@-~]            # CSI: colours, cursor
      | [\]PX^_] .*? (?: \x07 | \x1b\\ | $ )  # OSC, DCS, SOS, PM, APC with their strings
      | [ -/]* [0-~]                      # two-character sequences
    )""",
    re.VERBOSE | re.DOTALL,
)
_C1_ESCAPES = re.compile(r"\x9b[0-?]*[ -/]*[@-~]|[\x90\x98\x9d-\x9f].*?(?:\x9c|\x07|$)", re.DOTALL)
_MOVES = re.compile(r"[\r\x08]+")
_HARMLESS = re.compile(r"[\x20-\x7e]*\Z")
TAB = 8


def display_text(raw: bytes) -> str:
    """What a terminal would leave on the screen of this line (without its newline), as plain text."""
    text = raw.decode("utf-8", errors="replace")
    if _HARMLESS.match(text):
        return text
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    text = _C1_ESCAPES.sub("", text)
    if "\r" in text or "\x08" in text:
        text = _overwrite(text)
    return _visible(text.expandtabs(TAB))


def _overwrite(text: str) -> str:
    """Carriage returns and backspaces applied: later characters replace earlier ones."""
    text = text.rstrip("\r")
    line: list[str] = []
    at = 0
    start = 0
    for move in _MOVES.finditer(text):
        at = _write(line, at, text[start : move.start()])
        last_return = move.group().rfind("\r")
        at = 0 if last_return >= 0 else at
        at = max(0, at - move.group().count("\x08", last_return + 1))
        start = move.end()
    _write(line, at, text[start:])
    return "".join(line).rstrip()


def _write(line: list[str], at: int, piece: str) -> int:
    if at == 0 and len(piece) >= len(line):
        line[:] = piece
    else:
        line[at : at + len(piece)] = piece
    return at + len(piece)


def _visible(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or unicodedata.category(character) == "Zs"
        else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )
