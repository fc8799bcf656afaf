"""Files on the cluster over the one SFTP channel: small, named operations, each with a deadline.

SFTP does not expand ``~``; relative paths start at the home directory. Paths are the cluster's (POSIX), never ours.

A long piece is read with many requests on their way, sent and taken by one thread. paramiko's own `readv` sends from a
second thread, which goes on when the reader has stopped, keeps files alive that were closed, may send a request twice
when answers are quick, and knows nothing of how fast the connection is.
"""

from __future__ import annotations

import contextlib
import errno
import posixpath
import re
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labtui.domain.errors import ConnectionLost, RemoteFailure

if TYPE_CHECKING:
    import paramiko


LEAST, MOST = 64 * 1024, 4 * 1024 * 1024
"""Bytes on their way. The least goes through a bad connection in seconds; the most fills 1 Gbit/s over 30 ms."""

SMALL_REQUEST = 32 * 1024
"""What every server gives in one answer."""

QUICK_S, LATE_S = 0.25, 0.75
"""Beyond two round trips: an answer that took less than the one lets more be on their way, more than the other less."""


@dataclass(slots=True)
class Pace:
    """How many bytes may be on their way: so many as the connection brings within about half a second.

    What is on its way has to be taken whatever happens, and everything else waits behind it.
    """

    on_the_way: int = LEAST

    def answered(self, size: int, seconds: float, round_trip_s: float, *, held_back: bool) -> None:
        """Learn from an answer of `size` bytes, `seconds` after it was asked for.

        `held_back`: more would have been asked for, had the pace allowed it.
        """
        waited = seconds - 2 * round_trip_s
        if waited < QUICK_S and held_back:
            self.on_the_way = min(MOST, self.on_the_way + size)
        elif waited > LATE_S:
            self.on_the_way = max(LEAST, self.on_the_way - size)


class _Answers:
    """Where paramiko puts what the server said, by the request's number."""

    def __init__(self) -> None:
        self.got: dict[int, tuple[int, Any]] = {}

    def _async_response(self, kind: int, message: Any, number: int) -> None:
        self.got[number] = (kind, message)


@dataclass(slots=True)
class _Asked:
    number: int
    offset: int
    size: int
    at: float


class Pipeline:
    """One reading of an open file, from `offset` up to `end`; every answer that was asked for is taken."""

    def __init__(
        self,
        sftp: paramiko.SFTPClient,
        handle: bytes,
        *,
        pace: Pace,
        round_trip_s: float,
        most_request: int,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sftp: Any = sftp
        self._handle = handle
        self._pace = pace
        self._round_trip_s = round_trip_s
        self._most_request = most_request
        self._steady = steady
        self._answers = _Answers()
        self._waiting: deque[_Asked] = deque()

    def read(self, offset: int, end: int, take: Callable[[bytes], bool], within_s: float | None) -> None:
        """Give `take` the pieces in order, until it says no, the file ends, or `within_s` is over and all has come.

        A far connection has four round trips more than `within_s`: as many as asking costs anyway.

        Raises:
            OSError: the server refused. paramiko's exceptions and TimeoutError: the connection.
        """
        until = None if within_s is None else self._steady() + within_s + 4 * self._round_trip_s
        while True:
            if until is None or self._steady() < until:
                offset = self._ask_ahead(offset, end)
            if not self._waiting:
                return
            first = self._waiting.popleft()
            data = self._answer(first, held_back=offset < end)
            if not data or not take(data):
                break
            if (
                len(data) < first.size
            ):  # the server gives less at once, or the file ends here: the next answer tells
                self._waiting.appendleft(self._ask(first.offset + len(data), first.size - len(data)))
        for request in self._waiting:
            self._message(request)

    def _ask_ahead(self, offset: int, end: int) -> int:
        """Ask for as much as may be on its way; where to go on."""
        on_the_way = sum(request.size for request in self._waiting)
        while offset < end:
            size = min(self._most_request, max(SMALL_REQUEST, self._pace.on_the_way // 8), end - offset)
            if self._waiting and on_the_way + size > self._pace.on_the_way:
                break
            self._waiting.append(self._ask(offset, size))
            offset += size
            on_the_way += size
        return offset

    def _ask(self, offset: int, size: int) -> _Asked:
        from paramiko.sftp import CMD_READ, int64

        at = self._steady()
        number = self._sftp._async_request(self._answers, CMD_READ, self._handle, int64(offset), size)
        return _Asked(number, offset, size, at)

    def _message(self, request: _Asked) -> tuple[int, Any]:
        while request.number not in self._answers.got:
            self._sftp._read_response()
        return self._answers.got.pop(request.number)

    def _answer(self, request: _Asked, *, held_back: bool) -> bytes:
        """The bytes of one answer; none at the end of the file."""
        import paramiko
        from paramiko.sftp import CMD_DATA, CMD_STATUS

        kind, message = self._message(request)
        if kind == CMD_STATUS:
            try:
                self._sftp._convert_status(message)
            except EOFError:
                return b""
        if kind != CMD_DATA:
            raise paramiko.SFTPError("The server returned no data.")
        data: bytes = message.get_string()
        self._pace.answered(len(data), self._steady() - request.at, self._round_trip_s, held_back=held_back)
        return data


LARGE_REQUEST = 255 * 1024
"""What OpenSSH's server reads at once since 8.5: as many bytes for an eighth of the requests, twice as fast."""
MAX_PACKET = 256 * 1024
WINDOW = 32 << 20
"""The SFTP channel's packets and window, wide enough for large requests where answers come late."""


SftpSession = Callable[[], AbstractContextManager["paramiko.SFTPClient"]]
"""Gives the SFTP channel, with a deadline; the server's refusals (OSError) pass through."""


@dataclass(frozen=True, slots=True)
class FileStat:
    """Size in bytes and modification time in UNIX seconds of the cluster."""

    size: int
    mtime: float


PEEK_BYTES = SMALL_REQUEST
PEEK_S = 2.0


@dataclass(frozen=True, slots=True)
class _Peeking:
    """A file that stays open for a while, on one SFTP channel; `until` in seconds of a clock that never jumps."""

    path: str
    sftp: paramiko.SFTPClient
    file: Any
    until: float


class RemoteFiles:
    """Operations on files. `session` gives the SFTP channel with a deadline."""

    def __init__(self, session: SftpSession) -> None:
        self._session = session
        self._pace = Pace()
        self._peeking: _Peeking | None = None

    def stat(self, path: str) -> FileStat | None:
        """What is at `path`, links followed; None when nothing is there."""
        with self._channel(path) as sftp:
            try:
                answer = sftp.stat(path)
            except FileNotFoundError:
                return None
        return FileStat(answer.st_size or 0, float(answer.st_mtime or 0))

    def home(self) -> str:
        """The absolute path of the home directory."""
        with self._channel(".") as sftp:
            return sftp.normalize(".")

    def read(self, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        """Up to `limit` bytes from `offset`; empty at or behind the end. One open file, pipelined when large.

        Raises:
            RemoteFailure: the file is not there or cannot be read.
        """
        pieces: list[bytes] = []

        def take(piece: bytes) -> bool:
            pieces.append(piece)
            return True

        self.read_into(path, offset, limit, take)
        return b"".join(pieces)

    def read_into(
        self,
        path: str,
        offset: int,
        limit: int,
        take: Callable[[bytes], bool],
        *,
        within_s: float | None = None,
    ) -> None:
        """The same in pieces, in order, each given to `take` as it comes; `take` says whether to go on.

        With `within_s` nothing more is asked for after so many seconds; what is on its way by then is taken.

        Raises:
            RemoteFailure, ConnectionLost: as `read`; what was taken before is good.
        """
        if limit <= 0:
            return
        try:
            with self._channel(path) as sftp:
                # Two round trips: one to open, one for the data. How long the file is shows in what comes.
                began = time.monotonic()
                file: Any = sftp.open(path, "rb")
                round_trip_s = time.monotonic() - began
                most = request_size(sftp)
                try:
                    pipeline = Pipeline(
                        sftp, file.handle, pace=self._pace, round_trip_s=round_trip_s, most_request=most
                    )
                    pipeline.read(offset, offset + limit, take, within_s)
                finally:
                    _close_without_waiting(file)
        except (ConnectionLost, TimeoutError):
            self._pace = Pace()
            raise

    def peek(self, path: str, offset: int) -> bytes:
        """Up to `PEEK_BYTES` from `offset` in one round trip, from a file that stays open; empty at its end.

        The path is opened anew every `PEEK_S`: a file that took its place is seen then.

        Raises:
            RemoteFailure, ConnectionLost: as `read`.
        """
        from paramiko.sftp import CMD_READ, int64

        with self._channel(path) as sftp:
            try:
                request: Any = sftp
                _, answer = request._request(
                    CMD_READ, self._peeked(sftp, path).handle, int64(offset), PEEK_BYTES
                )
            except EOFError:
                return b""
            except BaseException:
                self._peeking = None
                raise
        data: bytes = answer.get_string()
        return data

    def _peeked(self, sftp: paramiko.SFTPClient, path: str) -> Any:
        """The open file at `path`, opened less than `PEEK_S` ago."""
        now, held = time.monotonic(), self._peeking
        if held is not None and held.sftp is sftp and held.path == path and now < held.until:
            return held.file
        self._peeking = None
        if held is not None and held.sftp is sftp:
            _close_without_waiting(held.file)
        file = sftp.open(path, "rb")
        self._peeking = _Peeking(path, sftp, file, now + PEEK_S)
        return file

    def write_atomic(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Put `data` at `path`: it appears whole, with its mode, or not at all.

        Raises:
            RemoteFailure: no room, no permission, no such directory.
        """
        with self._channel(path) as sftp:
            _write(sftp, path, data, mode)

    @contextlib.contextmanager
    def _channel(self, path: str) -> Iterator[paramiko.SFTPClient]:
        """The channel for something done with `path`: what the server refuses is told in words."""
        try:
            with self._session() as sftp:
                yield sftp
        except TimeoutError:
            raise
        except OSError as problem:
            raise file_failure(path, problem) from None


def file_failure(path: str, problem: OSError) -> RemoteFailure:
    """A file operation's refusal in words. SFTP tells a full disk or quota only as "Failure"."""
    if problem.errno == errno.ENOENT:
        return RemoteFailure(f"{path} is not on the cluster.", "Check the path.", detail=str(problem))
    if problem.errno == errno.EACCES:
        return RemoteFailure(
            f"You may not read or write {path} on the cluster.",
            "Check the path and the account in it.",
            detail=str(problem),
        )
    return RemoteFailure(
        f"The cluster refused an operation on {path}: {problem}",
        "Often this is a full quota; `labtui doctor` shows it.",
        detail=str(problem),
        wait=True,
    )


def request_size(sftp: paramiko.SFTPClient) -> int:
    """The most bytes one read request may ask this server for."""
    channel = sftp.get_channel()
    version = channel.get_transport().remote_version if channel is not None else ""
    answer = re.search(r"OpenSSH_([0-9]+)\.([0-9]+)", version)
    return LARGE_REQUEST if answer and (int(answer[1]), int(answer[2])) >= (8, 5) else SMALL_REQUEST


def _close_without_waiting(file: Any) -> None:
    """The server's word on closing a file that was only read tells nothing, and costs a round trip."""
    file._close(async_=True)


def _write(sftp: paramiko.SFTPClient, path: str, data: bytes, mode: int) -> None:
    temporary = f"{posixpath.dirname(path) or '.'}/.{posixpath.basename(path)}.{secrets.token_hex(4)}.part"
    try:
        with sftp.open(temporary, "wb") as file:
            file.set_pipelined(True)
            for piece in _pieces(data):
                file.write(piece)
        sftp.chmod(temporary, mode)
        if (sftp.stat(temporary).st_size or 0) != len(data):
            raise OSError(errno.EIO, "the upload is incomplete")
        _rename(sftp, temporary, path)
    except (OSError, EOFError):
        with contextlib.suppress(Exception):
            sftp.remove(temporary)
        raise


def _rename(sftp: paramiko.SFTPClient, old: str, new: str) -> None:
    try:
        sftp.posix_rename(old, new)
    except OSError as problem:
        if problem.errno in (errno.EACCES, errno.ENOENT):
            raise
        # A server without OpenSSH's extension: its rename does not replace.
        with contextlib.suppress(FileNotFoundError):
            sftp.remove(new)
        sftp.rename(old, new)


def _pieces(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), 32768):
        yield data[start : start + 32768]
