"""What the actions do: plan, cancel, push, edit, export, looking behind. A mixin: the app holds only routing."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from labtui.core.model import RunPhase
from labtui.errors import LabError

if TYPE_CHECKING:
    from labtui.tui.desk import Desk

_OVER = {RunPhase.DONE, RunPhase.FAILED, RunPhase.CANCELLED}


class Operations:
    """Mixed into the app; uses its session, desk and screens."""

    session: Any
    desk: Desk
    main: Any  # the app gives the main screen
    exporting: Any = None  # the future of the last export

    # ------------------------------------------------------------------ tasks and answers

    def go_to_task(self: Any, task_id: str) -> None:
        """Another task, from the palette or by a step."""
        self.desk.choose_task(task_id)
        self.repaint()
        self.desk.check_later(self._repaint_soon)

    def answer_desk(self) -> Any:
        """Where answers are kept."""
        from labtui.tui.answer_files import AnswerFiles

        return AnswerFiles(self.session, lambda: self.desk.edition)

    def keep_answers(self) -> None:
        """Store an answer that is being written."""
        if self.main is not None:
            for pane in self.main.query("#pane-answers"):
                pane.keep()

    # ------------------------------------------------------------------ submitting and cancelling

    async def open_plan(self: Any) -> None:
        """The plan of the task on the screen."""
        try:
            drafts = self.session.drafts(self.desk.task_id)
        except LabError as error:
            self.report(error)
            return
        if not drafts:
            from labtui.tui.guidance import instead_of_runs

            self.notify(instead_of_runs(self.desk.picture()), timeout=8, markup=False)
            return
        from labtui.tui.screens.plan import PlanScreen

        await self.push_screen(PlanScreen(self.session, self.desk.edition, self.desk.task_id, drafts))

    async def halve_batch(self: Any) -> None:
        """After an out-of-memory: the plan again with half the batch on every GPU count of that model."""
        run = self.desk.picture().run
        if run is None:
            self.notify("Select the run that ran out of memory first.", markup=False)
            return
        if run.outcome is None:
            self.notify("How this run ended is not known yet; its log is still read.", markup=False)
            return
        if run.outcome != "oom":
            self.notify("The selected run did not run out of GPU memory.", markup=False)
            return
        from labtui.engine.batches import halve_after
        from labtui.tui.screens.plan import PlanScreen

        try:
            proposal = halve_after(self.session, run.run_id)
        except LabError as error:
            self.report(error)
            return
        self.notify(proposal.sentence, timeout=8, markup=False)
        await self.push_screen(PlanScreen(self.session, self.desk.edition, run.task_id, proposal.drafts))

    async def search_batch(self: Any) -> None:
        """The plan of one job that finds the largest batch that fits one GPU, with what it costs."""
        from labtui.engine.batches import search_largest
        from labtui.tui.screens.plan import PlanScreen

        task_id = self.desk.task_id
        try:
            proposal = search_largest(self.session, task_id)
        except LabError as error:
            self.report(error)
            return
        self.notify(proposal.sentence, timeout=8, markup=False)
        await self.push_screen(PlanScreen(self.session, self.desk.edition, task_id, proposal.drafts))

    def after_submit(self: Any) -> None:
        """Show the runs that were just put into the waiting line."""
        self.desk.arrived(self.session.state)
        self.desk.choose_task(self.desk.task_id)
        self.repaint()
        if self.main is not None:
            self.call_later(self.main.show_pane, "runs")

    def ask_cancel(self: Any) -> None:
        """Cancel the selected run, after asking."""
        run = self.desk.picture().run
        if run is None or run.phase in _OVER:
            self.notify("There is no run here that could be cancelled.", markup=False)
            return
        submission = self.desk.state.submissions.get(run.token)
        others = [number for number in (submission.run_ids if submission else ()) if number != run.run_id]
        text = f"Cancel run #{run.run_id} ({run.spec.label})?"
        if others:
            text += f" The runs {', '.join(f'#{number}' for number in others)} are in the same job and end with it."
        from labtui.tui.screens.prompts import Confirm

        def answered(yes: bool | None) -> None:
            if yes:
                self.follow(
                    "cancel",
                    lambda: self.session.cancel(run.run_id),
                    f"Run #{run.run_id} is being cancelled.",
                )

        self.push_screen(Confirm(text, yes="Cancel the run", no="Keep it"), answered)

    def ask_end_after(self: Any) -> None:
        """Ask for the minutes after which Slurm shall end the selected run's job."""
        run = self.desk.picture().run
        if run is None or run.phase in _OVER:
            self.notify("There is no run here that could be ended.", markup=False)
            return
        from labtui.tui.screens.minutes import AskMinutes

        def answered(minutes: int | None) -> None:
            if minutes is not None:
                self.follow(
                    "end-after",
                    lambda: self.session.end_after(run.run_id, minutes),
                    f"The job of run #{run.run_id} ends {minutes} min after its start.",
                )

        self.push_screen(AskMinutes(run, self.desk.state.submissions.get(run.token)), answered)

    def push(self: Any) -> None:
        """Send the scripts now."""
        self.follow("push", self.session.push, "The scripts are on the cluster.")

    # ------------------------------------------------------------------ files

    def edit_here(self: Any, pane: str) -> None:
        """The file that belongs to what is on the screen."""
        picture = self.desk.picture()
        folder: Path = self.session.folder.path
        if pane == "answers":
            self.keep_answers()
            path = self.answer_desk().path(self.desk.task_id)
        else:
            names = picture.task.files if picture.task is not None else ()
            run = picture.run
            chosen = run.spec.script if run is not None else (names[0] if names else "")
            path = folder / "scripts" / chosen
        if not path.is_file():
            self.notify(f"There is no {path.name} in the lab folder.", markup=False)
            return
        self.open_editor(path)
        self.desk.check_later(self._repaint_soon)
        self.repaint()

    def start_copy(self: Any) -> None:
        """Begin the script a task asks the student to make from another one; or show how theirs differs by now."""
        from labtui.core.lab.plan import copies_to_start
        from labtui.engine.labs import copy_difference, start_copy
        from labtui.tui.screens.plan_fixing import coloured_difference
        from labtui.tui.screens.prompts import Confirm
        from labtui.tui.screens.texts import TextScreen

        task = self.desk.picture().task
        copies = copies_to_start(task) if task is not None else ()
        if not copies:
            self.notify("This task asks for no copy of a script.", markup=False)
            return
        original, target = copies[0]
        folder = self.session.folder
        if folder.inside(f"scripts/{target}").is_file():
            shown = coloured_difference(copy_difference(folder, original, target))
            same = Text(f"{target} is still exactly {original}: the change is yours to make.")
            page = shown if shown.plain else same
            self.push_screen(TextScreen(f"{original} and your {target}", page))
            return

        def answered(yes: bool | None) -> None:
            if yes:
                try:
                    start_copy(folder, original, target)
                except LabError as error:
                    self.report(error)
                    return
                self.notify(f"scripts/{target} is there; change it with e.", markup=False)
                self.desk.check_later(self._repaint_soon)

        text = f"Start scripts/{target} as a copy of {original}? What has to change in it is for you to find."
        self.push_screen(Confirm(text, yes="Copy it", no="Not now"), answered)

    def open_editor(self: Any, path: Path) -> bool:
        """Leave the screen to the student's editor; says whether it ran."""
        command = editor_command()
        if not command:
            self.notify(
                "Set the environment variable EDITOR to your editor's command.",
                severity="warning",
                markup=False,
            )
            return False
        from textual.app import SuspendNotSupported

        try:
            with self.suspend():
                subprocess.run([*command, str(path)], check=False)
        except SuspendNotSupported:
            self.notify(
                f"This terminal cannot be left to an editor. The file is {path}.",
                severity="warning",
                markup=False,
            )
            return False
        except OSError as error:
            self.notify(
                f"{command[0]} could not be started: {error.strerror}.", severity="error", markup=False
            )
            return False
        return True

    def export(self: Any) -> None:
        """Tables, charts and the deck, by a process of its own; a line at the bottom tells how far it is."""
        from labtui.tui.exporting import export_all

        if self.exporting is not None and not self.exporting.done():
            self.notify("The export is still under way.", markup=False)
            return

        def start() -> Any:
            folder = self.session.folder.path
            future = export_all(folder, lambda text: self.call_later(self.show_work, f"export: {text}"))
            future.add_done_callback(lambda _: self.call_later(self.show_work, ""))
            self.exporting = future
            return future

        self.follow("export", start, "")

    async def show_work(self: Any, text: str) -> None:
        """What is being made beside the screens, in a line above the waiting line; "" takes the line away."""
        from labtui.tui.widgets.chrome import OneLine

        bottom = self.main.query_one("#bottom")
        if not bottom.query("#work"):
            await bottom.mount(OneLine(id="work"), before=0)
        bottom.query_one("#work", OneLine).text = text

    # ------------------------------------------------------------------ looking behind

    def show_shell_commands(self: Any) -> None:
        """The plain commands the selected action amounts to."""
        from labtui.engine.lessons import lessons_of_submission
        from labtui.tui.screens.texts import TextScreen

        shown = self.desk.picture()
        submission = shown.submission_of(shown.run) if shown.run is not None else None
        try:
            told = lessons_of_submission(self.session, submission)
        except LabError as error:
            self.report(error)
            return
        text = "\n\n".join(lesson.text for lesson in told)
        self.push_screen(TextScreen("The same by hand, in the lab folder", text, copy=True))


def editor_command() -> list[str]:
    """The student's editor as an argument list; a plain one of the system when none is named."""
    for name in ("VISUAL", "EDITOR"):
        if words := shlex.split(os.environ.get(name, ""), posix=os.name != "nt"):
            return words
    import shutil

    for candidate in ("notepad",) if sys.platform == "win32" else ("nano", "vim", "vi"):
        if found := shutil.which(candidate):
            return [found]
    return []
