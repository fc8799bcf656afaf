"""Makes the hand-in from a lab's contents: the pages that its edition lists, in their order."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from labtui.domain.run import listed
from labtui.domain.terminal_text import joined
from labtui.export import documents, drawing, tables
from labtui.export.contents import LabContents, left_out, small_notes, stamp_of
from labtui.export.hand_in import Answer, Block, Document, Listing, Page, plain
from labtui.export.markdown import blocks_of, difference, excerpt, own_part, whole_file, with_parts
from labtui.lab.checks import still_to_run
from labtui.lab.edition import ChartsCheck, Excerpt, HandInPage, Task
from labtui.lab.evidence import one_line
from labtui.lab.run_choice import compared_runs, row_has_run, rows_with_runs, runs_for_task, with_baselines
from labtui.results import measured, messages, scaling
from labtui.results.catalogue import accuracy_chart, catalogue, lab_charts, networks
from labtui.results.charts import ChartSpec, slug, with_log_axes, without_repeats
from labtui.results.numbers import PROGRAM, Table, clean, table_of
from labtui.results.rows import Results, with_rows

UNANSWERED = "No answer yet to "
AS_BARS = {"epoch-time", "speedup"}
"""Charts drawn as bars on a page that asks for bars."""
OF_RUNS = {"cpu-gpu", "accuracy", "epochs", "tuning", "learning-rate", "error", "batch-accuracy"}
"""Charts of one task's runs, not of all runs of a network."""


def hand_in(contents: LabContents) -> Document:
    """The document that the edition asks for; pages with nothing to show are only listed as missing."""
    edition, settings, shown = contents.edition, contents.settings, _on_pages(contents)
    sent = [run for task in edition.tasks for run in runs_for_task(task, contents.state)]
    # a run of no task is no result of the lab
    lab = shown if shown.rows else rows_with_runs(contents.shown, sent)
    made = _on_one_scale([page for plan in _plans(contents) for page in _page(contents, plan, shown, lab)])
    unreal = all(run.mark == "practice" for run in contents.measurements.runs)
    there = (replace(page, title=_in_lines(page.title, 28)) for page in made if page.shows)
    pages = [replace(page, practice=unreal or page.practice) for page in there]
    if not any(page.numbers and page.kicker for page in pages):
        pages = [*_other_runs(contents), *pages] or [Page(title="No task has a run or an answer yet")]
    if absent := dict.fromkeys(page.kicker or page.title for page in made if not page.shows):
        pages[-1] = replace(pages[-1], warnings=(*pages[-1].warnings, f"Not here yet: {'; '.join(absent)}."))
    author = clean(settings.group)
    where = ", account ".join(filter(None, map(clean, (contents.profile.title, settings.account))))
    day = f"{contents.today.day} {contents.today:%B %Y}".replace(" ", "\u00a0")  # breaks nowhere
    notes = [] if author else ["The title page has no author: write group = 'your names' in lab.toml."]
    notes += [line for page in pages for line in page.warnings if not line.startswith(UNANSWERED)]
    on_pages = {plan.task for plan in _plans(contents)}
    for task in filter(lambda each: each.questions, edition.tasks):
        answered = contents.answers[task.id]
        notes += _unanswered(task, [at for at, there in enumerate(answered, 1) if not there])
        said = f"No page shows the answers of task {task.id}: they are only in answers/{task.id}.md."
        notes += [said] if task.id not in on_pages and any(answered) else []
    return Document(
        title=_in_lines(one_line(edition.title), 44),
        subtitle=f"{one_line(edition.course)} · {one_line(edition.term)}",
        author=author,
        lines=tuple(filter(None, (author, where, day))),
        stamp=stamp_of(contents.results),
        pages=tuple(pages),
        facts=tables.title_facts(lab, accuracy=any(page.target for page in edition.hand_in.pages)),
        mark=contents.mark,
        notes=(*notes, *_ends(shown), *small_notes(contents.named)),
    )


def _in_lines(title: str, size: float) -> str:
    """The title; where it takes two lines at this size in points, these are about as long."""
    words, lines = title.split(" "), drawing.inches(title, 1.04 * size) / drawing.WIDTH
    if not 0.98 < lines < 1.7:
        return title
    at = min(range(len(words)), key=lambda at: abs(2 * len(" ".join(words[:at])) - len(title)))
    return " ".join("\u00a0".join(part) for part in (words[:at], words[at:]))


def _on_one_scale(pages: Sequence[Page]) -> list[Page]:
    """The pages with one lower end of y in all their charts of efficiency, so that these can be compared."""
    compared = (c for page in pages for c in page.charts if c.percent and c.compares)
    least = min((drawing.y_limits(chart)[0] for chart in compared), default=0)

    def scaled(chart: ChartSpec) -> ChartSpec:
        return drawing.with_start(replace(chart, y_from=least) if chart.percent and chart.compares else chart)

    return [replace(page, charts=tuple(map(scaled, page.charts))) for page in pages]


def _unanswered(task: Task, numbers: Sequence[int]) -> list[str]:
    """A sentence on a task's questions without an answer; none if all have one."""
    return [f"{UNANSWERED}{listed('question', numbers)} (answers/{task.id}.md)."] if numbers else []


def _plans(contents: LabContents) -> tuple[HandInPage, ...]:
    """The plans of the pages, with the edition's names of their networks."""
    names, pages = contents.edition.names, contents.edition.hand_in.pages or default_pages(contents)
    return tuple(replace(page, models=tuple(names.get(m, m) for m in page.models)) for page in pages)


def tuned_charts(contents: LabContents) -> Iterable[ChartSpec]:
    """The charts of each network's tuned runs on the pages of tasks, with the task's number in their keys."""
    for plan in (each for each in _plans(contents) if "tuning" in each.charts):
        task = contents.edition.task(plan.task)
        found = _charts(plan, _page_results(contents, plan, task)) if task is not None else ()
        for chart in (chart for chart in found if chart.model and chart.family == "tuning"):
            yield replace(chart, key=slug(f"{chart.key}-{chart.model}-{plan.task}"))


def default_pages(contents: LabContents) -> Iterable[HandInPage]:
    """Pages for an edition that lists none: each task with the charts its checks ask for, then the sources."""
    for task in contents.edition.tasks:
        if task.handed_in and (task.runs or task.questions):
            charts = next((check.charts for check in task.checks if isinstance(check, ChartsCheck)), ())
            yield HandInPage(task=task.id, charts=charts, table="results" if task.runs else None)
    yield HandInPage(kind="sources")


# --------------------------------------------------------------------------- one page


def _other_runs(contents: LabContents) -> Iterable[Page]:
    """A page for a lab whose runs are all others than its tasks plan, as those of own job files."""
    results = contents.shown
    charts = (catalogue(results) or lab_charts(results))[:1]
    blocks = (tables.readings_table(results),) if results.measured else ()
    if charts or blocks:
        runs = sorted((run for row in results.rows for run in row.members), key=lambda run: run.run_id or 0)
        found = measured.grouped((run for run in runs if run.task_id), lambda run: run.task_id)
        sent = (f"Sent for {task}: {', '.join(run.label for run in mine)}." for task, mine in found.items())
        warnings = (" ".join(["No task of the lab plans these runs.", *sent]),)
        page = Page(title="Runs that no task plans", kicker="Other runs", charts=charts, blocks=blocks)
        page = replace(
            page, note=" ".join(_ends(results)), warnings=warnings, numbers=tuple(_provenance(results))
        )
        yield replace(page, practice=bool(results.mark))


def _ends(results: Results) -> list[str]:
    """Which runs behind the numbers ended early, and how, and what the means mix."""
    ended = (note for row in results.rows for note in row.notes_about("end"))
    return [*ended, *messages.notes_with_names(results.rows, "pooled")]


def _page(contents: LabContents, plan: HandInPage, shown: Results, lab: Results) -> Iterable[Page]:
    """The pages of a plan; `shown` are the results on pages of tasks, `lab` those that are of the lab."""
    marked = bool(contents.mark)
    if plan.kind == "overview":
        first = with_rows(lab, [row for row in lab.rows if row.model == lab.rows[0].model])
        facts = tables.epoch_time_numbers(first)
        words = (plain(contents.edition.about),) if facts else ()
        page = Page(title=plan.heading or contents.edition.title, facts=facts, blocks=words, practice=marked)
        yield replace(page, numbers=tuple(_provenance(first)) if facts else ())
    elif plan.kind == "conclusions":
        yield replace(_conclusions(lab), practice=marked)
    elif plan.kind == "sources":
        yield replace(_sources(contents, shown if shown.rows else contents.shown), practice=marked)
    elif plan.kind == "task" and (task := contents.edition.task(plan.task)) is not None:
        yield from _task_pages(contents, plan, task)


def _task_pages(contents: LabContents, plan: HandInPage, task: Task) -> Iterable[Page]:
    """A page for each row of charts that fits, titled by what these show; all else is on the last."""
    results = _page_results(contents, plan, task)
    *before, charts = drawing.chart_rows(tuple(_charts(plan, results))) or [()]
    for row in before:
        yield _page_of(plan, task, results, row)
    listings = (_listing(contents, task, wanted) for wanted in plan.excerpts)
    found = tuple(_tables(contents, plan, results))
    large = tables.large_cells(found) if not charts else ()
    blocks: tuple[Block, ...] = () if large else found
    blocks += tuple(each for each in listings if each and each.lines)
    answers = tuple(_answers(contents, plan, task))
    rows = results.rows if charts or plan.table else ()
    noted = [run.run_id for row in rows for run in row.members if measured.end_note(run)]
    unrun = still_to_run(contents.checks[task.id], plan.models, noted)
    lacks = [unrun] if unrun and (plan.charts or plan.table or not (charts or blocks)) else []
    families = {chart.family for row in (*before, charts) for chart in row}
    if {"speedup", "efficiency"}.intersection(plan.charts).difference(families):
        lacks += filter(None, [messages.why_no_speedup(results.rows)])
    warnings = [" ".join(lacks)] if lacks else []
    warnings += _unanswered(task, [each.number for each in answers if not each.blocks])
    for each in filter(lambda each: each.number <= len(contents.answers[task.id]), answers):
        text = contents.answers[task.id][each.number - 1]
        warnings += left_out(contents.folder, task.id, each.number, text, contents.plots)
    if not task.questions and not task.runs:
        blocks += tuple(_checklist(contents, task))
    page = _page_of(plan, task, results, charts)
    page = replace(page, facts=large, blocks=blocks, answers=answers, warnings=tuple(warnings))
    told = {"results": tables.results_message, "readings": tables.readings_message}.get(plan.table or "")
    said = joined(told(results)) if charts and found and told else ""
    height = documents.chart_height(page) + sum(map(documents.block_height, blocks)) if said else 0.0
    if said not in ("", page.title) and height > documents.BOTTOM - documents.TOP:  # the table has its own
        yield _page_of(plan, task, results, charts)
        page = replace(page, title=said, charts=(), note="", numbers=())
    yield page


def _page_of(plan: HandInPage, task: Task, results: Results, charts: tuple[ChartSpec, ...]) -> Page:
    """The part of a task's page that follows from its charts and numbers."""
    shown = bool(charts or plan.table)
    charts = tuple(sorted(charts, key=lambda chart: chart.family == "learning-rate"))  # a result is first
    notes = [note for chart in charts for note in chart.captions]
    notes += messages.baseline_notes(results.rows) if plan.table else ()
    notes += _ends(results) if shown else ()
    return Page(
        title=_title(plan, task, charts, results),
        kicker=f"{task.id}  {one_line(task.title)}",
        charts=charts,
        note=" ".join(filter(None, dict.fromkeys(clean(each, 1000) for each in notes))),
        numbers=tuple(_provenance(results)) if shown else (),
        practice=shown and bool(results.mark),
    )


def _title(plan: HandInPage, task: Task, charts: Sequence[ChartSpec], results: Results) -> str:
    """What the page's numbers show; else its heading, else the task's title."""
    families = {chart.family for chart in charts}
    found = ""
    if results.programs and (charts or plan.table):
        found = messages.program_message(results.programs, families)
    elif families & set(messages.SCALING):
        found = messages.scaling_message(scaling.scaling_lines(results.measured), families)
    elif plan.table == "fractions" or families == {"laws"}:
        found = messages.laws_message(results, plan.models)
    elif charts:
        found = next((chart.message for chart in charts if chart.message), "")
        which, *others = {measured.policy(run) for row in results.rows for run in row.members} or {""}
        found += f" ({which})" if found and which and not others else ""
    if plan.table == "results" and not found:
        found = tables.results_message(results)
    return joined(found) or plan.heading or one_line(task.title)


def _answers(contents: LabContents, plan: HandInPage, task: Task) -> Iterable[Answer]:
    pages = contents.edition.hand_in.pages
    elsewhere = bool(plan.heading) and any(page.task == task.id and page.answers for page in pages)
    chosen = plan.answers or (() if elsewhere else range(1, len(task.questions) + 1))
    for number in sorted(chosen):
        texts = contents.answers[task.id]
        text = texts[number - 1].strip() if number <= len(texts) else ""
        yield Answer(number, one_line(task.questions[number - 1].text), blocks_of(text, contents.picture))


def _checklist(contents: LabContents, task: Task) -> Iterable[Block]:
    """What is done, what is missing and what shows it, for a task that has neither runs nor questions."""
    for item in contents.checks[task.id].items:
        shown = f" ({item.evidence})" if item.evidence and "." not in item.sentence.split()[0] else ""
        text = f"{item.sentence}{shown}" if item.met else item.missing or item.sentence
        yield plain(text, bullet="☑" if item.met and not item.stale else "☐", level=1)


def _conclusions(results: Results) -> Page:
    """The messages of the numbers for each network and for all together, each sentence once."""
    lines = scaling.scaling_lines(results.measured)
    found = [chart.message for chart in catalogue(results)]
    found += [messages.scaling_message([line], {"speedup"}) for line in lines]
    found += [messages.acceleration_message(row) for row in results.measured if row.cpu is not None][:1]
    found += [messages.loss_message(results.measured)]
    points = tuple(plain(text, bullet="•", level=1) for text in list(dict.fromkeys(filter(None, found)))[:7])
    return Page(title="What the numbers say", blocks=points)


def _sources(contents: LabContents, shown: Results) -> Page:
    """Where each number was read, and which findings were overridden."""
    table = tables.sources_table(shown)
    overridden = dict.fromkeys(
        f"Submitted in spite of a finding: {item.rule} in {item.file}{f':{item.line}' if item.line else ''}. "
        f"{item.effect} Reason: {item.reason or 'none given'}"
        for submission in contents.state.submissions.values()
        if (job := submission.job) is not None and (job.start_time or job.slurm_state != "CANCELLED")
        for item in submission.accepted
    )
    note = "The numbers were read at these lines of logs/. Numbers in the answers are the authors' own."
    note += f" Files with the fingerprint {stamp_of(contents.results)[-8:]} show these numbers."
    notes = (plain(text, "note") for text in overridden)
    blocks: tuple[Block, ...] = (*((replace(table, note=note),) if table.rows else ()), *notes)
    return Page(title="Where the numbers come from", kicker="Sources", blocks=blocks)


def _provenance(results: Results) -> Iterable[str]:
    for row in (*results.programs, *results.measured):
        for name, _, job, log, lines in tables.source_rows(row):
            yield f"{name}: job {job}, {log}, lines {lines}"


# --------------------------------------------------------------------------- numbers and charts


def _on_pages(contents: LabContents) -> Results:
    """The results that pages of tasks show."""
    pairs = ((plan, contents.edition.task(plan.task)) for plan in _plans(contents))
    found = ((plan, _page_results(contents, plan, task)) for plan, task in pairs if task is not None)
    shown = {row.configuration for plan, r in found if plan.table or any(_charts(plan, r)) for row in r.rows}
    return with_rows(contents.shown, [row for row in contents.shown.rows if row.configuration in shown])


def _page_results(contents: LabContents, plan: HandInPage, task: Task) -> Results:
    """The results of a page: those of its models or of the task's runs; only real ones where there are any."""
    results, names = contents.shown, {task.id, *(name for check in task.checks for name in check.tasks)}
    tasks = list(filter(None, map(contents.edition.task, names)))
    data_sets = {run.spec.data_set for each in tasks for run in each.runs}
    made = runs_for_task(task, contents.state)
    compared = compared_runs(contents.edition, task, contents.state)
    # of the page's networks, or of others that were trained for the task
    shown = [r for r in results.rows if not plan.models or r.model in plan.models or row_has_run(r, made)]
    rows = own = [row for row in shown if row_has_run(row, compared)]
    sizes = {(row.model, row.n_gpus) for row in own}
    scales = all(len({n for m, n in sizes if m == model}) > 1 for model in plan.models)
    if not scales and set(plan.charts) - OF_RUNS:
        others = data_sets or {row.configuration.data_set for row in shown}
        rows = [row for row in shown if row.configuration.data_set in others or row_has_run(row, compared)]
    rows = [row for row in rows if not row.mark] or rows
    mine = [run for run in compared if run.task_id in names]
    # another task made what this one compares with
    elsewhere = [row for row in rows if not row_has_run(row, mine)]
    mine += [run for run in compared if any(row_has_run(row, [run]) for row in elsewhere)]
    rows = with_baselines(results, rows, mine)
    if task.runs and not any(row_has_run(row, made) for row in rows):
        rows = []  # only baselines are left, which are no result of the task
    timed = {(run.spec.model, run.spec.processes, run.spec.size) for each in tasks for run in each.runs}
    programs = [row for row in results.programs if row.model in plan.models]
    if not plan.models:
        programs = [row for row in results.programs if (row.model, row.processes, row.size) in timed]
    programs = [row for row in programs if not row.mark] or programs
    return replace(with_rows(results, rows), programs=tuple(programs))


def _charts(plan: HandInPage, results: Results) -> Iterable[ChartSpec]:
    """The charts of a page in the order it lists them, without those that have nothing measured."""
    together, there = catalogue(results), networks(results)
    apart = [chart for name in there for chart in catalogue(results, model=name)] if len(there) > 1 else []
    on_cpu = len(results.rows) > 1 and not any(row.n_gpus for row in results.rows)
    for key in plan.charts or (("epochs", "loss", "accuracy") if on_cpu and plan.table else ()):
        if key == "accuracy" and plan.target:
            chart = accuracy_chart(results, target=plan.target)
            yield from (chart,) if chart.measured else ()
        else:
            found = [chart for chart in together if chart.family == key]
            found = found or [chart for chart in apart if chart.family == key]
            several = len({chart.model for chart in found}) > 1
            named = (_with_network(chart, plan.models, several=several) for chart in found)
            found = list(map(without_repeats, named))
            bars = plan.bars and key in AS_BARS
            yield from (with_log_axes(replace(chart, kind="bars")) if bars else chart for chart in found)


def _with_network(chart: ChartSpec, models: tuple[str, ...], *, several: bool) -> ChartSpec:
    """The chart with its network in its heading: of `several`, or the only one and not of the page's `models`."""
    (name, *more) = [series.name for series in chart.measured] or [""]
    other = models and not more and not name.startswith(models)
    name = chart.model if several else name if other else ""
    return chart if name in chart.heading else replace(chart, heading=f"{chart.heading}, {name}")


def _tables(contents: LabContents, plan: HandInPage, results: Results) -> Iterable[Table]:
    if plan.table == "fractions":
        fits = [fit for fit in contents.shown.fits if not plan.models or fit.baseline.model in plan.models]
        yield from (tables.fraction_table(fits),) if fits else ()
    elif plan.table == "results" and results.programs:
        yield table_of(results.programs, PROGRAM)
    elif plan.table and results.measured:
        table = tables.readings_table(results)
        yield from (table,) if table.groups or plan.table == "results" else ()


# --------------------------------------------------------------------------- listings


def _listing(contents: LabContents, task: Task, wanted: Excerpt) -> Listing | None:
    """The lines of a script, a job script or a log that a page shows."""
    job = contents.job_of(task)
    if wanted.source == "changes":
        return _changes(contents, task)
    name, lines = wanted.source, wanted.lines
    if name in ("out", "err"):
        if job is None or job.job is None:
            return None
        text = contents.text(job.mirror("out" if name == "out" else "err"))
        name, lines = f"{job.job_name}.{job.job.job_id}.{name}", lines or (".",)
    elif name == "job":
        name = job.script_file if job is not None else ""
        text = own_part(contents.text(name)) if name else ""
    else:
        text = contents.scripts[name].text if name in contents.scripts else ""
    if wanted.parts and text:
        return with_parts(text, name, lines, wanted.parts)
    return excerpt(text, name, lines) if lines else whole_file(text, name)


def _changes(contents: LabContents, task: Task) -> Listing | None:
    """The student's changes in the first script of a task that is not as shipped."""
    for name in sorted({*task.files, *(run.spec.script for run in task.runs)} & contents.scripts.keys()):
        text, shipped = contents.scripts[name].text, contents.originals.get(name)
        if shipped is not None and text.splitlines() == shipped.text.splitlines():
            continue
        source, original = contents.original_of(name)
        if not original:
            return whole_file(text, name)
        return difference(original, text, name, f"{name}: what differs from {source}")
    return None
