"""Slides and report as PDF: Typst typesets them, inside this process, from a JSON file and a template.

The room on a slide is measured here for PowerPoint, too: in Carlito, which has the widths of Calibri.
"""

import io
import json
import math
import tempfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from PIL import Image

from labtui.domain.errors import ExportError, failure
from labtui.export import drawing, markdown, plots
from labtui.export.hand_in import Answer, Block, Document, Listing, Page, Picture, Run, plain
from labtui.results import charts, numbers

NOTE_SIZE = 14
"""The size in points of notes and questions on a slide."""
LEFT, TOP, BOTTOM, GUTTER = 0.6, 1.65, 6.7, 0.4
"""Inches: the area of a slide between title and foot, and the space between columns of answers."""

REPORT_HEIGHT = 3.7
"""The height in inches of a report's charts on a slide at most: half as high on A4, few pages are half empty."""
MAX_PICTURE = 3.8
"""The height in inches of a student's picture at most: below it a slide has room for a question and two lines."""
_ENDINGS = {b"\x89P": ".png", b"\xff\xd8": ".jpg"}


def pdf(document: Document, form: str, told: Callable[[str], None] = lambda said: None) -> bytes:
    """The document as ``slides`` or as a ``report``; `told` is called with a line about each answer that it lacks.

    Raises:
        ExportError: when Typst cannot typeset it, or the temporary folder cannot be written.
    """
    try:
        return _typeset(document, form)
    except ExportError:
        pages = tuple(_without_faults(document, page, form, told) for page in document.pages)
        return _typeset(msgspec.structs.replace(document, pages=pages), form)


def _without_faults(document: Document, page: Page, form: str, told: Callable[[str], None]) -> Page:
    """The page with a line in place of each answer that Typst cannot typeset, such as one with a damaged picture."""
    task = page.kicker.partition(" ")[0]

    def checked(answer: Answer) -> Answer:
        try:
            _typeset(msgspec.structs.replace(document, pages=(Page(title="", answers=(answer,)),)), form)
        except ExportError as error:
            cause = str(error.__cause__).partition("\n")[0]
            said = f"Answer {answer.number} of {task} is not in the PDF: {cause}. It is in answers/{task}.md."
            told(said)
            return msgspec.structs.replace(answer, blocks=(plain(said, "note"),))
        return answer

    return msgspec.structs.replace(page, answers=tuple(map(checked, page.answers)))


def _typeset(document: Document, form: str) -> bytes:
    import typst

    with tempfile.TemporaryDirectory(prefix="labtui-export-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            source = folder / "document.typ"
            source.write_bytes(files("labtui.export").joinpath("document.typ").read_bytes())
            pages = [_page(page, folder, slides=form == "slides") for page in document.pages]
            data = {**_json_value(document, folder), "form": form, "footer": document.footer, "pages": pages}
            (folder / "document.json").write_text(json.dumps(data), encoding="utf-8")
            made = typst.compile(source, root=folder, font_paths=[drawing.FONTS], format="pdf")
            for _ in range(11):  # Typst remembers what it computed for so many documents: 30 MB
                typst.compile(b"", ignore_system_fonts=True)
        except OSError as error:
            raise failure("no-room-to-typeset", form=form, text=error.strerror) from error
        except Exception as error:
            raise failure("not-typeset", form=form, text=str(error).partition("\n")[0]) from error
    return made if isinstance(made, bytes) else made[0]


def _page(page: Page, folder: Path, *, slides: bool) -> dict[str, Any]:
    """The JSON of a page; its charts are one picture in its final size, so that 15 pt stay 15 pt."""
    found: dict[str, Any] = _json_value(page, folder)
    found["answers"] = [_json_value(a, folder) for a in (answers_of(page) if slides else page.answered)]
    found |= {"columns": answer_columns(page), "chart": None}
    if page.charts:
        most = math.inf if slides else max(REPORT_HEIGHT, *map(_least_height, page.charts))
        height = min(chart_height(page), most)
        drawn = _json_value(plots.chart_picture(page.charts, drawing.WIDTH, height), folder)
        found["chart"] = {"file": drawn, "alt": " ".join(map(drawing.chart_text, page.charts))}
    return found


def _json_value(value: Any, folder: Path) -> Any:
    """A value as JSON: records become objects with their `kind`, bytes become files; `_page` adds charts."""
    if isinstance(value, bytes):
        path = folder / f"{len(list(folder.iterdir()))}{_ENDINGS.get(value[:2], '.svg')}"
        path.write_bytes(value)
        return path.name
    if isinstance(value, msgspec.Struct):
        names = [name for name in value.__struct_fields__ if name not in ("charts", "pages")]
        found = {name: _json_value(getattr(value, name), folder) for name in names}
        if isinstance(value, Run) and value.tex:
            found["formula"] = _json_value(markdown.formula_picture(value.text), folder)
        if isinstance(value, Picture):
            found["width"], found["height"] = picture_size(value.data)
        return found | {"kind": type(value).__name__.lower()}
    return [_json_value(each, folder) for each in value] if isinstance(value, tuple) else value


# --------------------------------------------------------------------------- how much room words and charts take


def line_count(text: str, width: float, size: float) -> int:
    """About how many lines a text takes; 0.2 inches of each are left for words that do not fit."""
    return sum(max(1, math.ceil(drawing.inches(line, size) / (width - 0.2))) for line in text.split("\n"))


def block_height(block: Block, width: float = drawing.WIDTH, size: float = 18) -> float:
    """About how many inches a block takes; `size` is that of paragraphs in points."""
    if isinstance(block, numbers.Table):
        rows = len(block.rows) + 1 + bool(block.groups)
        return rows * (0.39 if rows <= 10 else 0.31) + (0.55 if block.note else 0.25)
    if isinstance(block, Picture):
        return picture_size(block.data)[1] + 0.15
    if isinstance(block, Listing):
        return min(3.75, 0.4 + 0.24 * len(block.lines))
    size = NOTE_SIZE if block.style == "note" else size
    # no letter of code is wider than a G; before a long word it begins a line
    text = "".join("G" * len(run.text) if run.mono else markdown.run_text(run) for run in block.runs)
    lines = line_count(text, width - 0.3 * block.level, size)
    lines += lines > 1 and any(run.mono for run in block.runs[:1])
    return (lines * 1.23 + 0.28 * (size > 12)) * size / 72


def picture_size(data: bytes, dpi: float = 150) -> tuple[float, float]:
    """Width and height in inches: the picture's own, less where it leaves no room for the words beside it."""
    with Image.open(io.BytesIO(data)) as picture:
        scale = min(1 / dpi, MAX_PICTURE / picture.height, drawing.WIDTH / picture.width)
        return picture.width * scale, picture.height * scale


def answer_columns(page: Page) -> int:
    """How many answers stand side by side; 0: long ones flow through two columns."""
    letters = [each.letters for each in page.answered]
    if max(letters, default=0) > 700:
        return 0
    return min(len(letters), 3 if max(letters, default=0) <= 200 else 2)


def _words_height(page: Page, *, short: bool = True) -> float:
    """The height of the answers and warnings of a page; with `short` questions at least."""
    columns = answer_columns(page) or 2
    width = column_width(columns) - 0.3
    answers = [[plain(a.short if short else a.question, "note"), *a.blocks] for a in page.answered]
    heights = [sum(block_height(each, width) for each in blocks) for blocks in answers]
    rows = (max(heights[at : at + columns]) + 0.1 for at in range(0, len(heights), columns))
    # the least as in `document.typ`
    return (max(sum(rows), 0.7) + 0.15 if heights else 0.0) + 0.4 * len(page.warnings)


def column_width(columns: int) -> float:
    """The width in inches of each of some columns of answers."""
    return (drawing.WIDTH - GUTTER * (columns - 1)) / columns


def _least_height(spec: charts.ChartSpec) -> float:
    if spec.x_axis == "names":
        return max(1.5, 0.8 + (0.29 if spec.kind == "bars" else 0.53) * len(spec.x_ticks))
    parts = drawing.split_lines(spec)  # else the names of many lines stand above each other
    if len(parts) > 1:
        return 2.0 * drawing.rows_of(parts)
    return max(3.4 if spec.over_time else 2.6, 0.8 + 0.3 * len(spec.measured))


def answers_of(page: Page) -> list[Answer]:
    """The answers of a slide; their questions are short where only such fit below its charts."""
    above = _note_height(page) + sum(map(block_height, page.blocks)) + TOP
    room = BOTTOM + 0.01 - above - chart_height(page) if page.charts else 0.0
    short = _words_height(page) <= room < _words_height(page, short=False)
    return [msgspec.structs.replace(a, question=a.short if short else a.question) for a in page.answered]


def _note_height(page: Page) -> float:
    return 0.2 + 0.24 * line_count(page.note, drawing.WIDTH, NOTE_SIZE) if page.note else 0.2


def chart_height(page: Page) -> float:
    """The height in inches of a slide's charts: what the words below leave; the whole slide where that is too little.

    Few rows of bars need less. Charts are lower than usual rather than cut questions or leave the answers alone on the
    next page.
    """
    least, words = max(map(_least_height, page.charts)), _words_height(page)
    rows = [len(spec.x_ticks) if spec.x_axis == "names" else 9 for spec in page.charts]
    room, blocks = BOTTOM - TOP - _note_height(page), sum(map(block_height, page.blocks))
    whole = _words_height(page, short=False)
    left = ((room - blocks - whole, least), (room - blocks - words, 0.9 * least), (room - blocks, least))
    return min(1.3 + 0.9 * max(rows), next((each for each, enough in left if each >= enough), room))
