"""The clusters the contract tests run on, behind one small interface: a shell over SSH, and SFTP.

A new kind of cluster is added here and nowhere else: a function that yields a `Site`, and its id in `SITES`.
"""

import secrets
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import paramiko

from labtui.practice.cluster import PracticeCluster
from tests.real_cluster import Cluster


@dataclass(frozen=True)
class Answer:
    """The result of a remote command. `status` is None if the server sent none."""

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
    """A cluster as a logged-in student sees it, through an open paramiko SSH client.

    `scratch` is a directory the student may write in; `container` is the lab's file there.
    """

    client: paramiko.SSHClient
    user: str
    account: str
    scratch: str
    container: str
    cpu_qos: str = "gp_training"
    gpu_qos: str = "acc_training"
    debug_qos: str = "acc_debug"
    gpu_partition: str = "acc"
    cpu_partition: str = "gpp"
    cpus_per_node: int = 80
    gpus_per_node: int = 4

    def raw(self, command: str, *, stdin: bytes = b"", timeout_s: float = 240.0) -> Answer:
        """Run a command as sshd does: in the student's shell, not a login shell."""
        given, out, err = self.client.exec_command(command, timeout=timeout_s)
        with ThreadPoolExecutor(1) as pool, given.channel as channel:
            errors = pool.submit(err.read)
            given.write(stdin)
            channel.shutdown_write()
            answer = out.read()
            status = channel.recv_exit_status()
            return Answer(None if status == -1 else status, answer, errors.result())

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 240.0) -> Answer:
        """Run a command in a login shell, and drop what the shell printed before it."""
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


def connect(host: str, port: int, user: str, key: Path) -> paramiko.SSHClient:
    """A paramiko client for a server on this machine, whose host key is not checked."""
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.WarningPolicy())
    only_this = {"key_filename": str(key), "look_for_keys": False, "allow_agent": False}
    client.connect(host, port, user, timeout=120, **only_this)  # type: ignore[arg-type]
    return client


@contextmanager
def real_site(cluster: Cluster) -> Iterator[Site]:
    """OpenSSH and Slurm as `tests.real_cluster` started them."""
    me = cluster.student
    with connect(me.host, me.port, me.user, me.key) as client:
        yield Site(client, me.user, me.account, me.scratch, me.container)


@contextmanager
def practice_site(folder: Path) -> Iterator[Site]:
    """The practice cluster in this process, its files in `folder`, its clock five times as fast."""
    with PracticeCluster(folder, factor=5.0) as running:
        me, places = running.settings(), running.layout
        with connect(me["host"], me["port"], me["user"], places.identity) as client:
            yield Site(client, me["user"], me["account"], str(places.scratch), str(places.container))
