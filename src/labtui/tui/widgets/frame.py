"""The frame around the panes, painted first: header, title bar, task list, next step, note line, footer."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace
from rich.style import Style
from rich.text import Text
from textual import reactive, widget
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, HorizontalGroup, Vertical
from textual.screen import Screen
from textual.widgets import Footer, OptionList, Static, option_list
from textual.widgets._footer import FooterKey

from labtui.domain.terminal_text import joined
from labtui.tui import format as words
from labtui.tui.guidance import NextStep, next_step, status_line, title_remark
from labtui.tui.themes import Roles, ink, roles
from labtui.tui.view import NO_VIEW, TaskLine, View

if TYPE_CHECKING:
    from textual.dom import DOMNode

    from labtui.lab.edition import Task
    from labtui.tui.app import LabApp

COUNTS = {"runs": "     Runs", "charts": "  Exported", "answers": "  Answers"}
"""The counts of a task in a wide list, and the heads above them."""


def left_right(left: Text, right: Text, width: int, gap: int = 1) -> Text:
    """One line with a text at each end, at least `gap` cells apart; the left one is cut if both do not fit."""
    left.no_wrap = True
    left.truncate(max(0, width - right.cell_len - gap), overflow="ellipsis")
    return left.append(" " * max(1, width - left.cell_len - right.cell_len)).append_text(right)


def sentences(text: str, width: int, lines: int = 1, more: str = "") -> str:
    """The first sentences that fit, then `more` if others do not, or words of the first: a key is whole or absent."""
    end = ""
    while len(wrap(text + end, max(2, width), break_on_hyphens=False)) > lines and ". " in text:
        text, end = f"{text.rpartition('. ')[0]}.", more
    return " ".join(
        wrap(text + end, max(2, width), break_on_hyphens=False, max_lines=lines, placeholder=" …")
    )


def wrap(text: str, width: int, **how: Any) -> list[str]:
    """The lines of a text, as `textwrap.wrap` makes them; a number and its unit stay on one line."""
    return [line.replace("\u00a0", " ") for line in textwrap.wrap(joined(text), width, **how)]


def appearance(cell: object) -> object:
    """A key that is equal for texts that look alike. Rich's own comparison ignores a text's base style."""
    return (cell.plain, cell.style, *cell.spans) if isinstance(cell, Text) else cell


Content = Text | Callable[[Roles, int], Text]
"""A text, or a function that makes it for the theme and a width."""


class PlainText(Static):
    """A text, never markup, that is laid out and painted again only when it looks different.

    A text that fills its width is said as a function, which is called whenever the widget is painted.
    """

    auto_links = reactive.var(False)  # no line below words that can be clicked
    _said: Content = Text("")
    _seen: object = None

    def render(self) -> Text:
        return self._said(roles(self.app), self.size.width) if callable(self._said) else self._said

    def say(self, said: Content) -> None:
        self._said = said
        if callable(said) and not self.size.width:
            return  # it is made once it is laid out
        if (seen := appearance(self.render())) != self._seen:
            self._seen = seen
            self.refresh(layout=self.styles.auto_dimensions)


def clickable(action: str, style: str) -> Style:
    """A style for words that run an action when they are clicked; Textual does that."""
    return Style.parse(style) + Style(meta={"@click": action})


def say(node: DOMNode, part: str, said: Content) -> None:
    """Set the text of the `PlainText` below `node` that the selector `part` matches."""
    node.query_one(part, PlainText).say(said)


def key(
    keys: str, action: str, label: str, help: str, *, show: bool = False, priority: bool = False
) -> Binding:
    """A Textual binding. `show` puts it into the footer; the help page and the palette list those with a tooltip.

    `priority`: its action is finished before the next key is handled.
    """
    shown = "enter" if keys.startswith("enter") else None  # not every font has Textual's glyph for it
    return Binding(keys, action, label, show, shown, priority=priority, tooltip=help)


class ActionWidget(widget.Widget):
    """A widget with actions that may be disabled for the moment, each with a reason."""

    app: LabApp
    view: View = NO_VIEW  # as it was shown last

    def why_disabled(self, action: str, parameters: tuple[object, ...]) -> str | None:
        """Why an action is disabled now; "" if it is enabled, None if it makes no sense here and has no key."""
        return ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """As Textual asks: True if enabled, None if disabled with a reason, False if the key is hidden."""
        if self.why_disabled(action, parameters) is None:
            return False
        return None if self.app.why_refused(self, action, parameters) else True


class Pane(ActionWidget):
    """A pane of the main screen: it paints the view once it has a size, and again at another size."""

    def show(self, view: View) -> None:
        self.view = view
        if self.display and self.size.width:
            self.paint(view)

    def paint(self, view: View) -> None:
        """Paint a view; each pane has its own way."""

    def on_resize(self) -> None:
        """Repaint at the new size."""
        self.show(self.view)


def lab_state(view: View, styles: Roles) -> Text:
    """What the header says at the right: practice, connection and GPU-hours."""
    glyph, word, role = words.connection_label(view)
    pace = f" {view.factor:g}×" if view.factor else ""
    parts = [ink(f"practice{pace}", styles.warn)] if view.practice else []
    parts += [ink("read-only", styles.warn)] if view.read_only else []
    parts.append(ink(f"{glyph} {word}", getattr(styles, role)))
    if (hours := words.gpu_hours(view)) >= 0.005:
        of = "trainings" if view.state.rehearsed else "jobs"
        parts.append(ink(f"{hours:.2f} GPU-h of {of}", styles.soft))
    return Text("   ").join(parts)


def task_text(row: TaskLine, view: View, styles: Roles, width: int, lines: int = 1) -> Text:
    """Glyph, number and title of a task, and at the right what is in progress or failed; if wide, also three counts.

    A title takes up to `lines` lines; what does not fit is cut.
    """
    current = row.task_id == view.task_id
    mark = "▌" if current else " "
    role = getattr(styles, row.role or "quiet")
    left = ink(mark, styles.busy).append(f" {row.sign} ", role)
    left.append(f"{row.task_id} ".lstrip(), "bold" if current else styles.soft)
    right = ink(f"{row.word} " if row.live else "", role)
    if width >= 60:
        for kind, head in COUNTS.items():
            count = view.count(kind, row.task_id)
            said = "outdated" if count.stale else str(count) or words.NOTHING
            right.append(said.rjust(len(head)), styles.good if count.full else styles.quiet)
        right.append("  ")
    style = "bold" if current else "" if row.status == "done" or row.live else styles.soft
    indent = left.cell_len
    if width < 60 and len(row.title) <= width - indent - 1 < len(row.title) + right.cell_len:
        right = ink("", role)  # the glyph and the title bar say it, too
    room, taken = max(8 + right.cell_len, width - indent - 1), " " * right.cell_len
    free = room - (right.cell_len if width >= 60 else 0)  # a state takes no line more
    lines = min(lines, len(textwrap.wrap(row.title, free)) or 1)
    wrapped = textwrap.wrap(row.title, room, initial_indent=taken, max_lines=lines, placeholder="…")
    first, *more = wrapped or [taken]
    text = left_right(left.append(first[len(taken) :], style), right, width or 80)
    for each in more:
        text.append(f"\n{mark}", styles.busy).append(f"{each:>{indent - 1 + len(each)}}", style)
    return text


class TaskList(OptionList):
    """The task list; the highlighted option is the current task."""

    screen: FramedScreen
    _shown: tuple[object, ...] = ()

    def show(self, view: View) -> None:
        rows, width, styles = view.tasks, self.size.width, roles(self.app)
        shown = (rows, view.task_id, self.size, styles, width >= 60 and view.checks)
        if shown == self._shown:
            return
        ids = [row.task_id for row in rows]
        texts = [task_text(row, view, styles, width, lines=3) for row in rows]
        if sum(text.plain.count("\n") + 1 for text in texts) > self.size.height:
            texts = [task_text(row, view, styles, width) for row in rows]
        with self.prevent(OptionList.OptionHighlighted):
            self.set_options(option_list.Option(text, id=name) for name, text in zip(ids, texts, strict=True))
            self.highlighted = ids.index(view.task_id) if view.task_id in ids else None
        self._shown = shown

    def on_resize(self) -> None:
        """Lay out the titles for the new width."""
        self.show(self.screen.view)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Select the task that the cursor moved to; a plan that was opened meanwhile is left first."""
        event.stop()
        if event.option_id not in (None, self.screen.view.task_id):
            getattr(self.app.screen, "choose_task", self.screen.choose_task)(event.option_id)


def step_text(step: NextStep, styles: Roles, between: str) -> Text:
    """The key, label and reason of a step; a click takes it."""
    text = Text().append(f" {step.key} " if step.action else "", styles.chip)
    text.append(" " if step.action else "").append(step.label, "bold")
    return text.append(f"{between}{step.reason}" if step.reason else "", styles.soft).on(click="app.do_next")


class KeyFooter(Footer):
    """Textual's footer with the first enabled keys; at the right next step, palette (from 110 columns) and help."""

    app: LabApp
    RIGHT = ("do_next", "command_palette", "page('help')")
    _shown: object = None

    async def on_resize(self) -> None:
        """Show the keys that fit now, in the frame of the new size."""
        if self._shown:
            with self.app.one_frame(self.screen):
                await self.recompose()

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Rebuild the keys only if others are to be shown, because this is called for each new view."""
        shown = [self.app.size.width, *(key for key in screen.active_bindings.values() if key.binding.show)]
        if screen is self.app.screen and screen.app.app_focus and shown != self._shown:
            super().bindings_changed(screen)
            self._shown = shown

    def compose(self) -> ComposeResult:
        """One key for each enabled action. Textual's own `compose` would bind keys to reactives and never free them."""
        bound = self.screen.active_bindings.values() if self._bindings_ready else ()
        shown = [(key, tip) for _, key, enabled, tip in bound if key.show and enabled]
        keys = {}
        for key, tip in {key.action: (key, tip) for key, tip in reversed(shown)}.values():
            both = {"left": "←→", "up": "↑↓"}.get(key.key)
            parts = key.key, both or self.app.get_key_display(key), key.description, key.action
            keys[key.action] = FooterKey(*parts, tooltip=tip, classes="-compact")  # here: else styled twice
        right = [keys.pop(action) for action in self.RIGHT if action in keys]
        left, width = list(keys.values())[::-1], self.app.size.width
        if width < 110:  # without a rail, its key comes first, and "esc Back"
            out = ["command_palette", *("do_next" for each in left if each.key == "escape")]
            right = [each for each in right if each.action not in out]
            left.sort(key=lambda each: each.action != "task_list" and each.key != "escape")
        room, fitting = width - _cells(right) - 3, list[FooterKey]()
        for each in left[: max(7, width // 16)]:
            if _cells([*fitting, each]) <= room:
                fitting.append(each)
        yield from fitting
        yield HorizontalGroup(*right, classes="foot-right")


def _cells(keys: Iterable[FooterKey]) -> int:
    return sum(len(each.key_display) + len(each.description) + 3 for each in keys)


class FramedScreen(Screen[object], ActionWidget):  # Textual takes the styles of the first base
    """A screen with header, rail (from 110 columns on), title bar, `content`, note line and footer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("left_square_bracket", "step_task(-1)", "Previous task", "the task above, or the last one"),
        key("right_square_bracket", "step_task(1)", "Next task", "the task below, or the first one"),
    ]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-rail")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (30, "-tall")]  # noqa: RUF012

    def compose(self) -> ComposeResult:
        FramedScreen.on_resize(self)
        yield PlainText(id="header")
        with Horizontal(id="body"):
            with Vertical(id="rail"):
                yield PlainText(id="rail-title")
                yield TaskList(id="tasks", compact=True)
                yield PlainText(id="about")
                yield PlainText(id="next")
            with Vertical(id="content"):
                yield PlainText(id="title")
                yield from self.content()
        with Vertical(id="bottom"):
            yield PlainText(id="note")
            yield KeyFooter(show_command_palette=False, compact=True)

    def on_resize(self) -> None:
        """Set the classes for this size before the layout; Textual sets them after it, and below a dialog in vain."""
        sizes = zip(self.app.size, (self.HORIZONTAL_BREAKPOINTS, self.VERTICAL_BREAKPOINTS), strict=True)
        now = {each for cells, points in sizes for each in self._get_breakpoint_classes(cells, points)}
        with self.app.one_frame(self) if self.view is not NO_VIEW else nullcontext():  # not the first
            self.update_classes({each: each in now for each in ("-narrow", "-rail", "-low", "-tall")})
            self.app.stylesheet.update(self)

    def on_screen_suspend(self) -> None:
        """Hide the keys and the next step below a dialog, which has its own; the tour points to them."""
        self.set_class(not self.app.screen.has_class("-tour"), "-under")

    def on_screen_resume(self) -> None:
        """Show the keys and the next step again."""
        self.remove_class("-under")

    def action_step_task(self, step: int) -> None:
        """Choose the task above (`step` -1) or below (1) in the list; from one end the other."""
        ids, task_id = [row.task_id for row in self.view.tasks], self.app.view_model.task_id
        if task_id in ids:
            self.choose_task(ids[(ids.index(task_id) + step) % len(ids)])

    def choose_task(self, task_id: str) -> None:
        """Called when another task was chosen in the task list."""
        self.app.go_to_task(task_id)

    def start_copy(self, task: Task | None) -> None:
        """Copy a script to the new one that a task asks for."""
        from labtui.session.labs import start_copy

        for original, target in task.copies_to_start[:1] if task is not None else ():
            start_copy(self.app.session.folder, original, target)
            self.app.notify(f"{target} is a copy of {original}. Press e to edit it.", timeout=8)

    def content(self) -> ComposeResult:
        """The widgets inside the frame."""
        yield from ()

    @property
    def step(self) -> NextStep:
        """The next step with the key that takes it here."""
        step = next_step(self.view)
        bound = (each.binding for each in self.active_bindings.values() if each.enabled)
        here = {each.action.removeprefix("screen."): each for each in bound}
        if self.view.read_only and step.action.partition("(")[0] in CHANGING:
            return replace(step, action="")
        if "do_next" not in here:  # an editor has the focus and takes letters and dots
            items = (item for check in self.view.checks.values() for item in check.items)
            asks = any(item.kind == "answers" and not item.met for item in items)
            step = NextStep(*("Next question", "", "next_question") if asks else ("Back", "", "leave_text"))
        binding = here.get(step.action) or here.get(step.action.partition("(")[0])
        return replace(step, key=self.app.get_key_display(binding) if binding is not None else ".")

    def show_frame(self, view: View) -> None:
        self.view = view
        self.query_one(TaskList).show(view)
        say(self, "#header", partial(_header, self))
        say(self, "#rail-title", partial(_rail_title, self))
        say(self, "#about", partial(_about, self))
        say(self, "#next", partial(_next, step := self.step))
        say(self, "#title", partial(_title, self.view, heading=self.TITLE or ""))
        say(self, "#note", partial(_note, self, step))


def _header(screen: FramedScreen, styles: Roles, width: int) -> Text:
    """Program and lab; at the right the lab's state."""
    view, left = screen.view, ink(" labtui", f"bold {styles.busy}")
    beside = screen.has_class("-rail") and not screen.has_class("-open")
    rail = screen.query_one("#rail").size.width if beside else 0
    left.append(" " * max(2, rail + 2 - left.cell_len))
    title = view.edition.title if view.edition is not None else ""
    right, free = lab_state(view, styles), width - (2 if rail else 1)
    left.append(sentences(title, free - left.cell_len - right.cell_len - 2), styles.soft)
    return left_right(left, right, free, gap=2)


def _title(view: View, styles: Roles, width: int, heading: str = "") -> Text:
    """The current task, and at the right its state."""
    if (row := view.task_line) is None:
        return Text("")
    left = ink(heading, styles.soft).append(row.task_id, f"bold {styles.busy}")
    left.append(f"  {row.title}" if row.task_id else row.title, "bold")
    more = "done; one more is " if row.live and row.status == "done" else ""
    state = ink(f"{row.sign} {more}{row.word}", getattr(styles, row.role or "soft"))
    return left_right(left, state.append(title_remark(view), styles.soft), width)


def _rail_title(screen: FramedScreen, styles: Roles, width: int) -> Text:
    """How many tasks are done; on a page of its own also the heads of the counts."""
    far, wide = screen.view.progress, screen.query_one("#rail").size.width >= 60
    done = f"{far.done} of {far.total}" if far else ""
    right = Text("".join(COUNTS.values()) if wide else done, styles.quiet)
    left = ink("Tasks", "bold").append(f"   {done}" if wide else "", styles.quiet)
    return left_right(left, right, max(8, width))


def _about(screen: FramedScreen, styles: Roles, width: int) -> Text:
    """Below a list that is a page: what the current task asks for and still needs, as far as it fits."""
    view, width = screen.view, max(20, width)
    about = ink(" ".join(view.task.what.split()) if view.task is not None else "", styles.soft)
    runs = words.runs_told(view, [item for item in view.items if item.kind == "runs" and item.missing])
    others = (item.missing for item in view.items if item.kind != "runs")
    for missing in dict.fromkeys(filter(None, (*(said for _, said in runs), *others))):
        about.append(f"\n○ {missing}", styles.quiet)
    # Lines are taken by the tasks, the card Next and the frame.
    taken = len(view.tasks) + (17 if screen.has_class("-rail") else 9)
    lines, free = about.wrap(screen.app.console, width), max(2, screen.size.height - taken)
    return Text("\n").join([*lines[: free - 1], Text("…")] if lines[free:] else lines)


def _next(step: NextStep, styles: Roles, width: int) -> Text:
    """The next step: its key as a chip, its label, and a reason of at most four lines."""
    said = re.sub(r"(?<!\S)/\S*(?=/)", "…", step.reason)  # of a path its end
    lines = wrap(said, max(20, width), max_lines=4, placeholder=" …")
    shown = step_text(replace(step, reason="\n".join(lines)), styles, "\n")
    return ink("Next\n\n", "bold").append_text(shown)


def _note(screen: FramedScreen, step: NextStep, styles: Roles, width: int) -> Text:
    """The line above the footer: a problem, else what waits; at its end the export. A click on it acts on it."""
    severity, text = status_line(screen.view)
    role = {"error": styles.bad, "warning": styles.warn}.get(severity, styles.soft)
    width, text = width - 2, "" if text == step.reason else text  # the card says it
    does = "app.page('problems')" if severity == "error" else "app.do_next"
    line = ink(f"{'! ' if severity else ''}{sentences(text, width)}", role).on(click=does)
    # Without the rail, the next step is shown here, unless a failed run's card says it.
    if not text and not screen.has_class("-rail") and (step.reason or "retry_run" not in step.action):
        reason = sentences(step.reason, width - len(f" {step.key}  {step.label}  "))
        line = step_text(replace(step, reason=reason), styles, "  ")
    return left_right(line, ink(screen.view.exporting, styles.soft), width + 2, 2)


_RUNS = {"cancel_run", "end_after", "hold_run", "retry_run", "plan", "send", "fix", "override", "test_only"}
CHANGING = _RUNS | {"edit", "start_copy", "export", "write_answer", "next_question", "doctor"}
"""Actions that change something, start a program or ask the cluster; disabled in a read-only folder."""
