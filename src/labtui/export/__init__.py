"""Plots, tables and documents from the same results and charts as the screen.

`export_lab` writes everything a lab hands in, at one call and of one state. Heavy libraries are imported when used.
"""

import contextlib
import ctypes
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec.structs import replace

from labtui.cluster.local_files import write_whole
from labtui.domain.errors import ExportError
from labtui.domain.state import LabState
from labtui.export.contents import LabContents, Measurements, read_contents, stamp_of, without_small
from labtui.export.documents import pdf
from labtui.export.hand_in import Document
from labtui.export.pages import charts_of_tasks, hand_in
from labtui.export.plots import Format, pictures
from labtui.export.tables import FORMS, markdown
from labtui.results.catalogue import job_gpu_chart, lab_charts, with_unique_keys
from labtui.results.charts import ChartSpec
from labtui.results.rows import Results
from labtui.session.folder import LabFolder

Work = dict[str, Callable[[], "str | bytes | Mapping[str, bytes]"]]
"""What makes a file, by its name; or what makes several files at once, by what they show."""
DECKS = ("pptx", "pdf")
REPORTS = ("pdf", "ipynb")


class ExportReport(msgspec.Struct, frozen=True):
    """What was written, in order, and sentences about what the student should know."""

    files: tuple[Path, ...]
    notes: tuple[str, ...] = msgspec.field(default=())


def export_lab(
    folder: Path,
    *,
    formats: Sequence[str] | None = None,
    reports: Sequence[str] = REPORTS,
    out: Path | None = None,
    template: Path | None = None,
    plots: bool = True,
    state: LabState | None = None,
    today: date | None = None,
    told: Callable[[str], None] = lambda said: None,
) -> ExportReport:
    """Write the hand-in, its reports, tables and plots; callable from any thread.

    `formats` of the slides (None: as the edition hands in); `reports` of the report; `out` instead of the lab folder;
    `template` a PowerPoint file whose theme is used; `state` when the caller has the lab open, else the stored one is
    read; `told` hears which file is being made. The lab folder is read once. Each file is whole or not there; what can
    be written is written even when another file cannot.

    Raises:
        ExportError: says which file could not be made or written, and why.
        LabError: when the lab folder cannot be read.
    """
    lab = LabFolder.open(folder)
    contents = read_contents(lab, state=state, today=today, made=_names(formats or DECKS, reports))
    if formats is None:
        hand_in = contents.edition.hand_in
        formats = () if hand_in is not None and hand_in.form == "report" else DECKS
    notes, work = _documents(contents, formats, reports, template)
    if plots:
        work |= drawings(_plots(contents), stamp=stamp_of(contents.results), folder="plots/")
    # pandas last: it uses what typesetting has released, and the peak is 15 MB lower
    written = write_files(work | _tables(contents), out or lab.path, lab.path if out is None else None, told)
    if not contents.results.measured and not contents.results.programs:
        notes = ("There is no steady epoch time yet, so tables and charts have nothing to show.", *notes)
    return ExportReport(written, tuple(dict.fromkeys(notes)))


def write_files(
    work: Work, target: Path, root: Path | None, told: Callable[[str], None] = lambda said: None
) -> tuple[Path, ...]:
    """Make and write each file, after it was `told`; with `root` no link is followed. One that fails stops no other.

    Raises:
        ExportError: says which could not be made or written, and why.
    """
    written: list[Path] = []
    problems: list[ExportError] = []
    for at, (name, make) in enumerate(work.items(), 1):
        told(f"{at} of {len(work)}: {name}")
        _give_memory_back()
        try:
            made = make()
            for path, data in (made if isinstance(made, Mapping) else {name: made}).items():
                write_whole(target / path, data.encode() if isinstance(data, str) else data, root)
                written.append(target / path)
        except ExportError as error:
            problems.append(error)
    if problems:
        raise ExportError(" ".join(each.sentence for each in problems), problems[0].hint)
    return tuple(written)


def _give_memory_back() -> None:
    """Have the C library return what was freed; glibc alone keeps it. The peak of a whole lab is 20 MB lower."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _names(formats: Sequence[str], reports: Sequence[str]) -> list[str]:
    of_reports = {"pdf": "report.pdf", "ipynb": "analysis.ipynb"}
    return [*(f"deck.{name}" for name in formats), *(of_reports[name] for name in reports)]


def _tables(contents: LabContents) -> Work:
    made: Work = {"results.json": partial(contents.measurements.json_text, contents.results)}
    return made | {f"results.{form}": partial(make, contents.results) for form, make in FORMS.items()}


def drawings(
    charts: Sequence[ChartSpec],
    formats: Sequence[Format] = ("png", "svg"),
    *,
    stamp: str = "",
    folder: str = "",
) -> Work:
    """What makes each chart in these formats, of one figure; a file is called by its chart's key."""

    def drawn(chart: ChartSpec) -> dict[str, bytes]:
        made = pictures(chart, formats, stamp=stamp)
        return {f"{folder}{chart.key}.{form}": data for form, data in made.items()}

    return {f"chart {each.key}": partial(drawn, each) for each in charts}


def lab_plots(measurements: Measurements, results: Results) -> tuple[ChartSpec, ...]:
    """Every chart of a lab or of some logs, each once: those of the runs, then what the GPUs of each job did."""
    charts = list(lab_charts(without_small(results)))
    first = {use.run.source: use.run for use in reversed(measurements.uses)}
    for source, run in first.items():
        chart = job_gpu_chart(measurements.samples[source], run.job_id, log=Path(source).name)
        if chart is not None:
            charts.append(replace(chart, mark=run.mark))
    return with_unique_keys(charts)


def _plots(contents: LabContents) -> tuple[ChartSpec, ...]:
    """Every chart of a lab; of those that compare too much for one chart, the ones of its tasks."""
    charts = lab_plots(contents.measurements, contents.named)
    there = {(chart.family, chart.model) for chart in charts}
    more = (chart for chart in charts_of_tasks(contents) if (chart.family, chart.model) not in there)
    return with_unique_keys([*charts, *more])


def _documents(
    contents: LabContents, formats: Sequence[str], reports: Sequence[str], template: Path | None
) -> tuple[tuple[str, ...], Work]:
    """What the student should know, and what makes each document that is wanted."""
    if not (formats or reports):
        return (), {}
    from labtui.export.powerpoint import pptx

    document = hand_in(contents)
    known: Work = {
        "deck.pptx": partial(pptx, document, template),
        "deck.pdf": partial(pdf, document, "slides"),
        "report.pdf": partial(pdf, document, "report"),
        "analysis.ipynb": partial(notebook, document),
    }
    return document.notes, {name: known[name] for name in _names(formats, reports)}


def notebook(document: Document) -> str:
    """A notebook of four cells that computes the numbers again from results.csv beside it."""
    book = json.loads(files("labtui.export").joinpath("notebook.ipynb").read_text(encoding="utf-8"))
    lines = filter(None, (document.subtitle, *document.lines, f"Export: {document.stamp}", document.mark))
    head = f"# {markdown(document.title)}\n\n" + "  \n".join(map(markdown, lines))
    book["cells"][0]["source"] = head.splitlines(keepends=True)
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"
