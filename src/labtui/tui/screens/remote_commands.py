"""What labtui asked the cluster: when, what, how long it took, how it ended. Newest first, filling in live."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import DataTable, Static

from labtui.tui import format as words
from labtui.tui.logtext import display_text
from labtui.tui.screens.modal import Modal
from labtui.tui.widgets.keyed_table import Column, KeyedTable, Row
from labtui.tui.widgets.keyline import ModalKeys

COLUMNS = (
    Column("at", "time"),
    Column("seconds", " s", right=True),
    Column("status", " status"),
    Column("name", " what"),
    Column("command", " command"),
)
EVERY = 1.0
SLURM = ("squeue", "sbatch", "sacct", "scancel", "scontrol")


class RemoteCommands(Modal[None]):
    """A table and, below, the whole command under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,m", "close", "close", show=False)]

    def __init__(self, session: Any, clock: Callable[[], float]) -> None:
        super().__init__()
        self._session = session
        self._clock = clock
        self._commands: list[str] = []

    def compose(self) -> ComposeResult:
        """Title with counts, table, the whole command, keys."""
        with Vertical(classes="page"):
            yield Static(Text(""), markup=False, classes="page-title", id="commands-title")
            yield KeyedTable(id="commands-table")
            yield Static(Text(""), markup=False, id="command-whole")
            yield ModalKeys(("esc", "closes", "close"), classes="page-keys")

    def on_mount(self) -> None:
        """Fill, then keep filling."""
        self.query_one(KeyedTable).cell_padding = 0
        self.refresh_commands()
        self.set_interval(EVERY, self.refresh_commands)
        self.query_one(KeyedTable).focus()

    def refresh_commands(self) -> None:
        """Look at what was asked since."""
        records = list(self._session.commands)
        recent = sum(1 for record in records if self._clock() - record.at < 60)
        title = f"What labtui asked the cluster: {len(records)} kept, {recent} in the last minute"
        self.query_one("#commands-title", Static).update(Text(title, style="bold"))
        self._commands = [_text(record.command) for record in reversed(records)]
        rows = [
            Row(str(len(records) - index), _cells(record)) for index, record in enumerate(reversed(records))
        ]
        self.query_one(KeyedTable).sync(COLUMNS, rows)
        self._show_whole()

    @on(DataTable.RowHighlighted)
    def _show_whole(self) -> None:
        table = self.query_one(KeyedTable)
        place = table.cursor_row
        whole = self._commands[place] if 0 <= place < len(self._commands) else ""
        self.query_one("#command-whole", Static).update(Text(whole))

    def action_close(self) -> None:
        """Back."""
        self.dismiss(None)


def _text(command: str) -> str:
    return "\n".join(display_text(line.encode()) for line in command.splitlines())


def _cells(record: Any) -> tuple[str, ...]:
    status = words.NOTHING if record.status is None else str(record.status)
    told = _told(_text(record.command))
    when = time.strftime("%H:%M:%S", time.localtime(record.at))
    return (when, f" {record.seconds:.2f}", f" {status}", f" {record.name}", f" {told[:200]}")


def _told(command: str) -> str:
    """The line of a script that says most: the one that calls Slurm, else the last."""
    lines = [
        " ".join(line.split()) for line in command.splitlines() if line.strip() and not line.startswith("#")
    ]
    calling = [
        line for line in lines if any(f"{name} " in line for name in SLURM) and not line.startswith("unset ")
    ]
    return (calling or lines or [""])[-1 if not calling else 0]
