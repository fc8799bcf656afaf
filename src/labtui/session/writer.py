"""Which process may write a lab folder: one at a time.

The writer's lock belongs to the operating system and dies with its process. Where the folder was written last stands in
the database: that tells a copy from the folder it was made of.
"""

from __future__ import annotations

import errno
import os
import platform
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout

from labtui.domain.errors import FolderError, FolderTaken, NotWritable

NO_WRITING = (errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM)
"""What the system says of a disk or folder where nothing can be written now."""


class FolderLock:
    """Held by the process that may write the folder."""

    def __init__(self, path: Path) -> None:
        self._lock = FileLock(str(path), mode=0o600, thread_local=False, is_singleton=False)

    def acquire(self) -> bool:
        """Take the lock if nobody has it; says whether it is ours now.

        Raises:
            FolderError: when the folder cannot be written at all.
        """
        try:
            if Path(self._lock.lock_file).is_symlink():
                raise OSError(errno.ELOOP, "its lock file is a link")
            self._lock.acquire(timeout=0)
        except Timeout:
            return False
        except (OSError, NotImplementedError) as error:
            if isinstance(error, OSError) and error.errno in NO_WRITING:
                raise NotWritable(f"The lab folder cannot be written: {error.strerror}.") from error
            raise FolderError(
                f"The lab folder cannot be locked: {error}.", "Choose a folder on a disk you can write to."
            ) from error
        return True

    def release(self) -> None:
        """Give the lock back."""
        self._lock.release(force=True)


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """The database that was opened for writing last, and on which computer."""

    host: str
    path: str
    inode: int

    @classmethod
    def here(cls, database: Path) -> Writer:
        return cls(
            host=platform.node(),
            path=os.fsencode(database).decode("utf-8", "backslashreplace"),
            inode=database.stat().st_ino,
        )

    def copied_from(self, last: Writer) -> bool:
        """Whether our database is a copy of the one that `last` wrote.

        A folder that was moved keeps its inode, one that was restored its place; a copy has neither.
        """
        elsewhere = (self.host, self.path) != (last.host, last.path)
        return elsewhere and self.inode != last.inode


def copied(last: Writer) -> FolderTaken:
    """Why a copy is only read."""
    return FolderTaken(
        f"This lab folder is a copy of {Path(last.path).parent} on {last.host}, which may still send its jobs. "
        "It is open for reading only.",
        "Work in the original, or close labtui there and run `labtui repair` here: the copy then becomes independent.",
    )
