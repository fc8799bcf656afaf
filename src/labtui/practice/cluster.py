"""The practice cluster as a whole: folder, clock, controller, SSH server, scheduler's heartbeat.

with PracticeCluster.start() as cluster:
    cluster.login   # host, port, user, key file, host key: what a lab folder needs
"""

from __future__ import annotations

import base64
import hashlib
import math
import os
import secrets
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import paramiko

from labtui.errors import UsageError
from labtui.practice.clock import PracticeClock
from labtui.practice.control import ControlServer
from labtui.practice.layout import Layout, make_layout
from labtui.practice.runner import JobRunner, find_bash
from labtui.practice.slurm.call import Answer, Call
from labtui.practice.slurm.commands import answer
from labtui.practice.slurm.controller import Controller
from labtui.practice.slurm.site import Site
from labtui.practice.slurm.texts import stamp
from labtui.practice.sshd import PracticeSSHServer

USER = "nct01000"
ACCOUNT = "nct_000"
DEFAULT_FACTOR = 20.0
"""Cluster seconds per second: the lab's longest run (five epochs on the CPU, 18 minutes) takes under a minute."""

HEARTBEAT_S = 0.2


@dataclass(frozen=True, slots=True)
class Login:
    """How labtui (or any SSH client) gets in."""

    host: str
    port: int
    user: str
    identity_file: Path
    host_key: str
    account: str
    qos: str
    root: str
    data_dir: str
    container: str

    @property
    def settings(self) -> dict[str, Any]:
        """The same as what a `lab.toml` says of it, by its keys; marked as practice."""
        told = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "qos"}
        identity = str(told.pop("identity_file"))
        return {**told, "identity": identity, "profile": "practice", "practice": True}


class PracticeCluster:
    """A running practice cluster. Close it, or use it in a `with`."""

    def __init__(self, folder: Path, *, factor: float, train: bool, keep: bool, seed: int, bash: str) -> None:
        self.layout = Layout(folder)
        self.clock = PracticeClock.started_now(1.0 if train else factor)
        self.train = train
        self.full_until = 0.0
        self._full_for = 0.0
        self._stop = threading.Event()
        secret = secrets.token_urlsafe(24)
        self._control = ControlServer(secrets.token_hex(16), self._answer)
        environment = self._environment(seed)
        make_layout(self.layout, environment, real_data=train)
        self.runner = JobRunner(
            spool=self.layout.spool, environment=environment, ended=self._ended, keep=keep, folder=folder
        )
        site = Site(user=USER, account=ACCOUNT)
        self.controller = Controller(site, self.runner, stamp=lambda moment: stamp(moment, {}, ""))
        self.controller.number_from(1 + _last_job(self.layout.scratch))
        host_key = paramiko.ECDSAKey.generate()
        client_key = paramiko.ECDSAKey.generate()
        self._write_key(client_key)
        self._ssh = PracticeSSHServer(
            host_key=host_key,
            client_key=client_key,
            secret=secret,
            user=USER,
            root=folder,
            home=self.layout.home,
            environment={**environment, "PATH": os.environ.get("PATH", os.defpath)},
            bash=bash,
            disk_full=self._disk_is_full,
        )
        self.secret = secret
        digest = hashlib.sha256(host_key.asbytes()).digest()
        self._fingerprint = "SHA256:" + base64.b64encode(digest).decode().rstrip("=")
        threading.Thread(target=self._beat, name="practice-scheduler", daemon=True).start()

    @classmethod
    def start(
        cls,
        folder: Path | None = None,
        *,
        factor: float = DEFAULT_FACTOR,
        train: bool = False,
        seed: int = 0,
    ) -> PracticeCluster:
        """Start one in `folder` (kept afterwards) or in a folder of its own that goes with it.

        Raises:
            UsageError: there is no bash, which runs the job scripts.
        """
        bash = find_bash()
        if bash is None:
            raise UsageError(
                "The practice cluster runs the job scripts with bash, and this computer has none.",
                "On Windows: install WSL (`wsl --install`) and labtui inside it. Without it, labtui "
                "still drives a real cluster, "
                "and `labtui parse`, `results`, `plot` and `export` work.",
            )
        keep = folder is not None
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="labtui-practice-"))
        folder = Path(os.path.realpath(folder))
        return cls(folder, factor=factor, train=train, keep=keep, seed=seed, bash=bash)

    @property
    def login(self) -> Login:
        """What a lab folder needs to use this cluster."""
        return Login(
            host="127.0.0.1",
            port=self._ssh.port,
            user=USER,
            identity_file=self.layout.keys / "id_practice",
            host_key=self._fingerprint,
            account=ACCOUNT,
            qos="acc_debug",
            root=str(self.layout.scratch / "labtui"),
            data_dir=str(self.layout.data),
            container=str(self.layout.container),
        )

    def __enter__(self) -> PracticeCluster:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End jobs, connections and listeners; the watchdog removes a folder that is not kept."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._ssh.close()
        self._control.close()
        self.runner.close()

    def drop_connections(self) -> None:
        """Cut every SSH connection, as a lost network would."""
        self._ssh.drop_connections()

    def fill_disk(self, seconds: float) -> None:
        """The disk is full from now on, until so many cluster seconds after the first write that it refused."""
        self.full_until, self._full_for = math.inf, seconds

    # ------------------------------------------------------------------ inside

    def _disk_is_full(self) -> bool:
        now = self.clock.now()
        if self.full_until == math.inf:
            self.full_until = now + self._full_for
        return now < self.full_until

    def _environment(self, seed: int) -> dict[str, str]:
        laptop: Mapping[str, str] = {
            name: value
            for name, value in os.environ.items()
            if name in ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
        }
        return {
            **laptop,
            "HOME": str(self.layout.home),
            "USER": USER,
            "LOGNAME": USER,
            "SHELL": "/bin/bash",
            "CIFAR10_DATA": str(self.layout.data),
            "LABTUI_PRACTICE": "yes",
            "LABTUI_PRACTICE_BEGAN": repr(self.clock.began),
            "LABTUI_PRACTICE_FACTOR": repr(self.clock.factor),
            "LABTUI_PRACTICE_SEED": str(seed),
            "LABTUI_PRACTICE_TRAIN": "yes" if self.train else "no",
            "LABTUI_PRACTICE_BIN": str(self.layout.programs),
            "LABTUI_PRACTICE_CONTROL": f"{self._control.port}:{self._control.secret}",
        }

    def _write_key(self, key: paramiko.PKey) -> None:
        target = self.layout.keys / "id_practice"
        target.unlink(missing_ok=True)
        key.write_private_key_file(str(target))
        target.chmod(0o600)

    def _answer(self, program: str, call: Call) -> Answer:
        now = self.clock.now()
        if program == "sbatch" and self._disk_is_full():
            return (
                1,
                "",
                "sbatch: error: Batch job submission failed: I/O error writing script/environment to file\n",
            )
        self.controller.advance(now)
        return answer(program, call, self.controller, now)

    def _ended(self, job_id: int, status: int, number: int) -> None:
        self.controller.ended(job_id, status, number, self.clock.now())

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT_S):
            self.controller.advance(self.clock.now())


def _last_job(scratch: Path) -> int:
    """The highest job number of an earlier practice in this folder, from its logs: no number is given twice."""
    numbers = (path.stem.rsplit(".", 1)[-1] for path in scratch.rglob("*.out"))
    return max((int(number) for number in numbers if number.isascii() and number.isdigit()), default=0)
