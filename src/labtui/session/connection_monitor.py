"""The state of the connection, and a watchdog that notices sleep and unanswered calls."""

from __future__ import annotations

import threading
from collections.abc import Callable

from labtui.domain.errors import ConnectionLost, HostKeyProblem, LabError, LoginRefused
from labtui.domain.events import ConnectionChanged
from labtui.domain.policy import key_press_retry_at, reconnect_delay
from labtui.session.worker_context import Clock, WorkerContext

RHYTHM_S = 1.0
JUMP_S = 5.0
"""A jump longer than this is taken for sleep; a wrong guess costs one cheap question."""

CUT_OFF_S = 4.0
STALE_S = 5.0


class Watchdog:
    """A daemon thread beside the worker. `begin` and `end` frame each call of the worker."""

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
        self._stop.set()

    def begin(self) -> None:
        """The worker begins a call that may block."""
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


HEARTBEAT_S = 15.0
"""After this silence the connection is tested."""

PING_DEADLINE_S = 4.0
"""How long a test may take: our own deadline, not the system's, which would wait for a quarter of an hour."""


class ConnectionMonitor:
    """Owned by the worker's thread; `mark_stale` alone may be called from another one."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._guard = threading.Lock()
        self.status = "offline"
        self._failures = 0
        self._attempts: list[float] = []
        self._retry_at: float | None = context.now()
        self._last_heard = 0.0
        self._suspicious = False
        self.error: LabError | None = None

    # ------------------------------------------------------------------ what others look at

    @property
    def online(self) -> bool:
        """Whether requests may be sent."""
        return self.status in ("online", "stale")

    @property
    def settled_offline(self) -> bool:
        """Whether an attempt was made and failed: who waits for the cluster may be told so."""
        return not self.online and self.error is not None

    def due_at(self) -> float | None:
        """When the connection wants attention: to connect again, or to be tested; None: not by itself."""
        if not self.online:
            return self._retry_at
        return self._context.now() if self._suspicious else self._last_heard + HEARTBEAT_S

    # ------------------------------------------------------------------ what the worker does

    def attend(self) -> None:
        """Connect or test, whichever is due."""
        if not self.online:
            self._connect()
        else:
            self._test()

    def _test(self) -> None:
        try:
            self._context.cluster.ping(PING_DEADLINE_S)
        except ConnectionLost as error:
            self.lost(error)
        else:
            self.heard()

    def _connect(self) -> None:
        context = self._context
        self._retry_at = None
        self._set("connecting")
        self._attempts.append(context.now())
        try:
            context.cluster.connect()
        except (LoginRefused, HostKeyProblem) as error:
            self.error = error
            self._set("needs-login", error)
        except ConnectionLost as error:
            self._offline(error)
        except LabError as error:  # a setting that cannot work: repeating it is of no use
            self.error = error
            self._set("needs-login", error)
        else:
            self._failures, self.error, self._retry_at = 0, None, None
            self._attempts.clear()
            self.heard()
            self._set("online")

    def lost(self, error: LabError) -> None:
        """The connection broke while it was used."""
        self._context.cluster.close()
        if self.online:
            self._attempts.clear()
        self._offline(error)

    def _offline(self, error: LabError) -> None:
        self.error = error
        self._failures += 1
        self._suspicious = False
        delay = reconnect_delay(self._failures, self._context.luck.random())
        self._retry_at = self._context.now() + delay
        self._set("offline", error)

    def heard(self) -> None:
        """The other side answered."""
        self._last_heard = self._context.now()
        self._suspicious = False
        if self.status == "stale":
            self._set("online")

    def suspect(self) -> None:
        """The computer slept, or the network changed: test the connection before its use, or connect at once.

        A wake-up is no failure of the network: the back-off starts anew.
        """
        self._suspicious = True
        if self.status == "offline":
            self._failures = 0
            self.key_press()

    def key_press(self) -> None:
        """The student wants it now. Attempts still keep their distance, see `key_press_retry_at`."""
        if self.online:
            self._suspicious = True
            return
        if self.status == "connecting":
            return
        now = self._context.now()
        refused = self.status == "needs-login"
        self._failures = 0
        self._retry_at = now if refused else key_press_retry_at(now, self._attempts)
        if self._retry_at > now:
            self._set("offline", self.error)

    def mark_stale(self, seconds: float) -> None:
        """A request has had no answer for so long. Any thread."""
        if self.status == "online":
            waited = ConnectionLost(
                f"No answer from the cluster for {seconds:.0f} seconds.", "labtui keeps waiting."
            )
            self._set("stale", waited)

    def _set(self, status: str, error: LabError | None = None) -> None:
        context = self._context
        with self._guard:
            self.status = status
        retry_at = None if self._retry_at is None else context.at() + self._retry_at - context.now()
        event = ConnectionChanged(
            at=context.at(),
            status=status,
            sentence=error.sentence if error else "",
            hint=error.hint if error else "",
            retry_at=retry_at if status == "offline" else None,
            host=context.cluster.host,
        )
        context.journal.commit([event])
