"""The questions of a task and the student's own text, with the numbers and facts that bear on them beside it.

labtui writes no answer. What is typed is stored after a second without typing, when the pane is left, and on quitting;
a file changed by another editor meanwhile is never overwritten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.timer import Timer
from textual.widgets import Static, TextArea
from textual.widgets.text_area import Selection

from labtui.tui.format import NOTHING
from labtui.tui.view import Picture, number_rows

PLACEHOLDER = "<!-- your answer -->"
"""What stands below each question of a new answer file."""

SAVE_AFTER = 1.0


class AnswerDesk(Protocol):
    """Where answers are kept. `save` returns a sentence when it could not keep the text as asked."""

    def load(self, task_id: str) -> str:
        """The Markdown of a task, with its questions as headings."""
        ...

    def save(self, task_id: str, text: str) -> str:
        """Store it atomically; "" when all is well."""
        ...

    def changed_outside(self, task_id: str) -> bool:
        """Whether somebody else wrote the file since it was loaded or saved here."""
        ...


class AnswersPane(Container):
    """Editor and facts."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.desk: AnswerDesk | None = None
        self.report: Callable[[str], None] = lambda sentence: None
        self.stored: Callable[[], None] = lambda: None  # a box may tick by what was just written
        self._task_id = ""
        self._saved = ""
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        """Numbers and facts on one side, the text on the other."""
        with VerticalScroll(id="answer-side", can_focus=False):
            yield Static(Text(""), id="answer-numbers", markup=False)
        with Container(id="answer-main"):
            yield Static(Text(""), id="answer-state", markup=False)
            yield TextArea(id="answer-text", soft_wrap=True, tab_behavior="focus", compact=True)

    @property
    def editor(self) -> TextArea:
        """The student's text."""
        return self.query_one("#answer-text", TextArea)

    def show(self, picture: Picture) -> None:
        """Another task, new numbers, or a file changed by another editor."""
        self.query_one("#answer-numbers", Static).update(_beside(picture))
        if self.desk is None or not picture.task_id or picture.loading:
            return
        other = picture.task_id != self._task_id
        if other:
            self.keep()
        if other or (not self.dirty and self.desk.changed_outside(picture.task_id)):
            self._load(picture.task_id, other=other)
        self.editor.read_only = picture.read_only
        self._show_state()

    def _load(self, task_id: str, *, other: bool) -> None:
        if self.desk is None:
            return
        self._task_id = task_id
        text = self.desk.load(task_id)
        self._saved = text
        place = self.editor.cursor_location
        self.editor.load_text(text)
        self._saved = self.editor.text
        if other:
            self._to_placeholder(-1)
        else:
            self.editor.move_cursor(place)

    def next_question(self) -> None:
        """Go to the next place where an answer is missing, and write there."""
        here = self.editor.cursor_location[0]
        if not self._to_placeholder(here if self.editor.has_focus else here - 1):
            self.report("Every question here has an answer.")
        self.screen.set_focus(self.editor)  # at once: `focus` would come after keys that wait already

    def _to_placeholder(self, after: int) -> bool:
        """Select the next placeholder below line `after`, or the first one: what is typed takes its place."""
        lines = self.editor.text.split("\n")
        places = [number for number, line in enumerate(lines) if line.strip() == PLACEHOLDER]
        if not places:
            return False
        line = next((number for number in places if number > after), places[0])
        self.editor.selection = Selection((line, 0), (line, len(lines[line])))
        return True

    @property
    def dirty(self) -> bool:
        """Whether there is text that is not stored."""
        return bool(self._task_id) and self.editor.text != self._saved

    @on(TextArea.Changed, "#answer-text")
    def _typed(self, event: TextArea.Changed) -> None:
        event.stop()
        if self._timer is not None:
            self._timer.stop()
        if self.dirty:
            self._timer = self.set_timer(SAVE_AFTER, self.keep)
        self._show_state()

    def on_descendant_blur(self) -> None:
        """Leaving the editor stores its text."""
        self.keep()

    def keep(self) -> None:
        """Store what was typed."""
        if self.desk is None or not self.dirty:
            return
        text = self.editor.text
        problem = self.desk.save(self._task_id, text)
        if problem:
            self.report(problem)
        else:
            self._saved = text
            self.stored()
        self._show_state()

    def _show_state(self) -> None:
        state = "not stored yet" if self.dirty else "stored"
        how = (
            "esc leaves the text"
            if self.editor.has_focus
            else "enter writes, ^n next question, e your editor"
        )
        line = Text(f"answers/{self._task_id}.md  ", style="bold").append(
            f"{state}; {how}", style="dim not bold"
        )
        self.query_one("#answer-state", Static).update(line, layout=False)


def _beside(picture: Picture) -> Text:
    """The task's numbers, then the facts that bear on its questions with their sources."""
    text = Text()
    rows = number_rows(picture)
    if rows:
        text.append("Your numbers\n", style="bold underline")
        for row in rows:
            run, epoch, rate, speedup, efficiency = row
            text.append(f"{run}\n", style="bold")
            text.append(f"  {epoch} s, {rate} img/s\n")
            if speedup != NOTHING:
                text.append(f"  speedup {speedup}, {efficiency}\n")
        text.append("\n")
    task = picture.task
    facts = picture.edition.facts_of(task) if picture.edition is not None and task is not None else ()
    if facts:
        text.append("Facts\n", style="bold underline")
    for fact in facts:
        text.append(f"• {' '.join(fact.text.split())}").append(f"  ({fact.source})\n", style="dim")
    if not rows and not facts:
        text.append("Numbers stand here as soon as runs have epochs.", style="dim")
    return text
