"""The last gate before the terminal: no text of any widget can steer it.

Textual writes a widget's text to the terminal as it is, so a job's name with an escape sequence in it could reach the
clipboard (OSC 52) or the window's title. Views clean what they know to be from outside; this filter makes it
impossible for all of them, those to come included. Textual's own sequences are no text and pass.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TypeVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.app import App
from textual.color import Color
from textual.filter import LineFilter

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

    def __init__(self, before: tuple[LineFilter, ...] = ()) -> None:
        super().__init__()
        self.before = before

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments, each as wide as before."""
        for each in self.before:
            segments = each.apply(segments, background)
        if all(segment.control or segment.text.isprintable() for segment in segments):
            return segments
        return [
            segment if segment.control else Segment(inert(segment.text), segment.style)
            for segment in segments
        ]


class HarmlessApp(App[_Result]):
    """What every app of ours is made from."""

    _gate = Harmless()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's filters and ours, as one that stays the same while they do: lines are cached by it."""
        before = tuple(super().get_line_filters())
        if before != self._gate.before:
            self._gate = Harmless(before)
        return [self._gate]
