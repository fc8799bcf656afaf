"""The appendix: everything measured, run, written and changed, task by task, then all results. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from labtui.domain.events import RunState, SubmissionState
from labtui.domain.model import JobPhase, RunPhase
from labtui.export.contents import ChangedScript, LabContents
from labtui.export.figures import all_charts, gpu_charts
from labtui.export.hand_in import Block, Chart, HandInDocument, Page, Table, one_line, plain
from labtui.export.markdown import blocks_of, difference, whole
from labtui.export.pages import hand_in, page_results, sources_page
from labtui.export.result_blocks import program_table
from labtui.lab.edition import FitCheck, HandInPage, Task
from labtui.lab.evidence import NEVER_SENT
from labtui.results.numbers import (
    AS_PRINTED,
    PRECISE,
    Column,
    cells,
    clean,
    columns_of,
    count_text,
    note_lines,
    percent_text,
    prediction_sentence,
    range_text,
    ratio_text,
)
from labtui.results.rows import LawFit, ResultRow, Results

_STATES = {
    RunPhase.WAITING: "waiting here",
    RunPhase.QUEUED: "queued",
    RunPhase.STARTING: "starting",
    RunPhase.RUNNING: "running",
    RunPhase.DONE: "completed",
    RunPhase.FAILED: "failed",
    RunPhase.CANCELLED: "cancelled",
    RunPhase.UNKNOWN: "not known",
}
_OUTCOMES = {"oom": "out of memory", "time-limit": "time limit"}
_FORMS = {
    "cpu": "CPU",
    "one-gpu": "one GPU",
    "one-job": "all sizes in one job",
    "job-per-size": "one job per size",
    "torchrun": "one job per size, a process for each GPU (torchrun)",
    "mpi": "a program on several numbers of processes, in one job",
    "task-per-gpu": "one job per size, a process for each GPU (srun)",
    "srun-python": "one job per size, a process for each node (srun python)",
}


def appendix(contents: LabContents) -> HandInDocument:
    """Every page of the appendix; each flows over as many slides or sheets as it takes."""
    first = hand_in(contents)
    code = _Code(contents)
    pages: list[Page] = []
    for task in contents.edition.tasks:
        pages += _task_pages(contents, task)
        pages += code.of_task(task)
    pages += code.left_over()
    pages += _overridden(contents)
    pages += _everything(contents)
    pages.append(sources_page(contents))
    if contents.rehearsal:
        pages = [replace(page, practice=True) for page in pages]
    return replace(
        first, title=f"{first.title}: appendix", pages=tuple(pages), key_numbers=type(first.key_numbers)(())
    )


def _task_pages(contents: LabContents, task: Task) -> Iterable[Page]:
    own = page_results(contents, HandInPage(task=task.id), task)
    names = {task.id, *(name for check in task.checks for name in check.tasks)}
    kicker = f"Task {task.id}"
    title = one_line(task.title)
    runs = contents.runs_of(task)
    practice = any(run.practice for run in runs) or any(row.practice for row in own.rows)
    yield Page(title=title, kicker=kicker, words=tuple(_about(contents, task)), practice=practice, flows=True)
    if own.rows:
        words = (*result_blocks(own), *pooled_notes(own, names))
        yield Page(title=f"{title}: results", kicker=kicker, words=words, practice=practice, flows=True)
    if own.fits and any(isinstance(check, FitCheck) for check in task.checks):
        laws = tuple(law_blocks(own))
        yield Page(
            title=f"{title}: serial fractions", kicker=kicker, words=laws, practice=practice, flows=True
        )
    answer = contents.answers[task.id]
    if not answer.empty:
        words = tuple(_answers(contents, task))
        yield Page(title=f"{title}: answers", kicker=kicker, words=words, practice=practice, flows=True)
    charts = tuple(Chart(spec) for spec in gpu_charts(contents.measurements, tasks=(task.id,)))
    if charts:
        yield Page(title=f"{title}: the GPUs", kicker=kicker, visuals=charts, practice=practice, flows=True)


def _answers(contents: LabContents, task: Task) -> Iterable[Block]:
    answer = contents.answers[task.id]
    for number, (question, text) in enumerate(zip(task.questions, answer.texts, strict=False), 1):
        yield plain(f"{number}. {question.text}", "question")
        yield from blocks_of(text, contents.pictures.get) if text else (plain("No answer yet.", "note"),)
    yield from blocks_of(answer.rest, contents.pictures.get)


# --------------------------------------------------------------------------- what was asked and run


def _about(contents: LabContents, task: Task) -> Iterable[Block]:
    yield plain(task.what)
    for number, question in enumerate(task.questions, 1):
        yield plain(question.text, bullet=f"{number}.", level=1)
    runs = contents.runs_of(task)
    if runs:
        yield plain("What was run", "heading")
        headings = (
            "run", "training", "global batch", "per GPU", "learning rate", "epochs", "job", "node", "state",
        )  # fmt: skip
        numeric = (True, False, True, True, True, True, True, False, False)
        yield Table(headings, tuple(_run_row(contents, run) for run in runs), numeric)
        yield plain(_software(contents, runs), "note")
    check = contents.checks[task.id]
    missing = [item.missing for item in check.items if item.missing and (not item.met or item.stale)]
    if missing and not check.done:
        yield plain("Still missing", "heading")
        yield from (plain(sentence, bullet="☐", level=1) for sentence in dict.fromkeys(missing))
    for item in check.items:
        if item.met and not item.stale:
            yield plain(
                f"{item.sentence}{f' ({item.evidence})' if item.evidence else ''}", bullet="☑", level=1
            )
    for note in check.notes:
        yield plain(note, "note")


def _run_row(contents: LabContents, run: RunState) -> tuple[str, ...]:
    submission = contents.submission(run)
    job = submission.job if submission else None
    rate = run.learning_rate if run.learning_rate is not None else run.spec.learning_rate
    state = _STATES[run.phase]
    if run.outcome not in (None, "completed", "unfinished"):
        state = _OUTCOMES.get(str(run.outcome), str(run.outcome))
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
    versions = ", ".join(dict.fromkeys(clean(run.framework) for run in runs if run.framework))
    scripts = ", ".join(dict.fromkeys(clean(run.spec.script) for run in runs))
    sent = [contents.state.submissions.get(token) for token in dict.fromkeys(run.token for run in runs)]
    wanted = dict.fromkeys(
        (f"{s.nodes} nodes, on each " if s.nodes > 1 else "")
        + (f"{s.gpus} GPU{'s' * (s.gpus > 1)}, " if s.gpus else "")
        + f"{s.cpus} cores, {s.time_limit_minutes} min"
        + (f" in {clean(s.qos)}" if s.qos else "")
        for s in sent
        if s is not None and s.cpus
    )
    requested = f" Requested: {'; '.join(wanted)}." if wanted else ""
    software = versions or "not in the log"
    return f"Software: {software}. Script: {scripts}.{requested} Cluster: {clean(contents.cluster)}."


# --------------------------------------------------------------------------- code


class _Code:
    """Changed scripts and job scripts, each shown once, with the first task they belong to."""

    def __init__(self, contents: LabContents) -> None:
        self._contents = contents
        self._scripts = list(contents.changed)
        self._forms: set[str] = set()

    def of_task(self, task: Task) -> list[Page]:
        """What belongs to a task and was not shown yet."""
        names = {*task.files, *(run.spec.script for run in self._contents.runs_of(task))}
        mine = [script for script in self._scripts if script.name in names]
        self._scripts = [script for script in self._scripts if script not in mine]
        kicker = f"Task {task.id}"
        return [
            *(page for script in mine for page in _script_page(script, kicker)),
            *self._jobs(task, kicker),
        ]

    def left_over(self) -> list[Page]:
        """Changed scripts that belong to no task."""
        return [page for script in self._scripts for page in _script_page(script, "Code")]

    def _jobs(self, task: Task, kicker: str) -> Iterable[Page]:
        """The last job script of each form whose log the numbers rest on, with the first task that used the form."""
        latest: dict[str, SubmissionState] = {}
        for submission in self._contents.state.submissions.values():
            if submission.task_id != task.id or submission.token not in self._contents.job_scripts:
                continue
            if submission.status in NEVER_SENT:
                continue
            known = latest.get(submission.form)
            if known is None or self._contents.epochs_of(submission) or not self._contents.epochs_of(known):
                latest[submission.form] = submission
        for form, submission in latest.items():
            if form in self._forms:
                continue
            self._forms.add(form)
            name, text = self._contents.job_scripts[submission.token]
            job = f", job {clean(submission.job.job_id)}" if submission.job else ""
            title = f"Job script: {_FORMS.get(form, form)}{job}"
            yield Page(
                title=title,
                kicker=kicker,
                visuals=(whole(text, name),),
                practice=submission.practice,
                flows=True,
            )


def _script_page(script: ChangedScript, kicker: str) -> Iterable[Page]:
    name = clean(script.name)
    if not script.original_name:
        listing, title = whole(script.text, script.name), f"Code: {name} (your own)"
    else:
        listing = difference(
            script.original, script.text, script.name, f"{name}, changed from {script.original_name}"
        )
        title = f"Code: {name}, what was changed"
    if listing.lines:
        yield Page(title=title, kicker=kicker, visuals=(listing,), flows=True)


# --------------------------------------------------------------------------- findings that were overridden


def _overridden(contents: LabContents) -> Iterable[Page]:
    """What was found before a submission and overridden, with the student's reason; no page when nothing was."""
    sent = [item for item in contents.state.submissions.values() if item.status not in NEVER_SENT]
    rows = tuple(
        (
            clean(item.job_name),
            f"{clean(found.file)}:{found.line}" if found.line else clean(found.file),
            clean(found.effect),
            clean(found.reason),
        )
        for item in sent
        for found in item.accepted
    )
    if rows:
        table = Table(("job", "place", "found before it was sent", "why it was sent"), rows, (False,) * 4)
        yield Page(title="Findings overridden", kicker="Appendix", words=(table,), flows=True)


# --------------------------------------------------------------------------- everything


def _everything(contents: LabContents) -> Iterable[Page]:
    """All results, all laws, every chart."""
    if not contents.results.rows and not contents.results.programs:
        return
    practice = contents.practice
    words = tuple(result_blocks(contents.results))
    yield Page(title="All results", kicker="Appendix", words=words, practice=practice, flows=True)
    if contents.results.fits:
        laws = tuple(law_blocks(contents.results))
        yield Page(title="All laws", kicker="Appendix", words=laws, practice=practice, flows=True)
    gpu = {spec.key for spec in gpu_charts(contents.measurements)}
    charts = [
        each.spec for each in all_charts(contents.measurements, contents.results) if each.spec.key not in gpu
    ]
    if charts:
        shown = tuple(Chart(spec) for spec in charts)
        yield Page(title="All charts", kicker="Appendix", visuals=shown, practice=practice, flows=True)


# --------------------------------------------------------------------------- all results, as tables and sentences


def result_blocks(results: Results) -> Iterable[Block]:
    """Both readings as tables, then what follows from them, in sentences."""
    if results.programs:
        yield plain("Programs timed without epochs (± from rounding)", "heading")
        yield program_table(results.programs)
        yield from _notes(note for row in results.programs for note in row.notes)
    if not results.rows:
        return
    yield plain("All epochs but the first (± from rounding; σ spread of epochs, if larger)", "heading")
    yield _table(results.rows, PRECISE)
    printed = [row for row in results.measured if row.as_printed.epoch_seconds is not None]
    if printed:
        yield plain("As printed: whole seconds of epoch 2, as textbooks do", "heading")
        yield _table(printed, AS_PRINTED)
    for row in results.measured:
        if row.acceleration is not None:
            yield plain(
                f"{clean(row.model)}: one GPU is {ratio_text(row.acceleration)} times as fast as the CPU "
                f"({range_text(row.acceleration)}). That is acceleration; it says nothing about scaling."
            )
    yield from _notes(note_lines(results))


def law_blocks(results: Results) -> Iterable[Block]:
    """The fitted laws as a table, what is to be said of each, and what they let expect on more GPUs."""
    mixed = len({fit.practice for fit in results.fits}) > 1
    yield plain("Serial fractions, with the bounds from the measured times", "heading")
    yield Table(_LAW_HEADINGS, tuple(_law_row(fit, mixed=mixed) for fit in results.fits), _LAW_NUMERIC)
    remarks: dict[str, list[str]] = {}
    for fit in results.fits:
        for remark in fit.remarks:
            remarks.setdefault(remark, []).append(f"{fit.law.capitalize()}, {clean(fit.model)}")
    shared = [remark for remark, laws in remarks.items() if len(laws) == len(results.fits) > 1]
    yield from _notes(
        [
            f"{'; '.join(dict.fromkeys(laws))}: {remark}"
            for remark, laws in remarks.items()
            if remark not in shared
        ]
    )
    yield from _notes([*shared, *map(prediction_sentence, results.predictions)])
    yield from _notes([each.note for each in results.predictions])


_LAW_HEADINGS = ("law", "model", "images per GPU per step", "serial fraction", "between", "from GPUs")
_LAW_NUMERIC = (False, False, True, True, True, True)


def _law_row(fit: LawFit, *, mixed: bool) -> tuple[str, ...]:
    share = fit.serial_fraction
    return (
        fit.law.capitalize(),
        clean(fit.model) + (" (practice)" if mixed and fit.practice else ""),
        f"{batch:,.0f}" if (batch := fit.baseline.per_gpu_batch) is not None else "–",
        percent_text(share),
        f"{100 * share.lo:.1f} and {100 * share.hi:.1f} %",
        ", ".join(map(str, fit.n_gpus)),
    )


def _notes(sentences: Iterable[str]) -> Iterable[Block]:
    for sentence in dict.fromkeys(each.strip() for each in sentences if each.strip()):
        yield plain(sentence, "note")


def pooled_notes(results: Results, names: set[str]) -> Iterable[Block]:
    """Says where a row of a task rests on runs of other tasks as well."""
    for row in results.measured:
        others = sorted({run.task_id for run in row.members if run.task_id} - names)
        if others and any(run.task_id in names for run in row.members):
            tasks = f"task{'s' if len(others) > 1 else ''} {', '.join(others)}"
            yield plain(f"{clean(row.configuration.label)}: pooled with the same runs of {tasks}.", "note")


_MODEL = Column("model", lambda row: clean(row.name), number=False)


def _table(rows: Sequence[ResultRow], columns: Sequence[Column]) -> Table:
    """Rows as a table; where all are practice the page says so, and the rows need not."""
    columns = columns_of(rows, columns)
    if all(row.practice for row in rows):
        columns = (_MODEL, *columns[1:])
    return Table(
        headings=tuple(column.heading for column in columns),
        rows=tuple(tuple(line) for line in cells(rows, columns)),
        numeric=tuple(column.number for column in columns),
    )
