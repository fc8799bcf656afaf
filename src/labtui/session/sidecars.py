"""A file beside each submission's job script with all that is known of it: what `labtui repair` rebuilds from.

Written at every change of a submission, after the database. One that cannot be written stops nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from labtui.domain.errors import FolderError
from labtui.domain.events import (
    AnyEvent,
    EarlyEndSet,
    JobObserved,
    LabState,
    PlannedRun,
    RunFound,
    SubmissionChanged,
    SubmissionHeld,
    SubmissionPlanned,
    SubmissionState,
)
from labtui.domain.model import SubmissionStatus
from labtui.session.folder import LabFolder

MAX_BYTES = 4_000_000

_TELLS_OF_A_SUBMISSION = (
    SubmissionPlanned,
    SubmissionChanged,
    SubmissionHeld,
    EarlyEndSet,
    JobObserved,
    RunFound,
)


class Sidecar(msgspec.Struct, frozen=True, kw_only=True):
    """A submission and its runs, as they stand."""

    submission: SubmissionState
    runs: tuple[PlannedRun, ...]

    def events(self) -> Iterator[AnyEvent]:
        """What leads to this submission; one whose sending may not have ended is to be looked up."""
        item = self.submission
        at, token = item.planned_at, item.token
        shared = {
            name: getattr(item, name) for name in SubmissionPlanned.__struct_fields__ if hasattr(item, name)
        }
        yield SubmissionPlanned(**shared, at=at, runs=self.runs)
        unsent = item.status in (SubmissionStatus.WAITING, SubmissionStatus.SENDING)
        yield SubmissionChanged(
            at=at,
            token=token,
            status=SubmissionStatus.UNKNOWN if unsent else item.status,
            job_id=item.job.job_id if item.job is not None else "",
            sentence="" if unsent else item.sentence,
            hint="" if unsent else item.hint,
            attempt=item.attempt,
        )
        if item.early_end_minutes:
            yield EarlyEndSet(at=at, token=token, minutes=item.early_end_minutes)
        if item.held:
            yield SubmissionHeld(at=at, token=token, held=True)
        if item.job is not None:
            yield JobObserved(at=at, token=token, job=item.job)


_decoder = msgspec.json.Decoder(Sidecar, strict=False)


def path_of(folder: LabFolder, submission: SubmissionState) -> Path:
    """Where a submission's file lies."""
    return folder.inside(submission.script_file).with_suffix(".json")


def keep(folder: LabFolder, state: LabState, events: Sequence[AnyEvent]) -> None:
    """Write the files of the submissions that these events change."""
    tokens = dict.fromkeys(event.token for event in events if isinstance(event, _TELLS_OF_A_SUBMISSION))
    _write(folder, state, (state.submissions[token] for token in tokens if token in state.submissions))


def keep_missing(folder: LabFolder, state: LabState) -> None:
    """Write the files that are not there: of a folder of an earlier version."""
    items = state.submissions.values()
    _write(folder, state, (item for item in items if item.script_file and not path_of(folder, item).exists()))


def _write(folder: LabFolder, state: LabState, submissions: Iterable[SubmissionState]) -> None:
    for item in submissions:
        runs = tuple(PlannedRun(run_id=number, spec=state.runs[number].spec) for number in item.run_ids)
        with contextlib.suppress(FolderError, OSError):
            data = msgspec.json.encode(Sidecar(submission=item, runs=runs))
            folder.write(path_of(folder, item), data + b"\n")


def read_all(folder: LabFolder) -> tuple[Sidecar, ...]:
    """All that can be read, in the order in which the submissions were planned."""
    found = []
    for path in folder.slurm.glob("*.json") if folder.slurm.is_dir() else ():
        with contextlib.suppress(OSError, ValueError):
            if path.stat().st_size > MAX_BYTES:
                continue
            sidecar = _decoder.decode(folder.read(path))
            if path_of(folder, sidecar.submission) == path:
                found.append(sidecar)
    return tuple(sorted(found, key=lambda item: (item.submission.planned_at, item.submission.run_ids)))
