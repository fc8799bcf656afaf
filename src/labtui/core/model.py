"""labtui's nouns, as frozen values: run, plan, submission, job, epoch sample, diagnosis.

The words are those of the lab and of the field. Batch sizes say which they are; times say seconds.
What may not enter: behaviour that needs a clock, a file or a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from labtui.core.interval import Interval

Device = Literal["cpu", "gpu"]
Stream = Literal["out", "err", "gpu"]
"""A log of a job: standard output, standard error, or the GPU sampler's CSV."""

Outcome = Literal["completed", "unfinished", "oom", "time-limit", "cancelled", "failed"]
DEEDS: dict[Outcome, str] = {
    "completed": "ran to its end",
    "unfinished": "never finished",
    "oom": "ran out of memory",
    "time-limit": "was stopped by its time limit",
    "cancelled": "was cancelled",
    "failed": "failed",
}
"""What happened to a run, after "it" or "a run that"."""
DiagnosisKind = Literal[
    "oom",
    "time-limit",
    "cancelled",
    "no-gpu",
    "missing-module",
    "missing-file",
    "bad-arguments",
    "container",
    "quota",
    "host-memory",
]


# --------------------------------------------------------------------------- what is to be run


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """One training: fixed model, device count, batch and epochs. What a chart plots.

    `model` is the lab's short name ("ResNet50" for ResNet50V2). `n_gpus` is 0 on a CPU.
    `batch_size` is the *global* batch; `per_gpu_batch` is said apart.
    `script` is the training script in `scripts/`, relative to it ("ResNet50.py").
    """

    model: str
    device: Device
    n_gpus: int
    batch_size: int
    epochs: int
    script: str
    learning_rate: float | None = None
    extra_args: tuple[str, ...] = ()

    @property
    def replicas(self) -> int:
        """Devices that share a step: the GPUs, or one CPU."""
        return max(1, self.n_gpus)

    @property
    def per_gpu_batch(self) -> int:
        """The global batch divided over the replicas."""
        return self.batch_size // self.replicas

    @property
    def label(self) -> str:
        """How the run is called on a screen, e.g. ``ResNet50 · 2 GPUs`` or ``ResNet50 · CPU``."""
        if self.device == "cpu":
            return f"{self.model} · CPU"
        return f"{self.model} · {self.n_gpus} GPU{'s' if self.n_gpus != 1 else ''}"


JobForm = Literal["cpu", "one-gpu", "one-job", "job-per-size"]
"""Which template: CPU; one GPU; one job that runs 1/2/4 GPUs in turn; one job per GPU count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionDraft:
    """What one `sbatch` would carry, before it has a token. Editable in the plan screen.

    `time_limit_minutes` is the wall time asked for; `cpus` and `gpus` what Slurm allocates.
    """

    task_id: str
    form: JobForm
    runs: tuple[RunSpec, ...]
    gpus: int
    cpus: int
    time_limit_minutes: int
    account: str
    qos: str
    job_name: str
    data_dir: str = ""
    container: str = ""
    reservation: str = ""


# --------------------------------------------------------------------------- what became of it


class SubmissionStatus(StrEnum):
    """Where a submission stands on its way into Slurm."""

    WAITING = "waiting"  # in our own waiting line
    SENDING = "sending"  # the intent is stored, the answer is not here yet
    UNKNOWN = "unknown"  # no answer: looked up by token, and nothing is sent before it is certain
    ACCEPTED = "accepted"  # Slurm gave it a job id
    REFUSED = "refused"  # Slurm said never
    WITHDRAWN = (
        "withdrawn"  # the student took it back before it was sent, or must say again that it is wanted
    )


class JobPhase(StrEnum):
    """A job's state with evidence; `UNKNOWN` is never the same as `FINISHED`."""

    QUEUED = "queued"
    RUNNING = "running"
    SETTLING = "settling"  # left the queue, accounting has not spoken yet
    FINISHED = "finished"
    UNKNOWN = "unknown"


class RunPhase(StrEnum):
    """What a run's row shows."""

    WAITING = "waiting"
    QUEUED = "queued"
    STARTING = "starting"  # its job runs, no epoch line yet
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """What Slurm last said about a job, and when it said so.

    Times are UNIX seconds of the cluster's clock; `seen_at` is UNIX seconds of ours.
    `slurm_state` is Slurm's own word (``RUNNING``, ``COMPLETED``, ``TIMEOUT`` ...), `reason` its pending
    reason. `evidence` names who said it: ``squeue``, ``sacct``, ``scontrol``, ``log``.
    """

    job_id: str
    phase: JobPhase
    slurm_state: str = ""
    reason: str = ""
    start_estimate: float | None = None
    submit_time: float | None = None
    start_time: float | None = None
    end_time: float | None = None
    time_limit_s: float | None = None
    elapsed_s: float | None = None
    node: str = ""
    partition: str = ""
    exit_code: str = ""
    evidence: str = ""
    seen_at: float = 0.0
    unknown_since: float | None = None
    restarts: int = 0


# --------------------------------------------------------------------------- what the logs say


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSample:
    """Time and metrics of one epoch of one run.

    `seconds` is the interval that holds the epoch's true duration in seconds; `printed_seconds` the whole
    seconds as printed (None when the log gives none); `ms_per_step` as printed, in milliseconds.
    `source` says what the interval rests on: ``mllog``, ``keras`` or another grammar's name.
    `line` is the 1-based line of the log it was read from: every figure can be traced to it.
    `ended_at` is when the epoch ended, in UNIX seconds of the node's clock, for logs that tell (MLPerf
    records).
    """

    epoch: int
    seconds: Interval
    printed_seconds: int | None = None
    steps: int | None = None
    ms_per_step: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    source: str = "keras"
    line: int | None = None
    ended_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Something in a log that explains a failure or a surprise, and what to do next."""

    kind: DiagnosisKind
    line: int
    text: str
    advice: str
    stream: Stream = "out"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRun:
    """One run as read from a log; fields the log does not tell are None."""

    model: str | None = None
    device: Device | None = None
    n_gpus: int | None = None
    batch_size: int | None = None
    epochs_planned: int | None = None
    outcome: Outcome = "unfinished"
    epochs: tuple[EpochSample, ...] = ()
    images: int | None = None
    learning_rate: float | None = None
    throughput: Interval | None = None
    """Images per second as the trainer itself printed it, for logs that give a rate and no epoch times."""
    batch_seconds: Interval | None = None
    """Mean seconds a batch, as the trainer last printed it (PyTorch ImageNet and its like)."""
    total_seconds: Interval | None = None
    """Seconds of the whole training as the script itself printed them: set-up and first epoch are in it."""
    interleaved: bool = False
    practice: bool = False
    framework: str = ""
    first_line: int = 1
    last_line: int = 1
