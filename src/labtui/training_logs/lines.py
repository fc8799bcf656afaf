"""Splits bytes, in chunks of any size, into lines.

Of a line that redraws itself only the last state remains, and each full bar over which an unfinished one was drawn.
What stood before a move of the cursor is left out, as it may be overwritten.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from labtui.training_logs.runs import EXPRESSIONS

PIECE_LIMIT = 32 * 1024
"""Bytes kept of one piece (text between two of ``\\n``, ``\\r``, ``\\b``); a longer one is cut."""

BINARY_LOOK = 1 << 20
"""The number of first bytes of a log that decide whether it is text."""

# Colours, modes, an erase from the cursor on, titles and links, a character set: they print and move nothing.
_SILENT = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[hlmnqt]|\[0?[JK]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\?)?|[ -/]+[0-~]|[=>])"
)
_MOVES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]?|[0-~])?")
_BLANK = b" \t\r\b\x00\x0b\x0c"
_CONTROLS = {**dict.fromkeys((*range(9), *range(10, 32), 127)), **dict.fromkeys((0, 11, 12), "\ufffd")}
"""What stands for control characters: nothing, or a sign where a hole in the file must not join two numbers."""
_MAX_BLANK_PIECES = 200
_WINDOW = 1 << 16
_FULL, _PIECES = b"100%|", re.compile(rb"[^\r\b]+")
_HEAD = 320
_PRINTED = bytes((*range(32, 127), 9, 10))

# An unfinished bar: perhaps a rank, "k/N" with k != N, then only bytes that bars consist of (no capital letters but
# those of "ETA", so an error printed into a bar is seen). The bar of step 1 is kept: it shows how long that step took.
_RANK = rb"(?:\[?(?:default|rank)?\d{1,5}\]:? ?|\d{1,5}: )?"
_BAR = _RANK + rb"(?:\x1b\[1m)? *(?!1/)(?P<done>\d+)/(?!(?P=done)[\x1b ])\d++(?=[ \n]|\x1b\[)"
_BAR_BYTES = b"\x1b[]=>.0123456789abcdefghijklmnopqrstuvwxyz_:+-;()/ \tETA\xe2\x94\x81"
# Progress lines of PyTorch's ImageNet example, one per batch: only the first and the last of an epoch matter.
_HEAD_OF_BATCH = rb"(?P<head>" + _RANK + rb"(?:Epoch: \[\d{1,9}\]|Test: ))\[ *\d{1,9}/(?P<total>\d{1,9})"
_TIME = rb"\d+(?:\.\d+)?(?:e[+-]\d+)?"
_TIMES = rb"\][ \t]+Time +" + _TIME + rb" \( *" + _TIME + rb"\)[^\n]*\n"
_BATCHES = _HEAD_OF_BATCH + _TIMES + rb"(?:(?P=head)\[ *\d{1,9}/(?P=total)" + _TIMES + rb"){2,}"
_OTHERS = rb"(?:(?!" + _BAR.replace(b"done", b"number") + rb"|" + _RANK + rb"(?:Epoch: \[|Test: ))[^\n]*\n)+"
_EITHER = rb"(?P<bars>(?:" + _BAR + rb"%b*\n)+)|(?P<batches>" + _BATCHES + rb")|" + _OTHERS + rb"|[^\n]*\n"
_LINES = re.compile(_EITHER.replace(rb"%b", rb"[" + re.escape(_BAR_BYTES) + rb"]"))
_LINES_OF_BAR_BYTES = re.compile(_EITHER.replace(rb"%b", rb"[^\n]"))
"""The same, three times as fast, for a window that has only bytes of bars and newlines."""
_BATCH = re.compile(rb"\[ *(\d+)/")
RANK = re.compile(EXPRESSIONS["rank"].pattern.encode())


class LogLine(msgspec.Struct, frozen=True, gc=False):
    """A line as read: its 1-based number, its reduced text, and whether it `continues` (overwrites) the one before.

    Of an overwritten line, `head` is the beginning (which has the first bar of an epoch), `before` the last piece but
    one.
    """

    number: int
    text: str
    continues: bool = False
    head: str = ""
    before: str = ""


class LineCutter:
    """Cuts bytes into reduced lines, the same for any chunking but for lines that mean nothing.

    Unfinished bars and batches within an epoch may be left out (they still count as lines). The caller sets
    `every_line` for as long as it needs all of them.
    """

    def __init__(self, piece_limit: int = PIECE_LIMIT) -> None:
        self._limit = piece_limit
        self.every_line = False
        self._open = False  # the current line began in an earlier chunk
        self._head = b""  # its beginning: the last piece of a bar lacks the rank that is there
        self._kept = b""  # its last closed piece that is not blank
        self._piece = b""  # its open piece, at most limit + 1 bytes
        self._overwritten = False
        self.lines = 0
        self.size = 0
        self.zeros = 0

    def feed(self, data: bytes) -> Iterator[LogLine]:
        """Take the next bytes; yield the lines that they complete."""
        self.zeros += data.count(b"\x00", 0, max(0, BINARY_LOOK - self.size))
        self.size += len(data)
        at, whole = 0, data.rfind(b"\n") + 1
        if self._open and whole:
            at = data.find(b"\n") + 1
            yield from self._extend(data[: at - 1])
            yield from self._cut()
        while at < whole:
            stop = data.rfind(b"\n", at, at + _WINDOW) + 1 or data.find(b"\n", at) + 1
            window, at = data[at:stop], stop
            yield from self._split_window(window)
        if whole < len(data):
            yield from self._extend(data[whole:])

    def finish(self) -> Iterator[LogLine]:
        """The last line, if it has no newline."""
        if self._open:
            yield from self._cut()

    def _split_window(self, window: bytes) -> Iterator[LogLine]:
        plain = not window.translate(None, _PRINTED)
        lines = _LINES if window.translate(None, _BAR_BYTES + b"\n") else _LINES_OF_BAR_BYTES
        for match in lines.finditer(window):
            raw, kind = match[0], None if self.every_line else match.lastgroup
            if kind == "bars":
                self.lines += raw.count(b"\n")
                continue
            if kind == "batches" and plain and _are_rising(raw):
                first, last = raw.find(b"\n") + 1, raw.rfind(b"\n", 0, -1) + 1
                yield from self._plain_lines(raw[:first])
                self.lines += raw.count(b"\n", first, last)
                raw = raw[last:]
            if plain:
                yield from self._plain_lines(raw)
                continue
            for one in raw[:-1].split(b"\n"):
                yield from self._extend(one)
                yield from self._cut()

    def _plain_lines(self, raw: bytes) -> Iterator[LogLine]:
        for text in raw[:-1].decode("ascii").split("\n"):
            self.lines += 1
            yield LogLine(self.lines, text[: self._limit].rstrip())

    def _extend(self, part: bytes) -> Iterator[LogLine]:
        """Add to the open line; yield its full bars over which another was drawn."""
        self._open = True
        self._head += part[: _HEAD - len(self._head)]
        last = max(part.rfind(b"\r"), part.rfind(b"\b"))
        if last >= 0:
            self._overwritten = True
            closed = self._piece + part[:last]
            yield from self._full_bars(closed)
            self._kept = self._last_piece(closed) or self._kept
            self._piece = b""
        self._piece += part[last + 1 : last + 2 + self._limit - len(self._piece)]

    def _full_bars(self, pieces: bytes) -> Iterator[LogLine]:
        """The full bars up to the last of these pieces that the next piece, of another bar, overwrites."""
        before = self._kept
        if _FULL in before or _FULL in pieces:
            for one in _PIECES.findall(pieces):
                if not _is_blank(piece := one[: self._limit]):
                    if _FULL in before and _FULL not in piece:
                        yield LogLine(self.lines + 1, self._text(before))
                    before = piece

    def _last_piece(self, text: bytes) -> bytes:
        """The last piece that is not blank, cut to the limit; b"" if there is none."""
        for _ in range(_MAX_BLANK_PIECES):
            text = text.rstrip(_BLANK)
            begin = max(text.rfind(b"\r"), text.rfind(b"\b")) + 1
            if not _is_blank(piece := text[begin : begin + self._limit]):
                return piece
            text = text[:begin]
        return b""

    def _cut(self) -> Iterator[LogLine]:
        yield from self._full_bars(self._piece)
        piece, before = self._piece[: self._limit], self._kept
        if _is_blank(piece):
            piece, before = self._kept, b""
        continues, head = self._head.startswith(b"\b"), self._head if self._overwritten else b""
        text = self._text(piece)
        self._piece = self._kept = self._head = b""
        self._open = self._overwritten = False
        self.lines += 1
        yield LogLine(self.lines, text, continues, _decode(head), _decode(before[:_HEAD]))

    def _text(self, piece: bytes) -> str:
        """A piece of the open line as text, with the rank that its beginning may have."""
        piece = _reduced(piece).rstrip(_BLANK).rpartition(b"\r")[2]
        if (rank := RANK.match(self._head)) and not piece.startswith(rank[0]):
            piece = rank[0] + piece
        text = piece[: self._limit].decode("utf-8", "replace").translate(_CONTROLS)
        return text.strip("\ufffd").rstrip().removeprefix("\ufeff")


def _reduced(piece: bytes) -> bytes:
    """A piece without what prints nothing; a move of the cursor is a carriage return."""
    return _MOVES.sub(b"\r", _SILENT.sub(b"", piece))


def _is_blank(piece: bytes) -> bool:
    return not _reduced(piece).strip(_BLANK)


def _decode(piece: bytes) -> str:
    return _reduced(piece).decode("utf-8", "replace") if piece else ""


def _are_rising(lines: bytes) -> bool:
    """Whether the numbers of these batches rise: those between the first and the last then say nothing more."""
    batches = [int(number) for number in _BATCH.findall(lines)]
    return batches == sorted(set(batches))


# --------------------------------------------------------------------------- prefixes of a line

_MARK_BEGINS = " [|0123456789Rr"
"""The characters that a rank's mark may begin with."""
MAX_PREFIXES = 4
"""The most prefixes of one line: ``3: [default0]:2026-11-21 10:00:00,123 - INFO - ``."""

Writer = tuple[int, ...]
"""Who wrote a line: a number at each level (node, process), empty for a line without a mark."""


def readings(text: str, *, marked: bool) -> Iterator[tuple[str, Writer]]:
    """The line without a rank's mark (if lines are `marked`), then with one prefix less each time; and its writer."""
    writer: Writer = ()
    match = EXPRESSIONS["rank"].match(text) if marked and text[0] in _MARK_BEGINS else None
    for _ in range(MAX_PREFIXES):
        if match is not None:
            rank = match.lastgroup and match[match.lastgroup]
            text, writer = text[match.end() :], writer if rank is None else (*writer, int(rank))
        yield text, writer
        match = EXPRESSIONS["prefix"].match(text)
        if match is None:
            return


# --------------------------------------------------------------------------- a last line without a newline


def sure_part(text: str, earlier: Iterable[str]) -> str:
    """What the beginning of a line says, however it goes on: ``12 s`` may become 12 steps, or seconds of a step.

    That is all of it, if it ends in a bracket or a full stop, or looks like an `earlier` line. Else its last word is
    left out, and the numbers before it, each with the word after it.
    """
    alike = not EXPRESSIONS["open"].search(text) and _shape(text) in map(_shape, earlier)
    if alike or EXPRESSIONS["closed"].search(text):
        return text
    words = text.split(" ")[:-1]
    while re.search(r"\d", " ".join(words[-2:])):
        words.pop()
    return " ".join(words)


def _shape(text: str) -> str:
    """A text with its numbers blanked, but for how many digits follow a point or a colon."""
    return re.sub(r"\d", "0", re.sub(r"(?<![.:\d])\d+", "#", text))
