"""A person's own forms of lines: `--pattern` and `log_patterns` of lab.toml, and what is suggested as one."""

from __future__ import annotations

import re
from collections.abc import Sequence

import re2

from labtui.domain.errors import DataError
from labtui.training_logs.patterns import MAX_PATTERN_CHARS, STEP_TIMES, TIMES, epoch_of, given
from labtui.training_logs.said import Said

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


class OwnPattern:
    """A person's own pattern, run by RE2: its time is linear in the line, whatever the pattern is."""

    def __init__(self, text: str) -> None:
        self._regex = re2.compile(text, _OPTIONS)
        self.groups = frozenset(self._regex.groupindex)

    def search(self, text: str) -> dict[str, str] | None:
        """The groups that the pattern finds in a line; None where it does not match."""
        match = self._regex.search(text[:MAX_PATTERN_CHARS])
        return None if match is None else given(match)


def own_pattern(text: str) -> OwnPattern:
    """A person's own pattern.

    Raises:
        DataError: when it is not a valid regular expression, or names neither a time nor a rate.
    """
    hint = r"For instance: --pattern 'epoch (?P<epoch>\d+) took (?P<seconds>[\d.]+) s'"
    shown = text if len(text) <= 80 else text[:79] + "…"
    try:
        own = OwnPattern(text)
    except re2.error as error:
        raise DataError(
            f"The pattern {shown} cannot be used: {_reason(error)}.",
            f"RE2 reads patterns, without look-arounds and references to groups. {hint}",
        ) from None
    if not own.groups & {*TIMES, "rate"}:
        raise DataError(
            f"The pattern {shown} names no time and no rate.",
            f"Name at least one of these groups: {', '.join((*TIMES, 'rate'))}. {hint}",
        )
    if own.groups & set(STEP_TIMES) and "steps" not in own.groups:
        raise DataError(
            f"The pattern {shown} has the time of a step, but not how many steps an epoch has.",
            "Name the number of steps `steps`.",
        )
    return own


def _reason(error: re2.error) -> str:
    reason = error.args[0] if error.args else "not supported"
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


EXAMPLE_PATTERN = r"epoch (?P<epoch>\d+).* took (?P<seconds>[\d.]+) s"
_SUGGEST = re.compile(
    r"(?P<epoch>(?i:\bepochs?)\W{0,4})\d+|(?P<rate>)(?P<number>\d[\d.]*)(?= ?\w{1,12}/s)"
    r"|(?P<milliseconds>)\d[\d.]*(?= ?ms\b)|(?P<minutes>)\d[\d.]*(?= ?min)|(?P<seconds>)\d[\d.]*(?= ?s(?:ec)?)"
    r"|(?P<other>)\d[\d.]*"
)


def suggested_pattern(text: str) -> str | None:
    """A pattern of one's own that describes a line; None where nothing in it looks like a time or a rate."""
    pieces, last, named = [], 0, set[str]()
    for match in _SUGGEST.finditer(text[:MAX_PATTERN_CHARS]):
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
