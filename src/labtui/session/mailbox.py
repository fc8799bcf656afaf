"""What other processes ask of the one that holds a folder's connection: rows beside the store's own.

A command beside an open window writes a request and waits for the answer. The process with the folder's lock takes a
row in one transaction, so it is acted on once or not at all; what nobody took in time is withdrawn by who asked.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal

import msgspec

from labtui.domain.errors import FolderError, LabError, StoreError
from labtui.domain.model import AcceptedFinding, SubmissionDraft
from labtui.session.journal import repeat

TAKEN_WITHIN_S = 20.0
"""A request that nobody took for so long is withdrawn."""
ANSWERED_WITHIN_S = 330.0
LOOK_EVERY_S = 0.25

_TABLE = """CREATE TABLE IF NOT EXISTS requests (id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL,
    request TEXT NOT NULL, taken INTEGER NOT NULL DEFAULT 0, answer TEXT)"""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One action of `Session`, by its name, with what it is given."""

    action: Literal["submit", "cancel", "end_after", "hold", "cancel_job"]
    run_id: int = 0
    minutes: int = 0
    held: bool = True
    job_id: str = ""
    draft: SubmissionDraft | None = None
    script: str | None = None
    accepted: tuple[AcceptedFinding, ...] = ()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """That it was done, to which submission; or why not."""

    token: str = ""
    sentence: str = ""
    hint: str = ""


class Mailbox:
    """The requests of one lab folder. Safe for one thread."""

    def __init__(self, database: Path) -> None:
        self._path = database

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with contextlib.closing(sqlite3.connect(self._path, timeout=5.0, isolation_level=None)) as db:
                db.execute(_TABLE)
                yield db
        except sqlite3.Error as error:
            raise StoreError(
                f"The request to the other labtui cannot be stored: {error}.", "Do it in the other window."
            ) from error

    def ask(self, request: Request) -> str:
        """Put a request down and wait for its answer: the token of the submission it is about.

        Raises:
            FolderError: nobody took it, or there was no answer in time; LabError: what the other process says.
        """
        with self._open() as db:
            row = (time.time(), msgspec.json.encode(request).decode())
            number = db.execute("INSERT INTO requests (at, request) VALUES (?, ?)", row).lastrowid
            began = time.monotonic()
            while True:
                taken, answer = db.execute(
                    "SELECT taken, answer FROM requests WHERE id = ?", (number,)
                ).fetchone() or (1, None)
                if answer is not None:
                    db.execute("DELETE FROM requests WHERE id = ?", (number,))
                    found = msgspec.json.decode(answer, type=Answer)
                    if found.sentence:
                        raise LabError(found.sentence, found.hint)
                    return found.token
                waited = time.monotonic() - began
                if not taken and waited > TAKEN_WITHIN_S and _withdrawn(db, number):
                    raise FolderError(
                        "The labtui that has this folder open does not answer; nothing was done.",
                        "Close it, then run the command again.",
                    )
                if waited > ANSWERED_WITHIN_S:
                    raise FolderError(
                        "The labtui that has this folder open took the request and gave no answer yet.",
                        "`labtui queue` shows what comes of it.",
                    )
                time.sleep(LOOK_EVERY_S / 2)

    def take(self) -> tuple[int, Request] | None:
        """The oldest request that nobody took; what was left behind by a process that is gone is dropped."""
        with self._open() as db:
            db.execute("DELETE FROM requests WHERE at < ?", (time.time() - 2 * ANSWERED_WITHIN_S,))
            row = db.execute(
                "UPDATE requests SET taken = 1 WHERE id = (SELECT min(id) FROM requests WHERE taken = 0 AND at > ?) "
                "RETURNING id, request",
                (time.time() - 2 * TAKEN_WITHIN_S,),
            ).fetchone()
        return (row[0], msgspec.json.decode(row[1], type=Request)) if row else None

    def put(self, number: int, answer: Answer) -> None:
        """Answer a request."""
        with self._open() as db:
            text = msgspec.json.encode(answer).decode()
            db.execute("UPDATE requests SET answer = ? WHERE id = ?", (text, number))


def _withdrawn(db: sqlite3.Connection, number: int | None) -> bool:
    return db.execute("DELETE FROM requests WHERE id = ? AND taken = 0", (number,)).rowcount == 1


def serve(
    database: Path,
    act: Callable[[Request], tuple[str, Future[Any]]],
    report: Callable[[BaseException], None],
) -> Callable[[], None]:
    """Act on requests in a thread of its own until the returned function is called.

    `act` gives the token of the submission and what is done when it is done; one that is submitted is answered at once.
    `report` hears of what went wrong here.
    """
    box = Mailbox(database)

    def work() -> None:
        if (taken := box.take()) is None:
            return
        number, request = taken
        try:
            token, future = act(request)
        except LabError as error:
            box.put(number, Answer(sentence=error.sentence, hint=error.hint))
            return
        if request.action == "submit":
            box.put(number, Answer(token=token))
        else:
            future.add_done_callback(lambda done: box.put(number, _answer(token, done)))

    return repeat("labtui-mailbox", LOOK_EVERY_S, work, report)


def _answer(token: str, done: Future[Any]) -> Answer:
    error = done.exception()
    if error is None:
        return Answer(token=token)
    if isinstance(error, LabError):
        return Answer(sentence=error.sentence, hint=error.hint)
    return Answer(sentence=f"The other labtui failed ({type(error).__name__}).")
