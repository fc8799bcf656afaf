"""Screens that only show text: problems, shell commands, differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from labtui.core.state import LabState
from labtui.tui.screens.modal import Modal
from labtui.tui.widgets.keyline import ModalKeys


class TextScreen(Modal[bool | None]):
    """A page of text; `copy` puts it on the clipboard with c, `ask` makes it a yes-or-no question."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "close", show=False),
        Binding("c", "copy", "copy", show=False),
        Binding("y", "yes", "yes", show=False),
        Binding("n", "close", "no", show=False),
    ]

    def __init__(self, title: str, text: Text | str, *, copy: bool = False, ask: str = "") -> None:
        super().__init__()
        self.title_text, self.page = title, Text(text) if isinstance(text, str) else text
        self.copy, self.ask = copy, ask

    def compose(self) -> ComposeResult:
        """Title, page, keys."""
        keys = [("esc", "closes", "close")]
        if self.copy:
            keys.insert(0, ("c", "copies", "copy"))
        if self.ask:
            keys = [("y", self.ask, "yes"), ("n", "leaves it as it is", "close")]
        with Vertical(classes="page"):
            yield Static(Text(self.title_text, style="bold"), markup=False, classes="page-title")
            with VerticalScroll(classes="page-text"):
                yield Static(self.page, markup=False)
            yield ModalKeys(*keys, classes="page-keys")

    def on_mount(self) -> None:
        """Arrow keys scroll."""
        self.query_one(VerticalScroll).focus()

    def action_close(self) -> None:
        """Back."""
        self.dismiss(False if self.ask else None)

    def action_yes(self) -> None:
        """Agree, where something was asked."""
        if self.ask:
            self.dismiss(True)

    def action_copy(self) -> None:
        """Put the text on the clipboard."""
        if self.copy:
            self.app.copy_to_clipboard(self.page.plain)
            self.notify("Copied.", timeout=2)


def problems_text(state: LabState, session: Any, lessons: Sequence[tuple[str, str]] = ()) -> Text:
    """Every error that is not over, with its hint; then what a rehearsal let go wrong on purpose."""
    page = Text()
    for problem in state.problems:
        page.append(f"! {problem.sentence}\n", style="bold").append(
            f"  {problem.hint}\n\n" if problem.hint else "\n"
        )
    if not state.problems:
        calm = state.connection.status in {"online", "connecting", "stale"}
        page.append("Nothing is wrong.\n\n" if calm else "Nothing is wrong but the connection.\n\n")
    connection = state.connection
    page.append(f"Connection: {connection.status}. {connection.sentence} {connection.hint}".rstrip() + "\n")
    for title, text in lessons:
        page.append(f"\n{title}\n", style="bold").append(f"{text}\n")
    page.append(f"\nUnexpected errors are written to {session.folder.problem_log}\n", style="dim")
    return page


def difference(old: str, new: str, name: str) -> Text:
    """A unified difference with its signs; colour only adds to them."""
    import difflib

    page = Text()
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"{name} (now)", f"{name} (then)", lineterm=""
    )
    for line in lines:
        style = (
            "green"
            if line.startswith("+")
            else "red"
            if line.startswith("-")
            else "dim"
            if line.startswith("@")
            else ""
        )
        page.append(f"{line}\n", style=style)
    if not page.plain:
        page.append("Nothing differs.")
    return page
