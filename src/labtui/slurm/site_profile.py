"""From what a cluster told to a profile: each value with where it came from, and the questions that stay open.

Pure. What could be learned is never asked; what could not is listed in `unknown`: nobody shall take a guess for a fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from labtui.slurm.probe import SlurmProbe
from labtui.slurm.site_probe import DATA_FOLDER, SitePartition, SiteProbe
from labtui.slurm.values import number

GOOD_MINUTES = 60
"""A GPU queue with at least this limit takes every run of a lab; among those the shortest usually starts soonest."""
MOST_QUEUES = 8
PLAIN_PYTHON = "python3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the student chose, in answers or options; "" means: nothing.

    `queue` names a GPU queue (a partition, or a QoS where one has to be named). `training` is how Python with
    TensorFlow is started: a container image (``.sif``), a module, or the path of a python. `name_qos`: jobs have to
    name a QoS, although no setting of the site says so.
    """

    account: str = ""
    queue: str = ""
    data_dir: str = ""
    training: str = ""
    name_qos: bool = False

    def with_answer(self, key: str, value: str) -> Choices:
        """The choices with the answer to a `SiteQuestion`."""
        if key == "account":
            return replace(self, account=value)
        if key == "queue":
            return replace(self, queue=value)
        return replace(self, data_dir=value) if key == "data_dir" else replace(self, training=value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteQuestion:
    """A question that Slurm could not answer. `key` is the field of `Choices`; Enter takes `default`."""

    key: Literal["account", "queue", "data_dir", "training"]
    text: str
    default: str
    options: tuple[str, ...] = ()

    def choose(self, answer: str) -> str:
        """What an answer means: the default for an empty one, an option by its number or its first word."""
        words = answer.strip()
        chosen = number(words)
        if chosen is not None and 0 < chosen <= len(self.options):
            return self.options[chosen - 1].split(" (")[0]
        return words or self.default


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFact:
    """A queue that this account may use: a partition, and the QoS that has to be named with it ("" for none)."""

    partition: SitePartition
    devices: str
    qos: str = ""
    max_minutes: int | None = None
    max_submit: int | None = None
    max_running: int | None = None

    @property
    def name(self) -> str:
        return self.qos or self.partition.name

    @property
    def words(self) -> str:
        """The queue in a line, for a person who chooses."""
        limit = f"at most {self.max_minutes} min" if self.max_minutes else "no time limit known"
        gpus = f", {self.partition.gpus} GPUs a node" if self.partition.gpus else ""
        jobs = f", {self.max_submit} job{'s' * (self.max_submit != 1)} at a time" if self.max_submit else ""
        return f"{self.name} ({limit}{gpus}{jobs})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteProfile:
    """A profile to write: `values` and `launch` by key, each with its source; `queues` as tables with a source."""

    values: tuple[tuple[str, Any, str], ...]
    launch: tuple[tuple[str, Any, str], ...]
    queues: tuple[tuple[dict[str, Any], str], ...]
    unknown: tuple[str, ...] = ()


# --------------------------------------------------------------------------- what this user may use


def accounts(slurm: SlurmProbe, site: SiteProbe, choices: Choices) -> tuple[str, ...]:
    """The accounts of this user that reach a GPU queue; all of them where none does."""
    names = tuple(dict.fromkeys(item.account for item in slurm.associations or ()))
    useful = tuple(name for name in names if _queues(slurm, site, name, choices, gpus=True))
    return useful or names


def gpu_queues(slurm: SlurmProbe, site: SiteProbe, account: str, choices: Choices) -> tuple[QueueFact, ...]:
    """GPU queues open to the account, the one to take by default first."""
    found = _queues(slurm, site, account, choices, gpus=True)
    return tuple(sorted(found, key=_rank)[:MOST_QUEUES])


def _rank(queue: QueueFact) -> tuple[bool, float]:
    minutes = queue.max_minutes or 10**6
    return minutes < GOOD_MINUTES, minutes if minutes >= GOOD_MINUTES else -minutes


def cpu_queue(slurm: SlurmProbe, site: SiteProbe, account: str, choices: Choices) -> QueueFact | None:
    """A queue for jobs without a GPU: the default partition, else one without GPUs."""
    found = _queues(slurm, site, account, choices, gpus=False)
    return next((queue for queue in found if queue.partition.default), found[0] if found else None)


def _queues(
    slurm: SlurmProbe, site: SiteProbe, account: str, choices: Choices, *, gpus: bool
) -> tuple[QueueFact, ...]:
    found = []
    for partition in site.partitions:
        closed = partition.accounts is not None and account and account not in partition.accounts
        if not partition.up or closed or bool(partition.gpus) != gpus:
            continue
        for qos in _qos_names(slurm, site, account, partition, choices):
            limits = next((item for item in slurm.qos or () if item.name == (qos or "normal")), None)
            walls = [partition.max_seconds, limits.max_wall_s if limits else None]
            seconds = min((wall for wall in walls if wall), default=None)
            found.append(
                QueueFact(
                    partition=partition,
                    devices="gpu" if gpus else "cpu",
                    qos=qos,
                    max_minutes=int(seconds // 60) if seconds else None,
                    max_submit=limits.max_submit_per_user if limits else None,
                    max_running=limits.max_jobs_per_user if limits else None,
                )
            )
    return tuple(found)


def _qos_names(
    slurm: SlurmProbe, site: SiteProbe, account: str, partition: SitePartition, choices: Choices
) -> tuple[str, ...]:
    """The QoS a job in this partition has to name; ("",) where it need not name one, () where none is open."""
    mine = [item for item in slurm.associations or () if not account or item.account == account]
    granted = tuple(dict.fromkeys(name for item in mine for name in item.qos))
    default = next((item.default_qos for item in mine if item.default_qos), "normal")
    if partition.qos is None:
        site_rules = site.config.get("JobSubmitPlugins", "(null)") not in {"(null)", ""}
        if not choices.name_qos and not (site_rules and site.enforces_qos and len(granted) > 1):
            return ("",)
        # Sites that tie QoS to partitions by such rules name them alike: acc_debug for acc.
        alike = tuple(name for name in granted if name[:2] == partition.name[:2])
        return alike or granted or ("",)
    if not granted:
        return partition.qos
    if default in partition.qos:
        return ("",)
    return tuple(name for name in partition.qos if name in granted)


# --------------------------------------------------------------------------- what has to be asked


def questions(slurm: SlurmProbe, site: SiteProbe, choices: Choices) -> tuple[SiteQuestion, ...]:
    """What neither Slurm nor an option answers, in the order to ask. Each answer may change what follows."""
    found = []
    names = accounts(slurm, site, choices)
    if not choices.account and len(names) != 1:
        default = site.default_account if site.default_account in names else (names[0] if names else "")
        text = "Which account shall jobs be charged to?"
        if not names:
            text = "Which account shall jobs be charged to (empty: the cluster's default)?"
        found.append(SiteQuestion(key="account", text=text, default=default, options=names))
    queues = gpu_queues(slurm, site, account_of(slurm, site, choices), choices)
    if not choices.queue and len(queues) != 1:
        text = "Which queue shall GPU jobs go to?"
        if not queues:
            text = "No partition with GPUs was found. Which partition shall GPU jobs go to?"
        found.append(
            SiteQuestion(
                key="queue",
                text=text,
                default=queues[0].name if queues else "",
                options=tuple(queue.words for queue in queues),
            )
        )
    if not choices.data_dir and len(site.data) != 1:
        found.append(
            SiteQuestion(
                key="data_dir",
                text=f"Where are the CIFAR-10 pickles ({DATA_FOLDER}) on the cluster?",
                default=site.data[0] if site.data else f"cifar-utils/{DATA_FOLDER}",
                options=site.data,
            )
        )
    if not choices.training and not site.tensorflow:
        options = _training_options(site)
        found.append(
            SiteQuestion(
                key="training",
                text="How is Python with TensorFlow started there: a container image (.sif), a module, or a python?",
                default=options[0] if options else PLAIN_PYTHON,
                options=options,
            )
        )
    return tuple(found)


def account_of(slurm: SlurmProbe, site: SiteProbe, choices: Choices) -> str:
    """The account as chosen, or the only one that is of use, or the default one."""
    names = accounts(slurm, site, choices)
    if choices.account or len(names) == 1:
        return choices.account or names[0]
    return site.default_account if site.default_account in names else ""


def _training_options(site: SiteProbe) -> tuple[str, ...]:
    modules = tuple(name for name in site.modules if "tensorflow" in name.lower())
    return (*site.containers, *sorted(modules, reverse=True)[:5])


# --------------------------------------------------------------------------- the profile


def site_profile(host: str, slurm: SlurmProbe, site: SiteProbe, choices: Choices) -> SiteProfile:
    """The profile of this cluster for this user. `host` is the login host as the student names it."""
    account = account_of(slurm, site, choices)
    queues = gpu_queues(slurm, site, account, choices)
    chosen = next((queue for queue in queues if queue.name == choices.queue), None)
    if chosen is None and queues and not choices.queue:
        chosen = queues[0]
    gpu_name = chosen.name if chosen else choices.queue
    by_qos = bool(chosen and chosen.qos)
    cpu = cpu_queue(slurm, site, account, choices)
    name = re.sub(r"[^a-z0-9-]+", "-", (site.cluster or host).lower()).strip("-") or "cluster"
    cpu_name, tables = _tables(slurm, account, queues, cpu, by_qos=by_qos)
    values = (
        ("id", name, ""),
        ("title", site.cluster or host, "scontrol show config" if site.cluster else "the login host"),
        ("login_hosts", [host], "as given"),
        ("default_account", account, _account_source(slurm, site, choices, account)),
        ("queue_option", "qos" if by_qos else "partition", _option_source(chosen)),
        (
            "gpu_queue",
            gpu_name,
            "as chosen" if choices.queue else "the only one, or the shortest of an hour or more",
        ),
        ("cpu_queue", cpu_name or gpu_name, _cpu_source(cpu if cpu_name else None)),
        *_node_values(chosen, cpu if cpu_name != gpu_name else None),
        ("root", "labtui", "below your home directory; a path from / names another place"),
        ("data_dir", *_data(site, choices)),
        ("notes", list(_notes(slurm, site, by_qos=by_qos)) or None, "more facts about the site"),
    )
    return SiteProfile(
        values=tuple((key, value, source) for key, value, source in values if value not in ("", None)),
        launch=_launch(site, choices),
        queues=tables,
        unknown=tuple(_unknown(slurm, site, chosen)),
    )


def _account_source(slurm: SlurmProbe, site: SiteProbe, choices: Choices, account: str) -> str:
    names = {item.account for item in slurm.associations or ()}
    if choices.account:
        return "as chosen"
    if len(names) > 1 and accounts(slurm, site, choices) == (account,):
        return f"sacctmgr show assoc: the only one of {', '.join(sorted(names))} that may use GPUs"
    return "sacctmgr show assoc"


def _cpu_source(cpu: QueueFact | None) -> str:
    if cpu is None:
        return "no other partition is open to you"
    return "the default partition" if cpu.partition.default else "a partition without GPUs"


def _option_source(chosen: QueueFact | None) -> str:
    if chosen is None or not chosen.qos:
        return "a job names its partition; --qos stays free for your own choice"
    if chosen.partition.qos is None:
        return "jobs name a QoS here, by a rule of the site's own"
    return f"the partition {chosen.partition.name} requires one of its own QoS (AllowQos)"


def _tables(
    slurm: SlurmProbe, account: str, queues: Iterable[QueueFact], cpu: QueueFact | None, *, by_qos: bool
) -> tuple[str, tuple[tuple[dict[str, Any], str], ...]]:
    """The CPU queue's name, and the queues as tables of the profile."""
    tables = []
    for queue in queues:
        tables.append((_table(queue, queue.name, by_qos=by_qos), _queue_source(queue)))
    cpu_name = ""
    if cpu is not None:
        cpu_name = cpu.name
        if by_qos and not cpu.qos:
            mine = [item for item in slurm.associations or () if item.account == account and item.default_qos]
            cpu_name = mine[0].default_qos if mine else "normal"
        if cpu_name in {table["name"] for table, _ in tables}:
            return "", tuple(tables)
        tables.append((_table(cpu, cpu_name, by_qos=by_qos), _queue_source(cpu)))
    return cpu_name, tuple(tables)


def _table(queue: QueueFact, name: str, *, by_qos: bool) -> dict[str, Any]:
    table = {
        "name": name,
        "devices": queue.devices,
        "max_minutes": queue.max_minutes,
        "max_nodes": queue.partition.max_nodes,
        "max_submit_per_user": queue.max_submit,
        "max_running_per_user": queue.max_running,
        "partition": queue.partition.name if by_qos else "",
    }
    return {key: value for key, value in table.items() if value not in (None, "")}


def _queue_source(queue: QueueFact) -> str:
    limits = ", sacctmgr show qos" if queue.qos or queue.max_submit else ""
    return (
        f"scontrol show partition{limits}"
        if queue.partition.nodes_from != "sinfo" or limits
        else ("scontrol show partition, sinfo")
    )


def _node_values(chosen: QueueFact | None, cpu: QueueFact | None) -> tuple[tuple[str, Any, str], ...]:
    node = chosen.partition if chosen else None
    if node is None or not node.cpus:
        return ()
    source = f"{node.nodes_from}, partition {node.name}"
    gpus = node.gpus or 1
    least = min([node.cpus, *([cpu.partition.cpus] if cpu and cpu.partition.cpus else [])])
    kind = f"; GPUs of the type {node.gpu_type}" if node.gpu_type else ""
    memory = None if not node.memory_mb else round(node.memory_mb / 1024)
    smaller = (
        f"{source}" if least == node.cpus else f"the smaller nodes of the CPU queue {cpu.name if cpu else ''}"
    )
    return (
        ("gres", "gpu", f"{source}{kind}"),
        ("gpus_per_node", gpus, source),
        ("cpus_per_node", least, smaller),
        ("cpus_per_gpu", max(1, node.cpus // gpus), f"{node.cpus} CPUs shared by {gpus} GPUs"),
        ("memory_gb_per_node", memory, source),
    )


def _data(site: SiteProbe, choices: Choices) -> tuple[str, str]:
    if choices.data_dir:
        return choices.data_dir, "as given; `labtui doctor` looks whether it is complete"
    if site.data:
        return site.data[0], "found there"
    return f"cifar-utils/{DATA_FOLDER}", "not found; put it here, below your home directory"


def _launch(site: SiteProbe, choices: Choices) -> tuple[tuple[str, Any, str], ...]:
    training = choices.training or ("" if site.tensorflow else (_training_options(site) or ("",))[0])
    if training.endswith((".sif", ".simg")):
        program = site.programs[0] if site.programs else "singularity"
        modules = [] if site.programs else _container_modules(site)
        source = "command -v" if site.programs else "module avail"
        return (
            ("purge", False, ""),
            ("modules", modules, source if modules else f"{program} is there without a module"),
            ("container", training, "as given" if choices.training else "found there"),
            ("runtime", program, source),
            ("python", "python", "inside the container"),
        )
    if training and "/" in training and re.search(r"python[\d.]*$", training):
        return (("purge", False, ""), ("python", training, "as given"))
    if training and training != PLAIN_PYTHON:
        return (("purge", False, ""), ("modules", training.split(), "as given"), ("python", PLAIN_PYTHON, ""))
    source = f"{site.python or 'python3'} of the login node"
    return (
        ("purge", False, ""),
        ("python", PLAIN_PYTHON, f"{source}{', with TensorFlow' * site.tensorflow}"),
    )


def _container_modules(site: SiteProbe) -> list[str]:
    return [
        name for name in ("singularity", "apptainer") if any(m.split("/")[0] == name for m in site.modules)
    ][:1]


def _notes(slurm: SlurmProbe, site: SiteProbe, *, by_qos: bool) -> Iterable[str]:
    """What else the site told and a student may want to know."""
    if slurm.version_text:
        yield f"{slurm.version_text}."
    if site.programs:
        yield f"Containers: {', '.join(site.programs)}."
    if site.modules:
        yield f"Modules that may help: {', '.join(site.modules[:8])}."
    granted = dict.fromkeys(name for item in slurm.associations or () for name in item.qos)
    if not by_qos and len(granted) > 1:
        yield f"QoS open to you (qos in lab.toml chooses one): {', '.join(granted)}."
    memory = number(site.config.get("DefMemPerCPU", ""))
    if memory is not None:
        yield f"A job gets {memory / 1024:.1f} GB for each CPU unless it asks for more (DefMemPerCPU)."


def _unknown(slurm: SlurmProbe, site: SiteProbe, chosen: QueueFact | None) -> Iterable[str]:
    """What the site did not tell, as sentences."""
    for program, reason in site.refused.items():
        yield f"`{program}` was refused: {reason}"
    if slurm.associations is None:
        yield "Your accounts and QoS: sacctmgr gave no answer."
    if chosen is None:
        yield "No partition with GPUs that is up and open to you was found."
    elif not chosen.partition.cpus:
        yield f"How many CPUs and GPUs a node of {chosen.partition.name} has."
    plugins = site.config.get("JobSubmitPlugins", "(null)")
    if plugins not in {"(null)", ""}:
        yield f"The site checks jobs with its own rules (job_submit plugin {plugins}), which labtui cannot read."
