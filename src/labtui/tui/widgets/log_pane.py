"""The output of the selected run's job: standard output, standard error, or both, followed and searchable."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from labtui.core.model import Stream
from labtui.tui.view import Picture
from labtui.tui.widgets.tail_view import TailView

SHOWN: tuple[tuple[Stream, ...], ...] = (("out",), ("err",), ("out", "err"))


class LogPane(Vertical):
    """Two tail views; one or both are shown. Follow and search work on the one that has the focus."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._choice = 0
        self._title = ""

    def compose(self) -> ComposeResult:
        """Title, the views side by side, the search line."""
        yield Static(Text(""), id="log-title", markup=False)
        with Horizontal(id="log-views"):
            yield TailView(id="log-out")
            yield TailView(id="log-err")
        yield Input(
            placeholder="search, then enter; n and N for next and previous", id="log-search", compact=True
        )

    def on_mount(self) -> None:
        """Standard output first."""
        self._apply_choice()
        self.query_one("#log-search").display = False

    def on_resize(self) -> None:
        """The title fits the width."""
        self._show_title()

    # ------------------------------------------------------------------ what is shown

    def show(self, picture: Picture, paths: Mapping[Stream, Path | None]) -> None:
        """Bring the views up to date."""
        run = picture.run
        self._title = "" if run is None else f"#{run.run_id} {run.spec.label}"
        if run is None:
            self._title = "no run selected"
        for stream in ("out", "err"):
            self._view(stream).show_file(paths.get(stream))
        self._show_title()

    def _view(self, stream: str) -> TailView:
        return self.query_one(f"#log-{stream}", TailView)

    def _apply_choice(self) -> None:
        for stream in ("out", "err"):
            self._view(stream).display = stream in SHOWN[self._choice]
        self._show_title()

    def toggle_streams(self) -> None:
        """Out, err, both, out ..."""
        self._choice = (self._choice + 1) % len(SHOWN)
        self._apply_choice()
        self.active.focus()

    @property
    def active(self) -> TailView:
        """The view that follow and search mean."""
        views = [self._view(stream) for stream in SHOWN[self._choice]]
        return next((view for view in views if view.has_focus), views[0])

    @on(TailView.Moved)
    def _moved(self, event: TailView.Moved) -> None:
        event.stop()
        self._show_title()

    def _show_title(self) -> None:
        view = self.active
        names = " + ".join(SHOWN[self._choice])
        left = Text(f"{self._title}  ", style="bold", no_wrap=True)
        path = view.file.path if view.file is not None else None
        left.append(
            path.name if path is not None and len(SHOWN[self._choice]) == 1 else names, style="not bold"
        )
        right = Text(_state(view), style="dim" if view.follow else "bold")
        width = max(1, self.size.width - 2)
        left.truncate(max(1, width - right.cell_len - 1), overflow="ellipsis")
        left.append(" " * max(1, width - left.cell_len - right.cell_len))
        self.query_one("#log-title", Static).update(left.append_text(right), layout=False)

    # ------------------------------------------------------------------ search

    def open_search(self) -> None:
        """Ask for a text."""
        line = self.query_one("#log-search", Input)
        line.display = True
        line.focus()

    @on(Input.Submitted, "#log-search")
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.close_search()
        for stream in SHOWN[self._choice]:
            self._view(stream).search(event.value)

    def close_search(self) -> bool:
        """Hide the search line; says whether it was open."""
        line = self.query_one("#log-search", Input)
        was_open = bool(line.display)
        line.display = False
        if was_open:
            self.active.focus()
        return was_open

    def search_next(self, step: int) -> None:
        """Next or previous match."""
        self.active.search_next(backwards=step < 0)

    def toggle_records(self) -> None:
        """Fold machine-readable records away, or show them."""
        for stream in ("out", "err"):
            self._view(stream).toggle_folding()
        self._show_title()

    def follow(self) -> None:
        """Follow the end again."""
        for stream in SHOWN[self._choice]:
            self._view(stream).action_follow()


def _state(view: TailView) -> str:
    """Following or where we are, and the search."""
    if view.file is None:
        return "nothing read yet"
    parts = []
    if view.folding.hidden:
        parts.append(f"{view.folding.hidden} records folded (z)")
    if view.needle:
        parts.append(f"/{view.needle} {_found(view)}")
    if view.follow:
        parts.append(f"{view.file.lines} lines, following")
    else:
        below = max(0, view.rows - int(view.scroll_y) - view.size.height)
        more = f"+{below} line{'s' if below != 1 else ''} below, " if below else ""
        parts.append(f"{more}end follows")
    return "   ".join(parts)


def _found(view: TailView) -> str:
    """Where the searched text is, and the keys that go on from there."""
    if view.not_found:
        return "not found"
    if view.match_line is None:
        return "(n, N)"
    line = f"line {view.match_line + 1}"
    if view.none_more == "below":
        return f"{line}, none below, N goes up"
    if view.none_more == "above":
        return f"{line}, none above, n goes down"
    return f"{line} (n next, N before)"
