"""How wide the window is in which a person reads what a verb prints."""

from __future__ import annotations

import shutil
import sys


def window_width() -> int | None:
    """The cells of a line; None for a pipe or a file, which get everything in full lines."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
