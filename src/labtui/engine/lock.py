"""One writer per lab folder. The lock belongs to the operating system and dies with its process."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock, Timeout

from labtui.errors import FolderError


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
            self._lock.acquire(timeout=0)
        except Timeout:
            return False
        except (OSError, NotImplementedError) as error:
            raise FolderError(
                f"The lab folder cannot be locked: {error}.", "Is the folder on a disk you may write to?"
            ) from error
        return True

    def release(self) -> None:
        """Give the lock back."""
        self._lock.release(force=True)
