"""Slides and report as PDF, typeset by Typst inside this process from one JSON and one template."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from labtui.domain.errors import ExportError
from labtui.export import style
from labtui.export.formulas import formula_picture
from labtui.export.hand_in import (
    Answer,
    Block,
    Formula,
    HandInDocument,
    Listing,
    Page,
    Paragraph,
    Picture,
    Run,
    Table,
    chart_text,
)
from labtui.export.plots import panels, slide_picture

WIDE = 873.0
"""Points between the margins of a slide."""
WITH_FACTS = 640.0
MAX_NOTE = 230
"""Letters of a note under the charts of a slide; the rest stands in the report."""


def pdf(document: HandInDocument, form: str, progress: style.Progress = style.quiet) -> bytes:
    """The document as ``slides`` or as a ``report``.

    Raises:
        ExportError: when Typst cannot set it, or its folder cannot be written.
    """
    import typst

    with tempfile.TemporaryDirectory(prefix="labtui-export-", ignore_cleanup_errors=True) as name:
        folder = _Folder(Path(name), slides=form == "slides")
        try:
            template = files("labtui.export").joinpath("document.typ").read_text(encoding="utf-8")
            (folder.path / "document.typ").write_text(template, encoding="utf-8")
            data = folder.document(document, progress)
            (folder.path / "document.json").write_text(json.dumps(data), encoding="utf-8")
            made = typst.compile(
                folder.path / "document.typ", root=folder.path, font_paths=[style.font_folder()], format="pdf"
            )
        except OSError as error:
            raise ExportError(
                f"The {form} cannot be typeset: {error.strerror}.", "Free space in the temporary folder."
            ) from error
        except Exception as error:
            lines = str(error).splitlines() or [""]
            raise ExportError(f"The {form} cannot be typeset: {lines[0]}.", "Please report this.") from error
    return made if isinstance(made, bytes) else made[0]


class _Folder:
    """What the template reads: pictures of charts and formulas beside the JSON, each once."""

    def __init__(self, path: Path, *, slides: bool) -> None:
        self.path, self.slides = path, slides
        self.count = 0

    def file(self, data: bytes, end: str) -> str:
        self.count += 1
        name = f"{self.count}.{end}"
        (self.path / name).write_bytes(data)
        return name

    def document(self, document: HandInDocument, progress: style.Progress) -> dict[str, Any]:
        pages = []
        for at, page in enumerate(document.pages):
            progress(f"page {page.title}", at / max(1, len(document.pages)))
            pages.append(self.page(page))
        return {
            "form": "slides" if self.slides else "report",
            "title": document.title, "subtitle": document.subtitle, "author": document.author,
            "lines": document.lines, "stamp": document.stamp, "footer": document.footer, "facts": document.facts,
            "practice": document.practice, "practice-mark": document.mark, "language": document.language,
            "pages": pages,
        }  # fmt: skip

    def page(self, page: Page) -> dict[str, Any]:
        note = shortened(page.note) if self.slides else page.note
        return {
            "title": page.title, "kicker": page.kicker, "practice": page.practice, "note": note,
            "facts": page.facts, "warnings": page.warnings, "chart": self.chart(page),
            "blocks": [self.block(block) for block in page.blocks],
            "answers": [self.answer(each) for each in page.answers if each.blocks],
        }  # fmt: skip

    def chart(self, page: Page) -> dict[str, Any] | None:
        if not page.charts:
            return None
        width = WITH_FACTS if page.facts else WIDE
        height = chart_height(page) if self.slides else 245.0 + 90 * (len(panels(page.charts[0])) > 5)
        stacked = [spec for spec in page.charts if len(panels(spec)) > 1]
        if not self.slides and len(stacked) > 1:
            height *= 1.6
        drawn = slide_picture(page.charts, width, height if self.slides else height * 1.5)
        alt = " ".join(map(chart_text, page.charts))
        return {"file": self.file(drawn, "svg"), "width": width, "alt": alt}

    def answer(self, answer: Answer) -> dict[str, Any]:
        return {
            "number": answer.number, "question": answer.question,
            "blocks": [self.block(block) for block in answer.blocks],
        }  # fmt: skip

    def block(self, block: Block) -> dict[str, Any]:
        if isinstance(block, Paragraph):
            return {**asdict(block), "kind": "paragraph", "runs": [self.run(run) for run in block.runs]}
        if isinstance(block, Listing):
            lines = [{**asdict(line), "runs": [self.run(run) for run in line.runs]} for line in block.lines]
            return {"kind": "listing", "caption": block.caption, "lines": lines}
        if isinstance(block, Formula):
            return {"kind": "formula", **self.formula(block.tex)}
        if isinstance(block, Picture):
            end = "png" if block.data.startswith(b"\x89PNG") else "jpg"
            return {"kind": "picture", "file": self.file(block.data, end), "alt": block.alt or block.name}
        return {"kind": "table", **asdict(block)}

    def run(self, run: Run) -> dict[str, Any]:
        return {**asdict(run), "formula": self.formula(run.text) if run.tex else None}

    def formula(self, tex: str) -> dict[str, Any]:
        drawn = formula_picture(tex)
        if drawn is None:
            return {"text": f"${tex}$"}
        return {
            "text": tex,
            "file": self.file(drawn.data, "svg"),
            "height": drawn.height,
            "depth": drawn.depth,
        }


def shortened(note: str) -> str:
    """As many whole sentences of a note as a slide has room for."""
    kept: list[str] = []
    for sentence in note.removesuffix(".").split(". "):
        if sentence and sum(map(len, kept)) + len(sentence) <= MAX_NOTE:
            kept.append(f"{sentence}.")
    return " ".join(kept)


def chart_height(page: Page) -> float:
    """Points for the charts of a slide: what the note, the answers and the warnings below leave of its body."""
    if sum(len(panels(spec)) > 1 for spec in page.charts) > 1:
        return 330.0  # two rows of panels need the slide; the answers go on under the same title
    lines = -(-sum(_lines(answer.blocks) for answer in page.answers) // 2)
    below = 40.0 if page.note else 8.0
    below += 26.0 * len(page.warnings)
    if any(answer.blocks for answer in page.answers):
        below += 14 + 24.0 * max(3, min(5, lines + 1))
    for block in page.blocks:
        below += min(150.0, 48 + 24.0 * len(block.rows)) if isinstance(block, Table) else 120.0
    return max(195.0, 370.0 - below)


def _lines(blocks: Iterable[Block]) -> int:
    """About how many lines words take in a column of a slide."""
    return sum(1 + len(block.text) // 52 for block in blocks if isinstance(block, Paragraph))
