"""A job of the practice cluster: its request, its state, and its rows in squeue and sacct."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from labtui.domain.profile import Queue
from labtui.practice.command_line import compress_nodes, format_time
from labtui.slurm import states
from labtui.slurm.values import duration_text

if TYPE_CHECKING:
    from labtui.practice.controller import Controller

PENDING, RUNNING = "PENDING", "RUNNING"
FINAL = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")
SHORT = {state: letters for letters, state in states.SHORT.items()}


class JobRequest(msgspec.Struct, frozen=True):
    """A submission that passed all checks that do not depend on other jobs. Numbers are None if no option gave them.

    `cpus` are those of all nodes together, `gpus` those of each node.
    """

    name: str
    account: str
    queue: Queue
    partition: str
    cpus: int
    gpus: int
    tasks: int | None
    tasks_per_node: int | None
    nodes: int
    cpus_per_task: int | None
    time_limit_s: int
    work_dir: str
    output: str
    error: str
    comment: str
    requeue: bool
    append: bool
    held: bool


class Job(msgspec.Struct):
    """What Slurm knows of a batch job. Times are UNIX seconds on the cluster's clock."""

    job_id: int
    request: JobRequest
    script: bytes
    stdout: str
    stderr: str
    submit_time: float
    arguments: tuple[str, ...] = ()
    begin: float | None = None
    held: bool = False
    environment: dict[str, str] = {}
    state: str = PENDING
    reason: str = "None"
    start_time: float | None = None
    end_time: float | None = None
    all_nodes: tuple[str, ...] = ()
    """The names of its nodes; empty while it is pending."""
    gpu_numbers: tuple[int, ...] = ()
    """The numbers of its GPUs, the same on each node."""
    kill_at: float | None = None
    """When it is killed after it was told to end."""
    forgotten: bool = False
    """Whether it has left squeue for good."""
    exit_code: str = "0:0"
    """``status:signal`` as Slurm writes it."""
    restarts: int = 0
    end_state: str = msgspec.field(default="", name="wanted")
    """The state that a job will get once its processes have ended (TIMEOUT, CANCELLED ...); "" for none."""

    def finish(self, state: str, now: float) -> None:
        """Reach a final state, and drop the script and environment."""
        self.state, self.end_time, self.script, self.environment = state, now, b"", {}

    @property
    def node(self) -> str:
        """The first of its nodes."""
        return self.all_nodes[0] if self.all_nodes else ""

    @property
    def node_list(self) -> str:
        """Its nodes as Slurm writes them: ``as01r1b01``, ``as01r1b[01-02,04]``."""
        return compress_nodes(self.all_nodes)

    @property
    def state_after_node_failure(self) -> str:
        """Pending again where it may be requeued."""
        return PENDING if self.request.requeue else "NODE_FAIL"

    @property
    def finished(self) -> bool:
        """Whether the state is final."""
        return self.state in FINAL

    def elapsed_s(self, now: float) -> int:
        """Whole seconds of run time, so far or in total."""
        if self.start_time is None:
            return 0
        return max(0, int((self.end_time if self.end_time is not None else now) - self.start_time))


# --------------------------------------------------------------------------- rows of squeue and sacct

HEADINGS = {
    "A": "JOBID", "D": "NODES", "F": "ARRAY_JOB_ID", "M": "TIME", "N": "NODELIST", "P": "PARTITION",
    "R": "NODELIST(REASON)", "S": "START_TIME", "T": "STATE", "V": "SUBMIT_TIME", "Z": "WORK_DIR", "e": "END_TIME",
    "i": "JOBID", "j": "NAME", "k": "COMMENT", "l": "TIME_LIMIT", "q": "QOS", "r": "REASON", "t": "ST", "u": "USER",
}  # fmt: skip
"""squeue's headings, by format letter."""
FIELDS = (
    "Comment", "ElapsedRaw", "End", "ExitCode", "JobIDRaw", "JobName", "NodeList", "Partition", "QOS", "Start", "State",
    "Submit", "TimelimitRaw",
)  # fmt: skip
"""The fields that sacct knows."""


def queue_row(job: Job, environment: Mapping[str, str], control: Controller, now: float) -> dict[str, str]:
    """A job's values by squeue's format letter; a pending job's start and end are estimates."""
    asked, number = job.request, str(job.job_id)
    start = control.start_estimate(job, now) if job.state == PENDING else job.start_time
    end = None if start is None else start + asked.time_limit_s
    waits = job.state == PENDING or not job.node
    return {
        **dict.fromkeys("AFi", number),
        "D": str(asked.nodes),
        "M": duration_text(job.elapsed_s(now), hours=False),
        "N": job.node_list,
        "P": asked.partition,
        "R": f"({job.reason})" if waits else job.node_list,
        "S": format_time(start, environment, "N/A"),
        "T": job.state,
        "V": format_time(job.submit_time, environment, "Unknown"),
        "Z": asked.work_dir,
        "e": format_time(job.end_time if job.finished else end, environment, "N/A"),
        "j": asked.name,
        "k": asked.comment or "(null)",
        "l": duration_text(asked.time_limit_s, hours=False),
        "q": asked.queue.name,
        "r": job.reason,
        "t": SHORT[job.state],
        "u": control.site.user,
    }


def account_row(job: Job, environment: Mapping[str, str], now: float) -> dict[str, str]:
    """A job's values by sacct's field."""
    asked = job.request
    values = (
        asked.comment,
        str(job.elapsed_s(now)),
        format_time(job.end_time if job.finished else None, environment, "Unknown"),
        job.exit_code,
        str(job.job_id),
        asked.name,
        job.node_list or "None assigned",
        asked.partition,
        asked.queue.name,
        format_time(job.start_time, environment, "Unknown"),
        "CANCELLED by 1000" if job.state == "CANCELLED" else job.state,
        format_time(job.submit_time, environment, "Unknown"),
        str(asked.time_limit_s // 60),
    )
    return dict(zip(FIELDS, values, strict=True))


def formatted(form: str, values: Mapping[str, str]) -> str:
    """Replace each ``%[.][width]code`` in a format of squeue or sinfo by its value."""

    def put(match: re.Match[str]) -> str:
        text = "%" if match[3] == "%" else values.get(match[3], "")
        if not match[2]:
            return text
        width = int(match[2])
        return text[:width].rjust(width) if match[1] else text[:width].ljust(width)

    return re.sub(r"%(\.?)(\d*)([%A-Za-z])", put, form)
