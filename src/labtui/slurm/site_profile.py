"""Makes a profile from a cluster's answers: each value with its source, and the questions that remain for the student.

What Slurm tells is written as it is and never asked; what it cannot know is asked; what it did not tell is listed in
`unknown`, so that no guess passes for a fact. The student edits the rest.
"""

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from labtui.domain.errors import UsageError
from labtui.domain.profile import CONTAINER_IMAGES, DATA_FOLDER, check_image
from labtui.domain.terminal_text import inert
from labtui.slurm.probe import SlurmProbe
from labtui.slurm.site_probe import CONTAINER_PROGRAMS, SitePartition, SiteProbe
from labtui.slurm.states import sentences
from labtui.slurm.values import number

PLAIN_PYTHON = "python3"
FRAMEWORKS = {"tensorflow": "TensorFlow", "torch": "PyTorch"}
"""The Python modules that labs train with, and their names."""
_PYTHON = r"/.*python[0-9.]*$"
_CPU_QUEUE = "the default partition, or the first without GPUs"
QuestionKey = Literal["account", "queue", "qos", "data_dir", "training"]


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """What the student chose, in answers or options; "" for what was not chosen.

    `queue` names a partition for GPU jobs, `qos` a QoS. `training` is how to start Python with the lab's framework: a
    container image (``.sif``), a module, or the path of a Python interpreter. The lab chooses `framework`, and `data`,
    what its data folder holds (CIFAR-10's folder, or names of image folders); each is "" where it needs none.
    """

    account: str = ""
    queue: str = ""
    qos: str = ""
    data_dir: str = ""
    training: str = ""
    framework: str = "tensorflow"
    data: str = DATA_FOLDER


class SiteQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question that Slurm could not answer. `key` is the field of `Choices`; Enter takes `default`."""

    key: QuestionKey
    text: str
    default: str
    options: tuple[str, ...] = ()

    def choose(self, answer: str) -> str:
        """The value of an answer: the default if it is empty, an option by its number, else the answer itself.

        Raises:
            ValueError: a number that no option has, an unknown QoS, a path of the container, or of `training`, that is
                not absolute.
        """
        words = answer.strip()
        chosen, names = number(words), [option.split(" (")[0] for option in self.options]
        if words.endswith(CONTAINER_IMAGES):
            check_image(words)
        elif self.key == "training" and words.startswith("/") and not re.search(_PYTHON, words):
            raise ValueError(f"{words} is neither a container image (.sif) nor a python")
        if chosen is None and words not in names and self.key == "qos" and words:
            raise ValueError(f"{words} is not on the list")
        if chosen is None or not names or words in names:
            return words or self.default
        if not 0 < chosen <= len(names):
            raise ValueError(f"{chosen} is not on the list (1 to {len(names)})")
        return names[chosen - 1]


class SiteQueue(NamedTuple):
    """A queue that this account may use: a partition, and the QoS that jobs in it must name ("" for none).

    `limits` uses the field names of a profile's queue.
    """

    partition: SitePartition
    qos: str
    limits: dict[str, int]

    @property
    def name(self) -> str:
        return self.qos or self.partition.name

    @property
    def words(self) -> str:
        """The queue in one line, for a list to choose from."""
        minutes = self.limits.get("max_minutes")
        limit = f"at most {minutes} min" if minutes else "no time limit known"
        limit = f"at most {minutes // 60} h" if minutes and not minutes % 60 else limit
        gpus = f", {self.partition.gpus} GPUs a node" if self.partition.gpus else ""
        return f"{self.name} ({limit}{gpus})"


# --------------------------------------------------------------------------- accounts and queues


def accounts(slurm: SlurmProbe, site: SiteProbe) -> tuple[str, ...]:
    """This user's accounts that may use a GPU queue; all accounts if none may."""
    names = tuple(dict.fromkeys(item.account for item in slurm.associations or ()))
    return tuple(name for name in names if queues(slurm, site, name, gpus=True)) or names


def queues(slurm: SlurmProbe, site: SiteProbe, account: str, *, gpus: bool) -> tuple[SiteQueue, ...]:
    """The queues open to the account, with GPUs or (`gpus` False) without, in Slurm's order."""
    granted, default = set(_granted_qos(slurm, account)), _default_qos(slurm, account)
    found = []
    for partition in site.partitions:
        closed = partition.accounts is not None and account and account not in partition.accounts
        if not partition.up or closed or bool(partition.gpus) != gpus:
            continue
        allowed = partition.qos
        if allowed is None or (granted and default in allowed):
            allowed = ("",)
        names = (name for name in allowed if not name or not granted or name in granted)
        found += [SiteQueue(partition, name, _limits(slurm, partition, name or default)) for name in names]
    return tuple(found)


def _limits(slurm: SlurmProbe, partition: SitePartition, qos: str) -> dict[str, int]:
    known = next((item for item in slurm.qos or () if item.name == qos), None)
    walls = (partition.max_seconds, known.max_wall_s if known else None)
    limits = {
        "max_minutes": min((int(wall // 60) for wall in walls if wall), default=None),
        "max_nodes": partition.max_nodes,
        "max_submit_per_user": known.max_submit_per_user if known else None,
        "max_running_per_user": known.max_jobs_per_user if known else None,
    }
    return {name: limit for name, limit in limits.items() if limit is not None}


def _granted_qos(slurm: SlurmProbe, account: str) -> tuple[str, ...]:
    """The QoS granted to the account ("": to any account of the user)."""
    mine = (item.qos for item in slurm.associations or () if account in ("", item.account))
    return tuple(dict.fromkeys(name for names in mine for name in names))


def _default_qos(slurm: SlurmProbe, account: str) -> str:
    mine = (item.default_qos for item in slurm.associations or () if account in ("", item.account))
    return next((name for name in mine if name), "normal")


# --------------------------------------------------------------------------- questions


def questions(slurm: SlurmProbe, site: SiteProbe, choices: Choices) -> Iterator[SiteQuestion]:
    """The open questions, in the order to ask. Each answer, put into `choices`, may change those that follow.

    Raises:
        UsageError: Slurm listed its partitions, and the chosen one is not among those for GPU jobs.
    """
    names = accounts(slurm, site)
    if not choices.account and len(names) != 1:
        default = account_of(slurm, site, choices) or next(iter(names), "")
        yield _question("account", default, names, "account" if names else "no-account")
    account = account_of(slurm, site, choices)
    found, others = (queues(slurm, site, account, gpus=gpus) for gpus in (True, False))
    fitting = found or sorted(others, key=lambda queue: not queue.partition.default)
    unknown = (queue for queue in others if queue.partition.gpus is None)
    if choices.queue and fitting and _pick((*fitting, *unknown), Choices(queue=choices.queue)) is None:
        why = _why_closed(choices.queue, site.partitions)
        known = [queue.name for queue in fitting]
        near = difflib.get_close_matches(choices.queue, known, n=1) or known
        raise UsageError(f"{why}; yours: {', '.join(known)}.", f"--partition {near[0]}")
    if not choices.queue and len(found) != 1 and _pick(found, choices) is None:
        default, options = fitting[0].name if fitting else "", tuple(queue.words for queue in fitting)
        yield _question("queue", default, options, "queue" if found else "no-queue")
    found_data = _data(site, choices)
    if choices.data and not choices.data_dir and len(found_data) != 1:
        text = "data_dir" if choices.data == DATA_FOLDER else "images"
        yield _question("data_dir", next(iter(found_data), ""), found_data, text, data=choices.data)
    if choices.framework and not choices.training and not site.framework:
        options, name = _training_options(site, choices), FRAMEWORKS[choices.framework]
        yield _question("training", next(iter(options), PLAIN_PYTHON), options, framework=name)


def _why_closed(name: str, partitions: Iterable[SitePartition]) -> str:
    partition = next((each for each in partitions if each.name == name), None)
    if partition is None:
        return f"There is no partition {name} here"
    why = "has no GPUs" if partition.gpus == 0 else "is not open to your account"
    return f"The partition {name} {why if partition.up else 'is down'}"


def _question(
    key: QuestionKey, default: str, options: tuple[str, ...], text: str = "", **words: str
) -> SiteQuestion:
    said = sentences()["questions"][text or key].format(**words)
    return SiteQuestion(key=key, text=said, default=default, options=options)


def qos_question(slurm: SlurmProbe, account: str) -> SiteQuestion | None:
    """The question which QoS to name, for a site that refuses jobs without one, which no setting shows."""
    names, known = _granted_qos(slurm, account), {each.name: each.words for each in slurm.qos or ()}
    options = tuple(f"{name} ({known[name]})" if name in known else name for name in names)
    return _question("qos", names[0], options) if names else None


def account_of(slurm: SlurmProbe, site: SiteProbe, choices: Choices) -> str:
    """The chosen account, else the only usable one, else the default one if usable, else ""."""
    names = accounts(slurm, site)
    if choices.account or len(names) == 1:
        return choices.account or names[0]
    return site.default_account if site.default_account in names else ""


def _pick(found: Iterable[SiteQueue], choices: Choices) -> SiteQueue | None:
    """The queue that the student named, by its partition or its QoS."""
    wanted = {choices.queue, choices.qos} - {""}
    return next((queue for queue in found if queue.name in wanted or queue.partition.name in wanted), None)


def _training_options(site: SiteProbe, choices: Choices) -> tuple[str, ...]:
    modules = tuple(name for name in site.modules if choices.framework in name.lower())
    return (*site.containers, *sorted(modules, reverse=True)[:5])


# --------------------------------------------------------------------------- the profile


def site_profile(
    host: str, slurm: SlurmProbe, site: SiteProbe, choices: Choices, day: str = ""
) -> tuple[str, tuple[str, ...]]:
    """The profile of this cluster for this user as TOML, and what the site did not tell, as sentences.

    `host` is the login host as the student wrote it, `day` the date.
    """
    account = account_of(slurm, site, choices)
    gpu_queues, cpu_queues = (queues(slurm, site, account, gpus=gpus) for gpus in (True, False))
    chosen = _pick(gpu_queues, choices) or (gpu_queues[0] if gpu_queues and not choices.queue else None)
    by_qos = bool(chosen and chosen.qos)
    gpu_name = chosen.name if chosen else choices.queue
    cpu = next((queue for queue in cpu_queues if queue.partition.default), next(iter(cpu_queues), None))
    picked = None if gpu_queues else _pick(cpu_queues, choices)
    nodes = chosen or (None if gpu_queues else picked or cpu)
    # without a GPU here, the choice is for CPU jobs
    cpu = picked if picked and picked.partition.gpus == 0 else cpu
    cpu_name = cpu.name if cpu else gpu_name
    cpu_source = _CPU_QUEUE if cpu else "the GPU queue: no other was found"
    if cpu and by_qos and not cpu.qos:  # if GPU jobs name a QoS, CPU jobs name the account's default one
        cpu_name, cpu_source = _default_qos(slurm, account), "the account's default QoS"
    elif cpu and cpu is picked and not cpu.partition.default:
        cpu_source = "as chosen"
    named = (queue for queue in cpu_queues if queue.qos or not by_qos)  # whichever a job there names
    tables = {queue.name: queue for queue in (*gpu_queues, *named)}
    if cpu:
        tables.setdefault(cpu_name, cpu)
    if chosen and not by_qos:  # `qos` in lab.toml may name any of these, for jobs with GPUs or without
        partition = replace(chosen.partition, gpus=None, largest=None)
        for name in _granted_qos(slurm, account):
            tables.setdefault(name, SiteQueue(partition, name, _limits(slurm, partition, name)))
    unknown, cluster = tuple(_gaps(slurm, site, chosen, choices)), site.config.get("ClusterName", "")
    data_dir = choices.data_dir or next(iter(_data(site, choices)), "")
    source = "as chosen" if gpu_queues else "no partition with GPUs was found"
    lines = [
        *(f"# Not known: {sentence}" for sentence in unknown),
        "",
        _toml("id", re.sub(r"[^a-z0-9-]+", "-", (cluster or host).lower()).strip("-") or "cluster"),
        _toml("title", cluster or host, "scontrol show config" if cluster else "the login host"),
        _toml("login_hosts", [host], "as given"),
        _toml("default_account", account, "as chosen" if choices.account else "sacctmgr show assoc"),
        _toml("queue_option", "qos" if by_qos else "partition", "what a job names (its AllowQos)"),
        _toml("gpu_queue", gpu_name, "the first with GPUs" if chosen in gpu_queues[:1] else source),
        _toml("cpu_queue", cpu_name, cpu_source),
        *(_node_lines(nodes.partition, (cpu or nodes).partition) if nodes else ()),
        _toml("root", "labtui", "below your home directory; a path from / names another place"),
        _toml("data_dir", data_dir, "`labtui doctor` looks whether it is complete"),
        _toml("notes", list(_notes(slurm, site, by_qos=by_qos)), "more facts about the site"),
        "",
        "[launch]",
        _toml("purge", False),
        *_launch_lines(site, choices),
        *(line for name, queue in tables.items() for line in _queue_lines(name, queue, by_qos=by_qos)),
    ]
    head = f"# Read from {host} by labtui on {day}. Correct what is wrong."
    kept = (inert(line) for line in (head, *lines) if not line.endswith(("= []", '= ""')))
    return "\n".join((*kept, "")), unknown


def _queue_lines(name: str, queue: SiteQueue, *, by_qos: bool) -> Iterator[str]:
    """The table of a queue; `by_qos`: jobs name its QoS, so the table names its partition."""
    yield from ("", "[[queues]]  # scontrol show partition, sacctmgr show qos", _toml("name", name))
    yield _toml("devices", {None: "", 0: "cpu"}.get(queue.partition.gpus, "gpu"))
    yield _toml("partition", queue.partition.name if by_qos else "")
    yield from (_toml(limit, value) for limit, value in queue.limits.items())
    if queue.partition.largest:
        cpus, gpus = queue.partition.largest
        yield from (_toml("cpus_per_node", cpus, "the largest node"), _toml("gpus_per_node", gpus))


def _toml(key: str, value: Any, source: str = "") -> str:
    """A line of TOML, with the source of the value as a comment unless the value is empty."""
    text = f"{key} = {json.dumps(value, ensure_ascii=False)}"
    return f"{text}  # {source}" if source and value not in ("", []) else text


def _node_lines(gpu: SitePartition, cpu: SitePartition) -> Iterator[str]:
    if not gpu.cpus or gpu.gpus is None:
        return
    source, gpus = f"{gpu.nodes_from}, partition {gpu.name}", gpu.gpus
    yield _toml("gres", "gpu", source)
    yield _toml("gpus_per_node", gpus, source)
    yield _toml("cpus_per_node", min(gpu.cpus, cpu.cpus or gpu.cpus), "the smaller nodes of both queues")
    if gpus:
        yield _toml("cpus_per_gpu", max(1, gpu.cpus // gpus), f"{gpu.cpus} CPUs shared by {gpus} GPUs")


def _data(site: SiteProbe, choices: Choices) -> tuple[str, ...]:
    """The folders that were found with the lab's data; only CIFAR-10 is looked for."""
    return site.data if choices.data == DATA_FOLDER else ()


def _launch_lines(site: SiteProbe, choices: Choices) -> Iterator[str]:
    options = () if site.framework or not choices.framework else _training_options(site, choices)
    training = choices.training or next(iter(options), "")
    source = "as given" if choices.training else "found there"
    if training.endswith(CONTAINER_IMAGES):
        families = {name.partition("/")[0] for name in site.modules}
        loaders = [name for name in CONTAINER_PROGRAMS if name in families and not site.programs]
        yield _toml("modules", loaders[:1], "module avail")
        yield _toml("runtime", site.programs[0] if site.programs else "singularity", "command -v")
        yield _toml("python", "python", "inside the container")
        if choices.framework == "torch":
            yield from ("", "[containers]", _toml("pytorch", training, source))
        else:
            yield _toml("container", training, source)
    elif re.search(_PYTHON, training):
        yield _toml("python", training, source)
    else:
        modules = training.split() if training != PLAIN_PYTHON else []
        yield _toml("modules", modules, source)
        with_framework = f", with {FRAMEWORKS[choices.framework]}" if site.framework else ""
        found = f"{site.python or 'python3'} of the login node{with_framework}"
        yield _toml("python", PLAIN_PYTHON, "" if modules else found)


def _notes(slurm: SlurmProbe, site: SiteProbe, *, by_qos: bool) -> Iterator[str]:
    """Further facts about the site that a student may need."""
    if site.modules:
        yield f"Modules that may help: {', '.join(site.modules[:8])}."
    granted = _granted_qos(slurm, "")
    if not by_qos and len(granted) > 1:
        yield f"QoS open to you (qos in lab.toml chooses one): {', '.join(granted)}."


def _gaps(slurm: SlurmProbe, site: SiteProbe, chosen: SiteQueue | None, choices: Choices) -> Iterator[str]:
    """What neither the site nor the student told, as sentences."""
    if choices.data and not choices.data_dir and not _data(site, choices):
        yield f"Where the data are ({choices.data}): write data_dir in cluster.toml, the absolute path."
    for program, reason in site.refused.items():
        yield f"`{program}` was refused: {reason}"
    if slurm.associations is None:
        yield "Your accounts and QoS: sacctmgr gave no answer."
    if chosen is None:
        yield "No partition with GPUs that is up and open to you was found."
    elif not chosen.partition.cpus:
        yield f"How many CPUs and GPUs a node of {chosen.partition.name} has."
    if (plugins := site.config.get("JobSubmitPlugins", "(null)")) not in {"(null)", ""}:
        yield f"The site checks jobs with its own rules (job_submit plugin {plugins}), which labtui cannot read."
