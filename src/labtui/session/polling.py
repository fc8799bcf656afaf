"""Asking the queue: one remote command a time, as seldom as it can be done honestly."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from labtui.domain.errors import ConnectionLost, LabError, RemoteFailure
from labtui.domain.model import JobPhase, JobView
from labtui.domain.state import Change, LabState
from labtui.session.submitter import Submitter
from labtui.session.worker_context import WorkerContext
from labtui.slurm.job_evidence import ended_as_duplicate, live, observe, other_jobs, vanished
from labtui.slurm.queue import POLLS_PER_MINUTE, Tick, next_poll_at, poll_delay, tick

QUEUE_KEY = "queue"
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
                tick = outcome()
            except ConnectionLost:
                raise
            except LabError as error:
                self._failures += 1
                context.raise_problem(QUEUE_KEY, error)
            else:
                self._take(tick, asked)

        context.run_in_background(lambda: context.cluster.ask(tick(gone)), answered)

    def _take(self, tick: Tick, asked: Mapping[str, JobView]) -> None:
        """The answer about the jobs `asked`, as they were then: it cannot know what came or changed since."""
        context, at = self._context, self._context.at()
        known = context.state.submissions
        views = observe(context.state, tick, at)
        jobs = {token: view for token, view in views.items() if known[token].job is asked.get(token)}
        if tick.jobs is None:
            self._failures += 1
            context.raise_problem(
                QUEUE_KEY, RemoteFailure(tick.problem or "squeue gave no answer.", _QUEUE_HINT)
            )
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
            return
        problem = tick.accounting_problem or "Slurm's accounting gave no answer."
        self._context.raise_problem(ACCOUNTING_KEY, RemoteFailure(problem, _ACCOUNTING_HINT))

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
