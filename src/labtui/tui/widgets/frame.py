"""What frames the panes and is painted first.

Lab and connection, the folded task list with the next step, tabs, problems, messages, keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from rich.style import Style
from rich.table import Table
from rich.text import Text
from textual.events import Click
from textual.notifications import Notification
from textual.reactive import reactive
from textual.widget import Widget

from labtui.domain.events import Problem
from labtui.tui import actions
from labtui.tui import format as words
from labtui.tui.actions import Action
from labtui.tui.guidance import next_step
from labtui.tui.messages import ActionAsked, PaneAsked
from labtui.tui.themes import Roles, roles
from labtui.tui.view import TaskRow, ViewState, progress, task_rows

_STYLES = {
    "online": "header--good",
    "connecting": "header--quiet",
    "stale": "header--warn",
    "offline": "header--warn",
    "needs-login": "header--bad",
}
_SLACK = 1
"""Cells kept free, so that the line keeps its form when "9 s ago" becomes "10 s ago"."""


class HeaderBar(Widget):
    """One line; says less on narrow screens."""

    DEFAULT_CSS = """
    HeaderBar { height: 1; dock: top; background: $panel; color: $foreground; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"header--{part}" for part in ("good", "warn", "bad", "quiet", "name", "chip")
    }
    view_state: reactive[ViewState | None] = reactive(None, always_update=True)

    def render(self) -> Text:
        """Left: lab. Middle: where. Right: connection, age, cost. The fullest form that fits."""
        view_state = self.view_state
        if view_state is None:
            return Text(" labtui", style=self._style("header--name"))
        width = self.size.width
        for left, right in self._forms(view_state, short=width < 100):
            gap = width - left.cell_len - right.cell_len - 1
            if gap > _SLACK:
                return left.append(" " * gap).append_text(right)
        left.truncate(max(1, width - right.cell_len - 2), overflow="ellipsis")
        left.append(" " * max(1, width - left.cell_len - right.cell_len - 1))
        return left.append_text(right)

    def _forms(self, view_state: ViewState, *, short: bool) -> Iterator[tuple[Text, Text]]:
        """Left and right side, each time with less: cluster, program, speed of the rehearsal, account go in turn.

        A rehearsal's badge on the right says which cluster it is, so that its name does not stand there twice.
        """
        title = (
            view_state.edition.title
            if view_state.edition is not None
            else ""
            if view_state.loading
            else "lab"
        )
        lab = title.split(":")[0]
        cluster = "" if view_state.practice else view_state.cluster
        where, own = (cluster, view_state.account, view_state.qos), (view_state.account, view_state.qos)
        right = self._right(view_state, short=short)
        yield self._left(title, where, gap="   "), right
        yield self._left(lab, where), right
        yield self._left(lab, own), right
        yield self._left(lab, own, name=False), right
        right = self._right(view_state, short=short, speed=False)
        yield self._left(lab, own, name=False), right
        yield self._left(lab, (view_state.qos,), name=False), right

    def _left(self, lab: str, where: Iterable[str], *, name: bool = True, gap: str = "  ") -> Text:
        text = Text(" ", no_wrap=True)
        if name:
            text.append("labtui", style=self._style("header--name")).append("  ")
        place = " · ".join(part for part in where if part)
        return text.append(lab).append(gap if place else "").append(place, style=self._style("header--quiet"))

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(name, partial=True)

    def _right(self, view_state: ViewState, *, short: bool, speed: bool = True) -> Text:
        connection = view_state.state.connection
        glyph, word = words.connection_label(connection, reader=view_state.read_only)
        text = Text()
        if view_state.practice:
            pace = f"{view_state.factor:g} x " if view_state.factor and speed else ""
            text.append(f" practice {pace}".replace(" x ", "× "), style=self._style("header--chip")).append(
                "  "
            )
        if view_state.read_only:
            text.append(" read-only ", style=self._style("header--chip")).append("  ")
        shown = words.connection_status(connection)
        text.append(f"{glyph} {word}", style=self._style(_STYLES.get(shown, "header--quiet")))
        text.append(_age(view_state, short=short))
        if view_state.gpu_hours is not None:
            used = "" if short else " used"
            text.append(f"{'  ' if short else '   '}{view_state.gpu_hours:.2f} GPU-h{used}")
        return text


_NOW_S = 60.0
"""So long an answer of the queue passes for now; nobody asks it while no job is known to live."""


def _age(view_state: ViewState, *, short: bool) -> str:
    """How old the queue's answer is. "No jobs" is what it said then: one sent elsewhere may have come since."""
    state = view_state.state
    if state.refreshed_at is None:
        return ""
    seconds = view_state.now - state.refreshed_at
    ago = words.age(seconds)
    if state.connection.status == "online":  # the first paint comes before that and imports nothing for it
        from labtui.slurm.job_evidence import live

        if not live(state):
            others = len(state.other_jobs)
            if others:
                return f", {others} other job{'s' * (others != 1)}, {ago}"
            if seconds < _NOW_S:
                return ", no jobs"
            ago = words.age(seconds // 60 * 60)
            return f", {ago}" if short else f", no jobs {ago}"
    return f", {ago}"


STATUS_ROLES = {"done": "good", "partial": "busy", "stale": "warn"}


def task_text(row: TaskRow, roles: Roles, *, current: bool = False, width: int = 0) -> Text:
    """Glyph, number and title; the state's word stands there too where it is not plain."""
    style = getattr(roles, STATUS_ROLES.get(row.status, ""), "")
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{row.glyph} ", style=style)
    word = row.word if row.live or row.status == "stale" else ""
    name = Text(f"{row.task_id} {row.title}", style="bold" if current else "")
    if width:
        name.truncate(max(8, width - 2 - (len(word) + 1 if word else 0)), overflow="ellipsis")
    text.append_text(name)
    if word:
        text.append(f" {word}", style=roles.busy if row.live == "running" else roles.quiet)
    return text


def next_text(view_state: ViewState, styles: Roles) -> Text:
    """The next step: its key first, then what it does and why."""
    step = next_step(view_state)
    text = Text()
    action = actions.named(step.action)
    if action is not None:
        meta = Style(meta={"action_name": action.name})
        text.append(f" {action.key_label} ", Style.parse(f"bold reverse {styles.busy}") + meta)
        text.append(f" {step.label}  ", Style.parse(f"bold {styles.busy}") + meta)
    return text.append(step.sentence)


class TaskLine(Widget):
    """The folded task list: this task, how many are done, how to reach the others."""

    DEFAULT_CSS = """
    TaskLine { height: 2; }
    """
    view_state: reactive[ViewState | None] = reactive(None)

    def render(self) -> Text:
        """This task; and, where there is room for a second line, what to do next."""
        view_state = self.view_state
        if view_state is None:
            return Text("")
        row = next((row for row in task_rows(view_state) if row.task_id == view_state.task_id), None)
        counted = progress(view_state)
        done = f"{counted[0]} of {counted[1]} done  " if counted else ""
        right = Text(f"{done}g tasks  [ ] step", style=roles(self.app).quiet)
        left = Text(" ")
        left.append_text(
            task_text(row, roles(self.app), current=True) if row is not None else Text("no task")
        )
        left.truncate(max(1, self.size.width - right.cell_len - 2), overflow="ellipsis")
        left.append(" " * max(1, self.size.width - left.cell_len - right.cell_len - 1))
        line = left.append_text(right)
        if self.size.height < 2:
            return line
        step = Text(" ", no_wrap=True).append_text(next_text(view_state, roles(self.app)))
        step.truncate(max(1, self.size.width - 1), overflow="ellipsis")
        return Text("\n").join([line, step])

    async def on_click(self, event: Click) -> None:
        """A click on the next step takes it; elsewhere it opens the list."""
        if name := event.style.meta.get("action_name"):
            self.post_message(ActionAsked(name))
        else:
            await self.run_action("screen.task_list")


Key = tuple[str, str, str]
"""How a key is written, what it does in a word or two, and the name of its action."""


class Keys(Widget, can_focus=False):
    """Each key, in bold, with its words; a click on either posts `ActionAsked`: the screen does what the key does."""

    COMPONENT_CLASSES = {"keys--key"}  # noqa: RUF012

    def key_text(self, keys: Iterable[Key]) -> Text:
        """The keys as text whose cells know their action."""
        key_style = self.get_component_rich_style("keys--key", partial=True)
        text = Text("")
        for key, label, action in keys:
            meta = Style(meta={"action_name": action})
            text.append(" ").append(key, key_style + meta).append(f" {label} ", meta)
        return text

    def on_click(self, event: Click) -> None:
        if name := event.style.meta.get("action_name"):
            event.stop()
            self.post_message(ActionAsked(name))


PANES: tuple[tuple[str, str], ...] = (
    ("task", "Task"),
    ("runs", "Runs"),
    ("log", "Log"),
    ("charts", "Charts"),
    ("answers", "Answers"),
)
_SIGNS = {"information": "✔", "warning": "!", "error": "✘"}


class TabBar(Widget):
    """Task, Runs, Log, Charts, Answers: the letter in colour is the key, the current one is underlined."""

    DEFAULT_CSS = """
    TabBar { height: 2; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"tabs--key", "tabs--current", "tabs--rule", "tabs--badge"}
    current: reactive[str] = reactive("task")
    badges: reactive[Mapping[str, str]] = reactive(dict, always_update=False)

    def render(self) -> Text:
        """Names, and below them a rule that is strong under the current one where there is a second line."""
        key, current, rule, quiet = (
            self.get_component_rich_style(f"tabs--{part}", partial=True)
            for part in ("key", "current", "rule", "badge")
        )
        names, line = Text(" ", no_wrap=True), Text(" ", style=rule, no_wrap=True)
        for name, title in PANES:
            here, meta = name == self.current, Style(meta={"pane": name})
            flat = Style(underline=self.size.height < 2) if here else Style()
            style = (current + flat if here else Style()) + meta
            badge = self.badges.get(name, "")
            names.append(title[0], key + style).append(title[1:], style)
            names.append(f" {badge}" if badge else "", quiet + meta).append("   ")
            width = len(title) + (len(badge) + 1 if badge else 0)
            line.append(("━" if here else "─") * width, current if here else rule).append("───", rule)
        if self.size.height < 2:
            return names
        line.append("─" * max(0, self.size.width - line.cell_len), rule)
        line.truncate(self.size.width)
        return Text("\n").join([names, line])

    def places(self) -> dict[str, int]:
        """The column where each tab begins."""
        columns, at = {}, 1
        for name, title in PANES:
            columns[name] = at
            badge = self.badges.get(name, "")
            at += len(title) + (len(badge) + 1 if badge else 0) + 3
        return columns

    def on_click(self, event: Click) -> None:
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
            lines.append(Text(f"   and {more} more (!)"))
        return Text("\n").join(lines)

    async def on_click(self) -> None:
        await self.run_action("app.problems")


class MessageLines(Widget):
    """What just happened, above the keys and never over what one reads: the newest two, equal ones merged."""

    DEFAULT_CSS = """
    MessageLines { height: auto; max-height: 5; background: $surface; }
    MessageLines.-empty { display: none; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"messages--information", "messages--warning", "messages--error"}
    shown: reactive[tuple[Notification, ...]] = reactive((), layout=True)

    def on_mount(self) -> None:
        self.set_class(True, "-empty")
        self.set_interval(0.5, self._drop_old)

    def take(self, notifications: Iterable[Notification]) -> None:
        """Show these, each text once, the newest two."""
        merged = {(each.title, each.message): each for each in notifications}
        self.shown = tuple(merged.values())[-2:]
        self.set_class(not self.shown, "-empty")

    def _drop_old(self) -> None:
        if any(each.has_expired for each in self.shown):
            self.take(each for each in self.shown if not each.has_expired)

    def render(self) -> Table:
        """Sign, title and text of each; further lines below the first word."""
        lines = Table.grid()
        lines.add_column(width=3)
        lines.add_column()
        for each in self.shown:
            style = self.get_component_rich_style(f"messages--{each.severity}", partial=True)
            text = Text(f"{each.title} " if each.title else "", style).append(each.message, style)
            lines.add_row(Text(f" {_SIGNS[each.severity]}", style), text)
        return lines

    def on_click(self) -> None:
        """A click takes them away."""
        self.take(())


class KeyLine(Keys):
    """The bottom line: the few keys that matter here, clickable."""

    DEFAULT_CSS = """
    KeyLine { height: 1; dock: bottom; }
    """
    actions: reactive[tuple[Action, ...]] = reactive(())

    def show(self, shown: Sequence[Action]) -> None:
        self.actions = tuple(shown)

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

    def _line(self, shown: Sequence[Action]) -> Text:
        text = self.key_text((action.key_label, action.label, action.name) for action in shown)
        text.no_wrap = True
        return text
