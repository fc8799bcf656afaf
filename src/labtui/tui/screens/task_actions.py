"""What the main screen does for the task it shows: plan, run again, edit, export, go on to the next task."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text
from textual.screen import Screen

from labtui.domain.errors import LabError
from labtui.tui.guidance import done_already, instead_of_runs, next_step, next_task, oom_run
from labtui.tui.messages import RunsSubmitted, export_all
from labtui.tui.themes import roles

if TYPE_CHECKING:
    from labtui.tui.app import LabApp
    from labtui.tui.view import RunLine, View


class TaskActions(Screen[None]):
    """The actions; the screen itself is `MainScreen`."""

    app: LabApp
    pane: str

    async def show_pane(self, name: str) -> None:
        """Another pane."""
        raise NotImplementedError

    @property
    def _now(self) -> View:
        return self.app.view_model.view()

    # ------------------------------------------------------------------ from task to task

    async def action_next_open_task(self) -> None:
        """Go to the next task that is not done."""
        ahead = next_task(self._now)
        if ahead is not None:
            self.app.go_to_task(ahead.task_id)
            await self.show_pane("task")

    async def action_go_to_missing(self) -> None:
        """Go to the task that plans the run this one lacks."""
        step = next_step(self._now)
        if not step.task_id:
            self.notify("This task needs no run of another task.", markup=False)
            return
        self.app.go_to_task(step.task_id)
        await self.show_pane("task")

    # ------------------------------------------------------------------ plans

    async def action_plan(self) -> None:
        """The plan of the task on the screen."""
        session, task_id = self.app.session, self.app.view_model.task_id
        try:
            drafts, own = session.drafts(task_id), session.job_files()
        except LabError as error:
            self.app.report(error)
            return
        if not drafts and not own:
            self.notify(instead_of_runs(self._now), timeout=8, markup=False)
            return
        await self.app.show_plan(task_id, drafts, done_already(self._now))

    async def action_halve_batch(self) -> None:
        """After an out-of-memory: the plan again with half the batch on every GPU count of that model."""
        from labtui.session.batches import halve_after

        view = self._now
        chosen = view.line is not None and view.line.run.gpu_memory_ran_out
        line = view.line if chosen else oom_run(view)
        if line is None:
            self.app.report_sentence("No run of this task ran out of GPU memory.")
            return
        try:
            proposal = halve_after(self.app.session, line.run_id)
        except LabError as error:
            self.app.report(error)
            return
        await self.app.show_plan(line.run.task_id, proposal.drafts, proposal.sentence)

    async def action_retry_run(self, these: Sequence[RunLine] = ()) -> None:
        """The plan of the selected run again, of all marked ones, or of `these`; each is changed by how it ended."""
        from labtui.session.batches import retry_after

        jobs = {line.run.token: line for line in reversed(these or self._now.meant)}
        lines = sorted(jobs.values(), key=lambda line: line.run_id)
        if not lines:
            self.app.report_sentence("Select the run to plan again first.")
            return
        try:
            proposals = [retry_after(self.app.session, line.run_id) for line in lines]
        except LabError as error:
            self.app.report(error)
            return
        said = [
            proposal.sentence if len(lines) == 1 else f"Run {line.run_id}: {proposal.sentence}"
            for line, proposal in zip(lines, proposals, strict=True)
        ]
        drafts = tuple(draft for each in proposals for draft in each.drafts)
        self.app.unmark_runs()
        await self.app.show_plan(lines[0].run.task_id, drafts, " ".join(said))

    def on_runs_submitted(self, message: RunsSubmitted) -> None:
        """Show the runs that were just put into the submission queue."""
        model = self.app.view_model
        model.arrived(self.app.session.state)
        model.choose_task(model.task_id)
        self.app.repaint()
        self.call_later(self.show_pane, "runs")

    def action_push(self) -> None:
        """Send the scripts now."""
        self.app.follow("push", self.app.session.push, "The scripts are on the cluster.")

    # ------------------------------------------------------------------ files

    def action_edit(self) -> None:
        """The file that belongs to what is on the screen, in the student's editor."""
        view, folder = self._now, self.app.session.folder
        if self.pane == "answers":
            self.app.keep_answers()
            path = self.app.answer_files().path(view.task_id)
        else:
            names = view.task.files if view.task is not None else ()
            line = view.line
            chosen = line.run.spec.script if line is not None else (names[0] if names else "")
            path = folder.path / "scripts" / chosen
        if not path.is_file():
            self.app.report_sentence(f"There is no {path.name} in the lab folder.")
            return
        self.edit_file(path)

    def edit_file(self, path: Path) -> None:
        """Open a file in the student's editor; what rests on it is looked at again."""
        self.app.open_editor(path)
        self.app.check_again()
        self.app.repaint()

    def action_start_copy(self) -> None:
        """Begin the script a task asks the student to make from another one; or show how theirs differs by now."""
        from labtui.lab.plan import copies_to_start
        from labtui.session.labs import copy_difference, start_copy
        from labtui.tui.plan_words import coloured
        from labtui.tui.screens.pages import TextScreen

        task, folder = self._now.task, self.app.session.folder
        copies = copies_to_start(task) if task is not None else ()
        if not copies:
            self.app.report_sentence("This task asks for no copy of a script.")
            return
        original, target = copies[0]
        path = folder.inside(f"scripts/{target}")
        if path.is_file():
            shown = coloured(copy_difference(folder, original, target), roles(self.app))
            same = Text(f"{target} is still identical to {original}: make the change yourself.")
            page = shown if shown.plain else same
            self.app.push_screen(TextScreen(f"{original} and your {target}", page))
            return
        try:
            start_copy(folder, original, target)
        except LabError as error:
            self.app.report(error)
            return
        text = f"scripts/{target} is a copy of {original}. Find out what has to change in it."
        self.notify(text, timeout=8, markup=False)
        self.edit_file(path)

    def action_export(self) -> None:
        """Tables, charts and slides, by a process of its own; the line above the keys tells how far it is."""
        from labtui.tui.widgets.frame import NoteLine

        app = self.app
        if app.exporting is not None and not app.exporting.done():
            app.report_sentence("The export is still under way.")
            return

        def show(text: str) -> None:
            for line in self.query(NoteLine):
                line.work = text

        def start() -> Future[str]:
            def step(text: str) -> None:
                app.call_later(show, f"export: {text}")

            future = export_all(app.session.folder.path, step)
            future.add_done_callback(lambda _: app.call_later(show, ""))
            app.exporting = future
            return future

        app.follow("export", start, "")

    def action_shell_commands(self) -> None:
        """The plain command that cancels the selected run's job."""
        from labtui.session.manual_commands import commands_of_cancel

        line = self._now.line
        submission = line.submission if line is not None else None
        if submission is None or submission.job is None:
            self.app.report_sentence(
                "This run has no job at Slurm. Press w in its plan to see how to submit it."
            )
            return
        self.app.show_commands(lambda: commands_of_cancel(self.app.session, submission))
