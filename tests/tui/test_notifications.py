"""A job's start, end and failure are told by terminal and desktop, as the settings say, never in a log's words."""

import pytest

from labtui.domain.model import JobPhase
from labtui.practice.incidents import IncidentNote
from labtui.session import notifications, settings
from labtui.tui.app import LabApp
from tests import changes
from tests.tui.fed_session import accepted, finished_run, live_run, observed, planned, spec, write_log
from tests.tui.waiting import screens, text_of, until

TOKEN = "lt000000000000000fff"


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What goes to the terminal past the screens."""
    sequences: list[str] = []
    monkeypatch.setattr(LabApp, "write_to_terminal", lambda _, sequence: sequences.append(sequence))
    return sequences


async def test_start_and_end_ring_once_and_the_past_does_not(session, messages):
    session.feed(*finished_run("lt000000000000000aaa", "10.5", 1, spec(), "31330"))
    shown, incidents = list[notifications.Notice](), list[IncidentNote]()
    async with screens(session, size=(80, 24), incidents=incidents) as (app, pilot):
        app.notifier.desktop = shown.append
        for status in ("online", "offline"):  # which is seen: labtui connects again in its own time
            session.feed(changes.connection(status, sentence="It broke."))
            incidents.append(IncidentNote("time-limit", "The job was killed at its time limit", ""))
            app._tick()
        assert [each for each, *_ in session.requests] == ["refresh"] and "killed" not in text_of(app)
        await until(pilot, lambda: "The job was killed" in text_of(app), "with what the cluster answered")
        session.feed(planned(TOKEN, "10.5", 2, spec(gpus=2)), accepted(TOKEN, "31331"))
        session.feed(observed(TOKEN, "31331", JobPhase.RUNNING))
        await until(pilot, lambda: len(messages) == 1)
        write_log(session, TOKEN, "error: \x1b]9;owned\x07 a log's own words\n")
        session.feed(observed(TOKEN, "31331", JobPhase.RUNNING, node="n2"))
        session.feed(*finished_run(TOKEN, "10.5", 2, spec(gpus=2), "31331", outcome="oom")[2:])
        await until(pilot, lambda: len(messages) == 2)
        assert [notice.title.split(":")[0] for notice in shown] == ["Job started", "Job failed"]
        assert all(sequence.startswith("\a\x1b]9;") for sequence in messages)
        assert "ResNet50 · 2 GPUs: out of memory" in messages[1] and "31330" not in "".join(messages)
        assert "owned" not in "".join(messages) and "a log's own" not in "".join(messages)


@pytest.mark.parametrize(("how", "rings"), [("terminal", 1), ("off", 0)])
async def test_the_settings_say_how_it_is_told(session, messages, how, rings):
    session.settings = settings.with_changes(session.settings, notifications=how)
    shown: list[notifications.Notice] = []
    async with screens(session, size=(80, 24)) as (app, pilot):
        app.notifier.desktop = shown.append
        session.feed(*live_run("lt000000000000000ddd", "10.5", 1, spec(), "31330", 1))
        await until(pilot, lambda: app.view_model.state is session.state and len(messages) == rings)
        assert not shown


def test_a_name_from_outside_cannot_act_on_the_terminal():
    sequence = notifications.terminal_sequence(notifications.Notice("x\x1b]0;owned\x07", "a;b\\\nc"))
    assert sequence.count("\x1b") == sequence.count(";") == 4 and sequence.count("\a") == 1
    assert sequence.startswith("\a\x1b]9;") and "owned\x07" not in sequence
