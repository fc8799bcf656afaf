"""Plan and submit: the runs as an editable table, their cost, what would be sent, what is wrong, the question."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.coordinate import Coordinate
from textual.widgets import DataTable, Input, Static

from labtui.domain.errors import LabError, UsageError
from labtui.domain.model import JobForm, SubmissionDraft
from labtui.lab.plan import copies_to_start
from labtui.lab.plan_table import (
    EDITABLE,
    OWN_WORDS,
    WORDS,
    PlanRow,
    cell,
    changed,
    drafts_from,
    own_answer,
    own_value,
    scaled,
)
from labtui.session.labs import files_stamp
from labtui.session.own_jobs import Answers
from labtui.tui import plan_words
from labtui.tui.keys import key
from labtui.tui.messages import ActionEnded, RunsSubmitted
from labtui.tui.screens.plan_fixing import COLUMNS, PlanFixing, Previewed
from labtui.tui.screens.prompts import STYLES
from labtui.tui.themes import roles
from labtui.tui.widgets.frame import Foot
from labtui.tui.widgets.tables import KeyedTable, Row

if TYPE_CHECKING:
    from labtui.preflight import FindingKey
    from labtui.session.batches import Boundary
    from labtui.session.preview import Preview

VIEWS = ("findings", "script", "files", "difference")
LOOK_EVERY_S = 1.0


class PlanScreen(PlanFixing):
    """Over the main screen; leaving it submits nothing."""

    CSS_PATH = STYLES / "plan.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide"), (160, "-huge")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        key("s", "send", "Submit", "submit what is shown, after asking", show=True),
        key("enter", "change_cell", "Change", "change the selected number", show=True),
        key("f", "fix", "Fix", "show what a fix would change, then apply it", show=True),
        key("J", "toggle_form", "Job form", "one job, one per size, or a job file of your own", show=True),
        key("v", "next_view", "View", "findings, job script, files, difference", show=True),
        key("i", "test_only", "Ask Slurm", "ask the cluster whether it would accept this", show=True),
        key("escape", "back", "Back", "leave the plan; nothing is submitted", show=True),
        key(
            "O",
            "override",
            "Override",
            "submit in spite of the chosen finding, with a reason; again: take it back",
        ),
        key("plus", "scale_cell(2)", "Double", "double the selected number"),
        key("minus", "scale_cell(0.5)", "Halve", "halve the selected number"),
        key("d", "drop_row", "Leave out", "leave the selected run out of this plan, or take it back"),
        key("e", "edit", "Edit", "open the job script in your editor"),
        key("w", "shell_commands", "By hand", "the shell commands that do the same, ready to copy"),
    ]

    def compose(self) -> ComposeResult:
        task = self.edition.task(self.task_id)
        title = Text(f" Plan of {self.task_id} {task.title if task else ''}", style="bold", no_wrap=True)
        if self.session.practice:
            title.append("   practice: nothing real is used", style="not bold")
        yield Static(title, markup=False, id="plan-title")
        with Container(id="plan-body"):
            with Vertical(id="plan-left"):
                with Vertical(id="plan-runs", classes="panel"):
                    yield KeyedTable(id="plan-table")
                    yield Static(Text(""), markup=False, id="plan-asked")
                    yield Input(id="plan-input", compact=True)
                yield Static(Text(""), markup=False, id="plan-cost", classes="panel")
                with Vertical(id="plan-check", classes="panel"):
                    yield KeyedTable(id="plan-findings")
                    yield Static(Text(""), markup=False, id="plan-finding")
            with VerticalScroll(id="plan-text", classes="panel"):
                yield Static(Text(""), markup=False, id="plan-page")
        yield Foot()

    _reasons: dict[FindingKey, str]  # why findings are overridden
    _copies: tuple[tuple[str, str], ...] = ()  # scripts that the task asks to make from others
    _stopped_by = ""  # what the student was told that stops the plan
    _checked = 0  # the ticket of the previews on the screen
    _send_when_checked = False
    _files: tuple[object, ...] = ()  # what the scripts and the own job file were when they were read
    _rendered: list[PlanRow]  # the task's rows while an own job file is planned

    def on_mount(self) -> None:
        """Fill and look for findings; a task without runs of its own begins with the student's job file."""
        self._reasons = {}
        task = self.edition.task(self.task_id)
        self._copies = copies_to_start(task) if task is not None else ()
        if not self.planned and (own := self.session.job_files()):
            self.job_file, self._rendered = own[0], []
        table = self.query_one("#plan-table", KeyedTable)
        table.cell_padding, table.cursor_type = 0, "cell"
        self.query_one("#plan-findings", KeyedTable).cell_padding = 0
        for part, name in (("#plan-runs", "Runs"), ("#plan-cost", "Cost"), ("#plan-check", "Findings")):
            self.query_one(part).border_title = name
        self._close_input()
        self.recompute()
        if self.done:
            self.notify(self.done, markup=False)
        self.set_interval(LOOK_EVERY_S, self._read_again)
        table.focus()
        table.move_cursor(row=0, column=2)

    # ------------------------------------------------------------------ the table

    def recompute(self) -> None:
        """Drafts and previews from the rows, or from the student's own job file."""
        self._send_when_checked = False
        self._files = self._stamp()
        self._make_drafts()
        jobs: dict[int, SubmissionDraft] = {}
        places = iter([draft for draft in self.drafts for _ in draft.runs])
        for index, row in enumerate(self.rows):
            if row.included:
                jobs[index] = next(places)
        shown = [
            Row(str(index), plan_words.cells(row, jobs.get(index), self._job_number(jobs.get(index))))
            for index, row in enumerate(self.rows)
        ]
        self.query_one("#plan-table", KeyedTable).sync(plan_words.columns_of(COLUMNS, self.rows), shown)
        self._ticket += 1
        self._preview(self._ticket, self.drafts, dict(self.scripts))

    def _make_drafts(self) -> None:
        if self.job_file is not None:
            try:
                self._read_own(self.job_file)
            except LabError as error:
                self.app.report(error)
                self.job_file, self.rows, self.form = None, self._rendered, next(iter(self.forms), None)
        if self.job_file is None:
            self.drafts = drafts_from(self.rows, self.planned, self.form, self.edition, self.session.profile)
        title = plan_words.runs_title(self.job_file, self.session.job_files())
        self.query_one("#plan-runs").border_title = Text(title)

    def _stamp(self) -> tuple[object, ...]:
        """Tells whether the scripts or the own job file were changed, by whatever program."""
        own = self.job_file.stat() if self.job_file is not None and self.job_file.exists() else None
        scripts = str(self.session.folder.scripts)
        changed = frozenset(each for each in files_stamp(self.session.folder) if each[0].startswith(scripts))
        return changed, own and (own.st_mtime_ns, own.st_size)

    def _read_again(self) -> bool:
        """Make the plan anew when its files were changed under it; says whether they were."""
        if self._stamp() == self._files:
            return False
        self.recompute()
        self.notify("The files have changed: checking them again.", markup=False, timeout=4)
        return True

    def _job_number(self, draft: SubmissionDraft | None) -> int:
        return self.drafts.index(draft) + 1 if draft in self.drafts else 0

    def on_previewed(self, message: Previewed) -> None:
        """Show them, unless the plan is another one by now."""
        if message.ticket != self._ticket:
            return
        self.previews, self._checked = message.previews, message.ticket
        if message.error is not None:
            self.app.report(message.error)
        self._show_views()
        if self._send_when_checked:
            self.action_send()

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
            plan_words.cost_text(
                self.drafts, self._other_form(), self.previews, self.verdicts, styles
            ).append_text(plan_words.plan_warnings(self.drafts, self._boundaries(), styles))
        )
        preview = self.previews[self.current] if self.current < len(self.previews) else None
        findings = self.query_one("#plan-findings", KeyedTable)
        rows = plan_words.finding_rows(preview, styles, self._reasons)
        findings.sync(plan_words.FINDING_COLUMNS, rows)
        findings.display = bool(rows)
        verdict = self.verdicts.get(draft, "") if draft is not None else ""
        self.query_one("#plan-finding", Static).update(
            plan_words.finding_text(
                preview, draft, self.finding, self._reasons, verdict=verdict, copies=self._copies
            )
        )
        self.query_one("#plan-check").border_title = plan_words.findings_title(preview, self.current)
        self._show_page(preview, draft)

    def _show_page(self, preview: Preview | LabError | None, draft: SubmissionDraft | None) -> None:
        """The script, the files or their difference: beside the findings, or instead of them on small screens."""
        small = self.has_class("-narrow")
        view = "script" if self.view == "findings" and not small else self.view
        self.query_one("#plan-check").display = not small or view == "findings"
        self.query_one("#plan-text").display = view != "findings"
        edited = draft in self.scripts
        self.query_one("#plan-text").border_title = plan_words.view_title(
            view, preview, self.current, edited=edited
        )
        page = plan_words.page(view, preview, draft, self.session, roles(self.app))
        self.query_one("#plan-page", Static).update(page)

    def _other_form(self) -> tuple[SubmissionDraft, ...]:
        """The same runs in another number of jobs, to compare what they may cost; empty where it is always the same."""
        sharing = (form for form in self.forms if form in {"one-job", "job-per-size"} and form != self.form)
        other = next(sharing, None)
        if self.job_file is not None or other is None:
            return ()
        return drafts_from(self.rows, self.planned, other, self.edition, self.session.profile)

    def on_resize(self) -> None:
        """What stands beside the table depends on the width."""
        self.call_after_refresh(self._show_views)

    def _boundaries(self) -> dict[str, Boundary]:
        """What this folder's runs tell about the batch that fits, by model."""
        from labtui.session.batches import known_boundary

        specs = [spec for draft in self.drafts for spec in draft.runs]
        models = {spec.model for spec in specs if spec.device == "gpu" and not spec.unknown}
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
        if row >= len(self.rows):
            return
        spec, words = self.rows[row].spec, WORDS
        if self.job_file is not None:
            if not self._own_editable(row, column):
                self._report_not_editable()
                return
            words = WORDS | OWN_WORDS
        elif column not in EDITABLE:
            return
        elif column == "gpus" and spec.device == "cpu":
            self.app.report_sentence("A CPU run has no GPUs to change.")
            return
        self._editing = (row, column)
        question, line = self.query_one("#plan-asked", Static), self.query_one("#plan-input", Input)
        question.display = line.display = True
        question.update(Text(f"Run {row + 1}, {words[column]}: enter sets it, esc leaves it as it was."))
        line.value = cell(self.rows[row], column) if self.job_file is None else ""
        self.set_focus(line)  # at once: the next keys are for it

    @on(Input.Submitted, "#plan-input")
    def _typed(self, event: Input.Submitted) -> None:
        event.stop()
        if self._editing is None:
            return
        row, column = self._editing
        try:
            if self.job_file is not None:
                self._answer(column, own_value(column, event.value), row)
            else:
                new = changed(self.rows[row], column, event.value)
        except UsageError as error:
            self.app.report(error)
            return
        self._close_input()
        if self.job_file is not None:
            self.recompute()
        else:
            self._change(row, new)

    def _report_not_editable(self) -> None:
        self.app.report_sentence("Your job file says this. Press e to change it there.")

    def _close_input(self) -> None:
        self._editing = None
        for part in ("#plan-asked", "#plan-input"):
            self.query_one(part).display = False
        self.query_one("#plan-table").focus()

    def action_scale_cell(self, factor: float) -> None:
        """Double or halve the number under the cursor."""
        if self.job_file is not None:
            self._report_not_editable()
            return
        row, column = self.place
        if column in EDITABLE and row < len(self.rows):
            try:
                self._change(row, scaled(self.rows[row], column, factor))
            except UsageError as error:
                self.notify(error.sentence, severity="error", markup=False)

    def action_drop_row(self) -> None:
        """Leave a run out, or take it back."""
        if self.job_file is not None:
            self._report_not_editable()
            return
        row = self.place[0]
        old = self.rows[row]
        self._change(row, PlanRow(old.spec, old.origin, not old.included, old.limit))

    def action_toggle_form(self) -> None:
        """What starts PyTorch's processes, or how many jobs there are; then each job file of the student's own."""
        forms: tuple[JobForm | None, ...] = (self.forms or (None,)) if self.planned else ()
        choices: list[tuple[JobForm | None, Path | None]] = [(form, None) for form in forms]
        choices += [(None, path) for path in self.session.job_files()]
        if len(choices) == 1:
            self.notify(
                "Each run is a job of its own here. Put your own job files into slurm/.",
                markup=False,
            )
            return
        now = (self.form, self.job_file)
        form, path = choices[(choices.index(now) + 1) % len(choices) if now in choices else 0]
        if path is not None:
            self._plan_own(path)
        elif self.job_file is not None:
            self.job_file, self.rows, self.form = None, self._rendered, form
            self.recompute()
        else:
            self._become([*self.rows], form)

    def _plan_own(self, path: Path) -> None:
        """Plan a job file of the student's own; the task's rows come back with the next form."""
        if self.job_file is None:
            self._rendered = [*self.rows]
        self.job_file, self.form = path, None
        self._answers, self._own_limit = Answers(), ""
        self.recompute()
        draft = self.drafts[0]
        if draft.form != "own":  # it could not be read
            return
        self.notify(plan_words.own_sentence(draft, f"slurm/{path.name}"), markup=False)
        cells = [
            (row, place)
            for row, run in enumerate(draft.runs)
            for place, column in enumerate(COLUMNS)
            if own_answer(column.key) in run.unknown
        ]
        self.focus_table_at(*(cells[0] if cells else (0, 2)))

    def action_next_view(self) -> None:
        """Job script, files, their difference from what was sent; on small screens the findings, too."""
        views = VIEWS if self.has_class("-narrow") else VIEWS[1:]
        shown = views.index(self.view) if self.view in views else 0
        self.view = views[(shown + 1) % len(views)]
        self._show_views()

    def action_back(self) -> None:
        """Leave the line, then the view that `v` chose, then the screen; scripts edited here are not lost unasked."""
        if self._editing is not None:
            self._close_input()
        elif self.view != VIEWS[0]:
            self.view = VIEWS[0]
            self._show_views()
        elif edited := [draft.job_name for draft in self.drafts if draft in self.scripts]:
            from labtui.tui.screens.prompts import Confirm

            text = f"You changed the job script of {', '.join(edited)}. Leaving the plan drops your changes."
            self.app.push_screen(Confirm(text, yes="Leave the plan", no="Stay"), self._left)
        else:
            self.dismiss(None)

    def _left(self, yes: bool | None) -> None:
        if yes:
            self.dismiss(None)

    # ------------------------------------------------------------------ sending

    def action_test_only(self) -> None:
        """The cluster's own word on every job of the plan."""
        for draft in self.drafts:
            self.verdicts[draft] = "asking Slurm ..."
            script = self.scripts.get(draft)
            self.app.follow(
                "test-only",
                partial(self.session.test_only, draft, script=script),
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
        """Ask once more, then put everything into the submission queue."""
        if not self.drafts:
            self.app.report_sentence("Every run is left out.")
            return
        self._read_again()
        self._send_when_checked = self._checked != self._ticket
        if self._send_when_checked:
            self.notify("Checking the files first ...", markup=False, timeout=2)
            return
        stops = plan_words.stops(self.previews, self._reasons)
        if stops:
            self._say_what_stops(stops)
            return
        from labtui.tui.screens.prompts import Confirm

        text, details = plan_words.question(self.drafts, self.previews, set(self.scripts))
        details.append_text(plan_words.overrides_text(self.previews, self._reasons))
        text = f"{self.done} {text}".strip()
        self.app.push_screen(Confirm(text, yes="Submit", no="Not yet", details=details), self._sent)

    def action_override(self) -> None:
        """Give a reason for the chosen finding alone, or take it back."""
        finding = self.finding
        if finding is None:
            self.app.report_sentence("There is no finding to override.")
            return
        key = finding.key
        if self._reasons.pop(key, None) is not None:
            self.notify("No longer overridden.", markup=False)
            self._show_views()
            return
        from labtui.tui.screens.prompts import AskReason

        def answered(reason: str | None) -> None:
            if reason:
                self._reasons[key] = reason
                self._show_views()

        where = f"{finding.file}:{finding.line}" if finding.line else finding.file
        self.app.push_screen(AskReason(f"{where}: {' '.join(finding.effect.split())}"), answered)

    def _say_what_stops(self, stops: str) -> None:
        """The errors; the second time, ask for a reason to submit all the same."""
        seen, self._stopped_by = self._stopped_by == stops, stops
        self.view = "findings"
        self._show_views()
        possible = plan_words.can_be_overridden(self.previews)
        if seen and possible:
            from labtui.tui.screens.prompts import AskReason

            self.app.clear_notifications()  # the one that asked to submit again
            self.app.push_screen(AskReason(stops), self._overridden)
        else:
            fixed = " Press f to fix it." if self.finding is not None and self.finding.fix is not None else ""
            again = " Submit again to override it with a reason." if possible else ""
            self.notify(f"{stops}{fixed}{again}", severity="error", markup=False)

    def _overridden(self, reason: str | None) -> None:
        """The student's reason for all errors that have none yet; it is kept with the submission."""
        if reason:
            for key in plan_words.errors_of(self.previews):
                self._reasons.setdefault(key, reason)
            self._show_views()
            self.action_send()

    def _sent(self, yes: bool | None) -> None:
        if not yes:
            return
        if (
            self._read_again()
            or self._checked != self._ticket
            or plan_words.stops(self.previews, self._reasons)
        ):
            self.action_send()  # the cluster's word came meanwhile
            return
        from labtui.preflight import overridden

        for draft, preview in zip(self.drafts, self.previews, strict=True):
            script = self.scripts.get(draft)
            found = () if isinstance(preview, LabError) else overridden(preview.findings, self._reasons)
            submit = partial(self.session.submit, draft, script=script, accepted=found)
            self.app.follow("submit", submit, "")
        if self.app.main is not None:
            self.app.main.post_message(RunsSubmitted())
        self.dismiss(None)

    def focus_table_at(self, row: int, column: int) -> None:
        """Put the cursor on a cell (tests, clicks)."""
        self.query_one("#plan-table", KeyedTable).cursor_coordinate = Coordinate(row, column)
