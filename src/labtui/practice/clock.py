"""The practice cluster's clock: it runs faster than ours, by a factor, from the moment the cluster started.

Times in its logs and its queue are the model's; only the waiting is shortened.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PracticeClock:
    """`began` is UNIX seconds (ours and the cluster's agree at that moment); `factor` cluster seconds per second."""

    began: float
    factor: float

    @classmethod
    def started_now(cls, factor: float) -> PracticeClock:
        """A clock that agrees with ours now."""
        return cls(time.time(), factor)

    def now(self) -> float:
        """The cluster's time in UNIX seconds."""
        return self.began + (time.time() - self.began) * self.factor

    def real(self, seconds: float) -> float:
        """How long that many of the cluster's seconds last for us."""
        return seconds / self.factor

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        """Wait that many of the cluster's seconds, or until `wake` is set."""
        if wake is None:
            time.sleep(max(0.0, self.real(seconds)))
        else:
            wake.wait(max(0.0, self.real(seconds)))
