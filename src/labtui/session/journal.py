"""Store, state and subscribers, kept in step.

Every thread may change the state. Subscribers are called from one background thread of the journal, never from the
thread that changed it. A read-only session follows what the writing process stores.
Unexpected exceptions go to a file that the screen names: type, text and places in the code, no values.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from labtui.cluster.local_files import open_inside, stat_inside
from labtui.domain.errors import LabError, StoreError
from labtui.domain.state import Change, LabState
from labtui.session.store import Store

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


@dataclass(frozen=True, slots=True)
class Update:
    """What subscribers get: the state they were told last, and the latest."""

    before: LabState
    state: LabState


Subscriber = Callable[[Update], None]


class Journal:
    """The only way to change the state."""

    def __init__(
        self,
        store: Store,
        on_subscriber_error: Callable[[BaseException], None],
        keep: Callable[[LabState, Iterable[str]], None] = lambda state, tokens: None,
    ) -> None:
        """Read what is stored. `keep` is told which submissions were stored, at once.

        Raises:
            StoreError: when it cannot be read.
        """
        self._store = store
        self._on_error = on_subscriber_error
        self._keep = keep
        self._changed = threading.Condition(threading.RLock())
        self._state = self._stored = self._told = store.load()
        self._subscribers: list[Subscriber] = []
        self._closing = False
        self._thread: threading.Thread | None = None

    @property
    def state(self) -> LabState:
        return self._state

    # ------------------------------------------------------------------ changing

    def change(self, *changes: Change) -> None:
        """Take up what was observed, and store it. If the disk is full it is stored with a later change.

        What was observed is true whether it can be stored or not; what is *intended* goes through `intend`.
        """
        with self._changed:
            before, self._state = self._state, _after(self._state, changes)
            if self._state is not before:
                self._flush()
                self._changed.notify_all()

    def _flush(self) -> None:
        if self._stored is self._state or self._store.read_only:
            return
        try:
            written = self._store.write(self._stored, self._state)
        except StoreError as error:
            self._state = self._state.with_problem(STORE_KEY, error)
            return
        self._stored = self._state
        self._keep(self._state, written)
        if written:
            self._state = self._state.without_problem(STORE_KEY)

    def intend(self, *changes: Change, files: Mapping[str, Mapping[str, bytes]] | None = None) -> None:
        """Store intents, with the files of new submissions by token; only what is on disk becomes state.

        Raises:
            StoreError: nothing was stored and the state is as before.
        """
        with self._changed:
            state = _after(self._state, changes)
            written = self._store.write(self._stored, state, files)
            self._state = self._stored = state
            self._keep(state, written)
            self._changed.notify_all()

    def look(self, mirrored: Change) -> None:
        """Take up what another process stored, and what its mirrors tell beyond that.

        Raises:
            StoreError: when it cannot be read.
        """
        with self._changed:
            state = self._state
            if self._store.changed():
                state = replace(self._store.load(), connection=state.connection, problems=state.problems)
            self._state = self._stored = mirrored(state)
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
                self._changed.wait_for(lambda: self._told is not self._state or self._closing)
                if self._closing and self._told is self._state:
                    return
                update = Update(self._told, self._state)
                self._told = self._state
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


def _after(state: LabState, changes: Iterable[Change]) -> LabState:
    for change in changes:
        state = change(state)
    return state


def repeat(
    name: str, period_s: float, work: Callable[[], None], report: Callable[[BaseException], None]
) -> Callable[[], None]:
    """Do `work` again and again in a thread of its own; returns the function that ends it.

    `report` hears of what went wrong with the database or with what another process wrote there.
    """
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(period_s):
            try:
                work()
            except (LabError, OSError, msgspec.MsgspecError) as error:
                report(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()

    def end() -> None:
        stop.set()
        thread.join(1.0)

    return end
