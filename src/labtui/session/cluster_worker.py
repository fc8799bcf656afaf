"""The worker: the only thread that uses the connection. Everything labtui sends to the cluster goes through here.

Its loop does one small task at a time, the most urgent first: the student's requests, submissions to send, the
queue, the logs. It chooses again after each task, so nothing waits behind bulk work. A second, small thread watches
the worker: it notices when the computer was asleep and when a question stays unanswered.

The queue is polled by one remote command at a time, and no more often than needed to keep the screen correct.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from operator import methodcaller
from typing import Any

from msgspec.structs import replace

from labtui.domain.errors import ConnectionLost, LabError, RemoteFailure, StoreError, failure
from labtui.domain.model import JobPhase, JobView, Stream
from labtui.domain.state import QUEUE_KEY, Change, SubmissionState
from labtui.session import worker_context
from labtui.session.journal import Request
from labtui.session.log_follower import LogFollower
from labtui.session.submitter import Submitter
from labtui.session.worker_context import Question, Task, WorkerContext, ask_now, errors_to, fail
from labtui.slurm import job_evidence, queue
from labtui.slurm.remote_command import Call, T

FAULT_KEY = "fault"
_PAUSE_AFTER_FAULT_S = 2.0


class ClusterWorker:
    """The worker thread, started once. Its methods for other threads return at once."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._requests: deque[tuple[Callable[[Future[Any]], object], Future[Any]]] = deque()
        self._woken = threading.Event()
        self._connection = worker_context.ConnectionMonitor(context)
        self._submitter = Submitter(context)
        self._log_follower = LogFollower(context)
        self._poller = Poller(context, self._submitter)
        duties = {"submit": self._submitter, "queue": self._poller, "logs": self._log_follower}
        self._on_cluster: dict[str, Any] = duties
        self._watchdog = worker_context.Watchdog(
            context.clock, self._on_wake_up, self._connection.mark_stale, context.cluster.close
        )
        self._stop_watchdog: Callable[[], None] = lambda: None
        self._closing = threading.Event()
        self._pause_until = 0.0
        self._waiting: set[str] = set()
        """The duties that wait for an answer."""
        self._thread = threading.Thread(target=self._run, name="labtui-cluster-worker", daemon=True)

    # ------------------------------------------------------------------ from other threads

    def start(self) -> None:
        """Start the worker thread and its watchdog."""
        self._context.ask_aside = self._ask_aside
        self._thread.start()
        self._stop_watchdog = self._watchdog.start(self._context.faults.write)

    def close(self, timeout_s: float) -> bool:
        """Stop; return whether the thread ended in time. Closing the connection unblocks a pending call."""
        self._closing.set()
        self._woken.set()
        self._stop_watchdog()
        self._context.cluster.close()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        closed = failure("closed")
        while self._requests:
            fail(self._requests.popleft()[1], closed)
        self._submitter.abandon(closed)
        return not self._thread.is_alive()

    def submit(self, submission: SubmissionState, files: Mapping[str, bytes]) -> Future[str]:
        """Store a submission and its files, then send it; the future gives its token once Slurm accepts it.

        Raises StoreError: nothing was stored, and nothing will be sent.
        """
        future = self._submitter.track(submission.token)
        stored = {submission.token: files}
        self._context.journal.intend(lambda state: state.with_planned(submission), files=stored)
        self._woken.set()
        return future

    def _enqueue(self, work: Callable[[Future[Any]], object]) -> Future[Any]:
        """Run `work` in the worker's thread. It gets the future, which it settles at once or later."""
        future: Future[Any] = Future()
        self._requests.append((work, future))
        self._woken.set()
        return future

    def change(self, token: str, request: Request) -> Future[None]:
        """Cancel, hold, release or limit a submission in any state, then poll the queue soon."""
        change, cancels = self._context.journal.change, request.action == "cancel"

        def done(outcome: Future[None]) -> None:
            self._poller.request_poll()  # a poll before it would be wasted
            if cancels and outcome.exception() and not self._closing.is_set():
                change(methodcaller("with_submission", token, cancelling=False))

        def work(outcome: Future[None]) -> None:
            offline = None if self._ensure_connected() else self._connection.why_offline
            outcome.add_done_callback(done)
            self._context.run(self._submitter.change(token, request, outcome, offline))

        if cancels:  # stored before the request: if this process ends, the next one asks again
            change(methodcaller("with_submission", token, cancelling=True))
        return self._enqueue(work)

    def _ensure_connected(self) -> bool:
        """Whether there is a connection. Waits for the first attempt to connect, not for later ones."""
        if not self._context.state.connection.tried:
            self._connection_duty()
        return self._connection.online

    def ask(self, call: Call[T], then: Callable[[T], object] = lambda found: None) -> Future[T]:
        """Ask the cluster one question in the background; `then` gets the answer in the worker's thread."""

        def work(future: Future[T]) -> None:
            if self._ensure_connected():
                self._context.run(self._context.question_task(call, future, then))
            else:
                fail(future, self._connection.why_offline)

        return self._enqueue(work)

    def watch_logs(self, tokens: frozenset[str], visible: tuple[str, Stream] | None = None) -> None:
        self._log_follower.watch(tokens, visible)
        self._woken.set()

    def refresh(self) -> Future[None]:
        """Read the queue soon; connect if there is no connection, even after a refused login."""

        def work(asked: Future[None]) -> None:
            self._poller.request_poll()
            self._connection.retry_now()
            asked.set_result(None)

        return self._enqueue(work)

    def _on_wake_up(self) -> None:
        checks = self._connection.request_test, self._log_follower.recheck_all, self._poller.request_poll
        self._enqueue(lambda _: [check() for check in checks])

    # ------------------------------------------------------------------ the worker's thread

    def _run(self) -> None:
        self.resume()
        while not self._closing.is_set():
            if (pause := self.turn()) != 0.0:
                self._woken.wait(pause)
                self._woken.clear()

    def resume(self) -> None:
        """Continue what the last process left unfinished, and back up the database for `labtui repair`."""
        with contextlib.suppress(StoreError):
            self._context.store.back_up()
        self._submitter.resume()
        for item in self._context.state.submissions.values():
            if item.cancelling and not item.over:
                self.change(item.token, Request(action="cancel"))

    def turn(self) -> float | None:
        """Do the most urgent task that is due, if any; never raises.

        Returns the seconds until the next task: 0 to call again at once, None when only a request can bring work.
        """
        try:
            return self._step()
        except ConnectionLost as error:
            if not self._closing.is_set():
                self._on_connection_lost(error)
        except Exception as error:  # the session continues; the error panel names the log file
            self._context.faults.write(error)
            problem = failure("bug-named", kind=type(error).__name__, file=self._context.faults.path.name)
            self._context.set_problem(FAULT_KEY, problem)
            self._pause_until = self._context.clock.steady() + _PAUSE_AFTER_FAULT_S
        return 0.0

    def _ask_aside(self, question: Question, answered: Callable[[Question], object]) -> None:
        """Ask a slow question on a second channel; the answer comes back as a request to the worker."""
        ask = partial(ask_now, question, lambda answer: self._enqueue(lambda _: answered(answer)))
        threading.Thread(target=ask, name="labtui-aside", daemon=True).start()

    def _on_connection_lost(self, error: LabError) -> None:
        """The connection broke, or a call on it timed out; after a time-out it is tested before its next use."""
        if self._context.cluster.connected:
            self._connection.request_test()
        elif self._connection.online:
            self._connection.mark_lost(error)
        self._log_follower.recheck_all()

    def _step(self) -> float | None:
        if self._requests:
            work, future = self._requests.popleft()
            with errors_to(future):
                self._watchdog.watch(lambda: work(future))
            return 0.0
        duties = list(self._duties())
        now = self._context.clock.steady()  # after the duties: some are due at the moment they are asked
        known = [(max(due, self._pause_until), work) for due, work in duties if due is not None]
        if ready := [work for due, work in known if due <= now]:
            self._watchdog.watch(ready[0])
            return 0.0
        return min((due - now for due, _ in known), default=None)

    def _duties(self) -> Iterator[tuple[float | None, Callable[[], None]]]:
        """The worker's own tasks, the most urgent first, and when each is due (None: not now)."""
        yield self._connection.due_at(), self._connection_duty
        if self._connection.online:
            for name, duty in self._on_cluster.items():
                if name not in self._waiting:
                    yield duty.due_at(), partial(self._context.run, self._run_duty(name, duty.step))

    def _connection_duty(self) -> None:
        was_online = self._connection.online
        self._connection.attend()
        if self._connection.online and not was_online:
            self._log_follower.recheck_all()
            if job_evidence.live_jobs(self._context.state):
                self._context.note_change()

    def _run_duty(self, name: str, step: Callable[[], Task | None]) -> Task:
        self._waiting.add(name)
        try:
            yield from step() or ()
        except ConnectionLost:
            raise
        except LabError as error:  # here, because an answer comes back as a request that nobody waits for
            self._context.set_problem(f"{FAULT_KEY}:{name}", error)
            self._pause_until = self._context.clock.steady() + _PAUSE_AFTER_FAULT_S
            return
        finally:
            self._waiting.discard(name)
        self._connection.record_answer()
        self._context.set_problem(f"{FAULT_KEY}:{name}", None)


# --------------------------------------------------------------------------- the queue

_LOG_CHECK_S = 60.0


class Poller:
    """Decides when the queue is read next, and stores the answer. Worker thread only."""

    def __init__(self, context: WorkerContext, submitter: Submitter) -> None:
        """`submitter` is notified of jobs that ended."""
        self._context = context
        self._submitter = submitter
        practice = context.profile.status == "practice"
        self._limit = queue.POLLS_IN_PRACTICE if practice else queue.POLLS_PER_MINUTE
        self._last = self._spent = float("-inf")
        context.note_change()
        self._took_s = 0.0
        self._failures = 0
        self._poll_requested = True  # poll once at the start, to see jobs that another program sent

    def request_poll(self) -> None:
        """Poll as soon as the limit on polls allows, and more often for a while: something may change."""
        self._poll_requested = True
        self._context.note_change()

    def due_at(self) -> float | None:
        """When to poll next; None while there is nothing to watch."""
        changed_at, now = self._context.changed_at, self._context.clock.steady()
        delay = queue.poll_delay(
            [job.phase for _, job in job_evidence.live_jobs(self._context.state)],
            since_change_s=now - changed_at if changed_at < self._last else 0.0,  # not looked at yet
            failures=self._failures,
            last_took_s=self._took_s,
            has_others=bool(self._context.state.other_jobs),
        )
        if delay is None and not self._poll_requested:
            return None
        wait, asked = delay or 0.0, self._poll_requested
        due = queue.next_poll_at(self._last, self._spent, wait, requested=asked, limit=self._limit)
        failed_at = self._context.failed_at + queue.AFTER_FAILURE_S
        return min(due, failed_at) if self._last < failed_at else due

    def step(self) -> Task:
        """Poll once. Raises ConnectionLost."""
        context, began = self._context, self._context.clock.steady()
        self._last, self._spent = began, queue.spent_until(self._spent, began, self._limit)
        self._poll_requested = False
        live = job_evidence.live_jobs(context.state)
        # those missing from a good answer of the queue, or soon so
        vanished = tuple(job.job_id for item, job in live if item.cancelling or job.evidence == "gone")
        asked = {item.token: item.job for item in context.state.submissions.values() if item.job is not None}
        try:
            answer = yield partial(context.cluster.ask, queue.poll_queue(vanished))
        except RemoteFailure as error:
            answer = queue.QueueAnswer(jobs=None, accounting=None, problem=error.sentence)
        finally:
            self._took_s = context.clock.steady() - began
        self._store_answer(answer, asked)

    def _store_answer(self, answer: queue.QueueAnswer, asked: Mapping[str, JobView]) -> None:
        """Store the answer for the jobs `asked`; a job that came or changed since the question is skipped."""
        context, at = self._context, self._context.clock.wall()
        for mistaken in job_evidence.misread(context.state, answer):
            self._submitter.look_again(mistaken)
        known = context.state.submissions
        views = job_evidence.observe(context.state, answer, at)
        jobs = {token: view for token, view in views.items() if known[token].job is asked.get(token)}
        down = failure("queue-silent", text=answer.problem) if answer.jobs is None else None
        self._failures = self._failures + 1 if down else 0
        context.set_problem(QUEUE_KEY, down)
        if answer.jobs is None:
            self._store_jobs(jobs)
        else:
            self._submitter.look_up_shown(answer.jobs)
            silent = failure("accounting-silent", text=answer.accounting_problem)
            context.set_problem("accounting", silent if answer.accounting is None else None)
            others, clock = job_evidence.other_jobs(context.state, answer.jobs), answer.server_time
            read = {"other_jobs": others, "refreshed_at": at, "cluster_time": clock}
            self._store_jobs(jobs, lambda state: replace(state, **read))
        for submission, job in job_evidence.live_jobs(context.state):
            # a job whose log ends, and that neither queue nor accounting has known for a minute, is finished
            vanished = job.evidence == "gone" and at - (job.unknown_since or at) >= _LOG_CHECK_S
            if vanished and context.readings.reader(context.state, submission.token).script_ended:
                finished = replace(
                    job, phase=JobPhase.FINISHED, seen_at=at, unknown_since=None, evidence="log"
                )
                self._store_jobs({submission.token: finished})

    def _store_jobs(self, jobs: Mapping[str, JobView], *other_changes: Change) -> None:
        """Store jobs by token, with `other_changes` in the same transaction, and act on jobs that ended."""
        before = self._context.state

        observed = (methodcaller("with_job", *item) for item in jobs.items())
        self._context.journal.change(*observed, *other_changes)
        for token, job in jobs.items():
            old = before.submissions[token].job
            if old is None or old.phase is not job.phase:
                self._context.note_change()
            if job.phase is JobPhase.FINISHED:
                self._submitter.job_ended()
                submission = self._context.state.submissions[token]
                if job_evidence.ended_as_duplicate(self._context.state, submission):
                    self._submitter.adopt_first(submission, job.job_id)
