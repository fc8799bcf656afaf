"""The log pane: standard output or standard error of the selected run, to follow and to search."""

from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import ClassVar

from textual import app, binding, on
from textual.widgets import Input

from labtui.domain.model import RunPhase, Stream, plural
from labtui.domain.run import run_numbers
from labtui.domain.state import OPEN, TRAINING
from labtui.domain.terminal_text import printable
from labtui.tui import format as words
from labtui.tui.guidance import headline
from labtui.tui.themes import ink, roles
from labtui.tui.view import ENDED_BADLY, View
from labtui.tui.widgets.frame import PlainText, key, left_right, say
from labtui.tui.widgets.selected_run import SelectedRunPane, error_runs, last_line
from labtui.tui.widgets.tail_view import STAMP, LogText, TailView, shorten_to_parts


class LogPane(SelectedRunPane, inherit_bindings=False):  # its own keys come before the run's
    """A title, the log, and the input for a search."""

    BINDINGS: ClassVar[list[binding.BindingType]] = [
        key("slash", "search", "Search", "find a text in the log", show=True),
        key("o", "streams", "Out/err", "show standard error, or standard output again", show=True),
        key("escape", "close_search", "Back", "close the search, or go back to the chart", show=True),
        *SelectedRunPane.BINDINGS,
    ]

    stream: Stream = "out"
    _run_id: int | None = None
    _to_mark: int | None = None

    def compose(self) -> app.ComposeResult:
        self.tail = TailView(id="log-view")
        yield PlainText(id="log-title")
        yield self.tail
        yield Input(placeholder="search, then enter; n goes on", id="log-search", compact=True)

    def why_disabled(self, action: str, parameters: tuple[object, ...]) -> str | None:
        """None (no key) for `close_search` if there is nothing to go back to."""
        stays = action == "close_search" and not (self.app.back or self.query_one("#log-search").display)
        return None if stays else super().why_disabled(action, parameters)

    # ------------------------------------------------------------------ the log

    def paint(self, view: View) -> None:
        line = view.line
        chosen = line is not None and line.run_id != self._run_id
        self._run_id = line.run_id if line is not None else None
        if chosen and line is not None:
            self.stream = "err" if self._error_line is not None else line.run.stream
            self.tail.needle = ""  # the search was for the other run
        tail = self.tail
        tail.display = line is not None  # else the title says all
        tail.numbered = wide = self.size.width >= 72
        tail.brief = self.screen.has_class("-narrow")
        path = self.app.session.log_path(line.run.token, self.stream) if line is not None else None
        tail.show_file(path, self.app.session.folder.path)
        if line is None or line.phase in OPEN:
            tail.why_empty = words.why_it_waits(view, line)
        elif line.job is None and line.submission is not None:
            tail.why_empty = f"This run has no log. {line.submission.sentence}".rstrip()
        else:
            tail.why_empty = "Nothing was printed here: press o."
        found, file = read_as(view, self.stream).items() if wide else (), tail.file
        rows = {at: file.visible_line_for(at) for at, _ in found}
        tail.read_as = {rows[at]: text + (f", line {at}" if rows[at] != at else "") for at, text in found}
        if chosen:
            self._show_own_part()
        if self._to_mark is not None:  # asked for before this pane was laid out, or now
            tail.mark(self._to_mark)
            self._to_mark = None
        self.app.view_model.follows = tail.follow
        self._show_title()
        self.refresh_bindings()

    @property
    def _error_line(self) -> int | None:
        """Where to stop in standard error to see the error of the selected run; None if it is not there."""
        line = self.view.line
        found = line.run.diagnosis[:1] if line is not None and line.phase is RunPhase.FAILED else ()
        return found[0].line + 2 if found and found[0].stream == "err" else None

    def _show_own_part(self) -> None:
        """Scroll to the error of the selected run or the end of its part of the log; follow the end while it runs."""
        line, end = self.view.line, self._error_line if self.stream == "err" else None
        if end is None and line is not None and self.stream == line.run.stream:
            end = last_line(self.view, line)
        self.tail.show_end_of(end)

    def show_line(self, number: int | None) -> None:
        """Mark a line of the log that the selected run was read from; None: there is no line to mark."""
        if number is not None and self.view.line is not None:
            self.stream, self._to_mark = self.view.line.run.stream, number
            self.show(self.view)

    def action_streams(self) -> None:
        """Switch between standard output and standard error."""
        self.stream = "err" if self.stream == "out" else "out"
        self.show(self.view)
        self._show_own_part()

    @on(TailView.Moved)
    def _moved(self, event: TailView.Moved) -> None:
        event.stop()
        self.app.view_model.follows = self.tail.follow
        self._show_title()

    def _show_title(self) -> None:
        """Update the title: run, file and position in it, or that the error is in the other stream."""
        styles, line = roles(self.app), self.view.line
        if line is None:
            say(self, "#log-title", ink(headline(self.view), styles.quiet))
            return
        text = ink(f"Run {line.run_id}, {line.run.used.devices}".removesuffix(", "), "bold")
        if self.stream == "out" and self._error_line is not None:
            say(self, "#log-title", text.append("   The error is in standard error: press o.", styles.warn))
            return
        file, others = self.tail.file, self._others(line)
        live = any(self.view.runs[number].phase in TRAINING for number in (line.run_id, *others))
        if self.tail.needle:
            wanted = ink(f"   /{self.tail.needle}", styles.soft)
            wanted.truncate(max(12, self.size.width // 4), overflow="ellipsis")
            at = self.tail.match_line
            text.append_text(wanted)
            missing = f"not found{' in the lines shown' if file.hidden else ''}"
            text.append(f"  line {at}" if at else f"  {missing}", styles.soft if at else styles.warn)
        place = place_of(self.tail, live=live, width=max(0, self.size.width - text.cell_len - 3))
        right = ink(place, styles.busy if self.tail.follow and live else styles.soft)
        parts = ["standard error"] if self.stream == "err" else []
        parts += [line.word] if line.phase in ENDED_BADLY else []
        parts += [f"with {run_numbers(others).lower()}"] if others else []
        for part in (*parts, *([file.path.name] if file.path is not None else ())):
            fits = text.cell_len + len(part) + right.cell_len + 4 <= self.size.width
            text.append(f"   {part}" if fits else "", styles.soft)
        say(self, "#log-title", left_right(text, right, max(10, self.size.width)))

    # ------------------------------------------------------------------ search

    def action_search(self) -> None:
        """Show the input for a search."""
        line = self.query_one("#log-search", Input)
        line.display = True
        self.screen.set_focus(line)  # at once: the next keys are meant for it

    @on(Input.Submitted, "#log-search")
    async def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        await self.action_close_search()
        self.tail.search(event.value)

    async def action_close_search(self) -> None:
        """Hide the search input; without one, go back."""
        line = self.query_one("#log-search", Input)
        if line.display:
            line.display = False
            self.tail.focus()
        else:
            await self.run_action(f"screen.pane({self.app.back!r})")


def place_of(view: TailView, *, live: bool, width: int) -> str:
    """The position in a log, as far as it fits: following or lines below, then the lines, then the hidden ones."""
    bottom = int(view.scroll_y) + view.size.height - 1
    below = view.file.last - view.file.line_of_row(bottom) if bottom + 1 < view.file.rows() else 0
    parts = ["↓ following"] if live and view.follow else []
    parts += [f"{plural(below, 'line')} below (end)"] if below and not view.follow else []
    parts.append(plural(view.file.last, "line"))
    if view.file.hidden and not view.brief:
        parts.append(f"{plural(view.file.hidden, 'MLPerf line')} hidden (z)")
    while len(said := "   ".join(parts)) > width:
        parts.pop()
    return said


def read_as(view: View, stream: Stream) -> dict[int, str]:
    """What labtui reads in the lines of the selected run's log, by number: an epoch's time, warm-up, or an error."""
    from labtui.results.measured import warmup_epochs
    from labtui.results.numbers import three_digits

    if (chosen := view.line) is None:
        return {}
    found: dict[int, str] = {}
    mine = [line for line in view.runs.values() if line.run.token == chosen.run.token]
    for line in mine:
        whose, warmup = "" if line is chosen else f"run {line.run_id}  ", warmup_epochs(line.run)
        if len(mine) > 1 and line.run.first_line > 1 and stream == line.run.stream:
            found[line.run.first_line] = f"run {line.run_id} begins"
        for sample in line.run.epochs:
            if sample.line and stream == line.run.stream:
                counts = "warm-up" if sample.epoch in warmup else f"{three_digits(sample.seconds.value)} s"
                found[sample.line] = f"{whose}{counts}"
        for problem in line.run.diagnosis:
            if problem.stream == stream:
                runs = error_runs(view, problem, line.run.token)
                theirs = runs not in ([], [chosen.run_id])
                found[problem.line] = f"run {' or '.join(map(str, runs))}  error" if theirs else "error"
    return found


_log = lru_cache(maxsize=1)(LogText)


def line_text(root: Path, path: Path, number: int) -> str:
    """The text of a log line. Only what was added to the log is read."""
    log = _log(path, root)
    log.refresh()
    return log.line(number).rstrip()


def readable(text: str, first: str = "") -> str:
    """A line's `:::MLLOG` records as names and values in six digits, the `first` name first; another line as it is."""
    from labtui.training_logs.spans import read_records

    told: dict[str, object] = {}
    for name, value in chain.from_iterable(record.values.items() for record in read_records(text)):
        told |= value if isinstance(value, dict) else {} if value is None else {name: value}
    brief = {name: f"{each:.6g}" if isinstance(each, float) else each for name, each in told.items()}
    names = sorted(brief, key=lambda name: name != first)
    return printable(", ".join(f"{name}: {brief[name]}" for name in names)) or text


def shorten(text: str, width: int) -> str:
    """A log line cut to `width` characters: first its time stamp goes, then what says least."""
    if len(text) > width:
        text = STAMP.sub("… ", text, count=1)
    return text if len(text) <= width else " … ".join(map(str.strip, shorten_to_parts(text, width))).strip()
