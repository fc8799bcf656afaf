"""Keeps the state of a lab folder and its store in step, and passes on requests of other processes to the writer.

Any thread may change the state, and any may wait for the next one. A read-only session follows what the writing
process stores. Unexpected exceptions go to a file that the screen names: tracebacks, without values.

A command that runs beside an open window writes a request into a table of the database and waits for its answer. The
process with the folder's lock takes each request in one transaction, so it is acted on once or not at all. A request
that is not taken in time is withdrawn by the process that wrote it.
"""

import contextlib
import datetime
import os
import sqlite3
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import reduce
from pathlib import Path
from typing import Any, Literal

import msgspec

from labtui.cluster.local_files import open_inside, stat_inside
from labtui.domain import decode
from labtui.domain.errors import LabError, StoreError, failure
from labtui.domain.model import AcceptedFinding, SubmissionDraft
from labtui.domain.state import Change, LabState
from labtui.session.store import Store, open_database, store_errors

_MAX_BYTES = 1_000_000


class FaultLog(msgspec.Struct, frozen=True):
    """Appends tracebacks to a file of limited size that only its owner can read, unless the folder is only read."""

    path: Path
    writes: bool = True

    def write(self, error: BaseException) -> None:
        """Write an exception. Never raises: if this file cannot be written, there is no other place for it."""
        text = "".join(traceback.format_exception(error))
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        if not self.writes:
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


class Journal:
    """Holds the current state; every change goes through it."""

    def __init__(self, store: Store, keep: Callable[[LabState, Iterable[str]], None]) -> None:
        """Read the stored state. `keep` is called with the tokens of submissions right after they were stored.

        Raises:
            StoreError: when it cannot be read.
        """
        self._store = store
        self._keep = keep
        self._changed = threading.Condition(threading.RLock())
        self.state = self._stored = store.load()
        self._closed = False

    # ------------------------------------------------------------------ changing

    def change(self, *changes: Change) -> None:
        """Apply and store observations. If the disk is full, they are stored with a later change.

        An observation is true even if it cannot be stored; an *intention* goes through `intend`.
        """
        with self._changed:
            before = self.state
            self.state = reduce(lambda state, change: change(state), changes, before)
            if self.state is not before:
                self._flush()
                self._changed.notify_all()

    def _flush(self) -> None:
        if self._stored is self.state or self._store.refusal is not None:
            return
        try:
            written = self._store.write(self._stored, self.state)
        except StoreError as error:
            self.state = self.state.with_problem(STORE_KEY, error)
            return
        self._stored = self.state
        self._keep(self.state, written)
        if written:
            self.state = self.state.with_problem(STORE_KEY, None)

    def intend(self, *changes: Change, files: Mapping[str, Mapping[str, bytes]] | None = None) -> None:
        """Store intentions before they become state. `files` are those of new submissions, by token.

        Raises:
            StoreError: nothing was stored and the state is as before.
        """
        with self._changed:
            state = reduce(lambda state, change: change(state), changes, self.state)
            written = self._store.write(self._stored, state, files)
            self.state = self._stored = state
            self._keep(state, written)
            self._changed.notify_all()

    def reload(self, mirrored: Change) -> None:
        """Load what another process stored; `mirrored` adds what the mirrors hold.

        Raises:
            StoreError: when it cannot be read.
        """
        with self._changed:
            state = self._store.load() if self._store.changed_elsewhere() else self.state
            self.state = self._stored = mirrored(state)
            self._changed.notify_all()

    # ------------------------------------------------------------------ waiting

    def next_state(self, told: LabState, timeout_s: float | None = None) -> LabState:
        """Wait until the state differs from `told`; return `told` on a time-out or when the journal is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self.state is not told or self._closed, timeout_s)
            return self.state

    def close(self) -> None:
        """Wake all threads that wait in `next_state`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def run_every(
    name: str, period_s: float, work: Callable[[], None], report: Callable[[BaseException], None]
) -> Callable[[], None]:
    """Call `work` every `period_s` seconds in a thread of its own; return the function that ends it.

    `report` gets the errors of `work`, which is called again all the same.
    """
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(period_s):
            try:
                work()
            except Exception as error:
                report(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()

    def end() -> None:
        stop.set()
        thread.join(1.0)

    return end


TAKEN_WITHIN_S = 20.0
"""A request that is not taken within this time is withdrawn."""
ANSWERED_WITHIN_S = 330.0
LOOK_EVERY_S = 0.25

_TABLE = """CREATE TABLE IF NOT EXISTS requests (id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL,
    request TEXT NOT NULL, taken INTEGER NOT NULL DEFAULT 0, answer TEXT)"""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A call of one of the action methods of `Session`, with its arguments; or screens ask for the folder itself."""

    action: Literal[
        "submit", "cancel", "end_after", "hold", "cancel_job", "refresh", "test", "look", "note", "hand-over"
    ]
    run_id: int = 0
    minutes: int = 0
    held: bool = True
    job_id: str = ""
    draft: SubmissionDraft | None = None
    script: str | None = None
    paths: tuple[str, ...] = ()
    seen: Mapping[str, bool | str] = {}
    accepted: tuple[AcceptedFinding, ...] = ()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a request: the submission's `token`, Slurm's answer to a test as JSON, or an error."""

    token: str = ""
    sentence: str = ""
    hint: str = ""


class Mailbox(msgspec.Struct, frozen=True):
    """The requests in the database of one lab folder. Safe for several threads: each call opens its own connection."""

    database: Path

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with store_errors(self.database), contextlib.closing(open_database(self.database.as_uri())) as db:
            db.execute(_TABLE)
            yield db

    def ask(self, request: Request, gone: Callable[[], bool] = bool, within_s: float | None = None) -> str:
        """Write a request and wait for its answer: the token of its submission, Slurm's answer to a test, else "".

        `gone` tells whether the process that holds the folder has ended: then nobody answers. It has `within_s` to take
        the request (default: `TAKEN_WITHIN_S`).

        Raises:
            FolderError: it was not taken, or not answered in time.
            LabError: the error of the other process.
        """
        with self._open() as db:
            new = (time.time(), msgspec.json.encode(request).decode())
            number = db.execute("INSERT INTO requests (at, request) VALUES (?, ?)", new).lastrowid
            began, asked, taken = time.monotonic(), "SELECT taken, answer FROM requests WHERE id = ?", 0
            while True:
                if (row := db.execute(asked, (number,)).fetchone()) is None:  # too old by the other's clock
                    raise failure("not-answered" if taken else "not-taken")
                taken, answer = row
                if answer is not None:
                    db.execute("DELETE FROM requests WHERE id = ?", (number,))
                    found = decode.from_json(answer, Answer)
                    if found.sentence:
                        raise LabError(found.sentence, found.hint)
                    return found.token
                waited = time.monotonic() - began
                withdraw = "DELETE FROM requests WHERE id = ? AND taken = 0"
                late = not taken and waited > (within_s or TAKEN_WITHIN_S)
                if late and db.execute(withdraw, (number,)).rowcount:
                    raise failure("not-taken")
                if waited > ANSWERED_WITHIN_S or (taken and waited > TAKEN_WITHIN_S and gone()):
                    raise failure("not-answered")
                time.sleep(LOOK_EVERY_S / 2)

    def take(self) -> tuple[int, Request] | None:
        """Take the oldest open request, if any; requests left behind by a process that ended are deleted."""
        with self._open() as db:
            db.execute("DELETE FROM requests WHERE at < ?", (time.time() - 2 * ANSWERED_WITHIN_S,))
            row = db.execute(
                "UPDATE requests SET taken = 1 WHERE id = (SELECT min(id) FROM requests WHERE taken = 0 AND at > ?) "
                "RETURNING id, request",
                (time.time() - 2 * TAKEN_WITHIN_S,),
            ).fetchone()
        return (row[0], decode.from_json(row[1], Request)) if row else None

    def answer(self, number: int, token: str, error: BaseException | None = None) -> None:
        """Answer a request with the token of its submission, or with an error."""
        if error is not None and not isinstance(error, LabError):
            error = failure("bug-elsewhere", kind=type(error).__name__)
        answer = Answer(sentence=error.sentence, hint=error.hint) if error else Answer(token=token)
        with self._open() as db:
            text = msgspec.json.encode(answer).decode()
            db.execute("UPDATE requests SET answer = ? WHERE id = ?", (text, number))

    def serve(
        self, act: Callable[[Request], tuple[str, Future[Any]]], report: Callable[[BaseException], None]
    ) -> Callable[[], None]:
        """Act on requests in a thread of its own until the returned function is called.

        `act` returns the token of the submission and a future for the result; "submit" is answered without waiting for
        it. `report` gets the errors of reading and answering requests.
        """

        def work() -> None:
            if (taken := self.take()) is None:
                return
            number, request = taken

            def answered(done: Future[Any]) -> None:
                test = request.action == "test" and done.exception() is None
                said = msgspec.json.encode(done.result()).decode() if test else token
                self.answer(number, said, done.exception())

            try:
                token, future = act(request)
            except Exception as error:
                self.answer(number, "", error)
                if not isinstance(error, LabError):
                    raise
                return
            if request.action == "submit":
                self.answer(number, token)
            else:
                future.add_done_callback(answered)

        return run_every("labtui-mailbox", LOOK_EVERY_S, work, report)
