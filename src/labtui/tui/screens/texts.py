"""Pages that only show text, and the palette: help, problems, shell commands, differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from labtui.domain.events import LabState
from labtui.tui import format as words
from labtui.tui.actions import ACTIONS, Action, named
from labtui.tui.screens.prompts import Modal, ModalKeys
from labtui.tui.view import task_rows

if TYPE_CHECKING:
    from labtui.session.session import Session
    from labtui.tui.session_app import SessionApp


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
        self.dismiss(False if self.ask else None)

    def action_yes(self) -> None:
        """Agree, where something was asked."""
        if self.ask:
            self.dismiss(True)

    def action_copy(self) -> None:
        if self.copy:
            self.app.copy_to_clipboard(self.page.plain)
            self.notify("Copied.", timeout=2)


def problems_text(state: LabState, session: Session, lessons: Sequence[tuple[str, str]] = ()) -> Text:
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


def help_page(place: str = "", first: Sequence[str] = ()) -> Table:
    """Key, name, what it does. What acts on what is chosen comes first, then the screen or pane one is in."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    now = [action for name in first if (action := named(name)) is not None]
    groups = {"Here and now": now} if now else {}
    here = {action.group for action in ACTIONS if action.places == (place,)}
    for action in sorted(ACTIONS, key=lambda action: action.group not in here):
        groups.setdefault(action.group, []).append(action)
    for group, members in groups.items():
        table.add_row(Text(group, style="bold underline"), "", "")
        for action in members:
            table.add_row(Text(action.key_label, style="bold"), Text(action.label), Text(action.help))
        table.add_row("", "", "")
    table.add_row(Text("Signs", style="bold underline"), "", "")
    for status, glyph in words.TASK_GLYPHS.items():
        table.add_row(glyph, Text(words.TASK_WORDS[status]), Text("a task's box"))
    for phase, glyph in words.PHASE_GLYPHS.items():
        table.add_row(glyph, Text(phase.value), Text("a run"))
    for status, glyph in words.CONNECTION_GLYPHS.items():
        table.add_row(
            glyph, Text(words.CONNECTION_WORDS.get(status, status)), Text("the connection to the cluster")
        )
    return table


class HelpScreen(Modal[None]):
    """The help page."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark", "close", "close", show=False)]

    def __init__(self, place: str = "", first: Sequence[str] = ()) -> None:
        super().__init__()
        self.place, self.first = place, first

    def compose(self) -> ComposeResult:
        with Vertical(classes="page"):
            yield Static(
                Text(
                    "Keys (the mouse works, too). Change them in settings.toml, [keys].",
                    style="bold",
                ),
                markup=False,
                classes="page-title",
            )
            with VerticalScroll(classes="page-text"):
                yield Static(help_page(self.place, self.first))
            yield ModalKeys(("esc", "closes", "close"), classes="page-keys")

    def on_mount(self) -> None:
        """Arrow keys scroll."""
        self.query_one(VerticalScroll).focus()

    def action_close(self) -> None:
        self.dismiss(None)


@dataclass(frozen=True, slots=True)
class Command:
    """A line of the palette; `also` are further words that find it."""

    title: str
    help: str
    run: Callable[[], Any]
    also: str = ""
    listed: bool = True


class ActionProvider(Provider):
    """What can be done where the palette was opened."""

    @property
    def session_app(self) -> SessionApp:
        return self.app  # type: ignore[return-value]

    def _commands(self) -> list[Command]:
        app = self.session_app
        commands = [
            Command(f"{each.label}  ({each.key_label})", each.help, partial(app.do, each.name), each.also)
            for each in self._here()
        ]
        commands += [
            Command(
                f"task {row.task_id} {row.title}", "go to this task", partial(app.go_to_task, row.task_id)
            )
            for row in task_rows(app.view_model.view_state())
        ]
        commands += [
            Command(f"theme {name}", "change the colours", partial(app.choose_theme, name), listed=False)
            for name in sorted(app.available_themes, key=lambda name: (not name.startswith("labtui"), name))
        ]
        return commands

    def _here(self) -> list[Action]:
        places = set(getattr(self.screen, "PLACES", ("main", "log", "charts", "answers"))) | {"app"}
        return [each for each in ACTIONS if places & set(each.places) and not each.name.startswith("move")]

    async def discover(self) -> Hits:
        """Everything, before a letter is typed."""
        for each in self._commands():
            if each.listed:
                yield DiscoveryHit(each.title, each.run, help=each.help)

    async def search(self, query: str) -> Hits:
        """What was meant: whole words of title or `also` first, then what fits the letters of title or help."""
        matcher, wanted = self.matcher(query), query.casefold().strip()
        for each in self._commands():
            words = f"{each.title} {each.also}".casefold().replace("(", " ").split()
            score = matcher.match(each.title)
            if any(word.startswith(wanted) for word in words):
                score = max(score, 1.0) + (1.0 if each.title.casefold().startswith(wanted) else 0.5)
            elif wanted in each.help.casefold():
                score = max(score, 0.3)
            if score > 0:
                title = matcher.highlight(each.title) if matcher.match(each.title) else Text(each.title)
                yield Hit(score, title, each.run, help=each.help)
