"""An open lab folder: what the screens and the commands talk to.

A session opened without a cluster, or without a network, still serves everything that is stored. Reading
properties never blocks. Actions return a `Future` at once; the worker does them when it can, and the state tells
how it went.
"""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from labtui.domain.errors import FolderError, LabError, StoreError, UsageError
from labtui.domain.model import AcceptedFinding, Stream, SubmissionDraft
from labtui.domain.profile import Profile
from labtui.domain.state import ConnectionState, LabState
from labtui.session import mirrors, planning, records
from labtui.session.folder import SCRIPT_NAME, LabFolder
from labtui.session.journal import FaultLog, Journal, Mailbox, Request, repeat, serve
from labtui.session.mirrors import AT_ONCE_BYTES, Readings
from labtui.session.opening import open_store
from labtui.session.settings import Settings, cluster_user, load_profile
from labtui.session.store import Store
from labtui.session.worker_context import Clock, WorkerContext

if TYPE_CHECKING:
    from filelock import FileLock

    from labtui.cluster.connection import Connection
    from labtui.cluster.target import Prompter
    from labtui.lab.edition import Edition
    from labtui.lab.plan import PlanOverrides
    from labtui.results.rows import Results
    from labtui.session.cluster_worker import ClusterWorker
    from labtui.session.preview import Preview
    from labtui.slurm.job_control import SbatchAnswer
    from labtui.slurm.job_evidence import MyJob
    from labtui.slurm.remote_command import CommandRecord

_COMMANDS_KEPT = 500
_LOOK_EVERY_S = 0.5


class Session:
    """One lab folder, open. Make it with `Session.open`; close it when done (it is a context manager, too)."""

    def __init__(
        self, folder: LabFolder, store: Store, lock: FileLock | None, clock: Clock, prompter: Prompter | None
    ) -> None:
        self.folder = folder
        self.clock = clock
        self.settings: Settings = folder.settings()
        self.profile: Profile = load_profile(self.settings.profile, folder.path)
        self.faults = FaultLog(folder.problem_log, writes=store.copy is None)
        self._store = store
        self._lock = lock
        self._journal = Journal(store, functools.partial(records.keep_files, folder))
        self.readings = Readings(folder, store)
        self._journal.change(self._mirrored)
        self._save_readings()
        self._commands: deque[CommandRecord] = deque(maxlen=_COMMANDS_KEPT)
        self._worker: ClusterWorker | None = None
        self._not_started: LabError | None = None
        self._threads: dict[str, Callable[[], None]] = {}
        """How to end what runs beside the worker: following another process, serving others."""
        self._prompter = prompter
        self._closed = False

    # ------------------------------------------------------------------ opening and closing

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        prompter: Prompter | None = None,
        start: bool = True,
        clock: Clock | None = None,
    ) -> Session:
        """Open a lab folder; with `start` it begins to connect at once.

        `prompter` answers the questions of a login (None: every question is refused, keys and agent still work).
        When another process holds the folder the session is read-only: it follows what the other one stores.
        A folder that is not trusted or cannot be written is only looked at: nothing is asked of the network.

        Raises:
            FolderError: no lab folder, or it cannot be read; StoreError when its database is damaged.
            DataError: `lab.toml` or the cluster profile cannot be understood.
        """
        folder = LabFolder.open(path)
        store, lock = open_store(folder)
        try:
            session = cls(folder, store, lock, clock or Clock(), prompter)
        except BaseException:
            if lock is not None:
                lock.release()
            raise
        if start:
            session.start()
        return session

    def start(self) -> None:
        """Begin to connect, poll and follow (or, read-only, to follow the other process). Does nothing twice.

        Raises LabError where the settings lack what that needs (an account, a login host); the state says it, too.
        """
        if self._worker is not None or self._threads:
            return
        if self.read_only:
            if self._store.copy is None:
                self._threads["follow"] = repeat(
                    "labtui-follower", _LOOK_EVERY_S, self._look, self.faults.write
                )
            return
        from labtui.session.lab_cluster import connection_to

        try:
            planning.lab_root(self.profile, self.settings, user=self.user)
            on_command = self._commands.append
            cluster = connection_to(self.settings, self.profile, self._prompter, on_command)
        except LabError as error:
            self._not_started = problem = error
            offline = ConnectionState(sentence=error.sentence, hint=error.hint)
            self._journal.change(
                lambda state: replace(state, connection=offline).with_problem("settings", problem)
            )
            raise
        self._worker = self._worker_on(cluster)
        self._worker.start()
        self.serve_requests()

    def _worker_on(self, cluster: Connection) -> ClusterWorker:
        """The worker of this session, not started."""
        from labtui.session.cluster_worker import ClusterWorker

        context = WorkerContext(
            folder=self.folder,
            profile=self.profile,
            store=self._store,
            journal=self._journal,
            cluster=cluster,
            clock=self.clock,
            faults=self.faults,
            readings=self.readings,
            max_log_bytes=int(self.settings.max_log_gib * 1024**3),
        )
        return ClusterWorker(context)

    def _look(self) -> None:
        self._journal.look(self._mirrored)

    def _mirrored(self, state: LabState) -> LabState:
        """The state with what the mirrors on disk hold and tell."""
        return self.readings.caught_up(mirrors.with_sizes(self.folder, state), AT_ONCE_BYTES)

    def _save_readings(self) -> None:
        with contextlib.suppress(StoreError):  # they are computed again the next time
            self.readings.save(self._journal.state)

    def close(self, timeout_s: float = 1.0) -> None:
        """Stop everything; returns within `timeout_s`. What was accepted stays with Slurm, what waits stays stored."""
        if self._closed:
            return
        self._closed = True
        ended = self._worker is None or self._worker.close(timeout_s)
        for end in self._threads.values():
            end()
        self._journal.close()
        if ended:  # a worker stuck in a system call must not find its database closed
            self._save_readings()
            self._store.close()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # ------------------------------------------------------------------ reading

    @property
    def read_only(self) -> bool:
        """Whether nothing may be changed here; `why_read_only` says why."""
        return self.why_read_only is not None

    @property
    def why_read_only(self) -> LabError | None:
        """Why nothing may be changed: not trusted, not writable, a copy, or open elsewhere; None if it may."""
        return self._store.refusal

    @property
    def practice(self) -> bool:
        """Whether what this folder submits is a rehearsal."""
        return self.settings.practice or self.profile.status == "practice"

    @property
    def state(self) -> LabState:
        """The latest state, a frozen value."""
        return self._journal.state

    @functools.cached_property
    def edition(self) -> Edition:
        """The lab this folder is for. Raises DataError when its file is missing or cannot be understood."""
        from labtui.session.labs import load_edition

        return load_edition(self.settings.edition, self.folder)

    @functools.cached_property
    def user(self) -> str:
        """The user name on the cluster: as set, or as the SSH configuration says; empty when that cannot be read."""
        return cluster_user(self.settings, self.profile)

    @property
    def commands(self) -> tuple[CommandRecord, ...]:
        """What labtui asked the cluster, oldest first (the last 500)."""
        return tuple(self._commands)

    def next_state(self, told: LabState, timeout_s: float | None = None) -> LabState:
        """Wait for the state after `told`; `told` itself when the time is over, or the session closed."""
        return self._journal.next_state(told, timeout_s)

    def log_path(self, token: str, stream: Stream) -> Path | None:
        """The mirror of a submission's log (its latest segment), if there is one."""
        submission = self.state.submissions.get(token)
        name = submission.mirror(stream) if submission is not None else ""
        return self.folder.path / name if name and self.folder.has(name) else None

    def files_of(self, token: str) -> dict[str, bytes]:
        """The files of a submission as they were when it was planned, by relative path. Raises StoreError."""
        return self._store.snapshot(token)

    def results(self) -> Results:
        """The numbers of this folder's runs (computed now, from the state)."""
        from labtui.results.compute import compute_results
        from labtui.results.measured import measured_from_state

        return compute_results(measured_from_state(self.state), images=self.edition.images)

    def drafts(self, task_id: str, overrides: PlanOverrides | None = None) -> tuple[SubmissionDraft, ...]:
        """What a task plans to submit, with this folder's account, queue and paths; `overrides` for this time.

        Raises UsageError when the edition has no such task.
        """
        from labtui.lab.plan import PlanOverrides, in_queue, task_drafts

        settings, chosen = self.settings, overrides or PlanOverrides()
        names = ("account", "reservation", "container", "data_dir", "max_per_gpu_batch")
        merged = {name: getattr(chosen, name) or getattr(settings, name) for name in names}
        chosen = replace(chosen, user=chosen.user or self.user, **merged)
        drafts = task_drafts(self.edition, task_id, self.profile, chosen)
        if chosen.qos or chosen.partition:
            return drafts
        queue = {"qos": settings.qos, "partition": settings.partition}
        return tuple(in_queue(draft, self.profile, **queue) for draft in drafts)

    def preview(self, draft: SubmissionDraft, *, script: str | None = None) -> Preview:
        """What submitting would do: job script, files, findings, expected time and cost. Sends nothing.

        Raises TemplateError when the template does not fit the draft, FolderError when a script cannot be read.
        """
        from labtui.session.preview import preview

        return preview(self, draft, script)

    # ------------------------------------------------------------------ actions

    def submit(
        self, draft: SubmissionDraft, *, script: str | None = None, accepted: Sequence[AcceptedFinding] = ()
    ) -> Future[str]:
        """Put a submission into the submission queue and send it as soon as its queue takes it; gives its token.

        The intent and the scripts as they are now are on disk when this returns. The future is done when Slurm has
        accepted the job, or raises `SubmitRefused`; while it waits for a free slot the state says why. Where another
        process holds the connection it is done when that one has stored the intent. `script` replaces the rendered
        job script; `accepted` are findings that the student overrides, each with a reason.

        Raises:
            FolderError: read-only, or the intent could not be stored (nothing will be sent then).
            TemplateError: when the template does not fit the draft.
        """
        return self._do(Request(action="submit", draft=draft, script=script, accepted=tuple(accepted)))

    def cancel(self, run_id: int) -> Future[None]:
        """Cancel a run's whole submission, wherever it stands: waiting, being sent, unknown, queued or running.

        Done when Slurm took the request; the state shows what came of it. Raises UsageError: there is no such run.
        """
        return self._do(Request(action="cancel", run_id=run_id))

    def end_after(self, run_id: int, minutes: int) -> Future[None]:
        """Let a run's job end after `minutes` of running, wherever it stands. Slurm keeps the watch, not labtui.

        Done when Slurm took the limit, or it is stored for a job to be sent; `UsageError` when it makes no sense.
        """
        return self._do(Request(action="end_after", run_id=run_id, minutes=minutes))

    def hold(self, run_id: int, *, held: bool = True) -> Future[None]:
        """Let the job of a run that waits, here or at Slurm, wait until it is released (`held` False)."""
        return self._do(Request(action="hold", run_id=run_id, held=held))

    def my_jobs(self) -> tuple[MyJob, ...]:
        """Every living job of the student as of `state.refreshed_at`, also those that this folder did not send."""
        from labtui.slurm.job_evidence import my_jobs

        return my_jobs(self.state, self.profile)

    def cancel_job(self, job_id: str) -> Future[None]:
        """Cancel one of `my_jobs` by its number. Raises UsageError when it is none of them."""
        return self._do(Request(action="cancel_job", job_id=job_id))

    def gpus(self, job_id: str) -> Future[str]:
        """One sample of the GPUs of a running job, one of `my_jobs`, as nvidia-smi's CSV; UsageError for another."""
        return self._do(Request(action="gpus", job_id=job_id))

    def test_only(self, draft: SubmissionDraft, *, script: str | None = None) -> Future[SbatchAnswer]:
        """The cluster's own word on a draft (`sbatch --test-only`): nothing is submitted."""
        from labtui.slurm.job_control import check_script

        self._must_write()
        planned = planning.plan(self, draft, script, keep_in="")
        text = planned.files[SCRIPT_NAME].decode("utf-8", "surrogateescape")
        return self._running_worker().ask(check_script(text, planned.submission.options))

    def look_at(self, paths: Sequence[str]) -> Future[dict[str, bool]] | None:
        """Ask the cluster whether remote paths are there, for the state's `places`; None: nothing or nobody to ask."""
        from labtui.slurm.probe import present

        if self._worker is None or self.state.connection.status != "online" or not paths:
            return None
        return self._worker.ask(present(paths), self.note_paths)

    def note_paths(self, paths: Mapping[str, bool]) -> None:
        """Keep whether remote paths are there, as the cluster said now; nothing is kept in a folder open elsewhere."""
        if not self.read_only:
            self._journal.change(lambda state: state.with_places(paths, self.clock.wall()))

    def watch_logs(self, tokens: set[str], visible: tuple[str, Stream] | None = None) -> None:
        """These submissions' runs are on screen: their logs come first, and first of all the `visible` one."""
        if self._worker is not None:
            self._worker.watch_logs(frozenset(tokens), visible)

    def refresh(self) -> None:
        """Read the queue, and connect where there is no connection, as soon as politeness allows (a key press)."""
        if self._worker is not None:
            self._worker.refresh()

    # ------------------------------------------------------------------ beside another process

    @property
    def elsewhere(self) -> bool:
        """Whether another process holds the folder and acts on what is asked here."""
        return self._lock is None and self._store.copy is None

    def _do(self, request: Request) -> Future[Any]:
        """Do it here, or have the process do it that holds the folder, and see what that stored."""
        if not self.elsewhere:
            return self._act(request)[1]
        future: Future[Any] = Future()
        future.set_result(Mailbox(self.folder.database_path).ask(request))
        self._look()
        return future

    def _act(self, request: Request) -> tuple[str, Future[Any]]:
        """Do it: the token that it is about ("" for none), and what is done when it is done."""
        from labtui.slurm.job_control import cancel, gpus

        self._must_write()
        if request.draft is not None:
            return self._submit(request.draft, request.script, request.accepted)
        if request.job_id:
            token = self._token_of_job(request.job_id)
        else:
            token = planning.run_of(self.state, request.run_id).token
        if request.action == "gpus":
            return "", self._running_worker().ask(gpus(request.job_id))
        if token:
            return token, self._running_worker().change(token, request)
        worker = self._running_worker()
        return "", worker.ask(cancel(request.job_id), lambda _: worker.refresh())

    def _submit(
        self, draft: SubmissionDraft, script: str | None, accepted: Sequence[AcceptedFinding]
    ) -> tuple[str, Future[str]]:
        planned = planning.plan(self, draft, script, accepted=accepted)
        worker, token = self._running_worker(), planned.submission.token
        future = worker.track_submission(token)
        self._journal.intend(
            lambda state: state.with_planned(planned.submission), files={token: planned.files}
        )
        worker.look()
        return token, future

    def _token_of_job(self, job_id: str) -> str:
        job = next((item for item in self.my_jobs() if item.job_id == job_id), None)
        if job is None:
            raise UsageError(f"No job {job_id} of yours is in the queue.", "`labtui queue --all` lists them.")
        return job.token

    def serve_requests(self) -> None:
        """Act on what other processes ask, from now on."""
        self._threads["serve"] = serve(self.folder.database_path, self._act, self.faults.write)

    def _must_write(self) -> None:
        if (why := self.why_read_only) is not None:
            raise why

    def _running_worker(self) -> ClusterWorker:
        if self._worker is None:
            self._must_write()
            if self._not_started is not None:
                raise self._not_started
            raise FolderError("This session only reads what is stored.", "Start it first.")
        return self._worker
