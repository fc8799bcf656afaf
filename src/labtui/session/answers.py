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


def answer_path(folder: LabFolder, task: Task) -> Path:
    """Where a task's answers are written."""
    return folder.inside(f"answers/{task.id}.md")


def open_answers(folder: LabFolder, task: Task) -> Path:
    """The task's answer file, made with the questions as headings if it is not there; existing ones are kept.

    Raises:
        FolderError: when it cannot be written.
    """
    folder.write_new(f"answers/{task.id}.md", new_sheet(task).encode())
    return answer_path(folder, task)


def save_answers(folder: LabFolder, task: Task, text: str, *, based_on: str) -> None:
    """Write what the student typed, unless the file changed meanwhile (two students, two editors).

    `based_on` is the text the student began from.

    Raises:
        FolderError: when the file holds something else by now; nothing is written then.
    """
    path = answer_path(folder, task)
    if path.exists() and read_text(folder, path) != based_on:
        raise FolderError(
            f"answers/{task.id}.md was changed by someone else since it was opened.",
            "Copy your text, open the file again, and merge the two.",
        )
    folder.write(path, text.encode())


def read_answers(folder: LabFolder, task: Task) -> AnswerSheet:
    """Which questions of a task have an answer; a missing file has none.

    Raises:
        FolderError: when the file is there but cannot be read.
    """
    path = answer_path(folder, task)
    return read_sheet(task, read_text(folder, path) if path.is_file() else "")


def all_answers(folder: LabFolder, edition: Edition) -> dict[str, AnswerSheet]:
    """The answers of every task that asks something, by task id."""
    return {task.id: read_answers(folder, task) for task in edition.tasks if task.questions}


def read_text(folder: LabFolder, path: Path) -> str:
    """An answer file as it stands.

    Raises:
        FolderError: when it cannot be read or is too large to be an answer.
    """
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

    def _task(self, task_id: str) -> Task | None:
        edition = self._edition()
        return edition.task(task_id) if edition is not None else None

    def path(self, task_id: str) -> Path:
        """The Markdown file of a task; it is made with its questions when it is not there."""
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
            text = self._folder.read(path).decode("utf-8", "replace") if path.is_file() else ""
        except (LabError, OSError):
            text = ""
        self._known[task_id] = text
        return text

    def changed_outside(self, task_id: str) -> bool:
        """Whether the file holds something else than when it was loaded or stored here."""
        try:
            path = self.path(task_id)
            if not path.is_file():
                return False
            return self._folder.read(path).decode("utf-8", "replace") != self._known.get(task_id)
        except (LabError, OSError):
            return False

    def save(self, task_id: str, text: str) -> str:
        """Store the text; when the file was changed by somebody else, store it beside and say so."""
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
        name = f"answers/{task_id}.yours.md"
        try:
            self._folder.write(name, text.encode())
        except LabError as error:
            return error.sentence
        return f"Your text is in {name}; merge the two."
