"""How exported things look: one typeface, four colours of series, fixed sizes. Nothing is drawn here."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

FONT = "Carlito"
"""Shipped with its licence (SIL Open Font Licence); as wide as Calibri, which PowerPoint uses."""
SERIES = ("#12406B", "#C2500A", "#26A282", "#8E5AA8")
"""Networks first, by their slots in `results.charts`; also told apart in grey and by colour-blind readers."""
MARKS = ("o", "D", "^", "s")
TEXT = "#1B2733"
AXIS = "#5B6773"
OTHER = "#C5CCD3"
GRID = "#E1E6EA"
PART = "#E0A458"
PRACTICE = "#8A5A00"
PRACTICE_MARK = "Practice cluster, not measured"
SMALL_MARK = "Small run, no result of the lab"


def font_folder() -> Path:
    return Path(str(files("labtui.export").joinpath("fonts")))


def font_files() -> tuple[Path, ...]:
    return tuple(sorted(font_folder().glob("*.ttf")))
