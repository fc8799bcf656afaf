"""The command palette, from the registry of actions, the tasks, and the themes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from textual.command import DiscoveryHit, Hit, Hits, Provider

from labtui.tui.actions import ACTIONS, Action
from labtui.tui.view import task_rows

if TYPE_CHECKING:
    from labtui.tui.app import LabApp


class ActionProvider(Provider):
    """What can be done where the palette was opened."""

    @property
    def lab_app(self) -> LabApp:
        """Our app."""
        return self.app  # type: ignore[return-value]

    def _commands(self) -> list[tuple[str, str, Any]]:
        app = self.lab_app
        commands: list[tuple[str, str, Any]] = [
            (f"{action.label}  ({action.key_label})", action.help, partial(app.do, action.name))
            for action in self._here()
        ]
        for row in task_rows(app.desk.picture()):
            commands.append(
                (f"task {row.task_id} {row.title}", "go to this task", partial(app.go_to_task, row.task_id))
            )
        for name in sorted(app.available_themes):
            commands.append((f"theme {name}", "change the colours", partial(setattr, app, "theme", name)))
        return commands

    def _here(self) -> list[Action]:
        places = set(getattr(self.screen, "PLACES", ("main", "log", "charts"))) | {"app"}
        return [action for action in ACTIONS if places & set(action.places)]

    async def discover(self) -> Hits:
        """Everything, before a letter is typed."""
        for title, text, command in self._commands():
            if not title.startswith("theme "):
                yield DiscoveryHit(title, command, help=text)

    async def search(self, query: str) -> Hits:
        """What fits the letters."""
        matcher = self.matcher(query)
        for title, text, command in self._commands():
            score = matcher.match(f"{title} {text}")
            if score > 0:
                yield Hit(score, matcher.highlight(title), command, help=text)
