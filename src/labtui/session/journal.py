"""Store, state and subscribers, kept in step: an event is on disk before anybody sees it.

Every thread may commit. Subscribers are called from one background thread of the journal, never from the thread
that committed. A read-only session follows what the writing process stores.
Unexpected exceptions go to a file that the screen names: type, text and places in the code, no values.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from labtui.cluster.local_files import open_inside, stat_inside
from labtui.domain.errors import FolderTaken, StoreError
from labtui.domain.events import AnyEvent, ErrorCleared, ErrorRaised, LabState, Refreshed
from labtui.domain.reduce import reduce_all
from labtui.session import mirrors
from labtui.session.folder import LabFolder
from labtui.session.store import Store, is_stored

_MAX_BYTES = 1_000_000


class FaultLog:
    """Appends to one file, owner-only, that does not grow without bound."""

    def __init__(self, path: Path, *, writes: bool = True) -> None:
        """`writes` False: for a folder that is only looked at."""
        self.path = path
        self._writes = writes

    def write(self, error: BaseException) -> None:
        """Note an exception. Never raises: where it cannot be written there is nothing better to do."""
        text = "".join(traceback.format_exception(error))
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        if not self._writes:
            return
        with contextlib.suppress(OSError):
            status = stat_inside(self.path.parent, self.path)
            if status is not None and status.st_size > _MAX_BYTES:
                self.path.replace(self.path.with_suffix(".log.1"))
            handle = open_inside(self.path.parent, self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
            with os.fdopen(handle, "a", encoding="utf-8") as file:
                file.write(f"--- {now}\n{text}\n")


STORE_KEY = "store"
"""The key of the problem "cannot be stored" in `LabState.problems`."""
TAKEN_KEY = "taken"
"""The key of the problem that another process writes the folder."""


@dataclass(frozen=True, slots=True)
class Update:
    """What subscribers get: the latest state and the events since the update before."""

    state: LabState
    events: tuple[AnyEvent, ...]


Subscriber = Callable[[Update], None]


class Journal:
    """The only way to change the state."""

    def __init__(
        self,
        store: Store,
        on_subscriber_error: Callable[[BaseException], None],
        keep: Callable[[LabState, Sequence[AnyEvent]], None] = lambda state, events: None,
    ) -> None:
        """Read what is stored. `keep` is told of what was stored since, at once.

        Raises:
            StoreError: when it cannot be read.
        """
        self._store = store
        self._on_error = on_subscriber_error
        self._keep = keep
        self._changed = threading.Condition(threading.RLock())
        self._state = reduce_all(LabState(), store.events())
        self._unstored: list[AnyEvent] = []
        self._news: list[AnyEvent] = []
        self._subscribers: list[Subscriber] = []
        self._closing = False
        self._thread: threading.Thread | None = None

    @property
    def state(self) -> LabState:
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
            self._store.append(self._unstored)
        except FolderTaken as error:
            self._taken(error, at)
            return
        except StoreError as error:
            self._note(ErrorRaised(at=at, key=STORE_KEY, sentence=error.sentence, hint=error.hint))
            return
        stored, self._unstored = tuple(self._unstored), []
        self._keep(self._state, stored)
        if any(problem.key == STORE_KEY for problem in self._state.problems):
            self._note(ErrorCleared(at=at, key=STORE_KEY))

    def may_write(self, at: float) -> bool:
        """Whether this process may still write the folder; if not, the state is what the other one stored. UNIX s."""
        with self._changed:
            if self._store.read_only:
                return False
            try:
                self._store.check_writer()
            except FolderTaken as error:
                self._taken(error, at)
                self._changed.notify_all()
                return False
            except StoreError:
                pass  # a disk in trouble is told where something is to be stored
            return True

    def _taken(self, error: FolderTaken, at: float) -> None:
        """Another process writes: what only we observed is no record of the folder."""
        self._unstored.clear()
        self._news.clear()
        with contextlib.suppress(StoreError):
            self._state = reduce_all(LabState(), self._store.events())
        self._note(ErrorRaised(at=at, key=TAKEN_KEY, sentence=error.sentence, hint=error.hint))

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
            try:
                self._store.append([*self._unstored, *events], blobs=blobs, snapshot=snapshot)
            except FolderTaken as error:
                self._taken(error, events[-1].at)
                self._changed.notify_all()
                raise
            stored, self._unstored = (*self._unstored, *events), []
            self._state = state
            self._keep(state, stored)
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

    def show(self, state: LabState) -> None:
        """Show another moment of what is recorded; nothing is stored."""
        with self._changed:
            self._state = state
            self._news.append(Refreshed(at=state.refreshed_at or 0.0, cluster_time=state.cluster_time))
            self._changed.notify_all()

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


_PERIOD_S = 0.5


def follow(folder: LabFolder, store: Store, journal: Journal, faults: FaultLog) -> Callable[[], None]:
    """Begin to follow; returns the function that ends it."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(_PERIOD_S):
            try:
                journal.replay(store.news())
                journal.replay(mirrors.sizes(folder, journal.state, time.time()))
            except (StoreError, OSError) as error:
                faults.write(error)

    thread = threading.Thread(target=work, name="labtui-follower", daemon=True)
    thread.start()

    def end() -> None:
        stop.set()
        thread.join(1.0)

    return end
