"""The store: nothing that was stored is lost, nothing half-stored is seen; a copy of a lab folder is only read."""

import contextlib
import random
import shutil
import sqlite3
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from labtui.commands.cli import main
from labtui.domain.errors import FolderTaken, StoreError
from labtui.domain.model import EpochSample, Interval, JobPhase, RunSpec, SubmissionStatus
from labtui.domain.state import Change, LabState, SubmissionState
from labtui.session.folder import LabFolder
from labtui.session.opening import repair
from labtui.session.records import SCHEMA_VERSION, Writer, from_json, with_checksum, without_checksum
from labtui.session.records import without_sizes as stored_form
from labtui.session.session import Session
from labtui.session.settings import trust
from labtui.session.store import Store, open_database
from tests import changes
from tests.changes import after
from tests.session.conftest import accepted, draft, only, submitted
from tests.session.scripted import keras_log

DATA = Path(__file__).parent / "data"
ENDLESS = """DROP TABLE IF EXISTS events; CREATE VIEW events AS WITH RECURSIVE r (token, data) AS
    (SELECT 'a', 'b' UNION ALL SELECT token, data FROM r) SELECT * FROM r"""
SPEC = RunSpec(model="ResNet50", device="gpu", n_gpus=1, batch_size=256, epochs=500, script="ResNet50.py")


def planned(number: int = 1) -> Change:
    return changes.planned(f"lt{number:02d}", {number: SPEC}, float(number))


def epoch(number: int, seconds: float = 5.0, run_id: int = 1) -> Change:
    sample = EpochSample(epoch=number, seconds=Interval.exact(seconds), metrics={"loss": float("nan")})
    return changes.epoch(run_id, sample)


def stored(path: Path) -> LabState:
    with contextlib.closing(Store(path)) as store:
        return store.load()


_tokens = st.sampled_from([f"lt{number:02d}" for number in range(1, 5)])
_changes = st.one_of(
    st.builds(planned, st.integers(1, 4)),
    st.builds(changes.accepted, _tokens, st.sampled_from(["7", "8"]), st.floats(0, 9)),
    st.builds(changes.status, _tokens, st.sampled_from(SubmissionStatus), st.text(max_size=20)),
    st.builds(lambda there: lambda state: state.with_paths({"/data": there}, 5.0), st.booleans()),
    st.builds(lambda task: lambda state: replace(state, choices={"task": task}), st.sampled_from("ab")),
)


@given(st.lists(_changes, max_size=25))
def test_a_state_that_was_stored_step_by_step_is_read_as_it_was(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("store") / "labtui.db"
    store, state = Store(path), LabState()
    for step in steps:
        before, state = state, step(state)
        store.write(before, state)
    store.close()
    read, names = stored(path), ("submissions", "runs", "paths", "choices")
    assert [getattr(read, name) for name in names] == [getattr(state, name) for name in names]


def test_what_was_read_of_a_run_is_read_as_it_was_and_only_of_its_job(tmp_path):
    """Also numbers that are none; a reading of another job is none of this one's."""
    state = after(planned(), changes.accepted("lt01", "7"), epoch(1), epoch(2, 4.0))
    with contextlib.closing(Store(tmp_path / "labtui.db")) as store:
        store.write(LabState(), state)
        store.write_readings(state, {"lt01": "7 and so on"})
        assert repr(store.load().runs) == repr(state.runs)
        store.write(state, changes.accepted("lt01", "8")(state))
        assert store.load().runs[1].epochs == ()


def test_a_data_file_is_stored_once_and_the_write_ahead_log_is_small_again(tmp_path):
    state, data, path = LabState(), random.randbytes(4_000_000), tmp_path / "labtui.db"
    with contextlib.closing(Store(path)) as store:
        for number in (1, 2, 3):
            before, state = state, planned(number)(state)
            store.write(before, state, {f"lt{number:02d}": {"data/x.npy": data, "a": b"%d" % number}})
        assert path.stat().st_size < 5e6 and (tmp_path / "labtui.db-wal").stat().st_size < 2e6


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_byte_that_turned_is_no_row(place, byte):
    data = bytearray(with_checksum(stored_form(after(planned()).submissions["lt01"])).encode())
    at = place % len(data)
    changed, data[at] = data[at] != byte, byte
    if not changed:
        return
    with pytest.raises(ValueError):
        from_json(without_checksum(bytes(data).decode()), SubmissionState)


def test_an_older_database_migrates_with_its_submissions_and_jobs(tmp_path):
    path = tmp_path / "labtui.db"
    old = sqlite3.connect(path)
    old.executescript((DATA / "v1.sql").read_text())
    old.close()
    state = stored(path)
    (submission,) = state.submissions.values()
    assert (submission.run_ids, submission.job.job_id) == ((1,), "31337")
    assert (state.runs[1].spec.n_gpus, state.runs[1].epochs, state.runs[1].outcome) == (1, (), None)
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    assert not db.execute("SELECT name FROM sqlite_master WHERE name = 'events'").fetchall()
    assert stored(path) == state


@pytest.mark.parametrize(("does", "read_only", "says"), [
    ("PRAGMA user_version = 99", False, "newer labtui"), ("PRAGMA user_version = 3", True, "another version"),
    (f"{ENDLESS}; PRAGMA user_version = 1", False, "damaged [(]events is no plain table"),
    (ENDLESS.replace("events", "readings"), True, "damaged [(]readings is no plain table"),
    ("DROP TABLE blobs; CREATE TABLE blobs (hash, data AS (zeroblob(9e8)))", False, "blobs is no plain"),
])  # fmt: skip
def test_a_database_of_another_version_or_one_that_computes_is_left_alone_and_closed_again(
    tmp_path, monkeypatch, does, read_only, says
):
    path = tmp_path / "labtui.db"
    Store(path).close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(does)
    before = path.read_bytes()
    opened: list[sqlite3.Connection] = []
    connect = lambda uri: opened.append(sqlite3.connect(uri, uri=True)) or opened[0]  # noqa: E731
    monkeypatch.setattr("labtui.session.store.open_database", connect)
    with pytest.raises(StoreError, match=says):
        Store(path, read_only=read_only)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].execute("SELECT 1")
    assert path.read_bytes() == before


def test_a_full_disk_loses_nothing_and_sends_nothing(bench, monkeypatch):
    full = Mock(side_effect=StoreError("The disk of this computer is full.", "Free some space."))
    accepted(bench)
    monkeypatch.setattr(bench.session._store, "write", full)
    with pytest.raises(StoreError):
        bench.session.submit(draft())
    assert len(bench.session.state.submissions) == 1
    bench.cluster.write("100", keras_log(5, 4))
    bench.run(40, lambda: len(bench.session.state.runs[1].epochs) == 2)
    bench.cluster.end("100")
    bench.run(60, lambda: only(bench).job.phase is JobPhase.FINISHED)
    assert any(problem.key == "store" for problem in bench.session.state.problems)
    assert bench.cluster.count("submit") == 1
    monkeypatch.undo()
    bench.cluster.write("100", keras_log(5, 4, 3)[len(keras_log(5, 4)) :])
    bench.run(40, lambda: len(bench.session.state.runs[1].epochs) == 3)
    assert bench.session.state.problems == ()
    bench.session.close()
    (submission,) = stored(bench.path / "labtui.db").submissions.values()
    assert submission.job.phase is JobPhase.FINISHED


def test_a_really_full_file_system_is_a_sentence(tmp_path):
    """SQLite's own limit of pages stands for the disk: the error is the same."""
    many = after(*(planned(number) for number in range(600)))
    with contextlib.closing(Store(tmp_path / "labtui.db")) as store:
        store._connection.execute("PRAGMA max_page_count = 30")
        with pytest.raises(StoreError, match="disk"):
            store.write(LabState(), many)
        assert not store.load().submissions
        store._connection.execute("PRAGMA max_page_count = 100000")
        store.write(LabState(), many)
        assert len(store.load().submissions) == 600


def test_a_database_not_made_yet_or_on_a_windows_share_or_of_another_computer(tmp_path, monkeypatch):
    with pytest.raises(StoreError, match="no database yet"):
        Store(tmp_path / "other.db", read_only=True)
    open_database(f"file:/{tmp_path}/labtui.db").close()  # file://server/share/labtui.db
    last = Writer(host="pc", path=r"C:\my labs\10\labtui.db", inode=1)
    monkeypatch.setattr(Store, "writer", lambda _: last)
    with pytest.raises(FolderTaken, match=r"copy of C:\\my labs\\10 on pc,"):
        Store(tmp_path / "labtui.db").claim()


def test_a_copy_is_only_read_until_it_is_made_a_folder_of_its_own(bench):
    submitted(bench)
    copy = shutil.copytree(bench.path, bench.path.with_name("copy"))
    trust(copy)
    with Session.open(copy, start=False) as looking:
        assert looking.read_only and len(looking.state.submissions) == 1
        assert not looking.state.connection.tried, "that of the original is not the copy's"
        with pytest.raises(FolderTaken, match="is a copy of") as caught:
            looking.submit(draft())
        assert str(bench.path) in caught.value.sentence and "labtui repair" in caught.value.hint
    assert main(["watch", "--folder", str(copy)]) == 2, "nothing would ever change"
    bench.session.submit(draft())
    repair(LabFolder.open(copy))
    with Session.open(copy, start=False) as own:
        assert not own.read_only and len(own.state.submissions) == 1


@pytest.mark.parametrize(("change", "copied"), [
    ({}, False),
    ({"path": "/elsewhere/labtui.db"}, False),  # moved
    ({"inode": 2}, False),  # restored in its place
    ({"host": "laptop.wlan"}, False),  # a laptop has many names
    *(({"path": "/elsewhere/labtui.db", "inode": 2}, True), ({"host": "another", "inode": 2}, True)),
])  # fmt: skip
def test_what_makes_a_copy(change, copied):
    last = Writer(host="laptop", path="/home/me/labtui.db", inode=1)
    assert msgspec.structs.replace(last, **change).copied_from(last) is copied


def test_a_folder_of_an_older_labtui_is_anybodys(lab_path):
    with Session.open(lab_path, start=False) as session:
        session._store._connection.execute("UPDATE meta SET value = 'who knows' WHERE key = 'writer'")
    trust(copy := shutil.copytree(lab_path, lab_path.with_name("copy")))
    with Session.open(copy, start=False) as own:
        assert not own.read_only
