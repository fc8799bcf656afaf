"""Slides and reports as PDF, typeset by Typst inside this process: no office suite, no network, no packages."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labtui.domain.errors import ExportError
from labtui.export import maths, style
from labtui.export.figures import Progress, forget_pages, quiet
from labtui.export.hand_in import (
    Block,
    Chart,
    Formula,
    HandInDocument,
    KeyNumbers,
    Listing,
    Paragraph,
    Picture,
    Run,
    Table,
    chart_text,
)

if TYPE_CHECKING:
    from labtui.export.slide_layout import Slide
    from labtui.results.charts import ChartSpec

SLIDE_SIZES = {"key": 36.0, "title": 23.0, "body": 18.0, "small": 14.0, "table": 14.0, "code": 14.0}
"""The four sizes of a slide's text, in points."""
_REPORT_WIDTH = 470.0
_REPORT_TEXT = 9.0
_REPORT_CHART = (228.0, 185.0)
_FONTS = [style.FONT.lower()]


class Typesetter:
    """A folder with the templates, the typeface and what was drawn for them; close it, or use it in a `with`.

    Raises:
        ExportError: when Typst or the typeface is not there, or what is to be set is not understood.
    """

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="labtui-export-", ignore_cleanup_errors=True)
        self.folder = Path(self._temporary.name)
        self._drawn: dict[tuple[Any, ...], str] = {}
        try:
            for name in ("blocks.typ", "measure.typ", "slides.typ", "report.typ"):
                text = files("labtui.export").joinpath(name).read_text(encoding="utf-8")
                (self.folder / name).write_text(text, encoding="utf-8")
            (self.folder / "fonts").mkdir()
            style.text_width("x", 10)  # says in words when the typeface is not there
            for path in sorted(style.font_folder().glob("DejaVuSans*.ttf")):
                shutil.copy(path, self.folder / "fonts")
        except OSError as error:
            raise _cannot_prepare(self.folder, error) from error

    def __enter__(self) -> Typesetter:
        return self

    def __exit__(self, *_: object) -> None:
        self._temporary.cleanup()

    # ----------------------------------------------------------------------- what is asked for

    def heights(self, items: Sequence[tuple[Block, float]], language: str = "en") -> list[dict[str, Any]]:
        """How high each block is at its width on a slide: ``height``, ``before``, and ``parts`` of lines or rows."""
        if not items:
            return []
        encoded = [{"width": width, "block": self._encoded(block, width, 0.0)} for block, width in items]
        data = {"items": encoded, "sizes": SLIDE_SIZES, "fonts": _FONTS, "language": language}
        self._write("blocks.json", data)
        found: list[dict[str, Any]] = json.loads(self._query("measure.typ", "<height>"))
        return found

    def slides(self, deck: HandInDocument, slides: Sequence[Slide], progress: Progress = quiet) -> bytes:
        encoded = []
        for at, slide in enumerate(slides):
            progress(f"deck.pdf: {slide.title}", 0.8 * at / len(slides))
            zones = [
                {
                    "box": [zone.box.x, zone.box.y, zone.box.w, zone.box.h],
                    "blocks": [self._encoded(block, zone.box.w, zone.box.h) for block in zone.blocks],
                }
                for zone in slide.zones
            ]
            looks = {
                "title": slide.title,
                "kicker": slide.kicker,
                "practice": slide.practice,
                "front": slide.front,
            }
            encoded.append({**looks, "zones": zones})
        common = self._common(deck) | {"width": 960, "height": 540, "sizes": SLIDE_SIZES}
        self._write("slides.json", common | {"slides": encoded})
        progress("typesetting deck.pdf", 0.8)
        made = self._compile("slides.typ", "deck.pdf")
        forget_pages()
        return made

    def report(self, deck: HandInDocument, name: str = "report.pdf", progress: Progress = quiet) -> bytes:
        """All pages as running text, with the questions and the answers in full."""
        pages = []
        for at, page in enumerate(deck.pages):
            progress(f"{name}: {page.title}", 0.8 * at / max(1, len(deck.pages)))
            blocks = report_blocks(page.visuals, page.words, page.answer)
            shown = [
                self._encoded(block, _REPORT_WIDTH, 0.0) for block in blocks if not isinstance(block, Chart)
            ]
            shown += self._chart_rows([block for block in blocks if isinstance(block, Chart)])
            pages.append({"title": page.title, "kicker": page.kicker, "blocks": shown})
        key = {"kind": "key-numbers", **asdict(deck.key_numbers)}
        self._write("report.json", self._common(deck) | {"pages": pages, "key-numbers": key})
        progress(f"typesetting {name}", 0.8)
        made = self._compile("report.typ", name)
        forget_pages()
        return made

    def _common(self, deck: HandInDocument) -> dict[str, Any]:
        return {
            "title": deck.title,
            "subtitle": deck.subtitle,
            "author": deck.author,
            "lines": deck.lines,
            "stamp": f"Export: {deck.stamp}",
            "footer": deck.footer[:90],
            "language": deck.language,
            "practice": deck.practice,
            "practice-mark": style.PRACTICE_MARK,
            "fonts": _FONTS,
        }

    # ----------------------------------------------------------------------- blocks as data

    def _encoded(self, block: Block, width: float, height: float) -> dict[str, Any]:  # noqa: PLR0911 - a case each
        if isinstance(block, Paragraph):
            runs = [_run(run) for run in block.runs]
            looks = {
                "style": block.style,
                "level": block.level,
                "bullet": block.bullet,
                "quoted": block.quoted,
            }
            return {"kind": "paragraph", "runs": runs, **looks}
        if isinstance(block, Listing):
            return {"kind": "listing", **asdict(block)}
        if isinstance(block, Table):
            rows = [[_breakable(cell) for cell in row] for row in block.rows]
            return {"kind": "table", **asdict(block), "rows": rows}
        if isinstance(block, Formula):
            return {"kind": "formula", "tex": block.tex, "tree": maths.typst_tree(block.tex)}
        if isinstance(block, KeyNumbers):
            return {"kind": "key-numbers", **asdict(block)}
        if isinstance(block, Picture):
            return self._picture(block, width, height or 300.0)
        return self._chart(block, width, height, SLIDE_SIZES["small"])

    def _picture(self, block: Picture, width: float, height: float) -> dict[str, Any]:
        from labtui.export.hand_in import picture_size

        wide, high = picture_size(block.data)
        scale = min(width / wide, height / high, 1.0)
        end = "png" if block.data.startswith(b"\x89PNG") else "jpg"
        name = self._drawn.setdefault(("picture", block.name), f"picture-{len(self._drawn)}.{end}")
        (self.folder / name).write_bytes(block.data)
        return {"kind": "picture", "file": name, "width": wide * scale, "alt": block.alt or block.name}

    def _chart_rows(self, charts: Sequence[Chart]) -> list[dict[str, Any]]:
        """Charts of a report, two beside each other, their notes once below them."""
        rows = []
        for at in range(0, len(charts), 2):
            pair = charts[at : at + 2]
            drawn = [self._chart(chart, *_REPORT_CHART, _REPORT_TEXT) for chart in pair]
            if len(charts) == 1:
                drawn[0] |= {side: drawn[0][side] * 1.25 for side in ("width", "height")}
            notes = dict.fromkeys(note for chart in pair for note in chart.spec.notes)
            rows.append({"kind": "charts", "charts": drawn, "notes": " ".join(notes)})
        return rows

    def chart_svg(self, spec: ChartSpec) -> bytes:
        name: str = self._chart(Chart(spec), *_REPORT_CHART, _REPORT_TEXT)["file"]
        return (self.folder / name).read_bytes()

    def chart_pdf(self, spec: ChartSpec) -> bytes:
        chart = self._chart(Chart(spec), *_REPORT_CHART, _REPORT_TEXT)
        size = f"width: {chart['width']}pt, height: {chart['height']}pt"
        page = f'#set page({size}, margin: 0pt)\n#image("{chart["file"]}")\n'
        if spec.practice:
            look = (
                f'size: {_REPORT_TEXT}pt, weight: "bold", fill: rgb("{style.PRACTICE}"), font: "{style.FONT}"'
            )
            page += f"#place(top + right, dx: -4pt, dy: 4pt, text({look})[practice])\n"
        (self.folder / "chart.typ").write_text(page, encoding="utf-8")
        return self._compile("chart.typ", "A chart")

    def _chart(self, block: Chart, width: float, height: float, text: float) -> dict[str, Any]:
        from labtui.export.figures import slide_picture

        spec = block.spec
        wide, high = width, height or 300.0
        key = (spec.key, spec.title, repr(spec.series), wide, high, text)
        if key not in self._drawn:
            self._drawn[key] = f"chart-{len(self._drawn)}.svg"
            (self.folder / self._drawn[key]).write_bytes(slide_picture(spec, wide, high, text=text))
        file = self._drawn[key]
        return {
            "kind": "chart",
            "file": file,
            "width": wide,
            "height": high,
            "alt": chart_text(spec),
            "notes": "",
        }

    # ----------------------------------------------------------------------- Typst

    @cached_property
    def _fonts(self) -> Any:
        """The typeface, and the system's for letters it lacks; looked for once, which takes longer than a page."""
        return _typst().Fonts(font_paths=[self.folder / "fonts"])

    def _write(self, name: str, data: dict[str, Any]) -> None:
        try:
            (self.folder / name).write_text(json.dumps(data), encoding="utf-8")
        except OSError as error:
            raise _cannot_prepare(self.folder, error) from error

    def _query(self, source: str, label: str) -> str:
        typst = _typst()
        options = {"root": self.folder, "font_paths": self._fonts}
        try:
            found: str = typst.query(self.folder / source, label, field="value", **options)
        except typst.TypstError as error:
            raise _not_typeset("The pages", error.message) from error
        forget_pages()
        return found

    def _compile(self, source: str, name: str) -> bytes:
        typst = _typst()
        options = {"root": self.folder, "font_paths": self._fonts, "timestamp": 0}
        try:
            made = typst.compile(self.folder / source, **options)
        except typst.TypstError as error:
            raise _not_typeset(name, error.message) from error
        if not isinstance(made, bytes) or not made.startswith(b"%PDF"):
            raise _not_typeset(name, "Typst gave no PDF")
        return made


def report_blocks(visuals: Iterable[Block], words: Sequence[Block], answer: Sequence[Block]) -> list[Block]:
    """The blocks of a section in the order a report has them: question and answer, then what shows it."""
    shown = list(answer) or list(words)
    extra = [block for block in words if isinstance(block, Paragraph) and block.bullet] if answer else []
    return [*shown, *(block for block in extra if block not in shown), *visuals]


def _run(run: Run) -> dict[str, Any]:
    if run.tex:
        return {"tex": run.text, "tree": maths.typst_tree(run.text)}
    data = asdict(run)
    del data["tex"]
    return data | {"text": _breakable(run.text.replace("\t", "    "))}


def _breakable(text: str) -> str:
    """A text whose endless words may be broken: Typst would let them run off the page."""
    return re.sub(r"\S{30}(?=\S)", lambda found: found[0] + "\u200b", text)


def _typst() -> Any:
    try:
        import typst
    except ImportError as error:
        raise ExportError(
            "The PDF cannot be made here: the library typst does not load.",
            "Use --deck pptx and save that as PDF, or install it again: pip install --force-reinstall typst.",
        ) from error
    return typst


def _not_typeset(name: str, reason: str) -> ExportError:
    return ExportError(
        f"{name} could not be typeset: {reason}.", "Use --deck pptx --report none, and report this."
    )


def _cannot_prepare(folder: Path, error: OSError) -> ExportError:
    return ExportError(
        f"The pages could not be prepared in {folder}: {error.strerror}.",
        "Free space on the disk with temporary files.",
    )
