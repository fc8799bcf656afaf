"""One SSH connection: connect, ask, run a command, push, ping, files, close.

Everything blocks, has a deadline and raises `LabError`s. One thread (the worker) connects and transfers files; `ask`
and `run` may also be called from others, and `close` from any, to unblock them. There is one SFTP channel and at most
two exec channels at a time, and one more to learn why SFTP was refused (sshd allows ten channels by default).

Both streams of a command are read in one loop, because a full window on an unread stream would block the other one,
with a deadline and a limit on bytes. The answer ends at the frame's marker, not at the end of the streams: a background
program started by a start-up file can keep those open indefinitely.
"""

import contextlib
import re
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

import paramiko
from msgspec.structs import replace

from labtui.cluster.dial import SshChain, dial, lost_error
from labtui.cluster.files import MAX_PACKET, WINDOW, PushFile, RemoteFiles, plan_push, put_files, store_of
from labtui.cluster.keys import within
from labtui.cluster.login import RememberedLogins, refusal_in
from labtui.cluster.target import Endpoint, Prompter
from labtui.domain.errors import CannotConnect, LabError, failure
from labtui.slurm.remote_command import Call, CommandResult, T, cut_frame, frame

OUTPUT_CAP = 8 << 20
COMMAND_LIMIT_S = 60.0
TURN_LIMIT_S = 10.0
"""How long a command waits while two others are running."""
FILE_LIMIT_S = 30.0
PUSH_BATCH = 200
"""The most files in one command of a push."""


class Connection:
    """A connection to the first of `hosts` that can be reached; `endpoint` is the current or last one.

    `offline_hint` replaces the hint of errors in connecting.
    """

    def __init__(
        self, hosts: Sequence[Endpoint], prompter: Prompter | None = None, offline_hint: str = ""
    ) -> None:
        self.hosts, self.endpoint = tuple(hosts), hosts[0]
        self._offline_hint = offline_hint
        self.files = RemoteFiles(self._sftp_channel)
        self._prompter = prompter or (lambda _question: None)
        self._memory = RememberedLogins()
        self._chain: SshChain | None = None
        self._sftp: paramiko.SFTPClient | None = None
        self._execs = threading.BoundedSemaphore(2)
        self._closing = threading.Lock()

    # ----------------------------------------------------------------- connecting

    @property
    def connected(self) -> bool:
        """Whether the transport is open. A frozen connection looks connected; use `ping` to test it."""
        chain = self._chain
        return chain is not None and chain.transport.is_active() and chain.transport.is_authenticated()

    @property
    def host(self) -> str:
        """The current or last host; before the first connection, the first of `hosts`."""
        return self.endpoint.host

    @property
    def methods(self) -> tuple[str, ...]:
        """The accepted login methods, such as ``publickey``."""
        return self._chain.methods if self._chain else ()

    def connect(self) -> None:
        """Connect and log in; the hosts are tried in turn, the last successful one first.

        Raises:
            CannotConnect: none of the hosts can be reached.
            LoginRefused, HostKeyProblem: do not retry without the student.
        """
        if self.connected:
            return
        self.close()
        problems: list[CannotConnect] = []
        for endpoint in sorted(self.hosts, key=lambda each: each != self.endpoint):
            try:
                self._chain, self.endpoint = dial(endpoint, self._prompter, self._memory), endpoint
                return
            except CannotConnect as problem:
                problems.append(problem)
        last, reasons = problems[-1], {problem.reason for problem in problems}
        sentences = "; ".join(problem.sentence.rstrip(".") for problem in problems)
        said = f"None of the login hosts can be reached: {sentences}." if problems[1:] else last.sentence
        reason = last.reason if len(reasons) == 1 else ""
        raise CannotConnect(said, self._offline_hint or last.hint, reason=reason)

    def close(self) -> None:
        """Close at once, even during a call; safe from any thread and if not connected."""
        with self._closing:
            chain, self._chain, self._sftp = self._chain, None, None
        if chain is not None:
            chain.close()

    def _transport(self) -> paramiko.Transport:
        if (chain := self._chain) is None or not chain.transport.is_active():
            raise failure("no-connection", host=self.host)
        return chain.transport

    # ----------------------------------------------------------------- commands

    def ask(self, call: Call[T]) -> T:
        """Ask one question and read its answer.

        Raises:
            ConnectionLost, RemoteFailure: as `run`; and what the reader of the answer raises.
        """
        nonce = secrets.token_hex(8)
        return call.answer(self.run(call.text(nonce), timeout_s=call.limit_s), nonce)

    def push(self, files: Mapping[str, bytes], remote_dir: str) -> None:
        """Put `files` (relative paths) into `remote_dir`; each is renamed into place when complete.

        Contents that the cluster has from any submission are not sent again.

        Raises:
            RemoteFailure: no space, no permission.
            ConnectionLost: the connection broke; pushing again sends only what is missing.
        """
        plan = plan_push(files)

        def missing(wanted: Sequence[PushFile]) -> list[PushFile]:
            # once also without any file: it makes the folder
            parts = (wanted[at : at + PUSH_BATCH] for at in range(0, max(1, len(wanted)), PUSH_BATCH))
            return [file for part in parts for file in self.ask(put_files(remote_dir, part))]

        needed = missing(plan)
        for digest, data in {file.digest: file.data for file in needed}.items():
            self.files.write_atomic(f"{store_of(remote_dir)}/{digest}", data, 0o600)
        if needed and missing(needed):
            raise failure("push-missing", wait=True)

    def run(self, script: str, *, timeout_s: float = COMMAND_LIMIT_S) -> CommandResult:
        """Run a shell script in a login shell. `status` is None if it is unknown how it ended (see `CommandResult`).

        Raises:
            ConnectionLost: the connection broke or does not answer; the command may or may not have run.
            RemoteFailure: the login shell did not start the command, or two others were still running.
        """
        # With a limit, because logs are read between two commands.
        if not self._execs.acquire(timeout=TURN_LIMIT_S):
            raise failure("no-turn", host=self.host, wait=True)
        try:
            result = self._execute(script, timeout_s)
        finally:
            self._execs.release()
        if not result.began:
            raise self._start_error(result)
        return result

    def _execute(self, script: str, timeout_s: float) -> CommandResult:
        """Run `script`; the result's status is None if it is unknown how it ended."""
        transport, deadline, marker = self._transport(), time.monotonic() + timeout_s, secrets.token_hex(16)
        begin_s = min(timeout_s, BEGIN_LIMIT_S)

        def begin() -> paramiko.Channel:
            channel = transport.open_session(timeout=begin_s)
            channel.exec_command(frame(script, marker))
            return channel

        try:
            with contextlib.closing(within(begin_s, begin)) as channel:
                out, err, timed_out = _read_both(channel, marker, deadline)
        except paramiko.ChannelException as problem:
            raise failure("no-channel", host=self.host, text=problem.text, wait=True) from None
        except (paramiko.SSHException, EOFError, OSError) as problem:
            raise lost_error(problem, self.host) from None
        truncated = len(out) + len(err) > OUTPUT_CAP
        result, remarks = cut_frame(bytes(out), marker), cut_frame(bytes(err), marker)
        if result.status is None and not truncated and not transport.is_active():
            raise failure("lost", host=self.host)
        if truncated:
            result = replace(result, status=None)
        return replace(result, stderr=remarks.stdout, noise=result.noise + remarks.noise, timed_out=timed_out)

    def _start_error(self, result: CommandResult) -> LabError:
        if result.timed_out:
            return failure("shell-late", host=self.host)
        noise = result.noise.decode("utf-8", "replace").strip()
        if (refusal := refusal_in(noise, self.endpoint)) is not None:
            return refusal
        last = f"Output: {noise.splitlines()[-1][:200]}" if noise else ""
        return failure("no-shell", host=self.host, text=last, wait=True)

    # ----------------------------------------------------------------- files and liveness

    def ping(self, deadline_s: float) -> float:
        """Test the connection with a cheap request; return the seconds it took.

        Raises:
            ConnectionLost: no answer within the deadline. The connection may recover; close it after a second failure.
        """
        began = time.monotonic()
        with self._sftp_channel(deadline_s) as sftp:
            sftp.stat(".")
        return time.monotonic() - began

    @contextlib.contextmanager
    def _sftp_channel(self, limit_s: float = FILE_LIMIT_S) -> Iterator[paramiko.SFTPClient]:
        """The SFTP channel with a time limit for each answer. The server's refusals (OSError) are passed on."""
        new = self._sftp is None
        try:
            sftp = self._sftp or self._open_sftp(limit_s)
            sftp.get_channel().settimeout(limit_s)  # type: ignore[union-attr]
            yield sftp
        except paramiko.SFTPError:
            self._drop_sftp()
            raise self._sftp_error() from None
        except (TimeoutError, EOFError, paramiko.SSHException) as problem:
            self._drop_sftp()
            raise lost_error(problem, self.host) from None
        except OSError as problem:
            if problem.errno is None and "closed" in str(problem).lower():
                self._drop_sftp()
                never = new and self.connected  # only its channel is missing
                raise (self._sftp_error() if never else lost_error(problem, self.host)) from None
            raise

    def _open_sftp(self, limit_s: float) -> paramiko.SFTPClient:
        transport = self._transport()
        try:
            self._sftp = within(
                limit_s, lambda: paramiko.SFTPClient.from_transport(transport, WINDOW, MAX_PACKET)
            )
        except (paramiko.SSHException, EOFError):
            if not transport.is_active():
                raise
            raise self._sftp_error() from None
        if self._sftp is None:
            raise EOFError
        return self._sftp

    def _sftp_error(self) -> LabError:
        """The error for a failed SFTP channel."""
        return self._find_refusal() or failure("no-sftp", host=self.host, wait=True)

    def _find_refusal(self) -> LabError | None:
        """The server's refusal of all logins, if any: it is printed to commands, while SFTP channels just close."""
        with contextlib.suppress(LabError):
            result = self._execute("true", FILE_LIMIT_S)
            if not result.began:
                return refusal_in(result.noise.decode("utf-8", "replace"), self.endpoint)
        return None

    def _drop_sftp(self) -> None:
        sftp, self._sftp = self._sftp, None
        channel = sftp.get_channel() if sftp is not None else None
        if channel is not None:
            # On a dead connection the closing message cannot be sent.
            with contextlib.suppress(EOFError, OSError, paramiko.SSHException):
                channel.close()


CHUNK = 65536
BEGIN_LIMIT_S = 15.0
WAIT_S = 0.05
"""How long to wait for standard output before checking standard error."""


def _read_both(channel: paramiko.Channel, marker: str, deadline: float) -> tuple[bytearray, bytearray, bool]:
    """Read both streams up to their end markers or the byte limit; also return whether the deadline passed first."""
    streams, seen = (bytearray(), bytearray()), [False, False]
    end = re.compile(rb"\n" + marker.encode() + rb"> [0-9]{1,3}\n")

    def take(which: int, data: bytes) -> None:
        start = max(0, len(streams[which]) - 64)
        streams[which].extend(data)
        seen[which] = seen[which] or end.search(streams[which], start) is not None

    channel.settimeout(WAIT_S)
    over = False
    while not (all(seen) or over or sum(map(len, streams)) > OUTPUT_CAP):
        if time.monotonic() >= deadline:
            return *streams, True
        with contextlib.suppress(TimeoutError):
            data = channel.recv(CHUNK)
            over = not data
            take(0, data)
        # Standard error may go on after the end of standard output.
        with contextlib.suppress(TimeoutError):
            while not seen[1] and (over or channel.recv_stderr_ready()):
                data = channel.recv_stderr(CHUNK)
                take(1, data)
                if not data:
                    break
    return *streams, False
