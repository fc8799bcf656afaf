"""Numbers as people read them: no more digits than the interval supports, the unit where it belongs.

One place for screens, tables, charts and slides, so that the same number looks the same everywhere.
"""

from __future__ import annotations

import math

from labtui.core.interval import Interval

ABSENT = "–"
"""Shown where there is no number; never a zero."""


def seconds_text(seconds: Interval | None) -> str:
    """Seconds with their half-width: ``13.60 ±0.01``; ``14.0 ±0.5`` for whole printed seconds."""
    if seconds is None:
        return ABSENT
    places = decimals(seconds)
    return f"{seconds.value:,.{places}f} ±{_round_up(seconds.half_width, places):.{places}f}"


def plain_seconds_text(seconds: Interval | None) -> str:
    """Seconds alone, with the digits the interval supports: ``13.60``."""
    return ABSENT if seconds is None else f"{seconds.value:,.{decimals(seconds)}f}"


def decimals(interval: Interval) -> int:
    """How many decimals are worth showing: the first place that the half-width reaches; 1 to 3."""
    if interval.half_width <= 0:
        return 3
    return min(3, max(1, math.ceil(-math.log10(interval.half_width * 1.0000001))))


def _round_up(half_width: float, places: int) -> float:
    """A half-width rounded to the nearest at this many places, but never shown as zero unless it is."""
    rounded = round(half_width * (1 + 1e-9), places)
    return rounded if rounded > 0 or half_width == 0 else float(10**-places)


def rate_text(rate: Interval | None) -> str:
    """Images per second: ``3,676``; two decimals below ten."""
    if rate is None:
        return ABSENT
    return f"{rate.value:,.0f}" if rate.value >= 10 else f"{rate.value:.2f}"


def ratio_text(ratio: Interval | None) -> str:
    """A ratio with two decimals: ``1.68``."""
    return ABSENT if ratio is None else f"{ratio.value:.2f}"


def percent_text(fraction: Interval | float | None, places: int = 1) -> str:
    """A fraction of 1 as percent: ``84.0 %``."""
    if fraction is None:
        return ABSENT
    value = fraction.value if isinstance(fraction, Interval) else fraction
    return f"{100 * value:.{places}f} %"


def range_text(interval: Interval | None, *, places: int = 2, percent: bool = False) -> str:
    """The bounds in words: ``1.676 to 1.682``."""
    if interval is None:
        return ABSENT
    factor, unit = (100, " %") if percent else (1, "")
    return f"{interval.lo * factor:,.{places}f} to {interval.hi * factor:,.{places}f}{unit}"


def bounds_text(interval: Interval, *, places: int = 2, percent: bool = False) -> str:
    """The bounds in words, without the unit that the value beside them has; "" where they show the value alone."""
    factor = 100 if percent else 1
    shown = {f"{each * factor:,.{places}f}" for each in (interval.lo, interval.value, interval.hi)}
    if len(shown) == 1:
        return ""
    return range_text(interval, places=places, percent=percent).removesuffix(" %")


def count_text(number: int | None) -> str:
    """A whole number with thousands marked: ``50,000``."""
    return ABSENT if number is None else f"{number:,}"


def clean(text: str) -> str:
    """Text from a log made safe to print: no control characters, no line breaks, not endless."""
    return "".join(mark if mark.isprintable() else "�" for mark in text[:200])
