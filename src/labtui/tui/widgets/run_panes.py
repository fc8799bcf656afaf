"""The panes about runs: the runs of a task as a table, and the output of the selected one.

On large screens a chart and the end of a log stand below the table: one glance. The output is standard output, standard
error, or both, followed and searchable.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import DataTable, Input, Static

from labtui.domain.model import RunPhase, Stream
from labtui.tui import format as words
from labtui.tui.guidance import no_run_yet
from labtui.tui.messages import RunChosen
from labtui.tui.themes import Roles, roles
from labtui.tui.view import (
    RunRow,
    ViewState,
    glance_chart,
    last_line,
    live_progress,
    run_detail,
    run_rows,
    task_progress,
    timed_only,
)
from labtui.tui.widgets.chart import ChartView
from labtui.tui.widgets.tables import KeyedTable, Row, TableColumn, frame_texts
from labtui.tui.widgets.tail_view import TailView

COLUMNS = (
    TableColumn("number", "#", right=True, width=3),
    TableColumn("model", "model", width=10),
    TableColumn("gpus", "GPUs", right=True, width=4),
    TableColumn("batch", "batch", right=True, width=6),
    TableColumn("per_gpu", "/GPU", right=True, width=5),
    TableColumn("state", "state", width=20),
    TableColumn("epoch", "epoch s", right=True, width=14),
    TableColumn("rate", "img/s", right=True, width=7),
    TableColumn("speedup", "speedup", right=True, width=7),
    TableColumn("efficiency", "eff.", right=True, width=5),
)
PROGRAM_COLUMNS = (
    TableColumn("number", "#", right=True, width=3),
    TableColumn("model", "program", width=14),
    TableColumn("gpus", "processes", right=True, width=9),
    TableColumn("batch", "size", right=True, width=12),
    TableColumn("state", "state", width=14),
    TableColumn("epoch", "time", right=True, width=13),
    TableColumn("speedup", "speedup", right=True, width=7),
    TableColumn("efficiency", "eff.", right=True, width=6),
)
"""For runs that are timed without epochs."""
NARROW = {"number": 2, "model": 9, "batch": 5, "state": 16, "epoch": 12, "rate": 6, "efficiency": 5}
NARROW_PROGRAM = {"model": 12, "state": 12, "epoch": 11}
"""Widths in a window of 80 columns; the others stay."""
WIDE = 93
"""From this width on the columns have their full widths."""
PHASE_ROLES = {
    RunPhase.RUNNING: "busy",
    RunPhase.STARTING: "busy",
    RunPhase.DONE: "good",
    RunPhase.FAILED: "bad",
    RunPhase.UNKNOWN: "warn",
    RunPhase.CANCELLED: "quiet",
    RunPhase.WAITING: "quiet",
}


LogPaths = Mapping[Stream, Path | None]


class RunsPane(Vertical):
    """Table, sentences about the selected run, glance row."""

    _last: ViewState | None = None

    def __init__(self, paths: Callable[[], LogPaths], *, id: str | None = None) -> None:
        """`paths` gives the mirrors of the selected run's logs."""
        super().__init__(id=id)
        self._paths = paths

    def compose(self) -> ComposeResult:
        with Vertical(id="runs-box", classes="panel"):
            yield KeyedTable(id="runs-table")
            yield Static(Text(""), id="runs-progress", markup=False)
        yield Static(Text(""), id="runs-detail", markup=False, classes="panel")
        with Horizontal(id="glance"):
            yield ChartView(id="glance-chart", classes="panel")
            with Vertical(id="glance-log", classes="panel"):
                yield TailView(id="glance-tail")

    def on_mount(self) -> None:
        """Narrow padding, so that all columns fit into 80."""
        self.query_one(KeyedTable).cell_padding = 0
        self.query_one("#runs-box").border_title = "Runs"

    def on_resize(self) -> None:
        """The gaps between columns depend on the width."""
        if self._last is not None:
            self.show(self._last)

    def show(self, view_state: ViewState) -> None:
        self._last = view_state
        if not self.display or not self.size.width:
            return  # not laid out yet; the first resize comes back here
        styles = roles(self.app)
        narrow = self.size.width < WIDE
        timed = timed_only(view_state)
        rows = [Row(str(row.run_id), _cells(row, styles, timed=timed)) for row in run_rows(view_state)]
        table = self.query_one(KeyedTable)
        table.sync(
            _program_columns(view_state, narrow) if timed else _fitted(COLUMNS, NARROW if narrow else {}, {}),
            rows,
        )
        box = self.query_one("#runs-box")
        box.set_class(not rows, "-empty")
        box.border_title = _title(view_state)
        if view_state.run_id is not None and table.selected_key != str(view_state.run_id):
            with self.prevent(DataTable.RowHighlighted):
                table.select_key(str(view_state.run_id))
        self._show_progress(view_state, bool(rows))
        self._show_detail(view_state)
        self._show_glance(view_state, self._paths()["out"])

    def _show_progress(self, view_state: ViewState, any_rows: bool) -> None:
        """A bar for every run that trains and one for the task; without runs, what will stand here."""
        place = self.query_one("#runs-progress", Static)
        if not any_rows:
            place.update(Text(no_run_yet(view_state)))
            return
        place.update(progress_text(view_state, roles(self.app), self.size.width))

    def _show_detail(self, view_state: ViewState) -> None:
        detail, run = self.query_one("#runs-detail", Static), view_state.run
        lines = run_detail(view_state, run) if run is not None and run.task_id == view_state.task_id else []
        detail.display = bool(lines)
        if run is not None:
            detail.border_title = f"Run {run.run_id}: {run.spec.label}"
        detail.update(Text("\n".join(lines)))

    def _show_glance(self, view_state: ViewState, log: Path | None) -> None:
        shown = glance_chart(view_state)
        useful = bool(view_state.runs) and (log is not None or shown is not None)
        glance = self.query_one("#glance")
        glance.set_class(not useful, "-nothing")
        if not useful or not glance.display:
            return
        self.query_one("#glance-chart", ChartView).spec = shown
        self.query_one("#glance-tail", TailView).show_file(log)
        box = self.query_one("#glance-log")
        box.border_title = "Log"
        box.border_subtitle = Text(log.name if log is not None else "no log yet")

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """The cursor selects a run."""
        event.stop()
        if event.row_key.value is not None:
            self.post_message(RunChosen(int(event.row_key.value)))

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Enter or a click opens its log."""
        event.stop()
        if event.row_key.value is not None:
            self.post_message(RunChosen(int(event.row_key.value), open_log=True))


def _title(view_state: ViewState) -> str:
    """What is marked or left out, and the keys that act on it."""
    if marked := len(view_state.marked):
        return f"Runs: {marked} marked (^k cancels, H holds, T limits, R repeats, esc unmarks)"
    hidden = len(view_state.runs) - len(view_state.shown_runs)
    return f"Runs: {hidden} failed or cancelled not shown (F shows them)" if hidden else "Runs"


def progress_text(view_state: ViewState, styles: Roles, width: int) -> Text:
    """One line for each run that trains, with the time it needs yet, and one for the whole task."""
    text = Text(no_wrap=True, overflow="ellipsis")
    cells = max(10, min(30, width - 62))
    for each in live_progress(view_state)[:4]:
        full, empty = words.bar(each.share, cells)
        text.append(f"{each.name:<18} ").append(full, styles.busy).append(empty, styles.quiet)
        text.append(" running" if timed_only(view_state) else f" {each.done} of {each.epochs or '?'} epochs")
        left = "" if each.seconds_left is None else f", about {words.duration(each.seconds_left)} left"
        text.append(f"{left}\n")
    done, wanted = task_progress(view_state)
    if wanted:
        full, empty = words.bar(done / wanted, cells)
        text.append(f"{'Task ' + view_state.task_id:<18} ").append(full, styles.good).append(
            empty, styles.quiet
        )
        text.append(f" {done:g} of {wanted:g} {'runs' if timed_only(view_state) else 'epochs'}")
    return text


def _program_columns(view_state: ViewState, narrow: bool) -> tuple[TableColumn, ...]:
    """The columns of programs, with what their runs differ by: processes or GPUs."""
    programs = [run.spec.program for run in view_state.runs if run.spec.program is not None]
    counts = " or ".join(dict.fromkeys(program.counts for program in programs))
    return _fitted(PROGRAM_COLUMNS, NARROW_PROGRAM if narrow else {}, {"gpus": counts})


def _fitted(
    columns: tuple[TableColumn, ...], widths: Mapping[str, int], titles: Mapping[str, str]
) -> tuple[TableColumn, ...]:
    """The columns with a gap before all but the first."""
    fitted = []
    for each in columns:
        gap, title = "" if each.key == "number" else " ", titles.get(each.key, each.title)
        width = widths.get(each.key, each.width or 0)
        fitted.append(TableColumn(each.key, gap + title, each.right, width + len(gap)))
    return tuple(fitted)


def _cells(row: RunRow, styles: Roles, *, timed: bool = False) -> tuple[str | Text, ...]:
    style = getattr(styles, PHASE_ROLES.get(row.phase, ""), "")
    state = Text(f" {row.state}", style=style)
    first = (row.model, row.gpus, row.batch, *(() if timed else (row.per_gpu,)))
    rate = () if timed else (row.rate,)
    last = (row.epoch, *rate, row.speedup, row.efficiency)
    return (row.number, *(f" {each}" for each in first), state, *(f" {each}" for each in last))


STREAMS = ("out", "err")
SHOWN: tuple[tuple[str, ...], ...] = (("out",), ("err",), ("out", "err"))
"""What is shown in turn."""


class LogPane(Vertical):
    """Two tail views; one or both are shown. Follow and search work on the one that has the focus."""

    _last: ViewState | None = None

    def __init__(
        self,
        paths: Callable[[], LogPaths],
        *,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        """`paths` gives the mirrors of the selected run's logs."""
        super().__init__(id=id, classes=classes)
        self._paths = paths
        self._choice = 0
        self._title = ""
        self._run_id: int | None = None
        self._why_in_err = False  # what explains the run's end is in standard error

    def compose(self) -> ComposeResult:
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
        """The first one: now the end of a log can be shown."""
        if self._last is not None:
            self.show(self._last)

    # ------------------------------------------------------------------ what is shown

    def show(self, view_state: ViewState) -> None:
        self._last = view_state
        if not self.display:
            return
        run, paths = view_state.run, self._paths()
        laid_out = bool(self.size.width)  # if not, the first resize comes back here to place a run's own end
        chosen = laid_out and run is not None and run.run_id != self._run_id
        if laid_out:
            self._run_id = run.run_id if run is not None else None
        self._title = "No run is selected" if run is None else f"Run {run.run_id}: {run.spec.label}"
        self._view("out").when_empty = "What a run prints appears here, from its first line on."
        self._why_in_err = run is not None and any(found.stream == "err" for found in run.diagnosis[:1])
        for stream in ("out", "err"):
            self._view(stream).show_file(paths.get(stream))
        if chosen:
            self._view("out").show_end_of(last_line(view_state, view_state.run))
        self._show_title()

    def _view(self, stream: str) -> TailView:
        return self.query_one(f"#log-{stream}", TailView)

    def _apply_choice(self) -> None:
        for stream in STREAMS:
            self._view(stream).display = stream in SHOWN[self._choice]
        self._show_title()

    def toggle_streams(self) -> None:
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
        view, streams = self.active, SHOWN[self._choice]
        path = view.file.path if view.file is not None else None
        name = path.name if path is not None and len(streams) == 1 else " + ".join(streams)
        which = "err: " if streams == ("err",) else ""  # first, as a long name is cut
        hint = "why it failed: o   " if self._why_in_err and "err" not in streams else ""
        frame_texts(self, f"{which}{self._title}  {name}".strip(), hint + _state(view))

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
        for stream in STREAMS:
            self._view(stream).toggle_folding()
        self._show_title()

    def edit_copy(self, open_editor: Callable[[Path], object]) -> None:
        """A copy of the log in the editor: the log itself stays as the cluster wrote it."""
        file = self.active.file
        if file is None or not file.path.is_file():
            self.notify("No log has been read yet.", severity="warning", markup=False)
            return
        with tempfile.TemporaryDirectory(prefix="labtui-") as folder:
            try:
                copy = Path(shutil.copy(file.path, folder))
            except OSError as error:
                text = f"{file.path.name} cannot be read: {error.strerror}."
                self.notify(text, severity="warning", markup=False)
                return
            open_editor(copy)

    def follow(self) -> None:
        for stream in SHOWN[self._choice]:
            self._view(stream).action_follow()


def _state(view: TailView) -> str:
    """Following or where we are, and the search."""
    if view.file is None:
        return "nothing read yet"
    parts = []
    if view.folding.hidden:
        parts.append(f"{view.folding.hidden} folded (z)")
    if view.needle:
        parts.append(f"/{view.needle} {_found(view)}")
    if view.follow:
        parts.append(f"{view.file.lines} lines, following")
    else:
        below = max(0, view.rows - int(view.scroll_y) - view.size.height)
        more = f"{below} more line{'s' if below != 1 else ''}, " if below else ""
        parts.append(f"{more}end: follow")
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
