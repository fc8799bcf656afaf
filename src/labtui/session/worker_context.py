"""What the cluster worker stands on: folder, state, cluster and clock; the state of its connection.

A watchdog beside it notices sleep and unanswered calls.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from labtui.domain.errors import ConnectionLost, LabError
from labtui.domain.profile import Profile
from labtui.domain.state import ConnectionState, LabState
from labtui.session.folder import LabFolder
from labtui.session.journal import FaultLog, Journal, repeat
from labtui.session.mirrors import Readings
from labtui.session.store import Store

if TYPE_CHECKING:
    from labtui.cluster.connection import Connection
    from labtui.slurm.remote_command import Call

_T = TypeVar("_T")


class Clock:
    """Time as the worker sees it; tests bring their own."""

    def wall(self) -> float:
        """UNIX seconds, as this computer believes."""
        return time.time()

    def steady(self) -> float:
        """Seconds that never jump; may stand still while the computer sleeps."""
        return time.monotonic()


def settle(future: Future[Any], value: object) -> None:
    """Done, unless it is already."""
    if not future.done():
        future.set_result(value)


def fail(future: Future[Any], error: LabError) -> None:
    """Failed, unless it is done already."""
    if not future.done():
        future.set_exception(error)


@contextlib.contextmanager
def failing(future: Future[Any]) -> Iterator[None]:
    """What goes wrong within is told to `future`; a fault, or a lost connection, concerns the worker, too."""
    try:
        yield
    except LabError as error:
        fail(future, error)
        if isinstance(error, ConnectionLost):
            raise
    except BaseException:
        fail(future, LabError("Something went wrong inside labtui.", "The details are in its log file."))
        raise


Done = Callable[[Callable[[], Any]], None]
"""Takes the outcome of work done aside: a function that gives its result or raises what it raised."""


def inline(work: Callable[[], Any], done: Done) -> None:
    """Do work at once; what a test wants, and what a thread made for it does."""
    outcome: Future[Any] = Future()
    try:
        outcome.set_result(work())
    except Exception as error:
        outcome.set_exception(error)
    done(outcome.result)


class WorkerContext(msgspec.Struct):
    """One lab folder and one cluster, as the worker sees them. Only the worker's thread calls the cluster."""

    folder: LabFolder
    profile: Profile
    store: Store
    journal: Journal
    cluster: Connection
    clock: Clock
    faults: FaultLog
    readings: Readings
    max_log_bytes: int = 2 * 1024**3
    """A longer log is not copied any further."""
    news: Callable[[], None] = lambda: None
    """Called when something happened that the queue will soon show."""
    run_in_background: Callable[[Callable[[], Any], Done], None] = inline
    """Runs one slow question beside the worker, on a channel of its own; `done` is called in the worker's thread."""

    @property
    def state(self) -> LabState:
        return self.journal.state

    def now(self) -> float:
        """Seconds that never jump, for deadlines."""
        return self.clock.steady()

    def at(self) -> float:
        """UNIX seconds, for what is stored and shown."""
        return self.clock.wall()

    def raise_problem(self, key: str, error: LabError) -> None:
        """Tell the student once; it stays in the panel until `clear_problem`."""
        self.journal.change(lambda state: state.with_problem(key, error))

    def ask_aside(
        self, call: Call[_T], future: Future[_T], then: Callable[[_T], object] = lambda found: None
    ) -> None:
        """Ask beside the worker: a slow answer must not hold up the logs. `then` gets it in the worker's thread."""

        def answered(outcome: Callable[[], _T]) -> None:
            with failing(future):
                found = outcome()
                then(found)
                settle(future, found)

        self.run_in_background(lambda: self.cluster.ask(call), answered)

    def absolute(self, path: str) -> str:
        """A remote path from the root; relative ones count from the remote home."""
        inside = path.removeprefix("~/")
        return path if path.startswith("/") else f"{self.cluster.files.home().rstrip('/')}/{inside}"

    def clear_problem(self, key: str) -> None:
        self.journal.change(lambda state: state.without_problem(key))


# --------------------------------------------------------------------------- the connection

RHYTHM_S = 1.0
JUMP_S = 5.0
"""A jump longer than this is taken for sleep; a wrong guess costs one cheap question."""

CUT_OFF_S = 4.0
STALE_S = 5.0


class Watchdog:
    """Watches the worker's calls, from a thread of its own."""

    def __init__(
        self,
        clock: Clock,
        slept: Callable[[], None],
        stale: Callable[[float], None],
        cut_off: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._slept, self._stale, self._cut_off = slept, stale, cut_off
        self._since: float | None = None
        self._cut_at: float | None = None
        self._wall, self._steady = clock.wall(), clock.steady()

    def start(self, report: Callable[[BaseException], None]) -> Callable[[], None]:
        """Begin to look; returns the function that ends it."""
        return repeat("labtui-watchdog", RHYTHM_S, self.look, report)

    def watch(self, call: Callable[[], object]) -> None:
        """Make a call of the worker that may block."""
        self._since = self._clock.steady()
        try:
            call()
        finally:
            self._since = self._cut_at = None

    def look(self) -> None:
        """Notice that the computer slept, or that a call has had no answer for long."""
        wall, steady = self._clock.wall(), self._clock.steady()
        jump = max(abs(wall - self._wall - RHYTHM_S), steady - self._steady - RHYTHM_S)
        self._wall, self._steady = wall, steady
        since = self._since
        if jump > JUMP_S:
            self._cut_at = None if since is None else steady + CUT_OFF_S - RHYTHM_S
            self._slept()
        elif since is not None and steady - since > STALE_S:
            self._stale(steady - since)
        if self._cut_at is not None and steady >= self._cut_at:
            self._cut_at = None
            self._cut_off()


HEARTBEAT_S = 15.0
"""After this silence the connection is tested."""

PING_DEADLINE_S = 4.0
"""How long a test may take: our own deadline, not the system's, which would wait for a quarter of an hour."""

_BACK_OFF_S = (5.0, 30.0, 60.0, 120.0)
"""Between attempts, by failures in a row, give or take 20 %: the laptops of a room must not come in step."""
MIN_BETWEEN_ATTEMPTS_S = 20.0
"""A login node's firewall drops clients that open connections quickly; also where a key is pressed."""


class ConnectionMonitor:
    """Owned by the worker's thread; `mark_stale` alone may be called from another one."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
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
    def why_offline(self) -> LabError:
        return self.error or ConnectionLost("There is no connection to the cluster.")

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
            return
        try:
            self._context.cluster.ping(PING_DEADLINE_S)
        except ConnectionLost as error:
            self.lost(error)
        else:
            self.record_answer()

    def _connect(self) -> None:
        context = self._context
        self._retry_at = None
        self._set("connecting")
        self._attempts.append(context.now())
        try:
            context.cluster.connect()
        except ConnectionLost as error:
            self._offline(error)
        except LabError as error:  # a login refused, a setting that cannot work: repeating it is of no use
            self.error = error
            self._set("needs-login", error)
        else:
            self._failures, self.error, self._retry_at = 0, None, None
            self._attempts.clear()
            self.record_answer()
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
        base = _BACK_OFF_S[min(self._failures, len(_BACK_OFF_S)) - 1]
        self._retry_at = self._context.now() + base * random.uniform(0.8, 1.2)  # noqa: S311
        self._set("offline", error)

    def record_answer(self) -> None:
        """The other side answered."""
        self._last_heard = self._context.now()
        self._suspicious = False
        if self.status == "stale":
            self._set("online")

    def request_test(self) -> None:
        """The computer slept, or the network changed: test the connection before its use, or connect at once.

        A wake-up is no failure of the network: the back-off starts anew.
        """
        self._suspicious = True
        if self.status == "offline":
            self.key_press()

    def key_press(self) -> None:
        """The student wants it now. Attempts still keep their distance but for the second."""
        if self.online:
            self._suspicious = True
            return
        now = self._context.now()
        self._failures, self._retry_at = 0, now
        if self.status != "needs-login" and len(self._attempts) > 1:
            self._retry_at = max(now, self._attempts[-1] + MIN_BETWEEN_ATTEMPTS_S)

    def mark_stale(self, seconds: float) -> None:
        """A request has had no answer for so long. Any thread."""
        if self.status == "online":
            waited = ConnectionLost(
                f"No answer from the cluster for {seconds:.0f} seconds.", "labtui keeps waiting."
            )
            self._set("stale", waited)

    def _set(self, status: str, error: LabError | None = None) -> None:
        self.status = status
        connection = ConnectionState(
            status=status,
            sentence=error.sentence if error else "",
            hint=error.hint if error else "",
            host=self._context.cluster.host,
            since=self._context.at() if status == "connecting" else self._context.state.connection.since,
        )
        self._context.journal.change(lambda state: replace(state, connection=connection))
