"""`LabApp`: what the actions do. States and questions are the matter of `SessionApp`, sentences that of `view`."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.screen import Screen

from labtui.domain.errors import LabError
from labtui.domain.model import RunPhase
from labtui.tui.guidance import context_keys, done_already, next_step, next_task, oom_run
from labtui.tui.messages import RunsSubmitted
from labtui.tui.screens.main import MainScreen
from labtui.tui.session_app import SessionApp
from labtui.tui.themes import roles
from labtui.tui.view import LIVE_WORDS

if TYPE_CHECKING:
    from textual.command import Provider

    from labtui.domain.events import RunState
    from labtui.domain.model import SubmissionDraft

_OVER = {RunPhase.DONE, RunPhase.FAILED, RunPhase.CANCELLED}


def _palette() -> type[Provider]:
    """Read when the palette is opened first."""
    from labtui.tui.screens.prompts import ActionProvider

    return ActionProvider


class LabApp(SessionApp):
    """The screens over one open lab folder. The caller owns the session and closes it afterwards."""

    COMMANDS: ClassVar[set[Any]] = {_palette}
    COMMAND_PALETTE_BINDING = "f24"  # ours is in the registry
    exporting: Future[str] | None = None

    def get_default_screen(self) -> Screen[Any]:
        return MainScreen(self._first_pane)

    @property
    def main(self) -> MainScreen | None:
        """The main screen, whatever lies over it."""
        return next((screen for screen in self.screen_stack if isinstance(screen, MainScreen)), None)

    # ------------------------------------------------------------------ actions everywhere

    def action_move(self, direction: str) -> None:
        """The arrow key, for hands that stay on the letters."""
        self.simulate_key(direction)

    async def action_do_next(self) -> None:
        """Take the next step that the card names."""
        step = next_step(self.view_model.view_state())
        if step.again:
            await self.action_retry_run(step.again)
        elif step.action:
            await self.do(step.action)
        else:
            self.notify(step.sentence, markup=False)

    def action_next_open_task(self) -> None:
        """Go to the next task that is not done."""
        ahead = next_task(self.view_model.view_state())
        if ahead is not None:
            self.go_to_task(ahead.task_id)
            if self.main is not None:
                self.call_later(self.main.show_pane, "task")

    def action_go_to_missing(self) -> None:
        """Go to the task that plans the run this one lacks."""
        step = next_step(self.view_model.view_state())
        if not step.task_id:
            self.notify("This task needs no run of another task.", markup=False)
            return
        self.go_to_task(step.task_id)
        if self.main is not None:
            self.call_later(self.main.show_pane, "task")

    def action_doctor(self) -> None:
        """Check everything that a job needs, from the connection to the paths."""
        from labtui.tui.screens.pages import DoctorScreen

        if not isinstance(self.screen, DoctorScreen):
            self.push_screen(DoctorScreen(self.session, self.prompter, self.check_again))

    def action_palette(self) -> None:
        """Find an action by its name."""
        self.action_command_palette()

    def action_help(self) -> None:
        from labtui.tui.screens.pages import HelpScreen

        if isinstance(self.screen, HelpScreen):
            return
        place = self.screen.pane if isinstance(self.screen, MainScreen) else "plan"
        first = context_keys(self.view_model.view_state(), place) if place != "plan" else ()
        self.push_screen(HelpScreen(place, first))

    def action_remote_commands(self) -> None:
        """What labtui asked the cluster."""
        from labtui.tui.screens.pages import RemoteCommands

        if not isinstance(self.screen, RemoteCommands):
            self.push_screen(RemoteCommands(self.session, self.view_model.clock))

    def action_problems(self) -> None:
        from labtui.tui.screens.pages import TextScreen, problems_text

        self.push_screen(
            TextScreen(
                "Unresolved problems",
                problems_text(self.view_model.state, self.session, self.incidents),
            )
        )

    def action_refresh_now(self) -> None:
        """Ask the cluster now."""
        if self.view_model.state.connection.status in {"offline", "needs-login"}:
            self.session.connect_now()
        self.session.refresh()
        self.view_model.check_later(self.repaint_soon)

    async def action_leave(self) -> None:
        """Leave; say what goes on without us. What is lost by leaving is asked about first."""
        self.keep_answers()
        state = self.view_model.state
        under_way = any(
            run.phase in LIVE_WORDS and run.phase is not RunPhase.WAITING for run in state.runs.values()
        )
        if self.session.read_only:
            self.exit(0)
            return
        if self._kept and not (under_way and self.view_model.factor is not None):
            self.exit(0)
            return
        if not state.runs and (self._kept or not self._answered()):
            self.exit(0)
            return
        from labtui.tui.screens.prompts import Confirm

        if self._kept:
            text = (
                "The practice cluster stops when you leave: running jobs end as if their node failed, "
                "waiting jobs start when you are back."
            )
        else:
            text = (
                "This practice session is not kept: its runs, answers and exports are deleted when you leave."
            )
        self.push_screen(Confirm(text, yes="Leave", no="Stay"), lambda yes: self.exit(0) if yes else None)

    # ------------------------------------------------------------------ tasks and answers

    def _answered(self) -> bool:
        """Whether anything is written in the answer files; one that cannot be read may hold something."""
        from labtui.session.answers import all_answers

        try:
            sheets = all_answers(self.session.folder, self.session.edition)
        except LabError:
            return True
        return any(any(sheet.answered) for sheet in sheets.values())

    def keep_answers(self) -> None:
        """Store an answer that is being written."""
        if self.main is not None:
            from labtui.tui.widgets.answers_pane import AnswersPane

            for pane in self.main.query(AnswersPane):
                pane.keep()

    # ------------------------------------------------------------------ submitting and cancelling

    async def action_plan(self) -> None:
        """The plan of the task on the screen."""
        try:
            drafts = self.session.drafts(self.view_model.task_id)
            own = self.session.job_files()
        except LabError as error:
            self.report(error)
            return
        if not drafts and not own:
            from labtui.tui.guidance import instead_of_runs

            self.notify(instead_of_runs(self.view_model.view_state()), timeout=8, markup=False)
            return

        await self._show_plan(self.view_model.task_id, drafts, done_already(self.view_model.view_state()))

    async def _show_plan(self, task_id: str, drafts: tuple[SubmissionDraft, ...], done: str = "") -> None:
        """The plan screen over the main one."""
        from labtui.tui.screens.plan import PlanScreen

        if self.view_model.edition is not None:
            await self.push_screen(
                PlanScreen(self.session, self.view_model.edition, task_id, drafts, done=done)
            )

    async def action_halve_batch(self) -> None:
        """After an out-of-memory: the plan again with half the batch on every GPU count of that model."""
        view = self.view_model.view_state()
        run = view.run if view.run is not None and view.run.outcome == "oom" else oom_run(view)
        if run is None:
            unread = view.run is not None and view.run.outcome is None
            why = (
                "How this run ended is not known yet."
                if unread
                else "No run of this task ran out of GPU memory."
            )
            self.notify(why, severity="warning", markup=False)
            return
        from labtui.session.batches import halve_after

        try:
            proposal = halve_after(self.session, run.run_id)
        except LabError as error:
            self.report(error)
            return
        self.notify(proposal.sentence, timeout=8, markup=False)
        await self._show_plan(run.task_id, proposal.drafts)

    async def action_retry_run(self, these: Sequence[RunState] = ()) -> None:
        """The plan of the selected run again, of all marked ones, or of `these`; each is changed by how it ended."""
        from labtui.session.batches import retry_after

        jobs = {run.token: run for run in reversed(these or self.view_model.view_state().meant)}
        if not jobs:
            self.notify("Select the run to plan again first.", severity="warning", markup=False)
            return
        runs = sorted(jobs.values(), key=lambda run: run.run_id)
        try:
            proposals = [retry_after(self.session, run.run_id) for run in runs]
        except LabError as error:
            self.report(error)
            return
        sentences = [
            proposal.sentence if len(runs) == 1 else f"Run {run.run_id}: {proposal.sentence}"
            for run, proposal in zip(runs, proposals, strict=True)
        ]
        self.notify(f"{' '.join(sentences)} Press s to submit the plan.", timeout=8, markup=False)
        await self._show_plan(runs[0].task_id, tuple(draft for each in proposals for draft in each.drafts))
        self.unmark_runs()

    def action_hold_run(self) -> None:
        """Hold the selected run that waits, or release it; of marked runs, all that wait."""
        view = self.view_model.view_state()
        waiting = [run for run in view.meant if run.phase in {RunPhase.WAITING, RunPhase.QUEUED}]
        jobs = {run.token: run for run in waiting}
        if not jobs:
            self.notify("Only a run that waits can be held or released.", severity="warning", markup=False)
            return
        held = not all(view.state.submissions[token].held for token in jobs)
        for run in jobs.values():
            done = f"Run {run.run_id} is held; H releases it." if held else f"Run {run.run_id} is released."
            self.follow("hold", partial(self.session.hold, run.run_id, held=held), done)
        self.unmark_runs()

    def action_toggle_failed(self) -> None:
        """Leave failed and cancelled runs out of the table, or show them again."""
        if not self.view_model.toggle_failed():
            hidden = "not shown" if self.view_model.hide_failed else "shown"
            self.notify(f"No run of this task failed; those that do are {hidden}.", markup=False)
        self.repaint()

    def action_all_jobs(self) -> None:
        """Every living job of the student."""
        from labtui.tui.screens.pages import JobsPage

        if not isinstance(self.screen, JobsPage):
            self.push_screen(
                JobsPage(
                    self.session, self.view_model.clock, self.ask_cancel_job, self.view_model.factor or 1.0
                )
            )

    def ask_cancel_job(self, job_id: str, name: str) -> None:
        """Cancel one of the student's jobs by its number, after asking."""
        from labtui.tui.screens.prompts import Confirm

        def answered(yes: bool | None) -> None:
            if yes:
                done = f"Job {job_id} is being cancelled."
                self.follow("cancel", partial(self.session.cancel_job, job_id), done)

        self.push_screen(
            Confirm(f"Cancel job {job_id} ({name})?", yes="Cancel the job", no="Keep it"), answered
        )

    def on_runs_submitted(self, message: RunsSubmitted) -> None:
        """Show the runs that were just put into the submission queue."""
        self.view_model.arrived(self.session.state)
        self.view_model.choose_task(self.view_model.task_id)
        self.repaint()
        if self.main is not None:
            self.call_later(self.main.show_pane, "runs")

    def action_cancel_run(self) -> None:
        """Cancel the selected run, or all marked ones, after asking."""
        view = self.view_model.view_state()
        runs = [run for run in view.meant if run.phase not in _OVER]
        if not runs:
            self.notify("No queued or running run is selected.", severity="warning", markup=False)
            return
        label = f" ({runs[0].spec.label})" if len(runs) == 1 else ""
        text = f"Cancel {_numbers(runs)}{label}?"
        jobs = {run.token: run for run in runs}
        mine = {run.run_id for run in runs}
        items = (view.state.submissions.get(token) for token in jobs)
        others = [
            number for item in items if item is not None for number in item.run_ids if number not in mine
        ]
        if others:
            which = f"Run {others[0]} is" if len(others) == 1 else f"Runs {', '.join(map(str, others))} are"
            text += f" {which} in the same job and would end, too."
        from labtui.tui.screens.prompts import Confirm

        def answered(yes: bool | None) -> None:
            if not yes:
                return
            for run in jobs.values():
                done = f"Run {run.run_id} is being cancelled."
                self.follow("cancel", partial(self.session.cancel, run.run_id), done)
            self.unmark_runs()

        yes = "Cancel the run" if len(runs) == 1 else "Cancel them"
        self.push_screen(Confirm(text, yes=yes, no="Keep it" if len(runs) == 1 else "Keep them"), answered)

    def action_end_after(self) -> None:
        """Ask for the minutes after which Slurm shall end the job of the selected run, or of all marked ones."""
        view = self.view_model.view_state()
        jobs = {run.token: run for run in view.meant if run.phase not in _OVER}
        if not jobs:
            self.notify("No queued or running run is selected.", severity="warning", markup=False)
            return
        from labtui.tui.screens.prompts import AskMinutes

        def answered(minutes: int | None) -> None:
            if minutes is None:
                return
            for run in jobs.values():
                done = f"The job of run #{run.run_id} ends {minutes} min after its start."
                self.follow("end-after", partial(self.session.end_after, run.run_id, minutes), done)
            self.unmark_runs()

        chosen = [(run, view.state.submissions.get(token)) for token, run in jobs.items()]
        self.push_screen(AskMinutes(chosen), answered)

    def action_push(self) -> None:
        """Send the scripts now."""
        self.follow("push", self.session.push, "The scripts are on the cluster.")

    # ------------------------------------------------------------------ files

    def action_edit(self) -> None:
        """The file that belongs to what is on the screen, in the student's editor."""
        view_state = self.view_model.view_state()
        folder: Path = self.session.folder.path
        pane = self.main.pane if self.main is not None else ""
        if pane == "log" and self.main is not None:
            self.main.edit_log()
            return
        if pane == "answers":
            self.keep_answers()
            path = self.answer_files().path(self.view_model.task_id)
        else:
            names = view_state.task.files if view_state.task is not None else ()
            run = view_state.run
            chosen = run.spec.script if run is not None else (names[0] if names else "")
            path = folder / "scripts" / chosen
        if not path.is_file():
            self.notify(f"There is no {path.name} in the lab folder.", severity="warning", markup=False)
            return
        self.open_editor(path)
        self.view_model.check_later(self.repaint_soon)
        self.repaint()

    def action_start_copy(self) -> None:
        """Begin the script a task asks the student to make from another one; or show how theirs differs by now."""
        from labtui.lab.plan import copies_to_start
        from labtui.session.labs import copy_difference, start_copy
        from labtui.tui.plan_words import coloured
        from labtui.tui.screens.pages import TextScreen

        task = self.view_model.view_state().task
        copies = copies_to_start(task) if task is not None else ()
        if not copies:
            self.notify("This task asks for no copy of a script.", severity="warning", markup=False)
            return
        original, target = copies[0]
        folder = self.session.folder
        if folder.inside(f"scripts/{target}").is_file():
            shown = coloured(copy_difference(folder, original, target), roles(self))
            same = Text(f"{target} is still identical to {original}: make the change yourself.")
            page = shown if shown.plain else same
            self.push_screen(TextScreen(f"{original} and your {target}", page))
            return

        try:
            start_copy(folder, original, target)
        except LabError as error:
            self.report(error)
            return
        text = f"scripts/{target} is a copy of {original}. Find out what has to change in it."
        self.notify(text, timeout=8, markup=False)
        self.open_editor(folder.inside(f"scripts/{target}"))
        self.view_model.check_later(self.repaint_soon)

    def action_export(self) -> None:
        """Tables, charts and the deck, by a process of its own; a line at the bottom tells how far it is."""
        from labtui.tui.messages import export_all

        if self.exporting is not None and not self.exporting.done():
            self.notify("The export is still under way.", severity="warning", markup=False)
            return

        def start() -> Future[str]:
            folder = self.session.folder.path

            def step(text: str) -> None:
                self.call_later(self.show_work, f"export: {text}")

            future = export_all(folder, step)
            future.add_done_callback(lambda _: self.call_later(self.show_work, ""))
            self.exporting = future
            return future

        self.follow("export", start, "")

    async def show_work(self, text: str) -> None:
        """What is being made beside the screens, in a line above the submission queue; "" takes the line away."""
        from labtui.tui.widgets.frame import OneLine

        if self.main is None:
            return
        bottom = self.main.query_one("#bottom")
        if not bottom.query("#work"):
            await bottom.mount(OneLine(id="work"), before=0)
        bottom.query_one("#work", OneLine).text = text

    # ------------------------------------------------------------------ looking behind

    def action_shell_commands(self) -> None:
        """The plain commands the selected action amounts to."""
        from labtui.session.manual_commands import commands_of_submission
        from labtui.tui.screens.pages import TextScreen

        shown = self.view_model.view_state()
        submission = shown.submission_of(shown.run) if shown.run is not None else None
        try:
            actions = commands_of_submission(self.session, submission)
        except LabError as error:
            self.report(error)
            return
        text = "\n\n".join(each.text for each in actions)
        self.push_screen(TextScreen("The same by hand, in the lab folder", text, copy=True))


def _numbers(runs: Sequence[RunState]) -> str:
    """``run 3`` or ``runs 3, 4``."""
    return f"run{'s' if len(runs) > 1 else ''} {', '.join(str(run.run_id) for run in runs)}"
