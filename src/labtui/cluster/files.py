"""Files on the cluster: small operations over the one SFTP channel, each with a deadline; and pushing files.

Paths are the cluster's (POSIX). SFTP does not expand ``~``; relative paths start at the home directory.

Long reads are pipelined: few requests are in flight at first, more with each answer, because everything else waits
behind the data in flight. paramiko's own `readv` sends from a second thread, may send a request twice if answers are
quick, and does not adapt to the speed of the connection.

Beside the directories of submissions there is a store of file contents by SHA-256. One command compares the files,
copies those that the store has, and names those to send; these are uploaded once and the command is run again. So an
unchanged file costs nothing, even in a new directory, and every file appears complete or not at all.
"""

import contextlib
import errno
import hashlib
import io
import math
import posixpath
import re
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import paramiko
from paramiko.sftp import CMD_DATA, CMD_READ, CMD_STATUS, int64

from labtui.domain.errors import RemoteFailure, failure
from labtui.slurm.job_control import classify
from labtui.slurm.remote_command import Call, CommandResult, shell_file

MIN_READ_AHEAD, MAX_READ_AHEAD = 64 * 1024, 8 * 1024 * 1024
"""Bytes in flight. The minimum takes seconds on a bad connection; the maximum fills 200 Mbit/s at 300 ms."""

SMALL_REQUEST = 32 * 1024
"""The bytes that every server returns in one answer."""


class _Answers:
    """Collects the server's answers by request number; paramiko calls `_async_response`."""

    def __init__(self) -> None:
        self.got: dict[int, tuple[int, Any]] = {}

    def _async_response(self, kind: int, message: Any, number: int) -> None:
        self.got[number] = (kind, message)


LARGE_REQUEST = 255 * 1024
"""What OpenSSH's server returns in one answer since 8.5: an eighth of the requests, twice as fast."""
MAX_PACKET = 256 * 1024
WINDOW = 32 << 20
"""The SFTP channel's packet and window sizes, large enough for large requests on slow connections."""


SftpSession = Callable[[], contextlib.AbstractContextManager[paramiko.SFTPClient]]
"""Returns the SFTP channel, with a deadline; the server's refusals (OSError) are passed on."""


class FileStat(msgspec.Struct, frozen=True):
    """Size in bytes and modification time in UNIX seconds by the cluster's clock."""

    size: int
    mtime: float


PEEK_BYTES = SMALL_REQUEST


class RemoteFiles:
    """Operations on remote files. `session` returns the SFTP channel with a deadline."""

    def __init__(self, session: SftpSession) -> None:
        self._session = session
        self._held: tuple[str, paramiko.SFTPClient, Any] | None = None
        """The file that stays open for `peek`: its path, its channel, and itself."""
        self._home = ""

    def stat(self, path: str) -> FileStat | None:
        """Size and time of `path`, following links; None if it does not exist. `peek` opens it anew afterwards."""
        with self._channel(path) as sftp:
            if self._held is not None and self._held[0] == path:
                self._let_go(sftp)
            try:
                answer = sftp.stat(path)
            except FileNotFoundError:
                return None
        return FileStat(answer.st_size or 0, float(answer.st_mtime or 0))

    def home(self) -> str:
        """The absolute path of the home directory, which is asked for once."""
        if not self._home:
            with self._channel(".") as sftp:
                self._home = sftp.normalize(".")
        return self._home

    def read(self, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        """Up to `limit` bytes from `offset`; empty at or after the end. Large reads are pipelined.

        Raises:
            RemoteFailure: the file does not exist or cannot be read.
        """
        came = bytearray()
        self.read_into(path, offset, limit, came.extend)
        return bytes(came)

    def read_into(
        self, path: str, offset: int, limit: int, take: Callable[[bytes], object], *,
        within_s: float | None = None,
    ) -> None:  # fmt: skip
        """Read as `read`, but pass each piece to `take` in order, as it arrives.

        With `within_s` no more is requested after that many seconds; what was requested before is still taken.

        Raises:
            RemoteFailure, ConnectionLost: as `read`; the pieces taken before are valid.
        """
        with self._channel(path) as sftp:
            # Two round trips, to open and to read: the file's size is not asked for.
            began = time.monotonic()
            file: Any = sftp.open(path, "rb")
            round_trip_s = time.monotonic() - began
            until = math.inf if within_s is None else time.monotonic() + within_s + 6 * round_trip_s
            try:
                for data in _read_pieces(sftp, file.handle, offset, offset + max(0, limit), until):
                    take(data)
            finally:
                _close_without_waiting(file)

    def peek(self, path: str, offset: int) -> bytes:
        """Up to `PEEK_BYTES` from `offset` in one round trip, from a file that stays open; empty at its end.

        A file that replaces it is read only after the next `stat`.

        Raises:
            RemoteFailure, ConnectionLost: as `read`.
        """
        with self._channel(path) as sftp:
            try:
                request: Any = sftp
                if self._held is None or self._held[:2] != (path, sftp):
                    self._let_go(sftp)
                    self._held = path, sftp, sftp.open(path, "rb")
                _, answer = request._request(CMD_READ, self._held[2].handle, int64(offset), PEEK_BYTES)
            except EOFError:
                return b""
            except BaseException:
                self._held = None
                raise
        data: bytes = answer.get_string()
        return data

    def _let_go(self, sftp: paramiko.SFTPClient) -> None:
        """Close the held file, unless its channel is gone."""
        held, self._held = self._held, None
        if held is not None and held[1] is sftp:
            _close_without_waiting(held[2])

    def write_atomic(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write `data` to `path`; the file appears complete, with its mode, or not at all.

        Raises:
            RemoteFailure: no space, no permission, no such directory.
        """
        folder, name = posixpath.split(path)
        temporary = posixpath.join(folder, f".{name}.{secrets.token_hex(4)}.part")
        with self._channel(path, otherwise="no-write") as sftp:
            try:
                sftp.putfo(io.BytesIO(data), temporary)  # compares the sizes
                sftp.chmod(temporary, mode)
                sftp.posix_rename(temporary, path)
            except (OSError, EOFError):
                with contextlib.suppress(Exception):
                    sftp.remove(temporary)
                raise

    @contextlib.contextmanager
    def _channel(self, path: str, otherwise: str = "bad-file") -> Iterator[paramiko.SFTPClient]:
        """The channel for an operation on `path`; the server's refusals become errors for the student.

        `otherwise` is the reason where the server names none: it reports a full disk or quota only as "Failure".
        """
        try:
            with self._session() as sftp:
                yield sftp
        except TimeoutError:
            raise
        except OSError as problem:
            known = {errno.ENOENT: "no-file", errno.EACCES: "closed-file"}
            reason = known.get(problem.errno or 0, otherwise)
            raise failure(reason, path=path, text=problem, wait=reason == otherwise) from None


def request_size(sftp: paramiko.SFTPClient) -> int:
    """The most bytes to request from this server at once."""
    channel = sftp.get_channel()
    version = channel.get_transport().remote_version if channel is not None else ""
    answer = re.search(r"OpenSSH_([0-9]+)\.([0-9]+)", version)
    return LARGE_REQUEST if answer and (int(answer[1]), int(answer[2])) >= (8, 5) else SMALL_REQUEST


def _close_without_waiting(file: Any) -> None:
    """Close a file that was only read, without waiting a round trip for the server's answer."""
    file._close(async_=True)


def _read_pieces(sftp: Any, handle: bytes, offset: int, end: int, until: float) -> Iterator[bytes]:
    """The bytes from `offset` to `end`; each answer raises the limit on bytes in flight by its own size."""
    answers, asked = _Answers(), deque[tuple[int, int]]()
    on_the_way, request, ahead = 0, request_size(sftp), MIN_READ_AHEAD
    while True:
        room = ahead if 2 * on_the_way <= ahead else 0  # in bursts: fewer switches between threads
        while offset < end and on_the_way < room and time.monotonic() < until:
            size = min(request, end - offset)
            asked.append((sftp._async_request(answers, CMD_READ, handle, int64(offset), size), size))
            offset, on_the_way = offset + size, on_the_way + size
        if not asked:
            return
        number, size = asked.popleft()
        while number not in answers.got:
            sftp._read_response()
        kind, message = answers.got.pop(number)
        if kind == CMD_STATUS:
            try:
                sftp._convert_status(message)
            except EOFError:
                return
        if kind != CMD_DATA:
            raise paramiko.SFTPError("The server returned no data.")
        data: bytes = message.get_string()
        ahead = min(MAX_READ_AHEAD, ahead + size)
        yield data
        on_the_way -= size
        if len(data) < size:  # the answers requested after it would leave a gap: request them again
            offset -= on_the_way + size - len(data)
            answers, on_the_way = _Answers(), 0
            asked.clear()


STORE = ".objects"
_TEXT_SUFFIXES = (".py", ".sh", ".bash", ".slurm", ".sbatch", ".txt", ".toml", ".cfg", ".md", ".csv")
_RUNNABLE_SUFFIXES = (".sh", ".bash", ".slurm", ".sbatch")


class PushFile(msgspec.Struct, frozen=True):
    """One file as it will be on the cluster: relative path, content, mode, SHA-256 in hex."""

    path: str
    data: bytes
    mode: int
    digest: str


def plan_push(files: Mapping[str, bytes]) -> tuple[PushFile, ...]:
    """The files as they will be on the cluster: text with Unix line endings, scripts executable.

    Raises:
        UsageError: a path points out of the directory or cannot be a file name.
    """
    return tuple(_plan_file(path, data) for path, data in sorted(files.items()))


_NO_FILE_INSIDE = re.compile(r"\A(?:/|\.\.?(?:/|\Z)|[A-Za-z]:)|[\x00-\x1f\x7f\ud800-\udfff]")
"""A normal path that leads out of the directory, or is no file name."""


def _plan_file(path: str, data: bytes) -> PushFile:
    clean = posixpath.normpath(path.replace("\\", "/"))
    if _NO_FILE_INSIDE.search(clean):
        raise failure("bad-push", path=path)
    script = data.startswith(b"#!")
    if script or clean.endswith(_TEXT_SUFFIXES):
        data = data.replace(b"\r\n", b"\n")
    mode = 0o755 if script or clean.endswith(_RUNNABLE_SUFFIXES) else 0o644
    return PushFile(clean, data, mode, hashlib.sha256(data).hexdigest())


def store_of(remote_dir: str) -> str:
    """The path of the store that `remote_dir` shares with the other submissions."""
    return posixpath.join(posixpath.dirname(remote_dir.rstrip("/")) or ".", STORE)


def put_files(remote_dir: str, files: Sequence[PushFile]) -> Call[list[PushFile]]:
    """Put files into place from the store; the answer is those that must be sent. Reading may raise RemoteFailure."""
    triples = [word for file in files for word in (file.path, file.digest, f"{file.mode:o}")]
    return Call(
        name="push",
        script=shell_file("push"),
        arguments=(remote_dir, store_of(remote_dir), *triples),
        limit_s=60,
        read=partial(_read_placed, remote_dir, files),
        silence=("The cluster gave no answer about the files.", "Push again; only missing files are sent."),
    )


def _read_placed(remote_dir: str, files: Sequence[PushFile], result: CommandResult) -> list[PushFile]:
    words, known = result.out.split(), {"same", "placed", "need"}
    if result.status == 0 and len(words) == len(files) and set(words) <= known:
        return [file for file, word in zip(files, words, strict=True) if word == "need"]
    stderr = result.err.strip()
    if (refusal := classify(stderr)).key == "quota":
        raise RemoteFailure(refusal.sentence, refusal.hint, wait=True)
    said = (stderr.splitlines() or ["no reason given"])[-1]
    why = f"The files cannot be put on the cluster: {said}"
    raise RemoteFailure(why, f"Check the remote folder (`root`): {remote_dir}")
