"""The command line beside an open window: the window's process acts, the command waits for its answer."""

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from unittest.mock import Mock

import msgspec
import pytest

from labtui.commands import follow, screens
from labtui.commands.terminal import OpenLab
from labtui.domain.errors import CannotConnect, FolderError, LabError
from labtui.session import journal
from labtui.session.journal import Mailbox, Request
from labtui.session.session import Session
from labtui.tui.app import LabApp
from labtui.tui.guidance import status_line
from labtui.tui.view import View
from tests.real_cluster.cluster import wait_until
from tests.session.conftest import Bench, accepted, draft, only
from tests.session.scripted import FakeClock, ScriptedCluster, keras_log
from tests.tui.waiting import text_of, until


@pytest.fixture
def beside(bench: Bench) -> Iterator[Session]:
    """A second process of the same folder, while the first one turns its worker."""
    bench.online()
    bench.session.serve_requests()
    over = threading.Event()

    def turn() -> None:
        while not over.wait(0.01):
            bench.worker.turn()
            bench.clock.sleep(1)

    thread = threading.Thread(target=turn)
    thread.start()
    second = Session.open(bench.path, start=False)
    second.start()
    yield second
    second.close()
    over.set()
    thread.join()


def test_a_command_submits_holds_and_cancels_through_the_open_window(bench, beside, monkeypatch):
    token = beside.submit(draft()).result(0)
    assert list(beside.state.submissions) == [token], "the command sees what it asked for"
    wait_until(lambda: bool(bench.cluster.jobs), what="the job")
    assert [job.token for job in bench.cluster.jobs.values()] == [token], "exactly one job"
    beside.hold(1).result(0)
    beside.hold(1, held=False).result(0)
    beside.end_after(1, 20).result(0)
    assert beside.test_only(draft()).result(0).ok and len(bench.cluster.jobs) == 1, "nothing was sent"
    assert beside.look_at(["/data"]).result(0) == "" and beside.state.paths["/data"].there
    read_at = bench.session.state.refreshed_at
    OpenLab.refresh(lab := Mock(session=beside, state=beside.state))
    wait_until(lambda: beside._reload() or beside.state.refreshed_at != read_at, what="a fresh answer")
    over, now = lab.wait.call_args.args[0], msgspec.structs.replace(beside.state, refreshed_at=None)
    told = {key: over(now.with_problem(key, LabError("No.", ""))) for key in ("log-differs", "queue")}
    assert told == {"log-differs": False, "queue": True}
    assert [job.token for job in beside.my_jobs()] == [token]
    beside.cancel(1).result(0)
    with pytest.raises(LabError, match="no run 7"):
        beside.cancel(7)
    with pytest.raises(LabError, match="No job 4711 of yours"):
        beside.cancel_job("4711")
    monkeypatch.setattr(bench.session, "_running_worker", lambda: {}["a fault"])
    for _ in range(2):
        with pytest.raises(LabError, match="The other labtui failed \\(KeyError\\)"):
            beside.cancel(1)


def test_a_second_process_says_what_the_window_says(bench, beside):
    beside.submit(draft()).result(0)
    wait_until(lambda: only(bench).job is not None, what="the job")
    bench.cluster.reachable = bench.cluster.connected = False
    wait_until(lambda: bench.session.state.connection.status == "offline", what="the outage")
    wait_until(lambda: beside._reload() or beside.state.connection.status == "offline", what="stored")
    late = bench.clock.wall() + 30
    here, there = (View.of(each, now=late).runs[1].word for each in (bench.session, beside))
    assert here == there and here.startswith("unknown since")


def test_a_second_window_says_that_the_first_one_was_closed(bench, beside):
    bench.session._store.lock.release()
    wait_until(lambda: beside.other_closed, what="the end of the window")
    with Session.open(bench.path, start=False) as another:
        another.keep_choice(task="10.5")
        wait_until(lambda: beside.state.choices == {"task": "10.5"}, what="what is stored since")
        assert beside.state.connection == beside.other_closed, "whoever has it now, u opens it again"
    assert "Press u to connect here" in status_line(View.of(beside, now=bench.clock.wall()))[1]
    assert beside.other_closed.since >= bench.session.state.refreshed_at, "not since the queue was read"
    app = LabApp(beside)
    assert not app.why_refused(app, "refresh_now", ()) and "closed" in app.why_refused(app, "export", ())


def test_u_opens_the_folder_of_a_closed_window_as_it_was_and_takes_keys_meanwhile(bench, monkeypatch):
    online, cluster = threading.Event(), ScriptedCluster(FakeClock())
    cluster._call = lambda *_: online.wait(60)
    monkeypatch.setattr("labtui.session.lab_cluster.connection_to", lambda *_: cluster)
    monkeypatch.setattr("labtui.session.settings.is_first_start", lambda: False)

    async def use(app):
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            if app.session.read_only:
                await until(pilot, lambda: app.view_model.loaded and app._notifications)
                app.go_to_task("10.5")
                await pilot.press("c")
                app.clear_notifications()
                monkeypatch.setattr(Session, "refresh", None)  # it would wait for who has ended
                bench.session._store.lock.release()
                await pilot.press("u")
                await until(pilot, lambda: app.return_code is not None or app._notifications)
                return 0
            await until(pilot, lambda: "connecting" in text_of(app))
            assert (app.view.task_id, app.main.pane) == ("10.5", "charts")
            await pilot.press("r")
            await until(pilot, lambda: app.main.pane == "runs" and "connecting" in text_of(app))
            online.set()
            await until(pilot, lambda: "online" in text_of(app))
            return 7

    monkeypatch.setattr(LabApp, "run", lambda app: asyncio.run(use(app)))
    assert screens.show(bench.path) == 7


def test_a_command_that_follows_hands_the_folder_over_to_screens_and_takes_it_again(
    bench, monkeypatch, command
):
    accepted(bench)
    log, at = keras_log(30, 5, 5), len(keras_log(30, 5))
    bench.cluster.write("100", log[:at])
    bench.run(5)
    bench.session.close()
    bench.cluster.write("100", log[at:])
    bench.cluster.end("100")
    bench.cluster.faults["connect"] = [CannotConnect("login1 does not answer.")]
    monkeypatch.setattr(follow, "say", follow.print_line)
    monkeypatch.setattr("labtui.session.lab_cluster.connection_to", lambda *_: bench.cluster)
    read_only, follows, reload = [], threading.Event(), Session._reload
    monkeypatch.setattr(Session, "_reload", lambda session: (follows.set(), reload(session)))

    def open_screens(*_, **takes_over):
        with Session.open(bench.path, start=False, **takes_over) as screens:
            read_only.append(str(screens.why_read_only))
            if not takes_over:  # the command has the folder: the next ones want it
                threading.Thread(target=open_screens, kwargs={"takes_over": True}).start()
            assert not takes_over or follows.wait(30)

    monkeypatch.setattr(Session, "watch_logs", open_screens)
    said = command(["log", "1", "--follow", "--folder", str(bench.path)])
    assert re.match(r"`labtui log` \(process \d+\) has this lab folder open", read_only[0])
    assert read_only[1:] == ["None"] and "The screens that were opened connect now" in said.err
    assert "This one connects now" in said.err
    here, offline, rest = said.out.partition("Offline. login1 does not answer.")
    assert "Epoch 2/5" in here and "Epoch 3/5" not in here and offline and "Epoch 3/5" in rest


def test_a_request_is_taken_once_or_withdrawn_and_an_old_one_never(bench, monkeypatch):
    with monkeypatch.context() as patch, Session.open(bench.path, start=False) as second:
        patch.setattr(journal, "TAKEN_WITHIN_S", 0.2)
        with pytest.raises(FolderError, match="nothing was done"):
            second.submit(draft())
    box = Mailbox(bench.path / "labtui.db")
    assert box.take() is None and not bench.session.state.submissions
    wanted = Request(action="submit", draft=draft(beside=(("a.sh", b"\x00\xff"),)))
    answers = []
    asker = threading.Thread(target=lambda: answers.append(box.ask(wanted)))
    asker.start()
    while (taken := box.take()) is None:
        pass
    assert taken[1] == wanted and box.take() is None
    box.answer(taken[0], "token")
    asker.join()
    assert answers == ["token"]
    monkeypatch.setattr(journal, "TAKEN_WITHIN_S", 0.05)
    monkeypatch.setattr(journal.time, "sleep", lambda _: box.take())  # it takes the request and ends
    with pytest.raises(FolderError, match="took the request and gave no answer"):
        box.ask(wanted, lambda: True)
    now, behind = time.time, iter([0.0])  # this computer's clock is behind: it is deleted unread
    monkeypatch.setattr(journal.time, "time", lambda: next(behind, now()))
    with pytest.raises(FolderError, match="nothing was done"):
        box.ask(wanted, lambda: True)
    monkeypatch.undo()
    monkeypatch.setattr(journal, "TAKEN_WITHIN_S", -1.0)
    with box._open() as db:
        row = (msgspec.json.encode(wanted).decode(),)
        db.execute("INSERT INTO requests (at, request) VALUES (0, ?)", row)
    assert box.take() is None
