"""From bytes in any encoding and any chunks to text lines, with carriage-return redraws reduced."""

from __future__ import annotations

import codecs
import operator
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Utf8:
    """Bytes in any chunks in, UTF-8 out: UTF-16 is known by its mark, as PowerShell writes it."""

    def __init__(self) -> None:
        self._head: bytes | None = b""  # the first bytes, until there are two
        self._decoder: codecs.IncrementalDecoder | None = None

    def feed(self, data: bytes, *, final: bool = False) -> bytes:
        """The next bytes as UTF-8."""
        if self._head is not None:
            data = self._head + data
            self._head = data if len(data) < 2 and not final else None
            if self._head is not None:
                return b""
            if data.startswith(_MARKS):
                self._decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
        return data if self._decoder is None else self._decoder.decode(data, final).encode("utf-8", "replace")


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
_BARS = re.compile(rb"(?:" + _RANK + rb"?+" + _START + _REST)
_AMONG_BARS = re.compile(rb"(?:" + _RANK + rb"?+" + _START + rb"[^\n]*+\n)++")
_WINDOW = 1 << 16

# Progress lines of PyTorch's ImageNet example, one a batch: within an epoch only its first and last matter.
_TIME = rb"\d++(?:\.\d++)?+(?:e[+-]\d++)?+"
_TIMES = rb"\][ \t]++Time ++" + _TIME + rb" \( *+" + _TIME + rb"\).*+\n"
_HEAD_OF_BATCH = rb"((?:" + _RANK + rb")?(?:Epoch: \[\d{1,9}\]|Test: ))\[ *+\d{1,9}/(\d{1,9})" + _TIMES
_PROGRESS = re.compile(_HEAD_OF_BATCH + rb"(?:\1\[ *+\d{1,9}/\2" + _TIMES + rb"){2,}+")
_PROGRESS_LINE = re.compile(rb"(?:" + _RANK + rb")?(?:Epoch|Test): \[")
_BATCH = re.compile(rb"\[ *+(\d++)/")
_STRETCHES = (1 << 13, 1 << 15, 1 << 18)
_LONG_LINE = 2048
_PRINTED = bytes((*range(32, 127), 9, 10))
_FIRST_BAR = re.compile(rb"(?:" + _RANK + rb")?(?:\x1b\[1m)? *1/")
_HEAD = 320
RANK = re.compile(
    rb" *\[(?:default|rank|GPU)?(?P<torch>\d{1,5})\](?:<std(?:out|err)>)?:? ?| *(?P<srun>\d{1,5}): "
    rb"|\[\d+,(?P<mpi>\d{1,5})\]<std(?:out|err)>: ?"
)
"""What torchrun, horovodrun, ``srun -l`` and ``mpirun --tag-output`` put before a line: the rank that wrote it."""
_PLAIN = bytes(set(range(256)) - {*range(8), 11, 12, *range(14, 32), 127})
"""Bytes that reducing leaves in a piece; behind others a word may hide."""


class LogLine(NamedTuple):
    """A line as read: its 1-based number, its reduced text, and whether it began by writing over the last.

    Of a line that was written over, `head` is how it began (the first bar of an epoch stands there), and `before`
    the last piece but one.
    """

    number: int
    text: str
    continues: bool = False
    head: str = ""
    before: str = ""


class LineCutter:
    """Cuts bytes into reduced lines; the same lines for any chunking, less those that mean nothing.

    Lines that hold none of `words` may be left out (they are counted). `every_line` switches that off for
    as long as the caller needs all of them.
    """

    def __init__(self, words: Sequence[str] = (), piece_limit: int = PIECE_LIMIT) -> None:
        self._limit = piece_limit
        self._words = tuple(word.encode() for word in words)
        self._seen = 0  # how far in the current data words have been looked for
        self._odd = 0  # how far it holds more than simple lines
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

    def feed(self, data: bytes) -> Iterator[LogLine]:
        """Take the next bytes; yields the lines completed by them, without stretches of bars."""
        self.zeros += data.count(b"\x00", 0, max(0, BINARY_LOOK - self.size))
        self.size += len(data)
        position, end, self._seen, self._odd = 0, len(data), 0, 0
        while position < end:
            if not self._open and not self.every_line:
                position = self._skip_bars(data, position)
                position = self._skip_text(data, position)
                if position >= end:
                    return
            if not self._open and (simple := self._simple_lines(data, position)) > position:
                for raw in data[position : simple - 1].split(b"\n"):
                    self.lines += 1
                    yield LogLine(self.lines, raw[: self._limit].decode("ascii").rstrip())
                position = simple
                continue
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

    def finish(self) -> Iterator[LogLine]:
        """The last line, if it has no newline."""
        if self._open:
            yield self._cut()

    def _skip_bars(self, data: bytes, position: int) -> int:
        if _FIRST_BAR.match(data, position):  # tells how long the first step took
            return position
        match = _BARS.match(data, position, position + 400)  # a glance: most logs hold no bars
        if match is None:
            return position
        end = _end_of_lines(data, match)
        while True:
            window = data[end : end + _WINDOW]
            chosen = _BARS if window.translate(None, _BAR_BYTES) else _AMONG_BARS
            last = data.rfind(b"\n", end, end + len(window)) + 1
            match = chosen.match(data, end, end + len(window))
            end = _end_of_lines(data, match) if match else end
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

    def _simple_lines(self, data: bytes, position: int) -> int:
        """The end of the next window of whole lines, if nothing in it is written over and no bar is on its way."""
        if position < self._odd:
            return position
        end = data.rfind(b"\n", position, position + _WINDOW // 8) + 1
        window = data[position:end]
        if window.translate(None, _PRINTED) or b"ETA: " in window or b": [" in window:
            self._odd = end
            return position
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

    def _cut(self) -> LogLine:
        piece, before = bytes(self._piece), self._kept
        if self._blank(piece):
            piece, before = self._kept, b""
        if self._overwritten and (rank := RANK.match(self._head)) and not piece.startswith(rank[0]):
            piece = rank[0] + piece
        continues = self._continues
        head = self._head if self._overwritten else b""
        self._piece.clear()
        self._kept = self._head = b""
        self._open = self._continues = self._overwritten = False
        self.lines += 1
        text = _lines_plain(piece[: self._limit]).translate(_CONTROLS).rstrip().removeprefix("\ufeff")
        return LogLine(self.lines, text, continues, _lines_plain(head), _lines_plain(before[:_HEAD]))


def _lines_plain(piece: bytes) -> str:
    return _ANSI.sub(b"", piece).decode("utf-8", "replace") if piece else ""


def _hop(data: bytes, position: int) -> int:
    """Where the last of a stretch of progress lines begins; 0 when the line here begins none.

    A stretch is of one epoch and its batches rise: what stands between its ends tells nothing more.
    """
    if _PROGRESS_LINE.match(data, position) is None:
        return 0
    for size in _STRETCHES:
        window = data[position : position + size]
        match = None if window.translate(None, _PRINTED) else _PROGRESS.match(window)
        if match is None or match.end() < size - _LONG_LINE:
            break
    if match is None:
        return 0
    end = _end_of_lines(window, match)
    batches = [int(batch) for batch in _BATCH.findall(window, 0, end)]
    if not all(map(operator.lt, batches, batches[1:])):
        return 0
    return position + window.rfind(b"\n", 0, end - 1) + 1


def _end_of_lines(data: bytes, match: re.Match[bytes]) -> int:
    """Where the last whole line of a match ends.

    Python before 3.11.5 (Debian 12 has 3.11.2) counts the beginning of the line that ended a possessive repeat as
    matched: https://github.com/python/cpython/issues/106052
    """
    return data.rfind(b"\n", match.start(), match.end()) + 1


def _before_separators(data: bytes, start: int, end: int) -> int:
    """Where the separators that end at `end` begin; a bar walks back one of them per character."""
    while end > start:
        floor = max(start, end - _STEP)
        kept = len(data[floor:end].rstrip(b"\r\b"))
        if kept:
            return floor + kept
        end = floor
    return start


# --------------------------------------------------------------------------- what stands before a line

_RANK_MARK = re.compile(RANK.pattern.decode())
_PREFIX = re.compile(
    RANK.pattern.decode() + r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?:? "
    r"|\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]?(?: ?[-|:,] ?| )"  # Python's logging
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}(?: |(?=\[))"
    r"|[IW]\d{4} \d\d:\d\d:\d\d\.\d{1,6} +\d{1,9} [\w.]{1,80}:\d{1,6}\] "  # absl
    r"|(?:\[?[\w.]{1,80}\]? ?[-|:] ?)?\[?(?:INFO|DEBUG|WARNING)\]?(?::[\w.]{1,80}:| ?[-|:] ?| +)"
)
_MARK_BEGINS = " [0123456789"
"""How a rank's mark begins."""
MAX_PREFIXES = 4
"""Prefixes of one line: ``3: [default0]:2026-11-21 10:00:00,123 - INFO - ``."""

Writer = tuple[int, ...]
"""Who wrote a line: a number at each level (node, process), empty for one that bears no mark."""


def split_rank(text: str) -> tuple[str, Writer]:
    """The line without a rank's mark, and the rank."""
    match = _RANK_MARK.match(text) if text[0] in _MARK_BEGINS else None
    return (text, ()) if match is None else (text[match.end() :], _writer(match))


def split_prefix(text: str) -> tuple[str, Writer] | None:
    """The line without its first prefix, and who wrote it by that; None without."""
    match = _PREFIX.match(text)
    return None if match is None else (text[match.end() :], _writer(match))


def _writer(match: re.Match[str]) -> Writer:
    rank = match["torch"] or match["srun"] or match["mpi"]
    return () if rank is None else (int(rank),)
