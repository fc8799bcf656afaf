"""One remote log, copied byte by byte as it grows: the mirror is a prefix of the remote file at any time.

SFTP knows no inode, so a file that was replaced is noticed by its bytes: each read begins a little before the end
of the mirror and must repeat what is there. After a break of the line, and before a log is called complete, the
beginning is compared as well. What does not match begins a new segment; nothing already copied is touched.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from labtui.engine.ports import Cluster

OVERLAP = 1024
"""Bytes before the end of the mirror that each read repeats."""

STEP_S = 0.6
"""A step asks for no more after so long: long beside the round trips it costs, short for what else waits."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one look at a remote log gave.

    `grown` is how many bytes were appended. `restarted` tells why a new segment has to begin (then nothing was
    appended). `behind` says that there is more to read at once; `missing` that there is no such file.
    """

    grown: int = 0
    restarted: str = ""
    behind: bool = False
    missing: bool = False


class LogCopy:
    """Copies one remote file into one local file. Only ever appends."""

    def __init__(self, remote: str, local: Path) -> None:
        self.remote = remote
        self.local = local
        self._modified: float | None = None
        self._compare_all = local.exists()

    @property
    def size(self) -> int:
        """Bytes copied so far: the length of the mirror is the only record of it."""
        try:
            return self.local.stat().st_size
        except FileNotFoundError:
            return 0

    def doubt(self) -> None:
        """The line was broken, or the job ended: compare the beginning, too, at the next look."""
        self._compare_all = True

    def step(self, cluster: Cluster) -> Step:
        """Look once. Raises ConnectionLost or RemoteFailure from the cluster, OSError from our own disk."""
        stat = cluster.stat(self.remote)
        if stat is None:
            return Step(missing=True)
        size = self.size
        if stat.size < size:
            return Step(restarted="the remote log became shorter")
        touched = self._modified is not None and stat.mtime != self._modified
        if size and (self._compare_all or (touched and stat.size == size)):
            if not self._begins_alike(cluster, size):
                return Step(restarted="the remote log was replaced")
            self._compare_all = False
        if stat.size == size and not touched:
            self._modified = stat.mtime
            return Step()
        return self._read_on(cluster, size, stat.size, stat.mtime)

    def _begins_alike(self, cluster: Cluster, size: int) -> bool:
        length = min(size, OVERLAP)
        return cluster.read(self.remote, 0, length) == self.mirrored(0, length)

    def _read_on(self, cluster: Cluster, size: int, remote_size: int, modified: float) -> Step:
        overlap = min(size, OVERLAP)
        mirror = _Mirror(self.local, self.mirrored(size - overlap, overlap))
        limit = overlap + remote_size - size
        try:
            cluster.read_into(self.remote, size - overlap, limit, mirror.take, within_s=STEP_S)
        finally:
            mirror.close()
        if mirror.problem is not None:
            raise mirror.problem
        if mirror.differs:
            return Step(restarted="the remote log was replaced")
        if mirror.expected:
            return Step(behind=True)  # it shrank between the two questions: ask again
        behind = size + mirror.appended < remote_size
        if not behind:
            self._modified = modified
        return Step(grown=mirror.appended, behind=behind)

    def mirrored(self, offset: int, length: int) -> bytes:
        """A piece of the mirror."""
        if not length:
            return b""
        with self.local.open("rb") as file:
            file.seek(offset)
            return file.read(length)


class _Mirror:
    """The local file while pieces come in: first the overlap, which must repeat `expected`, then what is new.

    Problems of our own disk are kept here; raised in the middle of reading they would look like the cluster's.
    """

    def __init__(self, local: Path, expected: bytes) -> None:
        self.expected = expected
        self.differs = False
        self.appended = 0
        self.problem: OSError | None = None
        self._local = local
        self._handle: int | None = None

    def take(self, piece: bytes) -> bool:
        """Compare or append the next piece; whether to go on."""
        overlap = min(len(piece), len(self.expected))
        if piece[:overlap] != self.expected[:overlap]:
            self.differs = True
            return False
        self.expected = self.expected[overlap:]
        try:
            self._append(memoryview(piece)[overlap:])
        except OSError as problem:
            self.problem = problem.with_traceback(None)  # it would keep alive what the callers hold
            return False
        return True

    def _append(self, data: memoryview) -> None:
        """All of `data`, or as much as the disk takes: what is on disk stays a prefix of the remote file."""
        if data and self._handle is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
            self._handle = os.open(self._local, flags, 0o600)
        while data and self._handle is not None:
            written = os.write(self._handle, data)
            self.appended += written
            data = data[written:]

    def close(self) -> None:
        """No more comes. Never raises: it also runs while the line's own end is on its way up."""
        handle, self._handle = self._handle, None
        if handle is not None:
            try:
                os.close(handle)
            except OSError as problem:
                self.problem = self.problem or problem.with_traceback(None)
