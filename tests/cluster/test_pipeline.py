"""Many requests on their way, against a server and a line in memory: what comes, in which order, and how fast."""

import contextlib
import random
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import paramiko
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paramiko.sftp import CMD_DATA, CMD_STATUS, SFTP_EOF, SFTP_FAILURE

from labtui.cluster.files import RemoteFiles
from labtui.domain.errors import RemoteFailure

LARGE = 255 * 1024


@dataclass
class LineToServer:
    """The three calls of paramiko's client that the pipeline uses, over a line with a rate and a round trip."""

    content: bytes
    rate: float = 1e9
    round_trip_s: float = 0.0
    most_at_once: int = 1 << 30
    shuffle: random.Random | None = None
    fail_at: int | None = None
    now: float = 0.0
    free_at: float = 0.0
    number: int = 0
    requested: int = 0
    sent: int = 0
    on_the_way: list[tuple[float, int, Any, int, bytes]] = field(default_factory=list)

    def _async_request(self, fileobj: Any, kind: int, handle: bytes, offset: int, size: int) -> int:
        assert handle == b"handle"
        self.number += 1
        self.requested += size
        arrives = self.now + self.round_trip_s / 2
        message = paramiko.Message()
        data = self.content[offset : offset + min(size, self.most_at_once)]
        failed = self.fail_at is not None and offset >= self.fail_at
        piece = CMD_DATA if data and not failed else CMD_STATUS
        if piece == CMD_STATUS:
            message.add_int(SFTP_FAILURE if failed else SFTP_EOF)
        message.add_string(b"Failure" if failed else data or b"End of file")
        self.sent += len(data)
        self.free_at = max(self.free_at, arrives) + len(data) / self.rate
        entry = (self.free_at + self.round_trip_s / 2, self.number, fileobj, piece, message.asbytes())
        self.on_the_way.append(entry)
        return self.number

    def _read_response(self) -> None:
        place = self.shuffle.randrange(len(self.on_the_way)) if self.shuffle else 0
        at, number, fileobj, kind, data = self.on_the_way.pop(place)
        self.now = max(self.now, at)
        fileobj._async_response(kind, paramiko.Message(data), number)

    def _convert_status(self, message: Any) -> None:
        if message.get_int() == SFTP_EOF:
            raise EOFError(message.get_text())
        raise OSError(message.get_text())

    def stat_version(self) -> Any:
        return self

    get_channel = get_transport = stat_version
    remote_version = "SSH-2.0-OpenSSH_9.6"

    def open(self, path: str, mode: str) -> Any:
        self.now += self.round_trip_s
        return SimpleNamespace(handle=b"handle", _close=lambda async_: None)


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labtui.cluster.files.time", SimpleNamespace(monotonic=lambda: LINES[-1].now))


LINES: list[LineToServer] = []
"""The line that is read now, whose clock counts."""


class Reader:
    """`RemoteFiles` on such a line."""

    def __init__(self, line: LineToServer) -> None:
        LINES[:] = [line]
        self.line, self.files = line, RemoteFiles(partial(contextlib.nullcontext, line))  # type: ignore[arg-type]

    def read(self, offset: int, limit: int, within_s: float | None = None) -> bytes:
        got = bytearray()
        self.files.read_into("log", offset, limit, got.extend, within_s=within_s)
        return bytes(got)


@given(
    size=st.integers(0, 3_000_000), offset=st.integers(0, 100_000), beyond=st.integers(-100_000, 400_000),
    most_at_once=st.sampled_from([1 << 30, 64 * 1024, 10_000]), seed=st.none() | st.integers(0, 99),
)  # fmt: skip
def test_the_bytes_are_the_files_in_order_whatever_comes_at_once(size, offset, beyond, most_at_once, seed):
    content = random.Random(size).randbytes(size)
    shuffle = None if seed is None else random.Random(seed)
    line = LineToServer(content, most_at_once=most_at_once, shuffle=shuffle)
    end = max(offset, size + beyond)
    assert Reader(line).read(offset, end - offset) == content[offset:end]
    if most_at_once >= LARGE:
        assert line.sent == len(content[offset:end]), "nothing is fetched twice"


def test_a_refusal_in_the_middle_is_the_servers_word():
    with pytest.raises(RemoteFailure, match="Failure"):
        Reader(LineToServer(bytes(1_000_000), fail_at=500_000)).read(0, 1_000_000)


STEP_S = 0.6


@pytest.mark.parametrize(("rate", "round_trip_s", "share"), [
    (0.1e6, 0.1, 0.7), (1e6, 0.05, 0.7), (6e6, 0.03, 0.7), (25e6, 0.03, 0.7), (12.5e6, 0.3, 0.35),
])  # fmt: skip
def test_steps_use_the_line_and_let_others_have_their_turn(rate, round_trip_s, share):
    """As a log is copied: one step after another, each with three round trips of questions."""
    line = LineToServer(bytes(int(rate * 12)), rate=rate, round_trip_s=round_trip_s)
    reader, size, steps = Reader(line), 0, []
    while size < len(line.content):
        began = line.now
        line.now += round_trip_s  # a stat
        size += len(reader.read(size, len(line.content), STEP_S))
        steps.append(line.now - began)
    assert max(steps) < STEP_S + 1.5 + 10 * round_trip_s
    assert len(line.content) / rate / line.now > share
