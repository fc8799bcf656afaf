"""The one way a file of this computer is replaced: readers see the old or the new one, never a part.

Why it could not be written is a sentence.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path

from labtui.cluster.inside import write_inside
from labtui.domain.errors import ExportError, FolderError


def write_atomic(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file with these permissions under a temporary name in its folder, flush it to disk, and rename it.

    Raises:
        OSError: it cannot be written; an older file of that name is untouched, and nothing else is left behind.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    finally:
        with contextlib.suppress(OSError):
            Path(temporary).unlink(missing_ok=True)


def write_private(root: Path, path: Path, data: bytes) -> None:
    """Replace a file below `root` as a whole, readable by the owner only; folders that are missing are made.

    Raises:
        FolderError: when it cannot be written; the old file stays.
    """
    try:
        write_inside(root, path, data)
    except OSError as error:
        raise FolderError(
            f"{path} cannot be written: {error.strerror}.",
            "Free disk space, or choose a folder you can write to.",
        ) from error


_FULL = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


def write_whole(path: Path, data: bytes, root: Path | None = None) -> None:
    """Write a file so that readers see the old or the new one, never a part; with `root` without following a link.

    Raises:
        ExportError: says why it cannot be written; an older file of that name is untouched.
    """
    try:
        if root is not None:
            write_inside(root, path, data, _mode_of(path))
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data, _mode_of(path))
    except OSError as error:
        raise cannot_write(path, error) from error


def _mode_of(path: Path) -> int:
    """The permissions of the file that is replaced; a new one is for the owner, as all of the lab folder."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        return 0o600


def cannot_write(path: Path, error: OSError) -> ExportError:
    """Why a file cannot be written, and what to do."""
    kept = " The file that was there is unchanged." if path.is_file() else ""
    if error.errno in _FULL:
        return ExportError(
            f"{path.name} could not be written: the disk is full (or your quota is used up).{kept}",
            "Make room, then export again.",
        )
    if error.errno in _DENIED and path.exists() and os.access(path.parent, os.W_OK):
        return ExportError(
            f"{path.name} could not be replaced: it is open in another program, or protected.{kept}",
            "Close it there, then export again; or use --out to write elsewhere.",
        )
    if error.errno in _DENIED:
        return ExportError(
            f"{path.parent} is read-only for you: {path.name} could not be written.",
            "Use --out to write to a folder of yours.",
        )
    if error.errno in {errno.ENOTDIR, errno.EEXIST}:
        return ExportError(
            f"{path.parent} is not a folder: {path.name} could not be written.", "Use --out to name another."
        )
    reason = error.strerror or type(error).__name__
    return ExportError(f"{path.name} could not be written: {reason}.{kept}", "Use --out to write elsewhere.")
