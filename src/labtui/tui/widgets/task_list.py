"""The tasks with their ticks: a list on wide screens, one line on narrow ones."""

from __future__ import annotations

from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from labtui.tui.messages import TaskChosen
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


class TaskList(OptionList):
    """All tasks; the cursor is the task on the screen. Rows are replaced one by one, so the cursor stays."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, compact=True)
        self._rows: tuple[TaskRow, ...] = ()
        self._current = ""
        self._shown: tuple[object, ...] = ()

    def show(self, picture: Picture) -> None:
        """Bring the list up to date."""
        rows = task_rows(picture)
        width, styles = self.size.width, roles(self.app)
        shown = (rows, picture.task_id, width, styles)
        if shown == self._shown:
            return
        same_tasks = [row.task_id for row in rows] == [row.task_id for row in self._rows]
        with self.prevent(OptionList.OptionHighlighted):
            if not same_tasks:
                self.clear_options()
                self.add_options(Option(task_text(row, styles), id=row.task_id) for row in rows)
            for index, row in enumerate(rows):
                current = row.task_id == picture.task_id
                self.replace_option_prompt_at_index(
                    index, task_text(row, styles, current=current, width=width)
                )
                if current and (picture.task_id != self._current or not same_tasks):
                    self.highlighted = index
        self._rows, self._current, self._shown = rows, picture.task_id, shown

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Moving the cursor goes to that task."""
        event.stop()
        if event.option_id and event.option_id != self._current:
            self.post_message(TaskChosen(event.option_id))


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
        right = Text(f"{done} of {count} done  g tasks  [ ] step", style="dim")
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


class NextStep(Widget):
    """Below the task list: what is missing, in one sentence."""

    DEFAULT_CSS = """
    NextStep { height: auto; max-height: 9; }
    """
    picture: reactive[Picture | None] = reactive(None, layout=True)

    def render(self) -> Text:
        """Progress as a bar of ticks and the sentence."""
        if self.picture is None:
            return Text("")
        done, count = progress(self.picture)
        bar = Text("━" * done, style=roles(self.app).good).append("─" * (count - done), style="dim")
        sentence = next_step(self.picture)
        return Text.assemble(bar, f" {done} of {count}\n", sentence) if count else Text(sentence)
