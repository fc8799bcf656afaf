"""Which lines of a log are shown: machine-readable records are folded away, so that the epochs are not drowned in them.

Only the numbers of hidden lines are kept; the file is read once, as it grows. The mirror is not touched.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right

from labtui.tui.widgets.log_file import LogFile

RECORD = ":::MLLOG"
"""How machine-readable records of a training begin."""

FOLDED_UP_TO = 64 << 20
"""A log larger than this (bytes) is shown as it is: nothing may be slow because of folding."""

PIECE = 1 << 20
_RECORDS = re.compile(rb"^" + RECORD.encode(), re.MULTILINE)


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
        line, counted = self._line, 0
        for record in _RECORDS.finditer(lines):
            line += lines.count(b"\n", counted, record.start())
            counted = record.start()
            self._hidden.append(line)
        self._line = line + lines.count(b"\n", counted)

    def rows(self, lines: int) -> int:
        """Rows for so many lines."""
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
