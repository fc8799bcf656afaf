"""The top line at every width: whose account and which queue are said before anything is said twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from labtui.domain.events import AnyEvent, ConnectionChanged, OtherJobsSeen, Refreshed
from labtui.domain.model import JobPhase, OtherJob
from labtui.tui.app import LabApp
from tests.tui.fed_session import HOST, NOW, FedSession, lab_session, make_folder, open_session
from tests.tui.waiting import text_of, until


@pytest.fixture
def rehearsal(tmp_path: Path) -> FedSession:
    make_folder(tmp_path / "rehearsal", practice=True)
    opened = open_session(tmp_path / "rehearsal", start=False)
    opened.requests = []
    lab_session(opened, practice=True)
    return opened


async def top_line(session: FedSession, width: int, factor: float | None = None) -> str:
    app = LabApp(session, clock=lambda: NOW, pane="log", factor=factor)
    async with app.run_test(size=(width, 24)) as pilot:
        await until(pilot, lambda: app.view_model.loaded and "7/7 - " in text_of(app))
        return text_of(app).splitlines()[0]


@pytest.mark.parametrize("width", [80, 90, 100, 120])
async def test_a_rehearsal_names_account_and_qos_and_says_practice_once(
    rehearsal: FedSession, width: int
) -> None:
    line = await top_line(rehearsal, width, 20.0)
    assert "nct_345 · acc_debug " in line
    assert "mn5" not in line, "the badge says which cluster it is"
    assert line.count("practice ") == 1
    assert "Chapter 10 " in line and "● online, 2 s ago" in line and "GPU-h" in line
    assert "practice 20×" in line
    rehearsal.close()


async def test_a_cluster_has_its_name_and_the_lab_its_title_where_there_is_room(
    filled_session: FedSession,
) -> None:
    assert " labtui  Chapter 10  mn5 · nct_345 · acc_debug " in await top_line(filled_session, 80)
    wide = await top_line(filled_session, 160)
    assert "Chapter 10: introduction to parallel training of neural networks   mn5 · nct_345" in wide


@pytest.mark.parametrize("width", [20, 40, 60, 70])
async def test_a_narrow_line_is_cut_and_never_longer_than_the_screen(
    filled_session: FedSession, width: int
) -> None:
    assert len(await top_line(filled_session, width)) <= width


async def test_no_jobs_is_said_only_as_of_a_queue_that_held_none(session: FedSession) -> None:
    mine = OtherJob(job_id="99", name="[b]other", phase=JobPhase.QUEUED)
    app = LabApp(session, clock=lambda: NOW)
    async with app.run_test(size=(80, 24)) as pilot:

        async def output(*events: AnyEvent) -> str:
            session.feed(*events)
            await until(pilot, lambda: app.main.view_state.state is session.state)
            await pilot.pause()
            return text_of(app).splitlines()[0]

        await until(pilot, lambda: app.view_model.loaded)
        online = ConnectionChanged(at=NOW, status="online", host=HOST)
        assert "no jobs" not in await output(online), "nobody has asked yet"
        assert "● online, no jobs" in await output(Refreshed(at=NOW - 2))
        line = await output(OtherJobsSeen(at=NOW, jobs=(mine,)), Refreshed(at=NOW - 1))
        assert "● online, 1 other job, 1 s ago" in line
        old = (OtherJobsSeen(at=NOW, jobs=()), Refreshed(at=NOW - 500))
        assert "● online, 8 min ago" in await output(*old)
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: "● online, no jobs 8 min ago" in text_of(app))
