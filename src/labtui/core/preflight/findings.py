"""What preflight says: a finding with its place, its effect, and a fix that is a pure edit of the text."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]
"""An error stops a submission, a warning asks."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Line `line` (1-based) reads `old`; `new` are the lines that take its place."""

    line: int
    old: str
    new: tuple[str, ...]

    @property
    def inserts(self) -> bool:
        """Whether the old line stays and others join it."""
        return len(self.new) > 1


@dataclass(frozen=True, slots=True)
class Fix:
    """A change of one file. `title` says it in words; its edits are applied all together or not at all."""

    file: str
    title: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing seen in one line. `line` is 1-based, 0 when it is about the file as a whole.

    `text` is the line as it stands; `effect` one or two sentences: what it does, what would be right.
    """

    rule: str
    severity: Severity
    file: str
    line: int
    text: str
    effect: str
    fix: Fix | None = None


def apply_fix(text: str, fix: Fix) -> str:
    """The text with a fix applied.

    A fix that does not fit the text as it is now (applied already, or the line was edited since) changes
    nothing.
    """
    lines = text.split("\n")
    if not fix.edits or not all(_fits(lines, edit) for edit in fix.edits):
        return text
    for edit in sorted(fix.edits, key=lambda item: item.line, reverse=True):
        lines[edit.line - 1 : edit.line] = edit.new
    return "\n".join(lines)


def _fits(lines: Sequence[str], edit: Edit) -> bool:
    at = edit.line - 1
    if not 0 <= at < len(lines) or lines[at] != edit.old or edit.new == (edit.old,):
        return False
    # An insertion keeps its old line, so look whether the new ones stand there already.
    before = tuple(lines[max(0, at - len(edit.new) + 1) : at + 1])
    return not edit.inserts or (tuple(lines[at : at + len(edit.new)]) != edit.new and before != edit.new)


def preview_fix(text: str, fix: Fix) -> str:
    """The change as a unified diff, two lines of context; "" when nothing would change."""
    changed = apply_fix(text, fix)
    lines = difflib.unified_diff(
        text.split("\n"), changed.split("\n"), fix.file, f"{fix.file} (fixed)", lineterm="", n=2
    )
    return "\n".join(lines)
