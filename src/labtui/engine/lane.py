"""The lane: the one thread that owns the connection. Everything the cluster hears from us goes through here.

Its loop does one small thing after another, the most urgent first: what the student asked for, what waits to be
sent, the queue, the logs. Between two of them it looks around again, so nothing waits behind bulk work. A second,
tiny thread watches the lane itself: it notices that the computer slept, and that a question stays unanswered.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from labtui.core.events import PathsSeen
from labtui.core.jobs import live
from labtui.engine.context import Context, Done, outcome_of
from labtui.engine.line import Line
from labtui.engine.planning import DRY_RUN, SCRIPT_NAME, Planned
from labtui.engine.polling import Poller
from labtui.engine.requests import RequestQueue, Urgency
from labtui.engine.sending import Sender, absolute
from labtui.engine.tailing import Tailer
from labtui.engine.watchdog import Watchdog
from labtui.errors import ConnectionLost, LabError

if TYPE_CHECKING:
    from labtui.core.push import PushReport
    from labtui.core.slurm.test_only import TestOnly

_T = TypeVar("_T")
FAULT_KEY = "fault"
_AFTER_FAULT_S = 2.0


class Lane:
    """Start it once; every other method may be called from any thread and returns at once."""

    def __init__(self, context: Context, shared_dir: str) -> None:
        """`shared_dir` is the remote directory that `push` fills, relative to the remote home or absolute."""
        self._context = context
        self._shared_dir = shared_dir
        self._requests = RequestQueue()
        self._line = Line(context)
        self._sender = Sender(context, self._something_new)
        self._tailer = Tailer(context, self._something_new)
        self._poller = Poller(context, self._tailer.script_ended, self._sender.freed)
        self._watchdog = Watchdog(context.clock, self._slept, self._line.mark_stale, context.cluster.close)
        self._closing = threading.Event()
        self._pause_until = 0.0
        self._duty = ""
        self._thread = threading.Thread(target=self._run, name="labtui-lane", daemon=True)

    # ------------------------------------------------------------------ from other threads

    def start(self) -> None:
        """Begin to connect and to work."""
        self._context.aside = self._aside
        self._thread.start()
        self._watchdog.start()

    def close(self, timeout_s: float) -> bool:
        """Stop; says whether the thread ended in time. A blocked call is cut off by closing the connection."""
        self._closing.set()
        self._requests.wake()
        self._watchdog.stop()
        self._context.cluster.close()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        closed = LabError("labtui was closed.", "What waits in line is stored and goes on next time.")
        for request in self._requests.drain():
            request.fail(closed)
        self._sender.abandon(closed)
        return not self._thread.is_alive()

    def track_submission(self, token: str) -> Future[str]:
        """Done when Slurm accepted the submission; raises its refusal. Ask before the intent is stored."""
        return self._sender.track(token)

    def look(self) -> None:
        """Something was stored that the lane should see."""
        self._requests.wake()

    def cancel_submission(self, token: str) -> Future[None]:
        """Cancel a submission wherever it stands."""
        done: Future[None] = Future()
        self._put_aside(lambda offline: self._sender.cancel(token, done, offline))
        return done

    def end_after(self, token: str, minutes: int) -> Future[None]:
        """Let a submission's job end after so many minutes of running."""
        done: Future[None] = Future()
        self._put_aside(lambda offline: self._sender.end_after(token, minutes, done, offline))
        return done

    def _put_aside(self, act: Callable[[LabError | None], None]) -> None:
        """Do something that may go on without a line, and look at the queue soon after."""

        def work() -> None:
            offline = None
            if not self._line.online:
                offline = self._line.error or ConnectionLost("There is no connection to the cluster.")
            act(offline)
            self._poller.changed()
            self._poller.press()

        self._requests.put(work, needs_line=False)

    def test_only(self, planned: Planned) -> Future[TestOnly]:
        """Push a draft's job script, always to the same place, and ask Slurm about it, without submitting."""

        def work() -> TestOnly:
            root = absolute(self._context, planned.event.remote_dir).rpartition("/")[0]
            directory = f"{root}/{DRY_RUN}"
            self._context.cluster.push({SCRIPT_NAME: planned.files[SCRIPT_NAME]}, directory)
            return self._context.cluster.test_only(directory, SCRIPT_NAME, ())

        return self._requests.put(work)

    def push(self, files: Mapping[str, bytes]) -> Future[PushReport]:
        """Bring the lab's shared remote directory to these files."""

        def work() -> PushReport:
            return self._context.cluster.push(files, absolute(self._context, self._shared_dir))

        return self._requests.put(work, urgency=Urgency.BULK)

    def look_at(self, paths: Sequence[str]) -> Future[Mapping[str, bool]]:
        """Ask whether these remote paths are there, aside: a slow file system must not hold up the logs.

        The answer is stored, with its time.
        """
        return self._look_aside(
            lambda: functools.partial(self._context.cluster.present, paths),
            lambda found: self._context.commit(PathsSeen(at=self._context.at(), paths=found)),
        )

    def look_at_shared(self, paths: Sequence[str]) -> Future[Mapping[str, str | None]]:
        """Ask what lies under these paths of the lab's shared directory, aside: SHA-256, or None for nothing."""

        def question() -> Callable[[], dict[str, str | None]]:
            directory = absolute(self._context, self._shared_dir)
            return lambda: self._context.cluster.digests(directory, paths)

        return self._look_aside(question, lambda _: None)

    def _look_aside(
        self, prepare: Callable[[], Callable[[], dict[str, _T]]], keep: Callable[[dict[str, _T]], None]
    ) -> Future[Mapping[str, _T]]:
        """`prepare` runs in the lane's thread and gives the question, which is asked aside; `keep` hears the answer."""
        future: Future[Mapping[str, _T]] = Future()

        def answered(outcome: Callable[[], dict[str, _T]]) -> None:
            try:
                found = outcome()
            except LabError as error:
                future.set_exception(error)
                if isinstance(error, ConnectionLost):
                    raise
                return
            keep(found)
            future.set_result(found)

        self._hand_over(self._requests.put(lambda: self._context.aside(prepare(), answered)), future)
        return future

    @staticmethod
    def _hand_over(asked: Future[None], future: Future[Any]) -> None:
        """A request that could not even begin settles the answer as well."""

        def settle(done: Future[None]) -> None:
            error = done.exception()
            if error is not None and not future.done():
                future.set_exception(error)

        asked.add_done_callback(settle)

    def watch_logs(self, tokens: frozenset[str]) -> None:
        """These logs are on screen."""
        self._tailer.watch(tokens)
        self._requests.wake()

    def refresh(self) -> None:
        """A key press: read the queue soon; connect if there is no connection."""

        def work() -> None:
            self._poller.press()
            self._line.key_press()

        self._requests.put(work, needs_line=False)

    def connect_now(self) -> None:
        """A key press: try to connect."""
        self._requests.put(self._line.key_press, needs_line=False)

    def _something_new(self) -> None:
        self._poller.changed()

    def _slept(self) -> None:
        self._requests.put(self._wake_up, needs_line=False)

    def _wake_up(self) -> None:
        self._line.suspect()
        self._tailer.doubt_all()
        self._poller.press()

    # ------------------------------------------------------------------ the lane's thread

    def _run(self) -> None:
        self.resume()
        while not self._closing.is_set():
            pause = self.turn()
            if pause is None or pause > 0:
                self._requests.wait(pause, online=self._line.online)

    def resume(self) -> None:
        """Take up what the last process left."""
        self._sender.resume()

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

    def _aside(self, work: Callable[[], Any], done: Done) -> None:
        """Ask a slow question on a second channel; the answer comes back as a request to the lane."""

        def ask() -> None:
            outcome = outcome_of(work)
            self._requests.put(lambda: done(outcome), needs_line=False)

        threading.Thread(target=ask, name="labtui-aside", daemon=True).start()

    def _lost(self, error: LabError) -> None:
        """The line broke, or an answer stayed out on a line that stands: then it is tested before its next use."""
        if self._context.cluster.connected:
            self._line.suspect()
        elif self._line.online:
            self._line.lost(error)
        self._tailer.doubt_all()

    def _unexpected(self, error: Exception) -> None:
        self._context.faults.write(error)
        told = LabError(
            f"Something went wrong inside labtui ({type(error).__name__}).",
            f"It goes on. The details are in {self._context.faults.path.name} in the lab folder.",
        )
        self._context.raise_problem(FAULT_KEY, told)
        self._pause_until = self._context.now() + _AFTER_FAULT_S

    def _step(self) -> float | None:
        if self._line.settled_offline:
            for refused in self._requests.drain(only_needing_line=True):
                refused.fail(self._line.error or ConnectionLost("There is no connection to the cluster."))
        request = self._requests.pop(online=self._line.online)
        if request is not None:
            self._in_call(request.run)
            if self._line.online and request.needs_line:
                self._line.heard()
            return 0.0
        due, work = self._next_duty()
        now = self._context.now()
        if work is None or due is None:
            return None
        if due > now:
            return due - now
        self._in_call(work)
        return 0.0

    def _next_duty(self) -> tuple[float | None, Callable[[], None] | None]:
        """What the lane wants to do next by itself, and when."""
        duties: list[tuple[float | None, Callable[[], None]]] = [(self._line.due_at(), self._line_duty)]
        if self._line.online:
            duties += [
                (self._sender.due_at(), self._heard_after("submit", self._send)),
                (self._poller.due_at(), self._heard_after("queue", self._poller.step)),
                (self._tailer.due_at(), self._heard_after("logs", self._tailer.step)),
            ]
        now = self._context.now()
        known = [(max(due, self._pause_until), work) for due, work in duties if due is not None]
        ready = [work for due, work in known if due <= now]
        if ready:
            return now, ready[0]  # in order of urgency
        return min(known, key=lambda duty: duty[0], default=(None, None))

    def _line_duty(self) -> None:
        was_online = self._line.online
        self._line.attend()
        if self._line.online and not was_online:
            self._tailer.doubt_all()
            if live(self._context.state):
                self._poller.changed()

    def _send(self) -> None:
        self._sender.step()
        self._poller.changed()

    def _heard_after(self, duty: str, work: Callable[[], None]) -> Callable[[], None]:
        def both() -> None:
            self._duty = duty
            work()
            self._line.heard()
            self._context.clear_problem(f"{FAULT_KEY}:{duty}")

        return both

    def _in_call(self, work: Callable[[], None]) -> None:
        self._watchdog.begin()
        try:
            work()
        finally:
            self._watchdog.end()
