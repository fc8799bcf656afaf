"""The output of the selected run, followed and searchable: standard output, standard error, or both."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Static

from labtui.domain.model import RunPhase, Stream
from labtui.tui import format as words
from labtui.tui.keys import key
from labtui.tui.themes import ink, roles
from labtui.tui.view import View, last_line
from labtui.tui.widgets.frame import ends
from labtui.tui.widgets.run_pane import RunPane
from labtui.tui.widgets.tail_view import TailView

STREAMS: tuple[Stream, ...] = ("out", "err")
SHOWN: tuple[tuple[Stream, ...], ...] = (("out",), ("err",), ("out", "err"))
"""What is shown in turn."""


class LogPane(RunPane):
    """Two tail views; one or both are shown. Follow and search work on the one that has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("slash", "search", "Search", "find a text in the log", show=True),
        key("o", "streams", "Out/err", "show standard output, standard error, or both", show=True),
        key(
            "z",
            "records",
            "Records",
            "show the machine-readable records (:::MLLOG), or fold them away",
            show=True,
        ),
        key("n", "search_next(1)", "Next match", "go to the next match"),
        key("N", "search_next(-1)", "Match before", "go to the previous match"),
        key("end", "follow", "Follow", "follow the end of the log; scrolling up stops it", show=True),
        key("e", "edit_log", "Edit", "open a copy of the log in your editor"),
        key("escape", "close_search", "Back", "close the search"),
    ]

    def __init__(self, paths: Callable[[], Mapping[Stream, Path | None]], *, id: str | None = None) -> None:
        """`paths` gives the mirrors of the selected run's logs."""
        super().__init__(id=id)
        self._paths = paths
        self._choice = 0
        self._run_id: int | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="log-title", markup=False)
        with Horizontal(id="log-views"):
            for stream in STREAMS:
                yield TailView(id=f"log-{stream}")
        yield Input(
            placeholder="search, then enter; n and N for next and previous", id="log-search", compact=True
        )

    def on_mount(self) -> None:
        """Standard output first."""
        self._apply_choice()
        self.query_one("#log-search").display = False

    def on_resize(self) -> None:
        """The first one: now the end of a log can be shown."""
        if self.view is not None:
            self.show(self.view)

    # ------------------------------------------------------------------ what is shown

    def show(self, view: View) -> None:
        self.view = view
        if not self.display:
            return
        line, paths = view.line, self._paths()
        laid_out = bool(self.size.width)  # if not, the first resize comes back here to place a run's own end
        chosen = laid_out and line is not None and line.run_id != self._run_id
        if laid_out:
            self._run_id = line.run_id if line is not None else None
        out = self._tail("out")
        out.when_empty = "What a run prints appears here, from its first line on."
        out.numbered = self.size.width >= 72
        for stream in STREAMS:
            self._tail(stream).show_file(paths.get(stream), self.app.session.folder.path)
        counted = read_as(view) if self.size.width >= 84 and out.file is not None else {}
        out.read_as = {out.file.shown_at(at): text for at, text in counted.items() if out.file is not None}
        if chosen:
            out.show_end_of(last_line(view, line))
        self._show_title()
        self.refresh_bindings()

    def _tail(self, stream: str) -> TailView:
        return self.query_one(f"#log-{stream}", TailView)

    def _apply_choice(self) -> None:
        for stream in STREAMS:
            self._tail(stream).display = stream in SHOWN[self._choice]
        self._show_title()

    def action_streams(self) -> None:
        """Standard output, standard error, or both."""
        self._choice = (self._choice + 1) % len(SHOWN)
        self._apply_choice()
        self.active.focus()

    @property
    def active(self) -> TailView:
        """The view that follow and search mean."""
        views = [self._tail(stream) for stream in SHOWN[self._choice]]
        return next((view for view in views if view.has_focus), views[0])

    @on(TailView.Moved)
    def _moved(self, event: TailView.Moved) -> None:
        event.stop()
        self._show_title()

    def _show_title(self) -> None:
        line = self.view.line if self.view is not None else None
        styles, view = roles(self.app), self.active
        if line is None:
            self.query_one("#log-title", Static).update(ink("No run is selected.", styles.quiet))
            return
        size = "CPU" if line.run.spec.device == "cpu" else words.plural(line.run.spec.n_gpus, "GPU")
        path = view.file.path if view.file is not None else None
        which = (
            path.name
            if path is not None and len(SHOWN[self._choice]) == 1
            else " + ".join(SHOWN[self._choice])
        )
        left = ink(f"Run {line.run_id}, {size}", "bold").append(f"   {which}", styles.soft)
        in_err = any(found.stream == "err" for found in line.run.diagnosis[:1])
        if in_err and "err" not in SHOWN[self._choice]:
            left.append("   why it failed: o", styles.warn)
        live = line.phase in (RunPhase.STARTING, RunPhase.RUNNING)
        right = ink(place_of(view, live=live), styles.busy if view.follow and live else styles.soft)
        self.query_one("#log-title", Static).update(ends(left, right, max(10, self.size.width)))

    # ------------------------------------------------------------------ search and the rest

    def action_search(self) -> None:
        """Ask for a text."""
        line = self.query_one("#log-search", Input)
        line.display = True
        self.screen.set_focus(line)  # at once: the next keys are for it

    @on(Input.Submitted, "#log-search")
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._close_search()
        for stream in SHOWN[self._choice]:
            self._tail(stream).search(event.value)

    async def action_close_search(self) -> None:
        """Hide the search line, or go back."""
        if not self._close_search():
            await self.run_action("screen.escape")

    def _close_search(self) -> bool:
        line = self.query_one("#log-search", Input)
        was_open = bool(line.display)
        line.display = False
        if was_open:
            self.active.focus()
        return was_open

    def action_search_next(self, step: int) -> None:
        """Next or previous match."""
        self.active.search_next(backwards=step < 0)

    def action_records(self) -> None:
        """Fold machine-readable records away, or show them."""
        for stream in STREAMS:
            self._tail(stream).toggle_folding()
        self._show_title()

    def action_follow(self) -> None:
        """Follow the log's end."""
        for stream in SHOWN[self._choice]:
            self._tail(stream).action_follow()

    def action_edit_log(self) -> None:
        """A copy of the log in the editor: the log itself stays as the cluster wrote it."""
        file = self.active.file
        if file is None or not file.path.is_file():
            self.app.report_sentence("No log has been read yet.")
            return
        with tempfile.TemporaryDirectory(prefix="labtui-") as folder:
            try:
                copy = Path(shutil.copy(file.path, folder))
            except OSError as error:
                self.app.report_sentence(f"{file.path.name} cannot be read: {error.strerror}.")
                return
            self.app.open_editor(copy)


def place_of(view: TailView, *, live: bool) -> str:
    """The search, then following or where one is."""
    if view.file is None:
        return "nothing read yet"
    parts = []
    if view.file.hidden:
        parts.append(f"{words.plural(view.file.hidden, 'record')} folded (z)")
    if view.needle:
        at = f"line {view.match_line}" if view.match_line is not None else ""
        parts.append(f"/{view.needle}  {'  '.join(filter(None, (at, view.search_ended)))}".rstrip())
    below = max(0, view.rows - int(view.scroll_y) - view.size.height)
    if not view.follow and below:
        parts.append(f"{words.plural(below, 'line')} below (end)")
    elif live and view.follow:
        parts.append("↓ following")
    parts.append(words.plural(view.file.last, "line"))
    return "   ".join(parts)


def read_as(view: View) -> dict[int, str]:
    """What each line of the selected run's log counts for: an epoch's time, warm-up, an error, the epoch that runs."""
    chosen = view.line
    found: dict[int, str] = {}
    for line in view.every.values() if chosen is not None else ():
        if chosen is None or line.run.token != chosen.run.token:
            continue
        for sample in line.run.epochs:
            if sample.line:
                warm = sample.starts_process or sample is line.run.epochs[0]
                found[sample.line] = "warm-up" if warm else f"{sample.seconds.value:,.2f} s"
        for problem in line.run.diagnosis:
            if problem.stream == "out":
                found[problem.line] = "error"
    return found
