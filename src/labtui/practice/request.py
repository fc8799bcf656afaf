"""The practice cluster's nodes and rules (`profiles/practice.toml`): from sbatch's options to a job or a refusal.

The command line takes precedence over the script's directives. The checks are in Slurm's order: the file, the options,
the site's own rules, then account, QoS and limits.
"""

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from labtui.domain.profile import Profile
from labtui.practice.command_line import SBATCH, CommandError, Invocation, parse_argv, positive_number
from labtui.practice.job import JobRequest
from labtui.session.settings import load_profile
from labtui.slurm.batch_script import directive_words, read_script
from labtui.slurm.values import limit_minutes

CLUSTER = "marenostrum5"
MAX_PARTITION_S = 3 * 86400


class Node(msgspec.Struct, frozen=True):
    """One machine: its partition, CPUs and GPUs."""

    name: str
    partition: str
    cpus: int
    gpus: int = 0


class Site(msgspec.Struct, frozen=True):
    """What submissions are checked against. `max_jobs` is how many scripts this computer runs at once."""

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
        """The names of the partitions, sorted; the last one is the default."""
        return tuple(sorted({node.partition for node in self.nodes}))

    def nodes_of(self, partition: str) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.partition == partition)


def practice_site() -> Site:
    """The practice cluster: eight nodes with GPUs, one without."""
    profile = load_profile("practice")
    cpus, gpus = profile.cpus_per_node, profile.gpus_per_node
    nodes = (Node(f"as01r1b{number:02d}", "acc", cpus, gpus) for number in range(1, 9))
    return Site(profile, (*nodes, Node("gs01r1b01", "gpp", 112)))


POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


class Refused(Exception):
    """sbatch's error lines without the ``sbatch: error:`` before each, and its exit status.

    `final` is the controller's reason, empty if sbatch itself refused before asking it.
    """

    def __init__(self, *lines: str, final: str = "", status: int = 1) -> None:
        super().__init__("; ".join((*lines, final)))
        self.lines, self.final, self.status = lines, final, status

    def text(self, *, test_only: bool) -> str:
        """What sbatch prints to stderr."""
        lines = [f"sbatch: error: {line}" for line in self.lines]
        if self.final:
            head = "allocation failure" if test_only else "sbatch: error: Batch job submission failed"
            lines.append(f"{head}: {self.final}")
        return "".join(line + "\n" for line in lines)


def all_options(script: bytes) -> dict[str, str]:
    """The options of a script's directives. Raises CommandError for a directive that sbatch does not know."""
    options: dict[str, str] = {}
    for argv in directive_words(script.decode("utf-8", "replace")):
        found, rest = parse_argv(argv)
        if rest:
            text = f"sbatch: error: Invalid directive found in batch script: {rest[0]}\n"
            raise CommandError(text, 255)
        options |= found
    return options


def sent_script(call: Invocation, argv: list[str]) -> tuple[bytes, str]:
    """The script and default job name, from the named file or standard input. Raises Refused."""
    script, name = call.stdin, "sbatch"
    if argv:
        path = Path(call.folder) / argv[0]
        try:
            script, name = path.read_bytes(), path.name
        except OSError:
            raise Refused(f"Unable to open file {argv[0]}") from None
    if not script.startswith(b"#!"):
        raise Refused(
            "This does not look like a batch script.  The first",
            "line must start with #! followed by the path to an interpreter.",
            "For instance: #!/bin/sh",
        )
    return script, name


def build_request(options: Mapping[str, str], *, name: str, work_dir: str, site: Site) -> JobRequest:
    """Make a request from sbatch's options, with all checks that do not depend on other jobs. Raises Refused."""
    minutes = limit_minutes(options["time"]) if "time" in options else None
    if "time" in options and minutes is None:
        raise Refused("Invalid --time specification", status=255)
    gres = options.get("gres", "")
    if not re.fullmatch(r"(?:none|gpu(?::[A-Za-z][\w-]*)?(?::\d+)?)?", gres):
        raise Refused("Invalid generic resource (gres) specification")
    gpus = read_script(name, "", options).gpus
    nodes, tasks_per_node = _number(options, "nodes", 1), _number(options, "ntasks-per-node", 0)
    tasks = _number(options, "ntasks", 0) or nodes * tasks_per_node
    per_task = _number(options, "cpus-per-task", 1)
    cpus = max(tasks or nodes, nodes * tasks_per_node) * per_task
    _site_rules(options, site, nodes * gpus, (tasks or 1) * per_task)
    queue = site.profile.queue(options["qos"])
    partition = options.get("partition") or ("acc" if options["qos"].startswith("acc_") else "gpp")
    if partition not in site.partitions:
        raise Refused(f"invalid partition specified: {partition}", final="Invalid partition name specified")
    if options["account"] != site.account:
        raise Refused(final="Invalid account or account/partition combination specified")
    if queue is None:
        raise Refused(final="Invalid qos specification")
    _check_size(site, partition, nodes, cpus, gpus, gres)
    longest_s = 60 * (queue.max_minutes or 0)
    limit_s = longest_s if minutes is None else minutes * 60
    if limit_s > MAX_PARTITION_S:
        raise Refused(final="Requested time limit is invalid (missing or exceeds some limit)")
    if limit_s > longest_s:
        raise Refused("QOSMaxWallDurationPerJobLimit", final=POLICY)
    if options.get("reservation"):
        raise Refused(final="Requested reservation is invalid")
    output = options.get("output", "slurm-%j.out")
    return JobRequest(
        name=options.get("job-name", name),
        account=options["account"],
        queue=queue,
        partition=partition,
        cpus=max(1, cpus),
        gpus=gpus,
        tasks=tasks or None,
        tasks_per_node=tasks_per_node or None,
        nodes=nodes,
        cpus_per_task=per_task if "cpus-per-task" in options else None,
        time_limit_s=limit_s,
        work_dir=posixpath.normpath(posixpath.join(work_dir, options.get("chdir") or ".")),
        output=output,
        error=options.get("error", output),
        comment=options.get("comment", ""),
        requeue="no-requeue" not in options,
        append=options.get("open-mode") == "append",
        held="hold" in options,
    )


def _site_rules(options: Mapping[str, str], site: Site, gpus: int, cpus: int) -> None:
    """MareNostrum's submit plugin: requires account, QoS and CPUs per GPU, forbids some options. Raises Refused."""
    forbidden = any(f"--{name}" in site.profile.forbidden for name in options)
    each = site.profile.cpus_per_gpu
    broken = {
        "No account specified, please specify an account": not options.get("account"),
        "No QoS specified, please specify a QoS": not options.get("qos"),
        "Memory cannot be requested (--mem, --mem-per-cpu): it is set automatically per requested core": forbidden,
        f"Minimum cpus requested should be (nodes * gpus/node * {each})": gpus and cpus < gpus * each,
    }
    if sentence := next((rule for rule in broken if broken[rule]), ""):
        raise Refused(sentence, final="Unspecified error")


def _check_size(site: Site, partition: str, wanted: int, cpus: int, gpus: int, gres: str) -> None:
    """Raise Refused if the partition has too few or too small nodes."""
    nodes = site.nodes_of(partition)
    if wanted > len(nodes):
        raise Refused(final="Node count specification invalid")
    if cpus > sum(node.cpus for node in nodes):
        raise Refused(final="More processors requested than permitted")
    if gpus > max(node.gpus for node in nodes):
        short = "Requested node configuration is not available"
        raise Refused("CPU count per node can not be satisfied", final=short)
    other_kind = re.match(r"gpu:[A-Za-z]", gres) and ":hopper" not in gres
    if other_kind or cpus > max(node.cpus for node in nodes) * wanted:
        raise Refused(final="Requested node configuration is not available")


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    return positive_number(options[name].partition("-")[0], name, SBATCH) if name in options else default
