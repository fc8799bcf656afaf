"""A lab folder's state as stored text: in the database's rows, and in a JSON file beside each job script.

`labtui repair` rebuilds a database from these files. They are written at every change of a submission, after the
database; a file that cannot be written is skipped. Lab folders of schema 1 to 3 kept a log of events, which is
converted when such a folder is opened.
"""

import contextlib
import json
import os
import platform
import sqlite3
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from labtui.domain import decode
from labtui.domain.errors import FolderError
from labtui.domain.state import LabState, RunState, SubmissionState
from labtui.session.folder import LabFolder


def without_sizes(submission: SubmissionState) -> SubmissionState:
    """A submission as it is stored: without the sizes of its mirrors, which are read from disk."""
    return replace(submission, logs={name: replace(log, size=0) for name, log in submission.logs.items()})


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a submission as read from its logs; `source` identifies the bytes they were read from."""

    source: str = ""
    runs: tuple[RunState, ...]


def last_seen(state: LabState) -> LabState:
    """What is stored of a state beside submissions and runs: paths, and for processes beside the writer, its moment."""
    return replace(state, submissions={}, runs={}, paths=dict(state.paths))


def to_json(value: SubmissionState | Reading | LabState) -> bytes:
    """One line of JSON, with NaN and Infinity allowed: a loss can be either."""
    return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()


def from_json(line: bytes | str, kind: type[decode.T]) -> decode.T:
    """The value of a line.

    Raises:
        ValueError: when it is not of this kind (`msgspec.DecodeError` is a ValueError).
    """
    value = decode.convert(json.loads(line), kind, strict=False)
    if isinstance(value, SubmissionState) and len(value.runs) != len(value.run_ids):
        raise ValueError("its runs are not those of its numbers")
    return value


def with_checksum(value: SubmissionState | Reading | LabState) -> str:
    """A row's text: the line and, below it, its CRC-32, which detects a damaged byte that still decodes."""
    line = to_json(value)
    return f"{line.decode()}\n{zlib.crc32(line):08x}"


def without_checksum(data: object) -> str:
    """The line of a row's text; rows of the oldest databases have no CRC.

    Raises:
        ValueError: when the text is damaged.
    """
    if not isinstance(data, str):
        raise ValueError("it is no text")
    line, mark, checksum = data.partition("\n")
    if mark and f"{zlib.crc32(line.encode()):08x}" != checksum:
        raise ValueError("its checksum differs")
    return line


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """What last opened the database for writing: computer, path and inode, and the process.

    `follows` is the name of a command that only follows runs and hands the folder over to screens; "" for others.
    """

    host: str
    path: str
    inode: int
    pid: int = 0
    follows: str = ""

    @classmethod
    def here(cls, database: Path, follows: str = "") -> "Writer":
        path, inode = os.fsencode(database).decode("utf-8", "backslashreplace"), database.stat().st_ino
        return cls(host=platform.node(), path=path, inode=inode, pid=os.getpid(), follows=follows)

    @property
    def name(self) -> str:
        """``Another labtui (process 4711)``, for example."""
        there = "" if self.host == platform.node() else f" on {self.host}"
        what = f"`labtui {self.follows}`" if self.follows else "Another labtui"
        return f"{what} (process {self.pid}{there})"

    def copied_from(self, last: "Writer") -> bool:
        """Whether this database is a copy of the one that `last` names.

        A moved folder keeps its inode and a restored one its path; a copy keeps neither.
        """
        return (self.host, self.path) != (last.host, last.path) and self.inode != last.inode


# --------------------------------------------------------------------------- files beside the job scripts

MAX_FILE_BYTES = 4_000_000


def file_of(folder: LabFolder, submission: SubmissionState) -> Path:
    """The path of a submission's JSON file."""
    return folder.inside(submission.script_file).with_suffix(".json")


def keep_files(folder: LabFolder, state: LabState, tokens: Iterable[str]) -> None:
    """Write the JSON files of these submissions."""
    for token in tokens:
        with contextlib.suppress(FolderError, OSError):
            sent = state.submissions[token]
            folder.write(file_of(folder, sent), to_json(without_sizes(sent)) + b"\n")


def read_files(folder: LabFolder) -> tuple[SubmissionState, ...]:
    """The submissions of all readable JSON files, in the order in which they were planned."""
    found = []
    for path in folder.slurm.glob("*.json") if folder.slurm.is_dir() else ():
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if path.stat().st_size > MAX_FILE_BYTES:
                continue
            item = from_json(folder.read(path), SubmissionState)
            if file_of(folder, item) == path:
                found.append(item)
    return tuple(sorted(found, key=lambda item: (item.planned_at, item.run_ids)))


# --------------------------------------------------------------------------- the tables


SCHEMA_VERSION = 5
"""Versions 1 to 3 kept a log of events; 4 was never released."""
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS submissions (token TEXT PRIMARY KEY, data TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS readings (token TEXT PRIMARY KEY, data TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS blobs (hash TEXT PRIMARY KEY, data BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS snapshots (token TEXT, path TEXT, hash TEXT NOT NULL, PRIMARY KEY (token, path))",
)
"""A submission is one row, each of its files one row by digest. `readings` holds the runs computed from mirrors."""
_EVENT_TABLES = ("events", "epochs", "runs", "jobs", "submissions")
"""The tables of schema 1 to 3."""
KEEP_SUBMISSION = (
    "INSERT INTO submissions VALUES (?, ?) ON CONFLICT (token) DO UPDATE SET data = excluded.data"
)


_COMPUTED = """SELECT m.name FROM sqlite_master AS m LEFT JOIN pragma_table_xinfo(m.name) AS c
    WHERE m.type NOT IN ('table', 'index') OR c.hidden OR m.sql LIKE '%CHECK%'"""
"""Views, triggers and columns that compute: reading them may never end."""


def version_of(db: sqlite3.Connection) -> int:
    """The schema version of an open database; 0 when it is empty.

    Raises:
        sqlite3.DatabaseError: when it holds anything but stored rows.
    """
    if (found := db.execute(_COMPUTED).fetchone()) is not None:
        raise sqlite3.DatabaseError(f"{found[0]} is no plain table")
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def migrate(db: sqlite3.Connection) -> None:
    """Bring a database to the current version in one transaction.

    Raises:
        sqlite3.DatabaseError: when it is damaged; then nothing was changed.
    """
    present = version_of(db)
    if present >= SCHEMA_VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        items = _fold_events(db) if present else []
        for table in _EVENT_TABLES:
            db.execute(f"DROP TABLE IF EXISTS {table}")
        for statement in _SCHEMA:
            db.execute(statement)
        db.executemany(KEEP_SUBMISSION, [(item.token, with_checksum(item)) for item in items])
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION:d}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


# --------------------------------------------------------------------------- the event log of schema 1 to 3


def _fold_events(db: sqlite3.Connection) -> list[SubmissionState]:
    """The submissions of an event log, in order. Events about runs are skipped: the mirrors are parsed again."""
    items: dict[str, dict[str, Any]] = {}
    plans: dict[int, Any] = {}
    for row_id, data in db.execute("SELECT id, data FROM events ORDER BY id"):
        try:
            event = decode.from_json(without_checksum(data), dict[str, Any])
            kind, token = event["type"], event.get("token", "")
            if kind == "submission-planned":
                runs = {run["run_id"]: run["spec"] for run in event.pop("runs")}
                items[token] = event | {"run_ids": list(runs), "planned_at": event["at"], "logs": {}}
                plans |= runs
            elif token in items:
                _fold(items[token], plans, event, kind)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise sqlite3.DatabaseError(f"event {row_id} cannot be read") from error
    full = ({**item, "runs": [plans[number] for number in item["run_ids"]]} for item in items.values())
    return [decode.convert(item, SubmissionState, strict=False) for item in full]


def _fold(item: dict[str, Any], plans: dict[int, Any], event: dict[str, Any], kind: str) -> None:
    """Apply an event to its submission `item`, and add runs that it found to `plans`."""
    job = item.get("job") or {}
    if kind == "submission-changed":
        item |= {name: event.get(name, "") for name in ("status", "sentence", "hint")}
        item["attempt"] = max(item.get("attempt", 0), event.get("attempt", 0))
        job_id = event.get("job_id")
        if job_id and job.get("job_id") != job_id:
            job = {"job_id": job_id, "phase": "queued", "evidence": "sbatch", "seen_at": event["at"]}
            item |= {"job": job, "logs": {}}
    elif kind == "early-end":
        item["options"] = [*item.get("options", ()), f"--time={event['minutes']:d}"]
    elif kind == "submission-held":
        item["held"] = event["held"]
    elif kind == "job-observed":
        if job.get("phase") == "finished" != event["job"]["phase"]:
            item["logs"] = {stream: log | {"complete": False} for stream, log in item["logs"].items()}
        item["job"] = event["job"]
    elif kind in ("log-segment", "log-grew"):
        log = {"segment": event["segment"], "complete": event.get("complete", False)}
        item["logs"][event["stream"]] = log
    elif kind == "run-found" and event["run_id"] not in item["run_ids"]:
        item["run_ids"].append(event["run_id"])
        plans[event["run_id"]] = event["spec"]
