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

SLICE = 256 * 1024
"""Bytes per step while a log keeps up; bounded, so that thirty logs share the line fairly."""

CATCH_UP_SLICE = 4 * 1024 * 1024
"""Bytes per step while a log is far behind: long reads are pipelined and ten times as fast."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one look at a remote log gave.

    `grown` are the bytes appended. `restarted` tells why a new segment has to begin (then nothing was appended).
    `behind` says that there is more to read at once; `missing` that there is no such file.
    """

    grown: bytes = b""
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
        return cluster.read(self.remote, 0, length) == self._local_bytes(0, length)

    def _read_on(self, cluster: Cluster, size: int, remote_size: int, modified: float) -> Step:
        overlap = min(size, OVERLAP)
        missing = remote_size - size
        limit = CATCH_UP_SLICE if missing > SLICE else SLICE
        data = cluster.read(self.remote, size - overlap, overlap + min(missing, limit))
        if data[:overlap] != self._local_bytes(size - overlap, overlap):
            if len(data) < overlap:
                return Step(behind=True)  # it shrank between the two questions: ask again
            return Step(restarted="the remote log was replaced")
        grown = data[overlap:]
        if grown:
            self._append(grown)
        behind = size + len(grown) < remote_size
        if not behind:
            self._modified = modified
        return Step(grown=grown, behind=behind)

    def _local_bytes(self, offset: int, length: int) -> bytes:
        if not length:
            return b""
        with self.local.open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def _append(self, data: bytes) -> None:
        """All of `data`, or as much as the disk takes: what is on disk stays a prefix of the remote file."""
        handle = os.open(
            self.local, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o600
        )
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
        finally:
            os.close(handle)
