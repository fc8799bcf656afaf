"""Slides and report as PDF: Typst typesets them, inside this process, from a JSON file and a template."""

import json
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from labtui.domain.errors import ExportError
from labtui.export import drawing
from labtui.export.drawing import panels, rows_of
from labtui.export.hand_in import Document, Page, Run, chart_text
from labtui.export.markdown import formula_picture
from labtui.export.plots import chart_picture

WIDE, WITH_FACTS = 873.0, 640.0
"""Width of a slide's charts in points: between the margins, and beside facts."""
_ENDINGS = {b"\x89P": ".png", b"\xff\xd8": ".jpg"}
MAX_NOTE = 230
"""The most characters of a note under the charts of a slide; the report has the rest."""


def pdf(document: Document, form: str) -> bytes:
    """The document as ``slides`` or as a ``report``.

    Raises:
        ExportError: when Typst cannot typeset it, or the temporary folder cannot be written.
    """
    import typst

    with tempfile.TemporaryDirectory(prefix="labtui-export-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            template = files("labtui.export").joinpath("document.typ").read_bytes()
            (folder / "document.typ").write_bytes(template)
            pages = [_page(page, folder, slides=form == "slides") for page in document.pages]
            data = {**_json_value(document, folder), "form": form, "footer": document.footer, "pages": pages}
            (folder / "document.json").write_text(json.dumps(data), encoding="utf-8")
            made = typst.compile(
                folder / "document.typ", root=folder, font_paths=[drawing.font_folder()], format="pdf"
            )
        except OSError as error:
            raise ExportError(
                f"The {form} cannot be typeset: {error.strerror}.", "Free space in the temporary folder."
            ) from error
        except Exception as error:
            lines = str(error).splitlines() or [""]
            raise ExportError(f"The {form} cannot be typeset: {lines[0]}.", "Please report this.") from error
    return made if isinstance(made, bytes) else made[0]


def _page(page: Page, folder: Path, *, slides: bool) -> dict[str, Any]:
    """The JSON of a page; its charts are one picture in its final size, so that 15 pt stay 15 pt."""
    found: dict[str, Any] = _json_value(page, folder)
    found["note"] = shortened(page.note) if slides else page.note
    found["answers"] = [
        {**_json_value(each, folder), "letters": each.letters} for each in page.answers if each.blocks
    ]
    if page.charts:
        width = WITH_FACTS if page.facts else WIDE
        height = 72 * chart_height(page) if slides else 370.0
        if not slides:
            height += 130 * (rows_of(panels(page.charts[0])) > 1)
            height *= 1.6 if sum(len(panels(spec)) > 1 for spec in page.charts) > 1 else 1.0
        drawn = chart_picture(page.charts, width / 72, height / 72)
        alt = " ".join(map(chart_text, page.charts))
        found["chart"] = {"file": _json_value(drawn, folder), "width": width, "alt": alt}
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
            found["formula"] = _json_value(formula_picture(value.text), folder)
        return found | {"kind": type(value).__name__.lower()}
    return [_json_value(each, folder) for each in value] if isinstance(value, tuple) else value


def shortened(note: str) -> str:
    """As many whole sentences of a note as fit on a slide."""
    kept = ""
    for sentence in note.removesuffix(".").split(". "):
        if sentence and len(kept) + len(sentence) <= MAX_NOTE:
            kept += f"{sentence}. "
    return kept.rstrip()


_ROOM = {1: 460, 2: 220, 3: 130}
"""The most characters of an answer that fit below the charts of a slide, by the number of answers side by side."""


def chart_height(page: Page) -> float:
    """The height in inches of a slide's charts: the whole slide or what the answers leave; rows of bars need less."""
    alone = page.blocks or sum(len(panels(spec)) > 1 for spec in page.charts) > 1
    letters = [answer.letters for answer in page.answers if answer.blocks]
    below = page.warnings or (letters and max(letters) <= _ROOM.get(len(letters), 0))
    rows = [len(spec.x_ticks) if spec.x_axis == "names" else 9 for spec in page.charts]
    return min(4.4 if alone or not below else 3.1, 0.9 + 0.6 * max(rows, default=9))
