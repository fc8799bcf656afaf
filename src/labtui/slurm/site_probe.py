"""What any user can learn about a Slurm cluster: partitions, nodes, configuration, programs, modules, data.

One command that only reads. Some sites refuse parts of it (`sinfo`, `scontrol`, `sacctmgr`), so any part may be
missing; `refused` says which and why.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from labtui.domain.profile import DATA_FOLDER
from labtui.slurm.remote_command import Call, CommandResult, shell_file
from labtui.slurm.values import duration_seconds, gpus_of, number

NODE_FORMAT = "%R|%c|%G"
CONTAINER_PROGRAMS = ("singularity", "apptainer")
_MODULE_WORDS = "singularity|apptainer|tensorflow|torch|python|anaconda|miniconda|miniforge|conda"


class SitePartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of the cluster. None: unknown, or no limit.

    `cpus` and `gpus` are those of one node (the smallest if nodes differ). `accounts` and `qos` are those allowed,
    None for all. `nodes_from` names the source of `cpus` and `gpus`; `largest` are the most of both on any node.
    """

    name: str
    up: bool = True
    default: bool = False
    max_seconds: float | None = None
    max_nodes: int | None = None
    cpus: int | None = None
    gpus: int | None = None
    largest: tuple[int, int] | None = None
    accounts: tuple[str, ...] | None = None
    qos: tuple[str, ...] | None = None
    nodes_from: str = ""


class SiteProbe(msgspec.Struct, frozen=True, kw_only=True):
    """What was learned. `refused` maps a command to its last line of standard error; `config` is from scontrol.

    `framework` says whether the login node's Python has the framework that was asked for.
    """

    partitions: tuple[SitePartition, ...] = ()
    config: Mapping[str, str] = {}
    default_account: str = ""
    programs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    python: str = ""
    framework: bool = False
    data: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    home: str = ""
    refused: Mapping[str, str] = {}


def site_probe(framework: str = "tensorflow") -> Call[SiteProbe]:
    """Ask for all of it; `framework` is a Python module. Changes nothing; each program is ended after some seconds."""
    return Call(
        name="probe-site",
        script=shell_file("site-probe"),
        arguments=(NODE_FORMAT, _MODULE_WORDS, DATA_FOLDER, framework, *CONTAINER_PROGRAMS),
        limit_s=200,
        read=_read_site,
    )


def _read_site(result: CommandResult) -> SiteProbe:
    out = result.sections
    programs = {
        "partitions": "scontrol show partition", "nodes": "sinfo", "config": "scontrol show config",
        "account": "sacctmgr",
    }  # fmt: skip
    refused = {programs[name]: words for name, words in result.refused(*programs).items()}
    partitions = parse_partitions(out.get("partitions", ""))
    config = re.findall(r"^[ \t]*(\S+)[ \t]*=[ \t]*(.*?)[ \t]*$", out.get("config", ""), re.MULTILINE)
    lines = out.get("modules", "").splitlines()  # of `module -t avail`, with headings
    names = (line.strip().removesuffix("(default)").strip() for line in lines)
    return SiteProbe(
        partitions=_with_nodes(partitions, out.get("nodes", "") if "sinfo" not in refused else ""),
        config=dict(config),
        default_account=(out.get("account", "").split() or [""])[0] if "sacctmgr" not in refused else "",
        programs=tuple(out.get("programs", "").split()),
        modules=tuple(dict.fromkeys(name for name in names if re.fullmatch(r"[\w.+-]+(/[\w.+-]+)*", name))),
        python=out.get("python", "").strip(),
        framework=out.get("framework", "").strip() == "True",
        data=tuple(dict.fromkeys(out.get("data", "").splitlines())),
        containers=tuple(out.get("containers", "").splitlines()),
        home=out.get("home", "").strip(),
        refused=refused,
    )


# --------------------------------------------------------------------------- partitions


def parse_partitions(text: str) -> Iterator[SitePartition]:
    """The partitions in ``scontrol --oneliner show partition``, whose totals are divided by the number of nodes."""
    for line in text.splitlines():
        words = dict(re.findall(r"(?:^|\s)(\w+)=(\S*)", line))
        if not words.get("PartitionName"):
            continue
        nodes = _count(words.get("TotalNodes", ""))
        resources = dict(part.partition("=")[::2] for part in words.get("TRES", "").split(","))
        yield SitePartition(
            name=words["PartitionName"],
            up=words.get("State", "UP") == "UP",
            default=words.get("Default") == "YES",
            max_seconds=duration_seconds(words.get("MaxTime", "")),
            max_nodes=_count(words.get("MaxNodes", "")),
            cpus=_per_node(_count(words.get("TotalCPUs", "")), nodes),
            gpus=_per_node(_count(resources.get("gres/gpu", "")), nodes),
            accounts=_names(words.get("AllowAccounts", "ALL")),
            qos=_names(words.get("AllowQos", "ALL")),
            nodes_from="scontrol show partition (the sums, divided by its nodes)",
        )


def _with_nodes(partitions: Iterable[SitePartition], text: str) -> tuple[SitePartition, ...]:
    """The partitions with what ``sinfo`` says about their nodes; those that only ``sinfo`` names are added."""
    rows: dict[str, list[list[str]]] = {}
    for line in text.splitlines():
        words = [word.strip() for word in line.split("|")]
        if len(words) == 3:
            rows.setdefault(words[0], []).append(words)
    known = {partition.name: partition for partition in partitions}
    for name, lines in rows.items():
        # A job that fits any node must fit the smallest; in a partition with GPUs only nodes with GPUs count.
        with_gpus = [words for words in lines if gpus_of(words[2])] or lines
        sizes = [(cpus, gpus_of(words[2])) for words in lines if (cpus := _count(words[1])) is not None]
        known[name] = replace(
            known.get(name, SitePartition(name=name)),
            cpus=min((cpus for words in with_gpus if (cpus := _count(words[1])) is not None), default=None),
            gpus=min(gpus_of(words[2]) for words in with_gpus),
            largest=tuple(map(max, zip(*sizes, strict=True))) if sizes else None,
            nodes_from="sinfo",
        )
    return tuple(known.values())


def _names(text: str) -> tuple[str, ...] | None:
    names = tuple(name for name in text.split(",") if name)
    return None if not names or "ALL" in names or names == ("N/A",) else names


def _count(text: str) -> int | None:
    return number(text.removesuffix("+"))


def _per_node(total: int | None, nodes: int | None) -> int | None:
    return total // nodes if total and nodes else None
