"""The events of a lab folder and the state they add up to: ``state = reduce(state, event)``.

All are frozen values. Whatever a screen shows can be rebuilt from the stored events. Nothing here knows a clock: ages
are computed by whoever has one, from the times in the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec

from labtui.domain.model import (
    AcceptedFinding,
    Diagnosis,
    EpochSample,
    Interval,
    JobForm,
    JobView,
    OtherJob,
    Outcome,
    RunPhase,
    RunSpec,
    Stream,
    SubmissionStatus,
    WorkUnit,
)


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all events; `at` is when we learned it (UNIX seconds, our clock)."""

    at: float


class PlannedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run with the number the student sees (1, 2, 3 ... within the lab folder)."""

    run_id: int
    spec: RunSpec


class SubmissionPlanned(Event, frozen=True, kw_only=True, tag="submission-planned"):
    """A submission entered the submission queue. `script_file` is under `slurm/`, `remote_dir` its own directory.

    `remote_logs` maps a stream to its remote path as we dictate it; ``%j`` in it stands for the job id to come.
    `script_hashes` are SHA-256 hex digests of the pushed files by relative path: a check turns stale by them.
    `options` go on the command line of `sbatch`; `job_file` is the name of the student's own job file, if it is one.
    `accepted` are the findings that were overridden. `gpus` and `cpus` are those of each of the `nodes`.
    `rebuilt` says that only a job script tells of it, found when a folder was repaired: it is never sent by itself.
    """

    token: str
    task_id: str
    form: JobForm
    job_name: str
    runs: tuple[PlannedRun, ...]
    account: str = ""
    qos: str = ""
    gpus: int = 0
    cpus: int = 0
    time_limit_minutes: int = 0
    script_file: str = ""
    remote_dir: str = ""
    remote_logs: dict[str, str] = {}
    script_hashes: dict[str, str] = {}
    practice: bool = False
    rebuilt: bool = False
    options: tuple[str, ...] = ()
    job_file: str = ""
    accepted: tuple[AcceptedFinding, ...] = ()
    nodes: int = 1


class SubmissionChanged(Event, frozen=True, kw_only=True, tag="submission-changed"):
    """A submission's way into Slurm: sent, accepted with a job id, refused, unknown, withdrawn, waiting and why.

    `attempt` is how many tries to send it are known to have made no job.
    """

    token: str
    status: SubmissionStatus
    job_id: str = ""
    sentence: str = ""
    hint: str = ""
    attempt: int = 0


class EarlyEndSet(Event, frozen=True, kw_only=True, tag="early-end"):
    """The student wants the job ended after `minutes` of running, before the limit it was planned with."""

    token: str
    minutes: int


class JobObserved(Event, frozen=True, kw_only=True, tag="job-observed"):
    """What Slurm said about one job at one tick (only stored when it differs from before, `seen_at` aside)."""

    token: str
    job: JobView


class LogSegmentStarted(Event, frozen=True, kw_only=True, tag="log-segment"):
    """A mirror began, went on after it was complete, or began anew because the remote file shrank or was replaced.

    `segment` counts from 0.
    """

    token: str
    stream: Stream
    segment: int
    reason: str = ""


class LogGrew(Event, frozen=True, kw_only=True, tag="log-grew"):
    """A mirror now holds `size` bytes (not stored: the mirror itself is the record).

    That it is `complete` is stored, and taken back by a segment that starts or a job that is put back into the queue.
    """

    token: str
    stream: Stream
    segment: int
    size: int
    complete: bool = False


class RunFound(Event, frozen=True, kw_only=True, tag="run-found"):
    """The log of a student's own job file tells what a run is: a run nobody planned, or more about a known one."""

    token: str
    run_id: int
    spec: RunSpec


class RunStarted(Event, frozen=True, kw_only=True, tag="run-started"):
    """The log shows that a run began; `images` per epoch, `framework` and `learning_rate` when the log tells them."""

    run_id: int
    images: int | None = None
    framework: str = ""
    learning_rate: float | None = None
    practice: bool = False  # the log says that other devices stood in for the real ones


class EpochSeen(Event, frozen=True, kw_only=True, tag="epoch"):
    """An epoch of a run was read from the log."""

    run_id: int
    sample: EpochSample


class TotalsSeen(Event, frozen=True, kw_only=True, tag="totals"):
    """What a script says of a whole run at its end: tokens per second, seconds, GiB that rank 0 held.

    The rate is that of all GPUs, and absent for a training whose epochs tell it.
    """

    run_id: int
    throughput: Interval | None = None
    unit: WorkUnit = "images"
    sequence_length: int | None = None
    total_seconds: Interval | None = None
    gpu_memory: Interval | None = None
    line: int | None = None


class RunEnded(Event, frozen=True, kw_only=True, tag="run-ended"):
    """A run is over, and how."""

    run_id: int
    outcome: Outcome
    diagnosis: tuple[Diagnosis, ...] = ()


class SamplesReset(Event, frozen=True, kw_only=True, tag="samples-reset"):
    """The log of these runs started again (requeue, truncation): samples read before do not count any more."""

    run_ids: tuple[int, ...]
    reason: str = ""


class PathsSeen(Event, frozen=True, kw_only=True, tag="paths-seen"):
    """The cluster was asked whether these absolute remote paths are there, and said so at `at`."""

    paths: dict[str, bool]


class ConnectionChanged(Event, frozen=True, kw_only=True, tag="connection"):
    """online, stale, offline, needs-login, connecting. Not stored."""

    status: str
    sentence: str = ""
    hint: str = ""
    retry_at: float | None = None
    host: str = ""


class OtherJobsSeen(Event, frozen=True, kw_only=True, tag="other-jobs"):
    """The student's living jobs that this folder did not send, as the queue showed them, and how many more there are.

    Not stored.
    """

    jobs: tuple[OtherJob, ...]
    more: int = 0


class SubmissionHeld(Event, frozen=True, kw_only=True, tag="submission-held"):
    """The student wants a submission to wait (or no longer): it is not sent, or Slurm holds its job."""

    token: str
    held: bool


class Refreshed(Event, frozen=True, kw_only=True, tag="refreshed"):
    """The queue was read completely at `at`, when the cluster's clock said `cluster_time`. Not stored."""

    cluster_time: float | None = None


class ErrorRaised(Event, frozen=True, kw_only=True, tag="error"):
    """Something a student must know; the same `key` toasts once and stays in the panel until cleared. Not stored."""

    key: str
    sentence: str
    hint: str = ""


class ErrorCleared(Event, frozen=True, kw_only=True, tag="error-cleared"):
    """The error with this key is over. Not stored."""

    key: str


AnyEvent = (
    SubmissionPlanned
    | SubmissionChanged
    | EarlyEndSet
    | JobObserved
    | LogSegmentStarted
    | LogGrew
    | RunFound
    | RunStarted
    | EpochSeen
    | TotalsSeen
    | RunEnded
    | SamplesReset
    | PathsSeen
    | ConnectionChanged
    | SubmissionHeld
    | OtherJobsSeen
    | Refreshed
    | ErrorRaised
    | ErrorCleared
)

TRANSIENT = (LogGrew, ConnectionChanged, OtherJobsSeen, Refreshed, ErrorRaised, ErrorCleared)
"""Events that describe the moment; they are reduced and shown, never stored."""


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
    options: tuple[str, ...] = ()  # on the command line of sbatch
    job_file: str = ""  # the student's own job file, if it is one
    accepted: tuple[AcceptedFinding, ...] = ()
    held: bool = False  # the student wants it to wait
    rebuilt: bool = False  # from its job script alone: looked up, never sent
    attempt: int = 0  # tries to send it that are known to have made no job
    nodes: int = 1  # each has `gpus` and `cpus`


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
    totals: TotalsSeen | None = None  # as the script says them at its end

    @property
    def gpu_memory_ran_out(self) -> bool:
        """Whether a smaller batch is the cure: memory ran out, and the log does not say that it was the node's."""
        kinds = {found.kind for found in self.diagnosis}
        return self.outcome == "oom" and not ("host-memory" in kinds and "oom" not in kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionState:
    """The state of the connection to the cluster. `status`: offline, connecting, online, stale, needs-login."""

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
class PathStatus:
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
    cluster_time: float | None = None
    """The cluster's clock at `refreshed_at`, in UNIX seconds: it need not go with ours."""
    other_jobs: tuple[OtherJob, ...] = ()
    """The student's living jobs that this folder did not send, as of `refreshed_at`: the newest."""
    more_jobs: int = 0
    """How many more jobs of the student's there are, living ones and others."""
    problems: tuple[Problem, ...] = ()
    places: Mapping[str, PathStatus] = field(default_factory=lambda: MappingProxyType({}))
    """Remote paths the cluster was asked about: data set, container, what scripts name."""
