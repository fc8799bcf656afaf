"""MareNostrum 5 in small: its nodes, and the queues and rules of `profiles/practice.toml`."""

from __future__ import annotations

from dataclasses import dataclass

from labtui.domain.profile import Profile, Queue
from labtui.session.settings import load_profile

CLUSTER = "marenostrum5"
MAX_PARTITION_S = 3 * 86400


@dataclass(frozen=True, slots=True)
class Node:
    """One machine: its partition, CPUs and GPUs."""

    name: str
    partition: str
    cpus: int
    gpus: int = 0

    @property
    def gres(self) -> str:
        """Its GPUs as Slurm writes them."""
        return f"gpu:hopper:{self.gpus}" if self.gpus else "(null)"


@dataclass(frozen=True, slots=True)
class Site:
    """Everything a submission is measured against. `max_jobs` is the laptop's limit: so many scripts run at once."""

    profile: Profile
    nodes: tuple[Node, ...]
    user: str = "nct01000"
    max_jobs: int = 32

    @property
    def account(self) -> str:
        """The student's only account."""
        return self.profile.default_account

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions' names, sorted; the last one is the default."""
        return tuple(sorted({node.partition for node in self.nodes}))

    def nodes_of(self, partition: str) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.partition == partition)


def practice_site() -> Site:
    """The practice cluster: eight nodes with GPUs, one without."""
    profile = load_profile("practice")
    cpus, gpus = profile.cpus_per_node, profile.gpus_per_node
    nodes = (Node(f"as01r1b{number:02d}", "acc", cpus, gpus) for number in range(1, 9))
    return Site(profile, (*nodes, Node("gs01r1b01", "gpp", 112)))


def partition_of(queue: Queue) -> str:
    """Where the jobs of a queue run."""
    return "acc" if queue.devices == "gpu" else "gpp"


def priority_of(queue: Queue) -> int:
    """The debug queues come first."""
    return 1000 if queue.name.endswith("_debug") else 10
