"""The answer files behind the answers pane: loaded, stored atomically, never written over somebody else's change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labtui.errors import FolderError, LabError

if TYPE_CHECKING:
    from labtui.core.lab.edition import Edition, Task
    from labtui.engine.folder import LabFolder


class AnswerFiles:
    """Remembers what each file held when it was loaded or stored here."""

    def __init__(self, session: Any, edition: Callable[[], Edition | None]) -> None:
        self._session = session
        self._folder: LabFolder = session.folder
        self._edition = edition
        self._known: dict[str, str] = {}

    def _task(self, task_id: str) -> Task | None:
        edition = self._edition()
        return edition.task(task_id) if edition is not None else None

    def path(self, task_id: str) -> Path:
        """The Markdown file of a task; it is made with its questions when it is not there."""
        from labtui.engine.answers import answer_path, open_answers

        task = self._task(task_id)
        if task is None:
            return self._folder.inside(f"answers/{task_id}.md")
        if self._session.read_only:
            return answer_path(self._folder, task)
        return open_answers(self._folder, task)

    def load(self, task_id: str) -> str:
        """The text of a task's file."""
        try:
            path = self.path(task_id)
            text = path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""
        except (LabError, OSError):
            text = ""
        self._known[task_id] = text
        return text

    def changed_outside(self, task_id: str) -> bool:
        """Whether the file holds something else than when it was loaded or stored here."""
        try:
            path = self.path(task_id)
            return path.is_file() and path.read_bytes().decode("utf-8", "replace") != self._known.get(task_id)
        except (LabError, OSError):
            return False

    def save(self, task_id: str, text: str) -> str:
        """Store the text; when the file was changed by somebody else, store it beside and say so."""
        from labtui.engine.answers import save_answers

        task = self._task(task_id)
        if task is None:
            return "There is no such task, so the text cannot be stored."
        try:
            save_answers(self._folder, task, text, based_on=self._known.get(task_id, ""))
        except FolderError as error:
            return f"{error.sentence} {self._save_beside(task_id, text)}"
        self._known[task_id] = text
        return ""

    def _save_beside(self, task_id: str, text: str) -> str:
        from labtui.engine.settings import write_private

        name = f"answers/{task_id}.yours.md"
        try:
            write_private(self._folder.inside(name), text.encode())
        except LabError as error:
            return error.sentence
        return f"Your text is in {name}; put the two together."
