"""Pages over a screen: a text, help, problems, what labtui asked the cluster, the jobs there, the doctor's checks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import DataTable, Footer, Static

from labtui.domain.state import LabState
from labtui.domain.terminal_text import display_text
from labtui.tui import format as words
from labtui.tui.screens.prompts import Ask, Modal, yes_or_no
from labtui.tui.themes import Roles, roles
from labtui.tui.widgets.tables import KeyedTable, Row, TableColumn

if TYPE_CHECKING:
    from labtui.cluster.target import Prompter
    from labtui.doctor.findings import Check
    from labtui.practice.incidents import IncidentNote
    from labtui.session.session import Session
    from labtui.slurm.job_evidence import MyJob
    from labtui.tui.app import LabApp

_Answer = TypeVar("_Answer")


class ModalPage(Modal[_Answer]):
    """A title, the `body`, and the keys, of which `esc` and `q` close the page."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "close", "Close")]
    title_text = ""

    def compose(self) -> ComposeResult:
        with Vertical(classes="page"):
            title = Text(self.title_text, style="bold")
            yield Static(title, markup=False, classes="page-title", id="page-title")
            yield from self.body()
            yield Footer(compact=True, show_command_palette=False)

    def body(self) -> ComposeResult:
        raise NotImplementedError

    def action_close(self) -> None:
        self.dismiss(None)


class TextScreen(ModalPage[None]):
    """A page of text; with `copy`, c puts it on the clipboard."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("c", "copy", "Copy")]

    def __init__(self, title: str, text: Text | Table | str, *, copy: bool = False) -> None:
        super().__init__()
        self.title_text, self.page = title, Text(text) if isinstance(text, str) else text
        self.copy = copy

    def body(self) -> ComposeResult:
        with VerticalScroll(classes="page-text"):
            yield Static(self.page, markup=False)

    def on_mount(self) -> None:
        """Arrow keys scroll."""
        self.query_one(VerticalScroll).focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "copy" or self.copy

    def action_copy(self) -> None:
        if isinstance(self.page, Text):
            self.app.copy_to_clipboard(self.page.plain)
            self.notify("Copied.", timeout=2)


def problems_text(state: LabState, session: Session, incidents: Sequence[IncidentNote] = ()) -> Text:
    """Every error that is not over, with its hint; then what a rehearsal let go wrong on purpose."""
    page = Text()
    for problem in state.problems:
        page.append(f"! {problem.sentence}\n", style="bold").append(
            f"  {problem.hint}\n\n" if problem.hint else "\n"
        )
    if not state.problems:
        calm = state.connection.status in {"online", "connecting", "stale"}
        page.append("No problems.\n\n" if calm else "No problem except the connection.\n\n")
    connection = state.connection
    if connection.sentence:
        page.append(f"{connection.sentence} {connection.hint}".rstrip() + "\n")
    for note in incidents:
        page.append(f"\n{note.title}\n", style="bold").append(f"{note.text}\n")
    page.append(f"\nUnexpected errors are written to {session.folder.problem_log}\n", style="dim")
    return page


COLUMNS = (
    TableColumn("at", "time"),
    TableColumn("seconds", " s", right=True),
    TableColumn("status", " status"),
    TableColumn("name", " what"),
    TableColumn("command", " command"),
)
EVERY = 1.0
SLURM = ("squeue", "sbatch", "sacct", "scancel", "scontrol")


class RemoteCommands(ModalPage[None]):
    """A table and, below, the whole command under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("m", "close", "close", show=False)]

    def __init__(self, session: Session, clock: Callable[[], float]) -> None:
        super().__init__()
        self._session = session
        self._clock = clock
        self._commands: list[str] = []

    def body(self) -> ComposeResult:
        yield KeyedTable(id="commands-table")
        yield Static(Text(""), markup=False, id="command-whole")

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
        title = f"Requests to the cluster: {len(records)} kept, {recent} in the last minute"
        self.query_one("#page-title", Static).update(Text(title, style="bold"))
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


def _text(command: str) -> str:
    return "\n".join(display_text(line.encode()) for line in command.splitlines())


def _cells(record: Any) -> tuple[str, ...]:
    status = words.NOTHING if record.status is None else str(record.status)
    command = _main_command_line(_text(record.command))
    when = time.strftime("%H:%M:%S", time.localtime(record.at))
    return (when, f" {record.seconds:.2f}", f" {status}", f" {record.name}", f" {command[:200]}")


def _main_command_line(command: str) -> str:
    """The line of a script that says most: the one that calls Slurm, else the last."""
    lines = [
        " ".join(line.split()) for line in command.splitlines() if line.strip() and not line.startswith("#")
    ]
    calling = [
        line for line in lines if any(f"{name} " in line for name in SLURM) and not line.startswith("unset ")
    ]
    return (calling or lines or [""])[-1 if not calling else 0]


SIGNS = {"ok": ("✔", "good"), "warning": ("!", "warn"), "problem": ("✘", "bad"), "skipped": ("-", "quiet")}


class Checked(Message):
    """One more check is known; None: that was the last one."""

    def __init__(self, check: Check | None) -> None:
        super().__init__()
        self.check = check


JOB_COLUMNS: tuple[TableColumn, ...] = (
    TableColumn("job", "job", width=10),
    TableColumn("name", "name", width=30),
    TableColumn("state", "state", width=10),
    TableColumn("lasted", "for", width=12),
    TableColumn("queue", "queue", width=12),
    TableColumn("node", "node", width=12),
    TableColumn("runs", "labtui", width=16),
)
NARROW_JOBS = {"job": 9, "name": 10, "state": 8, "lasted": 11, "queue": 10, "node": 10, "runs": 12}
"""Widths in a window of 80 columns; the line below the table has the whole of the chosen job."""
WIDE_JOBS = 110


class JobsPage(ModalPage[None]):
    """Every living job of the student as the queue last said, also those that this folder did not send."""

    app: LabApp
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("Q", "close", "close", show=False),
        Binding("ctrl+k", "cancel_job", "Cancel the job"),
    ]
    title_text = "Your jobs on the cluster"

    def __init__(
        self,
        session: Session,
        clock: Callable[[], float],
        factor: float = 1.0,
    ) -> None:
        """`factor` is how much faster than real a rehearsal's clock goes."""
        super().__init__()
        self._session, self._clock, self._factor = session, clock, factor
        self._jobs: tuple[MyJob, ...] = ()

    def body(self) -> ComposeResult:
        yield KeyedTable(id="jobs-table")
        yield Static(Text(""), markup=False, id="jobs-none")
        yield Static(Text(""), markup=False, id="jobs-more")

    def on_mount(self) -> None:
        """Fill, then keep filling."""
        self.query_one(KeyedTable).cell_padding = 0
        self.refresh_jobs()
        self.set_interval(EVERY, self.refresh_jobs)
        self.query_one(KeyedTable).focus()

    def refresh_jobs(self) -> None:
        """The queue as it was read last."""
        self._jobs = self._session.my_jobs()
        known = self._session.state.refreshed_at is not None
        empty = "No job of yours is in the queue." if known else "The queue has not been read yet."
        read_at = self._session.state.refreshed_at
        later = 0.0 if read_at is None else max(0.0, self._clock() - read_at) * self._factor
        cells = [_job_cells(job, later) for job in self._jobs]
        table, columns = self.query_one(KeyedTable), JOB_COLUMNS
        if self.app.size.width < WIDE_JOBS:
            columns = tuple(replace(each, width=NARROW_JOBS[each.key]) for each in JOB_COLUMNS)
        rows = [_apart(row, columns) for row in cells]
        table.sync(
            columns, [Row(job.job_id or job.token, row) for job, row in zip(self._jobs, rows, strict=True)]
        )
        chosen = min(max(0, table.cursor_row), len(cells) - 1)
        self.query_one("#jobs-none", Static).update(Text("  ".join(cells[chosen]) if cells else empty))
        more = self._session.state.more_jobs
        older = f"{more:,} older jobs are not listed." if more else ""
        self.query_one("#jobs-more", Static).update(Text(older))

    @on(DataTable.RowHighlighted)
    def _moved(self) -> None:
        self.refresh_jobs()

    def action_cancel_job(self) -> None:
        """Cancel the chosen job, after asking."""
        place = self.query_one(KeyedTable).cursor_row
        if 0 <= place < len(self._jobs) and self._jobs[place].job_id:
            job = self._jobs[place]
            done = f"Job {job.job_id} is being cancelled."
            cancel = partial(self._session.cancel_job, job.job_id)
            self.app.push_screen(
                Ask(f"Cancel job {job.job_id} ({job.name})?", choices=yes_or_no("Cancel the job", "Keep it")),
                lambda yes: self.app.follow("cancel", cancel, done) if yes else None,
            )


def _apart(cells: tuple[str, ...], columns: tuple[TableColumn, ...]) -> tuple[Text, ...]:
    """Cells that end before their columns do."""
    texts = tuple(map(Text, cells))
    for text, column in zip(texts, columns, strict=True):
        text.truncate((column.width or text.cell_len) - 1, overflow="ellipsis")
    return texts


def _job_cells(job: MyJob, later: float) -> tuple[str, ...]:
    """`later` is how many seconds of the cluster's ago the queue was read."""
    runs = f"run {', '.join(map(str, job.run_ids))}" if job.run_ids else "not labtui's"
    lasted = words.NOTHING if job.lasted_s is None else words.duration(job.lasted_s + later)
    state = "held" if job.held else job.phase.value
    cells = (job.job_id or words.NOTHING, job.name, state, lasted, job.queue, job.node or words.NOTHING, runs)
    return tuple(display_text(cell.encode()) for cell in cells)


class DoctorScreen(ModalPage[None]):
    """Logs in once more, in a thread of its own, and asks for everything that a job needs. It changes nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("D", "close", "close", show=False)]
    title_text = "Doctor: requirements of a job"

    def __init__(self, session: Session, prompter: Prompter | None, ended: Callable[[], None]) -> None:
        super().__init__()
        self._session, self._prompter, self._ended = session, prompter, ended
        self._checks: list[Check] = []
        self._under_way = True

    def body(self) -> ComposeResult:
        with VerticalScroll(classes="page-text"):
            yield Static(Text(""), markup=False, id="doctor-checks")

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self._show()
        threading.Thread(target=self._examine, name="labtui-doctor", daemon=True).start()

    def _examine(self) -> None:
        from labtui.cluster.target import NonInteractivePrompter
        from labtui.doctor.examine import examine
        from labtui.session.lab_cluster import requirements_of
        from labtui.session.settings import overrides_of

        seen: dict[str, bool] = {}
        try:
            settings = self._session.settings
            overrides, wanted = overrides_of(settings), requirements_of(self._session.folder, settings)
            prompter = self._prompter or NonInteractivePrompter()
            for check in examine(self._session.profile, overrides, wanted, prompter, seen.update):
                self.post_message(Checked(check))
            if seen:
                self._session.note_paths(seen)
        except Exception as error:  # a check must never take the screens down
            self._session.faults.write(error)
        finally:
            self.post_message(Checked(None))

    def on_checked(self, message: Checked) -> None:
        """Add what is known."""
        if message.check is None:
            self._under_way = False
            self._ended()
            self.set_timer(
                0.5, self._show
            )  # checks that come while the page opens may leave it with its first height
        else:
            self._checks.append(message.check)
        self._show()

    def _show(self) -> None:
        box = self.query_one("#doctor-checks", Static)
        if not box.is_mounted:  # Textual would keep the height of what it held before
            self.call_after_refresh(self._show)
            return
        box.update(checks_page(self._checks, roles(self.app), running=self._under_way))


def checks_page(checks: list[Check], styles: Roles, *, running: bool) -> Text:
    """Each check with its sign, its sentence and its fix; then what all of them say."""
    page = Text()
    for check in checks:
        sign, role = SIGNS[check.status]
        page.append(f"{sign} {check.title}: ", style=getattr(styles, role)).append(f"{check.sentence}\n")
        if check.fix:
            page.append(f"  → {check.fix}\n", style=styles.warn)
    if running:
        return page.append("Checking ...", style=styles.quiet)
    problems = sum(check.status == "problem" for check in checks)
    warnings = sum(check.status == "warning" for check in checks)
    if problems:
        return page.append(f"\n{problems} problem{'s' if problems != 1 else ''} to fix.", style=styles.bad)
    if warnings:
        return page.append(
            f"\nNo problem, {warnings} warning{'s' if warnings != 1 else ''}.", style=styles.warn
        )
    return page.append("\nAll requirements of a job are met.", style=styles.good)
