"""Keras's own lines: the epoch header and the line at the end of an epoch, of every generation.

    2.3 standalone       `` - 41s - loss: 2.0176 - accuracy: 0.2584``
    tf.keras to 2.6      ``196/196 - 41s - loss: 2.0176 - accuracy: 0.2584``
    2.7 to 2.15          ``196/196 - 24s - loss: 2.0176 - accuracy: 0.2584 - 24s/epoch - 121ms/step``
    3.x                  ``10/10 - 0s - 41ms/step - accuracy: 0.3641 - loss: 1.1179``
    bars (verbose=1)     ``10/10 [=====] - 1s 774us/step - loss: 1.2`` and, in 3.x, with a bar of U+2501

How Keras rounds (read in its sources, the same in all of them): the seconds field is ``%.0f`` of the epoch;
a per-unit field is whole seconds from 1 s on (and for exactly 0), else whole milliseconds from 1 ms on,
else whole microseconds. At verbose=2 the step time is the whole epoch over the steps; in a bar it leaves
out the first step. (Some releases of tf.keras before 2.6 started their clock after the first step: what they
print is short by it.)
What may not enter: which run a line belongs to.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from labtui.core.interval import Interval

_HEADER = re.compile(r"\s*Epoch (\d{1,9})/(\d{1,9})\s*\Z")
_COUNTED = re.compile(
    r"\s*(?P<done>\d{1,12})/(?P<total>\d{1,12}|Unknown) "
    r"(?:(?P<bar>\[[=>.]*\]|[\u2501\ufffd]+)\s+)?(?:- )?(?P<seconds>\d{1,9})s(?=\s|$)(?P<rest>.*)\Z"
)
_UNCOUNTED = re.compile(r"\s*- (?P<seconds>\d{1,9})s(?P<rest> - .*)\Z")
_UNIT = re.compile(r"(\d{1,12})(s|ms|us)/(epoch|step|sample|batch)\Z")
_METRIC = re.compile(r"([^:]{1,200}): ([-+]?(?:\d{1,30}(?:\.\d{0,40})?(?:[eE][-+]?\d{1,4})?|nan|inf))\Z")
_GLUED = re.compile(r"\d{1,9}/\d{1,9} (?:- |\[)")
_SCALE = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


@dataclass(frozen=True, slots=True)
class Header:
    """``Epoch k/N``."""

    epoch: int
    epochs: int


@dataclass(frozen=True, slots=True)
class Unit:
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

    `bar` is true at verbose=1. `finished` is false for a bar on its way.
    """

    seconds: int
    total: int | None = None
    bar: bool = False
    finished: bool = True
    unknown_total: bool = False
    glued: bool = False
    units: Mapping[str, Unit] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def steps(self) -> int | None:
        """Steps of the epoch; None when the count is one of samples or there is none."""
        return None if "sample" in self.units else self.total

    @property
    def ms_per_step(self) -> float | None:
        """Milliseconds per step as printed."""
        unit = self.units.get("step") or self.units.get("batch")
        return None if unit is None else unit.count * {"s": 1000.0, "ms": 1.0, "us": 0.001}[unit.unit]


def read_header(text: str) -> Header | None:
    """The epoch header in a reduced line, if it is one."""
    match = _HEADER.match(text)
    return Header(int(match[1]), int(match[2])) if match else None


def read_summary(text: str) -> Summary | None:
    """The summary in a reduced line, if it is one; also of a bar on its way (`finished` is false)."""
    match = _COUNTED.match(text)
    if match is None:
        old = _UNCOUNTED.match(text)
        if old is None or ": " not in old["rest"]:
            return None
        units, metrics, glued = _read_rest(old["rest"])
        return Summary(int(old["seconds"]), units=units, metrics=metrics, glued=glued) if metrics else None
    units, metrics, glued = _read_rest(match["rest"])
    if not (units or metrics or (match["bar"] or "").startswith("[")):
        return None
    done, unknown = int(match["done"]), match["total"] == "Unknown"
    total = done if unknown else int(match["total"])
    bar = match["bar"] is not None or unknown
    summary = Summary(
        int(match["seconds"]), total, bar, done == total and not unknown, unknown, glued, units, metrics
    )
    return summary if _is_final(summary) else _on_its_way(summary)


def _read_rest(rest: str) -> tuple[dict[str, Unit], dict[str, float], bool]:
    units: dict[str, Unit] = {}
    metrics: dict[str, float] = {}
    for part in rest.split(" - "):
        word = part.strip().removeprefix("- ")
        if unit := _UNIT.match(word):
            units.setdefault(unit[3], Unit(int(unit[1]), unit[2]))
        elif metric := _METRIC.match(word):
            metrics.setdefault(metric[1], float(metric[2]))
    return units, metrics, _GLUED.search(rest) is not None


def _is_final(summary: Summary) -> bool:
    """Keras 3 prints the time left, without a label, where the final bar has the time taken: 0 s at N/N."""
    unit = summary.units.get("step")
    if not summary.bar or not summary.finished or unit is None or summary.total is None:
        return True
    return summary.seconds > 0 or (summary.total - 1) * unit.bounds[0] <= 0.5


def _on_its_way(summary: Summary) -> Summary:
    return Summary(summary.seconds, summary.total, True, False, summary.unknown_total)


def epoch_interval(summary: Summary) -> Interval:
    """The bounds that hold the epoch's true seconds, from all that the line prints.

    Sources are intersected from the surest on: seconds field, per-epoch field, step time x steps. One that
    would leave nothing is not what it looks like (another program's count, say) and is left out.
    """
    low, high = max(0.0, summary.seconds - 0.5), summary.seconds + 0.5
    value = float(summary.seconds)
    for source_low, source_high, source_value in _sources(summary):
        new_low, new_high = max(low, source_low), min(high, source_high)
        if new_low > new_high:
            continue
        if source_high - source_low < high - low:
            value = source_value
        low, high = new_low, new_high
    return Interval(min(max(value, low), high), low, high)


def _sources(summary: Summary) -> list[tuple[float, float, float]]:
    found: list[tuple[float, float, float]] = []
    if per_epoch := summary.units.get("epoch"):
        found.append((*per_epoch.bounds, per_epoch.seconds))
    total = summary.total
    for name in ("step", "batch", "sample"):
        unit = summary.units.get(name)
        if unit is None or not total:
            continue
        low, high = unit.bounds
        if summary.bar and name != "sample" and total > 1:
            found.append((low * (total - 1), math.inf, unit.seconds * total))
        else:
            found.append((low * total, high * total, unit.seconds * total))
    return found
