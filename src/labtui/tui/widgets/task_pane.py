"""The task pane: what to do and why, then one line each for runs, answers, charts and more, which can be opened."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec
from rich.text import Text
from textual import app, binding, containers

from labtui.domain import model
from labtui.lab import checks
from labtui.lab.edition import Task
from labtui.lab.evidence import one_line
from labtui.tui.format import runs_told
from labtui.tui.guidance import first_open, headline, instead_of_runs
from labtui.tui.themes import Roles, ink, roles
from labtui.tui.view import Count, View
from labtui.tui.widgets.frame import Pane, PlainText, clickable, key, left_right, say, sentences, wrap


class Section(msgspec.Struct, frozen=True):
    """A section of the page: one line, and below it when open the `details`, each as (mark or "", sentence)."""

    name: str
    count: Count
    sentence: str
    details: Sequence[tuple[str, str]] = ()
    key: str = ""
    action: str = ""


KINDS = {"runs": "Runs", "answers": "Answers", "charts": "Charts"}
KEYS = {"runs": ("r", "pane('runs')"), "charts": ("x", "export"), "answers": ("a", "pane('answers')")}
OWN_JOBS = """\
r shows their states and numbers, l the selected run's log, c the charts.
R plans a failed run again, `labtui retry RUN --again` one that is done."""
"""What can be done with jobs that belong to no task."""
LABELS = {"r": "Runs", "s": "Plan", "x": "Export", "a": "Answer", "e": "Edit"}


class TaskPane(Pane, containers.VerticalScroll, can_focus=True):
    """The task as a scrolling page; enter or a click opens or closes all sections."""

    BINDINGS: ClassVar[list[binding.BindingType]] = [
        key("enter", "open_all", "Details", "open all lines of the page, or close them", show=True)
    ]

    _all = False  # whether every section is open
    _task_id = ""

    def compose(self) -> app.ComposeResult:
        yield PlainText(id="task-page")

    def paint(self, view: View) -> None:
        other = view.task_id != self._task_id
        if other:
            self._all, self._task_id = False, view.task_id
        say(self, "#task-page", task_page(view, roles(self.app), self.size.width - 2, whole=self._all))
        if other:
            self.scroll_home(animate=False)

    def why_disabled(self, action: str, parameters: tuple[object, ...]) -> str | None:
        """No key where there is nothing to open."""
        nothing = action == "open_all" and self.view.task is None
        return None if nothing else super().why_disabled(action, parameters)

    def action_open_all(self) -> None:
        """Open all sections, or only the first unfinished one."""
        self._all = not self._all
        self.on_resize()

    on_click = action_open_all


def task_page(view: View, styles: Roles, width: int, *, whole: bool) -> Text:
    """The page as text; open are the first unfinished of runs, answers and charts, or with `whole` all sections."""
    task = view.task
    if task is None:
        told = (headline(view), instead_of_runs(view), OWN_JOBS if view.edition is not None else "")
        return Text("\n\n".join(filter(None, dict.fromkeys(told))))
    page = ink(one_line(task.what), "bold")
    if task.why.strip():
        page.append("\n\n").append(one_line(task.why), styles.soft)
    if task.weight:
        page.append(f"\n\n{task.weight:g} % of the mark", styles.quiet)
    first = next((name for kind, name in KINDS.items() if view.count(kind).done < view.count(kind).of), "")
    rule = Text("─" * max(0, width), styles.axis)
    for part in filter(None, (list(_evidence(view, task)), list(_reading(view, task)))):
        page.append("\n\n").append_text(rule)
        for section in part:
            is_open = bool(section.details) and (whole or section.name == first)
            page.append("\n\n").append_text(_heading(section, styles, width, is_open=is_open))
            if is_open:
                page.append("\n").append_text(_opened(section, styles, width))
    return page


def _heading(section: Section, styles: Roles, width: int, *, is_open: bool) -> Text:
    """The line of a section: name, count, sentence (only if closed, cut to fit) and key."""
    of, full = section.count.of, section.count.full
    left = Text("▾ " if is_open else "▸ " if section.details else "  ", styles.quiet)
    left.append("✔ " if full else "○ " if of else "  ", styles.good if full else styles.quiet)
    left.append(f"{section.name:<10}", "bold")
    style = f"bold {styles.good if full else styles.busy}" if of else styles.quiet
    left.append(f"{section.count!s:>6}   ", style)
    name, act = section.key, clickable(f"screen.{section.action}", f"bold {styles.busy}")
    chip = Text().append(f"{name} " if name else "", act)
    chip.append(LABELS.get(name, ""), styles.soft)
    if not is_open:
        left.append(sentences(section.sentence, width - left.cell_len - chip.cell_len - 1), styles.soft)
    return left_right(left, chip, width)


def _opened(section: Section, styles: Roles, width: int) -> Text:
    """The details of an open section, wrapped and indented; those of runs begin with the result."""
    text = Text()
    result = (("", section.sentence),) if section.name == KINDS["runs"] else ()
    for mark, sentence in dict.fromkeys((*result, *section.details)):  # what is true of all runs, once
        lead = f"    {mark} " if mark else "    "
        text.append(f"\n{lead}", styles.good if mark == "✔" else styles.quiet)
        wrapped = wrap(one_line(sentence), max(8, width - len(lead)))
        text.append(f"\n{' ' * len(lead)}".join(wrapped), styles.soft)
    return text


def _evidence(view: View, task: Task) -> Iterator[Section]:
    """The sections on what the task requires: runs, answers, charts, other conditions."""
    for kind, name in KINDS.items():
        mine = [item for item in view.items if item.kind == kind]
        planned = task.runs if kind == "runs" else ()
        if mine or planned:
            details = runs_told(view, mine) if kind == "runs" else _conditions(mine)
            details = details or [("", run.spec.label) for run in planned]
            if kind == "answers":
                pairs = zip(details, task.questions, strict=False)
                details = [(mark, question.text) for (mark, _), question in pairs]
            key, action = ("s", "plan") if planned and not (view.lines or view.cannot_run) else KEYS[kind]
            yield Section(name, view.count(kind), _sentence(view, task, kind), details, key, action)
    if other := [item for item in view.items if item.kind not in KINDS]:
        unmet = next((item.missing for item in other if not item.met), "")
        yield Section("Checks", Count(sum(item.met for item in other), len(other)), unmet, _conditions(other))


def _conditions(items: Sequence[checks.CheckItem]) -> list[tuple[str, str]]:
    """A mark and a sentence for each condition: what is missing, else what was required."""
    return [("○" if item.missing else "✔", item.missing or item.sentence) for item in items]


def _reading(view: View, task: Task) -> Iterator[Section]:
    """The sections that help with the task: hints, files, deliverables, notes."""
    missing = {item.to_make for item in view.items}
    files = [f"scripts/{name}{', not made yet' if name in missing else ''}" for name in task.files]
    for name, lines, keys in (
        ("Hints", task.hints, ""),
        ("Files", files, "e"),
        ("Hand in", task.deliverables, ""),
        ("Notes", tuple(view.check.notes) if view.check is not None else (), ""),
    ):
        if lines:
            details = [("", line) for line in lines]
            yield Section(name, Count(len(lines), 0), lines[0], details, keys, "edit")


def _sentence(view: View, task: Task, kind: str) -> str:
    """The sentence of a section."""
    if kind == "runs":
        return headline(view) or model.plural(len(view.lines), "run")
    if kind == "charts":
        again = next((item.missing for item in view.items if item.kind == kind and item.stale), "")
        there = "exported" + (f"; {view.deck} is outdated" if view.deck_old else "")
        return again or (there if view.count("charts").done else "none exported yet")
    number = first_open(view)
    return one_line(task.questions[number - 1].text) if number else "all written"
