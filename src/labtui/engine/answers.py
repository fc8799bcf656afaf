"""The answer files of a lab folder: `answers/<task>.md`, made once, read back, never overwritten."""

from __future__ import annotations

from pathlib import Path

from labtui.core.lab.answers import AnswerSheet, missing_headings, new_sheet, read_sheet
from labtui.core.lab.edition import Edition, Task
from labtui.engine.folder import LabFolder
from labtui.errors import FolderError

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


def add_missing_questions(folder: LabFolder, task: Task) -> bool:
    """Append the headings of questions an existing file lacks; keeps every byte that is there.

    Raises:
        FolderError: when the file cannot be read or written.
    """
    path = open_answers(folder, task)
    more = missing_headings(task, read_text(path))
    if not more:
        return False
    try:
        with path.open("ab") as file:
            file.write(("\n" + more).encode())
    except OSError as error:
        raise FolderError(f"{path} cannot be written: {error.strerror}.") from error
    return True


def save_answers(folder: LabFolder, task: Task, text: str, *, based_on: str) -> None:
    """Write what the student typed, unless the file changed meanwhile (two students, two editors).

    `based_on` is the text the student began from.

    Raises:
        FolderError: when the file holds something else by now; nothing is written then.
    """
    from labtui.engine.settings import write_private

    path = answer_path(folder, task)
    if path.exists() and read_text(path) != based_on:
        raise FolderError(
            f"answers/{task.id}.md was changed by someone else since it was opened.",
            "Copy your text, open the file again, and put the two together.",
        )
    write_private(path, text.encode())


def read_answers(folder: LabFolder, task: Task) -> AnswerSheet:
    """Which questions of a task have an answer; a missing file has none.

    Raises:
        FolderError: when the file is there but cannot be read.
    """
    path = answer_path(folder, task)
    return read_sheet(task, read_text(path) if path.is_file() else "")


def all_answers(folder: LabFolder, edition: Edition) -> dict[str, AnswerSheet]:
    """The answers of every task that asks something, by task id."""
    return {task.id: read_answers(folder, task) for task in edition.tasks if task.questions}


def read_text(path: Path) -> str:
    """An answer file as it stands.

    Raises:
        FolderError: when it cannot be read or is too large to be an answer.
    """
    try:
        if path.stat().st_size > MAX_ANSWER_BYTES:
            raise FolderError(f"{path} is too large to be an answer.", "Keep text there, and data elsewhere.")
        return path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror}.") from error
