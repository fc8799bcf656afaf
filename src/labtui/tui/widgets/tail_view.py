"""`TailView`: a log on the screen, drawn line by line: number, text, and what the line counts for.

Following is a state: scrolling up switches it off, End switches it on. A view is never pushed lines; it is told to
look at its file again (`poll`), so ten megabytes a second cost one redraw per tick.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from labtui.tui.keys import key
from labtui.tui.widgets.log_text import RECORD, LogText

_TELLING = re.compile(
    r"\s*(?:(?P<epoch>Epoch \d+/\d+)"
    r"|(?P<error>.*(?:\b\w*Error\b|\berror:|\bERROR\b|\bTraceback\b|CANCELLED AT|oom[-_ ]kill|out of memory))"
    r"|(?P<warning>.*(?:\bWARNING\b|\b\w*Warning:|\bwarning:)))",
)
"""Lines that a reader looks for; the first group that fits names the style."""


EMPTY = "What a run prints appears here, from its first line on."


class TailView(ScrollView, can_focus=True):
    """One log file. `Moved` is posted when following changes, lines arrive or a search ends.

    `read_as` says of a line's number what it counts for. Of the search: `needle` is looked for, `match_line` is where
    it stands, `search_ended` says that there is none, or none further ("not found", "none below", "none above").
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"tail--{part}"
        for part in ("match", "current", "record", "epoch", "error", "warning", "number", "read")
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        key("z", "records", "Records", "show or fold away the records (:::MLLOG)", show=True),
        key("n", "search_next", "Next match", "go to the next match"),
        key("N", "search_next(True)", "Match before", "go to the previous match"),
        key("end", "follow", "Follow", "follow the end of the log; scrolling up stops it", show=True),
        Binding("home", "top", "first line", show=False),
    ]
    follow: reactive[bool] = reactive(True)

    class Moved(Message):
        """Following, the number of lines or the match changed."""

        def __init__(self, view: TailView) -> None:
            super().__init__()
            self.view = view

        def can_replace(self, message: Message) -> bool:
            """Only the newest matters."""
            return isinstance(message, TailView.Moved) and message.view is self.view

    def __init__(self, *, id: str | None = None, can_focus: bool = True) -> None:
        super().__init__(id=id)
        self.can_focus = can_focus
        self.file: LogText | None = None
        self.numbered = False
        self.read_as: Mapping[int, str] = {}
        self.needle = ""
        self.match_line: int | None = None
        self.search_ended = ""
        self._placing = False
        self._widest = 1

    # ------------------------------------------------------------------ which file

    def show_file(self, path: Path | None, root: Path | None = None) -> None:
        """Show another file (of the folder `root`) from its end, or nothing."""
        if path != (self.file.path if self.file is not None else None):
            self.file = None if path is None else LogText(path, root)
            self._begin()
        self.poll()

    def show_end_of(self, line: int | None) -> None:
        """Put a line at the bottom, the next below it; None: follow the end."""
        self.follow = line is None or self.file is None
        if line is None or self.file is None:
            self._jump(self.max_scroll_y)
        else:
            self._jump(max(0, self.file.row(line) - self.size.height + 2))

    def _begin(self) -> None:
        self.match_line, self.search_ended, self._widest = None, "", 1
        self.follow = True
        self._resize()
        self.refresh()

    def poll(self) -> None:
        """Look at the file again; called once per tick."""
        if self.file is None:
            return
        added, restarted = self.file.refresh()
        if restarted:
            self._begin()
        self._resize()
        if added or restarted:
            self.search_ended = ""  # what came may hold it
            self.post_message(self.Moved(self))
        if self.follow:
            self._jump(self.max_scroll_y)
        self.refresh()

    @property
    def rows(self) -> int:
        return self.file.rows() if self.file is not None else 0

    def _resize(self) -> None:
        self.virtual_size = Size(self._widest, self.rows)

    def action_records(self) -> None:
        """Show the machine-readable records, or fold them away again; the top line stays."""
        if self.file is None:
            return
        top = self.file.number(int(self.scroll_y))
        self.file.turn_folding()
        self._resize()
        self._jump(self.max_scroll_y if self.follow else self.file.row(top))
        self.refresh()
        self.post_message(self.Moved(self))

    def _jump(self, y: float) -> None:
        self._placing = True
        try:
            self.scroll_to(y=y, animate=False, immediate=True, force=True)
        finally:
            self._placing = False

    # ------------------------------------------------------------------ following

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Any scrolling up by hand ends following; where the end is not followed, its distance is told."""
        super().watch_scroll_y(old_value, new_value)
        if new_value < old_value and new_value < self.max_scroll_y and not self._placing:
            self.follow = False
        if not self.follow and int(new_value) != int(old_value):
            self.post_message(self.Moved(self))

    def watch_follow(self) -> None:
        """Tell whoever shows the state."""
        self.post_message(self.Moved(self))

    def on_resize(self) -> None:
        """A smaller view keeps its end."""
        if self.follow:
            self._jump(self.max_scroll_y)

    def watch_show_horizontal_scrollbar(self) -> None:
        """The bar below takes a line, the last one where the end is followed."""
        self.call_after_refresh(self.on_resize)

    def action_scroll_up(self) -> None:
        """One line up."""
        self.follow = not self.max_scroll_y  # at once: bytes that come before the movement would take it back
        super().action_scroll_up()

    def action_page_up(self) -> None:
        """A page up."""
        self.follow = not self.max_scroll_y
        super().action_page_up()

    def action_follow(self) -> None:
        """Follow the end of the log."""
        self.follow = True
        self._jump(self.max_scroll_y)

    def action_top(self) -> None:
        """Go to the beginning of the first line."""
        self.follow = False
        self.scroll_to(x=0, animate=False, immediate=True, force=True)
        self._jump(0)

    # ------------------------------------------------------------------ search

    def search(self, needle: str) -> None:
        """Look for a text from the end of what is shown upwards, else below."""
        self.needle, self.match_line, self.search_ended = needle, None, ""
        if needle and self.file is not None:
            bottom = self.file.number(int(self.scroll_y) + self.size.height - 1)
            found = self.file.find(needle, bottom, backwards=True)
            self._show_match(found or self.file.find(needle, bottom + 1, backwards=False), "not found")
        self.refresh()
        self.post_message(self.Moved(self))

    def action_search_next(self, backwards: bool = False) -> None:
        """The next match below (or above, `backwards`) the current one."""
        if not self.needle or self.file is None:
            return
        if self.match_line is None:
            self.search(self.needle)
            return
        found = self.file.find(self.needle, self.match_line + (-1 if backwards else 1), backwards=backwards)
        self._show_match(found, "none above" if backwards else "none below")
        self.refresh()
        self.post_message(self.Moved(self))

    def _show_match(self, line: int | None, none: str) -> None:
        self.search_ended = none if line is None else ""
        if line is None or self.file is None:
            return
        self.match_line, self.follow = line, False
        text = self.file.line(line)
        at = text.lower().find(self.needle.lower())
        begin, end = cell_len(text[:at]), cell_len(text[: at + len(self.needle)])
        self._widest = max(self._widest, cell_len(text))
        self._resize()
        place = Region(begin, self.file.row(line), end - begin, 1)
        self.scroll_to_region(place, animate=False, center=True, immediate=True, force=True)

    # ------------------------------------------------------------------ drawing

    def render_line(self, y: int) -> Strip:
        """One row: number, text, read as."""
        scroll_x, scroll_y = self.scroll_offset
        width, style = self.scrollable_content_region.width, self.rich_style
        row = scroll_y + y
        if self.file is None or row >= self.rows:
            empty = f" {EMPTY}" if y == 0 and self.file is None else ""
            return Strip([Segment(empty, style)]).crop_extend(0, width, style)
        number = self.file.number(row)
        head = f"{number:>{max(4, len(str(self.file.last)))}}  " if self.numbered else ""
        read = self.read_as.get(number, "") if self.numbered else ""
        room = max(1, width - len(head) - (cell_len(read) + 2 if read else 0))
        text = Strip(self._segments(self.file.line(number), number))
        if text.cell_length > self._widest:
            self._widest = text.cell_length
            self.call_later(self._resize)
        middle = text.crop_extend(scroll_x, scroll_x + room, style).apply_style(style)
        quiet = self.get_component_rich_style("tail--number", partial=True)
        ends = self.get_component_rich_style("tail--read", partial=True)
        parts = [
            Strip([Segment(head, style + quiet)]),
            middle,
            Strip([Segment(f"  {read}" if read else "", style + ends)]),
        ]
        return Strip.join(parts)

    def _segments(self, text: str, number: int) -> list[Segment]:
        if text.encode().startswith(RECORD):
            return [Segment(text, self.get_component_rich_style("tail--record", partial=True))]
        if not text or not self.needle or len(text.lower()) != len(text):
            return [Segment(text, self._line_style(text))]
        name = "tail--current" if number == self.match_line else "tail--match"
        mark = self.get_component_rich_style(name)
        low, needle = text.lower(), self.needle.lower()
        pieces: list[Segment] = []
        start = 0
        while (at := low.find(needle, start)) >= 0:
            pieces += [Segment(text[start:at]), Segment(text[at : at + len(needle)], mark)]
            start = at + len(needle)
        pieces.append(Segment(text[start:]))
        return pieces

    def _line_style(self, text: str) -> Style | None:
        """Epochs, errors and warnings stand out; everything else is plain."""
        found = _TELLING.match(text)
        return self.get_component_rich_style(f"tail--{found.lastgroup}", partial=True) if found else None
