"""Starting, stopping, freezing the daemons inside a cluster. Runs in the supervisor."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.real_cluster import configs
from tests.real_cluster.network import Network
from tests.real_cluster.requirements import SEARCH_PATH
from tests.real_cluster.settings import SSH_DAEMONS, ClusterSettings

START_DEADLINE_S = 240.0
ENVIRONMENT = {
    "PATH": SEARCH_PATH + ":/apps/driver/bin", "LANG": "C.UTF-8", "HOME": "/root", "SHELL": "/bin/bash",
}  # fmt: skip


class NotReady(Exception):
    """A daemon did not come up; the message says which and shows the end of its log."""


class Daemons:
    """The cluster's daemons by name: munged, mariadb, slurmdbd, slurmctld, slurmd_1.., ssh, ssh_code."""

    def __init__(self, root: Path, settings: ClusterSettings, network: Network | None = None) -> None:
        self.root = root
        self.network = network
        self.settings = settings
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.commands = self._command_lines()

    def _command_lines(self) -> dict[str, list[str]]:
        ports = self.settings.ports
        commands = {
            "munged": [
                "setpriv", "--reuid", "munge", "--regid", "munge", "--clear-groups",
                "munged", "--foreground", "--num-threads=2",
            ],
            "mariadb": [
                "mariadbd", "--no-defaults", "--user=mysql", "--datadir=/var/lib/mysql",
                "--socket=/run/mysqld/mysqld.sock", f"--port={ports['mariadb']}", "--bind-address=127.0.0.1",
                "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M",
                "--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=900",
                "--performance-schema=OFF", "--skip-log-bin",
            ],
            "slurmdbd": ["slurmdbd", "-D"],
            "slurmctld": ["slurmctld", "-D", "-i"],
            "ssh": ["/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/sshd_main"],
            "ssh_code": ["/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/sshd_code"],
            "ssh_pam": ["/apps/sbin/sshd-pam", "-D", "-e", "-f", "/etc/ssh/sshd_pam"],
        }  # fmt: skip
        for index, node in enumerate(self.settings.nodes, start=1):
            commands[f"slurmd_{index}"] = ["slurmd", "-D", "-N", node.name]
        return commands

    # ---------------------------------------------------------------- one daemon

    def start(self, name: str) -> None:
        if self.alive(name):
            return
        log = (self.root / "var/log" / f"start-{name}.log").open("ab")
        words = ["chroot", str(self.root), *self.commands[name]]
        if self.network is not None and name.startswith("slurmd_"):
            words = self.network.command(_number(name), words)
        self.processes[name] = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=ENVIRONMENT, start_new_session=True,
        )  # fmt: skip
        log.close()
        self._wait(name, lambda: self._answers(name))

    def stop(self, name: str, *, how: signal.Signals = signal.SIGTERM) -> None:
        process = self.processes.get(name)
        if process is None or process.poll() is not None:
            return
        if how is not signal.SIGKILL:
            os.kill(process.pid, signal.SIGCONT)
        os.kill(process.pid, how)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal, for instance SIGSTOP to freeze it."""
        os.kill(self.processes[name].pid, number)

    def alive(self, name: str) -> bool:
        process = self.processes.get(name)
        return process is not None and process.poll() is None

    def _answers(self, name: str) -> bool:
        if name == "munged":
            return (self.root / "run/munge/munge.socket.2").exists()
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex((self._address(name), self.settings.ports[name])) == 0

    def _address(self, name: str) -> str:
        if name.startswith("slurmd_"):
            return self.settings.address_of(_number(name))
        return self.settings.address if name.startswith(("ssh", "slurmctld")) else "127.0.0.1"

    def _wait(self, name: str, ready) -> None:
        deadline = time.monotonic() + START_DEADLINE_S
        while not ready():
            if not self.alive(name) or time.monotonic() > deadline:
                raise NotReady(f"{name} did not come up:\n{self.log_tail(name)}")
            time.sleep(0.02)

    def log_tail(self, name: str) -> str:
        texts = []
        for path in sorted((self.root / "var/log").glob(f"*{name.split('_', maxsplit=1)[0]}*")):
            if path.is_file():
                texts.append(
                    f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-15:])
                )
        return "\n".join(texts)

    # ---------------------------------------------------------------- all of them

    def run(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["chroot", str(self.root), *argv], capture_output=True, text=True, check=False, env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if check and done.returncode:
            raise NotReady(f"{' '.join(argv)}: {done.stderr.strip() or done.stdout.strip()}")
        return done

    def start_all(self) -> None:
        self._install_database()
        for name in ("munged", "mariadb", *SSH_DAEMONS, "slurmdbd"):
            self.start(name)
        for command in configs.account_commands(self.settings):
            self.run("sacctmgr", "-i", *command)
        self.start("slurmctld")
        for index in range(1, len(self.settings.nodes) + 1):
            self.start(f"slurmd_{index}")
        self._wait("slurmctld", self.nodes_ready)

    def nodes_ready(self) -> bool:
        states = self.run("sinfo", "-h", "-N", "-o", "%N %T", check=False).stdout.split()[1::2]
        good = ("idle", "allocated", "mixed")
        return len(states) >= len(self.settings.nodes) and all(state in good for state in states)

    def _install_database(self) -> None:
        if (self.root / "var/lib/mysql/mysql").exists():
            return
        self.run(
            "mariadb-install-db", "--no-defaults", "--datadir=/var/lib/mysql", "--user=mysql",
            "--skip-test-db", "--auth-root-authentication-method=normal", "--innodb-log-file-size=8M",
        )  # fmt: skip


def _number(name: str) -> int:
    return int(name.rpartition("_")[2])
