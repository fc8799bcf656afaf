"""The deck as PDF, typeset by Typst inside this process: no office suite, no network, no packages."""

from __future__ import annotations

import json
import shutil
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

from labtui.errors import ExportError
from labtui.export import measure, style
from labtui.export.charts import Progress, quiet
from labtui.export.layout import ChartItem, LaidDeck
from labtui.export.paint import front_marks, page_marks

CHART_TEXT = 10.5


def pdf_bytes(laid: LaidDeck, *, progress: Progress = quiet) -> bytes:
    """Typeset the pages.

    Raises:
        ExportError: when Typst cannot be used or does not understand the pages.
    """
    with tempfile.TemporaryDirectory(prefix="labtui-deck-") as name:
        folder = Path(name)
        try:
            pictures = _draw_charts(laid, folder, progress)
            pages = [
                list(front_marks(laid)),
                *(list(page_marks(page, laid, pictures)) for page in laid.pages),
            ]
            (folder / "pages.json").write_text(json.dumps(_data(laid, pages)), encoding="utf-8")
            source = files("labtui.export").joinpath("slides.typ").read_text(encoding="utf-8")
            (folder / "slides.typ").write_text(source, encoding="utf-8")
        except OSError as error:
            raise ExportError(
                f"The deck could not be prepared in {folder}: {error.strerror}.",
                "Is the disk with temporary files full?",
            ) from error
        progress("typesetting deck.pdf", 0.9)
        return _compile(folder)


def _draw_charts(laid: LaidDeck, folder: Path, progress: Progress) -> dict[int, str]:
    from labtui.export.draw import slide_svg

    items = [item for page in laid.pages for item in page.items if isinstance(item, ChartItem)]
    pictures = {}
    for at, item in enumerate(items):
        progress(f"deck.pdf: {item.spec.title}", 0.9 * at / len(items))
        name = f"chart-{at}.svg"
        (folder / name).write_bytes(slide_svg(item.spec, item.box.w, item.box.h, text=CHART_TEXT))
        pictures[id(item)] = name
    return pictures


def _data(laid: LaidDeck, pages: list[list[dict[str, Any]]]) -> dict[str, Any]:
    return {
        "title": laid.deck.title,
        "author": laid.deck.footer,
        "language": laid.deck.language,
        "width": laid.geometry.width,
        "height": laid.geometry.height,
        "fonts": [style.FONT.lower()],
        "mono": [style.MONO_FONT.lower(), style.FONT.lower()],
        "pages": pages,
    }


def _typeface(folder: Path) -> list[Path]:
    """Our typeface alone in a folder; beside it lies a font of symbols for missing characters that none should see."""
    fonts = folder / "fonts"
    fonts.mkdir()
    for path in sorted(style.font_folder().glob("DejaVuSans*.ttf")):
        shutil.copy(path, fonts)
    return [fonts]


def _compile(folder: Path) -> bytes:
    try:
        import typst
    except ImportError as error:
        raise ExportError(
            "deck.pdf cannot be made here: the library typst does not load.",
            "Use --deck pptx and save that as PDF, or install it again: pip install --force-reinstall typst.",
        ) from error
    measure.width("x", 10)  # says in words when the typeface is not there
    try:
        made = typst.compile(folder / "slides.typ", root=folder, font_paths=_typeface(folder), timestamp=0)
    except typst.TypstError as error:
        raise ExportError(
            f"deck.pdf could not be typeset: {error.message}.", "Use --deck pptx, and report this."
        ) from error
    if not isinstance(made, bytes) or not made.startswith(b"%PDF"):
        raise ExportError(
            "deck.pdf could not be typeset: Typst gave no PDF.", "Use --deck pptx, and report this."
        )
    return made
