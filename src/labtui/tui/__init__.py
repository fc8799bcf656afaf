"""The Textual screens. They watch `LabState` and ask the session; only `commands` imports them."""

from pathlib import Path

STYLES = Path(__file__).parent / "styles"
