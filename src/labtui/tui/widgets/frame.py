"""What frames the panes and is painted first: header, title, tasks, next step, the line of messages, keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import HorizontalGroup, Vertical
from textual.events import Click
from textual.geometry import Size
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, OptionList, Static
from textual.widgets._footer import FooterKey
from textual.widgets.option_list import Option

from labtui.domain.model import RunPhase
from labtui.tui import format as words
from labtui.tui.format import PHASE_ROLES
from labtui.tui.guidance import NextStep, next_step
from labtui.tui.messages import TaskChosen
from labtui.tui.themes import Roles, ink, roles
from labtui.tui.view import TaskLine, View, status_line, title_state

if TYPE_CHECKING:
    from textual.app import RenderResult

RAIL = 30
PRACTICE_ROLES = {"online": "good", "offline": "warn", "stale": "warn", "needs-login": "bad"}


def ends(left: Text, right: Text, width: int) -> Text:
    """One line with two ends; the left one is cut where both do not fit."""
    left.no_wrap = True
    left.truncate(max(0, width - right.cell_len - 1), overflow="ellipsis")
    return left.append(" " * max(1, width - left.cell_len - right.cell_len)).append_text(right)


class Slice(Widget):
    """A part of the screen that draws its slice of the view."""

    view: reactive[View | None] = reactive(None, always_update=True)

    def show(self, view: View) -> None:
        self.view = view

    @property
    def step(self) -> NextStep:
        """The next step: the screen's own, where it has one."""
        own: NextStep | None = getattr(self.screen, "step", None)
        return own if own is not None else next_step(self.view) if self.view is not None else NextStep("")


class HeaderBar(Slice):
    """Program and lab; at the right practice, connection, GPU-hours."""

    def render(self) -> RenderResult:
        """Left: program, lab. Right: practice, connection, what was used."""
        styles, view = roles(self.app), self.view
        left = ink(" labtui", f"bold {styles.busy}")
        if view is None:
            return left
        rail = self.screen.has_class("-rail")
        left.append(" " * (RAIL + 2 - left.cell_len) if rail else "  ")
        lab, _, about = (view.edition.title if view.edition is not None else "").partition(":")
        left.append(lab, styles.soft)
        if about and rail:
            left.append(f" · {about.strip()}", styles.soft)
        return ends(left, self._right(view, styles), self.size.width - (2 if rail else 1))

    def _right(self, view: View, styles: Roles) -> Text:
        connection = view.state.connection
        glyph, word = words.connection_label(connection)
        if view.read_only and word == "connecting":  # where one may only look, nothing is tried
            word = "not connected"
        parts = []
        if view.practice:
            pace = f" {view.factor:g}×" if view.factor else ""
            parts.append(ink(f"practice{pace}", styles.warn))
        if view.read_only:
            parts.append(ink("read-only", styles.warn))
        role = PRACTICE_ROLES.get(connection.status if word != "connecting" else "", "quiet")
        parts.append(ink(f"{glyph} {word}", getattr(styles, role)))
        if view.gpu_hours is not None:
            parts.append(ink(f"{view.gpu_hours:.2f} GPU-h", styles.soft))
        return Text("   ").join(parts)


class TitleBar(Slice):
    """The task on the screen, and at the right its state with its age."""

    def render(self) -> RenderResult:
        styles, view = roles(self.app), self.view
        row = view.task_line if view is not None else None
        if view is None or row is None:
            return Text("")
        left = ink(row.task_id, f"bold {styles.busy}").append(f"  {row.title}", f"bold {self._plain}")
        phase, word, rest = title_state(view)
        sign = words.PHASE_GLYPHS[phase] if isinstance(phase, RunPhase) else words.TASK_GLYPHS.get(phase, "○")
        right = ink(f"{sign} {word}", getattr(styles, PHASE_ROLES.get(phase, "soft")))
        return ends(left, right.append(f" {rest}" if rest else "", styles.soft), self.size.width)

    @property
    def _plain(self) -> str:
        return str(self.app.current_theme.foreground)


def task_text(row: TaskLine, view: View, styles: Roles, width: int) -> Text:
    """Glyph, number and title, and at the right what is under way or failed; on a wide line the three counts."""
    current = row.task_id == view.task_id
    role = getattr(styles, PHASE_ROLES.get(row.live or row.status, ""), styles.quiet)
    left = ink("▌" if current else " ", styles.busy).append(f" {row.sign} ", role)
    left.append(f"{row.task_id} ", "bold" if current else styles.soft)
    left.append(row.title, "bold" if current else "" if row.status == "done" or row.live else styles.soft)
    right = ink(f"{row.word} " if row.live else "", role)
    if width >= 60:
        cells = (view.count(kind, row.task_id) for kind in ("runs", "charts", "answers"))
        for count in cells:
            full = count.of and count.done == count.of
            right.append(f"{str(count) or words.NOTHING:>9}", styles.good if full else styles.quiet)
        right.append(" ")
    return ends(left, right, width) if width else left


class TaskList(OptionList):
    """All tasks; the cursor is the task on the screen. Rows are replaced one by one, so the cursor stays."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, compact=True)
        self._ids: list[str] = []
        self._current = ""
        self._shown: tuple[object, ...] = ()
        self._view: View | None = None

    def show(self, view: View) -> None:
        self._view = view
        rows, width, styles = view.tasks, self.size.width, roles(self.app)
        shown = (rows, view.task_id, width, styles, width >= 60 and view.checks)
        if shown == self._shown:
            return
        ids = [row.task_id for row in rows]
        with self.prevent(OptionList.OptionHighlighted):
            if ids != self._ids:
                self.clear_options()
                self.add_options(Option(task_text(row, view, styles, width), id=row.task_id) for row in rows)
            for index, row in enumerate(rows):
                self.replace_option_prompt_at_index(index, task_text(row, view, styles, width))
                if row.task_id == view.task_id and (view.task_id != self._current or ids != self._ids):
                    self.highlighted = index
        self._ids, self._current, self._shown = ids, view.task_id, shown

    def on_resize(self) -> None:
        """States stand at the right end."""
        if self._view is not None:
            self.show(self._view)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Moving the cursor goes to that task."""
        event.stop()
        if event.option_id and event.option_id != self._current:
            self.post_message(TaskChosen(event.option_id))


class NextStepText(Slice):
    """The next step with its key as a chip and one reason; a click takes it."""

    view: reactive[View | None] = reactive(None, always_update=True, layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return (
            1 if self.has_class("-line") else max(2, len(self._text().wrap(self.app.console, max(8, width))))
        )

    def render(self) -> RenderResult:
        text = self._text()
        if self.has_class("-line"):
            text.no_wrap = True
            text.truncate(max(1, self.size.width), overflow="ellipsis")
        return text

    def _text(self) -> Text:
        if self.view is None:
            return Text("")
        step, styles = self.step, roles(self.app)
        text = Text()
        if step.action:
            text.append(f" {step.key} ", styles.chip).append(" ")
        text.append(step.label, f"bold {self.app.current_theme.foreground}")
        between = "  " if self.has_class("-line") else "\n"
        return text.append(f"{between}{step.reason}" if step.reason else "", styles.soft)

    async def on_click(self) -> None:
        await self.run_action("app.do_next")


class Rail(Vertical):
    """The tasks and the next step."""

    _view: View | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="rail-title", markup=False)
        yield TaskList(id="tasks")
        yield Static(id="about", markup=False)
        yield Static(ink("Next", "bold"), id="next-title", markup=False)
        yield NextStepText(id="next")

    def show(self, view: View) -> None:
        """The list, how many are done, the next step; on a page of its own what the chosen task is for."""
        self._view = view
        styles = roles(self.app)
        done = f"{view.progress.done} of {view.progress.of}" if view.progress else ""
        wide = self.size.width >= 60
        right = Text(f"{'Runs':>9}{'Charts':>9}{'Answers':>9}" if wide else done, styles.quiet)
        self.query_one("#rail-title", Static).update(
            ends(
                ink("Tasks", "bold").append(f"   {done}" if wide else "", styles.quiet),
                right,
                max(8, self.size.width - 4),
            )
        )
        self.query_one(TaskList).show(view)
        self.query_one("#next", NextStepText).show(view)
        text = " ".join(view.task.what.split()) if wide and view.task is not None else ""
        self.query_one("#about", Static).update(ink(text, styles.soft))

    def on_resize(self) -> None:
        """The columns and the purpose depend on the width, which is known only once the rail is shown."""
        if self._view is not None:
            self.show(self._view)


class NoteLine(Slice):
    """The one line above the keys: what is wrong, else what is being made, else what waits; it never moves the rest."""

    work: reactive[str] = reactive("")

    def render(self) -> RenderResult:
        if self.view is None:
            return Text("")
        styles = roles(self.app)
        severity, text = status_line(self.view)
        if not severity and self.work:
            text = self.work
        role = {"error": styles.bad, "warning": styles.warn}.get(severity, styles.soft)
        line = ink(f"{'! ' if severity else ''}{text}", role, no_wrap=True)
        if not text and not self.screen.has_class("-rail"):
            return self._step(styles)
        line.truncate(max(1, self.size.width), overflow="ellipsis")
        return line

    def _step(self, styles: Roles) -> Text:
        """On narrow screens the next step stands here while there is nothing else to say."""
        step = self.step
        line = Text(no_wrap=True).append(f" {step.key} " if step.action else "", styles.chip)
        line.append(f" {step.label}", "bold").append(f"  {step.reason}", styles.soft)
        line.truncate(max(1, self.size.width), overflow="ellipsis")
        return line

    async def on_click(self, event: Click) -> None:
        severity = status_line(self.view)[0] if self.view is not None else ""
        await self.run_action("app.problems" if severity == "error" else "app.do_next")


class Foot(Footer):
    """Textual's footer: at most seven keys that act here; the next step, the palette and help at the right."""

    RIGHT = ("do_next", "palette", "help")
    MAX_KEYS = 7

    def __init__(self) -> None:
        super().__init__(show_command_palette=False, compact=True)
        self._shown: list[object] = []

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Make the keys anew only where others are to be shown: this is called with each new view."""
        shown = [self.app.size.width, *(key for key in screen.active_bindings.values() if key.binding.show)]
        if screen.app.app_focus and shown != self._shown:
            super().bindings_changed(screen)
            self._shown = shown

    def compose(self) -> ComposeResult:
        keys = [each for each in super().compose() if isinstance(each, FooterKey)]
        right = sorted((k for k in keys if k.action in self.RIGHT), key=lambda k: self.RIGHT.index(k.action))
        if self.app.size.width < 110:
            right = [each for each in right if each.action != "palette"]
        room = self.app.size.width - _cells(right) - 3
        left: list[FooterKey] = []
        for each in [k for k in keys if k.action not in self.RIGHT][: self.MAX_KEYS]:
            if _cells([*left, each]) <= room:
                left.append(each)
        yield from left
        yield HorizontalGroup(*right, classes="foot-right")


def _cells(keys: Iterable[FooterKey]) -> int:
    return sum(len(each.key_display) + len(each.description) + 3 for each in keys)
