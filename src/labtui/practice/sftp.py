"""SFTP of the practice cluster, confined to its folder: whatever the path, nothing outside is seen or touched."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Any

from paramiko import SFTPAttributes, SFTPHandle, SFTPServer, SFTPServerInterface, SSHException
from paramiko.sftp import SFTP_FAILURE, SFTP_OK, SFTP_OP_UNSUPPORTED, SFTP_PERMISSION_DENIED


class Outside(Exception):
    """The path leads out of the practice folder."""


def confined(root: Path, home: Path, path: str) -> Path:
    """The real path of what a client asks for. Relative paths begin at the home. Raises Outside.

    Links are followed for the check: a link that leads out of `root` leads nowhere.
    """
    requested = Path(os.path.normpath(home / path))
    parent = Path(os.path.realpath(requested.parent))
    full = parent / requested.name
    resolved = Path(os.path.realpath(full))
    base = Path(os.path.realpath(root))
    for place in (full, resolved):
        if place != base and base not in place.parents:
            raise Outside(path)
    return full


class _Handle(SFTPHandle):
    """An open file; reading and writing are paramiko's, `stat` and `chattr` are by descriptor."""

    def __init__(self, flags: int, stream: Any) -> None:
        super().__init__(flags)
        self.readfile = self.writefile = stream
        self._stream = stream

    def stat(self) -> SFTPAttributes | int:
        return SFTPAttributes.from_stat(os.fstat(self._stream.fileno()))

    def chattr(self, attr: SFTPAttributes) -> int:
        if attr.st_size is not None:
            os.ftruncate(self._stream.fileno(), attr.st_size)
        if attr.st_mode is not None:
            os.fchmod(self._stream.fileno(), stat.S_IMODE(attr.st_mode))
        return SFTP_OK


def _answer(error: OSError) -> int:
    return SFTPServer.convert_errno(error.errno or errno.EIO)


class EndingSFTP(SFTPServer):
    """SFTP that sends an exit status, as OpenSSH's does; without one `scp` reports a failure."""

    def finish_subsystem(self) -> None:
        with contextlib.suppress(OSError, EOFError, SSHException):
            if self.sock is not None:
                self.sock.send_exit_status(0)
        super().finish_subsystem()


class ConfinedSFTP(SFTPServerInterface):
    """SFTP's requests, answered from the folder of `server` (the login); writes fail while its disk is full."""

    def __init__(self, server: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(server, *arguments, **options)
        self._root: Path = server.root
        self._home: Path = server.home
        self._server = server

    def _path(self, path: str) -> Path:
        return confined(self._root, self._home, path)

    def canonicalize(self, path: str) -> str:
        return os.path.normpath(self._home / path)

    def _try(self, action: Any) -> Any:
        try:
            return action()
        except Outside:
            return SFTP_PERMISSION_DENIED
        except OSError as error:
            return _answer(error)

    def list_folder(self, path: str) -> list[SFTPAttributes] | int:
        def listed() -> list[SFTPAttributes]:
            found = []
            for entry in os.scandir(self._path(path)):
                found.append(SFTPAttributes.from_stat(entry.stat(follow_symlinks=False), entry.name))
            return found

        return self._try(listed)  # type: ignore[no-any-return]

    def stat(self, path: str) -> SFTPAttributes | int:
        return self._try(lambda: SFTPAttributes.from_stat(self._path(path).stat()))  # type: ignore[no-any-return]

    def lstat(self, path: str) -> SFTPAttributes | int:
        return self._try(lambda: SFTPAttributes.from_stat(self._path(path).lstat()))  # type: ignore[no-any-return]

    def open(self, path: str, flags: int, attr: SFTPAttributes) -> SFTPHandle | int:
        def opened() -> SFTPHandle | int:
            if flags & (os.O_WRONLY | os.O_RDWR) and self._server.disk_full():
                return SFTP_FAILURE
            mode = stat.S_IMODE(attr.st_mode) if attr.st_mode is not None else 0o644
            descriptor = os.open(self._path(path), flags | getattr(os, "O_BINARY", 0), mode)
            if flags & os.O_RDWR:
                kind = "r+b"
            elif flags & os.O_WRONLY:
                kind = "ab" if flags & os.O_APPEND else "wb"
            else:
                kind = "rb"
            return _Handle(flags, os.fdopen(descriptor, kind))

        return self._try(opened)  # type: ignore[no-any-return]

    def remove(self, path: str) -> int:
        return self._try(lambda: self._path(path).unlink()) or SFTP_OK

    def rename(self, oldpath: str, newpath: str) -> int:
        def renamed() -> int:
            # SFTP's own rename refuses an existing target; posix_rename is what replaces.
            if self._path(newpath).exists():
                return SFTP_FAILURE
            self._path(oldpath).rename(self._path(newpath))
            return SFTP_OK

        return self._try(renamed)  # type: ignore[no-any-return]

    def posix_rename(self, oldpath: str, newpath: str) -> int:
        return self._try(lambda: self._path(oldpath).replace(self._path(newpath)) and SFTP_OK) or SFTP_OK

    def mkdir(self, path: str, attr: SFTPAttributes) -> int:
        mode = stat.S_IMODE(attr.st_mode) if attr.st_mode is not None else 0o755
        return self._try(lambda: self._path(path).mkdir(mode)) or SFTP_OK

    def rmdir(self, path: str) -> int:
        return self._try(lambda: self._path(path).rmdir()) or SFTP_OK

    def chattr(self, path: str, attr: SFTPAttributes) -> int:
        def changed() -> int:
            target = self._path(path)
            if attr.st_mode is not None:
                target.chmod(stat.S_IMODE(attr.st_mode))
            if attr.st_size is not None:
                os.truncate(target, attr.st_size)
            if attr.st_atime is not None and attr.st_mtime is not None:
                os.utime(target, (attr.st_atime, attr.st_mtime))
            return SFTP_OK

        return self._try(changed)  # type: ignore[no-any-return]

    def readlink(self, path: str) -> str | int:
        return self._try(lambda: str(self._path(path).readlink()))  # type: ignore[no-any-return]

    def symlink(self, target_path: str, path: str) -> int:
        return SFTP_OP_UNSUPPORTED
