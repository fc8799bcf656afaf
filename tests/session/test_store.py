"""The store: nothing that was stored is lost, nothing half-stored is seen."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.domain.errors import FolderError, StoreError
from labtui.domain.events import (
    EpochSeen,
    LabState,
    PlannedRun,
    RunEnded,
    SamplesReset,
    SubmissionChanged,
    SubmissionPlanned,
)
from labtui.domain.model import EpochSample, Interval, RunSpec, SubmissionStatus
from labtui.domain.reduce import reduce_all
from labtui.session.journal import Journal
from labtui.session.session import Session
from labtui.session.store import SCHEMA_VERSION, Store, decode_event, encode_event
from tests.session.conftest import Bench, draft
from tests.session.scripted import keras_log

DATA = Path(__file__).parent / "data"
SPEC = RunSpec(model="ResNet50", device="gpu", n_gpus=1, batch_size=256, epochs=500, script="ResNet50.py")


def planned(token: str = "lt00", run_id: int = 1) -> SubmissionPlanned:
    return SubmissionPlanned(
        at=1.0,
        token=token,
        task_id="6",
        form="one-gpu",
        job_name="x",
        runs=(PlannedRun(run_id=run_id, spec=SPEC),),
    )


def epoch(number: int, seconds: float = 5.0, run_id: int = 1) -> EpochSeen:
    sample = EpochSample(epoch=number, seconds=Interval.exact(seconds), metrics={"loss": float("nan")})
    return EpochSeen(at=float(number), run_id=run_id, sample=sample)


def stored(path: Path) -> list[object]:
    store = Store(path)
    try:
        return list(store.events())
    finally:
        store.close()


# ----------------------------------------------------------------------------- events


_numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)
_events = st.one_of(
    st.builds(planned, st.text(min_size=1, max_size=5), st.integers(1, 4)),
    st.builds(epoch, st.integers(1, 6), st.floats(0, 100), st.integers(1, 4)),
    st.builds(
        SubmissionChanged,
        at=_numbers,
        token=st.text(max_size=5),
        status=st.sampled_from(SubmissionStatus),
        job_id=st.text(max_size=3),
        sentence=st.text(max_size=20),
    ),
    st.builds(RunEnded, at=_numbers, run_id=st.integers(1, 4), outcome=st.sampled_from(["completed", "oom"])),
    st.builds(SamplesReset, at=_numbers, run_ids=st.tuples(st.integers(1, 4))),
)


@given(_events)
def test_an_event_survives_its_line(event) -> None:
    line = encode_event(event)
    assert b"\n" not in line
    assert repr(decode_event(line)) == repr(event)


@given(st.lists(_events, max_size=25), st.integers(0, 25))
def test_a_store_that_was_closed_anywhere_gives_the_same_state(tmp_path_factory, events, cut: int) -> None:
    path = tmp_path_factory.mktemp("store") / "labtui.db"
    for part in (events[:cut], events[cut:]):
        store = Store(path)
        for event in part:
            store.append([event])
        store.close()
    assert repr(reduce_all(LabState(), stored(path))) == repr(reduce_all(LabState(), events))


def test_files_are_for_the_owner_alone(bench: Bench) -> None:
    bench.online()
    future = bench.session.submit(draft())
    bench.run(20, future.done)
    bench.cluster.start("100")
    bench.cluster.write("100", keras_log(5))
    bench.run(40, lambda: bench.session.log_path(future.result(), "out") is not None)
    for path in bench.path.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


# ----------------------------------------------------------------------------- other versions, damage


def test_an_older_database_migrates_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "labtui.db"
    old = sqlite3.connect(path)
    old.executescript((DATA / "v1.sql").read_text())
    old.close()
    events = stored(path)
    state = reduce_all(LabState(), events)
    assert [sample.epoch for sample in state.runs[1].epochs] == [1, 2]
    assert state.runs[1].outcome == "completed"
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    assert {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")} == {
        "meta", "events", "blobs", "snapshots", "sqlite_sequence",
    }  # fmt: skip
    assert stored(path) == events


def test_a_newer_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "labtui.db"
    Store(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="newer labtui"):
        Store(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", ["zeros", "text", "cut", "middle"])
def test_a_damaged_database_is_a_sentence_that_names_repair(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "labtui.db"
    store = Store(path)
    events = [planned(), *(epoch(number) for number in range(1, 300))]
    store.append(events)
    store.close()
    data = bytearray(path.read_bytes())
    if damage == "zeros":
        data[:] = bytes(len(data))
        data[:16] = b"\xff" * 16
    elif damage == "text":
        data[:] = b"this is no database\n" * 100
    elif damage == "cut":
        data = data[: len(data) // 2]
    else:
        middle = len(data) // 2
        data[middle : middle + 8192] = os.urandom(8192)
    path.write_bytes(bytes(data))
    with pytest.raises(StoreError) as caught:
        store = Store(path)
        store.events()
    assert "repair" in caught.value.hint


# ----------------------------------------------------------------------------- the disk


class FullDisk:
    """A store that refuses to write while `full`."""

    def __init__(self, store: Store) -> None:
        self._append = store.append
        self.full = False
        store.append = self.append  # type: ignore[method-assign]

    def append(self, *args, **more):
        if self.full:
            raise StoreError(
                "The disk of this computer is full: the lab folder cannot be written.", "Free some space."
            )
        return self._append(*args, **more)


def test_a_full_disk_loses_nothing_and_sends_nothing(bench: Bench) -> None:
    disk = FullDisk(bench.session._store)
    bench.online()
    future = bench.session.submit(draft())
    bench.run(20, future.done)
    bench.cluster.start("100")
    disk.full = True
    with pytest.raises(StoreError):
        bench.session.submit(draft())
    assert len(bench.session.state.submissions) == 1
    bench.cluster.write("100", keras_log(5, 4))
    bench.run(40, lambda: len(bench.session.state.runs[1].epochs) == 2)
    assert any(problem.key == "store" for problem in bench.session.state.problems)
    assert bench.cluster.count("submit") == 1
    disk.full = False
    bench.cluster.write("100", keras_log(5, 4, 3)[len(keras_log(5, 4)) :])
    bench.run(40, lambda: len(bench.session.state.runs[1].epochs) == 3)
    assert bench.session.state.problems == ()
    bench.session.close()
    assert len(reduce_all(LabState(), stored(bench.path / "labtui.db")).runs[1].epochs) == 3


def test_a_really_full_file_system_is_a_sentence(tmp_path: Path) -> None:
    """SQLite's own limit of pages stands for the disk: the error is the same."""
    store = Store(tmp_path / "labtui.db")
    store._connection.execute("PRAGMA max_page_count = 30")
    events = [planned(), *(epoch(number) for number in range(1, 2000))]
    with pytest.raises(StoreError, match="disk"):
        store.append(events)
    assert store.events() == []
    store._connection.execute("PRAGMA max_page_count = 100000")
    store.append(events)
    assert len(store.events()) == 2000
    store.close()


# ----------------------------------------------------------------------------- two processes, kill -9


def test_a_second_process_looks_and_does_not_touch(bench: Bench) -> None:
    with Session.open(bench.path, start=False) as second:
        assert second.read_only
        with pytest.raises(FolderError, match="open"):
            second.submit(draft())
        updates = []
        second.subscribe(updates.append)
        second.start()
        future = bench.session.submit(draft())
        bench.run(20, future.done)
        deadline = time.monotonic() + 480
        while not second.state.submissions and time.monotonic() < deadline:
            time.sleep(0.02)
        while second.state.submissions[future.result()].job is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert second.state.submissions[future.result()].job.job_id == "100"
        while not updates and time.monotonic() < deadline:
            time.sleep(0.02)  # the state is there a moment before who subscribed is told
        assert updates
    bench.session.close()
    with Session.open(bench.path, start=False) as third:
        assert not third.read_only


def test_a_database_that_is_only_being_made_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes open a new folder: the second may come before the first has made the database."""
    path = tmp_path / "labtui.db"
    maker = threading.Timer(0.3, lambda: Store(path).close())
    maker.start()
    store = Store(path, read_only=True)
    assert store.events() == []
    store.close()
    maker.join()
    monkeypatch.setattr("labtui.session.store._MIGRATION_S", 0.1)
    with pytest.raises(StoreError, match="no database yet"):
        Store(tmp_path / "other.db", read_only=True)


WRITER = """
import sys
from pathlib import Path
from labtui.domain.reduce import reduce_all
from labtui.domain.events import LabState
from labtui.session.writer import FolderLock
from labtui.session.store import Store
from tests.session.test_store import epoch, planned

folder = Path(sys.argv[1])
assert FolderLock(folder / "lock").acquire(), "the lock outlived its process"
store = Store(folder / "labtui.db")
state = reduce_all(LabState(), store.events())
if not state.runs:
    store.append([planned()])
number = len(state.runs[1].epochs) if state.runs else 0
while True:
    number += 1
    batch = [epoch(number)] if number % 3 else [epoch(number), epoch(number)]
    store.append(batch)
    print(number, flush=True)
"""


def test_kill_9_during_any_write_loses_nothing_that_was_stored(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chooser = random.Random(seed)
    count = 0
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(chooser.randrange(1, 25)):
            line = process.stdout.readline()
            assert line, "the writer ended by itself"
            count = int(line)
        time.sleep(chooser.random() * 0.01)
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
        count = max([count, *map(int, rest.split())])
        state = reduce_all(LabState(), stored(tmp_path / "labtui.db"))
        epochs = [sample.epoch for sample in state.runs[1].epochs]
        assert epochs == list(range(1, len(epochs) + 1))
        assert len(epochs) in (count, count + 1)  # the last one may be stored and not yet said


def test_a_subscriber_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    faults: list[BaseException] = []
    journal = Journal(Store(tmp_path / "labtui.db"), faults.append)
    seen: list[object] = []

    def broken(update) -> None:
        raise ValueError("a screen's fault")

    journal.subscribe(broken)
    journal.subscribe(seen.append)
    journal.start()
    journal.commit([planned()])
    journal.close(5)
    assert len(seen) == 1
    assert [str(fault) for fault in faults] == ["a screen's fault"]
