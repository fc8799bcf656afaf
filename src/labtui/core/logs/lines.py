r"""From bytes in any chunks to the lines a person would have seen.

A progress bar written to a file is one line of hundreds of kilobytes: each update walks back with ``\b`` or
``\r`` and writes over the last. What counts is the last piece that is not blank. The cutter keeps that piece
and drops the rest while the bytes go by, so memory does not grow with the log. It also skips, in one
match of a compiled expression, whole stretches of lines that are nothing but a bar on its way.

Nothing about the meaning of lines enters here, save what a bar on its way looks like.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

PIECE_LIMIT = 32 * 1024
"""Bytes kept of one piece (text between two of ``\\n``, ``\\r``, ``\\b``); a longer one is cut."""

BINARY_LOOK = 1 << 20
"""The first bytes of a log that are looked at to see whether it is text."""

_ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_BLANK = b" \t\r\b\x00\x0b\x0c"
_CONTROLS = dict.fromkeys((*range(9), *range(10, 32), 127))
_STEP = 4096

# A bar on its way: perhaps a rank, "k/N" with k != N, then nothing but bytes that bars are made of (there
# is no capital letter among them but those of "ETA", so an error glued to a bar is seen). Possessive: a
# stretch of any length costs one pass and no memory. Where a window holds no other bytes at all, which
# `bytes.translate` tells ten times faster than a character class, the rest of a line needs no second look.
_BAR_BYTES = b"\x1b[]=>.0123456789abcdefghijklmnopqrstuvwxyz_:+-m;()/ \tETA\xe2\x94\x81\n"
_START = rb"(?:\x1b\[1m)?+ *+(\d++)/(?!\1[\x1b ])\d"
_RANK = rb"(?:\[?(?:default|rank)?\d{1,5}\]:? ?|\d{1,5}: )"
_REST = rb"[\x1b\[\]=>.0-9a-z_:+\-;()/ \tETA\xe2\x94\x81]*+\n)++"
_BARS = re.compile(rb"(?:" + _START + _REST)
_RANKED_BARS = re.compile(rb"(?:" + _RANK + _START + _REST)
_BARS_AMONG_BARS = re.compile(rb"(?:" + _START + rb"[^\n]*+\n)++")
_RANKED_AMONG_BARS = re.compile(rb"(?:" + _RANK + _START + rb"[^\n]*+\n)++")
_WINDOW = 1 << 16

# Progress lines of PyTorch's ImageNet example, one a batch: within an epoch only its first and last matter.
_TIME = rb"\d++(?:\.\d++)?+(?:e[+-]\d++)?+"
_TIMES = rb"\][ \t]++Time ++" + _TIME + rb" \( *+" + _TIME + rb"\).*+\n"
_PROGRESS = re.compile(
    rb"Epoch: \[(\d{1,9})\]\[ *+\d{1,9}/(\d{1,9})"
    + _TIMES
    + rb"(?:Epoch: \[\1\]\[ *+\d{1,9}/\2"
    + _TIMES
    + rb"){2,}+"
)
_BATCH = re.compile(rb"Epoch: \[\d++\]\[( *+\d++)")
_STRETCH = 1 << 18
_PRINTED = bytes((*range(32, 127), 9, 10))
_HEAD = 32
RANK = re.compile(
    rb" *\[(?:default|rank)?(?P<torch>\d{1,5})\]:? ?| *(?P<srun>\d{1,5}): |\[\d+,(?P<mpi>\d{1,5})\]<std(?:out|err)>: ?"
)
"""What torchrun, ``srun -l`` and ``mpirun --tag-output`` put before a line: the rank that wrote it."""
_PLAIN = bytes(set(range(256)) - {*range(8), 11, 12, *range(14, 32), 127})
"""Bytes that reducing leaves in a piece; behind others a word may hide."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line as read: its 1-based number, its reduced text, and whether it began by writing over the last."""

    number: int
    text: str
    continues: bool = False


class LineCutter:
    """Cuts bytes into reduced lines; the same lines for any chunking, less those that mean nothing.

    Lines that hold none of `words` may be left out (they are counted). `every_line` switches that off for
    as long as the caller needs all of them.
    """

    def __init__(self, words: Sequence[str] = (), piece_limit: int = PIECE_LIMIT) -> None:
        self._limit = piece_limit
        self._words = tuple(word.encode() for word in words)
        self._seen = 0  # how far in the current data words have been looked for
        self.every_line = False
        self._piece = bytearray()  # the open piece, at most limit + 1 bytes
        self._kept = b""  # the last closed piece of this line that is not blank
        self._head = b""  # how the line began: a bar's last piece no longer has the rank that stood there
        self._overwritten = False
        self._open = False  # bytes of the current line have been seen
        self._continues = False
        self.lines = 0
        self.size = 0
        self.zeros = 0

    def feed(self, data: bytes) -> Iterator[Line]:
        """Take the next bytes; yields the lines completed by them, without stretches of bars."""
        self.zeros += data.count(b"\x00", 0, max(0, BINARY_LOOK - self.size))
        self.size += len(data)
        position, end, self._seen = 0, len(data), 0
        while position < end:
            if not self._open and not self.every_line:
                position = self._skip_bars(data, position)
                position = self._skip_text(data, position)
                if position >= end:
                    return
            hop = 0 if self._open or self.every_line else _hop(data, position)
            newline = data.find(b"\n", position)
            self._take(data, position, end if newline < 0 else newline)
            if newline < 0:
                return
            yield self._cut()
            position = newline + 1
            if hop > position:
                self.lines += data.count(b"\n", position, hop)
                position = hop

    def finish(self) -> Iterator[Line]:
        """The last line, if it has no newline."""
        if self._open:
            yield self._cut()

    def _skip_bars(self, data: bytes, position: int) -> int:
        exact, quick = _BARS, _BARS_AMONG_BARS
        match = exact.match(data, position, position + 400)  # a glance: most logs hold no bars
        if match is None:
            exact, quick = _RANKED_BARS, _RANKED_AMONG_BARS
            match = exact.match(data, position, position + 400)
            if match is None:
                return position
        end = match.end()
        while True:
            window = data[end : end + _WINDOW]
            chosen = exact if window.translate(None, _BAR_BYTES) else quick
            last = data.rfind(b"\n", end, end + len(window)) + 1
            match = chosen.match(data, end, end + len(window))
            end = match.end() if match else end
            if end != last:  # the stretch is over within this window (or the data is)
                break
        self.lines += data.count(b"\n", position, end)
        return end

    def _skip_text(self, data: bytes, position: int) -> int:
        """Past the next window of whole lines if none of the words is in it; else the window must be cut."""
        if not self._words or position < self._seen:
            return position
        self._seen = end = data.rfind(b"\n", position, position + _WINDOW // 2) + 1
        if end == 0:
            self._seen = position + 1
            return position
        window = data[position:end]
        if window.translate(None, _PLAIN) or any(word in window for word in self._words):
            return position
        self.lines += window.count(b"\n")
        return end

    def _take(self, data: bytes, start: int, stop: int) -> None:
        if not self._open and stop > start:
            self._continues = data[start] == 8
        self._open = True
        if len(self._head) < _HEAD:
            self._head += data[start : min(stop, start + _HEAD - len(self._head))]
        last = max(data.rfind(b"\r", start, stop), data.rfind(b"\b", start, stop))
        if last < 0:
            room = self._limit + 1 - len(self._piece)
            if room > 0:
                self._piece += data[start : min(stop, start + room)]
            return
        self._overwritten = True
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
        if self._overwritten and (rank := RANK.match(self._head)) and not piece.startswith(rank[0]):
            piece = rank[0] + piece
        continues = self._continues
        self._piece.clear()
        self._kept = self._head = b""
        self._open = self._continues = self._overwritten = False
        self.lines += 1
        text = _ANSI.sub(b"", piece[: self._limit]).decode("utf-8", "replace")
        return Line(self.lines, text.translate(_CONTROLS).rstrip().removeprefix("\ufeff"), continues)


def _hop(data: bytes, position: int) -> int:
    """Where the last of a stretch of progress lines begins; 0 when the line here begins none.

    A stretch is of one epoch and its batches rise: what stands between its ends tells nothing more.
    """
    if not data.startswith(b"Epoch: [", position):
        return 0
    window = data[position : position + _STRETCH]
    match = None if window.translate(None, _PRINTED) else _PROGRESS.match(window)
    if match is None:
        return 0
    batches = _BATCH.findall(window, 0, match.end())
    same_width = (
        len(set(map(len, batches))) == 1
    )  # then they rise as numbers when they rise as text, blanks first
    order = batches if same_width else [int(batch) for batch in batches]
    if not all(map(operator.lt, order, order[1:])):
        return 0
    return position + window.rfind(b"\n", 0, match.end() - 1) + 1


def _before_separators(data: bytes, start: int, end: int) -> int:
    """Where the separators that end at `end` begin; a bar walks back one of them per character."""
    while end > start:
        floor = max(start, end - _STEP)
        kept = len(data[floor:end].rstrip(b"\r\b"))
        if kept:
            return floor + kept
        end = floor
    return start
