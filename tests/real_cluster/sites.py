"""Slurm set-ups of sites, as data: MareNostrum's, and four for which labtui has no profile.

`partitions`: queues are partitions, there is no QoS to choose. `qos`: the GPU partition takes its own QoS alone, and
one of them lets a user have one job. `several`: two accounts, one of which owns the GPUs, `sinfo` refused and the
nodes hidden. `pair`: a single partition of all nodes, and nothing to choose.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tests.real_cluster.settings import ClusterSettings, Node

SiteName = Literal["marenostrum", "partitions", "qos", "several", "pair"]


@dataclass(frozen=True)
class Site:
    """`partitions` are lines of slurm.conf, `accounts` the arguments of sacctmgr in order.

    `enforce` is AccountingStorageEnforce, `hidden` the programs that students may not run.
    """

    cluster: str
    partitions: tuple[str, ...]
    accounts: tuple[tuple[str, ...], ...]
    enforce: str = "associations,limits,qos"
    private_data: str = ""
    hidden: tuple[str, ...] = ()


def site_of(settings: ClusterSettings) -> Site:
    sites = {
        "marenostrum": _marenostrum, "partitions": _partitions, "qos": _qos, "several": _several,
        "pair": _pair,
    }  # fmt: skip
    return sites[settings.site](settings)


def _names(nodes: list[Node], partition: str) -> str:
    return ",".join(node.name for node in nodes if node.partition == partition)


def _marenostrum(settings: ClusterSettings) -> Site:
    debug = (
        "MaxWall=02:00:00", "MaxJobsPerUser=1", "MaxSubmitJobsPerUser=1", "flags=DenyOnLimit",
        "priority=10000",
    )  # fmt: skip
    training = ("MaxWall=2-00:00:00", "flags=DenyOnLimit", "priority=100")
    interactive = ("MaxWall=02:00:00", "MaxJobsPerUser=1", "MaxSubmitJobsPerUser=366", "flags=DenyOnLimit")
    granted = "acc_debug,acc_interactive,acc_training,gp_debug,gp_training"
    lines = []
    for partition in sorted({node.partition for node in settings.nodes}):
        default = "YES" if partition == "gpp" else "NO"
        lines.append(
            f"PartitionName={partition} Nodes={_names(settings.nodes, partition)} Default={default}"
            " MaxTime=3-00:00:00 State=UP OverSubscribe=NO"
        )
    return Site(
        cluster="marenostrum5",
        partitions=tuple(lines),
        accounts=(
            ("add", "qos", "acc_debug", *debug),
            ("add", "qos", "gp_debug", "MaxWall=02:00:00", "flags=DenyOnLimit", "priority=10000"),
            ("add", "qos", "acc_training", "gp_training", *training),
            ("add", "qos", "acc_interactive", *interactive),
            ("add", "qos", "acc_bsccase", "MaxWall=2-00:00:00", "flags=DenyOnLimit"),
            ("add", "account", settings.account, "Description=course", "Organization=upc", f"qos={granted}"),
            ("add", "account", "nct_999", "Description=other", "Organization=upc", f"qos={granted}"),
            ("add", "user", settings.user, f"account={settings.account}", f"qos={granted}", "DefaultQOS=gp_debug"),
        ),
    )  # fmt: skip


def _partitions(settings: ClusterSettings) -> Site:
    gpus, cpus = _names(settings.nodes, "acc"), _names(settings.nodes, "gpp")
    return replace(
        _pair(settings),
        cluster="hydra",
        partitions=(
            f"PartitionName=batch Nodes={cpus} Default=YES DefaultTime=01:00:00 MaxTime=2-00:00:00 State=UP",
            f"PartitionName=gpu Nodes={gpus} DefaultTime=00:30:00 MaxTime=08:00:00 State=UP",
            f"PartitionName=gpu-staff Nodes={gpus} AllowGroups=root MaxTime=UNLIMITED State=UP",
            f"PartitionName=old Nodes={cpus} MaxTime=01:00:00 State=DOWN",
        ),
    )


def _qos(settings: ClusterSettings) -> Site:
    gpus, cpus = _names(settings.nodes, "acc"), _names(settings.nodes, "gpp")
    granted = "normal,gpu-short,gpu-long"
    return Site(
        cluster="orion",
        partitions=(
            f"PartitionName=cpu Nodes={cpus} Default=YES MaxTime=3-00:00:00 State=UP",
            f"PartitionName=gpu Nodes={gpus} MaxTime=3-00:00:00 AllowQos=gpu-short,gpu-long State=UP",
        ),
        accounts=(
            ("add", "qos", "gpu-short", "MaxWall=01:00:00", "MaxJobsPerUser=1", "MaxSubmitJobsPerUser=1",
             "flags=DenyOnLimit"),
            ("add", "qos", "gpu-long", "MaxWall=1-00:00:00", "MaxTRESPerUser=node=1", "flags=DenyOnLimit"),
            ("add", "account", "p1234", "Description=course", "Organization=x", f"qos={granted}"),
            ("add", "user", settings.user, "account=p1234", f"qos={granted}", "DefaultQOS=normal"),
        ),
    )  # fmt: skip


def _several(settings: ClusterSettings) -> Site:
    gpus, cpus = _names(settings.nodes, "acc"), _names(settings.nodes, "gpp")
    return Site(
        cluster="lyra",
        private_data="nodes",
        hidden=("sinfo",),
        partitions=(
            f"PartitionName=standard Nodes={cpus} Default=YES DefaultTime=00:10:00 MaxTime=1-00:00:00 State=UP",
            f"PartitionName=accel Nodes={gpus} AllowAccounts=chem02 MaxTime=04:00:00 State=UP",
        ),
        accounts=(
            ("add", "account", "phys01", "chem02", "Description=group", "Organization=x"),
            ("add", "user", settings.user, "account=phys01"),
            ("add", "user", settings.user, "account=chem02"),
        ),
    )


def _pair(settings: ClusterSettings) -> Site:
    nodes = ",".join(node.name for node in settings.nodes)
    return Site(
        cluster="gemini",
        enforce="",
        partitions=(f"PartitionName=gpu Nodes={nodes} Default=YES MaxTime=08:00:00 State=UP",),
        accounts=(
            ("add", "account", "teaching", "Description=course", "Organization=x"),
            ("add", "user", settings.user, "account=teaching"),
        ),
    )
