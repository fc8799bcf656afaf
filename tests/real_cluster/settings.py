"""The settings of a test cluster: names, limits, ports. Written to ``DIR/settings.json``."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.real_cluster.sites import SiteName

SSH_DAEMONS = ("ssh", "ssh_code", "ssh_pam")
PORT_NAMES = (*SSH_DAEMONS, "mariadb", "slurmdbd", "slurmctld", "slurmd_1", "slurmd_2", "slurmd_3")


@dataclass(frozen=True)
class Node:
    """A simulated node with `gpus` H100s and `cpus` CPUs, which the machine need not have."""

    name: str
    partition: str
    cpus: int
    gpus: int


@dataclass
class ClusterSettings:
    """Choices of one cluster. `site` names a set-up of `tests.real_cluster.sites`.

    `min_job_age_s` is how long Slurm remembers a finished job (its own default is 300).
    `base_root` is the file system the programs come from: ``/`` or a debootstrap tree with another Slurm (the
    environment variable ``LABTUI_TEST_CLUSTER_ROOT`` says which when nothing else does).
    `separate_nodes` gives each node a network namespace with a host name and an address of its own; `subnet` holds the
    first three numbers of all their addresses. Without it everything is on 127.0.0.1.
    """

    site: SiteName = "marenostrum"
    user: str = "nct01000"
    account: str = "nct_000"
    password: str = "Rehearsal-2026"
    passphrase: str = "three blind mice"
    code: str = "314159"
    min_job_age_s: int = 300
    noisy_login: bool = True
    separate_nodes: bool = False
    subnet: str = ""
    base_root: str = field(default_factory=lambda: os.environ.get("LABTUI_TEST_CLUSTER_ROOT", "/"))
    hostname: str = "alogin1"
    images_per_batch_file: int = 64
    python: str = ""
    ports: dict[str, int] = field(default_factory=dict)
    nodes: list[Node] = field(
        default_factory=lambda: [
            Node("as01r1b01", "acc", 80, 4),
            Node("as01r1b02", "acc", 80, 4),
            Node("gs01r1b01", "gpp", 112, 0),
        ]
    )

    @property
    def address(self) -> str:
        return f"{self.subnet}.2" if self.separate_nodes else "127.0.0.1"

    def address_of(self, index: int) -> str:
        return f"{self.subnet}.{10 + index}" if self.separate_nodes else "127.0.0.1"

    @property
    def home(self) -> str:
        return f"/home/nct/{self.user}"

    @property
    def projects(self) -> str:
        return f"/gpfs/projects/{self.account}"

    @property
    def scratch(self) -> str:
        return f"/gpfs/scratch/{self.account}/{self.user}"

    @property
    def data_dir(self) -> str:
        return f"{self.projects}/cifar-utils/cifar-10-batches-py"

    @property
    def container(self) -> str:
        return f"{self.projects}/MN5-NGC-TensorFlow-23.03.sif"

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path) -> ClusterSettings:
        values = json.loads(path.read_text())
        values["nodes"] = [Node(**node) for node in values["nodes"]]
        return cls(**values)


def pair_settings(**more: Any) -> ClusterSettings:
    """Two nodes with two GPUs each, which have host names and addresses of their own, in one partition."""
    nodes = [Node(name, "gpu", cpus=2, gpus=2) for name in ("node1", "node2")]
    return ClusterSettings(site="pair", separate_nodes=True, nodes=nodes, **more)


def free_ports(count: int) -> list[int]:
    """Unused ports on 127.0.0.1, below the range that the kernel gives to outgoing connections.

    Each process searches a range of its own, so that none takes what another has found but not yet opened.
    """
    ports: list[int] = []
    port = 21_000 + os.getpid() % 600 * 18  # jobs listen on the ports from 20001 on
    while len(ports) < count:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            ports.append(port)
        port += 1
    return ports
