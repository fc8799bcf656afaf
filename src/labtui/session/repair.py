"""`labtui repair`: a new database where the old one is damaged or lost.

What the old one held is taken from its last backup, if that is whole; the files beside the job scripts tell what
became of each submission since; the mirrors under `logs/` tell what the runs did. The old file is kept. Nothing on the
cluster is touched: a submission whose sending may not have ended is looked up by its token the next time there is a
connection, and is sent then only if its files are still those that it was planned with.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from labtui.cluster.local_files import stat_inside
from labtui.domain.errors import FolderError, StoreError
from labtui.domain.events import AnyEvent, LabState, LogSegmentStarted, SubmissionState
from labtui.domain.model import JobPhase
from labtui.domain.reduce import reduce_all
from labtui.session import mirrors, sidecars
from labtui.session.folder import SCRIPT_NAME, LabFolder, hashes
from labtui.session.run_matcher import SubmissionReader
from labtui.session.store import Store, Stored, backup_path, read_whole
from labtui.session.writer import FolderLock

_CHUNK = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What was saved. `old_database` is where the old file lies now, `damaged` whether something in it was lost."""

    submissions: int
    rebuilt: int
    epochs: int
    old_database: Path | None
    damaged: bool


def repair(folder: LabFolder) -> RepairReport:
    """Rebuild the database of a lab folder.

    Raises:
        FolderError: when another process holds the folder, or it cannot be written.
    """
    lock = FolderLock(folder.lock_path)
    if not lock.acquire():
        raise FolderError("Another labtui has this lab folder open.", "Close it, then repair.")
    try:
        return _repair(folder)
    finally:
        lock.release()


def _repair(folder: LabFolder) -> RepairReport:
    stored = _read(folder.database_path)
    damaged = folder.database_path.exists() and stored is None
    kept = stored or _read(backup_path(folder.database_path)) or Stored()
    before = reduce_all(LabState(), kept.events)
    rebuilt = [] if stored is not None else list(_from_sidecars(folder, before))
    state = reduce_all(before, rebuilt)
    read = list(_from_mirrors(folder, state))
    state = reduce_all(state, read)
    blobs, snapshots = _files(folder, state, kept)
    old = _set_aside(folder, "damaged" if damaged else "old")
    store = Store(folder.database_path)
    try:
        store.append([*kept.events, *rebuilt, *read], blobs=blobs, snapshot=snapshots)
    finally:
        store.close()
    return RepairReport(
        submissions=len(state.submissions),
        rebuilt=len(state.submissions.keys() - before.submissions.keys()),
        epochs=sum(len(run.epochs) for run in state.runs.values()),
        old_database=old,
        damaged=damaged,
    )


def _read(path: Path) -> Stored | None:
    """Everything in a database; None where it is not there or not whole."""
    try:
        return read_whole(path) if stat_inside(path.parent, path) is not None else None
    except StoreError:
        return None


def _set_aside(folder: LabFolder, word: str) -> Path | None:
    path = folder.database_path
    stamp = time.strftime("%Y%m%d-%H%M%S")
    kept = path.with_name(f"{path.name}.{word}-{stamp}")
    for suffix in ("-wal", "-shm"):
        side = path.with_name(path.name + suffix)
        if side.exists():
            side.replace(kept.with_name(kept.name + suffix))
    if not path.exists():
        return None
    path.replace(kept)
    return kept


# --------------------------------------------------------------------------- submissions


def _from_sidecars(folder: LabFolder, state: LabState) -> Iterator[AnyEvent]:
    """What the files beside the job scripts know and the state does not."""
    numbers = set(state.runs)
    for sidecar in sidecars.read_all(folder):
        item = sidecar.submission
        known = state.submissions.get(item.token)
        if known is None and numbers.isdisjoint(run.run_id for run in sidecar.runs):
            numbers.update(run.run_id for run in sidecar.runs)
            whole = _files_as_planned(folder, item) is not None
            yield from sidecars.Sidecar(
                submission=replace(item, rebuilt=not whole), runs=sidecar.runs
            ).events()
        elif known is not None and replace(item, logs=known.logs) != known:
            yield from list(sidecar.events())[1:]
        else:
            continue
        if item.job is not None:
            yield from _segments(folder, item)


def _segments(folder: LabFolder, item: SubmissionState) -> Iterator[AnyEvent]:
    for stream in mirrors.STREAMS:
        segments = mirrors.segments_on_disk(folder, item, stream)
        if segments:
            yield LogSegmentStarted(at=item.planned_at, token=item.token, stream=stream, segment=segments[-1])


def _files_as_planned(folder: LabFolder, item: SubmissionState) -> dict[str, bytes] | None:
    """The files that a submission was planned with, where they still are what they were."""
    script = folder.inside(item.script_file)
    if not folder.has(script):
        return None
    files = {**folder.script_files(), SCRIPT_NAME: folder.read(script)}
    return files if hashes(files) == dict(item.script_hashes) else None


def _files(
    folder: LabFolder, state: LabState, kept: Stored
) -> tuple[dict[str, bytes], dict[str, dict[str, str]]]:
    """The files of the submissions: as stored, else as they lie in the folder if they did not change since."""
    blobs, snapshots = dict(kept.blobs), {token: dict(files) for token, files in kept.snapshots.items()}
    for token, item in state.submissions.items():
        files = None if token in snapshots else _files_as_planned(folder, item)
        if files is not None:
            snapshots[token] = hashes(files)
            blobs.update({hashlib.sha256(data).hexdigest(): data for data in files.values()})
    return blobs, snapshots


# --------------------------------------------------------------------------- mirrors


def _from_mirrors(folder: LabFolder, state: LabState) -> Iterator[AnyEvent]:
    """Epochs and ends, from the bytes we hold; only what the state does not know yet."""
    for token in state.submissions:
        submission = state.submissions[token]
        if submission.job is None:
            continue
        planned = [state.runs[run_id].spec for run_id in submission.run_ids if run_id in state.runs]
        reader = SubmissionReader(submission, planned, folder.log_patterns())
        for stream in mirrors.READ_STREAMS:
            path = mirrors.current_path(folder, submission, stream)
            if path is None or not folder.has(path):
                continue
            with folder.reader(path) as file:
                while data := file.read(_CHUNK):
                    events = reader.feed(stream, data, state, path.stat().st_mtime)
                    state = reduce_all(state, events)
                    yield from events
        if submission.job.phase is JobPhase.FINISHED:
            yield from reader.finish(submission.job, state, submission.job.seen_at)
