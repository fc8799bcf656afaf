"""What the cluster worker works with: folder, state, cluster and clock; the state of its connection.

A watchdog notices when the computer slept and when a call stays unanswered.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from labtui.domain.errors import ConnectionLost, LabError, failure
from labtui.domain.profile import Profile
from labtui.domain.state import ConnectionState, LabState
from labtui.session.folder import LabFolder
from labtui.session.journal import FaultLog, Journal, run_every
from labtui.session.mirrors import Readings
from labtui.session.store import Store

if TYPE_CHECKING:
    from labtui.cluster.connection import Connection
    from labtui.slurm.remote_command import Call, T


class Clock:
    """The worker's clock; tests replace it."""

    def wall(self) -> float:
        """UNIX seconds by this computer's clock, which may jump."""
        return time.time()

    def steady(self) -> float:
        """Seconds that never jump; may stand still while the computer sleeps."""
        return time.monotonic()


def settle(future: Future[Any], value: object) -> None:
    """Set a future's result unless it is done already."""
    if not future.done():
        future.set_result(value)


def fail(future: Future[Any], error: LabError) -> None:
    """Set a future's error unless it is done already."""
    if not future.done():
        future.set_exception(error)


@contextlib.contextmanager
def errors_to(future: Future[Any]) -> Iterator[None]:
    """Pass errors in the block to `future`. Bugs and lost connections are raised as well, for the worker."""
    try:
        yield
    except LabError as error:
        fail(future, error)
        if isinstance(error, ConnectionLost):
            raise
    except Exception:
        fail(future, failure("bug"))
        raise


Question = Callable[[], Any]
"""A function that asks the cluster something that may take long; returns the answer or raises the error."""
Task = Generator[Question, Any, None]
"""Work of the worker's thread. Each question that it yields is asked in the background; it goes on with the answer."""


def ask_now(question: Question, answered: Callable[[Question], object]) -> None:
    """Ask in this thread; `answered` gets a function that returns the answer or raises the error."""
    outcome: Future[Any] = Future()
    try:
        outcome.set_result(question())
    except Exception as error:
        outcome.set_exception(error)
    answered(outcome.result)


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
    sends: bool
    max_log_bytes: int
    """A log is not copied beyond this size."""
    changed_at: float = 0.0
    """When something happened that should soon show in the queue (steady seconds): it is polled more often then."""
    failed_at: float = float("-inf")
    """When a job's log showed its first failure (steady seconds): its end will show in the queue within seconds."""
    ask_aside: Callable[[Question, Callable[[Question], object]], None] = ask_now
    """As `ask_now`, in the background: a slow answer must not hold up the logs. Only its result is for this thread."""

    @property
    def state(self) -> LabState:
        return self.journal.state

    def note_change(self) -> None:
        """Poll the queue more often for a while: a submission was sent, or a line in a log ends a run."""
        self.changed_at = self.clock.steady()

    def set_problem(self, key: str, error: LabError | None) -> None:
        """Show a problem to the student; it stays in the panel until it is set to None."""
        self.journal.change(lambda state: state.with_problem(key, error))

    def note_transfer(self, error: LabError | None = None) -> None:
        """Show that the cluster transfers no files, or, after another `error` or none, that it does."""
        self.set_problem("sftp", error if error is not None and error.reason == "no-sftp" else None)

    def run(self, task: Task, answer: Question = lambda: None) -> None:
        """Go on with a task to its next question or its end. `answer` gives what it asked last, or raises the error."""
        step: Question
        try:
            step = partial(task.send, answer())
        except Exception as error:
            step = partial(task.throw, error)
        with contextlib.suppress(StopIteration):
            self.ask_aside(step(), partial(self.run, task))

    def question_task(
        self, call: Call[T], future: Future[T], then: Callable[[T], object] = lambda found: None
    ) -> Task:
        """A task that asks the cluster one question and settles `future`; `then` gets the answer first."""
        with errors_to(future):
            found = yield partial(self.cluster.ask, call)
            then(found)
            settle(future, found)

    def absolute(self, path: str) -> str:
        """A remote path made absolute; relative ones start at the remote home."""
        inside = path.removeprefix("~/")
        return path if path.startswith("/") else f"{self.cluster.files.home().rstrip('/')}/{inside}"


# --------------------------------------------------------------------------- the connection

RHYTHM_S = 1.0
JUMP_S = 5.0
"""A longer jump is taken for sleep; a wrong guess costs one cheap test of the connection."""

CUT_OFF_S = 4.0
STALE_S = 5.0


class Watchdog:
    """Watches the worker's calls from a thread of its own."""

    def __init__(
        self, clock: Clock, slept: Callable[[], None], stale: Callable[[float], None],
        cut_off: Callable[[], None],
    ) -> None:  # fmt: skip
        self._clock = clock
        self._slept, self._stale, self._cut_off = slept, stale, cut_off
        self._since: float | None = None
        self._cut_at: float | None = None
        self._wall, self._steady = clock.wall(), clock.steady()

    def start(self, report: Callable[[BaseException], None]) -> Callable[[], None]:
        """Start watching; return the function that ends it."""
        return run_every("labtui-watchdog", RHYTHM_S, self.check, report)

    def watch(self, call: Callable[[], object]) -> None:
        """Run a call of the worker that may block, under watch."""
        self._since = self._clock.steady()
        try:
            call()
        finally:
            self._since = self._cut_at = None

    def check(self) -> None:
        """Check whether the computer slept, or whether a call has been unanswered for long."""
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
"""The connection is tested after this long without an answer."""

PING_DEADLINE_S = 4.0
"""How long a test may take; the system's own timeout would be a quarter of an hour."""

_BACK_OFF_S = (5.0, 25.0)
"""Seconds between attempts, by failures in a row, ±20 % so that the laptops of a classroom do not retry in step."""
MIN_BETWEEN_ATTEMPTS_S = 20.0
"""Kept even after key presses: a login node's firewall drops clients that connect too often."""


class ConnectionMonitor:
    """Connects, tests and reconnects. Worker thread only, except `mark_stale`."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._failures = 0
        self._attempts: list[float] = []
        self._retry_at: float | None = context.clock.steady()
        self._last_heard = 0.0
        self._suspicious = False

    # ------------------------------------------------------------------ status

    @property
    def online(self) -> bool:
        """Whether requests may be sent."""
        return self._state.status in ("online", "stale")

    @property
    def why_offline(self) -> LabError:
        return ConnectionLost(self._state.sentence, self._state.hint)

    @property
    def _state(self) -> ConnectionState:
        return self._context.state.connection

    def due_at(self) -> float | None:
        """When to connect or test next; None: only after a key press."""
        if not self.online:
            return self._retry_at
        return self._context.clock.steady() if self._suspicious else self._last_heard + HEARTBEAT_S

    # ------------------------------------------------------------------ actions of the worker

    def attend(self) -> None:
        """Connect if offline, else test the connection."""
        if not self.online:
            self._connect()
            return
        try:
            self._context.cluster.ping(PING_DEADLINE_S)
        except LabError as error:  # a server that refuses all logins now, too
            if error.reason != "no-sftp":
                self.mark_lost(error)
                return
        self.record_answer()

    def _connect(self) -> None:
        context = self._context
        self._retry_at, since = None, context.clock.wall()
        if not self._failures:  # else it stays "offline", so that the word does not flicker at each attempt
            self._set("connecting", since=None if self._state.tried else since)
        self._attempts.append(context.clock.steady())
        try:
            context.cluster.connect()
        except ConnectionLost as error:
            self._mark_offline(error)
        except LabError as error:  # a refused login or a wrong setting: retrying would not help
            self._set("needs-login", error)
        else:
            self._failures, self._retry_at = 0, None
            self._attempts.clear()
            self.record_answer()
            self._set("online", since=since)

    def mark_lost(self, error: LabError) -> None:
        """Record that the connection broke while in use."""
        self._context.cluster.close()
        if self.online:
            self._attempts.clear()
            self._set("offline", error, since=self._context.clock.wall())
        self._mark_offline(error)

    def _mark_offline(self, error: LabError) -> None:
        self._failures += 1
        self._suspicious = False
        base = _BACK_OFF_S[min(self._failures, len(_BACK_OFF_S)) - 1]
        self._retry_at = self._context.clock.steady() + base * random.uniform(0.8, 1.2)  # noqa: S311
        self._set("offline", error)

    def record_answer(self) -> None:
        """Record that the cluster answered."""
        self._last_heard = self._context.clock.steady()
        self._suspicious = False
        if self._state.status == "stale":
            self._set("online")

    def request_test(self) -> None:
        """Test the connection before its next use, or connect at once: the computer slept or the network changed.

        The back-off starts anew, because sleep is not a failure of the network.
        """
        self._suspicious = True
        if self._state.status == "offline":
            self.retry_now()

    def retry_now(self) -> None:
        """After a key press: test or connect now. From the third attempt on, the minimum interval is kept."""
        if self.online:
            self._suspicious = True
            return
        now = self._context.clock.steady()
        self._failures, self._retry_at = 0, now
        if self._state.status != "needs-login" and len(self._attempts) > 1:
            self._retry_at = max(now, self._attempts[-1] + MIN_BETWEEN_ATTEMPTS_S)

    def mark_stale(self, seconds: float) -> None:
        """Show that a request has been unanswered for this long. Safe from any thread."""
        if self._state.status == "online":
            self._set("stale", failure("stale", seconds=seconds))

    def _set(self, status: str, error: LabError | None = None, since: float | None = None) -> None:
        said = {"sentence": error.sentence, "hint": error.hint} if error else {}
        since = self._state.since if since is None else since
        connection = ConnectionState(status=status, host=self._context.cluster.host, since=since, **said)
        self._context.journal.change(lambda state: replace(state, connection=connection))
