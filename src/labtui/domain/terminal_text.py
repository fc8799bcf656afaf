"""Text for a terminal: log lines as shown, untrusted text made harmless, symbols as ASCII, spans of time."""

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from unicodedata import category, normalize

if TYPE_CHECKING:
    from labtui.domain.model import Interval

_ESCAPES = re.compile(
    r"""\x1b (?:
        \[ [0-?]* [ -/]* [@-~]            # CSI: colours, cursor
      | [\]PX^_] .*? (?: \x07 | \x1b\\ | $ )  # OSC, DCS, SOS, PM, APC with their strings
      | [ -/]* [0-~]                      # two-character sequences
    )""",
    re.VERBOSE | re.DOTALL,
)
_C1_ESCAPES = re.compile(r"\x9b[0-?]*[ -/]*[@-~]|[\x90\x98\x9d-\x9f].*?(?:\x9c|\x07|$)", re.DOTALL)
_MOVES, _LEFT = re.compile(r"[\r\x08]+"), re.compile(r"\x1b\[(\d{0,3})D")
_PRINTABLE_ASCII = re.compile(r"[\x20-\x7e]*\Z")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def joined(text: str) -> str:
    """A text whose numbers each stay on one line with their unit, wherever it is wrapped."""
    return re.sub(r"(?<=\d) (?=[^\W\d]|%)", "\u00a0", text)


def display_text(raw: bytes) -> str:
    """A log line (without its newline) as a terminal would show it, as plain text."""
    text = raw.decode("utf-8", errors="replace")
    if _PRINTABLE_ASCII.match(text):
        return text
    text = _LEFT.sub(lambda move: "\x08" * max(1, int(move[1] or 1)), text)
    text = _C1_ESCAPES.sub("", _ESCAPES.sub("", text))
    if "\r" in text or "\x08" in text:
        text = _overwrite(text)
    text = text.expandtabs(8)
    return _replaced(text, lambda char: char if category(char) == "Zs" else _REPLACEMENT)


def _overwrite(text: str) -> str:
    """Apply carriage returns and backspaces: later characters replace earlier ones."""
    line: list[str] = []
    at = start = 0
    for move in _MOVES.finditer(text + "\r"):
        piece = text[start : move.start()]
        line[at : at + len(piece)] = piece
        last_return = move[0].rfind("\r")
        at = 0 if last_return >= 0 else at + len(piece)
        at = max(0, at - move[0].count("\x08", last_return + 1))
        start = move.end()
    return "".join(line).rstrip()


def sanitize(text: str) -> str:
    """Replace what could control a terminal: control characters except line ends and tabs become U+FFFD."""
    return _replaced(text, lambda char: char if char in "\n\r\t" else _REPLACEMENT)


def printable(text: str) -> str:
    """Replace each unprintable character by a blank."""
    return _replaced(text, lambda _: " ")


def inert(text: str) -> str:
    """Replace control, format and other invisible characters by blanks of the same width."""
    return _replaced(text, lambda char: char if category(char) == "Zs" else " " * _cell_width(char))


def _replaced(text: str, instead: Callable[[str], str]) -> str:
    """The text with each unprintable character replaced by `instead(character)`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else instead(char) for char in text)


def _cell_width(char: str) -> int:
    from rich.cells import get_character_cell_size  # its width table is newer than Python's

    return get_character_cell_size(char)


_SIGNS = {
    " ": "┃╎╏┆┇┋╭╮╰╯┌┐┘├┤┏┓┗┛┣┫┳┻╋║╔╗╚╝▏▕▊\N{NO-BREAK SPACE}", "|": "│┊▌▎", "+": "└┬┴┼✛✚▸",
    "-": "─╌┄┈╴╶–—‐⊘▾▔", "_": "▁", "=": "━═╸╺", "#": "█▐▄▀▖▗▘▝▙▟▛▜▚▞▂▃▅▆▇■", "%": "▒▓╳≡╱◐", ":": "░",
    "v": "✔↓▼", "x": "✘×◆", "o": "○◇△□▽", "*": "●◎", "^": "▲↑", "@": "◉◈↻", ">": "▶→⇒≥", "/": "▷",
    "q": "◔", ".": "◌·•⋯", "<": "←≤", "~": "…±", "'": "‘’", '"': "“”«»",
}  # fmt: skip
"""ASCII characters, each with the symbols that it replaces."""
_TABLE = str.maketrans({sign: plain for plain, signs in _SIGNS.items() for sign in signs})


def ascii_wanted(environment: Mapping[str, str]) -> bool:
    """Whether the environment asks for ASCII only."""
    return environment.get("LABTUI_ASCII", "") not in {"", "0"}


def ascii_text(text: str) -> str:
    """The text with every non-ASCII character replaced; its width in cells stays the same."""
    if text.isascii():
        return text
    text = text.translate(_TABLE)
    return text if text.isascii() else "".join(char if char.isascii() else _plain(char) for char in text)


def _plain(char: str) -> str:
    if "\u2800" <= char <= "\u28ff":  # braille: the lines of charts
        return " .:"[min(2, (ord(char) - 0x2800).bit_count() + 1 >> 1)]
    base = normalize("NFKD", char)[:1]
    sign = base if base.isascii() and base.isprintable() and base else "?"
    return sign.ljust(2)[: _cell_width(char)]


def fitted_lines(lines: Sequence[str], width: int | None, hang: int = 2) -> list[str]:
    """Lines wrapped at `width` characters between words, never before a %, and continued `hang` further in.

    A `width` of None leaves them as they are.
    """
    if width is None:
        return list(lines)
    return [part for line in lines for part in _broken(line, max(20, width), hang)]


def _broken(line: str, width: int, hang: int) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()))
    broken = textwrap.wrap(
        line.strip().replace(" %", "\N{NO-BREAK SPACE}%"), width, initial_indent=indent,
        subsequent_indent=indent + " " * hang, break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [part.replace("\N{NO-BREAK SPACE}%", " %") for part in broken] or [""]


_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]+")
_DEVICE = re.compile(r"^(con|prn|aux|nul|com\d|lpt\d)(?=\.|$)", re.IGNORECASE)  # on Windows, whatever follows


def file_name(text: str) -> str:
    """A safe file name made from untrusted text, the same on every system."""
    safe = _UNSAFE.sub("_", text).strip("._")[:120].rstrip("._")
    return _DEVICE.sub(r"\1_", safe) or "unnamed"


def clock_span(seconds: float, *, like: float | None = None) -> str:
    """Seconds as minutes, or as hours and minutes: ``0:09``, ``1:19``, ``1:02:03``; in the form of the time `like`."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    if round(seconds if like is None else like) < 3600:
        return f"{minutes}:{rest:02d}"
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def range_text(seconds: "Interval", like: float) -> str:
    """The bounds of a time in the unit of the time `like`: ``50 to 58``, ``12:43 to 75:57``, ``about 1:13``."""
    bounds = (seconds.lo, seconds.hi)
    lo, hi = (clock_span(each, like=like) if round(like) >= 60 else f"{round(each)}" for each in bounds)
    return f"about {lo}" if lo == hi else f"{lo} to {hi}"
