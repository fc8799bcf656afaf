"""The runs of a lab folder, computed from its mirrors: when it is opened, and as they grow.

What was computed is kept with what it was computed from: the job, how long its mirrors are, how it ended, and the
version of the log readers. Where any of that differs now, the mirrors are read again; so a better reader, or a form of
log lines added to `lab.toml`, corrects the runs of an old folder. A mirror that is gone leaves its last reading.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from labtui.domain.model import JobPhase, Stream
from labtui.domain.state import LabState, SubmissionState
from labtui.session import mirrors
from labtui.session.folder import LabFolder
from labtui.session.store import Store
from labtui.training_logs import PARSER_VERSION

if TYPE_CHECKING:
    from labtui.session.run_matcher import SubmissionReader

READ_PIECE = 4 * 1024 * 1024
"""Bytes of a mirror that are read for epochs at once."""

AT_ONCE_BYTES = 8 * 1024 * 1024
"""Longer mirrors are not read while a folder opens: whoever follows them reads them in pieces."""


class Readings:
    """Reads mirrors; one reader for each submission whose logs may still grow."""

    def __init__(self, folder: LabFolder, store: Store) -> None:
        self._folder = folder
        self._store = store
        self._readers: dict[str, SubmissionReader] = {}

    @functools.cached_property
    def _patterns(self) -> tuple[str, ...]:
        return self._folder.log_patterns()

    def reader(self, state: LabState, token: str) -> SubmissionReader:
        """The reader of a submission's logs as they are now; a new one where they began again."""
        from labtui.session.run_matcher import SubmissionReader

        submission = state.submissions[token]
        logs = tuple(map(submission.mirror, mirrors.READ_STREAMS))
        known = self._readers.get(token)
        if known is not None and known.logs == logs and (not known.ended or is_over(submission)):
            return known
        reader = SubmissionReader(submission, logs, self._patterns)
        self._readers[token] = reader
        return reader

    def script_ended(self, token: str) -> bool:
        """Whether a submission's own log, as far as it is being read, shows that everything planned was done."""
        return token in self._readers and self._readers[token].script_ended

    def drop(self, token: str) -> None:
        """Read a submission's mirrors anew, or no more."""
        self._readers.pop(token, None)

    def are_current(self, submission: SubmissionState) -> bool:
        """Whether what is kept of its runs was computed from the mirrors as they are."""
        return self._store.sources.get(submission.token) == self._source(submission)

    def _source(self, submission: SubmissionState) -> str:
        """What its runs are a function of."""
        job = submission.job
        state = job.slurm_state if job is not None and is_over(submission) else "-"
        sizes = ((stream, submission.logs.get(stream)) for stream in mirrors.READ_STREAMS)
        logs = (f"{stream}:{log.segment}:{log.size}" for stream, log in sizes if log is not None)
        forms = zlib.crc32("\n".join(self._patterns).encode())
        return " ".join((job.job_id if job else "", f"{PARSER_VERSION}:{forms:08x}", state or "?", *logs))

    def caught_up(self, state: LabState, most_bytes: int | None = None) -> LabState:
        """The state with the runs as the mirrors on disk tell them; mirrors over `most_bytes` are left out."""
        for submission in tuple(state.submissions.values()):
            sizes = [log.size for stream, log in submission.logs.items() if stream in mirrors.READ_STREAMS]
            too_long = most_bytes is not None and sum(sizes) > most_bytes
            if not any(sizes) or too_long or self.are_current(submission):
                continue
            state = self.read_whole(state, submission.token)
        return state

    def read_whole(self, state: LabState, token: str) -> LabState:
        """The state with a submission's runs, its mirrors read as far as they go."""
        submission, reader = state.submissions[token], self.reader(state, token)
        for stream in mirrors.READ_STREAMS:
            self._read_on(reader, submission, stream)
        if is_over(submission) and not reader.ended:
            reader.end()
        return reader.applied(state)

    def _read_on(self, reader: SubmissionReader, submission: SubmissionState, stream: Stream) -> None:
        path = mirrors.segment_path(self._folder, submission, stream)
        if path is None or not self._folder.has(path):
            return
        with self._folder.reader(path) as file:
            file.seek(reader.parsed[stream])
            first = True
            while data := file.read(READ_PIECE):
                reader.feed(stream, data)
                if first and reader.is_binary(stream):  # a file with holes may claim any size
                    return
                first = False

    def save(self, state: LabState, tokens: Iterable[str] | None = None) -> None:
        """Keep what was computed (of these submissions); readers of logs that are over go.

        Raises:
            StoreError: it could not be stored; it is computed again the next time.
        """
        read = [state.submissions[token] for token in (self._readers if tokens is None else tokens)]
        sources = {item.token: self._source(item) for item in read if not self.are_current(item)}
        if sources and not self._store.read_only:
            self._store.write_readings(state, sources)
        for item in read:
            if is_over(item) and item.token in self._readers and self._readers[item.token].ended:
                self.drop(item.token)


def is_over(submission: SubmissionState) -> bool:
    """Whether its job has ended and both logs that tell of it are complete."""
    job, read = submission.job, [s for s in mirrors.READ_STREAMS if s in submission.remote_logs]
    if job is None or job.phase is not JobPhase.FINISHED or not read:
        return False
    return all(stream in submission.logs and submission.logs[stream].complete for stream in read)


def state_of(folder: LabFolder, store: Store) -> LabState:
    """What a lab folder holds: as stored, and as its mirrors tell.

    Raises:
        StoreError: when it cannot be read.
    """
    return Readings(folder, store).caught_up(mirrors.with_sizes(folder, store.load()))
