"""The profile of a cluster: hosts, queues, paths, how a training is started there, what is forbidden.

Profiles are TOML files (`labtui/profiles/*.toml`, or the student's own). What may change from one course to the next
is in them and not in code. Texts may contain ``{account}`` and ``{user}``.
"""

import math
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from labtui.domain.errors import failure
from labtui.domain.model import JobRequest

DATA_FOLDER = "cifar-10-batches-py"
"""CIFAR-10's folder, as its archive calls it."""
CONTAINER_IMAGES = (".sif", ".simg")
"""How the files of container images end."""
PLACE = re.compile(r"\{(account|user)\}")
"""What the texts of a profile leave open."""


def fill(text: str, places: Mapping[str, str]) -> str:
    """A profile's text with ``{account}`` and ``{user}`` replaced; one without a value stays as written."""
    return PLACE.sub(lambda match: places.get(match[1]) or match[0], text)


class QueueNames(NamedTuple):
    """How `sbatch` names a queue: `--qos` and `--partition`; an empty one is left out."""

    qos: str
    partition: str


class Queue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A QoS or partition, the `devices` of its jobs ("": either) and its known limits; None means unknown.

    `cpus_per_node` and `gpus_per_node` are those of its largest node.
    """

    name: str
    devices: Literal["cpu", "gpu", ""] = ""
    max_minutes: int | None = None
    max_nodes: int | None = None
    max_cpus: int | None = None
    cpus_per_node: int | None = None
    gpus_per_node: int | None = None
    max_submit_per_user: int | None = None
    max_running_per_user: int | None = None
    partition: str = ""
    note: str = ""


def check_image(path: str) -> None:
    """Raise ValueError for a container that is no absolute path: jobs run elsewhere, and Singularity knows no ``~``."""
    if path and not path.startswith("/"):
        raise ValueError(f"the container {path!r} must be an absolute path, beginning with /")


class Launch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a training is started inside a job.

    `modules` are loaded in order after ``module purge``; `container` is the image run with ``singularity exec --nv``
    (empty: plain `python`); `runtime` may name another program with the same arguments; `setup` are further shell
    lines; `env` is exported.
    """

    modules: tuple[str, ...] = ()
    purge: bool = True
    container: str = ""
    runtime: Literal["singularity", "apptainer"] = "singularity"
    python: str = "python"
    setup: tuple[str, ...] = ()
    env: dict[str, str] = {}


def image_folder(folder: str, data_set: str) -> str:
    """The path of a set of images in the data folder.

    Raises:
        TemplateError: the data folder is no absolute path; a relative one would start in the job's own directory.
    """
    if not folder.startswith("/"):
        raise failure("data-folder", data=data_set, folder=folder)
    return f"{folder.rstrip('/')}/{data_set}"


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cluster.

    `login_hosts` are tried in turn. `data_hosts` are for copies by hand (`scp`), where a site has separate hosts for
    them; labtui's own transfers are small and use its one connection.
    `status` is ``own`` for a profile that does not come with labtui: its numbers are known, the site's rules are not.
    `root` is labtui's remote directory, `data_dir` has the CIFAR-10 pickles, `datasets_dir` the image folders that an
    edition names. `containers` are images by framework (``pytorch``), for those that `container` lacks; `toolchains`
    are the modules to build and run programs with, by an edition's name for them (``mpi``).
    `gres` is the generic resource of GPUs (``gpu``); a job asks for `cpus_per_gpu` CPUs with each.
    `forbidden` are the `sbatch` options that the site refuses, each with the reason. `quota_command` prints the free
    space in a form that `labtui.slurm.probe` reads. Passwords are changed on `password_host`; `password_note` says
    what else to know. `host_keys` are the fingerprints (``SHA256:...``) by host, as published at `host_keys_source`;
    if there are none, the source says why. `support` is the address for questions.
    """

    id: str
    title: str
    login_hosts: tuple[str, ...]
    data_hosts: tuple[str, ...] = ()
    port: int | None = None
    user: str = ""
    status: Literal["current", "generic", "practice", "historical", "own"] = "own"
    account_pattern: str = ""
    default_account: str = ""
    cpu_queue: str = ""
    gpu_queue: str = ""
    queues: tuple[Queue, ...] = ()
    queue_option: Literal["qos", "partition"] = "qos"
    cpus_per_gpu: int = 1
    gpus_per_node: int = 1
    cpus_per_node: int = 1
    gres: str = "gpu"
    root: str = "labtui"
    data_dir: str = ""
    datasets_dir: str = ""
    container: str = ""
    containers: dict[str, str] = {}
    toolchains: dict[str, tuple[str, ...]] = {}
    launch: Launch = Launch()
    forbidden: dict[str, str] = {}
    quota_command: str = ""
    password_host: str = ""
    password_note: str = ""
    host_keys: dict[str, tuple[str, ...]] = {}
    host_keys_source: str = ""
    support: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for path in (self.container, self.launch.container, *self.containers.values()):
            check_image(path)

    def account_of(self, *chosen: str) -> str:
        """The account that a job is charged to: the first non-empty one of `chosen`, else the default; "" for none."""
        return next((account for account in chosen if account), self.default_account)

    def data_folder(self, *, images: bool) -> str:
        """The folder of CIFAR-10's files, looked for at home if it is not known.

        With `images` the one that has a folder for each set of images; "" if it is not known.
        """
        return self.datasets_dir or self.data_dir if images else self.data_dir or DATA_FOLDER

    def container_for(self, *, pytorch: bool) -> str:
        """The container image for PyTorch's trainings, or for TensorFlow's; "" for plain Python."""
        return self.containers.get("pytorch", "") if pytorch else self.launch.container or self.container

    @property
    def node_gpus(self) -> float:
        """The GPUs of a node; infinity if its nodes are not known."""
        known = not self.gpus_per_node or (self.status != "generic" and self.cpus_per_node > 1)
        return self.gpus_per_node if known else math.inf

    def in_queue(self, *names: str) -> "Profile":
        """The profile with the largest node of the first of these queues whose nodes are known.

        Slurm's partitions may differ: a profile that `init` wrote says nothing (one CPU) of nodes in others.
        """
        known = next((queue for queue in map(self.queue, names) if queue and queue.cpus_per_node), None)
        if known is not None:
            gpus, cpus = known.gpus_per_node or self.gpus_per_node, known.cpus_per_node or 1
            return replace(self, title=known.name, cpus_per_node=cpus, gpus_per_node=gpus)
        own = self.status == "own" and self.queue_option == "partition"
        return replace(self, cpus_per_node=1) if own and self.gpu_queue not in names else self

    def more_memory(self, job: JobRequest) -> str:
        """What helps a job that ran out of a node's memory; one without a number of CPUs has all of each node."""
        less = "keep fewer images in memory (.cache() in scripts), use a smaller batch or fewer workers."
        if not job.cpus or job.cpus >= self.in_queue(job.partition, job.qos).cpus_per_node > 1:
            return f"It has all CPUs of a node: {less}"
        return f"Raise --cpus-per-task, as memory comes with CPUs; or {less}"

    @property
    def without_gpus(self) -> str:
        """Why no run with GPUs can go here; "" if the nodes have some, or are not known."""
        said = f"Slurm reports no GPU on the nodes of {self.title}: this run needs another cluster."
        return "" if self.node_gpus else said

    def queue(self, name: str) -> Queue | None:
        return next((queue for queue in self.queues if queue.name == name), None)

    def within_limit(self, queue: str, minutes: int) -> int:
        """The minutes, or the most that the queue allows."""
        known = self.queue(queue)
        return min(minutes, (known and known.max_minutes) or minutes)

    def queue_names(self, *, gpus: bool, qos: str = "", partition: str = "") -> QueueNames:
        """How a job names its queue: as chosen, unless that one is for other devices; else the profile's own."""
        known = filter(None, map(self.queue, (qos, partition)))
        if any(queue.devices not in ("", "gpu" if gpus else "cpu") for queue in known):
            qos = partition = ""
        usual = self.gpu_queue if gpus else self.cpu_queue
        if self.queue_option == "partition":
            return QueueNames(qos, partition or usual)
        return QueueNames(qos or usual, partition)

    def data_host(self, login_host: str) -> str:
        """The site's host for copies; "" if it has none, or if the login host is not the site's."""
        known = not login_host or login_host in self.login_hosts
        return self.data_hosts[0] if known and self.data_hosts else ""


def split_address(text: str) -> tuple[str, str, int | None]:
    """(user, host, port) of ``[user@]host[:port]`` or ``ssh://...``; with a port, IPv6 addresses need brackets.

    Raises:
        UsageError: the text cannot be a host name.
    """
    user, _, place = text.strip().removeprefix("ssh://").rstrip("/").rpartition("@")
    match = re.fullmatch(r"\[([0-9A-Fa-f:.%]+)\](?::([0-9]{1,5}))?", place)
    named = r"([^\s:@/\\'\"`$;&|<>-][^\s:@/\\'\"`$;&|<>]*)(?::([0-9]{1,5}))?"
    match = match or re.fullmatch(r"([0-9A-Fa-f:.%]+)()" if place.count(":") > 1 else named, place)
    if match is None or user.startswith("-"):
        raise failure("bad-host", text=text)
    return user, match[1], int(match[2]) if match[2] else None
