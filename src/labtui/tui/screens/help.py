"""All keys with what they do, from the registry."""

from __future__ import annotations

from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from labtui.tui import format as words
from labtui.tui.actions import ACTIONS
from labtui.tui.screens.modal import Modal
from labtui.tui.widgets.keyline import ModalKeys


def help_page(place: str = "") -> Table:
    """Groups of actions: key, name, what it does. Those of the screen or pane one is in come first."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    seen = ""
    here = {action.group for action in ACTIONS if action.places == (place,)}
    for action in sorted(ACTIONS, key=lambda action: action.group not in here):
        if action.group != seen:
            table.add_row("", "", "") if seen else None
            table.add_row(Text(action.group, style="bold underline"), "", "")
            seen = action.group
        table.add_row(Text(action.key_label, style="bold"), Text(action.label), Text(action.help))
    table.add_row("", "", "")
    table.add_row(Text("Signs", style="bold underline"), "", "")
    for status, glyph in words.TASK_GLYPHS.items():
        table.add_row(glyph, Text(words.TASK_WORDS[status]), Text("a task's box"))
    for phase, glyph in words.PHASE_GLYPHS.items():
        table.add_row(glyph, Text(phase.value), Text("a run"))
    for status, glyph in words.CONNECTION_GLYPHS.items():
        table.add_row(
            glyph, Text(words.CONNECTION_WORDS.get(status, status)), Text("the line to the cluster")
        )
    return table


class HelpScreen(Modal[None]):
    """The help page."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark", "close", "close", show=False)]

    def __init__(self, place: str = "") -> None:
        super().__init__()
        self.place = place

    def compose(self) -> ComposeResult:
        """Title, page, keys."""
        with Vertical(classes="page"):
            yield Static(
                Text("Keys. Everything works by mouse, too.", style="bold"),
                markup=False,
                classes="page-title",
            )
            with VerticalScroll(classes="page-text"):
                yield Static(help_page(self.place))
            yield ModalKeys(("esc", "closes", "close"), classes="page-keys")

    def on_mount(self) -> None:
        """Arrow keys scroll."""
        self.query_one(VerticalScroll).focus()

    def action_close(self) -> None:
        """Back."""
        self.dismiss(None)
