"""What the store asks of SQLite and the disk. tests/session/test_store.py shows that it holds, killed and full."""

import contextlib
import os
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from labtui.domain.errors import StoreError
from labtui.session.folder import LabFolder
from labtui.session.opening import repair
from labtui.session.session import Session
from labtui.session.settings import trust
from labtui.session.store import Store
from tests.conftest import new_seed
from tests.tui import fed_session

pytestmark = pytest.mark.skipif(os.name == "nt", reason="SIGKILL and sparse damage are POSIX")


def test_every_commit_is_flushed_to_disk(tmp_path):
    """A cut of power is no test here; that SQLite was told to be safe against it is."""
    with contextlib.closing(Store(tmp_path / "labtui.db")) as store:
        asked = [store._connection.execute(f"PRAGMA {name}") for name in ("synchronous", "journal_mode")]
        assert [each.fetchone()[0] for each in asked] == [2, "wal"]


ROUNDS = int(os.environ.get("LABTUI_DAMAGE_ROUNDS", "60"))


COLUMNS = {"submissions": "data", "readings": "data", "meta": "value", "blobs": "data", "snapshots": "hash"}


def damage(path: Path, chooser: random.Random) -> str:
    """One random damage of a database: of its bytes, or of a row as SQLite itself would write it."""
    kind = chooser.choice(("bytes", "zeros", "cut", "row", "table", "emptied", "all rows"))
    if kind == "emptied":
        path.write_bytes(b"")
        return kind
    if kind == "all rows":
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("DELETE FROM submissions")
            db.commit()
        return kind
    if kind in ("row", "table"):
        table, column = chooser.choice(list(COLUMNS.items()))
        value = chooser.choice((None, "", "{}", 7, 1.5, b"\xff\x00"))
        with contextlib.suppress(sqlite3.IntegrityError), contextlib.closing(sqlite3.connect(path)) as db:
            if kind == "table":
                db.execute(f"DROP TABLE {table}")
            else:
                db.execute("PRAGMA writable_schema = ON")
                db.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '')")
                db.commit()
                db.close()
                db = sqlite3.connect(path)
                row = f"(SELECT rowid FROM {table} ORDER BY rowid LIMIT 1 OFFSET {chooser.randrange(3)})"
                db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = {row}", (value,))
            db.commit()
            db.close()
        return f"{kind} {table}.{column} {value!r}"
    data = bytearray(path.read_bytes())
    if kind == "cut":
        del data[chooser.randrange(1, len(data)) :]
    for _ in range(chooser.randrange(1, 4)):
        at, length = chooser.randrange(len(data)), chooser.choice((1, 64, 4096, 20_000))
        size = len(data[at : at + length])
        data[at : at + length] = bytes(size) if kind == "zeros" else chooser.randbytes(size)
    path.write_bytes(bytes(data))
    return kind


def test_a_damaged_database_is_refused_or_whole_and_repair_brings_it_back(tmp_path):
    """Never a traceback, never half a truth without a word; `LABTUI_DAMAGE_ROUNDS` asks for more rounds."""
    fed_session.make_folder(tmp_path / "whole")
    session = fed_session.open_session(tmp_path / "whole", start=False)
    session.requests = []
    fed_session.lab_session(session)
    before = session.state
    session.close()
    seed = new_seed()
    chooser = random.Random(seed)
    for number in range(ROUNDS):
        lab = tmp_path / "lab"
        shutil.copytree(tmp_path / "whole", lab)
        trust(lab)  # of a stranger's folder no stored number counts
        kind = damage(lab / "labtui.db", chooser)
        try:
            with Session.open(lab, start=False) as opened:
                assert opened.state.runs == before.runs, (number, kind, "opened without a word: it is whole")
                for token in before.submissions:
                    opened.files_of(token)
        except StoreError as error:
            assert "labtui repair" in error.hint, (number, kind)
        repair(LabFolder.open(lab))
        with Session.open(lab, start=False) as again:
            kept = again.state
        assert kept.submissions.keys() == before.submissions.keys(), (number, kind)
        assert [run.spec for run in kept.runs.values()] == [run.spec for run in before.runs.values()]
        for old, new in zip(before.submissions.values(), kept.submissions.values(), strict=True):
            assert (old.job and old.job.job_id) == (new.job and new.job.job_id), (number, kind)
        shutil.rmtree(lab)
