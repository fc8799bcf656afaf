"""The answer files of a lab folder: `answers/<task>.md`, made once, read back, stored atomically.

A file is never overwritten when somebody else changed it; the text is then stored beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from labtui.domain.errors import FolderError, LabError
from labtui.lab.edition import Edition, Task
from labtui.lab.evidence import AnswerSheet, new_sheet, read_sheet
from labtui.session.folder import LabFolder

if TYPE_CHECKING:
    from labtui.session.session import Session

MAX_ANSWER_BYTES = 4 * 1024 * 1024
"""No answer is longer than this; a larger file is something else and is not read."""


def answer_path(folder: LabFolder, task_id: str) -> Path:
    """Where a task's answers are written."""
    return folder.inside(f"answers/{task_id}.md")


def open_answers(folder: LabFolder, task: Task) -> Path:
    """The task's answer file, made with the questions as headings if it is not there; existing ones are kept.

    Raises:
        FolderError: when it cannot be written.
    """
    path = answer_path(folder, task.id)
    folder.write_new(str(path.relative_to(folder.path)), new_sheet(task).encode())
    return path


def read_answers(folder: LabFolder, task: Task) -> AnswerSheet:
    """Which questions of a task have an answer; a missing file has none.

    Raises:
        FolderError: when the file is there but cannot be read.
    """
    return read_sheet(task, read_text(folder, answer_path(folder, task.id)))


def read_text(folder: LabFolder, path: Path) -> str:
    """An answer file as it stands; "" without one.

    Raises:
        FolderError: when it cannot be read or is too large to be an answer.
    """
    if not path.is_file():
        return ""
    try:
        if path.stat().st_size > MAX_ANSWER_BYTES:
            raise FolderError(f"{path} is too large to be an answer.", "Keep text there, and data elsewhere.")
        return folder.read(path).decode("utf-8", "replace")
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror}.") from error


class AnswerFiles:
    """Remembers what each file held when it was loaded or stored here."""

    def __init__(self, session: Session, edition: Callable[[], Edition | None]) -> None:
        self._session = session
        self._folder: LabFolder = session.folder
        self._edition = edition
        self._known: dict[str, str] = {}

    def path(self, task_id: str) -> Path:
        """The Markdown file of a task; it is made with its questions when it is not there."""
        edition = self._edition()
        task = edition.task(task_id) if edition is not None else None
        if task is None or self._session.read_only:
            return answer_path(self._folder, task_id)
        return open_answers(self._folder, task)

    def load(self, task_id: str) -> str:
        """The text of a task's file; "" where it cannot be read."""
        self._known[task_id] = self._text(task_id) or ""
        return self._known[task_id]

    def changed_outside(self, task_id: str) -> bool:
        """Whether the file holds something else than when it was loaded or stored here."""
        return self._text(task_id) not in (None, self._known.get(task_id))

    def _text(self, task_id: str) -> str | None:
        try:
            return read_text(self._folder, self.path(task_id))
        except LabError:
            return None

    def save(self, task_id: str, text: str) -> str:
        """Store the text; when the file was changed by somebody else, store it beside and say so."""
        try:
            path = answer_path(self._folder, task_id)
            if path.exists() and read_text(self._folder, path) != self._known.get(task_id, ""):
                mine = f"answers/{task_id}.yours.md"
                self._folder.write(mine, text.encode())
                return f"answers/{task_id}.md was changed by someone else. Your text is in {mine}; merge the two."
            self._folder.write(path, text.encode())
        except LabError as error:
            return error.sentence
        self._known[task_id] = text
        return ""
