"""`labtui.db`: a lab folder's state in SQLite tables.

WAL mode; one transaction per change, flushed to disk before `write` returns, so that a killed process or a power cut
loses nothing that was reported as stored. Every failure is a `StoreError` with a sentence, and rolls back its
transaction.
"""

import contextlib
import errno
import math
import os
import sqlite3
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec
from filelock import FileLock
from msgspec.structs import replace

from labtui.cluster.local_files import open_inside
from labtui.domain import decode
from labtui.domain.errors import FolderTaken, LabError, failure
from labtui.domain.state import ConnectionState, LabState, SubmissionState
from labtui.session import records
from labtui.session.folder import digest_of

WRITE_ERRNOS = (errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM)
"""The error numbers of a disk or folder that cannot be written now."""

_WRITER, _SEEN = "writer", "places"


class Store:
    """An open database. Safe for several threads; one process writes at a time (see `opening`)."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open the database at `path`; create or migrate it if needed.

        Raises:
            StoreError: when it is damaged, newer than this program, or cannot be opened.
        """
        self.path = path
        self.refusal: LabError | None = None
        """Why this process may not write; None if it may."""
        self.copy: tempfile.TemporaryDirectory[str] | None = None
        """The temporary folder of a copied database, deleted when the store is closed; else None."""
        self.lock: FileLock | None = None
        """The folder's lock, released when the store is closed; None if another process writes the folder."""
        self._one_thread = threading.RLock()
        self.sources: dict[str, str] = {}
        """What the stored runs of each submission were computed from, by token (see `mirrors.Readings`)."""
        self._seen = -1
        with store_errors(path):
            self._connection = self._open(read_only=read_only)
        if read_only:
            writer = self.writer()
            self.refusal = failure("read-only", writer=writer.name if writer else "Another labtui")

    def _open(self, *, read_only: bool) -> sqlite3.Connection:
        for ending in ("", "-wal", "-shm"):  # SQLite itself follows links
            name = self.path.name + ending
            if self.path.with_name(name).is_symlink():
                raise failure("link", name=name)
        if self.path.exists() and not self.path.is_file():
            raise failure("no-database-file", name=self.path.name)
        if not self.path.exists():
            if read_only:
                raise failure("other-version")
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = open_database(f"{self.path.as_uri()}{'?mode=ro' if read_only else ''}")
        try:
            if read_only:
                if records.version_of(connection) != records.SCHEMA_VERSION:
                    raise failure("other-version")
                return connection
            if records.version_of(connection) > records.SCHEMA_VERSION:
                raise failure("newer")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA journal_size_limit = 1000000")  # after a large data file
            _quick_check(connection)
            records.migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextlib.contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one thread at a time. Errors of SQLite and the disk become StoreError."""
        with self._one_thread, store_errors(self.path):
            yield self._connection

    @contextlib.contextmanager
    def _transaction(self, *, write: bool = True) -> Iterator[sqlite3.Connection]:
        with self._database() as db:
            db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                if write and self.refusal is not None:
                    raise self.refusal
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    # ------------------------------------------------------------------ writing

    def claim(self, follows: str = "") -> None:
        """Record this process, with what it `follows` by (see `records.Writer`), as the writer.

        Raises:
            FolderTaken: this database is a copy of one that may still be in use.
        """
        writer = records.Writer.here(self.path, follows)
        with self._transaction() as db:
            if (last := self.writer()) is not None and writer.copied_from(last):
                original = last.path[: -len(self.path.name) - 1]
                raise failure("copied-folder", path=original, host=last.host)
            row = (_WRITER, msgspec.json.encode(writer).decode())
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", row)

    def write(
        self, before: LabState, after: LabState, files: Mapping[str, Mapping[str, bytes]] | None = None
    ) -> tuple[str, ...]:
        """Store what differs between two states in one transaction; return the tokens of the submissions stored.

        `files` are those of new submissions, by token and path. Runs and mirror sizes are not stored here.

        Raises:
            StoreError: nothing of this call was stored.
        """
        rows: dict[str, str] = {}
        for token, item in after.submissions.items():
            old = before.submissions.get(token)
            if item is not old and (old is None or records.without_sizes(item) != records.without_sizes(old)):
                rows[token] = records.with_checksum(records.without_sizes(item))
        seen = records.last_seen(after)
        if not rows and seen == records.last_seen(before) and not files:
            return ()

        with self._transaction() as db:
            db.executemany(records.KEEP_SUBMISSION, rows.items())
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_SEEN, records.with_checksum(seen)))
            for token, contents in (files or {}).items():
                for path, data in contents.items():
                    digest = digest_of(data)
                    db.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (digest, data))
                    db.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", (token, path, digest))
        return tuple(rows)

    def write_readings(self, state: LabState, sources: Mapping[str, str]) -> None:
        """Store the runs of these submissions; `sources` says by token what they were computed from.

        Raises:
            StoreError: as `write`.
        """
        rows = []
        for token, source in sources.items():
            runs = tuple(state.runs[number] for number in state.submissions[token].run_ids)
            rows.append((token, records.with_checksum(records.Reading(source=source, runs=runs))))
        with self._transaction() as db:
            db.executemany("INSERT OR REPLACE INTO readings VALUES (?, ?)", rows)
        self.sources.update(sources)

    def forget_readings(self, but: Collection[str] = ()) -> None:
        """Delete the stored runs `but` those of these tokens: they are computed again from the mirrors."""
        with self._transaction() as db:
            rows = db.execute("SELECT token FROM readings").fetchall()
            db.executemany("DELETE FROM readings WHERE token = ?", [row for row in rows if row[0] not in but])

    # ------------------------------------------------------------------ reading

    def load(self) -> LabState:
        """The stored state: the submissions, and their runs as last computed.

        Raises:
            StoreError: when the database or a row in it is damaged.
        """
        with self._transaction(write=False) as db:
            self._seen = _data_version(db)
            submissions = db.execute("SELECT token, data FROM submissions ORDER BY rowid").fetchall()
            readings = db.execute("SELECT token, data FROM readings").fetchall()
            last = db.execute("SELECT value FROM meta WHERE key = ?", (_SEEN,)).fetchall()
        state = LabState(connection=ConnectionState(since=math.inf))
        for token, data in submissions:
            state = state.with_planned(_decoded(SubmissionState, token, data))
        read = {token: _decoded(records.Reading, token, data) for token, data in readings}
        for token, reading in read.items():
            submission, job_id = state.submissions.get(token), reading.source.partition(" ")[0]
            job = submission.job if submission is not None else None
            # those of another job do not count; readings of earlier versions do not say and count
            if job is not None and job_id in ("", job.job_id):
                state = state.with_runs(reading.runs)
        self.sources = {token: reading.source for token, reading in read.items()}
        for (data,) in last:
            seen = _decoded(LabState, _SEEN, data)
            kept = {"choices": seen.choices, "last_run": max(seen.last_run, state.last_run)}
            # whose copy this is tells nothing to this one; a writer is not connected yet
            if self.copy is None and not isinstance(self.refusal, FolderTaken):
                own = {} if self.refusal is not None else {"connection": state.connection, "problems": ()}
                state = replace(seen, submissions=state.submissions, runs=state.runs, **own)
            state = replace(state, paths=MappingProxyType(seen.paths), **kept)
        return state

    def changed_elsewhere(self) -> bool:
        """Whether another process stored anything since `load`."""
        with self._database() as db:
            return _data_version(db) != self._seen

    def snapshot(self, token: str) -> dict[str, bytes]:
        """The files of a submission at the time it was planned, by relative path.

        Raises:
            StoreError: when one of them is damaged.
        """
        ask = "SELECT path, hash, data FROM snapshots LEFT JOIN blobs USING (hash) WHERE token = ?"
        with self._database() as db:
            rows = db.execute(ask, (token,)).fetchall()
        return {str(path): _content(digest, data) for path, digest, data in rows}

    def writer(self) -> records.Writer | None:
        """The last recorded writer; None in a folder of an older labtui."""
        with self._database() as db:
            row = db.execute("SELECT value FROM meta WHERE key = ?", (_WRITER,)).fetchone()
        try:
            return decode.from_json(row[0], records.Writer) if row else None
        except (msgspec.MsgspecError, TypeError):
            return None

    def is_empty(self) -> bool:
        """Whether the database holds no submission."""
        with self._database() as db:
            return db.execute("SELECT 1 FROM submissions LIMIT 1").fetchone() is None

    def check(self) -> None:
        """Check the whole database by reading it.

        Raises:
            StoreError: when anything in the database is damaged.
        """
        self.load()
        files = "SELECT hash, data FROM (SELECT DISTINCT hash FROM snapshots) LEFT JOIN blobs USING (hash)"
        with self._database() as db:
            _quick_check(db)
            for digest, data in db.execute(files):
                _content(digest, data)

    def copy_to(self, target: Path) -> None:
        """Write a complete copy without a recorded writer.

        Raises:
            StoreError: it could not be written, or the database is damaged; there is no copy then.
        """
        try:
            with self._database() as db:
                os.close(open_inside(target.parent, target, os.O_CREAT | os.O_WRONLY | os.O_TRUNC))
                with contextlib.closing(open_database(target.as_uri())) as copy:
                    db.backup(copy)
                    copy.execute("DELETE FROM meta WHERE key = ?", (_WRITER,))
                    copy.execute("PRAGMA journal_mode = DELETE")  # reading it leaves no files beside it
                with contextlib.closing(Store(target, read_only=True)) as copy_of_all:
                    copy_of_all.check()
        except BaseException:
            with contextlib.suppress(OSError):
                target.unlink(missing_ok=True)
            raise

    def back_up(self) -> None:
        """Write a backup beside the database, from which `labtui repair` starts.

        Raises:
            StoreError: as `copy_to`; the previous backup stays.
        """
        target = backup_path(self.path)
        part = target.with_name(f"{target.name}.part")
        self.copy_to(part)
        with store_errors(self.path):
            part.replace(target)

    def close(self) -> None:
        """Close the database; the last process to do so merges the write-ahead log into it."""
        with self._one_thread:
            self._connection.close()
            if self.copy is not None:
                self.copy.cleanup()
        if self.lock is not None:
            self.lock.release()


@contextlib.contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and the disk into StoreError; a damaged file may raise UnicodeError, too."""
    try:
        yield
    except (sqlite3.Error, UnicodeError) as error:
        code = getattr(error, "sqlite_errorname", "")
        reason = next((_REASONS[part] for part in _REASONS if part in code), "damaged")
        raise failure(reason, name=path.name, text=error) from error
    except OSError as error:
        reason = "no-writing" if error.errno in WRITE_ERRNOS else "cannot-open"
        raise failure(reason, name=path.name, text=error.strerror) from error


def _data_version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA data_version").fetchone()[0])


def open_database(uri: str) -> sqlite3.Connection:
    """Open a connection for any thread, in autocommit mode."""
    if not uri.startswith("file:///"):  # a Windows share: SQLite wants its server in the path
        uri = uri.replace("file://", "file:////", 1)
    return sqlite3.connect(uri, uri=True, timeout=5.0, isolation_level=None, check_same_thread=False)


_REASONS = {
    "FULL": "disk-full", "SHMSIZE": "disk-full", "BUSY": "busy", "LOCKED": "busy", "READONLY": "closed-database",
    "CANTOPEN": "closed-database", "LOCK": "cannot-lock", "IOERR": "no-writing",
}  # fmt: skip
"""Why SQLite fails, by the first of these that is part of the error's name."""


def backup_path(path: Path) -> Path:
    """The path of a database's backup."""
    return path.with_name(f"{path.name}.backup")


def _decoded(kind: type[decode.T], of: object, data: object) -> decode.T:
    try:
        return records.from_json(records.without_checksum(data), kind)
    except (ValueError, RecursionError) as error:
        raise failure("damaged", text=f"what is stored of {of} cannot be read") from error


def _content(digest: object, data: object) -> bytes:
    """A file's content, checked against its digest."""
    if not isinstance(data, bytes) or digest_of(data) != digest:
        raise failure("damaged", text="a stored file differs")
    return data


def _quick_check(db: sqlite3.Connection) -> None:
    if db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise failure("damaged", text="quick_check")
