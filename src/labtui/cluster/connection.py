"""One SSH connection: connect, run, ping, files, close.

One thread (the lane) connects and moves files; `run` may also be called beside it, and `close` from any thread, to
unblock the others. It keeps one SFTP channel and opens at most two exec channels at a time (sshd refuses the tenth
channel).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from labtui.cluster.dial import Line, dial
from labtui.cluster.exec import close_quietly, closed_after, execute
from labtui.cluster.failures import lost
from labtui.cluster.files import MAX_PACKET, WINDOW, FileStat, RemoteFiles
from labtui.cluster.login import Memory, Welcome
from labtui.cluster.prompts import NobodyThere, Prompter
from labtui.cluster.target import Endpoint, Target
from labtui.core.remote import CommandRecord, CommandResult, RemoteCommand
from labtui.errors import CannotConnect, ConnectionLost, LabError, RemoteFailure

if TYPE_CHECKING:
    import paramiko

__all__ = ["CommandRecord", "CommandResult", "Connection", "FileStat", "RemoteCommand"]

T = TypeVar("T")
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
        self.files = RemoteFiles(self._with_sftp)
        self._prompter = prompter or NobodyThere()
        self._on_command = on_command
        self._memory = Memory()
        self._line: Line | None = None
        self._endpoint: Endpoint | None = None
        self._sftp: paramiko.SFTPClient | None = None
        self._execs = threading.BoundedSemaphore(2)
        self._closing = threading.Lock()

    # ----------------------------------------------------------------- connecting

    @property
    def connected(self) -> bool:
        """True while the transport stands. A frozen line looks connected: `ping` tells."""
        line = self._line
        return line is not None and line.transport.is_active() and line.transport.is_authenticated()

    @property
    def host(self) -> str:
        """The host we are on, or were on last; before that, the first one wanted."""
        return (self._endpoint or self.target.endpoints[0]).host

    @property
    def user(self) -> str:
        """The user's name on the cluster."""
        return (self._endpoint or self.target.endpoints[0]).user

    @property
    def endpoint(self) -> Endpoint | None:
        """The login host we are on, as resolved; None before the first connect."""
        return self._endpoint

    @property
    def welcome(self) -> Welcome | None:
        """How the login went (methods, key, end of the certificate); None when not connected."""
        return self._line.welcome if self._line else None

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
                line = dial(
                    endpoint,
                    own_known_hosts=self.target.own_known_hosts,
                    prompter=self._prompter,
                    memory=self._memory,
                )
            except CannotConnect as problem:
                problems.append((endpoint, problem))
                continue
            self._line, self._endpoint = line, endpoint
            return
        raise _none_answers(problems)

    def _order(self) -> list[Endpoint]:
        endpoints = list(self.target.endpoints)
        if self._endpoint in endpoints:
            endpoints.remove(self._endpoint)
            endpoints.insert(0, self._endpoint)
        return endpoints

    def close(self) -> None:
        """Close at once, whatever the line is doing; safe from any thread and when not connected."""
        with self._closing:
            line, self._line, self._sftp = self._line, None, None
        if line is not None:
            line.close()

    def _transport(self) -> paramiko.Transport:
        line = self._line
        if line is None or not line.transport.is_active():
            raise ConnectionLost(f"There is no connection to {self.host}.", "labtui tries again by itself.")
        return line.transport

    # ----------------------------------------------------------------- commands

    def run(
        self,
        command: str | RemoteCommand,
        *,
        timeout_s: float = COMMAND_LIMIT_S,
        stdin: bytes = b"",
        limit: int = OUTPUT_CAP,
    ) -> CommandResult:
        """Run a shell script in a login shell. `status` None = unknown how it ended (see `CommandResult`).

        Raises:
            ConnectionLost: the line broke or is silent; the command may or may not have run.
            RemoteFailure: the login shell did not start the command at all, or two others were still on their way.
        """
        named = command if isinstance(command, RemoteCommand) else RemoteCommand("shell", command)
        script = named.text if isinstance(command, RemoteCommand) else command
        at, began = time.time(), time.monotonic()
        status: int | None = None
        try:
            self._take_turn()
            try:
                result = self._execute(script, timeout_s, stdin, limit)
            finally:
                self._execs.release()
            status = result.status
        finally:
            self._record(CommandRecord(at, named.name, named.script, time.monotonic() - began, status))
        if not result.began:
            raise self._not_begun(result)
        return result

    def _take_turn(self) -> None:
        """Wait for one of the two command channels; not for ever: logs are read between two commands."""
        if not self._execs.acquire(timeout=TURN_LIMIT_S):
            raise RemoteFailure(
                f"{self.host} has not answered two earlier questions yet.",
                "Slurm or the login node may be busy; labtui asks again by itself.",
                wait=True,
            )

    def _execute(self, script: str, timeout_s: float, stdin: bytes, limit: int) -> CommandResult:
        import paramiko

        transport = self._transport()
        try:
            result = execute(transport, script, timeout_s=timeout_s, stdin=stdin, limit=limit)
        except paramiko.ChannelException as problem:
            raise RemoteFailure(
                f"{self.host} opens no further channel ({problem.text}).",
                "Close other sessions, then try again.",
                wait=True,
            ) from None
        except (paramiko.SSHException, EOFError, OSError) as problem:
            raise lost(problem, self.host) from None
        if result.status is None and not result.truncated and not transport.is_active():
            raise ConnectionLost(f"The connection to {self.host} is gone.", "labtui tries again by itself.")
        return result

    def _not_begun(self, result: CommandResult) -> LabError:
        if result.timed_out:
            return ConnectionLost(
                f"The login shell on {self.host} did not get ready in time.",
                "The login node may be overloaded, or a start-up file (.bashrc) waits for something.",
            )
        said = result.noise.decode("utf-8", "replace").strip().splitlines()
        return RemoteFailure(
            f"The login shell on {self.host} ended before the command.",
            "A start-up file (.bashrc, .profile) exits, or bash is missing."
            + (f" It said: {said[-1][:200]}" if said else ""),
            detail="\n".join(said),
            wait=True,
        )

    def _record(self, record: CommandRecord) -> None:
        if self._on_command is not None:
            self._on_command(record)

    # ----------------------------------------------------------------- files and liveness

    def ping(self, deadline_s: float = 5.0) -> float:
        """Ask for a cheap sign of life; returns the seconds it took.

        Raises:
            ConnectionLost: none within the deadline. The line may still heal; close it after a second miss.
        """
        began = time.monotonic()
        self._with_sftp(lambda sftp: sftp.stat("."), limit_s=deadline_s)
        return time.monotonic() - began

    def _with_sftp(self, work: Callable[[paramiko.SFTPClient], T], limit_s: float = FILE_LIMIT_S) -> T:
        """Run `work` on the SFTP channel; a refusal of the server (OSError) passes through."""
        import paramiko

        try:
            sftp = self._open_sftp(limit_s)
            sftp.get_channel().settimeout(limit_s)  # type: ignore[union-attr]
            return work(sftp)
        except paramiko.SFTPError as problem:
            self._drop_sftp()
            raise self._no_sftp(problem) from None
        except (TimeoutError, EOFError, paramiko.SSHException) as problem:
            self._drop_sftp()
            raise lost(problem, self.host) from None
        except OSError as problem:
            if problem.errno is None and "closed" in str(problem).lower():
                self._drop_sftp()
                raise lost(problem, self.host) from None
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

    def _no_sftp(self, problem: Exception) -> RemoteFailure:
        return RemoteFailure(
            f"{self.host} offers no usable file transfer (SFTP).",
            "A start-up file (.bashrc) that prints text breaks it: make it silent for shells that are not "
            "interactive. Otherwise the site has switched SFTP off.",
            detail=str(problem),
            wait=True,
        )

    def _drop_sftp(self) -> None:
        sftp, self._sftp = self._sftp, None
        channel = sftp.get_channel() if sftp is not None else None
        if channel is not None:
            close_quietly(channel)


def _none_answers(problems: list[tuple[Endpoint, CannotConnect]]) -> CannotConnect:
    if len(problems) == 1:
        return problems[0][1]
    told = "; ".join(problem.sentence.rstrip(".") for _, problem in problems)
    return CannotConnect(f"None of the login hosts can be reached: {told}.", problems[-1][1].hint)
