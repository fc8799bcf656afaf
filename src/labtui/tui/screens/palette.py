"""The palette and the help page, both made from the bindings that act where they were opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.table import Table
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.screen import Screen

from labtui.tui import format as words
from labtui.tui.keys import ALSO
from labtui.tui.screens.pages import TextScreen
from labtui.tui.themes import OURS, preferences_file

if TYPE_CHECKING:
    from textual.dom import DOMNode


def here(screen: Screen[Any]) -> Iterator[tuple[DOMNode, Binding]]:
    """Each binding of ours that acts on this screen, once, the innermost first."""
    seen: set[str] = set()
    for node, binding, _, _ in screen.active_bindings.values():
        if binding.id and binding.tooltip and binding.id not in seen:
            seen.add(binding.id)
            yield node, binding


def every_binding() -> list[Binding]:
    """What all screens and panes declare."""
    from labtui.tui.app import LabApp, bindings_of
    from labtui.tui.screens.main import MainScreen
    from labtui.tui.screens.plan import PlanScreen, PlanTable
    from labtui.tui.widgets.answers_pane import AnswersPane
    from labtui.tui.widgets.charts_pane import ChartsPane
    from labtui.tui.widgets.log_pane import LogPane
    from labtui.tui.widgets.run_pane import RunPane
    from labtui.tui.widgets.runs_pane import RunsPane
    from labtui.tui.widgets.task_pane import TaskPane

    panes = (TaskPane, RunPane, RunsPane, LogPane, ChartsPane, AnswersPane)
    return bindings_of(LabApp, MainScreen, PlanScreen, PlanTable, *panes)


@dataclass(frozen=True, slots=True)
class Command:
    """A line of the palette; `also` are further words that find it."""

    title: str
    help: str
    run: Callable[[], Any]
    also: str = ""
    listed: bool = True


class ActionProvider(Provider):
    """What can be done where the palette was opened, the tasks, and the themes."""

    def _commands(self) -> list[Command]:
        app: Any = self.app  # a `LabApp`
        commands = []
        for node, binding in here(self.screen):
            shown = f"  {app.get_key_display(binding)}"
            run = partial(app.run_action, binding.action, node)
            also = ALSO.get(binding.id or "", "")
            commands.append(Command(f"{binding.description}{shown}", binding.tooltip, run, also))
        requests = "every command labtui ran on the cluster, and how long it took"
        commands.append(Command("Requests", requests, app.action_remote_commands, "commands ssh"))
        for row in app.view_model.view().tasks:
            commands.append(
                Command(f"Task {row.task_id} {row.title}", row.word, partial(app.go_to_task, row.task_id))
            )
        for theme in OURS:
            title = f"Theme {theme.name.removeprefix('labtui-')}"
            commands.append(
                Command(title, "change the colours", partial(app.choose_theme, theme.name), "colours")
            )
        return commands

    async def discover(self) -> Hits:
        """Everything, before a letter is typed."""
        for each in self._commands():
            yield DiscoveryHit(each.title, each.run, help=each.help)

    async def search(self, query: str) -> Hits:
        """What was meant: whole words of title or `also` first, then what fits the letters of title or help."""
        matcher, wanted = self.matcher(query), query.casefold().strip()
        for each in self._commands():
            named = f"{each.title} {each.also}".casefold().split()
            score = matcher.match(each.title)
            if any(word.startswith(wanted) for word in named):
                score = max(score, 1.0) + (1.0 if each.title.casefold().startswith(wanted) else 0.5)
            elif wanted in each.help.casefold():
                score = max(score, 0.3)
            if score > 0:
                title = matcher.highlight(each.title) if matcher.match(each.title) else Text(each.title)
                yield Hit(score, title, each.run, help=each.help)


class HelpScreen(TextScreen):
    """The keys that act on the screen it was opened over, and the signs; the key that opened it closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark,f1", "close", "close", show=False)]

    def __init__(self, screen: Screen[Any]) -> None:
        file = str(preferences_file()).replace(str(Path.home()), "~", 1)
        super().__init__(f"Keys here. Change them in {file}, [keys].", help_page(screen))


def help_page(screen: Screen[Any]) -> Table:
    """Key, name, what it does, the innermost part first; then the signs."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for _, binding in here(screen):
        shown = screen.app.get_key_display(binding)
        table.add_row(Text(shown, "bold"), Text(binding.description), Text(binding.tooltip))
    table.add_row("", "", "")
    table.add_row(Text("Signs", "bold"), "", "")
    for phase, glyph in words.PHASE_GLYPHS.items():
        table.add_row(glyph, Text(phase.value), Text("a run"))
    for status in ("done", "partial", "open"):
        table.add_row(words.TASK_GLYPHS[status], Text(words.TASK_WORDS[status]), Text("a task"))
    return table
