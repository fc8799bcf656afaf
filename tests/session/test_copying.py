"""One file: always a prefix of the remote one, equal in the end, never two files in one; at the line's pace."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.domain.errors import RemoteFailure
from labtui.session.mirrors import OVERLAP, LogCopy
from tests.session.scripted import CUT, FakeClock, ScriptedCluster, ScriptedJob


def copy_in(folder: Path) -> tuple[LogCopy, ScriptedCluster]:
    cluster = ScriptedCluster(FakeClock(), connected=True)
    cluster.jobs["1"] = ScriptedJob("1", "t", "log", "/r")
    return LogCopy(cluster.log("1"), folder, folder / "log.out"), cluster


copy = pytest.fixture(lambda tmp_path: copy_in(tmp_path))


@given(
    chunks=st.lists(st.binary(max_size=3000), max_size=12),
    reads=st.lists(st.integers(1, 4000), max_size=30),
    glances=st.lists(st.booleans(), max_size=40),
)
def test_a_growing_file_is_copied_byte_for_byte(tmp_path_factory, chunks, reads, glances):
    log, cluster = copy_in(tmp_path_factory.mktemp("mirror"))
    sizes, quick = iter(reads), iter(glances)

    def copied() -> bytes:
        return log.local.read_bytes() if log.local.exists() else b""

    for chunk in chunks:
        cluster.clock.sleep(1)
        cluster.write("1", chunk)
        cluster.max_read = OVERLAP + next(sizes, 1 << 20)
        step = (log.glance(cluster) if next(quick, False) else None) or log.step(cluster)
        assert not step.restarted and cluster.contents[cluster.log("1")].startswith(copied())
    cluster.max_read = 1 << 30
    while log.step(cluster).behind:
        pass
    assert copied() == b"".join(chunks)


@pytest.mark.parametrize("new", [b"y" * 50, b"y" * 2000, b"y" * 2001, b"y" * 5000, b"x" * 50])
def test_a_shorter_file_and_one_of_other_bytes_begin_a_new_segment(copy, new):
    """A quick look leaves that to a whole one."""
    log, cluster = copy
    cluster.write("1", b"x" * 2000)
    log.step(cluster)
    cluster.clock.sleep(1)
    cluster.put("1", new)
    assert log.glance(cluster) is None and log.step(cluster).restarted
    assert log.local.read_bytes() == b"x" * 2000


def test_after_a_break_the_beginning_is_compared_too(copy):
    """The same end, another beginning: what a deterministic training that was requeued leaves."""
    log, cluster = copy
    same = b"epoch line\n" * 500
    cluster.write("1", b"node one\n" + same)
    log.step(cluster)
    cluster.put("1", b"node two\n" + same + b"more")
    log.compare_start = True
    assert log.step(cluster).restarted


def test_a_mirror_that_another_program_writes_is_left_alone(copy, monkeypatch):
    log, cluster = copy
    cluster.write("1", b"x" * 5000)
    write = os.write

    def another(handle: int, data: bytes) -> int:
        with log.local.open("ab") as file:
            file.write(b"another")
        return write(handle, data)

    monkeypatch.setattr(os, "write", another)
    with pytest.raises(OSError, match="another program"):
        log.step(cluster)


def test_a_file_that_shrinks_between_two_questions_is_asked_for_again(copy):
    log, cluster = copy
    cluster.write("1", b"x" * 5000)
    log.step(cluster)
    cluster.write("1", b"x" * 5000)
    cluster.max_read = 0
    assert log.step(cluster).behind and log.local.read_bytes() == b"x" * 5000
    cluster.max_read = 1 << 30
    log.step(cluster)
    assert log.size == 10_000


def test_what_the_disk_took_stays_a_prefix(copy, monkeypatch):
    log, cluster = copy
    cluster.write("1", b"abc" * 1000)
    write, taken = os.write, []

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


@pytest.mark.parametrize("problem", [CUT, RemoteFailure("Failure.", "")])
def test_what_came_before_a_break_stays(copy, problem):
    log, cluster = copy
    content = bytes(range(256)) * 100
    cluster.write("1", content)
    cluster.fail("piece", problem)
    with pytest.raises(type(problem)):
        log.step(cluster)
    assert 0 < log.size < len(content) and content.startswith(log.local.read_bytes())
    cluster.connected = True
    assert log.step(cluster).grown == len(content) - 6000 and log.local.read_bytes() == content
