"""What is told of a job's start, end and failure: once each, in our own words, and nothing that acts on a terminal."""

from labtui.domain.model import JobPhase
from labtui.domain.state import Change, LabState
from labtui.session.notifications import Notice, Notifier, terminal_sequence
from tests import changes
from tests.session.conftest import accepted


def after(state: LabState, tracker: Notifier, change: Change) -> tuple[LabState, list[Notice]]:
    state = change(state)
    return state, tracker.notices(state, {"ResNet50": "ResNet50V2"})


def test_start_and_end_are_told_once(bench):
    tracker = Notifier(bench.session, print)
    token = accepted(bench)
    state = bench.session.state
    assert Notifier(bench.session, print).notices(state, {}) == [], "nothing is told of the past"
    running = changes.observed(token, "100", JobPhase.RUNNING)
    over = changes.observed(token, "100", JobPhase.FINISHED)
    state, (notice,) = after(state, tracker, running)
    assert notice.title.startswith("Job started: ResNet50")
    assert after(state, tracker, running)[1] == []
    state, notices = after(state, tracker, over)
    assert notices == [], "how its run ended is not known yet"
    state, (notice,) = after(state, tracker, changes.ended(1, "oom"))
    assert notice.title.startswith("Job failed: ") and notice.sentence == "ResNet50V2 · 1 GPU: out of memory."
    assert after(state, tracker, over)[1] == []


def test_a_name_from_outside_cannot_act_on_the_terminal():
    evil = Notice("x\x1b]0;owned\x07", "a;b\\\nc")
    sequence = terminal_sequence(evil)
    assert sequence.count("\x1b") == 4 and sequence.count("\a") == 1
    assert sequence.startswith("\a\x1b]9;") and "owned\x07" not in sequence
    assert sequence.count(";") == 4
