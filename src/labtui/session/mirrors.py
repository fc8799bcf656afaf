"""Byte-exact copies of remote logs: where they lie, how they are copied as they grow, and the runs computed from them.

The length of a mirror on disk is the offset of the next read. SFTP has no inodes, so a replaced file is recognised
by its bytes: each read repeats the end of the mirror. If these differ, a new segment begins
(``<job name>.<job id>.restart1.out``); nothing already copied is changed.

Runs are stored with what they were computed from: the job, the length of its mirrors, how it ended, the version of the
log readers and the lab's own patterns. If any of these differs, the mirrors are parsed again, so a better reader or a
new pattern in `lab.toml` corrects the runs of an old folder. If a mirror is gone, its last reading stays.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from labtui.cluster.local_files import make_folder_inside, open_inside, reader_inside, stat_inside
from labtui.domain.errors import LabError, StoreError
from labtui.domain.model import JobPhase, Stream
from labtui.domain.state import LOG_ENDINGS, READ_STREAMS, LabState, LogState, SubmissionState
from labtui.session.folder import LabFolder
from labtui.session.settings import SETTINGS_FILE
from labtui.session.store import Store
from labtui.training_logs import PARSER_VERSION

if TYPE_CHECKING:
    from labtui.cluster.files import RemoteFiles
    from labtui.session.run_matcher import SubmissionReader


STREAMS = tuple(LOG_ENDINGS)


def segments_on_disk(folder: LabFolder, submission: SubmissionState, stream: Stream) -> list[int]:
    """The numbers of the segments of a job's log in the folder, ascending."""
    name = re.escape(Path(submission.mirror(stream, 987654321)).name)
    pattern = re.compile(name.replace(r"\.restart987654321", r"(?:\.restart([0-9]{1,9}))?"))
    matches = (pattern.fullmatch(path.name) for path in folder.logs.glob("*"))
    return sorted(int(match[1] or 0) for match in matches if match)


def with_sizes(folder: LabFolder, state: LabState) -> LabState:
    """The state with the sizes of the mirrors on disk, for a start or beside another process."""
    for submission in tuple(state.submissions.values()):
        for stream in STREAMS:
            status = folder.status(submission.mirror(stream)) if stream in submission.remote_logs else None
            log = submission.logs.get(stream, LogState())
            if status is not None and (log.size != status.st_size or stream not in submission.logs):
                state = state.with_log(submission.token, stream, replace(log, size=status.st_size))
    return state


OVERLAP = 1024
"""Bytes before the end of the mirror that each read repeats."""

STEP_S = 0.6
"""A step requests no more data after this time: many round trips long, but short for the other tasks that wait."""


MAX_STEP_BYTES = 16 * 1024**2
"""The most that one step reads into memory."""


class CopyStep(msgspec.Struct, frozen=True):
    """The result of one check of a remote log; the defaults if there is no such file.

    `grown` is the number of bytes appended. `appeared`: it is there for the first time, and empty. `restarted`: a new
    segment must begin; nothing was appended. `behind`: more can be copied at once.
    """

    grown: int = 0
    appeared: bool = False
    restarted: bool = False
    behind: bool = False


class LogCopy:
    """Copies one remote file into one local file of `folder`. Only ever appends."""

    def __init__(self, remote: str, folder: Path, name: str) -> None:
        """`name` is the mirror's relative path in `folder`."""
        self.remote = remote
        self.local = folder / name
        self._folder = folder
        self._modified: float | None = None
        self.compare_start = stat_inside(folder, name) is not None
        """Whether the next check compares the beginning, too: after a start, or a broken connection."""

    @property
    def size(self) -> int:
        """Bytes copied so far, which only the mirror's length records."""
        status = stat_inside(self._folder, self.local)
        return status.st_size if status is not None else 0

    def step(self, files: RemoteFiles, room: int = MAX_STEP_BYTES) -> CopyStep:
        """Check the remote file once and copy at most `room` bytes.

        Raises:
            ConnectionLost, RemoteFailure: from the cluster.
            OSError: from this computer's disk.
        """
        if (stat := files.stat(self.remote)) is None:
            return CopyStep()
        size = self.size
        touched = self._modified not in (None, stat.mtime)
        start = min(size, OVERLAP) if self.compare_start or (touched and stat.size == size) else 0
        if stat.size < size or (start and files.read(self.remote, 0, start) != self.mirrored(0, start)):
            return CopyStep(restarted=True)
        if start:
            self.compare_start = False
        wanted = stat.size - size
        if not wanted and not touched:
            appeared, self._modified = self._modified is None and not size, stat.mtime
            return CopyStep(appeared=appeared)
        overlap, came = min(size, OVERLAP), bytearray()
        ends = overlap + min(wanted, room, MAX_STEP_BYTES)
        try:
            files.read_into(self.remote, size - overlap, ends, came.extend, within_s=STEP_S)
        except LabError:
            with contextlib.suppress(OSError):
                self._append(size, came)  # keep what arrived before the failure
            raise
        if (grown := self._append(size, came)) is None:
            return CopyStep(restarted=True)
        behind = len(came) < overlap or grown < wanted  # it shrank, or there is more to copy
        if not behind:
            self._modified = stat.mtime
        return CopyStep(grown=grown, behind=behind)

    def glance(self, files: RemoteFiles) -> CopyStep | None:
        """Append what is new at the end, in one round trip; None if a full check is needed."""
        from labtui.cluster.files import PEEK_BYTES  # late: the first frame needs nothing of SSH

        size = self.size
        if self.compare_start or not size:
            return None
        overlap = min(size, OVERLAP)
        data = files.peek(self.remote, size - overlap)
        grown = None if len(data) < overlap else self._append(size, data)
        if grown:
            self._modified = None
        return None if grown is None else CopyStep(grown=grown, behind=len(data) >= PEEK_BYTES)

    def _append(self, size: int, came: bytes | bytearray) -> int | None:
        """Append `came`, which begins with the end of the mirror; return the bytes added, or None if that differs.

        The mirror stays a prefix of the remote file even if the disk takes only part. Raises OSError.
        """
        start = size - min(size, OVERLAP)
        overlap = min(size - start, len(came))
        if came[:overlap] != self.mirrored(start, overlap):
            return None
        if not (data := memoryview(came)[overlap:]):
            return 0
        if not size:  # the folder may have been deleted
            make_folder_inside(self._folder, self.local.parent)
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


READ_PIECE = 4 * 1024 * 1024
"""The bytes of a mirror that are parsed at a time."""

AT_ONCE_BYTES = 8 * 1024 * 1024
"""What is parsed of a submission while a folder opens, and at each look beside another process."""


class Readings:
    """Parses mirrors, with one reader for each submission whose logs may still grow."""

    def __init__(self, folder: LabFolder, store: Store) -> None:
        self._folder = folder
        self._store = store
        self._readers: dict[str, SubmissionReader] = {}
        self._patterns: tuple[str, ...] = ()
        """The lab's own patterns for log lines, as of when `lab.toml` was last valid."""
        self._patterns_as_of = 0

    def notice_patterns(self) -> bool:
        """Whether the lab's own patterns have changed in `lab.toml`: then all mirrors are parsed again."""
        status, before = self._folder.status(SETTINGS_FILE), self._patterns
        if status is not None and status.st_mtime_ns != self._patterns_as_of:
            self._patterns_as_of = status.st_mtime_ns
            with contextlib.suppress(LabError):  # not valid, for instance while it is edited
                self._patterns = self._folder.settings().log_patterns
        if changed := self._patterns != before:
            self._readers.clear()
        return changed

    def reader(self, state: LabState, token: str) -> SubmissionReader:
        """The reader of a submission's current logs; a new one if a log was restarted."""
        from labtui.session.run_matcher import SubmissionReader

        submission = state.submissions[token]
        logs = tuple(map(submission.mirror, READ_STREAMS))
        known = self._readers.get(token)
        if known is not None and known.logs == logs and (not known.ended or has_whole_logs(submission)):
            return known
        reader = self._readers[token] = SubmissionReader(submission, logs, self._patterns)
        return reader

    def drop(self, token: str) -> None:
        """Forget a submission's reader; its mirrors are parsed from the beginning if they are needed again."""
        self._readers.pop(token, None)

    def are_current(self, submission: SubmissionState) -> bool:
        """Whether its stored runs were computed from the mirrors as they are now, or from one that is gone since."""
        source = self._store.sources.get(submission.token)
        return source == self._source(submission) or bool(self.lost_logs(submission))

    def lost_logs(self, submission: SubmissionState) -> list[Stream]:
        """The logs that its stored runs were computed from and whose mirrors are gone, or empty."""
        parts = self._store.sources.get(submission.token, "").split()
        read = {part.rpartition(":")[0] for part in parts if not part.endswith(":0")}
        logs = submission.logs.items()
        return [stream for stream, log in logs if not log.size and f"{stream}:{log.segment}" in read]

    def _source(self, submission: SubmissionState) -> str:
        """All that its runs are computed from, as text to compare."""
        job = submission.job
        state = job.slurm_state if job is not None and has_whole_logs(submission) else "-"
        sizes = ((stream, submission.logs.get(stream)) for stream in READ_STREAMS)
        logs = (f"{stream}:{log.segment}:{log.size}" for stream, log in sizes if log is not None)
        forms = zlib.crc32("\n".join(self._patterns).encode())
        return " ".join((job.job_id if job else "", f"{PARSER_VERSION}:{forms:08x}", state or "?", *logs))

    def catch_up(self, state: LabState, most_bytes: float = math.inf) -> LabState:
        """The state with the runs computed from the mirrors on disk, of each submission as `read_whole` does."""
        if state.submissions:
            self.notice_patterns()
        for submission in tuple(state.submissions.values()):
            for stream in self.lost_logs(submission):  # it is looked for on the cluster once more
                log = replace(submission.logs[stream], complete=False)
                state = state.with_log(submission.token, stream, log)
            has_logs = any(log.size for stream, log in submission.logs.items() if stream in READ_STREAMS)
            if has_logs and not self.are_current(submission):
                state = self.read_whole(state, submission.token, most_bytes)
        return state

    def read_whole(self, state: LabState, token: str, most_bytes: float = math.inf) -> LabState:
        """The state with a submission's runs, computed from all of its mirrors.

        After `most_bytes` the state is as before, and the next call goes on from there.
        """
        submission, reader = state.submissions[token], self.reader(state, token)
        stop = sum(reader.parsed.values()) + most_bytes
        for stream in READ_STREAMS:
            path = submission.mirror(stream)
            while self._folder.has(path) and self.read_piece(reader, stream, path) is not None:
                if reader.is_binary(stream):  # a sparse file may claim any size
                    break
                if sum(reader.parsed.values()) >= stop and not self._is_read(submission):
                    return state
        if has_whole_logs(submission) and not reader.ended:
            reader.end()
        return reader.apply_to(state)

    def _is_read(self, submission: SubmissionState) -> bool:
        """Whether its reader has parsed the mirrors to their ends."""
        reader = self._readers[submission.token]
        sizes = ((stream, submission.logs.get(stream, LogState()).size) for stream in READ_STREAMS)
        return all(reader.parsed[stream] >= size or reader.is_binary(stream) for stream, size in sizes)

    def read_piece(self, reader: SubmissionReader, stream: Stream, path: Path | str) -> bool | None:
        """Parse the next piece of a mirror; return whether it changed anything in the runs, None at its end.

        Raises OSError.
        """
        with self._folder.reader(path) as file:
            file.seek(reader.parsed[stream])
            data = file.read(READ_PIECE)
        return reader.feed(stream, data) if data else None

    def save(self, state: LabState, tokens: Iterable[str] | None = None) -> None:
        """Store the runs of logs read to their ends (of `tokens`, if given); drop the readers of finished logs."""
        read = [state.submissions[token] for token in (self._readers if tokens is None else tokens)]
        new = (item for item in read if self._is_read(item) and not self.are_current(item))
        sources = {item.token: self._source(item) for item in new}
        if sources and self._store.refusal is None:
            try:
                self._store.write_readings(state, sources)
            except StoreError:  # they are computed again the next time
                return
        for token in [token for token, reader in self._readers.items() if reader.ended]:
            self.drop(token)


def has_whole_logs(submission: SubmissionState) -> bool:
    """Whether its job has ended and its parsed logs, if it has any, are complete."""
    if submission.job is None or submission.job.phase is not JobPhase.FINISHED:
        return False
    from labtui.slurm.values import known_logs

    read = [submission.logs.get(stream) for stream in known_logs(submission) if stream in READ_STREAMS]
    return all(log is not None and log.complete for log in read)


def state_of(folder: LabFolder, store: Store) -> LabState:
    """The state of a lab folder: what is stored, with the runs computed from its mirrors.

    Raises:
        StoreError: when it cannot be read.
    """
    return Readings(folder, store).catch_up(with_sizes(folder, store.load()))
