"""Progress of long work on stderr: one line that is rewritten on a terminal, a few plain lines elsewhere.

With `always` every step is a plain line, for a program that reads along.
"""

from __future__ import annotations

import sys
import time

_BAR = 24
_PLAIN_EVERY_S = 5.0


class Meter:
    """Shows what is being done and how much is behind. Silent for work that ends within a moment."""

    def __init__(self, *, always: bool = False) -> None:
        self._always = always
        self._terminal = sys.stderr.isatty() and not always
        self._drawn = 0
        self._said = time.monotonic()

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._drawn:
            print(f"\r{' ' * self._drawn}\r", end="", file=sys.stderr, flush=True)

    def show(self, what: str, share: float) -> None:
        """Say that `what` is being done with `share` (0 to 1) of all behind."""
        share = min(1.0, max(0.0, share))
        text = "".join(char if char.isprintable() else " " for char in what)[: 200 if self._always else 48]
        if self._terminal:
            done = round(share * _BAR)
            line = f"{'#' * done}{'.' * (_BAR - done)} {share:4.0%} {text}"
            print(f"\r{line.ljust(self._drawn)}", end="", file=sys.stderr, flush=True)
            self._drawn = len(line)
        elif self._always or time.monotonic() - self._said >= _PLAIN_EVERY_S:
            self._said = time.monotonic()
            print(f"{share:4.0%} {text}", file=sys.stderr, flush=True)
