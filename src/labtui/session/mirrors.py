"""Byte-exact copies of remote logs: where they lie, and how one is copied as it grows.

The length of a mirror on disk is the offset to read from next. SFTP knows no inode, so a replaced file is noticed
by its bytes: each read repeats the end of the mirror. What does not match begins a new segment
(``<job name>.<job id>.restart1.out``); nothing already copied is touched.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from labtui.cluster.local_files import open_inside, reader_inside, stat_inside
from labtui.domain.errors import LabError
from labtui.domain.model import Stream
from labtui.domain.state import LabState, LogState, SubmissionState
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


def segments_on_disk(folder: LabFolder, submission: SubmissionState, stream: Stream) -> list[int]:
    """The numbers of the segments that lie in the folder, in order."""
    if submission.job is None:
        return []
    name = re.escape(Path(submission.mirror(stream, 987654321)).name)
    pattern = re.compile(name.replace(r"\.restart987654321", r"(?:\.restart([0-9]{1,9}))?"))
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


MAX_STEP_BYTES = 16 * 1024**2
"""What one step holds in memory."""


@dataclass(frozen=True, slots=True)
class CopyStep:
    """What one look at a remote log gave; nothing where there is no such file.

    `grown` is how many bytes were appended. `restarted`: a new segment has to begin, and nothing was
    appended. `behind` says that there is more to read at once; `no_room` that there is more, for which there was no
    room.
    """

    grown: int = 0
    restarted: bool = False
    behind: bool = False
    no_room: bool = False


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
            return CopyStep(no_room=True)
        if not wanted and not touched:
            self._modified = stat.mtime
            return CopyStep()
        overlap, came = min(size, OVERLAP), bytearray()
        ends = overlap + min(allowed, MAX_STEP_BYTES)

        def take(piece: bytes) -> bool:
            came.extend(piece)
            return True

        try:
            files.read_into(self.remote, size - overlap, ends, take, within_s=STEP_S)
        except LabError:
            with contextlib.suppress(OSError):
                self._append(size, came)  # what came before it broke off counts
            raise
        grown = self._append(size, came)
        if grown is None:
            return CopyStep(restarted=True)
        behind = len(came) < overlap or grown < allowed  # it shrank, or there is more to read
        if not behind:
            self._modified = stat.mtime
        no_room = allowed < wanted and not behind
        return CopyStep(grown=grown, behind=behind, no_room=no_room)

    def glance(self, files: RemoteFiles) -> CopyStep | None:
        """Append what came since the last look, in one round trip; None where only a whole look tells what happened."""
        from labtui.cluster.files import PEEK_BYTES  # late: the first frame needs nothing of SSH

        size = self.size
        if self._compare_start or not size:
            return None
        overlap = min(size, OVERLAP)
        data = files.peek(self.remote, size - overlap)
        grown = None if len(data) < overlap else self._append(size, data)
        if grown is None:
            return None
        if grown:
            self._modified = None
        return CopyStep(grown=grown, behind=len(data) >= PEEK_BYTES)

    def _append(self, size: int, came: bytes | bytearray) -> int | None:
        """Append what `came` beyond the mirror's end, which it repeats first: how many bytes; None where it does not.

        What is on disk stays a prefix of the remote file, however much of it the disk takes. Raises OSError.
        """
        start = size - min(size, OVERLAP)
        overlap = min(size - start, len(came))
        if came[:overlap] != self.mirrored(start, overlap):
            return None
        data = memoryview(came)[overlap:]
        if not data:
            return 0
        handle = open_inside(self._folder, self.local, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            while data:
                written = os.write(handle, data)
                data, size = data[written:], size + written
                if os.fstat(handle).st_size != size:
                    raise OSError(errno.EBUSY, "another program writes this file, too")
        finally:
            os.close(handle)
        return len(came) - overlap

    def mirrored(self, offset: int, length: int) -> bytes:
        if not length:
            return b""
        with reader_inside(self._folder, self.local) as file:
            file.seek(offset)
            return file.read(length)
