"""A replay shows the state at each event as it was then, and leaves the lab folder as it is."""

from __future__ import annotations

import hashlib
import random
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labtui.domain.errors import ConnectionLost, FolderError
from labtui.domain.events import (
    AnyEvent,
    ConnectionChanged,
    ConnectionState,
    EarlyEndSet,
    EpochSeen,
    ErrorCleared,
    ErrorRaised,
    JobObserved,
    LabState,
    LogGrew,
    LogSegmentStarted,
    LogState,
    OtherJobsSeen,
    PathsSeen,
    PlannedRun,
    Refreshed,
    RunEnded,
    RunFound,
    RunStarted,
    SamplesReset,
    SubmissionChanged,
    SubmissionHeld,
    SubmissionPlanned,
)
from labtui.domain.model import EpochSample, Interval, JobPhase, JobView, RunSpec, SubmissionStatus
from labtui.session.replay import LONGEST_PAUSE_S, Replay, Timeline, open_replay
from labtui.session.store import is_stored
from tests.session.conftest import Bench, accepted, draft
from tests.session.scripted import keras_log
from tests.tui.replay import ReplayedSession, lab_session, log_text, make_folder, open_session, spec

OWN_RUNS = {"lt-a": [1, 2], "lt-b": [3, 4], "lt-c": [5]}
"""A run belongs to one submission."""
TOKENS = st.sampled_from(list(OWN_RUNS))
RUNS = st.integers(1, 5)
STREAMS = st.sampled_from(["out", "err"])
AT = st.floats(1.7e9, 1.7e9 + 2e5)
SPECS = st.builds(
    RunSpec,
    model=st.sampled_from(["ResNet50", "ResNet152"]),
    device=st.just("gpu"),
    n_gpus=st.sampled_from([1, 2, 4]),
    batch_size=st.integers(1, 4096),
    epochs=st.integers(1, 9),
    script=st.just("ResNet50.py"),
)
SAMPLES = st.builds(
    EpochSample,
    epoch=st.integers(1, 6),
    seconds=st.floats(0.1, 500).map(lambda middle: Interval.around(middle, 0.05)),
    line=st.one_of(st.none(), st.integers(1, 60)),
)
JOBS = st.builds(JobView, job_id=st.sampled_from(["11", "12"]), phase=st.sampled_from(JobPhase), seen_at=AT)


def one(kind: type, **fields: st.SearchStrategy) -> st.SearchStrategy:
    return st.builds(kind, at=AT, **fields)


EVENTS: st.SearchStrategy[AnyEvent] = st.one_of(
    TOKENS.flatmap(
        lambda token: one(
            SubmissionPlanned,
            token=st.just(token),
            task_id=st.sampled_from(["10.3", "10.5"]),
            form=st.just("job-per-size"),
            job_name=st.just("name"),
            runs=st.lists(
                st.builds(PlannedRun, run_id=st.sampled_from(OWN_RUNS[token]), spec=SPECS),
                min_size=1,
                max_size=2,
                unique_by=lambda run: run.run_id,
            ).map(tuple),
            remote_logs=st.just({"out": "d/name.%j.out", "err": "d/name.%j.err"}),
        )
    ),
    one(
        SubmissionChanged,
        token=TOKENS,
        status=st.sampled_from(SubmissionStatus),
        job_id=st.sampled_from(["", "11", "12"]),
        attempt=st.integers(0, 3),
    ),
    one(JobObserved, token=TOKENS, job=JOBS),
    one(EpochSeen, run_id=RUNS, sample=SAMPLES),
    one(RunStarted, run_id=RUNS, images=st.none() | st.just(50_000)),
    one(RunEnded, run_id=RUNS, outcome=st.sampled_from(["completed", "oom", "failed"])),
    TOKENS.flatmap(
        lambda token: one(RunFound, token=st.just(token), run_id=st.sampled_from(OWN_RUNS[token]), spec=SPECS)
    ),
    one(SamplesReset, run_ids=st.lists(RUNS, max_size=2).map(tuple)),
    one(LogSegmentStarted, token=TOKENS, stream=STREAMS, segment=st.integers(0, 2)),
    one(
        LogGrew,
        token=TOKENS,
        stream=STREAMS,
        segment=st.integers(0, 2),
        size=st.integers(0, 999),
        complete=st.booleans(),
    ),
    one(EarlyEndSet, token=TOKENS, minutes=st.integers(1, 60)),
    one(SubmissionHeld, token=TOKENS, held=st.booleans()),
    one(PathsSeen, paths=st.dictionaries(st.sampled_from(["/a", "/b"]), st.booleans())),
    one(ConnectionChanged, status=st.sampled_from(["online", "offline", "stale"])),
    one(OtherJobsSeen, jobs=st.just(())),
    one(Refreshed),
    one(ErrorRaised, key=st.sampled_from(["a", "b"]), sentence=st.just("No.")),
    one(ErrorCleared, key=st.sampled_from(["a", "b"])),
)


def recorded(state: LabState) -> LabState:
    """The state without what describes the moment: connection, queue's age, problems, how far a log had grown."""
    submissions = {
        token: replace(each, logs={name: _settled(log) for name, log in each.logs.items() if _settled(log)})
        for token, each in state.submissions.items()
    }
    return replace(
        state,
        submissions=submissions,
        runs=dict(state.runs),
        places=dict(state.places),
        connection=ConnectionState(),
        refreshed_at=None,
        other_jobs=(),
        problems=(),
    )


def _settled(log: LogState) -> tuple[int, bool] | None:
    """How long a log is, its mirror says."""
    return (log.segment, log.complete) if log.segment or log.complete else None


def of_the_current_segment(state: LabState, event: AnyEvent) -> AnyEvent:
    """A log only grows in a segment whose start was stored: growing alone is not, and would be missing in a replay."""
    if not isinstance(event, LogGrew) or event.token not in state.submissions:
        return event
    log = state.submissions[event.token].logs.get(event.stream, LogState())
    return msgspec.structs.replace(event, segment=log.segment)


def as_was(states: list[LabState], replayed: list[LabState]) -> None:
    assert [recorded(state) for state in replayed] == [recorded(state) for state in states]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "lab"
    make_folder(path)
    open_session(path).close()
    return path


PLANNED_RUN = PlannedRun(run_id=1, spec=spec(gpus=1))
GREW_WHEN_COMPLETE: list[AnyEvent] = [
    SubmissionPlanned(
        at=1.7e9, token="lt-a", task_id="10.3", form="job-per-size", job_name="name", runs=(PLANNED_RUN,)
    ),
    LogGrew(at=1.7e9, token="lt-a", stream="out", segment=0, size=1, complete=True),
    LogGrew(at=1.7e9, token="lt-a", stream="out", segment=0, size=2),
    EarlyEndSet(at=1.7e9, token="lt-a", minutes=1),
]
"""What is not stored takes nothing back that is."""


@example(events=GREW_WHEN_COMPLETE)
@settings(max_examples=60, deadline=None)
@given(events=st.lists(EVENTS, min_size=1, max_size=25))
def test_the_state_at_every_event_equals_the_state_then(
    empty: Path, tmp_path_factory: pytest.TempPathFactory, events: list[AnyEvent]
) -> None:
    """Lived through a real session with its store, moments included; then replayed, forwards and in any order."""
    path = tmp_path_factory.mktemp("lived") / "lab"
    shutil.copytree(empty, path)
    (path / "labtui.db").unlink()
    lived: list[LabState] = []
    with open_session(path) as session:
        for event in events:
            session.feed(of_the_current_segment(session.state, event))
            if is_stored(event):
                lived.append(session.state)
    if not lived:
        with pytest.raises(FolderError, match="no session yet"):
            open_replay(path)
        return
    with open_replay(path) as replay:
        seen = []
        for count in range(1, len(lived) + 1):
            replay.go_to_event(count)
            seen.append(replay.state)
        as_was(lived, seen)
        for count in random.Random(len(lived)).choices(range(1, len(lived) + 1), k=6):
            replay.go_to_event(count)
            as_was([lived[count - 1]], [replay.state])


@settings(max_examples=100, deadline=None)
@given(events=st.lists(EVENTS, min_size=1, max_size=40), places=st.lists(st.floats(0, 1e5), max_size=10))
def test_places_and_times_go_on_with_the_events(events: list[AnyEvent], places: list[float]) -> None:
    timeline = Timeline(events)
    assert list(timeline.times) == sorted(timeline.times)
    assert timeline.seconds <= LONGEST_PAUSE_S * (len(events) - 1) + 1e-6
    assert timeline.count_at(timeline.seconds) == len(events)
    walls = [timeline.wall(min(place, timeline.seconds)) for place in sorted(places)]
    assert walls == sorted(walls)
    assert set(timeline.chapters()) <= set(range(1, len(events) + 1))


# --------------------------------------------------------------------------- a recorded folder


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """The folder of a lab session."""
    make_folder(tmp_path / "lab")
    with open_session(tmp_path / "lab") as session:
        lab_session(session)
    return tmp_path / "lab"


@pytest.fixture
def replay(lab: Path) -> Iterator[Replay]:
    with open_replay(lab) as opened:
        yield opened


def fingerprint(folder: Path) -> dict[str, tuple[int, str]]:
    """Everything in a folder: time of change and contents."""
    return {
        path.relative_to(folder).as_posix(): (
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in folder.rglob("*")
    }


def test_the_lab_folder_stays_as_it_is(lab: Path) -> None:
    before = fingerprint(lab)
    lab.chmod(0o500)
    with open_replay(lab) as replay:
        copy = replay.folder.path
        for count in (1, 9, 3, 99):
            replay.go_to_event(count)
        replay.faults.write(ValueError("a fault"))
        with pytest.raises(FolderError, match="replay"):
            replay.submit(replay.drafts("10.5")[0])
        with pytest.raises(FolderError, match="replay"):
            replay.cancel(1)
        with pytest.raises(FolderError, match="replay"):
            replay.push()
        assert copy.exists()
    lab.chmod(0o700)
    assert fingerprint(lab) == before
    assert not copy.exists()


def test_a_session_of_the_real_worker_comes_again_as_it_was(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two jobs, a cut connection, a log that grows and begins anew; the state after each commit is noted."""
    journal, noted, stored = bench.session._journal, {}, [0]

    def note(name: str) -> None:
        before = getattr(journal, name)

        def commit(events: Sequence[AnyEvent], **more: Any) -> None:
            before(events, **more)
            stored[0] += sum(map(is_stored, events))
            noted[stored[0]] = bench.session.state

        monkeypatch.setattr(journal, name, commit)

    note("commit")
    note("commit_first")
    accepted(bench)
    bench.session.submit(draft(2, qos="acc_debug"))
    bench.cluster.write("100", keras_log(5, 4))
    bench.run(60, lambda: len(bench.session.state.runs[1].epochs) == 2)
    bench.cluster.fail("read", ConnectionLost("Gone."))
    bench.cluster.write("100", keras_log(5, 4, 4, 4, 4)[len(keras_log(5, 4)) :])
    bench.cluster.end("100")
    bench.run(300, lambda: bench.session.state.runs[1].outcome is not None)
    with open_replay(bench.path) as replay:
        assert len(replay.timeline.events) == stored[0] > 12
        for count, state in noted.items():
            if count:
                replay.go_to_event(count)
                as_was([state], [replay.state])
        assert replay.state.runs[1].epochs == bench.session.state.runs[1].epochs


def test_the_folder_of_an_older_labtui_is_migrated_in_the_copy_only(empty: Path, tmp_path: Path) -> None:
    shutil.copytree(empty, tmp_path / "lab")
    database = tmp_path / "lab" / "labtui.db"
    for part in tmp_path.glob("lab/labtui.db*"):
        part.unlink()
    old = sqlite3.connect(database)
    old.executescript((Path(__file__).parent / "data" / "v1.sql").read_text())
    old.close()
    before = fingerprint(tmp_path / "lab")
    with open_replay(tmp_path / "lab") as replay:
        replay.go_to(replay.timeline.seconds)
        assert replay.state.runs[1].outcome == "completed"
    assert fingerprint(tmp_path / "lab") == before


def test_a_folder_that_is_open_elsewhere_is_replayed_with_what_is_stored_by_now(tmp_path: Path) -> None:
    make_folder(tmp_path / "lab")
    session: ReplayedSession = open_session(tmp_path / "lab")
    lab_session(session)
    with open_replay(tmp_path / "lab") as replay:
        replay.go_to(replay.timeline.seconds)
        assert recorded(replay.state).runs == recorded(session.state).runs
    session.close()


def test_a_log_is_shown_as_far_as_it_had_been_read(replay: Replay) -> None:
    token = "lt000000000000000bbb"
    whole = log_text(spec(gpus=1), 5).encode().splitlines(keepends=True)
    lines = {}
    for count, event in enumerate(replay.timeline.events, 1):
        if isinstance(event, EpochSeen) and event.run_id == 2:
            replay.go_to_event(count)
            path = replay.log_path(token, "out")
            assert path is not None
            lines[event.sample.epoch] = path.read_bytes()
    assert list(lines) == [1, 2, 3, 4, 5]
    for number, text in lines.items():
        assert text == b"".join(whole[: 10 + 2 * number])
    replay.go_to_event(1)
    replay.go_to(replay.timeline.seconds)
    path = replay.log_path(token, "out")
    assert path is not None and path.read_bytes() == b"".join(whole)
    assert replay.state.submissions[token].logs["out"].size == len(b"".join(whole))


def test_answers_and_exports_appear_when_they_were_last_written(lab: Path) -> None:
    import os

    (lab / "answers" / "10.5.md").write_text("mine")
    (lab / "plots" / "speedup.png").write_bytes(b"png")
    with open_replay(lab) as replay:
        first = replay.timeline.times[0]
        os.utime(lab / "answers" / "10.5.md", (first - 5, first - 5))
        answer, plot = (replay.folder.path / name for name in ("answers/10.5.md", "plots/speedup.png"))
        replay.go_to_event(2)
        assert answer.exists() and not plot.exists()
        replay.go_to(replay.timeline.seconds)
        assert plot.read_bytes() == b"png"
        replay.go_to_event(3)
        assert not plot.exists()


def test_a_folder_without_events_is_a_sentence_and_a_hint(empty: Path, tmp_path: Path) -> None:
    with pytest.raises(FolderError) as refused:
        open_replay(empty)
    assert "nothing has been submitted" in refused.value.sentence and refused.value.hint
    make_folder(tmp_path / "fresh")
    with pytest.raises(FolderError, match="nothing has been submitted"):
        open_replay(tmp_path / "fresh")
    assert not (tmp_path / "fresh" / "labtui.db").exists()
