"""What is told of a job's start, end and failure: once each, in our own words, and nothing that acts on a terminal."""

import subprocess
import sys

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
    state, notices = after(state, tracker, running)
    assert [notice.kind for notice in notices] == ["started"]
    state, notices = after(state, tracker, running)
    assert notices == []
    state, notices = after(state, tracker, over)
    assert notices == [], "how its run ended is not known yet"
    state, notices = after(state, tracker, changes.ended(1, "oom"))
    (notice,) = notices
    assert (notice.kind, notice.sentence) == ("failed", "ResNet50V2 · 1 GPU: out of memory.")
    state, notices = after(state, tracker, over)
    assert notices == []


def test_a_name_from_outside_cannot_act_on_the_terminal():
    evil = Notice("ended", "x\x1b]0;owned\x07", "a;b\\\nc")
    sequence = terminal_sequence(evil)
    assert sequence.count("\x1b") == 4 and sequence.count("\a") == 1
    assert sequence.startswith("\a\x1b]9;") and "owned\x07" not in sequence
    assert sequence.count(";") == 4


def test_without_a_desktop_nothing_is_printed():
    show = "from labtui.session.notifications import Notice, _show;"
    done = subprocess.run(
        [sys.executable, "-c", f"{show} _show(Notice('ended', 'Job ended', 'ResNet50.'))"],
        capture_output=True, check=True, env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (b"", b"")
