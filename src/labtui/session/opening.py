"""Opens a lab folder's database, for one writer, for readers beside it or as a copy to read, and rebuilds it.

The writer's lock belongs to the operating system and is released when its process dies.

`labtui repair` makes a new database if the old one is damaged or lost. It starts from the old one's last backup if that
is intact; the files beside the job scripts tell what became of each submission since, and the mirrors under `logs/`
what the runs did. The old file is kept. Nothing on the cluster is touched: a submission that may not have been sent
completely is looked up by its token at the next connection; one known only from its file is never sent.
"""

import contextlib
import errno
import os
import shutil
import tempfile
import time
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout
from msgspec.structs import replace

from labtui.domain.errors import FolderTaken, LabError, NotWritable, StoreError, failure
from labtui.domain.model import SubmissionStatus, plural
from labtui.domain.state import UNKNOWN_SENTENCE, LabState, LogState
from labtui.session import mirrors, records
from labtui.session.folder import LabFolder
from labtui.session.journal import Mailbox, Request
from labtui.session.settings import check_trust, effects_of
from labtui.session.store import WRITE_ERRNOS, Store, backup_path

MAX_COPY_BYTES = 1_000_000_000
"""A larger database is not copied to be read: no lab has one, and a sparse file may claim any size."""

HANDED_OVER_WITHIN_S = 5.0
"""How long screens that open wait until a command that follows takes note, and until it lets go of the folder."""

_MIN_FREE_BYTES = 64 * 1024
_MAX_NAMES = 5
_MAX_NAME = 40


def lock_folder(path: Path, timeout_s: float = 0.0) -> FileLock | None:
    """Take the lock of the process that may write the folder; None if another process holds it for `timeout_s`.

    Raises:
        FolderError: when the folder cannot be written at all.
    """
    lock = FileLock(str(path), mode=0o600, thread_local=False, is_singleton=False, fallback_to_soft=False)
    try:
        if path.is_symlink():
            raise OSError(errno.ELOOP, "its lock file is a link")
        lock.acquire(timeout=timeout_s)
    except Timeout:
        return None
    except OSError as error:
        reason = "not-writable" if error.errno in WRITE_ERRNOS else "cannot-lock"
        raise failure(reason, text=error.strerror) from error
    return lock


def open_store(folder: LabFolder, *, follows: str = "", takes_over: bool = False) -> Store:
    """Open the folder's database, with the writer's lock if it is free; `Store.refusal` says why not to write.

    `follows` is recorded with the writer; with `takes_over`, a command that only follows is asked for the lock.
    """
    if (not_trusted := check_trust(folder.path)) is not None:
        return copied_store(folder, refusal=not_trusted)
    lock = None
    try:
        lock = lock_folder(folder.lock_path) or (_handed_over(folder) if takes_over else None)
        store = _store(folder, read_only=lock is None, follows=follows)
    except BaseException as error:
        if lock is not None:
            lock.release()
        if isinstance(error, NotWritable):
            return copied_store(folder, refusal=failure("only-read", text=error.sentence))
        raise
    store.lock = lock
    return store


def _handed_over(folder: LabFolder) -> FileLock | None:
    """The writer's lock from a command that only follows; None if something else holds it, or that one is stopped."""
    with contextlib.suppress(LabError):
        with contextlib.closing(Store(folder.database_path, read_only=True)) as store:
            writer = store.writer()
        if writer is not None and writer.follows:
            Mailbox(folder.database_path).ask(Request(action="hand-over"), within_s=HANDED_OVER_WITHIN_S)
            return lock_folder(folder.lock_path, HANDED_OVER_WITHIN_S)
    return lock_folder(folder.lock_path, 0.2)  # a process that looks whether it is free takes it for a moment


def wait_for_writer(folder: LabFolder) -> None:
    """Wait until another process has the writer's lock, for which it was asked, as long as that one may wait for it."""
    end = time.monotonic() + HANDED_OVER_WITHIN_S
    while (lock := lock_folder(folder.lock_path)) is not None:
        lock.release()
        if time.monotonic() > end:
            return
        time.sleep(0.1)


def _store(folder: LabFolder, *, read_only: bool, follows: str = "") -> Store:
    """Open the folder's database; read-only, too, if the folder turns out to be a copy."""
    try:
        store = Store(folder.database_path, read_only=read_only)
    except StoreError as error:
        if error.reason == "busy" and (lock := lock_folder(folder.lock_path)) is not None:
            lock.release()  # so this disk has locks: SQLite calls one without them busy, too
        raise
    try:
        if not read_only:
            store.claim(follows)
    except FolderTaken as error:
        store.refusal = error
    except BaseException:
        store.close()
        raise
    return _refuse_emptied(folder, store)


def _refuse_emptied(folder: LabFolder, store: Store) -> Store:
    """The store; refused as damaged if it has no submissions but there are files beside job scripts."""
    if store.is_empty() and records.read_files(folder):
        store.close()
        raise failure("damaged", text="it is empty")
    return store


def disk_problem(folder: LabFolder) -> LabError | None:
    """Why the folder cannot be written, if its disk is read-only or full; found out without writing."""
    if not os.access(folder.path, os.W_OK):
        return failure("folder-read-only")
    if shutil.disk_usage(folder.path).free < _MIN_FREE_BYTES:
        return failure("folder-full")
    return None


def stored_state(folder: LabFolder) -> LabState:
    """Read the state of a lab folder once, beside its writer or from a copy; empty if nothing was stored.

    Raises:
        StoreError: as `Store`.
    """
    store = None
    if folder.database_path.exists() and check_trust(folder.path) is None:
        with contextlib.suppress(NotWritable):  # SQLite reads beside a writer only if it can create a file
            store = _store(folder, read_only=True)
    with contextlib.closing(store or copied_store(folder)) as opened:
        return mirrors.state_of(folder, opened)


def copied_store(folder: LabFolder, database: Path | None = None, refusal: LabError | None = None) -> Store:
    """Open a copy of the folder's database (or of another one in it); nothing is written beside the original.

    Raises:
        StoreError: as `Store`.
    """
    original = database or folder.database_path
    place = tempfile.TemporaryDirectory(prefix="labtui-")
    path = Path(place.name) / original.name
    try:
        for ending in ("", "-wal"):  # the write-ahead log is part of the database
            name = original.name + ending
            status = folder.status(name)
            if status is not None and status.st_size > MAX_COPY_BYTES:
                raise failure("large-database", name=name, gb=MAX_COPY_BYTES / 1e9)
            if status is not None:
                with folder.reader(name) as source, path.with_name(name).open("wb") as target:
                    shutil.copyfileobj(source, target)
        store = Store(path)
    except BaseException as error:
        place.cleanup()
        if isinstance(error, OSError):
            raise failure("no-copy", text=error.strerror) from error
        raise
    if check_trust(folder.path) is not None:  # whoever sent it may have stored any number
        store.forget_readings()
    store.copy, store.refusal = place, refusal or failure("a-copy")
    return _refuse_emptied(folder, store)


def effects_of_trust(path: Path) -> tuple[str, ...]:
    """Sentences on what a lab folder would do once trusted: where it connects, as whom, what it sends and runs."""
    connects, *commands = effects_of(path)
    try:  # its database is read as a copy
        with contextlib.closing(copied_store(LabFolder(path))) as store:
            planned = store.load().in_status(SubmissionStatus.WAITING)
    except LabError as error:
        return (connects, f"What waits in its submission queue is not known: {error.sentence}", *commands)
    waiting = [each.job_name[:_MAX_NAME] for each in planned]
    named = ", ".join(waiting[:_MAX_NAMES]) + (" ..." if len(waiting) > _MAX_NAMES else "")
    jobs = f"submit {plural(len(waiting), 'planned job')} ({named}), and send everything in scripts/ with each job"
    return (connects, f"It would {jobs if waiting else 'submit nothing'}.", *commands)


def forget_readings(path: Path) -> None:
    """Have the runs of a folder that came from elsewhere computed from its mirrors; those without mirrors stay."""
    if (folder := LabFolder(path)).has(folder.database_path):
        with contextlib.suppress(LabError), contextlib.closing(Store(folder.database_path)) as store:
            state, lost = mirrors.with_sizes(folder, store.load()), mirrors.Readings(folder, store).lost_logs
            store.forget_readings(but=[token for token, item in state.submissions.items() if lost(item)])


class RepairReport(msgspec.Struct, frozen=True):
    """What was recovered. `old_database` is the old file's new path; `damaged`: the old file was not intact."""

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
    if (lock := lock_folder(folder.lock_path)) is None:
        raise failure("open-elsewhere")
    try:
        return _repair(folder)
    finally:
        lock.release()


def _repair(folder: LabFolder) -> RepairReport:
    database = folder.database_path
    new = database.with_name(f"{database.name}.new")
    _delete(new)
    try:
        healthy = _copy_if_intact(folder, database, new)
        if not healthy:
            _copy_if_intact(folder, backup_path(database), new)
        with contextlib.closing(Store(new)) as store:
            before = store.load()
            state = before if healthy else _with_json_files(folder, before)
            fresh = state.submissions.keys() - before.submissions.keys()
            store.write(before, state)
            epochs = sum(len(run.epochs) for run in mirrors.state_of(folder, store).runs.values())
        damaged = database.exists() and not healthy
        old = _set_aside(folder, "damaged" if damaged else "old")  # only now is the new one whole
        new.replace(database)
    finally:
        _delete(new)
    return RepairReport(len(state.submissions), len(fresh), epochs, old, damaged)


def _copy_if_intact(folder: LabFolder, path: Path, new: Path) -> bool:
    """Copy a database to `new` if it exists and is intact; return whether it is.

    Raises:
        StoreError: it may be intact, but cannot be read or copied now, as on a full disk.
    """
    if (status := folder.status(path)) is None or not status.st_size:
        return False
    try:
        with contextlib.closing(copied_store(folder, path)) as store:
            store.copy_to(new)
    except StoreError as error:
        if isinstance(error, NotWritable) or getattr(error.__cause__, "errno", None) in WRITE_ERRNOS:
            raise
        return False
    return True


def _delete(database: Path) -> None:
    for suffix in ("-wal", "-shm", ""):
        database.with_name(database.name + suffix).unlink(missing_ok=True)


def _set_aside(folder: LabFolder, word: str) -> Path | None:
    path = folder.database_path
    kept = path.with_name(f"{path.name}.{word}-{time.strftime('%Y%m%d-%H%M%S')}")
    for suffix in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).replace(kept.with_name(kept.name + suffix))
    return kept if kept.exists() else None


# --------------------------------------------------------------------------- submissions


def _with_json_files(folder: LabFolder, state: LabState) -> LabState:
    """The state with what only the files beside the job scripts tell."""
    for item in records.read_files(folder):
        known = state.submissions.get(item.token)
        if known is None and not state.runs.keys().isdisjoint(item.run_ids):
            continue
        if item == known:
            continue
        # which mirrors are its own is recorded with it: those of another job with the same id have the same names
        logs = {stream: LogState(segment=log.segment) for stream, log in item.logs.items()}
        state = state.with_planned(replace(item, logs=logs))
        if item.status in (SubmissionStatus.WAITING, SubmissionStatus.SENDING):  # it may have been sent since
            lost = {"status": SubmissionStatus.UNKNOWN, "sentence": UNKNOWN_SENTENCE, "hint": ""}
            state = state.with_submission(item.token, **lost)
    return state
