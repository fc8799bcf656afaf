"""Does a box tick? A pure function of the evidence, with the evidence beside every answer.

Nothing here fails a result for being surprising: a result outside its band gets a note with the band's
source. A box that rests on runs whose script has changed since is *stale*; one that rests on practice runs
says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from labtui.domain.events import RunState
from labtui.domain.model import PROCESS_PER_GPU, RunSpec
from labtui.lab import edition as schema
from labtui.lab.edition import Edition, Task
from labtui.lab.evidence import Evidence, ExportFact, code_names
from labtui.lab.run_choice import (
    Match,
    cite_run,
    match_planned,
    match_runs,
    notes_for,
    plan_words,
    rate_items,
    tasks_of,
)

Status = Literal["done", "partial", "open", "stale"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckItem:
    """One condition: whether it is met, what it asks, and what shows it.

    `missing` says in one sentence what is still to be done. `stale` and `practice` qualify a met condition.
    `effort` is false for conditions a fresh lab folder meets by itself. `kind` is the edition's word for the check
    it belongs to ("runs", "answers", "charts" ...); `run` the planned run that a condition of that kind is about, and
    `task_id` the task that plans it, where that is another one.
    """

    met: bool
    sentence: str
    evidence: str = ""
    missing: str = ""
    stale: bool = False
    practice: bool = False
    effort: bool = True
    kind: str = ""
    run: RunSpec | None = None
    task_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCheck:
    """The state of a task's box. `missing` is one sentence, "" when done; `notes` never fail a box."""

    task_id: str
    status: Status
    items: tuple[CheckItem, ...]
    missing: str
    notes: tuple[str, ...] = ()
    practice: bool = False

    @property
    def done(self) -> bool:
        """Whether the box is ticked (a stale tick is none)."""
        return self.status == "done"

    @property
    def next_item(self) -> CheckItem | None:
        """The condition that `missing` is about; None when the box is ticked."""
        unmet = next((item for item in self.items if not item.met), None)
        return unmet or next((item for item in self.items if item.stale), None)

    @property
    def fraction(self) -> float:
        """Share of the conditions that took effort and are met, 0 to 1."""
        counted = [item for item in self.items if item.effort] or list(self.items)
        return sum(item.met and not item.stale for item in counted) / len(counted) if counted else 0.0


def still_to_run(check: TaskCheck, models: Sequence[str], measured: Collection[str]) -> str:
    """Which planned runs of these models (of all, without any) were not made yet; "" when all were.

    A model that no run of is among the `measured` ones is named as a whole where several of its runs are missing.
    """
    planned = [(item.run, bool(item.evidence)) for item in check.items if item.run is not None]
    made = {spec.label for spec, run in planned if run}
    specs = [spec for spec, run in planned if not run and (not models or spec.model in models)]
    names: dict[str, None] = {}
    for spec in specs:
        alike = [each for each in specs if each.model == spec.model]
        if spec.model and spec.model not in measured and len(alike) > _NAMED_ONE_BY_ONE:
            names[spec.model] = None
        else:
            names[plan_words(spec) if spec.label in made else spec.label] = None
    if not names:
        return ""
    shown = list(names)[:_MOST_NAMED]
    if more := len(names) - len(shown):
        shown.append(f"{more} more run{'s' * (more != 1)}")
    return f"{_listed(shown)} {'has' if len(names) == 1 else 'have'} not been run yet."


_NAMED_ONE_BY_ONE, _MOST_NAMED = 2, 3


def check_task(edition: Edition, task: Task, evidence: Evidence) -> TaskCheck:
    items: list[CheckItem] = []
    for check in task.checks:
        kind = str(type(check).__struct_config__.tag)
        items += [replace(item, kind=kind) for item in _CHECKS[type(check)](edition, task, check, evidence)]
    practice = any(item.met and item.practice for item in items)
    notes = list(notes_for(edition, task, evidence))
    if practice:
        notes.insert(0, "Ticked by practice runs: nothing to hand in.")
    return TaskCheck(
        task_id=task.id,
        status=_status(items),
        items=tuple(items),
        missing=_missing(items),
        notes=tuple(notes),
        practice=practice,
    )


def check_all(edition: Edition, evidence: Evidence) -> tuple[TaskCheck, ...]:
    return tuple(check_task(edition, task, evidence) for task in edition.tasks)


def _status(items: list[CheckItem]) -> Status:
    if all(item.met for item in items):
        return "stale" if any(item.stale for item in items) else "done"
    return "partial" if any(item.met and item.effort for item in items) else "open"


def _missing(items: list[CheckItem]) -> str:
    for item in items:
        if not item.met:
            return item.missing
    return next((item.missing for item in items if item.stale), "")


# --------------------------------------------------------------------------- runs


def _runs(edition: Edition, task: Task, check: schema.RunsCheck, evidence: Evidence) -> list[CheckItem]:
    matches = match_runs(edition, task, check, evidence)
    return [
        replace(
            _run_item(task, match, check, evidence, _stale(match, matches)),
            run=match.spec,
            task_id=match.task_id if match.task_id != task.id else "",
        )
        for match in matches
    ]


def _stale(match: Match, matches: Sequence[Match]) -> str:
    """One sentence for all runs that became stale by the same change; empty when this one did not."""
    if not match.changed:
        return ""
    numbers = [str(other.run.run_id) for other in matches if other.run and other.changed == match.changed]
    runs, them = (f"run {numbers[0]}", "it") if len(numbers) == 1 else (f"runs {_listed(numbers)}", "them")
    return f"{_listed(match.changed)} changed after {runs}: run {them} again, or undo the change."


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _run_item(task: Task, match: Match, check: schema.RunsCheck, evidence: Evidence, stale: str) -> CheckItem:
    elsewhere = f" (task {match.task_id})" if match.task_id != task.id else ""
    sentence = f"{plan_words(match.spec)}{elsewhere}: at least {check.min_epochs} epochs in the log"
    if match.spec.program is not None:
        sentence = f"{plan_words(match.spec)}{elsewhere}: run time in the log"
    if check.min_epochs == 0:
        sentence = f"{plan_words(match.spec)}{elsewhere}: finished"
    if match.run is None:
        name = plan_words(match.spec) if match.spec.launcher in PROCESS_PER_GPU else match.spec.label
        missing = f"{name} has not been run yet{elsewhere}."
        return CheckItem(met=False, sentence=sentence, missing=missing)
    where = cite_run(match.run, evidence)
    if match.why_not:
        missing = f"{match.spec.label}: run {match.run.run_id} does not count yet, {match.why_not}."
        return CheckItem(met=False, sentence=sentence, evidence=where, missing=missing)
    return CheckItem(
        met=True,
        sentence=sentence,
        evidence=where,
        missing=stale,
        stale=bool(stale),
        practice=match.practice,
    )


def _batches(edition: Edition, task: Task, check: schema.BatchCheck, evidence: Evidence) -> list[CheckItem]:
    matches = match_planned(edition, task, check.tasks, evidence)
    items = []
    for model in dict.fromkeys(match.spec.model for match in matches):
        own = [match for match in matches if match.spec.model == model]
        sentence = f"{model}: the same batch per GPU on every number of GPUs"
        used = {m.spec.n_gpus: m.run.spec.per_gpu_batch for m in own if m.met and m.run is not None}
        batches = ", ".join(
            f"{batch:,} on {n} GPU{'s' if n != 1 else ''}" for n, batch in sorted(used.items())
        )
        same = len(set(used.values())) == 1
        if same and len(used) == len({match.spec.n_gpus for match in own}):
            items.append(CheckItem(met=True, sentence=sentence, evidence=f"per GPU: {batches}"))
        elif same or not used:
            missing = f"{model}: the batch per GPU can be compared once all sizes have been run."
            items.append(CheckItem(met=False, sentence=sentence, evidence=batches, missing=missing))
        else:
            missing = (
                f"{model} used different batches per GPU ({batches}), so its speedup compares different work."
            )
            items.append(CheckItem(met=False, sentence=sentence, evidence=batches, missing=missing))
    return items


def _rates(
    edition: Edition, task: Task, check: schema.LearningRateCheck, evidence: Evidence
) -> list[CheckItem]:
    return [
        CheckItem(met=met, sentence=sentence, evidence=shown, missing=missing)
        for met, sentence, shown, missing in rate_items(edition, task, check, evidence)
    ]


def _metric(edition: Edition, task: Task, check: schema.MetricCheck, evidence: Evidence) -> list[CheckItem]:
    sentence = f"{check.metric} reached {check.at_least:g}"
    models = {plan.model for source in tasks_of(edition, task, check.tasks) for plan in source.runs}
    best: tuple[float, str, bool] | None = None
    for run in evidence.state.runs.values():
        if run.spec.model not in models:
            continue
        for sample in run.epochs:
            value = sample.metrics.get(check.metric)
            if value is not None and (best is None or value > best[0]):
                best = (
                    value,
                    f"{value:g} in epoch {sample.epoch}: {cite_run(run, evidence)}",
                    evidence.practice(run),
                )
    if best is None:
        return [CheckItem(met=False, sentence=sentence, missing=f"No run shows {check.metric} yet.")]
    missing = (
        f"The best {check.metric} so far is {best[0]:g}; {check.at_least:g} is required. Train more epochs."
    )
    met = best[0] >= check.at_least
    return [
        CheckItem(
            met=met, sentence=sentence, evidence=best[1], missing="" if met else missing, practice=best[2]
        )
    ]


def _fits(edition: Edition, task: Task, check: schema.FitCheck, evidence: Evidence) -> list[CheckItem]:
    del edition, task
    items = []
    for law in check.laws:
        sentence = f"{law.capitalize()}'s law can be fitted to {check.model}"
        fit = next((f for f in evidence.results.fits if (f.model, f.law) == (check.model, law)), None)
        if fit is None:
            missing = f"{law.capitalize()}'s law needs {check.model} on one GPU and on one more size."
            items.append(CheckItem(met=False, sentence=sentence, missing=missing))
            continue
        s = fit.serial_fraction
        shown = f"serial fraction {s.value:.3f} ({s.lo:.3f} to {s.hi:.3f}) from {fit.points} sizes"
        items.append(CheckItem(met=True, sentence=sentence, evidence=shown, practice=fit.practice))
    return items


# --------------------------------------------------------------------------- files and texts


def _charts(edition: Edition, task: Task, check: schema.ChartsCheck, evidence: Evidence) -> list[CheckItem]:
    del edition, task
    return [_chart_item(chart, check, evidence) for chart in check.charts]


def _chart_item(chart: str, check: schema.ChartsCheck, evidence: Evidence) -> CheckItem:
    of = f" of {' and '.join(check.models)}" if check.models else ""
    sentence = f"the {chart} chart{of} is exported"
    found = [e for e in evidence.exports if e.chart == chart and _shows(e, check, evidence)]
    if not found:
        return CheckItem(met=False, sentence=sentence, missing=f"Export the {chart} chart{of}.")
    export = max(found, key=lambda item: (item.at is None, item.at or 0.0))
    later = _later_run(export, check, evidence)
    stale = f"The {chart} chart is older than run {later.run_id}: export it again." if later else ""
    return CheckItem(
        met=True,
        sentence=sentence,
        evidence=export.path,
        missing=stale,
        stale=later is not None,
        practice=export.practice,
    )


def _later_run(export: ExportFact, check: schema.ChartsCheck, evidence: Evidence) -> RunState | None:
    """A measured run of the chart's models that was submitted after the chart was written."""
    if export.at is None:
        return None
    for _, run in sorted(evidence.state.runs.items(), reverse=True):
        submission = evidence.submission(run)
        shown = bool(run.epochs) and run.spec.model in check.models
        if shown and submission is not None and submission.planned_at > export.at:
            return run
    return None


def _shows(export: ExportFact, check: schema.ChartsCheck, evidence: Evidence) -> bool:
    """Whether a chart shows the models asked for; one that names none shows what was measured."""
    measured = {row.model for row in evidence.results.measured}
    shown = set(export.models) or measured | {row.program.name for row in evidence.results.programs}
    return set(check.models) <= shown


def _answers(edition: Edition, task: Task, check: schema.AnswersCheck, evidence: Evidence) -> list[CheckItem]:
    del edition, check
    sheet = evidence.answers.get(task.id)
    items = []
    for number, question in enumerate(task.questions, 1):
        answered = sheet is not None and number <= len(sheet.texts) and bool(sheet.texts[number - 1])
        text = " ".join(question.text.split())
        items.append(
            CheckItem(
                met=answered,
                sentence=f"question {number} is answered: {text}",
                evidence=f"answers/{task.id}.md" if answered else "",
                missing="" if answered else f"Question {number} has no answer yet.",
            )
        )
    return items


def _edited(edition: Edition, task: Task, check: schema.EditedCheck, evidence: Evidence) -> list[CheckItem]:
    del edition, task
    sentence = f"{check.script} is your own copy of {check.original} and uses {' and '.join(check.names)}"
    script, original = evidence.scripts.get(check.script), evidence.scripts.get(check.original)
    shipped = evidence.originals.get(check.script)
    source = evidence.originals.get(check.original) or original
    if script is None:
        return [
            CheckItem(met=False, sentence=sentence, missing=f"Make {check.script} from {check.original}.")
        ]
    if shipped is not None and script.is_file(shipped.sha256):
        missing = f"{check.script} came with labtui; the task wants your own, made from {check.original}."
        return [CheckItem(met=False, sentence=sentence, missing=missing)]
    if source is not None and script.is_file(source.sha256):
        missing = f"{check.script} is still identical to {check.original}: make the change yourself."
        return [CheckItem(met=False, sentence=sentence, missing=missing)]
    names = code_names(script.text)
    lacking = [name for name in check.names if name not in names]
    if lacking:
        missing = f"{check.script} does not use {' and '.join(lacking)} in its code yet."
        return [CheckItem(met=False, sentence=sentence, evidence=check.script, missing=missing)]
    shown = ", ".join(f"{name} in line {names[name]}" for name in check.names)
    return [CheckItem(met=True, sentence=sentence, evidence=f"scripts/{check.script}: {shown}")]


def _files(edition: Edition, task: Task, check: schema.FilesCheck, evidence: Evidence) -> list[CheckItem]:
    del edition, task
    return [
        CheckItem(
            met=name in evidence.scripts,
            sentence=f"{name} is in scripts/",
            evidence=f"scripts/{name}" if name in evidence.scripts else "",
            missing="" if name in evidence.scripts else f"scripts/{name} is missing.",
            effort=False,
        )
        for name in check.files
    ]


def _data(edition: Edition, task: Task, check: schema.DataCheck, evidence: Evidence) -> list[CheckItem]:
    del edition, task, check
    sentence = "the data set and the software on the cluster can be reached"
    trained = [run for _, run in sorted(evidence.state.runs.items()) if run.epochs]
    if trained:
        trained.sort(key=evidence.practice)  # a real run is the better witness
        shown = f"{cite_run(trained[0], evidence)} read the data and trained"
        return [
            CheckItem(met=True, sentence=sentence, evidence=shown, practice=evidence.practice(trained[0]))
        ]
    gone = [path for path, there in evidence.remote.items() if not there]
    if evidence.remote and not gone:
        when = f" on {_utc(evidence.remote_at)}" if evidence.remote_at is not None else ""
        shown = f"seen on the cluster{when}: {', '.join(evidence.remote)}"
        return [CheckItem(met=True, sentence=sentence, evidence=shown)]
    missing = (
        f"Not on the cluster: {', '.join(gone)}."
        if gone
        else "Not checked yet: press D (`labtui doctor`), or submit a job."
    )
    return [CheckItem(met=False, sentence=sentence, missing=missing)]


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _hand_in(edition: Edition, task: Task, check: schema.HandInCheck, evidence: Evidence) -> list[CheckItem]:
    del edition, task
    sentence = f"{' or '.join(check.files)} is in the lab folder"
    found = next((name for name in check.files if name in evidence.files), None)
    missing = "" if found else f"Make {' or '.join(check.files)} (labtui export)."
    return [CheckItem(met=found is not None, sentence=sentence, evidence=found or "", missing=missing)]


_CHECKS: dict[type[schema.Check], Callable[[Edition, Task, Any, Evidence], list[CheckItem]]] = {
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`current` and `next` are task ids (None: all done); `percent` goes by the sheet's weights if any.

    Nothing is locked by it: any task may be worked on at any time.
    """

    current: str | None
    next: str | None
    percent: float
    done: int
    total: int


def progress(edition: Edition, checks: Sequence[TaskCheck]) -> Progress:
    """Progress over all tasks: started tasks count by the share of their conditions that are met."""
    by_id = {check.task_id: check for check in checks}
    open_tasks = [task.id for task in edition.tasks if task.id in by_id and not by_id[task.id].done]
    weighted = any(task.weight for task in edition.tasks)
    weights = {task.id: (task.weight or 0.0) if weighted else 1.0 for task in edition.tasks}
    total = sum(weights[name] for name in by_id if name in weights)
    reached = sum(weights[name] * check.fraction for name, check in by_id.items() if name in weights)
    return Progress(
        current=open_tasks[0] if open_tasks else None,
        next=open_tasks[1] if len(open_tasks) > 1 else None,
        percent=100.0 * reached / total if total else 0.0,
        done=sum(check.done for check in checks),
        total=len(checks),
    )
