"""Does a box tick? A pure function of the evidence, with the evidence beside every answer.

Nothing here fails a result for being surprising: a result outside its band gets a note with the band's
source. A box that rests on runs whose script has changed since is *stale*; one that rests on practice runs
says so.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from labtui.domain.model import RunSpec, first_sentence, plural
from labtui.domain.run import DEEDS, Mark, joint_mark
from labtui.domain.state import RunState, SubmissionState
from labtui.lab import edition as schema
from labtui.lab.edition import Edition, Task
from labtui.lab.evidence import Evidence, ExportFact, code_names, one_line, script_and_imports
from labtui.lab.plan import expected_learning_rate
from labtui.lab.run_choice import Match, cite_run, listed, match_runs, not_run_yet, notes_for, plan_words
from labtui.results.numbers import bounds_text, percent_text

Status = Literal["done", "partial", "open", "stale"]


class CheckItem(msgspec.Struct, frozen=True):
    """One condition: what it asks, what is still to be done for it in one sentence, and what shows it.

    A `stale` one is met, and `missing` says what to do again. `mark` says by which runs it is met, where they are not
    the lab's. `effort` is false for conditions that a fresh lab folder meets by itself. `kind` is the edition's word
    for the check it belongs to ("runs", "answers", "charts" ...); `run` the planned run that a condition of that kind
    is about, and `task_id` the task that plans it, where that is another one.
    """

    sentence: str
    missing: str = ""
    evidence: str = ""
    stale: bool = False
    mark: Mark = ""
    effort: bool = True
    kind: str = ""
    run: RunSpec | None = None
    task_id: str = ""

    @property
    def of_runs(self) -> bool:
        """Whether it is met by runs, those of another task too."""
        return self.kind in ("runs", "constant-batch", "learning-rate", "metric", "fit", "data-read")

    @property
    def met(self) -> bool:
        return self.stale or not self.missing


class TaskCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a task's box. `missing` is one sentence, "" when done; `notes` never fail a box."""

    task_id: str
    status: Status
    items: tuple[CheckItem, ...]
    missing: str
    notes: tuple[str, ...] = ()
    mark: Mark = ""

    @property
    def done(self) -> bool:
        """Whether the box is ticked (a stale tick is none)."""
        return self.status == "done"

    @property
    def next_item(self) -> CheckItem | None:
        """The condition that `missing` is about; None when the box is ticked."""
        unmet = next((item for item in self.items if not item.met), None)
        return unmet or next((item for item in self.items if item.stale), None)


def check_task(edition: Edition, task: Task, evidence: Evidence) -> TaskCheck:
    at = _At(edition, task, evidence)
    found = ((check, item) for check in task.checks for item in _CHECKS[type(check)](at, check))
    items = [replace(item, kind=str(type(check).__struct_config__.tag)) for check, item in found]
    mark = joint_mark(item.mark for item in items if item.met)
    notes = list(notes_for(edition, task, evidence))
    own = any(run.task_id == task.id and evidence.sent(run) for run in evidence.state.runs.values())
    ran = [item.met for item in items if item.of_runs]  # perhaps by the tasks that this one compares
    begun = own or (bool(ran) and all(ran)) or any(i.met and i.effort and not i.of_runs for i in items)
    status: Status = "partial" if begun else "open"
    if all(item.met for item in items):
        status = "stale" if any(item.stale for item in items) else "done"
    if mark and status != "open":
        notes.insert(0, f"{mark.capitalize()} runs: nothing to hand in.")
    box = TaskCheck(
        task_id=task.id,
        status=status,
        items=tuple(items),
        missing="",
        notes=tuple(notes),
        mark=mark,
    )
    return replace(box, missing=box.next_item.missing) if box.next_item is not None else box


def check_all(edition: Edition, evidence: Evidence) -> tuple[TaskCheck, ...]:
    return tuple(check_task(edition, task, evidence) for task in edition.tasks)


class _At(msgspec.Struct, frozen=True):
    """What a check looks at: a task of an edition, and the evidence."""

    edition: Edition
    task: Task
    evidence: Evidence


# --------------------------------------------------------------------------- runs


def _runs(at: _At, check: schema.RunsCheck) -> Iterator[CheckItem]:
    matches = match_runs(at.edition, at.task, check.tasks, at.evidence, check)
    for match in matches:
        other = match.task_id if match.task_id != at.task.id else ""
        elsewhere, words = f" (task {other})" if other else "", plan_words(match.spec)
        shown = "run time" if match.spec.program else f"at least {check.min_epochs} epochs"
        ends = " or ".join(DEEDS[outcome] for outcome in check.outcomes)
        sentence = f"{words}{elsewhere}: {ends}{f', {shown} in the log' if check.min_epochs else ''}"
        if match.run is None:
            label = match.spec.label
            name = label if [each.spec.label for each in matches].count(label) == 1 else words
            item = CheckItem(sentence, not_run_yet([name], elsewhere))
        else:
            why = match.why_not and f"{match.spec.label}: run {match.run.run_id} {match.why_not}"
            told = match.run.outcome is not None or match.run.epochs
            again, shown = _again(match, matches), cite_run(match.run, at.evidence) if told else ""
            item = CheckItem(sentence, why or again, shown, stale=not why and bool(again), mark=match.mark)
        yield replace(item, run=match.spec, task_id=other)


def _again(match: Match, matches: Sequence[Match]) -> str:
    """One sentence for all runs that became stale by the same change; empty when this one did not."""
    if not match.changed:
        return ""
    numbers = [str(other.run.run_id) for other in matches if other.run and other.changed == match.changed]
    runs, them = (f"run {numbers[0]}", "it") if len(numbers) == 1 else (f"runs {listed(numbers)}", "them")
    return f"{listed(match.changed)} changed after {runs}: run {them} again, or undo the change."


def _batches(at: _At, check: schema.BatchCheck) -> Iterator[CheckItem]:
    matches = match_runs(at.edition, at.task, check.tasks, at.evidence)
    for model in dict.fromkeys(match.spec.model for match in matches):
        own = [match for match in matches if match.spec.model == model]
        made = [(match.spec.n_gpus, match.run) for match in own if match.met and match.run is not None]
        used = {gpus: run.spec.per_gpu_batch for gpus, run in made if run.spec.batch_size}
        untold = [str(run.run_id) for _, run in made if not run.spec.batch_size]
        batches = ", ".join(f"{batch:,} on {plural(n, 'GPU')}" for n, batch in sorted(used.items()))
        missing, shown = "", batches
        if len(set(used.values())) > 1:
            missing = f"{model} used different batches per GPU ({batches}): its speedup compares unlike work."
        elif untold:
            missing = f"{model}: the log of run {listed(untold)} names no batch, so it cannot be compared."
        elif len(used) < len({match.spec.n_gpus for match in own}):
            missing = f"{model}: the batch per GPU can be compared once all sizes have been run."
        else:
            shown = f"per GPU: {batches}"
        yield CheckItem(f"{model}: the same batch per GPU on every number of GPUs", missing, shown)


_RATE = re.compile(r"\b(?:SGD|Adam\w*|RMSprop|learning_rate|lr)\b")
_GPUS_TIMES = re.compile(r"\*\s*(?:\w+\.)*(?:n(um)?_gpus|\w*replicas\w*)|(?:n(um)?_gpus|\w*replicas\w*)\s*\*")
_LONGEST = 1_000
"""Characters of a line that are looked at; code lines are shorter."""


def _rates(at: _At, check: schema.LearningRateCheck) -> Iterator[CheckItem]:
    """Each planned run that was made; one item that waits for them."""
    matches = match_runs(at.edition, at.task, check.tasks, at.evidence)
    made = [(match.spec, match.run) for match in matches if match.met and match.run is not None]
    if not made:
        yield CheckItem("the learning rate grows with the GPUs", "The rate is known once a run has started.")
    for spec, run in made:
        wanted, missing = expected_learning_rate(at.edition, spec), ""
        rate = run.spec.learning_rate if run.learning_rate is None else run.learning_rate
        shown = cite_run(run, at.evidence)
        if rate is None:
            shown = _in_script(run.spec.script, at.evidence)
            if not shown:
                missing = f"Neither the log nor {spec.script} shows the learning rate of {spec.label}."
        elif math.isclose(rate, wanted, rel_tol=1e-6):
            shown = f"{rate:g}: {shown}"
        else:
            missing = (
                f"{spec.label} was trained with a learning rate of {rate:g}, not {wanted:g} "
                f"(base {at.edition.base_learning_rate:g} x {spec.replicas})."
            )
        yield CheckItem(f"{spec.label}: learning rate {wanted:g}", missing, shown)


def _in_script(script: str, evidence: Evidence) -> str:
    """The line of the script (or of one it imports) that multiplies the rate by the GPUs."""
    for path in script_and_imports(script, evidence.scripts):
        text = evidence.scripts[path].text if path in evidence.scripts else ""
        for number, line in enumerate(text.splitlines(), 1):
            code = line[:_LONGEST].partition("#")[0]
            if _RATE.search(code) and _GPUS_TIMES.search(code):
                return f"scripts/{path}, line {number}: {code.strip()[:80]}"
    return ""


def _metric(at: _At, check: schema.MetricCheck) -> Iterator[CheckItem]:
    sentence = f"{check.metric} reached {check.at_least:g}"
    models = {plan.spec.model for source in at.edition.tasks_of(at.task, check.tasks) for plan in source.runs}
    values = [
        (value, sample.epoch, run)
        for run in at.evidence.state.runs.values()
        if run.spec.model in models
        for sample in run.epochs
        if (value := sample.metrics.get(check.metric)) is not None
    ]
    if not values:
        yield CheckItem(sentence, f"No run shows {check.metric} yet.")
        return
    best, epoch, run = max(values, key=lambda found: found[0])
    missing = f"The best {check.metric} so far is {best:g}; {check.at_least:g} is required: train longer."
    shown = f"{best:g} in epoch {epoch}: {cite_run(run, at.evidence)}"
    met = best >= check.at_least
    yield CheckItem(sentence, "" if met else missing, shown, mark=at.evidence.state.mark_of(run))


def _fits(at: _At, check: schema.FitCheck) -> Iterator[CheckItem]:
    for law in check.laws:
        name, model = f"{law.capitalize()}'s law", at.edition.names.get(check.model, check.model)
        sentence = f"{name} can be fitted to {model}"
        fits = at.evidence.results.fits
        fit = next((found for found in fits if (found.model, found.law) == (check.model, law)), None)
        if fit is None:
            yield CheckItem(sentence, f"{name} needs {model} on one GPU and on one more size.")
            continue
        share = percent_text(fit.serial_fraction)
        shown = f"serial fraction {share} ({bounds_text(fit.serial_fraction, share) or share}), {len(fit.n_gpus)} sizes"
        yield CheckItem(sentence, evidence=shown, mark=fit.baseline.mark)


# --------------------------------------------------------------------------- files and texts


def _charts(at: _At, check: schema.ChartsCheck) -> Iterator[CheckItem]:
    of = f" of {' and '.join(at.edition.names.get(m, m) for m in check.models)}" if check.models else ""
    matches = match_runs(at.edition, at.task, check.tasks, at.evidence)
    state = at.evidence.state
    ran = (each.run for each in matches if each.met or (each.run and _is_measured(each.run)))
    measured = {state.mark_of(run) for run in state.runs.values() if _is_measured(run)}
    left_out = {"small"} if measured != {"small"} else set()  # as charts leave them out
    shown = any(run is not None and state.mark_of(run) not in left_out for run in ran)
    for chart in check.charts:
        sentence = f"the {chart} chart{of} is exported"
        found = [e for e in at.evidence.exports if e.chart == chart and _shows(e, check, at.evidence)]
        if lacking := _lacking(chart, check, at):
            yield CheckItem(sentence, f"There is nothing to show in the {chart} chart of {lacking} yet.")
            continue
        if not found or (check.models and matches and not shown):
            yield CheckItem(sentence, f"Export the {chart} chart{of}.")
            continue
        export = max(found, key=lambda item: (item.at is None, item.at or 0.0))
        later = _later_run(export, check, at.evidence, {each.task_id for each in matches})
        again = f"The {chart} chart is older than run {later.run_id}: export it again." if later else ""
        yield CheckItem(sentence, again, export.path, stale=bool(again), mark=export.mark)


def _is_measured(run: RunState) -> bool:
    return bool(run.epochs) or run.throughput is not None


def _later_run(
    export: ExportFact, check: schema.ChartsCheck, evidence: Evidence, tasks: set[str]
) -> RunState | None:
    """A measured run of the chart's models, of these tasks if any, that went on after the chart was written."""
    if export.at is None:
        return None
    for _, run in sorted(evidence.state.runs.items(), reverse=True):
        submission = evidence.submission(run)
        shown = _is_measured(run) and run.spec.model in check.models and (not tasks or run.task_id in tasks)
        if shown and submission is not None and _news_at(submission) > export.at:
            return run
    return None


def _news_at(submission: SubmissionState) -> float:
    """When a submission last brought something for a chart, by our clock: as it was sent, or its job began or ended."""
    job = submission.job
    seen = 0.0 if job is None else job.seen_at - 15.0  # s: an end is seen some time later
    return max(submission.planned_at, seen)


_COMPARES = {"speedup": "speedup", "efficiency": "efficiency", "cpu-gpu": "acceleration"}
"""What a row has that such a chart shows: the file of one that was exported before may be there without it."""


def _lacking(chart: str, check: schema.ChartsCheck, at: _At) -> str:
    """The networks that were measured and have nothing for such a chart."""
    rows, names = at.evidence.results.measured, at.edition.names
    measured, field = {row.model for row in rows}, _COMPARES.get(chart)
    shown = {row.model for row in rows if field is None or getattr(row, field) is not None}
    return listed([names.get(model, model) for model in check.models if model in measured - shown])


def _shows(export: ExportFact, check: schema.ChartsCheck, evidence: Evidence) -> bool:
    """Whether a chart shows the models asked for; one that names none shows what was measured."""
    measured = {row.model for row in evidence.results.measured}
    shown = set(export.models) or measured | {row.model for row in evidence.results.programs}
    return set(check.models) <= shown


def _answers(at: _At, _check: schema.AnswersCheck) -> Iterator[CheckItem]:
    sheet = at.evidence.answers.get(at.task.id)
    for number, question in enumerate(at.task.questions, 1):
        answered = sheet is not None and number <= len(sheet.texts) and bool(sheet.texts[number - 1])
        yield CheckItem(
            f"question {number} is answered: {one_line(question.text)}",
            "" if answered else f"Question {number} has no answer yet.",
            f"answers/{at.task.id}.md" if answered else "",
        )


def _edited(at: _At, check: schema.EditedCheck) -> Iterator[CheckItem]:
    sentence = f"{check.script} is your own copy of {check.original} and uses {' and '.join(check.names)}"
    script = at.evidence.scripts.get(check.script)
    shipped = at.evidence.originals.get(check.script)
    source = at.evidence.originals.get(check.original) or at.evidence.scripts.get(check.original)
    if script is None:
        yield CheckItem(sentence, f"Make {check.script} from {check.original}.")
        return
    names = code_names(script.text)
    lacking = [name for name in check.names if name not in names]
    missing = shown = ""
    if shipped is not None and script.is_file(shipped.sha256):
        missing = f"{check.script} came with labtui; the task wants your own, made from {check.original}."
    elif source is not None and script.is_file(source.sha256):
        missing = f"{check.script} is still identical to {check.original}: make the change yourself."
    elif lacking:
        missing, shown = f"{check.script} does not use {' and '.join(lacking)} in its code yet.", check.script
    else:
        places = ", ".join(f"{name} in line {names[name]}" for name in check.names)
        shown = f"scripts/{check.script}: {places}"
    yield CheckItem(sentence, missing, shown)


def _files(at: _At, check: schema.FilesCheck) -> Iterator[CheckItem]:
    for name in check.files:
        there = name in at.evidence.scripts
        missing = "" if there else f"scripts/{name} is missing."
        yield CheckItem(f"{name} is in scripts/", missing, f"scripts/{name}" if there else "", effort=False)


def _data(at: _At, _check: schema.DataCheck) -> Iterator[CheckItem]:
    evidence, sentence = at.evidence, "the data set and the software on the cluster can be reached"
    trained = [run for _, run in sorted(evidence.state.runs.items()) if run.epochs and _reads_data(run, at)]
    gone = [path for path, there in evidence.remote.items() if not there]
    if trained:
        witness = min(
            trained, key=lambda run: bool(evidence.state.mark_of(run))
        )  # a real run is the better one
        shown = f"{cite_run(witness, evidence)} read the data and trained"
        yield CheckItem(sentence, evidence=shown, mark=evidence.state.mark_of(witness))
    elif gone:
        yield CheckItem(sentence, f"Not on the cluster: {', '.join(gone)}.")
    elif evidence.remote:
        seen = evidence.remote_at
        when = f"{datetime.fromtimestamp(seen, UTC): on %Y-%m-%d %H:%M UTC}" if seen is not None else ""
        yield CheckItem(sentence, evidence=f"seen on the cluster{when}: {', '.join(evidence.remote)}")
    else:
        yield CheckItem(sentence, "Data and container: not looked for yet. Press D (`labtui doctor`).")


def _reads_data(run: RunState, at: _At) -> bool:
    """Whether a run shows that the data are there: a script that no task plans may train on anything."""
    submission = at.evidence.submission(run)
    planned = {plan.spec.script.rpartition("/")[2] for task in at.edition.tasks for plan in task.runs}
    own = submission is not None and submission.form == "own"
    return not own or run.spec.script.rpartition("/")[2] in planned


def _hand_in(at: _At, check: schema.HandInCheck) -> Iterator[CheckItem]:
    files = " or ".join(check.files)
    found = next((name for name in check.files if name in at.evidence.files), "")
    yield CheckItem(f"{files} is in the lab folder", "" if found else f"Make {files} (labtui export).", found)


_CHECKS: dict[type[schema.Check], Callable[[_At, Any], Iterator[CheckItem]]] = {
    schema.RunsCheck: _runs,
    schema.BatchCheck: _batches,
    schema.LearningRateCheck: _rates,
    schema.MetricCheck: _metric,
    schema.ChartsCheck: _charts,
    schema.AnswersCheck: _answers,
    schema.EditedCheck: _edited,
    schema.FilesCheck: _files,
    schema.DataCheck: _data,
    schema.FitCheck: _fits,
    schema.HandInCheck: _hand_in,
}


_MAX_NAMED = 3


def still_to_run(check: TaskCheck, models: Sequence[str]) -> str:
    """Which planned runs of these models (of all, without any) lack, and how those that do not count ended."""
    planned = [(i.run, i) for i in check.items if i.run is not None and (not models or i.run.model in models)]
    made = {spec.label for spec, item in planned if item.evidence}
    specs = [spec for spec, item in planned if not item.evidence]
    ended = [item.missing for _, item in planned if item.evidence and not item.met]
    ends = " ".join(map(first_sentence, dict.fromkeys(ended)))
    names = list(dict.fromkeys(plan_words(spec) if spec.label in made else spec.label for spec in specs))
    if not names:
        return ends
    shown, more = names[:_MAX_NAMED], len(names) - _MAX_NAMED
    unrun = not_run_yet([*shown, plural(more, "more run")] if more > 0 else shown)
    return f"{ends} {unrun}".strip()


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """`current` is the first task that is not done (None: all are); any may be worked on at any time."""

    current: str | None
    done: int
    total: int


def progress(edition: Edition, checks: Sequence[TaskCheck]) -> Progress:
    """Progress over all tasks."""
    unfinished = {check.task_id for check in checks if not check.done}
    current = next((task.id for task in edition.tasks if task.id in unfinished), None)
    return Progress(current=current, done=len(checks) - len(unfinished), total=len(checks))
