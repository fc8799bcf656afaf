"""The tasks with their ticks on wide screens, and what is missing below them; narrow ones have `task_line`."""

from __future__ import annotations

from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from labtui.tui.messages import TaskChosen
from labtui.tui.themes import roles
from labtui.tui.view import Picture, TaskRow, next_step, progress, task_rows
from labtui.tui.widgets.task_line import task_text


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


class NextStep(Widget):
    """Below the task list: what is missing, in one sentence."""

    DEFAULT_CSS = """
    NextStep { height: auto; max-height: 9; }
    """
    picture: reactive[Picture | None] = reactive(None, layout=True)

    def show(self, picture: Picture) -> None:
        """Bring it up to date."""
        self.picture = picture

    def render(self) -> Text:
        """Progress as a bar of ticks and the sentence."""
        if self.picture is None:
            return Text("")
        done, count = progress(self.picture)
        bar = Text("━" * done, style=roles(self.app).good).append("─" * (count - done), style="dim")
        sentence = next_step(self.picture)
        return Text.assemble(bar, f" {done} of {count}\n", sentence) if count else Text(sentence)
