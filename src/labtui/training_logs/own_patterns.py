"""A person's own forms of lines: `--pattern` and `log_patterns` of lab.toml, and what is suggested as one."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Sequence
from typing import Any

from labtui.domain.errors import DataError
from labtui.training_logs.patterns import LONGEST, STEP_TIMES, TIMES, epoch_of, given
from labtui.training_logs.said import Said

_re2: Any = importlib.import_module("re2") if importlib.util.find_spec("re2") is not None else None
"""The linear engine, where it is installed (`pip install google-re2`)."""

MAX_REPEATS = 4
_LONGEST_LINE = {0: 2000, 1: 2000, 2: 800, 3: 220, 4: 100}
"""Characters of a line that a pattern of so many open-ended repeats is tried on by Python's engine, which backtracks:
the steps of a search grow with the power of one more than their number."""
_SHORT = 20
"""A repeat of at most so many is not open-ended."""


class OwnPattern:
    """A person's own pattern, which cannot take endless time.

    google-re2 runs it in linear time where that is installed; else no repeat stands in another, and the line is as
    short as the number of repeats needs.
    """

    def __init__(self, text: str, repeats: int) -> None:
        self._longest = LONGEST if _re2 is not None else _LONGEST_LINE[repeats]
        self._regex = re.compile(text) if _re2 is None else _linear(text)

    def search(self, text: str) -> dict[str, str] | None:
        """The groups that the pattern finds in a line; None where it does not match."""
        match = self._regex.search(text[: self._longest])
        return None if match is None else given(match)


def _linear(text: str) -> Any:
    options = _re2.Options()
    options.log_errors = False
    try:
        return _re2.compile(text, options)
    except _re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args else "not supported"
        raise DataError(
            f"The pattern {text[:80]} cannot be matched in linear time: {reason}.",
            "Leave out look-arounds and references to groups.",
        ) from None


def _open_repeats(tree: Any, *, inside: bool = False) -> int:
    """How many open-ended repeats a pattern has; more than are allowed where one stands in another, or refers back."""
    count = 0
    for name, value in tree:
        kind = str(name)
        if kind in ("MAX_REPEAT", "MIN_REPEAT"):
            open_ended = value[1] > _SHORT
            count += open_ended + (MAX_REPEATS if open_ended and inside else 0)
            count += _open_repeats(value[2], inside=inside or open_ended)
        elif kind == "GROUPREF":
            count += MAX_REPEATS + 1
        elif kind == "BRANCH":
            count += sum(_open_repeats(branch, inside=inside) for branch in value[1])
        elif kind in ("SUBPATTERN", "ASSERT", "ASSERT_NOT"):
            count += _open_repeats(value[-1], inside=inside)
    return count


def own_pattern(text: str) -> OwnPattern:
    """A person's own pattern.

    Raises:
        DataError: when it is not a valid regular expression, or names neither a time nor a rate.
    """
    hint = r"For instance: --pattern 'epoch (?P<epoch>\d+) took (?P<seconds>[\d.]+) s'"
    shown = text if len(text) <= 80 else text[:79] + "…"
    try:
        regex = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise DataError(f"The pattern {shown} is not a valid regular expression: {error}.", hint) from None
    names = set(regex.groupindex)
    if not names & {*TIMES, "rate"}:
        raise DataError(
            f"The pattern {shown} names no time and no rate.",
            f"Name at least one of these groups: {', '.join((*TIMES, 'rate'))}. {hint}",
        )
    if names & set(STEP_TIMES) and "steps" not in names:
        raise DataError(
            f"The pattern {shown} has the time of a step, but not how many steps an epoch has.",
            "Name the number of steps `steps`.",
        )
    repeats = _open_repeats(importlib.import_module("re._parser").parse(text))
    if repeats > MAX_REPEATS and _re2 is None:
        raise DataError(
            f"The pattern {shown} may take endless time on some lines.",
            f"Use at most {MAX_REPEATS} of + and *, none inside another. With google-re2 installed there is no limit.",
        )
    return OwnPattern(text, min(repeats, MAX_REPEATS))


EXAMPLE_PATTERN = r"epoch (?P<epoch>\d+).* took (?P<seconds>[\d.]+) s"
_SUGGEST = re.compile(
    r"(?P<epoch>(?i:\bepochs?)\W{0,4})\d+|(?P<rate>)(?P<number>\d[\d.]*)(?= ?\w{1,12}/s)"
    r"|(?P<milliseconds>)\d[\d.]*(?= ?ms\b)|(?P<minutes>)\d[\d.]*(?= ?min)|(?P<seconds>)\d[\d.]*(?= ?s(?:ec)?)"
    r"|(?P<other>)\d[\d.]*"
)


def suggested_pattern(text: str) -> str | None:
    """A pattern of one's own that describes a line; None where nothing in it looks like a time or a rate."""
    pieces, last, named = [], 0, set[str]()
    for match in _SUGGEST.finditer(text[:LONGEST]):
        name = match.lastgroup if match.lastgroup != "number" else "rate"
        before = (
            re.escape(text[last : match.start()] + (match["epoch"] or ""))
            .replace("\\ ", " ")
            .replace("'", ".")
        )
        digits = r"\d{1,9}" if name == "epoch" else r"[\d.]{1,20}"
        new = name not in (None, "other") and name not in named
        pieces.append(before + (f"(?P<{name}>{digits})" if new else digits))
        named.add(name or "")
        last = match.end()
    if not named & {*TIMES, "rate"}:
        plain = [place for place, piece in enumerate(pieces) if "(?P<" not in piece and "epoch" in named]
        if not plain:
            return None
        pieces[plain[-1]] = pieces[plain[-1]].replace(r"[\d.]{1,20}", r"(?P<seconds>[\d.]{1,20})")
    return "".join(pieces)


def read_own(patterns: Sequence[OwnPattern], text: str) -> Said | None:
    """A line that one of a person's own patterns describes."""
    for regex in patterns:
        if (groups := regex.search(text)) is not None:
            return epoch_of("pattern", groups)
    return None
