"""From what a cluster told to a profile: each value with where it came from, and the questions that stay open.

Pure. What Slurm knows is written down in its own order and never asked; what it cannot know is asked, and what it did
not tell is listed in `unknown`: nobody shall take a guess for a fact. The student edits the rest.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from labtui.domain.terminal_text import inert
from labtui.slurm.probe import SlurmProbe
from labtui.slurm.site_probe import CONTAINER_PROGRAMS, DATA_FOLDER, SitePartition, SiteProbe
from labtui.slurm.states import sentences
from labtui.slurm.values import number

PLAIN_PYTHON = "python3"
QuestionKey = Literal["account", "queue", "qos", "data_dir", "training"]


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """What the student chose, in answers or options; "" means: nothing.

    `queue` names a partition for GPU jobs, `qos` a QoS. `training` is how Python with TensorFlow is started: a
    container image (``.sif``), a module, or the path of a python.
    """

    account: str = ""
    queue: str = ""
    qos: str = ""
    data_dir: str = ""
    training: str = ""


class SiteQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question that Slurm could not answer. `key` is the field of `Choices`; Enter takes `default`."""

    key: QuestionKey
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


class SiteQueue(NamedTuple):
    """A queue that this account may use: a partition, the QoS that has to be named with it ("" for none), its limits.

    `limits` are those of a profile's queue, by their names there.
    """

    partition: SitePartition
    qos: str
    limits: dict[str, int]

    @property
    def name(self) -> str:
        return self.qos or self.partition.name

    @property
    def words(self) -> str:
        """The queue in a line, for a person who chooses."""
        minutes = self.limits.get("max_minutes")
        limit = f"at most {minutes} min" if minutes else "no time limit known"
        gpus = f", {self.partition.gpus} GPUs a node" if self.partition.gpus else ""
        return f"{self.name} ({limit}{gpus})"


class SiteProfile(NamedTuple):
    """A profile to write, as TOML, each value with where it came from; and what the site did not tell, as sentences."""

    text: str
    unknown: tuple[str, ...]


# --------------------------------------------------------------------------- what this user may use


def accounts(slurm: SlurmProbe, site: SiteProbe) -> tuple[str, ...]:
    """The accounts of this user that reach a GPU queue; all of them where none does."""
    names = tuple(dict.fromkeys(item.account for item in slurm.associations or ()))
    return tuple(name for name in names if queues(slurm, site, name, gpus=True)) or names


def queues(slurm: SlurmProbe, site: SiteProbe, account: str, *, gpus: bool) -> tuple[SiteQueue, ...]:
    """The queues open to the account whose nodes have GPUs, or have none; in Slurm's order."""
    granted = set(_granted(slurm, account))
    found = []
    for partition in site.partitions:
        closed = partition.accounts is not None and account and account not in partition.accounts
        if not partition.up or closed or bool(partition.gpus) != gpus:
            continue
        allowed = partition.qos
        if allowed is None or (granted and _default_qos(slurm, account) in allowed):
            allowed = ("",)
        names = (name for name in allowed if not name or not granted or name in granted)
        found += [SiteQueue(partition, name, _limits(slurm, partition, name)) for name in names]
    return tuple(found)


def _limits(slurm: SlurmProbe, partition: SitePartition, qos: str) -> dict[str, int]:
    known = next((item for item in slurm.qos or () if item.name == (qos or "normal")), None)
    walls = (partition.max_seconds, known.max_wall_s if known else None)
    limits = {
        "max_minutes": min((int(wall // 60) for wall in walls if wall), default=None),
        "max_nodes": partition.max_nodes,
        "max_submit_per_user": known.max_submit_per_user if known else None,
        "max_running_per_user": known.max_jobs_per_user if known else None,
    }
    return {name: limit for name, limit in limits.items() if limit is not None}


def _granted(slurm: SlurmProbe, account: str) -> tuple[str, ...]:
    """The QoS that the account has ("": any account of the user)."""
    mine = (item.qos for item in slurm.associations or () if account in ("", item.account))
    return tuple(dict.fromkeys(name for names in mine for name in names))


def _default_qos(slurm: SlurmProbe, account: str) -> str:
    mine = (item.default_qos for item in slurm.associations or () if account in ("", item.account))
    return next((name for name in mine if name), "normal")


# --------------------------------------------------------------------------- what has to be asked


def questions(slurm: SlurmProbe, site: SiteProbe, choices: Choices) -> Iterator[SiteQuestion]:
    """What neither Slurm nor an option answers, in the order to ask. Each answer may change what follows."""
    names = accounts(slurm, site)
    if not choices.account and len(names) != 1:
        default = site.default_account if site.default_account in names else next(iter(names), "")
        yield _question("account", default, names, "account" if names else "no-account")
    found = queues(slurm, site, account_of(slurm, site, choices), gpus=True)
    if not choices.queue and len(found) != 1 and _chosen(found, choices) is None:
        default = found[0].name if found else ""
        options = tuple(queue.words for queue in found)
        yield _question("queue", default, options, "queue" if found else "no-queue")
    if not choices.data_dir and len(site.data) != 1:
        yield _question("data_dir", _data(site), site.data)
    if not choices.training and not site.tensorflow:
        options = _training_options(site)
        yield _question("training", next(iter(options), PLAIN_PYTHON), options)


def _question(key: QuestionKey, default: str, options: tuple[str, ...], text: str = "") -> SiteQuestion:
    return SiteQuestion(key=key, text=sentences()["questions"][text or key], default=default, options=options)


def qos_question(slurm: SlurmProbe, account: str) -> SiteQuestion | None:
    """Which QoS jobs name, where Slurm refused one without: a rule of the site that no setting shows."""
    names = _granted(slurm, account)
    return _question("qos", names[0], names) if names else None


def account_of(slurm: SlurmProbe, site: SiteProbe, choices: Choices) -> str:
    """The account as chosen, or the only one that is of use, or the default one."""
    names = accounts(slurm, site)
    if choices.account or len(names) == 1:
        return choices.account or names[0]
    return site.default_account if site.default_account in names else ""


def _chosen(found: Iterable[SiteQueue], choices: Choices) -> SiteQueue | None:
    """The queue that the student named, by partition or by a QoS that belongs to one."""
    wanted = {choices.queue, choices.qos} - {""}
    return next((queue for queue in found if queue.name in wanted or queue.partition.name in wanted), None)


def _training_options(site: SiteProbe) -> tuple[str, ...]:
    modules = tuple(name for name in site.modules if "tensorflow" in name.lower())
    return (*site.containers, *sorted(modules, reverse=True)[:5])


# --------------------------------------------------------------------------- the profile


def site_profile(
    host: str, slurm: SlurmProbe, site: SiteProbe, choices: Choices, day: str = ""
) -> SiteProfile:
    """The profile of this cluster for this user. `host` is the login host as the student names it, `day` today."""
    account = account_of(slurm, site, choices)
    gpu_queues, cpu_queues = (queues(slurm, site, account, gpus=gpus) for gpus in (True, False))
    chosen = _chosen(gpu_queues, choices) or (gpu_queues[0] if gpu_queues and not choices.queue else None)
    by_qos = bool(chosen and chosen.qos)
    gpu_name = chosen.name if chosen else choices.queue
    cpu = next((queue for queue in cpu_queues if queue.partition.default), next(iter(cpu_queues), None))
    cpu_name = cpu.name if cpu else gpu_name
    if cpu and by_qos and not cpu.qos:  # where GPU jobs name a QoS, CPU jobs name the account's own one
        cpu_name = _default_qos(slurm, account)
    tables = {queue.name: queue for queue in gpu_queues}
    if cpu:
        tables.setdefault(cpu_name, cpu)
    unknown = tuple(_unknown(slurm, site, chosen))
    lines = [
        *(f"# Not known: {sentence}" for sentence in unknown),
        "",
        _pair("id", re.sub(r"[^a-z0-9-]+", "-", (site.cluster or host).lower()).strip("-") or "cluster"),
        _pair("title", site.cluster or host, "scontrol show config" if site.cluster else "the login host"),
        _pair("login_hosts", [host], "as given"),
        _pair("default_account", account, "as chosen" if choices.account else "sacctmgr show assoc"),
        _pair(
            "queue_option", "qos" if by_qos else "partition", "what a job names (AllowQos of the partition)"
        ),
        _pair("gpu_queue", gpu_name, "as chosen" if choices.queue or choices.qos else "the first with GPUs"),
        _pair("cpu_queue", cpu_name, "the default partition, or the first without GPUs"),
        *(_node(chosen.partition, cpu.partition if cpu else chosen.partition) if chosen else ()),
        _pair("root", "labtui", "below your home directory; a path from / names another place"),
        _pair("data_dir", choices.data_dir or _data(site), "`labtui doctor` looks whether it is complete"),
        _pair("notes", list(_notes(slurm, site, by_qos=by_qos)), "more facts about the site"),
        "",
        "[launch]",
        _pair("purge", False),
        *_launch(site, choices),
    ]
    for name, queue in tables.items():
        lines += ["", "[[queues]]  # scontrol show partition, sacctmgr show qos", _pair("name", name)]
        lines += [_pair("devices", "gpu" if queue.partition.gpus else "cpu")]
        lines += [_pair("partition", queue.partition.name if by_qos else "")]
        lines += [_pair(limit, value) for limit, value in queue.limits.items()]
    head = f"# Read from {host} by labtui on {day}. Correct what is wrong."
    kept = (inert(line) for line in (head, *lines) if not line.endswith(("= []", '= ""')))
    return SiteProfile("\n".join((*kept, "")), unknown)


def _pair(key: str, value: Any, source: str = "") -> str:
    """A line of TOML; a value that is not known stands without its source."""
    text = f"{key} = {json.dumps(value, ensure_ascii=False)}"
    return f"{text}  # {source}" if source and value not in ("", []) else text


def _node(gpu: SitePartition, cpu: SitePartition) -> Iterator[str]:
    if not gpu.cpus:
        return
    source, gpus = f"{gpu.nodes_from}, partition {gpu.name}", gpu.gpus or 1
    yield _pair("gres", "gpu", source)
    yield _pair("gpus_per_node", gpus, source)
    yield _pair("cpus_per_node", min(gpu.cpus, cpu.cpus or gpu.cpus), "the smaller nodes of both queues")
    yield _pair("cpus_per_gpu", max(1, gpu.cpus // gpus), f"{gpu.cpus} CPUs shared by {gpus} GPUs")


def _data(site: SiteProbe) -> str:
    """Where the data are, or may be put."""
    return site.data[0] if site.data else f"{site.home or '$HOME'}/cifar-utils/{DATA_FOLDER}"


def _launch(site: SiteProbe, choices: Choices) -> Iterator[str]:
    training = choices.training or ("" if site.tensorflow else (_training_options(site) or ("",))[0])
    source = "as given" if choices.training else "found there"
    if training.endswith((".sif", ".simg")):
        families = {name.partition("/")[0] for name in site.modules}
        loaders = [name for name in CONTAINER_PROGRAMS if name in families and not site.programs]
        yield _pair("modules", loaders[:1], "module avail")
        yield _pair("container", training, source)
        yield _pair("runtime", site.programs[0] if site.programs else "singularity", "command -v")
        yield _pair("python", "python", "inside the container")
    elif "/" in training and re.search(r"python[0-9.]*$", training):
        yield _pair("python", training, source)
    else:
        modules = training.split() if training != PLAIN_PYTHON else []
        yield _pair("modules", modules, source)
        found = f"{site.python or 'python3'} of the login node{', with TensorFlow' * site.tensorflow}"
        yield _pair("python", PLAIN_PYTHON, "" if modules else found)


def _notes(slurm: SlurmProbe, site: SiteProbe, *, by_qos: bool) -> Iterator[str]:
    """What else the site told and a student may want to know."""
    if site.modules:
        yield f"Modules that may help: {', '.join(site.modules[:8])}."
    granted = _granted(slurm, "")
    if not by_qos and len(granted) > 1:
        yield f"QoS open to you (qos in lab.toml chooses one): {', '.join(granted)}."


def _unknown(slurm: SlurmProbe, site: SiteProbe, chosen: SiteQueue | None) -> Iterator[str]:
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
