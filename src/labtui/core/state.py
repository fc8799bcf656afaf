"""The whole picture as one frozen value: ``state = reduce(state, event)``.

Whatever a screen shows can be rebuilt from the stored events. Nothing here knows a clock: ages are computed by
whoever has one, from the times in the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from labtui.core.model import (
    Diagnosis,
    EpochSample,
    JobForm,
    JobView,
    Outcome,
    RunPhase,
    RunSpec,
    Stream,
    SubmissionStatus,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """A mirror: how many bytes of which segment we hold, and whether it is known to be the whole log."""

    segment: int = 0
    size: int = 0
    complete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionState:
    """A submission and the job Slurm made of it."""

    token: str
    task_id: str
    form: JobForm
    job_name: str
    run_ids: tuple[int, ...]
    planned_at: float
    status: SubmissionStatus = SubmissionStatus.WAITING
    sentence: str = ""
    hint: str = ""
    account: str = ""
    qos: str = ""
    gpus: int = 0
    cpus: int = 0
    time_limit_minutes: int = 0
    early_end_minutes: int = 0  # the student's own, shorter limit; 0 when there is none
    script_file: str = ""
    remote_dir: str = ""
    remote_logs: Mapping[str, str] = field(default_factory=dict)
    script_hashes: Mapping[str, str] = field(default_factory=dict)
    job: JobView | None = None
    logs: Mapping[Stream, LogState] = field(default_factory=dict)
    practice: bool = False
    rebuilt: bool = False  # from its job script alone: looked up, never sent


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """A run: what was planned, where it stands, the epochs read so far."""

    run_id: int
    token: str
    task_id: str
    spec: RunSpec
    phase: RunPhase = RunPhase.WAITING
    started: bool = False
    epochs: tuple[EpochSample, ...] = ()
    outcome: Outcome | None = None
    diagnosis: tuple[Diagnosis, ...] = ()
    images: int | None = None
    framework: str = ""
    learning_rate: float | None = None  # as the log says it; what was planned stands in `spec`
    practice: bool = False

    @property
    def gpu_memory_ran_out(self) -> bool:
        """Whether a smaller batch is the cure: memory ran out, and the log does not say that it was the node's."""
        kinds = {found.kind for found in self.diagnosis}
        return self.outcome == "oom" and not ("host-memory" in kinds and "oom" not in kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionState:
    """How the line to the cluster is. `status`: offline, connecting, online, stale, needs-login."""

    status: str = "offline"
    sentence: str = ""
    hint: str = ""
    retry_at: float | None = None
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error that is not over yet."""

    key: str
    sentence: str
    hint: str
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceSeen:
    """What the cluster last said about a remote path: whether it is there, and when we heard it (UNIX seconds)."""

    there: bool
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LabState:
    """Everything a screen may show, as of the last event."""

    submissions: Mapping[str, SubmissionState] = field(default_factory=lambda: MappingProxyType({}))
    runs: Mapping[int, RunState] = field(default_factory=lambda: MappingProxyType({}))
    connection: ConnectionState = ConnectionState()
    refreshed_at: float | None = None
    problems: tuple[Problem, ...] = ()
    places: Mapping[str, PlaceSeen] = field(default_factory=lambda: MappingProxyType({}))
    """Remote paths the cluster was asked about: data set, container, what scripts name."""
