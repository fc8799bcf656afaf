"""The questions of a task and the student's own text; beside it what bears on the question the cursor is in.

What stands beside is made anew when the cursor comes to another question or the results change, never by a key press
in a line. labtui writes no answer. What is typed is stored after a second without typing, when the pane is left, and on
quitting; a file changed by another editor meanwhile is never overwritten.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Protocol

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical, VerticalScroll
from textual.timer import Timer
from textual.widgets import Static, TextArea
from textual.widgets.text_area import Selection

from labtui.core.lab.answers import question_of
from labtui.tui import bearing
from labtui.tui.view import Picture
from labtui.tui.widgets.chart import ChartView

PLACEHOLDER = "<!-- your answer -->"
"""What stands below each question of a new answer file."""

SAVE_AFTER = 1.0
WIDE, HIGH = 120, 16
"""From this width of the window and this height of the pane on a chart stands beside the text."""


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


class Facts(VerticalScroll):
    """Facts and numbers. `tab` comes here and arrow keys scroll; `enter` writes, as everywhere in this pane."""

    def key_enter(self) -> None:
        """Write."""
        self.screen.query_one("#answer-text").focus()


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
        self._picture: Picture | None = None
        self._place: tuple[int, int] | None = None  # line of the cursor, lines there are
        self._question: int | None = None
        self._beside: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """Chart, facts and numbers on one side, the text on the other."""
        with Vertical(id="answer-side"):
            yield ChartView(id="answer-chart")
            with Facts(id="answer-facts"):
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
        self._picture = picture
        if self.desk is None or not picture.task_id or picture.loading:
            self._show_beside()
            return
        other = picture.task_id != self._task_id
        if other:
            self.keep()
        if other or (not self.dirty and self.desk.changed_outside(picture.task_id)):
            self._load(picture.task_id, other=other)
        self.editor.read_only = picture.read_only
        self._follow_cursor()
        self._show_beside()
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
        self._place = None
        if other:
            self._to_placeholder(-1)
        else:
            self.editor.move_cursor(place)

    # ------------------------------------------------------------------ what stands beside

    def on_resize(self) -> None:
        """A chart where there is room for one."""
        wide = self.screen.size.width >= WIDE and self.size.height >= HIGH
        self.set_class(wide, "-chart")
        self._show_beside()

    @on(TextArea.SelectionChanged, "#answer-text")
    def _moved(self, event: TextArea.SelectionChanged) -> None:
        event.stop()
        if self._follow_cursor():
            self._show_beside()

    def _follow_cursor(self) -> bool:
        """Look in which question the cursor is, if it went to another line; says whether it is another question."""
        place = (self.editor.cursor_location[0], self.editor.document.line_count)
        if place == self._place or self._picture is None:
            return False
        self._place = place
        task, before = self._picture.task, self._question
        lines = islice(self.editor.document.lines, place[0] + 1)
        self._question = question_of(task, lines) if task is not None else None
        return self._question != before

    def _show_beside(self) -> None:
        picture = self._picture
        if picture is None:
            return
        charted = self.has_class("-chart")
        what = (picture.task_id, self._question, charted)
        shown = (picture.results, picture.charts, picture.edition, what)
        if shown == self._beside:
            return
        other = self._beside[-1:] != (what,)
        self._beside = shown
        text = bearing.text_beside(picture, self._question, charted=charted)
        self.query_one("#answer-numbers", Static).update(text)
        if other:
            self.query_one("#answer-facts").scroll_home(animate=False)
        self._show_chart()

    def _show_chart(self) -> None:
        if self._picture is None or not self.has_class("-chart"):
            return
        chart = bearing.chart_beside(self._picture, self._question)
        view = self.query_one("#answer-chart", ChartView)
        view.set_class(chart is None, "-nothing")
        if view.spec != chart:
            view.spec = chart

    # ------------------------------------------------------------------ the text

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

    def on_descendant_focus(self) -> None:
        """The line above says how to leave the text."""
        self._show_state()

    def on_descendant_blur(self) -> None:
        """Leaving the editor stores its text."""
        self.keep()
        self._show_state()

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
