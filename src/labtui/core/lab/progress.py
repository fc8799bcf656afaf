"""How far a group is: the current task, the next one, the share that is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labtui.core.lab.checks import TaskCheck
from labtui.core.lab.edition import Edition


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`current` and `next` are task ids (None: all done); `percent` goes by the sheet's weights if any.

    Nothing is locked by it: any task may be worked on at any time.
    """

    current: str | None
    next: str | None
    percent: float
    done: int
    total: int


def progress(edition: Edition, checks: Sequence[TaskCheck]) -> Progress:
    """Progress over all tasks: started tasks count by the share of their conditions that are met."""
    by_id = {check.task_id: check for check in checks}
    open_tasks = [task.id for task in edition.tasks if task.id in by_id and not by_id[task.id].done]
    weighted = any(task.weight for task in edition.tasks)
    weights = {task.id: (task.weight or 0.0) if weighted else 1.0 for task in edition.tasks}
    total = sum(weights[name] for name in by_id if name in weights)
    reached = sum(weights[name] * check.fraction for name, check in by_id.items() if name in weights)
    return Progress(
        current=open_tasks[0] if open_tasks else None,
        next=open_tasks[1] if len(open_tasks) > 1 else None,
        percent=100.0 * reached / total if total else 0.0,
        done=sum(check.done for check in checks),
        total=len(checks),
    )
