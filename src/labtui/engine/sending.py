"""From the waiting line into Slurm: exactly one job or none, whatever is cut or killed on the way.

The order is what makes it safe. (1) Intent and scripts are on disk before anything is sent. (2) Files are pushed;
doing so twice does no harm. (3) "sending" is on disk before `sbatch` may run. (4) The far side runs `sbatch` behind a
directory that can be made only once, and leaves a receipt. (5) Without an answer, and after every restart, the
submission is *unknown*: it is looked up by its token, which also locks out a try that is still on its way; it goes
back into the line only when there certainly is no job.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from labtui.core.early_end import early_end_options, early_end_refusal
from labtui.core.events import EarlyEndSet, SubmissionChanged
from labtui.core.model import JobPhase, SubmissionStatus
from labtui.core.policy import sendable, wait_again
from labtui.core.state import SubmissionState
from labtui.engine.context import Context, Done
from labtui.engine.planning import SCRIPT_NAME
from labtui.errors import ConnectionLost, LabError, RemoteFailure, StoreError, SubmitRefused, UsageError

_LOOK_AGAIN_S = (0.0, 3.0, 5.0, 10.0, 20.0, 30.0)
_STORE_AGAIN_S = 10.0
UNKNOWN_SENTENCE = (
    "Slurm's answer did not arrive; labtui looks whether the job is there. It is never sent twice."
)
UNKNOWN_KEY = "unknown-submission"
REBUILT_SENTENCE = "Only its job script was found when the folder was repaired; the cluster has no job of it."
REBUILT_HINT = "It is not sent by itself. Submit the task again if you still want this run."


class Sender:
    """The waiting line's servant. Lane thread only, `track` aside."""

    def __init__(self, context: Context, news: Callable[[], None] = lambda: None) -> None:
        """`news` is told when Slurm has answered."""
        self._context = context
        self._news = news
        self._refusals: dict[str, int] = {}
        self._open_at: dict[str, float] = {}
        self._looks: dict[str, int] = {}
        self._look_at: dict[str, float] = {}
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
            return None  # one question at a time is on its way; its answer wakes the lane
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

        Files go over the lane's own channel; the question to Slurm is asked aside, because a hung controller may
        take minutes to say nothing, and logs shall go on meanwhile.
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
        cluster = self._context.cluster
        self._ask(
            lambda: cluster.find_token(token, submission.job_name, directory),
            lambda outcome: self._looked_up(submission, outcome),
        )

    def _ask(self, question: Callable[[], Any], answered: Done) -> None:
        def done(outcome: Callable[[], Any]) -> None:
            self._busy = False
            answered(outcome)
            self._news()

        self._busy = True
        self._context.aside(question, done)

    def _looked_up(self, submission: SubmissionState, outcome: Callable[[], str | None]) -> None:
        token = submission.token
        try:
            job_id = outcome()
        except LabError as error:
            self._say(submission, f"{UNKNOWN_SENTENCE} {error.sentence}")
            if isinstance(error, ConnectionLost):
                raise
            return
        self._looks.pop(token, None)
        self._look_at.pop(token, None)
        if job_id is not None:
            self._accepted(submission, job_id)
        elif token in self._to_cancel:
            self._withdraw(submission)
        elif submission.rebuilt:
            self._change(token, SubmissionStatus.WITHDRAWN, sentence=REBUILT_SENTENCE, hint=REBUILT_HINT)
        else:
            self._change(
                token, SubmissionStatus.WAITING, sentence="It did not reach Slurm; it is sent again."
            )

    def _say(self, submission: SubmissionState, sentence: str) -> None:
        if submission.sentence != sentence:
            self._change(submission.token, submission.status, sentence=sentence, hint=submission.hint)

    def _send(self, submission: SubmissionState) -> None:
        context, token = self._context, submission.token
        directory = absolute(context, submission.remote_dir)
        files = context.store.snapshot(token)
        try:
            context.cluster.push(files, directory)
            attempt = context.cluster.attempts(directory)
        except ConnectionLost:
            raise  # nothing was sent: it stays in the line
        except LabError as error:
            if isinstance(error, RemoteFailure) and error.wait:
                self._try_later(submission, error)
            else:
                self._refused(submission, error)
            return
        self._held_up = 0
        try:
            sending = SubmissionChanged(at=context.at(), token=token, status=SubmissionStatus.SENDING)
            context.journal.commit_first((sending,))
        except StoreError as error:
            self._paused_until = context.now() + _STORE_AGAIN_S
            context.raise_problem("store", error)
            return
        job_name, options = submission.job_name, early_end_options(submission)
        self._ask(
            lambda: context.cluster.submit(directory, SCRIPT_NAME, token, job_name, options, attempt=attempt),
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
                self._refused(submission, error)
        except ConnectionLost:
            self._change(token, SubmissionStatus.UNKNOWN, sentence=UNKNOWN_SENTENCE)
            raise
        except RemoteFailure as error:
            # Something ran on the far side and did not say clearly how it ended.
            self._look_at[token] = self._context.now()
            self._change(token, SubmissionStatus.UNKNOWN, sentence=f"{UNKNOWN_SENTENCE} {error.sentence}")
        except BaseException:
            self._change(token, SubmissionStatus.UNKNOWN, sentence=UNKNOWN_SENTENCE)
            raise
        else:
            self._accepted(submission, job_id)

    # ------------------------------------------------------------------ outcomes

    def _accepted(self, submission: SubmissionState, job_id: str) -> None:
        token = submission.token
        self._refusals.pop(submission.qos, None)
        self._change(token, SubmissionStatus.ACCEPTED, job_id=job_id)
        for future in self._waiting.pop(token, []):
            _settle(future, token)
        wanted = self._to_cancel.pop(token, [])
        if wanted:
            for cancelled in wanted:
                self._cancel_job(job_id, cancelled)

    def _must_wait(self, submission: SubmissionState, error: SubmitRefused) -> None:
        if submission.token in self._to_cancel:  # taken back while the question was on its way
            self._withdraw(submission)
            return
        queue = submission.qos
        self._refusals[queue] = self._refusals.get(queue, 0) + 1
        self._open_at[queue] = self._context.now() + wait_again(self._refusals[queue])
        self._change(submission.token, SubmissionStatus.WAITING, sentence=error.sentence, hint=error.hint)

    def _try_later(self, submission: SubmissionState, error: LabError) -> None:
        """The files cannot be put there now (no room, no channel), which holds for every submission: rest a while."""
        self._held_up += 1
        self._paused_until = self._context.now() + wait_again(self._held_up)
        if (submission.sentence, submission.hint) != (error.sentence, error.hint):
            self._change(submission.token, SubmissionStatus.WAITING, sentence=error.sentence, hint=error.hint)

    def _refused(self, submission: SubmissionState, error: LabError) -> None:
        self._change(submission.token, SubmissionStatus.REFUSED, sentence=error.sentence, hint=error.hint)
        for future in self._waiting.pop(submission.token, []):
            _fail(future, error)
        for cancelled in self._to_cancel.pop(submission.token, []):
            _settle(cancelled, None)

    def _withdraw(self, submission: SubmissionState) -> None:
        self._change(submission.token, SubmissionStatus.WITHDRAWN, sentence="Taken back before it was sent.")
        for future in self._waiting.pop(submission.token, []):
            _fail(future, SubmitRefused("The submission was taken back before it was sent."))
        for cancelled in self._to_cancel.pop(submission.token, []):
            _settle(cancelled, None)

    def _change(
        self, token: str, status: SubmissionStatus, *, job_id: str = "", sentence: str = "", hint: str = ""
    ) -> None:
        event = SubmissionChanged(
            at=self._context.at(), token=token, status=status, job_id=job_id, sentence=sentence, hint=hint
        )
        self._context.commit(event)

    # ------------------------------------------------------------------ cancelling

    def cancel(self, token: str, done: Future[None], offline: LabError | None) -> None:
        """Cancel a submission wherever it stands; `offline` says why the cluster cannot be asked, if so."""
        submission = self._context.state.submissions.get(token)
        if submission is None:
            _settle(done, None)
        elif submission.status is SubmissionStatus.WAITING:
            self._to_cancel.setdefault(token, []).append(done)
            self._withdraw(submission)
        elif submission.status in (SubmissionStatus.SENDING, SubmissionStatus.UNKNOWN):
            self._to_cancel.setdefault(token, []).append(done)
            self._look_at[token] = self._context.now()
        elif submission.status is SubmissionStatus.ACCEPTED and submission.job is not None:
            if submission.job.phase is JobPhase.FINISHED:
                _settle(done, None)
            elif offline is not None:
                _fail(done, offline)
            else:
                self._cancel_job(submission.job.job_id, done)
        else:
            _settle(done, None)

    def _cancel_job(self, job_id: str, done: Future[None]) -> None:
        self._ask_aside(lambda: self._context.cluster.cancel(job_id), done)

    def end_after(self, token: str, minutes: int, done: Future[None], offline: LabError | None) -> None:
        """The student's own limit: kept until the job is sent, or told to Slurm at once where there is a job."""
        submission = self._context.state.submissions.get(token)
        refusal = early_end_refusal(submission, minutes) if submission is not None else None
        wanted = EarlyEndSet(at=self._context.at(), token=token, minutes=minutes)
        if submission is None or refusal is not None:
            _fail(done, UsageError(*(refusal or ("There is no such submission.", ""))))
        elif submission.job is None:
            self._context.commit(wanted)
            _settle(done, None)
        elif offline is not None:
            _fail(done, offline)
        else:
            job_id = submission.job.job_id
            question = functools.partial(self._context.cluster.end_after, job_id, minutes)
            self._ask_aside(question, done, lambda: self._context.commit(wanted))

    def _ask_aside(
        self, question: Callable[[], None], done: Future[None], then: Callable[[], None] = lambda: None
    ) -> None:
        """Ask Slurm for something beside the waiting line; `done` hears how it went, whatever happens."""

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

        self._context.aside(question, answered)

    def abandon(self, error: LabError) -> None:
        """The session closes: who still waits is told so. What waits in line stays stored."""
        for tracked in self._waiting.values():
            for future in tracked:
                _fail(future, error)
        for wanted in self._to_cancel.values():
            for done in wanted:
                _fail(done, error)


def absolute(context: Context, path: str) -> str:
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
