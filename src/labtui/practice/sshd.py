"""The practice cluster's SSH server: 127.0.0.1 only, one user, our own key, commands, shells and SFTP.

Each command is a process of its own under bash, as sshd starts it; the connection never waits for one. SFTP is
confined to the cluster's folder: whatever the path, nothing outside is seen or touched.
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
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import paramiko
from paramiko import SFTPAttributes, SFTPHandle, SFTPServer, SFTPServerInterface, SSHException
from paramiko.sftp import SFTP_FAILURE, SFTP_OK, SFTP_PERMISSION_DENIED

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # a client that goes away is no news

IN_TERMINAL = (sys.executable, "-I", "-S", str(Path(__file__).parent / "programs.py"), "terminal")


class _Login(paramiko.ServerInterface):
    """One connection: authentication and the requests that are answered."""

    def __init__(self, server: PracticeSSHServer) -> None:
        self._server = server
        self.root: Path = server.root
        self.home: Path = server.home
        self.disk_full: Callable[[], bool] = server.disk_full
        self._terminals: set[int] = set()

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        good = username == self._server.user and key.asbytes() == self._server.client_key.asbytes()
        return paramiko.common.AUTH_SUCCESSFUL if good else paramiko.common.AUTH_FAILED

    def check_channel_request(self, kind: str, _number: int) -> int:
        refused = paramiko.common.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
        return paramiko.common.OPEN_SUCCEEDED if kind == "session" else refused

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        return self._start(channel, [self._server.bash, "-c", command.decode("utf-8", "surrogateescape")])

    def check_channel_pty_request(self, channel: paramiko.Channel, *_terminal: object) -> bool:
        self._terminals.add(channel.get_id())
        return True

    def check_channel_shell_request(self, channel: paramiko.Channel) -> bool:
        return self._start(channel, [self._server.bash, "-l"])

    def _start(self, channel: paramiko.Channel, words: list[str]) -> bool:
        if channel.get_id() in self._terminals:
            words = [*IN_TERMINAL, *words]
        session = _Session(channel, self._server, words)
        threading.Thread(target=session.run, name="practice-exec", daemon=True).start()
        return True


class _Session:
    """A command or a shell of one channel, run to its end."""

    def __init__(self, channel: paramiko.Channel, server: PracticeSSHServer, words: list[str]) -> None:
        self._channel, self._server, self._words = channel, server, words

    def run(self) -> None:
        """Run to the end and send the exit status."""
        process = subprocess.Popen(
            self._words,
            cwd=self._server.home,
            env=self._server.environment,
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._server.note(process, alive=True)
        try:
            self._carry(process)
            status = process.wait()
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
                self._channel.send_exit_status(status if status >= 0 else 128 - status)
        finally:
            self._server.note(process, alive=False)
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
                self._channel.close()

    def _carry(self, process: subprocess.Popen[bytes]) -> None:
        """Carry the three streams; ends when both outputs are closed."""
        if not (process.stdin and process.stdout and process.stderr):
            return
        threading.Thread(target=self._feed, args=(process.stdin,), daemon=True).start()
        ends = ((process.stdout, self._channel.sendall), (process.stderr, self._channel.sendall_stderr))
        outputs = [
            threading.Thread(target=self._drain, args=(source.fileno(), send, process), daemon=True)
            for source, send in ends
        ]
        for thread in outputs:
            thread.start()
        for thread in outputs:
            thread.join()

    def _feed(self, target: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):
            while data := self._channel.recv(32768):
                target.write(data)
                target.flush()
        with contextlib.suppress(OSError):
            target.close()

    def _drain(self, source: int, send: Callable[[bytes], None], process: subprocess.Popen[bytes]) -> None:
        try:
            while data := os.read(source, 32768):
                send(data)
        except (OSError, EOFError, paramiko.SSHException):
            # The other side is gone: what it started goes too, as sshd's SIGHUP would have it.
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGHUP)


class PracticeSSHServer:
    """Listens on 127.0.0.1 and serves until closed.

    `client_key` is the only key let in. `port` is chosen by the system.
    """

    def __init__(
        self,
        *,
        host_key: paramiko.PKey,
        client_key: paramiko.PKey,
        user: str,
        root: Path,
        home: Path,
        environment: Mapping[str, str],
        bash: str,
        disk_full: Callable[[], bool] = lambda: False,
    ) -> None:
        self.host_key, self.client_key, self.user = host_key, client_key, user
        self.root, self.home, self.bash, self.disk_full = root, home, bash, disk_full
        self.environment = dict(environment)
        self._transports: set[paramiko.Transport] = set()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
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
        transport = paramiko.Transport(peer)
        transport.local_version = "SSH-2.0-labtui_practice"
        transport.add_server_key(self.host_key)
        transport.set_subsystem_handler("sftp", EndingSFTP, ConfinedSFTP)
        with self._lock:
            self._transports.add(transport)
        try:
            transport.start_server(server=_Login(self), event=threading.Event())
            # A channel nobody holds is closed by the garbage collector.
            held: list[paramiko.Channel] = []
            while transport.is_active():
                channel = transport.accept(5)
                held = [one for one in (*held, channel) if one is not None and not one.closed]
        except (paramiko.SSHException, EOFError, OSError):
            pass  # a client that went away, or was none
        finally:
            transport.close()
            with self._lock:
                self._transports.discard(transport)

    def note(self, process: subprocess.Popen[bytes], *, alive: bool) -> None:
        """Remember a process, to end it with the server."""
        with self._lock:
            self._processes.add(process) if alive else self._processes.discard(process)

    def drop_connections(self) -> None:
        """Cut every connection (an incident, and part of closing)."""
        with self._lock:
            transports = list(self._transports)
        for transport in transports:
            transport.close()

    def close(self) -> None:
        """Stop listening, cut the connections, end their processes."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop_connections()
        with self._lock:
            processes = list(self._processes)
        for process in processes:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)


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
        if attr.st_mode is not None:
            os.fchmod(self._stream.fileno(), stat.S_IMODE(attr.st_mode))
        return SFTP_OK


def _answered(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of the SFTP interface: its result (SFTP_OK where there is none), or the status of what went wrong."""

    @functools.wraps(method)
    def answer(*arguments: Any) -> Any:
        try:
            result = method(*arguments)
        except Outside:
            return SFTP_PERMISSION_DENIED
        except OSError as error:
            return SFTPServer.convert_errno(error.errno or errno.EIO)
        return SFTP_OK if result is None else result

    return answer


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

    @_answered
    def list_folder(self, path: str) -> list[SFTPAttributes]:
        entries = os.scandir(self._path(path))
        return [SFTPAttributes.from_stat(entry.stat(follow_symlinks=False), entry.name) for entry in entries]

    @_answered
    def stat(self, path: str) -> SFTPAttributes:
        return SFTPAttributes.from_stat(self._path(path).stat())

    @_answered
    def lstat(self, path: str) -> SFTPAttributes:
        return SFTPAttributes.from_stat(self._path(path).lstat())

    @_answered
    def open(self, path: str, flags: int, attr: SFTPAttributes) -> SFTPHandle | int:
        if flags & (os.O_WRONLY | os.O_RDWR) and self._server.disk_full():
            return SFTP_FAILURE
        mode = stat.S_IMODE(attr.st_mode) if attr.st_mode is not None else 0o644
        descriptor = os.open(self._path(path), flags, mode)
        kind = "r+b" if flags & os.O_RDWR else "rb"
        if flags & os.O_WRONLY:
            kind = "ab" if flags & os.O_APPEND else "wb"
        return _Handle(flags, os.fdopen(descriptor, kind))

    @_answered
    def remove(self, path: str) -> None:
        self._path(path).unlink()

    @_answered
    def posix_rename(self, oldpath: str, newpath: str) -> None:
        self._path(oldpath).replace(self._path(newpath))

    @_answered
    def mkdir(self, path: str, attr: SFTPAttributes) -> None:
        self._path(path).mkdir(stat.S_IMODE(attr.st_mode) if attr.st_mode is not None else 0o755)

    @_answered
    def rmdir(self, path: str) -> None:
        self._path(path).rmdir()

    @_answered
    def chattr(self, path: str, attr: SFTPAttributes) -> None:
        target = self._path(path)
        if attr.st_mode is not None:
            target.chmod(stat.S_IMODE(attr.st_mode))
