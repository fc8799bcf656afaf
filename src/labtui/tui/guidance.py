"""Sentences about a view: the next step, the result of the runs, and what is wrong. Pure, like `view`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from labtui.domain.model import RunPhase, plural
from labtui.domain.run import WHAT_COUNTS, join_names, run_numbers
from labtui.domain.state import CLUSTER_OVER, LIVE, TRAINING, ended_by
from labtui.domain.terminal_text import clock_span
from labtui.tui import format as words
from labtui.tui.view import ENDED_BADLY, SMALL, RunLine, View, planned_sizes

if TYPE_CHECKING:
    from labtui.lab.checks import CheckItem
    from labtui.results.rows import ResultRow


class NextStep(msgspec.Struct, frozen=True):
    """What to do next: a label, one reason, the action that does it ("": no key helps), its key ("": not yet known)."""

    label: str
    reason: str = ""
    action: str = ""
    key: str = ""


_STEPS = {
    "runs": ("plan", "Plan the runs"),
    "constant-batch": ("plan", "Plan with one batch per GPU"),
    "learning-rate": ("edit", "Edit the script"),
    "metric": ("plan", "Plan another run"),
    "charts": ("export", "Export the charts"),
    "hand-in": ("export", "Export"),
    "answers": ("next_question", "Answer the questions"),
    "edited": ("edit", "Edit the script"),
    "files": ("edit", "Edit the file"),
    "data-read": ("doctor", "Check the cluster"),
    "fit": ("plan", "Plan the runs"),
}
"""For each kind of condition, the action that helps to meet it, and the action's label."""


def next_step(view: View) -> NextStep:
    """The current task's next step: the remedy of a failed run, its next condition, the next task, or the hand-in."""
    step = _next_step(view)
    return NextStep("Exporting ...") if view.exporting and step.action == "export" else step


def _next_step(view: View) -> NextStep:
    if view.state.connection.lost and not view.read_only:
        hint = view.state.connection.hint
        if hint == CLUSTER_OVER and view.factor is None:
            return _without_cluster(view)
        again = NextStep("Quit and start practice", hint, "leave")
        why = "labtui keeps trying; u tries now." if _retried(view) else "Not connected to the cluster."
        return again if _stopped(view) else NextStep("Connect", why, "refresh_now")
    starved = next((line for line in failed_runs(view) if line.run.gpu_memory_ran_out), None)
    if starved is not None:
        said = f"Run {starved.run_id} ran out of memory."
        return replace(remedy(view, starved), reason=said, action=f"retry_run(({starved.run_id},))")
    item = view.check.next_item if view.check is not None else None
    if view.pending and (item is None or item.of_runs):
        return _while_running(view)
    return _what_is_missing(view, item) if item is not None else _next_task(view)


def _retried(view: View) -> bool:
    """Whether labtui connects again by itself: not after a refused login, nor if lab.toml names no cluster."""
    unset = any(problem.key == "settings" for problem in view.state.problems)
    return view.state.connection.status == "offline" and not unset


def _stopped(view: View) -> bool:
    """Whether the folder's practice cluster does not run: this labtui does not run it, and it does not answer."""
    return view.practice and view.factor is None and view.state.connection.lost


def _without_cluster(view: View) -> NextStep:
    """The next step where no run can be made: what else is missing in this task."""
    if item := next((each for each in view.items if not (each.met or each.of_runs)), None):
        return _what_is_missing(view, item)
    return NextStep(f"Export the {hand_in_form(view)}", view.state.connection.hint, "export")


def hand_in_form(view: View) -> str:
    """What the lab hands in: slides or a report."""
    return view.edition.hand_in.form if view.edition is not None else "slides"


def success_text(view: View, line: RunLine) -> str:
    """A sentence on the run that made a failure good; or ""."""
    run = view.shown_state.made_good_by(line.run)
    if run is not None and run.spec.per_gpu_batch < line.run.spec.per_gpu_batch:
        return f"Run {run.run_id} trained with a batch of {run.spec.per_gpu_batch:,} per GPU."
    return f"Run {run.run_id} is the same again, and is {view.runs[run.run_id].word}." if run else ""


def ended_as_asked(view: View, line: RunLine) -> bool:
    """Whether a run ended as its task asks, be it with a failure."""
    task = view.edition.task(line.run.task_id) if view.edition is not None else None
    return task is not None and line.run.outcome in task.own_runs_check.outcomes


def remedy(view: View, line: RunLine) -> NextStep:
    """After a run that ended badly: the label for running it again ("" if nothing needs it), and advice."""
    from labtui.slurm.states import end_reason

    run, full = line.run, view.count("runs", line.run.task_id).full
    if (first := ended_by(run, (each.run for each in view.runs.values()))) is not None:
        return NextStep("" if full else "Run again", f"Run {first.run_id} of the same job {first.deed}.")
    advice = run.diagnosis[0].advice if run.diagnosis else end_reason(line.job) or "Press l for the log."
    if ended_as_asked(view, line):
        return NextStep("", "This is what the task asks for.")
    if full:
        return NextStep("", "The task needs no other run.")
    never = WHAT_COUNTS if view.state.never_counts(run) else ""
    if told := view.without_gpus(line) or never or success_text(view, line):
        return NextStep("", told)
    if run.outcome == "time-limit":
        advice = words.advice_on_time(line.submission, view.factor)
    elif run.outcome is None and line.submission is not None:
        advice = line.submission.hint  # there is no log
    elif run.gpu_memory_ran_out:
        return _after_oom(view, line)
    elif run.end == "host-memory" and line.submission is not None and view.profile is not None:
        advice = view.profile.more_memory(line.submission)
    return NextStep("Run again", advice)


def same_again(line: RunLine) -> bool:
    """Whether a run is planned again unchanged: its own job file sets the batch, or no smaller one is known."""
    own = line.submission is not None and bool(line.submission.job_file)
    return line.run.outcome != "time-limit" and (own or line.run.spec.per_gpu_batch < 2)


def _after_oom(view: View, line: RunLine) -> NextStep:
    """The remedy for a run that ran out of GPU memory."""
    from labtui.lab.plan import smaller_batch

    if same_again(line):
        own = line.submission.job_file if line.submission is not None else ""
        other = f"Set a smaller batch, then submit {own} again" if own else "There is no smaller batch"
        return NextStep("Run again", f"{other}. R plans it as it was.")
    task = view.edition.task(line.run.task_id) if view.edition is not None else None
    advice = f"Try a batch of {smaller_batch(line.run.spec, task):,} per GPU, the same on every size."
    return NextStep("Run again", advice)


def _what_is_missing(view: View, item: CheckItem) -> NextStep:
    missing = re.sub(r" \([^)]*`[^)]*`\)", "", item.missing)  # the command is for terminals
    if item.task_id:
        return NextStep(f"Go to {item.task_id}", missing, f"go_to({item.task_id!r})")
    if item.of_runs and view.cannot_run:
        return NextStep("Another cluster is needed", view.cannot_run)
    if item.kind == "runs" and (again := failed_runs(view)):
        return _run_again(view, again)
    action, label = _STEPS.get(item.kind, ("", missing))
    made = view.runs[item.run_id].run.spec if item.mark == "small" and item.run_id else None
    if made and item.run and made.extra_args == item.run.extra_args:  # another would be as small
        return NextStep("Check the cluster", missing, "doctor")
    if item.to_make:
        action, label = "start_copy", "Make the copy"
    if item.kind == "runs" and not view.lines and view.task is not None and view.task.runs:
        label = f"Plan {plural(len(view.task.runs), 'run')}"
    if item.kind == "answers":
        return NextStep(f"Answer question {first_open(view)}", "", action)
    return NextStep(label, missing if label != missing else "", action)


def first_open(view: View) -> int:
    """The number of the task's first question without an answer; 0 without one."""
    items = (item for item in view.items if item.kind == "answers")
    return next((number for number, item in enumerate(items, 1) if not item.met), 0)


def _run_again(view: View, lines: Sequence[RunLine]) -> NextStep:
    if elsewhere := view.without_gpus(lines[0]):
        return NextStep("Another cluster is needed", elsewhere)
    return NextStep("Run again", end_text(lines), f"retry_run({tuple(line.run_id for line in lines)})")


def failed_runs(view: View) -> tuple[RunLine, ...]:
    """The runs that the current task still needs because they failed or were cancelled."""
    return view.failures(view.task_id, view.lines) if view.task is not None and view.task.runs else ()


def runs_to_retry(view: View) -> tuple[RunLine, ...]:
    """The runs that `retry_run` plans: a selected one that ended badly, be it needed or not, else all that are."""
    missing, line = failed_runs(view), view.line
    return missing if line is None or line.phase not in ENDED_BADLY or line in missing else (line,)


def _while_running(view: View) -> NextStep:
    """The next step while jobs are in progress: about held, failed or missing runs, else to answer or to watch."""
    reason = words.live_reason(view)
    held = [each.run_id for each in view.pending if each.submission is not None and each.submission.held]
    if len(held) == len(view.pending):
        return NextStep("Release the runs", f"{run_numbers(held)}: held. Press H to release.", "pane('runs')")
    if view.state.stuck:
        return NextStep("Check the cluster", words.waiting_text(view), "doctor")
    if failed := [line for line in failed_runs(view) if line.phase is RunPhase.FAILED]:
        return _run_again(view, failed)
    going, meanwhile = {each.run_id for each in view.pending}, f"Meanwhile {reason[0].lower()}{reason[1:]}"
    missing = (item for item in view.items if item.kind == "runs" and not item.met and not item.task_id)
    again = [item for item in missing if item.run_id not in going or item.mark == "small"]
    if again and max(going) < view.unchecked_from:
        more = NextStep(f"Plan {plural(len(again), 'run')}", reason, "plan")
        return _what_is_missing(view, again[0]) if again[0].mark == "small" else more
    if (number := first_open(view)) and any(line.row is not None for line in view.lines):
        return NextStep(f"Answer question {number}", meanwhile, "next_question")
    begun = [line.run_id for line in view.pending if line.run.started]
    pane = "log" if begun else "runs"
    other = begun and view.run_id not in begun  # `l` opens the log of the selected run
    action = f"app.open_log_of({begun[0]})" if other else f"pane('{pane}')"
    return NextStep(f"Watch the {pane}", reason, action)


def _next_task(view: View) -> NextStep:
    """The first task that is not done, as in `labtui check`; when all are done, the hand-in."""
    far = view.progress
    if far is None:
        return NextStep("Checking the tasks ..." if view.loading or view.edition is not None else "")
    for row in view.tasks:
        if row.task_id == far.current:
            return NextStep(f"Go to {row.task_id}", row.title, f"go_to({row.task_id!r})")
    what = " ".join(view.edition.hand_in.what.split()) if view.edition is not None else ""
    if not view.deck or view.deck_old:
        what = f"{view.deck} is older than your runs or answers." if view.deck_old else what
        return NextStep(f"Export the {hand_in_form(view)}", f"All tasks are done. {what}".rstrip(), "export")
    if view.practice:
        what = f"{view.deck} shows practice runs; hand in one of real runs: `labtui init` begins there."
    label = "Practice is done" if view.practice else f"Hand in {view.deck}"
    return NextStep(label, f"All tasks are done. {what}".rstrip())


def sizes_of(view: View) -> set[int]:
    """The numbers of GPUs, or of processes, that the task's runs have or are planned with."""
    mine = {line.run.used.n_gpus or line.run.used.processes for line in view.lines}
    return planned_sizes(view.task) | mine - {0}


def unit_of(view: View) -> str:
    """The unit of the rates shown (images, tokens ...): from a log, or before that from the task's plan."""
    planned = [run.spec.unit for run in view.task.runs] if view.task is not None else []
    return [*(line.run.unit for line in view.lines if line.row is not None), *planned, "images"][0]


def instead_of_runs(view: View) -> str:
    """A sentence for a task that plans no runs."""
    task, tasks = view.task, view.edition.tasks if view.edition is not None else ()
    if view.loading:
        return "The lab's text is being read ..."
    if task is None and tasks:
        return "These jobs belong to no task. `labtui submit FILE` sends another."
    if task is None:
        return "This lab's edition could not be read. Runs, logs and charts still work."
    asked = (item.task_id for item in view.items if item.run)
    if compared := dict.fromkeys(filter(None, [*asked, *(line.run.task_id for line in view.lines)])):
        return f"This task compares the runs of {join_names(compared)}."
    return "This task needs no run."


def headline(view: View) -> str:
    """The result of the task's runs, else what is missing for one; all panes show the same words."""
    planned = len(view.task.runs) if view.task is not None else 0
    if view.loading:
        return ""
    if not view.lines:
        return _before_runs(view, planned) if planned else instead_of_runs(view)
    measured = any(line.row is not None and line.row.epoch_seconds is not None for line in view.lines)
    going = (line for line in view.lines if line.word == RunPhase.RUNNING)
    if any(line.run.spec.epochs > 1 for line in going) and not measured:
        return "Epoch 1 is warm-up and is not counted."
    if planned and all(line.phase in ENDED_BADLY for line in view.lines):
        newest = [line for line in view.lines if line.run.token == view.lines[-1].run.token]
        failed = [line for line in newest if line.phase is RunPhase.FAILED]
        return end_text(failed or newest) + (" The task asks for no more." if view.count("runs").full else "")
    return result_line(view)


def _before_runs(view: View, planned: int) -> str:
    """The sentence of a task without a run of its own: how many others count, and its next step."""
    runs, item = view.count("runs"), view.check.next_item if view.check is not None else None
    others = dict.fromkeys(f" (in {i.task_id})" for i in view.items if i.run and i.met and i.task_id)
    there = f"{runs.done} of {runs.of} runs done{''.join(others)}" if runs.done else "No run yet"
    step = _what_is_missing(view, item) if item is not None else NextStep("")
    if step.action == "plan" or not (step.action or view.cannot_run):
        return f"{there}. Press s to plan {plural(planned, 'run')}."
    return f"{there}. {step.label}{'' if runs.full else ' first'}."


def end_text(lines: Sequence[RunLine], who: str = "") -> str:
    """A sentence on those runs that ended as the first one did, by their numbers if not by `who`."""
    word = lines[0].word
    numbers = [line.run_id for line in lines if line.word == word]
    was = "" if lines[0].phase is RunPhase.FAILED else "was " if len(numbers) == 1 else "were "
    return f"{who or run_numbers(numbers)} {was}{word}."


def instead_of_chart(view: View) -> str:
    """What an empty chart waits for."""
    line = view.line
    if line and line.phase is RunPhase.DONE and line.not_counted not in ("", SMALL) and not view.charted:
        return f"Run {line.run_id} is in no chart: {line.not_counted}."
    if any(line.not_counted == SMALL for line in view.lines):
        return "Small runs (other images, or CPU devices for GPUs) are not compared. r shows each alone."
    if any(row.epoch_seconds is not None for row in view.charted):
        from labtui.results.compute import NO_ONE_GPU_RUN
        from labtui.results.messages import why_no_speedup

        if baseline := [line for line in failed_runs(view) if line.run.spec.n_gpus == 1]:
            return end_text(baseline[:1], "The one-GPU run")
        needs = why_no_speedup(view.charted) or "This chart needs runs on more than one size."
        pending = words.pending_like_charted(view)
        ones = [line.run_id for line in pending if line.run.spec.n_gpus == 1]
        if ones and needs == NO_ONE_GPU_RUN:
            needs = f"The speedup comes with run {ones[0]} (one GPU)."
        return f"{words.live_reason(view, pending)} {needs}".strip()
    planned = view.task.runs if view.task is not None else ()
    specs = [each.spec for each in planned or (line.run for line in view.lines)]
    if view.task is None or not specs:
        return ""
    timed = all(spec.program is not None or spec.epochs == 1 for spec in specs)
    over, ends = view.lines and not view.pending, "end" if timed else "train"
    fills = "No run has a time that counts yet." if over else f"Charts fill in as the runs {ends}."
    return f"{words.live_reason(view)} {fills}".strip()


# ------------------------------------------------------------------ results, states and the line above the keys


def title_remark(view: View) -> str:
    """What follows the current task's state in the title: how long it trains, what it waits for, or what failed."""
    line = view.task_line
    if line is None or line.live is None:
        return f"  {words.live_reason(view)}".removesuffix(".").rstrip() if line is not None else ""
    failed = [one.run_id for one in failed_runs(view) if one.phase is RunPhase.FAILED]
    if failed and line.live in LIVE:
        return f"  {run_numbers(failed).lower()} failed"
    run = next((each for each in view.lines if each.word == line.word), None)  # none: ending, cancelling
    if run is None or line.live not in TRAINING or line.word != line.live:
        return ""
    told = f" for {clock_span(run.took_s)}" if run.took_s and run.took_s >= 1 else ""
    return f"{told} (run {run.run_id})" if len(view.lines) > 1 else told


def result_parts(view: View) -> tuple[str, str, str]:
    """The result in three parts: ``2.53``, ``as fast with 4 GPUs as with one``, ``63 % efficient so far``; else "".

    Empty for a task about learning. Of a single measurement: ``215 s``, ``an epoch on the CPU``, ``233 images per
    second``. Another model than the task plans is named, and has it only while there is no result of a planned one.
    """
    from labtui.results.numbers import percent_text, ratio_text
    from labtui.results.scaling import by_size

    if any(row.has_policy for row in view.charted) and _compared(view):
        return "", "", ""
    rows = tuple(row for row in view.charted if not _planned_instead(view, row)) or view.charted
    if not (scaled := by_size(rows)):
        gain = next((row.acceleration for row in rows if row.acceleration is not None), None)
        said = ("as fast on one GPU as on the CPU", "acceleration, not scaling")
        return _single(view, rows) if gain is None else (ratio_text(gain), *said)
    best = scaled[-1]
    detail, run = _compared(view) or f"{percent_text(best.efficiency)} efficient", best.members[-1].run
    detail += " so far" if any(row.live for row in (best, best.baseline) if row is not None) else ""
    if len(best.pooled) > 1 and not _compared(view):
        detail += f" (mean of {run_numbers([each.run_id for each in best.pooled]).lower()})"
    planned = run.epochs_planned
    far = f"{run.epochs_read} of {planned} epochs" if planned else plural(run.epochs_read, "epoch")
    detail += f", after {far}" if best.live else ""
    rates = f"as many {best.configuration.unit} per second on {best.devices} as on one"
    sentence = rates if best.by_rate else f"as fast with {best.devices} as with one"
    return ratio_text(best.speedup), f"{sentence}{_of_model(view, best)}", detail


def _single(view: View, rows: Sequence[ResultRow]) -> tuple[str, str, str]:
    """The `result_parts` of a task with one measured size that compares no sizes."""
    from labtui.results.numbers import rate_text, time_text

    if len(rows) != 1 or len(sizes_of(view)) > 1 or " " not in time_text(rows[0]):
        return "", "", ""
    (row,) = rows
    what = "in all " if row.program else "an epoch " if row.epoch_seconds else ""
    where = f"on {row.devices}" if row.program or row.n_gpus is not None else ""  # else nobody knows
    both = row.epoch_seconds is not None and row.throughput is not None
    rate = f"{rate_text(row.throughput)} {row.configuration.unit} per second" if both else ""
    sentence = f"{what}{where}".rstrip() + _of_model(view, row)
    return time_text(row), sentence, f"{rate}{' so far' if row.live else ''}".strip()


def _of_model(view: View, row: ResultRow) -> str:
    """In brackets the row's model if the task's runs or its plan have others, its data set if the lab has several."""
    sets = {each.run.spec.data_set for each in view.runs.values()}
    named = [row.title] * (len({each.run.spec.model for each in view.lines}) > 1)
    named += [row.configuration.data_set] * (row.configuration.data_set != "" and len(sets) > 1)
    if planned := _planned_instead(view, row):
        named = [*dict.fromkeys((row.title, row.model)), f"not {' or '.join(planned)}"]
    return f" ({', '.join(named)})" if named else ""


def _planned_instead(view: View, row: ResultRow) -> list[str]:
    from labtui.lab.run_choice import planned_instead

    run = view.runs[(row.drawn or row.members)[0].run_id or 0].run
    return planned_instead(view.task, run, view.state) if view.task is not None else []


def result_line(view: View) -> str:
    """The result in one line: ``2.53× as fast with 4 GPUs as with one, 63 % efficient so far``; "" without one."""
    number, sentence, detail = result_parts(view)
    shown = f"{number}{'' if ' ' in number else '×'} {sentence}".rstrip() if number else ""
    compared = "" if " " in number else _compared(view)
    return compared or ", ".join(filter(None, (shown, detail.partition(", after ")[0])))


def _compared(view: View) -> str:
    """The message of the chart that compares what the task trained, else several models or data sets; else ""."""
    learns = any(row.has_policy for row in view.charted)
    name, least = ("training", 1) if learns else ("speedup", 2)
    said = next((c.message for c in view.charts if c.view == name and len(c.measured) >= least), "")
    return said + " so far" * (learns and bool(said) and any(row.live for row in view.charted))


def status_line(view: View) -> tuple[str, str]:
    """The severity ("error", "warning" or "") and the text of the note line; "" for no text."""
    state, connection, at = view.state, view.state.connection, view.state.refreshed_at
    if connection.status == "needs-login":
        return "warning", f"{connection.sentence or 'Not logged in.'} Press u to log in."
    if state.connection.lost:
        if at is None or _stopped(view) or not (_retried(view) or view.read_only):
            said = "" if _stopped(view) and connection.hint else connection.sentence
            return "warning", f"{said} {connection.hint}".strip()
        how = connection.hint if view.read_only else "labtui keeps trying."
        lasted = clock_span(view.now - max(at, connection.since))
        return "warning", f"Offline for {lasted}. Jobs go on; numbers are from {words.clock(at)}. {how}"
    if state.problems:
        problem = state.problems[-1]
        more = f" ({len(state.problems) - 1} more: !)" if len(state.problems) > 1 else ""
        return "error", f"{problem.sentence} {problem.hint}{more}"
    if at and at < connection.since and any(line.live for line in view.lines):
        return "", f"The queue was last read at {words.clock(at)}; it is being read."
    return "", words.waiting_text(view)
