"""The widgets that panes and screens share: tables that keep their place, tabs, lines of keys, problems, messages.

`KeyedTable.sync` compares with what is shown, words and colours, and touches only cells that differ, so that cursor and
scroll position survive; equal content costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.events import Click
from textual.notifications import Notification
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import DataTable

from labtui.domain.events import Problem
from labtui.tui.actions import Action
from labtui.tui.messages import ActionAsked, PaneAsked


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column with a stable key; `right` aligns numbers. With a `width` in cells nothing moves when a cell changes."""

    key: str
    title: str
    right: bool = False
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A row with a stable key and one cell per column; strings are shown as they are, never as markup."""

    key: str
    cells: tuple[str | Text, ...]


class KeyedTable(DataTable[Text]):
    """Rows with keys. Use `sync` only."""

    DEFAULT_CSS = """
    KeyedTable { height: auto; max-height: 100%; }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes, cursor_type="row", zebra_stripes=False)
        self._shown_columns: tuple[TableColumn, ...] = ()
        self._shown: dict[str, tuple[str | Text, ...]] = {}

    def sync(self, columns: Sequence[TableColumn], rows: Sequence[Row]) -> bool:
        """Show these columns and rows; says whether anything changed."""
        wanted = {row.key: row.cells for row in rows}
        if tuple(columns) == self._shown_columns and list(wanted) == list(self._shown):
            changed = self._update_cells(wanted)
        else:
            self._rebuild(tuple(columns), rows)
            changed = True
        self._shown = wanted
        return changed

    @property
    def selected_key(self) -> str | None:
        """The key of the row under the cursor."""
        keys = list(self._shown)
        return keys[self.cursor_row] if 0 <= self.cursor_row < len(keys) else None

    def select_key(self, key: str) -> None:
        """Put the cursor on a row."""
        keys = list(self._shown)
        if key in keys:
            self.move_cursor(row=keys.index(key), animate=False)

    def _update_cells(self, wanted: dict[str, tuple[str | Text, ...]]) -> bool:
        changed = False
        for key, cells in wanted.items():
            for column, old, new in zip(self._shown_columns, self._shown[key], cells, strict=True):
                if _look(old) != _look(new):
                    self.update_cell(key, column.key, _cell(new, column), update_width=column.width is None)
                    changed = True
        return changed

    def _rebuild(self, columns: tuple[TableColumn, ...], rows: Sequence[Row]) -> None:
        selected, column, scroll = self.selected_key, self.cursor_column, self.scroll_offset
        fresh = not self._shown
        with self.prevent(DataTable.RowHighlighted, DataTable.CellHighlighted):
            self.clear(columns=columns != self._shown_columns)
            if columns != self._shown_columns:
                self._shown_columns = columns
                for each in columns:
                    title = Text(each.title, justify="right" if each.right else "left")
                    self.add_column(title, key=each.key, width=each.width)
            for row in rows:
                cells = [_cell(cell, each) for cell, each in zip(row.cells, columns, strict=True)]
                self.add_row(*cells, key=row.key)
            keys = [row.key for row in rows]
            if selected in keys:
                self.move_cursor(row=keys.index(selected), column=column, animate=False, scroll=False)
        if not fresh:
            self.scroll_to(scroll.x, scroll.y, animate=False)
        # A layout that comes between these rows and the table's own measuring of them would keep the old height.
        self.call_after_refresh(self.refresh, layout=True)


def frame_texts(panel: Widget, title: str, subtitle: str = "") -> None:
    """Title and state in a panel's frame; where it has only a line on top, both stand there."""
    framed = bool(panel.styles.border_bottom[0])
    line = Text(title)
    if subtitle and not framed:
        if panel.size.width:  # not before it is laid out
            line.truncate(max(8, panel.size.width - len(subtitle) - 5), overflow="ellipsis")
        line.append(f"   {subtitle}")
    panel.border_title = line
    panel.border_subtitle = Text(subtitle if framed else "")


def _look(cell: str | Text) -> tuple[object, ...]:
    """What makes two cells look alike. Rich calls texts equal that differ in their base style only."""
    return (cell.plain, cell.style, *cell.spans) if isinstance(cell, Text) else (cell, "")


def _cell(cell: str | Text, column: TableColumn) -> Text:
    text = cell.copy() if isinstance(cell, Text) else Text(cell)
    text.justify = "right" if column.right else "left"
    text.no_wrap = True
    if column.width is not None and text.cell_len > column.width:
        text.truncate(column.width, overflow="ellipsis")
    return text


Key = tuple[str, str, str]
"""How a key is written, what it does in a word or two, and the name of its action."""


class Keys(Widget, can_focus=False):
    """Each key, in bold, with its words; a click on either posts `ActionAsked`: the screen does what the key does."""

    COMPONENT_CLASSES = {"keys--key"}  # noqa: RUF012

    def key_text(self, keys: Iterable[Key]) -> Text:
        """The keys as text whose cells know their action."""
        key_style = self.get_component_rich_style("keys--key", partial=True)
        text = Text("")
        for key, words, action in keys:
            meta = Style(meta={"action_name": action})
            text.append(" ").append(key, key_style + meta).append(f" {words} ", meta)
        return text

    def on_click(self, event: Click) -> None:
        if name := event.style.meta.get("action_name"):
            event.stop()
            self.post_message(ActionAsked(name))


class ModalKeys(Keys):
    """The keys of a modal, and a note behind them."""

    DEFAULT_CSS = """
    ModalKeys { height: auto; }
    """

    def __init__(self, *keys: Key, note: str = "", classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self._keys, self._note = keys, note

    def render(self) -> Text:
        text = self.key_text(self._keys)
        text = text[1:]  # the first key stands where the lines above it begin
        return text.append(f" {self._note}", style="dim") if self._note else text


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

    def render(self) -> Text:
        """Sign, title and text of each."""
        lines = []
        for each in self.shown:
            style = self.get_component_rich_style(f"messages--{each.severity}", partial=True)
            line = Text(f" {_SIGNS[each.severity]} ", style)
            line.append(f"{each.title} " if each.title else "", style).append(each.message)
            lines.append(line)
        return Text("\n").join(lines)

    def on_click(self) -> None:
        """A click takes them away."""
        self.take(())


class KeyLine(Keys):
    """The bottom line: the few keys that matter here, clickable."""

    DEFAULT_CSS = """
    KeyLine { height: 1; dock: bottom; }
    """
    actions: reactive[tuple[Action, ...]] = reactive(())

    def show(self, actions: Sequence[Action]) -> None:
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
