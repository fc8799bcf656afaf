"""A cluster as data: hosts, queues, paths, how a training is started there, what is forbidden.

Profiles are TOML files (`labtui/profiles/*.toml`, or the student's own). Everything that may change from one course
to the next is in them, never a constant in code. Texts may contain ``{account}`` and ``{user}``.
"""

from typing import Literal, NamedTuple

import msgspec


class QueueNames(NamedTuple):
    """How `sbatch` names a queue: `--qos` and `--partition`; an empty one is left out."""

    qos: str = ""
    partition: str = ""


class Queue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A QoS (or, where a site has none, a partition) and the limits we know of; None means unknown."""

    name: str
    devices: Literal["cpu", "gpu"]
    max_minutes: int | None = None
    max_nodes: int | None = None
    max_cpus: int | None = None
    max_submit_per_user: int | None = None
    max_running_per_user: int | None = None
    partition: str = ""
    note: str = ""


class Launch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a training is started inside a job.

    `modules` are loaded in order after ``module purge``; `container` is the image run with
    ``singularity exec --nv`` (empty: plain `python`; `runtime` names another program that takes the same words);
    `setup` are further shell lines; `env` is exported.
    """

    modules: tuple[str, ...] = ()
    purge: bool = True
    container: str = ""
    runtime: Literal["singularity", "apptainer"] = "singularity"
    python: str = "python"
    setup: tuple[str, ...] = ()
    env: dict[str, str] = {}


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cluster.

    `login_hosts` are tried in turn. `data_hosts` serve copies by hand (`scp`) where a site separates them; labtui's own
    transfers are small and go over the one connection it has.
    `status` is ``own`` for a profile that does not come with labtui: its numbers are known, the site's rules are not.
    `root` is the remote directory labtui works under, `data_dir` the CIFAR-10 pickles, `datasets_dir` the folder of the
    image folders that an edition names. `containers` are images by framework (``pytorch``), where `container` does not
    serve; `toolchains` are the modules that programs are built and run with, by what an edition calls them (``mpi``).
    `gres` is the generic resource asked for GPUs (``gpu``); `cpus_per_gpu` what a job asks for.
    `forbidden` are `sbatch` options the site refuses, each
    with the reason. `quota_command` prints the room left, in a form that `labtui.slurm.probe` reads. A password is
    changed on `password_host`; `password_note` says what else to know. `host_keys` are the fingerprints
    (``SHA256:...``) the site publishes by host, at `host_keys_source`; empty with a
    source that says why where there are none. `support` is whom to write to.
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

    def account_of(self, *chosen: str) -> str:
        """The account that a job is charged to: the first one chosen, else the cluster's default; "" for none."""
        return next((account for account in chosen if account), self.default_account)

    def queue(self, name: str) -> Queue | None:
        return next((queue for queue in self.queues if queue.name == name), None)

    def names(self, queue: str) -> QueueNames:
        """A queue of this cluster as `sbatch` names it."""
        return QueueNames(partition=queue) if self.queue_option == "partition" else QueueNames(qos=queue)

    def data_host(self, login_host: str) -> str:
        """The host for copies beside this login host; empty when there is none, or the site is not meant."""
        known = not login_host or login_host in self.login_hosts
        return self.data_hosts[0] if known and self.data_hosts else ""
