"""Plots, tables and documents from the same results and charts as the screen.

`export_lab` writes everything a lab hands in, at one call and of one state. Heavy libraries are imported when used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from labtui.cluster.local_files import write_whole
from labtui.domain.errors import ExportError, UsageError
from labtui.domain.state import LabState
from labtui.export.style import Progress, quiet

if TYPE_CHECKING:
    from labtui.export.contents import LabContents
    from labtui.export.hand_in import HandInDocument
    from labtui.export.measurements import Measurements
    from labtui.results.charts import ChartSpec
    from labtui.results.rows import Results

Work = dict[str, Callable[[], Mapping[str, bytes]]]
"""What is being made, and what makes its files."""
DECKS = ("pptx", "pdf")
REPORTS = ("pdf", "ipynb")


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written, in order, and sentences about what the student should know."""

    files: tuple[Path, ...]
    notes: tuple[str, ...] = field(default=())


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
    progress: Progress = quiet,
) -> ExportReport:
    """Write the hand-in, its reports, tables and plots; callable from any thread.

    `formats` of the slides (None: as the edition hands in); `reports` of the report; `out` instead of the lab folder;
    `template` a PowerPoint file whose theme is used; `state` when the caller has the lab open, else the stored one is
    read. The lab folder is read once. Each file is whole or not there; what can be written is written even when
    another file cannot.

    Raises:
        ExportError: says which file could not be made or written, and why.
        LabError: when the lab folder cannot be read.
    """
    from labtui.export.contents import read_contents
    from labtui.session.folder import LabFolder

    for wanted, known, what in ((formats or (), DECKS, "deck"), (reports, REPORTS, "report")):
        if unknown := [name for name in wanted if name not in known]:
            raise UsageError(f"There is no {what} format {unknown[0]!r}.", f"Choose from {', '.join(known)}.")
    lab = LabFolder.open(folder)
    progress("reading the lab folder", 0.0)
    contents = read_contents(lab, state=state, today=today, made=_names(formats or DECKS, reports))
    if formats is None:
        hand_in = contents.edition.hand_in
        formats = () if hand_in is not None and hand_in.form == "report" else DECKS
    notes, work = _documents(contents, formats, reports, template)
    work = _tables(contents) | work | (_charts(contents) if plots else {})
    files = _written(work, out or lab.path, lab.path if out is None else None, progress)
    if not contents.results.measured and not contents.results.programs:
        notes = ("There is no steady epoch time yet, so tables and charts have nothing to show.", *notes)
    return ExportReport(tuple(files), tuple(dict.fromkeys(notes)))


def _written(work: Work, target: Path, root: Path | None, progress: Progress) -> list[Path]:
    """Make and write each file; what cannot be made or written is raised when all others are there."""
    files: list[Path] = []
    problems: list[ExportError] = []
    for at, (name, make) in enumerate(work.items()):
        progress(f"{at + 1} of {len(work)}: {name}", at / len(work))
        try:
            for path, data in make().items():
                write_whole(target / path, data, root)
                files.append(target / path)
        except ExportError as error:
            problems.append(error)
    progress("done", 1.0)
    if problems:
        raise _with_count(problems, len(files))
    return files


def _names(formats: Sequence[str], reports: Sequence[str]) -> list[str]:
    of_reports = {"pdf": "report.pdf", "ipynb": "analysis.ipynb"}
    return [*(f"deck.{name}" for name in formats), *(of_reports[name] for name in reports)]


def _tables(contents: LabContents) -> Work:
    from labtui.export.tables import FORMS

    made: dict[str, Callable[[], str | bytes]] = {
        "results.json": partial(contents.measurements.json_text, contents.results),
        **{f"results.{form}": partial(make, contents.results) for form, make in FORMS.items()},
    }
    return {name: partial(_one, name, make) for name, make in made.items()}


def _one(name: str, make: Callable[[], str | bytes]) -> dict[str, bytes]:
    made = make()
    return {name: made.encode() if isinstance(made, str) else made}


def _charts(contents: LabContents) -> Work:
    """Every chart as PNG and SVG, made of one figure."""
    from labtui.export.measurements import stamp_of
    from labtui.export.plots import pictures

    stamp = stamp_of(contents.results)

    def drawn(chart: ChartSpec) -> dict[str, bytes]:
        made = pictures(chart, ("png", "svg"), stamp=stamp)
        return {f"plots/{chart.key}.{form}": data for form, data in made.items()}

    return {
        f"chart {each.key}": partial(drawn, each) for each in lab_plots(contents.measurements, contents.named)
    }


def _with_count(problems: Sequence[ExportError], written: int) -> ExportError:
    """The first problem, raised after all else was written."""
    first, others = problems[0], len(problems) - 1
    more = f" Nor could {others} other file{'s' * (others > 1)}." if others else ""
    return ExportError(f"{first.sentence}{more}{f' {written} were written.' if written else ''}", first.hint)


def lab_plots(measurements: Measurements, results: Results) -> tuple[ChartSpec, ...]:
    """Every chart of a lab or of some logs, each once: those of the runs, then what the GPUs of each job did."""
    from labtui.export.measurements import without_small
    from labtui.results.catalogue import lab_charts, told_apart
    from labtui.results.run_charts import job_gpu_chart

    charts = list(lab_charts(without_small(results)))
    first = {use.run.source: use.run for use in reversed(measurements.uses)}
    for source, run in first.items():
        name, practice = Path(source).name, run.practice
        chart = job_gpu_chart(measurements.samples[source], run.job_id, log=name, practice=practice)
        charts += [chart] if chart is not None else []
    return told_apart(charts)


def _documents(
    contents: LabContents, formats: Sequence[str], reports: Sequence[str], template: Path | None
) -> tuple[tuple[str, ...], Work]:
    """What the student should know, and what makes each document that is wanted."""
    if not (formats or reports):
        return (), {}
    from labtui.export.documents import pdf
    from labtui.export.pages import hand_in
    from labtui.export.powerpoint import pptx

    document = hand_in(contents)
    known: dict[str, Callable[[], str | bytes]] = {
        "deck.pptx": partial(pptx, document, template),
        "deck.pdf": partial(pdf, document, "slides"),
        "report.pdf": partial(pdf, document, "report"),
        "analysis.ipynb": partial(notebook, document),
    }
    return document.notes, {name: partial(_one, name, known[name]) for name in _names(formats, reports)}


def notebook(document: HandInDocument) -> str:
    """A notebook of four cells that computes the numbers again from results.csv beside it."""
    from importlib.resources import files

    from labtui.results.escape import markdown

    book = json.loads(files("labtui.export").joinpath("notebook.ipynb").read_text(encoding="utf-8"))
    lines = [document.subtitle, *document.lines, f"Export: {document.stamp}"]
    lines += [document.mark] if document.practice else []
    head = f"# {markdown(document.title)}\n\n" + "  \n".join(map(markdown, lines))
    book["cells"][0]["source"] = head.splitlines(keepends=True)
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"
