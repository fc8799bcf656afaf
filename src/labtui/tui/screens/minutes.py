"""The modal that asks after how many minutes Slurm shall end a job."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from labtui.core.early_end import early_end_refusal
from labtui.core.state import RunState, SubmissionState
from labtui.tui.screens.modal import Modal
from labtui.tui.widgets.keyline import ModalKeys


class AskMinutes(Modal[int | None]):
    """Whole minutes, or None when left. What makes no sense for this job is said before it is asked of Slurm."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave", show=False)]

    def __init__(self, run: RunState, submission: SubmissionState | None) -> None:
        super().__init__()
        self.run_state, self.submission = run, submission

    def compose(self) -> ComposeResult:
        """What it does, a line to type in, what is wrong with it."""
        run, submission = self.run_state, self.submission
        others = [number for number in (submission.run_ids if submission else ()) if number != run.run_id]
        text = f"End run #{run.run_id} ({run.spec.label}) how many minutes after its job's start?"
        if others:
            text += f" The runs {', '.join(f'#{number}' for number in others)} are in the same job."
        if submission is not None and submission.time_limit_minutes:
            text += f" The job script asks for {submission.time_limit_minutes} min."
        with Vertical(classes="dialog"):
            yield Static(Text(text), markup=False, classes="dialog-text")
            yield Input(id="minutes", compact=True, type="integer", max_length=5)
            yield Static(Text("", style="bold"), markup=False, id="minutes-problem")
            yield ModalKeys(
                ("enter", "sets the limit", "set_limit"),
                ("esc", "leaves", "leave"),
                note="Slurm ends the job then, labtui or not.",
            )

    def on_mount(self) -> None:
        """Type at once."""
        self.query_one("#minutes").focus()

    @on(Input.Submitted, "#minutes")
    def _answered(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_set_limit()

    def action_set_limit(self) -> None:
        """What was typed, if it makes sense for this job."""
        text = self.query_one("#minutes", Input).value.strip()
        minutes = int(text) if text.isascii() and text.isdecimal() else 0
        refusal = early_end_refusal(self.submission, minutes) if self.submission is not None else None
        if refusal is not None:
            self.query_one("#minutes-problem", Static).update(Text(" ".join(refusal)))
            return
        self.dismiss(minutes)

    def action_leave(self) -> None:
        """No limit."""
        self.dismiss(None)
