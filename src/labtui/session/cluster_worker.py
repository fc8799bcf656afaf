"""The worker: the one thread that owns the connection. Everything the cluster hears from us goes through here.

Its loop does one small thing after another, the most urgent first: what the student asked for, what waits to be
sent, the queue, the logs. Between two of them it looks around again, so nothing waits behind bulk work. A second,
tiny thread watches the worker itself: it notices that the computer slept, and that a question stays unanswered.

The queue is asked by one remote command at a time, as seldom as it can be done honestly.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from msgspec.structs import replace

from labtui.domain.errors import ConnectionLost, LabError, RemoteFailure, StoreError
from labtui.domain.model import JobPhase, JobView, Stream
from labtui.domain.state import QUEUE_KEY, Change, LabState
from labtui.session.journal import Request
from labtui.session.log_follower import LogFollower
from labtui.session.submitter import Submitter
from labtui.session.worker_context import ConnectionMonitor, Watchdog, WorkerContext, fail, failing, inline
from labtui.slurm.job_evidence import ended_as_duplicate, live, observe, other_jobs, vanished
from labtui.slurm.queue import POLLS_PER_MINUTE, Tick, next_poll_at, poll_delay, tick
from labtui.slurm.remote_command import Call

_T = TypeVar("_T")
FAULT_KEY = "fault"
_AFTER_FAULT_S = 2.0


class ClusterWorker:
    """Start it once; every other method may be called from any thread and returns at once."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._requests: deque[tuple[Callable[[Future[Any]], object], Future[Any]]] = deque()
        self._woken = threading.Event()
        self._connection = ConnectionMonitor(context)
        self._submitter = Submitter(context)
        self._log_follower = LogFollower(context)
        self._poller = Poller(context, self._submitter)
        context.news = self._poller.changed
        self._watchdog = Watchdog(
            context.clock, self._slept, self._connection.mark_stale, context.cluster.close
        )
        self._end_watch: Callable[[], None] = lambda: None
        self._closing = threading.Event()
        self._pause_until = 0.0
        self._duty = ""
        self._thread = threading.Thread(target=self._run, name="labtui-cluster-worker", daemon=True)

    # ------------------------------------------------------------------ from other threads

    def start(self) -> None:
        """Begin to connect and to work."""
        self._context.run_in_background = self._run_in_background
        self._thread.start()
        self._end_watch = self._watchdog.start(self._context.faults.write)

    def close(self, timeout_s: float) -> bool:
        """Stop; says whether the thread ended in time. A blocked call is cut off by closing the connection."""
        self._closing.set()
        self._woken.set()
        self._end_watch()
        self._context.cluster.close()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        closed = LabError(
            "labtui was closed.", "What waits in the submission queue is stored and continues next time."
        )
        while self._requests:
            fail(self._requests.popleft()[1], closed)
        self._submitter.abandon(closed)
        return not self._thread.is_alive()

    def track_submission(self, token: str) -> Future[str]:
        """Done when Slurm accepted the submission; raises its refusal. Ask before the intent is stored."""
        return self._submitter.track(token)

    def look(self) -> None:
        """Something was stored that the worker should see."""
        self._woken.set()

    def _put(self, work: Callable[[Future[Any]], object]) -> Future[Any]:
        """Have the worker's thread do this; `work` settles the future that it gets, at once or later."""
        future: Future[Any] = Future()
        self._requests.append((work, future))
        self._woken.set()
        return future

    def change(self, token: str, wanted: Request) -> Future[None]:
        """Cancel, hold, release or limit a submission wherever it stands, and look at the queue soon after."""

        def cancelling(wish: bool) -> None:
            self._context.journal.change(lambda state: state.with_submission(token, cancelling=wish))

        def work(done: Future[None]) -> None:
            offline = None if self._reached() else self._connection.why_offline
            self._submitter.change(token, wanted, done, offline)
            self._context.news()
            self._poller.press()

        if wanted.action != "cancel":
            return self._put(work)
        cancelling(True)  # before it is asked for: the next process asks again
        future = self._put(work)
        future.add_done_callback(lambda done: cancelling(False) if done.exception() else None)
        return future

    def _reached(self) -> bool:
        """Whether there is a connection; the first attempt to connect is waited for, and no other."""
        if not self._connection.online and self._connection.error is None:
            self._connection_duty()
        return self._connection.online

    def ask(self, call: Call[_T], then: Callable[[_T], object] = lambda found: None) -> Future[_T]:
        """Ask the cluster one thing, aside; `then` gets the answer in the worker's thread."""

        def work(future: Future[_T]) -> None:
            if self._reached():
                self._context.ask_aside(call, future, then)
            else:
                fail(future, self._connection.why_offline)

        return self._put(work)

    def watch_logs(self, tokens: frozenset[str], visible: tuple[str, Stream] | None = None) -> None:
        self._log_follower.watch(tokens, visible)
        self._woken.set()

    def refresh(self) -> None:
        """A key press: read the queue soon; connect if there is no connection, also after a refused login."""
        self._put(lambda _: self._poller.press())
        self._put(lambda _: self._connection.key_press())

    def _slept(self) -> None:
        def wake_up(_: object) -> None:
            self._connection.request_test()
            self._log_follower.recheck_all()
            self._poller.press()

        self._put(wake_up)

    # ------------------------------------------------------------------ the worker's thread

    def _run(self) -> None:
        self.resume()
        while not self._closing.is_set():
            pause = self.turn()
            if pause != 0.0:
                self._woken.wait(pause)
                self._woken.clear()

    def resume(self) -> None:
        """Take up what the last process left, and keep what `labtui repair` would need."""
        with contextlib.suppress(StoreError):
            self._context.store.back_up()
        self._submitter.resume()
        for item in self._context.state.submissions.values():
            if item.cancelling and not item.over:
                self.change(item.token, Request(action="cancel"))

    def turn(self) -> float | None:
        """Do the most urgent thing, if there is one now; never raises.

        Returns the seconds until there is something to do: 0 to look again at once, None when only a request can
        bring work.
        """
        try:
            return self._step()
        except ConnectionLost as error:
            if not self._closing.is_set():
                self._lost(error)
        except LabError as error:
            self._context.raise_problem(f"{FAULT_KEY}:{self._duty}", error)
            self._pause_until = self._context.now() + _AFTER_FAULT_S
        except Exception as error:  # the session lives on; the panel names the file
            self._unexpected(error)
        return 0.0

    def _run_in_background(self, work: Callable[[], Any], done: Callable[..., object]) -> None:
        """Ask a slow question on a second channel; the answer comes back as a request to the worker."""

        def answered(outcome: Callable[[], Any]) -> None:
            self._put(lambda _: done(outcome))

        threading.Thread(target=inline, args=(work, answered), name="labtui-background", daemon=True).start()

    def _lost(self, error: LabError) -> None:
        """The connection broke, or an answer stayed out on one that stands: then it is tested before its next use."""
        if self._context.cluster.connected:
            self._connection.request_test()
        elif self._connection.online:
            self._connection.lost(error)
        self._log_follower.recheck_all()

    def _unexpected(self, error: Exception) -> None:
        self._context.faults.write(error)
        problem = LabError(
            f"Something went wrong inside labtui ({type(error).__name__}).",
            f"labtui continues. The details are in {self._context.faults.path.name} in the lab folder.",
        )
        self._context.raise_problem(FAULT_KEY, problem)
        self._pause_until = self._context.now() + _AFTER_FAULT_S

    def _step(self) -> float | None:
        if self._requests:
            work, future = self._requests.popleft()
            with failing(future):
                self._watchdog.watch(lambda: work(future))
            return 0.0
        duties = self._duties()
        now = self._context.now()  # not before: some are due at the moment they were asked
        known = [(max(due, self._pause_until), work) for due, work in duties if due is not None]
        if ready := [work for due, work in known if due <= now]:
            self._watchdog.watch(ready[0])
            return 0.0
        return min((due - now for due, _ in known), default=None)

    def _duties(self) -> list[tuple[float | None, Callable[[], None]]]:
        """What the worker does by itself, the most urgent first, and when: None for not now."""
        duties: list[tuple[float | None, Callable[[], None]]] = [
            (self._connection.due_at(), self._connection_duty)
        ]
        if self._connection.online:
            duties += [
                (self._submitter.due_at(), lambda: self._duty_of("submit", self._submitter.step)),
                (self._poller.due_at(), lambda: self._duty_of("queue", self._poller.step)),
                (self._log_follower.due_at(), lambda: self._duty_of("logs", self._log_follower.step)),
            ]
        return duties

    def _connection_duty(self) -> None:
        was_online = self._connection.online
        self._connection.attend()
        if self._connection.online and not was_online:
            self._log_follower.recheck_all()
            if live(self._context.state):
                self._context.news()

    def _duty_of(self, duty: str, work: Callable[[], None]) -> None:
        self._duty = duty
        work()
        self._connection.record_answer()
        self._context.clear_problem(f"{FAULT_KEY}:{duty}")


# --------------------------------------------------------------------------- the queue

ACCOUNTING_KEY = "accounting"
_LOG_CHECK_S = 60.0
_ACCOUNTING_HINT = "Jobs that left the queue stay 'settling' until accounting answers; nothing is lost."
_QUEUE_HINT = "labtui keeps asking, at longer intervals. The last known state is shown."


class Poller:
    """Decides when the queue is read next and takes up the answer. Worker thread only."""

    def __init__(self, context: WorkerContext, submitter: Submitter) -> None:
        """`submitter` is told of jobs that ended."""
        self._context = context
        self._submitter = submitter
        self._polls: deque[float] = deque(maxlen=POLLS_PER_MINUTE)
        self._changed_at = context.now()
        self._took_s = 0.0
        self._failures = 0
        self._pressed = True  # once at the start: a job that another program sent is seen, too
        self._asking = False

    def press(self) -> None:
        """Somebody wants to know now."""
        self._pressed = True

    def changed(self) -> None:
        """Something happened (a submission, a line in a log that ends a run): look again soon."""
        self._changed_at = self._context.now()

    def due_at(self) -> float | None:
        """When to ask next; None while there is nothing to watch."""
        if self._asking:
            return None
        delay = poll_delay(
            [job.phase for _, job in live(self._context.state)],
            since_change_s=self._context.now() - self._changed_at,
            failures=self._failures,
            last_took_s=self._took_s,
            others=bool(self._context.state.other_jobs),
        )
        if delay is None and not self._pressed:
            return None
        return next_poll_at(self._polls, delay if delay is not None else 0.0, pressed=self._pressed)

    def step(self) -> None:
        """Ask once, aside: a busy controller must not hold up the logs. Raises ConnectionLost."""
        context, began = self._context, self._context.now()
        self._polls.append(began)
        self._pressed, self._asking = False, True
        gone = vanished(context.state)
        asked = {item.token: item.job for item in context.state.submissions.values() if item.job is not None}

        def answered(outcome: Callable[[], Tick]) -> None:
            self._asking = False
            self._took_s = context.now() - began
            try:
                told = outcome()
            except ConnectionLost:
                raise
            except LabError as error:
                told = Tick(jobs=None, accounting=None, problem=error.sentence)
            self._take(told, asked)

        context.run_in_background(lambda: context.cluster.ask(tick(gone)), answered)

    def _take(self, tick: Tick, asked: Mapping[str, JobView]) -> None:
        """The answer about the jobs `asked`, as they were then: it cannot know what came or changed since."""
        context, at = self._context, self._context.at()
        known = context.state.submissions
        views = observe(context.state, tick, at)
        jobs = {token: view for token, view in views.items() if known[token].job is asked.get(token)}
        if tick.jobs is None:
            self._failures += 1
            context.raise_problem(QUEUE_KEY, RemoteFailure(tick.problem, _QUEUE_HINT))
            self._tell(jobs)
        else:
            self._failures = 0
            context.clear_problem(QUEUE_KEY)
            self._note_accounting(tick)
            others = other_jobs(context.state, tick.jobs)
            moment: dict[str, Any] = {"other_jobs": others, "refreshed_at": at}
            moment["cluster_time"] = tick.server_time
            self._tell(jobs, lambda state: replace(state, **moment))
        for submission, job in live(context.state):
            self._check_log(submission.token, job)

    def _note_accounting(self, tick: Tick) -> None:
        if tick.accounting is not None:
            self._context.clear_problem(ACCOUNTING_KEY)
        else:
            problem = RemoteFailure(tick.accounting_problem, _ACCOUNTING_HINT)
            self._context.raise_problem(ACCOUNTING_KEY, problem)

    def _tell(self, jobs: Mapping[str, JobView], *moment: Change) -> None:
        before = self._context.state

        def observed(state: LabState) -> LabState:
            for token, job in jobs.items():
                state = state.with_job(token, job)
            return state

        self._context.journal.change(observed, *moment)
        for token, job in jobs.items():
            old = before.submissions[token].job
            if old is None or old.phase is not job.phase:
                self.changed()
            if job.phase is JobPhase.FINISHED:
                self._submitter.freed()
                submission = self._context.state.submissions[token]
                if ended_as_duplicate(self._context.state, submission):
                    self._submitter.adopt_first(submission, job.job_id)

    def _check_log(self, token: str, job: JobView) -> None:
        """Queue and accounting are silent for a minute, and the controller knows no more: the job's own log counts."""
        at = self._context.at()
        silent = job.evidence == "gone" and at - (job.unknown_since or at) >= _LOG_CHECK_S
        if silent and self._context.readings.script_ended(token):
            over = replace(job, phase=JobPhase.FINISHED, seen_at=at, unknown_since=None, evidence="log")
            self._tell({token: over})
