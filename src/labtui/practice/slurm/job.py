"""A job of the practice cluster and the transitions Slurm allows."""

from __future__ import annotations

from dataclasses import dataclass, field

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
