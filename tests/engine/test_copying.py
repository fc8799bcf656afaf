"""One file: always a prefix of the remote one, equal in the end, never two files in one; at the line's pace."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labtui.engine.copying import OVERLAP, SLICE, LogCopy
from labtui.errors import ConnectionLost, RemoteFailure
from tests.engine.scripted import FakeClock, ScriptedCluster, ScriptedJob

CUT = ConnectionLost("The connection is gone.")


@pytest.fixture
def copy(tmp_path: Path) -> tuple[LogCopy, ScriptedCluster]:
    cluster = ScriptedCluster(FakeClock(), connected=True)
    cluster.jobs["1"] = ScriptedJob("1", "t", "log", "/r")
    return LogCopy(cluster.log("1"), tmp_path / "log.out"), cluster


@given(
    chunks=st.lists(st.binary(max_size=3000), max_size=12),
    reads=st.lists(st.integers(1, 4000), max_size=30),
)
@settings(max_examples=60, deadline=None)
def test_a_growing_file_is_copied_byte_for_byte(
    tmp_path_factory, chunks: list[bytes], reads: list[int]
) -> None:
    cluster = ScriptedCluster(FakeClock(), connected=True)
    cluster.jobs["1"] = ScriptedJob("1", "t", "log", "/r")
    local = tmp_path_factory.mktemp("mirror") / "log.out"
    log = LogCopy(cluster.log("1"), local)
    sizes = iter(reads)
    for chunk in chunks:
        cluster.clock.sleep(1)
        cluster.write("1", chunk)
        cluster.max_read = OVERLAP + next(sizes, 1 << 20)
        log.step(cluster)
        assert cluster.files[cluster.log("1")].startswith(local.read_bytes() if local.exists() else b"")
    cluster.max_read = 1 << 30
    while log.step(cluster).behind:
        pass
    assert (local.read_bytes() if local.exists() else b"") == b"".join(chunks)


def test_a_missing_file_is_no_error(copy) -> None:
    log, cluster = copy
    assert log.step(cluster).missing
    assert log.size == 0


def test_a_shorter_file_begins_a_new_segment(copy) -> None:
    log, cluster = copy
    cluster.write("1", b"x" * 100)
    log.step(cluster)
    cluster.put("1", b"y" * 50)
    assert log.step(cluster).restarted
    assert log.local.read_bytes() == b"x" * 100


@pytest.mark.parametrize("new_size", [100, 101, 5000])
def test_a_replaced_file_is_noticed_by_its_bytes(copy, new_size: int) -> None:
    log, cluster = copy
    cluster.write("1", b"x" * 100)
    log.step(cluster)
    cluster.clock.sleep(1)
    cluster.put("1", b"y" * new_size)
    assert log.step(cluster).restarted
    assert log.local.read_bytes() == b"x" * 100


def test_after_a_break_the_beginning_is_compared_too(copy) -> None:
    """The same end, another beginning: what a deterministic training that was requeued leaves."""
    log, cluster = copy
    same = b"epoch line\n" * 500
    cluster.write("1", b"node one\n" + same)
    log.step(cluster)
    cluster.put("1", b"node two\n" + same + b"more")
    log.doubt()
    assert log.step(cluster).restarted


def test_a_file_that_shrinks_between_two_questions_is_asked_for_again(copy) -> None:
    log, cluster = copy
    cluster.write("1", b"x" * 5000)
    log.step(cluster)
    cluster.write("1", b"x" * 5000)
    read = cluster.read
    cluster.read = lambda path, offset, limit: b""  # type: ignore[method-assign]
    assert log.step(cluster).behind
    assert log.local.read_bytes() == b"x" * 5000
    cluster.read = read  # type: ignore[method-assign]
    log.step(cluster)
    assert log.size == 10_000


def test_what_the_disk_took_stays_a_prefix(copy, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    log, cluster = copy
    cluster.write("1", b"abc" * 1000)
    write = os.write
    taken = []

    def full_disk(handle: int, data: bytes) -> int:
        if taken:
            raise OSError(28, "No space left on device")
        taken.append(write(handle, bytes(data[:1234])))
        return taken[0]

    monkeypatch.setattr(os, "write", full_disk)
    with pytest.raises(OSError, match="No space"):
        log.step(cluster)
    monkeypatch.undo()
    assert log.size == 1234
    log.step(cluster)
    assert log.local.read_bytes() == b"abc" * 1000


@pytest.mark.parametrize(
    ("megabytes_s", "questions_s", "megabytes"),
    [(0.1, 0.5, 2), (1, 0.2, 20), (25, 0.15, 100), (125, 0.05, 100)],
)
def test_a_step_follows_the_lines_pace(
    tmp_path: Path, megabytes_s: float, questions_s: float, megabytes: int
) -> None:
    """Quick lines are used though each step costs questions; on slow ones whatever else waits has its turn soon."""
    clock = FakeClock()
    cluster = ScriptedCluster(clock, connected=True)
    cluster.jobs["1"] = ScriptedJob("1", "t", "log", "/r")
    cluster.files[cluster.log("1")] = content = bytes(megabytes * 1_000_000)
    read = cluster.read

    def at_the_lines_pace(path: str, offset: int, limit: int) -> bytes:
        data = read(path, offset, limit)
        clock.sleep(questions_s + len(data) / (megabytes_s * 1e6))
        return data

    cluster.read = at_the_lines_pace  # type: ignore[method-assign]
    log = LogCopy(cluster.log("1"), tmp_path / "log.out", clock.steady)
    began, steps, behind = clock.steady(), [], True
    while behind:
        before = clock.steady()
        behind = log.step(cluster).behind
        steps.append(clock.steady() - before)
    assert log.local.read_bytes() == content
    assert max(steps) < max(1.5, questions_s + 1.1 * SLICE / (megabytes_s * 1e6))
    assert megabytes / megabytes_s / (clock.steady() - began) > 0.6


def test_after_a_break_it_begins_with_little_again(copy) -> None:
    log, cluster = copy
    asked: list[int] = []
    read = cluster.read

    def noted(path: str, offset: int, limit: int) -> bytes:
        asked.append(limit)
        return read(path, offset, limit)

    cluster.read = noted
    cluster.write("1", bytes(40 << 20))
    for _ in range(4):
        log.step(cluster)
    assert asked[-1] > 4 * SLICE
    cluster.fail("read", CUT)
    with pytest.raises(ConnectionLost):
        log.step(cluster)
    cluster.connected = True
    log.step(cluster)
    assert asked[-1] <= SLICE + OVERLAP


@pytest.mark.parametrize("problem", [CUT, RemoteFailure("Failure.", "")])
def test_what_came_before_a_break_stays(copy, problem: Exception) -> None:
    log, cluster = copy
    content = bytes(range(256)) * 100
    cluster.write("1", content)
    cluster.fail("piece", problem)
    with pytest.raises(type(problem)):
        log.step(cluster)
    assert 0 < log.size < len(content)
    assert content.startswith(log.local.read_bytes())
    cluster.connected = True
    assert log.step(cluster).grown == len(content) - 6000
    assert log.local.read_bytes() == content
