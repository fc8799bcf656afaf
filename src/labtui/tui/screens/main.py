"""The one main screen: header, tasks, five panes, submission queue, problems, keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from labtui.tui import actions
from labtui.tui.guidance import context_keys, next_task
from labtui.tui.messages import PaneAsked, RunChosen, TaskChosen
from labtui.tui.session_app import STYLES, SessionApp, StateScreen
from labtui.tui.view import ViewState, lost_sentence, queued_here, tab_badges, task_rows
from labtui.tui.widgets.frame import HeaderBar, KeyLine, MessageLines, OneLine, ProblemLines, TabBar, TaskLine

if TYPE_CHECKING:
    from textual.widgets import OptionList

    from labtui.tui.widgets.answers_pane import AnswersPane
    from labtui.tui.widgets.charts_pane import ChartsPane
    from labtui.tui.widgets.run_panes import LogPane


@runtime_checkable
class Shows(Protocol):
    """A part of the screen that takes its slice of the view state."""

    def show(self, view_state: ViewState) -> None:
        """Bring it up to date."""


PANE_FOCUS = {
    "task": "#pane-task",
    "runs": "#runs-table",
    "log": "#log-out",
    "charts": "#pane-charts",
    "answers": "#answer-cards",
}


class MainScreen(StateScreen):
    """Frames the panes and what goes with them. Panes are made when first shown, and watch the app's view state."""

    app: SessionApp
    AUTO_FOCUS = ""
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (72, "-narrow"), (120, "-wide"), (170, "-huge")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (18, "-short"), (30, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        *actions.bindings("main"),
        *actions.bindings("log"),
        *actions.bindings("charts"),
        *actions.bindings("answers"),
    ]

    def __init__(self, pane: str = "task") -> None:
        super().__init__()
        self.pane = pane
        self.view_state: ViewState | None = None

    def compose(self) -> ComposeResult:
        yield HeaderBar()
        yield TaskLine()
        with Horizontal(id="body"):
            yield Vertical(id="side")
            with Vertical(id="main"):
                yield TabBar()
                yield Vertical(id="panes")
        with Vertical(id="bottom"):
            yield OneLine(id="lost", classes="lost-connection")
            yield OneLine(id="waiting")
            yield ProblemLines()
            yield MessageLines()
            yield KeyLine()

    def on_mount(self) -> None:
        """What frames the panes is painted first; the pane comes into it."""
        self.show(self.app.view_model.view_state())
        self.watch(self.app, "view_state", self.show, init=False)
        self._after_switch()
        self.call_later(self._first_pane)

    async def _first_pane(self) -> None:
        from labtui.tui.widgets.tasks import NextCard, TaskList

        self.app.stylesheet.read(STYLES / "panes.tcss")
        beside = (TaskList(id="tasks", classes="panel"), NextCard())
        await self.query_one("#side").mount(*beside)
        for part in beside:
            self._let_watch(part)
        await self._ensure_pane(self.pane)
        self._after_switch()
        self.app.view_state = self.view_state
        self.app.call_after_refresh(self.app.begin)
        if self.query_one("#side").display and self.pane == "task":
            self.query_one("#tasks").focus()  # choosing a task is what one does first
        else:
            self.focus_pane()

    # ------------------------------------------------------------------ panes

    async def _ensure_pane(self, name: str) -> Widget:
        found = self.query(f"#pane-{name}")
        if found:
            return found.first()
        pane = self._make_pane(name)
        await self.query_one("#panes").mount(pane)
        self._let_watch(pane)
        return pane

    def _let_watch(self, part: Widget) -> None:
        """A part takes its slice of every view state itself."""
        if isinstance(part, Shows):
            part.watch(self.app, "view_state", part.show, init=False)

    def _make_pane(self, name: str) -> Widget:
        if name == "runs":
            from labtui.tui.widgets.run_panes import RunsPane

            return RunsPane(self.app.view_model.log_paths, id="pane-runs")
        if name == "log":
            from labtui.tui.widgets.run_panes import LogPane

            model = self.app.view_model
            return LogPane(model.log_paths, id="pane-log", classes="panel")
        if name == "charts":
            return self._make_charts()
        if name == "answers":
            from labtui.tui.widgets.answers_pane import AnswersPane

            pane = AnswersPane(self.app.answer_files(), id="pane-answers")
            pane.report = self.app.report_sentence
            pane.stored = self.app.check_again
            return pane
        from labtui.tui.widgets.tasks import TaskPane

        return TaskPane(id="pane-task", classes="panel")

    def _make_charts(self) -> Widget:
        from labtui.tui.view_model import Gallery
        from labtui.tui.widgets.charts_pane import ChartsPane

        pane = ChartsPane(id="pane-charts")
        pane.gallery = Gallery(self.app.view_model, self.app.repaint_soon)
        return pane

    def _log(self) -> LogPane:
        from labtui.tui.widgets.run_panes import LogPane

        return self.query_one(LogPane)

    def _charts(self) -> ChartsPane:
        from labtui.tui.widgets.charts_pane import ChartsPane

        return self.query_one(ChartsPane)

    def _answers(self) -> AnswersPane:
        from labtui.tui.widgets.answers_pane import AnswersPane

        return self.query_one(AnswersPane)

    async def show_pane(self, name: str) -> None:
        self.pane = name
        await self._ensure_pane(name)
        self._after_switch()
        self.app.view_state = self.view_state  # as it is: the pane need not wait for another to be computed
        self.focus_pane()

    def _after_switch(self) -> None:
        self.query_one(TabBar).current = self.pane
        for pane in self.query_one("#panes").children:
            pane.display = pane.id == f"pane-{self.pane}"
        self._show_keys()
        self.refresh_bindings()

    def _show_keys(self) -> None:
        """The keys that work here; in a text that is written they are letters, but for two."""
        typing = self.focused is not None and self.focused.id == "answer-text"
        places = ("typing",) if typing else (self.pane, "main", "app")
        view = self.view_state
        first = context_keys(view, self.pane) if view is not None and not typing else ()
        for line in self.query(KeyLine):
            line.show(self.keys(places, first))

    def keys(self, places: Sequence[str], first: Sequence[str]) -> list[actions.Action]:
        """What stands in the bottom line; nothing that changes something where one may only look."""
        shown = actions.foot(*places, first=first)
        if not self.app.session.read_only:
            return shown
        return [each for each in shown if actions.only_looks(each.name)]

    def on_descendant_focus(self) -> None:
        """Another part has the keys."""
        self._show_keys()

    def on_descendant_blur(self) -> None:
        """No part has the keys, perhaps."""
        self._show_keys()

    def action_leave_text(self) -> None:
        """Leave an answer's text: keys are keys again."""
        self._answers().leave()

    def focus_pane(self) -> None:
        """Put the focus where the arrow keys mean something."""
        if self.query_one("#body").has_class("-open"):
            return
        if wanted := PANE_FOCUS.get(self.pane):
            found = self.query(wanted)
            if found and found.first().display:
                self.set_focus(found.first())  # at once: keys that wait already come after
                return
        self.set_focus(None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of a pane work only there."""
        if action in {"streams", "records", "search", "search_next", "follow"}:
            return self.pane == "log"
        if action == "write_answer":
            return self.pane == "answers"
        if action in {"chart", "chart_kind", "chart_network", "enlarge_chart", "scroll_numbers"}:
            return self.pane == "charts"
        return True

    # ------------------------------------------------------------------ the view state

    def show(self, view_state: ViewState) -> None:
        """A new view state: what frames the panes repaints where it changed."""
        self.view_state = view_state
        if not self.query(HeaderBar) or not self.query(KeyLine):
            return  # the screen is being taken down
        self.query_one(HeaderBar).view_state = view_state
        self.query_one(TaskLine).view_state = view_state
        self.query_one("#lost", OneLine).text = lost_sentence(view_state)
        self.query_one("#waiting", OneLine).text = queued_here(view_state)
        self.query_one(TabBar).badges = tab_badges(view_state)
        self._show_keys()
        self.query_one(ProblemLines).problems = view_state.state.problems

    def show_age(self, view_state: ViewState) -> None:
        """Only time went on."""
        for header in self.query(HeaderBar):
            header.view_state = view_state

    def on_resize(self) -> None:
        """Column gaps and folds depend on the width."""
        self.call_after_refresh(self.app.repaint)

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

    @on(PaneAsked)
    async def _pane_asked(self, event: PaneAsked) -> None:
        event.stop()
        await self.show_pane(event.pane)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter in the list of tasks goes back to the pane."""
        event.stop()
        self.query_one("#body").remove_class("-open")
        self.focus_pane()

    # ------------------------------------------------------------------ actions of this screen

    async def action_pane(self, name: str) -> None:
        await self.show_pane(name)

    def action_task_list(self) -> None:
        """Go to the list of tasks; on narrow screens it opens over the pane."""
        self.query_one("#body").add_class("-open")
        if found := self.query("#tasks"):
            found.first().focus()

    def action_step_task(self, step: int) -> None:
        """The task before or after."""
        names = [row.task_id for row in task_rows(self.app.view_model.view_state())]
        if names and self.app.view_model.task_id in names:
            place = names.index(self.app.view_model.task_id) + step
            if 0 <= place < len(names):
                self.app.go_to_task(names[place])

    async def key_escape(self) -> None:
        """Close what is open; else leave a text."""
        side = self.query_one("#body")
        if side.has_class("-open"):
            side.remove_class("-open")
        elif self.pane == "log" and self._log().close_search():
            return
        elif self.pane == "answers":
            self._answers().leave()
            return
        self.app.unmark_runs()
        self.focus_pane()

    def action_write_answer(self) -> None:
        """Edit the chosen answer."""
        self._answers().write()

    def action_mark_run(self) -> None:
        """Mark the selected run, or take its mark away."""
        self.app.view_model.mark_run()
        self.app.repaint()

    def action_streams(self) -> None:
        self._log().toggle_streams()

    def action_records(self) -> None:
        """Machine-readable records: shown or folded."""
        self._log().toggle_records()

    def action_search(self) -> None:
        self._log().open_search()

    def action_search_next(self, step: int) -> None:
        """Next or previous match."""
        self._log().search_next(step)

    def edit_log(self) -> None:
        """A copy of the log in the student's editor."""
        self._log().edit_copy(self.app.open_editor)

    def action_follow(self) -> None:
        """Follow the log's end."""
        self._log().follow()

    def action_chart(self, step: int) -> None:
        self._charts().step(step)

    def action_chart_network(self, step: int) -> None:
        """The charts of another network, or of all together."""
        self._charts().step_network(step)

    def action_chart_kind(self) -> None:
        """Bars or lines."""
        if not self._charts().switch_kind():
            self.notify("This chart has one form only.", severity="warning", markup=False)

    def action_scroll_numbers(self, step: int) -> None:
        """Numbers and notes beside the charts."""
        self._charts().scroll_numbers(step)

    def action_enlarge_chart(self) -> None:
        self._charts().enlarge()

    async def action_next_question(self) -> None:
        """Write the next answer that is missing, from any pane; after the last one go on."""
        if self.pane != "answers":
            await self.show_pane("answers")
        if not self._answers().next_question():
            self._answers().leave()
            await self._after_answers()

    async def _after_answers(self) -> None:
        """Every question of the task has an answer: go to the next task, unless something else is missing here."""
        view = self.app.view_model.view_state()
        check = view.checks.get(view.task_id)
        rest = [item for item in check.items if not item.met and item.kind != "answers"] if check else []
        ahead = next_task(view)
        if rest:
            self.notify(f"Every question has an answer. Still missing: {rest[0].missing}", markup=False)
        elif ahead is not None:
            await self.app.do("next_open_task")
            self.notify(f"Every question of {view.task_id} has an answer.", markup=False)
        else:
            self.notify("Every question has an answer.", markup=False)
