"""The one main screen: header, tasks, five panes, waiting line, problems, keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widget import Widget

from labtui.tui import actions
from labtui.tui.messages import PaneAsked, RunChosen, TaskChosen
from labtui.tui.view import Picture, task_rows, waiting_line
from labtui.tui.widgets.chrome import KeyLine, OneLine, ProblemLines, TabBar
from labtui.tui.widgets.header import HeaderBar
from labtui.tui.widgets.task_line import TaskLine

if TYPE_CHECKING:
    from textual.widgets import OptionList

    from labtui.tui.app import LabApp

PANE_FOCUS = {"task": "#pane-task", "runs": "#runs-table", "log": "#log-out", "charts": "#pane-charts"}


class MainScreen(Screen[None]):
    """Watches the app's picture and hands each part its slice. Panes are made when first shown."""

    app: LabApp
    AUTO_FOCUS = ""
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (72, "-narrow"), (108, "-wide")]  # noqa: RUF012
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
        self.picture: Picture | None = None

    def compose(self) -> ComposeResult:
        """Top to bottom."""
        yield HeaderBar()
        yield TaskLine()
        with Horizontal(id="body"):
            yield Vertical(id="side")
            with Vertical(id="main"):
                yield TabBar()
                yield Vertical(id="panes")
        with Vertical(id="bottom"):
            yield OneLine(id="waiting")
            yield ProblemLines()
            yield KeyLine()

    def on_mount(self) -> None:
        """What frames the panes is painted first; the pane comes into it."""
        self.show(self.app.desk.picture())
        self._after_switch()
        self.call_later(self._first_pane)

    async def _first_pane(self) -> None:
        from labtui.tui.widgets.task_list import NextStep, TaskList

        await self.query_one("#side").mount(TaskList(id="tasks"), NextStep())
        await self._ensure_pane(self.pane)
        self._after_switch()
        if self.picture is not None:
            self.show(self.picture)
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
        return pane

    def _make_pane(self, name: str) -> Widget:
        if name == "runs":
            from labtui.tui.widgets.runs_pane import RunsPane

            return RunsPane(id="pane-runs")
        if name == "log":
            from labtui.tui.widgets.log_pane import LogPane

            return LogPane(id="pane-log")
        if name == "charts":
            return self._make_charts()
        if name == "answers":
            from labtui.tui.widgets.answers_pane import AnswersPane

            pane = AnswersPane(id="pane-answers")
            pane.desk = self.app.answer_desk()
            pane.report = self.app.report_sentence
            pane.stored = self.app.check_again
            return pane
        from labtui.tui.widgets.task_pane import TaskPane

        return TaskPane(id="pane-task")

    def _make_charts(self) -> Widget:
        from labtui.tui.gallery import Gallery
        from labtui.tui.widgets.charts_pane import ChartsPane

        pane = ChartsPane(id="pane-charts")
        pane.gallery = Gallery(self.app.desk, lambda: self.app.call_later(self.app.repaint))
        return pane

    async def show_pane(self, name: str) -> None:
        """Go to a pane."""
        self.pane = name
        await self._ensure_pane(name)
        self._after_switch()
        if self.picture is not None:
            self._show_pane(self.picture)
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
        for line in self.query(KeyLine):
            line.show(actions.foot(*places))

    def on_descendant_focus(self) -> None:
        """Another part has the keys."""
        self._show_keys()

    def on_descendant_blur(self) -> None:
        """No part has the keys, perhaps."""
        self._show_keys()

    def action_leave_text(self) -> None:
        """Leave an answer's text: keys are keys again."""
        self.set_focus(None)

    def focus_pane(self) -> None:
        """Put the focus where the arrow keys mean something."""
        if self.query_one("#body").has_class("-open"):
            return
        if wanted := PANE_FOCUS.get(self.pane):
            found = self.query(wanted)
            if found and found.first().display:
                found.first().focus()
                return
        self.set_focus(None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of a pane work only there."""
        if action in {"streams", "records", "search", "search_next", "follow"}:
            return self.pane == "log"
        if action == "next_question":
            return self.pane == "answers"
        if action in {"chart", "chart_kind", "chart_network", "enlarge_chart"}:
            return self.pane == "charts"
        return True

    # ------------------------------------------------------------------ the picture

    def show(self, picture: Picture) -> None:
        """A new picture: each part takes its slice and repaints only what changed."""
        self.picture = picture
        if not self.query(HeaderBar) or not self.query(KeyLine):
            return  # the screen is being taken down
        with self.app.batch_update():
            self.query_one(HeaderBar).picture = picture
            self.query_one(TaskLine).picture = picture
            for widget in self.query_one("#side").children:
                widget.show(picture)  # type: ignore[attr-defined]
            self.query_one("#waiting", OneLine).text = waiting_line(picture)
            self.query_one(ProblemLines).problems = picture.state.problems
            self._show_pane(picture)

    def show_age(self, picture: Picture) -> None:
        """Only time went on."""
        for header in self.query(HeaderBar):
            header.picture = picture

    def _show_pane(self, picture: Picture) -> None:
        found = self.query(f"#pane-{self.pane}")
        if not found:
            return
        pane = found.first()
        paths = self.app.desk.log_paths() if self.pane in {"runs", "log"} else {}
        if self.pane == "runs":
            pane.show(picture, paths.get("out"))  # type: ignore[attr-defined]
        elif self.pane == "log":
            pane.show(picture, paths)  # type: ignore[attr-defined]
        else:
            pane.show(picture)  # type: ignore[attr-defined]

    def on_resize(self) -> None:
        """Column gaps and folds depend on the width."""
        if self.picture is not None:
            self.call_after_refresh(self.show, self.picture)

    # ------------------------------------------------------------------ choosing

    @on(TaskChosen)
    def _task_chosen(self, event: TaskChosen) -> None:
        event.stop()
        self.app.desk.choose_task(event.task_id)
        self.app.repaint()

    @on(RunChosen)
    async def _run_chosen(self, event: RunChosen) -> None:
        event.stop()
        self.app.desk.choose_run(event.run_id)
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
        """Go to a pane."""
        await self.show_pane(name)

    def action_task_list(self) -> None:
        """Go to the list of tasks; on narrow screens it opens over the pane."""
        self.query_one("#body").add_class("-open")
        if found := self.query("#tasks"):
            found.first().focus()

    def action_step_task(self, step: int) -> None:
        """The task before or after."""
        names = [row.task_id for row in task_rows(self.app.desk.picture())]
        if names and self.app.desk.task_id in names:
            place = names.index(self.app.desk.task_id) + step
            if 0 <= place < len(names):
                self.app.go_to_task(names[place])

    async def key_escape(self) -> None:
        """Close what is open; else leave a text."""
        side = self.query_one("#body")
        if side.has_class("-open"):
            side.remove_class("-open")
        elif self.pane == "log" and self.query_one("#pane-log").close_search():  # type: ignore[attr-defined]
            return
        elif self.pane == "answers":
            self.set_focus(None)
            return
        self.focus_pane()

    async def key_enter(self) -> None:
        """In the answers pane: write."""
        if self.pane == "answers" and self.focused is None:
            self.query_one("#answer-text").focus()

    def action_streams(self) -> None:
        """Out, err or both."""
        self.query_one("#pane-log").toggle_streams()  # type: ignore[attr-defined]

    def action_records(self) -> None:
        """Machine-readable records: shown or folded."""
        self.query_one("#pane-log").toggle_records()  # type: ignore[attr-defined]

    def action_search(self) -> None:
        """Search the log."""
        self.query_one("#pane-log").open_search()  # type: ignore[attr-defined]

    def action_search_next(self, step: int) -> None:
        """Next or previous match."""
        self.query_one("#pane-log").search_next(step)  # type: ignore[attr-defined]

    def action_follow(self) -> None:
        """Follow the log's end."""
        self.query_one("#pane-log").follow()  # type: ignore[attr-defined]

    def action_chart(self, step: int) -> None:
        """Another chart."""
        self.query_one("#pane-charts").step(step)  # type: ignore[attr-defined]

    def action_chart_network(self, step: int) -> None:
        """The charts of another network, or of all together."""
        self.query_one("#pane-charts").step_network(step)  # type: ignore[attr-defined]

    def action_chart_kind(self) -> None:
        """Bars or lines."""
        if not self.query_one("#pane-charts").switch_kind():  # type: ignore[attr-defined]
            self.notify("This chart has one form only.", markup=False)

    def action_enlarge_chart(self) -> None:
        """One chart, or four."""
        self.query_one("#pane-charts").enlarge()  # type: ignore[attr-defined]

    def action_next_question(self) -> None:
        """The next question without an answer."""
        self.query_one("#pane-answers").next_question()  # type: ignore[attr-defined]

    async def action_plan(self) -> None:
        """The plan of this task."""
        await self.app.open_plan()

    async def action_end_after(self) -> None:
        """The student's own limit for the selected run's job."""
        self.app.ask_end_after()

    async def action_cancel_run(self) -> None:
        """Cancel the selected run."""
        self.app.ask_cancel()

    async def action_halve_batch(self) -> None:
        """Half the batch after an out-of-memory."""
        await self.app.halve_batch()

    async def action_search_batch(self) -> None:
        """The largest batch that fits."""
        await self.app.search_batch()  # type: ignore[attr-defined]

    def action_push(self) -> None:
        """Send the scripts."""
        self.app.push()

    def action_edit(self) -> None:
        """The file that belongs here, in the student's editor."""
        self.app.edit_here(self.pane)

    def action_start_copy(self) -> None:
        """Begin a script of one's own."""
        self.app.start_copy()

    def action_export(self) -> None:
        """Tables, charts, deck."""
        self.app.export()

    def action_shell_commands(self) -> None:
        """The plain commands."""
        self.app.show_shell_commands()
