"""What the store asks of SQLite and the disk. tests/session/test_store.py shows that it holds, killed and full."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labtui.domain.errors import StoreError
from labtui.domain.events import LabState
from labtui.domain.reduce import reduce_all
from labtui.session.folder import LabFolder
from labtui.session.repair import repair
from labtui.session.session import Session
from labtui.session.settings import Settings
from labtui.session.store import Store
from tests.reliability.hostile import PYTHON_PATH, ROOT
from tests.tui import fed_session

pytestmark = pytest.mark.skipif(os.name == "nt", reason="SIGKILL and sparse damage are POSIX")

WRITER = """
import sys
from labtui.session.session import Session
from tests.tui import fed_session
session = fed_session.open_session(sys.argv[1], start=False)
print("open", flush=True)
for number in range(100_000):
    token = f"lt{number:020d}"
    session.feed(fed_session.planned(token, "10.5", number + 1, fed_session.spec(gpus=2)))
    print(token, flush=True)
"""


def test_every_commit_is_flushed_to_disk(tmp_path: Path) -> None:
    """A cut of power is no test here; that SQLite was told to be safe against it is."""
    store = Store(tmp_path / "labtui.db")
    pragmas = {
        name: store._connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("synchronous", "journal_mode")
    }
    store.close()
    assert pragmas == {"synchronous": 2, "journal_mode": "wal"}


@pytest.mark.slow
def test_killed_in_any_write_what_was_told_is_stored(tmp_path: Path) -> None:
    """Twenty-five lives of a process that does nothing but store; each killed at another moment."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chooser = random.Random(seed)
    count = 0
    for life in range(25):
        path = tmp_path / f"lab{life}"
        fed_session.make_folder(path)
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        time.sleep(chooser.uniform(0, 0.25))
        process.send_signal(signal.SIGKILL)
        lines = [line.strip() for line in process.stdout if line.endswith("\n")]
        process.wait()
        store = Store(path / "labtui.db")
        known = reduce_all(LabState(), store.events()).submissions
        store.close()
        assert set(lines) <= set(known)
        assert len(known) <= len(lines) + 1
        count += len(lines)
    print(f"{count} events reported before the kills")
    assert count > 0


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_database_is_refused_or_whole_and_repair_brings_it_back(tmp_path: Path, seed: int) -> None:
    """Bytes overwritten, pages zeroed, the end cut off: never a traceback, never half a truth without a word."""
    chooser = random.Random(seed)
    fed_session.make_folder(tmp_path / "lab")
    session = fed_session.open_session(tmp_path / "lab", start=False)
    session.requests = []
    fed_session.lab_session(session)
    runs = {run_id: run.epochs for run_id, run in session.state.runs.items()}
    session.close()
    database = tmp_path / "lab" / "labtui.db"
    data = bytearray(database.read_bytes())
    if seed % 3 == 0:
        del data[chooser.randrange(1, len(data)) :]
    for _ in range(chooser.randrange(1, 4)):
        at = chooser.randrange(len(data))
        length = chooser.choice((1, 64, 4096, 20_000))
        data[at : at + length] = chooser.randbytes(len(data[at : at + length]))
    database.write_bytes(bytes(data))
    try:
        opened = Session.open(tmp_path / "lab", start=False)
        seen = {run_id: run.epochs for run_id, run in opened.state.runs.items()}
        opened.close()
        assert seen == runs, "opened without a word, so it must be whole"
    except StoreError as error:
        assert "repair" in error.hint
    repair(LabFolder.open(tmp_path / "lab"))
    again = Session.open(tmp_path / "lab", start=False)
    kept = {run_id: run.epochs for run_id, run in again.state.runs.items()}
    again.close()
    assert set(kept) <= set(runs), "nothing is invented"


def test_two_processes_one_writes(tmp_path: Path) -> None:
    """Ten processes open one folder at once: exactly one may write."""
    LabFolder.create(tmp_path / "lab", Settings(edition="hpc4ai-ch10", profile="mn5"))
    code = (
        "import sys; from labtui.session.session import Session\n"
        "s = Session.open(sys.argv[1], start=False); print('looks' if s.read_only else 'writes', flush=True)\n"
        "sys.stdin.read(); s.close()"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "lab")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        )
        for _ in range(6)
    ]  # fmt: skip
    lines = [process.stdout.readline().strip() for process in processes]  # type: ignore[union-attr]
    for process in processes:
        process.stdin.close()  # type: ignore[union-attr]
        process.wait(20)
    assert sorted(lines) == ["looks"] * 5 + ["writes"]


def test_a_database_that_is_a_folder_or_a_link_to_nowhere(tmp_path: Path) -> None:
    """What a synchronised folder may turn it into."""
    (tmp_path / "a.db").mkdir()
    (tmp_path / "b.db").symlink_to(tmp_path / "gone" / "x.db")
    (tmp_path / "c.db").write_text("<!DOCTYPE html>" * 100)
    for name in ("a.db", "b.db", "c.db"):
        with pytest.raises(StoreError):
            Store(tmp_path / name)
    assert sqlite3.sqlite_version
