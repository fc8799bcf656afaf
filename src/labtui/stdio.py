"""Standard output and error that no text can abuse and no locale can break; put in place by the door, for every verb.

On a terminal, whatever a verb prints (names of files, words from logs, answers of servers) loses its control
characters: no escape sequence reaches the terminal unless it was written through `trusted`. Into a pipe or a file the
text goes as it is. A character that the locale's encoding lacks is written as a JSON escape, never as a traceback.

What may not enter: imports that cost time.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

_ESCAPING = "labtui.escape"


def _escape(error: UnicodeError) -> tuple[str, int]:
    r"""The characters that cannot be encoded as ``\uXXXX``, beyond the basic plane as a pair: what JSON reads back."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    pairs = (units[at : at + 2].hex() for at in range(0, len(units), 2))
    return "".join(f"\\u{unit}" for unit in pairs), error.end


codecs.register_error(_ESCAPING, _escape)


def harmless(text: str) -> str:
    """A text that cannot steer a terminal: control characters, but line ends and tabs, show as U+FFFD."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in "\n\r\t" else "\N{REPLACEMENT CHARACTER}" for char in text
    )


class HarmlessStream:
    """A text stream to a terminal; everything but `write` and `writelines` is the stream below."""

    def __init__(self, below: TextIO) -> None:
        self.below = below

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)

    def write(self, text: str) -> int:
        """Write what is left of a text when nothing in it acts."""
        return self.below.write(harmless(text))

    def writelines(self, lines: Any) -> None:
        """Write each line."""
        for line in lines:
            self.write(line)


def trusted(stream: TextIO) -> TextIO:
    """The stream below the guard, for colours of our own; what else is written there has to be harmless already."""
    return stream.below if isinstance(stream, HarmlessStream) else stream


@contextmanager
def guarded() -> Iterator[None]:
    """Guard ``sys.stdout`` and ``sys.stderr`` for the length of a verb."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _guard(sys.stdout), _guard(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _guard(stream: TextIO) -> Any:
    if stream is None:  # started without a console
        return stream
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors=_ESCAPING)
    return HarmlessStream(stream) if stream.isatty() else stream
