"""A number with its honest bounds.

Keras prints whole seconds, so "5 s" is anything from 4.5 to 5.5 s. Every figure labtui derives
carries the interval through; nothing may drop it on the way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """A value inside closed bounds: ``lo <= value <= hi``, all finite.

    Raises:
        ValueError: when a bound is not finite or the value lies outside its bounds.
    """

    value: float
    lo: float
    hi: float

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.value, self.lo, self.hi))):
            raise ValueError(f"an interval needs finite numbers, not {self.value, self.lo, self.hi}")
        if not self.lo <= self.value <= self.hi:
            raise ValueError(f"{self.value} is not within [{self.lo}, {self.hi}]")

    @classmethod
    def exact(cls, value: float) -> Interval:
        """A number known exactly."""
        return cls(value, value, value)

    @classmethod
    def around(cls, value: float, half_width: float) -> Interval:
        """``value`` plus or minus ``half_width``."""
        return cls(value, value - half_width, value + half_width)

    @property
    def half_width(self) -> float:
        """Half the distance between the bounds, in the value's unit."""
        return (self.hi - self.lo) / 2

    def scaled(self, factor: float) -> Interval:
        """The interval times an exactly known factor."""
        low, high = sorted((self.lo * factor, self.hi * factor))
        return Interval(self.value * factor, low, high)

    def contains(self, number: float) -> bool:
        """Whether the number may be the true one."""
        return self.lo <= number <= self.hi

    def over(self, other: Interval) -> Interval:
        """This interval divided by another; both must be positive (times, rates)."""
        if self.lo < 0 or other.lo <= 0:
            raise ValueError("only positive intervals can be divided here")
        return Interval(self.value / other.value, self.lo / other.hi, self.hi / other.lo)
