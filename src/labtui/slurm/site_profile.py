"""From what a cluster told to a profile: each value with where it came from, and the questions that stay open.

Pure. What Slurm knows is written down in its own order and never asked; what it cannot know is asked, and what it did
not tell is listed in `unknown`: nobody shall take a guess for a fact. The student edits the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from labtui.slurm.probe import SlurmProbe
from labtui.slurm.site_probe import DATA_FOLDER, SitePartition, SiteProbe
from labtui.slurm.values import number

PLAIN_PYTHON = "python3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the student chose, in answers or options; "" means: nothing.

    `queue` names a partition for GPU jobs, `qos` a QoS. `training` is how Python with TensorFlow is started: a
    container image (``.sif``), a module, or the path of a python.
    """

    account: str = ""
    queue: str = ""
    qos: str = ""
    data_dir: str = ""
    training: str = ""

    def with_answer(self, key: str, value: str) -> Choices:
        """The choices with the answer to a `SiteQuestion`."""
        return replace(self, **{key: value})


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteQuestion:
    """A question that Slurm could not answer. `key` is the field of `Choices`; Enter takes `default`."""

    key: Literal["account", "queue", "qos", "data_dir", "training"]
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


def accounts(slurm: SlurmProbe, site: SiteProbe) -> tuple[str, ...]:
    """The accounts of this user that reach a GPU queue; all of them where none does."""
    names = tuple(dict.fromkeys(item.account for item in slurm.associations or ()))
    return tuple(name for name in names if queues(slurm, site, name, gpus=True)) or names


def queues(slurm: SlurmProbe, site: SiteProbe, account: str, *, gpus: bool) -> tuple[QueueFact, ...]:
    """The queues open to the account whose nodes have GPUs, or have none; in Slurm's order."""
    found = []
    for partition in site.partitions:
        closed = partition.accounts is not None and account and account not in partition.accounts
        if partition.up and not closed and bool(partition.gpus) == gpus:
            found += [_queue(slurm, partition, qos) for qos in _qos_names(slurm, account, partition)]
    return tuple(found)


def _queue(slurm: SlurmProbe, partition: SitePartition, qos: str) -> QueueFact:
    limits = next((item for item in slurm.qos or () if item.name == (qos or "normal")), None)
    walls = [partition.max_seconds, limits.max_wall_s if limits else None]
    seconds = min((wall for wall in walls if wall), default=None)
    return QueueFact(
        partition=partition,
        devices="gpu" if partition.gpus else "cpu",
        qos=qos,
        max_minutes=int(seconds // 60) if seconds else None,
        max_submit=limits.max_submit_per_user if limits else None,
        max_running=limits.max_jobs_per_user if limits else None,
    )


def _qos_names(slurm: SlurmProbe, account: str, partition: SitePartition) -> tuple[str, ...]:
    """The QoS a job in this partition has to name; ("",) where it need not name one, () where none is open."""
    if partition.qos is None:
        return ("",)
    mine = [item for item in slurm.associations or () if not account or item.account == account]
    granted = {name for item in mine for name in item.qos}
    default = next((item.default_qos for item in mine if item.default_qos), "normal")
    if granted and default in partition.qos:
        return ("",)
    return tuple(name for name in partition.qos if not granted or name in granted)


# --------------------------------------------------------------------------- what has to be asked


def questions(slurm: SlurmProbe, site: SiteProbe, choices: Choices) -> tuple[SiteQuestion, ...]:
    """What neither Slurm nor an option answers, in the order to ask. Each answer may change what follows."""
    found = []
    names = accounts(slurm, site)
    if not choices.account and len(names) != 1:
        default = site.default_account if site.default_account in names else (names[0] if names else "")
        text = "Which account shall jobs be charged to?"
        if not names:
            text = "Which account shall jobs be charged to (empty: the cluster's default)?"
        found.append(SiteQuestion(key="account", text=text, default=default, options=names))
    open_queues = queues(slurm, site, account_of(slurm, site, choices), gpus=True)
    if not choices.queue and len(open_queues) != 1 and _chosen(open_queues, choices) is None:
        text = "Which queue shall GPU jobs go to?"
        if not open_queues:
            text = "No partition with GPUs was found. Which partition shall GPU jobs go to?"
        options = tuple(queue.words for queue in open_queues)
        default = open_queues[0].name if open_queues else ""
        found.append(SiteQuestion(key="queue", text=text, default=default, options=options))
    if not choices.data_dir and len(site.data) != 1:
        found.append(
            SiteQuestion(
                key="data_dir",
                text=f"Where on the cluster are the CIFAR-10 pickles ({DATA_FOLDER})? The whole path; your teacher "
                "knows it, or unpack https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz there.",
                default=site.data[0] if site.data else f"{site.home or '$HOME'}/cifar-utils/{DATA_FOLDER}",
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


def qos_question(slurm: SlurmProbe, account: str) -> SiteQuestion | None:
    """Which QoS jobs name, where Slurm refused one without: a rule of the site that no setting shows."""
    mine = (item.qos for item in slurm.associations or () if not account or item.account == account)
    names = tuple(dict.fromkeys(name for qos in mine for name in qos))
    if not names:
        return None
    text = "Jobs have to name a QoS here. Which one shall GPU jobs name?"
    return SiteQuestion(key="qos", text=text, default=names[0], options=names)


def account_of(slurm: SlurmProbe, site: SiteProbe, choices: Choices) -> str:
    """The account as chosen, or the only one that is of use, or the default one."""
    names = accounts(slurm, site)
    if choices.account or len(names) == 1:
        return choices.account or names[0]
    return site.default_account if site.default_account in names else ""


def _chosen(found: Iterable[QueueFact], choices: Choices) -> QueueFact | None:
    """The queue that the student named, by partition or by a QoS that belongs to one."""
    wanted = {choices.queue, choices.qos} - {""}
    return next((queue for queue in found if queue.name in wanted or queue.partition.name in wanted), None)


def _training_options(site: SiteProbe) -> tuple[str, ...]:
    modules = tuple(name for name in site.modules if "tensorflow" in name.lower())
    return (*site.containers, *sorted(modules, reverse=True)[:5])


# --------------------------------------------------------------------------- the profile


def site_profile(host: str, slurm: SlurmProbe, site: SiteProbe, choices: Choices) -> SiteProfile:
    """The profile of this cluster for this user. `host` is the login host as the student names it."""
    account = account_of(slurm, site, choices)
    gpu_queues = queues(slurm, site, account, gpus=True)
    cpu_queues = queues(slurm, site, account, gpus=False)
    chosen = _chosen(gpu_queues, choices)
    if chosen is None and gpu_queues and not choices.queue:
        chosen = gpu_queues[0]
    by_qos = bool(chosen and chosen.qos)
    cpu = next((queue for queue in cpu_queues if queue.partition.default), None) or next(
        iter(cpu_queues), None
    )
    gpu_name = chosen.name if chosen else choices.queue
    cpu_name = _cpu_name(slurm, account, cpu, by_qos=by_qos) or gpu_name
    name = re.sub(r"[^a-z0-9-]+", "-", (site.cluster or host).lower()).strip("-") or "cluster"
    values = (
        ("id", name, ""),
        ("title", site.cluster or host, "scontrol show config" if site.cluster else "the login host"),
        ("login_hosts", [host], "as given"),
        ("default_account", account, "as chosen" if choices.account else "sacctmgr show assoc"),
        ("queue_option", "qos" if by_qos else "partition", _option_source(chosen)),
        ("gpu_queue", gpu_name, "as chosen" if choices.queue or choices.qos else "the first with GPUs"),
        (
            "cpu_queue",
            cpu_name,
            "the default partition" if cpu and cpu.partition.default else "see the queues below",
        ),
        *_node_values(chosen, cpu if cpu_name != gpu_name else None),
        ("root", "labtui", "below your home directory; a path from / names another place"),
        ("data_dir", *_data(site, choices)),
        ("notes", list(_notes(slurm, site, by_qos=by_qos)) or None, "more facts about the site"),
    )
    tables = [(_table(queue, queue.name, by_qos=by_qos), _queue_source(queue)) for queue in gpu_queues]
    if cpu is not None and cpu_name not in {table["name"] for table, _ in tables}:
        tables.append((_table(cpu, cpu_name, by_qos=by_qos), _queue_source(cpu)))
    return SiteProfile(
        values=tuple((key, value, source) for key, value, source in values if value not in ("", None)),
        launch=_launch(site, choices),
        queues=tuple(tables),
        unknown=tuple(_unknown(slurm, site, chosen)),
    )


def _cpu_name(slurm: SlurmProbe, account: str, cpu: QueueFact | None, *, by_qos: bool) -> str:
    """The CPU queue as jobs name it: where GPU jobs name a QoS, the account's own one."""
    if cpu is None or cpu.qos or not by_qos:
        return cpu.name if cpu else ""
    mine = (
        item.default_qos for item in slurm.associations or () if item.account == account and item.default_qos
    )
    return next(mine, "normal")


def _option_source(chosen: QueueFact | None) -> str:
    if chosen is None or not chosen.qos:
        return "a job names its partition; --qos stays free for your own choice"
    return f"the partition {chosen.partition.name} requires one of its own QoS (AllowQos)"


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
    return (
        f"{site.home or '$HOME'}/cifar-utils/{DATA_FOLDER}",
        "not found; put the files here, or name their place",
    )


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
    if training and "/" in training and re.search(r"python[0-9.]*$", training):
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
