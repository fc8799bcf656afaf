"""What is told of a job's start, end and failure: once each, in our own words, and nothing that acts on a terminal."""

from __future__ import annotations

import threading

from labtui.domain.events import JobObserved, LabState, RunEnded
from labtui.domain.model import JobPhase, JobView
from labtui.domain.reduce import reduce
from labtui.session.notifications import DesktopNotifier, Notice, NoticeTracker, terminal_sequence
from tests.session.conftest import Bench, accepted, only


def after(state: LabState, tracker: NoticeTracker, event: object) -> tuple[LabState, list[Notice]]:
    state = reduce(state, event)  # type: ignore[arg-type]
    return state, tracker.notices(state, [event])  # type: ignore[list-item]


def test_start_and_end_are_told_once(bench: Bench) -> None:
    token = accepted(bench)
    state = bench.session.state
    tracker = NoticeTracker(LabState())
    running = JobObserved(at=1, token=token, job=JobView(job_id="100", phase=JobPhase.RUNNING))
    over = JobObserved(at=2, token=token, job=JobView(job_id="100", phase=JobPhase.FINISHED))
    state, notices = after(state, tracker, running)
    assert [notice.kind for notice in notices] == ["started"]
    state, notices = after(state, tracker, running)
    assert notices == []
    state, notices = after(state, tracker, over)
    assert notices == [], "how its run ended is not known yet"
    state, notices = after(state, tracker, RunEnded(at=3, run_id=1, outcome="oom"))
    assert [(notice.kind, notice.sentence) for notice in notices] == [
        ("failed", "ResNet50 · 1 GPU ran out of memory.")
    ]
    state, notices = after(state, tracker, over)
    assert notices == []


def test_nothing_is_told_of_the_past(bench: Bench) -> None:
    token = accepted(bench)
    tracker = NoticeTracker(bench.session.state)
    event = JobObserved(at=1, token=token, job=only(bench).job)
    assert tracker.notices(bench.session.state, [event]) == []


def test_a_name_from_outside_cannot_act_on_the_terminal() -> None:
    evil = Notice("ended", "x\x1b]0;owned\x07", "a;b\\\nc")
    sequence = terminal_sequence(evil)
    assert sequence.count("\x1b") == 4 and sequence.count("\a") == 1
    assert sequence.startswith("\a\x1b]9;") and "owned\x07" not in sequence
    assert sequence.count(";") == 4


def test_a_desktop_that_cannot_is_asked_no_more() -> None:
    questions, first = [], threading.Event()

    def send(notice: Notice) -> None:
        questions.append(notice)
        first.set()
        raise OSError("no bus")

    notifier = DesktopNotifier(send)
    notice = Notice("ended", "t", "s")
    notifier.show(notice)
    assert first.wait(240)
    for thread in threading.enumerate():
        if thread.name == "labtui-notify":
            thread.join(240)
    notifier.show(notice)
    assert questions == [notice]
