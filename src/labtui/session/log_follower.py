"""Follows many logs over one connection: those on screen first, but none waits long for its turn.

One step checks one log. The log that the student is reading is due up to fifteen times a second, others on screen once
or twice a second, those of running jobs every two seconds, those of waiting jobs every half minute. A log with more to
copy is due at once, but after each log on screen one of the others gets its turn.

A log that is far behind is copied first and parsed later: on a fast connection parsing takes longer than copying, and
only bytes that are not copied yet can be lost. After each second of copying one piece is parsed, so that charts move.
"""

import contextlib
import errno
import hashlib
from operator import methodcaller

import msgspec
from msgspec.structs import replace

from labtui.cluster.files import PEEK_BYTES
from labtui.domain.errors import RemoteFailure, failure
from labtui.domain.model import JobPhase, Stream, SubmissionStatus
from labtui.domain.state import Change, LogState, SubmissionState
from labtui.session.mirrors import STREAMS, CopyStep, LogCopy, has_whole_logs, segments_on_disk
from labtui.session.run_matcher import SubmissionReader
from labtui.session.worker_context import Task, WorkerContext
from labtui.slurm.probe import FileDigest, file_digest
from labtui.slurm.values import known_logs, log_path

GROWING_S, GREW_RECENTLY_S, VISIBLE_S = 0.065, 5.0, 0.25
"""The log being read: its interval while it grew within the last `GREW_RECENTLY_S`, and its interval otherwise."""

BESIDE_S, GPU_S, OTHERS_S = 0.5, 2.0, 1.0
"""Intervals of the other stream of its job, of GPU samples, and of the logs of other runs on screen."""

FULL_CHECK_S = 2.0
"""Between two full checks of a log (size, time, whether it was replaced) only its end is read, in one round trip."""

SOON_S = 0.5
RUNNING_S = 2.0
ENDING_S = 1.0
WAITING_S = 4.0
"""Intervals at which logs are checked, by the state of the job; `WAITING_S` while it waits in the queue, since one that
starts and fails between two polls is noticed by its log."""

FINAL_CHECK_S = 60.0
"""A complete log is checked once more when its job has been over for this long."""

QUIET_S = 3.0
"""A log is complete when it did not change for this long after its job, if the job failed or the log shows its end.
`SOON_S` is enough if the job failed and its logs show why; `FINAL_CHECK_S` finds what came later."""

QUIET_UNCLEAR_S = 15.0
"""The same if Slurm calls the job completed but the log shows no end: a parallel file system may be late."""

COPY_AHEAD_S = 1.0
"""A log that is far behind is copied for this long before its next piece is parsed."""

DISK_KEY = "mirror"
ROOM_KEY = "log-room"

MAX_SEGMENTS = 5

MAX_COMPARED_BYTES = 256 * 1024**2
"""Longer logs are not compared by digest: reading one again would load a shared login node for seconds."""


class LogStream(msgspec.Struct):
    """One stream of one submission that is being copied to its mirror."""

    token: str
    stream: Stream
    job_id: str
    copy: LogCopy
    looked_at: float = 0.0
    again_at: float | None = 0.0
    """When it is due, if not an interval after it was looked at: at first at once."""
    read_at: float = 0.0
    behind: bool = False
    complete: bool = False
    comparing: bool = False
    copied_again: bool = False
    whole_until: float = 0.0
    grown_at: float = float("-inf")


class LogFollower:
    """Copies and parses logs. Worker thread only, except `watch`."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._followed: dict[tuple[str, Stream], LogStream] = {}
        self._on_screen: frozenset[str] = frozenset()
        self._visible: tuple[str, Stream] | None = None
        self._screen_was_last = False
        self._disk_retry_at = 0.0

    def watch(self, tokens: frozenset[str], visible: tuple[str, Stream] | None = None) -> None:
        """Set which submissions are on screen, by token; `visible` is the log that the student is reading."""
        self._on_screen, self._visible = tokens, visible

    def recheck_all(self) -> None:
        """Compare all mirrors with the remote files at their next check: these may have changed while offline."""
        for item in self._followed.values():
            item.copy.compare_start = True
            item.behind, item.again_at = False, self._context.clock.steady()

    # ------------------------------------------------------------------ followed logs

    def _refresh(self) -> None:
        """Follow each log unless it is complete and the runs of its submission are current."""
        if self._context.readings.notice_patterns():
            self._followed.clear()
        for submission in self._context.state.in_status(SubmissionStatus.ACCEPTED):
            if (job := submission.job) is None:
                continue
            current = self._context.readings.are_current(submission)
            for stream in STREAMS:
                key, log = (submission.token, stream), submission.logs.get(stream)
                if (known := self._followed.get(key)) is not None and known.job_id == job.job_id:
                    continue
                self._followed.pop(key, None)
                settled = log is not None and log.complete and current
                if not settled and (remote := log_path(submission, stream)) is not None:
                    copy = LogCopy(remote, self._context.folder.path, submission.mirror(stream))
                    self._followed[key] = LogStream(*key, job.job_id, copy)
            if not current and has_whole_logs(submission) and not known_logs(submission):
                self._end_runs(submission.token)

    def due_at(self) -> float | None:
        """When the next log is due; None if there is none to follow."""
        self._refresh()
        if not self._followed:
            return None
        return max(min(self._due_at(item) for item in self._followed.values()), self._disk_retry_at)

    def _due_at(self, item: LogStream) -> float:
        """By the log's *current* interval, so that a job that began or came on screen is checked soon."""
        if item.again_at is not None:
            return item.again_at
        return item.looked_at + self._interval(self._context.state.submissions[item.token], item)

    def _choose(self) -> LogStream:
        """The log that is checked now; one is due whenever a step is."""
        now = self._context.clock.steady()
        due = [item for item in self._followed.values() if self._due_at(item) <= now]
        shown = [item for item in due if item.token in self._on_screen]
        others = [item for item in due if item.token not in self._on_screen]
        first = shown if shown and not (self._screen_was_last and others) else others
        self._screen_was_last = first is shown
        return min(first or due, key=self._due_at)

    # ------------------------------------------------------------------ one step

    def step(self) -> None:
        """Check the log that is due first: copy or parse a piece of it. Raises ConnectionLost."""
        item = self._choose()
        submission, now = self._context.state.submissions[item.token], self._context.clock.steady()
        item.looked_at, item.again_at = now, None
        reader = self._reader(submission)
        try:
            if self._has_unread(item, reader) and not (item.behind and now - item.read_at < COPY_AHEAD_S):
                if self._read_piece(item, reader):
                    self._apply(reader, reader.apply_to)
                item.again_at = item.read_at = now
            else:
                self._check_log(submission, item)
        except OSError as error:
            self._report_disk_error(error)

    def _check_log(self, submission: SubmissionState, item: LogStream) -> None:
        item.copy.remote = self._context.absolute(item.copy.remote)
        try:
            step = self._copy_more(submission, item)
        except RemoteFailure as error:
            self._context.note_transfer(error)
            return  # the server refused this file: try again at the usual interval
        self._context.note_transfer()
        if step.restarted:
            self._restart(submission, item)
        else:
            self._handle_step(submission, item, step)

    def _copy_more(self, submission: SubmissionState, item: LogStream) -> CopyStep:
        """Read only the end if the job runs and a full check was made lately; else make a full check."""
        now, files = self._context.clock.steady(), self._context.cluster.files
        room = self._context.max_log_bytes - item.copy.size  # an endless log must not fill the disk
        running = submission.job is not None and submission.job.phase is JobPhase.RUNNING
        if running and not item.behind and room > PEEK_BYTES and now < item.whole_until:
            glance = item.copy.glance(files)
            if glance is not None:
                return glance
        item.whole_until = now + FULL_CHECK_S
        step = item.copy.step(files, max(0, room))
        if step.behind and room <= 0:
            problem = failure("log-limit", job=item.job_id, gib=self._context.max_log_bytes / 1024**3)
            self._context.set_problem(f"{ROOM_KEY}:{item.token}:{item.stream}", problem)
            return CopyStep()
        return step

    def _clear_disk_error(self) -> None:
        self._disk_retry_at = 0.0
        self._context.set_problem(DISK_KEY, None)

    def _report_disk_error(self, error: OSError) -> None:
        self._disk_retry_at = self._context.clock.steady() + 5.0
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "Free some space" if full else "Look at the folder logs/"
        problem = failure("log-disk", text=error.strerror or error, advice=advice)
        self._context.set_problem(DISK_KEY, problem)

    def _reader(self, submission: SubmissionState) -> SubmissionReader:
        return self._context.readings.reader(self._context.state, submission.token)

    def _has_unread(self, item: LogStream, reader: SubmissionReader) -> bool:
        """Whether an incomplete log's mirror holds bytes that were not parsed yet (after a start, or copied ahead)."""
        return not item.complete and reader.parsed.get(item.stream, item.copy.size) < item.copy.size

    def _read_piece(self, item: LogStream, reader: SubmissionReader) -> bool:
        """Parse the next piece of a mirror; return whether it changed anything in the runs."""
        changed = self._context.readings.read_piece(reader, item.stream, item.copy.local)
        self._clear_disk_error()
        return bool(changed)

    def _handle_step(self, submission: SubmissionState, item: LogStream, step: CopyStep) -> None:
        now = self._context.clock.steady()
        grown = item.copy.size != submission.logs.get(item.stream, LogState()).size
        if grown:
            self._clear_disk_error()
            self._context.set_problem(f"{ROOM_KEY}:{item.token}:{item.stream}", None)
            if item.complete:
                self._context.readings.drop(item.token)  # its reader has already finished the log
            item.complete, item.grown_at = False, now
        reader = self._reader(submission)
        item.behind = step.behind
        told = not step.behind and self._has_unread(item, reader) and self._read_piece(item, reader)
        began = grown or step.appeared  # Slurm makes the file when the job begins
        if began and submission.job is not None and submission.job.phase is JobPhase.QUEUED:
            self._context.note_change()
        if grown or told:
            self._apply(reader, self._size_change(submission, item), *([reader.apply_to] if told else []))
        if not grown and not step.behind:
            self._maybe_complete(submission, item)
        item.looked_at = now
        if self._has_unread(item, reader) or (step.behind and step.grown):
            item.again_at = now
        elif step.behind:
            item.again_at = now + SOON_S

    def _size_change(self, submission: SubmissionState, item: LogStream, *, complete: bool = False) -> Change:
        """The change that records the mirror's size."""
        log = submission.logs.get(item.stream, LogState())
        log = replace(log, size=item.copy.size, complete=complete)
        return methodcaller("with_log", item.token, item.stream, log)

    def _apply(self, reader: SubmissionReader, *changes: Change) -> None:
        """Store what was copied and parsed. An error or a run's end will soon show in the queue: poll more often."""
        runs, failures = self._context.state.runs, reader.failures
        self._context.journal.change(*changes)
        new = self._context.state.runs.items()
        ended = (run.outcome is not None and (n not in runs or runs[n].outcome is None) for n, run in new)
        if reader.failures > failures or any(ended):
            self._context.note_change()
        if reader.failures > failures == 0:
            self._context.failed_at = self._context.changed_at

    def _interval(self, submission: SubmissionState, item: LogStream) -> float:
        """On screen the visible stream most often, then the other streams of its job, then the other jobs."""
        job = submission.job
        if item.complete:
            return FINAL_CHECK_S
        if job is None or job.phase is JobPhase.QUEUED:
            return WAITING_S if item.token not in self._on_screen else SOON_S
        if item.token not in self._on_screen:
            return ENDING_S if job.phase is JobPhase.FINISHED else RUNNING_S
        visible = self._visible or (next(iter(self._on_screen)), "out")
        if (item.token, item.stream) == visible:
            return GROWING_S if self._context.clock.steady() - item.grown_at < GREW_RECENTLY_S else VISIBLE_S
        if item.stream == "gpu":
            return GPU_S
        return BESIDE_S if item.token == visible[0] else OTHERS_S

    # ------------------------------------------------------------------ restarts and completion

    def _restart(self, submission: SubmissionState, item: LogStream) -> None:
        """The remote file was replaced: begin a new segment and drop what was parsed from the old one."""
        segment = 1 + max(segments_on_disk(self._context.folder, submission, item.stream), default=0)
        change = methodcaller("with_log", item.token, item.stream, LogState(segment=segment))
        self._context.journal.change(change)
        reader = self._reader(submission)
        self._apply(reader, reader.apply_to)
        self._delete_old_segment(submission, item.stream, segment)
        local = self._context.state.submissions[item.token].mirror(item.stream)
        item.copy = LogCopy(item.copy.remote, self._context.folder.path, local)
        item.complete = item.behind = False
        item.again_at = item.grown_at = self._context.clock.steady()

    def _delete_old_segment(self, submission: SubmissionState, stream: Stream, newest: int) -> None:
        """Keep only the newest segments of a log that is rewritten again and again."""
        old = newest - MAX_SEGMENTS
        path = self._context.folder.path / submission.mirror(stream, old)
        if old < 0 or not path.exists():
            return
        with contextlib.suppress(PermissionError):  # on Windows while a reader has it open
            path.unlink()
        problem = failure("log-rewritten", job=submission.job_name, most=MAX_SEGMENTS)
        self._context.set_problem("log-segments", problem)

    def _maybe_complete(self, submission: SubmissionState, item: LogStream) -> None:
        """After a check without news: a log is complete when its job is over and it was quiet for a while."""
        job, context = submission.job, self._context
        if job is None or job.phase is not JobPhase.FINISHED or item.comparing:
            return
        if item.complete:
            self._settle(item)
            return
        quiet_s = min(context.clock.steady() - item.grown_at, context.clock.wall() - job.seen_at)
        reader = self._reader(submission)
        clear = job.slurm_state != "COMPLETED" or reader.script_ended
        told = job.slurm_state == "FAILED" and reader.failures
        if quiet_s >= (SOON_S if told else QUIET_S if clear else QUIET_UNCLEAR_S):
            context.run(self._compare(item))

    def _compare(self, item: LogStream) -> Task:
        """Compare size and SHA-256 of both sides; then the log is complete.

        A log that differs is copied once more from its beginning, then taken as it is.
        """
        context, copy, size = self._context, item.copy, item.copy.size
        if not size or size > MAX_COMPARED_BYTES or size >= context.max_log_bytes:
            self._finish(item)
            return
        item.comparing = True

        def question() -> tuple[FileDigest, str]:
            remote = context.cluster.ask(file_digest(copy.remote))
            with context.folder.reader(copy.local) as file:
                return remote, hashlib.file_digest(file, "sha256").hexdigest()

        try:
            remote, ours = yield question
        except RemoteFailure:
            remote, ours = FileDigest(None, ""), ""
        except OSError as error:
            self._report_disk_error(error)
            return
        finally:
            item.comparing = False
        if self._followed.get((item.token, item.stream)) is not item or item.copy is not copy:
            return
        if copy.size != size or remote.size not in (None, size):
            item.grown_at = context.clock.steady()
        elif remote.sha256 not in ("", ours) and not item.copied_again:
            item.copied_again = True
            self._restart(context.state.submissions[item.token], item)
        else:
            if remote.sha256 not in ("", ours):
                problem = failure("log-differs", job=item.job_id, ours=copy.local.name, theirs=copy.remote)
                context.set_problem("log-differs", problem)
            self._finish(item)

    def _finish(self, item: LogStream) -> None:
        """Record that a log is complete. Once all logs of a submission are, it is known how its runs ended."""
        context = self._context
        item.complete = True
        context.journal.change(self._size_change(context.state.submissions[item.token], item, complete=True))
        submission = context.state.submissions[item.token]
        if has_whole_logs(submission) and not context.readings.are_current(submission):
            self._end_runs(item.token)
        if submission.job is not None and context.clock.wall() - submission.job.seen_at > FINAL_CHECK_S:
            self._settle(item)

    def _end_runs(self, token: str) -> None:
        """Record how a submission's runs ended: its job is over and its logs are complete."""
        readings = self._context.readings
        self._context.journal.change(lambda state: readings.read_whole(state, token))
        self._context.note_change()
        readings.save(self._context.state, (token,))

    def _settle(self, item: LogStream) -> None:
        """Stop following a complete log once its job's runs are read; the reader that its last check made goes, too."""
        submission = self._context.state.submissions[item.token]
        if self._context.readings.are_current(submission):
            del self._followed[item.token, item.stream]
            if has_whole_logs(submission):
                self._context.readings.drop(item.token)
