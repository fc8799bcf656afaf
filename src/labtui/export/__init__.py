"""Plots, tables and documents from the same results and charts as the screens.

`export_lab` writes everything a lab hands in from one state. Heavy libraries are imported when used.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from functools import cache, partial
from importlib.resources import files
from pathlib import Path

import msgspec

from labtui.cluster.local_files import read_inside, write_export
from labtui.domain import decode, errors
from labtui.domain.run import listed
from labtui.domain.state import LabState
from labtui.export import documents, hand_in, pages, tables
from labtui.export.contents import LabContents, Measurements, read_contents, stamp_of
from labtui.export.plots import Format, pictures
from labtui.lab.edition import DECKS
from labtui.results import catalogue, grouping, measured
from labtui.results.charts import ChartSpec
from labtui.results.numbers import percent_text
from labtui.results.rows import Results
from labtui.session import labs
from labtui.session.folder import LabFolder

Work = dict[str, Callable[[], "str | bytes | Mapping[str, bytes]"]]
"""Functions that make a file, by its name, or several files, by what they show."""
REPORTS = {"pdf": "report.pdf", "ipynb": "analysis.ipynb"}
"""The file of each format of a report."""
EDITABLE = ("deck.pptx", "analysis.ipynb")
"""Files that a student may change; such a one is kept when it is written again."""
_KEPT = ".yours"


class ExportReport(msgspec.Struct, frozen=True):
    """The files written, in order, and sentences that the student should know."""

    files: tuple[Path, ...]
    notes: tuple[str, ...] = msgspec.field(default=())


def export_lab(
    folder: Path,
    *,
    formats: Collection[str] | None = None,
    reports: Collection[str] = tuple(REPORTS),
    out: Path | None = None,
    plots: bool = True,
    state: LabState | None = None,
    today: date | None = None,
    told: Callable[[str], None] = lambda said: None,
) -> ExportReport:
    """Write the slides, reports, tables and plots of a lab; callable from any thread.

    `formats` are those of the slides (None: as the edition hands in), `reports` those of the report; files go into
    `out`, else into the lab folder; without a `state` the stored one is read; `told` is called with a line about each
    file before it is made. The lab folder is read once. No file is written in part, and a file that cannot be written
    does not stop the others.

    Raises:
        ExportError: which files could not be made or written, and why.
        LabError: when the lab folder cannot be read.
    """
    lab = LabFolder.open(folder)
    contents = read_contents(lab, state=state, today=today, made=_document_names(formats or DECKS, reports))
    if formats is None:
        formats = () if contents.edition.hand_in.form == "report" else DECKS
    charts, stamp = _plots(contents) if plots else (), stamp_of(contents.results)
    shown = f"{stamp}{labs.COUNTED.decode()}{' '.join(['runs', *contents.results.counted.values()])};"
    draw = {f"plots/{it.key}.png": cache(lambda it=it: pictures(it, stamp=shown)["png"]) for it in charts}
    noted, work = _documents(msgspec.structs.replace(contents, plots=draw), formats, reports)
    work = drawings(charts, stamp=shown, into="plots/") | work
    # pandas last: it reuses memory that typesetting has freed, so the peak is 15 MB lower
    work["results.json"] = lambda: f"{decode.json_text(contents.measurements.json_of(contents.results))}\n"
    work["results.csv"] = partial(tables.csv_text, contents.results)
    work["results.md"] = partial(tables.markdown_text, contents.named, stamp)
    target = out or lab.path
    written = write_files(work, target, lab.path if out is None else None, told)
    kept = (f"{path.name} is the one that you had changed." for path in written if _KEPT in path.stem)
    others = {*DECKS.values(), *REPORTS.values()} - work.keys()
    old = (f"{name} is of an earlier export." for name in sorted(others) if (target / name).exists())
    notes = (*kept, *old, *noted)
    known = {use.run.job_id for use in contents.measurements.uses if use.steady is not None}
    if plots and (jobs := {use.run.job_id for use in contents.measurements.uses} - known):
        which = listed("job", sorted(jobs, key=grouping.natural_key))
        notes = (*notes, f"Too few samples for a chart of the GPU use: {which}.")
    if not contents.results.measured and not contents.results.programs:
        notes = ("There is no steady epoch time yet, so tables and charts have nothing to show.", *notes)
    return ExportReport(written, tuple(dict.fromkeys(notes)))


def write_files(
    work: Work, target: Path, root: Path | None, told: Callable[[str], None] = lambda said: None
) -> tuple[Path, ...]:
    """Make each file, calling `told` before, then write all; a failure does not stop the rest.

    So no chart counts as exported while others are still drawn; each has the time at which this began, since a run
    that ends meanwhile is in none. `root`: follow no links in it.

    Raises:
        ExportError: which files could not be made or written, and why.
    """
    found: dict[str, bytes] = {}
    began = time.time()
    written: list[Path] = []
    problems: list[errors.ExportError] = []
    for at, (name, make) in enumerate(work.items(), 1):
        told(f"{at} of {len(work)}: {name}")
        try:
            made = make()
            texts = made if isinstance(made, Mapping) else {name: made}
            found |= {path: text.encode() if isinstance(text, str) else text for path, text in texts.items()}
        except errors.ExportError as error:
            problems.append(error)
    for path, data in found.items():
        try:
            written += _write(target / path, data, root)
            os.utime(target / path, (began, began))
        except errors.ExportError as error:
            problems.append(error)
    if problems:
        raise errors.ExportError(" ".join(each.sentence for each in problems), problems[0].hint)
    return tuple(written)


def _write(path: Path, data: bytes, root: Path | None) -> Iterable[Path]:
    """Write a file; an editable one that is not as labtui wrote it is copied to a free name before."""
    note, editable = path.with_name(f".labtui-{path.name}.sha256"), path.name in EDITABLE
    with contextlib.suppress(OSError):  # there is none
        found = path.read_bytes() if root is None else read_inside(root, path)
        same = hashlib.sha256(found).hexdigest().encode()
        if editable and not (note.is_file() and note.read_bytes() == same):
            names = (path.with_stem(f"{path.stem}{_KEPT}{number}") for number in ("", *range(2, 1000)))
            kept = next(name for name in names if not name.exists())
            write_export(kept, found, root)
            yield kept
    write_export(path, data, root)
    yield path
    if editable:
        write_export(note, hashlib.sha256(data).hexdigest().encode(), root)


def _document_names(formats: Iterable[str], reports: Iterable[str]) -> list[str]:
    return [*(DECKS[name] for name in formats), *(REPORTS[name] for name in reports)]


def drawings(
    charts: Sequence[ChartSpec],
    formats: Sequence[Format] = ("png", "svg"),
    *,
    stamp: str = "",
    into: str = "",
) -> Work:
    """Functions that draw each chart once and save it in these formats; files are named after the chart's key."""

    def drawn(chart: ChartSpec) -> dict[str, bytes]:
        made = pictures(chart, formats, stamp=stamp)
        return {f"{into}{chart.key}.{form}": data for form, data in made.items()}

    return {f"chart {each.key}": partial(drawn, each) for each in charts}


def lab_plots(measurements: Measurements, results: Results) -> tuple[ChartSpec, ...]:
    """Every chart of a lab or of some logs once: those of the runs, then of each job whose GPU utilisation is known."""
    charts = list(catalogue.lab_charts(results))
    for source, uses in measured.grouped(measurements.uses, lambda use: use.run.source).items():
        if all(use.steady is None or use.run.mark == "small" for use in uses):
            continue
        run, name = uses[0].run, Path(source).name
        rows = [(r.name, r.devices) for r in results.rows if any(use.run in r.members for use in uses)]
        told = [", ".join(dict.fromkeys(texts)) for texts in zip(*rows, strict=True)]
        job = f"job {run.job_id}" if run.job_id else name
        chart = catalogue.job_gpu_chart(measurements.samples[source], f"{job}, {' on '.join(told)}")
        busy = ", ".join(percent_text(use.steady) for use in uses if use.steady is not None)
        said = f"{' keeps '.join(told)} {busy} busy ({job})" if told else ""
        notes = ("The share in the title is the mean after the first epoch.",)
        charts.append(msgspec.structs.replace(chart, mark=run.mark, message=said, notes=notes))
    return catalogue.with_unique_keys(charts)


def _plots(contents: LabContents) -> tuple[ChartSpec, ...]:
    """Every chart of a lab, and those of tuned runs, which are others in each task."""
    charts = lab_plots(contents.measurements, contents.named)
    there = {chart.series for chart in charts}
    tuned = (chart for chart in pages.tuned_charts(contents) if chart.series not in there)
    return catalogue.with_unique_keys([*charts, *tuned])


def _documents(
    contents: LabContents, formats: Collection[str], reports: Collection[str]
) -> tuple[list[str], Work]:
    """The notes for the student, to which PDFs add, and functions that make each document asked for."""
    if not (formats or reports):
        return [], {}
    from labtui.export.powerpoint import pptx

    document = pages.hand_in(contents)
    notes = [*document.notes]
    known: Work = {
        "deck.pptx": partial(pptx, document),
        "deck.pdf": partial(documents.pdf, document, "slides", told=notes.append),
        "report.pdf": partial(documents.pdf, document, "report", told=notes.append),
        "analysis.ipynb": partial(notebook, document),
    }
    return notes, {name: known[name] for name in _document_names(formats, reports)}


def notebook(document: hand_in.Document) -> str:
    """A notebook of four cells that shows the rows of results.csv beside it and checks their speedups."""
    book = json.loads(files("labtui.export").joinpath("notebook.ipynb").read_text(encoding="utf-8"))
    lines = filter(None, (document.subtitle, *document.lines, f"Export: {document.stamp}", document.mark))
    head = f"# {tables.escape_markdown(document.title)}\n\n" + "  \n".join(map(tables.escape_markdown, lines))
    book["cells"][0]["source"] = head.splitlines(keepends=True)
    return f"{decode.json_text(book)}\n"
