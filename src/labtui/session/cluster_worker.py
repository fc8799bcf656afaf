"""The worker: the one thread that owns the connection. Everything the cluster hears from us goes through here.

Its loop does one small thing after another, the most urgent first: what the student asked for, what waits to be
sent, the queue, the logs. Between two of them it looks around again, so nothing waits behind bulk work. A second,
tiny thread watches the worker itself: it notices that the computer slept, and that a question stays unanswered.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from labtui.domain.errors import ConnectionLost, LabError, StoreError
from labtui.domain.model import Stream
from labtui.session.journal import Request
from labtui.session.log_follower import LogFollower
from labtui.session.polling import Poller
from labtui.session.submitter import Submitter
from labtui.session.worker_context import (
    ConnectionMonitor,
    Done,
    Watchdog,
    WorkerContext,
    fail,
    failing,
    outcome_of,
)
from labtui.slurm.job_evidence import live
from labtui.slurm.probe import present
from labtui.slurm.remote_command import Call

_T = TypeVar("_T")
FAULT_KEY = "fault"
_AFTER_FAULT_S = 2.0


class ClusterWorker:
    """Start it once; every other method may be called from any thread and returns at once."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._requests: deque[tuple[Callable[[Future[Any]], object], Future[Any], bool]] = deque()
        self._woken = threading.Event()
        self._connection = ConnectionMonitor(context)
        self._submitter = Submitter(context)
        self._log_follower = LogFollower(context)
        self._poller = Poller(context, self._submitter)
        context.news = self._poller.changed
        self._watchdog = Watchdog(
            context.clock, self._slept, self._connection.mark_stale, context.cluster.close
        )
        self._closing = threading.Event()
        self._pause_until = 0.0
        self._duty = ""
        self._thread = threading.Thread(target=self._run, name="labtui-cluster-worker", daemon=True)

    # ------------------------------------------------------------------ from other threads

    def start(self) -> None:
        """Begin to connect and to work."""
        self._context.run_in_background = self._run_in_background
        self._thread.start()
        self._watchdog.start()

    def close(self, timeout_s: float) -> bool:
        """Stop; says whether the thread ended in time. A blocked call is cut off by closing the connection."""
        self._closing.set()
        self._woken.set()
        self._watchdog.stop()
        self._context.cluster.close()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        closed = LabError(
            "labtui was closed.", "What waits in the submission queue is stored and continues next time."
        )
        while self._requests:
            fail(self._requests.popleft()[1], closed)
        self._submitter.abandon(closed)
        return not self._thread.is_alive()

    def track_submission(self, token: str) -> Future[str]:
        """Done when Slurm accepted the submission; raises its refusal. Ask before the intent is stored."""
        return self._submitter.track(token)

    def look(self) -> None:
        """Something was stored that the worker should see."""
        self._woken.set()

    def _put(self, work: Callable[[Future[Any]], object], *, needs_connection: bool = True) -> Future[Any]:
        """Have the worker's thread do this; `work` settles the future that it gets, at once or later."""
        future: Future[Any] = Future()
        self._requests.append((work, future, needs_connection))
        self._woken.set()
        return future

    def change(self, token: str, wanted: Request) -> Future[None]:
        """Cancel, hold, release or limit a submission wherever it stands, and look at the queue soon after."""

        def work(done: Future[None]) -> None:
            online = self._connection.online
            self._submitter.change(token, wanted, done, None if online else self._connection.why_offline)
            self._context.news()
            self._poller.press()

        return self._put(work, needs_connection=False)

    def ask(self, call: Call[_T]) -> Future[_T]:
        """Ask the cluster one thing, aside; the queue is read soon after."""
        return self._put(
            lambda future: self._context.ask_aside(call, future, lambda found: self._poller.press())
        )

    def look_at(self, paths: Sequence[str]) -> Future[dict[str, bool]]:
        """Ask whether these remote paths are there; the answer is stored, with its time."""

        def keep(found: dict[str, bool]) -> None:
            self._context.journal.change(lambda state: state.with_places(found, self._context.at()))

        return self._put(lambda future: self._context.ask_aside(present(paths), future, keep))

    def watch_logs(self, tokens: frozenset[str], visible: tuple[str, Stream] | None = None) -> None:
        self._log_follower.watch(tokens, visible)
        self._woken.set()

    def refresh(self) -> None:
        """A key press: read the queue soon; connect if there is no connection."""
        self._put(lambda _: self._poller.press(), needs_connection=False)
        self.connect_now()

    def connect_now(self) -> None:
        """A key press: try to connect."""
        self._put(lambda _: self._connection.key_press(), needs_connection=False)

    def _slept(self) -> None:
        self._put(lambda _: self._wake_up(), needs_connection=False)

    def _wake_up(self) -> None:
        self._connection.request_test()
        self._log_follower.recheck_all()
        self._poller.press()

    # ------------------------------------------------------------------ the worker's thread

    def _run(self) -> None:
        self.resume()
        while not self._closing.is_set():
            pause = self.turn()
            if pause != 0.0:
                self._woken.wait(pause)
                self._woken.clear()

    def resume(self) -> None:
        """Take up what the last process left, and keep what `labtui repair` would need."""
        with contextlib.suppress(StoreError):
            self._context.store.back_up()
        self._submitter.resume()

    def turn(self) -> float | None:
        """Do the most urgent thing, if there is one now; never raises.

        Returns the seconds until there is something to do: 0 to look again at once, None when only a request can
        bring work.
        """
        try:
            return self._step()
        except ConnectionLost as error:
            if not self._closing.is_set():
                self._lost(error)
        except LabError as error:
            self._context.raise_problem(f"{FAULT_KEY}:{self._duty}", error)
            self._pause_until = self._context.now() + _AFTER_FAULT_S
        except Exception as error:  # the session lives on; the panel names the file
            self._unexpected(error)
        return 0.0

    def _run_in_background(self, work: Callable[[], Any], done: Done) -> None:
        """Ask a slow question on a second channel; the answer comes back as a request to the worker."""

        def ask() -> None:
            outcome = outcome_of(work)
            self._put(lambda _: done(outcome), needs_connection=False)

        threading.Thread(target=ask, name="labtui-background", daemon=True).start()

    def _lost(self, error: LabError) -> None:
        """The connection broke, or an answer stayed out on one that stands: then it is tested before its next use."""
        if self._context.cluster.connected:
            self._connection.request_test()
        elif self._connection.online:
            self._connection.lost(error)
        self._log_follower.recheck_all()

    def _unexpected(self, error: Exception) -> None:
        self._context.faults.write(error)
        problem = LabError(
            f"Something went wrong inside labtui ({type(error).__name__}).",
            f"labtui continues. The details are in {self._context.faults.path.name} in the lab folder.",
        )
        self._context.raise_problem(FAULT_KEY, problem)
        self._pause_until = self._context.now() + _AFTER_FAULT_S

    def _step(self) -> float | None:
        if self._requests:
            self._answer_request()
            return 0.0
        due, work = self._next_duty()
        now = self._context.now()
        if work is None or due is None:
            return None
        if due > now:
            return due - now
        self._in_call(work)
        return 0.0

    def _answer_request(self) -> None:
        """Do the oldest request. One that needs the connection waits for the first attempt to connect, no other."""
        connection = self._connection
        work, future, needs_connection = self._requests[0]
        offline = needs_connection and not connection.online
        if offline and connection.error is None and connection.due_at() is not None:
            self._in_call(self._connection_duty)
            return
        self._requests.popleft()
        if offline:
            fail(future, connection.why_offline)
            return
        with failing(future):
            self._in_call(lambda: work(future))
        if needs_connection and connection.online:
            connection.record_answer()

    def _next_duty(self) -> tuple[float | None, Callable[[], None] | None]:
        """What the worker wants to do next by itself, and when."""
        duties: list[tuple[float | None, Callable[[], None]]] = [
            (self._connection.due_at(), self._connection_duty)
        ]
        if self._connection.online:
            duties += [
                (self._submitter.due_at(), lambda: self._duty_of("submit", self._send)),
                (self._poller.due_at(), lambda: self._duty_of("queue", self._poller.step)),
                (self._log_follower.due_at(), lambda: self._duty_of("logs", self._log_follower.step)),
            ]
        now = self._context.now()
        known = [(max(due, self._pause_until), work) for due, work in duties if due is not None]
        ready = [work for due, work in known if due <= now]
        if ready:
            return now, ready[0]  # in order of urgency
        return min(known, key=lambda duty: duty[0], default=(None, None))

    def _connection_duty(self) -> None:
        was_online = self._connection.online
        self._connection.attend()
        if self._connection.online and not was_online:
            self._log_follower.recheck_all()
            if live(self._context.state):
                self._context.news()

    def _send(self) -> None:
        self._submitter.step()
        self._context.news()

    def _duty_of(self, duty: str, work: Callable[[], None]) -> None:
        self._duty = duty
        work()
        self._connection.record_answer()
        self._context.clear_problem(f"{FAULT_KEY}:{duty}")

    def _in_call(self, work: Callable[[], object]) -> None:
        self._watchdog.begin()
        try:
            work()
        finally:
            self._watchdog.end()
