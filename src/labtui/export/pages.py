"""From a lab's contents to what is handed in: the pages its edition lists, in their order. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date

from labtui.export import measurements, result_blocks
from labtui.export.contents import LabContents
from labtui.export.hand_in import (
    Block,
    Chart,
    HandInDocument,
    Listing,
    Page,
    Paragraph,
    Run,
    Table,
    block_text,
    first_sentence,
    one_line,
    plain,
    without_first_sentence,
)
from labtui.export.markdown import blocks_of, difference, excerpt, own_part, whole, with_parts
from labtui.export.result_blocks import acceleration_table, fraction_table, short_table, source_rows
from labtui.lab.checks import still_to_run
from labtui.lab.edition import (
    ChartsCheck,
    Edition,
    Excerpt,
    FitCheck,
    HandInCheck,
    HandInPage,
    MetricCheck,
    Task,
)
from labtui.results.accuracy import is_accuracy
from labtui.results.catalogue import catalogue, networks, program_charts
from labtui.results.charts import ChartSpec
from labtui.results.course_charts import accuracy_chart
from labtui.results.measured import cite
from labtui.results.numbers import clean
from labtui.results.programs import ProgramRow
from labtui.results.rows import ResultRow, Results, of_rows


def hand_in(contents: LabContents) -> HandInDocument:
    """Everything that the edition asks for."""
    edition, settings = contents.edition, contents.settings
    plans = edition.hand_in.pages if edition.hand_in is not None else ()
    pages: list[Page] = []
    for plan in plans or default_pages(contents):
        pages += _page(contents, plan, pages)
    if contents.rehearsal:
        pages = [replace(page, practice=True) for page in pages]
    author = clean(settings.group)
    where = f"{clean(contents.cluster)}{f', account {clean(settings.account)}' if settings.account else ''}"
    stamp = measurements.stamp_of(contents.results)
    missing = () if author else ("The title page has no author: set group in lab.toml.",)
    return HandInDocument(
        title=one_line(edition.title),
        subtitle=f"{one_line(edition.course)} · {one_line(edition.term)}",
        author=author,
        lines=tuple(filter(None, (author, where, day_text(contents.today)))),
        stamp=stamp,
        pages=tuple(_one_scale(pages)),
        key_numbers=result_blocks.key_numbers(contents.results, accuracy=_asks_for_accuracy(edition)),
        practice=contents.practice,
        notes=(*missing, *_unanswered(contents)),
    )


def _asks_for_accuracy(edition: Edition) -> bool:
    """Whether a task checks an accuracy, or a page draws one against a target."""
    pages = edition.hand_in.pages if edition.hand_in is not None else ()
    checks = (check for task in edition.tasks for check in task.checks)
    return any(page.target is not None for page in pages) or any(
        isinstance(check, MetricCheck) and is_accuracy(check.metric) for check in checks
    )


def day_text(day: date) -> str:
    """``5 March 2026``, whatever the C library can do."""
    return f"{day.day} {day.strftime('%B %Y')}"


def default_pages(contents: LabContents) -> tuple[HandInPage, ...]:
    """Pages for an edition that lists none: each task with the charts its checks ask for, conclusions, sources."""
    pages = []
    for task in contents.edition.tasks:
        if not task.handed_in or all(isinstance(check, HandInCheck) for check in task.checks):
            continue
        charts = [check for check in task.checks if isinstance(check, ChartsCheck)]
        laws = [check.model for check in task.checks if isinstance(check, FitCheck)]
        pages.append(
            HandInPage(
                task=task.id,
                charts=charts[0].charts if charts else ("laws",) if laws else (),
                models=charts[0].models if charts else tuple(laws),
                table="fractions" if laws else "results" if task.runs and not charts else None,
            )
        )
    return (HandInPage(kind="title"), *pages, HandInPage(kind="conclusions"), HandInPage(kind="sources"))


def _unanswered(contents: LabContents) -> Iterable[str]:
    for task in contents.edition.tasks:
        missing = sum(not text for text in contents.answers[task.id].texts) if task.handed_in else 0
        if missing:
            yield f"Task {task.id}: {missing} of {len(task.questions)} questions have no answer yet."


# --------------------------------------------------------------------------- one page


def _page(contents: LabContents, plan: HandInPage, before: Sequence[Page]) -> Iterable[Page]:
    if plan.kind == "overview":
        yield Page(
            title=plan.heading or contents.edition.title,
            visuals=(result_blocks.overview(contents.results),),
            words=(plain(contents.edition.about),),
            practice=contents.practice,
        )
    elif plan.kind == "conclusions":
        yield _conclusions(contents, before)
    elif plan.kind == "sources":
        yield sources_page(contents)
    elif plan.kind == "task" and (task := contents.edition.task(plan.task)) is not None:
        yield _task_page(contents, plan, task, before)


def _task_page(contents: LabContents, plan: HandInPage, task: Task, before: Sequence[Page]) -> Page:
    results = page_results(contents, plan, task)
    timed = _page_programs(results, plan, task)
    chosen = plan.answers or (
        () if _says_heading(plan, contents, task) else tuple(range(1, len(task.questions) + 1))
    )
    answers = [(number, _answer_blocks(contents, task, number)) for number in chosen]
    written = [blocks for _, blocks in answers if blocks]
    title = first_sentence(written[0]) if written else ""
    words: list[Block] = []
    for _, blocks in answers:
        shown = blocks
        if title and written and blocks is written[0]:
            shown = without_first_sentence(blocks)
        words += shown
    in_order = sorted(
        answers, key=lambda each: each[0]
    )  # the page leads with its message, a sheet with question 1
    if missing := [number for number, blocks in in_order if not blocks]:
        words.append(_missing(task, *missing))
    visuals = (*_timed_visuals(plan, timed), *_visuals(contents, plan, task, results))
    measured = {row.model for row in contents.results.rows}
    unrun = still_to_run(contents.checks[task.id], plan.models, measured)
    if unrun and (plan.charts or plan.table or not visuals):
        words.append(_warning(unrun))
    found = (result_blocks.program_fact(timed), *result_blocks.facts(plan, results))
    used = {page.title for page in before}
    titles = itertools.chain((title, plan.heading), found, _own_titles(plan, task))
    title = next(each for each in titles if each and each not in used)
    extra = result_blocks.rules(contents.results, plan.models) if "efficiency-loss" in plan.charts else ()
    words += [plain(rule, bullet="•", level=1) for rule in extra]
    if not task.questions and not task.runs:
        words += _checklist(contents, task)
    full: list[Block] = []
    for number, blocks in in_order:
        full += [plain(task.questions[number - 1].text, "question"), *(blocks or (_missing(task, number),))]
    return Page(
        title=title,
        kicker=f"{task.id} · {one_line(task.title)}",
        visuals=visuals,
        words=tuple(words),
        questions=tuple(one_line(task.questions[number - 1].text) for number in sorted(chosen)),
        answer=tuple(full),
        answered=bool(written),
        numbers=(*_timed_provenance(timed), *_provenance(results)) if plan.charts or plan.table else (),
        practice=any(row.practice for row in results.rows or timed) and bool(visuals),
    )


def _page_programs(results: Results, plan: HandInPage, task: Task) -> tuple[ProgramRow, ...]:
    """The times of programs that a page speaks of: those it names, else those its task measures."""
    measured = {(run.model, run.processes, run.size) for run in task.runs}
    return tuple(
        row
        for row in results.programs
        if (row.program.name in plan.models)
        or (not plan.models and (row.program.name, row.processes, row.size) in measured)
    )


def _timed_visuals(plan: HandInPage, timed: Sequence[ProgramRow]) -> Iterable[Block]:
    """Table and charts of programs; real times alone, where there are any."""
    rows = [row for row in timed if not row.practice] or list(timed)
    if plan.table == "results" and rows:
        yield result_blocks.program_table(rows)
    specs = {spec.family: spec for spec in program_charts(rows)}
    yield from (Chart(specs[key]) for key in plan.charts if key in specs)


def _timed_provenance(timed: Sequence[ProgramRow]) -> Iterable[str]:
    for row in timed:
        yield f"{clean(row.series)} on {row.program.counted(row.processes)}: {cite(row.origins)}"


def _says_heading(plan: HandInPage, contents: LabContents, task: Task) -> bool:
    """Whether a page only shows something: another page of the task has the answers."""
    pages = contents.edition.hand_in.pages if contents.edition.hand_in is not None else ()
    return bool(plan.heading) and any(page.task == task.id and page.answers for page in pages)


def _answer_blocks(contents: LabContents, task: Task, number: int) -> tuple[Block, ...]:
    answer = contents.answers[task.id]
    text = answer.texts[number - 1] if number <= len(answer.texts) else ""
    rest = answer.rest if number == len(task.questions) else ""
    return blocks_of(f"{text}\n\n{rest}".strip(), contents.pictures.get)


def _missing(task: Task, *numbers: int) -> Paragraph:
    which = f"question{'s' if len(numbers) > 1 else ''} {', '.join(map(str, sorted(numbers)))}"
    return _warning(f"No answer yet to {which} (answers/{task.id}.md).")


def _warning(text: str) -> Paragraph:
    return Paragraph((Run(text, italic=True, tone="warn"),))


def _own_titles(plan: HandInPage, task: Task) -> Iterable[str]:
    """The task's title; on its further pages with the charts that belong there, else with a number."""
    title = one_line(task.title)
    yield title
    if names := [_CHART_WORDS[key] for key in plan.charts if key in _CHART_WORDS]:
        yield f"{title}: {' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))}"
    yield from (f"{title} ({number})" for number in itertools.count(2))


_CHART_WORDS = {
    "epoch-time": "epoch time",
    "throughput": "throughput",
    "speedup": "speedup",
    "efficiency": "efficiency",
    "efficiency-loss": "lost efficiency",
}


def _checklist(contents: LabContents, task: Task) -> Iterable[Block]:
    """What is met and what shows it, for a task that has neither runs nor questions."""
    for item in contents.checks[task.id].items:
        shown = f" ({item.evidence})" if item.evidence and "." not in item.sentence.split()[0] else ""
        text = f"{item.sentence}{shown}" if item.met else item.missing or item.sentence
        yield plain(text, bullet="☑" if item.met and not item.stale else "☐", level=1)


def _conclusions(contents: LabContents, before: Sequence[Page]) -> Page:
    """The messages of the pages before, each once, and the rules that follow from the numbers."""
    plans = contents.edition.hand_in.pages if contents.edition.hand_in is not None else ()
    names = {plan.heading for plan in plans}
    messages = dict.fromkeys(
        page.title
        for page in before
        if page.answer
        and page.title not in names
        and not page.title.startswith(page.kicker.partition(" · ")[2])
    )
    points = [plain(text, bullet="•", level=1) for text in list(messages)[-7:]]
    models = tuple(dict.fromkeys(row.model for row in contents.results.rows))
    points += [plain(rule, bullet="•", level=1) for rule in result_blocks.rules(contents.results, models)]
    return Page(title="What we learned", words=tuple(points), practice=contents.practice)


def sources_page(contents: LabContents) -> Page:
    """Where each number was read: job, file, lines."""
    rows = tuple(line for row in contents.results.rows for line in source_rows(row))
    rows += tuple(line for row in contents.results.programs for line in result_blocks.program_sources(row))
    intro = (
        "labtui computed the numbers in charts, tables and headings from these lines of job logs; numbers in the "
        "answers are the authors' own. The logs are in logs/ in the lab folder."
    )
    overridden = [
        plain(
            f"Submitted in spite of a finding: {item.rule} in {item.file}{f':{item.line}' if item.line else ''}. "
            f"{item.effect} Reason: {item.reason or 'none given'}",
            "note",
        )
        for submission in contents.state.submissions.values()
        for item in submission.accepted
    ]
    headings = ("training", "epoch s", "job", "log", "lines (epoch)")
    if not contents.results.rows:
        headings = ("program", "time", "job", "log", "line")
    table = Table(headings, rows, (False, True, True, False, False))
    return Page(
        title="Where the numbers come from",
        visuals=(table,) if rows else (),
        words=(plain(intro, "note"), *overridden),
        practice=contents.practice,
        flows=True,
    )


def _provenance(results: Results) -> Iterable[str]:
    for row in results.measured:
        for name, _, job, log, lines in source_rows(row):
            yield f"{name or clean(row.configuration.label)}: job {job}, {log}, lines {lines}"


# --------------------------------------------------------------------------- numbers and charts


def page_results(contents: LabContents, plan: HandInPage, task: Task) -> Results:
    """The results a page speaks of: its models, or the task's own runs and those its checks rest on."""
    results = contents.results
    names = {task.id, *(name for check in task.checks for name in check.tasks)}
    planned = {
        (run.model, run.device, run.gpus, run.batch_size, run.data_set or "", run.tuning)
        for each in contents.edition.tasks
        if each.id in names
        for run in each.runs
    }
    scaling = set(plan.charts) - {
        "cpu-gpu",
        "accuracy",
        "epochs",
        "tuning",
        "learning-rate",
        "error",
        "batch-accuracy",
    }
    if plan.models and scaling:
        return of_rows(results, [row for row in results.rows if row.model in plan.models])
    rows = [
        row
        for row in results.rows
        if (not plan.models or row.model in plan.models)
        and (
            (*_identity(row), row.configuration.data_set, row.configuration.tuning) in planned
            or any(run.task_id in names for run in row.members)
        )
    ]
    return of_rows(results, [_narrowed(row, names) if "accuracy" in plan.charts else row for row in rows])


def _identity(row: ResultRow) -> tuple[str, str, int | None, int | None]:
    return row.model, row.device, row.n_gpus, row.batch_size


def _narrowed(row: ResultRow, names: set[str]) -> ResultRow:
    """The row with the runs of these tasks alone, where it has any."""
    members = tuple(run for run in row.members if run.task_id in names)
    return replace(row, members=members or row.members)


def _visuals(contents: LabContents, plan: HandInPage, task: Task, results: Results) -> Iterable[Block]:
    if plan.table == "fractions":
        fits = [fit for fit in contents.results.fits if not plan.models or fit.model in plan.models]
        yield from (fraction_table(fits),) if fits else ()
    elif plan.table == "acceleration":
        yield acceleration_table(results)
    elif plan.table == "results" and results.measured:
        yield short_table(results)
    yield from (Chart(spec) for spec in _of_one_model(page_charts(plan, results), results))
    for wanted in plan.excerpts:
        listing = _listing(contents, task, wanted)
        if listing is not None and listing.lines:
            yield listing


def page_charts(plan: HandInPage, results: Results) -> list[ChartSpec]:
    """The charts of a page, in the order it lists them; those without anything measured are left out."""
    practice = bool(results.rows) and all(row.practice for row in results.rows)
    results = of_rows(results, [row for row in results.rows if row.practice is practice])
    together = catalogue(results)
    apart = [chart for name in networks(results) for chart in catalogue(results, model=name)]
    charts: list[ChartSpec] = []
    for key in plan.charts:
        if key == "accuracy" and plan.target:
            charts.append(accuracy_chart(results, target=plan.target))
            continue
        charts += [chart for chart in together if chart.family == key] or [
            chart for chart in apart if chart.family == key
        ]
    return [chart for chart in charts if not chart.empty]


def _of_one_model(charts: Sequence[ChartSpec], results: Results) -> Iterable[ChartSpec]:
    """Several charts of one network say its name once, under them, with its batch."""
    models = {row.model for row in results.rows}
    name = next(iter(models), "")
    if len(models) != 1 or len(charts) < 2:
        return charts
    batches = {
        row.configuration.per_gpu_batch
        for row in results.rows
        if row.device == "gpu" and (row.n_gpus or 0) > 1
    }
    each = f", {batches.pop():,.0f} images per GPU" if len(batches) == 1 and None not in batches else ""
    note = f"{clean(name)}{each}."
    return [
        replace(chart, title=chart.title.removesuffix(f", {name}"), notes=(note, *chart.notes))
        for chart in charts
    ]


def _one_scale(pages: Sequence[Page]) -> Iterable[Page]:
    """The same limits for charts of one quantity wherever single networks are shown on pages of their own."""
    tops: dict[str, float] = {}
    for spec in (block.spec for page in pages for block in page.visuals if isinstance(block, Chart)):
        if spec.key in ("epoch-time", "throughput", "speedup", "efficiency"):
            values = [point.hi or point.y for series in spec.series for point in series.points]
            tops[spec.key] = max([tops.get(spec.key, 0.0), *values])
    for page in pages:
        visuals = tuple(
            Chart(replace(block.spec, y_max=tops[block.spec.key]))
            if isinstance(block, Chart) and block.spec.key in tops
            else block
            for block in page.visuals
        )
        yield replace(page, visuals=visuals)


# --------------------------------------------------------------------------- listings


def _listing(contents: LabContents, task: Task, wanted: Excerpt) -> Listing | None:  # noqa: PLR0911 - one case for each source
    """The lines that a page shows of a script, a job script or a log."""
    job = contents.job_of(task)
    if wanted.source == "changes":
        names = {*task.files, *(run.script for run in task.runs)}
        script = next((each for each in contents.changed if each.name in names), None)
        if script is None or not script.original_name:
            return whole(script.text, script.name) if script is not None else None
        caption = f"{script.name}: what differs from {script.original_name}"
        return difference(script.original, script.text, script.name, caption)
    if wanted.source == "job":
        if job is None or job.token not in contents.job_scripts:
            return None
        name, text = contents.job_scripts[job.token]
        mine = own_part(text)
        return excerpt(mine, name, wanted.lines) if wanted.lines else whole(mine, name)
    if wanted.source in ("out", "err"):
        text = contents.logs.get(job.token, {}).get(wanted.source, "") if job is not None else ""
        if job is None or job.job is None or not text:
            return None
        return excerpt(text, f"{job.job_name}.{job.job.job_id}.{wanted.source}", wanted.lines or (".",))
    text = contents.scripts.get(wanted.source, "")
    if not text:
        return None
    if wanted.parts:
        return with_parts(text, wanted.source, wanted.lines, wanted.parts)
    return excerpt(text, wanted.source, wanted.lines) if wanted.lines else whole(text, wanted.source)


def page_text(page: Page) -> str:
    """Everything a page says, for tests and searches."""
    return "\n".join([page.title, *(block_text(block) for block in (*page.visuals, *page.words))])
