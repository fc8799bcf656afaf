"""What the plan screen rests on: own job files, previews made in a thread, fixes, the editor, the commands by hand.

Each change is shown before it is made, and made in the student's file.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual import work
from textual.message import Message
from textual.screen import Screen

from labtui.domain.errors import LabError
from labtui.domain.model import SubmissionDraft
from labtui.lab.plan_table import forms_of, own_answer, rows_of
from labtui.session.own_jobs import Answers
from labtui.tui import plan_words
from labtui.tui.themes import roles
from labtui.tui.widgets.tables import KeyedTable, TableColumn

if TYPE_CHECKING:
    from labtui.lab.edition import Edition
    from labtui.preflight.findings import Finding, Fix
    from labtui.session.preview import Preview
    from labtui.session.session import Session
    from labtui.tui.app import LabApp

JOB_SCRIPT = "job.slurm"
COLUMNS = (
    TableColumn("in", ""),
    TableColumn("model", " model"),
    TableColumn("gpus", " GPUs", right=True),
    TableColumn("batch", " batch", right=True),
    TableColumn("per_gpu", " /GPU", right=True),
    TableColumn("rate", " rate", right=True),
    TableColumn("epochs", " epochs", right=True),
    TableColumn("limit", " limit", right=True),
    TableColumn("job", "  job"),
    TableColumn("options", "  options"),
)
LOOK_S = 40.0
"""How long the plan waits for the cluster's word on paths before it leaves the findings as they are."""
_GLANCE_S = 0.2
"""How soon a thread that waits for the cluster notices that its plan is an old one."""
_NOT_CHECKED = LabError("The files could not be checked.", "`labtui submit --dry-run` shows the same check.")


class Previewed(Message):
    """Previews of all drafts, made in a thread; `ticket` tells late ones, `error` what stopped them unexpectedly."""

    def __init__(
        self, ticket: int, previews: list[Preview | LabError], error: Exception | None = None
    ) -> None:
        super().__init__()
        self.ticket = ticket
        self.previews = previews
        self.error = error


class PlanFixing(Screen[None]):
    """Rows, drafts, previews and what is done to the files; the screen itself is `PlanScreen`."""

    app: LabApp

    def __init__(
        self,
        session: Session,
        edition: Edition,
        task_id: str,
        drafts: tuple[SubmissionDraft, ...],
        *,
        done: str = "",
    ) -> None:
        """`done` is what to say before a task is submitted again that is done."""
        super().__init__()
        self.session, self.edition, self.task_id = session, edition, task_id
        self.planned = drafts
        self.rows = list(rows_of(drafts))
        self.forms = forms_of(drafts)
        self.form = next(iter(self.forms), None)
        self.drafts: tuple[SubmissionDraft, ...] = drafts
        self.scripts: dict[SubmissionDraft, str] = {}  # job scripts the student edited
        self.previews: list[Preview | LabError] = []
        self.verdicts: dict[SubmissionDraft, str] = {}
        self.view = "findings"
        self.done = done
        self.job_file: Path | None = (
            None  # the student's own job file that is planned instead of the task's runs
        )
        self._answers, self._own_limit = Answers(), ""  # what the student says about it
        self._ticket = 0
        self._editing: tuple[int, str] | None = None

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

    def recompute(self) -> None:
        """Drafts and previews from the rows."""
        raise NotImplementedError

    # ------------------------------------------------------------------ the student's own job file

    def _read_own(self, path: Path) -> None:
        """The job file as it lies on the disk now, with the student's answers, as the only job of the plan.

        Raises:
            FolderError: when it cannot be read.
        """
        given = {"time": self._own_limit} if self._own_limit else None
        draft = self.session.own_draft(path, task_id=self.task_id, given=given, answers=self._answers)
        self.drafts, self.rows = (draft,), list(rows_of((draft,)))

    def _own_editable(self, row: int, column: str) -> bool:
        """Whether the student may say what this cell holds: what the file tells is changed in the file."""
        if column == "limit":
            return True
        name = own_answer(column)
        answered = getattr(self._answers, name) is not None if name else False
        return answered or name in self.rows[row].spec.unknown

    def _answer(self, column: str, value: str | int | None, row: int) -> None:
        """Keep what the student says of the runs; None leaves it to the log."""
        if column == "limit":
            self._own_limit = str(value or "")
            return
        if column == "per_gpu" and isinstance(value, int):
            value *= self.rows[row].spec.replicas
        self._answers = replace(self._answers, **{own_answer(column): value})  # type: ignore[arg-type]

    # ------------------------------------------------------------------ previews

    @work(thread=True, exit_on_error=False, group="previews")
    def _preview(
        self, ticket: int, drafts: tuple[SubmissionDraft, ...], scripts: dict[SubmissionDraft, str]
    ) -> None:
        made: list[Preview | LabError] = [_NOT_CHECKED] * len(drafts)
        try:
            paths = self._ask_about_paths(drafts, scripts)
            made = self._show_previews(ticket, drafts, scripts)
            if paths is not None and self._answered(ticket, paths):
                made = self._show_previews(ticket, drafts, scripts)
        except Exception as error:  # nobody looks at the end of this thread
            self.post_message(Previewed(ticket, made, error))

    def _show_previews(
        self, ticket: int, drafts: tuple[SubmissionDraft, ...], scripts: dict[SubmissionDraft, str]
    ) -> list[Preview | LabError]:
        """Make the previews and post them; those of an old plan are left unfinished."""
        previews: list[Preview | LabError] = []
        for draft in drafts:
            if ticket != self._ticket:
                return previews
            try:
                previews.append(self.session.preview(draft, script=scripts.get(draft)))
            except LabError as error:
                previews.append(error)
        self.post_message(Previewed(ticket, previews))
        return previews

    def _answered(self, ticket: int, answer: Future[Any]) -> bool:
        """Wait for the cluster's word, as long as the plan is the same; whether it came."""
        end = time.monotonic() + LOOK_S
        while ticket == self._ticket and time.monotonic() < end:
            if not wait([answer], timeout=_GLANCE_S).done:
                continue
            with contextlib.suppress(LabError, TimeoutError):
                answer.result()
                return True
            return False
        return False

    def on_unmount(self) -> None:
        """Nobody waits for previews any more."""
        self._ticket += 1

    def _ask_about_paths(
        self, drafts: tuple[SubmissionDraft, ...], scripts: dict[SubmissionDraft, str]
    ) -> Future[Mapping[str, bool]] | None:
        """Have the cluster asked whether data and container are there; None when there is nothing to ask now."""
        paths: dict[str, None] = {}
        for draft in drafts:
            with contextlib.suppress(LabError):
                paths.update(dict.fromkeys(self.session.paths_to_ask(draft, script=scripts.get(draft))))
        return self.session.look_at(tuple(paths))

    @property
    def finding(self) -> Finding | None:
        """The finding under the cursor, of the job under the cursor."""
        place = self.current
        preview = self.previews[place] if place < len(self.previews) else None
        found = [] if preview is None or isinstance(preview, LabError) else preview.findings
        if not found:
            return None
        row = self.query_one("#plan-findings", KeyedTable).cursor_row
        return found[min(max(0, row), len(found) - 1)]

    def action_fix(self) -> None:
        """Show what the fix of a finding would change; y makes the change."""
        finding = self.finding
        if finding is None or finding.fix is None:
            self.notify("labtui has no fix for this finding.", severity="warning", markup=False)
            return
        from labtui.preflight import preview_fix
        from labtui.tui.screens.pages import TextScreen

        text = self._text_of(finding.fix.file)
        if text is None:
            self.notify(f"{finding.fix.file} is not in the lab folder.", severity="error", markup=False)
            return
        shown = plan_words.coloured(preview_fix(text, finding.fix), roles(self.app)) or Text(
            "The file has changed since. Press f for its findings now."
        )
        screen = TextScreen(finding.fix.title, shown, ask="makes this change")
        self.app.push_screen(screen, lambda yes: self._apply(finding.fix, text) if yes else None)

    def _text_of(self, name: str) -> str | None:
        if name == JOB_SCRIPT:
            preview = self.previews[self.current]
            return None if isinstance(preview, LabError) else preview.script
        try:
            path = self._path_of(name)
            return path.read_bytes().decode("utf-8", "surrogateescape") if path.is_file() else None
        except (LabError, OSError):
            return None

    def _path_of(self, name: str) -> Path:
        """The student's file that a finding is about: their job file, one beside it, else a training script.

        Raises:
            FolderError: when the name leads out of the lab folder.
        """
        if self.job_file is not None:
            draft = self.drafts[self.current]
            if name == draft.job_file:
                return self.job_file
            if name in dict(draft.beside):
                return self.job_file.parent / name
        return self.session.folder.inside(f"scripts/{name}")

    def _apply(self, fix: Fix, text: str) -> None:
        from labtui.cluster.local_files import write_private
        from labtui.preflight import apply_fix

        fixed = apply_fix(text, fix)
        try:
            if fix.file == JOB_SCRIPT:
                self.scripts[self.drafts[self.current]] = fixed
            else:
                path = self._path_of(fix.file)
                root = self.session.folder.path
                inside = path.is_relative_to(root)
                write_private(root if inside else path.parent, path, fixed.encode("utf-8", "surrogateescape"))
        except LabError as error:
            self.app.report(error)
            return
        self.notify("Changed.", markup=False, timeout=2)
        self.recompute()

    def action_edit(self) -> None:
        """The job script of this job in the student's editor; what is saved there is what is submitted."""
        if self.job_file is not None:
            self.app.open_editor(self.job_file)
            self.recompute()
            return
        place = self.current
        preview = self.previews[place] if place < len(self.previews) else None
        if preview is None or isinstance(preview, LabError):
            return
        from labtui.session.planning import BY_HAND

        draft = self.drafts[place]
        path = self.session.folder.inside(f"{BY_HAND}/{draft.job_name}.draft.slurm")
        try:
            self.session.folder.write(path, preview.script.encode())
        except LabError as error:
            self.app.report(error)
            return
        if self.app.open_editor(path):
            text = path.read_bytes().decode("utf-8", "replace")
            if text != preview.script:
                self.scripts[draft] = text
        self.recompute()

    def action_shell_commands(self) -> None:
        from labtui.session.manual_commands import commands_of_draft
        from labtui.tui.screens.pages import TextScreen

        if not self.drafts:
            self.notify("Every run is left out.", markup=False)
            return
        draft = self.drafts[self.current]
        try:
            actions = commands_of_draft(self.session, draft, self.scripts.get(draft))
        except LabError as error:
            self.app.report(error)
            return
        text = "\n\n".join(each.text for each in actions)
        self.app.push_screen(TextScreen("The same by hand, in the lab folder", text, copy=True))
