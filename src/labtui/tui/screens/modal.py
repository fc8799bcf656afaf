"""What dialogs and pages that lie over a screen have in common: their styles, read when the first of them opens."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from textual.screen import ModalScreen

from labtui.tui.messages import ActionAsked

STYLES = Path(__file__).parent.parent / "styles"
_Answer = TypeVar("_Answer")


class Modal(ModalScreen[_Answer]):
    """A screen over another one."""

    CSS_PATH = STYLES / "modals.tcss"

    async def on_action_asked(self, message: ActionAsked) -> None:
        """A click on one of the keys below does what the key does, here and in the wizard's app, too."""
        message.stop()
        await self.run_action(message.name)
