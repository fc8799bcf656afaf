"""The answers pane: a task's questions as cards with the student's answers, and the facts for the chosen question.

Enter on a card edits its answer alone. The side with facts is repainted when another question is chosen or results
change, never by a key press in the editor. labtui writes no answer. An answer is stored after a second without typing,
when the editor is left, and on quitting; a file that another editor changed meanwhile is never overwritten.
"""

import re
from collections.abc import Sequence
from typing import ClassVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual import app, binding, on, timer
from textual.containers import Container, Vertical, VerticalScroll
from textual.widgets import OptionList, TextArea
from textual.widgets.option_list import Option

from labtui.lab.edition import Fact, Task
from labtui.lab.evidence import one_line, read_sheet, text_above, text_to_edit, with_answer
from labtui.results import charts, cost, numbers, report
from labtui.results.numbers import ABSENT, ACCURACY, TOTAL, percent_text, ratio_text
from labtui.results.rows import tell_rows_apart
from labtui.session.labs import AnswerFiles
from labtui.tui import guidance, view_model
from labtui.tui.themes import Roles, ink, roles
from labtui.tui.view import View
from labtui.tui.widgets.charts_pane import ChartView
from labtui.tui.widgets.frame import Pane, PlainText, key, say, wrap

SAVE_AFTER = 1.0
_PICTURE = re.compile(r"!(\[[^\]\n]*\]\([^)\n]*\))")


class AnswersPane(Pane, Container):
    """Cards, editor and facts; `tab` switches between the two sides instead of going on to the task list."""

    BINDINGS: ClassVar[list[binding.BindingType]] = [
        key("enter", "write_answer", "Write", "edit the chosen answer", show=True, priority=True),
        key("escape", "leave_text", "Back", "leave the answer; it is stored", show=True),
        key("ctrl+n", "screen.next_question", "Next question", "answer the next", show=True, priority=True),
        key("tab,shift+tab", "other_side", "Beside", "go to the facts and numbers, or back"),
    ]

    question = 0
    _asked: Task | None = None
    _text = ""  # the whole file
    _loaded = ""  # the editor's text as last loaded or stored
    _timer: timer.Timer | None = None
    _beside: tuple[object, ...] = ()

    def compose(self) -> app.ComposeResult:
        self.editor = TextArea(id="answer-text", tab_behavior="focus", compact=True, classes="-first")
        with Vertical(id="answer-side"):
            yield ChartView(id="answer-chart")
            with VerticalScroll(id="answer-facts"):
                yield PlainText(id="answer-numbers")
        with Container(id="answer-main"):
            yield OptionList(id="answer-cards", classes="-first")
            with Vertical(id="answer-edit"):
                yield PlainText(id="answer-state")
                yield PlainText(id="answer-question")
                yield self.editor

    @property
    def writing(self) -> bool:
        """Whether the editor is open."""
        return bool(self.query_one("#answer-edit").display)

    def on_mount(self) -> None:
        """Rebuild the cards in the new colours when the theme changes."""
        self.files = AnswerFiles(self.app.session)
        self.app.theme_changed_signal.subscribe(self, lambda _: self._show_cards())

    def show(self, view: View) -> None:
        """Show another task, new results, or an answer file changed by another editor; also before the first layout."""
        if not self.display:
            return
        self.view = view
        task = view.task
        if not view.loading and (self._asked != task or not self.query_one(OptionList).option_count):
            self.action_leave_text()
            self._asked, self.question = task, 0
            self._load()
            self.question = next((at for at, done in enumerate(self._answers()) if not done), 0)
            self._show_cards()
        elif task is not None and not self.dirty and self.files.changed_outside(task.id):
            self._load()
        self.editor.read_only = view.read_only
        self._show_beside()

    def _load(self) -> None:
        task = self._asked
        self._text = self.files.load(task.id) if task is not None else ""
        if task is not None and self.writing:
            self._open_answer(task, keep_place=True)
        self._show_cards()

    # ------------------------------------------------------------------ cards

    def _answers(self) -> list[str]:
        """The answers to the questions of the task; "" for one that is missing."""
        task = self._asked
        return [] if task is None else [text.strip() for text in read_sheet(task, self._text)]

    def _show_cards(self) -> None:
        """Rebuild the cards."""
        task, texts, cards = self._asked, self._answers(), self.query_one(OptionList)
        self._show_state()
        shown = [self._card(task, at, text) for at, text in enumerate(texts)] if task is not None else []
        none = Option(Text("There are no questions here."), disabled=True)
        with self.prevent(OptionList.OptionHighlighted):
            cards.set_options(map(Option, shown) if shown else [none])
            cards.highlighted = self.question if shown else None

    def _card(self, task: Task, index: int, answer: str) -> Group:
        """A card: a question, its answer as Markdown, and what is missing in it."""
        styles, lines = roles(self.app), Table.grid()
        missing = [] if index else [text_above(task, self._text)]
        body: RenderableType = ink("No answer yet. Press enter to write.", styles.quiet)
        if answer:
            from markdown_it import (
                MarkdownIt,
            )  # late: they are slow to import, and at first there are no answers
            from rich.markdown import Markdown

            body = Markdown("", code_theme="ansi_dark" if self.app.current_theme.dark else "ansi_light")
            parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
            # HTML stays text; Rich loses what follows a picture
            body.parsed = parser.parse(_PICTURE.sub(r"🌆 \1", answer))
        if "![" in answer:
            from labtui.export.contents import left_out  # late: few answers name pictures

            missing += left_out(self.app.session.folder, task.id, index + 1, answer)
        mark = ink("✔ " if answer else "○ ", styles.good if answer else styles.quiet)
        mark.append(f"{index + 1}  ", f"bold {styles.busy}")
        lines.add_column()
        lines.add_column(overflow="fold")
        lines.add_row(mark, Text(one_line(task.questions[index].text), "bold"))
        lines.add_row("")
        lines.add_row("", body)
        for line in filter(None, missing):
            lines.add_row("", ink(line, styles.warn))
        return Group(lines, Text(""))

    @on(OptionList.OptionHighlighted, "#answer-cards")
    def _chosen(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self.question = event.option_index
        self._show_beside()

    @on(OptionList.OptionSelected, "#answer-cards")
    def _opened(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_write_answer()

    def why_disabled(self, action: str, parameters: tuple[object, ...]) -> str | None:
        """None (no key) for `leave_text` while the editor is closed, and for `write_answer` while it is open."""
        no_key = self.writing or not self._answers() if action == "write_answer" else not self.writing
        return None if no_key and action in ("write_answer", "leave_text") else ""

    def action_other_side(self) -> None:
        """Switch the focus between the answers and the facts."""
        self.screen.focus_next("AnswersPane *")

    # ------------------------------------------------------------------ the side with facts

    def _show_beside(self) -> None:
        view = self.view
        if self._beside != (asked := (view.task_id, self.question)):
            self._beside = asked
            self.query_one("#answer-facts").scroll_home(animate=False)
        width = self.query_one("#answer-numbers").size.width
        say(self, "#answer-numbers", text_beside(view, self.question, roles(self.app), width or 80))
        chart = chart_beside(view, self.question)
        beside = self.query_one("#answer-chart", ChartView)
        beside.set_class(chart is None, "-nothing")
        beside.show(chart)

    # ------------------------------------------------------------------ the editor

    def action_write_answer(self) -> None:
        """Edit the chosen answer."""
        if (task := self._asked) is None:
            return
        self.query_one("#answer-edit").display = True
        self.query_one(OptionList).display = False
        self._open_answer(task, keep_place=False)
        self.screen.set_focus(self.editor)  # at once: `focus` would act after keys that are already queued

    def _open_answer(self, task: Task, *, keep_place: bool) -> None:
        place = self.editor.cursor_location
        self.editor.load_text(text_to_edit(task, self._text, self.question))
        self._loaded = self.editor.text
        self.editor.move_cursor(place if keep_place else self.editor.document.end)
        say(self, "#answer-question", Text(one_line(task.questions[self.question].text), style="bold"))
        self._show_state()

    def action_leave_text(self) -> None:
        """Store the text and show the cards again."""
        self.save()
        if self.writing:
            self.query_one("#answer-edit").display = False
            cards = self.query_one(OptionList)
            cards.display = True
            self.screen.set_focus(cards)
        self._show_cards()

    def next_question(self) -> bool:
        """Edit the next question without an answer; return False if every question has one."""
        self.save()
        answered = self._answers()
        first = self.question + 1 if self.writing else self.question
        order = [*range(first, len(answered)), *range(first)]
        ahead = next((at for at in order if not answered[at]), None)
        if ahead is None:
            return False
        self.question = ahead
        self._show_beside()
        self.action_write_answer()
        return True

    def next_task(self) -> str | None:
        """The task below this one, else from the first on, that has a question without an answer."""
        tasks = self.view.edition.tasks if self.view.edition is not None else ()
        at = next((at for at, task in enumerate(tasks, 1) if task == self._asked), 0)
        others = (*tasks[at:], *tasks[:at])
        return next((each.id for each in others if not all(read_sheet(each, self.files.load(each.id)))), None)

    @property
    def dirty(self) -> bool:
        """Whether the editor has text that is not stored."""
        return self._asked is not None and self.writing and self.editor.text != self._loaded

    @on(TextArea.Changed, "#answer-text")
    def _typed(self, event: TextArea.Changed) -> None:
        event.stop()
        if self._timer is not None:
            self._timer.stop()
        if self.dirty:
            self._timer = self.set_timer(SAVE_AFTER, self.save)
        self._show_state()

    def save(self) -> None:
        """Store the text, if it has changed."""
        task = self._asked
        if task is None or not self.dirty:
            return
        answer = self.editor.text
        text = with_answer(task, self._text, self.question, answer)
        problem = self.files.save(task.id, text)
        if problem:
            self.app.notify(problem, severity="warning", markup=False)
        else:
            self._text, self._loaded = text, answer
        self._show_state()

    on_descendant_blur = save  # when the editor loses the focus

    def _show_state(self) -> None:
        empty = not self.editor.text.strip()
        state = "not stored yet" if self.dirty else "no answer yet" if empty else "stored"
        text = ink(f"Answer to question {self.question + 1}", "bold")
        say(self, "#answer-state", text.append(f"   {state}", roles(self.app).quiet))


# ------------------------------------------------------------------ chart and facts of a question


def chart_beside(view: View, question: int) -> charts.ChartSpec | None:
    """The edition's chart for the question if it has data, else the first chart of the runs."""
    questions = view.task.questions if view.task is not None else ()
    family = questions[question].chart if question < len(questions) else None
    named = (chart for chart in view.charts if chart.family == family and chart.measured)
    return next(named, None) or view_model.first_chart(view, view.charts)


def text_beside(view: View, question: int, styles: Roles, width: int) -> Text:
    """The text beside a question: its facts, the results of the runs, the task's other facts."""
    text, task = Text(), view.task
    facts = view.edition.facts_of(task) if view.edition is not None and task is not None else ()
    asked = task.questions[question] if task is not None and question < len(task.questions) else None
    named = asked.facts if asked is not None else ()
    bearing = [fact for name in named for fact in facts if fact.id == name]
    others = [fact for fact in facts if fact not in bearing]
    if asked is not None and asked.gains and view.results is not None:
        own = report.scaling_sentences(view.results)
        bearing[:0] = [Fact(id="", text=said, source="Your runs") for said in own]
    text.append_text(_facts(f"For question {question + 1}", bearing, styles, width))
    _numbers(text, view, styles)
    text.append_text(_facts("Other facts of this task", others, styles, width))
    text.rstrip()
    return text


def _facts(title: str, facts: Sequence[Fact], styles: Roles, width: int) -> Text:
    text = ink(f"{title}\n" if facts else "", f"bold {styles.busy}")
    for fact in facts:
        said = fact.text.strip().splitlines()  # of a table, each row
        indent = "  " * (len(said) > 1)
        lines = [line for row in said for line in wrap(row, width, subsequent_indent=indent)]
        text.append("\n".join(lines), styles.soft).append(f"\n({fact.source})\n\n", styles.quiet)
    return text


def _numbers(text: Text, view: View, styles: Roles) -> None:
    """Append the results of each measured configuration."""
    rows = [row for row in view.charted if row.epoch_seconds is not None]
    text.append("Your numbers\n" if rows else "Runs\n", f"bold {styles.busy}")
    # beside an editor keys are letters
    text.append("" if rows else f"{guidance.headline(view).partition(' Press ')[0]}\n")
    for row, label in zip(rows, tell_rows_apart(rows, [row.label for row in rows]), strict=True):
        per, rated = row.configuration.unit, row.throughput is not None
        rate = f", {numbers.rate_text(row.throughput)} {per}/s" if rated else ""
        epoch = f"{numbers.with_uncertainty(row, row.epoch_seconds)} s{rate}"
        time = epoch if row.program is None else numbers.time_text(row)
        text.append(f"{label}{', so far' if row.live else ''}\n", style="bold").append(f"  {time}\n")
        costs = ((TOTAL, "s the whole training"), (cost.GPU_HOURS, "GPU-h of its epochs"))
        for column, unit in ((ACCURACY, "accuracy in validation"), *costs) if row.has_policy else costs:
            if (cell := column.cell(row)) != ABSENT:
                text.append(f"  {cell} {unit}\n")
        if row.speedup is not None and not row.is_baseline:
            text.append(f"  speedup {ratio_text(row.speedup)}, {percent_text(row.efficiency)}\n")
        if row.doubling_gain is not None and rated:
            text.append(f"  {100 * row.doubling_gain.value:+.0f} % {per}/s against half the GPUs\n")
    text.append("\n")
