"""From the submission queue into Slurm: exactly one job or none, whatever is cut or killed on the way.

The order is what makes it safe. (1) Intent and scripts are on disk before anything is sent. (2) Files are pushed;
doing so twice does no harm. (3) "sending" is on disk before `sbatch` may run. (4) The cluster runs `sbatch` behind a
directory that can be made only once, and leaves a receipt. (5) Without an answer, and after every restart, the
submission is *unknown*: it is looked up by its token, which also locks out a try that is still on its way; it goes
back into the queue only when there certainly is no job. (6) Should two jobs come of one submission all the same, the
one that began first trains, the other ends itself (`jobscript`) and is cancelled here.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from labtui.domain.errors import (
    ConnectionLost,
    LabError,
    RemoteFailure,
    StoreError,
    SubmitRefused,
    UsageError,
)
from labtui.domain.model import JobPhase, JobView, SubmissionStatus
from labtui.domain.state import LabState, SubmissionState
from labtui.domain.submission_queue import sendable
from labtui.session.folder import SCRIPT_NAME
from labtui.session.mailbox import Request
from labtui.session.worker_context import Done, WorkerContext
from labtui.slurm.job_control import NO_ANSWER, cancel, control, end_after
from labtui.slurm.states import early_end_options, early_end_refusal
from labtui.slurm.submit import Lookup, NoJobPeriod, accepted_unread, lookup, submit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from labtui.slurm.remote_command import Call

_LOOK_AGAIN_S = (0.0, 3.0, 5.0, 8.0, 10.0, 20.0, 30.0, 60.0)
_LOOK_FOR_NUMBER_S = 60.0
_DUPLICATES_AGAIN_S = 20.0
_STORE_AGAIN_S = 10.0
UNKNOWN_SENTENCE = (
    "Slurm's answer did not arrive; labtui checks whether the job is there. It is never sent twice."
)
SILENT_SENTENCE = (
    "Slurm has no job of this submission yet. The request may still be under way; labtui checks again."
)
UNREAD_HINT = (
    "labtui looks for it by its token. On the cluster, `squeue --me` shows it and `scancel` ends it."
)
GONE_SENTENCE = "Slurm took the job without giving its number, and the queue does not show it."
GONE_HINT = "What it wrote is in its directory on the cluster. Submit the task again if you need this run."
REBUILT_SENTENCE = "`labtui repair` found only its job script; the cluster has no job of it."
REBUILT_HINT = "It is not sent automatically. Submit the task again if you still want this run."


_WAIT_AGAIN_S = (15.0, 30.0, 60.0)


def _wait_again(refusals: int) -> float:
    """Seconds until a queue that said "wait" is asked again, by refusals in a row."""
    return _WAIT_AGAIN_S[min(max(refusals, 1), len(_WAIT_AGAIN_S)) - 1]


class Submitter:
    """The submission queue's servant. Worker thread only, `track` aside."""

    def __init__(self, context: WorkerContext, news: Callable[[], None] = lambda: None) -> None:
        """`news` is told when Slurm has answered."""
        self._context = context
        self._news = news
        self._refusals: dict[str, int] = {}
        self._open_at: dict[str, float] = {}
        self._looks: dict[str, int] = {}
        self._look_at: dict[str, float] = {}
        self._no_job_periods: dict[str, NoJobPeriod] = {}
        self._duplicates_at: dict[str, float] = {}
        self._refused_as: dict[str, SubmitRefused] = {}
        self._paused_until = 0.0
        self._held_up = 0
        self._busy = False
        self._waiting: dict[str, list[Future[str]]] = {}
        self._to_cancel: dict[str, list[Future[None]]] = {}

    def resume(self) -> None:
        """After a start: what was being sent when the last process ended is unknown now."""
        for submission in self._context.state.submissions.values():
            if submission.status is SubmissionStatus.SENDING:
                self._change(submission.token, SubmissionStatus.UNKNOWN, sentence=UNKNOWN_SENTENCE)

    def track(self, token: str) -> Future[str]:
        """A future that is done when Slurm has accepted this submission."""
        future: Future[str] = Future()
        self._waiting.setdefault(token, []).append(future)
        return future

    # ------------------------------------------------------------------ when

    def due_at(self) -> float | None:
        """When there is something to look up or to send; None: nothing waits."""
        context = self._context
        if self._busy:
            return None  # one question at a time is on its way; its answer wakes the worker
        unknown = self._unknown()
        times = [self._look_at.get(item.token, 0.0) for item in unknown]
        if self._next() is not None:
            times.append(self._paused_until)
        elif any(item.status is SubmissionStatus.WAITING for item in context.state.submissions.values()):
            times.extend(self._open_at.values())
        return min(times, default=None)

    def _unknown(self) -> list[SubmissionState]:
        items = self._context.state.submissions.values()
        return [item for item in items if item.status is SubmissionStatus.UNKNOWN]

    def _next(self) -> SubmissionState | None:
        now = self._context.now()
        closed = [queue for queue, at in self._open_at.items() if at > now]
        return sendable(self._context.state, self._context.profile, closed)

    def freed(self) -> None:
        """A job of ours ended: queues that had no room may have some now."""
        self._open_at.clear()

    # ------------------------------------------------------------------ one step

    def step(self) -> None:
        """Look one unknown submission up, or send one that waits. Raises ConnectionLost.

        Files go over the worker's own channel; the question to Slurm is asked in the background, because a hung
        controller may take minutes to say nothing, and logs shall go on meanwhile.
        """
        if self._busy:
            return
        now = self._context.now()
        for submission in self._unknown():
            if self._look_at.get(submission.token, 0.0) <= now:
                self._look_up(submission)
                return
        submission_to_send = self._next()
        if submission_to_send is not None and self._paused_until <= now:
            self._send(submission_to_send)

    def _look_up(self, submission: SubmissionState) -> None:
        token = submission.token
        tries = self._looks.get(token, 0) + 1
        self._looks[token] = tries
        self._look_at[token] = self._context.now() + _LOOK_AGAIN_S[min(tries, len(_LOOK_AGAIN_S) - 1)]
        directory = absolute(self._context, submission.remote_dir)
        self._ask(
            lambda: self._context.cluster.ask(lookup(directory, token, submission.job_name)),
            lambda outcome: self._looked_up(submission, outcome),
        )

    def _ask(self, question: Callable[[], Any], answered: Done) -> None:
        def done(outcome: Callable[[], Any]) -> None:
            self._busy = False
            answered(outcome)
            self._news()

        self._busy = True
        self._context.run_in_background(question, done)

    def _looked_up(self, submission: SubmissionState, outcome: Callable[[], Lookup]) -> None:
        token = submission.token
        try:
            look = outcome()
        except LabError as error:
            self._say(submission, f"{UNKNOWN_SENTENCE} {error.sentence}")
            if isinstance(error, ConnectionLost):
                raise
            return
        period = self._no_job_periods[token] = self._no_job_periods.get(token, NoJobPeriod()).after(look)
        if look.accepted_as is not None and not period.certain:
            self._accepted_without_number(submission, look.accepted_as)
            return
        refused = self._refused_as.pop(token, None)
        if look.job_id is None and not look.certain and not period.certain and refused is None:
            self._say(submission, f"{UNKNOWN_SENTENCE} {look.problem}" if look.problem else SILENT_SENTENCE)
            return
        for known in (self._looks, self._look_at, self._no_job_periods):
            known.pop(token, None)
        if look.job_id is not None:
            self._accepted(submission, look.job_id)
        elif refused is not None:
            self._give_up(submission, refused)
        elif look.accepted_as is not None:
            self._withdraw(submission, GONE_SENTENCE, GONE_HINT)
        elif token in self._to_cancel:
            self._withdraw(submission)
        elif submission.rebuilt:
            self._withdraw(submission, REBUILT_SENTENCE, REBUILT_HINT)
        elif look.refusal is not None and not look.refusal.wait and look.refusal.key != NO_ANSWER:
            self._give_up(submission, SubmitRefused(look.refusal.sentence, look.refusal.hint))
        else:
            self._change(
                token,
                SubmissionStatus.WAITING,
                sentence="It did not reach Slurm; it is sent again.",
                attempt=look.attempts,
            )

    def _accepted_without_number(self, submission: SubmissionState, words: str) -> None:
        """There is a job, so it is never sent again; the queue, or the job itself, may still tell its number."""
        self._look_at[submission.token] = self._context.now() + _LOOK_FOR_NUMBER_S
        self._say(submission, f"{accepted_unread(words)}. It is not sent again.", UNREAD_HINT)
        for cancelled in self._to_cancel.pop(submission.token, []):
            _fail(cancelled, RemoteFailure("The job's number is not known.", UNREAD_HINT))

    def _say(self, submission: SubmissionState, sentence: str, hint: str = "") -> None:
        if submission.sentence != sentence:
            hint = hint or submission.hint
            self._change(submission.token, submission.status, sentence=sentence, hint=hint)

    def _send(self, submission: SubmissionState) -> None:
        context, token = self._context, submission.token
        directory = absolute(context, submission.remote_dir)
        files = context.store.snapshot(token)
        try:
            context.cluster.push(files, directory)
        except ConnectionLost:
            raise  # nothing was sent: it stays in the submission queue
        except LabError as error:
            if isinstance(error, RemoteFailure) and error.wait:
                self._try_later(submission, error)
            else:
                self._give_up(submission, error)
            return
        self._held_up = 0
        try:
            context.journal.intend(lambda state: state.with_status(token, SubmissionStatus.SENDING))
        except StoreError as error:
            self._paused_until = context.now() + _STORE_AGAIN_S
            context.raise_problem("store", error)
            return
        job_name, attempt = submission.job_name, submission.attempt
        options = (*submission.options, *early_end_options(submission))
        self._ask(
            lambda: context.cluster.ask(
                submit(directory, SCRIPT_NAME, token, job_name, options, attempt=attempt)
            ),
            lambda outcome: self._answered(submission, outcome),
        )

    def _answered(self, submission: SubmissionState, outcome: Callable[[], str]) -> None:
        token = submission.token
        try:
            job_id = outcome()
        except SubmitRefused as error:
            if error.wait:
                self._must_wait(submission, error)
            else:
                self._look_once_before_refusing(submission, error)
        except ConnectionLost:
            self._change(token, SubmissionStatus.UNKNOWN, sentence=UNKNOWN_SENTENCE)
            raise
        except RemoteFailure as error:
            # sbatch succeeded and did not say clearly with which job.
            self._look_at[token] = self._context.now()
            self._change(token, SubmissionStatus.UNKNOWN, sentence=error.sentence, hint=error.hint)
        except BaseException:
            self._change(token, SubmissionStatus.UNKNOWN, sentence=UNKNOWN_SENTENCE)
            raise
        else:
            self._accepted(submission, job_id)

    # ------------------------------------------------------------------ outcomes

    def _accepted(self, submission: SubmissionState, job_id: str) -> None:
        token = submission.token
        self._refusals.pop(submission.qos, None)
        at = self._context.at()
        self._context.journal.change(lambda state: state.with_accepted(token, job_id, at))
        for future in self._waiting.pop(token, []):
            _settle(future, token)
        for cancelled in self._to_cancel.pop(token, []):
            self._ask_in_background(cancel(job_id), cancelled)

    def _look_once_before_refusing(self, submission: SubmissionState, error: SubmitRefused) -> None:
        """Slurm may have taken a job and said no all the same: what bears the token is looked for once."""
        self._refused_as[submission.token] = error
        self._look_at[submission.token] = self._context.now()
        self._change(submission.token, SubmissionStatus.UNKNOWN, sentence=error.sentence, hint=error.hint)

    def _must_wait(self, submission: SubmissionState, error: SubmitRefused) -> None:
        if submission.token in self._to_cancel:  # taken back while the question was on its way
            self._withdraw(submission)
            return
        queue = submission.qos
        self._refusals[queue] = self._refusals.get(queue, 0) + 1
        self._open_at[queue] = self._context.now() + _wait_again(self._refusals[queue])
        self._change(
            submission.token,
            SubmissionStatus.WAITING,
            sentence=error.sentence,
            hint=error.hint,
            attempt=submission.attempt + 1,
        )

    def _try_later(self, submission: SubmissionState, error: LabError) -> None:
        """The files cannot be put there now (no room, no channel), which holds for every submission: rest a while."""
        self._held_up += 1
        self._paused_until = self._context.now() + _wait_again(self._held_up)
        if (submission.sentence, submission.hint) != (error.sentence, error.hint):
            self._change(submission.token, SubmissionStatus.WAITING, sentence=error.sentence, hint=error.hint)

    def _withdraw(
        self, submission: SubmissionState, sentence: str = "Withdrawn before it was sent.", hint: str = ""
    ) -> None:
        self._give_up(submission, SubmitRefused(sentence, hint), SubmissionStatus.WITHDRAWN)

    def _give_up(
        self,
        submission: SubmissionState,
        error: LabError,
        status: SubmissionStatus = SubmissionStatus.REFUSED,
    ) -> None:
        self._change(submission.token, status, sentence=error.sentence, hint=error.hint)
        for future in self._waiting.pop(submission.token, []):
            _fail(future, error)
        for cancelled in self._to_cancel.pop(submission.token, []):
            _settle(cancelled, None)

    def _change(
        self,
        token: str,
        status: SubmissionStatus,
        *,
        sentence: str = "",
        hint: str = "",
        attempt: int = 0,
    ) -> None:
        self._context.journal.change(
            lambda state: state.with_status(token, status, sentence=sentence, hint=hint, attempt=attempt)
        )

    # ------------------------------------------------------------------ two jobs of one submission

    def cancel_duplicates(self, submission: SubmissionState, duplicates: Sequence[JobView]) -> None:
        """More than one job bears this token, or its job ended as a twin: keep the one that began, cancel the rest."""
        token, now = submission.token, self._context.now()
        if now < self._duplicates_at.get(token, 0.0):
            return
        self._duplicates_at[token] = now + _DUPLICATES_AGAIN_S
        directory = absolute(self._context, submission.remote_dir)

        def settled(outcome: Callable[[], Lookup]) -> None:
            try:
                look = outcome()
            except ConnectionLost:
                raise
            except LabError:
                return  # seen again with the next poll
            self._keep_one(submission, duplicates, look.started_id)

        self._context.run_in_background(
            lambda: self._context.cluster.ask(lookup(directory, token, submission.job_name)), settled
        )

    def _keep_one(
        self, submission: SubmissionState, duplicates: Sequence[JobView], started_id: str | None
    ) -> None:
        job = submission.job
        if job is None:
            return
        kept = started_id or job.job_id
        phases = {job.job_id: job.phase} | {row.job_id: row.phase for row in duplicates}
        if kept != job.job_id:
            reason = f"Job {job.job_id} duplicates job {kept}, which started first."
            at, token = self._context.at(), submission.token
            self._context.journal.change(lambda state: state.with_accepted(token, kept, at, reason))
        for job_id, phase in phases.items():
            # One that may have begun is left alone until the job itself says which of them it was.
            if job_id == kept or phase is JobPhase.FINISHED or not (started_id or phase is JobPhase.QUEUED):
                continue
            self._ask_in_background(cancel(job_id, only_pending=started_id is None), Future())

    # ------------------------------------------------------------------ what the student wants changed

    def change(self, token: str, wanted: Request, done: Future[None], offline: LabError | None) -> None:
        """Cancel a submission, hold or release it, or give it another limit, wherever it stands.

        What was not sent yet is changed here, a job by Slurm; `offline` says why the cluster cannot be asked, if so.
        """
        submission = self._context.state.submissions[token]
        if wanted.action == "cancel":
            self._cancel(submission, done, offline)
            return
        hold, minutes, job = wanted.action == "hold", wanted.minutes, submission.job
        changes: dict[str, Any] = {"held": wanted.held} if hold else {"early_end_minutes": minutes}

        def changed(state: LabState) -> LabState:
            return state.with_submission(token, **changes)

        if refusal := self._refusal(submission, wanted):
            _fail(done, UsageError(*refusal))
        elif job is None:
            self._context.journal.change(changed)
            _settle(done, None)
        elif offline is not None:
            _fail(done, offline)
        else:
            question = end_after(job.job_id, minutes)
            if hold:
                question = control("hold" if wanted.held else "release", job.job_id)
            self._ask_in_background(question, done, lambda: self._context.journal.change(changed))

    def _refusal(self, submission: SubmissionState, wanted: Request) -> tuple[str, str] | None:
        if wanted.action == "hold":
            waits = submission.status is SubmissionStatus.WAITING or (
                submission.job is not None and submission.job.phase is JobPhase.QUEUED
            )
            return None if waits else ("It is no longer waiting.", "Only a run that waits can be held.")
        return early_end_refusal(submission, wanted.minutes)

    def _cancel(self, submission: SubmissionState, done: Future[None], offline: LabError | None) -> None:
        token, job = submission.token, submission.job
        if submission.status is SubmissionStatus.WAITING:
            self._to_cancel.setdefault(token, []).append(done)
            self._withdraw(submission)
        elif submission.status in (SubmissionStatus.SENDING, SubmissionStatus.UNKNOWN):
            self._to_cancel.setdefault(token, []).append(done)
            self._look_at[token] = self._context.now()
        elif job is None or job.phase is JobPhase.FINISHED:
            _settle(done, None)
        elif offline is not None:
            _fail(done, offline)
        else:
            self._ask_in_background(cancel(job.job_id), done)

    def _ask_in_background(
        self, question: Call[None], done: Future[None], then: Callable[[], None] = lambda: None
    ) -> None:
        """Ask Slurm for something beside the submission queue; `done` hears how it went, whatever happens."""

        def answered(outcome: Callable[[], None]) -> None:
            try:
                outcome()
                then()
            except LabError as error:
                _fail(done, error)
                if isinstance(error, ConnectionLost):
                    raise
            except BaseException:
                _fail(
                    done, LabError("Something went wrong inside labtui.", "The details are in its log file.")
                )
                raise
            else:
                _settle(done, None)
                self._news()

        self._context.run_in_background(lambda: self._context.cluster.ask(question), answered)

    def abandon(self, error: LabError) -> None:
        """The session closes: who still waits is told so. What waits in the submission queue stays stored."""
        for future in [one for futures in self._waiting.values() for one in futures]:
            _fail(future, error)
        for done in [one for wanted in self._to_cancel.values() for one in wanted]:
            _fail(done, error)


def absolute(context: WorkerContext, path: str) -> str:
    """A remote path from the root; relative ones count from the remote home."""
    if path.startswith("/"):
        return path
    return f"{context.cluster.home().rstrip('/')}/{path.removeprefix('~/')}"


def _settle(future: Future[str] | Future[None], value: str | None) -> None:
    if not future.done():
        future.set_result(value)  # type: ignore[arg-type]


def _fail(future: Future[str] | Future[None], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
