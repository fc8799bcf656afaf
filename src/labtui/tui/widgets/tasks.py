"""The tasks: their list with ticks on wide screens (narrow ones have `task_line`), and one task in words.

The pane says what to do, why, the planned runs, files, questions, and what is still missing.
"""

from __future__ import annotations

import re

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.events import Click
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from labtui.lab.edition import Task
from labtui.lab.runs import RunPlan
from labtui.tui import actions
from labtui.tui import format as words
from labtui.tui.guidance import next_step
from labtui.tui.messages import ActionAsked, TaskChosen
from labtui.tui.themes import Roles, roles
from labtui.tui.view import TaskRow, ViewState, progress, spent_words, task_rows
from labtui.tui.widgets.frame import task_text


class TaskList(OptionList):
    """All tasks; the cursor is the task on the screen. Rows are replaced one by one, so the cursor stays."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes, compact=True)
        self.border_title = "Tasks"
        self._rows: tuple[TaskRow, ...] = ()
        self._current = ""
        self._shown: tuple[object, ...] = ()

    def show(self, view_state: ViewState) -> None:
        rows = task_rows(view_state)
        self._show_progress(view_state)
        width, styles = self.size.width, roles(self.app)
        shown = (rows, view_state.task_id, width, styles)
        if shown == self._shown:
            return
        same_tasks = [row.task_id for row in rows] == [row.task_id for row in self._rows]
        with self.prevent(OptionList.OptionHighlighted):
            if not same_tasks:
                self.clear_options()
                self.add_options(Option(task_text(row, styles), id=row.task_id) for row in rows)
            for index, row in enumerate(rows):
                current = row.task_id == view_state.task_id
                self.replace_option_prompt_at_index(
                    index, task_text(row, styles, current=current, width=width)
                )
                if current and (view_state.task_id != self._current or not same_tasks):
                    self.highlighted = index
        self._rows, self._current, self._shown = rows, view_state.task_id, shown

    def _show_progress(self, view_state: ViewState) -> None:
        counted = progress(view_state)
        if counted is None:
            self.border_subtitle = ""
            return
        done, count = counted
        full, empty = words.bar(done / count if count else 0.0, 10)
        styles = roles(self.app)
        bar = Text(full, style=styles.good).append(empty, style=styles.quiet)
        self.border_subtitle = bar.append(f" {done} of {count} done", style="not dim")

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Moving the cursor goes to that task."""
        event.stop()
        if event.option_id and event.option_id != self._current:
            self.post_message(TaskChosen(event.option_id))


class NextCard(Widget):
    """Below the task list, always: the next step with its key."""

    DEFAULT_CSS = """
    NextCard { height: auto; min-height: 4; max-height: 12; }
    """
    view_state: reactive[ViewState | None] = reactive(None, layout=True)

    def on_mount(self) -> None:
        self.border_title = "Next"

    def show(self, view_state: ViewState) -> None:
        self.view_state = view_state

    def render(self) -> Text:
        """Key and action on the first line, the sentence below."""
        if self.view_state is None:
            return Text("")
        step, styles = next_step(self.view_state), roles(self.app)
        action = actions.named(step.action)
        text = Text()
        if action is not None:
            meta = Style(meta={"action_name": action.name})
            text.append(f" {action.key_label} ", Style.parse(f"bold reverse {styles.busy}") + meta)
            text.append(f" {step.label}\n", Style.parse(f"bold {styles.busy}") + meta)
        return text.append(step.sentence)

    def on_click(self, event: Click) -> None:
        step = next_step(self.view_state) if self.view_state is not None else None
        if step is not None and step.action:
            event.stop()
            self.post_message(ActionAsked(step.action))


MARGIN = "  "


_HEAD = re.compile(r"\s*(?:[•✔○] )?")


class HangingText(Widget):
    """Lines of text; what a long one leaves over hangs below its own first word, not below its bullet."""

    DEFAULT_CSS = """
    HangingText { height: auto; }
    """
    text: reactive[Text] = reactive(Text, layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return max(1, len(self._lines(width)))

    def render(self) -> Text:
        return Text("\n").join(self._lines(self.size.width))

    def _lines(self, width: int) -> list[Text]:
        lines: list[Text] = []
        for line in self.text.split("\n", allow_blank=True):
            found = _HEAD.match(line.plain)
            margin = found.end() if found is not None else 0
            rest = (
                line[margin:].wrap(self.app.console, max(8, width - margin)) if line.plain.strip() else [line]
            )
            for place, piece in enumerate(rest):
                piece.rstrip()
                lines.append(Text.assemble(line[:margin] if place == 0 else " " * margin, piece))
        return lines


class TaskPane(VerticalScroll):
    """One scrolling page; it is rebuilt only when its text changes, so the reader's place is kept."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._page = HangingText()
        self._shown: tuple[str, str] | None = None

    def compose(self) -> ComposeResult:
        yield self._page

    def show(self, view_state: ViewState) -> None:
        if not self.display:
            return
        page = task_page(view_state, roles(self.app))
        key = (view_state.task_id, page.markup)
        if key == self._shown:
            return
        task = view_state.task
        self.border_title = Text(f"{task.id} {task.title}" if task is not None else "Task")
        other_task = self._shown is None or self._shown[0] != view_state.task_id
        self._shown = key
        self._page.text = page
        if other_task:
            self.scroll_home(animate=False)


def task_page(view_state: ViewState, styles: Roles) -> Text:
    task = view_state.task
    if task is None and view_state.loading:
        return Text("")
    if task is None:
        return Text(
            "This lab's edition could not be read, so there is no task text here.\nRuns, logs and charts still work."
        )
    page = Text()
    if task.weight:
        page.append(f"{task.weight:g} % of the mark\n", style=styles.quiet)
    if spent := spent_words(view_state):
        page.append(f"{spent}\n")
    if page.plain:
        page.append("\n")
    _paragraph(page, "", task.what)
    _paragraph(page, "Why", task.why)
    _missing(page, view_state, styles)
    _bullets(page, "Hints", task.hints)
    _planned(page, task)
    _bullets(page, "Files", tuple(f"scripts/{name}" for name in task.files))
    _bullets(page, "Questions (answer with a)", tuple(question.text for question in task.questions))
    _bullets(page, "To hand in", task.deliverables)
    _notes(page, view_state)
    page.rstrip()
    return page


def _heading(page: Text, title: str) -> None:
    page.append(f"{title}\n", style="bold underline")


def _paragraph(page: Text, title: str, text: str) -> None:
    if not text.strip():
        return
    if title:
        _heading(page, title)
    page.append(" ".join(text.split()) + "\n\n")


def _bullets(page: Text, title: str, items: tuple[str, ...]) -> None:
    if not items:
        return
    _heading(page, title)
    for item in items:
        page.append(f"{MARGIN}• {' '.join(item.split())}\n")
    page.append("\n")


def _missing(page: Text, view_state: ViewState, styles: Roles) -> None:
    check = view_state.checks.get(view_state.task_id)
    if check is None:
        return
    _heading(
        page,
        {"done": "Done", "stale": "Stale"}.get(check.status, "Progress"),
    )
    for item in check.items:
        page.append(f"{MARGIN}{'✔' if item.met else '○'} ", style=styles.good if item.met else styles.warn)
        page.append(" ".join(item.sentence.split()))
        if item.evidence:
            page.append(f"  [{' '.join(item.evidence.split())}]", style="dim")
        page.append("\n")
    if check.status != "done" and check.missing:
        page.append(f"{MARGIN}{check.missing}\n", style="bold")
    page.append("\n")


def _notes(page: Text, view_state: ViewState) -> None:
    check = view_state.checks.get(view_state.task_id)
    if check is not None and check.notes:
        _bullets(page, "Notes", tuple(check.notes))


def _planned(page: Text, task: Task) -> None:
    if not task.runs:
        return
    _heading(page, "Runs (submit with s)")
    for run in task.runs:
        page.append(f"{MARGIN}• {_run(run)}\n")
    page.append("\n")


def _run(run: RunPlan) -> str:
    if run.form == "mpi":
        many = "GPU" if run.gpus else "process"
        plural = "" if run.processes == 1 else "s" if run.gpus else "es"
        return f"{run.model}, size {run.size}, on {run.processes} {many}{plural}"
    where = "CPU" if run.device == "cpu" else f"{run.gpus} GPU{'s' if run.gpus != 1 else ''}"
    batch = (
        f"batch {run.batch_size:,}"
        if run.device == "cpu"
        else f"global batch {run.batch_size:,} ({run.per_gpu_batch:,} per GPU)"
    )
    return f"{run.model} on {where}, {batch}, {run.epochs} epochs, {run.script}"
