"""`RunPane`: what can be done with the selected run, or all marked ones, in the panes that are about runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.containers import Vertical

from labtui.domain.model import RunPhase
from labtui.tui import format as words
from labtui.tui.keys import key
from labtui.tui.view import RunLine, View

if TYPE_CHECKING:
    from labtui.tui.app import LabApp


class RunPane(Vertical):
    """A pane about runs; `view` is what it shows."""

    app: LabApp
    view: View | None = None
    BINDINGS: ClassVar[list[BindingType]] = [
        key("h", "screen.halve_batch", "Halve batch", "plan the task again with half the batch", show=True),
        key(
            "R",
            "screen.retry_run",
            "Run again",
            "plan it again: twice the time after a time limit, half the batch where GPU memory ran out",
            show=True,
        ),
        key("ctrl+k", "cancel_run", "Cancel run", "cancel the selected run, after asking", show=True),
        key("T", "end_after", "Time limit", "have Slurm end the job after so many minutes", show=True),
        key("H", "hold_run", "Hold", "hold the selected run until it is released; release it", show=True),
        key(
            "asterisk",
            "mark_run",
            "Mark",
            "mark runs: cancel, hold, limit and run again apply to all of them",
        ),
    ]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The footer offers what fits the selected run."""
        view = self.view
        if view is None:
            return True
        phases = {line.phase for line in view.meant}
        if action in {"cancel_run", "end_after"}:
            return any(line.live or line.phase is RunPhase.UNKNOWN for line in view.meant)
        if action == "hold_run":
            return bool(phases & {RunPhase.WAITING, RunPhase.QUEUED})
        return True

    def _meant(self, *, waiting: bool = False) -> list[RunLine]:
        """The first run of each living job that is meant; only of those that wait, if so asked."""
        view = self.app.view_model.view()
        wanted = (RunPhase.WAITING, RunPhase.QUEUED)
        lines = [
            line for line in view.meant if (line.phase in wanted if waiting else line.run.outcome is None)
        ]
        if not lines:
            what = (
                "Only a run that waits can be held or released."
                if waiting
                else "Select a queued or running run."
            )
            self.app.report_sentence(what)
        return list({line.run.token: line for line in reversed(lines)}.values())[::-1]

    def action_mark_run(self) -> None:
        """Mark the selected run, or take its mark away."""
        self.app.view_model.mark_run()
        self.app.repaint()

    def action_hold_run(self) -> None:
        """Hold the selected run that waits, or release it; of marked runs, all that wait."""
        lines = self._meant(waiting=True)
        held = not all(line.submission is not None and line.submission.held for line in lines)
        for line in lines:
            done = (
                f"Run {line.run_id} is held. Press H to release it."
                if held
                else f"Run {line.run_id} is released."
            )
            self.app.follow("hold", partial(self.app.session.hold, line.run_id, held=held), done)
        self.app.unmark_runs()

    def action_cancel_run(self) -> None:
        """Cancel the selected run, or all marked ones, after asking."""
        lines = self._meant()
        if not lines:
            return
        from labtui.tui.screens.prompts import Ask, yes_or_no

        mine = [line.run_id for line in lines]
        inside = {
            number for line in lines if line.submission is not None for number in line.submission.run_ids
        }
        others = sorted(inside - set(mine) - self.app.view_model.marked)
        text = f"Cancel {words.run_numbers(mine).lower()}?"
        if others:
            text += f" {words.run_numbers(others)} in the same job would end, too."

        def answered(yes: str | None) -> None:
            if not yes:
                return
            for line in lines:
                cancel = partial(self.app.session.cancel, line.run_id)
                self.app.follow("cancel", cancel, f"Run {line.run_id} is being cancelled.")
            self.app.unmark_runs()

        self.app.push_screen(Ask(text, choices=yes_or_no("Cancel", "Keep")), answered)

    def action_end_after(self) -> None:
        """Ask for the minutes after which Slurm shall end the job of the selected run, or of all marked ones."""
        lines = self._meant()
        if not lines:
            return
        from labtui.tui.screens.prompts import Ask, typed

        def answered(text: str | None) -> None:
            if text is None:
                return
            for line in lines:
                end = partial(self.app.session.end_after, line.run_id, int(text))
                self.app.follow(
                    "end-after", end, f"The job of run {line.run_id} ends {text} min after its start."
                )
            self.app.unmark_runs()

        question = Ask(
            f"{minutes_question(lines)} Slurm ends it then, even when labtui is closed.",
            choices=typed("Set the limit"),
            entry="",
            check=partial(minutes_problem, lines),
        )
        self.app.push_screen(question, answered)


def minutes_question(lines: Sequence[RunLine]) -> str:
    """Which jobs end, and which other runs with them."""
    if len(lines) > 1:
        numbers = words.run_numbers([line.run_id for line in lines])
        return f"{numbers}: minutes from the start of each job to its end."
    run_id, submission = lines[0].run_id, lines[0].submission
    others = [number for number in (submission.run_ids if submission else ()) if number != run_id]
    text = f"Run {run_id}: minutes from the job's start to its end."
    if others:
        text += (
            f" {words.run_numbers(others)} in the same job {'ends' if len(others) == 1 else 'end'} with it."
        )
    if submission is not None and submission.time_limit_minutes:
        text += f" The job script asks for {submission.time_limit_minutes} min."
    return text


def minutes_problem(lines: Sequence[RunLine], text: str) -> str:
    """Why so many minutes make no sense for one of the jobs; said before Slurm is asked."""
    from labtui.slurm.states import early_end_refusal

    minutes = int(text) if text.isascii() and text.isdecimal() else 0
    for line in lines:
        refusal = early_end_refusal(line.submission, minutes) if line.submission is not None else None
        if refusal is not None:
            return (f"Run {line.run_id}: " if len(lines) > 1 else "") + " ".join(refusal)
    return "" if minutes else "Give whole minutes."
