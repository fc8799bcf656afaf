"""Byte-exact copies of remote logs: where they lie, and how one is copied as it grows.

The length of a mirror on disk is the offset to read from next. SFTP knows no inode, so a replaced file is noticed
by its bytes: each read repeats the end of the mirror. What does not match begins a new segment
(``<job name>.<job id>.restart1.out``); nothing already copied is touched.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from labtui.cluster.local_files import open_inside, reader_inside, stat_inside
from labtui.domain.model import Stream
from labtui.domain.state import LOG_ENDINGS, LabState, LogState, SubmissionState
from labtui.session.folder import LabFolder

if TYPE_CHECKING:
    from labtui.cluster.files import RemoteFiles

STREAMS: tuple[Stream, ...] = ("out", "err", "gpu")
READ_STREAMS: tuple[Stream, ...] = ("out", "err")
"""The streams that tell of epochs and failures."""


def segment_path(
    folder: LabFolder, submission: SubmissionState, stream: Stream, segment: int | None = None
) -> Path | None:
    """Where a segment lies, without a number the one that is being written; None while there is no job."""
    name = submission.mirror(stream, segment)
    return folder.path / name if name else None


def tail_path(path: Path) -> Path:
    """Beside a mirror that does not take all of its log: the end of that log."""
    return path.with_name(f"{path.name}.tail")


def segments_on_disk(folder: LabFolder, submission: SubmissionState, stream: Stream) -> list[int]:
    """The numbers of the segments that lie in the folder, in order."""
    if submission.job is None:
        return []
    ending = f".{LOG_ENDINGS[stream]}"
    stem = Path(submission.mirror(stream, 0)).name.removesuffix(ending)
    pattern = re.compile(rf"{re.escape(stem)}(?:\.restart([0-9]{{1,9}}))?{re.escape(ending)}")
    matches = (pattern.fullmatch(path.name) for path in folder.logs.iterdir())
    return sorted(int(match[1] or 0) for match in matches if match)


def with_sizes(folder: LabFolder, state: LabState) -> LabState:
    """The state with what the mirrors on disk hold: for a start, or beside another process."""
    for submission in tuple(state.submissions.values()):
        for stream in STREAMS:
            name = submission.mirror(stream) if stream in submission.remote_logs else ""
            status = folder.status(name) if name else None
            log = submission.logs.get(stream, LogState())
            if status is not None and (log.size != status.st_size or stream not in submission.logs):
                state = state.with_log(submission.token, stream, replace(log, size=status.st_size))
    return state


OVERLAP = 1024
"""Bytes before the end of the mirror that each read repeats."""

STEP_S = 0.6
"""A step asks for no more after so long: long beside the round trips it costs, short for what else waits."""


@dataclass(frozen=True, slots=True)
class CopyStep:
    """What one look at a remote log gave; nothing where there is no such file.

    `grown` is how many bytes were appended. `restarted`: a new segment has to begin, and nothing was
    appended. `behind` says that there is more to read at once; `no_room` that there is more, for which there was no
    room. `remote_size` is how long the log is.
    """

    grown: int = 0
    restarted: bool = False
    behind: bool = False
    no_room: bool = False
    remote_size: int = 0


class LogCopy:
    """Copies one remote file into one local file of `folder`. Only ever appends."""

    def __init__(self, remote: str, folder: Path, local: Path) -> None:
        self.remote = remote
        self.local = local
        self._folder = folder
        self._modified: float | None = None
        self._compare_start = stat_inside(folder, local) is not None

    @property
    def size(self) -> int:
        """Bytes copied so far: the length of the mirror is the only record of it."""
        status = stat_inside(self._folder, self.local)
        return status.st_size if status is not None else 0

    def recheck(self) -> None:
        """The connection was broken: compare the beginning, too, at the next look."""
        self._compare_start = True

    def step(self, files: RemoteFiles, room: int | None = None) -> CopyStep:
        """Look once, and copy at most `room` bytes.

        Raises:
            ConnectionLost, RemoteFailure: from the cluster; OSError from our own disk.
        """
        stat = files.stat(self.remote)
        if stat is None:
            return CopyStep()
        size = self.size
        touched = self._modified not in (None, stat.mtime)
        start = min(size, OVERLAP) if self._compare_start or (touched and stat.size == size) else 0
        if stat.size < size or (start and files.read(self.remote, 0, start) != self.mirrored(0, start)):
            return CopyStep(restarted=True)
        if start:
            self._compare_start = False
        wanted = stat.size - size
        allowed = wanted if room is None else max(0, min(wanted, room))
        if wanted and not allowed:
            return CopyStep(no_room=True, remote_size=stat.size)
        if not wanted and not touched:
            self._modified = stat.mtime
            return CopyStep()
        overlap = min(size, OVERLAP)
        mirror = self._mirror(size, overlap)
        try:
            files.read_into(self.remote, size - overlap, overlap + allowed, mirror.take, within_s=STEP_S)
        finally:
            mirror.close()
        if mirror.finished().differs:
            return CopyStep(restarted=True)
        behind = bool(mirror.expected) or mirror.appended < allowed  # it shrank, or there is more to read
        if not behind:
            self._modified = stat.mtime
        no_room = allowed < wanted and not behind
        return CopyStep(grown=mirror.appended, behind=behind, no_room=no_room, remote_size=stat.size)

    def glance(self, files: RemoteFiles) -> CopyStep | None:
        """Append what came since the last look, in one round trip; None where only a whole look tells what happened."""
        from labtui.cluster.files import PEEK_BYTES  # late: the first frame needs nothing of SSH

        size = self.size
        if self._compare_start or not size:
            return None
        overlap = min(size, OVERLAP)
        data = files.peek(self.remote, size - overlap)
        mirror = self._mirror(size, overlap)
        mirror.take(data)
        mirror.close()
        if mirror.finished().differs or mirror.expected:
            return None
        if mirror.appended:
            self._modified = None
        return CopyStep(grown=mirror.appended, behind=len(data) >= PEEK_BYTES)

    def _mirror(self, size: int, overlap: int) -> _Mirror:
        return _Mirror(self._folder, self.local, size, self.mirrored(size - overlap, overlap))

    def mirrored(self, offset: int, length: int) -> bytes:
        if not length:
            return b""
        with reader_inside(self._folder, self.local) as file:
            file.seek(offset)
            return file.read(length)


class _Mirror:
    """The local file while pieces come in: first the overlap, which must repeat `expected`, then what is new.

    Problems of our own disk are kept here; raised in the middle of reading they would look like the cluster's.
    """

    def __init__(self, folder: Path, local: Path, size: int, expected: bytes) -> None:
        self.expected = expected
        self.differs = False
        self.appended = 0
        self.problem: OSError | None = None
        self._folder = folder
        self._local = local
        self._size = size
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
            self._handle = open_inside(self._folder, self._local, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        while data and self._handle is not None:
            if os.fstat(self._handle).st_size != self._size + self.appended:
                raise OSError(errno.EBUSY, "another program writes this file, too")
            written = os.write(self._handle, data)
            self.appended += written
            data = data[written:]

    def finished(self) -> _Mirror:
        """What came, after `close`. Raises OSError for a problem of our own disk."""
        if self.problem is not None:
            raise self.problem
        return self

    def close(self) -> None:
        """No more comes. Never raises: it also runs while the connection's own end is on its way up."""
        handle, self._handle = self._handle, None
        if handle is not None:
            try:
                os.close(handle)
            except OSError as problem:
                self.problem = self.problem or problem.with_traceback(None)
