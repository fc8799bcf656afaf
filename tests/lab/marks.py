"""Whether an exported file says that its numbers come from practice, as its format allows."""

import csv
import json
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from shutil import which

from labtui.export import drawing

WORDS = drawing.PRACTICE_LINE


def unmarked(files: Iterable[Path]) -> list[str]:
    """The names of the files that lack the practice mark anywhere it should be."""
    return [path.name for path in files if not MARKED[path.suffix](path)]


def marked(files: Iterable[Path]) -> list[str]:
    """The names of the files that have the practice mark."""
    return [path.name for path in files if MARKED[path.suffix](path)]


def _rows(path: Path) -> bool:
    """Every row of the CSV has the mark in its own column."""
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    return bool(rows) and all(row["practice"] == "True" for row in rows)


def _json(path: Path) -> bool:
    document = json.loads(path.read_text(encoding="utf-8"))
    rows = document["rows"] + document["programs"]
    return bool(rows) and all(row["practice"] for row in rows)


def _markdown(path: Path) -> bool:
    """Every line of a model or a program has the mark."""
    names = r"^\| (?:ResNet|ViT|vit|custom|llama|pi|jacobi).*$"
    lines = re.findall(names, path.read_text(encoding="utf-8"), re.MULTILINE)
    return bool(lines) and all("practice" in line for line in lines)


def _words(path: Path) -> bool:
    return WORDS in path.read_text(encoding="utf-8")


def _drawn(path: Path) -> bool:
    """matplotlib draws letters as outlines, with each text in a comment beside them."""
    return f"<!-- {WORDS} -->" in path.read_text(encoding="utf-8")


def _pixels(path: Path) -> bool:
    """The mark is in the lower right corner, in a colour that nothing else in a chart has."""
    from PIL import Image

    mark = tuple(bytes.fromhex(drawing.PRACTICE.lstrip("#")))
    with Image.open(path) as image:
        corner = image.crop((image.width // 2, image.height * 9 // 10, image.width, image.height))
        colours = corner.convert("RGB").getcolors(maxcolors=1 << 20)
    return any(colour == mark and count > 20 for count, colour in colours)


def _slides(path: Path) -> bool:
    from pptx import Presentation

    slides = Presentation(str(path)).slides
    texts = [[shape.text_frame.text for shape in slide.shapes if shape.has_text_frame] for slide in slides]
    return bool(texts) and all(WORDS in text for text in texts)


def _pages(path: Path) -> bool:
    """Every page has the mark, as read by poppler if it is installed."""
    if not which("pdftotext"):
        return path.read_bytes().startswith(b"%PDF")
    completed = subprocess.run(["pdftotext", str(path), "-"], check=True, capture_output=True).stdout.decode()
    return all("Practice" in page for page in completed.rstrip("\f").split("\f"))


_FORMATS = (".csv", ".json", ".md", ".svg", ".png", ".pptx", ".pdf", ".ipynb")
_READERS = (_rows, _json, _markdown, _drawn, _pixels, _slides, _pages, _words)
MARKED: dict[str, Callable[[Path], bool]] = dict(zip(_FORMATS, _READERS, strict=True))
