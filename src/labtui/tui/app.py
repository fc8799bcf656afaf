"""`LabApp`: bindings and routing, nothing else. What actions do is in `operations`, what screens say in `view`."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual.binding import BindingType
from textual.reactive import reactive
from textual.screen import Screen

from labtui.core.state import LabState
from labtui.errors import LabError
from labtui.tui import actions, themes
from labtui.tui.bridge import Bridge, ScreenPrompter
from labtui.tui.desk import Desk
from labtui.tui.harmless import HarmlessApp
from labtui.tui.messages import ActionAsked, ActionEnded, PromptAsked, StateArrived
from labtui.tui.operations import Operations
from labtui.tui.palette import ActionProvider
from labtui.tui.screens.main import MainScreen

STYLES = Path(__file__).parent / "styles"
AGE_EVERY = 1.0


class LabApp(Operations, HarmlessApp[int]):
    """The screens over one open lab folder. The caller owns the session and closes it afterwards."""

    TITLE = "labtui"
    CSS_PATH = [  # noqa: RUF012 - as Textual declares it
        STYLES / "base.tcss",
        STYLES / "main.tcss",
    ]
    COMMANDS: ClassVar[set[Any]] = {ActionProvider}
    COMMAND_PALETTE_BINDING = "f24"  # ours is in the registry
    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("app")]
    lab: reactive[LabState] = reactive(LabState, init=False, always_update=True)

    def __init__(
        self,
        session: Any,
        *,
        prompter: ScreenPrompter | None = None,
        clock: Callable[[], float] = time.time,
        pane: str = "",
        start: bool = True,
        lessons: Sequence[tuple[str, str]] = (),
        factor: float | None = None,
        kept: bool = True,
    ) -> None:
        """`factor` is how much faster than real a rehearsal's clock goes; `kept` false: its folder goes with it."""
        super().__init__()
        themes.register(self)
        self.session = session
        self.prompter = prompter
        self.desk = Desk(session, clock=clock, factor=factor)
        self._bridge = Bridge(session, self.post_message)
        self._first_pane = pane or ("runs" if self.desk.run_id is not None else "task")
        self._start_session = start
        self._kept = kept
        self.lessons = lessons
        self._lessons_told = 0
        self._known_problems: frozenset[str] = frozenset()
        self._prompts: list[PromptAsked] = []

    # ------------------------------------------------------------------ life

    def get_default_screen(self) -> Screen[Any]:
        """The main screen is the default one."""
        return MainScreen(self._first_pane)

    def on_mount(self) -> None:
        """Paint what is stored first; the network comes after."""
        if self.prompter is not None:
            self.prompter.attach(self.post_message)
        self._bridge.open()
        self.theme_changed_signal.subscribe(self, lambda _: self.repaint())
        self.set_interval(AGE_EVERY, self._age)

    def begin(self) -> None:
        """The frame is on the screen: now what is stored, all of it."""
        self.desk.load_edition()
        self.repaint()
        self.call_after_refresh(self._go_on)

    def _go_on(self) -> None:
        """Everything stored can be seen: now the network and the checks, whose threads take time from painting."""
        gc.enable()  # off since the start of the program, for a quicker first paint
        if self._start_session:
            with contextlib.suppress(LabError):  # the state says it: offline, and why
                self.session.start()
        self.session.watch_logs(self.desk.tokens_on_screen())
        self.desk.check_later(self._repaint_soon)
        if self.desk.edition_problem is not None:
            self.report(self.desk.edition_problem)
        if self.session.read_only:
            self.notify("Another labtui has this lab folder open; this window only looks.", markup=False)

    def on_unmount(self) -> None:
        """Nobody is listening any more."""
        self._bridge.close()
        if self.prompter is not None:
            self.prompter.close()

    # ------------------------------------------------------------------ pictures

    @property
    def main(self) -> MainScreen | None:
        """The main screen, whatever lies over it."""
        return next((screen for screen in self.screen_stack if isinstance(screen, MainScreen)), None)

    def on_state_arrived(self, message: StateArrived) -> None:
        """The session's newest state; also the tick that lets logs look at their files again."""
        self.lab = message.state

    def watch_lab(self, old: LabState, new: LabState) -> None:
        """One repaint per state; checks only when what they rest on may have changed."""
        self.desk.arrived(new)
        self.repaint()
        if old.runs is not new.runs or old.submissions is not new.submissions:
            self.desk.check_later(self._repaint_soon)
        self._toast_new_problems(new)

    def repaint(self) -> None:
        """Compute the picture and hand it to the screen."""
        self.session.watch_logs(self.desk.tokens_on_screen())
        main = self.main
        if main is not None and main.is_mounted and main.picture is not None:
            main.show(self.desk.picture())

    def check_again(self) -> None:
        """Look at all boxes again: the student's files changed."""
        self.desk.check_later(self._repaint_soon)

    def _repaint_soon(self) -> None:
        """From another thread: a new picture when the screens come to it."""
        self.call_later(self.repaint)

    def _age(self) -> None:
        for title, text in self.lessons[self._lessons_told :]:
            self._lessons_told += 1
            self.notify(text, title=title, severity="warning", timeout=20, markup=False)
        main = self.main
        if main is not None and main.picture is not None and main is self.screen:
            main.show_age(self.desk.picture())

    def _toast_new_problems(self, state: LabState) -> None:
        keys = frozenset(problem.key for problem in state.problems)
        for problem in state.problems:
            if problem.key not in self._known_problems:
                self.notify(
                    problem.hint or problem.sentence,
                    title=problem.sentence if problem.hint else "",
                    severity="error",
                    markup=False,
                )
        self._known_problems = keys

    # ------------------------------------------------------------------ questions of the lane

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
            future = request()
        except LabError as error:
            self.report(error)
            return
        self._bridge.follow(name, future, done, about)

    def on_action_ended(self, message: ActionEnded) -> None:
        """Say how it went; an unexpected error goes to the log file that is named."""
        if message.error is not None and message.name != "test-only":
            self.report(message.error)
        elif message.done or message.name == "export":
            self.notify(message.done or str(message.result), markup=False)
            self.desk.check_later(self._repaint_soon)
        handler = getattr(self.screen, "action_ended", None)
        if handler is not None:
            handler(message)

    def report(self, error: BaseException) -> None:
        """An error as a sentence and a hint."""
        if isinstance(error, LabError):
            title, body = error.sentence, error.hint
        else:
            self.session.faults.write(error)
            title = "Something unexpected happened; labtui goes on."
            body = f"Details are in {self.session.folder.problem_log.name}."
        self.notify(body or title, title=title if body else "", severity="error", timeout=10, markup=False)

    def report_sentence(self, sentence: str) -> None:
        """A warning in words."""
        self.notify(sentence, severity="warning", markup=False)

    # ------------------------------------------------------------------ actions everywhere

    async def on_action_asked(self, message: ActionAsked) -> None:
        """A click on a key of the bottom line."""
        await self.do(message.name)

    async def do(self, name: str) -> None:
        """Run an action of the registry where it lives: on the screen, else on the app."""
        method = name.split("(", maxsplit=1)[0]
        owner = "screen" if hasattr(self.screen, f"action_{method}") else "app"
        await self.run_action(f"{owner}.{name}")

    def action_palette(self) -> None:
        """Find an action by its name."""
        self.action_command_palette()

    def action_help(self) -> None:
        """All keys with what they do."""
        from labtui.tui.screens.help import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            place = self.screen.pane if isinstance(self.screen, MainScreen) else "plan"
            self.push_screen(HelpScreen(place))

    def action_remote_commands(self) -> None:
        """What labtui asked the cluster."""
        from labtui.tui.screens.remote_commands import RemoteCommands

        if not isinstance(self.screen, RemoteCommands):
            self.push_screen(RemoteCommands(self.session, self.desk.clock))

    def action_problems(self) -> None:
        """Errors that are not over."""
        from labtui.tui.screens.texts import TextScreen, problems_text

        self.push_screen(
            TextScreen(
                "Problems that are not over", problems_text(self.desk.state, self.session, self.lessons)
            )
        )

    def action_refresh_now(self) -> None:
        """Ask the cluster now."""
        if self.desk.state.connection.status in {"offline", "needs-login"}:
            self.session.connect_now()
        self.session.refresh()
        self.desk.check_later(self._repaint_soon)

    async def action_leave(self) -> None:
        """Leave; say what goes on without us. What is lost by leaving is asked about first."""
        self.keep_answers()
        if self._kept or not self.desk.state.runs:
            self.exit(0)
            return
        from labtui.tui.screens.prompts import Confirm

        text = "This practice evening is not kept: its runs, answers and exports go when you leave."
        self.push_screen(Confirm(text, yes="Leave", no="Stay"), lambda yes: self.exit(0) if yes else None)
