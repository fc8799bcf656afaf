"""The title over the log: where the search stands, in words, and the keys that go on."""

import re
import threading

from msgspec.structs import replace

from labtui.domain.model import EpochSample, Interval
from labtui.tui.app import LabApp
from tests import changes
from tests.tui.fed_session import NOW, finished_run, spec, write_log
from tests.tui.waiting import press, screens, text_of, until

LIVE, STAMP = "lt000000000000000ddd", "2026-11-27 07:43:55,123 - INFO - "
SAMPLE = EpochSample(epoch=1, seconds=Interval.around(9.0, 0.1), line=1)


def title(app: LabApp) -> str:
    return text_of(app).splitlines()[4]  # header, task, two rows of tabs, then the log


async def test_the_title_says_where_the_search_stands_and_how_it_goes_on(filled_session):
    text = "".join(f"filler {n}\n" for n in range(60))
    for _ in range(2):
        write_log(filled_session, LIVE, f"{text}:::MLLOG\n{STAMP}the mark\n")
    async with screens(filled_session, "log", size=(80, 24)) as (app, pilot):
        await until(pilot, lambda: re.search(r"\.out .* following", title(app)) and STAMP not in text_of(app))
        assert "z MLPerf lines  / Search " in text_of(app), "its own keys come before those of the run"
        await pilot.press("slash", *"the mark", "enter")
        await until(pilot, lambda: "/the mark  line " in title(app) and "below" not in title(app))
        last = title(app)
        await press(pilot, "n", then=lambda: "lines below (end)" in title(app), what="on upwards")
        await press(pilot, "n", then=lambda: title(app) == last, what="from below again")
        tail = app.main.query_one("#log-view")
        for key in ("home", "z"):  # hidden lines are counted with the others, below as in all
            await pilot.press(key)
            await until(pilot, lambda: f" {134 - tail.size.height} lines below (end)   134 " in title(app))
        assert tail.file.hidden == 0
        whole = r"Run 4, 4 GPUs   /no such wor no…  not found   +\d+ lines below \(end\)$"
        typed = ("slash", *"no such wor " * 4, "enter")
        await press(pilot, *typed, then=lambda: re.search(whole, title(app)), what="only the text is cut")
        await press(pilot, "z", then=lambda: "not found in the lines shown" in title(app), what="others")
        app.choose_run(3)
        await until(pilot, lambda: "Run 3" in title(app) and "no such" not in title(app))
        await press(
            pilot, "o", then=lambda: ".out" not in title(app) and "Nothing was printed" in text_of(app)
        )
        app.choose_run(2)
        await until(pilot, lambda: "Run 2" in title(app) and "14 lines" in title(app))
        await until(pilot, lambda: re.search(r"(?s)warm-up *\n.* 13.6 s *\n", text_of(app)))
        filled_session.feed(changes.planned("no", {9: spec()}), changes.status("no", "refused", "No [QoS]."))
        app.choose_run(9)
        await until(pilot, lambda: "This run has no log. No [QoS]." in text_of(app))
        app.go_to_task("10.1")
        await until(pilot, lambda: "needs no run" in text_of(app) and "The log appears" not in text_of(app))


async def test_a_log_of_several_runs_says_whose_each_epoch_is(session):
    one, two = spec(gpus=1), spec(gpus=2)
    session.feed(changes.planned("lt1", {1: one, 2: two}, NOW - 4000, task_id="10.5", job_name="ab", gpus=2))
    session.feed(changes.accepted("lt1", "7", NOW - 3900))
    for number in (1, 2):
        session.feed(changes.started(number, images=50_000, framework="Keras"))
        epochs = (replace(SAMPLE, epoch=each, line=4 * number + each) for each in (1, 2))
        session.feed(*(changes.epoch(number, each) for each in epochs))
    write_log(session, "lt1", "".join(f"{':::MLLOG ' * (at == 10)}line {at}\n" for at in range(1, 13)))
    async with screens(session, "log") as (app, pilot):
        app.choose_run(2)
        await until(pilot, lambda: "with run 1" in text_of(app))
        ends = {row.split("line ")[1].split()[0]: row for row in text_of(app).splitlines() if " line " in row}
        assert ends["6"].rstrip().endswith("run 1  9.00 s")
        assert ends["9"].rstrip().endswith("   9.00 s, line 10"), "the record's own line, which is hidden"
        await pilot.resize_terminal(44, 24)
        await until(pilot, lambda: app.main.size.width == 44 and ".out" not in title(app))
        assert "Run 2, 2 GPUs   with run 1 " in title(app) and "…" not in title(app), "nothing is cut"


async def test_states_that_stream_are_painted_seldom_and_the_last_one_always(filled_session, monkeypatch):
    monkeypatch.setattr(LabApp, "_tick", lambda app: None)  # the clock paints, too
    async with screens(filled_session, "log", size=(80, 24)) as (app, pilot):
        await until(pilot, lambda: "following" in text_of(app) and app.view_model.checks)
        await until(pilot, lambda: app.view_model.state is filled_session.state and app.main.view.checks)
        await pilot.pause()
        painted = []
        repaint = app.repaint
        monkeypatch.setattr(app, "repaint", lambda: (painted.append(app.view_model.state), repaint()))
        rested = threading.Event()
        monkeypatch.setattr(app._left, "wait", lambda _: rested.wait())
        filled_session.feed(changes.grown(LIVE, 10_000))
        await until(pilot, lambda: painted and painted[-1] is filled_session.state)
        for size in range(10_001, 10_030):
            filled_session.feed(changes.grown(LIVE, size))
            await pilot.pause()
        assert len(painted) == 1, "the first of them at once, the others have to wait"
        rested.set()
        await until(pilot, lambda: len(painted) == 2)
        assert painted[-1] is filled_session.state is app.main.view.state
        assert not app.view_model.check_tasks(app.view_model.state), "no box depends on how long a log is"


async def test_a_run_whose_job_went_on_opens_at_its_own_end(session):
    """Three runs write one log: the first is shown where it ended, the last one at the end, followed."""
    token = "lt000000000000000abc"
    news = finished_run(token, "10.5", 1, spec(gpus=1), "31340")
    logs = {"form": "one-job", "remote_logs": {"out": "x.%j.out"}}
    plan = changes.planned(token, {number: spec(gpus=number) for number in (1, 2, 4)}, NOW - 4000, **logs)
    line = 90
    session.feed(plan, *news[1:], changes.ended(1, "oom"), changes.started(2, first_line=line + 1))
    write_log(session, token, "".join(f"text {n}\n" for n in range(1, line + 200)))
    async with screens(session, "log", size=(80, 24)) as (app, pilot):
        app.view_model.choose_task("10.5")
        app.choose_run(1)
        await until(pilot, lambda: "Run 1" in title(app) and "lines below (end)" in title(app))
        assert re.search(rf"text {line}\n.* text {line + 1} .* run 2 begins", text_of(app))
        assert f"text {line + 5}" not in text_of(app)
        app.view_model.chosen, app.view_model.reading = None, 1
        assert [app.view_model.view().run_id for _ in range(2)] == [1, 1], "as it was opened"
        app.choose_run(2)
        await until(pilot, lambda: "Run 2" in title(app) and f"text {line + 199}" in text_of(app))
        app.view_model.chosen, app.view_model.reading = None, 2
        app.repaint()
        tail = app.main.query_one("#log-view")
        await press(pilot, "home", then=lambda: not tail.follow)
        session.feed(changes.started(4, first_line=line + 100))
        await until(pilot, lambda: app.view.runs[4].run.started)
        assert app.view.run_id == 2, "whose lines are shown"
        await press(pilot, "end", then=lambda: "Run 4" in title(app), what="whose lines come")
        app.view_model.chosen = 4
        await pilot.resize_terminal(120, 40)
        await pilot.press("r")
        await until(pilot, lambda: f"text {line + 199}" in text_of(app) and "of runs 1, 2" in text_of(app))
        app.choose_run(1)
        own = f"text {line}"
        await until(pilot, lambda: own in text_of(app) and f"text {line + 5}" not in text_of(app), "beside")
