"""The slides of one task: question, what was run, table, charts, answers, what is missing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from labtui.core.charts import ChartSpec
from labtui.core.lab.edition import ChartsCheck, FitCheck, HandInCheck, MetricCheck, Task
from labtui.core.model import JobPhase, RunPhase
from labtui.core.results import Results
from labtui.core.results.charts import scaling_lines, split_practice, task_charts, unique_keys
from labtui.core.results.law_charts import law_charts
from labtui.core.results.more_charts import cpu_gpu_chart, loss_chart
from labtui.core.results.numbers import clean, count_text
from labtui.core.results.run_charts import accuracy_chart, epoch_chart
from labtui.core.state import RunState
from labtui.export.contents import LabContents
from labtui.export.deck_model import Block, Callout, Paragraph, Run, Slide, Table, one_line, plain
from labtui.export.markdown import blocks_of
from labtui.export.result_blocks import law_blocks, pooled_notes, result_blocks

_STATES = {
    RunPhase.WAITING: "in the waiting line",
    RunPhase.QUEUED: "queued",
    RunPhase.STARTING: "starting",
    RunPhase.RUNNING: "running",
    RunPhase.DONE: "completed",
    RunPhase.FAILED: "failed",
    RunPhase.CANCELLED: "cancelled",
    RunPhase.UNKNOWN: "not known",
}


def task_slides(contents: LabContents, task: Task) -> tuple[Slide, ...]:
    """All slides of a task except its code; one clearly marked slide when there is nothing yet."""
    own, results = task_results(contents, task)
    runs, answer = contents.runs_of(task), contents.answers[task.id]
    check = contents.checks[task.id]
    practice = any(run.practice for run in runs) or any(row.practice for row in results.rows)
    touched = bool(runs or not answer.empty or results.rows or (check.done and not task.runs))
    kicker = f"Task {task.id}"
    title = one_line(task.title)
    first = Slide(
        title=title,
        kicker=kicker,
        blocks=tuple(_about(contents, task, empty=not touched)),
        practice=practice,
        empty=not touched,
    )
    if _only_hands_in(task) and check.done and answer.empty:
        return ()  # the deck itself is what it asks for
    slides = [first]
    if touched and results.rows:
        laws = any(isinstance(each, FitCheck) for each in task.checks)
        slides.append(
            Slide(
                title=f"{title}: results",
                kicker=kicker,
                blocks=(*result_blocks(results), *pooled_notes(results, _task_names(task))),
                practice=practice,
                joins=not _still_missing(first),
            )
        )
        if laws and results.fits:
            blocks = tuple(law_blocks(results))
            slides.append(
                Slide(
                    title=f"{title}: serial fractions",
                    kicker=kicker,
                    blocks=blocks,
                    practice=practice,
                    joins=True,
                )
            )
        charts = chart_specs(task, own, results, contents.results)
        if charts:
            slides.append(Slide(title=f"{title}: charts", kicker=kicker, charts=charts, practice=practice))
    if touched and (task.questions or not answer.empty):
        slides.append(_answers(contents, task, kicker))
    return tuple(slides)


def _still_missing(slide: Slide) -> bool:
    return any(isinstance(block, Callout) for block in slide.blocks)


def _only_hands_in(task: Task) -> bool:
    """Whether a task asks for nothing but the report."""
    asked = bool(task.checks) and all(isinstance(check, HandInCheck) for check in task.checks)
    return asked and not task.runs and not task.questions


# --------------------------------------------------------------------------- which numbers


def task_results(contents: LabContents, task: Task) -> tuple[Results, Results]:
    """The lab's results narrowed to a task: to its own runs, and to those of the tasks its checks name as well."""
    return _narrowed(contents, {task.id}), _narrowed(contents, _task_names(task))


def _task_names(task: Task) -> set[str]:
    return {task.id, *(name for check in task.checks for name in check.tasks)}


def of_tasks(results: Results, names: set[str]) -> Results:
    """The results with the runs of these tasks alone, wherever a row has any; its numbers stay those of all."""
    rows = []
    for row in results.rows:
        members = tuple(run for run in row.members if run.task_id in names)
        rows.append(replace(row, members=members or row.members))
    return replace(results, rows=tuple(rows))


def _narrowed(contents: LabContents, names: set[str]) -> Results:
    planned = {
        (plan.model, plan.device, plan.gpus, plan.batch_size)
        for task in contents.edition.tasks
        if task.id in names
        for plan in task.runs
    }
    rows = tuple(
        row
        for row in contents.results.rows
        if (row.model, row.device, row.n_gpus, row.batch_size) in planned
        or any(run.task_id in names for run in row.members)
    )
    there = {row.configuration for row in rows}
    return replace(
        contents.results,
        rows=rows,
        fits=tuple(fit for fit in contents.results.fits if fit.baseline in there),
        predictions=tuple(each for each in contents.results.predictions if each.baseline in there),
        left_out=tuple(left for left in contents.results.left_out if left.run.task_id in names),
        notes=(),
    )


def chart_specs(task: Task, own: Results, results: Results, lab: Results) -> tuple[ChartSpec, ...]:
    """The charts of a task: each network it ran on several GPUs, all it compares, and what its checks speak of."""
    if laws := {check.model for check in task.checks if isinstance(check, FitCheck)}:
        return _law_charts(results, laws)
    charts: list[ChartSpec] = []
    scaling = _scaling_models(results)
    for model in _models(own):
        if model in scaling:
            charts += task_charts(_of(results, model))
    charts += _together(task, results, lab)
    charts += _cpu_against_gpu(results) if not scaling else ()
    accuracy = _about_accuracy(task)
    if accuracy or not charts:
        compared = results if len(_models(results)) > 1 or not own.rows else own
        charts += _over_epochs(of_tasks(compared, _task_names(task)), accuracy=accuracy)
    return unique_keys(chart for chart in charts if not chart.empty)


def _about_accuracy(task: Task) -> bool:
    asked = any(isinstance(check, MetricCheck) for check in task.checks)
    return asked or "accuracy" in task.title.lower()


def _together(task: Task, results: Results, lab: Results) -> tuple[ChartSpec, ...]:
    """The charts of several networks: of the task's own, or of those the task asks to see side by side."""
    asked = {name for check in task.checks if isinstance(check, ChartsCheck) for name in check.models}
    compared = _of(lab, *asked) if asked > set(_models(results)) else results
    scaling = _scaling_models(compared)
    return task_charts(_of(compared, *scaling)) if len(scaling) > 1 else ()


def _law_charts(results: Results, models: set[str]) -> tuple[ChartSpec, ...]:
    """Both laws of each network beside each other, then where the efficiency of each goes."""
    charts: list[ChartSpec] = []
    losses: list[ChartSpec] = []
    for model in _models(results):
        if model in models:
            charts += law_charts(results, model=model)
            lines = [line for rows in split_practice(results, model) for line in scaling_lines(rows)]
            losses += [loss_chart(line) for line in lines if len(line.rows) > 1]
    return unique_keys(chart for chart in [*charts, *losses] if not chart.empty)


def _models(results: Results) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.model for row in results.rows))


def _of(results: Results, *models: str) -> Results:
    return replace(results, rows=tuple(row for row in results.rows if row.model in models))


def _scaling_models(results: Results) -> tuple[str, ...]:
    """Networks that were run on more than one GPU count."""
    lines = [line for rows in split_practice(results) for line in scaling_lines(rows) if len(line.rows) > 1]
    return tuple(dict.fromkeys(line.rows[0].model for line in lines))


def _cpu_against_gpu(results: Results) -> list[ChartSpec]:
    return [
        chart
        for rows in split_practice(results)
        for model in dict.fromkeys(row.model for row in rows)
        if len((chart := cpu_gpu_chart(rows, model)).series[0].points) > 1
    ]


def _over_epochs(results: Results, *, accuracy: bool) -> list[ChartSpec]:
    charts = []
    for practice in (False, True):
        if accuracy:
            charts.append(accuracy_chart(results, practice=practice))
        charts.append(epoch_chart(results, practice=practice))
    return charts


# --------------------------------------------------------------------------- the first slide


def _about(contents: LabContents, task: Task, *, empty: bool) -> Iterable[Block]:
    if empty:
        yield Callout(
            (plain("Nothing yet: no run, no answer.", "heading"), *_missing(contents, task)), "empty"
        )
    yield plain(task.what)
    if task.questions:
        yield plain("Questions" if len(task.questions) > 1 else "Question", "heading")
        for number, question in enumerate(task.questions, 1):
            yield plain(question.text, bullet=f"{number}.", level=1)
    if empty:
        return
    yield from _what_was_run(contents, task)
    if not task.questions and not task.runs:
        yield from _checklist(contents, task)
    missing = _missing(contents, task)
    check = contents.checks[task.id]
    if missing and not check.done:
        yield Callout((plain("Still missing", "heading"), *missing), "missing")
    for note in check.notes:
        yield plain(note, "note")


def _checklist(contents: LabContents, task: Task) -> Iterable[Block]:
    """What is met and what shows it, for a task that has neither runs nor questions."""
    met = [item for item in contents.checks[task.id].items if item.met and not item.stale]
    if not met:
        return
    yield plain("What was checked", "heading")
    for item in met:
        first = item.sentence.split()[0]
        file = "." in first  # a file's name stays as it is, and is its own evidence
        shown = f" ({item.evidence})" if item.evidence and not file else ""
        said = item.sentence if file else item.sentence[:1].upper() + item.sentence[1:]
        yield plain(f"{said}{shown}", bullet="✓", level=1)


def _missing(contents: LabContents, task: Task) -> tuple[Paragraph, ...]:
    check = contents.checks[task.id]
    sentences = [item.missing for item in check.items if item.missing and (not item.met or item.stale)]
    sentences = sentences or ([check.missing] if check.missing else [])
    return tuple(plain(sentence, bullet="•", level=1) for sentence in dict.fromkeys(sentences))


def _what_was_run(contents: LabContents, task: Task) -> Iterable[Block]:
    runs = contents.runs_of(task)
    if not runs:
        others = sorted({name for check in task.checks for name in check.tasks} - {task.id})
        if others:
            yield plain(f"Rests on the runs of task {', '.join(others)}.", "note")
        return
    yield plain("What was run", "heading")
    headings = (
        "run",
        "training",
        "global batch",
        "per GPU",
        "learning rate",
        "epochs",
        "job",
        "node",
        "state",
    )
    numeric = (True, False, True, True, True, True, True, False, False)
    yield Table(headings, tuple(_run_row(contents, run) for run in runs), numeric)
    yield plain(_software(contents, runs), "note")


def _run_row(contents: LabContents, run: RunState) -> tuple[str, ...]:
    submission = contents.submission(run)
    job = submission.job if submission else None
    rate = run.learning_rate if run.learning_rate is not None else run.spec.learning_rate
    state = _STATES[run.phase]
    if run.outcome not in (None, "completed", "unfinished"):
        state = {"oom": "out of memory", "time-limit": "time limit"}.get(str(run.outcome), str(run.outcome))
    if job is not None and job.phase is JobPhase.UNKNOWN:
        state = "not known"
    return (
        str(run.run_id),
        clean(run.spec.label),
        count_text(run.spec.batch_size),
        count_text(run.spec.per_gpu_batch) if run.spec.device == "gpu" else "–",
        f"{rate:g}" if rate is not None else "–",
        f"{len(run.epochs)} of {run.spec.epochs}",
        clean(job.job_id) if job else "–",
        clean(job.node) if job and job.node else "–",
        state,
    )


def _software(contents: LabContents, runs: Sequence[RunState]) -> str:
    """Versions, scripts and what Slurm was asked for, in one sentence each."""
    versions = (
        ", ".join(dict.fromkeys(clean(run.framework) for run in runs if run.framework))
        or "not told by the log"
    )
    scripts = ", ".join(dict.fromkeys(clean(run.spec.script) for run in runs))
    sent = list(dict.fromkeys(run.token for run in runs))
    asked = dict.fromkeys(
        (f"{s.gpus} GPU{'s' * (s.gpus > 1)}, " if s.gpus else "")
        + f"{s.cpus} cores, {s.time_limit_minutes} min"
        + (f" in {clean(s.qos)}" if s.qos else "")
        for token in sent
        if (s := contents.state.submissions.get(token)) is not None and s.cpus
    )
    wanted = f" Asked for: {'; '.join(asked)}." if asked else ""
    return f"Software: {versions}. Script: {scripts}.{wanted} Cluster: {clean(contents.cluster)}."


# --------------------------------------------------------------------------- answers


def _answers(contents: LabContents, task: Task, kicker: str) -> Slide:
    """The student's words below each question, as they wrote them."""
    answer = contents.answers[task.id]
    blocks: list[Block] = []
    for number, question in enumerate(task.questions, 1):
        blocks.append(plain(f"{number}. {question.text}", "question"))
        text = answer.texts[number - 1] if number <= len(answer.texts) else ""
        blocks += blocks_of(text) if text else (_unanswered(task),)
    if answer.rest:
        blocks += blocks_of(answer.rest)
    many = len(task.questions) > 1
    return Slide(
        title=f"{one_line(task.title)}: answer{'s' if many else ''}", kicker=kicker, blocks=tuple(blocks)
    )


def _unanswered(task: Task) -> Block:
    text = f"No answer yet (answers/{task.id}.md)."
    return Callout((Paragraph((Run(text, italic=True),)),), "missing")
