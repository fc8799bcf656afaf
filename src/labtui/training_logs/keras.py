"""Reads Keras's own lines, of every generation: the header of an epoch and the line at its end.

    2.3 standalone       `` - 41s - loss: 2.0176 - accuracy: 0.2584``
    tf.keras to 2.6      ``196/196 - 41s - loss: 2.0176 - accuracy: 0.2584``
    2.7 to 2.15          ``196/196 - 24s - loss: 2.0176 - accuracy: 0.2584 - 24s/epoch - 121ms/step``
    3.x                  ``10/10 - 0s - 41ms/step - accuracy: 0.3641 - loss: 1.1179``
    bars (verbose=1)     ``10/10 [=====] - 1s 774us/step - loss: 1.2`` and, in 3.x, with a bar of U+2501

How Keras rounds, by its sources from 2.0.8 to 3.15: the seconds field is the epoch's time as ``%.0f`` (as ``%d``,
truncated, up to 2.0.8, which prints no per-unit field); a per-unit field is in whole seconds from 1 s on (and for
exactly 0), else in whole milliseconds from 1 ms on, else in whole microseconds. With verbose=2 the step time is the
whole epoch's time over its steps. In a bar it is

    A   (end of the epoch - end of step 1) / (n - 1)     tf.keras from 2.2, Keras 3
    B   whole epoch / n                                  standalone Keras to 2.3.1, and any bar that skips step 1

and the bar of step 1 shows how long that step took: it prints n - 1 times that duration as the time left, truncated to
whole seconds, and in Keras 3 also the duration itself. So the epoch takes (n - 1) step times plus the first step in A,
n step times in B.
Only A draws the full bar twice, with no time left and at the end of the epoch, and only A ends a bar that began
with an unknown number of steps. Where a log shows neither of these nor Keras 3's bar, both readings are possible.
"""

import functools
import math
from typing import NamedTuple

import msgspec

from labtui.domain.model import Interval
from labtui.training_logs.runs import EXPRESSIONS

CLOCK_SECONDS = 1e-4
"""The most seconds by which Keras's own clock and a callback's may differ."""
_UNITS = {"s": (1.0, 1000.0, 1.0, math.inf), "ms": (1e-3, 1.0, 1e-3, 1.0), "us": (1e-6, 1e-3, 0.0, 1e-3)}
"""For each unit: its length in seconds and in ms, and the least and the most seconds that Keras prints in it."""

Bounds = tuple[float, float]
"""The lower and the upper bound of a time in seconds."""


class TimeUnit(NamedTuple):
    """A time per epoch, step, sample or batch: milliseconds as printed, bounds of the unrounded value in seconds."""

    ms: float
    bounds: Bounds


@functools.lru_cache(4096)
def _read_unit(word: str) -> tuple[str, TimeUnit] | None:
    """What ``121ms/step`` is the time of, and that time; its bounds follow from Keras's choice of unit and rounding."""
    match = EXPRESSIONS["unit"].match(word)
    if match is None:
        return None
    number, (scale, ms, least, most) = int(match[1]), _UNITS[match[2]]
    low, high = (number - 0.5) * scale, (number + 0.5) * scale
    return match[3], TimeUnit(number * ms, (max(least if number else 0.0, low), min(most, high)))


class Summary(msgspec.Struct):
    """The line at the end of an epoch (or of an `evaluate`); `total` is None for the oldest form.

    `bar`: printed with verbose=1. `keras3`: the bar is that of Keras 3. `first` bounds the duration of step 1, where
    the line began with its bar. `redrawn`: the full bar was also drawn before the end. `continues`: the line
    overwrote the one before. `validates`: it has metrics of a validation, which only an epoch's own line has.
    """

    seconds: int
    total: int | None = None
    bar: bool = False
    units: dict[str, TimeUnit] = {}
    metrics: dict[str, float] = {}
    keras3: bool = False
    first: Bounds | None = None
    redrawn: bool = False
    continues: bool = False
    validates: bool = False


class FirstStep(msgspec.Struct):
    """The bar of an epoch's step 1: the total number of steps (None where unknown), and bounds of its duration."""

    total: int | None
    seconds: Bounds


def read_first_step(text: str) -> FirstStep | None:
    """The bar of step 1 in a line, or in the beginning of an overwritten line; None if it has none."""
    match = EXPRESSIONS["first-bar"].search(text)
    if match is None:
        return None
    total = None if match["total"] == "Unknown" else int(match["total"])
    unit = _read_unit(match["unit"] or "")
    low, high = unit[1].bounds if unit else (0.0, math.inf)
    if total is not None and total > 1:
        parts = reversed(match["left"].split(":"))  # ``H:MM:SS``, ``M:SS`` or seconds
        left = sum(int(part) * 60**place for place, part in enumerate(parts))
        low, high = max(low, left / (total - 1)), min(high, (left + 1) / (total - 1))
    return FirstStep(total, (low, high)) if low <= high < math.inf else None


def read_summary(text: str, head: str = "", before: str = "", continues: bool = False) -> Summary | bool:
    """The summary in a reduced line; True for an unfinished bar, False for any other line.

    `head` is the beginning of the line before it was overwritten, which may have the bar of step 1; `before` is the
    last bar but one.
    """
    match = EXPRESSIONS["counted"].match(text)
    if match is None:
        old = EXPRESSIONS["uncounted"].match(text) if " - " in text else None
        summary = None if old is None else _parse_rest(old["seconds"], old["rest"])
        return summary if summary is not None and summary.metrics else False
    summary, bar = _parse_rest(match["seconds"], match["rest"]), match["bar"]
    if not (summary.units or summary.metrics or (bar and bar[0] == "[")):
        return False
    if match["done"] != match["total"]:
        return True
    summary.total = total = int(match["done"])
    summary.bar, summary.continues = bar is not None, continues
    if bar is not None:
        summary.keras3 = bar[0] != "["
        first = read_first_step(head or text)
        summary.first = first.seconds if first is not None and first.total in (None, total) else None
        full = EXPRESSIONS["full-bar"].search(before)
        summary.redrawn = full is not None or (first is not None and first.total is None)
        unit = summary.units.get("step")
        # Keras 3 prints the time left, without a label, where the final bar has the time taken: 0 s at N/N
        if summary.seconds == 0 and unit is not None and (total - 1) * unit.bounds[0] > 0.5:
            return True
    return summary


def _parse_rest(seconds: str, rest: str) -> Summary:
    """Parse what follows the count and the bar: seconds, times by their unit, metrics."""
    summary = Summary(int(seconds), validates=" - val_" in rest)
    for part in rest.split(" - "):
        name, _, value = part.strip().removeprefix("- ").partition(": ")
        try:
            if value:
                summary.metrics.setdefault(name, float(value))
            elif unit := _read_unit(name):
                summary.units.setdefault(*unit)
        except ValueError:  # no metric
            continue
    return summary


def epoch_interval(summary: Summary) -> Interval:
    """The bounds of the epoch's true seconds, from all that the line prints; the value is their middle.

    The sources are intersected, the most reliable first: seconds field, per-epoch field, step time x steps. One that
    would leave nothing is not what it looks like (another program's count, say) and is left out.
    """
    low, high = _seconds_field(summary)
    for name, unit in summary.units.items():  # the per-epoch field comes first
        count = 1 if name == "epoch" else summary.total or 0
        least, most = unit.bounds
        readings = [(least * count, most * count)]
        if summary.bar and name in ("step", "batch") and count > 1:
            readings = _bar_readings(summary, least, most, count)
        within: Bounds | None = None
        for shortest, longest in readings if count else ():
            first, last = max(low, shortest), min(high, longest)
            if first <= last:
                within = (min(first, within[0]), max(last, within[1])) if within else (first, last)
        low, high = within or (low, high)
    return Interval.between(max(0.0, low - CLOCK_SECONDS), high + CLOCK_SECONDS)


def _seconds_field(summary: Summary) -> Bounds:
    if summary.bar and not summary.units and not summary.keras3:
        return float(summary.seconds), summary.seconds + 1.0  # up to 2.0.8: cut off
    low, high = max(0.0, summary.seconds - 0.5), summary.seconds + 0.5
    if summary.total is None and not summary.units and "accuracy" not in summary.metrics:
        high = summary.seconds + 1.0  # up to 2.0.8 cut off; "accuracy" is a word of 2.3 and later
    return low, high + _late_start(summary)


def _late_start(summary: Summary) -> float:
    """How many seconds a release that starts the clock after step 1 may leave out: at most two mean steps.

    Some of tf.keras before 2.6 do. Step 1 then seems to take no time, although a mean step would show in the time
    left.
    """
    unit, first, total = summary.units.get("step"), summary.first, summary.total
    if unit is None or first is None or not total or summary.keras3 or first[0] > 0:
        return 0.0
    return 2 * unit.bounds[1] if unit.bounds[0] * (total - 1) >= 1 else 0.0


def _bar_readings(summary: Summary, low: float, high: float, total: int) -> list[Bounds]:
    """The epoch from a bar's step time: readings A and B of the module's docstring; without step 1 a lower bound."""
    if summary.first is None:
        return [(low * (total - 1), math.inf)]
    least, most = summary.first
    with_first = (low * (total - 1) + least, high * (total - 1) + most + _late_start(summary))
    return [with_first] if summary.keras3 or summary.redrawn else [with_first, (low * total, high * total)]
