"""Fixes, the editor and the commands by hand on the plan screen.

Each change is shown before it is made, and made in the student's file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.text import Text

from labtui.errors import LabError
from labtui.tui.widgets.keyed_table import KeyedTable

JOB_SCRIPT = "job.slurm"


class PlanFixing:
    """Mixed into the plan screen."""

    @property
    def finding(self: Any) -> Any:
        """The finding under the cursor, of the job under the cursor."""
        place = self.current
        preview = self.previews[place] if place < len(self.previews) else None
        found = [] if preview is None or isinstance(preview, LabError) else preview.findings
        if not found:
            return None
        row = self.query_one("#plan-findings", KeyedTable).cursor_row
        return found[min(max(0, row), len(found) - 1)]

    def action_fix(self: Any) -> None:
        """Show what the fix of a finding would change; y makes the change."""
        finding = self.finding
        if finding is None or finding.fix is None:
            self.notify("There is nothing here that labtui can fix.", markup=False)
            return
        from labtui.core.preflight import preview_fix
        from labtui.tui.screens.texts import TextScreen

        text = self._text_of(finding.fix.file)
        if text is None:
            self.notify(f"{finding.fix.file} is not in the lab folder.", severity="error", markup=False)
            return
        shown = coloured_difference(preview_fix(text, finding.fix)) or Text(
            "The file has changed; look again."
        )
        screen = TextScreen(finding.fix.title, shown, ask="makes this change")
        self.app.push_screen(screen, lambda yes: self._apply(finding.fix, text) if yes else None)

    def _text_of(self: Any, name: str) -> str | None:
        if name == JOB_SCRIPT:
            return str(self.previews[self.current].script)
        try:
            path: Path = self.session.folder.inside(f"scripts/{name}")
            return path.read_bytes().decode("utf-8", "replace") if path.is_file() else None
        except (LabError, OSError):
            return None

    def _apply(self: Any, fix: Any, text: str) -> None:
        from labtui.core.preflight import apply_fix
        from labtui.engine.settings import write_private

        fixed = apply_fix(text, fix)
        try:
            if fix.file == JOB_SCRIPT:
                self.scripts[self.drafts[self.current]] = fixed
            else:
                write_private(self.session.folder.inside(f"scripts/{fix.file}"), fixed.encode())
        except LabError as error:
            self.app.report(error)
            return
        self.notify("Changed.", markup=False, timeout=2)
        self.recompute()

    def action_edit(self: Any) -> None:
        """The job script of this job in the student's editor; what is saved there is what is submitted."""
        place = self.current
        preview = self.previews[place] if place < len(self.previews) else None
        if preview is None or isinstance(preview, LabError):
            return
        from labtui.engine.planning import BY_HAND
        from labtui.engine.settings import write_private

        draft = self.drafts[place]
        path = self.session.folder.inside(f"{BY_HAND}/{draft.job_name}.draft.slurm")
        try:
            write_private(path, preview.script.encode())
        except LabError as error:
            self.app.report(error)
            return
        if self.app.open_editor(path):
            text = path.read_bytes().decode("utf-8", "replace")
            if text != preview.script:
                self.scripts[draft] = text
        self.recompute()

    def action_shell_commands(self: Any) -> None:
        """The plain commands."""
        from labtui.engine.lessons import lessons_of_draft
        from labtui.tui.screens.texts import TextScreen

        if not self.drafts:
            self.notify("Every run is left out.", markup=False)
            return
        draft = self.drafts[self.current]
        try:
            told = lessons_of_draft(self.session, draft, self.scripts.get(draft))
        except LabError as error:
            self.app.report(error)
            return
        text = "\n\n".join(lesson.text for lesson in told)
        self.app.push_screen(TextScreen("The same by hand, in the lab folder", text, copy=True))


def coloured_difference(lines: str) -> Text:
    """A unified difference; colour only adds to its signs."""
    page = Text()
    for line in lines.splitlines():
        style = (
            "green"
            if line.startswith("+")
            else "red"
            if line.startswith("-")
            else "dim"
            if line.startswith("@")
            else ""
        )
        page.append(f"{line}\n", style=style)
    return page
