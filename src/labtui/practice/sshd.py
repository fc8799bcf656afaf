"""The practice cluster's SSH server: on 127.0.0.1 only, one user, one key; commands and SFTP, no shells.

Each command runs in a process of its own under bash, as with sshd; the connection never waits for one. SFTP is confined
to the cluster's folder: whatever the path, nothing outside can be read or changed.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import signal
import socket
import stat
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import paramiko
from paramiko import SFTPAttributes, SFTPHandle, SFTPServer, SFTPServerInterface
from paramiko.common import MSG_CHANNEL_REQUEST
from paramiko.sftp import SFTP_FAILURE, SFTP_OK

from labtui.practice.layout import Layout
from labtui.practice.runner import find_bash, signal_group

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # else a client that disconnects is reported

_GONE = (OSError, EOFError, paramiko.SSHException)
"""Errors of a connection whose client has gone."""


class _Login(paramiko.ServerInterface):
    """One connection: authentication, and the channel requests that are accepted."""

    def __init__(self, server: PracticeSSHServer) -> None:
        self.server = server
        self.accepted: threading.Thread | None = None

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        good = username == self.server.user and key.asbytes() == self.server.client_key.asbytes()
        return paramiko.common.AUTH_SUCCESSFUL if good else paramiko.common.AUTH_FAILED

    def check_channel_request(self, kind: str, _number: int) -> int:
        refused = paramiko.common.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
        return paramiko.common.OPEN_SUCCEEDED if kind == "session" else refused

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        argv = [find_bash(), "-c", command.decode("utf-8", "surrogateescape")]
        run = functools.partial(self.server.run, channel, argv)
        self.accepted = threading.Thread(target=run, name="practice-exec", daemon=True)
        return True


def _confirm(channel: Any, message: paramiko.Message) -> None:
    """Answer a channel's request, then start its command: a short one could else close the channel first.

    paramiko has no public hook for it.
    """
    channel._handle_request(message)
    login: _Login = channel.transport.server_object
    accepted, login.accepted = login.accepted, None
    if accepted is not None:
        accepted.start()


def _feed(channel: paramiko.Channel, target: IO[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError), target:
        while data := channel.recv(32768):
            target.write(data)
            target.flush()


def _drain(source: IO[bytes], send: Callable[[bytes], None], process: subprocess.Popen[bytes]) -> None:
    try:
        while data := os.read(source.fileno(), 32768):
            send(data)
    except _GONE:  # the client's processes get SIGHUP, as from sshd
        signal_group(process.pid, signal.SIGHUP)


class PracticeSSHServer:
    """Listens on 127.0.0.1 and serves until closed.

    Only `client_key` can log in. The system chooses the `port`.
    """

    def __init__(
        self, layout: Layout, user: str, environment: Mapping[str, str], disk_full: Callable[[], bool]
    ) -> None:
        self.layout, self.user, self.disk_full = layout, user, disk_full
        self.host_key, self.client_key = paramiko.ECDSAKey.generate(), paramiko.ECDSAKey.generate()
        self.environment = dict(environment)
        # Threads add to these, discard from them and copy them; each is one operation and needs no lock.
        self._transports: set[paramiko.Transport] = set()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=32)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="practice-sshd", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), name="practice-login", daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport: Any = paramiko.Transport(peer)
        transport._channel_handler_table = transport._channel_handler_table | {MSG_CHANNEL_REQUEST: _confirm}
        transport.local_version = "SSH-2.0-labtui_practice"
        transport.add_server_key(self.host_key)
        transport.set_subsystem_handler("sftp", EndingSFTP, ConfinedSFTP)
        self._transports.add(transport)
        try:
            transport.start_server(server=_Login(self), event=threading.Event())
            # Channels without a reference would be closed by the garbage collector.
            held: list[paramiko.Channel] = []
            while transport.is_active():
                channel = transport.accept(5)
                held = [one for one in (*held, channel) if one is not None and not one.closed]
        except _GONE:
            pass  # the client has gone, or was not an SSH client
        finally:
            transport.close()
            self._transports.discard(transport)

    def run(self, channel: paramiko.Channel, command: list[str]) -> None:
        """Run the command of a channel to its end, and send the exit status."""
        how: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        how |= {"cwd": self.layout.home, "env": self.environment, "start_new_session": True}
        with subprocess.Popen(command, **how) as process:
            self._processes.add(process)
            feed = threading.Thread(target=_feed, args=(channel, process.stdin), daemon=True)
            ends = ((process.stdout, channel.sendall), (process.stderr, channel.sendall_stderr))
            drains = [threading.Thread(target=_drain, args=(*end, process), daemon=True) for end in ends]
            for thread in (feed, *drains):
                thread.start()
            for thread in drains:
                thread.join()
            status = process.wait()
            self._processes.discard(process)
            with contextlib.suppress(*_GONE):
                channel.send_exit_status(status if status >= 0 else 128 - status)
            with contextlib.suppress(*_GONE):
                channel.close()

    def drop_connections(self) -> None:
        """Cut every connection."""
        for transport in tuple(self._transports):
            transport.close()

    def close(self) -> None:
        """Stop listening, cut the connections and kill their processes."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop_connections()
        for process in tuple(self._processes):
            signal_group(process.pid, signal.SIGKILL)


def confined(root: Path, home: Path, path: str) -> Path:
    """The real path for a client's `path`, which is relative to `home`. Raises PermissionError if outside `root`.

    Links are followed for the check, so a link that leads out of `root` is refused.
    """
    requested = Path(os.path.normpath(home / path))
    full = Path(os.path.realpath(requested.parent)) / requested.name
    base = Path(os.path.realpath(root))
    for place in (full, Path(os.path.realpath(full))):
        if place != base and base not in place.parents:
            raise PermissionError(errno.EACCES, "outside the practice folder", path)
    return full


class _Handle(SFTPHandle):
    """An open file; paramiko reads and writes it, `stat` and `chattr` use the descriptor."""

    def __init__(self, flags: int, stream: Any) -> None:
        super().__init__(flags)
        self.readfile = self.writefile = stream
        self._stream = stream

    def stat(self) -> SFTPAttributes | int:
        return SFTPAttributes.from_stat(os.fstat(self._stream.fileno()))

    def chattr(self, attr: SFTPAttributes) -> int:
        if attr.st_mode is not None:
            os.fchmod(self._stream.fileno(), stat.S_IMODE(attr.st_mode))
        return SFTP_OK


def _with_status(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate an SFTP method: return its result, SFTP_OK for None, or the status code of an OSError."""

    @functools.wraps(method)
    def answer(*arguments: Any) -> Any:
        try:
            result = method(*arguments)
        except OSError as error:
            return SFTPServer.convert_errno(error.errno or errno.EIO)
        return SFTP_OK if result is None else result

    return answer


class EndingSFTP(SFTPServer):
    """An SFTP subsystem that sends an exit status, as OpenSSH's does; without one `scp` reports a failure."""

    def finish_subsystem(self) -> None:
        with contextlib.suppress(*_GONE):
            if self.sock is not None:
                self.sock.send_exit_status(0)
        super().finish_subsystem()


class ConfinedSFTP(SFTPServerInterface):
    """Answers the SFTP requests of labtui and scp in the cluster's folder; writes fail while its disk is full."""

    def __init__(self, login: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(login, *arguments, **options)
        self._server: PracticeSSHServer = login.server

    def _path(self, path: str) -> Path:
        return confined(self._server.layout.root, self._server.layout.home, path)

    def canonicalize(self, path: str) -> str:
        return os.path.normpath(self._server.layout.home / path)

    @_with_status
    def stat(self, path: str) -> SFTPAttributes:
        return SFTPAttributes.from_stat(self._path(path).stat())

    @_with_status
    def lstat(self, path: str) -> SFTPAttributes:
        return SFTPAttributes.from_stat(self._path(path).lstat())

    @_with_status
    def open(self, path: str, flags: int, attr: SFTPAttributes) -> SFTPHandle | int:
        if flags & (os.O_WRONLY | os.O_RDWR) and self._server.disk_full():
            return SFTP_FAILURE
        mode = stat.S_IMODE(attr.st_mode) if attr.st_mode is not None else 0o644
        descriptor = os.open(self._path(path), flags, mode)
        kind = "r+b" if flags & os.O_RDWR else "rb"
        if flags & os.O_WRONLY:
            kind = "ab" if flags & os.O_APPEND else "wb"
        return _Handle(flags, os.fdopen(descriptor, kind))

    @_with_status
    def remove(self, path: str) -> None:
        self._path(path).unlink()

    @_with_status
    def posix_rename(self, oldpath: str, newpath: str) -> None:
        self._path(oldpath).replace(self._path(newpath))

    @_with_status
    def mkdir(self, path: str, attr: SFTPAttributes) -> None:
        self._path(path).mkdir(stat.S_IMODE(attr.st_mode) if attr.st_mode is not None else 0o755)

    @_with_status
    def chattr(self, path: str, attr: SFTPAttributes) -> None:
        target = self._path(path)
        if attr.st_mode is not None:
            target.chmod(stat.S_IMODE(attr.st_mode))
