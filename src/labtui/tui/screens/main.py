"""The one main screen: header, rail of tasks, five panes behind tabs, the line of messages, keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Tab, Tabs

from labtui.tui.guidance import next_task, oom_run
from labtui.tui.keys import key
from labtui.tui.messages import RunChosen, TaskChosen
from labtui.tui.screens.task_actions import TaskActions
from labtui.tui.view import ENDED_BADLY, View
from labtui.tui.widgets.frame import Foot, HeaderBar, NoteLine, Rail, TaskList, TitleBar

if TYPE_CHECKING:
    from textual.widgets import OptionList

    from labtui.tui.app import LabApp
    from labtui.tui.widgets.answers_pane import AnswersPane


@runtime_checkable
class Shows(Protocol):
    """A part of the screen that takes its slice of the view."""

    def show(self, view: View) -> None:
        """Bring it up to date."""


PANES = {"task": "Task", "runs": "Runs", "log": "Log", "charts": "Charts", "answers": "Answers"}


class MainScreen(TaskActions):
    """Frames the panes. A pane is made when it is first shown, and watches the app's view."""

    app: LabApp
    AUTO_FOCUS = ""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-rail")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (30, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        key("t", "pane('task')", "Task", "what to do, why, what is still missing"),
        key("r", "pane('runs')", "Runs", "the runs of this task with their state and their numbers"),
        key("l", "pane('log')", "Log", "the output of the selected run as it grows", show=True),
        key("c", "pane('charts')", "Charts", "time, throughput, speedup, efficiency, training", show=True),
        key("a", "pane('answers')", "Answers", "the questions of this task and what you write"),
        key("s", "plan", "Submit", "see the plan of this task, change it, check it, submit it", show=True),
        key("x", "export", "Export", "write tables, charts and slides into the lab folder", show=True),
        key(
            "e", "edit", "Edit", "open the script, a copy of the log or the answers in your editor", show=True
        ),
        key(
            "b",
            "start_copy",
            "Begin copy",
            "start the script a task asks for; later: how yours differs",
            show=True,
        ),
        key("g", "task_list", "Tasks", "go to the list of tasks; enter goes back to the pane", show=True),
        key("left_square_bracket", "step_task(-1)", "Task before", "go to the previous task"),
        key("right_square_bracket", "step_task(1)", "Task after", "go to the following task"),
        key("ctrl+n", "next_question", "Next answer", "write the next answer that is missing", urgent=True),
        key("p", "push", "Push", "send the scripts to the cluster now"),
        key("w", "shell_commands", "By hand", "the shell commands that do the same, ready to copy"),
        key("escape", "escape", "Back", "close what is open; unmark runs"),
    ]

    def __init__(self, pane: str = "task") -> None:
        super().__init__()
        self.pane = pane
        self.view: View | None = None

    def compose(self) -> ComposeResult:
        yield HeaderBar()
        with Horizontal(id="body"):
            yield Rail(id="rail")
            with Vertical(id="content"):
                yield TitleBar()
                yield Tabs(*(Tab(name, id=pane) for pane, name in PANES.items()), active=self.pane)
                yield ContentSwitcher(id="panes")
        with Vertical(id="bottom"):
            yield NoteLine()
            yield Foot()

    def on_mount(self) -> None:
        """What frames the panes is painted first; the pane comes into it."""
        self.query_one(Tabs).can_focus = False
        self.show(self.app.view_model.view())
        self.watch(self.app, "view", self.show, init=False)
        self.call_later(self._first_pane)

    async def _first_pane(self) -> None:
        self.app.read_styles("panes")
        await self._ensure_pane(self.pane)
        self._switch()
        self.app.view = self.view
        self.app.call_after_refresh(self.app.begin)
        if self.pane == "task" and self.has_class("-rail"):
            self.query_one(TaskList).focus()  # choosing a task is what one does first
        else:
            self.focus_pane()

    # ------------------------------------------------------------------ panes

    async def _ensure_pane(self, name: str) -> Widget:
        found = self.query(f"#pane-{name}")
        if found:
            return found.first()
        pane = self._make_pane(name)
        await self.query_one("#panes").mount(pane)
        if isinstance(pane, Shows):
            pane.watch(self.app, "view", pane.show, init=False)
        return pane

    def _make_pane(self, name: str) -> Widget:
        model = self.app.view_model
        if name == "runs":
            from labtui.tui.widgets.runs_pane import RunsPane

            return RunsPane(model.log_paths, self.app.gpu_use.of, id="pane-runs")
        if name == "log":
            from labtui.tui.widgets.log_pane import LogPane

            return LogPane(model.log_paths, id="pane-log")
        if name == "charts":
            from labtui.tui.widgets.charts_pane import ChartsPane

            return ChartsPane(id="pane-charts")
        if name == "answers":
            from labtui.tui.widgets.answers_pane import AnswersPane

            pane = AnswersPane(self.app.answer_files(), id="pane-answers")
            pane.report = self.app.report_sentence
            pane.stored = self.app.check_again
            return pane
        from labtui.tui.widgets.task_pane import TaskPane

        return TaskPane(id="pane-task")

    def _answers(self) -> AnswersPane:
        from labtui.tui.widgets.answers_pane import AnswersPane

        return self.query_one(AnswersPane)

    async def show_pane(self, name: str) -> None:
        self.pane = name
        await self._ensure_pane(name)
        self._switch()
        self.app.view = self.view  # as it is: the pane need not wait for another to be computed
        self.focus_pane()

    def _switch(self) -> None:
        with self.prevent(Tabs.TabActivated):
            self.query_one(Tabs).active = self.pane
        self.query_one("#panes", ContentSwitcher).current = f"pane-{self.pane}"
        self.remove_class("-open")
        self.refresh_bindings()

    def focus_pane(self) -> None:
        """Put the focus where the arrow keys mean something: on a part marked "-first", else on the first that can."""
        if self.has_class("-open"):
            return
        pane = self.query_one(f"#pane-{self.pane}")
        parts = (pane, *pane.query(".-first"), *pane.query("*")) if pane.is_mounted else ()
        self.set_focus(
            next((each for each in parts if each.focusable), None)
        )  # at once: keys may wait already

    @on(Tabs.TabActivated)
    async def _tab(self, event: Tabs.TabActivated) -> None:
        event.stop()
        if event.tab.id and event.tab.id != self.pane and self.query("#panes > *"):
            await self.show_pane(event.tab.id)

    # ------------------------------------------------------------------ the view

    def show(self, view: View) -> None:
        """A new view: what frames the panes repaints."""
        self.view = view
        for part in self.query("HeaderBar, TitleBar, Rail, NoteLine").results(Widget):
            if isinstance(part, Shows):
                part.show(view)
        counts = {pane: str(view.count(pane)) for pane in ("runs", "charts", "answers")}
        for tab in self.query(Tab):
            label = f"{PANES[tab.id or 'task']} {counts.get(tab.id or '', '')}".strip()
            if str(tab.label) != label:
                tab.label = Content(label)
        self.refresh_bindings()

    def show_age(self, view: View) -> None:
        """Only time went on."""
        for part in self.query("HeaderBar, TitleBar, NoteLine").results(Widget):
            if isinstance(part, Shows):
                part.show(view)

    def on_resize(self) -> None:
        """What stands where depends on the width."""
        self.call_after_refresh(self.app.repaint)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The footer has what acts here: `l` and `c` are offered on the runs, `b` where a task asks for a copy."""
        view = self.view
        if action in {"halve_batch", "retry_run"} and view is not None:
            if self.pane not in {"runs", "log"}:
                return False
            oom = oom_run(view) is not None
            return oom if action == "halve_batch" else any(line.phase in ENDED_BADLY for line in view.meant)
        if action == "start_copy" and view is not None and view.task is not None:
            from labtui.lab.plan import copies_to_start

            return bool(copies_to_start(view.task))
        return not (action == "pane" and parameters == (self.pane,))

    # ------------------------------------------------------------------ choosing

    @on(TaskChosen)
    def _task_chosen(self, event: TaskChosen) -> None:
        event.stop()
        self.app.go_to_task(event.task_id)

    @on(RunChosen)
    async def _run_chosen(self, event: RunChosen) -> None:
        event.stop()
        self.app.view_model.choose_run(event.run_id)
        self.app.repaint()
        if event.open_log:
            await self.show_pane("log")

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter in the list of tasks goes back to the pane."""
        event.stop()
        self.remove_class("-open")
        self.focus_pane()

    # ------------------------------------------------------------------ actions of this screen

    async def action_pane(self, name: str) -> None:
        await self.show_pane(name)

    def action_task_list(self) -> None:
        """Go to the list of tasks; on narrow screens it is a page of its own."""
        self.add_class("-open")
        self.query_one(TaskList).focus()

    def action_step_task(self, step: int) -> None:
        """The task before or after."""
        names = [row.task_id for row in self.app.view_model.view().tasks]
        if self.app.view_model.task_id in names:
            place = names.index(self.app.view_model.task_id) + step
            if 0 <= place < len(names):
                self.app.go_to_task(names[place])

    def action_escape(self) -> None:
        """Close the list of tasks, unmark runs."""
        self.remove_class("-open")
        self.app.unmark_runs()
        self.focus_pane()

    async def action_next_question(self) -> None:
        """Write the next answer that is missing, from any pane; after the last one go on."""
        if self.pane != "answers":
            await self.show_pane("answers")
        if not self._answers().next_question():
            self._answers().leave()
            await self._after_answers()

    async def _after_answers(self) -> None:
        """Every question of the task has an answer: go on, unless runs or files are missing here."""
        view = self.app.view_model.view()
        missing = [item for item in view.check.items if not item.met] if view.check else []
        rest = [item for item in missing if item.kind not in {"answers", "charts", "hand-in"}]
        if rest:
            self.notify(f"Every question has an answer. Still missing: {rest[0].missing}", markup=False)
            return
        charts = " Its charts are exported with x." if any(item.kind == "charts" for item in missing) else ""
        self.notify(f"Every question of {view.task_id} has an answer.{charts}", markup=False)
        names, ahead = [row.task_id for row in view.tasks], next_task(view)
        if ahead is not None and names.index(ahead.task_id) > names.index(view.task_id):
            await self.action_next_open_task()
