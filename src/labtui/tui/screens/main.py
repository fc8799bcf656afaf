"""The main screen: header, rail with the tasks, five panes behind tabs, note line, footer."""

import asyncio
import contextlib
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace
from textual import binding, on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import ContentSwitcher, OptionList, Tab, Tabs

from labtui.domain.model import RunPhase
from labtui.domain.run import run_numbers
from labtui.domain.state import TRAINING
from labtui.tui import STYLES, messages, themes, view_model
from labtui.tui.guidance import NextStep, instead_of_runs, remedy, runs_to_retry, same_again
from labtui.tui.view import View
from labtui.tui.widgets.frame import FramedScreen, TaskList, key, say

PANES = {"task": "Task", "runs": "Runs", "log": "Log", "charts": "Charts", "answers": "Answers"}


class MainScreen(FramedScreen):
    """The screen with the panes. A pane is mounted when it is first shown, and watches the app's view."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[binding.BindingType]] = [
        key("escape,g", "escape", "Back", "close the list", show=True),
        key("s", "plan", "Plan", "choose, check and submit the runs of this task", show=True),
        key("R", "retry_run", "Run again", "plan what failed, changed as it needs (labtui retry)", show=True),
        # where no task needs it
        key("R", "retry_run(())", "Run again", "plan the selected run again (labtui retry)"),
        key("r", "pane('runs')", "Runs", "the runs of this task with state and numbers", show=True),
        key("l", "pane('log')", "Log", "the output of the selected run as it grows", show=True),
        key("c", "pane('charts')", "Charts", "the views 1 to 5; again: the next chart of a view", show=True),
        *(key(str(at), f"chart({at})", *each) for at, each in enumerate(view_model.ABOUT_VIEWS.items(), 1)),
        key("a", "pane('answers')", "Answers", "the questions of this task and what you write", show=True),
        key("x", "export", "Export", "write tables, charts and the deck of slides", show=True),
        key("e", "edit", "Edit", "the script, or your answers, in your own editor", show=True),
        key("b", "start_copy", "Make the copy", "copy the script that the task has you change", show=True),
        key("t", "pane('task')", "Task", "what to do, why, what is still missing"),
        key("g", "task_list", "Tasks", "all tasks with their runs, exports and answers", show=True),
        key("ctrl+n", "next_question", "Next question", "write the next missing answer", priority=True),
        key("ctrl+k,T,H", "act_on_run", "Cancel or hold", "a run, or limit it: in runs (r) or log (l)"),
    ]

    def __init__(self, pane: str = "task") -> None:
        super().__init__()
        self.pane = pane

    def content(self) -> ComposeResult:
        tabs = Tabs(*(Tab(name, id=pane) for pane, name in PANES.items()), active=self.pane)
        tabs.can_focus = False
        yield tabs
        yield ContentSwitcher(id="panes")

    def on_mount(self) -> None:
        """Paint the frame first; the pane is mounted afterwards."""
        self.show(self.app.view_model.view())
        self.watch(self.app, "view", self.show, init=False)
        self.call_later(self._first_pane)

    async def _first_pane(self) -> None:
        self.app.stylesheet.read(STYLES / "panes.tcss")
        self.app.stylesheet.parse()  # `read` alone leaves the cached rules unchanged
        await self._ensure_pane(self.pane)
        self._switch()
        if self.pane == "task" and self.has_class("-rail"):
            self.set_focus(self.query_one(TaskList))  # choosing a task is the first thing to do
        else:
            self.focus_pane()
        self.app.view = self.view
        self.app.call_after_refresh(self.app.begin)

    @property
    def step(self) -> NextStep:
        """The next step; why a run is to be run again is said once, where its card says it."""
        step, card = super().step, f"retry_run(({self.view.run_id},))" if self.pane == "runs" else ""
        if step.action == "edit" and self.pane == "answers":
            return replace(step, key=".")  # `e` edits another file here
        if step.action == f"pane({self.pane!r})":  # it is being done
            training = (each.run for each in self.view.runs.values() if each.phase in TRAINING)
            run = next((each for each in training if each.task_id not in ("", self.view.task_id)), None)
            if run is None or self.pane != "runs":
                return replace(step, action="")
            reason = f"Run {run.run_id} trains there. {step.reason}"
            return NextStep(f"Go to {run.task_id}", reason, f"go_to({run.task_id!r})", ".")
        return replace(step, reason="") if step.action == card else step

    # ------------------------------------------------------------------ panes

    async def _ensure_pane(self, name: str) -> None:
        if not self.query(f"#pane-{name}"):
            module = import_module(f"labtui.tui.widgets.{name}_pane")  # late, for a quick first paint
            pane = getattr(module, f"{name.capitalize()}Pane")(id=f"pane-{name}")
            await self.query_one("#panes", ContentSwitcher).add_content(pane)
            pane.watch(self.app, "view", pane.show, init=False)

    async def show_pane(self, name: str, back: str = "") -> None:
        """Show a pane, which `esc` leaves for the pane `back`."""
        model, self.app.back = self.app.view_model, back
        if name == self.pane == "runs":  # again: the run to look at
            model.chosen = None
            self.app.repaint()
        self.pane = name
        if name != "log":
            model.reading = None
        elif model.chosen is model.reading is None:
            model.reading = self.view.run_to_read
        with self.app.one_frame(self):
            await self._ensure_pane(name)
            self._switch()
            self.app.view = self.view  # the current view, so that the pane need not wait for the next one
        self.focus_pane()

    def _switch(self) -> None:
        if len(self.query(f"#{self.pane}, #pane-{self.pane}")) < 2:
            return  # another one was asked for meanwhile, and is shown once it is mounted; or the program is being left
        with self.prevent(Tabs.TabActivated):
            self.query_one(Tabs).active = self.pane
        self.query_one("#panes", ContentSwitcher).current = f"pane-{self.pane}"
        self.remove_class("-open")
        self.refresh_bindings()

    def focus_pane(self, *, if_none: bool = False) -> None:
        """Focus the widget of the pane that uses the arrow keys: one marked "-first", else the first focusable one.

        `if_none`: only if none has the focus by now.
        """
        if self.has_class("-open") or (if_none and self.focused) or not self.query(f"#pane-{self.pane}"):
            return
        pane = self.query_one(f"#pane-{self.pane}")
        parts = (pane, *pane.query(".-first"), *pane.query("*")) if pane.is_mounted else ()
        first = next((each for each in parts if each.focusable), None)
        self.set_focus(first)  # at once: the next keys may already be queued

    @on(Tabs.TabActivated)
    async def _tab(self, event: Tabs.TabActivated) -> None:
        event.stop()
        if event.tab.id and event.tab.id != self.pane and self.query("#panes > *"):
            await self.show_pane(event.tab.id)

    # ------------------------------------------------------------------ the view

    def show(self, view: View) -> None:
        """Repaint the frame and the tabs with a new view."""
        self.show_frame(view)
        for tab in self.query(Tab):
            count = view.count(tab.id or "")
            met = f"{count}{' exported' if tab.id == 'charts' and count.of > 0 else ''}"
            said = f"· {count.stale} outdated" if count.stale else met
            label = f"{themes.pointer(chosen=tab.id == self.pane)}{PANES[tab.id or 'task']} {said}".strip()
            if str(tab.label) != label:
                tab.label = Content(label)
        if self.focused is None and self.query("#panes > *"):  # the focused one was hidden, may be back
            self.call_after_refresh(self.focus_pane, if_none=True)
        self.refresh_bindings()

    def why_disabled(self, action: str, parameters: tuple[object, ...]) -> str | None:
        """Why an action is disabled; None (no key) for what is shown already."""
        view = self.view
        chose = self.pane == "runs" and self.app.view_model.chosen is not None
        here = not isinstance(self.focused, TaskList)
        is_open = self.has_class("-open")
        shown = {"task_list": is_open, "escape": not is_open}
        if again := runs_to_retry(view) if action == "retry_run" and not any(parameters) else ():
            shown["retry_run"] = any(remedy(view, each).label for each in again) is bool(parameters)
        if shown.get(action, action == "pane" and here and parameters == (self.pane,) and not chose):
            return None
        line, plans = view.line, view.task is not None and bool(view.task.runs)
        if action == "plan" and not (plans or self.app.view_model.own_jobs or view.loading):
            return instead_of_runs(view)
        if action == "retry_run" and line is not None and not (again or any(parameters)):
            way = "s, then d if it is left out" if plans else f"`labtui retry {line.run_id} --again`"
            told = f" To run it again: {way}." if line.phase is RunPhase.DONE else ""
            return f"Run {line.run_id} is {line.word}.{told}"
        if action == "start_copy" and all(path.is_file() for path in self._copies()):
            return "The copy is there: e edits it." if self._copies() else "This task asks for no copy."
        asked = view.task is not None and view.task.questions
        if action == "edit" and not (asked if self.pane == "answers" else self._edited().is_file()):
            return "There is no file to edit here."
        none = "" if line is not None else "There is no run here."
        acts = none or "This key acts on a run: go to the runs (r) or the log (l) first."
        exporting = "The export is still under way." if view.exporting else ""
        return {"act_on_run": acts, "retry_run": none, "export": exporting}.get(action, "")

    # ------------------------------------------------------------------ choosing

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Go back from the task list to the pane on enter."""
        event.stop()
        self.action_escape()

    # ------------------------------------------------------------------ actions of this screen

    action_pane = show_pane

    async def action_chart(self, number: int) -> None:
        """Show a view of the charts, by its number there."""
        again = self.pane == "charts"  # from another pane it only opens
        await self.show_pane("charts")
        self.query_one("ChartsPane").action_view([*view_model.VIEWS][number - 1], again)  # type: ignore[attr-defined]

    def action_task_list(self) -> None:
        """Show the task list as a page, with what each task still needs."""
        self.add_class("-open")
        self.query_one(TaskList).focus()

    def action_escape(self) -> None:
        """Close the page of tasks."""
        self.remove_class("-open")
        self.focus_pane()

    async def action_next_question(self) -> None:
        """Edit the next missing answer, from any pane: after the task's last one, that of another task."""
        from labtui.tui.widgets.answers_pane import AnswersPane

        if self.pane != "answers" or self.has_class("-open"):
            await self.show_pane("answers")
        answers, typed = self.query_one(AnswersPane), asyncio.Event()
        answers.editor.call_later(typed.set)
        await typed.wait()  # else letters that still wait for the editor would come into the next answer
        if answers.next_question():
            return
        if (task_id := answers.next_task()) is None:
            said = "No answer is missing." if self.view.edition is not None else instead_of_runs(self.view)
            self.app.notify(said, timeout=themes.ANSWER_S)
            return
        self.app.go_to_task(task_id)
        answers.next_question()
        self.app.notify(f"Now task {task_id}, question {answers.question + 1}.")

    async def action_go_to(self, task_id: str) -> None:
        """Select another task and show its task pane."""
        self.app.go_to_task(task_id)
        await self.show_pane("task")

    async def show_note(self, text: str) -> None:
        """Say on the note line that a key was taken whose screen is being made; wait a moment until it is painted."""
        painted = asyncio.Event()
        say(self, "#note", themes.ink(text, themes.roles(self.app).soft))
        self.call_after_refresh(painted.set)
        with contextlib.suppress(TimeoutError):  # a click keeps this screen from painting
            await asyncio.wait_for(painted.wait(), 0.5)

    # ------------------------------------------------------------------ plans

    async def action_plan(self) -> None:
        """Make the plan of the current task and push its screen; a key that comes early waits for the edition."""
        if self.view.loading:
            self.set_timer(0.1, partial(self.app.run_action, "plan", self))
            return
        task_id = self.app.view_model.task_id
        await self.app.show_plan(task_id, self.app.session.drafts(task_id) if task_id else ())

    async def action_retry_run(self, these: Sequence[int] = ()) -> None:
        """Plan `these` runs again, else those of `runs_to_retry`; each is changed according to how it ended."""
        from labtui.session.planning import retry_after

        view = self.view
        again = [view.runs[number] for number in these] or runs_to_retry(view)
        jobs = {line.run.token: line for line in reversed(again)}
        lines = sorted(jobs.values(), key=lambda line: line.run_id)
        proposals = [retry_after(self.app.session, line.run_id, same=same_again(line)) for line in lines]
        alike: dict[str, list[int]] = {}  # runs of one sentence
        for line, proposal in zip(lines, proposals, strict=True):
            alike.setdefault(proposal.sentence, []).append(line.run_id)
        said = [f"{run_numbers(who)}: {why}" if len(lines) > 1 else why for why, who in alike.items()]
        unneeded = (step.reason for step in (remedy(view, line) for line in lines) if not step.label)
        said += [why for why in dict.fromkeys(unneeded) if why not in said[0]]
        drafts = tuple(draft for each in proposals for draft in each.drafts)
        await self.app.show_plan(lines[0].run.task_id, drafts, " ".join(said))

    # ------------------------------------------------------------------ files

    def action_edit(self) -> None:
        """Open the file that belongs to the current pane and run in the student's editor."""
        self.app.save_answers()
        self.app.open_editor(self._edited())

    def _edited(self) -> Path:
        """In that pane the answers; else the run's job file or script; else the task's first script."""
        view, folder, line = self.view, self.app.session.folder, self.view.line
        if self.pane == "answers":
            from labtui.session.labs import AnswerFiles

            return AnswerFiles(self.app.session).path(view.task_id)
        if line is not None and line.submission is not None and line.submission.job_file:
            return folder.slurm / line.submission.job_file
        copies = [path.name for path in self._copies() if path.is_file()]
        names = (*copies, *(view.task.files if view.task is not None else ()), "")
        return folder.scripts / (line.run.spec.script if line is not None else names[0])

    def _copies(self) -> list[Path]:
        """The paths of the scripts that the task asks the student to make by copying another one."""
        task, scripts = self.view.task, self.app.session.folder.scripts
        return [scripts / target for _, target in task.copies_to_start] if task is not None else []

    async def action_start_copy(self) -> None:
        """Make the copy, and show the task, where `e` edits it."""
        self.start_copy(self.view.task)
        await self.show_pane("task")

    def action_export(self) -> None:
        """Export tables, charts and slides in a process of its own; the note line shows its progress."""
        app, model = self.app, self.app.view_model

        def show(done: str) -> None:
            model.exporting = done and f"Exporting {done}"
            app.repaint()

        def start() -> Future[str]:
            keep = app.session.keep_choice  # in the lab, so that they can still be read tomorrow
            keep(remarks="")  # those of an older export are no longer true
            show("charts, tables and slides ...")
            folder, told = app.session.folder.path, partial(app.call_later, show)
            future = messages.export_all(folder, told, lambda said: keep(remarks="\n".join(said)))
            future.add_done_callback(lambda _: told(""))
            return future

        app.send(start, None)


KEYS_TO_LEAVE = [
    key(each.key, f"choose_task(None, {each.action!r})", each.description, each.tooltip or "")
    for each in MainScreen.BINDINGS
    if isinstance(each, binding.Binding) and each.action.startswith(("pane(", "chart(", "task_list"))
]
"""The keys of the panes, the charts and the task list, for a screen that they leave."""
