"""`LabApp`: the Textual app for an open session. It receives states, questions and results, and repaints widgets."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import reactive, widget
from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.notifications import Notify
from textual.screen import Screen
from textual.widgets._toast import Toast, ToastRack

from labtui.domain.errors import LabError
from labtui.session.notifications import Notifier
from labtui.tui import STYLES, guidance, messages
from labtui.tui.screens.main import MainScreen
from labtui.tui.themes import ANSWER_S, Notice, SanitizedApp
from labtui.tui.view import NO_VIEW, View
from labtui.tui.view_model import ViewModel
from labtui.tui.widgets.frame import CHANGING, FramedScreen, key

if TYPE_CHECKING:
    from textual.actions import ActionParseResult
    from textual.dom import DOMNode
    from textual.widget import AwaitMount

    from labtui.domain.model import SubmissionDraft
    from labtui.domain.state import LabState
    from labtui.practice.incidents import IncidentNote
    from labtui.session.session import Session
    from labtui.tui.plan_model import Asked, Verdict

OTHER_PROCESS_ENDS_S = 1.5
"""How long another labtui that is closing may take; then that the folder is taken is reported."""
OPEN_AGAIN = 75
"""The return code of the app that asks to be started again on its folder."""
TICK_S = 1.0
"""How often the ages on the screen are renewed."""
CHECK_EVERY_S = 0.5
CHECK_PAUSE_FACTOR = 4
"""A check of the tasks is followed by a pause this many times as long, of `CHECK_EVERY_S` at least."""
REPAINT_EVERY_S = 0.1
"""Minimum seconds between two repaints for new states; a key or a click repaints at once."""
COLLECT_AFTER = 20_000
"""New objects before the garbage collector runs: a repaint makes thousands, most freed by reference counts alone."""


class LabApp(SanitizedApp[int]):
    """The app for one open lab folder. The caller owns the session and closes it afterwards."""

    TITLE = "labtui"
    CSS_PATH = [STYLES / "base.tcss", STYLES / "main.tcss"]  # noqa: RUF012 - as Textual declares it
    BINDINGS: ClassVar[list[BindingType]] = [
        key("full_stop", "do_next", "Next step", "do what the card Next says", show=True, priority=True),
        key("ctrl+p,colon", "command_palette", "Palette", "find an action or a task by its name", show=True),
        key("question_mark,f1", "page('help')", "Help", "the keys that act here", show=True),
        key("D", "doctor", "Doctor", "check connection, account, queues and paths"),
        key("Q", "page('jobs')", "My jobs", "all your jobs in the queue, not only labtui's"),
        key("exclamation_mark", "page('problems')", "Problems", "problems and incidents, with hints"),
        key("u", "refresh_now", "Update", "ask the cluster now, or connect again"),
        key("q,ctrl+q", "leave", "Quit", "close labtui; asks first if something would be lost"),
    ]
    notifier: Notifier
    back = ""
    """The pane from which the log was opened, and to which `esc` leaves it."""
    view: reactive.var[View] = reactive.var(NO_VIEW, init=False, always_update=True)
    """What is shown: the main screen and each pane watch it and take their part."""
    keep_in: Path | None = None
    """Where to keep a practice session that would otherwise be deleted."""
    with_tour = False
    """Whether to show the tour of the first start."""

    def __init__(
        self,
        session: Session,
        *,
        prompter: messages.ScreenPrompter | None = None,
        pane: str = "",
        incidents: Sequence[IncidentNote] = (),
        factor: float | None = None,
        kept: bool = True,
    ) -> None:
        """`factor` is how much faster than real time a practice cluster runs; if not `kept`, its folder is deleted."""
        super().__init__()
        self.animation_level = "none"  # nothing moves unless what it shows changed
        self.session, self.prompter = session, prompter
        self.view_model = ViewModel(session, factor=factor)
        self.main = MainScreen(pane or ("runs" if self.view_model.view().run_id is not None else "task"))
        self._kept = kept
        self._verdicts: dict[Asked, Verdict] = {}  # Slurm's answers for plans that were left
        self.incidents = incidents
        self._incidents_noticed = self._incidents_notified = 0
        self._editor_named = False  # whether the student was told which editor opens
        self._left = threading.Event()

    def get_default_screen(self) -> Screen[Any]:
        return self.main

    def on_mount(self) -> None:
        """Start the timer; what happened before now is not notified."""
        self.notifier = Notifier(self.session, self.write_to_terminal, desktop=not self.is_headless)
        self.theme_changed_signal.subscribe(self, lambda _: self.repaint())
        self.set_interval(TICK_S, self._tick)

    def on_unmount(self) -> None:
        """Stop the thread that waits for states and checks tasks."""
        self._left.set()

    def begin(self) -> None:
        """After the first paint: show everything that is stored."""
        try:
            self.view_model.load_edition()
        except LabError as error:
            self.report(error)
        self.repaint()
        self.call_after_refresh(self._start_session)

    def _start_session(self) -> None:
        """After everything stored is shown: start the network and the checks, whose threads compete with painting."""
        gc.freeze()  # modules and screens live as long as the program
        gc.set_threshold(COLLECT_AFTER)
        gc.enable()  # off since the start of the program, for a quicker first paint
        threading.Thread(target=self._follow_states, name="labtui-updates", daemon=True).start()
        if self.with_tour:
            from labtui.tui.screens.modals import show_tour

            show_tour(self)
        if (why := self.session.why_read_only) is not None:
            self.report(why)

    def _connect(self) -> None:
        with contextlib.suppress(LabError):  # the state says that it is offline, and why
            self.session.start()
        self.view_model.watch_logs(self.view)

    def notify(self, message: str, **options: Any) -> None:
        """Show a message as it is, never as markup."""
        options |= {"timeout": options.get("timeout") or self.NOTIFICATION_TIMEOUT, "markup": False}
        self.post_message(Notify(Notice(message, **options)))

    def on_notify(self, event: Notify) -> None:
        """Show a message once, not again without its hint, and one answer to a key: the newest."""
        new = event.notification
        for each in list(self._notifications):
            if each.message.startswith(new.message) or each.timeout <= ANSWER_S >= new.timeout:
                self._unnotify(each)

    def _refresh_notifications(self) -> None:
        """Show the messages on the uppermost screen only, not also on those behind it.

        A message that goes leaves no blank row, as it would in Textual.
        """
        for toast in self.screen.query(Toast) if self.screen_stack else ():
            if toast._notification not in self._notifications and isinstance(toast.parent, widget.Widget):
                toast.parent.remove()
        super()._refresh_notifications()
        for below in self.screen_stack[:-1]:
            self.call_later(below.query(ToastRack).set, display=False)

    def exit_on_signal(self) -> None:
        self.save_answers()
        super().exit_on_signal()

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run the action of a key, a click or the palette; if it is disabled, notify the reason instead.

        In a read-only folder, actions that change something are disabled.
        """
        home = self if default_namespace is None else default_namespace
        if reason := self.why_refused(*self._parse_action(action, home, namespaces)):
            self.notify(reason, severity="warning", timeout=ANSWER_S)
            return True
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except LabError as error:
            self.report(error)
            return True

    def why_refused(self, target: DOMNode, method: str, parameters: tuple[object, ...]) -> str:
        """Why an action of `target` is disabled now; "" if it is not."""
        if method == "do_next":
            method = guidance.next_step(self.view).action.partition("(")[0]
        if (reason := self.session.why_read_only) is not None and method in CHANGING:
            return reason.sentence
        return getattr(target, "why_disabled", lambda *_: "")(method, parameters) or ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """As Textual asks: None for what a read-only folder refuses, which has no key in the footer."""
        return None if self.why_refused(self, action, parameters) else True

    def _follow_states(self) -> None:
        """In a thread of its own: show new states, at most one every `REPAINT_EVERY_S`, and check the tasks."""
        import labtui.session.cluster_worker  # noqa: F401 - it takes long, and a key must not wait for it

        self.call_later(self._connect)
        told, due = self.view_model.state, 0.0
        while not self._left.is_set():
            state = self.session.next_state(told, CHECK_EVERY_S)
            phases, before = ([run.phase for run in each.runs.values()] for each in (state, told))
            begun, checked = time.monotonic(), False
            if phases != before or begun >= due:  # counts and rows change at once
                checked = self._check_tasks(state)
                now = time.monotonic()
                due = now + max(CHECK_EVERY_S, CHECK_PAUSE_FACTOR * (now - begun))
            is_new, told = state is not told, state
            if not (is_new or checked):
                continue
            self.call_later(self.take_state, state)
            if is_new and not self.session.read_only:  # else the process that writes the folder notifies
                self.notifier(state, getattr(self.view_model.edition, "names", {}))
            self._left.wait(REPAINT_EVERY_S)

    def _check_tasks(self, state: LabState) -> bool:
        """Check the tasks; return whether that changed anything, also their first check."""
        try:
            checked = self.view_model.check_tasks(state)
        except Exception as error:  # a check must never take the screens down
            self.session.faults.write(error)
            return False
        if checked:  # screens are imported in this thread, so that their first key need not wait
            import labtui.tui.screens.plan
            import labtui.tui.widgets.answers_pane  # noqa: F401
        return checked

    def take_state(self, state: LabState) -> None:
        """Show the state that the tasks were checked with, so that counts and runs agree."""
        shown = self.view_model.state.submissions
        if len(state.submissions) >= len(shown):  # else it is older than what is shown
            self.view_model.state = state
            self.repaint()

    def repaint(self) -> None:
        """Compute the view, which the widgets watch."""
        if self.screen_stack and self.main.is_mounted:  # no screen while the app closes
            before = self.main.view
            with self.one_frame(self.main):
                self.view = self.view_model.view()
            self.view_model.watch_logs(self.view)
            self._announce_done_tasks(before)

    def _announce_done_tasks(self, before: View) -> None:
        """Notify each task that is done now and was not in the view `before`."""
        for task, check in self.view.checks.items():
            if check.done and task in before.checks and not before.checks[task].done:
                result = guidance.result_line(self.view) if task == self.view.task_id else ""
                self.notify(f"Task {task} is done.{result and f' {result}.'}", timeout=8)

    def _tick(self) -> None:
        """Repaint, and tell incidents: a tick after each, when the cluster's answer about it is in the panes."""
        for note in self.incidents[self._incidents_notified : self._incidents_noticed]:
            self.notify(f"{note.title}. Press ! for details.", severity="warning")
        self._incidents_notified, self._incidents_noticed = self._incidents_noticed, len(self.incidents)
        if self._incidents_notified < self._incidents_noticed and not self.session.state.connection.lost:
            self.session.refresh()  # else it would connect again before it is seen to be offline
        self.repaint()

    def go_to_task(self, task_id: str) -> None:
        """Select another task and repaint at once, so that no old result is under the new title."""
        self.view_model.choose_task(task_id)
        self.repaint()

    def choose_run(self, run_id: int) -> None:
        """Select another run of the current task."""
        self.view_model.chosen = run_id
        self.repaint()

    async def action_open_log_of(self, run_id: int, back: str = "") -> None:
        """Select another run of the current task and show its log; `esc` there goes back to the pane `back`."""
        self.choose_run(run_id)
        await self.main.show_pane("log", back)

    def save_answers(self) -> None:
        """Store an answer that is being written."""
        for pane in self.main.query("AnswersPane"):
            pane.save()  # type: ignore[attr-defined]

    def write_to_terminal(self, sequence: str) -> None:
        """Send a terminal sequence past the sanitizer: only labtui's own sequences, with their text made inert."""
        if self._driver is not None:
            self._driver.write(sequence)

    def send(
        self,
        request: Callable[[], Future[Any]],
        said: str | None = "",
        then: Callable[[Any, BaseException | None], object] | None = None,
    ) -> None:
        """Start a request to the session. Then call `then(result, error)`, or notify `said` (None: the result)."""
        try:
            future = request()
        except LabError as error:
            self.report(error)
            return

        def ended(finished: Future[Any]) -> None:
            if not finished.cancelled():
                error = finished.exception()
                result = None if error else finished.result()
                self.call_later(then or report_end, result, error)

        def report_end(result: Any, error: BaseException | None) -> None:
            if error is not None:
                self.report(error)
            elif text := str(result) if said is None else said:
                self.notify(text)
                self.repaint()

        future.add_done_callback(ended)

    def ask(self, question: Screen[str | None], then: Callable[[str], None]) -> AwaitMount:
        """Push a dialog, and call `then` with its answer unless nothing is to be done."""
        return self.push_screen(question, lambda answer: then(answer) if answer is not None else None)

    def report(self, error: BaseException) -> None:
        """Notify an error by its sentence and hint; an unexpected one is written to the problem log, which is named."""
        if isinstance(error, LabError):
            said = f"{error.sentence} {error.hint}".rstrip()
        else:
            self.session.faults.write(error)
            said = f"Internal error: see {self.session.folder.problem_log.name}."
        self.notify(said, severity="error", timeout=10)

    def open_editor(self, path: Path) -> bool:
        """Suspend the app and run the student's editor on a file; return whether it ran."""
        try:
            with self.suspend():  # an exception in here would keep Textual suspended
                problem = messages.edit(path, explain=not self._editor_named)
        except SuspendNotSupported:
            problem = LabError(f"An editor cannot be opened here. The file is {path}.")
        self._editor_named = True
        self.keys_since = Message().time  # keys typed before now were meant for the editor
        if problem is not None:
            self.report(problem)
        return problem is None

    async def action_do_next(self) -> None:
        """Take the next step."""
        screen = self.screen
        if not isinstance(screen, FramedScreen):
            return
        action = screen.step.action
        if not action:
            self.notify(screen.step.label)
            return
        if action == "edit" and isinstance(screen, MainScreen):
            await screen.show_pane("task")  # where the file to edit is the script
        home = self if action in {"refresh_now", "doctor", "leave"} else screen
        await self.run_action(action, home)

    async def show_plan(self, task_id: str, drafts: Iterable[SubmissionDraft], why: str = "") -> None:
        """Push the plan screen. `why` is a remark on these runs, "" for those of the task's own plan.

        A plan stands below the title of its own task; leaving it goes back to the task before.
        """
        from labtui.tui.plan_model import Plan
        from labtui.tui.screens.plan import PlanScreen

        if (edition := self.view_model.edition) is not None:
            if (before := self.view.task_id) != task_id:
                self.go_to_task(task_id)
            if isinstance(self.screen, MainScreen):
                await self.screen.show_note("Opening the plan ...")
            plan = Plan(self.session, edition, task_id, tuple(drafts), why)
            for asked in [asked for asked, each in self._verdicts.items() if each.error is not None]:
                del self._verdicts[asked]  # Slurm did not answer
            plan.verdicts = self._verdicts
            screen = PlanScreen(plan, None if task_id == before else before)
            screen.confirms_after = float("inf")  # until it can be seen
            with self.one_frame(screen, then=lambda: setattr(screen, "confirms_after", Message().time)):
                await self.push_screen(screen)
            self.main.show_frame(self.main.view)

    def action_page(self, name: str) -> None:
        """Push a page of text (a key of `PAGES`); on that page itself, close it."""
        from labtui.tui.screens.modals import PAGES, TextScreen

        title, make = PAGES[name]
        if self.screen.title == title:
            self.pop_screen()
        else:
            if name == "jobs":
                self.session.refresh()
            page = TextScreen(title, partial(make, self))
            self.push_screen(page)
            if name != "help":  # which is about the screen below, as it was
                page.watch(self, "view", page.show, init=False)

    def active_actions(self, screen: Screen[Any]) -> Iterator[tuple[DOMNode, Binding, str]]:
        """Each action with a key on this screen, once, the innermost node's first, and why it is disabled now."""
        found = {each.binding.action: each for each in reversed(screen.active_bindings.values())}
        for node, binding, _, tooltip in reversed(found.values()):
            if tooltip:
                yield node, binding, self.why_refused(*self._parse_action(binding.action, node))

    def action_command_palette(self) -> None:
        """Open the command palette, with a placeholder that says what it is for."""
        from labtui.tui.screens.modals import Actions, Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette([Actions], placeholder="Find an action or a task by its name"))

    def action_doctor(self) -> None:
        """Open the doctor, which checks everything that a job needs."""
        from labtui.tui.screens.modals import DoctorScreen

        self.push_screen(DoctorScreen())

    def action_refresh_now(self, *, late: bool = False) -> None:
        """Poll the cluster now; in place of a window that was closed, or is `late` so, open the folder again."""
        if self.session.other_closed:
            self.open_again()
        elif self.session.why_read_only is None:
            self.session.refresh()
        elif late:
            self.report(self.session.why_read_only)
        else:  # the process that has the folder may be about to end
            self.set_timer(OTHER_PROCESS_ENDS_S, partial(self.action_refresh_now, late=True))

    def open_again(self) -> None:
        """Close the folder and open it again, at the same task and pane."""
        self.save_answers()
        self.exit(return_code=OPEN_AGAIN)

    def action_leave(self) -> None:
        """Leave; ask first if something would be lost."""
        from labtui.tui.screens.modals import LOST, STOPS, ask_before_leaving

        if any(getattr(each, "text", "") in (LOST, STOPS) for each in self.screen_stack):
            return  # it is asked already
        self.save_answers()
        self.run_worker(ask_before_leaving(self, kept=self._kept))
