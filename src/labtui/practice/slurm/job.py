"""What is asked of the practice cluster's queue, the job that it becomes, and the transitions that Slurm allows."""

from __future__ import annotations

from dataclasses import dataclass, field

from labtui.domain.profile import Queue
from labtui.practice.slurm.written import compressed
from labtui.slurm import states

PENDING, RUNNING, COMPLETING = "PENDING", "RUNNING", "COMPLETING"
FINAL = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")
SHORT = {state: letters for letters, state in states.SHORT.items()}
TRANSITIONS: dict[str, frozenset[str]] = {
    PENDING: frozenset({RUNNING, "CANCELLED", "FAILED"}),
    # PENDING again: the node failed and the job may be requeued.
    RUNNING: frozenset({COMPLETING, PENDING, *FINAL}),
    COMPLETING: frozenset({PENDING, *FINAL}),
    **{state: frozenset() for state in FINAL},
}
"""From each state to those Slurm can move the job to; final states are final."""


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
    exit_status: int = 0
    exit_signal: int = 0
    restarts: int = 0
    cancelled: bool = False
    wanted: str = ""
    """The final state decided for a job that is still being ended (TIMEOUT, CANCELLED ...)."""

    def move(self, state: str) -> None:
        """Change the state; raises ValueError for what Slurm never does."""
        if state not in TRANSITIONS[self.state]:
            raise ValueError(f"a job does not go from {self.state} to {state}")
        self.state = state

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
