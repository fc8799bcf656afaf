"""`Cluster`: start and stop a test cluster, inspect it, and cause trouble in it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from tests.real_cluster import keys
from tests.real_cluster.control import Done, ask, execute
from tests.real_cluster.network import free_subnet
from tests.real_cluster.requirements import missing_requirements
from tests.real_cluster.settings import PORT_NAMES, SSH_DAEMONS, ClusterSettings, free_ports

PROJECT = Path(__file__).resolve().parents[2]
START_DEADLINE_S = 480.0


class ClusterFailed(Exception):
    """The cluster did not start; the message shows what the supervisor and the daemons said."""


class Student(SimpleNamespace):
    """What a student knows: where to log in, with what, and the paths on the cluster. Made by `Cluster.student`.

    Paths named `..._key` are local; `home`, `scratch`, `projects`, `data_dir`, `container` are remote.
    `port` takes key, certificate or password; `code_port` takes the key and then asks for `code`; `pam_port` takes
    what `port` takes and then asks PAM whether account and password are still valid.
    """

    @property
    def options(self) -> list[str]:
        """The options that tell labtui's commands where and how to log in."""
        values = {"host": self.host, "port": self.port, "user": self.user, "identity": self.key}
        return [f"--{name}={value}" for name, value in (values | {"host-key": self.host_key}).items()]


class Cluster:
    """A running cluster in `folder`; made by `Cluster.start` or `Cluster.attach`."""

    def __init__(
        self, folder: Path, settings: ClusterSettings, process: subprocess.Popen[bytes] | None
    ) -> None:
        self.folder = folder
        self.settings = settings
        self._process = process
        self._pipe: int | None = None
        self._temporary = False

    # ---------------------------------------------------------------- life

    @classmethod
    def start(
        cls, folder: Path | None = None, settings: ClusterSettings | None = None, *, detached: bool = False
    ) -> Cluster:
        """Start a cluster; returns when all nodes take jobs (some seconds).

        Without `folder` it lives in a temporary one, removed by `down`. It ends with this process,
        however that ends, unless `detached`.
        """
        reasons = missing_requirements(separate_nodes=bool(settings and settings.separate_nodes))
        if reasons:
            raise ClusterFailed("; ".join(reasons))
        temporary = folder is None
        folder = Path(tempfile.mkdtemp(prefix="labtui-cluster-")) if folder is None else folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        if (folder / "settings.json").exists():
            raise ClusterFailed(f"{folder} holds a cluster already: end it first with `down`")
        settings = settings or ClusterSettings()
        settings.ports = dict(zip(PORT_NAMES, free_ports(len(PORT_NAMES)), strict=True))
        settings.subnet = free_subnet() if settings.separate_nodes else ""
        settings.python = settings.python or sys.executable
        keys.make_keys(folder / "keys", settings)
        settings.save(folder / "settings.json")
        cluster = cls(folder, settings, None)
        cluster._temporary = temporary
        cluster._launch(detached=detached)
        return cluster

    @classmethod
    def attach(cls, folder: Path) -> Cluster:
        folder = folder.resolve()
        if not (folder / "settings.json").exists():
            raise ClusterFailed(f"no cluster in {folder}")
        return cls(folder, ClusterSettings.load(folder / "settings.json"), None)

    def _launch(self, *, detached: bool) -> None:
        command = ["unshare", "--pid", "--fork", "--kill-child=KILL", "--mount", "--uts", "--ipc"]
        command += [sys.executable, "-m", "tests.real_cluster.supervisor", str(self.folder)]
        passed: tuple[int, ...] = ()
        if not detached:
            read_end, self._pipe = os.pipe()
            os.set_inheritable(read_end, True)
            passed = (read_end,)
            command += ["--watch", str(read_end)]
        with (self.folder / "supervisor.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=passed,
                start_new_session=True, env=os.environ | {"PYTHONPATH": str(PROJECT)},
            )  # fmt: skip
        for descriptor in passed:
            os.close(descriptor)
        (self.folder / "pid").write_text(f"{self._process.pid}\n")
        self._await_ready()

    def _await_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_DEADLINE_S
        while not (self.folder / "ready").exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                output = "".join(
                    path.read_text(errors="replace")
                    for path in (self.folder / "failed", self.folder / "supervisor.log")
                    if path.exists()
                )
                self._end_processes()
                raise ClusterFailed(f"the cluster did not start:\n{output}")
            time.sleep(0.02)

    def down(self) -> None:
        self._end_processes()
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
        if mounted_below(self.folder):
            raise ClusterFailed(f"something is still mounted below {self.folder}: nothing was removed")
        for name in ("root", "var", "home", "gpfs", "tmp", "keys"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        for name in ("settings.json", "ready", "failed", "pid", "control.sock", "supervisor.log"):
            (self.folder / name).unlink(missing_ok=True)
        if self._temporary:
            with contextlib.suppress(OSError):
                self.folder.rmdir()

    def _end_processes(self) -> None:
        pid = self.pid
        if pid is None:
            return
        child = self._inner_pid(pid)
        for victim in (child, pid):
            if victim is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        wait_until(lambda: child is None or not Path(f"/proc/{child}").exists(), what="the namespace to end")

    @property
    def pid(self) -> int | None:
        """The outer process (``unshare``) that holds the cluster, if it runs."""
        try:
            pid = int((self.folder / "pid").read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if str(self.folder).encode() in command.split(b"\0") else None

    @staticmethod
    def _inner_pid(pid: int) -> int | None:
        try:
            return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        except (OSError, IndexError):
            return None

    # ---------------------------------------------------------------- inspecting

    @property
    def student(self) -> Student:
        """How the student logs in, with the host key as it is now."""
        chosen = self.settings
        folder = self.folder / "keys"
        return Student(
            host=chosen.address, port=chosen.ports["ssh"], code_port=chosen.ports["ssh_code"],
            pam_port=chosen.ports["ssh_pam"], user=chosen.user,
            key=folder / "id_ed25519", encrypted_key=folder / "id_encrypted", passphrase=chosen.passphrase,
            certified_key=folder / "id_certified", stranger_key=folder / "id_stranger",
            password=chosen.password, code=chosen.code, account=chosen.account,
            host_key=keys.fingerprint(folder / "test_host_ed25519.pub"),
            cpu_qos="gp_debug", gpu_qos="acc_debug", home=chosen.home, scratch=chosen.scratch,
            data_dir=chosen.data_dir, container=chosen.container,
        )  # fmt: skip

    def outside(self, path: str) -> Path:
        """A path inside the cluster as this process can open it (follows mounts made inside)."""
        pid = self.pid
        inner = self._inner_pid(pid) if pid is not None else None
        if inner is None:
            raise ClusterFailed("the cluster does not run")
        return Path(f"/proc/{inner}/root{self.folder}/root/{path.lstrip('/')}")

    def as_student(self, command: str, *, stdin: bytes = b"", timeout_s: float = 240.0) -> Done:
        """Run a shell command as the student in a login shell, without SSH and without labtui."""
        quiet = f"exec 3>&1 4>&2 >/dev/null 2>&1; . /etc/profile; exec >&3 2>&4; {command}"
        return execute(
            self.folder, ["bash", "-c", quiet], user=self.settings.user, stdin=stdin, timeout_s=timeout_s,
            cwd=self.settings.home,
        )  # fmt: skip

    def as_root(self, *argv: str, timeout_s: float = 240.0) -> Done:
        """Run a program as root inside, for instance ``scontrol`` or ``sacctmgr -i``."""
        return execute(self.folder, list(argv), user="root", timeout_s=timeout_s)

    def student_requests(self) -> int:
        """How many requests slurmctld has served so far for the student (`sdiag`)."""
        text = self.as_root("sdiag").out.split("Remote Procedure Call statistics by user", 1)[1]
        found = re.search(rf"^\s*{self.settings.user}\s*\(\s*\d+\)\s+count:(\d+)", text, re.MULTILINE)
        return int(found[1]) if found else 0

    def jobs(self) -> dict[str, str]:
        lines = self.as_root("squeue", "-h", "-r", "-t", "all", "-o", "%i %T").out.splitlines()
        return dict(line.split() for line in lines)

    def jobs_by_token(self) -> dict[str, list[str]]:
        """The job ids of each of labtui's submissions, by the comment in accounting, which only sbatch writes."""
        jobs: dict[str, list[str]] = {}
        ask = ("sacct", "-a", "-X", "-n", "-P", "-S", "2020-01-01", "-o", "JobIDRaw,Comment")
        for line in self.as_root(*ask).out.splitlines():
            job_id, _, comment = line.partition("|")
            jobs.setdefault(comment.removeprefix("labtui:"), []).append(job_id)
        return jobs

    def cancel_all(self) -> None:
        self.as_root("scancel", "--user", self.settings.user)
        alive = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED")
        wait_until(
            lambda: not any(state in alive for state in self.jobs().values()), what="the queue to be empty"
        )

    # ---------------------------------------------------------------- causing trouble

    def daemon(self, name: str, action: str) -> None:
        """``start|stop|pause|resume`` munged, mariadb, slurmdbd, slurmctld, slurmd_1, ssh, ssh_code, ssh_pam."""
        ask(self.folder, "daemon", name=name, action=action)

    def lose_node(self, index: int) -> None:
        """Kill every process of a node at once, as in a power failure; only for clusters with separate nodes.

        Slurm would notice after SlurmdTimeout; here it is told at once.
        """
        ask(self.folder, "lose_node", index=index)
        name = self.settings.nodes[index - 1].name
        self.as_root("scontrol", "update", f"nodename={name}", "state=down", "reason=lost")

    def change_host_keys(self) -> None:
        """Give the login node new host keys; open connections are not affected."""
        keys.replace_host_keys(self.folder / "keys")
        for name in ("test_host_ed25519", "test_host_ecdsa"):
            self.outside(f"/etc/ssh/{name}").write_bytes((self.folder / "keys" / name).read_bytes())
        for name in SSH_DAEMONS:
            self.daemon(name, "stop")
            self.daemon(name, "start")

    def repair(self) -> None:
        """Undo all trouble: daemons up and running, disks restored, the usual login noise, no ``~/.bashrc``.

        Returns when all nodes answer: until then, a restarted controller refuses every job.
        """
        ask(self.folder, "repair")
        for node in self.settings.nodes if self.settings.separate_nodes else ():
            command = ("scontrol", "update", f"nodename={node.name}", "state=resume")
            self.as_root(*command)  # refused where it is up
        self.set_account()
        self.set_nologin(None)
        wait_until(self._nodes_answer, what="all nodes to answer")

    def _nodes_answer(self) -> bool:
        states = self.as_root("sinfo", "-h", "-N", "-o", "%T").out.split()
        gone = ("down", "unk", "drain", "inval", "fail")
        return bool(states) and not any(state.endswith("*") or state.startswith(gone) for state in states)

    def set_account(self, *, expired: bool = False, must_change_password: bool = False) -> None:
        """Set what PAM says on `pam_port` about the student's account: expired since 1970, or a password to change."""
        path = self.outside("/etc/shadow")
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            fields = line.split(":")
            if fields[0] == self.settings.user:
                fields[2] = "0" if must_change_password else "20000"
                fields[7] = "1" if expired else ""
                lines[number] = ":".join(fields)
        path.write_text("\n".join(lines) + "\n")

    def set_nologin(self, text: str | None) -> None:
        """Close logins on `pam_port` with this message, as for maintenance; None opens them."""
        self._put("/etc/nologin", text)

    def _put(self, name: str, text: str | None) -> None:
        """Write a file inside the cluster; None removes it."""
        path = self.outside(name)
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(text)

    def limit_disk(self, path: str, size: str) -> None:
        """Mount an empty disk of `size` (``256k``), owned by the student, over `path` until `repair`."""
        ask(self.folder, "limit", path=path, size=size)

    def set_login_noise(self, text: str | None) -> None:
        """Set the shell lines that run at every login (None: no noise)."""
        self._put("/etc/profile.d/noise.sh", text)

    def wrap_program(self, name: str, body: str | None) -> None:
        """Put a bash script before a program in the student's PATH, like a site's wrapper; None removes it.

        The script finds the real program in /usr/bin. A new version replaces the one before it atomically.
        """
        place = self.outside(f"{self.settings.home}/bin")
        place.mkdir(exist_ok=True)
        if body is None:
            (place / name).unlink(missing_ok=True)
            return
        (place / f"{name}.new").write_text(f"#!/bin/bash\n{body}\n")
        (place / f"{name}.new").chmod(0o755)
        (place / f"{name}.new").replace(place / name)
        self.set_login_noise('export PATH="$HOME/bin:$PATH"\n')

    def set_bashrc(self, text: str) -> None:
        self.outside(f"{self.settings.home}/.bashrc").write_text(text)


def wait_until(condition: Callable[[], bool], *, what: str, deadline_s: float = 240.0) -> None:
    """Wait until the condition holds. Raises TimeoutError with `what`.

    The pauses grow, since a check may start a program in the cluster: twenty a second would keep half a core busy.
    """
    deadline, pause_s = time.monotonic() + deadline_s, 0.02
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {deadline_s:.0f} s for {what}")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.3)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
        return not sys.platform.startswith("linux") or _state(pid) != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def mounted_below(folder: Path) -> bool:
    """Whether this process sees a mount at or below `folder`; if so, nothing there may be removed."""
    prefix = str(folder.resolve())
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return any(point == prefix or point.startswith(prefix + "/") for point in points)
