"""Watches the lane from outside: did the computer sleep, is a question without an answer for long?

Sleep shows as a jump: of the wall clock against the steady one, or of both against the rhythm of this thread
(systems differ in which clock stands still). After a jump the line is tested; a call that was on its way when the
computer fell asleep and does not come back within seconds is cut off, because its answer never will.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from labtui.engine.ports import Clock

RHYTHM_S = 1.0
JUMP_S = 5.0
"""A jump longer than this is taken for sleep; a wrong guess costs one cheap question."""

CUT_OFF_S = 4.0
STALE_S = 5.0


class Watchdog:
    """A daemon thread beside the lane. `begin` and `end` frame each call of the lane."""

    def __init__(
        self,
        clock: Clock,
        slept: Callable[[], None],
        stale: Callable[[float], None],
        cut_off: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._slept, self._stale, self._cut_off = slept, stale, cut_off
        self._stop = threading.Event()
        self._calls = 0
        self._since: float | None = None
        self._doomed: tuple[int, float] | None = None
        self._wall, self._steady = clock.wall(), clock.steady()
        self._thread = threading.Thread(target=self._run, name="labtui-watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._wall, self._steady = self._clock.wall(), self._clock.steady()
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()

    def begin(self) -> None:
        """The lane begins a call that may block."""
        self._calls += 1
        self._since = self._clock.steady()

    def end(self) -> None:
        """The call came back."""
        self._since = None

    def _run(self) -> None:
        while not self._stop.wait(RHYTHM_S):
            self.look()

    def look(self) -> None:
        """One look, every `RHYTHM_S` seconds."""
        wall, steady = self._clock.wall(), self._clock.steady()
        jump = max(abs(wall - self._wall - RHYTHM_S), steady - self._steady - RHYTHM_S)
        self._wall, self._steady = wall, steady
        since, call = self._since, self._calls
        if jump > JUMP_S:
            if since is not None:
                self._doomed = (call, steady + CUT_OFF_S - RHYTHM_S)
            self._slept()
        elif since is not None and steady - since > STALE_S:
            self._stale(steady - since)
        self._cut_off_if_doomed(since, call, steady)

    def _cut_off_if_doomed(self, since: float | None, call: int, steady: float) -> None:
        if self._doomed is None:
            return
        doomed, at = self._doomed
        if since is None or call != doomed:
            self._doomed = None
        elif steady >= at:
            self._doomed = None
            self._cut_off()
