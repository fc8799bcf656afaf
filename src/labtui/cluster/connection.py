"""One SSH connection: connect, run a command, ping, files, close.

One thread (the worker) connects and moves files; `run` may also be called beside it, and `close` from any thread, to
unblock the others. It keeps one SFTP channel and opens at most two exec channels at a time (sshd refuses the tenth
channel).

A command runs on an exec channel through a login shell, drained to the end marker of its frame. Both streams are read
in one loop (a full window on the one that is not read would block the other), with a deadline and a cap on bytes. The
end is our marker, not the end of the streams: a background program that a start-up file left behind can hold those
open for ever.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from labtui.cluster.dial import SshChain, dial, lost
from labtui.cluster.files import MAX_PACKET, WINDOW, RemoteFiles
from labtui.cluster.login import LoginResult, Memory, refused_by_server
from labtui.cluster.target import Endpoint, NonInteractivePrompter, Prompter, Target
from labtui.domain.errors import CannotConnect, ConnectionLost, LabError, RemoteFailure
from labtui.slurm.remote_command import Call, CommandRecord, CommandResult, T, cut_frame, frame

if TYPE_CHECKING:
    import paramiko


CHUNK = 65536
WAIT_S = 0.05
"""How long one look at standard output waits before standard error is looked at."""


def execute(transport: paramiko.Transport, script: str, *, timeout_s: float, limit: int) -> CommandResult:
    """Run `script`; the result's status is None when it is not known how it ended.

    Raises:
        TimeoutError, paramiko.SSHException, EOFError, OSError: the channel could not be had, or broke.
    """
    began = time.monotonic()
    marker = secrets.token_hex(16)
    channel = transport.open_session(timeout=min(timeout_s, 15.0))
    with contextlib.closing(channel), closed_after(channel, timeout_s):
        channel.exec_command(frame(script, marker))
        drain = _Drain(channel, marker, limit)
        timed_out = drain.run(began + timeout_s)
    return drain.result(time.monotonic() - began, timed_out)


@contextlib.contextmanager
def closed_after(channel: paramiko.Channel, seconds: float) -> Iterator[None]:
    """Close `channel` when the block takes longer: some of paramiko's waits have no limit of their own."""
    timer = threading.Timer(seconds + 1.0, close_quietly, [channel])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def close_quietly(channel: paramiko.Channel) -> None:
    """Close a channel, also of a dead connection: saying goodbye over it raises then, which tells nobody anything."""
    import paramiko

    with contextlib.suppress(EOFError, OSError, paramiko.SSHException):
        channel.close()


class _Drain:
    """Reads both streams of one channel until both end markers are here."""

    def __init__(self, channel: paramiko.Channel, marker: str, limit: int) -> None:
        self.channel = channel
        self.marker = marker
        self.limit = limit
        self.out = bytearray()
        self.err = bytearray()
        self.truncated = False
        self._end = re.compile(rb"\n" + marker.encode() + rb"> [0-9]{1,3}\n")
        self._seen = [False, False]

    def run(self, deadline: float) -> bool:
        """Drain; True when the deadline passed first."""
        self.channel.settimeout(WAIT_S)
        self.channel.shutdown_write()
        while not all(self._seen):
            if time.monotonic() >= deadline:
                return True
            over = self._read_out()
            self._read_err()
            if len(self.out) + len(self.err) > self.limit:
                self.truncated = True
                return False
            if over:
                return False
        return False

    def _read_out(self) -> bool:
        """Take what standard output has, waiting a little; True when the channel has ended."""
        if self.channel.closed and not self.channel.recv_ready():
            return not self.channel.recv_stderr_ready()
        try:
            data = self.channel.recv(CHUNK)
        except TimeoutError:
            return False
        if not data:
            # The stream's end. Standard error may have more; without its end marker the status stays unknown.
            self._drain_err()
            return True
        self._take(self.out, data, 0)
        return False

    def _read_err(self) -> None:
        while self.channel.recv_stderr_ready():
            self._take(self.err, self.channel.recv_stderr(CHUNK), 1)

    def _drain_err(self) -> None:
        with contextlib.suppress(TimeoutError):
            while not self._seen[1] and (data := self.channel.recv_stderr(CHUNK)):
                self._take(self.err, data, 1)

    def _take(self, stream: bytearray, data: bytes, which: int) -> None:
        start = max(0, len(stream) - 64)
        stream += data
        if not self._seen[which] and self._end.search(stream, start):
            self._seen[which] = True

    def result(self, seconds: float, timed_out: bool) -> CommandResult:
        """What was read, cut at the markers."""
        out, err = cut_frame(bytes(self.out), self.marker), cut_frame(bytes(self.err), self.marker)
        return CommandResult(
            stdout=out.content,
            stderr=err.content if err.began else b"",
            status=None if self.truncated else out.status,
            seconds=seconds,
            began=out.began,
            noise=out.noise + err.noise,
            truncated=self.truncated,
            timed_out=timed_out,
        )


OUTPUT_CAP = 8 << 20
COMMAND_LIMIT_S = 60.0
TURN_LIMIT_S = 10.0
"""How long a command waits for its turn while two others have no answer."""
FILE_LIMIT_S = 30.0


class Connection:
    """A connection to the first host of `target` that can be reached.

    `on_command` is told of each remote command after it ran, for the remote-command panel; scripts hold no
    secrets.
    """

    def __init__(
        self,
        target: Target,
        prompter: Prompter | None = None,
        on_command: Callable[[CommandRecord], None] | None = None,
    ) -> None:
        self.target = target
        self.files = RemoteFiles(self._sftp_channel)
        self._prompter = prompter or NonInteractivePrompter()
        self._on_command = on_command
        self._memory = Memory()
        self._chain: SshChain | None = None
        self._endpoint: Endpoint | None = None
        self._sftp: paramiko.SFTPClient | None = None
        self._execs = threading.BoundedSemaphore(2)
        self._closing = threading.Lock()

    # ----------------------------------------------------------------- connecting

    @property
    def connected(self) -> bool:
        """True while the transport stands. A frozen connection looks connected: `ping` tells."""
        chain = self._chain
        return chain is not None and chain.transport.is_active() and chain.transport.is_authenticated()

    @property
    def host(self) -> str:
        """The host we are on, or were on last; before that, the first one wanted."""
        return (self._endpoint or self.target.endpoints[0]).host

    @property
    def user(self) -> str:
        """The user's name on the cluster."""
        return (self._endpoint or self.target.endpoints[0]).user

    @property
    def login_result(self) -> LoginResult | None:
        """How the login went (methods, key, end of the certificate); None when not connected."""
        return self._chain.login_result if self._chain else None

    def connect(self) -> None:
        """Connect and log in; the hosts are tried in turn, the last good one first.

        Raises:
            CannotConnect: none of the hosts can be reached.
            LoginRefused, HostKeyProblem: stop here; another try needs the student.
        """
        if self.connected:
            return
        self.close()
        problems: list[tuple[Endpoint, CannotConnect]] = []
        for endpoint in self._order():
            try:
                chain = dial(
                    endpoint,
                    own_known_hosts=self.target.own_known_hosts,
                    prompter=self._prompter,
                    memory=self._memory,
                )
            except CannotConnect as problem:
                problems.append((endpoint, problem))
                continue
            self._chain, self._endpoint = chain, endpoint
            return
        raise _none_answers(problems)

    def _order(self) -> list[Endpoint]:
        endpoints = list(self.target.endpoints)
        if self._endpoint in endpoints:
            endpoints.remove(self._endpoint)
            endpoints.insert(0, self._endpoint)
        return endpoints

    def close(self) -> None:
        """Close at once, whatever the connection is doing; safe from any thread and when not connected."""
        with self._closing:
            chain, self._chain, self._sftp = self._chain, None, None
        if chain is not None:
            chain.close()

    def _transport(self) -> paramiko.Transport:
        chain = self._chain
        if chain is None or not chain.transport.is_active():
            raise ConnectionLost(
                f"There is no connection to {self.host}.", "labtui tries again automatically."
            )
        return chain.transport

    # ----------------------------------------------------------------- commands

    def ask(self, call: Call[T]) -> T:
        """Ask one question and read its answer.

        Raises:
            ConnectionLost, RemoteFailure: as `run`, and what the reader of the answer raises.
        """
        nonce = secrets.token_hex(8)
        return call.answer(self.run(call.text(nonce), name=call.name, timeout_s=call.limit_s), nonce)

    def run(
        self,
        script: str,
        *,
        name: str = "shell",
        timeout_s: float = COMMAND_LIMIT_S,
        limit: int = OUTPUT_CAP,
    ) -> CommandResult:
        """Run a shell script in a login shell. `status` None = unknown how it ended (see `CommandResult`).

        Raises:
            ConnectionLost: the connection broke or is silent; the command may or may not have run.
            RemoteFailure: the login shell did not start the command at all, or two others were still on their way.
        """
        at, began = time.time(), time.monotonic()
        status: int | None = None
        try:
            self._take_turn()
            try:
                result = self._execute(script, timeout_s, limit)
            finally:
                self._execs.release()
            status = result.status
        finally:
            if self._on_command is not None:
                seconds = time.monotonic() - began
                self._on_command(CommandRecord(at, name, script, seconds, status))
        if not result.began:
            raise self._not_begun(result)
        return result

    def _take_turn(self) -> None:
        """Wait for one of the two command channels; not for ever: logs are read between two commands."""
        if not self._execs.acquire(timeout=TURN_LIMIT_S):
            raise RemoteFailure(
                f"{self.host} has not answered two earlier requests yet.",
                "Slurm or the login node may be busy; labtui tries again automatically.",
                wait=True,
            )

    def _execute(self, script: str, timeout_s: float, limit: int) -> CommandResult:
        import paramiko

        transport = self._transport()
        try:
            result = execute(transport, script, timeout_s=timeout_s, limit=limit)
        except paramiko.ChannelException as problem:
            raise RemoteFailure(
                f"{self.host} refuses another channel ({problem.text}).",
                "Close other sessions, then try again.",
                wait=True,
            ) from None
        except (paramiko.SSHException, EOFError, OSError) as problem:
            raise lost(problem, self.host) from None
        if result.status is None and not result.truncated and not transport.is_active():
            raise ConnectionLost(
                f"The connection to {self.host} was lost.", "labtui tries again automatically."
            )
        return result

    def _not_begun(self, result: CommandResult) -> LabError:
        if result.timed_out:
            return ConnectionLost(
                f"The login shell on {self.host} did not get ready in time.",
                "The login node may be overloaded, or a start-up file (.bashrc) waits for something.",
            )
        if (refusal := self._refused_here(result.noise)) is not None:
            return refusal
        noise_lines = result.noise.decode("utf-8", "replace").strip().splitlines()
        return RemoteFailure(
            f"The login shell on {self.host} ended before the command.",
            "A start-up file (.bashrc, .profile) exits, or bash is missing."
            + (f" Output: {noise_lines[-1][:200]}" if noise_lines else ""),
            detail="\n".join(noise_lines),
            wait=True,
        )

    def _refused_here(self, noise: bytes) -> LabError | None:
        return refused_by_server(noise.decode("utf-8", "replace"), self._endpoint or self.target.endpoints[0])

    # ----------------------------------------------------------------- files and liveness

    def ping(self, deadline_s: float = 5.0) -> float:
        """Ask for a cheap sign of life; returns the seconds it took.

        Raises:
            ConnectionLost: none within the deadline. The connection may still heal; close it after a second miss.
        """
        began = time.monotonic()
        with self._sftp_channel(deadline_s) as sftp:
            sftp.stat(".")
        return time.monotonic() - began

    @contextlib.contextmanager
    def _sftp_channel(self, limit_s: float = FILE_LIMIT_S) -> Iterator[paramiko.SFTPClient]:
        """The SFTP channel, each answer within `limit_s`; a refusal of the server (OSError) passes through."""
        import paramiko

        new = self._sftp is None
        try:
            sftp = self._open_sftp(limit_s)
            sftp.get_channel().settimeout(limit_s)  # type: ignore[union-attr]
            yield sftp
        except paramiko.SFTPError as problem:
            self._drop_sftp()
            raise self._no_sftp(problem) from None
        except (TimeoutError, EOFError, paramiko.SSHException) as problem:
            self._drop_sftp()
            raise lost(problem, self.host) from None
        except OSError as problem:
            if problem.errno is None and "closed" in str(problem).lower():
                self._drop_sftp()
                raise (self._refused_command() if new else None) or lost(problem, self.host) from None
            raise

    def _open_sftp(self, limit_s: float) -> paramiko.SFTPClient:
        import paramiko

        if self._sftp is not None:
            return self._sftp
        transport = self._transport()
        channel = transport.open_session(WINDOW, MAX_PACKET, timeout=limit_s)
        channel.settimeout(limit_s)
        try:
            with closed_after(channel, limit_s):
                channel.invoke_subsystem("sftp")
                self._sftp = paramiko.SFTPClient(channel)
        except paramiko.SFTPError:
            close_quietly(channel)
            raise
        except (paramiko.SSHException, EOFError) as problem:
            close_quietly(channel)
            if transport.is_active() and not isinstance(problem, TimeoutError):
                raise self._no_sftp(problem) from None
            raise
        return self._sftp

    def _no_sftp(self, problem: Exception) -> LabError:
        """Why there is no file transfer."""
        if (refusal := self._refused_command()) is not None:
            return refusal
        return RemoteFailure(
            f"{self.host} offers no usable file transfer (SFTP).",
            "A start-up file (.bashrc) that prints text breaks it: make it silent for shells that are not "
            "interactive. Otherwise the site has switched SFTP off.",
            detail=str(problem),
            wait=True,
        )

    def _refused_command(self) -> LabError | None:
        """A server that lets nobody in says so to a command, not to SFTP: it only closes that channel."""
        with contextlib.suppress(LabError):
            result = self._execute("true", FILE_LIMIT_S, 1 << 16)
            if not result.began:
                return self._refused_here(result.noise)
        return None

    def _drop_sftp(self) -> None:
        sftp, self._sftp = self._sftp, None
        channel = sftp.get_channel() if sftp is not None else None
        if channel is not None:
            close_quietly(channel)


def _none_answers(problems: list[tuple[Endpoint, CannotConnect]]) -> CannotConnect:
    if len(problems) == 1:
        return problems[0][1]
    sentences = "; ".join(problem.sentence.rstrip(".") for _, problem in problems)
    last = problems[-1][1]
    reasons = {problem.reason for _, problem in problems}
    reason = last.reason if len(reasons) == 1 else ""
    return CannotConnect(f"None of the login hosts can be reached: {sentences}.", last.hint, reason=reason)
