"""Where the byte-exact copies of remote logs lie, and how many bytes they hold.

``logs/<job name>.<job id>.out`` is the first segment. When the remote file began anew (requeue, truncation,
replacement) the next segment is ``logs/<job name>.<job id>.restart1.out``: bytes of two files are never mixed.
The length of a mirror on disk *is* the offset to read from next; there is no second record that could disagree.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from labtui.core.events import AnyEvent, LogGrew
from labtui.core.model import Stream
from labtui.core.state import LabState, SubmissionState
from labtui.engine.folder import LabFolder, file_name

SUFFIXES: dict[Stream, str] = {"out": "out", "err": "err", "gpu": "gpu.csv"}
STREAMS: tuple[Stream, ...] = ("out", "err", "gpu")
READ_STREAMS: tuple[Stream, ...] = ("out", "err")
"""The streams that tell of epochs and failures."""


def mirror_name(job_name: str, job_id: str, stream: Stream, segment: int) -> str:
    """The file name of a mirror's segment."""
    restart = f".restart{segment:d}" if segment else ""
    return f"{file_name(job_name)}.{file_name(job_id)}{restart}.{SUFFIXES[stream]}"


def segment_path(folder: LabFolder, submission: SubmissionState, stream: Stream, segment: int) -> Path | None:
    """Where a segment lies; None while the submission has no job."""
    if submission.job is None:
        return None
    return folder.logs / mirror_name(submission.job_name, submission.job.job_id, stream, segment)


def current_segment(submission: SubmissionState, stream: Stream) -> int:
    """The segment that is being written."""
    log = submission.logs.get(stream)
    return log.segment if log else 0


def current_path(folder: LabFolder, submission: SubmissionState, stream: Stream) -> Path | None:
    """The mirror that is being written; None while the submission has no job."""
    return segment_path(folder, submission, stream, current_segment(submission, stream))


def segment_paths(folder: LabFolder, submission: SubmissionState, stream: Stream) -> tuple[Path, ...]:
    """The segments that exist, oldest first."""
    paths = (
        segment_path(folder, submission, stream, segment)
        for segment in range(current_segment(submission, stream) + 1)
    )
    return tuple(path for path in paths if path is not None and path.exists())


def remote_path(submission: SubmissionState, stream: Stream) -> str | None:
    """The remote file that a stream mirrors; None while the job id is not known or there is no such stream."""
    pattern = submission.remote_logs.get(stream)
    if submission.job is None or not pattern:
        return None
    return pattern.replace("%j", submission.job.job_id)


def sizes(folder: LabFolder, state: LabState, at: float) -> tuple[AnyEvent, ...]:
    """What the mirrors on disk hold, where it differs from the state: for a start, or beside another process."""
    return tuple(_sizes(folder, state, at))


def _sizes(folder: LabFolder, state: LabState, at: float) -> Iterator[AnyEvent]:
    for submission in state.submissions.values():
        for stream in submission.remote_logs:
            if stream not in SUFFIXES:
                continue
            path = current_path(folder, submission, stream)
            log = submission.logs.get(stream)
            size = path.stat().st_size if path is not None and path.exists() else None
            if size is None or (log is not None and log.size == size):
                continue
            yield LogGrew(
                at=at,
                token=submission.token,
                stream=stream,
                segment=current_segment(submission, stream),
                size=size,
                complete=log.complete if log else False,
            )
