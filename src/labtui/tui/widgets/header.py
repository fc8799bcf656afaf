"""The lines on top, part of the first frame: lab and connection, and the folded task list with the next step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.events import Click
from textual.reactive import reactive
from textual.widget import Widget

from labtui.tui import actions
from labtui.tui import format as words
from labtui.tui.guidance import next_step
from labtui.tui.messages import ActionAsked
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
        if view_state.replay:
            text.append(" replay ", style=self._style("header--chip"))
        else:
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


STATUS_ROLES = {"done": "good", "partial": "warn", "stale": "stale"}


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
        text.append(f" {action.label}  ", Style.parse(f"bold {styles.busy}") + meta)
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
