"""What happened, as immutable values. Events are stored in order; the state is reduced from them.

Every event is a small frozen struct with a tag, so that the store can keep it as one JSON line and read it
back in a later version (unknown fields are ignored, new fields have defaults). Times are UNIX seconds.
"""

from __future__ import annotations

import msgspec

from labtui.core.model import (
    Diagnosis,
    EpochSample,
    JobForm,
    JobView,
    Outcome,
    RunSpec,
    Stream,
    SubmissionStatus,
)


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all events; `at` is when we learned it (UNIX seconds, our clock)."""

    at: float


class PlannedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run with the number the student sees (1, 2, 3 ... within the lab folder)."""

    run_id: int
    spec: RunSpec


class SubmissionPlanned(Event, frozen=True, kw_only=True, tag="submission-planned"):
    """A submission entered the waiting line. `script_file` is under `slurm/`, `remote_dir` its own directory.

    `remote_logs` maps a stream to its remote path as we dictate it; ``%j`` in it stands for the job id to come.
    `script_hashes` are SHA-256 hex digests of the pushed files by relative path: a check turns stale by them.
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


class SubmissionChanged(Event, frozen=True, kw_only=True, tag="submission-changed"):
    """A submission's way into Slurm: sent, accepted with a job id, refused, unknown, withdrawn, waiting and why."""

    token: str
    status: SubmissionStatus
    job_id: str = ""
    sentence: str = ""
    hint: str = ""


class EarlyEndSet(Event, frozen=True, kw_only=True, tag="early-end"):
    """The student wants the job ended after `minutes` of running, before the limit it was planned with."""

    token: str
    minutes: int


class JobObserved(Event, frozen=True, kw_only=True, tag="job-observed"):
    """What Slurm said about one job at one tick (only stored when it differs from before, `seen_at` aside)."""

    token: str
    job: JobView


class LogSegmentStarted(Event, frozen=True, kw_only=True, tag="log-segment"):
    """A mirror began, or began anew because the remote file shrank or was replaced (`segment` counts from 0)."""

    token: str
    stream: Stream
    segment: int
    reason: str = ""


class LogGrew(Event, frozen=True, kw_only=True, tag="log-grew"):
    """A mirror now holds `size` bytes (not stored: the mirror itself is the record)."""

    token: str
    stream: Stream
    segment: int
    size: int
    complete: bool = False


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


class Refreshed(Event, frozen=True, kw_only=True, tag="refreshed"):
    """The queue was read completely at `at`. Not stored."""


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
    | RunStarted
    | EpochSeen
    | RunEnded
    | SamplesReset
    | PathsSeen
    | ConnectionChanged
    | Refreshed
    | ErrorRaised
    | ErrorCleared
)

TRANSIENT = (LogGrew, ConnectionChanged, Refreshed, ErrorRaised, ErrorCleared)
"""Events that describe the moment; they are reduced and shown, never stored."""
