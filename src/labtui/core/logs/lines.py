r"""From bytes in any chunks to the lines a person would have seen.

A progress bar written to a file is one line of hundreds of kilobytes: each update walks back with ``\b`` or
``\r`` and writes over the last. What counts is the last piece that is not blank. The cutter keeps that piece
and drops the rest while the bytes go by, so memory does not grow with the log. It also skips, in one
match of a compiled expression, whole stretches of lines that are nothing but a bar on its way.

Nothing about the meaning of lines enters here, save what a bar on its way looks like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

PIECE_LIMIT = 32 * 1024
"""Bytes kept of one piece (text between two of ``\\n``, ``\\r``, ``\\b``); a longer one is cut."""

_ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_BLANK = b" \t\r\b\x00\x0b\x0c"
_CONTROLS = dict.fromkeys((*range(9), *range(10, 32), 127))
_STEP = 4096

# A bar on its way: "k/N" with k != N, then only what bars are made of. The second alternative is PyTorch's
# form of the same. `++` and `*+` are possessive: no backtracking, so a stretch of lines costs one pass.
_BAR_BYTES = rb"[\x1b\[\]=>.0-9a-z_:+\-m;() \tETA\xe2\x94\x81]"
_BARS = re.compile(
    rb"(?:(?:\[?(?:default|rank)?\d{1,5}\]?: ?)?+"
    rb"(?:\x1b\[1m)?+ *+(\d++)/(?!\1[\x1b ])\d++(?:\x1b\[0m)?+ "
    + _BAR_BYTES
    + rb"*+(?:s/(?:step|sample|batch)"
    + _BAR_BYTES
    + rb"*+)?+\n)++"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line as read: its 1-based number, its reduced text, and whether it began by writing over the last."""

    number: int
    text: str
    continues: bool = False


class LineCutter:
    """Cuts bytes into reduced lines; the same lines for any chunking."""

    def __init__(self, piece_limit: int = PIECE_LIMIT) -> None:
        self._limit = piece_limit
        self._piece = bytearray()  # the open piece, at most limit + 1 bytes
        self._kept = b""  # the last closed piece of this line that is not blank
        self._open = False  # bytes of the current line have been seen
        self._continues = False
        self.lines = 0
        self.size = 0
        self.zeros = 0

    def feed(self, data: bytes) -> Iterator[Line]:
        """Take the next bytes; yields the lines completed by them, without stretches of bars."""
        self.size += len(data)
        if self.size <= 1 << 20:
            self.zeros += data.count(b"\x00")
        position, end = 0, len(data)
        while position < end:
            if not self._open:
                position = self._skip_bars(data, position)
                if position >= end:
                    return
            newline = data.find(b"\n", position)
            self._take(data, position, end if newline < 0 else newline)
            if newline < 0:
                return
            yield self._cut()
            position = newline + 1

    def finish(self) -> Iterator[Line]:
        """The last line, if it has no newline."""
        if self._open:
            yield self._cut()

    def _skip_bars(self, data: bytes, position: int) -> int:
        match = _BARS.match(data, position)
        if match is None:
            return position
        self.lines += data.count(b"\n", position, match.end())
        return match.end()

    def _take(self, data: bytes, start: int, stop: int) -> None:
        if not self._open and stop > start:
            self._continues = data[start] == 8
        self._open = True
        last = max(data.rfind(b"\r", start, stop), data.rfind(b"\b", start, stop))
        if last < 0:
            room = self._limit + 1 - len(self._piece)
            if room > 0:
                self._piece += data[start : min(stop, start + room)]
            return
        self._kept = self._last_piece(data, start, last)
        self._piece = bytearray(data[last + 1 : min(stop, last + 2 + self._limit)])

    def _last_piece(self, data: bytes, start: int, end: int) -> bytes:
        """The last piece of data[start:end] that is not blank; the first of them continues the open one."""
        while True:
            end = _before_separators(data, start, end)
            floor = max(start, end - self._limit - 2)
            begin = max(data.rfind(b"\r", floor, end), data.rfind(b"\b", floor, end)) + 1
            if begin == 0 and floor > start:  # longer than the limit: not blank, but where does it begin?
                begin = max(data.rfind(b"\r", start, floor), data.rfind(b"\b", start, floor)) + 1
            if begin == 0:
                piece = bytes(self._piece) + data[start : min(end, start + self._limit + 1)]
                return piece[: self._limit + 1] if not self._blank(piece) else self._kept
            piece = data[begin : min(end, begin + self._limit + 1)]
            if not self._blank(piece):
                return piece
            end = begin - 1

    def _blank(self, piece: bytes) -> bool:
        return len(piece) <= self._limit and not _ANSI.sub(b"", piece).strip(_BLANK)

    def _cut(self) -> Line:
        piece = bytes(self._piece)
        if self._blank(piece):
            piece = self._kept
        continues = self._continues
        self._piece.clear()
        self._kept = b""
        self._open = self._continues = False
        self.lines += 1
        text = _ANSI.sub(b"", piece[: self._limit]).decode("utf-8", "replace")
        return Line(self.lines, text.translate(_CONTROLS).rstrip().removeprefix("\ufeff"), continues)


def _before_separators(data: bytes, start: int, end: int) -> int:
    """Where the separators that end at `end` begin; a bar walks back one of them per character."""
    while end > start:
        floor = max(start, end - _STEP)
        kept = len(data[floor:end].rstrip(b"\r\b"))
        if kept:
            return floor + kept
        end = floor
    return start
