"""Sends the submission queue to Slurm: each submission becomes exactly one job or none, whatever fails on the way.

The order of steps ensures this. (1) Intent and scripts are on disk before anything is sent. (2) Files are pushed;
doing so twice is harmless. (3) "sending" is on disk before `sbatch` may run. (4) The cluster runs `sbatch` only after
creating a directory, which succeeds only once, and leaves a receipt. (5) Without an answer, and after every restart,
the submission is *unknown*: it is looked up by its token, which also blocks an attempt that is still on its way. It
goes back into the queue only when it is certain that there is no job. (6) If two jobs result all the same, the one
that began first trains and the other ends itself (`slurm.job_script`).
"""

from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import Future
from functools import partial
from operator import methodcaller
from typing import Any

import msgspec
from msgspec.structs import replace

from labtui.domain.errors import ConnectionLost, LabError, RemoteFailure, StoreError, SubmitRefused, failure
from labtui.domain.model import JobPhase, JobView, SubmissionStatus
from labtui.domain.run import run_numbers
from labtui.domain.state import UNANSWERED, UNKNOWN_SENTENCE, SubmissionState
from labtui.session.folder import SCRIPT_NAME
from labtui.session.journal import STORE_KEY, Request
from labtui.session.worker_context import Task, WorkerContext, errors_to, fail, settle
from labtui.slurm.job_control import NO_ANSWER, cancel, control, end_after, only_own
from labtui.slurm.remote_command import Call
from labtui.slurm.states import early_end_refusal, sendable
from labtui.slurm.submit import Lookup, accepted_unread, empty_answers, lookup, no_job, submit, token_of

_LOOKUP_DELAYS_S = (0.0, 3.0, 5.0, 8.0, 10.0, 20.0, 30.0, 60.0)
SILENT_SENTENCE = "Slurm has no job of it yet. The request may still be under way; labtui checks again."


_RETRY_AFTER_S = 30.0
"""How long a queue that refused for now is left alone, unless a job ends before."""


class _Pending(msgspec.Struct):
    """A submission on its way: its look-ups, and the futures that wait for its job or its cancellation."""

    lookups: int = 0
    lookup_at: float = 0.0
    empty: tuple[float, ...] = ()
    refused: SubmitRefused | None = None
    sent: list[Future[Any]] = []
    cancelled: list[Future[Any]] = []


class Submitter:
    """Sends what waits in the submission queue. Worker thread only, except `track`."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._pending: defaultdict[str, _Pending] = defaultdict(_Pending)
        self._open_at: dict[str, float] = {}

    def resume(self) -> None:
        """After a start: mark as unknown what the last process was sending when it ended."""
        for submission in self._context.state.in_status(SubmissionStatus.SENDING):
            self._change(submission.token, SubmissionStatus.UNKNOWN, UNKNOWN_SENTENCE)

    def track(self, token: str) -> Future[str]:
        """A future that is done when Slurm has accepted this submission."""
        future: Future[str] = Future()
        self._pending[token].sent.append(future)
        return future

    # ------------------------------------------------------------------ schedule

    def due_at(self) -> float | None:
        """When to look up or send the next submission; None if nothing waits."""
        now, state = self._context.clock.steady(), self._context.state
        times = [self._pending[item.token].lookup_at for item in state.in_status(SubmissionStatus.UNKNOWN)]
        if self._next_to_send() is not None:
            times.append(now)
        elif state.in_status(SubmissionStatus.WAITING):
            # A queue that is open again waits for another job's end, not for a time.
            times.extend(at for at in self._open_at.values() if at > now)
        return min(times, default=None)

    def _next_to_send(self) -> SubmissionState | None:
        now = self._context.clock.steady()
        closed = [queue for queue, at in self._open_at.items() if at > now]
        return sendable(self._context.state, self._context.profile, closed) if self._context.sends else None

    def job_ended(self) -> None:
        """After the end of a job: queues that were full may have room again."""
        self._open_at.clear()

    # ------------------------------------------------------------------ one step

    def step(self) -> Task:
        """Look up one unknown submission, or send one that waits; the next one waits for the answer.

        Raises ConnectionLost.
        """
        now, unknown = self._context.clock.steady(), self._context.state.in_status(SubmissionStatus.UNKNOWN)
        due = next((item for item in unknown if self._pending[item.token].lookup_at <= now), None)
        if due is not None:
            yield from self._look_up(due)
        elif (waiting := self._next_to_send()) is not None:
            yield from self._send(waiting)

    def _look_up(self, submission: SubmissionState) -> Task:
        token, pending = submission.token, self._pending[submission.token]
        pending.lookups += 1
        delay_s = _LOOKUP_DELAYS_S[min(pending.lookups, len(_LOOKUP_DELAYS_S) - 1)]
        pending.lookup_at = self._context.clock.steady() + delay_s
        directory = self._context.absolute(submission.remote_dir)
        call = lookup(directory, token, submission.job_name, self._taken(submission), submission.attempt)
        try:
            look = yield partial(self._context.cluster.ask, call)
        except LabError as error:
            said = f"{UNKNOWN_SENTENCE} {error.sentence}"
            self._change(token, SubmissionStatus.UNKNOWN, said, submission.hint)
            if isinstance(error, ConnectionLost):
                raise
        else:
            self._conclude(submission, look)

    def _taken(self, submission: SubmissionState) -> set[str]:
        """The job IDs of the folder's other submissions."""
        items = self._context.state.submissions.values()
        return {item.job.job_id for item in items if item.job is not None and item.token != submission.token}

    def _conclude(self, submission: SubmissionState, look: Lookup) -> None:
        """Decide what a look-up means for a submission."""
        token, pending = submission.token, self._pending[submission.token]
        pending.empty = empty_answers(pending.empty, look)
        refused = pending.refused
        if look.job_id is None and not (look.certain or no_job(pending.empty)):
            told = refused or look.refusal
            unknown = "" if look.accepted or not look.problem else UNKNOWN_SENTENCE
            said = f"{told.sentence if told else unknown} {look.problem or SILENT_SENTENCE}"
            self._change(token, SubmissionStatus.UNKNOWN, said.strip(), submission.hint)
            return
        pending.lookups, pending.lookup_at, pending.empty, pending.refused = 0, 0.0, (), None
        tries = max(submission.attempt, look.attempts)
        if look.job_id is not None:
            self._accept(submission, look.job_id, "sbatch" if look.started_id is None else "started")
        elif refused is not None and refused.wait:
            self._postpone(submission, refused, tries)
        elif refused is not None:
            self._give_up(submission, refused)
        elif look.accepted:
            self._withdraw(submission, "gone")
        elif pending.cancelled:
            self._withdraw(submission)
        elif not self._context.store.snapshot(token):  # nothing is left to send
            self._withdraw(submission, "rebuilt")
        elif look.refusal is not None and not look.refusal.wait and look.refusal.key != NO_ANSWER:
            self._give_up(submission, SubmitRefused(look.refusal.sentence, look.refusal.hint))
        else:
            sentence = "It did not reach Slurm; it is sent again."
            self._change(token, SubmissionStatus.WAITING, sentence, attempt=tries)

    def _prepare(self, submission: SubmissionState) -> bool:
        """Push its files and store "sending"; return whether it may be sent now. Raises ConnectionLost."""
        context = self._context
        directory, files = context.absolute(submission.remote_dir), context.store.snapshot(submission.token)
        sending = {"status": SubmissionStatus.SENDING, "sentence": "", "hint": ""}
        try:
            context.cluster.push(files, directory)
            context.journal.intend(methodcaller("with_submission", submission.token, **sending))
        except ConnectionLost:
            raise  # nothing was sent: it stays in the submission queue
        except LabError as error:
            context.note_transfer(error)
            stored = not isinstance(error, StoreError)
            if not stored:
                context.set_problem(STORE_KEY, error)
            if error.wait or not stored:
                self._postpone(submission, error, submission.attempt)
            else:
                self._give_up(submission, error)
            return False
        return True

    def _send(self, submission: SubmissionState) -> Task:
        if not self._prepare(submission):
            return
        token, options = submission.token, submission.options
        directory, tried = self._context.absolute(submission.remote_dir), submission.attempt
        call = submit(directory, SCRIPT_NAME, token, submission.job_name, options, attempt=tried)
        try:
            job_id = yield partial(self._context.cluster.ask, call)
            if job_id in self._taken(submission):
                raise accepted_unread(job_id)
        except SubmitRefused as error:  # Slurm may have taken the job all the same: look for the token once
            self._pending[token].refused = error
            said = f"Refused: {error.sentence} labtui checks once whether a job exists."
            self._change(token, SubmissionStatus.SENDING, said, error.hint)
            yield from self._look_up(submission)
        except RemoteFailure as error:  # neither a job ID nor a known refusal: it is looked up
            self._change(token, SubmissionStatus.UNKNOWN, error.sentence, error.hint)
        except Exception:
            self._change(token, SubmissionStatus.UNKNOWN, UNKNOWN_SENTENCE)
            raise
        else:
            self._accept(submission, job_id)

    # ------------------------------------------------------------------ outcomes

    def _accept(self, submission: SubmissionState, job_id: str, evidence: str = "sbatch") -> None:
        token, pending = submission.token, self._pending[submission.token]
        at = self._context.clock.wall()
        self._context.journal.change(lambda state: state.with_accepted(token, job_id, at, evidence=evidence))
        self._context.note_change()
        for future in pending.sent:
            settle(future, token)
        for cancelled in pending.cancelled:
            self._context.run(self._context.question_task(only_own(cancel(job_id), submission), cancelled))
        del self._pending[token]

    def _postpone(self, submission: SubmissionState, error: LabError, tries: int) -> None:
        """Keep it waiting and use its queue no more for a while: the queue is full, or the files cannot be pushed."""
        token = submission.token
        if self._pending[token].cancelled:  # the student cancelled it meanwhile
            self._withdraw(submission)
            return
        self._open_at[submission.queue] = self._context.clock.steady() + _RETRY_AFTER_S
        self._change(token, SubmissionStatus.WAITING, error.sentence, error.hint, attempt=tries)

    def _withdraw(self, submission: SubmissionState, reason: str = "withdrawn") -> None:
        self._give_up(submission, failure(reason), withdrawn=True)

    def _give_up(self, submission: SubmissionState, error: LabError, *, withdrawn: bool = False) -> None:
        status = SubmissionStatus.WITHDRAWN if withdrawn else SubmissionStatus.REFUSED
        again = "" if withdrawn else "Correct that, then run it again."
        self._change(submission.token, status, error.sentence, error.hint or again)
        pending = self._pending.pop(submission.token, _Pending())
        for future in pending.sent:
            fail(future, error)
        for cancelled in pending.cancelled:
            settle(cancelled, None)

    def _change(
        self, token: str, status: SubmissionStatus, sentence: str = "", hint: str = "", **more: Any
    ) -> None:
        more |= {"status": status, "sentence": sentence, "hint": hint}
        self._context.journal.change(lambda state: state.with_submission(token, **more))

    # ------------------------------------------------------------------ what the queue shows

    def look_up_shown(self, rows: Iterable[JobView]) -> None:
        """Look up at once each submission whose answer was lost and whose job the queue shows."""
        tokens = {token_of(row) for row in rows}
        for item in self._context.state.in_status(SubmissionStatus.UNKNOWN):
            if item.token in tokens:
                self._pending[item.token].lookup_at = 0.0

    def look_again(self, submission: SubmissionState) -> None:
        """Look up a submission's job by its token, because the queue shows that the known job is another's."""
        sentence = "Slurm's answer named another job; labtui looks for this one by its token."
        self._change(submission.token, SubmissionStatus.UNKNOWN, sentence, job=None)

    def adopt_first(self, submission: SubmissionState, job_id: str) -> None:
        """Make the job that began first the submission's job, after its other job ended itself as a duplicate."""
        token, at = submission.token, self._context.clock.wall()

        def found(look: Lookup) -> None:
            if (first := look.started_id) is not None and first != job_id:
                reason = f"Job {job_id} duplicates job {first}, which started first."
                self._context.journal.change(lambda state: state.with_accepted(token, first, at, reason))

        call = lookup(self._context.absolute(submission.remote_dir), token, submission.job_name)
        self._context.run(self._context.question_task(call, Future(), found))

    # ------------------------------------------------------------------ changes by the student

    def change(self, token: str, request: Request, done: Future[None], offline: LabError | None) -> Task:
        """Cancel a submission, hold or release it, or give it another limit, in any state.

        Without a job it is changed here, else in Slurm. `offline` says why the cluster cannot be asked, if so.
        """
        context, submission = self._context, self._context.state.submissions[token]
        job, cancels = submission.job, request.action == "cancel"
        with errors_to(done):
            if refusal := _why_refused(submission, request, context.state.cluster_time):
                raise refusal
            if cancels and submission.status in UNANSWERED:  # settled by what is found
                self._pending[token].cancelled.append(done)
                self._pending[token].lookup_at = context.clock.steady()
                return
            if job is not None and not submission.over:
                run, (call, what) = request.run_id or submission.run_ids[0], _command(request, job.job_id)
                if offline is not None:
                    fail(done, failure("not-changed", run=run, done=what, text=offline.sentence))
                    return
                try:
                    yield partial(context.cluster.ask, only_own(call, submission))
                except ConnectionLost as error:
                    fail(done, failure("maybe-changed", run=run, done=what, text=error.sentence))
                    raise
                except RemoteFailure as error:
                    if error.reason == "running" and context.state.submissions[token].job is job:
                        runs = replace(job, phase=JobPhase.RUNNING, slurm_state="RUNNING", reason="")
                        context.journal.change(methodcaller("with_job", token, runs))
                    raise
            elif cancels and submission.status is SubmissionStatus.WAITING:
                self._withdraw(submission)
            if not cancels:
                now = context.state.submissions[token].job
                # Slurm's reason is from before
                new: dict[str, Any] = {"held": request.held, "job": now and replace(now, reason="")}
                if request.action == "end_after":  # the last one counts for sbatch
                    new = {"options": (*submission.options, f"--time={request.minutes:d}")}
                context.journal.change(methodcaller("with_submission", token, **new))
            settle(done, None)

    def abandon(self, error: LabError) -> None:
        """Fail all open futures when the session closes. Waiting submissions stay stored."""
        for pending in list(self._pending.values()):
            for future in (*pending.sent, *pending.cancelled):
                fail(future, error)


def _why_refused(submission: SubmissionState, request: Request, now: float | None) -> LabError | None:
    """Why a change by the student is not possible; None if it is. `now` is the cluster's time."""
    if request.action == "end_after":
        return early_end_refusal(submission, request.minutes, now)
    queued = submission.job is not None and submission.job.phase is JobPhase.QUEUED
    if request.action == "cancel" or queued or submission.status is SubmissionStatus.WAITING:
        return None
    run = request.run_id or submission.run_ids[0]
    if others := [number for number in submission.run_ids if number != run]:
        return failure("job-not-waiting", run=run, others=run_numbers(others).lower())
    return failure("not-waiting", run=run)


def _command(request: Request, job_id: str) -> tuple[Call[None], str]:
    """The command for Slurm that a change by the student needs, and what it does to a run."""
    if request.action == "cancel":
        return cancel(job_id), "cancelled"
    if request.action == "hold":
        return control("hold" if request.held else "release", job_id), "held" if request.held else "released"
    return end_after(job_id, request.minutes), "given this limit"
