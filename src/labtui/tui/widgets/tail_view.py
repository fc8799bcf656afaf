"""`TailView`: a widget that shows a log: each line with its number, its text, and what labtui reads in it.

`LogText` keeps the last 16 MB of the mirror as lines; `labtui log` has the rest. Scrolling up stops following the end,
the End key starts it again. Lines are never pushed to the widget: it reads its file again on `poll`, so ten megabytes
a second cost one redraw per tick.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import IO, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import binding, geometry, message, scroll_view
from textual.reactive import reactive
from textual.strip import Strip

from labtui.cluster.local_files import reader_inside, stat_inside
from labtui.domain.terminal_text import display_text
from labtui.slurm.job_script import JOB_HEADER_END
from labtui.training_logs.spans import MARK
from labtui.tui.widgets.frame import key, wrap

MAX_BYTES = 16 << 20
SLACK_BYTES = 1 << 20
"""How far the kept bytes may exceed `MAX_BYTES` before the oldest lines are dropped."""
_RECORD, _HEADER_END = MARK.encode(), JOB_HEADER_END.encode()
_CONTROLS = re.compile(rb"[\x08\r\x1b]")


class LogText:
    """The kept lines of a file, by their 1-based number in it.

    While `fold` is on, MLPerf lines are hidden: they have no row. In a file larger than `MAX_BYTES`, the lines before
    the kept ones are counted once, in chunks.
    """

    def __init__(self, path: Path | None = None, root: Path = Path(), *, skip_header: bool = False) -> None:
        """`root` is the lab folder; links below it are not followed. Without a path there are no lines.

        With `skip_header`, labtui's lines about the job have no rows once others follow.
        """
        self.path, self.skip_header = path, skip_header
        self._root = root
        self.fold = True
        self._reset()

    def _reset(self) -> None:
        self._lines = [b""]  # the last one is still being written; empty, it was not begun
        self.first = 1  # the number of the first kept line
        self._rows: list[int] = []  # the line number of each row
        self._bytes = self._offset = self._inode = 0

    @property
    def last(self) -> int:
        """The number of the last line, complete or not."""
        return self.first + len(self._lines) - 1 - (not self._lines[-1])

    @property
    def hidden(self) -> int:
        return self.last + 1 - self.first - len(self._rows)

    def rows(self) -> int:
        return len(self._rows)

    def line_of_row(self, row: int) -> int:
        """The line number of a row."""
        return self._rows[min(max(0, row), len(self._rows) - 1)] if self._rows else 0

    def row_of_line(self, number: int) -> int:
        """The row of a line; if it has none, that of the next line with a row."""
        return min(bisect_left(self._rows, number), max(0, len(self._rows) - 1))

    def visible_line_for(self, number: int) -> int:
        """The `number` of a line; for a folded record, that of the printed line that it is about."""
        row = self.row_of_line(number)
        if self.line_of_row(row) == number:
            return number
        while row > 0 and (self._rows[row] > number or self.line(self._rows[row]).startswith("Epoch ")):
            row -= 1
        return self.line_of_row(row)

    def line(self, number: int) -> str:
        """The text of a line as a terminal would show it in the end."""
        place = number - self.first
        return _shown(self._lines[place]) if 0 <= place < len(self._lines) else ""

    def toggle_folding(self) -> None:
        """Show or fold the records."""
        self.fold = not self.fold
        self._rows = self._visible_lines(self._lines, self.first)

    def _visible_lines(self, lines: list[bytes], first: int) -> list[int]:
        """The numbers of those of the lines that have a row."""
        begun = lines if lines[-1] else lines[:-1]
        return [at for at, line in enumerate(begun, first) if not (self.fold and line.startswith(_RECORD))]

    def refresh(self) -> tuple[bool, bool]:
        """Read what was appended; return whether anything was, and whether the file was replaced or shrank."""
        restarted = False
        try:
            if self.path is None or (status := stat_inside(self._root, self.path)) is None:
                return False, False
            if self._offset and (status.st_size < self._offset or status.st_ino != self._inode):
                restarted = True
                self._reset()
            if status.st_size == self._offset:
                return False, restarted
            with reader_inside(self._root, self.path) as file:
                if not self._offset and status.st_size > MAX_BYTES:
                    self._skip_front(file, status.st_size - MAX_BYTES)
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return False, restarted
        self._inode = status.st_ino
        self._offset += len(data)
        self._append(data)
        return True, restarted

    def _skip_front(self, file: IO[bytes], until: int) -> None:
        """Skip at least `until` bytes, up to the beginning of a line, and count the lines."""
        lines, chunk = 0, b"\n"
        while chunk and (left := until - file.tell()) > 0:
            chunk = file.read(min(SLACK_BYTES, left))
            lines += chunk.count(b"\n")
        while (chunk := file.read(1 << 16)) and b"\n" not in chunk:
            pass  # the rest of a long line
        self._offset = file.tell() - len(chunk) + chunk.find(b"\n") + 1
        self.first = lines + 2

    def _append(self, data: bytes) -> None:
        self._bytes += len(data)
        first = self.first + len(self._lines) - 1
        lines = (self._lines.pop() + data).split(b"\n")  # the last line continues
        self._lines += lines
        self._rows[bisect_left(self._rows, first) :] = self._visible_lines(lines, first)
        if self.skip_header and _HEADER_END in (head := self._lines[:100]):
            at = bisect_left(self._rows, self.first + head.index(_HEADER_END) + 1)
            del self._rows[: at if at < len(self._rows) else 0]
        if self._bytes > MAX_BYTES + SLACK_BYTES:
            self._drop_front()

    def _drop_front(self) -> None:
        count = 0
        while self._bytes > MAX_BYTES and count < len(self._lines) - 1:
            self._bytes -= len(self._lines[count]) + 1
            count += 1
        del self._lines[:count]
        self.first += count
        del self._rows[: bisect_left(self._rows, self.first)]
        if self._bytes > MAX_BYTES:  # one line without an end: its last part is kept
            self._lines[0] = self._lines[0][-MAX_BYTES:]
            self._bytes = MAX_BYTES

    def find(self, needle: str, start: int, since: int = 0) -> int | None:
        """The number of the nearest line at or above `start` that shows a text, else the last; from `since` on."""
        rows = self._rows[bisect_left(self._rows, since) :]
        wanted, at = needle.lower(), bisect_left(rows, start + 1)
        raw = wanted.encode() if wanted.isascii() else b""
        numbers = (*reversed(rows[:at]), *reversed(rows[at:]))
        kept = ((number, self._lines[number - self.first]) for number in numbers)
        found = (number for number, line in kept if raw in line.lower() or _CONTROLS.search(line))
        return next((number for number in found if wanted in self.line(number).lower()), None)


_shown = lru_cache(maxsize=4096)(display_text)


EMPHASIZED = re.compile(
    r"\s*(?:(?P<epoch>Epoch \d+/\d+)|(?P<record>" + MARK + r")"
    r"|(?P<error>(?!.*failed call to cuInit)"  # where there is no GPU to be found, and none is needed
    r".*(?:\b\w*Error\b|\berror:|\bERROR\b|\bTraceback\b|CANCELLED AT|oom[-_ ]kill|out of memory))"
    r"|(?P<warning>.*(?:\bWARNING\b|\b\w*Warning:|\bwarning:)))"
)
"""Lines with a look of their own; the name of the group that matches is that of the style."""


STAMP = re.compile(
    r"^\[?\d{1,4}[-/]\d\d?[-/]\d{2,4}[ T]\d\d?:\d\d:\d\d\S*(?: [AP]M)?\]?[ :,-]*"
    r"(?:(?:DEBUG|INFO|WARNING|ERROR)\b[ :-]*)?"
)
"""The time stamp and level that a logger puts at the beginning of a line."""


_PIECES_END = re.compile(r",? - |, | \| |(?<![: ]) {3}")
_VALUE_ENDS = re.compile(r"[:=] *\d\S*( [^\s=]+)?$")


def shorten_to_parts(text: str, width: int) -> tuple[str, ...]:
    """The parts of a text that fit into `width` with an ellipsis between them; no name loses its value.

    Of a record, what stands before its key goes. Another line keeps its beginning; one that is no error and ends in a
    value, like ``... time: 53 s``, keeps that.
    """
    key_at, room = text.find('"key": '), max(0, width - 3)  # less " … "
    if text.startswith(MARK) and key_at > 0:
        return text[: text.find(" ") + 1], text[key_at:]
    # Whole pieces, if they fill a third of the width: fewer would say too little.
    if ends := [found.start() for found in _PIECES_END.finditer(text, width // 3, max(0, width - 1))]:
        return text[: ends[-1]], ""
    piece, *rest = _PIECES_END.split(text, maxsplit=1)
    piece = " ".join(piece.split())
    is_error = getattr(EMPHASIZED.match(text), "lastgroup", "") == "error"
    if _VALUE_ENDS.search(piece) and len(piece) > width // 3 and not is_error:
        room -= 2 * len(rest)  # a sign at the end, too
        begin = piece.find(" ", max(len(piece) - room - 1, piece.find("] ")))
        return "", piece[begin + 1 if begin >= 0 else len(piece) - room :], *("" for _ in rest)
    end = text.rfind(" ", room // 2, room + 1)  # a word longer than half the room is cut
    return text[: end if end >= 0 else room], ""


EMPTY = "The log appears here once the run prints its first line."


class TailView(scroll_view.ScrollView, can_focus=True):
    """A scroll view of one log file. `Moved` is posted when following changes, lines arrive or a search ends.

    `read_as` maps line numbers to what labtui reads there. With `brief`, lines are shown without the time stamp and
    level at their beginning. `match_line` is the line that shows the search's `needle`, or without one a marked line.
    """

    PARTS = ("current", "record", "epoch", "error", "warning", "number", "read")
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"tail--{part}" for part in PARTS}
    BINDINGS: ClassVar[list[binding.BindingType]] = [
        key("z", "records", "MLPerf lines", "show or hide the MLPerf lines (:::MLLOG)", show=True),
        key("n", "search_next", "Match above", "go to the match above, or the last one"),
        key("end", "follow", "Follow", "follow the end of the log; scrolling up stops it", show=True),
    ]

    class Moved(message.Message):
        """Posted when following, the number of lines or the match has changed."""

    read_as: reactive[Mapping[int, str]] = reactive({})
    numbered: reactive[bool] = reactive(False)
    why_empty: reactive[str] = reactive("")

    def __init__(self, *, id: str | None = None, excerpt: bool = False) -> None:
        """An `excerpt` takes no keys, and shows neither the lines about the job nor time stamps."""
        super().__init__(id=id)
        self.excerpt = self.brief = excerpt
        self.can_focus = not excerpt
        self.file = LogText()
        self.needle = ""
        self.match_line: int | None = None
        self._widest = 1

    def on_mount(self) -> None:
        """Anchor the view: Textual keeps the end visible until the user scrolls away from it."""
        self.anchor()

    @property
    def follow(self) -> bool:
        """Whether the end is followed."""
        return not self._anchor_released

    # ------------------------------------------------------------------ which file

    def show_file(self, path: Path | None, root: Path) -> None:
        """Show a file of the lab folder `root`, at its end, or no file."""
        if path != self.file.path:
            self.file = LogText(path, root, skip_header=self.excerpt)
            self._begin()
        self.poll()

    def show_end_of(self, line: int | None) -> None:
        """Scroll to a line, with one more line below it; None: follow the end."""
        if line is None:
            self.action_follow()
        else:
            self._jump(max(0, self.file.row_of_line(line) - self.size.height + 2))

    def _begin(self) -> None:
        self.match_line, self._widest = None, 1
        self._resize()
        self.action_follow()
        self.refresh()

    def poll(self) -> None:
        """Read the file again; called at each repaint."""
        last = self.file.last
        added, restarted = self.file.refresh()
        if restarted:
            self._begin()
        self._resize()
        if added or restarted:
            if self.needle and self.match_line is None:  # the new lines may have a match
                self.match_line = self.file.find(self.needle, 0, 0 if restarted else last)
            self.post_message(self.Moved())
            self.refresh()

    def _resize(self) -> None:
        self.virtual_size = geometry.Size(self._widest, self.file.rows())

    def action_records(self) -> None:
        """Show or fold the machine-readable records; the top line stays."""
        top = self.file.line_of_row(int(self.scroll_y))
        self.file.toggle_folding()
        self._resize()
        if not self.follow:
            self._jump(self.file.row_of_line(top))
        self.refresh()
        self.post_message(self.Moved())

    def _jump(self, y: float) -> None:
        self.scroll_to(0, y, animate=False, immediate=True, force=True)

    # ------------------------------------------------------------------ following

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        """Keep following: scrolling sideways does not leave the end."""
        super().watch_scroll_x(old_value, new_value)
        self._check_anchor()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Post `Moved`, since following or the distance to the end may have changed."""
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Moved())

    def action_scroll_left(self) -> None:
        self.scroll_relative(-10, animate=False)

    def action_scroll_right(self) -> None:
        self.scroll_relative(10, animate=False)

    def action_scroll_home(self) -> None:
        """Go to the first line and the first column."""
        self.scroll_home()

    def action_follow(self) -> None:
        """Follow the end of the log."""
        self.scroll_end(animate=False, immediate=True, force=True)

    # ------------------------------------------------------------------ search

    def search(self, needle: str) -> None:
        """Search for a text upwards from above the current match, else from the bottom of the view."""
        bottom = self.file.line_of_row(int(self.scroll_y) + self.size.height - 1)
        start = bottom if self.match_line is None else self.match_line - 1
        self.needle = needle
        self._show_match(self.file.find(needle, start) if needle else None)

    def action_search_next(self) -> None:
        """Go to the next match above."""
        self.search(self.needle)

    def mark(self, number: int) -> None:
        """Mark a line and bring it into view; for a record, all records are shown."""
        self.search("")
        file = self.file
        if number < file.first:
            self.app.notify(f"Line {number:,} is above the {MAX_BYTES >> 20} MB shown: `labtui log` has it.")
        if file.line(number) and file.line_of_row(file.row_of_line(number)) != number:
            file.toggle_folding()
        self._show_match(number)

    def _show_match(self, line: int | None) -> None:
        self.match_line = line
        self.refresh()
        self.post_message(self.Moved())
        if line is None:
            return
        self._resize()
        self._jump(self.file.row_of_line(line) - self.size.height // 2)
        self.release_anchor()  # so that the match stays in place, even near the end

    # ------------------------------------------------------------------ drawing

    def render_line(self, y: int) -> Strip:
        """One row: the line's number, its text, and what labtui reads in it."""
        scroll_x, scroll_y = self.scroll_offset
        width = self.scrollable_content_region.width - self.show_vertical_scrollbar  # nothing touches it
        style = self.rich_style
        row, wrapped = scroll_y + y, self._wrapped(width)
        if row >= (len(wrapped) or self.file.rows()):
            return Strip([Segment("", style)]).crop_extend(0, width, style)
        number, line = wrapped[row] if wrapped else (self.file.line_of_row(row), "")
        digits = max(2, len(str(self.file.last)))
        head = f"{number:>{digits}} " if self.numbered and number else ""
        # The marked line has the whole row: its end may be what it is cited for.
        read = f" {self.read_as[number]}" if number in self.read_as and number != self.match_line else ""
        room, line = max(1, width - len(head) - cell_len(read)), line or self._text(number)
        if wrapped and row and wrapped[row - 1][0] == number:  # the line goes on
            head, read = " " * len(head), " " * len(read)
        if cell_len(line) > self._widest:
            self._widest = cell_len(line)
            self.call_later(self._resize)
        quiet = style + self.get_component_rich_style("tail--number", partial=True)
        parts = (line,) if cell_len(line) <= room or scroll_x else self._shorten_line(line, number, room)
        look = self._line_style(self._text(number), number)
        segments = [Segment(parts[0], look)]
        for part in parts[1:]:
            segments += [Segment(" … ", quiet), Segment(part, look)]
        text = Strip([segment for segment in segments if segment.text])
        text = text if parts[0] else text.crop(1)  # no blank before a sign at the beginning
        shown = text.crop_extend(scroll_x, scroll_x + room, style).apply_style(style)
        if text.cell_length > scroll_x + room:
            shown = Strip.join([shown.crop(0, room - 1), Strip([Segment("…", quiet)])])
        ends = self.get_component_rich_style("tail--read", partial=True)
        return Strip.join([Strip([Segment(head, quiet)]), shown, Strip([Segment(read, style + ends)])])

    def _wrapped(self, width: int) -> list[tuple[int, str]]:
        """The number and text of each row while all fit with their long lines wrapped; else [], and lines are cut.

        An excerpt of a log has one row for each line.
        """
        rows = [] if self.file.path else [(0, part) for part in wrap(self.why_empty or EMPTY, width)]
        read = max((len(each) + 1 for each in self.read_as.values()), default=0)
        room = max(9, width - (4 if self.numbered else 0) - read)
        for number in map(self.file.line_of_row, range(min(self.file.rows(), self.size.height + 1))):
            rows += [(number, part) for part in wrap(self._text(number), room, drop_whitespace=False) or [""]]
        return rows if len(rows) <= self.size.height and (not self.excerpt or not self.file.path) else []

    def _shorten_line(self, text: str, number: int, width: int) -> tuple[str, ...]:
        """The parts of a long line around an ellipsis: without what says least, or what hides the current match."""
        if self.needle and number == self.match_line:
            at = text.lower().find(self.needle.lower())
            far = at > 18 and cell_len(text[: at + len(self.needle)]) >= width
            return (text[:9], text[at - 9 :]) if far else (text,)
        stamp = STAMP.match(text)
        return ("", text[stamp.end() :]) if stamp else shorten_to_parts(text, width)

    def _text(self, number: int) -> str:
        """A line's text; with `brief`, without its time stamp, unless that is what the search has found."""
        line, needle = self.file.line(number), self.needle.lower()
        short = STAMP.sub("", line) if self.brief else line
        return line if needle in line.lower() and needle not in short.lower() else short

    def _line_style(self, text: str, number: int) -> Style | None:
        """The style of the marked line, of records, epochs, errors and warnings; None for other lines."""
        if number == self.match_line:
            return self.get_component_rich_style("tail--current")
        found = EMPHASIZED.match(text)
        return self.get_component_rich_style(f"tail--{found.lastgroup}", partial=True) if found else None
