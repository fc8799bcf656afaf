"""The database of a lab folder as it may be opened: for writing, beside another process, or as a copy to look at."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from labtui.domain.errors import FolderTaken, LabError, NotWritable, StoreError
from labtui.domain.events import LabState
from labtui.domain.reduce import reduce_all
from labtui.session.folder import LabFolder
from labtui.session.store import Store
from labtui.session.trust import check_trust
from labtui.session.writer import FolderLock

MAX_COPY_BYTES = 1_000_000_000
"""A database to look at is copied; no lab has one that large, and a file with holes may claim any size."""

_MIN_FREE_BYTES = 64 * 1024


def open_store(folder: LabFolder) -> tuple[Store, FolderLock | None, LabError | None]:
    """The folder's database, the lock of its writer, and why the folder is only looked at."""
    if (not_trusted := check_trust(folder.path)) is not None:
        return copied_store(folder), None, not_trusted
    lock: FolderLock | None = FolderLock(folder.lock_path)
    try:
        if lock is not None and not lock.acquire():
            lock = None
        return _store(folder, read_only=lock is None), lock, None
    except NotWritable as error:
        if lock is not None:
            lock.release()
        return copied_store(folder), None, _only_read(error.sentence)
    except BaseException:
        if lock is not None:
            lock.release()
        raise


def _store(folder: LabFolder, *, read_only: bool) -> Store:
    """The folder's database; read-only as well when it turns out to be a copy."""
    store = Store(folder.database_path, read_only=read_only)
    if not read_only:
        try:
            store.claim()
        except FolderTaken as error:
            store.close()
            store = Store(folder.database_path, read_only=True)
            store.taken = error
        except BaseException:
            store.close()
            raise
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
    store = copied_store(folder)
    try:
        return reduce_all(LabState(), store.events())
    finally:
        store.close()


def copied_store(folder: LabFolder) -> Store:
    """The folder's database as a copy in a temporary folder, to look at: nothing is written beside the original.

    Raises:
        StoreError: as `Store`.
    """
    try:
        return _copied_to(None, folder)
    except OSError:
        try:
            return _copied_to("/dev/shm", folder)  # noqa: S108 (a folder of our own in it: the disk may be full)
        except OSError as error:
            raise StoreError(
                f"The lab folder's database cannot be copied to be read: {error.strerror}."
            ) from error


def _copied_to(parent: str | None, folder: LabFolder) -> Store:
    place = tempfile.TemporaryDirectory(prefix="labtui-", dir=parent)
    path = Path(place.name) / folder.database_path.name
    try:
        for ending in ("", "-wal"):  # what stands in the write-ahead log belongs to it
            name = folder.database_path.name + ending
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
    store.read_only, store.copy = True, place
    return store
