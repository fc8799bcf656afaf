"""Keras's own lines: the epoch header and the line at the end of an epoch, of every generation.

    2.3 standalone       `` - 41s - loss: 2.0176 - accuracy: 0.2584``
    tf.keras to 2.6      ``196/196 - 41s - loss: 2.0176 - accuracy: 0.2584``
    2.7 to 2.15          ``196/196 - 24s - loss: 2.0176 - accuracy: 0.2584 - 24s/epoch - 121ms/step``
    3.x                  ``10/10 - 0s - 41ms/step - accuracy: 0.3641 - loss: 1.1179``
    bars (verbose=1)     ``10/10 [=====] - 1s 774us/step - loss: 1.2`` and, in 3.x, with a bar of U+2501

How Keras rounds, read in the sources of 2.0.8 to 3.15: the seconds field is ``%.0f`` of the epoch (``%d``,
cut off, up to 2.0.8, which prints no per-unit field); a per-unit field is whole seconds from 1 s on (and for
exactly 0), else whole milliseconds from 1 ms on, else whole microseconds. At verbose=2 the step time is the
whole epoch over the steps. In a bar it is

    A   (end of the epoch - end of step 1) / (n - 1)     tf.keras from 2.2, Keras 3
    B   whole epoch / n                                  standalone Keras to 2.3.1, and any bar that skips step 1

and the bar of step 1 tells how long that step took: it prints n - 1 times it as the time left, cut to whole
seconds, and in Keras 3 also the step time itself. So the epoch is (n - 1) step times and the first step in A,
n step times in B.
Only A draws the full bar twice, with no time left and at the end of the epoch, and only A ends a bar that began
with an unknown number of steps. Where a log shows none of this and not Keras 3's bar, both readings count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from labtui.domain.model import Interval

_HEADER = re.compile(r"\s*Epoch (\d{1,9})/(\d{1,9})\s*\Z")
_COUNTED = re.compile(
    r"\s*(?P<done>\d{1,12})/(?P<total>\d{1,12}|Unknown) "
    r"(?:(?P<bar>\[[=>.]*\]|[\u2501\ufffd]+)\s+)?(?:- )?(?P<seconds>\d{1,9})s(?=\s|$)(?P<rest>.*)\Z"
)
_UNCOUNTED = re.compile(r"\s*- (?P<seconds>\d{1,9})s(?P<rest> - .*)\Z")
_UNIT = re.compile(r"(\d{1,12})(s|ms|us)/(epoch|step|sample|batch)\Z")
_METRIC = re.compile(r"([^:]{1,200}): ([-+]?(?:\d{1,30}(?:\.\d{0,40})?(?:[eE][-+]?\d{1,4})?|nan|inf))\Z")
_FIRST_BAR = re.compile(
    r"(?:^|[\r\b ])1/(?P<total>\d{1,12}|Unknown)(?: (?:\[[=>.]*\]|[\u2501\ufffd]+))?(?: -)? "
    r"(?:ETA: )?(?P<left>(?:\d{1,9}:)?(?:\d{1,9}:)?\d{1,9})s?"
    r"(?: (?P<count>\d{1,12})(?P<unit>s|ms|us)/step)?(?=\s|$)"
)
_FULL_BAR = re.compile(r"(\d{1,12})/\1 \[=*\] - ETA: 0s")
_GLUED = re.compile(r"\d{1,9}/\d{1,9} (?:- |\[)")
CLOCK_SECONDS = 1e-4
"""By how much Keras's own clock and a callback's may differ, seconds."""
_SCALE = {"s": 1.0, "ms": 1e-3, "us": 1e-6}

Bounds = tuple[float, float]
"""Seconds between which a time lies."""


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """A per-unit time as printed: `count` of `unit` (s, ms, us) per epoch, step, sample or batch."""

    count: int
    unit: str

    @property
    def seconds(self) -> float:
        """The printed value in seconds."""
        return self.count * _SCALE[self.unit]

    @property
    def bounds(self) -> tuple[float, float]:
        """Seconds between which the unrounded value lies, by Keras's choice of unit and rounding."""
        scale = _SCALE[self.unit]
        low, high = max(0.0, (self.count - 0.5) * scale), (self.count + 0.5) * scale
        if self.unit == "s":
            return (0.0, high) if self.count == 0 else (max(low, 1.0), high)
        if self.unit == "ms":
            return max(low, 1e-3), min(high, 1.0)
        return low, min(high, 1e-3)


@dataclass(frozen=True, slots=True)
class Summary:
    """The line at the end of an epoch (or of an `evaluate`); `total` is None for the oldest form.

    `bar` is true at verbose=1. `finished` is false for a bar on its way. `thin` tells Keras 3's bar. `first` holds
    the seconds between which step 1 took, where the log has its bar. `twice`: the full bar was drawn before the end.
    `validates`: it has metrics of a validation, as only an epoch's own line does.
    """

    seconds: int
    total: int | None = None
    bar: bool = False
    finished: bool = True
    unknown_total: bool = False
    glued: bool = False
    units: Mapping[str, TimeUnit] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    thin: bool = False
    first: Bounds | None = None
    twice: bool = False
    validates: bool = False

    @property
    def steps(self) -> int | None:
        """Steps of the epoch; None when the count is one of samples or there is none."""
        return None if "sample" in self.units else self.total

    @property
    def ms_per_step(self) -> float | None:
        """Milliseconds per step as printed."""
        unit = self.units.get("step") or self.units.get("batch")
        return None if unit is None else unit.count * {"s": 1000.0, "ms": 1.0, "us": 0.001}[unit.unit]


def read_header(text: str) -> tuple[int, int] | None:
    """Epoch and planned epochs of the header in a reduced line, if it is one."""
    match = _HEADER.match(text)
    return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class FirstStep:
    """The bar of an epoch's step 1: of how many steps (None where unknown), and how many seconds the step took."""

    total: int | None
    seconds: Bounds


def read_first_step(text: str) -> FirstStep | None:
    """The first bar in how a line began (or in the line), if it is there and is one of step 1."""
    match = _FIRST_BAR.search(text)
    if match is None:
        return None
    total = None if match["total"] == "Unknown" else int(match["total"])
    low, high = 0.0, math.inf
    if match["unit"]:
        low, high = TimeUnit(int(match["count"]), match["unit"]).bounds
    if total is not None and total > 1:
        left = _clock_seconds(match["left"])
        low, high = max(low, left / (total - 1)), min(high, (left + 1) / (total - 1))
    return FirstStep(total, (low, high)) if low <= high < math.inf else None


def _clock_seconds(text: str) -> int:
    """``H:MM:SS``, ``M:SS`` or seconds, as seconds."""
    seconds = 0
    for part in text.split(":"):
        seconds = 60 * seconds + int(part)
    return seconds


def read_summary(text: str, head: str = "", before: str = "") -> Summary | None:
    """The summary in a reduced line, if it is one; also of a bar on its way (`finished` is false).

    `head` is how the line began before bars were written over it, where the bar of step 1 may stand, and `before`
    the bar before the last one.
    """
    match = _COUNTED.match(text)
    if match is None:
        old = _UNCOUNTED.match(text)
        if old is None or ": " not in old["rest"]:
            return None
        units, metrics, glued = _read_rest(old["rest"])
        if not metrics:
            return None
        validates = any(name.startswith("val_") for name in metrics)
        return Summary(int(old["seconds"]), units=units, metrics=metrics, glued=glued, validates=validates)
    units, metrics, glued = _read_rest(match["rest"])
    if not (units or metrics or (match["bar"] or "").startswith("[")):
        return None
    done, unknown = int(match["done"]), match["total"] == "Unknown"
    total = done if unknown else int(match["total"])
    bar = match["bar"] is not None or unknown
    first = read_first_step(head or text) if bar else None
    summary = Summary(
        int(match["seconds"]),
        total,
        bar,
        done == total and not unknown,
        unknown,
        glued,
        units,
        metrics,
        thin=bar and not (match["bar"] or "").startswith("["),
        first=first.seconds if first is not None and first.total in (None, total) else None,
        validates=any(name.startswith("val_") for name in metrics),
        twice=bar and (_FULL_BAR.search(before) is not None or (first is not None and first.total is None)),
    )
    return summary if _is_final(summary) else _on_its_way(summary)


def _read_rest(rest: str) -> tuple[dict[str, TimeUnit], dict[str, float], bool]:
    units: dict[str, TimeUnit] = {}
    metrics: dict[str, float] = {}
    for part in rest.split(" - "):
        word = part.strip().removeprefix("- ")
        if ": " in word:
            if metric := _METRIC.match(word):
                metrics.setdefault(metric[1], float(metric[2]))
        elif unit := _UNIT.match(word):
            units.setdefault(unit[3], TimeUnit(int(unit[1]), unit[2]))
    return units, metrics, _GLUED.search(rest) is not None


def _is_final(summary: Summary) -> bool:
    """Keras 3 prints the time left, without a label, where the final bar has the time taken: 0 s at N/N."""
    unit = summary.units.get("step")
    if not summary.bar or not summary.finished or unit is None or summary.total is None:
        return True
    return summary.seconds > 0 or (summary.total - 1) * unit.bounds[0] <= 0.5


def _on_its_way(summary: Summary) -> Summary:
    return replace(summary, finished=False, units={}, metrics={}, glued=False, validates=False)


def epoch_interval(summary: Summary) -> Interval:
    """The bounds that hold the epoch's true seconds, from all that the line prints; the value is their middle.

    Sources are intersected from the surest on: seconds field, per-epoch field, step time x steps. One that
    would leave nothing is not what it looks like (another program's count, say) and is left out.
    """
    low, high = _seconds_field(summary)
    for readings in _sources(summary):
        common = [(max(low, least), min(high, most)) for least, most in readings]
        if fitting := [(least, most) for least, most in common if least <= most]:
            low, high = min(least for least, _ in fitting), max(most for _, most in fitting)
    return Interval.between(max(0.0, low - CLOCK_SECONDS), high + CLOCK_SECONDS)


def _seconds_field(summary: Summary) -> Bounds:
    if summary.bar and not summary.units and not summary.thin:
        return float(summary.seconds), summary.seconds + 1.0  # up to 2.0.8: cut off
    low, high = max(0.0, summary.seconds - 0.5), summary.seconds + 0.5
    if summary.total is None and not summary.units and "accuracy" not in summary.metrics:
        high = (
            summary.seconds + 1.0
        )  # `` - 41s - loss``: up to 2.0.8 cut off; "accuracy" is a word of 2.3 and later
    return low, high + _late_start(summary)


def _late_start(summary: Summary) -> float:
    """What releases that start the clock after step 1 leave out: seconds, at most two mean steps.

    Some of tf.keras before 2.6 do. Step 1 then seems to take no time, although a mean step would show in the time
    left.
    """
    unit, first, total = summary.units.get("step"), summary.first, summary.total
    if unit is None or first is None or not total or summary.thin or first[0] > 0:
        return 0.0
    return 2 * unit.bounds[1] if unit.bounds[0] * (total - 1) >= 1 else 0.0


def _sources(summary: Summary) -> list[list[Bounds]]:
    """Each source as the readings that its text allows; the truth lies in one of them."""
    found: list[list[Bounds]] = []
    if per_epoch := summary.units.get("epoch"):
        found.append([per_epoch.bounds])
    total = summary.total
    for name in ("step", "batch", "sample"):
        unit = summary.units.get(name)
        if unit is None or not total:
            continue
        low, high = unit.bounds
        if summary.bar and name != "sample" and total > 1:
            found.append(_bar_readings(summary, low, high, total))
        else:
            found.append([(low * total, high * total)])
    return found


def _bar_readings(summary: Summary, low: float, high: float, total: int) -> list[Bounds]:
    """The epoch from a bar's step time: readings A and B of the module's head; without step 1 a lower bound."""
    if summary.first is None:
        return [(low * (total - 1), math.inf)]
    least, most = summary.first
    with_first = (low * (total - 1) + least, high * (total - 1) + most + _late_start(summary))
    return [with_first] if summary.thin or summary.twice else [with_first, (low * total, high * total)]


@dataclass(slots=True)
class KerasLines:
    """Where a run stands in these lines (`keras_lines` reads and writes it).

    `open` is the epoch whose line is awaited, `last` the one whose header came last. `seen` are the summary lines
    since that header, `kept` the place of the one that was stored. `total` is the step count of this run's own lines,
    `place` where among an epoch's lines its own stands, `alike` whether others look the same, `validated` whether own
    lines carry ``val_`` metrics. `usual_after` counts the lines that come after an epoch's own, `bare` is true while
    headers came without summaries (another program's).
    `workers` counts processes that write into one log: suspected by a repeated header, `sure` once epochs
    alternate; until then a `doubtful` line waits.
    """

    open: int | None = None
    last: int | None = None
    highest: int = 0
    headers: set[int] = field(default_factory=set)
    seen: list[tuple[Summary, int, bool]] = field(default_factory=list)
    kept: int = -1
    total: int | None = None
    place: int | None = None
    alike: bool = False
    validated: bool = False
    summaries: int = 0
    bare: bool = True
    usual_after: int = 0
    evaluated_at_the_end: bool = False
    workers: int = 1
    sure: bool = False
    doubtful: tuple[int, Summary, int] | None = None
    unknown: tuple[Summary, int] | None = None  # a bar of unknown length that may prove to be complete
    first: FirstStep | None = None  # the bar of step 1, where it stood on a line of its own

    def open_epoch(self, number: int) -> None:
        """A header: the lines that follow are this epoch's."""
        self.open = self.last = number
        self.highest = max(self.highest, number)
        self.headers.add(number)
        self.seen.clear()
        self.kept, self.first = -1, None

    def after(self) -> int:
        """How many lines came after the epoch's own."""
        return len(self.seen) - 1 - self.kept if self.kept >= 0 else 0

    def looks_own(self, summary: Summary) -> bool:
        """Whether a line may be an epoch's own by what is known of this run's lines."""
        if self.total is not None and summary.total != self.total:
            return False
        return summary.validates or not self.validated

    def waits(self, summary: Summary) -> bool:
        """Whether a line is no epoch's own by what is known of this run's lines; the next header decides."""
        if not self.looks_own(summary):
            return True
        return self.alike and self.place is not None and len(self.seen) - 1 < self.place

    def own_place(self) -> int:
        """Which of the lines seen is the epoch's own."""
        lines = list(enumerate(self.seen))
        validating = [one for one in lines if one[1][0].validates]
        lines = validating or lines
        alike = [one for one in lines if self.place is not None and one[1][0].total == self.total]
        lines = alike or lines
        plain = [one for one in lines if not one[1][0].bar]
        if plain:  # from 2.7 on lines have a step time, and Keras's own comes after those of callbacks
            return plain[-1 if "step" in plain[-1][1][0].units else 0][0]
        return next((place for place, (_, _, continues) in reversed(lines) if continues), lines[0][0])
