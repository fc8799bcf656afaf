"""Whether a task's box is ticked: a pure function of the evidence, which each answer cites.

A surprising result never fails a check; a result outside its band gets a note with the band's source. A box that
relies on runs whose script has changed since is *stale*; one that relies on practice runs says so.
"""

import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from labtui.domain.model import RunSpec, first_sentence, plural
from labtui.domain.run import DEEDS, Mark, join_names, joint_mark
from labtui.domain.state import RunState
from labtui.lab import edition as schema
from labtui.lab import run_choice
from labtui.lab.edition import Edition, Task
from labtui.lab.evidence import Evidence, ExportFact, one_line, script_and_imports
from labtui.lab.plan import expected_learning_rate
from labtui.lab.run_choice import Match, cite_run, describe_spec, match_planned_runs, not_run_yet, notes_for
from labtui.preflight.files import code_names, names_missing
from labtui.results.laws import MIN_SIZES
from labtui.results.messages import count_words, serial_words
from labtui.results.rows import without_small
from labtui.slurm.probe import from_home

Status = Literal["done", "partial", "open", "stale"]


class CheckItem(msgspec.Struct, frozen=True):
    """One condition: what it requires, what is still `missing` (one sentence), and the `evidence` that it is met.

    A `stale` condition is met, and `missing` says what to do again. `mark` is "practice" or "small" if such runs meet
    it. `kind` is the edition's word for the check it belongs to ("runs", "answers", "charts" ...). A condition of kind
    "runs" has the planned `run`, in `run_id` the run that was made for it, if any, and in `task_id` the task that plans
    it if that is another task. `to_make` is the script that the student is still to make.
    """

    sentence: str
    missing: str = ""
    evidence: str = ""
    stale: bool = False
    mark: Mark = ""
    kind: str = ""
    run: RunSpec | None = None
    run_id: int | None = None
    task_id: str = ""
    to_make: str = ""

    @property
    def of_runs(self) -> bool:
        """Whether runs meet it, be they of this task or of another one."""
        return self.kind in ("runs", "constant-batch", "learning-rate", "metric", "fit", "data-read")

    @property
    def met(self) -> bool:
        return self.stale or not self.missing


class TaskCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a task's box. `missing` is one sentence, "" when done; `notes` do not affect the status."""

    task_id: str
    status: Status
    items: tuple[CheckItem, ...]
    missing: str
    notes: tuple[str, ...] = ()
    mark: Mark = ""

    @property
    def done(self) -> bool:
        """Whether the box is ticked; a stale box is not."""
        return self.status == "done"

    @property
    def next_item(self) -> CheckItem | None:
        """The condition that `missing` is about; None when the box is ticked."""
        unmet = next((item for item in self.items if not item.met), None)
        return unmet or next((item for item in self.items if item.stale), None)


def check_task(edition: Edition, task: Task, evidence: Evidence) -> TaskCheck:
    ctx = _Context(edition, task, evidence)
    found = ((check, item) for check in task.checks for item in _CHECKS[type(check)](ctx, check))
    items = [replace(item, kind=str(type(check).__struct_config__.tag)) for check, item in found]
    mark = joint_mark(item.mark for item in items if item.met)
    notes = [*notes_for(edition, task, evidence), *filter(None, [evidence.above.get(task.id)])]
    own = any(run.task_id == task.id and evidence.sent(run) for run in evidence.state.runs.values())
    ran = [item.met for item in items if item.of_runs]  # the runs may be of the tasks that this one compares
    # `init` makes the files
    made = any(item.met and not item.of_runs and item.kind != "files" for item in items)
    status: Status = "partial" if own or made or (bool(ran) and all(ran)) else "open"
    if all(item.met for item in items):
        status = "stale" if any(item.stale for item in items) else "done"
    if mark and status != "open":
        notes.insert(0, f"{mark.capitalize()} runs: exports say so; they are not to be handed in.")
    told: dict[str, Any] = {"status": status, "items": tuple(items), "notes": tuple(notes), "mark": mark}
    box = TaskCheck(task_id=task.id, missing="", **told)
    return replace(box, missing=box.next_item.missing) if box.next_item is not None else box


def check_all(edition: Edition, evidence: Evidence) -> tuple[TaskCheck, ...]:
    return tuple(check_task(edition, task, evidence) for task in edition.tasks)


class _Context(msgspec.Struct, frozen=True):
    """The arguments that all checks share."""

    edition: Edition
    task: Task
    evidence: Evidence


# --------------------------------------------------------------------------- runs


def _check_runs(ctx: _Context, check: schema.RunsCheck) -> Iterator[CheckItem]:
    matches = match_planned_runs(ctx.edition, ctx.task, check.tasks, ctx.evidence, check)
    for match in matches:
        other = match.task_id if match.task_id != ctx.task.id else ""
        elsewhere, words = f" (task {other})" if other else "", describe_spec(match.spec)
        shown = "run time" if match.spec.program else f"at least {check.min_epochs} epochs"
        ends = " or ".join(DEEDS[outcome] for outcome in check.outcomes)
        sentence = f"{words}{elsewhere}: {ends}{f', {shown} in the log' if check.min_epochs else ''}"
        if match.run is None:
            label = match.spec.label
            name = label if [each.spec.label for each in matches].count(label) == 1 else words
            item = CheckItem(sentence, not_run_yet([name], elsewhere))
        else:
            reason = match.not_counted_for_task
            why = reason and f"{match.spec.label}: run {match.run.run_id} {reason}"
            has_log = match.run.outcome is not None or match.run.epochs
            again = _stale_message(match, matches)
            shown = cite_run(match.run, ctx.evidence) if has_log else ""
            item = CheckItem(sentence, why or again, shown, stale=not why and bool(again), mark=match.mark)
        yield replace(item, run=match.spec, run_id=match.run and match.run.run_id, task_id=other)


def _stale_message(match: Match, matches: Sequence[Match]) -> str:
    """One sentence for all runs that the same change made stale; "" if this one is not stale."""
    if not match.changed:
        return ""
    numbers = [str(other.run.run_id) for other in matches if other.run and other.changed == match.changed]
    runs, them = (f"run {numbers[0]}", "it") if len(numbers) == 1 else (f"runs {join_names(numbers)}", "them")
    return f"{join_names(match.changed)} changed after {runs}: run {them} again, or undo the change."


def _check_batches(ctx: _Context, check: schema.BatchCheck) -> Iterator[CheckItem]:
    matches = match_planned_runs(ctx.edition, ctx.task, check.tasks, ctx.evidence)
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
            missing = f"{model}: the log of run {join_names(untold)} names no batch, so nothing is compared."
        elif len(used) < len({match.spec.n_gpus for match in own}):
            missing = f"{model}: the batch per GPU can be compared once all sizes have been run."
        else:
            shown = f"per GPU: {batches}"
        yield CheckItem(f"{model}: the same batch per GPU on every number of GPUs", missing, shown)


_RATE = re.compile(r"\b(?:SGD|Adam\w*|RMSprop|learning_rate|lr)\b")
_GPUS_TIMES = re.compile(r"\*\s*(?:\w+\.)*(?:n(um)?_gpus|\w*replicas\w*)|(?:n(um)?_gpus|\w*replicas\w*)\s*\*")
_MAX_LINE = 1_000
"""Only this many characters of a line are searched; lines of code are shorter."""


def _check_learning_rates(ctx: _Context, check: schema.LearningRateCheck) -> Iterator[CheckItem]:
    """An item for each planned run."""
    for match in match_planned_runs(ctx.edition, ctx.task, check.tasks, ctx.evidence):
        spec, run, missing, shown = match.spec, match.run, "", ""
        wanted = expected_learning_rate(ctx.edition, spec)
        if run is None or not match.met:
            missing = "The learning rate is known once the run is done."
        elif (rate := run.spec.learning_rate if run.learning_rate is None else run.learning_rate) is None:
            if not (shown := _rate_in_script(run.spec.script, ctx.evidence)):
                missing = f"Neither the log nor {spec.script} shows the learning rate of {spec.label}."
        elif math.isclose(rate, wanted, rel_tol=1e-6):
            shown = f"{rate:g}: {cite_run(run, ctx.evidence)}"
        else:
            shown = cite_run(run, ctx.evidence)
            rule = f"base {ctx.edition.base_learning_rate:g} x {spec.replicas}"
            missing = f"{spec.label} was trained with a learning rate of {rate:g}, not {wanted:g} ({rule})."
        yield CheckItem(f"{spec.label}: learning rate {wanted:g}", missing, shown)


def _rate_in_script(script: str, evidence: Evidence) -> str:
    """The line of the script, or of one it imports, that multiplies the rate by the number of GPUs; "" without one."""
    for path in script_and_imports(script, evidence.scripts):
        text = evidence.scripts[path].text if path in evidence.scripts else ""
        for number, line in enumerate(text.splitlines(), 1):
            code = line[:_MAX_LINE].partition("#")[0]
            if _RATE.search(code) and _GPUS_TIMES.search(code):
                return f"scripts/{path}, line {number}: {code.strip()[:80]}"
    return ""


def _check_metric(ctx: _Context, check: schema.MetricCheck) -> Iterator[CheckItem]:
    sentence = f"{check.metric} reached {check.at_least:g}"
    models = {plan.spec.model for task in ctx.edition.tasks_of(ctx.task, check.tasks) for plan in task.runs}
    values = [
        (value, sample, run)
        for run in ctx.evidence.state.runs.values()
        if run.spec.model in models
        for sample in run.epochs
        if math.isfinite(value := sample.metrics.get(check.metric, math.nan))
    ]
    if not values:
        yield CheckItem(sentence, f"No run shows {check.metric} yet.")
        return
    reached, mark_of = check.at_least, ctx.evidence.state.mark_of
    best, sample, run = max(values, key=lambda one: (one[0] >= reached, not mark_of(one[2]), one[0]))
    missing = f"The best {check.metric} so far is {best:g}; {reached:g} is required: train longer."
    shown = f"{best:g} in epoch {sample.epoch}: {cite_run(run, ctx.evidence, sample.line_of(check.metric))}"
    yield CheckItem(sentence, "" if best >= reached else missing, shown, mark=mark_of(run))


def _check_fits(ctx: _Context, check: schema.FitCheck) -> Iterator[CheckItem]:
    for law in check.laws:
        name, model = f"{law.capitalize()}'s law", ctx.edition.names.get(check.model, check.model)
        sentence = f"{name} can be fitted to {model}"
        fits = ctx.evidence.results.fits
        fit = next((found for found in fits if (found.baseline.model, found.law) == (check.model, law)), None)
        if fit is None:
            sizes = count_words(MIN_SIZES, "size")
            missing = f"{name} needs {model} on {sizes}, one GPU among them, and faster on more."
            yield CheckItem(sentence, missing)
            continue
        shown = f"{serial_words(fit)}, {len(fit.n_gpus)} sizes"
        yield CheckItem(sentence, evidence=shown, mark=fit.baseline.mark)


# --------------------------------------------------------------------------- files and texts


def _check_charts(ctx: _Context, check: schema.ChartsCheck) -> Iterator[CheckItem]:
    of = f" of {join_names([ctx.edition.names.get(m, m) for m in check.models])}" if check.models else ""
    compared = () if ctx.task.runs else tuple(name for each in ctx.task.checks for name in each.tasks)
    matches = match_planned_runs(ctx.edition, ctx.task, check.tasks or compared, ctx.evidence)
    state, tasks = ctx.evidence.state, {each.task_id for each in matches}
    rows = (*without_small(ctx.evidence.results).rows, *ctx.evidence.results.programs)
    drawn = {run.run_id for row in rows for run in row.members}
    measured = [run for number, run in sorted(state.runs.items(), reverse=True) if number in drawn]
    charted = [run for each in matches if (run := each.run) and (each.met or run in measured)]
    shown = [run_choice.runs_for_task(each, state) for each in ctx.edition.tasks if each.id in tasks]
    mine = {run.run_id for runs in shown for run in runs}
    of_models = (run for run in measured if run.spec.model in check.models)
    of_tasks = [run for run in of_models if not tasks or run.run_id in mine]
    for chart in check.charts:
        sentence = f"the {chart} chart{of} is exported"
        found = [e for e in ctx.evidence.exports if e.chart == chart and _shows(e, check, ctx.evidence)]
        if lacking := _models_without(chart, check, ctx):
            yield CheckItem(sentence, f"There is nothing to show in the {chart} chart of {lacking} yet.")
            continue
        export = max(found, key=lambda item: item.at, default=None)
        sent = (ctx.evidence.submission(run).planned_at for run in (*charted, *of_tasks))
        sent_before = export is not None and min(sent, default=math.inf) <= export.at
        if export is None or (check.models and matches and not (charted and sent_before)):
            yield CheckItem(sentence, f"Export the {chart} chart{of}.")
            continue
        later = next((run for run in of_tasks if ctx.evidence.is_newer(run, export)), None)
        again = f"The {chart} chart is older than run {later.run_id}: export it again." if later else ""
        yield CheckItem(sentence, again, export.path, stale=bool(again), mark=export.mark)


def _models_without(chart: str, check: schema.ChartsCheck, ctx: _Context) -> str:
    """The measured models without a value for this chart, as one text; "" if there are none.

    A chart exported earlier may still exist when no row has its value any more.
    """
    rows, names = ctx.evidence.results.measured, ctx.edition.names
    compares, measured = chart in ("speedup", "efficiency"), {row.model for row in rows}
    shown = {row.model for row in rows if not compares or getattr(row, chart) is not None}
    return join_names([names.get(model, model) for model in check.models if model in measured - shown])


def _shows(export: ExportFact, check: schema.ChartsCheck, evidence: Evidence) -> bool:
    """Whether a chart shows the models of the check; an export that names no models shows all that were measured."""
    measured = {row.model for row in evidence.results.measured}
    shown = set(export.models) or measured | {row.model for row in evidence.results.programs}
    return set(check.models) <= shown


def _there(sentence: str, path: str, missing: str, *, found: bool) -> CheckItem:
    """The condition that something is at `path` in the lab folder."""
    return CheckItem(sentence, evidence=path) if found else CheckItem(sentence, missing)


def _check_answers(ctx: _Context, _check: schema.AnswersCheck) -> Iterator[CheckItem]:
    answers = ctx.evidence.answers.get(ctx.task.id, ())
    for number, question in enumerate(ctx.task.questions, 1):
        sentence, found = f"question {number} is answered: {one_line(question.text)}", answers[number - 1 :]
        missing = f"Question {number} has no answer yet."
        yield _there(sentence, f"answers/{ctx.task.id}.md", missing, found=any(found[:1]))


def _check_edited(ctx: _Context, check: schema.EditedCheck) -> Iterator[CheckItem]:
    sentence = f"{check.script} is your own copy of {check.original} and uses {join_names(check.names)}"
    script = ctx.evidence.scripts.get(check.script)
    shipped = ctx.evidence.originals.get(check.script)
    source = ctx.evidence.originals.get(check.original) or ctx.evidence.scripts.get(check.original)
    if script is None:
        yield CheckItem(sentence, f"Make {check.script} from {check.original}.", to_make=check.script)
        return
    names, missing, shown = code_names(script.text), "", ""
    if shipped is not None and script.matches(shipped.sha256):
        missing = f"{check.script} came with labtui; the task wants your own, made from {check.original}."
    elif source is not None and script.matches(source.sha256):
        missing = f"{check.script} is still identical to {check.original}: make the change yourself."
    elif missing := names_missing(check.script, names, check.names):
        shown = check.script
    else:
        places = ", ".join(f"{name} in line {names[name]}" for name in check.names)
        shown = f"scripts/{check.script}: {places}"
    yield CheckItem(sentence, missing, shown)


def _check_files(ctx: _Context, check: schema.FilesCheck) -> Iterator[CheckItem]:
    for name in check.files:
        path, there = f"scripts/{name}", name in ctx.evidence.scripts
        yield _there(f"{name} is in scripts/", path, f"{path} is missing.", found=there)


def _check_data(ctx: _Context, _check: schema.DataCheck) -> Iterator[CheckItem]:
    evidence, sentence = ctx.evidence, "the data set and the software on the cluster can be reached"
    trained = [run for _, run in sorted(evidence.state.runs.items()) if run.epochs and _reads_data(run, ctx)]
    gone = [from_home(path) for path, status in evidence.remote.items() if not status.there]
    if trained:
        # a run without a mark, of a real cluster, is better evidence
        best = min(trained, key=lambda run: bool(evidence.state.mark_of(run)))
        shown = f"{cite_run(best, evidence)} read the data and trained"
        yield CheckItem(sentence, evidence=shown, mark=evidence.state.mark_of(best))
    elif gone:
        yield CheckItem(sentence, f"Not on the cluster: {', '.join(gone)}.")
    elif wrong := " ".join(filter(None, (status.remark for status in evidence.remote.values()))):
        yield CheckItem(sentence, f"{wrong} See the doctor (D).")
    elif evidence.remote:
        when = datetime.fromtimestamp(min(status.at for status in evidence.remote.values()), UTC)
        paths = ", ".join(map(from_home, evidence.remote))
        yield CheckItem(sentence, evidence=f"seen on the cluster on {when:%Y-%m-%d %H:%M UTC}: {paths}")
    else:
        yield CheckItem(sentence, "Data and container: not looked for yet. The doctor (D) looks.")


def _reads_data(run: RunState, ctx: _Context) -> bool:
    """Whether a run shows that the data are right; a small one, or one no task plans, may have read other data."""
    planned = {plan.spec.script.rpartition("/")[2] for task in ctx.edition.tasks for plan in task.runs}
    own = ctx.evidence.submission(run).form == "own" and run.spec.script.rpartition("/")[2] not in planned
    return not own and ctx.evidence.state.mark_of(run) != "small"


def _check_hand_in(ctx: _Context, check: schema.HandInCheck) -> Iterator[CheckItem]:
    files = " or ".join(check.files)
    found = next((name for name in check.files if name in ctx.evidence.files), "")
    missing = f"Make {files} (`labtui export`)."
    yield _there(f"{files} is in the lab folder", found, missing, found=bool(found))


_CHECKS: dict[type[schema.Check], Callable[[_Context, Any], Iterator[CheckItem]]] = {
    schema.RunsCheck: _check_runs,
    schema.BatchCheck: _check_batches,
    schema.LearningRateCheck: _check_learning_rates,
    schema.MetricCheck: _check_metric,
    schema.ChartsCheck: _check_charts,
    schema.AnswersCheck: _check_answers,
    schema.EditedCheck: _check_edited,
    schema.FilesCheck: _check_files,
    schema.DataCheck: _check_data,
    schema.FitCheck: _check_fits,
    schema.HandInCheck: _check_hand_in,
}


_MAX_NAMED = 3


def still_to_run(check: TaskCheck, models: Sequence[str], told: Collection[int | None]) -> str:
    """Which planned runs of these models are missing, and why others do not count (yet); no models: of all.

    Of the runs in `told` it is said elsewhere how they ended.
    """
    planned = [(i.run, i) for i in check.items if i.run is not None and (not models or i.run.model in models)]
    made = {spec.label for spec, item in planned if item.run_id is not None}
    specs = [spec for spec, item in planned if item.run_id is None]
    unmet = [item.missing for _, item in planned if item.run_id not in (None, *told) and not item.met]
    ends = " ".join(map(first_sentence, dict.fromkeys(unmet)))
    names = list(dict.fromkeys(describe_spec(spec) if spec.label in made else spec.label for spec in specs))
    if not names:
        return ends
    shown, more = names[:_MAX_NAMED], len(names) - _MAX_NAMED
    unrun = not_run_yet([*shown, plural(more, "more run")] if more > 0 else shown)
    return f"{ends} {unrun}".strip()


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """`current` is the first task that is not done (None: all are); students may work on the tasks in any order."""

    current: str | None
    done: int
    total: int


def progress(edition: Edition, checks: Sequence[TaskCheck]) -> Progress:
    unfinished = {check.task_id for check in checks if not check.done}
    current = next((task.id for task in edition.tasks if task.id in unfinished), None)
    return Progress(current=current, done=len(checks) - len(unfinished), total=len(checks))
