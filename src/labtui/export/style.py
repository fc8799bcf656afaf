"""How exported things look: one typeface, calm colours, fixed sizes, and which characters no typeface can show.

Nothing is drawn here. Colours of series are those of Okabe and Ito, which colour-blind readers can tell apart; marks,
dashes and hatches differ as well, so that colour is never the only sign. A character that no typeface on this computer
has is said in words, never left as an empty box.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from labtui.domain.errors import ExportError
from labtui.export.hand_in import HandInDocument, block_text

Size = Literal["wide", "half"]

FONT = "DejaVu Sans"

INK = "#1f2a33"
QUIET = "#5b6873"
FAINT = "#8b97a1"
RULE = "#d9dfe4"
PANEL = "#f4f6f8"
PAPER = "#ffffff"
ACCENT = "#0072b2"
PRACTICE = "#9a5b00"
PRACTICE_PAPER = "#fdf1dc"

SERIES = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7"),
    "#6b7780",
    *("#6a51a3", "#b5468b", "#b8860b", "#8c6d31"),
    *("#e69f00", "#56b4e9", "#5f9e6e", "#a0707f"),
)
"""By the colour slots of `results.charts`: networks, CPU, GPU counts, everything else."""
MARKS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("solid", (0, (5, 1.5)), (0, (1.5, 1.5)), (0, (6, 1.5, 1.5, 1.5)))

PRACTICE_MARK = "PRACTICE – not measured on a real cluster"


def text_on(colour: str) -> str:
    """The colour of a text on this ground: white where that has the higher contrast, else dark."""
    return max((PAPER, INK), key=lambda text: _contrast(text, colour))


def _contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG defines it."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    shares = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@dataclass(frozen=True, slots=True)
class Canvas:
    """A picture's size in inches and its text size in points; on a slide all text has that size."""

    width: float
    height: float
    text: float
    slide: bool = False

    @property
    def small(self) -> float:
        """The size of ticks, values and names."""
        return self.text if self.slide else 0.88 * self.text


CANVASES: dict[Size, Canvas] = {"wide": Canvas(9.6, 5.4, 11.5), "half": Canvas(5.8, 4.7, 10.0)}
PNG_DPI = 300


def font_folder() -> Path:
    """Where the typeface lies: it ships with matplotlib."""
    import matplotlib

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf"


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """How wide a text is in points, in our typeface."""
    font = _font(bold)
    font.set_text(text, 0.0)
    return float(font.get_width_height()[0]) / 64 * size / _EM


_EM = 100.0


@functools.cache
def _font(bold: bool) -> Any:
    from matplotlib.ft2font import FT2Font

    path = font_folder() / ("DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf")
    try:
        font = FT2Font(str(path))
    except (OSError, RuntimeError) as error:
        raise ExportError(
            f"The font {FONT} is missing: {path} cannot be read.",
            "It comes with matplotlib; install that again (pip install --force-reinstall matplotlib).",
        ) from error
    font.set_size(_EM, 72)
    return font


def charmap() -> frozenset[int]:
    """The code points that our typeface can show."""
    return frozenset(_font(False).get_charmap())


def deck_text(deck: HandInDocument) -> Iterator[str]:
    yield from (deck.title, deck.subtitle, deck.footer, *deck.lines)
    for page in deck.pages:
        yield page.title
        yield from (block_text(block) for block in (*page.visuals, *page.words, *page.answer))


def unshown(texts: Iterable[str]) -> str:
    """The characters that neither our typeface nor a typeface of this computer has, each once."""
    known_here = charmap()
    lacking = dict.fromkeys(
        mark
        for text in texts
        for mark in text
        if ord(mark) not in known_here and unicodedata.category(mark) not in ("Cc", "Cf", "Mn", "Zs")
    )
    if not lacking:
        return ""
    wanted = {ord(mark) for mark in lacking}
    for known in _system_charmaps():
        wanted -= known
        if not wanted:
            break
    return "".join(mark for mark in lacking if ord(mark) in wanted)


def _system_charmaps() -> Iterator[set[int]]:
    """What each typeface of this computer can show; one that cannot be read shows nothing."""
    import typst
    from matplotlib.ft2font import FT2Font

    seen = set()
    for info in typst.Fonts().fonts():
        if info.path is None or (info.path, info.index) in seen:
            continue
        seen.add((info.path, info.index))
        try:
            yield set(FT2Font(info.path, face_index=info.index).get_charmap())
        except TypeError:  # matplotlib before 3.11 opens the first face of a collection only
            yield _first_face(info.path)
        except (OSError, RuntimeError):
            continue


def _first_face(path: str) -> set[int]:
    from matplotlib.ft2font import FT2Font

    try:
        return set(FT2Font(path).get_charmap())
    except (OSError, RuntimeError):
        return set()


def glyph_note(deck: HandInDocument) -> str:
    """A sentence about what cannot be shown; "" when all can."""
    marks = unshown(deck_text(deck))
    if not marks:
        return ""
    shown = " ".join(marks[:12]) + (f" and {len(marks) - 12} more" if len(marks) > 12 else "")
    return (
        f"No font on this computer can show these characters, so the PDF has empty boxes there: {shown}. "
        "Install one that can (the Noto fonts have nearly all) and export again; deck.pptx shows them wherever "
        "PowerPoint can."
    )
