"""A job of the practice cluster, with the transitions Slurm allows; a command's call; times and node lists as Slurm's.

Of the standard library alone: `srun` uses it.
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


def duration(seconds: float, *, hours: bool = True) -> str:
    """``00:00:06`` or ``2-00:00:00``, as sacct and scontrol write it; without `hours` squeue's ``0:06``."""
    days, rest = divmod(int(seconds), 86400)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    if days:
        return f"{days}-{clock}"
    return clock if hours else re.sub(r"^(00:)?0?(?=\d+:)", "", clock)


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


VERSION = "22.05.8"
MIN_JOB_AGE_S = 300
KILL_WAIT_S = 30
MESSAGE_TIMEOUT_S = 10

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
