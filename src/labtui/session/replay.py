"""A lab folder's session again: the state at each of its events, and the files as they were then.

A `Replay` works on a copy in a temporary folder, the database included. It has no connection and cannot make one, and
the lab folder itself is only read, so that also a folder on a disk without write permission can be replayed.

What was not stored is not shown: the connection's ups and downs, how a log grew between two epochs. A log is shown up
to the line of the newest epoch read by then; answers and exports appear when they were last written; scripts are
as they are now.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from labtui.domain.errors import FolderError, StoreError
from labtui.domain.events import (
    AnyEvent,
    ConnectionState,
    EpochSeen,
    JobObserved,
    LabState,
    LogGrew,
    LogSegmentStarted,
    RunEnded,
    RunFound,
    SubmissionChanged,
    SubmissionPlanned,
    SubmissionState,
)
from labtui.domain.model import JobPhase, Stream
from labtui.domain.reduce import reduce_all
from labtui.session import mirrors
from labtui.session.folder import DATABASE_FILE, LabFolder
from labtui.session.session import Session
from labtui.session.store import Store

LONGEST_PAUSE_S = 300.0
"""Seconds in which nothing happened are left out beyond these: a lab may take several evenings."""
_EVERY = 200
_COPIED = ("scripts", "slurm", "answers", "plots")
_THEN = ("answers", "plots")
_LARGEST = 32 << 20
_ALL: int = 1 << 62
_TRIES = 20

LOOK_ONLY = FolderError(
    "This is a replay; it is read-only.",
    "`labtui` opens the lab folder itself.",
)


class Timeline:
    """The events in order, each with its place in seconds from the first one, long pauses shortened."""

    def __init__(self, events: Sequence[AnyEvent]) -> None:
        self.events = tuple(events)
        times: list[float] = []
        for event in self.events:  # a clock that was set back must not turn the order round
            times.append(max(event.at, times[-1]) if times else event.at)
        self.times = tuple(times)
        places = [0.0]
        for before, after in pairwise(times):
            places.append(places[-1] + min(after - before, LONGEST_PAUSE_S))
        self.places = tuple(places)
        self._known: dict[int, LabState] = {0: LabState()}
        self._last = (0, LabState())

    @property
    def seconds(self) -> float:
        """From the first event to the last, long pauses shortened."""
        return self.places[-1]

    def count_at(self, place: float) -> int:
        """How many events had happened at a place in seconds."""
        return bisect.bisect_right(self.places, place) if self.events else 0

    def wall(self, place: float) -> float:
        """The recorded time (UNIX seconds) at a place; in a pause that was shortened time goes on as it did."""
        count = max(1, self.count_at(place))
        return self.times[count - 1] + place - self.places[count - 1]

    def state(self, count: int) -> LabState:
        """The state after the first `count` events."""
        at, state = self._last
        if at > count:
            at = max(known for known in self._known if known <= count)
            state = self._known[at]
        while at < count:
            step = min(count, at - at % _EVERY + _EVERY)
            state, at = reduce_all(state, self.events[at:step]), step
            if at % _EVERY == 0:
                self._known[at] = state
        self._last = (count, state)
        return state

    def chapters(self) -> tuple[int, ...]:
        """Counts of events at which something begins or ends: a plan, a job's change of state, a run's end."""
        phases: dict[str, JobPhase] = {}
        found = []
        for number, event in enumerate(self.events, 1):
            if isinstance(event, JobObserved):
                if phases.get(event.token) is not event.job.phase:
                    found.append(number)
                phases[event.token] = event.job.phase
            elif isinstance(event, SubmissionPlanned | SubmissionChanged | RunEnded):
                found.append(number)
        return tuple(found)


class _Moment:
    """The clock of a replay: the recorded time."""

    now = 0.0

    def wall(self) -> float:
        return self.now

    def steady(self) -> float:
        return self.now


class Replay(Session):
    """A session whose state is that of a chosen moment. Made by `open_replay`; closing it removes the copy."""

    timeline: Timeline
    original: LabFolder
    count = 0
    place = 0.0
    _logs: _LogsThen
    _temporary: tempfile.TemporaryDirectory[str]

    @property
    def now(self) -> float:
        """The recorded time, UNIX seconds."""
        return self.clock.wall()

    def go_to(self, place: float) -> None:
        """Show the moment `place` seconds after the first event; beyond an end, that end."""
        self.place = min(max(place, 0.0), self.timeline.seconds)
        self._moment().now = self.timeline.wall(self.place)
        count = self.timeline.count_at(self.place)
        if count != self.count:
            self.count = count
            self._show()

    def go_to_event(self, count: int) -> None:
        """Show the state right after the first `count` events, 1 at least."""
        self.count = min(max(count, 1), len(self.timeline.events))
        self.place = self.timeline.places[self.count - 1]
        self._moment().now = self.timeline.times[self.count - 1]
        self._show()

    def _moment(self) -> _Moment:
        assert isinstance(self.clock, _Moment)  # noqa: S101 (as `open_replay` makes it)
        return self.clock

    def _show(self) -> None:
        state = self.timeline.state(self.count)
        self._logs.bring(self.folder, state, self.count)
        self._files_then()
        # What the screens say about the connection would be about now, not about then.
        state = replace(state, connection=ConnectionState(status="online"), refreshed_at=self.now)
        self._journal.show(reduce_all(state, mirrors.sizes(self.folder, state, self.now)))

    def _files_then(self) -> None:
        """Answers and exports that were last written later are not there yet."""
        over = self.count == len(self.timeline.events)
        for room in _THEN:
            for source in _files(self.original.path / room):
                target = self.folder.path / source.relative_to(self.original.path)
                there = over or source.stat().st_mtime <= self.now
                if there and not target.exists():
                    _copy(source, target)
                elif not there:
                    target.unlink(missing_ok=True)

    def close(self, timeout_s: float = 1.0) -> None:
        super().close(timeout_s)
        self._temporary.cleanup()


def open_replay(path: str | Path) -> Replay:
    """The replay of a lab folder, at its first event.

    Raises:
        FolderError: no lab folder, or nothing happened in it yet; StoreError when its database cannot be read.
        DataError: `lab.toml` or the cluster profile cannot be understood.
    """
    original = LabFolder.open(path)
    temporary = tempfile.TemporaryDirectory(prefix="labtui-replay-", ignore_cleanup_errors=True)
    store: Store | None = None
    try:
        copy = LabFolder(Path(temporary.name).resolve() / original.path.name)
        _copy_folder(original, copy)
        store = Store(copy.database_path)
        timeline = Timeline(store.events())
        if not timeline.events:
            raise _nothing(original)
        store.read_only = True
        session = Replay(copy, store, None, _Moment())
        session.opened_read_only, session.timeline, session.original = LOOK_ONLY, timeline, original
        session._logs, session._temporary = _LogsThen(original, timeline.events), temporary
        session.go_to_event(1)
    except BaseException:
        if store is not None:
            store.close()
        temporary.cleanup()
        raise
    return session


def _nothing(folder: LabFolder) -> FolderError:
    return FolderError(
        f"{folder.path} holds no session yet: nothing has been submitted there.",
        "Submit a task first (`labtui`), or name another lab folder.",
    )


# --------------------------------------------------------------------------- copies


def _copy_folder(original: LabFolder, copy: LabFolder) -> None:
    if not original.database_path.is_file():
        raise _nothing(original)
    try:
        copy.path.mkdir(mode=0o700)
        copy.make_rooms()
        for source in original.path.iterdir():
            if source.suffix in {".toml", ".pdf", ".pptx"} and source.is_file():
                _copy(source, copy.path / source.name)
        for room in _COPIED:
            for source in _files(original.path / room):
                _copy(source, copy.path / source.relative_to(original.path))
        _copy_database(original.database_path, copy.database_path)
    except OSError as error:
        raise FolderError(
            f"{original.path} cannot be copied for the replay: {error.strerror}.",
            "Free space in the folder for temporary files.",
        ) from error


def _files(room: Path) -> Iterator[Path]:
    for path in room.rglob("*") if room.is_dir() else ():
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= _LARGEST:
            yield path


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):  # it went away just now
        shutil.copy2(source, target)
        target.chmod(0o600)


def _copy_database(source: Path, target: Path) -> None:
    """The database with its write-ahead log, both of one moment: another labtui may be writing just now.

    Raises:
        StoreError: it was written to during each try.
    """
    parts = [source, source.with_name(f"{DATABASE_FILE}-wal")]
    for _ in range(_TRIES):
        before = [_stamp(part) for part in parts]
        for part in parts:
            target.with_name(part.name).unlink(missing_ok=True)
            if part.exists():
                _copy(part, target.with_name(part.name))
        if before == [_stamp(part) for part in parts]:
            return
    raise StoreError("The lab folder's database is busy.", "Close the other labtui, or try again.")


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_size, status.st_mtime_ns


# --------------------------------------------------------------------------- logs


_Log = tuple[str, Stream, int]
"""A segment of a log: token, stream, number."""


class _LogsThen:
    """How much of each log had been read after so many events, and copies that hold just that."""

    def __init__(self, original: LabFolder, events: Sequence[AnyEvent]) -> None:
        self._original = original
        self._events = len(events)
        self._marks: dict[_Log, list[tuple[int, int]]] = {}
        """Per segment: (count of events, last line read by then), both growing."""
        self._bytes: dict[_Log, dict[int, int]] = {}
        self._note(events)

    def _note(self, events: Sequence[AnyEvent]) -> None:
        owners: dict[int, str] = {}
        segments: dict[tuple[str, Stream], int] = {}

        def mark(count: int, token: str, stream: Stream, line: int) -> None:
            marks = self._marks.setdefault((token, stream, segments.get((token, stream), 0)), [])
            marks.append((count, max(line, marks[-1][1] if marks else 0)))

        for count, event in enumerate(events, 1):
            match event:
                case SubmissionPlanned():
                    owners.update(dict.fromkeys((run.run_id for run in event.runs), event.token))
                case LogSegmentStarted():
                    segments[event.token, event.stream] = event.segment
                case EpochSeen():
                    mark(count, owners.get(event.run_id, ""), "out", event.sample.line or 0)
                case RunEnded():
                    for found in event.diagnosis:
                        mark(count, owners.get(event.run_id, ""), found.stream, found.line)
                case LogGrew() if event.complete:
                    mark(count, event.token, event.stream, _ALL)
                case JobObserved() if event.job.phase is JobPhase.FINISHED:
                    mark(count, event.token, "gpu", _ALL)
                case RunFound():
                    owners[event.run_id] = event.token

    def bring(self, copy: LabFolder, state: LabState, count: int) -> None:
        """Make the logs in `copy` hold what had been read after `count` events."""
        for submission in state.submissions.values():
            for stream in mirrors.STREAMS:
                for segment in range(mirrors.current_segment(submission, stream) + 1):
                    source = mirrors.segment_path(self._original, submission, stream, segment)
                    target = mirrors.segment_path(copy, submission, stream, segment)
                    if source is not None and target is not None:
                        size = self._size((submission.token, stream, segment), submission, source, count)
                        _cut(source, target, size)

    def _size(self, log: _Log, submission: SubmissionState, source: Path, count: int) -> int:
        """Bytes of a segment that had been read."""
        if not source.exists():
            return 0
        later = log[2] < mirrors.current_segment(submission, log[1])
        marks = self._marks.get(log, [])
        at = bisect.bisect_right(marks, (count, _ALL)) - 1
        line = marks[at][1] if at >= 0 else 0
        if later or line == _ALL or count == self._events:
            return source.stat().st_size
        if log not in self._bytes:
            self._bytes[log] = _ends(source, {line for _, line in marks})
        return self._bytes[log].get(line, 0)


def _ends(path: Path, lines: set[int]) -> dict[int, int]:
    """Where each of these lines (from 1) ends, in bytes; the whole file for those beyond its end."""
    ends, offset = {0: 0}, 0
    with path.open("rb") as file:
        for number, text in enumerate(file, 1):
            offset += len(text)
            if number in lines:
                ends[number] = offset
    return {line: ends.get(line, offset) for line in lines | {0}}


def _cut(source: Path, target: Path, size: int) -> None:
    """Let `target` hold the first `size` bytes of `source`, of which it already holds a part or more."""
    held = target.stat().st_size if target.exists() else 0
    if size < held:
        os.truncate(target, size)
    elif size > held:
        with source.open("rb") as file, target.open("ab") as out:
            file.seek(held)
            out.write(file.read(size - held))
