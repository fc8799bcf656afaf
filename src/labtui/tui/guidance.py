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
from labtui.tui.view import RunLine, TaskLine, View, connected, result_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from labtui.domain.model import Interval
    from labtui.lab.checks import CheckItem
    from labtui.lab.edition import Fact
    from labtui.results.charts import ChartSpec


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to do next: a label and one reason, and the action that does it ("" where no key helps).

    `again` are the runs that the action plans once more. `task_id` is the task that it goes to, where it goes to one.
    `key` takes the step; "": the key of the action where it has one here, else a full stop.
    """

    label: str
    reason: str = ""
    action: str = ""
    again: tuple[RunLine, ...] = ()
    task_id: str = ""
    key: str = ""


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
        return NextStep(f"Go to {ahead.task_id}", ahead.title, "go_on", task_id=ahead.task_id)
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
        return NextStep(f"Go to {item.task_id}", missing, "go_on", task_id=item.task_id)
    again = failed_runs(view) if item.kind == "runs" else ()
    if again:
        reason = f"{words.run_numbers([line.run_id for line in again])} failed: {again[0].cause}."
        return NextStep("Run again", reason, "retry_run", again, key=".")
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
    """For a task that plans no runs: where the next runs are."""
    task, tasks = view.task, view.edition.tasks if view.edition is not None else ()
    if task is None and tasks:
        return "These jobs belong to no task. `labtui submit FILE` sends another."
    if task is None:
        return "This lab's edition could not be read. Runs, logs and charts still work."
    after = next((each.id for each in tasks[tasks.index(task) + 1 :] if each.runs), "")
    return "This task needs no run." + (
        f" Task {after} plans the next ones. Press ] to go on." if after else ""
    )


def no_run_yet(view: View) -> str:
    """The runs and charts of a task before its first run."""
    planned = len(view.task.runs) if view.task is not None else 0
    if planned:
        return f"No run yet. Press s to submit {words.plural(planned, 'run')}."
    return instead_of_runs(view)


def finished_warning(view: View) -> str:
    """A sentence for the plan of a task that is done; "" otherwise."""
    runs = any(line.phase is RunPhase.DONE for line in view.lines)
    if view.check is None or view.check.status != "done" or not runs:
        return ""
    return f"Task {view.task_id} is done already: its runs would be repeated."


def key_result(view: View) -> str:
    """A finished task in one sentence."""
    result = result_line(view)
    return f"Task {view.task_id} is done." + (f" {result}." if result else "")


CHARTS = {"time": "epoch", "throughput": "throughput", "speedup": "speedup", "efficiency": "efficien"}
"""The views of charts that a question may be about, and the word that names each."""


def chart_for(question: str, charts: Sequence[ChartSpec]) -> ChartSpec | None:
    """The chart of what a question names first, among those with something to show; else speedup, else any."""
    text = question.casefold()
    there: dict[str, ChartSpec] = {chart.view: chart for chart in reversed(charts) if not chart.empty}
    named = [name for name, word in CHARTS.items() if word in text and name in there]
    wanted = min(named, key=lambda name: text.index(CHARTS[name]), default="speedup")
    return there.get(wanted) or next(iter(there.values()), None)


def chart_beside(view: View, question: int) -> ChartSpec | None:
    questions = view.task.questions if view.task is not None else ()
    return chart_for(questions[question].text if question < len(questions) else "", view.charts)


def text_beside(view: View, question: int) -> Text:
    """What bears on the question: its facts, the numbers of the runs, other facts of the task."""
    text, task = Text(), view.task
    facts = view.edition.facts_of(task) if view.edition is not None and task is not None else ()
    names = task.questions[question].facts if task is not None and question < len(task.questions) else ()
    bearing = [fact for name in names for fact in facts if fact.id == name]
    _facts(text, f"For question {question + 1}", bearing)
    _numbers(text, view)
    _facts(text, "Other facts of this task", [fact for fact in facts if fact not in bearing])
    if not text.plain:
        text.append("The numbers of your runs appear here.", style="dim")
    text.rstrip()
    return text


def _facts(text: Text, title: str, facts: Sequence[Fact]) -> None:
    text.append(f"{title}\n" if facts else "", style="bold underline")
    for fact in facts:
        text.append(f"• {' '.join(fact.text.split())}").append(f"  ({fact.source})\n", style="dim")
    text.append("\n" if facts else "")


def _numbers(text: Text, view: View) -> None:
    """A line of numbers per measured configuration; rehearsed and real ones never stand together."""
    from labtui.results.numbers import rate_text, time_text, with_uncertainty

    lines: list[tuple[str, str, Interval | None, Interval | None]] = []
    for timed in view.results.programs if view.results is not None else ():
        if timed.practice is view.practice:
            share = timed.weak_efficiency or timed.efficiency
            lines.append((f"{timed.name} {timed.counted}", time_text(timed), timed.speedup, share))
    for row in view.results.rows if view.results is not None else ():
        if row.epoch_seconds is not None and row.practice is view.practice:
            time = f"{with_uncertainty(row, row.epoch_seconds)} s, {rate_text(row.throughput)} img/s"
            name = row.configuration.label + (", so far" if row.live else "")
            lines.append((name, time, row.speedup, row.efficiency))
    text.append("Your numbers\n" if lines else "", style="bold underline")
    for name, time, speedup, share in lines:
        text.append(f"{name}\n", style="bold").append(f"  {time}\n")
        if speedup is not None:
            text.append(f"  speedup {words.ratio(speedup)}, {words.percent(share)}\n")
    text.append("\n" if lines else "")
