"""What dialogs and pages that lie over a screen have in common: their styles, read when the first of them opens."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from textual.screen import ModalScreen

STYLES = Path(__file__).parent.parent / "styles"
_Answer = TypeVar("_Answer")


class Modal(ModalScreen[_Answer]):
    """A screen over another one."""

    CSS_PATH = STYLES / "modals.tcss"
