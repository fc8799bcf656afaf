"""What reaches the screens from outside: states, questions, ends of actions. One per tick, replaceable."""

from __future__ import annotations

import queue
from typing import Any

from textual.message import Message

from labtui.core.state import LabState


class StateArrived(Message):
    """The session's newest state; an older one still in the queue is dropped."""

    def __init__(self, state: LabState) -> None:
        super().__init__()
        self.state = state

    def can_replace(self, message: Message) -> bool:
        """Only the newest state counts."""
        return isinstance(message, StateArrived)


class PromptAsked(Message):
    """The lane waits for the student: put the answer (or None) into `reply`, once."""

    def __init__(self, question: Any, reply: queue.Queue[str | None]) -> None:
        super().__init__()
        self.question = question
        self.reply = reply


class ActionEnded(Message):
    """A request to the session ended; `error` is what it said no with. `done` says it in words when it went well."""

    def __init__(
        self,
        name: str,
        done: str,
        result: Any = None,
        error: BaseException | None = None,
        about: Any = None,
    ) -> None:
        super().__init__()
        self.name = name
        self.done = done
        self.result = result
        self.error = error
        self.about = about


class TaskChosen(Message):
    """The student went to another task."""

    def __init__(self, task_id: str) -> None:
        super().__init__()
        self.task_id = task_id


class RunChosen(Message):
    """The student put the cursor on a run, or opened its log (`open_log`)."""

    def __init__(self, run_id: int, *, open_log: bool = False) -> None:
        super().__init__()
        self.run_id = run_id
        self.open_log = open_log


class PaneAsked(Message):
    """A tab was clicked."""

    def __init__(self, pane: str) -> None:
        super().__init__()
        self.pane = pane


class ActionAsked(Message):
    """A key of the bottom line was clicked; `name` is an action of the registry."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
