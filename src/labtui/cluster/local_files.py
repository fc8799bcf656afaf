"""Files on this computer: replaced atomically, and opened without following links in folders of unknown origin.

Readers of a replaced file see the old or the new one, never a part of it.

If the system can open relative to a folder's descriptor, each part of a path is opened that way with ``O_NOFOLLOW``;
otherwise (Windows) each part is checked first. Only regular files are opened, because a pipe could block forever. A
refusal is an `OSError` whose `strerror` fits into a sentence.
"""

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path

from labtui.domain.errors import failure, os_errors

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FLAGS = _NOFOLLOW | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
MAX_TEXT_BYTES = 4 * 1024 * 1024
_HAS_DIR_FD = bool(_NOFOLLOW) and {os.open, os.stat, os.mkdir, os.rename, os.unlink} <= os.supports_dir_fd


class LinkRefused(OSError):
    """A link, a path out of the folder, something that is not a regular file, or a file that is too large."""


def open_inside(root: Path, path: Path | str, flags: int = os.O_RDONLY) -> int:
    """Open the regular file at `path` (absolute, or relative to `root`); return its descriptor. Raises OSError."""
    with _open_parent(root, path) as (dir_fd, name):
        if dir_fd is None:
            _refuse_link(name, dir_fd)
        try:
            file_fd = os.open(name, (flags & ~os.O_TRUNC) | _FLAGS, 0o600, dir_fd=dir_fd)
        except OSError as error:
            raise _link_error(error, name, dir_fd) from error
    status = os.fstat(file_fd)
    problem = ""
    if not stat.S_ISREG(status.st_mode):
        problem = "it is not a regular file"
    elif status.st_nlink > 1 and flags & (os.O_WRONLY | os.O_RDWR):
        problem = "it has a second name elsewhere (a hard link), whose file would be written, too"
    if problem:
        os.close(file_fd)
        raise LinkRefused(errno.EINVAL, problem, str(path))
    if flags & os.O_TRUNC:  # only now: a file that is refused keeps its contents
        os.ftruncate(file_fd, 0)
    return file_fd


def reader_inside(root: Path, path: Path | str) -> FileIO:
    """Open the file for reading, unbuffered. Raises OSError."""
    return os.fdopen(open_inside(root, path), "rb", buffering=0)


def read_inside(root: Path, path: Path | str) -> bytes:
    """The file's bytes. Raises OSError."""
    with reader_inside(root, path) as file:
        return file.read()


def expand_home(text: str | Path) -> Path:
    """The path in a setting or an argument, with ``~`` expanded unless its user is unknown."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def read_file(path: Path, max_bytes: int, root: Path | None = None) -> bytes:
    """The bytes of a regular file; links are followed, since a person named it, unless it is of the folder `root`.

    Raises OSError.
    """
    flags = os.O_RDONLY | _FLAGS & ~_NOFOLLOW
    with os.fdopen(open_inside(root, path) if root else os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise LinkRefused(errno.EINVAL, "it is not a regular file", str(path))
        if status.st_size > max_bytes:
            raise LinkRefused(errno.EFBIG, f"it is larger than {max_bytes / 2**20:.0f} MB", str(path))
        return file.read(max_bytes)


def stat_inside(root: Path, path: Path | str) -> os.stat_result | None:
    """The status of a regular file; None if it is missing, a link or something else."""
    try:
        with _open_parent(root, path) as (dir_fd, name):
            status = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) and not _is_link(status) else None


def write_inside(root: Path, path: Path | str, data: bytes, mode: int = 0o600) -> None:
    """Write a file under a temporary name, flush it to disk and rename it. Missing folders are made.

    Raises:
        OSError: it cannot be written; an existing file is unchanged, and nothing else is left behind.
    """
    with _open_parent(root, path, make=True) as (dir_fd, name):
        _refuse_link(name, dir_fd)
        temporary = str(Path(name).with_name(f".{Path(name).name}.{os.urandom(4).hex()}.part"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS
        file_fd = os.open(temporary, flags, 0o600, dir_fd=dir_fd)
        try:
            with os.fdopen(file_fd, "wb") as file:
                file.write(data)
                file.flush()
                if dir_fd is not None:
                    os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            _replace(temporary, name, dir_fd)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=dir_fd)
            raise


def _replace(temporary: str, name: str, dir_fd: int | None) -> None:
    """Rename to `name`; on Windows, where a file that is being read cannot be replaced, try for a second."""
    for _ in range(20 if dir_fd is None else 0):
        with contextlib.suppress(PermissionError):
            Path(temporary).replace(name)
            return
        time.sleep(0.05)
    os.replace(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)


def make_folder_inside(root: Path, path: Path | str) -> None:
    """Make a folder below `root` and its missing parents, for the owner only. Raises OSError."""
    with _open_parent(root, Path(path) / "_", make=True):
        pass


def mkdir_private(folder: Path) -> None:
    """Make a folder and its missing parents, for the owner only, whatever the umask. Raises OSError."""
    if not folder.is_dir():
        mkdir_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def files_inside(root: Path, path: Path | str) -> Iterator[Path]:
    """The regular files below a folder, sorted; links are not followed. Empty if there is no such folder."""
    try:
        with _open_parent(root, Path(path) / "_"):
            pass
    except OSError:
        return
    found = (Path(base) / name for base, _, names in os.walk(root / path) for name in names)
    yield from (file for file in sorted(found) if stat_inside(root, file) is not None)


# --------------------------------------------------------------------------- walking a path


def _relative_parts(root: Path, path: Path | str) -> tuple[str, ...]:
    """The parts of a path below `root`. Raises LinkRefused if it is not below it."""
    try:
        inner = Path(path).relative_to(root) if Path(path).is_absolute() else Path(path)
    except ValueError:
        inner = Path("..")
    if not inner.parts or ".." in inner.parts or inner.drive or "\0" in str(inner):
        raise LinkRefused(errno.EINVAL, "it is outside the lab folder", str(path))
    return inner.parts


@contextlib.contextmanager
def _open_parent(root: Path, path: Path | str, *, make: bool = False) -> Iterator[tuple[int | None, str]]:
    """Yield the descriptor of a path's folder, and the name there; None and the whole path without `_HAS_DIR_FD`."""
    *folders, name = _relative_parts(root, path)
    if not _HAS_DIR_FD:
        yield None, str(_descend_by_path(root, folders, make) / name)
        return
    dir_fd = _descend(root, folders, make)
    try:
        yield dir_fd, name
    finally:
        os.close(dir_fd)


def _descend(root: Path, folders: Sequence[str], make: bool) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    dir_fd = os.open(root, flags)
    try:
        for name in folders:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=dir_fd)
            try:
                inner_fd = os.open(name, flags | _NOFOLLOW, dir_fd=dir_fd)
            except OSError as error:
                raise _link_error(error, name, dir_fd) from error
            os.close(dir_fd)
            dir_fd = inner_fd
    except BaseException:
        os.close(dir_fd)
        raise
    return dir_fd


def _descend_by_path(root: Path, folders: Sequence[str], make: bool) -> Path:
    current = root
    for name in folders:
        current /= name
        if make:
            current.mkdir(mode=0o700, exist_ok=True)
        _refuse_link(str(current), None)
    return current


def _refuse_link(name: str, dir_fd: int | None) -> None:
    try:
        status = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return
    if _is_link(status):
        raise LinkRefused(errno.ELOOP, "it is a link, and labtui follows none in a lab folder", name)


def _is_link(status: os.stat_result) -> bool:
    """Whether it is a link. On Windows a reparse tag tells a symbolic link or junction from other special files."""
    return stat.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0) in (0xA000000C, 0xA0000003)


def _link_error(error: OSError, name: str, dir_fd: int | None) -> OSError:
    """The error to raise for a failed open: a `LinkRefused` if `name` is a link, else the error itself."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR, getattr(errno, "EMLINK", None)):
        try:
            _refuse_link(name, dir_fd)
        except LinkRefused as refused:
            return refused
    return error


# --------------------------------------------------------------------------- replacing files


def write_private(root: Path, path: Path, data: bytes) -> None:
    """Replace a file below `root` atomically, readable by the owner only; missing folders are made.

    Raises:
        FolderError: when it cannot be written; the old file stays.
    """
    with os_errors("cannot-write", path=path):
        write_inside(root, path, data)


def write_export(path: Path, data: bytes, root: Path | None = None) -> None:
    """Replace a file atomically; with `root` links are not followed.

    Raises:
        ExportError: it cannot be written; an existing file is unchanged.
    """
    try:
        if root is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path = path.resolve()  # outside lab folders a link is the user's own: follow it
        # a new one is for the owner only, like all of a lab folder
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        write_inside(root or path.parent, path, data, mode)
    except OSError as error:
        kept = " The file that was there is unchanged." if path.is_file() else ""
        why = error.strerror or type(error).__name__
        raise failure("no-export", name=path.name, text=why, kept=kept) from error
