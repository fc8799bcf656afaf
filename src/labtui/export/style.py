"""How exported things look: one typeface, calm colours, fixed sizes. Constants only; nothing is drawn here.

Colours of series are those of Okabe and Ito, which colour-blind readers can tell apart; marks, dashes and hatches
differ as well, so that colour is never the only sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Size = Literal["wide", "half"]

FONT = "DejaVu Sans"
MONO_FONT = "DejaVu Sans Mono"

INK = "#1f2a33"
QUIET = "#5b6873"
FAINT = "#8b97a1"
RULE = "#d9dfe4"
PANEL = "#f4f6f8"
PAPER = "#ffffff"
ACCENT = "#0072b2"
PRACTICE = "#9a5b00"
PRACTICE_PAPER = "#fdf1dc"
ADDED_PAPER = "#e3f3ec"
REMOVED_PAPER = "#fbe7e3"

SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b7780")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("solid", (0, (5, 1.5)), (0, (1.5, 1.5)), (0, (6, 1.5, 1.5, 1.5)))

PRACTICE_MARK = "PRACTICE – not measured on a real cluster"


@dataclass(frozen=True, slots=True)
class Canvas:
    """A picture's size in inches and its text size in points."""

    width: float
    height: float
    text: float


CANVASES: dict[Size, Canvas] = {"wide": Canvas(9.6, 5.4, 11.5), "half": Canvas(5.8, 4.7, 10.0)}
PNG_DPI = 300


def font_folder() -> Path:
    """Where the typeface lies: it ships with matplotlib."""
    import matplotlib

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf"


def colour(place: int) -> str:
    """The colour of the series at this place."""
    return SERIES[place % len(SERIES)]
