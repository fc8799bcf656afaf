"""The plan screen: the ticket with the Submit button, Slurm's answer, the runs, the findings, and the job script.

What is submitted is what is shown: files that changed meanwhile are read and checked again before anything is sent.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from string import ascii_lowercase, digits
from typing import Any, ClassVar

from rich.text import Text
from textual import binding, on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.css.query import NoMatches
from textual.widgets import Button, DataTable, Digits, OptionList, Static, option_list

from labtui.domain.errors import LabError
from labtui.domain.model import plural
from labtui.lab.plan import PlanRow
from labtui.lab.plan_table import cell
from labtui.session.preview import Preview
from labtui.tui import STYLES, guidance, plan_words
from labtui.tui.app import TICK_S, LabApp
from labtui.tui.plan_model import NOT_CHECKED, Asked, Plan, PlanFinding, Verdict
from labtui.tui.screens.main import KEYS_TO_LEAVE
from labtui.tui.screens.modals import Ask, Choice, entry_choices, yes_or_no
from labtui.tui.themes import ascii_only, ink, roles
from labtui.tui.widgets.frame import FramedScreen, PlainText, TaskList, key, say
from labtui.tui.widgets.selected_run import KeyedTable

FIGURES = ("runs", "time", "hours")
FIX: Choice = ("y", "Make this change", "fix")
COPY: Choice = ("b", "Make the copy", "start_copy")
EDIT: Choice = ("e", "Edit the file", "edit")
OVERRIDE: Choice = ("o", "Override with a reason", "override")
BACK: Choice = ("escape", "Back", None)


class PlanTable(KeyedTable):
    """The table of runs, with a cell cursor."""

    BINDINGS: ClassVar[list[binding.BindingType]] = [
        key("enter", "screen.change_cell", "Change", "change the number", show=True, priority=True)
    ]


class PlanScreen(FramedScreen):
    """A plan to change and submit, in the same frame as the main screen; leaving it submits nothing."""

    CSS_PATH, TITLE = STYLES / "plan.tcss", "Plan  "
    confirms_after = 0.0  # keys that submit are taken from this time on
    BINDINGS: ClassVar[list[binding.BindingType]] = [
        key("s", "send", "Submit", "submit what is shown; an error offers its fix first"),
        key("f", "fix", "Fix", "show what a fix would change, then make it", show=True),
        key("o", "override", "Override", "submit in spite of the errors, with a reason", show=True),
        key("b", "start_copy", "Make the copy", "copy the script that the task has you change", show=True),
        key("d", "drop_row(True)", "Leave out", "leave the selected run out of this plan", show=True),
        key("d", "drop_row(False)", "Add this run", "add the selected run to this plan again", show=True),
        key("J", "next_form", "Other jobs", "one job for all, one per size, or your own job file", show=True),
        key("e", "edit", "Edit", "the file with the error, else the job script", show=True),
        key("escape", "back", "Back", "leave the plan; nothing is submitted", show=True),
        key("i", "test_only", "Ask Slurm", "ask the cluster whether it would accept this", show=True),
        key("v", "script", "Script", "the job script; again: the plan", show=True),
        key("C", "controls", "Controls", "short runs that show why it does not scale"),
        *KEYS_TO_LEAVE,
    ]

    def __init__(self, plan: Plan, back: str | None = None) -> None:
        """`back` is the task to go back to, if it is another one."""
        super().__init__()
        self.plan, self.back = plan, back
        self.sending = False  # whether to submit as soon as the files are checked
        self.sent = False  # then the new runs are the plan's own

    def content(self) -> ComposeResult:
        with Horizontal(id="ticket"):
            for name in FIGURES:
                with Vertical(id=f"ticket-{name}", classes="figure"):
                    with Horizontal():
                        yield Digits(classes="figure-digits")
                        yield PlainText(classes="figure-unit")
                    yield PlainText(classes="figure-below")
            with Vertical(id="ticket-send"):
                yield Button("", id="send")
                yield PlainText(id="ticket-back")
        yield PlainText(id="ticket-line")
        yield PlainText(id="verdict")
        with VerticalScroll(id="plan-body", can_focus=False):
            yield PlainText(id="runs-title")
            yield PlanTable(id="plan-table", cursor_type="cell")
            yield PlainText(id="findings-title")
            yield OptionList(id="findings", compact=True)
        yield PlainText(id="script-title")
        with VerticalScroll(id="plan-text"):
            yield Static(id="plan-page", markup=False)

    def on_mount(self) -> None:
        """Show the runs first; the findings come later from a thread."""
        if not self.query(PlanTable):  # left before it was shown
            return
        self.query_one(TaskList).can_focus = False
        table = self.query_one(PlanTable)
        self.watch(self.app, "view", self.show_frame)
        self.app.theme_changed_signal.subscribe(self, lambda _: self.show())
        self.recompute()
        self.set_interval(TICK_S, self._read_again)
        table.focus()
        table.move_cursor(row=0, column=1)
        if not self.plan.planned and len(self.plan.choices) > 1:
            self.call_after_refresh(self.action_next_form)

    @property
    def step(self) -> guidance.NextStep:
        """The next step, as the frame shows it."""
        return plan_words.step(self.plan)

    @property
    def place(self) -> tuple[int, str]:
        """The row's index and the column's key at the cursor."""
        table = self.query_one(PlanTable)
        return table.cursor_row, table.ordered_columns[table.cursor_column].key.value or ""

    @property
    def job(self) -> int:
        """The job at the cursor, as an index into drafts and previews."""
        return self.plan.job_of(self.place[0])

    @property
    def finding(self) -> PlanFinding | None:
        """The highlighted finding."""
        found, at = self.plan.findings, self.query_one("#findings", OptionList).highlighted or 0
        return found[min(at, len(found) - 1)] if found else None

    def why_disabled(self, action: str, parameters: tuple[object, ...]) -> str | None:
        """None (no key) for what makes no sense here; why there is no job; "" if nothing is in the way."""
        parts = map(self.query_one_optional, ("#plan-table", "#findings"))  # faster than one query for both
        if None in parts or not self.query_one(PlanTable).columns:
            return ""  # not yet there, or closing
        if action in ("send", "script", "edit", "test_only") and not self.plan.drafts:
            return plan_words.nothing_to_send(self.plan)
        plan, found, row = self.plan, self.finding, self.place[0]
        included = [each.included for each in plan.rows[row : row + 1]]
        acts = {
            "fix": found is not None and found.finding.fix,
            "override": plan.errors,
            "start_copy": found is not None and found.copy,
            "drop_row": plan.job_file is None and included == [*parameters],
            "next_form": action == "next_form" and len(plan.choices) > 1,  # only for this key: it reads files
            "controls": not self.app.session.practice and plan.job_file is None,
        }
        return "" if acts.get(action, True) else None

    def recompute(self) -> None:
        """Make jobs and previews again; an edited job script is kept in case its job returns to what it was."""
        edited, self.sending = self.plan.edited_jobs, False
        try:
            self.plan.remake()
        except LabError as error:
            self.app.report(error)
        for name in sorted(edited - self.plan.edited_jobs):
            self.app.notify(f"The job script of {name} is a new one, without the edits.", severity="warning")
        self.show()
        self._preview(self.app, self.plan.previews, ask=True)

    def show(self) -> None:
        """Repaint the whole plan."""
        plan, styles, width = self.plan, roles(self.app), self.query_one("#title").size.width
        columns, rows = plan_words.table_of(plan, width or self.size.width)
        self.query_one(PlanTable).sync(columns, rows)
        self.set_class(len(rows) + 3 * len(plan.findings) > 7, "-many")
        step, figures = plan_words.step(plan), plan_words.ticket(plan)
        for at, name in enumerate(FIGURES):
            part = self.query_one(f"#ticket-{name}")
            part.display = at < len(figures)
            if at < len(figures):
                large, small = ("", f"{figures[at].digits} ") if ascii_only() else (figures[at].digits, "")
                part.query_one(Digits).update(large)
                say(part, ".figure-unit", ink(f"\n\n{small}{figures[at].unit}", "bold"))
                say(part, ".figure-below", ink(figures[at].below, styles.soft))
        button = self.query_one("#send", Button)
        button.label = Text(f"{step.key}  {step.label}")
        button.set_class(not plan.checked, "-quiet")
        button.display = step.key != "esc"
        self.set_class(not button.display, "-done")
        say(self, "#ticket-back", ink("esc ", f"bold {styles.busy}").append("Back", styles.soft))
        say(self, "#ticket-line", ink("   ".join(each.line for each in figures), "bold"))
        say(self, "#verdict", plan_words.verdict_lines(plan, styles))
        say(self, "#runs-title", plan_words.runs_title(plan, styles))
        say(self, "#findings-title", plan_words.findings_title(plan, styles))
        self._show_findings()
        self._show_script()
        self.show_frame(self.app.view)

    @on(OptionList.OptionHighlighted, "#findings")
    def _show_findings(self) -> None:
        found, options = self.plan.findings, self.query_one("#findings", OptionList)
        styles, width = roles(self.app), self.query_one("#title").size.width - 1
        chosen = self.finding
        prompt = partial(plan_words.finding_text, self.plan, styles=styles, width=width)
        options.display = bool(found)
        with self.prevent(OptionList.OptionHighlighted):
            options.set_options(option_list.Option(prompt(each, chosen=each == chosen)) for each in found)
            options.highlighted = found.index(chosen) if chosen is not None else None

    @on(DataTable.CellHighlighted)
    def _show_script(self) -> None:
        """Update the line about the job script, and the script if it is shown."""
        styles, width = roles(self.app), self.query_one("#title").size.width
        several = f" of job {self.job + 1}" if len(self.plan.drafts) > 1 else ""
        self.query_one("#plan-text").border_title = Text(f"Job script{several}")
        self.query_one("#script-title").display = bool(self.plan.drafts) and not self.has_class("-script")
        say(self, "#script-title", plan_words.script_title(self.plan, self.job, styles, width))
        if self.has_class("-script"):
            self.query_one("#plan-page", Static).update(plan_words.script(self.plan, self.job))
        self.refresh_bindings()

    def on_resize(self) -> None:
        """Repaint, because the layout of texts depends on the width."""
        self.call_after_refresh(self.show)

    def action_script(self) -> None:
        """Switch between the plan and the job script."""
        self.toggle_class("-script")
        self._show_script()
        self.query_one("#plan-text" if self.has_class("-script") else "#plan-table").focus()

    @work(thread=True, exclusive=True, group="previews")
    def _preview(self, app: LabApp, before: list[Preview | LabError], *, ask: bool) -> None:
        """Make all previews in place of `before`; with `ask`, once more when the cluster has told of their paths."""
        if before is not self.plan.previews or not self.is_attached:
            return  # a plan that was left has no `self.app`, either
        asked, jobs = None, len(self.plan.drafts)
        try:
            made = self.plan.make_previews()
            paths = [path for each in made if not isinstance(each, LabError) for path in each.unknown_paths]
            asked = app.session.look_at(tuple(dict.fromkeys(paths))) if ask else None
        except Exception as error:  # the plan stays open and says what happened
            made = [NOT_CHECKED] * jobs
            app.call_later(app.report, error)
        app.call_later(self._previewed, before, made)
        if asked is not None:
            asked.add_done_callback(lambda _: app.call_later(self._preview, app, made, ask=False))

    def _previewed(self, before: list[Preview | LabError], made: list[Preview | LabError]) -> None:
        """Show the previews, unless the plan has changed or was left meanwhile."""
        if before is not self.plan.previews or not self.is_attached:
            return
        self.plan.previews = made
        self._show_late()
        if self.sending:
            self.sending = False
            self.action_send()

    def _show_late(self) -> None:
        """Repaint after an answer from a thread or the cluster; the app may be closing by then."""
        with suppress(NoMatches):
            self.show()

    def _read_again(self) -> bool:
        """Make the plan again if files or runs have changed; return whether they had."""
        if self.sent or not self.plan.outdated:
            self._show_late()  # runs under way go on
            return False
        self.recompute()
        self.notify("Files or runs have changed: the plan was made again.")
        return True

    def _become(self, rows: list[PlanRow]) -> None:
        self.plan.task_rows = rows
        self.recompute()

    @on(DataTable.CellSelected)
    async def _cell_clicked(self) -> None:
        await self.app.run_action("screen.change_cell")

    async def action_change_cell(self) -> None:
        """Ask for another value of the cell at the cursor."""
        row, column = self.place
        if not (name := self.plan.cell_name(row, column)):
            self._become(self.plan.with_row_toggled(row))
            return
        check = partial(self.plan.refusal, row, column)
        chosen = self.plan.rows[row]
        entry, now = cell(chosen, column), plan_words.cells(self.plan, row, chosen)[column]
        label = self.plan.called(chosen).label
        text = f"{label}: {name}" + (f". Now {now}." if not entry else "")
        ask = Ask(text, choices=entry_choices("Set it"), entry=entry, check=check)
        ask.add_class("-below")  # so that the row stays visible
        await self.app.ask(ask, lambda text: self._become(self.plan.with_cell(row, column, text)))

    def action_drop_row(self, _out: bool) -> None:
        """Leave the run at the cursor out, or include it again; by `_out`, `why_disabled` shows one of the keys."""
        self._become(self.plan.with_row_toggled(self.place[0]))

    def action_controls(self) -> None:
        """Add the control runs of this plan, or remove them."""
        self._become(self.plan.with_controls())

    async def action_next_form(self) -> None:
        """Choose the jobs from a list: other forms, and the job files of the student's own."""
        plan, choices = self.plan, self.plan.choices

        def chosen(name: str) -> None:
            plan.form, plan.job_file = choices[name]
            if plan.form is not None and not plan.why:  # the next plan begins with it
                self.app.session.keep_choice(jobs=plan.form)
            self.recompute()

        now = plan.form, plan.job_file
        names = (f"{name} (now)" if how == now else name for name, how in choices.items())
        listed = zip(digits[1:] + ascii_lowercase, names, choices, strict=False)
        ask = Ask("What is to be submitted?", choices=(*listed, BACK), first=True)
        await self.app.ask(ask.add_class("-list"), chosen)

    def action_fix(self) -> None:
        """Show what the fix of the highlighted finding would change, and offer to make the change."""
        if self.finding is not None:
            self._offer(self.finding, (FIX, BACK))

    def _offer(self, found: PlanFinding, choices: Sequence[Choice], text: str = "") -> None:
        """Show a finding with the change of its fix, and offer choices."""
        fix, finding = found.finding.fix, found.finding
        shown = plan_words.coloured_diff(self.plan.difference(found), roles(self.app))
        title = fix.title if fix is not None else found.where

        def answered(answer: str) -> None:
            if answer != "fix":
                getattr(self, f"action_{answer}")()
            else:
                try:
                    self.plan.make_fix(found)
                except LabError as error:
                    self.app.report(error)
                self.recompute()

        ask = Ask(text or finding.effect, title=title, details=shown, choices=choices, first=True)
        self.app.ask(ask, answered)

    def action_start_copy(self) -> None:
        """Make the missing script as a copy, and check the files again."""
        self.start_copy(self.plan.task)
        self.recompute()

    def action_override(self) -> None:
        """Ask why the errors are overridden; the answer is stored with the submission."""
        errors = self.plan.errors

        def answered(reason: str) -> None:
            self.plan.reasons |= {each.key: reason for found in errors for each in found.occurrences}
            self.show()

        these = "this finding" if len(errors) == 1 else f"{len(errors)} findings"
        text = f"Why submit it in spite of {these}? Your reason is printed on the last page of the hand-in."
        choices = entry_choices("Override")
        ask = Ask(text, choices=choices, entry="", check=lambda reason: "" if reason else "Write a reason.")
        self.app.ask(ask, answered)

    def action_edit(self) -> None:
        """Open a script with an error, else the job script at the cursor, in the editor; what is saved is submitted.

        For a missing path of the settings lab.toml is opened, then the whole folder again, with what it says now.
        """
        job = self.plan.job_file
        if self.plan.lacks_path:
            if self.app.open_editor(self.app.session.folder.settings_path):
                self.app.open_again()
            return
        scripts = job.parent if job else self.app.session.folder.scripts
        found = [scripts / each.finding.file for each in self.plan.errors[:1]] + ([job] if job else [])
        if path := next((each for each in found if each.is_file()), None):
            self.app.open_editor(path)
        elif self.plan.checked and self.plan.drafts:
            path = self.plan.draft_file(self.job)
            if self.app.open_editor(path):
                self.plan.use_script(self.job, path)
        self.recompute()

    def action_back(self) -> None:
        """Go back from the script to the plan, or from the plan to the main screen."""
        if self.has_class("-script"):
            self.action_script()
        else:
            self.choose_task(self.back)

    def choose_task(self, task_id: str | None = None, action: str = "") -> None:
        """Leave, for another task or with an `action` of the main screen; ask first if edits would be lost."""

        def leave(_: str) -> None:
            if task_id is not None:
                self.app.go_to_task(task_id)
            self.dismiss(None)
            if action:
                self.app.main.call_later(self.app.main.run_action, action)

        if (edited := self.plan.edited_jobs) and not self.sent:
            text = f"Leaving the plan drops the edits of these job scripts: {', '.join(sorted(edited))}."
            self.app.ask(Ask(text, choices=yes_or_no("Leave the plan", "Stay")), leave)
        else:
            leave("yes")

    action_choose_task = choose_task

    def action_test_only(self) -> None:
        """Ask Slurm whether it would accept each job of the plan."""
        for draft in self.plan.drafts:
            script = self.plan.scripts.get(draft)
            self.plan.verdicts[draft, script] = Verdict()
            ask = partial(self.app.session.test_only, draft, script=script)
            self.app.send(ask, then=partial(self._slurm_said, (draft, script)))
        self.show()

    def _slurm_said(self, asked: Asked, result: Any, error: BaseException | None) -> None:
        self.plan.verdicts[asked] = Verdict(result, error, self.app.session.clock.wall())
        self._show_late()

    @on(Button.Pressed, "#send")
    async def _pressed(self, event: Button.Pressed) -> None:
        event.stop()
        await self.app.run_action(f"screen.{self.step.action}", self)

    def action_send(self, confirmed: str = "") -> None:
        """Submit what is shown, once files are read again, errors are offered a fix and warnings `confirmed`."""
        plan = self.plan
        if self._read_again() or not plan.checked:
            self.sending = True
        elif plan.problem is not None:
            self.app.report(plan.problem[1])
        elif errors := plan.errors:
            found, more = errors[0], f" {len(errors) - 1} more after this one." if len(errors) > 1 else ""
            mend = COPY if found.copy else FIX if found.finding.fix is not None else EDIT
            self._offer(found, (mend, OVERRIDE, BACK), f"{found.finding.effect}{more}")
        elif not confirmed and (warnings := plan_words.confirmation(plan)).plain:
            text = f"Submit {plural(len(plan.drafts), 'job')}?"
            ask = Ask(text, details=warnings, choices=yes_or_no("Submit", "Not yet"))
            self.app.ask(ask, self.action_send)
        else:
            self.sent = True
            for job, draft in enumerate(plan.drafts):
                script, accepted = plan.scripts.get(draft), plan.accepted(job)
                self.app.send(partial(self.app.session.submit, draft, script=script, accepted=accepted))
            self.app.view_model.chosen = None  # the run that trains is selected
            self.choose_task(action="pane('runs')")
            self.app.take_state(self.app.session.state)  # before all tasks are checked with it
