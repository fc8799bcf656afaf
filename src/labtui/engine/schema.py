"""The database's tables and how an older file becomes a current one.

`events` is the truth and is only ever appended to. The other tables are projections of it, kept for a student's
own queries and for other programs; they can be rebuilt from the events at any time. `blobs` holds the scripts as
they were when a submission was planned, so that editing one never changes what waits in line.
"""

from __future__ import annotations

import sqlite3

SCHEMA_VERSION = 2

_V1 = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, type TEXT NOT NULL,
        data TEXT NOT NULL)""",
    """CREATE TABLE submissions (token TEXT PRIMARY KEY, task_id TEXT, form TEXT, job_name TEXT, status TEXT,
        sentence TEXT, planned_at REAL, remote_dir TEXT)""",
    """CREATE TABLE jobs (token TEXT PRIMARY KEY, job_id TEXT, phase TEXT, slurm_state TEXT, reason TEXT,
        start_time REAL, end_time REAL, node TEXT, exit_code TEXT, evidence TEXT, seen_at REAL)""",
    """CREATE TABLE runs (run_id INTEGER PRIMARY KEY, token TEXT, task_id TEXT, model TEXT, device TEXT,
        n_gpus INTEGER, batch_size INTEGER, epochs_planned INTEGER, phase TEXT, outcome TEXT)""",
    """CREATE TABLE epochs (run_id INTEGER, epoch INTEGER, seconds REAL, lo REAL, hi REAL, printed_seconds INTEGER,
        source TEXT, line INTEGER, PRIMARY KEY (run_id, epoch))""",
)
_V2 = (
    "CREATE TABLE blobs (hash TEXT PRIMARY KEY, data BLOB NOT NULL)",
    "CREATE TABLE snapshots (token TEXT, path TEXT, hash TEXT NOT NULL, PRIMARY KEY (token, path))",
    "ALTER TABLE epochs ADD COLUMN metrics TEXT",
)
MIGRATIONS: dict[int, tuple[str, ...]] = {1: _V1, 2: _V2}
"""What leads to each version from the one before; a released step is never edited."""

PROJECTIONS = ("submissions", "jobs", "runs", "epochs")


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
