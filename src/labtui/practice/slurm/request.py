"""From sbatch's options to a job, or to the refusal MareNostrum would print.

The checks come in Slurm's order: the file, the options, the site's own rules, then account, QoS and limits.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from dataclasses import dataclass

from labtui.practice.slurm.site import Node, Qos, Site
from labtui.practice.slurm.texts import time_limit

POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
BAD_ACCOUNT = "Invalid account or account/partition combination specified"
CPUS_PER_GPU = 20


class Refused(Exception):
    """sbatch's stderr, without the ``sbatch: error:`` before each line, and its exit status.

    `final` is the reason the controller gave, empty when sbatch itself refused before asking it.
    """

    def __init__(self, lines: tuple[str, ...], final: str = "", status: int = 1) -> None:
        super().__init__("; ".join((*lines, final)))
        self.lines = lines
        self.final = final
        self.status = status


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of the cluster, after all checks that need no queue. Numbers are None where nothing was said."""

    name: str
    account: str
    qos: Qos
    partition: str
    cpus: int
    gpus: int
    gres: str
    tasks: int | None
    tasks_per_node: int | None
    cpus_per_task: int | None
    time_limit_s: int
    work_dir: str
    output: str
    error: str
    comment: str
    requeue: bool
    append: bool
    held: bool
    begin_after_s: float


def check_script(script: bytes) -> None:
    """Sbatch's own look at the file."""
    if not script:
        raise Refused(("Batch script is empty!",))
    if not script.strip():
        raise Refused(("Batch script contains only whitespace!",))
    if not script.startswith(b"#!"):
        raise Refused(
            (
                "This does not look like a batch script.  The first",
                "line must start with #! followed by the path to an interpreter.",
                "For instance: #!/bin/sh",
            )
        )
    if b"\0" in script:
        raise Refused(("The Slurm controller does not allow scripts that", "contain a NULL character '\\0'."))
    if b"\r\n" in script:
        raise Refused(
            ("Batch script contains DOS line breaks (\\r\\n)", "instead of expected UNIX line breaks (\\n).")
        )


def build_request(options: Mapping[str, str], *, name: str, work_dir: str, site: Site) -> Request:
    """Check everything that does not depend on other jobs. Raises Refused."""
    limit = time_limit(options["time"]) if "time" in options else None
    if "time" in options and limit is None:
        raise Refused(("Invalid --time specification",), status=255)
    gpus, gres = _gpus(options)
    tasks, places = _tasks(options)
    per_task = _number(options, "cpus-per-task", 1)
    cpus = places * per_task
    qos_name, account, partition = _site_rules(options, gpus, (tasks or 1) * per_task)
    if partition not in site.partitions:
        raise Refused((f"invalid partition specified: {partition}",), "Invalid partition name specified")
    if account != site.account:
        raise Refused((), BAD_ACCOUNT)
    qos = site.find_qos(qos_name)
    if qos is None:
        raise Refused((), "Invalid qos specification")
    limit = qos.max_wall_s if limit is None else limit
    _check_size(options, site.nodes_of(partition), cpus, gpus, gres)
    _check_time(limit, qos, site)
    if options.get("reservation"):
        raise Refused((), "Requested reservation is invalid")
    folder = os.path.join(work_dir, options.get("chdir", options.get("workdir", "")) or ".")  # noqa: PTH118  remote paths are texts
    output = options.get("output", "slurm-%j.out")
    return Request(
        name=options.get("job-name", name),
        account=account,
        qos=qos,
        partition=partition,
        cpus=max(1, cpus),
        gpus=gpus,
        gres=gres,
        tasks=tasks,
        tasks_per_node=_number(options, "ntasks-per-node", 0) or None,
        cpus_per_task=per_task if "cpus-per-task" in options else None,
        time_limit_s=limit,
        work_dir=os.path.normpath(folder),
        output=output,
        error=options.get("error", output),
        comment=options.get("comment", ""),
        requeue="no-requeue" not in options,
        append=options.get("open-mode") == "append",
        held="hold" in options,
        begin_after_s=_begin(options.get("begin", "")),
    )


def _check_time(limit_s: int, qos: Qos, site: Site) -> None:
    """Whether partition and QoS allow so many seconds. Raises Refused."""
    if limit_s > site.max_partition_s:
        raise Refused((), "Requested time limit is invalid (missing or exceeds some limit)")
    if limit_s > qos.max_wall_s:
        raise Refused(("QOSMaxWallDurationPerJobLimit",), POLICY)


def _check_size(options: Mapping[str, str], nodes: tuple[Node, ...], cpus: int, gpus: int, gres: str) -> None:
    """Whether the partition's machines could ever hold the job. Raises Refused."""
    wanted = _number(options, "nodes", 1)
    if wanted > len(nodes):
        raise Refused((), "Node count specification invalid")
    if re.match(r"gres:gpu:[A-Za-z]", gres) and ":hopper" not in gres:
        raise Refused((), "Requested node configuration is not available")
    if cpus > sum(node.cpus for node in nodes):
        raise Refused((), "More processors requested than permitted")
    if gpus > max(node.gpus for node in nodes):
        raise Refused(
            ("CPU count per node can not be satisfied",), "Requested node configuration is not available"
        )
    if cpus > max(node.cpus for node in nodes) * wanted:
        raise Refused((), "Requested node configuration is not available")


def _begin(text: str) -> float:
    """Seconds to wait, from ``--begin=now+1hour`` and the like; moments by date are not kept back."""
    told = re.fullmatch(r"now(?:\+(\d+)(seconds?|minutes?|hours?|days?|weeks?)?)?", text.strip())
    if not text:
        return 0.0
    if not told:
        raise Refused((f"Invalid --begin specification: {text}",), status=255)
    unit = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[(told[2] or "s")[0]]
    return float(int(told[1] or 0) * unit)


def _gpus(options: Mapping[str, str]) -> tuple[int, str]:
    """GPUs per node, and the text squeue shows for them."""
    asked = options.get("gres", "")
    if not asked and ("gpus" in options or "gpus-per-node" in options):
        asked = "gpu:" + (options.get("gpus-per-node") or options["gpus"])
    if asked in ("", "none"):
        return 0, ""
    told = re.fullmatch(r"gpu(?::([A-Za-z][\w-]*))?(?:[:=](\d+))?", asked)
    if not told:
        raise Refused(("Invalid generic resource (gres) specification",))
    return int(told[2] or 1), f"gres:{asked}"


def _tasks(options: Mapping[str, str]) -> tuple[int | None, int]:
    """The tasks that were asked for (None: nobody said), and for how many of them the job gets CPUs."""
    nodes, on_each = _number(options, "nodes", 1), _number(options, "ntasks-per-node", 0)
    tasks = _number(options, "ntasks", 0) or nodes * on_each
    return tasks or None, max(tasks or nodes, nodes * on_each)


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    told = re.fullmatch(r"(\d+)(?:-\d+)?", text.strip())
    if not told or int(told[1]) < 1:
        raise Refused((f'Invalid numeric value "{text}" for --{name}.',), status=255)
    return int(told[1])


def _site_rules(options: Mapping[str, str], gpus: int, cpus: int) -> tuple[str, str, str]:
    """MareNostrum's submit plugin: account and QoS are named, no memory, 20 CPUs per GPU; QoS picks the partition."""

    def refuse(sentence: str) -> Refused:
        return Refused((sentence,), "Unspecified error")

    account, qos = options.get("account"), options.get("qos")
    if not account:
        raise refuse("No account specified, please specify an account")
    if not qos:
        raise refuse("No QoS specified, please specify a QoS")
    if "mem" in options or "mem-per-cpu" in options:
        raise refuse(
            "Memory cannot be requested (--mem, --mem-per-cpu): it is set automatically per requested core"
        )
    if gpus and cpus < _number(options, "nodes", 1) * gpus * CPUS_PER_GPU:
        raise refuse("Minimum cpus requested should be (nodes * gpus/node * 20)")
    return qos, account, options.get("partition") or ("acc" if qos.startswith("acc_") else "gpp")
