"""From a lab's contents to its deck: title, tasks, everything measured, and where each number was read. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from labtui.core.charts import ChartSpec
from labtui.core.lab.edition import Task
from labtui.core.lab.evidence import NEVER_SENT
from labtui.core.results import ResultRow
from labtui.core.results.numbers import clean, seconds_text
from labtui.core.results.trace import Origin
from labtui.core.state import SubmissionState
from labtui.export.charts import all_charts
from labtui.export.code import difference, whole
from labtui.export.contents import ChangedScript, LabContents
from labtui.export.deck_model import Block, Deck, Slide, Table, one_line, plain
from labtui.export.result_blocks import law_blocks, result_blocks
from labtui.export.shape import bar_series
from labtui.export.task_slides import task_slides

_MOST_LINES = 14
_FORMS = {
    "cpu": "CPU",
    "one-gpu": "one GPU",
    "one-job": "all sizes in one job",
    "job-per-size": "one job per size",
}


def build_deck(contents: LabContents) -> Deck:
    """The whole deck of a lab."""
    edition, settings = contents.edition, contents.settings
    code = _CodeSlides(contents)
    slides: list[Slide] = []
    for task in edition.tasks:
        slides += task_slides(contents, task)
        slides += code.of_task(task)
    slides += code.left_over()
    slides += _everything(contents, slides)
    slides += _trace(contents)
    if contents.rehearsal:
        # A rehearsal is one from the first page to the last, the pages without numbers included.
        slides = [replace(slide, practice=True) for slide in slides]
    group = clean(settings.group) or "Group not named yet: set group in lab.toml"
    where = f"{clean(contents.cluster)}{f', account {clean(settings.account)}' if settings.account else ''}"
    return Deck(
        title=one_line(edition.title),
        subtitle=f"{one_line(edition.course)} · {one_line(edition.term)}",
        lines=(
            group,
            where,
            contents.today.strftime("%-d %B %Y") if _plain_day() else contents.today.isoformat(),
        ),
        footer=f"{clean(settings.group) + ' · ' if settings.group else ''}{one_line(edition.title)}",
        slides=tuple(slides),
        practice=contents.practice,
        notes=contents.notes,
    )


def _plain_day() -> bool:
    """Whether the C library can write a day without a leading zero."""
    from datetime import date

    return date(2000, 1, 2).strftime("%-d") == "2"


# --------------------------------------------------------------------------- code


class _CodeSlides:
    """Changed scripts and job scripts, each shown once, with the first task they belong to."""

    def __init__(self, contents: LabContents) -> None:
        self._contents = contents
        self._scripts = list(contents.changed)
        self._forms: set[str] = set()

    def of_task(self, task: Task) -> list[Slide]:
        """What belongs to a task and was not shown yet."""
        names = {*task.files, *(run.spec.script for run in self._contents.runs_of(task))}
        mine = [script for script in self._scripts if script.name in names]
        self._scripts = [script for script in self._scripts if script not in mine]
        kicker = f"Task {task.id}"
        slides = [slide for script in mine if (slide := _script_slide(script, kicker)) is not None]
        return [*slides, *self._jobs(task, kicker)]

    def left_over(self) -> list[Slide]:
        """Changed scripts that belong to no task."""
        slides = [slide for script in self._scripts if (slide := _script_slide(script, "Code")) is not None]
        self._scripts = []
        return slides

    def _jobs(self, task: Task, kicker: str) -> list[Slide]:
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
        slides = []
        for form, submission in latest.items():
            if form not in self._forms:
                self._forms.add(form)
                slides.append(_job_slide(submission, *self._contents.job_scripts[submission.token], kicker))
        return slides


def _script_slide(script: ChangedScript, kicker: str) -> Slide | None:
    if not script.original_name:
        return Slide(
            title=f"Code: {clean(script.name)} (your own)",
            kicker=kicker,
            blocks=(whole(script.text, script.name),),
        )
    code = difference(script.original, script.text, script.name)
    if not code.lines:
        return None
    other = script.original_name if script.original_name != script.name else "the original"
    name = clean(script.name)
    note = f"Green lines were added to {clean(other)}, red ones removed; line numbers are those of {name}."
    return Slide(
        title=f"Code: {name}, what was changed",
        kicker=kicker,
        blocks=(plain(note, "note"), code),
    )


def _job_slide(submission: SubmissionState, name: str, text: str, kicker: str) -> Slide:
    job = f", job {clean(submission.job.job_id)}" if submission.job else ""
    return Slide(
        title=f"Job script: {_FORMS.get(submission.form, submission.form)}{job}",
        kicker=kicker,
        blocks=(plain(clean(name), "note"), whole(text, name)),
        practice=submission.practice,
    )


# --------------------------------------------------------------------------- everything, and its sources


def _everything(contents: LabContents, shown: Sequence[Slide]) -> list[Slide]:
    """All results in one table, and the charts no task has shown."""
    if not contents.results.rows:
        return []
    known = {_drawn(chart) for slide in shown for chart in slide.charts}
    more = [
        each.spec
        for each in all_charts(contents.measurements, contents.results)
        if _drawn(each.spec) not in known and _says_something(each.spec)
    ]
    practice = contents.practice
    slides = [
        Slide(
            title="All results",
            kicker="Appendix",
            blocks=tuple(result_blocks(contents.results)),
            practice=practice,
        )
    ]
    if contents.results.fits:
        laws = tuple(law_blocks(contents.results))
        slides.append(Slide(title="All laws", kicker="Appendix", blocks=laws, practice=practice))
    if more:
        slides.append(Slide(title="Further charts", kicker="Appendix", charts=tuple(more), practice=practice))
    return slides


def _drawn(chart: ChartSpec) -> tuple[object, ...]:
    """What one sees of a chart: two networks and three under one title are two charts."""
    return chart.title, chart.series


def _says_something(chart: ChartSpec) -> bool:
    """Whether a chart compares anything along its axis: marks at one place alone stand in the table."""
    return len({point.x for series in bar_series(chart) for point in series.points}) > 1


def _trace(contents: LabContents) -> list[Slide]:
    """Where each number was read: job, file, lines."""
    intro = (
        "Every number in this deck is computed from lines of job logs. The logs lie in logs/ of the lab folder as "
        "byte-exact copies; results.json holds all numbers with the lines behind them. "
        "`labtui results --sources` prints the same."
    )
    blocks: list[Block] = [plain(intro.replace("`", ""))]
    rows = tuple(line for row in contents.results.rows for line in _sources(row))
    if rows:
        headings = ("training", "epoch s", "job", "log", "lines (epoch)")
        blocks.append(Table(headings, rows, (False, True, True, False, False)))
    else:
        blocks.append(plain("Nothing was measured yet.", "note"))
    return [
        Slide(
            title="Where the numbers come from",
            kicker="Sources",
            blocks=tuple(blocks),
            practice=contents.practice,
        )
    ]


def _sources(row: ResultRow) -> Iterable[tuple[str, ...]]:
    logs: dict[tuple[str, str], list[Origin]] = {}
    for origin in row.origins:
        logs.setdefault((origin.job_id, origin.source), []).append(origin)
    name = f"{clean(row.configuration.label)}{' (practice)' if row.practice else ''}"
    for at, ((job, source), origins) in enumerate(logs.items()):
        lines = _places([origin for origin in origins if origin.line is not None])
        yield (
            name if at == 0 else "",
            seconds_text(row.epoch_seconds) if at == 0 else "",
            clean(job) or "–",
            clean(source),
            lines or "–",
        )


def _places(origins: Sequence[Origin]) -> str:
    """The lines with their epochs; of very many the first, the last and how many (results.json has them all)."""
    shown = [_place(origin) for origin in origins]
    if len(shown) > _MOST_LINES:
        shown = [*shown[:3], "…", f"{shown[-1]}: {len(origins)} lines"]
    return ", ".join(shown)


def _place(origin: Origin) -> str:
    return f"{origin.line} ({origin.epoch})" if origin.epoch is not None else str(origin.line)
