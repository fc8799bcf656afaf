"""A person's own forms of lines: `--pattern` and `log_patterns` of lab.toml, and what is suggested as one."""

from __future__ import annotations

import importlib
import importlib.util
import math
import re
from collections.abc import Sequence
from typing import Any

from labtui.domain.errors import DataError
from labtui.training_logs.patterns import LONGEST, STEP_TIMES, TIMES, epoch_of, given
from labtui.training_logs.said import Said

_re2: Any = importlib.import_module("re2") if importlib.util.find_spec("re2") is not None else None
"""The linear engine, where it is installed (`pip install google-re2`)."""

MAX_STEPS = 2e8
"""Steps of a search that Python's engine, which backtracks, may take at the most: about a second."""
_LENGTHS = (LONGEST, 800, 220, 100, 60)
"""Characters of a line that a pattern is tried on: the first of these that keeps its search below that."""
_SHORT = 20
"""A repeat of at most so many is not open-ended."""
_UNKNOWN = ("UNKNOWN", None)


class OwnPattern:
    """A person's own pattern, which cannot take endless time.

    google-re2 runs it in linear time where that is installed; else a line is as short as the ways to match need.
    """

    def __init__(self, text: str, longest: int) -> None:
        self._longest = LONGEST if _re2 is not None else longest
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


def _ways(tree: Any, after: Any = None) -> tuple[float, int]:
    """In how many ways a pattern can match at one place, beside its open-ended repeats, and how many those are.

    A short repeat of one character has one way where a literal follows that it cannot be, and at the end.
    """
    ways, open_ended = 1.0, 0
    items = list(tree)
    for place, (name, value) in enumerate(items):
        following = items[place + 1] if place + 1 < len(items) else after
        kind = str(name)
        if kind.endswith("_REPEAT"):
            low, high, body = value
            inside, nested = _ways(body, _UNKNOWN)
            if inside == 1 and not nested and high <= _SHORT and _ends_in_one_way(body, following):
                continue
            if nested or (inside > 1 and high > _SHORT):
                ways = math.inf
            elif high > _SHORT:
                open_ended += 1
            else:
                ways *= sum(inside**count for count in range(low, high + 1))
        elif kind == "BRANCH":
            each = [_ways(branch, following) for branch in value[1]]
            ways *= sum(number for number, _ in each)
            open_ended += sum(repeats for _, repeats in each)
        elif kind in ("SUBPATTERN", "ASSERT", "ASSERT_NOT", "ATOMIC_GROUP"):
            number, repeats = _ways(value if kind == "ATOMIC_GROUP" else value[-1], following)
            ways, open_ended = ways * number, open_ended + repeats
        elif kind.startswith("GROUPREF"):
            ways = math.inf
    return ways, open_ended


def _ends_in_one_way(body: Any, following: Any) -> bool:
    """Whether a repeat of one character can end at one place only."""
    while following is not None and str(following[0]) == "SUBPATTERN" and len(following[1][-1]):
        following = following[1][-1][0]
    if following is None:
        return True
    if str(following[0]) != "LITERAL" or len(body) != 1 or tuple(body.getwidth()) != (1, 1):
        return False
    one, char = importlib.import_module("re._compiler").compile(body), chr(following[1])
    return not any(one.match(case) for case in (char, char.lower(), char.upper()))


def _longest_line(text: str) -> int:
    """Characters of the longest line that a pattern can be tried on in bounded time; 0 for none."""
    ways, repeats = _ways(importlib.import_module("re._parser").parse(text))
    for length in _LENGTHS:
        if ways * math.comb(length + repeats + 1, repeats + 1) <= MAX_STEPS:
            return length
    return 0


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
    longest = _longest_line(text)
    if not longest and _re2 is None:
        raise DataError(
            f"The pattern {shown} may take endless time on some lines.",
            "Use fewer of + and *, none inside another, and fewer choices; google-re2, if installed, has no limit.",
        )
    return OwnPattern(text, longest)


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
