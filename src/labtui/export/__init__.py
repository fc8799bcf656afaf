"""Plots, tables and decks from the same results and charts as the screen.

`export_lab` writes everything a lab hands in, at one call: slides, report, summary, notebook, tables and plots, all of
one state. Heavy libraries are imported when used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from labtui.cluster.local_files import write_whole
from labtui.domain.errors import ExportError, UsageError
from labtui.domain.events import LabState

if TYPE_CHECKING:
    from labtui.export.contents import LabContents
    from labtui.export.figures import NamedChart, Progress
    from labtui.export.hand_in import HandInDocument
    from labtui.export.typst_writer import Typesetter

DECKS = ("pptx", "pdf")
REPORTS = ("pdf", "ipynb")
PLOT_FORMATS = ("png", "svg")
TABLES = ("results.json", "results.csv", "results.md", "results.tex")
_REPORT_NAMES = {"pdf": "report.pdf", "ipynb": "analysis.ipynb"}


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
    progress: Progress | None = None,
) -> ExportReport:
    """Write the hand-in, its reports, tables and plots; callable from any thread.

    `formats` of the slides (None: as the edition hands in); `reports` of the report; `out` instead of the lab
    folder; `template` a teacher's .pptx; `state` when the caller has the lab
    open, else the stored one is read. The lab folder is read once. Each file is whole or not there; what can be
    written is written even when another file cannot.

    Raises:
        ExportError: says which file could not be made or written, and why.
        LabError: when the lab folder cannot be read.
    """
    from labtui.export.contents import read_contents
    from labtui.export.figures import all_charts, quiet
    from labtui.session.folder import LabFolder

    progress = progress or quiet
    for wanted, known, what in ((formats or (), DECKS, "deck"), (reports, REPORTS, "report")):
        if unknown := [name for name in wanted if name not in known]:
            raise UsageError(f"There is no {what} format {unknown[0]!r}.", f"Choose from {', '.join(known)}.")
    lab = LabFolder.open(folder)
    progress("reading the lab folder", 0.0)
    made = [*(f"deck.{name}" for name in formats or DECKS), *(_REPORT_NAMES[name] for name in reports)]
    contents = read_contents(lab, state=state, today=today, made=made)
    hand_in = contents.edition.hand_in
    if formats is None:
        formats = () if hand_in is not None and hand_in.form == "report" else DECKS
    work = _Export(contents, out or lab.path, template, progress, root=lab.path if out is None else None)
    charts = all_charts(contents.measurements, contents.results) if plots else ()
    work.total = len(TABLES) + len(charts) * len(PLOT_FORMATS) + len(formats) + len(reports)
    work.tables()
    work.plots(charts)
    if formats or reports:
        work.write_documents(formats, reports)
    progress("done", 1.0)
    return work.report()


class _Export:
    """What was written so far, and what went wrong on the way."""

    def __init__(
        self,
        contents: LabContents,
        out: Path,
        template: Path | None,
        progress: Progress,
        root: Path | None,
    ) -> None:
        """`root` is the lab folder where the files go there, and no link in it is followed."""
        self.contents, self.out, self.template, self.progress = contents, out, template, progress
        self.root = root
        self.files: list[Path] = []
        self.notes: list[str] = []
        self.problems: list[ExportError] = []
        self.total = 0

    def part(self, start: float, end: float, *, files: int = 1) -> Progress:
        """A progress that fills its share of the whole and says which file of how many is made, of `files` here."""
        first = len(self.files) + 1

        def step(what: str, share: float) -> None:
            number = first + min(files - 1, round(share * files))
            self.progress(
                f"file {min(number, self.total)} of {self.total}: {what}", start + (end - start) * share
            )

        return step

    def write(self, name: str, data: bytes) -> None:
        """Write one file, or remember why not."""
        self.add(lambda: self._one(name, data))

    def add(self, make: Callable[[], Sequence[Path]]) -> None:
        """Make files, or remember why not."""
        try:
            self.files += make()
        except ExportError as error:
            self.problems.append(error)

    def report(self) -> ExportReport:
        """The end: the first problem is raised after all else was written."""
        if self.problems:
            first = self.problems[0]
            others = [problem.sentence for problem in self.problems[1:]]
            written = f" {len(self.files)} other files were written." if self.files else ""
            raise ExportError(" ".join([first.sentence, *dict.fromkeys(others)][:3]) + written, first.hint)
        if not self.contents.results.measured and not self.contents.results.programs:
            self.notes.insert(
                0, "There is no steady epoch time yet, so tables and charts have nothing to show."
            )
        return ExportReport(tuple(self.files), tuple(dict.fromkeys(self.notes)))

    # ----------------------------------------------------------------------- the parts

    def tables(self) -> None:
        """The numbers as CSV, Markdown, LaTeX and JSON."""
        from labtui.export import measurements

        results = self.contents.results
        self.part(0.02, 0.05)("tables", 0.0)
        texts = (
            self.contents.measurements.json_text(results),
            measurements.csv_text(results),
            measurements.markdown_text(results),
            measurements.latex_text(results),
        )
        for name, text in zip(TABLES, texts, strict=True):
            self.write(name, text.encode())

    def plots(self, charts: Sequence[NamedChart]) -> None:
        from labtui.export.figures import write_charts
        from labtui.export.measurements import stamp_of

        if charts:
            step = self.part(0.05, 0.5, files=len(charts) * len(PLOT_FORMATS))
            stamp = stamp_of(self.contents.results)
            target = self.out / "plots"
            self.add(
                lambda: write_charts(
                    charts, target, root=self.root, formats=PLOT_FORMATS, stamp=stamp, progress=step
                )
            )

    def write_documents(self, formats: Sequence[str], reports: Sequence[str]) -> None:
        """Slides and reports, from one hand-in."""
        from labtui.export.pages import hand_in
        from labtui.export.style import glyph_note
        from labtui.export.typst_writer import Typesetter

        deck = hand_in(self.contents)
        self.notes += deck.notes
        try:
            with Typesetter() as typesetter:
                self._slides(deck, formats, typesetter, ("deck", 0.5, 0.7))
                self._reports(deck, reports, typesetter)
                if ({"pdf"} & {*formats, *reports}) and (note := glyph_note(deck)):
                    self.notes.append(note)
        except ExportError as error:  # the typesetter itself cannot be had
            self.problems.append(error)

    def _slides(
        self,
        deck: HandInDocument,
        formats: Sequence[str],
        typesetter: Typesetter,
        place: tuple[str, float, float],
    ) -> None:
        from labtui.export.slide_layout import lay_out

        if not formats:
            return
        name, start, end = place
        laid = lay_out(deck, typesetter.heights)
        self.notes += laid.notes
        half = (start + end) / 2
        if "pptx" in formats:
            from labtui.export.pptx_theme import own_look, template_look
            from labtui.export.pptx_writer import pptx_bytes

            def make_pptx() -> Sequence[Path]:
                look = template_look(self.template) if self.template is not None else own_look()
                return self._one(f"{name}.pptx", pptx_bytes(deck, laid, look, self.part(start, half)))

            self.add(make_pptx)
        if "pdf" in formats:
            step = self.part(half, end)
            self.add(lambda: self._one(f"{name}.pdf", typesetter.slides(deck, laid.slides, step)))

    def _reports(self, deck: HandInDocument, reports: Sequence[str], typesetter: Typesetter) -> None:
        from labtui.export.report_formats import notebook

        makers: dict[str, Callable[[Progress], bytes]] = {
            "pdf": lambda step: typesetter.report(deck, progress=step),
            "ipynb": lambda step: notebook(deck).encode(),
        }
        for at, name in enumerate(reports):
            step = self.part(0.7 + 0.03 * at, 0.73 + 0.03 * at)
            step(_REPORT_NAMES[name], 0.0)
            self.add(lambda name=name, step=step: self._one(_REPORT_NAMES[name], makers[name](step)))  # type: ignore[misc]

    def _one(self, name: str, data: bytes) -> Sequence[Path]:
        write_whole(self.out / name, data, self.root)
        return (self.out / name,)
