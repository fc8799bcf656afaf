"""Plan and submit: the runs as an editable table, their cost, what would be sent, what is wrong, the question."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.coordinate import Coordinate
from textual.message import Message
from textual.screen import Screen
from textual.widgets import DataTable, Input, Static

from labtui.core.model import JobForm, SubmissionDraft
from labtui.errors import LabError, UsageError
from labtui.tui import actions, plan_words
from labtui.tui.messages import ActionEnded
from labtui.tui.plan_table import (
    EDITABLE,
    WORDS,
    PlanRow,
    cell,
    changed,
    drafts_from,
    form_of,
    rows_of,
    scaled,
)
from labtui.tui.screens.modal import STYLES
from labtui.tui.screens.plan_fixing import PlanFixing
from labtui.tui.themes import roles
from labtui.tui.widgets.chrome import KeyLine
from labtui.tui.widgets.keyed_table import Column, KeyedTable, Row

if TYPE_CHECKING:
    from labtui.core.lab.batch_search import Boundary
    from labtui.core.lab.edition import Edition
    from labtui.engine.planning import Preview

COLUMNS = (
    Column("in", ""),
    Column("model", " model"),
    Column("gpus", " GPUs", right=True),
    Column("batch", " batch", right=True),
    Column("per_gpu", " /GPU", right=True),
    Column("rate", " rate", right=True),
    Column("epochs", " epochs", right=True),
    Column("limit", " limit", right=True),
    Column("job", "  job"),
    Column("options", "  options"),
)
VIEWS = ("findings", "script", "files", "difference")
LOOK_S = 40.0
"""How long the plan waits for the cluster's word on paths before it leaves the findings as they are."""


class Previewed(Message):
    """Previews of all drafts, made in a thread; `ticket` tells late ones."""

    def __init__(self, ticket: int, previews: list[Preview | LabError]) -> None:
        super().__init__()
        self.ticket = ticket
        self.previews = previews


class PlanScreen(PlanFixing, Screen[None]):
    """Over the main screen; leaving it submits nothing."""

    CSS_PATH = STYLES / "plan.tcss"
    PLACES = ("plan",)
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (100, "-wide")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("plan")]

    def __init__(
        self,
        session: Any,
        edition: Edition,
        task_id: str,
        drafts: tuple[SubmissionDraft, ...],
    ) -> None:
        super().__init__()
        self.session, self.edition, self.task_id = session, edition, task_id
        self.planned = drafts
        self.rows = list(rows_of(drafts))
        self.form = form_of(drafts)
        self.drafts: tuple[SubmissionDraft, ...] = drafts
        self.scripts: dict[SubmissionDraft, str] = {}  # job scripts the student edited
        self.previews: list[Preview | LabError] = []
        self.verdicts: dict[SubmissionDraft, str] = {}
        self.view = "findings"
        self._ticket = 0
        self._editing: tuple[int, str] | None = None

    def compose(self) -> ComposeResult:
        """Title, table, cost, the views, keys."""
        task = self.edition.task(self.task_id)
        title = Text(f" Plan of {self.task_id} {task.title if task else ''}", style="bold", no_wrap=True)
        if self.session.settings.practice or self.session.profile.status == "practice":
            title.append("  ").append(" practice: nothing real is used ", style="not bold reverse")
        yield Static(title, markup=False, id="plan-title")
        with Vertical(id="plan-body"):
            yield KeyedTable(id="plan-table")
            yield Static(Text(""), markup=False, id="plan-asked")
            yield Input(id="plan-input", compact=True)
            yield Static(Text(""), markup=False, id="plan-cost")
            yield Static(Text(""), markup=False, id="plan-tabs")
            yield KeyedTable(id="plan-findings")
            with VerticalScroll(id="plan-text"):
                yield Static(Text(""), markup=False, id="plan-page")
        yield KeyLine()

    def on_mount(self) -> None:
        """Fill and look for findings."""
        table = self.query_one("#plan-table", KeyedTable)
        table.cell_padding, table.cursor_type = 0, "cell"
        self.query_one("#plan-findings", KeyedTable).cell_padding = 0
        self._close_input()
        self.query_one(KeyLine).show(actions.foot("plan", "app"))
        self.recompute()
        table.focus()
        table.move_cursor(row=0, column=2)

    # ------------------------------------------------------------------ the table

    def recompute(self) -> None:
        """Drafts and previews from the rows."""
        self.drafts = drafts_from(self.rows, self.planned, self.form, self.edition, self.session.profile)
        jobs: dict[int, SubmissionDraft] = {}
        places = iter([draft for draft in self.drafts for _ in draft.runs])
        for index, row in enumerate(self.rows):
            if row.included:
                jobs[index] = next(places)
        shown = [
            Row(str(index), plan_words.cells(row, jobs.get(index), self._job_number(jobs.get(index))))
            for index, row in enumerate(self.rows)
        ]
        self.query_one("#plan-table", KeyedTable).sync(COLUMNS, shown)
        self._ticket += 1
        self._preview(self._ticket, self.drafts, dict(self.scripts))

    def _job_number(self, draft: SubmissionDraft | None) -> int:
        return self.drafts.index(draft) + 1 if draft in self.drafts else 0

    @work(thread=True, exit_on_error=False, group="previews")
    def _preview(
        self, ticket: int, drafts: tuple[SubmissionDraft, ...], scripts: dict[SubmissionDraft, str]
    ) -> None:
        asked = self._ask_about_paths(drafts, scripts)
        self.post_message(Previewed(ticket, self._previews(drafts, scripts)))
        copies = None
        with contextlib.suppress(LabError):
            copies = self.session.look_at_shared()
        for answer in filter(None, (asked, copies)):
            with contextlib.suppress(LabError, TimeoutError):
                answer.result(timeout=LOOK_S)
                self.post_message(Previewed(ticket, self._previews(drafts, scripts)))

    def _previews(
        self, drafts: tuple[SubmissionDraft, ...], scripts: dict[SubmissionDraft, str]
    ) -> list[Preview | LabError]:
        previews: list[Preview | LabError] = []
        for draft in drafts:
            try:
                previews.append(self.session.preview(draft, script=scripts.get(draft)))
            except LabError as error:
                previews.append(error)
        return previews

    def _ask_about_paths(
        self, drafts: tuple[SubmissionDraft, ...], scripts: dict[SubmissionDraft, str]
    ) -> Any:
        """Have the cluster asked whether data and container are there; None when there is nothing to ask now."""
        paths: dict[str, None] = {}
        for draft in drafts:
            with contextlib.suppress(LabError):
                paths.update(dict.fromkeys(self.session.paths_to_ask(draft, script=scripts.get(draft))))
        return self.session.look_at(tuple(paths))

    def on_previewed(self, message: Previewed) -> None:
        """The newest previews are there."""
        if message.ticket == self._ticket:
            self.previews = message.previews
            self._show_views()

    @property
    def place(self) -> tuple[int, str]:
        """Row and column under the cursor."""
        cursor = self.query_one("#plan-table", KeyedTable).cursor_coordinate
        return cursor.row, COLUMNS[cursor.column].key

    @property
    def current(self) -> int:
        """The job the cursor is in, as an index into drafts and previews."""
        row = self.place[0]
        if not 0 <= row < len(self.rows) or not self.rows[row].included:
            return 0
        place = sum(1 for each in self.rows[:row] if each.included)
        numbers = [index for index, draft in enumerate(self.drafts) for _ in draft.runs]
        return numbers[place] if place < len(numbers) else 0

    @on(DataTable.CellHighlighted, "#plan-table")
    def _moved(self) -> None:
        self._show_views()

    @on(DataTable.CellSelected, "#plan-table")
    def _selected(self) -> None:
        self.action_change_cell()

    # ------------------------------------------------------------------ what is said below

    def _show_views(self) -> None:
        styles = roles(self.app)
        draft = self.drafts[self.current] if self.current < len(self.drafts) else None
        self.query_one("#plan-cost", Static).update(
            plan_words.cost_line(self.drafts, self.previews, self.verdicts, styles).append_text(
                plan_words.doubts(self.drafts, self._boundaries(), styles)
            )
        )
        preview = self.previews[self.current] if self.current < len(self.previews) else None
        self.query_one("#plan-tabs", Static).update(
            plan_words.view_line(self.view, VIEWS, preview, self.current, edited=draft in self.scripts)
        )
        findings = self.query_one("#plan-findings", KeyedTable)
        rows = plan_words.finding_rows(preview, styles) if self.view == "findings" else []
        findings.sync(plan_words.FINDING_COLUMNS, rows)
        findings.display = bool(rows)
        page = plan_words.page(self.view, preview, draft, self.finding, self.session, styles)
        self.query_one("#plan-page", Static).update(page)

    def _boundaries(self) -> dict[str, Boundary]:
        """What this folder's runs tell about the batch that fits, by model."""
        from labtui.engine.batches import known_boundary

        models = {spec.model for draft in self.drafts for spec in draft.runs if spec.device == "gpu"}
        return {model: known_boundary(self.session, model) for model in models}

    @on(DataTable.RowHighlighted, "#plan-findings")
    def _finding_moved(self) -> None:
        self._show_views()

    # ------------------------------------------------------------------ changing

    def _change(self, row: int, new: PlanRow) -> None:
        rows = [*self.rows]
        rows[row] = new
        self._become(rows, self.form)

    def _become(self, rows: list[PlanRow], form: JobForm | None) -> None:
        """Another plan; when an edited job script does not fit it any more, the student is asked first."""
        drafts = drafts_from(rows, self.planned, form, self.edition, self.session.profile)
        lost = [draft for draft in self.drafts if draft in self.scripts and draft not in drafts]

        def become(yes: bool | None) -> None:
            if yes:
                self.rows, self.form = rows, form
            self.recompute()

        if not lost:
            become(True)
            return
        from labtui.tui.screens.prompts import Confirm

        text = f"You edited the job script of {lost[0].job_name}. This change makes a new script, without your edits."
        self.app.push_screen(Confirm(text, yes="Change the plan", no="Keep my script"), become)

    def action_change_cell(self) -> None:
        """Type another number for the cell under the cursor."""
        row, column = self.place
        if column == "in":
            self.action_drop_row()
            return
        if column not in EDITABLE or row >= len(self.rows):
            return
        if column == "gpus" and self.rows[row].spec.device == "cpu":
            self.notify("This run is on the CPU; GPU runs are rows of their own.", markup=False)
            return
        self._editing = (row, column)
        asked, line = self.query_one("#plan-asked", Static), self.query_one("#plan-input", Input)
        asked.display = line.display = True
        asked.update(Text(f"Run {row + 1}, {WORDS[column]}: enter sets it, esc leaves it as it was."))
        line.value = cell(self.rows[row], column)
        line.focus()

    @on(Input.Submitted, "#plan-input")
    def _typed(self, event: Input.Submitted) -> None:
        event.stop()
        if self._editing is None:
            return
        row, column = self._editing
        try:
            new = changed(self.rows[row], column, event.value)
        except UsageError as error:
            self.app.report(error)  # type: ignore[attr-defined]
            return
        self._close_input()
        self._change(row, new)

    def _close_input(self) -> None:
        self._editing = None
        for part in ("#plan-asked", "#plan-input"):
            self.query_one(part).display = False
        self.query_one("#plan-table").focus()

    def action_scale_cell(self, factor: float) -> None:
        """Double or halve the number under the cursor."""
        row, column = self.place
        if column in EDITABLE and row < len(self.rows):
            try:
                self._change(row, scaled(self.rows[row], column, factor))
            except UsageError as error:
                self.notify(error.sentence, severity="error", markup=False)

    def action_drop_row(self) -> None:
        """Leave a run out, or take it back."""
        row = self.place[0]
        old = self.rows[row]
        self._change(row, PlanRow(old.spec, old.origin, not old.included, old.limit))

    def action_toggle_form(self) -> None:
        """One job for all sizes, or one job per size."""
        if self.form is None:
            self.notify("There is nothing to choose here: each run is a job of its own.", markup=False)
            return
        self._become([*self.rows], "one-job" if self.form == "job-per-size" else "job-per-size")

    def action_next_view(self) -> None:
        """Findings, job script, files, their difference from what was sent."""
        self.view = VIEWS[(VIEWS.index(self.view) + 1) % len(VIEWS)]
        self._show_views()

    def action_back(self) -> None:
        """Leave the line, then the screen."""
        if self._editing is not None:
            self._close_input()
        else:
            self.dismiss(None)

    # ------------------------------------------------------------------ sending

    def action_test_only(self) -> None:
        """The cluster's own word on every job of the plan."""
        for draft in self.drafts:
            self.verdicts[draft] = "asking Slurm ..."
            script = self.scripts.get(draft)
            self.app.follow(  # type: ignore[attr-defined]
                "test-only",
                lambda draft=draft, script=script: self.session.test_only(draft, script=script),
                "",
                about=draft,
            )
        self._show_views()

    def action_ended(self, message: ActionEnded) -> None:
        """An answer of the cluster."""
        if message.name == "test-only":
            self.verdicts[message.about] = plan_words.verdict(message.result, message.error)
            self._show_views()

    def action_send(self) -> None:
        """Ask once more, then put everything into the waiting line."""
        if not self.drafts:
            self.notify("Every run is left out.", markup=False)
            return
        stops = plan_words.stops(self.previews)
        if stops:
            self.view = "findings"
            self._show_views()
            self.notify(stops, severity="error", markup=False)
            return
        from labtui.tui.screens.prompts import Confirm

        text, details = plan_words.question(self.drafts, self.previews, set(self.scripts))
        self.app.push_screen(Confirm(text, yes="Submit", no="Not yet", details=details), self._sent)

    def _sent(self, yes: bool | None) -> None:
        if not yes:
            return
        for draft in self.drafts:
            script = self.scripts.get(draft)
            self.app.follow(  # type: ignore[attr-defined]
                "submit", lambda draft=draft, script=script: self.session.submit(draft, script=script), ""
            )
        self.app.after_submit()  # type: ignore[attr-defined]
        self.dismiss(None)

    def focus_table_at(self, row: int, column: int) -> None:
        """Put the cursor on a cell (tests, clicks)."""
        self.query_one("#plan-table", KeyedTable).cursor_coordinate = Coordinate(row, column)
