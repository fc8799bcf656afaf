"""A log far behind is copied first; it is read for epochs meanwhile on a slow line, afterwards on a fast one."""

import errno
import os
from unittest.mock import Mock

import pytest

from labtui.domain.model import RunPhase
from labtui.session import mirrors
from labtui.session.opening import stored_state
from labtui.session.session import Session
from tests.session.conftest import Bench, accepted
from tests.session.scripted import keras_log

PIECE = 10_000
NOISE = b"2026-11-21 10:00:00.000000: I tensorflow/core/some/file.cc:12] something harmless\n" * 400


@pytest.fixture(autouse=True)
def small_pieces(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "READ_PIECE", PIECE)
    bench.cluster.max_read = PIECE


def long_log() -> bytes:
    """Five epochs with some 30 kB between each two."""
    lines = keras_log(5, 4, 4, 4, 4).splitlines(keepends=True)
    return b"".join(line + (NOISE if b"loss" in line else b"") for line in lines)


def far_behind(bench: Bench) -> str:
    """A running job whose log was written while nobody looked."""
    token = accepted(bench)
    bench.session.watch_logs({token})
    bench.cluster.write("100", long_log())
    return token


def epochs(bench: Bench) -> list[int]:
    return [sample.epoch for sample in bench.session.state.runs[1].epochs]


def test_on_a_fast_line_the_bytes_come_first(bench):
    token = far_behind(bench)
    bench.run(10, lambda: bench.mirror(token) == long_log())
    assert epochs(bench) in ([], [1]), "one piece at most was read meanwhile"
    bench.run(10, lambda: epochs(bench) == [1, 2, 3, 4, 5])


def test_a_second_process_reads_a_long_log_in_pieces(bench, monkeypatch):
    token = far_behind(bench)
    bench.run(10, lambda: bench.mirror(token) == long_log())
    monkeypatch.setattr(mirrors, "AT_ONCE_BYTES", PIECE)
    with Session.open(bench.path, start=False) as beside:
        pieces = range(len(long_log()) // PIECE)
        looks = [beside._reload() or len(beside.state.runs[1].epochs) for _ in pieces]
    assert looks[0] == 0 and looks[-1] == 5


@pytest.mark.parametrize("at_once", [PIECE, len(long_log()) - 1])
def test_what_a_killed_process_copied_is_read_by_the_next_ones(bench, open_bench, monkeypatch, at_once):
    """A start reads as much as it may; what it left is not stored as read."""
    token = far_behind(bench)
    bench.run(10, lambda: epochs(bench) == [1])
    bench.session.close()
    bench.cluster.end("100")
    bench.session.log_path(token, "out").write_bytes(long_log())
    monkeypatch.setattr(mirrors, "AT_ONCE_BYTES", at_once)
    second = open_bench(bench.cluster)
    assert epochs(second) == ([1] if at_once == PIECE else [1, 2, 3, 4, 5]), "as before until all is read"
    second.session.close()
    assert len(stored_state(bench.session.folder).runs[1].epochs) == 5
    third = open_bench(bench.cluster)
    third.run(200, lambda: third.session.state.runs[1].phase is RunPhase.DONE)
    assert epochs(third) == [1, 2, 3, 4, 5] and third.mirror(token) == long_log()


def test_what_was_copied_ahead_of_a_replaced_log_does_not_count(bench):
    token = far_behind(bench)
    while len(bench.mirror(token)) < 4 * PIECE:
        bench.worker.turn()
    bench.cluster.put("100", keras_log(5, 4, 4))
    bench.run(60, lambda: epochs(bench) == [1, 2, 3])
    again = bench.session.folder.logs.glob("*restart1*")
    assert b"".join(path.read_bytes() for path in again) == keras_log(5, 4, 4)


@pytest.mark.parametrize(("number", "hint"), [(errno.ENOSPC, "Free some"), (errno.EACCES, "Look at the")])
def test_a_full_disk_is_one_problem_until_a_log_grows_again(bench, monkeypatch, number, hint):
    """Logs that have nothing new are looked at with success meanwhile; the problem does not come and go."""
    token = far_behind(bench)
    bench.run(10, lambda: bench.mirror(token) == long_log())
    bench.cluster.write("100", b"more\n" * 100)
    write = os.write
    monkeypatch.setattr(os, "write", Mock(side_effect=OSError(number, os.strerror(number))))
    seen: list[list[str]] = []
    for _ in range(120):
        bench.run(0.5)
        seen.append([problem.key for problem in bench.session.state.problems])
    assert seen[-1] == ["mirror"] and [] not in seen[seen.index(["mirror"]) :]
    assert bench.session.state.problems[0].hint.startswith(hint)
    monkeypatch.setattr(os, "write", write)
    bench.run(20, lambda: not any(p.key == "mirror" for p in bench.session.state.problems))
    assert bench.mirror(token).endswith(b"more\n")


def test_a_file_that_claims_more_than_it_gives_is_not_asked_without_a_pause(bench):
    token = far_behind(bench)
    bench.run(10, lambda: bench.mirror(token) == long_log())
    bench.cluster.write("100", b"never readable\n")
    bench.cluster.max_read = 0
    before = len(bench.cluster.calls)
    bench.run(10)
    assert sum(1 for verb, _ in bench.cluster.calls[before:] if verb == "read") < 60
