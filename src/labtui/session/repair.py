"""`labtui repair`: a new database where the old one is damaged or lost.

What the old one held is taken from its last backup, if that is whole; the files beside the job scripts tell what
became of each submission since; the mirrors under `logs/` tell what the runs did. The old file is kept. Nothing on the
cluster is touched: a submission whose sending may not have ended is looked up by its token the next time there is a
connection; one that only its file tells of is never sent.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from pathlib import Path

from labtui.cluster.local_files import stat_inside
from labtui.domain.errors import FolderError, StoreError
from labtui.domain.model import Stream, SubmissionStatus
from labtui.domain.state import LabState, LogState, SubmissionState
from labtui.session import mirrors, records
from labtui.session.folder import LabFolder
from labtui.session.mirrors import state_of
from labtui.session.opening import copied_store
from labtui.session.store import Store, backup_path
from labtui.session.writer import FolderLock


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
    database = folder.database_path
    new = database.with_name(f"{database.name}.new")
    healthy = _copied_whole(folder, database, new)
    copied = healthy or _copied_whole(folder, backup_path(database), new)
    damaged = database.exists() and not healthy
    old = _set_aside(folder, "damaged" if damaged else "old")
    if copied:
        new.replace(database)
    with contextlib.closing(Store(database)) as store:
        before = store.load()
        state = before if healthy else _with_files_beside(folder, before)
        fresh = state.submissions.keys() - before.submissions.keys()
        store.write(before, state)
        whole = state_of(folder, store)
    return RepairReport(
        submissions=len(state.submissions),
        rebuilt=len(fresh),
        epochs=sum(len(run.epochs) for run in whole.runs.values()),
        old_database=old,
        damaged=damaged,
    )


def _copied_whole(folder: LabFolder, path: Path, new: Path) -> bool:
    """Whether a database is there and whole; then `new` is a copy of it."""
    status = stat_inside(path.parent, path)
    if status is None or not status.st_size:
        return False
    try:
        with contextlib.closing(copied_store(folder, path)) as store:
            store.copy_to(new)
    except StoreError:
        return False
    return True


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


def _with_files_beside(folder: LabFolder, state: LabState) -> LabState:
    """The state with what the files beside the job scripts know beyond it."""
    for found in records.read_files(folder):
        item = found
        known = state.submissions.get(item.token)
        if known is None:
            if not state.runs.keys().isdisjoint(item.run_ids):
                continue
            item = replace(item, rebuilt=True)
        elif replace(item, logs=known.logs) == known:
            continue
        if item.status in (SubmissionStatus.WAITING, SubmissionStatus.SENDING):  # that may have ended since
            item = replace(item, status=SubmissionStatus.UNKNOWN, sentence="", hint="")
        state = state.with_planned(replace(item, logs=_segments(folder, item)))
    return state


def _segments(folder: LabFolder, item: SubmissionState) -> dict[Stream, LogState]:
    found = {stream: mirrors.segments_on_disk(folder, item, stream) for stream in mirrors.STREAMS}
    return {stream: LogState(segment=segments[-1]) for stream, segments in found.items() if segments}
