"""What the practice cluster is made of: its machines, queues and accounts, a job, a command's call, and Slurm's times.

The site is MareNostrum 5 in small, data only. A job has the transitions Slurm allows. A call is one run of a command:
arguments, working directory, environment and answer. Times are written and read the way Slurm's commands do.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


def stamp(seconds: float | None, environment: Mapping[str, str], unknown: str) -> str:
    """A moment as text: ``SLURM_TIME_FORMAT`` and ``TZ`` of the caller's environment count."""
    if seconds is None:
        return unknown
    form = environment.get("SLURM_TIME_FORMAT", "%Y-%m-%dT%H:%M:%S")
    if form == "%s":
        return str(int(seconds))
    if form in ("standard", ""):
        form = "%Y-%m-%dT%H:%M:%S"
    zone = environment.get("TZ", "")
    moment = time.gmtime(seconds) if zone in ("UTC", "UTC0", "GMT") else time.localtime(seconds)
    return time.strftime(form, moment)


def short_duration(seconds: int) -> str:
    """Squeue's form: ``0:06``, ``10:00``, ``1:05:00``, ``2-00:00:00``."""
    days, rest = divmod(int(seconds), 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02d}:{minutes:02d}:{rest:02d}"
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def long_duration(seconds: int) -> str:
    """Sacct's and scontrol's form: ``00:00:06``, ``2-00:00:00``."""
    days, rest = divmod(int(seconds), 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    return (f"{days}-" if days else "") + f"{hours:02d}:{minutes:02d}:{rest:02d}"


def time_limit(text: str) -> int | None:
    """Seconds of ``--time``, rounded up to whole minutes as Slurm does; None when it is no time.

    Minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds.
    """
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text.strip())
    if not match:
        return None
    days, first, second, third = (int(part) if part else 0 for part in match.groups())
    parts = sum(part is not None for part in match.groups()[1:])
    if match[1] is not None:
        seconds = days * 86400 + first * 3600 + second * 60 + third
    elif parts == 1:
        seconds = first * 60
    elif parts == 2:
        seconds = first * 60 + second
    else:
        seconds = first * 3600 + second * 60 + third
    return -(-seconds // 60) * 60


def expand_log_name(pattern: str, job_id: int, name: str, user: str) -> str:
    """``%x.%j.out`` and the like, for a plain batch job."""
    if "\\" in pattern:
        return pattern.replace("\\", "")
    values = {
        "A": job_id,
        "j": job_id,
        "J": job_id,
        "x": name,
        "u": user,
        "a": 4294967294,
        "N": "",
        "n": 0,
        "t": 0,
        "s": "batch",
    }

    def put(match: re.Match[str]) -> str:
        if match[2] == "%":
            return "%"
        value = values.get(match[2])
        if value is None:
            return match[0]
        return str(value).zfill(min(int(match[1]), 10)) if match[1] and isinstance(value, int) else str(value)

    return re.sub(r"%(\d*)([%A-Za-z])", put, pattern)


Answer = tuple[int, str, str]
"""(exit status, standard output, standard error)."""

NO_CONTROLLER = "Unable to contact slurm controller (connect failure)"


@dataclass(frozen=True, slots=True)
class Call:
    """One run of a Slurm command on the practice cluster."""

    words: tuple[str, ...]
    folder: str
    environment: Mapping[str, str]
    stdin: bytes = b""


CLUSTER = "marenostrum5"
VERSION = "22.05.8"
MIN_JOB_AGE_S = 300
KILL_WAIT_S = 30
MESSAGE_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Node:
    """One machine: its partition, CPUs and GPUs (type "hopper")."""

    name: str
    partition: str
    cpus: int
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class Qos:
    """A queue and its limits; None: no limit. `max_wall_s` in seconds."""

    name: str
    max_wall_s: int
    max_submit: int | None = None
    max_running: int | None = None
    priority: int = 100


@dataclass(frozen=True, slots=True)
class Site:
    """Everything a submission is measured against. `max_jobs` is the laptop's limit: so many scripts run at once."""

    user: str
    account: str
    nodes: tuple[Node, ...] = (
        *(Node(f"as01r1b{number:02d}", "acc", 80, 4) for number in range(1, 9)),
        Node("gs01r1b01", "gpp", 112),
    )
    qos: tuple[Qos, ...] = (
        Qos("acc_debug", 2 * 3600, max_submit=1, max_running=1, priority=10000),
        Qos("gp_debug", 2 * 3600, priority=10000),
        Qos("acc_training", 48 * 3600),
        Qos("gp_training", 48 * 3600),
        Qos("acc_interactive", 2 * 3600, max_submit=366, max_running=1, priority=0),
    )
    default_partition: str = "gpp"
    max_partition_s: int = 3 * 86400
    max_jobs: int = 32

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions' names, sorted."""
        return tuple(sorted({node.partition for node in self.nodes}))

    def find_qos(self, name: str) -> Qos | None:
        """The queue of this name, if the account may use it."""
        return next((qos for qos in self.qos if qos.name == name), None)

    def nodes_of(self, partition: str) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.partition == partition)


PENDING = "PENDING"
RUNNING = "RUNNING"
COMPLETING = "COMPLETING"
FINAL = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")

SHORT = {
    PENDING: "PD",
    RUNNING: "R",
    COMPLETING: "CG",
    "COMPLETED": "CD",
    "FAILED": "F",
    "CANCELLED": "CA",
    "TIMEOUT": "TO",
    "NODE_FAIL": "NF",
    "OUT_OF_MEMORY": "OOM",
}

TRANSITIONS: dict[str, frozenset[str]] = {
    PENDING: frozenset({RUNNING, "CANCELLED", "FAILED"}),
    # PENDING again: the node failed and the job may be requeued.
    RUNNING: frozenset({COMPLETING, PENDING, *FINAL}),
    COMPLETING: frozenset({PENDING, *FINAL}),
    **{state: frozenset() for state in FINAL},
}
"""From each state to those Slurm can move the job to; final states are final."""


@dataclass(slots=True)
class Job:
    """What Slurm knows of a batch job. Times are UNIX seconds of the cluster's clock; limits in seconds."""

    job_id: int
    name: str
    user: str
    account: str
    qos: str
    partition: str
    cpus: int
    gpus: int
    time_limit_s: int
    work_dir: str
    command: str
    script: bytes
    stdout: str
    stderr: str
    submit_time: float
    arguments: tuple[str, ...] = ()
    comment: str = ""
    gres: str = ""
    tasks: int | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    requeue: bool = True
    append: bool = False
    begin: float | None = None
    held: bool = False
    priority: int = 100
    environment: dict[str, str] = field(default_factory=dict)
    state: str = PENDING
    reason: str = "None"
    start_time: float | None = None
    end_time: float | None = None
    node: str = ""
    nodes: int = 1
    others: tuple[str, ...] = ()
    """The nodes beside `node`, the first one; `cpus` are those of all of them, `gpus` those of each."""
    exit_status: int = 0
    exit_signal: int = 0
    restarts: int = 0
    cancelled_by: str = ""
    wanted: str = ""
    """The final state decided for a job that is still being ended (TIMEOUT, CANCELLED ...)."""

    def move(self, state: str) -> None:
        """Change the state; raises ValueError for what Slurm never does."""
        if state not in TRANSITIONS[self.state]:
            raise ValueError(f"a job does not go from {self.state} to {state}")
        self.state = state

    @property
    def all_nodes(self) -> tuple[str, ...]:
        """The names of its nodes; none while it waits."""
        return (self.node, *self.others) if self.node else ()

    @property
    def node_list(self) -> str:
        """Its nodes as Slurm writes them: ``as01r1b01``, ``as01r1b[01-02,04]``."""
        return compressed(self.all_nodes)

    @property
    def finished(self) -> bool:
        """Whether the state is final."""
        return self.state in FINAL

    def elapsed_s(self, now: float) -> int:
        """Whole seconds of run time so far, or in all."""
        if self.start_time is None:
            return 0
        return max(0, int((self.end_time if self.end_time is not None else now) - self.start_time))

    @property
    def places(self) -> int:
        """For how many tasks the job has CPUs."""
        return self.cpus // (self.cpus_per_task or 1)

    @property
    def exit_code(self) -> str:
        """``status:signal`` as Slurm writes it."""
        return f"{self.exit_status}:{self.exit_signal}"


def compressed(names: Sequence[str]) -> str:
    """Node names in Slurm's short form; names that end in numbers of the same width are ranges."""
    if len(names) < 2:
        return "".join(names)
    stem = names[0].rstrip("0123456789")
    width = len(names[0]) - len(stem)
    runs: list[list[int]] = []
    for number in sorted(int(name[len(stem) :]) for name in names):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    numbers = (f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in runs)
    return f"{stem}[{','.join(numbers)}]"


def expanded(text: str) -> list[str]:
    """The names of a node list in Slurm's short form."""
    names = []
    for piece in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text):
        stem, bracket, inside = piece.partition("[")
        if not bracket:
            names.append(piece)
            continue
        for part in inside.rstrip("]").split(","):
            first, dash, last = part.partition("-")
            numbers = range(int(first), int(last if dash else first) + 1)
            names += [f"{stem}{number:0{len(first)}d}" for number in numbers]
    return names
