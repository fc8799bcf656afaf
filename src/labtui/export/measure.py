"""How wide text is, before it is placed: with the typeface's own metrics, and a reserve for other typefaces.

Other typefaces of slides (a teacher's template, a computer without ours) are narrower than DejaVu Sans nearly always,
so what fits here fits there.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from labtui.errors import ExportError
from labtui.export import style
from labtui.export.deck_model import Run

RESERVE = 1.03
_EM = 1000.0
_FILES = {
    (False, False): "DejaVuSans.ttf",
    (True, False): "DejaVuSans-Bold.ttf",
    (False, True): "DejaVuSansMono.ttf",
    (True, True): "DejaVuSansMono-Bold.ttf",
}


@functools.cache
def _font(bold: bool, mono: bool) -> Any:
    from matplotlib.ft2font import FT2Font

    path = style.font_folder() / _FILES[bold, mono]
    try:
        font = FT2Font(str(path))
    except (OSError, RuntimeError) as error:
        raise ExportError(
            f"The typeface {style.FONT} is missing: {path} cannot be read.",
            "It comes with matplotlib; install that again (pip install --force-reinstall matplotlib).",
        ) from error
    font.set_size(_EM, 72)
    return font


@functools.cache
def _known(bold: bool, mono: bool) -> frozenset[int]:
    return frozenset(_font(bold, mono).get_charmap())


@functools.lru_cache(maxsize=20_000)
def _advance(mark: str, bold: bool, mono: bool) -> float:
    """The width of one character in thousandths of the size."""
    from matplotlib.ft2font import LoadFlags

    if ord(mark) in _known(bold, mono):
        glyph = _font(bold, mono).load_char(ord(mark), flags=LoadFlags.NO_HINTING)
        return float(glyph.linearHoriAdvance) / 65536
    if unicodedata.category(mark) in ("Mn", "Me", "Cf"):
        return 0.0
    return 1050.0 if unicodedata.east_asian_width(mark) in "WF" else 800.0


def width(text: str, size: float, *, bold: bool = False, mono: bool = False) -> float:
    """Width in points of a text at this size in points, with the reserve."""
    return sum(_advance(mark, bold, mono) for mark in text) * size / _EM * RESERVE


def run_width(run: Run, size: float) -> float:
    """Width of a run."""
    return width(run.text, size, bold=run.bold, mono=run.mono)


def missing(text: str) -> str:
    """The characters of a text that the typeface has no picture for, each once."""
    known = _known(False, False)
    return "".join(
        dict.fromkeys(
            mark
            for mark in text
            if ord(mark) not in known and not mark.isspace() and unicodedata.category(mark) != "Cf"
        )
    )


# --------------------------------------------------------------------------- breaking lines


def wrap(runs: Sequence[Run], size: float, room: float) -> tuple[tuple[Run, ...], ...]:
    """Break runs into lines that are at most `room` points wide; words that are wider are broken within.

    No character is lost: the lines joined are the text. Only blanks at a line's end may stand out of it.
    """
    lines: list[list[Run]] = [[]]
    used = 0.0
    for word in _words(runs):
        wide = sum(run_width(run, size) for run in word)
        blank = all(not run.text.strip() for run in word)
        if used + wide <= room or (blank and not lines[-1]):
            lines[-1] += word
            used += wide
            continue
        if blank:
            lines[-1] += word  # hangs out of the line's end, unseen; joined lines give the text back
            used += wide  # nothing fits behind it any more, however narrow
            continue
        if wide <= room:
            _close(lines)
            lines[-1] += word
            used = wide
            continue
        for piece in _pieces(word, size, room):
            if lines[-1] and (used + run_width(piece, size) > room):
                _close(lines)
                used = 0.0
            lines[-1].append(piece)
            used += run_width(piece, size)
    return tuple(_joined(line) for line in lines)


def _close(lines: list[list[Run]]) -> None:
    if lines[-1]:
        lines.append([])


def _joined(line: Iterable[Run]) -> tuple[Run, ...]:
    """Neighbours of one look as one run."""
    joined: list[Run] = []
    for run in line:
        if joined and replace(joined[-1], text="") == replace(run, text=""):
            joined[-1] = replace(run, text=joined[-1].text + run.text)
        else:
            joined.append(run)
    return tuple(joined)


def _words(runs: Sequence[Run]) -> Iterable[list[Run]]:
    """Pieces between which a line may break: words, blanks, single characters of scripts without blanks."""
    word: list[Run] = []
    for run in runs:
        for part in _parts(run.text):
            breakable = part.isspace() or _wide(part[0])
            if breakable and word:
                yield word
                word = []
            if breakable:
                yield [replace(run, text=part)]
            else:
                word.append(replace(run, text=part))
    if word:
        yield word


def _parts(text: str) -> Iterable[str]:
    part = ""
    for mark in text:
        same = part and mark.isspace() == part[-1].isspace() and not _wide(mark) and not _wide(part[-1])
        if part and not same:
            yield part
            part = ""
        part += mark
    if part:
        yield part


def _wide(mark: str) -> bool:
    return unicodedata.east_asian_width(mark) in "WF"


def _pieces(word: Sequence[Run], size: float, room: float) -> Iterable[Run]:
    """A word that is too wide, cut where the line ends."""
    for run in word:
        piece, used = "", 0.0
        for mark in run.text:
            wide = width(mark, size, bold=run.bold, mono=run.mono)
            if piece and used + wide > room:
                yield replace(run, text=piece)
                piece, used = "", 0.0
            piece += mark
            used += wide
        if piece:
            yield replace(run, text=piece)
