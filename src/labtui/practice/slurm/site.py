"""The practice cluster's machines, queues and accounts: MareNostrum 5 in small. Data only."""

from __future__ import annotations

from dataclasses import dataclass

CLUSTER = "marenostrum5"
VERSION = "22.05.8"
MIN_JOB_AGE_S = 300
KILL_WAIT_S = 30
MESSAGE_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Node:
    """One machine: its partition, CPUs and GPUs (type "hopper")."""

    name: str
    partition: str
    cpus: int
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class Qos:
    """A queue and its limits; None: no limit. `max_wall_s` in seconds."""

    name: str
    max_wall_s: int
    max_submit: int | None = None
    max_running: int | None = None
    priority: int = 100


@dataclass(frozen=True, slots=True)
class Site:
    """Everything a submission is measured against. `max_jobs` is the laptop's limit: so many scripts run at once."""

    user: str
    account: str
    nodes: tuple[Node, ...] = (
        Node("as01r1b01", "acc", 80, 4),
        Node("as01r1b02", "acc", 80, 4),
        Node("gs01r1b01", "gpp", 112),
    )
    qos: tuple[Qos, ...] = (
        Qos("acc_debug", 2 * 3600, max_submit=1, max_running=1, priority=10000),
        Qos("gp_debug", 2 * 3600, priority=10000),
        Qos("acc_training", 48 * 3600),
        Qos("gp_training", 48 * 3600),
        Qos("acc_interactive", 2 * 3600, max_submit=366, max_running=1, priority=0),
    )
    default_partition: str = "gpp"
    max_partition_s: int = 3 * 86400
    max_jobs: int = 32

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions' names, sorted."""
        return tuple(sorted({node.partition for node in self.nodes}))

    def find_qos(self, name: str) -> Qos | None:
        """The queue of this name, if the account may use it."""
        return next((qos for qos in self.qos if qos.name == name), None)

    def nodes_of(self, partition: str) -> tuple[Node, ...]:
        """The machines of a partition."""
        return tuple(node for node in self.nodes if node.partition == partition)
