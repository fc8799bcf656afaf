"""The runs pane: the result as a number and a sentence, a table of runs, a chart, and what the selected run does.

If the selected run failed, a card below the table has the log's own error line, one sentence, advice and the keys; if
nothing is to be done about it, the facts of the run say so. No row of the table moves when another run is selected.
"""

from msgspec.structs import replace
from rich.text import Text
from textual import app, containers, widgets

from labtui.domain.model import RunPhase
from labtui.domain.run import run_numbers
from labtui.domain.terminal_text import clock_span
from labtui.domain.tuning import distinguishing_words
from labtui.results.charts import FAMILIES, ChartSpec
from labtui.results.measured import val_accuracy
from labtui.results.numbers import memory_text, percent_text, rate_text, ratio_text, time_text, whole_text
from labtui.tui import format as words
from labtui.tui.format import NOTHING, PHASE_ROLES, all_shortened
from labtui.tui.guidance import ended_as_asked, headline, remedy, result_parts, sizes_of, unit_of
from labtui.tui.themes import Roles, ascii_only, ink, roles
from labtui.tui.view import ENDED_BADLY, SMALL, RunLine, View
from labtui.tui.view_model import first_chart, first_view
from labtui.tui.widgets import charts_pane, plot, selected_run, tail_view
from labtui.tui.widgets.frame import PlainText, clickable, say, wrap
from labtui.tui.widgets.selected_run import KeyedTable, Rows, SelectedRunPane, TableColumn, failed_line

MIN_BAR, MAX_BAR = 6, 16
SHORT_STATE, MIN_STATE, MAX_STATE = 9, 15, 21
"""The cells of a state: ``cancelled``, the time left, a bar with it, or ``failed: out of memory``."""
BESIDE_TABLE = 2 + plot.MIN_HEIGHT
"""The rows of a low screen that the table leaves: to the result's line and to the chart with its heading."""
OPTIONAL = ("memory", "training", "cost", "efficiency", "rate")
"""The columns that give way to narrow ones, in this order; after the cost the batch, unless it tells rows apart."""
_SPARKS = "▁▂▃▄▅▆▇█"


class Glance(containers.Horizontal):
    """The chart beside the facts of the selected run, or the log below these; without room nothing, not even a title.

    A flat one has the facts and the log side by side, and no chart.
    """

    def on_resize(self) -> None:
        self.set_class(self.size.height < 3, "-stub")
        self.set_class(self.size.height <= plot.MIN_HEIGHT, "-flat")


class RunsPane(SelectedRunPane):
    """The result, the table of runs, and the chart and facts of the selected run."""

    def compose(self) -> app.ComposeResult:
        with containers.Horizontal(id="result"):
            yield widgets.Digits(id="result-digits")
            yield PlainText(id="result-words")
        yield PlainText(id="result-line")
        table = KeyedTable(id="runs-table", cursor_type="row")
        self.watch(table, "cursor_coordinate", self._choose_run_at_cursor, init=False)
        self.watch(table, "scroll_y", self._show_notes, init=False)
        yield table
        yield PlainText(id="runs-note")
        yield PlainText(id="run-error")
        with Glance(id="glance"):
            with containers.Vertical(id="glance-left"):
                yield charts_pane.ChartView(id="glance-chart")
            with containers.Vertical(id="glance-right"):
                yield PlainText(id="run-facts")
                with Glance(id="glance-log"):
                    yield PlainText(id="glance-of")
                    yield tail_view.TailView(id="glance-tail", excerpt=True)

    def paint(self, view: View) -> None:
        styles = roles(self.app)
        self._show_result(view, styles)
        table = self.query_one(KeyedTable)
        table.display = bool(view.lines)
        width = self.size.width - 2 * table.show_vertical_scrollbar
        table.sync(*table_of(view, styles, width), select=str(view.run_id))
        self.call_after_refresh(self._show_notes)
        self._show_glance(view, styles)
        table.styles.max_height = self._rows_of_table(view)
        self.refresh_bindings()

    def _rows_of_table(self, view: View) -> int | str:
        """The rows that the table may have, of the same number whichever run is selected."""
        if not (self.has_class("-measured") and self.screen.has_class("-low")):
            return "40%" if self.has_class("-measured") else "50%"
        told = (f"{more}{notes_of(view)}" for more in ("", "More: 9 above, 9 below.  "))
        notes = (len(wrap(each, self.size.width)) for each in told)
        rows = [self.size.height - BESIDE_TABLE - max(1, each) for each in notes]  # without notes a blank one
        return max(3, rows[len(view.lines) >= rows[0]])

    # ------------------------------------------------------------------ the result

    def _show_result(self, view: View, styles: Roles) -> None:
        shown, sentence, detail = result_parts(view)
        number, _, unit = shown.partition(" ") if not ascii_only() else ("", "", "")  # the line has it
        self.set_class(bool(number), "-result")
        digits = self.query_one(widgets.Digits)
        if digits.value != number:
            digits.update(number)
        beside = ink(f"\n{unit or '×'} ", f"bold {styles.busy}").append(f"  {sentence}\n", "bold")
        below = wrap(detail, max(20, self.size.width - 3 * len(number) - 4))
        say(self, "#result-words", beside.append("\n".join(f"    {part}" for part in below), styles.soft))
        tall = bool(number) and self.screen.has_class("-tall")  # the digits show the result
        line = "" if tall else headline(view)
        say(self, "#result-line", ink(line, "bold"))
        self.query_one("#result-line").display = bool(line)

    def _show_notes(self) -> None:
        """Say what the rows need to be compared, and how many are out of sight."""
        table = self.query_one(KeyedTable)
        above, below = round(table.scroll_y), round(table.max_scroll_y - table.scroll_y)
        sides = ((above, "above"), (below, "below")) if table.display else ()
        cut = ", ".join(f"{count} {side}" for count, side in sides if count)
        notes = f"More: {cut}.  {notes_of(self.view)}" if cut else notes_of(self.view)
        say(self, "#runs-note", ink(notes, roles(self.app).quiet))
        self.set_class(bool(notes), "-noted")

    # ------------------------------------------------------------------ the failure, chart and facts

    def _show_glance(self, view: View, styles: Roles) -> None:
        line, spec, failed = view.line, glance_chart(view), failed_line(view)
        measured = spec is not None and bool(spec.measured)
        over = measured and failed is not None and not remedy(view, failed).label  # the result is worth more
        self.set_class(failed is not None and not over, "-failed")
        say(self, "#run-error", error_card(view, failed, styles, self.size.width) if failed else Text(""))
        self.query_one("#glance").display = line is not None or spec is not None
        chart = self.query_one("#glance-chart", charts_pane.ChartView)
        chart.display = spec is not None
        self.set_class(measured, "-measured")
        chart.show(spec)
        busy = self.app.view_model.gpu_use(line.run) if line is not None else ()
        found = failed.run.diagnosis[:1] if failed is not None else ()
        stream = found[0].stream if found else line.run.stream if line is not None else "out"
        started = line is not None and line.run.started
        log = self.app.session.log_path(line.run.token, stream) if line is not None and started else None
        if line is not None and log is not None:
            others = self._others(line)
            runs = run_numbers(sorted((line.run_id, *others))).lower()
            of = f"  of {runs}" if others else ("  following" if line.live else "")
            say(self, "#glance-of", ink("Log", "bold").append(of, styles.quiet))
        facts = run_facts(view, line, busy, styles) if line is not None else Text("")
        if failed is not None and over:
            facts.append(f"\n\n{explain(failed)} {remedy(view, failed).reason}", styles.soft)
        say(self, "#run-facts", facts)
        self.query_one("#glance-log").display = log is not None
        tail = self.query_one(tail_view.TailView)
        tail.show_file(log, self.app.session.folder.path)
        tail.show_end_of(found[0].line + 2 if found and found[0].line else selected_run.last_line(view, line))

    # ------------------------------------------------------------------ choosing

    def _choose_run_at_cursor(self) -> None:
        """Select the run at the cursor at once: keys that come together with the arrow keys are for this run."""
        table = self.query_one(KeyedTable)
        chosen = table.selected_key
        if table.has_focus and not table.filling and chosen not in (None, str(self.view.run_id)):
            self.app.choose_run(int(chosen))

    async def on_data_table_row_selected(self, event: widgets.DataTable.RowSelected) -> None:
        """Open the run's log on enter or a click."""
        event.stop()
        if event.row_key.value is not None:
            await self.app.action_open_log_of(int(event.row_key.value))


# ------------------------------------------------------------------ the table


def table_of(view: View, styles: Roles, width: int) -> tuple[list[TableColumn], Rows]:
    """The table: one row a run; a task's by size, and last those that failed and are not needed, or never started."""
    head, names = _telling_column(view)
    order = list(dict.fromkeys(names.values()))
    needed = [line for line in view.failures(view.task_id, view.lines) if line.run.end != "never-started"]

    def place(line: RunLine) -> tuple[bool, int, int]:
        bad = line.phase in ENDED_BADLY and line not in needed and not ended_as_asked(view, line)
        return bad, order.index(names[line.run_id]), line.run.spec.n_gpus or line.run.spec.processes

    lines = sorted(view.lines, key=place) if view.task_id else view.lines  # own jobs stand as in the queue
    longest = 22 if head == "options" else 10 if width < 120 else 14  # of the telling column
    names = dict(zip(names, all_shortened(list(names.values()), longest), strict=True))
    waits, going = bool(view.pending), not all(line.run.total_seconds for line in lines)  # they need room
    need, least = (
        min(MAX_STATE, max(0, bar, *(state_text(view, line, styles, most).cell_len for line in lines)))
        for bar, most in ((MIN_STATE if going else 0, MIN_STATE), (MIN_STATE if waits else 0, SHORT_STATE))
    )
    wide = max(map(len, (head, *names.values())))
    tried = [_columns(view, head, wide, width, room) for room in range(need, min(need, least) - 1, -1)]
    full = (each for each in tried if any(column.key == "efficiency" for column in each))
    columns = next(full, tried[0])  # a result before a long state
    rows, room = {}, columns[-1].width
    failed = [len(line.word) for line in lines if line.phase is RunPhase.FAILED]
    for line in lines:  # all that failed say so in words, or none
        short = line.phase is RunPhase.FAILED and max(failed) > room
        most = min(room, len(line.word) - 1) if short else room
        cells = _cells(view, line, styles, most) | {"model": names[line.run_id]}
        rows[str(line.run_id)] = [cells[column.key] for column in columns]
    return columns, rows


def _columns(view: View, head: str, longest: int, width: int, need: int) -> list[TableColumn]:
    """The columns, without those that are the same or unknown for all runs, or do not fit beside the state.

    `head` is the title of the telling column, `longest` the width of its names, `need` what the state needs.
    Whether a run waits or trains changes none of them; a whole training's come with the first end.
    """
    lines, unit = view.lines, unit_of(view)
    specs = [line.run.spec for line in lines]
    batches = {each.per_gpu_batch for each in specs if each.device == "gpu"}
    timed = bool(lines) and all(each.program is not None for each in specs)
    learns = any("lr_policy" in dict(each.tuning) for each in specs)
    titles = {
        "sign": ("", 1),
        "run": ("run", 3),
        "model": (head, longest),
        "gpus": (words.size_unit(specs), 9 if timed else 4),
        "batch": ("per GPU", 7),
        "size": ("size", max([9, *(len(each.size) for each in specs)])),
        "epoch": ("time" if timed else "epoch", 11 if timed else 7),
        "rate": (f"{unit}/s", max(7, len(unit) + 2)),
        "speedup": ("speedup", 7),
        "efficiency": ("efficiency", 10),
        "accuracy": ("val. acc", 8),
        "cost": ("GPU-h", 5),
        "training": ("training", 8),
        "memory": ("GPU GiB", 7),
        "state": ("", need),
    }
    drop = {"batch", "rate"} if timed else {"size"}
    drop |= set() if head else {"model"}
    drop |= set() if len(batches) > 1 else {"batch"}
    drop |= {"epoch"} if unit == "tokens" and not any(line.run.epochs for line in lines) else set()
    drop |= {"gpus"} if lines and all("n_gpus" in each.unknown for each in specs) else set()
    drop |= {"speedup", "efficiency"} if learns else {"accuracy"}
    drop |= set() if any(line.run.total_seconds for line in lines) else {"training"}
    drop |= set() if any(line.run.gpu_memory for line in lines) else {"memory"}
    sped_up = any(line.row and line.row.speedup and not line.row.is_baseline for line in lines)
    drop |= set() if sped_up or len(sizes_of(view)) > 1 else {"speedup", "efficiency", "cost"}
    shown = {name: title for name, title in titles.items() if name not in drop}
    sizes = {(each.model, each.n_gpus, each.per_gpu_batch) for each in specs}
    alone = len({size[:2] for size in sizes}) < len(sizes)  # nothing else tells two rows apart
    optional = (*OPTIONAL, "batch") if alone else (*OPTIONAL[:3], "batch", *OPTIONAL[3:])
    return selected_run.layout(shown, ("sign", "model", "state"), optional, width)


def _telling_column(view: View) -> tuple[str, dict[int, str]]:
    """The title of a column that tells runs of one size apart ("" if there is none), and its values by run number."""
    edition, lines = view.edition, view.lines
    specs = {line.run_id: view.state.called(line.run, edition.names if edition else {}) for line in lines}
    if not view.task_id or any(line.submission is not None and line.submission.job_file for line in lines):
        return "name", {run_id: spec.model for run_id, spec in specs.items()}
    for head, name in ("script", "variant"), ("data set", "data_set"), ("model", "model"):
        found = {run_id: getattr(spec, name) or "original" for run_id, spec in specs.items()}
        if len(set(found.values())) > 1:
            return head, found
    options = distinguishing_words([spec.tuning for spec in specs.values()])
    told = dict(zip(specs, map(", ".join, options), strict=True))
    return "options" if any(told.values()) else "", told


def _cells(view: View, line: RunLine, styles: Roles, state: int) -> dict[str, str | Text]:
    from labtui.results.cost import training_hours_text

    spec, row, accuracy = line.run.used, line.row, val_accuracy(line.run)
    role = getattr(styles, PHASE_ROLES.get(line.shown_phase, "quiet"))
    cost = 0.0 if line.live or "n_gpus" in spec.unknown else line.run.gpu_hours(spec.n_gpus)
    cells: dict[str, str | Text] = {
        "sign": ink(line.sign, role),
        "run": ink(str(line.run_id), styles.quiet),
        "gpus": NOTHING if "n_gpus" in spec.unknown else str(spec.n_gpus) if spec.device == "gpu" else "CPU",
        "batch": f"{spec.per_gpu_batch:,}" if spec.device == "gpu" and spec.batch_size else NOTHING,
        "size": spec.size,
        "epoch": time_text(row) if row is not None and row.epoch_seconds else NOTHING,
        "rate": rate_text(row.throughput) if row is not None and row.throughput is not None else NOTHING,
        "speedup": f"{ratio_text(row.speedup)}×" if row is not None and row.speedup is not None else NOTHING,
        "efficiency": percent_text(row.efficiency) if row and row.efficiency is not None else NOTHING,
        "accuracy": percent_text(accuracy) if accuracy is not None else NOTHING,
        "cost": training_hours_text(cost) if cost else NOTHING,
        "training": f"{whole_text(line.run.total_seconds)} s" if line.run.total_seconds else NOTHING,
        "memory": memory_text(line.run.gpu_memory) if line.run.gpu_memory else NOTHING,
        "state": state_text(view, line, styles, state),
    }
    return cells | ({"gpus": str(spec.processes)} if spec.program is not None else {})


def state_text(view: View, line: RunLine, styles: Roles, width: int) -> Text:
    """A progress bar with the time left for a running training; else the state, and why its numbers do not count."""
    role = getattr(styles, PHASE_ROLES.get(line.shown_phase, "quiet"))
    if line.word == RunPhase.RUNNING and line.run.spec.program is None:
        left = f"epoch {words.epoch_of(line)[0]}"  # also of a run that takes longer than was expected
        if line.left_s or (line.left_s is not None and line.to_limit):
            left = f"{clock_span(line.left_s)} {'to limit' if line.to_limit else 'left'}"
        cells = min(MAX_BAR, width - 2 - max(10, len(left)))
        if cells < MIN_BAR:
            return ink(left, "bold")
        done = min(cells - (not line.to_limit), round(line.share * cells))  # full at the end only
        text = ink("━" * done, styles.busy).append("─" * (cells - done), styles.axis)
        return text.append(f"  {left}", "bold")
    done, aim = line.shown_phase is RunPhase.DONE, line.phase in ENDED_BADLY and ended_as_asked(view, line)
    head, _, rest = line.word.partition(", " if done else ": ")
    text = ink(head, styles.soft if aim else role)
    text.append(f": {rest}" if rest and not done else "", styles.soft)
    if line.phase is RunPhase.FAILED and text.cell_len > width:
        cause = rest if len(rest) <= width else ""  # the sign says that it failed
        text = ink(cause or head, styles.soft if aim else role)
    text.append(", as the task asks" if aim else "", styles.soft)
    told = [*filter(None, (rest, line.not_counted))] if done else []  # these have the room of the time
    if line.took_s and not line.run.total_seconds and not told and (done or line.phase is RunPhase.CANCELLED):
        took = f" {'in' if done else 'after'} {clock_span(line.took_s)}"
        text.append(took if text.cell_len + len(took) <= width else "", styles.soft)
    return text.append("".join(f", {said}" for said in told), styles.warn)


# ------------------------------------------------------------------ sentences


def notes_of(view: View) -> str:
    """What has to be known to compare the rows of the table."""
    from labtui.results.messages import baseline_notes, notes_with_names

    notes = baseline_notes(view.charted)
    compared = [(row, row.baseline) for row in view.charted if row.baseline is not None and row.by_rate]
    if any(row.images != one.images and not row.has_policy for row, one in compared):
        notes.append(f"Speedup and efficiency compare {unit_of(view)} per second, not epoch times.")
    notes += [note for row in view.charted for note in row.notes_about("live")]
    return " ".join(dict.fromkeys([*notes_with_names(view.charted, "pooled"), *notes]))


def error_card(view: View, line: RunLine, styles: Roles, width: int) -> Text:
    """The card of a failed run: the log's own error line with its place, one sentence, advice, the keys."""
    text, room = Text(), max(20, width - 2)
    for found in line.run.diagnosis[:1]:
        whose = selected_run.error_runs(view, found, line.run.token)
        if line.run_id not in whose:
            continue
        for part in wrap(found.text.strip(), room):
            text.append("▌ ", styles.bad).append(f"{part:<{room}}\n", f"bold on {styles.bad_ground}")
        where = f" on {line.run.used.devices}" if whose == [line.run_id] else ""  # it may be another one's
        whom = f"run {' or '.join(map(str, whose))}{where}".removesuffix(" on ")
        text.append("▌ ", styles.bad).append(f"{found.place}, {whom}\n\n", styles.quiet)
    again = remedy(view, line)
    text.append(f"{line.sign} ", styles.bad).append(f"{explain(line)}\n", "bold")
    for part in wrap(again.reason, room):
        text.append(f"  {part}\n", styles.soft)
    text.append("\n")
    if again.label:
        text.append(f" R  {again.label} ", clickable("screen.retry_run", styles.chip)).append("  ")
    if line.job is not None:  # else there is no log
        text.append(" l  Open the log ", clickable("screen.pane('log')", f"bold {styles.busy}"))
    return text


def explain(line: RunLine) -> str:
    """What happened to a run, in one sentence."""
    run, spec, more = line.run, line.run.spec, ""
    if run.outcome is None:
        said = line.submission.sentence if line.submission is not None else ""
        return said or f"Run {run.run_id} {line.word}."
    if run.gpu_memory_ran_out and "batch_size" not in spec.unknown:
        more = f" with a batch of {spec.per_gpu_batch:,} per GPU"
    elif run.outcome == "time-limit":
        epoch = f"in epoch {min(run.epochs_read + 1, spec.epochs)} of {spec.epochs}"
        more = f" {epoch if run.last_begun else 'before its log shows an epoch'}"
    elif run.outcome == "failed" and run.started and not run.diagnosis:
        more = "; its log does not say why"
    elif line.phase is RunPhase.DONE and line.cause:
        more = f", and then {line.cause}: its epochs count"
    return f"Run {run.run_id} {run.deed}{more}."


def run_facts(view: View, line: RunLine, busy: tuple[float, ...], styles: Roles) -> Text:
    """The facts of a run: epoch, loss, accuracy, GPU use, why it waits, a warning about its time limit."""
    run, spec = line.run, line.run.used
    where = f" on {line.job.node}" if line.job is not None and line.job.node else ""
    size = spec.devices if spec.program is None else spec.program.count_label(spec.processes)
    text = ink(f"Run {run.run_id}", "bold").append("  " + f"{size}{where}".strip(), styles.quiet)
    facts: list[tuple[str, str, str]] = []
    if spec.program is None and (run.epochs or line.phase is RunPhase.RUNNING):
        facts.append(("epoch" if line.phase is RunPhase.RUNNING else "epochs", *words.epoch_of(line)))
    if spec.model not in ("", view.state.called(run, {}).model):
        facts.append(("model", spec.model, ""))
    for name in ("loss", "accuracy"):
        values = [epoch.metrics[name] for epoch in run.epochs if name in epoch.metrics]
        if values:
            first, last = (f"{x:.2f}" if name == "loss" else percent_text(x) for x in (values[0], values[-1]))
            facts.append((name, last, f" from {first}" if len(values) > 1 else ""))
    facts += [("val. acc", percent_text(share), "")] if (share := val_accuracy(run)) is not None else []
    if run.total_seconds is not None:
        facts.append(("training", f"{whole_text(run.total_seconds)} s", " in all"))
    if run.gpu_memory is not None:
        facts.append(("GPU mem.", f"{memory_text(run.gpu_memory)} GiB", ""))
    sparks = ""
    if busy and line.phase is RunPhase.RUNNING:
        recent = busy[-12:]
        facts.append(("GPU use", f"{100 * sum(recent) / len(recent):.0f} %", " lately"))
        sparks = "\n" + "".join(_SPARKS[min(7, int(each * 8))] for each in busy[-26:])
    text.append("\n" if facts else "")
    for name, value, rest in facts:
        text.append(f"\n{name:<9}", styles.soft).append(value, "bold").append(rest, styles.soft)
    text.append(sparks, styles.busy)
    waits = words.why_it_waits(view, line)
    text.append(f"\n\n{waits}" if waits else "", styles.soft)
    if line.phase is RunPhase.DONE and line.cause:
        text.append("".join(f"\n\n{found.text.strip()}" for found in run.diagnosis[:1]), styles.bad)
        text.append(f"\n{explain(line)}", styles.soft)
    left_out = f"Not counted: {line.not_counted}." if line.phase is RunPhase.DONE and line.not_counted else ""
    warning = words.limit_warning(line, view) or left_out
    return text.append(f"\n{warning}" if warning else "", styles.warn)


def glance_chart(view: View) -> ChartSpec | None:
    """The chart that the headline is about, else the first one with data; else an empty one with the planned sizes.

    None for a task without trainings.
    """
    runs = (view.task.runs or [line.run for line in view.lines]) if view.task is not None else ()
    trains = any(run.spec.program is None for run in runs)
    empty = charts_pane.empty_chart(view, first_view(view, view.charts)) if trains else None
    said, first = headline(view), first_chart(view, view.charts)
    spec = next((each for each in view.charts if each.message and each.message in said), first)
    if spec is None and view.line is not None and view.line.not_counted == SMALL:
        spec = FAMILIES["epochs"]
    drawn = _of_selected(view, spec) if spec is not None and spec.over_time else spec
    return drawn if drawn is not None and drawn.measured else empty


def _of_selected(view: View, spec: ChartSpec) -> ChartSpec:
    """The chart of the selected run, of this one's family; if it has none, the heading names the only run drawn."""
    from labtui.results.catalogue import chart_of_run

    line, chart = view.line, None
    if line is not None and line.row is not None and view.results is not None:
        chart = chart_of_run(view.results, line.row, line.run_id, spec.family)
    if chart is None and len(runs := {point.run for each in spec.measured for point in each.points}) == 1:
        chart = replace(spec, heading=f"{FAMILIES[spec.family].title} of run {runs.pop()}")
    return chart or spec
