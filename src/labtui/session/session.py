"""An open lab folder: the interface that the screens and the commands use.

A session without a cluster or a network still serves everything that is stored. Reading properties never blocks.
Actions return a `Future` at once; the worker carries them out when it can, and the state shows the result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from labtui.domain import decode
from labtui.domain.errors import FolderTaken, LabError, failure
from labtui.domain.model import AcceptedFinding, Stream, SubmissionDraft
from labtui.domain.state import WRITER_GONE, ConnectionState, LabState
from labtui.session import mirrors, records
from labtui.session.folder import SCRIPT_NAME, LabFolder
from labtui.session.journal import FaultLog, Journal, Mailbox, Request, run_every
from labtui.session.opening import lock_folder, open_store
from labtui.session.settings import cluster_user, lab_root, load_named
from labtui.session.store import Store
from labtui.session.worker_context import Clock, WorkerContext

if TYPE_CHECKING:
    from labtui.cluster.connection import Connection
    from labtui.cluster.target import Prompter
    from labtui.lab.edition import Edition
    from labtui.lab.plan import PlanOverrides
    from labtui.results.rows import Results
    from labtui.session.cluster_worker import ClusterWorker
    from labtui.session.preview import Preview
    from labtui.slurm.job_control import SbatchAnswer
    from labtui.slurm.job_evidence import MyJob

_LOOK_EVERY_S = 0.5


class Session:
    """One open lab folder. Make it with `Session.open`; close it when done, or use it as a context manager."""

    def __init__(
        self, folder: LabFolder, store: Store, clock: Clock, prompter: Prompter | None, *, sends: bool
    ) -> None:
        self.folder = folder
        self.clock = clock
        self.settings, self.profile = load_named(folder.path)
        self.faults = FaultLog(folder.problem_log, writes=store.copy is None)
        self._store = store
        self._journal = Journal(store, functools.partial(records.keep_files, folder))
        self.readings = mirrors.Readings(folder, store)
        self._worker: ClusterWorker | None = None
        self._not_started: LabError | None = None
        self._ends: list[Callable[[], None]] = []
        """Functions that end the threads beside the worker, which follow another process or serve others."""
        self._prompter, self._sends = prompter, sends
        self._closed = False
        self.other_closed: ConnectionState | None = None  # once the process that held the folder has ended
        self.is_wanted = False  # whether screens that open asked for the folder
        self._journal.change(self._mirrored)
        self.readings.save(self.state)

    # ------------------------------------------------------------------ opening and closing

    @classmethod
    def open(
        cls, path: str | Path, *, prompter: Prompter | None = None, start: bool = True, sends: bool = True,
        follows: str = "", takes_over: bool = False, clock: Clock | None = None,
    ) -> Session:  # fmt: skip
        """Open a lab folder; with `start` it begins to connect at once. Unless it `sends`, what waits goes on waiting.

        `prompter` answers the questions of a login (None: every question is refused; keys and agent still work).
        If another process holds the folder, the session is read-only and follows what that one stores; but a command
        that only follows (it gives its name as `follows`) hands the folder over to screens, which open it with
        `takes_over`. A folder that is not trusted or cannot be written is read without using the network.

        Raises:
            FolderError: it is not a lab folder, or cannot be read.
            StoreError: its database is damaged.
            DataError: `lab.toml` or the cluster profile is not valid.
        """
        folder = LabFolder.open(path)
        store = open_store(folder, follows=follows, takes_over=takes_over)
        try:
            session = cls(folder, store, clock or Clock(), prompter, sends=sends)
        except BaseException:
            store.close()
            raise
        if start:
            session.start()
        return session

    def start(self) -> None:
        """Begin to connect, poll and follow logs, or, if read-only, to follow the mirrors. Works once only.

        Raises LabError if the settings lack an account or a login host; the state then says so, too.
        """
        if self._worker is not None or self._ends:
            return
        if self.read_only:
            self._ends.append(run_every("labtui-reader", _LOOK_EVERY_S, self._reload, self.faults.write))
            return
        from labtui.session.lab_cluster import connection_to

        try:
            lab_root(self.profile, self.settings, user=self.user)
            cluster = connection_to(self.settings, self.profile, self._prompter)
        except LabError as error:
            self._not_started = error
            offline = ConnectionState(sentence=error.sentence, hint=error.hint)
            told = methodcaller("with_problem", "settings", error)
            self._journal.change(lambda state: replace(state, connection=offline), told)
            raise
        self._worker = self._worker_on(cluster)
        self._worker.start()
        self.serve_requests()

    def _worker_on(self, cluster: Connection) -> ClusterWorker:
        """The worker of this session, not started yet."""
        from labtui.session.cluster_worker import ClusterWorker

        parts = self.folder, self.profile, self._store, self._journal, cluster, self.clock, self.faults
        max_log_bytes = int(self.settings.max_log_gib * 1024**3)
        return ClusterWorker(WorkerContext(*parts, self.readings, self._sends, max_log_bytes))

    def _reload(self) -> None:
        self._journal.reload(self._mirrored)

    def _mirrored(self, state: LabState) -> LabState:
        """The state with the sizes of the mirrors on disk and the runs computed from them.

        Once the process that has the folder is gone, its last word that it is connected no longer counts.
        """
        if self.other_closed is None and self.open_elsewhere and self._writer_is_gone():
            self.other_closed = replace(WRITER_GONE, since=self.clock.wall())
            self._store.refusal = FolderTaken(WRITER_GONE.sentence, WRITER_GONE.hint)
        if self.other_closed not in (None, state.connection):
            state = replace(state, connection=self.other_closed)
        return self.readings.catch_up(mirrors.with_sizes(self.folder, state), mirrors.AT_ONCE_BYTES)

    def _writer_is_gone(self) -> bool:
        """Whether no process holds the folder's lock."""
        if lock := lock_folder(self.folder.lock_path):
            lock.release()
        return lock is not None

    def close(self, timeout_s: float = 1.0) -> None:
        """Stop everything; returns within about `timeout_s`. Jobs stay in Slurm, waiting submissions in the store."""
        if self._closed:
            return
        self._closed = True
        ended = self._worker is None or self._worker.close(timeout_s)
        for end in self._ends:
            end()
        self._journal.close()
        if ended:  # a worker that is still in a call must not find its database closed
            self.readings.save(self.state)
            self._store.close()
        elif self._store.lock is not None:
            self._store.lock.release()

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
        """Why nothing may be changed: not trusted, not writable, a copy, or open elsewhere; else None."""
        return self._store.refusal

    @property
    def practice(self) -> bool:
        """Whether what this folder submits is a rehearsal."""
        return self.profile.status == "practice"

    @property
    def state(self) -> LabState:
        """The latest state, a frozen value."""
        return self._journal.state

    @functools.cached_property
    def edition(self) -> Edition:
        """The lab this folder is for. Raises DataError when its file is missing or not valid."""
        from labtui.session.labs import load_edition

        return load_edition(self.settings.edition, self.folder)

    @functools.cached_property
    def user(self) -> str:
        """The user name on the cluster: as set, or as the SSH configuration says; empty when that cannot be read."""
        return cluster_user(self.settings, self.profile)

    def next_state(self, told: LabState, timeout_s: float | None = None) -> LabState:
        """Wait until the state differs from `told`; return `told` on a time-out or when the session is closed."""
        return self._journal.next_state(told, timeout_s)

    def log_path(self, token: str, stream: Stream) -> Path | None:
        """The mirror of a submission's log (its latest segment), if there is one."""
        submission = self.state.submissions.get(token)
        name = submission.mirror(stream) if submission is not None else ""
        return self.folder.path / name if name and self.folder.has(name) else None

    def files_of(self, token: str) -> dict[str, bytes]:
        """The files of a submission at the time it was planned, by relative path. Raises StoreError."""
        return self._store.snapshot(token)

    def results(self) -> Results:
        """The results of this folder's runs, computed from the current state."""
        from labtui.session.labs import lab_results

        return lab_results(self.state, self.edition)

    def drafts(self, task_id: str, overrides: PlanOverrides | None = None) -> tuple[SubmissionDraft, ...]:
        """The drafts that a task plans, with this folder's account, queue and paths; `overrides` come first.

        Raises UsageError when the edition has no such task, or a queue does not allow the time limit in `overrides`.
        """
        from labtui.lab.plan import PlanOverrides, refuse_over_limit, task_drafts, with_queue

        settings, chosen = self.settings, overrides or PlanOverrides()
        names = ("account", "reservation", "container", "data_dir", "max_per_gpu_batch")
        merged = {name: getattr(chosen, name) or getattr(settings, name) for name in names}
        chosen = replace(chosen, user=chosen.user or self.user, **merged)
        drafts = task_drafts(self.edition, task_id, self.profile, chosen)
        if not (chosen.qos or chosen.partition):
            queue = {"qos": settings.qos, "partition": settings.partition}
            drafts = tuple(with_queue(draft, self.profile, **queue) for draft in drafts)
        for draft in drafts:
            refuse_over_limit(draft.queue, chosen.time_limit_minutes, self.profile)
        return drafts

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
        """Put a submission into the submission queue and send it as soon as its Slurm queue takes it.

        The intent and the current scripts are on disk when this returns. The future gives the token when Slurm has
        accepted the job, or raises `SubmitRefused`; while it waits for a free slot the state says why. If another
        process holds the connection, the future is done when that one has stored the intent. `script` replaces the
        rendered job script; `accepted` are findings that the student overrides, each with a reason.

        Raises:
            FolderError: read-only, or the intent could not be stored (nothing will be sent then).
            TemplateError: when the template does not fit the draft.
        """
        return self._do(Request(action="submit", draft=draft, script=script, accepted=tuple(accepted)))

    def cancel(self, run_id: int) -> Future[None]:
        """Cancel a run's whole submission in any state: waiting, being sent, unknown, queued or running.

        The future is done when Slurm took the request. Raises UsageError if there is no such run.
        """
        return self._do(Request(action="cancel", run_id=run_id))

    def end_after(self, run_id: int, minutes: int) -> Future[None]:
        """Let a run's job end after `minutes` of running, in any state. Slurm enforces the limit, not labtui.

        The future is done when Slurm took the limit, or when it is stored for a job that is not sent yet; it raises
        UsageError if the limit is not possible.
        """
        return self._do(Request(action="end_after", run_id=run_id, minutes=minutes))

    def hold(self, run_id: int, *, held: bool = True) -> Future[None]:
        """Hold a run's job that waits, here or in Slurm, or release it (`held` False)."""
        return self._do(Request(action="hold", run_id=run_id, held=held))

    def my_jobs(self) -> tuple[MyJob, ...]:
        """All of the student's jobs in the queue at `state.refreshed_at`, including those of other programs."""
        from labtui.slurm.job_evidence import my_jobs

        return my_jobs(self.state, self.profile)

    def cancel_job(self, job_id: str) -> Future[None]:
        """Cancel one of `my_jobs` by its job ID. Raises UsageError when there is no such job."""
        return self._do(Request(action="cancel_job", job_id=job_id))

    def test_only(self, draft: SubmissionDraft, *, script: str | None = None) -> Future[SbatchAnswer]:
        """Slurm's answer to ``sbatch --test-only`` for a draft; nothing is submitted."""
        return self._do(Request(action="test", draft=draft, script=script))

    def look_at(self, paths: Sequence[str]) -> Future[dict[str, bool]] | None:
        """Ask the cluster whether remote paths exist, for the state's `paths`; None if offline or without paths."""
        if not (self._worker or self.open_elsewhere) or self.state.connection.status != "online" or not paths:
            return None
        return self._do(Request(action="look", paths=tuple(paths)))

    def note_paths(self, paths: Mapping[str, bool | str]) -> None:
        """Store whether remote paths exist, as the cluster said now; `LabState.with_paths` says what a text means."""
        self._do(Request(action="note", seen=paths))

    def keep_choice(self, **choices: str) -> None:
        """Keep what the student chose on the screens for the next start. Does nothing if read-only."""
        if not self.read_only:
            self._journal.change(lambda state: replace(state, choices={**state.choices, **choices}))

    def watch_logs(self, tokens: set[str], visible: tuple[str, Stream] | None = None) -> None:
        """Follow the logs of these submissions, which are on screen, before others, and the `visible` one first."""
        if self._worker is not None:
            self._worker.watch_logs(frozenset(tokens), visible)

    def refresh(self) -> None:
        """Read the queue, and connect if offline, as soon as the limits on both allow, also beside another process."""
        if self._worker is not None:
            self._worker.refresh()
        elif self.open_elsewhere and not self.other_closed:
            self._do(Request(action="refresh"))

    # ------------------------------------------------------------------ beside another process

    @property
    def open_elsewhere(self) -> bool:
        """Whether another process holds the folder and acts on the requests made here."""
        return self._store.lock is None and self._store.copy is None

    def _do(self, request: Request) -> Future[Any]:
        """Act on a request here, or have the process that holds the folder do it and load what that stored."""
        if not self.open_elsewhere or self.other_closed:
            return self._act(request)[1]
        from labtui.slurm.job_control import SbatchAnswer

        said, future = Mailbox(self.folder.database_path).ask(request, self._writer_is_gone), Future[Any]()
        future.set_result(decode.from_json(said, SbatchAnswer) if request.action == "test" else said)
        self._reload()
        return future

    def _act(self, request: Request) -> tuple[str, Future[Any]]:
        """Act on a request here; return the token of its submission ("" for none) and a future for the result."""
        from labtui.session import planning
        from labtui.slurm.job_control import cancel, check_script
        from labtui.slurm.probe import paths_exist

        if request.action in ("hand-over", "note"):
            self.is_wanted, nothing = self.is_wanted or request.action == "hand-over", Future[Any]()
            self._journal.change(lambda state: state.with_paths(request.seen, self.clock.wall()))
            nothing.set_result(None)
            return "", nothing
        worker = self._running_worker()
        if request.action in ("refresh", "look"):
            looks = request.action == "look"
            return "", worker.ask(paths_exist(request.paths), self.note_paths) if looks else worker.refresh()
        if request.draft is not None:
            submission, files = planning.plan(self, request.draft, request.script, accepted=request.accepted)
            if request.action == "test":
                text = files[SCRIPT_NAME].decode("utf-8", "surrogateescape")
                return "", worker.ask(check_script(text, submission.options))
            self.folder.write(submission.script_file, files[SCRIPT_NAME])
            return submission.token, worker.submit(submission, files)
        if request.job_id:
            job = next((item for item in reversed(self.my_jobs()) if item.job_id == request.job_id), None)
            if job is None:
                raise failure("not-in-queue", job=request.job_id)
            token = job.token
        else:
            token = planning.run_of(self.state, request.run_id).token
        if token:
            return token, worker.change(token, request)
        return "", worker.ask(cancel(request.job_id), lambda _: worker.refresh())

    def serve_requests(self) -> None:
        """Start to act on the requests of other processes."""
        self._ends.append(Mailbox(self.folder.database_path).serve(self._act, self.faults.write))

    def _running_worker(self) -> ClusterWorker:
        """The worker, which only a session that may write has. Raises LabError without one."""
        if self._worker is None:
            raise self.why_read_only or self._not_started or failure("not-started")
        return self._worker
