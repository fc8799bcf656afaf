"""What lies over a screen: questions of the login, yes or no, minutes, a reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from labtui.domain.events import RunState, SubmissionState
from labtui.slurm.states import early_end_refusal
from labtui.tui import format as words
from labtui.tui.themes import roles

STYLES = Path(__file__).parent.parent / "styles"
_Answer = TypeVar("_Answer")


Key = tuple[str, str, str]
"""How a key is written, what it does in a word or two, and the name of its action."""


class ModalKeys(Static):
    """The keys of a modal, and a note behind them; a click does what the key does."""

    def __init__(self, *keys: Key, note: str = "", classes: str | None = None) -> None:
        super().__init__(markup=False, classes=classes)
        self._keys, self._note = keys, note

    def on_mount(self) -> None:
        """The keys in the accent."""
        styles, text = roles(self.app), Text()
        for name, label, action in self._keys:
            meta = Style(meta={"@click": f"screen.{action}" if "." not in action else action})
            text.append(name, Style.parse(f"bold {styles.busy}") + meta)
            text.append(f" {label}   ", Style.parse(styles.soft) + meta)
        self.update(text.append(self._note, styles.quiet))


class Modal(ModalScreen[_Answer]):
    """A screen over another one."""

    CSS_PATH = STYLES / "modals.tcss"


TITLES = {
    "password": "Password",
    "passphrase": "Passphrase of your key",
    "code": "Code",
    "host-key": "Unknown server",
}


def prompt_screen(question: Any) -> Modal[str | None]:
    if question.kind == "host-key":
        return AskHostKey(question)
    return AskSecret(question)


class AskSecret(Modal[str | None]):
    """A password, passphrase or code; hidden unless the server says that it may be seen. Nothing of it is kept."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "refuse", "cancel", show=False)]

    def __init__(self, question: Any) -> None:
        super().__init__()
        self.question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(
                Text(f"{TITLES.get(self.question.kind, 'Question')}: {self.question.host}", style="bold"),
                markup=False,
            )
            yield Static(Text(self.question.text), markup=False, classes="dialog-text")
            yield Input(password=not self.question.echo, id="secret", compact=True)
            yield ModalKeys(
                ("enter", "answers", "accept"),
                ("esc", "cancels", "refuse"),
                note="It is not stored anywhere.",
            )

    def on_mount(self) -> None:
        self.query_one("#secret").focus()

    @on(Input.Submitted, "#secret")
    def _answered(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_accept()

    def action_accept(self) -> None:
        self.dismiss(self.query_one("#secret", Input).value)

    def action_refuse(self) -> None:
        self.dismiss(None)


class YesOrNo(Modal[_Answer]):
    """The `body` and two buttons. `escape` means no; the cursor is on no, the safe answer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "answer(False)", "no", show=False),
        Binding("y", "answer(True)", "yes", show=False),
        Binding("left,right,up,down", "other", show=False),
    ]
    yes, no = "Yes", "No"

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield from self.body()
            with Horizontal(classes="dialog-buttons"):
                yield Button(Text(f"y  {self.yes}"), id="yes", compact=True)
                yield Button(Text(f"n  {self.no}"), id="no", compact=True)

    def body(self) -> ComposeResult:
        raise NotImplementedError

    def on_mount(self) -> None:
        self.query_one("#no").focus()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.action_answer(event.button.id == "yes")

    def action_answer(self, yes: bool) -> None:
        raise NotImplementedError

    def action_other(self) -> None:
        self.focus_next()


class Confirm(YesOrNo[bool | None]):
    """A question in words, with `details` where there are some."""

    def __init__(self, text: str, *, yes: str = "Yes", no: str = "No", details: Text | None = None) -> None:
        super().__init__()
        self.text, self.yes, self.no, self.details = text, yes, no, details

    def body(self) -> ComposeResult:
        yield Static(Text(self.text), markup=False, classes="dialog-text")
        if self.details is not None:
            with Vertical(classes="dialog-details"):
                yield Static(self.details, markup=False)

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


class AskHostKey(YesOrNo[str | None]):
    """An unknown server shows its key's fingerprint; only "yes" goes on."""

    yes, no = "It is the same: connect", "Do not connect"

    def __init__(self, question: Any) -> None:
        super().__init__()
        self.question = question

    def body(self) -> ComposeResult:
        yield Static(Text(f"Unknown host: {self.question.host}", style="bold"), markup=False)
        yield Static(Text(self.question.text), markup=False, classes="dialog-text")
        fingerprint = Text(self.question.fingerprint, style="bold")
        yield Static(fingerprint, markup=False, classes="dialog-text", id="fingerprint")
        compare = "Compare it with the one your teacher or the cluster's documentation gives."
        yield Static(Text(compare, style="dim"), markup=False)

    def action_answer(self, yes: bool) -> None:
        """Accept or refuse the key."""
        self.dismiss("yes" if yes else None)


class AskMinutes(Modal[int | None]):
    """Whole minutes, or None when left. What makes no sense for this job is said before it is asked of Slurm."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave", show=False)]

    def __init__(self, chosen: Sequence[tuple[RunState, SubmissionState | None]]) -> None:
        """`chosen` is a run of each job that is meant, with its submission."""
        super().__init__()
        self.chosen = chosen

    def _question(self) -> str:
        if len(self.chosen) > 1:
            numbers = words.run_numbers([run.run_id for run, _ in self.chosen])
            return f"{numbers}: minutes from the start of each job to its end"
        run, submission = self.chosen[0]
        others = [number for number in (submission.run_ids if submission else ()) if number != run.run_id]
        text = f"Run {run.run_id}: minutes from the job's start to its end."
        if others:
            text += f" {words.run_numbers(others)} in the same job {'ends' if len(others) == 1 else 'end'} with it."
        if submission is not None and submission.time_limit_minutes:
            text += f" The job script asks for {submission.time_limit_minutes} min."
        return text

    def compose(self) -> ComposeResult:
        text = self._question()
        with Vertical(classes="dialog"):
            yield Static(Text(text), markup=False, classes="dialog-text")
            yield Input(id="minutes", compact=True, type="integer", max_length=5)
            yield Static(Text("", style="bold"), markup=False, id="minutes-problem")
            yield ModalKeys(
                ("enter", "sets the limit", "set_limit"),
                ("esc", "leaves", "leave"),
                note="Slurm ends the job then, even when labtui is closed.",
            )

    def on_mount(self) -> None:
        self.query_one("#minutes").focus()

    @on(Input.Submitted, "#minutes")
    def _answered(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_set_limit()

    def action_set_limit(self) -> None:
        """What was typed, if it makes sense for every job that is meant."""
        text = self.query_one("#minutes", Input).value.strip()
        minutes = int(text) if text.isascii() and text.isdecimal() else 0
        for run, submission in self.chosen:
            refusal = early_end_refusal(submission, minutes) if submission is not None else None
            if refusal is not None:
                which = f"Run {run.run_id}: " if len(self.chosen) > 1 else ""
                self.query_one("#minutes-problem", Static).update(Text(which + " ".join(refusal)))
                return
        self.dismiss(minutes)

    def action_leave(self) -> None:
        """No limit."""
        self.dismiss(None)


class AskReason(Modal[str | None]):
    """Why findings are overridden, in the student's words; None when left."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave", show=False)]

    def __init__(self, stops: str) -> None:
        super().__init__()
        self.stops = stops

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            text = f"{self.stops} Your reason to submit it all the same; it is printed on the last page of the hand-in."
            yield Static(Text(text), markup=False, classes="dialog-text")
            yield Input(id="reason", compact=True, max_length=200)
            yield ModalKeys(("enter", "overrides", "override"), ("esc", "leaves", "leave"))

    def on_mount(self) -> None:
        self.query_one("#reason").focus()

    @on(Input.Submitted, "#reason")
    def _answered(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_override()

    def action_override(self) -> None:
        """What was typed, if anything."""
        if reason := self.query_one("#reason", Input).value.strip():
            self.dismiss(reason)

    def action_leave(self) -> None:
        """Nothing is overridden."""
        self.dismiss(None)
