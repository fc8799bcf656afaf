"""The task in words: what to do, why, the planned runs, files, questions, and what is still missing."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from labtui.core.lab.edition import RunPlan, Task
from labtui.tui.themes import Roles, roles
from labtui.tui.view import Picture, spent_words

MARGIN = "  "


class TaskPane(VerticalScroll):
    """One scrolling page; it is rebuilt only when its text changes, so the reader's place is kept."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._page = Static(Text(""), markup=False)
        self._shown: tuple[str, str] | None = None

    def compose(self) -> ComposeResult:
        """The page."""
        yield self._page

    def show(self, picture: Picture) -> None:
        """Bring the page up to date."""
        page = task_page(picture, roles(self.app))
        key = (picture.task_id, page.markup)
        if key == self._shown:
            return
        other_task = self._shown is None or self._shown[0] != picture.task_id
        self._shown = key
        self._page.update(page)
        if other_task:
            self.scroll_home(animate=False)


def task_page(picture: Picture, styles: Roles) -> Text:
    """The whole page as text."""
    task = picture.task
    if task is None and picture.loading:
        return Text("")
    if task is None:
        return Text(
            "This lab's edition could not be read, so there is no task text here.\nRuns, logs and charts work as ever."
        )
    page = Text()
    page.append(f"{task.id}  {task.title}", style="bold")
    if task.weight:
        page.append(f"   {task.weight:g} % of the mark", style="dim")
    page.append("\n")
    if spent := spent_words(picture):
        page.append(f"{spent}\n")
    page.append("\n")
    _paragraph(page, "", task.what)
    _paragraph(page, "Why", task.why)
    _missing(page, picture, styles)
    _bullets(page, "Hints", task.hints)
    _planned(page, task)
    _bullets(page, "Files", tuple(f"scripts/{name}" for name in task.files))
    _bullets(page, "Questions (answer them with a)", tuple(question.text for question in task.questions))
    _bullets(page, "To hand in", task.deliverables)
    _notes(page, picture)
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


def _missing(page: Text, picture: Picture, styles: Roles) -> None:
    check = picture.checks.get(picture.task_id)
    if check is None:
        return
    _heading(
        page,
        {"done": "Done, because", "stale": "Stale: its script changed since"}.get(
            check.status, "What is there, what is missing"
        ),
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


def _notes(page: Text, picture: Picture) -> None:
    check = picture.checks.get(picture.task_id)
    if check is not None and check.notes:
        _bullets(page, "Worth a look", tuple(check.notes))


def _planned(page: Text, task: Task) -> None:
    if not task.runs:
        return
    _heading(page, "Runs (submit them with s)")
    for run in task.runs:
        page.append(f"{MARGIN}• {_run(run)}\n")
    page.append("\n")


def _run(run: RunPlan) -> str:
    where = "CPU" if run.device == "cpu" else f"{run.gpus} GPU{'s' if run.gpus != 1 else ''}"
    batch = (
        f"batch {run.batch_size}"
        if run.device == "cpu"
        else f"global batch {run.batch_size} ({run.per_gpu_batch} per GPU)"
    )
    return f"{run.model} on {where}, {batch}, {run.epochs} epochs, {run.script}"
