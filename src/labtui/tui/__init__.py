"""The Textual screens. They show the session's state and send it requests; only `commands` imports them."""

from pathlib import Path

STYLES = Path(__file__).parent / "styles"
