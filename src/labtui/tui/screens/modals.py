"""Modal screens: the dialog `Ask`, the questions it is used for at login and on leaving, and pages of text."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

from rich.table import Table
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.widgets import Button, Footer, Input, Static

from labtui.cluster.local_files import expand_home
from labtui.cluster.target import LoginQuestion
from labtui.doctor.checks import SIGNS, Check, summary, worst_status
from labtui.domain.model import RunPhase
from labtui.domain.state import LIVE
from labtui.tui import STYLES, guidance, themes, view
from labtui.tui import format as words
from labtui.tui.app import LabApp
from labtui.tui.widgets.frame import key, sentences

Choice = tuple[str, str, str | None]
"""A key, its label, and the answer it gives; None means that nothing is to be done."""


class Modal(ModalScreen[ScreenResultType]):
    """A modal screen with labtui's styles."""

    CSS_PATH = STYLES / "modals.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+q", "app.leave", show=False)]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (84, "-wide")]  # noqa: RUF012


def yes_or_no(yes: str, no: str) -> tuple[Choice, ...]:
    """Two choices with the keys y and n; the answers are "yes" and None."""
    return ("y", yes, "yes"), ("n", no, None)


def entry_choices(does: str) -> tuple[Choice, ...]:
    """The choices of a dialog with an input: enter `does` it, escape goes back."""
    return ("enter", does, ""), ("escape", "Back", None)


class Ask(Modal[str | None]):
    """A dialog with a question. The last choice is the safe one: `escape` takes it; it has the focus but with `first`.

    With `entry` there is an input with this text at first; `check` returns what is wrong with an answer, or "".
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "last", "leave", show=False),
        Binding("left,up", "app.focus_previous", show=False),
        Binding("right,down", "app.focus_next", show=False),
    ]

    apart = (0, 0, 0, 0)
    """The cells to leave free above, at the right, below and at the left."""

    def __init__(
        self,
        text: str,
        *,
        title: str = "",
        details: Text | None = None,
        choices: Sequence[Choice] = yes_or_no("Yes", "No"),
        entry: str | None = None,
        check: Callable[[str], str] = lambda text: "",
        secret: bool = False,
        first: bool = False,
    ) -> None:
        super().__init__()
        self.text, self.heading, self.details, self.first = text, title, details, first
        self.choices, self.entry, self.check, self.secret = choices, entry, check, secret

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as dialog:
            dialog.styles.margin = self.apart
            if self.heading:
                yield Static(Text(self.heading, style="bold"), markup=False)
            yield Static(Text(self.text), markup=False, classes="dialog-text")
            if self.details:
                with VerticalScroll(classes="dialog-details", can_focus=False):
                    yield Static(self.details, markup=False)
            if self.entry is not None:
                yield Input(self.entry, password=self.secret, max_length=200, compact=True)
                yield Static(Text(""), markup=False, id="problem")
            with Horizontal(classes="dialog-buttons"):
                for name, label, _ in self.choices:
                    shown = "esc" if name == "escape" else name
                    yield Button(Text(f"{shown}  {label}"), id=f"choice-{name}", compact=True)

    def on_mount(self) -> None:
        """Focus the input, else the first or the safe choice; nothing if the dialog is over already."""
        parts = [*self.query(Input), *self.query(Button)[:: 1 if self.first else -1]]
        self.set_focus(parts[0] if parts else None)

    def on_key(self, event: events.Key) -> None:
        """Take the choice that has this key."""
        if event.key != "enter" and event.key in {name for name, _, _ in self.choices}:
            event.stop()
            self.choose(event.key)

    @on(Button.Pressed)
    @on(Input.Submitted)
    def _pressed(self, event: Button.Pressed | Input.Submitted) -> None:
        event.stop()
        self.choose((event.control.id or "enter").removeprefix("choice-"))  # the input has no id

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        """Clear the problem once the text is right."""
        if not self.check(event.value.strip()):
            self.query_one("#problem", Static).update("")

    def action_last(self) -> None:
        """Take the safe choice."""
        self.choose(self.choices[-1][0])

    def choose(self, name: str) -> None:
        """Dismiss with the answer of a choice, or with the typed text; ignored once the dialog was answered."""
        if not self.is_active:
            return
        if self.entry is None or name != "enter":
            self.dismiss({each: answer for each, _, answer in self.choices}[name])
            return
        text = self.query_one(Input).value
        text = text if self.secret else text.strip()
        if problem := self.check(text):
            self.query_one("#problem", Static).update(Text(problem, style="bold"))
            self.query_one(Input).focus()
        else:
            self.dismiss(text)


def prompt_screen(question: LoginQuestion) -> Ask:
    """The dialog for a login question: an unknown server's fingerprint, or a secret, which is not stored."""
    if question.kind == "host-key":
        compare = "Compare it with the one your teacher or the cluster's documentation gives."
        return Ask(
            question.text,
            title=f"Unknown host: {question.host}",
            details=Text().append(question.fingerprint, "bold").append(f"\n\n{compare}"),
            choices=entry_choices("Connect"),  # no single key: one typed for the screen below must not answer
            entry="",
            check=lambda text: "" if question.accepts(text) else "Type yes if it is the same, or press esc.",
        )
    return Ask(
        f"{question.text}\nIt is not stored anywhere.",
        title=f"{question.kind.capitalize()}: {question.host}",
        choices=entry_choices("Answer"),
        entry="",
        secret=not question.echo,
    )


STOPS = (
    "The practice cluster stops when you leave: running jobs end as if their node failed, waiting jobs start when you "
    "are back."
)
LOST = (
    "This practice session is not kept: its runs, answers and exports are deleted when you leave. "
    "`labtui practice --keep DIR` keeps its cluster, too."
)


def _why_not_new(folder: str) -> str:
    if not folder:
        return "Name a new folder."
    return f"{folder} exists already: name a new folder." if expand_home(folder).exists() else ""


async def ask_before_leaving(app: LabApp, *, kept: bool) -> None:
    """Leave at once if nothing is lost or stopped by it; else ask. `kept`: the lab folder is not deleted."""
    state = app.view_model.state
    busy = any(run.phase in LIVE and run.phase is not RunPhase.WAITING for run in state.runs.values())
    stops = busy and app.view_model.factor is not None
    if app.session.read_only or (kept and not stops):
        app.exit(0)
        return
    keep: tuple[Choice, ...] = () if kept else (("k", "Keep it in a folder", "keep"),)
    choices = (*keep, *yes_or_no("Leave", "Stay"))
    while (answer := await app.push_screen_wait(Ask(STOPS if kept else LOST, choices=choices))) == "keep":
        place = Ask(
            "The folder for its answers, logs and charts; the cluster ends with this session.",
            choices=entry_choices("Keep it and leave"),
            entry=str(Path.cwd() / "practice"),
            check=_why_not_new,
        )
        if (text := await app.push_screen_wait(place)) is not None:
            app.keep_in = expand_home(text).absolute()
            break
    if answer:
        app.exit(0)


TOUR = (
    ("#rail", "The tasks are on the left. Below them, Next says what to do now: press . to do it."),
    ("Tabs", "Press s to plan the runs of a task, s again to submit them; r: runs, l: log, c: charts."),
    ("#bottom", "Press a for the answers, x to write plots and slides, ? for the keys of a page."),
)
"""The steps of the tour: the part of the screen that a step stands beside and highlights, and its text."""
NARROW = "#bottom", "Press g for the tasks of the lab. The line below says what to do now: press . to do it."
"""The first step where the screen has no rail."""


def show_tour(app: LabApp, step: int = 0) -> None:
    """Show the tour of the first start from this step on, a dialog each; escape skips the rest."""
    if app.screen is not app.main:  # a page that was opened meanwhile is read first
        app.set_timer(0.5, partial(show_tour, app, step))
        return
    practice = words.about_practice(app.view_model.factor) if app.session.practice and not step else ""
    beside, text = NARROW if app.screen.has_class("-narrow") and not step else TOUR[step]
    part, text = app.screen.query_one(beside), "\n\n".join(filter(None, (practice, text)))
    more = "Next" if step + 1 < len(TOUR) else "Begin"
    title, choices = f"Step {step + 1} of {len(TOUR)}", (("escape", "Skip", None), ("enter", more, more))
    ask = Ask(text, title=title, choices=choices)
    ask.add_class("-tour", f"-{beside.strip('#').lower()}")
    sides = {"#rail": (0, 0, 0, part.region.right), "Tabs": (part.region.bottom, 0, 0, 0)}
    ask.apart = sides.get(beside, (0, 0, part.region.height, 0))
    part.add_class("-told")

    def answered(answer: str | None) -> None:
        part.remove_class("-told")
        if answer == "Next":
            show_tour(app, step + 1)

    app.push_screen(ask, answered)


class TextScreen(Modal[None]):
    """A page of text with a title; `escape` and `q` close it."""

    AUTO_FOCUS = ".page-text"  # so that the arrow keys scroll it
    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape,q", "dismiss", "Close", "close this page; the arrow keys scroll it", show=True),
        key("question_mark,f1", "app.page('help')", "Help", "the keys that act here", show=True),
    ]

    def __init__(self, title: str, make: Callable[[], Text | Table]) -> None:
        super().__init__()
        self.title, self.make = title, make
        self.page = make()  # before this screen is the app's: help is about the one below it

    def compose(self) -> ComposeResult:
        with Vertical(classes="page"):
            yield Static(Text(str(self.title), style="bold"), markup=False, classes="page-title")
            with VerticalScroll(classes="page-text"):
                yield Static(self.page, markup=False, id="page-text")
            yield Footer(compact=True, show_command_palette=False)

    def show(self) -> None:
        """Make the text again."""
        for box in self.query("#page-text").results(Static):
            box.update(self.make())


NAME_CELLS = 15
"""The cells of a name in the palette."""


class Palette(CommandPalette):
    """Textual's palette; the program can be left from it, too."""

    _NO_MATCHES_COUNTDOWN = 0.001  # type: ignore[misc]  # the search is over at once
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+q", "app.leave", show=False)]


class Actions(Provider):
    """The palette's entries in their own order, not by the alphabet."""

    async def discover(self) -> Hits:
        for name, _, run, _ in palette(self.screen):
            yield DiscoveryHit(Content(name), run)  # a title is never markup

    async def search(self, query: str) -> Hits:
        """Those whose name matches, then those whose line or description has the words."""
        matcher = self.matcher(query)
        for name, told, run, _ in palette(self.screen):
            has_words = query.casefold() in f"{name} {told}".casefold()
            if score := matcher.match(name[:NAME_CELLS].rstrip()) or has_words:
                yield Hit(score, matcher.highlight(name[:NAME_CELLS]) + name[NAME_CELLS:], run)


def palette(screen: Screen[Any]) -> Iterator[SystemCommand]:
    """The palette's entries, with key and help: actions with keys here (most used first), tasks, the theme."""
    app = cast("LabApp", screen.app)
    line = f"{{:<{NAME_CELLS}}}{{:<6}}{{}}".format
    actions = app.active_actions(screen)
    for node, binding, reason in sorted(actions, key=lambda each: (bool(each[2]), each[0] is not screen)):
        told = sentences(f"not now: {reason}", 53) if reason else binding.tooltip
        run = partial(app.run_action, binding.action, node)
        name = line(binding.description, app.get_key_display(binding), told)
        yield SystemCommand(name, binding.tooltip, run)
    for row in app.view.tasks:
        go = partial(getattr(screen, "choose_task", app.go_to_task), row.task_id)  # a plan is left first
        yield SystemCommand(line(f"Task {row.task_id}", "", f"{row.title}  {row.word}"), "", go)
    yield SystemCommand(line("Theme", "", "light colours, or dark ones again"), "", app.action_change_theme)


def problems_text(app: LabApp) -> Text:
    """All current problems with their hints, failed runs that are missing, incidents, the last export's remarks."""
    page, state, incidents = Text(), app.view_model.state, app.incidents
    for problem in (*state.problems, *state.stuck):
        page.append(f"! {problem.sentence}\n", style="bold")
        page.append(f"  {problem.hint}\n\n" if problem.hint else "\n")
    for task in app.view.tasks:
        page.append_text(_missing_runs_text(app.view, task))
    connection = state.connection
    if not page and not connection.sentence and not incidents:
        page.append("Nothing is wrong: the connection, labtui, and the runs that your tasks need.\n")
    page.append(f"{connection.sentence} {connection.hint}".strip() + ("\n" if connection.sentence else ""))
    page.append("Simulated in this practice session:\n" if incidents else "")
    for note in incidents:
        page.append(f"\n{note.title}\n", style="bold").append(f"{note.text}\n")
    if remarks := app.session.state.choices.get("remarks"):
        page.rstrip()
        head = f"\n\nThe last export with x, in {app.session.folder.path}:"
        page.append("\n  ".join([head, *remarks.splitlines()]) + "\n")
    if (log := app.session.folder.problem_log).is_file():
        page.append(f"\nUnexpected errors of labtui itself are in {log}\n", style="dim")
    return page


def _missing_runs_text(shown: view.View, task: view.TaskLine) -> Text:
    """How those runs of a task ended that are to be run again, and the keys for it; empty if there are none."""
    mine = [line for line in shown.runs.values() if line.run.task_id == task.task_id]
    own = [line for line in mine if line.submission is not None and line.submission.job_file]
    missing = (*shown.failures(task.task_id, mine), *shown.failures("", own))
    lines = {line.run_id: line for line in missing if not shown.state.cancelled_as_asked(line.run)}
    ends: dict[str, list[view.RunLine]] = {}
    for _, line in sorted(lines.items()):
        ends.setdefault(line.word, []).append(line)
    if not lines:
        return Text()
    text = themes.ink(f"! {' '.join(map(guidance.end_text, ends.values()))}\n", "bold")
    failed = any(line.phase is RunPhase.FAILED for line in lines.values())
    why = "r and choose the run to see why, " if failed else ""
    which = "it" if len(lines) == 1 else "them" if task.task_id else "the chosen one"
    there = "go there and " if task.task_id != shown.task_id else ""
    return text.append(f"  {task.task_id} {task.title}: {there}press {why}R to run {which} again.\n\n")


def help_page(app: LabApp) -> Table:
    """The keys that act on the screen, those of the innermost widget first; then the glyphs."""
    table = Table.grid(padding=(0, 1))
    for no_wrap in (True, True, False):
        table.add_column(no_wrap=no_wrap)
    group = ""
    actions = list(app.active_actions(app.screen))
    actions.sort(key=lambda each: (each[0] is app, each[0] is app.screen, each[2] != ""))
    for node, binding, reason in actions:
        before, group = group, {app: "Everywhere", app.screen: "On this screen"}.get(node, "Here")
        if group != before:
            table.add_row("", Text(("\n" if before else "") + group, "bold"))
        told = Text(f"not now: {reason}" if reason else binding.tooltip, "dim" if reason else "")
        table.add_row(Text(app.get_key_display(binding), "bold"), binding.description, told)
    runs = "  ".join(f"{glyph} {phase}" for phase, glyph in words.PHASE_GLYPHS.items())
    tasks = (f"{words.TASK_GLYPHS[each]} {words.TASK_WORDS[each]}" for each in ("done", "partial", "open"))
    table.add_row(Text("↑ ↓ ← →", "bold"), "Move", "in lists, tables, texts, charts; page up and down, too")
    table.add_row("")
    table.add_row("", "Runs", f"{runs}\nending, cancelling: with the sign of the state before")
    table.add_row("", "Charts", "a ring: still running, or warm-up   a mark in text colour: the cursor")
    if app.view_model.factor:
        table.add_row("", "Practice", words.about_practice(app.view_model.factor))
    table.add_row("", "Tasks", f"{'  '.join(tasks)}  or the sign of its runs under way, failed, cancelled")
    return table


def jobs_page(app: LabApp) -> Table | Text:
    """The student's active jobs at the last poll, including those that this folder did not submit."""
    read_at, jobs = app.session.state.refreshed_at, app.session.my_jobs()
    if read_at is None:
        return Text("The queue has not been read yet.")
    as_of = time.strftime("As of %H:%M:%S:\n", time.localtime(read_at))
    if not jobs:
        return Text(f"{as_of}No job of yours is in the queue.")
    heads, *rows = (row[:-1] for row in words.job_grid(jobs))  # with the last column it does not fit 80 cells
    table = Table(*heads, box=None, pad_edge=False)
    table.title, table.title_justify, table.title_style = Text(as_of), "left", "none"
    for row in rows:
        table.add_row(*map(Text, row))
    return table


PAGES: dict[str, tuple[str, Callable[[LabApp], Text | Table]]] = {
    "help": ("Keys here", help_page),
    "problems": ("Problems of the connection, of labtui and of runs", problems_text),
    "jobs": ("Your jobs on the cluster", jobs_page),
}


class DoctorScreen(TextScreen):
    """Checks everything that a job needs over a second login, in a thread of its own. It changes nothing."""

    app: LabApp

    def __init__(self) -> None:
        self._checks: list[Check] = []
        self._under_way = True
        super().__init__("Doctor: requirements of a job", self._page)

    def on_mount(self) -> None:
        # not a Textual worker: the app would wait for it on exit
        threading.Thread(target=self._examine, args=(self.app,), name="labtui-doctor", daemon=True).start()

    def _examine(self, app: LabApp) -> None:
        from labtui.doctor.examine import examine
        from labtui.session.labs import requirements_of
        from labtui.session.settings import overrides_of

        session, seen = app.session, dict[str, bool | str]()
        try:
            settings = session.settings
            wanted = requirements_of(session.folder, settings, session.profile)
            for check in examine(session.profile, overrides_of(settings), wanted, app.prompter, seen.update):
                self._checks.append(check)
                app.call_later(self.show)
            if seen:
                session.note_paths(seen)
        except Exception as error:  # a check must never take the screens down
            session.faults.write(error)
            said, fix = "The check was cut off.", f"The lab's {session.folder.problem_log.name} says where."
            self._checks.append(Check(key="doctor", title="Doctor", status="problem", sentence=said, fix=fix))
        self._under_way = False
        app.call_later(self.show)

    def _page(self) -> Table:
        """A summary of the checks, then each with its sign, sentence and fix: first what is wrong."""
        checks, styles = self._checks, themes.roles(self.app)
        first = "Checking ..." if self._under_way else summary(checks)
        page = Table.grid(padding=(0, 1))
        page.add_row("", Text(first, f"bold {_role(worst_status(checks), styles)}"))
        for check in sorted(checks, key=lambda each: [*SIGNS].index(each.status)):
            role, fix = _role(check.status, styles), f"\n→ {check.fix}" if check.fix else ""
            said = Text().append(f"{check.title}: ", role).append(check.sentence).append(fix, styles.warn)
            page.add_row(Text(SIGNS[check.status], role), said)
        return page


def _role(status: str, styles: themes.Roles) -> str:
    return {"ok": styles.good, "warning": styles.warn, "problem": styles.bad}.get(status, styles.quiet)
