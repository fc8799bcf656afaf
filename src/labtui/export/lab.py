"""Everything a lab hands in, at one call: tables, results.json, plots and the deck, in two formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from pathlib import Path

from labtui.core.state import LabState
from labtui.errors import ExportError, UsageError
from labtui.export.charts import Progress, all_charts, quiet, write_charts
from labtui.export.contents import LabContents, read_contents
from labtui.export.files import write_whole
from labtui.export.layout import lay_out

DECKS = ("pptx", "pdf")
PLOT_FORMATS = ("png", "svg")
TABLES = ("results.json", "results.csv", "results.md", "results.tex")


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written, in order, and sentences about what the student should know."""

    files: tuple[Path, ...]
    notes: tuple[str, ...] = field(default=())


def export_lab(
    folder: Path,
    *,
    formats: Sequence[str] = DECKS,
    out: Path | None = None,
    template: Path | None = None,
    plots: bool = True,
    state: LabState | None = None,
    today: date | None = None,
    progress: Progress = quiet,
) -> ExportReport:
    """Write results.csv, .md, .tex, .json, plots/ and deck.pptx, deck.pdf; callable from any thread.

    `formats` of the deck; `out` instead of the lab folder; `template` a teacher's .pptx; `state` when the caller
    has the lab open, else the stored one is read. Each file is whole or not there; what can be written is written
    even when another file cannot.

    Raises:
        ExportError: says which file could not be made or written, and why.
        LabError: when the lab folder cannot be read.
    """
    from labtui.engine.folder import LabFolder

    if unknown := [name for name in formats if name not in DECKS]:
        raise UsageError(f"There is no deck format {unknown[0]!r}.", f"Choose from {', '.join(DECKS)}.")
    lab = LabFolder.open(folder)
    work = _Export(out or lab.path, progress)
    progress("reading the lab folder", 0.0)
    made = [f"deck.{name}" for name in formats]
    contents = read_contents(lab, state=state, today=today, made=made)
    charts = all_charts(contents.measurements, contents.results) if plots else ()
    work.total = len(TABLES) + len(charts) * len(PLOT_FORMATS) + len(formats)
    _tables(contents, work)
    if plots:
        step = work.part(0.05, 0.55, files=len(charts) * len(PLOT_FORMATS))
        work.add(lambda: write_charts(charts, work.out / "plots", formats=PLOT_FORMATS, progress=step))
        contents = read_contents(lab, state=state, today=today, made=made)  # the plots are evidence now
    if formats:
        _decks(contents, formats, template, work)
    progress("done", 1.0)
    return work.report(contents)


class _Export:
    """What was written so far, and what went wrong on the way."""

    def __init__(self, out: Path, progress: Progress) -> None:
        self.out, self.progress = out, progress
        self.files: list[Path] = []
        self.notes: list[str] = []
        self.problems: list[ExportError] = []
        self.total = 0

    def part(self, start: float, end: float, *, files: int = 1) -> Progress:
        """A progress that fills its share of the whole and says which file of how many is made, of `files` here."""
        first = len(self.files) + 1

        def step(what: str, share: float) -> None:
            number = first + min(files - 1, round(share * files))
            self.progress(f"file {number} of {self.total}: {what}", start + (end - start) * share)

        return step

    def write(self, name: str, data: bytes) -> None:
        """Write one file, or remember why not."""
        path = self.out / name
        self.add(lambda: (write_whole(path, data), (path,))[1])

    def add(self, make: Callable[[], Sequence[Path]]) -> None:
        """Make files, or remember why not."""
        try:
            self.files += make()
        except ExportError as error:
            self.problems.append(error)

    def report(self, contents: LabContents) -> ExportReport:
        """The end: the first problem is raised after all else was written."""
        if self.problems:
            first = self.problems[0]
            others = [problem.sentence for problem in self.problems[1:]]
            written = f" {len(self.files)} other files were written." if self.files else ""
            raise ExportError(" ".join([first.sentence, *dict.fromkeys(others)][:3]) + written, first.hint)
        if not contents.results.measured:
            self.notes.insert(
                0, "No steady epoch time is there yet, so tables and charts have nothing to show."
            )
        return ExportReport(tuple(self.files), tuple(dict.fromkeys(self.notes)))


def _tables(contents: LabContents, work: _Export) -> None:
    """The numbers as CSV, Markdown, LaTeX and JSON."""
    from labtui.export import tables

    results = contents.results
    work.part(0.02, 0.05)("tables", 0.0)
    texts = (
        contents.measurements.json_text(results),
        tables.csv_text(results),
        tables.markdown_text(results),
        tables.latex_text(results),
    )
    for name, text in zip(TABLES, texts, strict=True):
        work.write(name, text.encode())


def _decks(contents: LabContents, formats: Sequence[str], template: Path | None, work: _Export) -> None:
    """The deck in the formats wanted, from one model."""
    from labtui.export.deck_build import build_deck
    from labtui.export.glyphs import glyph_note

    deck = build_deck(contents)
    if "pdf" in formats and (note := glyph_note(deck)):
        work.notes.append(note)
    if "pptx" in formats:
        from labtui.export.pptx_deck import pptx_bytes
        from labtui.export.pptx_theme import own_look, template_look

        def make_pptx() -> tuple[Path, ...]:
            look = template_look(template) if template is not None else own_look()
            moment = datetime.combine(contents.today, time())
            laid = lay_out(deck, look.geometry)
            write_whole(
                work.out / "deck.pptx", pptx_bytes(laid, look, today=moment, progress=work.part(0.55, 0.7))
            )
            return (work.out / "deck.pptx",)

        work.add(make_pptx)
    if "pdf" in formats:
        from labtui.export.pdf import pdf_bytes

        def make_pdf() -> tuple[Path, ...]:
            write_whole(work.out / "deck.pdf", pdf_bytes(lay_out(deck), progress=work.part(0.7, 0.99)))
            return (work.out / "deck.pdf",)

        work.add(make_pdf)
