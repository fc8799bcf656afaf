"""The clusters the contract tests run on, behind one small interface: a shell over SSH, and SFTP.

A new kind of cluster is added here and nowhere else: a function that yields a `Site`, and its id in `SITES`.
"""

import secrets
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import paramiko

from labtui.practice.cluster import PracticeCluster


@dataclass(frozen=True)
class Answer:
    """What a remote command left. `status` is None when the server sent none."""

    status: int | None
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        return self.stdout.decode(errors="replace").rstrip("\n")

    @property
    def err(self) -> str:
        return self.stderr.decode(errors="replace").rstrip("\n")


@dataclass
class Site:
    """A cluster as a logged-in student sees it.

    `scratch` is a directory the student may write in; `data_dir` and `container` are the lab's files there;
    `real` says whether this is Slurm itself. `client` is an open paramiko SSH client.
    """

    name: str
    client: paramiko.SSHClient
    user: str
    account: str
    scratch: str
    data_dir: str
    container: str
    real: bool
    cpu_qos: str = "gp_training"
    gpu_qos: str = "acc_training"
    debug_qos: str = "acc_debug"
    gpu_partition: str = "acc"
    cpu_partition: str = "gpp"
    cpus_per_node: int = 80
    gpus_per_node: int = 4

    def raw(self, command: str, *, stdin: bytes = b"", timeout_s: float = 240.0) -> Answer:
        """The command as sshd runs it: by the student's shell, not a login shell."""
        transport = self.client.get_transport()
        assert transport is not None
        channel = transport.open_session(timeout=120)
        channel.settimeout(timeout_s)
        channel.exec_command(command)
        errors: list[bytes] = []
        reader = threading.Thread(target=lambda: errors.append(_read_all(channel.recv_stderr)))
        reader.start()
        channel.sendall(stdin)
        channel.shutdown_write()
        out = _read_all(channel.recv)
        reader.join()
        status = channel.recv_exit_status()
        channel.close()
        return Answer(None if status == -1 else status, out, b"".join(errors))

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 240.0) -> Answer:
        """The command in a login shell, what the shell printed before it taken off."""
        mark = secrets.token_hex(8)
        script = f"printf '%s\\n' {mark}; printf '%s\\n' {mark} >&2; {command}"
        answer = self.raw(f"bash -lc {shlex.quote(script)}", stdin=stdin, timeout_s=timeout_s)
        line = f"{mark}\n".encode()
        return Answer(answer.status, answer.stdout.partition(line)[2], answer.stderr.partition(line)[2])

    def sftp(self) -> paramiko.SFTPClient:
        return self.client.open_sftp()

    def write(self, path: str, data: bytes) -> None:
        done = self.run(
            f"mkdir -p {shlex.quote(str(Path(path).parent))} && cat > {shlex.quote(path)}", stdin=data
        )
        assert done.status == 0, done.err


def _read_all(receive: Callable[[int], bytes]) -> bytes:
    pieces = []
    while piece := receive(65_536):
        pieces.append(piece)
    return b"".join(pieces)


def connect(host: str, port: int, user: str, *, key: Path | None = None, password: str | None = None,
            ) -> paramiko.SSHClient:  # fmt: skip
    """A paramiko client for a server on this machine whose host key nobody has written down."""
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.WarningPolicy())
    client.connect(
        host, port, user, key_filename=None if key is None else str(key), password=password,
        look_for_keys=False, allow_agent=False, timeout=120,
    )  # fmt: skip
    return client


@contextmanager
def real_site(cluster: object) -> Iterator[Site]:
    """OpenSSH and Slurm as `tests.real_cluster` started them."""
    from tests.real_cluster import Cluster

    assert isinstance(cluster, Cluster)
    me = cluster.student
    client = connect(me.host, me.port, me.user, key=me.key)
    try:
        yield Site(
            name="real", client=client, user=me.user, account=me.account, scratch=me.scratch,
            data_dir=me.data_dir, container=me.container, real=True,
        )  # fmt: skip
    finally:
        client.close()


@contextmanager
def practice_site(folder: Path) -> Iterator[Site]:
    """The practice cluster in this process, its files in `folder`, its clock five times as fast."""
    with PracticeCluster(folder, factor=5.0) as running:
        me = running.login
        client = connect(me.host, me.port, me.user, key=me.identity_file)
        try:
            yield Site(
                name="practice", client=client, user=me.user, account=me.account,
                scratch=str(me.layout.scratch), data_dir=str(me.layout.data),
                container=str(me.layout.container), real=False,
            )  # fmt: skip
        finally:
            client.close()
