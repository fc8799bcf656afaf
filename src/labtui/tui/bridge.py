"""Between the session's thread and the screens: states and questions come up, the ends of requests come back.

The lane thread never touches a widget and is never blocked by one, except while it waits for an answer only the
student can give.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from textual.message import Message

from labtui.core.state import LabState
from labtui.tui.messages import ActionEnded, PromptAsked, StateArrived

Post = Callable[[Message], bool]


class ScreenPrompter:
    """Answers the lane's questions (password, passphrase, code, host key) with a modal of the app."""

    def __init__(self) -> None:
        self._post: Post | None = None
        self._closed = threading.Event()

    def attach(self, post: Post) -> None:
        """Questions go to this app from now on."""
        self._post = post

    def close(self) -> None:
        """No more answers: whoever waits gets None."""
        self._closed.set()

    def ask(self, question: Any) -> str | None:
        """Called in the lane thread; returns the answer, or None when the student refused or the app is closing."""
        reply: queue.Queue[str | None] = queue.Queue(maxsize=1)
        if self._post is None or self._closed.is_set() or not self._post(PromptAsked(question, reply)):
            return None
        while not self._closed.is_set():
            try:
                return reply.get(timeout=0.2)
            except queue.Empty:
                continue
        return None


class Bridge:
    """Subscribes to the session and posts what it says to the app."""

    def __init__(self, session: Any, post: Post) -> None:
        self._session = session
        self._post = post
        self._unsubscribe: Callable[[], None] | None = None

    def open(self) -> None:
        """Start listening."""
        self._unsubscribe = self._session.subscribe(self._arrived)

    def close(self) -> None:
        """Stop listening."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _arrived(self, update: Any) -> None:
        state: LabState = update.state
        self._post(StateArrived(state))

    def follow(self, name: str, future: Future[Any], done: str = "", about: Any = None) -> None:
        """Post `ActionEnded` when the request has been answered."""

        def ended(finished: Future[Any]) -> None:
            if finished.cancelled():
                return
            error = finished.exception()
            result = None if error else finished.result()
            self._post(ActionEnded(name, done, result, error, about))

        future.add_done_callback(ended)
