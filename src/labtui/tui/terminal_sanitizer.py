"""From text of outside to harmless text: log lines as a terminal would show them, and the last gate of the screens."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence
from typing import TypeVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.app import App
from textual.color import Color
from textual.filter import LineFilter

from labtui.domain.ascii_text import ascii_text, ascii_wanted

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


_Result = TypeVar("_Result")


def inert(text: str) -> str:
    """The same text, as wide as before, without control, format and other characters that show nothing."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _instead(char) for char in text)


def _instead(char: str) -> str:
    return char if unicodedata.category(char) == "Zs" else " " * cell_len(char)


class Harmless(LineFilter):
    """Makes every segment of every line inert, after the filters that Textual itself wants.

    One filter for all of them, because each filter of an app costs a new `Strip` per line.
    """

    def __init__(self, before: tuple[LineFilter, ...] = (), *, ascii_only: bool = False) -> None:
        """`ascii_only`: every sign as one of ASCII (`LABTUI_ASCII=1`)."""
        super().__init__()
        self.before, self.ascii_only = before, ascii_only

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments, each as wide as before."""
        for each in self.before:
            segments = each.apply(segments, background)
        if self.ascii_only:
            segments = [
                segment if segment.control else Segment(ascii_text(segment.text), segment.style)
                for segment in segments
            ]
        if all(segment.control or segment.text.isprintable() for segment in segments):
            return segments
        return [
            segment if segment.control else Segment(inert(segment.text), segment.style)
            for segment in segments
        ]


class HarmlessApp(App[_Result]):
    """What every app of ours is made from."""

    _gate = Harmless(ascii_only=ascii_wanted(os.environ))

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's filters and ours, as one that stays the same while they do: lines are cached by it."""
        before = tuple(super().get_line_filters())
        if before != self._gate.before:
            self._gate = Harmless(before, ascii_only=self._gate.ascii_only)
        return [self._gate]
