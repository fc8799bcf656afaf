"""Plots, tables and documents from the same results and charts as the screen.

`export_lab` writes everything a lab hands in, at one call and of one state. Heavy libraries are imported when used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
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
    from labtui.results.scaling_charts import Reading

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
    reported = [_REPORT_NAMES[name] for name in reports]
    contents = read_contents(
        lab, state=state, today=today, made=[*(f"deck.{name}" for name in formats or DECKS), *reported]
    )
    hand_in = contents.edition.hand_in
    if formats is None:
        formats = () if hand_in is not None and hand_in.form == "report" else DECKS
    root = lab.path if out is None else None
    work = _Export(contents, out or lab.path, root, template, progress)
    work.write_all(formats, reports, plots=plots)
    progress("done", 1.0)
    return work.report()


_REPORT_NAMES = {"pdf": "report.pdf", "ipynb": "analysis.ipynb"}


def lab_plots(
    measurements: Measurements, results: Results, *, reading: Reading = "precise"
) -> tuple[ChartSpec, ...]:
    """Every chart of a lab or of some logs, each once: those of the runs, then what the GPUs of each job did."""
    from labtui.results.catalogue import lab_charts, told_apart
    from labtui.results.run_charts import job_gpu_chart

    charts = list(lab_charts(results, reading=reading))
    first = {use.run.source: use.run for use in reversed(measurements.uses)}
    for source, run in first.items():
        name, practice = Path(source).name, run.practice
        chart = job_gpu_chart(measurements.samples[source], run.job_id, log=name, practice=practice)
        charts += [chart] if chart is not None else []
    return told_apart(charts)


class _Export:
    """What was written so far, and what went wrong on the way."""

    def __init__(
        self, contents: LabContents, out: Path, root: Path | None, template: Path | None, progress: Progress
    ) -> None:
        self.contents, self.out, self.root = contents, out, root
        self.template, self.progress = template, progress
        self.files: list[Path] = []
        self.problems: list[ExportError] = []
        self.notes: tuple[str, ...] = ()

    def write_all(self, formats: Sequence[str], reports: Sequence[str], *, plots: bool) -> None:
        from labtui.export.measurements import stamp_of
        from labtui.export.pages import hand_in
        from labtui.export.plots import write_plots
        from labtui.export.tables import FORMS

        results = self.contents.results
        charts = lab_plots(self.contents.measurements, self.contents.named) if plots else ()
        makers: dict[str, Callable[[Progress], bytes]] = {
            "results.json": lambda _: self.contents.measurements.json_text(results).encode()
        }
        for name, make in FORMS.items():
            makers[f"results.{name}"] = lambda _, make=make: make(results).encode()  # type: ignore[misc]
        if formats or reports:
            document = hand_in(self.contents)
            self.notes = document.notes
            makers |= self.documents(document, formats, reports)
        total = len(makers) + 2 * len(charts)
        for name, made in makers.items():
            step = self.part(len(self.files), 1, total)
            step(name, 0.0)
            self.add(lambda name=name, made=made, step=step: self.one(name, made(step)))  # type: ignore[misc]
        stamp, target = stamp_of(results), self.out / "plots"
        for chart in charts:
            step = self.part(len(self.files), 2, total)
            self.add(
                lambda chart=chart, step=step: write_plots(  # type: ignore[misc]
                    [chart], target, formats=("png", "svg"), stamp=stamp, root=self.root, progress=step
                )
            )

    def documents(
        self, document: HandInDocument, formats: Sequence[str], reports: Sequence[str]
    ) -> dict[str, Callable[[Progress], bytes]]:
        from labtui.export.documents import pdf
        from labtui.export.powerpoint import pptx

        known: dict[str, Callable[[Progress], bytes]] = {
            "deck.pptx": lambda step: pptx(document, self.template, step),
            "deck.pdf": lambda step: pdf(document, "slides", step),
            "report.pdf": lambda step: pdf(document, "report", step),
            "analysis.ipynb": lambda _: notebook(document).encode(),
        }
        names = [*(f"deck.{name}" for name in formats), *(_REPORT_NAMES[name] for name in reports)]
        return {name: known[name] for name in names}

    def part(self, done: int, files: int, total: int) -> Progress:
        """A progress that fills its share of the whole and says which file of how many is made."""

        def step(what: str, share: float) -> None:
            number = done + 1 + min(files - 1, round(files * share))
            self.progress(f"file {number} of {total}: {what}", (done + files * share) / total)

        return step

    def add(self, make: Callable[[], Sequence[Path]]) -> None:
        """Make files, or remember why not."""
        try:
            self.files += make()
        except ExportError as error:
            self.problems.append(error)

    def one(self, name: str, data: bytes) -> Sequence[Path]:
        write_whole(self.out / name, data, self.root)
        return (self.out / name,)

    def report(self) -> ExportReport:
        """The end: the first problem is raised after all else was written."""
        if self.problems:
            first, others = self.problems[0], len(self.problems) - 1
            more = f" Nor could {others} other file{'s' * (others > 1)}." if others else ""
            written = f" {len(self.files)} were written." if self.files else ""
            raise ExportError(first.sentence + more + written, first.hint)
        notes = self.notes
        if not self.contents.results.measured and not self.contents.results.programs:
            notes = ("There is no steady epoch time yet, so tables and charts have nothing to show.", *notes)
        return ExportReport(tuple(self.files), tuple(dict.fromkeys(notes)))


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
