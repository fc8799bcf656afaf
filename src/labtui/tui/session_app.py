"""`SessionApp`: an app over an open session. States, questions and ends of requests come in; screens are repainted.

What the screens may ask of their app is here; what the keys do is in `LabApp`.
"""

from __future__ import annotations

import contextlib
import gc
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import SuspendNotSupported
from textual.binding import BindingType
from textual.message import Message
from textual.notifications import Notifications
from textual.reactive import reactive, var
from textual.screen import Screen

from labtui.domain.errors import LabError
from labtui.domain.events import LabState
from labtui.tui import actions, themes
from labtui.tui.messages import (
    ActionAsked,
    ActionEnded,
    Noticed,
    PromptAsked,
    ScreenPrompter,
    editor_command,
)
from labtui.tui.themes import SanitizedApp, keep_theme, read_preferences
from labtui.tui.view_model import ViewModel, checks_may_differ
from labtui.tui.widgets.frame import MessageLines, ProblemLines

if TYPE_CHECKING:
    from textual.actions import ActionParseResult
    from textual.dom import DOMNode

    from labtui.practice.incidents import IncidentNote
    from labtui.session.answers import AnswerFiles
    from labtui.session.journal import Update
    from labtui.session.notifications import DesktopNotifier, NoticeTracker
    from labtui.session.session import Session
    from labtui.tui.view import ViewState

STYLES = Path(__file__).parent / "styles"
AGE_EVERY = 1.0
REPAINT_EVERY = 0.1
"""Seconds between two repaints for states of the session; a key or a click repaints at once."""
COLLECT_AFTER = 20_000
"""New objects until the garbage collector looks: a repaint makes thousands, which die without it."""


class StateArrived(Message):
    """The session's newest state; an older one still in the queue is dropped."""

    def __init__(self, state: LabState) -> None:
        super().__init__()
        self.state = state

    def can_replace(self, message: Message) -> bool:
        """Only the newest state counts."""
        return isinstance(message, StateArrived)


class StateScreen(Screen[None]):
    """A screen that is painted from view states."""

    view_state: ViewState | None = None

    def show_age(self, view_state: ViewState) -> None:
        """Only time went on."""
        raise NotImplementedError


class SessionApp(SanitizedApp[int]):
    """The screens over one open lab folder. The caller owns the session and closes it afterwards."""

    TITLE = "labtui"
    CSS_PATH = [  # noqa: RUF012 - as Textual declares it
        STYLES / "base.tcss",
        STYLES / "main.tcss",
    ]
    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("app")]
    lab: reactive[LabState] = reactive(LabState, init=False, always_update=True)
    view_state: var[ViewState | None] = var(None, init=False, always_update=True)
    """What is on the screen: the main screen and each pane watch it and take their slice."""
    desktop: DesktopNotifier | None = None

    def __init__(
        self,
        session: Session,
        *,
        prompter: ScreenPrompter | None = None,
        clock: Callable[[], float] = time.time,
        pane: str = "",
        start: bool = True,
        incidents: Sequence[IncidentNote] = (),
        factor: float | None = None,
        kept: bool = True,
    ) -> None:
        """`factor` is how much faster than real a rehearsal's clock goes; `kept` false: its folder goes with it."""
        super().__init__()
        preferences = read_preferences()
        themes.register(self, preferences.theme)
        self._key_problems = [preferences.problem] if preferences.problem else []
        self._key_problems += actions.use_keys(preferences.keys)
        self.set_keymap(actions.own_keys())
        self.session = session
        self.prompter = prompter
        self.view_model = ViewModel(session, clock=clock, factor=factor)
        self._unsubscribe: Callable[[], None] | None = None
        self._tracker: NoticeTracker | None = None
        self._first_pane = pane or ("runs" if self.view_model.run_id is not None else "task")
        self._start_session = start
        self._kept = kept
        self.incidents = incidents
        self._incidents_shown = 0
        self._known_problems: frozenset[str] = frozenset()
        self._prompts: list[PromptAsked] = []
        self._in_lines: set[str] = set()  # messages that a screen's own lines have shown
        self._repaint_resting = False  # the last repaint for a state was less than REPAINT_EVERY ago
        self._repaint_due = False  # a state came meanwhile

    # ------------------------------------------------------------------ life

    def on_mount(self) -> None:
        """Paint what is stored first; the network comes after, and what happened before is nobody's news."""
        from labtui.session.notifications import NoticeTracker

        if self.prompter is not None:
            self.prompter.attach(self.post_message)
        self._tracker = NoticeTracker(self.session.state)
        self._unsubscribe = self.session.subscribe(self._arrived)
        self.theme_changed_signal.subscribe(self, lambda _: self.repaint())
        self.set_interval(AGE_EVERY, self._age)

    def begin(self) -> None:
        """The frame is on the screen: now what is stored, all of it."""
        self.view_model.load_edition()
        self.repaint()
        self.call_after_refresh(self._go_on)

    def _go_on(self) -> None:
        """Everything stored can be seen: now the network and the checks, whose threads take time from painting."""
        gc.freeze()  # the modules and the screens stay as long as the program
        gc.set_threshold(COLLECT_AFTER)
        gc.enable()  # off since the start of the program, for a quicker first paint
        if self._start_session:
            with contextlib.suppress(LabError):  # the state says it: offline, and why
                self.session.start()
        self.session.watch_logs(self.view_model.tokens_on_screen(), self.view_model.visible_log())
        self.view_model.check_later(self.repaint_soon)
        if self.view_model.edition_problem is not None:
            self.report(self.view_model.edition_problem)
        for problem in self._key_problems:
            self.report_sentence(problem)
        if (why := self.session.why_read_only) is not None:
            self.report(why)

    def on_unmount(self) -> None:
        """Nobody is listening any more."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        if self.prompter is not None:
            self.prompter.close()

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Every key, click and line of the palette comes through here: where one may only look, changes end here.

        An action that a screen has a key for, and does not have itself, is the app's.
        """
        reason, name = self.session.why_read_only, action if isinstance(action, str) else action[1]
        if reason is not None and not actions.only_looks(name):
            self.notify(reason.sentence, severity="warning", timeout=4, markup=False)
            return True
        if isinstance(default_namespace, Screen) and not self._has(default_namespace, name):
            default_namespace = self
        return await super().run_action(action, default_namespace, namespaces)

    async def on_action_asked(self, message: ActionAsked) -> None:
        """A click on a key of the bottom line."""
        await self.do(message.name)

    async def do(self, name: str) -> None:
        """Run an action of the registry where it lives: on the screen, else on the app."""
        await self.run_action(f"{'screen' if self._has(self.screen, name) else 'app'}.{name}")

    @staticmethod
    def _has(screen: DOMNode, name: str) -> bool:
        method = f"action_{name.partition('(')[0]}"
        return hasattr(screen, method) or hasattr(screen, f"_{method}")  # Textual's own screens have such

    def go_to_task(self, task_id: str) -> None:
        """Another task: what was said of the one before goes, but for errors."""
        if task_id != self.view_model.task_id:
            for each in list(self._notifications):
                if each.severity != "error":
                    self._unnotify(each, refresh=False)
            self._refresh_notifications()
        self.view_model.choose_task(task_id)
        self.repaint()
        self.view_model.check_later(self.repaint_soon)

    def answer_files(self) -> AnswerFiles:
        from labtui.session.answers import AnswerFiles

        return AnswerFiles(self.session, lambda: self.view_model.edition)

    def unmark_runs(self) -> None:
        """No run is marked any more."""
        if self.view_model.marked:
            self.view_model.marked = frozenset()
            self.repaint()

    def open_editor(self, path: Path) -> bool:
        """Leave the screen to the student's editor; says whether it ran."""
        command = editor_command()
        if not command:
            self.notify(
                "Set the environment variable EDITOR to your editor's command.",
                severity="warning",
                markup=False,
            )
            return False
        failed: OSError | None = None
        try:
            with self.suspend():  # what is raised in here would keep Textual from coming back
                try:
                    subprocess.run([*command, str(path)], check=False)
                except OSError as error:
                    failed = error
        except SuspendNotSupported:
            self.notify(
                f"An editor cannot be opened here. The file is {path}.",
                severity="warning",
                markup=False,
            )
            return False
        if failed is not None:
            self.notify(
                f"{command[0]} could not be started: {failed.strerror}.", severity="error", markup=False
            )
        return failed is None

    # ------------------------------------------------------------------ view states

    @property
    def main(self) -> StateScreen | None:
        """The main screen, whatever lies over it."""
        return next((screen for screen in self.screen_stack if isinstance(screen, StateScreen)), None)

    def _arrived(self, update: Update) -> None:
        """In the journal's thread: the newest state, and what of it is told to who looks elsewhere."""
        self.post_message(StateArrived(update.state))
        if self._tracker is not None and (notices := self._tracker.notices(update.state, update.events)):
            self.post_message(Noticed(notices))

    def on_state_arrived(self, message: StateArrived) -> None:
        """The session's newest state; also the tick that lets logs look at their files again."""
        if self.screen_stack:  # none is left while the app closes
            self.lab = message.state

    def watch_lab(self, old: LabState, new: LabState) -> None:
        """The first state is painted at once, the last one always; checks when what they rest on may have changed."""
        self.view_model.arrived(new)
        self._repaint_for_state()
        if checks_may_differ(old, new):
            self.view_model.check_later(self.repaint_soon)
        self._toast_new_problems(new)

    def _repaint_for_state(self) -> None:
        """A log that streams brings twenty states a second: they are painted every `REPAINT_EVERY`."""
        if self._repaint_resting:
            self._repaint_due = True
            return
        self._repaint_resting, self._repaint_due = True, False
        self.set_timer(REPAINT_EVERY, self._repaint_rested)
        self.repaint()

    def _repaint_rested(self) -> None:
        self._repaint_resting = False
        if self._repaint_due:
            self._repaint_for_state()

    def repaint(self) -> None:
        """Compute the view state; widgets watch it."""
        self.session.watch_logs(self.view_model.tokens_on_screen(), self.view_model.visible_log())
        main = self.main
        if main is not None and main.is_mounted and main.view_state is not None:
            with self.batch_update():
                self.view_state = self.view_model.view_state()

    def check_again(self) -> None:
        """Look at all boxes again: the student's files changed."""
        self.view_model.check_later(self.repaint_soon)

    def repaint_soon(self) -> None:
        """From another thread: a new view state when the screens come to it."""
        self.call_later(self.repaint)

    def _age(self) -> None:
        for note in self.incidents[self._incidents_shown :]:
            self._incidents_shown += 1
            self.notify(note.text, title=f"{note.title}.", severity="warning", timeout=20, markup=False)
        if self.view_model.files_changed():
            self.check_again()
        main = self.main
        if main is not None and main.view_state is not None and main is self.screen:
            main.show_age(self.view_model.view_state())

    def _toast_new_problems(self, state: LabState) -> None:
        """New problems as messages, where the screen has no lines of its own for them."""
        keys = frozenset(problem.key for problem in state.problems)
        for problem in () if self.screen.query(ProblemLines) else state.problems:
            if problem.key not in self._known_problems:
                self.notify(
                    problem.hint or problem.sentence,
                    title=problem.sentence if problem.hint else "",
                    severity="error",
                    markup=False,
                )
        self._known_problems = keys

    # ------------------------------------------------------------------ told to a student who looks elsewhere

    def on_noticed(self, message: Noticed) -> None:
        """A job started, ended or failed: ring the terminal, show it on the desktop, as the settings say."""
        from labtui.session.notifications import DesktopNotifier, terminal_sequence

        how = self.session.settings.notifications
        if how == "off" or self.session.read_only:
            return  # who only looks in is not the one to be told
        if self.desktop is None and not self.is_headless:
            self.desktop = DesktopNotifier()
        for notice in message.notices:
            self.write_to_terminal(terminal_sequence(notice))
            if how == "desktop" and self.desktop is not None:
                self.desktop.show(notice)

    def write_to_terminal(self, sequence: str) -> None:
        """Send a sequence past the screens' last gate: only one of our own making, its text made harmless."""
        if self._driver is not None:
            self._driver.write(sequence)

    def action_notifications(self) -> None:
        """Desktop and terminal, the terminal alone, or nothing; kept in the lab folder's settings."""
        from labtui.session.notifications import HOW, keep_how

        ways = list(HOW)
        how = ways[(ways.index(self.session.settings.notifications) + 1) % len(ways)]
        try:
            self.session.settings = keep_how(self.session, how)
        except LabError as error:
            self.report(error)
            return
        self.notify(f"Notifications of a job's start, end and failure: {HOW[how]}.", markup=False)

    # ------------------------------------------------------------------ questions of the worker

    def on_prompt_asked(self, message: PromptAsked) -> None:
        """Passwords, codes and fingerprints: one modal at a time, in order."""
        self._prompts.append(message)
        if len(self._prompts) == 1:
            self._ask_next()

    def _ask_next(self) -> None:
        from labtui.tui.screens.prompts import prompt_screen

        message = self._prompts[0]

        def answered(answer: str | None) -> None:
            message.reply.put(answer)
            self._prompts.pop(0)
            if self._prompts:
                self._ask_next()

        self.push_screen(prompt_screen(message.question), answered)

    # ------------------------------------------------------------------ ends of actions

    def follow(self, name: str, request: Callable[[], Any], done: str, about: Any = None) -> None:
        """Start a request to the session; its end arrives as a message."""
        try:
            future: Future[Any] = request()
        except LabError as error:
            self.report(error)
            return

        def ended(finished: Future[Any]) -> None:
            if not finished.cancelled():
                error = finished.exception()
                result = None if error else finished.result()
                self.post_message(ActionEnded(name, done, result, error, about))

        future.add_done_callback(ended)

    def on_action_ended(self, message: ActionEnded) -> None:
        """Say how it went; an unexpected error goes to the log file that is named."""
        if message.error is not None and message.name != "test-only":
            self.report(message.error)
        elif message.done or message.name == "export":
            self.notify(message.done or str(message.result), markup=False)
            self.view_model.check_later(self.repaint_soon)
        handler = getattr(self.screen, "action_ended", None)
        if handler is not None:
            handler(message)

    def _refresh_notifications(self) -> None:
        """Messages go to the lines above the keys where the screen has them, else to Textual's toasts."""
        for lines in self.screen.query(MessageLines):
            lines.take(self._notifications)
            self._in_lines = {each.identity for each in self._notifications}
            return
        everything, fresh = self._notifications, Notifications()
        for each in everything:
            if each.identity not in self._in_lines:  # those stand below the dialog already
                fresh.add(each)
        self._notifications = fresh
        try:
            super()._refresh_notifications()
        finally:
            self._notifications = everything

    def choose_theme(self, name: str) -> None:
        """Change the colours, for the next time too."""
        self.theme = name
        keep_theme(name)

    def report(self, error: BaseException) -> None:
        """An error as a sentence and a hint."""
        if isinstance(error, LabError):
            title, body = error.sentence, error.hint
        else:
            self.session.faults.write(error)
            title = "Something unexpected happened; labtui continues."
            body = f"Details are in {self.session.folder.problem_log.name}."
        self.notify(body or title, title=title if body else "", severity="error", timeout=10, markup=False)

    def report_sentence(self, sentence: str) -> None:
        """A warning in words."""
        self.notify(sentence, severity="warning", markup=False)
