"""Modals: questions of a login, yes or no, a single value. Text from a server is shown as data."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Input, Static

from labtui.tui.screens.modal import Modal
from labtui.tui.widgets.keyline import ModalKeys

TITLES = {
    "password": "Password",
    "passphrase": "Passphrase of your key",
    "code": "Code",
    "host-key": "Unknown server",
}


def prompt_screen(question: Any) -> Modal[str | None]:
    """The modal for a question of the login."""
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
        """Who asks, what, and a line to type in."""
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
        """Type at once."""
        self.query_one("#secret").focus()

    @on(Input.Submitted, "#secret")
    def _answered(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_accept()

    def action_accept(self) -> None:
        """What was typed."""
        self.dismiss(self.query_one("#secret", Input).value)

    def action_refuse(self) -> None:
        """No answer."""
        self.dismiss(None)


class Confirm(Modal[bool | None]):
    """Yes or no. `escape` means no; the cursor is on no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "answer(False)", "no", show=False),
        Binding("y", "answer(True)", "yes", show=False),
        Binding("left,right,up,down", "other", show=False),
    ]

    def __init__(self, text: str, *, yes: str = "Yes", no: str = "No", details: Text | None = None) -> None:
        super().__init__()
        self.text, self.yes, self.no, self.details = text, yes, no, details

    def compose(self) -> ComposeResult:
        """The question and two buttons."""
        with Vertical(classes="dialog"):
            yield Static(Text(self.text), markup=False, classes="dialog-text")
            if self.details is not None:
                with Vertical(classes="dialog-details"):
                    yield Static(self.details, markup=False)
            with Horizontal(classes="dialog-buttons"):
                yield Button(Text(f"y  {self.yes}"), id="yes", variant="primary", compact=True)
                yield Button(Text(f"n  {self.no}"), id="no", compact=True)

    def on_mount(self) -> None:
        """No is the safe answer."""
        self.query_one("#no").focus()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.dismiss(event.button.id == "yes")

    def action_answer(self, yes: bool) -> None:
        """A key."""
        self.dismiss(yes)

    def action_other(self) -> None:
        """The other button."""
        self.focus_next()


class AskHostKey(Modal[str | None]):
    """An unknown server shows its key's fingerprint; only "yes" goes on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "answer(False)", "no", show=False),
        Binding("y", "answer(True)", "yes", show=False),
        Binding("left,right,up,down", "other", show=False),
    ]

    def __init__(self, question: Any) -> None:
        super().__init__()
        self.question = question

    def compose(self) -> ComposeResult:
        """Host, fingerprint, what to compare it with."""
        with Vertical(classes="dialog"):
            yield Static(Text(f"Unknown server: {self.question.host}", style="bold"), markup=False)
            yield Static(Text(self.question.text), markup=False, classes="dialog-text")
            yield Static(
                Text(self.question.fingerprint, style="bold"),
                markup=False,
                classes="dialog-text",
                id="fingerprint",
            )
            yield Static(
                Text(
                    "Compare it with the fingerprint your teacher or the cluster's documentation gives.",
                    style="dim",
                ),
                markup=False,
            )
            with Horizontal(classes="dialog-buttons"):
                yield Button(Text("y  It is the same: connect"), id="yes", variant="primary", compact=True)
                yield Button(Text("n  Do not connect"), id="no", compact=True)

    def on_mount(self) -> None:
        """No is the safe answer."""
        self.query_one("#no").focus()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.action_answer(event.button.id == "yes")

    def action_answer(self, yes: bool) -> None:
        """Accept or refuse the key."""
        self.dismiss("yes" if yes else None)

    def action_other(self) -> None:
        """The other button."""
        self.focus_next()
