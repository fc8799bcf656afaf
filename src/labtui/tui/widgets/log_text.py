"""The end of a log as lines: the last 16 MB, kept up to date with the mirror. `labtui log` has the rest."""

from __future__ import annotations

import os
from bisect import bisect_left
from functools import lru_cache
from pathlib import Path

from labtui.cluster.local_files import reader_inside, stat_inside
from labtui.domain.terminal_text import display_text

MAX_BYTES = 16 << 20
SLACK_BYTES = 1 << 20
"""So much more than `MAX_BYTES` may be kept before the front is dropped again."""
RECORD = b":::MLLOG"


class LogText:
    """The kept lines, by their 1-based number in the file; `fold` leaves machine-readable records out of the rows.

    Of a file with more than `MAX_BYTES` the lines before the kept ones are counted once, in chunks.
    """

    def __init__(self, path: Path, root: Path | None = None) -> None:
        """`root`: the lab folder, below which no link is followed."""
        self.path = path
        self._root = root or path.parent
        self.fold = True
        self._forget()

    def _forget(self) -> None:
        self._lines: list[bytes] = []
        self._open = False  # whether the last line is still being written
        self._first = 1  # the number of the first kept line
        self._rows: list[int] = []  # the numbers of the lines that are shown
        self._bytes = 0
        self._at = 0
        self._file = 0

    @property
    def last(self) -> int:
        """The number of the last line, the one that is being written included."""
        return self._first + len(self._lines) - 1

    @property
    def hidden(self) -> int:
        return len(self._lines) - len(self._rows)

    def rows(self) -> int:
        return len(self._rows)

    def number(self, row: int) -> int:
        """The number of the line on a row."""
        return self._rows[min(max(0, row), len(self._rows) - 1)] if self._rows else 0

    def row(self, number: int) -> int:
        """The row of a line, or of the next one that is shown."""
        return min(bisect_left(self._rows, number), max(0, len(self._rows) - 1))

    def shown_before(self, number: int) -> int:
        """The line itself; for a record that is folded away, the printed line that it is about."""
        row = self.row(number)
        while row > 0 and (self._rows[row] > number or self.line(self._rows[row]).startswith("Epoch ")):
            row -= 1
        return self.number(row)

    def line(self, number: int) -> str:
        """A line as a terminal would leave it."""
        place = number - self._first
        return _shown(self._lines[place]) if 0 <= place < len(self._lines) else ""

    def turn_folding(self) -> None:
        """Show the records, or fold them away."""
        self.fold = not self.fold
        self._rows = [at for at, line in enumerate(self._lines, self._first) if self._is_row(line)]

    def _is_row(self, line: bytes) -> bool:
        return not (self.fold and line.startswith(RECORD))

    def refresh(self) -> tuple[bool, bool]:
        """Read what is new; says whether something is, and whether the file began anew."""
        try:
            status = stat_inside(self._root, self.path)
            if status is None:
                return False, False
            if restarted := bool(self._at and (status.st_size < self._at or status.st_ino != self._file)):
                self._forget()
            if status.st_size == self._at:
                return False, restarted
            with reader_inside(self._root, self.path) as file:
                if not self._at and status.st_size > MAX_BYTES:
                    self._skip_front(file.fileno(), status.st_size - MAX_BYTES)
                file.seek(self._at)
                data = file.read()
        except OSError:
            return False, False
        self._file = status.st_ino
        self._at += len(data)
        self._take(data)
        return True, restarted

    def _skip_front(self, file: int, until: int) -> None:
        """Count the lines of the front; the kept ones begin with a whole line."""
        at = lines = 0
        while at < until:
            chunk = os.read(file, min(SLACK_BYTES, until - at))
            lines += chunk.count(b"\n")
            at += len(chunk)
        while (chunk := os.read(file, 1 << 16)) and b"\n" not in chunk:
            at += len(chunk)
        self._at = at + chunk.find(b"\n") + 1
        self._first = lines + 2

    def _take(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._open:  # the last line goes on
            if self._rows and self._rows[-1] == self.last:
                self._rows.pop()
            data = self._lines.pop() + data
        lines = data.split(b"\n")
        self._open = bool(lines[-1])
        if not self._open:
            lines.pop()
        self._rows += [at for at, line in enumerate(lines, self.last + 1) if self._is_row(line)]
        self._lines += lines
        if self._bytes > MAX_BYTES + SLACK_BYTES:
            self._drop_front()

    def _drop_front(self) -> None:
        count = 0
        while self._bytes > MAX_BYTES:
            self._bytes -= len(self._lines[count]) + 1
            count += 1
        del self._lines[:count]
        self._first += count
        del self._rows[: bisect_left(self._rows, self._first)]

    def find(self, needle: str, start: int, *, backwards: bool) -> int | None:
        """The number of the next shown line from `start` on that has a text, in any case."""
        wanted = needle.lower()
        raw, at = wanted.encode(), bisect_left(self._rows, start + 1 if backwards else start)
        numbers = reversed(self._rows[:at]) if backwards else self._rows[at:]
        found = (n for n in numbers if raw in self._lines[n - self._first].lower())
        return next((number for number in found if wanted in self.line(number).lower()), None)


@lru_cache(maxsize=4096)
def _shown(raw: bytes) -> str:
    return display_text(raw)
