"""A growing log as numbered lines, read lazily, and which of them are folded away. No Textual here."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from labtui.domain.terminal_text import display_text

BLOCK = 1 << 16
TAIL_BLOCKS = 8
LINE_MAX = 1 << 14
CACHED_BLOCKS = 48
CACHED_LINES = 4000
SEARCH_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class Growth:
    """What `refresh` found: lines added at the end, and whether the file began anew."""

    added: int
    restarted: bool = False


class LogFile:
    """Numbered lines of one file that may grow, shrink or not exist yet.

    `lines` counts known lines, an unfinished last one included. While `head_blocks` is not 0 the numbering starts
    at the first whole line of the tail; `adopt_head` returns by how much every number moves.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._reset()

    def _reset(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None
        self._identity: tuple[int, int] | None = None
        self.size = 0
        self._origin = 0  # first indexed block
        self._newlines_before: list[int] = [0]  # per indexed block; the last entry is the total
        self._ends_with_newline = True
        self._blocks: OrderedDict[int, tuple[bytes, list[int]]] = OrderedDict()
        self._texts: OrderedDict[int, str] = OrderedDict()
        self.counting = False

    def close(self) -> None:
        """Give the file back."""
        self._reset()

    @property
    def head_blocks(self) -> int:
        """Blocks at the front whose lines have not been counted yet."""
        return self._origin

    @property
    def lines(self) -> int:
        """How many lines can be asked for."""
        unfinished = 0 if self._ends_with_newline else 1
        cut = 1 if self._origin else 0
        return max(0, self._newlines_before[-1] + unfinished - cut)

    # ------------------------------------------------------------------ growing

    def refresh(self) -> Growth:
        """Look at the file again and index what was added (by the tick's share: cheap)."""
        try:
            status = self.path.stat()
        except OSError:
            restarted = self.size > 0
            if restarted:
                self._reset()
            return Growth(0, restarted)
        identity = (status.st_dev, status.st_ino)
        restarted = self._identity is not None and (identity != self._identity or status.st_size < self.size)
        if restarted:
            self._reset()
        if self._file is None:
            self._file = self.path.open("rb", buffering=0)
            self._identity = identity
            self._origin = max(0, status.st_size // BLOCK - TAIL_BLOCKS)
            self.size = self._origin * BLOCK
        before = self.lines
        if status.st_size > self.size:
            self._index(status.st_size)
        return Growth(self.lines - before, restarted)

    def _index(self, size: int) -> None:
        """Count the newlines of [self.size, size) into their blocks."""
        self._texts.pop(self.lines - 1, None)  # the last line may go on
        total = self._newlines_before.pop()
        offset = self.size
        last = b"\n"
        while offset < size:
            if offset % BLOCK == 0:
                self._newlines_before.append(total)
            piece = self.read(offset, min(BLOCK - offset % BLOCK, size - offset))
            if not piece:
                break
            total += piece.count(b"\n")
            last = piece[-1:]
            self._blocks.pop(offset // BLOCK, None)
            offset += len(piece)
        self._newlines_before.append(total)
        self._ends_with_newline = last == b"\n"
        self.size = offset

    def read(self, offset: int, count: int) -> bytes:
        """Raw bytes of the file; fewer where it ends."""
        if self._file is None:
            return b""
        self._file.seek(offset)
        return self._file.read(count) or b""

    # ------------------------------------------------------------------ the front of a large file

    def count_head(self) -> list[int]:
        """Newlines in each block before the tail. A third of a second per GB: call it in a thread."""
        counts: list[int] = []
        with self.path.open("rb", buffering=0) as file:
            buffer = bytearray(BLOCK)
            for _ in range(self._origin):
                if file.readinto(buffer) != BLOCK:
                    break
                counts.append(buffer.count(b"\n"))
        return counts

    def adopt_head(self, counts: list[int]) -> int:
        """Join the counted front; returns by how many lines all numbers moved up."""
        if len(counts) != self._origin or not counts:
            return 0
        before: list[int] = []
        total = 0
        for count in counts:
            before.append(total)
            total += count
        self._newlines_before = before + [total + number for number in self._newlines_before]
        self._origin = 0
        self._texts.clear()
        return total + 1

    # ------------------------------------------------------------------ lines

    def line(self, number: int) -> str:
        """The text of a line, harmless and without its newline; empty when there is no such line."""
        if not 0 <= number < self.lines:
            return ""
        text = self._texts.get(number)
        if text is None:
            text = display_text(self._raw_line(number))
            self._texts[number] = text
            while len(self._texts) > CACHED_LINES:
                self._texts.popitem(last=False)
        return text

    def _raw_line(self, number: int) -> bytes:
        start, end = self._span(number)
        if end - start <= LINE_MAX:
            return self._slice(start, end)
        tail = self._slice(end - LINE_MAX, end)
        rewritten = max(tail.rstrip(b"\r").rfind(b"\r"), tail.rfind(b"\x08"))
        return tail if rewritten >= 0 else self._slice(start, start + LINE_MAX)

    def _span(self, number: int) -> tuple[int, int]:
        first = number + (1 if self._origin else 0)
        start = 0 if first == 0 else self._newline_offset(first) + 1
        end = self.size if first >= self._newlines_before[-1] else self._newline_offset(first + 1)
        return start, end

    def _newline_offset(self, ordinal: int) -> int:
        """The file offset of the `ordinal`-th newline (from 1, within the indexed part)."""
        block = bisect_left(self._newlines_before, ordinal) - 1
        positions = self._block(block)[1]
        return (self._origin + block) * BLOCK + positions[ordinal - self._newlines_before[block] - 1]

    def _block(self, index: int) -> tuple[bytes, list[int]]:
        key = self._origin + index
        found = self._blocks.get(key)
        if found is None:
            data = self.read(key * BLOCK, min(BLOCK, self.size - key * BLOCK))
            found = (data, _newline_positions(data))
            self._blocks[key] = found
            while len(self._blocks) > CACHED_BLOCKS:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(key)
        return found

    def _slice(self, start: int, end: int) -> bytes:
        block, inside = divmod(start, BLOCK)
        if block >= self._origin and end <= (block + 1) * BLOCK:
            return self._block(block - self._origin)[0][inside : inside + end - start]
        return self.read(start, end - start)

    # ------------------------------------------------------------------ search

    def snapshot(self) -> LogFile:
        """The file as known now, with a handle of its own: for a search in a thread. Close it afterwards."""
        twin = LogFile(self.path)
        twin._file = self.path.open("rb", buffering=0)
        twin._identity = self._identity
        twin.size = self.size
        twin._origin = self._origin
        twin._newlines_before = list(self._newlines_before)
        twin._ends_with_newline = self._ends_with_newline
        return twin

    def find(self, needle: str, start: int, *, backwards: bool = False) -> int | None:
        """The next line from `start` (itself included) whose shown text holds `needle`, ASCII case ignored."""
        wanted = needle.lower()
        raw = wanted.encode("utf-8", errors="replace")
        while raw and 0 <= start < self.lines:
            begin, end = self._span(start)
            hit = self._raw_before(raw, end) if backwards else self._raw_after(raw, begin)
            number = None if hit is None else self._line_at(hit)
            if number is None or number < 0:
                return None
            if wanted in self.line(number).lower():
                return number
            start = number - 1 if backwards else number + 1
        return None

    def _line_at(self, offset: int) -> int:
        block = offset // BLOCK - self._origin
        if block < 0:
            return -1
        ordinal = self._newlines_before[block] + bisect_left(self._block(block)[1], offset % BLOCK)
        return ordinal - (1 if self._origin else 0)

    def _raw_after(self, needle: bytes, offset: int) -> int | None:
        overlap = len(needle) - 1
        while offset < self.size:
            piece = self.read(offset, min(SEARCH_AT_ONCE, self.size - offset)).lower()
            found = piece.find(needle)
            if found >= 0:
                return offset + found
            if len(piece) <= overlap:
                return None
            offset += len(piece) - overlap
        return None

    def _raw_before(self, needle: bytes, end: int) -> int | None:
        overlap = len(needle) - 1
        while end > 0:
            start = max(0, end - SEARCH_AT_ONCE)
            found = self.read(start, end - start).lower().rfind(needle)
            if found >= 0:
                return start + found
            if start == 0:
                return None
            end = start + overlap
        return None


def _newline_positions(data: bytes) -> list[int]:
    positions: list[int] = []
    at = data.find(b"\n")
    while at >= 0:
        positions.append(at)
        at = data.find(b"\n", at + 1)
    return positions


RECORD = ":::MLLOG"
"""How machine-readable records of a training begin."""
FOLDED_UP_TO = 64 << 20
"""A log larger than this (bytes) is shown as it is: nothing may be slow because of folding."""
PIECE = 1 << 20
_MARK = RECORD.encode()
_RECORDS = re.compile(rb"^" + _MARK, re.MULTILINE)


class Folding:
    """Rows of the view and lines of the file, where records take no row. `on` is what the student chose."""

    def __init__(self, *, on: bool = True) -> None:
        self.on = on
        self.forget()

    def forget(self) -> None:
        """Another file, or the same one anew."""
        self._hidden: array[int] = array("q")
        self._offset = 0  # first byte not looked at: the beginning of a line
        self._line = 0  # its number

    @property
    def hidden(self) -> int:
        """How many lines take no row now."""
        return len(self._hidden) if self.on else 0

    def grow(self, file: LogFile) -> None:
        """Look at the lines that were completed since."""
        if file.head_blocks or file.size > FOLDED_UP_TO:
            if self._offset:
                self.forget()
            return
        while self._offset < file.size:
            piece = file.read(self._offset, min(PIECE, file.size - self._offset))
            end = piece.rfind(b"\n") + 1
            if not end and len(piece) < PIECE:
                return  # a line that goes on
            end = end or len(piece)  # no record is as long as a piece
            self._index(piece[:end])
            self._offset += end

    def _index(self, lines: bytes) -> None:
        if _MARK not in lines:  # ten times as fast as the expression, and what most logs are
            self._line += lines.count(b"\n")
            return
        line, counted = self._line, 0
        for record in _RECORDS.finditer(lines):
            line += lines.count(b"\n", counted, record.start())
            counted = record.start()
            self._hidden.append(line)
        self._line = line + lines.count(b"\n", counted)

    def rows(self, lines: int) -> int:
        return max(0, lines - self.hidden)

    def line_of(self, row: int) -> int:
        """The file's line that a row shows."""
        if not self.hidden:
            return row
        low, high = 0, len(self._hidden)
        while low < high:  # how many hidden lines come before this row's line
            middle = (low + high) // 2
            if self._hidden[middle] - middle <= row:
                low = middle + 1
            else:
                high = middle
        return row + low

    def row_of(self, line: int) -> int:
        """The row that shows a line; for a hidden one, the row after it."""
        return line - bisect_left(self._hidden, line) if self.hidden else line

    def hides(self, line: int) -> bool:
        """Whether this line takes no row."""
        return bool(self.hidden) and bisect_right(self._hidden, line) != bisect_left(self._hidden, line)
