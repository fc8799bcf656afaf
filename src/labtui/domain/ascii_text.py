"""Text for poor fonts and screen readers (`LABTUI_ASCII=1`): every sign as one of ASCII, as wide as before."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

_SIGNS = {
    **dict.fromkeys("│┃╎╏┆┇┊┋╭╮╰╯┌┐└┘├┤┬┴┼┏┓┗┛┣┫┳┻╋║╔╗╚╝▏▕▎▊", " "),
    **dict.fromkeys("─╌┄┈╴╶–—‐", "-"),
    **dict.fromkeys("━═╸╺", "="),
    **dict.fromkeys("█▌▐▄▀▖▗▘▝▙▟▛▜▚▞▁▂▃▅▆▇", "#"),
    **dict.fromkeys("▒▓╳≡╱┼", "%"),
    "░": ":",
    "✔": "+",
    "✘": "x",
    "✛": "+",
    "✚": "+",
    **dict.fromkeys("○◇△□▽◌◔", "o"),
    **dict.fromkeys("●◆▲■▼◎", "*"),
    "◐": "~",
    "▶": ">",
    "⊘": "/",
    "↻": "@",
    **dict.fromkeys("→⇒", ">"),
    "←": "<",
    "↑": "^",
    "↓": "v",
    **dict.fromkeys("…·•⋯", "."),
    "×": "x",
    "±": "~",
    "σ": "s",
    "≤": "<",
    "≥": ">",
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("“”«»", '"'),
    "\N{NO-BREAK SPACE}": " ",
}
_TABLE = str.maketrans(_SIGNS)


def ascii_wanted(environment: Mapping[str, str]) -> bool:
    """Whether the environment asks for ASCII alone."""
    return environment.get("LABTUI_ASCII", "") not in {"", "0"}


def ascii_text(text: str) -> str:
    """The text with every sign that is not ASCII replaced; as many cells as before."""
    if text.isascii():
        return text
    text = text.translate(_TABLE)
    return text if text.isascii() else "".join(char if char.isascii() else _plain(char) for char in text)


def _plain(char: str) -> str:
    if "\u2800" <= char <= "\u28ff":  # braille: the lines of charts
        return "." if char != "\u2800" else " "
    from rich.cells import (
        get_character_cell_size,
    )  # Python's own table of widths is older than the terminal's

    base = unicodedata.normalize("NFKD", char)[:1]
    sign = base if base.isascii() and base.isprintable() and base else "?"
    return sign.ljust(2)[: get_character_cell_size(char)]
