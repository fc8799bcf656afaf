"""The practice cluster's clock, which goes faster than ours, and how its jobs' processes know it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

_PREFIX = "LABTUI_PRACTICE_"


@dataclass(frozen=True, slots=True)
class PracticeClock:
    """At `began` (UNIX seconds of ours) it shows `ahead` seconds more; it goes `factor` cluster seconds per second."""

    began: float
    factor: float
    ahead: float = 0.0

    @classmethod
    def started_now(cls, factor: float, not_before: float = 0.0) -> PracticeClock:
        """A clock that shows our time, or `not_before` if that is later: Slurm's records never lie in its future."""
        began = time.time()
        return cls(began, factor, max(0.0, not_before - began))

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> PracticeClock:
        """The clock of the cluster that started this process."""
        names = {"BEGAN": time.time(), "FACTOR": 1.0, "AHEAD": 0.0}
        began, factor, ahead = (
            float(environment.get(_PREFIX + name, usual)) for name, usual in names.items()
        )
        return cls(began, max(factor, 1e-6), ahead)

    @property
    def environment(self) -> dict[str, str]:
        """What tells a process of this clock."""
        values = {"BEGAN": self.began, "FACTOR": self.factor, "AHEAD": self.ahead}
        return {_PREFIX + name: repr(value) for name, value in values.items()}

    def now(self) -> float:
        """UNIX seconds on the cluster's clock."""
        return self.began + self.ahead + (time.time() - self.began) * self.factor

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds` on the cluster's clock."""
        time.sleep(max(0.0, seconds / self.factor))


class RehearsedTime:
    """A clock that `advance` moves, and that lets real time pass at the cluster's pace.

    `advance` is exact: an epoch of 13.600 s takes 13.600 s on this clock, whatever the laptop does meanwhile.
    """

    def __init__(self, clock: PracticeClock) -> None:
        self._factor, self._now, self._elapsed = clock.factor, clock.now(), 0.0
        self._sleep, self._monotonic = time.sleep, time.monotonic
        self._real_start = time.monotonic()

    def advance(self, seconds: float) -> None:
        """Let that many seconds pass on the rehearsed clock."""
        self._elapsed += max(0.0, seconds)
        behind = self._elapsed / self._factor - (self._monotonic() - self._real_start)
        if behind > 0:
            self._sleep(behind)

    def install(self) -> None:
        """Replace the functions of `time` in this process."""
        time.time = lambda: self._now + self._elapsed
        time.monotonic = time.perf_counter = lambda: self._elapsed
        time.sleep = self.advance  # type: ignore[assignment]  # the parameter's name differs
