"""What the screens suggest: what to do next, which keys act, and what bears on an answer. Pure, like `view`.

Beside an answer stand numbers or a chart and facts that bear on the question, then all numbers and other facts; labtui
sets these beside the text and writes no answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from labtui.domain.events import RunState
from labtui.domain.model import RunPhase
from labtui.tui.actions import named
from labtui.tui.format import NOTHING
from labtui.tui.view import LIVE_WORDS, TaskRow, ViewState, number_rows, task_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from labtui.lab.checks import CheckItem
    from labtui.lab.edition import Fact
    from labtui.results.charts import ChartSpec


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to do next: a sentence, and the action of the registry that does it ("" where no key helps).

    `again` are the runs that the action plans once more. `task_id` is the task that it goes to, where it goes to one.
    """

    sentence: str
    action: str = ""
    again: tuple[RunState, ...] = ()
    task_id: str = ""

    @property
    def label(self) -> str:
        """The action's own label, or where it goes to."""
        action = named(self.action)
        return f"go to {self.task_id}" if self.task_id else action.label if action is not None else ""


_STEP_ACTIONS = {
    "runs": "plan",
    "constant-batch": "plan",
    "learning-rate": "edit",
    "metric": "plan",
    "charts": "export",
    "hand-in": "export",
    "answers": "pane('answers')",
    "edited": "edit",
    "data-read": "doctor",
    "fit": "plan",
}
"""The action that brings a missing condition of each kind nearer."""


def next_step(view_state: ViewState) -> NextStep:
    """What the task on the screen needs now: its remedy, its next condition, the next task, or the hand-in."""
    state = view_state.state
    if state.connection.status == "needs-login" or (
        state.connection.status == "offline" and state.connection.sentence
    ):
        return NextStep("Not connected to the cluster. Connect again.", "refresh_now")
    failed = oom_run(view_state)
    if failed is not None:
        return NextStep(
            f"{failed.spec.label} ran out of GPU memory. Plan it with half the batch.", "halve_batch"
        )
    check = view_state.checks.get(view_state.task_id)
    item = check.next_item if check is not None else None
    live = [run for run in view_state.runs if run.phase in LIVE_WORDS]
    if live and (item is None or item.kind in {"runs", "constant-batch", "metric", "fit", "learning-rate"}):
        return _while_running(view_state, len(live))
    if check is not None and item is not None and check.missing:
        return _what_is_missing(view_state, check.missing, item)
    ahead = next_task(view_state)
    if ahead is not None:
        return NextStep(f"Next task: {ahead.task_id} {ahead.title}", "next_open_task")
    return _hand_in(view_state) if view_state.checks else NextStep("")


def next_task(view_state: ViewState) -> TaskRow | None:
    """The next task that is not done, those after the one on the screen first; None when all are."""
    rows = task_rows(view_state)
    here = next((at for at, row in enumerate(rows) if row.task_id == view_state.task_id), -1)
    ahead = (*rows[here + 1 :], *rows[: max(0, here)])
    return next((row for row in ahead if row.status != "done"), None)


def oom_run(view_state: ViewState) -> RunState | None:
    """The newest run of the task that ran out of GPU memory and was not planned again with a smaller batch."""
    smallest: dict[str, int] = {}  # images per GPU of the later runs, by model
    for run in reversed(view_state.runs):
        batch, later = run.spec.per_gpu_batch, smallest.get(run.spec.model)
        again = later is not None and later < batch
        if run.outcome == "oom" and run.gpu_memory_ran_out and not again:
            return run
        smallest[run.spec.model] = batch if later is None else min(batch, later)
    return None


def _what_is_missing(view_state: ViewState, missing: str, item: CheckItem) -> NextStep:
    if item.task_id:
        return NextStep(missing, "go_to_missing", task_id=item.task_id)
    again = failed_runs(view_state) if item.kind == "runs" else ()
    if again:
        which, it = f"{again[0].spec.label} (run {again[0].run_id})", "it"
        if len(again) > 1:
            which, it = f"Runs {', '.join(str(run.run_id) for run in again)}", "them"
        return NextStep(f"{which} failed. Look at the log, then plan {it} again.", "retry_run", again)
    action = _STEP_ACTIONS.get(item.kind, "")
    if item.kind == "edited" and not item.evidence and missing.startswith("Make "):
        action = "start_copy"
    return NextStep(missing, action)


def failed_runs(view_state: ViewState) -> tuple[RunState, ...]:
    """The last run of each planned size that never completed, where it failed or ran out of time."""
    task = view_state.task
    planned = {(each.model, each.gpus) for each in task.runs} if task is not None else set()
    last = {run.spec.label: run for run in view_state.runs if (run.spec.model, run.spec.n_gpus) in planned}
    for run in view_state.runs:
        if run.outcome == "completed":
            last.pop(run.spec.label, None)
    return tuple(run for run in last.values() if run.outcome in {"failed", "time-limit"})


def _while_running(view_state: ViewState, count: int) -> NextStep:
    """What can be done while jobs are under way: the questions without an answer, else watching."""
    runs = f"{count} run{'s' if count != 1 else ''} under way."
    check = view_state.checks.get(view_state.task_id)
    if check is not None and any(item.kind == "answers" and not item.met for item in check.items):
        return NextStep(f"{runs} Meanwhile, answer the questions.", "pane('answers')")
    return NextStep(f"{runs} Watch the log.", "pane('log')")


def _hand_in(view_state: ViewState) -> NextStep:
    edition = view_state.edition
    hand_in = edition.hand_in if edition is not None else None
    what = " ".join(hand_in.what.split()) if hand_in is not None else ""
    if not view_state.deck:
        return NextStep(f"All tasks are done. Export the deck to hand in: {what}".rstrip(": "), "export")
    return NextStep(f"All tasks are done. Hand in {view_state.deck}: {what}".rstrip(": "))


def context_keys(view: ViewState, pane: str) -> tuple[str, ...]:
    """The actions that do something here and now, the most useful first, by their names."""
    task, run = view.task, view.run
    mine = run is not None and run.task_id == view.task_id
    live = run is not None and mine and run.phase in LIVE_WORDS
    keys: list[str] = []
    if oom_run(view) is not None:
        keys.append("halve_batch")
    if pane in {"runs", "log"} and live:
        keys += ["cancel_run", "end_after"]
    if pane in {"runs", "log"} and run is not None and mine:
        if run.phase in {RunPhase.WAITING, RunPhase.QUEUED}:
            keys.append("hold_run")
        if run.phase in {RunPhase.FAILED, RunPhase.CANCELLED} and oom_run(view) is not run:
            keys.append("retry_run")
    if pane in {"task", "runs", "charts"} and task is not None and task.runs:
        keys.append("plan")
    if pane == "runs" and mine:
        keys.append("pane('log')")
    if pane == "task" and task is not None:
        from labtui.lab.plan import copies_to_start

        keys += ["start_copy"] if copies_to_start(task) else []
        keys += ["edit"] if task.files else []
    if pane == "answers":
        keys.append("edit")
    if pane in {"task", "charts"} and any(each.epochs for each in view.state.runs.values()):
        keys.append("export")
    if (ahead := next_step(view).action) in {"next_open_task", "go_to_missing"}:
        keys.append(ahead)
    return tuple(keys)


def instead_of_runs(view: ViewState) -> str:
    """For a task that plans no runs: its next step, and where the next runs are."""
    task = view.task
    if task is None:
        return "This lab's edition could not be read, so there is no plan. `labtui labs check` says why."
    sentences = ["This task needs no run."]
    check = view.checks.get(task.id)
    if check is not None and check.status == "done":
        sentences.append("It is done.")
    else:
        sentences.append(next_step(view).sentence)
        if task.questions:
            sentences.append("Press a for its questions.")
    tasks = view.edition.tasks if view.edition is not None else ()
    names = [each.id for each in tasks]
    after = next((each for each in tasks[names.index(task.id) + 1 :] if each.runs), None)
    if after is not None:
        sentences.append(f"Task {after.id} plans the next runs; press ] to go on.")
    return " ".join(sentence for sentence in sentences if sentence)


def no_run_yet(view: ViewState) -> str:
    """The runs pane before the first run of a task."""
    planned = len(view.task.runs) if view.task is not None else 0
    if planned:
        runs = f"{planned} run{'s' if planned != 1 else ''}"
        return f"No run yet. Press s to submit the {runs} of this task."
    return instead_of_runs(view)


def done_already(view: ViewState) -> str:
    """A sentence for the plan of a task that is done; "" otherwise."""
    check = view.checks.get(view.task_id)
    runs = sum(run.phase is RunPhase.DONE for run in view.runs)
    if check is None or check.status != "done" or not runs:
        return ""
    return f"Task {view.task_id} is done already: its runs would be repeated."


CHART_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("efficiency", ("efficien",)),
    ("speedup", ("speedup", "speed-up", "speed up", "linear", "scal", "ideal")),
    ("throughput", ("throughput", "images per second", "images/s")),
    ("cpu-gpu", ("acceler", "cpu")),
    (
        "epoch-time",
        ("epoch", "times", "training time", "how long", "seconds", "longer", "slower", "faster"),
    ),
)
"""Words of a question that a chart answers to."""
NUMBERS = {
    "epoch-time": "Epoch time, s",
    "throughput": "Throughput, img/s",
    "speedup": "Speedup",
    "efficiency": "Parallel efficiency",
}
"""The charts' keys, in the order of the numbers in a row, and what stands over those numbers."""


def chart_for(question: str, charts: Sequence[ChartSpec]) -> ChartSpec | None:
    """The chart of what a question names first, among those with something to show; else speedup, else any."""
    text = question.casefold()
    shown = {chart.family: chart for chart in reversed(charts) if not chart.empty}
    there = {key: shown[key] for key in (*NUMBERS, "cpu-gpu") if key in shown}
    named = []
    for key, words in CHART_WORDS:
        places = [text.index(word) for word in words if word in text]
        if places and key in there:
            named.append((min(places), key))
    wanted = min(named)[1] if named else "speedup"
    return there.get(wanted) or next(iter(there.values()), None)


def facts_for(view_state: ViewState, question: int | None) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """The facts that bear on a question, in the edition's order, and the other facts of its task."""
    task, edition = view_state.task, view_state.edition
    if task is None or edition is None:
        return (), ()
    facts = edition.facts_of(task)
    chosen = question is not None and 0 <= question < len(task.questions)
    names = task.questions[question].facts if chosen and question is not None else ()
    bearing = tuple(fact for name in names for fact in facts if fact.id == name)
    return bearing, tuple(fact for fact in facts if fact not in bearing)


def chart_beside(view_state: ViewState, question: int | None) -> ChartSpec | None:
    task = view_state.task
    text = ""
    if task is not None and question is not None and 0 <= question < len(task.questions):
        text = task.questions[question].text
    return chart_for(text, view_state.charts)


def text_beside(view_state: ViewState, question: int | None, *, charted: bool = False) -> Text:
    """What bears on the question: its numbers (unless a chart shows them) and facts; then all numbers, other facts."""
    text = Text()
    bearing, others = facts_for(view_state, question)
    rows = _rows(view_state)
    if not charted:
        _numbers_of_question(text, view_state, question, rows)
    if bearing and question is not None:
        _facts(text, f"For question {question + 1}", bearing)
    _all_numbers(text, rows)
    _facts(text, "Other facts of this task" if bearing else "Facts", others)
    if not text.plain:
        text.append("The numbers of your runs appear here.", style="dim")
    text.rstrip()
    return text


def _numbers_of_question(
    text: Text, view_state: ViewState, question: int | None, rows: Sequence[tuple[str, ...]]
) -> None:
    """One line for each number that the question's chart would show."""
    chart = chart_beside(view_state, question)
    if chart is None or question is None:
        return
    key = chart.family if chart.family in NUMBERS else "epoch-time"
    at = list(NUMBERS).index(key) + 1
    lines = [f"{row[0]}  {row[at]}\n" for row in rows if row[at] != NOTHING]
    if lines:
        text.append(f"{NUMBERS[key]}\n", style="bold underline")
        text.append("".join(lines)).append("\n")


def _all_numbers(text: Text, rows: Sequence[tuple[str, ...]]) -> None:
    if not rows:
        return
    text.append("Your numbers\n", style="bold underline")
    for run, epoch, rate, speedup, efficiency in rows:
        text.append(f"{run}\n", style="bold")
        text.append(f"  {epoch} s, {rate} img/s\n")
        if speedup != NOTHING:
            text.append(f"  speedup {speedup}, {efficiency}\n")
    text.append("\n")


def _facts(text: Text, title: str, facts: Sequence[Fact]) -> None:
    if not facts:
        return
    text.append(f"{title}\n", style="bold underline")
    for fact in facts:
        text.append(f"• {' '.join(fact.text.split())}").append(f"  ({fact.source})\n", style="dim")
    text.append("\n")


def _rows(view_state: ViewState) -> Sequence[tuple[str, ...]]:
    """The numbers of the networks this task is about, then those of the others."""
    task = view_state.task
    mine = {run.model for run in task.runs} if task is not None else set()
    mine |= {run.spec.model for run in view_state.runs}
    everything = {row.model for row in view_state.results.rows} if view_state.results is not None else set()
    return number_rows(view_state, frozenset(mine)) + number_rows(view_state, frozenset(everything - mine))
