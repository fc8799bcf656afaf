"""What others ask of the lane: a queue ordered by urgency, each request with a future."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeVar

from labtui.errors import ConnectionLost, LabError

_T = TypeVar("_T")


class Urgency(IntEnum):
    """User actions go before everything the lane does by itself; bulk work goes last."""

    ACTION = 0
    BULK = 5


@dataclass(order=True, slots=True)
class Request:
    """A piece of work for the lane's thread. `needs_line` tells that it cannot be done offline."""

    urgency: int
    number: int
    work: Callable[[], Any] = field(compare=False)
    future: Future[Any] = field(compare=False)
    needs_line: bool = field(compare=False, default=True)

    def run(self) -> None:
        """Do it and settle the future: `LabError`s go to whoever asked, a lost line concerns the lane, too."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self.future.set_result(self.work())
        except LabError as error:
            self.future.set_exception(error)
            if isinstance(error, ConnectionLost):
                raise
        except BaseException as error:
            self.future.set_exception(error)
            raise

    def fail(self, error: BaseException) -> None:
        """Settle the future without doing it."""
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class RequestQueue:
    """Thread-safe. `wake` interrupts a waiting lane."""

    def __init__(self) -> None:
        self._heap: list[Request] = []
        self._numbers = itertools.count()
        self._condition = threading.Condition()
        self._woken = False

    def put(
        self, work: Callable[[], _T], *, urgency: Urgency = Urgency.ACTION, needs_line: bool = True
    ) -> Future[_T]:
        """Ask for a piece of work."""
        future: Future[_T] = Future()
        with self._condition:
            request = Request(int(urgency), next(self._numbers), work, future, needs_line)
            heapq.heappush(self._heap, request)
            self._condition.notify_all()
        return future

    def pop(self, *, online: bool) -> Request | None:
        """The most urgent request that can be done now."""
        with self._condition:
            ready = [request for request in self._heap if online or not request.needs_line]
            if not ready:
                return None
            request = min(ready)
            self._heap.remove(request)
            heapq.heapify(self._heap)
            return request

    def drain(self, *, only_needing_line: bool = False) -> list[Request]:
        """Take out all requests (or those that need a connection), to fail them."""
        with self._condition:
            taken = [request for request in self._heap if request.needs_line or not only_needing_line]
            self._heap = [request for request in self._heap if request not in taken]
            heapq.heapify(self._heap)
            return taken

    def wake(self) -> None:
        """Let a waiting lane look around."""
        with self._condition:
            self._woken = True
            self._condition.notify_all()

    def wait(self, seconds: float | None, *, online: bool) -> None:
        """Sleep until there is something to do for the lane, or the time is over (None: until woken)."""
        with self._condition:
            self._condition.wait_for(
                lambda: self._woken or any(online or not request.needs_line for request in self._heap),
                seconds,
            )
            self._woken = False
