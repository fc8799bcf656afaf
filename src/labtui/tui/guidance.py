"""What the screens suggest: what to do next, and what bears on an answer. Pure, like `view`.

Beside an answer stand numbers or a chart and facts that bear on the question, then all numbers and other facts; labtui
sets these beside the text and writes no answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from labtui.domain.model import RunPhase
from labtui.tui import format as words
from labtui.tui.format import NOTHING
from labtui.tui.view import RunLine, TaskLine, View, connected, result_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from labtui.lab.checks import CheckItem
    from labtui.lab.edition import Fact
    from labtui.results.charts import ChartSpec


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to do next: a label and one reason, and the action that does it ("" where no key helps).

    `again` are the runs that the action plans once more. `task_id` is the task that it goes to, where it goes to one.
    `key` takes the step.
    """

    label: str
    reason: str = ""
    action: str = ""
    again: tuple[RunLine, ...] = ()
    task_id: str = ""
    key: str = "."


_STEPS = {
    "runs": ("plan", "Submit the runs"),
    "constant-batch": ("plan", "Plan with one batch per GPU"),
    "learning-rate": ("edit", "Edit the script"),
    "metric": ("plan", "Plan another run"),
    "charts": ("export", "Export the charts"),
    "hand-in": ("export", "Export the slides"),
    "answers": ("pane('answers')", "Answer the questions"),
    "edited": ("edit", "Edit the script"),
    "files": ("edit", "Edit the file"),
    "data-read": ("doctor", "Check the cluster"),
    "fit": ("plan", "Submit the runs"),
}
"""The action that brings a missing condition of each kind nearer, and its label."""


def next_step(view: View) -> NextStep:
    """What the task on the screen needs now: its remedy, its next condition, the next task, or the hand-in."""
    if not connected(view.state):
        return NextStep("Connect", "Not connected to the cluster.", "refresh_now")
    failed = oom_run(view)
    if failed is not None:
        return NextStep("Halve the batch", f"Run {failed.run_id} ran out of memory.", "halve_batch")
    item = view.check.next_item if view.check is not None else None
    waits = view.live and (
        item is None or item.kind in {"runs", "constant-batch", "metric", "fit", "learning-rate"}
    )
    if waits:
        return _while_running(view)
    if item is not None and view.check is not None and view.check.missing:
        return _what_is_missing(view, view.check.missing, item)
    ahead = next_task(view)
    if ahead is not None:
        return NextStep(f"Go to {ahead.task_id}", ahead.title, "next_open_task", task_id=ahead.task_id)
    return _hand_in(view) if view.checks else NextStep("")


def next_task(view: View) -> TaskLine | None:
    """The next task that is not done, those after the one on the screen first; None when all are."""
    here = next((at for at, row in enumerate(view.tasks) if row.task_id == view.task_id), -1)
    ahead = (*view.tasks[here + 1 :], *view.tasks[: max(0, here)])
    return next((row for row in ahead if row.status != "done"), None)


def oom_run(view: View) -> RunLine | None:
    """The newest run of the task that ran out of GPU memory and was not planned again with a smaller batch."""
    smallest: dict[str, int] = {}  # images per GPU of the later runs, by model
    for line in reversed(view.lines):
        spec = line.run.spec
        batch, later = spec.per_gpu_batch, smallest.get(spec.model)
        if line.run.gpu_memory_ran_out and (later is None or later >= batch):
            return line
        smallest[spec.model] = batch if later is None else min(batch, later)
    return None


def _what_is_missing(view: View, missing: str, item: CheckItem) -> NextStep:
    if item.task_id:
        return NextStep(f"Go to {item.task_id}", missing, "go_to_missing", task_id=item.task_id)
    again = failed_runs(view) if item.kind == "runs" else ()
    if again:
        reason = f"{words.run_numbers([line.run_id for line in again])} failed: {again[0].cause}."
        return NextStep("Run again", reason, "retry_run", again)
    action, label = _STEPS.get(item.kind, ("", missing))
    if item.kind == "edited" and not item.evidence and missing.startswith("Make "):
        action, label = "start_copy", "Begin the copy"
    if item.kind == "runs" and not view.lines and view.task is not None and view.task.runs:
        label = f"Submit {words.plural(len(view.task.runs), 'run')}"
    if item.kind == "answers":
        done = view.count("answers").done
        label = f"Answer question {done + 1}"
    if item.kind == "charts":
        charts = view.count("charts")
        label = f"Export {words.plural(charts.of - charts.done, 'chart')}"
    return NextStep(label, missing if label != missing else "", action)


def failed_runs(view: View) -> tuple[RunLine, ...]:
    """The last run of each planned size that never completed, where it failed or ran out of time."""
    task = view.task
    planned = {(each.spec.model, each.spec.n_gpus) for each in task.runs} if task is not None else set()
    last = {}
    for line in view.lines:
        if (line.run.spec.model, line.run.spec.n_gpus) in planned:
            last[line.run.spec.label] = line
    for line in view.lines:
        if line.phase is RunPhase.DONE:
            last.pop(line.run.spec.label, None)
    return tuple(line for line in last.values() if line.run.outcome in {"failed", "time-limit"})


def live_reason(view: View) -> str:
    """``Run 3 has 0:09 left.``, ``Run 4 is queued; Slurm expects it to start at 14:02.``, for example."""
    training = [line for line in view.live if line.phase is RunPhase.RUNNING]
    first = (training or view.live or (None,))[0]
    if first is None:
        return ""
    if first.left_s is not None:
        return f"Run {first.run_id} has {words.clock_span(first.left_s)} left."
    job = first.submission.job if first.submission is not None else None
    if first.phase is RunPhase.QUEUED and job is not None and job.start_estimate:
        return (
            f"Run {first.run_id} is queued; Slurm expects it to start at {words.clock(job.start_estimate)}."
        )
    if len(view.live) > 1:
        return f"{words.plural(len(view.live), 'run')} under way."
    return f"Run {first.run_id} is {first.phase.value}."


def _while_running(view: View) -> NextStep:
    """What can be done while jobs are under way: the questions without an answer, else watching."""
    answers = view.count("answers")
    if answers.done < answers.of:
        return NextStep(f"Answer question {answers.done + 1}", live_reason(view), "pane('answers')")
    return NextStep("Watch the log", live_reason(view), "pane('log')")


def _hand_in(view: View) -> NextStep:
    hand_in = view.edition.hand_in if view.edition is not None else None
    what = " ".join(hand_in.what.split()) if hand_in is not None else ""
    if not view.deck:
        return NextStep("Export the slides", f"All tasks are done. {what}".rstrip(), "export")
    return NextStep(f"Hand in {view.deck}", f"All tasks are done. {what}".rstrip())


def instead_of_runs(view: View) -> str:
    """For a task that plans no runs: its next step, and where the next runs are."""
    task = view.task
    if task is None:
        return "This lab's edition could not be read. Run `labtui labs check`."
    sentences = ["This task needs no run."]
    if view.check is not None and view.check.status == "done":
        sentences.append("It is done.")
    else:
        sentences.append(next_step(view).reason)
    tasks = view.edition.tasks if view.edition is not None else ()
    names = [each.id for each in tasks]
    after = next((each for each in tasks[names.index(task.id) + 1 :] if each.runs), None)
    if after is not None:
        sentences.append(f"Task {after.id} plans the next runs. Press ] to go on.")
    return " ".join(sentence for sentence in sentences if sentence)


def no_run_yet(view: View) -> str:
    """The runs and charts of a task before its first run."""
    planned = len(view.task.runs) if view.task is not None else 0
    if planned:
        return f"No run yet. Press s to submit {words.plural(planned, 'run')}."
    return instead_of_runs(view)


def done_already(view: View) -> str:
    """A sentence for the plan of a task that is done; "" otherwise."""
    runs = any(line.phase is RunPhase.DONE for line in view.lines)
    if view.check is None or view.check.status != "done" or not runs:
        return ""
    return f"Task {view.task_id} is done already: its runs would be repeated."


def key_result(view: View) -> str:
    """A finished task in one sentence."""
    result = result_line(view)
    return f"Task {view.task_id} is done." + (f" {result}." if result else "")


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
    for key, named_by in CHART_WORDS:
        places = [text.index(word) for word in named_by if word in text]
        if places and key in there:
            named.append((min(places), key))
    wanted = min(named)[1] if named else "speedup"
    return there.get(wanted) or next(iter(there.values()), None)


def facts_for(view: View, question: int | None) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """The facts that bear on a question, in the edition's order, and the other facts of its task."""
    task, edition = view.task, view.edition
    if task is None or edition is None:
        return (), ()
    facts = edition.facts_of(task)
    chosen = question is not None and 0 <= question < len(task.questions)
    names = task.questions[question].facts if chosen and question is not None else ()
    bearing = tuple(fact for name in names for fact in facts if fact.id == name)
    return bearing, tuple(fact for fact in facts if fact not in bearing)


def chart_beside(view: View, question: int | None) -> ChartSpec | None:
    task = view.task
    text = ""
    if task is not None and question is not None and 0 <= question < len(task.questions):
        text = task.questions[question].text
    return chart_for(text, view.charts)


def text_beside(view: View, question: int | None, *, charted: bool = False) -> Text:
    """What bears on the question: its numbers (unless a chart shows them) and facts; then all numbers, other facts."""
    text = Text()
    bearing, others = facts_for(view, question)
    rows = number_rows(view)
    if not charted:
        _numbers_of_question(text, view, question, rows)
    if bearing and question is not None:
        _facts(text, f"For question {question + 1}", bearing)
    _all_numbers(text, rows)
    _facts(text, "Other facts of this task" if bearing else "Facts", others)
    if not text.plain:
        text.append("The numbers of your runs appear here.", style="dim")
    text.rstrip()
    return text


def _numbers_of_question(
    text: Text, view: View, question: int | None, rows: Sequence[tuple[str, ...]]
) -> None:
    """One line for each number that the question's chart would show."""
    chart = chart_beside(view, question)
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


def number_rows(view: View) -> list[tuple[str, ...]]:
    """Configuration, epoch time, throughput, speedup, efficiency: one line per measured configuration of the task."""
    from labtui.results.numbers import rate_text, with_uncertainty

    rows: list[tuple[str, ...]] = []
    for timed in view.results.programs if view.results is not None else ():
        if timed.practice is view.practice:
            time = f"{timed.shown.value:,.2f} {timed.program.shown_in}"
            share = words.percent(timed.weak_efficiency or timed.efficiency)
            name = f"{timed.series} {timed.program.counted(timed.processes)}"
            rows.append((name, time, NOTHING, words.ratio(timed.speedup), share))
    for row in view.results.rows if view.results is not None else ():
        if row.epoch_seconds is None or row.practice is not view.practice:
            continue  # rehearsed and real numbers never stand in one table
        label = row.configuration.label + (", so far" if row.live else "")
        time, rate = with_uncertainty(row, row.epoch_seconds), rate_text(row.throughput)
        rows.append((label, time, rate, words.ratio(row.speedup), words.percent(row.efficiency)))
    return rows
