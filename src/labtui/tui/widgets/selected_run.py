"""What panes and the plan share about runs: the bindings for the selected run, and a table that keeps its cursor.

`KeyedTable.sync` compares words and colours with what is shown, so that equal content costs nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace
from rich.text import Text
from textual import binding, containers, widgets

from labtui.domain.model import Diagnosis, RunPhase
from labtui.domain.run import run_numbers
from labtui.domain.state import PENDING, ended_by
from labtui.tui.format import cluster_now
from labtui.tui.view import ENDED_BADLY, RunLine, View
from labtui.tui.widgets.frame import Pane, appearance, key


class TableColumn(msgspec.Struct, frozen=True):
    """A column with a stable key and a fixed width in cells; `right` aligns its cells to the right, for numbers."""

    key: str
    title: str
    right: bool = False
    width: int = 0


def layout(
    titles: Mapping[str, tuple[str, int]], texts: Sequence[str], optional: Sequence[str], width: int
) -> list[TableColumn]:
    """The columns that fit into `width` cells; `titles` has the title and width of each by its key.

    Columns in `texts` hold words, the others numbers. The `optional` ones are added from the last one on, up to the
    first that does not fit. If the last column holds words, it takes the free cells.
    """
    every = [TableColumn(name, title, name not in texts, cells) for name, (title, cells) in titles.items()]
    columns = [each for each in every if each.key not in optional]
    for name in ("", *reversed([name for name in optional if name in titles])):
        more = [each for each in every if each in columns or each.key == name]
        if (free := width - 2 - sum(each.width + 2 for each in more[:-1])) < more[-1].width and name:
            break
        columns, left = more, free
    wide = max(columns[-1].width, left) if columns[-1].key in texts else columns[-1].width
    return [*columns[:-1], replace(columns[-1], width=wide)]


Rows = Mapping[str, Sequence[str | Text]]
"""For each row's stable key one cell per column; strings are shown as they are, never as markup."""


class KeyedTable(widgets.DataTable[Text]):
    """A data table with keys for its rows and columns; set its content with `sync` only."""

    filling = False
    """Whether rows are being replaced: the cursor moves, but nobody moves it."""
    _shown: object = None

    def sync(self, columns: Sequence[TableColumn], rows: Rows, select: str = "") -> None:
        """Show these columns and rows; the cursor goes to the row of the key `select`, or stays on its row."""
        shown = columns, [(name, *map(appearance, cells)) for name, cells in rows.items()]
        if shown == self._shown:
            self.select_key(select)
            return
        self._shown, self.filling = shown, True
        selected, column = select or self.selected_key or "", self.cursor_column
        with self.prevent(widgets.DataTable.RowHighlighted, widgets.DataTable.CellHighlighted):
            self.clear(columns=True)
            for each in columns:
                title = Text(each.title, justify="right" if each.right else "left")
                self.add_column(title, key=each.key, width=each.width)
            for name, cells in rows.items():
                self.add_row(*map(_cell, cells, columns), key=name)
            if selected in rows:
                self.move_cursor(row=self.get_row_index(selected), column=column)
        self.filling = False
        self._update_dimensions(self._new_rows)  # at once, so that the next layout knows the height
        self.on_resize()

    @property
    def selected_key(self) -> str | None:
        """The key of the row at the cursor."""
        there = self.is_valid_row_index(self.cursor_row)
        return self.ordered_rows[self.cursor_row].key.value if there else None

    def on_resize(self) -> None:
        """Keep the row at the cursor visible."""
        self.call_after_refresh(self._scroll_cursor_into_view)

    def select_key(self, key: str) -> None:
        """Move the cursor to a row."""
        if key in self.rows and key != self.selected_key:
            self.move_cursor(row=self.get_row_index(key), animate=False)
            self.on_resize()


def _cell(cell: str | Text, column: TableColumn) -> Text:
    text = cell.copy() if isinstance(cell, Text) else Text(cell)
    text.justify = "right" if column.right else "left"
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


class SelectedRunPane(Pane, containers.Vertical):
    """A pane with bindings for the selected run."""

    BINDINGS: ClassVar[list[binding.BindingType]] = [
        key("ctrl+k", "cancel_run", "Cancel run", "cancel the run, after asking", show=True, priority=True),
        key("T", "end_after", "Time limit", "change the time limit of the job", show=True, priority=True),
        key("H", "hold_run(True)", "Hold", "hold the selected run until it is released", show=True),
        key("H", "hold_run(False)", "Release", "release the selected run", show=True),
    ]

    def why_disabled(self, action: str, parameters: tuple[object, ...]) -> str | None:
        """Why an action is disabled for the selected run."""
        line = self.view.line
        if action not in {"cancel_run", "end_after", "hold_run"}:
            return super().why_disabled(action, parameters)
        held = line is not None and line.submission is not None and line.submission.held
        if parameters == (held,):
            return None
        if line is None:
            return "There is no run here."
        if action != "hold_run":
            return _why_over(line)
        return "" if line.phase in PENDING else f"Run {line.run_id} is not waiting: it cannot be held."

    @property
    def _line(self) -> RunLine:
        """The selected run; without one, all actions that use it are disabled."""
        return self.view.runs[self.view.run_id or 0]

    def _others(self, line: RunLine) -> list[int]:
        """The numbers of the other runs of its job."""
        mine = line.submission.run_ids if line.submission is not None else ()
        return [number for number in mine if number != line.run_id]

    def action_hold_run(self, held: bool) -> None:
        """Hold the selected run, or release it."""
        line = self._line
        runs = run_numbers(sorted((line.run_id, *self._others(line))))
        done = f"{runs}: {'held. Press H to release' if held else 'released'}."
        self.app.send(partial(self.app.session.hold, line.run_id, held=held), done)

    async def action_cancel_run(self) -> None:
        """Cancel the selected run, after asking."""
        line = self._line
        from labtui.tui.screens.modals import yes_or_no

        kept = " Its epochs so far stay in the means." if line.row is not None and line.row.epochs else ""
        text = f"Cancel run {line.run_id}?{kept}{_ends_too(self.app.view, self._others(line))}"

        def answered(_: str) -> None:
            self.app.view_model.chosen = line.run_id  # the next key is about it, too
            self.app.send(partial(self.app.session.cancel, line.run_id))

        await self._ask([line.run_id], answered, text, choices=yes_or_no("Cancel it", "Keep it"))

    async def _ask(self, runs: Sequence[int], answered: Callable[..., None], text: str, **how: Any) -> None:
        """Ask a question about runs of a job; once all have ended, another dialog takes what is still being typed."""
        from labtui.tui.screens.modals import Ask

        ask = Ask(text, **how)

        def look(view: View) -> None:
            if ask.is_active and (why := _why_over(*(view.runs[number] for number in runs))):
                ask.dismiss(None)
                self.app.push_screen(Ask(why, choices=[("escape", "Close", None)]))

        await self.app.ask(ask, answered)
        ask.watch(self.app, "view", look, init=False)

    async def action_end_after(self) -> None:
        """Ask for the minutes after which Slurm is to end the selected run's job."""
        line = self._line
        from labtui.tui.screens.modals import entry_choices

        run_id, others = line.run_id, self._others(line)
        limit = line.submission.limit_minutes if line.submission is not None else 0
        now = f"{limit}" if limit else ""

        def answered(minutes: str) -> None:
            done = f"The job of run {run_id} ends {minutes} min after its start."
            self.app.send(partial(self.app.session.end_after, run_id, int(minutes)), done)

        text = f"Slurm ends the job of run {run_id} at this limit, even when labtui is closed."
        text += _ends_too(self.app.view, others)
        text += f"\nMinutes from its start{f', now {now}' if now else ''}:"
        choices, problem = entry_choices("Set the limit"), partial(self._minutes_problem, run_id)
        await self._ask([run_id, *others], answered, text, choices=choices, entry=now, check=problem)

    def _minutes_problem(self, run_id: int, text: str) -> str:
        """Why `text` is not a valid time limit (minutes) for the run's job now; "" if it is. Slurm is not asked."""
        from labtui.slurm.states import early_end_refusal

        if not (text.isascii() and text.isdecimal()):
            return "Enter a whole number of minutes."
        submission, now = self.app.view.runs[run_id].submission, cluster_now(self.app.view)
        refusal = early_end_refusal(submission, int(text), now) if submission is not None else None
        return f"{refusal.sentence} {refusal.hint}" if refusal is not None else ""


def _why_over(*lines: RunLine) -> str:
    """Why a run, or the job of several, cannot be cancelled or limited; "" if it can."""
    what = f"{'The job of run' if lines[1:] else 'Run'} {lines[0].run_id}"
    why = "is being cancelled" if lines[0].cancelling else "has ended"
    return "" if any(line.cancellable for line in lines) else f"{what} {why}."


def _ends_too(view: View, others: Sequence[int]) -> str:
    others = [number for number in others if view.runs[number].run.outcome is None]
    return f" {run_numbers(others)} in the same job would end, too." if others else ""


def error_runs(view: View, found: Diagnosis, token: str) -> list[int]:
    """The runs of a job that an error in its log is about, not those that it kept from starting."""
    runs = [line.run for line in view.runs.values() if line.run.token == token]
    return [run.run_id for run in runs if found in run.diagnosis and not ended_by(run, runs)]


def failed_line(view: View) -> RunLine | None:
    """The failed run to explain: the selected one, or one whose failure ended the selected one's job."""
    line = view.line
    if line is None or line.phase not in ENDED_BADLY:
        return None
    same = (line, *(other for other in view.lines if other.run.token == line.run.token))
    return next((each for each in same if each.phase is RunPhase.FAILED), None)


def last_line(view: View, line: RunLine | None) -> int | None:
    """The 1-based log line at which the part of a run ends, before that of the next run of its job; None: the end."""
    if line is None or not line.run.started:
        return None
    mine = (run for run in view.state.runs.values() if run.token == line.run.token and run.started)
    later = [run.first_line for run in mine if run.first_line > line.run.first_line]
    return min(later) - 1 if later else None
