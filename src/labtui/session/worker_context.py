"""What the duties of the cluster worker share: folder, state, cluster and clock; and the queue of requests to it."""

from __future__ import annotations

import heapq
import itertools
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from labtui.domain.errors import LabError
from labtui.domain.events import ErrorCleared, ErrorRaised, LabState
from labtui.domain.profile import Profile
from labtui.session.folder import LabFolder
from labtui.session.journal import FaultLog, Journal
from labtui.session.store import Store

if TYPE_CHECKING:
    from labtui.cluster.slurm_cluster import SlurmCluster
    from labtui.cluster.target import Prompter
    from labtui.slurm.remote_command import CommandRecord

_T = TypeVar("_T")


class ClusterFactory(Protocol):
    """Makes the (unconnected) cluster of a lab folder: it asks `prompter` and reports each remote command."""

    def __call__(self, prompter: Prompter, on_command: Callable[[CommandRecord], None]) -> SlurmCluster: ...


class Clock(Protocol):
    """Time as the worker sees it; tests bring their own."""

    def wall(self) -> float:
        """UNIX seconds, as this computer believes."""
        ...

    def steady(self) -> float:
        """Seconds that never jump; may stand still while the computer sleeps."""
        ...


class SystemClock:
    """This computer's."""

    def wall(self) -> float:
        return time.time()

    def steady(self) -> float:
        return time.monotonic()


class Urgency(IntEnum):
    """User actions go before everything the worker does by itself; bulk work goes last."""

    ACTION = 0
    BULK = 5


@dataclass(order=True, slots=True)
class WorkerRequest:
    """A piece of work for the worker's thread. `needs_connection` tells that it cannot be done offline."""

    urgency: int
    number: int
    work: Callable[[], Any] = field(compare=False)
    future: Future[Any] = field(compare=False)
    needs_connection: bool = field(compare=False, default=True)

    def fail(self, error: BaseException) -> None:
        """Settle the future without doing it."""
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class RequestQueue:
    """Thread-safe. `wake` interrupts a waiting worker."""

    def __init__(self) -> None:
        self._heap: list[WorkerRequest] = []
        self._numbers = itertools.count()
        self._condition = threading.Condition()
        self._woken = False

    def put(
        self, work: Callable[[], _T], *, urgency: Urgency = Urgency.ACTION, needs_connection: bool = True
    ) -> Future[_T]:
        """Ask for a piece of work."""
        future: Future[_T] = Future()
        with self._condition:
            request = WorkerRequest(int(urgency), next(self._numbers), work, future, needs_connection)
            heapq.heappush(self._heap, request)
            self._condition.notify_all()
        return future

    def pop(self, *, online: bool) -> WorkerRequest | None:
        """The most urgent request that can be done now."""
        with self._condition:
            ready = [request for request in self._heap if online or not request.needs_connection]
            if not ready:
                return None
            request = min(ready)
            self._heap.remove(request)
            heapq.heapify(self._heap)
            return request

    def drain(self, *, only_needing_connection: bool = False) -> list[WorkerRequest]:
        """Take out all requests (or those that need a connection), to fail them."""
        with self._condition:
            taken = [
                request for request in self._heap if request.needs_connection or not only_needing_connection
            ]
            self._heap = [request for request in self._heap if request not in taken]
            heapq.heapify(self._heap)
            return taken

    def wake(self) -> None:
        """Let a waiting worker look around."""
        with self._condition:
            self._woken = True
            self._condition.notify_all()

    def wait(self, seconds: float | None, *, online: bool) -> None:
        """Sleep until there is something to do for the worker, or the time is over (None: until woken)."""
        with self._condition:
            self._condition.wait_for(
                lambda: self._woken or any(online or not request.needs_connection for request in self._heap),
                seconds,
            )
            self._woken = False


Done = Callable[[Callable[[], Any]], None]
"""Takes the outcome of work done aside: a function that gives its result or raises what it raised."""


def inline(work: Callable[[], Any], done: Done) -> None:
    """Do work at once; what a test wants, and what is right where nothing waits meanwhile."""
    outcome: Future[Any] = Future()
    try:
        outcome.set_result(work())
    except Exception as error:
        outcome.set_exception(error)
    done(outcome.result)


@dataclass(slots=True)
class WorkerContext:
    """One lab folder and one cluster, as the worker sees them. Only the worker's thread calls the cluster."""

    folder: LabFolder
    profile: Profile
    store: Store
    journal: Journal
    cluster: SlurmCluster
    clock: Clock
    faults: FaultLog
    luck: random.Random = field(default_factory=random.Random)
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
        known = next((problem for problem in self.state.problems if problem.key == key), None)
        if known is None or (known.sentence, known.hint) != (error.sentence, error.hint):
            self.journal.commit(
                [ErrorRaised(at=self.at(), key=key, sentence=error.sentence, hint=error.hint)]
            )

    def clear_problem(self, key: str) -> None:
        if any(problem.key == key for problem in self.state.problems):
            self.journal.commit([ErrorCleared(at=self.at(), key=key)])
