"""Store, state and subscribers, kept in step: an event is on disk before anybody sees it.

Every thread may commit. Subscribers are called from one background thread of the journal, never from the thread
that committed, so a slow screen cannot hold up the lane and a blocked lane cannot hold up the screen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from labtui.core.events import AnyEvent, ErrorCleared, ErrorRaised
from labtui.core.reduce import reduce_all
from labtui.core.state import LabState
from labtui.engine.store import Store, is_stored
from labtui.errors import StoreError

STORE_KEY = "store"
"""The key of the problem "cannot be stored" in `LabState.problems`."""


@dataclass(frozen=True, slots=True)
class Update:
    """What subscribers get: the latest state and the events since the update before."""

    state: LabState
    events: tuple[AnyEvent, ...]


Subscriber = Callable[[Update], None]


class Journal:
    """The only way to change the state."""

    def __init__(self, store: Store, on_subscriber_error: Callable[[BaseException], None]) -> None:
        """Read what is stored.

        Raises:
            StoreError: when it cannot be read.
        """
        self._store = store
        self._on_error = on_subscriber_error
        self._changed = threading.Condition(threading.RLock())
        self._state = reduce_all(LabState(), store.events())
        self._unstored: list[AnyEvent] = []
        self._news: list[AnyEvent] = []
        self._subscribers: list[Subscriber] = []
        self._closing = False
        self._thread: threading.Thread | None = None

    @property
    def state(self) -> LabState:
        """The latest state."""
        return self._state

    # ------------------------------------------------------------------ committing

    def commit(self, events: Sequence[AnyEvent]) -> None:
        """Store and reduce what was observed. If the disk is full the events are kept and stored later.

        What was observed is true whether it can be stored or not; what is *intended* goes through `commit_first`.
        """
        if not events:
            return
        with self._changed:
            self._state = reduce_all(self._state, events)
            self._news.extend(events)
            self._unstored.extend(event for event in events if is_stored(event))
            self._flush(events[-1].at)
            self._changed.notify_all()

    def _flush(self, at: float) -> None:
        if not self._unstored or self._store.read_only:
            return
        try:
            self._store.append(self._unstored, self._state)
        except StoreError as error:
            self._note(ErrorRaised(at=at, key=STORE_KEY, sentence=error.sentence, hint=error.hint))
            return
        self._unstored.clear()
        if any(problem.key == STORE_KEY for problem in self._state.problems):
            self._note(ErrorCleared(at=at, key=STORE_KEY))

    def _note(self, event: AnyEvent) -> None:
        self._state = reduce_all(self._state, (event,))
        self._news.append(event)

    def commit_first(
        self,
        events: Sequence[AnyEvent],
        *,
        blobs: Mapping[str, bytes] | None = None,
        snapshot: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Store intents; only what is on disk becomes state.

        Raises:
            StoreError: nothing was stored and the state is as before.
        """
        with self._changed:
            state = reduce_all(self._state, events)
            self._store.append([*self._unstored, *events], state, blobs=blobs, snapshot=snapshot)
            self._unstored.clear()
            self._state = state
            self._news.extend(events)
            self._changed.notify_all()

    def replay(self, events: Sequence[AnyEvent]) -> None:
        """Reduce events that need no storing: another process did, or the files themselves are the record."""
        if not events:
            return
        with self._changed:
            self._state = reduce_all(self._state, events)
            self._news.extend(events)
            self._changed.notify_all()

    @property
    def unstored(self) -> int:
        """How many events wait for the disk."""
        return len(self._unstored)

    # ------------------------------------------------------------------ telling

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call `callback` after changes, from the journal's thread; returns the function that ends it."""
        with self._changed:
            self._subscribers.append(callback)

        def unsubscribe() -> None:
            with self._changed:
                if callback in self._subscribers:
                    self._subscribers.remove(callback)

        return unsubscribe

    def start(self) -> None:
        """Begin to call subscribers."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._tell, name="labtui-updates", daemon=True)
            self._thread.start()

    def _tell(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._news) or self._closing)
                if self._closing and not self._news:
                    return
                update = Update(self._state, tuple(self._news))
                self._news.clear()
                subscribers = tuple(self._subscribers)
            for callback in subscribers:
                try:
                    callback(update)
                except Exception as error:  # a screen's fault must not end the updates of the others
                    self._on_error(error)

    def close(self, timeout_s: float) -> None:
        """Tell what is left, then end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
