"""What is asked of the practice cluster's queue, and the job that it becomes."""

from __future__ import annotations

from dataclasses import dataclass, field

from labtui.domain.profile import Queue
from labtui.practice.slurm.written import compressed
from labtui.slurm import states

PENDING, RUNNING = "PENDING", "RUNNING"
FINAL = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")
SHORT = {state: letters for letters, state in states.SHORT.items()}


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A submission that passed all checks that need no queue. Numbers are None where no option gave them.

    `cpus` are those of all nodes, `gpus` those of each.
    """

    name: str
    account: str
    queue: Queue
    partition: str
    cpus: int
    gpus: int
    gres: str
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
    begin_after_s: float


@dataclass(slots=True)
class Job:
    """What Slurm knows of a batch job. Times are UNIX seconds of the cluster's clock."""

    job_id: int
    request: JobRequest
    command: str
    script: bytes
    stdout: str
    stderr: str
    submit_time: float
    arguments: tuple[str, ...] = ()
    begin: float | None = None
    held: bool = False
    priority: int = 100
    environment: dict[str, str] = field(default_factory=dict)
    state: str = PENDING
    reason: str = "None"
    start_time: float | None = None
    end_time: float | None = None
    all_nodes: tuple[str, ...] = ()
    """The names of its nodes; none while it waits."""
    gpu_numbers: tuple[int, ...] = ()
    """Its GPUs on each of them."""
    kill_at: float | None = None
    """When it is killed, where it has been asked to end."""
    forgotten: bool = False
    """Whether it has left the queue for good."""
    exit_status: int = 0
    exit_signal: int = 0
    restarts: int = 0
    cancelled: bool = False
    wanted: str = ""
    """The final state decided for a job that is still being ended (TIMEOUT, CANCELLED ...)."""

    def end(self, state: str, now: float) -> None:
        """Reach a final state; what it took to start the job is not kept."""
        self.state, self.end_time, self.script, self.environment = state, now, b"", {}

    @property
    def node(self) -> str:
        """The first of its nodes."""
        return self.all_nodes[0] if self.all_nodes else ""

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
        return self.request.cpus // (self.request.cpus_per_task or 1)

    @property
    def exit_code(self) -> str:
        """``status:signal`` as Slurm writes it."""
        return f"{self.exit_status}:{self.exit_signal}"
