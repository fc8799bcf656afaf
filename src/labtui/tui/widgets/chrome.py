"""Tabs, waiting line, problem lines and the bottom line of keys."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text
from textual.events import Click
from textual.reactive import reactive
from textual.widget import Widget

from labtui.core.state import Problem
from labtui.tui.actions import Action
from labtui.tui.messages import PaneAsked
from labtui.tui.widgets.keyline import Keys

PANES: tuple[tuple[str, str], ...] = (
    ("task", "Task"),
    ("runs", "Runs"),
    ("log", "Log"),
    ("charts", "Charts"),
    ("answers", "Answers"),
)


class TabBar(Widget):
    """[T]ask [R]uns [L]og [C]harts [A]nswers."""

    DEFAULT_CSS = """
    TabBar { height: 1; }
    """
    current: reactive[str] = reactive("task")

    def render(self) -> Text:
        """The key is underlined, the current tab reversed."""
        text = Text(" ", no_wrap=True)
        for name, title in PANES:
            style = Style(reverse=name == self.current, bold=name == self.current, meta={"pane": name})
            text.append(" ", style)
            text.append(title[0], style + Style(underline=True))
            text.append(f"{title[1:]} ", style)
            text.append(" ")
        return text

    def on_click(self, event: Click) -> None:
        """A click on a tab shows its pane."""
        if name := event.style.meta.get("pane"):
            self.post_message(PaneAsked(name))


class OneLine(Widget):
    """A line of text that takes no room when it is empty."""

    DEFAULT_CSS = """
    OneLine { height: 1; }
    OneLine.-empty { display: none; }
    """
    text: reactive[str] = reactive("")

    def on_mount(self) -> None:
        """Empty lines are hidden from the start."""
        self.set_class(not self.text, "-empty")

    def watch_text(self, text: str) -> None:
        """Show or hide."""
        self.set_class(not text, "-empty")

    def render(self) -> Text:
        """The text, cut at the end of the line."""
        line = Text(f" {self.text}", no_wrap=True)
        line.truncate(max(1, self.size.width), overflow="ellipsis")
        return line


class ProblemLines(Widget):
    """Errors that are not over: the newest two, each with its hint."""

    DEFAULT_CSS = """
    ProblemLines { height: auto; max-height: 4; }
    ProblemLines.-empty { display: none; }
    """
    problems: reactive[tuple[Problem, ...]] = reactive((), layout=True)

    def on_mount(self) -> None:
        """Hidden while nothing is wrong."""
        self.set_class(not self.problems, "-empty")

    def watch_problems(self, problems: tuple[Problem, ...]) -> None:
        """Show or hide."""
        self.set_class(not problems, "-empty")

    def render(self) -> Text:
        """Sentence and hint; more are counted."""
        lines: list[Text] = []
        for problem in self.problems[-2:]:
            line = Text(" ! ", style="bold").append(problem.sentence, style="bold")
            if problem.hint:
                line.append(f" {problem.hint}", style="not bold")
            lines.append(line)
        more = len(self.problems) - 2
        if more > 0:
            lines.append(Text(f"   and {more} more, see them with !", style="dim"))
        return Text("\n").join(lines)

    async def on_click(self) -> None:
        """A click shows them all."""
        await self.run_action("app.problems")


class KeyLine(Keys):
    """The bottom line: the few keys that matter here, clickable."""

    DEFAULT_CSS = """
    KeyLine { height: 1; dock: bottom; }
    """
    actions: reactive[tuple[Action, ...]] = reactive(())

    def show(self, actions: Sequence[Action]) -> None:
        """Other keys."""
        self.actions = tuple(actions)

    def render(self) -> Text:
        """Key in bold, then its label; help and palette stay last and are never cut on a main screen.

        Over a main screen, where one goes back first, leaving the program and the palette make room for its own keys.
        """
        always = [action for action in self.actions if action.name in {"back", "palette", "help", "leave"}]
        if (
            any(action.name == "back" for action in always)
            and self._line(self.actions).cell_len > self.size.width
        ):
            always = [action for action in always if action.name in {"back", "help"}]
        others = [a for a in self.actions if a.name not in {"back", "palette", "help", "leave"}]
        right = self._line(always)
        while others and self._line(others).cell_len + right.cell_len > self.size.width:
            others.pop()
        left = self._line(others)
        left.append(" " * max(0, self.size.width - left.cell_len - right.cell_len))
        return left.append_text(right)

    def _line(self, actions: Sequence[Action]) -> Text:
        text = self.key_text((action.key_label, action.label, action.name) for action in actions)
        text.no_wrap = True
        return text
