"""The task on the screen as one line, for screens too narrow for the list; part of the first frame, so it is light."""

from __future__ import annotations

from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from labtui.tui.themes import Roles, roles
from labtui.tui.view import Picture, TaskRow, next_step, progress, task_rows

STATUS_ROLES = {"done": "good", "partial": "warn", "stale": "stale"}


def task_text(row: TaskRow, roles: Roles, *, current: bool = False, width: int = 0) -> Text:
    """Glyph, number and title; the state's word stands there too where it is not plain."""
    style = getattr(roles, STATUS_ROLES.get(row.status, ""), "")
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{row.glyph} ", style=style)
    word = row.word if row.live or row.status == "stale" else ""
    name = Text(f"{row.task_id} {row.title}", style="bold" if current else "")
    if width:
        name.truncate(max(8, width - 3 - len(word)), overflow="ellipsis")
    text.append_text(name)
    if word:
        text.append(f" {word}", style=roles.busy if row.live == "running" else roles.quiet)
    return text


class TaskLine(Widget):
    """The folded task list: this task, how many are done, how to reach the others."""

    DEFAULT_CSS = """
    TaskLine { height: 2; }
    """
    picture: reactive[Picture | None] = reactive(None)

    def render(self) -> Text:
        """This task; and, where there is room for a second line, what to do next."""
        picture = self.picture
        if picture is None:
            return Text("")
        row = next((row for row in task_rows(picture) if row.task_id == picture.task_id), None)
        done, count = progress(picture)
        right = Text(f"{done} of {count} done  g tasks  [ ] next", style="dim")
        left = Text(" ")
        left.append_text(
            task_text(row, roles(self.app), current=True) if row is not None else Text("no task")
        )
        left.truncate(max(1, self.size.width - right.cell_len - 2), overflow="ellipsis")
        left.append(" " * max(1, self.size.width - left.cell_len - right.cell_len - 1))
        line = left.append_text(right)
        if self.size.height < 2:
            return line
        step = Text(f" {next_step(picture)}", no_wrap=True, style="not bold")
        step.truncate(max(1, self.size.width - 1), overflow="ellipsis")
        return Text("\n").join([line, step])

    async def on_click(self) -> None:
        """A click opens the list."""
        await self.run_action("screen.task_list")
