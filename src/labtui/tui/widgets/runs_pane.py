"""The runs of a task as a table; on large screens a chart and the end of a log stand below: one glance."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import DataTable, Static

from labtui.core.model import RunPhase
from labtui.tui.guidance import no_run_yet
from labtui.tui.messages import RunChosen
from labtui.tui.themes import Roles, roles
from labtui.tui.view import Picture, RunRow, run_detail, run_rows
from labtui.tui.widgets.chart import ChartView
from labtui.tui.widgets.keyed_table import Column, KeyedTable, Row
from labtui.tui.widgets.tail_view import TailView

COLUMNS = (
    Column("number", "#", right=True),
    Column("model", "model"),
    Column("gpus", "GPUs", right=True),
    Column("batch", "batch", right=True),
    Column("per_gpu", "/GPU", right=True),
    Column("state", "state"),
    Column("epoch", "epoch s", right=True),
    Column("rate", "img/s", right=True),
    Column("speedup", "speedup", right=True),
    Column("efficiency", "eff.", right=True),
)
PHASE_ROLES = {
    RunPhase.RUNNING: "busy",
    RunPhase.STARTING: "busy",
    RunPhase.DONE: "good",
    RunPhase.FAILED: "bad",
    RunPhase.UNKNOWN: "warn",
    RunPhase.CANCELLED: "quiet",
    RunPhase.WAITING: "quiet",
}


class RunsPane(Vertical):
    """Table, sentences about the selected run, glance row."""

    _last: tuple[Picture, Path | None] | None = None

    def compose(self) -> ComposeResult:
        """Parts in order."""
        yield KeyedTable(id="runs-table")
        yield Static(Text(""), id="runs-detail", markup=False)
        with Horizontal(id="glance"):
            yield ChartView(id="glance-chart")
            with Vertical(id="glance-log"):
                yield Static(Text(""), id="glance-log-title", markup=False)
                yield TailView(id="glance-tail")

    def on_mount(self) -> None:
        """Narrow padding, so that all columns fit into 80."""
        self.query_one(KeyedTable).cell_padding = 0

    def on_resize(self) -> None:
        """The gaps between columns depend on the width."""
        if self._last is not None:
            self.show(*self._last)

    def show(self, picture: Picture, log: Path | None) -> None:
        """Bring everything up to date."""
        self._last = (picture, log)
        if not self.size.width:
            return  # not laid out yet; the first resize comes back here
        styles = roles(self.app)
        gap = "  " if self.size.width >= 85 else " "
        rows = [Row(str(row.run_id), _cells(row, gap, styles)) for row in run_rows(picture)]
        table = self.query_one(KeyedTable)
        table.sync(_columns(gap), rows)
        table.display = bool(rows)
        if picture.run_id is not None and table.selected_key != str(picture.run_id):
            with self.prevent(DataTable.RowHighlighted):
                table.select_key(str(picture.run_id))
        self._show_detail(picture, bool(rows))
        self._show_glance(picture, log)

    def _show_detail(self, picture: Picture, any_rows: bool) -> None:
        detail = self.query_one("#runs-detail", Static)
        if not any_rows:
            detail.update(Text(no_run_yet(picture), style="dim"))
            return
        run = picture.run
        lines = run_detail(picture, run) if run is not None and run.task_id == picture.task_id else []
        detail.update(
            Text("\n".join(f"#{run.run_id}  {line}" for line in lines)) if run is not None else Text("")
        )

    def _show_glance(self, picture: Picture, log: Path | None) -> None:
        speedup = next((chart for chart in picture.charts if chart.key == "speedup"), None)
        epoch = next((chart for chart in picture.charts if chart.key == "epoch-time"), None)
        shown = speedup if speedup is not None and not speedup.empty else epoch
        useful = bool(picture.runs) and (log is not None or (shown is not None and not shown.empty))
        self.query_one("#glance").set_class(not useful, "-nothing")
        if not useful or not self.query_one("#glance").display:
            return
        self.query_one("#glance-chart", ChartView).spec = shown
        tail = self.query_one("#glance-tail", TailView)
        tail.show_file(log)
        title = log.name if log is not None else "no log yet"
        self.query_one("#glance-log-title", Static).update(
            Text(title, style="bold", no_wrap=True, overflow="ellipsis")
        )

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


def _columns(gap: str) -> tuple[Column, ...]:
    return tuple(
        Column(each.key, each.title if each.key == "number" else gap + each.title, each.right)
        for each in COLUMNS
    )


def _cells(row: RunRow, gap: str, styles: Roles) -> tuple[str | Text, ...]:
    texts = (
        row.number,
        row.model,
        row.gpus,
        row.batch,
        row.per_gpu,
        row.state,
        row.epoch,
        row.rate,
        row.speedup,
        row.efficiency,
    )
    style = getattr(styles, PHASE_ROLES.get(row.phase, ""), "")
    cells: list[str | Text] = []
    for column, text in zip(COLUMNS, texts, strict=True):
        padded = text if column.key == "number" else gap + text
        cells.append(Text(padded, style=style) if column.key == "state" else padded)
    return tuple(cells)
