"""Reading a long piece of a file over SFTP: many requests on their way, asked for and taken by one thread.

paramiko's own `readv` sends from a second thread, which goes on asking when the reader has stopped, keeps files alive
that were closed, may ask for a piece twice when answers are quick, and knows nothing of the line. This is the same
protocol with the same library's messages; nothing here opens, writes or decides what is read.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import paramiko

LEAST, MOST = 64 * 1024, 4 * 1024 * 1024
"""Bytes on their way. The least goes through a bad line in seconds; the most fills 1 Gbit/s over 30 ms."""

SMALL_REQUEST = 32 * 1024
"""What every server gives in one answer."""

QUICK_S, LATE_S = 0.25, 0.75
"""Beyond two round trips: an answer that took less than the one lets more be on their way, more than the other less."""


@dataclass(slots=True)
class Pace:
    """How many bytes may be on their way: so many as the line brings within about half a second.

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

        A far line has four round trips more than `within_s`: as many as asking costs anyway.

        Raises:
            OSError: the server refused. paramiko's exceptions and TimeoutError: the line.
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
        for asked in self._waiting:
            self._message(asked)

    def _ask_ahead(self, offset: int, end: int) -> int:
        """Ask for as much as may be on its way; where to go on."""
        on_the_way = sum(asked.size for asked in self._waiting)
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

    def _message(self, asked: _Asked) -> tuple[int, Any]:
        while asked.number not in self._answers.got:
            self._sftp._read_response()
        return self._answers.got.pop(asked.number)

    def _answer(self, asked: _Asked, *, held_back: bool) -> bytes:
        """The bytes of one answer; none at the end of the file."""
        import paramiko
        from paramiko.sftp import CMD_DATA, CMD_STATUS

        kind, message = self._message(asked)
        if kind == CMD_STATUS:
            try:
                self._sftp._convert_status(message)
            except EOFError:
                return b""
        if kind != CMD_DATA:
            raise paramiko.SFTPError("The server did not answer with data.")
        data: bytes = message.get_string()
        self._pace.answered(len(data), self._steady() - asked.at, self._round_trip_s, held_back=held_back)
        return data
