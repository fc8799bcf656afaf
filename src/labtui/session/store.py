"""`labtui.db`: the events, safe against everything but the disk itself.

SQLite in WAL mode; one transaction per commit, flushed to disk before `append` returns, so that a killed process
or a cut of power loses nothing that was said to be stored. Every failure is a `StoreError` with a sentence; after
one nothing of the transaction is in the file.
"""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from labtui.cluster.local_files import open_inside
from labtui.domain.errors import FolderTaken, NotWritable, StoreError
from labtui.domain.events import TRANSIENT, AnyEvent, LogGrew
from labtui.session.writer import NO_WRITING, Writer, copied, replaced

_T = TypeVar("_T")

_V1 = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, type TEXT NOT NULL,
        data TEXT NOT NULL)""",
)
_V2 = (
    "CREATE TABLE blobs (hash TEXT PRIMARY KEY, data BLOB NOT NULL)",
    "CREATE TABLE snapshots (token TEXT, path TEXT, hash TEXT NOT NULL, PRIMARY KEY (token, path))",
)
_V3 = tuple(f"DROP TABLE IF EXISTS {table}" for table in ("epochs", "runs", "jobs", "submissions"))
MIGRATIONS: dict[int, tuple[str, ...]] = {1: _V1, 2: _V2, 3: _V3}
"""What leads to each version from the one before. Versions 1 and 2 also had tables that only repeated the events."""
SCHEMA_VERSION = max(MIGRATIONS)
_FILES_SINCE = 2
_ABSURD_VERSION = 1000
"""No labtui will ever write it: the number itself is damaged."""

_MIGRATION_S = 3.0
_WRITER = "writer"


_decoder = msgspec.json.Decoder(AnyEvent, strict=False)


def encode_event(event: AnyEvent) -> bytes:
    """One event as JSON without line breaks: as it is stored, and as `labtui follow --json` prints it."""
    return msgspec.json.encode(_words_for_non_finite(msgspec.to_builtins(event)))


def decode_event(line: bytes | str) -> AnyEvent:
    """The event of one stored line.

    Raises:
        ValueError: when the line is not an event of ours (`msgspec.DecodeError` is one).
    """
    return cast("AnyEvent", _decoder.decode(line))


def _words_for_non_finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _words_for_non_finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_words_for_non_finite(item) for item in value]
    return value


def is_stored(event: AnyEvent) -> bool:
    """Whether an event outlives the moment. That a log is complete does; that it grew does not."""
    return not isinstance(event, TRANSIENT) or (isinstance(event, LogGrew) and event.complete)


class Store:
    """An open database. Safe to use from several threads; one process writes at a time (see `writer`)."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open, make or migrate the database at `path`.

        Raises:
            StoreError: when it is damaged, newer than this program, or cannot be opened.
        """
        self.path = path
        self.read_only = read_only
        self.taken: FolderTaken | None = None
        """Why this process may not write although the folder's lock would let it."""
        self.copy: tempfile.TemporaryDirectory[str] | None = None
        """Where the database lies when it is a copy that goes with this store."""
        self._writer: Writer | None = None
        self._lock = threading.RLock()
        self._last_id = 0
        self._connection = self._translated(self._open)

    def _open(self) -> sqlite3.Connection:
        if self.read_only:
            deadline = time.monotonic() + _MIGRATION_S
            if not _wait_until(self.path.exists, deadline):
                raise StoreError(
                    "The lab folder has no database yet, and another labtui has the folder open.",
                    "Close the other labtui, then open the folder again.",
                )
            connection = _connect(f"{self.path.as_uri()}?mode=ro")
            _wait_until(lambda: version_of(connection) >= SCHEMA_VERSION, deadline)
            if version_of(connection) != SCHEMA_VERSION:
                connection.close()
                raise StoreError(
                    "The database was made by another version of labtui and can only be changed by one process.",
                    "Close the other labtui, then open the folder again.",
                )
            return connection
        for ending in ("", "-wal", "-shm"):  # SQLite itself follows links
            _refuse_link(self.path.with_name(self.path.name + ending))
        if not self.path.exists():
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = _connect(self.path.as_uri())
        if version_of(connection) > _ABSURD_VERSION:
            connection.close()
            raise _damaged("its version")
        if version_of(connection) > SCHEMA_VERSION:
            connection.close()
            raise StoreError(
                "This lab folder was used with a newer labtui.",
                "Update labtui: `pip install --upgrade labtui`.",
            )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            connection.close()
            raise sqlite3.DatabaseError("database disk image is malformed")
        migrate(connection)
        return connection

    # ------------------------------------------------------------------ writing

    def claim(self) -> None:
        """Become the process that writes; whoever wrote before finds out with its next transaction.

        Raises:
            FolderTaken: this database is a copy; it is not ours to write.
        """
        writer = Writer.here(self.path)

        def work() -> None:
            with self._transaction() as db:
                last = _writer_in(db)
                if last is not None and writer.copied_from(last):
                    raise copied(last)
                db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_WRITER, _encode(writer)))

        with self._lock:
            self._translated(work)
            self._writer = writer

    def check_writer(self) -> None:
        """Whether this process may still write.

        Raises:
            FolderTaken: another process claimed the folder; from then on this store is read-only.
        """
        if self.taken is not None:
            raise self.taken
        if self._writer is not None:
            with self._lock:
                self._translated(lambda: self._still_ours(self._connection))

    def _still_ours(self, db: sqlite3.Connection) -> None:
        if self._writer is None:
            return
        now = _writer_in(db)
        if now is None or now.key != self._writer.key:
            self.taken, self.read_only = replaced(now), True
            raise self.taken

    def append(
        self,
        events: Sequence[AnyEvent],
        *,
        blobs: Mapping[str, bytes] | None = None,
        snapshot: Mapping[str, Mapping[str, str]] | None = None,
    ) -> int:
        """Store events in one transaction.

        `blobs` are file contents by SHA-256 hex digest, `snapshot` path -> digest by token. Events of the moment
        are left out. Returns the id of the last stored event.

        Raises:
            StoreError: nothing of this call was stored; FolderTaken: nothing ever will be by this process.
        """
        kept = [event for event in events if is_stored(event)]
        if not kept and not blobs and not snapshot:
            return self._last_id
        with self._lock:
            self._translated(lambda: self._append(kept, blobs or {}, snapshot or {}))
            return self._last_id

    def _append(
        self,
        events: Sequence[AnyEvent],
        blobs: Mapping[str, bytes],
        snapshot: Mapping[str, Mapping[str, str]],
    ) -> None:
        with self._transaction() as db:
            last = self._last_id
            for event in events:
                row = (event.at, str(type(event).__struct_config__.tag), _with_checksum(encode_event(event)))
                last = (
                    db.execute("INSERT INTO events (at, type, data) VALUES (?, ?, ?)", row).lastrowid or last
                )
            db.executemany("INSERT OR IGNORE INTO blobs VALUES (?, ?)", blobs.items())
            for token, paths in snapshot.items():
                rows = [(token, path, digest) for path, digest in paths.items()]
                db.executemany("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", rows)
        self._last_id = last

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._still_ours(self._connection)
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    # ------------------------------------------------------------------ reading

    def events(self, after: int = 0) -> list[AnyEvent]:
        """The stored events after the one with this id, in order; later calls know what was already seen.

        Raises:
            StoreError: when the database or an event in it is damaged.
        """
        with self._lock:
            rows = self._translated(
                lambda: self._connection.execute(
                    "SELECT id, data FROM events WHERE id > ? ORDER BY id", (after,)
                ).fetchall()
            )
            events = [_decoded(row_id, data) for row_id, data in rows]
            if rows:
                self._last_id = max(self._last_id, rows[-1][0])
            return events

    def news(self) -> list[AnyEvent]:
        """The events stored since the last call, by whichever process."""
        return self.events(self._last_id)

    def snapshot(self, token: str) -> dict[str, bytes]:
        """The files of a submission as they were when it was planned, by relative path.

        Raises:
            StoreError: when one of them is damaged.
        """
        with self._lock:
            rows = self._translated(
                lambda: self._connection.execute(
                    "SELECT path, hash, data FROM snapshots LEFT JOIN blobs USING (hash) WHERE token = ?",
                    (token,),
                ).fetchall()
            )
        return {str(path): _content(digest, data) for path, digest, data in rows}

    def back_up(self) -> None:
        """Keep a whole copy beside the database, from which `labtui repair` starts.

        Raises:
            StoreError: it could not be written, or the database is damaged; the copy before stays.
        """
        target = backup_path(self.path)
        part = target.with_name(f"{target.name}.part")

        def work() -> None:
            if target.exists() and target.stat().st_mtime_ns >= self._changed_at_ns():
                return
            os.close(open_inside(part.parent, part, os.O_CREAT | os.O_WRONLY | os.O_TRUNC))
            with self._lock, contextlib.closing(_connect(part.as_uri())) as copy:
                self._connection.backup(copy)
            read_whole(part)
            part.replace(target)

        try:
            self._translated(work)
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)

    def _changed_at_ns(self) -> int:
        paths = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return max((path.stat().st_mtime_ns for path in paths if path.exists()), default=0)

    def close(self) -> None:
        """Close the file; the last one to close folds the write-ahead log into it."""
        with self._lock:
            self._connection.close()
            if self.copy is not None:
                self.copy.cleanup()

    def _translated(self, work: Callable[[], _T]) -> _T:
        try:
            return work()
        except _DAMAGE as error:
            raise _explained(error) from error
        except OSError as error:
            kind = NotWritable if error.errno in NO_WRITING else StoreError
            raise kind(f"{self.path.name} cannot be opened: {error.strerror}.") from error


def _encode(writer: Writer) -> str:
    return msgspec.json.encode(writer).decode()


def _writer_in(db: sqlite3.Connection) -> Writer | None:
    """The process that claimed the folder last; None in a folder of an older labtui."""
    row = db.execute("SELECT value FROM meta WHERE key = ?", (_WRITER,)).fetchone()
    try:
        return msgspec.json.decode(row[0], type=Writer) if row else None
    except (msgspec.MsgspecError, TypeError):
        return None


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise StoreError(
            f"{path.name} is a link, and labtui follows none in a lab folder.", "Put a file there."
        )


def _wait_until(condition: Callable[[], bool], deadline: float) -> bool:
    """Wait for the process that writes: it may be making or migrating the database just now."""
    while not (true := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return true


def _connect(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, timeout=5.0, isolation_level=None, check_same_thread=False)


_DAMAGE = (sqlite3.Error, UnicodeError)
"""What SQLite raises; names inside a damaged file may not even be text."""


def _explained(error: Exception) -> StoreError:
    text = str(error).lower()
    if "disk is full" in text or "disk i/o" in text:
        return NotWritable(
            "The disk of this computer is full: the lab folder cannot be written.",
            "Free some space. Nothing is lost: labtui keeps trying and the cluster keeps its logs.",
        )
    if "malformed" in text or "not a database" in text or "corrupt" in text:
        return _damaged(str(error))
    if "locked" in text:
        return StoreError("The lab folder's database is busy.", "Is another program reading it? Try again.")
    if "readonly" in text or "unable to open" in text:
        return NotWritable(
            f"The lab folder's database cannot be opened for writing: {error}.",
            "Check who owns the folder, and its permissions.",
        )
    return _damaged(str(error))


def _damaged(what: str) -> StoreError:
    return StoreError(
        f"The lab folder's database is damaged ({what}).",
        "`labtui repair` rebuilds it from the logs and job scripts; nothing else is touched.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Everything in a database: events, file contents by digest, and path -> digest by token."""

    events: tuple[AnyEvent, ...] = ()
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    snapshots: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def read_whole(path: Path) -> Stored:
    """Everything in a database, whichever version made it; nothing is changed.

    Raises:
        StoreError: when any of it is damaged.
    """
    try:
        with contextlib.closing(_connect(f"{path.as_uri()}?mode=ro")) as db:
            if db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise _damaged("quick_check")
            rows = db.execute("SELECT id, data FROM events ORDER BY id").fetchall()
            events = tuple(_decoded(row_id, data) for row_id, data in rows)
            if version_of(db) < _FILES_SINCE:
                return Stored(events=events)
            blobs = {digest: _content(digest, data) for digest, data in db.execute("SELECT * FROM blobs")}
            snapshots: dict[str, dict[str, str]] = {}
            for token, name, digest in db.execute("SELECT token, path, hash FROM snapshots"):
                if digest not in blobs:
                    raise _damaged(f"the files of {token}")
                snapshots.setdefault(str(token), {})[str(name)] = digest
    except _DAMAGE as error:
        raise _explained(error) from error
    return Stored(events=events, blobs=blobs, snapshots=snapshots)


def backup_path(path: Path) -> Path:
    """Where the last whole copy of a database lies."""
    return path.with_name(f"{path.name}.backup")


def _decoded(row_id: int, data: object) -> AnyEvent:
    try:
        return decode_event(_checked(data))
    except ValueError as error:
        raise _damaged(f"event {row_id} cannot be read") from error


def _content(digest: object, data: object) -> bytes:
    """A file's content as it was stored."""
    import hashlib  # costs time, and the first paint needs no digest

    if not isinstance(data, bytes) or hashlib.sha256(data).hexdigest() != digest:
        raise _damaged("a stored file differs")
    return data


def _with_checksum(line: bytes) -> str:
    """An event's line, and below it its CRC-32 in hexadecimal: a byte that turned would else be another number."""
    return f"{line.decode()}\n{zlib.crc32(line):08x}"


def _checked(data: object) -> str:
    """The event's line of a stored row. Rows of earlier versions have no checksum.

    Raises:
        ValueError: when the line is not the one that was stored.
    """
    if not isinstance(data, str):
        raise ValueError("it is no text")
    line, mark, checksum = data.partition("\n")
    if mark and f"{zlib.crc32(line.encode()):08x}" != checksum:
        raise ValueError("its checksum differs")
    return line


def version_of(connection: sqlite3.Connection) -> int:
    """The schema version of an open database; 0 when it is empty."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection) -> bool:
    """Bring a database to the current version in one transaction; says whether anything was done."""
    present = version_of(connection)
    if present >= SCHEMA_VERSION:
        return False
    connection.execute("BEGIN IMMEDIATE")
    try:
        for version in range(present + 1, SCHEMA_VERSION + 1):
            for statement in MIGRATIONS[version]:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION:d}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return True
