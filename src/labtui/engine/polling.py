"""Asking the queue: one remote command a time, as seldom as it can be done honestly."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from labtui.core.events import AnyEvent, JobObserved, Refreshed
from labtui.core.jobs import by_log, live, observe, phase_counts, vanished
from labtui.core.model import JobPhase
from labtui.core.policy import POLLS_PER_MINUTE, Situation, next_poll_at, poll_delay
from labtui.core.slurm.states import phase_of
from labtui.core.slurm.tick import Tick
from labtui.core.state import SubmissionState
from labtui.engine.context import Context
from labtui.errors import ConnectionLost, LabError, RemoteFailure

QUEUE_KEY = "queue"
ACCOUNTING_KEY = "accounting"
_ACCOUNTING_REST_S = 60.0
_LAST_WITNESS_S = 60.0
_ACCOUNTING_HINT = "Jobs that left the queue stay 'settling' until accounting answers; nothing is lost."
_QUEUE_HINT = "labtui keeps asking, ever more slowly. What is shown is what was last known."


class Poller:
    """Decides when the queue is read next and turns the answer into events. Lane thread only."""

    def __init__(
        self, context: Context, script_ended: Callable[[str], bool], freed: Callable[[], None]
    ) -> None:
        """`script_ended` asks a job's own log; `freed` is told when a job of ours ended."""
        self._context = context
        self._script_ended = script_ended
        self._freed = freed
        self._polls: deque[float] = deque(maxlen=POLLS_PER_MINUTE)
        self._changed_at = context.now()
        self._took_s = 0.0
        self._failures = 0
        self._pressed = False
        self._asking = False
        self._accounting_failures = 0
        self._accounting_again_at = 0.0
        self._witness_at: dict[str, float] = {}

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
        queued, running, settling = phase_counts(live(self._context.state))
        situation = Situation(
            queued=queued,
            running=running,
            settling=settling,
            since_change_s=self._context.now() - self._changed_at,
            failures=self._failures,
            last_took_s=self._took_s,
        )
        delay = poll_delay(situation)
        if delay is None and not self._pressed:
            return None
        return next_poll_at(self._polls, delay if delay is not None else 0.0, pressed=self._pressed)

    def step(self) -> None:
        """Ask once, aside: a busy controller must not hold up the logs. Raises ConnectionLost."""
        context, began = self._context, self._context.now()
        self._polls.append(began)
        self._pressed, self._asking = False, True
        ask_accounting = began >= self._accounting_again_at
        gone = vanished(context.state) if ask_accounting else ()
        asked = {submission.token for submission in live(context.state)}

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
                self._take(tick, asked, ask_accounting=ask_accounting)

        context.aside(lambda: context.cluster.tick(gone), answered)

    def _take(self, tick: Tick, asked: set[str], *, ask_accounting: bool) -> None:
        """The answer; about jobs that were there when it was asked, for it cannot know those that came since."""
        context, at = self._context, self._context.at()
        events: list[AnyEvent] = [event for event in observe(context.state, tick, at) if event.token in asked]
        if tick.jobs is None:
            self._failures += 1
            context.raise_problem(
                QUEUE_KEY, RemoteFailure(tick.problem or "squeue gave no answer.", _QUEUE_HINT)
            )
        else:
            self._failures = 0
            context.clear_problem(QUEUE_KEY)
            events.append(Refreshed(at=at))
        if ask_accounting and tick.jobs is not None:
            self._note_accounting(tick.accounting is not None, tick.accounting_problem)
        self._tell(events)
        self._ask_last_witnesses()

    def _note_accounting(self, answered: bool, problem: str) -> None:
        if answered:
            self._accounting_failures = 0
            self._context.clear_problem(ACCOUNTING_KEY)
            return
        self._accounting_failures += 1
        if self._accounting_failures >= 2:  # down, not hiccuping: leave it alone for a while
            self._accounting_again_at = self._context.now() + _ACCOUNTING_REST_S
        error = RemoteFailure(problem or "Slurm's accounting gave no answer.", _ACCOUNTING_HINT)
        self._context.raise_problem(ACCOUNTING_KEY, error)

    def _tell(self, events: list[AnyEvent]) -> None:
        before = self._context.state
        self._context.commit_all(events)
        for event in events:
            if not isinstance(event, JobObserved):
                continue
            old = before.submissions[event.token].job
            if old is None or old.phase is not event.job.phase:
                self.changed()
            if event.job.phase is JobPhase.FINISHED:
                self._freed()

    # ------------------------------------------------------------------ when queue and accounting are both silent

    def _ask_last_witnesses(self) -> None:
        """After a minute of settling: the controller's memory, then the job's own log."""
        now, at = self._context.now(), self._context.at()
        for submission in live(self._context.state):
            job = submission.job
            if job is None or job.evidence != "gone" or job.unknown_since is None:
                continue
            if at - job.unknown_since < _LAST_WITNESS_S or now < self._witness_at.get(submission.token, 0.0):
                continue
            self._witness_at[submission.token] = now + _LAST_WITNESS_S
            self._ask_last_witness(submission)

    def _ask_last_witness(self, submission: SubmissionState) -> None:
        job = submission.job
        if job is None:
            return
        at = self._context.at()
        if self._script_ended(submission.token):
            self._tell([JobObserved(at=at, token=submission.token, job=by_log(job, at))])
            return
        try:
            details = self._context.cluster.job_details(job.job_id)
        except ConnectionLost:
            raise
        except LabError:
            return  # no answer is no evidence
        if details is not None and phase_of(details.state) is JobPhase.FINISHED:
            view = replace(
                job,
                phase=JobPhase.FINISHED,
                slurm_state=details.state,
                end_time=details.end,
                exit_code=details.exit_code,
                reason="",
                evidence="scontrol",
                seen_at=at,
                unknown_since=None,
            )
            self._tell([JobObserved(at=at, token=submission.token, job=view)])
