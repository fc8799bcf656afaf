"""`TailView`: a log on the screen, drawn line by line from a `LogFile`.

Following is a state: scrolling up switches it off, End switches it on. A view is never pushed lines; it is told to
look at its file again (`poll`), so ten megabytes a second cost one redraw per tick.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import ClassVar, Literal

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from labtui.tui.widgets.log_file import RECORD, Folding, LogFile

_TELLING = re.compile(
    r"\s*(?:(?P<epoch>Epoch \d+/\d+)"
    r"|(?P<error>.*(?:\b\w*Error\b|\berror:|\bERROR\b|\bTraceback\b|CANCELLED AT|oom[-_ ]kill|out of memory))"
    r"|(?P<warning>.*(?:\bWARNING\b|\b\w*Warning:|\bwarning:)))",
)
"""Lines that a reader looks for; the first group that fits names the style."""
Side = Literal["", "below", "above"]


class TailView(ScrollView, can_focus=True):
    """One log file. `Moved` is posted when following changes, lines arrive or a search ends.

    Of the search: `needle` is looked for, `match_line` is where it stands (from 0), `not_found` says that the log
    has none, `none_more` on which side of `match_line` there is no other.
    """

    DEFAULT_CSS = """
    TailView { height: 1fr; scrollbar-size: 1 1; overflow-x: auto; overflow-y: scroll; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"tail--{part}" for part in ("match", "current", "record", "epoch", "error", "warning")
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("end", "follow", "follow", show=False),
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

    class _HeadCounted(Message):
        def __init__(self, file: LogFile, counts: list[int]) -> None:
            super().__init__()
            self.file = file
            self.counts = counts

    class _Found(Message):
        def __init__(self, ticket: int, line: int | None, side: Side) -> None:
            super().__init__()
            self.ticket = ticket
            self.line = line
            self.side = side

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.file: LogFile | None = None
        self.folding = Folding()
        self.when_empty = ""
        """What stands here while there is no file."""
        self.needle = ""
        self.match_line: int | None = None
        self.not_found = False
        self.none_more: Side = ""
        self._ticket = 0
        self._placing = False
        self._widest = 1

    # ------------------------------------------------------------------ which file

    def show_file(self, path: Path | None) -> None:
        """Show another file from its end, or nothing."""
        if self.file is not None and path == self.file.path:
            self.poll()
            return
        if self.file is not None:
            self.file.close()
        self.file = None if path is None else LogFile(path)
        self._begin()
        self.poll()

    def show_end_of(self, line: int | None) -> None:
        """Put a line (from 1) at the bottom, the next below it; None, or a line not counted yet: follow the end."""
        file = self.file
        self.follow = line is None or file is None or bool(file.head_blocks)
        if line is None or file is None or self.follow:
            self._jump(self.max_scroll_y)
            return
        self._jump(max(0, self.folding.row_of(min(line, file.lines - 1)) - self.size.height + 2))

    def _begin(self) -> None:
        self._forget_match()
        self.folding.forget()
        self._widest = 1
        self._ticket += 1
        self.follow = True
        self._resize()
        self.refresh()

    def _forget_match(self) -> None:
        """What was found belongs to another text or another log."""
        self.match_line = None
        self.not_found = False
        self.none_more = ""

    def poll(self) -> None:
        """Look at the file again; called once per tick."""
        if self.file is None:
            return
        growth = self.file.refresh()
        if growth.restarted:
            self._begin()
        if self.file.head_blocks:
            self.call_after_refresh(self._count_head, self.file)  # the end is shown first
        self._resize()
        if growth.added or growth.restarted:
            self.not_found, self.none_more = False, ""  # what came may hold it
            self.post_message(self.Moved(self))
        if self.follow:
            self._jump(self.max_scroll_y)
        self.refresh()

    def _count_head(self, file: LogFile) -> None:
        if file.counting:
            return
        file.counting = True

        def count() -> None:
            try:
                counts = file.count_head()
            except OSError:
                counts = []
            self.post_message(self._HeadCounted(file, counts))

        threading.Thread(target=count, name="labtui-count", daemon=True).start()

    def on_tail_view__head_counted(self, message: _HeadCounted) -> None:
        """The front of a large file is known now: line numbers change, the view stays."""
        if message.file is not self.file:
            return
        top = int(self.scroll_y)  # nothing is folded while lines are not counted
        moved = message.file.adopt_head(message.counts)
        self._resize()
        self._place(top + moved)
        if self.match_line is not None:
            self.match_line += moved
        self.not_found, self.none_more = False, ""  # it was looked for without the front
        self.post_message(self.Moved(self))

    def _resize(self) -> None:
        if self.file is not None:
            self.folding.grow(self.file)
        self.virtual_size = Size(self._widest, self.rows)

    @property
    def rows(self) -> int:
        """Lines that are shown: all but the folded ones."""
        return self.folding.rows(self.file.lines) if self.file is not None else 0

    def toggle_folding(self) -> None:
        """Show the machine-readable records, or fold them away again; the top line stays."""
        top = self.folding.line_of(int(self.scroll_y))
        self.folding.on = not self.folding.on
        if self.folding.on:  # records are long, what stays is not
            self.scroll_to(x=0, animate=False, immediate=True, force=True)
        self._resize()
        self._place(top)
        self.refresh()
        self.post_message(self.Moved(self))

    def _place(self, top: int) -> None:
        """Put a line of the file at the top, or the end in view while following."""
        self._jump(self.max_scroll_y if self.follow else self.folding.row_of(top))

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

    def _stop_following(self) -> None:
        """At the key and not at the first step of its animation: bytes that come between would take it back."""
        if self.max_scroll_y:
            self.follow = False

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

    def action_follow(self) -> None:
        """Follow the end of the log."""
        self.follow = True
        self._jump(self.max_scroll_y)

    def action_top(self) -> None:
        """Go to the beginning of the first line."""
        self.follow = False
        self.scroll_to(x=0, animate=False, immediate=True, force=True)
        self._jump(0)

    def action_scroll_up(self) -> None:
        """One line up."""
        self._stop_following()
        super().action_scroll_up()

    def action_page_up(self) -> None:
        """A page up."""
        self._stop_following()
        super().action_page_up()

    # ------------------------------------------------------------------ search

    def search(self, needle: str) -> None:
        """Look for a text from the end of what is shown upwards, then keep it for next and previous."""
        self.needle = needle
        self._forget_match()
        self.refresh()
        self.post_message(self.Moved(self))
        if needle and self.file is not None:
            bottom = self.folding.line_of(int(self.scroll_y) + self.size.height - 1)
            self._find_from(min(self.file.lines - 1, bottom), backwards=True, everywhere=True)

    def search_next(self, *, backwards: bool) -> None:
        """The next match below (or above, `backwards`) the current one."""
        if not self.needle or self.file is None:
            return
        if self.match_line is None:
            top = self.folding.line_of(int(self.scroll_y))
            self._find_from(top, backwards=backwards, everywhere=True)
        else:
            self._find_from(self.match_line + (-1 if backwards else 1), backwards=backwards)

    def _find_from(self, start: int, *, backwards: bool, everywhere: bool = False) -> None:
        """Look from a line on, in a thread; `everywhere`: where that side has none, on the other one, too.

        Folded records are searched when nothing that is shown matches.
        """
        if self.file is None or not self.file.lines:
            return
        self._ticket += 1
        ticket, needle, twin, hides = self._ticket, self.needle, self.file.snapshot(), self.folding.hides
        side: Side = "" if everywhere else "above" if backwards else "below"
        ways = [(start, backwards)]
        if everywhere:
            ways.append((start + (1 if backwards else -1), not backwards))

        def first(*, folded: bool) -> int | None:
            for begin, back in ways:
                line = twin.find(needle, begin, backwards=back)
                while line is not None and hides(line) and not folded:
                    line = twin.find(needle, line + (-1 if back else 1), backwards=back)
                if line is not None:
                    return line
            return None

        def look() -> None:
            try:
                line = first(folded=False)
                if line is None and everywhere:
                    line = first(folded=True)
            except OSError:
                line = None
            finally:
                twin.close()
            self.post_message(self._Found(ticket, line, side))

        threading.Thread(target=look, name="labtui-search", daemon=True).start()

    def on_tail_view__found(self, message: _Found) -> None:
        """Show the match in the middle, or say that there is none, or none further on that side."""
        if message.ticket != self._ticket:
            return
        self.not_found = message.line is None and not message.side
        self.none_more = message.side if message.line is None else ""
        if message.line is not None:
            self.match_line = message.line
            self.follow = False
            if self.folding.hides(message.line):
                self.toggle_folding()
            self._jump(max(0, self.folding.row_of(message.line) - self.size.height // 2))
            self._bring_into_view(message.line)
        self.refresh()
        self.post_message(self.Moved(self))

    def _bring_into_view(self, number: int) -> None:
        """Scroll sideways when the match lies outside of what is seen of its line."""
        text = self.file.line(number) if self.file is not None else ""
        at = text.lower().find(self.needle.lower())
        if at < 0:
            return
        begin, end = cell_len(text[:at]), cell_len(text[: at + len(self.needle)])
        width = self.scrollable_content_region.width
        self._widest = max(self._widest, cell_len(text))
        self._resize()
        left = int(self.scroll_x)
        if end <= width:
            left = 0
        elif begin < left or end > left + width:
            left = max(0, min(begin, (begin + end - width) // 2))
        self.scroll_to(x=left, animate=False, immediate=True, force=True)

    # ------------------------------------------------------------------ drawing

    def render_line(self, y: int) -> Strip:
        """One row, from the file."""
        scroll_x, scroll_y = self.scroll_offset
        width = self.size.width
        number = self.folding.line_of(scroll_y + y)
        style = self.rich_style
        empty = f" {self.when_empty}" if y == 0 else ""
        text = self.file.line(number) if self.file is not None else empty
        strip = Strip(self._segments(text, number))
        if strip.cell_length > self._widest:
            self._widest = strip.cell_length
            self.call_later(self._resize)
        return strip.crop_extend(scroll_x, scroll_x + width, style).apply_style(style)

    def _line_style(self, text: str) -> Style | None:
        """Epochs, errors and warnings stand out; everything else is plain."""
        found = _TELLING.match(text)
        return self.get_component_rich_style(f"tail--{found.lastgroup}", partial=True) if found else None

    def _segments(self, text: str, number: int) -> list[Segment]:
        if text.startswith(RECORD):
            return [Segment(text, self.get_component_rich_style("tail--record"))]
        if not text:
            return [Segment(text)]
        if not self.needle:
            return [Segment(text, self._line_style(text))]
        name = "tail--current" if number == self.match_line else "tail--match"
        mark = self.get_component_rich_style(name)
        low, needle = text.lower(), self.needle.lower()
        if len(low) != len(text):
            return [Segment(text)]
        pieces: list[Segment] = []
        start = 0
        while (at := low.find(needle, start)) >= 0:
            pieces += [Segment(text[start:at]), Segment(text[at : at + len(needle)], mark)]
            start = at + len(needle)
        pieces.append(Segment(text[start:]))
        return pieces
