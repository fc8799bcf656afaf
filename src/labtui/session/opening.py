"""The database of a lab folder as it may be opened: for writing, beside another process, or as a copy to look at."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from labtui.domain.errors import FolderTaken, LabError, NotWritable, StoreError
from labtui.domain.model import SubmissionStatus
from labtui.domain.state import LabState
from labtui.session import records
from labtui.session.folder import LabFolder
from labtui.session.mirrors import state_of
from labtui.session.store import Store, damaged
from labtui.session.trust import check_trust, commands_of, connection_line
from labtui.session.writer import FolderLock

MAX_COPY_BYTES = 1_000_000_000
"""A database to look at is copied; no lab has one that large, and a file with holes may claim any size."""

_MIN_FREE_BYTES = 64 * 1024
_MAX_NAMES = 5
_MAX_NAME = 40


def open_store(folder: LabFolder) -> tuple[Store, FolderLock | None]:
    """The folder's database, and the lock of its writer; the store says why nothing may be written."""
    if (not_trusted := check_trust(folder.path)) is not None:
        return copied_store(folder, refusal=not_trusted), None
    lock: FolderLock | None = FolderLock(folder.lock_path)
    try:
        if lock is not None and not lock.acquire():
            lock = None
        return _store(folder, read_only=lock is None), lock
    except BaseException as error:
        if lock is not None:
            lock.release()
        if isinstance(error, NotWritable):
            return copied_store(folder, refusal=_only_read(error.sentence)), None
        raise


def _store(folder: LabFolder, *, read_only: bool) -> Store:
    """The folder's database; read-only as well when it turns out to be a copy."""
    store = Store(folder.database_path, read_only=read_only)
    try:
        if not read_only:
            store.claim()
    except FolderTaken as error:
        store.refusal = error
    except BaseException:
        store.close()
        raise
    return _not_emptied(folder, store)


def _not_emptied(folder: LabFolder, store: Store) -> Store:
    """Refuse a database without submissions where files beside job scripts tell of some."""
    if store.is_empty() and records.read_files(folder):
        store.close()
        raise damaged("it is empty")
    return store


def disk_problem(folder: LabFolder) -> NotWritable | None:
    """Why the folder is only read where its disk is read-only or full; told without writing."""
    if not os.access(folder.path, os.W_OK):
        return _only_read("The lab folder cannot be written: it is read-only for you.")
    if shutil.disk_usage(folder.path).free < _MIN_FREE_BYTES:
        return _only_read("The lab folder cannot be written: the disk of this computer is full.")
    return None


def _only_read(sentence: str) -> NotWritable:
    hint = "Free some space, or make the folder writable, then open it again."
    return NotWritable(f"{sentence} It is open for reading only.", hint)


def copied_state(folder: LabFolder) -> LabState:
    """The state as a copy of the folder's database has it; empty without one.

    Raises:
        StoreError: as `Store`.
    """
    if not folder.database_path.exists():
        return LabState()
    with contextlib.closing(copied_store(folder)) as store:
        return state_of(folder, store)


def copied_store(folder: LabFolder, database: Path | None = None, refusal: LabError | None = None) -> Store:
    """The folder's database (or another one in it) as a copy to look at: nothing is written beside the original.

    Raises:
        StoreError: as `Store`.
    """
    for place in (None, "/dev/shm"):  # noqa: S108 - a folder of our own in it: the disk may be full
        try:
            store = _copied_to(place, folder, database or folder.database_path)
        except OSError as error:
            problem = error
            continue
        store.refusal = refusal or StoreError("It is a copy, only to be read.")
        return _not_emptied(folder, store)
    raise StoreError(f"The lab folder's database cannot be copied to be read: {problem.strerror}.")


def _copied_to(parent: str | None, folder: LabFolder, original: Path) -> Store:
    place = tempfile.TemporaryDirectory(prefix="labtui-", dir=parent)
    path = Path(place.name) / original.name
    try:
        for ending in ("", "-wal"):  # what stands in the write-ahead log belongs to it
            name = original.name + ending
            status = folder.status(name)
            if status is not None and status.st_size > MAX_COPY_BYTES:
                raise StoreError(f"The lab folder's {name} is larger than {MAX_COPY_BYTES / 1e9:.0f} GB.")
            if status is not None:
                with folder.reader(name) as source, path.with_name(name).open("wb") as target:
                    shutil.copyfileobj(source, target)
        store = Store(path)
    except BaseException:
        place.cleanup()
        raise
    store.copy = place
    return store


def effects_of_trust(path: Path) -> tuple[str, ...]:
    """What a lab folder would do once it is trusted: where it connects, as whom, what it sends and runs."""
    commands = (f"Its cluster profile brings a command: {each}" for each in commands_of(path))
    return (connection_line(path), *_plan_lines(path), *commands)


def _plan_lines(folder: Path) -> tuple[str, ...]:
    """What is sent once it is trusted; the folder's database is read as a copy."""
    try:
        submissions = copied_state(LabFolder(folder)).submissions.values()
    except LabError as error:
        return (f"What waits in its submission queue is not known: {error.sentence}",)
    waiting = [each.job_name[:_MAX_NAME] for each in submissions if each.status is SubmissionStatus.WAITING]
    named = ", ".join(waiting[:_MAX_NAMES]) + (" ..." if len(waiting) > _MAX_NAMES else "")
    jobs = f"{len(waiting)} planned job{'s' * (len(waiting) != 1)} ({named})" if waiting else "no planned job"
    return (f"It would submit {jobs}, and send everything in scripts/ with each job.",)
