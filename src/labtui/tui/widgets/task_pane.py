"""A task in words: what, why, then a line each for runs, charts and answers; the rest is folded away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll

from labtui.domain.model import plural
from labtui.tui.guidance import headline
from labtui.tui.themes import Roles, ink, roles
from labtui.tui.view import View
from labtui.tui.widgets.frame import Pane, Said, does, ends, key, say

Section = tuple[str, str, str, str, str, list[Text]]
"""Name, count, sentence, key, the action of the key, details."""
KINDS = {"runs": "Runs", "charts": "Charts", "answers": "Answers"}
KEYS = {
    "runs": ("r", "screen.pane('runs')"),
    "charts": ("x", "screen.export"),
    "answers": ("a", "screen.pane('answers')"),
}
LABELS = {"r": "Runs", "s": "Submit", "x": "Export", "a": "Answer", "e": "Edit"}


class TaskPane(Pane, VerticalScroll, can_focus=True):
    """One scrolling page; a click on a section opens or closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("enter", "open_all", "Details", "open all lines of the page, or close them", show=True),
    ]

    _all = False  # whether every section is open
    _task_id = ""

    def compose(self) -> ComposeResult:
        yield Said(id="task-page")

    def paint(self, view: View) -> None:
        other = view.task_id != self._task_id
        if other:
            self._all, self._task_id = False, view.task_id
        say(self, "#task-page", task_page(view, roles(self.app), self.size.width - 1, whole=self._all))
        if other:
            self.scroll_home(animate=False)

    def action_open_all(self) -> None:
        """Open every line, or only the first unfinished one."""
        self._all = not self._all
        self.on_resize()

    def on_click(self) -> None:
        self.action_open_all()


def task_page(view: View, styles: Roles, width: int, *, whole: bool) -> Text:
    """The page as text; open is the first unfinished of runs, charts and answers, or the `whole` of it."""
    task = view.task
    if task is None:
        return Text(headline(view))
    page = ink(" ".join(task.what.split()), "bold")
    if task.why.strip():
        page.append("\n\n").append(" ".join(task.why.split()), styles.soft)
    if task.weight:
        page.append(f"\n\n{task.weight:g} % of the mark", styles.quiet)
    first = next((name for kind, name in KINDS.items() if view.count(kind).done < view.count(kind).of), "")
    rule = Text("─" * max(0, width), styles.axis)
    page.append("\n\n").append_text(rule)
    for at, section in enumerate(sections(view, styles)):
        if at and section[0] == "Other":
            page.append("\n\n").append_text(rule)
            continue
        is_open = bool(section[5]) and (whole or section[0] == first)
        page.append("\n\n").append_text(_heading(section, styles, width, is_open=is_open))
        if is_open:
            page.append("\n")
            for line in section[5]:
                line.truncate(max(8, width - 4), overflow="ellipsis")
                page.append("\n    ").append_text(line)
    return page


def _heading(section: Section, styles: Roles, width: int, *, is_open: bool) -> Text:
    name, count, sentence, key, action, details = section
    done, _, of = count.partition("/")
    full = bool(of) and done == of
    left = Text("▾ " if is_open else "▸ " if details else "  ", styles.quiet)
    left.append("✔ " if full else "○ " if of else "  ", styles.good if full else styles.quiet)
    left.append(f"{name:<10}", "bold")
    left.append(f"{count:>6}   ", f"bold {styles.good if full else styles.busy}" if of else styles.quiet)
    left.append(sentence, styles.soft)
    chip = Text().append(f"{key} " if key else "", does(action, f"bold {styles.busy}"))
    return ends(left, chip.append(LABELS.get(key, ""), styles.soft), width)


def sections(view: View, styles: Roles) -> Iterator[Section]:
    """What the task has, in the order of the page; "Other" stands for the second rule."""
    task, check = view.task, view.check
    if task is None:
        return
    items = check.items if check is not None else ()
    other = [item for item in items if item.kind not in KINDS]
    for item_kind, name in KINDS.items():
        mine = [item for item in items if item.kind == item_kind]
        plans = item_kind == "runs" and task.runs
        if not mine and not plans:
            continue
        details = [_condition(not item.missing, item.missing or item.sentence, styles) for item in mine]
        if plans and not mine:
            details = [ink(run.spec.label, styles.soft) for run in task.runs]
        key, action = ("s", "screen.plan") if plans and not view.lines else KEYS[item_kind]
        yield name, str(view.count(item_kind)), _sentence(view, item_kind), key, action, details
    if other:
        details = [_condition(item.met, item.sentence, styles) for item in other]
        met = sum(item.met for item in other)
        unmet = next((item.missing for item in other if not item.met), "")
        yield "Checks", f"{met}/{len(other)}", unmet, "", "", details
    yield "Other", "", "", "", "", []
    notes = tuple(check.notes) if check is not None else ()
    for name, lines, key in (
        ("Hints", task.hints, ""),
        ("Files", tuple(f"scripts/{file}" for file in task.files), "e"),
        ("Hand in", task.deliverables, ""),
        ("Notes", notes, ""),
    ):
        if lines:
            details = [Text(" ".join(line.split()), styles.soft) for line in lines]
            yield name, str(len(lines)), lines[0], key, "screen.edit", details


def _condition(met: bool, sentence: str, styles: Roles) -> Text:
    text = ink("✔ " if met else "○ ", styles.good if met else styles.quiet)
    return text.append(" ".join(sentence.split()), styles.soft)


def _sentence(view: View, kind: str) -> str:
    """What a section says in one line."""
    task = view.task
    if kind == "runs":
        return headline(view) or plural(len(view.lines), "run")
    if kind == "charts":
        items = view.check.items if view.check is not None else ()
        again = next((item.missing for item in items if item.kind == kind and item.stale), "")
        return again or ("exported" if view.count("charts").done else "none exported yet")
    done = view.count("answers").done
    questions = task.questions if task is not None else ()
    return " ".join(questions[done].text.split()) if done < len(questions) else "all written"
