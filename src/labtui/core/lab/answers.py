"""A task's answer file: questions as headings, the student's text below them.

The file is the student's Markdown. labtui writes the headings once and reads back which questions have a
text; it never writes, moves or judges an answer. Comments (``<!-- -->``) are ours or the student's notes and
do not count.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from labtui.core.lab.edition import Task

_HEADING = re.compile(r"^##\s+(?:(?P<number>\d+)[.)]?\s+)?(?P<text>.*?)\s*#*\s*$")
_FENCE = re.compile(r"^\s{0,3}(```+|~~~+)")
_NOWHERE = -1
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class AnswerSheet:
    """What stands below each question of a task, in their order; "" where nothing was written."""

    texts: tuple[str, ...]

    @property
    def answered(self) -> tuple[bool, ...]:
        """Which questions have an answer."""
        return tuple(bool(text) for text in self.texts)

    @property
    def complete(self) -> bool:
        """Whether every question has one."""
        return all(self.answered)


def new_sheet(task: Task) -> str:
    """The Markdown a task's answer file starts with: its title and its questions, and room below each."""
    lines = [f"# Task {task.id}: {task.title}", ""]
    lines.append("<!-- Write below each question. labtui looks for text there and never changes it. -->")
    for number, question in enumerate(task.questions, 1):
        lines += ["", f"## {number}. {one_line(question.text)}", "", "<!-- your answer -->", ""]
    return "\n".join(lines) + ("" if lines[-1] == "" else "\n")


def missing_headings(task: Task, text: str) -> str:
    """Headings of questions the file does not have, to be added at its end; "" when none is missing."""
    found = _sections(task, text)
    lines: list[str] = []
    for number, question in enumerate(task.questions, 1):
        if number - 1 not in found:
            lines += ["", f"## {number}. {one_line(question.text)}", "", "<!-- your answer -->", ""]
    return "\n".join(lines)


def read_sheet(task: Task, text: str) -> AnswerSheet:
    """Which answers a file holds.

    A heading belongs to the question with the same words, else to the one with its number; other headings are
    part of the answer they stand in.
    """
    found = _sections(task, text)
    return AnswerSheet(tuple(_plain(found.get(index, "")) for index in range(len(task.questions))))


def answer_markdown(task: Task, text: str) -> tuple[tuple[str, ...], str]:
    """The Markdown below each question as it stands, without comments; and what stands below none of them."""
    found = _sections(task, text)
    raw = {index: _COMMENT.sub("", part).strip("\n") for index, part in found.items()}
    shown = {index: part if _plain(part) else "" for index, part in raw.items()}
    return tuple(shown.get(index, "") for index in range(len(task.questions))), shown.get(_NOWHERE, "")


def question_of(task: Task, lines: Iterable[str]) -> int | None:
    """The index of the question in whose answer the last of these lines stands; None above the first question."""
    last = deque(_walk(task, lines), maxlen=1)
    return last[0][0] if last else None


def one_line(text: str) -> str:
    """A text without line breaks and doubled blanks."""
    return " ".join(text.split())


def _plain(section: str) -> str:
    """A section without comments and without lines that hold no letter or digit (rules, empty list items)."""
    without = _COMMENT.sub("", section)
    kept = [line for line in without.splitlines() if line.strip()]
    return "\n".join(kept).strip() if any(char.isalnum() for line in kept for char in line) else ""


def _sections(task: Task, text: str) -> dict[int, str]:
    """The text below each question's heading, by the question's index."""
    found: dict[int, list[str]] = {}
    for current, kind, line in _walk(task, text.splitlines()):
        if kind == "question" and current is not None:
            found.setdefault(current, [])
        elif kind == "text":
            found.setdefault(_NOWHERE if current is None else current, []).append(line)
    return {index: "\n".join(lines) for index, lines in found.items()}


def _walk(task: Task, lines: Iterable[str]) -> Iterator[tuple[int | None, str, str]]:
    """Each line with the index of its question and what it is: question, title, text. A code fence hides headings."""
    words = [_normal(question.text) for question in task.questions]
    current: int | None = None
    fence = ""
    for line in lines:
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1][:3]
        heading = None if fence or mark else _HEADING.match(line)
        index = _question(heading, words) if heading else None
        kind = "text"
        if index is not None:
            current, kind = index, "question"
        elif line.startswith("# ") and not fence:
            current, kind = None, "title"
        yield current, kind, line


def _question(heading: re.Match[str], words: list[str]) -> int | None:
    text = _normal(heading["text"])
    if text in words:
        return words.index(text)
    if heading["number"] and 0 < int(heading["number"][:6]) <= len(words):
        return int(heading["number"][:6]) - 1
    return None


def _normal(text: str) -> str:
    return re.sub(r"\W+", " ", text).strip().casefold()
