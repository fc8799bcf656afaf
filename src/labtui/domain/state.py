"""The state of a lab folder as one frozen value, and the changes to it.

Each `with_...` method returns the next state; a change to an unknown submission returns the same. Nothing here reads a
clock: callers compute ages from the times in the state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from labtui.domain import model
from labtui.domain.errors import LabError
from labtui.domain.model import JobPhase, JobView, Outcome, RunPhase, RunSpec, Stream, SubmissionStatus
from labtui.domain.run import CAUSES, DEEDS, Mark, RunRecord
from labtui.domain.terminal_text import file_name

WITHOUT_JOB = (SubmissionStatus.REFUSED, SubmissionStatus.WITHDRAWN)
"""The final statuses of a submission without a job."""
UNANSWERED = (SubmissionStatus.SENDING, SubmissionStatus.UNKNOWN)
"""The statuses of a submission that Slurm may have taken."""
PENDING = (RunPhase.WAITING, RunPhase.QUEUED)
"""The phases of a run that has not begun: it is in labtui's queue or in Slurm's."""
TRAINING = (RunPhase.STARTING, RunPhase.RUNNING)
"""The phases of a run whose training is under way."""
LIVE = (*PENDING, *TRAINING)
"""The phases of a run that has not ended, in order."""
OPEN = (*LIVE, RunPhase.UNKNOWN)
"""The phases of a run whose end is not known."""
UNKNOWN_AFTER_S = 20.0
"""How long polls may fail before a job's phase is "unknown"; `unknown_since` is set from the first failure on."""
LEFT_QUEUE = (JobPhase.SETTLING, JobPhase.FINISHED)
"""The phases of a job that is over."""


class LogState(msgspec.Struct, frozen=True, kw_only=True):
    """The mirror of a log: the segment, its bytes copied so far, and whether that is known to be the whole log.

    `segment` counts from 0; a remote file that shrank or was replaced starts a new one.
    """

    segment: int = 0
    size: int = 0
    complete: bool = False


class SubmissionState(model.JobRequest, frozen=True, kw_only=True):
    """A submission and the job Slurm made of it.

    `script_file` lies under `slurm/`; `remote_dir` is the submission's own directory. `remote_logs` maps a stream to
    its remote path, in which ``%j`` stands for the job id. `script_hashes` are SHA-256 hex digests of the sent files by
    relative path; they tell when a check has become stale.
    """

    token: str
    run_ids: tuple[int, ...]
    planned_at: float
    status: SubmissionStatus = SubmissionStatus.WAITING
    sentence: str = ""
    hint: str = ""
    script_file: str = ""
    remote_dir: str = ""
    remote_logs: Mapping[str, str] = {}
    log_names: Mapping[str, str] = {}  # names given by the student's own job file; `%j` as above
    script_hashes: Mapping[str, str] = {}
    edited: bool = False  # a script that its runs start or import is not as labtui brought it
    job: JobView | None = None
    logs: Mapping[Stream, LogState] = {}
    practice: bool = False
    accepted: tuple[model.AcceptedFinding, ...] = ()  # findings that the student overrode
    held: bool = False  # the student wants it to wait
    cancelling: bool = False  # the student asked to cancel it; meaningless once it is over
    attempt: int = 0  # attempts to send it that are known to have made no job

    @property
    def plans(self) -> dict[int, RunSpec]:
        """The plans of its runs by run number (1, 2, 3 ... within the lab folder)."""
        return dict(zip(self.run_ids, self.runs, strict=True))

    @property
    def over(self) -> bool:
        """Whether it has ended: it never became a job, or its job has finished."""
        return self.status in WITHOUT_JOB or (self.job is not None and self.job.phase is JobPhase.FINISHED)

    @property
    def limit_minutes(self) -> int:
        """After how many minutes Slurm ends its job: as last reported, else as planned."""
        reported = self.job.time_limit_s if self.job is not None else None
        return math.ceil(reported / 60) if reported else self.time_limit_minutes

    def mirror(self, stream: Stream, segment: int | None = None) -> str:
        """The path of a log's mirror inside the lab folder, of `segment` or the latest one; "" without a job."""
        if self.job is None:
            return ""
        if segment is None:
            segment = self.logs[stream].segment if stream in self.logs else 0
        restart, job_id = f".restart{segment:d}" if segment else "", file_name(self.job.job_id)
        name, ending = f"{file_name(self.job_name)}.{job_id}", LOG_ENDINGS[stream]
        if stream in self.log_names:
            own = PurePosixPath(self.log_names[stream].replace("%j", job_id))
            name, ending = own.stem, own.suffix
        return f"logs/{name}{restart}{ending}"


LOG_ENDINGS: dict[Stream, str] = {"out": ".out", "err": ".err", "gpu": ".gpu.csv"}
READ_STREAMS: tuple[Stream, ...] = ("out", "err")
"""The streams that are parsed for epochs and failures."""


class RunState(RunRecord, frozen=True, kw_only=True):
    """A run of a lab folder: the record from its log, its plan (completed from the log) and its phase."""

    run_id: int
    token: str
    task_id: str
    spec: RunSpec
    phase: RunPhase = RunPhase.WAITING
    started: bool = False
    diagnosis: tuple[model.Diagnosis, ...] = ()

    @property
    def end(self) -> str:
        """How it ended, as a key of `DEEDS` and `CAUSES`: its outcome, or a more exact word from its diagnosis."""
        if self.outcome == "failed" and any(found.kind == "node-lost" for found in self.diagnosis):
            return "node-lost"
        if self.outcome == "oom" and not self.gpu_memory_ran_out:
            return "host-memory"
        if self.outcome == "unfinished" and not self.started:
            others = any(found.kind == "contradiction" for found in self.diagnosis)
            return "other-training" if others else "never-started"
        return self.outcome or ""

    @property
    def cause(self) -> str:
        """How it ended, as a label (``out of memory``, ``node failure``); "" while unknown."""
        return CAUSES[self.end]

    @property
    def deed(self) -> str:
        """How it ended, as a verb phrase after "run 3": ``ran out of memory``, ``failed: node failure``."""
        return DEEDS[self.end]

    @property
    def ran_on_cpu(self) -> bool:
        """Whether a run planned for GPUs trained on the CPU, by its job or log; False where stand-ins are meant.

        A line that finds no GPU may be of another program of the job, if the framework names the run's GPUs.
        """
        found_none = any(found.kind == "no-gpu" for found in self.diagnosis)
        by_log = found_none and bool(self.epochs) and not (self.mark or self.names_gpus)
        return self.spec.device == "gpu" and not self.practice and (self.device == "cpu" or by_log)

    @property
    def used(self) -> RunSpec:
        """Its plan with the devices that it trained on."""
        return replace(self.spec, device="cpu", n_gpus=0) if self.ran_on_cpu else self.spec

    @property
    def gpu_memory_ran_out(self) -> bool:
        """Whether a smaller batch helps: memory ran out, and the log does not say that it was the node's."""
        kinds = {found.kind for found in self.diagnosis}
        return self.outcome == "oom" and not ("host-memory" in kinds and "oom" not in kinds)


def ended_by(run: RunState, runs: Iterable[RunState]) -> RunState | None:
    """The run whose bad end kept `run`, of the same job, from starting; None if it did start or no run ended so."""
    if run.end != "never-started":
        return None
    same = (each for each in runs if each.token == run.token)
    return next((each for each in same if each.end not in ("", "completed", run.end)), None)


class ConnectionState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the connection to the cluster. `status`: offline, connecting, online, stale, needs-login.

    Answers from before `since` (UNIX seconds) may be outdated: when it was connected last, or lost.
    """

    status: str = "offline"
    sentence: str = ""
    hint: str = ""
    host: str = ""
    since: float = 0.0

    @property
    def tried(self) -> bool:
        """Whether an attempt to connect has ended; before the first one it is offline without a sentence."""
        return self.status != "connecting" and (self.status != "offline" or bool(self.sentence))

    @property
    def lost(self) -> bool:
        """Whether the cluster cannot be reached; a connection that was never tried is not lost."""
        return self.tried and self.status in ("offline", "needs-login")


WRITER_GONE = ConnectionState(sentence="The other labtui was closed.", hint="Press u to connect here.")
"""What a process that reads beside another one shows when that one has ended."""
CLUSTER_OVER = "This cluster is over; its results stay. `labtui practice` starts a new one."
"""The hint of a connection to a practice cluster that was not kept."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem that the student must know of and that is not solved yet; at most one per `key`."""

    key: str
    sentence: str
    hint: str


QUEUE_KEY = "queue"
"""The key of the problem that Slurm's queue does not answer."""


class PathStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a remote path exists, and when the cluster said so (UNIX seconds); a `remark` says what is wrong."""

    there: bool
    remark: str = ""
    at: Annotated[float, msgspec.Meta(ge=0, lt=2**33)]


def called_by_job(
    spec: RunSpec, job: model.JobRequest, names: Mapping[str, str], planned: Iterable[RunSpec]
) -> RunSpec:
    """A run with its model's display name from `names`; of an own job file with the name given, or its job's.

    That stays when the log names a model: several jobs may have the same. A job of several models tells by them.
    """
    by_job = job.job_file and not spec.named and len({each.model for each in planned}) == 1
    return replace(spec, model=job.job_name) if by_job or not spec.model else spec.called(names)


class LabState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a lab folder: all that screens show."""

    submissions: Mapping[str, SubmissionState] = MappingProxyType({})
    runs: Mapping[int, RunState] = MappingProxyType({})
    connection: ConnectionState = ConnectionState()
    refreshed_at: float | None = None
    """When the queue was last read completely."""
    cluster_time: float | None = None
    """The cluster's clock at `refreshed_at`, in UNIX seconds; it may differ from ours."""
    other_jobs: tuple[JobView, ...] = ()
    """The student's queued and running jobs that this folder did not send, as of `refreshed_at`."""
    problems: tuple[Problem, ...] = ()
    paths: Mapping[str, PathStatus] = MappingProxyType({})
    """Remote paths the cluster was asked about: data set, container, what scripts name."""
    choices: Mapping[str, str] = {}
    """What the student last chose on the screens: `task` with `run`, the newest run then; `jobs`, the form of jobs."""
    last_run: int = 0
    """The highest number a run has had, which is not given again: a deck or note may name a run removed since."""

    def called(self, run: RunState, names: Mapping[str, str]) -> RunSpec:
        """The run's plan with the name that its submission gives it (see `called_by_job`)."""
        if (job := self.submissions.get(run.token)) is None:
            return run.used.called(names)
        return called_by_job(run.used, job, names, [self.runs[number].spec for number in job.run_ids])

    @property
    def rehearsed(self) -> bool:
        """Whether all that was sent was sent to a practice cluster; false before anything was."""
        return {each.practice for each in self.submissions.values()} == {True}

    def mark_of(self, run: RunState) -> Mark:
        """The run's mark: practice by the cluster it was sent to; small if a real cluster's log is marked practice."""
        submission = self.submissions.get(run.token)
        if submission is not None and not submission.practice:
            return "small" if run.practice else ""
        return "practice" if submission is not None or run.practice else ""

    def cancelled_as_asked(self, run: RunState) -> bool:
        """Whether the student asked to cancel its job, and that is how it ended."""
        job = self.submissions.get(run.token)
        return run.outcome == "cancelled" and job is not None and job.cancelling

    def made_good_by(self, failed: RunState) -> RunState | None:
        """Another run that trains or has trained: the same again, later, or its size with a batch that fitted."""

        def plan(run: RunState) -> object:
            sent = self.submissions.get(run.token)  # what a log told since is no difference
            spec = sent.plans.get(run.run_id, run.spec) if sent is not None else run.spec
            return run.task_id, spec, spec.script or (sent and sent.job_file)

        for run in (each for each in self.runs.values() if each.phase in (RunPhase.DONE, *OPEN)):
            same = (run.task_id, run.spec.label) == (failed.task_id, failed.spec.label)
            smaller = run.outcome is not None and run.spec.per_gpu_batch < failed.spec.per_gpu_batch
            again = run.run_id > failed.run_id and plan(run) == plan(failed)
            if again or (failed.gpu_memory_ran_out and same and smaller):
                return run
        return None

    def never_counts(self, run: RunState) -> bool:
        """Whether its time limit ended a run that counts for no task anyway: a small one, or one on the CPU."""
        return run.outcome == "time-limit" and (run.ran_on_cpu or self.mark_of(run) == "small")

    # ------------------------------------------------------------------ submissions

    def in_status(self, *statuses: SubmissionStatus) -> tuple[SubmissionState, ...]:
        """The submissions in one of these statuses, in the order in which they were planned."""
        return tuple(item for item in self.submissions.values() if item.status in statuses)

    @property
    def stuck(self) -> tuple[Problem, ...]:
        """Why submissions wait that the cluster cannot store: what the doctor (`D` on the screens) explains."""
        waiting = self.in_status(SubmissionStatus.WAITING)
        told = {item.sentence: item.hint for item in waiting if "doctor" in item.hint}
        return tuple(Problem(key="stuck", sentence=at, hint=f"Press D: {hint}") for at, hint in told.items())

    def with_planned(self, submission: SubmissionState, news: Iterable[RunState] = ()) -> LabState:
        """Add or replace a submission, its runs as well: `news` replace those of before; phases follow."""
        changed, first_open = {run.run_id: run for run in news}, True
        gone = set(self.submissions.get(submission.token, submission).run_ids) - set(submission.run_ids)
        for run_id in submission.run_ids:
            run = changed.get(run_id) or self.runs.get(run_id) or new_run(submission, run_id)
            phase = run_phase(submission, run, first_open=first_open)
            if run_id not in self.runs or phase is not run.phase:
                changed[run_id] = replace(run, phase=phase)
            first_open = first_open and run.outcome is not None
        submissions = MappingProxyType({**self.submissions, submission.token: submission})
        kept = {number: run for number, run in self.runs.items() if number not in gone} if gone else self.runs
        runs = MappingProxyType({**kept, **changed}) if changed or gone else self.runs
        last_run = max((self.last_run, *submission.run_ids))
        return replace(self, submissions=submissions, runs=runs, last_run=last_run)

    def with_submission(self, token: str, **changes: Any) -> LabState:
        """Change these fields of one submission."""
        known = self.submissions.get(token)
        return self if known is None else self.with_planned(replace(known, **changes))

    def with_accepted(
        self, token: str, job_id: str, at: float, sentence: str = "", evidence: str = "sbatch"
    ) -> LabState:
        """Record that Slurm gave a submission this job; `at` is when we learned it, in UNIX seconds."""
        state = self.with_submission(token, status=SubmissionStatus.ACCEPTED, sentence=sentence, hint="")
        known = state.submissions.get(token)
        if known is None or (known.job is not None and known.job.job_id == job_id):
            return state
        job = JobView(job_id=job_id, phase=JobPhase.QUEUED, evidence=evidence, seen_at=at)
        return state.with_job(token, job)

    def with_job(self, token: str, job: JobView) -> LabState:
        """Set what Slurm says of a submission's job. A new job id resets its runs and logs.

        Its mirrors begin a new segment if those of another job have the same names: Slurm may use an id again.
        """
        if (old := self.submissions.get(token)) is None:
            return self
        begun = job.phase in (JobPhase.RUNNING, JobPhase.SETTLING, JobPhase.FINISHED)
        # Slurm's word counts, except that an answer may be older than the student's own hold.
        said, was = [each is not None and each.reason.startswith("JobHeld") for each in (job, old.job)]
        # a job that has started cannot be held
        new = replace(old, job=job, held=not begun and (said or (old.held and not was)))
        if old.job is not None and old.job.job_id == job.job_id:
            return self.with_planned(new)
        logs: dict[Stream, LogState] = {}
        for stream in LOG_ENDINGS:
            name, jobs = new.mirror(stream, 0), self.submissions.values()
            before = [one.logs.get(stream, LogState()) for one in jobs if one.mirror(stream, 0) == name]
            if before and stream in new.remote_logs:
                logs[stream] = LogState(segment=1 + max(log.segment for log in before))
        return self.with_planned(replace(new, logs=logs), [new_run(new, number) for number in new.run_ids])

    def with_log(self, token: str, stream: Stream, log: LogState) -> LabState:
        """Set what the mirror of a log holds."""
        known = self.submissions.get(token)
        return self if known is None else self.with_submission(token, logs={**known.logs, stream: log})

    def with_runs(self, runs: Iterable[RunState]) -> LabState:
        """Replace these runs of one submission, as read from its logs; those of no submission are ignored."""
        known = (run for run in runs if (now := self.runs.get(run.run_id)) and now.token == run.token)
        news = [run for run in known if run != self.runs[run.run_id]]
        return self.with_planned(self.submissions[news[0].token], news) if news else self

    # ------------------------------------------------------------------ the cluster

    def with_paths(self, paths: Mapping[str, bool | str], at: float) -> LabState:
        """Record which of these absolute remote paths exist, as the cluster said at `at` (UNIX seconds).

        A text is for a path that exists: what is wrong with it, or "". True keeps what was wrong with it before.
        """
        seen = dict(self.paths)
        for path, said in paths.items():
            kept = seen[path].remark if path in seen else ""
            remark = kept if said is True else said or ""
            seen[path] = PathStatus(there=said is not False, at=at, remark=remark)
        return replace(self, paths=MappingProxyType(seen))

    def with_problem(self, key: str, error: LabError | None) -> LabState:
        """Set the problem with this key, or remove it (None)."""
        new = () if error is None else (Problem(key=key, sentence=error.sentence, hint=error.hint),)
        if new == tuple(old for old in self.problems if old.key == key):
            return self
        return replace(self, problems=(*(old for old in self.problems if old.key != key), *new))


Change = Callable[[LabState], LabState]
"""A function from one state to the next."""


def new_run(submission: SubmissionState, number: int) -> RunState:
    """A run of which nothing but its plan is known; on the CPU if its job, of a template, asks for no GPU."""
    of_job = {name: getattr(submission, name) for name in ("token", "task_id", "practice")}
    spec, asks = submission.plans[number], submission.gpus or submission.form == "own"
    return RunState(run_id=number, spec=spec, device="cpu" if spec.n_gpus and not asks else None, **of_job)


def run_phase(submission: SubmissionState, run: RunState, *, first_open: bool) -> RunPhase:
    """The phase of a run, from its submission, its job and its log; of an ended job the last until its log is read.

    `first_open` is true when all earlier runs of the submission have ended.
    """
    if run.outcome is not None:
        return _PHASE_OF_OUTCOME.get(run.outcome, RunPhase.FAILED)
    if submission.status is not SubmissionStatus.ACCEPTED:
        return _PHASE_OF_STATUS.get(submission.status, RunPhase.WAITING)
    job = submission.job
    phase = job.phase if job is not None else JobPhase.QUEUED
    if phase is JobPhase.UNKNOWN:
        return RunPhase.UNKNOWN
    again = job is not None and phase is JobPhase.QUEUED and job.start_time is not None
    if run.started and not again:
        return RunPhase.RUNNING
    return RunPhase.QUEUED if phase is JobPhase.QUEUED or not first_open else RunPhase.STARTING


_PHASE_OF_OUTCOME: dict[Outcome, RunPhase] = {"completed": RunPhase.DONE, "cancelled": RunPhase.CANCELLED}

_PHASE_OF_STATUS: dict[SubmissionStatus, RunPhase] = {
    SubmissionStatus.UNKNOWN: RunPhase.UNKNOWN,
    SubmissionStatus.REFUSED: RunPhase.FAILED,
    SubmissionStatus.WITHDRAWN: RunPhase.CANCELLED,
}


# --------------------------------------------------------------------------- the submission queue


UNKNOWN_SENTENCE = "No answer from Slurm: labtui checks whether the job is there. It is never sent twice."


def submission_queue(state: LabState) -> tuple[SubmissionState, ...]:
    """The submissions that wait to be sent, oldest first, without those that the student holds."""
    free = (item for item in state.in_status(SubmissionStatus.WAITING) if not item.held)
    return tuple(sorted(free, key=lambda item: (item.planned_at, item.run_ids)))
